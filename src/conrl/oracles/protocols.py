"""The two protocols of an oracle, what an exact one answers, and what exact ones of a model share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from conrl.model import ConstrainedMDP
from conrl.policy import Policy

Float = NDArray[np.float64]

TIE = 4e-15  # times H times the largest pay of one step: what rounding may make of two equal actions


class Support(NamedTuple):
    """The answer to one direction w."""

    value: float  # max over z in Z of w.z
    point: Float  # [1+d]: a maximiser
    mean: Float  # [1+d]: the value vector of its policy without bonus
    make_policy: Callable[[], Policy]

    @property
    def policy(self) -> Policy:
        """A deterministic policy that attains `point`."""
        return self.make_policy()


class Supports(NamedTuple):
    """Answers to m directions, without their policies."""

    values: Float  # [m]
    points: Float  # [m, 1+d]
    means: Float  # [m, 1+d]


class SupportOracle(Protocol):
    """Exact: the support function of the set Z of value vectors."""

    @property
    def num_costs(self) -> int: ...

    @property
    def scale(self) -> Float:
        """[1+d]: the largest size of each coordinate's pay in one step."""
        ...

    def support(self, w: Float) -> Support: ...

    def support_many(self, directions: Float) -> Supports: ...

    def policy(self, w: Float) -> Policy: ...


class Responder(Protocol):
    """Approximate: a policy that does well for w, with nothing proven."""

    def respond(self, w: Float) -> Policy: ...


class ModelOracle(ABC):
    """A `SupportOracle` of a model whose pairs pay `pay` [P, 1+d], give or take `bonus` [P, 1+d]."""

    def __init__(self, mdp: ConstrainedMDP, pay: Float, bonus: Float | None) -> None:
        self.mdp = mdp
        self._pay, self._bonus = pay, bonus
        scale: Float = np.abs(pay).max(axis=0)
        self._scale: Float = scale if bonus is None else scale + bonus.max(axis=0)

    @property
    def num_costs(self) -> int:
        return self.mdp.num_costs

    @property
    def scale(self) -> Float:
        """[1+d]: the largest size of each coordinate's pay in one step; |z_i| <= H * scale_i."""
        return self._scale

    @property
    def box(self) -> tuple[Float, Float]:
        """[1+d] each: between these lies every value vector."""
        spread = 0.0 if self._bonus is None else self._bonus
        H = self.mdp.horizon
        return H * (self._pay - spread).min(axis=0), H * (self._pay + spread).max(axis=0)

    def support(self, w: Float) -> Support:
        """The largest w.z, a z that attains it, and its policy (made when asked for)."""
        values, points, means = self.support_many(np.asarray(w, dtype=np.float64)[None])
        return Support(float(values[0]), points[0], means[0], lambda: self.policy(w))

    @abstractmethod
    def support_many(self, directions: Float) -> Supports:
        """Answers to the rows of `directions` [m, 1+d]."""

    @abstractmethod
    def policy(self, w: Float) -> Policy:
        """A deterministic policy that attains support(w)."""

    def _tie(self, w: Float) -> float:
        """Actions within so much of each other tie: to the lowest index."""
        return TIE * self.mdp.horizon * float(np.abs(w) @ self._scale)

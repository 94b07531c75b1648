"""The two protocols of an oracle, and what an exact one answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from conrl.policy import Policy

Float = NDArray[np.float64]


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

"""The two protocols of an oracle, what an exact one answers, and what exact ones of a model share."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from conrl._types import Arrays, Bool, Float, Int
from conrl.model import ConstrainedMDP
from conrl.model.reading import ROW_SUM_TOLERANCE
from conrl.policy import Policy
from conrl.rounding import HALF_ULP, TINY

TIE = 4e-15  # times H times the largest pay of one step: how far apart rounding may put two equal actions


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


class LineRows(NamedTuple):
    """R rows on one cost:  sign * z[1 + cost] <= bound, of which `aim` is how far they may be exceeded."""

    cost: Int  # [R]
    sign: Float  # [R]
    bound: Float  # [R]
    aim: Float  # [R]


class Supports(NamedTuple):
    """Answers to m directions, without their policies."""

    values: Float  # [m]
    points: Float  # [m, 1+d]
    means: Float  # [m, 1+d]
    skips: Bool | None = None  # [m]: which of them the null action gives; None where there is none


class Edge(NamedTuple):
    """The optimum within rows on one cost: `share` of the column `high`, which exceeds the bound `h` of row `r`, and
    the rest of `low`, which does not; `high` alone, if `low` is -1.

    In a conflict no column keeps row r: `bound` is by how much each exceeds it.
    """

    conflict: bool
    asked: int
    sweeps: int
    r: int
    h: float
    high: int
    low: int
    share: float
    bound: float
    price: float
    directions: Float  # [asked, 1+d]
    columns: Supports  # the answers to them
    make_policies: tuple[Callable[[], Policy], Callable[[], Policy]]  # of high and low


class Rounding(NamedTuple):
    """Proven bounds on what rounding does to a value vector, coordinate by coordinate.

    A computed support(w).value is off by at most |w| . support, a computed point by at most `point`.
    """

    support: Float  # [1+d]
    point: Float  # [1+d]


@runtime_checkable
class SupportOracle(Protocol):
    """Exact up to rounding, which is bounded: the support function of the set Z of value vectors."""

    num_costs: int
    horizon: float  # how many steps count, so that |z_i| <= horizon * scale_i
    scale: Float  # [1+d]: the largest size of each coordinate's pay in one step
    curved: bool = False  # whether the vertices of Z lie so close that its surface bends like that of a smooth body

    def rounding(self, sharp: bool = False) -> Rounding:
        """How far answers may be off; `sharp`: with the largest expected totals, at the price of a sweep."""
        ...

    def support_error(self, w: Float, value: float) -> float:
        """How far support(w), computed as `value`, may be off: at most |w| . `rounding`."""
        return float(np.abs(w) @ self.rounding(sharp=True).support)

    def point_error(self, w: Float) -> Float:
        """[1+d]: how far the point that answers w may be off: at most `rounding`, and less if its policy pays less than
        others would."""
        return self.rounding(sharp=True).point

    def strict(self) -> SupportOracle:
        """The same oracle without a tolerance for ties: more directions may be needed, but its answers are the best."""
        ...

    def support(self, w: Float) -> Support:
        """The largest w.z, a z that attains it, and its policy (made when asked for)."""
        answer = self.support_many(np.asarray(w, dtype=np.float64)[None])
        return Support(float(answer.values[0]), answer.points[0], answer.means[0], lambda: self.policy(w))

    def support_many(self, directions: Float) -> Supports:
        """Answers to the rows of `directions` [m, 1+d]."""
        ...

    def policy(self, w: Float) -> Policy:
        """A deterministic policy that attains support(w)."""
        ...

    def edge(
        self, a: Float, rows: LineRows, begin: Float, tol: float, most: int, relax: bool, null: bool = False
    ) -> Edge | None:
        """The whole search of `conrl.planners.column_generation.line` in one call, with at most so many sweeps; None
        where an oracle has none. With `null`, an episode may be skipped."""
        return None


@runtime_checkable
class Responder(Protocol):
    """Approximate: a policy that does well for w, with nothing proven."""

    def respond(self, w: Float) -> Policy: ...


@runtime_checkable
class Trained(Responder, Protocol):
    """A `Responder` that learns while it is asked."""

    def finish(self, w: Float) -> Policy:
        """The answer to the last question, trained for longer."""
        ...

    def learned(self) -> Arrays:
        """What it has learned, for the one that goes on from there."""
        ...


@runtime_checkable
class Trainer(Protocol):
    """Makes a `Trained` responder of a model from what an earlier one had learned; None at first."""

    def resume(self, mdp: ConstrainedMDP, learned: Arrays | None) -> Trained: ...


class ModelOracle(SupportOracle):
    """The oracle of a model. `pay` [P, 1+d] is the reward and the costs of each pair, give or take `bonus` [P, 1+d].

    `operations`: how many of them, one after the other, lead from the pay to a support value, and to a point.
    """

    _tie_unit = TIE

    def __init__(self, mdp: ConstrainedMDP, pay: Float, bonus: Float | None, operations: tuple[int, int]) -> None:
        self.mdp, self.num_costs = mdp, mdp.num_costs
        self.horizon: Any = mdp.horizon  # an oracle of a model without a horizon replaces it
        self._pay, self._bonus = pay, bonus
        self._operations = operations
        scale: Float = np.maximum(np.abs(pay.min(axis=0)), np.abs(pay.max(axis=0)))  # no copy as large as the pay
        self.scale = scale if bonus is None else scale + bonus.max(axis=0)

    @property
    def box(self) -> tuple[Float, Float]:
        """[1+d] each: between these lies every value vector."""
        spread = 0.0 if self._bonus is None else self._bonus
        H = self.horizon
        return H * (self._pay - spread).min(axis=0), H * (self._pay + spread).max(axis=0)

    @cached_property
    def _sizes(self) -> Float:
        """[P, 1+d]: the largest size of each pair's pay."""
        sizes = np.abs(self._pay)
        return sizes if self._bonus is None else sizes + self._bonus

    @property
    def _ties(self) -> Float:
        """[1+d]: actions that are |w| . this close to each other tie, and the one with the lowest index is taken."""
        return np.asarray(self._tie_unit * self.horizon * self.scale)

    def _tie(self, w: Float) -> float:
        return sum((abs(x) * tie for x, tie in zip(w.tolist(), self._ties.tolist(), strict=True)), 0.0)

    def rounding(self, sharp: bool = False) -> Rounding:
        """Each total is a sum of products, so that it is off by at most (operations on the way) x 2^-53 x (the expected
        total of the *sizes* of what is added): at most H x the largest one-step pay; `sharp`: the true maximum.

        One percent covers the products of two errors; probabilities that add up to more than 1 are in the totals.
        """
        backward, forward = self._operations
        H = self.horizon
        unit = 1.01 * HALF_ULP * math.exp(ROW_SUM_TOLERANCE * H)
        if sharp:
            totals = self._largest_totals()
            lost = TINY * forward * (1.0 + self.scale)  # of probabilities, where pay is large
            return Rounding(backward * unit * totals, forward * unit * totals + lost)
        return Rounding(backward * unit * H * self.scale, forward * unit * H * self.scale + TINY * forward)

    def error_of(self, sizes: Float) -> Float:
        """[1+d]: how far a value vector may be off whose policy is paid `sizes` [1+d] in all, signs left out."""
        return self.rounding(sharp=True).point

    def _largest_totals(self) -> Float:
        """[1+d]: the largest expected total of the size of each coordinate's pay, or an upper bound on it."""
        return float(self.horizon) * self.scale

    def strict(self) -> Self:
        """The same oracle, in which an action replaces an earlier one if it is better at all."""
        oracle = copy.copy(self)
        oracle._tie_unit = 0.0
        return oracle

"""Shadow prices, and how far they hold: the best reward around the limits that a plan was made for.

    v(h) = max { a.z : z in Z, G z <= h }

is concave and piecewise linear in the limits h, so that at a corner it has two slopes: what a little more of a limit
gains, which is its price, and what a little less costs. They are the least and the largest multiplier of that row among
all that prove v(h); which of these column generation ends with is chance. (One deterministic policy that just uses a
limit is a corner, and so round limits often are.)

Each slope is found on the edge of v that begins at h. Of any point z beyond h that keeps the other rows, the chord

    s(z) = (a.z - v(h)) / (g.z - h)

is at most as steep as that edge, if z uses more than h, and at least as steep, if it uses less. So from a far point on,
the best of a - s g within the other rows is either above the chord, and takes its place, or there is none: then the
chord is the edge, and z its end, being the best for another slope as well (Dinkelbach 1967; Newton's method on v).

Where h lies well within an edge of all rows at once, one plane passes through the points that are mixed, and its slopes
are those of v, if the oracle finds no point above it: so it is at most limits. What the plan's tolerance leaves open is
settled first: a corner may be nearer than that resolves.

What counts as h. v(h) is known to rounding, which is left to the chords. A point that uses more or less than h by no
more than the row's allowance (`conrl.planners.allowance`) is at h, and the chord begins there: an edge no wider than
that has no slope. An edge that gains no more than rounding in all may be missed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from conrl._types import Arrays, Float
from conrl.errors import InfeasibleError, SpecError
from conrl.model import ConstrainedMDP
from conrl.model.fleet import Fleet
from conrl.notebook import Columns, Display, Displayed, Framed
from conrl.oracles import SupportOracle, WithNullAction, exact_oracle
from conrl.planners.allowance import Allowance
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Met, Optimum
from conrl.planners.fleet_plan import FleetPlan
from conrl.planners.result import Checked, Plan, tolerance_of
from conrl.problem import Knapsack, Linear, Problem, Rows
from conrl.wording import line

TOL = 1e-9  # of the plans
SEVERAL = 8.0  # times what rounding may do: to there an optimum is sought
MOST_CHORDS = 1000  # each takes the place of one; a safeguard against rounding
SLOPE, DIFFERENCE = "slope", "difference"


class LimitSensitivity(NamedTuple):
    """A limit or a floor: what moving it would change. All bounds as the limit is written, a floor's falling if it is
    loosened."""

    name: str  # such as "crash <= 0.3"
    bound: float
    gain: float  # per unit, if it is loosened; of a linear row its price
    gain_to: float  # the bound up to which; infinite if without end
    loss: float  # per unit, if it is tightened; inf if it cannot be
    loss_to: float  # the bound down to which
    tightest: float  # the bound that can just be met with the others kept; nan if unknown
    one_more: float  # the gain if it is loosened by one whole unit
    kind: str = SLOPE  # or DIFFERENCE: gain and loss are those of a whole unit more and less, as it is no linear row


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Displayed, Framed):
    """What moving each limit and floor alone would change: `rows`, a `LimitSensitivity` for each.

    As a data frame: `limit`, `bound`, `gain`, `gain_to`, `loss`, `loss_to`, `tightest`, `one_more`, `kind`.
    """

    rows: tuple[LimitSensitivity, ...]

    def __repr__(self) -> str:
        return line(self, *(f"{row.name}: gain {row.gain:.6g}, loss {row.loss:.6g}" for row in self.rows))

    def _columns(self) -> Columns:
        titles = ("limit", *LimitSensitivity._fields[1:])
        return {title: [row[i] for row in self.rows] for i, title in enumerate(titles)}

    def _display(self) -> Display:
        stuck = [f"{row.name} cannot be tightened" for row in self.rows if np.isinf(row.loss)]
        steps = [f"{row.name}: for a whole unit, planned again" for row in self.rows if row.kind == DIFFERENCE]
        return Display("Sensitivity of the best reward", self._columns(), (*stuck, *steps))


class Pricing(Protocol):
    """What computes the prices of a plan's rows, and their sensitivity."""

    def prices(self) -> Float:
        """[R]."""
        ...

    def sensitivity(self) -> Sensitivity: ...


@dataclass(frozen=True, eq=False)
class LinearPricing:
    """Prices and sensitivity of linear rows, by column generation.

    `columns`: the weights and points that are mixed, if they are an optimum, to `TOL`, with these multipliers and this
    bound. Else, or if that is too coarse, it is found anew.
    """

    model: ConstrainedMDP | Fleet
    problem: Problem | None  # None of a fleet
    checked: Checked
    multipliers: Float  # [R]
    bound: float
    columns: tuple[Float, Float] | None = None
    start: Arrays | None = None
    threads: int | None = None
    names: tuple[str, ...] | None = None  # of the rows, where they are called otherwise

    def prices(self) -> Float:
        """[R]. One direction where no corner is near; none without rows."""
        return self._near().prices() if self.multipliers.size else self.multipliers

    def sensitivity(self) -> Sensitivity:
        return Sensitivity(self._near().sensitivities(self.names or self.checked.rows.names))

    @property
    def bound_model(self) -> ConstrainedMDP | Fleet:
        """What the rows are on: the model, with a cost more for each limit on a single step."""
        if isinstance(self.model, ConstrainedMDP) and isinstance(self.problem, Linear):
            return self.problem.bind(self.model)[0]
        return self.model

    def _near(self) -> _BestReward:
        model: Any = self.bound_model
        oracle = exact_oracle(model, self.threads)
        if isinstance(self.problem, Knapsack):  # an episode may be skipped
            oracle = WithNullAction(oracle)
        rows, _, allowance = self.checked
        mixed = None
        if self.columns is not None:
            mixed = _Mixture(*self.columns, self.multipliers, self.bound, allowance)
        return _BestReward(oracle, rows, mixed, self.start)


class _Mixture(NamedTuple):
    """An optimum, as it is known."""

    weights: Float  # [n]
    points: Float  # [n, 1+d]
    multipliers: Float  # [R]
    bound: float
    allowance: Float  # [R]


class _Edge(NamedTuple):
    """An edge of v from h on."""

    slope: float  # inf where v ends
    end: float  # the bound up to which it goes
    last: float  # the bound beyond which v is constant or, where it is tightened, minus infinity


class _BestReward:
    """v around the limits, from the optimum within them on."""

    def __init__(self, oracle: SupportOracle, rows: Rows, mixed: _Mixture | None, start: Arrays | None) -> None:
        self.oracle, self.rows, self.columns = oracle.strict(), rows, Met()
        self.a, self.G = np.eye(1 + oracle.num_costs)[0], rows.matrix(oracle.num_costs)
        rounding = oracle.rounding()
        self._rounding = rounding.support + rounding.point
        mixed = mixed or self._optimum(TOL, start)
        doubt, only = self._doubt(self.a - mixed.multipliers @ self.G), self._only(mixed)
        if only is None and mixed.bound - mixed.weights @ mixed.points @ self.a > doubt:
            size = tolerance_of(1.0, mixed.bound, self._largest(self.a))
            mixed = self._optimum(_fraction(SEVERAL * doubt, size), start)
            only = self._only(mixed)
        mean = mixed.weights @ mixed.points
        self.gain, self.allowance, self.unique = float(mean[0]), mixed.allowance, only is not None
        self.multipliers = mixed.multipliers if only is None else only
        self.doubt = doubt if self.unique else max(mixed.bound - self.gain, 0.0)
        # What is used above a bound, within its allowance or as it cannot be kept, is the bound.
        self.h = np.maximum(rows.bound, self.G @ mean)
        self._allowance = Allowance(self.oracle, rows)

    def _optimum(self, tol: float, start: Arrays | None) -> _Mixture:
        found = maximise(self.oracle, self.a, self.rows, tol=tol, columns=self.columns, start=start, relax=True)
        assert found.allowance is not None
        return _Mixture(found.weights, found.points, found.multipliers, found.bound, found.allowance)

    def _only(self, mixed: _Mixture) -> Float | None:
        """[R]: the only multipliers that prove a mixture to be an optimum to rounding; None if there may be others.

        Where a mixture of the same points keeps the rows that bind moved by their allowance, only one plane passes
        through these points. If none lies above it, v is linear around h, and its slopes are those of the plane.
        """
        slopes = self._plane(mixed)
        if slopes is not None:
            w = self.a - slopes @ self.G
            value = float(self.oracle.support_many(w[None]).values[0])
            if value - float((mixed.points @ w).min()) > self._doubt(w):
                return None
        return slopes

    def _plane(self, mixed: _Mixture) -> Float | None:
        """[R]: the slopes of the only plane through points, if a mixture has room in it; by their differences, so that
        what all earn does not matter."""
        weights, points, _, _, allowance = mixed
        rows, uses, gains = self.rows, points @ self.G.T, points @ self.a
        tight = np.flatnonzero(rows.bound - weights @ uses <= allowance)
        once = tight[np.unique(rows.cost[tight], return_index=True)[1]]  # a limit and a floor at once are one row
        if weights.size != 1 + once.size:
            return None
        try:
            inverse = np.linalg.inv((uses[1:] - uses[0])[:, once])
        except np.linalg.LinAlgError:
            return None
        moves = inverse.T * allowance[once]
        if (weights[1:, None] <= np.abs(moves)).any() or (weights[0] <= np.abs(moves.sum(axis=0))).any():
            return None
        of_costs, slopes = np.zeros(self.oracle.num_costs), np.zeros(rows.size)
        of_costs[rows.cost[once]] = rows.sign[once] * (inverse @ (gains[1:] - gains[0]))
        slopes[tight] = np.maximum(rows.sign[tight] * of_costs[rows.cost[tight]], 0.0)
        return slopes

    def _doubt(self, w: Float) -> float:
        """What rounding alone can do to w.z."""
        return float(np.abs(w) @ self._rounding)

    def _largest(self, w: Float) -> float:
        return float(self.oracle.horizon * (np.abs(w) @ self.oracle.scale))

    def prices(self) -> Float:
        """[R]: what each row gains, loosened."""
        if self.unique:
            return self.multipliers
        return np.array([self.edge(r, 1.0).slope if self.multipliers[r] > 0.0 else 0.0 for r in range(self.h.size)])

    def sensitivities(self, names: tuple[str, ...]) -> tuple[LimitSensitivity, ...]:
        """Both slopes of each row."""
        prices = self.prices()
        return tuple(self._sensitivity(r, name, float(prices[r])) for r, name in enumerate(names))

    def _sensitivity(self, r: int, name: str, price: float) -> LimitSensitivity:
        more, less, sign = self.edge(r, 1.0), self.edge(r, -1.0), float(self.rows.sign[r])
        one, loss = price, price if self.unique and np.isfinite(less.slope) else less.slope
        if more.end < self.h[r] + 1.0:
            wider = self.rows.at(self.h + np.eye(self.h.size)[r])
            one = max(self._best(self.a, wider, self.gain).objective - self.gain, 0.0)
        bound, room = float(self.rows.bound[r]), float(self.allowance[r])
        ends = (bound if abs(end - bound) <= room else end for end in (more.end, less.end, less.last))
        gain_to, loss_to, tightest = (sign * end + 0.0 for end in ends)  # no -0.0
        return LimitSensitivity(name, sign * bound, price, gain_to, loss, loss_to, tightest, one)

    def edge(self, r: int, side: float) -> _Edge:
        """The edge of v along row r, loosened (side +1) or tightened (-1)."""
        g, apart = self.G[r], np.arange(self.h.size) != r
        others = self.rows.at(self.h).select(apart)
        start, gain = float(self.h[r]), self.gain
        far = self._best(self.a, others, gain) if side > 0.0 else self._best(-g, others, start, False)
        end, top = self._place(far, g)
        bought = self._bought(far, others)
        if side < 0.0:
            room = self._room(r, far) + float(far.multipliers @ self.allowance[apart])
            last = end = min(end + bought, start)
            if start - end <= room:
                return _Edge(np.inf, start, start)
            if gain - top <= self.doubt:
                return _Edge(0.0, end, last)
        else:
            last = end
            if end - start <= self._room(r, far) or top - bought - gain <= self.doubt:
                return _Edge(0.0, np.inf, last)
        slope, fine = 0.0, False  # to rounding only where the usual tolerance finds no point above
        for _ in range(MOST_CHORDS):
            slope = max(0.0, (top - gain) / (end - start))
            found = self._best(self.a - slope * g, others, gain - slope * start, fine)
            use, reward = self._place(found, g)
            above = reward - gain - slope * (use - start)
            if not above > self.doubt + found.bound - found.objective + self._bought(found, others):
                if fine:
                    break
                fine = True
            elif side * (use - start) <= self.allowance[r]:
                start, gain = use, reward
            else:
                end, top = use, reward
        return _Edge(slope, end if slope > 0.0 or side < 0.0 else np.inf, last)

    def _best(self, direction: Float, rows: Rows, value: float, fine: bool = True) -> Optimum:
        """The best of a direction, whose value is about that large: to rounding, or to the usual tolerance."""
        if not fine:
            return maximise(self.oracle, direction, rows, tol=TOL, columns=self.columns)
        kept = self.multipliers[:, None] * self.G
        doubt = self._doubt(np.abs(direction) + np.abs(kept).sum(axis=0))
        tol = _fraction(SEVERAL * doubt, tolerance_of(1.0, value, self._largest(direction)))
        return maximise(self.oracle, direction, rows, tol=tol, columns=self.columns)

    def _place(self, found: Optimum, g: Float) -> tuple[float, float]:
        """What a mixture uses of a row, and its reward."""
        point = found.weights @ found.points
        return float(g @ point), float(self.a @ point)

    def _room(self, r: int, found: Optimum) -> float:
        """The allowance of a row: that of the optimum or, if it is larger, of another mixture."""
        if not self._allowance.by_point:
            return float(self.allowance[r])
        error = found.weights @ np.array([self.oracle.point_error(w) for w in found.directions])
        return max(float(self.allowance[r]), float(self._allowance.of(error).stated[r]))

    def _bought(self, found: Optimum, rows: Rows) -> float:
        """What a mixture gains by exceeding rows within their allowance."""
        use = rows.sign * (found.weights @ found.points)[1 + rows.cost]
        return float(found.multipliers @ np.maximum(use - rows.bound, 0.0))


def _fraction(part: float, of: float) -> float:
    """A tolerance in proportion, and at most the usual one."""
    return min(TOL, part / of) if of > 0.0 else TOL


# -- of a plan --------------------------------------------------------------------------------------------


def pricing_of(plan: Plan | FleetPlan, threads: int | None = None) -> Pricing:
    """What computes the prices of a plan; of a fleet's with the threads that it was planned with."""
    if isinstance(plan, FleetPlan):
        start, threads = {"directions": plan.directions, "multipliers": plan.multipliers}, plan.oracle.threads
        return LinearPricing(
            plan.fleet, None, plan.checked, plan.multipliers, plan.bound, _settled(plan), start, threads
        )
    if plan.pricing is not None:
        known: Pricing = plan.pricing
        return known
    if plan.checked is None:
        raise SpecError("sensitivity covers limits and floors, not constraint functions; see plan.multipliers")
    bound = np.inf if plan.bound is None else float(plan.bound)
    found = LinearPricing(
        plan.mdp, plan.problem, plan.checked, plan.multipliers, bound, _settled(plan), plan.start, threads
    )
    return DeterministicPricing(found) if plan.deterministic else found


def _settled(plan: Plan | FleetPlan) -> tuple[Float, Float] | None:
    """The columns of a plan, if no better plan is to be had."""
    closed = plan.status == "optimal" and plan.gap <= TOL * max(1.0, abs(plan.objective))
    return plan.columns if closed else None


@dataclass(frozen=True, eq=False)
class DeterministicPricing:
    """Sensitivity of one deterministic policy: the best reward is a step function of the limits, so that they are
    differences of exact plans. The prices are those of the best mixture."""

    mixed: LinearPricing

    def prices(self) -> Float:
        return self.mixed.prices()

    def sensitivity(self) -> Sensitivity:
        from conrl.planners.deterministic.planner import plan_deterministic  # that few need

        model, rows = self.mixed.bound_model, self.mixed.checked.rows
        assert isinstance(model, ConstrainedMDP)
        signed = (rows.sign * rows.bound).tolist()

        def planned(r: int, units: float) -> float:
            moved = rows.at(rows.bound + units * np.eye(rows.size)[r])
            return plan_deterministic(model, Linear(*moved.bounds(model.num_costs))).objective

        objective = planned(0, 0.0) if rows.size else 0.0  # the plan's own may be coarser
        each = zip(rows.names, signed, strict=True)
        return Sensitivity(
            tuple(difference(name, bound, objective, partial(planned, r)) for r, (name, bound) in enumerate(each))
        )


def difference(name: str, bound: float, objective: float, planned: Callable[[float], float]) -> LimitSensitivity:
    """What moving a limit that is no linear row changes: `planned` is the best reward with so many units more."""
    more, less = planned(1.0) - objective, np.inf
    with suppress(InfeasibleError):
        less = objective - planned(-1.0)
    return LimitSensitivity(name, bound, more, np.nan, less, np.nan, np.nan, more, DIFFERENCE)

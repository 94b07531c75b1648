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

What counts as h. v(h) is known to a gap, which is left to the chords. A point that uses more or less than h by no more
than the row's allowance (`conrl.planners.allowance`) is at h, and the chord begins there: an edge no wider than that
has no slope. Of several rows, an edge that gains less than `TOL` in all may be missed.
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
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Met, Optimum
from conrl.planners.fleet_plan import FleetPlan
from conrl.planners.result import Checked, Plan
from conrl.problem import Knapsack, Linear, Problem, Rows
from conrl.wording import line

TOL = 1e-9  # of the plans
MOST_CHORDS = 1000  # each takes the place of one; a safeguard against rounding
SLOPE, DIFFERENCE = "slope", "difference"


class Margin(NamedTuple):
    """A limit or a floor: what moving it would change. All bounds as the limit is written, a floor's falling if it is
    loosened."""

    name: str  # such as "crash <= 0.3"
    bound: float
    gain: float  # per unit, if it is loosened: the price
    gain_to: float  # the bound up to which; infinite if without end
    loss: float  # per unit, if it is tightened; inf if it cannot be
    loss_to: float  # the bound down to which
    tightest: float  # the bound that can just be met with the others kept; nan if unknown
    one_more: float  # the gain if it is loosened by one whole unit
    kind: str = SLOPE  # or DIFFERENCE: gain and loss are those of a whole unit more and less, as it is no linear row


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Displayed, Framed):
    """What moving each limit and floor alone would change: `rows`, a `Margin` for each.

    As a data frame: `limit`, `bound`, `gain`, `gain_to`, `loss`, `loss_to`, `tightest`, `one_more`, `kind`.
    """

    rows: tuple[Margin, ...]

    def __repr__(self) -> str:
        return line(self, *(f"{row.name}: gain {row.gain:.6g}, loss {row.loss:.6g}" for row in self.rows))

    def _columns(self) -> Columns:
        titles = ("limit", *Margin._fields[1:])
        return {title: [row[i] for row in self.rows] for i, title in enumerate(titles)}

    def _display(self) -> Display:
        stuck = [f"{row.name} cannot be tightened" for row in self.rows if np.isinf(row.loss)]
        steps = [f"{row.name}: for a whole unit, planned again" for row in self.rows if row.kind == DIFFERENCE]
        return Display("Sensitivity of the best reward", self._columns(), (*stuck, *steps))


class Margins(Protocol):
    """Who tells the prices of a plan's rows, and their sensitivity."""

    def prices(self) -> Float:
        """[R]."""
        ...

    def sensitivity(self) -> Sensitivity: ...


@dataclass(frozen=True, eq=False)
class Around:
    """The margins of linear rows, by column generation.

    `columns`: the weights and points that are mixed, if they are an optimum, to `TOL`, with these multipliers and this
    bound. Else it is found anew.
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
        """[R]. No work if the multipliers are unique, as they are where no corner is near, or all 0."""
        if self.columns is not None and (not self.multipliers.any() or self._unique(*self.columns)):
            return self.multipliers
        near = self._near()
        binds = near.multipliers > 0.0
        return np.array([near.edge(r, 1.0).slope if binds[r] else 0.0 for r in range(binds.size)])

    def sensitivity(self) -> Sensitivity:
        near = self._near()
        return Sensitivity(tuple(near.margin(r, name) for r, name in enumerate(self.names or self.checked.rows.names)))

    def _unique(self, weights: Float, points: Float) -> bool:
        """Whether the rows that bind, moved by their allowance, are kept by a mixture of the same points: then v is
        linear around h, and its slopes are the multipliers."""
        rows, _, allowance = self.checked
        uses = points[:, 1 + rows.cost] * rows.sign
        tight = rows.bound - weights @ uses <= allowance
        if weights.size != 1 + int(tight.sum()) or self.multipliers[~tight].any():
            return False
        system = np.vstack((np.ones(weights.size), uses[:, tight].T))
        try:
            moves = np.linalg.inv(system)[:, 1:] * allowance[tight]
        except np.linalg.LinAlgError:
            return False
        return bool((weights[:, None] > np.abs(moves)).all())

    @property
    def bound_model(self) -> ConstrainedMDP | Fleet:
        """What the rows are on: the model, with a cost more for each limit on a single step."""
        if isinstance(self.model, ConstrainedMDP) and isinstance(self.problem, Linear):
            return self.problem.bind(self.model)[0]
        return self.model

    def _near(self) -> _Near:
        model: Any = self.bound_model
        oracle = exact_oracle(model, self.threads)
        if isinstance(self.problem, Knapsack):  # an episode may be skipped
            oracle = WithNullAction(oracle)
        rows, _, allowance = self.checked
        if self.columns is not None:
            return _Near(oracle, rows, *self.columns, self.multipliers, self.bound, allowance)
        a = np.eye(1 + oracle.num_costs)[0]
        best = maximise(oracle, a, rows, tol=TOL, start=self.start, relax=True)
        assert best.allowance is not None
        return _Near(oracle, rows, best.weights, best.points, best.multipliers, best.bound, best.allowance)


class _Edge(NamedTuple):
    """An edge of v from h on."""

    slope: float  # inf where v ends
    end: float  # the bound up to which it goes
    last: float  # the bound beyond which v is constant or, where it is tightened, minus infinity


class _Near:
    """v around the limits, from the optimum within them on."""

    def __init__(
        self,
        oracle: SupportOracle,
        rows: Rows,
        weights: Float,
        points: Float,
        multipliers: Float,
        bound: float,
        allowance: Float,
    ) -> None:
        self.oracle, self.rows, self.columns = oracle, rows, Met()
        self.a, self.G = np.eye(1 + oracle.num_costs)[0], rows.matrix(oracle.num_costs)
        self.multipliers, self.allowance = multipliers, allowance
        self.gain = float(weights @ points[:, 0])
        self.doubt = max(bound - self.gain, 0.0)
        # What is used above a bound, within its allowance or as it cannot be kept, is the bound.
        self.h = np.maximum(rows.bound, self.G @ (weights @ points))

    def margin(self, r: int, name: str) -> Margin:
        """Both slopes of a row."""
        more, less, sign = self.edge(r, 1.0), self.edge(r, -1.0), float(self.rows.sign[r])
        one = more.slope
        if more.end < self.h[r] + 1.0:
            wider = self.rows.at(self.h + np.eye(self.h.size)[r])
            one = max(self._best(self.a, wider).objective - self.gain, 0.0)
        bound, room = float(self.rows.bound[r]), float(self.allowance[r])
        ends = (bound if abs(end - bound) <= room else end for end in (more.end, less.end, less.last))
        gain_to, loss_to, tightest = (sign * end for end in ends)
        return Margin(name, sign * bound, more.slope, gain_to, less.slope, loss_to, tightest, one)

    def edge(self, r: int, side: float) -> _Edge:
        """The edge of v along row r, loosened (side +1) or tightened (-1)."""
        g, others = self.G[r], self.rows.at(self.h).select(np.arange(self.h.size) != r)
        start, gain = float(self.h[r]), self.gain
        far = self._best(self.a if side > 0.0 else -g, others)
        end, top = self._place(far, g)
        last = end
        if side * (end - start) <= self.allowance[r] or (side > 0.0 and top - gain <= self.doubt):
            return _Edge(0.0, np.inf, last) if side > 0.0 else _Edge(np.inf, start, start)
        slope = 0.0
        for _ in range(MOST_CHORDS):
            slope = max(0.0, (top - gain) / (end - start))
            found = self._best(self.a - slope * g, others)
            use, reward = self._place(found, g)
            above = reward - gain - slope * (use - start)
            if not above > self.doubt + found.bound - found.objective + self._bought(found, others):
                break
            if side * (use - start) <= self.allowance[r]:
                start, gain = use, reward
            else:
                end, top = use, reward
        return _Edge(slope, end if slope > 0.0 or side < 0.0 else np.inf, last)

    def _best(self, direction: Float, rows: Rows) -> Optimum:
        return maximise(self.oracle, direction, rows, tol=TOL, columns=self.columns)

    def _place(self, found: Optimum, g: Float) -> tuple[float, float]:
        """What a mixture uses of a row, and its reward."""
        point = found.weights @ found.points
        return float(g @ point), float(self.a @ point)

    def _bought(self, found: Optimum, rows: Rows) -> float:
        """What a mixture gains by exceeding rows within their allowance."""
        use = rows.sign * (found.weights @ found.points)[1 + rows.cost]
        return float(found.multipliers @ np.maximum(use - rows.bound, 0.0))


# -- of a plan --------------------------------------------------------------------------------------------


def margins_of(plan: Plan | FleetPlan, threads: int | None = None) -> Margins:
    """Who tells the margins of a plan; of a fleet's with the threads that it was planned with."""
    if isinstance(plan, FleetPlan):
        start, threads = {"directions": plan.directions, "multipliers": plan.multipliers}, plan.oracle.threads
        return Around(plan.fleet, None, plan.checked, plan.multipliers, plan.bound, _settled(plan), start, threads)
    if plan.margins is not None:
        known: Margins = plan.margins
        return known
    if plan.checked is None:
        raise SpecError("sensitivity is of limits and floors, not of constraint functions; their multipliers are known")
    bound = np.inf if plan.bound is None else float(plan.bound)
    found = Around(plan.mdp, plan.problem, plan.checked, plan.multipliers, bound, _settled(plan), plan.start, threads)
    return OneByOne(plan.objective, found) if plan.deterministic else found


def _settled(plan: Plan | FleetPlan) -> tuple[Float, Float] | None:
    """The columns of a plan, if no better plan is to be had."""
    closed = plan.status == "optimal" and plan.gap <= TOL * max(1.0, abs(plan.objective))
    return plan.columns if closed else None


@dataclass(frozen=True, eq=False)
class OneByOne:
    """The margins of one deterministic policy: the best reward is a step function of the limits, so that they are
    differences. The prices are those of the best mixture."""

    objective: float
    mixed: Around

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

        each = zip(rows.names, signed, strict=True)
        return Sensitivity(
            tuple(difference(name, bound, self.objective, partial(planned, r)) for r, (name, bound) in enumerate(each))
        )


def difference(name: str, bound: float, objective: float, planned: Callable[[float], float]) -> Margin:
    """The margin of what is no linear row: `planned` tells the best reward with so many units more, or fewer."""
    more, less = planned(1.0) - objective, np.inf
    with suppress(InfeasibleError):
        less = objective - planned(-1.0)
    return Margin(name, bound, more, np.nan, less, np.nan, np.nan, more, DIFFERENCE)

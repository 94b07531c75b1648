"""Maximise a.z over the value vectors z of a model that keep linear rows, by column generation.

    maximise a.z   subject to   z in Z,  G z <= h                                         (1)

Z is known only through an oracle for its support function. For any multipliers lambda >= 0,

    bound(lambda) = support(a - G'lambda) + lambda.h                                      (2)

is an upper bound on (1) (weak duality); the point that attains the support is a new column. The master problem
(`master.py`) mixes the columns found so far; its multipliers are the next direction. The two meet
after finitely many steps, since Z is a polytope. Column generation for constrained MDPs: Yost and Washburn
(2000), "The LP/POMDP marriage".

Without rows one support answers. Rows on one cost only need no LP solver: at the optimum the line through two
neighbouring vertices passes the bound, and lambda is its slope (`one_cost`). Otherwise (`many_costs`) the columns are
first made feasible by minimising the largest violation, several directions in one sweep; then the multipliers tried
are a mean of the master's and the best so far (Wentges 1997), which takes half the steps of the master's alone when
there are many rows.

Nothing that a solver says is believed. The mixture is checked against every row, and (2) is rounded outward by what
the oracle proves about its own rounding (`conrl.planners.allowance`). An answer that breaks a row, or a gap that does
not close, is solved again (`in_fractions`) with a master in rational arithmetic and an oracle that tells ties apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conrl._types import Float
from conrl.errors import RunError
from conrl.oracles.protocols import SupportOracle
from conrl.planners.allowance import Allowance
from conrl.planners.column_generation.fractions import RationalMaster
from conrl.planners.column_generation.master import Master, Unsolved
from conrl.planners.result import Start, certify
from conrl.problem import Rows

SMOOTHING = 0.7  # share of the best multipliers so far in those tried next; 0.5 to 0.85 measured much alike
MIXING = np.array([0.0, 0.01, 0.03, 0.1, 0.3, 1.0])  # weight of the objective while becoming feasible


@dataclass
class Optimum:
    """A mixture of columns, with its certificate."""

    weights: Float  # [n], n at most R + 1; of a convex problem d + 2
    points: Float  # [n, 1+d]: what is mixed
    means: Float  # [n, 1+d]: the same policies' values without bonus
    directions: Float  # [n, 1+d]: the directions that they answer
    objective: float
    bound: float
    multipliers: Float  # [R]
    asked: int  # directions
    sweeps: int  # calls of the oracle, each for several directions
    converged: bool
    oracle: SupportOracle  # whose answers these are
    allowance: Float | None = None  # [R]: by how much each row may be exceeded


class Columns:
    """The points found so far, each with the direction that it answers (and so its policy)."""

    def __init__(self) -> None:
        self.directions: list[Float] = []
        self.points: list[Float] = []
        self.means: list[Float] = []
        self._place: dict[bytes, int] = {}

    def ask(self, oracle: SupportOracle, directions: Float) -> tuple[Float, Float]:
        """Answers to directions [m, 1+d]: support values and points; new points become columns."""
        values, points, means = oracle.support_many(directions)
        for i, point in enumerate(points):
            key = point.tobytes()
            if key not in self._place:
                self._place[key] = len(self.points)
                self.directions.append(directions[i])
                self.points.append(point)
                self.means.append(means[i])
        return values, points

    @property
    def count(self) -> int:
        return len(self.points)

    def optimum(
        self,
        oracle: SupportOracle,
        weights: Float,
        points: Float,
        objective: float,
        bound: float,
        multipliers: Float,
        converged: bool,
        work: tuple[int, int],
    ) -> Optimum:
        """A mixture of some of the points as the answer."""
        chosen = [self._place[p.tobytes()] for p in points]
        means = np.array([self.means[i] for i in chosen])
        directions = np.array([self.directions[i] for i in chosen])
        return Optimum(weights, points, means, directions, objective, bound, multipliers, *work, converged, oracle)


class Conflict(Exception):
    """The rows cannot all be kept: `multipliers`.(G z - h) >= `violation` > 0 for every z in Z."""

    def __init__(self, multipliers: Float, violation: float) -> None:
        super().__init__(violation)
        self.multipliers = multipliers
        self.violation = violation


def maximise(
    oracle: SupportOracle,
    a: Float,
    rows: Rows,
    *,
    tol: float,
    columns: Columns | None = None,
    max_sweeps: int = 1000,
    start: Start | None = None,
    relax: bool = False,
) -> Optimum:
    """Solve (1) to bound - objective <= tol * max(1, |objective|) (and tol * the largest possible total), or raise
    `Conflict`.

    `start`: directions and multipliers that did well on a similar set. `relax`: where the rows cannot be kept, exceed
    all of them by the least amount (in units of each row) that can be.
    """
    solver = _Solver(oracle, a, rows, tol, Columns() if columns is None else columns, max_sweeps)
    if start is not None and solver.fits(start):
        solver.start = start
    solver.relax = relax
    if rows.size == 0:
        return solver.no_rows()
    one = bool((rows.cost == rows.cost[0]).all()) and not (relax and rows.size > 1)
    try:
        found = solver.one_cost() if one else solver.many_costs()
    except Unsolved:
        found = None
    if found is not None and solver.stands(found):
        return found
    return solver.in_fractions()


class _Solver:
    def __init__(
        self, oracle: SupportOracle, a: Float, rows: Rows, tol: float, columns: Columns, max_sweeps: int
    ) -> None:
        self.oracle = oracle
        self.a = a
        self.rows = rows
        self.G = rows.matrix(oracle.num_costs)
        self.allowance = Allowance(oracle, rows)
        self.aim = self.allowance.aim
        self.tol = tol
        self.columns = columns
        self.max_sweeps = max_sweeps
        self.start: Start | None = None
        self.relax = False
        self.relaxed = rows.bound  # where the rows cannot be kept, what must be allowed instead
        self.asked = 0
        self.sweeps = 0
        # Totals are at most that large: rewards of 1e-6 are not planned to 1e-9.
        self.largest = oracle.horizon * float(np.abs(a) @ oracle.scale)

    def fits(self, start: Start) -> bool:
        """Whether a start is one for these rows: its directions gain, and use no more of what is limited."""
        if start.directions.ndim != 2 or start.directions.shape[1] != self.a.size:
            return False
        uses = start.directions @ self.G.T
        return start.multipliers.shape == (self.rows.size,) and bool((uses <= 0.0).all())

    def ask(self, directions: Float) -> tuple[Float, Float]:
        self.asked += directions.shape[0]
        self.sweeps += 1
        return self.columns.ask(self.oracle, directions)

    def ask_one(self, direction: Float) -> tuple[float, Float]:
        values, points = self.ask(direction[None])
        return float(values[0]), points[0]

    def room(self, objective: float) -> float:
        """What is allowed between the bound and the objective."""
        return self.tol * min(max(1.0, abs(objective)), self.largest)

    def enough(self, bound: float, objective: float) -> bool:
        return bound - objective <= self.room(objective)

    def optimum(self, weights: Float, points: Float, bound: float, multipliers: Float) -> Optimum:
        objective = float(weights @ (points @ self.a))
        work = self.asked, self.sweeps
        room = self.room(objective)
        bound += self.allowance.outward(self.a, multipliers, room)
        stated = self.allowance.stated
        bound, converged = certify(bound, objective, room, float(multipliers @ stated))
        found = self.columns.optimum(self.oracle, weights, points, objective, bound, multipliers, converged, work)
        found.allowance = stated
        return found

    def keeps_rows(self, found: Optimum) -> bool:
        """Whether a mixture keeps every row; one that is no number does not."""
        over = self.G @ (found.weights @ found.points) - self.relaxed
        return bool((over <= self.allowance.computed).all())

    def stands(self, found: Optimum) -> bool:
        """Whether an answer can go out: it keeps every row, and its gap is closed or there is no more time."""
        return self.keeps_rows(found) and (found.converged or self.sweeps >= self.max_sweeps)

    # -- no rows ------------------------------------------------------------------------------------------

    def no_rows(self) -> Optimum:
        found = self._free()
        if not found.converged:  # actions that tie within rounding made a difference
            self.oracle, self.columns = self.oracle.strict(), Columns()
            found = self._free()
        return found

    def _free(self) -> Optimum:
        value, point = self.ask_one(self.a)
        return self.optimum(np.ones(1), point[None], value, np.zeros(self.rows.size))

    # -- one cost -----------------------------------------------------------------------------------------

    def one_cost(self) -> Optimum:
        if self.start is not None and self.rows.size == 1:
            return self._one_row(self.start)
        value, free = self.ask_one(self.a)
        uses = self.G @ free
        over = uses - self.rows.bound
        if (over <= self.aim).all():
            return self.optimum(np.ones(1), free[None], value, np.zeros(self.rows.size))
        # The best reward is concave in the cost, so only the row that the free optimum breaks can bind; if there
        # are several such rows the tightest does. The others are checked with every answer.
        r = int(np.argmax(np.where(over > self.aim, over, -np.inf)))
        g, h = self.G[r], float(self.rows.bound[r])
        least, h = self._least(g, h, r)
        return self._line(free, least, g, h, r)

    def _least(self, g: Float, h: float, r: int) -> tuple[Float, float]:
        """The point that uses least of row r, and what must be allowed for it."""
        value, least = self.ask_one(-g)
        if -value > h + self.aim[r] and not self.relax:
            unit = np.zeros(self.rows.size)
            unit[r] = 1.0
            raise Conflict(unit, -value - h)
        allowed = max(h, float(g @ least))
        if self.relax:
            self.relaxed = self.rows.bound.copy()
            self.relaxed[r] = allowed
        return least, allowed

    def _one_row(self, start: Start) -> Optimum:
        """One row, from the directions on either side of it that were best on a similar set."""
        g, h, aim = self.G[0], float(self.rows.bound[0]), float(self.aim[0])
        high = low = None
        values, points = self.ask(start.directions)
        for w, value, point in zip(start.directions, values, points, strict=True):
            use = float(g @ point)
            if use > h + aim:
                high = point if high is None or use < float(g @ high) else high
            else:
                if np.array_equal(w, self.a):
                    return self.optimum(np.ones(1), point[None], float(value), np.zeros(1))
                if use <= h and (low is None or use > float(g @ low)):
                    low = point
        if high is None:
            value, free = self.ask_one(self.a)
            if float(g @ free) <= h + aim:
                return self.optimum(np.ones(1), free[None], value, np.zeros(1))
            high = free
        if low is None:
            low, h = self._least(g, h, 0)
            if float(g @ high) <= h:  # nothing uses less than what must be allowed
                high = self.ask_one(self.a)[1]
        return self._line(high, low, g, h, 0)

    def _line(self, high: Float, low: Float, g: Float, h: float, r: int) -> Optimum:
        """Close in on the edge of Z that passes g.z = h, from a point beyond it and one within.

        A point that exceeds h by the row's `aim` at most is within: an edge no wider than rounding has no slope.
        """
        bound, price, within = np.inf, 0.0, h + float(self.aim[r])
        (over, gain_over), (under, gain_under) = self._use_and_gain(high, r), self._use_and_gain(low, r)
        if over <= under:  # all points use the same
            value, _ = self.ask_one(self.a)
            return self.optimum(np.ones(1), high[None], value, np.zeros(self.rows.size))
        while True:
            slope = max(gain_over - gain_under, 0.0) / (over - under)
            share = min(max((h - under) / (over - under), 0.0), 1.0)
            objective = share * gain_over + (1.0 - share) * gain_under
            value, point = self.ask_one(self.a - slope * g)
            if value + slope * h < bound:
                bound, price = value + slope * h, slope
            use, gain = self._use_and_gain(point, r)
            stalled = (use, gain) in ((over, gain_over), (under, gain_under)) or self.sweeps >= self.max_sweeps
            if stalled or self.enough(bound, objective):
                break
            if use > within:
                high, over, gain_over = point, use, gain
            else:
                low, under, gain_under = point, use, gain
            if over <= under:  # both are within, and the new one gains more
                share = 0.0
                break
        multipliers = np.zeros(self.rows.size)
        multipliers[r] = price
        weights, points = np.array([share, 1.0 - share]), np.stack((high, low))
        keep = weights > 0.0
        return self.optimum(weights[keep], points[keep], bound, multipliers)

    def _use_and_gain(self, point: Float, r: int) -> tuple[float, float]:
        return float(self.rows.sign[r] * point[1 + self.rows.cost[r]]), float(self.a @ point)

    # -- several costs ------------------------------------------------------------------------------------

    def many_costs(self) -> Optimum:
        directions = np.vstack((self.a, -self.G))
        first = directions.shape[0]
        if self.start is not None:
            dual = self.a - self.start.multipliers @ self.G
            directions = np.vstack((directions, dual, self.start.directions))
        values, points = self.ask(directions)
        free = self.G @ points[0] - self.rows.bound
        if (free <= self.aim).all():
            return self.optimum(np.ones(1), points[:1], float(values[0]), np.zeros(self.rows.size))
        least = -values[1:first] - self.rows.bound
        if (least > self.aim).any() and not self.relax:
            r = int(np.argmax(least / self.aim))
            unit = np.zeros(self.rows.size)
            unit[r] = 1.0
            raise Conflict(unit, float(least[r]))
        self._set_units(points[:first])  # not those of a start: what counts as least violating must not depend on it
        self._use(Master(self.rows.bound, self.unit, self.gain_unit))
        bound, best = float(values[0]), np.zeros(self.rows.size)  # without multipliers
        if self.start is not None:
            dual_bound = float(values[first]) + float(self.start.multipliers @ self.relaxed)
            if dual_bound < bound:
                bound, best = dual_bound, self.start.multipliers
        return self._improve(bound, best)

    def in_fractions(self) -> Optimum:
        """The answer again, where doubles did not decide: exact weights, and ties told apart.

        A row counts as kept if exceeded by its own `aim` at most, so that this is the unit in which the rows are
        exceeded together; they are proven to conflict, or kept within twice that. Where the last 1e-9 of a limit is
        worth so much that the bound cannot be told from it (a nearly vertical edge), the rows are exceeded by `aim`.
        """
        directions = np.vstack((self.a, -self.G, *self.columns.directions))
        self.oracle, self.columns = self.oracle.strict(), Columns()
        self.max_sweeps += self.sweeps
        values, points = self.ask(directions)
        self._set_units(points[: 1 + self.rows.size])
        unit = self.unit if self.relax else self.aim
        best: Optimum | None = None
        for exceeded in (0.0, 1.0):
            self._use(RationalMaster(self.rows.bound + exceeded * self.aim, unit))
            found = self._improve(float(values[0]), np.zeros(self.rows.size))
            if self.keeps_rows(found) and (best is None or found.bound - found.objective < best.bound - best.objective):
                best = found
            if best is not None and self.stands(best):
                break
        if best is None:
            raise RunError("the mixture found breaks a limit by more than rounding; measure costs in units nearer to 1")
        return best

    def _set_units(self, found: Float) -> None:
        """Units for the rows and the objective: what the first answers [1+R, 1+d] differ by."""
        uses = found @ self.G.T
        spread = uses.max(axis=0) - uses.min(axis=0)
        # Where all policies cost the same, the spread is rounding and no unit.
        size = np.maximum(np.abs(self.rows.bound), self.oracle.scale[1 + self.rows.cost])
        self.unit = np.where(spread > 1e-6 * size, spread, np.where(size > 0.0, size, 1.0))
        gains = found @ self.a
        range_of_gains = float(gains.max() - gains.min())
        size_of_gains = float(np.abs(gains).max())
        self.gain_unit = range_of_gains if range_of_gains > 1e-6 * size_of_gains else size_of_gains or 1.0

    def _use(self, master: Master | RationalMaster) -> None:
        """Work with a master, from where some mixture of the columns keeps the rows."""
        self.master, self.given = master, 0
        self._become_feasible()

    def _refresh(self) -> tuple[Float, Float, float]:
        """Give the master what is new and solve it."""
        if self.columns.count > self.given:
            new = np.array(self.columns.points[self.given :])
            self.master.add(new @ self.a, new @ self.G.T)
            self.given = self.columns.count
        return self.master.solve()

    def _become_feasible(self) -> None:
        """Drive the largest violation (in units of the rows) below zero, or prove that it cannot be."""
        unit = self.master.unit
        grain = float((self.aim / unit).min())
        while True:
            _, multipliers, violation = self._refresh()
            if violation <= 0.0:
                break
            mixing = MIXING / self.gain_unit
            directions = mixing[:, None] * self.a - multipliers @ self.G
            before = self.columns.count
            values, _ = self.ask(directions)
            proven = -float(values[0]) - float(multipliers @ self.rows.bound)
            if proven > float(multipliers @ self.aim) and not self.relax:
                raise Conflict(multipliers, proven)
            if self.columns.count == before or violation - proven <= 0.1 * grain:
                break
            if self.sweeps >= self.max_sweeps:
                raise RunError("no policy within the limits was found within max_sweeps; raise it")
        self.master.pursue_objective(max(violation, 0.0))
        self.pursued = self.master.bound + max(violation, 0.0) * unit
        if self.relax:
            self.relaxed = self.pursued

    def _improve(self, bound: float, best: Float) -> Optimum:
        share = SMOOTHING
        while True:
            weights, multipliers, _ = self._refresh()
            objective = self.master.gain(weights)
            if self.enough(bound, objective) or self.sweeps >= self.max_sweeps:
                break
            tried = share * best + (1.0 - share) * multipliers
            before = self.columns.count
            value, _ = self.ask_one(self.a - tried @ self.G)
            value += float(tried @ self.relaxed)
            if value < bound:
                bound, best = value, tried
            if self.columns.count > before:
                share = SMOOTHING
            elif share > 0.0:
                share = 0.0  # nothing new on the way there: ask for the master's own
            else:
                break
        chosen = np.flatnonzero(weights > 0.0)
        points = np.array([self.columns.points[i] for i in chosen])
        kept = self.master.polished(weights[chosen], points @ self.G.T, self.pursued)
        return self.optimum(kept[kept > 0.0], points[kept > 0.0], bound, best)

"""Rows on several costs: the master problem is a small LP over the columns found so far.

First the columns are made feasible by minimising t, the largest violation in units of the rows, several directions in
one sweep. With the multipliers lambda of that program (u.lambda = 1 for the units u),

    t >= -support(-G'lambda) - lambda.h

and where this is positive it proves that the rows cannot be kept (Farkas). Then the objective is pursued. The
multipliers tried are a mean of the master's and the best so far (Wentges 1997), which takes half the steps of the
master's alone when there are many rows; each gives the bound (2) of `linear.py`, and a new column or none. In large
models those that Newton's method asks for come first (`aiming.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conrl._types import Arrays, Float
from conrl.errors import RunError
from conrl.planners.column_generation.aiming import Pace, Surface
from conrl.planners.column_generation.fractions import RationalMaster
from conrl.planners.column_generation.master import Master
from conrl.planners.column_generation.search import Conflict, Optimum, RowSearch

SMOOTHING = 0.7  # share of the best multipliers so far in those tried next; 0.5 to 0.85 measured much alike
EDGE = 1e-4  # of a row's unit: so near to the least that it can use, Z has an edge, and prices have no end
TINY = float(np.finfo(np.float64).tiny)  # 1 / x is no number for some smaller x
MIXING = np.array([0.0, 0.01, 0.03, 0.1, 0.3, 1.0])  # weight of the objective while becoming feasible


class Asked(NamedTuple):
    """Multipliers and the answer to a - G'multipliers."""

    multipliers: Float  # [R]
    value: float
    point: Float  # [1+d]


def several_costs(search: RowSearch, start: Arrays | None) -> Optimum:
    """The optimum within rows on several costs, with HiGHS as the master.

    One sweep asks for a, which is the answer if it keeps all rows; for the least of each row, which is a conflict if
    it is too much; and for what the start has. Of the bounds without multipliers and with the start's, the better one
    is improved.
    """
    a, G, h = search.a, search.G, search.rows.bound
    directions = np.vstack((a, -G))
    first = directions.shape[0]
    if start is not None:
        directions = np.vstack((directions, a - start["multipliers"] @ G, start["directions"]))
    values, points = search.ask(directions)
    none = np.zeros(h.size)
    if (G @ points[0] - h <= search.allowed(points[0]).aim).all():
        return search.optimum(np.ones(1), points[:1], float(values[0]), none)
    least = -values[1:first] - h
    each = zip(np.eye(h.size), -G, values[1:first].tolist(), strict=True)
    proof = np.array([search.allowance.proof(*row) for row in each])
    if (least > proof).any() and not search.relax:
        r = int(np.argmax(least / proof))
        raise Conflict(np.eye(h.size)[r], float(least[r]))
    # Not by the points of a start: what counts as least violating must not depend on it.
    unit, gain_unit = _units(search, points[:first])
    master = Master(h, unit, gain_unit)
    kept = _become_feasible(search, master, gain_unit)
    asked = [Asked(none, float(values[0]), points[0])]
    if start is not None:
        asked.append(Asked(start["multipliers"], float(values[first]), points[first]))
    aims = search.oracle.curved and bool((-least > EDGE * unit).all())
    return _improve(search, master, kept, asked, aims)


def in_fractions(search: RowSearch) -> Optimum:
    """The answer again, where doubles did not decide: exact weights, and ties told apart.

    A row counts as kept if exceeded by its own `aim` at most, so that this is the unit in which the rows are exceeded
    together; they are proven to conflict, or kept within twice that. Where the last 1e-9 of a limit is worth so much
    that the bound cannot be told from it (a nearly vertical edge), the rows are exceeded by `aim`.
    """
    directions = np.vstack((search.a, -search.G, *search.columns.directions))
    search = search.strict()
    values, points = search.ask(directions)
    h, aim = search.rows.bound, search.grain
    unit, gain_unit = _units(search, points[: 1 + h.size])
    best: Optimum | None = None
    for exceeded in (0.0, 1.0):
        master = RationalMaster(h + exceeded * aim, unit if search.relax else aim)
        kept = _become_feasible(search, master, gain_unit)
        optimum = _improve(search, master, kept, [Asked(np.zeros(h.size), float(values[0]), points[0])], False)
        if optimum.keeps and (best is None or optimum.bound - optimum.objective < best.bound - best.objective):
            best = optimum
        if best is not None and best.accepted:
            break
    if best is None:
        raise RunError("the mixture found breaks a limit by more than rounding; measure costs in units nearer to 1")
    return best


def _units(search: RowSearch, points: Float) -> tuple[Float, float]:
    """Units for the rows [R] and for the objective: what the first answers [1+R, 1+d] differ by."""
    uses, gains = points @ search.G.T, points @ search.a
    spread = uses.max(axis=0) - uses.min(axis=0)
    # Where all policies cost the same, the spread is rounding and no unit.
    size = np.maximum(np.abs(search.rows.bound), search.oracle.scale[1 + search.rows.cost])
    unit = np.where(spread > 1e-6 * size, spread, np.where(size > TINY, size, 1.0))
    range_of_gains = float(gains.max() - gains.min())
    size_of_gains = float(np.abs(gains).max())
    return unit, range_of_gains if range_of_gains > 1e-6 * size_of_gains else size_of_gains or 1.0


def _limits(search: RowSearch, kept: Float) -> Float:
    """[R]: what the multipliers of a bound are weighed with: h or, where that is relaxed, what can be kept."""
    return kept if search.relax else search.rows.bound


def _solve(search: RowSearch, master: Master | RationalMaster) -> tuple[Float, Float, float]:
    """Give the master the columns that it does not have yet, and solve it: weights, multipliers, violation."""
    if len(search.columns.points) > master.count:
        new = np.array(search.columns.points[master.count :])
        master.add(new @ search.a, new @ search.G.T)
    return master.solve()


def _become_feasible(search: RowSearch, master: Master | RationalMaster, gain_unit: float) -> Float:
    """Drive the largest violation t (in units of the rows) below zero, or prove that it cannot be.

    From then on the master pursues the objective; [R]: the bounds that it keeps, its own plus t units.
    """
    a, G = search.a, search.G
    grain = float((search.grain / master.unit).min())
    while True:
        _, multipliers, violation = _solve(search, master)
        if violation <= 0.0:
            break
        mixing = MIXING / gain_unit
        before = len(search.columns.points)
        values, _ = search.ask(mixing[:, None] * a - multipliers @ G)
        value = float(values[0])  # of the rows alone
        proven = -value - float(multipliers @ search.rows.bound)
        if proven > search.allowance.proof(multipliers, -(multipliers @ G), value) and not search.relax:
            raise Conflict(multipliers, proven)
        if len(search.columns.points) == before or violation - proven <= 0.1 * grain:
            break
        if search.exhausted:
            raise RunError("no policy within the limits was found within max_sweeps; raise it")
    master.pursue_objective(max(violation, 0.0))
    return master.bound + max(violation, 0.0) * master.unit


def _improve(
    search: RowSearch, master: Master | RationalMaster, kept: Float, asked: list[Asked], aims: bool
) -> Optimum:
    """Close the gap between the master's mixture, which keeps the bounds `kept` [R], and the least bound.

    `asked`: some multipliers and their answers. The next are where the surface is aimed at, if it `aims`, or
    share * best + (1 - share) * master's, the best so far being those of the least bound; where these bring no new
    column the master's own are asked, and if those bring none either, the master is optimal. With one row they are
    asked at once: those of a chord, which ends the search if it is an edge.
    """
    limits = _limits(search, kept)
    surface, pace = Surface(limits, master.unit), Pace()
    bound, best = np.inf, asked[0].multipliers
    stuck, more = limits.size == 1, True
    while True:
        for multipliers, value, point in asked:
            value += float(multipliers @ limits)
            surface.learn(multipliers, search.G @ point, value)
            if value < bound:
                bound, best = value, multipliers
        weights, multipliers, _ = _solve(search, master)
        objective = master.gain(weights)
        gap = bound - objective
        if search.is_closed(bound, objective) or search.exhausted or not more:
            break
        aimed = None
        if aims and pace.ready(gap):
            mixed = [search.columns.points[i] for i in np.flatnonzero(weights)]
            aimed = surface.aim(multipliers > 0.0, np.array(mixed) @ search.G.T)
            pace.before = np.inf if aimed is None else gap
        share = 0.0 if stuck else SMOOTHING
        tried = share * best + (1.0 - share) * multipliers if aimed is None else aimed
        count = len(search.columns.points)
        asked = [Asked(tried, *search.ask_one(search.a - tried @ search.G))]
        if len(search.columns.points) > count:
            stuck = limits.size == 1
        elif aimed is None:
            stuck, more = True, share > 0.0
    chosen = np.flatnonzero(weights > 0.0)
    points = np.array([search.columns.points[i] for i in chosen])
    polished = master.polished(weights[chosen], points @ search.G.T, kept)
    return search.optimum(polished[polished > 0.0], points[polished > 0.0], bound, best, limits)

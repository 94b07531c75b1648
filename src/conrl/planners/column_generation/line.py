"""Rows on one cost: the master problem is the intersection of a line with the limit, and needs no LP solver.

Let g.z be the use of a point z and a.z its gain. The best gain

    best(x) = max { a.z : z in Z, g.z <= x }

is concave and piecewise linear in x, and its vertices are points of Z. If the limit h binds, best(h) lies on the edge
between two neighbouring vertices, one that uses more than h and one that does not. Of any two such points, the line
through (use, gain) of both has at h the gain of their mixture, a lower bound on best(h); its slope lambda is the
multiplier that makes both equally good. Asked for a - lambda g, the oracle answers with a point above the line, which
replaces the one on its side of h, or with none: then the line is the edge, and  support(a - lambda g) + lambda h  is
the mixture's own gain.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conrl._types import Arrays, Float
from conrl.oracles.protocols import LineRows
from conrl.planners.column_generation.search import Conflict, Optimum, RowSearch, check_numbers
from conrl.policy import Policy


def at_once(search: RowSearch, start: Arrays | None) -> Optimum | None:
    """What `one_cost`, or `one_row` with a start, or no rows at all come to, if the oracle finds it in one call.

    Where rounding must be looked at point by point, none does. The other points that it met become columns only if
    somebody needs them.
    """
    rows, R = search.rows, search.rows.size
    if search.allowance.by_point or (start is not None and start["directions"].shape[0] > 2):
        return None
    begin = np.empty((0, search.a.size)) if start is None else start["directions"]
    limited = LineRows(rows.cost, rows.sign, rows.bound, search.allowance.aim)
    edge = search.oracle.edge(search.a, limited, begin, search.tol, search.max_sweeps, search.relax)
    if edge is None:
        return None
    check_numbers(edge.directions)
    search.asked += edge.asked
    search.sweeps += edge.sweeps
    multipliers = np.zeros(R)
    if edge.conflict:
        multipliers[edge.r] = 1.0
        raise Conflict(multipliers, edge.bound)
    if edge.low >= 0:
        multipliers[edge.r] = edge.price
    relaxed = None
    if search.relax and R:
        relaxed = rows.bound.copy()
        relaxed[edge.r] = edge.h
    policies: tuple[Callable[[], Policy], ...] = edge.make_policies
    if edge.share == 1.0 or edge.low < 0:
        weights, chosen, policies = np.ones(1), [edge.high], policies[:1]
    elif edge.share == 0.0:
        weights, chosen, policies = np.ones(1), [edge.low], policies[1:]
    else:
        weights, chosen = np.array([edge.share, 1.0 - edge.share]), [edge.high, edge.low]
    _, points, means, skips = edge.columns
    skipped = np.zeros(len(chosen), dtype=bool) if skips is None else skips[chosen]
    mixture = weights, points[chosen], means[chosen], edge.directions[chosen], skipped
    proven = search.certificate(weights, mixture[1], edge.bound, multipliers, relaxed)
    if search.shared or not proven["accepted"]:
        search.keep(edge.directions, edge.columns)
    return Optimum(*mixture, search.asked, search.exhausted, search.oracle, **proven, policies=policies)


def one_cost(search: RowSearch) -> Optimum:
    """The optimum within rows that are all on one cost: a limit, a floor, or both.

    As best(x) is concave, only a row that the optimum without rows breaks can bind; of several such rows, the one that
    it breaks most. The others are checked with every answer.
    """
    value, free = search.ask_one(search.a)
    over = search.G @ free - search.rows.bound
    aim = search.allowed(free).aim
    if (over <= aim).all():
        return search.optimum(np.ones(1), free[None], value, np.zeros(search.rows.size))
    r = int(np.argmax(np.where(over > aim, over, -np.inf)))
    least, h = _least(search, r)
    return _close_in(search, r, h, free, least)


def one_row(search: RowSearch, start: Arrays) -> Optimum:
    """One row, from the points on either side of it that come nearest among the answers to the start's directions."""
    g, h = search.G[0], float(search.rows.bound[0])
    high = low = None
    values, points = search.ask(start["directions"])
    for w, value, point in zip(start["directions"], values, points, strict=True):
        use = float(g @ point)
        if use > h + search.allowed(point).aim[0]:
            high = point if high is None or use < float(g @ high) else high
        else:
            if np.array_equal(w, search.a):
                return search.optimum(np.ones(1), point[None], float(value), np.zeros(1))
            if use <= h and (low is None or use > float(g @ low)):
                low = point
    if high is None:
        value, high = search.ask_one(search.a)
        if float(g @ high) <= h + search.allowed(high).aim[0]:
            return search.optimum(np.ones(1), high[None], value, np.zeros(1))
    if low is None:
        low, h = _least(search, 0)
        if float(g @ high) <= h:  # nothing uses less than what must be allowed
            high = search.ask_one(search.a)[1]
    return _close_in(search, 0, h, high, low)


def _least(search: RowSearch, r: int) -> tuple[Float, float]:
    """The point that uses least of row r, and what must be allowed for it: h, or its own use if that is more."""
    g, h = search.G[r], float(search.rows.bound[r])
    value, least = search.ask_one(-g)
    only = np.eye(search.rows.size)[r]
    if -value > h + search.allowance.proof(only, -g, value) and not search.relax:
        raise Conflict(only, -value - h)
    return least, max(h, float(g @ least))


def _close_in(search: RowSearch, r: int, h: float, high: Float, low: Float) -> Optimum:
    """Close in on the edge of Z that passes g.z = h, from a point beyond it and one within.

    A point that exceeds h by the row's `aim` at most is within: an edge no wider than rounding has no slope.
    """
    bound, price = np.inf, 0.0
    relaxed = search.rows.bound.copy()
    if search.relax:
        relaxed[r] = h
    (over, gain_over), (under, gain_under) = _use_and_gain(search, high, r), _use_and_gain(search, low, r)
    if over <= under:  # all points use the same
        value, _ = search.ask_one(search.a)
        return search.optimum(np.ones(1), high[None], value, np.zeros(search.rows.size), relaxed)
    while True:
        slope = max(gain_over - gain_under, 0.0) / (over - under)
        share = min(max((h - under) / (over - under), 0.0), 1.0)
        objective = share * gain_over + (1.0 - share) * gain_under
        value, point = search.ask_one(search.a - slope * search.G[r])
        if value + slope * h < bound:
            bound, price = value + slope * h, slope
        use, gain = _use_and_gain(search, point, r)
        stalled = (use, gain) in ((over, gain_over), (under, gain_under))
        if stalled or search.exhausted or search.is_closed(bound, objective):
            break
        if use > h + search.allowed(point).aim[r]:
            high, over, gain_over = point, use, gain
        else:
            low, under, gain_under = point, use, gain
        if over <= under:  # both are within, and the new one gains more
            share = 0.0
            break
    multipliers = np.zeros(search.rows.size)
    multipliers[r] = price
    weights, points = np.array([share, 1.0 - share]), np.stack((high, low))
    keep = weights > 0.0
    return search.optimum(weights[keep], points[keep], bound, multipliers, relaxed)


def _use_and_gain(search: RowSearch, point: Float, r: int) -> tuple[float, float]:
    return float(search.rows.sign[r] * point[1 + search.rows.cost[r]]), float(search.a @ point)

"""The whole search for the best policy within limits on one cost, in one call; see `conrl.kernels` for the letters.

`conrl.planners.column_generation.line` has the mathematics, and the same search for any oracle: what is done here for
backward induction is done there step by step, in the same order and with the same numbers.
"""

from typing import Any

import numpy as np

from conrl.kernels.compiling import Array, compiled, inlined
from conrl.kernels.planning import Laid, Work, answer

LineRows = tuple[Array, ...]  # cost [R], sign [R], bound [R], aim [R]: by how much it may be exceeded, as it is sought
Columns = tuple[
    Array, ...
]  # directions [most, 1+d], values [most], points [most, 1+d], means [most, 1+d], skips [most]

FOUND, CONFLICT, FULL = 0, 1, 2  # how a search ends; FULL: more columns than were given


BEGIN, BEST, LEAST, AGAIN, SAME, CLOSE = 0, 1, 2, 3, 4, 5  # what is asked next


@compiled
def line_search(
    laid: Laid,
    ties: Array,
    null: bool,
    work: Work,
    choices: Array,
    a: Array,
    rows: LineRows,
    begin: Array,
    tol: float,
    largest: float,
    most: int,
    relax: bool,
    columns: Columns,
) -> tuple[Any, ...]:
    """Maximise a.z within rows on one cost: status, asked, sweeps, r, h, high, low, share, bound, price, their places.

    `share` of the column `high` and the rest of `low` is the answer; `high` is beyond the bound h of row r, or the only
    column. Their choices are choices[place]. With `null`, an episode may be skipped, which pays 0. `begin` [n, 1+d],
    n <= 2, are directions to begin with, where there is one row; they count as one sweep. `most` sweeps at most; fewer
    columns than that are a reason to stop with FULL. With `relax`, h is raised to what can be kept. In a conflict,
    `bound` is by how much row r is exceeded.

    The code of a direction is long, so that it is compiled at one place only: each turn asks one, and `turn` says why.
    """
    cost, sign, limit, aim = rows
    directions, values, points, means, skips = columns
    size, first = a.size, begin.shape[0]
    asked, sweeps, r, c, s = 0, 0, 0, 0, 0.0
    high, low, high_at, low_at = -1, -1, -1, -1
    status, alone, alone_at = FOUND, -1, -1  # `alone`: the one column that is the answer
    h, bound, price, share, slope, objective = np.inf, np.inf, 0.0, 1.0, 0.0, 0.0
    over, under, gain_over, gain_under = 0.0, 0.0, 0.0, 0.0
    if limit.size:
        h, c, s = limit[0], 1 + cost[0], sign[0]
    turn = BEGIN if first else BEST
    while True:
        # -- the direction of this turn, and the place of its choice
        if asked == values.size:
            status = FULL
            break
        w, at = directions[asked], asked
        if turn != BEGIN:
            at = 0
            while at in (high_at, low_at):
                at += 1
        for i in range(size):
            w[i] = a[i]
            if turn == BEGIN:
                w[i] = begin[asked, i]
            elif turn == LEAST:
                w[i] = -s if i == c else -0.0
        if turn == CLOSE:
            slope = gain_over - gain_under
            slope = (0.0 if slope < 0.0 else slope) / (over - under)
            share = (h - under) / (over - under)
            share = 0.0 if share < 0.0 else 1.0 if share > 1.0 else share
            objective = share * gain_over + (1.0 - share) * gain_under
            w[c] -= slope * s
        # -- its answer
        value = answer(laid, w, ties, work, choices[at], points[asked], means[asked])
        skips[asked] = null and value < 0.0
        if skips[asked]:
            value = 0.0
            for i in range(size):
                points[asked, i] = 0.0
                means[asked, i] = 0.0
        values[asked] = value
        new = asked
        asked += 1
        if turn != BEGIN or asked == first:
            sweeps += 1
        # -- what it means
        if turn == BEGIN:
            if asked < first:
                continue
            for i in range(first):
                use, same = s * points[i, c], True
                for j in range(size):
                    same &= begin[i, j] == a[j]
                if use > h + aim[0]:
                    if high < 0 or use < s * points[high, c]:
                        high, high_at = i, i
                elif same:
                    alone, alone_at, bound = i, i, values[i]
                    break
                elif use <= h and (low < 0 or use > s * points[low, c]):
                    low, low_at = i, i
            if alone >= 0:
                break
            turn = BEST if high < 0 else LEAST if low < 0 else CLOSE
        elif turn == BEST:  # the optimum without rows: it may keep them all
            high, high_at = new, at
            worst, kept = -np.inf, True
            for i in range(limit.size):
                excess = sign[i] * points[new, 1 + cost[i]] - limit[i]
                if excess > aim[i]:
                    kept = False
                    if excess > worst:
                        worst, r = excess, i
            if kept:
                alone, alone_at, bound = new, at, value
                break
            h, c, s = limit[r], 1 + cost[r], sign[r]
            turn = LEAST if low < 0 else CLOSE
        elif turn == LEAST:  # what uses least
            low, low_at = new, at
            if -value > h + aim[r] and not relax:
                status, bound = CONFLICT, -value - h
                break
            use = s * points[low, c]
            h = use if use > h else h
            turn = CLOSE
            if first and s * points[high, c] <= h:  # nothing uses less than what must be allowed
                turn, high_at = AGAIN, low_at
        elif turn == AGAIN:
            high, high_at = new, at
            turn = CLOSE
        elif turn == SAME:
            alone, alone_at, bound = high, high_at, value
            break
        else:
            if value + slope * h < bound:
                bound, price = value + slope * h, slope
            use, gain = s * points[new, c], gained(a, points[new])
            stalled = (use == over and gain == gain_over) or (use == under and gain == gain_under) or sweeps >= most
            size_of = 1.0 if abs(objective) < 1.0 else abs(objective)
            size_of = largest if largest < size_of else size_of
            if not stalled and bound - objective > tol * size_of:
                if use > h + aim[r]:
                    high, high_at = new, at
                else:
                    low, low_at = new, at
                if s * points[high, c] > s * points[low, c]:
                    over, gain_over = s * points[high, c], gained(a, points[high])
                    under, gain_under = s * points[low, c], gained(a, points[low])
                    continue
                share = 0.0  # both are within, and the new one gains more
            break
        if turn == CLOSE:
            over, gain_over = s * points[high, c], gained(a, points[high])
            under, gain_under = s * points[low, c], gained(a, points[low])
            if over <= under:  # all points use the same
                turn = SAME
    if alone >= 0:
        high, low, share, high_at, low_at = alone, -1, 1.0, alone_at, -1
    return status, asked, sweeps, r, h, high, low, share, bound, price, high_at, low_at


@inlined
def gained(a: Array, point: Array) -> float:
    """a.z of a point z."""
    gain = 0.0
    for i in range(a.size):
        gain += a[i] * point[i]
    return gain

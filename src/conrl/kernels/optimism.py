"""Backward induction over all transitions within intervals, and what the best of them visit.

Intervals: the probability of outcome j may be anything from low[j] to low[j] + width[j]; that of a state t which is not
among the outcomes of pair k anything up to others[k] * many[t] (`many`: how many states t stands for), and of all such
states together up to rest[k]; all of them add up to 1. free[k] = 1 - (the sum of low over the outcomes of k) is what
can be moved. The best case for values V fills the states from the highest V down until nothing is left to move.
Kernels take the confidence set as one tuple

    intervals = first [S+1], start [P+1], successor [N], low [N], width [N], free [P], others [P], many [S], rest [P]
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled

Intervals = tuple[Array, ...]

FEW = 24  # outcomes that are quicker sorted by insertion


@compiled
def _sort(begin: int, end: int, successor: Array, rank: Array, mine: Array) -> None:
    """The outcomes mine[begin:end] of one pair by rising rank, from nearly that order."""
    if end - begin > FEW:
        mine[begin:end] = begin + np.argsort(rank[successor[begin:end]], kind="mergesort")
        return
    for i in range(begin + 1, end):
        j = mine[i]
        at = i
        while at > begin and rank[successor[mine[at - 1]]] > rank[successor[j]]:
            mine[at] = mine[at - 1]
            at -= 1
        mine[at] = j


@compiled
def rank_states(V: Array, many: Array, rank: Array, before: Array, above: Array) -> Array:
    """The states [n] from the best down, and for `best_value`: rank [n] of each; before[i], the sum of `many` over the
    i best, and above[i], that of many * V. Entry 0 of both is 0."""
    order = np.argsort(-V, kind="mergesort")
    for i in range(V.size):
        t = order[i]
        rank[t] = i
        before[i + 1] = before[i] + many[t]
        above[i + 1] = above[i] + many[t] * V[t]
    return order


@compiled
def best_value(k: int, intervals: Intervals, V: Array, rank: Array, mine: Array, before: Array, above: Array) -> float:
    """max of p.V over the distributions p of pair k, with states ranked by `rank_states`.

    States that are no outcomes are passed over by the stretch, from one outcome to the next.
    """
    _, start, successor, low, width, free, others, _, rest = intervals
    begin, end = start[k], start[k + 1]
    q: float = 0.0
    for j in range(begin, end):
        q += low[j] * V[successor[j]]
    left = free[k]
    if left <= 0.0:
        return q
    _sort(begin, end, successor, rank, mine)
    wide = others[k]
    room = rest[k]  # for the states that are no outcomes
    at = 0  # states passed
    for m in range(begin, end + 1):
        to = rank[successor[mine[m]]] if m < end else rank.size
        if wide > 0.0 and to > at:
            goal = min(left, room)
            if wide * (before[to] - before[at]) < goal:
                q += wide * (above[to] - above[at])
                left -= wide * (before[to] - before[at])
                room -= wide * (before[to] - before[at])
            else:
                last = at + 1  # the state within the stretch that takes what is left: seldom far
                far = last
                while wide * (before[far] - before[at]) < goal:
                    last, far = far + 1, min(to, 2 * far - at)
                while last < far:
                    middle = (last + far) // 2
                    if wide * (before[middle] - before[at]) < goal:
                        last = middle + 1
                    else:
                        far = middle
                part = goal - wide * (before[last - 1] - before[at])
                q += wide * (above[last - 1] - above[at])
                if part > 0.0:
                    q += part * (above[last] - above[last - 1]) / (before[last] - before[last - 1])
                if goal >= left:
                    return q
                left -= goal
                wide = 0.0
        if m == end:
            return q
        j = mine[m]
        x = min(width[j], left)
        q += x * V[successor[j]]
        left -= x
        if left <= 0.0:
            return q
        at = max(at, to + 1)
    return q


@compiled
def extended_backward(intervals: Intervals, pay: Array, tie: float, choice: Array, orders: Array) -> Array:
    """Best policy and best transitions for pay [P]: the values [n] at the first step.

    Fills choice [H, n] and orders [H, n]: the states from the best down at the step after h. Ties between actions as in
    `backward`; between states to the lowest index.
    """
    first, _, successor, _, _, _, _, many, _ = intervals
    horizon, n = choice.shape
    V = np.zeros(n)
    W = np.empty(n)
    rank = np.empty(n, np.int64)
    mine = np.arange(successor.size)
    before = np.zeros(n + 1)
    above = np.zeros(n + 1)
    for h in range(horizon - 1, -1, -1):
        orders[h] = rank_states(V, many, rank, before, above)
        for s in range(n):
            best = -np.inf
            chosen = -np.inf
            at = first[s]
            for k in range(first[s], first[s + 1]):
                q = pay[k]
                if h < horizon - 1:
                    q += best_value(k, intervals, V, rank, mine, before, above)
                if q > chosen + tie:
                    chosen = q
                    at = k
                best = max(best, q)
            W[s] = best
            choice[h, s] = at - first[s]
        V, W = W, V
    return V


@compiled
def _move(k: int, x: float, intervals: Intervals, order: Array, rank: Array, mine: Array, then: Array) -> None:
    """Add x * (the best distribution of pair k) to then [n]."""
    _, start, successor, low, width, free, others, many, rest = intervals
    begin, end = start[k], start[k + 1]
    for j in range(begin, end):
        then[successor[j]] += x * low[j]
    left = free[k]
    room = rest[k] if others[k] > 0.0 else 0.0
    _sort(begin, end, successor, rank, mine)
    m = begin
    at = 0
    while left > 0.0 and (m < end or (room > 0.0 and at < order.size)):
        if m < end and (room <= 0.0 or rank[successor[mine[m]]] <= at):
            j = mine[m]
            part = min(width[j], left)
            then[successor[j]] += x * part
            at = max(at, rank[successor[j]] + 1)
            m += 1
        else:
            part = min(others[k] * many[order[at]], left, room)
            then[order[at]] += x * part
            at += 1
            room -= part
        left -= part


@compiled
def extended_occupation(
    intervals: Intervals, initial: Array, choice: Array, orders: Array, weight: float, rho: Array
) -> None:
    """Add weight * (the probability of each step and pair) to rho [H, P], or its sum over the steps to rho [1, P].

    Of what `extended_backward` chose, under the transitions it chose.
    """
    first, successor = intervals[0], intervals[2]
    horizon, n = choice.shape
    rank = np.empty(n, np.int64)
    mine = np.arange(successor.size)
    now = initial.copy()
    then = np.zeros(n)
    for h in range(horizon):
        row = h if rho.shape[0] > 1 else 0
        order = orders[h]
        for i in range(n):
            rank[order[i]] = i
            then[i] = 0.0
        for s in range(n):
            if now[s] > 0.0:
                k = first[s] + choice[h, s]
                rho[row, k] += weight * now[s]
                if h < horizon - 1:
                    _move(k, now[s], intervals, order, rank, mine, then)
        now, then = then, now

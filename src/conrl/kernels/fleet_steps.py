"""A fleet played: first states, and steps of all units, with the guard that never lets them exceed a limit.

The units of a stack are in the lanes of vectors, as in `conrl.kernels.fleets`; here they are played one at a time. Each
draw has a number of its own in a stream, so that it does not depend on how many there were before.
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled, inlined
from conrl.kernels.fleets import Pattern
from conrl.kernels.lanes import LANES

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@inlined
def uniform(key: np.uint64, i: np.uint64) -> float:
    """The i-th number in [0, 1) of the stream `key`: splitmix64 (Steele, Lea and Flood 2014), which starts anywhere."""
    z = key + (i + np.uint64(1)) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 2.0**-53


@compiled
def fleet_starts(initial: Array, member: Array, key: np.uint64, offset: int, states: Array) -> None:
    """The first states [n] of units, drawn: member [n] says of which lane each is; draw number offset + u of `key`."""
    for u in range(member.size):
        b, lane = member[u] // LANES, member[u] % LANES
        x = uniform(key, np.uint64(offset + u))
        at = 0
        for s in range(initial.shape[1]):
            if initial[b, s, lane] > 0.0:
                at = s
                x -= initial[b, s, lane]
                if x < 0.0:
                    break
        states[u] = at


@compiled
def fleet_step(
    pattern: Pattern,
    probability: Array,
    reward: Array,
    paid: Array,
    by_outcome: bool,
    unit: Array,
    choice: Array,
    table: Array,
    h: int,
    begin: int,
    end: int,
    key: np.uint64,
    offset: int,
    states: Array,
    guarded: bool,
    columns: Array,
    limit: Array,
    safe: Array,
    reserve: Array,
    step_columns: Array,
    step_limit: Array,
    later: Array,
    committed: Array,
    ahead: Array,
    spent: Array,
    stepped: Array,
) -> tuple[float, int]:
    """Step h of the units begin..end-1 of a stack in one run: what they earn, and how many actions were refused.

    unit [n]: the lane of the numbers of each; choice [n]: its row of table [T, H, S]. Costs are whole quanta. The guard
    keeps  committed [c] = spent so far + what all units may still need (`reserve` [lanes, H+1, S, c])  at most `limit`,
    and ahead [n, H], the same for each step (`later`), at most `step_limit` [n, H]: an action is played if that still
    holds after its worst outcome, and else the safe one, for which it always does. An empty `reserve` or `later` is 0.
    spent [d] and stepped [n] are added up, guard or not.
    """
    first, start, successor, shift = pattern
    horizon = table.shape[1]
    held, kept = reserve.size > 0, later.size > 0
    c, n = columns.size, step_columns.size
    earned, refused = 0.0, 0
    for u in range(begin, end):
        b, lane = unit[u] // LANES, unit[u] % LANES
        s = states[u]
        p, x = probability[b], paid[b]
        begin_now = first[h * shift + s]
        k = begin_now + table[choice[u], h, s]
        if guarded:
            fits = True
            for i in range(c):
                worst = np.iinfo(np.int64).min
                for j in range(start[k], start[k + 1]):
                    if p[j, lane] > 0.0:
                        q = np.int64(x[columns[i], j if by_outcome else k, lane])
                        if held:
                            q += reserve[unit[u], h + 1, successor[j], i]
                        worst = max(worst, q)
                        if not (held or by_outcome):
                            break
                if committed[i] - (reserve[unit[u], h, s, i] if held else 0) + worst > limit[i]:
                    fits = False
            for i in range(n):
                worst = np.iinfo(np.int64).min
                for j in range(start[k], start[k + 1]):
                    if p[j, lane] > 0.0:
                        worst = max(worst, np.int64(x[step_columns[i], j if by_outcome else k, lane]))
                if ahead[i, h] - (later[unit[u], h, s, i, h] if kept else 0) + worst > step_limit[i, h]:
                    fits = False
                if kept:
                    for g in range(h + 1, horizon):
                        worst = np.iinfo(np.int64).min
                        for j in range(start[k], start[k + 1]):
                            if p[j, lane] > 0.0:
                                worst = max(worst, later[unit[u], h + 1, successor[j], i, g])
                        if ahead[i, g] - later[unit[u], h, s, i, g] + worst > step_limit[i, g]:
                            fits = False
            if not fits:
                other = begin_now + safe[unit[u], h, s]
                if other != k:
                    refused += 1
                k = other
        rest = uniform(key, np.uint64(offset + u))
        j = start[k]
        for e in range(start[k], start[k + 1]):
            if p[e, lane] > 0.0:
                j = e
                rest -= p[e, lane]
                if rest < 0.0:
                    break
        then = successor[j]
        at = j if by_outcome else k
        earned += reward[b, at, lane]
        for i in range(spent.size):
            spent[i] += np.int64(x[i, at, lane])
        for i in range(n):
            stepped[i] += np.int64(x[step_columns[i], at, lane])
        if guarded:
            for i in range(c):
                committed[i] += np.int64(x[columns[i], at, lane])
                if held:
                    committed[i] += reserve[unit[u], h + 1, then, i] - reserve[unit[u], h, s, i]
            for i in range(n):
                ahead[i, h] += np.int64(x[step_columns[i], at, lane])
                if kept:
                    ahead[i, h] -= later[unit[u], h, s, i, h]
                    for g in range(h + 1, horizon):
                        ahead[i, g] += later[unit[u], h + 1, then, i, g] - later[unit[u], h, s, i, g]
        states[u] = then
    return earned, refused

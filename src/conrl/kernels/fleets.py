"""Many processes at once: LANES units in the lanes of a vector, one block of units after the other.

The units of a *stack* share a pattern (`first`, `start`, `successor` as in `conrl.kernels`; an outcome that a unit does
not have has probability 0 there) and differ in their numbers. `shift` is S where every step has pairs of its own, else
0: the pairs of state s at step h are those of node h * shift + s. A node without any is one where nobody comes.

    probability [D, K, LANES]         pay [D, 1+d, P, LANES]         size [D, 1+d, LANES]: the largest |pay|
    data [B]                          which of the D blocks of numbers the units of block b read
    initial [B, S, LANES]             count [B, LANES]: how many such units there are; 0 for a lane without one

All steps of a block stay in the cache, so that numbers come from memory once for all directions of a sweep; no state is
gathered, since the lanes of a register are the same state of 8 units. Sums over units are made in chunks of blocks,
chunk by chunk in a fixed order: threads change nothing.
"""

from typing import Any

import numpy as np

from conrl.kernels.compiling import Array, compiled, inlined
from conrl.kernels.lanes import LANES, Lanes, add, every, pick, put, row

Pattern = tuple[Any, ...]  # first, start, successor, shift
Numbers = tuple[Array, ...]  # probability, pay, size, data, initial, count

ONE = np.uint64(1)


@inlined
def only(at: Lanes, a: float, x: Lanes) -> Lanes:
    """x where `at` is a, else 0."""
    return (
        x[0] if at[0] == a else 0.0,
        x[1] if at[1] == a else 0.0,
        x[2] if at[2] == a else 0.0,
        x[3] if at[3] == a else 0.0,
        x[4] if at[4] == a else 0.0,
        x[5] if at[5] == a else 0.0,
        x[6] if at[6] == a else 0.0,
        x[7] if at[7] == a else 0.0,
    )


@inlined
def sizes_of(x: Lanes) -> Lanes:
    return (abs(x[0]), abs(x[1]), abs(x[2]), abs(x[3]), abs(x[4]), abs(x[5]), abs(x[6]), abs(x[7]))


@inlined
def across(x: Lanes) -> Any:
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]))


@compiled
def fleet_sweep(
    pattern: Pattern,
    numbers: Numbers,
    horizon: int,
    weights: Array,
    largest: Array,
    stepwise: Array,
    tie: float,
    absolute: bool,
    begin: int,
    end: int,
    values: Array,
    points: Array,
    apart: Array,
    rows: Array,
    table: Array,
) -> None:
    """Answers of the blocks begin..end-1 to m directions, added up: values [m], points [m, 1 + d + n H].

    weights [m, 1 or H, 1+d]: the direction at each step, or at all of them; largest [m, 1+d]: the largest size of each
    over the steps, for ties. stepwise [n]: the columns of pay that are also added up step by step. `absolute`: with the
    sizes of pay instead. `apart` [m, B, 1 + d + n H, LANES], or empty: the points of each unit. `rows` [B, LANES], or
    empty: into which row of table [T, H, S] the choices of a unit for the last direction go; -1 for none.
    """
    first, start, successor, shift = pattern
    probability, pay, size, data, initial, count = numbers
    num_states = np.uint64(initial.shape[1])
    num_pairs = np.uint64(start.size - 1)
    directions, width, extra = weights.shape[0], pay.shape[1], stepwise.size
    steady = weights.shape[1] == 1
    V0, V1 = np.zeros((num_states, LANES)), np.zeros((num_states, LANES))
    choice = np.zeros((horizon, num_states, LANES))
    scalar, counts = np.zeros((num_pairs, LANES)), np.zeros((num_pairs, LANES))
    sums = np.zeros((directions, 1 + points.shape[1], LANES))
    uses = np.zeros((max(extra, 1), LANES))
    zero = every(0.0)
    for b in range(np.uint64(begin), np.uint64(end)):
        p, x, mine, mass = probability[data[b]], pay[data[b]], initial[b], row(count, b)
        for m in range(directions):
            ties = zero
            for i in range(width):
                ties = add(ties, every(tie * largest[m, i]), row(size[data[b]], i))
            V, W = V0, V1
            for h in range(horizon - 1, -1, -1):
                begin_now = np.uint64(h) * shift
                if h == horizon - 1 or not steady or shift:
                    w = weights[m, 0 if steady else h]
                    for k in range(first[begin_now], first[begin_now + num_states]):
                        q = zero
                        for i in range(width):
                            r = row(x[i], k)
                            q = add(q, every(w[i]), sizes_of(r) if absolute else r)
                        put(scalar, k, q)
                chosen_now = choice[h]
                last = h == horizon - 1
                for s in range(num_states):
                    best = every(-np.inf)
                    chosen = best
                    at = zero
                    a = 0.0
                    node = begin_now + s
                    if first[node] == first[node + ONE]:
                        best = zero
                    for k in range(first[node], first[node + ONE]):
                        q = row(scalar, k)
                        if not last:
                            for j in range(start[k], start[k + ONE]):
                                q = add(q, row(p, j), row(V, successor[j]))
                        at = pick(q, chosen, ties, every(a), at)
                        chosen = pick(q, chosen, ties, q, chosen)
                        best = pick(q, best, zero, q, best)
                        a += 1.0
                    put(W, s, best)
                    put(chosen_now, s, at)
                V, W = W, V
            total = zero
            for s in range(num_states):
                total = add(total, row(mine, s), row(V, s))
            put(sums[m], 0, add(row(sums[m], 0), mass, total))

            now, then = V0, V1
            for s in range(num_states):
                put(now, s, row(mine, s))
            for k in range(num_pairs):
                put(counts, k, zero)
            for h in range(horizon):
                chosen_now = choice[h]
                more = h + 1 < horizon
                for i in range(extra):
                    put(uses, i, zero)
                if more:
                    for s in range(num_states):
                        put(then, s, zero)
                for s in range(num_states):
                    here = row(now, s)
                    if across(here) == 0.0:
                        continue
                    at = row(chosen_now, s)
                    a = 0.0
                    node = np.uint64(h) * shift + s
                    for k in range(first[node], first[node + ONE]):
                        y = only(at, a, here)
                        a += 1.0
                        put(counts, k, add(row(counts, k), every(1.0), y))
                        for i in range(extra):
                            put(uses, i, add(row(uses, i), y, row(x[stepwise[i]], k)))
                        if more:
                            for j in range(start[k], start[k + ONE]):
                                put(then, successor[j], add(row(then, successor[j]), y, row(p, j)))
                for i in range(extra):
                    at_step = width + i * horizon + h
                    put(sums[m], 1 + at_step, add(row(sums[m], 1 + at_step), mass, row(uses, i)))
                    if apart.size:
                        put(apart[m, b], at_step, row(uses, i))
                now, then = then, now
            for i in range(width):
                total = zero
                for k in range(num_pairs):
                    total = add(total, row(counts, k), row(x[i], k))
                put(sums[m], 1 + i, add(row(sums[m], 1 + i), mass, total))
                if apart.size:
                    put(apart[m, b], i, total)
        if rows.size:
            for lane in range(LANES):
                t = rows[b, lane]
                if t >= 0:
                    for h in range(horizon):
                        for s in range(num_states):
                            table[t, h, s] = choice[h, s, lane]
    for m in range(directions):
        values[m] = across(row(sums[m], 0))
        for i in range(points.shape[1]):
            points[m, i] = across(row(sums[m], 1 + i))

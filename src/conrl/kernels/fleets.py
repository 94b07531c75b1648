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
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


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


# -- fewer mixtures ---------------------------------------------------------------------------------------


@compiled
def fewer_mixtures(gain: Array, use: Array, slack: Array, weight: Array) -> int:
    """Move weight [n, J] of units between their J answers until at most R units or rows are not at an end.

    gain [n, J] and use [n, J, R] are what the answers bring and use (all units of a kind together), slack [R] what the
    rows leave free; weight and slack are changed in place. Each move goes along a null vector of R + 1 degrees of
    freedom (an answer against the unit's base, or a row's slack), does not lower the gain, keeps all rows, and brings
    one weight or slack to 0. Returns how many moves were made. (Caratheodory; a basic solution of the program over the
    units has so many positive weights at most.)
    """
    units, answers = gain.shape
    R = slack.size
    base = np.zeros(units, np.int64)
    for i in range(units):
        for j in range(1, answers):
            if weight[i, j] > weight[i, base[i]]:
                base[i] = j
    unit, answer = np.full(R + 1, -1, np.int64), np.zeros(R + 1, np.int64)  # -1: the slack of row `answer`
    size = 0
    for r in range(R):
        if slack[r] > 0.0:
            answer[size] = r
            size += 1
    V, t = np.zeros((R, R + 1)), np.zeros(R + 1)
    order = np.zeros(R + 1, np.int64)
    at, moves = 0, 0
    while True:
        while size < R + 1 and at < units * answers:
            i, j = at // answers, at % answers
            at += 1
            if j != base[i] and weight[i, j] > 0.0:
                unit[size], answer[size] = i, j
                size += 1
        if size < R + 1:
            return moves
        # A null vector of V [R, R+1], by elimination with full pivoting; columns in `order`.
        for q in range(R + 1):
            order[q] = q
            for r in range(R):
                if unit[q] < 0:
                    V[r, q] = 1.0 if answer[q] == r else 0.0
                else:
                    V[r, q] = use[unit[q], answer[q], r] - use[unit[q], base[unit[q]], r]
        rank, top = 0, 0.0
        for r in range(R):
            best, br, bq = 0.0, r, r
            for e in range(r, R):
                for q in range(r, R + 1):
                    if abs(V[e, q]) > best:
                        best, br, bq = abs(V[e, q]), e, q
            top = max(top, best)
            if best <= 1e-13 * top:
                break
            rank = r + 1
            for q in range(R + 1):
                V[r, q], V[br, q] = V[br, q], V[r, q]
            for e in range(R):
                V[e, r], V[e, bq] = V[e, bq], V[e, r]
            order[r], order[bq] = order[bq], order[r]
            for e in range(R):
                if e != r and V[e, r] != 0.0:
                    f = V[e, r] / V[r, r]
                    for q in range(r, R + 1):
                        V[e, q] -= f * V[r, q]
        for q in range(R + 1):
            t[q] = 0.0
        t[order[rank]] = 1.0
        for r in range(rank):
            t[order[r]] = -V[r, rank] / V[r, r]
        rise = 0.0
        for q in range(R + 1):
            if unit[q] >= 0:
                rise += t[q] * (gain[unit[q], answer[q]] - gain[unit[q], base[unit[q]]])
        if rise < 0.0:
            for q in range(R + 1):
                t[q] = -t[q]
        # How far: until an answer's weight, a base's weight or a slack is 0.
        far, hit, hit_base = np.inf, -1, False
        for q in range(R + 1):
            if t[q] < 0.0:
                held = slack[answer[q]] if unit[q] < 0 else weight[unit[q], answer[q]]
                if held < -t[q] * far:
                    far, hit, hit_base = held / -t[q], q, False
            if unit[q] >= 0:
                taken = 0.0
                for e in range(R + 1):
                    if unit[e] == unit[q]:
                        taken += t[e]
                if taken > 0.0 and weight[unit[q], base[unit[q]]] < taken * far:
                    far, hit, hit_base = weight[unit[q], base[unit[q]]] / taken, q, True
        if hit < 0:
            return moves
        for q in range(R + 1):
            if unit[q] < 0:
                slack[answer[q]] = max(slack[answer[q]] + far * t[q], 0.0)
            else:
                weight[unit[q], answer[q]] = max(weight[unit[q], answer[q]] + far * t[q], 0.0)
                weight[unit[q], base[unit[q]]] -= far * t[q]
        for q in range(R + 1):
            if unit[q] >= 0:  # once all its answers have taken and given
                weight[unit[q], base[unit[q]]] = max(weight[unit[q], base[unit[q]]], 0.0)
        moves += 1
        if hit_base:
            i = unit[hit]
            weight[i, base[i]] = 0.0
            base[i] = answer[hit]  # the base from now on, and no longer a degree of freedom
        elif unit[hit] < 0:
            slack[answer[hit]] = 0.0
        else:
            weight[unit[hit], answer[hit]] = 0.0
        size -= 1
        unit[hit], answer[hit] = unit[size], answer[size]
        unit[size] = -1


# -- what is safe -----------------------------------------------------------------------------------------


@compiled
def safe_policies(
    pattern: Pattern,
    probability: Array,
    gain: Array,
    paid: Array,
    by_outcome: bool,
    columns: Array,
    weights: Array,
    units: int,
    safe: Array,
    reserve: Array,
    needs: Array,
) -> None:
    """For each of the first `units` units of the numbers: what costs least in the worst case, and how much that is.

    `paid` [D, d, K or P, LANES] are costs by outcome or by pair, in whole quanta; `columns` the costs that are limited.
    weights [H, columns] weigh them: safe [units, H, S], the choice with the least weighted worst case to go; of equal
    ones, as where several actions are free, the one that earns most so: gain [D, P, LANES] is the mean reward. Of it,
    reserve [units, H+1, S, columns] is the worst case to go of each cost alone, and needs [units, H, S, columns] the
    worst case of the step itself.
    """
    first, start, successor, shift = pattern
    horizon, n = weights.shape
    num_states = reserve.shape[2]
    V, W = np.zeros(num_states), np.zeros(num_states)  # the worst case to go
    U, X = np.zeros(num_states), np.zeros(num_states)  # what is earned on average
    for u in range(units):
        p, c, lane = probability[u // LANES], paid[u // LANES], u % LANES
        for s in range(num_states):
            V[s] = 0.0
            U[s] = 0.0
        for h in range(horizon - 1, -1, -1):
            for s in range(num_states):
                node = h * shift + s
                best, at = np.inf, first[node]
                earned = -np.inf
                if at == first[node + 1]:
                    W[s] = 0.0
                    X[s] = 0.0
                    continue
                for k in range(first[node], first[node + 1]):
                    worst = -np.inf
                    more = gain[u // LANES, k, lane]
                    for j in range(start[k], start[k + 1]):
                        if p[j, lane] > 0.0:
                            more += p[j, lane] * U[successor[j]]
                            q = V[successor[j]]
                            for i in range(n):
                                q += weights[h, i] * c[columns[i], j if by_outcome else k, lane]
                            worst = max(worst, q)
                    if worst < best or (worst == best and more > earned):
                        best, at, earned = worst, k, more
                W[s] = best
                X[s] = earned
                safe[u, h, s] = at - first[node]
                for i in range(n):
                    to_go = now = np.iinfo(np.int64).min
                    for j in range(start[at], start[at + 1]):
                        if p[j, lane] > 0.0:
                            cost = np.int64(c[columns[i], j if by_outcome else at, lane])
                            to_go = max(to_go, cost + reserve[u, h + 1, successor[j], i])
                            now = max(now, cost)
                    reserve[u, h, s, i] = to_go
                    needs[u, h, s, i] = now
            V, W = W, V
            U, X = X, U


@compiled
def later_needs(pattern: Pattern, probability: Array, safe: Array, needs: Array, units: int, later: Array) -> None:
    """later [units, H, S, columns, H]: the most that the safe policy may cost at step g >= h, from a state at h."""
    first, start, successor, shift = pattern
    horizon, num_states, n = needs.shape[1], needs.shape[2], needs.shape[3]
    for u in range(units):
        p, lane = probability[u // LANES], u % LANES
        for h in range(horizon - 1, -1, -1):
            for s in range(num_states):
                node = h * shift + s
                at = first[node] + safe[u, h, s]
                if first[node] == first[node + 1]:
                    continue
                for i in range(n):
                    later[u, h, s, i, h] = needs[u, h, s, i]
                    for g in range(h + 1, horizon):
                        most = np.iinfo(np.int64).min
                        for j in range(start[at], start[at + 1]):
                            if p[j, lane] > 0.0:
                                most = max(most, later[u, h + 1, successor[j], i, g])
                        later[u, h, s, i, g] = most


# -- simulation -------------------------------------------------------------------------------------------


@inlined
def uniform(key: np.uint64, i: np.uint64) -> float:
    """The i-th number in [0, 1) of the stream `key`: splitmix64 (Steele, Lea and Flood 2014), which starts anywhere."""
    z = key + (i + ONE) * GOLDEN
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

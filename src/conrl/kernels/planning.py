"""Backward induction, and what its policy is worth; see `conrl.kernels` for the letters."""

from typing import Any

import numpy as np

from conrl.kernels.compiling import Array, compiled, inlined
from conrl.kernels.lanes import LANES, add, every, gather, pick, put, row
from conrl.kernels.layout import Graph, Lines, Occupied

Laid = tuple[Any, ...]  # graph, lines, occupied, initial, pay, bonus, slot_pay, slot_bonus, missing, step_dependent
Work = tuple[Array, ...]  # scratch: values [2, B, LANES], mu [2, 1, n], counts [P], slots [slots, LANES]
Many = tuple[Array, ...]  # scratch: values [2, n, LANES], choice [M * LANES, LANES], pay [P, LANES]

PART = 1024  # pairs that are added up by themselves: a long sum loses less if its parts are summed first
ONE = np.uint64(1)  # unsigned throughout: numba then skips the test for negative indices


# -- directions -------------------------------------------------------------------------------------------


@compiled
def along(pay: Array, bonus: Array, w: Array, out: Array) -> None:
    """w.pay + |w|.bonus of each row of pay [n, 1+d], in out [n]; bonus [n, 1+d], or of no rows."""
    for k in range(out.size):
        q = 0.0
        for i in range(w.size):
            q += pay[k, i] * w[i]
        if bonus.shape[0]:
            for i in range(w.size):
                q += bonus[k, i] * abs(w[i])
        out[k] = q


@compiled
def along_blocks(pay: Array, bonus: Array, w: Array, out: Array) -> None:
    """The same, bit for bit, of LANES pairs at once: pay and bonus [slots * (1+d), LANES], out [slots, LANES]."""
    size = w.size
    for slot in range(out.shape[0]):
        q = every(0.0)
        for i in range(size):
            q = add(q, row(pay, slot * size + i), every(w[i]))
        if bonus.shape[0]:
            for i in range(size):
                q = add(q, row(bonus, slot * size + i), every(abs(w[i])))
        put(out, slot, q)


@compiled
def along_many(pay: Array, bonus: Array, W: Array, sizes: Array, out: Array) -> None:
    """The same, bit for bit, for LANES directions W [1+d, LANES] of `sizes` |W|; out [n, LANES]."""
    for k in range(out.shape[0]):
        q = every(0.0)
        for i in range(W.shape[0]):
            q = add(q, every(pay[k, i]), row(W, i))
        if bonus.shape[0]:
            for i in range(W.shape[0]):
                q = add(q, every(bonus[k, i]), row(sizes, i))
        put(out, k, q)


# -- backward induction -----------------------------------------------------------------------------------


@compiled
def backward(
    lines: Lines, occupied: Occupied, pay: Array, tie: float, values: Array, choice: Array, since: int, until: int,
    part: int, parts: int,
) -> None:  # fmt: skip
    """Steps until-1, .., since of one direction; fills choice [M, LANES], a row for each step and block to be occupied.

    pay [slots, LANES]. The rows of step h are at[h], at[h] + 1, .., one for each of blocks[lo[h]:hi[h]].
    `values` [2, B, LANES] is scratch; values[H % 2] are left as those at the first step. Of the blocks of each step one
    part of `parts` is done: threads may share a step.
    """
    block_first, slot_start, line_successor, line_probability = lines
    lo, hi, blocks, begin = occupied
    horizon = lo.size
    ties = every(tie)
    zero = every(0.0)
    for h in range(until - 1, since - 1, -1):
        V = values[(horizon - 1 - h) % 2].reshape(-1)
        W = values[(horizon - h) % 2]
        rows = np.uint64(begin[h]) - np.uint64(lo[h])
        last = h == horizon - 1
        count = hi[h] - lo[h]
        for i in range(np.uint64(lo[h] + count * part // parts), np.uint64(lo[h] + count * (part + 1) // parts)):
            b = np.uint64(blocks[i])
            best = every(-np.inf)
            chosen = best
            at = zero
            a = 0.0
            for slot in range(block_first[b], block_first[b + ONE]):
                q = row(pay, slot)
                if not last:
                    for line in range(slot_start[slot], slot_start[slot + ONE]):
                        q = add(q, row(line_probability, line), gather(V, row(line_successor, line)))
                at = pick(q, chosen, ties, every(a), at)
                chosen = pick(q, chosen, ties, q, chosen)
                best = pick(q, best, zero, q, best)
                a += 1.0
            put(W, b, best)
            put(choice, rows + i, at)


@compiled
def expected(initial: Array, values: Array) -> float:
    """What the start expects of values [n]."""
    total = 0.0
    for s in range(initial.size):
        if initial[s] > 0.0:
            total += initial[s] * values[s]
    return total


@compiled
def backward_many(
    graph: Graph, occupied: Occupied, pay: Array, tie: Array, values: Array, choice: Array, since: int, until: int,
    part: int, parts: int,
) -> None:  # fmt: skip
    """The same in LANES directions: pay [P, LANES], tie [LANES], choice [M * LANES, LANES], values [2, n, LANES].

    The graph is in positions here: first [n+1], start [P+1], successor [N] and pay follow `order`.
    """
    first, start, successor, probability = graph
    lo, hi, blocks, begin = occupied
    horizon = lo.size
    n = np.uint64(first.size - 1)
    ties = (tie[0], tie[1], tie[2], tie[3], tie[4], tie[5], tie[6], tie[7])
    zero = every(0.0)
    for h in range(until - 1, since - 1, -1):
        V = values[(horizon - 1 - h) % 2]
        W = values[(horizon - h) % 2]
        rows = np.uint64(begin[h]) - np.uint64(lo[h])
        last = h == horizon - 1
        count = hi[h] - lo[h]
        for i in range(np.uint64(lo[h] + count * part // parts), np.uint64(lo[h] + count * (part + 1) // parts)):
            s0 = np.uint64(blocks[i]) * np.uint64(LANES)
            for s in range(s0, min(n, s0 + np.uint64(LANES))):
                best = every(-np.inf)
                chosen = best
                at = zero
                a = 0.0
                for k in range(first[s], first[s + ONE]):
                    q = row(pay, k)
                    if not last:
                        for j in range(start[k], start[k + ONE]):
                            q = add(q, every(probability[j]), row(V, successor[j]))
                    at = pick(q, chosen, ties, every(a), at)
                    chosen = pick(q, chosen, ties, q, chosen)
                    best = pick(q, best, zero, q, best)
                    a += 1.0
                put(W, s, best)
                put(choice, (rows + i) * np.uint64(LANES) + s - s0, at)


@compiled
def visits(
    graph: Graph, occupied: Occupied, choice: Array, lanes: int, lane: int, mu: Array, counts: Array, since: int,
    until: int, fork: int,
) -> None:  # fmt: skip
    """Steps since, .., until-1 of the greedy policy choice[lane::lanes] ([M * LANES * lanes]): add the expected visits
    to each pair to counts [P].

    Everything in positions, as in `backward_many`. mu[since % 2, 0] [n] is who is there at first. In `mu` [2, F, n]
    each of F forks has room of its own for what it sends on, so that threads may share a step, a fork each; with one,
    many steps are one call. Where a state's mass comes from several forks, they are added in their order. What was read
    is 0 again, and at the end all is.
    """
    first, start, successor, probability = graph
    lo, hi, blocks, begin = occupied
    n = np.uint64(first.size - 1)
    forks = mu.shape[1]
    for h in range(since, until):
        now, then = mu[h % 2], mu[(h + 1) % 2, fork]
        more = h + 1 < lo.size
        rows = np.uint64(begin[h]) - np.uint64(lo[h])
        count = hi[h] - lo[h]
        for i in range(np.uint64(lo[h] + count * fork // forks), np.uint64(lo[h] + count * (fork + 1) // forks)):
            s0 = np.uint64(blocks[i]) * np.uint64(LANES)
            for s in range(s0, min(n, s0 + np.uint64(LANES))):
                x = 0.0
                for f in range(forks):
                    x += now[f, s]
                    now[f, s] = 0.0
                if x > 0.0:
                    k = first[s] + np.uint64(
                        choice[((rows + i) * np.uint64(LANES) + s - s0) * np.uint64(lanes) + np.uint64(lane)]
                    )
                    counts[k] += x
                    if more:
                        for j in range(start[k], start[k + ONE]):
                            then[successor[j]] += x * probability[j]


@compiled
def collected(
    graph: Graph,
    occupied: Occupied,
    initial: Array,
    choice: Array,
    lanes: int,
    lane: int,
    mu: Array,
    pay: Array,
    bonus: Array,
    mean: Array,
    moved: Array,
) -> None:
    """The expected totals of pay [P, 1+d] under the policy of `visits`, in mean [1+d], and those of bonus in moved.

    For models whose steps have pairs of their own: a pair is played at one step only, so that nothing is gained by
    adding up visits first, and most pairs need not be looked at. `mu` as there; bonus may have no rows.
    """
    first, start, successor, probability = graph
    lo, hi, blocks, begin = occupied
    horizon = lo.size
    n = np.uint64(first.size - 1)
    size = mean.size
    for i in range(size):
        mean[i] = 0.0
        moved[i] = 0.0
    for s in range(n):
        mu[0, 0, s] = initial[s]
    for h in range(horizon):
        now = mu[h % 2, 0]
        then = mu[(h + 1) % 2, 0]
        more = h + 1 < horizon
        rows = np.uint64(begin[h]) - np.uint64(lo[h])
        for b in range(np.uint64(lo[h]), np.uint64(hi[h])):
            s0 = np.uint64(blocks[b]) * np.uint64(LANES)
            for s in range(s0, min(n, s0 + np.uint64(LANES))):
                x = now[s]
                if x > 0.0:
                    now[s] = 0.0  # a block may hold states of two steps: each is come to once
                    k = first[s] + np.uint64(
                        choice[((rows + b) * np.uint64(LANES) + s - s0) * np.uint64(lanes) + np.uint64(lane)]
                    )
                    for i in range(size):
                        mean[i] += x * pay[k, i]
                    if bonus.shape[0]:
                        for i in range(size):
                            moved[i] += x * bonus[k, i]
                    if more:
                        for j in range(start[k], start[k + ONE]):
                            then[successor[j]] += x * probability[j]


# -- directions answered ----------------------------------------------------------------------------------


@compiled
def worth(
    laid: Laid, w: Array, choice: Array, lanes: int, lane: int, work: Work, counted: bool, point: Array, mean: Array
) -> None:
    """The expected totals of the policy choice[lane::lanes], in mean [1+d]; in the best case for w within the bonus, in
    point [1+d]. `counted`: its visits are known, in `work`."""
    graph, _, occupied, initial, pay, bonus, _, _, _, step_dependent = laid
    _, mu, counts, _ = work
    size = w.size
    moved = np.zeros(size)
    if step_dependent:
        collected(graph, occupied, initial, choice, lanes, lane, mu, pay, bonus, mean, moved)
    else:
        if not counted:
            for k in range(counts.size):
                counts[k] = 0.0
            for s in range(initial.size):
                mu[0, 0, s] = initial[s]
            visits(graph, occupied, choice, lanes, lane, mu, counts, 0, occupied[0].size, 0)
        part = np.zeros((2, size))
        for i in range(size):
            mean[i] = 0.0
        for k in range(counts.size):
            x = counts[k]
            if x > 0.0:
                for i in range(size):
                    part[0, i] += x * pay[k, i]
                if bonus.shape[0]:
                    for i in range(size):
                        part[1, i] += x * bonus[k, i]
            if (k + 1) % PART == 0 or k + 1 == counts.size:
                for i in range(size):
                    mean[i] += part[0, i]
                    moved[i] += part[1, i]
                    part[0, i] = 0.0
                    part[1, i] = 0.0
    for i in range(size):
        point[i] = mean[i] + np.sign(w[i]) * moved[i] if bonus.shape[0] else mean[i]


@inlined
def tied(w: Array, ties: Array) -> float:
    """How close to each other actions tie, in a direction: |w| . ties."""
    tie = 0.0
    for i in range(w.size):
        tie += abs(w[i]) * ties[i]
    return tie


@compiled
def answer(laid: Laid, w: Array, ties: Array, work: Work, choice: Array, point: Array, mean: Array) -> float:
    """support(w) by `backward`, with the policy that attains it in choice [M, LANES] and its value vectors in point and
    mean. What is chosen depends on w alone, also where nobody comes."""
    _, lines, occupied, initial, _, _, slot_pay, slot_bonus, missing, _ = laid
    values, _, _, slots = work
    along_blocks(slot_pay, slot_bonus, w, slots)
    for slot in range(missing.shape[0]):
        for m in range(LANES):
            if missing[slot, m]:
                slots[slot, m] = -np.inf
    zero = every(0.0)
    for b in range(values.shape[1]):
        put(values[0], b, zero)
        put(values[1], b, zero)
    horizon = occupied[0].size
    backward(lines, occupied, slots, tied(w, ties), values, choice, 0, horizon, 0, 1)
    worth(laid, w, choice.reshape(-1), 1, 0, work, False, point, mean)
    return expected(initial, values[horizon % 2].reshape(-1))


@compiled
def many_ways(
    pay: Array, bonus: Array, directions: Array, ties: Array, gone: Array, values: Array, slots: Array
) -> Array:
    """Make ready for `backward_many`: the pay along each of up to LANES directions [m, 1+d], and their ties [LANES].

    `gone` [P] are pairs that are not to be played, or of size 0.
    """
    m, size = directions.shape
    W, sizes, tie = np.zeros((size, LANES)), np.zeros((size, LANES)), np.zeros(LANES)
    for i in range(m):
        tie[i] = tied(directions[i], ties)
        for j in range(size):
            W[j, i] = directions[i, j]
            sizes[j, i] = abs(directions[i, j])
    along_many(pay, bonus, W, sizes, slots)
    for k in range(gone.size):
        if gone[k]:
            put(slots, k, every(-np.inf))
    zero = every(0.0)
    for i in range(values.shape[1]):
        put(values[0], i, zero)
        put(values[1], i, zero)
    return tie


@compiled
def answer_many(
    laid: Laid, directions: Array, ties: Array, gone: Array, work: Work, many: Many, found: Array, points: Array,
    means: Array,
) -> None:  # fmt: skip
    """The answers to up to LANES directions [m, 1+d], bit for bit as by `answer`, in one sweep of `backward_many`.

    `gone` as in `many_ways`; `found` [m] is filled with the values.
    """
    graph, _, occupied, initial, pay, bonus, _, _, _, _ = laid
    values, choice, slots = many
    horizon = occupied[0].size
    tie = many_ways(pay, bonus, directions, ties, gone, values, slots)
    backward_many(graph, occupied, slots, tie, values, choice, 0, horizon, 0, 1)
    for i in range(directions.shape[0]):
        found[i] = expected(initial, values[horizon % 2][:, i])
        worth(laid, directions[i], choice.reshape(-1), LANES, i, work, False, points[i], means[i])


@compiled
def greedy(first: Array, start: Array, successor: Array, probability: Array, action: Array, pay: Array, tie: float,
           actions: Array) -> None:  # fmt: skip
    """The best actions [H, S] for pay [P], at every step and state, reachable or not; ties as in `backward`."""
    horizon, size = actions.shape
    num_states = np.uint64(size)
    stride = num_states if first.size - 1 > size else np.uint64(0)
    V = np.zeros(size)
    W = np.empty(size)
    for h in range(horizon - 1, -1, -1):
        for s in range(num_states):
            node = np.uint64(h) * stride + s
            begin, end = np.uint64(first[node]), np.uint64(first[node + ONE])
            actions[h, s] = 0
            W[s] = 0.0
            if begin == end:
                continue  # nobody comes here at this step
            best = -np.inf
            chosen = -np.inf
            at = begin
            for k in range(begin, end):
                q = pay[k]
                if h < horizon - 1:
                    for j in range(np.uint64(start[k]), np.uint64(start[k + ONE])):
                        q += probability[j] * V[np.uint64(successor[j])]
                if q > chosen + tie:
                    chosen = q
                    at = k
                best = q if q > best else best
            W[s] = best
            actions[h, s] = action[at]
        V, W = W, V

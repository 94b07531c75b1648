"""Backward induction and the order in which it works; see `conrl.kernels` for the letters."""

import numpy as np

from conrl.kernels.compiling import Array, compiled
from conrl.kernels.lanes import LANES, Lanes, add, every, gather, pick, put, row

Graph = tuple[Array, ...]  # first, start, successor, probability
Lines = tuple[Array, ...]  # block_first, slot_start, line_successor, line_probability: `interleave`
Occupied = tuple[Array, ...]  # lo, hi, blocks, at

ONE = np.uint64(1)  # unsigned throughout: numba then skips the test for negative indices


# -- the order of work ------------------------------------------------------------------------------------


@compiled
def reachable(first: Array, start: Array, successor: Array, initial: Array, horizon: int) -> tuple[Array, Array, Array]:
    """What the start can lead to: since [S], sizes [steps], members.

    `since` is the step at which a state is first reached, `horizon` if never. The sets of states that can be occupied
    at steps 0, 1, .. stand one after the other in `members`, sizes[h] of them for step h. A set that repeats is stored
    once (it then repeats for ever). Once every state has been reached all of them are kept: at most too many.
    """
    num_states = first.size - 1
    since = np.full(num_states, horizon, np.int64)
    now = initial > 0.0
    sizes = np.zeros(horizon, np.int64)
    members = np.empty(num_states, np.int32)
    used = 0
    steps = 0  # distinct sets found
    for h in range(horizon):
        count = 0
        for s in range(num_states):
            if now[s]:
                count += 1
                since[s] = min(since[s], h)
        if used + count > members.size:
            grown = np.empty(2 * members.size + count, np.int32)
            for i in range(used):
                grown[i] = members[i]
            members = grown
        for s in range(num_states):
            if now[s]:
                members[used] = s
                used += 1
        sizes[h] = count
        steps = h + 1
        if count == num_states or steps == horizon:
            break
        later = np.zeros(num_states, np.bool_)
        for i in range(used - count, used):
            s = members[i]
            for j in range(start[first[s]], start[first[s + 1]]):
                later[successor[j]] = True
        same = True
        for s in range(num_states):
            if later[s] != now[s]:
                same = False
                break
        if same:
            break
        now = later
    return since, sizes[:steps], members[:used]


@compiled
def occupied_blocks(
    position: Array, num_blocks: int, sizes: Array, members: Array, horizon: int
) -> tuple[Array, Array, Array]:
    """lo [H], hi [H], blocks: blocks[lo[h]:hi[h]], by rising block, hold the states found for step h by `reachable`."""
    steps = sizes.size
    lo = np.empty(horizon, np.int64)
    hi = np.empty(horizon, np.int64)
    stamp = np.full(num_blocks, -1, np.int64)
    blocks = np.empty(min(members.size, steps * num_blocks), np.uint32)
    filled = 0
    at = 0
    for h in range(steps):
        for i in range(at, at + sizes[h]):
            stamp[position[members[i]] // LANES] = h
        at += sizes[h]
        lo[h] = filled
        for b in range(num_blocks):
            if stamp[b] == h:
                blocks[filled] = b
                filled += 1
        hi[h] = filled
    for h in range(steps, horizon):
        lo[h] = lo[steps - 1]
        hi[h] = hi[steps - 1]
    return lo, hi, blocks[:filled].copy()


@compiled
def reachable_by_step(first: Array, start: Array, successor: Array, initial: Array, horizon: int) -> Array:
    """[H, S]: the states that can be occupied at each step, where every step has pairs of its own."""
    num_states = initial.size
    reached = np.zeros((horizon, num_states), np.bool_)
    for s in range(num_states):
        reached[0, s] = initial[s] > 0.0
    for h in range(horizon - 1):
        for s in range(num_states):
            if reached[h, s]:
                node = h * num_states + s
                for j in range(start[first[node]], start[first[node + 1]]):
                    reached[h + 1, successor[j]] = True
    return reached


@compiled
def interleave(graph: Graph) -> tuple[Array, Lines]:
    """The outcomes of each block side by side; the graph is already in positions.

    slot_pair [slots, LANES]: the pairs in a slot, P for none. block_first [B+1]: slots of block b, one for the first
    action of its states, one for the second, ..; slot_start [slots+1]: its lines; line_successor (a position) and
    line_probability [lines, LANES].
    """
    first, start, successor, probability = graph
    total = np.int64(first.size - 1)
    num_blocks = (total + LANES - 1) // LANES
    num_pairs = np.int64(start.size - 1)
    block_first = np.zeros(num_blocks + 1, np.uint64)
    slots = 0
    for b in range(num_blocks):
        most = 0
        for i in range(b * LANES, min(total, (b + 1) * LANES)):
            most = max(most, np.int64(first[i + 1]) - np.int64(first[i]))
        slots += most
        block_first[b + 1] = slots
    slot_pair = np.full((slots, LANES), num_pairs, np.int64)
    slot_start = np.zeros(slots + 1, np.uint64)
    lines = 0
    for b in range(num_blocks):
        begin = np.int64(block_first[b])
        for slot in range(begin, np.int64(block_first[b + 1])):
            most = 0
            for i in range(b * LANES, min(total, (b + 1) * LANES)):
                k = np.int64(first[i]) + slot - begin
                if k < np.int64(first[i + 1]):
                    slot_pair[slot, i - b * LANES] = k
                    most = max(most, np.int64(start[k + 1]) - np.int64(start[k]))
            lines += most
            slot_start[slot + 1] = lines
    line_successor = np.zeros((lines, LANES), np.uint32)
    line_probability = np.zeros((lines, LANES))
    for slot in range(slots):
        line = np.int64(slot_start[slot])
        for m in range(LANES):
            k = slot_pair[slot, m]
            if k < num_pairs:
                begin = np.int64(start[k])
                for j in range(begin, np.int64(start[k + 1])):
                    line_successor[line + j - begin, m] = successor[j]
                    line_probability[line + j - begin, m] = probability[j]
    return slot_pair, (block_first, slot_start, line_successor, line_probability)


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
    lines: Lines, occupied: Occupied, initial: Array, pay: Array, tie: float, values: Array, choice: Array
) -> float:
    """The value of the start in one direction; fills choice [M, LANES], a row for each step and block to be occupied.

    pay [slots, LANES]. The rows of step h are at[h], at[h] + 1, .., one for each of blocks[lo[h]:hi[h]].
    `values` [2, B, LANES] is scratch; values[H % 2] are left as those at the first step.
    """
    block_first, slot_start, line_successor, line_probability = lines
    lo, hi, blocks, begin = occupied
    horizon = lo.size
    ties = every(tie)
    zero = every(0.0)
    for h in range(horizon - 1, -1, -1):
        V = values[(horizon - 1 - h) % 2].reshape(-1)
        W = values[(horizon - h) % 2]
        rows = np.uint64(begin[h]) - np.uint64(lo[h])
        last = h == horizon - 1
        for i in range(np.uint64(lo[h]), np.uint64(hi[h])):
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
    first_values = values[horizon % 2].reshape(-1)
    total = 0.0
    for s in range(initial.size):
        if initial[s] > 0.0:
            total += initial[s] * first_values[s]
    return total


@compiled
def backward_many(
    graph: Graph, occupied: Occupied, initial: Array, pay: Array, tie: Array, values: Array, choice: Array
) -> Lanes:
    """The same in LANES directions: pay [P, LANES], tie [LANES], choice [M * LANES, LANES], values [2, n, LANES].

    The graph is in positions here: first [n+1], start [P+1], successor [N] and pay follow `order`.
    """
    first, start, successor, probability = graph
    lo, hi, blocks, begin = occupied
    horizon = lo.size
    n = np.uint64(first.size - 1)
    ties = (tie[0], tie[1], tie[2], tie[3], tie[4], tie[5], tie[6], tie[7])
    zero = every(0.0)
    for h in range(horizon - 1, -1, -1):
        V = values[(horizon - 1 - h) % 2]
        W = values[(horizon - h) % 2]
        rows = np.uint64(begin[h]) - np.uint64(lo[h])
        last = h == horizon - 1
        for i in range(np.uint64(lo[h]), np.uint64(hi[h])):
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
    first_values = values[horizon % 2]
    totals = zero
    for s in range(initial.size):
        if initial[s] > 0.0:
            totals = add(totals, every(initial[s]), row(first_values, s))
    return totals


@compiled
def visits(
    graph: Graph, occupied: Occupied, initial: Array, choice: Array, lane: int, mu: Array, counts: Array
) -> None:
    """Expected visits to each pair, counts [P], of the greedy policy choice[:, lane] ([M * LANES, lanes]).

    Everything in positions, as in `backward_many`; `mu` [2, n] is scratch.
    """
    first, start, successor, probability = graph
    lo, hi, blocks, begin = occupied
    horizon = lo.size
    n = np.uint64(first.size - 1)
    for k in range(counts.size):
        counts[k] = 0.0
    for s in range(n):
        mu[0, s] = initial[s]
    for h in range(horizon):
        now = mu[h % 2]
        then = mu[(h + 1) % 2]
        more = h + 1 < horizon
        if more:
            for i in range(np.uint64(lo[h + 1]), np.uint64(hi[h + 1])):
                s0 = np.uint64(blocks[i]) * np.uint64(LANES)
                for s in range(s0, min(n, s0 + np.uint64(LANES))):
                    then[s] = 0.0
        rows = np.uint64(begin[h]) - np.uint64(lo[h])
        for i in range(np.uint64(lo[h]), np.uint64(hi[h])):
            s0 = np.uint64(blocks[i]) * np.uint64(LANES)
            for s in range(s0, min(n, s0 + np.uint64(LANES))):
                x = now[s]
                if x > 0.0:
                    k = first[s] + np.uint64(choice[(rows + i) * np.uint64(LANES) + s - s0, lane])
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
    lane: int,
    mu: Array,
    pay: Array,
    bonus: Array,
    mean: Array,
    moved: Array,
) -> None:
    """The expected totals of pay [P, 1+d] under the policy of `visits`, in mean [1+d], and those of bonus in moved.

    For models whose steps have pairs of their own: a pair is played at one step only, so that nothing is gained by
    adding up visits first, and most pairs need not be looked at. `mu` [2, n] is scratch; bonus may have no rows.
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
        mu[0, s] = initial[s]
        mu[1, s] = 0.0
    for h in range(horizon):
        now = mu[h % 2]
        then = mu[(h + 1) % 2]
        more = h + 1 < horizon
        rows = np.uint64(begin[h]) - np.uint64(lo[h])
        for b in range(np.uint64(lo[h]), np.uint64(hi[h])):
            s0 = np.uint64(blocks[b]) * np.uint64(LANES)
            for s in range(s0, min(n, s0 + np.uint64(LANES))):
                x = now[s]
                if x > 0.0:
                    now[s] = 0.0  # a block may hold states of two steps: each is come to once
                    k = first[s] + np.uint64(choice[(rows + b) * np.uint64(LANES) + s - s0, lane])
                    for i in range(size):
                        mean[i] += x * pay[k, i]
                    if bonus.shape[0]:
                        for i in range(size):
                            moved[i] += x * bonus[k, i]
                    if more:
                        for j in range(start[k], start[k + ONE]):
                            then[successor[j]] += x * probability[j]


@compiled
def greedy(first: Array, start: Array, successor: Array, probability: Array, action: Array, pay: Array, tie: float,
           actions: Array) -> None:  # fmt: skip
    """The best actions [H, S] for pay [P], at every step and state, reachable or not; ties as in `backward`."""
    horizon, num_states = actions.shape
    stride = num_states if first.size - 1 > num_states else 0
    V = np.zeros(num_states)
    W = np.empty(num_states)
    for h in range(horizon - 1, -1, -1):
        for s in range(num_states):
            node = h * stride + s
            actions[h, s] = 0
            W[s] = 0.0
            if first[node] == first[node + 1]:
                continue  # nobody comes here at this step
            best = -np.inf
            chosen = -np.inf
            at = first[node]
            for k in range(first[node], first[node + 1]):
                q = pay[k]
                if h < horizon - 1:
                    for j in range(start[k], start[k + 1]):
                        q += probability[j] * V[successor[j]]
                if q > chosen + tie:
                    chosen = q
                    at = k
                best = max(best, q)
            W[s] = best
            actions[h, s] = action[at]
        V, W = W, V

"""The order in which backward induction works, and a model laid out in it; see `conrl.kernels` for the letters."""

from typing import Any

import numpy as np

from conrl.kernels.compiling import Array, compiled, inlined, interpreted_if_little
from conrl.kernels.lanes import LANES

Graph = tuple[Array, ...]  # first, start, successor, probability
Lines = tuple[Array, ...]  # block_first, slot_start, line_successor, line_probability: `interleave`
Occupied = tuple[Array, ...]  # lo, hi, blocks, at


@inlined
def reachable(first: Array, start: Array, successor: Array, initial: Array, horizon: int) -> tuple[Array, Array, Array]:
    """What the start can lead to: since [S], sizes [steps], members.

    `since` is the step at which a state is first reached, `horizon` if never. The sets of states that can be occupied
    at steps 0, 1, .. stand one after the other in `members`, sizes[h] of them for step h. A set that repeats is stored
    once (it then repeats forever). Once every state has been reached all of them are kept: at most too many.
    """
    num_states = first.size - 1
    since = np.empty(num_states, np.int64)
    for s in range(num_states):
        since[s] = horizon
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
                since[s] = h if h < since[s] else since[s]
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


@inlined
def occupied_blocks(
    position: Array, num_blocks: int, sizes: Array, members: Array, horizon: int
) -> tuple[Array, Array, Array]:
    """lo [H], hi [H], blocks: blocks[lo[h]:hi[h]], by rising block, hold the states found for step h by `reachable`."""
    steps = sizes.size
    lo = np.empty(horizon, np.int64)
    hi = np.empty(horizon, np.int64)
    stamp = np.zeros(num_blocks, np.int64)  # one more than the step at which a block was last met
    blocks = np.empty(min(members.size, steps * num_blocks), np.uint32)
    filled = 0
    at = 0
    for h in range(steps):
        for i in range(at, at + sizes[h]):
            stamp[position[members[i]] // LANES] = h + 1
        at += sizes[h]
        lo[h] = filled
        for b in range(num_blocks):
            if stamp[b] == h + 1:
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


@interpreted_if_little(lambda graph: LANES * (graph[0].size + graph[1].size + graph[2].size))
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


@interpreted_if_little(
    lambda first, start, successor, probability, initial, horizon: (horizon + 5) * (first.size + successor.size)
)
def arranged(
    first: Array, start: Array, successor: Array, probability: Array, initial: Array, horizon: int
) -> tuple[Any, ...]:
    """The reachable part in the order of work: order, pairs, (lo, hi, blocks, at), graph, initial, outcomes, arrivals.

    States come by the step at which they are first reached; within a step, those with as many actions and outcomes
    stand side by side, which is less padding. `conrl.model.graph.Reach` says what the results are.
    """
    num_states = first.size - 1
    since, sizes, members = reachable(first, start, successor, initial, horizon)
    actions, outcomes = np.empty(num_states, np.int64), np.empty(num_states, np.int64)
    order = np.empty(num_states, np.int64)
    n, most_actions, most_outcomes, pairs_kept, outcomes_kept = 0, 0, 0, 0, 0
    for s in range(num_states):
        if since[s] < horizon:
            order[n] = s
            n += 1
            actions[s] = first[s + 1] - first[s]
            outcomes[s] = start[first[s + 1]] - start[first[s]]
            most_actions = actions[s] if actions[s] > most_actions else most_actions
            most_outcomes = outcomes[s] if outcomes[s] > most_outcomes else most_outcomes
            pairs_kept += actions[s]
            outcomes_kept += outcomes[s]
    for keys, most_key in ((outcomes, most_outcomes), (actions, most_actions), (since, horizon)):  # stable, by each key
        begin, sorted_order = np.zeros(most_key + 2, np.int64), np.empty(num_states, np.int64)
        for i in range(n):
            begin[keys[order[i]] + 1] += 1
        for key in range(most_key):
            begin[key + 1] += begin[key]
        for i in range(n):
            key = keys[order[i]]
            sorted_order[begin[key]] = order[i]
            begin[key] += 1
        order = sorted_order
    order = order[:n]
    position = np.zeros(num_states, np.uint32)
    for i in range(n):
        position[order[i]] = i
    lo, hi, blocks = occupied_blocks(position, (n + LANES - 1) // LANES, sizes, members, horizon)
    at = np.zeros(horizon, np.int64)
    for h in range(1, horizon):
        at[h] = at[h - 1] + hi[h - 1] - lo[h - 1]
    pairs = np.empty(pairs_kept, np.int64)
    new_first, new_start = np.zeros(n + 1, np.uint64), np.zeros(pairs_kept + 1, np.uint64)
    new_successor, new_probability = np.empty(outcomes_kept, np.uint32), np.empty(outcomes_kept)
    new_initial = np.empty(n)
    arrivals = np.zeros(n, np.int64)
    k, j, most = 0, 0, 0
    for i in range(n):
        s = order[i]
        new_initial[i] = initial[s]
        for old in range(first[s], first[s + 1]):
            pairs[k] = old
            for outcome in range(start[old], start[old + 1]):
                to = position[successor[outcome]]
                new_successor[j] = to
                new_probability[j] = probability[outcome]
                arrivals[to] += 1
                j += 1
            size = start[old + 1] - start[old]
            most = size if size > most else most
            k += 1
            new_start[k] = j
        new_first[i + 1] = k
    most_arrivals = 0
    for i in range(n):
        most_arrivals = arrivals[i] if arrivals[i] > most_arrivals else most_arrivals
    graph = (new_first, new_start, new_successor, new_probability)
    return order, pairs, (lo, hi, blocks, at), graph, new_initial, most, most_arrivals


@interpreted_if_little(lambda slot_pair, pairs, table: (slot_pair.size + pairs.size) * (1 + table.shape[1]))
def in_order(slot_pair: Array, pairs: Array, table: Array) -> tuple[Array, Array]:
    """The rows `pairs` of a table [.., 1+d], and those of each slot side by side, [slots * (1+d), LANES]; where a slot
    has none, the first pair's."""
    size = table.shape[1]
    own = np.empty((pairs.size, size))
    out = np.empty((slot_pair.shape[0] * size, LANES))
    for k in range(pairs.size):
        for i in range(size):
            own[k, i] = table[pairs[k], i]
    for slot in range(slot_pair.shape[0]):
        for m in range(LANES):
            k = slot_pair[slot, m]
            if k == pairs.size:
                k = 0
            for i in range(size):
                out[slot * size + i, m] = own[k, i]
    return own, out

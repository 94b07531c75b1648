"""The hot loops: everything that touches each transition of a model at each step.

A model is seen here as a sparse list of *pairs* (s, a) and, for each pair, of *outcomes*:

    first       [S+1]  pairs of state s are first[s] .. first[s+1]-1, by rising action
    start       [P+1]  outcomes of pair k are start[k] .. start[k+1]-1
    successor   [N]    the state an outcome leads to
    probability [N]    and its probability

Letters: h step, s state, k pair, j outcome, V value to go, mu state distribution. A deterministic policy is
`choice` [H, S], the *place* of the action among the state's pairs: it plays pair first[s] + choice[h, s].

Backward induction runs in an order of its own. `reachable` drops the states that the start cannot lead to and
numbers the others by the step at which they are first reached: `order[i]` is the state at position i. LANES
neighbouring positions are a *block*; `blocks[lo[h]:hi[h]]` are those that can be occupied at step h.
`backward` carries one direction through the LANES states of a block at once, `backward_many` LANES directions
through one state at once. Both fill the vector registers: the one by interleaving the outcomes of a block
(`interleave`: a missing outcome has probability 0, a missing action pays -inf), the other by reading each
outcome once for all directions. They add in the same order and give the same bits.

Nothing here is compiled with fast-math and nothing runs in parallel. Ties between actions go to the lowest
index: an action replaces an earlier one only if it is better by more than `tie`, while the value passed on is
always the true maximum, so that a support value is an upper bound and its policy is within H * tie of it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Lanes = tuple[Any, ...]
F = TypeVar("F", bound=Callable[..., Any])

LANES = 8  # doubles in a cache line
ONE = np.uint64(1)  # unsigned throughout: numba then skips the test for negative indices


def _compiled(function: F) -> F:
    """numba, cached on disk, with LLVM's superword vectoriser on for this function only.

    numba leaves that pass off; it keeps the LANES accumulators below in vector registers (2 to 4 times faster)
    and reorders no arithmetic.
    """
    options = {"nogil": True, "error_model": "numpy"}
    dispatcher: Any
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write, neither beside the source nor in the user's home: compile in each process
        dispatcher = numba.njit(**options)(function)
    compile_plain = dispatcher.compile

    def compile_vectorised(signature: Any) -> Any:
        config: Any = numba.config
        before, config.SLP_VECTORIZE = config.SLP_VECTORIZE, 1
        try:
            return compile_plain(signature)
        finally:
            config.SLP_VECTORIZE = before

    dispatcher.compile = compile_vectorised
    return dispatcher  # type: ignore[no-any-return]


def _inlined(function: F) -> F:
    dispatcher: Any = numba.njit(inline="always")(function)
    return dispatcher  # type: ignore[no-any-return]


# -- LANES numbers at a time ------------------------------------------------------------------------------


@_inlined
def _all(x: Any) -> Lanes:
    return (x, x, x, x, x, x, x, x)


@_inlined
def _row(table: Array, i: Any) -> Lanes:
    return (
        table[i, 0],
        table[i, 1],
        table[i, 2],
        table[i, 3],
        table[i, 4],
        table[i, 5],
        table[i, 6],
        table[i, 7],
    )


@_inlined
def _put(table: Array, i: Any, x: Lanes) -> None:
    table[i, 0] = x[0]
    table[i, 1] = x[1]
    table[i, 2] = x[2]
    table[i, 3] = x[3]
    table[i, 4] = x[4]
    table[i, 5] = x[5]
    table[i, 6] = x[6]
    table[i, 7] = x[7]


@_inlined
def _gather(V: Array, t: Lanes) -> Lanes:
    return (V[t[0]], V[t[1]], V[t[2]], V[t[3]], V[t[4]], V[t[5]], V[t[6]], V[t[7]])


@_inlined
def _add(q: Lanes, p: Lanes, v: Lanes) -> Lanes:
    return (
        q[0] + p[0] * v[0],
        q[1] + p[1] * v[1],
        q[2] + p[2] * v[2],
        q[3] + p[3] * v[3],
        q[4] + p[4] * v[4],
        q[5] + p[5] * v[5],
        q[6] + p[6] * v[6],
        q[7] + p[7] * v[7],
    )


@_inlined
def _pick(q: Lanes, c: Lanes, tie: Lanes, x: Lanes, y: Lanes) -> Lanes:
    """x where q beats c by more than tie, else y."""
    return (
        x[0] if q[0] > c[0] + tie[0] else y[0],
        x[1] if q[1] > c[1] + tie[1] else y[1],
        x[2] if q[2] > c[2] + tie[2] else y[2],
        x[3] if q[3] > c[3] + tie[3] else y[3],
        x[4] if q[4] > c[4] + tie[4] else y[4],
        x[5] if q[5] > c[5] + tie[5] else y[5],
        x[6] if q[6] > c[6] + tie[6] else y[6],
        x[7] if q[7] > c[7] + tie[7] else y[7],
    )


# -- the order of work ------------------------------------------------------------------------------------


@_compiled
def reachable(
    first: Array, start: Array, successor: Array, initial: Array, horizon: int
) -> tuple[Array, Array, Array, Array]:
    """What the start can lead to: order [n], lo [H], hi [H], blocks.

    A set of states that repeats is stored once (it then repeats for ever). Once every state has been reached
    all of them are kept: at most too many.
    """
    num_states = first.size - 1
    since = np.full(num_states, horizon, np.int64)  # the step at which a state is first reached
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
            grown[:used] = members[:used]
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
    # Within a step, states with as many actions and outcomes side by side: less padding.
    counts = np.empty(num_states, np.int64)
    for s in range(num_states):
        counts[s] = (first[s + 1] - first[s]) * (successor.size + 1) + start[first[s + 1]] - start[first[s]]
    by_count = np.argsort(counts, kind="mergesort")
    order = by_count[np.argsort(since[by_count], kind="mergesort")]
    total = 0
    position = np.empty(num_states, np.int64)
    for i in range(num_states):
        position[order[i]] = i
        if since[order[i]] < horizon:
            total += 1
    lo = np.empty(horizon, np.int64)
    hi = np.empty(horizon, np.int64)
    num_blocks = (total + LANES - 1) // LANES
    stamp = np.full(num_blocks, -1, np.int64)
    blocks = np.empty(min(used, steps * num_blocks), np.uint32)
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
    return order[:total].copy(), lo, hi, blocks[:filled].copy()


@_compiled
def interleave(
    first: Array, start: Array, successor: Array, probability: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """The outcomes of each block side by side; the graph is already in positions.

    block_first [B+1]: slots of block b (one slot per place of an action); slot_start [slots+1]: its lines;
    slot_pair [slots, LANES]: the pairs in a slot, P for none; line_successor (a position) and
    line_probability [lines, LANES].
    """
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
    return block_first, slot_start, slot_pair, line_successor, line_probability


# -- backward induction -----------------------------------------------------------------------------------


@_compiled
def backward(
    block_first: Array,
    slot_start: Array,
    line_successor: Array,
    line_probability: Array,
    lo: Array,
    hi: Array,
    blocks: Array,
    pay: Array,
    tie: float,
    values: Array,
    choice: Array,
) -> int:
    """One direction: pay [slots, LANES]; fills choice [H, B, LANES] at the blocks that can be occupied.

    `values` [2, B, LANES] is scratch; the row whose index is returned holds the values at the first step.
    """
    horizon = lo.size
    ties = _all(tie)
    zero = _all(0.0)
    for h in range(horizon - 1, -1, -1):
        V = values[(horizon - 1 - h) % 2].reshape(-1)
        W = values[(horizon - h) % 2]
        row = choice[h]
        last = h == horizon - 1
        for i in range(np.uint64(lo[h]), np.uint64(hi[h])):
            b = np.uint64(blocks[i])
            best = _all(-np.inf)
            chosen = best
            at = zero
            a = 0.0
            for slot in range(block_first[b], block_first[b + ONE]):
                q = _row(pay, slot)
                if not last:
                    for line in range(slot_start[slot], slot_start[slot + ONE]):
                        q = _add(q, _row(line_probability, line), _gather(V, _row(line_successor, line)))
                at = _pick(q, chosen, ties, _all(a), at)
                chosen = _pick(q, chosen, ties, q, chosen)
                best = _pick(q, best, zero, q, best)
                a += 1.0
            _put(W, b, best)
            _put(row, b, at)
    return horizon % 2


@_compiled
def backward_many(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    lo: Array,
    hi: Array,
    blocks: Array,
    pay: Array,
    tie: Array,
    values: Array,
    choice: Array,
) -> int:
    """LANES directions: pay [P, LANES], tie [LANES]; fills choice [H, n, LANES]. values [2, n, LANES].

    The graph is in positions here: first [n+1], start [P+1], successor [N] and pay follow `order`.
    """
    horizon = lo.size
    n = np.uint64(first.size - 1)
    ties = (tie[0], tie[1], tie[2], tie[3], tie[4], tie[5], tie[6], tie[7])
    zero = _all(0.0)
    for h in range(horizon - 1, -1, -1):
        V = values[(horizon - 1 - h) % 2]
        W = values[(horizon - h) % 2]
        row = choice[h]
        last = h == horizon - 1
        for i in range(np.uint64(lo[h]), np.uint64(hi[h])):
            s0 = np.uint64(blocks[i]) * np.uint64(LANES)
            for s in range(s0, min(n, s0 + np.uint64(LANES))):
                best = _all(-np.inf)
                chosen = best
                at = zero
                a = 0.0
                for k in range(first[s], first[s + ONE]):
                    q = _row(pay, k)
                    if not last:
                        for j in range(start[k], start[k + ONE]):
                            q = _add(q, _all(probability[j]), _row(V, successor[j]))
                    at = _pick(q, chosen, ties, _all(a), at)
                    chosen = _pick(q, chosen, ties, q, chosen)
                    best = _pick(q, best, zero, q, best)
                    a += 1.0
                _put(W, s, best)
                _put(row, s, at)
    return horizon % 2


@_compiled
def visits(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    lo: Array,
    hi: Array,
    blocks: Array,
    initial: Array,
    choice: Array,
    lane: int,
    mu: Array,
    counts: Array,
) -> None:
    """Expected visits to each pair, counts [P], of the greedy policy choice[:, :, lane] ([H, n, lanes]).

    Everything in positions, as in `backward_many`; `mu` [2, n] is scratch.
    """
    horizon = lo.size
    n = np.uint64(first.size - 1)
    counts[:] = 0.0
    mu[0] = initial
    for h in range(horizon):
        now = mu[h % 2]
        then = mu[(h + 1) % 2]
        more = h + 1 < horizon
        if more:
            for i in range(np.uint64(lo[h + 1]), np.uint64(hi[h + 1])):
                s0 = np.uint64(blocks[i]) * np.uint64(LANES)
                for s in range(s0, min(n, s0 + np.uint64(LANES))):
                    then[s] = 0.0
        row = choice[h]
        for i in range(np.uint64(lo[h]), np.uint64(hi[h])):
            s0 = np.uint64(blocks[i]) * np.uint64(LANES)
            for s in range(s0, min(n, s0 + np.uint64(LANES))):
                x = now[s]
                if x > 0.0:
                    k = first[s] + np.uint64(row[s, lane])
                    counts[k] += x
                    if more:
                        for j in range(start[k], start[k + ONE]):
                            then[successor[j]] += x * probability[j]


# -- given policies ---------------------------------------------------------------------------------------


@_compiled
def occupation(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    initial: Array,
    action: Array,
    policy: Array,
    horizon: int,
    weight: float,
    rho: Array,
) -> None:
    """Add weight * P(step h, pair k) under the Markov policy [H, S, A] to rho [R, P].

    With R = H rho is the occupation measure, with R = 1 its sum over the steps.
    """
    num_states = first.size - 1
    now = initial.copy()
    for h in range(horizon):
        then = np.zeros(num_states)
        row = rho[min(h, rho.shape[0] - 1)]
        for s in range(num_states):
            if now[s] > 0.0:
                for k in range(first[s], first[s + 1]):
                    x = now[s] * policy[h, s, action[k]]
                    if x > 0.0:
                        row[k] += weight * x
                        for j in range(start[k], start[k + 1]):
                            then[successor[j]] += x * probability[j]
        now = then


@_compiled
def occupation_deterministic(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    initial: Array,
    pair_index: Array,
    actions: Array,
    weight: float,
    rho: Array,
) -> None:
    """`occupation` of a deterministic policy: actions [H, S], pair_index [S, A]."""
    horizon, num_states = actions.shape
    now = initial.copy()
    then = np.zeros(num_states)
    for h in range(horizon):
        row = rho[min(h, rho.shape[0] - 1)]
        for s in range(num_states):
            x = now[s]
            if x > 0.0:
                now[s] = 0.0
                k = pair_index[s, actions[h, s]]
                row[k] += weight * x
                for j in range(start[k], start[k + 1]):
                    then[successor[j]] += x * probability[j]
        now, then = then, now


@_compiled
def actions_of(first: Array, action: Array, order: Array, choice: Array, actions: Array) -> None:
    """The actions [H, S] that choice [H, n] names by place; the first action of states outside `order`."""
    for h in range(actions.shape[0]):
        for s in range(actions.shape[1]):
            actions[h, s] = action[first[s]]
        for i in range(order.size):
            actions[h, order[i]] = action[first[order[i]] + choice[h, i]]


@_compiled
def markov(first: Array, action: Array, rho: Array, fallback: Array, table: Array) -> None:
    """Into table [H, S, A], which is zero: the action probabilities of rho [H, P], or fallback [H, S] without mass."""
    for h in range(rho.shape[0]):
        for s in range(first.size - 1):
            mass = 0.0
            for k in range(first[s], first[s + 1]):
                mass += rho[h, k]
            if mass > 0.0:
                for k in range(first[s], first[s + 1]):
                    table[h, s, action[k]] = rho[h, k] / mass
            else:
                table[h, s, fallback[h, s]] = 1.0


@_compiled
def simulate(
    first: Array,
    start: Array,
    successor: Array,
    cumulated: Array,
    start_cumulated: Array,
    pay: Array,
    by_outcome: bool,
    cumulated_policy: Array,
    horizon: int,
    generator: np.random.Generator,
    totals: Array,
) -> None:
    """Play totals.shape[0] episodes of a Markov policy and add up what they pay: totals [E, 1+d].

    `cumulated` [N] adds up the probabilities within each pair, `cumulated_policy` [H, P] the action
    probabilities within each state, `start_cumulated` [S] the initial distribution. pay is [N, 1+d] by
    outcome or [P, 1+d]. Three draws a step at most, always in the order start, action, outcome.
    """
    for e in range(totals.shape[0]):
        s = _draw(start_cumulated, 0, start_cumulated.size, generator)
        for h in range(horizon):
            k = _draw(cumulated_policy[h], first[s], first[s + 1], generator)
            j = _draw(cumulated, start[k], start[k + 1], generator)
            row = pay[j] if by_outcome else pay[k]
            for i in range(row.size):
                totals[e, i] += row[i]
            s = np.int64(successor[j])


@_compiled
def _draw(cumulated: Array, begin: int, end: int, generator: np.random.Generator) -> int:
    """An index in begin..end-1 with probability proportional to the rises of `cumulated`; no draw if one."""
    if end - begin == 1:
        return begin
    return _find(cumulated, begin, end, generator.random())


@_compiled
def _find(cumulated: Array, begin: int, end: int, uniform: float) -> int:
    """The index in begin..end-1 that `uniform` in [0, 1) falls on."""
    u = uniform * cumulated[end - 1]
    low, high = begin, end - 1
    while low < high:
        middle = (low + high) // 2
        if cumulated[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


# -- learning ---------------------------------------------------------------------------------------------


@_compiled
def rollout(
    first: Array,
    start: Array,
    successor: Array,
    cumulated: Array,
    start_cumulated: Array,
    pay: Array,
    by_outcome: bool,
    action: Array,
    policy: Array,
    uniform: Array,
    left: Array,
    worst: Array,
    states: Array,
    actions: Array,
    paid: Array,
) -> int:
    """Play one episode into states [H+1], actions [H] and paid [H, 1+d]; the number of steps played.

    `policy` is [H, S, A] (probabilities) or [H, S, 1] (the actions of a deterministic one). `uniform` [H+1, 2] are the
    draws: row 0 for the start, row h + 1 for the action and the outcome of step h. Before each step it must be certain
    that every cost i stays within left[i] when that step costs worst[i]; else the episode ends. Sums are rounded up.
    """
    horizon = actions.size
    deterministic = policy.shape[2] == 1
    spent = np.zeros(left.size)
    s = _find(start_cumulated, 0, start_cumulated.size, uniform[0, 0])
    states[0] = s
    for h in range(horizon):
        for i in range(left.size):
            if _sum_up(spent[i], worst[i]) > left[i]:
                return h
        k = first[s]
        if deterministic:
            while action[k] != policy[h, s, 0]:
                k += 1
        else:
            u = uniform[h + 1, 0]
            last = k
            for m in range(first[s], first[s + 1]):
                p = policy[h, s, action[m]]
                if p > 0.0:
                    last = m
                    u -= p
                    if u < 0.0:
                        break
            k = last
        j = _find(cumulated, start[k], start[k + 1], uniform[h + 1, 1])
        row = pay[j] if by_outcome else pay[k]
        actions[h] = action[k]
        for i in range(row.size):
            paid[h, i] = row[i]
        for i in range(left.size):
            spent[i] = _sum_up(spent[i], row[1 + i])
        s = np.int64(successor[j])
        states[h + 1] = s
    return horizon


@_compiled
def _sum_up(a: float, b: float) -> float:
    """a + b, rounded up where it is not exact (the error of a sum is itself a double: Knuth's two-sum)."""
    s = a + b
    rest = s - a
    up: float = np.nextafter(s, np.inf) if (a - (s - rest)) + (b - rest) > 0.0 else s
    return up


@_compiled
def count_steps(
    states: Array,
    actions: Array,
    pay: Array,
    rank: Array,
    place: Array,
    order: Array,
    first: Array,
    action: Array,
    visits: Array,
    sums: Array,
    means: Array,
    head: Array,
    link_next: Array,
    link_successor: Array,
    link_count: Array,
    link_share: Array,
    sizes: Array,
) -> None:
    """Add the steps (states[h], actions[h], pay[h], states[h+1]) to sparse counts.

    States have places 0, 1, ... in the order in which they are first seen; `place` [S] is -1 before. The pairs of place
    i are first[i] .. first[i+1]-1; `rank` [S, A] is the place of an action among those of its state, -1 for one that
    does not exist. The successors of pair k are a list from head[k] through link_next (-1: the
    end). sizes = (states seen, links). All arrays have room for what is new. The first
    state is seen even if no step is played.
    """
    _place_of(states[0], rank, place, order, first, action, visits, sums, means, head, sizes)
    for h in range(actions.size):
        i = _place_of(states[h], rank, place, order, first, action, visits, sums, means, head, sizes)
        t = _place_of(states[h + 1], rank, place, order, first, action, visits, sums, means, head, sizes)
        k = first[i] + rank[states[h], actions[h]]
        visits[k] += 1
        for m in range(pay.shape[1]):
            sums[k, m] += pay[h, m]
        link = head[k]
        before = -1
        while link >= 0 and link_successor[link] != t:
            before = link
            link = link_next[link]
        if link < 0:
            link = sizes[1]
            sizes[1] += 1
            link_successor[link] = t
            link_count[link] = 0
            link_next[link] = -1
            if before < 0:
                head[k] = link
            else:
                link_next[before] = link
        link_count[link] += 1
    for h in range(actions.size):  # estimates change only where the episode went
        k = first[place[states[h]]] + rank[states[h], actions[h]]
        for m in range(pay.shape[1]):
            means[k, m] = sums[k, m] / visits[k]
        link = head[k]
        while link >= 0:
            link_share[link] = link_count[link] / visits[k]
            link = link_next[link]


@_compiled
def _place_of(
    s: int,
    rank: Array,
    place: Array,
    order: Array,
    first: Array,
    action: Array,
    visits: Array,
    sums: Array,
    means: Array,
    head: Array,
    sizes: Array,
) -> int:
    """The place of state s, a new one if it was never seen."""
    if place[s] < 0:
        i = sizes[0]
        sizes[0] += 1
        place[s] = i
        order[i] = s
        k = first[i]
        for a in range(rank.shape[1]):
            if rank[s, a] >= 0:
                action[k] = a
                visits[k] = 0
                head[k] = -1
                for m in range(sums.shape[1]):
                    sums[k, m] = 0.0
                    means[k, m] = 0.0
                k += 1
        first[i + 1] = k
    found: int = place[s]
    return found


@_compiled
def empirical(
    first: Array, visits: Array, head: Array, link_next: Array, link_successor: Array, link_share: Array, links: int
) -> tuple[Array, Array, Array]:
    """The empirical transitions as start [P+1], successor, probability; a pair never visited stays where it is."""
    num_states = first.size - 1
    num_pairs = first[num_states]
    start = np.empty(num_pairs + 1, np.int64)
    successor = np.empty(links + num_pairs, np.int32)
    probability = np.empty(links + num_pairs)
    j = 0
    for i in range(num_states):
        for k in range(first[i], first[i + 1]):
            start[k] = j
            if visits[k] == 0:
                successor[j] = i
                probability[j] = 1.0
                j += 1
            link = head[k]
            while link >= 0:
                successor[j] = link_successor[link]
                probability[j] = link_share[link]
                j += 1
                link = link_next[link]
    start[num_pairs] = j
    return start, successor[:j].copy(), probability[:j].copy()


@_compiled
def greedy(first: Array, start: Array, successor: Array, probability: Array, action: Array, pay: Array, tie: float,
           actions: Array) -> None:  # fmt: skip
    """The best actions [H, S] for pay [P], at every step and state, reachable or not; ties as in `backward`."""
    horizon, num_states = actions.shape
    V = np.zeros(num_states)
    W = np.empty(num_states)
    for h in range(horizon - 1, -1, -1):
        for s in range(num_states):
            best = -np.inf
            chosen = -np.inf
            at = first[s]
            for k in range(first[s], first[s + 1]):
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

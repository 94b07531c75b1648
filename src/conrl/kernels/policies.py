"""What given policies do: occupation measures, simulation."""

import numpy as np

from conrl.kernels.compiling import Array, compiled
from conrl.kernels.lanes import LANES


@compiled
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
    num_states = initial.size
    stride = num_states if first.size - 1 > num_states else 0
    now = initial.copy()
    for h in range(horizon):
        then = np.zeros(num_states)
        row = rho[min(h, rho.shape[0] - 1)]
        for s in range(num_states):
            if now[s] > 0.0:
                node = h * stride + s
                for k in range(first[node], first[node + 1]):
                    x = now[s] * policy[h, s, action[k]]
                    if x > 0.0:
                        row[k] += weight * x
                        for j in range(start[k], start[k + 1]):
                            then[successor[j]] += x * probability[j]
        now = then


@compiled
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
    """`occupation` of a deterministic policy: actions [H, S], pair_index [S, A] or [H * S, A]."""
    horizon, num_states = actions.shape
    stride = num_states if first.size - 1 > num_states else 0
    now = initial.copy()
    then = np.zeros(num_states)
    for h in range(horizon):
        row = rho[min(h, rho.shape[0] - 1)]
        for s in range(num_states):
            x = now[s]
            if x > 0.0:
                now[s] = 0.0
                k = pair_index[h * stride + s, actions[h, s]]
                row[k] += weight * x
                for j in range(start[k], start[k + 1]):
                    then[successor[j]] += x * probability[j]
        now, then = then, now


@compiled
def actions_of(
    first: Array, action: Array, order: Array, occupied: tuple[Array, ...], choice: Array, actions: Array
) -> None:
    """The actions [H, S] that choice [M * LANES] of `backward` stands for; elsewhere the first action there is."""
    lo, hi, blocks, begin = occupied
    horizon, num_states = actions.shape
    stride = num_states if first.size - 1 > num_states else 0
    for h in range(horizon):
        base = h * stride
        for s in range(num_states):
            exists = first[base + s] < first[base + s + 1]
            actions[h, s] = action[first[base + s]] if exists else 0
        for i in range(lo[h], hi[h]):
            row = (begin[h] + i - lo[h]) * LANES
            for m in range(LANES):
                position = np.int64(blocks[i]) * LANES + m
                if position < order.size:
                    s = np.int64(order[position]) - base
                    if 0 <= s < num_states:  # a block may hold states of two steps
                        actions[h, s] = action[first[base + s] + choice[row + m]]


@compiled
def markov(first: Array, action: Array, rho: Array, fallback: Array, table: Array) -> None:
    """Into table [H, S, A], which is zero: the action probabilities of rho [R, P], or fallback [H, S] without mass.

    R is H, or 1 where every step has pairs of its own.
    """
    num_states = table.shape[1]
    stride = num_states if first.size - 1 > num_states else 0
    for h in range(table.shape[0]):
        row = rho[min(h, rho.shape[0] - 1)]
        for s in range(num_states):
            node = h * stride + s
            mass = 0.0
            for k in range(first[node], first[node + 1]):
                mass += row[k]
            if mass > 0.0:
                for k in range(first[node], first[node + 1]):
                    table[h, s, action[k]] = row[k] / mass
            else:
                table[h, s, fallback[h, s]] = 1.0


@compiled
def simulate(
    first: Array,
    start: Array,
    successor: Array,
    cumulated: Array,
    start_cumulated: Array,
    pay: Array,
    by_outcome: bool,
    action: Array,
    policy: Array,
    generator: np.random.Generator,
    totals: Array,
) -> None:
    """Play totals.shape[0] episodes of a Markov policy and add up what they pay: totals [E, 1+d].

    `cumulated` [N] adds up the probabilities within each pair, `start_cumulated` [S] the initial distribution; `policy`
    is [H, S, A]. pay is [N, 1+d] by outcome or [P, 1+d]. Draws come in the order start, action, outcome, action, ...;
    there is none where there is no choice.
    """
    stride = start_cumulated.size if first.size - 1 > start_cumulated.size else 0
    for e in range(totals.shape[0]):
        s = _draw(start_cumulated, 0, start_cumulated.size, generator)
        for h in range(policy.shape[0]):
            node = h * stride + s
            k = first[node]
            if first[node + 1] - k > 1:
                k = played_pair(k, first[node + 1], action, policy[h, s], False, generator.random())
            j = _draw(cumulated, start[k], start[k + 1], generator)
            row = pay[j] if by_outcome else pay[k]
            for i in range(row.size):
                totals[e, i] += row[i]
            s = np.int64(successor[j])


@compiled
def simulate_stationary(
    first: Array,
    start: Array,
    successor: Array,
    cumulated: Array,
    start_cumulated: Array,
    pay: Array,
    by_outcome: bool,
    action: Array,
    policy: Array,
    ends: Array,
    discount: float,
    most: int,
    generator: np.random.Generator,
    totals: Array,
) -> int:
    """`simulate` of a stationary policy [S, A]: at most so many steps, or until a state that `ends` [S].

    What is paid counts discount^t. Returns how many episodes did not end.
    """
    unfinished = 0
    for e in range(totals.shape[0]):
        s = _draw(start_cumulated, 0, start_cumulated.size, generator)
        factor = 1.0
        left = most
        while left > 0 and not ends[s]:
            k = first[s]
            if first[s + 1] - k > 1:
                k = played_pair(k, first[s + 1], action, policy[s], False, generator.random())
            j = _draw(cumulated, start[k], start[k + 1], generator)
            row = pay[j] if by_outcome else pay[k]
            for i in range(row.size):
                totals[e, i] += factor * row[i]
            factor *= discount
            s = np.int64(successor[j])
            left -= 1
        if not ends[s]:
            unfinished += 1
    return unfinished


@compiled
def _draw(cumulated: Array, begin: int, end: int, generator: np.random.Generator) -> int:
    """An index in begin..end-1 with probability proportional to the rises of `cumulated`; no draw if one."""
    if end - begin == 1:
        return begin
    return find(cumulated, begin, end, generator.random())


@compiled
def find(cumulated: Array, begin: int, end: int, uniform: float) -> int:
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


@compiled
def played_pair(begin: int, end: int, action: Array, row: Array, deterministic: bool, uniform: float) -> int:
    """Which of the pairs begin..end-1 of a state is played: the draw of an action.

    `row` [A] are the probabilities of the actions, on one of which `uniform` in [0, 1) falls; deterministic, row [1] is
    the action itself.
    """
    k = begin
    if deterministic:
        while action[k] != row[0]:
            k += 1
        return k
    for m in range(begin, end):
        p = row[action[m]]
        if p > 0.0:
            k = m
            uniform -= p
            if uniform < 0.0:
                break
    return k

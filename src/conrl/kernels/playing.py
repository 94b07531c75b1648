"""Episodes: played in a model, checked, and as a network is trained on them.

Where each step is kept, the draws are given as numbers in [0, 1) (`rollout`, `play_block`); where only totals are, a
generator makes them (`simulate`). `cumulated` [N] adds up the probabilities within each pair, `start_cumulated` [S] the
initial distribution; pay is [N, 1+d] by outcome or [P, 1+d].
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled
from conrl.kernels.policies import pair_of


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
def _draw(cumulated: Array, begin: int, end: int, generator: np.random.Generator) -> int:
    """An index in begin..end-1 with probability proportional to the rises of `cumulated`; no draw if one."""
    if end - begin == 1:
        return begin
    return find(cumulated, begin, end, generator.random())


@compiled
def played_pair(begin: int, end: int, action: Array, row: Array, deterministic: bool, uniform: float) -> int:
    """Which of the pairs begin..end-1 of a state is played: the draw of an action.

    `row` [A] are the probabilities of the actions, on one of which `uniform` in [0, 1) falls; deterministic, row [1] is
    the action itself.
    """
    if deterministic:
        return pair_of(begin, end, action, int(row[0]))
    k = begin
    for m in range(begin, end):
        p = row[action[m]]
        if p > 0.0:
            k = m
            uniform -= p
            if uniform < 0.0:
                break
    return k


@compiled
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
    deterministic: bool,
    uniform: Array,
    left: Array,
    worst: Array,
    states: Array,
    actions: Array,
    paid: Array,
) -> int:
    """Play one episode into states [H+1], actions [H] and paid [H, 1+d]; the number of steps played.

    `policy` is [H, S, A] (probabilities) or [H, S, 1] (the actions of a deterministic one); [1, ...] serves all steps.
    `uniform` [H+1, 2] are the draws: row 0 for the start, row h + 1 for the action and the outcome of step h. Before
    each step it must be certain that every cost i stays within left[i] when that step costs worst[i]; else the episode
    ends. Sums are rounded up.
    """
    horizon = actions.size
    stride = start_cumulated.size if first.size - 1 > start_cumulated.size else 0
    spent = np.zeros(left.size)
    s = find(start_cumulated, 0, start_cumulated.size, uniform[0, 0])
    states[0] = s
    for h in range(horizon):
        for i in range(left.size):
            if sum_up(spent[i], worst[i]) > left[i]:
                return h
        now = policy[min(h, policy.shape[0] - 1), s]
        node = h * stride + s
        k = played_pair(first[node], first[node + 1], action, now, deterministic, uniform[h + 1, 0])
        j = find(cumulated, start[k], start[k + 1], uniform[h + 1, 1])
        row = pay[j] if by_outcome else pay[k]
        actions[h] = action[k]
        for i in range(row.size):
            paid[h, i] = row[i]
        for i in range(left.size):
            spent[i] = sum_up(spent[i], row[1 + i])
        s = np.int64(successor[j])
        states[h + 1] = s
    return horizon


@compiled
def sum_up(a: float, b: float) -> float:
    """a + b, rounded up where it is not exact (the error of a sum is itself a double: Knuth's two-sum)."""
    s = a + b
    rest = s - a
    up: float = np.nextafter(s, np.inf) if (a - (s - rest)) + (b - rest) > 0.0 else s
    return up


@compiled
def play_block(
    first: Array,
    start: Array,
    successor: Array,
    cumulated: Array,
    start_cumulated: Array,
    pay: Array,
    by_outcome: bool,
    action: Array,
    policies: Array,
    lottery: Array,
    which: Array,
    uniform: Array,
    left: Array,
    states: Array,
    actions: Array,
    paid: Array,
) -> int:
    """Play at most M whole episodes into states [M, H+1], actions [M, H] and paid [M, H, 1+d]; how many were played.

    Episode m plays policies[c] of [C, H, S, A], where c is what which[m] in [0, 1) falls on in `lottery` [C], the
    weights added up; then it is `rollout` with the draws uniform[m] of [M, H+1, 2]. Visits count down left [S, A], or
    [H * S, A] where the same state at another step is another one; the episode in which an entry comes to 0 is the
    last.
    """
    horizon = actions.shape[1]
    stride = start_cumulated.size if left.shape[0] > start_cumulated.size else 0
    unbound = np.zeros(0)
    for m in range(which.size):
        policy = policies[find(lottery, 0, lottery.size, which[m])]
        rollout(
            first, start, successor, cumulated, start_cumulated, pay, by_outcome, action, policy, False, uniform[m],
            unbound, unbound, states[m], actions[m], paid[m],
        )  # fmt: skip
        enough = False
        for h in range(horizon):
            node = h * stride + states[m, h]
            left[node, actions[m, h]] -= 1
            enough = enough or left[node, actions[m, h]] <= 0
        if enough:
            return m + 1
    return which.size


@compiled
def _step(
    begin: int, end: int, start: Array, cumulated: Array, action: Array, row: Array, generator: np.random.Generator
) -> tuple[int, int]:
    """The pair played, of begin..end-1, and its outcome."""
    k = begin
    if end - begin > 1:
        k = played_pair(begin, end, action, row, False, generator.random())
    return k, _draw(cumulated, start[k], start[k + 1], generator)


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

    `policy` is [H, S, A]. Draws come in the order start, action, outcome, action, ...; there is none where there is no
    choice.
    """
    stride = start_cumulated.size if first.size - 1 > start_cumulated.size else 0
    for e in range(totals.shape[0]):
        s = _draw(start_cumulated, 0, start_cumulated.size, generator)
        for h in range(policy.shape[0]):
            node = h * stride + s
            k, j = _step(first[node], first[node + 1], start, cumulated, action, policy[h, s], generator)
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
            k, j = _step(first[s], first[s + 1], start, cumulated, action, policy[s], generator)
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
def fits(states: Array, actions: Array, pay: Array, num_states: int, num_actions: int, ranges: Array) -> bool:
    """Whether an episode has states and actions that there are, and pay [L, 1+d] within `ranges` [1+d, 2]."""
    for h in range(states.size):
        if states[h] < 0 or states[h] >= num_states:
            return False
    for h in range(actions.size):
        if actions[h] < 0 or actions[h] >= num_actions:
            return False
        for i in range(ranges.shape[0]):
            if not ranges[i, 0] <= pay[h, i] <= ranges[i, 1]:
                return False
    return True


@compiled
def to_go(states: Array, actions: Array, rewards: Array, length: int) -> tuple[Array, Array, Array, Array]:
    """An episode of at most `length` steps as a network is trained on it: states and actions, the rewards to come from
    each step on, and 1 for each step that was played, [length] each; 0 beyond."""
    numbers = np.zeros((2, length), np.int32)
    returns = np.zeros((2, length), np.float32)
    total = 0.0
    for h in range(rewards.size - 1, -1, -1):
        total += rewards[h]
        numbers[0, h], numbers[1, h] = states[h], actions[h]
        returns[0, h], returns[1, h] = total, 1.0
    return numbers[0], numbers[1], returns[0], returns[1]

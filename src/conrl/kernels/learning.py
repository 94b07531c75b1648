"""One episode played, and one episode counted."""

import numpy as np

from conrl.kernels.compiling import Array, compiled
from conrl.kernels.policies import find, played_pair


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
    link_centers: Array,
    link_moments: Array,
    sizes: Array,
) -> None:
    """Add the steps (states[m, h], actions[m, h], pay[m, h], states[m, h+1]) of episodes m to sparse counts.

    States have places 0, 1, ... in the order in which they are first seen; `place` [S] is -1 before. The pairs of place
    i are first[i] .. first[i+1]-1; `rank` [S, A] is the index of an action among those of its state, -1 for one that
    does not exist. The successors of pair k are a list from head[k] through link_next (-1: the
    end). sizes = (states seen, links). All arrays are long enough for what is new. The first
    state is seen even if no step is played.

    link_centers [links, 1+d] are the mean pay of the visits of a pair that led to one successor, link_moments [links,
    (1+d)(2+d)/2] the sums of products of deviations from them, row by row of the lower triangle (Welford 1962: nothing
    cancels, whatever the offset).
    """
    episodes, steps = actions.shape
    for e in range(episodes):
        for h in range(steps + 1):
            s = states[e, h]
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
                        sums[k] = 0.0
                        means[k] = 0.0
                        k += 1
                first[i + 1] = k
    width = pay.shape[2]
    moved = np.empty(width)
    for e in range(episodes):
        for h in range(steps):
            t = place[states[e, h + 1]]
            k = first[place[states[e, h]]] + rank[states[e, h], actions[e, h]]
            visits[k] += 1
            for m in range(width):
                sums[k, m] += pay[e, h, m]
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
                link_centers[link] = 0.0
                link_moments[link] = 0.0
                if before < 0:
                    head[k] = link
                else:
                    link_next[before] = link
            link_count[link] += 1
            n = link_count[link]
            at = 0
            for m in range(width):
                moved[m] = pay[e, h, m] - link_centers[link, m]
                for other in range(m + 1):
                    link_moments[link, at] += moved[m] * moved[other] * ((n - 1) / n)
                    at += 1
                link_centers[link, m] += moved[m] / n
    for e in range(episodes):
        for h in range(steps):  # estimates change only where the episodes went
            k = first[place[states[e, h]]] + rank[states[e, h], actions[e, h]]
            for m in range(width):
                means[k, m] = sums[k, m] / visits[k]
            link = head[k]
            while link >= 0:
                link_share[link] = link_count[link] / visits[k]
                link = link_next[link]


@compiled
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


@compiled
def unexplained(head: Array, link_next: Array, link_moments: Array, num_pairs: int) -> tuple[Array, Array]:
    """Per pair, over its successors: the sums of link_moments [P, (1+d)(2+d)/2], and how many successors [P]."""
    moments = np.zeros((num_pairs, link_moments.shape[1]))
    successors = np.zeros(num_pairs, np.int64)
    for k in range(num_pairs):
        link = head[k]
        while link >= 0:
            successors[k] += 1
            for m in range(moments.shape[1]):
                moments[k, m] += link_moments[link, m]
            link = link_next[link]
    return moments, successors

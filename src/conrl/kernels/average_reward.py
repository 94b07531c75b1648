"""Extended value iteration: the best average reward over policies *and* over transitions within confidence intervals.

The transitions of pair k may be any probability vector q with low_t <= q_t <= low_t + width_t. Outcomes j of pair k are
the successors that were seen, each with its own `low[j]` and `width[j]`; others have low 0 and one width, `others[k]`.
For values V the best q fills up the states by falling V (Jaksch, Ortner and Auer 2010, Figure 2, there for an L1 ball):

    max_q q.V = sum_j low_j V_j + what the rest 1 - sum_j low_j is worth when given to the best states first

Most successors are unseen. Between two seen ones, in the order of V, they are a block of equal widths, worth `others`
times a difference of prefix sums of the sorted values: a pair costs as many steps as it has seen successors, not S.

Letters: order [S] states by falling V, rank its inverse, prefix [S+1] sums of V in that order; the rest as in
`conrl.kernels`.
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled


@compiled
def intervals(start: Array, probability: Array, visits: Array, log: float) -> tuple[Array, Array, Array]:
    """low [N], width [N], others [P] around p_hat, with radius max(sqrt(p log / N), log / N) and q within [0, 1].

    A pair never visited counts as one visit that led nowhere: whatever its outcome, it is one of the unseen.
    """
    low = np.zeros(probability.size)
    width = np.zeros(probability.size)
    others = np.empty(visits.size)
    for k in range(visits.size):
        n = max(visits[k], 1)
        others[k] = min(log / n, 1.0)
        for j in range(start[k], start[k + 1]):
            p = probability[j] if visits[k] > 0 else 0.0
            r = min(max(np.sqrt(p * log / n), log / n), 1.0)
            low[j] = max(p - r, 0.0)
            width[j] = min(p + r, 1.0) - low[j]
    return low, width, others


@compiled
def optimistic(
    begin: int,
    end: int,
    t: Array,
    low: Array,
    width: Array,
    others: float,
    V: Array,
    order: Array,
    rank: Array,
    prefix: Array,
) -> float:
    """max of q.V over the vectors q of one pair, with seen successors t[begin:end], which are sorted here by rank."""
    for i in range(begin + 1, end):  # by insertion: from one sweep to the next the order hardly changes
        state, least, more = t[i], low[i], width[i]
        j = i - 1
        while j >= begin and rank[t[j]] > rank[state]:
            t[j + 1], low[j + 1], width[j + 1] = t[j], low[j], width[j]
            j -= 1
        t[j + 1], low[j + 1], width[j + 1] = state, least, more
    value: float = 0.0
    rest: float = 1.0
    for j in range(begin, end):
        value += low[j] * V[t[j]]
        rest -= low[j]
    at = 0  # the first of the order that was given nothing yet
    for j in range(begin, end + 1):
        until = rank[t[j]] if j < end else order.size
        block = until - at
        if block > 0:
            if rest < block * others:
                full = min(int(rest / others), block - 1)
                value += others * (prefix[at + full] - prefix[at])
                value += (rest - full * others) * V[order[at + full]]
                return value
            value += others * (prefix[until] - prefix[at])
            rest -= block * others
        if j < end:
            given = min(width[j], rest)
            value += given * V[t[j]]
            rest -= given
            if rest <= 0.0:
                return value
        at = until + 1
    return value


@compiled
def extended_value_iteration(
    first: Array,
    start: Array,
    successor: Array,
    low: Array,
    width: Array,
    others: Array,
    reward: Array,
    V: Array,
    choice: Array,
    accuracy: float,
    step: float,
    tie: float,
    max_sweeps: int,
) -> tuple[float, float, int]:
    """Sweep V until the span of (T V - V) is at most `accuracy`: (gain, span, sweeps).

    (T V)(s) = max over the pairs k of s of reward[k] + max_q q.V. Then `choice` [S], greedy for V, has an optimistic
    average reward within `accuracy` of the best one, which lies within span / 2 of `gain` (Puterman 1994,
    Section 8.5.5). V moves by `step` < 1 of the way, which makes every chain aperiodic and changes neither gain nor
    policy (Section 8.5.4), and is kept at minimum 0. `successor`, `low`, `width` are rearranged within each pair.
    Of actions within `tie` of each other the first is chosen.
    """
    S = first.size - 1
    order = np.argsort(-V, kind="mergesort")
    rank = np.empty(S, np.int64)
    prefix = np.zeros(S + 1)
    Q = np.empty(S)
    gain, span = 0.0, np.inf
    for sweep in range(max_sweeps):
        for i in range(1, S):
            if V[order[i]] > V[order[i - 1]]:
                order = order[np.argsort(-V[order], kind="mergesort")]
                break
        for i in range(S):
            rank[order[i]] = i
            prefix[i + 1] = prefix[i] + V[order[i]]
        least, most = np.inf, -np.inf
        for s in range(S):
            best = chosen = -np.inf
            for k in range(first[s], first[s + 1]):
                q = reward[k] + optimistic(
                    start[k], start[k + 1], successor, low, width, others[k], V, order, rank, prefix
                )
                if q > chosen + tie:
                    chosen = q
                    choice[s] = k - first[s]
                best = max(best, q)
            Q[s] = best
            least = min(least, best - V[s])
            most = max(most, best - V[s])
        gain, span = 0.5 * (least + most), most - least
        if span <= accuracy:
            return gain, span, sweep + 1
        base = np.inf
        for s in range(S):
            V[s] += step * (Q[s] - V[s])
            base = min(base, V[s])
        for s in range(S):
            V[s] -= base
    return gain, span, max_sweeps

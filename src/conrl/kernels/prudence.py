"""Several values of one policy, each under its own best transitions within intervals.

`optimism.extended_backward` chooses transitions for one pay. Here m values are carried backward at once, and each takes
the transitions that are best for it alone:

    Q_i(s, a) = min( cap_i, pay_i(s, a) + max over p in the i-th set of p.V_i )      V_i(s) = sum_a pi(a|s) Q_i(s, a)

so that V_i at the first step is exactly the largest value i that the policy can have in its set: what is to be an upper
bound on a cost, on a reward, or (with the sign turned) a lower one. `apart_values` does that for a given policy,
`apart_backward` for the policy that takes the action with the largest sum of weights_i Q_i. Intervals as in `optimism`.
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled
from conrl.kernels.optimism import Intervals, best_value, rank_states


@compiled
def apart_backward(
    sets: tuple[Intervals, Intervals],
    uses: Array,
    pay: Array,
    caps: Array,
    weights: Array,
    tie: float,
    choice: Array,
) -> Array:
    """The values [m, n] at the first step of the policy that is greedy for `weights` [m]; fills its choice [H, n].

    pay [P, m]; caps [m]: no value is ever above these; uses [m] is which of the two sets each value takes its
    transitions from. Ties as in `backward`: what is passed on is what the action taken has, so that these are the
    values of that very policy.
    """
    first, successor, many = sets[0][0], sets[0][2], sets[0][7]
    horizon, n = choice.shape
    m = weights.size
    V = np.zeros((m, n))
    W = np.empty((m, n))
    Q = np.empty(m)
    best = np.empty(m)
    rank = np.empty((m, n), np.int64)
    before = np.zeros((m, n + 1))
    above = np.zeros((m, n + 1))
    mine = np.empty((m, successor.size), np.int64)
    for i in range(m):
        mine[i] = np.arange(successor.size)
    for h in range(horizon - 1, -1, -1):
        for i in range(m):
            rank_states(V[i], many, rank[i], before[i], above[i])
        for s in range(n):
            chosen = -np.inf
            at = first[s]
            for k in range(first[s], first[s + 1]):
                total = 0.0
                for i in range(m):
                    q = pay[k, i]
                    if h < horizon - 1:
                        q += best_value(k, sets[uses[i]], V[i], rank[i], mine[i], before[i], above[i])
                    Q[i] = min(q, caps[i])
                    total += weights[i] * Q[i]
                if k == first[s] or total > chosen + tie:
                    chosen = total
                    at = k
                    best[:] = Q
            W[:, s] = best
            choice[h, s] = at - first[s]
        V, W = W, V
    return V


@compiled
def apart_values(sets: tuple[Intervals, Intervals], uses: Array, pay: Array, caps: Array, likely: Array) -> Array:
    """The values [m, n] at the first step of the policy that plays the pairs of each state as likely as likely [H,
    P]."""
    first, successor, many = sets[0][0], sets[0][2], sets[0][7]
    horizon, m, n = likely.shape[0], pay.shape[1], many.size
    result = np.zeros((m, n))
    V = np.zeros(n)
    W = np.empty(n)
    rank = np.empty(n, np.int64)
    before = np.zeros(n + 1)
    above = np.zeros(n + 1)
    mine = np.arange(successor.size)
    for i in range(m):
        V[:] = 0.0
        for h in range(horizon - 1, -1, -1):
            rank_states(V, many, rank, before, above)
            for s in range(n):
                W[s] = 0.0
                for k in range(first[s], first[s + 1]):
                    if likely[h, k] > 0.0:
                        q = pay[k, i]
                        if h < horizon - 1:
                            q += best_value(k, sets[uses[i]], V, rank, mine, before, above)
                        W[s] += likely[h, k] * min(q, caps[i])
            V, W = W, V
        result[i] = V
    return result

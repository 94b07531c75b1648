"""Backward inductions of optimistic learners whose values are cut off at what is possible."""

import numpy as np

from conrl.kernels.compiling import Array, compiled


@compiled
def truncated_values(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    policy: Array,
    pay: Array,
    least: Array,
    most: Array,
    Q: Array,
) -> Array:
    """The values of a policy [H, P] for the pays [P, m], each kept within least[h] and most[h] ([H, m]): V [n, m] at
    the first step. Fills Q [H, P, m]."""
    horizon, _, width = Q.shape
    n = first.size - 1
    V = np.zeros((n, width))
    W = np.empty((n, width))
    for h in range(horizon - 1, -1, -1):
        for s in range(n):
            W[s] = 0.0
            for k in range(first[s], first[s + 1]):
                for i in range(width):
                    q = pay[k, i]
                    if h < horizon - 1:
                        for j in range(start[k], start[k + 1]):
                            q += probability[j] * V[successor[j], i]
                    q = min(max(q, least[h, i]), most[h, i])
                    Q[h, k, i] = q
                    W[s, i] += policy[h, k] * q
        V, W = W, V
    return V


@compiled
def clipped_greedy(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    action: Array,
    pay: Array,
    most: Array,
    before: Array,
    tie: float,
    Q: Array,
    actions: Array,
) -> None:
    """Greedy actions [H, n] for pay [P] with Q[h, k] at most most[h] and at most before[h, k] (where that is given: it
    may have fewer pairs). Fills Q [H, P]; ties as in `backward`."""
    horizon, n = actions.shape
    V = np.zeros(n)
    W = np.empty(n)
    for h in range(horizon - 1, -1, -1):
        for s in range(n):
            best = -np.inf
            chosen = -np.inf
            at = first[s]
            for k in range(first[s], first[s + 1]):
                q = pay[k]
                if h < horizon - 1:
                    for j in range(start[k], start[k + 1]):
                        q += probability[j] * V[successor[j]]
                q = min(q, most[h])
                if k < before.shape[1]:
                    q = min(q, before[h, k])
                Q[h, k] = q
                if q > chosen + tie:
                    chosen = q
                    at = k
                best = max(best, q)
            W[s] = best
            actions[h, s] = action[at]
        V, W = W, V

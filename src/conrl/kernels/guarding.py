"""What is certain to be safe in a fleet: the worst case of each unit, before it is played.

The units of a stack are in the lanes of vectors, as in `conrl.kernels.fleets`; here they are read one at a time. Costs
are whole quanta, so that sums are exact, and the worst case of a step is its dearest outcome that has a probability
above 0.
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled
from conrl.kernels.fleets import Pattern
from conrl.kernels.lanes import LANES


@compiled
def safe_policies(
    pattern: Pattern,
    probability: Array,
    gain: Array,
    paid: Array,
    by_outcome: bool,
    columns: Array,
    weights: Array,
    units: int,
    safe: Array,
    reserve: Array,
    needs: Array,
) -> None:
    """For each of the first `units` units of the numbers: what costs least in the worst case, and how much that is.

    `paid` [D, d, K or P, LANES] are costs by outcome or by pair, in whole quanta; `columns` the costs that are limited.
    weights [H, columns] weigh them: safe [units, H, S], the choice with the least weighted worst case to go; of equal
    ones, as where several actions are free, the one that earns most so: gain [D, P, LANES] is the mean reward. Of it,
    reserve [units, H+1, S, columns] is the worst case to go of each cost alone, and needs [units, H, S, columns] the
    worst case of the step itself.
    """
    first, start, successor, shift = pattern
    horizon, n = weights.shape
    num_states = reserve.shape[2]
    V, W = np.zeros(num_states), np.zeros(num_states)  # the worst case to go
    U, X = np.zeros(num_states), np.zeros(num_states)  # what is earned on average
    for u in range(units):
        p, c, lane = probability[u // LANES], paid[u // LANES], u % LANES
        for s in range(num_states):
            V[s] = 0.0
            U[s] = 0.0
        for h in range(horizon - 1, -1, -1):
            for s in range(num_states):
                node = h * shift + s
                best, at = np.inf, first[node]
                earned = -np.inf
                if at == first[node + 1]:
                    W[s] = 0.0
                    X[s] = 0.0
                    continue
                for k in range(first[node], first[node + 1]):
                    worst = -np.inf
                    more = gain[u // LANES, k, lane]
                    for j in range(start[k], start[k + 1]):
                        if p[j, lane] > 0.0:
                            more += p[j, lane] * U[successor[j]]
                            q = V[successor[j]]
                            for i in range(n):
                                q += weights[h, i] * c[columns[i], j if by_outcome else k, lane]
                            worst = max(worst, q)
                    if worst < best or (worst == best and more > earned):
                        best, at, earned = worst, k, more
                W[s] = best
                X[s] = earned
                safe[u, h, s] = at - first[node]
                for i in range(n):
                    to_go = now = np.iinfo(np.int64).min
                    for j in range(start[at], start[at + 1]):
                        if p[j, lane] > 0.0:
                            cost = np.int64(c[columns[i], j if by_outcome else at, lane])
                            to_go = max(to_go, cost + reserve[u, h + 1, successor[j], i])
                            now = max(now, cost)
                    reserve[u, h, s, i] = to_go
                    needs[u, h, s, i] = now
            V, W = W, V
            U, X = X, U


@compiled
def later_needs(pattern: Pattern, probability: Array, safe: Array, needs: Array, units: int, later: Array) -> None:
    """later [units, H, S, columns, H]: the most that the safe policy may cost at step g >= h, from a state at h."""
    first, start, successor, shift = pattern
    horizon, num_states, n = needs.shape[1], needs.shape[2], needs.shape[3]
    for u in range(units):
        p, lane = probability[u // LANES], u % LANES
        for h in range(horizon - 1, -1, -1):
            for s in range(num_states):
                node = h * shift + s
                at = first[node] + safe[u, h, s]
                if first[node] == first[node + 1]:
                    continue
                for i in range(n):
                    later[u, h, s, i, h] = needs[u, h, s, i]
                    for g in range(h + 1, horizon):
                        most = np.iinfo(np.int64).min
                        for j in range(start[at], start[at + 1]):
                            if p[j, lane] > 0.0:
                                most = max(most, later[u, h + 1, successor[j], i, g])
                        later[u, h, s, i, g] = most

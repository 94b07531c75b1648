"""One policy in many models at once, and what a pair's next state is worth; see `conrl.kernels` for the letters.

The models of an ensemble share their pairs and the successors that were seen; they differ in probabilities and pay. D
numbers, one for each model, stand side by side where a single model has one. Beside them each pair has, in each model,
one successor of its own that was never seen: `target` [P, D], with probability `lost` [P, D].
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled


@compiled
def ensemble_visits(
    first: Array,
    start: Array,
    successor: Array,
    share: Array,
    lost: Array,
    target: Array,
    initial: Array,
    action: Array,
    policy: Array,
    visits: Array,
) -> None:
    """Add the expected visits to each pair, visits [P, D], of the policy [H, S, A] in each model.

    share [N, D], initial [S, D]. What a policy plays must be among the pairs.
    """
    num_states, D = initial.shape
    stride = num_states if first.size - 1 > num_states else 0
    now = initial.copy()
    then = np.zeros((num_states, D))
    flow = np.empty(D)
    horizon = policy.shape[0]
    for h in range(horizon):
        more = h + 1 < horizon
        for s in range(num_states):
            occupied = False
            for b in range(D):
                if now[s, b] > 0.0:
                    occupied = True
                    break
            if not occupied:
                continue
            node = h * stride + s
            for k in range(first[node], first[node + 1]):
                p = policy[h, s, action[k]]
                if p > 0.0:
                    for b in range(D):
                        flow[b] = p * now[s, b]
                        visits[k, b] += flow[b]
                    if more:
                        for j in range(start[k], start[k + 1]):
                            t = successor[j]
                            for b in range(D):
                                then[t, b] += flow[b] * share[j, b]
                        for b in range(D):
                            then[target[k, b], b] += flow[b] * lost[k, b]
            for b in range(D):
                now[s, b] = 0.0
        now, then = then, now


@compiled
def policy_values(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    action: Array,
    pay: Array,
    policy: Array,
    occupied: Array,
    values: Array,
) -> None:
    """What is still to come from each step and state, values [H+1, S, n], of pay [P, n]; and occupied [H, S].

    occupied[0] is the initial distribution, the other rows are filled.
    """
    horizon, num_states, _ = policy.shape
    n = pay.shape[1]
    stride = num_states if first.size - 1 > num_states else 0
    for s in range(num_states):
        for i in range(n):
            values[horizon, s, i] = 0.0
    for h in range(horizon - 1, -1, -1):
        for s in range(num_states):
            node = h * stride + s
            for i in range(n):
                values[h, s, i] = 0.0
            for k in range(first[node], first[node + 1]):
                p = policy[h, s, action[k]]
                if p > 0.0:
                    for i in range(n):
                        values[h, s, i] += p * pay[k, i]
                    for j in range(start[k], start[k + 1]):
                        x = p * probability[j]
                        for i in range(n):
                            values[h, s, i] += x * values[h + 1, successor[j], i]
    for h in range(horizon - 1):
        for s in range(num_states):
            occupied[h + 1, s] = 0.0
        for s in range(num_states):
            x = occupied[h, s]
            if x > 0.0:
                node = h * stride + s
                for k in range(first[node], first[node + 1]):
                    p = x * policy[h, s, action[k]]
                    if p > 0.0:
                        for j in range(start[k], start[k + 1]):
                            occupied[h + 1, successor[j]] += p * probability[j]


@compiled
def values_after(node: Array, successor: Array, when: Array, values: Array, after: Array) -> None:
    """The mean value of a successor over the steps at which its node is left: after [N, n].

    node [N] and successor [N] of each outcome, when [nodes, H] how likely each step is, values [H+1, S, n].
    """
    horizon = when.shape[1]
    n = values.shape[2]
    for j in range(node.size):
        for i in range(n):
            after[j, i] = 0.0
        for h in range(horizon):
            w = when[node[j], h]
            if w > 0.0:
                for i in range(n):
                    after[j, i] += w * values[h + 1, successor[j], i]

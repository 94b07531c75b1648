"""Many episodes of one lottery, until some pair has been visited often enough."""

import numpy as np

from conrl.kernels.compiling import Array, compiled
from conrl.kernels.learning import rollout
from conrl.kernels.policies import find


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

"""Playing on without a reset, until a learner wants to plan anew."""

import numpy as np

from conrl.kernels.compiling import Array, compiled
from conrl.kernels.playing import find, played_pair


@compiled
def walk(
    first: Array,
    start: Array,
    successor: Array,
    cumulated: Array,
    pay: Array,
    by_outcome: bool,
    action: Array,
    policy: Array,
    deterministic: bool,
    uniform: Array,
    left: Array,
    total: Array,
    steps: int,
    slope: Array,
    target: Array,
    reference: Array,
    change: float,
    threshold: float,
    begin: int,
    states: Array,
    actions: Array,
    paid: Array,
) -> int:
    """Play steps begin, begin + 1, ... from states[begin] into states [H+1], actions [H], paid [H, 1+d]; its end.

    It ends after H steps, after a step whose pair (s, a) has then been played left[s, a] times, or once the changes of
    a gradient add up to more than `threshold`, as `follow` counts them. `policy` is [H, S, A] or, deterministic,
    [H, S, 1]; `uniform` [H, 2] are the draws of action and outcome.
    """
    left = left.copy()
    total = total.copy()
    s = states[begin]
    for h in range(begin, actions.size):
        k = played_pair(first[s], first[s + 1], action, policy[h, s], deterministic, uniform[h, 0])
        j = find(cumulated, start[k], start[k + 1], uniform[h, 1])
        row = pay[j] if by_outcome else pay[k]
        actions[h] = action[k]
        for i in range(row.size):
            paid[h, i] = row[i]
        states[h + 1] = successor[j]
        steps += 1
        change += follow(row, total, steps, slope, target, reference)
        left[s, action[k]] -= 1
        if left[s, action[k]] <= 0 or change > threshold:
            return h + 1
        s = np.int64(successor[j])
    return actions.size


@compiled
def follow(row: Array, total: Array, steps: int, slope: Array, target: Array, reference: Array) -> float:
    """Add what a step paid to total [1+d]; how far the gradient at the new average total / steps is from the reference.

    The gradient is that of  constant.w - sum_i (slope_i / 2) max(w_i - target_i, 0)^2, without its constant part; empty
    `slope`: there is none to follow.
    """
    square = 0.0
    for i in range(row.size):
        total[i] += row[i]
        if slope.size > 0:
            moved = slope[i] * max(total[i] / steps - target[i], 0.0) + reference[i]
            square += moved * moved
    distance: float = np.sqrt(square)
    return distance


@compiled
def follow_all(
    states: Array,
    actions: Array,
    paid: Array,
    left: Array,
    total: Array,
    steps: int,
    slope: Array,
    target: Array,
    reference: Array,
) -> tuple[float, bool]:
    """Follow the steps of part of a trajectory, in place: how far the gradient moved, whether some pair is used up."""
    change = 0.0
    full = False
    for h in range(actions.size):
        change += follow(paid[h], total, steps + h + 1, slope, target, reference)
        left[states[h], actions[h]] -= 1
        full = full or left[states[h], actions[h]] <= 0
    return change, full

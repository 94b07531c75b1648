"""What the most careful policy may come to spend: the proof that a limit on every episode cannot be kept."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from conrl.model.counting import classes_of
from conrl.model.tracking import Tracked


def careful_path(tracked: Tracked, cost: int) -> tuple[float, tuple[str, ...]]:
    """The least total that can surely be kept, and a path that reaches it: min over actions of max over outcomes."""
    mdp, counter = tracked.base, tracked.counter
    i = counter.place(cost)
    # On the base model: the worst case does not depend on what was spent before.
    paid, which = classes_of(mdp._by_outcome([1 + i for i in counter.costs]))
    exact = [counter.in_units(i, row[i]) * counter.units[i] for row in paid]
    amounts = np.array([float(x) for x in exact])[which]
    g, S = mdp.graph, mdp.num_states
    start, first = g.start.astype(np.int64), g.first.astype(np.int64)
    stride = S if mdp.step_dependent else 0
    value = np.zeros((mdp.horizon + 1, S))
    for h in range(mdp.horizon - 1, -1, -1):
        worst = np.maximum.reduceat(amounts + value[h + 1][g.successor], start[:-1])  # [P]
        pairs = slice(first[h * stride], first[h * stride + S])
        value[h] = np.inf  # nobody comes to a state without actions
        np.minimum.at(value[h], mdp.pair_state[pairs], worst[pairs])
    begin = np.flatnonzero(mdp.initial > 0.0)
    state = int(begin[np.argmax(value[0][begin])])
    total, path = Fraction(0), []
    for h in range(mdp.horizon):
        node = h * stride + state
        pairs_here = range(first[node], first[node + 1])
        after = [
            amounts[start[p] : start[p + 1]] + value[h + 1][g.successor[start[p] : start[p + 1]]] for p in pairs_here
        ]
        best = int(np.argmin([x.max() for x in after]))
        pair = pairs_here[best]
        path.append(f"{mdp.state_name(state)}: {mdp.action_name(int(mdp.action[pair]))}")
        outcome = start[pair] + int(np.argmax(after[best]))
        total += exact[which[outcome]]
        state = int(g.successor[outcome])
    return float(total), (*path, mdp.state_name(state))

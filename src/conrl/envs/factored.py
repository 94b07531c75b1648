"""The smallest problem of safe exploration: stay, or move on for a reward that costs.

The model "factored" of Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland (2022), "DOPE: Doubly optimistic
and pessimistic exploration for safe reinforcement learning", who minimise; here signs are turned and rewards maximised.

State s in 0..n-1, on a circle. Action 0 stays, pays and costs nothing. Action 1 moves to (s + 1) mod n, pays
(s + 1) / n and costs 1. Nothing is random. The first state is 0.

Units: the reward of the best move is 1; the cost is in moves. Every three moves pay 2 in the default model, so that
the optimum is 2/3 of the limit, and the plan a mixture of no move and whole rounds.

Optimum within the limit: reward 2.000000 at moves 3 (shadow price 0.666667).
The paper's safe baseline, the optimum at a fifth of the limit: reward 0.400000 at moves 0.6.
Unlimited: reward 4.000000 at moves 6.000000.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from conrl.envs.chains import read_size
from conrl.model import ConstrainedMDP
from conrl.model.reading import read_horizon
from conrl.sizes import check_table


def factored(
    *,
    states: int = 3,
    horizon: int = 6,
    limits: ArrayLike | Mapping[str, float] | None = (3.0,),
) -> ConstrainedMDP:
    """A circle of three states: staying is free, moving on pays and costs.

    Args:
        states: how many lie on the circle, n.
        horizon: number of steps.
        limits: default limit of the moves of an episode, `[limit]`.

    See the module's docstring for the exact dynamics and the optimum.
    """
    n = read_size(states, "states")
    check_table(read_horizon(horizon), n)
    s, a = (i.ravel() for i in np.indices((n, 2)))
    return ConstrainedMDP.from_outcomes(
        s,
        a,
        (s + a) % n,
        np.ones(s.size),
        np.stack([a * (s + 1) / n, a], axis=1),
        num_states=n,
        num_actions=2,
        horizon=horizon,
        limits=limits,
        state_names=[f"place {i}" for i in range(n)],
        action_names=("stay", "move"),
        cost_names=("moves",),
    )

"""Media streaming: keep a player's buffer filled, with a fast link that may be used only so often.

The model "media streaming" of Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland (2022), "DOPE: Doubly
optimistic and pessimistic exploration for safe reinforcement learning", who minimise; here signs are turned and rewards
maximised.

State s in 0..N: the packets in the buffer. Action 0 uses the fast link, over which a packet arrives with probability
`fast`, and costs 1; action 1 the slow one, with probability `slow`, and costs nothing. A packet is played with
probability `playout`, independently. The next state is s + arrived - played, cut to 0..N. An empty buffer is what
nobody wants: state 0 pays -1 a step, every other state 0, whatever is done. The first state is 0.

Units: the reward is minus the steps with an empty buffer, the cost is in steps with the fast link.

Optimum within the limit: reward -6.746704 at fast 5 (shadow price 0.495190).
The paper's safe baseline, the optimum at a fifth of the limit: reward -8.983489 at fast 1.
Unlimited: reward -5.393138 at fast 10.000000, the fast link throughout (8.556990 are enough: what arrives too late, or
in a buffer that outlasts the episode, changes nothing).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from conrl.envs.chains import read_probability, read_size
from conrl.model import ConstrainedMDP
from conrl.model.reading import read_horizon
from conrl.sizes import check_table


def media_streaming(
    *,
    buffer: int = 9,
    fast: float = 0.9,
    slow: float = 0.1,
    playout: float = 0.8,
    horizon: int = 10,
    limits: ArrayLike | Mapping[str, float] | None = (5.0,),
) -> ConstrainedMDP:
    """Media streaming: a fast or a slow link for each packet, with limited use of the fast one.

    Args:
        buffer: how many packets fit, N.
        fast: probability that a packet arrives over the fast link in a step.
        slow: the same over the slow link.
        playout: probability that a packet is played in a step.
        horizon: number of steps.
        limits: default limit of the steps with the fast link, `[limit]`.

    See the module's docstring for the exact dynamics and the optimum.
    """
    N = read_size(buffer, "buffer")
    check_table(read_horizon(horizon), N + 1)
    arrival = np.array([read_probability(fast, "fast"), read_probability(slow, "slow")])
    leaving = read_probability(playout, "playout")
    s, a, came, left = (i.ravel() for i in np.indices((N + 1, 2, 2, 2)))
    return ConstrainedMDP.from_outcomes(
        s,
        a,
        np.clip(s + came - left, 0, N),
        np.where(came == 1, arrival[a], 1.0 - arrival[a]) * np.where(left == 1, leaving, 1.0 - leaving),
        np.stack([np.where(s == 0, -1.0, 0.0), a == 0], axis=1),
        num_states=N + 1,
        num_actions=2,
        horizon=horizon,
        limits=limits,
        state_names=[f"{packets} packets" for packets in range(N + 1)],
        action_names=("fast", "slow"),
        cost_names=("fast",),
    )

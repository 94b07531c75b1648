"""Grid worlds with rocks, and the Mars rover among them.

The agent walks over a map (`conrl.envs.maps` has the legend and the moves) from the start. Goals and rocks are
ends: entering one pays in full, and every later step of the episode pays a fraction of that, 1/H by default,
while nothing moves any more. Pay is by outcome: it is the cell entered that pays, not the action chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from conrl.envs.chains import read_number
from conrl.envs.maps import MOVES, per_step, read_map, slip_matrix
from conrl.model import ConstrainedMDP
from conrl.model.layout import Layout

MARS_ROVER = """
S 0 0 0 0 0 0 0
0 0 0 0 0 0 0 0
0 0 0 P 0 0 P 0
0 0 0 0 0 0 0 0
0 0 0 0 0 0 0 0
0 P P 0 0 0 0 0
0 P 0 0 P 0 P 0
0 0 0 P 0 0 0 G
"""


def gridworld(
    rows: str | Sequence[str],
    *,
    slip: float = 0.1,
    horizon: int = 30,
    goal_reward: float = 1.0,
    rock_reward: float = 0.0,
    rock_cost: float = 1.0,
    stay: float | None = None,
    limits: ArrayLike | None = None,
    cost_name: str = "crash",
) -> ConstrainedMDP:
    """A grid world from a text map: reach a goal, keep off the rocks.

    Args:
        rows: the map; see `conrl.envs.maps`.
        slip: probability that a move is replaced by one drawn uniformly from all four.
        horizon: number of steps, H.
        goal_reward: reward on entering a goal.
        rock_reward, rock_cost: reward and cost on entering a rock.
        stay: the fraction of these that each later step pays; 1/H by default.
        limits: default limit of the one cost, `[limit]`.
        cost_name: what that cost is called.

    A state is a free cell, named like "r2c3". The features are two pictures: where the agent is, where the rocks are.
    """
    grid = read_map(rows)
    moves = slip_matrix(slip)
    later = per_step(horizon) if stay is None else stay
    for name, value in (
        ("goal_reward", goal_reward),
        ("rock_reward", rock_reward),
        ("rock_cost", rock_cost),
        ("stay", later),
    ):
        read_number(value, name)

    entry = np.zeros((grid.size, 2))  # reward and cost on entering each cell
    entry[grid.where("G"), 0] = goal_reward
    entry[grid.where("P")] = rock_reward, rock_cost
    end = np.isin(grid.kind, ("G", "P"))

    state, chosen, made = (x.ravel() for x in np.indices((grid.size, 4, 4)))
    successor = np.where(end[state], state, grid.target[state, made])
    entered = successor != state
    pay = entry[successor] * np.where(entered, 1.0, np.where(end[state], later, 0.0))[:, None]
    rocks = grid.images()[grid.where("P")].sum(axis=0)
    return ConstrainedMDP.from_outcomes(
        state,
        chosen,
        successor,
        moves[chosen, made],
        pay,
        num_states=grid.size,
        num_actions=4,
        horizon=horizon,
        initial=int(grid.where("S")[0]),
        limits=limits,
        state_names=grid.names,
        action_names=tuple(MOVES),
        cost_names=(cost_name,),
        features=np.stack([grid.images(), np.broadcast_to(rocks, (grid.size, *grid.shape))], axis=1),
        layout=Layout(grid.rows, grid.position),
    )


def mars_rover(
    rock_reward: float = 0.0, horizon: int = 30, slip: float = 0.1, limits: ArrayLike | None = (0.3,)
) -> ConstrainedMDP:
    """Mars rover: cross an 8x8 field to the goal; crashing into a rock costs.

    The environment of Brantley et al. (2020), of which there are two readings. By the paper's text a rock only
    costs (`rock_reward=0.0`); then the limit 0.3 never binds, as the best policy crashes with cost 0.09. The
    program behind the paper's figures also pays the goal's reward on a rock (`rock_reward=1.0`): a crash is
    tempting, and the limit binds. To reproduce the figures, use the second.

    Entering the goal pays reward 1, entering a rock costs 1 (and pays `rock_reward`); each later step pays 1/H of that.
    """
    return gridworld(MARS_ROVER, slip=slip, horizon=horizon, rock_reward=rock_reward, limits=limits)

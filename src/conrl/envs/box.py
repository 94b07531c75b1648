"""Box: push a box out of the way without leaving it in a corner.

The second environment of Brantley et al. (2020), a small Sokoban. A state is (agent cell, box cell), any two of
the n free cells: state i * n + j has the agent in cell i and the box in cell j.

- Walking into the box pushes it one cell; if it cannot move, nothing moves.
- The *agent* must reach the goal: reward 1 on entry, 1/H a step afterwards, and the state is then frozen.
- Each step at whose end the box stands in a corner costs 1/H, also after the goal was reached. A corner is a
  cell with walls on at least two of its four sides.

The n states with both in one cell cannot be reached; there nothing moves, and a box in a corner costs as ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Int
from conrl.envs.maps import MOVES, GridMap, per_step, read_map, slip_matrix
from conrl.model import ConstrainedMDP
from conrl.model.layout import Layout

BOX = """
W W W W W W
W 0 S W W W
W 0 X 0 0 W
W W 0 0 0 W
W W W 0 G W
W W W W W W
"""


def box(
    horizon: int = 30, slip: float = 0.1, limits: ArrayLike | None = (0.1,), rows: str | Sequence[str] = BOX
) -> ConstrainedMDP:
    """Box: reach the goal past a box, which had better not end up in a corner.

    Args:
        horizon: number of steps, H.
        slip: probability that a move is replaced by one drawn uniformly from all four.
        limits: default limit of the one cost, `[limit]`.
        rows: another map, with one start S, one box X and at least one goal G.
    """
    grid = read_map(rows, once="SX", legend="SG0WX")
    moves = slip_matrix(slip)
    n = grid.size
    agent, stone, chosen, made = (x.ravel() for x in np.indices((n, n, 4, 4)))
    agent_next, stone_next = _move(grid, agent, stone, made)
    goal = grid.kind == "G"
    reward = np.where(goal[agent], per_step(horizon), goal[agent_next].astype(float))
    cost = np.where(grid.walls[stone_next] >= 2, per_step(horizon), 0.0)
    i, j = (x.ravel() for x in np.indices((n, n)))
    return ConstrainedMDP.from_outcomes(
        agent * n + stone,
        chosen,
        agent_next * n + stone_next,
        moves[chosen, made],
        np.stack([reward, cost], axis=1),
        num_states=n * n,
        num_actions=4,
        horizon=horizon,
        initial=int(grid.where("S")[0] * n + grid.where("X")[0]),
        limits=limits,
        state_names=[f"agent {a} box {b}" for a in grid.names for b in grid.names],
        action_names=tuple(MOVES),
        cost_names=("corner",),
        features=np.stack([grid.images()[i], grid.images()[j]], axis=1),
        layout=Layout(grid.rows, grid.position[i]),
    )


def _move(grid: GridMap, agent: Int, stone: Int, made: Int) -> tuple[Int, Int]:
    """Where agent and box are after the move that was made."""
    ahead = grid.target[agent, made]
    pushes = ahead == stone
    beyond = np.where(pushes, grid.target[stone, made], stone)
    stuck = (grid.kind[agent] == "G") | (agent == stone) | (pushes & (beyond == stone))
    return np.where(stuck, agent, ahead), np.where(stuck, stone, beyond)

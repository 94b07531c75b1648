"""Continuous observations: CartPole, MountainCar and Acrobot with a cost, in cells.

`conrl.discretize` cuts what an environment observes into numbered cells, and ConRL learns as if these were states. They
are not: two points of one cell move on differently. So each world is told with what its plan promises, in the model
that was learned, beside what was delivered in the last 50 episodes.

Run: python examples/discretized.py [--seeds 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import conrl


class World(NamedTuple):
    """An environment, what a step costs (from what is observed after it, and the action), and where to cut."""

    env: str
    cost: Callable[[Any, int], bool]
    cost_name: str
    limit: float
    bins: Any
    reward_range: tuple[float, float]
    episodes: int


WORLDS = (
    # Off the center costs. Edges by hand: fine where the pole is nearly upright, and one at the line that costs.
    World(
        "CartPole-v1",
        lambda seen, action: abs(seen[0]) > 0.5,
        "off center",
        20.0,
        [[-0.5, 0.5], [-0.5, 0.5], [-0.1, -0.03, 0.0, 0.03, 0.1], [-0.6, 0.0, 0.6]],
        (0.0, 1.0),
        200,
    ),
    # Every push of the engine costs. Both dimensions have ends, so bins of one width will do.
    World("MountainCar-v0", lambda seen, action: action != 1, "pushes", 80.0, 20, (-1.0, 0.0), 200),
    # Torque costs. Sines and cosines of two angles, and two speeds: six dimensions, so few bins each.
    World("Acrobot-v1", lambda seen, action: action != 1, "torque", 200.0, [3, 3, 3, 3, 5, 5], (-1.0, 0.0), 120),
)
LAST = 50


class WithCost(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Says in `info` what a step costs, from the observation itself: the cell would be too coarse."""

    def __init__(self, env: gymnasium.Env[Any, Any], cost: Callable[[Any, int], bool]) -> None:
        super().__init__(env)
        self.cost = cost

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, info = self.env.step(action)
        return seen, reward, terminated, truncated, {**info, "cost": float(self.cost(seen, action))}


def learned(world: World, limit: float, seed: int) -> list[float]:
    """Reward and cost: promised, and delivered in the last episodes; seconds."""
    began = time.perf_counter()
    env = conrl.discretize(WithCost(gymnasium.make(world.env), world.cost), world.bins)
    task = conrl.Task.from_gymnasium(env, limits={world.cost_name: limit}, reward_range=world.reward_range)
    learner = conrl.ConRL(task, seed=seed)
    history = conrl.learn(env, learner, world.episodes, seed=seed)
    env.close()
    plan = conrl.plan(learner.model, [limit])
    last = slice(-LAST, None)
    seconds = time.perf_counter() - began
    return [plan.reward, plan.costs[0], history.rewards[last].mean(), history.costs[last].mean(), seconds]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1, help="how many runs to average")
    seeds = range(parser.parse_args().seeds)
    print(f"{'':<34}{'promised':>18}{'delivered':>18}")
    print(f"{'':<34}{'reward':>9}{'cost':>9}{'reward':>9}{'cost':>9}{'seconds':>9}")
    for world in WORLDS:
        for limit in (np.inf, world.limit):
            numbers = np.mean([learned(world, limit, seed) for seed in seeds], axis=0)
            asked = "no limit" if limit == np.inf else f"{world.cost_name} <= {limit:g}"
            print(f"{world.env:<15}{asked:<19}{''.join(f'{x:9.1f}' for x in numbers)}", flush=True)


if __name__ == "__main__":
    main()

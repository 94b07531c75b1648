"""Environments whose reward is a vector, as in MO-Gymnasium: `MultiObjective(env, reward=0, costs={"time": 1})`.

There every component is to be made large: what a limit is to be put on has a minus in front, such as -1 for each step.
So a cost is minus its component, unless `signs` says that it is the component itself, such as a number of victims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from conrl._types import Float
from conrl.arguments import is_int
from conrl.errors import RunError, SpecError, shown, unknown


class MultiObjective(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One component of the reward as the reward, others as costs in `info`; the rest are left out.

    Args:
        env: an environment whose `step` gives a vector as the reward; `env.unwrapped.reward_space` is its space.
        reward: the component that is the reward.
        costs: by the name of each cost, the component that it is.
        signs: by the name of a cost, -1 (the default): it is minus its component; or 1: it is its component.

    `step` gives `info["costs"]` and `info["cost"]`, their sum. `cost_names` and, where the space of rewards is bounded,
    `pay_ranges` are what `Task.from_gymnasium` reads.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        reward: int = 0,
        costs: Mapping[str, int] | None = None,
        signs: Mapping[str, int] | None = None,
    ) -> None:
        if not isinstance(env, gymnasium.Env):
            raise SpecError(f"MultiObjective needs a Gymnasium environment, not {type(env).__name__}")
        super().__init__(env)
        space: Any = getattr(env.unwrapped, "reward_space", None)
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise SpecError(f"{shown(env)} has no vector of rewards: env.unwrapped.reward_space is {shown(space)}")
        size = int(space.shape[0])
        if not isinstance(costs, (Mapping, type(None))) or not isinstance(signs, (Mapping, type(None))):
            raise SpecError('costs and signs are mappings by the name of a cost, such as costs={"time": 1}')
        named = dict(costs or {})
        for name in signs or {}:
            if name not in named:
                raise SpecError(unknown("cost", name, named), key=("signs", str(name)))
        self.cost_names = tuple(str(name) for name in named)
        parts = [("reward", reward), *((f"costs[{name!r}]", at) for name, at in named.items())]
        self._parts = np.array([_component(at, size, what) for what, at in parts], dtype=np.int64)
        self._signs = np.array([1.0, *(_sign((signs or {}).get(name, -1), name) for name in named)])
        self._size = size
        ends = np.stack([np.asarray(space.low, dtype=np.float64), np.asarray(space.high, dtype=np.float64)], axis=1)
        self.pay_ranges: Float = np.sort(ends[self._parts] * self._signs[:, None], axis=1) + 0.0  # no -0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "cost": 0.0, "costs": np.zeros(len(self.cost_names))}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, given, terminated, truncated, info = self.env.step(action)
        vector = np.asarray(given, dtype=np.float64)
        if vector.shape != (self._size,):
            raise RunError(f"the environment gave the reward {shown(given)}; expected {self._size} numbers")
        pay = vector[self._parts] * self._signs + 0.0
        costs = pay[1:]
        return observation, float(pay[0]), terminated, truncated, {**info, "cost": float(costs.sum()), "costs": costs}


def _component(at: Any, size: int, what: str) -> int:
    if not is_int(at) or not 0 <= at < size:
        raise SpecError(f"{what} is {shown(at)}; the components of the reward are 0..{size - 1}")
    return int(at)


def _sign(sign: Any, name: str) -> int:
    if not is_int(sign) or sign not in (-1, 1):
        raise SpecError(f"signs[{name!r}] is {shown(sign)}; it must be 1 or -1", key=("signs", name))
    return int(sign)

"""The two ways in which environments report a cost, and wrappers from each to the other.

Gymnasium: `step` gives (observation, reward, terminated, truncated, info) with `info["cost"]`.
Safety-Gymnasium: `step` gives (observation, reward, cost, terminated, truncated, info).
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from conrl._types import Float
from conrl.errors import RunError
from conrl.model.environment import declared


class SafetyGymnasiumAdapter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A Gymnasium environment whose info has "cost", with the six-tuple step of Safety-Gymnasium."""

    def step(self, action: Any) -> tuple[Any, float, float, bool, bool, dict[str, Any]]:  # type: ignore[override]
        observation, reward, terminated, truncated, info = self.env.step(action)
        if "cost" not in info:
            raise RunError(f'{self.env} gave no info["cost"]; known keys: {", ".join(map(str, info)) or "none"}')
        return observation, float(reward), float(info["cost"]), terminated, truncated, info


class FromSafetyGymnasium(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment with the six-tuple step as a Gymnasium one: the cost goes to `info`.

    `info["cost"]` is a float, the sum of the costs, and `info["costs"]` a float64 array of them: what the
    environment gave there, if it did, else the cost of the step. `reset` gives zeros of the shape last seen.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        limits = declared(env).cost_limits
        self._num_costs = 1 if limits is None else np.size(limits) or 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "cost": 0.0, "costs": np.zeros(self._num_costs)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        result: tuple[Any, ...] = self.env.step(action)
        if len(result) != 6:
            raise RunError(
                f"{self.env} gave {len(result)} values from step(); expected six, with the cost as the third"
            )
        observation, reward, cost, terminated, truncated, info = result
        costs: Float = np.array(info.get("costs", cost), dtype=np.float64, ndmin=1)
        self._num_costs = costs.size
        return observation, float(reward), terminated, truncated, {**info, "cost": float(costs.sum()), "costs": costs}

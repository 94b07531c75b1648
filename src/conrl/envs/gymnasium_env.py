"""Any `ConstrainedMDP` as a Gymnasium environment.

An episode lasts `mdp.horizon` steps and is then *truncated*; it never terminates, as even an absorbing state may go
on paying. Rewards and costs are those of the outcome that happened. After `reset` (zeros) and after every step,
`info` holds

    cost         float          the sum of the costs
    costs        float64 [d]    each of them
    action_mask  int8 [A]       only if some action is missing somewhere: 1 for those that exist in the new state

always of these types, so that vector environments, which take the type of the first value, keep fractions.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from conrl._types import Bool, Float
from conrl.envs import render
from conrl.errors import SpecError, unknown
from conrl.model import ConstrainedMDP
from conrl.model.criteria import need_steps
from conrl.sampling import draw


class CMDPEnv(gymnasium.Env[Any, Any]):
    """A simulator of `mdp`; see the module's docstring for what `step` gives."""

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, mdp: ConstrainedMDP, render_mode: str | None = None) -> None:
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise SpecError(unknown("render mode", render_mode, modes))
        need_steps(mdp.horizon, "a Gymnasium environment")
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space = spaces.Discrete(mdp.num_states)
        self.action_space = spaces.Discrete(mdp.num_actions)
        self.cost_names = mdp.cost_names
        self._all_exist = mdp.all_exist
        self._state: int | None = None
        self._step = 0

    @property
    def cost_limits(self) -> Float:
        """[d]: the model's default limits; `inf` where there is none."""
        limits = self.mdp.limits
        return np.full(self.mdp.num_costs, np.inf) if limits is None else limits.copy()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        self._state = int(draw(self.mdp.initial, self.np_random.random()))
        return self._state, self._info(np.zeros(self.mdp.num_costs))

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if self._state is None or self._step >= self.mdp.horizon:
            over = f"the episode is over after {self.mdp.horizon} steps" if self._step else "no episode has begun"
            raise ResetNeeded(f"{over}; call reset()")
        graph = self.mdp.graph
        k = self._pair(self._state, action)
        lo, hi = graph.start[k], graph.start[k + 1]
        j = int(lo + draw(graph.probability[lo:hi], self.np_random.random()))
        pay = self.mdp.pay[k] if self.mdp.outcome_pay is None else self.mdp.outcome_pay[j]
        self._state = int(graph.successor[j])
        self._step += 1
        return self._state, float(pay[0]), False, self._step == self.mdp.horizon, self._info(pay[1:].copy())

    def render(self) -> str | NDArray[np.uint8] | None:
        if self.render_mode is None:
            gymnasium.logger.warn("render() was called without a render mode; pass render_mode='ansi' or 'rgb_array'")
            return None
        if self._state is None:
            raise ResetNeeded("no episode has begun; call reset()")
        if self.render_mode == "rgb_array":
            return render.picture(self.mdp, self._state)
        return f"step {self._step} of {self.mdp.horizon}, {render.text(self.mdp, self._state)}\n"

    def _pair(self, state: int, action: int) -> int:
        mdp = self.mdp
        if not self.action_space.contains(action):
            raise SpecError(f"action {action!r} is not a whole number in 0..{mdp.num_actions - 1}")
        pair = mdp.pair(self._step, state, action)
        if pair < 0:
            there = np.flatnonzero(self._there(state)).tolist()
            raise SpecError(
                f"action {mdp.action_name(int(action))!r} does not exist in state {mdp.state_name(state)!r}; "
                f'there are {", ".join(repr(mdp.action_name(a)) for a in there)} (see info["action_mask"])'
            )
        return pair

    def _there(self, state: int) -> Bool:
        """[A]: which actions exist now."""
        exists = self.mdp.playable
        return np.asarray(exists[min(self._step, exists.shape[0] - 1), state])

    def _info(self, costs: Float) -> dict[str, Any]:
        info: dict[str, Any] = {"cost": float(costs.sum()), "costs": costs}
        if not self._all_exist and self._state is not None:
            info["action_mask"] = self._there(self._state).astype(np.int8)
        return info


class BuiltInEnv(CMDPEnv):
    """The environment of a built-in model, by name: what Gymnasium's registry makes."""

    def __init__(self, model: str, render_mode: str | None = None, **parameters: Any) -> None:
        from conrl.envs.registry import make_built_in  # here: the registry's adapters import this class

        super().__init__(make_built_in(model, parameters), render_mode)

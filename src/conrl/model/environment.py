"""What a Gymnasium environment declares of itself, read in one place.

Spaces and a time limit are Gymnasium's own. The rest are attributes. Some innermost environments have `P`, lists of
outcomes by state and action, and `initial_state_distrib` (the toy-text ones) or `mdp` (ours). An environment or a
wrapper, of which the outermost counts, may have `cost_limits` and `cost_names` (those with costs), `pay_ranges`
[1+d, 2] (`conrl.envs.MultiObjective`) and `cells` (`conrl.discretize`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from conrl._types import Float
from conrl.arguments import is_int
from conrl.errors import ModelError, SpecError, shown
from conrl.model.cells import Cells
from conrl.model.mdp import ConstrainedMDP


@dataclass(frozen=True)
class Declared:
    """What an environment declares; None where it does not."""

    env: Any
    dynamics: Any  # P[state][action]: a list of (probability, next state, reward, terminated)
    initial: Any  # a distribution over states
    cost_limits: Any
    cost_names: tuple[str, ...] | None
    pay_ranges: Float | None  # [1+d, 2]: the least and the most that one step pays; infinite where it is not known
    mdp: ConstrainedMDP | None

    @property
    def horizon(self) -> int | None:
        """Steps of an episode: the least of the time limits in specifications, wrappers and the model behind them."""
        limits = [] if self.mdp is None else [self.mdp.horizon]
        for layer in _layers(self.env):
            limits += [getattr(layer.spec, "max_episode_steps", None), vars(layer).get("_max_episode_steps")]
        return min((int(limit) for limit in limits if is_int(limit)), default=None)

    @property
    def cells(self) -> Cells | None:
        """What the states are, where a wrapper has numbered continuous observations and no other has changed them."""
        cells = outermost(self.env, "cells")
        return cells if isinstance(cells, Cells) and cells.count == self.sizes[0] else None

    @property
    def names(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """Of states and actions, by the model behind it, where no wrapper changes what is seen or done; else None."""
        from gymnasium import ActionWrapper, ObservationWrapper  # here: whoever has an environment has it

        changed = any(isinstance(layer, ActionWrapper | ObservationWrapper) for layer in _layers(self.env))
        if self.mdp is None or changed or self.sizes != (self.mdp.num_states, self.mdp.num_actions):
            return None, None
        return self.mdp._names.states, self.mdp._names.actions

    @property
    def sizes(self) -> tuple[int | None, int | None]:
        """How many states and actions; None if they are not numbered from 0."""
        return discrete_size(self.env.observation_space), discrete_size(self.env.action_space)

    def need_sizes(self, of: str = "") -> tuple[int, int]:
        """How many states and actions, or a refusal; `of` says whose, where that is not clear."""
        states, actions = self.sizes
        if states is None or actions is None:
            what, space = ("action", self.env.action_space) if states else ("observation", self.env.observation_space)
            raise ModelError(
                f"the {what} space{of} is {' '.join(str(space).split())}; conrl needs Discrete(n) counting from 0: "
                f"{_remedy(what, space)}"
            )
        return states, actions


def declared(env: Any, needed: str = "a Gymnasium environment") -> Declared:
    """All that an environment declares; `needed` says what it should have been if it is none."""
    (inner,) = _attributes(env, "unwrapped")
    if inner is None:
        raise SpecError(f"expected {needed}, not {type(env).__name__}")
    dynamics, initial, model = _attributes(inner, "P", "initial_state_distrib", "mdp")
    cost_limits, names, ranges = (outermost(env, name) for name in ("cost_limits", "cost_names", "pay_ranges"))
    mdp = model if isinstance(model, ConstrainedMDP) else None
    if not isinstance(names, (tuple, list, type(None))) or not all(isinstance(name, str) for name in names or ()):
        raise SpecError(f"the environment has cost_names {shown(names)}; expected a list of names")
    dynamics = dynamics if _is_dynamics(dynamics) else None
    return Declared(env, dynamics, initial, cost_limits, None if names is None else tuple(names), ranges, mdp)


def _is_dynamics(P: Any) -> bool:
    """Whether P has lists of outcomes by state and action; arrays of another meaning are called so too."""

    def within(table: Any) -> Iterator[Any]:
        return iter(table.values() if isinstance(table, Mapping) else table)

    try:
        first = next((entry for actions in within(P) for entry in within(actions)), None)
    except TypeError:
        return False
    return isinstance(first, (list, tuple)) and all(isinstance(outcome, (list, tuple)) for outcome in first)


def discrete_size(space: Any) -> int | None:
    """The size n of a space Discrete(n) that counts from 0; None for any other space."""
    size, start = _attributes(space, "n", "start")
    return int(size) if is_int(size) and start == 0 else None


def outermost(env: Any, name: str) -> Any:
    """An attribute of the first layer that has it, from the outermost wrapper inwards; None if none has."""
    every = (getattr(layer, name, None) for layer in _layers(env))
    return next((found for found in every if found is not None), None)


def _layers(env: Any) -> Iterator[Any]:
    """The environment, then what each of its wrappers holds, from the outermost inwards."""
    while env is not env.unwrapped:
        yield env
        env = env.env
    yield env


def _remedy(what: str, space: Any) -> str:
    """How an environment with another space becomes one that fits."""
    (dtype,) = _attributes(space, "dtype")
    continuous = type(space).__name__ == "Box" and getattr(dtype, "kind", "") == "f"
    if continuous and what == "observation":
        return "conrl.discretize(env, bins=10) cuts it into cells"
    if continuous:
        return "choose some actions, and number them with a gymnasium.ActionWrapper"
    return "conrl.envs.Numbered(env) numbers what it observes and takes"


def _attributes(owner: Any, *names: str) -> list[Any]:
    """Those that it has; None for the others."""
    return [getattr(owner, name, None) for name in names]

"""Models read from Gymnasium environments.

The toy-text environments publish their dynamics as `env.unwrapped.P[state][action]`, a list of
(probability, next state, reward, terminated). `from_gymnasium` turns that into a `ConstrainedMDP`. The same next
state may be listed several times (slippery FrozenLake does); those probabilities add up.

A model here lasts H steps and has no termination: to terminate is to reach a state where nothing happens any more.
That is the state entered, if it is never entered otherwise and no episode starts there, so that the states keep their
numbers; else one more state, "end". Only states that an episode can reach count as entering: Taxi
has moves between states with a delivered passenger, but no episode ever gets there without having terminated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import float_array
from conrl.envs.gymnasium_env import CMDPEnv
from conrl.envs.toy_text import describe, refusal
from conrl.errors import ModelError, shown
from conrl.model import ConstrainedMDP
from conrl.model.layout import Layout

CostFunction = Callable[[int, int, int, float, bool], ArrayLike]


class Outcome(NamedTuple):
    state: int
    action: int
    probability: float
    successor: int
    reward: float
    terminated: bool


def from_gymnasium(
    env: gymnasium.Env[Any, Any] | str,
    cost: CostFunction | None = None,
    horizon: int | None = None,
    limits: ArrayLike | None = None,
    cost_names: Sequence[str] | None = None,
    *,
    initial: int | ArrayLike | None = None,
) -> ConstrainedMDP:
    """The model of a Gymnasium environment that publishes its dynamics as `env.unwrapped.P`.

    Args:
        env: the environment, or the id to make it from.
        cost: `cost(s, a, next_s, reward, terminated)`, a number or d of them; none by default (d = 0).
        horizon: number of steps; by default the environment's time limit, which not all of them have.
        limits, cost_names: as in `ConstrainedMDP`.
        initial: a state or a distribution; by default the environment's `initial_state_distrib`.
    """
    if isinstance(env, str):
        try:
            made = gymnasium.make(env)
        except gymnasium.error.Error as error:
            raise ModelError(f"Gymnasium makes no environment {env!r}: {error}") from None
        try:
            return from_gymnasium(made, cost, horizon, limits, cost_names, initial=initial)
        finally:
            made.close()
    if not isinstance(env, gymnasium.Env):
        raise ModelError(f"from_gymnasium needs an environment or its id, not {type(env).__name__}")
    if cost is not None and not callable(cost):
        raise ModelError(f"cost is {shown(cost)}; it must be a function of (s, a, next_s, reward, terminated)")
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    _refuse_wrappers(env, name)
    inner: Any = env.unwrapped
    if isinstance(inner, CMDPEnv):
        if cost is not None or cost_names is not None:
            raise ModelError(f"{name} has costs of its own; leave cost= and cost_names= out")
        return inner.mdp.replace(horizon=horizon, initial=initial, limits=limits)
    num_states, num_actions = _sizes(env, name)
    outcomes = _outcomes(inner, name, num_states, num_actions)
    steps = horizon if horizon is not None else getattr(env.spec, "max_episode_steps", None)
    if steps is None:
        raise ModelError(f"{name} states no time limit; give a horizon", key=("horizon",))
    start = _start(inner, name, num_states, initial)
    ends = {o.successor for o in outcomes if o.terminated}
    state_names, action_names, layout = describe(inner)
    if not ends.isdisjoint(_entered(outcomes, start)):
        end = num_states
        outcomes = [o._replace(successor=end) if o.terminated else o for o in outcomes]
        ends = {end}
        num_states += 1
        start = np.append(start, 0.0)
        state_names = [*(state_names or map(str, range(end))), "end"]
        layout = layout and Layout(layout.rows, np.append(layout.cell, -1), layout.arrows)
    outcomes = [o for o in outcomes if o.state not in ends]
    pay = _pay(outcomes, cost)
    outcomes += [Outcome(s, a, 1.0, s, 0.0, True) for s in sorted(ends) for a in range(num_actions)]
    return ConstrainedMDP.from_outcomes(
        [o.state for o in outcomes],
        [o.action for o in outcomes],
        [o.successor for o in outcomes],
        [o.probability for o in outcomes],
        np.concatenate([pay, np.zeros((len(outcomes) - len(pay), pay.shape[1]))]),
        num_states=num_states,
        num_actions=num_actions,
        horizon=steps,
        initial=start,
        limits=limits,
        state_names=state_names,
        action_names=action_names,
        cost_names=cost_names,
        layout=layout,
    )


def _refuse_wrappers(env: gymnasium.Env[Any, Any], name: str) -> None:
    """`P` is that of the innermost environment: a wrapper that changes what is seen or paid would be lost."""
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, (gymnasium.ObservationWrapper, gymnasium.ActionWrapper, gymnasium.RewardWrapper)):
            raise ModelError(
                f"{name} is wrapped in {type(layer).__name__}, which its dynamics `P` know nothing of; "
                "pass the environment without it, and put what it does into cost= or into the model"
            )
        layer = layer.env


def _sizes(env: gymnasium.Env[Any, Any], name: str) -> tuple[int, int]:
    sizes = []
    for what, space in (("observation", env.observation_space), ("action", env.action_space)):
        if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
            raise ModelError(f"the {what} space of {name} is {space}; conrl needs Discrete(n) counting from 0")
        sizes.append(int(space.n))
    return sizes[0], sizes[1]


def _outcomes(inner: Any, name: str, num_states: int, num_actions: int) -> list[Outcome]:
    table = getattr(inner, "P", None)
    if table is None:
        raise ModelError(
            f"{name} does not publish its dynamics (there is no env.unwrapped.P); "
            "learn it with conrl.learn, or write the model as a ConstrainedMDP"
        )
    reason = refusal(inner)
    if reason is not None:
        raise ModelError(f"{name}: {reason}")
    found = []
    try:
        for s in range(num_states):
            pairs = table[s]
            for a in range(num_actions) if not hasattr(pairs, "keys") else sorted(pairs):
                for p, t, reward, terminated in pairs[a]:
                    if p != 0.0:
                        found.append(Outcome(s, int(a), float(p), int(t), float(reward), bool(terminated)))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ModelError(
            f"{name}: P does not hold lists of (probability, next state, reward, terminated) "
            f"by state and action: {error!r}"
        ) from error
    return found


def _start(inner: Any, name: str, num_states: int, initial: int | ArrayLike | None) -> Float:
    given = getattr(inner, "initial_state_distrib", None) if initial is None else initial
    if given is None:
        raise ModelError(f"{name} does not say where an episode starts (no initial_state_distrib); pass initial=")
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool) and 0 <= given < num_states:
        return np.asarray(np.arange(num_states) == given, dtype=np.float64)
    start = float_array(given, "initial")
    if start.shape != (num_states,):
        raise ModelError(
            f"initial is {shown(given)}; it must be a state in 0..{num_states - 1} or a distribution [{num_states}]"
        )
    return start


def _entered(outcomes: Sequence[Outcome], start: Float) -> set[int]:
    """The states in which an episode can be without having terminated."""
    onward: dict[int, set[int]] = {}
    for o in outcomes:
        if not o.terminated:
            onward.setdefault(o.state, set()).add(o.successor)
    entered = {int(s) for s in np.flatnonzero(start)}
    frontier = list(entered)
    while frontier:
        new = onward.get(frontier.pop(), set()) - entered
        entered |= new
        frontier += new
    return entered


def _pay(outcomes: Sequence[Outcome], cost: CostFunction | None) -> Float:
    """[n, 1+d]: the reward, then what `cost` says."""
    rewards = np.array([o.reward for o in outcomes])[:, None]
    if cost is None:
        return rewards
    rows: list[Float] = []
    for o in outcomes:
        arguments = (o.state, o.action, o.successor, o.reward, o.terminated)
        row = _numbers(cost(*arguments))
        if row is None or (rows and row.shape != rows[0].shape):
            said = f"{rows[0].size} numbers, as it first did" if rows else "a number or a list of them"
            raise ModelError(f"cost{arguments} is {shown(cost(*arguments))}; it must be {said}")
        rows.append(row)
    return np.concatenate([rewards, np.stack(rows)], axis=1) if rows else rewards


def _numbers(value: ArrayLike) -> Float | None:
    try:
        row = np.atleast_1d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        return None
    return row if row.ndim == 1 else None

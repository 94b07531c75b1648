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

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import wrappers
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import is_masked, takes
from conrl.envs.gymnasium_env import CMDPEnv
from conrl.envs.stepping import costs_of
from conrl.envs.toy_text import describe, refusal
from conrl.errors import ModelError, RunError, shown
from conrl.model import ConstrainedMDP
from conrl.model.environment import Declared, declared
from conrl.model.layout import Layout
from conrl.model.reading import default_cost_names, read_initial
from conrl.wording import counted

PASSING = (  # wrappers that change neither what is seen nor what is paid
    wrappers.TimeLimit,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
    wrappers.RenderCollection,
    wrappers.HumanRendering,
)

CostFunction = Callable[[int, int, int, float, bool], ArrayLike]


class Outcome(NamedTuple):
    """An entry of `P`."""

    state: int
    action: int
    probability: float
    successor: int
    reward: float
    terminated: bool


class _Process(NamedTuple):
    """What an environment publishes of its dynamics, and what is known of its states and actions."""

    outcomes: list[Outcome]
    start: Float  # [S]
    num_actions: int
    state_names: list[str] | None
    action_names: tuple[str, ...] | None
    layout: Layout | None


def from_gymnasium(
    env: gymnasium.Env[Any, Any] | str,
    cost: CostFunction | None = None,
    horizon: int | None = None,
    limits: ArrayLike | Mapping[str, float] | None = None,
    cost_names: Sequence[str] | None = None,
    *,
    initial: int | ArrayLike | None = None,
) -> ConstrainedMDP:
    """The model of a Gymnasium environment that publishes its dynamics as `env.unwrapped.P`.

    Args:
        env: the environment, or the id to make it from.
        cost: `cost(s, a, next_s, reward, terminated)`, a number or d of them; none by default (d = 0).
        horizon: number of steps; by default the environment's time limit, the least of several, which not all have.
        limits, cost_names: as in `ConstrainedMDP`; without `cost_names`, a mapping of limits names the costs, in order.
        initial: a state or a distribution; by default the environment's `initial_state_distrib`.
    """
    if isinstance(env, str):
        with closing(_made(env)) as made:
            return from_gymnasium(made, cost, horizon, limits, cost_names, initial=initial)
    if not isinstance(env, gymnasium.Env):
        raise ModelError(f"from_gymnasium needs an environment or its id, not {type(env).__name__}")
    if cost is not None and not (callable(cost) and takes(cost, 5)):
        raise ModelError(
            f"cost is {shown(cost)}; it must be a function of (s, a, next_s, reward, terminated): a table has no info"
        )
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    _refuse_wrappers(env, name)
    own = declared(env)
    steps = own.horizon if horizon is None else horizon
    if isinstance(env.unwrapped, CMDPEnv):
        if cost is not None or cost_names is not None:
            raise ModelError(f"{name} has costs of its own; leave cost= and cost_names= out")
        return env.unwrapped.mdp.replace(horizon=steps, initial=initial, limits=limits)
    published = _published(own, name, initial)
    process, ends = _with_ends(published)
    if steps is None:
        raise ModelError(f"{name} states no time limit; give a horizon", key=("horizon",))
    moves = [o for o in process.outcomes if o.state not in ends]
    stays = [Outcome(s, a, 1.0, s, 0.0, True) for s in sorted(ends) for a in range(process.num_actions)]
    pay = _pay([o for o in published.outcomes if o.state not in ends], cost)  # the state that the environment tells
    outcomes = moves + stays
    return ConstrainedMDP.from_outcomes(
        [o.state for o in outcomes],
        [o.action for o in outcomes],
        [o.successor for o in outcomes],
        [o.probability for o in outcomes],
        np.concatenate([pay, np.zeros((len(stays), pay.shape[1]))]),
        num_states=process.start.size,
        num_actions=process.num_actions,
        horizon=steps,
        initial=process.start,
        limits=limits,
        state_names=process.state_names,
        action_names=process.action_names,
        cost_names=_names(limits, pay.shape[1] - 1) if cost_names is None else cost_names,
        layout=process.layout,
    )


def _names(limits: Any, count: int) -> tuple[str, ...] | None:
    """What so many costs are called by a mapping of limits; None where it calls them nothing of its own."""
    if not isinstance(limits, Mapping) or set(limits) <= set(default_cost_names(count)):
        return None
    if len(limits) != count:
        raise ModelError(
            f"limits names {counted(len(limits), 'cost')} and there are {count}; say what all are called, in their "
            "order, with cost_names=",
            key=("limits",),
        )
    return tuple(limits)


def _made(env_id: str) -> gymnasium.Env[Any, Any]:
    try:
        return gymnasium.make(env_id)
    except gymnasium.error.Error as error:
        raise ModelError(f"Gymnasium cannot make {env_id!r}: {error}") from None


def _refuse_wrappers(env: gymnasium.Env[Any, Any], name: str) -> None:
    """`P` is that of the innermost environment: a wrapper that changes what is seen or paid would be lost."""
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        kind = type(layer)
        same = kind.step is gymnasium.Wrapper.step and kind.reset is gymnasium.Wrapper.reset
        if not same and kind not in PASSING:
            raise ModelError(
                f"{name} is wrapped in {kind.__name__}, which its dynamics `P` know nothing of; "
                "pass the environment without it, and put what it does into cost= or into the model"
            )
        layer = layer.env


def _published(own: Declared, name: str, initial: int | ArrayLike | None) -> _Process:
    """What an environment says of its dynamics; refused where that is not all of it."""
    num_states, num_actions = own.need_sizes(f" of {name}")
    outcomes = _outcomes(own, name, num_states, num_actions)
    start = own.initial if initial is None else initial
    if start is None:
        raise ModelError(f"{name} does not say where an episode starts (no initial_state_distrib); pass initial=")
    state_names, action_names, layout = describe(own.env.unwrapped)
    return _Process(outcomes, read_initial(start, num_states), num_actions, state_names, action_names, layout)


def _outcomes(own: Declared, name: str, num_states: int, num_actions: int) -> list[Outcome]:
    """Those of `P` that have a probability, state by state."""
    if own.dynamics is None:
        raise ModelError(
            f"{name} does not publish its dynamics (there is no env.unwrapped.P that lists outcomes); "
            "learn it with conrl.learn, or write the model as a ConstrainedMDP"
        )
    reason = refusal(own.env.unwrapped)
    if reason is not None:
        raise ModelError(f"{name}: {reason}")
    outcomes = []
    try:
        for s in range(num_states):
            pairs = own.dynamics[s]
            for a in sorted(pairs) if isinstance(pairs, Mapping) else range(num_actions):
                for p, t, reward, terminated in pairs[a]:
                    if any(map(is_masked, (p, t, reward, terminated))):
                        raise TypeError("a masked number is none")
                    if p != 0.0:
                        outcomes.append(Outcome(s, int(a), float(p), int(t), float(reward), bool(terminated)))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise ModelError(
            f"{name}: P does not hold lists of (probability, next state, reward, terminated) "
            f"by state and action: {error!r}"
        ) from error
    return outcomes


def _with_ends(process: _Process) -> tuple[_Process, set[int]]:
    """The states where nothing happens any more, once termination leads only to such; "end" is added if need be."""
    ends = {o.successor for o in process.outcomes if o.terminated}
    if ends.isdisjoint(_entered(process.outcomes, process.start)):
        return process, ends
    end, layout = process.start.size, process.layout
    process = process._replace(
        outcomes=[o._replace(successor=end) if o.terminated else o for o in process.outcomes],
        start=np.append(process.start, 0.0),
        state_names=[*(process.state_names or map(str, range(end))), "end"],
        layout=layout and Layout(layout.rows, np.append(layout.cell, -1), layout.arrows),
    )
    return process, {end}


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
        given = cost(*arguments)
        try:
            rows.append(costs_of(given, rows[0].size if rows else None))
        except RunError:
            expected = f"finite numbers, {rows[0].size} as the first time" if rows else "a finite number or a list"
            raise ModelError(f"cost{arguments} is {shown(given)}; it must be {expected}") from None
    return np.concatenate([rewards, np.stack(rows)], axis=1) if rows else rewards

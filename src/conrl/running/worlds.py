"""Where episodes are played: a known model, sampled, or any Gymnasium environment with discrete spaces.

The randomness of an episode depends on the seed and the number of the episode alone: episode k of a run that was
interrupted is that of one that was not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Array, Float
from conrl.envs.stepping import Step, cost_told, costs_in, costs_of, play, wants_info
from conrl.episode import Episode
from conrl.errors import ModelError, RunError, SpecError, shown
from conrl.evaluation import expected_totals
from conrl.foreign import theirs
from conrl.learners.budget import sum_up
from conrl.mixture import Mixture, parts_of
from conrl.model import ConstrainedMDP, Task
from conrl.model.environment import discrete_size, outermost
from conrl.policy import Deterministic, Null, Policy, SparsePolicy
from conrl.sampling import UNBOUND, Dynamics, Room, draw
from conrl.spending import Player

if TYPE_CHECKING:
    import gymnasium


# (generator, state, action, next state, mean [1+d]) -> what the step pays [1+d]
Sampler = Callable[[np.random.Generator, int, int, int, Float], ArrayLike]
ROUNDING = 1e-12


class World(Protocol):
    """Where a policy can be played."""

    def play(self, policy: Policy, generator: np.random.Generator, room: Room = UNBOUND) -> Episode:
        """One episode; before each step it must be certain that it stays within `room`, else it is stopped."""

    def value(self, policy: Policy | Mixture) -> Float | None:
        """[1+d]: the exact value of a policy, or None if it cannot be known."""


class Meter:
    """What an episode has cost so far, rounded up, against the room that it has."""

    def __init__(self, room: Room) -> None:
        self._left, self._worst = room
        self._spent = np.zeros(self._left.size)

    def may_step(self) -> bool:
        """Whether it is certain that one more step fits."""
        return not (sum_up(self._spent, self._worst) > self._left).any()

    def add(self, costs: Float) -> None:
        """A step cost [d]; without a bound nothing is counted."""
        self._spent = sum_up(self._spent, costs[: self._spent.size])


class ModelWorld:
    """A model, sampled.

    Args:
        mdp: the model.
        task: whose ranges Bernoulli draws take; by default the model's own.
        pay: `"outcome"`: what the model says of the outcome, or of the pair if it says no more; `"bernoulli"`: the
            reward and each cost, independently, are at the top or the bottom of their range, with that mean; or a
            function (generator, state, action, next state, mean) that draws all of them, correlated as it likes.

    Bernoulli draws need the range of what one step pays. Means alone do not tell it: pairs with means 0.4 and 0.6,
    drawn from 0.4 or 0.6, would always pay their means. So declare the range in the task or the model. If the means
    reach from 0 to 1, that is the range.
    """

    def __init__(self, mdp: ConstrainedMDP, task: Task | None = None, pay: str | Sampler = "outcome") -> None:
        """Refuse Bernoulli draws if their range was never declared, or if a mean lies outside it."""
        if not callable(pay) and not (isinstance(pay, str) and pay in ("outcome", "bernoulli")):
            raise SpecError(f"pay is {shown(pay)}; it must be 'outcome', 'bernoulli' or a function", key=("pay",))
        self.mdp = mdp
        self._pay = pay
        self.dynamics = Dynamics(mdp)
        self._checked: WeakSet[Policy] = WeakSet()
        self._values: WeakKeyDictionary[Policy | Mixture, Float] = WeakKeyDictionary()
        ranges = (task or mdp.task).ranges
        if pay == "bernoulli":
            for i in undeclared(mdp, ranges):
                name, key = _coordinate(mdp, i)
                raise SpecError(
                    f"pay='bernoulli': only the means of {name} are known, {ranges[i, 0]:g} to {ranges[i, 1]:g}; "
                    f"declare what one step pays: mdp = mdp.replace({key[0]}=...), and make the learner with mdp.task",
                    key=key,
                )
        self._low, self._high = ranges.T
        near = ROUNDING * np.maximum(1.0, np.abs(ranges).max(axis=1))  # means are sums: they round
        if pay == "bernoulli" and not ((self._low - near <= mdp.pay) & (mdp.pay <= self._high + near)).all():
            raise SpecError("pay='bernoulli': a mean lies outside the task's ranges", key=("pay",))

    def value(self, policy: Policy | Mixture) -> Float:
        """The exact value, computed once for each policy: learners report the same one again and again."""
        value = self._values.get(policy)
        if value is None:
            parts = parts_of(policy)
            for part in parts:
                self._check(part.policy)
            value = self._values[policy] = expected_totals(self.mdp, parts)
        return value

    def play(self, policy: Policy, generator: np.random.Generator, room: Room = UNBOUND) -> Episode:
        mdp = self.mdp
        if isinstance(policy, Null):
            return Episode.null(mdp.num_costs)
        self._check(policy)
        if policy.acts_on_spent or isinstance(policy, SparsePolicy):
            return self._play_steps(policy, generator, room)
        H = mdp.horizon
        uniform = generator.random((H + 1, 2))
        table = policy.actions[:, :, None] if isinstance(policy, Deterministic) else policy.probabilities
        drawn = self._pay != "outcome"
        within = UNBOUND if drawn else room
        states, actions, pay, played = self.dynamics.rollout(table, self.dynamics.pay, uniform, within)
        if drawn:
            played = self._draw_pay(generator, states, actions, pay, room)
        stopped = played < H
        return Episode._of(states[: played + 1], actions[:played], pay[:played], stopped=stopped)

    def _play_steps(self, policy: Policy, generator: np.random.Generator, room: Room) -> Episode:
        """One episode, step by step: of a policy that acts on what was spent, or that has no table of all steps."""
        mdp, dynamics = self.mdp, self.dynamics
        player, meter = Player(policy, generator), Meter(room)
        states = [int(draw(mdp.initial, generator.random()))]
        actions: list[int] = []
        paid: list[Float] = []
        while len(actions) < mdp.horizon and meter.may_step():
            h, s = len(actions), states[-1]
            a = player.act(h, s)
            k = mdp.pair(h, s, a)
            begin, end = int(mdp.graph.start[k]), int(mdp.graph.start[k + 1])
            j = begin + int(draw(mdp.graph.probability[begin:end], generator.random()))
            states.append(int(mdp.graph.successor[j]))
            pay = dynamics.pay[j if dynamics.by_outcome else k]
            if self._pay != "outcome":
                pay = np.asarray(self._draw(generator, h, s, a, states[-1]), dtype=np.float64)
            player.pay(pay[1:])
            meter.add(pay[1:])
            actions.append(a)
            paid.append(pay)
        return Episode._of(
            np.array(states, dtype=np.int64),
            np.array(actions, dtype=np.int64),
            np.array(paid, dtype=np.float64).reshape(len(actions), 1 + mdp.num_costs),
            stopped=len(actions) < mdp.horizon,
        )

    def _check(self, policy: Policy) -> None:
        """Refuse a policy that does not fit the model; each is looked at once."""
        if policy not in self._checked:
            policy.check(self.mdp)
            self._checked.add(policy)

    def _draw_pay(self, generator: np.random.Generator, states: Array, actions: Array, pay: Float, room: Room) -> int:
        """Draw what each step pays instead, until one more step might not fit."""
        meter = Meter(room)
        for h in range(actions.size):
            if not meter.may_step():
                return h
            pay[h] = self._draw(generator, h, int(states[h]), int(actions[h]), int(states[h + 1]))
            meter.add(pay[h, 1:])
        return int(actions.size)

    def _draw(self, generator: np.random.Generator, step: int, state: int, action: int, successor: int) -> ArrayLike:
        mean = self.mdp.pay[self.mdp.pair(step, state, action)]
        if callable(self._pay):
            with theirs("the sampler failed", SpecError, ("pay",)):
                paid = self._pay(generator, state, action, successor, mean.copy())
            try:
                drawn = np.asarray(paid, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise SpecError(f"the sampler did not return numbers: {error}") from None
            if drawn.shape != mean.shape:
                raise SpecError(f"the sampler gave shape {drawn.shape}; expected reward and costs, {mean.shape}")
            return drawn
        spread = self._high - self._low
        chance = np.divide(mean - self._low, spread, out=np.zeros(mean.size), where=spread > 0.0)
        return np.asarray(np.where(generator.random(mean.size) < chance, self._high, self._low))


def undeclared(mdp: ConstrainedMDP, ranges: Float) -> list[int]:
    """The coordinates (0: reward) for which nobody said what one step pays: `ranges` [1+d, 2] are those of the means.

    We know what varies by outcome, what the model declares, and any range that differs from that of the means, as
    somebody must have given it. If the means reach from 0 to 1, each step can only be a coin flip between 0 and 1.
    """
    means = np.column_stack(mdp._realised())
    coin = np.isin(means, (0.0, 1.0)).all(axis=1)
    unknown = (means == ranges).all(axis=1) & ~coin & ~mdp.varies
    if mdp._ranges is not None:
        unknown &= np.isnan(mdp._ranges[:, 0])
    return [int(i) for i in np.flatnonzero(unknown)]


def with_coins(mdp: ConstrainedMDP) -> ConstrainedMDP:
    """The model with [0, 1] declared as the range of what is undeclared; refused where a mean lies outside."""
    ranges = mdp.task.ranges
    declared: dict[int, tuple[float, float]] = {}
    for i in undeclared(mdp, ranges):
        if ranges[i, 0] < 0.0 or ranges[i, 1] > 1.0:
            name, key = _coordinate(mdp, i)
            raise SpecError(
                f"pay 'bernoulli': the means of {name} reach from {ranges[i, 0]:g} to {ranges[i, 1]:g}; "
                f"declare the least and the most that one step pays, with {key[0]}",
                key=key,
            )
        declared[i] = (0.0, 1.0)
    return mdp.replace(
        reward_range=declared.get(0), cost_ranges={name: declared.get(1 + i) for i, name in enumerate(mdp.cost_names)}
    )


def _coordinate(mdp: ConstrainedMDP, i: int) -> tuple[str, tuple[str, ...]]:
    """What to call it, and the key of the argument that declares its range."""
    if i == 0:
        return "the reward", ("reward_range",)
    return f"cost {mdp.cost_names[i - 1]!r}", ("cost_ranges", mdp.cost_names[i - 1])


class GymnasiumWorld:
    """A Gymnasium environment with discrete spaces.

    Args:
        env: the environment. An episode is seeded through `reset(seed=...)`.
        task: what the learner knows of it.
        cost: a function (state, action, next state, reward, terminated) of the costs of a step, or of these and `info`
            if it needs a sixth argument; by default `info["costs"]`, else `info["cost"]`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], task: Task, cost: Callable[..., ArrayLike] | None = None) -> None:
        self.env = env
        self.task = task
        self._cost = cost
        self._with_info = cost is not None and wants_info(cost)
        for name, space, size in (
            ("observation", env.observation_space, task.num_states),
            ("action", env.action_space, task.num_actions),
        ):
            if discrete_size(space) != size:
                raise ModelError(f"the {name} space is {space}; the task needs Discrete({size}) counting from 0")
        cells = outermost(env, "cells")
        if cells is not None and task.cells is not None and cells != task.cells:
            raise ModelError("the environment has other cells than the task; make it with Discretized(env, task.cells)")

    def value(self, policy: Policy | Mixture) -> None:
        return None

    def play(self, policy: Policy, generator: np.random.Generator, room: Room = UNBOUND) -> Episode:
        """Seeded by the generator, which also draws the actions."""
        task = self.task
        if isinstance(policy, Null):
            return Episode.null(task.num_costs)
        meter, player = Meter(room), Player(policy, generator)

        def costs(step: Step, _: int | None) -> Float:
            paid = self._costs(step)
            meter.add(paid)
            player.pay(paid)
            return paid

        seed = int(generator.integers(2**31))
        states, actions, pay, terminated, truncated = play(
            self.env, player.act, task.horizon, seed, costs, meter.may_step
        )
        L = len(actions)
        if truncated and not terminated and task.horizon > L:
            raise RunError(
                f"the environment ended an episode after {L} steps without terminating; "
                f"the task has {task.horizon}. Make the task with horizon={L}"
            )
        return Episode._of(
            np.array(states, dtype=np.int64),
            np.array(actions, dtype=np.int64),
            np.array(pay).reshape(L, 1 + task.num_costs),
            terminated=terminated,
            stopped=task.horizon > L and not terminated,
        )

    def _costs(self, step: Step) -> Float:
        d = self.task.num_costs
        if self._cost is not None:
            given = cost_told(self._cost, self._with_info, step)
        else:
            given = costs_in(step.info)
            if given is None and d:
                raise RunError('the environment gives neither info["costs"] nor info["cost"]; pass cost=function')
        return costs_of(given, d) if d else np.zeros(0)

"""Where episodes are played: a known model, sampled, or any Gymnasium environment with discrete spaces.

The randomness of an episode depends on the seed and the number of the episode alone: episode k of a run that was
interrupted is that of one that was not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Array, Float
from conrl.envs.stepping import answer_of, costs_in, costs_of, reward_of, state_of
from conrl.episode import Episode
from conrl.errors import ModelError, RunError, SpecError, shown
from conrl.evaluation import evaluate
from conrl.learners.budget import sum_up
from conrl.model import ConstrainedMDP, Task
from conrl.policy import Deterministic, Mixture, Null, Policy
from conrl.sampling import Dynamics

if TYPE_CHECKING:
    import gymnasium


# (generator, state, action, next state, mean [1+d]) -> what the step pays [1+d]
Sampler = Callable[[np.random.Generator, int, int, int, Float], ArrayLike]
Room = tuple[Float, Float]  # what one episode may cost, and what one step can, [d] each; empty for no bound
ROUNDING = 1e-12
NO_ROOM_NEEDED: Room = (np.zeros(0), np.zeros(0))


class World(Protocol):
    """Where a policy can be played."""

    def play(self, policy: Policy, generator: np.random.Generator, room: Room = NO_ROOM_NEEDED) -> Episode:
        """One episode; before each step it must be certain that it stays within `room`, else it is stopped."""
        ...

    def value(self, policy: Policy | Mixture) -> Float | None:
        """[1+d]: the exact value of a policy, or None if it cannot be known."""
        ...


class ModelWorld:
    """A model, sampled.

    Args:
        mdp: the model.
        task: whose ranges Bernoulli draws take; by default the model's own.
        pay: `"outcome"`: what the model says of the outcome, or of the pair if it says no more; `"bernoulli"`: the
            reward and each cost, independently, are at the top or the bottom of their range, with that mean; or a
            function (generator, state, action, next state, mean) that draws all of them, correlated as it likes.

    Bernoulli draws need the range of what one step pays. A model of means does not tell it: pairs with means 0.4 and
    0.6, drawn from 0.4 or 0.6, would pay their means and nothing else. So it is to be declared, in the task or the
    model; means that reach from 0 to 1 are their own declaration.
    """

    def __init__(self, mdp: ConstrainedMDP, task: Task | None = None, pay: str | Sampler = "outcome") -> None:
        if not callable(pay) and not (isinstance(pay, str) and pay in ("outcome", "bernoulli")):
            raise SpecError(f"pay is {shown(pay)}; it must be 'outcome', 'bernoulli' or a function")
        self.mdp = mdp
        self._pay = pay
        self._dynamics = Dynamics(mdp)
        self._values: WeakKeyDictionary[Policy | Mixture, Float] = WeakKeyDictionary()
        self._paid = mdp.pay if mdp.outcome_pay is None else mdp.outcome_pay
        ranges = (task or mdp.task).ranges
        if pay == "bernoulli":
            for i in undeclared(mdp, ranges):
                name, argument = _coordinate(mdp, i)
                raise SpecError(
                    f"pay='bernoulli': of {name} only the means are known, {ranges[i, 0]:g} to {ranges[i, 1]:g}; "
                    f"declare what one step pays: mdp = mdp.replace({argument}=...), and make the learner with mdp.task"
                )
        self._low, self._high = ranges.T
        room = ROUNDING * np.maximum(1.0, np.abs(ranges).max(axis=1))  # means are sums: they round
        if pay == "bernoulli" and not ((self._low - room <= mdp.pay) & (mdp.pay <= self._high + room)).all():
            raise SpecError("pay='bernoulli': a mean lies outside the task's ranges")

    def value(self, policy: Policy | Mixture) -> Float:
        """Of one that is asked for again and again, as learners report theirs, computed once."""
        if policy not in self._values:
            found = evaluate(self.mdp, policy)
            self._values[policy] = np.append(found.reward, found.costs)
        return self._values[policy]

    def play(self, policy: Policy, generator: np.random.Generator, room: Room = NO_ROOM_NEEDED) -> Episode:
        mdp = self.mdp
        if isinstance(policy, Null):
            return Episode.null(mdp.num_costs)
        policy.check(mdp)
        H = mdp.horizon
        uniform = generator.random((H + 1, 2))
        table = policy.actions[:, :, None] if isinstance(policy, Deterministic) else policy.probabilities
        drawn = self._pay != "outcome"
        left, worst = NO_ROOM_NEEDED if drawn else room
        deterministic = isinstance(policy, Deterministic)
        states, actions, pay, played = self._dynamics.rollout(
            table, self._paid, uniform, deterministic=deterministic, left=left, worst=worst
        )
        if drawn:
            played = self._draw_pay(generator, states, actions, pay, room)
        stopped = played < H
        return Episode._of(states[: played + 1], actions[:played], pay[:played], stopped=stopped)

    def _draw_pay(self, generator: np.random.Generator, states: Array, actions: Array, pay: Float, room: Room) -> int:
        """Draw what each step pays instead, until the room is used up."""
        left, worst = room
        spent = np.zeros(left.size)
        for h in range(actions.size):
            if (sum_up(spent, worst) > left).any():
                return h
            pay[h] = self._draw(generator, int(states[h]), int(actions[h]), int(states[h + 1]))
            spent = sum_up(spent, pay[h, 1 : 1 + left.size])
        return int(actions.size)

    def _draw(self, generator: np.random.Generator, state: int, action: int, successor: int) -> ArrayLike:
        mean = self.mdp.pay[self.mdp.pair_index[state, action]]
        if callable(self._pay):
            try:
                drawn = np.asarray(self._pay(generator, state, action, successor, mean.copy()), dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise SpecError(f"the sampler gave what are no numbers: {error}") from None
            if drawn.shape != mean.shape:
                raise SpecError(f"the sampler gave shape {drawn.shape}; expected reward and costs, {mean.shape}")
            return drawn
        spread = self._high - self._low
        chance = np.divide(mean - self._low, spread, out=np.zeros(mean.size), where=spread > 0.0)
        return np.asarray(np.where(generator.random(mean.size) < chance, self._high, self._low))


def undeclared(mdp: ConstrainedMDP, ranges: Float) -> list[int]:
    """The coordinates (0: reward) of which nobody said what one step pays: `ranges` [1+d, 2] are those of the means.

    Known is what varies by outcome, what was declared of the model, and ranges that differ from those of the means:
    somebody must have given them. What pays from 0 to 1 in the mean can only be a coin of 0 and 1.
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
    found: dict[int, tuple[float, float]] = {}
    for i in undeclared(mdp, ranges):
        if ranges[i, 0] < 0.0 or ranges[i, 1] > 1.0:
            name, argument = _coordinate(mdp, i)
            raise SpecError(
                f"pay 'bernoulli': the means of {name} reach from {ranges[i, 0]:g} to {ranges[i, 1]:g}; "
                f"declare the least and the most that one step pays, with {argument}"
            )
        found[i] = (0.0, 1.0)
    return mdp.replace(
        reward_range=found.get(0), cost_ranges={name: found.get(1 + i) for i, name in enumerate(mdp.cost_names)}
    )


def _coordinate(mdp: ConstrainedMDP, i: int) -> tuple[str, str]:
    """What to call it, and the argument that declares its range."""
    if i == 0:
        return "the reward", "reward_range (--reward-range LOW,HIGH)"
    return f"cost {mdp.cost_names[i - 1]!r}", "cost_ranges (--cost-range NAME=LOW,HIGH)"


class GymnasiumWorld:
    """A Gymnasium environment with discrete spaces.

    Args:
        env: the environment. An episode is seeded through `reset(seed=...)`.
        task: what the learner knows of it.
        cost: a function (state, action, next state, reward, terminated) of the costs of a step, or of these and `info`;
            by default `info["costs"]`, else `info["cost"]`.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], task: Task, cost: Callable[..., ArrayLike] | None = None) -> None:
        self.env = env
        self.task = task
        self._cost = cost
        self._with_info = cost is not None and _takes(cost, 6)
        for name, space, size in (
            ("observation", env.observation_space, task.num_states),
            ("action", env.action_space, task.num_actions),
        ):
            if getattr(space, "n", None) != size or int(getattr(space, "start", 0)) != 0:
                raise ModelError(f"the {name} space is {space}; the task needs Discrete({size}) counting from 0")

    def value(self, policy: Policy | Mixture) -> None:
        return None

    def play(self, policy: Policy, generator: np.random.Generator, room: Room = NO_ROOM_NEEDED) -> Episode:
        task = self.task
        if isinstance(policy, Null):
            return Episode.null(task.num_costs)
        left, worst = room
        spent = np.zeros(left.size)
        state = state_of(self.env, answer_of("reset", self.env.reset(seed=int(generator.integers(2**31))), 2)[0])
        states, actions, pay = [state], [], []
        terminated = stopped = False
        for h in range(task.horizon):
            if (sum_up(spent, worst) > left).any():
                stopped = True
                break
            action = policy.act(h, state, generator)
            observation, given, terminated, truncated, info = answer_of("step", self.env.step(action), 5)
            successor = state_of(self.env, observation)
            reward = reward_of(given)
            costs = self._costs(state, action, successor, reward, bool(terminated), info)
            actions.append(action)
            states.append(successor)
            pay.append([reward, *costs])
            spent = sum_up(spent, costs[: left.size])
            state = successor
            if terminated:
                break
            if truncated and h + 1 < task.horizon:
                raise RunError(
                    f"the environment ended an episode after {h + 1} steps without terminating; "
                    f"the task has {task.horizon}. Make the task with horizon={h + 1}"
                )
        table = np.array(pay, dtype=np.float64).reshape(len(actions), 1 + task.num_costs)
        return Episode._of(
            np.array(states, dtype=np.int64),
            np.array(actions, dtype=np.int64),
            table,
            terminated=bool(terminated),
            stopped=stopped,
        )

    def _costs(self, state: int, action: int, successor: int, reward: float, ended: bool, info: Any) -> Float:
        d = self.task.num_costs
        if self._cost is not None:
            given = self._cost(state, action, successor, reward, ended, *((info,) if self._with_info else ()))
        else:
            given = costs_in(info)
            if given is None and d:
                raise RunError('the environment gives neither info["costs"] nor info["cost"]; pass cost=function')
        return costs_of(given, d) if d else np.zeros(0)


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # it does not say
        pass
    return True

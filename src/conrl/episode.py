"""What was seen in one episode, and whether it fits a task.

An episode of L steps has states s_0 .. s_L, actions, rewards and costs of each step. It is shorter than the horizon if
the environment ended it (`terminated`: nothing is paid any more, as in an absorbing state), if a budget did (`stopped`:
what would have come is unknown), or if it was not played at all (`skipped`: the null action of the knapsack setting).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from conrl import kernels
from conrl._types import Float, Int
from conrl.arguments import any_array, float_array, read_flag
from conrl.errors import ModelError, RunError
from conrl.model import Task
from conrl.wording import brief


@dataclass(frozen=True, eq=False, init=False)
class Episode:
    """One episode: `states` [L+1], `actions` [L], `rewards` [L], `costs` [L, d]; the last two together are `pay`."""

    states: Int
    actions: Int
    rewards: Float
    costs: Float
    terminated: bool = False
    stopped: bool = False
    skipped: bool = False
    pay: Float = field(init=False)  # [L, 1+d]: reward and costs of each step

    def __init__(
        self,
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        costs: ArrayLike,
        terminated: bool = False,
        stopped: bool = False,
        skipped: bool = False,
    ) -> None:
        """Check what somebody observed: arrays whose lengths fit, and finite numbers."""
        visited, played = _indices(states, "states"), _indices(actions, "actions")
        gains, paid = float_array(rewards, "rewards"), float_array(costs, "costs")
        paid = paid[:, None] if paid.ndim == 1 else paid
        flags = {"terminated": terminated, "stopped": stopped, "skipped": skipped}
        flags = {name: read_flag(value, name) for name, value in flags.items()}
        L = played.size
        if skipped and L:
            raise ModelError(f"an episode that was skipped has no steps, and this one has {L}")
        if visited.size != L + 1 and not (skipped and visited.size == L == 0):
            raise ModelError(f"an episode of {L} actions has {L + 1} states, not {visited.size}")
        if gains.shape != (L,) or paid.ndim != 2 or paid.shape[0] != L:
            raise ModelError(
                f"an episode of {L} actions has {L} rewards and costs ({L}, d), not {gains.shape} and {paid.shape}"
            )
        for name, values in (("rewards", gains), ("costs", paid)):
            if not np.isfinite(values).all():
                raise ModelError(
                    f"{name} of step {int(np.argwhere(~np.isfinite(values))[0][0])} is not a finite number"
                )
        pay = np.column_stack((gains, paid))
        for own in (visited, played, pay):
            own.flags.writeable = False
        vars(self).update(vars(Episode._of(visited, played, pay, **flags)))

    @classmethod
    def _of(cls, states: Int, actions: Int, pay: Float, **flags: bool) -> Episode:
        """From arrays that are known to fit; pay [L, 1+d] holds the reward and costs of each step."""
        episode = cls.__new__(cls)
        vars(episode).update(flags, states=states, actions=actions, rewards=pay[:, 0], costs=pay[:, 1:], pay=pay)
        return episode

    def renumbered(self, states: Int | None, actions: Int | None) -> Episode:
        """The same with `states[s]` for state s, and `actions[a]` for action a; None: as it is."""
        kept = {"terminated": self.terminated, "stopped": self.stopped, "skipped": self.skipped}
        visited = self.states if states is None else states[self.states]
        return Episode._of(visited, self.actions if actions is None else actions[self.actions], self.pay, **kept)

    @classmethod
    def null(cls, num_costs: int, *, stopped: bool = False) -> Episode:
        """An episode that was not played."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls._of(nothing, nothing, np.zeros((0, 1 + num_costs)), skipped=True, stopped=stopped)

    def __len__(self) -> int:
        return self.actions.size

    def __repr__(self) -> str:
        return f"Episode(steps={len(self)}, reward={self.total[0]:.6g}, costs={brief(self.total[1:])})"

    @property
    def total(self) -> Float:
        """[1+d]: reward and costs, added up."""
        total: Float = self.pay.sum(axis=0)
        return total


def _indices(values: ArrayLike, what: str) -> Int:
    array = any_array(values, what)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ModelError(f"{what} has shape {array.shape} and dtype {array.dtype}; expected a list of indices")
    return array.astype(np.int64)


def unrolled(task: Task, episode: Episode) -> Episode:
    """The episode as one of `task.unrolled`: state s at step h is h * S + s, after the last step as in the last."""
    if not task.step_dependent:
        return episode
    return Episode._of(
        unrolled_states(task, episode.states),
        episode.actions,
        episode.pay,
        terminated=episode.terminated,
        stopped=episode.stopped,
    )


def unrolled_states(task: Task, states: Int) -> Int:
    """The same for the states [..., L+1] of episodes alone."""
    if not task.step_dependent:
        return states
    steps: Int = np.minimum(np.arange(states.shape[-1]), task.horizon - 1)
    return states + steps * task.num_states


def distinct_steps(episodes: Iterable[Episode], end: int) -> tuple[Int, Int, Int, Int, Float]:
    """The different steps of some episodes, in a fixed order: state, action, next state, how often, pay [n, 1+d].

    `end` is the state that an episode which terminated came to. Steps that pay differently are different.
    """
    played = [e for e in episodes if len(e)]
    state = np.concatenate([e.states[:-1] for e in played])
    action = np.concatenate([e.actions for e in played])
    successor = np.concatenate([e.states[1:] for e in played])
    pay = np.concatenate([e.pay for e in played])
    last = np.cumsum([len(e) for e in played]) - 1
    successor[last[[e.terminated for e in played]]] = end
    order = np.lexsort((*pay.T, successor, action, state))
    state, action, successor, pay = state[order], action[order], successor[order], pay[order]
    columns = (state, action, successor, *pay.T)
    new = np.logical_or.reduce([np.concatenate(([True], x[1:] != x[:-1])) for x in columns])
    first = np.flatnonzero(new)
    times = np.diff(np.append(first, state.size))
    return state[first], action[first], successor[first], times, pay[first]


def all_fit(task: Task, episodes: Sequence[Episode]) -> bool:
    """Whether `check_episode` lets all of them pass, looked at together; False where it may not."""
    played = [e for e in episodes if len(e)]
    if not played or any(len(e) > task.horizon for e in played) or task.available is not None:
        return False
    if {e.pay.shape[1] for e in episodes} != {1 + task.num_costs}:
        return False
    states, actions = np.concatenate([e.states for e in played]), np.concatenate([e.actions for e in played])
    pay = np.concatenate([e.pay for e in played])
    if task.initial is not None and any(e.states[0] != task.initial for e in played):
        return False
    low, high = task.ranges.T
    inside = bool((low <= pay.min(axis=0)).all() and (pay.max(axis=0) <= high).all())
    return bool(
        inside
        and states.min() >= 0
        and states.max() < task.num_states
        and actions.min() >= 0
        and actions.max() < task.num_actions
    )


def check_episode(task: Task, episode: Episode) -> None:
    """Refuse an episode that does not fit the task: indices, length, first state, and the ranges of one step."""
    states, actions, pay = episode.states, episode.actions, episode.pay
    if actions.size > task.horizon:
        raise RunError(f"an episode of {actions.size} steps; the task has {task.horizon}")
    if pay.shape[1] != 1 + task.num_costs:
        raise RunError(f"an episode with {pay.shape[1] - 1} costs; the task has {task.num_costs}")
    if not actions.size:
        return
    begins = task.initial is None or states[0] == task.initial
    sizes = task.num_states, task.num_actions
    if begins and task.available is None and kernels.fits(states, actions, pay, *sizes, task.ranges):
        return
    for what, indices, count in (("state", states, task.num_states), ("action", actions, task.num_actions)):
        if indices.min() < 0 or indices.max() >= count:
            wrong = int(indices[(indices < 0) | (indices >= count)][0])
            verb = "seen" if what == "state" else "played"
            raise RunError(f"{what} {wrong} was {verb}; the task has {what}s 0..{count - 1}")
    if task.available is not None:
        steps = np.arange(actions.size) if task.step_dependent else np.zeros(actions.size, dtype=int)
        exists = task.mask[np.minimum(steps, task.mask.shape[0] - 1), states[:-1], actions]
        if not exists.all():
            at = int(np.argmin(exists))
            then = f" at step {at}" if task.step_dependent else ""
            where = f"in state {int(states[at])}{then}"
            raise RunError(f"action {int(actions[at])} was played {where}, where it does not exist")
    if task.initial is not None and states[0] != task.initial:
        raise RunError(
            f"an episode began in state {int(states[0])}; the task says {task.initial}. "
            "If the first state varies, make the task with initial=None"
        )
    least, most = pay.min(axis=0), pay.max(axis=0)
    low, high = task.ranges.T
    within = (low <= least) & (most <= high)
    if not within.all():
        i = int(np.argmin(within))
        seen = least[i] if least[i] < low[i] else most[i]
        raise RunError(
            f"{('reward', *task.cost_names)[i]} {seen:.10g} was seen in one step; the task says {low[i]:g} to "
            f"{high[i]:g}. Give the true range: budgets and bonuses rest on it",
            key=("cost_ranges", task.cost_names[i - 1]) if i else ("reward_range",),
        )

"""Bonuses, and models from logs.

A bonus says how far the estimate of a pair may be off: Eq. (bonus) of Brantley et al. (2020), or what works better at
the scale of experiments. `conrl.counts` holds the estimates themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from conrl import bounds
from conrl.counts import Counts, Float, Int, check_episode
from conrl.episode import Episode
from conrl.errors import RunError, SpecError
from conrl.inputs import default_cost_names
from conrl.logs import Log, episodes_of, load_episodes
from conrl.model import ConstrainedMDP
from conrl.task import Task

# What turns visits [n] of pairs, before episode k (from 1), into a bonus [n] or [n, 1+d] (reward first). Positive is
# optimism, negative caution.
Bonus = Callable[[Int, int, Task], ArrayLike]


def width(task: Task) -> Float:
    """[1+d]: the spread of the reward and of each cost of one step, the 0 of an unvisited pair included."""
    ranges = (task.reward_range, *(task.cost_ranges or ()))
    return np.array([max(high, 0.0) - min(low, 0.0) for low, high in ranges])


@dataclass(frozen=True)
class TheoryBonus:
    """Eq. (bonus): min{ 2H, H sqrt(2 ln(8SAH(d+1)k^2/delta) / N) }, in units of the spread of each reward and cost.

    Valid for all episodes at once with probability at least 1 - delta (Lemma 3.2). Where the first state is unknown,
    S and H are those of the model with the extra state.
    """

    delta: float = 0.05

    def __post_init__(self) -> None:
        if not isinstance(self.delta, (int, float, np.number)) or not 0.0 < self.delta <= 1.0:
            raise SpecError(f"delta is {self.delta}; a failure probability is in (0, 1]")

    def __call__(self, visits: Int, episode: int, task: Task) -> Float:
        extra = int(task.initial is None)
        b = bounds.bonus(
            visits,
            episode=episode,
            num_states=task.num_states + extra,
            num_actions=task.num_actions,
            horizon=task.horizon + extra,
            num_costs=task.num_costs,
            delta=self.delta,
        )
        return b[:, None] * width(task)


@dataclass(frozen=True)
class ScaledBonus:
    """scale / sqrt(N), and `unvisited` for a pair never visited; with scales of their own for reward and costs.

    A positive scale is optimism: more reward, less cost than estimated. A negative one is caution: at pairs that were
    visited the estimate is moved the other way. Unvisited pairs are always optimistic, or nothing would be tried.

    Args:
        reward, cost: the scales; `cost` may be one per cost.
        unvisited: the bonus of pairs never visited.
        relative: in units of the spread of each reward and cost (`Task.reward_range`, `Task.cost_ranges`).
    """

    reward: float = 0.02
    cost: float | Sequence[float] = -0.01
    unvisited: float = 1.0
    relative: bool = True

    def __post_init__(self) -> None:
        try:
            if np.ndim(self.cost):
                object.__setattr__(self, "cost", tuple(float(c) for c in np.asarray(self.cost)))
            _ = [float(x) for x in (self.reward, self.unvisited, *np.atleast_1d(self.cost))]
        except (TypeError, ValueError):
            raise SpecError(f"{self} makes no bonus: scales are numbers") from None
        if not np.isfinite([self.reward, self.unvisited, *np.atleast_1d(self.cost)]).all() or self.unvisited < 0.0:
            raise SpecError(f"{self} makes no bonus: scales are finite, and unvisited is at least 0")

    def __call__(self, visits: Int, episode: int, task: Task) -> Float:
        scales = np.empty(1 + task.num_costs)
        scales[0] = self.reward
        try:
            scales[1:] = self.cost
        except ValueError:
            raise SpecError(f"cost has {np.size(self.cost)} scales for {task.num_costs} costs") from None
        unit = width(task) if self.relative else np.ones(scales.size)
        b = (scales * unit) / np.sqrt(np.maximum(visits, 1))[:, None]
        b[visits == 0] = self.unvisited * unit
        return b


def estimate(
    log: str | Path | Log | Iterable[Episode],
    *,
    task: Task | None = None,
    horizon: int | None = None,
    limits: ArrayLike | Mapping[str, float] | None = None,
    unvisited: str = "self-loop",
) -> ConstrainedMDP:
    """A model with counts from logged episodes; no learner needed.

    Args:
        log: a file (`load_episodes`), what it gave, or episodes.
        task: what is known of the process; by default its sizes, and the ranges of rewards and costs, are those seen.
        horizon: steps of an episode; by default the longest seen.
        limits: default limits of the model.
        unvisited: pairs that never occurred are a `"self-loop"` without pay (the paper's rule), or `"missing"`: a plan
            then uses only what was tried.

    `model.counts` [S, A] says how often each pair occurred. The first state has its empirical distribution.
    """
    if task is not None and (horizon is not None or limits is not None):
        raise SpecError("a task has a horizon and limits of its own; give them there")
    if isinstance(log, (str, Path)):
        log = load_episodes(log)
    if isinstance(log, Log) and task is not None and (log.state_names or log.action_names):
        raise RunError("the log has texts as states or actions; with a task it needs the task's indices")
    if not isinstance(log, Log):
        episodes = episodes_of(log)
        d = episodes[0].pay.shape[1] - 1 if episodes else 0
        log = Log(episodes, default_cost_names(d) if task is None else tuple(task.cost_names))
    if task is not None and tuple(log.cost_names) != tuple(task.cost_names):
        raise RunError(f"the log has costs {log.cost_names}; the task has {tuple(task.cost_names)}")
    counts = Counts(_task_of(log, horizon, limits) if task is None else task)
    for i, episode in enumerate(log.episodes):
        try:
            check_episode(counts.task, episode)
        except RunError as error:
            raise RunError(f"episode {i + 1} of the log: {error}") from None
        counts.add(episode)
    names: dict[str, Any] = {}
    if task is None:
        names = {"state_names": log.state_names, "action_names": log.action_names}
        if counts.known is not None and log.state_names is not None:
            end = "(end)"
            while end in log.state_names:
                end = f"({end})"
            names["state_names"] = (*log.state_names, end)
    return counts.full_model(unvisited=unvisited, **names)


def _task_of(log: Log, horizon: int | None, limits: ArrayLike | Mapping[str, float] | None) -> Task:
    """The task that a log shows."""
    played = [e for e in log.episodes if len(e)]
    if not played:
        raise RunError("the log holds no step; nothing can be estimated from it")
    if len({e.pay.shape[1] for e in played}) != 1:
        raise RunError("the episodes have different numbers of costs")
    pay = np.concatenate([e.pay for e in played])
    states = max(int(np.max(e.states)) for e in played) + 1
    actions = max(int(np.max(e.actions)) for e in played) + 1
    first = {int(np.asarray(e.states)[0]) for e in played}
    low, high = pay.min(axis=0), pay.max(axis=0)
    return Task(
        states if log.state_names is None else len(log.state_names),
        actions if log.action_names is None else len(log.action_names),
        max(map(len, played)) if horizon is None else horizon,
        np.full(pay.shape[1] - 1, np.inf) if limits is None else limits,  # type: ignore[arg-type]
        log.cost_names,
        initial=first.pop() if len(first) == 1 else None,
        reward_range=(float(low[0]), float(high[0])),
        cost_ranges=tuple((float(x), float(y)) for x, y in zip(low[1:], high[1:], strict=True)),
    )

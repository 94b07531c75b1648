"""Models from logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from conrl.episode import Episode
from conrl.errors import RunError, SpecError
from conrl.estimation.counts import Counts
from conrl.estimation.fitting import logged
from conrl.estimation.logs import Log, episodes_of, load_episodes
from conrl.model import ConstrainedMDP, Task
from conrl.model.reading import default_cost_names


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
            A log is lined up with its `state_names` and `action_names`.
        horizon: steps of an episode; by default the longest seen.
        limits: default limits of the model.
        unvisited: pairs that never occurred are a `"self-loop"` without pay (the paper's rule), or `"missing"`: a plan
            then uses only what was tried.

    `model.counts` [S, A] says how often each pair occurred. The first state has its empirical distribution. The model
    pays what was seen: steps of a pair that paid differently are outcomes of their own, each as probable as it was
    frequent. So `simulate` has the tails of the log, and `model.task` its ranges; rewards and costs are the means.
    """
    if task is not None and (horizon is not None or limits is not None):
        raise SpecError("a task has a horizon and limits of its own; give them there")
    if task is None:
        log = as_log(log)
        task = _task_of(log, horizon, limits)
    episodes = logged(task, log)
    counts = Counts(task)
    counts.add_all(episodes)
    states = task.state_names
    if counts.known >= 0:
        own = states or tuple(map(str, range(task.num_states)))
        end = "(end)"  # no number: that may be a state of another log
        while end in own:
            end = f"({end})"
        states = (*own, end)
    names = {"state_names": states, "action_names": task.action_names}
    return counts.full_model(unvisited=unvisited, episodes=episodes, **names)


def as_log(given: str | Path | Log | Iterable[Episode]) -> Log:
    """A log, however it was given: a file, itself, or episodes."""
    if isinstance(given, (str, Path)):
        return load_episodes(given)
    if isinstance(given, Log):
        return given
    episodes = episodes_of(given)
    return Log(episodes, default_cost_names(episodes[0].pay.shape[1] - 1 if episodes else 0))


def _task_of(log: Log, horizon: int | None, limits: ArrayLike | Mapping[str, float] | None) -> Task:
    """The task that a log shows."""
    played = [e for e in log.episodes if len(e)]
    if not played:
        raise RunError("the log holds no step; nothing can be estimated from it")
    if len({e.pay.shape[1] for e in played}) != 1:
        raise RunError("the episodes have different numbers of costs")
    pay = np.concatenate([e.pay for e in played])
    states = int(np.concatenate([e.states for e in played]).max()) + 1
    actions = int(np.concatenate([e.actions for e in played]).max()) + 1
    first = {int(e.states[0]) for e in played}
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
        state_names=log.state_names,
        action_names=log.action_names,
    )

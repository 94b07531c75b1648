"""Models from logs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from conrl.arguments import read_flag
from conrl.episode import Episode
from conrl.errors import ModelWarning, RunError, SpecError
from conrl.estimation.counts import Counts
from conrl.estimation.fitting import logged
from conrl.estimation.homogeneity import difference
from conrl.estimation.logs import Log, episodes_of, load_episodes
from conrl.model import ConstrainedMDP, Task
from conrl.model.reading import default_cost_names

REMEDY = "the estimate averages over them. Estimate each step apart: --by-step, in Python step_dependent=True"


def estimate(
    log: str | Path | Log | Iterable[Episode],
    *,
    task: Task | None = None,
    horizon: int | None = None,
    limits: ArrayLike | Mapping[str, float] | None = None,
    unvisited: str = "self-loop",
    step_dependent: bool = False,
) -> ConstrainedMDP:
    """A model with counts from logged episodes; no learner needed.

    Args:
        log: a file (`load_episodes`), what it gave, or episodes.
        task: what is known of the process; by default its sizes, and the ranges of rewards and costs, are those seen.
            A log is lined up with its `state_names` and `action_names`.
        horizon: steps of an episode; by default the longest seen.
        limits: default limits of the model.
        step_dependent: estimate each step apart: what happens may depend on it, as on the hour of a day. It needs about
            as many episodes more as an episode has steps. Without it, all steps are taken for alike; if they differ
            more than by chance (one false alarm in 1,000 logs, `conrl.estimation.homogeneity`), that is a
            `ModelWarning`. Of a task, say so there.
        unvisited: pairs that never occurred are a `"self-loop"` without pay (the paper's rule), or `"missing"`: a plan
            then uses only what was tried.

    `model.counts` [S, A] says how often each pair occurred. The first state has its empirical distribution. The model
    pays what was seen: steps of a pair that paid differently are outcomes of their own, each as probable as it was
    frequent. So `simulate` has the tails of the log, and `model.task` its ranges; rewards and costs are the means.
    """
    if task is not None and (horizon is not None or limits is not None):
        raise SpecError("a task has a horizon and limits of its own; give them there")
    if read_flag(step_dependent, "step_dependent") and task is not None:
        raise SpecError("a task says itself whether it depends on the step: Task(..., step_dependent=True)")
    if task is None:
        log = as_log(log)
        task = _task_of(log, horizon, limits)
        if step_dependent:
            log, task = _by_step(log, task)
    episodes = logged(task, log)
    differs = "" if task.step_dependent else _differs(task, episodes)
    if differs:
        warnings.warn(f"the steps of the log differ: {differs}; {REMEDY}", ModelWarning, stacklevel=2)
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
    model = counts.full_model(unvisited=unvisited, episodes=episodes, **names)
    return model._copy(_log=model._log._replace(differs=differs)) if differs and model._log else model


def _by_step(log: Log, task: Task) -> tuple[Log, Task]:
    """The task with steps of their own, and what the log has of them."""
    longest = max(map(len, log.episodes))
    if task.horizon > longest:
        raise SpecError(
            f"horizon is {task.horizon}, and no episode of the log has more than {longest} steps: apart from the "
            "others, nothing is known about those after them",
            key=("horizon",),
        )
    H = task.horizon
    cut = [e if len(e) <= H else Episode._of(e.states[: H + 1], e.actions[:H], e.pay[:H]) for e in log.episodes]
    return replace(log, episodes=tuple(cut)), replace(task, step_dependent=True)


def _differs(task: Task, episodes: Sequence[Episode]) -> str:
    """How the steps differ more than by chance, in words; empty if they do not."""
    found = difference(episodes, task.num_states, task.num_actions)
    if found is None:
        return ""
    return found.told(task.state_names, task.action_names, ("reward", *task.cost_names), task.num_states)


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

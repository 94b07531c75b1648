"""Logged episodes that fit a task: its states and actions by name, its costs, its ranges."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from conrl._types import Int
from conrl.episode import Episode, all_fit, check_episode
from conrl.errors import ModelError, RunError
from conrl.estimation.logs import Log, episodes_of, load_episodes
from conrl.matching import log_places
from conrl.model import Task


def logged(task: Task, episodes: str | Path | Log | Iterable[Episode]) -> tuple[Episode, ...]:
    """Logged episodes that fit a task, by the names of states and actions; `RunError` if one does not.

    Episodes that are not in a log have the task's indices.
    """
    log = load_episodes(episodes) if isinstance(episodes, (str, Path)) else episodes
    log = _lined_up(task, log) if isinstance(log, Log) else episodes_of(log)
    if all_fit(task, log):
        return log
    for i, episode in enumerate(log):
        try:
            check_episode(task, episode)
        except RunError as error:
            raise RunError(f"episode {i + 1} of the log: {error}") from None
    return log


def _lined_up(task: Task, log: Log) -> tuple[Episode, ...]:
    """The episodes of a log with the task's numbers."""
    if tuple(log.cost_names) != tuple(task.cost_names):
        raise RunError(f"the log has costs {log.cost_names}; the task has {tuple(task.cost_names)}")
    places: list[Int | None] = []
    for what, own, names, codes in (
        ("state", log.state_names, task.state_names, [e.states for e in log.episodes]),
        ("action", log.action_names, task.action_names, [e.actions for e in log.episodes]),
    ):
        if own == names:
            places.append(None)
        elif names is None:
            raise RunError(f"the log has names for its {what}s, and the task has none: make it with {what}_names")
        else:
            try:
                places.append(log_places(own, names, codes, what, "task"))
            except ModelError as error:
                raise RunError(str(error)) from None
    states, actions = places
    return (
        log.episodes
        if states is None and actions is None
        else tuple(e.renumbered(states, actions) for e in log.episodes)
    )

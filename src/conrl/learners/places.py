"""What learners share that count what they see and plan in the model of the *places* (`conrl.counts`).

Places are the states seen so far, START (place 0, where the first state is unknown) and END among them. A policy of the
places is turned into one of the task here; logged episodes are read in; presets are looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conrl.counts import Counts, check_episode
from conrl.episode import Episode
from conrl.errors import RunError, SpecError, unknown
from conrl.learners.base import BaseLearner, group, prefixed, whole
from conrl.learners.protocol import Arrays, Proposal
from conrl.logs import Log, episodes_of, load_episodes
from conrl.model import ConstrainedMDP
from conrl.policy import Deterministic, Policy
from conrl.problem import Problem
from conrl.task import Task

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


class PlacesLearner(BaseLearner):
    """A learner whose knowledge is `counts`."""

    def __init__(self, task: Task, problem: Problem | None, seed: int | None, keep_policies: bool) -> None:
        super().__init__(task, problem, seed, keep_policies)
        self.counts = Counts(task)
        self.primed = 0

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        self.counts.add(episode)

    # -- from places to the task --------------------------------------------------------------------------

    @property
    def _kinds(self) -> tuple[Bool, Bool]:
        """[n] each: places that are states of the task; those of them that are START."""
        order = self.counts.order
        return order < self.task.num_states, order == self.counts.start

    def _whole_actions(self, actions: NDArray[np.integer[Any]]) -> Deterministic:
        """Actions [H', n] of the places as a policy of the task; in states never seen, the first action there is."""
        task, order = self.task, self.counts.order
        real, _ = self._kinds
        table = np.empty((task.horizon, task.num_states), dtype=np.int16)
        table[:] = 0 if task.available is None else np.argmax(task.available, axis=1)
        table[:, order[real]] = actions[self.counts.horizon - task.horizon :, : order.size][:, real]
        return Deterministic._trusted_actions(table, task.num_actions)

    def _whole_table(self, probabilities: Float) -> Policy:
        """Probabilities [H', P] of the pairs of the places as a policy of the task; uniform in states never seen."""
        task = self.task
        exists = np.ones((task.num_states, task.num_actions)) if task.available is None else task.available
        table = np.empty((task.horizon, task.num_states, task.num_actions))
        table[:] = exists / exists.sum(axis=1, keepdims=True)
        model = self.counts.model()
        real, _ = self._kinds
        pair = np.flatnonzero(real[model.pair_state])
        state = self.counts.order[model.pair_state[pair]]
        table[:, state, model.action[pair]] = probabilities[self.counts.horizon - task.horizon :, pair]
        return Policy._trusted(table)

    # -- what there is to learn about a pair --------------------------------------------------------------

    @property
    def _unknown(self) -> tuple[Bool, Bool]:
        """[P] each: pairs whose transitions are to be learned (all but that of END), and whose pay is (nor START's)."""
        real, start = self._kinds
        first = self.counts.graph().first
        place = np.repeat(np.arange(first.size - 1), np.diff(first))
        return (real | start)[place], real[place]

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def model(self) -> ConstrainedMDP:
        """The empirical model of the whole task, with its counts and without bonus."""
        return self.counts.full_model()

    def prime(self, episodes: str | Path | Log | Iterable[Episode]) -> int:
        """Learn from logged episodes before (or between) one's own; how many there were.

        `episodes` is a file (`conrl.load_episodes`), what it gave, or episodes. States and actions are the task's
        indices. Their costs are not charged to a budget. Refuses all of them if one does not fit.
        """
        log = logged(self.task, episodes)
        for episode in log:
            self.counts.add(episode)
        self._forget_proposal()
        self.primed += len(log)
        return len(log)

    # -- saving -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        return super().state() | prefixed("counts_", self.counts.state()) | {"primed": np.array(self.primed)}

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self.primed = whole(state, "primed")
        self.counts.load_state(group(state, "counts_"))


def logged(task: Task, episodes: str | Path | Log | Iterable[Episode]) -> tuple[Episode, ...]:
    """Logged episodes that fit a task; `RunError` if one does not."""
    log = load_episodes(episodes) if isinstance(episodes, (str, Path)) else episodes
    if isinstance(log, Log):
        if log.state_names is not None or log.action_names is not None:
            raise RunError("the log has texts as states or actions; a learner needs the task's indices")
        if tuple(log.cost_names) != tuple(task.cost_names):
            raise RunError(f"the log has costs {log.cost_names}; the task has {tuple(task.cost_names)}")
        log = log.episodes
    log = episodes_of(log)
    for i, episode in enumerate(log):
        try:
            check_episode(task, episode)
        except RunError as error:
            raise RunError(f"episode {i + 1} of the log: {error}") from None
    return log


def read_preset(presets: Mapping[str, Mapping[str, Any]], preset: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a preset, each replaced by what was given instead; None is nothing given."""
    if preset not in presets:
        raise SpecError(unknown("preset", preset, presets))
    return {name: value if given[name] is None else given[name] for name, value in presets[preset].items()}


def read_positive(value: Any, name: str, zero: bool = False) -> float:
    """A finite number above 0, or of at least 0."""
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value < 0.0 or (value == 0.0 and not zero):
        raise SpecError(f"{name} is {value!r}; it must be a number {'of at least' if zero else 'above'} 0")
    return float(value)


def read_delta(delta: Any) -> float:
    """A failure probability."""
    if not isinstance(delta, (int, float, np.number)) or not 0.0 < delta <= 1.0:
        raise SpecError(f"delta is {delta!r}; a failure probability is in (0, 1]")
    return float(delta)


def ranges(task: Task) -> tuple[Float, Float]:
    """[1+d] each: the least and the most that one step pays of the reward and of each cost."""
    low, high = np.array((task.reward_range, *(task.cost_ranges or ())), dtype=np.float64).T
    return low, high

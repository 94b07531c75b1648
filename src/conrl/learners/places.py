"""What learners share that count what they see and plan in the model of the *places* (`conrl.estimation.counts`).

Places are the states seen so far, START (place 0, where the first state is unknown) and END among them. A policy of the
places is turned into one of the task here, and logged episodes are read in.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conrl._types import Array, Arrays, Bool, Float
from conrl.episode import Episode
from conrl.estimation.counts import Counts
from conrl.estimation.logs import Log, logged
from conrl.learners.base import BaseLearner, Proposal, group, prefixed, whole
from conrl.model import ConstrainedMDP, Task
from conrl.model.limits import Limits
from conrl.policy import Deterministic, Policy
from conrl.problem import Problem


class PlacesLearner(BaseLearner):
    """A learner whose knowledge is `counts`."""

    def __init__(self, task: Task, problem: Problem | Limits | None, seed: int | None, keep_policies: bool) -> None:
        super().__init__(task, problem, seed, keep_policies)
        self.counts = Counts(task)
        self.primed = 0

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        self.counts.add(episode)

    # -- from places to the task --------------------------------------------------------------------------

    @property
    def _kinds(self) -> tuple[Bool, Bool]:
        """[n] each: places that are states of the task; and START."""
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

    def state(self) -> dict[str, Array]:
        return super().state() | prefixed("counts_", self.counts.state()) | {"primed": np.array(self.primed)}

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self.primed = whole(state, "primed")
        self.counts.load_state(group(state, "counts_"))

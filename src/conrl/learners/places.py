"""Shared by the learners that count what they see and plan in the model of the *places* (`conrl.estimation.counts`).

Places are the states seen so far, START (place 0, where the first state is unknown) and END among them. A policy of the
places is turned into one of the task here, and logged episodes are read in.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from conrl._types import Array, Arrays
from conrl.episode import Episode
from conrl.estimation.counts import Counts
from conrl.estimation.logs import Log, logged
from conrl.learners.base import BaseLearner, group, prefixed, saved_count
from conrl.model import ConstrainedMDP, Task
from conrl.model.limits import Limits
from conrl.policy import Deterministic, Policy
from conrl.problem import Problem


class PlacesLearner(BaseLearner):
    """A learner whose knowledge is `counts`."""

    by_step = True

    def __init__(self, task: Task, problem: Problem | Limits | None, seed: int | None, keep_policies: bool) -> None:
        super().__init__(task, problem, seed, keep_policies)
        self.counts = Counts(task)
        self.primed = 0

    def _of_task(self, policy: Policy) -> Policy:
        """A policy of the places as one of the task; in states never seen, the first action there is."""
        task, counts = self.task, self.counts
        place = np.flatnonzero(counts.order < counts.start)  # neither START nor END
        seen = counts.order[place]
        begin = counts.horizon - task.horizon  # START takes a step
        first = np.argmax(task.mask, axis=2)  # [1, S], or [H, S]
        # Where steps are counted apart, a place is a state at one step.
        at: tuple[Any, Any] = (slice(None), seen)
        of: tuple[Any, Any] = (slice(begin, None), place)
        if task.step_dependent:
            at = np.divmod(seen, task.num_states)
            of = begin + at[0], place
        if isinstance(policy, Deterministic):
            actions = np.empty((task.horizon, task.num_states), dtype=np.int16)
            actions[:] = first
            actions[at] = policy.actions[of]
            return Deterministic._trusted_actions(actions, task.num_actions)
        table = np.zeros((task.horizon, task.num_states, task.num_actions))
        np.put_along_axis(table, np.broadcast_to(first, table.shape[:2])[:, :, None], 1.0, axis=2)
        table[at] = policy.probabilities[of]
        return Policy._trusted(table)

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
        self.primed = saved_count(state, "primed")
        self.counts.load_state(group(state, "counts_"))

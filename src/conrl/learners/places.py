"""Shared by the learners that count what they see and plan in the model of the *places* (`conrl.estimation.counts`).

Places are the states seen so far, START (place 0, where the first state is unknown) and END among them. A policy of the
places is turned into one of the task here, and logged episodes are read in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from conrl._types import Array, Arrays, Int
from conrl.arguments import sealed
from conrl.episode import Episode
from conrl.estimation.counts import Counts
from conrl.estimation.fitting import logged
from conrl.estimation.logs import Log
from conrl.learners.arrays import group, prefixed, saved_count
from conrl.learners.base import BaseLearner
from conrl.model import ConstrainedMDP, Task
from conrl.model.counting import UP
from conrl.model.limits import Limits
from conrl.policy import Deterministic, Policy
from conrl.problem import Problem
from conrl.spending import SpentPolicy


class PlacesLearner(BaseLearner):
    """A learner whose knowledge is `counts`."""

    sees_steps = True

    def __init__(self, task: Task, problem: Problem | Limits | None, seed: int | None, keep_policies: bool) -> None:
        super().__init__(task, problem, seed, keep_policies)
        self.counts = Counts(task)
        self.primed = 0
        self._usual = sealed(np.argmax(task.mask, axis=2))  # [1, S], or [H, S]: the first action that there is

    def _of_task(self, policy: Policy) -> Policy:
        """A policy of the places as one of the task; in states never seen, the first action there is."""
        task, counts = self.task, self.counts
        place = np.flatnonzero(counts.order < counts.start)  # neither START nor END
        seen = counts.order[place]
        begin = counts.horizon - task.horizon  # START takes a step
        # Where steps are counted apart, a place is a state at one step.
        at: tuple[Any, Any] = (slice(None), seen)
        of: tuple[Any, Any] = (slice(begin, None), place)
        if task.step_dependent:
            at = np.divmod(seen, task.num_states)
            of = begin + at[0], place
        if isinstance(policy, SpentPolicy):
            return self._spending(policy, self._usual, begin)
        if isinstance(policy, Deterministic):
            actions = np.empty((task.horizon, task.num_states), dtype=np.int16)
            actions[:] = self._usual
            actions[at] = policy.actions[of]
            return Deterministic._trusted_actions(actions, task.num_actions)
        table = np.zeros((task.horizon, task.num_states, task.num_actions))
        np.put_along_axis(table, np.broadcast_to(self._usual, table.shape[:2])[:, :, None], 1.0, axis=2)
        table[at] = policy.probabilities[of]
        return Policy._trusted(table)

    def _spending(self, policy: SpentPolicy, first: Int, begin: int) -> Policy:
        """The same for a policy that acts on what was spent. What it has not seen yet it counts rounded up."""
        task, counts = self.task, self.counts
        seen = counts.order[policy.state]
        kept = np.flatnonzero(seen < counts.start)
        step, state = np.divmod(seen[kept], task.num_states)  # the step where steps are counted apart, else 0
        spent = [policy.spent[i] for i in kept.tolist()]
        number: dict[tuple[int, Any], int] = {}
        node = np.array([number.setdefault(key, len(number)) for key in zip(state.tolist(), spent, strict=True)], int)
        states = np.array([s for s, _ in number], dtype=np.int64)
        H, A = task.horizon, task.num_actions
        at: tuple[Any, Any] = (slice(None), node)
        of: tuple[Any, Any] = (slice(begin, None), kept)
        if task.step_dependent:
            at, of = (step, node), (begin + step, kept)
        usual = np.broadcast_to(first[:, states], (H, states.size))
        inner: Policy
        if isinstance(policy.inner, Deterministic):
            actions = usual.astype(np.int16)
            actions[at] = policy.inner.actions[of]
            inner = Deterministic._trusted_actions(actions, A)
        else:
            table = np.zeros((H, states.size, A))
            np.put_along_axis(table, usual[:, :, None], 1.0, axis=2)
            table[at] = policy.inner.probabilities[of]
            inner = Policy._trusted(table)
        counter = replace(policy.counter, rounding=tuple(r or UP for r in policy.counter.rounding))
        return SpentPolicy(counter, states, [total for _, total in number], inner, first)

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
        arrays = super().state() | prefixed("counts_", self.counts.state()) | {"primed": np.array(self.primed)}
        return arrays if self.counts.tally is None else arrays | prefixed("tally_", self.counts.tally.state())

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self.primed = saved_count(state, "primed")
        self.counts.load_state(group(state, "counts_"))
        self.counts.load_tally(group(state, "tally_"))

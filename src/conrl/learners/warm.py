"""Shared by OptCMDP, DOPE and OptPessLP: column generation that starts from what the last plan ended with.

What a plan leaves, its directions and multipliers, serves the next one as soon as an episode of it was observed: a plan
that was made but not played is made again, from the same start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conrl._types import Array, Arrays, Float
from conrl.learners.arrays import group, prefixed
from conrl.learners.replanning import ReplanningLearner
from conrl.oracles.protocols import SupportOracle
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Optimum
from conrl.planners.result import split_prices
from conrl.problem import Rows

TOLERANCE = 1e-9


class WarmLearner(ReplanningLearner):
    """A learner that maximises the reward within its rows, over an oracle of its own."""

    _start: Arrays | None = None  # of this plan: what the one before ended with
    _next: Arrays | None = None  # what this plan ended with

    def _best(self, oracle: SupportOracle, **more: Any) -> Optimum:
        """The best reward of an oracle's points within the rows; what it ends with is kept."""
        work: dict[str, Any] = {"tol": TOLERANCE, "start": self._start, **more}
        best = maximise(oracle, np.eye(1 + self.task.num_costs)[0], self._rows, **work)
        self._next = {"directions": best.directions, "multipliers": best.multipliers}
        return best

    def _forget_start(self, rows: Rows) -> None:
        """Where the rows are of other costs, multipliers of the old ones mean nothing."""
        if not rows.same_costs(self._rows.cost, self._rows.sign):
            self._start = self._next = None

    def _planned(self) -> None:
        super()._planned()
        self._start = self._next

    @property
    def prices(self) -> Float | None:
        if self._next is None:
            return None
        return split_prices(self._rows, self._next["multipliers"], self.task.num_costs)[0]

    # -- saving -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        arrays = super().state() | prefixed("start_", self._start or {})
        return arrays | prefixed("next_", self._next or {}) if "then" in arrays else arrays

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self._start = group(state, "start_") or None
        self._next = (group(state, "next_") or None) if "then" in state else self._start

"""Shared by DOPE and OptPessLP: a safe policy is played until a plan that is pessimistic about costs keeps the limits.

Both are optimistic about the reward in proportion to 1 / (C - C_b), the gap between a limit and what the safe policy
costs, in units of the cost's range; of several costs it is the least one.
"""

from __future__ import annotations

import numpy as np

from conrl._types import Float
from conrl.errors import SpecError
from conrl.learners.replanning import Lottery
from conrl.learners.safe import SafeLearner
from conrl.learners.warm import WarmLearner
from conrl.model import Task
from conrl.model.limits import Limits
from conrl.policy import Policy
from conrl.problem import Problem, Rows

MOST_SCALE = 1e6
MOST_BONUS = 1e12  # times the range of the reward: what a gap of next to nothing is worth at most


class PessimisticLearner(WarmLearner, SafeLearner):
    """Plays a safe policy until a pessimistic plan keeps the limits, and that plan then."""

    strictly = True
    remedy = (
        "try SafeConRL, which takes the same arguments and mixes the safe policy with what is uncertain, or a smaller "
        "scale: less cautious, but faster"
    )

    def __init__(
        self,
        task: Task,
        *,
        safe: Policy,
        safe_costs: Limits,
        problem: Problem | Limits | None = None,
        preset: str = "default",
        delta: float = 0.05,
        scale: float | None = None,
        replan: str = "episode",
        seed: int | None = None,
        keep_policies: bool = False,
    ) -> None:
        super().__init__(task, problem, safe, safe_costs, replan, seed, keep_policies)
        self._choose(preset, delta, scale=scale)
        if self.scale > MOST_SCALE:
            raise SpecError(
                f"scale is {self.scale:g}; the proof needs 1, and {MOST_SCALE:g} is the most", key=("scale",)
            )

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        super()._change_problem(problem, rows)
        self._forget_start(rows)

    @property
    def _gap(self) -> float:
        """The least gap between a limit and what the safe policy costs, in units of the cost's range; 1 without any."""
        rows = self._rows
        width = np.where(self.task.spread[1 + rows.cost] > 0.0, self.task.spread[1 + rows.cost], 1.0)
        gap: Float = (rows.bound - self.safe_costs[rows.cost]) / width
        return float(gap.min(initial=1.0)) if rows.size else 1.0

    def _home(self) -> Lottery:
        self._next = self._start
        return Lottery(np.ones(1), (self.safe,), home=True)

    @property
    def prices(self) -> Float | None:
        """Of the plan; None while the safe policy is played."""
        return None if self._lottery is None or self._lottery.home else super().prices

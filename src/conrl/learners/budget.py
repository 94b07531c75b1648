"""Hard budgets: realised costs over all episodes never exceed them, whatever the estimates (Section 5).

Before an episode it must be certain that its worst case fits: H times the largest cost of a step, from the task's
ranges. If not, the null action is played for the whole episode. Where an episode can be stopped (`Task.can_stop`), the
same is asked step by step instead, with the worst step. Sums are rounded up, so that no rounding breaks a budget.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl.task import Task

Float = NDArray[np.float64]


def sum_up(a: Float, b: Float) -> Float:
    """a + b elementwise, rounded up where it is not exact."""
    s = a + b
    rest = s - a
    inexact: NDArray[np.bool_] = (a - (s - rest)) + (b - rest) > 0.0
    return np.where(inexact, np.nextafter(s, np.inf), s)


class Budget:
    """What is left of the budgets [d] of a task."""

    def __init__(self, task: Task, budgets: Float) -> None:
        self.budgets = budgets
        self.spent = np.zeros(budgets.size)
        self.step = np.array([max(high, 0.0) for _, high in task.cost_ranges or ()])  # the worst step
        worst = np.zeros(budgets.size)
        for _ in range(1 if task.can_stop else task.horizon):
            worst = sum_up(worst, self.step)
        self.worst = worst  # what must fit before an episode
        self.by_step = task.can_stop

    @property
    def left(self) -> Float:
        """[d]: at most so much may still be spent."""
        left = self.budgets - self.spent
        over = sum_up(self.spent, left) > self.budgets
        return np.where(over, np.nextafter(left, -np.inf), left)

    def admits(self) -> bool:
        """Whether an episode may begin."""
        return bool((sum_up(self.spent, self.worst) <= self.budgets).all())

    def may_step(self, spent: ArrayLike) -> bool:
        """Whether one more step may be played after `spent` in this episode."""
        if not self.by_step:
            return True
        return bool((sum_up(np.asarray(spent, dtype=np.float64), self.step) <= self.left).all())

    def spend(self, costs: Float) -> None:
        """Book the costs [L, d] of the steps of an episode."""
        for row in costs:
            self.spent = sum_up(self.spent, row)

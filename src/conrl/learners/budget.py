"""Hard budgets: realised costs over all episodes never exceed them, whatever the estimates (Section 5).

Before an episode it must be certain that its worst case fits: H times the largest cost of a step, from the task's
ranges. If not, the null action is played for the whole episode. Where an episode can be stopped (`Task.can_stop`), the
same is asked step by step instead, with the worst step. Books are kept in rational numbers, which the sums of floating
point numbers are: no rounding breaks a budget, and none keeps an episode from being played that fits. Within an episode
sums are rounded up where they are not exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl.errors import RunError
from conrl.task import Task

Float = NDArray[np.float64]


def sum_up(a: Float, b: Float) -> Float:
    """a + b elementwise, rounded up where it is not exact."""
    s = a + b
    rest = s - a
    inexact: NDArray[np.bool_] = (a - (s - rest)) + (b - rest) > 0.0
    return np.where(inexact, np.nextafter(s, np.inf), s)


class Budget:
    """What is left of the budgets [d] of a task; inf for none."""

    def __init__(self, task: Task, budgets: Float) -> None:
        self.budgets = budgets
        self.limited = [i for i in range(budgets.size) if np.isfinite(budgets[i])]
        self._books = [Fraction(0)] * budgets.size  # what was spent
        ranges = task.ranges[1:].tolist()
        highs = [max(high, 0.0) for _, high in ranges]
        self._never_negative = [low >= 0.0 for low, _ in ranges]
        self.step = np.array(highs)  # the worst step
        self._worst = [Fraction(high) * (1 if task.can_stop else task.horizon) for high in highs]  # before an episode
        self.by_step = task.can_stop

    @property
    def spent(self) -> Float:
        """[d]: what was spent, rounded up."""
        return np.array([_rounded(x, up=True) for x in self._books])

    @property
    def left(self) -> Float:
        """[d]: at most so much may still be spent, rounded down."""
        left = np.full(self.budgets.size, np.inf)
        for i in self.limited:
            left[i] = _rounded(Fraction(self.budgets[i]) - self._books[i], up=False)
        return left

    def admits(self) -> bool:
        """Whether an episode may begin."""
        return all(self._books[i] + self._worst[i] <= Fraction(self.budgets[i]) for i in self.limited)

    def may_step(self, spent: ArrayLike) -> bool:
        """Whether one more step may be played after `spent` in this episode."""
        if not self.by_step:
            return True
        return bool((sum_up(np.asarray(spent, dtype=np.float64), self.step) <= self.left).all())

    def spend(self, costs: Float) -> None:
        """Book the costs [L, d] of the steps of an episode."""
        for i in range(self.budgets.size):
            self._books[i] += sum(map(Fraction, costs[:, i].tolist()), Fraction(0))

    # -- saving -------------------------------------------------------------------------------------------

    def state(self) -> NDArray[np.str_]:
        """[d]: what was spent, exactly, as texts."""
        return np.array([str(x) for x in self._books], dtype=np.str_)

    def load_state(self, texts: Sequence[str]) -> None:
        """Go on from what `state` gave."""
        try:
            books = [Fraction(x) for x in texts]
        except (ValueError, TypeError, ZeroDivisionError, OverflowError):
            books = []
        if len(books) != self.budgets.size or any(
            x < 0 and never for x, never in zip(books, self._never_negative, strict=True)
        ):
            raise RunError("what was spent of the budgets makes no sense")
        self._books = books


def _rounded(exact: Fraction, up: bool) -> float:
    """The nearest number on one side."""
    near = float(exact)
    if (Fraction(near) < exact) if up else (Fraction(near) > exact):
        near = math.nextafter(near, math.inf if up else -math.inf)
    return near

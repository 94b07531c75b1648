"""Hard budgets: realised costs over all episodes never exceed them, whatever the estimates (Section 5).

Before an episode it must be certain that its worst case fits: H times the largest cost of a step, from the task's
ranges. If not, the null action is played for the whole episode. Where an episode can be stopped (`Task.can_stop`), the
same is asked step by step instead, with the worst step. Books are kept in rational numbers, which the sums of floating
point numbers are, and within an episode sums are rounded up where they are not exact. What they are compared with is
what a threshold means in a plan (`conrl.model.counting`): the budget and what rounding may have taken from it, so that
thirty costs of 0.1 fit into 3. A limit that no episode may exceed (`never`) is kept in the same way.

The books are one entry an episode, what it cost exactly; what was spent is their sum and is stored nowhere, so that no
file can claim another. An entry is kept as floating point numbers x_1, x_2, ... that add up to it exactly: x_1 is the
sum of the episode's costs rounded once, which is what a history holds, x_2 what is left of it, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl._types import Bool, Float, Int
from conrl.errors import RunError, SpecError
from conrl.model import Task
from conrl.model.counting import Sums
from conrl.model.tails import NEVER, Tail
from conrl.sampling import UNBOUND, Room


def sum_up(a: Float, b: Float) -> Float:
    """a + b elementwise, rounded up where it is not exact."""
    s = a + b
    rest = s - a
    inexact: Bool = (a - (s - rest)) + (b - rest) > 0.0
    return np.where(inexact, np.nextafter(s, np.inf), s)


class Budget:
    """What is left of the budgets [d] of a task; inf for none."""

    def __init__(self, task: Task, budgets: Float, episodes: int = 1) -> None:
        self.budgets = budgets
        self.limited = [i for i in range(budgets.size) if np.isfinite(budgets[i])]
        self._ranges, self._horizon, self._names = task.ranges[1:], task.horizon, task.cost_names
        low, high = self._ranges.T
        sums = [Sums.of(task.horizon, *ends, episodes) for ends in zip(low, high, strict=True)]
        self._reach = {i: sums[i].reach(budgets[i]) for i in self.limited}
        self._books = [Fraction(0)] * budgets.size  # what was spent
        self._elsewhere = [Fraction(0)] * budgets.size  # of it, what no episode cost
        self._entries: list[list[tuple[float, ...]]] = []  # [K][d]: what each episode cost
        self._never_negative = (low >= 0.0).tolist()
        self.step = np.maximum(high, 0.0)  # the worst step
        self._worst = [Fraction(x) * (1 if task.can_stop else task.horizon) for x in self.step]  # before an episode
        self.can_stop = task.can_stop

    def __repr__(self) -> str:
        return f"Budget({', '.join(self._told(i) for i in self.limited)})"

    def _told(self, i: int) -> str:
        return f"{self.spent[i]:.10g} spent of {self.budgets[i]:.10g} of {self._names[i]!r}"

    def exceeded(self, costs: Float) -> str:
        """The budgets that are exceeded after an episode that cost something of them; empty if none is."""
        paid = _totals(costs)
        over = [i for i in self.limited if paid[i] > 0 and self._books[i] > self._reach[i]]
        return ", ".join(map(self._told, over))

    @property
    def spent(self) -> Float:
        """[d]: what was spent, rounded up."""
        return np.array([_rounded(x, up=True) for x in self._books])

    @property
    def left(self) -> Float:
        """[d]: the budgets less what was spent, rounded down; 0 where that is 0 but for rounding."""
        left = np.full(self.budgets.size, np.inf)
        for i in self.limited:
            budget = Fraction(self.budgets[i])
            rest = budget - self._books[i]
            left[i] = 0.0 if abs(rest) <= self._reach[i] - budget else _rounded(rest, up=False)
        return left

    @property
    def room(self) -> Room:
        """[d] each: the most that may still be spent, rounded down, and the worst step."""
        left = np.full(self.budgets.size, np.inf)
        for i in self.limited:
            left[i] = _rounded(self._reach[i] - self._books[i], up=False)
        return left, self.step

    def admits(self) -> bool:
        """Whether an episode may begin."""
        return all(self._books[i] + self._worst[i] <= self._reach[i] for i in self.limited)

    def may_step(self, spent: ArrayLike) -> bool:
        """Whether one more step may be played after `spent` in this episode."""
        if not self.can_stop:
            return True
        left, step = self.room
        return bool((sum_up(np.asarray(spent, dtype=np.float64), step) <= left).all())

    def spend(self, costs: Float) -> None:
        """Book costs [L, d] that arose elsewhere, not in an episode of the learner; refunds are negative."""
        for i, paid in enumerate(_totals(costs)):
            self._elsewhere[i] += paid
            self._books[i] += paid

    def spend_episode(self, costs: Float) -> None:
        """Book the costs [L, d] of the steps of an episode; [0, d] of one that was skipped."""
        paid = _totals(costs)
        self._books = [x + y for x, y in zip(self._books, paid, strict=True)]
        self._entries.append([_parts(x) for x in paid])

    # -- saving and checking ------------------------------------------------------------------------------

    def state(self) -> Float:
        """[1+K, d, m]: what was booked from elsewhere, then the entry of each episode, filled up with zeros."""
        rows = [[_parts(x) for x in self._elsewhere], *self._entries]
        table = np.zeros((len(rows), self.budgets.size, max((len(x) for row in rows for x in row), default=1)))
        for row, entries in zip(table, rows, strict=True):
            for numbers, parts in zip(row, entries, strict=True):
                numbers[: len(parts)] = parts
        return table

    def load_state(self, table: NDArray[np.generic], episodes: int) -> None:
        """Resume from what `state` gave after so many episodes; what was spent is added up again."""
        d = self.budgets.size
        if table.dtype != np.float64 or table.ndim != 3 or table.shape[:2] != (1 + episodes, d):
            raise RunError(f"the books are no entries of {episodes} episodes")
        if not np.isfinite(table).all():
            raise RunError("an entry in the books is not finite")
        exact = [[sum(map(Fraction, parts), Fraction(0)) for parts in row] for row in table.tolist()]
        entries = [[_parts(x) for x in row] for row in exact]
        if any(
            _trimmed(parts) != x
            for row, kept in zip(table.tolist(), entries, strict=True)
            for parts, x in zip(row, kept, strict=True)
        ):
            raise RunError("an entry in the books is not written as the guard writes it")
        spent = [sum(column, Fraction(0)) for column in zip(*exact, strict=True)]
        if any(x < 0 and never for x, never in zip(spent, self._never_negative, strict=True)):
            raise RunError("less than nothing was spent of a cost that is never negative")
        self._elsewhere, self._entries, self._books = exact[0], entries[1:], spent

    @property
    def booked(self) -> Float:
        """[K, d]: what each episode cost, rounded once."""
        return np.array([[parts[0] for parts in row] for row in self._entries]).reshape(-1, self.budgets.size)

    def check_history(self, costs: Float, steps: Int) -> None:
        """Refuse books that are not those of a run in which these episodes [K, d] were realised, and nothing else."""
        if any(self._elsewhere):
            raise RunError("the books hold costs that no episode of the run had")
        wrong = ((self.booked != costs) | ((steps == 0)[:, None] & (costs != 0.0))).any(axis=1)
        if wrong.any():
            raise RunError(f"the books and the history differ about episode {int(np.argmax(wrong)) + 1}")

    def check_counts(self, visits: Int, sums: Float, primed: int) -> None:
        """Refuse books that do not fit what was counted: visits [P] and costs [P, d] of all pairs.

        Counted is what was booked for the episodes and what `primed` logged ones cost, of which only their number is
        known: each costs something between 0 or H times the least and 0 or H times the largest cost of a step. A sum
        of n floating point numbers of size c is off by at most n^2 c times the rounding of one.
        """
        size = np.abs(self._ranges).max(axis=1, initial=0.0)
        rounding = np.finfo(np.float64).eps * float(visits.astype(np.float64).sum()) ** 2 * size
        low, high = np.minimum(self._ranges[:, 0], 0.0), np.maximum(self._ranges[:, 1], 0.0)
        logged = sums.sum(axis=0) - np.array([float(x - y) for x, y in zip(self._books, self._elsewhere, strict=True)])
        many = primed * self._horizon
        if not ((many * low - rounding <= logged) & (logged <= many * high + rounding)).all():
            raise RunError("the books do not add up to the costs that were counted")


def never_room(task: Task, tails: Sequence[Tail]) -> Room:
    """What limits that no episode may exceed leave one episode, and what one step can cost, [d] each; empty if there is
    none."""
    nevers = [tail for tail in tails if tail.kind == NEVER]
    if not nevers:
        return UNBOUND
    if not task.can_stop:
        raise SpecError(
            "never is kept by ending an episode before a step that might exceed it; that needs a task with "
            "can_stop=True",
            key=("never",),
        )
    left = np.full(task.num_costs, np.inf)
    for tail in nevers:
        if tail.limit < 0.0:
            name = task.cost_names[tail.cost]
            raise SpecError(
                f"never[{name!r}] is {tail.limit:g}: an episode that is ended at once costs 0, so that ending it "
                "keeps no limit below 0",
                key=("never", name),
            )
        left[tail.cost] = min(left[tail.cost], _rounded(tail.threshold, up=False))
    return left, task.ranges[1:, 1].copy()


def exact_total(costs: Float) -> Float:
    """[d]: the sum of costs [L, d], rounded once."""
    try:
        return np.array([math.fsum(column) for column in costs.T.tolist()])
    except OverflowError:
        raise RunError("the costs of an episode add up to more than a number can hold; use larger units") from None


def _totals(costs: Float) -> list[Fraction]:
    """[d]: the exact sums of costs [L, d]."""
    return [sum(map(Fraction, column), Fraction(0)) for column in costs.T.tolist()]


def _parts(exact: Fraction) -> tuple[float, ...]:
    """Floating point numbers that add up to a sum of such numbers, each the nearest to what is left; at least one."""
    parts = [float(exact)]
    while exact := exact - Fraction(parts[-1]):
        parts.append(float(exact))
    return tuple(parts)


def _trimmed(parts: list[float]) -> tuple[float, ...]:
    """Without the zeros that fill an entry up."""
    count = len(parts)
    while count > 1 and parts[count - 1] == 0.0:
        count -= 1
    return tuple(parts[:count])


def _rounded(exact: Fraction, up: bool) -> float:
    """The nearest number on one side."""
    near = float(exact)
    if (Fraction(near) < exact) if up else (Fraction(near) > exact):
        near = math.nextafter(near, math.inf if up else -math.inf)
    return near

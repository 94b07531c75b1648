"""The little program that the page solves, here for whoever fills the page: the best mixture of some columns.

    maximise  sum_i w_i r_i    subject to  sum_i w_i u_i <= h,  sum_i w_i = 1,  w >= 0            (1)

with u_i = G z_i [R] what a column uses of each row, and where that has no solution, the least t in

    minimise  t    subject to  sum_i w_i u_i <= h + t units,  sum_i w_i = 1,  w, t >= 0           (2)

One HiGHS model is kept; columns are added, and h moves. The first column is t, which is 0 in (1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import highspy
import numpy as np

from conrl._types import Float, Int

OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "parallel": "off",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}
LIGHT = 1e-9  # weight of a column that is left out
DECIDED = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)


class Mixed(NamedTuple):
    """What the program says at some h."""

    reward: float  # the best; -inf if no mixture keeps h
    short: float  # the least t, in units of the rows
    prices: Float  # [R]: multipliers l >= 0 of the rows, of (1) or, if t > 0, of (2)
    base: float  # a column gains if  r - l.u > base  or, if t > 0, if  -l.u > base
    parts: Int  # the columns that are mixed


class Mixing:
    """The best mixtures of the columns added so far. Rows are divided by `unit` [R], rewards by another.

    Rewards count from `zero`, which the weights allow since they add up to 1.
    """

    def __init__(self, unit: Float, reward_unit: float, zero: float) -> None:
        self.unit, self.reward_unit, self.zero = unit, reward_unit, zero
        self._highs = highspy.Highs()
        for name, value in OPTIONS.items():
            self._highs.setOptionValue(name, value)
        none, empty = np.array([], dtype=np.int32), np.array([])
        self._highs.addRow(1.0, 1.0, 0, none, empty)
        for _ in unit:
            self._highs.addRow(-highspy.kHighsInf, highspy.kHighsInf, 0, none, empty)
        self._rows = np.arange(unit.size + 1, dtype=np.int32)
        self._highs.addCol(0.0, 0.0, 0.0, unit.size, self._rows[1:], np.full(unit.size, -1.0))
        self._costs, self._most = [0.0], np.zeros(unit.size)

    def add(self, reward: float, use: Float) -> None:
        """One more column."""
        entries = np.concatenate(([1.0], use / self.unit))
        self._costs.append((self.zero - reward) / self.reward_unit)
        self._most = np.maximum(self._most, entries[1:])
        self._highs.addCol(self._costs[-1], 0.0, highspy.kHighsInf, self._rows.size, self._rows, entries)

    def best(self, bound: Float) -> float | None:
        """The best reward within the bounds [R], inf for none; None if no mixture keeps them."""
        self._move(bound)
        return self._reward() if self._run() else None

    def mixed(self, bound: Float) -> Mixed:
        """The same with the multipliers and the parts."""
        self._move(bound)
        if self._run():
            prices, base, parts = self._answer(self.reward_unit)
            return Mixed(self._reward(), 0.0, prices, base + self.zero, parts)
        every = np.arange(len(self._costs), dtype=np.int32)
        self._highs.changeColsCost(every.size, every, (every == 0).astype(np.float64))
        self._highs.changeColBounds(0, 0.0, highspy.kHighsInf)
        short = float(self._highs.getInfo().objective_function_value) if self._run() else 0.0
        answer = self._answer(1.0)
        self._highs.changeColsCost(every.size, every, np.array(self._costs))
        self._highs.changeColBounds(0, 0.0, 0.0)
        return Mixed(-np.inf, short, *answer)

    def _reward(self) -> float:
        """Of what was solved last."""
        return self.zero - float(self._highs.getInfo().objective_function_value) * self.reward_unit

    def _answer(self, unit: float) -> tuple[Float, float, Int]:
        """Multipliers, base and parts of what was solved last, whose objective is in such units."""
        solution = self._highs.getSolution()
        dual = -np.array(solution.row_dual) * unit
        parts = np.flatnonzero(np.array(solution.col_value)[1:] > LIGHT)
        return np.maximum(dual[1:], 0.0) / self.unit, float(dual[0]), parts

    def _move(self, bound: Float) -> None:
        # No column uses more than 1 + most. Rows that come and go confuse the simplex method of HiGHS.
        for r, h in enumerate(np.minimum(bound / self.unit, 1.0 + self._most).tolist()):
            self._highs.changeRowBounds(1 + r, -highspy.kHighsInf, h)

    def _run(self) -> bool:
        """Whether there is a solution."""
        self._highs.run()
        if self._highs.getModelStatus() not in DECIDED:  # from the last basis it may not be
            self._highs.clearSolver()
            self._highs.run()
        return bool(self._highs.getModelStatus() == DECIDED[0])

"""The little program that the page solves, here for whoever fills the page: the best mixture of some columns.

    maximise  sum_i w_i r_i    subject to  sum_i w_i u_i <= h,  sum_i w_i = 1,  w >= 0

with u_i = G z_i [R] what a column uses of each row. One HiGHS model is kept; columns are added, and h moves.
"""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from conrl._types import Float

OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "parallel": "off",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


class Mixing:
    """The best reward of mixtures of the columns added so far. Rows are divided by `unit` [R], rewards by another."""

    def __init__(self, unit: Float, reward_unit: float) -> None:
        self.unit, self.reward_unit = unit, reward_unit
        self._highs = highspy.Highs()
        for name, value in OPTIONS.items():
            self._highs.setOptionValue(name, value)
        none, empty = np.array([], dtype=np.int32), np.array([])
        self._highs.addRow(1.0, 1.0, 0, none, empty)
        for _ in unit:
            self._highs.addRow(-highspy.kHighsInf, highspy.kHighsInf, 0, none, empty)
        self._rows = np.arange(unit.size + 1, dtype=np.int32)

    def add(self, reward: float, use: Float) -> None:
        """One more column."""
        entries = np.concatenate(([1.0], use / self.unit))
        self._highs.addCol(-reward / self.reward_unit, 0.0, highspy.kHighsInf, self._rows.size, self._rows, entries)

    def best(self, bound: Float) -> float | None:
        """The best reward within the bounds [R], inf for none; None if no mixture keeps them."""
        for r, h in enumerate((bound / self.unit).tolist()):
            self._highs.changeRowBounds(1 + r, -highspy.kHighsInf, h if np.isfinite(h) else highspy.kHighsInf)
        self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        return -float(self._highs.getInfo().objective_function_value) * self.reward_unit

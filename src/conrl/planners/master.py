"""The master problem of column generation: the best mixture of the points found so far.

    maximise    sum_j x_j a.z_j                 (or, to become feasible first: minimise t)
    subject to  sum_j x_j = 1,  x >= 0
                sum_j x_j G_r.z_j - u_r t <= h_r    for each row r, with t fixed in the first form

A linear program with R + 1 rows, kept warm in one HiGHS model. Rows are divided by their unit u_r, the
objective by its own, so that tolerances mean the same whatever the units of the costs.
"""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from conrl.errors import RunError

Float = NDArray[np.float64]

_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "simplex_strategy": 4,  # primal: new columns leave the last basis feasible
    "parallel": "off",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


ACCEPTED = 1e-9  # violation, in units of the rows, of a point at which HiGHS gave up


class Master:
    """One warm HiGHS model. Multipliers are returned in the units of the rows as given."""

    def __init__(self, bound: Float, unit: Float, objective_unit: float) -> None:
        self.unit = unit
        self.objective_unit = objective_unit
        self._gain: list[float] = []
        self._use: list[Float] = []
        self._limit = bound / unit
        self._violation = True
        highs = highspy.Highs()
        for name, value in _OPTIONS.items():
            highs.setOptionValue(name, value)
        none, empty = np.array([], dtype=np.int32), np.array([])
        highs.addRow(1.0, 1.0, 0, none, empty)
        for h in self._limit:
            highs.addRow(-highspy.kHighsInf, float(h), 0, none, empty)
        self._rows = np.arange(bound.size + 1, dtype=np.int32)
        highs.addCol(1.0, -highspy.kHighsInf, highspy.kHighsInf, bound.size, self._rows[1:], np.full(bound.size, -1.0))
        self._highs = highs

    def add(self, gains: Float, uses: Float) -> None:
        """New points: their objective a.z [m] and row values G z [m, R]."""
        for gain, use in zip(gains / self.objective_unit, uses / self.unit, strict=True):
            cost = 0.0 if self._violation else -float(gain)
            self._highs.addCol(cost, 0.0, highspy.kHighsInf, self._rows.size, self._rows, np.concatenate(([1.0], use)))
            self._gain.append(float(gain))
            self._use.append(use)

    def pursue_objective(self, violation: float) -> None:
        """From now on maximise, with the violation t fixed at what has been reached."""
        self._violation = False
        n = len(self._gain)
        self._highs.changeColCost(0, 0.0)
        self._highs.changeColBounds(0, violation, violation)
        self._highs.changeColsCost(n, np.arange(1, n + 1, dtype=np.int32), -np.array(self._gain))

    def gain(self, weights: Float) -> float:
        """The objective of a mixture."""
        return float(weights @ np.array(self._gain)) * self.objective_unit

    def solve(self) -> tuple[Float, Float, float]:
        """Weights of the points [n], multipliers of the rows [R] (>= 0), and the violation t."""
        highs = self._highs
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            highs.clearSolver()  # without the last basis; the program itself is always feasible and bounded
            highs.run()
        optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        solution = highs.getSolution()
        values = np.array(solution.col_value)
        weights, violation = values[1:], float(values[0])
        if not optimal:
            weights, violation = self._accept(weights, violation)
        multipliers = np.maximum(-np.array(solution.row_dual)[1:], 0.0) / self.unit
        if not self._violation:
            multipliers *= self.objective_unit
        return weights, multipliers, violation

    def _accept(self, weights: Float, violation: float) -> tuple[Float, float]:
        """A point at which HiGHS gave up, if it is as good as feasible: any mixture will do, and the bound on the
        optimum is proven elsewhere."""
        weights = np.maximum(weights, 0.0)
        if weights.size != len(self._use) or not 0.5 < weights.sum() < 2.0:
            raise RunError(f"the master problem ended as {self._highs.getModelStatus()}; please report the model")
        weights = weights / weights.sum()
        reached = float((weights @ np.array(self._use) - self._limit).max())
        if not self._violation and reached > violation + ACCEPTED:
            raise RunError(f"the master problem ended as {self._highs.getModelStatus()}; please report the model")
        return weights, reached if self._violation else violation

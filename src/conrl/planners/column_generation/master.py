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

from conrl._types import Float

_OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "presolve": "off",
    "solver": "simplex",
    "simplex_strategy": 4,  # primal: new columns leave the last basis feasible
    "parallel": "off",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


TIGHT = (1e-8, 1e-6)  # in units of the rows: how near to its bound a row is taken to be tight; what follows is checked


class Unsolved(Exception):
    """HiGHS gave no answer."""


class Master:
    """One warm HiGHS model. Multipliers are returned in the units of the rows as given."""

    def __init__(self, bound: Float, unit: Float, objective_unit: float) -> None:
        self.bound, self.unit = bound, unit
        self.objective_unit = objective_unit
        self._gain: list[float] = []
        self._limit = bound / unit
        self._minimise_t = True
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

    @property
    def count(self) -> int:
        return len(self._gain)

    def add(self, gains: Float, uses: Float) -> None:
        """New points: their objective a.z [m] and row values G z [m, R]."""
        for gain, use in zip(gains / self.objective_unit, uses / self.unit, strict=True):
            cost = 0.0 if self._minimise_t else -float(gain)
            self._highs.addCol(cost, 0.0, highspy.kHighsInf, self._rows.size, self._rows, np.concatenate(([1.0], use)))
            self._gain.append(float(gain))

    def pursue_objective(self, violation: float) -> None:
        """From now on maximise, with the violation t fixed at what has been reached."""
        self._minimise_t = False
        n = len(self._gain)
        self._highs.changeColCost(0, 0.0)
        self._highs.changeColBounds(0, violation, violation)
        self._highs.changeColsCost(n, np.arange(1, n + 1, dtype=np.int32), -np.array(self._gain))

    def gain(self, weights: Float) -> float:
        """The objective of a mixture."""
        return float(weights @ np.array(self._gain)) * self.objective_unit

    def solve(self) -> tuple[Float, Float, float]:
        """Weights of the points [n], multipliers of the rows [R] (>= 0), and the violation t.

        To HiGHS' tolerances and in doubles: any mixture and any multipliers are of use, but they prove nothing.
        """
        highs = self._highs
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            highs.clearSolver()  # without the last basis; the program itself is always feasible and bounded
            highs.run()
        solution = highs.getSolution()
        values = np.array(solution.col_value)
        weights, violation = np.maximum(values[1:], 0.0), float(values[0])
        total = float(weights.sum())
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal or not 0.5 < total < 2.0:
            raise Unsolved
        multipliers = np.maximum(-np.array(solution.row_dual)[1:], 0.0) / self.unit
        if not self._minimise_t:
            multipliers *= self.objective_unit
        return weights / total, multipliers, violation

    def polished(self, weights: Float, uses: Float, limit: Float) -> Float:
        """The weights again from the rows that are tight, to rounding instead of to HiGHS' tolerance, if that can be.

        `uses` [n, R] are the row values of the points that carry weight.
        """
        uses, limit = uses / self.unit, limit / self.unit
        for near in TIGHT:
            tight = np.abs(weights @ uses - limit) <= near
            system = np.vstack((np.ones(weights.size), uses[:, tight].T))
            target = np.concatenate(([1.0], limit[tight]))
            exact = np.asarray(np.linalg.lstsq(system, target, rcond=None)[0], dtype=np.float64)
            if np.abs(system @ exact - target).max() <= 1e-12 and exact.min() >= 0.0:
                exact /= float(exact.sum())
                if (exact @ uses <= limit + 1e-12).all():
                    return exact
        return weights / float(weights.sum())

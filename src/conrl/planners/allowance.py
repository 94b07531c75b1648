"""When a row counts as kept, and how far a bound is rounded outward: the one place that says so.

A row  sign * z[1 + cost] <= bound  counts as kept if it is exceeded by at most

    allowance = 1e-9 |bound| + 4 rho                                                      (1)

where rho is a proven bound on the rounding of its value (`SupportOracle.rounding`): about 1e-16, times the operations
on the way, times the largest expected total of the cost's size. Nothing else: a limit of 0.5 on what costs 1e9 with
probability 1e-9 is a limit of 0.5. What is computed may exceed the bound by half of the first part and one rho (the
`aim`; a mixture that cannot be had so, by twice that: `computed`), and is itself off by at most rho; the last rho is
that of the mixture's Markov form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conrl.oracles.protocols import ROUNDING, SupportOracle
from conrl.problem import Rows

Float = NDArray[np.float64]

FEASIBILITY = 1e-9  # of its bound, by which a row may be exceeded
NEGLIGIBLE = 0.1  # share of a tolerance that rounding may take before it is worth a sweep to know it better


class Allowance:
    """What rounding means for some rows."""

    def __init__(self, oracle: SupportOracle, rows: Rows) -> None:
        self._oracle, self._rows = oracle, rows
        self._rounding = oracle.rounding()
        size = np.abs(rows.bound)
        relative = FEASIBILITY * size
        rho = self._rounding.point[1 + rows.cost]
        if (rho > NEGLIGIBLE * relative).any():
            self._rounding = oracle.rounding(sharp=True)
            rho = self._rounding.point[1 + rows.cost]
        rho = rho + 4.0 * ROUNDING * size
        self.aim: Float = 0.5 * relative + rho  # [R]
        self.computed: Float = 2.0 * self.aim  # [R]
        self.stated: Float = relative + 4.0 * rho  # [R]: Eq. (1)

    def outward(self, a: Float, multipliers: Float, room: float) -> float:
        """What support(a - G'multipliers) + multipliers.bound may be too low by; exactly known where `room` is small."""
        error = self._error(a, multipliers)
        if error > NEGLIGIBLE * room:
            self._rounding = self._oracle.rounding(sharp=True)
            error = self._error(a, multipliers)
        return error

    def _error(self, a: Float, multipliers: Float) -> float:
        support = self._rounding.support
        each = support[1 + self._rows.cost] + (self._rows.size + 4) * ROUNDING * np.abs(self._rows.bound)
        return float(np.abs(a) @ support) + float(multipliers @ each)

    def bought(self, multipliers: Float) -> float:
        """What exceeding every row by its allowance gains at most."""
        return float(multipliers @ self.stated)

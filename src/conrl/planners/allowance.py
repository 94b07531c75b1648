"""When a row counts as kept, and how far a bound is rounded outward: only this file says so.

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

from conrl._types import Float
from conrl.oracles.protocols import HALF_ULP, SupportOracle
from conrl.problem import Rows

FEASIBILITY = 1e-9  # of its bound, by which a row may be exceeded
UNDERFLOW = 1e-300  # what underflow may lose of a bound, generously
SWEEP_SHARE = 0.1  # share of a tolerance that rounding may take before it is worth a sweep to know it better


class Allowance:
    """What rounding means for some rows."""

    def __init__(self, oracle: SupportOracle, rows: Rows) -> None:
        self._oracle = oracle
        self._cost, self._size = rows.cost.tolist(), [abs(x) for x in rows.bound.tolist()]  # few: quicker than numpy
        self._rounding = oracle.rounding()
        rho = self._of_rows(self._rounding.point)
        if any(r > SWEEP_SHARE * FEASIBILITY * size for r, size in zip(rho, self._size, strict=True)):
            self._rounding = oracle.rounding(sharp=True)
            rho = self._of_rows(self._rounding.point)
        share = 0.5 * FEASIBILITY + 4.0 * HALF_ULP
        self.aim: Float = np.array([share * size + r for r, size in zip(rho, self._size, strict=True)])  # [R]

    def _of_rows(self, values: Float) -> list[float]:
        each = values.tolist()
        return [each[1 + i] for i in self._cost]

    @property
    def computed(self) -> Float:
        """[R]: by how much a computed value may exceed its bound."""
        return 2.0 * self.aim

    @property
    def stated(self) -> Float:
        """[R]: Eq. (1)."""
        return 4.0 * self.aim - FEASIBILITY * np.array(self._size)

    def outward(self, a: Float, multipliers: Float, tolerance: float) -> float:
        """What support(a - G'multipliers) + multipliers.bound may be too low by; sharper where `tolerance` is small."""
        error = self._error(a, multipliers)
        if error > SWEEP_SHARE * tolerance:
            self._rounding = self._oracle.rounding(sharp=True)
            error = self._error(a, multipliers)
        return error

    def _error(self, a: Float, multipliers: Float) -> float:
        support, unit = self._rounding.support, (len(self._size) + 4) * HALF_ULP
        error = sum(abs(x) * e for x, e in zip(a.tolist(), support.tolist(), strict=True))
        for m, e, size in zip(multipliers.tolist(), self._of_rows(support), self._size, strict=True):
            error += m * (e + unit * size)
        return float(error) + UNDERFLOW if error > 0.0 else 0.0

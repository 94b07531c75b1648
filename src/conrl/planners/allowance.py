"""When a row counts as kept, and how far a bound is rounded outward: only this file says so.

A row  sign * z[1 + cost] <= bound  counts as kept if it is exceeded by at most

    allowance = 1e-9 |bound| + 4 rho                                                      (1)

where rho is a proven bound on the rounding of its value: about 1e-16, times the operations on the way, times the
expected total of the cost's size. Of which policy? The largest there is (`SupportOracle.rounding`) serves for all, if
it is negligible. If it is not, since some action costs 1e9, it is that of each point itself
(`SupportOracle.point_error`): an action that is never played does not loosen a limit. Nothing else: a limit of 0.5 on
what costs 1e9 with probability 1e-9 is a limit of 0.5. Planners try to exceed the bound by no more than half of the
first part plus one rho (`aim`), and accept twice that (`computed`). What they compute is itself off by at most rho; the
last rho is for the mixture's Markov form.
"""

from __future__ import annotations

import copy
from typing import Self

import numpy as np

from conrl._types import Float
from conrl.oracles.protocols import SupportOracle
from conrl.problem import Rows
from conrl.rounding import HALF_ULP, TINY

FEASIBILITY = 1e-9  # of its bound, by which a row may be exceeded
UNDERFLOW = 1e-300  # what underflow may lose of a bound, generously
SWEEP_SHARE = 0.1  # share of a tolerance that rounding may take before it is worth a sweep to know it better


class Allowance:
    """What rounding means for some rows.

    `aim`, `computed` and `stated` [R] are by how much a row's value may exceed its bound: as it is sought, as it is
    computed, and Eq. (1). Where `by_point`, they are of the policy with the largest totals, and `of` gives those of
    others.
    """

    def __init__(self, oracle: SupportOracle, rows: Rows) -> None:
        self._oracle, self._rounding, self._sharp = oracle, oracle.rounding(), False
        self._cost, self._size = rows.cost.tolist(), [abs(x) for x in rows.bound.tolist()]  # few: quicker than numpy
        rho = self._rounding.point.tolist()
        if any(rho[1 + i] > SWEEP_SHARE * FEASIBILITY * size for i, size in zip(self._cost, self._size, strict=True)):
            self._rounding, self._sharp = oracle.rounding(sharp=True), True
            rho = self._rounding.point.tolist()
        share = 0.5 * FEASIBILITY + 4.0 * HALF_ULP
        self.by_point = any(
            rho[1 + i] > SWEEP_SHARE * FEASIBILITY * size for i, size in zip(self._cost, self._size, strict=True)
        )
        # Never 0, as they are divided by: a limit of 0 on what never costs anything is kept exactly.
        self._least: Float = np.array([share * size + TINY for size in self._size])
        self._put(np.array([rho[1 + i] for i in self._cost]))

    def _put(self, rho: Float) -> None:
        self.aim: Float = self._least + rho
        self.computed: Float = 2.0 * self.aim
        self.stated: Float = 4.0 * self.aim - FEASIBILITY * np.array(self._size)

    def of(self, error: Float) -> Self:
        """The same for a policy, or a mixture, whose value vector is off by at most error [1+d]."""
        own = copy.copy(self)
        own._put(error[1 + np.array(self._cost, dtype=np.int64)])
        return own

    def proof(self, multipliers: Float, w: Float, value: float) -> float:
        """By how much rows, weighed with multipliers [R], must be exceeded by every point for a conflict: support(w),
        computed as `value`, says by how much they are."""
        if not self.by_point:
            return float(multipliers @ self.aim)
        return float(multipliers @ self._least) + self._oracle.support_error(w, value)

    def outward(self, a: Float, multipliers: Float, tolerance: float) -> float:
        """What support(a - G'multipliers) + multipliers.bound may be too low by; sharper where `tolerance` is small."""
        support, unit = self._rounding.support.tolist(), (len(self._size) + 4) * HALF_ULP
        error = sum(abs(x) * e for x, e in zip(a.tolist(), support, strict=True))
        for m, i, size in zip(multipliers.tolist(), self._cost, self._size, strict=True):
            error += m * (support[1 + i] + unit * size)
        error = float(error) + UNDERFLOW if error > 0.0 else 0.0
        if error > SWEEP_SHARE * tolerance and not self._sharp:
            self._rounding, self._sharp = self._oracle.rounding(sharp=True), True
            return self.outward(a, multipliers, tolerance)
        return error

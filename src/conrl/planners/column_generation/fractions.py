"""The master problem of column generation in rational arithmetic: for where doubles do not decide.

The same program as that of `conrl.planners.column_generation.master`, with a slack s_r for each row,

    maximise    sum_j x_j a.z_j                 (or, to become feasible first: maximise -t)
    subject to  sum_j x_j = 1,   sum_j x_j G_r.z_j + s_r - u_r t = h_r,   x, s, t >= 0

by the primal simplex method on fractions. Doubles are fractions, so that nothing is rounded: the weights are those of
the exact optimum, whatever the units, and one of several rows that are nearly the same is told from another. A vertex
is known from the start: one point alone, and t as large as it needs. Entering columns are found by Dantzig's rule in
doubles and checked in fractions; after a step that gains nothing by Bland's rule, which cannot cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from conrl._types import Float

Vector = list[Fraction]

ZERO, ONE = Fraction(0), Fraction(1)
VIOLATION = -1  # the column of t; slacks are -2, -3, ..; points 0, 1, ..


class RationalMaster:
    """Slow, exact; otherwise as `Master`, whose arguments its methods take, needed or not."""

    def __init__(self, bound: Float, unit: Float) -> None:
        self.bound, self.unit = bound, unit
        self._gains = np.zeros(0)  # [n]: in doubles, to look for promising columns
        self._uses = np.zeros((0, bound.size))
        self._unit = [Fraction(u) for u in unit.tolist()]
        self._right = [ONE, *(Fraction(h) for h in bound.tolist())]
        self._gain: Vector = []
        self._use: list[Vector] = []  # [n][R]
        self._minimise_t = True
        self._basis: list[int] = []  # [R+1]: the column of each row
        self._inverse: list[Vector] = []  # of the basic columns
        self._level: Vector = []  # the value of each

    @property
    def count(self) -> int:
        return len(self._gain)

    def add(self, gains: Float, uses: Float) -> None:
        """New points: their objective a.z [m] and row values G z [m, R]."""
        self._gains, self._uses = np.append(self._gains, gains), np.vstack((self._uses, uses))
        self._gain += [Fraction(g) for g in gains.tolist()]
        self._use += [[Fraction(x) for x in row] for row in uses.tolist()]

    def pursue_objective(self, violation: float) -> None:
        """From now on maximise, with the violation t fixed at what has been reached."""
        reached = self._violation()
        self._minimise_t = False
        if reached > ZERO:
            for r, unit in enumerate(self._unit):
                self._right[1 + r] += unit * reached
            self._level = [_dot(row, self._right) for row in self._inverse]

    def gain(self, weights: Float) -> float:
        """The objective of a mixture."""
        return float(weights @ self._gains)

    def solve(self) -> tuple[Float, Float, float]:
        """Weights of the points [n], multipliers of the rows [R] (>= 0), and the violation t."""
        if not self._basis:
            self._begin()
        stuck = False
        while True:
            prices = self._prices()
            entering = next(self._gaining(prices, stuck), None)
            if entering is None:
                break
            stuck = not self._step(entering)
        weights = np.zeros(len(self._gain))
        for column, level in zip(self._basis, self._level, strict=True):
            if column >= 0:
                weights[column] = float(level)
        return weights, np.array([float(p) for p in prices[1:]]), float(self._violation())

    def polished(self, weights: Float, uses: Float, limit: Float) -> Float:
        """The weights, which are exact but for their last bit."""
        return weights / float(weights.sum())

    # -- the simplex method -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The first point alone, with t at its largest violation (or 0)."""
        R = len(self._unit)
        self._basis = [0, *(_slack(r) for r in range(R))]
        self._inverse = [[ONE if i == j else ZERO for j in range(1 + R)] for i in range(1 + R)]
        for row, use in zip(self._inverse[1:], self._use[0], strict=True):
            row[0] = -use
        self._level = [_dot(row, self._right) for row in self._inverse]
        lacking = [level / unit for level, unit in zip(self._level[1:], self._unit, strict=True)]
        worst = min(range(R), key=lacking.__getitem__)
        if lacking[worst] < ZERO:
            self._exchange(1 + worst, VIOLATION, [ZERO, *(-u for u in self._unit)])

    def _worth(self, j: int) -> Fraction:
        if self._minimise_t:
            return -ONE if j == VIOLATION else ZERO
        return self._gain[j] if j >= 0 else ZERO

    def _prices(self) -> Vector:
        """[R+1]: the multipliers of the rows, that of sum x = 1 first."""
        worth = [self._worth(j) for j in self._basis]
        return [_dot(worth, column) for column in zip(*self._inverse, strict=True)]

    def _gaining(self, prices: Vector, stuck: bool) -> Iterator[int]:
        """Columns that gain if they enter: the most promising first or, if `stuck`, in a fixed order."""
        for r in reversed(range(len(self._unit))):
            if prices[1 + r] < ZERO:
                yield _slack(r)
        order: list[int] = list(range(len(self._gain)))
        if not stuck:
            gains = 0.0 if self._minimise_t else self._gains
            order = np.argsort(self._uses @ np.array([float(p) for p in prices[1:]]) - gains, kind="stable").tolist()
        for j in order:
            if self._worth(j) > prices[0] + _dot(prices[1:], self._use[j]):
                yield j

    def _step(self, entering: int) -> bool:
        """Exchange a basic column for a point or a slack; whether anything was gained."""
        if entering >= 0:
            moved = [_dot(row, [ONE, *self._use[entering]]) for row in self._inverse]
        else:
            moved = [row[-1 - entering] for row in self._inverse]  # 1 in its own row, 0 in the others
        leaving, least = -1, ZERO
        for i, (rate, level) in enumerate(zip(moved, self._level, strict=True)):
            if self._basis[i] == VIOLATION and level == ZERO and rate != ZERO:
                leaving, least = i, ZERO  # t has done its work
                break
            if rate > ZERO:
                ratio = level / rate
                if leaving < 0 or ratio < least or (ratio == least and self._basis[i] < self._basis[leaving]):
                    leaving, least = i, ratio
        self._exchange(leaving, entering, moved)
        return least > ZERO

    def _exchange(self, leaving: int, entering: int, moved: Vector) -> None:
        """Put the column `entering`, which is `moved` in terms of the basis, into its row `leaving`."""
        pivot = moved[leaving]
        row, least = [x / pivot for x in self._inverse[leaving]], self._level[leaving] / pivot
        for i, rate in enumerate(moved):
            if i != leaving and rate != ZERO:
                self._inverse[i] = [x - rate * y for x, y in zip(self._inverse[i], row, strict=True)]
                self._level[i] -= rate * least
        self._inverse[leaving], self._level[leaving] = row, least
        self._basis[leaving] = entering

    def _violation(self) -> Fraction:
        if not self._minimise_t or VIOLATION not in self._basis:
            return ZERO
        return self._level[self._basis.index(VIOLATION)]


def _slack(r: int) -> int:
    return -2 - r


def _dot(x: Vector | tuple[Fraction, ...], y: Vector | tuple[Fraction, ...]) -> Fraction:
    total = ZERO
    for a, b in zip(x, y, strict=True):
        if a and b:
            total += a * b
    return total

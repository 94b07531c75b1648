"""Linear systems of the chain of one stationary policy, solved until the residual proves the answer.

Q [n, n] are the probabilities of the chain, times the discount; where it is certain to end, I - Q has an inverse with
no entry below 0. `Chain.values` solves (I - Q) V = b, the pay to come from each state, `Chain.visits` (I - Q') x = b,
the expected visits. The residual of x is computed with compensated sums, so that with steps(s) >= 1 + (Q steps)(s),
which bounds the steps to come from s,

    | (x - x_exact) . pay |  <=  max |pay|  x  sum_s steps(s) |residual(s)|.

Small systems are inverted, and those whose states lead to neighbors factored. Others are solved by BiCGSTAB, by a
sparse factorisation where that makes no progress and, at last, by the series I + Q + Q^2 + ..; each time the residual
is refined until it is as small as was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from conrl import kernels
from conrl._types import Bool, Float, Index, Int
from conrl.errors import RunError

DENSE = 100  # states up to which a matrix is inverted
FACTORED = 20_000  # states up to which a factorisation may be tried: its fill is not known before
NARROW = 64  # entries of a row up to which a factorisation comes first: its fill is small for certain
SHRINK = 1e-9  # what one call of BiCGSTAB aims at
ROUNDS = 300  # of BiCGSTAB in one call
PROGRESS = 0.1  # a correction that leaves more than this share of the residual makes none
LONGEST_SERIES = 2_000_000


class Chain:
    """Q by rows: begin [n+1] (unsigned), column and weight."""

    def __init__(self, begin: Index, column: Index, weight: Float, longest: float) -> None:
        """`longest`: about how many steps are to come, for the series."""
        self.rows = begin.astype(np.uint64, copy=False), column.astype(np.uint32, copy=False), weight
        self.size = begin.size - 1
        self._longest = int(min(40.0 * longest + 100.0, LONGEST_SERIES))

    def values(self, b: Float, target: float, guess: Float | None = None) -> Float:
        """V of (I - Q) V = b, with no residual larger than `target` times (the largest |b| + the largest |V|)."""
        size = float(np.abs(b).max(initial=0.0))
        if size == 0.0:  # what is nearly 0 has a residual that is large for it
            return np.zeros(self.size)

        def rest(V: Float) -> tuple[Float, float]:
            left = np.empty(self.size)
            kernels.apply(self.rows, False, V, left)
            np.subtract(b, left, out=left)
            largest = size + float(np.abs(V).max(initial=0.0))
            return left, float(np.abs(left).max(initial=0.0)) / largest if largest > 0.0 else 0.0

        return self._refined(False, rest, target, np.zeros(self.size) if guess is None else guess)

    def visits(self, b: Float, steps: Float, target: float) -> Float:
        """x of (I - Q') x = b, with sum_s steps(s) |residual(s)| of at most `target`."""

        def rest(x: Float) -> tuple[Float, float]:
            left = np.empty(self.size)
            kernels.residual(self.rows, b, x, left)
            return left, float(steps @ np.abs(left))

        return self._refined(True, rest, target, np.zeros(self.size))

    def reached(self, initial: Float) -> Bool:
        """[n]: the states that the chain can come to."""
        found: Bool = kernels.reached(self.rows, initial)
        return found

    def _refined(
        self, transposed: bool, rest: Callable[[Float], tuple[Float, float]], target: float, x: Float
    ) -> Float:
        """x + corrections until the residual is within the target; each way of solving as long as it makes progress."""
        left, size = rest(x)
        for correct in self._ways(transposed):
            while size > target:
                try:
                    better = x + correct(left)
                except (np.linalg.LinAlgError, RuntimeError):  # of a factorisation: no inverse to within rounding
                    break
                new, smaller = rest(better)
                if not smaller < size:
                    break
                progress = smaller <= PROGRESS * size
                x, left, size = better, new, smaller
                if not progress:
                    break
            if size <= target:
                return x
        raise RunError(
            f"the expected totals cannot be computed to {target:.1e}: the process goes on for too long; "
            "shorten it, or lower the discount"
        )

    def _ways(self, transposed: bool) -> Iterator[Callable[[Float], Float]]:
        if self.size <= DENSE:
            yield lambda r: self._inverse.T @ r if transposed else self._inverse @ r
        narrow = self.size > DENSE and kernels.profile(self.rows) <= NARROW * self.size
        if narrow:
            yield lambda r: np.asarray(self._narrow.solve(r, "T" if transposed else "N"))
        for _ in range(2):
            yield lambda r: self._krylov(transposed, r)
        if self.size <= FACTORED:
            yield lambda r: np.asarray(self._factors.solve(r, "T" if transposed else "N"))
        for _ in range(3):
            yield lambda r: self._series(transposed, r)

    def _krylov(self, transposed: bool, r: Float) -> Float:
        x = np.zeros(self.size)
        kernels.krylov(self.rows, transposed, r.copy(), SHRINK, ROUNDS, x)
        return x

    def _series(self, transposed: bool, r: Float) -> Float:
        x = np.zeros(self.size)
        kernels.series(self.rows, transposed, r, self._longest, x)
        return x

    @cached_property
    def _inverse(self) -> Float:
        begin, column, weight = self.rows
        matrix = np.eye(self.size)
        counts: Int = begin.astype(np.int64)
        np.subtract.at(matrix, (np.repeat(np.arange(self.size), counts[1:] - counts[:-1]), column), weight)
        inverse: Float = np.linalg.inv(matrix).astype(np.float64, copy=False)
        return inverse

    @cached_property
    def _factors(self) -> Any:
        return self._factored()

    @cached_property
    def _narrow(self) -> Any:
        """In the order of the states, without pivots: no row adds up to more than its diagonal."""
        return self._factored(permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True})

    def _factored(self, **order: Any) -> Any:
        import scipy.sparse as sp
        from scipy.sparse.linalg import splu

        begin, column, weight = self.rows
        shape = (self.size, self.size)
        Q = sp.csr_array((weight, column.astype(np.int32), begin.astype(np.int64)), shape=shape)
        return splu(sp.csc_array(sp.eye_array(self.size) - Q), **order)

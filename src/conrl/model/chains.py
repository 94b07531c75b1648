"""Linear systems of the chain of one stationary policy, solved until the residual proves the answer.

Q [n, n] are the probabilities of the chain, times the discount; where it is certain to end, I - Q has an inverse with
no entry below 0. `Chain.values` solves (I - Q) V = b, the pay to come from each state, `Chain.visits` (I - Q') x = b,
the expected visits. The residual of x is computed with compensated sums, so that with steps(s) >= 1 + (Q steps)(s),
which bounds the steps to come from s,

    | (x - x_exact) . pay |  <=  max |pay|  x  sum_s steps(s) |residual(s)|.

Small systems are eliminated, and those whose states lead to neighbors factored. Others are solved by BiCGSTAB, by a
sparse factorisation where that makes no progress and, at last, by the series I + Q + Q^2 + ..; each time the residual
is refined until it is as small as was asked.

That loses as many digits as the expected steps have. A chain that goes on for long is a `SlowChain`: the probabilities
to leave a state define it, and to stay is what is left of 1. Small ones are solved by elimination without subtraction
(Grassmann, Taksar and Heyman 1985), which loses nothing. Where it cannot do all, as values with signs cancel and large
chains take other ways, solutions and residuals have twice the digits (`conrl.kernels.slow`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from conrl import kernels
from conrl._types import Bool, Float, Index, Int
from conrl.errors import RunError
from conrl.rounding import HALF_ULP

DENSE = 100  # states up to which a chain is eliminated, if it is known how likely it ends
FACTORED = 20_000  # states up to which a factorisation may be tried: its fill is not known before
NARROW = 64  # entries of a row up to which a factorisation comes first: its fill is small for certain
SHRINK = 1e-9  # what one call of BiCGSTAB aims at
ROUNDS = 300  # of BiCGSTAB in one call
PROGRESS = 0.1  # a correction that leaves more than this share of the residual makes none
LONGEST_SERIES = 2_000_000
ELIMINATED = 200  # states up to which a slow chain is eliminated: n^3 operations
SLOW_VALUES = 2.0**-90  # of the largest value and pay: the residual that slow values are refined to
ENOUGH = 1e-6  # of the same: a larger one is no solution
SLOW_VISITS = 2.0**-64  # of the expected steps, times which the residual of slow visits may count

TOO_LONG = "the process goes on for too long for its totals to be computed; use a horizon"

Correct = Callable[[Float], Float]  # what solves a system roughly


class Chain:
    """Q by rows: begin [n+1] (unsigned), column and weight."""

    def __init__(self, begin: Index, column: Index, weight: Float, longest: float, exits: Float | None = None) -> None:
        """`longest`: about how many steps are to come, for the series; exits [n], where known: how likely it ends."""
        self.rows = begin.astype(np.uint64, copy=False), column.astype(np.uint32, copy=False), weight
        self.size = begin.size - 1
        self._longest = int(min(40.0 * longest + 100.0, LONGEST_SERIES))
        self._exits = exits

    @cached_property
    def by_moves(self) -> SlowChain:
        """The same chain, by where it moves."""
        assert self._exits is not None
        return SlowChain(*self.rows, self._exits)

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

        return _refined(self._ways(False), rest, target, np.zeros(self.size) if guess is None else guess, np.add)

    def visits(self, b: Float, steps: Float, target: float) -> Float:
        """x of (I - Q') x = b, with sum_s steps(s) |residual(s)| of at most `target`."""

        def rest(x: Float) -> tuple[Float, float]:
            left = np.empty(self.size)
            kernels.residual(self.rows, b, x, left)
            return left, float(steps @ np.abs(left))

        return _refined(self._ways(True), rest, target, np.zeros(self.size), np.add)

    def reached(self, initial: Float) -> Bool:
        """[n]: the states that the chain can come to."""
        found: Bool = kernels.reached(self.rows, initial)
        return found

    def _ways(self, transposed: bool) -> Iterator[Correct]:
        if self.size <= DENSE and self._exits is not None:
            yield lambda r: self.by_moves.eliminated(transposed, r)
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


class SlowChain:
    """A chain that may go on for very long, by where it moves: begin [n+1], column, weight, exits [n].

    Entries that lead to their own state are not read.
    """

    def __init__(self, begin: Index, column: Index, weight: Float, exits: Float) -> None:
        n = exits.size
        self.rows = begin.astype(np.uint64, copy=False), column.astype(np.uint32, copy=False), weight
        self.exits = exits
        self._graph = np.arange(n + 1, dtype=np.uint64), *self.rows

    def values(self, b: Float, base: Float) -> Float:
        """V [2, n] of  b - base - exits V + sum q (V' - V) = 0, in twice the digits, as are b [2, n] and base [2]."""
        n = self.exits.size
        size = float(np.abs(b[0] - base[0]).max(initial=0.0))
        left, off = np.empty(n), np.empty(n)

        def rest(V: Float) -> tuple[Float, float]:
            kernels.gains(self._graph, self.exits, b, base, V, 0.0, left, off)
            largest = size + float(np.abs(V[0]).max(initial=0.0))
            return left.copy(), float(np.abs(left).max(initial=0.0)) / largest if largest > 0.0 else 0.0

        return _refined(self._ways(False), rest, SLOW_VALUES, np.zeros((2, n)), added, ENOUGH)

    def visits(self, b: Float) -> Float:
        """[n]: the expected visits for starts b [n] of at least 0, off by `slow_error`."""
        if b.size <= ELIMINATED:
            return self.eliminated(True, b)

        def rest(x: Float) -> tuple[Float, float]:
            left = np.empty(b.size)
            kernels.unbalanced(*self.rows, self.exits, b, x, left)
            return left, float(self.steps @ np.abs(left))

        target = SLOW_VISITS * float(b @ self.steps)
        x: Float = _refined(self._ways(True), rest, target, np.zeros((2, b.size)), added)[0]
        return x

    @cached_property
    def steps(self) -> Float:
        """[n]: twice the expected steps to come, to within rounding, which is checked: a bound on them."""
        n = self.exits.size
        ones, left, off = np.stack((np.ones(n), np.zeros(n))), np.empty(n), np.empty(n)
        V = 2.0 * self.values(ones, np.zeros(2))
        kernels.gains(self._graph, self.exits, ones, np.zeros(2), V, 0.0, left, off)
        if not ((left + off <= 0.0).all() and (V[0] > 0.0).all()):
            raise RunError(TOO_LONG)
        steps: Float = V[0]
        return steps

    def _ways(self, transposed: bool) -> Iterator[Correct]:
        """By elimination; or as the chain of its moves, which stays nowhere, in the ways of a `Chain`."""
        if self.exits.size <= ELIMINATED:
            yield lambda r: self.eliminated(transposed, r)
        for way in self._moved._ways(transposed):
            if transposed:
                yield lambda r, way=way: way(r) / self._leaving  # type: ignore[misc]
            else:
                yield lambda r, way=way: way(r / self._leaving)  # type: ignore[misc]

    def eliminated(self, transposed: bool, r: Float) -> Float:
        """The pay to come for a pay of r [n]; the expected visits, if transposed, from where it starts."""
        x = r.copy()
        kernels.eliminated(*self._elimination, transposed, x)
        return x

    @cached_property
    def _elimination(self) -> tuple[Float, Float]:
        q = dense(*self.rows)
        return q, kernels.eliminate(q, self.exits.copy())

    @cached_property
    def _origin(self) -> Int:
        """Of each entry."""
        return origins(self.rows[0])

    @cached_property
    def _leaving(self) -> Float:
        """[n]: how likely each state is left, or it ends there."""
        moves = self._origin != self.rows[1]
        left = np.bincount(self._origin[moves], weights=self.rows[2][moves], minlength=self.exits.size)
        return np.asarray(self.exits + left)

    @cached_property
    def _moved(self) -> Chain:
        moves = self._origin != self.rows[1]
        origin = self._origin[moves]
        begin = np.searchsorted(origin, np.arange(self.exits.size + 1))
        return Chain(begin, self.rows[1][moves], self.rows[2][moves] / self._leaving[origin], 0.0)


def origins(begin: Index) -> Int:
    """Of each entry, its row."""
    counts: Int = begin.astype(np.int64)
    return np.repeat(np.arange(begin.size - 1), counts[1:] - counts[:-1])


def dense(begin: Index, column: Index, weight: Float) -> Float:
    """[n, n]: a chain as a matrix."""
    n = begin.size - 1
    entries = np.bincount(origins(begin) * n + column.astype(np.int64), weights=weight, minlength=n * n)
    return np.asarray(entries, dtype=np.float64).reshape(n, n)


def slow_error(n: int) -> tuple[float, float]:
    """How far visits of a `SlowChain` of n states may be off: each, in proportion; all in all, of the steps to come."""
    return (kernels.ELIMINATION * (n + 1.0) ** 2, 0.0) if n <= ELIMINATED else (2.0 * HALF_ULP, 2.0 * SLOW_VISITS)


def added(x: Float, more: Float) -> Float:
    """x [2, n] in twice the digits, and more [n]."""
    total = x[0] + more
    part = total - x[0]
    low = (x[0] - (total - part)) + (more - part) + x[1]
    high: Float = total + low
    return np.stack((high, low - (high - total)))


def _refined(
    ways: Iterable[Correct],
    rest: Callable[[Float], tuple[Float, float]],
    target: float,
    x: Float,
    plus: Callable[[Float, Float], Float],
    enough: float = 0.0,
) -> Float:
    """x + corrections until the residual is within the target; each way of solving as long as it makes progress.

    A residual within `enough` will do where none makes more.
    """
    left, size = rest(x)
    for correct in ways:
        while size > target:
            try:
                better = plus(x, correct(left))
            except RuntimeError:  # of a factorisation: no inverse to within rounding
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
    if size <= enough:
        return x
    raise RunError(TOO_LONG)

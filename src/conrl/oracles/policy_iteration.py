"""The best stationary policy of a process that is certain to end, by modified policy iteration, with a certificate.

For a scalar pay r of each pair, (T V)(s) = max over the pairs of s of r + sum p V. Sweeps of T, with cheap sweeps of the
policy that it chose in between (Puterman and Shin 1978), find a policy that no longer changes; then its V is solved for
(`conrl.model.chains`), and T is applied once more: an action that gains is taken, and V solved for again (Howard 1960).

With steps(s) >= 1 + sum p steps for every pair (`conrl.model.reduction`), any V proves an upper bound:

    delta = max(0, max_s (T V - V)(s))    =>    max over policies of the pay from s  <=  V(s) + delta steps(s)

as T (V + delta steps) <= V + delta steps. For a discount g, steps = 1 / (1 - g), and this is the bound of MacQueen (1966).
delta includes what rounding can do to T V. (T V is off by a sum of products over the outcomes of a pair.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Float, Int
from conrl.errors import RunError
from conrl.model.chains import Chain
from conrl.model.reduction import Rows

CHEAP = 16  # sweeps of the policy between two of T
UNSETTLED = 200  # sweeps of T after which the policy is solved for, settled or not
HOWARD = 500  # times that a policy is solved for, at most
HALF_ULP = 2.0**-53
VISITS = 24.0  # half ulps, times steps^2: the residual of visits, and as much again for what rounding does to it


class Best(NamedTuple):
    """What is best for one pay."""

    choice: Int  # [n]: which of its pairs each node plays
    pairs: Int  # [n]: the same as a pair
    V: Float  # [n]
    bound: float  # no policy is paid more from the start


class PolicyIteration:
    """A process that is certain to end: rows as in `conrl.model.reduction`, initial [n] and steps [n]."""

    def __init__(self, rows: Rows, initial: Float, steps: Float) -> None:
        self.rows, self.initial, self.steps = rows, initial, steps
        self.n = initial.size
        first, start, *_ = rows
        slot_pair, self._lines = kernels.interleave(rows)
        self._slot_pair = slot_pair.astype(np.int64)
        self._first = first[:-1].astype(np.int64)
        self._begin = start.astype(np.int64)
        self._outcomes = int(np.diff(self._begin).max(initial=0))
        self.longest = float(steps.max())
        self.expected = float(initial @ steps) * (1.0 + 1e-12)

    def best(self, pay: Float, size: float, tie: float) -> Best:
        """For the pay [P] of each pair, which is known to within 16 half ulps of `size`, its largest amount."""
        slots = np.append(pay, -np.inf)[self._slot_pair]
        blocks = (-(-self.n // kernels.LANES), kernels.LANES)
        V, W, choice = np.zeros(blocks), np.zeros(blocks), np.full(blocks, 2**32 - 1, dtype=np.uint32)
        flat, chosen, scratch = V.reshape(-1), choice.reshape(-1), np.empty(self.n)
        kernels.improve(self._lines, self.n, slots, tie, V, W, choice)
        for _ in range(UNSETTLED):
            V[:] = W
            chain, b, _ = self._chain(chosen, pay)
            kernels.follow(chain.rows, b, flat, scratch, CHEAP)
            if kernels.improve(self._lines, self.n, slots, tie, V, W, choice)[0] == 0:
                break
        unit = 1.01 * HALF_ULP * (self._outcomes + 20)
        for _ in range(HOWARD):
            chain, b, pairs = self._chain(chosen, pay)
            flat[: self.n] = chain.values(b, 2.0 * unit, flat[: self.n].copy())
            rounding = unit * (size + float(np.abs(flat[: self.n]).max(initial=0.0)))
            played = chosen[: self.n].copy()
            changed, gain = kernels.improve(self._lines, self.n, slots, tie, V, W, choice)
            if changed == 0 or gain <= 4.0 * rounding + tie:
                break
        else:
            raise RunError("policy iteration does not settle: actions differ by no more than rounding")
        delta = max(gain, 0.0) + rounding
        some = np.flatnonzero(self.initial)
        bound = math.fsum((self.initial[some] * flat[some]).tolist()) + delta * self.expected
        bound += 4.0 * HALF_ULP * (abs(bound) + float(self.initial[some] @ np.abs(flat[some])))
        return Best(played, pairs, flat[: self.n].copy(), bound)

    def visits(self, choice: Int) -> Float:
        """[n]: how often the process of a policy is expected at each node: off by at most `visits_error`."""
        chain, _, _ = self._chain(choice, None)
        return chain.visits(self.initial, self.steps, VISITS * HALF_ULP * self.longest * self.expected)

    @property
    def visits_error(self) -> float:
        """How far off a total may be of which one step pays at most 1."""
        return (2.0 * VISITS * self.longest + 8.0) * 1.01 * HALF_ULP * self.expected

    def _chain(self, chosen: Int, pay: Float | None) -> tuple[Chain, Float, Int]:
        """The chain of a policy, the pay of its nodes, and their pairs."""
        pairs = self._first + chosen[: self.n].astype(np.int64)
        count = int((self._begin[pairs + 1] - self._begin[pairs]).sum())
        begin, column, weight = np.empty(self.n + 1, np.uint64), np.empty(count, np.uint32), np.empty(count)
        kernels.chain_of(self.rows, chosen, begin, column, weight)
        return Chain(begin, column, weight, max(self.longest, 1e4)), np.zeros(0) if pay is None else pay[pairs], pairs


def certified_steps(rows: Rows, initial: Float) -> Float:
    """[n]: steps(s) >= 1 + sum p steps for every pair: the most steps that any policy can make it go on, about.

    Found by policy iteration with a pay of 1, and checked: where T V <= V + delta, V / (1 - delta) will do.
    """
    n = initial.size
    ones = np.ones(rows[1].size - 1)
    found = PolicyIteration(rows, np.full(n, 1.0 / n), np.ones(n)).best(ones, 1.0, 1e-6)
    rest = found.V - _most(rows, ones, found.V)
    delta = max(0.0, -float(rest.min())) + 1e-9 + 1e-12 * float(found.V.max())
    if not (delta < 0.5 and (found.V >= 0.5).all()):
        raise RunError("it takes too many steps until the process is certain to end; shorten it")
    return found.V / (1.0 - delta)


def _most(rows: Rows, pay: Float, V: Float) -> Float:
    """[n]: T V, in numpy."""
    first, start, successor, probability = rows
    origin = np.repeat(np.arange(pay.size), np.diff(start.astype(np.int64)))
    sums = np.bincount(origin, weights=probability * V[successor.astype(np.int64)], minlength=pay.size)
    return np.maximum.reduceat(pay + sums, first[:-1].astype(np.int64))

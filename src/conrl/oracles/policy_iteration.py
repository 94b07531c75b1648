"""The best stationary policy of a process that is certain to end, by modified policy iteration, with a certificate.

For a scalar pay r of each pair, (T V)(s) = max over the pairs of s of r + sum p V. Sweeps of T, with cheap sweeps of
the policy that it chose in between (Puterman and Shin 1978), find a policy that no longer changes; then its V is
solved for (`conrl.model.chains`), and T is applied once more: an action that gains is taken, and V solved for again
(Howard 1960).

With steps(s) >= 1 + sum p steps for every pair (`conrl.model.reduction`), any V proves an upper bound:

    delta = max(0, max_s (T V - V)(s))    =>    max over policies of the pay from s  <=  V(s) + delta steps(s)

as T (V + delta steps) <= V + delta steps. For a discount g, steps = 1 / (1 - g), and this is the bound of MacQueen
(1966). delta includes what rounding can do to T V: a pair's is a sum of products over its outcomes.

*Where some policy can make it go on for very long* (1e9 steps, say, as a slip may take it to the end at last), delta
steps is no bound to speak of. There V is raised by D, the most that the gains (T V - V), each with its rounding, can
add up to: another policy iteration, whose pay is about 1e-16 where an action is as good as the best and far below 0
elsewhere. If U = V + D has  r + sum p (U' - U) + rounding <= 0  for every pair, no policy is paid more than U. (Sums
of differences round to 0 where U does not change; so that values that differ by rounding only are made equal first.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Array, Float, Int
from conrl.errors import RunError
from conrl.model.chains import Chain
from conrl.model.reduction import KernelGraph, Reachable
from conrl.rounding import HALF_ULP

CHEAP = 16  # sweeps of the policy between two of T
UNSETTLED = 40  # sweeps of T after which the policy is solved for, settled or not
HOWARD = 500  # times that a policy is solved for, at most
VISITS = 24.0  # half ulps, times steps^2: the residual of visits, and as much again for what rounding does to it
LONG = 1e4  # steps from which on their square, times rounding, is no bound to speak of
LONGEST = 1e8  # steps of a policy whose totals are computed: rounding may take their eighth digit
RAISED = 4  # times that V is raised to be a bound
LONG_TIE = 1e-12  # of the largest pay: what an action must gain there
ENDLESS = 1e18  # steps
EQUAL = 1e-12  # of the largest, by which neighbouring values that should be equal may differ


class Best(NamedTuple):
    """What is best for one pay."""

    chain: Chain  # of the policy
    pairs: Int  # [n]: the pair that each node plays
    choice: Array  # [n]: the same, as which of its pairs
    V: Float  # [n]
    bound: float  # no policy is paid more from the start


class PolicyIteration:
    """A process that is certain to end: graph as in `conrl.model.reduction`, initial [n] and steps [n].

    `first` [n], where given, is a policy that ends soon: improvements start from it, and no other may ever end. There
    the probabilities of a pair add up to 1, unless it ends at once.
    """

    def __init__(self, graph: KernelGraph, initial: Float, steps: Float, first: Array | None = None) -> None:
        self.graph, self.initial, self.steps = graph, initial, steps
        self.n = initial.size
        slot_pair, self._lines = kernels.interleave(graph)
        self._slot_pair: Int = slot_pair.astype(np.int64)
        self._first: Int = graph[0][:-1].astype(np.int64)
        self._begin: Int = graph[1].astype(np.int64)
        self.outcomes = int((self._begin[1:] - self._begin[:-1]).max(initial=0))
        self.longest = float(steps.max())
        self.expected = float(initial @ steps) * (1.0 + 1e-12)
        self.is_long = first is not None and self.longest > LONG
        self._start = first

    def best(self, pay: Float, size: float, tie: float) -> Best:
        """For the pay [P] of each pair, which is known to within 16 half ulps of `size`, its largest amount."""
        slots = self._in_slots(pay)
        blocks = (-(-self.n // kernels.LANES), kernels.LANES)
        V, W, choice = np.zeros(blocks), np.zeros(blocks), np.zeros(blocks, dtype=np.uint32)
        flat, chosen, scratch = V.reshape(-1), choice.reshape(-1), np.empty(self.n)
        if self._start is not None:
            chosen[: self.n] = self._start
            chain, b = self._chain(chosen, pay)
            flat[: self.n] = chain.values(b, 1e-9)
        if self.is_long:  # an action is taken only for what it gains: others may go on forever
            tie = max(tie, LONG_TIE * size)
        else:
            kernels.improve(self._lines, self.n, slots, tie, V, W, choice)
        for _ in range(0 if self.is_long else UNSETTLED):
            V[:] = W
            chain, b = self._chain(chosen, pay)
            kernels.follow(chain.rows, b, flat, scratch, CHEAP)
            if kernels.improve(self._lines, self.n, slots, tie, V, W, choice)[0] == 0:
                break
        chain, played, gain = self._howard(pay, slots, size, tie, V, choice)
        found = flat[: self.n].copy()
        delta = max(gain, 0.0) + self._rounding(size, found)
        bound = self._from_start(found) + delta * self.expected
        if self.is_long:
            raised = self._raised(pay, played, found)
            if raised is not None:
                bound = min(bound, self._from_start(raised))
        return Best(chain, self._first + played.astype(np.int64), played, found, bound)

    def _rounding(self, size: float, V: Float) -> float:
        """What T V may be off by, for a pay of at most `size`."""
        return 1.01 * HALF_ULP * (self.outcomes + 20) * (size + float(np.abs(V).max(initial=0.0)))

    def _from_start(self, V: Float) -> float:
        """initial . V, rounded up."""
        some = np.flatnonzero(self.initial)
        parts = self.initial[some] * V[some]
        return math.fsum(parts.tolist()) + 4.0 * HALF_ULP * float(np.abs(parts).sum())

    def _howard(
        self, pay: Float, slots: Float, size: float, tie: float, V: Float, choice: Array
    ) -> tuple[Chain, Array, float]:
        """Solve for the policy `choice` [B, LANES] and improve it until nothing gains: its chain, it, max (T V - V).

        V [B, LANES] is left as that of the policy.
        """
        W = np.empty_like(V)
        flat, chosen = V.reshape(-1), choice.reshape(-1)
        for _ in range(HOWARD):
            chain, b = self._chain(chosen, pay)
            flat[: self.n] = chain.values(b, 2.0 * HALF_ULP * (self.outcomes + 20), flat[: self.n].copy())
            played = chosen[: self.n].copy()
            changed, gain = kernels.improve(self._lines, self.n, slots, tie, V, W, choice)
            if changed == 0 or gain <= 4.0 * self._rounding(size, flat[: self.n]) + tie:
                return chain, played, gain
        raise RunError("policy iteration does not settle: actions differ by no more than rounding")

    def _raised(self, pay: Float, played: Array, V: Float) -> Float | None:
        """[n]: U with r + sum p (U' - U) + rounding <= 0 for every pair, a little above V; None if none is found."""
        U = _equalised(V)
        for _ in range(RAISED):
            gains, rounding = self._gains(pay, U)
            if (gains + rounding <= 0.0).all():
                return U
            # Where something moves, at least what the last digit of U can hold.
            more = gains + np.where(rounding > 0.0, 4.0 * rounding + 16.0 * HALF_ULP * float(np.abs(U).max()), 0.0)
            blocks = (-(-self.n // kernels.LANES), kernels.LANES)
            D, choice = np.zeros(blocks), np.zeros(blocks, dtype=np.uint32)
            choice.reshape(-1)[: self.n] = played
            self._howard(more, self._in_slots(more), float(np.maximum(more, 0.0).max()), 0.0, D, choice)
            U = _equalised(U + np.maximum(D.reshape(-1)[: self.n], 0.0))
        return None

    def _gains(self, pay: Float, U: Float) -> tuple[Float, Float]:
        """[P] each: r + sum p (U' - U) of every pair, or r - U where it ends; and what rounding may hide of it.

        Of a process whose pairs end or go on, with probabilities that add up to 1 (`collapsed`).
        """
        _, _, successor, probability = self.graph
        P, sizes = pay.size, self._begin[1:] - self._begin[:-1]
        node = np.repeat(np.arange(self.n), np.append(self._first[1:], P) - self._first)
        origin = np.repeat(np.arange(P), sizes)
        difference = U[successor.astype(np.int64)] - U[node[origin]]
        moved = np.bincount(origin, weights=probability * difference, minlength=P)
        terms = np.bincount(origin, weights=probability * np.abs(difference), minlength=P) + np.abs(pay)
        ends = sizes == 0
        moved[ends] = -U[node[ends]]
        terms[ends] += np.abs(U[node[ends]])
        rounding: Float = np.float64(1.01 * HALF_ULP) * (sizes + 20) * terms.astype(np.float64)
        return pay + moved, rounding

    def visits(self, chain: Chain) -> Float:
        """[n]: how often the chain of a policy is expected at each node: off by at most `error_of` in all."""
        steps, longest, expected = self._steps_of(chain)
        return chain.visits(self.initial, steps, VISITS * HALF_ULP * longest * expected)

    def error_of(self, chain: Chain) -> float:
        """How far off a total of that chain may be of which one step pays at most 1."""
        _, longest, expected = self._steps_of(chain)
        return (2.0 * VISITS * longest + 8.0) * 1.01 * HALF_ULP * expected

    @property
    def visits_error(self) -> float:
        """The same of any chain."""
        return (2.0 * VISITS * self.longest + 8.0) * 1.01 * HALF_ULP * self.expected

    def _steps_of(self, chain: Chain) -> tuple[Float, float, float]:
        """[n]: a bound on the steps that the chain takes to its end, certified; the most, and that from the start.

        Where others may go on for very long, those of the chain itself: twice what they are, to within a billionth.
        """
        if not self.is_long:
            return self.steps, self.longest, self.expected
        steps = 2.0 * chain.values(np.ones(self.n), 1e-9)
        left = np.empty(self.n)
        kernels.apply(chain.rows, False, steps, left)
        longest = float(steps[chain.reached(self.initial)].max())
        if not (left >= 1.0).all() or longest > LONGEST:
            raise RunError("a policy takes too many steps to end for its totals to be computed; shorten the process")
        return steps, longest, float(self.initial @ steps)

    @property
    def support_error(self) -> float:
        """About how far above the true value a bound may be, for a pay of 1."""
        if self.is_long:
            return 10.0 * EQUAL
        return 4.0 * (self.outcomes + 24) * HALF_ULP * self.longest * self.expected

    def _in_slots(self, pay: Float) -> Float:
        slots: Float = np.append(pay, -np.inf)[self._slot_pair]
        return slots

    def _chain(self, chosen: Array, pay: Float) -> tuple[Chain, Float]:
        """The chain of a policy, and the pay of its nodes."""
        pairs = self._first + chosen[: self.n].astype(np.int64)
        count = int((self._begin[pairs + 1] - self._begin[pairs]).sum())
        begin, column, weight = np.empty(self.n + 1, np.uint64), np.empty(count, np.uint32), np.empty(count)
        kernels.chain_of(self.graph, chosen, begin, column, weight)
        return Chain(begin, column, weight, max(self.longest, LONG)), pay[pairs]


def _equalised(V: Float) -> Float:
    """V with values that differ by rounding only made equal, to the largest of them."""
    order = np.argsort(V, kind="stable")
    rising = V[order]
    apart = np.diff(rising) > EQUAL * float(np.abs(V).max(initial=0.0))
    last = np.append(np.flatnonzero(apart), V.size - 1)
    equal = np.empty_like(V)
    equal[order] = rising[last][np.searchsorted(last, np.arange(V.size))]
    return equal


def soon(graph: KernelGraph) -> Array:
    """[n]: a policy that may end in as few steps as possible: each node plays a pair that may lead nearer to an end."""
    first, start, successor, _ = graph
    begin = start.astype(np.int64)
    n, P = first.size - 1, begin.size - 1
    counts = first.astype(np.int64)
    node = np.repeat(np.arange(n), counts[1:] - counts[:-1])
    sizes = begin[1:] - begin[:-1]
    origin, ahead = np.repeat(np.arange(P), sizes), successor.astype(np.int64)
    by_ahead = np.argsort(ahead, kind="stable")
    arrivals, at = origin[by_ahead], np.searchsorted(ahead[by_ahead], np.arange(n + 1))
    chosen = np.full(n, -1)
    pairs = np.flatnonzero(sizes == 0)
    while pairs.size:
        nodes, which = np.unique(node[pairs], return_index=True)
        chosen[nodes] = pairs[which]
        pairs = np.concatenate([arrivals[at[s] : at[s + 1]] for s in nodes.tolist()])
        pairs = np.sort(pairs[chosen[node[pairs]] < 0])
    return (chosen - counts[:-1]).astype(np.uint32)


def quickest(graph: KernelGraph) -> Array:
    """[n]: the policy that ends soonest in expectation."""
    first = soon(graph)
    n, ones = first.size, np.ones(graph[1].size - 1)
    return PolicyIteration(graph, np.full(n, 1.0 / n), np.ones(n), first).best(-ones, 1.0, 1e-9).choice


def toward(part: Reachable, inside: Int, target: Int) -> Int:
    """[positions]: the pair of `inside` that each position of a component plays to come to `target` soonest; or -1.

    `inside` are the pairs of one component, so that they come to a target with probability 1.
    """
    source = part.source[inside]
    states = np.unique(np.append(source, target))
    number = np.zeros(part.order.size, dtype=np.int64)
    number[states] = np.arange(states.size)
    ends = np.isin(source, target)
    # Of a target, one pair without an outcome.
    pairs = np.concatenate((inside[~ends], np.full(target.size, -1)))
    owner = np.concatenate((number[source[~ends]], number[target]))
    by_owner = np.argsort(owner, kind="stable")
    pairs = pairs[by_owner]
    begin = part.graph[1].astype(np.int64)
    sizes = np.where(pairs >= 0, begin[pairs + 1] - begin[pairs], 0)
    start = np.concatenate(([0], np.cumsum(sizes)))
    members = np.arange(start[-1]) + np.repeat(begin[pairs] - start[:-1], sizes)
    first = np.searchsorted(owner[by_owner], np.arange(states.size + 1))
    successor = number[part.graph[2][members].astype(np.int64)].astype(np.uint32)
    chosen = quickest((first.astype(np.uint64), start.astype(np.uint64), successor, part.graph[3][members]))
    choice = np.full(part.order.size, -1)
    choice[states] = pairs[first[:-1] + chosen]
    return choice


def certified_steps(graph: KernelGraph, initial: Float, first: Array) -> Float:
    """[n]: steps(s) >= 1 + sum p steps for every pair: the most steps that any policy can make it go on, about.

    Found by policy iteration with a pay of 1, and checked: where T V <= V + delta, V / (1 - delta) will do. Where that
    is beyond what doubles can tell, 1e18 stands for it: a bound that is never used.
    """
    n = initial.size
    ones = np.ones(graph[1].size - 1)
    try:
        V = PolicyIteration(graph, np.full(n, 1.0 / n), np.ones(n), first).best(ones, 1.0, 1e-6).V
    except RunError:
        return np.full(n, ENDLESS)
    delta = max(0.0, float((_most(graph, ones, V) - V).max())) + 1e-9 + 1e-12 * float(V.max())
    if not (delta < 0.5 and (V >= 0.5).all()):
        return np.full(n, ENDLESS)
    steps: Float = V / (1.0 - delta)
    return steps


def _most(graph: KernelGraph, pay: Float, V: Float) -> Float:
    """[n]: T V, in numpy."""
    first, start, successor, probability = graph
    begin = start.astype(np.int64)
    origin = np.repeat(np.arange(pay.size), begin[1:] - begin[:-1])
    sums = np.bincount(origin, weights=probability * V[successor.astype(np.int64)], minlength=pay.size)
    most: Float = np.maximum.reduceat(pay + sums, first[:-1].astype(np.int64))
    return most

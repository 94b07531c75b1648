"""The best stationary policy of a process that is certain to end, by modified policy iteration, with a certificate.

For a scalar pay r of each pair, (T V)(s) = max over the pairs of s of r + sum p V. Sweeps of T, with cheap sweeps of
the policy that it chose in between (Puterman and Shin 1978), find a policy that no longer changes; then its V is
solved for (`conrl.model.chains`), and T is applied once more: an action that gains is taken, and V solved for again
(Howard 1960).

With steps(s) >= 1 + sum p steps for every pair (`conrl.model.reduction`), any V proves an upper bound:

    delta = max(0, max_s (T V - V)(s))    =>    max over policies of the pay from s  <=  V(s) + delta steps(s)

as T (V + delta steps) <= V + delta steps. For a discount g, steps = 1 / (1 - g), and this is the bound of MacQueen
(1966). delta includes what rounding can do to T V: a pair's is a sum of products over its outcomes.

*Where some policy can make it go on for very long* (a discount of 0.99999, a failure a year counted in hours, slips
that take it to an end at last after 1e9 steps), that is no bound to speak of: what rounding takes of each step adds up.
There the probabilities to leave a state define the process (`conrl.model.chains.SlowChain`), actions are compared by

    gain = r - exits V + sum p (V' - V)

in twice the digits, and an action is taken for anything that it gains. What delta still has then is that the
probabilities themselves are rounded. Where that is too much for the longest policy, the bound is the U of the same
process in which every pair is paid twice that much more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Array, Float, Int
from conrl.errors import RunError
from conrl.model.chains import DENSE, Chain, SlowChain, added, slow_error
from conrl.model.reduction import KernelGraph, Reachable
from conrl.rounding import HALF_ULP

CHEAP = 16  # sweeps of the policy between two of T
UNSETTLED = 40  # sweeps of T after which the policy is solved for, settled or not
HOWARD = 500  # times that a policy is solved for, at most
VISITS = 24.0  # half ulps, times steps^2: the residual of visits, and as much again for what rounding does to it
LONG = 2e4  # steps from which on their square, times rounding, is no bound to speak of; a discount of 0.9999 has 1e4
CLOSE = 1e-12  # of a bound: what rounding may add before it is worth another search
LOOSE = 1e-10  # and before a small process is worth twice the digits
SELDOM = 1e3  # times that, where the value is small
SLOW_NOISE = 2.0**-88  # of the largest value: a gain that is none, in twice the digits
NO_BASE = np.zeros(2)
LONGEST = 1e10  # steps up to which rounding does not hide one of them
ENDLESS = 1e200  # steps that are not told from more


class Best(NamedTuple):
    """What is best for one pay."""

    chain: Chain | SlowChain  # of the policy
    pairs: Int  # [n]: the pair that each node plays
    choice: Array  # [n]: the same, as which of its pairs
    V: Float  # [n]
    bound: float  # no policy is paid more from the start


class PolicyIteration:
    """A process that is certain to end: graph as in `conrl.model.reduction`, initial [n] and steps [n].

    `first` [n], where given, is a policy that ends soon: improvements start from it, and no other may ever end.
    exits [P] are the probabilities that a pair ends; by default 1 of those without an outcome, and 0 of others.
    """

    def __init__(
        self,
        graph: KernelGraph,
        initial: Float,
        steps: Float,
        first: Array | None = None,
        exits: Float | None = None,
    ) -> None:
        self.graph, self.initial, self.steps = graph, initial, steps
        self.n = initial.size
        slot_pair, self._lines = kernels.interleave(graph)
        self._slot_pair: Int = slot_pair.astype(np.int64)
        self._first: Int = graph[0][:-1].astype(np.int64)
        self._begin: Int = graph[1].astype(np.int64)
        self.outcomes = int((self._begin[1:] - self._begin[:-1]).max(initial=0))
        self.longest = float(steps.max())
        self.expected = float(initial @ steps) * (1.0 + 1e-12)
        self.is_long = self.longest > LONG
        self._moves = self.is_long or self.n <= DENSE  # whether visits are counted by the moves of a chain
        self._start = first
        self._exits = (self._begin[1:] == self._begin[:-1]).astype(np.float64) if exits is None else exits
        # What is missing of a probability: it was divided by a sum, and multiplied by a discount.
        self._model = (self.outcomes + 3) * HALF_ULP

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
        kernels.improve(self._lines, self.n, slots, tie, V, W, choice)
        for _ in range(UNSETTLED):
            V[:] = W
            chain, b = self._chain(chosen, pay)
            kernels.follow(chain.rows, b, flat, scratch, CHEAP)
            if kernels.improve(self._lines, self.n, slots, tie, V, W, choice)[0] == 0:
                break
        chain, played, gain = self._howard(pay, slots, size, tie, V, choice)
        found = flat[: self.n].copy()
        delta = max(gain, 0.0) + self._rounding(size, found)
        bound = self._from_start(found) + delta * self.expected
        pairs = self._first + played.astype(np.int64)
        return Best(chain.by_moves if self._moves else chain, pairs, played, found, bound)

    def _rounding(self, size: float, V: Float) -> float:
        """What T V may be off by, for a pay of at most `size`."""
        return 1.01 * HALF_ULP * (self.outcomes + 20) * (size + float(np.abs(V).max(initial=0.0)))

    def _from_start(self, V: Float) -> float:
        """initial . V, rounded up; V is [n], or [2, n] in twice the digits."""
        some = np.flatnonzero(self.initial)
        parts = (self.initial[some] * V[..., some]).reshape(-1)
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

    def closely(self, pay: Float, exactly: Callable[[], tuple[Float, Float]], size: float, tie: float) -> Best:
        """`best`; or `slowly`, of a long process and, if it is small, wherever rounding shows.

        exactly() is the pay [2, P] in twice the digits, and how far that of each pair may be off [P].
        """
        if not self.is_long:
            best = self.best(pay, size, tie)
            value = self._from_start(best.V)
            if not self._moves or best.bound - value <= enough(value, size * self.expected):
                return best
        return self.slowly(*exactly())

    def slowly(self, pay: Float, unknown: Float) -> Best:
        """`best` of a process that may go on for very long, by Howard's policy iteration in twice the digits.

        pay [2, P] has them too, and unknown [P] is how far it may be off.
        """
        choice = np.zeros(self.n, dtype=np.uint32)
        if self._start is None:
            kernels.better(self.graph, pay[0], 0.0, choice)
        else:
            choice[:] = self._start
        chain, V = self._settled(pay, choice)
        bound, off = self._proven(pay, unknown, V)
        if bound > self._from_start(V) + CLOSE * abs(bound):
            raised = self._settled(added(pay, 2.0 * off), choice.copy())[1]
            bound = min(bound, self._proven(pay, unknown, raised)[0])
        return Best(chain, self._first + choice.astype(np.int64), choice, V[0], bound)

    def _settled(self, pay: Float, choice: Array) -> tuple[SlowChain, Float]:
        """Improve choice [n] until nothing gains: its chain and values [2, n]."""
        for _ in range(HOWARD):
            chain, b = self._chain(choice, pay)
            pairs = self._first + choice.astype(np.int64)
            slow = chain.by_moves
            V = slow.values(b, NO_BASE)
            gain, _ = self._gains(pay, V)
            least = 8.0 * float(np.abs(gain[pairs]).max()) + SLOW_NOISE * float(np.abs(V[0]).max())
            if not kernels.better(self.graph, gain, least, choice).any():
                return slow, V
        raise RunError("policy iteration does not settle: actions differ by no more than rounding")

    def _gains(self, pay: Float, V: Float) -> tuple[Float, Float]:
        """[P] each: pay - exits V + sum p (V' - V), and what it may be off by for a pay that is exact."""
        gain, off = np.empty(pay.shape[1]), np.empty(pay.shape[1])
        kernels.gains(self.graph, self._exits, pay, NO_BASE, V, self._model, gain, off)
        return gain, off

    def _proven(self, pay: Float, unknown: Float, V: Float) -> tuple[float, Float]:
        """What no policy is paid more than from the start, by values V [2, n]; [P]: how far gains may be off."""
        gain, off = self._gains(pay, V)
        off += unknown
        return self._from_start(V) + max(float((gain + off).max()), 0.0) * self.expected, off

    def visits(self, chain: Chain | SlowChain) -> Float:
        """[n]: how often the chain of a policy is expected at each node: off by at most `error_of`."""
        if isinstance(chain, SlowChain):
            return chain.visits(self.initial)
        return chain.visits(self.initial, self.steps, VISITS * HALF_ULP * self.longest * self.expected)

    def error_of(self, best: Best, sizes: Float) -> Float:
        """[m]: how far totals of a policy may be off whose pairs pay sizes [P, m]."""
        if isinstance(best.chain, SlowChain):
            relative, absolute = self._slow_error
            own = sizes[best.pairs]
            expected = float(self.initial @ best.chain.steps) if absolute else 0.0
            return np.asarray(relative * (self.visits(best.chain) @ own) + absolute * expected * own.max(axis=0))
        pairs = best.pairs[best.chain.reached(self.initial)]
        return np.asarray(self.errors(0.0)[1] * sizes[pairs].max(axis=0))

    def errors(self, most: float) -> tuple[float, float]:
        """How far support values and totals may be off for a pay of 1, if paid visits add up to at most `most`."""
        if self._moves:  # bounds are rounded up as they are found
            relative, absolute = self._slow_error
            return 0.0, relative * most + absolute * self.expected
        support = 4.0 * (self.outcomes + 24) * HALF_ULP * self.longest * self.expected
        return support, (2.0 * VISITS * self.longest + 8.0) * 1.01 * HALF_ULP * self.expected

    @property
    def _slow_error(self) -> tuple[float, float]:
        relative, absolute = slow_error(self.n)
        return relative + 4.0 * self.n * self._model + 8.0 * HALF_ULP, absolute

    def _in_slots(self, pay: Float) -> Float:
        slots: Float = np.append(pay, -np.inf)[self._slot_pair]
        return slots

    def _chain(self, chosen: Array, pay: Float) -> tuple[Chain, Float]:
        """The chain of a policy, and the pay of its nodes, in as many digits as that of pairs."""
        pairs = self._first + chosen[: self.n].astype(np.int64)
        count = int((self._begin[pairs + 1] - self._begin[pairs]).sum())
        begin, column, weight = np.empty(self.n + 1, np.uint64), np.empty(count, np.uint32), np.empty(count)
        kernels.chain_of(self.graph, chosen, begin, column, weight)
        return Chain(begin, column, weight, max(self.longest, 100.0), self._exits[pairs]), pay[..., pairs]


def enough(value: float, size: float) -> float:
    """How far a bound may be above a value, of at most `size`, before it is worth twice the digits. What is seldom
    paid is known to 1e-7 of itself."""
    return LOOSE * max(abs(value), min(1.0, size, SELDOM * abs(value) or 1.0))


def closed(pay: Float) -> tuple[Float, Float]:
    """A pay [P] that is exact, in twice the digits, and that it is not off [P]."""
    nothing = np.zeros(pay.size)
    return np.stack((pay, nothing)), nothing


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
    process = PolicyIteration(graph, np.full(n, 1.0 / n), np.ones(n), first)
    with suppress(RunError):
        best = process.best(-ones, 1.0, 1e-9)
        if best.V.min() > -LONGEST:
            return best.choice
    return process.slowly(*closed(-ones)).choice


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


def certified_steps(graph: KernelGraph, initial: Float, first: Array) -> tuple[Float, Array]:
    """[n]: steps(s) >= 1 + sum p steps for every pair: the most steps that any policy can make it go on, about; and
    the policy [n] that improvements start from.

    Found by policy iteration with a pay of 1, and checked: where T V <= V + delta, V / (1 - delta) will do. Where that
    is beyond what twice the digits can tell: from anywhere n moves end it with the least probability to the power of n.
    Then what a first step gains may not be told either, so that improvements start where it goes on for longest: to
    end gains, if at all, by much.
    """
    n = initial.size
    ones = np.ones(graph[1].size - 1)
    process, longest = PolicyIteration(graph, np.full(n, 1.0 / n), np.ones(n), first), first
    for slow in (False, True):
        try:
            best = process.slowly(*closed(ones)) if slow else process.best(ones, 1.0, 1e-6)
        except RunError:
            continue
        V, longest = best.V, best.choice
        gain, off = process._gains(closed(ones)[0], np.stack((V, np.zeros(n))))
        delta = max(0.0, float((gain + off).max())) + 1e-9
        if delta < 0.5 and (V >= 0.5).all():
            steps: Float = V / (1.0 - delta)
            return steps, first
    with np.errstate(over="ignore", divide="ignore"):
        return np.full(n, min(n / graph[3].min(initial=1.0) ** n, ENDLESS)), longest

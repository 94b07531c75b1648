"""The exact oracle of a model whose long-run average counts, with any number of recurrent classes, periodic or not.

Whatever is played, the process ends up in an end component with probability 1 (`conrl.model.reduction`). Within one,
every state leads to every other, so that the best average of the scalar pay r = w.(r, c) does not depend on the state:
it is the gain g of the component. What remains is to get to the components that are worth most, a total with g as the
pay of staying there (Puterman 1994, Chapter 9; de Alfaro 1997, Section 5):

    support(w) = max over policies of  sum over components M of  P(end in M) g_M

*The gain of a component.* For any V on its states,  min (T V - V) <= g <= max (T V - V)  (Puterman 1994, Theorem
8.5.5), with T over the pairs that keep within it. Value iteration, half a step at a time so that no chain is periodic,
makes the two meet; in between, the policy that it chose is solved for: the stationary distribution of its best
recurrent class is the value vector, and its relative values are a better V (Howard 1960). The larger of the two is
what enters the bound.

*Slow components.* Where V grows large, as it takes so many steps to get from one state to another, rounding would hide
what an action gains; and where the two are slow to meet, sweeps would not end. Then it is policy iteration alone, with
V and the gain in twice the digits (`conrl.kernels.slow`). An improved policy may fall apart into several recurrent
classes; those with a new action are paid more than g or, if there are none, the old one is what all states come to. So
the best of the new ones is gone on with, and all other states lead there.

Probabilities of a pair are taken in proportion: those that add up to 1 - 1e-10 would leave nothing in the long run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Float, Int
from conrl.errors import RunError
from conrl.model import ConstrainedMDP
from conrl.model.chains import Chain, SlowChain, added
from conrl.model.graph import select
from conrl.model.occupation import STATIONARY_ERROR, cut_off, recurrent_classes, stationary_distribution, within
from conrl.model.reduction import Components, KernelGraph, Reachable, collapsed, end_components
from conrl.oracles.policy_iteration import (
    CLOSE,
    HOWARD,
    LONG,
    SLOW_NOISE,
    Best,
    PolicyIteration,
    certified_steps,
    closed,
    enough,
    quickest,
    toward,
)
from conrl.oracles.protocols import ModelOracle, Rounding, Supports
from conrl.oracles.stationary import along_closely, spread
from conrl.rounding import HALF_ULP
from conrl.stationary_policy import Stationary

SWEEPS = 64  # of value iteration before a policy is solved for; twice as many each time
MOST_SWEEPS = 2_000_000  # in all; what is left between the bound and the value is in the gap
PATIENT = 4000  # sweeps after which a component is slow
CORRECTED = 3  # times that a gain is corrected by what values have left: twice is enough
CLASSES = 64  # recurrent classes of one policy that are looked at, at most


class Gain(NamedTuple):
    """The best of one component."""

    bound: float  # no average is larger
    value: Float  # [1+d]: of the policy found, without bonus
    moved: Float  # [1+d]: what the bonus may move
    play: Int  # [n]: the pair of the reachable part for each of its positions
    sizes: Float  # [1+d]: the mean size of its pay
    error: Float  # [1+d]: how far the value, give or take what is moved, may be off


class Class(NamedTuple):
    """A recurrent class of a policy."""

    gain: float
    share: Float  # [m]: its stationary distribution
    states: Int  # [m]
    played: Int  # [m]: their pairs
    error: float  # all in all, of the distribution; each entry is known to `STATIONARY_ERROR` in proportion


@dataclass(frozen=True, eq=False)
class Component:
    """An end component: positions of the reachable part, its pairs, and their graph among themselves."""

    part: Reachable
    states: Int  # [n]
    pairs: Int  # [P]
    graph: KernelGraph

    @classmethod
    def of(cls, part: Reachable, components: Components, i: int, source: Int) -> Component:
        states = np.flatnonzero(components.of == i)
        pairs = np.flatnonzero(components.inside & (components.of[source] == i))
        number = np.zeros(part.order.size, dtype=np.uint32)
        number[states] = np.arange(states.size, dtype=np.uint32)
        _, start, successor, probability = part.graph
        begin, members = select(start.astype(np.int64), pairs)
        first = np.searchsorted(source[pairs], np.append(states, part.order.size)).astype(np.uint64)
        return cls(part, states, pairs, (first, begin, number[successor[members]], probability[members]))

    @cached_property
    def _layout(self) -> tuple[Int, Any]:
        slot_pair, lines = kernels.interleave(self.graph)
        return slot_pair.astype(np.int64), lines

    def best(
        self,
        pay: Float,
        exactly: Callable[[], tuple[Float, Float]],
        size: float,
        tie: float,
        paid: Float,
        bonus: Float | None,
    ) -> Gain:
        """For the scalar pay [P] of at most `size`; paid and bonus [P, 1+d] are what it is made of.

        exactly() is the pay [2, P] in twice the digits, and how far that of each pair may be off [P].
        """
        n = self.states.size
        first = self._first
        if n == 1:
            k = int(np.flatnonzero(pay >= pay.max() - tie)[0])
            moved = np.zeros(paid.shape[1]) if bonus is None else bonus[k]
            sizes = np.abs(paid[k]) + moved
            twice, unknown = exactly()
            bound = float((twice[0] + unknown + 2.0 * HALF_ULP * np.abs(twice[0])).max())
            return Gain(bound, paid[k], moved, self.pairs[[k]], sizes, 0.0 * sizes)
        slot_pair, lines = self._layout
        slots = np.append(pay, -np.inf)[slot_pair]
        blocks = (-(-n // kernels.LANES), kernels.LANES)
        V, W, choice = np.zeros(blocks), np.zeros(blocks), np.zeros(blocks, dtype=np.uint32)
        unit = 1.01 * HALF_ULP * (self._outcomes + 24)
        best: Class | None = None
        bound, sweeps, done, tried = np.inf, SWEEPS, 0, False
        while True:
            low, high = kernels.relative(lines, n, slots, tie, V, W, choice, sweeps, 2.0 * unit * size)
            rounding = unit * (size + float(np.abs(V.reshape(-1)[:n]).max()))
            bound = min(bound, high + rounding)
            pairs = first + choice.reshape(-1)[:n].astype(np.int64)
            found = self._best_class(pairs, pay)
            if found is not None and (best is None or found.gain > best.gain):
                best = found
            closed = best is not None and bound - best.gain <= 8.0 * rounding + tie
            if not closed:
                h = None if found is None else self._relative_values(pairs, found, pay)
                rounding = np.inf
                if h is not None and best is not None:
                    trial = np.zeros(blocks)
                    trial.reshape(-1)[:n] = h
                    lowest, highest = kernels.relative(lines, n, slots, tie, trial, W, choice, 1, 0.0)
                    rounding = unit * (size + float(np.abs(h).max()))
                    bound = min(bound, highest + rounding)
                    closed = bound - best.gain <= 8.0 * rounding + tie
                    if highest - lowest < high - low:
                        V = trial
            done += sweeps
            loose = 8.0 * rounding + tie > enough(0.0 if best is None else best.gain, size)
            if not tried and (loose or (done >= PATIENT and not closed)):
                tried = True
                with suppress(RunError):  # in a large component; sweeps go on
                    proven, best = self._slowly(pairs, *exactly())
                    bound = min(bound, proven)
                    break
            if closed or done >= MOST_SWEEPS:
                break
            sweeps *= 2
        if best is None:
            raise RunError("it takes too long to come back to a state for an average to be computed; use a horizon")
        value, moved = np.empty(paid.shape[1]), np.zeros(paid.shape[1])
        kernels.paid(best.share, best.played, paid, value)
        own = np.abs(paid[best.played])
        if bonus is not None:
            kernels.paid(best.share, best.played, bonus, moved)
            own = own + bonus[best.played]
        play = toward(self.part, self.pairs, self.states[best.states])[self.states]
        play[best.states] = self.pairs[best.played]
        sizes = best.share @ own
        error = STATIONARY_ERROR * sizes + best.error * own.max(axis=0)
        return Gain(max(bound, best.gain), value, moved, play, sizes, error)

    @cached_property
    def _first(self) -> Int:
        first: Int = self.graph[0][:-1].astype(np.int64)
        return first

    @cached_property
    def _outcomes(self) -> int:
        return int(np.diff(self.graph[1].astype(np.int64)).max())

    def _chain(self, pairs: Int) -> tuple[Int, Int, Float]:
        _, start, successor, probability = self.graph
        begin, members = select(start.astype(np.int64), pairs)
        return begin.astype(np.int64), successor[members].astype(np.int64), probability[members]

    def _best_class(self, pairs: Int, pay: Float, new: Any = None) -> Class | None:
        """Of a policy, the recurrent class that is paid most; of those with `new` [n] states, if there are any.

        None if it takes too long to come back to a state.
        """
        chain = self._chain(pairs)
        number = recurrent_classes(*chain[:2])
        numbers = np.arange(min(int(number.max()) + 1, CLASSES))
        if new is not None and (number[new] >= 0).any():
            numbers = np.unique(number[new & (number >= 0)])
        best: Class | None = None
        for i in numbers:
            states = np.flatnonzero(number == i)
            try:
                share, error = stationary_distribution(within(chain, states))
            except RunError:  # it hardly ever comes back: others will
                continue
            gain = float(share @ pay[pairs[states]])
            if best is None or gain > best.gain:
                best = Class(gain, share, states, pairs[states], error)
        return best

    def _joined(self, pairs: Int, found: Class) -> Int:
        """[n]: the policy that plays the class found and leads to it elsewhere, as `pairs` do where they come to it."""
        joined, comes = pairs.copy(), self._comes_to(pairs, found.states)
        if not comes.all():
            lead = toward(self.part, self.pairs, self.states[found.states])[self.states]
            joined = np.where(comes, joined, np.searchsorted(self.pairs, np.maximum(lead, 0)))
        joined[found.states] = found.played
        return joined

    def _relative_values(self, pairs: Int, found: Class, pay: Float) -> Float | None:
        """[n]: h of a policy that plays the class found, and leads to it elsewhere; 0 at its most visited state."""
        joined = self._joined(pairs, found)
        rows, exits = cut_off(self._chain(joined), found.states[int(np.argmax(found.share))])
        try:
            return Chain(*rows, 1e4, exits).values(pay[joined] - found.gain, 1e-13)
        except RunError:
            return None

    def _slowly(self, pairs: Int, pay: Float, unknown: Float) -> tuple[float, Class]:
        """A bound on the gain, and the best class, by policy iteration in twice the digits, as pay [2, P] has."""
        V, g, joined, found = self._settled(pairs, pay)
        bound, off = self._proven(pay, unknown, V, g)
        if bound > g[0] + CLOSE * abs(g[0]):
            V, g, _, _ = self._settled(joined, added(pay, 2.0 * off))
            bound = min(bound, self._proven(pay, unknown, V, g)[0])
        return bound, found

    def _settled(self, pairs: Int, pay: Float) -> tuple[Float, Float, Int, Class]:
        """Improve a policy until nothing gains: the relative values [2, n], the gain [2], what is played, its class."""
        new = None
        for _ in range(HOWARD):
            found = self._best_class(pairs, pay[0], new)
            if found is None:
                break
            joined = self._joined(pairs, found)
            at = int(np.argmax(found.share))
            rows, exits = cut_off(self._chain(joined), found.states[at])
            chain, g = SlowChain(*rows, exits), np.array([found.gain, 0.0])
            for _ in range(CORRECTED):
                V = chain.values(pay[:, joined], g)
                g = added(g, V[0, found.states[at]] * found.share[at])  # what is left on a way back, by its length
            gain, _ = self._gains(pay, V, g)
            choice = (joined - self._first).astype(np.uint32)
            least = 8.0 * float(np.abs(gain[joined]).max()) + SLOW_NOISE * float(np.abs(V[0]).max())
            new = kernels.better(self.graph, gain, least, choice)
            if not new.any():
                return V, g, joined, found._replace(gain=float(g[0]))
            pairs = self._first + choice.astype(np.int64)
        raise RunError("policy iteration does not settle: actions differ by no more than rounding")

    def _gains(self, pay: Float, V: Float, g: Float) -> tuple[Float, Float]:
        """[P] each: pay - g + sum p (V' - V), and what it may be off by for a pay that is exact."""
        gain, off = np.empty(pay.shape[1]), np.empty(pay.shape[1])
        model = (self._outcomes + 2) * HALF_ULP
        kernels.gains(self.graph, np.zeros(gain.size), pay, g, V, model, gain, off)
        return gain, off

    def _proven(self, pay: Float, unknown: Float, V: Float, g: Float) -> tuple[float, Float]:
        """What no average exceeds, by relative values V [2, n]; [P]: how far gains may be off."""
        gain, off = self._gains(pay, V, g)
        off += unknown
        return float(g[0] + (gain + off).max()) + 4.0 * HALF_ULP * abs(float(g[0])), off

    def _comes_to(self, pairs: Int, states: Int) -> Any:
        """[n]: whether the policy's chain is certain to come to the states: it has no other recurrent class ahead."""
        chain = self._chain(pairs)
        number = recurrent_classes(*chain[:2])
        begin, column, _ = chain
        origin = np.repeat(np.arange(self.states.size), np.diff(begin))
        by = np.argsort(column, kind="stable")
        back = np.searchsorted(column[by], np.arange(self.states.size + 1)), origin[by], np.ones(column.size)
        other = (number >= 0).astype(np.float64)
        other[states] = 0.0
        return ~Chain(*back, 1.0).reached(other)


class AverageOracle(ModelOracle):
    """`SupportOracle` of a model with `Average()`, or of its optimistic set if it carries a bonus."""

    def __init__(self, mdp: ConstrainedMDP) -> None:
        part = Reachable.of(mdp).in_proportion()
        bonus = None if mdp.bonus is None else mdp.bonus[part.pairs]
        super().__init__(mdp, mdp.pay[part.pairs], bonus, (0, 0))
        self.horizon = 1.0
        self.part, self.components = part, end_components(part)
        self.reduced = collapsed(part, self.components)
        graph, initial = self.reduced.graph, self.reduced.initial
        self.process = PolicyIteration(graph, initial, *certified_steps(graph, initial, quickest(graph)))
        source = part.source
        self._parts = [Component.of(part, self.components, i, source) for i in range(self.components.count)]
        self._stay = np.flatnonzero(self.reduced.pair < 0)  # the reduced pair to stay in each component

    def rounding(self, sharp: bool = False) -> Rounding:
        """Support values are upper bounds as they are; points are off by what is proven of distributions and visits."""
        support, point = self.process.errors(1.0)
        return Rounding(support * self.scale, (point + 2.0 * STATIONARY_ERROR) * self.scale)

    def point_error(self, w: Float) -> Float:
        """By what its policy is paid in the components that it ends in."""
        gains, best = self._best(np.asarray(w, dtype=np.float64))
        sizes, error = np.zeros((2, self.reduced.pair.size, 1 + self.num_costs))
        for k in self._stay:
            gain = gains[-1 - self.reduced.pair[k]]
            sizes[k], error[k] = gain.sizes, gain.error
        return self.process.error_of(best, sizes) + self.process.visits(best.chain) @ error[best.pairs]

    def support_many(self, directions: Float) -> Supports:
        m = directions.shape[0]
        values, points, means = np.empty(m), np.empty((m, 1 + self.num_costs)), np.empty((m, 1 + self.num_costs))
        for i, w in enumerate(directions):
            gains, best = self._best(w)
            values[i] = best.bound
            x = self.process.visits(best.chain)
            stays = self.reduced.pair[best.pairs] < 0
            ends = x[stays]
            which = -1 - self.reduced.pair[best.pairs[stays]]
            kernels.paid(ends, which, np.array([gain.value for gain in gains]), means[i])
            points[i] = means[i]
            if self._bonus is not None:
                moved = np.empty(1 + self.num_costs)
                kernels.paid(ends, which, np.array([gain.moved for gain in gains]), moved)
                points[i] += np.sign(w) * moved
        return Supports(values, points, means)

    def _exactly(self, pairs: Int, w: Float) -> tuple[Float, Float]:
        bonus = None if self._bonus is None else self._bonus[pairs]
        return along_closely(self._pay[pairs], bonus, w, self._sizes[pairs])

    def _best(self, w: Float) -> tuple[list[Gain], Best]:
        pay = np.empty(self._pay.shape[0])
        no_bonus: Float = np.empty((0, 1 + self.num_costs))
        kernels.along(self._pay, no_bonus if self._bonus is None else self._bonus, w, pay)
        size, tie = float(np.abs(w) @ self.scale), self._tie(w)
        gains = []
        for component in self._parts:
            own = component.pairs
            bonus = None if self._bonus is None else self._bonus[own]
            gains.append(component.best(pay[own], partial(self._exactly, own, w), size, tie, self._pay[own], bonus))
        ends = np.zeros(self.reduced.pair.size)
        ends[self._stay] = [gains[-1 - k].bound for k in self.reduced.pair[self._stay].tolist()]
        tie *= min(self.process.longest, LONG)
        best = self.process.closely(ends, partial(closed, ends), size, tie)
        return gains, best._replace(bound=min(best.bound, max(gain.bound for gain in gains)))

    def policy(self, w: Float) -> Stationary:
        """The best policy for w: how to get to the best components, and what to do there."""
        gains, best = self._best(np.asarray(w, dtype=np.float64))
        stays = {}
        for i, (component, gain) in enumerate(zip(self._parts, gains, strict=True)):
            stays[i] = np.zeros(self.part.order.size, dtype=np.int64)
            stays[i][component.states] = gain.play
        played = spread(self.part, self.components, self.reduced, best.pairs, stays)
        mdp = self.mdp
        actions = mdp.action[mdp.graph.first[:-1]].astype(np.int16)
        actions[self.part.order] = mdp.action[self.part.pairs[played]]
        return Stationary._trusted_actions(actions, mdp.num_actions)

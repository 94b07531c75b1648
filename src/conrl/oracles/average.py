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

Probabilities of a pair are taken in proportion: those that add up to 1 - 1e-10 would leave nothing in the long run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Float, Int
from conrl.errors import RunError
from conrl.model import ConstrainedMDP
from conrl.model.chains import Chain
from conrl.model.graph import select
from conrl.model.occupation import STATIONARY_ERROR, recurrent_classes, stationary_distribution, within
from conrl.model.reduction import Components, KernelGraph, Reachable, collapsed, end_components
from conrl.oracles.policy_iteration import LONG, Best, PolicyIteration, certified_steps, quickest, toward
from conrl.oracles.protocols import ModelOracle, Rounding, Supports
from conrl.oracles.stationary import spread
from conrl.rounding import HALF_ULP
from conrl.stationary_policy import Stationary

SWEEPS = 64  # of value iteration before a policy is solved for; twice as many each time
MOST_SWEEPS = 2_000_000  # in all; what is left between the bound and the value is in the gap
CLASSES = 64  # recurrent classes of one policy that are looked at, at most


class Gain(NamedTuple):
    """The best of one component."""

    bound: float  # no average is larger
    value: Float  # [1+d]: of the policy found, without bonus
    moved: Float  # [1+d]: what the bonus may move
    play: Int  # [n]: the pair of the reachable part for each of its positions


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

    def best(self, pay: Float, size: float, tie: float, paid: Float, bonus: Float | None) -> Gain:
        """For the scalar pay [P] of at most `size`; paid and bonus [P, 1+d] are what it is made of."""
        n = self.states.size
        first = self.graph[0][:-1].astype(np.int64)
        if n == 1:
            k = int(np.flatnonzero(pay >= pay.max() - tie)[0])
            moved = np.zeros(paid.shape[1]) if bonus is None else bonus[k]
            return Gain(float(pay.max()) + 32.0 * HALF_ULP * size, paid[k], moved, self.pairs[[k]])
        slot_pair, lines = self._layout
        slots = np.append(pay, -np.inf)[slot_pair]
        blocks = (-(-n // kernels.LANES), kernels.LANES)
        V, W, choice = np.zeros(blocks), np.zeros(blocks), np.zeros(blocks, dtype=np.uint32)
        outcomes = int(np.diff(self.graph[1].astype(np.int64)).max())
        unit = 1.01 * HALF_ULP * (outcomes + 24)
        best: tuple[float, Float, Int, Int] | None = None  # gain, distribution, its states, their pairs
        bound, sweeps, done, found = np.inf, SWEEPS, 0, None
        while True:
            low, high = kernels.relative(lines, n, slots, tie, V, W, choice, sweeps, 2.0 * unit * size)
            rounding = unit * (size + float(np.abs(V.reshape(-1)[:n]).max()))
            bound = min(bound, high + rounding)
            pairs = first + choice.reshape(-1)[:n].astype(np.int64)
            found = self._best_class(pairs, pay)
            if found is not None and (best is None or found[0] > best[0]):
                best = found
            done += sweeps
            if done >= MOST_SWEEPS or (best is not None and bound - best[0] <= 8.0 * rounding + tie):
                break
            h = None if found is None else self._relative_values(pairs, found, pay)
            if h is not None and best is not None:
                trial = np.zeros(blocks)
                trial.reshape(-1)[:n] = h
                lowest, highest = kernels.relative(lines, n, slots, tie, trial, W, choice, 1, 0.0)
                rounding = unit * (size + float(np.abs(h).max()))
                bound = min(bound, highest + rounding)
                if bound - best[0] <= 8.0 * rounding + tie:
                    break
                if highest - lowest < high - low:
                    V = trial
            sweeps *= 2
        if best is None:
            raise RunError("it takes too long to come back to a state for an average to be computed; use a horizon")
        gain, share, states, played = best
        value, moved = np.empty(paid.shape[1]), np.zeros(paid.shape[1])
        kernels.paid(share, played, paid, value)
        if bonus is not None:
            kernels.paid(share, played, bonus, moved)
        play = toward(self.part, self.pairs, self.states[states])[self.states]
        play[states] = self.pairs[played]
        return Gain(max(bound, gain), value, moved, play)

    def _chain(self, pairs: Int) -> tuple[Int, Int, Float]:
        _, start, successor, probability = self.graph
        begin, members = select(start.astype(np.int64), pairs)
        return begin.astype(np.int64), successor[members].astype(np.int64), probability[members]

    def _best_class(self, pairs: Int, pay: Float) -> tuple[float, Float, Int, Int] | None:
        """Of a policy, the recurrent class that is paid most: its gain, distribution, states and pairs.

        None if it takes too long to come back to a state.
        """
        chain = self._chain(pairs)
        number = recurrent_classes(*chain[:2])
        best: tuple[float, Float, Int, Int] | None = None
        for i in range(min(int(number.max()) + 1, CLASSES)):
            states = np.flatnonzero(number == i)
            try:
                share = stationary_distribution(within(chain, states))
            except RunError:  # it hardly ever comes back: others will
                continue
            gain = float(share @ pay[pairs[states]])
            if best is None or gain > best[0]:
                best = gain, share, states, pairs[states]
        return best

    def _relative_values(self, pairs: Int, found: tuple[float, Float, Int, Int], pay: Float) -> Float | None:
        """[n]: h of a policy that plays the class found, and leads to it elsewhere; 0 at its most visited state."""
        gain, share, states, played = found
        lead = toward(self.part, self.pairs, self.states[states])[self.states]
        local = np.searchsorted(self.pairs, np.maximum(lead, 0))
        joined = np.where(self._comes_to(pairs, states), pairs, local)
        joined[states] = played
        begin, column, weight = self._chain(joined)
        kept = column != states[int(np.argmax(share))]
        origin = np.repeat(np.arange(self.states.size), np.diff(begin))[kept]
        cut = np.searchsorted(origin, np.arange(self.states.size + 1)), column[kept], weight[kept]
        try:
            return Chain(*cut, 1e4).values(pay[joined] - gain, 1e-13)
        except RunError:
            return None

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
        first = quickest(graph)
        self.process = PolicyIteration(graph, initial, certified_steps(graph, initial, first), first)
        source = part.source
        self._parts = [Component.of(part, self.components, i, source) for i in range(self.components.count)]
        self._stay = np.flatnonzero(self.reduced.pair < 0)  # the reduced pair to stay in each component

    def rounding(self, sharp: bool = False) -> Rounding:
        """Support values are upper bounds as they are; points are off by what is proven of distributions and visits."""
        process = self.process
        return Rounding(process.support_error * self.scale, (process.visits_error + STATIONARY_ERROR) * self.scale)

    def point_error(self, w: Float) -> Float:
        """By the largest pay of the components that its policy ends in, of what it plays there."""
        gains, best = self._best(np.asarray(w, dtype=np.float64))
        reached = best.chain.reached(self.process.initial)
        stays = self.reduced.pair[best.pairs]
        ends = {-1 - int(k) for k in stays[reached & (stays < 0)]}
        sizes = np.zeros(1 + self.num_costs)
        for i in ends:
            played = gains[i].play
            mine = np.abs(self._pay[played]) + (0.0 if self._bonus is None else self._bonus[played])
            sizes = np.maximum(sizes, mine.max(axis=0))
        return np.asarray((self.process.error_of(best.chain) + STATIONARY_ERROR) * sizes)

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

    def _best(self, w: Float) -> tuple[list[Gain], Best]:
        pay = np.empty(self._pay.shape[0])
        no_bonus: Float = np.empty((0, 1 + self.num_costs))
        kernels.along(self._pay, no_bonus if self._bonus is None else self._bonus, w, pay)
        size, tie = float(np.abs(w) @ self.scale), self._tie(w)
        gains = []
        for component in self._parts:
            own = component.pairs
            bonus = None if self._bonus is None else self._bonus[own]
            gains.append(component.best(pay[own], size, tie, self._pay[own], bonus))
        ends = np.zeros(self.reduced.pair.size)
        ends[self._stay] = [gains[-1 - k].bound for k in self.reduced.pair[self._stay].tolist()]
        return gains, self.process.best(ends, size, tie * min(self.process.longest, LONG))

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

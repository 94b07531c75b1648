"""The exact oracle: one backward induction on the scalar pay w.(r, c) answers a direction.

    support(w) = max over policies of w.z,   z = (reward, costs) in R^(1+d)

With a bonus b >= 0 per pair and coordinate, coordinate i of a pair may move by +-b_i. The best case for w moves
each by sign(w_i) b_i, so that the support function of the *optimistic* set is one backward induction with

    w.(r, c) + sum_i |w_i| b_i

For w = (1, -lambda), lambda >= 0, that is r + b and c - b: the bonus-enhanced model of Section 3 of Brantley et
al. (2020); for w of any sign it is the inner maximum over the intervals of ConvexConPlanner (Section 4).

The maximiser z is evaluated by a forward pass of the greedy policy, which touches only the pairs it plays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Bool, Float
from conrl.model import ConstrainedMDP
from conrl.oracles.protocols import DRIFT, HALF_ULP, TINY, ModelOracle, Supports
from conrl.policy import Deterministic

FEW = 2  # this many directions or fewer are quicker one by one than in one sweep of LANES


@dataclass
class Scratch:
    """What one call works in: n positions in B blocks, P pairs."""

    values: Float  # [2, B, LANES]
    choice: NDArray[np.uint16]  # [M, LANES]: a row for each step and block that can be occupied then
    mu: Float  # [2, n]
    counts: Float  # [P]
    pay: Float  # [slots, LANES]

    @cached_property
    def many(self) -> tuple[Float, NDArray[np.uint16]]:
        """Values [2, n, LANES] and choice [M * LANES, LANES] of a sweep for many directions."""
        choice = np.zeros((self.choice.size, kernels.LANES), dtype=np.uint16)
        return np.zeros((2, self.mu.shape[1], kernels.LANES)), choice


class BackwardInduction(ModelOracle):
    """`SupportOracle` of a model, or of its optimistic set if it carries a bonus.

    Threads may share one, and no answer depends on another: scratch memory belongs to a call. What calls have given
    back is used again, as making it takes a twentieth of the time of a small model's answer.
    """

    _has_parts = False

    def __init__(self, mdp: ConstrainedMDP) -> None:
        """Lay out the pay of the reachable pairs as the kernels read it, and count the operations of a total.

        Backward: w.(r, c), then a product and a sum for each outcome, H times. Forward: at most as many sums as
        outcomes lead to a state, H times, then over the steps and over the pairs.
        """
        reach, H, more = mdp.reach, mdp.horizon, 4 * mdp.num_costs + 8
        bonus = None if mdp.bonus is None else mdp.bonus[reach.pairs]
        backward = H * (reach.outcomes + 1) + reach.order.size + more
        forward = H * (reach.arrivals + 2) + reach.pairs.size + more
        super().__init__(mdp, mdp.pay[reach.pairs], bonus, (backward, forward))  # in positions
        self._reach = reach
        # Plain tuples: numba reads them faster than named ones.
        self._graph, self._occupied = tuple(reach.graph), reach.occupied
        slot_pair, self._lines = kernels.interleave(self._graph)
        missing = slot_pair == self._pay.shape[0]
        self._missing = missing if missing.any() else None
        self._gone: Bool | None = None  # [P]: pairs that are not to be played (`conrl.oracles.restricted`)
        self._slot_pair = slot_pair if self._has_parts else None
        pairs = np.where(missing, 0, slot_pair)
        self._slot_pay = _lanes(self._pay[pairs])
        # As the kernels read it: no rows for none.
        self._pair_bonus: Float = np.empty((0, 1 + self.num_costs)) if bonus is None else bonus
        self._slot_bonus: Float = np.empty((0, kernels.LANES)) if bonus is None else _lanes(bonus[pairs])
        self._free: list[Scratch] = []

    def _scratch(self) -> Scratch:
        n = self._reach.order.size
        values = np.zeros((2, -(-n // kernels.LANES), kernels.LANES))
        choice = np.zeros((self._reach.rows, kernels.LANES), dtype=np.uint16)
        pay = np.empty((self._slot_pay.shape[0] // (1 + self.num_costs), kernels.LANES))
        return Scratch(values, choice, np.zeros((2, n)), np.zeros(self._pay.shape[0]), pay)

    def support_many(self, directions: Float) -> Supports:
        """Answers to the rows of `directions` [m, 1+d], up to LANES of them in one sweep."""
        m = directions.shape[0]
        values = np.empty(m)
        points = np.empty((m, 1 + self.num_costs))
        means = np.empty_like(points)
        try:
            work = self._free.pop()  # to look first whether there is one would be a race
        except IndexError:
            work = self._scratch()
        for begin in range(0, m, kernels.LANES):
            part = slice(begin, min(m, begin + kernels.LANES))
            if part.stop - part.start > FEW:
                self._sweep_many(directions[part], work, values[part], points[part], means[part])
                continue
            for i in range(part.start, part.stop):
                values[i] = self._sweep(directions[i], work)
                choice = work.choice.reshape(-1, 1)
                self._value_vector(directions[i], choice, 0, work, points[i], means[i])
        self._free.append(work)
        return Supports(values, points, means)

    def _largest_totals(self) -> Float:
        """By backward induction on the sizes; upward, as that is rounded too."""
        mdp = self.mdp
        sizes = np.abs(mdp.pay) if mdp.bonus is None else np.abs(mdp.pay) + mdp.bonus
        values = BackwardInduction(mdp._copy(pay=sizes, bonus=None)).support_many(np.eye(1 + self.num_costs)).values
        return values * (1.0 + 1e-6)

    def support_error(self, w: Float, value: float) -> float:
        """In proportion to the value itself, where every pair pays 0 or less along w: nothing cancels, and a policy
        that is paid much less than the best is not the best, however it is rounded."""
        low, high = self._pay.min(axis=0), self._pay.max(axis=0)
        if self._bonus is not None or (np.where(w > 0.0, high, -low)[w != 0.0] > 0.0).any():
            return super().support_error(w, value)
        backward = self._operations[0]
        unit = 1.02 * HALF_ULP * math.exp(DRIFT * self.horizon)
        return backward * (unit * abs(value) + TINY * (1.0 + float(np.abs(w) @ self.scale)))

    def point_error(self, w: Float) -> Float:
        """By what its own policy is paid, in sizes: what an action that it does not play would pay is no error."""
        work = self._scratch()
        self._sweep(np.asarray(w, dtype=np.float64), work)
        choice, counts = work.choice.reshape(-1, 1), work.counts
        kernels.visits(self._graph, self._occupied, self._reach.initial, choice, 0, work.mu, counts)
        sizes = counts @ np.abs(self._pay)
        if self._bonus is not None:
            sizes += counts @ self._bonus
        return self.error_of(sizes)

    def error_of(self, sizes: Float) -> Float:
        forward = self._operations[1]
        unit = 1.02 * HALF_ULP * math.exp(DRIFT * self.horizon)  # one percent more: the sizes are rounded themselves
        return np.asarray(forward * unit * sizes + TINY * forward * (1.0 + self.scale))

    def policy(self, w: Float) -> Deterministic:
        """The greedy policy for w; at (step, state) pairs that cannot be reached, the first action.

        An estimate may err on what can be reached: there the policy is greedy everywhere.
        """
        mdp, w = self.mdp, np.asarray(w, dtype=np.float64)
        actions = np.empty((mdp.horizon, mdp.num_states), dtype=np.int16)
        if mdp._visits is not None:
            kernels.greedy(*mdp.graph, mdp.action, mdp.pay_along(w), self._tie(w), actions)
        else:
            work = self._scratch()  # new: what is played at states that are never reached depends on w alone
            self._sweep(w, work)
            choice = work.choice.reshape(-1)
            kernels.actions_of(mdp.graph.first, mdp.action, self._reach.order, self._occupied, choice, actions)
        return Deterministic._trusted_actions(actions, mdp.num_actions)

    def _sweep(self, w: Float, work: Scratch) -> float:
        """support(w), by backward induction over blocks of LANES states; what is chosen is left in `work.choice`."""
        pay = work.pay
        kernels.along_blocks(self._slot_pay, self._slot_bonus, w, pay)
        if self._missing is not None:
            pay[self._missing] = -np.inf
        initial = self._reach.initial
        return kernels.backward(self._lines, self._occupied, initial, pay, self._tie(w), work.values, work.choice)

    def _sweep_many(self, directions: Float, work: Scratch, values: Float, points: Float, means: Float) -> None:
        """The answers to up to LANES directions [m, 1+d], one backward induction with a direction in each lane."""
        m = directions.shape[0]
        W = np.zeros((directions.shape[1], kernels.LANES))
        W[:, :m] = directions.T
        pay = np.empty((self._pay.shape[0], kernels.LANES))
        kernels.along_many(self._pay, self._pair_bonus, W, np.abs(W), pay)
        if self._gone is not None:
            pay[self._gone] = -np.inf
        scratch, choice = work.many
        ties = np.array([self._tie(w) for w in W.T])
        values[:] = kernels.backward_many(self._graph, self._occupied, self._reach.initial, pay, ties, scratch, choice)[
            :m
        ]
        for i in range(m):
            self._value_vector(directions[i], choice, i, work, points[i], means[i])

    def _value_vector(
        self, w: Float, choice: NDArray[np.uint16], lane: int, work: Scratch, point: Float, mean: Float
    ) -> None:
        if self.mdp.step_dependent:
            moved = np.empty(mean.size)
            model = self._graph, self._occupied, self._reach.initial
            kernels.collected(*model, choice, lane, work.mu, self._pay, self._pair_bonus, mean, moved)
            point[:] = mean if self._bonus is None else mean + np.sign(w) * moved
            return
        counts = work.counts
        kernels.visits(self._graph, self._occupied, self._reach.initial, choice, lane, work.mu, counts)
        mean[:] = counts @ self._pay
        point[:] = mean if self._bonus is None else mean + np.sign(w) * (counts @ self._bonus)


def _lanes(table: Float) -> Float:
    """[slots * (1+d), LANES] of a table [slots, LANES, 1+d]."""
    return np.ascontiguousarray(np.moveaxis(table, 2, 1)).reshape(-1, kernels.LANES)

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

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Float
from conrl.model import ConstrainedMDP
from conrl.oracles.protocols import ModelOracle, Supports
from conrl.policy import Deterministic

FEW = 2  # up to so many directions are quicker one by one than in one sweep of LANES


class Scratch:
    """What one call works in: choices by block [H, B, LANES], those of a sweep for many by position [H, n, LANES]."""

    def __init__(self, horizon: int, positions: int, pairs: int) -> None:
        blocks = -(-positions // kernels.LANES)
        self.horizon, self.positions = horizon, positions
        self.values: Float = np.zeros((2, blocks, kernels.LANES))
        self.choice = np.zeros((horizon, blocks, kernels.LANES), dtype=np.uint16)
        self.mu: Float = np.zeros((2, positions))
        self.counts: Float = np.zeros(pairs)

    @cached_property
    def many(self) -> tuple[Float, NDArray[np.uint16]]:
        """Values and choice of a sweep for many directions."""
        shape = self.positions, kernels.LANES
        return np.zeros((2, *shape)), np.zeros((self.horizon, *shape), dtype=np.uint16)


class BackwardInduction(ModelOracle):
    """`SupportOracle` of a model, or of its optimistic set if it carries a bonus.

    Threads may share one, and no answer depends on another: scratch memory belongs to a call. One that is free is
    taken, as making it takes a twentieth of a small model's answer.
    """

    def __init__(self, mdp: ConstrainedMDP) -> None:
        reach = mdp.reach
        bonus = None if mdp.bonus is None else mdp.bonus[reach.pairs]
        super().__init__(mdp, mdp.pay[reach.pairs], bonus)  # in positions
        self._reach = reach
        self._graph = reach.graph
        self._block_first, self._slot_start, slot_pair, self._line_successor, self._line_probability = (
            kernels.interleave(*reach.graph)
        )
        missing = slot_pair == self._pay.shape[0]
        self._missing = missing if missing.any() else None
        pairs = np.where(missing, 0, slot_pair)
        self._slot_pay = self._pay[pairs].reshape(-1, 1 + self.num_costs)  # [slots * LANES, 1+d]
        # As the kernels read it: no rows for none.
        self._pair_bonus: Float = np.empty((0, 1 + self.num_costs)) if bonus is None else bonus
        self._slot_bonus = self._pair_bonus if bonus is None else bonus[pairs].reshape(self._slot_pay.shape)
        self._free: list[Scratch] = []

    def _scratch(self) -> Scratch:
        return Scratch(self.mdp.horizon, self._reach.order.size, self._pay.shape[0])

    def support_many(self, directions: Float) -> Supports:
        """Answers to the rows of `directions` [m, 1+d], up to LANES of them in one sweep."""
        m = directions.shape[0]
        values = np.empty(m)
        points = np.empty((m, 1 + self.num_costs))
        means = np.empty_like(points)
        try:
            work = self._free.pop()  # asking first whether there is one would be asking too early
        except IndexError:
            work = self._scratch()
        for begin in range(0, m, kernels.LANES):
            part = slice(begin, min(m, begin + kernels.LANES))
            if part.stop - part.start > FEW:
                self._sweep_many(directions[part], work, values[part], points[part], means[part])
                continue
            for i in range(part.start, part.stop):
                values[i] = self._sweep(directions[i], work)
                choice = work.choice.reshape(work.horizon, -1, 1)
                self._value_vector(directions[i], choice, 0, work, points[i], means[i])
        self._free.append(work)
        return Supports(values, points, means)

    def _operations(self) -> tuple[int, int]:
        """Backward: w.(r, c), then a product and a sum for each outcome, H times. Forward: at most as many sums as
        outcomes lead to a state, H times, then over the steps and over the pairs."""
        H, reach, more = self.mdp.horizon, self._reach, 4 * self.num_costs + 8
        return H * (reach.outcomes + 1) + reach.order.size + more, H * (reach.arrivals + 2) + reach.pairs.size + more

    def _largest_totals(self) -> Float:
        """By backward induction on the sizes; upward, as that is rounded too."""
        mdp = self.mdp
        sizes = np.abs(mdp.pay) if mdp.bonus is None else np.abs(mdp.pay) + mdp.bonus
        values = BackwardInduction(mdp._copy(pay=sizes, bonus=None)).support_many(np.eye(1 + self.num_costs)).values
        return values * (1.0 + 1e-6)

    def policy(self, w: Float) -> Deterministic:
        """The greedy policy for w; at (step, state) pairs that cannot be reached, the first action.

        An estimate may err on what can be reached: there the policy is greedy everywhere.
        """
        if self.mdp._visits is not None:
            return self._greedy(np.asarray(w, dtype=np.float64))
        mdp, work = self.mdp, self._scratch()  # a new one: what is played where nobody comes depends on w alone
        self._sweep(np.asarray(w, dtype=np.float64), work)
        actions = np.empty((mdp.horizon, mdp.num_states), dtype=np.int16)
        choice = work.choice.reshape(mdp.horizon, -1)
        kernels.actions_of(mdp.graph.first, mdp.action, self._reach.order, choice, actions)
        return Deterministic._trusted_actions(actions, mdp.num_actions)

    def _greedy(self, w: Float) -> Deterministic:
        mdp = self.mdp
        pay = mdp.pay_along(w)
        actions = np.empty((mdp.horizon, mdp.num_states), dtype=np.int16)
        kernels.greedy(*mdp.graph, mdp.action, pay, self._tie(w), actions)
        return Deterministic._trusted_actions(actions, mdp.num_actions)

    def _sweep(self, w: Float, work: Scratch) -> float:
        """support(w), by backward induction over blocks of LANES states; what is chosen is left in `work.choice`."""
        pay = np.empty((self._slot_pay.shape[0] // kernels.LANES, kernels.LANES))
        kernels.along(self._slot_pay, self._slot_bonus, w, pay.reshape(-1))
        if self._missing is not None:
            pay[self._missing] = -np.inf
        reach = self._reach
        at = kernels.backward(
            self._block_first,
            self._slot_start,
            self._line_successor,
            self._line_probability,
            reach.lo,
            reach.hi,
            reach.blocks,
            pay,
            self._tie(w),
            work.values,
            work.choice,
        )
        return kernels.at_start(reach.initial, work.values[at].reshape(-1, 1), 0)

    def _sweep_many(self, directions: Float, work: Scratch, values: Float, points: Float, means: Float) -> None:
        """The answers to up to LANES directions [m, 1+d], one backward induction with a direction in each lane."""
        m = directions.shape[0]
        W = np.zeros((directions.shape[1], kernels.LANES))
        W[:, :m] = directions.T
        pay = np.empty((self._pay.shape[0], kernels.LANES))
        kernels.along_many(self._pay, self._pair_bonus, W, np.abs(W), pay)
        reach = self._reach
        scratch, choice = work.many
        at = kernels.backward_many(
            *self._graph,
            reach.lo,
            reach.hi,
            reach.blocks,
            pay,
            np.array([self._tie(w) for w in W.T]),
            scratch,
            choice,
        )
        for i in range(m):
            values[i] = kernels.at_start(reach.initial, scratch[at], i)
            self._value_vector(directions[i], choice, i, work, points[i], means[i])

    def _value_vector(
        self, w: Float, choice: NDArray[np.uint16], lane: int, work: Scratch, point: Float, mean: Float
    ) -> None:
        reach, counts = self._reach, work.counts
        kernels.visits(*self._graph, reach.lo, reach.hi, reach.blocks, reach.initial, choice, lane, work.mu, counts)
        mean[:] = counts @ self._pay
        point[:] = mean if self._bonus is None else mean + np.sign(w) * (counts @ self._bonus)

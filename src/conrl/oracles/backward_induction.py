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

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conrl import kernels, without_numba
from conrl._types import Bool, Float
from conrl.model import ConstrainedMDP
from conrl.oracles.inductive import InductiveOracle
from conrl.oracles.protocols import Edge, LineRows, Supports
from conrl.oracles.threads import cores
from conrl.policy import Deterministic

FEW = 2  # this many directions or fewer are quicker one by one than in one sweep of LANES
MANY = 100_000  # transitions from which on Z looks smooth
WORK = 800_000  # transitions from which on a step is worth sharing among threads
FORKS = 2  # parts of a step forward that threads share; each is read at every state of the next step
PARTS = 2  # shares of a step for each thread: another program may delay one
ROOM = 256  # columns that a search in one call may meet; it seldom meets 20


@dataclass
class Scratch:
    """What one call works in: n positions in B blocks, P pairs."""

    values: Float  # [2, B, LANES]
    choice: NDArray[np.uint16]  # [M, LANES]: a row for each step and block that can be occupied then
    mu: Float  # [2, forks, n]: 0 but while visits are added up
    counts: Float  # [P]
    pay: Float  # [slots, LANES]

    @property
    def work(self) -> tuple[Float, Float, Float, Float]:
        """As the kernels read it."""
        return self.values, self.mu, self.counts, self.pay

    @cached_property
    def many(self) -> tuple[Float, NDArray[np.uint16], Float]:
        """Values [2, n, LANES], choice [M * LANES, LANES] and pay [P, LANES] of a sweep for many directions."""
        choice = np.zeros((self.choice.size, kernels.LANES), dtype=np.uint16)
        return np.zeros((2, self.mu.shape[2], kernels.LANES)), choice, np.empty((self.counts.size, kernels.LANES))


class BackwardInduction(InductiveOracle):
    """`SupportOracle` of a model, or of its optimistic set if it carries a bonus.

    Threads may share one, and no answer depends on another: scratch memory belongs to a call. What calls have given
    back is used again, as making it takes a twentieth of the time of a small model's answer. From WORK transitions on
    an answer is itself made by `threads`; it has the same bits for any number of them.
    """

    def __init__(self, mdp: ConstrainedMDP, threads: int | None = None) -> None:
        """Lay out the pay of the reachable pairs as the kernels read it, and count the operations of a total.

        Backward: w.(r, c), then a product and a sum for each outcome, H times, then over the first states. Forward: at
        most as many sums as outcomes lead to a state, H times, then over the steps and over the pairs, in parts.
        """
        reach, H, more = mdp.reach, mdp.horizon, 4 * mdp.num_costs + 8
        graph = tuple(reach.graph)  # plain tuples: numba reads them faster than named ones
        self._slot_pair, lines = kernels.interleave(graph)
        pay, slot_pay = kernels.in_order(self._slot_pair, reach.pairs, mdp.pay)
        bonus, slot_bonus = np.empty((0, 1 + mdp.num_costs)), np.empty((0, kernels.LANES))  # no rows for none
        if mdp.bonus is not None:
            bonus, slot_bonus = kernels.in_order(self._slot_pair, reach.pairs, mdp.bonus)
        missing = self._slot_pair == reach.pairs.size
        missing = missing if missing.any() else missing[:0]
        transitions = reach.graph.probability.size
        self.curved = transitions >= MANY
        self._shared = transitions >= WORK  # by size: bits must not depend on threads
        backward = H * (reach.outcomes + 1) + int(np.count_nonzero(reach.initial)) + more
        pairs = reach.pairs.size
        sums = pairs if mdp.step_dependent else min(pairs, kernels.PART) + pairs // kernels.PART + 1
        self._forks = FORKS if self._shared and not mdp.step_dependent else 1
        forward = H * (reach.arrivals + 1 + self._forks) + sums + more
        super().__init__(mdp, pay, None if mdp.bonus is None else bonus, (backward, forward))  # in positions
        self._reach = reach
        own = graph, lines, reach.occupied, reach.initial, pay, bonus, slot_pay, slot_bonus
        self._laid: tuple[Any, ...] = (*own, missing, mdp.step_dependent)
        self._gone: Bool = np.zeros(0, dtype=bool)  # [P]: pairs that are not to be played (`conrl.oracles.restricted`)
        self._free: list[Scratch] = []
        self.threads = cores() if threads is None else threads

    def _scratch(self) -> Scratch:
        n = self._reach.order.size
        values = np.empty((2, -(-n // kernels.LANES), kernels.LANES))
        choice = np.empty((self._reach.rows, kernels.LANES), dtype=np.uint16)
        pay = np.empty(self._slot_pair.shape)
        return Scratch(values, choice, np.zeros((2, self._forks, n)), np.zeros(self._pay.shape[0]), pay)

    def _take_scratch(self) -> Scratch:
        """One that a call has given back, or a new one."""
        try:
            return self._free.pop()  # to look first whether there is one would be a race
        except IndexError:
            return self._scratch()

    def support_many(self, directions: Float) -> Supports:
        """Answers to the rows of `directions` [m, 1+d], up to LANES of them in one sweep."""
        m = directions.shape[0]
        values = np.empty(m)
        points = np.empty((m, 1 + self.num_costs))
        means = np.empty_like(points)
        work, ties = self._take_scratch(), self._ties
        for begin in range(0, m, kernels.LANES):
            part = slice(begin, min(m, begin + kernels.LANES))
            found = values[part], points[part], means[part]
            if self._shared:
                self._answer_in_threads(directions[part], work, *found)
            elif part.stop - part.start > FEW:
                kernels.answer_many(self._laid, directions[part], ties, self._gone, work.work, work.many, *found)
            else:
                for i in range(part.start, part.stop):
                    values[i] = self._answer(directions[i], work, points[i], means[i])
        self._free.append(work)
        return Supports(values, points, means)

    def _answer(self, w: Float, work: Scratch, point: Float, mean: Float) -> float:
        """support(w), and who attains it: in `work.choice`, point and mean."""
        if not self._shared:
            return float(kernels.answer(self._laid, w, self._ties, work.work, work.choice, point, mean))
        value = np.empty(1)
        self._answer_in_threads(w[None], work, value, point[None], mean[None])
        return float(value[0])

    # -- answers made by several threads ------------------------------------------------------------------

    def _answer_in_threads(self, directions: Float, work: Scratch, found: Float, points: Float, means: Float) -> None:
        """Answers to up to LANES directions [m, 1+d]; of one alone, with its policy in `work.choice`."""
        m = directions.shape[0]
        with ThreadPoolExecutor(self.threads) as pool:
            if m > FEW:
                self._sweep_many(pool, directions, work, found)
                for i in range(m):
                    self._judge(pool, work, work.many[1], kernels.LANES, i, directions[i], points[i], means[i])
                return
            for i in range(m):
                found[i] = self._sweep(pool, directions[i], work)
                self._judge(pool, work, work.choice, 1, 0, directions[i], points[i], means[i])

    def _judge(
        self,
        pool: ThreadPoolExecutor,
        work: Scratch,
        choice: NDArray[np.uint16],
        lanes: int,
        lane: int,
        w: Float,
        point: Float,
        mean: Float,
    ) -> None:
        """The value of a policy. What it visits is added up forward, in a fixed number of forks that meet again at the
        next step: its totals, backward, would take longer. Where each step has pairs of its own, by one thread."""
        graph, _, occupied, initial, *_ = self._laid
        of, counted = (choice.reshape(-1), lanes, lane), self._forks > 1
        if counted:
            work.counts[:] = 0.0
            work.mu[0, 0] = initial
            for h in range(self.horizon):
                share = partial(kernels.visits, graph, occupied, *of, work.mu, work.counts, h, h + 1)
                for _ in pool.map(share, range(self._forks)):
                    pass
        kernels.worth(self._laid, w, *of, work.work, counted, point, mean)

    def _sweep(self, pool: ThreadPoolExecutor, w: Float, work: Scratch) -> float:
        _, lines, occupied, initial, _, _, slot_pay, slot_bonus, missing, _ = self._laid
        kernels.along_blocks(slot_pay, slot_bonus, w, work.pay)
        if missing.size:
            work.pay[missing] = -np.inf
        work.values[:] = 0.0
        swept = lines, occupied, work.pay, self._tie(w), work.values, work.choice
        self._share(pool, partial(kernels.backward, *swept))
        return float(kernels.expected(initial, work.values[self.horizon % 2].reshape(-1)))

    def _sweep_many(self, pool: ThreadPoolExecutor, directions: Float, work: Scratch, found: Float) -> None:
        graph, _, occupied, initial, pay, bonus, _, _, _, _ = self._laid
        values, choice, slots = work.many
        tie = kernels.many_ways(pay, bonus, directions, self._ties, self._gone, values, slots)
        self._share(pool, partial(kernels.backward_many, graph, occupied, slots, tie, values, choice))
        for i in range(found.size):
            found[i] = kernels.expected(initial, values[self.horizon % 2][:, i])

    def _share(self, pool: ThreadPoolExecutor, sweep: Callable[..., None]) -> None:
        """All steps, the last first, each in parts that threads share."""
        parts = PARTS * self.threads
        for h in range(self.horizon - 1, -1, -1):
            for _ in pool.map(partial(sweep, h, h + 1), range(parts), repeat(parts)):
                pass

    def edge(
        self, a: Float, rows: LineRows, begin: Float, tol: float, most: int, relax: bool, null: bool = False
    ) -> Edge | None:
        """By one compiled call; not where threads share each direction, and not in a program that calls few kernels,
        which would wait for this one to be compiled."""
        if self._shared or without_numba.WANTED:
            return None
        room = min(most, ROOM) + begin.shape[0] + 3
        values, skips = np.empty(room), np.empty(room, dtype=bool)
        directions, points, means = np.empty((3, room, a.size))
        columns = directions, values, points, means, skips
        choices = np.empty((3, self._reach.rows, kernels.LANES), dtype=np.uint16)
        work = self._take_scratch()
        largest = self.horizon * float(np.abs(a) @ self.scale)
        question = a, tuple(rows), begin, tol, largest, most, relax, columns
        status, asked, sweeps, r, h, high, low, share, bound, price, *places = kernels.line_search(
            self._laid, self._ties, null, work.work, choices, *question
        )
        self._free.append(work)
        if status == kernels.FULL:
            return None
        made = Supports(values[:asked], points[:asked], means[:asked], skips[:asked] if null else None)
        if self.mdp._visits is None:
            policies = partial(self._policy, choices[places[0]]), partial(self._policy, choices[places[1]])
        else:
            policies = partial(self.policy, directions[high]), partial(self.policy, directions[low])
        conflict = status == kernels.CONFLICT
        found = conflict, asked, sweeps, r, h, high, low, share, bound, price
        return Edge(*found, directions[:asked], made, policies)

    def _alike(self, mdp: ConstrainedMDP) -> BackwardInduction:
        return BackwardInduction(mdp, self.threads)

    def point_error(self, w: Float) -> Float:
        """By what its own policy is paid, in sizes: what an action that it does not play would pay is no error."""
        work = self._scratch()
        self._answer(np.asarray(w, dtype=np.float64), work, *np.empty((2, 1 + self.num_costs)))
        reach, counts = self._reach, np.zeros(work.counts.size)
        mu = np.zeros((2, 1, reach.order.size))
        mu[0, 0] = reach.initial
        of = work.choice.reshape(-1), 1, 0
        kernels.visits(tuple(reach.graph), reach.occupied, *of, mu, counts, 0, self.horizon, 0)
        sizes = counts @ np.abs(self._pay)
        if self._bonus is not None:
            sizes += counts @ self._bonus
        return self.error_of(sizes)

    def policy(self, w: Float) -> Deterministic:
        """The greedy policy for w; at (step, state) pairs that cannot be reached, the first action.

        An estimate may err on what can be reached: there the policy is greedy everywhere.
        """
        mdp, w = self.mdp, np.asarray(w, dtype=np.float64)
        if mdp._visits is not None:
            actions = np.empty((mdp.horizon, mdp.num_states), dtype=np.int16)
            kernels.greedy(*mdp.graph, mdp.action, mdp.pay_along(w), self._tie(w), actions)
            return Deterministic._trusted_actions(actions, mdp.num_actions)
        work = self._take_scratch()
        if self._shared:
            with ThreadPoolExecutor(self.threads) as pool:
                self._sweep(pool, w, work)
        else:
            self._answer(w, work, *np.empty((2, w.size)))
        policy = self._policy(work.choice)
        self._free.append(work)
        return policy

    def _policy(self, choice: NDArray[np.uint16]) -> Deterministic:
        """The policy that a sweep chose, of a model that is no estimate."""
        mdp = self.mdp
        actions = np.empty((mdp.horizon, mdp.num_states), dtype=np.int16)
        kernels.actions_of(
            mdp.graph.first, mdp.action, self._reach.order, self._reach.occupied, choice.reshape(-1), actions
        )
        return Deterministic._trusted_actions(actions, mdp.num_actions)

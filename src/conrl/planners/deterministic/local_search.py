"""Deterministic policies near a good one: one change at a time, then two, then from a place nearby.

A policy is the pair that it plays at each position: each step and state that can be reached. What a single change does
to reward and costs is known exactly for all changes at once (`conrl.kernels.changes`), so that a search looks at every
policy that is one change away for the price of one sweep, and at all that are two away for a sweep each.

Of two changes, the first is taken from those that lose little: with the multipliers lambda of the mixture's bound, a
change loses  -(its gain in reward - lambda . its use),  and a policy that loses more than the gap is no better than the
best one known. Where no two changes help, a few are made at random and the search goes on from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Float, Int
from conrl.oracles.restricted import Whole
from conrl.planners.allowance import Allowance
from conrl.policy import Policy
from conrl.problem import Rows

PENALTIES = (2.0, 16.0, 128.0, 1e3, 1e5)  # of exceeding a row, in prices of it: raised until the rows are kept
LEAST_PRICE = 0.1  # of a row that costs nothing in the mixture, in the largest reward of a step by its largest cost
WORK = 1_000_000  # outcomes that are read before the tree has its turn again
SUGGESTIONS = 4  # that wait at most
KICKS = (2, 5)  # how many changes are made at random, from and to below


@dataclass(frozen=True)
class Found:
    """A policy that keeps every row, and its value vector."""

    choice: Int  # [n]
    value: Float  # [1+d]

    @property
    def objective(self) -> float:
        return float(self.value[0])


class LocalSearch:
    """The best policy found so far, and ways to find a better one."""

    def __init__(self, oracle: Whole, rows: Rows, allowance: Allowance) -> None:
        """Lay out the reachable part as the kernels of changes read it: every step has pairs of its own."""
        mdp, reach = oracle.mdp, oracle.mdp.reach
        self.mdp, self.rows = mdp, rows
        first, start, successor = (np.asarray(x).astype(np.int64) for x in reach.graph[:3])
        self.first, self.order = first, np.asarray(reach.order).astype(np.int64)
        self.owner: Int = np.repeat(np.arange(first.size - 1), np.diff(first))  # [P]: the position of each pair
        self.pay = np.ascontiguousarray(mdp.pay[reach.pairs])
        step = self.order // mdp.num_states
        begin = np.searchsorted(step, np.arange(mdp.horizon + 1))
        initial = np.ascontiguousarray(reach.initial)
        self.steps = first, start, successor, reach.graph.probability, initial, self.pay, begin, step
        self._pair = np.zeros(mdp.num_pairs, dtype=np.int64)
        self._pair[reach.pairs] = np.arange(self.pay.shape[0])
        self._model_pair = np.asarray(reach.pairs)
        self.G = rows.matrix(mdp.num_costs)
        self._computed = allowance.computed
        self._within = rows.bound + allowance.aim
        scale = oracle.scale
        cost_scale = scale[1 + rows.cost]
        self._least_price = LEAST_PRICE * scale[0] / np.where(cost_scale > 0.0, cost_scale, 1.0)
        self._rounding = oracle.rounding().support
        self._chunk = max(1, WORK // max(1, successor.size))
        self.best: Found | None = None
        self.multipliers = np.zeros(rows.size)  # of the mixture's bound
        self.bound = np.inf
        self._suggested: deque[Int] = deque(maxlen=SUGGESTIONS)

    # -- policies as choices ------------------------------------------------------------------------------

    def choice_of(self, policy: Policy) -> Int:
        """[n]: the pair at each position."""
        actions = policy.mode.reshape(-1)[self.order]
        choice: Int = self._pair[self.mdp.pair_rows[self.order, actions]]
        return choice

    def actions_of(self, choice: Int, elsewhere: Policy) -> NDArray[np.int16]:
        """[H, S]: the actions of a choice; where nobody can come, those of another policy."""
        actions: NDArray[np.int16] = elsewhere.mode.astype(np.int16).reshape(-1)
        actions[self.order] = self.mdp.action[self._model_pair[choice]]
        return actions.reshape(self.mdp.horizon, self.mdp.num_states)

    def occupation(self, choice: Int) -> Float:
        """[n]: the probability of each position."""
        mu = np.empty(choice.size)
        kernels.occupied(self.steps, choice, -1, mu)
        return mu

    def value(self, choice: Int) -> Float:
        """[1+d]: reward and costs, by a forward pass."""
        value: Float = self.occupation(choice) @ self.pay[choice]
        return value

    def offer(self, choice: Int) -> bool:
        """Keep a policy if it keeps the rows and is the best so far; whether it keeps them."""
        value = self.value(choice)
        if not (self.G @ value - self.rows.bound <= self._computed).all():
            return False
        if self.best is None or value[0] > self.best.objective:
            self.best = Found(choice.copy(), value)
        return True

    # -- searches -----------------------------------------------------------------------------------------

    def go_on(self) -> Iterator[None]:
        """Search for as long as it is asked, with a pause after some work each time.

        In turns: from a policy that was suggested, and around the best policy found.
        """
        around = self._around()
        while True:
            if self._suggested:
                yield from self._improve(self._suggested.popleft())
            next(around)
            yield

    def suggest(self, choice: Int) -> None:
        """A policy to start from. It need not keep the rows; of many, the latest are taken."""
        self._suggested.append(choice)

    def _improve(self, choice: Int) -> Iterator[None]:
        """Change a policy one pair at a time: until it keeps the rows, then until nothing helps."""
        choice = choice.copy()
        scratch = self._scratch()
        for boost in PENALTIES:
            merit, grain = self._merit(boost)
            while kernels.climb(self.steps, merit, grain, self._chunk, choice, *scratch)[1] == self._chunk:
                self.offer(choice)
                yield
            if self.offer(choice):
                return
            yield

    def _around(self) -> Iterator[None]:
        """Two changes of the best policy at once and, where no two help, a few at random and again."""
        generator = np.random.default_rng(0)
        tried: Found | None = None
        while True:
            if self.best is None:
                yield
                continue
            choice, scratch = self.best.choice.copy(), self._scratch()
            if tried is self.best:  # nothing is better within two changes
                kernels.occupied(self.steps, choice, -1, scratch[0])
                kernels.advantages(self.steps, choice, choice.size, *scratch[1:])
                pairs = self._candidates(choice, *scratch)
                for _ in range(int(generator.integers(*KICKS)) if pairs.size else 0):
                    k = pairs[int(pairs.size * generator.random() ** 2)]
                    choice[self.owner[k]] = k
                yield from self._improve(choice)
                yield
            else:
                tried = self.best
                yield from self._twice(choice, scratch)

    def _twice(self, choice: Int, scratch: tuple[Float, Float, Float]) -> Iterator[None]:
        """Two changes at once, until no two help."""
        merit, grain = self._merit(PENALTIES[-1])
        while True:
            value, made = kernels.climb(self.steps, merit, grain, self._chunk, choice, *scratch)
            self.offer(choice)
            yield
            if made == self._chunk:
                continue
            pairs = self._candidates(choice, *scratch)
            for at in range(0, pairs.size, self._chunk):
                part = pairs[at : at + self._chunk]
                owners = self.owner[part]
                if kernels.climb_twice(self.steps, merit, grain, value, owners, part, choice, *scratch) < part.size:
                    break
                yield
            else:
                return

    def _candidates(self, choice: Int, mu: Float, V: Float, A: Float) -> Int:
        """Single changes that lose no more than the gap, those that lose least first."""
        loss = mu[self.owner] * (A @ (self.multipliers @ self.G) - A[:, 0])
        gap = np.inf if self.best is None else self.bound - self.best.objective
        allowed = loss <= gap
        allowed[choice] = False
        chosen = np.flatnonzero(allowed & (mu[self.owner] > 0.0))
        return chosen[np.argsort(loss[chosen], kind="stable")]

    def _merit(self, boost: float) -> tuple[tuple[Int, Float, Float, Float], float]:
        """The rows as the kernels read them, with penalties; and how much of a merit is rounding."""
        rows = self.rows
        penalty = boost * np.maximum(self.multipliers, self._least_price)
        grain = 4.0 * float(self._rounding[0] + penalty @ self._rounding[1 + rows.cost])
        return (1 + rows.cost, rows.sign, self._within, penalty), grain

    def _scratch(self) -> tuple[Float, Float, Float]:
        """mu [n], V [n, 1+d] and A [P, 1+d] of `conrl.kernels.changes`."""
        n, width = self.first.size - 1, self.pay.shape[1]
        return np.empty(n), np.empty((n, width)), np.empty(self.pay.shape)

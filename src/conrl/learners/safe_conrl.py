"""SafeConRL."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from conrl._types import Array, Arrays, Float
from conrl.arguments import read_positive
from conrl.learners.base import group, prefixed
from conrl.learners.replanning import Lottery, policies_of, policy_arrays
from conrl.learners.safe import SafeLearner
from conrl.model import Task
from conrl.model.limits import Limits
from conrl.oracles.prudent import Prudent, Worth
from conrl.planners.column_generation.master import Master
from conrl.policy import Deterministic, Policy
from conrl.problem import Problem, Rows

MOST = 24  # candidates that one plan adds
CLOSED = 1e-9  # of the objective: a candidate that gains less is not worth adding
LEAVE = 1e-9  # of the largest total reward: by so much the safe policy is passed over where nothing is known


class Candidate(NamedTuple):
    """A policy of the task, what it is worth to the plan, and what it may cost, rounded up."""

    policy: Policy
    gain: float
    use: Float  # [R]


class SafeConRL(SafeLearner):
    name = "safe-conrl"
    summary = "never exceeds a limit in expectation: starts from a safe policy, and leaves it as far as is proven safe"
    paper = "conrl"
    settings = ("preset", "delta", "scale", "optimism", "explore", "replan")
    presets: ClassVar = {
        "default": {"scale": 3e-3, "optimism": 3e-3, "explore": 1.0},
        "theory": {"scale": 1.0, "optimism": 1.0, "explore": 1.0},
    }

    def __init__(
        self,
        task: Task,
        *,
        safe: Policy,
        safe_costs: Limits,
        problem: Problem | Limits | None = None,
        preset: str = "default",
        delta: float = 0.05,
        scale: float | None = None,
        optimism: float | None = None,
        explore: float | None = None,
        replan: str = "episode",
        seed: int | None = None,
        keep_policies: bool = True,
    ) -> None:
        super().__init__(task, problem, safe, safe_costs, replan, seed, keep_policies)
        chosen = self._choose(preset, delta, scale=scale, optimism=optimism, explore=explore)
        self.optimism = read_positive(chosen["optimism"], "optimism", zero=True)
        self.explore = read_positive(chosen["explore"], "explore", zero=True)
        self._kept: tuple[tuple[Policy, ...], Float] = (), np.zeros(self._rows.size)
        self._next = self._kept

    def _plan_lottery(self) -> Lottery:
        rows, d = self._rows, self.task.num_costs
        careful = self._known(self.scale)
        hopeful = careful if self.optimism == self.scale else self._known(self.optimism)
        hope = np.hstack((hopeful.high[:, :1], hopeful.low[:, 1:]))
        prudent = Prudent(hopeful.oracle(hope), careful.oracle(careful.high))
        model = careful.model
        kept, prices = self._kept
        span = float(self.task.spread[0]) * self.task.horizon
        gap = np.maximum(rows.bound - self.safe_costs[rows.cost], 1e-3*np.abs(rows.bound)+1e-300)
        worth = self.explore * span / gap

        def candidate(policy, value):
            use = (value.most + prudent.error)[rows.cost]
            gain = value.reward + float(worth @ np.maximum(use - value.least[rows.cost], 0.0))
            return Candidate(policy, gain, use)

        def answer(prices):
            weights = np.zeros(1 + 2 * d)
            weights[0] = 1.0
            weights[1 + rows.cost] = worth - prices
            weights[1 + d + rows.cost] = worth
            policy, value = prudent.greedy(weights)
            return candidate(self._of_task(policy), value)

        own = prudent.worth(self._likely(self.safe, model))
        own = own._replace(most=np.minimum(own.most + prudent.error, self.safe_costs) - prudent.error)
        home = candidate(self.safe, own)
        home = Candidate(self.safe, home.gain - LEAVE * span, np.minimum(home.use, self.safe_costs[rows.cost]))
        columns = [home]
        columns += [candidate(p, prudent.worth(self._likely(p, model))) for p in kept]
        columns.append(answer(np.zeros(rows.size)))
        if prices.any():
            columns.append(answer(prices))
        for _ in range(MOST):
            weights, prices = best_lottery(columns, rows)
            new = answer(prices)
            best = max(c.gain - float(prices @ c.use) for c in columns)
            if new.gain - float(prices @ new.use) <= best + CLOSED * max(1.0, abs(best)):
                break
            columns.append(new)
        weights = kept_within(weights, [c.use for c in columns], rows.bound)
        chosen = [i for i in np.flatnonzero(weights > 0.0).tolist()]
        policies = tuple(columns[i].policy for i in chosen)
        self._next = tuple(columns[i].policy for i in chosen if i), prices
        self.debug = [(weights[i], columns[i].gain, columns[i].use) for i in chosen], prices, len(columns)
        return Lottery(weights[chosen], policies, joint=True, home=chosen == [0])

    def _planned(self) -> None:
        super()._planned()
        self._kept = self._next

    @property
    def prices(self):
        return None


def best_lottery(columns: list[Candidate], rows: Rows) -> tuple[Float, Float]:
    gain = np.array([c.gain for c in columns])
    use = np.array([c.use for c in columns])
    if rows.size == 0:
        return np.eye(gain.size)[int(np.argmax(gain))], np.zeros(0)
    if rows.size == 1:
        return best_pair(gain, use[:, 0], float(rows.bound[0]))
    unit = np.maximum(np.abs(use).max(axis=0), 1e-300)
    master = Master(rows.bound, unit, max(float(np.abs(gain).max()), 1e-300))
    master.add(gain, use)
    master.pursue_objective(0.0)
    weights, multipliers, _ = master.solve()
    return weights, multipliers


def best_pair(gain: Float, use: Float, bound: float) -> tuple[Float, Float]:
    """One row: of the candidates within the bound one, of those beyond it one, mixed to the bound."""
    within = use <= bound
    alone = int(np.argmax(np.where(within, gain, -np.inf)))
    weights = np.zeros(gain.size)
    weights[alone] = 1.0
    best, price = float(gain[alone]), 0.0
    low, high = np.flatnonzero(within), np.flatnonzero(~within)
    if not high.size:
        return weights, np.zeros(1)
    share = (bound - use[low])[:, None] / (use[high][None] - use[low][:, None])
    mixed = share * gain[high][None] + (1.0 - share) * gain[low][:, None]
    i, j = np.unravel_index(int(np.argmax(mixed)), mixed.shape)
    if mixed[i, j] > best:
        a, b = low[i], high[j]
        weights[:] = 0.0
        weights[b], weights[a] = share[i, j], 1.0 - share[i, j]
        price = max(0.0, float((gain[b] - gain[a]) / (use[b] - use[a])))
    return weights, np.array([price])


def kept_within(weights: Float, uses: list[Float], bound: Float) -> Float:
    """Weights as near to these as keeps sum_i w_i (use_i - bound) <= 0 in exact arithmetic; the first alone does."""
    over = [[Fraction(u) - Fraction(b) for u, b in zip(use.tolist(), bound.tolist(), strict=True)] for use in uses]
    share = 1.0
    weights = weights.copy()
    while share > 1e-12:
        exact = [Fraction(w) for w in weights.tolist()]
        if all(sum(w * o[r] for w, o in zip(exact, over, strict=True)) <= 0 for r in range(bound.size)):
            return weights / 1.0
        weights[1:] *= 1.0 - 1e-12 / share if share > 1e-3 else 0.0
        weights[0] = max(0.0, 1.0 - weights[1:].sum())
        share *= 0.5
    return np.eye(weights.size)[0]

"""The best *dynamic* policy of a small knapsack: it may look at all that was spent, and never exceeds a budget.

The benchmark of Appendix D.2 of Brantley et al. (2020), by exact dynamic programming over the remaining budget, for
Lemma D.1: no dynamic policy earns more per episode than the static optimum with expected costs at most budget/episodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl._types import Bool, Float, Int
from conrl.errors import SpecError
from conrl.model import ConstrainedMDP
from conrl.model.criteria import need_steps
from conrl.model.mdp import need_stationary
from conrl.wording import OnlyGiven

ROUNDING = 1e-12  # by which a cost may miss a fraction, in its size
MAX_DENOMINATOR = 10**4  # costs of `dynamic_optimum` are multiples of 1/n with n up to this
MAX_ENTRIES = 20_000_000  # of the tables of `dynamic_optimum`


@dataclass(frozen=True, repr=False)
class DynamicOptimum(OnlyGiven):
    """The best policy that sees the whole history and never exceeds a budget (Appendix D.2), and its value."""

    value: float  # Opt: expected reward of all episodes together
    episodes: int
    units: tuple[float, ...]  # [d]: costs are whole multiples of these
    budgets: tuple[int, ...]  # [d]: in units
    plays: Bool  # [K, *(budgets + 1)]: by what remains; False takes the null action
    actions: NDArray[np.int16]  # [K, H, S, *(budgets + 1)]; -1 where no action is safe

    @property
    def per_episode(self) -> float:
        """Opt / K, which the best static policy within budgets / K does not fall short of (Lemma D.1)."""
        return self.value / self.episodes

    def start(self, episode: int, spent: ArrayLike) -> bool:
        """Whether to play an episode (from 0) at all, having spent [d] so far."""
        return bool(self.plays[(episode, *self._left(spent))])

    def act(self, episode: int, step: int, state: int, spent: ArrayLike) -> int:
        """The action, having spent [d] so far, in this episode and before."""
        return int(self.actions[(episode, step, state, *self._left(spent))])

    def _left(self, spent: ArrayLike) -> tuple[int, ...]:
        used = np.rint(np.atleast_1d(np.asarray(spent, dtype=np.float64)) / np.array(self.units)).astype(int)
        left = np.array(self.budgets, dtype=int) - used
        if (left < 0).any():
            raise SpecError(f"spent {spent!r} is more than the budgets; this policy never does")
        return tuple(int(x) for x in left)


def dynamic_optimum(
    mdp: ConstrainedMDP, budgets: ArrayLike, episodes: int, max_entries: int = MAX_ENTRIES
) -> DynamicOptimum:
    """The optimal dynamic policy of a small knapsack instance, by exact dynamic programming over what remains.

    Costs are those realised (by outcome, where the model has them) and whole multiples of some unit. An action is
    safe if after each of its outcomes every budget still holds and a safe action remains: without actions of zero cost
    an episode once begun cannot be stopped. The null action is taken before the first state is drawn, as in the
    static program (the origin joins the set of values) and, with a known first state, as in the paper. Randomising
    gains nothing, since the constraint holds on every path.
    """
    need_stationary(mdp, "dynamic_optimum")
    if episodes < 1:
        raise SpecError(f"episodes is {episodes}; at least 1 is needed")
    g, H, S = mdp.graph, need_steps(mdp.horizon, "the dynamic policy"), mdp.num_states
    grid = _Grid.of(mdp, np.atleast_1d(np.asarray(budgets, dtype=np.float64)), episodes)
    R = math.prod(grid.shape)
    entries = max(episodes * H * S, g.probability.size) * R
    if entries > max_entries:
        raise SpecError(
            f"the tables would hold {entries} entries, more than max_entries = {max_entries}; "
            "take fewer episodes, smaller budgets, or costs in coarser units"
        )
    shift = grid.shifts()  # [N, R]: where each outcome leads, R if over budget
    first, start = np.asarray(g.first, dtype=np.int64), np.asarray(g.start, dtype=np.int64)
    support = np.flatnonzero(mdp.initial > 0.0)
    plays = np.zeros((episodes, R), dtype=bool)
    actions = np.full((episodes, H, S, R), -1, dtype=np.int16)
    W = np.zeros(R + 1)  # value of what comes after the episode; the last entry is "over budget"
    W[R] = -np.inf
    for k in reversed(range(episodes)):
        V = np.tile(W, (S, 1))
        for h in reversed(range(H)):
            ahead = g.probability[:, None] * V[np.asarray(g.successor)[:, None], shift]
            Q = mdp.pay[:, :1] + np.add.reduceat(ahead, start[:-1], axis=0)  # [P, R]
            for s in range(S):
                pairs = slice(first[s], first[s + 1])
                V[s, :R] = Q[pairs].max(axis=0)
                best = mdp.action[pairs][Q[pairs].argmax(axis=0)]
                actions[k, h, s] = np.where(np.isfinite(V[s, :R]), best, -1)
        play = mdp.initial[support] @ V[support, :R]
        plays[k] = play >= W[:R]
        W[:R] = np.maximum(play, W[:R])
    shape = grid.shape
    return DynamicOptimum(
        float(W[R - 1]),
        episodes,
        tuple(float(u) for u in grid.units),
        tuple(n - 1 for n in shape),
        plays.reshape(episodes, *shape),
        actions.reshape(episodes, H, S, *shape),
    )


class _Grid(NamedTuple):
    """Costs and budgets as whole numbers."""

    units: tuple[Fraction, ...]  # [d]
    costs: Int  # [N, d]: of each outcome, in units
    shape: tuple[int, ...]  # [d]: budget + 1, in units; no larger than can be consumed

    @classmethod
    def of(cls, mdp: ConstrainedMDP, budgets: Float, episodes: int) -> _Grid:
        d = mdp.num_costs
        if budgets.shape != (d,) or not (budgets >= 0.0).all():
            raise SpecError(f"budgets is {budgets}; expected {d} numbers of at least 0, one per cost")
        paid = mdp.pay_by_outcome
        in_units = np.zeros((paid.shape[0], d), dtype=np.int64)
        units, shape = [], []
        for i, name in enumerate(mdp.cost_names):
            unit, in_units[:, i] = _multiples(paid[:, 1 + i], name)
            most = episodes * mdp.horizon * int(in_units[:, i].max())
            # 1e-9: a budget of 0.3 holds three costs of 0.1
            units.append(unit)
            shape.append(1 + int(min(most, math.floor(min(budgets[i] / float(unit) + 1e-9, 2.0**62)))))
        return cls(tuple(units), in_units, tuple(shape))

    def shifts(self) -> Int:
        """[N, R]: the index of what remains after each outcome; R if that is less than nothing."""
        R = math.prod(self.shape)
        if not self.shape:
            return np.zeros((self.costs.shape[0], R), dtype=np.int64)
        left = np.stack(np.unravel_index(np.arange(R), self.shape), axis=-1)
        kinds, which = np.unique(self.costs, axis=0, return_inverse=True)
        rows = np.full((kinds.shape[0], R), R, dtype=np.int64)
        for row, cost in zip(rows, kinds, strict=True):
            after = left - cost
            fits = (after >= 0).all(axis=1)
            row[fits] = np.ravel_multi_index(tuple(after[fits].T), self.shape)
        return rows[which.reshape(-1)]


def _multiples(costs: Float, name: str) -> tuple[Fraction, Int]:
    """The largest unit of which all costs are multiples, and the multiples."""
    seen, which = np.unique(costs, return_inverse=True)
    near = [Fraction(float(x)).limit_denominator(MAX_DENOMINATOR) for x in seen]
    for x, q in zip(seen, near, strict=True):
        if x < 0.0:
            raise SpecError(f"cost {name!r} can be {x}; hard budgets need costs of at least 0")
        if abs(float(q) - x) > ROUNDING * max(1.0, x):
            raise SpecError(
                f"cost {name!r} can be {x}, no multiple of 1/n with n <= {MAX_DENOMINATOR}; round the costs"
            )
    common = math.lcm(*(q.denominator for q in near))
    multiples = [q.numerator * (common // q.denominator) for q in near]
    step = math.gcd(*multiples) or 1
    return Fraction(step, common), np.array([n // step for n in multiples], dtype=np.int64)[which.reshape(-1)]

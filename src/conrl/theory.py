"""The paper's theory on models and policies, beside its bounds (all of `conrl.bounds` is here too).

Letters: H steps (from 0), S states, A actions, d costs. m is an objective, the reward (index 0) or cost i (index i),
with m* that of the truth; p are transitions. Section 2 of Brantley et al. (2020):

    Q(h, s, a) = m(s, a) + sum_s' p(s'|s, a) V(h+1, s'),   V(h, s) = sum_a pi(a|s, h) Q(h, s, a),   V(H, .) = 0
    Bell(h, s, a) = Q(h, s, a) - ( m*(s, a) + sum_s' p*(s'|s, a) V(h+1, s') )                 Eq. (Bellman-errors-defn)

Models are `ConstrainedMDP`s; a bonus that one carries is not counted: `enhanced` adds it to the pay. The first state
is drawn from the truth's initial distribution throughout. Pairs that do not exist have Q = Bell = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl.bounds import (
    KnapsackRegime,
    Sizes,
    aggregate_bound,
    bellman_error_bound,
    bonus,
    convex_regret_bound,
    knapsack_epsilon,
    martingale_bound,
    pac_episodes,
    realised_aggregate_bound,
    regret_bound,
    trivial_until,
)
from conrl.errors import ModelError, SpecError
from conrl.evaluation import evaluate
from conrl.inputs import resolve_limits
from conrl.model import ConstrainedMDP
from conrl.policy import Mixture, Policy

__all__ = [
    "Decomposition",
    "DynamicOptimum",
    "KnapsackRegime",
    "Regret",
    "Sizes",
    "aggregate_bound",
    "bellman_error_bound",
    "bellman_errors",
    "bonus",
    "bonus_excess",
    "convex_decomposition",
    "convex_regret",
    "convex_regret_bound",
    "decomposition",
    "dynamic_optimum",
    "enhanced",
    "is_optimistic",
    "is_valid",
    "knapsack_epsilon",
    "martingale_bound",
    "optimism",
    "pac_episodes",
    "q_values",
    "realised_aggregate_bound",
    "regret",
    "regret_bound",
    "simulation_lemma",
    "trivial_until",
    "values",
]

Float = NDArray[np.float64]
Scalar = Callable[[float], float]
Vector = Callable[[Float], float]

ROUNDING = 1e-12  # slack of comparisons, per unit of horizon
MAX_DENOMINATOR = 10**4  # costs of `dynamic_optimum` are multiples of 1/n with n up to this
MAX_ENTRIES = 20_000_000  # of the tables of `dynamic_optimum`


# -- values and Bellman errors --------------------------------------------------------------------------------


def q_values(mdp: ConstrainedMDP, policy: Policy, objective: int | ArrayLike) -> Float:
    """Q [H, S, A] of an objective: 0 for the reward, i for cost i, or any m [S, A]."""
    return _backward(mdp, policy, _objective(mdp, objective))[0][..., 0]


def values(mdp: ConstrainedMDP, policy: Policy, objective: int | ArrayLike) -> Float:
    """V [H+1, S] of an objective: 0 for the reward, i for cost i, or any m [S, A]."""
    return _backward(mdp, policy, _objective(mdp, objective))[1][..., 0]


def bellman_errors(model: ConstrainedMDP, truth: ConstrainedMDP, policy: Policy, objective: int = 0) -> Float:
    """[H, S, A]: Eq. (Bellman-errors-defn) for m and p of `model`, m* and p* of `truth`; 0 everywhere if they agree."""
    _same_shape(model, truth)
    _index(truth, objective)
    return _errors(model, truth, policy)[..., objective]


def simulation_lemma(
    model: ConstrainedMDP, truth: ConstrainedMDP, policy: Policy, objective: int = 0
) -> tuple[float, float]:
    """Both sides of Lemma B.3, which are equal:

    E[V_m^{pi,p}(s_1)] - E[V_m*^{pi,p*}(s_1)]   and   E^{pi,p*}[ sum_h Bell_m^{pi,p}(h, s_h, a_h) ].
    """
    errors = bellman_errors(model, truth, policy, objective)
    gain = values(model, policy, objective)[0] - values(truth, policy, objective)[0]
    return float(truth.initial @ gain), float((policy.occupation(truth) * errors).sum())


def enhanced(estimate: ConstrainedMDP, bonus: ArrayLike, weights: ArrayLike | None = None) -> ConstrainedMDP:
    """The bonus-enhanced model of Section 3: r_hat + b and c_hat - b, with p_hat.

    `bonus` is [S, A] or, per coordinate, [S, A, 1+d]. `weights` [1+d] instead of (1, -1, ..., -1) makes the models
    m_hat + alpha_m b of the concave-convex setting (Lemma C.1).
    """
    d = estimate.num_costs
    alpha = np.array([1.0] + [-1.0] * d) if weights is None else np.asarray(weights, dtype=np.float64)
    if alpha.shape != (1 + d,):
        raise ModelError(f"weights has shape {alpha.shape}; expected ({1 + d},): the reward, then each cost")
    pay = _pay(estimate) + alpha * _bonus_table(estimate, bonus)
    return ConstrainedMDP(
        estimate.transitions,
        pay[..., 0],
        pay[..., 1:],
        estimate.horizon,
        estimate.initial,
        estimate.limits,
        estimate.available,
        cost_names=estimate.cost_names,
    )


# -- validity and optimism ------------------------------------------------------------------------------------


def bonus_excess(truth: ConstrainedMDP, estimate: ConstrainedMDP, bonus: ArrayLike, policy: Policy) -> Float:
    """[S, A, 1+d]: by how much Definition 3.1 fails, its left side at the worst step minus the bonus.

        max_h | m_hat - m* + sum_s' (p_hat - p*)(s'|s, a) V_m*^{pi*,p*}(h+1, s') |  -  b(s, a)

    `policy` is pi*. It must be Markov, as V of a mixture depends on the part that was drawn: give
    `mixture.to_markov(truth)`, which has the same value *in the truth*.
    """
    _same_shape(estimate, truth)
    V = _backward(truth, policy, _pay(truth))[1]
    P = estimate.transitions - truth.transitions
    left = np.abs(_pay(estimate) - _pay(truth) + _ahead(P, V, truth.num_actions)).max(axis=0)
    exists = (truth.available & estimate.available)[..., None]
    return np.where(exists, left, 0.0) - _bonus_table(truth, bonus)


def is_valid(
    truth: ConstrainedMDP, estimate: ConstrainedMDP, bonus: ArrayLike, policy: Policy, tol: float = ROUNDING
) -> bool:
    """Definition 3.1: whether a bonus covers the error of the estimate at every pair, step and objective.

    `policy` is pi*, as in `bonus_excess`; `tol` is per unit of horizon.
    """
    return bool((bonus_excess(truth, estimate, bonus, policy) <= tol * truth.horizon).all())


def optimism(model: ConstrainedMDP, truth: ConstrainedMDP, policy: Policy) -> Float:
    """[1+d]: how far a model errs on the good side for pi*: reward above the truth's, costs below (Definition B.1)."""
    _same_shape(model, truth)
    margin: Float = truth.initial @ (
        _backward(model, policy, _pay(model))[1][0] - _backward(truth, policy, _pay(truth))[1][0]
    )
    margin[1:] *= -1.0
    return margin


def is_optimistic(model: ConstrainedMDP, truth: ConstrainedMDP, policy: Policy, tol: float = ROUNDING) -> bool:
    """Definition B.1 for pi* = `policy`; a valid bonus makes `enhanced` models optimistic (Lemma B.2)."""
    return bool((optimism(model, truth, policy) >= -tol * truth.horizon**2).all())


# -- regrets and their decomposition --------------------------------------------------------------------------


class Regret(NamedTuple):
    """Regrets after each episode, of averages over the episodes so far."""

    reward: Float  # [K]
    cost: Float  # [K]; -inf where nothing is limited


def regret(optimum: float, expected_rewards: ArrayLike, expected_costs: ArrayLike, limits: ArrayLike) -> Regret:
    """RewReg(k) and ConsReg(k) for k = 1..K, Eqs. (regret_def): `optimum` is the reward of pi*.

    `expected_rewards` [K] and `expected_costs` [K, d] are exact values of what each episode executed.
    """
    r, c = _running_means(expected_rewards, expected_costs)
    bounds = np.asarray(limits, dtype=np.float64)
    if bounds.shape != c.shape[1:]:
        raise SpecError(f"limits has shape {bounds.shape}; the costs have shape {c.shape}, episodes first")
    return Regret(optimum - r, (c - bounds).max(axis=1, initial=-np.inf))


def convex_regret(
    f: Scalar, g: Vector | Sequence[Vector], optimum: float, expected_rewards: ArrayLike, expected_costs: ArrayLike
) -> Regret:
    """ConvexRewReg(k) and ConvexConsReg(k) for k = 1..K (Section 4): f and g of the averages so far.

    `optimum` is the reward of pi*, so that f(optimum) is the benchmark. f takes a float, g an array [d]; of several
    constraint functions the largest counts.
    """
    r, c = _running_means(expected_rewards, expected_costs)
    best = float(f(float(optimum)))
    return Regret(np.array([best - float(f(float(x))) for x in r]), np.array([_largest(g, y) for y in c]))


@dataclass(frozen=True)
class Decomposition:
    """Both sides of a per-episode regret decomposition: `regret` <= `bound` in every entry."""

    regret: Float  # reward first, then each cost (linear) or the constraint (convex)
    bound: Float  # the same

    def holds(self, tol: float = 1e-9) -> bool:
        """Up to a relative rounding error, and that of the planner."""
        return bool((self.regret <= self.bound + tol * np.maximum(1.0, np.abs(self.bound))).all())


def decomposition(
    model: ConstrainedMDP, truth: ConstrainedMDP, policy: Policy | Mixture, *, optimum: float, limits: ArrayLike
) -> Decomposition:
    """Proposition 3.3, Eqs. (reward_decomposition) and (consumption_decomposition), as [1+d]:

        E^{pi*}[sum_h r*] - E^{pi_k}[sum_h r*] <= E^{pi_k}[ sum_h |Bell_r| ]
        E^{pi_k}[sum_h c_i*] - xi_i            <= E^{pi_k}[ sum_h |Bell_c_i| ]

    under the true transitions. `model` is the bonus-enhanced model of the episode, `policy` (pi_k) the planner's answer
    for it: either form of it, the mixture or its Markov form in that model; not one component, which need not be
    feasible. It holds where the bonus is valid.
    """
    reward, costs = evaluate(truth, policy)
    bounds = resolve_limits(limits, truth.cost_names, "limits")
    return Decomposition(np.append(optimum - reward, costs - bounds), _expected_errors(model, truth, policy))


def convex_decomposition(
    model: ConstrainedMDP,
    truth: ConstrainedMDP,
    policy: Policy | Mixture,
    f: Scalar,
    g: Vector | Sequence[Vector],
    *,
    optimum: float,
    lipschitz: float,
) -> Decomposition:
    """Proposition C.2 as [2]: f(optimum) - f(reward) and g(costs) against L times expected sums of |Bell|.

    `model` carries the pay that attains the planner's inner maximum and minimum (`enhanced` with weights), `optimum` is
    the reward of pi*. DEVIATION: the paper's first line has Bell where its proof needs |Bell| (f need not be monotone).
    """
    reward, costs = evaluate(truth, policy)
    errors = lipschitz * _expected_errors(model, truth, policy)
    left = float(f(float(optimum))) - float(f(reward)), _largest(g, costs)
    return Decomposition(np.array(left), np.array([errors[0], errors[1:].sum()]))


# -- the best dynamic policy of a knapsack --------------------------------------------------------------------


@dataclass(frozen=True)
class DynamicOptimum:
    """The best policy that sees the whole history and never exceeds a budget (Appendix D.2), and its value."""

    value: float  # Opt: expected reward of all episodes together
    episodes: int
    units: tuple[float, ...]  # [d]: costs are whole multiples of these
    budgets: tuple[int, ...]  # [d]: in units
    plays: NDArray[np.bool_]  # [K, *(budgets + 1)]: by what remains; False takes the null action
    actions: NDArray[np.int16]  # [K, H, S, *(budgets + 1)]; -1 where no action is safe

    @property
    def per_episode(self) -> float:
        """Opt / K, which no static policy within budgets / K falls short of (Lemma D.1)."""
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
    if episodes < 1:
        raise SpecError(f"episodes is {episodes}; at least 1 is needed")
    g, H, S = mdp.graph, mdp.horizon, mdp.num_states
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
    costs: NDArray[np.int64]  # [N, d]: of each outcome, in units
    shape: tuple[int, ...]  # [d]: budget + 1, in units; no larger than can be consumed

    @classmethod
    def of(cls, mdp: ConstrainedMDP, budgets: Float, episodes: int) -> _Grid:
        d = mdp.num_costs
        if budgets.shape != (d,) or not (budgets >= 0.0).all():
            raise SpecError(f"budgets is {budgets}; expected {d} numbers of at least 0, one per cost")
        paid = mdp.outcome_pay if mdp.outcome_pay is not None else np.repeat(mdp.pay, np.diff(mdp.graph.start), axis=0)
        whole = np.zeros((paid.shape[0], d), dtype=np.int64)
        units, shape = [], []
        for i, name in enumerate(mdp.cost_names):
            unit, whole[:, i] = _whole(paid[:, 1 + i], name)
            most = episodes * mdp.horizon * int(whole[:, i].max())
            # 1e-9: a budget of 0.3 holds three costs of 0.1
            units.append(unit)
            shape.append(1 + int(min(most, math.floor(min(budgets[i] / float(unit) + 1e-9, 2.0**62)))))
        return cls(tuple(units), whole, tuple(shape))

    def shifts(self) -> NDArray[np.int64]:
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


def _whole(costs: Float, name: str) -> tuple[Fraction, NDArray[np.int64]]:
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


# -- parts ----------------------------------------------------------------------------------------------------


def _pay(mdp: ConstrainedMDP) -> Float:
    """[S, A, 1+d]."""
    return np.concatenate((mdp.rewards[..., None], mdp.costs), axis=2)


def _backward(mdp: ConstrainedMDP, policy: Policy, m: Float) -> tuple[Float, Float]:
    """Q [H, S, A, n] and V [H+1, S, n] of n objectives m [S, A, n]."""
    if isinstance(policy, Mixture):
        raise ModelError(
            "a mixture has no value function: what remains depends on the part drawn; "
            "give mixture.to_markov(mdp), of the model that its value should be kept in"
        )
    policy.check(mdp)
    P, pi = mdp.transitions, policy.probabilities
    Q = np.empty((mdp.horizon, *m.shape))
    V = np.zeros((mdp.horizon + 1, mdp.num_states, m.shape[2]))
    for h in reversed(range(mdp.horizon)):
        Q[h] = m + (P @ V[h + 1]).reshape(m.shape)
        V[h] = (pi[h][:, :, None] * Q[h]).sum(axis=1)
    return Q, V


def _ahead(P: object, V: Float, num_actions: int) -> Float:
    """[H, S, A, n]: sum_s' P(s'|s, a) V(h+1, s') of values V [H+1, S, n] and a sparse P [S*A, S]."""
    steps, S, n = V.shape
    flat: Float = P @ V[1:].transpose(1, 0, 2).reshape(S, -1)  # type: ignore[operator]
    return flat.reshape(S, num_actions, steps - 1, n).transpose(2, 0, 1, 3)


def _errors(model: ConstrainedMDP, truth: ConstrainedMDP, policy: Policy) -> Float:
    """[H, S, A, 1+d]: the Bellman errors of all objectives."""
    policy.check(truth)
    Q, V = _backward(model, policy, _pay(model))
    exists = (truth.available & model.available)[..., None]
    return np.where(exists, Q - _pay(truth) - _ahead(truth.transitions, V, truth.num_actions), 0.0)


def _expected_errors(model: ConstrainedMDP, truth: ConstrainedMDP, policy: Policy | Mixture) -> Float:
    """[1+d]: E^{pi,p*}[ sum_h |Bell| ]; of a mixture, the mean over its parts, each with its own Bell."""
    _same_shape(model, truth)
    parts = zip(policy.weights, policy.policies, strict=True) if isinstance(policy, Mixture) else [(1.0, policy)]
    total = np.zeros(1 + truth.num_costs)
    for weight, part in parts:
        total += weight * np.einsum("hsa,hsam->m", part.occupation(truth), np.abs(_errors(model, truth, part)))
    return total


def _objective(mdp: ConstrainedMDP, objective: int | ArrayLike) -> Float:
    """[S, A, 1]."""
    if isinstance(objective, int | np.integer):
        return _pay(mdp)[:, :, [_index(mdp, int(objective))]]
    m = np.asarray(objective, dtype=np.float64)
    if m.shape != (mdp.num_states, mdp.num_actions):
        raise ModelError(f"objective has shape {m.shape}; expected ({mdp.num_states}, {mdp.num_actions})")
    return np.where(mdp.available, m, 0.0)[..., None]


def _index(mdp: ConstrainedMDP, objective: int) -> int:
    if not 0 <= objective <= mdp.num_costs:
        raise SpecError(f"objective {objective} is not in 0..{mdp.num_costs}: 0 is the reward, i is cost i")
    return objective


def _bonus_table(mdp: ConstrainedMDP, bonus: ArrayLike) -> Float:
    """[S, A, 1] or [S, A, 1+d]; 0 at pairs that do not exist."""
    b = np.asarray(bonus, dtype=np.float64)
    shape = (mdp.num_states, mdp.num_actions)
    if b.shape == shape:
        b = b[..., None]
    elif b.shape != (*shape, 1 + mdp.num_costs):
        raise ModelError(f"bonus has shape {b.shape}; expected {shape} or {(*shape, 1 + mdp.num_costs)}")
    return np.where(mdp.available[..., None], b, 0.0)


def _same_shape(model: ConstrainedMDP, truth: ConstrainedMDP) -> None:
    one, other = ((m.horizon, m.num_states, m.num_actions, m.num_costs) for m in (model, truth))
    if one != other:
        raise ModelError(f"the model has (steps, states, actions, costs) = {one}, the truth {other}")


def _running_means(rewards: ArrayLike, costs: ArrayLike) -> tuple[Float, Float]:
    r, c = np.asarray(rewards, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    if r.ndim != 1 or c.ndim != 2 or r.size != c.shape[0]:
        raise SpecError(f"expected rewards [K] and costs [K, d]; got shapes {r.shape} and {c.shape}")
    count = np.arange(1, r.size + 1)
    return np.cumsum(r) / count, np.cumsum(c, axis=0) / count[:, None]


def _largest(g: Vector | Sequence[Vector], costs: Float) -> float:
    functions = [g] if callable(g) else list(g)
    return max(float(one(costs)) for one in functions)

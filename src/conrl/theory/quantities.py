"""The paper's theory on models and policies: values, Bellman errors, optimism, regret, decompositions.

Letters: H steps (from 0), S states, A actions, d costs. m is an objective, the reward (index 0) or cost i (index i),
with m* that of the truth; p are transitions. Section 2 of Brantley et al. (2020):

    Q(h, s, a) = m(s, a) + sum_s' p(s'|s, a) V(h+1, s'),   V(h, s) = sum_a pi(a|s, h) Q(h, s, a),   V(H, .) = 0
    Bell(h, s, a) = Q(h, s, a) - ( m*(s, a) + sum_s' p*(s'|s, a) V(h+1, s') )                 Eq. 8

Models are `ConstrainedMDP`s; a bonus that one carries is not counted: `enhanced` adds it to the pay. The first state
is drawn from the truth's initial distribution throughout. Pairs that do not exist have Q = Bell = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from conrl import metrics
from conrl._types import Float
from conrl.errors import ModelError, SpecError
from conrl.evaluation import evaluate
from conrl.metrics import Regret
from conrl.mixture import Mixture, parts_of
from conrl.model import ConstrainedMDP
from conrl.model.criteria import need_steps
from conrl.model.limits import resolve_limits
from conrl.model.mdp import need_stationary
from conrl.policy import Policy
from conrl.wording import OnlyGiven

Scalar = Callable[[float], float]
Vector = Callable[[Float], float]

ROUNDING = 1e-12  # slack of comparisons, per unit of horizon squared


# -- values and Bellman errors --------------------------------------------------------------------------------


def q_values(mdp: ConstrainedMDP, policy: Policy, objective: int | ArrayLike) -> Float:
    """Q [H, S, A] of an objective: 0 for the reward, i for cost i, or any m [S, A]."""
    return _backward(mdp, policy, _objective(mdp, objective))[0][..., 0]


def values(mdp: ConstrainedMDP, policy: Policy, objective: int | ArrayLike) -> Float:
    """V [H+1, S] of an objective: 0 for the reward, i for cost i, or any m [S, A]."""
    return _backward(mdp, policy, _objective(mdp, objective))[1][..., 0]


def bellman_errors(model: ConstrainedMDP, truth: ConstrainedMDP, policy: Policy, objective: int = 0) -> Float:
    """[H, S, A]: Eq. 8 for m and p of `model`, m* and p* of `truth`; 0 everywhere if they agree."""
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


def regret(optimum: float, expected_rewards: ArrayLike, expected_costs: ArrayLike, limits: ArrayLike) -> Regret:
    """RewReg(k) and ConsReg(k) for k = 1..K, Eqs. 2 and 3: `optimum` is the reward of pi*.

    `expected_rewards` [K] and `expected_costs` [K, d] are exact values of what each episode executed.
    """
    means = _running_means(expected_rewards, expected_costs)
    bounds = np.asarray(limits, dtype=np.float64)
    if bounds.shape != (means.shape[1] - 1,):
        raise SpecError(f"limits has shape {bounds.shape}; the costs have shape {means[:, 1:].shape}, episodes first")
    return metrics.regret(means, optimum, bounds, np.full(bounds.shape, -np.inf))


def convex_regret(
    f: Scalar, g: Vector | Sequence[Vector], optimum: float, expected_rewards: ArrayLike, expected_costs: ArrayLike
) -> Regret:
    """ConvexRewReg(k) and ConvexConsReg(k) for k = 1..K (Section 4): f and g of the averages so far.

    `optimum` is the reward of pi*, so that f(optimum) is the benchmark. f takes a float, g an array [d]; of several
    constraint functions the largest counts.
    """
    means = _running_means(expected_rewards, expected_costs)
    best = float(f(float(optimum)))
    return Regret(
        np.array([best - float(f(float(x))) for x in means[:, 0]]), np.array([_largest(g, y) for y in means[:, 1:]])
    )


@dataclass(frozen=True, repr=False)
class Decomposition(OnlyGiven):
    """Both sides of a per-episode regret decomposition: `regret` <= `bound` in every entry."""

    regret: Float  # reward first, then each cost (linear) or the constraint (convex)
    bound: Float  # the same

    def holds(self, tol: float = 1e-9) -> bool:
        """Up to a relative rounding error, and that of the planner."""
        return bool((self.regret <= self.bound + tol * np.maximum(1.0, np.abs(self.bound))).all())


def decomposition(
    model: ConstrainedMDP, truth: ConstrainedMDP, policy: Policy | Mixture, *, optimum: float, limits: ArrayLike
) -> Decomposition:
    """Proposition 3.3, Eqs. 10 and 11, as [1+d]:

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


# -- parts ----------------------------------------------------------------------------------------------------


def _pay(mdp: ConstrainedMDP) -> Float:
    """[S, A, 1+d]."""
    need_stationary(mdp, "conrl.theory")
    return np.concatenate((mdp.rewards[..., None], mdp.costs), axis=2)


def _backward(mdp: ConstrainedMDP, policy: Policy, m: Float) -> tuple[Float, Float]:
    """Q [H, S, A, n] and V [H+1, S, n] of n objectives m [S, A, n]."""
    need_stationary(mdp, "conrl.theory")
    if isinstance(policy, Mixture):
        raise ModelError(
            "a mixture has no value function: what remains depends on the part drawn; "
            "give mixture.to_markov(mdp), of the model that its value should be kept in"
        )
    need_steps(mdp.horizon, "a value function by steps")
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
    total = np.zeros(1 + truth.num_costs)
    for weight, part in parts_of(policy):
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
    need_stationary(mdp, "conrl.theory")
    b = np.asarray(bonus, dtype=np.float64)
    shape = (mdp.num_states, mdp.num_actions)
    if b.shape == shape:
        b = b[..., None]
    elif b.shape != (*shape, 1 + mdp.num_costs):
        raise ModelError(f"bonus has shape {b.shape}; expected {shape} or {(*shape, 1 + mdp.num_costs)}")
    return np.where(mdp.available[..., None], b, 0.0)


def _same_shape(model: ConstrainedMDP, truth: ConstrainedMDP) -> None:
    for m in (model, truth):
        need_steps(m.horizon, "a comparison by steps")
    one, other = ((m.horizon, m.num_states, m.num_actions, m.num_costs) for m in (model, truth))
    if one != other:
        raise ModelError(f"the model has (steps, states, actions, costs) = {one}, the truth {other}")


def _running_means(rewards: ArrayLike, costs: ArrayLike) -> Float:
    """[K, 1+d]: of rewards [K] and costs [K, d], over the episodes so far; an unknown value makes all later ones so."""
    r, c = np.asarray(rewards, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    if r.ndim != 1 or c.ndim != 2 or r.size != c.shape[0]:
        raise SpecError(f"expected rewards [K] and costs [K, d]; got shapes {r.shape} and {c.shape}")
    return np.cumsum(np.column_stack((r, c)), axis=0) / np.arange(1, r.size + 1)[:, None]


def _largest(g: Vector | Sequence[Vector], costs: Float) -> float:
    functions = [g] if callable(g) else list(g)
    return max(float(one(costs)) for one in functions)

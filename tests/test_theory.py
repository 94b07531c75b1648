"""The paper's theory: formulas against expressions written anew, lemmas on random models, theorems' parts in runs.

Runs are ConRL with the bonus of Eq. (bonus) on small models with Bernoulli rewards and costs, by the estimator below.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray
from scipy.optimize import linprog
from strategies import Spec, specs

import conrl
from conrl import theory
from conrl.bounds import Sizes

Float = NDArray[np.float64]

SMALL: Sizes = {"num_states": 3, "num_actions": 2, "horizon": 3, "num_costs": 1, "delta": 0.1}
SIZES: list[Sizes] = [
    SMALL,
    {"num_states": 1, "num_actions": 1, "horizon": 1, "num_costs": 0, "delta": 1.0},
    {"num_states": 64, "num_actions": 4, "horizon": 30, "num_costs": 1, "delta": 0.01},
    {"num_states": 7, "num_actions": 3, "horizon": 60, "num_costs": 5, "delta": 0.5},
]


# -- formulas -------------------------------------------------------------------------------------------------


def letters(sizes: Sizes) -> tuple[int, int, int, int, float]:
    return sizes["num_states"], sizes["num_actions"], sizes["horizon"], sizes["num_costs"], sizes["delta"]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("k", [1, 2, 1000])
def test_bonus_is_the_paper_s_with_its_clipping(sizes: Sizes, k: int) -> None:
    S, A, H, d, delta = letters(sizes)
    counts = [0, 1, 2, 10, 1000, 10**6]
    got = theory.bonus(counts, episode=k, **sizes)
    for n, b in zip(counts, got, strict=True):
        raw = H * math.sqrt(2 * math.log(8 * S * A * H * (d + 1) * k * k / delta) / max(1, n))
        assert b == pytest.approx(min(2 * H, raw), rel=1e-14)
    assert got[0] == got[1] == 2 * H  # ln 8 > 2: a pair never seen is always at the clip
    assert (np.diff(got) <= 0).all()
    assert got[-1] < 2 * H


@pytest.mark.parametrize("sizes", SIZES)
def test_below_its_cap_the_bonus_is_lemma_f1(sizes: Sizes) -> None:
    S, A, H, d, delta = letters(sizes)
    counts, k = 10 ** np.arange(4, 9), 7
    share = delta / (4 * S * A * H * (d + 1) * k**2)
    assert theory.bonus(counts, episode=k, **sizes) == pytest.approx(theory.hoeffding(counts, bound=H, delta=share))


def test_the_mean_of_fair_coins_strays_no_further_than_lemmas_f1_and_f2() -> None:
    """Exact probabilities of a walk of +-1: at each N alone for F.1, at any N for F.2; where F.1 does not hold."""
    delta, longest = 0.3, 1000
    N = np.arange(1, longest + 1)
    once, always = (f(N, bound=1.0, delta=delta) for f in (theory.hoeffding, theory.anytime_hoeffding))
    assert (always > once).all()
    alone, inside = beyond(N * once, stop=False), beyond(N * always, stop=True)
    assert 0.1 * delta < alone.max() <= delta
    assert inside.sum() <= delta
    assert beyond(N * once, stop=True).sum() > delta


def beyond(walls: Float, stop: bool) -> Float:
    """[n]: the probability that a walk of +-1 is beyond +-walls[i] after i + 1 steps, for the first time if `stop`."""
    n = walls.size
    place, p = np.arange(-n, n + 1), np.zeros(2 * n + 1)
    p[n] = 1.0
    out = np.zeros(n)
    for i, wall in enumerate(walls):
        p = 0.5 * (np.append(p[1:], 0.0) + np.append(0.0, p[:-1]))
        far = np.abs(place) > wall
        out[i] = p[far].sum()
        if stop:
            p[far] = 0.0
    return out


@pytest.mark.parametrize("sizes", SIZES)
def test_bellman_error_bound_is_lemma_b4_and_covers_twice_the_bonus(sizes: Sizes) -> None:
    S, A, H, d, delta = letters(sizes)
    k, n = 17, np.array([0, 1, 5, 400])
    for eps in (1.0, 0.01):
        got = theory.bellman_error_bound(n, episode=k, epsilon=eps, **sizes)
        log = math.log(16 * S * A * H**2 * (d + 1) * k**2 / (eps * delta))
        assert got == pytest.approx([4 * H**2 * math.sqrt(2 * S * log / max(1, x)) + eps * S for x in n], rel=1e-14)
    default = theory.bellman_error_bound(n, episode=k, **sizes)
    assert default == pytest.approx(theory.bellman_error_bound(n, episode=k, epsilon=1 / (k * H * S), **sizes))
    assert (default >= 2 * theory.bonus(n, episode=k, **sizes)).all()  # as its proof has it


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("k", [1, 2, 50, 10**6])
def test_aggregate_bound_has_the_printed_constants_up_to_horizon_23(sizes: Sizes, k: int) -> None:
    S, A, H, d, delta = letters(sizes)
    L = math.log(2 * S * A * H * (d + 1) * k / delta)
    printed = 16 * S * math.sqrt(A * H**5) * math.sqrt(k) * math.sqrt(math.log(k) * L) + 1
    printed += 32 * S**1.5 * A * H**3 * math.sqrt(L)
    last = 5 * H**2.5 * math.sqrt(2 * math.log(4 * k**2 / delta) * k)
    proven = H * H * (2 * H + 1) * math.sqrt(math.log(4 * k**2 / delta) * k / 2)
    assert (proven <= last) == (H <= 23)
    got = float(theory.aggregate_bound(k, **sizes))
    assert got == pytest.approx(printed + max(last, proven), rel=1e-12)
    assert float(theory.regret_bound(k, **sizes)) == pytest.approx(got / k, rel=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_steps_of_appendix_b6_follow_with_these_constants(sizes: Sizes) -> None:
    """The lines before the last: sums of Lemma B.4 over worst-case visits stay below the first two terms."""
    S, A, H, d, delta = letters(sizes)
    for k in (1, 2, 3, 30, 1000):
        log = math.log(16 * S * A * H**2 * (d + 1) * k**2 * (k * H * S) / delta)
        L = math.log(2 * S * A * H * (d + 1) * k / delta)
        assert log <= 4 * L * (1 + 1e-12)
        # All pairs visited equally often, by whole episodes: the counts stay behind by up to H visits.
        total = 0.0
        for t in range(k):
            n = t * H // (S * A)
            total += H * (4 * H**2 * math.sqrt(2 * S * log / max(1, n)) + 1 / (k * H))
        main = 16 * S * math.sqrt(A * H**5 * k * math.log(k) * L) + 1
        assert total <= main + 32 * S**1.5 * A * H**3 * math.sqrt(L)
        j = np.arange(H + 1, k * H + 1)
        assert (1 / np.sqrt(j)).sum() <= math.sqrt(k * H * math.log(k)) + 1e-12  # one pair has all visits


def test_bellman_errors_stay_below_what_the_martingale_term_assumes() -> None:
    rng = np.random.default_rng(0)
    for H in (1, 2, 5):
        for _ in range(20):
            truth, other = random_model(rng, horizon=H), random_model(rng, horizon=H)
            model = theory.enhanced(other, np.full((3, 2), 2.0 * H))
            policy = random_policy(rng, truth)
            for m in range(2):
                assert np.abs(theory.bellman_errors(model, truth, policy, m)).max() <= H * (2 * H + 1)


def test_martingale_bound_is_the_paper_s_for_short_episodes_and_larger_for_long_ones() -> None:
    for H in (1, 3, 4, 5, 40):
        for K in (1, 100):
            printed = 2.5 * math.sqrt(2 * math.log(4 * K**2 / 0.05) * K * H)
            proven = 2.5 * H * math.sqrt(math.log(4 * K**2 / 0.05) * K / 2)
            got = float(theory.martingale_bound(K, horizon=H, bound=2.5, delta=0.05))
            assert got == pytest.approx(max(printed, proven), rel=1e-12)
            assert (got > printed * (1 + 1e-12)) == (H > 4)


def test_lemma_f3_as_printed_is_false_and_the_corrected_one_holds() -> None:
    """The first state decides: f = 1 for the whole episode or 0. K episodes sum to H Binomial(K, 1/2)."""
    rng = np.random.default_rng(1)
    H, K, delta, runs = 400, 100, 0.1, 4000
    strays = H * np.abs(rng.binomial(K, 0.5, size=runs) - K / 2)
    printed = math.sqrt(2 * math.log(4 * K**2 / delta) * K * H)
    assert (strays > printed).mean() > 2 * delta
    assert (strays > theory.martingale_bound(K, horizon=H, bound=1.0, delta=delta)).mean() <= delta


def test_martingale_bound_holds_at_all_episodes_at_once() -> None:
    rng = np.random.default_rng(2)
    K = np.arange(1, 201)
    sums = 5 * np.cumsum(rng.random((2000, K.size)) < 0.3, axis=1) - 5 * 0.3 * K
    failed = (np.abs(sums) > theory.martingale_bound(K, horizon=5, bound=1.0, delta=0.1)).any(axis=1)
    assert failed.mean() <= 0.1


@pytest.mark.parametrize("sizes", SIZES)
def test_convex_regret_bound_scales_with_the_lipschitz_constant(sizes: Sizes) -> None:
    k = np.array([1, 10, 1000])
    reward, cost = theory.convex_regret_bound(k, 2.5, **sizes)
    assert reward == pytest.approx(2.5 * theory.regret_bound(k, **sizes))
    assert cost == pytest.approx(2.5 * sizes["num_costs"] * theory.regret_bound(k, **sizes))


@pytest.mark.parametrize("sizes", SIZES)
def test_realised_aggregate_bound_splits_its_failure_probability(sizes: Sizes) -> None:
    d, delta = sizes["num_costs"], sizes["delta"]
    for k in (1, 1000):
        quarter: Sizes = {**sizes, "delta": delta / 4}
        noise = theory.martingale_bound(k, horizon=sizes["horizon"], bound=1.0, delta=delta / 4 / (d + 1))
        got = theory.realised_aggregate_bound(k, **sizes)
        assert got == pytest.approx(theory.aggregate_bound(k, **quarter) + noise, rel=1e-14)
        assert 3 * delta / 4 + (d + 1) * (delta / 4 / (d + 1)) == pytest.approx(delta)
        assert got > theory.aggregate_bound(k, **sizes)


def test_bounds_grow_with_everything_but_delta() -> None:
    base: Any = SMALL
    at = float(theory.aggregate_bound(1000, **SMALL))
    for name in ("num_states", "num_actions", "horizon", "num_costs"):
        more: Any = {**base, name: base[name] + 1}
        assert theory.aggregate_bound(1000, **more) > at
        assert theory.bonus(10**5, episode=9, **more) > theory.bonus(10**5, episode=9, **SMALL)
    assert theory.aggregate_bound(1000, **{**base, "delta": 0.05}) > at
    k = 2.0 ** np.arange(0, 60)
    assert (np.diff(theory.aggregate_bound(k, **SMALL)) > 0).all()
    assert theory.regret_bound(1e30, **SMALL) < 1e-8


@pytest.mark.parametrize("sizes", SIZES)
def test_regret_bound_falls_from_the_episode_that_the_search_starts_at(sizes: Sizes) -> None:
    for k in (np.arange(8, 5000), np.unique(np.logspace(3, 12, 2000).astype(np.int64))):
        assert (np.diff(theory.regret_bound(k, **sizes)) < 0).all()


@pytest.mark.parametrize("sizes", SIZES)
def test_pac_episodes_is_the_least(sizes: Sizes) -> None:
    for eps in (0.01, 1.0, 100.0):
        K = theory.pac_episodes(eps, **sizes)
        assert theory.regret_bound(K, **sizes) <= eps
        assert K == 1 or theory.regret_bound(K - 1, **sizes) > eps
    small = theory.regret_bound(np.arange(1, 300), **sizes)
    for eps in (small[5] * 1.0001, small[100] * 1.0001, small.max()):
        above = np.flatnonzero(small > eps)
        assert theory.pac_episodes(float(eps), **sizes) == (above[-1] + 2 if above.size else 1)


def test_pac_size_is_inversely_quadratic_up_to_logarithms() -> None:
    ratio = theory.pac_episodes(1e-4, **SMALL) / theory.pac_episodes(1e-3, **SMALL)
    assert 100 <= ratio <= 170


def test_the_bound_is_trivial_for_millions_of_episodes() -> None:
    sizes: Sizes = {"num_states": 2, "num_actions": 2, "horizon": 2, "num_costs": 1, "delta": 0.01}
    K = theory.trivial_until(**sizes)
    assert 5e6 < K < 1e7
    assert theory.aggregate_bound(K, **sizes) > K * 2
    assert theory.aggregate_bound(K + 1, **sizes) <= (K + 1) * 2


def test_knapsack_epsilon_and_its_regime() -> None:
    K = 10**10
    aggregate = float(theory.realised_aggregate_bound(K, **SMALL))
    inside = theory.knapsack_epsilon([4 * aggregate], K, **SMALL)
    assert inside.applies
    assert inside.epsilon == pytest.approx(0.25)
    assert inside.reward_regret == pytest.approx(aggregate / K + 0.25 * 3)
    assert inside.reward_regret <= 2 * 3 * aggregate / (4 * aggregate)  # Theorem 5.1
    assert (1 - inside.epsilon) * 4 * aggregate + inside.aggregate <= 4 * aggregate * (1 + 1e-12)  # budgets are kept

    outside = theory.knapsack_epsilon([aggregate], K, **SMALL)
    assert not outside.applies
    assert outside.epsilon == 1.0
    assert outside.reward_regret == math.inf
    assert "not above AggReg" in outside.message
    few = theory.knapsack_epsilon([50.0], 1000, **SMALL)
    assert not few.applies
    assert few.epsilon > 1.0
    nothing = theory.knapsack_epsilon([0.0], 1000, **SMALL)
    assert (nothing.applies, nothing.epsilon) == (False, math.inf)

    vacuous = theory.knapsack_epsilon([3.0 * K], K, **SMALL)
    assert (vacuous.epsilon, vacuous.applies) == (0.0, True)
    assert "cannot be exceeded" in vacuous.message


def test_knapsack_epsilon_looks_at_the_smallest_budget() -> None:
    sizes: Sizes = {**SMALL, "num_costs": 2}
    aggregate = float(theory.realised_aggregate_bound(10**10, **sizes))
    regime = theory.knapsack_epsilon([math.inf, 2 * aggregate], 10**10, **sizes)
    assert regime.epsilon == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"delta": 0.0}, "delta is 0"),
        ({"delta": 1.5}, "delta is 1.5"),
        ({"num_states": 0}, "num_states is 0"),
        ({"horizon": 0}, "horizon is 0"),
        ({"num_costs": -1}, "num_costs is -1"),
    ],
)
def test_bounds_refuse_sizes_that_make_no_sense(change: dict[str, Any], match: str) -> None:
    with pytest.raises(conrl.SpecError, match=match):
        theory.aggregate_bound(5, **{**SMALL, **change})


def test_bounds_refuse_arguments_that_make_no_sense() -> None:
    with pytest.raises(conrl.SpecError, match="counts"):
        theory.bonus([-1], episode=1, **SMALL)
    with pytest.raises(conrl.SpecError, match="must be at least 1"):
        theory.bonus([1], episode=0, **SMALL)
    with pytest.raises(conrl.SpecError, match="epsilon"):
        theory.bellman_error_bound(1, episode=1, epsilon=2.0, **SMALL)
    with pytest.raises(conrl.SpecError, match="epsilon"):
        theory.pac_episodes(0.0, **SMALL)
    with pytest.raises(conrl.SpecError, match="Lipschitz"):
        theory.convex_regret_bound(5, -1.0, **SMALL)
    for budgets in ([-1.0], [1.0, 2.0], [math.nan]):
        with pytest.raises(conrl.SpecError, match="budgets"):
            theory.knapsack_epsilon(budgets, 5, **SMALL)
    misspelt: Any = {**SMALL, "num_state": 3}
    with pytest.raises(TypeError, match="num_state"):
        theory.bonus([1], episode=1, **misspelt)


# -- values, Bellman errors, the simulation lemma -------------------------------------------------------------


def random_model(
    rng: np.random.Generator, S: int = 3, A: int = 2, d: int = 1, horizon: int = 3
) -> conrl.ConstrainedMDP:
    P = rng.dirichlet(np.full(S, 0.7), size=(S, A))
    return conrl.ConstrainedMDP(P, rng.random((S, A)), rng.random((S, A, d)), horizon)


def random_policy(rng: np.random.Generator, mdp: conrl.ConstrainedMDP) -> conrl.Policy:
    table = rng.random((mdp.horizon, mdp.num_states, mdp.num_actions)) ** 3 * mdp.available + 1e-9 * mdp.available
    return conrl.Policy(table / table.sum(axis=2, keepdims=True))


def pair_of_models(spec: Spec) -> tuple[conrl.ConstrainedMDP, conrl.ConstrainedMDP, conrl.Policy]:
    """A truth, another model of the same shape with the same actions, and a policy for both."""
    truth = spec.build()[0]
    other = replace(spec, seed=spec.seed ^ 1, missing=False, spread=False).build()[0]
    model = conrl.ConstrainedMDP(
        other.transitions, other.rewards, other.costs, other.horizon, available=truth.available
    )
    return truth, model, random_policy(np.random.default_rng(spec.seed), truth)


def scale(*models: conrl.ConstrainedMDP) -> float:
    return float(models[0].horizon * max(1.0, *(float(np.abs(m.pay).max()) for m in models)))


@settings(max_examples=150, deadline=None)
@given(specs())
def test_simulation_lemma(spec: Spec) -> None:
    truth, model, policy = pair_of_models(spec)
    deterministic = conrl.Deterministic(policy.mode, truth.num_actions)
    for pi, m in itertools.product((policy, deterministic), range(1 + truth.num_costs)):
        left, right = theory.simulation_lemma(model, truth, pi, m)
        assert abs(left - right) <= 1e-12 * scale(model, truth)
        assert np.abs(theory.bellman_errors(truth, truth, pi, m)).max() <= 1e-12 * scale(truth)


@settings(max_examples=60, deadline=None)
@given(specs())
def test_values_are_those_of_evaluate_and_of_a_plain_recursion(spec: Spec) -> None:
    mdp, _, policy = pair_of_models(spec)
    P = mdp.transitions.toarray().reshape(mdp.num_states, mdp.num_actions, -1)
    exact = conrl.evaluate(mdp, policy)
    for m, total in enumerate([exact.reward, *exact.costs]):
        V, Q = theory.values(mdp, policy, m), theory.q_values(mdp, policy, m)
        assert mdp.initial @ V[0] == pytest.approx(total, rel=1e-12, abs=1e-12 * scale(mdp))
        assert (V[-1] == 0).all()
        objective = mdp.rewards if m == 0 else mdp.costs[:, :, m - 1]
        for h in range(mdp.horizon):
            want = objective + np.einsum("sat,t->sa", P, V[h + 1])
            assert Q[h] == pytest.approx(want, rel=1e-12, abs=1e-12 * scale(mdp))
            mean = (policy.probabilities[h] * Q[h]).sum(axis=1)
            assert V[h] == pytest.approx(mean, rel=1e-12, abs=1e-12 * scale(mdp))
        assert theory.values(mdp, policy, objective) == pytest.approx(V)


def test_bellman_errors_against_their_definition() -> None:
    rng = np.random.default_rng(3)
    truth, model = random_model(rng, d=2), random_model(rng, d=2)
    policy = random_policy(rng, truth)
    P = truth.transitions.toarray().reshape(3, 2, 3)
    for m, star in enumerate([truth.rewards, truth.costs[:, :, 0], truth.costs[:, :, 1]]):
        Q, V = theory.q_values(model, policy, m), theory.values(model, policy, m)
        got = theory.bellman_errors(model, truth, policy, m)
        for h, s, a in itertools.product(range(3), range(3), range(2)):
            assert got[h, s, a] == pytest.approx(Q[h, s, a] - star[s, a] - P[s, a] @ V[h + 1], abs=1e-14)


def test_theory_refuses_what_does_not_fit() -> None:
    rng = np.random.default_rng(4)
    mdp, longer = random_model(rng), random_model(rng, horizon=4)
    policy = random_policy(rng, mdp)
    mixture = conrl.Mixture([0.5, 0.5], [policy, policy])
    with pytest.raises(conrl.SpecError, match="objective 2"):
        theory.q_values(mdp, policy, 2)
    with pytest.raises(conrl.ModelError, match="objective has shape"):
        theory.values(mdp, policy, np.zeros((2, 2)))
    with pytest.raises(conrl.ModelError, match="the truth"):
        theory.bellman_errors(longer, mdp, policy)
    with pytest.raises(conrl.ModelError, match="to_markov"):
        theory.is_valid(mdp, mdp, np.ones((3, 2)), mixture)  # type: ignore[arg-type]
    with pytest.raises(conrl.ModelError, match="bonus has shape"):
        theory.enhanced(mdp, np.ones(3))
    with pytest.raises(conrl.ModelError, match="weights"):
        theory.enhanced(mdp, np.ones((3, 2)), [1.0])


def test_enhanced_adds_to_rewards_and_takes_from_costs() -> None:
    rng = np.random.default_rng(5)
    mdp = random_model(rng, d=2).replace(limits=[1.0, 2.0])
    b = rng.random((3, 2))
    model = theory.enhanced(mdp, b)
    assert model.rewards == pytest.approx(mdp.rewards + b)
    assert model.costs == pytest.approx(mdp.costs - b[:, :, None])
    each = rng.random((3, 2, 3))
    assert theory.enhanced(mdp, each).costs == pytest.approx(mdp.costs - each[:, :, 1:])
    alpha = theory.enhanced(mdp, b, [-0.5, 0.25, 0.0])
    assert alpha.rewards == pytest.approx(mdp.rewards - 0.5 * b)
    assert alpha.costs[:, :, 0] == pytest.approx(mdp.costs[:, :, 0] + 0.25 * b)
    assert (alpha.costs[:, :, 1] == mdp.costs[:, :, 1]).all()
    # It is what `plan` plans on, given the same bonus.
    assert conrl.plan(model).objective == pytest.approx(conrl.plan(mdp.with_bonus(b)).objective, rel=1e-8)


# -- regrets --------------------------------------------------------------------------------------------------


def test_regret_at_every_episode() -> None:
    got = theory.regret(2.0, [1.0, 2.0, 3.0], [[1.0, 0.0], [0.0, 0.0], [0.5, 4.5]], [0.5, 1.0])
    assert got.reward == pytest.approx([1.0, 0.5, 0.0])
    assert got.cost == pytest.approx([0.5, 0.0, 0.5])
    assert (theory.regret(2.0, [1.0], np.zeros((1, 0)), []).cost == -np.inf).all()
    with pytest.raises(conrl.SpecError, match="limits"):
        theory.regret(2.0, [1.0], [[1.0]], [1.0, 2.0])
    with pytest.raises(conrl.SpecError, match="costs"):
        theory.regret(2.0, [1.0, 1.0], [[1.0]], [1.0])


def test_convex_regret_at_every_episode_and_its_linear_case() -> None:
    rng = np.random.default_rng(6)
    r, c = rng.random(20), rng.random((20, 2))
    got = theory.convex_regret(lambda x: -((x - 0.4) ** 2), lambda y: float(y @ y) - 0.3, 0.4, r, c)
    for k in range(20):
        assert got.reward[k] == pytest.approx((r[: k + 1].mean() - 0.4) ** 2)
        assert got.cost[k] == pytest.approx((c[: k + 1].mean(axis=0) ** 2).sum() - 0.3)
    linear = theory.regret(0.9, r, c, [0.1, 0.2])
    same = theory.convex_regret(lambda x: x, [lambda y: float(y[0]) - 0.1, lambda y: float(y[1]) - 0.2], 0.9, r, c)
    assert same.reward == pytest.approx(linear.reward)
    assert same.cost == pytest.approx(linear.cost)


# -- runs of ConRL --------------------------------------------------------------------------------------------


@dataclass
class Estimator:
    """Eqs. (N), (p_hat), (r_hat), (c_hat); a pair never visited is a self-loop that pays nothing."""

    truth: conrl.ConstrainedMDP

    def __post_init__(self) -> None:
        S, A = self.truth.num_states, self.truth.num_actions
        self.visits = np.zeros((S, A, S))
        self.paid = np.zeros((S, A, 1 + self.truth.num_costs))

    @property
    def counts(self) -> Float:
        counts: Float = self.visits.sum(axis=2)
        return counts

    def model(self) -> conrl.ConstrainedMDP:
        n = np.maximum(1.0, self.counts)[:, :, None]
        P = self.visits / n
        s, a = np.nonzero(self.counts == 0)
        P[s, a, s] = 1.0
        pay = self.paid / n
        t = self.truth
        return conrl.ConstrainedMDP(P, pay[:, :, 0], pay[:, :, 1:], t.horizon, t.initial, t.limits)

    def play(self, policy: conrl.Policy, P: Float, pay: Float, rng: np.random.Generator) -> None:
        """One episode in the truth with Bernoulli rewards and costs."""
        s = int(np.argmax(self.truth.initial))
        for h in range(self.truth.horizon):
            a = policy.act(h, s, rng)
            t = int(np.searchsorted(np.cumsum(P[s, a]), rng.random()).clip(max=P.shape[2] - 1))
            self.visits[s, a, t] += 1
            self.paid[s, a] += rng.random(pay.shape[2]) < pay[s, a]
            s = t


class Episode(NamedTuple):
    k: int
    counts: Float
    estimate: conrl.ConstrainedMDP
    bonus: Float
    plan: conrl.Plan


@cache
def instance(seed: int) -> tuple[conrl.ConstrainedMDP, conrl.Policy, float]:
    """A model whose limit binds, pi* in Markov form, and its reward."""
    rng = np.random.default_rng(seed)
    mdp = random_model(rng)
    free, least = conrl.plan(mdp, conrl.Linear()), conrl.feasibility(mdp, [np.inf]).least[0]
    mdp = mdp.replace(limits=[least + 0.4 * max(free.costs[0] - least, 0.05)])
    best = conrl.plan(mdp)
    return mdp, best.mixture.to_markov(mdp), best.reward


def run(truth: conrl.ConstrainedMDP, episodes: int, seed: int, factor: float = 1.0) -> Iterator[Episode]:
    """ConRL: estimate, add the bonus, plan, play a part of the mixture."""
    rng = np.random.default_rng(seed)
    estimator = Estimator(truth)
    P = truth.transitions.toarray().reshape(truth.num_states, truth.num_actions, -1)
    pay = np.concatenate((truth.rewards[:, :, None], truth.costs), axis=2)
    for k in range(1, episodes + 1):
        estimate = estimator.model()
        b = factor * theory.bonus(estimator.counts, episode=k, **SMALL)
        plan = conrl.plan(estimate.with_bonus(b))
        yield Episode(k, estimator.counts, estimate, b, plan)
        estimator.play(plan.mixture.draw(rng), P, pay, rng)


RUNS, EPISODES, FACTORS = 200, 30, (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)


def test_bonus_is_valid_in_its_share_of_runs_and_not_when_scaled_far_down() -> None:
    """Lemma 3.2. A run is valid if all its episodes are. Of the small bonuses only pairs that were visited are asked:
    those never visited have an error that no data explains, and would fail at once."""
    valid = np.ones((RUNS, len(FACTORS)), dtype=bool)
    unseen_too = np.ones(RUNS, dtype=bool)
    for i in range(RUNS):
        truth, best, _ = instance(i % 20)
        for e in run(truth, EPISODES, seed=1000 + i):
            unseen_too[i] &= theory.is_valid(truth, e.estimate, e.bonus, best)
            error = theory.bonus_excess(truth, e.estimate, 0.0 * e.bonus, best).max(axis=2)
            for j, factor in enumerate(FACTORS):
                valid[i, j] &= bool((error <= factor * e.bonus + 1e-12)[e.counts > 0].all())
    shares = valid.mean(axis=0)
    assert unseen_too.mean() >= 1 - SMALL["delta"]
    assert shares[0] >= 1 - SMALL["delta"]
    assert shares[-1] < 0.1, shares
    assert (np.diff(shares) <= 0).all()


@pytest.mark.parametrize("seed", range(12))
def test_optimism_and_bellman_decomposition_hold_in_every_episode(seed: int) -> None:
    """Lemma B.2 and Proposition 3.3; Lemma B.4 and, on the way, the feasibility of pi* for the planner."""
    truth, best, optimum = instance(seed)
    for e in run(truth, EPISODES, seed):
        model = theory.enhanced(e.estimate, e.bonus)
        assert theory.is_valid(truth, e.estimate, e.bonus, best)
        assert theory.is_optimistic(model, truth, best)
        for m in range(2):  # its proof: at every pair and step, not only at the start
            sign = 1.0 if m == 0 else -1.0
            assert (sign * (theory.q_values(model, best, m) - theory.q_values(truth, best, m)) >= -1e-10).all()
        assert conrl.evaluate(model, best).costs[0] <= float(truth.limits[0]) + 1e-9  # type: ignore[index]
        assert e.plan.objective >= optimum - 1e-8
        for policy in (e.plan.policy, e.plan.mixture):
            sides = theory.decomposition(model, truth, policy, optimum=optimum, limits=truth.limits)  # type: ignore[arg-type]
            assert sides.holds(1e-8)
            assert (sides.bound > 0).all()
        cap = theory.bellman_error_bound(e.counts, episode=e.k, **SMALL)
        for m in range(2):
            assert (np.abs(theory.bellman_errors(model, truth, e.plan.policy, m)) <= cap).all()


def test_a_plan_may_lose_more_than_its_bonuses_but_not_than_its_bellman_errors() -> None:
    """A valid bonus covers what an estimate errs about pi*, not the true model: here p_hat leads to the wrong state,
    in which pi* is as poor as in the right one, and the plan is not."""
    start, good, poor = range(3)
    P, r = np.zeros((3, 2, 3)), np.zeros((3, 2))
    P[start, 0, poor] = P[start, 1, poor] = 1.0
    P[good, :, good] = P[poor, :, poor] = 1.0
    r[start], r[good, 1] = [0.5, 0.1], 0.5
    hat = P.copy()
    hat[start, 1] = np.eye(3)[good]
    no_cost = np.zeros((3, 2, 1))
    truth, estimate = (conrl.ConstrainedMDP(x, r, no_cost, 2, limits=[1.0]) for x in (P, hat))
    best = conrl.Deterministic(np.zeros((2, 3), dtype=np.int64), 2)
    optimum = conrl.plan(truth).reward
    assert conrl.evaluate(truth, best).reward == optimum == 0.5
    bonus = np.full((3, 2), 0.005)
    assert theory.is_valid(truth, estimate, bonus, best)
    model = theory.enhanced(estimate, bonus)
    plan = conrl.plan(model)
    sides = theory.decomposition(model, truth, plan.policy, optimum=optimum, limits=truth.limits)  # type: ignore[arg-type]
    assert sides.regret[0] == pytest.approx(0.4)
    assert sides.bound[0] == pytest.approx(0.51)
    assert sides.regret[0] > (plan.policy.occupation(truth) * bonus).sum() == pytest.approx(0.01)


def test_optimism_and_decomposition_fail_without_a_bonus() -> None:
    """The checks above can fail: they do once the bonus is (almost) gone."""
    pessimistic = undecomposed = 0
    for seed in range(12):
        truth, best, optimum = instance(seed)
        for e in run(truth, EPISODES, seed, factor=1.0):
            model = theory.enhanced(e.estimate, 0.0 * e.bonus)
            pessimistic += not theory.is_optimistic(model, truth, best)
            try:
                plan = conrl.plan(e.estimate)
            except conrl.InfeasibleError:
                continue
            sides = theory.decomposition(model, truth, plan.policy, optimum=optimum, limits=truth.limits)  # type: ignore[arg-type]
            undecomposed += not sides.holds(1e-8)
    assert pessimistic > 12 * EPISODES / 2
    assert undecomposed > 0


# -- the concave-convex setting -------------------------------------------------------------------------------


class Convex(NamedTuple):
    """f(x) = min(x - x0, (x0 - x) / 2), which falls beyond x0, and g(y) = |y - y0| - 0.05: both have L = 1."""

    x0: float
    y0: float

    @property
    def f_pieces(self) -> list[tuple[float, float]]:
        return [(1.0, -self.x0), (-0.5, 0.5 * self.x0)]

    @property
    def g_pieces(self) -> list[tuple[float, float]]:
        return [(1.0, -self.y0 - 0.05), (-1.0, self.y0 - 0.05)]

    def f(self, x: float) -> float:
        return min(a * x + b for a, b in self.f_pieces)

    def g(self, y: Float) -> float:
        return max(a * float(y[0]) + b for a, b in self.g_pieces)


def convex_plan(mdp: conrl.ConstrainedMDP, b: Float, asked: Convex) -> tuple[conrl.Policy, Float]:
    """ConvexConPlanner as a linear program over (rho, x, y, t), and the weights alpha [2] of its inner pay."""
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    n = H * S * A
    P = mdp.transitions.toarray()
    flow = np.zeros((H * S, n + 3))
    for h, s, a in itertools.product(range(H), range(S), range(A)):
        j = (h * S + s) * A + a
        flow[h * S + s, j] += 1.0
        if h + 1 < H:
            flow[(h + 1) * S : (h + 2) * S, j] -= P[s * A + a]
    start = np.zeros(H * S)
    start[:S] = mdp.initial
    rows, right = [], []
    means = [np.tile(m.reshape(-1), H) for m in (mdp.rewards, mdp.costs[:, :, 0])]
    width = np.tile(b.reshape(-1), H)
    for i, mean in enumerate(means):
        for sign in (1.0, -1.0):  # |x - rho.mean| <= rho.b
            row = np.zeros(n + 3)
            row[:n], row[n + i] = -sign * mean - width, sign
            rows.append(row)
            right.append(0.0)
    for a_, b_ in asked.f_pieces:
        rows.append(np.concatenate((np.zeros(n), [-a_, 0.0, 1.0])))
        right.append(b_)
    for a_, b_ in asked.g_pieces:
        rows.append(np.concatenate((np.zeros(n), [0.0, a_, 0.0])))
        right.append(-b_)
    cost = np.zeros(n + 3)
    cost[-1] = -1.0
    bounds = [(0.0, None)] * n + [(None, None)] * 3
    done = linprog(cost, np.array(rows), right, flow, start, bounds, method="highs")
    assert done.status == 0
    rho, total = done.x[:n], done.x[n : n + 2]
    spread = max(float(rho @ width), 1e-300)
    alpha = np.array([(total[i] - rho @ mean) / spread if rho @ width > 0 else 0.0 for i, mean in enumerate(means)])
    table = np.maximum(rho, 0.0).reshape(H, S, A)
    mass = table.sum(axis=2, keepdims=True)
    return conrl.Policy(np.where(mass > 1e-14, table / np.maximum(mass, 1e-300), 1.0 / A)), alpha


@pytest.mark.parametrize("seed", range(10))
def test_convex_decomposition_holds_in_every_episode(seed: int) -> None:
    """Lemma C.1 and Proposition C.2."""
    rng = np.random.default_rng(seed)
    truth = random_model(np.random.default_rng(100 + seed))
    uniform = conrl.evaluate(truth, conrl.Policy(np.full((3, 3, 2), 0.5)))
    top = conrl.plan(truth, conrl.Linear()).reward
    asked = Convex((uniform.reward + top) / 2, float(uniform.costs[0]))
    f, g = asked.f, asked.g
    best, _ = convex_plan(truth, np.zeros((3, 2)), asked)
    value = conrl.evaluate(truth, best)
    estimator = Estimator(truth)
    P = truth.transitions.toarray().reshape(3, 2, 3)
    pay = np.concatenate((truth.rewards[:, :, None], truth.costs), axis=2)
    for k in range(1, 21):
        estimate = estimator.model()
        b = theory.bonus(estimator.counts, episode=k, **SMALL)
        assert theory.is_valid(truth, estimate, b, best)
        for m, total in enumerate((value.reward, value.costs[0])):  # Eq. (mean_value_convex)
            low, high = (
                float(truth.initial @ theory.values(theory.enhanced(estimate, b, [x, x]), best, m)[0]) for x in (-1, 1)
            )
            assert low - 1e-9 <= total <= high + 1e-9
        policy, alpha = convex_plan(estimate, b, asked)
        assert (np.abs(alpha) <= 1 + 1e-7).all()
        model = theory.enhanced(estimate, b, alpha)
        planned = conrl.evaluate(model, policy)
        assert g(planned.costs) <= 1e-7
        assert f(planned.reward) >= f(value.reward) - 1e-7
        sides = theory.convex_decomposition(model, truth, policy, f, g, optimum=value.reward, lipschitz=1.0)
        assert sides.holds(1e-7)
        exact = conrl.evaluate(truth, policy)
        assert sides.regret == pytest.approx([f(value.reward) - f(exact.reward), g(exact.costs)])
        estimator.play(policy, P, pay, rng)


# -- the best dynamic policy of a knapsack --------------------------------------------------------------------


Outcome = tuple[float, int, tuple[int, ...]]  # probability, next state, costs


class Tree(NamedTuple):
    """A model by outcomes, as plain lists."""

    reward: Float  # [S, A]
    outcomes: dict[tuple[int, int], list[Outcome]]
    start: list[tuple[float, int]]
    horizon: int


def knapsack(
    rng: np.random.Generator, S: int = 2, A: int = 2, d: int = 1, H: int = 2, most: int = 2, rest: bool = True
) -> tuple[conrl.ConstrainedMDP, Tree]:
    """A random model whose costs are whole numbers by outcome; with `rest`, action 0 costs nothing."""
    rows: list[tuple[int, int, int, float, list[float]]] = []
    outcomes: dict[tuple[int, int], list[Outcome]] = {}
    reward = np.round(rng.random((S, A)), 3)
    for s, a in itertools.product(range(S), range(A)):
        count = int(rng.integers(1, 3))
        p = rng.dirichlet(np.ones(count))
        reward[s, a] *= 0.2 if rest and a == 0 else 1.0
        outcomes[s, a] = []
        for j in range(count):
            cost = tuple(0 if rest and a == 0 else int(x) for x in rng.integers(0, most + 1, size=d))
            t = int(rng.integers(S))
            outcomes[s, a].append((float(p[j]), t, cost))
            rows.append((s, a, t, float(p[j]), [float(reward[s, a]), *map(float, cost)]))
    state, action, successor, probability, pay = zip(*rows, strict=True)
    spread = rng.random() < 0.3
    initial = rng.dirichlet(np.ones(S)) if spread else np.eye(S)[0]
    mdp = conrl.ConstrainedMDP.from_outcomes(
        list(state), list(action), list(successor), list(probability), list(pay),
        num_states=S, num_actions=A, horizon=H, initial=initial,
    )  # fmt: skip
    return mdp, Tree(reward, outcomes, [(float(p), s) for s, p in enumerate(initial) if p > 0], H)


def by_histories(tree: Tree, left: tuple[int, ...], episodes: int) -> float:
    """The best value over all histories, none of them merged; no table, and budgets checked on each path."""

    def episode(k: int, left: tuple[int, ...]) -> float:
        if k == episodes:
            return 0.0
        played = sum(p * step(k, 0, s, left) for p, s in tree.start)
        return max(episode(k + 1, left), played)

    def step(k: int, h: int, s: int, left: tuple[int, ...]) -> float:
        if min(left) < 0:
            return -math.inf
        if h == tree.horizon:
            return episode(k + 1, left)
        return max(
            float(tree.reward[s, a])
            + sum(p * step(k, h + 1, t, tuple(x - y for x, y in zip(left, c, strict=True))) for p, t, c in branches)
            for (state, a), branches in tree.outcomes.items()
            if state == s
        )

    return episode(0, left)


def by_enumeration(tree: Tree, budget: tuple[int, ...], episodes: int) -> float:
    """The best of *all* deterministic history-dependent policies, each written out as a table and checked on all paths.

    A history is the tuple of everything seen; choices are the actions, and None (null) before an episode.
    """
    A = tree.reward.shape[1]

    def histories() -> Iterator[tuple[tuple[Any, ...], int, int]]:
        """(history, episode, step) that any policy can come to; step -1 decides between null and playing."""
        frontier: list[tuple[tuple[Any, ...], int, int, int]] = [((), 0, -1, -1)]
        while frontier:
            seen, k, h, s = frontier.pop()
            if k == episodes:
                continue
            yield seen, k, h
            if h == -1:
                frontier.append(((*seen, None), k + 1, -1, -1))
                frontier += [((*seen, t), k, 0, t) for _, t in tree.start]
                continue
            for a in range(A):
                for j, (_, t, _) in enumerate(tree.outcomes[s, a]):
                    last = h + 1 == tree.horizon
                    frontier.append(((*seen, (a, j, t)), k + last, -1 if last else h + 1, -1 if last else t))

    nodes = list(histories())
    choices = [range(2) if h == -1 else range(A) for _, _, h in nodes]
    assert math.prod(map(len, choices)) <= 200_000
    best = -math.inf
    for picked in itertools.product(*choices):
        policy = {seen: c for (seen, _, _), c in zip(nodes, picked, strict=True)}
        value, kept = 0.0, True
        paths: list[tuple[float, tuple[Any, ...], int, int, int, tuple[int, ...]]] = [
            (1.0, (), 0, -1, -1, (0,) * len(budget))
        ]
        while paths and kept:
            p, seen, k, h, s, spent = paths.pop()
            kept = all(x <= y for x, y in zip(spent, budget, strict=True))
            if k == episodes:
                continue
            if h == -1:
                if policy[seen]:
                    paths += [(p * q, (*seen, t), k, 0, t, spent) for q, t in tree.start]
                else:
                    paths.append((p, (*seen, None), k + 1, -1, -1, spent))
                continue
            a = policy[seen]
            value += p * tree.reward[s, a]
            last = h + 1 == tree.horizon
            for j, (q, t, cost) in enumerate(tree.outcomes[s, a]):
                total = tuple(x + y for x, y in zip(spent, cost, strict=True))
                to = (k + last, -1 if last else h + 1, -1 if last else t)
                paths.append((p * q, (*seen, (a, j, t)), *to, total))
        if kept:
            best = max(best, value)
    return best


def static_optimum(mdp: conrl.ConstrainedMDP, per_episode: Float) -> float:
    """The best expected reward with expected costs within limits, and a null action for whole episodes."""
    H, S, A, d = mdp.horizon, mdp.num_states, mdp.num_actions, mdp.num_costs
    n = H * S * A
    P = mdp.transitions.toarray()
    flow = np.zeros((H * S, n + 1))  # the last variable is the share of episodes played
    for h, s, a in itertools.product(range(H), range(S), range(A)):
        flow[h * S + s, (h * S + s) * A + a] += 1.0
        if h + 1 < H:
            flow[(h + 1) * S : (h + 2) * S, (h * S + s) * A + a] -= P[s * A + a]
    flow[:S, n] = -mdp.initial
    costs = np.concatenate((np.tile(mdp.costs.reshape(S * A, d), (H, 1)), np.zeros((1, d)))).T
    reward = np.append(np.tile(mdp.rewards.reshape(-1), H), 0.0)
    bounds = [(0.0, None)] * n + [(0.0, 1.0)]
    done = linprog(-reward, costs, per_episode, flow, np.zeros(H * S), bounds, method="highs")
    assert done.status == 0
    return float(-done.fun)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("H", "K"), [(1, 2), (2, 1), (1, 1)])
def test_dynamic_optimum_is_the_best_of_all_history_dependent_policies(H: int, K: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    while True:
        mdp, tree = knapsack(rng, H=H, rest=bool(seed % 2))
        if len(tree.start) == 1 and sum(map(len, tree.outcomes.values())) <= 6:
            break
    for budget in range(4):
        want = by_enumeration(tree, (budget,), K)
        assert theory.dynamic_optimum(mdp, [budget], K).value == pytest.approx(want, abs=1e-12)
        assert by_histories(tree, (budget,), K) == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_dynamic_optimum_against_all_histories(seed: int) -> None:
    rng = np.random.default_rng(50 + seed)
    d = 1 + seed % 2
    mdp, tree = knapsack(rng, d=d, rest=seed % 3 > 0)
    for budget in itertools.product((0, 1, 3, 5), repeat=d):
        want = by_histories(tree, budget, 2)
        assert theory.dynamic_optimum(mdp, budget, 2).value == pytest.approx(want, abs=1e-12)


def test_static_optimum_is_at_least_the_dynamic_one() -> None:
    """Lemma D.1, on 60 instances; strictly so in most, and neither side is trivial."""
    strict = positive = 0
    for seed in range(60):
        rng = np.random.default_rng(200 + seed)
        d, K = 1 + seed % 2, int(rng.integers(2, 6))
        H, S = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        mdp, _ = knapsack(rng, S=S, d=d, H=H, rest=seed % 3 > 0)
        budgets = rng.integers(1, 2 * K + 1, size=d).astype(float)
        dynamic = theory.dynamic_optimum(mdp, budgets, K)
        static = static_optimum(mdp, budgets / K)
        planned = conrl.plan(mdp, conrl.Knapsack(budgets=budgets, episodes=K))
        assert planned.objective == pytest.approx(static, abs=1e-7)
        assert static >= dynamic.per_episode - 1e-9
        strict += static > dynamic.per_episode + 1e-6
        positive += dynamic.value > 1e-6
    assert strict >= 30
    assert positive >= 40


def test_static_and_dynamic_agree_where_no_budget_binds() -> None:
    mdp, _ = knapsack(np.random.default_rng(7))
    free = conrl.plan(mdp, conrl.Linear()).reward
    for budget in (100.0, np.inf):
        assert theory.dynamic_optimum(mdp, [budget], 3).value == pytest.approx(3 * free)


def test_the_dynamic_policy_keeps_its_budget_and_earns_its_value() -> None:
    rng = np.random.default_rng(8)
    mdp, tree = knapsack(rng, S=3, H=3, rest=False)
    K, budget = 3, 7
    best = theory.dynamic_optimum(mdp, [budget], K)
    totals = []
    for _ in range(4000):
        total, spent = 0.0, 0.0
        for k in range(K):
            if not best.start(k, [spent]):
                continue
            s = int(rng.choice([s for _, s in tree.start], p=[p for p, _ in tree.start]))
            for h in range(3):
                a = best.act(k, h, s, [spent])
                assert a >= 0
                total += tree.reward[s, a]
                branches = tree.outcomes[s, a]
                _, s, cost = branches[int(rng.choice(len(branches), p=[p for p, _, _ in branches]))]
                spent += cost[0]
                assert spent <= budget
        totals.append(total)
    assert best.value > 0
    assert np.mean(totals) == pytest.approx(best.value, abs=5 * np.std(totals) / len(totals) ** 0.5 + 1e-9)
    with pytest.raises(conrl.SpecError, match="more than the budgets"):
        best.start(0, [budget + 1])


def test_an_episode_without_a_way_out_is_not_begun() -> None:
    """Every step costs 1 and H = 3: with 5 units one episode can be played, not two, and none with 2."""
    mdp = conrl.ConstrainedMDP(np.ones((1, 1, 1)), [[1.0]], [[[1.0]]], 3)
    for budget, episodes in ((2, 0), (3, 1), (5, 1), (6, 2), (100, 4)):
        best = theory.dynamic_optimum(mdp, [budget], 4)
        assert best.value == 3.0 * episodes
        assert best.start(0, [0.0]) == (episodes > 0)
    assert static_optimum(mdp, np.array([5 / 4])) == pytest.approx(5 / 4)


def test_dynamic_optimum_counts_in_the_costs_own_unit() -> None:
    """0.1 + 0.1 + 0.1 fits into 0.3, and 2/3 into what is left of 2 after 4/3."""
    for unit, budget, episodes in ((0.1, 0.3, 3), (2 / 3, 2.0, 3), (0.1, 0.29, 2)):
        mdp = conrl.ConstrainedMDP(np.ones((1, 1, 1)), [[1.0]], [[[unit]]], 1)
        best = theory.dynamic_optimum(mdp, [budget], 5)
        assert best.value == episodes
        assert best.units[0] == pytest.approx(unit)


def test_dynamic_optimum_without_costs_is_the_unconstrained_one() -> None:
    mdp = random_model(np.random.default_rng(9), d=0)
    assert theory.dynamic_optimum(mdp, [], 2).value == pytest.approx(2 * conrl.plan(mdp).reward)


def test_dynamic_optimum_refuses_what_it_cannot_do_exactly() -> None:
    loop = np.ones((1, 1, 1))
    with pytest.raises(conrl.SpecError, match="round the costs"):
        theory.dynamic_optimum(conrl.ConstrainedMDP(loop, [[1.0]], [[[math.pi]]], 1), [9.0], 2)
    with pytest.raises(conrl.SpecError, match="at least 0"):
        theory.dynamic_optimum(conrl.ConstrainedMDP(loop, [[1.0]], [[[-1.0]]], 1), [9.0], 2)
    mdp = conrl.ConstrainedMDP(loop, [[1.0]], [[[1.0]]], 3)
    with pytest.raises(conrl.SpecError, match="budgets"):
        theory.dynamic_optimum(mdp, [1.0, 2.0], 2)
    with pytest.raises(conrl.SpecError, match="episodes is 0"):
        theory.dynamic_optimum(mdp, [1.0], 0)
    with pytest.raises(conrl.SpecError, match="max_entries"):
        theory.dynamic_optimum(mdp, [1e9], 10**5)


def test_theory_offers_all_its_names() -> None:
    from conrl import bounds

    assert set(bounds.__all__) <= set(theory.__all__)
    for name in theory.__all__:
        assert (getattr(theory, name).__doc__ or "").strip(), name

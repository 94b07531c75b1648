"""Optimism about transitions: the extended oracle against programs written out, and the learners that rest on it.

The oracle is compared with the occupation-measure program of OptCMDP (solved by HiGHS) and with enumeration of the
vertices of every confidence set. Learners must come to the optimum of a small model, and go on from a file as if
nothing had happened.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

import conrl
from conrl.errors import ModelError, RunError, SpecError
from conrl.learners.confidence import pay_intervals, transition_radii
from conrl.learners.optcmdp import OptCMDP
from conrl.learners.optimistic import log_factor
from conrl.learners.optprimaldual import OptPrimalDual
from conrl.learners.places import PlacesLearner
from conrl.learners.ucbvi import UCBVI
from conrl.oracles import BackwardInduction, WithNullAction
from conrl.oracles.extended import ExtendedBackwardInduction
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict
from conrl.running import ModelWorld

Float = NDArray[np.float64]
LEARNERS: list[type[PlacesLearner]] = [OptCMDP, OptPrimalDual, UCBVI]


# -- models ---------------------------------------------------------------------------------------------------


class Case:
    """A tiny random model with radii [S, A, S] and a bonus."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        S, A, H, d = (int(rng.integers(1, top)) for top in (4, 4, 4, 3))
        self.P = rng.dirichlet(np.full(S, 0.5), (S, A)) * (rng.random((S, A, S)) < 0.7)
        self.P[self.P.sum(axis=2) == 0.0, 0] = 1.0
        self.P /= self.P.sum(axis=2, keepdims=True)
        self.pay = rng.normal(size=(S, A, 1 + d)) if rng.random() < 0.5 else np.round(rng.random((S, A, 1 + d)), 1)
        self.bonus = rng.random((S, A, 1 + d)) * rng.choice([0.0, 0.1])
        self.beta = rng.random((S, A, S)) * rng.choice([0.0, 0.05, 0.3, 1.5])
        self.initial = rng.dirichlet(np.ones(S))
        plain = conrl.ConstrainedMDP(self.P, self.pay[..., 0], self.pay[..., 1:], H, initial=self.initial)
        self.mdp = plain.with_bonus(self.bonus)
        self.oracle = ExtendedBackwardInduction(self.mdp, self.beta)
        self.directions = np.vstack((np.eye(1 + d), -np.eye(1 + d), rng.normal(size=(3, 1 + d))))
        self.share = rng.random(d)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        S, A, _ = self.P.shape
        return self.mdp.horizon, S, A, self.mdp.num_costs


def program(case: Case, limits: Float) -> float | None:
    """The program of OptCMDP in q_h(s, a, t): its optimum; None if there is no solution."""
    H, S, A, d = case.shape
    q = np.arange(H * S * A * S).reshape(H, S, A, S)
    flow = sp.lil_array((H * S, q.size))
    for h, s in itertools.product(range(H), range(S)):
        flow[h * S + s, q[h, s].ravel()] = 1.0
        if h:
            flow[h * S + s, q[h - 1, :, :, s].ravel()] = flow[h * S + s, q[h - 1, :, :, s].ravel()].toarray() - 1.0
    box = sp.lil_array((2 * q.size, q.size))
    for h, s, a, t in itertools.product(range(H), range(S), range(A), range(S)):
        at = 2 * q[h, s, a, t]
        box[at, q[h, s, a]] = -(case.P[s, a, t] + case.beta[s, a, t])
        box[at + 1, q[h, s, a]] = case.P[s, a, t] - case.beta[s, a, t]
        box[at, q[h, s, a, t]] += 1.0
        box[at + 1, q[h, s, a, t]] -= 1.0
    gains = np.broadcast_to((case.pay + case.bonus)[..., 0][None, :, :, None], q.shape).ravel()
    costs = np.broadcast_to((case.pay - case.bonus)[None, :, :, None, 1:], (*q.shape, d)).reshape(q.size, d)
    start = np.zeros(H * S)
    start[:S] = case.initial
    found = linprog(
        -gains,
        A_ub=sp.vstack((sp.csr_array(box), sp.csr_array(costs.T))),
        b_ub=np.concatenate((np.zeros(2 * q.size), limits)),
        A_eq=sp.csr_array(flow),
        b_eq=start,
        method="highs",
    )
    assert found.status in (0, 2)
    return None if found.status == 2 else -float(found.fun)


def vertices(p: Float, beta: Float) -> Float:
    """All vertices of {|x - p| <= beta} within the simplex: all coordinates but one at an end."""
    low, high = np.maximum(p - beta, 0.0), np.minimum(p + beta, 1.0)
    found = []
    for i in range(p.size):
        others = [j for j in range(p.size) if j != i]
        for ends in itertools.product((False, True), repeat=p.size - 1):
            x = low.copy()
            x[others] = np.where(ends, high[others], low[others])
            x[i] = 1.0 - x[others].sum()
            if low[i] - 1e-12 <= x[i] <= high[i] + 1e-12:
                found.append(x)
    return np.array(found)


def brute(case: Case, w: Float) -> float:
    """The best w.z by trying every action and every vertex at every step."""
    H, S, A, _ = case.shape
    pay = case.pay @ w + case.bonus @ np.abs(w)
    corners = [[vertices(case.P[s, a], case.beta[s, a]) for a in range(A)] for s in range(S)]
    V = np.zeros(S)
    for _ in range(H):
        V = np.array([max(pay[s, a] + (corners[s][a] @ V).max() for a in range(A)) for s in range(S)])
    return float(case.initial @ V)


def crossing() -> conrl.ConstrainedMDP:
    """Two roads from 0 to 2: a short one that may cost 1, and a safe one that often fails. Waiting costs nothing."""
    P = np.zeros((3, 3, 3))
    P[0, 0] = [0.1, 0.0, 0.9]  # short
    P[0, 1] = [0.6, 0.4, 0.0]  # safe
    P[0, 2] = [1.0, 0.0, 0.0]  # wait
    P[1, :] = [0.0, 0.2, 0.8]
    P[2, :] = [0.0, 0.0, 1.0]
    reward, cost = np.zeros((3, 3)), np.zeros((3, 3, 1))
    reward[2] = 1.0
    cost[0, 0] = 1.0
    return conrl.ConstrainedMDP(P, reward, cost, 5, limits=[0.4])


# -- the oracle -----------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_column_generation_meets_the_program_of_optcmdp(seed: int) -> None:
    case = Case(seed)
    d = case.mdp.num_costs
    axes = np.eye(1 + d)
    least = np.array([-case.oracle.support(-axes[1 + i]).value for i in range(d)])
    free = case.oracle.support(axes[0]).point[1:]
    limits = least + (0.2 + 0.9 * case.share) * (free - least) + 1e-6
    best = program(case, limits)
    rows = conrl.Linear(limits).rows(case.mdp)
    if best is None:
        with pytest.raises(Conflict):
            maximise(case.oracle, axes[0], rows, tol=1e-9)
        return
    found = maximise(case.oracle, axes[0], rows, tol=1e-9)
    assert found.objective == pytest.approx(best, abs=1e-7)
    assert found.bound >= best - 1e-7
    assert ((found.weights @ found.points)[1:] <= limits + 1e-8 * np.maximum(1.0, np.abs(limits))).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_support_is_the_best_over_actions_and_vertices(seed: int) -> None:
    case = Case(seed)
    values, points, means, _ = case.oracle.support_many(case.directions)
    for w, value, point, mean in zip(case.directions, values, points, means, strict=True):
        assert value == pytest.approx(brute(case, w), abs=1e-10)
        assert w @ point == pytest.approx(value, abs=1e-10)
        answer = case.oracle.support(w)
        assert answer.value == value
        assert answer.point.tobytes() == point.tobytes()
        plain = case.mdp._copy(bonus=None)
        expected = conrl.evaluate(plain, answer.policy)
        assert np.concatenate(([expected.reward], expected.costs)) == pytest.approx(mean, abs=1e-10)
    assert (np.abs(points) <= case.mdp.horizon * case.oracle.scale + 1e-9).all()
    low, high = case.oracle.box
    assert ((low - 1e-9 <= points) & (points <= high + 1e-9)).all()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_set_that_holds_the_truth_is_optimistic(seed: int) -> None:
    """The set around p_hat that just reaches p has at least the support of p; a wider one at least its own."""
    case = Case(seed)
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(case.P.shape[2]), case.P.shape[:2])
    true = conrl.ConstrainedMDP(truth, case.pay[..., 0], case.pay[..., 1:], case.mdp.horizon, initial=case.initial)
    real = BackwardInduction(true).support_many(case.directions).values
    around = ExtendedBackwardInduction(case.mdp, np.abs(truth - case.P)).support_many(case.directions).values
    assert (around >= real - 1e-9).all()
    wider = ExtendedBackwardInduction(case.mdp, np.abs(truth - case.P) + 0.1).support_many(case.directions).values
    assert (wider >= around - 1e-9).all()
    none = ExtendedBackwardInduction(case.mdp, 0.0).support_many(case.directions)
    exact = BackwardInduction(case.mdp).support_many(case.directions)
    assert none.values == pytest.approx(exact.values, abs=1e-10)


def test_radii_of_listed_and_other_states_are_those_of_a_table() -> None:
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.full(40, 0.05), (40, 3))
    P[P < 0.02] = 0.0
    P /= P.sum(axis=2, keepdims=True)
    mdp = conrl.ConstrainedMDP(P, rng.random((40, 3)), rng.random((40, 3, 2)), 6)
    g = mdp.graph
    listed, others = rng.random(g.probability.size) * 0.2, rng.random(mdp.num_pairs) * rng.choice([0, 0.01, 1], 120)
    table = np.repeat(others.reshape(40, 3)[:, :, None], 40, axis=2)
    pair = np.repeat(np.arange(mdp.num_pairs), np.diff(g.start))
    table[mdp.pair_state[pair], mdp.action[pair], g.successor] = listed
    sparse, full = ExtendedBackwardInduction(mdp, listed, others), ExtendedBackwardInduction(mdp, table)
    for w in rng.normal(size=(8, 3)):
        answer = sparse.support(w)
        assert answer.value == pytest.approx(full.support(w).value, abs=1e-12)
        assert answer.value == pytest.approx(float(w @ answer.point), abs=1e-12)


def test_one_state_stands_for_many() -> None:
    """Three states alike are one state that counts three times; one that counts 0 times cannot be entered."""
    P = np.zeros((4, 1, 4))
    P[0, 0, 0] = 1.0
    P[1:, 0] = np.eye(4)[1:]
    pay = np.array([[0.0], [1.0], [1.0], [1.0]])
    apart = ExtendedBackwardInduction(conrl.ConstrainedMDP(P, pay, None, 3), 0.5, [0.1, 0.0, 0.0, 0.0])
    small = conrl.ConstrainedMDP(P[:2, :, :2], pay[:2], None, 3)
    w = np.ones(1)
    together = ExtendedBackwardInduction(small, 0.5, [0.1, 0.0], many=[1, 3])
    assert together.support(w).value == pytest.approx(apart.support(w).value, abs=1e-12)
    assert together.support(w).value == pytest.approx(0.3 + 0.51, abs=1e-12)
    assert ExtendedBackwardInduction(small, 0.5, [0.1, 0.0], many=[1, 0]).support(w).value == 0.0


def test_the_null_action_works_on_it() -> None:
    mdp = crossing()
    oracle = WithNullAction(ExtendedBackwardInduction(mdp, 0.1))
    found = maximise(oracle, np.array([1.0, 0.0]), conrl.Linear([0.1]).rows(mdp), tol=1e-9)
    assert (found.weights @ found.points)[1] <= 0.1 + 1e-9
    assert found.bound - found.objective <= 1e-8
    assert not found.skips.any()  # waiting is as good
    dear = WithNullAction(ExtendedBackwardInduction(conrl.ConstrainedMDP([[[1.0]]], [[1.0]], [[[1.0]]], 2), 0.1))
    skips = dear.support_many(np.array([[0.0, -1.0], [1.0, 0.0]])).skips
    assert skips is not None
    assert skips.tolist() == [True, False]


def test_the_oracle_refuses_what_makes_no_set() -> None:
    mdp = crossing()
    for wrong in (np.zeros(3), np.zeros((3, 3, 2)), -0.1, np.nan):
        with pytest.raises(ModelError, match="radius"):
            ExtendedBackwardInduction(mdp, wrong)
    with pytest.raises(ModelError, match="others"):
        ExtendedBackwardInduction(mdp, 0.1, np.zeros(2))
    with pytest.raises(ModelError, match="many"):
        ExtendedBackwardInduction(mdp, 0.1, 0.1, many=[1.0])


# -- the confidence set of the learner ------------------------------------------------------------------------


def primed(kind: type[PlacesLearner], mdp: conrl.ConstrainedMDP, episodes: int, seed: int, **options: Any) -> Any:
    """A learner that has seen episodes of random actions."""
    learner = kind(mdp.task, seed=seed, **options)
    rng = np.random.default_rng(seed)
    uniform = mdp.available / mdp.available.sum(axis=1, keepdims=True)
    policy = conrl.Policy(np.broadcast_to(uniform, (mdp.horizon, *uniform.shape)))
    world = ModelWorld(mdp, mdp.task)
    learner.prime([world.play(policy, rng, learner.room()) for _ in range(episodes)])
    return learner


def test_the_radii_hold_the_truth() -> None:
    mdp = crossing()
    for seed in range(20):
        learner = primed(OptCMDP, mdp, 30, seed, preset="theory")
        model, visits = learner.counts.model(), learner.counts.visits
        L = log_factor(mdp.task, 31, 0.05)
        listed, others = transition_radii(model.graph, visits, L, 1.0)
        order = learner.counts.order
        truth = mdp.transitions.toarray().reshape(mdp.num_states, mdp.num_actions, -1)
        low, high = pay_intervals(mdp.task, model.pay, visits, L, 1.0)
        for k in range(model.num_pairs):
            s, a = order[model.pair_state[k]], model.action[k]
            outcomes = slice(model.graph.start[k], model.graph.start[k + 1])
            p = truth[s, a].copy()
            t = order[model.graph.successor[outcomes]]
            assert (np.abs(p[t] - model.graph.probability[outcomes]) <= listed[outcomes] + 1e-12).all()
            p[t] = 0.0
            assert (p <= others[k] + 1e-12).all()
            pays = np.concatenate(([mdp.rewards[s, a]], mdp.costs[s, a]))
            assert ((low[k] <= pays + 1e-12) & (pays <= high[k] + 1e-12)).all()


@pytest.mark.parametrize("scale", [1.0, 0.01, 0.0])
def test_elsewhere_stands_for_all_states_never_seen(scale: float) -> None:
    """The oracle of a learner is that of the whole task, written out."""
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    learner = primed(OptCMDP, mdp, 2, seed=1, scale=scale)
    counts, task = learner.counts, mdp.task
    S, A = task.num_states, task.num_actions
    assert counts.num_seen < S
    inner = counts.model()
    at = counts.order[inner.pair_state], inner.action
    visits = np.zeros((S, A), dtype=np.int64)
    visits[at] = counts.visits
    P = np.zeros((S, A, S))
    P[:, :, :] = np.eye(S)[:, None]
    seen = inner.transitions.toarray().reshape(-1, A, counts.num_seen)[inner.pair_state, inner.action]
    P[at] = 0.0
    P[at[0][:, None], at[1][:, None], counts.order[None]] = seen
    L = log_factor(task, 3, 0.05)  # two logged episodes, then the first of its own
    n = np.maximum(visits, 1)[:, :, None]
    beta = scale * (np.sqrt(4.0 * P * (1.0 - P) * L / n) + 14.0 * L / (3.0 * n))
    beta[visits == 0] = 1.0
    pay = np.zeros((S, A, 2))
    pay[at] = inner.pay
    low, high = pay_intervals(task, pay.reshape(-1, 2), visits.ravel(), L, scale)
    low, high = low.reshape(S, A, 2), high.reshape(S, A, 2)
    middle = (low + high) / 2.0
    model = conrl.ConstrainedMDP(P, middle[..., 0], middle[..., 1:], mdp.horizon, initial=0)
    whole = ExtendedBackwardInduction(model.with_bonus((high - low) / 2.0), beta)
    for w in ([1.0, 0.0], [1.0, -0.3], [0.0, -1.0], [-1.0, 0.5]):
        assert learner.oracle().support(w).value == pytest.approx(whole.support(np.array(w)).value, abs=1e-9)


def test_logged_episodes_count_in_the_logarithm() -> None:
    """As they do in the visits: a union over n = 1..H k must reach the largest n."""
    mdp = crossing()
    S, A, H, logged = 3, 3, 5, 30
    primal: OptPrimalDual = primed(OptPrimalDual, mdp, logged, seed=0, preset="theory")
    n = np.maximum(primal.counts.visits, 1)
    L = np.log(8 * S * A * (S + 1 + 1) * (H * (logged + 1)) ** 2 / 0.05)
    b = np.sqrt(L / (2 * n)) + H * np.sqrt((S * np.log(2) + L) / (2 * n))
    assert primal.bonus()[:, 0] == pytest.approx(b)
    ucbvi: UCBVI = primed(UCBVI, mdp, logged, seed=0, preset="theory")
    L = np.log(5 * S * A * H * (logged + 1) / 0.05)
    assert ucbvi.bonus() == pytest.approx(7 * H * L / np.sqrt(np.maximum(ucbvi.counts.visits, 1)))


def test_the_steps_of_theory_are_best_for_the_bounds() -> None:
    """Of the regret over K episodes, with multipliers up to 1: of mirror ascent, and of dual ascent."""
    mdp = crossing()
    A, H, R, K = 3, 5, 1, 400
    learner = OptPrimalDual(mdp.task, preset="theory")
    around = np.array([0.99, 1.0, 1.01])
    step, dual = (s / K**0.5 * around for s in (learner.step, learner.dual_step))
    assert np.argmin(np.log(A) / step + step * (H * (1 + R)) ** 2 * K / 2) == 1
    assert np.argmin(1 / (2 * dual) + dual * R * H**2 * K / 2) == 1


# -- what they learn ------------------------------------------------------------------------------------------


def late(learner: Any, mdp: conrl.ConstrainedMDP, episodes: int, seed: int = 0) -> tuple[Float, conrl.History]:
    history = conrl.learn(mdp, learner, episodes, seed=seed)
    assert history.executed is not None
    return history.executed[episodes // 2 :].mean(axis=0), history


def planned(learner: OptCMDP, mdp: conrl.ConstrainedMDP) -> Float:
    """The value of the mixture that episodes are drawn from: free of the chance of the draws."""
    mixture = learner.policy
    values = [conrl.evaluate(mdp, policy) for policy in mixture.policies]
    total: Float = mixture.weights @ np.array([[v.reward, *v.costs] for v in values])
    return total


def test_optcmdp_finds_the_constrained_optimum() -> None:
    mdp = crossing()
    best = conrl.plan(mdp)
    learner = OptCMDP(mdp.task)
    _, history = late(learner, mdp, 600)
    value = planned(learner, mdp)
    assert abs(value[0] - best.reward) <= 0.05 * best.reward
    assert value[1] <= 0.4 * 1.05
    assert not history.infeasible.any()


def test_optprimaldual_finds_the_constrained_optimum() -> None:
    mdp = crossing()
    best = conrl.plan(mdp)
    learner = OptPrimalDual(mdp.task)
    value, _ = late(learner, mdp, 1200)
    assert abs(value[0] - best.reward) <= 0.1 * best.reward
    assert value[1] <= 0.4 * 1.1
    assert 0.0 < learner.multipliers[0] < 4.0 * best.prices[0]


def test_ucbvi_finds_the_optimum_without_limits() -> None:
    mdp = crossing()
    best = conrl.plan(mdp, conrl.Linear())
    value, history = late(UCBVI(mdp.task), mdp, 600)
    assert value[0] >= 0.95 * best.reward
    assert value[1] > 0.4 * 1.05
    assert history.limits == pytest.approx([0.4])
    assert history.violations[0] > 0


@pytest.mark.parametrize("kind", LEARNERS)
def test_theory_presets_are_optimistic_and_run(kind: Any) -> None:
    mdp = crossing()
    learner = kind(mdp.task, preset="theory", seed=0)
    conrl.learn(mdp, learner, 5, seed=0)
    assert learner.scale == 1.0
    if isinstance(learner, OptCMDP):
        axes = np.eye(2)
        support = learner.oracle().support
        assert support(axes[0]).value >= BackwardInduction(mdp).support(axes[0]).value
        assert support(-axes[1]).value >= BackwardInduction(mdp).support(-axes[1]).value


def test_floors_are_rows_too() -> None:
    """At least 0.5 of a resource that the best road does not use."""
    base = crossing()
    costs = base.costs.copy()
    costs[1, :, 0], costs[0, 0, 0] = 1.0, 0.0
    mdp = conrl.ConstrainedMDP(base.transitions, base.rewards, costs, base.horizon)
    problem = conrl.Linear(floors=[0.5])
    best = conrl.plan(mdp, problem)
    assert best.reward < conrl.plan(mdp, conrl.Linear()).reward - 0.05
    careful = OptCMDP(mdp.task, problem=problem)
    conrl.learn(mdp, careful, 400, seed=0)
    value = planned(careful, mdp)
    assert value[0] == pytest.approx(best.reward, rel=0.05)
    assert value[1] >= 0.5 * 0.9
    # A wider bonus than the default: one unlucky try of the safe road must not settle it.
    value, _ = late(OptPrimalDual(mdp.task, problem=problem, scale=0.003), mdp, 1000)
    assert value[0] == pytest.approx(best.reward, rel=0.1)
    assert value[1] >= 0.5 * 0.85


def test_limits_that_cannot_be_kept_are_recorded() -> None:
    mdp = crossing()
    costs = mdp.costs.copy()
    costs += 0.2
    hard = conrl.ConstrainedMDP(mdp.transitions, mdp.rewards, costs, mdp.horizon, limits=[0.5])
    value, history = late(OptCMDP(hard.task), hard, 200)
    assert history.infeasible[-50:].all()
    assert value[1] == pytest.approx(1.0, abs=0.05)  # the least there is


@pytest.mark.parametrize("kind", LEARNERS)
def test_unknown_start_missing_actions_and_early_ends(kind: Any) -> None:
    """START, END and masks: FrozenLake ends early, and its first state may be any."""
    base = crossing()
    available = np.ones((3, 3), dtype=bool)
    available[1, 0] = available[2, 2] = False
    mdp = conrl.ConstrainedMDP(
        base.transitions, base.rewards, base.costs, 5, initial=[0.5, 0.5, 0.0], limits=[0.4], available=available
    )
    learner = kind(mdp.task, seed=0)
    history = conrl.learn(mdp, learner, 60, seed=0)
    assert history.executed is not None
    assert np.isfinite(history.executed).all()
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20)
    task = conrl.Task.from_gymnasium(env, limits=[5.0], cost_names=["steps"])
    learner = kind(task, seed=0)
    history = conrl.learn(env, learner, 150, seed=0, cost=lambda *step: [1.0])
    assert learner.counts.known >= 0
    if kind is UCBVI:
        assert history.rewards[-30:].mean() > 0.9


def test_ucbvi_values_only_fall_with_monotone() -> None:
    mdp = crossing()
    learner = UCBVI(mdp.task, preset="theory", seed=0)
    before = None
    for _ in range(20):
        conrl.learn(mdp, learner, 1, seed=0)
        now = learner.state()["before"]
        if before is not None:
            assert (now[:, : before.shape[1]] <= before).all()
        before = now
    assert before is not None
    assert before.max() <= mdp.horizon


# -- files ----------------------------------------------------------------------------------------------------


def options(kind: Any) -> list[dict[str, Any]]:
    return [{}, {"preset": "theory", "delta": 0.1}, {"scale": 0.005, "keep_policies": kind is not OptCMDP}]


@pytest.mark.parametrize(("kind", "i"), [(kind, i) for kind in LEARNERS for i in range(3)])
def test_saved_and_loaded_it_goes_on_exactly(kind: Any, i: int, tmp_path: Path) -> None:
    mdp = crossing()
    straight = kind(mdp.task, seed=5, **options(kind)[i])
    whole = conrl.learn(mdp, straight, 30, seed=5)
    learner = kind(mdp.task, seed=5, **options(kind)[i])
    first = conrl.learn(mdp, learner, 13, seed=5)
    _ = learner.propose()  # a proposal not yet observed is made again
    learner.save(tmp_path / "a.npz")
    again = conrl.load_learner(tmp_path / "a.npz")
    assert again.config() == learner.config()
    rest = conrl.learn(mdp, again, 17, seed=5)
    assert np.array_equal(np.vstack((first.executed, rest.executed)), whole.executed)  # type: ignore[arg-type]
    mine, theirs = again.state(), straight.state()
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        assert array.tobytes() == theirs[name].tobytes(), name


@pytest.mark.parametrize("kind", LEARNERS)
def test_the_same_seed_gives_the_same_run(kind: Any) -> None:
    mdp = crossing()
    runs = [conrl.learn(mdp, kind(mdp.task), 25, seed=s).to_csv() for s in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_files_of_other_shapes_are_refused(tmp_path: Path) -> None:
    mdp = crossing()
    for kind, name in ((OptPrimalDual, "state_weights"), (OptPrimalDual, "state_multipliers"), (UCBVI, "state_before")):
        learner = kind(mdp.task, seed=0)
        conrl.learn(mdp, learner, 3, seed=0)
        learner.save(tmp_path / "a.npz")
        arrays = dict(np.load(tmp_path / "a.npz"))
        np.savez(tmp_path / "b.npz", **arrays | {name: np.zeros((7, 99))})
        with pytest.raises(RunError, match="damaged"):
            conrl.load_learner(tmp_path / "b.npz")


# -- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEARNERS)
def test_what_makes_no_learner_is_refused(kind: Any) -> None:
    task = crossing().task
    for wrong, message in (
        ({"preset": "defualt"}, "did you mean 'default'"),
        ({"delta": 0.0}, "delta is 0.0"),
        ({"scale": -1.0}, "scale is -1.0"),
        ({"scale": "1"}, "scale is '1'"),
        ({"seed": -1}, "seed is -1"),
    ):
        with pytest.raises(SpecError, match=message):
            kind(task, **wrong)
    with pytest.raises(SpecError, match="needs a Task"):
        kind(crossing())


def test_what_a_learner_cannot_do_is_refused() -> None:
    task = crossing().task
    for kind in (OptCMDP, OptPrimalDual):
        with pytest.raises(SpecError, match="takes Linear problems, not Knapsack"):
            kind(task, problem=conrl.Knapsack([10.0], 100))
    with pytest.raises(SpecError, match="step is 0"):
        OptPrimalDual(task, step=0.0)
    with pytest.raises(SpecError, match="least is 2"):
        OptPrimalDual(task, least=2.0)
    with pytest.raises(SpecError, match="decay is 1"):
        OptPrimalDual(task, decay=1)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="monotone is 'yes'"):
        UCBVI(task, monotone="yes")  # type: ignore[arg-type]
    with pytest.raises(RunError, match="not kept"):
        _ = OptPrimalDual(task).average_policy


def test_logged_episodes_count_as_seen() -> None:
    mdp = crossing()
    learner = primed(OptCMDP, mdp, 200, seed=0)
    assert learner.primed == 200
    assert learner.episodes == 0
    assert learner.model.counts is not None
    assert planned(learner, mdp)[0] == pytest.approx(conrl.plan(mdp).reward, rel=0.1)
    bad = conrl.Episode(np.array([0, 9]), np.array([0]), np.array([0.0]), np.array([[0.0]]))
    with pytest.raises(RunError, match="episode 1 of the log"):
        learner.prime([bad])

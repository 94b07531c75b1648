"""Learning from a safe policy: the bounds against programs written out, the confidence sets against simulation, and
SafeConRL, DOPE and OptPessLP themselves.

The bounds of a policy over a set of models are compared with linear programs in occupation measures (HiGHS), lotteries
with exact fractions. At scale 1 no episode may exceed a limit; where the proof does not hold, it must show.
"""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

import conrl
from conrl import kernels
from conrl.cli.main import main
from conrl.errors import ModelError, RunError, SpecError
from conrl.learners.confidence import RADII, confidence_set
from conrl.learners.optimistic import log_factor
from conrl.learners.replanning import Lottery
from conrl.oracles.extended import ExtendedBackwardInduction
from conrl.oracles.prudent import Prudent
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict
from conrl.planners.lottery import best_lottery, kept_within
from conrl.running import ModelWorld
from conrl.running.blocks import learn_in_blocks

Float = NDArray[np.float64]
KINDS: list[Any] = [conrl.SafeConRL, conrl.DOPE, conrl.OptPessLP]


# -- models ---------------------------------------------------------------------------------------------------


def factored(limit: float = 3.0) -> conrl.ConstrainedMDP:
    """Three rooms in a circle: to move on pays (s + 1) / 3 and costs 1, to stay nothing."""
    P, reward, cost = np.zeros((3, 2, 3)), np.zeros((3, 2)), np.zeros((3, 2, 1))
    for s in range(3):
        P[s, 0, s] = P[s, 1, (s + 1) % 3] = 1.0
        reward[s, 1] = (s + 1) / 3
    cost[:, 1] = 1.0
    return conrl.ConstrainedMDP(P, reward, cost, 6, limits=[limit])


def crossing(limits: Any = (0.4,), **more: Any) -> conrl.ConstrainedMDP:
    """Two roads from 0 to 2: a short one that costs 1, and a safe one that often fails. Waiting costs nothing."""
    P = np.zeros((3, 3, 3))
    P[0] = [[0.1, 0.0, 0.9], [0.6, 0.4, 0.0], [1.0, 0.0, 0.0]]
    P[1, :] = [0.0, 0.2, 0.8]
    P[2, :] = [0.0, 0.0, 1.0]
    reward, cost = np.zeros((3, 3)), np.zeros((3, 3, 1))
    reward[2] = 1.0
    cost[0, 0] = 1.0
    return conrl.ConstrainedMDP(P, reward, cost, 5, **{"limits": limits, **more})


def two_costs() -> conrl.ConstrainedMDP:
    """Random, with a cost in [0, 2] and one in [-1, 1]."""
    rng = np.random.default_rng(4)
    P = rng.dirichlet(np.ones(4), (4, 3))
    cost = np.stack((2.0 * rng.random((4, 3)), 2.0 * rng.random((4, 3)) - 1.0), axis=2)
    cost[:, 0] = [0.0, -0.5]
    return conrl.ConstrainedMDP(
        P,
        rng.random((4, 3)),
        cost,
        4,
        limits=[2.0, 0.5],
        reward_range=(0.0, 1.0),
        cost_ranges=[(0.0, 2.0), (-1.0, 1.0)],
    )


def made(kind: Any, mdp: conrl.ConstrainedMDP, share: float = 0.2, **more: Any) -> Any:
    """A learner that starts from the plan at a share of the limits."""
    limits = np.asarray(mdp.limits)
    plan = conrl.plan(mdp, np.where(limits > 0.0, share * limits, limits))
    costs = np.minimum(plan.costs + 1e-9, limits)
    return kind(mdp.task, safe=plan.policy, safe_costs=costs, **more)


# -- programs -------------------------------------------------------------------------------------------------


class Case:
    """A tiny random model with intervals [S, A, S], a bound on all but the outcomes together, and a random policy."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        S, A, H, d = (int(rng.integers(1, top)) for top in (5, 4, 4, 3))
        self.shape = H, S, A, d
        P = rng.dirichlet(np.full(S, 0.5), (S, A)) * (rng.random((S, A, S)) < 0.6)
        P[P.sum(axis=2) == 0.0, 0] = 1.0
        self.P = P / P.sum(axis=2, keepdims=True)
        width = rng.choice([0.0, 0.05, 0.3, 1.5])
        self.low = np.where(self.P > 0.0, np.maximum(self.P - width * rng.random((S, A, S)), 0.0), 0.0)
        self.wide = rng.random((S, A)) * rng.choice([0.0, 0.1, 1.0])
        self.rest = rng.random((S, A)) * rng.choice([0.0, 0.2, 2.0])
        self.high = np.minimum(
            np.where(self.P > 0.0, self.P + width * rng.random((S, A, S)), self.wide[..., None]), 1.0
        )
        scale = 10.0 ** rng.integers(-6, 7)
        self.pay = scale * (rng.normal(size=(S, A, 1 + d)) if rng.random() < 0.5 else rng.random((S, A, 1 + d)))
        self.estimate = scale * rng.random((S, A))
        self.size = scale
        self.initial = rng.dirichlet(np.ones(S))
        self.likely = rng.dirichlet(np.full(A, 0.4), (H, S))
        if rng.random() < 0.3:
            self.likely = np.eye(A)[rng.integers(A, size=(H, S))]
        self.weights = rng.normal(size=2 + d)
        self.share = rng.random(d)
        mdp = conrl.ConstrainedMDP(self.P, self.pay[..., 0], self.pay[..., 1:], H, initial=self.initial)
        g = mdp.graph
        pair = np.repeat(np.arange(mdp.num_pairs), np.diff(g.start))
        at = mdp.pair_state[pair], mdp.action[pair], g.successor
        self.oracle = ExtendedBackwardInduction.between(
            mdp, self.low[at], self.high[at], self.wide.ravel(), np.ones(S), self.rest.ravel()
        )
        self.prudent = Prudent(self.oracle, self.estimate.ravel(), np.full(d, np.inf))


def program(case: Case, gain: Float, likely: Float | None = None, use: Float | None = None, limits: Any = ()) -> Any:
    """max of gain [S, A] over policies (or the given one [H, S, A]) and models of the set, use [S, A, d] <= limits.

    In q_h(s, a, t), the probability of a step, a pair and what follows; None if there is no solution.
    """
    H, S, A, _ = case.shape
    q = np.arange(H * S * A * S).reshape(H, S, A, S)
    equal, target = sp.lil_array((H * S * (1 if likely is None else 1 + A), q.size)), []
    row = 0
    for h, s in itertools.product(range(H), range(S)):
        equal[row, q[h, s].ravel()] = 1.0
        if h:
            before = q[h - 1, :, :, s].ravel()
            equal[row, before] = equal[row, before].toarray() - 1.0
        target.append(0.0 if h else case.initial[s])
        row += 1
    for h, s, a in itertools.product(range(H), range(S), range(A)) if likely is not None else ():
        equal[row, q[h, s].ravel()] = -likely[h, s, a]  # type: ignore[index]
        equal[row, q[h, s, a]] = equal[row, q[h, s, a]].toarray() + 1.0
        target.append(0.0)
        row += 1
    above, bound = [], []
    for h, s, a in itertools.product(range(H), range(S), range(A)):
        for t in range(S):
            for end, sign in ((case.high[s, a, t], 1.0), (case.low[s, a, t], -1.0)):
                line = np.zeros(q.size)
                line[q[h, s, a]] -= sign * end
                line[q[h, s, a, t]] += sign
                above.append(line)
                bound.append(0.0)
        line = np.zeros(q.size)
        line[q[h, s, a][case.P[s, a] == 0.0]] = 1.0
        line[q[h, s, a]] -= min(case.rest[s, a], 1.0)
        above.append(line)
        bound.append(0.0)
    if use is not None:
        for i, limit in enumerate(limits):
            above.append(np.broadcast_to(use[None, :, :, None, i], q.shape).ravel() / case.size)
            bound.append(limit / case.size)
    objective = np.broadcast_to(gain[None, :, :, None], q.shape).ravel() / case.size
    found = linprog(
        -objective,
        A_ub=sp.csr_array(np.array(above)),
        b_ub=bound,
        A_eq=sp.csr_array(equal),
        b_eq=target,
        method="highs",
    )
    assert found.status in (0, 2), found.message
    return None if found.status == 2 else -float(found.fun) * case.size


# -- the bounds -----------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_bounds_of_a_policy_are_those_of_the_program(seed: int) -> None:
    case = Case(seed)
    H, S, A, d = case.shape
    worth = case.prudent.worth(case.likely.reshape(H, S * A))
    room = 1e-7 * case.size
    assert worth.best == pytest.approx(program(case, case.pay[..., 0], case.likely), abs=room)
    for i in range(d):
        assert worth.most[i] == pytest.approx(program(case, case.pay[..., 1 + i], case.likely), abs=room)
    mdp = conrl.ConstrainedMDP(case.P, case.estimate, None, H, initial=case.initial)
    assert worth.estimate == pytest.approx(conrl.evaluate(mdp, conrl.Policy(case.likely)).reward, abs=room)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_greedy_policy_is_worth_what_is_said(seed: int) -> None:
    case = Case(seed)
    H, S, A, d = case.shape
    policy, worth = case.prudent.greedy(case.weights)
    again = case.prudent.worth(policy.probabilities.reshape(H, S * A))
    room = 1e-11 * case.size * H
    assert again.best == pytest.approx(worth.best, abs=room)
    assert again.estimate == pytest.approx(worth.estimate, abs=room)
    assert again.most == pytest.approx(worth.most, abs=room)
    assert (case.prudent.error <= 1e-9 * H * case.size * 10).all()
    # In one step there is nothing to choose but the action: it is the best.
    if H == 1:
        values = (
            case.weights[:-1] @ np.moveaxis(case.pay, 2, 0).reshape(1 + d, -1)
            + case.weights[-1] * case.estimate.ravel()
        )
        best = case.initial @ values.reshape(S, A).max(axis=1)
        said = case.weights @ np.concatenate(([worth.best], worth.most, [worth.estimate]))
        assert said == pytest.approx(best, abs=room)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_nothing_costs_more_than_the_worst_that_is_known(seed: int) -> None:
    """Cut off at each step: the same recursion, with the inner maximum as a program."""
    case = Case(seed)
    H, S, A, d = case.shape
    if d == 0:
        return
    cap = float(np.abs(case.pay[..., 1:]).max()) * (1.0 + H * case.share[0])
    capped = Prudent(case.oracle, case.estimate.ravel(), np.full(d, cap)).worth(case.likely.reshape(H, S * A)).most
    free = case.prudent.worth(case.likely.reshape(H, S * A)).most
    assert (capped <= free + 1e-9 * case.size).all()
    for i in range(d):
        V = np.zeros(S)
        for h in reversed(range(H)):
            Q = np.empty((S, A))
            for s, a in itertools.product(range(S), range(A)):
                outside = (case.P[s, a] == 0.0)[None].astype(float)
                found = linprog(
                    -V / case.size,
                    A_ub=outside,
                    b_ub=[min(case.rest[s, a], 1.0)],
                    A_eq=np.ones((1, S)),
                    b_eq=[1.0],
                    bounds=list(zip(case.low[s, a], case.high[s, a], strict=True)),
                )
                Q[s, a] = min(cap, case.pay[s, a, 1 + i] - found.fun * case.size)
            V = (case.likely[h] * Q).sum(axis=1)
        assert capped[i] == pytest.approx(case.initial @ V, abs=1e-7 * case.size)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_markov_form_is_worth_what_the_mixture_is_in_a_model_of_the_set(seed: int) -> None:
    case = Case(seed)
    d = case.shape[3]
    axes = np.eye(1 + d)
    least = np.array([-case.oracle.support(-axes[1 + i]).value for i in range(d)])
    free = case.oracle.support(axes[0]).point[1:]
    limits = least + (0.2 + 0.9 * case.share) * np.maximum(free - least, 0.0) + 1e-6 * case.size
    best = program(case, case.pay[..., 0], use=case.pay[..., 1:], limits=limits)
    try:
        found = maximise(case.oracle, axes[0], conrl.Linear(limits).rows(case.oracle.mdp), tol=1e-9)
    except Conflict:
        assert best is None
        return
    assert found.objective == pytest.approx(best, abs=1e-6 * case.size)
    form = case.oracle.markov(found.weights / found.weights.sum(), found.directions)
    room = limits + 1e-8 * np.maximum(case.size, np.abs(limits))
    alone = program(case, case.pay[..., 0], form.probabilities, case.pay[..., 1:], room)
    assert alone is not None
    assert alone >= best - 1e-6 * case.size


def relative_entropy(p: float, q: Any) -> Any:
    """In long doubles."""
    ends = ((np.longdouble(p), np.longdouble(q)), (1 - np.longdouble(p), 1 - np.longdouble(q)))
    parts = [a * np.log(a / b) if a > 0.0 else np.longdouble(0.0) for a, b in ends]
    return parts[0] + parts[1]


@settings(max_examples=300, deadline=None)
@given(p=st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 0.5, 1e-12])), x=st.floats(1e-9, 50.0))
def test_intervals_by_relative_entropy(p: float, x: float) -> None:
    """All within the ends have less than x, all beyond them more, but for 1e-9; and the ends are rounded outward."""
    low, high = np.empty(1), np.empty(1)
    kernels.kl_interval(np.array([p]), np.array([x]), low, high)
    assert 0.0 <= low[0] <= p <= high[0] <= 1.0
    room = np.longdouble(1e-9 + 1e-6 * x**0.5)
    for end, away in ((low[0], -1), (high[0], 1)):
        q = np.longdouble(end)
        if 0.0 < q < 1.0:
            assert relative_entropy(p, q) >= x * (1 - 1e-9)
            inside = q - away * room
            assert (inside - p) * away <= 0 or relative_entropy(p, inside) <= x
        else:
            assert q == (0.0 if away < 0 else 1.0)


# -- lotteries ------------------------------------------------------------------------------------------------


def drawn(seed: int) -> tuple[Float, Float, Float]:
    """Gains, uses and bounds, the first of which keeps the bounds: ties, tight and loose, of any scale."""
    rng = np.random.default_rng(seed)
    n, R = int(rng.integers(1, 8)), int(rng.integers(0, 4))
    unit = 10.0 ** rng.integers(-6, 7, size=R)
    uses = np.round(rng.random((n, R)) * 4.0, int(rng.integers(1, 8))) - rng.choice([0.0, 2.0])
    bounds = np.round(rng.random(R) * 3.0, 2) - rng.choice([0.0, 1.0])
    uses[0] = np.minimum(uses[0], bounds) if rng.random() < 0.7 else bounds
    gains = np.round(rng.normal(size=n), int(rng.integers(0, 8))) * 10.0 ** rng.integers(-6, 7)
    return gains, uses * unit, bounds * unit


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_lottery_is_the_best_and_keeps_its_bounds_exactly(seed: int) -> None:
    gains, uses, bounds = drawn(seed)
    unit = np.maximum(np.abs(uses).max(axis=0, initial=0.0), np.abs(bounds)) + 1e-300
    level = np.abs(gains).max() + 1e-300
    best = linprog(
        -gains / level,
        A_ub=(uses / unit).T if bounds.size else None,
        b_ub=bounds / unit if bounds.size else None,
        A_eq=np.ones((1, gains.size)),
        b_eq=[1.0],
    )
    weights, prices = best_lottery(gains, uses, bounds)
    kept = kept_within(weights, uses, bounds)
    assert (kept >= 0.0).all()
    assert kept.sum() == pytest.approx(1.0, abs=1e-12)
    assert (prices >= 0.0).all()
    exact = [Fraction(w) for w in kept.tolist()]
    for r in range(bounds.size):
        assert (
            sum(w * (Fraction(u) - Fraction(bounds[r])) for w, u in zip(exact, uses[:, r].tolist(), strict=True)) <= 0
        )
    if best.status == 0:
        assert gains @ kept / level >= -best.fun - 1e-6
        reduced = (gains - uses @ prices).max() + prices @ bounds  # weak duality: the prices prove it
        assert reduced / level >= -best.fun - 1e-6


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_weights_move_no_more_than_they_must(seed: int) -> None:
    gains, uses, bounds = drawn(seed)
    weights = np.random.default_rng(seed).dirichlet(np.ones(gains.size))
    kept = kept_within(weights, uses, bounds)
    over = uses - bounds
    if bounds.size == 0 or (weights @ over < -1e-9 * np.abs(over).max()).all():
        assert kept[1:] == pytest.approx(weights[1:], rel=1e-9)
    else:
        home = int(np.argmax(kept - weights))
        ratio = np.delete(kept / np.maximum(weights, 1e-300), home)
        assert ratio == pytest.approx(np.full(ratio.size, ratio.max(initial=0.0)), abs=1e-9)  # all others shrink alike
        if 0.0 < ratio.max(initial=0.0) < 1.0 - 1e-9:
            assert (kept @ over >= -1e-6 * np.abs(over).max(axis=0)).any()  # and one bound is met


def test_a_lottery_of_nothing_but_the_safe_policy() -> None:
    """It costs what the limit is: nothing that may cost more can join it."""
    kept = kept_within(np.array([0.5, 0.5]), np.array([[1.0], [1.0 + 1e-15]]), np.array([1.0]))
    assert kept.tolist() == [1.0, 0.0]
    kept = kept_within(np.array([0.5, 0.5]), np.array([[1.0], [1.0]]), np.array([1.0]))
    assert kept.tolist() == [0.5, 0.5]


# -- the confidence sets --------------------------------------------------------------------------------------


def simulated(mdp: conrl.ConstrainedMDP, episodes: int, seed: int, **options: Any) -> Any:
    """A learner that has seen episodes of random actions."""
    learner = made(conrl.SafeConRL, mdp, seed=seed, **options)
    rng = np.random.default_rng(seed)
    uniform = mdp.available / mdp.available.sum(axis=1, keepdims=True)
    policy = conrl.Policy(np.broadcast_to(uniform, (mdp.horizon, *uniform.shape)))
    world = ModelWorld(mdp, mdp.task)
    learner.prime([world.play(policy, rng, learner.room()) for _ in range(episodes)])
    return learner


def bounds_of(learner: Any, policy: conrl.Policy) -> Float:
    known = learner._known(learner.scale)
    prudent = Prudent(known.oracle(known.high), known.model.pay[:, 0], learner.worst_costs)
    worth = prudent.worth(learner._likely(policy, known.model))
    return np.concatenate(([worth.best], worth.most + prudent.error))


def broken(mdp: conrl.ConstrainedMDP, radii: str, scale: float, runs: int = 25) -> int:
    """In how many runs some policy is worth more than its bounds say."""
    count = 0
    for seed in range(runs):
        rng = np.random.default_rng(1000 + seed)
        learner = simulated(mdp, int(rng.integers(1, 60)), seed, radii=radii, scale=scale)
        wrong = False
        for _ in range(4):
            choice = np.array([[rng.choice(np.flatnonzero(row)) for row in mdp.available] for _ in range(mdp.horizon)])
            policy = conrl.Deterministic(choice, mdp.num_actions)
            true = conrl.evaluate(mdp, policy)
            wrong |= bool((np.array([true.reward, *true.costs]) > bounds_of(learner, policy) + 1e-12).any())
        count += wrong
    return count


@pytest.mark.parametrize("radii", RADII)
@pytest.mark.parametrize("world", [crossing, two_costs])
def test_the_truth_is_within_the_bounds(world: Any, radii: str) -> None:
    """At scale 1 in every run; where the proof does not hold, it fails: the test can tell."""
    assert broken(world(), radii, 1.0) == 0
    assert broken(world(), radii, 1e-4) > 3


@pytest.mark.parametrize("radii", RADII)
def test_the_sets_hold_the_model(radii: str) -> None:
    mdp = crossing()
    truth = mdp.transitions.toarray().reshape(3, 3, 3)
    for seed in range(20):
        learner = simulated(mdp, 1 + 3 * seed, seed, radii=radii, preset="theory")
        known, order = learner._known(1.0), learner.counts.order
        g = known.model.graph
        for k in range(learner.counts.num_pairs):
            s, a = order[known.model.pair_state[k]], known.model.action[k]
            outcomes = slice(g.start[k], g.start[k + 1])
            inside = g.successor[outcomes] < order.size
            p = truth[s, a].copy()
            t = order[g.successor[outcomes][inside]]
            assert (known.least[outcomes][inside] <= p[t] + 1e-12).all()
            assert (p[t] <= known.most[outcomes][inside] + 1e-12).all()
            p[t] = 0.0
            assert (p <= known.others[k] + 1e-12).all()
            assert p.sum() <= known.rest[k] + 1e-12
            pays = np.concatenate(([mdp.rewards[s, a]], mdp.costs[s, a]))
            assert ((known.low[k] <= pays + 1e-12) & (pays <= known.high[k] + 1e-12)).all()


def test_sharp_sets_lie_within_those_of_optcmdp() -> None:
    mdp = two_costs()
    for seed in range(5):
        counts = simulated(mdp, 40 * seed, seed).counts
        sharp, plain = (confidence_set(mdp.task, counts, 40 * seed + 1, 0.05, 1.0, radii) for radii in RADII)
        assert (sharp.least >= plain.least - 1e-12).all()
        assert (sharp.most <= plain.most + 1e-12).all()
        assert (sharp.others <= plain.others + 1e-12).all()
        assert (sharp.low >= plain.low - 1e-12).all()
        assert (sharp.high <= plain.high + 1e-12).all()


def test_what_was_never_seen_next_is_bounded_as_one() -> None:
    """All n visits within a set that leaves out y have probability (1 - y)^n; there are few such sets."""
    mdp = crossing()
    learner = simulated(mdp, 50, 0, preset="theory")
    known = learner._known(1.0)
    L = log_factor(mdp.task, 51, 0.05)
    outcomes = np.diff(known.model.graph.start)
    for k in np.flatnonzero(known.visits > 0):
        bound = 1.0 - np.exp(-(L + (outcomes[k] + 1) * np.log(3 + 1)) / known.visits[k])
        assert known.rest[k] == pytest.approx(min(bound, 1.0))


def test_an_early_end_that_was_never_seen_may_cost_most() -> None:
    """Every step costs -1 at best and -0.5 at worst, an episode that ends costs nothing any more."""
    task = conrl.Task(1, 1, 4, [-1.0], ["energy"], initial=0, cost_ranges=[(-1.0, -0.5)])
    safe = conrl.Deterministic(np.zeros((4, 1), dtype=int), 1)
    learner = conrl.SafeConRL(task, safe=safe, safe_costs=[-1.5], preset="theory")
    assert bounds_of(learner, safe)[1] >= -0.5  # it may end after one step
    episode = conrl.Episode([0] * 5, [0] * 4, [0.5] * 4, [[-0.75]] * 4)
    for _ in range(300):
        learner.observe(episode)
    assert -3.0 <= bounds_of(learner, safe)[1] <= -1.5


@pytest.mark.parametrize("span", [(-1.0, -0.5), (-1.0, 0.0), (-1.0, 1.0)])
def test_an_early_end_may_come_however_wide_the_range_is(span: tuple[float, float]) -> None:
    """Every step of 30 episodes cost -1 and none ended; by delta, one in 30 may still end after its first step."""
    H, steps = 400, [0] + [1] * 400
    mask = np.array([[True, True], [True, False]])
    task = conrl.Task(
        2, 2, H, [-392.0], ["less"], initial=0, reward_range=(-1.0, 0.0), cost_ranges=[span], available=mask
    )
    safe, risky = (conrl.Deterministic(np.tile([a, 0], (H, 1)), 2) for a in (0, 1))
    learner = conrl.SafeConRL(task, safe=safe, safe_costs=[-400.0], preset="theory", delta=0.01, seed=0)
    learner.prime([conrl.Episode(steps, [1] + [0] * (H - 1), [-1.0] * H, [-1.0] * H) for _ in range(30)])
    ends = -1.0 - (1.0 - 1.0 / 30.0) * (H - 1)
    best, most = bounds_of(learner, risky)
    assert best >= ends
    assert most >= ends


def test_nothing_stays_untried_where_there_is_room() -> None:
    """By the estimate alone, which says nothing good of what was never tried, it would stay at 86% of the optimum."""
    mdp = conrl.envs.inventory()
    best = conrl.plan(mdp).reward
    learner = made(conrl.SafeConRL, mdp, replan="doubling", keep_policies=False)
    stretches = list(learn_in_blocks(mdp, learner, 10_000, seed=0))
    assert stretches[-1].value[0] > 0.93 * best
    assert max(stretch.value[1] for stretch in stretches) <= 3.5


def test_what_the_safe_policy_costs_must_be_possible() -> None:
    mdp = crossing()
    with pytest.raises(SpecError, match="by its range no episode costs less than 0"):
        conrl.SafeConRL(mdp.task, safe=conrl.plan(mdp, [0.1]).policy, safe_costs=[-1.0])
    two = two_costs()
    with pytest.raises(SpecError, match="safe_costs has no number for"):
        conrl.SafeConRL(two.task, safe=conrl.plan(two).policy, safe_costs={two.cost_names[0]: 0.0})


@pytest.mark.parametrize("kind", [conrl.SafeConRL, conrl.OptCMDP])
def test_a_log_is_planned_from_at_once(kind: Any) -> None:
    """Whatever was read before it."""
    mdp = crossing()
    world, rng, policy = ModelWorld(mdp, mdp.task), np.random.default_rng(0), conrl.plan(mdp, [0.1]).policy
    log = [world.play(policy, rng, conrl.ConRL(mdp.task).room()) for _ in range(60)]
    one, other = (fresh(kind, mdp, replan="doubling", seed=0) for _ in range(2))
    one.prime(log[:55])
    other.prime(log[:55])
    _ = other.proposal
    one.prime(log[55:])
    other.prime(log[55:])
    same_state(one, other)
    assert np.array_equal(one.propose().probabilities, other.propose().probabilities)


# -- DOPE and OptPessLP: their programs, written out ------------------------------------------------------------


def dope_case(learner: Any) -> tuple[Case, Float, Float]:
    """The set, r_bar and c_bar of the paper, in plain tables; all states have been seen."""
    counts, task = learner.counts, learner.task
    S, A, H = task.num_states, task.num_actions, task.horizon
    assert counts.num_seen == S
    inner = counts.model()
    at = counts.order[inner.pair_state], inner.action
    n, p, mean = np.zeros((S, A)), np.zeros((S, A, S)), np.zeros((S, A, 2))
    n[at], mean[at] = counts.visits, inner.pay
    dense = inner.transitions.toarray().reshape(S, A, S)[inner.pair_state, inner.action]
    p[at[0][:, None], at[1][:, None], counts.order[None]] = dense
    L = log_factor(task, learner.primed + learner.episodes + 1, learner.delta)
    m = np.maximum(n, 1)
    beta = learner.scale * (np.sqrt(4.0 * p * (1.0 - p) * L / m[..., None]) + 14.0 * L / (3.0 * m[..., None]))
    own = learner.scale * np.sqrt(L / (2.0 * m))
    gap = float(np.asarray(task.limits)[0] - learner.safe_costs[0])
    high = np.where((n == 0)[..., None], 1.0, np.minimum(mean + own[..., None], 1.0))
    r_bar = high[..., 0] + 3.0 * H / gap * own + H**2 / gap * beta.sum(axis=2)
    c_bar = high[..., 1] + H * beta.sum(axis=2)
    beta[n == 0] = 1.0  # it may lead anywhere
    case = Case.__new__(Case)
    case.shape, case.P, case.initial, case.size = (
        (H, S, A, 1),
        np.ones((S, A, S)),
        np.eye(S)[task.initial],
        np.float64(1.0),
    )
    case.low, case.high, case.rest = np.maximum(p - beta, 0.0), np.minimum(p + beta, 1.0), np.ones((S, A))
    return case, r_bar, c_bar


@pytest.mark.parametrize(
    ("episodes", "scale"), [(40, 1.0), (40, 1e-4), (200, 3e-4), (400, 1e-3), (60, 0.0), (3, 1e-5), (6, 3e-4), (4, 1e-4)]
)
def test_dope_plans_the_paper_s_program(episodes: int, scale: float) -> None:
    mdp = crossing()
    learner = made(conrl.DOPE, mdp, scale=scale, seed=3)
    other = simulated(mdp, episodes, 3)
    learner.load_state(learner.state() | {k: v for k, v in other.state().items() if k.startswith(("counts", "primed"))})
    case, r_bar, c_bar = dope_case(learner)
    best = program(case, r_bar, use=c_bar[..., None], limits=[0.4])
    played = learner.propose()
    if best is None:
        assert played is learner.safe
        assert learner.prices is None
        return
    assert played is not learner.safe
    room = [0.4 + 1e-7]
    assert program(case, r_bar, played.probabilities, c_bar[..., None], room) >= best * (1.0 - 1e-7) - 1e-7


def test_optpess_plans_the_paper_s_program() -> None:
    mdp = crossing()
    H, S, A = 5, 3, 3
    outcomes = set()
    for scale, episodes in ((1.0, 40), (1e-3, 40), (1e-4, 100), (3e-5, 300), (0.0, 50), (1e-5, 2), (1e-4, 3)):
        learner = made(conrl.OptPessLP, mdp, scale=scale, seed=3)
        other = simulated(mdp, episodes, 3)
        state = {k: v for k, v in other.state().items() if k.startswith(("counts", "primed"))}
        learner.load_state(learner.state() | state)
        full = learner.model
        L = log_factor(mdp.task, episodes + 1, 0.05)
        counts = learner.counts
        n = np.zeros((S, A))
        n[np.repeat(counts.order, np.diff(counts.first)), counts.action] = counts.visits
        beta = scale * np.sqrt(L / np.maximum(n, 1))
        gap = 0.4 - float(learner.safe_costs[0])
        c_tilde = np.where(n > 0, full.costs[..., 0], 1.0) + (1 + S * H) * beta
        r_bar = np.where(n > 0, full.rewards, 1.0) + (1 + S * H + 4 * H * (1 + S * H) / gap) * beta
        model = conrl.ConstrainedMDP(full.transitions, r_bar, c_tilde[..., None], H)
        own = conrl.evaluate(model, learner.safe).costs[0]
        played = learner.propose()
        try:
            best = (
                None if own >= (0.4 + learner.safe_costs[0]) / 2 else conrl.plan(model, [0.4], planner="linear-program")
            )
        except conrl.InfeasibleError:
            best = None
        outcomes.add(best is None)
        assert (played is learner.safe) == (best is None)
        if best is not None:
            value = conrl.evaluate(model, played)
            assert value.reward == pytest.approx(best.reward, rel=1e-6)
            assert value.costs[0] <= 0.4 + 1e-6
    assert outcomes == {True, False}


# -- what they do ---------------------------------------------------------------------------------------------


def violations(history: conrl.History, limits: Any) -> int:
    assert history.executed is not None
    limits = np.asarray(limits)
    return int((history.executed[:, 1:] > limits + 1e-9 * np.abs(limits)).any(axis=1).sum())


@pytest.mark.parametrize("radii", RADII)
def test_no_episode_violates_at_scale_1_and_the_optimum_is_found(radii: str) -> None:
    mdp = factored()
    for seed in range(3):
        learner = made(conrl.SafeConRL, mdp, preset="theory", radii=radii, replan="doubling")
        history = conrl.learn(mdp, learner, 3000, seed=seed)
        assert violations(history, [3.0]) == 0
        assert learner.left_at == 1
        assert history.executed is not None
        assert history.executed[-1000:, 0].mean() >= 0.75 * 2.0
        assert history.executed[:, 0].mean() > 0.4  # the safe policy's


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world", [crossing, two_costs, lambda: factored(1.0)])
def test_no_episode_violates_at_scale_1(kind: Any, world: Any) -> None:
    mdp = world()
    for seed in range(2):
        learner = made(kind, mdp, preset="theory", replan="doubling", seed=seed)
        assert violations(conrl.learn(mdp, learner, 300, seed=seed), mdp.limits) == 0


def test_a_lottery_that_is_not_careful_violates() -> None:
    """The same learner at scale 0 trusts single visits: the test above can fail."""
    mdp = crossing()
    learners = [made(conrl.SafeConRL, mdp, scale=0.0, optimism=1.0) for _ in range(5)]
    histories = [conrl.learn(mdp, learner, 150, seed=seed) for seed, learner in enumerate(learners)]
    assert sum(violations(history, mdp.limits) for history in histories) > 0


def test_the_default_learns_a_small_world() -> None:
    mdp = crossing()
    best = conrl.plan(mdp)
    learner = made(conrl.SafeConRL, mdp)
    history = conrl.learn(mdp, learner, 800, seed=1)
    assert violations(history, mdp.limits) == 0
    assert history.executed is not None
    assert history.executed[-100:, 0].mean() >= 0.9 * best.reward
    assert learner.prices is not None
    assert learner.prices[0] > 0.0
    assert 0.0 <= learner.margin[0] <= 0.4


@pytest.mark.parametrize("kind", [conrl.DOPE, conrl.OptPessLP])
def test_rivals_leave_the_safe_policy_and_learn(kind: Any) -> None:
    mdp = factored()
    learner = made(kind, mdp)
    history = conrl.learn(mdp, learner, 400, seed=0)
    assert learner.left_at is not None
    assert learner.left_at > 1
    assert history.executed is not None
    assert np.allclose(history.executed[: learner.left_at - 1], [0.4, 0.6])
    assert history.executed[-1, 0] >= 1.9
    assert learner.prices is not None


def test_at_scale_1_the_rivals_stay_where_safe_conrl_leaves() -> None:
    mdp = factored()
    for kind, left in zip(KINDS, (1, None, None), strict=True):
        learner = made(kind, mdp, preset="theory", replan="doubling")
        conrl.learn(mdp, learner, 500, seed=0)
        assert learner.left_at == left


def test_the_history_has_the_value_of_the_lottery() -> None:
    mdp = factored()
    learner = made(conrl.SafeConRL, mdp, preset="theory")
    proposal = learner.proposal
    assert proposal.lottery is not None
    assert proposal.policy in proposal.lottery.policies
    parts = [conrl.evaluate(mdp, policy) for policy in proposal.lottery.policies]
    mean = proposal.lottery.weights @ np.array([[x.reward, *x.costs] for x in parts])
    history = conrl.learn(mdp, learner, 1, seed=0)
    assert history.executed is not None
    assert history.executed[0] == pytest.approx(mean)
    # Nothing is known but the ranges: the rest of the room goes to a policy that may cost 6.
    assert proposal.lottery.weights[-1] == pytest.approx((3.0 - 0.6) / (6.0 - 0.6), rel=1e-6)


def test_what_is_known_of_the_worst_makes_room() -> None:
    mdp = factored()
    weights = []
    for worst in (None, [6.0], {"cost": 4.0}):
        learner = made(conrl.SafeConRL, mdp, preset="theory", worst_costs=worst)
        assert learner.proposal.lottery is not None
        weights.append(learner.proposal.lottery.weights[-1])
    assert weights[0] == weights[1]
    assert weights[2] == pytest.approx((3.0 - 0.6) / (4.0 - 0.6), rel=1e-6)


def test_where_no_limit_binds_it_plans_freely() -> None:
    """No limit, no cost, one state."""
    one = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], None, 3)
    safe = conrl.Deterministic(np.zeros((3, 1), dtype=int), 2)
    learner = conrl.SafeConRL(one.task, safe=safe, safe_costs=[])
    history = conrl.learn(one, learner, 30, seed=0)
    assert history.rewards[-5:].tolist() == [3.0] * 5
    mdp = crossing(limits=None)
    plan = conrl.plan(mdp, [0.1])
    for kind in KINDS:
        learner = kind(mdp.task, safe=plan.policy, safe_costs=[0.1])
        history = conrl.learn(mdp, learner, 200, seed=0)
        assert history.rewards[-50:].mean() > 2.0
        assert np.isinf(learner.margin).all()


def test_a_safe_policy_that_costs_the_limit() -> None:
    """There is no room beside it until something is known to cost no more."""
    mdp = factored(0.6)
    plan = conrl.plan(mdp)
    learner = conrl.SafeConRL(mdp.task, safe=plan.policy, safe_costs=[0.6], preset="theory")
    history = conrl.learn(mdp, learner, 50, seed=0)
    assert violations(history, [0.6]) == 0
    assert learner.left_at is None
    for kind in (conrl.DOPE, conrl.OptPessLP):
        with pytest.raises(SpecError, match="below its limit"):
            kind(mdp.task, safe=plan.policy, safe_costs=[0.6])


# -- worlds of all kinds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_start_missing_actions_and_early_ends(kind: Any) -> None:
    available = np.ones((3, 3), dtype=bool)
    available[1, 0] = available[2, 2] = False
    mdp = crossing(initial=[0.5, 0.5, 0.0], available=available)
    learner = made(kind, mdp, preset="theory", seed=0)
    assert violations(conrl.learn(mdp, learner, 60, seed=0), mdp.limits) == 0
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20)
    task = conrl.Task.from_gymnasium(env, limits=[5.0], cost_names=["holes"])
    safe = conrl.Deterministic(np.zeros((20, 16), dtype=int), 4)  # into the wall
    learner = kind(task, safe=safe, safe_costs={"holes": 0.0}, seed=0)
    history = conrl.learn(env, learner, 60, seed=0, cost=lambda *step: [float(step[4] and step[3] == 0.0)])
    assert history.costs.sum() <= 60 * 5
    assert learner.left_at is not None or kind is not conrl.SafeConRL
    assert kind is not conrl.SafeConRL or learner.counts.known >= 0


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_that_depend_on_the_step(kind: Any) -> None:
    """What pays at even steps costs at odd ones."""
    base = factored()
    reward = np.stack([base.rewards * (1.0 if h % 2 else 0.5) for h in range(6)])
    cost = np.stack([base.costs * (0.5 if h % 2 else 1.0) for h in range(6)])
    mdp = conrl.ConstrainedMDP([base.transitions] * 6, reward, cost, 6, limits=[2.0])
    assert mdp.task.step_dependent
    learner = made(kind, mdp, preset="theory", replan="doubling", seed=0)
    assert violations(conrl.learn(mdp, learner, 200, seed=0), [2.0]) == 0
    assert learner.waits.shape == (6, 3, 2)
    policy = conrl.Policy(np.random.default_rng(0).dirichlet(np.ones(2), (6, 3)))
    model = learner.counts.model()
    assert learner._likely(policy, model).shape == (6, model.num_pairs)
    true = conrl.evaluate(mdp, learner.safe)
    if kind is conrl.SafeConRL:
        assert bounds_of(learner, learner.safe)[1] >= true.costs[0]


# -- what it earns, beside the safe policy ---------------------------------------------------------------------


def test_who_earns_less_than_the_safe_policy_says_so_once(tmp_path: Path) -> None:
    """DOPE spends the limit on what is uncertain; the exact values say that it is true."""
    mdp = conrl.envs.bidding()
    options: Any = {"scale": 3e-4, "replan": "doubling", "keep_policies": False, "seed": 0}
    learner = made(conrl.DOPE, mdp, 0.5, **options)
    safe = conrl.evaluate(mdp, learner.safe).reward
    with pytest.warns(conrl.ModelWarning, match=r"dope earned [\d.]+ an episode in the 500 up to .* SafeConRL") as told:
        values = [s.value[0] for s in learn_in_blocks(mdp, learner, 1000) for _ in range(s.episodes)]
    assert len(told) == 1
    assert learner.short_at is not None
    assert np.mean(values[learner.short_at - 500 : learner.short_at]) < 0.9 * safe
    path = tmp_path / "learner.npz"
    learner.save(path)
    loaded: Any = conrl.load_learner(path)
    for _ in learn_in_blocks(mdp, loaded, 600):  # a second warning would be an error
        pass
    assert loaded.short_at == learner.short_at


@pytest.mark.parametrize(("kind", "scale"), [(conrl.SafeConRL, None), (conrl.OptPessLP, 1e-5)])
def test_who_earns_more_says_nothing(kind: Any, scale: float | None) -> None:
    mdp = conrl.envs.bidding()
    learner = made(kind, mdp, scale=scale, replan="doubling", keep_policies=False, seed=0)
    values = [s.value[0] for s in learn_in_blocks(mdp, learner, 3000) for _ in range(s.episodes)]
    assert learner.short_at is None
    assert np.mean(values[-1000:]) > conrl.evaluate(mdp, learner.safe).reward


@pytest.mark.parametrize(("share", "told"), [(0.2, False), (0.14, True)])
def test_the_same_reward_is_not_less(share: float, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Away from the safe policy, as good as it or 20% worse, for 40,000 episodes."""
    mdp = conrl.envs.bidding()
    other = conrl.plan(mdp, share * np.asarray(mdp.limits)).policy
    plain = conrl.Policy(other.probabilities)
    monkeypatch.setattr(conrl.DOPE, "_plan_lottery", lambda self: Lottery(np.ones(1), (plain,)))
    learner = made(conrl.DOPE, mdp, replan="doubling", keep_policies=False, seed=0)
    learner.prime([ModelWorld(mdp, mdp.task).play(learner.safe, np.random.default_rng(i)) for i in range(2000)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in learn_in_blocks(mdp, learner, 40_000):
            pass
    assert len(caught) == told == (learner.short_at is not None)


def test_a_block_that_is_short_twice_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = factored()
    learner = made(conrl.DOPE, mdp, replan="doubling", seed=0)
    learner.prime([ModelWorld(mdp, mdp.task).play(learner.safe, np.random.default_rng(i)) for i in range(500)])
    lottery = Lottery(np.ones(1), (conrl.Deterministic(np.zeros((6, 3), dtype=np.int64), 2),))
    monkeypatch.setattr(conrl.DOPE, "_plan_lottery", lambda self: lottery)
    learner.propose()
    with pytest.warns(conrl.ModelWarning) as told:
        learner._compare(np.zeros(1500))
    assert len(told) == 1


def test_the_terminal_has_one_line_of_it() -> None:
    asked = "learn bidding --algorithm optpess-lp --option safe_share=0.5 --option scale=3e-4 --option replan=doubling"
    done = CliRunner().invoke(main, [*asked.split(), "--episodes", "1600"])
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Warning:")]
    assert "the safe policy earns" in line


# -- plans, blocks and files ----------------------------------------------------------------------------------


ALL: list[Any] = [*KINDS, conrl.OptCMDP]


def fresh(kind: Any, mdp: conrl.ConstrainedMDP, **more: Any) -> Any:
    return kind(mdp.task, **more) if kind is conrl.OptCMDP else made(kind, mdp, **more)


@pytest.mark.parametrize("kind", ALL)
def test_it_plans_again_when_a_pair_has_doubled(kind: Any) -> None:
    mdp = crossing()
    learner = fresh(kind, mdp, replan="doubling", seed=0)
    world, rng = ModelWorld(mdp, mdp.task), np.random.default_rng(0)
    then, plans = np.zeros((3, 3), dtype=int), 0
    for _ in range(80):
        before = learner._lottery
        policy = learner.propose()
        visits = np.zeros((3, 3), dtype=int)
        counts = learner.counts
        visits[np.repeat(counts.order, np.diff(counts.first)), counts.action] = counts.visits
        due = before is None or (visits - then >= np.maximum(then, 1)).any()
        assert (learner._lottery is not before) == due
        if due:
            then, plans = visits, plans + 1
        assert np.array_equal(learner.waits, np.maximum(then, 1) - (visits - then))
        learner.observe(world.play(policy, rng, learner.room()))
    assert plans < 40


def block(mdp: conrl.ConstrainedMDP, learner: Any, count: int, seed: int) -> list[conrl.Episode]:
    """Episodes of the current lottery, up to the one with which a plan falls due."""
    mixture, world, rng = learner.policy, ModelWorld(mdp, mdp.task), np.random.default_rng(seed)
    seen, episodes = np.zeros_like(learner.waits), []
    for i in learner.draws(count).tolist():
        episode = world.play(mixture.policies[i], rng, learner.room())
        at = (np.arange(mdp.horizon),) if seen.ndim == 3 else ()
        np.add.at(seen, (*at, episode.states[:-1], episode.actions), 1)
        episodes.append(episode)
        if (seen >= learner.waits).any():
            break
    return episodes


def stacked(episodes: list[conrl.Episode]) -> tuple[Any, Any, Any]:
    return tuple(np.stack([getattr(e, name) for e in episodes]) for name in ("states", "actions", "pay"))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("start", [0, [0.5, 0.5, 0.0]])
def test_a_block_is_its_episodes_one_by_one(kind: Any, start: Any) -> None:
    mdp = crossing(initial=start)
    at_once, one_by_one = (fresh(kind, mdp, replan="doubling", seed=2, keep_policies=True) for _ in range(2))
    for seed in range(12):
        episodes = block(mdp, at_once, 20, seed)
        for episode in episodes:
            one_by_one.observe(episode)
        at_once.observe_block(*stacked(episodes))
        assert at_once.episodes == one_by_one.episodes
        mine, theirs = at_once.state(), one_by_one.state()
        assert mine.keys() == theirs.keys()
        for name, array in mine.items():
            assert np.array_equal(array, theirs[name]), name
        assert np.array_equal(at_once.propose().probabilities, one_by_one.propose().probabilities)
    at_once.observe_block(np.zeros((0, 6), int), np.zeros((0, 5), int), np.zeros((0, 5, 2)))
    assert at_once.episodes == one_by_one.episodes


def test_blocks_that_cannot_be_are_refused() -> None:
    mdp = crossing()
    learner = made(conrl.SafeConRL, mdp, replan="doubling", seed=2)
    states, actions, pay = stacked(block(mdp, learner, 1, 0))
    before = learner.state()
    for wrong, message in (
        ((states[:, :-1], actions, pay), "states has shape"),
        ((states, actions[0], pay), "shape"),
        ((states, actions + 0.0, pay), "whole numbers"),
        ((states, actions, pay[..., :1]), "pay has shape"),
        ((states, actions, pay * np.nan), "finite"),
    ):
        with pytest.raises(ModelError, match=message):
            learner.observe_block(*wrong)
    for wrong, message in (
        ((states + 5, actions, pay), "state .* was seen"),
        ((states, actions - 9, pay), "action .* was played"),
        ((states, actions, pay + 2.0), "in one step"),
        ((np.where(np.arange(6) == 0, 1, states), actions, pay), "began in state 1"),
    ):
        with pytest.raises(RunError, match=message):
            learner.observe_block(*wrong)
    with pytest.raises(RunError, match="falls due within"):
        learner.observe_block(*(np.repeat(x, 2, axis=0) for x in (states, actions, pay)))
    each = made(conrl.SafeConRL, mdp, seed=2)
    with pytest.raises(RunError, match="falls due within"):
        each.observe_block(*(np.repeat(x, 2, axis=0) for x in (states, actions, pay)))
    each.observe_block(states, actions, pay)
    assert each.episodes == 1
    for name, array in learner.state().items():
        assert name.startswith(("lottery", "then", "next")) or np.array_equal(array, before[name])
    available = np.ones((3, 3), dtype=bool)
    available[0, 0] = False
    masked = crossing(available=available)
    learner = made(conrl.SafeConRL, masked, replan="doubling", seed=2)
    with pytest.raises(RunError, match="does not exist"):
        learner.observe_block(np.zeros((1, 6), int), np.zeros((1, 5), int), np.zeros((1, 5, 2)))


def same_state(one: Any, other: Any) -> None:
    mine, theirs = one.state(), other.state()
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        assert array.tobytes() == theirs[name].tobytes(), name


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize(
    "options", [{}, {"replan": "doubling"}, {"preset": "theory", "delta": 0.1, "replan": "doubling"}]
)
@pytest.mark.parametrize("world", [crossing, two_costs])
def test_saved_and_loaded_it_goes_on_exactly(kind: Any, options: Any, world: Any, tmp_path: Path) -> None:
    mdp = world()
    straight = fresh(kind, mdp, seed=5, **options)
    whole = conrl.learn(mdp, straight, 30, seed=5)
    learner = fresh(kind, mdp, seed=5, **options)
    first = conrl.learn(mdp, learner, 13, seed=5)
    learner.save(tmp_path / "a.npz")
    _ = learner.propose()  # a proposal not yet observed is made again
    learner.save(tmp_path / "b.npz")
    for name in ("a.npz", "b.npz"):
        again = conrl.load_learner(tmp_path / name)
        assert again.config() == learner.config()
        rest = conrl.learn(mdp, again, 17, seed=5)
        assert np.array_equal(np.vstack((first.executed, rest.executed)), whole.executed)  # type: ignore[arg-type]
        same_state(again, straight)
        assert kind is conrl.OptCMDP or again.left_at == straight.left_at


def test_files_that_do_not_hang_together_are_refused(tmp_path: Path) -> None:
    from conrl.learners.saving import read_sealed, write_sealed

    mdp = crossing()
    learner = made(conrl.SafeConRL, mdp, replan="doubling", seed=0)
    conrl.learn(mdp, learner, 6, seed=0)
    learner.save(tmp_path / "a.npz")
    arrays = {name: np.array(str(x)) if x.dtype == object else x for name, x in read_sealed(tmp_path / "a.npz").items()}
    table = arrays["safe_probabilities"]
    for name, wrong in (
        ("safe_probabilities", table[:, :, ::-1].copy()),
        ("state_then", np.full(99, 3)),
        ("state_then", np.full_like(arrays["state_then"], 10**6)),
        ("state_left_at", np.array(7)),
        ("state_kept_prices", np.array([-1.0])),
        ("state_lottery_weights", np.array([0.5])),
        ("state_lottery_flags", np.array([True])),
        ("state_lottery_kinds", np.zeros(40, dtype=np.int64)),
    ):
        write_sealed(tmp_path / "b.npz", arrays | {name: wrong})
        with pytest.raises(RunError):
            conrl.load_learner(tmp_path / "b.npz")


def test_optcmdp_saved_without_the_word_plays_its_mixture(tmp_path: Path) -> None:
    import json

    from conrl.learners.saving import read_sealed, write_sealed

    mdp = crossing()
    old = conrl.OptCMDP(mdp.task, seed=3, play="mixture")
    conrl.learn(mdp, old, 10, seed=3)
    old.save(tmp_path / "a.npz")
    arrays = {name: np.array(str(x)) if x.dtype == object else x for name, x in read_sealed(tmp_path / "a.npz").items()}
    config = json.loads(str(arrays["config"]))
    for name in ("play", "replan"):
        config.pop(name, None)
    write_sealed(tmp_path / "a.npz", arrays | {"config": np.array(json.dumps(config))})
    again = conrl.load_learner(tmp_path / "a.npz")
    assert (again.play, again.replan) == ("mixture", "episode")
    assert np.array_equal(again.propose().probabilities, old.propose().probabilities)


def test_optcmdp_plays_the_markov_form() -> None:
    mdp = crossing()
    learner = conrl.OptCMDP(mdp.task, seed=0)
    conrl.learn(mdp, learner, 300, seed=0)
    value = conrl.evaluate(mdp, learner.propose())
    assert value.reward == pytest.approx(conrl.plan(mdp).reward, rel=0.05)
    assert value.costs[0] == pytest.approx(0.4, rel=0.1)
    assert len(learner.policy.policies) == 1
    assert conrl.learn(mdp, conrl.OptCMDP(mdp.task, play="mixture", seed=0), 20, seed=0).executed is not None


def test_limits_can_be_changed_as_far_as_the_safe_policy_allows() -> None:
    mdp = crossing()
    for kind in KINDS:
        learner = made(kind, mdp, replan="doubling", seed=0)
        conrl.learn(mdp, learner, 5, seed=0)
        learner.problem = conrl.Linear([0.3])
        assert violations(conrl.learn(mdp, learner, 5, seed=0), [0.4]) == 0
        with pytest.raises(SpecError, match="safe_costs"):
            learner.problem = conrl.Linear([0.01])
        with pytest.raises(SpecError, match="no floors"):
            learner.problem = conrl.Linear([0.3], floors=[0.1])
        assert learner.problem.limits == [0.3]


# -- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_makes_no_learner_is_refused(kind: Any) -> None:
    mdp = crossing()
    plan = conrl.plan(mdp, [0.1])
    good: dict[str, Any] = {"safe": plan.policy, "safe_costs": [0.1]}
    kind(mdp.task, **good)
    available = np.ones((3, 3), dtype=bool)
    available[0, 2] = False
    wait = conrl.Deterministic(np.full((5, 3), 2), 3)
    for wrong, message in (
        ({"safe": None}, "safe is None"),
        ({"safe": plan}, "safe is Plan"),
        ({"safe": conrl.Null(5, 3, 3)}, "pass a policy with a table"),
        ({"safe": conrl.Stationary(np.full((3, 3), 1 / 3))}, "pass a policy with a table"),
        ({"safe": conrl.Deterministic(np.zeros((4, 3), int), 3)}, "safe has shape"),
        ({"safe_costs": None}, "safe_costs are missing"),
        ({"safe_costs": [0.5]}, "safe_costs.*is 0.5"),
        ({"safe_costs": {"cost1": 0.1}}, "unknown cost"),
        ({"safe_costs": {}}, "has no number for"),
        ({"safe_costs": [0.1, 0.1]}, "safe_costs has shape"),
        ({"safe_costs": [float("nan")]}, "nan"),
        ({"problem": conrl.Linear([0.4], floors=[0.1])}, "no floors"),
        ({"problem": conrl.Linear([0.4], never={"cost": 2.0})}, "single episodes"),
        ({"problem": conrl.Linear([0.4], per_step={"cost": 0.5})}, "per_step"),
        ({"problem": conrl.Knapsack([10.0], 100)}, "takes Linear problems"),
        ({"preset": "theroy"}, "did you mean 'theory'"),
        ({"delta": 0.0}, "delta is 0.0"),
        ({"scale": -1.0}, "scale is -1.0"),
        ({"replan": "never"}, "unknown replan 'never'"),
        ({"seed": -1}, "seed is -1"),
    ):
        with pytest.raises(conrl.ConRLError, match=message):
            kind(mdp.task, **good | wrong)
    with pytest.raises(SpecError, match="safe plays action 2 in state 0 at step 0, where it does not exist"):
        kind(crossing(available=available).task, safe=wait, safe_costs=[0.0])
    with pytest.raises(TypeError):
        kind(mdp.task)


def test_what_safe_conrl_alone_refuses() -> None:
    mdp = crossing()
    plan = conrl.plan(mdp, [0.1])
    for wrong, message in (
        ({"optimism": 1.5}, "optimism is 1.5"),
        ({"optimism": -0.1}, "optimism is -0.1"),
        ({"radii": "wide"}, "unknown radii 'wide'"),
        ({"worst_costs": [0.5]}, "one step can cost 1"),
        ({"worst_costs": {"x": 2.0}}, "unknown cost"),
    ):
        with pytest.raises(conrl.ConRLError, match=message):
            conrl.SafeConRL(mdp.task, safe=plan.policy, safe_costs=[0.1], **wrong)
    with pytest.raises(SpecError, match="count is -1"):
        conrl.SafeConRL(mdp.task, safe=plan.policy, safe_costs=[0.1]).draws(-1)


# -- studies --------------------------------------------------------------------------------------------------


def test_studies_start_from_a_file_or_a_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file stands beside the spec; at a share of the limits the plan is that of the true model."""
    from conrl.experiments import load_spec
    from conrl.experiments.jobs import Run

    mdp = conrl.envs.make("box")
    plan = conrl.plan(mdp, [0.05])
    (tmp_path / "study").mkdir()
    plan.policy.save(tmp_path / "study" / "policy.npz")
    (tmp_path / "study" / "study.toml").write_text(
        """
name = "safe"
episodes = 3
[environment.box]
[algorithm.file]
learner = "safe-conrl"
options = { safe = "policy.npz", safe_costs = { corner = 0.051 }, worst_costs = [1.0] }
[algorithm.share]
learner = "dope"
options = { safe_share = 0.5, replan = "doubling" }
"""
    )
    monkeypatch.chdir(tmp_path)
    learners = [Run(job).learner for job in load_spec(tmp_path / "study" / "study.toml").jobs]
    assert [learner.name for learner in learners] == ["safe-conrl", "dope"]
    for learner in learners:
        assert np.array_equal(learner.safe.probabilities, plan.policy.probabilities)
    assert learners[0].safe_costs.tolist() == [0.051]
    assert 0.05 <= learners[1].safe_costs[0] <= 0.0501

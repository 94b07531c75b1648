"""Hard budgets: KnapsackConPlanner (Section 5 and Appendix A.3 of Brantley et al. 2020) with the null action.

The reference is `scipy.optimize.linprog` on the program of Appendix A.3 with one more variable, the probability of
skipping an episode, which takes its mass from the initial-state rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from bank import _highs, _program, best_total, dense, random_model, row_unit, rows_of, still
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import specs

import conrl
from conrl.bounds import knapsack_epsilon
from conrl.oracles import BackwardInduction, Supports
from conrl.planners.allowance import FEASIBILITY

Float = NDArray[np.float64]
COLUMN, PROGRAM = "column-generation", "linear-program"
INF = float("inf")

both_planners = pytest.mark.parametrize("planner", [COLUMN, PROGRAM])
GOODS = ("uniform", "constant", "zero", "integers")  # of `strategies.PAYS`: never negative, and of size about 1


def explicit(mdp: conrl.ConstrainedMDP, limits: Any) -> float:
    """The best reward of one episode, which may be skipped."""
    rows = rows_of(mdp, conrl.Linear(limits))
    reward, used, flow, start = _program(mdp, rows)
    program: dict[str, Any] = {"A_eq": np.column_stack((flow.toarray(), start)), "b_eq": start}
    if rows.cost:
        program |= {"A_ub": np.column_stack((used, np.zeros(len(rows.cost)))), "b_ub": rows.bound}
    found = _highs(-np.append(reward, 0.0), **program)
    assert found.status == 0
    return -float(found.fun)


def assert_keeps_budgets(mdp: conrl.ConstrainedMDP, plan: conrl.Plan, limits: Float) -> None:
    """Certified, exact with skipped episodes counted as zero, within the limits and complementary.

    A limit may be exceeded by FEASIBILITY of its unit, which is worth its price times that: `room`.
    """
    rows = rows_of(mdp, conrl.Linear(limits))
    unit = row_unit(mdp, rows)
    scale = max(1.0, abs(plan.objective))
    assert plan.status == "optimal", plan.message
    assert 0.0 <= plan.skip <= 1.0
    assert plan.objective >= -1e-9  # the null action is always there
    played = conrl.evaluate(mdp, plan.policy)
    mixed = conrl.evaluate(mdp, plan.mixture)
    share = 1.0 - plan.skip
    size = 1e-9 * max(1.0, float(np.abs(mdp.pay).max()) * mdp.horizon)
    for value in (played, mixed):
        assert abs(share * value.reward - plan.reward) <= size
        assert np.abs(share * value.costs - plan.costs).max(initial=0.0) <= size
    multipliers, _ = plan.cost_multipliers
    w = np.concatenate(([1.0], -multipliers))
    budget = float(multipliers[np.isfinite(limits)] @ limits[np.isfinite(limits)])
    room = float(multipliers[rows.cost] @ (FEASIBILITY * unit)) + 1e-9 * scale
    bound = max(best_total(mdp, w), 0.0) + budget  # the origin is a value vector too
    assert abs(bound - plan.bound) <= room
    assert plan.bound - plan.objective <= 1e-9 * scale
    assert (plan.multipliers >= 0.0).all()
    if mdp.bonus is None:
        excess = plan.costs[rows.cost] - rows.bound
        assert (excess <= 1.001 * FEASIBILITY * unit + size).all()
        assert (multipliers[rows.cost] * -excess <= plan.gap + room).all()


# -- against the explicit program -----------------------------------------------------------------------------


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    spec=specs().filter(lambda s: s.rows != "tiny"),
    kinds=st.lists(st.sampled_from(GOODS), min_size=0, max_size=3),
    budgets=st.lists(st.floats(1e-3, 50.0), min_size=3, max_size=3),
    epsilon=st.sampled_from([0.0, 0.05, 0.5]),
)
def test_feasible_by_the_null_action_for_every_budget(
    spec: Any, kinds: list[str], budgets: list[float], epsilon: float
) -> None:
    assume(spec.rewards != "wide")
    none = tuple("none" for _ in kinds)
    mdp, _ = replace(spec, costs=tuple(kinds), limits=none, floors=none).build()
    problem = conrl.Knapsack(budgets[: len(kinds)], episodes=10, epsilon=epsilon)
    limits = (1.0 - epsilon) * np.array(budgets[: len(kinds)]) / 10
    best = explicit(mdp, limits)
    for planner in (COLUMN, PROGRAM):
        plan = conrl.plan(mdp, problem, planner=planner)
        assert_keeps_budgets(mdp, plan, limits)
        assert abs(plan.reward - best) <= 1e-7 * max(1.0, abs(best))


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9, 2.0])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_with_a_bonus_it_is_the_program_with_more_reward_and_less_cost(d: int, share: float) -> None:
    """r + b and c - b, and the null action, which gains nothing by the bonus."""
    plain = random_model(20 + d, 5, 3, 4, d)
    b = 0.1 * np.random.default_rng(d).random((5, 3, 1 + d))
    mdp = plain.with_bonus(b)
    budgets = 40.0 * share * np.arange(1, d + 1)
    limits = budgets / 20
    m = dense(mdp)
    enhanced = conrl.ConstrainedMDP(m.P, m.pay[:, :, 0] + b[:, :, 0], m.pay[:, :, 1:] - b[:, :, 1:], m.horizon)
    best = explicit(enhanced, limits)
    assert explicit(mdp, limits) == pytest.approx(best, abs=1e-9)
    for planner in (COLUMN, PROGRAM):
        plan = conrl.plan(mdp, conrl.Knapsack(budgets, 20), planner=planner)
        assert_keeps_budgets(mdp, plan, limits)
        assert plan.objective == pytest.approx(best, abs=1e-8)
        assert conrl.plan(enhanced, conrl.Knapsack(budgets, 20), planner=planner).reward == pytest.approx(
            best, abs=1e-8
        )
        assert plan.reward <= plan.objective


@both_planners
def test_costs_of_either_sign_and_rewards_that_do_not_pay(planner: str) -> None:
    """Skipping is better than losing; a refund pays for more of the other action."""
    losses = still([-1.0, -2.0], [[1.0], [0.5]], 3)
    plan = conrl.plan(losses, conrl.Knapsack([100.0], 10), planner=planner)
    assert plan.objective == pytest.approx(0.0, abs=1e-12)
    assert plan.skip == pytest.approx(1.0)
    signed = still([-0.5, 1.0], [[-1.0], [1.0]], 2)
    limits = np.array([0.1])
    plan = conrl.plan(signed, conrl.Knapsack([1.0], 10), planner=planner)
    assert plan.reward == pytest.approx(explicit(signed, limits), abs=1e-9)


# -- closed forms ---------------------------------------------------------------------------------------------


DEAR = still([1.0], [[2.0]], 5, cost_names=["fuel"])  # one action: an episode pays 5 and costs 10


@both_planners
@pytest.mark.parametrize(("budget", "played"), [(1000.0, 1.0), (5000.0, 1.0), (500.0, 0.5), (10.0, 0.01), (1e-3, 1e-6)])
def test_skip_probability(budget: float, played: float, planner: str) -> None:
    plan = conrl.plan(DEAR, conrl.Knapsack([budget], 100), planner=planner)
    assert plan.skip == pytest.approx(1.0 - played, abs=1e-9)
    assert plan.reward == pytest.approx(5.0 * played, abs=1e-8)
    assert plan.costs == pytest.approx([10.0 * played], abs=1e-8)
    assert conrl.evaluate(DEAR, plan.policy).reward == pytest.approx(5.0)
    if played < 1.0:
        assert plan.prices == pytest.approx([0.5])
    assert plan.linear is not None
    assert plan.linear.limits == pytest.approx([budget / 100])


@both_planners
def test_no_budget_at_all(planner: str) -> None:
    """Skip, or play what costs nothing."""
    plan = conrl.plan(DEAR, conrl.Knapsack([0.0], 100), planner=planner)
    assert plan.skip == pytest.approx(1.0)
    assert plan.reward == pytest.approx(0.0, abs=1e-9)
    assert plan.costs == pytest.approx([0.0], abs=1e-9)
    assert plan.policy.probabilities.shape == (5, 1, 1)
    assert plan.mixture.weights.sum() == pytest.approx(1.0)
    free = still([1.0, 0.25], [[2.0], [0.0]], 4)
    plan = conrl.plan(free, conrl.Knapsack([0.0], 100), planner=planner)
    assert plan.reward == pytest.approx(1.0)
    assert plan.costs == pytest.approx([0.0], abs=1e-9)
    assert plan.skip == pytest.approx(0.0, abs=1e-9)


@both_planners
def test_infinite_budgets_are_none(planner: str) -> None:
    mdp = random_model(3, 5, 3, 4, 2)
    free = best_total(mdp, np.array([1.0, 0.0, 0.0]))
    plan = conrl.plan(mdp, conrl.Knapsack([INF, INF], 10), planner=planner)
    assert plan.reward == pytest.approx(free)
    assert plan.skip == 0.0
    one = conrl.plan(mdp, conrl.Knapsack([5.0, INF], 10), planner=planner)
    assert one.reward == pytest.approx(explicit(mdp, [0.5, INF]), abs=1e-8)
    assert one.prices[1] == 0.0
    unset: Any = [5.0, None]
    assert conrl.plan(mdp, conrl.Knapsack(unset, 10), planner=planner).reward == one.reward


@pytest.mark.parametrize(("seed", "d"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_what_is_skipped_is_known_from_the_first_answer(seed: int, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One backward induction for each direction asked, and none to find out which of them the null action answers."""
    mdp, asked = random_model(seed, 5, 3, 4, d), []
    honest = BackwardInduction.support_many

    def counted(self: BackwardInduction, directions: Float) -> Supports:
        asked.append(len(directions))
        return honest(self, directions)

    monkeypatch.setattr(BackwardInduction, "support_many", counted)
    plan = conrl.plan(mdp, conrl.Knapsack([20.0] * d, 100))
    assert 0.0 < plan.skip < 1.0
    assert sum(asked) == (0 if d == 1 else plan.iterations)  # with one cost the whole search is one call


def test_budgets_by_name() -> None:
    mdp = still([1.0, 2.0], [[1.0, 0.0], [0.0, 3.0]], 2, cost_names=["fuel", "time"])
    named = conrl.plan(mdp, conrl.Knapsack({"time": 15.0}, 10))
    assert named.reward == conrl.plan(mdp, conrl.Knapsack([INF, 15.0], 10)).reward == pytest.approx(2.5)


def test_no_costs_at_all() -> None:
    plan = conrl.plan(still([1.0], [], 3), conrl.Knapsack([], 10))
    assert plan.reward == 3.0
    assert plan.skip == 0.0


# -- epsilon --------------------------------------------------------------------------------------------------


@both_planners
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 0.999])
def test_epsilon_scales_the_limits(epsilon: float, planner: str) -> None:
    mdp = random_model(5, 5, 3, 4, 2)
    budgets = np.array([90.0, 60.0])
    held = conrl.plan(mdp, conrl.Knapsack(budgets, 100, epsilon), planner=planner)
    less = conrl.plan(mdp, conrl.Knapsack((1.0 - epsilon) * budgets, 100), planner=planner)
    assert held.reward == pytest.approx(less.reward, abs=1e-9)
    assert held.linear is not None
    assert held.linear.limits == pytest.approx((1.0 - epsilon) * budgets / 100)
    # The paper's feasible solution: skip with probability epsilon, else the best of the whole budget.
    assert held.reward >= (1.0 - epsilon) * conrl.plan(mdp, conrl.Knapsack(budgets, 100)).reward - 1e-9


def test_epsilon_of_the_theorem() -> None:
    """A one-state model of one step, 1e8 episodes: large enough for the theorem."""
    mdp = still([1.0, 0.1], [[1.0], [0.0]], 1)
    episodes = 10**8
    problem = conrl.Knapsack([0.5 * episodes], episodes, epsilon="theorem")
    sizes = {"num_states": 1, "num_actions": 2, "horizon": 1, "num_costs": 1, "delta": 0.05}
    regime = knapsack_epsilon([0.5 * episodes], episodes, **sizes)  # type: ignore[arg-type]
    epsilon = problem.held_back(mdp)
    assert epsilon == regime.epsilon
    assert 0.0 < epsilon < 1.0
    plan = conrl.plan(mdp, problem)
    limit = 0.5 * (1.0 - epsilon)
    assert plan.costs == pytest.approx([limit], abs=1e-9)
    assert plan.reward == pytest.approx(limit + 0.1 * (1.0 - limit))


def test_epsilon_of_the_theorem_falls_with_the_budget_and_rises_with_certainty() -> None:
    mdp, episodes = still([1.0, 0.1], [[1.0], [0.0]], 1), 10**8
    found = [conrl.Knapsack([x * episodes], episodes, "theorem").held_back(mdp) for x in (0.2, 0.4, 0.8)]
    assert found[0] > found[1] > found[2]
    surer = conrl.Knapsack([0.2 * episodes], episodes, "theorem", delta=1e-6).held_back(mdp)
    assert surer > found[0]


@both_planners
def test_epsilon_of_the_theorem_with_too_small_a_budget(planner: str) -> None:
    with pytest.raises(conrl.SpecError, match=r"epsilon='theorem': .*smallest budget, 120.*give epsilon a number"):
        conrl.plan(DEAR, conrl.Knapsack([120.0], 1000, epsilon="theorem"), planner=planner)


def test_epsilon_of_the_theorem_without_a_budget_of_every_cost() -> None:
    """An infinite budget never binds: the theorem is about the others."""
    mdp, episodes = still([1.0, 0.1], [[1.0, 1.0], [0.0, 0.0]], 1), 10**8
    some = conrl.Knapsack([0.5 * episodes, INF], episodes, epsilon="theorem")
    assert 0.0 < some.held_back(mdp) < 1.0
    assert conrl.Knapsack([INF, INF], episodes, epsilon="theorem").held_back(mdp) == 0.0


def test_epsilon_of_the_theorem_needs_costs_of_at_most_one() -> None:
    """An episode of DEAR costs 10, not at most H = 5: a budget of 5 an episode does bind, and nothing is promised."""
    with pytest.raises(conrl.SpecError, match="theorem"):
        conrl.Knapsack([500.0], 100, epsilon="theorem").held_back(DEAR)


# -- refusals -------------------------------------------------------------------------------------------------


@both_planners
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1.0], 0), "episodes is 0; it must be a whole number of at least 1"),
        (([1.0], -3), "episodes is -3"),
        (([1.0], 2.5), "episodes is 2.5"),
        (([1.0], True), "episodes is True"),
        (([1.0], "ten"), "episodes is 'ten'"),
        (([1.0], 10, 1.5), r"epsilon is 1.5; it must be a number in \[0, 1\)"),
        (([1.0], 10, 1.0), "epsilon is 1.0"),
        (([1.0], 10, -0.1), "epsilon is -0.1"),
        (([1.0], 10, float("nan")), "epsilon is nan"),
        (([1.0], 10, "theory"), "epsilon is 'theory'.*\"theorem\""),
        (([1.0], 10, None), "epsilon is None"),
        (([-1.0], 10), "the budget of 'fuel' is -1; it must be at least 0"),
        (([1.0, 2.0], 10), r"budgets has shape \(2,\); the model has 1 cost"),
        (({"feul": 1.0}, 10), "unknown cost 'feul'; did you mean 'fuel'"),
        (([float("nan")], 10), "'fuel' is nan"),
        (([-INF], 10), "'fuel' is -inf"),
        (([1.0], 10, "theorem", 0.0), "delta is 0"),
        (([1.0], 10, "theorem", 1.5), "delta is 1.5"),
    ],
    ids=str,
)
def test_refused(arguments: tuple[Any, ...], words: str, planner: str) -> None:
    with pytest.raises((conrl.SpecError, conrl.ModelError), match=words):
        conrl.plan(DEAR, conrl.Knapsack(*arguments), planner=planner)


# -- the optimum as a function of the budget ------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_concave_and_non_decreasing_in_the_budget(seed: int, d: int) -> None:
    mdp = random_model(40 + seed, 6, 3, 5, d)
    direction = np.random.default_rng(seed).random(d) + 0.1
    grid = np.linspace(0.0, 5.0, 41)
    best = np.array([conrl.plan(mdp, conrl.Knapsack(100.0 * x * direction, 100)).reward for x in grid])
    assert best[0] == pytest.approx(0.0, abs=1e-8)
    assert (np.diff(best) >= -1e-8).all()
    assert (np.diff(best, 2) <= 1e-8).all()
    assert best[-1] <= best_total(mdp, np.eye(1 + d)[0]) + 1e-8
    # Multipliers are slopes: no tangent lies below the curve.
    plan = conrl.plan(mdp, conrl.Knapsack(100.0 * grid[8] * direction, 100))
    tangent = plan.reward + float(plan.multipliers @ direction) * (grid - grid[8])
    assert (tangent >= best - 1e-7).all()


def test_the_null_action_never_hurts() -> None:
    """At least as good as `Linear` where that is feasible."""
    for seed in range(5):
        mdp = random_model(60 + seed, 5, 3, 4, 2)
        limits = np.array([2.0, 2.2])
        knapsack = conrl.plan(mdp, conrl.Knapsack(limits, 1))
        assert knapsack.reward == pytest.approx(explicit(mdp, limits), abs=1e-8)
        if conrl.feasibility(mdp, limits).feasible:
            assert knapsack.reward >= conrl.plan(mdp, conrl.Linear(limits)).reward - 1e-9


def test_skipped_episodes_are_simulated_and_evaluated_as_zero() -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    plan = conrl.plan(mdp, conrl.Knapsack([20.0], episodes=1000))
    assert 0.5 < plan.skip < 0.9
    exact = conrl.evaluate(mdp, plan)
    assert exact.reward == pytest.approx(plan.reward, abs=1e-12)
    assert exact.costs == pytest.approx(plan.costs, abs=1e-12)
    seen = conrl.simulate(mdp, plan, episodes=20_000, seed=1)
    assert (seen.rewards == 0.0).mean() >= plan.skip - 0.02
    assert seen.mean.reward == pytest.approx(plan.reward, abs=5.0 * seen.standard_error.reward)
    assert seen.limits == pytest.approx([0.02])
    env = conrl.envs.CMDPEnv(mdp)
    assert conrl.simulate(env, plan, episodes=50).limits == pytest.approx([0.02])


# -- how often a planned budget is exceeded -------------------------------------------------------------------


def coins(cost: float = 1.0, horizon: int = 1) -> conrl.ConstrainedMDP:
    """Playing pays 1 and costs `cost` with probability 0.3; resting does neither."""
    return conrl.ConstrainedMDP.from_outcomes(
        [0, 0, 0],
        [0, 0, 1],
        [0, 0, 0],
        [0.7, 0.3, 1.0],
        [[1.0, 0.0], [1.0, cost], [0.0, 0.0]],
        num_states=1,
        num_actions=2,
        horizon=horizon,
    )


@pytest.mark.parametrize("cost", [1.0, 1e-6, 1e9])
@pytest.mark.parametrize(
    ("episodes", "budget"), [(1, 0.5), (20, 6), (20, 8), (300, 100), (20_000, 6_000), (50_000, 15_100)]
)
def test_the_risk_of_a_budget_is_that_of_a_binomial(episodes: int, budget: float, cost: float) -> None:
    """Each episode costs a coin: exact tails, for few episodes (simulated) and many (normal approximation)."""
    plan = conrl.plan(coins(cost), conrl.Knapsack([cost * budget], episodes))
    played = min(1.0, budget / episodes / 0.3)
    risk = conrl.budget_risk(plan)
    exact = scipy.stats.binom.sf(budget, episodes, 0.3 * played)
    if episodes <= 300:
        assert risk.runs >= 200
        assert risk.standard_error[0] == pytest.approx(np.sqrt(exact * (1.0 - exact) / risk.runs), rel=0.5)
        assert risk.exceed[0] == pytest.approx(exact, abs=4.0 * risk.standard_error[0])
    else:
        assert risk.runs == 0
        assert np.isnan(risk.standard_error[0])
        assert risk.exceed[0] == pytest.approx(exact, abs=0.005)
    assert risk.pays_means == ("reward",)  # a coin of one amount is no coin


def test_the_risk_of_a_budget_in_a_shop_is_that_of_playing_it() -> None:
    """The how-to's plan: half of the runs sell more than there is. Against other episodes than the estimate's own."""
    shop = conrl.envs.pricing()
    for episodes in (100, 2000):
        plan = conrl.plan(shop, conrl.Knapsack([4.0 * episodes], episodes))
        found = conrl.budget_risk(plan, seed=1).exceed[0]
        runs = 400_000 // episodes
        totals = conrl.simulate(shop, plan, 400_000, seed=2).costs.reshape(runs, episodes).sum(axis=1)
        share = float((totals > 4.0 * episodes).mean())
        assert 0.4 < found < 0.6
        assert found == pytest.approx(share, abs=4.0 * 0.5 * (runs**-0.5 + 1600**-0.5))
        less = conrl.budget_risk(conrl.plan(shop, conrl.Knapsack([4.0 * episodes], episodes, 0.05))).exceed[0]
        assert less < 0.5 * found


@pytest.mark.parametrize("episodes", [10, 10_000_000])
def test_sure_costs_do_not_exceed_their_budget(episodes: int) -> None:
    mdp = still([1.0, 0.0], [[0.1, 5.0], [0.0, 0.0]], 3)
    risk = conrl.budget_risk(conrl.plan(mdp, conrl.Knapsack([0.3 * episodes, np.inf], episodes)))
    assert risk.exceed[0] == 0.0
    assert np.isnan(risk.exceed[1])
    assert risk.pays_means == ("reward", *mdp.cost_names)
    with pytest.raises(conrl.SpecError, match="needs a plan for a Knapsack, not for Linear"):
        conrl.budget_risk(conrl.plan(mdp, conrl.Linear([1.0, 1.0])))

"""The exact trade-off curve between reward and one limit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bank import CASES, best_total, middle, random_model, solve_lp, still

import conrl


def assert_concave(curve: conrl.Frontier) -> None:
    """Limits and rewards rise, prices fall; nothing lies on a chord."""
    assert (np.diff(curve.limits) > 0.0).all()
    assert (np.diff(curve.rewards) > 0.0).all()
    assert (curve.prices > 0.0).all()
    assert (np.diff(curve.prices) < 0.0).all()


def between(curve: conrl.Frontier, n: int, seed: int = 0) -> list[float]:
    """Limits on the curve: some vertices, points between them, and one beyond."""
    rng = np.random.default_rng(seed)
    inner = rng.uniform(curve.limits[0], curve.limits[-1], size=n)
    return [*inner.tolist(), *rng.choice(curve.limits, size=3).tolist(), float(curve.limits[-1]) + 1.0]


# -- closed forms ---------------------------------------------------------------------------------------------


def test_two_actions_make_one_edge() -> None:
    curve = conrl.frontier(still([0.0, 1.0], [0.0, 2.0], 10))
    assert curve.limits.tolist() == [0.0, 20.0]
    assert curve.rewards.tolist() == [0.0, 10.0]
    assert curve.prices.tolist() == [0.5]
    assert curve.complete
    assert curve.error == 0.0
    assert curve.reward(3.0) == pytest.approx(1.5)
    assert curve.reward(1e9) == 10.0
    assert curve.price(3.0) == 0.5
    assert curve.price(0.0) == 0.5
    assert curve.price(20.0) == curve.price(21.0) == 0.0


def test_a_bandit_has_its_hull() -> None:
    """Arms (0; 0), (1; 0.5), (1.8; 1) are on the hull, ten pulls each; the others are not."""
    curve = conrl.frontier(CASES["bandit with a budget"].mdp)
    assert curve.limits == pytest.approx(np.array([0.0, 5.0, 10.0]))
    assert curve.rewards == pytest.approx(np.array([0.0, 10.0, 18.0]))


def test_a_curve_of_one_point() -> None:
    curve = conrl.frontier(still([1.0, 2.0], [3.0, 3.0], 2))
    assert curve.limits.tolist() == [6.0]
    assert curve.rewards.tolist() == [4.0]
    assert curve.prices.size == 0
    assert curve.complete
    assert curve.reward(6.0) == 4.0
    assert curve.price(7.0) == 0.0


def test_the_left_end_has_the_best_reward_of_the_least_cost() -> None:
    """Two ways to spend nothing, worth 1 and 2: the curve starts at 2."""
    curve = conrl.frontier(still([1.0, 2.0, 5.0], [0.0, 0.0, 1.0], 3))
    assert curve.limits.tolist() == [0.0, 3.0]
    assert curve.rewards.tolist() == [6.0, 15.0]


def test_the_right_end_is_the_cheapest_best_policy() -> None:
    curve = conrl.frontier(still([0.0, 5.0, 5.0], [0.0, 2.0, 1.0], 3))
    assert curve.limits.tolist() == [0.0, 3.0]
    assert curve.rewards.tolist() == [0.0, 15.0]


# -- against plan ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_curve_is_the_optimum_at_every_limit(seed: int) -> None:
    mdp = random_model(seed, 6 + 2 * seed, 3, 6, 1)
    curve = conrl.frontier(mdp)
    assert curve.complete
    assert_concave(curve)
    assert curve.limits[0] == pytest.approx(-best_total(mdp, np.array([0.0, -1.0])), abs=1e-12)
    assert curve.rewards[-1] == pytest.approx(best_total(mdp, np.array([1.0, 0.0])), abs=1e-12)
    for x in between(curve, 25, seed):
        plan = conrl.plan(mdp, curve.linear(x))
        assert curve.reward(x) == pytest.approx(plan.reward, abs=1e-8)
        assert plan.costs[0] <= x + 1e-8
    reference = solve_lp(mdp, conrl.Linear([float(curve.limits.mean())]))
    assert reference is not None
    assert curve.reward(float(curve.limits.mean())) == pytest.approx(reference.value, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_other_limits_stay_fixed(seed: int) -> None:
    inner = random_model(40 + seed, 9, 3, 5, 2)
    limits = middle(inner, 0.7)
    mdp = inner.replace(limits=limits)
    curve = conrl.frontier(mdp, cost="cost0")
    assert curve.complete
    assert_concave(curve)
    for x in between(curve, 10, seed):
        plan = conrl.plan(mdp, curve.linear(x))
        assert curve.reward(x) == pytest.approx(plan.reward, abs=1e-8)
        assert plan.costs[1] <= limits[1] + 1e-8
    reference = solve_lp(mdp, conrl.Linear([float(curve.limits.mean()), limits[1]]))
    assert reference is not None
    assert curve.reward(float(curve.limits.mean())) == pytest.approx(reference.value, abs=1e-8)
    free = conrl.frontier(inner, cost=0)
    assert free.rewards[-1] >= curve.rewards[-1] - 1e-9
    assert free.limits[0] <= curve.limits[0] + 1e-9


def test_the_limit_of_the_cost_itself_is_ignored() -> None:
    mdp = CASES["bandit with a budget"].mdp
    one, two = conrl.frontier(mdp), conrl.frontier(mdp.replace(limits=[1.0]))
    assert np.array_equal(one.limits, two.limits)
    assert np.array_equal(one.rewards, two.rewards)


def test_prices_of_the_curve_are_those_of_the_plan() -> None:
    mdp = random_model(2, 10, 3, 6, 1)
    curve = conrl.frontier(mdp)
    for left, right, price in zip(curve.limits[:-1], curve.limits[1:], curve.prices, strict=True):
        if right - left > 1e-3:
            x = 0.5 * float(left + right)
            assert conrl.plan(mdp, curve.linear(x)).prices[0] == pytest.approx(price, rel=1e-5)
            assert curve.price(x) == price


# -- the paper's environments ---------------------------------------------------------------------------------


def test_mars_rover() -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    curve = conrl.frontier(mdp, tol=1e-11)
    assert curve.complete
    assert 700 <= curve.limits.size <= 850
    assert_concave(curve)
    assert curve.reward(0.3) == pytest.approx(1.5362884, abs=1e-7)
    assert curve.price(0.3) == pytest.approx(0.19298, abs=1e-4)
    assert curve.rewards[-1] == pytest.approx(1.8168222, abs=1e-7)
    for x in between(curve, 15):
        assert curve.reward(x) == pytest.approx(conrl.plan(mdp, curve.linear(x)).reward, abs=1e-8)


def test_box() -> None:
    mdp = conrl.envs.box()
    curve = conrl.frontier(mdp, tol=1e-11)
    assert curve.complete
    assert 2 <= curve.limits.size <= 700
    assert_concave(curve)
    assert curve.reward(0.1) == pytest.approx(1.7496766, abs=1e-7)
    assert curve.price(0.1) == pytest.approx(0.07823, abs=1e-4)
    for x in between(curve, 15):
        assert curve.reward(x) == pytest.approx(conrl.plan(mdp, curve.linear(x)).reward, abs=1e-8)


@pytest.mark.parametrize("most", [2, 5, 20])
def test_stopping_early_is_said_and_its_error_holds(most: int) -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    full = conrl.frontier(mdp, tol=1e-11)
    early = conrl.frontier(mdp, max_vertices=most)
    assert not early.complete
    assert early.error > 0.0
    # A sweep asks for LANES vertices at once, so the count may pass the limit by less than that.
    assert early.limits.size < most + 8
    assert_concave(early)
    grid = np.union1d(full.limits, np.linspace(full.limits[0], full.limits[-1], 200))
    height = np.interp(grid, full.limits, full.rewards) - np.interp(grid, early.limits, early.rewards)
    assert height.min() >= -1e-9
    assert height.max() <= early.error + 1e-9


def test_a_loose_tolerance_holds() -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    full, loose = conrl.frontier(mdp, tol=1e-11), conrl.frontier(mdp, tol=1e-4)
    assert loose.limits.size < full.limits.size / 4
    height = np.interp(full.limits, full.limits, full.rewards) - np.interp(full.limits, loose.limits, loose.rewards)
    assert height.min() >= -1e-9
    assert height.max() <= 1e-4 * 1.9


# -- files and errors -----------------------------------------------------------------------------------------


def test_the_curve_is_written_as_csv(tmp_path: Path) -> None:
    conrl.frontier(still([0.0, 1.0], [0.0, 2.0], 10, cost_names=["fuel"])).save(str(tmp_path / "curve.csv"))
    assert (tmp_path / "curve.csv").read_text() == "limit_fuel,reward,price\n0.0,0.0,0.5\n20.0,10.0,0.0\n"


def test_below_the_least_cost_nothing_is_feasible() -> None:
    curve = conrl.frontier(still([5.0, 1.0], [1.0, 0.25], 2))
    assert curve.limits[0] == 0.5
    assert curve.reward(0.5) == 2.0
    with pytest.raises(conrl.InfeasibleError, match=r"cost <= 0\.4 cannot be kept"):
        curve.reward(0.4)
    with pytest.raises(conrl.InfeasibleError):
        curve.price(0.4)


def test_other_limits_that_cannot_be_kept() -> None:
    mdp = CASES["infeasible together"].mdp.replace(limits=[np.inf, -1.0])
    with pytest.raises(conrl.InfeasibleError, match="cost1 <= -1"):
        conrl.frontier(mdp, cost=0)


def test_a_conflict_with_another_limit_sets_the_left_end() -> None:
    """cost0 + cost1 = 4 in every policy: with cost1 at most 1.5, cost0 is at least 2.5."""
    mdp = CASES["infeasible together"].mdp.replace(limits=[np.inf, 1.5])
    curve = conrl.frontier(mdp, cost=0)
    assert curve.limits[0] == pytest.approx(2.5)
    with pytest.raises(conrl.InfeasibleError, match="together"):
        curve.reward(2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cost": "feul"}, "unknown cost 'feul'; did you mean 'fuel'?"),
        ({"cost": 1}, r"cost 1 is not in 0\.\.0"),
        ({"cost": -1}, r"cost -1 is not in 0\.\.0"),
        ({"tol": 0.0}, r"tol is 0\.0; it must be a number above 0"),
        ({"max_vertices": 1}, "max_vertices is 1; it must be a whole number of at least 2"),
    ],
)
def test_bad_questions_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(conrl.SpecError, match=message.replace("?", r"\?")):
        conrl.frontier(still([0.0, 1.0], [0.0, 2.0], 2, cost_names=["fuel"]), **arguments)  # type: ignore[arg-type]


def test_a_model_without_costs_has_no_curve() -> None:
    with pytest.raises(conrl.SpecError, match="the model has no costs"):
        conrl.frontier(still([0.0, 1.0], [], 2))


@pytest.mark.parametrize("most", [2, 4, 6, 20])
def test_max_vertices_is_the_most(most: int) -> None:
    curve = conrl.frontier(conrl.envs.mars_rover(rock_reward=1.0), max_vertices=most)
    assert curve.limits.size <= most
    assert not curve.complete


def test_the_least_limit_has_the_allowance_of_a_plan() -> None:
    """Three times 0.1 is an ulp above 0.3."""
    mdp = still([0.0, 1.0], [0.1, 0.2], 3)
    curve = conrl.frontier(mdp)
    assert curve.limits[0] > 0.3
    assert curve.feasible(0.3)
    assert curve.reward(0.3) == conrl.plan(mdp, [0.3]).reward == 0.0
    assert curve.price(0.3) == pytest.approx(10.0)
    assert not curve.feasible(0.2999)


def test_vertices_nearer_than_the_rounding_of_either_are_one() -> None:
    """An action costs exactly nothing; ways round cost nothing in all, but for rounding."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        P, phi = rng.multinomial(8, np.ones(3) / 3, size=(3, 3)) / 8, np.append(0, rng.integers(-3, 4, size=2))
        P[0, 0] = 1, 0, 0
        costs = 0.75 * (P @ phi) - phi[:, None] + rng.choice([0, 0, 1, 2], size=(3, 3))
        rewards = rng.integers(1, 4, size=(3, 3)) / 1.0
        costs[0, 0] = rewards[0, 0] = 0.0
        mdp = conrl.ConstrainedMDP(P, rewards, costs[:, :, None], horizon=conrl.Discounted(0.75), initial=0)
        curve = conrl.frontier(mdp)
        assert (np.diff(curve.limits) > 1e-12).all(), seed
        assert curve.price(0.0) < 1e6

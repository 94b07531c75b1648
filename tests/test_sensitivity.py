"""Shadow prices and how far they hold, against exact rationals, plans at other limits, and by hand."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adversary_prices import case, examine, judge_margins
from bank import random_model, still
from commands import ok, record

import conrl
from conrl import envs

MACHINE = Path(__file__).parents[1] / "examples" / "machine.csv"


def machine() -> conrl.ConstrainedMDP:
    return conrl.load_model(MACHINE, horizon=20)


@pytest.mark.parametrize("first", range(0, 150, 15))
def test_slopes_at_corners_and_elsewhere(first: int) -> None:
    """Of models drawn by number; more of them by `adversary.py --prices`."""
    for number in range(first, first + 15):
        assert examine(number)[1] == [], number


def test_multipliers_are_found_out() -> None:
    """The judge sees that the multiplier that column generation ends with is no price."""
    wrong = 0
    for number in (58, 62, 64, 90, 109):
        mdp, problem = case(number)
        plan = conrl.plan(mdp, problem)
        plan = dataclasses.replace(plan, pricing=Claimed(plan))
        wrong += any("the price is" in x for x in judge_margins(plan, mdp, problem))
    assert wrong > 2  # not all, as it may be the price


class Claimed:
    """Multipliers for prices."""

    def __init__(self, plan: conrl.Plan) -> None:
        self.plan, self.true = plan, plan.sensitivity()

    def prices(self) -> Any:
        return self.plan.multipliers

    def sensitivity(self) -> conrl.Sensitivity:
        return self.true


def test_a_round_limit_is_a_corner() -> None:
    """Plan, frontier, sensitivity, page and command say the same of no repairs at all, where the proof says 70.6."""
    mdp = machine()
    plan, curve = conrl.plan(mdp, {"repairs": 0}), conrl.frontier(mdp, "repairs", limits={"repairs": 0})
    (row,) = plan.sensitivity().rows
    little = 1e-4
    price = (conrl.plan(mdp, {"repairs": little}).reward - plan.reward) / little
    assert price == pytest.approx(65.820976)
    assert plan.multipliers[0] > price + 1.0
    assert [plan.prices[0], plan.rows[0].price, curve.price(0.0), row.gain] == pytest.approx([price] * 4)
    assert (row.gain_to, row.loss, row.loss_to, row.tightest) == pytest.approx((0.02, np.inf, 0.0, 0.0))
    assert row.one_more == pytest.approx(conrl.plan(mdp, {"repairs": 1}).reward - plan.reward)
    found = record("plan", MACHINE, "--horizon", 20, "--limit", "repairs=0", "--sensitivity", "--json")
    assert found["costs"]["repairs"]["price"] == found["sensitivity"][0]["gain"] == pytest.approx(price)
    assert found["sensitivity"][0]["loss"] is None
    shown = ok("plan", MACHINE, "--horizon", 20, "--limit", "repairs=0", "--sensitivity")
    assert "repairs <= 0 65.821 0.02 cannot be met" in " ".join(shown.split())


@pytest.mark.parametrize("planner", ["column-generation", "linear-program", "lagrangian"])
def test_prices_belong_to_the_problem(planner: str) -> None:
    """The same from every planner, though the multipliers are its own."""
    plan = conrl.plan(machine(), {"repairs": 2, "energy": 35}, planner=planner)
    assert plan.prices == pytest.approx([9.749979, 0.625002], rel=1e-6)
    plan = conrl.plan(machine(), {"repairs": 0}, planner=planner)
    assert plan.prices == pytest.approx([65.820976, 0.0], rel=1e-6)


def test_a_plan_of_the_users_own_has_the_prices_of_its_problem() -> None:
    mdp = machine()
    ours = conrl.plan(mdp, {"repairs": 0})
    theirs = conrl.planners.plan_of(mdp, ours.problem, ours.policy)
    assert theirs.multipliers.tolist() == [0.0]
    assert theirs.prices == pytest.approx(ours.prices)


def test_prices_survive_copies() -> None:
    mdp = machine()
    plan = conrl.plan(mdp, conrl.Linear({"repairs": 0}, per_step={"energy": 1.5}))
    again = pickle.loads(pickle.dumps(plan))
    for other in (again, dataclasses.replace(plan, status="inaccurate"), plan.of(mdp)):
        assert other.prices == pytest.approx(plan.prices)
        assert [row.price for row in other.rows] == pytest.approx([row.price for row in plan.rows])
    chance = conrl.plan(mdp, conrl.Linear(chance={"repairs": (2, 0.05)}, never={"repairs": 4}))
    again = pickle.loads(pickle.dumps(chance))
    assert [row.price for row in again.rows] == pytest.approx([row.price for row in chance.rows])
    assert again.sensitivity().rows[0] == pytest.approx(chance.sensitivity().rows[0])


def test_the_prices_of_ordinary_plans_are_not_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    """One direction shows that they are those of the plan's mixture."""
    plans = [conrl.plan(envs.make(name)) for name in ("mars-rover", "pricing", "bidding", "box")]
    monkeypatch.setattr("conrl.planners.sensitivity.maximise", None)
    for plan in plans:
        assert plan.prices[plan.checked.rows.cost] == pytest.approx(plan.multipliers)  # type: ignore[union-attr]


def test_a_coarse_plan_has_exact_prices() -> None:
    for seed in range(4):
        mdp = random_model(seed, 12, 3, 10, 2)
        limits = np.append(0.9 * conrl.plan(mdp, conrl.Linear()).costs[:1], 9.0)
        fine, coarse = conrl.plan(mdp, limits), conrl.plan(mdp, limits, tol=1e-2)
        assert coarse.prices == pytest.approx(fine.prices, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("money", [1e-6, 1.0, 1e6])
def test_units_change_prices_in_proportion(unit: float, money: float) -> None:
    for number in range(0, 90, 6):
        mdp, problem = case(number)
        if isinstance(problem, conrl.Knapsack):
            continue
        other = conrl.ConstrainedMDP(mdp.transitions, mdp.rewards * money, mdp.costs * unit, mdp.horizon)
        rows = problem.rows(mdp)
        limits, floors = rows.at(rows.bound * unit).bounds(mdp.num_costs)
        prices = np.array([row.price for row in conrl.plan(mdp, problem).rows])
        found = np.array([row.price for row in conrl.plan(other, conrl.Linear(limits, floors)).rows])
        assert found * unit / money == pytest.approx(prices, rel=1e-5, abs=1e-6), number


def by_hand() -> conrl.ConstrainedMDP:
    """One step: rewards 0, 3, 5 and 5.5 at costs 0, 1, 2 and 3."""
    return still([0.0, 3.0, 5.0, 5.5], [0.0, 1.0, 2.0, 3.0], 1)


def with_rewards(mdp: conrl.ConstrainedMDP, rewards: Any) -> conrl.ConstrainedMDP:
    return conrl.ConstrainedMDP(mdp.transitions, rewards, mdp.costs, mdp.horizon, initial=mdp.initial)


def test_by_hand() -> None:
    mdp = by_hand()
    between, corner, free = (conrl.plan(mdp, [limit]).sensitivity().rows[0] for limit in (1.5, 2.0, 4.0))
    assert between[1:-1] == pytest.approx((1.5, 2.0, 2.0, 2.0, 1.0, 0.0, 1.25))
    assert corner[1:-1] == pytest.approx((2.0, 0.5, 3.0, 2.0, 1.0, 0.0, 0.5))
    assert free[1:-1] == pytest.approx((4.0, 0.0, np.inf, 0.0, 3.0, 0.0, 0.0))
    (floor,) = conrl.plan(with_rewards(mdp, -mdp.rewards), conrl.Linear(floors=[1.0])).sensitivity().rows
    # The rewards fall faster at first: to use some of the cost, a mixture of none and all is best.
    assert floor[1:-1] == pytest.approx((1.0, 5.5 / 3, 0.0, 5.5 / 3, 3.0, 3.0, 5.5 / 3))


def test_limits_within_their_allowance_of_a_corner_are_at_it() -> None:
    for off in (-5e-10, -1e-13, 0.0, 1e-13, 5e-10):
        plan = conrl.plan(by_hand(), [2.0 + off])
        (row,) = plan.sensitivity().rows
        assert (plan.prices[0], row.gain, row.loss) == pytest.approx((0.5, 0.5, 2.0), rel=1e-6)
        assert conrl.frontier(by_hand()).price(2.0 + off) == pytest.approx(0.5)


@pytest.mark.parametrize("constant", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("tol", [1e-9, 1e-4, 0.1])
def test_corners_nearer_than_a_plan_resolves_are_seen(constant: float, tol: float) -> None:
    """A hair beside a corner the plan is as good as optimal with the slope behind it, or one between. What all earn
    changes no price. Plan, sensitivity and frontier agree."""
    mdp = with_rewards(by_hand(), by_hand().rewards + constant)
    curve = conrl.frontier(mdp)
    for corner, before, behind in ((1.0, 3.0, 2.0), (2.0, 2.0, 0.5)):
        for off in (1e-3, 1e-6, 1e-8, -1e-8, -1e-6, -1e-3):
            limit, slope = corner + off, behind if off > 0 else before
            plan = conrl.plan(mdp, [limit], tol=tol)
            (row,) = plan.sensitivity().rows
            assert [plan.prices[0], row.gain, row.loss] == pytest.approx([slope] * 3, rel=1e-7 + 1e-15 * constant)
            assert plan.prices[0] == row.gain
            assert curve.price(limit) == pytest.approx(slope, rel=1e-8)
            assert (row.loss_to if off > 0 else row.gain_to) == pytest.approx(corner)


def test_a_limit_and_a_floor_at_once_a_hair_beside_a_corner() -> None:
    mdp = with_rewards(by_hand(), by_hand().rewards + 1e4)
    for off, slope in ((1e-8, 2.0), (-1e-8, 3.0)):
        plan = conrl.plan(mdp, conrl.Linear([1.0 + off], [1.0 + off]))
        limit, floor = plan.sensitivity().rows
        assert plan.prices[0] == limit.gain == pytest.approx(slope)
        assert (plan.floor_prices[0], floor.gain, limit.loss, floor.loss) == (0.0, 0.0, np.inf, np.inf)


def test_bends_far_below_the_tolerance_are_seen() -> None:
    (row,) = conrl.plan(still([1e6, 1e6 + 0.0015, 1e6 + 0.002], [0.0, 1.0, 2.0], 1), [0.5]).sensitivity().rows
    assert (row.gain, row.gain_to, row.loss) == pytest.approx((0.0015, 1.0, 0.0015))


@pytest.mark.parametrize(
    ("name", "limit", "price"),
    [
        ("inventory", 4.20039, 0.1476290915),
        ("inventory", 3.6007719, 0.543771054),
        ("pricing", 2.831053, 0.5666730635),
        ("bidding", 9.236031, 1 / 12),
    ],
)
def test_environments_a_hair_beside_corners(name: str, limit: float, price: float) -> None:
    mdp = envs.make(name)
    plan = conrl.plan(mdp, [limit])
    (row,) = plan.sensitivity().rows
    assert [plan.prices[0], row.gain, conrl.frontier(mdp).price(limit)] == pytest.approx([price] * 3, rel=1e-6)


def test_what_only_rounding_could_tighten_cannot_be() -> None:
    """The point that uses least plays other actions than the plan, whose costs cancel but for their larger rounding."""
    for seed in (45, 47, 85, 111):
        rng = np.random.default_rng(seed)
        P, size = rng.multinomial(8, np.ones(3) / 3, size=(3, 3)) / 8, np.append(0, rng.integers(-3, 4, size=2))
        P[0, 0] = 1, 0, 0
        costs = 0.75 * (P @ size) - size[:, None] + rng.choice([0, 0, 1, 2], size=(3, 3))
        rewards = rng.integers(1, 4, size=(3, 3)) / 1.0
        costs[0, 0], rewards[0, 0] = 0.0, 5.0
        mdp = conrl.ConstrainedMDP(P, rewards, costs[:, :, None], horizon=conrl.Discounted(0.75), initial=0)
        (row,) = conrl.plan(mdp, [0.0]).sensitivity().rows
        assert (row.loss, row.loss_to, row.tightest) == (np.inf, 0.0, 0.0), seed


def test_what_others_allow_is_no_room() -> None:
    """The second cost is tied, and its allowance is some of the first."""
    costs = [[0.0, 0.0], [1e6, 1e6], [0.0, 3e6]]
    mdp = conrl.ConstrainedMDP(np.ones((1, 3, 1)), [[1000.0, 0.0, 1000.0]], [costs], horizon=1)
    plan = conrl.plan(mdp, conrl.Linear([np.inf, 3e6], [0.0, 3e6]))
    for row in plan.sensitivity().rows:
        assert (row.loss, row.loss_to, row.tightest) == (np.inf, row.bound, row.bound)


def test_rounding_in_proportion_to_a_tiny_limit_is_no_slope() -> None:
    """Whatever is done, the first cost is nothing."""
    eighths = [[4, 3, 1], [8, 0, 0], [0, 8, 0], [0, 0, 8], [8, 0, 0], [6, 2, 0], [5, 2, 1], [6, 2, 0], [4, 2, 2]]
    costs = np.stack((np.zeros((3, 3)), [[2.0, 1, 2], [3, 1, 2], [2, 2, 1]]), axis=2)
    rewards = [[0.0, 1, 0], [1, 1, 0], [1, 1, 1]]
    mdp = conrl.ConstrainedMDP(np.reshape(eighths, (3, 3, 3)) / 8, rewards, costs, horizon=2, initial=0)
    row = conrl.plan(mdp, [1e-12, 2.000000000000002]).sensitivity().rows[0]
    assert (row.gain, row.loss, row.loss_to) == (0.0, 0.0, 0.0)


def test_limit_and_floor_at_once_cannot_be_tightened() -> None:
    limit, floor = conrl.plan(by_hand(), conrl.Linear([2.0], [2.0])).sensitivity().rows
    assert (limit.gain, limit.loss, limit.tightest) == pytest.approx((0.5, np.inf, 2.0))
    assert (floor.gain, floor.loss, floor.tightest) == (0.0, np.inf, 2.0)


def difference(mdp: Any, problem: conrl.Linear, r: int, step: float) -> float:
    """What row r, loosened by a step, gains per unit, by two more plans."""
    model, rows = problem.bind(mdp)
    here, there = (
        conrl.plan(model, conrl.Linear(*rows.at(rows.bound + t * np.eye(rows.size)[r]).bounds(model.num_costs)))
        for t in (0.0, step)
    )
    return float(there.reward - here.reward) / step


@pytest.mark.parametrize("horizon", [conrl.Discounted(0.9), conrl.Average(), 6])
def test_slopes_by_differences_in_every_setting(horizon: Any) -> None:
    """With limits at policies that are best in some direction, which are corners."""
    for seed in range(6):
        mdp = random_model(seed, 6, 3, 4, 2).replace(horizon=horizon)
        corner = conrl.plan(with_rewards(mdp, mdp.rewards - mdp.costs @ np.array([0.7, 0.4])), conrl.Linear())
        problem = conrl.Linear(corner.costs)
        plan = conrl.plan(mdp, problem)
        step = 1e-5 * float(np.abs(corner.costs).max())
        for r, row in enumerate(plan.sensitivity().rows):
            assert plan.rows[r].price == pytest.approx(difference(mdp, problem, r, step), rel=2e-3, abs=1e-4)
            if np.isfinite(row.loss) and row.bound - row.loss_to > step:
                assert row.loss == pytest.approx(difference(mdp, problem, r, -step), rel=2e-3, abs=1e-4)


def test_limits_on_single_steps_have_slopes() -> None:
    mdp = random_model(3, 5, 3, 4, 1)
    free = conrl.plan(mdp, conrl.Linear())
    visits = conrl.evaluate(mdp, free.policy)
    problem = conrl.Linear(per_step={mdp.cost_names[0]: round(float(visits.costs[0]) / 5, 1)})
    plan = conrl.plan(mdp, problem)
    assert [row.price for row in plan.rows] == pytest.approx(
        [difference(mdp, problem, r, 1e-5) for r in range(len(plan.rows))], rel=1e-3, abs=1e-4
    )


def test_fleets_have_slopes() -> None:
    """Two machines of one kind and one of another, with a budget that three deterministic policies just use."""
    one, other = by_hand(), still([0.0, 4.0, 7.0], [0.0, 1.0, 2.0], 1)
    fleet = conrl.Fleet([(one, 2), (other, 1)], limits=[4.0])
    plan = conrl.plan(fleet)
    assert plan.reward == pytest.approx(13.0)  # 7 at 2, and 3 at 1 twice
    (row,) = plan.sensitivity().rows
    assert row[1:-1] == pytest.approx((4.0, 2.0, 6.0, 3.0, 1.0, 0.0, 2.0))
    assert plan.prices == pytest.approx([2.0])
    assert plan.rows[0].price == plan.prices[0] == plan.to_frame().price[1]


def test_chances_have_slopes_and_what_is_no_row_has_differences() -> None:
    mdp = machine()
    problem = conrl.Linear({"energy": 35}, chance={"repairs": (2, 0.05)}, cvar={"repairs": (0.9, 2.5)})
    plan = conrl.plan(mdp, problem)
    energy, chance, cvar = plan.sensitivity().rows
    little = conrl.plan(
        mdp, conrl.Linear({"energy": 35}, chance={"repairs": (2, 0.0501)}, cvar={"repairs": (0.9, 2.5)})
    )
    assert chance.gain == pytest.approx((little.reward - plan.reward) / 1e-4, rel=1e-3)
    assert chance.gain_to > 0.05 > chance.loss_to
    assert (energy.kind, chance.kind, cvar.kind) == ("slope", "slope", "difference")
    less = conrl.plan(mdp, conrl.Linear({"energy": 35}, chance={"repairs": (2, 0.05)}, cvar={"repairs": (0.9, 1.5)}))
    assert cvar.loss == pytest.approx(plan.reward - less.reward)
    never = conrl.plan(mdp, conrl.Linear(never={"repairs": 2}))
    (row,) = never.sensitivity().rows
    more = conrl.plan(mdp, conrl.Linear(never={"repairs": 3}))
    assert row.kind == "difference"
    assert row.gain == pytest.approx(more.reward - never.reward)
    assert "for a whole unit, planned again" in never.sensitivity()._repr_html_()


def test_one_deterministic_policy_has_differences() -> None:
    mdp = by_hand()
    plan = conrl.plan(mdp, [1.5], deterministic=True)
    (row,) = plan.sensitivity().rows
    assert (row.gain, row.loss) == pytest.approx((2.0, 3.0))
    assert row.kind == "difference"
    assert plan.prices == pytest.approx([2.0])  # of the best mixture


def test_a_coarse_deterministic_plan_has_exact_differences() -> None:
    mdp = still([1.0, 3.0, 4.0], [1.0, 2.0, 3.0], 3)
    plan = conrl.plan(mdp, [6.0], deterministic=True, tol=3.0)
    (row,) = plan.sensitivity().rows
    assert (row.gain, row.loss) == pytest.approx((1.0, 2.0))


def test_beside_a_cvar_prices_are_those_at_its_quantile() -> None:
    """Nobody can exceed 1 at all, whatever the expectation may be."""
    mdp = still([0.0, 1.0], [1.0, 3.0], 1)
    for limit in (1.0, 1.1, 1.5):
        plan = conrl.plan(mdp, conrl.Linear([limit], cvar={"cost": (0.5, 1.0)}))
        row = plan.sensitivity().rows[0]
        assert plan.reward == 0.0
        assert (plan.prices[0], row.gain, row.one_more) == pytest.approx((0.0, 0.0, 0.0))


def test_knapsacks_may_skip() -> None:
    """0 at no cost is the null action, so that the first edge begins there: 3 at 1."""
    mdp = still([3.0, 5.0], [1.0, 2.0], 1)
    (row,) = conrl.plan(mdp, conrl.Knapsack([100], 100)).sensitivity().rows
    assert row[1:-1] == pytest.approx((1.0, 2.0, 2.0, 3.0, 0.0, 0.0, 2.0))


def test_constraint_functions_have_multipliers() -> None:
    pytest.importorskip("cvxpy")
    plan = conrl.plan(by_hand(), conrl.ConcaveConvex(lambda x: x, lambda c: c[0] - 1.5))
    assert plan.prices is plan.multipliers
    assert plan.prices == pytest.approx([2.0], abs=1e-4)
    with pytest.raises(conrl.SpecError, match="covers limits and floors, not constraint functions"):
        plan.sensitivity()


def test_limits_that_cannot_be_kept_are_priced_where_they_can() -> None:
    plan = conrl.ColumnGeneration().plan(by_hand(), conrl.Linear([-1.0]), relax=True)
    assert plan.prices == pytest.approx([3.0])


def test_a_frame_and_a_table() -> None:
    found = conrl.plan(machine(), {"repairs": 2, "energy": 35}).sensitivity()
    frame = found.to_frame()
    assert frame.limit.tolist() == ["repairs <= 2", "energy <= 35"]
    assert frame.gain.tolist() == [row.gain for row in found.rows]
    assert repr(found).startswith("Sensitivity(repairs <= 2: gain 9.74998, loss 9.74998")
    assert "Sensitivity of the best reward" in found._repr_html_()
    assert json.loads(json.dumps(found.rows[0]._asdict()))["kind"] == "slope"


def test_fleets_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "machine.csv").write_bytes(MACHINE.read_bytes())
    text = '[fleet]\nhorizon = 20\nlimits = { repairs = 0 }\n[[unit]]\nmodel = "machine.csv"\ncount = 5\n'
    (tmp_path / "fleet.toml").write_text(text)
    found = record("plan", tmp_path / "fleet.toml", "--sensitivity", "--json")
    (row,) = found["sensitivity"]
    assert found["costs"]["repairs"]["price"] == row["gain"] == pytest.approx(65.820976)
    assert row["gain_to"] == pytest.approx(0.1)  # five machines, each as far as one alone


def test_with_confidence_limits_are_worth_what_they_are_where_it_was_planned() -> None:
    rng = np.random.default_rng(0)
    mdp = conrl.ConstrainedMDP(rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((3, 2)), rng.random((3, 2, 1)), 5)
    log = conrl.sample_log(mdp, conrl.Policy(np.full((5, 3, 2), 0.5)), 400)
    plan = conrl.plan(conrl.estimate(log), [2.96], confidence=0.8)
    (row,) = plan.sensitivity().rows
    assert row.name == plan.rows[0].name == "cost <= 2.96"
    assert plan.prices[0] == plan.rows[0].price == pytest.approx(row.gain)
    again = pickle.loads(pickle.dumps(plan))
    assert again.sensitivity().rows == plan.sensitivity().rows

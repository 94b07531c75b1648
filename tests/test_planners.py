"""Every planner on the bank, on the paper's environments and on random models; what `plan` refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bank import (
    BAND,
    CASES,
    Case,
    assert_few_deterministic,
    assert_optimal,
    assert_proof,
    dual_bound,
    excess_of,
    least_violation,
    middle,
    random_model,
    row_unit,
    rows_of,
    solve_lp,
    still,
)
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray
from strategies import Spec, specs

import conrl
from conrl.model.transform import with_own_steps
from conrl.planners import PLANNERS
from conrl.planners.allowance import FEASIBILITY
from conrl.planners.result import certify

Float = NDArray[np.float64]
COLUMN, PROGRAM = "column-generation", "linear-program"

EXACT = [name for name, kind in PLANNERS.items() if conrl.Linear in kind.problems and name != "lagrangian"]
every_planner = pytest.mark.parametrize("planner", EXACT)
feasible = pytest.mark.parametrize("case", [c for c in CASES.values() if c.feasible], ids=lambda c: c.name)
infeasible = pytest.mark.parametrize("case", [c for c in CASES.values() if not c.feasible], ids=lambda c: c.name)


# -- the bank -------------------------------------------------------------------------------------------------


def test_the_bank_is_large_and_its_planners_are_known() -> None:
    assert len(CASES) >= 50
    assert sum(c.answer is not None or not c.feasible for c in CASES.values()) >= 40
    assert [COLUMN, PROGRAM] == EXACT


@pytest.mark.parametrize("case", [c for c in CASES.values() if not c.beyond_highs], ids=lambda c: c.name)
def test_closed_forms_agree_with_an_independent_program(case: Case) -> None:
    found = solve_lp(case.mdp, case.problem)
    if not case.feasible:
        assert found is None
        assert least_violation(case.mdp, case.problem) > BAND
        return
    assert found is not None
    assert found.value == pytest.approx(case.best, rel=1e-9, abs=1e-9)


@every_planner
@feasible
def test_bank(case: Case, planner: str) -> None:
    plan = conrl.plan(case.mdp, case.problem, planner=planner)
    if planner == PROGRAM and case.beyond_highs and plan.status != "optimal":
        # HiGHS takes coefficients of 1e-9 and less for 0; the plan must own up and its bound must hold all the same.
        assert plan.status == "inaccurate"
        assert plan.bound >= case.best - 1e-12
        return
    assert_optimal(case.mdp, case.problem, plan, 1e-9, case.best)
    if planner == COLUMN:
        assert_few_deterministic(case.mdp, plan)
    if case.prices is not None:
        assert plan.prices == pytest.approx(np.array(case.prices), rel=1e-6, abs=1e-9)
    if case.floor_prices is not None:
        assert plan.floor_prices == pytest.approx(np.array(case.floor_prices), rel=1e-6, abs=1e-9)
    if case.costs is not None:
        assert plan.costs == pytest.approx(np.array(case.costs), rel=1e-7, abs=1e-12)


@every_planner
@infeasible
def test_bank_of_conflicts(case: Case, planner: str) -> None:
    with pytest.raises(conrl.InfeasibleError) as caught:
        conrl.plan(case.mdp, case.problem, planner=planner)
    found = caught.value.feasibility
    assert set(found.conflict) == set(case.conflict)
    assert found.violation == pytest.approx(case.violation, rel=1e-9)
    assert_proof(case.mdp, rows_of(case.mdp, case.problem), found)
    for name in case.conflict:
        assert name in str(caught.value)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES.values() if c.feasible and c.mdp.num_costs > 0 and c.mdp.bonus is None],
    ids=lambda c: c.name,
)
def test_costs_in_other_units_change_prices_only(case: Case) -> None:
    """Cost i in units of u_i: the same reward, prices divided by u_i."""
    unit = 10.0 ** np.linspace(-5, 4, case.mdp.num_costs) if case.mdp.num_costs > 1 else np.array([1e-7])
    rows = rows_of(case.mdp, case.problem)
    mdp = conrl.ConstrainedMDP(
        case.mdp.transitions,
        case.mdp.rewards,
        case.mdp.costs * unit,
        case.mdp.horizon,
        initial=case.mdp.initial,
        available=case.mdp.available,
    )
    limits, floors = np.full(unit.size, np.inf), np.full(unit.size, -np.inf)
    for i, sign, bound in zip(rows.cost, rows.sign, rows.bound, strict=True):
        (limits if sign > 0 else floors)[i] = sign * bound * unit[i]
    problem = conrl.Linear(limits, floors)
    plan = conrl.plan(mdp, problem)
    assert_optimal(mdp, problem, plan, 1e-9, case.best)
    if case.prices is not None:
        assert plan.prices * unit == pytest.approx(np.array(case.prices), rel=1e-6, abs=1e-9)


@feasible
def test_planning_twice_gives_the_same_bits(case: Case) -> None:
    one, two = conrl.plan(case.mdp, case.problem), conrl.plan(case.mdp, case.problem)
    for name in ("reward", "objective", "bound", "iterations"):
        assert getattr(one, name) == getattr(two, name)
    for name in ("costs", "prices", "floor_prices"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    assert one.policy.probabilities.tobytes() == two.policy.probabilities.tobytes()


# -- the paper's environments ---------------------------------------------------------------------------------


@every_planner
@pytest.mark.parametrize(
    ("name", "options", "limit", "reward", "cost", "price"),
    [
        ("mars_rover", {"rock_reward": 1.0}, 0.3, 1.5362884, 0.3, 0.19298),
        ("mars_rover", {"rock_reward": 1.0}, np.inf, 1.8168222, 1.8168222, 0.0),
        ("mars_rover", {}, 0.0898150, 1.4029842, 0.0898150, 0.0),
        ("mars_rover", {}, 0.3, 1.4029842, None, 0.0),  # several optima; the one above costs least
        ("mars_rover", {}, np.inf, 1.4029842, None, 0.0),
        ("box", {}, 0.1, 1.7496766, 0.1, 0.07823),
        ("box", {}, np.inf, 1.8157689, None, 0.0),
    ],
)
def test_published_optima(
    name: str, options: dict[str, float], limit: float, reward: float, cost: float | None, price: float, planner: str
) -> None:
    mdp = getattr(conrl.envs, name)(**options)
    problem = conrl.Linear([limit])
    plan = conrl.plan(mdp, problem, planner=planner)
    assert plan.status == "optimal"
    assert plan.reward == pytest.approx(reward, abs=1e-7)
    if cost is not None:
        assert plan.costs[0] == pytest.approx(cost, abs=1e-7)
    assert limit == 0.0898150 or plan.prices[0] == pytest.approx(price, abs=1e-4)
    assert plan.gap <= 1e-9
    if planner == COLUMN:
        assert_optimal(mdp, problem, plan, 1e-9)
        assert_few_deterministic(mdp, plan)


def test_published_optima_are_the_default_problem() -> None:
    assert conrl.plan(conrl.envs.mars_rover(rock_reward=1.0)).reward == pytest.approx(1.5362884, abs=1e-7)
    assert conrl.plan(conrl.envs.mars_rover()).reward == pytest.approx(1.4029842, abs=1e-7)
    assert conrl.plan(conrl.envs.box()).reward == pytest.approx(1.7496766, abs=1e-7)


def test_mars_rover_under_tight_limits() -> None:
    mdp = conrl.envs.mars_rover()
    assert conrl.plan(mdp, conrl.Linear([0.05])).reward == pytest.approx(0.7990, abs=5e-5)
    with pytest.raises(conrl.InfeasibleError):
        conrl.plan(mdp, conrl.Linear([0.0]))


# -- random models --------------------------------------------------------------------------------------------


def attempt(mdp: conrl.ConstrainedMDP, problem: conrl.Linear, planner: str) -> conrl.Plan | conrl.Feasibility:
    """A plan, or the proof that there is none."""
    try:
        return conrl.plan(mdp, problem, planner=planner)
    except conrl.InfeasibleError as error:
        return error.feasibility


def assert_same_value(mdp: conrl.ConstrainedMDP, problem: conrl.Linear, one: float, two: float) -> None:
    """Equal to 1e-7; or, where the limits are so tight that the allowance buys more, both within what it buys."""
    room = 1e-7 * max(1.0, abs(two))
    if abs(one - two) <= room:
        return
    low, high = solve_lp(mdp, problem, -2.0 * FEASIBILITY), solve_lp(mdp, problem, 2.0 * FEASIBILITY)
    assert high is not None
    assert max(one, two) <= high.value + room, (one, two, high.value)
    assert low is None or min(one, two) >= low.value - room, (one, two, low.value)


def assert_same_verdict(
    mdp: conrl.ConstrainedMDP,
    problem: conrl.Linear,
    one: conrl.Plan | conrl.Feasibility,
    two: conrl.Plan | conrl.Feasibility,
) -> None:
    """Feasibility outside +-BAND around exactly tight limits; the least violation within it."""
    rows = rows_of(mdp, problem)
    unit = row_unit(mdp, rows)
    least = least_violation(mdp, problem)
    for found in (one, two):
        if isinstance(found, conrl.Plan):
            assert least <= BAND
            assert float((excess_of(mdp, found, rows) / unit).max()) <= max(least, 0.0) + 2.0 * FEASIBILITY
        else:
            assert least >= -BAND
            assert_proof(mdp, rows, found, least=0.0 if least > BAND else -np.inf)
            assert found.multipliers is not None
            # The multipliers bound the least violation from below.
            names = conrl.Linear(problem.limits, problem.floors).rows(mdp).names
            weight = sum(m * unit[names.index(n)] for n, m in zip(found.conflict, found.multipliers, strict=True))
            assert found.violation / weight <= least + 1e-9 * max(1.0, abs(least))


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_column_generation_agrees_with_the_linear_program(spec: Spec) -> None:
    mdp, problem = spec.build()
    found, reference = attempt(mdp, problem, COLUMN), attempt(mdp, problem, PROGRAM)
    if isinstance(found, conrl.Plan):
        assert_optimal(mdp, problem, found, 1e-9)
        assert_few_deterministic(mdp, found)
    if isinstance(found, conrl.Plan) and isinstance(reference, conrl.Plan):
        assert_same_value(mdp, problem, found.objective, reference.objective)
        assert reference.bound >= found.objective - 1e-7 * max(1.0, abs(found.objective))
    else:
        assert_same_verdict(mdp, problem, found, reference)


# What went wrong once: (why, spec).
FOUND = {
    "constant cost: the spread of the first points is rounding": Spec(
        2, 2, 4, "dense", "uniform", ("uniform", "constant"), ("between", "between"), ("none", "none"),
        False, False, False, False, 0,
    ),
    "the master is too ill-conditioned for its first method": Spec(
        11, 3, 8, "tiny", "signed", ("uniform", "integers", "uniform"), ("between", "between", "free"),
        ("none", "none", "none"), True, True, True, False, 3027704782,
    ),
    "one policy, tight limits: HiGHS calls them infeasible": Spec(
        10, 1, 5, "tiny", "uniform", ("uniform", "signed", "signed", "wide"), ("above", "between", "none", "none"),
        ("greatest", "none", "none", "between"), False, True, True, False, 1770688570,
    ),
    "HiGHS ends as Not Set": Spec(
        11, 3, 8, "tiny", "wide", ("wide", "signed"), ("between", "none"), ("equal", "none"),
        True, False, True, False, 2246877027,
    ),
    "HiGHS ends as Not Set without any cost": Spec(
        9, 2, 8, "tiny", "signed", (), (), (), False, False, True, False, 2353056962
    ),
    "HiGHS ends as Unknown": Spec(
        2, 3, 4, "tiny", "integers", ("uniform", "signed", "wide", "zero"), ("none", "between", "between", "none"),
        ("equal", "none", "none", "none"), False, True, False, False, 2717840836,
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", list(FOUND))
def test_found_once(why: str) -> None:
    mdp, problem = FOUND[why].build()
    found, reference = attempt(mdp, problem, COLUMN), attempt(mdp, problem, PROGRAM)
    possible = least_violation(mdp, problem) <= BAND
    assert conrl.feasibility(mdp, problem.limits, problem.floors).feasible == possible
    assert isinstance(found, conrl.Plan) == possible
    assert isinstance(reference, conrl.Plan) == possible
    if isinstance(found, conrl.Plan) and isinstance(reference, conrl.Plan):
        assert_optimal(mdp, problem, found, 1e-9)
        assert_same_value(mdp, problem, found.objective, reference.objective)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_column_generation_agrees_with_scipy(spec: Spec) -> None:
    mdp, problem = spec.build()
    found, reference = attempt(mdp, problem, COLUMN), solve_lp(mdp, problem)
    if isinstance(found, conrl.Plan) and reference is not None:
        assert_same_value(mdp, problem, found.objective, reference.value)
        rows = rows_of(mdp, problem)
        assert found.objective <= dual_bound(mdp, rows, np.maximum(reference.multipliers, 0.0)) + 1e-9 * max(
            1.0, abs(found.objective)
        )
    elif isinstance(found, conrl.Plan) or reference is not None:
        assert abs(least_violation(mdp, problem)) <= BAND
    else:
        assert_same_verdict(mdp, problem, found, found)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_a_bonus_is_the_best_case(spec: Spec) -> None:
    """With limits only, planning with a bonus b is planning r + b, c - b."""
    spec = replace(spec, floors=("none",) * len(spec.costs))
    mdp, problem = spec.build()
    b = np.random.default_rng(spec.seed).random((mdp.num_states, mdp.num_actions))
    plain = conrl.ConstrainedMDP(
        mdp.transitions,
        mdp.rewards + b,
        mdp.costs - b[:, :, None],
        mdp.horizon,
        initial=mdp.initial,
        available=mdp.available,
    )
    found, reference = attempt(mdp.with_bonus(b), problem, COLUMN), attempt(plain, problem, COLUMN)
    if isinstance(found, conrl.Plan) and isinstance(reference, conrl.Plan):
        assert_optimal(mdp.with_bonus(b), problem, found, 1e-9)
        assert_same_value(plain, problem, found.objective, reference.objective)
    else:
        both = not isinstance(found, conrl.Plan) and not isinstance(reference, conrl.Plan)
        assert least_violation(plain, problem) >= -BAND
        assert both or least_violation(plain, problem) <= BAND


# -- the interface --------------------------------------------------------------------------------------------


def test_planners_are_objects_or_names() -> None:
    mdp = still([0.0, 1.0], [0.0, 2.0], 10, limits=[3.0])
    for planner in (COLUMN, PROGRAM, conrl.ColumnGeneration(), conrl.LinearProgram(method="simplex")):
        assert conrl.plan(mdp, planner=planner).reward == pytest.approx(1.5)
    assert conrl.plan(mdp, conrl.Linear()).reward == 10.0
    assert conrl.plan(mdp, conrl.Linear({"cost": 1.0})).reward == pytest.approx(0.5)


@pytest.mark.parametrize("method", ["simplex", "ipm", "choose"])
def test_methods_of_highs_agree(method: str) -> None:
    mdp = conrl.envs.box()
    plan = conrl.plan(mdp, planner=conrl.LinearProgram(method=method, tol=1e-7))
    assert plan.reward == pytest.approx(1.7496766, abs=1e-6)
    assert plan.bound >= 1.7496765


def test_a_loose_tolerance_is_honest() -> None:
    case = CASES["17 states, 3 resources, some actions"]
    plan = conrl.plan(case.mdp, case.problem, tol=0.05)
    assert plan.status == "optimal"
    assert plan.gap <= 0.05 * max(1.0, abs(plan.objective))
    assert plan.objective <= case.best + 1e-9
    assert plan.bound >= case.best - 1e-9
    assert plan.iterations <= conrl.plan(case.mdp, case.problem).iterations


def test_running_out_of_sweeps_is_said() -> None:
    mdp = random_model(3, 40, 4, 12, 3)
    problem = conrl.Linear(middle(mdp, 0.7))
    full = conrl.plan(mdp, problem)
    few = conrl.plan(mdp, problem, planner=conrl.ColumnGeneration(max_sweeps=3))
    assert full.status == "optimal"
    assert few.status == "iteration limit"
    assert "max_sweeps" in few.message
    assert few.bound >= full.objective - 1e-9
    assert few.gap > 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"planner": "colum-generation"}, "unknown planner 'colum-generation'; did you mean 'column-generation'?"),
        ({"problem": 0.3}, r"problem is 0.3; it must be limits, as \{'crash': 0.3\} or \[0.3\], or a problem such as"),
        ({"tol": 0.0}, "tol is 0.0; it must be a number above 0"),
        ({"tol": float("nan")}, "it must be a number above 0"),
    ],
)
def test_bad_questions_are_refused(arguments: dict[str, object], message: str) -> None:
    mdp = still([0.0, 1.0], [0.0, 2.0], 10, limits=[3.0])
    with pytest.raises(conrl.SpecError, match=message.replace("?", r"\?")):
        conrl.plan(mdp, **arguments)  # type: ignore[call-overload]


def test_other_bad_questions_are_refused() -> None:
    mdp = still([0.0, 1.0], [0.0, 2.0], 10)
    with pytest.raises(conrl.SpecError, match="plan needs a ConstrainedMDP, not list"):
        conrl.plan([1.0])  # type: ignore[call-overload]
    with pytest.raises(conrl.SpecError, match="max_sweeps is 0"):
        conrl.ColumnGeneration(max_sweeps=0)
    with pytest.raises(conrl.SpecError, match="unknown method 'simplx'; did you mean 'simplex'"):
        conrl.LinearProgram(method="simplx")
    with pytest.raises(conrl.ModelError, match="unknown cost 'cots'; did you mean 'cost'"):
        conrl.plan(mdp, conrl.Linear({"cots": 1.0}))
    with pytest.raises(conrl.ModelError, match=r"limits has shape \(2,\); the model has 1 cost"):
        conrl.plan(mdp, conrl.Linear([1.0, 2.0]))
    with pytest.raises(conrl.ModelError, match="limit of cost 'cost' is nan"):
        conrl.plan(mdp, conrl.Linear([float("nan")]))
    with pytest.raises(conrl.ModelError, match="floor of cost 'cost' is inf"):
        conrl.plan(mdp, conrl.Linear(None, [float("inf")]))


def test_out_of_time_is_an_error() -> None:
    with pytest.raises(conrl.RunError, match="time_limit"):
        conrl.plan(conrl.envs.box(), planner=conrl.LinearProgram(time_limit=0.0))


@every_planner
def test_with_a_bonus_a_floor_above_the_limit_is_still_refused(planner: str) -> None:
    mdp = conrl.envs.box().with_bonus(np.full((121, 4), 0.2))
    with pytest.raises(conrl.InfeasibleError, match="cannot be kept together"):
        conrl.plan(mdp, conrl.Linear([0.1], [0.3]), planner=planner)


def test_a_plan_that_breaks_its_limits_is_never_returned() -> None:
    """Out of sweeps before any mixture within the limits was found."""
    mdp = conrl.envs.random_cmdp(8, 4, 8, 4, seed=0, horizon=10)
    free = conrl.feasibility(mdp, [np.inf] * 4)
    tight = free.least + 0.35 * (free.greatest - free.least)
    assert conrl.plan(mdp, conrl.Linear(tight)).status == "optimal"
    with pytest.raises(conrl.RunError, match="max_sweeps"):
        conrl.plan(mdp, conrl.Linear(tight), planner=conrl.ColumnGeneration(max_sweeps=2))


@pytest.mark.parametrize(
    ("bound", "objective", "bought", "expected"),
    [
        (1.0 + 5e-10, 1.0, 0.0, (1.0 + 5e-10, True)),
        (1.1, 1.0, 0.0, (1.1, False)),
        (1.0 - 1e-15, 1.0, 0.0, (1.0, True)),  # rounding
        (1.0 - 1e-6, 1.0, 2e-6, (1.0, True)),  # within what the allowance of a limit buys
        (0.9, 1.0, 0.0, (0.9, False)),  # the objective broke a limit: the negative gap stays
        (0.0, -np.inf, 0.0, (0.0, False)),
    ],
)
def test_a_bound_below_the_objective_proves_nothing(
    bound: float, objective: float, bought: float, expected: tuple[float, bool]
) -> None:
    assert certify(bound, objective, 1e-9, bought) == expected


# -- an action that costs a fortune, and is never played ------------------------------------------------------


def workshop(fortune: float, horizon: Any) -> conrl.ConstrainedMDP:
    """Run earns 1 and costs 0.01, rest nothing; to scrap costs a fortune."""
    return conrl.ConstrainedMDP(np.ones((1, 3, 1)), [[1.0, 0.0, 0.0]], [[[0.01], [0.0], [fortune]]], horizon)


@pytest.mark.parametrize("fortune", [1.0, 1e6, 1e9, 1e12, 1e15])
@pytest.mark.parametrize(
    "horizon", [10, conrl.Discounted(0.9), conrl.Average(), "by step", "fleet", "one policy"], ids=str
)
def test_what_is_never_played_does_not_loosen_a_limit(fortune: float, horizon: Any) -> None:
    """Rounding was allowed for in proportion to the largest total there is, and used up."""
    steps = 10 if isinstance(horizon, str) else horizon
    mdp = workshop(fortune, steps)
    share = {"Average": 0.1}.get(type(steps).__name__, 1.0)
    limit = 0.05 * share
    if horizon == "fleet":
        fleet = conrl.plan(conrl.Fleet([(mdp, 100)], limits=[100 * limit]))
        assert fleet.costs[0] <= 100 * limit * (1.0 + 2e-9)
        assert fleet.reward == pytest.approx(500.0, rel=1e-8)
        assert fleet.bound >= 500.0
        return
    plan = conrl.plan(
        with_own_steps(mdp) if horizon == "by step" else mdp, [limit], deterministic=horizon == "one policy"
    )
    assert plan.costs[0] <= limit * (1.0 + 2e-9)
    assert plan.rows[0].allowance <= 3e-9 * limit
    if horizon != "one policy" or fortune < 1e12:  # its search finds less there, and says so
        assert plan.reward == pytest.approx(5.0 * share, rel=1e-8)
    assert plan.bound >= 5.0 * share * (1.0 - 1e-12)
    assert conrl.evaluate(mdp, plan.policy).costs[0] <= limit * (1.0 + 2e-9)


def test_limits_that_highs_cannot_decide_are_proven_impossible() -> None:
    """HiGHS ends as Unknown here, and yet nothing keeps these limits."""
    mdp = conrl.envs.make("random", states=8, horizon=5, costs=3, seed=5)
    with pytest.raises(conrl.InfeasibleError, match="cannot be kept together"):
        conrl.plan(mdp, [3.14, 1.47, 1.24], planner="linear-program")

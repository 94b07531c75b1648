"""Column generation that starts where an earlier plan ended, and plans where nothing is feasible (`relax`).

A warm start may change the work, never the answer: each plan is compared with a cold one, or with the full LP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from bank import (
    CASES,
    _highs,
    _program,
    assert_optimal,
    assert_values,
    best_total,
    dense,
    excess_of,
    free_value,
    lin,
    middle,
    random_model,
    rows_of,
    solve_lp,
    still,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import specs

import conrl
from conrl.oracles import BackwardInduction

Float = NDArray[np.float64]
INF = float("inf")
CG = conrl.ColumnGeneration()
slow = [HealthCheck.too_slow, HealthCheck.filter_too_much]


def nearby(mdp: conrl.ConstrainedMDP, seed: int, size: float) -> conrl.ConstrainedMDP:
    """A model a little off, as the next episode's estimate is."""
    rng = np.random.default_rng(seed)
    m = dense(mdp)
    noise = rng.random(m.P.shape) * (m.P > 0.0)
    with np.errstate(invalid="ignore"):
        noise = np.nan_to_num(noise / noise.sum(axis=2, keepdims=True))
    pay = m.pay * (1.0 + size * rng.normal(size=m.pay.shape))
    return conrl.ConstrainedMDP(
        (1.0 - size) * m.P + size * noise,
        pay[..., 0],
        pay[..., 1:],
        m.horizon,
        initial=m.initial,
        available=m.exists,
    )


def scale_of(plan: conrl.Plan) -> float:
    return max(1.0, abs(plan.objective))


# -- one plan after another -----------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=slow)
@given(
    spec=specs().filter(lambda s: s.rows != "tiny" and "wide" not in (s.rewards, *s.costs)),
    seed=st.integers(0, 1000),
    size=st.sampled_from([0.0, 1e-6, 0.01, 0.3]),
    bonus=st.booleans(),
)
def test_a_warm_plan_is_the_cold_one(spec: Any, seed: int, size: float, bonus: bool) -> None:
    """On a model a little off, for limits that stay: the same objective, certified; or infeasible, both."""
    mdp, problem = spec.build()
    other = nearby(mdp, seed, size)
    if bonus:
        b = 0.2 * np.random.default_rng(seed).random((mdp.num_states, mdp.num_actions, 1 + mdp.num_costs))
        mdp, other = mdp.with_bonus(b), other.with_bonus(b[..., ::-1])
    try:
        start = CG.plan(mdp, problem).start
    except conrl.InfeasibleError:
        start = CG.plan(mdp, conrl.Linear()).start
    try:
        cold = CG.plan(other, problem)
    except conrl.InfeasibleError:
        with pytest.raises(conrl.InfeasibleError):
            CG.plan(other, problem, start)
        return
    warm = CG.plan(other, problem, start)
    assert warm.status == cold.status == "optimal"
    rows = rows_of(mdp, problem)
    multipliers = warm.multipliers.sum()
    room = 1e-9 * max(1.0, float(np.abs(rows.bound).max(initial=0.0)), float(np.abs(other.pay).max())) * multipliers
    assert abs(warm.objective - cold.objective) <= 1e-8 * scale_of(cold) + 4.0 * room
    assert_optimal(other, problem, warm, 1e-9 + 4.0 * room)


@pytest.mark.parametrize("name", sorted(name for name, case in CASES.items() if case.feasible))
def test_a_plan_from_its_own_end(name: str) -> None:
    """Started where it ended, a plan is as it was, for fewer questions."""
    case = CASES[name]
    cold = CG.plan(case.mdp, case.problem)
    warm = CG.plan(case.mdp, case.problem, cold.start)
    assert warm.status == "optimal"
    assert abs(warm.objective - cold.objective) <= 1e-8 * scale_of(cold)
    assert cold.start is not None
    assert warm.iterations <= cold.iterations + 2 + len(cold.start["directions"])


def start_of(directions: Any, multipliers: Any, **more: Any) -> dict[str, Any]:
    return {"directions": np.array(directions), "multipliers": np.array(multipliers), **more}


JUNK = [
    start_of(np.zeros((0, 2)), np.zeros(1)),
    start_of(np.zeros((1, 2)), np.zeros(1)),
    start_of([[0.0, -1.0], [0.0, -1.0], [1.0, -1e6]], np.ones(1)),
    start_of([[1.0, -1e-9]], [1e-9]),
    start_of(np.ones((2, 2)), np.ones(2)),
    start_of([[1.0, 0.0]], np.ones(3)),
]


@pytest.mark.parametrize("start", JUNK, ids=range(len(JUNK)))
@pytest.mark.parametrize("limit", [0.0, 0.7, 1.0, 2.4, 3.0, 9.0])
def test_a_bad_start_costs_only_work(start: dict[str, Any], limit: float) -> None:
    mdp = random_model(2, 5, 3, 4, 1)
    least, most = -best_total(mdp, np.array([0.0, -1.0])), best_total(mdp, np.array([0.0, 1.0]))
    problem = lin([least + limit / 3.0 * (most - least)])
    answer = solve_lp(mdp, problem)
    assert answer is not None
    plan = CG.plan(mdp, problem, start)
    assert_optimal(mdp, problem, plan, 1e-9, answer.value)


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        ([1.0], conrl.SpecError, r"start is \[1.0\]; it must be None or a mapping from names to numpy arrays"),
        ({"directions": [[1.0, 0.0]], "multipliers": [0.0]}, conrl.SpecError, "mapping from names to numpy arrays"),
        ({"directions": np.ones((1, 2))}, conrl.RunError, "not that of column generation, .* it holds directions"),
        ({}, conrl.RunError, "it holds nothing"),
        (start_of(np.ones((1, 2)), np.ones(1), more=np.ones(1)), conrl.RunError, "holds directions, more, multipliers"),
        (start_of(np.ones((1, 3)), np.ones(1)), conrl.RunError, "its directions make no sense for 1 costs"),
        (start_of(1.0, np.ones(1)), conrl.RunError, "its directions make no sense"),
        (start_of([[np.nan, 0.0]], np.ones(1)), conrl.RunError, "its directions make no sense"),
        (start_of([["a", "b"]], np.ones(1)), conrl.RunError, "its directions make no sense"),
        (start_of([[1.0, 0.0]], np.ones((1, 1))), conrl.RunError, "its multipliers make no sense"),
        (start_of([[1.0, 0.0]], [np.inf]), conrl.RunError, "its multipliers make no sense"),
        (start_of([[1.0, 0.0]], [-1.0]), conrl.RunError, "a multiplier below 0"),
        (start_of([[1.0, 0.0]], [1.0], box=np.ones((2, 3))), conrl.RunError, "its box make no sense"),
    ],
)
def test_what_no_plan_left_behind_is_refused(start: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        CG.plan(random_model(2, 5, 3, 4, 1), lin([1.0]), start)
    assert "\n" not in str(caught.value)


def test_what_a_plan_left_behind_cannot_be_changed() -> None:
    start = CG.plan(random_model(2, 5, 3, 4, 1), lin([1.0])).start
    assert start is not None
    for array in start.values():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


@pytest.mark.parametrize("seed", range(3))
def test_the_start_of_a_floor_is_none_of_a_limit(seed: int) -> None:
    """One row as well, but its directions ask for more cost and not for less."""
    mdp = random_model(seed, 5, 3, 4, 1)
    least, most = -best_total(mdp, np.array([0.0, -1.0])), best_total(mdp, np.array([0.0, 1.0]))
    start = CG.plan(mdp, lin(None, [least + 0.97 * (most - least)])).start
    for share in (0.3, 0.5, 0.8, 0.95):
        problem = lin([least + share * (most - least)])
        assert CG.plan(mdp, problem, start).objective == pytest.approx(CG.plan(mdp, problem).objective, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_a_bad_start_costs_only_work_with_several_costs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_model(seed, 6, 3, 4, 3)
    problem = lin(middle(mdp, 0.5))
    answer = solve_lp(mdp, problem)
    assert answer is not None
    start = start_of(rng.normal(size=(4, 4)) * 10.0 ** rng.integers(-6, 6), 10.0 * rng.random(3))
    plan = CG.plan(mdp, problem, start)
    assert_optimal(mdp, problem, plan, 1e-9, answer.value)


# -- whole runs -----------------------------------------------------------------------------------------------

PLANS: list[tuple[conrl.Plan, conrl.Plan]] = []  # warm and cold, of the run at hand


@dataclass(frozen=True)
class Twice(conrl.ColumnGeneration):
    """Plans as it is told, and once more without a start."""

    again: bool = True

    def plan(self, mdp: conrl.ConstrainedMDP, problem: Any, start: Any = None, relax: bool = False) -> conrl.Plan:
        warm = super().plan(mdp, problem, start, relax)
        PLANS.append((warm, super().plan(mdp, problem, None, relax) if self.again else warm))
        return warm


def masked() -> conrl.ConstrainedMDP:
    mask = np.random.default_rng(17).random((7, 3)) < 0.6
    mask[:, 1] = True
    mdp = random_model(17, 7, 3, 5, 2, available=mask)
    return mdp.replace(limits=middle(mdp, 0.5))


def model(seed: int, d: int, share: float = 0.5, **changes: Any) -> conrl.ConstrainedMDP:
    mdp = random_model(seed, 6, 3, 5, d)
    return mdp.replace(limits=middle(mdp, share), **changes)


RUNS: dict[str, tuple[conrl.ConstrainedMDP, Any, Any, int]] = {
    "one cost": (model(1, 1), None, None, 80),
    "one cost, optimistic": (model(2, 1), None, conrl.ScaledBonus(0.1, 0.1), 80),
    "one cost, theory": (model(2, 1), None, conrl.TheoryBonus(), 40),
    "two costs": (model(3, 2), None, None, 40),
    "three costs": (model(4, 3), None, None, 40),
    "three costs, cautious": (model(4, 3), None, conrl.ScaledBonus(0.05, -0.2), 40),
    "masked": (masked(), None, None, 40),
    "unknown start": (model(5, 2, initial=[0.3, 0.3, 0.4, 0.0, 0.0, 0.0]), None, None, 60),
    "floor": (model(6, 2), conrl.Linear([2.5, INF], [-INF, 1.0]), None, 60),
    "limit and floor": (model(6, 1), conrl.Linear([2.0], [1.5]), None, 60),
    "no limit": (model(7, 1), conrl.Linear(), None, 20),
    "knapsack": (model(8, 2), conrl.Knapsack([60.0, 80.0], 60, 0.1), None, 60),
    "rover": (conrl.envs.mars_rover(rock_reward=1.0), None, None, 60),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_plan_of_a_run_is_the_cold_one(name: str) -> None:
    mdp, problem, bonus, episodes = RUNS[name]
    PLANS.clear()
    learner = conrl.ConRL(mdp.task, problem=problem, bonus=bonus, planner=Twice())
    history = conrl.learn(mdp, learner, episodes, seed=2)
    assert len(PLANS) >= episodes  # where caution is in the way, a second one
    failed = [warm.status == "infeasible" for warm, _ in PLANS]
    assert len(PLANS) - episodes <= sum(failed)
    assert history.infeasible.sum() <= sum(failed)
    for warm, cold in PLANS:
        assert warm.status == cold.status
        if warm.status != "infeasible":
            assert abs(warm.objective - cold.objective) <= 1e-8 * scale_of(cold)
            assert warm.bound - warm.objective <= 1e-9 * scale_of(warm)


def test_a_warm_start_saves_questions() -> None:
    rover = conrl.envs.mars_rover(rock_reward=1.0)
    start = CG.plan(rover, lin([0.3])).start
    asked = {True: 0, False: 0}
    for seed in range(5):
        other = nearby(rover, seed, 1e-4)
        for warm in (True, False):
            asked[warm] += CG.plan(other, lin([0.3]), start if warm else None).iterations
    assert asked[True] <= 0.7 * asked[False]


@pytest.mark.parametrize("resolve", [False, True])
def test_every_plan_of_a_run_with_a_budget_is_the_cold_one(resolve: bool) -> None:
    mdp = model(9, 2)
    PLANS.clear()
    problem = conrl.Knapsack([50.0, 70.0], 50)
    conrl.learn(mdp, conrl.ConRL(mdp.task, problem=problem, resolve=resolve, planner=Twice()), 50)
    for warm, cold in PLANS:
        assert warm.status == cold.status == "optimal"
        assert abs(warm.objective - cold.objective) <= 1e-8 * scale_of(cold)


def concave(x: Any) -> Any:
    return cp.log(0.5 + x)


def capped(c: Any) -> Any:
    return cp.norm(c) - 3.0


def smooth_cap(c: Any) -> Any:
    return cp.sum_squares(c) - 4.0


CONVEX = {
    "log and norm": (model(3, 2), conrl.ConcaveConvex(concave, capped), None),
    "log and squares": (model(10, 1), conrl.ConcaveConvex(concave, [smooth_cap, lambda c: c[0] - 1.9]), None),
    "theory": (model(3, 2), conrl.ConcaveConvex(concave, capped), conrl.TheoryBonus()),
}


@pytest.mark.parametrize("name", CONVEX)
def test_every_concave_convex_plan_of_a_run_is_the_cold_one(name: str) -> None:
    mdp, problem, bonus = CONVEX[name]
    PLANS.clear()
    history = conrl.learn(mdp, conrl.ConRL(mdp.task, problem=problem, bonus=bonus, planner=Twice()), 12, seed=1)
    assert len(PLANS) >= 12
    assert history.infeasible.sum() <= sum(warm.status == "infeasible" for warm, _ in PLANS)
    for warm, cold in PLANS:
        assert warm.status == cold.status
        if warm.status != "infeasible":  # both are proven to 1e-7
            assert abs(warm.objective - cold.objective) <= 2.5e-7 * scale_of(cold)
            assert warm.bound >= cold.objective - 1e-9
            assert cold.bound >= warm.objective - 1e-9


def test_a_run_from_cold_starts_plays_as_well() -> None:
    """With no start at all, a run sees other draws of equally good mixtures, and ends as well."""
    mdp = model(1, 1)

    @dataclass(frozen=True)
    class Cold(conrl.ColumnGeneration):
        def plan(self, mdp: conrl.ConstrainedMDP, problem: Any, start: Any = None, relax: bool = False) -> conrl.Plan:
            return replace(super().plan(mdp, problem, None, relax), start=None)

    best = conrl.plan(mdp)
    for planner in (None, Cold()):
        history = conrl.learn(mdp, conrl.ConRL(mdp.task, planner=planner), 250)
        assert history.expected_rewards is not None
        assert history.expected_rewards[150:].mean() == pytest.approx(best.reward, rel=0.03)


# -- where nothing is feasible --------------------------------------------------------------------------------


def least_in_units(mdp: conrl.ConstrainedMDP, problem: conrl.Linear, unit: Float) -> float:
    """min over policies of the largest (G z - h) / unit, by the full LP."""
    rows = rows_of(mdp, problem)
    reward, used, flow, start = _program(mdp, rows)
    with_t = np.column_stack((used / unit[:, None], np.full(unit.size, -1.0)))
    flow_t = sp.hstack((flow, sp.csr_array((flow.shape[0], 1))))
    goal = np.append(np.zeros(reward.size), 1.0)
    bounds = [(0.0, None)] * reward.size + [(None, None)]
    found = _highs(goal, A_ub=with_t, b_ub=rows.bound / unit, A_eq=flow_t, b_eq=start, bounds=bounds)
    assert found.status == 0
    return float(found.fun)


def best_within(mdp: conrl.ConstrainedMDP, problem: conrl.Linear, allowed: Float) -> float:
    """The best reward with rows G z <= h + allowed."""
    rows = rows_of(mdp, problem)
    reward, used, flow, start = _program(mdp, rows)
    found = _highs(-reward, A_eq=flow, b_eq=start, A_ub=used, b_ub=rows.bound + allowed)
    assert found.status == 0
    return -float(found.fun)


def units_of(mdp: conrl.ConstrainedMDP, problem: conrl.Linear) -> Float:
    """[R]: how far apart the policies that are best for the reward and for each row are in that row."""
    rows = rows_of(mdp, problem)
    G = np.column_stack((np.zeros(len(rows.cost)), rows.matrix(mdp.num_costs)))
    points = BackwardInduction(mdp).support_many(np.vstack((np.eye(1 + mdp.num_costs)[:1], -G))).points
    uses = points @ G.T
    return np.asarray(uses.max(axis=0) - uses.min(axis=0), dtype=np.float64)


def assert_least_violating(mdp: conrl.ConstrainedMDP, problem: conrl.Linear, plan: conrl.Plan, unit: Float) -> None:
    rows = rows_of(mdp, problem)
    least = least_in_units(mdp, problem, unit)
    assert plan.status == "infeasible"
    assert least > 0.0
    over = excess_of(mdp, plan, rows) / unit
    assert over.max() == pytest.approx(least, rel=1e-6, abs=1e-9)
    assert plan.objective >= best_within(mdp, problem, least * unit) - 1e-6 * scale_of(plan)
    assert plan.objective <= best_within(mdp, problem, (least + 1e-6) * unit) + 1e-6 * scale_of(plan)


SHORT = st.floats(0.01, 2.0)


@pytest.mark.parametrize("cold", [False, True])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), short=SHORT, bonus=st.booleans())
def test_one_limit_that_cannot_be_kept(cold: bool, seed: int, short: float, bonus: bool) -> None:
    """The least achievable cost, and of the policies that have it the best."""
    mdp = random_model(seed, 5, 3, 4, 1)
    if bonus:
        mdp = mdp.with_bonus(0.05 * np.random.default_rng(seed).random((5, 3, 2)))
    least = -best_total(mdp, np.array([0.0, -1.0]))
    problem = lin([least - short])
    start = None if cold else CG.plan(mdp, lin([least + 0.5])).start
    plan = CG.plan(mdp, problem, start, relax=True)
    assert plan.status == "infeasible"
    over = excess_of(mdp, plan, rows_of(mdp, problem))
    assert over[0] == pytest.approx(short, abs=1e-9)
    m = dense(mdp)
    moved = conrl.ConstrainedMDP(m.P, m.pay[..., 0] + m.bonus[..., 0], m.pay[..., 1:] - m.bonus[..., 1:], m.horizon)
    assert plan.objective == pytest.approx(free_value(moved, np.array([0.0, -1.0]))[0], abs=1e-9)  # there is but one
    with pytest.raises(conrl.InfeasibleError):
        CG.plan(mdp, problem, start)


@pytest.mark.parametrize(
    "problem",
    [lin(None, [9.0]), lin([-1.0], [-5.0]), lin([1.0], [2.0]), lin([3.0], [9.0])],
    ids=["floor too high", "limit too low", "floor above limit", "floor out of reach"],
)
@pytest.mark.parametrize("warm", [True, False])
def test_limit_and_floor_that_cannot_be_kept(problem: conrl.Linear, warm: bool, request: pytest.FixtureRequest) -> None:
    """One state, cost 0 or 1 a step for 4 steps: what comes nearest is known."""
    mdp = still([0.0, 1.0], [0.0, 1.0], 4)
    start = CG.plan(mdp, lin([2.0]) if problem.floors is None or problem.limits is None else lin([2.0], [1.0])).start
    plan = CG.plan(mdp, problem, start if warm else None, relax=True)
    assert plan.status == "infeasible"
    nearest = {(None, (9.0,)): 4.0, ((-1.0,), (-5.0,)): 0.0, ((1.0,), (2.0,)): 1.5}
    given_: list[Any] = [problem.limits, problem.floors]
    key: Any = tuple(None if x is None else tuple(x) for x in given_)
    expected = nearest.get(key, 4.0)  # limit 3, floor 9: at 4 the floor is exceeded by 5, more than any limit
    assert plan.costs[0] == pytest.approx(expected, abs=1e-7)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(2, 3), share=st.floats(0.0, 0.5), bonus=st.booleans())
def test_several_limits_that_cannot_be_kept(seed: int, d: int, share: float, bonus: bool) -> None:
    """The largest excess, in units of the rows, is as small as the full LP can make it; then the reward is best."""
    mdp = random_model(seed, 5, 3, 4, d)
    if bonus:
        mdp = mdp.with_bonus(0.05 * np.random.default_rng(seed).random((5, 3, 1 + d)))
    axes = np.eye(1 + d)
    least = np.array([-best_total(mdp, -axes[1 + i]) for i in range(d)])
    most = np.array([best_total(mdp, axes[1 + i]) for i in range(d)])
    problem = lin(list(least - (0.02 + share) * (most - least)))
    plan = CG.plan(mdp, problem, relax=True)
    assert_least_violating(mdp, problem, plan, units_of(mdp, problem))
    other = nearby(mdp, seed, 0.02) if mdp.bonus is None else mdp
    warm = CG.plan(other, problem, plan.start, relax=True)
    rows = rows_of(other, problem)
    # Whatever the units: nobody exceeds every row by less.
    excess = excess_of(other, warm, rows)
    assert least_in_units(other, lin(list(rows.bound + excess)), np.ones(d)) >= -1e-7


@pytest.mark.parametrize("seed", range(5))
def test_the_least_violating_policy_does_not_depend_on_the_start(seed: int) -> None:
    mdp = random_model(seed, 6, 3, 5, 2)
    axes = np.eye(3)
    least = np.array([-best_total(mdp, -axes[1 + i]) for i in range(2)])
    problem = lin(list(least - 0.3))
    cold = CG.plan(mdp, problem, relax=True)
    warm = CG.plan(mdp, problem, CG.plan(mdp, lin(middle(mdp, 0.6))).start, relax=True)
    again = CG.plan(mdp, problem, cold.start, relax=True)
    for other in (warm, again):
        assert other.costs == pytest.approx(cold.costs, abs=1e-6)
        assert other.objective == pytest.approx(cold.objective, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_limits_that_conflict_only_together(seed: int) -> None:
    """Each can be kept alone; together they cannot."""
    mdp = still([0.0, 1.0, 0.3], [[0.0, 1.0], [1.0, 0.0], [0.6, 0.6]], 4)
    problem = lin([1.0 + 0.1 * seed, 1.2])
    plan = CG.plan(mdp, problem, relax=True)
    assert_least_violating(mdp, problem, plan, units_of(mdp, problem))


def test_a_concave_convex_constraint_that_cannot_be_met() -> None:
    """The value vector nearest to what is allowed: with one limit, the least cost."""
    mdp = random_model(1, 5, 3, 4, 1)
    least = -best_total(mdp, np.array([0.0, -1.0]))
    problem = conrl.ConcaveConvex(lambda x: x, lambda c: c[0] - (least - 0.5))
    with pytest.raises(conrl.InfeasibleError):
        CG.plan(mdp, problem)
    for start in (None, CG.plan(mdp, conrl.ConcaveConvex(lambda x: x, lambda c: c[0] - (least + 0.5))).start):
        plan = CG.plan(mdp, problem, start, relax=True)
        assert plan.status == "infeasible"
        assert plan.costs[0] == pytest.approx(least, abs=1e-5)


@pytest.mark.parametrize(
    ("planner", "problem"),
    [
        (conrl.LinearProgram(), lin([-1.0, 2.0])),
        (conrl.LinearProgram(), lin([1.0, 1.2])),
        (conrl.LinearProgram(), lin([1.0, None], [2.0, None])),
        (conrl.ConvexProgram(), conrl.ConcaveConvex(lambda x: x, [lambda c: c[0] - 1.0, lambda c: c[1] - 1.2])),
        (conrl.ConvexProgram(), conrl.ConcaveConvex(lambda x: x, [lambda c: c[0] - 1.0, lambda c: 2.0 - c[0]])),
    ],
    ids=["alone", "together", "floor above limit", "constraint", "two constraints"],
)
@pytest.mark.parametrize("bonus", [0.0, 0.01])
def test_full_programs_relax_as_column_generation_does(planner: Any, problem: Any, bonus: float) -> None:
    """What cannot be kept is an error or, relaxed, the same least-violating plan; nothing is remembered."""
    mdp = still([0.0, 1.0, 0.3], [[0.0, 1.0], [1.0, 0.0], [0.6, 0.6]], 4).with_bonus(np.full((1, 3), bonus))
    with pytest.raises(conrl.InfeasibleError):
        planner.plan(mdp, problem)
    plan, expected = planner.plan(mdp, problem, relax=True), CG.plan(mdp, problem, relax=True)
    assert plan.status == expected.status == "infeasible"
    assert plan.start is None
    assert plan.costs.tolist() == expected.costs.tolist()
    assert plan.reward == expected.reward
    assert plan.rows == expected.rows
    assert_values(mdp, plan.policy, np.array([plan.reward, *plan.costs]))


@pytest.mark.parametrize("planner", [conrl.LinearProgram(), conrl.ConvexProgram()])
def test_full_programs_relax_nothing_that_can_be_kept(planner: Any) -> None:
    mdp = random_model(1, 5, 3, 4, 1)
    limit = middle(mdp, 0.5)[0]
    linear = conrl.Linear in planner.problems
    problem = lin([limit]) if linear else conrl.ConcaveConvex(lambda x: x, lambda c: c[0] - limit)
    plan, relaxed = planner.plan(mdp, problem), planner.plan(mdp, problem, CG.plan(mdp, lin([limit])).start, True)
    assert plan.status == relaxed.status == "optimal"
    assert plan.costs.tolist() == relaxed.costs.tolist()
    assert plan.start is relaxed.start is None


# -- infeasible estimates of a learner ------------------------------------------------------------------------


def bad_news(episodes: int, steps: int) -> list[conrl.Episode]:
    """Every action always costs 1: a limit of half that looks hopeless."""
    return [
        conrl.Episode([0] * (steps + 1), [k % 2] * steps, [float(k % 2)] * steps, [[1.0]] * steps)
        for k in range(episodes)
    ]


@pytest.mark.parametrize(
    "planner",
    [
        "column-generation",
        pytest.param("linear-program"),
    ],
)
def test_a_primed_learner_whose_limits_look_hopeless(planner: str) -> None:
    task = conrl.Task(1, 2, 4, [2.0], ["c"], initial=0)
    learner = conrl.ConRL(task, planner=planner)
    learner.prime(bad_news(20, 4))
    assert learner.proposal.infeasible
    assert isinstance(learner.propose(), conrl.Policy)


def test_infeasible_episodes_are_marked_and_least_violating() -> None:
    """The limit is below the least that is possible, which is known as soon as every action was tried."""
    mdp = still([0.0, 1.0, 0.5], [0.5, 1.0, 0.75], 4)  # least: 4 x 0.5 = 2
    PLANS.clear()
    planner, bonus = Twice(again=False), conrl.ScaledBonus(0.1, 0.0)
    learner = conrl.ConRL(mdp.task, problem=conrl.Linear([1.9]), planner=planner, bonus=bonus)
    history = conrl.learn(mdp, learner, 30)
    assert history.infeasible.any()
    for (plan, _), infeasible in zip(PLANS, history.infeasible, strict=True):
        assert (plan.status == "infeasible") == infeasible
        assert plan.mdp.bonus is not None
        hopes = float(plan.mdp.bonus[:, 1].max())  # of what was never tried
        assert hopes in (0.0, 0.25)
        least = -best_total(plan.mdp, np.array([0.0, -1.0]))
        assert plan.costs[0] - 4.0 * hopes == pytest.approx(least, abs=1e-9)


def test_caution_is_given_up_before_a_limit_is() -> None:
    """It lifts the least achievable cost above a limit that is exactly it: the second plan is without."""
    mdp = still([0.0, 1.0, 0.5], [0.5, 1.0, 0.75], 4)
    PLANS.clear()
    planner, bonus = Twice(again=False), conrl.ScaledBonus(0.1, -0.1)
    learner = conrl.ConRL(mdp.task, problem=conrl.Linear([2.0]), planner=planner, bonus=bonus)
    history = conrl.learn(mdp, learner, 30)
    assert not history.infeasible.any()
    assert {plan.status for plan, _ in PLANS} == {"optimal", "infeasible"}
    assert conrl.evaluate(mdp, learner.propose()).costs[0] == pytest.approx(2.0)


def test_two_infeasible_costs_are_marked_too() -> None:
    mdp = random_model(3, 5, 3, 4, 2)
    least = np.array([-best_total(mdp, -np.eye(3)[1 + i]) for i in range(2)])
    PLANS.clear()
    bonus = conrl.ScaledBonus(cost=0.0)
    learner = conrl.ConRL(mdp.task, problem=lin(list(least)), planner=Twice(), bonus=bonus)
    history = conrl.learn(mdp, learner, 40)
    assert history.infeasible.any()
    assert not history.infeasible.all()
    for (plan, cold), infeasible in zip(PLANS, history.infeasible, strict=True):
        assert (plan.status == "infeasible") == infeasible
        if infeasible:
            assert_least_violating(plan.mdp, lin(list(least)), cold, units_of(plan.mdp, lin(list(least))))

"""Which limits can be kept, how much room they leave, and the proof where they cannot."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from bank import (
    BAND,
    CASES,
    Case,
    assert_proof,
    best_total,
    least_violation,
    middle,
    random_model,
    rows_of,
    solve_lp,
    still,
)
from hypothesis import HealthCheck, given, settings
from strategies import Spec, specs

import conrl
from conrl.planners.feasibility import MOST_NEAR

CONFLICTS = [c for c in CASES.values() if not c.feasible]
FEASIBLE = [c for c in CASES.values() if c.feasible]


def extremes(mdp: conrl.ConstrainedMDP) -> tuple[list[float], list[float]]:
    axes = np.eye(1 + mdp.num_costs)[1:]
    return [-best_total(mdp, -w) for w in axes], [best_total(mdp, w) for w in axes]


def ask(mdp: conrl.ConstrainedMDP, problem: conrl.Linear) -> conrl.Feasibility:
    limits = np.full(mdp.num_costs, np.inf) if problem.limits is None else problem.limits
    return conrl.feasibility(mdp, limits, problem.floors)


def without(mdp: conrl.ConstrainedMDP, problem: conrl.Linear, dropped: str, conflict: tuple[str, ...]) -> conrl.Linear:
    """Only the rows of a conflict, less one."""
    limits, floors = np.full(mdp.num_costs, np.inf), np.full(mdp.num_costs, -np.inf)
    rows = rows_of(mdp, problem)
    for i, sign, bound in zip(rows.cost, rows.sign, rows.bound, strict=True):
        name = f"{mdp.cost_names[i]} {'<=' if sign > 0 else '>='} {sign * bound:.10g}"
        if name in conflict and name != dropped:
            (limits if sign > 0 else floors)[i] = sign * bound
    return conrl.Linear(limits, floors)


@pytest.mark.parametrize("case", CONFLICTS, ids=lambda c: c.name)
def test_conflicts_are_found_proven_and_irreducible(case: Case) -> None:
    found = ask(case.mdp, case.problem)
    assert not found.feasible
    assert set(found.conflict) == set(case.conflict)
    assert_proof(case.mdp, rows_of(case.mdp, case.problem), found)
    assert found.violation == pytest.approx(case.violation, rel=1e-9)
    for name in found.conflict:
        fewer = without(case.mdp, case.problem, name, found.conflict)
        assert ask(case.mdp, fewer).feasible
        assert least_violation(case.mdp, fewer) <= BAND


@pytest.mark.parametrize("case", FEASIBLE, ids=lambda c: c.name)
def test_what_can_be_planned_is_feasible(case: Case) -> None:
    found = ask(case.mdp, case.problem)
    assert found.feasible
    assert found.conflict == ()
    assert found.multipliers is None
    assert found.violation == 0.0
    least, greatest = extremes(case.mdp)
    scale = max([1.0, *map(abs, least), *map(abs, greatest)])
    assert found.least == pytest.approx(np.array(least), rel=1e-12, abs=1e-12 * scale)
    assert found.greatest == pytest.approx(np.array(greatest), rel=1e-12, abs=1e-12 * scale)


@pytest.mark.parametrize("seed", range(6))
def test_slack_is_how_far_one_limit_can_fall(seed: int) -> None:
    mdp = random_model(60 + seed, 9, 3, 5, 3)
    limits = np.array(middle(mdp, 0.8))
    found = conrl.feasibility(mdp, limits)
    assert found.feasible
    assert found.slack is not None
    for i in range(3):
        # The least of cost i with the other limits kept, from the independent program: reward -c_i.
        others = limits.copy()
        others[i] = np.inf
        alone = conrl.ConstrainedMDP(mdp.transitions, -mdp.costs[:, :, i], mdp.costs, 5)
        reference = solve_lp(alone, conrl.Linear(others))
        assert reference is not None
        assert found.slack[i] == pytest.approx(limits[i] + reference.value, abs=1e-8)
        lowered = limits.copy()
        lowered[i] -= found.slack[i] * (1.0 - 1e-6)
        assert conrl.feasibility(mdp, lowered).feasible
        lowered[i] = limits[i] - found.slack[i] - 1e-4
        assert not conrl.feasibility(mdp, lowered).feasible


def test_slack_closed_forms() -> None:
    mdp = CASES["infeasible together"].mdp  # cost0 + cost1 = 4
    found = conrl.feasibility(mdp, [3.0, 2.5])
    assert found.slack == pytest.approx(np.array([1.5, 1.5]))
    assert found.least.tolist() == [0.0, 0.0]
    assert found.greatest.tolist() == [4.0, 4.0]
    tight = conrl.feasibility(mdp, [1.5, 2.5])
    assert tight.feasible
    assert tight.slack == pytest.approx(np.zeros(2), abs=1e-12)
    open_ = conrl.feasibility(mdp, [np.inf, 2.5])
    assert open_.slack is not None
    assert open_.slack[0] == np.inf
    assert open_.slack[1] == pytest.approx(2.5)


def test_default_limits_names_and_floors() -> None:
    mdp = still([0.0, 1.0], [[0, 1], [1, 0]], 4, cost_names=["fuel", "time"], limits=[1.0, 2.0])
    assert conrl.feasibility(mdp).conflict == ("fuel <= 1", "time <= 2")
    assert conrl.feasibility(mdp, {"fuel": 3.0}).feasible
    found = conrl.feasibility(mdp, {"fuel": 3.0}, floors={"fuel": 3.5})
    assert set(found.conflict) == {"fuel <= 3", "fuel >= 3.5"}
    with pytest.raises(conrl.ModelError, match="unknown cost 'feul'; did you mean 'fuel'"):
        conrl.feasibility(mdp, {"feul": 3.0})


def test_no_limits_at_all() -> None:
    found = conrl.feasibility(still([1.0, 2.0], [1.0, 3.0], 2))
    assert found.feasible
    assert found.least.tolist() == [2.0]
    assert found.greatest.tolist() == [6.0]
    assert found.slack is not None
    assert found.slack.tolist() == [np.inf]
    none = conrl.feasibility(still([1.0, 2.0], [], 2))
    assert none.feasible
    assert none.least.size == none.greatest.size == 0


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_random_limits(spec: Spec) -> None:
    """The verdict outside the band; every proof holds; every conflict is irreducible."""
    mdp, problem = spec.build()
    found = conrl.feasibility(mdp, problem.limits, problem.floors)
    truth = least_violation(mdp, problem)
    if found.feasible:
        assert truth <= BAND
        assert found.slack is not None
        assert (found.slack >= 0.0).all()
        return
    assert truth >= -BAND
    assert_proof(mdp, rows_of(mdp, problem), found)
    for name in found.conflict:
        assert least_violation(mdp, without(mdp, problem, name, found.conflict)) <= BAND
    assert_nearest(mdp, problem, found)


def assert_nearest(mdp: conrl.ConstrainedMDP, problem: conrl.Linear, found: conrl.Feasibility) -> None:
    """What each row of a conflict can be brought to, by the independent program."""
    if len(found.conflict) > MOST_NEAR:
        assert found.nearest is None
        return
    assert found.nearest is not None
    for name, nearest in zip(found.conflict, found.nearest, strict=True):
        i = next(i for i, cost in enumerate(mdp.cost_names) if name.startswith((f"{cost} <=", f"{cost} >=")))
        sign = 1.0 if f"{mdp.cost_names[i]} <=" in name else -1.0
        alone = conrl.ConstrainedMDP(
            mdp.transitions,
            -sign * mdp.costs[..., i],
            mdp.costs,
            mdp.horizon,
            initial=mdp.initial,
            available=mdp.available,
        )
        reference = solve_lp(alone, without(mdp, problem, name, found.conflict))
        if reference is not None:  # within the band either answer is right
            assert nearest == pytest.approx(-sign * reference.value, abs=1e-6 * max(1.0, *np.abs(found.greatest)))


@pytest.mark.parametrize("seed", range(8))
def test_how_near_one_can_come_is_said_and_can_be_had(seed: int) -> None:
    """Three limits below what can be had together; the error's words, taken for limits, can be planned."""
    mdp = random_model(160 + seed, 9, 3, 5, 3)
    found = conrl.feasibility(mdp, middle(mdp, 0.5))
    limits = np.where(np.arange(3) == seed % 3, found.least + 1e-3, np.array(middle(mdp, 0.3)))
    with pytest.raises(conrl.InfeasibleError) as caught:
        conrl.plan(mdp, limits)
    proof = caught.value.feasibility
    assert_nearest(mdp, conrl.Linear(limits), proof)
    told = re.findall(r"(?:with (.*?), )?(\w+) can be as low as ([-+.e\d]+)", str(caught.value).split(";", 1)[1])
    assert len(told) == len(proof.conflict)
    for others, cost, value in told:
        asked = {name.split(" <= ")[0]: float(name.split(" <= ")[1]) for name in others.split(" and ") if name}
        assert conrl.feasibility(mdp, {**asked, cost: float(value)}).feasible
        assert not conrl.feasibility(mdp, {**asked, cost: float(value) * (1.0 - 1e-4) - 1e-6}).feasible


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_limits_below_the_least_are_always_a_conflict_alone(spec: Spec) -> None:
    if not spec.costs:
        return
    spec = replace(spec, limits=("below",) + ("none",) * (len(spec.costs) - 1), floors=("none",) * len(spec.costs))
    mdp, problem = spec.build()
    found = conrl.feasibility(mdp, problem.limits)
    assert len(found.conflict) == 1
    assert found.multipliers is not None
    assert found.multipliers.tolist() == [1.0]
    assert found.violation == pytest.approx(float(found.least[0]) - np.asarray(problem.limits)[0], rel=1e-9)


def test_the_error_says_what_conflicts_and_survives_pickling() -> None:
    mdp = still([1.0, 1.0], [[1, 0], [0, 1]], 4, cost_names=["fuel", "time"])
    with pytest.raises(conrl.InfeasibleError) as caught:
        conrl.plan(mdp, conrl.Linear([1.5, 1.25]))
    error = caught.value
    assert str(error) == (
        "infeasible: fuel <= 1.5 and time <= 1.25 cannot be kept together; "
        "with time <= 1.25, fuel can be as low as 2.75; with fuel <= 1.5, time can be as low as 2.5"
    )
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is conrl.InfeasibleError
    assert str(again) == str(error)
    assert again.feasibility.conflict == error.feasibility.conflict
    assert again.feasibility.violation == error.feasibility.violation
    assert again.feasibility.multipliers is not None
    assert error.feasibility.multipliers is not None
    assert again.feasibility.multipliers.tolist() == error.feasibility.multipliers.tolist()
    assert isinstance(error, conrl.ConRLError)
    with pytest.raises(conrl.InfeasibleError, match=r"infeasible: fuel <= -1 cannot be kept; fuel can be as low as 0$"):
        conrl.plan(mdp, conrl.Linear([-1.0, 10.0]))


def test_an_infeasible_error_comes_back_whole_from_a_worker() -> None:
    error = conrl.InfeasibleError("no", conrl.feasibility(conrl.envs.box()))
    error.key = ("limits",)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.key, again.feasibility.feasible) == ("no", ("limits",), True)

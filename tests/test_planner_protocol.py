"""The protocol of planners: anybody's planner plans, learns, is saved and resumes; what breaks it is told in a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank import random_model
from pages import ROOT

import conrl
from conrl.model.transform import with_own_steps
from conrl.planners import PLANNERS, Planner
from conrl.running import ModelWorld


class Tightening:
    """Remembers how often it planned, and what it last cost: each call plans for less than the limit, by both."""

    name = "tightening"
    problems = (conrl.Linear,)

    def plan(
        self,
        mdp: conrl.ConstrainedMDP,
        problem: Any,
        start: Mapping[str, Any] | None = None,
        relax: bool = False,
    ) -> conrl.Plan:
        _, rows = problem.bind(mdp)
        calls, last = (0, rows.bound) if start is None else (int(start["calls"]), start["last"])
        share = 1.0 / (1.0 + 0.1 * calls)
        limits = np.full(mdp.num_costs, np.inf)
        limits[rows.cost] = share * np.minimum(rows.bound, 0.5 * rows.bound + 0.5 * last)
        plan = conrl.ColumnGeneration().plan(mdp, conrl.Linear(limits), relax=relax)
        return replace(plan, problem=problem, start={"calls": np.array(calls + 1), "last": plan.costs[rows.cost]})


MDP = random_model(1, 5, 3, 4, 1)
LIMITS = [1.5]


def learner() -> conrl.ConRL:
    return conrl.ConRL(MDP.task, problem=LIMITS, planner=Tightening())


def test_built_in_planners_keep_to_the_protocol() -> None:
    for kind in (*PLANNERS.values(), Tightening):
        assert isinstance(kind(), Planner)


def test_a_planner_of_ones_own_plans() -> None:
    plan = conrl.plan(MDP, LIMITS, planner=Tightening())
    assert plan.costs[0] <= 1.5 + 1e-9
    again = Tightening().plan(MDP, conrl.Linear(LIMITS), plan.start)
    assert again.costs[0] < plan.costs[0] - 0.05  # what it remembers changes its answers
    assert plan.start is not None
    assert again.start is not None
    assert (int(plan.start["calls"]), int(again.start["calls"])) == (1, 2)


@pytest.mark.parametrize("cut", [1, 4, 9])
def test_a_planner_of_ones_own_learns_and_resumes_exactly(cut: int, tmp_path: Path) -> None:
    whole = conrl.learn(MDP, learner(), 12, seed=5)
    first = learner()
    history = conrl.learn(MDP, first, cut, seed=5)
    first.propose()  # not observed: it leaves no trace
    first.save(tmp_path / "learner.npz")
    assert int(first.state()["start_calls"]) == cut
    with pytest.raises(conrl.SpecError, match="planner cannot be stored in a file; pass load_learner"):
        conrl.load_learner(tmp_path / "learner.npz")
    second = conrl.load_learner(tmp_path / "learner.npz", planner=Tightening())
    assert conrl.learn(MDP, second, 12 - cut, seed=5, history=history).to_csv() == whole.to_csv()
    forgetful = conrl.load_learner(tmp_path / "learner.npz", planner=Tightening())
    forgetful._start = None  # without its start the run is another one
    assert not np.array_equal(forgetful.proposal.policy.probabilities, second.proposal.policy.probabilities) or (
        forgetful._plan.costs[0] != second._plan.costs[0]
    )


def test_proposing_twice_plans_from_the_same_start() -> None:
    one, other = learner(), learner()
    world = ModelWorld(MDP)
    for k in range(4):
        policy = one.propose()
        one._forget_proposal()
        one.propose()
        one.reseed(0)
        other.reseed(0)
        policy = other.propose()
        assert np.array_equal(one.propose().probabilities, policy.probabilities)
        episode = world.play(policy, np.random.default_rng(k))
        one.observe(episode)
        other.observe(episode)
        assert int(one.state()["start_calls"]) == int(other.state()["start_calls"]) == k + 1


def test_a_file_with_a_start_of_another_planner_is_refused(tmp_path: Path) -> None:
    first = learner()
    conrl.learn(MDP, first, 2)
    first.save(tmp_path / "learner.npz")
    other = conrl.load_learner(tmp_path / "learner.npz", planner="column-generation")
    expected = "start is not that of column generation, or damaged; leave it out: it holds calls, last"
    with pytest.raises(conrl.RunError, match=expected):
        other.propose()


# -- what breaks the protocol -----------------------------------------------------------------------------


class Nameless:
    problems = (conrl.Linear,)

    def plan(self, mdp: Any, problem: Any, start: Any = None, relax: bool = False) -> Any:
        return conrl.plan(mdp, problem)


class Answers(Nameless):
    name = "answers"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def plan(self, mdp: Any, problem: Any, start: Any = None, relax: bool = False) -> Any:
        return self.answer if not callable(self.answer) else self.answer(conrl.plan(mdp, problem))


class Old(Nameless):
    name = "old"

    def plan(self, mdp: Any, problem: Any) -> Any:  # type: ignore[override]
        return conrl.plan(mdp, problem)


class Elsewhere(Nameless):
    name = "elsewhere"
    problems = (conrl.Knapsack,)  # type: ignore[assignment]


BROKEN: dict[str, tuple[Any, str]] = {
    "no plan": (object(), "planner is <object object.*; it must be one of column-generation, .* an object with name"),
    "no name": (Nameless(), "an object with name, problems and plan"),
    "a class": (conrl.ColumnGeneration, "it must be one of column-generation"),
    "a name": ("colum-generation", "unknown planner 'colum-generation'; did you mean 'column-generation'"),
    "no start": (Old(), r"'old': .*; its plan must be plan\(mdp, problem, start=None, relax=False\)"),
    "other problems": (Elsewhere(), "'elsewhere' does not take Linear problems; 'column-generation' or"),
    "no Plan": (Answers((1.0, [0.5])), r"'answers' returned \(1.0, \[0.5\]\); it must return a conrl.Plan"),
    "nothing": (Answers(None), "'answers' returned None; it must return a conrl.Plan"),
    "another problem": (
        Answers(lambda p: conrl.plan(p.mdp, [9.0])),
        r"'answers' returned a plan of another problem, Linear\(limits=\[9\]\); it was asked about Linear",
    ),
    "start a number": (Answers(lambda p: replace(p, start=3)), "the start that planner 'answers' returned is 3; it"),
    "start a list": (Answers(lambda p: replace(p, start={"x": [1.0]})), "a mapping from names to numpy arrays"),
    "start of objects": (Answers(lambda p: replace(p, start={"x": np.array([{}])})), "mapping from names to numpy"),
    "start unnamed": (Answers(lambda p: replace(p, start={1: np.zeros(1)})), "a mapping from names to numpy arrays"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_breaks_the_protocol_is_told_in_one_line(how: str) -> None:
    planner, message = BROKEN[how]
    for call in (
        lambda: conrl.plan(MDP, LIMITS, planner=planner),
        lambda: conrl.ConRL(MDP.task, problem=LIMITS, planner=planner).propose(),
    ):
        with pytest.raises(conrl.SpecError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_plan_keeps_its_limits_or_says_that_it_does_not() -> None:
    problem = conrl.Linear(LIMITS)
    loose = replace(conrl.plan(MDP, [9.0]), problem=problem)
    assert loose.costs[0] > LIMITS[0]
    with pytest.raises(conrl.SpecError, match=r"'answers' returned a plan that does not keep .* <= 1.5: it costs \d"):
        conrl.plan(MDP, problem, planner=Answers(loose))
    for status in ("approximate", "infeasible"):
        said = replace(loose, status=status)
        assert conrl.plan(MDP, problem, planner=Answers(said)).status == status
    floor = conrl.Linear(floors=[loose.costs[0]])
    least = replace(conrl.plan(MDP, problem), problem=floor)
    with pytest.raises(conrl.SpecError, match=r"does not keep .* >= "):
        conrl.plan(MDP, floor, planner=Answers(least))
    kept = conrl.plan(MDP, problem)
    nearly = replace(kept, costs=kept.costs + 1e-8)
    told = conrl.plan(MDP, LIMITS, planner=Answers(nearly))  # the same problem, said twice
    assert told.costs[0] == pytest.approx(kept.costs[0], abs=1e-12)  # what it is, not what was said


def test_a_plan_is_judged_by_its_policy_and_not_by_what_it_says() -> None:
    rover = conrl.envs.mars_rover(rock_reward=1.0)
    each = conrl.Linear({"crash": 0.3}, per_step={"crash": 0.01})
    without = replace(conrl.plan(rover, {"crash": 0.3}), problem=each)
    with pytest.raises(conrl.SpecError, match=r"does not keep crash at step \d+ <= 0.01: it costs 0.1"):
        conrl.plan(rover, each, planner=Answers(without))
    good = conrl.plan(MDP, LIMITS)
    r, c = good.reward, float(good.costs[0])
    values = good.values + 0.5
    worse = conrl.plan(MDP, [0.9 * c])
    lies: dict[str, dict[str, Any]] = {
        rf"whose reward is {r + 0.1:.6g}\d*; of its policy it is {r:.6g}": {"reward": r + 0.1},
        r"whose cost of 'cost' is 0.5; of its policy": {"costs": np.array([0.5])},
        rf"whose objective is .*; of its policy it is {r:.6g}.*plan_of": {"objective": r - 0.1},
        r"whose value vector of policy 0 is": {"values": values},
        rf"whose bound is .*; its own policy reaches {r:.6g}": {"bound": r - 0.01},
        r"whose weights is .*; expected probabilities": {"weights": 2.0 * good.weights},
        r"whose skip is 0.5; expected": {"skip": 0.5},
        r"whose bound is nan; expected a number or None": {"bound": np.nan},
        r"whose multipliers is .*; expected 1 finite numbers": {"multipliers": np.zeros(0)},
        r"whose make_policy makes 3; expected a conrl.Policy": {"make_policy": lambda i: 3},
        r"whose policies cannot be made: ZeroDivisionError": {"make_policy": lambda i: 1 // 0},
        r"whose reward is .*; of its policy": {  # another policy than the one that it tells of
            "make_policy": lambda i: worse.policy,
            "weights": np.ones(1),
            "values": np.array([[r, c]]),
        },
    }
    for message, changed in lies.items():
        with pytest.raises(conrl.ConRLError, match=f"^planner 'answers' returned a plan {message}") as caught:
            conrl.plan(MDP, LIMITS, planner=Answers(replace(good, **changed)))
        assert "\n" not in str(caught.value)
    made_up = replace(conrl.plan(MDP, [9.0]), problem=good.problem, costs=np.array([1.0]), reward=9.0)
    with pytest.raises(conrl.SpecError, match=r"that does not keep cost <= 1.5"):
        conrl.plan(MDP, LIMITS, planner=Answers(made_up))


def test_a_plan_that_is_not_ours_lists_its_rows_and_says_whose_its_bound_is() -> None:
    ours = conrl.plan(MDP, LIMITS)
    bare = replace(ours, checked=None, bound=ours.objective + 1.0)
    told = conrl.plan(MDP, LIMITS, planner=Answers(bare))
    assert [(row.name, row.bound) for row in told.rows] == [(row.name, row.bound) for row in ours.rows]
    assert told.rows[0].price == pytest.approx(ours.rows[0].price)
    assert told.gap == pytest.approx(1.0)
    assert told.message.endswith("; the bound is what planner 'answers' claims, and not proven")
    assert ours.message == "the gap is within the tolerance"


def test_plans_of_functions_are_judged_too() -> None:
    import cvxpy as cp

    least = conrl.feasibility(MDP, [9.0]).least[0]
    problem = conrl.ConcaveConvex(lambda x: cp.sqrt(x), lambda c: c[0] - (least + 0.1))
    wraps = Answers(conrl.ColumnGeneration().plan(MDP, problem))
    wraps.problems = (conrl.ConcaveConvex,)  # type: ignore[assignment]
    assert conrl.plan(MDP, problem, planner=wraps).reward == pytest.approx(wraps.answer.reward)
    wraps.answer = conrl.planners.plan_of(MDP, problem, conrl.plan(MDP, [9.0]).policy, status="optimal")
    with pytest.raises(conrl.SpecError, match="does not keep constraint 1 <= 0"):
        conrl.plan(MDP, problem, planner=wraps)


def test_plan_of_fills_in_what_a_policy_comes_to() -> None:
    ours = conrl.plan(MDP, LIMITS)
    for policy in (ours.policy, ours.mixture):
        plan = conrl.planners.plan_of(
            MDP, ours.problem, policy, bound=ours.bound, status="optimal", multipliers=ours.multipliers
        )
        assert plan.reward == pytest.approx(ours.reward)
        assert plan.costs == pytest.approx(ours.costs)
        assert plan.rows[0].value == pytest.approx(ours.rows[0].value)
        assert conrl.plan(MDP, LIMITS, planner=Answers(plan)).rows == plan.rows
    best = MDP.with_bonus(np.full((5, 3, 2), 0.1))
    ours = conrl.plan(best, LIMITS)
    plan = conrl.planners.plan_of(best, ours.problem, ours.policy, multipliers=ours.multipliers)
    assert plan.objective == pytest.approx(ours.objective)
    assert ours.costs[0] - plan.rows[0].value == pytest.approx(0.1 * MDP.horizon)  # the best case of each step
    bag = conrl.Knapsack([3.0], 10)
    ours = conrl.plan(MDP, bag)
    plan = conrl.planners.plan_of(MDP, bag, ours.policy, skip=ours.skip)
    assert (plan.reward, plan.costs[0]) == pytest.approx((ours.reward, ours.costs[0]))
    for wrong in (
        {"policy": 3},
        {"status": "good"},
        {"skip": 0.5},
        {"multipliers": [1.0, 2.0]},
        {"multipliers": [-1.0]},
    ):
        call: dict[str, Any] = {"policy": plan.policy, **wrong}
        with pytest.raises(conrl.SpecError, match=f"^{next(iter(wrong))} is "):
            conrl.planners.plan_of(MDP, conrl.Linear(LIMITS), **call)


def test_the_planner_of_the_docs_plans_as_ours_do() -> None:
    page = (ROOT / "docs" / "how-to" / "plug-ins.md").read_text()
    (text,) = re.findall(r"^```python my_planner.py\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    space: dict[str, Any] = {"__name__": "my_planner"}
    exec(text.replace('@conrl.planners.register("scipy-lp")\n', ""), space)
    planner = space["ScipyLP"]()
    planner.name = "scipy-lp"
    rover = conrl.envs.mars_rover(rock_reward=1.0)
    for mdp, problem in (
        (rover, conrl.Linear({"crash": 0.2}, per_step={"crash": 0.01})),
        (rover, conrl.Linear({"crash": 0.3}, chance={"crash": (0, 0.2)})),
        (rover, conrl.Linear(floors={"crash": 2.0 / 3.0})),
        (MDP.with_bonus(np.full((5, 3, 2), 0.05)), conrl.Linear([1.5], floors=[1.0])),
        (with_own_steps(MDP), conrl.Linear(LIMITS)),
        (MDP, conrl.Linear()),
    ):
        plan, ours = conrl.plan(mdp, problem, planner=planner), conrl.plan(mdp, problem)
        assert plan.objective == pytest.approx(ours.objective, abs=1e-6)
        assert [row.name for row in plan.rows] == [row.name for row in ours.rows]
    with pytest.raises(conrl.InfeasibleError, match="cannot be kept"):
        conrl.plan(MDP, [-1.0], planner=planner)
    conrl.learn(rover, conrl.ConRL(rover.task, planner=planner), 3)  # with a bonus, and relaxed where it must be
    with pytest.raises(conrl.SpecError, match="needs a model with a horizon"):
        conrl.plan(MDP.replace(horizon=conrl.Discounted(0.9)), LIMITS, planner=planner)


def test_a_tolerance_is_for_planners_that_have_one() -> None:
    assert conrl.plan(MDP, LIMITS, planner="column-generation", tol=1e-3).status == "optimal"
    for planner in (Tightening(), conrl.Lagrangian()):
        with pytest.raises(conrl.SpecError, match="has no tolerance; leave tol out"):
            conrl.plan(MDP, LIMITS, planner=planner, tol=1e-3)


def test_a_linear_program_says_its_size_and_stops_in_time() -> None:
    told: list[str] = []
    box = conrl.envs.box()
    found = conrl.plan(box, planner="linear-program", time_limit=3600, report=told.append)
    assert found.reward == pytest.approx(conrl.plan(box).reward, abs=1e-8)
    size = "a linear program of 14,520 columns, 3,631 rows and 65,548 entries"  # H P, H S and a limit
    assert told == [f"solving {size}"]
    with pytest.raises(conrl.RunError, match=f"HiGHS ended as Time limit reached on {size}; raise time_limit"):
        conrl.plan(box, planner="linear-program", time_limit=0.0)


@pytest.mark.parametrize("planner", ["column-generation", "lagrangian"])
def test_other_planners_have_no_time_limit_and_no_report(planner: str) -> None:
    with pytest.raises(conrl.SpecError, match=f"planner '{planner}' has no time limit; leave time_limit out"):
        conrl.plan(conrl.envs.box(), planner=planner, time_limit=1.0)
    with pytest.raises(conrl.SpecError, match="report goes with confidence or planner='linear-program'"):
        conrl.plan(conrl.envs.box(), planner=planner, report=print)
    with pytest.raises(conrl.SpecError, match="report is 3; it must be a function of a text"):
        conrl.plan(conrl.envs.box(), planner=planner, report=3)  # type: ignore[call-overload]

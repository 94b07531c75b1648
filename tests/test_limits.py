"""Limits: said in one way everywhere, bound once for each plan, and changed while a learner learns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank import random_model

import conrl
from conrl import problem as problems
from conrl.learners.base import BaseLearner
from conrl.model import limits as home
from conrl.problem import as_problem
from conrl.running import ModelWorld

INF = float("inf")


def two_costs() -> conrl.ConstrainedMDP:
    base = random_model(3, 6, 3, 5, 2)
    return conrl.ConstrainedMDP(
        base.transitions, base.rewards, base.costs, 5, limits=[INF, 2.5], cost_names=("repairs", "fuel")
    )


MDP = two_costs()
SAID: dict[str, Any] = {
    "mapping": {"repairs": 1.5},
    "list": [1.5, None],
    "tuple": (1.5, INF),
    "array": np.array([1.5, INF]),
    "problem": conrl.Linear({"repairs": 1.5}),
}


def names(learner: Any) -> tuple[str, ...]:
    """The rows of the limits that a learner has now."""
    bound: tuple[str, ...] = learner.problem.bind(MDP)[1].names
    return bound


def rows(said: Any) -> list[str]:
    return [row.name for row in conrl.plan(MDP, said).rows]


# -- one way to say it --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", SAID)
def test_every_call_takes_limits_however_they_are_said(how: str) -> None:
    said = SAID[how]
    plan = conrl.plan(MDP, said)
    assert [row.name for row in plan.rows] == ["repairs <= 1.5"]
    assert plan.rows[0].bound == 1.5
    assert plan.rows[0].value == pytest.approx(plan.costs[0])
    assert conrl.plan(MDP, limits=said).reward == plan.reward
    assert conrl.feasibility(MDP, said).feasible
    slack = conrl.feasibility(MDP, said).slack
    assert slack is not None
    assert np.isfinite(slack).tolist() == [True, False]
    curve = conrl.frontier(MDP, "fuel", limits=said)
    assert curve.rewards[-1] == pytest.approx(plan.reward)
    assert [r.name for r in conrl.plan(MDP, curve.linear(9.0)).rows] == ["repairs <= 1.5", "fuel <= 9"]
    task = conrl.Task(6, 3, 5, said, ("repairs", "fuel"))
    assert np.asarray(task.limits).tolist() == [1.5, INF]
    assert np.asarray(MDP.replace(limits=said).limits).tolist() == [1.5, INF]


SAFE = conrl.Deterministic(np.zeros((MDP.horizon, MDP.num_states), dtype=int), MDP.num_actions)
LEARNERS: dict[str, Callable[..., Any]] = {
    "conrl": conrl.ConRL,
    "optcmdp": conrl.OptCMDP,
    "opt-primal-dual": conrl.OptPrimalDual,
    "posterior-sampling": conrl.PosteriorSampling,
    "ucbvi": conrl.UCBVI,
    "tfw-ucrl2": conrl.TFWUCRL2,
    "rcpo": conrl.RCPO,
    "appropo": lambda task, **more: conrl.ApproPO(task, threshold=1.0, **more),
    "safe-conrl": lambda task, **more: conrl.SafeConRL(task, safe=SAFE, safe_costs=[1.0, 1.0], **more),
    "dope": lambda task, **more: conrl.DOPE(task, safe=SAFE, safe_costs=[1.0, 1.0], **more),
    "optpess-lp": lambda task, **more: conrl.OptPessLP(task, safe=SAFE, safe_costs=[1.0, 1.0], **more),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_takes_limits_however_they_are_said(name: str) -> None:
    for said in SAID.values():
        learner = LEARNERS[name](MDP.task, problem=said)
        assert names(learner) == ("repairs <= 1.5",)
        assert conrl.History(("repairs", "fuel"), learner.problem).limits.tolist() == [1.5, INF]
    assert names(LEARNERS[name](MDP.task)) == ("fuel <= 2.5",)  # the task's own
    with pytest.raises(conrl.ModelError, match="unknown cost 'repair'; did you mean 'repairs'"):
        LEARNERS[name](MDP.task, problem={"repair": 1.0})
    with pytest.raises(conrl.ModelError, match=r"limits has shape \(1,\); the model has 2 costs"):
        LEARNERS[name](MDP.task, problem=[1.0])
    with pytest.raises(conrl.SpecError, match=r"problem is 1\.5; it must be limits"):
        LEARNERS[name](MDP.task, problem=1.5)


def test_learn_sets_the_limits_before_it_learns() -> None:
    for said in SAID.values():
        learner = conrl.ConRL(MDP.task)
        history = conrl.learn(MDP, learner, 3, seed=1, problem=said)
        assert history.limits.tolist() == [1.5, INF]
        assert history.to_csv() == conrl.learn(MDP, conrl.ConRL(MDP.task, problem=said), 3, seed=1).to_csv()
    with pytest.raises(conrl.ModelError, match="did you mean 'repairs'"):
        conrl.learn(MDP, conrl.ConRL(MDP.task), 3, problem={"repair": 1.0})
    fresh = conrl.ConRL(MDP.task)
    knapsack = conrl.Knapsack({"repairs": 20.0}, 5)
    conrl.learn(MDP, fresh, 3, seed=1, problem=knapsack)  # before the first episode any kind that it takes
    assert fresh.budget is not None
    conrl.learn(MDP, fresh, 2, seed=1, problem=knapsack)  # the same one changes nothing
    assert fresh.episodes == 5


CALLS: dict[str, Callable[[Any], Any]] = {
    "plan": lambda said: conrl.plan(MDP, said),
    "plan limits": lambda said: conrl.plan(MDP, limits=said),
    "frontier": lambda said: conrl.frontier(MDP, "fuel", limits=said),
    "feasibility": lambda said: conrl.feasibility(MDP, said),
    "task": lambda said: conrl.Task(6, 3, 5, said, ("repairs", "fuel")),
    "learn": lambda said: conrl.learn(MDP, conrl.ConRL(MDP.task), 1, problem=said),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"repair": 1.0}, "unknown cost 'repair'; did you mean 'repairs'"),
        ({"crash": 1.0}, "unknown cost 'crash'; known: repairs, fuel"),
        ([1.0], r"limits has shape \(1,\); the model has 2 costs"),
        ([1.0, "a"], "limits is not an array of numbers"),
        ([True, 2.0], "limits holds True, a truth value"),
        ({"repairs": np.bool_(True)}, "a truth value"),
        (np.array([True, False]), "a truth value"),
        ([np.nan, 2.0], "limit of cost 'repairs' is nan"),
        ({"repairs": [1.0, 2.0]}, "expected one number"),
        (conrl.Linear({"fual": 1.0}), "did you mean 'fuel'"),
    ],
)
def test_bad_limits_are_told_in_one_line_by_every_call(call: str, said: Any, message: str) -> None:
    with pytest.raises(conrl.ModelError, match=message) as caught:
        CALLS[call](said)
    assert "\n" not in str(caught.value)


def test_what_is_no_limits_and_what_is_said_twice() -> None:
    for call in ("plan", "plan limits", "frontier", "feasibility", "learn"):
        for wrong in ("repairs", 3, conrl.Linear):
            with pytest.raises(
                conrl.SpecError, match=r"it must be limits, as \{'crash': 0.3\} or \[0.3\], or a problem"
            ):
                CALLS[call](wrong)
    for problem in ({"repairs": 1.0}, conrl.Knapsack([1.0, 1.0], 3)):
        with pytest.raises(conrl.SpecError, match="problem and limits were both given"):
            conrl.plan(MDP, problem, limits={"repairs": 1.0})
    floors = conrl.Linear({"repairs": 2.0}, {"repairs": 1.0})
    for call in ("frontier", "task"):
        with pytest.raises(conrl.ModelError, match="limits holds floors, and there can be none here"):
            CALLS[call](floors)
    with pytest.raises(conrl.SpecError, match="floors were given twice"):
        conrl.feasibility(MDP, floors, floors=[0.0, 0.0])
    assert not conrl.feasibility(MDP, {"repairs": 0.5}, floors={"repairs": 1.0}).feasible
    with pytest.raises(conrl.SpecError, match="feasibility takes limits or a Linear problem, not Knapsack"):
        conrl.feasibility(MDP, conrl.Knapsack([1.0, 1.0], 3))  # type: ignore[arg-type]


def test_nothing_given_is_the_default() -> None:
    assert as_problem(None, [1.0]) == conrl.Linear([1.0])
    assert as_problem(None) == conrl.Linear()
    assert rows(None) == ["fuel <= 2.5"]


# -- bound once ---------------------------------------------------------------------------------------------


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was resolved, call by call."""
    calls: list[str] = []
    own = home.resolve_limits

    def counted(limits: Any, cost_names: Any, what: str) -> Any:
        calls.append(what)
        return own(limits, cost_names, what)

    for module in (home, problems):
        monkeypatch.setattr(module, "resolve_limits", counted)
    return calls


BOTH = conrl.Linear({"repairs": 2.0}, {"fuel": 0.1})


@pytest.mark.parametrize("planner", ["column-generation", "linear-program", "lagrangian"])
@pytest.mark.parametrize(
    ("problem", "once"),
    [
        ({"repairs": 1.5}, ["limits"]),
        (BOTH, ["limits", "floors"]),
        (conrl.Knapsack({"repairs": 10.0}, 5), ["budgets"]),
    ],
)
def test_limits_are_resolved_once_for_a_plan(planner: str, problem: Any, once: list[str], resolved: list[str]) -> None:
    if planner == "lagrangian" and once == ["budgets"]:
        return
    fresh = dataclasses.replace(problem) if isinstance(problem, conrl.Linear) else problem  # bound to nothing yet
    plan = conrl.plan(MDP, fresh, planner=planner)
    assert resolved == once
    assert len(plan.rows) == len(plan.checked.rows.names)  # type: ignore[union-attr]
    assert resolved == once


def test_limits_are_resolved_once_for_all_episodes(resolved: list[str]) -> None:
    learner = conrl.ConRL(MDP.task, problem={"repairs": 1.5})
    before = len(resolved)
    conrl.learn(MDP, learner, 2, seed=0)
    learner.observe(ModelWorld(MDP).play(learner.propose(), np.random.default_rng(0)))
    assert len(resolved) == before
    learner.problem = {"repairs": 1.2}
    conrl.learn(MDP, learner, 2, seed=0)
    assert len(resolved) == before + 1


def test_rows_are_those_of_the_costs_that_a_model_has() -> None:
    problem = conrl.Linear({"repairs": 1.5})
    assert problem.bind(MDP)[1] is problem.bind(MDP.task)[1]
    turned = dataclasses.replace(MDP.task, cost_names=MDP.cost_names[::-1])
    assert [problem.bind(model)[1].cost.tolist() for model in (MDP, turned, MDP)] == [[0], [1], [0]]
    assert problem == conrl.Linear({"repairs": 1.5})
    assert repr(problem) == repr(conrl.Linear({"repairs": 1.5}))


def test_what_is_bound() -> None:
    for model in (MDP, MDP.task):
        same, bound = BOTH.bind(model)
        assert same is model
        assert bound.names == ("repairs <= 2", "fuel >= 0.1")
        assert (bound.cost.tolist(), bound.sign.tolist(), bound.bound.tolist()) == ([0, 1], [1.0, -1.0], [2.0, -0.1])
        assert bound.select([1]).names == ("fuel >= 0.1",)
        half = conrl.Knapsack({"fuel": 10.0}, 5, epsilon=0.5).bind(model)[1]
        assert half.names == ("fuel <= 1",)
        assert conrl.ConcaveConvex(lambda x: x).bind(model)[1].size == 0
    plan = conrl.plan(MDP, BOTH)
    repairs, fuel = plan.rows
    assert (repairs.name, repairs.bound, fuel.name, fuel.bound) == ("repairs <= 2", 2.0, "fuel >= 0.1", 0.1)
    assert [repairs.value, fuel.value] == pytest.approx(plan.costs.tolist())
    assert conrl.plan(MDP, conrl.ConcaveConvex(lambda x: x)).rows == ()


def test_multipliers_go_with_their_rows() -> None:
    old, new = BOTH.rows(MDP), conrl.Linear([INF, 3.0], [0.0, 0.2]).rows(MDP)
    assert new.carry(old, np.array([0.5, 0.7])).tolist() == [0.0, 0.0, 0.7]
    assert old.carry(new, np.array([1.0, 2.0, 3.0])).tolist() == [0.0, 3.0]
    assert not old.same_costs(new.cost, new.sign)
    assert old.equals(BOTH.rows(MDP.task))
    assert not old.equals(conrl.Linear({"repairs": 2.5}, {"fuel": 0.1}).rows(MDP))


# -- changed while learning ---------------------------------------------------------------------------------


def play(learner: Any, episodes: int, begin: int = 0) -> None:
    world = ModelWorld(MDP)
    for k in range(begin, begin + episodes):
        learner.observe(world.play(learner.propose(), np.random.default_rng(k), learner.room()))


def planned_costs(learner: Any) -> Any:
    """What the next plan of a ConRL learner costs, in the best case: that is what keeps the limits."""
    learner.propose()
    return learner._plan.checked.value


PLANNERS: dict[str, Any] = {
    "column-generation": "column-generation",
    "lagrangian": conrl.Lagrangian(300, 0.3, decay=True, keep_multipliers=True),
    "linear-program": "linear-program",
}


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("tighter", [{"repairs": 1.2}, [None, 2.0], conrl.Linear([1.5, 2.4], [0.1, -INF])])
def test_the_next_proposal_of_conrl_keeps_new_limits(planner: str, tighter: Any, tmp_path: Path) -> None:
    learner = conrl.ConRL(MDP.task, problem=[4.0, 4.0], planner=PLANNERS[planner], bonus=conrl.ScaledBonus(0.0, 0.0))
    play(learner, 30)
    before = learner.propose()
    learner.problem = tighter
    new = as_problem(tighter).bind(MDP)[1]
    assert learner.propose() is not before
    over = new.sign * planned_costs(learner) - new.bound
    assert (over <= (1e-9 if planner != "lagrangian" else 0.1)).all()
    learner.save(tmp_path / "learner.npz")
    again = conrl.load_learner(tmp_path / "learner.npz")
    assert names(again) == new.names
    assert np.array_equal(again.propose().probabilities, learner.propose().probabilities)
    play(learner, 3, 30)
    play(again, 3, 30)
    assert np.array_equal(again.propose().probabilities, learner.propose().probabilities)


def test_optcmdp_keeps_new_limits(tmp_path: Path) -> None:
    learner = conrl.OptCMDP(MDP.task, problem=[4.0, 4.0], seed=0)
    play(learner, 30)
    for limits in ({"repairs": 1.5}, {"repairs": 1.3}, {"fuel": 2.2}, [1.6, 2.4]):
        learner.problem = limits
        assert learner.prices is None or learner.prices.shape == (2,)
        fresh = conrl.OptCMDP(MDP.task, problem=limits, seed=0)
        fresh.counts, fresh._episodes = learner.counts, learner._episodes
        value = conrl.evaluate(learner.model, learner.policy)
        expected = conrl.evaluate(learner.model, fresh.policy)
        assert value.reward == pytest.approx(expected.reward, abs=1e-6)
        assert value.costs == pytest.approx(expected.costs, abs=1e-6)
        learner.save(tmp_path / "learner.npz")
        again = conrl.load_learner(tmp_path / "learner.npz")
        assert names(again) == names(learner)
        assert np.array_equal(again.propose().probabilities, learner.propose().probabilities)


@pytest.mark.parametrize("name", ["rcpo", "opt-primal-dual"])
def test_learners_by_multipliers_move_them_by_the_new_limits(name: str, tmp_path: Path) -> None:
    learner = LEARNERS[name](MDP.task, problem=[-1.0, -1.0], seed=0)
    play(learner, 5)
    repairs, fuel = learner.multipliers
    assert min(repairs, fuel) > 0.0
    learner.problem = {"fuel": 100.0}
    assert learner.multipliers.tolist() == [fuel]
    assert learner.prices.tolist() == [0.0, fuel]
    play(learner, 1, 5)
    assert learner.multipliers[0] < fuel  # far within the new limit
    learner.problem = [-1.0, 100.0]
    assert learner.multipliers.tolist()[0] == 0.0
    play(learner, 1, 6)
    assert learner.multipliers[0] > 0.0
    learner.save(tmp_path / "learner.npz")
    again = conrl.load_learner(tmp_path / "learner.npz")
    assert names(again) == ("repairs <= -1", "fuel <= 100")
    assert again.multipliers.tolist() == learner.multipliers.tolist()


def test_ucbvi_reports_against_new_limits() -> None:
    learner = conrl.UCBVI(MDP.task)
    play(learner, 2)
    policy = learner.propose()
    learner.problem = {"repairs": 0.5}
    assert np.array_equal(learner.propose().probabilities, policy.probabilities)
    assert names(learner) == ("repairs <= 0.5",)


def same_learner(one: Any, state: dict[str, Any], config: dict[str, Any]) -> bool:
    now = one.state()
    return one.config() == config and all(np.array_equal(now[name], array) for name, array in state.items())


REFUSED: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "another kind": (
        lambda: conrl.ConRL(MDP.task, problem=[4.0, 4.0]),
        conrl.Knapsack([20.0, 20.0], 50),
        "a Linear problem cannot become a Knapsack one after the first episode",
    ),
    "budgets": (
        lambda: conrl.ConRL(MDP.task, problem=conrl.Knapsack([200.0, 200.0], 50)),
        conrl.Knapsack([300.0, 300.0], 50),
        "budgets cannot be changed after the first episode; make another learner",
    ),
    "not of the planner": (
        lambda: conrl.ConRL(MDP.task, problem=[4.0, 4.0], planner="lagrangian"),
        conrl.ConcaveConvex(lambda x: x),
        "a Linear problem cannot become a ConcaveConvex one",
    ),
    "not of the learner": (
        lambda: conrl.OptCMDP(MDP.task),
        conrl.Knapsack([20.0, 20.0], 50),
        "optcmdp takes Linear problems, not Knapsack",
    ),
    "tfw-ucrl2": (lambda: conrl.TFWUCRL2(MDP.task), [1.0, 1.0], "the limits of tfw-ucrl2 are fixed when it is made"),
    "appropo": (
        lambda: conrl.ApproPO(MDP.task, threshold=1.0),
        [1.0, 1.0],
        "the limits of appropo are fixed when it is made; make another one with problem=",
    ),
    "unknown cost": (lambda: conrl.ConRL(MDP.task), {"fual": 1.0}, "did you mean 'fuel'"),
    "no limits": (lambda: conrl.ConRL(MDP.task), "fuel", "problem is 'fuel'; it must be limits"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_changed_is_refused_and_changes_nothing(why: str) -> None:
    make, problem, message = REFUSED[why]
    learner: BaseLearner = make()
    if learner.name != "tfw-ucrl2":
        play(learner, 3)
    before, policy = learner.problem, learner.propose()
    state, config = learner.state(), learner.config()
    with pytest.raises((conrl.SpecError, conrl.ModelError), match=message) as caught:
        learner.problem = problem
    assert "\n" not in str(caught.value)
    assert learner.problem is before
    assert learner.propose() is policy
    assert same_learner(learner, state, config)


def test_before_the_first_episode_conrl_takes_another_kind() -> None:
    learner = conrl.ConRL(MDP.task, planner="lagrangian")
    with pytest.raises(conrl.SpecError, match="'lagrangian' does not take Knapsack problems"):
        learner.problem = conrl.Knapsack([20.0, 20.0], 50)
    learner = conrl.ConRL(MDP.task)
    learner.problem = conrl.Knapsack([20.0, 20.0], 50)
    assert learner.budget is not None
    learner.problem = None
    assert names(learner) == ("fuel <= 2.5",)
    resolving = conrl.ConRL(MDP.task, problem=conrl.Knapsack([20.0, 20.0], 50), resolve=True)
    for wrong, message in (
        (conrl.Knapsack([20.0, 20.0], 50, 0.1), "resolve plans for all that is left"),
        ([1.0, 1.0], "resolve is for Knapsack problems"),
    ):
        with pytest.raises(conrl.SpecError, match=message):
            resolving.problem = wrong
        assert isinstance(resolving.problem, conrl.Knapsack)
        assert resolving.budget is not None


def test_the_same_limits_said_otherwise_change_nothing() -> None:
    for learner in (conrl.TFWUCRL2(MDP.task), conrl.ApproPO(MDP.task, threshold=1.0), conrl.ConRL(MDP.task)):
        policy = learner.propose()
        learner.problem = {"fuel": 2.5}
        assert learner.propose() is policy


# -- in a run -----------------------------------------------------------------------------------------------

CHANGED = {"repairs": 1.2}
MAKERS: dict[str, Callable[[], Any]] = {
    "conrl": lambda: conrl.ConRL(MDP.task, problem=[4.0, 4.0]),
    "optcmdp": lambda: conrl.OptCMDP(MDP.task, problem=[4.0, 4.0]),
    "opt-primal-dual": lambda: conrl.OptPrimalDual(MDP.task, problem=[4.0, 4.0]),
    "posterior-sampling": lambda: conrl.PosteriorSampling(MDP.task, problem=[4.0, 4.0]),
    "ucbvi": lambda: conrl.UCBVI(MDP.task, problem=[4.0, 4.0]),
    "rcpo": lambda: conrl.RCPO(MDP.task, problem=[4.0, 4.0]),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_history_keeps_its_limits_and_a_new_one_has_those_of_the_learner(name: str) -> None:
    learner = MAKERS[name]()
    history = conrl.learn(MDP, learner, 4, seed=1)
    later = conrl.learn(MDP, learner, 3, seed=1, history=history, problem=CHANGED)
    assert later is history
    assert history.limits.tolist() == [4.0, 4.0]
    assert names(learner) == ("repairs <= 1.2",)
    anew = conrl.learn(MDP, learner, 2, seed=1)
    assert anew.limits.tolist() == [1.2, INF]
    assert anew.optimum is not None
    assert anew.optimum.reward == pytest.approx(conrl.plan(MDP, CHANGED).reward)


@pytest.mark.parametrize("when", ["before it is saved", "after it is loaded"])
@pytest.mark.parametrize("name", MAKERS)
def test_limits_change_the_same_run_wherever_it_is_resumed(name: str, when: str, tmp_path: Path) -> None:
    """Saved around the change, it goes on as one that was never saved."""
    plain, saved = MAKERS[name](), MAKERS[name]()
    for learner in (plain, saved):
        conrl.learn(MDP, learner, 4, seed=1)
    if when == "before it is saved":
        saved.problem = CHANGED
    saved.save(tmp_path / "learner.npz")
    again = conrl.load_learner(tmp_path / "learner.npz")
    plain.problem = CHANGED
    if when == "after it is loaded":
        assert names(again) == ("repairs <= 4", "fuel <= 4")
        again.problem = CHANGED
    assert names(again) == names(plain) == ("repairs <= 1.2",)
    rest = conrl.learn(MDP, plain, 4, seed=1)
    assert conrl.learn(MDP, again, 4, seed=1).to_csv() == rest.to_csv()
    assert same_learner(again, plain.state(), plain.config())


def test_functions_of_a_concave_convex_problem_can_be_changed() -> None:
    learner = conrl.ConRL(MDP.task, problem=conrl.ConcaveConvex(lambda x: x, lambda c: c[0] - 4.0))
    play(learner, 5)
    learner.propose()
    tighter = conrl.ConcaveConvex(lambda x: x, lambda c: c[0] - 1.0)
    learner.problem = tighter
    fresh = conrl.ConRL(MDP.task, problem=tighter)
    fresh.counts, fresh._episodes = learner.counts, learner._episodes
    learner.propose()
    fresh.propose()
    assert learner._plan is not None
    assert fresh._plan is not None
    assert learner._plan.objective == pytest.approx(fresh._plan.objective, abs=1e-6)
    assert learner.prices is None

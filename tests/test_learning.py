"""ConRL and the learn loop: exact continuation, what a run reports, and that it learns.

Values are compared with plain dynamic programming, runs with runs that were saved and loaded between any two calls.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import cvxpy as cp
import gymnasium
import numpy as np
import pytest
from bank import lin, middle, random_model, still, value_of
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from launch import launch
from numpy.typing import NDArray

import conrl
from conrl import learners, theory
from conrl.episode import check_episode
from conrl.estimation.counts import Counts
from conrl.learners import Proposal
from conrl.learners.base import NEEDED, OPTIONAL, BaseLearner
from conrl.learners.saving import write_sealed
from conrl.problem import Problem
from conrl.running import GymnasiumWorld, ModelWorld, loop
from conrl.running.rows import Row
from conrl.running.worlds import with_coins
from conrl.signals import interruptible

Float = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]


def model(seed: int, d: int = 1, share: float = 0.5, **changes: Any) -> conrl.ConstrainedMDP:
    mdp = random_model(seed, 5, 3, 4, d)
    return mdp.replace(limits=middle(mdp, share), **changes)


def masked() -> conrl.ConstrainedMDP:
    mask = np.random.default_rng(17).random((6, 3)) < 0.6
    mask[:, 2] = True
    mdp = random_model(17, 6, 3, 4, 2, available=mask)
    return mdp.replace(limits=middle(mdp, 0.5))


def log_reward(x: Any) -> Any:
    return cp.log(0.5 + x)


def cap(c: Any) -> Any:
    return cp.norm(c) - 2.5


def own_bonus(visits: NDArray[np.int64], episode: int, task: conrl.Task) -> Float:
    return np.stack((0.3 / np.sqrt(1 + visits), -0.01 + 0.0 * visits), axis=1)


CONVEX = conrl.ConcaveConvex(log_reward, cap)

# name -> model, arguments of ConRL, what load_learner must be given again
LEARNERS: dict[str, tuple[conrl.ConstrainedMDP, dict[str, Any], dict[str, Any]]] = {
    "default": (model(1), {}, {}),
    "two costs": (model(3, 2), {}, {}),
    "three costs, theory": (model(4, 3), {"bonus": conrl.TheoryBonus(0.1)}, {}),
    "authors": (model(2), {"preset": "authors"}, {}),
    "authors, two costs": (model(3, 2), {"preset": "authors"}, {}),
    "lagrangian that decays": (
        model(2),
        {"planner": conrl.Lagrangian(7, 0.3, decay=True, keep_multipliers=True)},
        {},
    ),
    "knapsack": (model(5, 2), {"problem": conrl.Knapsack([20.0, 31.7], 14, 0.1)}, {}),
    "knapsack, resolved": (model(5, 2), {"problem": conrl.Knapsack([20.0, 31.7], 14), "resolve": True}, {}),
    "concave-convex": (model(3, 2), {"problem": CONVEX}, {"problem": CONVEX}),
    "unknown start": (model(6, initial=[0.3, 0.0, 0.2, 0.5, 0.0]), {}, {}),
    "masked": (masked(), {}, {}),
    "linear-program": (model(1), {"planner": "linear-program", "bonus": conrl.ScaledBonus(0.1, 0.1)}, {}),
    "own bonus": (model(1), {"bonus": own_bonus}, {"bonus": own_bonus}),
    "no costs": (conrl.ConstrainedMDP(np.full((2, 2, 2), 0.5), [[0.0, 1], [0.5, 0.2]], None, 3), {}, {}),
    "floors": (model(7, 2), {"problem": lin([2.0, np.inf], [-np.inf, 1.0])}, {}),
    "policies not kept": (model(1), {"keep_policies": False}, {}),
}


def make(name: str, **more: Any) -> tuple[conrl.ConstrainedMDP, conrl.ConRL]:
    mdp, arguments, _ = LEARNERS[name]
    return mdp, conrl.ConRL(mdp.task, **(arguments | more))


def assert_same_policy(one: conrl.Policy, two: conrl.Policy) -> None:
    assert type(one) is type(two)
    assert one.shape == two.shape
    if isinstance(one, conrl.Deterministic):
        assert isinstance(two, conrl.Deterministic)
        assert np.array_equal(one.actions, two.actions)
    elif not isinstance(one, conrl.Null):
        assert one.probabilities.tobytes() == two.probabilities.tobytes()


def assert_same_arrays(one: Arrays, two: Arrays) -> None:
    assert one.keys() == two.keys()
    for name, array in one.items():
        other = np.asarray(two[name])
        assert np.asarray(array).dtype == other.dtype
        assert np.asarray(array).tobytes() == other.tobytes(), name


# -- propose and observe --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEARNERS)
def test_saved_and_loaded_between_any_two_calls(name: str, tmp_path: Path) -> None:
    """One learner is left alone; the other is saved and loaded before and after every proposal and observation."""
    mdp, left_alone = make(name, seed=5)
    other = make(name, seed=5)[1]
    world, path = ModelWorld(mdp), tmp_path / "learner.npz"

    def again(learner: conrl.ConRL) -> conrl.ConRL:
        learner.save(path)
        loaded: conrl.ConRL = conrl.load_learner(path, **LEARNERS[name][2])
        assert_same_arrays(learner.state(), loaded.state())
        return loaded

    for k in range(12):
        other = again(other)
        other.propose()
        if k % 3:
            other = again(other)  # with a proposal that was not yet observed
        proposal, theirs = left_alone.proposal, other.proposal
        assert_same_policy(proposal.policy, theirs.policy)
        assert_same_policy(proposal.intended, theirs.intended)
        assert (proposal.guarded, proposal.infeasible) == (theirs.guarded, theirs.infeasible)
        episode = world.play(proposal.policy, np.random.default_rng([9, k]), left_alone.room())
        assert_same_arrays(dict(enumerate(left_alone.room())), dict(enumerate(other.room())))  # type: ignore[arg-type]
        left_alone.observe(episode)
        if k % 4 == 3:
            other = again(other)  # observed by one that has not proposed
        other.observe(episode)
        assert_same_arrays(left_alone.state(), other.state())
    assert other.episodes == 12


@pytest.mark.parametrize("name", LEARNERS)
def test_a_proposal_stays_until_it_is_observed(name: str) -> None:
    mdp, learner = make(name, seed=1)
    world = ModelWorld(mdp)
    for k in range(5):
        policy = learner.propose()
        state = learner.state()
        assert learner.propose() is policy
        assert learner.proposal.policy is policy
        _ = learner.policy
        assert learner.propose() is policy
        assert_same_arrays(state, learner.state())
        learner.observe(world.play(policy, np.random.default_rng(k), learner.room()))


def test_observing_needs_no_proposal() -> None:
    mdp, one = make("authors", seed=1)
    _, two = make("authors", seed=1)
    world, uniform = ModelWorld(mdp), conrl.Policy(np.full((4, 5, 3), 1 / 3))
    for k in range(6):
        episode = world.play(uniform, np.random.default_rng(k))
        one.propose()
        one.observe(episode)
        two.observe(episode)
        assert_same_arrays(one.state(), two.state())


@pytest.mark.parametrize(
    "name", ["default", "authors", "knapsack, resolved", "unknown start", "masked", "concave-convex"]
)
def test_a_run_in_two_parts_is_one_run(name: str, tmp_path: Path) -> None:
    mdp, learner = make(name)
    half = 7 if "knapsack" in name else 12 if name == "concave-convex" else 40
    whole = conrl.learn(mdp, learner, 2 * half, seed=11)
    _, first = make(name)
    history = conrl.learn(mdp, first, half, seed=11)
    assert history.to_csv() == "".join(whole.to_csv().splitlines(keepends=True)[: half + 1])
    first.save(tmp_path / "learner.npz")
    second = conrl.load_learner(tmp_path / "learner.npz", **LEARNERS[name][2])
    assert second.episodes == half
    assert second.seed == learner.seed == 11
    history = conrl.learn(mdp, second, half, seed=11, history=history)
    assert history.to_csv() == whole.to_csv()
    assert_same_arrays(learner.state(), second.state())


def test_six_hundred_episodes_in_two_parts(tmp_path: Path) -> None:
    for mdp, half in ((model(1), 300), (conrl.envs.mars_rover(rock_reward=1.0), 50)):
        learner = conrl.ConRL(mdp.task)
        whole = conrl.learn(mdp, learner, 2 * half, seed=0)
        first = conrl.ConRL(mdp.task)
        history = conrl.learn(mdp, first, half, seed=0)
        first.save(tmp_path / "a.npz")
        second = conrl.load_learner(tmp_path / "a.npz")
        conrl.learn(mdp, second, half, seed=0, history=history)
        assert history.to_csv() == whole.to_csv()
        assert_same_arrays(learner.state(), second.state())


def test_seeds() -> None:
    mdp = model(1)

    def run(seed: Any) -> str:
        return conrl.learn(mdp, conrl.ConRL(mdp.task), 25, seed=seed).to_csv()

    assert run(3) == run(3)
    assert run(3) != run(4)
    assert run(np.random.default_rng(7)) == run(np.random.default_rng(7))
    assert run(np.random.default_rng(7)) != run(np.random.default_rng(8))
    assert run(np.int64(3)) == run(3)
    generator = np.random.default_rng(7)
    assert run(generator) != run(generator)  # it moves on
    before = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    run(3)
    assert np.array_equal(before, np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": -1}, "episodes is -1"),
        ({"episodes": 2.5}, "episodes is 2.5"),
        ({"episodes": True}, "episodes is True"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"pay": "mean"}, "pay is 'mean'"),
        ({"cost": lambda *a: 0.0}, "cost is for Gymnasium"),
        ({"env": model(1, 2)}, "the learner's task has"),
        ({"env": "mars-rover"}, "not str"),
    ],
)
def test_runs_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    learner = conrl.ConRL(model(1).task)
    call: dict[str, Any] = {"env": model(1), "learner": learner, "episodes": 1} | arguments
    with pytest.raises(conrl.SpecError, match=message):
        conrl.learn(**call)
    assert learner.episodes == 0


def test_no_episodes_at_all() -> None:
    history = conrl.learn(model(1), conrl.ConRL(model(1).task), 0)
    assert len(history) == 0
    assert history.rewards.shape == (0,)
    assert history.costs.shape == (0, 1)
    assert history.regret.reward.shape == (0,)
    assert history.solved_from is None
    assert history.violations.tolist() == [0]
    assert history.to_csv().count("\n") == 1


# -- presets --------------------------------------------------------------------------------------------------


def test_presets_and_what_overrides_them() -> None:
    task = model(1).task
    default, authors = conrl.ConRL(task), conrl.ConRL(task, preset="authors")
    assert isinstance(default.planner, conrl.ColumnGeneration)
    assert default.bonus == conrl.AdaptiveBonus()
    assert authors.planner == conrl.Lagrangian(10, 0.2, keep_multipliers=True, returns="average-multiplier")
    assert authors.bonus == conrl.ScaledBonus(0.001, 0.001, relative=False, bounded=False)
    assert (default.play, authors.play) == ("markov", "mixture")
    other = conrl.ConRL(task, preset="authors")
    assert other.planner is not authors.planner  # each keeps multipliers of its own
    mixed = conrl.ConRL(task, preset="authors", planner="linear-program")
    assert isinstance(mixed.planner, conrl.LinearProgram)
    assert mixed.bonus == authors.bonus
    mixed = conrl.ConRL(task, preset="authors", bonus=conrl.TheoryBonus(0.2))
    assert mixed.bonus == conrl.TheoryBonus(0.2)
    assert mixed.planner == authors.planner
    assert conrl.ConRL(task).problem.limits == task.limits  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "author"}, "unknown preset 'author'; did you mean 'authors'"),
        ({"planner": "colum-generation"}, "unknown planner 'colum-generation'; did you mean 'column-generation'"),
        ({"planner": 3}, "planner is 3; it must be one of column-generation"),
        ({"planner": "lagrangian", "problem": conrl.Knapsack([1.0], 5)}, "'lagrangian' does not take Knapsack"),
        ({"planner": "convex-program"}, "'convex-program' does not take Linear"),
        ({"preset": "authors", "problem": CONVEX}, "does not take ConcaveConvex"),
        ({"bonus": 0.1}, "bonus is 0.1"),
        ({"problem": 0.3}, "problem is 0.3; it must be limits"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
    ],
)
def test_learners_that_make_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(conrl.SpecError, match=message):
        conrl.ConRL(model(1).task, **arguments)


def test_a_learner_needs_a_task() -> None:
    with pytest.raises(conrl.SpecError, match=r"mdp\.task"):
        conrl.ConRL(model(1))  # type: ignore[arg-type]


# -- files ----------------------------------------------------------------------------------------------------


SAVED: dict[str, bytes] = {}  # files by the name of the learner


def saved(tmp_path: Path, name: str = "two costs") -> Path:
    path = tmp_path / "learner.npz"
    if name not in SAVED:
        mdp, learner = make(name)
        conrl.learn(mdp, learner, 4, seed=2)
        learner.save(path)
        SAVED[name] = path.read_bytes()
    path.write_bytes(SAVED[name])
    return path


def arrays_of(path: Path) -> Arrays:
    """All arrays of a file but its seal."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "seal"}


def test_what_holds_functions_is_to_be_given_again(tmp_path: Path) -> None:
    path = saved(tmp_path, "concave-convex")
    with pytest.raises(conrl.SpecError, match=r"learner\.npz: its problem .*problem="):
        conrl.load_learner(path)
    path = saved(tmp_path, "own bonus")
    with pytest.raises(conrl.SpecError, match=r"its bonus .*bonus="):
        conrl.load_learner(path)
    with pytest.raises(conrl.SpecError, match="speed is no part"):
        conrl.load_learner(path, bonus=own_bonus, speed=3)
    assert conrl.load_learner(path, bonus=own_bonus).episodes == 4


def test_a_seed_of_numpy_can_be_saved(tmp_path: Path) -> None:
    learner = make("default", seed=np.int64(3))[1]
    learner.save(tmp_path / "learner.npz")
    assert conrl.load_learner(tmp_path / "learner.npz").seed == 3


def test_only_npz(tmp_path: Path) -> None:
    learner = make("default")[1]
    with pytest.raises(conrl.SpecError, match=r"\.npz"):
        learner.save(tmp_path / "learner.pkl")
    with pytest.raises(conrl.ModelError, match="no such file"):
        conrl.load_learner(tmp_path / "learner.npz")
    assert list(tmp_path.iterdir()) == []


CHANGES: dict[str, Any] = {
    "format": {"format": np.array("conrl-model")},
    "version": {"version": np.array(99)},
    "no config": {"config": None},
    "no json": {"config": np.array("{")},
    "json of something": {"config": np.array("[]")},
    "no episodes": {"state_episodes": None},
    "no counts": {"state_counts_order": None},
    "counts of text": {"state_counts_visits": np.array(["a"])},
    "policies of another shape": {"state_policy_actions": np.zeros((4, 2, 2), dtype=np.uint8)},
    "policies of other actions": {"state_policy_actions": np.full((9, 4, 5), 77, dtype=np.uint8)},
}
CONTENTS: dict[str, Any] = {
    "json of a number": {"config": np.array("5")},
    "json of nothing": {"config": np.array("null")},
    "json without end": {"config": np.array("[" * 100_000)},
    "negative episodes": {"state_episodes": np.array(-3)},
    "half an episode": {"state_episodes": np.array(2.5)},
    "negative primed": {"state_primed": np.array(-1)},
}
STARTS: dict[str, Any] = {
    "unknown part": {"state_start_speed": np.zeros(3)},
    "half a start": {"state_start_multipliers": None},
    "no numbers": {"state_start_directions": np.full((2, 3), np.nan)},
    "no directions": {"state_start_directions": np.zeros(3)},
    "negative multipliers": {"state_start_multipliers": np.array([-1.0, -1.0])},
}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *CHANGES.items(),
        *CONTENTS.items(),
    ],
)
def test_damaged_learners_are_refused(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    path = saved(tmp_path)
    arrays: dict[str, Any] = {k: v for k, v in (arrays_of(path) | change).items() if v is not None}
    np.savez(path, **arrays)
    with pytest.raises((conrl.RunError, conrl.ModelError), match=r"learner\.npz: .*(seal|format|version)"):
        conrl.load_learner(path)
    write_sealed(path, arrays)
    with pytest.raises((conrl.RunError, conrl.ModelError), match=r"learner\.npz: (?!.*seal)"):
        conrl.load_learner(path)


@pytest.mark.parametrize("change", STARTS.values(), ids=STARTS)
def test_a_damaged_start_is_refused_by_its_planner(change: dict[str, Any], tmp_path: Path) -> None:
    """Only the planner knows what it left for itself: the first proposal refuses it."""
    path = saved(tmp_path)
    write_sealed(path, {k: v for k, v in (arrays_of(path) | change).items() if v is not None})
    learner = conrl.load_learner(path)
    with pytest.raises(conrl.RunError, match=r"start is not that of .*; leave it out"):
        learner.propose()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_bytes_changed_at_random(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = saved(tmp_path_factory.mktemp("learner"))
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(raw[: data.draw(st.sampled_from([len(raw), len(raw) // 3]))]))
    message = path.name
    try:
        learner = conrl.load_learner(path)
        assert isinstance(learner.propose(), conrl.Policy)
    except conrl.ConRLError as error:
        message = str(error)
    assert path.name in message


SMALL: Any = st.sampled_from([None, 0, -1, 2, 0.5, "x", "", [], {}, [1], True, math.inf])


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_settings_changed_at_random(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever the JSON says: a learner, or one line that names the file."""
    path = saved(tmp_path_factory.mktemp("learner"))
    arrays: dict[str, Any] = dict(arrays_of(path))
    config = json.loads(str(arrays["config"]))
    at = config
    key = data.draw(st.sampled_from(sorted(config)))
    while isinstance(at[key], dict) and data.draw(st.booleans()):
        at = at[key]
        key = data.draw(st.sampled_from(sorted(at)))
    at[key] = data.draw(SMALL)
    write_sealed(path, arrays | {"config": np.array(json.dumps(config))})
    message = path.name
    try:
        assert isinstance(conrl.load_learner(path), conrl.ConRL)
    except conrl.ConRLError as error:
        message = str(error)
    assert path.name in message


# -- logged data ----------------------------------------------------------------------------------------------


def logged(mdp: conrl.ConstrainedMDP, episodes: int, seed: int = 0) -> list[conrl.Episode]:
    world, rng = ModelWorld(mdp), np.random.default_rng(seed)
    table = np.where(mdp.available, 1.0, 0.0)
    table = np.tile(table / table.sum(axis=1, keepdims=True), (mdp.horizon, 1, 1))
    return [world.play(conrl.Policy(table), rng) for _ in range(episodes)]


@pytest.mark.parametrize("name", ["default", "unknown start", "masked", "knapsack", "authors"])
def test_priming_counts_as_playing_does(name: str) -> None:
    mdp, primed = make(name, seed=1)
    episodes = logged(mdp, 8)
    assert primed.prime(iter(episodes)) == 8
    reference = Counts(mdp.task)
    for e in episodes:
        reference.add(e)
    assert_same_arrays(primed.counts.state(), reference.state())
    assert primed.primed == 8
    assert primed.episodes == 0
    if name == "knapsack":
        assert primed.budget is not None
        assert (primed.budget.spent == 0.0).all()


def test_priming_drops_the_proposal_and_its_multipliers() -> None:
    """Primed after a proposal that was not observed: as if that had never been made."""
    mdp, one = make("authors", seed=1)
    _, two = make("authors", seed=1)
    conrl.learn(mdp, one, 5, seed=1)
    conrl.learn(mdp, two, 5, seed=1)
    before = one.propose()
    for learner in (one, two):
        learner.prime(logged(mdp, 200))
    assert one.propose() is not before
    assert_same_policy(one.propose(), two.propose())
    assert_same_arrays(one.state(), two.state())


def test_a_misfit_refuses_the_whole_log() -> None:
    mdp, learner = make("default", seed=1)
    policy, before = learner.propose(), learner.state()
    wrong = conrl.Episode([0, 9], [0], [0.0], [[0.0]])
    with pytest.raises(conrl.RunError, match="episode 4 of the log: state 9 was seen"):
        learner.prime([*logged(mdp, 3), wrong])
    assert learner.propose() is policy
    assert_same_arrays(before, learner.state())


def test_a_primed_learner_does_better_at_first() -> None:
    mdp = model(1)
    plain, primed = [], []
    for seed in range(3):
        learner = conrl.ConRL(mdp.task)
        plain.append(conrl.learn(mdp, learner, 15, seed=seed))
        learner = conrl.ConRL(mdp.task)
        learner.prime(logged(mdp, 600, seed))
        primed.append(conrl.learn(mdp, learner, 15, seed=seed))
    regret = [max(h.regret.reward[-1], h.regret.cost[-1]) for h in plain]
    after = [max(h.regret.reward[-1], h.regret.cost[-1]) for h in primed]
    assert np.mean(after) < 0.5 * np.mean(regret)
    assert max(after) < 0.15


# -- that it learns -------------------------------------------------------------------------------------------


def risky() -> conrl.ConstrainedMDP:
    """Safe pays 0.2; risky pays 1 and costs 1 with probability 1/2, and then one state is lost for a step."""
    P = np.zeros((2, 2, 2))
    P[0, 0], P[0, 1], P[1, :, 0] = [1.0, 0.0], [0.5, 0.5], 1.0
    rewards, costs = np.zeros((2, 2, 2)), np.zeros((2, 2, 2, 1))
    rewards[0, 0], rewards[0, 1, 0], costs[0, 1, 1, 0] = 0.2, 1.0, 1.0
    return conrl.ConstrainedMDP(P, rewards, costs, 5, limits=[0.6])


@pytest.mark.parametrize("setting", ["linear", "knapsack", "concave-convex"])
def test_it_converges_to_the_exact_optimum(setting: str) -> None:
    """On a tiny model, reward and cost of the last episodes within 3% of the optimum."""
    mdp = risky()
    episodes = 400
    problem: Any = {
        "linear": conrl.Linear([0.6]),
        "knapsack": conrl.Knapsack([0.6 * 1000], 1000),
        "concave-convex": conrl.ConcaveConvex(lambda x: cp.sqrt(x), lambda c: cp.square(c[0]) - 0.36),
    }[setting]
    best = conrl.plan(mdp, problem)
    assert best.costs[0] == pytest.approx(0.6, abs=1e-4)  # it binds
    last, tail = [], []
    for seed in range(2 if setting != "concave-convex" else 1):
        learner = conrl.ConRL(mdp.task, problem=problem, bonus=conrl.ScaledBonus(0.5, 0.0))
        history = conrl.learn(mdp, learner, episodes, seed=seed)
        assert not history.guarded.any()
        assert history.executed is not None
        value = conrl.evaluate(mdp, learner.policy)
        last.append([value.reward, *value.costs])
        tail.append(history.executed[150:].mean(axis=0))
    for found, share in ((last, 0.03), (tail, 0.05)):  # the latter is of draws from the mixtures
        reward, cost = np.mean(found, axis=0)
        assert reward == pytest.approx(best.reward, rel=share)
        assert cost == pytest.approx(0.6, rel=share)


def test_it_converges_with_an_unknown_start_and_several_costs() -> None:
    mdp = model(4, 2, initial=[0.5, 0.5, 0.0, 0.0, 0.0])
    best = conrl.plan(mdp)
    learner = conrl.ConRL(mdp.task)
    history = conrl.learn(mdp, learner, 400, seed=1)
    value = conrl.evaluate(mdp, learner.policy)
    assert value.reward == pytest.approx(best.reward, rel=0.03)
    assert mdp.limits is not None
    assert (value.costs <= mdp.limits * 1.03).all()
    assert np.abs(learner.model.initial - mdp.initial).max() <= 0.1
    assert history.expected_rewards is not None
    assert history.expected_rewards[200:].mean() == pytest.approx(best.reward, rel=0.03)


@pytest.mark.parametrize("pay", ["outcome", "bernoulli"])
def test_the_theory_holds_in_every_episode(pay: str) -> None:
    """With Eq. (bonus): valid, optimistic, and the decomposition of Proposition 3.3; rewards not in [0, 1] too."""
    truth = conrl.ConstrainedMDP(
        [[[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.5], [0.1, 0.9]]],
        [[0.0, 3.0], [1.0, -1.0]],
        [[[0.0], [2.0]], [[0.5], [1.0]]],
        3,
    ).replace(limits=[2.0], reward_range=(-2.0, 3.0), cost_ranges=[(0.0, 2.5)])
    best = conrl.plan(truth)
    pi = best.policy
    bonus = conrl.TheoryBonus(0.5)
    learner = conrl.ConRL(truth.task, bonus=bonus)
    history = None
    for k in range(1, 61):
        mixture = learner.policy
        estimate = learner.model
        assert estimate.counts is not None
        table = bonus(estimate.counts.reshape(-1), k, truth.task).reshape(2, 2, 2)
        assert theory.is_valid(truth, estimate, table, pi)
        optimistic = theory.enhanced(estimate, table)
        assert theory.is_optimistic(optimistic, truth, pi)
        assert (theory.optimism(optimistic, truth, pi) >= -1e-9).all()
        split = theory.decomposition(optimistic, truth, mixture, optimum=best.reward, limits=[2.0])
        assert split.holds(1e-7)
        planned = conrl.evaluate(optimistic, mixture)
        assert planned.reward >= best.reward - 1e-7  # optimism: the plan promises at least the optimum
        assert planned.costs[0] <= 2.0 + 1e-7
        history = conrl.learn(truth, learner, 1, seed=3, history=history, pay=pay)
    assert history is not None
    assert not history.infeasible.any()


def test_regret_falls() -> None:
    learner = conrl.ConRL(risky().task, bonus=conrl.ScaledBonus(0.5, 0.0))
    history = conrl.learn(risky(), learner, 500, seed=1)
    worst = np.maximum(np.maximum(history.regret.reward, history.regret.cost), 0.0)
    assert worst[-1] < 0.3 * worst[20:40].mean()


# -- the policies it offers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["default", "two costs", "authors", "linear-program", "knapsack", "unknown start", "masked"]
)
def test_the_average_policy_is_worth_the_mean(name: str, tmp_path: Path) -> None:
    mdp, learner = make(name, **({"guard": False} if name == "knapsack" else {}))
    history = conrl.learn(mdp, learner, 14, seed=3)
    assert history.executed is not None
    value = conrl.evaluate(mdp, learner.average_policy)
    assert [value.reward, *value.costs] == pytest.approx(history.executed.mean(axis=0), abs=1e-12)
    assert learner.average_policy.weights.sum() == pytest.approx(1.0)
    learner.save(tmp_path / "learner.npz")
    other = conrl.load_learner(tmp_path / "learner.npz").average_policy
    assert conrl.evaluate(mdp, other).reward == pytest.approx(value.reward, abs=1e-12)


def test_no_average_without_policies() -> None:
    mdp, learner = make("policies not kept")
    conrl.learn(mdp, learner, 3)
    with pytest.raises(conrl.RunError, match="keep_policies=True"):
        _ = learner.average_policy
    with pytest.raises(conrl.RunError, match="no episode"):
        _ = make("default")[1].average_policy


class Spy:
    """A planner that remembers its plans."""

    name = "spy"
    problems = (conrl.Linear, conrl.ConcaveConvex, conrl.Knapsack)

    def __init__(self) -> None:
        self.plans: list[conrl.Plan] = []

    def plan(self, mdp: conrl.ConstrainedMDP, problem: Any, start: Any = None, relax: bool = False) -> conrl.Plan:
        self.plans.append(conrl.plan(mdp, problem))
        return self.plans[-1]


@pytest.mark.parametrize("name", ["default", "two costs", "knapsack", "unknown start", "masked"])
def test_the_latest_policy_is_the_plan(name: str) -> None:
    """Its value in the empirical model is the plan's; each episode plays one of its components."""
    spy = Spy()
    bonus = conrl.ScaledBonus(0.1, 0.1, bounded=False)
    mdp, learner = make(name, planner=spy, bonus=bonus, play="mixture", seed=0)
    for k in range(10):
        mixture, plan = learner.policy, spy.plans[-1]
        if k:
            value = conrl.evaluate(learner.model, mixture)
            assert [value.reward, *value.costs] == pytest.approx([plan.reward, *plan.costs], abs=1e-9)
        skipped = [w for w, p in zip(mixture.weights, mixture.policies, strict=True) if isinstance(p, conrl.Null)]
        assert sum(skipped) == pytest.approx(plan.skip, abs=1e-12)
        tables = [None if isinstance(p, conrl.Null) else p.probabilities.tobytes() for p in mixture.policies]
        intended = learner.proposal.intended
        assert (None if isinstance(intended, conrl.Null) else intended.probabilities.tobytes()) in tables
        conrl.learn(mdp, learner, 1, seed=k)
    assert len(spy.plans) == 10


@pytest.mark.parametrize("name", ["default", "two costs", "knapsack", "unknown start", "masked"])
def test_the_markov_form_has_the_value_of_the_plan(name: str) -> None:
    """In the empirical model: what is played when an episode is not skipped is worth what the mixture is."""
    spy = Spy()
    mdp, learner = make(name, planner=spy, bonus=conrl.ScaledBonus(0.1, 0.1, bounded=False), seed=0)
    mixed = 0
    for k in range(14 if name == "knapsack" else 40):
        played, plan = learner.proposal.intended, spy.plans[-1] if spy.plans else None
        assert plan is not None
        if k and not isinstance(played, conrl.Null):
            value = conrl.evaluate(learner.model, played)
            whole = conrl.evaluate(
                learner.model, conrl.Mixture(plan.weights, [*learner.policy.policies[: plan.weights.size]])
            )
            assert [value.reward, *value.costs] == pytest.approx([whole.reward, *whole.costs], abs=1e-9)
            mixed += plan.weights.size > 1
        conrl.learn(mdp, learner, 1, seed=k)
    assert mixed or name == "knapsack"


def test_components_are_drawn_by_their_weight() -> None:
    mdp = still([0.0, 1.0], [0.0, 1.0], 1)
    drawn = []
    for seed in range(300):
        bonus = conrl.ScaledBonus(0.0, 0.0, unvisited=0.0)
        learner = conrl.ConRL(mdp.task, problem=lin([0.3]), bonus=bonus, play="mixture", seed=seed)
        learner.prime([conrl.Episode([0, 0], [a], [float(a)], [[float(a)]]) for a in (0, 1)])
        drawn.append(int(learner.propose().mode[0, 0]))
        assert learner.policy.weights.max() == pytest.approx(0.7)
    assert np.mean(drawn) == pytest.approx(0.3, abs=4.0 * math.sqrt(0.21 / 300))


def test_states_never_seen_play_an_action_that_exists() -> None:
    mdp, learner = make("masked")
    assert mdp.task.available is not None
    for k in range(6):
        table = learner.propose().probabilities
        assert not (table > 0.0)[:, ~mdp.task.available].any()
        assert np.abs(table.sum(axis=2) - 1.0).max() <= 1e-12
        conrl.learn(mdp, learner, 1, seed=k)


# -- sampling a model -----------------------------------------------------------------------------------------


def test_frequencies_of_starts_actions_outcomes_and_pay() -> None:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=(3, 2))
    P[1, 0] = [0.0, 1.0, 0.0]
    mdp = conrl.ConstrainedMDP(P, rng.random((3, 2, 3)), rng.random((3, 2, 3, 2)), 2, initial=[0.0, 0.6, 0.4])
    policy = conrl.Policy(rng.dirichlet(np.ones(2), size=(2, 3)))
    world, n = ModelWorld(mdp), 4000
    episodes = [world.play(policy, np.random.default_rng([1, k])) for k in range(n)]
    states, actions = (
        np.array([np.asarray(x) for x in y]) for y in zip(*((e.states, e.actions) for e in episodes), strict=True)
    )
    mu = mdp.initial
    for h in range(2):
        rho = mu[:, None] * policy.probabilities[h]
        found = np.zeros((3, 2, 3))
        np.add.at(found, (states[:, h], actions[:, h], states[:, h + 1]), 1.0 / n)
        expected = rho[:, :, None] * P
        assert (np.abs(found - expected) <= 5.0 * np.sqrt(expected * (1 - expected) / n) + 1e-12).all()
        mu = np.einsum("sa,sat->t", rho, P)
    table = np.zeros((3, 2, 3, 3))
    order = np.repeat(np.arange(mdp.num_pairs), np.diff(mdp.graph.start))
    assert mdp.outcome_pay is not None
    table[mdp.pair_state[order], mdp.action[order], mdp.graph.successor] = mdp.outcome_pay
    for e in episodes[:300]:
        s, a = np.asarray(e.states), np.asarray(e.actions)
        assert np.array_equal(e.pay, table[s[:-1], a, s[1:]])
        assert (e.stopped, e.terminated, e.skipped) == (False, False, False)
    totals = np.array([e.total for e in episodes])
    exact = value_of(mdp, policy.probabilities)
    assert (np.abs(totals.mean(axis=0) - exact) <= 5.0 * totals.std(axis=0) / math.sqrt(n)).all()


def test_bernoulli_pay() -> None:
    mdp = still([0.2, 0.9], [[-0.5, 3.0], [1.0, 4.5]], 3)
    task = conrl.Task(1, 2, 3, [1.0, 1.0], mdp.cost_names, 0, (0.0, 1.0), [(-1.0, 1.0), (3.0, 5.0)])
    world = ModelWorld(mdp, task, "bernoulli")
    pay = np.concatenate(
        [world.play(conrl.Deterministic([[1], [1], [1]], 2), np.random.default_rng(k)).pay for k in range(1500)]
    )
    assert set(pay[:, 0]) == {0.0, 1.0}
    assert set(pay[:, 1]) == {1.0}  # a mean at the edge of its range
    assert set(pay[:, 2]) == {3.0, 5.0}
    assert pay.mean(axis=0) == pytest.approx([0.9, 1.0, 4.5], abs=5.0 / math.sqrt(4500))
    assert abs(np.corrcoef(pay[:, 0], pay[:, 2])[0, 1]) <= 5.0 / math.sqrt(4500)
    with pytest.raises(conrl.SpecError, match="outside the task's ranges"):
        ModelWorld(mdp, conrl.Task(1, 2, 3, [1.0, 1.0], mdp.cost_names, 0), "bernoulli")


def test_bernoulli_pay_of_a_constant_cost() -> None:
    P = np.full((10, 1, 10), 0.1)
    rewards = np.random.default_rng(0).random((10, 1, 10))
    mdp = conrl.ConstrainedMDP(P, rewards, np.full((10, 1, 10, 1), 0.3), 3)
    with pytest.raises(
        conrl.SpecError, match=r"only the means of cost 'cost' are known, 0.3 to 0.3.*replace\(cost_ranges=\.\.\.\)"
    ):
        conrl.learn(mdp, conrl.ConRL(mdp.task), 2, pay="bernoulli")
    sure = mdp.replace(cost_ranges=[(0.3, 0.3)])
    assert conrl.learn(sure, conrl.ConRL(sure.task), 2, pay="bernoulli").costs == pytest.approx(0.9)
    coin = mdp.replace(cost_ranges=[(0.0, 1.0)])
    history = conrl.learn(coin, conrl.ConRL(coin.task), 200, pay="bernoulli")
    assert set(history.costs[:, 0]) == {0.0, 1.0, 2.0, 3.0}
    assert history.costs.mean() == pytest.approx(0.9, abs=5.0 * math.sqrt(3 * 0.21 / 200))


def test_bernoulli_pay_needs_a_range_that_is_not_of_the_means() -> None:
    """Pairs of 0.4 and 0.6 paid exactly that: drawn from the ends of the range of the means, they have no noise."""
    mdp = still([0.4, 0.6], [0.0, 1.0], 2)
    with pytest.raises(
        conrl.SpecError, match=r"only the means of the reward are known, 0.4 to 0.6; .*replace\(reward_range=\.\.\.\)"
    ):
        conrl.learn(mdp, conrl.ConRL(mdp.task), 1, pay="bernoulli")
    known = mdp.replace(reward_range=(0.0, 1.0))
    assert set(conrl.learn(known, conrl.ConRL(known.task), 30, pay="bernoulli").rewards) == {0.0, 1.0, 2.0}
    task = dataclasses.replace(mdp.task, reward_range=(0.2, 1.0))  # declared to the learner alone
    assert set(conrl.learn(mdp, conrl.ConRL(task), 30, pay="bernoulli").rewards.round(9)) == {0.4, 1.2, 2.0}
    tight = mdp.replace(reward_range=(0.4, 0.6))  # somebody said so
    assert set(conrl.learn(tight, conrl.ConRL(tight.task), 30, pay="bernoulli").rewards.round(9)) <= {0.8, 1.0, 1.2}


def test_coins_where_nobody_declared_a_range() -> None:
    """What a study or the command line does: [0, 1] if all means lie in it, else it is to be declared."""
    found = with_coins(still([0.4, 0.6], [[0.0, 0.3], [0.5, 0.3]], 2)).task.ranges
    assert found.tolist() == [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    wide = still([0.4, 1.6], [[0.0], [0.5]], 2)
    with pytest.raises(conrl.SpecError, match=r"the means of the reward reach from 0.4 to 1.6; .* reward_range"):
        with_coins(wide)
    assert with_coins(wide.replace(reward_range=(0.0, 2.0))).task.ranges.tolist() == [[0.0, 2.0], [0.0, 1.0]]
    for name in ("mars-rover", "pricing"):  # they pay by outcome: nothing is to be declared
        mdp = conrl.envs.make(name)
        assert np.array_equal(with_coins(mdp).task.ranges, mdp.task.ranges)


def test_a_sampler_of_ones_own_may_be_correlated() -> None:
    mdp = model(1)
    asked: list[tuple[int, int, int]] = []

    def sampler(generator: np.random.Generator, s: int, a: int, t: int, mean: Float) -> Float:
        asked.append((s, a, t))
        assert np.array_equal(mean, [mdp.rewards[s, a], *mdp.costs[s, a]])
        mean[:] = 7.0  # a copy: nobody is hurt
        both = float(generator.random() < 0.5)
        return np.array([both, 1.0 - both])

    task = conrl.Task(5, 3, 4, [2.0], mdp.cost_names, 0)
    history = conrl.learn(mdp, conrl.ConRL(task), 100, pay=sampler)
    assert np.array_equal(history.rewards + history.costs[:, 0], np.full(100, 4.0))
    assert history.rewards.mean() == pytest.approx(2.0, abs=0.5)
    assert len(asked) == 400
    assert mdp.rewards.max() <= 1.0
    with pytest.raises(conrl.SpecError, match="the sampler gave shape"):
        conrl.learn(mdp, conrl.ConRL(task), 1, pay=lambda g, s, a, t, m: [1.0])
    with pytest.raises(conrl.RunError, match="reward nan"):
        conrl.learn(mdp, conrl.ConRL(task), 1, pay=lambda g, s, a, t, m: [math.nan, 0.0])


def test_one_action_and_a_policy_of_probabilities() -> None:
    code = (
        "import numpy as np, conrl; from conrl.running import ModelWorld\n"
        "mdp = conrl.ConstrainedMDP(np.ones((1, 1, 1)), [[1.0]], [[[0.5]]], 3, limits=[2.0])\n"
        "e = ModelWorld(mdp).play(conrl.Policy(np.ones((3, 1, 1))), np.random.default_rng(0))\n"
        "assert e.total.tolist() == [3.0, 1.5]\n"
        "h = conrl.learn(mdp, conrl.ConRL(mdp.task, planner='linear-program'), 3)\n"
        "assert h.rewards.tolist() == [3.0] * 3\n"
    )
    done = launch([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr


def test_actions_that_do_not_exist_are_refused() -> None:
    P = np.zeros((2, 2, 2))
    P[:, :, 1] = 1.0
    mdp = conrl.ConstrainedMDP(P, [[0.0, 0.0], [0.0, 0.5]], None, 2, available=[[True, False], [True, True]])
    play = conrl.Deterministic(np.ones((2, 2), dtype=int), 2)  # action 1 is missing in state 0
    with pytest.raises(conrl.ConRLError):
        ModelWorld(mdp).play(play, np.random.default_rng(0))


def test_a_task_that_knows_nothing_of_a_mask() -> None:
    P = np.zeros((3, 2, 3))
    P[:, :, 0], P[0, 0], P[1, 1] = 1.0, [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]
    P[0, 0, 0] = P[1, 1, 0] = 0.0
    rewards = np.array([[0.0, 0.0], [0.0, 0.5], [0.1, 0.0]])
    mdp = conrl.ConstrainedMDP(P, rewards, np.zeros((3, 2, 1)), 4, available=[[1, 0], [1, 1], [1, 0]])
    learner = conrl.ConRL(conrl.Task(3, 2, 4, [2.0], mdp.cost_names, 0))
    before = learner.state()
    with pytest.raises(conrl.ConRLError):
        conrl.learn(mdp, learner, 6)
    assert_same_arrays(before, learner.state())


# -- Gymnasium ------------------------------------------------------------------------------------------------


class Line(gymnasium.Env[int, int]):
    """Walk from 0 to 3; action 1 goes on with probability 0.7. To arrive ends it, with reward 1. Each step costs."""

    def __init__(self, **odd: Any) -> None:
        self.observation_space: Any = spaces.Discrete(4)
        self.action_space: Any = spaces.Discrete(2)
        self.odd = odd
        self.at = self.time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = self.time = 0
        return self.odd.get("first", 0), {}

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.time += 1
        self.at += int(action == 1 and self.np_random.random() < 0.7)
        ended = self.at == 3
        info = {"cost": self.odd.get("cost", 0.25 * action)}
        if "info" in self.odd:
            info = self.odd["info"]
        truncated = self.time >= self.odd.get("limit", 10**9)
        return self.odd.get("seen", self.at), self.odd.get("reward", float(ended)), ended, truncated, info


def line_task(**changes: Any) -> conrl.Task:
    return conrl.Task(4, 2, 6, [1.0], ["c"], **({"initial": 0} | changes))


def line_truth() -> conrl.ConstrainedMDP:
    P = np.zeros((4, 2, 4))
    P[np.arange(4), 0, np.arange(4)] = 1.0
    for s in range(3):
        P[s, 1, s + 1], P[s, 1, s] = 0.7, 0.3
    P[3, 1, 3] = 1.0
    rewards = np.zeros((4, 2, 4))
    rewards[2, 1, 3] = 1.0
    costs = np.zeros((4, 2, 1))
    costs[:3, 1] = 0.25
    return conrl.ConstrainedMDP(P, rewards, [costs[..., 0]], 6, limits=[1.0])


@pytest.mark.parametrize("initial", [0, None])
def test_early_termination_is_an_absorbing_state(initial: int | None) -> None:
    """Episodes end early; what is learned is worth, for any policy, what the true model with an absorbing end is."""
    task, truth, rng = line_task(initial=initial), line_truth(), np.random.default_rng(0)
    world = GymnasiumWorld(Line(), task)
    uniform = conrl.Policy(np.full((6, 4, 2), 0.5))
    counts = Counts(task)
    for _ in range(1200):
        episode = world.play(uniform, rng)
        check_episode(counts.task, episode)
        assert episode.terminated == (np.asarray(episode.states)[-1] == 3)
        assert len(episode) == 6 or episode.terminated
        assert np.asarray(episode.rewards).sum() == float(episode.terminated)
        counts.add(episode)
    learned = counts.full_model()
    assert learned.num_states == 5
    assert learned.counts is not None
    assert learned.counts[3].sum() == 0  # to arrive is to go to END, which is nobody's state
    for policy in (uniform, *(conrl.Policy(rng.dirichlet(np.ones(2), size=(6, 4))) for _ in range(5))):
        table = np.concatenate((policy.probabilities, np.tile([[[1.0, 0.0]]], (6, 1, 1))), axis=1)
        assert value_of(learned, table) == pytest.approx(value_of(truth, policy.probabilities), abs=0.06)


def test_learning_an_environment_that_ends_early() -> None:
    truth = line_truth()
    best = conrl.plan(truth)
    learner = conrl.ConRL(line_task())
    history = conrl.learn(Line(), learner, 400, seed=2)
    assert history.expected_rewards is None
    assert history.expected_costs is None
    assert history.executed is None
    assert history.optimum is None
    assert history.solved_from is None
    with pytest.raises(conrl.RunError, match="true model"):
        _ = history.regret
    value = conrl.evaluate(truth, learner.policy)
    assert value.reward == pytest.approx(best.reward, rel=0.03)
    assert value.costs[0] <= 1.0 * 1.05
    assert history.rewards[200:].mean() == pytest.approx(best.reward, abs=0.12)
    assert (history.steps <= 6).all()
    assert (history.steps < 6).any()
    assert history.unguarded_costs is not None
    assert np.array_equal(history.unguarded_costs, history.costs)
    assert "expected" not in history.to_csv()


def test_frozen_lake_as_its_dynamics_say() -> None:
    """Holes and the goal end an episode; a hole costs 1. Against `from_gymnasium`, which reads `P`."""
    cost = lambda s, a, t, reward, ended, *info: float(ended and reward == 0.0)  # noqa: E731
    env = gymnasium.make("FrozenLake-v1", is_slippery=True, disable_env_checker=True)
    truth = conrl.from_gymnasium(env, cost=cost, horizon=8, limits=[0.3])
    task = conrl.Task.from_gymnasium(env, horizon=8, limits=[0.3])
    assert task.initial is None
    world, rng = GymnasiumWorld(env, task, cost), np.random.default_rng(0)
    uniform = conrl.Policy(np.full((8, 16, 4), 0.25))
    episodes = [world.play(uniform, rng) for _ in range(1000)]
    learned = conrl.estimate(episodes, task=task)
    ended = [e for e in episodes if e.terminated]
    assert all(np.asarray(e.costs).sum() + np.asarray(e.rewards).sum() == 1.0 for e in ended)
    assert all(e.total.tolist() == [0.0, 0.0] and len(e) == 8 for e in episodes if not e.terminated)
    assert learned.num_states == 17
    assert learned.counts is not None
    P, T = (m.transitions.toarray().reshape(m.num_states, 4, -1) for m in (learned, truth))
    often = learned.counts[:16] >= 100
    ends = sorted({int(np.asarray(e.states)[-1]) for e in ended})
    inner = [s for s in range(16) if s not in ends]
    assert often.sum() >= 12
    assert np.abs(P[:16][often][:, inner] - T[often][:, inner]).max() <= 0.15
    assert np.abs(P[:16][often][:, 16] - T[often][:, ends].sum(axis=1)).max() <= 0.15
    table = np.concatenate((uniform.probabilities, np.tile([[[1.0, 0, 0, 0]]], (8, 1, 1))), axis=1)
    assert value_of(learned, table) == pytest.approx(value_of(truth, uniform.probabilities), abs=0.04)
    history = conrl.learn(env, conrl.ConRL(task), 10, cost=cost)
    assert len(history) == 10


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (
            {"limit": 3},
            "ended an episode after 3 steps without terminating; the task has 6. Make the task with horizon=3",
        ),
        ({"seen": 4}, "observation 4, which is not in its space"),
        ({"seen": -1}, "not in its space"),
        ({"seen": 1.5}, "not in its space"),
        ({"seen": None}, "not in its space"),
        ({"first": 9}, "not in its space"),
        ({"info": {}}, r'neither info\["costs"\] nor info\["cost"\]; pass cost='),
        ({"cost": math.nan}, "must be finite"),
        ({"cost": math.inf}, "must be finite"),
        ({"reward": math.nan}, "must be finite"),
        ({"cost": [0.1, 0.2]}, r"costs of shape \(2,\); expected 1 of them"),
        ({"info": {"costs": np.zeros((1, 1))}}, r"costs of shape \(1, 1\)"),
        ({"info": {"costs": []}}, r"costs of shape \(0,\)"),
        ({"cost": 1.5}, r"c 1\.5 was seen in one step; the task says 0 to 1"),
        ({"reward": 2.0}, "reward 2 was seen in one step"),
        ({"seen": 0, "first": 1}, "an episode began in state 1; the task says 0"),
        pytest.param({"cost": "much"}, "cost"),
        pytest.param({"reward": "much"}, "reward"),
        ({"cost": 10**400}, "no numbers"),
        ({"reward": 10**5000}, "not a number"),
        ({"reward": [1.0, [2.0]]}, "not a number; wrap it in conrl.envs.MultiObjective"),
    ],
)
def test_environments_that_misbehave(odd: dict[str, Any], message: str) -> None:
    learner = conrl.ConRL(line_task(), seed=0)
    before = learner.state()
    with pytest.raises(conrl.RunError, match=message):
        conrl.learn(Line(**odd), learner, 3)
    assert learner.episodes == 0
    assert_same_arrays(before, learner.state())


def test_a_nan_reward_without_costs() -> None:
    task = conrl.Task(4, 2, 6, [], [], initial=0)
    with pytest.raises(conrl.RunError, match="nan"):
        conrl.learn(Line(reward=math.nan), conrl.ConRL(task), 1)
    assert len(conrl.learn(Line(), conrl.ConRL(task), 2)) == 2


def test_spaces_that_do_not_fit() -> None:
    for task in (
        conrl.Task(5, 2, 6, [1.0], ["c"], initial=0),
        conrl.Task(4, 3, 6, [1.0], ["c"], initial=0),
    ):
        with pytest.raises(conrl.ModelError, match="space is"):
            conrl.learn(Line(), conrl.ConRL(task), 1)
    env = Line()
    env.observation_space = spaces.Discrete(4, start=1)
    with pytest.raises(conrl.ModelError, match="observation space"):
        conrl.learn(env, conrl.ConRL(line_task()), 1)
    with pytest.raises(conrl.SpecError, match="pay is for models"):
        conrl.learn(Line(), conrl.ConRL(line_task()), 1, pay="bernoulli")


def test_the_costs_of_ones_own_function() -> None:
    seen: list[tuple[Any, ...]] = []

    def cost(state: int, action: int, successor: int, reward: float, ended: bool, info: Any) -> list[float]:
        seen.append((state, action, successor, reward, ended, info))
        return [0.5]

    history = conrl.learn(Line(info={"note": 1}), conrl.ConRL(line_task()), 2, cost=cost)
    assert (history.costs[:, 0] == 0.5 * history.steps).all()
    state, _action, successor, reward, ended, info = seen[0]
    assert state == 0
    assert successor in (0, 1)
    assert reward == 0.0
    assert ended is False
    assert info == {"note": 1}


def test_a_cost_function_is_told_info_only_if_it_needs_a_sixth_argument() -> None:
    """What has a value of its own keeps it, in `learn` as in `from_gymnasium`; a * gets the five of both."""
    holes = {5, 7, 11, 12}

    def falls(s: int, a: int, t: int, reward: float, ended: bool, where: Any = holes) -> float:
        return float(t in where)

    def any_number(*told: Any) -> float:
        return float(told[2] in holes) if len(told) == 5 else math.nan

    def needing(s: int, a: int, t: int, reward: float, ended: bool, info: Any) -> float:
        return float("prob" in info and t in holes)

    env = gymnasium.make("FrozenLake-v1", disable_env_checker=True)
    task = conrl.Task.from_gymnasium(env, horizon=20, limits=[0.1])
    costs = [conrl.learn(env, conrl.ConRL(task), 20, cost=cost).costs for cost in (falls, any_number, needing)]
    assert costs[0].sum() > 0.0
    assert all(np.array_equal(costs[0], other) for other in costs[1:])
    models = [conrl.from_gymnasium(env, cost=cost, horizon=20) for cost in (falls, any_number)]
    assert models[0].pay[:, 1].tolist() == models[1].pay[:, 1].tolist()
    with pytest.raises(conrl.ModelError, match=r"it must be a function of \(s, a, next_s, .* a table has no info"):
        conrl.from_gymnasium(env, cost=needing, horizon=20)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["MarsRover", "Box", "Pricing", "Bidding", "Cluster"])
def test_our_own_gymnasium_ids(name: str) -> None:
    env = gymnasium.make(f"conrl/{name}-v0", disable_env_checker=True)
    inner: Any = env.unwrapped
    learner = conrl.ConRL(inner.mdp.task)
    history = conrl.learn(env, learner, 4, seed=1)
    assert len(history) == 4
    assert history.costs.shape == (4, inner.mdp.num_costs)
    assert (history.steps == inner.mdp.horizon).all()
    assert learner.counts.visits.sum() == 4 * (inner.mdp.horizon + (learner.task.initial is None))
    other = conrl.ConRL(inner.mdp.task)
    again = conrl.learn(gymnasium.make(f"conrl/{name}-v0", disable_env_checker=True), other, 4, seed=1)
    assert again.to_csv() == history.to_csv()


def test_a_gymnasium_run_in_two_parts_is_one_run(tmp_path: Path) -> None:
    one = conrl.ConRL(line_task())
    whole = conrl.learn(Line(), one, 20, seed=6)
    two = conrl.ConRL(line_task())
    history = conrl.learn(Line(), two, 9, seed=6)
    two.save(tmp_path / "learner.npz")
    two = conrl.load_learner(tmp_path / "learner.npz")
    conrl.learn(Line(), two, 11, seed=6, history=history)
    assert history.to_csv() == whole.to_csv()
    assert_same_arrays(one.state(), two.state())


# -- the history ----------------------------------------------------------------------------------------------


def hand_made(problem: Any, mdp: conrl.ConstrainedMDP, rows: list[tuple[float, float]]) -> conrl.History:
    history = conrl.History(("cost",), problem, mdp)
    for reward, cost in rows:
        history.append(Row(reward, np.array([cost]), np.array([reward, cost]), np.array([cost]), 3))
    return history


def test_regret_by_hand() -> None:
    """One state, 4 steps of (1; 1) or nothing: with limit 1 the optimum is 1; episodes of 2, 0 and 4 were played."""
    mdp = still([0.0, 1.0], [0.0, 1.0], 4)
    history = hand_made(conrl.Linear([1.0]), mdp, [(2.0, 2.0), (0.0, 0.0), (4.0, 4.0)])
    assert history.regret.reward == pytest.approx([-1.0, 0.0, -1.0])
    assert history.regret.cost == pytest.approx([1.0, 0.0, 1.0])
    history = hand_made(conrl.Knapsack([6.0], 3, 0.5), mdp, [(2.0, 2.0), (0.0, 0.0), (4.0, 4.0)])
    assert history.optimum is not None
    assert history.optimum.reward == pytest.approx(2.0)  # B / K, epsilon apart
    assert history.regret.reward == pytest.approx([0.0, 1.0, 0.0])
    assert history.regret.cost == pytest.approx([0.0, -1.0, 0.0])
    problem = conrl.ConcaveConvex(lambda x: cp.sqrt(x), [lambda c: c[0] - 1.0, lambda c: cp.square(c[0]) - 9.0])
    history = hand_made(problem, mdp, [(4.0, 4.0), (0.0, 0.0), (0.0, 0.0)])
    assert history.regret.reward == pytest.approx(
        [1.0 - 2.0, 1.0 - math.sqrt(2.0), 1.0 - math.sqrt(4.0 / 3.0)], abs=1e-6
    )
    assert history.regret.cost == pytest.approx([7.0, 1.0, 4.0 / 3.0 - 1.0], abs=1e-6)
    assert np.isinf(history.limits).all()


@pytest.mark.parametrize("name", ["two costs", "knapsack", "concave-convex"])
def test_regret_of_a_run_from_expected_values(name: str) -> None:
    mdp, learner = make(name)
    history = conrl.learn(mdp, learner, 14, seed=4)
    assert history.expected_rewards is not None
    assert history.expected_costs is not None
    means = []
    for k in range(14):
        rows = [
            [history.rewards[j], *history.costs[j]]
            if history.guarded[j]
            else [history.expected_rewards[j], *history.expected_costs[j]]
            for j in range(k + 1)
        ]
        means.append(np.mean(rows, axis=0))
    table = np.array(means)
    if name == "concave-convex":
        best = conrl.plan(mdp, CONVEX).objective
        assert history.regret.reward == pytest.approx(best - np.log(0.5 + table[:, 0]), abs=1e-6)
        assert history.regret.cost == pytest.approx(np.linalg.norm(table[:, 1:], axis=1) - 2.5, abs=1e-6)
        return
    limits = np.array([20.0, 31.7]) / 14 if name == "knapsack" else mdp.limits
    problem = conrl.Knapsack([20.0, 31.7], 14) if name == "knapsack" else lin(limits)
    assert history.regret.reward == pytest.approx(conrl.plan(mdp, problem).reward - table[:, 0], abs=1e-9)
    assert history.regret.cost == pytest.approx((table[:, 1:] - limits).max(axis=1), abs=1e-9)


def test_solved_and_violated_by_hand() -> None:
    mdp = still([0.0, 1.0], [0.0, 1.0], 4)  # limit 2: the optimum is 2
    rewards = [0.0] * 20 + [2.0] * 280
    costs = [4.0] * 20 + [1.0] * 280
    history = hand_made(lin([2.0]), mdp, list(zip(rewards, costs, strict=True)))
    mean = [(np.mean(rewards[max(0, k - 100) : k]), np.mean(costs[max(0, k - 100) : k])) for k in range(1, 301)]
    assert history.smooth == pytest.approx(np.array(mean))
    last = max(k for k, (r, c) in enumerate(mean, start=1) if r < 1.8 or c > 2.2)
    assert history.solved_from == last + 1 == 110
    assert history.violations.tolist() == [sum(c > 2.2 + 1e-9 for _, c in mean) / 300]
    assert history.final == pytest.approx([2.0, 1.0])
    assert history.strong_violation is not None
    assert history.strong_violation[:, 0] == pytest.approx([2.0 * min(k, 20) for k in range(1, 301)])
    assert history.strong_regret is not None
    assert history.strong_regret == pytest.approx([2.0 * min(k, 20) for k in range(1, 301)])
    worse = hand_made(lin([2.0]), mdp, [*zip(rewards, costs, strict=True), (-40.0, 0.0)])
    assert worse.solved_from is None
    exactly = hand_made(lin([2.0]), mdp, [(1.8, 2.2 + 1e-12)] * 3)
    assert exactly.violations.tolist() == [0.0]
    assert exactly.solved_from == 1
    floored = hand_made(lin([2.0], [1.0]), mdp, [(2.0, 1.0)] * 2 + [(2.0, 0.7)] * 2)
    assert floored.violations.tolist() == [0.25]  # the mean falls below 0.9 at the last
    assert floored.solved_from is None


def test_expected_values_are_those_of_what_was_played() -> None:
    mdp, learner = make("two costs")
    played: list[conrl.Policy] = []
    history = None
    for _ in range(12):
        played.append(learner.propose())
        history = conrl.learn(mdp, learner, 1, seed=1, history=history)
    assert history is not None
    assert history.executed is not None
    for policy, row in zip(played, history.executed, strict=True):
        assert row == pytest.approx(value_of(mdp, policy.probabilities), abs=1e-12)
    assert np.array_equal(history.steps, np.full(12, 4))
    assert not history.skipped.any()
    assert not history.guarded.any()
    assert history.remaining is None
    assert history.would_exceed is None


def test_the_table_of_a_run(tmp_path: Path) -> None:
    mdp = model(5, 2)
    problem = conrl.Knapsack([9.0, 15.0], 10)
    history = conrl.learn(mdp, conrl.ConRL(mdp.task, problem=problem), 10, seed=2)
    rows = list(csv.DictReader(io.StringIO(history.to_csv())))
    assert len(rows) == 10
    assert history.guarded.any()
    assert history.expected_costs is not None
    for k, row in enumerate(rows):
        assert int(row["episode"]) == k + 1
        assert float(row["reward"]) == history.rewards[k]
        assert [float(row[f"cost_{n}"]) for n in mdp.cost_names] == history.costs[k].tolist()
        assert [int(row[n]) for n in ("steps", "skipped", "guarded", "infeasible")] == [
            history.steps[k],
            history.skipped[k],
            history.guarded[k],
            history.infeasible[k],
        ]
        if history.guarded[k]:
            assert row["expected_reward"] == row[f"expected_cost_{mdp.cost_names[0]}"] == ""
        else:
            assert [float(row[f"expected_cost_{n}"]) for n in mdp.cost_names] == history.expected_costs[k].tolist()
    with pytest.raises(conrl.RunError, match=r"progress.npz: a history is written as .csv; .*learn_on_disk"):
        history.save(tmp_path / "progress.npz")
    assert not (tmp_path / "progress.npz").exists()
    history.save(tmp_path / "progress.csv")
    assert (tmp_path / "progress.csv").read_bytes() == history.to_csv().encode()
    again = conrl.learn(mdp, conrl.ConRL(mdp.task, problem=problem), 10, seed=2)
    assert again.to_csv() == history.to_csv()
    other = conrl.History(mdp.cost_names, problem, mdp)
    other.load_state(history.state())
    assert other.to_csv() == history.to_csv()
    assert other.would_exceed is not None
    assert history.would_exceed is not None
    assert other.would_exceed.tolist() == history.would_exceed.tolist()
    state = history.state()
    state["steps"] = state["steps"][:-1]
    with pytest.raises(conrl.RunError, match="different lengths"):
        other.load_state(state)


def test_progress_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    mdp, learner = make("knapsack")
    shown = conrl.learn(mdp, learner, 14, seed=1, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "\x1b" not in err
    assert conrl.learn(mdp, make("knapsack")[1], 14, seed=1).to_csv() == shown.to_csv()
    assert len(conrl.learn(Line(), conrl.ConRL(line_task()), 3, progress=True)) == 3
    assert len(conrl.learn(*make("no costs"), 3, progress=True)) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_run_after_the_episode(number: signal.Signals, tmp_path: Path) -> None:
    mdp, learner = make("authors")
    before = signal.getsignal(number)

    def stop(history: conrl.History) -> None:
        if len(history) == 5:
            signal.raise_signal(number)

    history = conrl.learn(mdp, learner, 50, seed=3, after=stop)
    assert history.interrupted is True
    assert len(history) == learner.episodes == 5
    assert signal.getsignal(number) is before
    learner.save(tmp_path / "learner.npz")
    conrl.learn(mdp, learner, 10, seed=3, history=history)
    whole = conrl.learn(mdp, make("authors")[1], 15, seed=3)
    assert [history.interrupted, whole.interrupted] == [False, False]
    assert history.to_csv() == whole.to_csv()


def test_a_second_interrupt_ends_it_at_once() -> None:
    mdp, learner = make("default")
    before = signal.getsignal(signal.SIGINT)

    def stop(history: conrl.History) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        conrl.learn(mdp, learner, 50, after=stop)
    assert signal.getsignal(signal.SIGINT) is before
    assert learner.episodes == 1
    assert len(conrl.learn(mdp, learner, 2)) == 2


def test_sigterm_asks_however_often() -> None:
    """Who ends a study sends it to its workers too: they get it twice, and still save what they have."""
    mdp, learner = make("default")

    def stop(history: conrl.History) -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with interruptible() as interrupted:
        history = conrl.learn(mdp, learner, 50, after=stop)
        signal.raise_signal(signal.SIGTERM)  # while it is saved
        assert interrupted()
    assert (len(history), history.interrupted) == (1, True)
    assert signal.getsignal(signal.SIGTERM) is before
    with interruptible() as interrupted:
        assert not interrupted()


def test_what_was_asked_before_the_first_episode_counts() -> None:
    mdp, learner = make("default")
    with interruptible():
        signal.raise_signal(signal.SIGTERM)
        assert len(conrl.learn(mdp, learner, 50)) == 1


def test_an_interrupt_in_the_middle_of_an_episode() -> None:
    """It waits until the episode has been observed."""
    mdp = model(1)
    calls = 0

    def sampler(generator: np.random.Generator, s: int, a: int, t: int, mean: Float) -> Float:
        nonlocal calls
        calls += 1
        if calls == 10:  # the second step of the third episode
            signal.raise_signal(signal.SIGINT)
        return mean

    learner = conrl.ConRL(mdp.task)
    history = conrl.learn(mdp, learner, 20, pay=sampler)
    assert history.interrupted
    assert len(history) == learner.episodes == 3
    assert calls == 12


def test_learning_in_another_thread() -> None:
    found: list[conrl.History] = []
    mdp, learner = make("default")
    thread = threading.Thread(target=lambda: found.append(conrl.learn(mdp, learner, 10, seed=1)))
    thread.start()
    thread.join()
    assert found[0].to_csv() == conrl.learn(mdp, make("default")[1], 10, seed=1).to_csv()


def test_an_error_in_the_callback_leaves_a_usable_learner() -> None:
    mdp, learner = make("default")

    def fail(history: conrl.History) -> None:
        if len(history) == 3:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        conrl.learn(mdp, learner, 10, seed=1, after=fail)
    assert learner.episodes == 3
    rest = conrl.learn(mdp, learner, 7, seed=1)
    whole = conrl.learn(mdp, make("default")[1], 10, seed=1)
    assert rest.rewards.tolist() == whole.rewards[3:].tolist()


def test_one_episode_by_hand_is_what_learn_does() -> None:
    mdp, one = make("two costs", seed=7)
    _, two = make("two costs", seed=7)
    history = conrl.learn(mdp, one, 6, seed=7)
    world: Any = ModelWorld(mdp)
    rows = [loop.play_episode(world, two, 7) for _ in range(6)]
    assert [r.reward for r in rows] == history.rewards.tolist()
    assert_same_arrays(one.state(), two.state())


# -- what a review found --------------------------------------------------------------------------------------


def test_the_latest_policy_after_the_last_episode_of_a_budget(tmp_path: Path) -> None:
    shop = conrl.envs.pricing()
    learner = conrl.ConRL(shop.task, problem=conrl.Knapsack([4.0], 1), seed=0)
    conrl.learn(shop, learner, 1)
    value = conrl.evaluate(shop, learner.policy).value
    learner.save(tmp_path / "learner.npz")
    assert (conrl.evaluate(shop, conrl.load_learner(tmp_path / "learner.npz").policy).value == value).all()


def test_reading_the_policy_first_changes_nothing() -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    plain, read = conrl.ConRL(mdp.task), conrl.ConRL(mdp.task)
    _ = read.policy
    assert conrl.learn(mdp, read, 40, seed=9).to_csv() == conrl.learn(mdp, plain, 40, seed=9).to_csv()
    assert read.seed == 9


def test_a_history_of_another_run_is_refused() -> None:
    mdp = conrl.envs.mars_rover()
    history = conrl.learn(mdp, conrl.ConRL(mdp.task), 3)
    with pytest.raises(conrl.SpecError, match="not that of this learner"):
        conrl.learn(mdp, conrl.ConRL(mdp.task), 3, history=history)
    with pytest.raises(conrl.SpecError, match="needs a learner"):
        conrl.learn(mdp, None, 3)  # type: ignore[arg-type]


def test_an_interrupt_in_the_last_episode_is_none() -> None:
    mdp = conrl.envs.mars_rover()

    def interrupt(history: conrl.History) -> None:
        if len(history) == 3:
            signal.raise_signal(signal.SIGINT)

    assert not conrl.learn(mdp, conrl.ConRL(mdp.task), 3, after=interrupt).interrupted
    assert conrl.learn(mdp, conrl.ConRL(mdp.task), 4, after=interrupt).interrupted


def test_what_is_no_episode_is_refused() -> None:
    mdp = conrl.envs.mars_rover()
    learner = conrl.ConRL(mdp.task)
    nothing = conrl.Episode([0], [], [], np.zeros((0, 1)))
    for wrong in ("x", nothing):
        with pytest.raises(conrl.RunError):
            learner.observe(wrong)  # type: ignore[arg-type]
    assert learner.episodes == 0
    for none in (None, [1]):
        with pytest.raises(conrl.ModelError, match=r"pisode"):
            learner.prime(none)  # type: ignore[arg-type]
        with pytest.raises(conrl.ModelError, match=r"pisode"):
            conrl.estimate(none)  # type: ignore[arg-type]


def test_a_cost_called_kind_can_be_saved(tmp_path: Path) -> None:
    task = conrl.Task(2, 2, 2, [1.0], ["kind"], initial=0)
    conrl.ConRL(task, problem=conrl.Linear({"kind": 0.3})).save(tmp_path / "learner.npz")
    assert conrl.load_learner(tmp_path / "learner.npz").problem == conrl.Linear({"kind": 0.3})


def test_epsilon_and_resolve_exclude_each_other() -> None:
    shop = conrl.envs.pricing()
    with pytest.raises(conrl.SpecError, match="one of the two"):
        conrl.ConRL(shop.task, problem=conrl.Knapsack([4.0], 5, 0.1), resolve=True)


def test_time_limits_of_environments_are_found() -> None:
    import gymnasium

    assert conrl.Task.from_gymnasium(gymnasium.make("conrl/MarsRover-v0")).horizon == 30
    wrapped = gymnasium.wrappers.TimeLimit(gymnasium.make("FrozenLake-v1").unwrapped, 7)
    assert conrl.Task.from_gymnasium(wrapped).horizon == 7


# -- learners of somebody else --------------------------------------------------------------------------------


class Plain:
    """A learner after the protocol that inherits nothing and has nothing beyond it: it plays a fixed policy."""

    name = "plain"

    def __init__(self, task: conrl.Task) -> None:
        self.task = task
        self.problem: Problem = conrl.Linear(task.limits)
        self.seed: int | None = None
        self.seen: list[conrl.Episode] = []
        actions = np.zeros((task.horizon, task.num_states), dtype=int)
        self._policy = conrl.Deterministic(actions, task.num_actions)

    @property
    def episodes(self) -> int:
        return len(self.seen)

    @property
    def proposal(self) -> Proposal:
        return Proposal(self._policy, self._policy)

    def reseed(self, seed: int) -> None:
        self.seed = seed

    def propose(self) -> conrl.Policy:
        return self._policy

    def observe(self, episode: conrl.Episode) -> None:
        self.seen.append(episode)

    def may_step(self, spent: Any) -> bool:
        return True

    def room(self) -> Any:
        return np.zeros(0), np.zeros(0)

    def config(self) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Any) -> None:
        pass


def test_a_learner_that_inherits_nothing_is_played() -> None:
    mdp = conrl.envs.mars_rover()
    learner = Plain(mdp.task)
    history = conrl.learn(mdp, learner, 5, seed=2)
    assert learner.episodes == len(history) == 5
    assert learner.seed == 2
    assert history.expected_rewards is not None
    assert (history.expected_rewards == conrl.evaluate(mdp, learner.propose()).reward).all()
    assert history.prices is None
    assert not history.continuing
    assert not history.reports
    assert all(len(episode) for episode in learner.seen)


def test_what_it_may_have_beyond_the_protocol_is_read() -> None:
    class Priced(Plain):
        prices = np.array([0.25])
        reports = True

    mdp = conrl.envs.mars_rover()
    history = conrl.learn(mdp, Priced(mdp.task), 3)
    assert history.prices is not None
    assert history.prices.tolist() == [[0.25]] * 3
    assert history.reports


def test_a_learner_that_lacks_something_is_told_what() -> None:
    mdp = conrl.envs.mars_rover()

    class Half:
        task = mdp.task
        episodes = 0

        def observe(self, episode: conrl.Episode) -> None: ...

    expected = "not Half; it has no problem, seed, proposal, reseed, room"
    with pytest.raises(conrl.SpecError, match=expected) as caught:
        conrl.learn(mdp, Half(), 3)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    with pytest.raises(conrl.SpecError, match=r"needs a learner such as ConRL\(env.task\), not ConstrainedMDP"):
        conrl.learn(mdp, mdp, 3)  # type: ignore[arg-type]


def test_the_door_plans_nothing() -> None:
    mdp = conrl.envs.mars_rover()
    learner = conrl.ConRL(mdp.task)
    conrl.learn(mdp, learner, 0)
    assert learner._proposal is None


@pytest.mark.parametrize("kind", list(learners.LEARNERS.values()))
def test_every_learner_follows_the_protocol(kind: Any) -> None:
    assert all(name in dir(kind) or name in ("task", "seed") for name in (*NEEDED, *OPTIONAL))
    assert issubclass(kind, BaseLearner)


@pytest.mark.parametrize("name", ["rcpo", "tfw-ucrl2"])
def test_those_that_cannot_learn_from_a_log_say_so(name: str) -> None:
    mdp = conrl.envs.mars_rover()
    with pytest.raises(conrl.SpecError, match=f"^{name} cannot learn from logged data$"):
        learners.LEARNERS[name](mdp.task).prime([])


# -- what a second review found ---------------------------------------------------------------------------------


def test_a_call_that_is_refused_leaves_the_learner_as_it_was() -> None:
    mdp, learner = make("default", seed=None)
    limits = learner.problem
    with pytest.raises(conrl.SpecError, match="the history is not that of this learner"):
        conrl.learn(mdp, learner, 1, problem=[0.5] * mdp.num_costs, history=3)  # type: ignore[arg-type]
    assert learner.problem is limits
    assert learner.seed is None


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None])
def test_a_learner_is_reseeded_with_a_seed(seed: Any) -> None:
    learner = make("default", seed=4)[1]
    with pytest.raises(conrl.SpecError, match=r"seed is .*; it must be a whole number of at least 0"):
        learner.reseed(seed)
    assert learner.seed == 4


def test_a_history_loads_what_it_is_given() -> None:
    """Not what it had before, however often that was read."""
    mdp, one = make("default", seed=1)
    history, other = conrl.learn(mdp, one, 3), conrl.learn(mdp, make("default", seed=2)[1], 3, seed=2)
    assert history.rewards.size == other.rewards.size == 3
    assert len(history.regret.reward) == 3
    history.load_state(other.state())
    assert (history.costs == other.costs).all()
    assert (history.regret.reward == other.regret.reward).all()
    history.load_state({name: array[:0] for name, array in other.state().items()})
    assert history.costs.shape == (0, mdp.num_costs)

"""Plug-ins: what users register or install is used by name, everywhere; what is wrong with one is told in a line.

The tests write a module, and packages as pip would have installed them, into directories that are put on the path.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank import random_model
from commands import ok, record, refused, run, said
from launch import launch, launched, wait_until
from test_runner import cluster, progress

import conrl
from conrl import envs, learners, planners
from conrl.envs.registry import PLUGINS as ENVIRONMENTS
from conrl.experiments import Job, Run, load, load_spec, parse_spec, run_study
from conrl.foreign import load_function
from conrl.plugins import NAME, own_name, source_of

LAB = '''
"""A plug-in."""
import dataclasses
import numpy as np
import conrl

__version__ = "1.0"


@conrl.envs.register
def pump(load: float = 0.5, horizon: int = 6):
    """A pump that wears."""
    P = np.zeros((2, 2, 2))
    P[:, 0] = [[1 - load, load], [0, 1]]
    P[:, 1] = [[1, 0], [0.9, 0.1]]
    costs = np.zeros((2, 2, 1))
    costs[:, 1] = 1.0
    return conrl.ConstrainedMDP(P, [[1.0, 0.0], [0.2, 0.0]], costs, horizon, limits=[1.0], cost_names=["service"])


@conrl.learners.register
class Counting:
    """Plans in what it has counted, and now and then in anything."""

    pause = 0.0

    def __init__(self, task, seed=0, prior=0.5):
        S, A, d = task.num_states, task.num_actions, task.num_costs
        self.task, self.seed, self.prior, self.seen = task, seed, prior, 0
        self.visits, self.paid = np.zeros((S, A, S)), np.zeros((S, A, 1 + d))

    def propose(self):
        rng = np.random.default_rng([self.seed, self.seen])
        P = rng.standard_gamma(self.prior + self.visits)
        pay = self.paid / np.maximum(1.0, self.visits.sum(axis=2, keepdims=True))
        task = self.task
        mdp = conrl.ConstrainedMDP(P / P.sum(axis=2, keepdims=True), pay[:, :, 0], pay[:, :, 1:], task.horizon)
        return conrl.ColumnGeneration().plan(mdp, conrl.Linear(task.limits), relax=True).policy

    def observe(self, episode):
        import time
        time.sleep(self.pause)
        at = episode.states[:-1], episode.actions
        np.add.at(self.visits, (*at, episode.states[1:]), 1)
        np.add.at(self.paid, at, np.column_stack([episode.rewards, episode.costs]))
        self.seen += 1

    def state(self):
        return {"visits": self.visits, "paid": self.paid, "seen": self.seen}

    def load_state(self, arrays):
        self.visits, self.paid, self.seen = arrays["visits"].copy(), arrays["paid"].copy(), int(arrays["seen"])


@conrl.learners.register
class Forgetful(Counting):
    """The same, but it cannot be saved."""

    state = load_state = None


@conrl.learners.register
class Slow(Counting):
    """The same, with time to be killed."""

    pause = 0.01


@conrl.planners.register
class Halving:
    """Keeps a share of every limit."""

    problems = (conrl.Linear,)

    def __init__(self, share=0.5):
        self.share = share

    def plan(self, mdp, problem, start=None, relax=False):
        less = conrl.Linear([self.share * x for x in problem.limits])
        return dataclasses.replace(conrl.ColumnGeneration().plan(mdp, less, relax=relax), problem=problem)


def falls(state, action, next_state, reward, terminated):
    return float(terminated and reward == 0)


def coins(generator, state, action, next_state, mean):
    return np.clip(mean + 0.01 * generator.random(mean.size), 0.0, 1.0)


number = 3
'''
SPEC = """\
import = ["LAB"]
episodes = 30
seeds = 2
[environment.pump]
[algorithm.conrl]
[algorithm.counting]
options = { prior = 0.3 }
[algorithm.forgetful]
[algorithm.halved]
learner = "conrl"
options = { planner = { name = "halving", share = 0.4 } }
"""


def registries() -> tuple[Any, ...]:
    return ENVIRONMENTS, learners.PLUGINS, planners.PLUGINS


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """Nothing that a test registers or imports is there for the next one."""
    before = set(sys.modules)
    kept = [dict(registry._entries) for registry in registries()]
    yield
    for registry, entries in zip(registries(), kept, strict=True):
        registry._entries.clear()
        registry._entries.update(entries)
    for name in set(sys.modules) - before:
        if name.startswith(("lab", "pack", "other")):
            del sys.modules[name]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that can be imported here, and in new processes."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "lab_module.py").write_text(LAB)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return "lab_module"


def spec_text(lab: str, text: str = SPEC) -> str:
    return text.replace("LAB", lab)


def package(folder: Path, name: str, points: dict[str, dict[str, str]], code: str = "", version: str = "2.1") -> Path:
    """A package as it lies in site-packages: a module, and its metadata with entry points."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (folder / f"{name}.py").write_text(code)
    return folder


ENVS, LEARNERS, PLANNERS = "conrl.environments", "conrl.learners", "conrl.planners"
PLAIN = re.sub(r"@conrl\.\w+\.register\n", "", LAB)  # the same without decorators
ALL = {ENVS: {"pump": "pack:pump"}, LEARNERS: {"counting": "pack:Counting"}, PLANNERS: {"halving": "pack:Halving"}}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = package(tmp_path / "site", "pack", ALL, PLAIN)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return folder


def command(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return launch([sys.executable, "-m", "conrl", *map(str, words)], **options)


# -- two methods ------------------------------------------------------------------------------------------

MDP = random_model(3, 4, 2, 5, 1)


class Two:
    """The least that a learner is."""

    def __init__(self) -> None:
        self.episodes_seen: list[conrl.Episode] = []

    def propose(self) -> conrl.Policy:
        policy: conrl.Policy = conrl.plan(MDP, [2.0]).policy
        return policy

    def observe(self, episode: conrl.Episode) -> None:
        self.episodes_seen.append(episode)


class Same(learners.base.BaseLearner):
    """The same as a learner of ours, to compare with."""

    name = "same"

    def _decide(self) -> learners.Proposal:
        policy = conrl.plan(MDP, [2.0]).policy
        return learners.Proposal(policy, policy)

    def _learn(self, episode: conrl.Episode, proposal: learners.Proposal) -> None: ...


def test_an_object_with_two_methods_learns() -> None:
    """As the same learner does that has everything."""
    two = Two()
    history = conrl.learn(MDP, two, 7, seed=3)
    assert history.to_csv() == conrl.learn(MDP, Same(MDP.task, None, 0, False), 7, seed=3).to_csv()
    assert len(two.episodes_seen) == 7
    assert history.limits.tolist() == [np.inf if MDP.limits is None else MDP.limits[0]]
    more = conrl.learn(MDP, two, 2, seed=3, history=history)  # it does not count, and goes on all the same
    assert more.to_csv() == conrl.learn(MDP, Two(), 9, seed=3).to_csv()


def test_what_an_object_of_two_methods_has_besides_is_used() -> None:
    class More(Two):
        task = MDP.task
        problem: Any = conrl.Linear([2.5])
        prices = (0.25,)
        told: int | None = None

        def reseed(self, seed: int) -> None:
            self.told = seed

    more = More()
    history = conrl.learn(MDP, more, 2, seed=11)
    assert more.told == 11
    assert history.limits.tolist() == [2.5]
    assert history.prices is not None
    assert history.prices.tolist() == [[0.25]] * 2
    history = conrl.learn(MDP, more, 1, problem=[3.5])
    assert (history.limits.tolist(), more.problem.limits) == ([3.5], [3.5])
    with pytest.raises(conrl.SpecError, match="Two has no problem that could be set"):
        conrl.learn(MDP, Two(), 1, problem=[3.5])


def test_an_object_that_counts_its_episodes_counts_each() -> None:
    class Counts(Two):
        episodes, by = 3, 1

        def observe(self, episode: conrl.Episode) -> None:
            self.episodes += self.by

    counts = Counts()
    assert len(conrl.learn(MDP, counts, 2)) == 2
    assert counts.episodes == 5
    counts.by = 2
    with pytest.raises(conrl.RunError, match="Counts: episodes went from 5 to 7 when one was observed; count each"):
        conrl.learn(MDP, counts, 2)


def test_an_object_of_two_methods_learns_in_an_environment() -> None:
    import gymnasium

    class Still:
        task: Any = None

        def propose(self) -> conrl.Policy:
            return conrl.Deterministic(np.zeros((20, 16), dtype=int), 4)

        def observe(self, episode: conrl.Episode) -> None: ...

    env = gymnasium.make("FrozenLake-v1", max_episode_steps=20)
    assert len(conrl.learn(env, Still(), 3)) == 3
    with pytest.raises(conrl.SpecError, match="Still has no task, and the environment does not say what cost gives"):
        conrl.learn(env, Still(), 3, cost=lambda *step: 0.5)
    still = Still()
    still.task = conrl.Task.from_gymnasium(env, limits=[1.0])
    assert conrl.learn(env, still, 3, cost=lambda *step: 0.5).costs.min() > 0.0


def test_what_is_wrong_with_an_object_of_two_methods_is_told() -> None:
    class Wrong(Two):
        def propose(self) -> Any:
            return "north"

    with pytest.raises(conrl.RunError, match="Wrong proposed 'north'; propose must return a Policy"):
        conrl.learn(MDP, Wrong(), 1)
    with pytest.raises(conrl.SpecError, match="Two is a class of learners; make one"):
        conrl.learn(MDP, Two, 1)  # type: ignore[arg-type]
    small = random_model(3, 3, 2, 5, 1)
    with pytest.raises(conrl.ConRLError):
        conrl.learn(small, Two(), 1)


WHOLE = "it must be a whole number of at least 0"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("episodes", "x", f"Two: episodes is 'x'; {WHOLE}"),
        ("episodes", None, f"Two: episodes is None; {WHOLE}"),
        ("episodes", 2.5, f"Two: episodes is 2.5; {WHOLE}"),
        ("episodes", -1, f"Two: episodes is -1; {WHOLE}"),
        ("task", "x", "Two: task is 'x'; it must be a conrl.Task, or None"),
        ("name", 3, "Two: name is 3; it must be a text"),
        ("seed", "x", f"Two: seed is 'x'; {WHOLE}"),
        ("problem", 3, "Two: problem is 3; it must be limits"),
        ("problem", {"cots": 1.0}, "Two: unknown cost 'cots'; did you mean 'cost'"),
        ("prices", "x", "Two: prices is not an array of numbers"),
        ("prices", [1.0, 2.0], "Two: prices is [1.0, 2.0]; it must be a finite number for each cost"),
        ("prices", [float("nan")], "Two: prices is [nan]; it must be a finite number for each cost, or None"),
        ("episodes", 5, "Two: episodes went from 5 to 5 when one was observed; count each of them, or leave episodes"),
        ("reseed", 3, "Two: reseed failed: TypeError: 'int' object is not callable"),
        ("room", lambda: (1, 2), "Two: room gave (1, 2); it must give two arrays, a number for each cost"),
        ("room", lambda: (np.ones(9), np.ones(1)), "Two: room gave (array([1., 1.,"),
        ("room", lambda: 1 / 0, "Two: room failed: ZeroDivisionError: division by zero (test_plugins.py:"),
        ("propose", lambda: 1 / 0, "Two: propose failed: ZeroDivisionError: division by zero (test_plugins.py:"),
        ("propose", lambda: sys.exit(3), "Two: propose failed: SystemExit: 3 (test_plugins.py:"),
        ("propose", lambda: [[0]], "Two proposed [[0]]; propose must return a Policy"),
        ("propose", lambda: np.zeros((5, 4)), "Two proposed array([[0., 0., 0., 0.],"),
        (
            "propose",
            lambda: conrl.Policy(np.full((5, 4, 2), np.nan)),
            "Two: propose failed: policy at step 0, state 0 is",
        ),
        (
            "propose",
            lambda: conrl.Policy(np.full((5, 3, 2), 0.5)),
            "Two proposed a policy of shape (5, 3, 2); the task",
        ),
        ("observe", lambda episode: {"y": 1}["x"], "Two: observe failed: KeyError: 'x' (test_plugins.py:"),
        ("observe", lambda: None, "Two: observe failed: TypeError: "),
    ],
)
def test_what_an_object_does_wrong_is_told_with_its_name(name: str, value: Any, message: str) -> None:
    two = Two()
    setattr(two, name, value)
    with pytest.raises(conrl.ConRLError, match=f"^{re.escape(message)}") as caught:
        conrl.learn(MDP, two, 1)
    assert "\n" not in str(caught.value)
    if " failed: policy" not in message and "failed: " in message:
        assert caught.value.__cause__ is not None  # for its traceback


def test_an_attribute_that_cannot_be_read_or_set() -> None:
    class Odd(Two):
        episodes = property(lambda self: 1 / 0)

    with pytest.raises(conrl.RunError, match="Odd: its episodes cannot be read: ZeroDivisionError"):
        conrl.learn(MDP, Odd(), 1)

    class Fixed(Two):
        problem = property(lambda self: conrl.Linear([2.0]))

    with pytest.raises(conrl.SpecError, match="Fixed: its problem cannot be set: AttributeError"):
        conrl.learn(MDP, Fixed(), 1, problem=[3.0])


def test_an_object_that_scales_what_it_sees_changes_no_history() -> None:
    class Scaling(Two):
        def observe(self, episode: conrl.Episode) -> None:
            episode.pay[:] *= 1000.0

    assert conrl.learn(MDP, Scaling(), 3).to_csv() == conrl.learn(MDP, Two(), 3).to_csv()


def test_learners_with_everything_are_checked_too() -> None:
    class Whole(Two):
        task: Any = MDP.task
        problem: Any = conrl.Linear([2.0])
        seed = 0
        episodes: Any = 0
        proposal: Any = None

        def reseed(self, seed: int) -> None: ...

        def room(self) -> Any:
            return np.ones(9), np.ones(9)

    for name, value, message in (
        ("task", "x", "Whole: task is 'x'; it must be a conrl.Task"),
        ("episodes", "x", f"Whole: episodes is 'x'; {WHOLE}"),
        ("problem", "x", "Whole: problem is 'x'; it must be limits"),
        ("proposal", "x", "learner Whole has proposal 'x'; it must be a Proposal"),
        ("proposal", learners.Proposal(Two().propose(), Two().propose()), "Whole: room gave (array([1., 1."),
        ("room", lambda: 1 / 0, "learner Whole has proposal None"),
    ):
        whole = Whole()
        setattr(whole, name, value)
        with pytest.raises(conrl.ConRLError, match=f"^{re.escape(message)}"):
            conrl.learn(MDP, whole, 1)

    class Failing(Same):
        def _learn(self, episode: conrl.Episode, proposal: learners.Proposal) -> None:
            raise KeyError("x")

    with pytest.raises(conrl.RunError, match=r"^learner Failing failed: KeyError: 'x' \(test_plugins.py:") as caught:
        conrl.learn(MDP, Failing(MDP.task, None, 0, False), 1)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_run_on_disk_of_an_object_without_a_name_is_played_again(tmp_path: Path) -> None:
    from conrl.experiments import learn_on_disk

    for _ in range(2):
        learner, history = learn_on_disk(tmp_path, MDP, Two, 4)
        assert (learner.episodes, len(history), learner.resumes) == (4, 4, False)
    assert not (tmp_path / "checkpoint.npz").exists()
    assert (tmp_path / "progress.csv").read_bytes() == history.to_csv().encode()
    with pytest.raises(conrl.SpecError, match="Two cannot be saved: it is not registered"):
        learner.save(tmp_path / "learner.npz")


# -- names ------------------------------------------------------------------------------------------------


def test_names_are_those_of_python_in_words() -> None:
    expected = {"pump_station": "pump-station", "PumpStation": "pump-station", "PSRL": "psrl", "ConRL2": "con-rl2"}
    for given, name in expected.items():
        thing = type(given, (), {})
        assert own_name(thing, source_of(thing)) == name
        assert NAME.fullmatch(name)
    for registry in registries():
        assert all(map(NAME.fullmatch, registry.built_in))


def test_what_is_registered_is_there_by_name() -> None:
    @envs.register
    def small_box(horizon: int = 9) -> conrl.ConstrainedMDP:
        return conrl.envs.box(horizon=horizon)

    @envs.register("tiny-box")
    def other(horizon: int = 3) -> conrl.ConstrainedMDP:
        return conrl.envs.box(horizon=horizon)

    assert envs.make("small-box").horizon == 9
    assert envs.make("tiny-box", horizon=4).horizon == 4
    assert [entry.name for entry in envs.available()] == list(envs.REGISTRY)  # what is built in stays what it is
    with pytest.raises(conrl.SpecError, match="unknown parameter of tiny-box 'horizn'; did you mean 'horizon'"):
        envs.make("tiny-box", horizn=4)
    with pytest.raises(conrl.SpecError, match="parameter 'horizon' of tiny-box is 'x'; it must be a whole number"):
        envs.make("tiny-box", horizon="x")
    with pytest.raises(conrl.SpecError, match="did you mean 'small-box'"):
        envs.make("smal-box")
    assert record("plan", "tiny-box", "--horizon", 5)["horizon"] == 5
    assert "did you mean 'tiny-box'" in refused("plan", "tiny-bx")
    with pytest.raises(conrl.SpecError, match="did you mean 'tiny-box'"):
        parse_spec("episodes = 3\n[environment.tiny-bo]\n[algorithm.ucbvi]")


def test_a_name_means_one_thing() -> None:
    def box() -> conrl.ConstrainedMDP:
        return envs.box()

    with pytest.raises(conrl.SpecError, match=r"environment 'box' is built in; .*box needs another name"):
        envs.register(box)
    envs.register("crate")(box)
    envs.register("crate")(box)  # a notebook may run a cell twice
    with pytest.raises(conrl.SpecError, match=r"'crate' is registered twice, by \S*box and by \S*<lambda>; rename one"):
        envs.register("crate")(lambda: envs.box())
    assert envs.make("crate").num_states == envs.box().num_states
    for name in ("Crate", "crate_", "1-crate", "", "a b", "crate.npz", "a--b"):
        with pytest.raises(conrl.SpecError, match="a name is lower-case words"):
            envs.register(name)(box)
    with pytest.raises(conrl.SpecError, match="algorithm 'conrl' is built in"):
        learners.register("conrl")(Two)
    with pytest.raises(conrl.SpecError, match="planner 'lagrangian' is built in"):
        planners.register("lagrangian")(Two)


def test_what_is_no_such_thing_is_refused() -> None:
    class Mute:
        def __init__(self, task: Any) -> None: ...

        def observe(self, episode: Any) -> None: ...

    class Alone(Two):
        def __init__(self) -> None: ...

    class Called(Two):
        name = "known"

        def __init__(self, task: Any) -> None: ...

    class Clash(Two):
        def __init__(self, task: Any, learner: int = 0) -> None: ...

    cases: list[tuple[Any, Any, str]] = [
        (envs, 3, "a name is lower-case words|must be a function"),
        (learners, Mute, "Mute has no propose"),
        (learners, Alone, "made from a task, which must be its first parameter"),
        (learners, Clash, "has a parameter 'learner'"),
        (planners, Mute, "Mute has no problems and no plan"),
    ]
    for where, thing, message in cases:
        with pytest.raises(conrl.SpecError, match=message):
            where.register(thing)
    with pytest.raises(conrl.SpecError, match=r"calls itself 'known' \(name\) and is registered as 'unknown'"):
        learners.register("unknown")(Called)
    with pytest.raises(conrl.SpecError, match="'thing' is 3; register its class"):
        learners.register("thing")(3)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise KeyError('valve')", r"broken with size=3: KeyError: 'valve' \(test_plugins\.py|<string>"),
        ("return 5", "broken made 5; it must make a ConstrainedMDP or a Gymnasium environment"),
        ("raise conrl.ModelError('too small')", "^broken with size=3: too small"),
    ],
)
def test_an_environment_that_cannot_be_made_says_why(body: str, message: str) -> None:
    scope: dict[str, Any] = {"conrl": conrl, "__name__": "lab_here"}
    exec(f"def broken(size=1):\n    {body}\n", scope)
    envs.register(scope["broken"])
    with pytest.raises(conrl.ConRLError, match=message) as caught:
        envs.make("broken", size=3)
    assert "\n" not in str(caught.value)
    assert refused("learn", "broken", "--set", "size=3").startswith("--set: ")


def test_a_gymnasium_environment_may_be_registered() -> None:
    import gymnasium

    @envs.register("lake")
    def lake(slippery: bool = True) -> Any:
        return gymnasium.make("FrozenLake-v1", is_slippery=slippery)

    @envs.register("black-box")
    class BlackBox(gymnasium.Env):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)
        cost_names = ("heat",)
        cost_limits = (1.5,)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return 0, {}

        def step(self, action: Any) -> Any:
            return int(self.np_random.integers(2)), float(action), False, False, {"cost": 0.5 * float(action)}

    assert record("plan", "lake", "--horizon", 20, "--set", "slippery=false")["reward"] == pytest.approx(1.0)
    expected = record("plan", "gymnasium:FrozenLake-v1", "--horizon", 20, "--start", 4)
    assert record("plan", "lake", "--horizon", 20, "--start", 4)["reward"] == expected["reward"]
    history = Run(Job(env="black-box", algorithm="conrl", episodes=5, horizon=4)).play()
    assert (history.mdp, len(history), history.limits.tolist()) == (None, 5, [1.5])
    assert "unknown parameter of black-box 'size'" in refused("learn", "black-box", "--set", "size=2")
    assert refused("plan", "black-box", "--horizon", 4)


def test_a_report_compares_with_a_model_that_takes_no_horizon(tmp_path: Path) -> None:
    @envs.register("fixed")
    def fixed(slip: float = 0.1) -> conrl.ConstrainedMDP:
        return conrl.envs.box(slip=slip, horizon=6)

    @envs.register("taking")
    def taking(slip: float = 0.1, horizon: int = 9) -> conrl.ConstrainedMDP:
        return conrl.envs.box(slip=slip, horizon=horizon)

    settings = {"slip": 0.2}
    Run(Job(env="fixed", algorithm="ucbvi", episodes=3, settings=settings), tmp_path).play()
    Run(Job(env="taking", algorithm="ucbvi", episodes=3, settings=settings, horizon=6), tmp_path).play()
    found = load(tmp_path).environments
    best = conrl.plan(fixed(slip=0.2)).reward
    for name in ("fixed", "taking"):
        assert found[name].unknown == ""
        optimum = found[name].optimum
        assert optimum is not None
        assert optimum.reward == best


@pytest.mark.parametrize(
    "P", [np.full((2, 2, 2), 0.5), [[0.5, 0.5]] * 2, 3.0, "prices", {"a": 1.0}], ids=lambda x: type(x).__name__
)
def test_an_environment_may_call_anything_P(P: Any) -> None:
    """Only lists of outcomes are a published model."""
    import gymnasium

    class Priced(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self) -> None:
            self.P = P

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return 0, {}

        def step(self, action: Any) -> Any:
            return int(self.np_random.integers(2)), float(action), False, False, {}

    envs.register("priced")(Priced)
    assert len(Run(Job(env="priced", algorithm="ucbvi", episodes=3, horizon=4)).play()) == 3
    with pytest.raises(conrl.ModelError, match=r"no env\.unwrapped\.P that lists outcomes"):
        conrl.from_gymnasium(Priced(), horizon=4)


def test_what_is_defined_elsewhere_belongs_to_the_module_that_registers_it(tmp_path: Path, lab: str) -> None:
    """Or workers would import the wrong one. Defaults may be anything."""
    code = "import functools, conrl\nconrl.envs.register('half')(functools.partial(conrl.envs.box, horizon=5))\n"
    code += "@conrl.envs.register\ndef odd(x=object, y=frozenset()): return conrl.envs.box()\n"
    (tmp_path / "library" / "lab_partial.py").write_text(code)
    spec = parse_spec(
        "import = ['lab_partial']\nepisodes = 2\n[environment.half]\n[algorithm.ucbvi]", allow_import=True
    )
    source = ENVIRONMENTS.source("half")
    assert source is not None
    assert (source.module, source.qualname) == ("lab_partial", "partial")
    assert run_study(spec, tmp_path / "out", workers=1).finished == 1
    odd = next(entry for entry in record("envs")["plugins"] if entry["name"] == "odd")
    assert odd["parameters"] == {"x": "<class 'object'>", "y": "frozenset()"}


def test_a_planner_is_used_by_name() -> None:
    @planners.register
    class HalfOfIt:
        problems = (conrl.Linear,)

        def plan(self, mdp: Any, problem: Any, start: Any = None, relax: bool = False) -> conrl.Plan:
            less = conrl.Linear([0.5 * x for x in problem.limits])
            return replace(conrl.ColumnGeneration().plan(mdp, less, relax=relax), problem=problem)

    plan = conrl.plan(envs.mars_rover(rock_reward=1.0), planner="half-of-it")
    assert plan.costs[0] == pytest.approx(0.15)
    words = ("plan", "mars-rover", "--set", "rock_reward=1", "--planner")
    assert record(*words, "half-of-it")["costs"]["crash"]["value"] == pytest.approx(0.15)
    assert "did you mean 'half-of-it'" in refused(*words, "half-of-i")


def test_a_subclass_of_a_registered_class_has_a_name_of_its_own() -> None:
    @planners.register("plain-half")
    class Plain:
        problems = (conrl.Linear,)

        def plan(self, mdp: Any, problem: Any, start: Any = None, relax: bool = False) -> conrl.Plan:
            return conrl.ColumnGeneration().plan(mdp, problem, relax=relax)

    @planners.register("sloppy")
    class Sloppy(Plain):
        pass

    @planners.register
    class OneMore(Sloppy):
        pass

    @conrl.learners.register
    class MyOwn(conrl.ConRL):
        pass

    try:
        assert (Plain.name, Sloppy.name, OneMore.name, MyOwn.name) == ("plain-half", "sloppy", "one-more", "my-own")  # type: ignore[attr-defined]
        assert conrl.plan(MDP, planner="sloppy").claimed_by == "sloppy"
        with pytest.raises(conrl.SpecError, match=r"it must be one of column-generation, .*sloppy, one-more"):
            conrl.plan(MDP, planner=Plain)  # type: ignore[call-overload]
    finally:
        for name in ("plain-half", "sloppy", "one-more"):
            planners.PLUGINS.remove(name)
        learners.PLUGINS.remove("my-own")


def test_what_a_planner_does_wrong_is_told_with_its_name() -> None:
    class Wrong:
        name = "wrong"
        problems: Any = (conrl.Linear,)

        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def plan(self, mdp: Any, problem: Any, start: Any = None, relax: bool = False) -> Any:
            return self.answer()

    mdp = envs.box()
    text: Any = "x"
    number: Any = 3
    kind: Any = int
    for answer, message in (
        (lambda: 1 / 0, "planner 'wrong' failed: ZeroDivisionError: division by zero (test_plugins.py:"),
        (lambda: None, "planner 'wrong' returned None; it must return a conrl.Plan"),
        (lambda: conrl.plan(MDP), "planner 'wrong' returned a plan of another model: (steps, states, actions, costs)"),
        (
            lambda: replace(conrl.plan(mdp), costs=np.array([np.nan])),
            "planner 'wrong' returned a plan of reward and costs [",
        ),
        (
            lambda: replace(conrl.plan(mdp), reward=np.nan),
            "planner 'wrong' returned a plan whose reward is nan; expected a ",
        ),
        (
            lambda: replace(conrl.plan(mdp), reward=text),
            "planner 'wrong' returned a plan whose reward is 'x'; expected a ",
        ),
        (
            lambda: replace(conrl.plan(mdp), costs=number),
            "planner 'wrong' returned a plan whose costs is 3; expected an array of 1",
        ),
        (
            lambda: replace(conrl.plan(mdp), mdp=kind),
            "planner 'wrong' returned a plan whose mdp is <class 'int'>; expected a",
        ),
        (
            lambda: replace(conrl.plan(mdp), status="fine"),
            "planner 'wrong' returned a plan whose status is 'fine'; expected",
        ),
        (lambda: replace(conrl.plan(mdp), values=np.ones(2)), "planner 'wrong' returned a plan whose values is array("),
    ):
        with pytest.raises(conrl.ConRLError, match=f"^{re.escape(message)}"):
            conrl.plan(mdp, planner=Wrong(answer))
    with pytest.raises(conrl.InfeasibleError, match=r"^infeasible: corner"):  # which is no mistake
        conrl.plan(mdp, planner=Wrong(lambda: conrl.plan(mdp, [-1.0])))
    wrong = Wrong(lambda: conrl.plan(mdp))
    wrong.problems = conrl.Linear
    with pytest.raises(conrl.SpecError, match=r"planner 'wrong': problems is .*; it must be a tuple such as"):
        conrl.plan(mdp, planner=wrong)
    with pytest.raises(conrl.SpecError, match=r"len cannot be given a name: AttributeError"):
        planners.register("len")(len)


def test_errors_that_say_too_much_or_nothing_are_told_in_a_line() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    class Fails:
        name = "fails"
        problems: Any = (conrl.Linear,)

        def __init__(self, error: Exception) -> None:
            self.error = error

        def plan(self, mdp: Any, problem: Any, start: Any = None, relax: bool = False) -> Any:
            raise self.error

    for error, message in ((RuntimeError("x" * 50_000), "RuntimeError: x{497}\\.\\.\\. "), (Mute(), "Mute ")):
        with pytest.raises(conrl.RunError, match=rf"^planner 'fails' failed: {message}\(test_plugins.py:\d+\)$"):
            conrl.plan(envs.box(), planner=Fails(error))


def test_what_refuses_to_be_looked_at_is_told_in_a_line() -> None:
    class Closed:
        def __getattribute__(self, name: str) -> Any:
            if name == "__class__":
                return object.__getattribute__(self, name)
            raise RuntimeError(f"no {name}")

    with pytest.raises(
        conrl.SpecError, match=r"^environment 'closed' cannot be registered: RuntimeError: no __qualname"
    ):
        envs.register("closed")(Closed())
    try:
        envs.register("open")(Closed)
        with pytest.raises(conrl.SpecError, match=r"^open: RuntimeError: no step"):
            envs.make("open")
    finally:
        ENVIRONMENTS.remove("open")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def propose(self): 1 / 0", "NAME: propose failed: ZeroDivisionError: division by zero (lab_wrong.py:"),
        ("def observe(self, episode): raise OSError('gone')", "NAME: observe failed: OSError: gone (lab_wrong.py:"),
        ("def observe(self, episode): sys.exit(0)", "NAME: observe failed: SystemExit: 0 (lab_wrong.py:"),
        ("def __init__(self, task): sys.exit(0)", "--option: NAME cannot be made: SystemExit: 0 (lab_wrong.py:"),
        ("def state(self): return [1]\n    def load_state(self, a): ...", "the state of NAME is [1]; it must be"),
        (
            "def state(self): return {'a': [[1], [1, 2]]}\n    def load_state(self, a): ...",
            "the state of NAME: ValueErro",
        ),
        (
            "problems = 3",
            "lab_wrong cannot be imported: SpecError: algorithm 'NAME': problems is 3; it must be a tuple",
        ),
    ],
)
def test_a_learner_that_fails_is_told_in_a_line(body: str, message: str, lab: str, tmp_path: Path) -> None:
    """The command line ends with code 2 and no traceback, wherever it fails."""
    code = (
        f"import sys, {lab}, conrl\n@conrl.learners.register('wrong-lab')\nclass Wrong({lab}.Counting):\n    {body}\n"
    )
    (tmp_path / "library" / "lab_wrong.py").write_text(code)
    words = ("learn", "pump", "--import", "lab_wrong", "--algorithm", "wrong-lab", "--episodes", 3)
    result = run(*words, "--out", tmp_path / "out")
    assert result.exit_code == 2, result.output
    told = said(result.stderr)
    assert told.startswith(f"Error: {message.replace('NAME', 'wrong-lab')}")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "def reset(self, **more): 1 / 0",
            "the environment's reset failed: ZeroDivisionError: division by zero (lab_bo",
        ),
        ("def step(self, action): raise KeyError('x')", "the environment's step failed: KeyError: 'x' (lab_box.py:"),
        ("def step(self, action): sys.exit(0)", "the environment's step failed: SystemExit: 0 (lab_box.py:"),
        (
            "def step(self, action): return 0, 0.0, np.zeros(2), False, {}",
            "the environment gave terminated array([0., ",
        ),
        ("cost_names = 3", "the environment has cost_names 3; expected a list of names"),
        ("cost_limits = (1.0, 2.0)", "the environment has 2 cost_limits for 1 cost_names"),
        (
            "observation_space = property(lambda self: 1 / 0)",
            "bad-box does not say what its spaces are: ZeroDivisionErro",
        ),
        ("def __init__(self): sys.exit(0)", "bad-box: SystemExit: 0 (lab_box.py:"),
    ],
)
def test_an_environment_that_fails_is_told_in_a_line(body: str, message: str, lab: str, tmp_path: Path) -> None:
    code = f"""
import sys, conrl, gymnasium, numpy as np
@conrl.envs.register("bad-box")
class Box(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    cost_names, cost_limits = ("heat",), (1.5,)
    def reset(self, *, seed=None, options=None): return 0, {{}}
    def step(self, action): return 0, 1.0, False, False, {{"cost": 0.5}}
    {body}
"""
    (tmp_path / "library" / "lab_box.py").write_text(code)
    told = refused("learn", "bad-box", "--import", "lab_box", "--episodes", 2, "--horizon", 3)
    assert told.startswith(message)


# -- studies ----------------------------------------------------------------------------------------------


def test_a_spec_imports_what_the_user_allows(lab: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(spec_text(lab))
    with pytest.raises(conrl.SpecError, match=rf"^{tmp_path}/s\.toml:1: importing {lab} runs its code.*--allow-import"):
        load_spec(tmp_path / "s.toml")
    assert lab not in sys.modules
    told = refused("run", tmp_path / "s.toml", "--out", tmp_path / "no")
    assert "--allow-import" in told
    assert lab not in sys.modules
    assert len(load_spec(tmp_path / "s.toml", allow_import=True).jobs) == 8
    assert len(load_spec(tmp_path / "s.toml").jobs) == 8  # it is loaded: nothing is imported now


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ('["no_such_lab"]', "no_such_lab cannot be imported; install it, or name its directory in PYTHONPATH"),
        ('["lab_bad"]', r"lab_bad cannot be imported: ZeroDivisionError: division by zero \(lab_bad\.py:2\)"),
        ('["lab_needs"]', r"lab_needs cannot be imported: ModuleNotFoundError: No module named 'no_such' \(lab_needs"),
        ('["lab_leaves"]', r"lab_leaves cannot be imported: SystemExit: 3"),
        ('["lab_takes"]', r"lab_takes cannot be imported: SpecError: environment 'box' is built in; lab_takes\.box"),
        ('["../lab"]', r"must be a list of modules such as \[\"my_lab\"\], without \.py or a path"),
        ('["/tmp/lab.py"]', "must be a list of modules"),
        ('"lab"', "must be a list of modules"),
    ],
)
def test_an_import_that_fails_is_told_with_its_line(modules: str, message: str, lab: str, tmp_path: Path) -> None:
    library = tmp_path / "library"
    (library / "lab_bad.py").write_text("\n1 / 0\n")
    (library / "lab_needs.py").write_text("import no_such\n")
    (library / "lab_leaves.py").write_text("import sys\nsys.exit(3)\n")
    (library / "lab_takes.py").write_text("import conrl\n@conrl.envs.register\ndef box(): ...\n")
    text = f"episodes = 3\nimport = {modules}\n[environment.box]\n[algorithm.ucbvi]\n"
    with pytest.raises(conrl.SpecError, match=f"^spec:2: .*{message}") as caught:
        parse_spec(text, allow_import=True)
    assert str(caught.value).count("spec:") == 1


def test_a_study_of_plugins_by_two_workers(lab: str, tmp_path: Path) -> None:
    """The bytes are those of one process; the names are kept with module and version; another version is refused."""
    spec = parse_spec(spec_text(lab), allow_import=True)
    expected = {str(job.directory("")): Run(job).play().to_csv().encode() for job in spec.jobs}
    outcome = run_study(spec, tmp_path / "out", workers=2)
    assert (outcome.finished, outcome.failed) == (8, {})
    assert progress(tmp_path / "out") == expected
    assert len(set(expected.values())) == 8
    where = tmp_path / "out" / "pump"
    assert {p.parent.parent.name for p in where.rglob("checkpoint.npz")} == {"conrl", "counting", "halved"}
    config = json.loads((where / "halved" / "seed-000" / "config.json").read_text())
    own = {"module": lab, "version": "1.0"}
    assert config["plugins"] == {
        "environment": {"name": "pump", **own},
        "planner": {"name": "halving", "settings": {"share": 0.4}, **own},
    }
    config = json.loads((where / "counting" / "seed-000" / "config.json").read_text())
    assert config["plugins"]["learner"] == {"name": "counting", **own}
    assert config["learner"]["prior"] == 0.3
    assert run_study(spec, tmp_path / "out", workers=1).before == 8
    sys.modules[lab].__version__ = "1.1"  # type: ignore[attr-defined]
    again = parse_spec(spec_text(lab), allow_import=True)
    with pytest.raises(conrl.RunError, match=r'another plugins.environment.version: "1.0" there, "1.1" here'):
        run_study(again, tmp_path / "out", workers=1)
    sys.modules[lab].__version__ = "1.0"  # type: ignore[attr-defined]
    other = parse_spec(spec_text(lab).replace("share = 0.4", "share = 0.3"), allow_import=True)
    with pytest.raises(conrl.RunError, match=r"another plugins.planner.settings.share: 0.4 there, 0.3 here"):
        run_study(other, tmp_path / "out", workers=1)


def test_workers_import_what_the_program_imported(lab: str, tmp_path: Path) -> None:
    """Without `import` in the spec."""
    __import__(lab)
    spec = parse_spec(spec_text(lab).partition("\n")[2])
    assert run_study(spec, tmp_path / "out", workers=2).finished == 8


def test_what_workers_cannot_know_is_told_before_anything_is_written(tmp_path: Path) -> None:
    text = """
        import conrl
        from conrl.experiments import parse_spec, run_study
        @conrl.envs.register
        def crate(): return conrl.envs.box()
        spec = parse_spec("episodes = 3\\n[environment.crate]\\n[algorithm.ucbvi]")
        GUARD
            print(run_study(spec, "out", workers=1).finished)
    """
    for guard in ("if True:", 'if __name__ == "__main__":'):
        (tmp_path / "program.py").write_text(textwrap.dedent(text).replace("GUARD", guard))
        done = launch([sys.executable, "program.py"], cwd=tmp_path)
        if "name" in guard:
            assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
        else:
            assert (
                "environment 'crate' is defined in the program itself, which the workers do not import" in done.stderr
            )
            assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("algorithm", ["slow", "forgetful"])
def test_a_killed_study_of_plugins_ends_with_the_same_bytes(algorithm: str, lab: str, tmp_path: Path) -> None:
    """A resumed study must be allowed to import again; a learner without a state begins again."""
    if algorithm == "forgetful":
        path = tmp_path / "library" / f"{lab}.py"
        path.write_text(path.read_text().replace("load_state = None", "load_state = None\n    pause = 0.01"))
    text = f'import = ["{lab}"]\nepisodes = 150\n[environment.pump]\n[algorithm.{algorithm}]\n'
    (tmp_path / "s.toml").write_text(text)
    out = tmp_path / "out"
    words = ["run", str(tmp_path / "s.toml"), "--out", str(out), "--workers", "1"]
    where = out / "pump" / algorithm / "seed-000"
    with launched([sys.executable, "-m", "conrl", *words, "--allow-import"], stderr=subprocess.DEVNULL) as process:
        wait_until((where / ("progress.csv" if algorithm == "slow" else "config.json")).exists, process)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (where / "checkpoint.npz").exists() == (algorithm == "slow")
    assert "--allow-import" in refused(*words)
    done = command(*words, "--allow-import")
    assert (done.returncode, said(done.stderr)) == (0, "")
    (job,) = parse_spec(text, allow_import=True).jobs
    assert progress(out) == {f"pump/{algorithm}/seed-000": Run(job).play().to_csv().encode()}
    assert (where / "checkpoint.npz").exists() == (algorithm == "slow")


def test_plugins_on_a_dask_cluster(lab: str, tmp_path: Path) -> None:
    spec = parse_spec(spec_text(lab), allow_import=True)
    with cluster(tmp_path) as address:
        outcome = run_study(spec, tmp_path / "out", dask=address)
    assert (outcome.finished, outcome.failed) == (8, {})
    assert progress(tmp_path / "out") == {
        str(job.directory("")): Run(job).play().to_csv().encode() for job in spec.jobs
    }


def test_plugins_are_tuned(lab: str, tmp_path: Path) -> None:
    from conrl.experiments.tuning import tune

    text = spec_text(lab).replace(
        "[algorithm.conrl]\n[algorithm.counting]\noptions = { prior = 0.3 }", "[algorithm.counting]"
    )
    text = text.partition("[algorithm.forgetful]")[0] + "[tune]\nparameters = { prior = [0.1, 0.9] }\n"
    for _ in range(2):
        trials = tune(parse_spec(text, allow_import=True), tmp_path / "tuning", workers=1)
        assert sorted(trial.setting["prior"] for trial in trials) == [0.1, 0.9]
        assert {trial.state for trial in trials} == {"complete"}


def test_a_saved_plugin_learner_goes_on_exactly(lab: str, tmp_path: Path) -> None:
    __import__(lab)
    job = Job(env="pump", algorithm="counting", episodes=20, options={"prior": 0.2}, seed=4)
    whole = Run(job).play()
    first = Run(Job(**{**vars(job), "episodes": 8}), tmp_path)
    first.play()
    second = Run(job, tmp_path)
    assert second.play().to_csv() == whole.to_csv()
    assert second.learner.inner.prior == 0.2
    second.learner.save(tmp_path / "learner.npz")
    loaded = conrl.load_learner(tmp_path / "learner.npz")
    assert loaded.episodes == 20
    assert np.array_equal(loaded.inner.visits, second.learner.inner.visits)
    learners.PLUGINS.remove("counting")
    with pytest.raises(
        conrl.RunError, match="its learner 'counting' is unknown; if it is a plug-in, import the module"
    ):
        conrl.load_learner(tmp_path / "learner.npz")


def test_a_subclass_of_ours_may_be_registered(tmp_path: Path) -> None:
    @learners.register
    class Eager(conrl.ConRL):
        name = "eager"

    spec = parse_spec("episodes = 6\n[environment.box]\n[algorithm.eager]\noptions.bonus = [0.1, -0.1]")
    history = Run(spec.jobs[0], tmp_path).play()
    same = Job(env="box", algorithm="conrl", episodes=6, options={"bonus": [0.1, -0.1]})
    assert history.to_csv() == Run(same).play().to_csv()
    assert Run(spec.jobs[0], tmp_path).play().to_csv() == history.to_csv()


def test_what_a_learner_of_two_methods_cannot_be_told_is_refused(lab: str) -> None:
    __import__(lab)
    cases = {
        "preset = 'authors'": "counting has no presets",
        "never = { service = 1 }": "counting has no parameter problem",
        "budgets = { service = 9 }": "counting takes Linear problems, not Knapsack",
        "options = { prir = 1 }": "unknown parameter of counting 'prir'; did you mean 'prior'",
    }
    for line, message in cases.items():
        with pytest.raises(conrl.ConRLError, match=message):
            parse_spec(f"episodes = 3\n[environment.pump]\n[algorithm.counting]\n{line}")
    with pytest.raises(conrl.SpecError, match=r"spec:3: .*no parameter problem"):
        parse_spec("episodes = 3\n[environment.pump]\nfloors = { service = 0.5 }\n[algorithm.counting]")


def test_a_learner_with_a_problem_is_told_it() -> None:
    @learners.register("asking")
    class Asking:
        problems = (conrl.Linear, conrl.Knapsack)

        def __init__(self, task: conrl.Task, problem: Any, **more: Any) -> None:
            self.problem, self.more = problem, more

        def propose(self) -> conrl.Policy:
            policy: conrl.Policy = conrl.plan(envs.box(), [0.3]).policy
            return policy

        def observe(self, episode: conrl.Episode) -> None: ...

    run = Run(Job(env="box", algorithm="asking", episodes=2, floors={"corner": 0.1}, options={"anything": [1, 2]}))
    assert run.learner.inner.problem.floors == {"corner": 0.1}
    assert run.learner.inner.more == {"anything": [1, 2]}
    run = Run(Job(env="box", algorithm="asking", episodes=2, budgets={"corner": 9.0}))
    assert isinstance(run.learner.inner.problem, conrl.Knapsack)


# -- what specs take --------------------------------------------------------------------------------------


def test_a_spec_takes_floors() -> None:
    text = "episodes = 8\n[environment.box]\nfloors = { corner = FLOOR }\n[algorithm.conrl]"
    history = Run(parse_spec(text.replace("FLOOR", "0.1")).jobs[0]).play()
    mdp = envs.box()
    learner = conrl.ConRL(mdp.task, problem=conrl.Linear(mdp.limits, {"corner": 0.1}))
    assert history.to_csv() == conrl.learn(mdp, learner, 8).to_csv()
    assert history.floors.tolist() == [0.1]
    with pytest.raises(conrl.SpecError, match=r"^spec:3: .*"):
        parse_spec(text.replace("FLOOR", "1e9"))
    with pytest.raises(conrl.SpecError, match=r"^spec:3: .*did you mean 'corner'"):
        parse_spec(text.replace("FLOOR", "0.1").replace("corner", "corne"))
    with pytest.raises(conrl.SpecError, match=r"budgets replace limits and floors"):
        parse_spec(text.replace("FLOOR", "0.1") + "\nbudgets = { corner = 3 }")
    assert record("learn", "box", "--floor", "corner=0.1", "--episodes", 8)["episodes"] == 8
    assert "give one kind" in refused("learn", "box", "--floor", "corner=0.1", "--budget", "corner=3")


def test_a_spec_takes_the_cost_of_an_environment(lab: str, tmp_path: Path) -> None:
    """Of one that publishes its model, and of one that does not."""
    import gymnasium

    text = f"""
        episodes = 5
        [environment.lake]
        model = "gymnasium:FrozenLake-v1"
        horizon = 20
        limits = {{ fall = 0.2 }}
        cost = "{lab}:falls"
        [algorithm.conrl]
    """
    text = textwrap.dedent(text)
    with pytest.raises(conrl.SpecError, match=f"spec:7: .*importing {lab} runs its code"):
        parse_spec(text)
    spec = parse_spec(text, allow_import=True)
    history = Run(spec.jobs[0], tmp_path).play()
    falls = sys.modules[lab].falls
    lake = conrl.from_gymnasium(gymnasium.make("FrozenLake-v1"), falls, 20, [0.2], ["fall"])
    assert history.to_csv() == conrl.learn(lake, conrl.ConRL(lake.task), 5).to_csv()
    study = load(tmp_path)  # the function is loaded here, so that the model is known
    assert study.environments["lake"].optimum is not None
    sys.modules.pop(lab)
    (other,) = load(tmp_path).environments.values()
    assert (other.mdp, f"--import {lab}" in other.unknown) == (None, True)
    parse_spec(text, allow_import=True)
    wrong = [
        (":falls", ":fals", f"unknown function of {lab} 'fals'; did you mean 'falls'"),
        (f"{lab}:", "", "cost is 'falls'; name a function as MODULE:FUNCTION"),
        (":falls", ":number", f"cost {lab}:number is 3; it must be a function"),
        ("gymnasium:FrozenLake-v1", "box", "cost is for Gymnasium environments; a model has costs of its own"),
    ]
    for old, new, message in wrong:
        with pytest.raises(conrl.SpecError, match=message):
            parse_spec(text.replace(old, new), allow_import=True)


def test_the_cost_of_an_environment_without_a_model(lab: str) -> None:
    import gymnasium

    if "Hidden-v0" not in gymnasium.registry:
        gymnasium.register("Hidden-v0", entry_point=_hidden)
    given: dict[str, Any] = {"env": "gymnasium:Hidden-v0", "algorithm": "conrl", "episodes": 4, "horizon": 20}
    run = Run(Job(**given, limits={"fall": 0.2}, cost=f"{lab}:falls", allow_import=True))
    history = run.play()
    assert (run.truth, len(history), history.cost_names) == (None, 4, ("fall",))
    env = gymnasium.make("Hidden-v0")
    task = conrl.Task.from_gymnasium(env, horizon=20, limits=[0.2], cost_names=["fall"])
    same = conrl.learn(env, conrl.ConRL(task), 4, cost=sys.modules[lab].falls)
    assert history.to_csv() == same.to_csv()
    with pytest.raises(conrl.SpecError, match="what cost gives has no name; set limits"):
        _ = Run(Job(**given, cost=f"{lab}:falls")).world


def _hidden(**options: Any) -> Any:
    import gymnasium

    class Hidden(gymnasium.Env):
        inner = gymnasium.make("FrozenLake-v1")
        observation_space, action_space = inner.observation_space, inner.action_space

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return self.inner.reset(seed=seed)

        def step(self, action: Any) -> Any:
            return self.inner.step(action)

    return Hidden()


def test_a_spec_takes_a_sampler(lab: str, tmp_path: Path) -> None:
    text = "episodes = 4\n[environment.box]\nreward_range = [0, 2]\ncost_ranges = { corner = [0, 1] }\n"
    text += f"[algorithm.ucbvi]\npay = '{lab}:coins'\n"
    with pytest.raises(conrl.SpecError, match=f"spec:6: .*importing {lab} runs its code"):
        parse_spec(text)
    spec = parse_spec(text, allow_import=True)
    assert run_study(spec, tmp_path, workers=1).finished == 1
    mdp = envs.box().replace(reward_range=(0, 2), cost_ranges={"corner": (0, 1)})
    same = conrl.learn(mdp, conrl.UCBVI(mdp.task), 4, pay=sys.modules[lab].coins)
    assert list(progress(tmp_path).values()) == [same.to_csv().encode()]
    words = ("learn", "box", "--episodes", 4, "--reward-range", 0, 2, "--cost-range", "corner=0,1")
    assert record(*words, "--pay", f"{lab}:coins")["episodes"] == 4
    assert refused(*words, "--pay", f"{lab}:coin").startswith("--pay: pay lab_module:coin: unknown function")
    assert "it must be 'outcome', 'bernoulli' or a function" in refused(*words, "--pay", "outcom")


# -- installed packages -----------------------------------------------------------------------------------


def test_an_installed_package_is_used_by_name_on_the_command_line(installed: Path, tmp_path: Path) -> None:
    """In processes of their own, without any permission: what is installed is trusted."""
    done = command("plan", "pump", "--planner", "halving", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["costs"]["service"]["value"] <= 0.5 + 1e-9
    done = command("learn", "pump", "--algorithm", "counting", "--episodes", 10, "--out", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr
    (tmp_path / "s.toml").write_text(SPEC.partition("\n")[2].replace("[algorithm.forgetful]\n", ""))
    done = command("run", tmp_path / "s.toml", "--out", tmp_path / "out", "--workers", 2)
    assert (done.returncode, said(done.stderr)) == (0, "")
    assert len(progress(tmp_path / "out")) == 6
    done = command("plan", "pum")
    assert (done.returncode, done.stderr) == (2, "Error: unknown model 'pum'; did you mean 'pump'?\n")
    done = command("report", tmp_path / "out")  # a file loads nothing
    assert "pump: nothing is compared with the model: it is of the plug-in pack" in done.stderr
    assert "say --import pack" in done.stderr
    done = command("report", tmp_path / "out", "--import", "pack")
    assert done.stderr == ""


def test_what_is_installed_is_listed_with_its_package(installed: Path) -> None:
    found = record("envs")
    (pump,) = found["plugins"]
    assert (pump["name"], pump["package"], pump["description"]) == ("pump", "pack 2.1", "A pump that wears.")
    assert pump["parameters"] == {"load": 0.5, "horizon": 6}
    assert found["broken"] == []
    found = record("algorithms")
    assert found["algorithms"][-1]["name"] == "counting"
    assert found["algorithms"][-1]["package"] == "pack 2.1"
    assert [planner["name"] for planner in found["planners"]] == ["halving"]
    assert re.search(r"pump +A pump that wears\. \(pack 2\.1\)", ok("envs"))
    assert re.search(r"counting +Plans in what it has counted.* \(pack 2\.1\)", ok("algorithms"))
    assert re.search(r"--planner halving +Keeps a share of every limit\. \(pack 2\.1\)", ok("algorithms"))


def test_nothing_is_loaded_before_its_name_is_asked_for(installed: Path) -> None:
    ok("plan", "box")
    parse_spec("episodes = 2\n[environment.box]\n[algorithm.ucbvi]")
    refused("plan", "pum")
    assert "pack" not in sys.modules
    assert envs.make("pump").horizon == 6
    assert "pack" in sys.modules


def test_a_directory_of_runs_loads_no_package(installed: Path, tmp_path: Path) -> None:
    Run(Job(env="box", algorithm="ucbvi", episodes=3), tmp_path).play()
    path = tmp_path / "box" / "ucbvi" / "seed-000" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"env": "pump", "settings": {}}))
    (env,) = load(tmp_path).environments.values()
    assert "environment 'pump' is a plug-in of pack 2.1, and a file loads none; import pack first" in env.unknown
    learner = conrl.ConRL(envs.box().task)
    config = learner.config() | {"learner": "counting"}
    learner.config = lambda: config  # type: ignore[method-assign]
    learner.save(tmp_path / "learner.npz")
    with pytest.raises(conrl.RunError, match="its learner 'counting' is unknown; if it is a plug-in, import"):
        conrl.load_learner(tmp_path / "learner.npz")
    assert "pack" not in sys.modules


def test_a_broken_package_breaks_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        ENVS: {"bad": "pack_bad:bad", "box": "pack_bad:box", "missing": "no_such_pack:x", "Odd name": "pack_bad:x"},
        LEARNERS: {"bad": "pack_bad:Bad"},
    }
    monkeypatch.syspath_prepend(package(tmp_path, "pack_bad", points, "raise RuntimeError('half installed')\n"))
    assert json.loads(ok("plan", "box", "--json"))
    told = refused("plan", "bad")
    assert told.startswith("environment 'bad' of pack_bad 2.1: pack_bad:bad cannot be loaded: RuntimeError: half inst")
    assert "(pack_bad.py:1)" in told
    assert refused("learn", "missing").endswith("No module named 'no_such_pack'")
    assert "'bad' of pack_bad 2.1" in refused("learn", "box", "--algorithm", "bad")
    result = run("envs", "--json")
    assert result.exit_code == 0
    lines = said(result.stderr).splitlines()
    assert len(lines) == 4
    assert all(line.startswith("left out: ") for line in lines)
    assert any("'box' of pack_bad 2.1: the name is built in" in line for line in lines)
    assert len(json.loads(result.stdout)["broken"]) == 4


def test_an_entry_point_may_lead_to_what_another_module_defines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or to an object without a name of its own; what it says may be anything."""
    points = {"half": "pack_lead:half", "far": "pack_lead:far", "odd": "no name !", "bare": "pack_lead"}
    code = "import functools, conrl\nfrom other_far import far\nhalf = functools.partial(conrl.envs.box, horizon=4)\n"
    folder = package(
        tmp_path, "pack_lead", {ENVS: points, LEARNERS: {"three": "pack_lead:three"}}, f"{code}three = 3\n"
    )
    (folder / "other_far.py").write_text("import conrl\ndef far(): return conrl.envs.box(horizon=3)\n")
    monkeypatch.syspath_prepend(folder)
    assert (envs.make("half").horizon, envs.make("far").horizon) == (4, 3)
    assert str(ENVIRONMENTS.source("half")) == "pack_lead.half of pack_lead 2.1"
    for name in ("odd", "bare"):
        assert refused("plan", name).endswith("cannot be loaded: ValueError: it must be MODULE:NAME")
    assert refused("learn", "box", "--algorithm", "three").endswith("algorithm 'three' is 3; register its class")
    with pytest.raises(conrl.SpecError, match="a file loads none"):
        ENVIRONMENTS.find("odd", installed=False)


def test_a_package_with_damaged_entry_points_breaks_nothing_else(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = package(tmp_path / "more", "pack_damaged", {ENVS: {"other": "pack_damaged:pump"}}, PLAIN)
    monkeypatch.syspath_prepend(folder)
    (points,) = folder.glob("*.dist-info/entry_points.txt")
    for damaged in (b"[conrl.environments]\nno sign of equality\n", b"[conrl.environments]\n\xff = x:y\n"):
        points.write_bytes(damaged)
        assert envs.make("pump").num_states == 2
        (line,) = json.loads(run("envs", "--json").stdout)["broken"]
        assert "pack_damaged" in line
        assert "its entry points cannot be read: " in line


def test_two_packages_with_one_name(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = package(tmp_path / "more", "other_pack", {ENVS: {"pump": "other_pack:pump"}}, PLAIN)
    monkeypatch.syspath_prepend(other)
    told = refused("plan", "pump")
    assert "environment 'pump' is in several packages" in told
    assert "other_pack:pump of other_pack 2.1" in told
    assert "pack:pump of pack 2.1" in told

    def pump() -> conrl.ConstrainedMDP:
        return envs.box()

    with pytest.raises(conrl.SpecError, match=r"'pump' is registered twice, by .*pack.pump of .* and by test_plugins"):
        envs.register(pump)


def test_a_package_may_use_the_decorators_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {ENVS: {"pump": "pack_own:pump"}, LEARNERS: {"counting": "pack_own:Counting", "second": "pack_own:Slow"}}
    monkeypatch.syspath_prepend(package(tmp_path, "pack_own", points, LAB))
    assert envs.make("pump").horizon == 6
    assert learners.PLUGINS.find("counting").name == "counting"
    source = learners.PLUGINS.source("counting")
    assert source is not None
    assert source.module == "pack_own"
    __import__("pack_own")


def test_what_is_imported_by_the_user_is_there(lab: str) -> None:
    assert record("plan", "pump", "--import", lab)["states"] == 2
    assert "no_such_lab cannot be imported" in refused("plan", "pump", "--import", "no_such_lab")
    assert "is no name of a module" in refused("plan", "pump", "--import", "lab.py/x")
    assert "pump" in ok("envs", "--import", lab)


@pytest.mark.parametrize("name", ["builtins:print", "numpy:f2py", "os:system"])
def test_a_file_calls_nothing_that_happens_to_be_loaded(name: str) -> None:
    """That a module is there is no permission, and asking one for a name may import more."""
    with pytest.raises(conrl.SpecError, match="runs its code; if you trust it"):
        load_function(name, "cost", allowed=False)


class Drawing:
    """A learner whose proposals are drawn from a generator that is part of its state."""

    def __init__(self, task: conrl.Task, seed: int = 0) -> None:
        self.task, self.generator = task, np.random.default_rng(seed)

    def propose(self) -> conrl.Policy:
        H, S, A = self.task.horizon, self.task.num_states, self.task.num_actions
        return conrl.Deterministic(self.generator.integers(A, size=(H, S)), A)

    def observe(self, episode: conrl.Episode) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {"drawn": np.array(json.dumps(self.generator.bit_generator.state))}

    def load_state(self, arrays: Any) -> None:
        self.generator.bit_generator.state = json.loads(str(arrays["drawn"]))


def test_a_learner_that_is_saved_between_proposal_and_episode_proposes_the_same(tmp_path: Path) -> None:
    learners.register("drawing")(Drawing)
    try:
        kind = learners.PLUGINS.find("drawing")
        learner = kind(conrl.Task(3, 2, 4, [1.0], ["c"]))
        for _ in range(3):
            proposed = learner.propose().probabilities
            learner.save(tmp_path / "l.npz")
            again = conrl.load_learner(tmp_path / "l.npz")
            np.testing.assert_array_equal(again.propose().probabilities, proposed)
            episode = conrl.Episode([0] * 5, [0] * 4, [0.0] * 4, np.zeros((4, 1)))
            learner.observe(episode)
            again.observe(episode)
            np.testing.assert_array_equal(again.propose().probabilities, learner.propose().probabilities)
    finally:
        learners.PLUGINS.remove("drawing")

"""Specs: what they ask for, and every mistake with its line."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import conrl
from conrl.cli.main import main
from conrl.cli.studies import read_spec
from conrl.experiments import Job, Run, Spec, SpecMistakes, builtin_spec, load_spec, parse_spec
from conrl.experiments.spec import LARGEST_FILE
from conrl.experiments.toml_lines import Lines
from conrl.experiments.worlds import Worlds

BUILT_IN = sorted(p.name.removesuffix(".toml") for p in (resources.files("conrl.experiments") / "specs").iterdir())

EVERYTHING = """\
name = "all"
title = "Everything"
episodes = 50
seeds = [3, 1]

[environment.rover]
model = "mars-rover"
title = "Mars rover"
set = { rock_reward = 1.0 }
limits = { crash = 0.4 }
horizon = 25
start = "r7c0"

[environment.box]

[environment."walk on ice"]
model = "gymnasium:FrozenLake-v1"
horizon = 20

[algorithm.careful]
learner = "conrl"
title = "Careful"
preset = "default"
environments = ["rover", "box"]
pay = "bernoulli"
options = { bonus = [0.02, -0.02], planner = { name = "lagrangian", step = 0.2, iterations = 5 } }
[algorithm.careful.on.box]
seeds = 3
episodes = 7
pay = "outcome"
options.planner.step = 10.0

[algorithm.thrifty]
learner = "conrl"
environments = ["box"]
seeds = 1
budgets = { corner = 4 }
epsilon = 0.25
options = { resolve = false }

[algorithm.ucbvi]
options.scale = 1e-4
"""


def job(spec: Spec, env_name: str, name: str, seed: int) -> Job:
    (found,) = [j for j in spec.jobs if (j.env_name, j.name, j.seed) == (env_name, name, seed)]
    return found


def mistakes(text: str) -> list[str]:
    with pytest.raises(SpecMistakes) as caught:
        parse_spec(text, "s.toml")
    return caught.value.mistakes


def test_every_key() -> None:
    spec = parse_spec(EVERYTHING)
    assert (spec.name, spec.title) == ("all", "Everything")
    assert [(j.env_name, j.name, j.seed, j.episodes) for j in spec.jobs] == [
        ("rover", "careful", 3, 50),
        ("rover", "careful", 1, 50),
        ("box", "careful", 0, 7),
        ("box", "careful", 1, 7),
        ("box", "careful", 2, 7),
        ("box", "thrifty", 0, 50),
        *((env, "ucbvi", seed, 50) for env in ("rover", "box", "walk on ice") for seed in (3, 1)),
    ]
    rover = job(spec, "rover", "careful", 3)
    assert (rover.env, rover.algorithm, rover.settings) == ("mars-rover", "conrl", {"rock_reward": 1.0})
    assert (rover.limits, rover.horizon, rover.start, rover.pay) == ({"crash": 0.4}, 25, "r7c0", "bernoulli")
    assert rover.options["planner"] == {"name": "lagrangian", "step": 0.2, "iterations": 5}
    box = job(spec, "box", "careful", 0)
    # What stands under `on` is merged table by table, and only there.
    assert box.options["planner"] == {"name": "lagrangian", "step": 10.0, "iterations": 5}
    assert (box.options["bonus"], box.pay, box.limits, box.horizon) == ([0.02, -0.02], "outcome", {}, None)
    thrifty = job(spec, "box", "thrifty", 0)
    assert (thrifty.budgets, thrifty.epsilon) == ({"corner": 4.0}, 0.25)
    assert job(spec, "walk on ice", "ucbvi", 1).directory("out") == Path("out/walk-on-ice/ucbvi/seed-001")
    assert spec.titles() == {
        "environments": {"rover": "Mars rover", "box": "box", "walk on ice": "walk on ice"},
        "algorithms": {"careful": "Careful", "thrifty": "thrifty", "ucbvi": "ucbvi"},
    }


def test_the_keys_reach_the_learner() -> None:
    spec = parse_spec(EVERYTHING)
    config = Run(job(spec, "rover", "careful", 3)).settings
    assert (config["learner"]["task"]["horizon"], config["pay"], config["seed"]) == (25, "bernoulli", 3)
    assert config["learner"]["planner"]["iterations"] == 5
    assert config["learner"]["problem"]["limits"] == [0.4]
    knapsack = Run(job(spec, "box", "thrifty", 0)).settings["learner"]["problem"]
    assert (knapsack["kind"], knapsack["episodes"], knapsack["epsilon"]) == ("Knapsack", 50, 0.25)
    assert Run(job(spec, "box", "ucbvi", 1)).settings["learner"]["scale"] == 1e-4


def test_ranges_of_one_step() -> None:
    text = "episodes = 5\n[environment.box]\nreward_range = [0.5, 1]\n[algorithm.ucbvi]\n"
    assert mistakes(text)[0].startswith("s.toml:3: ucbvi on box: reward_range is 0.5 to 1, but the model itself pays")
    text = text.replace("reward_range = [0.5, 1]", "cost_ranges = { corner = 3 }")
    assert "a table of two numbers each" in mistakes(text)[0]
    (job,) = parse_spec(text.replace("corner = 3", "corner = [-1, 2]")).jobs
    task = Run(job).settings["learner"]["task"]
    assert (task["reward_range"], task["cost_ranges"]) == ([0.0, 1.0], [[-1.0, 2.0]])
    if "Corridor-v0" not in gymnasium.registry:
        gymnasium.register("Corridor-v0", entry_point=lambda **_: Corridor(), disable_env_checker=True)
    text = """\
episodes = 5
[environment.walk]
model = "gymnasium:Corridor-v0"
reward_range = [-1, 2]
limits = { fall = 0.5 }
horizon = 4
[algorithm.ucbvi]
"""
    (job,) = parse_spec(text).jobs
    assert job.reward_range == (-1.0, 2.0)
    assert Run(job).settings["learner"]["task"]["reward_range"] == [-1.0, 2.0]
    assert "two numbers such as [0, 1]" in mistakes(text.replace("[-1, 2]", "[-1]"))[0]


class Corridor(gymnasium.Env[Any, Any]):
    """Its model is not published."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)


class Limited(Corridor):
    """It declares a limit, and no name."""

    cost_limits = (0.5,)


def test_an_environment_without_a_model_keeps_what_it_declares() -> None:
    if "Limited-v0" not in gymnasium.registry:
        gymnasium.register("Limited-v0", entry_point=lambda **_: Limited(), disable_env_checker=True)
    env = {"env": "gymnasium:Limited-v0", "algorithm": "ucbvi", "episodes": 1}
    for said in ({"horizon": 4}, {"settings": {"horizon": 4}}):
        task = Run(Job(**env, **said)).learner.task  # type: ignore[arg-type]
        assert (task.horizon, task.cost_names, task.limits.tolist()) == (4, ("cost",), [0.5])
    task = Run(Job(**env, horizon=4, limits={"cost": 0.2})).learner.task  # type: ignore[arg-type]
    assert task.limits.tolist() == [0.2]
    for wrong, key in (
        ({"horizon": 4, "limits": {"fuel": 1.0}}, ("limits", "fuel")),
        ({"horizon": 4, "settings": {"initial": 1}}, ("settings", "initial")),
        ({"horizon": 4, "settings": {"horizon": 5}}, ("settings", "horizon")),
        ({}, ("env",)),  # no horizon
        ({"env": "gymnasium:CartPole-v1"}, ("env",)),
        ({"horizon": 4, "pay": "bernoulli"}, ("pay",)),
    ):
        with pytest.raises(conrl.ConRLError) as caught:
            Run(Job(**(env | wrong))).check()  # type: ignore[arg-type]
        assert caught.value.key == key, wrong


class Vectors(Corridor):
    """Its costs have names and ranges of their own."""

    cost_names = ("fuel", "noise")
    pay_ranges = np.array([[0.0, 10.0], [0.0, 5.0], [0.0, np.inf]])


def test_an_environment_by_name_keeps_the_ranges_it_declares() -> None:
    if "Vectors-v0" not in gymnasium.registry:
        gymnasium.register("Vectors-v0", entry_point=lambda **_: Vectors(), disable_env_checker=True)
    given: dict[str, Any] = {"env": "gymnasium:Vectors-v0", "algorithm": "ucbvi", "episodes": 1, "horizon": 4}
    task = Run(Job(**given, limits={"fuel": 5.0})).learner.task
    assert task.ranges.tolist() == [[0.0, 10.0], [0.0, 5.0], [0.0, 1.0]]
    task = Run(Job(**given, reward_range=(0, 3), cost_ranges={"noise": (0, 2)})).learner.task
    assert task.ranges.tolist() == [[0.0, 3.0], [0.0, 5.0], [0.0, 2.0]]


def test_costs_without_names_have_those_of_the_table_that_names_all() -> None:
    """In its order; where limits and ranges have two orders, nobody knows which cost is the first."""
    if "Corridor-v0" not in gymnasium.registry:
        gymnasium.register("Corridor-v0", entry_point=lambda **_: Corridor(), disable_env_checker=True)
    env: dict[str, Any] = {"env": "gymnasium:Corridor-v0", "horizon": 4}
    model: dict[str, Any] = {"env": "gymnasium:FrozenLake-v1", "cost": f"{__name__}:two_costs", "allow_import": True}
    inf, unit = float("inf"), (0.0, 1.0)
    for asked in (env, model):
        job = Job(**asked, algorithm="ucbvi", episodes=1)
        for limits, ranges, names in (
            ({"falls": 0.9}, {"time": unit, "falls": unit}, ("time", "falls")),
            ({"time": inf, "falls": 0.9}, {"falls": unit}, ("time", "falls")),
            ({"time": inf, "falls": 0.9}, {}, ("time", "falls")),
            ({}, {"time": unit, "falls": unit}, ("time", "falls")),
        ):
            task = Run(replace(job, limits=limits, cost_ranges=ranges)).learner.task
            assert task.cost_names == names
            assert np.asarray(task.limits).tolist() == [limits.get(name, inf) for name in names]
        for limits, ranges in (
            ({"falls": 0.9, "time": inf}, {"time": unit, "falls": unit}),
            ({"falls": 0.9}, {"time": unit}),
        ):
            with pytest.raises(conrl.SpecError, match=r"limits \(falls.* cost_ranges \(time.* do not agree"):
                _ = Run(replace(job, limits=limits, cost_ranges=ranges)).learner


def test_two_orders_of_costs_are_two_worlds() -> None:
    given = {"env": "gymnasium:FrozenLake-v1", "cost": f"{__name__}:two_costs", "allow_import": True}
    job = Job(**given, algorithm="ucbvi", episodes=1)  # type: ignore[arg-type]
    worlds = Worlds()
    for names in (("time", "falls"), ("falls", "time")):
        world, _ = worlds.of(replace(job, limits=dict.fromkeys(names, 1.0)))
        assert world.cost_names == names  # type: ignore[union-attr]


def two_costs(*_: Any) -> list[float]:
    return [1.0, 0.0]


def test_a_safe_policy_is_read_by_the_names_of_the_model(tmp_path: Path) -> None:
    """A table with names, or numbers in another order, needs the model; a study has it."""
    lines = ["b,go,b,1,0.5,0.5", "b,wait,a,1,0,0", "a,go,b,1,1,1", "a,wait,a,1,0,0"]
    (tmp_path / "m.csv").write_text("\n".join(["state,action,next_state,probability,reward,cost_heat", *lines]) + "\n")
    mdp = conrl.load_model(tmp_path / "m.csv", horizon=3)
    plan = conrl.plan(mdp, [0.5])
    names = {"env": str(tmp_path / "m.csv"), "horizon": 3, "limits": {"heat": 1.0}}
    for file in ("p.csv", "p.npz"):
        plan.policy.save(tmp_path / file, mdp)
        options = {"safe": str(tmp_path / file), "safe_costs": [0.5]}
        job = Job(**names, algorithm="safe-conrl", episodes=1, options=options)  # type: ignore[arg-type]
        np.testing.assert_allclose(Run(job).learner.safe.probabilities, plan.policy.probabilities)


def test_names_are_taken_from_the_file_and_models_from_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conrl.save_model(tmp_path / "shop.npz", conrl.envs.box())
    path = tmp_path / "pricing study.toml"
    path.write_text('episodes = 3\n[environment."shop.npz"]\n[algorithm.ucbvi]\n')
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    spec = load_spec("../pricing study.toml")
    assert (spec.name, spec.title) == ("pricing study", "pricing study")
    # The same wherever it is read and wherever it is played.
    assert Path(spec.jobs[0].env).samefile(tmp_path / "shop.npz")
    assert Path(spec.jobs[0].env).is_absolute()
    assert spec.jobs[0].directory("out") == Path("out/shop/ucbvi/seed-000")


HEAD = "episodes = 5\nseeds = 2\n\n[environment.box]\n\n"  # five lines
UCBVI = HEAD + "[algorithm.ucbvi]\n"  # line 6
CONRL = HEAD + "[algorithm.conrl]\n"
ROVER = "episodes = 5\n[environment.mars-rover]\n"
LATER = "\n[algorithm.ucbvi]\n"

MISTAKES: dict[str, tuple[str, int, str]] = {
    # misspelt keys, at each level
    "top": ("episode = 5\n" + HEAD.partition("\n")[2] + LATER, 1, "did you mean 'episodes'"),
    "kind": (UCBVI + "\n[algoritm.rcpo]\n", 8, "did you mean 'algorithm'"),
    "environment key": (HEAD + "horizn = 3\n" + LATER, 6, "did you mean 'horizon'"),
    "algorithm key": (CONRL + "\n# why not\nlerner = 'conrl'\n", 9, "did you mean 'learner'"),
    "on": (UCBVI + "[algorithm.ucbvi.on.bx]\nepisodes = 3\n", 7, "unknown environment 'bx'; did you mean 'box'"),
    "key on": (UCBVI + "[algorithm.ucbvi.on.box]\nepisods = 3\n", 8, "did you mean 'episodes'"),
    "key on, dotted": (UCBVI + "title = 'x'\non.box.episods = 3\n", 8, "did you mean 'episodes'"),
    "key on, inline": (UCBVI + "title = 'x'\non = { box = { episods = 3 } }\n", 8, "did you mean 'episodes'"),
    "tune": (UCBVI + "[tune]\ntrails = 3\n", 8, "did you mean 'trials'"),
    # names that are not there
    "model": (ROVER.replace("rover", "rove") + LATER, 2, "unknown model 'mars-rove'; did you mean 'mars-rover'"),
    "model key": ("episodes = 5\n[environment.x]\nmodel = 'bx'\n" + LATER, 3, "did you mean 'box'"),
    "model file": ("episodes = 5\n[environment.x]\nmodel = 'no.csv'\n" + LATER, 3, "no such file: no.csv"),
    "algorithm": (HEAD + "[algorithm.ucbv]\n", 6, "unknown algorithm 'ucbv'; did you mean 'ucbvi'"),
    "learner": (HEAD + "[algorithm.x]\nlearner = 'ucbv'\n", 7, "did you mean 'ucbvi'"),
    "parameter": (ROVER + "\nset = { rock_rewad = 1 }\n" + LATER, 4, "did you mean 'rock_reward'"),
    "parameter, dotted": (ROVER + "\nset.rock_rewad = 1\n" + LATER, 4, "did you mean 'rock_reward'"),
    "parameter, table": (
        ROVER + "[environment.mars-rover.set]\nslip = 0\nrewad = 1\n" + LATER,
        5,
        "'rewad'; did you mean",
    ),
    "option": (UCBVI + "options = { delta = 0.1, scal = 1 }\n", 7, "did you mean 'scale'"),
    "option on": (UCBVI + "on.box.options.scal = 1\n", 7, "did you mean 'scale'"),
    "planner": (CONRL + "options = { planner = 'lagrangien' }\n", 7, "did you mean 'lagrangian'"),
    "planner field": (
        CONRL + "[algorithm.conrl.options.planner]\nname = 'lagrangian'\nstepp = 1\n",
        9,
        "unknown field of planner 'stepp'; did you mean 'step'",
    ),
    "oracle field": (
        CONRL + "[algorithm.conrl.options.planner]\nname = 'lagrangian'\noracle = { rest = 'none' }\n",
        9,
        "unknown field of oracle 'rest'; did you mean 'reset'",
    ),
    "not its option": (UCBVI + "options.planner = 'lagrangian'\n", 7, "unknown parameter of ucbvi 'planner'"),
    "bonus": (CONRL + "options.bonus = 'much'\n", 7, "such as 0.02,-0.01"),
    "bonus field": (CONRL + "options.bonus = { rewrd = 1 }\n", 7, "did you mean 'reward'"),
    "bonus scales": (CONRL + "options.bonus = [0.1, 0.1, 0.1]\n", 7, "2 scales for 1 costs"),
    "preset": (CONRL + "\npreset = 'author'\n", 8, "did you mean 'authors'"),
    "pay": (CONRL + "\npay = 'often'\n", 8, "'outcome', 'bernoulli'"),
    "start": (ROVER + "\nstart = 'nowhere'\n" + LATER, 4, "no state 'nowhere'"),
    "limit": (HEAD + "limits = { edge = 1 }\n" + LATER, 6, "unknown cost 'edge'; known: corner"),
    "budget": (CONRL + "\nbudgets.edge = 1\n", 8, "unknown cost 'edge'"),
    "environments": (UCBVI + "environments = ['bx']\n", 7, "did you mean 'box'"),
    # values that cannot be
    "episodes": ("episodes = 'many'\n" + HEAD.partition("\n")[2] + LATER, 1, "a whole number of at least 1"),
    "no episodes": (HEAD.partition("\n")[2] + "[algorithm.ucbvi]\n", 5, "write episodes = 1000"),
    "no seeds": (UCBVI + "seeds = 0\n", 7, "a number of seeds (1 to 10,000)"),
    "same seeds": (UCBVI + "seeds = [\n  1,\n  1,\n]\n", 7, "different ones"),
    "negative seed": (UCBVI + "seeds = [-1]\n", 7, "a number of seeds"),
    "same environments": (UCBVI + "environments = ['box', 'box']\n", 7, "different names"),
    "title": (UCBVI + "title = 3\n", 7, "title is 3; it must be a text"),
    "horizon": (HEAD + "horizon = 0.5\n" + LATER, 6, "a whole number of at least 1"),
    "set": (HEAD + "set = 3\n" + LATER, 6, "it must be a table"),
    "limits": (HEAD + "limits.corner = true\n" + LATER, 6, "a table of numbers"),
    "nan": (HEAD + "limits.corner = nan\n" + LATER, 6, "is nan; it must be a number"),
    "epsilon": (CONRL + "budgets.corner = 1\nepsilon = 1\n", 8, "a number in [0, 1) or 'theorem'"),
    "theorem": (CONRL + "budgets.corner = 1\nepsilon = 'theorem'\n", 8, "no guarantee"),
    "no budgets": (UCBVI + "title = 'x'\nbudgets.corner = 1\n", 8, "ucbvi takes"),
    "wrong type": (ROVER + "set.rock_reward = 'x'\n" + LATER, 3, "it must be a number"),
    "wrong option": (UCBVI + "options.scale = 'x'\n", 7, "scale"),
    "wrong field": (CONRL + "options.planner = { name = 'lagrangian', step = 'x' }\n", 7, "step is 'x'"),
    "infinite": (HEAD + "[algorithm.appropo]\noptions = { threshold = 1, episodes = inf }\n", 7, "a whole number"),
    "date": (UCBVI + "options.keep_policies = 2020-01-01\n", 7, "keep_policies is"),
    "infeasible": (ROVER + "limits = { crash = 0 }\n" + LATER, 3, "crash <= 0 cannot be kept"),
    "twice": (HEAD + "horizon = 3\nset = { horizon = 4 }\n" + LATER, 7, "given twice"),
    "no table": ("environment = 3\nepisodes = 5\n" + LATER, 1, "environment is 3"),
    "list of tables": ("episodes = 5\n[[environment]]\nmodel = 'box'\n" + LATER, 2, "must be a table"),
    "value for a table": ("episodes = 5\n[environment]\nbox = 3\n" + LATER, 3, "a table [environment.box]"),
    "search": (UCBVI + "[tune.parameters]\nscale = 3\n", 8, "a list of values or"),
    # names of directories
    "upwards": (HEAD + "[environment.'../x']\nmodel = 'box'\n" + LATER, 6, "cannot name a directory"),
    "dots": (HEAD + "[algorithm.'..']\nlearner = 'ucbvi'\n", 6, "cannot name a directory"),
    "empty": (HEAD + "[algorithm.'']\nlearner = 'ucbvi'\n", 6, "cannot name a directory"),
    "long": (HEAD + f"[algorithm.{'x' * 101}]\nlearner = 'ucbvi'\n", 6, "cannot name a directory"),
    "same directory": (HEAD + "[environment.'box?']\nmodel = 'box'\n" + LATER, 6, "would share a directory"),
    "same file": (HEAD + "[environment.'box.csv']\nmodel = 'box'\n" + LATER, 6, "would share a directory"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_each_mistake_has_its_line(case: str) -> None:
    text, line, piece = MISTAKES[case]
    (found,) = mistakes(text)
    assert found.startswith(f"s.toml:{line}: ")
    assert piece in found
    assert "\n" not in found


def test_mistakes_are_told_all_at_once() -> None:
    text = """\
epsodes = 5
seeds = 2.5

[environment.box]
horizn = 3

[environment.mars-rover]
set = { rock_rewad = 1 }

[algorithm.conrl]
options = { planer = "lagrangian" }
environments = ["mars-rove"]

[algorithm.ucbvi]
options = { scal = 2 }

[algorithm.optcmdp]
"""
    found = mistakes(text)
    assert [int(line.split(":")[1]) for line in found] == [1, 2, 5, 8, 11, 12, 15]
    assert "rock_reward" in found[3]  # once, though three algorithms would run there
    found = mistakes("[environment.box]\n[algorithm.ucbvi]\n[algorithm.conrl]\n")
    assert [line.split(": ")[1] for line in found] == [
        "ucbvi has no number of episodes; write episodes = 1000",
        "conrl has no number of episodes; write episodes = 1000",
    ]
    assert [line.rpartition("[")[2] for line in mistakes("name = 'x'\n")] == ["algorithm.NAME]", "environment.NAME]"]


def test_every_value_of_one_run_that_is_wrong_is_told() -> None:
    text = """\
episodes = 5
[environment.mars-rover]
set = { rock_rewad = 1, slip = "x" }
limits = { crsh = 1 }
start = "nowhere"
horizon = "long"
[algorithm.conrl]
preset = "author"
pay = "often"
[algorithm.conrl.options]
bonus = "much"
planner = { name = "lagrangian", stepp = 1, iterations = 0 }
executes = "nothing"
"""
    found = mistakes(text)
    assert [int(line.split(":")[1]) for line in found] == [3, 3, 4, 5, 6, 8, 9, 11, 12, 12, 13]
    assert all(line.startswith(f"s.toml:{line.split(':')[1]}: ") for line in found)


def test_no_mistake_is_invented() -> None:
    """What is left out to look further must not be missed."""
    budgets = "episodes = 5\n[environment.box]\n[algorithm.conrl]\nbudgets = { cornr = 1 }\noptions.resolve = true\n"
    (found,) = mistakes(budgets)
    assert found.startswith("s.toml:4: conrl on box: unknown cost 'cornr'")
    if "Corridor-v0" not in gymnasium.registry:
        gymnasium.register("Corridor-v0", entry_point=lambda **_: Corridor(), disable_env_checker=True)
    walk = "episodes = 5\n[environment.walk]\nmodel = 'gymnasium:Corridor-v0'\nhorizon = 4\nlimits = { crash = 'a' }\n"
    (found,) = mistakes(walk + "cost_ranges = { crash = [0, 1] }\n[algorithm.conrl]\nbudgets = { crash = 3 }\n")
    assert found.startswith("s.toml:5: limits is {'crash': 'a'}")
    lake = "episodes = 5\n[environment.lake]\nmodel = 'gymnasium:FrozenLake-v'\n[algorithm.conrl]\n"
    (found,) = mistakes(lake + "options = { executes = 'policy' }\n[algorithm.ucbvi]\n")
    assert found.startswith("s.toml:3: conrl on lake: ")


def test_a_name_with_dashes_is_told_as_it_stands() -> None:
    """Options of the command line were cut out of messages, and with them a part of this name."""
    assert mistakes("episodes = 5\n[environment.box--two]\n[algorithm.ucbvi]\n") == [
        "s.toml:2: ucbvi on box--two: unknown model 'box--two'; known: mars-rover, box, random, pricing, "
        "pricing-hours, bidding, cluster, factored, media-streaming, inventory, "
        "gymnasium:<id>, a file that ends in .npz, .csv, .tsv, .xlsx or .drn"
    ]


def test_what_an_error_is_about_is_a_key_and_not_a_sentence() -> None:
    box = {"env": "box", "algorithm": "conrl", "episodes": 3}
    for wrong, key in (
        ({"env": "bx"}, ("env",)),
        ({"algorithm": "conr"}, ("algorithm",)),
        ({"limits": {"edge": 1.0}}, ("limits", "edge")),
        ({"cost_ranges": {"edge": (0.0, 1.0)}}, ("cost_ranges", "edge")),
        ({"reward_range": (1.0, 0.0)}, ("reward_range",)),
        ({"settings": {"speed": 7}}, ("settings", "speed")),
        ({"settings": {"slip": "x"}}, ("settings", "slip")),
        ({"settings": {"slip": 7}}, ("settings",)),
        ({"horizon": 3, "settings": {"horizon": 4}}, ("settings", "horizon")),
        ({"start": "x"}, ("start",)),
        ({"budgets": {"edge": 1.0}}, ("budgets", "edge")),
        ({"budgets": {"corner": -1.0}}, ("budgets", "corner")),
        ({"budgets": {"corner": 1.0}, "epsilon": "theorem"}, ("epsilon",)),
        ({"budgets": {"corner": 1.0}, "algorithm": "ucbvi"}, ("budgets",)),
        ({"preset": "author"}, ("preset",)),
        ({"pay": "often"}, ("pay",)),
        ({"options": {"speed": 3}}, ("options", "speed")),
        ({"options": {"planner": "lagrangien"}}, ("options", "planner")),
        ({"options": {"planner": {"name": "lagrangian", "stepp": 3}}}, ("options", "planner", "stepp")),
        ({"options": {"planner": {"name": "lagrangian", "oracle": {"settings": {"x": 3}}}}}, None),
        ({"options": {"bonus": [0.1, 0.1, 0.1]}}, ("options", "bonus")),
        ({"prime": "no.csv"}, ("prime",)),
        ({"algorithm": "rcpo", "prime": "no.csv"}, ("prime",)),
    ):
        with pytest.raises(conrl.ConRLError) as caught:
            Run(Job(**(box | wrong))).check()  # type: ignore[arg-type]
        assert caught.value.key == (key or ("options", "planner", "oracle", "settings", "x")), wrong


def test_too_many_runs_and_none() -> None:
    several = "".join(f"[algorithm.a{i}]\nlearner = 'ucbvi'\n" for i in range(11))
    (found,) = mistakes("episodes = 5\nseeds = 10000\n[environment.box]\n" + several)
    assert found == "s.toml:2: more than 100,000 runs; make several studies"
    with pytest.raises(conrl.SpecError, match=r"^spec: nothing to run"):
        parse_spec(UCBVI + "environments = []\n")


def test_names_that_are_no_html_and_no_paths() -> None:
    """They may be shown anywhere and must not lead out of the study's directory."""
    names = ["<script>alert(1)</script>", "a b", "...", "-", "ü.csv", "C:x", "~", "$HOME", "%2e%2e"]
    for name in names:
        quoted = json.dumps(name)
        if "/" in name:
            assert "cannot name a directory" in mistakes(f"episodes = 5\n[environment.box]\n[algorithm.{quoted}]\n")[0]
            continue
        text = f'episodes = 5\n[environment.{quoted}]\nmodel = "box"\n[algorithm.{quoted}]\nlearner = "ucbvi"\n'
        (one,) = parse_spec(text).jobs
        where = one.directory("out")
        assert len(where.parts) == 4
        assert not {"..", ".", ""} & set(where.parts)


def test_a_misspelt_table_is_told_once() -> None:
    with pytest.raises(SpecMistakes) as caught:
        parse_spec("episodes = 5\n[enviroment.box]\n[algorithm.ucbvi]\n")
    assert caught.value.mistakes == ["spec:2: unknown key 'enviroment'; did you mean 'environment'?"]
    with pytest.raises(SpecMistakes, match=r"a study needs at least one table \[environment.NAME\]"):
        parse_spec("episodes = 5\n[algorithm.ucbvi]\n")


def test_files_that_are_no_specs(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    for data, piece in (
        (b"a = \n", "s.toml: not TOML: Invalid value (at line 1, column 5)"),
        (b"[environment.box\n", "not TOML"),
        (b"a = 1\na = 2\n", "s.toml: not TOML: Cannot overwrite a value (at line 2, column 6)"),
        (b"seeds = " + b"1" * 5000, "not TOML"),
        (b"a = " + b"[" * 100_000, "not TOML"),
        (b"title = '\xff'\n", "not UTF-8"),
        (b"# " + b"x" * LARGEST_FILE, "larger than 1,048,576 bytes"),
    ):
        path.write_bytes(data)
        with pytest.raises(conrl.SpecError, match=r"s\.toml:(\d+:)? ") as caught:
            load_spec(path)
        assert piece in str(caught.value)
    with pytest.raises(conrl.ModelError, match="no such file"):
        load_spec(tmp_path / "missing.toml")
    with pytest.raises(conrl.ModelError, match="is a directory"):
        load_spec(tmp_path)
    with pytest.raises(conrl.SpecError, match="unknown study 'figure'; did you mean 'figure"):
        builtin_spec("figure")


def test_the_command_line_tells_a_line_each_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text("episode = 5\n[environment.box]\nhorizn = 3\n[algorithm.ucbvi]\n")
    result = CliRunner().invoke(main, ["run", "s.toml"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "Error: s.toml:1: unknown key 'episode'; did you mean 'episodes'?",
        "Error: s.toml:3: unknown key 'horizn'; did you mean 'horizon'?",
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["s.toml"]


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_studies_of_the_paper_are_in_the_package(name: str) -> None:
    spec = builtin_spec(name)
    assert spec.name == name
    assert len({job.directory("") for job in spec.jobs}) == len(spec.jobs)


def test_figure_1_has_the_trajectories_of_the_paper() -> None:
    """As the program behind the paper: ConRL 2,000, RCPO and ApproPO 20,000, TFW-UCRL2 33,333; ten seeds of each."""
    assert {"figure1", "figure2"} <= set(BUILT_IN)
    spec = builtin_spec("figure1")
    found = {(str(j.env_name), str(j.name)): (j.algorithm, j.episodes) for j in spec.jobs}
    usual = {
        "conrl-value-iteration": ("conrl", 2000),
        "conrl-a2c": ("conrl", 2000),
        "rcpo": ("rcpo", 20_000),
        "appropo": ("appropo", 20_000),
    }
    expected = {(env, name): about for name, about in usual.items() for env in ("mars-rover", "box")}
    assert found == expected | {("mars-rover", "tfw-ucrl2"): ("tfw-ucrl2", 33_333)}
    assert len(spec.jobs) == 10 * len(found)
    assert all(j.settings == {"rock_reward": 1.0} for j in spec.jobs if j.env_name == "mars-rover")
    options = {(j.env_name, j.name): j.options for j in spec.jobs}
    steps = {env: options[env, "conrl-value-iteration"]["planner"]["step"] for env in ("mars-rover", "box")}
    assert steps == {"mars-rover": 0.2, "box": 10.0}
    assert {env: options[env, "rcpo"]["rate"] for env in steps} == {"mars-rover": 1e-3, "box": 1e-2}
    asked = {env: tuple(options[env, "appropo"][k] for k in ("threshold", "step", "episodes")) for env in steps}
    assert asked == {"mars-rover": (1.4, 1.0, 20), "box": (1.58, 10.0, 25)}
    weights = {j.options["reward_weight"] for j in builtin_spec("figure2").jobs}
    assert weights == {1e-2, 1e-3, 1e-4, 1e-5}
    assert {j.episodes for j in builtin_spec("figure2").jobs} == {33_333}


# -- lines ------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["a", "b-1", "x y", "é", "]", "a.b", '"', "'", "#", "[k]", "= 1", "\\", "\t"])
VALUES = st.sampled_from(
    ["1", "'a = 1'", '"[b]"', "[\n  1,\n  2,\n]", "[[1, 2],\n[3]]", "'''\na = 1\n[b]\n'''", '"""x\n"y" = 2 # """', "{}"]
)


def key(word: str) -> str:
    return word if word.isascii() and word.replace("-", "").isalnum() else json.dumps(word)


@st.composite
def toml(draw: st.DrawFn) -> tuple[str, dict[tuple[str, ...], int]]:
    """A text, and where each of its keys first stands."""
    lines: list[str] = []
    at: dict[tuple[str, ...], int] = {}
    closed: set[tuple[str, ...]] = set()  # what may not be added to

    def note(path: tuple[str, ...]) -> None:
        for length in range(1, len(path) + 1):
            at.setdefault(path[:length], len(lines) + 1)

    def free(path: tuple[str, ...]) -> bool:
        return path not in at and not any(path[:n] in closed for n in range(len(path)))

    table: tuple[str, ...] = ()
    for _ in range(draw(st.integers(1, 12))):
        path = tuple(draw(st.lists(WORDS, min_size=1, max_size=2)))
        kind = draw(st.sampled_from(["header", "value", "value", "inline", "comment"]))
        if kind == "comment":
            lines.append(draw(st.sampled_from(["", "# a = 1", "  # [b]"])))
        elif kind == "header" and len(path) and free(path) and not any(path[:n] in at for n in range(1, len(path))):
            note(path)
            lines.append(f"  [ {' . '.join(map(key, path))} ] # see [a]")
            table = path
            closed.add(path[:1]) if len(path) == 1 and draw(st.booleans()) else None
        elif kind == "value" and free((*table, path[0])):
            note((*table, *path))
            closed.add((*table, path[0]))
            lines.extend(f"{'.'.join(map(key, path))} = {draw(VALUES)} # x = 1".split("\n"))
        elif kind == "inline" and free((*table, path[0])):
            inner = draw(WORDS)
            note((*table, path[0], inner))
            closed.add((*table, path[0]))
            lines.append(f"{key(path[0])} = {{ {key(inner)} = {{ {key('deep')} = [1, 2] }} }}")
            at.setdefault((*table, path[0], inner, "deep"), at[*table, path[0], inner])
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines) + "\n", at


@settings(deadline=None, max_examples=300)
@given(toml())
def test_the_line_of_every_key(case: tuple[str, dict[tuple[str, ...], int]]) -> None:
    text, at = case
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # a table opened again; the reader never sees it
        reject()
    lines = Lines(text)

    def every(value: Any, path: tuple[str, ...]) -> None:
        if path:
            assert lines.of(path) == at[path], (path, text)
        if isinstance(value, dict):
            for name, inner in value.items():
                every(inner, (*path, name))

    every(data, ())
    for path, line in at.items():
        assert lines.of((*path, "nothing of the kind")) == line


def test_lines_of_long_statements() -> None:
    seeds = "seeds = [\n" + "".join(f"  {i},\n" for i in range(9000)) + "]\n"
    assert Lines(seeds + "episodes = 'x'\n").of(("episodes",)) == 9003
    rows = "a = [\n" + "  [1],\n" * 3000 + "]\nb = 1\n"  # too many places where it might end
    assert Lines(rows).of(("b",)) == 3003
    assert Lines(rows).of(("a",)) == 1


def test_an_epsilon_without_budgets_is_refused() -> None:
    with pytest.raises(SpecMistakes, match="spec:4: epsilon goes with budgets"):
        parse_spec("episodes = 5\n[environment.box]\n[algorithm.conrl]\nepsilon = 0.1\n")


def test_a_builtin_study_is_found_beside_a_directory_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figure2").mkdir()  # where `conrl reproduce figure2` keeps its runs
    assert read_spec(Path("figure2")).name == "figure2"

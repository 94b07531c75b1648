"""`conrl learn`: the final table, the files, and every way to get it wrong."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from commands import ok, record, refused

import conrl
from conrl.running import ModelWorld

ROVER = ("learn", "mars-rover", "--set", "rock_reward=1")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_table_and_record_are_those_of_the_library() -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    history = conrl.learn(mdp, conrl.ConRL(mdp.task), 200, seed=2)
    found = record(*ROVER, "--episodes", 200, "--seed", 2)
    assert history.executed is not None
    assert found["reward"]["mean"] == pytest.approx(history.executed[:, 0].mean())
    assert found["reward"]["last"] == pytest.approx(history.executed[-100:, 0].mean())
    assert found["reward"]["realised"] == pytest.approx(history.rewards.mean())
    assert found["reward"]["optimum"] == pytest.approx(1.5362884, abs=1e-6)
    crash = found["costs"]["crash"]
    assert crash["limit"] == 0.3
    assert crash["violations"] == history.violations[0]
    assert crash["last"] == pytest.approx(history.executed[-100:, 1].mean())
    assert found["solved_from"] == history.solved_from
    assert found["episodes"] == 200
    text = ok(*ROVER, "--episodes", 200, "--seed", 2)
    for piece in (
        "reward",
        "crash",
        "optimum",
        "1.53629",
        "solved, the mean of 100 episodes within 10% of the optimum",
        "0.3",
    ):
        assert piece in text
    assert (f"from episode {history.solved_from}" if history.solved_from else "not reached") in text


def test_files_and_going_on() -> None:
    words = (*ROVER, "--out", "runs", "--episodes")
    assert "wrote runs/mars-rover/conrl/seed-000" in ok(*words, 30)
    directory = Path("runs/mars-rover/conrl/seed-000")
    first = (directory / "progress.csv").read_text()
    assert len(list(csv.DictReader(first.splitlines()))) == 30
    assert "wrote runs/mars-rover/conrl/seed-000, continued after episode 30" in ok(*words, 60)
    assert "runs/mars-rover/conrl/seed-000 was finished before: nothing was played" in ok(*words, 60)
    whole = (directory / "progress.csv").read_text()
    assert whole.startswith(first)
    ok(*ROVER, "--out", "others", "--episodes", 60)
    assert Path("others/mars-rover/conrl/seed-000/progress.csv").read_text() == whole
    ok(*ROVER, "--out", "runs", "--episodes", 30, "--seed", 7)
    assert Path("runs/mars-rover/conrl/seed-007/progress.csv").read_text() != first
    assert "another settings.rock_reward: 1 there" in refused("learn", "mars-rover", "--out", "runs", "--episodes", 60)
    assert "another pay" in refused(*ROVER, "--out", "runs", "--episodes", 60, "--pay", "bernoulli")
    assert conrl.load_learner(directory / "checkpoint.npz").episodes == 60


def test_options_reach_the_learner() -> None:
    base = record(*ROVER, "--episodes", 150)
    for words in (
        ("--preset", "authors"),
        ("--bonus", "0.5,0.1"),
        ("--bonus", "theory"),
        ("--bonus", "bernstein"),
        ("--limit", "crash=0.6"),
        ("--pay", "bernoulli"),
        ("--horizon", "20"),
        ("--start", "r7c0"),
        ("--planner", "lagrangian"),
        ("--seed", "9"),
    ):
        other = record(*ROVER, "--episodes", 150, *words)
        assert other["reward"]["mean"] != base["reward"]["mean"], words
    assert record(*ROVER, "--episodes", 3, "--bonus", "theory:0.5")["episodes"] == 3
    exact = record(*ROVER, "--episodes", 40, "--planner", "linear-program")
    assert exact["reward"]["mean"] == pytest.approx(record(*ROVER, "--episodes", 40)["reward"]["mean"], abs=0.5)


def test_budgets_are_kept_and_told() -> None:
    words = ("learn", "pricing", "--episodes", 50, "--budget", "stock=150")
    for more in ((), ("--resolve",), ("--epsilon", "0.1")):
        found = record(*words, *more)
        stock = found["budgets"]["stock"]
        assert stock["budget"] == 150.0
        assert stock["spent"] <= 150.0
        assert stock["would_exceed"] == (stock["unguarded"] > 150.0)
        assert found["guarded"] >= int(stock["would_exceed"])
    text = ok(*words)
    for piece in ("budget", "without the guard", "forbade or cut"):
        assert piece in text


def test_priming() -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    world = ModelWorld(mdp)
    learner = conrl.ConRL(mdp.task, seed=0)
    episodes = []
    for k in range(250):
        episodes.append(world.play(learner.propose(), np.random.default_rng(k)))
        learner.observe(episodes[-1])
    conrl.save_episodes("log.csv", episodes, ["crash"])
    primed = record(*ROVER, "--episodes", 30, "--prime", "log.csv")
    assert primed["reward"]["mean"] > record(*ROVER, "--episodes", 30)["reward"]["mean"] + 0.5
    assert "no such file: missing.csv" in refused(*ROVER, "--prime", "missing.csv")


def test_model_files_and_gymnasium() -> None:
    conrl.save_model("model.npz", conrl.envs.box())
    assert record("learn", "model.npz", "--episodes", 5)["reward"]["optimum"] == pytest.approx(1.7496766, abs=1e-6)
    lake = record("learn", "gymnasium:FrozenLake-v1", "--horizon", 20, "--episodes", 50)
    assert lake["exact"]
    assert lake["costs"] == {}


class Walk(gymnasium.Env[Any, Any]):
    """Left or right on five cells; the model is not published. Falling off the right end terminates and costs 1."""

    observation_space = gymnasium.spaces.Discrete(5)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 2
        return self.at, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.at = max(self.at + (1 if self.np_random.random() < 0.8 and action else -1), 0)
        fell = self.at == 5
        return min(self.at, 4), self.at / 5.0, fell, False, {"cost": float(fell)}


def test_an_environment_whose_model_is_unknown() -> None:
    if "Walk-v0" not in gymnasium.registry:
        gymnasium.register("Walk-v0", entry_point=lambda **_: Walk(), disable_env_checker=True)
    words = ("learn", "gymnasium:Walk-v0", "--horizon", 8, "--episodes", 60, "--limit", "fall=0.5")
    found = record(*words, "--reward-range", 0, 1)
    assert not found["exact"]
    assert found["reward"]["optimum"] is None
    assert found["solved_from"] is None
    assert 0.0 < found["costs"]["fall"]["realised"] <= 1.0
    assert "unknown" in ok(*words)
    assert "0 to 0.5" in refused(*words, "--reward-range", 0, 0.5)
    assert "no time limit" in refused("learn", "gymnasium:Walk-v0", "--limit", "fall=0.5")
    assert "--start" in refused(*words, "--start", "0")
    told = refused(*words, "--cost-range", "fall=0,0.5")
    assert "--cost-range fall: fall 1 was seen in one step; the task says 0 to 0.5. Give the true range" in told
    assert "a Gymnasium environment pays as it does" in refused(*words, "--pay", "bernoulli")


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (("learn",), "Missing argument"),
        (("learn", "mars-rove"), "did you mean 'mars-rover'"),
        (("learn", "box", "--algorithm", "conrll"), "did you mean 'conrl'"),
        (("learn", "box", "--preset", "author"), "did you mean 'authors'"),
        (("learn", "box", "--planner", "lagrangien"), "did you mean 'lagrangian'"),
        (("learn", "box", "--bonus", "much"), "0.02,-0.01"),
        (("learn", "box", "--bonus", "theory:2"), "failure probability"),
        (("learn", "box", "--bonus", "bernstein:2"), "failure probability"),
        (("learn", "box", "--pay", "often"), "'outcome', 'bernoulli'"),
        (("learn", "box", "--episodes", "0"), "--episodes"),
        (("learn", "box", "--resolve"), "--budget"),
        (("learn", "box", "--epsilon", "0.1"), "--budget"),
        (("learn", "box", "--budget", "corner=1", "--limit", "corner=2"), "one kind"),
        (("learn", "box", "--budget", "corner=1", "--epsilon", "theorem"), "no guarantee"),
        (("learn", "box", "--budget", "corner=1", "--epsilon", "0.1", "--resolve"), "one of the two"),
        (("learn", "box", "--budget", "edge=1"), "unknown cost 'edge'"),
        (("learn", "box", "--limit", "edge=1"), "unknown cost 'edge'"),
        (("learn", "box", "--reward-range", "0.5", "1"), "reward_range is 0.5 to 1, but the model itself pays 0 to 1"),
        (("learn", "box", "--cost-range", "edge=0,1"), "unknown cost 'edge'"),
        (("learn", "box", "--cost-range", "corner=1"), "'1' in 'corner=1' is not LOW,HIGH"),
        (("learn", "gymnasium:FrozenLake-v1", "--horizon", "5", "--cost-range", "x=0,1"), "unknown cost 'x'"),
        (("learn", "gymnasium:Nowhere-v0"), "Nowhere"),
        (("learn", "box", "--out", "/dev/null/x", "--episodes", "2"), "cannot write"),
    ],
)
def test_mistakes(words: tuple[str, ...], piece: str) -> None:
    assert piece in refused(*words)


@pytest.mark.parametrize(
    ("words", "beginning"),
    [
        (("learn", "box", "--option", "speed=3"), "--option speed: unknown parameter"),
        (("learn", "box", "--limit", "edge=1"), "--limit edge: unknown cost"),
        (("learn", "box", "--set", "spee=1"), "--set spee: unknown parameter"),
        (("learn", "box", "--bonus", "much"), "--bonus: bonus 'much'"),
        (("learn", "box", "--cost-range", "edge=0,1"), "--cost-range edge: unknown cost"),
        (("learn", "box", "--prime", "no.csv"), "--prime: no such file"),
        (("learn", "box", "--algorithm", "ucb"), "--algorithm: unknown algorithm"),
        (("learn", "bx"), "unknown model 'bx'"),
        (("learn", "gymnasium:FrozenLake-v", "--limit", "foo=2"), "gymnasium:FrozenLake-v"),
        (("learn", "box", "--option", "seed=3"), "--option seed: unknown parameter"),
        (("learn", "box", "--budget", "corner=9", "--epsilon", "0.1", "--resolve"), "--resolve: resolve plans for all"),
        (("learn", "box", "--preset", "authors", "--budget", "corner=9"), "--budget: planner 'lagrangian' does not"),
        (("plan", "box", "--floor", "edge=1"), "--floor edge: unknown cost"),
        (("plan", "box", "--start", "x"), "--start: no state 'x'"),
        (("plan", "box", "--tol", "-1"), "--tol: tol is -1.0"),
        (("plan", "box", "--budget", "edge=2", "--episodes", "3"), "--budget edge: unknown cost"),
        (("frontier", "box", "--cost", "edge"), "--cost: unknown cost"),
    ],
)
def test_a_mistake_names_the_option_that_made_it(words: tuple[str, ...], beginning: str) -> None:
    assert refused(*words).removeprefix("Error: ").startswith(beginning)


def test_limits_that_nobody_can_keep() -> None:
    assert "infeasible" in refused("learn", "mars-rover", "--limit", "crash=0", "--out", "runs", code=3)


def test_algorithms_are_listed_and_learn() -> None:
    listed = json.loads(ok("algorithms", "--json"))["algorithms"]
    names = {record["name"] for record in listed}
    safe = {"safe-conrl", "dope", "optpess-lp"}
    assert names == {
        "conrl",
        "rcpo",
        "appropo",
        "tfw-ucrl2",
        "optcmdp",
        "opt-primal-dual",
        "posterior-sampling",
        "ucbvi",
        *safe,
    }
    assert all(record["summary"] and record["paper"] for record in listed)
    text = ok("algorithms")
    assert all(name in text for name in names)
    for name in sorted(names):
        more = ("--option", "threshold=1.4") if name == "appropo" else ()
        more = ("--option", "safe_share=0.2") if name in safe else more
        found = record(*ROVER, "--algorithm", name, "--episodes", 3, "--out", "runs", *more)
        assert found["episodes"] == 3
        again = record(*ROVER, "--algorithm", name, "--episodes", 5, "--out", "runs", *more)
        assert again["episodes"] == 5
    assert record(*ROVER, "--algorithm", "rcpo", "--preset", "authors", "--episodes", 2)["episodes"] == 2


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (("--algorithm", "rcpo", "--option", "rate=abc"), "rate is 'abc'; it must be a number above 0"),
        (("--algorithm", "rcpo", "--option", "rat=1"), "did you mean 'rate'"),
        (("--algorithm", "rcpo", "--planner", "lagrangian"), "--planner: unknown parameter of rcpo 'planner'"),
        (("--algorithm", "appropo"), "threshold"),
        (("--algorithm", "appropo", "--option", "threshold=high"), "threshold is 'high'; it must be a number"),
        (("--algorithm", "ucbvi", "--budget", "crash=10"), "ucbvi takes"),
        (("--algorithm", "rcpo", "--budget", "crash=10"), "rcpo takes Linear problems"),
        (("--algorithm", "safe-conrl"), "--option: safe-conrl starts from a policy known to be safe"),
        (("--algorithm", "dope", "--option", "safe=no.npz"), "--option safe: no such file: no.npz"),
        (("--algorithm", "dope", "--option", "safe_share=0.2", "--option", "safe_costs=1"), "were both given"),
        (("--algorithm", "dope", "--option", "safe_share=x"), "safe_share is 'x'; it is a share"),
        (("--algorithm", "optpess-lp", "--option", "safe_share=1"), "--option safe_share: safe_costs['crash'] is 0.3"),
        (("--algorithm", "ucbvi", "--option", "safe_share=0.2"), "unknown parameter of ucbvi 'safe_share'"),
        (("--algorithm", "rcpo", "--prime", "log.csv"), "cannot learn from logged data"),
    ],
)
def test_mistakes_about_algorithms(words: tuple[str, ...], piece: str) -> None:
    assert piece in refused(*ROVER, "--episodes", "2", *words)


def test_limits_on_single_episodes() -> None:
    """What the learner keeps is what it was asked; others say that they cannot."""
    words = (
        "learn",
        "pricing",
        "--episodes",
        40,
        "--limit",
        "stock=inf",
        "--never",
        "stock=5",
        "--chance",
        "stock>3:.4",
    )
    kept = json.loads(ok(*words, "--out", "run", "--json"))
    assert kept["episodes"] == 40
    with (Path("run") / "pricing" / "conrl" / "seed-000" / "progress.csv").open() as stream:
        assert max(float(row["cost_stock"]) for row in csv.DictReader(stream)) <= 5.0
    assert "continued after episode 40" in ok(*words[:3], 50, *words[4:], "--out", "run")
    assert "--never stok: unknown cost 'stok'; did you mean 'stock'" in refused("learn", "pricing", "--never", "stok=5")
    assert "can_stop" in refused("learn", "mars-rover", "--never", "crash=0")
    told = refused("learn", "box", "--algorithm", "ucbvi", "--chance", "corner>0:0.1")
    assert told.startswith("--chance: limits on single episodes")
    assert "--budget replaces" in refused("learn", "pricing", "--budget", "stock=9", "--cvar", "stock@0.9:4")


def test_a_run_that_ends_exploring_tells_its_last_plan() -> None:
    """125 is a cube: that episode is at cost 0.56, the plan before it within its limit."""
    found = record(*ROVER, "--episodes", 125)
    assert (found["exploring"], found["exploring_last"], found["last_iterate_episode"]) == (4, 3, 124)
    crash, reward = found["costs"]["crash"], found["reward"]
    assert crash["last_iterate_excess"] == 0.0
    assert reward["cumulative_regret"] == pytest.approx(125 * (reward["optimum"] - reward["mean"]))
    assert crash["cumulative_violation"] == pytest.approx(125 * (crash["mean"] - 0.3))
    text = ok(*ROVER, "--episodes", 125)
    assert "exploring episodes (included in these means): 4; 3 of the last 100" in text
    assert f"regret of all episodes: {reward['cumulative_regret']:.4g}; strong regret (shortfalls only): " in text
    assert "last iterate, what episode 124, the last that did not explore, played: reward" in text
    assert "what the last episode played" in ok(*ROVER, "--episodes", 7)

"""`conrl plan --log`, `conrl assess`: one library call and one rendering each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import ok, record, refused

import conrl

NAMES = {"state": "ward", "action": "treatment", "cost_adverse": "harm", "reward": "benefit"}


@pytest.fixture(scope="module")
def world() -> conrl.ConstrainedMDP:
    """Three states; drugs help, and harm now and then."""
    P = np.zeros((3, 2, 3))
    P[:, 0] = [[0.7, 0.3, 0.0], [0.2, 0.6, 0.2], [0.0, 0.2, 0.8]]
    P[:, 1] = [[0.9, 0.1, 0.0], [0.5, 0.5, 0.0], [0.2, 0.5, 0.3]]
    cost = np.zeros((3, 2, 3, 1))
    cost[:, 1, 1] = 0.3
    reward = np.repeat([[1.0], [0.5], [0.0]], 2, axis=1)
    names: dict[str, Any] = {"state_names": ["well", "ill", "very ill"], "action_names": ["wait", "drug"]}
    return conrl.ConstrainedMDP(P, reward, cost, 8, cost_names=["adverse"], **names)


@pytest.fixture
def log(world: conrl.ConstrainedMDP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> conrl.Log:
    monkeypatch.chdir(tmp_path)
    drawn = conrl.sample_log(world, conrl.Policy(np.full((8, 3, 2), 0.5)), 400, seed=2)
    conrl.save_episodes("log.csv", drawn)
    header, body = Path("log.csv").read_text().split("\n", 1)
    for own, theirs in NAMES.items():
        header = re.sub(rf"\b{own}\b(?!_)", theirs, header, count=1)
    Path("theirs.csv").write_text(f"{header},started_at\n" + body.replace("\n", ",12:00\n"))
    return conrl.load_episodes("log.csv")


LIMIT = ("--limit", "adverse=0.4")
COLUMNS = tuple(word for own, theirs in NAMES.items() for word in ("--column", f"{own}={theirs}"))


def test_a_plan_from_a_log_says_what_it_rests_on(log: conrl.Log) -> None:
    text = ok("plan", "--log", "log.csv", *LIMIT)
    assert "log.csv: 3 states, 2 actions, 8 steps" in text
    assert "for a model estimated from 3,200 steps; 0% of its steps use pairs seen fewer than 30 times" in text
    found = record("plan", "--log", "log.csv", *LIMIT)
    best = conrl.plan(conrl.estimate(log, unvisited="missing"), {"adverse": 0.4})
    assert found["reward"] == best.reward
    assert found["estimated"] == {"steps": 3200, "seldom": 0.0, "unseen": 0.0, "differs": ""}
    assert "confidence" not in found


def test_a_plan_with_confidence(log: conrl.Log) -> None:
    words = ("plan", "--log", "log.csv", *LIMIT, "--confidence", 0.9, "--seed", 3)
    found = record(*words)
    best = conrl.plan(conrl.estimate(log), {"adverse": 0.4}, confidence=0.9, seed=3)
    assert best.confidence is not None
    assert found["status"] == "confident"
    assert found["reward"] == best.reward
    assert found["confidence"]["probability"] == best.confidence.probability >= 0.9
    assert found["confidence"]["shift"]["costs"].keys() == {"adverse"}
    assert found["bound"] is None
    text = ok(*words, "--out", "policy.csv")
    assert record(*words[:-3], "90%", *words[-2:]) == found
    assert f"confidence  {best.confidence.probability:.3f}, 0.9 asked" in text
    assert Path("policy.csv").read_text().startswith("step,state,action,probability\n0,")


def test_the_cautious_reward_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that a plan was chosen by flatters it: the first number is what is left when that is taken off."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(5)
    P, pay = generator.dirichlet(np.full(6, 0.5), (6, 4)), generator.random((6, 4, 2))
    world = conrl.ConstrainedMDP(P, 10.0 * pay[..., 0], pay[..., 1:], 10, cost_names=["cost"])
    conrl.save_episodes("log.csv", conrl.sample_log(world, conrl.Policy(np.full((10, 6, 4), 0.25)), 60, seed=1))
    words = ("plan", "--log", "log.csv", "--limit", "cost=4.5", "--confidence", 0.9)
    found = record(*words)
    assert found["confidence"]["shift"]["reward"] < 0.0
    cautious = found["reward"] + found["confidence"]["shift"]["reward"]
    assert found["confidence"]["reward"] == cautious
    told = re.findall(r"^(reward|estimated) +([\d.]+)", ok(*words), re.MULTILINE)
    assert told == [("reward", f"{cautious:.6g}"), ("estimated", f"{found['reward']:.10g}")]


def test_columns_of_any_name(log: conrl.Log) -> None:
    """Times are left out by themselves."""
    one = record("plan", "--log", "log.csv", *LIMIT)
    two = record("plan", "--log", "theirs.csv", *COLUMNS, *LIMIT)
    assert one | {"model": ""} == two | {"model": ""}
    assert "unknown columns 'ward', 'treatment'" in refused("plan", "--log", "theirs.csv", *LIMIT)
    assert refused("plan", "--log", "theirs.csv", *COLUMNS[:-1], "reward=benefits", *LIMIT).startswith(
        "--column reward: "
    )
    Path("more.csv").write_text(
        Path("log.csv").read_text().replace("terminated\n", "terminated,age\n").replace(",0\n", ",0,7\n")
    )
    assert "'age'" in refused("plan", "--log", "more.csv", *LIMIT)
    assert record("plan", "--log", "more.csv", "--ignore", "age", *LIMIT)["reward"] == one["reward"]


def test_a_log_that_does_not_support_it(log: conrl.Log) -> None:
    told = refused("plan", "--log", "log.csv", "--limit", "adverse=0.01", "--confidence", 0.95, code=3)
    assert told.startswith("the log does not support adverse <= 0.01 with probability 0.95: the best plan found has 0.")
    assert re.search(r"More data would help most about '\w+' in '[\w ]+' \(seen [\d,]+ times\)", told)


def test_assess(log: conrl.Log) -> None:
    ok("plan", "--log", "log.csv", *LIMIT, "--confidence", 0.9, "--out", "policy.csv", "--out", "policy.npz")
    found = record("assess", "policy.csv", "log.csv", *LIMIT)
    assert record("assess", "policy.csv", "log.csv", *LIMIT, "--level", "95%") == found
    same = conrl.assess("policy.csv", log, {"adverse": 0.4})
    assert found["low"]["costs"]["adverse"] == same.low.costs[0]
    assert found["probability"] == same.probability
    assert found["limits"] == [{"name": "adverse <= 0.4", "probability": same.limits[0].probability}]
    assert found["needs"][0]["state"] == same.needs[0].state
    other = conrl.assess("policy.npz", log, mdp=conrl.estimate(log)).importance
    assert other is not None
    assert found["importance"]["effective"] == pytest.approx(other.effective)
    text = ok("assess", "policy.csv", "log.csv", *LIMIT, "--floor", "adverse=0.001", "--level", 0.8)
    assert "that adverse <= 0.4" in text
    assert "that all of them hold" in text
    assert "80% from" in text
    assert "what to log next" in text
    assert "fixed before the log was drawn" in text


def test_the_sentence_about_importance_sampling(log: conrl.Log, world: conrl.ConstrainedMDP) -> None:
    conrl.Policy(np.full((8, 3, 2), 0.5)).save("alike.csv", world)
    text = ok("assess", "alike.csv", "log.csv")
    assert re.search(r"rests on [34]\d\d of 400 episodes \(effectively\)", text)
    conrl.Deterministic(np.ones((8, 3), dtype=np.int16), 2).save("drug.csv", world)
    text = ok("assess", "drug.csv", "log.csv")
    assert re.search(r"worthless: it rests on [\d.]+ of 400 episodes", text)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("plan",), "give a MODEL, or logged episodes with --log; see conrl plan --help"),
        (("plan", "box", "--log", "log.csv"), "give a MODEL, or logged episodes with --log, not both; see conrl plan"),
        (("plan", "box", "--column", "state=s"), "--column goes with --log"),
        (("plan", "box", "--ignore", "s"), "--ignore goes with --log"),
        (("plan", "box", "--confidence", "0.9"), "this model was not estimated; what a log leaves open is known for"),
        (("plan", "box", "--use-unseen"), "--use-unseen: --use-unseen goes with --confidence; leave it out"),
        (("plan", "--log", "log.csv", "--confidence", "0.9"), "--confidence: confidence is about limits, and"),
        (("plan", "--log", "log.csv", "--confidence", "2", *LIMIT), "--confidence: confidence is 2.0; it must be"),
        (("plan", "--log", "log.csv", "--set", "a=1"), "--set is for built-in models, not for a log"),
        (("plan", "--log", "log.csv", "--start", "wel"), "--start: unknown state 'wel'; did you mean 'well'?"),
        (("plan", "--log", "log.csv", "--confidence", "0.9", "--deterministic", *LIMIT), "--deterministic: --conf"),
        (("plan", "--log", "none.csv"), "none.csv"),
        (("assess", "none.csv", "log.csv"), "none.csv"),
        (("assess", "log.csv", "log.csv"), "log.csv: unknown column 'episode'"),
        (("assess", "policy.csv", "log.csv", "--level", "1.5"), "--level: level is 1.5; it must be between 0 and 1"),
    ],
)  # fmt: skip
def test_mistakes(words: tuple[str, ...], told: str, log: conrl.Log, world: conrl.ConstrainedMDP) -> None:
    conrl.Policy(np.full((8, 3, 2), 0.5)).save("policy.csv", world)
    assert told in refused(*words)


def test_a_start_and_a_horizon_of_ones_own(log: conrl.Log) -> None:
    found = record("plan", "--log", "log.csv", "--limit", "adverse=2", "--start", "ill", "--horizon", 12)
    model = conrl.estimate(log, horizon=12, unvisited="missing").replace(initial=1)
    assert found["horizon"] == 12
    assert found["reward"] == conrl.plan(model, {"adverse": 2}).reward
    average = record("plan", "--log", "log.csv", "--average", "--limit", "adverse=0.05")
    assert average["criterion"]

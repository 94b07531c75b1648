"""Logs whose steps differ: noticed, named, estimated apart; and no false alarms."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import ok, record, refused, run

import conrl
from conrl.estimation.homogeneity import KINDS, _by_frequency, _by_size, _evidence, difference

RUSH = range(4, 8)


def oven(factor: float = 2.5, failing: float = 0.2, horizon: int = 12) -> conrl.ConstrainedMDP:
    """An oven that pays more in the rush hours, or fails more often then."""
    P, R, C = np.zeros((horizon, 2, 2, 2)), np.zeros((horizon, 2, 2)), np.zeros((horizon, 2, 2, 1))
    P[:, 0, 0], P[:, 0, 1], P[:, 1, 0, 1], P[:, 1, 1, 0] = [0.8, 0.2], [0.95, 0.05], 1.0, 1.0
    R[:, 0], C[:, 1, 1] = [10.0, 6.0], 1.0
    P[RUSH, 0, 0], R[RUSH, 0] = [1.0 - failing, failing], [10.0 * factor, 6.0 * factor]
    return conrl.ConstrainedMDP(
        P, R, C, horizon=horizon, initial=0, state_names=["ok", "down"], action_names=["run", "slow"],
        cost_names=["money"],
    )  # fmt: skip


def log_of(mdp: conrl.ConstrainedMDP, episodes: int, seed: int = 1) -> conrl.Log:
    return conrl.sample_log(mdp, conrl.Policy(np.full((mdp.horizon, 2, 2), 0.5)), episodes, seed=seed)


@pytest.fixture
def no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_pay_that_differs_is_named_with_two_steps() -> None:
    with pytest.warns(conrl.ModelWarning, match="action 'run' in state 'ok' has 'reward' 10 at step ") as told:
        model = conrl.estimate(log_of(oven(), 60))
    text = str(told[0].message)
    high = int(text.split(" and 25 at step ")[1].split(",")[0])
    assert high in RUSH
    assert "--by-step" in text
    assert "step_dependent=True" in text
    plan = conrl.plan(model, {"money": 0.5})
    assert plan.message.endswith("the steps of the data differ, and the estimate averages over them")
    assert plan.estimated is not None
    assert plan.estimated.differs in text


def test_transitions_that_differ_are_named() -> None:
    with pytest.warns(conrl.ModelWarning, match=r"leads to '(ok|down)' in .*% at step \d+ and .*% at step"):
        conrl.estimate(log_of(oven(1.0, 0.7), 200))


def test_an_end_that_comes_at_one_step_is_named() -> None:
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(200):
        length = 3 if rng.random() < 0.5 else 6
        episodes.append(conrl.Episode([0] * (length + 1), [0] * length, [0.0] * length, [[]] * length, length == 3))
    found = difference(episodes, 1, 1)
    assert found is not None
    assert "ends the episode in 0% at step" in found.told(None, None, ("reward",), 1)
    assert found.steps[1] == 2


@pytest.mark.usefixtures("no_warning")
def test_steps_apart_have_the_truth() -> None:
    truth, log = oven(), log_of(oven(), 400)
    model = conrl.estimate(log, step_dependent=True)
    assert model.step_dependent
    assert model.state_names == ("ok", "down")
    plan = conrl.plan(model, {"money": 0.5})
    best = conrl.plan(truth, {"money": 0.5}).reward
    assert conrl.evaluate(truth, plan.policy).reward > 0.95 * best
    plain = conrl.Policy(np.full((12, 2, 2), 0.5))
    found = conrl.assess(plain, log, mdp=truth, level=0.999, step_dependent=True)
    value = conrl.evaluate(truth, plain).value
    assert (found.low.value <= value).all()
    assert (value <= found.high.value).all()
    assert found.importance is not None


@pytest.mark.usefixtures("no_warning")
def test_another_horizon_of_steps_apart() -> None:
    log = log_of(oven(), 50)
    assert np.asarray(conrl.estimate(log, horizon=6, step_dependent=True).counts).sum() == 300
    with pytest.raises(conrl.SpecError, match="horizon is 20, and no episode of the log has more than 12 steps"):
        conrl.estimate(log, horizon=20, step_dependent=True)
    task = conrl.Task(2, 2, 12, [np.inf], ["money"])
    with pytest.raises(conrl.SpecError, match="a task says itself"):
        conrl.estimate(log, task=task, step_dependent=True)
    model = conrl.estimate(log, step_dependent=True)
    with pytest.raises(conrl.SpecError, match="a model says itself"):
        conrl.assess(conrl.plan(model), model, step_dependent=True)


def test_alike_steps_raise_no_alarm() -> None:
    """Rare values, pay of any size, ends, few visits: the mean of E is at most 1, and none comes near 1,000."""
    most = -np.inf
    for seed in range(200):
        rng = np.random.default_rng(seed)
        episodes = []
        for _ in range(int(rng.integers(2, 60))):
            length = int(rng.integers(1, 30))
            stay = rng.random(length + 1) < 0.9
            states = np.where(stay, 0, rng.integers(1, 4, length + 1))
            pay = np.where(rng.random(length) < 0.03, rng.lognormal(0.0, 2.0, length), 0.0)
            episodes.append(conrl.Episode(states, rng.integers(2, size=length), pay, rng.random((length, 1))))
        assert difference(episodes, 4, 2) is None
        n = np.concatenate([np.arange(len(e)) for e in episodes]) * 24 // 30
        counts = np.zeros((1, 24, KINDS), dtype=np.int64)
        paid = np.concatenate([e.rewards for e in episodes]) > 0.0
        np.add.at(counts[0], (n, paid.astype(np.int64)), 1)
        most = max(most, float(_evidence(counts)[0]))
    assert most < np.log(200.0)


def test_one_step_or_none_says_nothing() -> None:
    assert difference([], 1, 1) is None
    assert difference([conrl.Episode([0, 0], [0], [float(i)], [[]]) for i in range(100)], 1, 1) is None


def test_kinds_of_values() -> None:
    place = np.array([0, 0, 0, 0, 1, 1])
    assert _by_frequency(place, np.array([5, 7, 7, 5, 2, 2])).tolist()[4:] == [0, 0]
    assert _by_frequency(place, np.array([5, 7, 7, 7, 2, 3])).tolist()[:4] == [1, 0, 0, 0]
    assert _by_size(place, np.array([3.0, 1.0, 3.0, 2.0, 9.0, 8.0])).tolist() == [2, 0, 2, 1, 1, 0]
    many = _by_size(np.zeros(80, dtype=np.int64), np.random.default_rng(0).random(80))
    assert np.bincount(many).tolist() == [10] * KINDS


def test_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    conrl.save_episodes("log.csv", log_of(oven(), 60))
    plain = run("plan", "--log", "log.csv", "--limit", "money=0.5", "--out", "p.json")
    assert plain.stderr.startswith("Warning: the steps of the log differ: action 'run' in state 'ok'")
    assert "the steps of the data differ" in plain.stdout
    apart = record("plan", "--log", "log.csv", "--limit", "money=0.5", "--by-step")
    assert apart["reward"] > 120.0
    assert "differ" in run("assess", "p.json", "log.csv").stderr
    assert "differ" not in run("assess", "p.json", "log.csv", "--by-step").stderr
    assert "wrote" in ok("explore", "--log", "log.csv", "--by-step")
    assert "--horizon: horizon is 20" in refused("plan", "--log", "log.csv", "--by-step", "--horizon", "20")
    assert "--by-step needs an episode that ends" in refused(
        "plan", "--log", "log.csv", "--by-step", "--discount", "0.9"
    )
    assert "--by-step goes with --log" in refused("plan", "mars-rover", "--by-step")

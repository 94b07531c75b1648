"""Runs in blocks of episodes: the same law and the same numbers as episode by episode, and their curves on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conrl
from conrl import envs
from conrl.errors import RunError, SpecError
from conrl.experiments.block_runs import (
    BLOCKS,
    CURVE,
    Aim,
    RunCurve,
    aim_of,
    curve_of,
    first_leaving,
    marks,
    read_curve,
    write_curve,
)
from conrl.running import History
from conrl.running.blocks import Stretch, learn_in_blocks

some = settings(max_examples=40, deadline=None)


OPTIONS: dict[str, Any] = {"replan": "doubling", "keep_policies": False, "seed": 0}
# One policy between two plans; one drawn each episode; a lottery that is executed as such.
KINDS = ("markov", "mixture", "lottery")


def learner_of(mdp: conrl.ConstrainedMDP, kind: str = "mixture", **options: Any) -> Any:
    if kind != "lottery":
        return conrl.OptCMDP(mdp.task, scale=0.01, play=kind, **OPTIONS | options)
    assert mdp.limits is not None
    safe = conrl.plan(mdp, mdp.limits / 5)
    return conrl.SafeConRL(mdp.task, safe=safe.policy, safe_costs=safe.costs, **OPTIONS | options)


# -- the law ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["factored", "media-streaming", "inventory", "pricing", "pricing-hours"])
def test_blocks_of_one_episode_are_learn(name: str, kind: str) -> None:
    """Draw for draw: the same values and counts; with an unknown first state (pricing) and steps apart (its hours)."""
    mdp = envs.make(name)
    single, blocks = learner_of(mdp, kind, seed=9), learner_of(mdp, kind, seed=9)
    episodes = 60 if name.startswith("pricing") else 300
    history = conrl.learn(mdp, single, episodes, seed=5)
    stretches = list(learn_in_blocks(mdp, blocks, episodes, seed=5, longest=1))
    assert [s.first for s in stretches] == list(range(1, episodes + 1))
    values = np.array([s.value for s in stretches])
    assert history.expected_rewards is not None
    assert history.expected_costs is not None
    assert np.array_equal(values[:, 0], history.expected_rewards)
    assert np.array_equal(values[:, 1:], history.expected_costs)
    ours, theirs = blocks.state(), single.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


@pytest.mark.parametrize("kind", ["markov", "lottery"])
@pytest.mark.parametrize("name", ["factored", "media-streaming", "inventory"])
def test_long_blocks_are_few_and_come_far(name: str, kind: str) -> None:
    """The learner itself refuses a block within which a plan falls due."""
    mdp = envs.make(name)
    learner = learner_of(mdp, kind)
    blocks = list(learn_in_blocks(mdp, learner, 20_000, seed=1))
    assert sum(s.episodes for s in blocks) == learner.episodes == 20_000
    assert [s.first for s in blocks[1:]] == [s.first + s.episodes for s in blocks[:-1]]
    assert len(blocks) < 300
    best, base = conrl.plan(mdp), aim_of(History.of(learner, mdp)).baseline
    last = blocks[-1].value
    assert last[0] > (best.reward + base[0]) / 2
    assert last[1] == pytest.approx(best.costs[0], rel=0.4)
    if kind == "lottery":
        assert max(s.value[1] for s in blocks) <= best.costs[0] * (1 + 1e-9)


def test_blocks_and_episodes_have_the_same_law() -> None:
    """Means of what is executed over many seeds agree within their standard errors."""
    mdp = envs.media_streaming()
    totals: dict[bool, list[Any]] = {True: [], False: []}
    for seed in range(30):
        for blocks, kept in totals.items():
            learner = learner_of(mdp, seed=1000 + seed)
            run = learn_in_blocks(mdp, learner, 200, 1000 + seed, longest=4096 if blocks else 1)
            kept.append(sum(s.episodes * s.value for s in run))
    one, other = np.array(totals[True]), np.array(totals[False])
    apart = np.abs(one.mean(axis=0) - other.mean(axis=0))
    assert (apart <= 4.0 * np.hypot(one.std(axis=0), other.std(axis=0)) / 30**0.5).all()


def test_the_same_seed_gives_the_same_blocks() -> None:
    mdp = envs.inventory()
    runs = [list(learn_in_blocks(mdp, learner_of(mdp, seed=None), 3000, seed)) for seed in (3, 3, 4)]
    assert [(s.first, s.value.tolist()) for s in runs[0]] == [(s.first, s.value.tolist()) for s in runs[1]]
    assert [s.first for s in runs[0]] != [s.first for s in runs[2]]


def test_draws_apart_are_valued_one_by_one() -> None:
    mdp = envs.media_streaming()
    stretches = list(learn_in_blocks(mdp, learner_of(mdp, "mixture"), 20_000, seed=5))
    assert [s.first for s in stretches[1:]] == [s.first + s.episodes for s in stretches[:-1]]
    assert stretches[-1].first + stretches[-1].episodes == 20_001
    mean = sum(s.episodes * s.value for s in stretches) / 20_000
    assert mean == pytest.approx([-6.7467, 5.0], rel=0.05)
    assert len(stretches) > 1000  # one draw after the other


class Silent(conrl.OptCMDP):
    """Draws, and does not say so."""

    @property
    def draws(self) -> Any:
        raise AttributeError


def test_a_learner_that_draws_without_saying_so_is_caught() -> None:
    """Its episodes would not all execute what the first one does."""
    mdp = envs.media_streaming()
    learner = Silent(mdp.task, play="mixture", replan="doubling", keep_policies=False)
    with pytest.raises(SpecError, match="plays another policy in each episode of one plan"):
        list(learn_in_blocks(mdp, learner, 5000, longest=4))


def test_what_cannot_be_played_in_blocks() -> None:
    mdp = envs.factored()
    with pytest.raises(SpecError, match="ucbvi does not learn from blocks"):
        next(learn_in_blocks(mdp, conrl.UCBVI(mdp.task), 5))
    with pytest.raises(SpecError, match="the learner's task has"):
        next(learn_in_blocks(envs.inventory(), learner_of(mdp), 5))
    with pytest.raises(SpecError, match="episodes is -1"):
        next(learn_in_blocks(mdp, learner_of(mdp), -1))
    with pytest.raises(SpecError, match="keep_policies=False"):
        next(learn_in_blocks(mdp, conrl.OptCMDP(mdp.task), 5))
    with pytest.raises(SpecError, match="longest is 0"):
        next(learn_in_blocks(mdp, learner_of(mdp), 5, longest=0))
    with pytest.raises(SpecError, match="a learner such as ConRL"):
        next(learn_in_blocks(mdp, None, 5))
    with pytest.raises(SpecError, match="this ConRL plans for each episode"):
        next(learn_in_blocks(mdp, conrl.ConRL(mdp.task, keep_policies=False), 5))


# -- curves -------------------------------------------------------------------------------------------------------


def test_marks() -> None:
    assert marks(1).tolist() == [1]
    assert marks(7).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert marks(1000)[-3:].tolist() == [794, 891, 1000]
    assert set(marks(100_000)) >= set(marks(1000))
    assert marks(1234)[-1] == 1234
    assert (np.diff(marks(10**6)) > 0).all()


@some
@given(st.data())
def test_curves_are_the_sums_of_a_slow_loop(data: st.DataObject) -> None:
    numbers = st.integers(-20, 20).map(lambda n: n / 8)  # exact in binary: the sums must be equal
    stretches, first = [], 1
    for _ in range(data.draw(st.integers(1, 6))):
        count = data.draw(st.integers(1, 400))
        value = np.array(data.draw(st.lists(numbers, min_size=3, max_size=3)))
        stretches.append(Stretch(first, count, value))
        first += count
    limits, floors = np.array([0.5, 1.0]), np.array([-np.inf, 0.25])
    aim = Aim(["a", "b"], np.arange(2), 1.25, limits, floors, np.full(2, 1e-9), stretches[0].value, np.full(3, 1e-9))
    left = data.draw(st.none() | st.integers(1, first))
    curve = curve_of(stretches, aim, left)
    sums, slow = np.zeros(7), {}
    for stretch in stretches:
        for k in range(stretch.first, stretch.first + stretch.episodes):
            reward, a, b = stretch.value.tolist()
            out = [a - 0.5, max(b - 1.0, 0.25 - b)]
            sums += [1.25 - reward, max(1.25 - reward, 0.0), *out, *(max(x, 0.0) for x in out), max(out) > 0.0]
            slow[k] = sums.tolist()
    assert curve.of("episode").tolist() == marks(first - 1).tolist()
    assert curve.numbers[:, 1:-1].tolist() == [slow[k] for k in marks(first - 1).tolist()]
    for k, there in zip(marks(first - 1).tolist(), curve.of("left").tolist(), strict=True):
        assert there == left if left is not None and left <= k else np.isnan(there)
    other = [s.first for s in stretches if (s.value != stretches[0].value).any()]
    assert first_leaving(stretches, aim) == (other[0] if other else None)


def test_curves_of_a_run_are_those_of_its_history() -> None:
    """`learn` and the metrics of its history, against blocks of one episode."""
    mdp = envs.media_streaming()
    history = conrl.learn(mdp, learner_of(mdp), 120, seed=2)
    aim = aim_of(History.of(learner_of(mdp), mdp))
    curve = curve_of(list(learn_in_blocks(mdp, learner_of(mdp), 120, seed=2, longest=1)), aim, None)
    at = marks(120) - 1
    assert history.strong_violation is not None
    assert history.strong_regret is not None
    assert history.regret is not None
    assert curve.of("strong_violation_fast") == pytest.approx(history.strong_violation[at, 0], abs=1e-9)
    assert curve.of("strong_regret") == pytest.approx(history.strong_regret[at], abs=1e-9)
    assert curve.of("regret") == pytest.approx(history.regret.reward[at] * (at + 1), abs=1e-9)
    assert curve.of("violation_fast") == pytest.approx(history.regret.cost[at] * (at + 1), abs=1e-9)
    assert history.expected_costs is not None
    above = np.cumsum(history.expected_costs[:, 0] > 5.0 * (1 + 1e-9))
    assert curve.of("violating").tolist() == above[at].tolist()
    assert aim.baseline == pytest.approx([-8.983489, 1.0], abs=1e-6)


def test_curves_come_back_as_they_were_written(tmp_path: Path) -> None:
    numbers = np.array([[1.0, 0.1 + 0.2, -1e-17, 0.0, np.nan], [2.0, 1 / 3, 1e300, 2.0, 2.0]])
    curve = RunCurve(["episode", "regret", "violation_=sum", "violating", "left"], numbers)
    write_curve(tmp_path / CURVE, curve)
    again = read_curve(tmp_path / CURVE)
    assert again.columns == curve.columns
    assert np.array_equal(again.numbers, numbers, equal_nan=True)
    assert (tmp_path / CURVE).read_text().splitlines()[1].endswith(",0,")
    assert BLOCKS.played(tmp_path) == 2


@pytest.mark.parametrize("text", ["", "episode\n", "episode,a\n1\n", "a\n1\n", "episode\nx\n", "episode\n1\n1,2\n"])
def test_what_is_no_curve_is_refused_and_played_again(tmp_path: Path, text: str) -> None:
    (tmp_path / CURVE).write_text(text)
    with pytest.raises(RunError, match="not the curve of a run"):
        read_curve(tmp_path / CURVE)
    assert BLOCKS.played(tmp_path) == 0
    assert BLOCKS.played(tmp_path / "nowhere") == 0

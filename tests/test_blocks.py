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
    Curve,
    aim_of,
    curve_of,
    first_leaving,
    marks,
    read_curve,
    write_curve,
)
from conrl.learners.base import Proposal
from conrl.policy import Mixture
from conrl.running import History
from conrl.running.blocks import Stretch, learn_in_blocks
from conrl.sampling import draw

some = settings(max_examples=40, deadline=None)


class Doubling(conrl.OptCMDP):
    """OptCMDP that plans again when a pair's visits have doubled, with the whole mixture as its lottery."""

    blocks = 0

    def _decide(self) -> Proposal:
        if not hasattr(self, "mixture"):
            super()._decide()
            self.mixture = self._mixture()
            self.planned_at = self._visits()
        chosen = int(draw(self.mixture.weights, self.generator().random()))
        policy = self.mixture.policies[chosen]
        return Proposal(policy, policy, lottery=self.mixture)

    def _mixture(self) -> Mixture:
        assert self._plan is not None
        weights, directions, oracle = self._plan
        return Mixture(weights / weights.sum(), [self._of_task(oracle.policy(w)) for w in directions])

    def _visits(self) -> Any:
        counts = self.counts
        visits = np.zeros(counts.exists.shape, dtype=np.int64)
        visits[np.repeat(counts.order, np.diff(counts.first)), counts.action] = counts.visits
        return visits[: self.task.num_states]

    def _left(self) -> Any:
        return np.maximum(self.planned_at, 1) - (self._visits() - self.planned_at)

    @property
    def waits(self) -> Any:
        _ = self.proposal
        return self._left()

    def _plan_again(self) -> None:
        if (self._left() <= 0).any():
            del self.mixture

    def observe(self, episode: conrl.Episode) -> None:
        super().observe(episode)
        self._plan_again()

    def observe_block(self, states: Any, actions: Any, pay: Any) -> None:
        _ = self.proposal
        self.counts.add_block(states, actions, pay)
        self._episodes += len(states)
        self._start, self._proposal = self._next, None
        self.blocks += 1
        self._plan_again()


def learner_of(mdp: conrl.ConstrainedMDP, **options: Any) -> Doubling:
    return Doubling(mdp.task, scale=0.01, keep_policies=False, **options)


# -- the law ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["factored", "media-streaming", "inventory"])
def test_blocks_of_one_episode_are_learn(name: str) -> None:
    """Draw for draw: the same values and the same counts."""
    mdp = envs.make(name)
    single, blocks = learner_of(mdp), learner_of(mdp)
    history = conrl.learn(mdp, single, 300, seed=5)
    stretches = list(learn_in_blocks(mdp, blocks, 300, seed=5, longest=1))
    assert [s.first for s in stretches] == list(range(1, 301))
    values = np.array([s.value for s in stretches])
    assert history.expected_rewards is not None
    assert history.expected_costs is not None
    assert np.array_equal(values[:, 0], history.expected_rewards)
    assert np.array_equal(values[:, 1:], history.expected_costs)
    ours, theirs = blocks.state(), single.state()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


@pytest.mark.parametrize("name", ["factored", "media-streaming", "inventory"])
def test_long_blocks_plan_as_often_and_come_as_far(name: str) -> None:
    """A learner never plays on with a plan that is due to be made again, and few blocks do."""
    mdp = envs.make(name)
    learner = learner_of(mdp)
    plans = []
    for stretch in learn_in_blocks(mdp, learner, 20_000, seed=1):
        plans.append(stretch)
        assert stretch.episodes >= 1
    assert sum(s.episodes for s in plans) == learner.episodes == 20_000
    assert learner.blocks == len(plans) < 600
    best = conrl.plan(mdp)
    last = plans[-1].value
    assert last[0] == pytest.approx(best.reward, rel=0.1)
    assert last[1] == pytest.approx(best.costs[0], rel=0.1)


def test_blocks_and_episodes_have_the_same_law() -> None:
    """Means of what is executed over many seeds agree within their standard errors."""
    mdp = envs.media_streaming()
    totals: dict[bool, list[Any]] = {True: [], False: []}
    for seed in range(60):
        for blocks, kept in totals.items():
            run = learn_in_blocks(mdp, learner_of(mdp), 200, 1000 + seed, longest=4096 if blocks else 1)
            kept.append(sum(s.episodes * s.value for s in run))
    one, other = np.array(totals[True]), np.array(totals[False])
    apart = np.abs(one.mean(axis=0) - other.mean(axis=0))
    assert (apart <= 4.0 * np.hypot(one.std(axis=0), other.std(axis=0)) / 60**0.5).all()


def test_the_same_seed_gives_the_same_blocks() -> None:
    mdp = envs.inventory()
    runs = [list(learn_in_blocks(mdp, learner_of(mdp), 3000, seed)) for seed in (3, 3, 4)]
    assert [(s.first, s.value.tolist()) for s in runs[0]] == [(s.first, s.value.tolist()) for s in runs[1]]
    assert [s.first for s in runs[0]] != [s.first for s in runs[2]]


class Apart(Doubling):
    """Its draws are not part of what it executes: an episode has the value of the policy that was drawn."""

    def _decide(self) -> Proposal:
        policy = super()._decide().policy
        return Proposal(policy, policy)


class Telling(Apart):
    """And it says so."""

    @property
    def policy(self) -> Mixture:
        _ = self.proposal
        return self.mixture

    def draws(self, count: int) -> Any:
        raise NotImplementedError


def test_draws_apart_are_valued_one_by_one() -> None:
    mdp = envs.media_streaming()
    single, blocks = (Telling(mdp.task, scale=0.01, keep_policies=False) for _ in range(2))
    history = conrl.learn(mdp, single, 200, seed=5)
    stretches = list(learn_in_blocks(mdp, blocks, 200, seed=5, longest=1))
    assert history.expected_costs is not None
    assert [s.value[1] for s in stretches] == history.expected_costs[:, 0].tolist()
    blocks = Telling(mdp.task, scale=0.01, keep_policies=False)
    stretches = list(learn_in_blocks(mdp, blocks, 20_000, seed=5))
    assert [s.first for s in stretches[1:]] == [s.first + s.episodes for s in stretches[:-1]]
    assert stretches[-1].first + stretches[-1].episodes == 20_001
    mean = sum(s.episodes * s.value for s in stretches) / 20_000
    assert mean == pytest.approx([-6.7467, 5.0], rel=0.03)
    assert len({s.value[1] for s in stretches}) > 10


def test_a_learner_that_draws_without_saying_so_is_caught() -> None:
    """Its episodes would not all execute what the first one does."""
    mdp = envs.media_streaming()
    with pytest.raises(SpecError, match="plays another policy in each episode of one plan"):
        list(learn_in_blocks(mdp, Apart(mdp.task, keep_policies=False), 5000, longest=4))


def test_what_cannot_be_played_in_blocks() -> None:
    mdp = envs.factored()
    with pytest.raises(SpecError, match="ucbvi does not learn from blocks"):
        next(learn_in_blocks(mdp, conrl.UCBVI(mdp.task), 5))
    with pytest.raises(SpecError, match="the learner's task has"):
        next(learn_in_blocks(envs.inventory(), learner_of(mdp), 5))
    with pytest.raises(SpecError, match="episodes is -1"):
        next(learn_in_blocks(mdp, learner_of(mdp), -1))
    with pytest.raises(SpecError, match="keep_policies=False"):
        next(learn_in_blocks(mdp, Doubling(mdp.task), 5))
    with pytest.raises(SpecError, match="longest is 0"):
        next(learn_in_blocks(mdp, learner_of(mdp), 5, longest=0))
    with pytest.raises(SpecError, match="a learner such as ConRL"):
        next(learn_in_blocks(mdp, None, 5))


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
    curve = Curve(["episode", "regret", "violation_=sum", "violating", "left"], numbers)
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

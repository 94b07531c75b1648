"""ApproPO, fact by fact: the direction waits, momentum averages, calls are whole, the cache is free, play ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conrl
from conrl.experiments.records import read_run
from conrl.experiments.store import learn_on_disk
from conrl.learners.approach import Game
from conrl.learners.appropo import ApproPO
from conrl.metrics import smooth
from conrl.oracles import A2CSettings
from conrl.running import ModelWorld
from conrl.targets import Box, distance

pytest.importorskip("jax")

FAST = A2CSettings(learning_rate=1e-2, hidden=16)
SLOW = A2CSettings(learning_rate=1e-9, hidden=16)


def two_states(limit: float = 4.0) -> conrl.ConstrainedMDP:
    """Work or rest: working pays 1 or 0.6 and costs 1, resting nothing; both lead anywhere with chance 1/2."""
    rewards = np.array([[0.0, 1.0], [0.0, 0.6]])
    costs = np.array([[[0.0], [1.0]], [[0.0], [1.0]]])
    return conrl.ConstrainedMDP(np.full((2, 2, 2), 0.5), rewards, costs, 10, limits=[limit])


def make(mdp: conrl.ConstrainedMDP, *, exact: bool = True, **settings: Any) -> ApproPO:
    chosen: dict[str, Any] = {
        "threshold": 3.0,
        "episodes": 5,
        "estimate_episodes": 4,
        "a2c": FAST,
        "seed": 0,
    } | settings
    return ApproPO(mdp.task, peek=mdp if exact else None, **chosen)


def play(mdp: conrl.ConstrainedMDP, learner: ApproPO, episodes: int) -> list[np.ndarray]:
    """Totals of the episodes."""
    world, totals = ModelWorld(mdp), []
    for _ in range(episodes):
        episode = world.play(learner.propose(), np.random.default_rng(learner.episodes))
        learner.observe(episode)
        totals.append(episode.total)
    return totals


def value(mdp: conrl.ConstrainedMDP, policy: Any) -> np.ndarray:
    found = conrl.evaluate(mdp, policy)
    return np.append(found.reward, found.costs)


# -- the game ---------------------------------------------------------------------------------------------


def test_the_first_direction_is_nearly_reward_only() -> None:
    """In closed form: (0, 0, kappa) less its projection onto the ray through (1.4, 0, kappa), as a unit vector."""
    target = Box([1.4, -np.inf], [np.inf, 0.3])
    along = np.array([1.4, 0.0, 20.0])
    left = np.array([0.0, 0.0, 20.0]) - 20.0 * 20.0 / (along @ along) * along
    wanted = left / np.linalg.norm(left)
    assert np.allclose(Game(target, 2, 20.0, 1.0, 0.9).direction, wanted, atol=1e-9)
    mdp = two_states(0.3)
    first, other = (make(mdp, threshold=1.4, seed=seed).game.direction for seed in (0, 1))
    assert np.allclose(first, wanted, atol=1e-3)
    assert not np.array_equal(first, other)


def test_momentum_averages() -> None:
    game = Game(Box([1.4, -np.inf], [np.inf, 0.3]), 2, 20.0, 3.0, 0.9)
    velocity, direction = np.zeros(3), game.direction
    for t, z in enumerate(([1.8, 1.8], [0.2, 0.1], [1.5, 0.4]), start=1):
        velocity = 0.9 * velocity + 0.1 * 3.0 / t**0.5 * np.array([*z, 20.0])
        moved = game.cone.project_polar(direction + velocity)
        direction = moved / max(1.0, float(np.linalg.norm(moved)))
        game.update(np.array(z))
        assert np.allclose(game.velocity, velocity)
        assert np.allclose(game.direction, direction)


# -- the oracle -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [True, False])
def test_the_direction_waits_for_a_positive_response(exact: bool) -> None:
    """A reward that no policy earns: nothing answers, nothing moves, and one network is trained on."""
    mdp = two_states()
    learner = make(mdp, exact=exact, threshold=20.0)
    first = learner.game.direction.copy()
    play(mdp, learner, 60)
    assert np.array_equal(learner.game.direction, first)
    assert (learner.game.t, len(learner.answers), learner.over) == (0, 0, False)
    assert int(learner.agent.state()["count"]) == 60  # updates of one optimiser
    with pytest.raises(conrl.RunError, match="no positive response yet"):
        _ = learner.policy


def test_a_call_plays_all_of_its_episodes() -> None:
    """Also where the network answers from the beginning."""
    mdp = two_states(10.0)
    learner = make(mdp, threshold=0.1, episodes=7, a2c=SLOW)
    play(mdp, learner, 6)
    assert not len(learner.answers)
    play(mdp, learner, 1)
    assert len(learner.answers) == 1
    assert int(learner.agent.state()["count"]) == 7


def test_rounds_that_the_cache_answers_are_free() -> None:
    """Two answers of which a mixture is in the target: the game goes on between them without an episode."""
    mdp = two_states()
    learner = make(mdp)
    learner.answers.add(learner.agent.table, np.array([0.0, 0.0]))
    learner.answers.count(0)
    play(mdp, learner, 4)
    learner._try(np.array([8.0, 9.0]))
    assert learner.over
    assert learner.game.t == sum(learner.answers.rounds) - 1 > 2
    assert learner.used == 4
    assert distance(Box([3.0, -np.inf], [np.inf, 4.0]), learner.answers.mean) <= 1e-9


def test_nothing_is_trained_at_a_direction_of_zero() -> None:
    mdp = two_states()
    learner = make(mdp)
    learner.game.direction[:] = 1e-12
    before = learner.agent.state()
    play(mdp, learner, 4)
    after = learner.agent.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_what_is_confirmed_is_not_trained_on() -> None:
    """Sampled values: the mean of the fresh episodes alone, of a network that stood still."""
    mdp = two_states(10.0)
    learner = make(mdp, exact=False, threshold=0.1)
    play(mdp, learner, 5)
    count, table = int(learner.agent.state()["count"]), learner.agent.table.copy()
    totals = play(mdp, learner, 4)
    assert int(learner.agent.state()["count"]) == count == 5
    assert np.array_equal(learner.answers.tables[0], table)
    assert np.allclose(learner.answers.values[0], np.mean(totals, axis=0))


# -- the end ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played() -> tuple[conrl.ConstrainedMDP, ApproPO, conrl.History]:
    """A run with exact values that ends by itself, and goes on."""
    mdp = two_states()
    learner = make(mdp)
    return mdp, learner, conrl.learn(mdp, learner, 1500, seed=0)


def test_the_mixture_reaches_its_target_and_play_ends(played: Any) -> None:
    mdp, learner, history = played
    target = Box([3.0, -np.inf], [np.inf, 4.0])
    assert learner.over
    assert learner.used < len(history)
    assert learner.used % 5 == 0
    assert distance(target, value(mdp, learner.policy)) <= 1e-9
    assert learner.game.t == sum(learner.answers.rounds)
    assert int(learner.agent.state()["count"]) <= learner.used
    # The cache answers every direction for good.
    for drawn in np.random.default_rng(0).standard_normal((200, 3)):
        learner.game.direction = learner.game._project(drawn)
        assert learner.answers.best(learner.game) is not None


def test_what_is_shown_is_the_newest_answer_and_the_mixture(played: Any) -> None:
    mdp, learner, history = played
    shown, mixture = history.reported, history.mixture
    first = int(np.flatnonzero(~np.isnan(shown[:, 0]))[0])
    assert first >= 5
    assert np.isnan(mixture[:first]).all()
    assert not np.isnan(mixture[first:]).any()
    assert np.allclose(shown[-1], value(mdp, learner.answers.policy(learner.answers.newest)))
    assert np.allclose(mixture[-1], value(mdp, learner.policy))
    assert (shown[learner.used :] == shown[-1]).all()  # flat
    assert (mixture[learner.used :] == mixture[-1]).all()
    values = {tuple(np.round(z, 9)) for z in learner.answers.values}
    assert {tuple(z) for z in np.round(shown[first:], 9)} <= values  # never the network in training
    parts = {tuple(z) for z in np.round(history.executed[learner.used :], 9)}
    assert parts <= values  # after the end the mixture is played


def test_sampled_values_reach_the_target_by_their_own_account() -> None:
    mdp = two_states()
    learner = make(mdp, exact=False, episodes=10, estimate_episodes=20)
    conrl.learn(mdp, learner, 3000, seed=0)
    target = Box([3.0, -np.inf], [np.inf, 4.0])
    assert learner.over
    assert distance(target, learner.answers.mean) <= 1e-9
    assert distance(target, value(mdp, learner.policy)) <= 0.5  # what it is in truth


# -- files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [True, False])
def test_it_resumes_exactly_in_every_phase(exact: bool, tmp_path: Path) -> None:
    mdp = two_states()
    given = {"peek": mdp} if exact else {}

    def begin() -> ApproPO:
        return make(mdp, exact=exact, episodes=3, estimate_episodes=2, seed=None)

    phases = set()
    pieces = [1] * 20 + [53] * 12
    whole = conrl.learn(mdp, begin(), sum(pieces), seed=2)
    learner, history = begin(), None
    for piece in pieces:
        history = conrl.learn(mdp, learner, piece, seed=2, history=history)
        phases.add("over" if learner.over else "confirm" if len(learner._seen) >= 3 else "train")
        learner.save(tmp_path / "learner.npz")
        learner = conrl.load_learner(tmp_path / "learner.npz", **given)
    assert history is not None
    assert history.to_csv() == whole.to_csv()
    assert "reported_reward" in whole.to_csv().partition("\n")[0]
    assert phases == ({"train", "over"} if exact else {"train", "confirm", "over"})


def test_a_run_on_disk_shows_its_newest_answer(tmp_path: Path) -> None:
    mdp = two_states()

    def begin() -> ApproPO:
        return make(mdp, seed=None)

    for episodes in (40, 1500):
        where = tmp_path / "two" / "appropo" / "seed-000"
        _, history = learn_on_disk(where, mdp, begin, episodes, 0, given={"peek": mdp})
    run = read_run(where, "two", "appropo", 0)
    shown, mixture, executed = history.reported, history.mixture, history.executed
    assert shown is not None
    assert mixture is not None
    assert executed is not None
    assert run.mixture is not None
    assert np.allclose(run.values, shown, equal_nan=True)
    assert np.allclose(run.mixture, mixture, equal_nan=True)
    assert np.allclose(run.executed, executed)
    assert np.allclose(run.final, shown[-150:].mean(axis=0))
    assert np.allclose(run.smooth[-1], run.values[-1])


def test_a_run_without_an_answer_shows_nothing(tmp_path: Path) -> None:
    mdp = two_states()
    where = tmp_path / "two" / "appropo" / "seed-000"
    learn_on_disk(where, mdp, lambda: make(mdp, threshold=20.0, seed=None), 20, 0)
    run = read_run(where, "two", "appropo", 0)
    assert np.isnan(run.values).all()
    assert not np.isnan(run.executed).any()
    assert run.solved_from(1.0) is None


def test_what_was_shown_is_in_the_state_of_a_history(played: Any) -> None:
    _, _, history = played
    state = history.state()
    again = conrl.History(history.cost_names, history.problem, history.mdp)
    again.load_state(state)
    assert again.reported is not None
    assert again.mixture is not None
    assert again.to_csv() == history.to_csv()
    del state["reported"]
    with pytest.raises(conrl.RunError, match="the history has no column 'reported'"):
        again.load_state(state)


def test_a_mean_over_what_was_shown_leaves_out_what_was_not() -> None:
    nothing = [np.nan, np.nan]
    values = np.array([nothing, nothing, [1.0, 2.0], [3.0, 4.0], [5.0, 8.0]])
    wanted = [nothing, nothing, [1.0, 2.0], [2.0, 3.0], [4.0, 6.0]]
    assert np.allclose(smooth(values, 2), wanted, equal_nan=True)

"""The kernels of one episode of learning, each against plain numpy, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from bank import deviations, random_model
from hypothesis import given
from hypothesis import strategies as st

import conrl
from conrl import kernels
from conrl._types import Float, Int
from conrl.episode import Episode, check_episode
from conrl.learners.kept import Sparse
from conrl.planners import Planner
from conrl.sampling import randomness


def learned(
    unknown_start: bool, missing: bool, d: int, episodes: int = 25, planner: Planner | None = None
) -> conrl.ConRL:
    """A learner after some episodes: it has START if the first state is unknown, and END if some of them terminated."""
    mask = np.ones((7, 3), dtype=bool)
    mask[2, 1] = mask[4, 0] = not missing
    mdp = random_model(3 + d, 7, 3, 5, d, available=mask)
    if unknown_start:
        mdp = mdp.replace(initial=np.full(7, 1.0 / 7.0))
    mdp = mdp.replace(limits=0.6 * conrl.evaluate(mdp, conrl.plan(mdp, limits=None)).costs)
    learner = conrl.ConRL(mdp.task, seed=1, planner=planner)
    conrl.learn(mdp, learner, episodes, seed=1)
    if unknown_start:
        pay = np.broadcast_to(learner.task.ranges.mean(axis=1), (1, 1 + d))
        learner.prime([Episode([3, 3], [2], pay[:, 0], pay[:, 1:], terminated=True)])
    return learner


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("unknown_start", [False, True])
@pytest.mark.parametrize("planner", [conrl.ColumnGeneration(), conrl.Lagrangian(10, 0.2)])
def test_what_is_played_is_the_markov_form_of_the_plan(
    planner: Planner, unknown_start: bool, missing: bool, d: int
) -> None:
    learner, mixed = learned(unknown_start, missing, d, planner=planner), 0
    for k in range(30):
        plan = learner._plan_for(30 + k)
        played = learner._played(plan)
        assert np.array_equal(played.probabilities, learner._of_task(plan.policy).probabilities)
        assert type(played) is type(learner._of_task(plan.policy))
        mixed += plan.weights.size > 1
        learner.prime([Episode([0], [], [], np.zeros((0, d)))])
        learner._start = plan.start
    assert mixed, "no plan was a mixture"


def test_a_part_whose_share_underflows_does_not_count() -> None:
    """It comes to state 1 with 1e-300 and has a weight of 1e-300: there is no mass, and the heaviest part is played."""
    graph = np.array([0, 2, 4]), np.array([0, 2, 3, 4, 5]), np.array([0, 1, 0, 1, 1]), np.array([1.0, 1e-300, 1, 1, 1])
    initial, action, weights = np.array([1.0, 0.0]), np.array([0, 1, 0, 1]), np.array([1e-300, 1.0])
    parts = np.array([[[0, 1], [0, 1]], [[1, 0], [1, 0]]], dtype=np.int16)
    table = kernels.mixed_table(*graph, initial, action, weights, parts, 1, 0, np.arange(2), np.zeros(2, int), 2)
    assert table[1, 1].tolist() == [1.0, 0.0]
    assert table[0, 0].tolist() == [1e-300, 1.0]


@given(st.integers(0, 3000), st.integers(0, 2**32 - 1))
def test_sums_are_those_of_numpy(size: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(size) ** 3
    assert kernels.pairwise(x) == x.sum()


def test_noise_has_the_bits_of_einsum() -> None:
    mdp = random_model(8, 6, 2, 5, 2)
    mdp = mdp.replace(reward_range=(0.0, 2.0), cost_ranges=[(0.0, 2.0)] * 2)
    learner = conrl.ConRL(mdp.task, seed=0)
    conrl.learn(mdp, learner, 40, seed=0, pay="bernoulli")
    moments, degrees = deviations(learner.counts)
    w = np.array([1.0, -0.3, -1.7])
    squares = np.maximum(np.einsum("i,pij,j->p", w, moments, w), 0.0)
    pooled = squares.sum() / max(degrees.sum(), 1)
    worth = np.maximum(degrees + 2.0, 1.0)
    largest = ((squares + 2.0 * pooled) / worth).max()
    assert squares.max() > 0.0
    assert np.array_equal(learner.counts.noise(w, 2.0), np.sqrt((squares + 2.0 * largest) / worth))


def by_numpy(
    means: Float, visits: Int, b: Float, better: Float, ranges: Float, known: list[int]
) -> tuple[Float, Float]:
    caution, hopeful = np.minimum(b, 0.0), np.maximum(b, 0.0)
    pay = means + caution * better
    new = visits == 0
    new[known] = False
    low, high = (np.clip(pay[new] + side * hopeful[new], *ranges.T) for side in (-1.0, 1.0))
    pay[new], hopeful[new] = (low + high) / 2.0, (high - low) / 2.0
    return pay, hopeful


@pytest.mark.parametrize("bounded", [False, True])
def test_caution_moves_pay_and_new_pairs_stay_within_the_ranges(bounded: bool) -> None:
    rng = np.random.default_rng(4)
    means, b = rng.normal(size=(40, 3)), rng.normal(size=(40, 3))
    visits, better = rng.integers(0, 3, 40), np.array([1.0, -1.0, 0.0])
    visits[[0, 7]] = 0
    ranges = np.array([[-1.0, 1.0], [0.0, 1.0], [-0.5, 2.0]])
    pay, hopeful = kernels.believed(means, visits, b, better, ranges, bounded, 0, 7)
    expected = by_numpy(means, visits, b, better, ranges, [0, 7] if bounded else list(range(40)))
    assert np.array_equal(pay, expected[0])
    assert np.array_equal(hopeful, expected[1])


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(0.0, 1.0))
def test_policies_are_kept_by_where_they_mix(seed: int, actions: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    table = np.eye(actions)[rng.integers(0, actions, (3, 8))]
    where = rng.random((3, 8)) < share
    table[where] = rng.dirichlet(np.ones(actions), int(where.sum()))
    table[0, 0] = 1.0 / actions  # all are equal: the first
    policy = conrl.Policy(table)
    at = np.flatnonzero(table.reshape(24, actions).max(axis=1) != 1.0)
    kept = Sparse.of(policy)
    assert (kept is None) == (at.size > 6)
    if kept is not None:
        assert np.array_equal(kept.at, at)
        assert np.array_equal(kept.actions, policy.mode)
        assert np.array_equal(kept.policy().probabilities, policy.probabilities)


@pytest.mark.parametrize("seed", [None, 0, 7, 2**32 - 1, 2**32, 2**63 - 1])
@pytest.mark.parametrize("k", [0, 5, 2**32 - 1, 2**32])
def test_randomness_is_that_of_the_list(seed: int | None, k: int) -> None:
    ours, numpys = randomness(seed, k, 2), np.random.default_rng([seed or 0, k, 2])
    assert np.array_equal(ours.random(5), numpys.random(5))


def test_an_episode_for_a_network_is_filled_up() -> None:
    rewards = np.random.default_rng(0).random(4)
    states, actions, returns, counted = kernels.to_go(np.array([3, 1, 2, 0, 5]), np.array([1, 0, 1, 1]), rewards, 6)
    assert states.tolist() == [3, 1, 2, 0, 0, 0]
    assert actions.tolist() == [1, 0, 1, 1, 0, 0]
    assert np.array_equal(returns[:4], np.cumsum(rewards[::-1])[::-1].astype(np.float32))
    assert returns[4:].tolist() == [0.0, 0.0]
    assert counted.tolist() == [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("where", "value"), [("states", -1), ("states", 2), ("actions", 2), ("pay", 1.5), ("pay", np.nan)]
)
def test_what_does_not_fit_is_named(where: str, value: float) -> None:
    task = conrl.Task(2, 2, 3, [1.0], ["c"], initial=0)
    arrays = {"states": np.array([0, 1, 1]), "actions": np.array([0, 1]), "pay": np.array([[0.0, 1.0], [1.0, 0.0]])}
    check_episode(task, Episode._of(*arrays.values(), terminated=False, stopped=False))
    arrays[where][-1] = value
    with pytest.raises(conrl.ConRLError, match=r"was (seen|played)"):
        check_episode(task, Episode._of(*arrays.values(), terminated=False, stopped=False))

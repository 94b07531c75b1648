"""A2C, and the learners that train it: against value iteration, exact optima and closed forms."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from launch import launch

import conrl
from conrl.learners.approach import Game
from conrl.learners.appropo import ApproPO
from conrl.learners.rcpo import RCPO
from conrl.oracles import A2C, A2CSettings, BackwardInduction
from conrl.oracles.a2c import Agent
from conrl.oracles.network import Network
from conrl.running import ModelWorld
from conrl.sampling import DRAW, TRAIN, WORLD, randomness
from conrl.targets import Ball, Box, Cone, HalfSpace, Intersection, distance

pytest.importorskip("jax")

FAST = A2CSettings(learning_rate=1e-2, hidden=16)


def corridor(limit: float = np.inf) -> conrl.ConstrainedMDP:
    """Four cells; right pays more the further one is, and costs; the best policy does not depend on the step."""
    transitions = np.zeros((4, 2, 4))
    for s in range(4):
        transitions[s, 0, max(s - 1, 0)] = 1.0
        transitions[s, 1, min(s + 1, 3)] = 0.9
        transitions[s, 1, s] += 0.1
    rewards = np.zeros((4, 2))
    rewards[3] = 1.0
    costs = np.zeros((4, 2, 1))
    costs[:, 1] = 0.1
    return conrl.ConstrainedMDP(transitions, rewards, costs, horizon=12, limits=[limit])


def two_states(limit: float) -> conrl.ConstrainedMDP:
    """Stay in state 0 or work: working pays 1 and costs 1, resting nothing; both lead anywhere with chance 1/2."""
    transitions = np.full((2, 2, 2), 0.5)
    rewards = np.array([[0.0, 1.0], [0.0, 0.6]])
    return conrl.ConstrainedMDP(transitions, rewards, rewards[:, :, None] * 0.0 + [[[0.0], [1.0]]], 10, limits=[limit])


# -- the network and its update ---------------------------------------------------------------------------


def test_the_network_is_a_convolution() -> None:
    rng = np.random.default_rng(0)
    images = rng.random((5, 2, 4, 3))
    network = Network(images, 3, channels=4, hidden=6)
    weights = rng.standard_normal(network.size).astype(np.float32)
    kernel, bias = weights[: 18 * 4].reshape(2, 3, 3, 4), weights[18 * 4 : 19 * 4]
    _, dense, policy, value = network.split(weights)
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = np.zeros((5, 4, 3, 4))
    for i in range(4):
        for j in range(3):
            seen[:, i, j] = np.einsum("scxy,cxyk->sk", padded[:, :, i : i + 3, j : j + 3], kernel) + bias
    hidden = np.maximum(seen, 0.0).reshape(5, -1)

    def linear(layer: Any, x: Any) -> Any:
        return x @ layer[0] + layer[1]

    hidden = np.maximum(linear(dense, hidden), 0.0)
    logits, values = network.forward(network.split(weights), network.inputs, network.which)
    assert np.allclose(logits, linear(policy, hidden), atol=1e-4)
    assert np.allclose(values, linear(value, hidden)[:, 0], atol=1e-4)


@pytest.mark.parametrize(("gain", "squares"), [(None, (2.0, 2.0, 1e-4, 1.0)), (1.0, (1.0, 1.0, 1.0, 1.0))])
def test_first_weights_are_orthogonal(gain: float | None, squares: tuple[float, ...]) -> None:
    network = Network(np.zeros((3, 2, 20, 20)), 4, channels=16, hidden=32)
    weights = network.initial(np.random.default_rng(1), gain)
    for (matrix, bias), square in zip(network.split(weights), squares, strict=True):
        assert np.allclose(matrix.T @ matrix, square * np.eye(bias.size), atol=1e-4 * square + 1e-8)
        assert not bias.any()


def test_the_preset_of_the_program_starts_with_gain_1() -> None:
    agent = Agent(np.eye(3), None, 2, A2C("authors").numbers, np.random.default_rng(1))
    network = Network(np.eye(3), 2)
    assert np.array_equal(agent.state()["weights"], network.initial(np.random.default_rng(1), 1.0))


@pytest.mark.parametrize("loss", ["squared", "smooth-l1"])
def test_the_gradient_is_that_of_algorithm_3(loss: str) -> None:
    """One step of Adam moves each weight by the learning rate against the sign of its gradient."""
    rng = np.random.default_rng(2)
    rate, alpha, entropy = 1e-3, 0.7, 0.05
    numbers = A2CSettings(rate, alpha, loss, entropy, hidden=5)
    agent = Agent(np.eye(4), None, 3, numbers, rng)
    network = Network(np.eye(4), 3, hidden=5)
    states, actions = np.array([0, 2, 3, 3]), np.array([1, 0, 2, 2])
    rewards = np.array([0.5, -1.0, 2.0, 0.3])
    before = agent.state()["weights"]

    def objective(weights: Any, fixed: Any) -> float:
        def forward(w: Any) -> Any:
            logits, values = network.forward(network.split(w.astype(np.float32)), network.inputs, network.which)
            z = np.asarray(logits, dtype=np.float64)
            return z - np.log(np.exp(z).sum(axis=1, keepdims=True)), np.asarray(values, dtype=np.float64)

        log, values = forward(weights)
        held = forward(fixed)[1]
        returns = np.cumsum(rewards[::-1])[::-1]
        error = returns - values[states]
        fit = error**2 if loss == "squared" else np.where(abs(error) < 1, 0.5 * error**2, abs(error) - 0.5)
        spread = -(np.exp(log) * log).sum(axis=1)[states]
        each = -log[states, actions] * (returns - held[states]) + alpha * fit - entropy * spread
        return float(each.mean())

    agent.train(states, actions, rewards, 4)
    moved = agent.state()["weights"] - before
    checked = 0
    for i in range(0, before.size, 3):
        step = np.zeros(before.size)
        step[i] = 3e-3
        slope = (objective(before + step, before) - objective(before - step, before)) / 6e-3
        if abs(slope) > 3e-3:
            assert moved[i] == pytest.approx(-rate * np.sign(slope), rel=1e-2)
            checked += 1
    assert checked > 5


def test_short_episodes_count_only_their_steps() -> None:
    one, other = (Agent(np.eye(3), None, 2, FAST, np.random.default_rng(0)) for _ in range(2))
    states, actions, rewards = np.array([0, 1, 2]), np.array([1, 0, 1]), np.array([1.0, 0.0, 2.0])
    one.train(states, actions, rewards, 3)
    other.train(states, actions, rewards, 9)
    assert np.allclose(one.table, other.table, atol=1e-6)


def test_actions_that_do_not_exist_are_never_played() -> None:
    available = np.array([[True, False], [True, True]])
    agent = Agent(np.eye(2), available, 2, FAST, np.random.default_rng(0))
    for _ in range(20):
        agent.train(np.array([0, 1]), np.array([0, 1]), np.array([-1.0, 1.0]), 2)
    assert agent.table[0].tolist() == [1.0, 0.0]
    assert np.allclose(agent.table.sum(axis=1), 1.0)


# -- fictitious episodes ----------------------------------------------------------------------------------


def test_a2c_plans_nearly_as_well_as_value_iteration() -> None:
    mdp = corridor()
    best = conrl.plan(mdp, conrl.Linear()).reward
    maker = A2C(settings=A2CSettings(learning_rate=1e-2), episodes=600, seed=3)
    policy = maker(mdp).respond(np.array([1.0, 0.0]))
    assert conrl.evaluate(mdp, policy).reward >= 0.98 * best


def test_lagrangian_with_a2c_comes_near_a_limit() -> None:
    mdp = two_states(4.0)
    oracle = A2C(settings=A2CSettings(learning_rate=1e-2), episodes=20, seed=1)
    plan = conrl.plan(mdp, planner=conrl.Lagrangian(400, 0.2, decay=True, oracle=oracle))
    assert plan.bound is None  # nothing is proven
    assert plan.costs[0] <= 4.0 * 1.1
    assert plan.reward >= 0.75 * conrl.plan(mdp).reward


@pytest.mark.parametrize("reset", ["none", "warm-start", "continue"])
def test_reset_modes_and_state(reset: str) -> None:
    mdp = corridor()
    w = np.array([1.0, -0.5])

    def tables(seed: int, calls: int, learned: Any = None) -> tuple[list[Any], Any]:
        maker, answers = A2C(settings=FAST, reset=reset, seed=seed), []
        for _ in range(calls):
            responder = maker.resume(mdp, learned)
            answers.append(responder.respond(w).probabilities[0])
            learned = responder.learned()
        return answers, learned

    whole, _ = tables(4, 4)
    begin, learned = tables(4, 2)
    assert np.array_equal([*begin, *tables(4, 2, learned)[0]], whole)
    assert not np.array_equal(whole[0], whole[1])
    assert not np.array_equal(tables(5, 1)[0][0], whole[0])
    if reset != "none":  # it goes on from the weights
        assert not np.array_equal(tables(4, 1, learned | {"weights": 0.0 * learned["weights"]})[0][0], whole[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.zeros(3)}, r"not the state of this network: its weights make no sense, of shape \(3,\)"),
        ({"mean": np.array(1.0)}, "its mean make no sense"),
        ({"calls": np.array([1, 2])}, "its number of calls makes no sense"),
        ({"calls": np.array(-1)}, "its number of calls makes no sense"),
        ({"calls": np.array(1.5)}, "its number of calls makes no sense"),
        ({"more": np.zeros(1)}, "start is not that of A2C: its oracle holds calls, count, mean, more, square, weights"),
    ],
)
def test_what_no_network_learned_is_refused(change: Any, message: str) -> None:
    mdp = corridor()
    maker = A2C(settings=FAST, reset="continue")
    learned = maker(mdp).learned()
    nan = {"weights": np.full(learned["weights"].size, np.nan)}
    for wrong, expected in ((change, message), (nan, "its weights make no sense")):
        with pytest.raises(conrl.RunError, match=expected):
            maker.resume(mdp, {**learned, **wrong})


def conrl_a2c(mdp: conrl.ConstrainedMDP, **settings: Any) -> conrl.ConRL:
    oracle = A2C("authors", final_episodes=2)
    planner = conrl.Lagrangian(2, 0.2, keep_multipliers=True, returns="average-multiplier", oracle=oracle)
    return conrl.ConRL(mdp.task, planner=planner, **settings)


def test_the_program_plays_the_most_probable_action_and_reports_the_policy() -> None:
    mdp = two_states(4.0)
    learner = conrl_a2c(mdp, preset="authors", seed=0)
    proposal = learner.proposal
    assert isinstance(proposal.policy, conrl.Deterministic)
    assert proposal.reported is not None
    assert np.array_equal(proposal.policy.actions, proposal.reported.probabilities.argmax(axis=2))
    assert proposal.reported.probabilities[0, 0].max() < 1.0
    history = conrl.learn(mdp, learner, 3, seed=0)
    shown = conrl.evaluate(mdp, proposal.reported)
    played = conrl.evaluate(mdp, proposal.policy)
    assert history.reported is not None
    assert history.executed is not None
    assert np.allclose(history.reported[0], [shown.reward, *shown.costs])
    assert np.allclose(history.executed[0], [played.reward, *played.costs])
    assert history.mixture is None
    own = conrl_a2c(mdp, preset="authors", executes="policy", seed=0)
    assert own.proposal.reported is None
    assert np.array_equal(own.proposal.policy.probabilities, proposal.reported.probabilities)
    exact = conrl.ConRL(mdp.task, preset="authors", seed=0)  # its policies draw nothing
    assert exact.proposal.reported is None
    with pytest.raises(conrl.SpecError, match="did you mean 'most-probable'"):
        conrl.ConRL(mdp.task, executes="most-probably")


@pytest.mark.parametrize("executes", ["policy", "most-probable"])
def test_conrl_with_a2c_resumes_exactly(executes: str, tmp_path: Path) -> None:
    rover = conrl.envs.mars_rover(rock_reward=1.0)

    def make() -> conrl.ConRL:
        return conrl_a2c(rover, executes=executes)

    whole = conrl.learn(rover, make(), 8, seed=1)
    learner = make()
    first = conrl.learn(rover, learner, 4, seed=1)
    learner.propose()
    learner.save(tmp_path / "learner.npz")
    again = conrl.load_learner(tmp_path / "learner.npz")
    rest = conrl.learn(rover, again, 4, seed=1, history=first)
    assert rest.to_csv() == whole.to_csv()


def test_bad_settings() -> None:
    for make, piece in (
        (lambda: A2C("author"), "did you mean 'authors'"),
        (lambda: A2C(reset="no"), "unknown reset"),
        (lambda: A2C(episodes=0), "episodes"),
        (lambda: A2CSettings(value_loss="cubed"), "unknown value_loss"),
        (lambda: A2CSettings(learning_rate=float("nan")), "learning_rate"),
        (lambda: A2CSettings(hidden=0), "hidden"),
        (lambda: A2CSettings(gain=0.0), "gain"),
        (lambda: ApproPO(corridor().task, threshold=1.0, momentum=1.0), "below 1"),
        (lambda: conrl.Lagrangian(oracle="a2d"), "did you mean 'a2c'"),
        (lambda: RCPO(corridor().task, preset="authors"), "peek="),
        (lambda: RCPO(corridor().task, rate=0.0), "rate"),
        (lambda: ApproPO(corridor().task), "threshold"),
        (lambda: ApproPO(corridor().task, threshold=1.0, preset="authors"), "peek="),
    ):
        with pytest.raises(conrl.SpecError, match=piece):
            make()


def test_without_jax_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['jax'] = None\n"
        "import conrl\n"
        "try: conrl.Lagrangian(oracle='a2c')\n"
        "except conrl.SpecError as error: print(error)"
    )
    done = launch([sys.executable, "-c", code])
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip install 'conrl[deep]'" in done.stdout


# -- RCPO -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peeks", [False, True])
def test_rcpo_comes_near_the_constrained_optimum_of_two_states(peeks: bool) -> None:
    mdp = two_states(4.0)
    best = conrl.plan(mdp)
    numbers = A2CSettings(learning_rate=3e-3, entropy=0.05, hidden=16)
    learner = RCPO(mdp.task, rate=0.002, a2c=numbers, peek=mdp if peeks else None)
    history = conrl.learn(mdp, learner, 6000, seed=0)
    assert history.executed is not None
    late = history.executed[3000:].mean(axis=0)
    assert late[0] >= 0.95 * best.reward
    assert late[1] <= 1.02 * 4.0


def test_rcpo_moves_its_multiplier_by_the_sampled_cost() -> None:
    mdp = two_states(4.0)
    learner = RCPO(mdp.task, rate=0.1, seed=0)
    expected = 0.0
    for k in range(5):
        episode = ModelWorld(mdp).play(learner.propose(), np.random.default_rng(k))
        learner.observe(episode)
        expected = max(0.0, expected + 0.1 * (float(episode.total[1]) - 4.0))
        assert learner.multipliers.tolist() == pytest.approx([expected])


# -- ApproPO ----------------------------------------------------------------------------------------------

POINT = arrays(np.float64, 3, elements=st.floats(-5, 5, width=32))
SETS: dict[str, Any] = {
    "box": Box([-np.inf, -1.0, 0.0], [2.0, 1.0, np.inf]),
    "half-space": HalfSpace([1.0, -2.0, 0.5], 1.0),
    "ball": Ball([1.0, 0.0, -1.0], 1.5),
    "both": Intersection([Ball([0.0, 0.0, 0.0], 2.0), HalfSpace([1.0, 1.0, 0.0], 0.5), Box([-1.0] * 3, [9.0] * 3)]),
}


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=40, deadline=None)
@given(z=POINT, other=POINT)
def test_projections_are_nearest_points(name: str, z: Any, other: Any) -> None:
    target = SETS[name]
    nearest = target.project(z)
    assert distance(target, nearest) <= 1e-6
    inside = target.project(other)
    assert (z - nearest) @ (inside - nearest) <= 1e-5  # the angle that makes it the nearest


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=12, deadline=None)
@given(z=arrays(np.float64, 4, elements=st.floats(-5, 5, width=32)), other=POINT, scale=st.floats(0, 3))
@example(z=np.array([-2.0, -1.25, 2.0, 0.0]), other=np.array([1.0, 0.0, 0.0]), scale=1.0)  # points near infinity
def test_cones_and_their_polars(name: str, z: Any, other: Any, scale: float) -> None:
    cone = Cone(SETS[name], 2.0)
    nearest, polar = cone.project(z), cone.project_polar(z)
    member = scale * np.append(SETS[name].project(other), 2.0)
    assert np.allclose(nearest + polar, z)
    assert abs(nearest @ polar) <= 1e-4
    assert polar @ member <= 1e-4 * (1 + np.linalg.norm(member))
    assert distance(cone, member) <= 1e-5 * (1 + np.linalg.norm(member))


def test_the_game_approaches_the_target_like_one_over_root_t() -> None:
    rover = conrl.envs.mars_rover(rock_reward=1.0)
    oracle = BackwardInduction(rover)
    target = Box([1.5, -np.inf], [np.inf, 0.3])
    game = Game(target, 2, kappa=20.0, step=1.0, momentum=0.0)
    total, distances = np.zeros(2), []
    for t in range(1, 2001):
        z = oracle.support(-game.direction[:-1]).mean
        game.update(z)
        total += z
        distances.append(distance(target, total / t))
    rounds = np.array([50, 100, 200, 400, 800, 1600])
    bound = max(distances[r - 1] * r**0.5 for r in rounds[:2])
    assert all(distances[r - 1] * r**0.5 <= 1.1 * bound + 1e-9 for r in rounds)
    assert distances[-1] < 0.1 * max(distances)


def test_appropo_finds_a_mixture_in_the_target() -> None:
    mdp = two_states(4.0)
    learner = ApproPO(
        mdp.task, threshold=3.0, step=1.0, episodes=40, a2c=A2CSettings(learning_rate=1e-2), estimate_episodes=10
    )
    conrl.learn(mdp, learner, 3000, seed=0)
    found = conrl.evaluate(mdp, learner.policy)
    assert distance(Box([3.0, -np.inf], [np.inf, 4.0]), [found.reward, *found.costs]) <= 0.2


@pytest.mark.parametrize("kind", ["rcpo", "appropo"])
def test_learners_resume_exactly(kind: str, tmp_path: Path) -> None:
    mdp = two_states(4.0)

    def make() -> Any:
        if kind == "rcpo":
            return RCPO(mdp.task, rate=0.1)
        return ApproPO(mdp.task, threshold=3.0, episodes=3, estimate_episodes=2)

    whole = conrl.learn(mdp, make(), 20, seed=2)
    for cut in (1, 4, 5, 13):
        learner = make()
        first = conrl.learn(mdp, learner, cut, seed=2)
        learner.save(tmp_path / "learner.npz")
        again = conrl.load_learner(tmp_path / "learner.npz")
        assert conrl.learn(mdp, again, 20 - cut, seed=2, history=first).to_csv() == whole.to_csv()


def test_what_was_peeked_at_must_be_given_again(tmp_path: Path) -> None:
    mdp = two_states(4.0)
    learner = RCPO(mdp.task, peek=mdp)
    conrl.learn(mdp, learner, 2)
    learner.save(tmp_path / "learner.npz")
    with pytest.raises(conrl.SpecError, match="peek="):
        conrl.load_learner(tmp_path / "learner.npz")
    assert conrl.load_learner(tmp_path / "learner.npz", peek=mdp).episodes == 2


def test_every_seed_of_a_run_trains_another_network() -> None:
    """Also inside a planner: the seeds of a study are independent."""
    mdp = conrl.envs.mars_rover(rock_reward=1.0)

    def played(seed: int, own: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        planner = conrl.Lagrangian(iterations=2, oracle=conrl.A2C(reset="warm-start", seed=own), keep_multipliers=True)
        learner = conrl.ConRL(mdp.task, planner=planner)
        conrl.learn(mdp, learner, 2, seed)
        return learner.state()["start_oracle_weights"], learner.propose().probabilities

    first, again, other = played(3), played(3), played(4)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.isclose(first[0], other[0]).mean() > 0.5
    assert np.array_equal(played(3, own=3)[0], first[0])  # a seed of its own stays, whatever the run's
    assert not np.array_equal(played(3, own=5)[0], first[0])


def test_no_two_streams_of_randomness_share_a_draw() -> None:
    drawn = [
        randomness(seed, k, whose).random() for seed in range(4) for k in range(6) for whose in (WORLD, DRAW, TRAIN)
    ]
    assert len(set(drawn)) == len(drawn)

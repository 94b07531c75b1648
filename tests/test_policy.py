"""Markov, deterministic and mixed policies: conversion, files, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bank import CASES, random_model, still, value_of
from numpy.typing import NDArray

import conrl

Float = NDArray[np.float64]


def some_policy(mdp: conrl.ConstrainedMDP, seed: int) -> conrl.Policy:
    rng = np.random.default_rng(seed)
    table = rng.random((mdp.horizon, mdp.num_states, mdp.num_actions)) * mdp.available
    return conrl.Policy(table / table.sum(axis=2, keepdims=True))


def some_actions(mdp: conrl.ConstrainedMDP, seed: int) -> conrl.Deterministic:
    rng = np.random.default_rng(seed)
    scores = np.where(mdp.available, rng.random((mdp.horizon, mdp.num_states, mdp.num_actions)), -1.0)
    return conrl.Deterministic(scores.argmax(axis=2), mdp.num_actions)


@pytest.fixture(scope="module")
def mdp() -> conrl.ConstrainedMDP:
    mask = np.random.default_rng(3).random((10, 4)) < 0.6
    mask[:, 1] = True
    return random_model(3, 10, 4, 6, 2, available=mask)


# -- kinds ----------------------------------------------------------------------------------------------------


def test_a_deterministic_policy_is_a_markov_policy(mdp: conrl.ConstrainedMDP) -> None:
    policy = some_actions(mdp, 1)
    assert policy.shape == (6, 10, 4)
    assert policy.probabilities.shape == (6, 10, 4)
    assert np.array_equal(policy.probabilities.argmax(axis=2), policy.actions)
    assert (policy.probabilities.sum(axis=2) == 1.0).all()
    one, two = conrl.evaluate(mdp, policy), conrl.evaluate(mdp, conrl.Policy(policy.probabilities))
    assert one.reward == pytest.approx(two.reward, abs=1e-13)
    assert one.costs == pytest.approx(two.costs, abs=1e-13)


def test_policies_are_frozen_copies(mdp: conrl.ConstrainedMDP) -> None:
    table = some_policy(mdp, 1).probabilities.copy()
    policy = conrl.Policy(table)
    before = policy.probabilities[0, 0, 1]
    table[0, 0] = 0.0
    assert policy.probabilities[0, 0, 1] == before
    with pytest.raises(ValueError, match="read-only"):
        policy.probabilities[0, 0, 0] = 1.0
    actions = np.zeros((6, 10), dtype=np.int64)
    fixed = conrl.Deterministic(actions, 4)
    actions[:] = 3
    assert (fixed.actions == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        fixed.actions[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        fixed.probabilities[0, 0, 0] = 0.5


def test_acting_follows_the_probabilities() -> None:
    policy = conrl.Policy([[[0.2, 0.0, 0.8]]])
    rng = np.random.default_rng(0)
    n = 5000
    share = np.bincount([policy.act(0, 0, rng) for _ in range(n)], minlength=3) / n
    assert share[1] == 0.0
    assert abs(share[0] - 0.2) <= 5.0 * np.sqrt(0.2 * 0.8 / n)
    fixed = conrl.Deterministic([[2, 1]], 3)
    assert [fixed.act(0, s, rng) for s in (0, 1)] == [2, 1]


def test_occupation_is_a_distribution_at_each_step(mdp: conrl.ConstrainedMDP) -> None:
    for policy in (some_policy(mdp, 2), some_actions(mdp, 2)):
        rho = policy.occupation(mdp)
        assert rho.shape == (6, 10, 4)
        assert rho.min() >= 0.0
        assert np.abs(rho.sum(axis=(1, 2)) - 1.0).max() <= 1e-13
        assert not rho[:, ~mdp.available].any()


# -- mixtures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_markov_form_of_a_mixture_has_its_value(mdp: conrl.ConstrainedMDP, seed: int) -> None:
    parts = [some_policy(mdp, seed), some_actions(mdp, seed + 10), some_actions(mdp, seed + 20)]
    weights = np.array([0.5, 0.3, 0.2])
    mixture = conrl.Mixture(weights, parts)
    markov = mixture.to_markov(mdp)
    truth = sum(w * value_of(mdp, p.probabilities) for w, p in zip(weights, parts, strict=True))
    assert np.abs(value_of(mdp, markov.probabilities) - truth).max() <= 1e-12
    whole = conrl.evaluate(mdp, mixture)
    assert np.abs(np.append(whole.reward, whole.costs) - truth).max() <= 1e-12
    rho = sum(w * p.occupation(mdp) for w, p in zip(weights, parts, strict=True))
    assert np.abs(markov.occupation(mdp) - rho).max() <= 1e-13


def test_averaging_probabilities_would_be_wrong() -> None:
    """Half always left, half always right is not a coin toss at every step."""
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = P[1, :, 1] = P[2, :, 2] = 1.0
    mdp = conrl.ConstrainedMDP(P, [[0, 0], [1, 0], [0, 1]], None, 2)
    left, right = conrl.Deterministic(np.zeros((2, 3), int), 2), conrl.Deterministic(np.ones((2, 3), int), 2)
    mixture = conrl.Mixture([0.5, 0.5], [left, right])
    assert conrl.evaluate(mdp, mixture).reward == 1.0
    assert conrl.evaluate(mdp, mixture.to_markov(mdp)).reward == 1.0
    coin = conrl.Policy(0.5 * left.probabilities + 0.5 * right.probabilities)
    assert conrl.evaluate(mdp, coin).reward == 0.5


def test_unvisited_states_follow_the_heaviest_part() -> None:
    mdp = CASES["unreachable states"].mdp
    light, heavy = (conrl.Deterministic(np.full((11, 3), a), 2) for a in (0, 1))
    markov = conrl.Mixture([0.3, 0.7], [light, heavy]).to_markov(mdp)
    assert (markov.probabilities[:, 2, 1] == 1.0).all()
    assert markov.probabilities[1, 1] == pytest.approx([0.3, 0.7])


def test_a_mixture_of_one_is_that_policy(mdp: conrl.ConstrainedMDP) -> None:
    part = some_actions(mdp, 4)
    assert conrl.Mixture([1.0], [part]).to_markov(mdp) is part


def test_a_mixture_draws_components_by_weight(mdp: conrl.ConstrainedMDP) -> None:
    parts = [some_actions(mdp, s) for s in range(3)]
    mixture = conrl.Mixture([0.1, 0.0, 0.9], parts)
    rng = np.random.default_rng(1)
    drawn = [parts.index(mixture.draw(rng)) for _ in range(4000)]  # type: ignore[arg-type]
    share = np.bincount(drawn, minlength=3) / 4000
    assert share[1] == 0.0
    assert abs(share[0] - 0.1) <= 5.0 * np.sqrt(0.09 / 4000)


# -- refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0.5, 0.5]], r"policy has shape \(1, 2\); expected \(H, S, A\)"),
        ([[[0.5, 0.4]]], "policy at step 0, state 0 is"),
        ([[[1.0, 0.0], [1.5, -0.5]]], "policy at step 0, state 1 is"),
        ([[[float("nan"), 1.0]]], "policy at step 0, state 0 is"),
    ],
)
def test_bad_probabilities_are_refused(table: list[object], message: str) -> None:
    with pytest.raises(conrl.ModelError, match=message):
        conrl.Policy(table)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 1], r"actions has shape \(2,\)"),
        ([[0.0, 1.0]], "expected whole numbers"),
        ([[0, 2]], r"actions must be in 0\.\.1"),
        ([[-1, 0]], r"actions must be in 0\.\.1"),
    ],
)
def test_bad_actions_are_refused(actions: list[object], message: str) -> None:
    with pytest.raises(conrl.ModelError, match=message):
        conrl.Deterministic(actions, 2)  # type: ignore[arg-type]


def test_bad_mixtures_are_refused() -> None:
    one, other = conrl.Deterministic([[0]], 2), conrl.Deterministic([[0], [0]], 2)
    with pytest.raises(conrl.ModelError, match="2 weights for 1 policies"):
        conrl.Mixture([0.5, 0.5], [one])
    with pytest.raises(conrl.ModelError, match="0 weights for 0 policies"):
        conrl.Mixture([], [])
    for weights in ([0.5, 0.6], [1.5, -0.5], [float("nan"), 1.0]):
        with pytest.raises(conrl.ModelError, match="must be at least 0 and sum to 1"):
            conrl.Mixture(weights, [one, one])
    with pytest.raises(conrl.ModelError, match="must have one shape"):
        conrl.Mixture([0.5, 0.5], [one, other])


def test_policies_of_another_shape_or_missing_actions_are_refused() -> None:
    mdp = conrl.ConstrainedMDP(
        np.ones((1, 2, 1)),
        [[0.0, 1.0]],
        None,
        2,
        available=[[1, 0]],
        state_names=["home"],
        action_names=["stay", "fly"],
    )
    with pytest.raises(conrl.ModelError, match=r"policy has shape \(1, 1, 2\); the model has 2 steps"):
        conrl.evaluate(mdp, conrl.Deterministic([[0]], 2))
    flying = conrl.Deterministic([[0], [1]], 2)
    for policy in (flying, conrl.Policy(flying.probabilities)):
        with pytest.raises(conrl.ModelError, match="plays action 'fly' in state 'home' at step 1"):
            conrl.evaluate(mdp, policy)
        with pytest.raises(conrl.ModelError, match="does not exist there"):
            conrl.simulate(mdp, policy)


# -- files ----------------------------------------------------------------------------------------------------


def test_npz_round_trips(mdp: conrl.ConstrainedMDP, tmp_path: Path) -> None:
    markov, fixed = some_policy(mdp, 5), some_actions(mdp, 5)
    markov.save(tmp_path / "markov.npz")
    fixed.save(tmp_path / "fixed.npz")
    again = conrl.load_policy(tmp_path / "markov.npz")
    assert again.probabilities.tobytes() == markov.probabilities.tobytes()
    other = conrl.load_policy(str(tmp_path / "fixed.npz"))
    assert isinstance(other, conrl.Deterministic)
    assert np.array_equal(other.actions, fixed.actions)
    assert other.shape == fixed.shape


def test_csv_names_states_and_actions(tmp_path: Path) -> None:
    mdp = conrl.ConstrainedMDP(
        np.full((2, 2, 2), 0.5), np.zeros((2, 2)), None, 1, state_names=["a, b", "c"], action_names=["x", "y"]
    )
    policy = conrl.Policy([[[1 / 3, 2 / 3], [0.0, 1.0]]])
    policy.save(tmp_path / "p.csv", mdp)
    text = (tmp_path / "p.csv").read_text().splitlines()
    assert text == [
        "step,state,action,probability",
        f'0,"a, b",x,{1 / 3!r}',
        f'0,"a, b",y,{2 / 3!r}',
        "0,c,y,1.0",
    ]
    policy.save(tmp_path / "plain.csv")
    assert (tmp_path / "plain.csv").read_text().splitlines()[1] == f"0,0,0,{1 / 3!r}"


def test_bad_files_are_refused(mdp: conrl.ConstrainedMDP, tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"a policy is written as \.npz or \.csv"):
        some_policy(mdp, 6).save(tmp_path / "policy.txt")
    with pytest.raises(conrl.ModelError, match="no such file"):
        conrl.load_policy(tmp_path / "nowhere.npz")
    (tmp_path / "noise.npz").write_bytes(b"not a zip file")
    with pytest.raises(conrl.ModelError, match="not a policy file"):
        conrl.load_policy(tmp_path / "noise.npz")
    (tmp_path / "empty.npz").write_bytes(b"")
    with pytest.raises(conrl.ModelError, match="not a policy file"):
        conrl.load_policy(tmp_path / "empty.npz")
    np.savez(tmp_path / "other.npz", weights=np.ones(3))
    with pytest.raises(conrl.ModelError, match="not a policy file"):
        conrl.load_policy(tmp_path / "other.npz")
    np.savez(tmp_path / "objects.npz", probabilities=np.array([{}], dtype=object))
    with pytest.raises(conrl.ModelError, match="not a policy file"):
        conrl.load_policy(tmp_path / "objects.npz")


def test_a_truncated_file_is_refused(mdp: conrl.ConstrainedMDP, tmp_path: Path) -> None:
    some_policy(mdp, 7).save(tmp_path / "p.npz")
    whole = (tmp_path / "p.npz").read_bytes()
    (tmp_path / "p.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(conrl.ModelError, match="not a policy file"):
        conrl.load_policy(tmp_path / "p.npz")


def test_reprs_say_what_it_is() -> None:
    assert repr(conrl.Deterministic([[0]], 2)) == "Deterministic(steps=1, states=1, actions=2)"
    assert repr(conrl.Policy([[[1.0]]])) == "Policy(steps=1, states=1, actions=1)"
    plan = conrl.plan(still([0.0, 1.0], [0.0, 2.0], 1), conrl.Linear([0.5]))
    assert "policies=2" in repr(plan.mixture)


def test_a_stationary_policy_does_the_same_at_every_step() -> None:
    for policy in (conrl.Stationary([[0.2, 0.8], [1.0, 0.0]]), conrl.Stationary.of_actions([1, 0], 2)):
        assert policy.step_probabilities(0).tolist() == policy.step_probabilities(7).tolist()
        assert policy.step_probabilities(3).shape == (2, 2)
        assert policy._row(5, 1).tolist() == [1.0, 0.0]
        with pytest.raises(conrl.ModelError, match="steps count from 0"):
            policy.step_probabilities(-1)

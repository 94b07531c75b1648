"""Learning under limits on single episodes: the tally of outcomes, policies that act on what was spent, the guard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_single_episodes import machine

import conrl
from conrl.episode import Episode
from conrl.estimation.counts import Counts
from conrl.estimation.tally import Tally


def shop() -> conrl.ConstrainedMDP:
    return conrl.envs.pricing(horizon=6)


def test_the_tally_has_the_outcomes_that_were_seen() -> None:
    mdp = machine(4, 5)
    counts = Counts(mdp.task)
    counts.tally = Tally([0])
    states, actions = np.array([1, 0, 0, 1, 0, 0]), np.array([1, 0, 1, 1, 1])
    pay = np.array([[0.0, 1.0, 0.3], [0.5, 0, 0.1], [1.0, 0, 0.2], [0.0, 1.0, 0.3], [1.0, 0, 0.2]])
    counts.add(Episode(states, actions, pay[:, 0], pay[:, 1:]))
    model = counts.by_outcome(counts.model())
    means = counts.model()
    np.testing.assert_array_equal(model.pay, means.pay)
    assert model.outcome_pay is not None
    seen = np.bincount(np.repeat(np.arange(model.num_pairs), np.diff(model.graph.start)), model.graph.probability)
    np.testing.assert_allclose(seen, 1.0)
    np.testing.assert_allclose(model.transitions.toarray(), means.transitions.toarray())
    place = {int(s): i for i, s in enumerate(counts.order)}
    pair = model.pair_index[place[1], 1]  # failed twice of two: one outcome, one repair
    assert model.graph.start[pair + 1] - model.graph.start[pair] == 1
    assert model.outcome_pay[model.graph.start[pair], 1] == 1.0


@pytest.mark.parametrize(
    "problem",
    [
        conrl.Linear({"stock": 3.0}, chance={"stock": (2, 0.3)}),
        conrl.Linear(cvar={"stock": (0.5, 3)}),
        conrl.Linear(never={"stock": 3}, chance={"stock": (2, 0.4)}),
    ],
)
def test_a_learner_keeps_its_books_and_resumes_exactly(problem: conrl.Linear, tmp_path: Path) -> None:
    """START, as the first regime is drawn; policies of the places become policies of the task that count."""
    mdp = shop()
    learner = conrl.ConRL(mdp.task, problem=problem, seed=3)
    conrl.learn(mdp, learner, 12, seed=1)
    assert isinstance(learner.propose(), conrl.SpentPolicy)
    learner.save(tmp_path / "learner.npz")
    again = conrl.load_learner(tmp_path / "learner.npz")
    here, there = conrl.learn(mdp, learner, 6, seed=1), conrl.learn(mdp, again, 6, seed=1)
    np.testing.assert_array_equal(here.rewards, there.rewards)
    np.testing.assert_array_equal(here.costs, there.costs)
    np.testing.assert_array_equal(
        conrl.evaluate(mdp, learner.average_policy).value, conrl.evaluate(mdp, again.average_policy).value
    )
    if problem.never is not None:
        assert here.costs.max() <= 3.0


def test_a_learner_comes_near_the_plan() -> None:
    mdp = shop()
    problem = conrl.Linear(chance={"stock": (2, 0.3)})
    learner = conrl.ConRL(mdp.task, problem=problem, seed=0)
    conrl.learn(mdp, learner, 400, seed=0)
    best, learned = conrl.plan(mdp, problem), learner.policy
    assert conrl.evaluate(mdp, learned).reward > 0.9 * best.reward
    assert conrl.distribution(mdp, learned, "stock").exceed(2) < 0.4
    free = conrl.plan(mdp, [np.inf])
    assert conrl.distribution(mdp, free, "stock").exceed(2) > 0.6


def test_never_holds_in_every_episode_from_the_first() -> None:
    mdp = shop()
    learner = conrl.ConRL(mdp.task, problem=conrl.Linear(never={"stock": 2}), seed=0)
    history = conrl.learn(mdp, learner, 40, seed=0)
    assert history.costs.max() == 2.0
    assert not learner.may_step([2.0])
    assert learner.may_step([1.0])
    with pytest.raises(conrl.SpecError, match="can_stop"):
        conrl.ConRL(machine(4, 4).task, problem=conrl.Linear(never={"repairs": 1}))


def test_a_task_that_depends_on_the_step() -> None:
    stationary = machine(4, 5)
    rng = np.random.default_rng(0)
    H, S, A = 5, 3, 2
    mdp = conrl.ConstrainedMDP(
        rng.dirichlet(np.ones(S), (H, S, A)), rng.random((H, S, A)), rng.integers(0, 2, (H, S, A, 1)).astype(float)
    )
    problem = conrl.Linear(chance={"cost": (2, 0.3)})
    learner = conrl.ConRL(mdp.task, problem=problem, seed=0)
    history = conrl.learn(mdp, learner, 60, seed=0)
    assert len(history) == 60
    assert conrl.evaluate(mdp, learner.policy).reward > 0.7 * conrl.plan(mdp, problem).reward
    assert stationary.horizon == 5


def test_what_was_not_kept_cannot_be_limited_later() -> None:
    mdp = shop()
    learner = conrl.ConRL(mdp.task, seed=0)
    learner.problem = conrl.Linear(chance={"stock": (2, 0.3)})  # nothing was seen yet
    conrl.learn(mdp, learner, 3, seed=0)
    learner.problem = conrl.Linear(chance={"stock": (1, 0.3)})
    assert learner.problem.chance == {"stock": (1, 0.3)}
    other = conrl.ConRL(mdp.task, seed=0)
    conrl.learn(mdp, other, 3, seed=0)
    with pytest.raises(conrl.SpecError, match="not kept so far"):
        other.problem = conrl.Linear(chance={"stock": (2, 0.3)})
    for kind in (conrl.UCBVI, conrl.OptCMDP, conrl.OptPrimalDual, conrl.PosteriorSampling):
        with pytest.raises(conrl.SpecError, match="learned by ConRL"):
            kind(mdp.task, problem=conrl.Linear(chance={"stock": (2, 0.3)}))


def test_a_damaged_tally_is_refused() -> None:
    mdp = shop()
    learner = conrl.ConRL(mdp.task, problem=conrl.Linear(chance={"stock": (2, 0.3)}), seed=0)
    conrl.learn(mdp, learner, 5, seed=0)
    state = learner.state()
    for name, change in (
        ("tally_times", state["tally_times"] + 1),
        ("tally_state", state["tally_state"] * 0 - 1),
        ("tally_successor", state["tally_successor"] + 1000),
        ("tally_costs", state["tally_costs"] * np.nan),
        ("tally_action", state["tally_action"].astype(np.int32)),
    ):
        fresh = conrl.ConRL(mdp.task, problem=learner.problem, seed=0)
        with pytest.raises(conrl.ConRLError):
            fresh.load_state(state | {name: change})


def test_in_a_gymnasium_environment() -> None:
    import gymnasium

    env = gymnasium.make("conrl/Pricing-v0", horizon=6)
    task = conrl.Task.from_gymnasium(env, horizon=6, cost_ranges=[(0.0, 1.0)], can_stop=True)
    learner = conrl.ConRL(task, problem=conrl.Linear(never={"stock": 3}, chance={"stock": (2, 0.3)}), seed=0)
    history = conrl.learn(env, learner, 10, seed=0)
    assert history.costs.max() <= 3.0

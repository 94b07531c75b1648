"""The default bonus: noise, ranges, exploring episodes; what is executed, and planning by doubling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank import deviations
from hypothesis import given, settings
from hypothesis import strategies as st

import conrl
from conrl.estimation.adaptive import is_cube
from conrl.estimation.counts import Counts

ANY: Any = conrl


def coins(seed: int = 0, states: int = 4, actions: int = 2, costs: int = 1) -> conrl.ConstrainedMDP:
    """A random model whose pay is drawn by coins."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(states), (states, actions))
    return conrl.ConstrainedMDP(
        P,
        rng.random((states, actions)),
        rng.random((states, actions, costs)),
        horizon=4,
        limits=[1.2] * costs,
        reward_range=(0, 1),
        cost_ranges=[(0, 1)] * costs,
    )


def binding(mdp: conrl.ConstrainedMDP) -> conrl.ConstrainedMDP:
    """The model with limits half-way from the least of each cost to that of the best policy without limits."""
    none = [np.inf] * mdp.num_costs
    return mdp.replace(limits=(conrl.feasibility(mdp, none).least + conrl.plan(mdp, none).costs) / 2.0)


def seen(mdp: conrl.ConstrainedMDP, episodes: int, pay: str = "outcome") -> conrl.ConRL:
    learner = conrl.ConRL(mdp.task, seed=3)
    conrl.learn(mdp, learner, episodes, seed=3, pay=pay)
    return learner


# -- noise ----------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), price=st.floats(0.0, 5.0))
def test_noise_is_shrunk_to_the_largest(seed: int, price: float) -> None:
    """Against the formula of docs/mathematics.md, by plain loops over the pairs."""
    learner = seen(coins(seed), 15, "bernoulli")
    evidence = conrl.Evidence(learner.counts, 16, np.array([price]))
    w = np.array([1.0, -price])
    moments, degrees = deviations(learner.counts)
    squares = np.array([w @ m @ w for m in moments])
    pooled = squares.sum() / max(degrees.sum(), 1)
    largest = max((q + 2.0 * pooled) / (n + 2.0) for q, n in zip(squares, degrees, strict=True))
    expected = [np.sqrt((q + 2.0 * largest) / (n + 2.0)) for q, n in zip(squares, degrees, strict=True)]
    assert np.array_equal(evidence.direction, w)
    assert evidence.noise() == pytest.approx(np.array(expected), rel=1e-9, abs=1e-12)


def test_pay_that_follows_from_the_successor_has_no_noise() -> None:
    """Whatever the transitions do: then the bonus of visited pairs is that of fixed constants."""
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    learner = seen(mdp, 30)
    evidence = conrl.Evidence(learner.counts, 31, np.array([0.7]))
    assert evidence.noise().max() <= 1e-12
    fixed = conrl.ScaledBonus()(evidence.visits, 31, evidence.task)
    assert mdp.horizon == 30
    assert conrl.AdaptiveBonus()(evidence) == pytest.approx(fixed, abs=1e-12)


def test_noise_approaches_the_truth() -> None:
    """With many visits it is the deviation of the coins: r - price c of independent coins."""
    mdp = coins(1, states=1, actions=1)
    learner = conrl.ConRL(mdp.task, keep_policies=False)
    conrl.learn(mdp, learner, 3000, seed=1, pay="bernoulli")
    r, c = float(mdp.rewards[0, 0]), float(mdp.costs[0, 0, 0])
    truth = np.sqrt(r * (1 - r) + 4.0 * c * (1 - c))
    assert conrl.Evidence(learner.counts, 1, np.array([2.0])).noise()[0] == pytest.approx(truth, rel=0.03)


# -- what is told and what is hoped ---------------------------------------------------------------------------


def test_a_bonus_of_one_argument_is_told_the_evidence() -> None:
    told: list[conrl.Evidence] = []

    def bonus(evidence: conrl.Evidence) -> Any:
        told.append(evidence)
        return np.zeros(evidence.visits.size)

    mdp = coins(2)
    learner = conrl.ConRL(mdp.task, bonus=bonus)
    h = conrl.learn(mdp, learner, 5, seed=0)
    assert [e.episode for e in told] == [1, 2, 3, 4, 5]
    assert told[0].prices is None
    assert h.prices is not None
    assert told[4].prices is not None
    assert np.array_equal(told[4].prices, h.prices[3])
    assert told[4].values(told[4].model.pay[:, 0]).shape == (4, told[4].visits.size)
    number, once = told[4].successors()
    assert (once <= number).all()


@pytest.mark.parametrize("k", range(1, 130))
def test_cubes(k: int) -> None:
    assert is_cube(k) == (k in (8, 27, 64, 125))


def test_exploring_episodes_hope_for_the_ends_of_the_ranges_and_no_more() -> None:
    learner = seen(coins(4), 7, "bernoulli")
    low, high = learner.task.ranges.T
    evidence = conrl.Evidence(learner.counts, 8, np.array([1.0]))
    b, pay, visits = conrl.AdaptiveBonus()(evidence), evidence.model.pay, evidence.visits
    was = visits > 0
    assert (pay[was, 0] + b[was, 0] <= high[0] + 1e-12).all()
    assert (pay[was, 1] - b[was, 1] >= low[1] - 1e-12).all()
    assert (b[was] <= 1.0 / np.sqrt(visits[was])[:, None] + 1e-12).all()
    calm = conrl.AdaptiveBonus(explore=False)(evidence)
    assert (calm[was, 1] < 0.0).all()
    assert not np.array_equal(calm, b)


@pytest.mark.parametrize("bounded", [True, False])
def test_a_pair_never_visited_earns_no_budget_back(bounded: bool) -> None:
    """Ten steps that cost 1 each, under a limit of 4: with a hoped-for cost of -1 six of them would be allowed."""
    mdp = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], [[[1.0], [0.0]]], horizon=10, limits=[4.0])
    learner = conrl.ConRL(mdp.task, bonus=conrl.ScaledBonus(0.0, 0.0, bounded=bounded), seed=0)
    learner.prime([conrl.Episode([0] * 11, [0] * 10, [1.0] * 10, [[1.0]] * 10)])
    used = float(conrl.evaluate(mdp, learner.propose()).costs[0])
    assert (used <= 4.0 + 1e-9) == bounded


def test_exploring_hopes_for_more_of_what_has_a_floor() -> None:
    """Seven episodes; of a cost of 0 to 1 that shall be at least 4, action 1 has all there is and action 0 none."""
    task = conrl.Task(1, 2, 4, [np.inf], ["c"], initial=0, cost_ranges=((0.0, 1.0),), reward_range=(0.0, 1.0))
    learner = conrl.ConRL(task, problem=conrl.Linear(None, [4.0]), seed=0)
    learner.prime([conrl.Episode([0] * 5, [0, 1, 0, 1], [1.0, 0, 1, 0], [[0.0], [1.0], [0.0], [1.0]])] * 7)
    model = learner._model(learner._believed(1))
    assert model.bonus is not None
    assert model.bonus[:, 1].tolist() == pytest.approx([1.0 / np.sqrt(14.0), 0.0])
    counts, both = learner.counts, conrl.AdaptiveBonus()
    assert both(conrl.Evidence(counts, 8, better=[1, 0]))[:, 1].tolist() == [0.0, 0.0]
    assert both(conrl.Evidence(counts, 8))[:, 1].tolist() == pytest.approx([0.0, 1.0 / np.sqrt(14.0)])


def test_exploring_hopes_for_nothing_before_the_first_state() -> None:
    task = conrl.Task(2, 1, 3, [1.0], ["c"], cost_ranges=((-1.0, 1.0),))
    learner = conrl.ConRL(task, seed=0)
    learner.prime([conrl.Episode([s, s, s, s], [0, 0, 0], [0.5] * 3, [[0.0]] * 3) for s in (0, 1)])
    b = conrl.AdaptiveBonus()(conrl.Evidence(learner.counts, 27))
    assert b[0].tolist() == [0.0, 0.0]
    assert (b[1:] > 0.0).all()


def test_what_is_not_hoped_for_is_within_the_ranges_too() -> None:
    task = conrl.Task(1, 2, 4, [9.0], ["c"], initial=0, cost_ranges=((2.0, 3.0),))
    learner = conrl.ConRL(task, bonus=conrl.ScaledBonus(0.0, 0.0, unvisited=0.0), seed=0)
    learner.prime([conrl.Episode([0] * 5, [0] * 4, [1.0] * 4, [[3.0]] * 4)])
    model = learner._model(learner._believed(1))
    assert model.pay[:, 1].tolist() == [3.0, 2.0]


@pytest.mark.parametrize("bonus", [None, conrl.ScaledBonus()])
def test_caution_gives_way_where_a_limit_leaves_no_room(bonus: Any) -> None:
    """No crash at all: with caution every visited pair costs a little, and nothing would keep a limit of 0."""
    grid = conrl.envs.gridworld("S 0 0 P\n0 W 0 0\n0 0 0 G", horizon=12, slip=0.0, limits=[0.0])
    h = conrl.learn(grid, conrl.ConRL(grid.task, bonus=bonus, keep_policies=False), 250, seed=0)
    assert h.final[0] == pytest.approx(conrl.plan(grid).reward)
    assert h.infeasible.sum() == 0


@pytest.mark.parametrize("problem", [None, conrl.Knapsack([4.0], 10)])
def test_blocks_need_a_plan_that_stays(problem: Any) -> None:
    """Else they would be of another policy than is proposed, and of what a budget does not allow."""
    mdp = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], [[[1.0], [0.0]]], horizon=2, limits=[1.0])
    learner = conrl.ConRL(mdp.task, problem=problem, seed=0)
    for ask in (
        lambda: learner.observe_block([[0, 0, 0]], [[0, 0]], [[[1.0, 1.0], [1.0, 1.0]]]),
        lambda: learner.draws(3),
        lambda: learner.waits,
    ):
        with pytest.raises(conrl.SpecError, match="make it with replan='doubling'"):
            ask()
    assert learner.episodes == 0


def test_the_guard_is_for_budgets() -> None:
    with pytest.raises(conrl.SpecError, match="guard is for Knapsack problems"):
        conrl.ConRL(coins().task, guard=False)


def test_what_is_said_when_a_learner_is_loaded_counts(tmp_path: Path) -> None:
    mdp = coins()
    conrl.ConRL(mdp.task, play="mixture", seed=0).save(tmp_path / "a.npz")
    assert conrl.load_learner(tmp_path / "a.npz").config() == conrl.ConRL(mdp.task, play="mixture", seed=0).config()
    changed = conrl.load_learner(tmp_path / "a.npz", play="markov", replan="doubling")
    assert (changed.play, changed.replan) == ("markov", "doubling")


# -- what is executed -----------------------------------------------------------------------------------------


def test_the_markov_form_keeps_what_components_exceed() -> None:
    """One state, one step: the plan mixes costs of 0 and 1 to keep 0.3, and each episode's own value keeps it."""
    mdp = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[0.0], [1.0]]], horizon=1, limits=[0.3])
    excess = {}
    for play in ("markov", "mixture"):
        learner = conrl.ConRL(mdp.task, play=play, bonus=conrl.ScaledBonus(0.0, 0.0), seed=1)
        h = conrl.learn(mdp, learner, 40, seed=1)
        assert h.strong_violation is not None
        excess[play] = float(h.strong_violation[-1, 0] - h.strong_violation[3, 0])
    assert excess["markov"] <= 1e-9
    assert excess["mixture"] > 1.0


@pytest.mark.parametrize("play", ["markov", "mixture"])
@pytest.mark.parametrize("replan", ["episode", "doubling"])
@pytest.mark.parametrize("cut", [1, 8, 21])
def test_saved_and_loaded_it_goes_on_to_the_bit(play: str, replan: str, cut: int, tmp_path: Path) -> None:
    mdp = binding(coins(5, 5, 3, 2))
    whole = conrl.ConRL(mdp.task, play=play, replan=replan, seed=9)
    h = conrl.learn(mdp, whole, 40, seed=9)
    part = conrl.ConRL(mdp.task, play=play, replan=replan, seed=9)
    conrl.learn(mdp, part, cut, seed=9)
    _ = part.proposal  # asked for and not played: it is made again, or kept
    part.save(tmp_path / "learner.npz")
    other = conrl.load_learner(tmp_path / "learner.npz")
    assert (other.play, other.replan) == (play, replan)
    rest = conrl.learn(mdp, other, 40 - cut, seed=9)
    assert np.array_equal(rest.rewards, h.rewards[cut:])
    assert h.expected_costs is not None
    assert rest.expected_costs is not None
    assert np.array_equal(rest.expected_costs, h.expected_costs[cut:])
    assert np.array_equal(ANY.evaluate(mdp, other.average_policy).costs, ANY.evaluate(mdp, whole.average_policy).costs)
    assert other.config() == whole.config()


def test_configurations_without_the_words_mean_what_they_did(tmp_path: Path) -> None:
    """A file of 0.1 has neither play nor replan nor bounded."""
    mdp = coins(6)
    old = conrl.ConRL(mdp.task, play="mixture", bonus=conrl.ScaledBonus(bounded=False), seed=2)
    config = old.config()
    assert not {"play", "replan"} & config.keys()
    assert "bounded" not in config["bonus"]
    old.save(tmp_path / "old.npz")
    again = conrl.load_learner(tmp_path / "old.npz")
    assert (again.play, again.replan, again.bonus.bounded) == ("mixture", "episode", False)
    new = conrl.ConRL(mdp.task).config()
    assert new["play"] == "markov"
    assert new["bonus"]["kind"] == "AdaptiveBonus"


def test_doubling_plans_seldom_and_learns_the_same() -> None:
    mdp = binding(coins(7))
    plans = []

    class Spy(conrl.ColumnGeneration):
        def plan(self, *given: Any, **more: Any) -> Any:
            plans.append(1)
            return super().plan(*given, **more)

    bonus = conrl.AdaptiveBonus(explore=False)
    learner = conrl.ConRL(mdp.task, planner=Spy(), bonus=bonus, replan="doubling", keep_policies=False)
    h = conrl.learn(mdp, learner, 1500, seed=0)
    assert len(plans) <= 8 * (np.log2(4 * 1500) + 1)
    assert h.optimum is not None
    assert h.final[0] == pytest.approx(h.optimum.reward, rel=0.05)


@pytest.mark.parametrize(
    "problem", [conrl.Knapsack([5.0], 5), conrl.Linear([1.0], chance={"cost": (1.0, 0.5)})], ids=["budget", "chance"]
)
def test_doubling_is_not_for_budgets_and_single_episodes(problem: Any) -> None:
    with pytest.raises(conrl.SpecError, match="planned for each episode"):
        conrl.ConRL(coins(8).task, problem=problem, replan="doubling")


def test_few_places_that_mix_take_little_room() -> None:
    """What was executed is stored by where it mixes, and is the same policy when it is read back."""
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    learner = seen(mdp, 60)
    state = learner.state()
    assert "policy_tables" not in state
    assert state["policy_rows"].shape[0] < 60 * 40
    again = conrl.ConRL(mdp.task, seed=3)
    again.load_state(state)
    one, two = learner.average_policy, again.average_policy
    assert all(
        np.array_equal(p.probabilities, q.probabilities) for p, q in zip(one.policies, two.policies, strict=True)
    )


def test_counts_are_what_evidence_is_made_of() -> None:
    with pytest.raises(conrl.SpecError, match=r"learner\.counts"):
        conrl.Evidence(ANY.Task(1, 1, 1, [1.0], ["c"]), 1)
    with pytest.raises(conrl.SpecError, match="one for each cost"):
        conrl.Evidence(Counts(coins(0).task), 1, np.zeros(3))


# -- bonuses of users -----------------------------------------------------------------------------------------


def test_how_a_bonus_is_told_what() -> None:
    mdp = coins()
    task = mdp.task

    def scaled(evidence: conrl.Evidence, scale: float = 0.1, power: float = 0.5) -> Any:
        return scale / np.maximum(evidence.visits, 1) ** power

    assert conrl.learn(mdp, conrl.ConRL(mdp.task, bonus=scaled), 3).executed is not None
    assert conrl.learn(mdp, conrl.ConRL(mdp.task, bonus=lambda *told: 0.0 * told[0]), 3).executed is not None
    with pytest.raises(conrl.SpecError, match="takes one argument, the Evidence, or three"):
        ANY.ConRL(task, bonus=lambda visits, episode: visits)
    with pytest.raises(conrl.SpecError, match=r"bonus is the class AdaptiveBonus; make one: AdaptiveBonus\(\)"):
        conrl.ConRL(task, bonus=ANY.AdaptiveBonus)
    with pytest.raises(conrl.SpecError, match="the bonus failed: unsupported operand") as failed:
        conrl.ConRL(task, bonus=lambda evidence: evidence.prices * None).propose()
    assert isinstance(failed.value.__cause__, TypeError)
    with pytest.raises(conrl.SpecError, match=r"^cost has 2 scales for 1 costs"):
        conrl.ConRL(task, bonus=conrl.ScaledBonus(0.1, [0.1, 0.2])).propose()

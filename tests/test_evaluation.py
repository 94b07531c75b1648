"""`evaluate` against enumeration of every history; `simulate` against `evaluate`."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from bank import CASES, Case, dense, random_model, still
from numpy.typing import NDArray

import conrl
from conrl.envs import CMDPEnv

Float = NDArray[np.float64]


def some_policy(mdp: conrl.ConstrainedMDP, seed: int) -> conrl.Policy:
    rng = np.random.default_rng(seed)
    table = rng.random((mdp.horizon, mdp.num_states, mdp.num_actions)) * mdp.available
    return conrl.Policy(table / table.sum(axis=2, keepdims=True))


def by_enumeration(mdp: conrl.ConstrainedMDP, policy: conrl.Policy) -> Float:
    """[1+d]: the sum over all histories (s_0, a_0, s_1, a_1, ...) of probability x what it pays."""
    m = dense(mdp)
    total = np.zeros(m.pay.shape[2])
    S, A, H = mdp.num_states, mdp.num_actions, mdp.horizon
    for states in itertools.product(range(S), repeat=H):
        for actions in itertools.product(range(A), repeat=H):
            p, paid = m.initial[states[0]], np.zeros_like(total)
            for h in range(H):
                p *= policy.probabilities[h, states[h], actions[h]]
                paid += m.pay[states[h], actions[h]]
                if h + 1 < H:
                    p *= m.P[states[h], actions[h], states[h + 1]]
            total += p * paid
    return total


# -- exact ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("states", "actions", "horizon"), [(1, 2, 4), (2, 2, 4), (3, 2, 3), (4, 1, 4), (2, 3, 3)])
def test_evaluate_is_the_sum_over_histories(states: int, actions: int, horizon: int) -> None:
    mdp = random_model(states, states, actions, horizon, 2, successors=2)
    mdp = mdp.replace(initial=np.full(states, 1.0 / states))
    for seed in range(3):
        policy = some_policy(mdp, seed)
        found = conrl.evaluate(mdp, policy)
        assert np.abs(np.append(found.reward, found.costs) - by_enumeration(mdp, policy)).max() <= 1e-13


def test_evaluate_closed_forms() -> None:
    mdp = CASES["absorbing goal"].mdp  # risky 1/2 at cost 1, safe 1/4
    values = {}
    for first, second in itertools.product(range(2), repeat=2):
        found = conrl.evaluate(mdp, conrl.Deterministic([[first, 0], [second, 0]], 2))
        values[first, second] = (found.reward, found.costs[0])
    assert values == {
        (1, 1): pytest.approx((0.4375, 0.0)),
        (1, 0): pytest.approx((0.625, 0.75)),
        (0, 1): pytest.approx((0.625, 1.0)),
        (0, 0): pytest.approx((0.75, 1.5)),
    }


def test_evaluate_is_linear_in_the_weights_of_a_mixture() -> None:
    mdp = random_model(6, 7, 3, 5, 2)
    parts = [some_policy(mdp, s) for s in range(3)]
    weights = np.array([0.2, 0.5, 0.3])
    whole = conrl.evaluate(mdp, conrl.Mixture(weights, parts))
    alone = [conrl.evaluate(mdp, p) for p in parts]
    assert whole.reward == pytest.approx(weights @ np.array([v.reward for v in alone]), abs=1e-13)
    assert whole.costs == pytest.approx(weights @ np.array([v.costs for v in alone]), abs=1e-13)


def test_a_bonus_is_not_counted() -> None:
    mdp = random_model(6, 7, 3, 5, 2)
    policy = some_policy(mdp, 0)
    one, two = conrl.evaluate(mdp, policy), conrl.evaluate(mdp.with_bonus(np.ones((7, 3))), policy)
    assert one.reward == two.reward
    assert np.array_equal(one.costs, two.costs)


def test_no_costs() -> None:
    found = conrl.evaluate(still([2.0], [], 3), conrl.Deterministic([[0]] * 3, 1))
    assert found.reward == 6.0
    assert found.costs.shape == (0,)


# -- simulated ------------------------------------------------------------------------------------------------

SIMULATED = ["13 states, 2 resources", "17 states, 3 resources, some actions", "stock", "absorbing goal", "cycle"]


@pytest.mark.parametrize("case", [c for c in CASES.values() if c.name in SIMULATED], ids=lambda c: c.name)
def test_simulated_means_are_within_four_standard_errors(case: Case) -> None:
    plan = conrl.plan(case.mdp, case.problem)
    for policy in (plan.policy, plan.mixture):
        seen = conrl.simulate(case.mdp, policy, episodes=20_000, seed=5)
        assert seen.rewards.shape == (20_000,)
        assert seen.costs.shape == (20_000, case.mdp.num_costs)
        error = seen.standard_error
        assert abs(seen.mean.reward - plan.reward) <= 4.0 * error.reward + 1e-12
        assert (np.abs(seen.mean.costs - plan.costs) <= 4.0 * error.costs + 1e-12).all()


def test_the_same_seed_gives_the_same_episodes() -> None:
    mdp = CASES["13 states, 2 resources"].mdp
    policy = some_policy(mdp, 1)
    one, two, other = (conrl.simulate(mdp, policy, episodes=50, seed=s) for s in (3, 3, 4))
    assert one.rewards.tobytes() == two.rewards.tobytes()
    assert one.costs.tobytes() == two.costs.tobytes()
    assert one.rewards.tobytes() != other.rewards.tobytes()
    generator = np.random.default_rng(3)
    first = conrl.simulate(mdp, policy, episodes=50, seed=generator)
    assert first.rewards.tobytes() == one.rewards.tobytes()
    assert conrl.simulate(mdp, policy, episodes=50, seed=generator).rewards.tobytes() != one.rewards.tobytes()


def test_pay_by_outcome_is_paid_by_outcome() -> None:
    """A gamble of mean 1 pays 2 or 0 where it was given by outcome, 1 where it was given by pair."""
    P = np.full((2, 1, 2), 0.5)
    by_outcome = np.tile([0.0, 2.0], (2, 1, 1))
    gamble = conrl.ConstrainedMDP(P, by_outcome, None, 1)
    sure = conrl.ConstrainedMDP(P, np.ones((2, 1)), None, 1)
    policy = conrl.Deterministic([[0, 0]], 1)
    assert conrl.evaluate(gamble, policy).reward == conrl.evaluate(sure, policy).reward == 1.0
    assert set(conrl.simulate(gamble, policy, episodes=100).rewards.tolist()) == {0.0, 2.0}
    assert set(conrl.simulate(sure, policy, episodes=100).rewards.tolist()) == {1.0}


def test_a_mixture_draws_once_an_episode() -> None:
    """Always-left or always-right: totals are 0 or H, never between."""
    mdp = still([0.0, 1.0], [0.0, 1.0], 10, limits=[5.0])
    parts = [conrl.Deterministic(np.full((10, 1), a), 2) for a in (0, 1)]
    mixture = conrl.Mixture([0.7, 0.3], parts)
    seen = conrl.simulate(mdp, mixture, episodes=4000, seed=0)
    assert set(seen.rewards.tolist()) == {0.0, 10.0}
    assert abs((seen.rewards == 10.0).mean() - 0.3) <= 5.0 * np.sqrt(0.21 / 4000)
    coin = conrl.simulate(mdp, mixture.to_markov(mdp), episodes=4000, seed=0)
    assert coin.mean.reward == pytest.approx(3.0, abs=0.2)
    assert len(set(coin.rewards.tolist())) > 2


def test_quantiles_and_exceedance() -> None:
    seen = conrl.Simulation(np.arange(5.0), np.array([[0.0], [1.0], [2.0], [3.0], [4.0]]), np.array([2.0]))
    assert seen.quantile(0.5).reward == 2.0
    assert seen.quantile(0.25).costs.tolist() == [1.0]
    assert seen.quantile(1.0).reward == 4.0
    assert seen.exceed().tolist() == [0.4]
    assert seen.exceed([0.5]).tolist() == [0.8]
    assert np.isnan(seen.exceed([np.inf])).all()  # no limit: not "never exceeded"
    assert seen.exceed({"cost": 0.5}).tolist() == [0.8]
    assert seen.mean.reward == 2.0
    assert seen.standard_error.reward == pytest.approx(np.sqrt(2.5 / 5))


def test_rounding_does_not_exceed() -> None:
    mdp = still([0.0], [0.1], 30, limits=[3.0])  # thirty times 0.1 is 3.0000000000000013 in doubles
    seen = conrl.simulate(mdp, conrl.Deterministic([[0]] * 30, 1), episodes=10)
    assert (seen.costs > 3.0).all()
    assert seen.exceed().tolist() == [0.0]
    assert seen.exceed([2.9]).tolist() == [1.0]


@pytest.mark.parametrize("unit", [1e-12, 1e-3, 1.0, 1e9])
def test_exceedance_does_not_depend_on_the_unit_of_a_cost(unit: float) -> None:
    costs = unit * np.array([[0.0, 0.0], [1.0, -1.0], [2.0, 1e-3], [3.0, 0.5]])
    seen = conrl.Simulation(np.zeros(4), costs, unit * np.array([1.5, 0.0]))
    assert seen.exceed().tolist() == [0.5, 0.5]


def test_a_simulation_says_of_which_totals_the_model_has_one_amount_a_pair() -> None:
    """By structure, not by how it was given: the same table by outcome, or by pair."""
    P = np.full((2, 1, 2), 0.5)
    by_pair, by_outcome = np.array([[1.0], [2.0]]), np.array([[[0.0, 2.0]], [[2.0, 2.0]]])
    policy = conrl.Deterministic([[0, 0]] * 3, 1)
    for rewards, cost, means in (
        (by_pair, by_pair, ("reward", "fuel")),
        (by_outcome, by_pair, ("fuel",)),
        (by_pair, by_outcome, ("reward",)),
        (by_outcome, by_outcome, ()),
        (np.repeat(by_pair[:, :, None], 2, axis=2), by_outcome, ("reward",)),
    ):
        mdp = conrl.ConstrainedMDP(P, rewards, [cost], 3, cost_names=["fuel"])
        seen = conrl.simulate(mdp, policy, episodes=5)
        assert seen.pays_means == means
        assert (f"pays_means={means}" in repr(seen)) == bool(means)
    assert conrl.simulate(CMDPEnv(mdp), policy, episodes=2).pays_means == ()  # an environment pays as it does


def test_one_episode_has_no_standard_error() -> None:
    seen = conrl.simulate(still([1.0], [2.0], 3), conrl.Deterministic([[0]] * 3, 1), episodes=1)
    assert seen.mean.reward == 3.0
    assert seen.mean.costs.tolist() == [6.0]
    assert np.isnan(seen.standard_error.reward)
    assert np.isnan(seen.standard_error.costs).all()
    assert seen.limits.tolist() == [np.inf]


def test_no_episodes_are_refused() -> None:
    with pytest.raises(conrl.SpecError, match="episodes is 0; it must be a whole number of at least 1"):
        conrl.simulate(still([1.0], [2.0], 1), conrl.Deterministic([[0]], 1), episodes=0)


# -- Gymnasium ------------------------------------------------------------------------------------------------


def test_an_environment_of_a_model_pays_like_the_model() -> None:
    case = CASES["stock"]
    plan = conrl.plan(case.mdp, case.problem)
    for policy in (plan.policy, plan.mixture):
        seen = conrl.simulate(CMDPEnv(case.mdp), policy, episodes=1500, seed=2)
        error = seen.standard_error
        assert abs(seen.mean.reward - plan.reward) <= 4.0 * error.reward
        assert (np.abs(seen.mean.costs - plan.costs) <= 4.0 * error.costs).all()


def test_an_environment_is_seeded_and_gives_its_limits() -> None:
    mdp = conrl.envs.mars_rover()
    policy = conrl.plan(mdp).policy
    one, two = (conrl.simulate(CMDPEnv(mdp), policy, episodes=20, seed=7) for _ in range(2))
    assert one.rewards.tobytes() == two.rewards.tobytes()
    assert one.limits.tolist() == [0.3]


def test_frozen_lake() -> None:
    """A foreign environment: no costs in its info, and its own model for the truth."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=True)
    mdp = conrl.from_gymnasium(env, horizon=20)
    policy = conrl.plan(mdp, conrl.Linear()).policy
    seen = conrl.simulate(env, policy, episodes=2000, seed=1)
    assert seen.costs.shape == (2000, 0)
    truth = conrl.evaluate(mdp, policy).reward
    assert 0.0 < truth < 1.0
    assert abs(seen.mean.reward - truth) <= 4.0 * seen.standard_error.reward


def test_a_plan_is_played_against_its_own_limits() -> None:
    mdp = conrl.envs.box()
    plan = conrl.plan(mdp, conrl.Linear([0.05]))
    assert np.array_equal(conrl.evaluate(mdp, plan).value, conrl.evaluate(mdp, plan.policy).value)
    seen = conrl.simulate(mdp, plan, episodes=500)
    assert seen.limits.tolist() == [0.05]
    assert (seen.costs == conrl.simulate(mdp, plan.policy, episodes=500).costs).all()
    for wrong in (np.zeros((30, 121, 4)), None):
        with pytest.raises(conrl.ModelError, match="expected a Policy"):
            conrl.evaluate(mdp, wrong)


def test_plans_travel_to_other_processes() -> None:
    plan = conrl.plan(conrl.envs.box())
    copy = pickle.loads(pickle.dumps(plan))
    assert (copy.policy.probabilities == plan.policy.probabilities).all()
    assert (copy.reward, copy.gap, copy.status) == (plan.reward, plan.gap, plan.status)
    assert plan != copy
    assert len({plan, plan, copy}) == 2


class Broken(gymnasium.Env[Any, Any]):
    """Two states, two actions, three steps; `info` is what it was made with."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, infos: list[dict[str, Any]], limits: list[float] | None = None, observation: int = 1) -> None:
        self.infos, self.observation = infos, observation
        if limits is not None:
            self.cost_limits = limits

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        self.step_number = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        info = self.infos[self.step_number % len(self.infos)]
        self.step_number += 1
        return self.observation, 1.0, False, False, info


def test_an_environment_is_simulated_with_costs_of_ones_own() -> None:
    lake = gymnasium.make("FrozenLake-v1")
    model = conrl.from_gymnasium(lake, lambda s, a, t, r, end: [1.0, float(end and r == 0)], 20)
    plan = conrl.plan(model, {"cost0": 12.0})

    def told(s: int, a: int, then: int, r: float, end: bool, info: Any) -> list[float]:
        assert "prob" in info
        return [1.0, float(end and r == 0)]

    found = conrl.simulate(lake, plan.policy, 400, seed=0, cost=told)
    assert (np.abs(found.mean.costs - plan.costs) < 4.0 * found.standard_error.costs).all()
    assert found.names == ("reward", "cost0", "cost1")
    assert conrl.simulate(lake, plan.policy, 3, seed=0).costs.shape == (3, 0)
    env = conrl.envs.CMDPEnv(conrl.envs.mars_rover())  # which has a cost of its own, with a limit
    policy = conrl.Policy(np.full((30, 64, 4), 0.25))
    assert np.isinf(conrl.simulate(env, policy, 3, cost=lambda *_: [1.0, 0.0]).limits).all()
    with pytest.raises(conrl.SpecError, match="a model has costs of its own; cost is for environments"):
        conrl.simulate(model, plan.policy, 3, cost=told)
    with pytest.raises(conrl.SpecError, match="cost is 3; it must be a function"):
        conrl.simulate(lake, plan.policy, 3, cost=3)  # type: ignore[arg-type]
    with pytest.raises(conrl.RunError, match="the cost function failed: ZeroDivisionError"):
        conrl.simulate(lake, plan.policy, 3, cost=lambda *_: 1 / 0)


def test_what_is_no_environment_for_the_policy_is_refused() -> None:
    policy = conrl.Deterministic(np.zeros((3, 2), dtype=int), 2)
    with pytest.raises(conrl.SpecError, match="expected a ConstrainedMDP or a Gymnasium environment, not str"):
        conrl.simulate("box", policy)  # type: ignore[arg-type]
    for space in (gymnasium.spaces.Discrete(2, start=1), gymnasium.spaces.MultiBinary(2)):
        env = Broken([{}])
        env.observation_space = space  # type: ignore[assignment]
        with pytest.raises(conrl.ModelError, match="the policy has 2 states and 2 actions, the environment"):
            conrl.simulate(env, policy)


def test_what_an_environment_answers_is_read_with_care() -> None:
    policy = conrl.Deterministic(np.zeros((3, 2), dtype=int), 2)
    played = conrl.simulate(Broken([{"cost": 0.5}], [2.0]), policy, 4)
    assert played.costs.tolist() == [[1.5]] * 4
    assert conrl.simulate(Broken([{}]), policy, 2).costs.shape == (2, 0)
    for env, piece in (
        (Broken([{}], [2.0]), "neither"),
        (Broken([{"cost": 1.0}, {"costs": [1.0, 2.0]}]), "expected 1 of them"),
        (Broken([{"cost": "much"}]), "no numbers"),
        (Broken([{"cost": float("nan")}]), "finite"),
        (Broken([{"cost": 1.0}], observation=7), "not in its space"),
    ):
        with pytest.raises(conrl.RunError, match=piece):
            conrl.simulate(env, policy, 2)


def test_episodes_that_are_all_skipped_cost_nothing_of_each() -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    plan = conrl.plan(mdp, conrl.Knapsack({"crash": 1e-9}, 1000))
    skipped = dataclasses.replace(plan, skip=1.0)
    played = conrl.simulate(conrl.envs.CMDPEnv(mdp), skipped, 3)
    assert played.costs.tolist() == [[0.0]] * 3


def test_a_small_cost_is_above_a_limit_of_0_whatever_other_episodes_cost() -> None:
    mdp = conrl.ConstrainedMDP.from_outcomes(
        [0, 0], [0, 0], [0, 0], [0.01, 0.99], [[0.0, 1e9], [0.0, 0.5]], num_states=1, num_actions=1, horizon=1
    )
    policy = conrl.Deterministic([[0]], 1)
    assert conrl.simulate(mdp, policy, 1000).exceed([0.0]) == [1.0]
    assert conrl.distribution(mdp, policy).exceed(0.0) == 1.0


def test_dust_is_not_above_a_limit_of_0() -> None:
    mdp = conrl.ConstrainedMDP.from_outcomes(
        [0, 1, 2], [0, 0, 0], [1, 2, 2], [1.0, 1.0, 1.0], [[0.0, 0.3], [0.0, -0.1], [0.0, -0.2]],
        num_states=3, num_actions=1, horizon=3,
    )  # fmt: skip
    seen = conrl.simulate(mdp, conrl.Deterministic(np.zeros((3, 3), dtype=int), 1), 3)
    assert (seen.costs != 0.0).all()
    assert seen.exceed([0.0]) == [0.0]


def test_a_mixture_with_the_null_policy_is_played() -> None:
    mdp = conrl.ConstrainedMDP([[[1.0]]], [[1.0]], [[[1.0]]], 1)
    mix = conrl.Mixture([0.5, 0.5], [conrl.Null(1, 1, 1), conrl.Deterministic([[0]], 1)])
    seen = conrl.simulate(mdp, mix, 2000)
    assert set(seen.rewards) == {0.0, 1.0}
    assert abs(seen.rewards.mean() - conrl.evaluate(mdp, mix).reward) < 0.05


def test_the_reachable_part_of_a_model_by_step_is_refused() -> None:
    from conrl.model.transform import reachable_part

    mdp = conrl.ConstrainedMDP(np.ones((2, 1, 1, 1)), np.ones((2, 1, 1)), None, 2)
    with pytest.raises(conrl.ModelError, match="depends on the step"):
        reachable_part(mdp)

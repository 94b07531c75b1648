"""Plans with confidence: what they use, how surely they keep their limits, and what is refused.

The probability of a plan is checked with models that are drawn here, in one case with the normal quantile, and at last
in a simulator: of 60 logs, how many plans keep the limit in the world that wrote them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import conrl
from conrl.estimation.ensemble import drawn_totals
from conrl.estimation.posterior import Posterior

Float = NDArray[np.float64]


# -- a simulator ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class World:
    """Costs of 0 or 1; the actions that pay more are riskier."""

    P: Float  # [S, A, S]
    reward: Float  # [S, A]
    risk: Float  # [S, A, d]
    horizon: int

    @staticmethod
    def of(seed: int, states: int = 6, actions: int = 3, horizon: int = 8, costs: int = 1) -> World:
        rng = np.random.default_rng(seed)
        P = rng.dirichlet(np.full(states, 0.5), (states, actions))
        risk = np.sort(rng.random((states, actions, costs)), axis=1) * 0.25
        return World(P, np.sort(rng.random((states, actions)), axis=1), risk, horizon)

    @property
    def mdp(self) -> conrl.ConstrainedMDP:
        return conrl.ConstrainedMDP(self.P, self.reward, self.risk, self.horizon)

    def log(self, episodes: int, seed: int, behavior: Sequence[float] = (0.5, 0.3, 0.2)) -> list[conrl.Episode]:
        """Episodes of one behavior in all states."""
        rng = np.random.default_rng([seed, episodes])
        n, S, d = episodes, self.P.shape[0], self.risk.shape[2]
        states = np.zeros((n, self.horizon + 1), dtype=np.int64)
        actions = rng.choice(len(behavior), (n, self.horizon), p=behavior)
        cost = np.zeros((n, self.horizon, d))
        for h in range(self.horizon):
            s, a = states[:, h], actions[:, h]
            cost[:, h] = rng.random((n, d)) < self.risk[s, a]
            states[:, h + 1] = np.minimum((rng.random((n, 1)) > self.P[s, a].cumsum(axis=1)).sum(axis=1), S - 1)
        return [
            conrl.Episode(*one) for one in zip(states, actions, self.reward[states[:, :-1], actions], cost, strict=True)
        ]


LIMIT = 0.55  # of `World.of(1)`; its costs are 0.19 to 0.92


@cache
def model() -> conrl.ConstrainedMDP:
    return conrl.estimate(World.of(1).log(400, 0))


@cache
def confident(confidence: float = 0.9, seed: int = 0) -> conrl.Plan:
    return conrl.plan(model(), [LIMIT], confidence=confidence, seed=seed)


def sure(plan: conrl.Plan) -> Any:
    assert plan.confidence is not None
    return plan.confidence


def worst(mdp: conrl.ConstrainedMDP, signs: Sequence[float], costs: Sequence[int]) -> Float:
    """The worst that each row has cost, where the log has every pair."""
    paid = mdp.pay_by_outcome[:, [1 + i for i in costs]]
    return np.asarray(np.where(np.array(signs) > 0.0, paid.max(axis=0), paid.min(axis=0)))


def kept(plan: conrl.Plan, costs: Sequence[int], signs: Sequence[float], bounds: Sequence[float], seed: int) -> float:
    """The share of 4,096 models drawn here in which the plan's own policy keeps all rows."""
    mdp = plan.mdp
    columns = np.array([0, *(1 + i for i in costs)])
    posterior = Posterior(mdp, columns, np.append(np.nan, worst(mdp, signs, costs)))
    totals = drawn_totals(posterior, plan.policy, 4096, seed)[:, 1:] + sure(plan).shift[[1 + i for i in costs]]
    side = np.array(signs)
    return float((side * totals <= side * np.array(bounds)).all(axis=1).mean())


# -- what a plan with confidence is ---------------------------------------------------------------------------


def test_the_probability_is_what_other_draws_say() -> None:
    for asked in (0.5, 0.9, 0.99):
        plan = confident(asked)
        said = sure(plan)
        assert asked <= said.probability <= 1.0
        assert said.asked == asked
        own = kept(plan, [0], [1.0], [LIMIT], 12345)
        error = np.sqrt(asked * (1.0 - asked) * (1.0 / 4096.0 + 1.0 / said.models))
        assert abs(own - said.probability) < 4.0 * error


def test_the_plan_is_the_policy_that_was_verified() -> None:
    plan = confident()
    mdp = model()
    value = conrl.evaluate(mdp, plan.policy)
    assert plan.status == "confident"
    assert plan.mdp is mdp
    assert plan.reward == plan.objective == pytest.approx(value.reward, rel=1e-12)
    np.testing.assert_allclose(plan.costs, value.costs, rtol=1e-12)
    np.testing.assert_allclose(plan.weights @ plan.values, value.value, rtol=1e-9)
    np.testing.assert_array_equal(plan.policy.probabilities, plan.mixture.to_markov(mdp).probabilities)
    assert plan.bound is None
    assert plan.gap is None
    (row,) = plan.rows
    assert (row.name, row.bound, row.excess) == (f"cost <= {LIMIT:g}", LIMIT, 0.0)
    assert row.value == pytest.approx(float(plan.costs[0]))
    plain = conrl.plan(mdp, [LIMIT])
    assert sure(plan).plain == pytest.approx(plain.reward)  # every pair was seen
    assert plan.reward < plain.reward
    assert sure(plan).shift[0] <= 0.0 <= sure(plan).shift[1]
    assert sure(plan).multiple >= 0.0
    again = pickle.loads(pickle.dumps(plan))
    np.testing.assert_array_equal(again.policy.probabilities, plan.policy.probabilities)
    assert again.confidence[:4] == plan.confidence[:4]  # type: ignore[index]


def test_the_same_seed_gives_the_same_bits() -> None:
    once = confident()
    again = conrl.plan(model(), [LIMIT], confidence=0.9, seed=0)
    other = conrl.plan(model(), [LIMIT], confidence=0.9, seed=1)
    assert once.policy.probabilities.tobytes() == again.policy.probabilities.tobytes()
    assert (once.reward, sure(once).probability) == (again.reward, sure(again).probability)
    assert once.policy.probabilities.tobytes() != other.policy.probabilities.tobytes()
    assert other.reward == pytest.approx(once.reward, rel=0.05)


def test_who_asks_for_more_uses_less_of_the_limit() -> None:
    plans = [confident(asked) for asked in (0.5, 0.8, 0.95, 0.99)]
    costs = [float(plan.costs[0]) for plan in plans]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 1.05 * costs[-1]
    rewards = [plan.reward for plan in plans]
    assert rewards == sorted(rewards, reverse=True)


def two_arms(visits: int) -> conrl.ConstrainedMDP:
    """One step: an arm that never costs and pays 0.2, and one that costs half of the time and pays 1."""
    episodes = []
    for i in range(visits):
        episodes.append(conrl.Episode([0, 0], [0], [0.2], [[0.0]]))
        episodes.append(conrl.Episode([0, 0], [1], [1.0], [[float(i % 2)]]))
    return conrl.estimate(episodes)


@pytest.mark.parametrize("asked", [0.8, 0.95, 0.99])
def test_one_risky_arm_is_played_as_often_as_the_normal_quantile_says(asked: float) -> None:
    """With share q of the risky arm, P(q c <= 1/4) = asked, where c is 1/2 to within 1/2 / sqrt(n)."""
    n = 500
    plan = conrl.plan(two_arms(n), [0.25], confidence=asked)
    q = 0.25 / (0.5 + stats.norm.ppf(asked) * 0.5 / np.sqrt(n))
    assert plan.policy.probabilities[0, 0, 1] == pytest.approx(q, rel=0.02)


def test_many_visits_leave_nothing_to_be_careful_about() -> None:
    few, many = (conrl.plan(two_arms(n), [0.25], confidence=0.95) for n in (50, 20_000))
    assert few.costs[0] < 0.9 * many.costs[0]
    assert many.costs[0] == pytest.approx(0.25, rel=0.02)


# -- several rows ---------------------------------------------------------------------------------------------


def test_two_limits_are_kept_together() -> None:
    mdp = conrl.estimate(World.of(2, costs=2).log(400, 1))
    plan = conrl.plan(mdp, [0.8, 0.7], confidence=0.9)
    own = kept(plan, [0, 1], [1.0, 1.0], [0.8, 0.7], 99)
    assert own > 0.9 - 4.0 * np.sqrt(0.09 / 1024.0)
    assert own == pytest.approx(sure(plan).probability, abs=0.05)
    alone = [kept(plan, [i], [1.0], [bound], 99) for i, bound in enumerate((0.8, 0.7))]
    assert min(alone) >= own
    assert sure(plan).shift.shape == (3,)


def test_floors_are_kept() -> None:
    """The second cost is something to be had at least 0.9 of, while the first has a limit."""
    mdp = conrl.estimate(World.of(3, costs=2).log(600, 1))
    free = conrl.plan(mdp, [np.inf, np.inf])
    floor = 0.75 * float(free.costs[1])
    asked = conrl.Linear({"cost0": 0.9 * float(free.costs[0])}, {"cost1": floor})
    plan = conrl.plan(mdp, asked, confidence=0.9)
    own = kept(plan, [0, 1], [1.0, -1.0], [0.9 * float(free.costs[0]), floor], 7)
    assert own == pytest.approx(sure(plan).probability, abs=0.05)
    assert plan.costs[1] > floor
    assert len(plan.rows) == 2
    assert sure(plan).shift[2] <= 0.0  # the worse side of a floor is below


def test_limits_of_the_model_are_the_default() -> None:
    mdp = model().replace(limits=[LIMIT])
    plan = conrl.plan(mdp, confidence=0.9)
    np.testing.assert_array_equal(plan.policy.probabilities, confident().policy.probabilities)
    named = conrl.plan(model(), limits={"cost": LIMIT}, confidence=0.9)
    np.testing.assert_array_equal(named.policy.probabilities, confident().policy.probabilities)


# -- what was never seen --------------------------------------------------------------------------------------


def unseen_use(plan: conrl.Plan) -> float:
    """How often the plan's policy is expected to use pairs that the log never has."""
    mdp = plan.mdp
    rho = plan.policy.occupation(mdp)
    per_pair = rho[mdp.pair_step, mdp.pair_state, mdp.action]
    if not mdp.step_dependent:
        per_pair = rho.sum(axis=0)[mdp.pair_state, mdp.action]
    assert mdp._visits is not None
    end = -1 if mdp._log is None else mdp._log.end
    return float(per_pair[(mdp._visits == 0) & (mdp.pair_state != end)].sum())


def better_elsewhere() -> conrl.ConstrainedMDP:
    """In state 0 only action 0 was tried, which pays nothing; all that was tried in state 1 pays 1. Costs are alike."""
    rng = np.random.default_rng(0)
    episodes = []
    for s in (0, 1):
        cost = (rng.random((300, 2, 1)) < 0.2).astype(np.float64)
        episodes += [conrl.Episode([s] * 3, [s, s], [float(s)] * 2, one) for one in cost]
    return conrl.estimate(episodes).replace(initial=0)


def test_only_what_was_tried_is_used() -> None:
    mdp = better_elsewhere()
    plan = conrl.plan(mdp, [1.5], confidence=0.9)
    assert unseen_use(plan) == 0.0
    np.testing.assert_array_equal(plan.policy.probabilities[:, 0], [[1.0, 0.0]] * 2)
    assert plan.estimated is not None
    assert plan.estimated.unseen == 0.0
    bold = conrl.plan(mdp, [1.5], confidence=0.9, use_unseen=True)
    assert unseen_use(bold) > 0.5
    assert bold.estimated is not None
    assert bold.estimated.unseen > 0.0
    missing = conrl.plan(
        conrl.estimate(World.of(1).log(400, 0), unvisited="missing"), [LIMIT], confidence=0.9
    )  # every pair was seen: the same model
    np.testing.assert_array_equal(missing.policy.probabilities, confident().policy.probabilities)


@dataclass(frozen=True)
class Case:
    """What was drawn; the same always makes the same log."""

    states: int
    actions: int
    horizon: int
    pay: str
    unit: float
    episodes: int
    ends: bool
    known: bool
    by_step: bool
    unseen: bool
    asked: float
    quantile: float
    floor: bool
    seed: int

    def build(self) -> tuple[conrl.ConstrainedMDP, conrl.Linear]:
        rng = np.random.default_rng(self.seed)
        S, A, H = self.states, self.actions, self.horizon
        episodes = []
        for _ in range(self.episodes):
            ended = bool(self.ends and rng.random() < 0.5)
            L = int(rng.integers(1, H + 1)) if ended else H
            states = rng.integers(S, size=L + 1)
            states[0] = 0 if self.known else states[0]
            cost = {
                "binary": (rng.random((L, 1)) < 0.3).astype(np.float64),
                "continuous": rng.random((L, 1)),
                "signed": rng.normal(size=(L, 1)),
                "constant": np.ones((L, 1)),
                "zero": np.zeros((L, 1)),
            }[self.pay]
            paid = self.unit * rng.random(L)
            episodes.append(conrl.Episode(states, rng.integers(A, size=L), paid, self.unit * cost, terminated=ended))
        mdp = self._estimate(episodes)
        exists = np.broadcast_to(mdp.playable, (H, mdp.num_states, mdp.num_actions)).astype(np.float64)
        uniform = conrl.Policy(exists / exists.sum(axis=2, keepdims=True))
        totals = drawn_totals(Posterior(mdp), uniform, 128, 0)[:, 1]
        # A little off: limits that are just kept are another matter.
        limit = float(np.quantile(totals, self.quantile)) + 0.03 * self.unit
        floor = {"cost": float(totals.min()) - 0.5 * self.unit} if self.floor else None
        return mdp, conrl.Linear([limit], floor)

    def _estimate(self, episodes: list[conrl.Episode]) -> conrl.ConstrainedMDP:
        if not self.by_step:
            return conrl.estimate(episodes, horizon=self.horizon)
        pay = np.concatenate([e.pay for e in episodes])
        low, high = pay.min(axis=0).tolist(), pay.max(axis=0).tolist()
        first = {int(e.states[0]) for e in episodes}
        task = conrl.Task(
            self.states,
            self.actions,
            self.horizon,
            [np.inf],
            ["cost"],
            initial=first.pop() if len(first) == 1 else None,
            reward_range=(low[0], high[0]),
            cost_ranges=[(low[1], high[1])],
            step_dependent=True,
        )
        return conrl.estimate(episodes, task=task)


cases = st.builds(
    Case,
    states=st.integers(1, 4),
    actions=st.integers(1, 3),
    horizon=st.integers(1, 4),
    pay=st.sampled_from(["binary", "continuous", "signed", "constant", "zero"]),
    unit=st.sampled_from([1.0, 1.0, 1e9, 1e-9]),
    episodes=st.sampled_from([1, 2, 10, 60]),
    ends=st.booleans(),
    known=st.booleans(),
    by_step=st.booleans(),
    unseen=st.booleans(),
    asked=st.sampled_from([0.3, 0.8, 0.95]),
    quantile=st.sampled_from([0.3, 0.9, 1.0]),
    floor=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)


@settings(max_examples=60, deadline=None)
@given(cases)
def test_whatever_the_log_there_is_a_plan_that_is_sure_enough_or_none(case: Case) -> None:
    mdp, asked = case.build()
    try:
        plan = conrl.plan(mdp, asked, confidence=case.asked, use_unseen=case.unseen)
    except conrl.InfeasibleError:
        return
    assert sure(plan).probability >= case.asked
    assert plan.estimated is not None
    if plan.estimated.unseen == 0.0:
        value = conrl.evaluate(mdp, plan.policy).costs
        np.testing.assert_allclose(value, plan.costs, rtol=1e-9, atol=1e-12 * case.unit)
    if not case.unseen:
        # What was never tried is used only where nothing was.
        visits = np.asarray(mdp.counts).reshape(-1, mdp.num_states, mdp.num_actions)
        rho = plan.policy.occupation(mdp)
        tried = visits.sum(axis=2, keepdims=True) > 0
        assert (np.where(tried & (visits == 0), rho, 0.0) == 0.0).all()


# -- what a plan says -----------------------------------------------------------------------------------------


def test_what_a_plan_says_by_hand() -> None:
    """Action 1 was seen 10 times, action 0 of state 0 40 times; both lead to state 1, seen 50 times."""
    episodes = [conrl.Episode([0, 1, 1], [int(i < 10), 0], [1.0 * (i < 10), 0.0], [[0.0], [0.0]]) for i in range(50)]
    mdp = conrl.estimate(episodes)
    plan = conrl.plan(mdp, [0.9], confidence=0.9)
    np.testing.assert_array_equal(plan.policy.probabilities[0, 0], [0.0, 1.0])
    assert plan.estimated == (100, 0.5, 0.0, "")  # one of two steps uses a pair seen 10 times
    p = 100.0 * sure(plan).probability
    assert plan.message == (
        "the best plan found; no bound on its reward is proven. It keeps all limits in "
        f"{p:.1f}% of 1,024 models drawn from what the log leaves open; 90% was asked; for a model estimated from 100 "
        "steps; 50% of its steps use pairs seen fewer than 30 times"
    )
    assert repr(plan) == (
        "Plan(reward 1, cost 0, confident for a model estimated from 100 steps, "
        f"kept with probability {sure(plan).probability:.3f})"
    )
    plain = conrl.plan(mdp, [0.9])
    assert plain.confidence is None
    assert plain.estimated == (100, 0.5, 0.0, "")
    assert plain.message.endswith(
        "for a model estimated from 100 steps; 50% of its steps use pairs seen fewer than 30 times"
    )
    assert "estimated from 100 steps" in repr(plain)


def test_all_that_is_made_of_an_estimate_says_so() -> None:
    mdp = model()
    steps = f"estimated from {int(np.asarray(mdp.counts).sum()):,} steps"
    curve, fleet = conrl.frontier(mdp), conrl.plan(conrl.Fleet([(mdp, 3)], limits=[2.0]))
    for shown in (repr(curve), curve._repr_html_(), repr(fleet), fleet.message, fleet._repr_html_(), fleet.to_html()):
        assert steps in shown
    assert f"1 of 1 models {steps}" in repr(fleet)


def test_plans_of_models_that_were_given_say_nothing_of_data() -> None:
    plan = conrl.plan(World.of(1).mdp, [LIMIT])
    assert plan.estimated is None
    assert plan.confidence is None
    assert "estimated" not in plan.message + repr(plan)


def test_what_follows_an_end_is_not_estimated() -> None:
    """Of three steps only one is played: the others follow the end."""
    mdp = conrl.estimate([conrl.Episode([0, 0], [0], [1.0], [[0.0]], terminated=True)] * 20, horizon=3)
    assert conrl.plan(mdp, [0.5]).estimated == (20, 1.0, 0.0, "")
    plan = conrl.plan(mdp, [0.5], confidence=0.8)
    assert plan.estimated == (20, 1.0, 0.0, "")
    assert plan.reward == 1.0


@pytest.mark.parametrize("share", [0.005, 0.5])
def test_shares_are_said_in_percent(share: float) -> None:
    from conrl.planners.basis import Basis

    words = "less than 1%" if share < 0.01 else "50%"
    assert str(Basis(12_345, share, 0.0)) == (
        f"estimated from 12,345 steps; {words} of its steps use pairs seen fewer than 30 times"
    )
    assert str(Basis(5, 1.0, share)).endswith(
        f"100% of its steps use pairs seen fewer than 30 times, {words} pairs never seen"
    )


def test_progress_is_reported_in_words() -> None:
    told: list[str] = []
    conrl.plan(model(), [LIMIT], confidence=0.9, report=told.append)
    assert told
    assert all(isinstance(text, str) and text for text in told)


# -- no plan --------------------------------------------------------------------------------------------------


def test_too_little_data_is_declined_with_what_would_help() -> None:
    mdp = conrl.estimate(World.of(1).log(6, 0))
    with pytest.raises(
        conrl.InfeasibleError, match=r"the log does not support cost <= 0\.55 with probability 0\.99"
    ) as info:
        conrl.plan(mdp, [LIMIT], confidence=0.99)
    error = info.value
    assert "\n" not in str(error)
    assert 0 < len(error.needs) <= 10
    shares = [need.share for need in error.needs]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1.0 + 1e-12
    assert str(error.needs[0]) in str(error)
    assert error.feasibility.feasible  # in the estimate there would be a plan
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.needs == error.needs
    assert again.feasibility.feasible


def test_where_nothing_was_ever_tried_the_worst_is_reckoned_with() -> None:
    """Three of four steps are in a state in which nobody ever acted: each of them may cost 1."""
    ends = [conrl.Episode([0, 1], [i % 2], [1.0], [[float(i % 100 == 0)]]) for i in range(1000)]
    mdp = conrl.estimate(ends).replace(horizon=4)
    for model in (mdp, mdp.replace(initial=1)):
        with pytest.raises(conrl.InfeasibleError, match=r"the best plan found has 0\.000") as caught:
            conrl.plan(model, [1.0], confidence=0.9)
        assert caught.value.needs[0].state == "1"
        assert conrl.plan(model, [4.5], confidence=0.9).confidence is not None


def steps(states: list[int], actions: list[int], rewards: list[float], costs: list[float]) -> conrl.Episode:
    return conrl.Episode(states, actions, rewards, np.array(costs)[:, None])


def test_a_plan_through_pairs_never_seen_is_the_lottery_that_was_planned() -> None:
    """Behind such a pair the estimate has nobody: a Markov form made there would lose what is mixed behind it."""
    log = [steps([0, 1, 1], [0, a], [-100.0, a], [0.0, a]) for a in (0, 1)] * 200
    mdp = conrl.estimate(log)
    plans = [conrl.plan(mdp, {"cost": x}, confidence=0.9, use_unseen=True) for x in (1.2, 1.5, 1.8)]
    assert plans[0].reward < plans[1].reward < plans[2].reward
    for plan in plans:
        assert 0.0 < plan.policy.probabilities[1, 1, 1] < 1.0
        assert np.allclose(plan.weights @ plan.values, [plan.reward, *plan.costs], rtol=0, atol=1e-12)
        assert np.array_equal(conrl.assess(plan, mdp).mean.value, conrl.assess(plan.mixture, mdp).mean.value)
        assert plan.estimated is not None
        assert plan.estimated.unseen == pytest.approx(conrl.assess(plan, mdp).basis.unseen, abs=0.05)
        assert 0.3 < plan.estimated.unseen < 0.8  # the first of two steps, and those that lead back to it


def test_costs_are_those_that_limits_were_judged_by() -> None:
    """State 1 was come to, and nothing was tried there: its cost is the worst, 1, in the plan's own numbers too."""
    rng = np.random.default_rng(0)
    log = [steps([0, 1], [a], [a], [float(rng.random() < 0.2)]) for a in (0, 1) for _ in range(400)]
    plan = conrl.plan(conrl.estimate(log, horizon=2), {"cost": 1.3}, confidence=0.9)
    assert 1.1 < plan.costs[0] < 1.3
    assert plan.rows[0].value == plan.costs[0]


def test_gaps_in_the_numbers_of_states_cost_no_draws() -> None:
    """States that no model can come to are not drawn, and leave the answer as it is."""

    def asked(far: int) -> tuple[conrl.Plan, Any, int]:
        log = [steps([0, far, 0], [0, a], [1.0, a], [0.0, a]) for a in (0, 1)] * 100
        mdp = conrl.estimate(log)
        found = conrl.assess(conrl.plan(mdp, {"cost": 0.5}), log)
        return conrl.plan(mdp, {"cost": 0.5}, confidence=0.9), found, int(Posterior(mdp).come.sum())

    near, far = asked(1), asked(3000)
    assert near[2] == far[2] == 4
    assert near[0].reward == pytest.approx(far[0].reward, abs=0.02)
    assert near[1].mean.reward == pytest.approx(far[1].mean.reward, abs=0.02)


def test_a_limit_that_no_variance_speaks_of_is_declined_with_what_would_help() -> None:
    log = [steps([0, 0], [a], [a], [a]) for a in (0, 1)] * 200
    with pytest.raises(conrl.InfeasibleError, match="More data would help most about '0' in '0'") as declined:
        conrl.plan(conrl.estimate(log), {"cost": 0.003}, confidence=0.95)
    assert declined.value.needs


def test_a_rare_cost_that_an_arm_has_not_shown_is_not_ruled_out() -> None:
    """Of 1,000 visits none had an accident: one in a thousand would have shown none in 37 logs of 100."""
    arms = [(0, 0.0), (0, 1.0), (2, 1.0), (2, 1.0), (3, 1.0), (3, 1.0)]
    log = [
        conrl.Episode([0, 0], [a], [reward], [[float(i < hits)]])
        for a, (hits, reward) in enumerate(arms)
        for i in range(1000)
    ]
    with pytest.raises(conrl.InfeasibleError, match="does not support"):
        conrl.plan(conrl.estimate(log), [0.0005], confidence=0.95)


def test_what_the_estimate_itself_cannot_keep_is_the_ordinary_conflict() -> None:
    with pytest.raises(conrl.InfeasibleError) as plain:
        conrl.plan(model(), [0.01])
    with pytest.raises(conrl.InfeasibleError) as found:
        conrl.plan(model(), [0.01], confidence=0.9)
    assert str(found.value) == str(plain.value)
    assert found.value.needs == ()
    assert not found.value.feasibility.feasible


def test_a_limit_that_is_just_kept_is_kept() -> None:
    mdp = conrl.estimate([conrl.Episode([0] * 4, [0] * 3, [1.0] * 3, [[0.1]] * 3)] * 20)
    assert sure(conrl.plan(mdp, [0.3], confidence=0.9)).probability == 1.0


@pytest.mark.parametrize(("cost", "limit"), [(0.0, 0.0), (1e9, 2e9)])
def test_needs_are_about_a_row_that_is_not_sure(cost: float, limit: float) -> None:
    """The first cost never varied, and keeps its limit: nothing is to be learned about it."""
    mdp = conrl.estimate([conrl.Episode([0, 0], [0], [1.0], [[cost, float(i % 3 == 0)]]) for i in range(15)])
    with pytest.raises(conrl.InfeasibleError) as info:
        conrl.plan(mdp, [limit, 0.45], confidence=0.95)
    assert info.value.needs


# -- refusals -------------------------------------------------------------------------------------------------


def refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises((conrl.SpecError, conrl.ModelError), match=words) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -0.5, 0.9995, float("nan"), float("inf"), True, "0.9", [0.9]])
def test_confidence_is_a_probability(confidence: Any) -> None:
    refused(lambda: conrl.plan(model(), [LIMIT], confidence=confidence), "confidence is")


PROBLEMS: list[tuple[Any, str]] = [
    (conrl.ConcaveConvex(objective=lambda x: x), "expected totals"),
    (conrl.Knapsack([5.0], 10), "expected totals"),
    (conrl.Linear(per_step={"cost": 0.5}), "expected totals"),
    (conrl.Linear(never={"cost": 3.0}), "expected totals"),
    (conrl.Linear(chance={"cost": (2, 0.1)}), "expected totals"),
    (conrl.Linear(cvar={"cost": (0.9, 2.0)}), "expected totals"),
    ([np.inf], "there are none"),
    (None, "there are none"),
    ({"crash": 1.0}, "unknown cost"),
]


@pytest.mark.parametrize(("problem", "words"), PROBLEMS)
def test_confidence_is_about_limits_on_expected_totals(problem: Any, words: str) -> None:
    refused(lambda: conrl.plan(model(), problem, confidence=0.9), words)


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"deterministic": True}, "leave deterministic out"),
    ({"planner": "linear-program"}, "leave planner out"),
    ({"planner": conrl.ColumnGeneration()}, "leave planner out"),
    ({"tol": 1e-6}, "leave tol out"),
    ({"time_limit": 5.0}, "leave time_limit out"),
    ({"seed": -1}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"use_unseen": "yes"}, "use_unseen"),
    ({"report": 3}, "report"),
]


@pytest.mark.parametrize(("given_", "words"), OTHERS)
def test_confidence_has_a_method_of_its_own(given_: dict[str, Any], words: str) -> None:
    refused(lambda: conrl.plan(model(), [LIMIT], confidence=0.9, **given_), words)


def test_what_goes_with_confidence_goes_with_nothing_else() -> None:
    for given_ in ({"use_unseen": True}, {"seed": 3}, {"report": print}):
        name = next(iter(given_))
        refused(lambda given_=given_: conrl.plan(model(), [LIMIT], **given_), f"{name} goes with confidence")  # type: ignore[misc]


def test_models_that_hold_no_log_are_refused() -> None:
    log = World.of(1).log(20, 0)
    mdp = conrl.estimate(log)
    learner = conrl.UCBVI(mdp.task)
    learner.prime(log)
    cases: list[tuple[Any, str]] = [
        (World.of(1).mdp, "was not estimated"),
        (learner.model, "knows mean pay only"),
        (mdp.with_bonus(np.full((mdp.num_states, mdp.num_actions), 0.1)), "bonus"),
        (mdp.replace(horizon=conrl.Discounted(0.9)), "horizon"),
        (mdp.replace(horizon=conrl.Average()), "horizon"),
        (conrl.Fleet([(mdp, 3)], limits=[5.0]), "not for fleets"),
        (3, "needs a ConstrainedMDP"),
    ]
    for one, words in cases:
        refused(lambda one=one: conrl.plan(one, [LIMIT], confidence=0.9), words)  # type: ignore[misc]


# -- files and variants of the model --------------------------------------------------------------------------


def test_a_saved_model_plans_to_the_same_bits(tmp_path: Path) -> None:
    conrl.save_model(tmp_path / "model.npz", model())
    loaded = conrl.load_model(tmp_path / "model.npz")
    plan = conrl.plan(loaded, [LIMIT], confidence=0.9)
    assert plan.policy.probabilities.tobytes() == confident().policy.probabilities.tobytes()
    assert sure(plan)[:4] == sure(confident())[:4]
    assert plan.estimated == confident().estimated


def test_another_horizon_and_start_are_planned() -> None:
    shorter = model().replace(horizon=4)
    plan = conrl.plan(shorter, [LIMIT / 2.0], confidence=0.9)
    assert plan.policy.shape[0] == 4
    assert kept(plan, [0], [1.0], [LIMIT / 2.0], 5) == pytest.approx(sure(plan).probability, abs=0.05)
    spread = np.full(6, 1.0 / 6.0)
    plan = conrl.plan(model().replace(initial=spread), [1.2 * LIMIT], confidence=0.9)
    np.testing.assert_array_equal(Posterior(plan.mdp).first_states(0, 0)[:, 0], spread)  # it is known now
    assert kept(plan, [0], [1.0], [1.2 * LIMIT], 5) == pytest.approx(sure(plan).probability, abs=0.05)


def ended() -> conrl.ConstrainedMDP:
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(40):
        L = int(rng.integers(1, 4))
        cost = (rng.random((L, 1)) < 0.3).astype(np.float64)
        states, actions = rng.integers(3, size=L + 1), rng.integers(2, size=L)
        episodes.append(conrl.Episode(states, actions, rng.random(L), cost, terminated=bool(rng.random() < 0.5)))
    return conrl.estimate(episodes)


def damaged(tmp_path: Path, **changes: Any) -> Path:
    """A saved model with other arrays; None leaves one out."""
    conrl.save_model(tmp_path / "model.npz", ended())
    with np.load(tmp_path / "model.npz") as file:
        arrays = {name: file[name] for name in file.files}
    arrays = {name: array for name, array in (arrays | changes).items() if array is not None}
    np.savez(tmp_path / "damaged.npz", **arrays)
    return tmp_path / "damaged.npz"


def visits_of(change: Callable[[NDArray[np.int64]], Any]) -> Any:
    own = ended()._visits
    assert own is not None
    return change(own.copy())


def _first_none(visits: NDArray[np.int64]) -> NDArray[np.int64]:
    visits[0] = 0
    return visits


DAMAGED: list[tuple[str, dict[str, Any]]] = [
    ("short", {"log": np.array([40])}),
    ("decimal", {"log": np.array([40.0, 3.0])}),
    ("negative starts", {"log": np.array([-1, 3])}),
    ("no such end", {"log": np.array([40, 4])}),
    ("end below -1", {"log": np.array([40, -2])}),
    ("no visits", {"visits": None}),
    ("negative visits", {"visits": visits_of(lambda v: -v)}),
    ("decimal visits", {"visits": visits_of(lambda v: v * 1.0)}),
    ("other visits", {"visits": visits_of(lambda v: v + 1)}),
    ("fewer visits", {"visits": visits_of(lambda v: v[:-1])}),
    ("narrow ranges", {"log_ranges": np.zeros((2, 2))}),
    ("ranges of other costs", {"log_ranges": np.tile([-9.0, 9.0], (5, 1))}),
]


def test_an_undamaged_file_is_read(tmp_path: Path) -> None:
    loaded = conrl.load_model(damaged(tmp_path))
    log, own = loaded._log, ended()._log
    assert log is not None
    assert own is not None
    assert log[:3] == own[:3] == (40, 3, True)
    np.testing.assert_array_equal(log.ranges, own.ranges)
    np.testing.assert_array_equal(loaded.counts, ended().counts)


@pytest.mark.parametrize("changes", [change for _, change in DAMAGED], ids=[name for name, _ in DAMAGED])
def test_damaged_counts_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    path = damaged(tmp_path, **changes)
    with pytest.raises(conrl.ModelError, match=r"damaged\.npz"):
        conrl.load_model(path)


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("an end that is left", {"log": np.array([40, 0])}),
    ("starts that are no whole numbers", {"log": np.array([7, 3])}),
    ("no visits of a pair that pays", {"visits": visits_of(_first_none)}),
]


@pytest.mark.parametrize("changes", [change for _, change in WRONG], ids=[name for name, _ in WRONG])
def test_counts_that_do_not_fit_the_model_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    path = damaged(tmp_path, **changes)
    with pytest.raises(conrl.ModelError, match=r"damaged\.npz"):
        conrl.load_model(path)


# -- in the world ---------------------------------------------------------------------------------------------


def test_plans_keep_their_limit_in_the_world_as_often_as_they_say() -> None:
    """60 logs of one simulator. A plan without confidence is the negative control: it uses the limit up."""
    world = World.of(1)
    true = world.mdp
    held, returned, plain = 0, 0, 0
    for i in range(60):
        mdp = conrl.estimate(world.log(400, i))
        plain += bool(conrl.evaluate(true, conrl.plan(mdp, [LIMIT]).policy).costs[0] <= LIMIT)
        try:
            plan = conrl.plan(mdp, [LIMIT], confidence=0.9)
        except conrl.InfeasibleError:
            continue
        returned += 1
        held += bool(conrl.evaluate(true, plan.policy).costs[0] <= LIMIT)
    assert returned >= 30
    assert held >= 0.8 * returned
    assert plain <= 30
    assert held / returned - plain / 60 > 0.3


def test_the_simulator_is_what_it_says() -> None:
    world = World.of(1)
    big = replace(world, horizon=3).log(20_000, 0)
    mdp = conrl.estimate(big)
    np.testing.assert_allclose(mdp.costs[:, :, 0], world.risk[:, :, 0], atol=0.03)
    np.testing.assert_allclose(mdp.rewards, world.reward, atol=1e-9)
    dense = mdp.transitions.toarray().reshape(world.P.shape)
    np.testing.assert_allclose(dense, world.P, atol=0.05)


def constant(cost: float, unseen_state: bool) -> conrl.Log:
    """Every step costs the same; one pair was never tried and, if so asked, one state is only ever come to last."""
    rng, made = np.random.default_rng(0), []
    for _ in range(100):
        states = [0, *rng.integers(0, 2, 2), 2 if unseen_state and rng.random() < 0.3 else 0]
        actions = [int(rng.integers(0, 2)) if s == 0 else 0 for s in states[:-1]]
        made.append(conrl.Episode(states, actions, np.ones(3), np.full((3, 1), cost)))
    return conrl.Log(tuple(made), ("b",), ("new", "worn", "gone"), ("run", "rest"))


@pytest.mark.parametrize("unseen_state", [False, True])
@pytest.mark.parametrize("cost", [3.0, -3.0])
@pytest.mark.filterwarnings("ignore:the steps of the log differ")
def test_what_every_step_costs_is_not_doubted(cost: float, unseen_state: bool, tmp_path: Path) -> None:
    """That a pair never tried pays 0 in the estimate is made up: no plan fears it."""
    model = conrl.estimate(constant(cost, unseen_state), horizon=5)
    asked = conrl.Linear(floors={"b": 15.0}) if cost > 0.0 else conrl.Linear({"b": -15.0})
    conrl.save_model(tmp_path / "model.npz", model)
    for one in (model, conrl.load_model(tmp_path / "model.npz")):
        plan = conrl.plan(one, asked, confidence=0.95)
        assert plan.confidence is not None
        assert plan.confidence.probability == 1.0
    # A range that is declared counts: then a step may cost nothing.
    wide = model.replace(cost_ranges=[(min(cost, 0.0), max(cost, 0.0))])
    with pytest.raises(conrl.InfeasibleError):
        conrl.plan(wide, asked, confidence=0.95)

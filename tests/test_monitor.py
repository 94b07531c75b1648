"""A policy that runs, watched: no false alarms, true ones soon, and what was played by somebody else is said."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import ok, record, refused, run

import conrl
from conrl._types import Float
from conrl.estimation.betting import BETS, against, interval
from conrl.matching import places_of
from conrl.policy_file import file_of


def machine(failing: float = 0.2, limit: float | None = None) -> conrl.ConstrainedMDP:
    """New, worn, broken; a worn machine that runs fails with this probability."""
    P = np.zeros((3, 2, 3))
    R, C = np.zeros((3, 2, 3)), np.zeros((3, 2, 3, 2))
    P[0, 0], R[0, 0] = [0.7, 0.3, 0.0], 10.0
    P[1, 0], R[1, 0, 1], C[1, 0, 2, 0] = [0.0, 1.0 - failing, failing], 8.0, 1.0
    P[:, 1, 0] = 1.0
    R[0, 1, 0], R[1, 1, 0], R[2, 1, 0] = -12.0, -12.0, -20.0
    C[:, 1, 0, 1] = 2.0  # hours
    P[2, 0, 2] = 1.0
    return conrl.ConstrainedMDP(
        P,
        R,
        C,
        horizon=8,
        limits=[np.inf if limit is None else limit, np.inf],
        state_names=["new", "worn", "broken"],
        action_names=["run", "repair"],
        cost_names=["failures", "hours"],
    )


MACHINE = machine(limit=0.3)
PLAN = conrl.plan(MACHINE)


def log_of(mdp: conrl.ConstrainedMDP, policy: Any, episodes: int, seed: int) -> conrl.Log:
    return conrl.sample_log(mdp, policy, episodes, seed=seed)


def played_log(plan: conrl.Plan, episodes: int) -> conrl.Log:
    """Episodes of a policy that acts on what was spent, played as somebody else would."""
    mdp, policy, rng, made = plan.mdp, plan.policy, np.random.default_rng(0), []
    for _ in range(episodes):
        env = conrl.envs.CMDPEnv(mdp)
        state, _ = env.reset(seed=int(rng.integers(2**31)))
        states, actions, rewards, costs, spent = [state], [], [], [], policy.start
        for h in range(mdp.horizon):
            action = policy.act(h, states[-1], rng, spent=spent)
            state, reward, _, _, info = env.step(action)
            spent = policy.spend(spent, info["costs"])
            states.append(state)
            actions.append(action)
            rewards.append(reward)
            costs.append(info["costs"])
        made.append(conrl.Episode(states, actions, rewards, np.array(costs)))
    return conrl.Log(tuple(made), mdp.cost_names, mdp.state_names, mdp.action_names)


# -- the test itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [Fraction(1, 4), Fraction(1, 2), Fraction(3)])
def test_a_fair_bet_is_fair(mean: Fraction) -> None:
    """The capital's expectation is 1, whatever came before: over all paths of a variable with that mean."""
    values, least = (Fraction(0), Fraction(4)), Fraction(-1)
    chance = mean / 4
    exact = Fraction(0)
    for path in itertools.product((0, 1), repeat=6):
        p, capital = Fraction(1), Fraction(0)
        for hit in path:
            p *= chance if hit else 1 - chance
        for bet in map(Fraction, BETS[:5]):
            grown = Fraction(1)
            for hit in path:
                grown *= 1 + bet * (values[hit] - mean) / (mean - least)
            capital += grown / 5
        exact += p * capital
    assert exact == 1


def test_the_evidence_is_the_largest_mean_capital() -> None:
    rng = np.random.default_rng(0)
    x = rng.exponential(1.3, size=300)
    found = against(x, 1.0, 0.0, np.log(20.0))
    paths = np.cumprod(1.0 + BETS * (x[:, None] - 1.0), axis=0).mean(axis=1)
    assert found.most == pytest.approx(np.log(paths.max()))
    assert found.when == 1 + int(np.argmax(paths >= 20.0))
    assert against(x, 1.0, 0.0, 1e9).when is None
    shifted = against(x - 5.0, -4.0, -5.0, np.log(20.0))  # units do not matter
    assert shifted.when == found.when
    assert against(1000.0 * x, 1000.0, 0.0, np.log(20.0)).most == pytest.approx(found.most)


def test_many_observations_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).binomial(1, 0.12, size=999).astype(float)
    whole = against(x, 0.1, 0.0, np.log(3.0))
    monkeypatch.setattr("conrl.estimation.betting.CHUNK", 7)
    pieces = against(x, 0.1, 0.0, np.log(3.0))
    assert pieces.most == pytest.approx(whole.most)
    assert pieces.when == whole.when


def test_ends() -> None:
    """A mean at its least end is refuted by one value above it; nothing is below the least."""
    assert against(np.zeros(50), 0.0, 0.0, 1.0) == (0.0, None)
    assert against(np.array([0.0, 0.0, 1.0]), 0.0, 0.0, 1.0) == (np.inf, 3)
    assert against(np.zeros(0), 0.5, 0.0, 1.0) == (0.0, None)
    with pytest.raises(conrl.SpecError, match="none can be below 0"):
        against(np.array([-1.0]), 0.5, 0.0, 1.0)


def test_the_interval_is_what_is_not_refuted() -> None:
    x = np.random.default_rng(2).binomial(3, 0.2, size=400).astype(float)
    low, high = interval(x, 0.0, 3.0, 0.05)
    assert low < x.mean() < high
    assert high - low < 0.4
    bar = np.log(2.0 / 0.05)
    for mean in np.linspace(0.0, 3.0, 401):
        above, below = against(x, mean, 0.0, bar).when, against(-x, -mean, -3.0, bar).when
        if low < mean < high:
            assert above is None
            assert below is None
        elif mean < low - 1e-6 or mean > high + 1e-6:
            assert above or below
    assert interval(np.zeros(0), -1.0, 2.0, 0.05) == pytest.approx((-1.0, 2.0), abs=1e-6)


def test_intervals_hold_at_all_times_at_once() -> None:
    """Of 300 series, looked at after each of 400 observations, at most the share allowed is ever refuted."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(300):
        x = rng.choice([0.0, 0.0, 0.0, 1.0, 5.0], size=400)
        bar = np.log(2.0 / 0.1)
        wrong += against(x, 1.2, 0.0, bar).when is not None or against(-x, -1.2, -5.0, bar).when is not None
    assert wrong <= 0.1 * 300


# -- a policy -----------------------------------------------------------------------------------------------------


def test_what_is_as_promised_raises_no_alarm() -> None:
    alarms = [conrl.monitor(PLAN, log_of(MACHINE, PLAN, 300, seed)).alarm for seed in range(40)]
    assert sum(alarms) <= 2  # 5% of them, ever


def test_a_world_that_fails_more_often_is_noticed() -> None:
    log = log_of(machine(0.4), PLAN.policy, 1500, 0)
    found = conrl.monitor(PLAN, log)
    failures = found.totals[1]
    assert found.alarm
    assert failures.name == "failures"
    assert failures.over_since is not None
    assert failures.verdict == f"limit not kept (since episode {failures.over_since})"
    assert failures.low > failures.promised
    assert failures.odds > 1000.0
    cut = conrl.monitor(PLAN, replace(log, episodes=log.episodes[: failures.over_since - 1]))
    assert cut.totals[1].over_since is None
    again = conrl.monitor(PLAN, replace(log, episodes=log.episodes[: failures.over_since]))
    assert again.totals[1].over_since == failures.over_since
    truth = conrl.evaluate(machine(0.4), PLAN.policy).value
    for total, value in zip(found.totals, truth, strict=True):
        assert total.low <= value <= total.high


def test_fewer_failures_are_noticed_too_and_no_limit_is_broken() -> None:
    found = conrl.monitor(PLAN, log_of(machine(0.02), PLAN.policy, 3000, 1))
    failures = found.totals[1]
    assert failures.over_since is None
    assert failures.off_since is not None
    assert failures.verdict.startswith("lower than promised")


def test_the_means_are_those_of_the_episodes() -> None:
    log = log_of(MACHINE, PLAN, 50, 2)
    found = conrl.monitor(PLAN, log)
    totals = np.array([e.total for e in log.episodes])
    np.testing.assert_allclose([t.mean for t in found.totals], totals.mean(axis=0))
    np.testing.assert_allclose([t.promised for t in found.totals], np.append(PLAN.reward, PLAN.costs))
    assert [t.limit for t in found.totals] == [None, 0.3, None]
    assert found.episodes == 50
    assert found.odd.steps == 0
    assert found.odd.of == 400
    assert "reward as promised, failures as promised" in repr(found)


def test_costs_states_and_actions_are_matched_by_name(tmp_path: Path) -> None:
    """The log has them in another order."""
    log = log_of(MACHINE, PLAN, 60, 3)
    flipped = conrl.Log(
        tuple(
            conrl.Episode(2 - e.states, 1 - e.actions, e.rewards, e.costs[:, ::-1], e.terminated) for e in log.episodes
        ),
        ("hours", "failures"),
        ("broken", "worn", "new"),
        ("repair", "run"),
    )
    one, other = conrl.monitor(PLAN, log), conrl.monitor(PLAN, flipped)
    assert one.totals == other.totals
    assert other.odd.steps == 0
    conrl.save_episodes(tmp_path / "log.csv", flipped)
    PLAN.save(tmp_path / "p.json")
    assert conrl.monitor(tmp_path / "p.json", tmp_path / "log.csv").totals == one.totals
    with pytest.raises(conrl.ModelError, match="unknown cost of the policy 'failures'; known: hours, faults"):
        conrl.monitor(PLAN, replace(flipped, cost_names=("hours", "faults")))
    with pytest.raises(conrl.ModelError, match="unknown state of the log 'gone'"):
        conrl.monitor(PLAN, replace(flipped, state_names=("gone", "worn", "new")))
    with pytest.raises(conrl.ModelError, match="unknown cost of the policy 'failures'; did you mean 'failure'"):
        conrl.monitor(PLAN, replace(flipped, cost_names=("hours", "failure")))
    file = replace(file_of(PLAN), cost_names=("failures", "heat"))
    with pytest.raises(conrl.ModelError, match="unknown cost of the policy 'heat'"):
        conrl.monitor(file, flipped)
    paid = tuple(
        conrl.Episode(e.states, e.actions, e.rewards, np.column_stack((e.costs, e.rewards))) for e in log.episodes
    )
    with pytest.raises(conrl.ModelError, match="the policy says nothing about cost 'noise'"):
        conrl.monitor(PLAN, replace(log, episodes=paid, cost_names=(*log.cost_names, "noise")))


def test_numbers_as_names() -> None:
    """States called 10, 20, 30 are those numbers in a log without names; with other names, numbers are positions."""
    log = log_of(MACHINE, PLAN, 40, 3)
    tens = conrl.ConstrainedMDP(
        MACHINE.transitions,
        MACHINE.rewards,
        MACHINE.costs,
        horizon=8,
        state_names=["10", "20", "30"],
        cost_names=["failures", "hours"],
    )
    numbered = tuple(conrl.Episode(10 + 10 * e.states, e.actions, e.rewards, e.costs) for e in log.episodes)
    file = replace(conrl.PolicyFile.named(PLAN.policy, tens), promise=file_of(PLAN).promise)
    found = conrl.monitor(file, conrl.Log(numbered, ("failures", "hours")))
    assert found.odd.steps == 0
    assert found.totals[1].mean == conrl.monitor(PLAN, log).totals[1].mean
    plain = conrl.Log(log.episodes, ("failures", "hours"))
    assert conrl.monitor(PLAN, plain).totals == conrl.monitor(PLAN, log).totals
    with pytest.raises(conrl.ModelError, match="unknown state of the log '0'"):
        conrl.monitor(file, plain)
    with pytest.raises(conrl.ModelError, match=r"the log has state 30; the policy has states 0\.\.2"):
        conrl.monitor(PLAN, conrl.Log(numbered, ("failures", "hours")))


def test_numbers_beside_names_are_names_to_monitor_and_assess_alike() -> None:
    """States end, 0, 1: a log that never comes to `end` has numbers alone, which are names and not positions."""
    P = np.zeros((3, 2, 3))
    P[0, :, 0] = 1.0
    P[1:, :, 1:] = 0.5
    rewards = [[7.0, 0.0], [1.0, 0.0], [0.0, 1.0]]  # `0` needs the first action, `1` the second
    mdp = conrl.ConstrainedMDP(P, rewards, None, 4, 1, state_names=["end", "0", "1"])
    plan = conrl.plan(mdp)

    def numbers(policy: Any) -> conrl.Log:
        log = conrl.sample_log(mdp, policy, 200, seed=0)
        return conrl.Log(tuple(conrl.Episode(e.states - 1, e.actions, e.rewards, e.costs) for e in log.episodes), ())

    found = conrl.monitor(plan, numbers(plan))
    assert (found.odd.steps, found.alarm) == (0, False)
    assert conrl.assess(plan, numbers(conrl.Policy(np.full((4, 3, 2), 0.5))), draws=20).mean.reward == pytest.approx(
        4.0, abs=0.1
    )


def test_a_long_list_of_names_is_cut_and_searched_to_its_end() -> None:
    names = [f"room {i:04}" for i in range(1000)]
    with pytest.raises(conrl.ModelError, match="did you mean 'room 0999'"):
        places_of(["room 999"], names, "state")
    with pytest.raises(conrl.ModelError, match=r"known: room 0000, .*, room 0029, and 970 more$"):
        places_of(["x"], names, "state")
    file = conrl.PolicyFile(conrl.Stationary(np.ones((1000, 1))), conrl.Average(), tuple(names), ("go",))
    with pytest.raises(conrl.SpecError, match="did you mean 'room 0999'"):
        file.choices(0, "room 999")


def test_what_somebody_else_played_is_counted() -> None:
    log = log_of(MACHINE, PLAN, 20, 4)
    wrong = 0
    episodes: list[conrl.Episode] = []
    for e in log.episodes:
        actions = np.array(e.actions)
        new = np.flatnonzero(e.states[:-1] == 0)[:1]
        assert (PLAN.policy.probabilities[new, 0, 1] == 0.0).all()  # nobody repairs what is new
        actions[new] = 1
        wrong += new.size
        episodes.append(conrl.Episode(e.states, actions, e.rewards, e.costs))
    found = conrl.monitor(PLAN, replace(log, episodes=tuple(episodes)))
    assert found.odd.steps == wrong == 20
    assert found.odd.first == "episode 1, step 0: state 'new', action 'repair'"
    assert (found.verdict, found.alarm) == ("not this policy", True)
    assert "20 of 160 steps are not the policy's" in repr(found)


def test_what_the_model_rules_out() -> None:
    """Other first states, by the policy's file; transitions of probability 0, by the plan's model."""
    log = log_of(MACHINE, PLAN, 30, 4)
    assert file_of(PLAN).start == "new"
    late = replace(log, episodes=tuple(log_of(MACHINE.replace(initial=2), PLAN.policy, 20, 1).episodes))
    for policy in (PLAN, file_of(PLAN)):
        found = conrl.monitor(policy, replace(late, episodes=late.episodes))
        assert found.strange.told == ("20 of 20 episodes begin in 'broken', not in 'new'",)
        assert found.odd.steps or (found.verdict, found.alarm) == ("not the model", True)
    assert conrl.monitor(PLAN, log).strange.told == ()
    e = log.episodes[2]
    states = np.array(e.states)
    h = int(np.flatnonzero((states[:-1] == 0) & (e.actions == 0))[-1])
    states = np.concatenate((states[: h + 1], [2]))
    jump = conrl.Episode(states, e.actions[: h + 1], e.rewards[: h + 1], e.costs[: h + 1])
    found = conrl.monitor(PLAN, replace(log, episodes=(*log.episodes[:2], jump)))
    assert found.strange.transitions == 1
    assert f"episode 3, step {h}: from 'new' by 'run' to 'broken'" in found.strange.told[0]
    assert found.verdict == "not the model"
    assert "not the model" in repr(found)
    ended = conrl.Episode(states, e.actions[: h + 1], e.rewards[: h + 1], e.costs[: h + 1], terminated=True)
    assert conrl.monitor(PLAN, replace(log, episodes=(*log.episodes[:2], ended))).strange.transitions == 0


def test_an_unfinished_episode_is_left_out() -> None:
    log = log_of(MACHINE, PLAN, 10, 5)
    cut = conrl.Episode(log.episodes[0].states[:4], log.episodes[0].actions[:3], [0.0] * 3, np.zeros((3, 2)))
    ended = conrl.Episode(cut.states, cut.actions, [0.0] * 3, np.zeros((3, 2)), terminated=True)
    found = conrl.monitor(PLAN, replace(log, episodes=(*log.episodes, cut)))
    assert (found.episodes, found.left_out) == (10, 1)
    waiting = conrl.monitor(PLAN, replace(log, episodes=(*log.episodes[:4], cut, *log.episodes[4:])))
    assert (waiting.episodes, waiting.left_out) == (4, 7)
    assert waiting.stuck == (5, 3, 6)
    assert (waiting.verdict, waiting.alarm) == ("cannot tell", True)
    assert "stuck at episode 5: it has not ended after 3 steps, and 6 episodes after it wait" in repr(waiting)
    assert (found.stuck, found.alarm) == (None, False)  # it goes on
    given = conrl.monitor(PLAN, replace(log, episodes=(*log.episodes[:4], cut, *log.episodes[4:], cut)), give_up=True)
    assert (given.episodes, given.left_out, given.given_up, given.stuck) == (10, 1, 1, None)
    with pytest.raises(conrl.SpecError, match="give_up is 'yes'"):
        conrl.monitor(PLAN, log, give_up="yes")  # type: ignore[arg-type]
    assert conrl.monitor(PLAN, replace(log, episodes=(*log.episodes, ended))).episodes == 11
    long = log_of(MACHINE.replace(horizon=9), conrl.plan(MACHINE.replace(horizon=9)), 1, 0)
    with pytest.raises(conrl.ModelError, match="an episode of 9 steps; the policy has 8"):
        conrl.monitor(PLAN, long)


def test_a_log_that_grows_is_no_reason_for_an_alarm() -> None:
    """Episodes begin every day, and some end at once: looked at every fourth day, the short ones are not counted
    before the long ones that began with them."""
    P = np.zeros((3, 1, 3))
    P[0, 0], P[1, 0, 1], P[2, 0, 2] = [0.0, 0.5, 0.5], 1.0, 1.0
    costs = np.zeros((3, 1, 1))
    costs[1] = 0.1
    mdp = conrl.ConstrainedMDP(P, np.zeros((3, 1)), costs, horizon=50, cost_names=["c"])
    plan, rng, alarms = conrl.plan(mdp), np.random.default_rng(0), 0
    for _ in range(20):
        long = rng.random(120) < 0.5
        alarm = False
        for today in range(4, 121, 4):
            episodes = []
            for day in range(today):
                steps = min(today - day, 50) if long[day] else 1
                states = [0, *([1] * steps if long[day] else [2])]
                paid = [0.0] + [0.1] * (steps - 1)
                episodes.append(conrl.Episode(states, [0] * steps, [0.0] * steps, paid, terminated=not long[day]))
            found = conrl.monitor(plan, conrl.Log(tuple(episodes), ("c",)))
            alarm |= found.alarm
            assert found.episodes + found.left_out == today
            assert found.stuck is None
        alarms += alarm
    assert alarms <= 1


def test_rounding_in_a_log_is_no_alarm() -> None:
    """Sums that cancel, float32, and six decimals."""
    pay = np.array([[0.1], [0.2], [-0.3], [0.0]])
    P = np.zeros((4, 1, 4))
    P[np.arange(4), 0, np.minimum(np.arange(4) + 1, 3)] = 1.0
    mdp = conrl.ConstrainedMDP(P, pay, pay[:, :, None], horizon=4)
    plan = conrl.plan(mdp)
    log = log_of(mdp, plan, 40, 0)
    assert not conrl.monitor(plan, log).alarm
    ways: list[Callable[[Float], Float]] = [
        lambda x: np.round(x / 3.0, 6) * 3.0,
        lambda x: x.astype(np.float32).astype(np.float64),
    ]
    for rounded in ways:
        episodes = tuple(conrl.Episode(e.states, e.actions, rounded(e.rewards), rounded(e.costs)) for e in log.episodes)
        assert not conrl.monitor(plan, replace(log, episodes=episodes)).alarm


def test_a_floor_that_is_not_kept() -> None:
    plan = conrl.plan(MACHINE, conrl.Linear(None, floors={"hours": 4.0}))
    found = conrl.monitor(plan, log_of(MACHINE, PLAN.policy, 400, 0))
    assert found.totals[2].verdict.startswith("floor not kept")


def test_nothing_is_left_that_could_be_the_mean() -> None:
    """A mean that changes: everything is refuted, at some time."""
    x = np.array([1.0] * 60 + [0.0] * 200)
    low, high = interval(x, 0.0, 1.0, 0.05)
    assert low > high
    episodes = tuple(conrl.Episode([0, 0], [0], [v], np.zeros((1, 1))) for v in x)
    mdp = conrl.ConstrainedMDP(np.ones((1, 1, 1)), [[0.5]], [[[0.0]]], horizon=1)
    found = conrl.monitor(conrl.plan(mdp), conrl.Log(episodes, ("cost",)), ranges={"reward": (0.0, 1.0)})
    assert np.isnan(found.totals[0].low)
    assert found.alarm


def test_a_total_that_the_model_cannot_pay() -> None:
    log = log_of(MACHINE, PLAN, 10, 6)
    e = log.episodes[3]
    costs = np.array(e.costs)
    costs[0, 0] = 50.0
    episodes = (*log.episodes[:3], conrl.Episode(e.states, e.actions, e.rewards, costs), *log.episodes[4:])
    found = conrl.monitor(PLAN, replace(log, episodes=episodes))
    assert found.alarm
    assert found.totals[1].beyond == 3
    assert found.totals[1].verdict == "outside the model"
    assert found.verdict == "outside the model"
    assert found.totals[1].odds < 1e6
    assert found.totals[1].off_since is None
    (outside,) = found.outside
    assert outside[1].startswith("failures: episode 4 paid what the model cannot pay, 0 to ")
    assert "seen so far: 0 to 5" in found._repr_html_()
    assert found.totals[0].beyond is None
    told = conrl.monitor(PLAN, replace(log, episodes=episodes), ranges={"failures": (0.0, 100.0)})
    assert told.totals[1].beyond is None


def test_nothing_was_played_yet() -> None:
    found = conrl.monitor(PLAN, conrl.Log((), ("failures", "hours"), MACHINE.state_names, MACHINE.action_names))
    assert not found.alarm
    assert np.isnan(found.totals[0].mean)


def test_a_policy_that_acts_on_what_was_spent() -> None:
    plan = conrl.plan(MACHINE, conrl.Linear(None, never={"failures": 1.0}))
    log = played_log(plan, 300)
    found = conrl.monitor(plan, log)
    assert found.odd.steps == 0
    assert not found.alarm
    other = log_of(MACHINE, conrl.plan(machine()), 300, 0)
    assert conrl.monitor(plan, other).odd.steps > 0
    assert conrl.monitor(plan, other).totals[1].beyond is not None


def test_skipped_episodes_and_budgets() -> None:
    """The log has those that were played; the limit is of all."""
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    least = conrl.feasibility(mdp).least[0]
    plan = conrl.plan(mdp, conrl.Knapsack([50.0 * least], 100))
    log = log_of(mdp, plan.policy, 400, 1)
    found = conrl.monitor(plan, log)
    assert found.totals[1].promised == pytest.approx(plan.costs[0] / (1.0 - plan.skip))
    assert found.totals[1].promised > plan.rows[0].bound
    assert not found.alarm


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": 0.0}, "alpha is 0.0"),
        ({"alpha": "x"}, "alpha is 'x'"),
        ({"ranges": {"falures": (0, 1)}}, "did you mean 'failures'"),
        ({"ranges": {"failures": (1, 1)}}, "expected least, most"),
        ({"ranges": {"failures": 3}}, "expected least, most"),
        ({"log": [1]}, "expected a Log"),
        ({"policy": PLAN.policy}, "expected a Plan, a PolicyFile"),
        ({"policy": "policy.csv"}, "watched from [.]json"),
        ({"policy": conrl.PolicyFile.named(PLAN.policy, MACHINE)}, "without a promise"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"policy": PLAN, "log": log_of(MACHINE, PLAN, 3, 0)} | given
    with pytest.raises(conrl.SpecError, match=message):
        conrl.monitor(call.pop("policy"), call.pop("log"), **call)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PLAN.save("p.json")
    conrl.save_episodes("good.csv", log_of(MACHINE, PLAN, 200, 0))
    conrl.save_episodes("bad.csv", log_of(machine(0.4), PLAN.policy, 1500, 0))
    assert "verdict   as promised" in ok("monitor", "p.json", "good.csv")
    found = record("monitor", "p.json", "good.csv", "--alpha", "0.01", "--range", "failures=0,8")
    assert found["alarm"] is False
    assert [row["name"] for row in found["totals"]] == ["reward", "failures", "hours"]
    bad = run("monitor", "p.json", "bad.csv")
    assert bad.exit_code == 5
    assert "verdict   not as promised" in bad.stdout
    assert "limit not kept (since episode" in bad.stdout
    assert "--alpha: alpha is 2" in refused("monitor", "p.json", "good.csv", "--alpha", "2")
    assert "--range falures: unknown total" in refused("monitor", "p.json", "good.csv", "--range", "falures=0,1")


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PLAN.save("p.json")
    conrl.save_episodes("log.csv", log_of(MACHINE, PLAN, 50, 0))
    text = Path("log.csv").read_bytes()
    last = len(text.rstrip(b"\n").rsplit(b"\n", 1)[1])
    whole = record("monitor", "p.json", "log.csv")
    assert (whole["episodes"], whole["unfinished"]) == (50, 0)
    for cut in (1, 2, last // 2, last):
        Path("log.csv").write_bytes(text[:-cut])
        found = record("monitor", "p.json", "log.csv")
        assert (found["episodes"], found["left_out"], found["unfinished"], found["alarm"]) == (49, 1, 1, False)
        assert "not read  1 line at the end: not finished" in ok("monitor", "p.json", "log.csv")
        assert conrl.monitor("p.json", "log.csv").unfinished == 1
    Path("log.csv").write_bytes(text + "50,0,ü".encode()[:-1])
    assert record("monitor", "p.json", "log.csv")["episodes"] == 50
    Path("log.csv").write_bytes(text[:-1])
    assert "he last line has no line end" in ok("check", "log.csv")
    assert len(conrl.load_episodes("log.csv").episodes) == 50


def test_what_the_command_says_of_a_log_that_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PLAN.save("p.json")
    log = log_of(MACHINE, PLAN, 40, 0)
    e = log.episodes[4]
    cut = conrl.Episode(e.states[:4], e.actions[:3], e.rewards[:3], e.costs[:3])
    conrl.save_episodes("stuck.csv", replace(log, episodes=(*log.episodes[:4], cut, *log.episodes[5:])))
    found = run("monitor", "p.json", "stuck.csv")
    assert found.exit_code == 5
    assert "verdict   cannot tell" in found.stdout
    assert "stuck     at episode 5: it has not ended after 3 steps, and 35 episodes after it wait" in found.stdout
    given = record("monitor", "p.json", "stuck.csv", "--give-up")
    assert (given["verdict"], given["episodes"], given["given_up"]) == ("as promised", 39, 1)
    assert "given up  1 episode" in ok("monitor", "p.json", "stuck.csv", "--give-up")
    other = tuple(conrl.Episode(e.states, np.ones_like(e.actions), e.rewards, e.costs) for e in log.episodes)
    conrl.save_episodes("other.csv", replace(log, episodes=other))
    found = run("monitor", "p.json", "other.csv")
    assert (found.exit_code, "verdict         not this policy" in found.stdout) == (5, True)
    scatter = np.random.default_rng(0).uniform(0.8, 1.2, (40, 1))
    paid = [
        conrl.Episode(e.states, e.actions, e.rewards * x, e.costs) for e, x in zip(log.episodes, scatter, strict=True)
    ]
    conrl.save_episodes("scatter.csv", replace(log, episodes=tuple(paid)))
    found = run("monitor", "p.json", "scatter.csv")
    assert found.exit_code == 5
    assert "verdict   outside the model" in found.stdout
    assert "1 in a million" not in found.stdout
    assert "--range reward=LEAST,MOST (seen so far: " in found.stdout
    assert record("monitor", "p.json", "scatter.csv", "--range", "reward=-200,200")["verdict"] == "as promised"


def test_a_cost_may_be_called_reward() -> None:
    P = np.array([[[0.5, 0.5]], [[1.0, 0.0]]])
    R, C = np.array([[[100.0, 100.0]], [[50.0, 0.0]]]), np.array([[[0.0, 1.0]], [[0.0, 0.0]]])[..., None]
    mdp = conrl.ConstrainedMDP(P, R, C, horizon=5, cost_names=["reward"])
    plan = conrl.plan(mdp, {"reward": 3.0})
    assert not conrl.monitor(plan, conrl.sample_log(mdp, plan, 200, seed=0)).alarm
    with pytest.raises(conrl.SpecError, match="a cost is called 'reward', too"):
        conrl.monitor(plan, conrl.sample_log(mdp, plan, 2, seed=0), ranges={"reward": (0, 1)})


def test_rounding_in_a_log_is_not_another_policy() -> None:
    """0.1 + 0.2 is the 0.3 that a policy counts; so is 0.33333333 where it counts ninths."""
    for unit, noisy in ((0.1, 0.1 + 0.2), (1.0 / 9.0, 0.33333333)):
        mdp = conrl.ConstrainedMDP.from_outcomes(
            [0, 0, 0], [0, 0, 1], [0, 0, 0], [0.5, 0.5, 1.0], [[1.0, unit], [1.0, 3 * unit], [0.0, 0.0]],
            num_states=1, num_actions=2, horizon=4, initial=0, cost_names=["c"],
        )  # fmt: skip
        plan = conrl.plan(mdp, conrl.Linear(never={"c": 6 * unit}))
        log = played_log(plan, 50)
        rough = [
            conrl.Episode(e.states, e.actions, e.rewards, np.where(np.isclose(e.costs, 3 * unit), noisy, e.costs))
            for e in log.episodes
        ]
        assert any((e.costs == noisy).any() for e in rough)
        assert conrl.monitor(plan, replace(log, episodes=tuple(rough))).odd.steps == 0
        spent = file_of(plan)
        assert spent.choices(2, "0", spent=noisy) == spent.choices(2, "0", spent=3 * unit)
        assert spent.choices(2, "0", spent=2.5 * unit) == spent.choices(2, "0", spent=3 * unit)  # rounded up


ONE = conrl.ConstrainedMDP.from_outcomes(  # one state, one action; a step costs 1 in one of ten
    [0, 0], [0, 0], [0, 0], [0.9, 0.1], [[1.0, 0.0], [1.0, 1.0]],
    num_states=1, num_actions=1, horizon=10, initial=0, cost_names=["c"],
)  # fmt: skip


def test_what_was_refuted_stays_refuted() -> None:
    """An episode that the model cannot pay comes on top of what was known before."""
    plan = conrl.plan(ONE, {"c": 1.0})

    def episode(costs: list[float]) -> conrl.Episode:
        return conrl.Episode([0] * 11, [0] * 10, [1.0] * 10, costs)

    often = [episode([1.0] * 3 + [0.0] * 7)] * 60
    before, after = (
        conrl.monitor(plan, conrl.Log(tuple(e), ("c",))).totals[1] for e in (often, [*often, episode([2.0] * 10)])
    )
    assert before.over_since is not None
    assert (after.off_since, after.over_since, after.beyond) == (before.off_since, before.over_since, 60)
    assert after.verdict == f"{before.verdict}; outside the model"


def test_limits_are_of_an_episode_that_is_played() -> None:
    """Where others are skipped, more may be spent in it."""
    plan = conrl.plan(ONE, conrl.Knapsack({"c": 5.0}, 10))
    assert plan.skip == pytest.approx(0.5)
    found = conrl.monitor(plan, conrl.sample_log(ONE, plan.policy, 50, seed=1))
    assert found.skip == plan.skip
    assert found.totals[1].limit == pytest.approx(1.0)
    assert "episodes are skipped" in found._repr_html_()


def test_a_promise_without_ends_cannot_be_watched() -> None:
    file = file_of(PLAN)
    assert file.promise is not None
    bare = replace(file, promise=file.promise._replace(least=None, most=None))
    with pytest.raises(conrl.SpecError, match="does not say what an episode can pay"):
        conrl.monitor(bare, conrl.sample_log(MACHINE, PLAN, 5, seed=0))

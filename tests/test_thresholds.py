"""A threshold means a total but for the rounding of sums in doubles: for plans, distributions, learners, guards, files.

Episodes are enumerated here, and what they cost is added up exactly, in fractions of the doubles. Costs are drawn so
that totals are the same but for rounding, or differ by much more; no test knows the bound but the one of the bound.
"""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank import chain, still

import conrl
from conrl.model.counting import Sums, simplest
from conrl.running import ModelWorld

SAME = Fraction(1, 10**12)  # of the largest total: what is that near is the same but for rounding


def drawn(rng: np.random.Generator, kind: str, scale: float) -> tuple[conrl.ConstrainedMDP, conrl.Policy]:
    """A small model and a policy that draws."""
    S, A, H = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(1, 5))
    costs: Any = rng.random((S, A, 1))
    if kind == "signed":
        costs -= 0.5
    elif kind == "tenths":
        costs = rng.integers(0, 4, (S, A, 1)) * 0.1
    elif kind == "integers":
        costs = rng.integers(-2, 5, (S, A, 1)).astype(float)
    mdp = conrl.ConstrainedMDP(rng.dirichlet(np.ones(S), (S, A)), rng.random((S, A)), costs * scale, H)
    return mdp, conrl.Policy(rng.dirichlet(np.ones(A), (H, S)))


def episodes(mdp: conrl.ConstrainedMDP, policy: conrl.Policy) -> list[tuple[float, list[float]]]:
    """The probability of each episode, and what its steps cost."""
    P = mdp.transitions.toarray().reshape(mdp.num_states, mdp.num_actions, mdp.num_states)
    table: dict[tuple[int, tuple[float, ...]], float] = {(s, ()): float(p) for s, p in enumerate(mdp.initial)}
    for h in range(mdp.horizon):
        then: dict[tuple[int, tuple[float, ...]], float] = {}
        for (s, paid), p in table.items():
            for a, t in itertools.product(range(mdp.num_actions), range(mdp.num_states)):
                key = t, tuple(sorted((*paid, float(mdp.costs[s, a, 0]))))
                then[key] = then.get(key, 0.0) + p * policy.probabilities[h, s, a] * P[s, a, t]
        table = then
    return [(p, list(paid)) for (_, paid), p in table.items() if p > 0.0]


def above(ends: list[tuple[float, list[float]]], total: Fraction) -> float:
    """The probability of a larger total."""
    exact = [sum(map(Fraction, paid), Fraction(0)) for _, paid in ends]
    largest = max(map(abs, exact))
    return sum(p for (p, _), x in zip(ends, exact, strict=True) if x > total + SAME * largest)


CASES = [
    ("full", 1.0),
    ("full", 1e-9),
    ("full", 1e9),
    ("signed", 1.0),
    ("signed", 1e9),
    ("tenths", 1.0),
    ("integers", 1.0),
]


@pytest.mark.parametrize(("kind", "scale"), CASES)
def test_what_a_distribution_reports_is_its_own_threshold(kind: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        mdp, policy = drawn(rng, kind, scale)
        found, reward = conrl.distribution(mdp, policy), conrl.evaluate(mdp, policy).reward
        q = float(rng.choice([0.0, 0.5, 0.9, 0.95]))
        assert found.exceed(found.most) == 0.0
        assert found.exceed(found.quantile(q)) <= 1.0 - q + 1e-12
        assert found.quantile(1.0) == found.most
        for asked in (
            conrl.Linear(never=[found.most]),
            conrl.Linear(chance=[(found.quantile(q), 1.0 - q)]),
            conrl.Linear(cvar=[(q, found.cvar(q))]),
            conrl.Linear(cvar=[(q, found.most)]),
        ):
            plan = conrl.plan(mdp, asked)
            assert plan.status == "optimal"
            assert plan.objective >= reward - 1e-8
            assert all(row.excess <= row.allowance for row in plan.rows)


@pytest.mark.parametrize(("kind", "scale"), CASES)
def test_every_sum_of_an_episode_is_its_threshold(kind: str, scale: float) -> None:
    """Forwards, backwards, shuffled and exactly rounded; what is really more is excluded."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        mdp, policy = drawn(rng, kind, scale)
        found, ends = conrl.distribution(mdp, policy), episodes(mdp, policy)
        for k in rng.choice(len(ends), size=min(len(ends), 8), replace=False):
            paid = ends[k][1]
            want = above(ends, sum(map(Fraction, paid), Fraction(0)))
            for order in (paid, paid[::-1], rng.permutation(paid).tolist()):
                for threshold in (sum(order), float(np.sum(order)), sum(order[::2]) + sum(order[1::2])):
                    assert found.exceed(threshold) == pytest.approx(want, abs=1e-12)


def test_never_the_sum_of_two_costs() -> None:
    rng = np.random.default_rng(2)
    for _ in range(300):
        a, b = rng.random(2) * 10.0 ** rng.integers(-9, 10)
        mdp = conrl.ConstrainedMDP(
            np.eye(2)[None, [1, 1]].transpose(1, 0, 2), [[0.0], [0.0]], [[[a]], [[b]]], 2, initial=0
        )
        assert conrl.feasibility(mdp, conrl.Linear(never=[a + b])).feasible
        assert not conrl.feasibility(mdp, conrl.Linear(never=[(a + b) * (1.0 - 1e-13)])).feasible


def test_a_year_of_days() -> None:
    year = still([0.0, 1.0], [0.0, 1 / 365], 120)
    plan = conrl.plan(year, conrl.Linear(never=[sum([1 / 365] * 100)]))
    assert plan.reward == 100.0
    assert plan.rows[0].excess <= plan.rows[0].allowance


def test_the_next_lower_total_excludes_the_larger() -> None:
    """Of costs that differ by a hair more than rounding, too."""
    rng = np.random.default_rng(3)
    for hair in (1e-3, 1e-9, 1e-13):
        for _ in range(20):
            low = rng.random() * 10.0 ** rng.integers(-9, 10)
            costs = [low, low * (1.0 + hair)]
            plan = conrl.plan(still([0.0, 1.0], costs, 5), conrl.Linear(never=[sum([costs[0]] * 3 + [costs[1]] * 2)]))
            assert plan.reward == pytest.approx(2.0, abs=1e-9)


def test_the_bound_is_that_of_the_page() -> None:
    """docs/how-to/single-episodes.md; and sums of doubles in any order are within a quarter of it."""
    rng = np.random.default_rng(4)
    for steps in (1, 7, 100, 1000):
        costs = rng.random(steps) * rng.choice([1.0, 1e-6, 3.0], steps)
        exact = sum(map(Fraction, costs.tolist()), Fraction(0))
        for order in (np.sort(costs), np.sort(costs)[::-1], costs):
            m = float(np.cumsum(order)[-1])
            assert Sums(steps).reach(m) == Fraction(m) + Fraction(steps + 2, 2**51) * Fraction(m)
            assert 4 * abs(exact - Fraction(m)) <= Sums(steps).reach(m) - Fraction(m)
        assert Sums.of(steps, -0.25, 0.5).reach(0.0) == Fraction(steps + 2, 2**51) * steps / 2
        assert Sums.of(steps, -0.25, 0.0).reach(0.0) == 0
    for x in rng.random(100):
        assert Sums(1).reach(float(simplest(x))) >= simplest(x)


def test_on_a_grid_too() -> None:
    """Totals on the grid, as a user adds them up."""
    rng = np.random.default_rng(5)
    mdp = still([0.0, 1.0, 1.5], np.append(0.0, rng.random(2)), 6)
    for steps in range(1, 7):
        plan = conrl.plan(mdp, conrl.Linear(never=[sum([0.1] * (10 * steps))], grid=0.1))
        other = conrl.plan(mdp, conrl.Linear(never=[float(steps)], grid=0.1))
        assert plan.reward == pytest.approx(other.reward)


# -- what else counts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0.1, 1 / 365, 0.8132702392002724])
def test_learners_play_as_many_steps_as_plans(step: float) -> None:
    """And no more: of ten steps, those that fit."""
    mdp = still([0.0, 1.0], [0.0, step], 10, can_stop=True)
    for steps in range(11):
        for most in (sum([step] * steps), steps * step, float(steps * simplest(step))):
            asked = conrl.Linear(never=[most])
            plan = conrl.plan(mdp, asked)
            assert plan.reward == pytest.approx(steps)
            learner = conrl.ConRL(mdp.task, problem=asked)
            assert [learner.may_step([sum([step] * k)]) for k in range(11)] == [k < steps for k in range(11)]
            played = conrl.simulate(mdp, plan, 3)
            assert played.exceed([most]).tolist() == [0.0]
            costly = ModelWorld(mdp).play(
                conrl.Deterministic(np.ones((10, 1), dtype=int), 2), np.random.default_rng(0), learner.room()
            )
            assert len(costly) == steps
            budget = conrl.ConRL(mdp.task, problem=conrl.Knapsack([most], 1))
            assert [budget.may_step([sum([step] * k)]) for k in range(11)] == [k < steps for k in range(11)]


def test_a_learner_uses_up_what_never_allows() -> None:
    mdp = still([0.0, 1.0], [0.0, 0.1], 10, can_stop=True)
    history = conrl.learn(mdp, conrl.ConRL(mdp.task, problem=conrl.Linear(never=[0.3])), 20, seed=0)
    assert history.costs.max() == pytest.approx(0.3, abs=1e-15)


def test_what_the_budget_would_have_been_without_a_guard() -> None:
    mdp = still([0.0, 1.0], [0.0, 0.1], 1)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([0.3], 3), guard=False)
    learner.prime([conrl.Episode([0, 0], [1], [1.0], [[0.1]])])
    history = conrl.learn(mdp, learner, 3)
    assert history.costs.sum() > 0.3  # in doubles
    assert history.would_exceed is not None
    assert history.would_exceed.tolist() == [False]


def test_a_policy_file_knows_amounts_that_were_added_up(tmp_path: Path) -> None:
    """Costs without a common unit, by a service that adds up doubles: everywhere it acts as planned."""
    rng = np.random.default_rng(6)
    P, costs = rng.dirichlet(np.ones(2), (2, 2)), rng.random((2, 2, 1))
    mdp = conrl.ConstrainedMDP(P, rng.random((2, 2)), costs, 5, initial=0)
    most = conrl.distribution(mdp, conrl.plan(mdp).policy).quantile(0.6)
    conrl.plan(mdp, conrl.Linear(never=[most])).save(tmp_path / "never.json")
    file = conrl.PolicyFile.load(tmp_path / "never.json")
    for seed in range(30):
        generator, state, spent = np.random.default_rng(seed), 0, 0.0
        playing = file.begin(generator)
        own: Any = file.nothing_spent(playing)
        for h in range(5):
            assert file.planned(h, str(state), playing, {"cost": spent})
            assert file.planned(h, str(state), playing, json.loads(json.dumps(own)))
            action = int(file.act(h, str(state), generator, playing, {"cost": spent}))
            spent += costs[state, action, 0]
            own = file.spend(own, {"cost": costs[state, action, 0]}, playing)
            state = int(generator.random() < P[state, action, 1])
        assert spent <= most * (1.0 + 1e-14)


ODD = 0.163, 1.163, 0.9593880455018128, 1.9593880455018128, 1.0  # of a unit of 9e-12


def costs_of_steps(rng: np.random.Generator) -> Any:
    """Of a chain of steps: some with all their digits, some with few. Their common unit is near the last place of a
    total, or far below it."""
    costs = rng.permutation(2000)[: 2 * int(rng.integers(2, 5)) + 1] / 1000
    odd = rng.permutation([*rng.random(2), rng.random() * 1e-9, *np.round(rng.random(2), 12)])[: rng.integers(1, 4)]
    costs[rng.permutation(costs.size)[: odd.size]] = odd
    return costs


@pytest.mark.parametrize("signed", [False, True])
def test_a_chance_is_kept_by_whoever_adds_up_doubles(signed: bool, tmp_path: Path) -> None:
    """Every path of a chain, played by the loop of the page, from sums in doubles, and with exact amounts."""
    rng = np.random.default_rng(8)
    path = tmp_path / "chance.json"
    for n in range(40):
        costs = costs_of_steps(rng) if n else np.array(ODD)
        if signed:
            costs *= rng.choice([1.0, -1.0], costs.size)
        mdp, steps = chain(costs), costs.size // 2
        paths = list(itertools.product(*costs[:-1].reshape(steps, 2).tolist()))
        most, p = (sum(paths[rng.integers(len(paths))]), float(rng.integers(0, 5) / 4)) if n else (sum(paths[0]), 0.75)
        try:
            plan = conrl.plan(mdp, conrl.Linear(chance={"c": (most, p)}))
        except conrl.InfeasibleError:
            continue
        plan.save(path)
        file, policy = conrl.PolicyFile.load(path), plan.policy
        over = conrl.distribution(mdp, plan).exceed(most)
        above = 0.0
        for paid in paths:
            own: Any = file.nothing_spent()
            exact = told = policy.start
            for cost in paid:
                own, exact = file.spend(own, {"c": cost}), policy.spend(exact, [cost])
                told = policy.spend([float(x) for x in told], [cost])
            for spent in (own, {"c": sum(paid)}, {"c": sum(paid[::-1])}, [float(told[0])]):
                assert file.choices(steps, str(steps), spent=spent) == file.choices(steps, str(steps), spent=exact)
                assert file.planned(steps, str(steps), spent=spent)
                acted = [policy.act(steps, steps, np.random.default_rng(1), spent=x) for x in (spent, exact)]
                assert acted[0] == acted[1]
            goes = file.choices(steps, str(steps), spent=own).get("go", 0.0)
            limit = Fraction(most) + SAME * max(map(abs, map(Fraction, (most, *paid))))
            total = sum(map(Fraction, paid))
            above += (total + Fraction(costs[-1]) > limit) * goes + (total > limit) * (1.0 - goes)
        assert above / len(paths) == pytest.approx(over, abs=1e-9)
        assert over <= p + 1e-8


def test_costs_of_a_unit_below_all_doubles() -> None:
    """60 of full precision have a unit of 1e-950: what cannot be kept is explained, what can be is planned."""
    costs = 1.0 + np.random.default_rng(0).random((1, 60, 1))
    mdp = conrl.ConstrainedMDP(np.ones((1, 60, 1)), np.zeros((1, 60)), costs, 2)
    never = conrl.Linear(never=[0.5])
    cheapest = f"0: {costs.argmin()}"
    assert conrl.feasibility(mdp, never).path == (cheapest, cheapest, "0")
    with pytest.raises(conrl.InfeasibleError, match=f"an episode may come to {2.0 * costs.min() + 5e-6:.5f}"):
        conrl.plan(mdp, never)
    assert conrl.plan(mdp, conrl.Linear(never=[2.0 * costs.min()])).costs == pytest.approx(2.0 * costs.min())


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_what_is_saved_is_read(suffix: str, tmp_path: Path) -> None:
    """With a unit of a thousand digits; one of ten thousand is refused, as no file holds it."""
    path = tmp_path / f"policy{suffix}"
    costs = 1.0 + np.random.default_rng(0).random((1, 1200, 1))
    for actions in (200, 1200):
        mdp = conrl.ConstrainedMDP(np.ones((1, actions, 1)), costs[:, :actions, 0], costs[:, :actions], 1)
        plan = conrl.plan(mdp, conrl.Linear(never=[1.5]))
        if actions == 1200:
            path.unlink()
            with pytest.raises(conrl.ModelError, match=r"no common unit of less than 4,000 digits.*; plan with grid="):
                plan.save(path)
            assert not path.exists()
            continue
        plan.save(path)
        read: Any = conrl.load_policy(path)
        assert len(str(read.counter.units[0])) > 1000
        assert conrl.evaluate(mdp, read).reward == plan.reward


def test_a_simulation_reads_a_threshold_as_a_distribution_does() -> None:
    """Of costs that cancel, and of thresholds a little below a total; in the model, and as an environment."""
    for costs, most in (
        ([0.1, 0.2, -0.3], 0.0),
        ([0.1, 0.2, -0.3], -1e-12),
        ([0.1, 0.2, 0.3], 0.6),
        ([0.1, 0.2, 0.3], 0.6 - 2e-13),
        ([0.1, 0.2, 0.3], 0.6 - 1e-9),
        ([1e9, 2e9, -3e9 + 1e-6], 0.0),
    ):
        mdp = conrl.ConstrainedMDP(
            np.eye(3)[[1, 2, 0]][:, None, :], np.ones((3, 1)), np.reshape(costs, (3, 1, 1)), 3, initial=0
        )
        plan = conrl.plan(mdp)
        over = conrl.distribution(mdp, plan).exceed(most)
        for world in (mdp, conrl.envs.CMDPEnv(mdp)):
            seen = conrl.simulate(world, plan.policy, 2)
            assert seen.exceed([most]).tolist() == [over]
            assert seen.fall_short([most]).tolist() == [0.0]
            more = 1e-8 * max(map(abs, costs))
            assert (seen.fall_short([most + more]).tolist(), seen.exceed([most - more]).tolist()) == ([1.0], [1.0])


@pytest.mark.parametrize("refund", [0.1, 1e-6, 1e-9, 5e-11, 1e-13])
def test_a_probability_near_one_is_a_chance(refund: float) -> None:
    """Of a refund at any step; without one the total, 0, is above the threshold."""
    for steps in (1, 3, 20):
        mdp = conrl.ConstrainedMDP.from_outcomes(
            [0, 0], [0, 0], [0, 0], [refund, 1.0 - refund], [[1.0, -1.0], [1.0, 0.0]],
            num_states=1, num_actions=1, horizon=steps, cost_names=["c"],
        )  # fmt: skip
        p = conrl.distribution(mdp, conrl.plan(mdp)).exceed(-0.5)
        assert p == pytest.approx((1.0 - refund) ** steps, abs=1e-15)
        assert conrl.plan(mdp, conrl.Linear(chance={"c": (-0.5, p)})).status == "optimal"
        if refund > 1e-12:
            assert not conrl.feasibility(mdp, conrl.Linear(chance={"c": (-0.5, 1.0 - (1.0 - p) * 1.001)})).feasible

"""Each number of a run against its definition in plain Python; and one run says the same everywhere."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank import least_violation, middle, random_model, solve_lp
from hypothesis import given, settings
from hypothesis import strategies as st

import conrl
from conrl import metrics
from conrl._types import Float
from conrl.envs import bidding, mars_rover
from conrl.experiments import load
from conrl.experiments.report import contents
from conrl.experiments.store import learn_on_disk
from conrl.learners.appropo import ApproPO
from conrl.learners.tfw_ucrl2 import TFWUCRL2
from conrl.learners.ucbvi import UCBVI
from conrl.metrics import Scores
from conrl.model.transform import reachable_part, single_episode
from conrl.problem import tightened
from conrl.running.progress import facts
from conrl.running.rows import Row

NAN, INF = float("nan"), float("inf")
EDGE = 1e-7  # of a size: by which made-up numbers miss the edges of a definition, so that rounding decides nothing


@st.composite
def runs(draw: st.DrawFn) -> Scores:
    """A run of few numbers, so that means often are near a limit; limits of 0 and none, floors, rows of nan."""
    K, d = draw(st.integers(0, 40)), draw(st.integers(0, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def table() -> Float:
        return rng.choice([-1.0, 0.0, 0.1, 0.5, 1.0], size=(K, 1 + d))

    def holes(values: Float) -> Float:
        values[rng.uniform(size=K) < 0.3] = np.nan
        return values

    kind = draw(st.sampled_from(["seen", "exact", "guarded", "reported"]))
    return Scores(
        seen=table(),
        expected=None if kind == "seen" else holes(table()) if kind == "guarded" else table(),
        reported=holes(table()) if kind == "reported" else None,
        limits=np.array([draw(st.sampled_from([0.0, 0.3, INF])) for _ in range(d)]),
        floors=np.array([draw(st.sampled_from([-INF, -0.2, 0.0])) for _ in range(d)]),
        largest=np.array([draw(st.sampled_from([0.5, 1.0, 3.0])) for _ in range(1 + d)]),
        continuing=draw(st.booleans()),
        exploring=None if draw(st.booleans()) else rng.uniform(size=K) < draw(st.sampled_from([0.0, 0.4, 1.0])),
    )


def unknown(*values: Any) -> bool:
    return all(value is None for value in values)


def rows_of(values: Float) -> list[list[float]]:
    return [[float(x) for x in row] for row in values]


def mean(rows: list[list[float]], width: int) -> list[float]:
    known = [row for row in rows if not any(map(math.isnan, row))]
    return [math.fsum(row[i] for row in known) / len(known) if known else NAN for i in range(width)]


def slowly_smoothed(run: Scores, values: Float, window: int = 100) -> list[list[float]]:
    rows, width = rows_of(values), run.seen.shape[1]
    return rows if run.continuing else [mean(rows[max(0, k - window) : k], width) for k in range(1, len(rows) + 1)]


def slowly_executed(run: Scores) -> Float:
    table = run.seen.copy()
    for k in range(run.episodes):
        if run.expected is not None and not any(math.isnan(x) for x in run.expected[k]):
            table[k] = run.expected[k]
    return table


def out(run: Scores, costs: list[float], slack: float = EDGE) -> list[bool]:
    """Which costs are more than 10% above a limit or below a floor."""
    found = []
    for i, cost in enumerate(costs):
        limit, floor, largest = float(run.limits[i]), float(run.floors[i]), float(run.largest[1 + i])
        above = math.isfinite(limit) and cost > limit + 0.1 * (abs(limit) or largest) + slack
        below = math.isfinite(floor) and cost < floor - 0.1 * (abs(floor) or largest) - slack
        found.append(above or below)
    return found


@settings(deadline=None, max_examples=300)
@given(runs())
def test_smoothed_and_final(run: Scores) -> None:
    executed = slowly_executed(run)
    values = executed if run.reported is None else run.reported
    width = run.seen.shape[1]
    assert np.array_equal(run.executed, executed)
    assert np.array_equal(run.values, values, equal_nan=True)
    for fast, slow in (
        (run.smooth, slowly_smoothed(run, values)),
        (run.smooth_executed, slowly_smoothed(run, executed)),
        (run.smoothed(values, 3), slowly_smoothed(run, values, 3)),
        (run.averages, slowly_smoothed(run, executed, max(run.episodes, 1))),
    ):
        assert np.allclose(fast, np.reshape(slow, (run.episodes, width)), atol=1e-12, equal_nan=True)
    last = rows_of(values)[-(1 if run.continuing else max(1, round(run.episodes / 10))) :]
    assert np.allclose(run.final, mean(last, width), atol=1e-12, equal_nan=True)
    assert run.final.shape == (width,)


@settings(deadline=None, max_examples=300)
@given(runs())
def test_violations_and_solved(run: Scores) -> None:
    """By the definition; where a mean lies on an edge but for rounding, either answer will do."""
    executed = [row[1:] for row in slowly_smoothed(run, slowly_executed(run))]
    for i, share in enumerate(run.violations.tolist()):
        surely = sum(out(run, costs)[i] for costs in executed)
        perhaps = sum(out(run, costs, -EDGE)[i] for costs in executed)
        assert surely <= round(share * max(run.episodes, 1)) <= perhaps
    values = slowly_smoothed(run, run.values)
    for optimum in (0.0, 0.4, -0.5):
        low = optimum - 0.1 * (abs(optimum) or float(run.largest[0]))

        def first(slack: float, low: float = low) -> int | None:
            good = [row[0] >= low - slack and not any(out(run, row[1:], slack)) for row in values]
            lasting = [k for k in range(1, len(good) + 1) if all(good[k - 1 :])]
            return lasting[0] if lasting else None

        assert run.solved_from(optimum) in (first(EDGE), first(-EDGE))
    assert run.solved_from(None) is None


@settings(deadline=None, max_examples=300)
@given(runs(), st.sampled_from([0.0, 0.4, -0.5]))
def test_regret_and_strong_sums(run: Scores, optimum: float) -> None:
    executed = rows_of(slowly_executed(run))
    limits, floors = run.limits.tolist(), run.floors.tolist()
    got = metrics.regret(run.averages, optimum, run.limits, run.floors)
    for k, row in enumerate(slowly_smoothed(run, run.executed, max(run.episodes, 1))):
        excess = [max(c - u, lo - c) for c, u, lo in zip(row[1:], limits, floors, strict=True)]
        assert got.reward[k] == pytest.approx(optimum - row[0])
        assert got.cost[k] == pytest.approx(max(excess, default=-INF))
    violation, short = run.strong_violation, run.strong_regret(optimum)
    if run.expected is None or run.continuing or np.isnan(run.expected).any():
        assert violation is short is None
        return
    assert violation is not None
    assert short is not None
    assert violation.shape == (run.episodes, len(limits))
    for k in range(run.episodes):
        assert short[k] == pytest.approx(math.fsum(max(optimum - row[0], 0.0) for row in executed[: k + 1]))
        for i, (limit, floor) in enumerate(zip(limits, floors, strict=True)):
            costs = [row[1 + i] for row in executed[: k + 1]]
            assert violation[k, i] == pytest.approx(math.fsum(max(c - limit, 0.0, floor - c) for c in costs))


def test_nothing_cancels_in_strong_sums() -> None:
    """Above the limit and below it in turn: the regret is 0, the strong sums grow."""
    values = np.array([[2.0, 0.0], [0.0, 2.0]] * 5)
    run = Scores(
        seen=values, expected=values, limits=np.ones(1), floors=np.array([-INF]), largest=np.ones(2), continuing=False
    )
    weak = metrics.regret(run.averages, 1.0, run.limits, run.floors)
    assert weak.reward[-1] == weak.cost[-1] == 0.0
    assert run.strong_violation is not None
    assert run.strong_violation[:, 0].tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0]
    short = run.strong_regret(1.0)
    assert short is not None
    assert short.tolist() == run.strong_violation[:, 0].tolist()


# -- each policy by itself --------------------------------------------------------------------------------


def scored(costs: list[float], limit: float = 1.0, floor: float = -INF, rewards: list[float] | None = None) -> Scores:
    values = np.column_stack((np.zeros(len(costs)) if rewards is None else rewards, costs))
    limits, floors, largest = np.array([limit]), np.array([floor]), np.array([1.0, 2.0])
    return Scores(seen=values + 7.0, expected=values, limits=limits, floors=floors, largest=largest)


def shares(run: Scores | conrl.History, tolerance: float = metrics.TOLERANCE) -> list[float]:
    found = run.violating(tolerance)
    assert found is not None
    return [float(x) for x in found]


def test_last_iterate_average_and_violating_by_hand() -> None:
    run = scored([0.5, 1.5, 1.0, 1.02], rewards=[1.0, 4.0, 3.0, 2.0])
    last, average = run.last_iterate(2.75), run.average_policy(2.75)
    assert last is not None
    assert average is not None
    assert last.value.tolist() == [2.0, 1.02]
    assert last.shortfall == 0.75
    assert last.excess == pytest.approx([0.02])
    assert average.value == pytest.approx([2.5, 1.005])
    assert average.shortfall == pytest.approx(0.25)
    assert average.excess == pytest.approx([0.005])
    assert [shares(run, x) for x in (0.0, 0.01, 0.03, 0.5)] == [[0.5], [0.5], [0.25], [0.0]]
    better = run.last_iterate(1.5)
    assert better is not None
    assert better.shortfall == 0.0  # more than the optimum is no shortfall
    alone = run.last_iterate(None)
    assert alone is not None
    assert alone.shortfall is None


def test_the_last_iterate_is_the_last_that_was_planned() -> None:
    run = scored([0.5, 1.5, 1.0, 3.0], rewards=[1.0, 4.0, 3.0, 0.0])
    run = replace(run, exploring=np.array([False, True, False, True]))
    last = run.last_iterate(3.5)
    assert last is not None
    assert (last.value.tolist(), last.shortfall, last.excess.tolist()) == ([3.0, 1.0], 0.5, [0.0])
    assert (run.last_planned, run.explored(1), run.explored(2), run.explored(100)) == (3, 1, 1, 2)
    assert run.final.tolist() == [0.0, 3.0]  # exploring episodes count in means
    alone = replace(run, exploring=np.ones(4, dtype=bool))
    assert (alone.last_planned, alone.last_iterate(3.5)) == (0, None)
    unsaid = replace(run, exploring=None)
    assert (unsaid.last_planned, unsaid.explored(2)) == (4, None)


def test_rounding_is_no_violation_and_a_limit_of_0_is_measured_by_a_step() -> None:
    eps = 1e-9
    assert shares(scored([1.0 + eps, 1.0 + 2e-6])) == [0.5]
    assert shares(scored([1e-6, 3e-6], limit=0.0)) == [0.5]  # a millionth of 2, the most that one step costs
    assert shares(scored([5.0 - 4e-6, 5.0 - 6e-6], limit=INF, floor=5.0)) == [0.5]
    for tolerance in (-0.1, NAN, INF, None, "x", True):
        with pytest.raises(conrl.SpecError, match="tolerance is"):
            scored([1.0]).violating(tolerance)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=300)
@given(runs(), st.sampled_from([0.0, 0.4, -0.5]), st.sampled_from([0.0, 1e-6, 0.25]))
def test_each_policy_by_itself(run: Scores, optimum: float, tolerance: float) -> None:
    """By the definitions, in plain Python; None where a value is unknown."""
    last, average, violating = run.last_iterate(optimum), run.average_policy(optimum), run.violating(tolerance)
    K, limits, floors = run.episodes, run.limits.tolist(), run.floors.tolist()
    if run.expected is None or run.continuing:
        assert unknown(last, average, violating, run.excess_slope, run.binned_excess)
        return

    def check(found: metrics.Standing | None, value: list[float]) -> None:
        assert found is not None
        assert found.value == pytest.approx(value)
        assert found.shortfall == pytest.approx(max(optimum - value[0], 0.0))
        for i, cost in enumerate(value[1:]):
            assert found.excess[i] == pytest.approx(max(cost - limits[i], floors[i] - cost, 0.0))

    rows = rows_of(run.expected)
    planned = [row for k, row in enumerate(rows) if run.exploring is None or not run.exploring[k]]
    if not planned or any(map(math.isnan, planned[-1])):
        assert last is None
    else:
        check(last, planned[-1])
    if any(math.isnan(x) for row in rows for x in row):
        assert unknown(average, violating, run.excess_slope)
        return
    if K:
        check(average, mean(rows, len(rows[0])))
    assert violating is not None
    for i, (limit, floor) in enumerate(zip(limits, floors, strict=True)):
        largest = float(run.largest[1 + i])
        high = limit + tolerance * (abs(limit) or largest) if math.isfinite(limit) else INF
        low = floor - tolerance * (abs(floor) or largest) if math.isfinite(floor) else -INF
        surely = sum(row[1 + i] > high + EDGE or row[1 + i] < low - EDGE for row in rows)
        perhaps = sum(row[1 + i] > high - EDGE or row[1 + i] < low + EDGE for row in rows)
        assert surely <= round(violating[i] * max(K, 1)) <= perhaps
    assert run.excess_slope is not None
    assert np.isnan(run.excess_slope).all()  # of so few episodes there is none


@pytest.mark.parametrize("power", [-1.0, -0.5, 0.0, 0.25])
@pytest.mark.parametrize(("K", "close"), [(100, 0.02), (1000, 2e-3), (30_000, 1e-5)])
def test_the_slope_of_a_power_is_its_exponent(power: float, K: int, close: float) -> None:
    k = np.arange(1.0, K + 1)
    costs: Float
    for costs, limit, floor in ((2.0 + 0.3 * k**power, 2.0, 0.0), (-(k**power), INF, 0.0), (1e3 - k**power, INF, 1e3)):
        (slope,) = metrics.excess_slope(costs[:, None], np.array([limit]), np.array([floor]))
        assert slope == pytest.approx(power, abs=close)
        assert scored(costs.tolist(), limit, floor).excess_slope == pytest.approx([slope])


@settings(deadline=None)
@given(st.integers(100, 700), st.integers(0, 2**32), st.sampled_from([1e-6, 1.0, 1e6]), st.sampled_from([3, 7, 10]))
def test_the_slope_is_that_of_a_fitted_line(K: int, seed: int, unit: float, bins: int) -> None:
    """Written out: bins between the rounded powers of ten, means of positive parts, numpy's own fit. Units do not
    matter, and what was before the last decade does not either."""
    rng = np.random.default_rng(seed)
    costs = unit * rng.normal(1.0, 0.5, size=(K, 2))
    limits, floors = unit * np.array([1.0, 1.3]), unit * np.array([0.4, -INF])
    ends = sorted({K // 10, *(round(float(K * 10 ** (b / bins - 1))) for b in range(1, bins + 1))})
    found = metrics.excess_slope(costs, limits, floors, bins=bins)
    binned = metrics.binned_excess(costs, limits, floors, bins=bins)
    for i in range(2):
        points = []
        for b, (low, high) in enumerate(pairwise(ends)):
            ks = range(low + 1, high + 1)
            shares = []
            for k in ks:
                cost = float(costs[k - 1, i])
                above = max(cost - limits[i], 0.0) / limits[i]
                below = max(floors[i] - cost, 0.0) / abs(floors[i]) if math.isfinite(floors[i]) else 0.0
                shares.append(above + below)
            points.append((math.fsum(math.log(k) for k in ks) / len(ks), math.fsum(shares) / len(ks)))
            assert (math.log(binned.episode[b]), binned.excess[b, i]) == pytest.approx(points[-1])
        there = [(x, math.log(y)) for x, y in points if y > 1e-9]
        if points[-1][1] <= 1e-9:
            assert found[i] == -INF
        elif len(there) < 3:
            assert math.isnan(found[i])
        else:
            x, y = np.array(there).T
            assert found[i] == pytest.approx(np.polyfit(x, y, 1)[0], rel=1e-6, abs=1e-9)
    before = costs.copy()
    before[: ends[0]] = 9.0 * unit
    assert np.array_equal(metrics.excess_slope(before, limits, floors, bins=bins), found, equal_nan=True)


def test_bins_without_excess() -> None:
    """They are left out; at the end they mean that the excess came to an end."""
    k = np.arange(1, 1001)
    costs = 1.0 + 1.0 / k

    def slope(costs: Float, limit: float = 1.0, floor: float = -INF) -> float:
        return float(metrics.excess_slope(costs[:, None], np.array([limit]), np.array([floor]))[0])

    assert slope(np.where((k > 300) & (k < 600), 0.0, costs)) == pytest.approx(-1.0, abs=0.3)
    assert slope(np.where(k > 700, 1.0, costs)) == -INF
    assert slope(np.where(k > 700, 1.0 + 1e-10, costs)) == -INF  # rounding
    assert slope(np.ones(1000)) == -INF
    assert math.isnan(slope(np.where(k < 800, 0.0, costs)))  # of one bin
    assert math.isnan(slope(costs, INF))
    assert math.isnan(slope(costs[:99]))
    assert metrics.excess_slope(np.zeros((500, 0)), np.zeros(0), np.zeros(0)).shape == (0,)
    assert metrics.binned_excess(np.zeros((0, 2)), np.ones(2), np.zeros(2)).excess.shape == (0, 2)
    for bins in (0, -1, 2.5, None):
        with pytest.raises(conrl.SpecError, match="bins is"):
            metrics.binned_excess(np.zeros((5, 1)), np.ones(1), np.zeros(1), bins=bins)  # type: ignore[arg-type]


def test_a_lottery_counts_before_it_is_drawn() -> None:
    """Above the limit with one component and below it with the other, at the limit as a lottery."""
    mdp = rover()
    best = conrl.plan(mdp)
    assert best.values[:, 1].min() < 0.3 < best.values[:, 1].max()
    row = conrl.learn(mdp, conrl.ConRL(mdp.task), 1, seed=0)._rows[0]
    lottery = conrl.evaluate(mdp, best.mixture).value
    history = conrl.History(mdp.cost_names, conrl.Linear([0.3]), mdp)
    for _ in range(3):
        history.append(row._replace(expected=lottery))
    assert shares(history) == [0.0]
    last = history.last_iterate
    assert last is not None
    assert last.value.tolist() == lottery.tolist()
    assert last.shortfall == pytest.approx(0.0, abs=1e-9)


# -- the best safe policy ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0.0, 0.05, 0.3]), st.sampled_from([1.0, 1e4]))
def test_the_best_safe_policy_is_that_of_the_program(seed: int, d: int, margin: float, unit: float) -> None:
    """The full linear program with limits and floors moved by hand, also where limits are negative or 0."""
    rng = np.random.default_rng(seed)
    mdp = random_model(seed, 4, 2, 4, d)
    costs = unit * (mdp.costs - rng.choice([0.0, 0.0, 0.4, 1.5], size=d))
    mdp = conrl.ConstrainedMDP(mdp.transitions, mdp.rewards, costs, mdp.horizon)
    limits = np.where(rng.uniform(size=d) < 0.1, 0.0, middle(mdp, rng.uniform(0.2, 1.2)))
    floors = np.where(rng.uniform(size=d) < 0.3, limits - 0.3 * np.abs(limits) - 0.1 * unit, -INF)
    moved = [x - margin * abs(x) for x in limits.tolist()]
    raised = [x + margin * abs(x) if math.isfinite(x) else x for x in floors.tolist()]
    asked, safe = conrl.Linear(limits, floors), conrl.Linear(moved, raised)
    spare = least_violation(mdp, asked), least_violation(mdp, safe)
    if spare[0] > -1e-6 or abs(spare[1]) < 1e-6:
        return  # nothing to compare with, or too near to call
    history = conrl.History(mdp.cost_names, asked, mdp)
    row = Row(1.0, np.zeros(d), np.append(0.25, np.zeros(d)), np.zeros(d), 3)
    history.append(row)
    history.append(row._replace(expected=np.append(0.75, np.zeros(d))))
    if spare[1] > 0.0:
        with pytest.raises(conrl.InfeasibleError, match=f"with a margin of {margin:g} of its size"):
            history.safe_regret(margin)
        return
    exact, regret, best = solve_lp(mdp, safe), history.safe_regret(margin), history.best_safe(margin)
    assert exact is not None
    assert best is not None
    assert regret == pytest.approx([exact.value - 0.25, exact.value - 0.5], rel=1e-5, abs=1e-5)
    assert (best.costs <= np.array(moved) + 1e-8 * unit).all()
    assert (best.costs >= np.array(raised) - 1e-8 * unit).all()
    if margin == 0.0:
        assert regret == pytest.approx(history.regret.reward)


def test_every_kind_of_bound_is_moved() -> None:
    """By hand: to the safe side by a share of its size; 0 stays, and so does what is not limited."""
    mdp = random_model(0, 3, 2, 3, 3)
    problem = conrl.Linear(
        {"cost0": 2.0, "cost1": -4.0},
        floors=[-INF, -8.0, 0.0],
        per_step={"cost0": [1.0, None, 0.5]},
        never={"cost2": 10.0},
        chance={"cost2": [(5.0, 0.2), (7.0, 0.0)]},
        cvar={"cost0": (0.9, 3.0)},
        grid=0.5,
    )
    names = mdp.cost_names
    assert names == ("cost0", "cost1", "cost2")
    moved = tightened(problem, mdp, 0.25)
    assert isinstance(moved, conrl.Linear)
    assert np.array_equal(moved.limits, [1.5, -5.0, INF])  # type: ignore[arg-type]
    assert np.array_equal(moved.floors, [-INF, -6.0, 0.0])  # type: ignore[arg-type]
    assert moved.per_step is not None
    assert np.array_equal(moved.per_step["cost0"], [0.75, INF, 0.375])
    assert (moved.never, moved.chance) == ({"cost2": 7.5}, {"cost2": [(5.0, 0.15000000000000002), (7.0, 0.0)]})
    assert (moved.cvar, moved.grid) == ({"cost0": [(0.9, 2.25)]}, 0.5)
    assert tightened(problem, mdp, 0.0) is problem
    budgets = tightened(conrl.Knapsack({"cost1": 40.0}, 10, 0.2), mdp, 0.25)
    assert isinstance(budgets, conrl.Knapsack)
    assert np.array_equal(budgets.budgets, [INF, 30.0, INF])  # type: ignore[arg-type]
    assert (budgets.episodes, budgets.epsilon) == (10, 0.2)
    for margin in (-0.1, 1.0, NAN, None, "x", True, [0.1]):
        with pytest.raises(conrl.SpecError, match=r"margin is .*; it must be a share in \[0, 1\)"):
            tightened(problem, mdp, margin)
        with pytest.raises(conrl.SpecError, match="margin is"):
            conrl.History(names, problem, mdp).best_safe(margin)  # type: ignore[arg-type]


def test_safe_regret_of_budgets_and_of_an_unending_episode() -> None:
    mdp = rover()
    budgets = conrl.learn(mdp, conrl.ConRL(mdp.task, problem=conrl.Knapsack([9.0], 30, 0.1)), 30, seed=0)
    regret, best = budgets.safe_regret(0.5), budgets.best_safe(0.5)
    assert regret is not None
    assert best is not None
    assert best.reward == pytest.approx(conrl.plan(mdp, conrl.Knapsack([4.5], 30)).reward)
    assert regret == pytest.approx(best.reward - budgets.averages[:, 0])  # type: ignore[index]
    unending = conrl.learn(endless(), TFWUCRL2(endless().task), 20, seed=0)
    narrower, usual = unending.best_safe(0.5), unending.optimum
    assert narrower is not None
    assert usual is not None
    assert narrower.reward < usual.reward
    assert narrower.costs[0] <= 0.15 + 1e-9
    assert unknown(unending.last_iterate, unending.average_policy, unending.violating(), unending.excess_slope)
    tight = conrl.History(mdp.cost_names, conrl.Linear([4e-6]), endless(), continuing=True)  # 1.1e-7 a step is least
    with pytest.raises(conrl.RunError, match=r"with a margin of 0.5 of its size; take a smaller margin"):
        tight.best_safe(0.5)


def test_windows_and_tolerances_are_given() -> None:
    values = np.array([[0.0, 1.0]] * 10 + [[1.0, 0.5]] * 30)
    smoothed = metrics.smooth(values, 20)
    assert smoothed[28].tolist() == [19 / 20, 10.5 / 20]
    largest = np.ones(1)
    over = metrics.violated(smoothed[:, 1:], np.array([0.5]), np.array([-INF]), largest, over=0.0)
    assert int(over.sum()) == 29
    assert metrics.first_lasting(metrics.reaches(smoothed[:, 0], 1.0, 1.0, near=0.05)) == 29
    assert metrics.first_lasting(metrics.reaches(smoothed[:, 0], 1.0, 1.0, near=0.5)) == 20
    assert metrics.first_lasting(np.zeros(0, dtype=bool)) is None
    assert metrics.final(values, 0.5).tolist() == [1.0, 0.5]


# -- one run, everywhere ----------------------------------------------------------------------------------


def rover() -> conrl.ConstrainedMDP:
    return mars_rover(rock_reward=1.0)


def endless() -> conrl.ConstrainedMDP:
    return reachable_part(single_episode(rover()))


def appropo(mdp: conrl.ConstrainedMDP) -> ApproPO:
    return ApproPO(mdp.task, threshold=1.4, episodes=5)


CASES: dict[str, tuple[Any, Any, int]] = {
    "conrl": (rover, lambda mdp: conrl.ConRL(mdp.task), 400),
    "ends exploring": (rover, lambda mdp: conrl.ConRL(mdp.task), 125),
    "ucbvi": (rover, lambda mdp: UCBVI(mdp.task), 150),
    "one episode": (rover, lambda mdp: conrl.ConRL(mdp.task), 1),
    "a floor": (rover, lambda mdp: conrl.ConRL(mdp.task, problem=conrl.Linear([0.5], [0.45])), 250),
    "a limit of 0": (bidding, lambda mdp: conrl.ConRL(mdp.task, problem=conrl.Linear([0.0])), 150),
    "no limit": (rover, lambda mdp: conrl.ConRL(mdp.task, problem=conrl.Linear()), 150),
    "budgets": (rover, lambda mdp: conrl.ConRL(mdp.task, problem=conrl.Knapsack([30.0], 150, 0.1)), 150),
    "tfw-ucrl2": (endless, lambda mdp: TFWUCRL2(mdp.task), 60),
    "appropo": (rover, appropo, 60),
}


def safe_regret(history: conrl.History) -> float | None:
    try:
        regret = history.safe_regret()
    except (conrl.InfeasibleError, conrl.RunError):
        return None
    return None if regret is None else float(regret[-1])


def standings(history: conrl.History) -> dict[str, float | None]:
    last, average = history.last_iterate, history.average_policy
    return {
        "last_iterate_reward": None if last is None else last.value[0],
        "last_iterate_cost": None if last is None else last.value[1],
        "last_iterate_shortfall": None if last is None else last.shortfall,
        "last_iterate_excess": None if last is None else last.excess[0],
        "average_policy_reward": None if average is None else average.value[0],
        "average_policy_cost": None if average is None else average.value[1],
    }


@pytest.mark.parametrize("case", CASES)
def test_one_run_says_the_same_everywhere(case: str, tmp_path: Path) -> None:
    """Its history, the run read back, the table, its CSV file and the data of the report."""
    make, learner, episodes = CASES[case]
    mdp = make()
    env = "bidding" if make is bidding else "mars-rover"
    config = {"env": env, "settings": {} if make is bidding else {"rock_reward": 1.0}, "start": None}
    where = tmp_path / env / "learner" / "seed-000"
    _, history = learn_on_disk(where, mdp, lambda: learner(mdp), episodes, 0, config=config)
    study = load(tmp_path)
    (run,) = study.runs
    (row,) = study.summary().to_dicts()
    study.save_csv(tmp_path / "summary.csv")
    (cells,) = csv.DictReader((tmp_path / "summary.csv").read_text().splitlines())
    (shown,) = contents(study)["environments"][0]["table"]

    best = study.optimum(env, "learner")
    assert history.optimum is not None
    assert best == pytest.approx(history.optimum.reward)
    assert np.array_equal(history.smooth, run.smooth, equal_nan=True)
    assert np.array_equal(history.violations, run.violations)
    assert history.solved_from == run.solved_from(best)
    assert run.exploring is not None
    assert run.exploring.tolist() == history.exploring.tolist()
    cubes = [8, 27, 64, 125, 216, 343] if isinstance(learner(mdp), conrl.ConRL) else []
    assert (np.flatnonzero(history.exploring) + 1).tolist() == [k for k in cubes if k <= episodes]
    wanted = {
        "violations": history.violations[0],
        "solved": history.solved_from,
        "reward": history.final[0],
        "cost": history.final[1],
        "cumulative_regret": episodes * history.regret.reward[-1],
        "cumulative_violation": None if case == "no limit" else episodes * history.regret.cost[-1],
        "strong_violation": None if history.strong_violation is None else history.strong_violation[-1, 0],
        "strong_regret": None if history.strong_regret is None else history.strong_regret[-1],
        "violating": None if history.violating() is None else shares(history)[0],
        "cumulative_safe_regret": None if (safe := safe_regret(history)) is None else episodes * safe,
        "final_exploring": float(history.exploring[-max(1, round(episodes / 10)) :].sum()),
        **standings(history),
    }
    for name, value in wanted.items():
        if value is None or math.isnan(value):
            assert row[name] is None or math.isnan(row[name]), name
            assert cells[name] in ("", "NaN"), name
            assert shown[name] is None, name
        else:
            assert row[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
            assert float(cells[name]) == row[name], name
            assert shown[name] == pytest.approx(value, rel=1e-5, abs=1e-12), name  # six digits
    if case == "conrl":
        assert history.solved_from is not None
        assert 0.0 < history.violations[0] < 1.0
    if case == "a floor":
        assert (row["limit"], row["floor"]) == (0.5, 0.45)
        assert (run.smooth[:, 1] < 0.45 * 0.9).any()  # so that the floor counts among the violations
    if case == "tfw-ucrl2":
        assert history.strong_violation is history.strong_regret is None


@pytest.mark.parametrize("case", ["conrl", "budgets", "tfw-ucrl2", "appropo"])
def test_the_progress_bar_says_the_same(case: str) -> None:
    make, learner, _ = CASES[case]
    mdp = make()
    history = conrl.learn(mdp, learner(mdp), 120 if case == "conrl" else 30, seed=0)
    assert history.recent() == pytest.approx(history.scores.smooth_executed[-1])
    line = facts(history, history.recent(), history.violations)
    assert f"{history.scores.smooth_executed[-1, 1]:.3f}/" in line
    share = history.violations[0]
    assert (f"({share:.0%} over)" in line) == (share > 0.0)
    assert line.endswith("(mean)" if case == "tfw-ucrl2" else "(mean of 100)")


def test_what_is_unknown_is_none() -> None:
    """Without a model there is no optimum; of functions of the costs there is no limit to be within."""
    mdp = rover()
    blind = conrl.History(mdp.cost_names, conrl.Linear([0.3]))
    blind.append(conrl.learn(mdp, conrl.ConRL(mdp.task), 1, seed=0)._rows[0]._replace(expected=None))
    assert (blind.solved_from, blind.strong_regret, blind.strong_violation) == (None, None, None)
    assert unknown(blind.last_iterate, blind.average_policy, blind.violating(), blind.excess_slope)
    assert unknown(blind.safe_regret(), blind.best_safe(), blind.binned_excess)
    assert blind.violations.tolist() == [0.0]
    assert np.array_equal(blind.final, [blind.rewards[0], blind.costs[0, 0]])
    problem = conrl.ConcaveConvex(lambda x: x, lambda c: c[0] - 0.3)
    free = conrl.learn(mdp, conrl.ConRL(mdp.task, problem=problem), 2, seed=0)
    assert (free.solved_from, free.strong_regret, free.strong_violation) == (None, None, None)
    assert free.regret.reward.shape == (2,)
    assert unknown(free.violating(), free.excess_slope, free.binned_excess, free.safe_regret(), free.best_safe())
    assert free.last_iterate is not None  # its value is known; there is no limit to hold it against
    assert (free.last_iterate.shortfall, free.last_iterate.excess.tolist()) == (None, [0.0])
    assert free.averages is not None
    assert free.average_policy is not None
    assert free.average_policy.value.tolist() == free.averages[-1].tolist()


def test_the_latest_episode_is_the_last_row_of_the_table() -> None:
    mdp = mars_rover(rock_reward=1.0)
    told: list[dict[str, float]] = []
    history = conrl.learn(mdp, conrl.ConRL(mdp.task), 12, seed=1, after=lambda history: told.append(history.latest))
    rows = list(csv.DictReader(history.to_csv().splitlines()))
    assert len(told) == len(rows) == 12
    for k, (found, row) in enumerate(zip(told, rows, strict=True), start=1):
        assert float(row.pop("episode")) == k
        assert found == {name: float(cell) for name, cell in row.items() if cell}
        assert all(type(value) is float for value in found.values())
    assert conrl.running.history.History(("crash",), history.problem).latest == {}

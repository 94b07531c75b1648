"""Limits on single episodes: never, chance, CVaR. Against brute force, exact fractions, simulation and HiGHS."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import itertools
import json
import math
import pickle
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from commands import run
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import conrl
from conrl.model.counting import common_unit, simplest
from conrl.planners import planned

# -- brute force ------------------------------------------------------------------------------------------

Point = tuple[int, int, tuple[Fraction, ...]]  # step, state, spent of each cost


class Tiny(NamedTuple):
    """A model as tables of outcomes with exact costs, for each step or one for all: tables[h][s][a] = [(probability,
    successor, reward, costs)]."""

    tables: list[list[list[list[tuple[float, int, float, tuple[Fraction, ...]]]]]]
    horizon: int
    start: int

    def at(self, h: int) -> list[list[list[tuple[float, int, float, tuple[Fraction, ...]]]]]:
        return self.tables[min(h, len(self.tables) - 1)]

    def mdp(self) -> conrl.ConstrainedMDP:
        rows = [
            (s, a, t, p, [r, *map(float, c)], h)
            for h, table in enumerate(self.tables)
            for s, actions in enumerate(table)
            for a, outcomes in enumerate(actions)
            for p, t, r, c in outcomes
        ]
        state, action, successor, probability, pay, step = zip(*rows, strict=True)
        return conrl.ConstrainedMDP.from_outcomes(
            state,
            action,
            successor,
            probability,
            pay,
            num_states=len(self.tables[0]),
            num_actions=max(len(actions) for table in self.tables for actions in table),
            horizon=self.horizon,
            step=None if len(self.tables) == 1 else step,
            initial=self.start,
        )

    def points(self) -> list[Point]:
        """Every (step, state, spent) that can be reached."""
        d = len(self.tables[0][0][0][0][3])
        level = {(self.start, (Fraction(0),) * d)}
        found = []
        for h in range(self.horizon):
            found += [(h, s, v) for s, v in sorted(level)]
            level = {
                (t, tuple(x + y for x, y in zip(v, c, strict=True)))
                for s, v in level
                for outcomes in self.at(h)[s]
                for _, t, _, c in outcomes
            }
        return found

    def play(self, choice: dict[Point, int]) -> tuple[float, dict[tuple[Fraction, ...], float]]:
        """The expected reward of a deterministic policy, and how its episodes end."""
        d = len(self.tables[0][0][0][0][3])
        now: dict[tuple[int, tuple[Fraction, ...]], float] = {(self.start, (Fraction(0),) * d): 1.0}
        reward = 0.0
        for h in range(self.horizon):
            then: dict[tuple[int, tuple[Fraction, ...]], float] = {}
            for (s, v), weight in now.items():
                for p, t, r, c in self.at(h)[s][choice[h, s, v]]:
                    key = (t, tuple(x + y for x, y in zip(v, c, strict=True)))
                    then[key] = then.get(key, 0.0) + weight * p
                    reward += weight * p * r
            now = then
        ends: dict[tuple[Fraction, ...], float] = {}
        for (_, v), weight in now.items():
            ends[v] = ends.get(v, 0.0) + weight
        return reward, ends

    def policies(self) -> Iterator[dict[Point, int]]:
        points = self.points()
        for chosen in itertools.product(*(range(len(self.at(h)[s])) for h, s, _ in points)):
            yield dict(zip(points, chosen, strict=True))


COSTS = {
    "whole": [Fraction(0), Fraction(1), Fraction(2)],
    "tenths": [Fraction(0), Fraction(1, 10), Fraction(3, 10)],
    "signed": [Fraction(-1), Fraction(0), Fraction(1)],
    "thirds": [Fraction(1, 3), Fraction(1, 2), Fraction(0)],
    "small": [Fraction(0), Fraction(1, 10**6), Fraction(3, 10**6)],
    "large": [Fraction(0), Fraction(10**6), Fraction(25 * 10**5)],
}


def tiny(rng: np.random.Generator, kinds: tuple[str, ...]) -> Tiny:
    """At most 256 deterministic policies; one in three depends on the step."""
    while True:
        S, H = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        count = H if rng.random() < 0.33 else 1
        tables = [
            [[_outcomes(rng, S, kinds) for _ in range(int(rng.integers(1, 3)))] for _ in range(S)] for _ in range(count)
        ]
        model = Tiny(tables, H, int(rng.integers(S)))
        if math.prod(len(model.at(h)[s]) for h, s, _ in model.points()) <= 256:
            return model


def _outcomes(
    rng: np.random.Generator, S: int, kinds: tuple[str, ...]
) -> list[tuple[float, int, float, tuple[Fraction, ...]]]:
    count = int(rng.integers(1, 3))
    p = rng.dirichlet(np.ones(count)) if rng.random() < 0.7 else np.full(count, 1.0 / count)
    costs = [tuple(COSTS[kind][int(rng.integers(3))] for kind in kinds) for _ in range(count)]
    return [(float(p[k]), int(rng.integers(S)), float(rng.integers(-2, 6)), costs[k]) for k in range(count)]


def best_mixture(rewards: list[float], rows: list[tuple[list[float], float]]) -> float:
    """The best reward of mixtures of policies; -inf if none keeps the rows."""
    n = len(rewards)
    if not n:
        return -math.inf
    A = b = None
    if rows:  # of size 1 each: HiGHS' tolerance is absolute
        sizes = [max(map(abs, (*row, bound))) or 1.0 for row, bound in rows]
        A = np.array([row for row, _ in rows]) / np.array(sizes)[:, None]
        b = np.array([bound / size + 1e-12 for (_, bound), size in zip(rows, sizes, strict=True)])
    done = linprog(-np.array(rewards), A_ub=A, b_ub=b, A_eq=np.ones((1, n)), b_eq=[1.0])
    return -float(done.fun) if done.status == 0 else -math.inf


def brute(model: Tiny, problem: Any, names: tuple[str, ...]) -> float:
    """The optimum by enumeration of deterministic policies, mixed by a linear program for each choice of quantiles."""
    played = [model.play(choice) for choice in model.policies()]

    def total(ends: dict[tuple[Fraction, ...], float], f: Any) -> float:
        return sum(p * float(f(v)) for v, p in ends.items())

    for name, m in (problem.never or {}).items():
        i, bar = names.index(name), Fraction(m).limit_denominator(10**8)
        played = [(r, e) for r, e in played if all(v[i] <= bar for v in e)]
    rewards = [r for r, _ in played]
    rows: list[tuple[list[float], float]] = []
    for name, x in (problem.limits or {}).items():
        i = names.index(name)
        rows.append(([total(e, lambda v, i=i: v[i]) for _, e in played], x))
    for name, (m, p) in (problem.chance or {}).items():
        i, bar = names.index(name), Fraction(m).limit_denominator(10**8)
        rows.append(([total(e, lambda v, i=i, bar=bar: v[i] > bar) for _, e in played], p))
    tails = [
        (names.index(name), a, Fraction(b).limit_denominator(10**8)) for name, (a, b) in (problem.cvar or {}).items()
    ]
    options = [sorted({v[i] for _, e in played for v in e if v[i] <= b}) for i, _, b in tails]
    best = -math.inf
    for quantiles in itertools.product(*options):
        more = [
            (
                [total(e, lambda v, i=i, t=t: max(v[i] - t, Fraction(0))) for _, e in played],
                float((b - t) * (1 - Fraction(a).limit_denominator(10**8))),
            )
            for (i, a, b), t in zip(tails, quantiles, strict=True)
        ]
        best = max(best, best_mixture(rewards, rows + more))
    return best


def drawn_problem(rng: np.random.Generator, model: Tiny, names: tuple[str, ...]) -> conrl.Linear:
    """Thresholds at, between and beyond the totals that can be reached."""
    ends = [e for choice in itertools.islice(model.policies(), 16) for e in model.play(choice)[1]]
    parts: dict[str, dict[str, Any]] = {"limits": {}, "never": {}, "chance": {}, "cvar": {}}

    def threshold(i: int) -> float:
        reached = sorted({e[i] for e in ends})
        x = reached[int(rng.integers(len(reached)))]
        if rng.random() < 0.3:
            size = max(map(abs, reached)) or Fraction(1)
            x += size * (Fraction(int(rng.integers(-2, 3)), 7) + Fraction(int(rng.integers(-1, 2)), 4))
        return float(x)

    for i, name in enumerate(names):
        if rng.random() < 0.3:
            parts["limits"][name] = threshold(i)
        kind = ("never", "chance", "cvar", "chance", "both")[int(rng.integers(5))]
        if kind == "never":
            parts["never"][name] = threshold(i)
        if kind in ("chance", "both"):
            parts["chance"][name] = (threshold(i), float(rng.choice([0.0, 0.05, 0.2, 0.5, 0.9])))
        if kind in ("cvar", "both"):
            parts["cvar"][name] = (float(rng.choice([0.0, 0.5, 0.9])), threshold(i))
    return conrl.Linear(**{name: part or None for name, part in parts.items()})


@pytest.mark.parametrize("block", range(10))
def test_plans_equal_brute_force_over_all_deterministic_policies(block: int) -> None:
    """300 tiny models: all deterministic policies of (step, state, spent), mixed by HiGHS for each quantile."""
    kept = 0
    for seed in range(30 * block, 30 * block + 30):
        rng = np.random.default_rng(seed)
        kinds = tuple(rng.choice(list(COSTS), size=int(rng.integers(1, 3))).tolist())
        model = tiny(rng, kinds)
        mdp = model.mdp()
        problem = drawn_problem(rng, model, mdp.cost_names)
        best = brute(model, problem, mdp.cost_names)
        if best == -math.inf:
            with pytest.raises(conrl.InfeasibleError) as caught:
                conrl.plan(mdp, problem)
            assert caught.value.feasibility.conflict
            continue
        plan = conrl.plan(mdp, problem)
        kept += 1
        size = max(1.0, abs(best))
        assert plan.objective == pytest.approx(best, abs=1e-7 * size), (seed, problem)
        assert plan.bound >= best - 1e-7 * size
        assert plan.gap <= 2e-9 * max(1.0, abs(plan.objective))
        check_rows(mdp, plan)
    assert kept >= 10


def check_rows(mdp: conrl.ConstrainedMDP, plan: conrl.Plan) -> None:
    """What the plan says of its rows is what the exact distribution of its policy says."""
    value = conrl.evaluate(mdp, plan)
    assert value.reward == pytest.approx(plan.reward, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(value.costs, plan.costs, rtol=1e-9, atol=1e-12)
    problem = plan.problem
    assert isinstance(problem, conrl.Linear)
    rows = {row.name: row for row in plan.rows}
    for row in plan.rows:
        assert row.excess <= row.allowance
        assert row.price >= 0.0
    for tail in problem.tails(mdp):
        row = rows[f"{tail.quantity(mdp.cost_names)} <= {tail.bound:.10g}"]
        ends = conrl.distribution(mdp, plan, tail.cost)
        assert ends.probabilities.sum() == pytest.approx(1.0, abs=1e-9)
        assert ends.mean == pytest.approx(
            plan.costs[tail.cost], rel=1e-9, abs=1e-9 * max(1.0, np.abs(ends.totals).max())
        )
        if tail.kind == "never":
            assert row.value == ends.most
            assert ends.most <= tail.limit
            assert ends.exceed(tail.limit) == 0.0
        elif tail.kind == "chance":
            assert row.value == pytest.approx(ends.exceed(tail.limit), abs=1e-9)
        else:
            assert row.value == pytest.approx(
                ends.cvar(tail.share), rel=1e-9, abs=1e-9 * max(1.0, np.abs(ends.totals).max())
            )


# -- the program of all triples ---------------------------------------------------------------------------


def triples_program(mdp: conrl.ConstrainedMDP, problem: Any) -> float:
    """The optimum by HiGHS: occupation of every (step, state, spent), written down from the model's arrays alone."""
    P, R, C = mdp.transitions.toarray(), mdp.rewards, np.rint(mdp.costs).astype(int)
    H, S, A, d = mdp.horizon, mdp.num_states, mdp.num_actions, mdp.num_costs
    index: dict[tuple[int, int, tuple[int, ...], int], int] = {}
    flow: list[tuple[int, int, float]] = []  # row, column, value
    rows: dict[tuple[int, int, tuple[int, ...]], int] = {}
    right: list[float] = []
    ends: dict[tuple[int, ...], list[tuple[int, float]]] = {}

    def row(h: int, s: int, v: tuple[int, ...]) -> int:
        if (h, s, v) not in rows:
            rows[h, s, v] = len(right)
            right.append(float(mdp.initial[s]) if h == 0 else 0.0)
        return rows[h, s, v]

    level = {(s, (0,) * d) for s in range(S) if mdp.initial[s] > 0.0}
    for h in range(H):
        later = set()
        for s, v in level:
            for a in range(A):
                x = index[h, s, v, a] = len(index)
                flow.append((row(h, s, v), x, 1.0))
                spent = tuple(int(i + c) for i, c in zip(v, C[s, a], strict=True))
                for t in range(S):
                    if P[s * A + a, t] > 0.0:
                        if h == H - 1:
                            ends.setdefault(spent, []).append((x, P[s * A + a, t]))
                        else:
                            flow.append((row(h + 1, t, spent), x, -P[s * A + a, t]))
                            later.add((t, spent))
        level = later
    n = len(index)
    gain = np.array([R[s, a] for _, s, _, a in index])
    A_eq = np.zeros((len(right), n))
    for r, x, value in flow:
        A_eq[r, x] += value

    def expected(f: Any) -> Any:
        line = np.zeros(n)
        for spent, entries in ends.items():
            for x, p in entries:
                line[x] += p * f(spent)
        return line

    fixed: list[tuple[Any, float]] = []
    for i, name in enumerate(mdp.cost_names):
        if name in (problem.limits or {}):
            fixed.append((expected(lambda v, i=i: v[i]), problem.limits[name]))
        if name in (problem.chance or {}):
            m, p = problem.chance[name]
            fixed.append((expected(lambda v, i=i, m=m: v[i] > m), p))
        if name in (problem.never or {}):
            m = problem.never[name]
            fixed.append((expected(lambda v, i=i, m=m: 1000.0 * (v[i] > m)), 0.0))
    tails = [(mdp.cost_names.index(name), a, b) for name, (a, b) in (problem.cvar or {}).items()]
    options = [sorted({v[i] for v in ends if v[i] <= b}) for i, _, b in tails]
    best = -math.inf
    for quantiles in itertools.product(*options):
        lines = [
            *fixed,
            *(
                (expected(lambda v, i=i, t=t: max(v[i] - t, 0)), (b - t) * (1.0 - a))
                for (i, a, b), t in zip(tails, quantiles, strict=True)
            ),
        ]
        A_ub = np.array([line for line, _ in lines]) if lines else None
        b_ub = np.array([bound for _, bound in lines]) if lines else None
        done = linprog(-gain, A_ub=A_ub, b_ub=b_ub, A_eq=A_eq, b_eq=right, bounds=(0.0, None))
        if done.status == 0:
            best = max(best, -float(done.fun))
    return best


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_plans_equal_the_program_of_all_triples(seed: int) -> None:
    """Larger than what can be enumerated: up to 5 states, 5 steps and two costs, with a start that is drawn."""
    rng = np.random.default_rng(seed)
    S, A, H, d = int(rng.integers(2, 6)), int(rng.integers(2, 4)), int(rng.integers(2, 6)), int(rng.integers(1, 3))
    P = rng.dirichlet(np.full(S, 0.5), (S, A)) * (rng.random((S, A, S)) < 0.6)
    P[:, :, 0] += 1e-3
    P /= P.sum(axis=2, keepdims=True)
    initial = rng.dirichlet(np.ones(S))
    costs = rng.integers(-1 if rng.random() < 0.3 else 0, 3, (S, A, d)).astype(float)
    mdp = conrl.ConstrainedMDP(P, rng.random((S, A)), costs, H, initial=initial)
    free = conrl.plan(mdp, [np.inf] * d)
    names = mdp.cost_names
    ends = [conrl.distribution(mdp, free, i) for i in range(d)]
    level, share = float(rng.choice([0.3, 0.8])), float(rng.choice([0.2, 0.6]))
    last = d - 1
    kinds: list[dict[str, Any]] = [
        {"chance": {names[0]: (ends[0].quantile(0.4), share)}},
        {"cvar": {names[0]: (level, round(0.5 * (ends[0].cvar(level) + ends[0].totals[0]), 3))}},
        {"never": {names[0]: ends[0].quantile(0.6)}},
        {"limits": {names[0]: float(free.costs[0]) - 0.1}, "chance": {names[last]: (ends[last].quantile(0.5), share)}},
    ]
    problem = conrl.Linear(**kinds[int(rng.integers(len(kinds)))])
    best = triples_program(mdp, problem)
    try:
        plan = conrl.plan(mdp, problem)
    except conrl.InfeasibleError:
        plan = None
    if plan is None:
        assert best == -math.inf or problem.never is not None  # HiGHS allows 1e-7 where never means never
        return
    assert plan.objective <= best + 1e-6
    if problem.never is None:
        assert plan.objective >= best - 1e-6
    check_rows(mdp, plan)


# -- counting ---------------------------------------------------------------------------------------------


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
@settings(max_examples=300, deadline=None)
def test_the_rational_that_a_double_stands_for(x: float) -> None:
    """It is simple and near, or it rounds to the double and nothing with a smaller denominator does."""
    found = simplest(x)
    assert simplest(float(found)) == found
    if float(found) != x:
        assert abs(found - Fraction(x)) <= abs(Fraction(x)) / 2**50
        assert abs(found.numerator) * found.denominator <= 2**40
    elif 1e-6 < abs(x) < 1e6:
        near = Fraction(x).limit_denominator(max(found.denominator - 1, 1))
        assert found.denominator == 1 or float(near) != x


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6))
@settings(max_examples=300, deadline=None)
def test_fractions_that_people_write_are_found(p: int, q: int) -> None:
    assert simplest(p / q) == Fraction(p, q)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.sampled_from([0.1, 0.3, 0.7, 1 / 3, 0.05]))
@settings(max_examples=200, deadline=None)
def test_sums_and_products_of_doubles_are_what_they_were_meant_to_be(counts: list[int], unit: float) -> None:
    assert simplest(sum(counts) * unit) == sum(counts) * simplest(unit)
    assert simplest(float(np.cumsum([unit] * 4)[-1])) == 4 * simplest(unit)


def test_computed_costs_and_thresholds_are_counted_as_meant() -> None:
    cost = np.array([0.0, 3.0]) * 0.1  # 0.30000000000000004
    mdp = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], cost[None, :, None], 4)
    for most in (0.9, 3 * 0.3):  # 0.8999999999999999
        assert conrl.plan(mdp, conrl.Linear(never={"cost": most})).reward == pytest.approx(3.0, abs=1e-9)
        assert conrl.plan(mdp, conrl.Linear(chance={"cost": (most, 0.1)})).reward == pytest.approx(3.1, abs=1e-9)
    three = conrl.Deterministic([[1], [1], [1], [0]], 2)
    assert conrl.distribution(mdp, three, 0).exceed(0.9) == 0.0


def test_units() -> None:
    assert common_unit([Fraction(1, 10), Fraction(3, 10), Fraction(0)]) == Fraction(1, 10)
    assert common_unit([Fraction(1, 2), Fraction(1, 3)]) == Fraction(1, 6)
    assert common_unit([Fraction(4), Fraction(-6)]) == 2
    assert common_unit([Fraction(0)]) == 1


def chain(cost: float, horizon: int) -> conrl.ConstrainedMDP:
    """Each step: pay 1 for `cost`, or nothing for nothing."""
    return conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[0.0], [cost]]], horizon)


def test_three_times_a_tenth_is_three_tenths() -> None:
    plan = conrl.plan(chain(0.1, 10), conrl.Linear(never={"cost": 0.3}))
    assert plan.reward == 3.0
    assert plan.rows[0].value == 0.3
    assert conrl.plan(chain(0.1, 10), conrl.Linear(never={"cost": 0.29})).reward == 2.0
    assert conrl.plan(chain(1 / 3, 10), conrl.Linear(never={"cost": 1})).reward == 3.0


def test_the_price_of_never_is_the_slope_of_the_chance_frontier_at_zero() -> None:
    mdp = chain(1.0, 10)
    plan = conrl.plan(mdp, conrl.Linear(never={"cost": 3}))
    assert plan.rows[0].price == pytest.approx(7.0)  # to exceed once is to play on to the end
    a_little = conrl.plan(mdp, conrl.Linear(chance={"cost": (3, 1e-3)}))
    assert (a_little.reward - plan.reward) / 1e-3 == pytest.approx(7.0)


# -- a machine --------------------------------------------------------------------------------------------


def machine(states: int = 30, horizon: int = 30) -> conrl.ConstrainedMDP:
    """It wears, fails and is repaired: by outcome a failure costs a repair; running fast earns more and wears more."""
    rows = []
    for s in range(states):
        for a, (wear, earn) in enumerate(((0.2, 0.5), (0.6, 1.0))):
            fails = 0.5 * (s / (states - 1)) ** 2 * (1 + a)
            fails = min(fails, 0.9)
            onward = min(s + 1, states - 1)
            rows += [
                (s, a, 0, fails, [0.0, 1.0, 0.3]),
                (s, a, onward, (1.0 - fails) * wear, [earn, 0.0, 0.1 + 0.1 * a]),
                (s, a, s, (1.0 - fails) * (1.0 - wear), [earn, 0.0, 0.1 + 0.1 * a]),
            ]
        rows.append((s, 2, max(s - 4, 0), 1.0, [0.0, 0.0, 0.4]))  # maintenance
    state, action, successor, probability, pay = zip(*(row for row in rows if row[3] > 0.0), strict=True)
    return conrl.ConstrainedMDP.from_outcomes(
        state, action, successor, probability, pay, num_states=states, num_actions=3, horizon=horizon,
        initial=states // 3, cost_names=("repairs", "energy"), action_names=("slow", "fast", "maintain"),
    )  # fmt: skip


MIXED = conrl.Linear({"energy": 5.5}, never={"repairs": 3}, chance={"repairs": (0, 0.4)}, cvar={"repairs": (0.9, 1.5)})


def test_every_kind_at_once_on_a_machine() -> None:
    mdp = machine()
    plan = conrl.plan(mdp, MIXED)
    assert plan.status == "optimal"
    assert [row.name for row in plan.rows] == [
        "energy <= 5.5",
        "P(repairs > 0) <= 0.4",
        "CVaR 0.9 of repairs <= 1.5",
        "repairs in every episode <= 3",
    ]
    check_rows(mdp, plan)
    assert plan.mdp is mdp
    assert plan.costs.shape == plan.prices.shape == (2,)
    other = conrl.plan(mdp, MIXED, planner="linear-program")
    assert other.objective == pytest.approx(plan.objective, rel=1e-6)
    check_rows(mdp, other)


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_tail_is_that_of_simulation(seed: int) -> None:
    mdp = machine(12, 20)
    problem = conrl.Linear(
        {"energy": 5}, chance={"repairs": (1, 0.2), "energy": (5.5, 0.1)}, cvar={"repairs": (0.5, 2)}
    )
    plan = conrl.plan(mdp, problem)
    check_rows(mdp, plan)
    episodes = 40_000
    for played in (plan, plan.mixture):
        seen = conrl.simulate(mdp, played, episodes, seed)
        for i, thresholds in enumerate(((0, 1, 2), (4.0, 5.0, 5.5))):
            ends = conrl.distribution(mdp, played, i)
            for x in thresholds:
                p = ends.exceed(x)
                share = (seen.costs[:, i] > x + 1e-9).mean()
                assert abs(share - p) <= 5.0 * math.sqrt(max(p * (1.0 - p), 0.0) / episodes) + 1e-12
        assert abs(seen.mean.reward - plan.reward) <= 5.0 * seen.standard_error.reward


def test_a_never_that_no_policy_keeps_is_infeasible_with_its_proof() -> None:
    mdp = conrl.envs.pricing()
    with pytest.raises(conrl.InfeasibleError, match="whatever is done, an episode may come to 12") as caught:
        conrl.plan(mdp, conrl.Linear(never={"stock": 11}))
    proof = caught.value.feasibility
    assert proof.conflict == ("stock in every episode <= 11",)
    assert len(proof.path) == 13  # 12 hours, and where they end
    assert conrl.feasibility(mdp, conrl.Linear(never={"stock": 11})).path == proof.path
    assert conrl.plan(mdp, conrl.Linear(never={"stock": 12})).reward == pytest.approx(conrl.plan(mdp, [np.inf]).reward)


def least_share(mdp: conrl.ConstrainedMDP, i: int, most: list[float]) -> Fraction:
    """The least probability that cost i ends above its entry of `most`, the others never above theirs: exactly."""
    never = Fraction(2)

    @cache
    def best(h: int, state: int, spent: tuple[int, ...]) -> Fraction:
        if any(x > m for j, (x, m) in enumerate(zip(spent, most, strict=True)) if j != i):
            return never
        if h == mdp.horizon:
            return Fraction(spent[i] > most[i])
        return min(play(h, spent, k) for k in np.flatnonzero(mdp.pair_state == state).tolist())

    def play(h: int, spent: tuple[int, ...], k: int) -> Fraction:
        total = tuple(x + int(c) for x, c in zip(spent, mdp.pay[k, 1:], strict=True))
        moves = range(mdp.graph.start[k], mdp.graph.start[k + 1])
        after = [(mdp.graph.probability[j], best(h + 1, int(mdp.graph.successor[j]), total)) for j in moves]
        return min(never, sum((Fraction(p) * x if x < never else never for p, x in after), Fraction(0)))

    return best(0, int(np.argmax(mdp.initial)), (0,) * mdp.num_costs)


def test_what_can_be_had_where_a_never_cannot_be_kept() -> None:
    """The least probability of exceeding it, against enumeration in fractions; asked for, there is a plan, and for less
    there is none."""
    tried = together = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        shares = generator.integers(0, 4, (3, 2, 3)) * generator.integers(0, 2, (3, 2, 3)) + np.eye(3)[:, None]
        costs = generator.integers(0, 3, (3, 2, 2))
        costs[:, 1] = 2 - costs[:, 0]  # what spares one spends the other
        mdp = conrl.ConstrainedMDP(
            shares / shares.sum(axis=2, keepdims=True), costs[..., 0], costs, 5, cost_names=["a b", "c"]
        )
        asked = {"a b": float(generator.integers(0, 6)), "c": float(generator.integers(3, 9))}
        found = conrl.feasibility(mdp, conrl.Linear(never=asked))
        if found.feasible:
            continue
        with pytest.raises(conrl.InfeasibleError) as caught:
            conrl.plan(mdp, conrl.Linear(never=asked))
        told = re.search(
            r"P\((.+) > \d\) can be as low as ([^:]+)(?:: instead, ask for that with chance=(.*))?$", str(caught.value)
        )
        assert told is not None
        name, share, alone = told[1], float(told[2]), len(found.conflict) == 1
        rest = {other: most for other, most in asked.items() if other != name and not alone}
        bounds = [asked[n] if n == name or n in rest else math.inf for n in mdp.cost_names]
        exact = least_share(mdp, mdp.cost_names.index(name), bounds)
        assert exact * (1 - Fraction(1, 10**12)) <= Fraction(share) <= exact * (1 + Fraction(1, 10**5))
        assert (told[3] is None) == (share == 1.0)
        if told[3] is not None:
            assert ast.literal_eval(told[3]) == {name: (asked[name], share)}
            conrl.plan(mdp, conrl.Linear(never=rest, chance={name: (asked[name], share)}))
            with pytest.raises(conrl.InfeasibleError):
                conrl.plan(mdp, conrl.Linear(never=rest, chance={name: (asked[name], 0.999 * share)}))
            tried, together = tried + 1, together + (not alone)
    assert tried >= 10
    assert together >= 5


@pytest.mark.parametrize(
    "problem",
    [
        conrl.Linear({"energy": 0.1}, chance={"repairs": (0, 0.01)}),
        conrl.Linear(never={"repairs": -1}),
        conrl.Linear({"energy": 1.4}, never={"repairs": 0}),
        conrl.Linear(cvar={"repairs": (0.5, -1)}),
        conrl.Linear({"energy": 1.4}, cvar={"repairs": (0.9, 0.001)}),
        conrl.Linear({"energy": 1.4}, cvar={"repairs": (0.9, 0.001), "energy": (0.5, 0.2)}),
    ],
)
def test_relaxed_plans_say_by_how_much_they_exceed(problem: conrl.Linear) -> None:
    mdp = machine(8, 12)
    with pytest.raises(conrl.InfeasibleError) as caught:
        conrl.plan(mdp, problem)
    proof = caught.value.feasibility
    assert proof.conflict
    assert proof.least.shape == (2,)
    assert proof.multipliers is None or proof.multipliers.shape == (len(proof.conflict),)
    plan = planned(conrl.ColumnGeneration(), mdp, problem, relax=True)
    assert plan.status == "infeasible"
    assert max(row.excess - row.allowance for row in plan.rows) > 0.0
    assert planned(conrl.ColumnGeneration(), mdp, problem, plan.start, relax=True).status == "infeasible"


def test_other_planners_and_copies() -> None:
    mdp = machine(8, 12)
    problem = conrl.Linear({"energy": 2.6}, chance={"repairs": (0, 0.3)}, never={"repairs": 3})
    plan = conrl.plan(mdp, problem)
    rough_plan = conrl.plan(mdp, problem, planner="lagrangian")
    assert rough_plan.status == "approximate"
    assert rough_plan.bound >= plan.objective - 1e-9
    again = pickle.loads(pickle.dumps(plan))
    assert again.rows == plan.rows
    np.testing.assert_array_equal(conrl.evaluate(mdp, again).value, conrl.evaluate(mdp, plan).value)
    warm = planned(conrl.ColumnGeneration(), mdp, problem, plan.start)
    assert warm.objective == pytest.approx(plan.objective, rel=1e-9)
    with pytest.raises(conrl.ModelError, match="different things"):
        conrl.Mixture([0.5, 0.5], [plan.policy, conrl.plan(mdp, [9.0, 9.0]).policy]).to_markov(mdp)


def test_nevers_that_conflict_only_together() -> None:
    mdp = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 0.0]], [[[1.0, 0.0], [0.0, 1.0]]], 4)
    with pytest.raises(conrl.InfeasibleError, match="cannot be kept together") as caught:
        conrl.plan(mdp, conrl.Linear(never={"cost0": 1, "cost1": 1}))
    assert len(caught.value.feasibility.conflict) == 2
    with pytest.raises(conrl.InfeasibleError) as caught:
        conrl.plan(mdp, conrl.Linear({"cost1": 1.5}, never={"cost0": 2}))
    assert caught.value.feasibility.conflict == ("cost1 <= 1.5", "cost0 in every episode <= 2")
    assert conrl.plan(mdp, conrl.Linear({"cost1": 2}, never={"cost0": 2})).status == "optimal"


def test_a_mixture_of_plans_that_keep_a_cvar_can_exceed_it() -> None:
    """Why plans of different quantiles are never mixed: two policies with CVaR 4 mix to 5."""
    P = np.zeros((3, 2, 3))
    P[0, 0] = [0.0, 0.8, 0.2]
    P[0, 1, 1] = 1.0
    P[1:, :, 1] = 1.0
    costs = np.zeros((3, 2, 1))
    costs[0, 1], costs[2, :] = 4.0, 8.0
    mdp = conrl.ConstrainedMDP(P, np.zeros((3, 2)), costs, 2)
    ways = [conrl.Deterministic(np.full((2, 3), a), 2) for a in (0, 1)]
    assert [conrl.distribution(mdp, way).cvar(0.6) for way in ways] == pytest.approx([4.0, 4.0])
    assert conrl.distribution(mdp, conrl.Mixture([0.5, 0.5], ways)).cvar(0.6) == pytest.approx(5.0)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize("seed", [0, 86, 117, 123, 128, 130])
def test_the_unit_of_rewards_does_not_matter(seed: int, unit: float) -> None:
    """The search over quantiles goes on to the best one, however small rewards are; on these models the first is not
    the best."""
    rng = np.random.default_rng(seed)
    S, A, H = int(rng.integers(2, 4)), int(rng.integers(2, 4)), int(rng.integers(3, 6))
    transitions = rng.dirichlet(np.full(S, 0.7), size=(S, A))
    rewards, costs = rng.uniform(0.0, 1.0, (S, A)), rng.integers(0, 4, (S, A, 1)).astype(float)
    problem = conrl.Linear(cvar=[(float(rng.choice([0.3, 0.5, 0.8])), float(rng.uniform(1.0, 8.0)))])
    best, plan = (
        conrl.plan(conrl.ConstrainedMDP(transitions, size * rewards, costs, horizon=H), problem) for size in (1.0, unit)
    )
    assert plan.status == best.status == "optimal"
    assert plan.objective / unit == pytest.approx(best.objective, rel=1e-8)
    assert plan.bound / unit == pytest.approx(best.objective, rel=1e-8)


def test_the_frontier_against_the_probability_of_exceeding() -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    curve = conrl.frontier(mdp, chance={"crash": 0}, limits=conrl.Linear())
    assert curve.complete
    for p in (0.01, 0.05, 0.3):
        plan = conrl.plan(mdp, curve.linear(p))
        assert plan.reward == pytest.approx(curve.reward(p), abs=1e-8)
        assert conrl.plan(mdp, conrl.Linear(chance={"crash": (0, p)})).reward == pytest.approx(plan.reward, abs=1e-8)
        assert plan.rows[0].price == pytest.approx(curve.price(p), rel=1e-4)
    with pytest.raises(conrl.SpecError, match="CVaR"):
        conrl.frontier(mdp, limits=conrl.Linear(cvar={"crash": (0.5, 1)}))
    shop = conrl.envs.pricing()
    other = conrl.frontier(shop, "stock", limits=conrl.Linear(chance={"stock": (5, 0.1)}))
    assert conrl.plan(shop, other.linear(3.5)).reward == pytest.approx(other.reward(3.5), abs=1e-8)


def test_feasibility_with_limits_on_single_episodes() -> None:
    mdp = machine(12, 20)
    found = conrl.feasibility(mdp, conrl.Linear({"energy": 5}, chance={"repairs": (1, 0.2)}))
    assert found.feasible
    assert found.slack is not None
    tight = 5.0 - float(found.slack[1])
    assert conrl.feasibility(mdp, conrl.Linear({"energy": tight + 1e-6}, chance={"repairs": (1, 0.2)})).feasible
    lower = conrl.feasibility(mdp, conrl.Linear({"energy": tight - 1e-3}, chance={"repairs": (1, 0.2)}))
    assert not lower.feasible
    assert "energy" in lower.conflict[0]


def test_together_with_limits_on_single_steps() -> None:
    mdp = machine(8, 12)
    problem = conrl.Linear(
        {"energy": 2.5}, per_step={"energy": 0.25}, chance={"repairs": (0, 0.3)}, never={"repairs": 2}
    )
    plan = conrl.plan(mdp, problem)
    assert plan.status == "optimal"
    assert plan.costs.shape == (2,)
    assert plan.rows[3].name == "energy at step 2 <= 0.25"
    check_rows(mdp, plan)
    rho = plan.policy.occupation(mdp)
    assert (np.einsum("hsa,sa->h", rho, mdp.costs[:, :, 1]) <= 0.25 + 1e-9).all()
    free = conrl.plan(mdp, conrl.Linear({"energy": 2.5}, chance={"repairs": (0, 0.3)}, never={"repairs": 2}))
    assert plan.reward < free.reward - 1e-3
    again = conrl.plan(mdp, problem, planner="linear-program")
    assert again.objective == pytest.approx(plan.objective, rel=1e-6)


# -- grids ------------------------------------------------------------------------------------------------


def rough(seed: int, S: int = 3, A: int = 2, H: int = 3) -> conrl.ConstrainedMDP:
    """Costs without a common unit."""
    rng = np.random.default_rng(seed)
    return conrl.ConstrainedMDP(rng.dirichlet(np.ones(S), (S, A)), rng.random((S, A)), rng.random((S, A, 1)), H)


@pytest.mark.parametrize("seed", range(12))
def test_a_grid_brackets_the_optimum(seed: int) -> None:
    mdp = rough(seed)
    least = conrl.feasibility(mdp, [np.inf]).least[0]
    asks: list[dict[str, Any]] = [
        {"chance": {"cost": (1.2 * least, 0.3)}},
        {"cvar": {"cost": (0.5, 1.5 * least)}},
        {"never": {"cost": 1.5 * float(mdp.costs.max())}},
    ]
    ask = asks[seed % 3]
    try:
        exact = conrl.plan(mdp, conrl.Linear(**ask))
    except conrl.InfeasibleError:
        exact = None
    widths: list[float] = []
    undecided: list[str] = []
    for grid in (0.1, 0.02, 0.002):
        try:
            plan = conrl.plan(mdp, conrl.Linear(**ask, grid=grid))
        except conrl.InfeasibleError:
            assert exact is None
            continue
        except conrl.RunError as error:
            undecided.append(str(error))
            continue
        assert exact is not None
        assert plan.status in ("optimal", "bracketed")
        assert plan.objective <= exact.bound + 1e-9
        assert plan.bound >= exact.objective - 1e-9
        widths.append(plan.gap)
        ends = conrl.distribution(mdp, plan)
        (tail,) = conrl.Linear(**ask).tails(mdp)
        if tail.kind == "chance":
            assert ends.exceed(tail.limit) <= tail.share + 1e-9
        elif tail.kind == "cvar":
            assert ends.cvar(tail.share) <= tail.limit + 1e-9
        else:
            assert ends.most <= tail.limit
    assert all("refine the grid" in message for message in undecided)
    assert all(wide >= narrow - 1e-9 for wide, narrow in itertools.pairwise(widths))


@pytest.mark.parametrize("seed", range(24))
def test_a_grid_brackets_the_optimum_of_signed_costs_too(seed: int) -> None:
    """With a second cost that needs no grid."""
    rng = np.random.default_rng(seed)
    costs = np.stack((rng.normal(size=(3, 2)), rng.integers(0, 3, (3, 2))), axis=2)
    mdp = conrl.ConstrainedMDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), costs, 3)
    ends = conrl.distribution(mdp, conrl.plan(mdp, [np.inf, np.inf]))
    m = ends.quantile(0.5) - 0.05 * float(rng.random())
    asks: list[dict[str, Any]] = [
        {"chance": {"cost0": (m, 0.3)}},
        {"cvar": {"cost0": (0.6, m)}},
        {"never": {"cost0": ends.quantile(0.7)}},
        {"chance": {"cost0": (m, 0.4), "cost1": (2, 0.5)}},
    ]
    ask = asks[seed % 4]
    best: float | None = None
    with contextlib.suppress(conrl.InfeasibleError):
        best = conrl.plan(mdp, conrl.Linear(**ask)).objective
    for grid in (0.1, 0.01):
        try:
            plan = conrl.plan(mdp, conrl.Linear(**ask, grid={"cost0": grid}))
        except conrl.InfeasibleError:
            assert best is None
            continue
        except conrl.RunError:  # undecided
            continue
        assert best is not None
        assert plan.objective <= best + 1e-8
        assert plan.bound >= best - 1e-8
        for tail in conrl.Linear(**ask).tails(mdp):
            true = conrl.distribution(mdp, plan, tail.cost)
            if tail.kind == "chance":
                assert true.exceed(tail.limit) <= tail.share + 1e-9
            elif tail.kind == "cvar":
                assert true.cvar(tail.share) <= tail.limit + 1e-9
            else:
                assert true.most <= tail.limit


def test_a_grid_of_which_all_costs_are_multiples_is_exact() -> None:
    plan = conrl.plan(chain(0.1, 10), conrl.Linear(never={"cost": 0.3}, grid=0.05))
    assert (plan.status, plan.reward) == ("optimal", 3.0)


def test_too_many_totals_get_a_grid_by_themselves() -> None:
    mdp = rough(5, S=6, A=3, H=12)
    plan = conrl.plan(mdp, conrl.Linear(chance={"cost": (3.0, 0.2)}))
    assert plan.status == "bracketed"
    assert 0.0 < plan.gap < 0.2 * plan.objective
    seen = conrl.simulate(mdp, plan, 20_000)
    assert (seen.costs[:, 0] > 3.0).mean() <= 0.2 + 0.02
    finer = conrl.plan(mdp, conrl.Linear(chance={"cost": (3.0, 0.2)}, grid={"cost": 0.002}))
    assert finer.gap < plan.gap
    with pytest.raises(conrl.ModelError, match="no common unit"):
        conrl.distribution(mdp, plan)


# -- the command line -------------------------------------------------------------------------------------


def test_the_command_line(tmp_path: Path) -> None:
    words = ["plan", "pricing", "--chance", "stock>4:0.2", "--cvar", "stock@0.5:4.5", "--never", "stock=12"]
    record = json.loads(run(*words, "--json").stdout)
    assert [row["name"] for row in record["single_episodes"]] == [
        "P(stock > 4) <= 0.2",
        "CVaR 0.5 of stock <= 4.5",
        "stock in every episode <= 12",
    ]
    wrote = run(*words, "--out", str(tmp_path / "p.csv"), "--out", str(tmp_path / "p.npz"), "--simulate", "100")
    assert "the policy acts on what was spent so far" in wrote.stdout
    assert isinstance(conrl.load_policy(tmp_path / "p.npz"), conrl.SpentPolicy)
    curve = json.loads(run("frontier", "pricing", "--chance", "stock>4", "--max-vertices", "5", "--json").stdout)
    assert curve["cost"] == "P(stock > 4)"
    assert run("plan", "pricing", "--never", "stock=3").exit_code == 3
    for wrong in (
        ("plan", "pricing", "--chance", "stock>4"),
        ("plan", "pricing", "--chance", "stock:4"),
        ("plan", "pricing", "--chance", "stok>4:0.1"),
        ("plan", "pricing", "--chance", "stock>4:1.1"),
        ("plan", "pricing", "--cvar", "stock@1:4"),
        ("plan", "pricing", "--cvar", "stock@a:4"),
        ("plan", "pricing", "--chance", "stock>4:0.1", "--budget", "stock=9", "--episodes", "3"),
        ("frontier", "pricing", "--chance", "stock>1", "--chance", "stock>2"),
        ("frontier", "pricing", "--chance", "stock>1", "--cost", "stock"),
    ):
        done = run(*wrong)
        assert done.exit_code == 2, (wrong, done.output)
        assert len(done.stderr.strip().splitlines()) == 1


# -- policies ---------------------------------------------------------------------------------------------


def test_acting_by_hand_is_what_simulation_plays() -> None:
    mdp = machine(8, 12)
    plan = conrl.plan(mdp, conrl.Linear(chance={"repairs": (0, 0.3)}, never={"repairs": 2}))
    policy = plan.policy
    assert isinstance(policy, conrl.SpentPolicy)
    assert policy.counts == ("repairs",)
    assert policy.start == (Fraction(0),)
    assert policy.spend(policy.start, [1.0, 0.3]) == (Fraction(1),)
    assert policy.spend({"repairs": 2}, [1.0, 0.3]) == (Fraction(3),)
    assert policy.spend(5, [0.0, 0.0]) == (Fraction(3),)  # all above 2 is one
    generator = np.random.default_rng(0)
    totals = []
    from conrl.sampling import Dynamics, draw

    world = Dynamics(mdp)
    for _ in range(300):
        spent: tuple[Fraction, ...] = policy.start
        state, total = int(np.argmax(mdp.initial)), 0.0
        for h in range(mdp.horizon):
            pair = mdp.pair(h, state, policy.act(h, state, generator, spent=spent))
            outcomes = slice(mdp.graph.start[pair], mdp.graph.start[pair + 1])
            j = int(outcomes.start) + int(draw(mdp.graph.probability[outcomes], generator.random()))
            spent, total = policy.spend(spent, world.pay[j, 1:]), total + world.pay[j, 1]
            state = int(mdp.graph.successor[j])
        totals.append(total)
    p = conrl.distribution(mdp, plan, "repairs").exceed(0)
    assert max(totals) <= 2
    assert abs(np.mean(np.array(totals) > 0) - p) < 5 * math.sqrt(p * (1 - p) / 300)
    table = policy.at(1)
    assert table.probabilities.shape == (12, 8, 3)
    with pytest.raises(conrl.ModelError, match=r"policy\.spend"):
        policy.act(0, 0, generator)
    with pytest.raises(conrl.ModelError, match=r"policy\.at\(spent\)"):
        _ = policy.probabilities
    for wrong in ("x", (1, 2), {"energi": 1}, None, [None], math.nan):
        with pytest.raises(conrl.ModelError):
            policy.at(wrong)
    np.testing.assert_array_equal(policy.at(0.5).probabilities, table.probabilities)  # rounded up


@pytest.mark.parametrize("kind", ["markov", "deterministic", "several"])
def test_saved_and_loaded_policies_are_the_same(tmp_path: Path, kind: str) -> None:
    mdp = machine(8, 12)
    chance = {"repairs": (0, 0.3)} if kind != "several" else {"repairs": (0, 0.3), "energy": (2.5, 0.2)}
    plan = conrl.plan(mdp, conrl.Linear(chance=chance))
    policy = plan.policy if kind != "deterministic" else plan.mixture.policies[0]
    policy.save(tmp_path / "policy.npz")
    again = conrl.load_policy(tmp_path / "policy.npz")
    assert isinstance(again, conrl.SpentPolicy)
    assert repr(again) == repr(policy)
    np.testing.assert_array_equal(conrl.evaluate(mdp, again).value, conrl.evaluate(mdp, policy).value)
    np.testing.assert_array_equal(
        conrl.distribution(mdp, again, "repairs").probabilities,
        conrl.distribution(mdp, policy, "repairs").probabilities,
    )
    policy.save(tmp_path / "policy.csv", mdp)
    head = (tmp_path / "policy.csv").read_text().splitlines()[0]
    assert head == f"step,state,{','.join(f'spent_{name}' for name in chance)},action,probability"


def test_damaged_saved_policies_are_refused(tmp_path: Path) -> None:
    policy = conrl.plan(machine(6, 6), conrl.Linear(chance={"repairs": (0, 0.3)})).policy
    path = tmp_path / "policy.npz"
    policy.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    damages: dict[str, list[Any]] = {
        "state": [arrays["state"] + 1, arrays["state"][:-1], arrays["state"] * 0, arrays["state"] - 1, np.zeros(3)],
        "spent": [arrays["spent"][:-1], np.array([["x"]] * arrays["state"].size), arrays["spent"].T],
        "units": [np.array(["0"]), np.array(["-1/2"]), np.array(["1/0"]), np.array(["x"]), np.array(["1", "1"])],
        "caps": [np.array(["x"]), np.array(["1", ""])],
        "counted": [np.array([-1]), np.array([], dtype=np.int64), np.array([0, 0])],
        "rounding": [np.array([5]), np.array([0, 0])],
        "first_actions": [arrays["first_actions"] + 9, arrays["first_actions"][0], -1 - arrays["first_actions"]],
        "inner_probabilities": [arrays["inner_probabilities"][:, 1:], arrays["inner_probabilities"] * 2.0],
    }
    for name, values in damages.items():
        for value in values:
            np.savez(path, **(arrays | {name: value}))
            with pytest.raises(conrl.ModelError, match="not a policy file"):
                conrl.load_policy(path)
        np.savez(path, **{other: array for other, array in arrays.items() if other != name})
        with pytest.raises(conrl.ModelError, match="not a policy file"):
            conrl.load_policy(path)


def test_in_a_gymnasium_environment() -> None:
    import gymnasium

    mdp = conrl.envs.pricing()
    plan = conrl.plan(mdp, conrl.Linear(chance={"stock": (4, 0.2)}))
    env = gymnasium.make("conrl/Pricing-v0")
    seen = conrl.simulate(env, plan, 3000)
    p = plan.rows[0].value
    assert abs((seen.costs[:, 0] > 4).mean() - p) < 5 * math.sqrt(p * (1 - p) / 3000)


def test_what_makes_no_sense_is_refused() -> None:
    mdp = machine(4, 4)
    wrong: list[dict[str, Any]] = [
        {"never": {"repair": 1}},
        {"never": {"repairs": "x"}},
        {"never": {"repairs": math.inf}},
        {"never": 3},
        {"chance": {"repairs": 0.5}},
        {"chance": {"repairs": (1, 1.5)}},
        {"chance": {"repairs": (1, 0.5, 2)}},
        {"cvar": {"repairs": (1.0, 2)}},
        {"cvar": {"repairs": (0.5, math.nan)}},
        {"cvar": {"repairs": "ab"}},
        {"chance": {"repairs": (1, 0.5)}, "grid": 0},
        {"chance": {"repairs": (1, 0.5)}, "grid": {"repair": 1}},
        {"chance": {"repairs": (1, 0.5)}, "grid": "x"},
    ]
    for given_ in wrong:
        with pytest.raises(conrl.ModelError):
            conrl.plan(mdp, conrl.Linear(**given_))
    with pytest.raises(conrl.SpecError, match=r"conrl\.plan"):
        conrl.ColumnGeneration().plan(mdp, conrl.Linear(never={"repairs": 1}))
    with pytest.raises(conrl.SpecError, match=r"conrl\.plan"):
        conrl.UCBVI(mdp.task, problem=conrl.Linear(never={"repairs": 1}))
    with pytest.raises(conrl.SpecError, match="not on single episodes"):
        conrl.plan(mdp, conrl.Linear(never={"repairs": 1}), deterministic=True)
    endless = mdp.replace(horizon=conrl.Discounted(0.9))
    calls: list[Any] = [
        lambda: conrl.plan(endless, conrl.Linear(never={"repairs": 1})),
        lambda: conrl.frontier(endless, chance={"repairs": 1}),
        lambda: conrl.feasibility(endless, conrl.Linear(cvar={"repairs": (0.5, 1)})),
        lambda: conrl.distribution(endless, conrl.plan(endless, [np.inf, np.inf])),
    ]
    for call in calls:
        with pytest.raises(conrl.ConRLError, match="horizon"):
            call()
    assert conrl.plan(mdp, conrl.Linear(chance={}, never={})).rows == ()


# -- found by an attack ---------------------------------------------------------------------------------------


def test_a_negative_threshold_with_a_grid() -> None:
    """The grid was negative, and the plan claimed that a cost which is never negative is never above -1."""
    rng = np.random.default_rng(0)
    costs = np.stack((rng.choice([0, 1 / 3], (4, 3)), rng.random((4, 3))), 2)
    mdp = conrl.ConstrainedMDP(rng.dirichlet(np.ones(4), (4, 3)), rng.random((4, 3)), costs, 12)
    problem = conrl.Linear(chance={"cost0": (-1, 0.1), "cost1": (3, 0.5)})
    assert not conrl.feasibility(mdp, problem).feasible
    with pytest.raises(conrl.InfeasibleError):
        conrl.plan(mdp, problem)
    tiny = conrl.plan(mdp, conrl.Linear(chance={"cost0": (1e-322, 1.0), "cost1": (3, 0.5)}))
    assert tiny.status == "bracketed"


def test_a_threshold_out_of_reach_does_not_coarsen_the_grid() -> None:
    rng = np.random.default_rng(0)
    mdp = conrl.ConstrainedMDP(rng.dirichlet(np.ones(4), (4, 3)), rng.random((4, 3)), rng.random((4, 3, 1)), 12)
    alone = conrl.plan(mdp, conrl.Linear(chance={"cost": [(3, 0.5)]}))
    beside = conrl.plan(mdp, conrl.Linear(chance={"cost": [(3, 0.5), (1e6, 0.1)]}))
    assert beside.bound - beside.objective <= 2.0 * (alone.bound - alone.objective) + 1e-6


def test_limits_per_step_where_actions_are_missing() -> None:
    """The plan played an action that does not exist, at a step at which nobody comes there, and could not be used."""
    outcomes: Any = ([0, 0, 1], [0, 1, 1], [1, 1, 0], [1.0, 1.0, 1.0], [[1.0, 1.0], [0, 0], [1, 1]])
    mdp = conrl.ConstrainedMDP.from_outcomes(*outcomes, num_states=2, num_actions=2, horizon=3, cost_names=("c",))
    plan = conrl.plan(mdp, conrl.Linear(per_step={"c": [0.8, None, None]}, chance={"c": (2, 0.5)}))
    assert plan.reward == pytest.approx(2.5)
    assert conrl.evaluate(mdp, plan).reward == pytest.approx(2.5)
    assert conrl.distribution(mdp, plan).exceed(2) <= 0.5 + 1e-9
    assert conrl.simulate(mdp, plan, 100).rewards.size == 100


def test_a_chance_of_what_an_episode_begins_above_is_named_as_it_was_asked() -> None:
    """It was called `P(cost > -3) - 1 <= -0.8`."""
    earning = conrl.ConstrainedMDP([[[1.0]]], [[1.0]], [[[-1.0]]], 2)
    with pytest.raises(conrl.InfeasibleError) as refused:
        conrl.plan(earning, conrl.Linear(chance={"cost": (-3, 0.2)}))
    assert str(refused.value) == "infeasible: P(cost > -3) <= 0.2 cannot be kept"
    assert refused.value.feasibility.conflict == ("P(cost > -3) <= 0.2",)
    assert refused.value.feasibility.violation == pytest.approx(0.8)


def test_a_never_below_zero() -> None:
    mdp = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[-1.0], [1.0]]], 4)
    plan = conrl.plan(mdp, conrl.Linear(never={"cost": -1}))
    assert plan.rows[0].value == -2.0
    nearly = conrl.plan(mdp, conrl.Linear(chance={"cost": (-1, 1e-3)}))
    assert plan.rows[0].price == pytest.approx((nearly.reward - plan.reward) / 1e-3)
    task = dataclasses.replace(mdp.task, can_stop=True)
    with pytest.raises(conrl.SpecError, match="keeps no limit below 0"):
        conrl.ConRL(task, problem=conrl.Linear(never={"cost": -1}))


def test_a_distribution_of_too_many_totals_says_so() -> None:
    rng = np.random.default_rng(1)
    costs = rng.integers(0, 60, (3, 2, 2)).astype(float)
    mdp = conrl.ConstrainedMDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), costs, 30)
    plan = conrl.plan(mdp, conrl.Linear(chance={"cost0": (700, 0.2)}))
    with pytest.raises(conrl.ModelError, match="simulate instead"):
        conrl.distribution(mdp, plan, "cost1")


# -- what an attack found ---------------------------------------------------------------------------------


def still(costs: list[float], horizon: int = 1, names: list[str] | None = None) -> conrl.ConstrainedMDP:
    """One state and one action."""
    return conrl.ConstrainedMDP([[[1.0]]], [[1.0]], [[costs]], horizon, cost_names=names)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_conflict_names_the_cvar_that_cannot_be_kept(kept: int) -> None:
    """Two on one cost, in both orders; and two costs, the name of one of which begins like the other's."""
    pair = [(0.1, 100), (0.9, 1)]
    with pytest.raises(conrl.InfeasibleError) as found:
        conrl.plan(still([3.0], names=["x"]), conrl.Linear(cvar={"x": pair[:: 1 - 2 * kept]}))
    assert found.value.feasibility.conflict == ("CVaR 0.9 of x <= 1",)
    mdp = still([0.0, 3.0], names=["a", "a - b"])
    with pytest.raises(conrl.InfeasibleError) as found:
        conrl.plan(mdp, conrl.Linear(cvar={"a": (0.5, 100), "a - b": (0.9, 1)}))
    assert found.value.feasibility.conflict == ("CVaR 0.9 of a - b <= 1",)
    mdp = still([3.0, 0.0], names=["x", "excess of CVaR 0.9 of x"])  # what the search calls it by itself
    with pytest.raises(conrl.InfeasibleError) as found:
        conrl.plan(mdp, conrl.Linear(cvar={"x": (0.9, 1)}))
    assert found.value.feasibility.conflict == ("CVaR 0.9 of x <= 1",)


def test_feasibility_with_a_bonus_is_that_of_the_plan() -> None:
    mdp = still([1.0], 2).with_bonus([[[0.0, 0.5]]])
    free = {"cost": (5, 1.0)}  # limits nothing
    for limit in (1.5, 2.5):
        plain, same = (conrl.feasibility(mdp, conrl.Linear([limit], chance=x)) for x in (None, free))
        assert plain.feasible
        assert same.feasible
        assert same.slack == pytest.approx(plain.slack, abs=1e-9)

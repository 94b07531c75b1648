"""Limits on single episodes: never, chance, CVaR. Against brute force, exact fractions, simulation and HiGHS."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import conrl
from conrl.model.counting import common_unit, simplest

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


def brute(model: Tiny, problem: conrl.Linear, names: tuple[str, ...]) -> float:
    """The optimum by enumeration of deterministic policies, mixed by a linear program for each choice of quantiles."""
    played = [model.play(choice) for choice in model.policies()]

    def total(ends: dict[tuple[Fraction, ...], float], f: Any) -> float:
        return sum(p * float(f(v)) for v, p in ends.items())

    for name, m in (problem.never or {}).items():  # type: ignore[union-attr]
        i, bar = names.index(name), Fraction(m).limit_denominator(10**8)
        played = [(r, e) for r, e in played if all(v[i] <= bar for v in e)]
    rewards = [r for r, _ in played]
    rows: list[tuple[list[float], float]] = []
    for name, x in (problem.limits or {}).items():  # type: ignore[union-attr]
        i = names.index(name)
        rows.append(([total(e, lambda v, i=i: v[i]) for _, e in played], x))
    for name, (m, p) in (problem.chance or {}).items():  # type: ignore[union-attr]
        i, bar = names.index(name), Fraction(m).limit_denominator(10**8)
        rows.append(([total(e, lambda v, i=i, bar=bar: v[i] > bar) for _, e in played], p))
    tails = [
        (names.index(name), a, Fraction(b).limit_denominator(10**8)) for name, (a, b) in (problem.cvar or {}).items()
    ]  # type: ignore[union-attr]
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


# -- counting ---------------------------------------------------------------------------------------------


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
@settings(max_examples=300, deadline=None)
def test_the_simplest_rational_rounds_to_its_double(x: float) -> None:
    found = simplest(x)
    assert float(found) == x
    if abs(x) < 1e6 and abs(x) > 1e-6:
        near = Fraction(x).limit_denominator(max(found.denominator - 1, 1))
        assert found.denominator == 1 or float(near) != x


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6))
@settings(max_examples=300, deadline=None)
def test_fractions_that_people_write_are_found(p: int, q: int) -> None:
    assert simplest(p / q) == Fraction(p, q)


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

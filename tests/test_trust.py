"""Numerical trust: on adversarial models, in exact rational arithmetic, a plan keeps what it says.

Doubles are rationals, so that a model's every policy has an exact value. All deterministic policies of small models are
evaluated so, which gives the exact optimum over their mixtures (a mixture of d + 1 is enough). A plan must then

- keep each limit: its exactly evaluated cost exceeds it by at most 1e-9 max(|limit|, largest one-step cost), the
  stated allowance, plus rounding;
- have a bound that is not below the exact optimum, and an objective that is its exactly evaluated reward, within a
  rounding allowance of 1e-12 H (largest one-step pay), in proportion to the prices;
- find infeasible nothing that is feasible with room, and feasible nothing that is infeasible beyond the allowance.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conrl

ALLOWED = Fraction(1, 10**9)
ROUNDING = Fraction(1, 10**12)
PROBABILITIES = (1e-300, 1e-100, 1e-17, 1e-12, 1e-9, 0.1, 0.5, 1.0 - 1e-12)
SIZES = (0.0, 1e-12, 1e-6, 1e-3, 0.5, 1.0, 1.0 + 2**-52, 3.0, 1e3, 1e6)


def exact(mdp: conrl.ConstrainedMDP, actions: Any) -> tuple[Fraction, ...]:
    """The value vector of a policy [H, S] -> {a: probability}, in rationals, of the model as its doubles are."""
    S, d = mdp.num_states, mdp.num_costs
    transitions = np.asarray(mdp.transitions.todense()).reshape(S, mdp.num_actions, S)
    pay = np.concatenate((mdp.rewards[:, :, None], mdp.costs), axis=2)
    value = [[Fraction(0)] * (1 + d) for _ in range(S)]
    for h in reversed(range(mdp.horizon)):
        new = []
        for s in range(S):
            row = [Fraction(0)] * (1 + d)
            for a, share in actions(h, s).items():
                for i in range(1 + d):
                    later = sum(
                        (Fraction(float(transitions[s, a, t])) * value[t][i] for t in range(S) if transitions[s, a, t]),
                        Fraction(0),
                    )
                    row[i] += share * (Fraction(float(pay[s, a, i])) + later)
            new.append(row)
        value = new
    return tuple(
        sum((Fraction(float(p)) * value[s][i] for s, p in enumerate(mdp.initial)), Fraction(0)) for i in range(1 + d)
    )


def all_points(mdp: conrl.ConstrainedMDP) -> set[tuple[Fraction, ...]]:
    """The exact value vectors of all deterministic policies."""
    places = list(itertools.product(range(mdp.horizon), range(mdp.num_states)))
    found = set()
    for choice in itertools.product(range(mdp.num_actions), repeat=len(places)):
        table = dict(zip(places, choice, strict=True))
        found.add(exact(mdp, lambda h, s, table=table: {table[h, s]: Fraction(1)}))
    return found


def best_mixture(points: set[tuple[Fraction, ...]], limits: list[Fraction]) -> Fraction | None:
    """The exact optimum over mixtures; None if no mixture keeps the limits. At most two limits."""
    best: Fraction | None = None
    rows = list(points)
    for p in rows:
        if all(c <= x for c, x in zip(p[1:], limits, strict=True)) and (best is None or p[0] > best):
            best = p[0]
    for size in range(2, len(limits) + 2):
        for group in itertools.combinations(rows, size):
            for tight in itertools.combinations(range(len(limits)), size - 1):
                weights = solve(group, [limits[i] for i in tight], [1 + i for i in tight])
                if weights is None or min(weights) < 0:
                    continue
                mixed = [
                    sum((w * p[i] for w, p in zip(weights, group, strict=True)), Fraction(0))
                    for i in range(len(group[0]))
                ]
                if all(c <= x for c, x in zip(mixed[1:], limits, strict=True)) and (best is None or mixed[0] > best):
                    best = mixed[0]
    return best


def solve(group: Any, limits: list[Fraction], columns: list[int]) -> list[Fraction] | None:
    """Weights that sum to 1 and meet the limits exactly, by elimination; None if there are none or many."""
    n = len(group)
    matrix = [[Fraction(1)] * n + [Fraction(1)]]
    matrix += [[p[c] for p in group] + [x] for c, x in zip(columns, limits, strict=True)]
    for i in range(n):
        pivot = next((k for k in range(i, n) if matrix[k][i] != 0), None)
        if pivot is None:
            return None
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        matrix[i] = [x / matrix[i][i] for x in matrix[i]]
        for k in range(n):
            if k != i:
                matrix[k] = [x - matrix[k][i] * y for x, y in zip(matrix[k], matrix[i], strict=True)]
    return [row[-1] for row in matrix]


def policy_of(plan: conrl.Plan) -> Any:
    """The plan's Markov policy with its probabilities as rationals that sum to 1."""
    table = plan.policy.probabilities

    def actions(h: int, s: int) -> dict[int, Fraction]:
        shares = {a: Fraction(float(p)) for a, p in enumerate(table[h, s]) if p > 0.0}
        total = sum(shares.values(), Fraction(0))
        return {a: share / total for a, share in shares.items()}

    return actions


@st.composite
def models(draw: Any) -> tuple[conrl.ConstrainedMDP, list[float]]:
    d = draw(st.integers(1, 2))
    S = draw(st.integers(1, 2))
    H = draw(st.integers(1, 3 if S == 1 else 2))
    P = np.zeros((S, 2, S))
    for s, a in itertools.product(range(S), range(2)):
        p = draw(st.sampled_from(PROBABILITIES)) if S == 2 else 0.0
        P[s, a, 0], P[s, a, -1] = (1.0 - p, p) if S == 2 else (1.0, 1.0)
    size = st.sampled_from(SIZES)
    rewards = np.array([[draw(size) for _ in range(2)] for _ in range(S)])
    costs = np.array([[[draw(size) for _ in range(d)] for _ in range(2)] for _ in range(S)])
    if d == 2 and draw(st.booleans()):  # near-parallel limits
        costs[:, :, 1] = costs[:, :, 0] * (1.0 + draw(st.sampled_from((0.0, 1e-15, 1e-12, 1e-9, 1e-6))))
    mdp = conrl.ConstrainedMDP(P, rewards, costs, H)
    points = all_points(mdp)
    limits = []
    for i in range(d):
        least, most = float(min(p[1 + i] for p in points)), float(max(p[1 + i] for p in points))
        kind = draw(st.sampled_from(("between", "least", "near", "below", "loose")))
        limits.append(
            {
                "between": least + draw(st.floats(0, 1)) * (most - least),
                "least": least,
                "near": least + draw(st.sampled_from((1e-12, -1e-12, 1e-15))) * max(1.0, abs(least)),
                "below": least - 0.1 * max(1.0, abs(least)),
                "loose": most + 1.0,
            }[kind]
        )
    return mdp, limits


@settings(max_examples=300, deadline=None)
@given(models())
def test_plans_keep_what_they_say_in_exact_arithmetic(drawn: tuple[conrl.ConstrainedMDP, list[float]]) -> None:
    mdp, limits = drawn
    points = all_points(mdp)
    asked = [Fraction(x) for x in limits]
    largest = [Fraction(float(np.abs(mdp.costs[:, :, i]).max())) for i in range(mdp.num_costs)]
    room = [ALLOWED * max(abs(x), top) for x, top in zip(asked, largest, strict=True)]
    pay = max(Fraction(float(np.abs(mdp.rewards).max())), *largest)
    rounding = ROUNDING * mdp.horizon * pay
    truth = best_mixture(points, asked)
    loosest = best_mixture(points, [x + r + rounding for x, r in zip(asked, room, strict=True)])
    try:
        plan = conrl.plan(mdp, conrl.Linear(limits))
    except conrl.InfeasibleError:
        assert best_mixture(points, [x - rounding for x in asked]) is None
        return
    assert loosest is not None, "a plan for limits that nobody can keep"
    value = exact(mdp, policy_of(plan))
    for cost, limit, r in zip(value[1:], asked, room, strict=True):
        assert cost <= limit + r + rounding
    assert abs(value[0] - Fraction(plan.objective)) <= rounding + Fraction(1, 10**9) * abs(value[0])
    if truth is not None:
        assert Fraction(plan.bound) >= truth - rounding - ROUNDING * abs(truth)
        if plan.status == "optimal":
            tol = Fraction(2, 10**9) * max(Fraction(1), abs(truth))
            assert value[0] >= truth - tol - rounding
    assert value[0] <= loosest + rounding + ROUNDING * abs(loosest)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12])
def test_limits_just_above_the_least_cost(gap: float) -> None:
    """Mars rover with limits within 1e-12 of the least achievable: kept, and never better than allowed."""
    rover = conrl.envs.mars_rover(rock_reward=1.0)
    least = conrl.feasibility(rover, [1.0]).least[0]
    plan = conrl.plan(rover, conrl.Linear([least + gap]))
    assert plan.costs[0] <= least + gap + 1e-9
    assert plan.bound >= plan.reward - 1e-9
    looser = conrl.plan(rover, conrl.Linear([least + 2.0 * gap]))
    assert looser.reward >= plan.reward - 1e-9

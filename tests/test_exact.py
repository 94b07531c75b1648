"""The exact solver against brute force, against HiGHS, and against itself; and the judge against doctored plans."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from adversary import KINDS, case
from bank import CASES, Case, middle, random_model, solve_lp
from contract import Truth, judge, judge_feasibility, judge_frontier
from exact import Model, best, dual_bound, farkas, least_relaxation, relaxed, rows_of, total

import conrl

Point = tuple[Fraction, ...]


# -- brute force -------------------------------------------------------------------------------------------


def naive_value(mdp: conrl.ConstrainedMDP, actions: Any) -> Point:
    """The value vector of a policy (h, s) -> {a: probability}, by recursion in fractions."""
    S, size = mdp.num_states, 1 + mdp.num_costs
    P = mdp.transitions.toarray().reshape(S, mdp.num_actions, S)
    pay = np.concatenate((mdp.rewards[:, :, None], mdp.costs), axis=2)
    value = [[Fraction(0)] * size for _ in range(S)]
    for h in reversed(range(mdp.horizon)):
        value = [
            [
                total(
                    share * (Fraction(pay[s, a, i]) + total(Fraction(P[s, a, t]) * value[t][i] for t in range(S)))
                    for a, share in actions(h, s).items()
                )
                for i in range(size)
            ]
            for s in range(S)
        ]
    return tuple(total(Fraction(p) * value[s][i] for s, p in enumerate(mdp.initial)) for i in range(size))


def all_points(mdp: conrl.ConstrainedMDP) -> set[Point]:
    """The value vectors of all deterministic policies."""
    places = list(itertools.product(range(mdp.horizon), range(mdp.num_states)))
    options = [np.flatnonzero(mdp.available[s]).tolist() for _, s in places]
    tables = (dict(zip(places, choice, strict=True)) for choice in itertools.product(*options))
    return {naive_value(mdp, lambda h, s, t=table: {t[h, s]: Fraction(1)}) for table in tables}


def best_mixture(points: set[Point], rows: list[Any]) -> Fraction | None:
    """The best reward of mixtures that keep the rows: some of the points, with as many tight rows less one."""
    found = []
    for size in range(1, len(rows) + 2):
        for group in itertools.combinations(points, size):
            for tight in itertools.combinations(rows, size - 1):
                weights = weights_of(group, tight)
                if weights is None or min(weights) < 0:
                    continue
                z = [total(w * p[i] for w, p in zip(weights, group, strict=True)) for i in range(len(group[0]))]
                if all(s * z[1 + c] <= h for c, s, h in rows):
                    found.append(z[0])
    return max(found, default=None)


def weights_of(group: Any, tight: Any) -> list[Fraction] | None:
    """Weights that sum to 1 and meet rows with equality, by elimination; None if there are none or many."""
    n = len(group)
    matrix = [[Fraction(1)] * (n + 1)] + [[s * p[1 + c] for p in group] + [h] for c, s, h in tight]
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


def small(seed: int) -> tuple[conrl.ConstrainedMDP, conrl.Linear]:
    """A model with few deterministic policies, and limits and floors among their exact values."""
    rng = np.random.default_rng(seed)
    S, H = (1, int(rng.integers(1, 4))) if rng.random() < 0.5 else (2, 2)
    d = int(rng.integers(0, 3))
    P = rng.dirichlet(np.ones(S), (S, 2)) if rng.random() < 0.7 else np.full((S, 2, S), 1.0 / S)
    costs = rng.integers(-2, 4, (S, 2, d)).astype(float) if rng.random() < 0.5 else rng.normal(size=(S, 2, d))
    mdp = conrl.ConstrainedMDP(P, rng.integers(-3, 4, (S, 2)).astype(float), costs, H)
    points = sorted(all_points(mdp))

    def level(i: int) -> float:
        chosen = [points[int(j)][1 + i] for j in rng.integers(len(points), size=2)]
        return float(sum(chosen) / 2) + float(rng.choice([0.0, 0.0, 1e-12, -1e-12, -0.5]))

    limits = [level(i) if rng.random() < 0.8 else np.inf for i in range(d)]
    floors = [level(i) if rng.random() < 0.3 else -np.inf for i in range(d)]
    return mdp, conrl.Linear(limits, floors)


@pytest.mark.parametrize("seed", range(60))
def test_exact_optimum_is_that_of_brute_force(seed: int) -> None:
    mdp, problem = small(seed)
    rows = rows_of(problem, mdp)
    assert best(Model(mdp), rows).optimum == best_mixture(all_points(mdp), rows)


@pytest.mark.parametrize("seed", range(10))
def test_exact_value_of_a_markov_policy_is_that_of_recursion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp, _ = small(seed)
    table = rng.dirichlet(np.ones(2), (mdp.horizon, mdp.num_states))

    def actions(h: int, s: int) -> dict[int, Fraction]:
        shares = [Fraction(p) for p in table[h, s]]
        return {a: x / sum(shares) for a, x in enumerate(shares)}

    assert tuple(Model(mdp).value(conrl.Policy(table))[0]) == naive_value(mdp, actions)


# -- known answers, and HiGHS ------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [c for c in CASES.values() if c.mdp.num_pairs <= 100], ids=lambda c: c.name)
def test_exact_optimum_of_the_bank(known: Case) -> None:
    found = best(Model(known.mdp), rows_of(known.problem, known.mdp)).optimum
    if known.feasible:
        # The doubles of a limit such as 0.1 are not the decimals: what is feasible on paper may miss by a hair.
        if found is None:
            rows = rows_of(known.problem, known.mdp)
            least = least_relaxation(Model(known.mdp), rows, [abs(h) + 1 for _, _, h in rows])
            assert least is not None
            assert 0 < least < Fraction(1, 10**14)
        else:
            assert float(found) == pytest.approx(known.best, rel=1e-8, abs=1e-8)
    else:
        assert found is None


@pytest.mark.parametrize("seed", range(30))
def test_exact_optimum_is_that_of_highs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = 1 + seed % 6
    mdp = random_model(seed, states=4, actions=3, horizon=4, d=d)
    limits = [x + 1e-6 for x in middle(mdp, float(rng.uniform(0.2, 0.9)))]  # HiGHS has no say in what is a hair
    floors = [x - 0.3 if rng.random() < 0.3 else -np.inf for x in limits]
    problem = conrl.Linear(limits, floors)
    solved, found = solve_lp(mdp, problem), best(Model(mdp), rows_of(problem, mdp)).optimum
    assert (found is None) == (solved is None)
    if found is not None and solved is not None:
        assert float(found) == pytest.approx(solved.value, rel=1e-8, abs=1e-8)


# -- certificates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(2 * len(KINDS)))
def test_exact_certificates(number: int) -> None:
    """Multipliers prove the optimum; the least relaxation is one, and no less is."""
    mdp, problem = case(number).build()
    truth = Truth(mdp, problem)
    model, rows, answer = truth.model, truth.rows, truth.answer
    if answer.optimum is not None:
        assert answer.point is not None
        assert answer.point[0] == answer.optimum
        assert dual_bound(model, [1] + [0] * mdp.num_costs, rows, answer.multipliers) == answer.optimum
        return
    assert farkas(model, rows, answer.multipliers) == answer.violation > 0
    room = [abs(h) + 1 for _, _, h in rows]
    least = least_relaxation(model, rows, room)
    assert least is not None
    assert least > 0
    assert best(model, relaxed(rows, [least * x for x in room])).optimum is not None
    assert best(model, relaxed(rows, [least * x * Fraction(10**30 - 1, 10**30) for x in room])).optimum is None


# -- the judge finds what is wrong -------------------------------------------------------------------------


def two_ways() -> tuple[conrl.ConstrainedMDP, conrl.Linear]:
    """One state, three steps: reward and cost 1, or none; a limit of 1.5."""
    return conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[0.0], [1.0]]], 3), conrl.Linear([1.5])


DOCTORED: dict[str, tuple[dict[str, Any], str]] = {
    "bound": ({"bound": 1.4999}, "below the optimum"),
    "bound by one ulp": ({"bound": float(np.nextafter(1.5, 0.0))}, "below the optimum"),
    "objective": ({"objective": 1.5001, "bound": 1.6}, "not that of the policy"),
    "reward": ({"reward": 1.5001}, "reward of the policy is said"),
    "cost": ({"costs": np.array([1.4])}, "cost cost of the mixture is said"),
    "gap": ({"bound": 1.5 - 2**-40, "objective": 1.5}, "negative gap"),
    "weights": ({"weights": np.array([0.9, 0.1])}, "mixture breaks cost <= 1.5"),
    "values": ({"values": np.array([[1.5, 0.5], [0.0, 0.0]])}, "values[0, "),
    "not finite": ({"bound": np.inf}, "not finite"),
}


@pytest.mark.parametrize("name", DOCTORED)
def test_judge_finds_what_is_doctored(name: str) -> None:
    mdp, problem = two_ways()
    plan = conrl.plan(mdp, problem)
    changes, complaint = DOCTORED[name]
    order = np.argsort(-plan.values[:, 0])  # the one that spends first
    make = plan.make_policy
    plan = dataclasses.replace(
        plan,
        weights=plan.weights[order],
        values=plan.values[order],
        make_policy=lambda i: make(int(order[i])),
        bound=max(plan.bound, 1.5),
    )
    assert judge(mdp, problem, plan) == []
    found = judge(mdp, problem, dataclasses.replace(plan, **changes))
    assert any(complaint in x for x in found), found


def test_judge_finds_a_plan_that_is_not_optimal() -> None:
    mdp, problem = two_ways()
    poor = conrl.plan(mdp, conrl.Linear([1.4]))
    found = judge(mdp, problem, dataclasses.replace(poor, problem=problem, bound=1.5))
    assert any("called optimal, but 0.1 below" in x for x in found), found
    assert judge(mdp, problem, dataclasses.replace(poor, problem=problem, bound=1.5, status="inaccurate")) == []


def test_judge_finds_false_infeasibility_and_false_proofs() -> None:
    mdp, problem = two_ways()
    with pytest.raises(conrl.InfeasibleError) as caught:
        conrl.plan(mdp, conrl.Linear([-1.0]))
    assert judge(mdp, conrl.Linear([-1.0]), caught.value) == []
    assert any("but it is feasible" in x for x in judge(mdp, problem, caught.value))
    wrong = dataclasses.replace(caught.value.feasibility, multipliers=np.array([0.0]))
    found = judge(mdp, conrl.Linear([-1.0]), conrl.InfeasibleError("no", wrong))
    assert any("prove 0, not more than 0" in x for x in found), found
    wrong = dataclasses.replace(caught.value.feasibility, violation=1.1)
    found = judge(mdp, conrl.Linear([-1.0]), conrl.InfeasibleError("no", wrong))
    assert any("violation is said to be" in x for x in found), found
    assert judge(mdp, problem, conrl.RunError("please report")) == ["RunError: please report"]


def test_judge_finds_wrong_feasibility_and_frontier() -> None:
    mdp, problem = two_ways()
    truth, found = Truth(mdp, problem), conrl.feasibility(mdp, problem)
    assert judge_feasibility(truth, found) == []
    for name, value in (("least", [0.1]), ("greatest", [2.9]), ("slack", [1.4]), ("slack", [1.6])):
        change: dict[str, Any] = {name: np.array(value)}
        wrong = dataclasses.replace(found, **change)
        assert any(name in x for x in judge_feasibility(truth, wrong)), name
    wrong = dataclasses.replace(found, feasible=False)
    assert any("but it is feasible" in x for x in judge_feasibility(truth, wrong))
    curve = conrl.frontier(mdp, 0)
    assert judge_frontier(truth, curve, [0.0, 0.3, 1.5, 2.9]) == []
    for rewards in (curve.rewards * 0.99, curve.rewards * 1.01):
        assert judge_frontier(truth, dataclasses.replace(curve, rewards=rewards), [1.5]) != []

"""Fleets: against the full linear program, exact rationals and brute force; budgets that no run exceeds."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

import conrl
from conrl import InfeasibleError, ModelError, SpecError, kernels
from conrl.oracles import SumOracle, exact_oracle
from conrl.planners.fleet import _whole

Float = NDArray[np.float64]
NAMES = ("money", "crews", "waste")


# -- the full program, in plain numpy ---------------------------------------------------------------------


def dense(model: conrl.ConstrainedMDP) -> Float:
    """[1 or H, S, A, S]: the transitions."""
    S, A = model.num_states, model.num_actions
    tables: Any = model.transitions
    return np.array([x.toarray().reshape(S, A, S) for x in (tables if model.step_dependent else [tables])])


def full_program(
    groups: list[tuple[conrl.ConstrainedMDP, int]],
    limits: Float,
    floors: Float,
    per_step: dict[int, Float],
    starts: list[Float] | None = None,
) -> float | None:
    """The optimum over occupation measures of all groups, each of its count's mass; None if infeasible."""
    H, d = groups[0][0].horizon, groups[0][0].num_costs
    sizes = [H * m.num_states * m.num_actions for m, _ in groups]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    n = int(offsets[-1])
    gain, totals, steps = np.zeros(n), np.zeros((d, n)), {i: np.zeros((H, n)) for i in per_step}
    rows: list[Float] = []
    mass: list[float] = []
    upper = np.full(n, np.inf)
    for g, (m, count) in enumerate(groups):
        S, A = m.num_states, m.num_actions
        P = np.broadcast_to(dense(m), (H, S, A, S))
        exists = np.broadcast_to(m.available, (H, S, A))
        rewards, costs = np.broadcast_to(m.rewards, (H, S, A)), np.broadcast_to(m.costs, (H, S, A, d))
        begin = count * m.initial if starts is None else starts[g]
        at = np.arange(offsets[g], offsets[g + 1]).reshape(H, S, A)
        for h in range(H):
            gain[at[h]] = rewards[h]
            upper[at[h]] = np.where(exists[h], np.inf, 0.0)
            for i in range(d):
                totals[i, at[h]] = costs[h, :, :, i]
                if i in steps:
                    steps[i][h, at[h]] = costs[h, :, :, i]
            for s in range(S):
                row = np.zeros(n)
                row[at[h, s]] = 1.0
                if h:
                    row[at[h - 1].reshape(-1)] -= P[h - 1, :, :, s].reshape(-1)
                rows.append(row)
                mass.append(float(begin[s]) if h == 0 else 0.0)
    within: list[Float] = []
    most: list[float] = []
    for i in range(d):
        if np.isfinite(limits[i]):
            within.append(totals[i])
            most.append(limits[i])
        if np.isfinite(floors[i]):
            within.append(-totals[i])
            most.append(-floors[i])
    for i, each in per_step.items():
        for h in np.flatnonzero(np.isfinite(each)).tolist():
            within.append(steps[i][h])
            most.append(each[h])
    bounds = np.stack((np.zeros(n), upper), axis=1)
    # A solver's tolerance is absolute: rows in units of their largest entry.
    units = [float(np.abs(row).max()) or abs(bound) or 1.0 for row, bound in zip(within, most, strict=True)]
    limited: Any = {}
    if within:
        limited = {"A_ub": np.array(within) / np.array(units)[:, None], "b_ub": np.array(most) / units}
    done = linprog(-gain, A_eq=np.array(rows), b_eq=mass, bounds=bounds, method="highs", **limited)
    return -float(done.fun) if done.status == 0 else None


def draw_model(rng: np.random.Generator, H: int, d: int, scales: Float, by_step: float = 0.25) -> conrl.ConstrainedMDP:
    S, A = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    sizes = (H, S, A) if rng.random() < by_step and not H == S == A else (S, A)
    P = rng.dirichlet(np.ones(S), size=sizes)
    if rng.random() < 0.4:  # few successors
        P = np.where(P.max(axis=-1, keepdims=True) <= P, 1.0, 0.0)
    pay = rng.random((*sizes, 1 + d)) if rng.random() < 0.6 else rng.integers(-1, 3, (*sizes, 1 + d)).astype(float)
    available = np.ones(sizes, dtype=bool)
    if rng.random() < 0.3:
        available = rng.random(sizes) < 0.6
        np.put_along_axis(available, rng.integers(A, size=(*sizes[:-1], 1)), True, axis=-1)
    initial: Any = int(rng.integers(S)) if rng.random() < 0.7 else rng.dirichlet(np.ones(S))
    pay = pay * scales
    return conrl.ConstrainedMDP(
        P, pay[..., 0], pay[..., 1:], H, initial=initial, available=available, cost_names=NAMES[:d]
    )


def draw_fleet(seed: int) -> tuple[list[tuple[conrl.ConstrainedMDP, int]], Float, Float, dict[int, Float]]:
    """Groups, limits, floors, limits per step; limits lie between what is least and what is best without them."""
    rng = np.random.default_rng(seed)
    H, d = int(rng.integers(1, 6)), int(rng.integers(0, 4))
    scales = np.concatenate(([1.0], 10.0 ** rng.integers(-6, 7, d))) if rng.random() < 0.3 else np.ones(1 + d)
    groups = [(draw_model(rng, H, d, scales), int(rng.integers(1, 40))) for _ in range(int(rng.integers(1, 5)))]
    fleet = conrl.Fleet(groups)
    free = conrl.plan(fleet)
    limits, floors, per_step = np.full(d, np.inf), np.full(d, -np.inf), {}
    oracle = exact_oracle(fleet)
    for i in range(d):
        axis = np.eye(1 + d)[1 + i]
        least, most = -oracle.support(-axis).value, oracle.support(axis).value
        kind = rng.random()
        if kind < 0.6:
            limits[i] = least + rng.random() * (free.costs[i] - least)
        elif kind < 0.7:
            limits[i] = least  # exactly tight
        elif kind < 0.75:
            limits[i] = least - 0.1 * abs(least) - 1e-3 * scales[1 + i]
        if rng.random() < 0.15:
            floors[i] = min(limits[i], free.costs[i] + rng.random() * (most - free.costs[i]))
        if rng.random() < 0.3:
            units, cost = fleet.num_units, scales[1 + i]
            per_step[i] = units * cost * rng.uniform(0.3, 1.2, H)
            if rng.random() < 0.5:
                per_step[i][rng.integers(H)] = np.inf
    return groups, limits, floors, per_step


def check_against(seed: int) -> None:
    groups, limits, floors, per_step = draw_fleet(seed)
    fleet = conrl.Fleet(groups, limits, floors, {NAMES[i]: each for i, each in per_step.items()})
    units = fleet.num_units * fleet.horizon
    best = full_program(groups, limits, floors, per_step)
    try:
        plan = conrl.plan(fleet)
    except InfeasibleError:
        relaxed = 1e-7 * np.maximum(1e-6, np.abs(limits))
        assert best is None or full_program(groups, limits - relaxed, floors + relaxed, per_step) is None
        return
    assert best is not None or full_program(
        groups, limits + 1e-7 * np.abs(limits), floors - 1e-7 * np.abs(floors), per_step
    )
    if best is not None:
        assert plan.reward == pytest.approx(best, rel=1e-6, abs=1e-7 * units)
    assert plan.status == "optimal"
    assert plan.bound >= plan.reward
    assert len(plan.mixed) <= len(plan.rows)
    check_parts(plan, groups)


def check_parts(plan: conrl.FleetPlan, groups: list[tuple[conrl.ConstrainedMDP, int]]) -> None:
    """The policies of the units come to the totals that the plan states, evaluated by themselves."""
    d = plan.fleet.num_costs
    total = np.zeros(1 + d)
    mixing = 0
    for g, (model, count) in enumerate(groups):
        own = np.zeros(1 + d)
        units = 0
        for part in plan.parts(g):
            value = conrl.evaluate(model, part.policy).value
            assert part.value == pytest.approx(value, rel=1e-9, abs=1e-9 * np.abs(model.pay).max())
            own += part.units * value
            units += part.units
            mixing += part.units * isinstance(part.policy, conrl.Mixture)
        assert units == count
        assert plan.shares[g] == pytest.approx(own[1:], rel=1e-8, abs=1e-8 * count * np.abs(model.pay).max())
        assert plan.rewards[g] == pytest.approx(own[0], rel=1e-8, abs=1e-8 * count * np.abs(model.pay).max())
        total += own
    assert mixing == len(plan.mixed)
    size = plan.oracle.scale[: 1 + d].max()
    assert np.append(plan.reward, plan.costs) == pytest.approx(total, rel=1e-8, abs=1e-9 * size)
    for row in plan.rows:
        assert row.excess <= row.allowance


@pytest.mark.parametrize("seed", range(100))
def test_a_hundred_fleets_against_the_full_program(seed: int) -> None:
    check_against(seed)


@given(st.integers(1000, 2**31))
def test_drawn_fleets_against_the_full_program(seed: int) -> None:
    check_against(seed)


# -- stacks -----------------------------------------------------------------------------------------------


def draw_stack(seed: int, N: int, S: int = 3, A: int = 2, d: int = 2) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    T = rng.dirichlet(np.ones(S), size=(N, S, A))
    T[:, :, 0] = np.eye(S)[rng.integers(S, size=(N, S))]  # each unit has other successors
    costs = rng.random((N, S, A, d))
    costs[:, :, 0] = 0.0
    return {"transitions": T, "rewards": rng.random((N, S, A)), "costs": costs}


def as_groups(tables: dict[str, Any], H: int, initial: Any = 0) -> list[tuple[conrl.ConstrainedMDP, int]]:
    starts = np.broadcast_to(initial, (tables["rewards"].shape[0],)) if np.ndim(initial) < 2 else initial
    return [
        (conrl.ConstrainedMDP(P, r, c, H, initial=x if np.ndim(x) else int(x), cost_names=NAMES[: c.shape[-1]]), 1)
        for P, r, c, x in zip(tables["transitions"], tables["rewards"], tables["costs"], starts, strict=True)
    ]


@pytest.mark.parametrize(("N", "seed"), [(1, 0), (7, 1), (8, 2), (9, 3), (30, 4)])
def test_a_stack_is_the_fleet_of_its_units(N: int, seed: int) -> None:
    tables, H = draw_stack(seed, N), 4
    limits = [0.15 * N * H, 0.2 * N * H]
    per_step = {"crews": 0.18 * N}
    stack = conrl.Fleet.stack(**tables, horizon=H, limits=limits, per_step=per_step, cost_names=NAMES[:2])
    groups = as_groups(tables, H)
    one, other = conrl.plan(stack), conrl.plan(conrl.Fleet(groups, limits, per_step=per_step))
    assert one.reward == pytest.approx(other.reward, rel=1e-9)
    best = full_program(groups, np.array(limits), np.full(2, -np.inf), {1: np.full(H, 0.18 * N)})
    assert one.reward == pytest.approx(best, rel=1e-7)
    assert one.shares.shape == (N, 2)
    assert one.shares.sum(axis=0) == pytest.approx(one.costs)
    check_parts(one, groups)
    for unit in range(N):
        value = conrl.evaluate(groups[unit][0], one.policy(unit)).value
        assert value == pytest.approx(np.append(one.rewards[unit], one.shares[unit]), rel=1e-9, abs=1e-12)


def test_sparse_and_dense_are_the_same() -> None:
    tables, H = draw_stack(5, 11), 3
    T = tables["transitions"]
    dense = conrl.plan(conrl.Fleet.stack(**tables, horizon=H, limits=[4.0, 5.0]))
    one = sp.csr_array(T.reshape(-1, 3))
    for sparse in (one, one.tocoo(), [sp.csr_array(t.reshape(-1, 3)) for t in T]):
        plan = conrl.plan(conrl.Fleet.stack(**(tables | {"transitions": sparse}), horizon=H, limits=[4.0, 5.0]))
        assert (plan.reward, plan.bound, plan.costs.tolist()) == (dense.reward, dense.bound, dense.costs.tolist())


@pytest.mark.parametrize(
    "initial", [1, np.arange(6) % 3, np.array([0.5, 0.25, 0.25]), np.full((6, 3), 1.0 / 3.0)], ids=str
)
def test_where_units_start(initial: Any) -> None:
    tables, H = draw_stack(6, 6), 3
    plan = conrl.plan(conrl.Fleet.stack(**tables, horizon=H, initial=initial, limits=[2.0, 3.0]))
    each = np.tile(initial, (6, 1)) if np.shape(initial) == (3,) else initial
    best = full_program(as_groups(tables, H, each), np.array([2.0, 3.0]), np.full(2, -np.inf), {})
    assert plan.reward == pytest.approx(best, rel=1e-7)


def test_missing_actions_of_a_stack() -> None:
    tables, H = draw_stack(7, 9), 3
    available = np.array([[True, False], [True, True], [False, True]])
    broken = tables["transitions"].copy()
    broken[:, ~available] = np.nan  # what does not exist is not read
    fleet = conrl.Fleet.stack(**(tables | {"transitions": broken}), horizon=H, limits=[12.0, 12.0], available=available)
    groups = [
        (conrl.ConstrainedMDP(P, r, c, H, available=available), 1) for P, r, c in zip(*tables.values(), strict=True)
    ]
    best = full_program(groups, np.array([12.0, 12.0]), np.full(2, -np.inf), {})
    plan = conrl.plan(fleet)
    assert plan.reward == pytest.approx(best, rel=1e-7)
    check_parts(plan, groups)


def test_no_costs_and_one_state() -> None:
    fleet = conrl.Fleet.stack(np.ones((5, 1, 2, 1)), np.tile([1.0, 2.0], (5, 1, 1)), horizon=3)
    plan = conrl.plan(fleet)
    assert (plan.reward, plan.costs.size, plan.mixed, plan.rows) == (30.0, 0, (), ())
    assert fleet.simulate(plan, runs=2).rewards.tolist() == [30.0, 30.0]


# -- the oracle -------------------------------------------------------------------------------------------


def exact_support(model: conrl.ConstrainedMDP, weights: Float) -> Fraction:
    """One unit's support value in rational arithmetic; weights [H, 1+d]."""
    P, pay = dense(model), model.pay
    V = [Fraction(0)] * model.num_states
    for h in range(model.horizon - 1, -1, -1):
        W = []
        for s in range(model.num_states):
            found = []
            for a in range(model.num_actions):
                k = model.pair(h, s, a)
                if k >= 0:
                    q = sum(Fraction(float(w)) * Fraction(float(x)) for w, x in zip(weights[h], pay[k], strict=True))
                    found.append(q + sum(Fraction(float(p)) * v for p, v in zip(P[h % len(P), s, a], V, strict=True)))
            W.append(Fraction(max(found)))
        V = W
    return sum((Fraction(float(p)) * v for p, v in zip(model.initial, V, strict=True)), Fraction(0))


@pytest.mark.parametrize("seed", range(12))
def test_rounding_is_within_its_proof(seed: int) -> None:
    groups, _, _, per_step = draw_fleet(seed)
    fleet = conrl.Fleet(groups, per_step={NAMES[i]: each for i, each in per_step.items()})
    oracle = exact_oracle(fleet)
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(3, 1 + oracle.num_costs))
    answers = oracle.support_many(directions)
    d, H = fleet.num_costs, fleet.horizon
    for w, value, point in zip(directions, answers.values, answers.points, strict=True):
        weights = np.tile(w[: 1 + d], (H, 1))
        exactly = [[Fraction(float(x)) for x in row] for row in weights]
        for n, i in enumerate(fleet.step_costs):
            for h in range(H):
                exactly[h][1 + i] += Fraction(float(w[1 + d + n * H + h]))
        rounded = np.array([[float(x) for x in row] for row in exactly])
        exact = sum(count * exact_support(model, rounded) for model, count in groups)
        for sharp in (False, True):
            allowed = oracle.rounding(sharp)
            assert abs(float(Fraction(float(value)) - exact)) <= float(np.abs(w) @ allowed.support) * 1.01
            assert abs(w @ point - float(exact)) <= float(np.abs(w) @ (allowed.support + allowed.point)) * 1.01 + 1e-12


def test_threads_change_nothing() -> None:
    tables = draw_stack(8, 5000)
    fleet = conrl.Fleet.stack(**tables, horizon=5, limits=[3000.0, 4000.0])
    directions = np.random.default_rng(0).normal(size=(4, 3))
    one, two = (SumOracle(fleet, threads=n) for n in (1, 2))
    one._alone = two._alone = False
    for a, b in zip(one.support_many(directions)[:2], two.support_many(directions)[:2], strict=True):
        assert a.tobytes() == b.tobytes()
    plan = conrl.plan(fleet)
    runs = [fleet.simulate(plan, runs=3, seed=4, threads=n) for n in (1, 3)]
    assert runs[0].rewards.tobytes() == runs[1].rewards.tobytes()
    assert runs[0].costs.tobytes() == runs[1].costs.tobytes()


def test_the_policy_made_is_the_one_that_was_valued() -> None:
    tables, H = draw_stack(9, 20), 4
    fleet = conrl.Fleet.stack(**tables, horizon=H, cost_names=NAMES[:2], per_step={"crews": 9.0})
    oracle = exact_oracle(fleet)
    w = np.concatenate(([1.0, -0.7, 0.0], -np.linspace(0.0, 1.0, H)))
    apart = oracle.points_apart(w[None])[0]
    assert apart.sum(axis=0) == pytest.approx(oracle.support(w).point)
    table = np.zeros((20, H, 3), dtype=np.uint16)
    oracle.choices(0, w, np.arange(20), table)
    for (model, _), actions, point in zip(as_groups(tables, H), table, apart, strict=True):
        rho = conrl.Deterministic(actions.astype(np.int64), 2).occupation(model)  # all actions exist
        assert np.einsum("hsa,sa->", rho, model.rewards) == pytest.approx(point[0])
        assert np.einsum("hsa,sa->h", rho, model.costs[:, :, 1]) == pytest.approx(point[3:])
    with pytest.raises(SpecError, match="a policy for each unit"):
        oracle.policy(w)


# -- few that mix -----------------------------------------------------------------------------------------


@given(st.integers(0, 2**31))
def test_fewer_mixtures_keep_the_rows_and_the_gain(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, J, R = int(rng.integers(1, 40)), int(rng.integers(2, 6)), int(rng.integers(1, 5))
    use = rng.normal(size=(n, J, R)) if rng.random() < 0.5 else rng.integers(-2, 3, (n, J, R)).astype(float)
    gain = rng.normal(size=(n, J)) if rng.random() < 0.7 else np.zeros((n, J))
    weight = rng.dirichlet(np.ones(J), size=n)
    slack = np.where(rng.random(R) < 0.5, 0.0, rng.random(R))
    after, left = weight.copy(), slack.copy()
    kernels.fewer_mixtures(gain, use, left, after)
    assert (after >= 0.0).all()
    assert after.sum(axis=1) == pytest.approx(1.0, abs=1e-9)
    more = np.einsum("nj,njr->r", after - weight, use)
    assert (more <= slack + 1e-9).all()
    assert more + left == pytest.approx(slack, abs=1e-9)
    assert (gain * after).sum() >= (gain * weight).sum() - 1e-9
    assert ((after > 0.0).sum(axis=1) - 1).sum() + (left > 0.0).sum() <= R
    best = linprog(
        -gain.reshape(-1),
        A_eq=np.kron(np.eye(n), np.ones(J)),
        b_eq=np.ones(n),
        A_ub=use.reshape(-1, R).T,
        b_ub=np.einsum("nj,njr->r", weight, use) + slack,
    )
    assert (gain * after).sum() <= -best.fun + 1e-7


@given(st.integers(1, 60), st.integers(0, 2**31), st.integers(1, 5))
def test_whole_units_and_a_few_that_mix(count: int, seed: int, J: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(J)) if seed % 3 else rng.multinomial(count, np.full(J, 1.0 / J)) / count
    parts, mixes, exact = _whole(weights, count)
    assert sum(n for _, n in parts) + len(mixes) == count
    assert len(mixes) <= J - 1
    total = np.zeros(J)
    for j, n in parts:
        total[j] += n
    for rank, mix in enumerate(mixes):
        assert mix.unit == count - len(mixes) + rank
        assert sum(mix.weights) == pytest.approx(1.0)
        total[list(mix.columns)] += mix.weights
    assert total / count == pytest.approx(exact, abs=1e-12)
    assert exact == pytest.approx(weights, abs=1e-11)


def test_rounding_to_one_policy_each_is_reported() -> None:
    """One unit of three may work (1 for 1): the limit 1.5 makes one of them toss a coin, which may cost 0.5 more."""
    worker = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[0.0], [1.0]]], 1)
    plan = conrl.plan(conrl.Fleet([(worker, 3)], limits=[1.5]))
    assert (plan.reward, plan.costs.tolist(), plan.prices.tolist()) == (1.5, [1.5], [1.0])
    assert plan.rounding == pytest.approx([0.5])
    assert plan.mixed == (2,)
    assert [part.units for part in plan.parts(0)] == [1, 1, 1]
    assert isinstance(plan.policy(2), conrl.Mixture)
    assert isinstance(plan.policy(0), conrl.Deterministic)


# -- later ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_planning_again_from_the_present_states(seed: int) -> None:
    rng = np.random.default_rng(seed)
    H, d = 5, 2
    groups = [(draw_model(rng, H, d, np.ones(3), 0.0), int(rng.integers(1, 20))) for _ in range(3)]
    fleet = conrl.Fleet(groups, [1000.0, 900.0], per_step={"crews": np.linspace(1e3, 2e3, H)})
    states = np.concatenate([rng.integers(m.num_states, size=n) for m, n in groups])
    later = fleet.at(states, step=2, spent={"money": 100.0})
    assert (later.horizon, later.limits.tolist()) == (3, [900.0, 900.0])
    assert later.step_limits.tolist() == [np.linspace(1e3, 2e3, H)[2:].tolist()]
    assert later.row_names[2] == "crews at step 2"
    begins = np.cumsum([0, *(n for _, n in groups)])
    starts = [
        np.bincount(states[begins[g] : begins[g + 1]], minlength=m.num_states).astype(float)
        for g, (m, _) in enumerate(groups)
    ]
    shorter = [(m.replace(horizon=3), n) for m, n in groups]
    free = conrl.plan(later)
    limits = np.array([free.costs[0] - 0.2 * abs(free.costs[0]), np.inf])
    best = full_program(shorter, limits, np.full(2, -np.inf), {}, starts)
    tight = fleet.at(states, step=2, limits=limits)
    if best is None:
        with pytest.raises(InfeasibleError):
            conrl.plan(tight)
        return
    plan = conrl.plan(tight)
    assert plan.reward == pytest.approx(best, rel=1e-7, abs=1e-7)
    value = np.zeros(3)
    for unit, s in enumerate(states):
        model = shorter[int(np.searchsorted(begins, unit, side="right")) - 1][0].replace(initial=int(s))
        value += conrl.evaluate(model, plan.policy(unit)).value
    assert value == pytest.approx(np.append(plan.reward, plan.costs))


def test_a_stack_from_its_present_states() -> None:
    tables, states = draw_stack(10, 12), np.arange(12) % 3
    fleet = conrl.Fleet.stack(**tables, horizon=5, limits=[9.0, 9.0])
    later = fleet.at(states, step=1, spent=[3.0, 2.0])
    again = conrl.Fleet.stack(**tables, horizon=4, initial=states, limits=[6.0, 7.0])
    assert conrl.plan(later).reward == conrl.plan(again).reward
    once_more = later.at(states[::-1].copy(), step=2)
    assert (once_more.horizon, once_more.step) == (2, 3)


def test_step_dependent_models_from_a_later_step() -> None:
    rng = np.random.default_rng(3)
    P, r, c = rng.dirichlet(np.ones(3), (6, 3, 2)), rng.random((6, 3, 2)), rng.random((6, 3, 2, 1))
    c[:, :, 0] = 0.0
    whole, rest = conrl.ConstrainedMDP(P, r, c), conrl.ConstrainedMDP(P[2:], r[2:], c[2:])
    states = np.arange(20) % 3
    fleet = conrl.Fleet([(whole, 20)], [14.0], per_step={"cost": [9, 9, 5, 4, 3, 2]})
    later = fleet.at(states, step=2, spent=[3.0])
    plan = conrl.plan(later)
    starts = [np.bincount(states, minlength=3).astype(float)]
    steps = {0: np.array([5.0, 4.0, 3.0, 2.0])}
    best = full_program([(rest, 20)], np.array([11.0]), np.full(1, -np.inf), steps, starts)
    assert plan.reward == pytest.approx(best, rel=1e-7)
    value = np.zeros(2)
    for unit, s in enumerate(states):
        value += conrl.evaluate(rest.replace(initial=int(s)), plan.policy(unit)).value
    assert value == pytest.approx(np.append(plan.reward, plan.costs))
    played = later.simulate(plan, runs=50)
    assert played.costs.max() <= 11.0
    assert (played.step_costs["cost"] <= [5, 4, 3, 2]).all()
    apart = later.simulate(plan, runs=300, guard=False)
    assert abs(apart.mean.reward - plan.reward) <= 5.0 * apart.standard_error.reward


def test_nobody_comes_where_there_is_no_action() -> None:
    """State 1 has no action at step 0, where nobody is; a unit cannot be put where there is none."""
    P = np.zeros((3, 2, 1, 2))
    P[:, :, 0, 1] = 1.0
    available = np.array([[[True], [False]], [[False], [True]], [[True], [True]]])
    model = conrl.ConstrainedMDP(P, np.ones((3, 2, 1)), np.ones((3, 2, 1, 1)), available=available)
    fleet = conrl.Fleet([(model, 4)], limits=[12.0])
    plan = conrl.plan(fleet)
    assert plan.reward == 12.0
    assert fleet.simulate(plan, runs=2).rewards.tolist() == [12.0, 12.0]
    assert conrl.plan(fleet.at([1] * 4, step=1)).reward == 8.0
    with pytest.raises(ModelError, match="may come to state 0 at step 1, where its model has no action"):
        fleet.at([1, 1, 0, 1], step=1)


# -- simulation -------------------------------------------------------------------------------------------


def test_simulations_agree_with_the_plan() -> None:
    groups, *_ = draw_fleet(3)
    fleet = conrl.Fleet(groups)
    plan = conrl.plan(fleet)
    played = fleet.simulate(plan, runs=400, seed=1, guard=False)
    error = played.standard_error
    assert abs(played.mean.reward - plan.reward) <= 5.0 * error.reward + 1e-9
    assert (np.abs(played.mean.costs - plan.costs) <= 5.0 * error.costs + 1e-9).all()


@pytest.mark.parametrize("seed", range(25))
def test_no_run_exceeds_a_budget(seed: int) -> None:
    """Drawn fleets with refunds, mandatory costs, costs by outcome and limits per step."""
    rng = np.random.default_rng(seed)
    H, d = int(rng.integers(1, 6)), 2
    groups = []
    for _ in range(int(rng.integers(1, 4))):
        S, A = int(rng.integers(1, 4)), 3
        P = rng.dirichlet(np.ones(S), size=(S, A))
        costs = rng.choice([0.0, 0.0, 0.1, 0.3, 1.0], size=(S, A, S, d) if rng.random() < 0.5 else (S, A, d))
        if rng.random() < 0.5:
            costs[:, 0] = 0.0  # something is free
        if rng.random() < 0.3:
            costs[0, 1] -= 0.2
        model = conrl.ConstrainedMDP(
            P, rng.random((S, A)), costs, H, initial=rng.dirichlet(np.ones(S)), cost_names=NAMES[:2]
        )
        groups.append((model, int(rng.integers(1, 15))))
    free = conrl.Fleet(groups)
    best = conrl.plan(free)
    limits = best.costs * rng.uniform(0.5, 1.1)
    per_step = {"crews": np.maximum(best.costs[1] / H * rng.uniform(0.8, 2.0, H), 0.2)} if rng.random() < 0.6 else None
    fleet = conrl.Fleet(groups, limits, per_step=per_step)
    try:
        plan = conrl.plan(fleet)
    except InfeasibleError:
        return
    try:
        played = fleet.simulate(plan, runs=60, seed=seed)
    except SpecError:
        with pytest.raises(SpecError, match="its careful policies, which weigh"):
            fleet.simulate(plan, runs=1)
        assert fleet.simulate(plan, runs=2, guard=False).refused.tolist() == [0, 0]
        return
    assert (played.costs <= limits).all()
    assert played.exceed().tolist() == [0.0, 0.0]
    if per_step is not None:
        assert (played.step_costs["crews"] <= per_step["crews"]).all()
        assert played.exceed_steps() == {"crews": 0.0}
        assert played.step_costs["crews"].sum(axis=1) == pytest.approx(played.costs[:, 1])


def worst_case(model: conrl.ConstrainedMDP) -> float:
    """The least worst case of the first cost, over all deterministic policies, by brute force; one start."""
    H, S = model.horizon, model.num_states
    P, c = model.transitions.toarray().reshape(S, model.num_actions, S), model.costs[:, :, 0]
    best = np.inf
    for actions in product(range(model.num_actions), repeat=H * S):
        table = np.reshape(actions, (H, S))
        V = np.zeros(S)
        for h in range(H - 1, -1, -1):
            V = np.array([c[s, table[h, s]] + V[P[s, table[h, s]] > 0.0].max() for s in range(S)])
        best = min(best, float(V @ model.initial))
    return best


@pytest.mark.parametrize("seed", range(8))
def test_what_the_guard_needs_is_the_least_worst_case(seed: int) -> None:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(2), size=(2, 2))
    P[0, 0] = [1.0, 0.0]
    model = conrl.ConstrainedMDP(P, rng.random((2, 2)), rng.integers(1, 8, (2, 2, 1)) * 0.25, 3)
    need = worst_case(model)
    fleet = conrl.Fleet([(model, 7)], limits=[7.0 * need])
    assert fleet.simulate(conrl.plan(fleet), runs=20).costs.max() <= 7.0 * need
    short = conrl.Fleet([(model, 7)], limits=[7.0 * need - 0.25])
    try:
        plan = conrl.plan(short)
    except InfeasibleError:
        return
    with pytest.raises(SpecError, match=f"together, need {7.0 * need:g}"):
        short.simulate(plan)


def test_a_budget_that_fits_exactly_is_used_up() -> None:
    """40 crews a day for 100 machines that all want one: whole numbers do not round, so all 40 go out, every day."""
    machine = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[0.0], [1.0]]], 5, cost_names=["crews"])
    fleet = conrl.Fleet([(machine, 100)], per_step={"crews": [40, 40, 0, 7, None]}, limits={"crews": 150})
    plan = conrl.plan(fleet)
    assert plan.reward == pytest.approx(150.0)
    played = fleet.simulate(plan, runs=50)
    assert (played.step_costs["crews"] <= [40, 40, 0, 7, np.inf]).all()
    assert played.costs.max() == 150.0
    assert played.share > 0.95
    loose = fleet.simulate(plan, runs=50, guard=False)
    assert loose.refused.sum() == 0


def test_of_what_is_free_the_guard_takes_what_earns_most() -> None:
    """Without money a machine runs slowly, and does not stand still."""
    rewards, costs = [[0.0, 1.0, 3.0]], [[[0.0], [0.0], [1.0]]]
    machine = conrl.ConstrainedMDP(np.ones((1, 3, 1)), rewards, costs, 10)
    fleet = conrl.Fleet([(machine, 30)], limits=[100.25])
    played = fleet.simulate(conrl.plan(fleet), runs=20)
    assert played.costs.max() <= 100.0
    assert played.rewards.min() == 300.0 + 2.0 * played.costs.min()


@pytest.mark.parametrize("limit", [0.3, 3 * 0.1, 0.1 + 0.1 + 0.1])
def test_three_costs_of_a_tenth_use_up_three_tenths(limit: float) -> None:
    """Whatever the doubles add up to; and a limit of a little less does without the third."""
    unit = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[0.0], [0.1]]], 1, cost_names=["money"])
    for asked in ({"limits": [limit]}, {"per_step": {"money": limit}}):
        fleet = conrl.Fleet([(unit, 3)], **asked)
        played = fleet.simulate(conrl.plan(fleet), runs=3)
        assert played.rewards.tolist() == [3.0] * 3
        assert not played.refused.any()
        assert not np.nan_to_num(played.exceed()).any()
        assert not any(played.exceed_steps().values())
    fleet = conrl.Fleet([(unit, 3)], limits=[limit * (1.0 - 1e-12)])
    assert fleet.simulate(conrl.plan(fleet), runs=3).rewards.max() == 2.0


@pytest.mark.parametrize(("units", "steps", "dear"), [(1, 3, 1e6), (10, 10, 5000.0), (1000, 12, 100.0), (7, 4, 1e12)])
def test_what_costs_exactly_the_limit_is_played_beside_what_is_dear(units: int, steps: int, dear: float) -> None:
    """Quanta are as coarse as the dearest action makes them; they take nothing from a limit. A lower one is refused."""
    unit = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], [[[0.1], [dear]]], steps, cost_names=["money"])
    whole = 0.1 * units * steps
    fleet = conrl.Fleet([(unit, units)], limits=[whole], floors=[whole], per_step={"money": 0.1 * units})
    played = fleet.simulate(conrl.plan(fleet), runs=2)
    assert played.rewards.tolist() == [units * steps] * 2
    assert not played.refused.any()
    assert (*played.exceed(), *played.fall_short(), *played.exceed_steps().values()) == (0.0, 0.0, 0.0)
    hair = 2.0**-58 * (units * steps) ** 2 * dear  # four times what the guard may be off
    short = conrl.Fleet([(unit, units)], limits=[whole])
    plan = replace(conrl.plan(short), limits=np.array([whole * (1.0 - 1e-11) - hair]))
    with pytest.raises(SpecError, match="the guard cannot promise"):
        short.simulate(plan)


def test_costs_that_cancel_do_not_exceed_nothing() -> None:
    """0.1 + 0.2 - 0.3 is not 0 in doubles."""
    unit = conrl.ConstrainedMDP(
        np.eye(3)[[1, 2, 0]][:, None, :], np.ones((3, 1)), [[[0.1]], [[0.2]], [[-0.3]]], 3, initial=0
    )
    fleet = conrl.Fleet([(unit, 3)], limits=[0.0], floors=[0.0])
    for guard in (True, False):
        played = fleet.simulate(conrl.plan(fleet), runs=3, guard=guard)
        assert (*played.exceed(), *played.fall_short()) == (0.0, 0.0)
    less = replace(played, limits=np.array([-1e-12]), floors=np.array([1e-12]))
    assert (*less.exceed(), *less.fall_short()) == (1.0, 1.0)


def test_each_mixing_unit_draws_for_itself() -> None:
    """Of 1 unit that mixes half and half, about half of the runs do either."""
    unit = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[0.0], [1.0]]], 1)
    fleet = conrl.Fleet([(unit, 4), (unit, 1)], limits=[2.5])
    plan = conrl.plan(fleet)
    rewards = fleet.simulate(plan, runs=400, guard=False).rewards
    assert set(rewards.tolist()) == {2.0, 3.0}
    assert abs(rewards.mean() - 2.5) < 0.1


# -- what is refused --------------------------------------------------------------------------------------

ANY: Any = conrl
MODEL = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[0.0], [1.0]]], 4, cost_names=["crews"])
STACK = draw_stack(0, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ANY.Fleet([]), "expected pairs of a model and a count"),
        (lambda: ANY.Fleet([(MODEL, 0)]), "count of groups.0. is 0"),
        (lambda: ANY.Fleet([(MODEL, 1.5)]), "whole number"),
        (lambda: ANY.Fleet([MODEL]), r"groups\[0\] is .*; expected a pair"),
        (lambda: ANY.Fleet([(MODEL, 1), (MODEL.replace(horizon=2), 1)]), "has 2 steps"),
        (lambda: ANY.Fleet([(MODEL, 1), (conrl.envs.mars_rover(), 1)]), "same cost_names"),
        (lambda: ANY.Fleet([(MODEL.with_bonus(np.ones((1, 2))), 1)]), "carries a bonus"),
        (lambda: ANY.Fleet([(MODEL.replace(horizon=conrl.Discounted(0.9)), 1)]), "a fleet needs a horizon"),
        (lambda: ANY.Fleet([(MODEL, 1)], {"crew": 1}), "did you mean 'crews'"),
        (lambda: ANY.Fleet([(MODEL, 1)], per_step={"crew": 1}), "did you mean 'crews'"),
        (lambda: ANY.Fleet([(MODEL, 1)], per_step={"crews": [1, 2]}), "one for each of 4 steps"),
        (lambda: ANY.Fleet([(MODEL, 1)], per_step={"crews": float("nan")}), "holds nan"),
        (lambda: ANY.Fleet([(MODEL, 1)], per_step=[3]), "by cost name"),
        (lambda: conrl.Fleet.stack(**(STACK | {"transitions": STACK["transitions"][1:]}), horizon=2), "must be"),
        (lambda: conrl.Fleet.stack(**(STACK | {"transitions": 0.9 * STACK["transitions"]}), horizon=2), "sums to 0.9"),
        (lambda: conrl.Fleet.stack(**(STACK | {"rewards": np.full((4, 3, 2), np.inf)}), horizon=2), "must be finite"),
        (lambda: conrl.Fleet.stack(**(STACK | {"costs": np.ones((4, 3))}), horizon=2), "costs has shape"),
        (lambda: conrl.Fleet.stack(**STACK, horizon=2, initial=3), "a state is in 0..2"),
        (lambda: conrl.Fleet.stack(**STACK, horizon=2, initial=[0.5, 0.5]), "initial has shape"),
        (lambda: conrl.Fleet.stack(**STACK, horizon=0), "horizon is 0"),
        (lambda: ANY.Fleet([(MODEL, 3)]).at([0, 0]), "expected 3 whole numbers"),
        (lambda: ANY.Fleet([(MODEL, 3)]).at([0, 0, 1]), r"states\[2\] is 1"),
        (lambda: ANY.Fleet([(MODEL, 3)]).at([0, 0, 0], step=4), "none would be left"),
        (lambda: ANY.Fleet([(MODEL, 3)]).at([0, 0, 0], spent=[1, 2]), "a number for each of 1 costs"),
        (lambda: ANY.plan(ANY.Fleet([(MODEL, 3)]), planner="lagrangian"), "leave planner out"),
        (lambda: ANY.plan(ANY.Fleet([(MODEL, 3)]), conrl.Knapsack([3], 4)), "not Knapsack"),
        (lambda: ANY.plan(ANY.Fleet([(MODEL, 3)]), tol=0), "tol is 0"),
        (lambda: ANY.plan(ANY.Fleet([(MODEL, 3)]), deterministic=True), "leave deterministic and time_limit out"),
        (lambda: ANY.plan(ANY.Fleet([(MODEL, 3)])).policy(3), "units 0..2"),
        (lambda: ANY.plan(ANY.Fleet([(MODEL, 3)])).parts(1), "types 0..0"),
        (lambda: ANY.Fleet([(MODEL, 3)]).simulate(3), "a plan of this fleet"),
        (lambda: ANY.Fleet([(MODEL, 3)]).simulate(ANY.plan(ANY.Fleet([(MODEL, 3)]))), "of another fleet"),
        (lambda: ANY.frontier(ANY.Fleet([(MODEL, 3)])), "needs a ConstrainedMDP, not Fleet"),
    ],
)  # fmt: skip
def test_refused_in_one_line(make: Any, message: str) -> None:
    with pytest.raises((ModelError, SpecError), match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_infeasible_limits_are_named() -> None:
    forced = conrl.ConstrainedMDP(np.ones((1, 1, 1)), [[1.0]], [[[2.0]]], 3, cost_names=["crews"])
    with pytest.raises(InfeasibleError, match="crews at step 1 <= 9 cannot be kept") as caught:
        conrl.plan(conrl.Fleet([(forced, 5)], per_step={"crews": [10, 9, 10]}))
    assert caught.value.feasibility.conflict == ("crews at step 1 <= 9",)


def test_a_trillion_units() -> None:
    fleet = conrl.Fleet([(MODEL, 10**12), (MODEL, 7)], limits=[1.25e12 + 0.5])
    plan = conrl.plan(fleet)
    assert plan.reward == pytest.approx(1.25e12 + 0.5, rel=1e-9)
    assert sum(part.units for part in plan.parts(0)) == 10**12
    with pytest.raises(SpecError, match="can be told apart"):
        fleet.simulate(plan)


def test_a_fleet_is_immutable_and_can_be_sent() -> None:
    fleet = conrl.Fleet([(MODEL, 3)], limits={"crews": 4}, floors={"crews": 1})
    with pytest.raises(AttributeError, match="immutable"):
        fleet.horizon = 3
    with pytest.raises(ValueError, match="read-only"):
        fleet.limits[0] = 3.0
    sent = pickle.loads(pickle.dumps(conrl.plan(fleet)))
    assert sent.reward == conrl.plan(fleet).reward == 4.0
    assert sent.fleet.simulate(sent, runs=1).costs.tolist() == [[4.0]]
    assert repr(fleet) == "Fleet(units=3, types=1, horizon=4, costs=('crews',))"


def test_other_limits_for_the_same_fleet() -> None:
    fleet = conrl.Fleet([(MODEL, 3)], limits={"crews": 4})
    assert conrl.plan(fleet, {"crews": 2}).reward == 2.0
    assert conrl.plan(fleet, conrl.Linear(None, {"crews": 3})).reward == 12.0
    assert conrl.plan(fleet, limits=[1.5]).limits.tolist() == [1.5]


def test_later_steps_have_their_own_numbers_in_a_table() -> None:
    mdp = conrl.ConstrainedMDP([[[1.0], [1.0]]], [[0.0, 1.0]], [[[0.0], [1.0]]], 4, cost_names=["crews"])
    plan = conrl.plan(conrl.Fleet([(mdp, 3)], per_step={"crews": [3, 3, 1, 2]}).at([0, 0, 0], 2))
    shown = [name for name in plan._columns()["total"] if "step" in name]
    assert shown == [row.name.rpartition(" <= ")[0] for row in plan.rows] == ["crews at step 2", "crews at step 3"]

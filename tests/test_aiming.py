"""Searches that aim where Z looks smooth (`column_generation/aiming.py`), against those that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bank import random_model
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Spec, specs
from test_line import ask, with_some_bonus

import conrl
from conrl.envs import random_cmdp
from conrl.oracles import BackwardInduction, SupportOracle, WithNullAction
from conrl.planners.column_generation.aiming import Pace, Surface
from conrl.planners.column_generation.search import Optimum


def taken(mdp: conrl.ConstrainedMDP, large: bool) -> SupportOracle:
    """The oracle of a model that is taken for a large one, or for a small one."""
    oracle = BackwardInduction(mdp)
    oracle.curved = large
    return oracle


@settings(max_examples=400)
@given(specs(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1e-9, 1e-6, 1e-2]), st.integers(1, 12))
def test_aiming_finds_what_others_find(
    spec: Spec, relax: bool, null: bool, bonus: bool, tol: float, sweeps: int
) -> None:
    """Also on models that are no smooth surface at all."""
    mdp, problem = spec.build()
    rows = problem.rows(mdp)
    if bonus:
        mdp = with_some_bonus(mdp, spec)
    plain, aimed = taken(mdp, False), taken(mdp, True)
    if null:
        plain, aimed = WithNullAction(plain), WithNullAction(aimed)
    assert aimed.curved
    assert not plain.curved
    one, other = ask(plain, rows, relax=relax, tol=tol), ask(aimed, rows, relax=relax, tol=tol)
    if isinstance(one, tuple) or isinstance(other, tuple):
        assert isinstance(one, tuple)
        assert isinstance(other, tuple)
        return
    assert other.accepted
    assert other.converged == one.converged
    if not relax or rows.size < 2:  # what is relaxed by how much is not unique
        assert other.objective <= one.bound
        assert one.objective <= other.bound
    assert other.bound - other.objective <= tol * max(1.0, abs(other.objective)) or not one.converged
    start = {"directions": other.directions, "multipliers": other.multipliers}
    again = ask(aimed, rows, relax=relax, tol=tol, start=start)
    assert isinstance(again, Optimum)
    assert again.accepted
    few = ask(aimed, rows, relax=relax, max_sweeps=sweeps)
    assert isinstance(few, tuple) or few.accepted


@pytest.mark.parametrize("costs", [1, 4])
def test_aiming_asks_less_of_large_models(costs: int) -> None:
    plain = aimed = 0
    for seed in range(3):
        mdp = random_cmdp(20_000, 4, 5, costs, seed=seed)
        rows = conrl.Linear(mdp.limits).rows(mdp)
        one, other = ask(taken(mdp, False), rows, tol=4e-8), ask(taken(mdp, True), rows, tol=4e-8)
        assert isinstance(one, Optimum)
        assert isinstance(other, Optimum)
        assert other.converged
        assert other.objective == pytest.approx(one.objective, rel=2e-7)
        plain, aimed = plain + one.asked, aimed + other.asked
    assert 1.3 * aimed < plain


def quadratic(rows: int, seed: int) -> tuple[Any, Any, Any]:
    """D = 1 + |A (x - c)|^2 / 2 with its least value at c > 0, and its slope."""
    rng = np.random.default_rng(seed)
    A, c = 0.3 * rng.normal(size=(rows, rows)) + 2.0 * np.eye(rows), rng.uniform(1.0, 2.0, rows)
    M = A.T @ A
    return c, lambda x: 1.0 + 0.5 * (x - c) @ M @ (x - c), lambda x: M @ (x - c)


@pytest.mark.parametrize("rows", [2, 3, 6])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_quadratic_is_hit_at_once(rows: int, scale: float) -> None:
    """In any units."""
    c, D, slope = quadratic(rows, rows)
    h, unit = np.linspace(1.0, 2.0, rows) * scale, np.full(rows, scale)
    surface, rng = Surface(h, unit), np.random.default_rng(0)
    for _ in range(rows + 1):
        x = c + rng.uniform(-0.5, 0.5, rows)
        surface.learn(x / unit, h - slope(x) * unit, D(x))
    aimed = surface.aim(np.ones(rows, dtype=bool), h[None])
    assert aimed is not None
    assert aimed * unit == pytest.approx(c, rel=1e-7)


def test_one_row_is_aimed_to_the_side_of_the_farther_end() -> None:
    c, D, slope = quadratic(1, 0)
    h = np.ones(1)
    surface = Surface(h, h)
    for x in (c - 0.5, c + 0.3):
        surface.learn(x, h - slope(x), D(x))
    for far in (2.0, -1.0):
        aimed = surface.aim(np.ones(1, dtype=bool), np.array([[0.9], [far]]))
        assert aimed is not None
        assert h - slope(aimed) == pytest.approx(1.0 + 0.03 * (far - 1.0), rel=1e-9)


def test_what_does_not_bind_keeps_the_multiplier_zero() -> None:
    c, D, slope = quadratic(2, 0)
    h, binding = np.ones(2), np.array([True, False])
    surface = Surface(h, h)
    for first in (c[0] - 0.5, c[0] + 0.3, c[0] + 0.1):
        x = np.array([first, 0.0])
        surface.learn(x, h - slope(x), D(x))
    aimed = surface.aim(binding, h[None])
    assert aimed is not None
    assert aimed[1] == 0.0
    assert slope(aimed)[0] == pytest.approx(0.0, abs=1e-9)


def test_where_it_does_not_bend_nothing_is_aimed_at() -> None:
    """A plane, one point twice, numbers that are none, no row that binds."""
    h, binding = np.ones(2), np.ones(2, dtype=bool)
    plane, twice, wild = Surface(h, h), Surface(h, h), Surface(h, h)
    for x in np.eye(2):
        plane.learn(x, np.array([2.0, 3.0]), float(-x @ [1.0, 2.0]))
        twice.learn(np.ones(2), np.array([2.0, 3.0]), 1.0)
        wild.learn(x * 1e300, np.array([1e300, -np.inf]), 1e300)
    plane.learn(np.zeros(2), np.array([2.0, 3.0]), 0.0)
    for surface in (plane, twice, wild):
        surface.learn(np.array([0.3, 0.4]), np.array([2.0, 3.0]), -1.1)
        assert surface.aim(binding, h[None]) is None
    plane.learn(np.zeros(2), np.array([2.0, 3.0]), -9.0)  # now the best of all
    assert plane.aim(~binding, h[None]) is None


@pytest.mark.parametrize(("rows", "aims"), [(12, True), (13, False)])
def test_more_than_twelve_rows_are_too_many(rows: int, aims: bool) -> None:
    c, D, slope = quadratic(rows, 0)
    h, rng = np.ones(rows), np.random.default_rng(0)
    surface = Surface(h, h)
    for _ in range(rows + 1):
        x = c + rng.uniform(-0.5, 0.5, rows)
        surface.learn(x, h - slope(x), D(x))
    assert (surface.aim(np.ones(rows, dtype=bool), h[None]) is not None) == aims


def test_after_n_aims_that_did_not_pay_n_directions_are_plain() -> None:
    pace = Pace()
    assert pace.ready(8.0)
    pace.before = 8.0
    assert pace.ready(4.0)  # it was halved
    for plain in (1, 2, 3):
        pace.before = 4.0
        assert [pace.ready(3.0) for _ in range(plain + 1)] == [False] * plain + [True]
    pace.before = 3.0
    assert pace.ready(1.0)
    pace.before = 1.0
    assert [pace.ready(1.0) for _ in range(4)] == [False, False, False, True]


def test_models_that_are_aimed_at_have_the_same_bits_for_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conrl.oracles.backward_induction.MANY", 0)
    monkeypatch.setattr("conrl.oracles.backward_induction.WORK", 0)
    for costs in (1, 2, 4):
        mdp = random_model(costs, 40, 3, 8, costs)
        plans = [conrl.plan(mdp.replace(horizon=8), dict.fromkeys(mdp.cost_names, 4.0), threads=n) for n in (1, 2, 3)]
        assert len({(p.reward, p.bound, p.costs.tobytes(), p.policy.probabilities.tobytes()) for p in plans}) == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_at_the_least_that_is_possible_nothing_is_aimed(seed: int) -> None:
    """There the bound is flat in the multipliers; the price is what a little more would gain."""
    mdp = random_cmdp(300, 4, 5, 1, seed=seed, horizon=6)
    rows = conrl.Linear([0.0]).rows(mdp)
    one, other = (ask(WithNullAction(taken(mdp, large)), rows) for large in (False, True))
    assert isinstance(one, Optimum)
    assert isinstance(other, Optimum)
    assert other.multipliers == pytest.approx(one.multipliers, rel=1e-9)
    assert other.asked <= one.asked

"""Functions that are defined only somewhere, and bounds where Clarabel is not exact."""

from __future__ import annotations

from typing import Any

import cvxpy
import numpy as np
import pytest
from bank import still

import conrl
from conrl.planners.column_generation import cones as clarabels
from conrl.planners.column_generation.cones import Cones
from conrl.planners.column_generation.expressions import Expressions

cp: Any = cvxpy  # its functions are not typed
COLUMN, PROGRAM = "column-generation", "convex-program"
BELOW = still([0.0, 1.0], [[-1.0], [-2.0]], 1)  # every cost is negative
AROUND = still([1.0, 0.0], [[-1.0], [1.0]], 1)  # the reward draws to where functions are undefined

both_planners = pytest.mark.parametrize("planner", [COLUMN, PROGRAM])


@both_planners
@pytest.mark.parametrize(
    "constraint",
    [
        lambda c: cp.inv_pos(c[0]) - 5.0,
        lambda c: cp.power(c[0], 3) - 5.0,
        lambda c: cp.quad_over_lin(1.0, c[0]) - 5.0,
        lambda c: -cp.log_det(cp.diag(cp.hstack((c[0], c[0])))) - 5.0,
    ],
    ids=["inverse", "third power", "quotient", "determinant"],
)
def test_undefined_although_a_number_comes_out(constraint: Any, planner: str) -> None:
    with pytest.raises(conrl.InfeasibleError, match="constraint 1 cannot be met"):
        conrl.plan(BELOW, conrl.ConcaveConvex(lambda r: r, constraint), planner=planner)


@both_planners
@pytest.mark.parametrize(
    "objective", [lambda r, c: -cp.inv_pos(c[0]), lambda r, c: -cp.quad_over_lin(r, c[0])], ids=["inverse", "quotient"]
)
def test_an_objective_undefined_although_a_number_comes_out(objective: Any, planner: str) -> None:
    with pytest.raises(conrl.InfeasibleError, match="the objective's domain cannot be met"):
        conrl.plan(BELOW, conrl.ConcaveConvex(objective), planner=planner)


@both_planners
@pytest.mark.parametrize(
    "constraint",
    [
        lambda c: cp.power(c[0], 1.5) - 0.2,
        lambda c: cp.power(c[0], 3) - 0.2,
        lambda c: cp.kl_div(c[0], 0.5) - 0.6,
        lambda c: -cp.sqrt(c[0]),
        lambda c: cp.power(cp.power(c[0], 0.5) + 1.0, -1.0) - 5.0,
    ],
    ids=["power 1.5", "third power", "entropy", "square root", "root within a power"],
)
def test_optimal_at_the_edge_of_the_domain(constraint: Any, planner: str) -> None:
    plan = conrl.plan(AROUND, conrl.ConcaveConvex(lambda r: r, constraint), planner=planner)
    assert plan.status == "optimal"
    assert 0.0 <= plan.costs[0] <= 1e-6
    assert plan.reward == pytest.approx(0.5, abs=1e-6)


def test_a_sum_over_the_largest_so_far() -> None:
    mdp = still([0.0, 1.0], [[0.0, 1.0], [1.0, 0.5]], 2)
    for planner in (COLUMN, PROGRAM):
        plan = conrl.plan(mdp, conrl.ConcaveConvex(lambda r: r, lambda c: cp.sum(cp.cummax(c)) - 3.4), planner=planner)
        assert plan.reward == pytest.approx(1.7, abs=1e-5)


@pytest.mark.parametrize("attempt", [(1e-10, True), (1e-8, True), (1e-6, True), (1e-4, True)])
def test_a_bound_is_above_the_maximum_however_coarse_clarabel_is(
    attempt: tuple[float, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The maximum over the box of f(y) - mu g(y) - w.y, where it is known."""
    cones = Cones(Expressions(lambda x: -cp.exp(-8.0 * x), [lambda c: cp.abs(c[0])], np.array([0.0, -1.0]), np.ones(2)))
    monkeypatch.setattr(clarabels, "FINER", (attempt,))
    for price in np.geomspace(1e-3, 7.0, 20):
        x = min(-np.log(price / 8.0) / 8.0, 1.0)  # 8 exp(-8 x) = price, or the end of the box
        best = -np.exp(-8.0 * x) - price * x
        for mu in (0.0, 0.5, 1e3):
            bound = cones.over_box(np.array([price, 0.0]), np.array([mu]))
            assert bound >= best
            assert not attempt[0] <= 1e-10 or bound <= best + 1e-8 * max(1.0, mu)

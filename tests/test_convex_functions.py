"""CVXPY expressions as plain functions: to the bit CVXPY's values, its slopes, and what a constraint may exceed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy
import numpy as np
import pytest
from numpy.typing import NDArray

from conrl.planners.column_generation.cones import EXCESS, Cones
from conrl.planners.column_generation.expressions import Expressions
from conrl.planners.column_generation.functions import Function

Float = NDArray[np.float64]
cp: Any = cvxpy  # its functions are not typed
UNIT = np.array([2.0, 0.5, 3.0])
M = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])

EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "constant": lambda y: cp.Constant(3.0),
    "no influence": lambda y: cp.Constant(3.0) + 0.0 * y[1],
    "entry": lambda y: y[1],
    "affine": lambda y: 3.0 * y[0] - y[1:] @ np.array([1.0, 2.0]) + 4.0,
    "square": lambda y: cp.square(y[1]) - 0.04,
    "used twice": lambda y: cp.square(y[1]) + 2.0 * cp.square(y[1]),
    "square root": lambda y: -cp.sqrt(0.1 + y[0]),
    "logarithm": lambda y: -cp.log(0.1 + y[0]),
    "exponential": lambda y: cp.exp(y[2]) + 1.0 / 3.0,
    "norm": lambda y: cp.norm(y - 0.2) - 0.05,
    "norm 1": lambda y: cp.norm(y, 1),
    "norm inf": lambda y: cp.norm(y, "inf"),
    "largest": lambda y: cp.maximum(y[0] - 1.0, 1.0 - y[1], 0.0),
    "least": lambda y: -cp.min(y[1:]),
    "sum of squares": lambda y: cp.sum_squares(M @ y - 1.0),
    "quadratic form": lambda y: cp.quad_form(y, M),
    "ratio": lambda y: cp.quad_over_lin(y[0], 1.0 + y[2]),
    "inverse": lambda y: cp.inv_pos(y[0]),
    "logistic": lambda y: cp.sum(cp.logistic(y)),
    "entropy": lambda y: -cp.sum(cp.entr(y)),
    "relative entropy": lambda y: cp.sum(cp.kl_div(y, np.array([0.2, 0.3, 0.5]))),
    "huber": lambda y: cp.sum(cp.huber(y, 0.5)),
    "stacked": lambda y: cp.max(cp.hstack((y[0], cp.square(y[1]), 2.0))),
    "geometric mean": lambda y: -cp.geo_mean(y),
    "largest eigenvalue": lambda y: cp.lambda_max(cp.diag(y)),
    "with a parameter": lambda y: cp.Parameter(value=2.0, nonneg=True) * cp.square(y[0]),
    "positive part": lambda y: cp.pos(y[0] - 1.0) + cp.abs(y[1]),
    "scalar product": lambda y: cp.square(cp.sum(cp.multiply(np.array([1.0, -2.0, 3.0]), y))),
}
rng = np.random.default_rng(0)
POINTS = [*rng.uniform(0.05, 2.0, (6, 3)), *rng.uniform(-2.0, 2.0, (6, 3)), np.zeros(3), np.full(3, 0.2) / UNIT]


def by_cvxpy(expression: Any, variable: Any, at: Float) -> tuple[float, Float | None]:
    """The value and the slopes in CVXPY's own way; nan and None where it has none."""
    with np.errstate(all="ignore"):
        variable.value = at
        value = expression.value
        try:
            found = expression.grad.get(variable)
        except NotImplementedError:
            found = None
        if any(np.max(condition.residual) > 0.0 for condition in expression.domain):
            value = None  # CVXPY's arithmetic goes on: 1 / -2 is a number
    slopes = None if found is None else np.asarray(found.todense() if hasattr(found, "todense") else found)
    return float("nan") if value is None else float(value), None if slopes is None else slopes.reshape(-1)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_and_slopes_are_those_of_cvxpy(name: str) -> None:
    y = cp.Variable(3)
    expression = EXPRESSIONS[name](cp.multiply(UNIT, y))
    function = Function(expression, y)
    for at in POINTS:
        value, slopes = by_cvxpy(expression, y, at)
        assert np.array_equal(function(at), value, equal_nan=True), at
        if slopes is not None and np.isfinite(slopes).all():
            np.testing.assert_allclose(function.slopes(at), slopes, rtol=1e-12, atol=1e-14)
        assert np.isfinite(function.slopes(at)).all()


def test_most_expressions_need_no_cvxpy_afterwards() -> None:
    """All but those with a parameter, or an atom that looks its value up in its own way."""
    y = cp.Variable(3)
    asked = {name for name, make in EXPRESSIONS.items() if not Function(make(y), y)._plain}
    assert asked == {"with a parameter", "largest eigenvalue"}


def test_slopes_where_cvxpy_has_none_are_differences() -> None:
    y = cp.Variable(2)
    function = Function(cp.norm(y), y)
    function._chain = _refuse  # type: ignore[method-assign]
    np.testing.assert_allclose(function.slopes(np.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-5)


def test_slopes_where_those_of_cvxpy_fail_are_differences() -> None:
    """Of the largest so far CVXPY makes a table of the wrong shape, and of log_sum_exp inf / inf."""
    y = cp.Variable(2)
    largest = Function(cp.sum(cp.cummax(y)), y)
    np.testing.assert_allclose(largest.slopes(np.array([3.0, 1.0])), [2.0, 0.0], rtol=1e-5)
    exponential = Function(cp.log_sum_exp(1000.0 * y), y)
    np.testing.assert_allclose(exponential.slopes(np.array([3.0, 1.0])), [1000.0, 0.0], rtol=1e-5)


def test_what_never_moves_loosens_no_constraint() -> None:
    """However steep it is along a cost that is always the same."""
    asked = Expressions(lambda x: x, [lambda c: 5e11 * c[0] + c[1]], np.zeros(3), np.array([1.0, 0.0, 1.0]))
    assert Cones(asked).allowance(np.array([0.5, 0.0, 0.0]), np.zeros(3), 1e-6, 1e-8) <= 1e-7


def _refuse(at: Float) -> Float | None:
    raise NotImplementedError


CONSTRAINTS = [
    lambda c: cp.square(c[0]) - 0.04,
    lambda c: cp.norm(c - 0.2) - 0.05,
    lambda c: cp.sum(c) - 0.3,
    lambda c: 0.3 - cp.min(c),
    lambda c: cp.exp(c[1]) - 2.0,
    lambda c: cp.inv_pos(c[0]) - 4.0,
    lambda c: 0.5 - cp.sqrt(c[0]),
]


def test_what_is_allowed_without_slopes_is_allowed_with_them() -> None:
    cones = Cones(Expressions(lambda x: x, CONSTRAINTS, np.zeros(3), np.full(3, 2.0)))
    sure = 0
    for at in np.random.default_rng(1).uniform(0.0, 1.0, (50, 3)):
        g = cones.value(at)[1]
        allowance = cones.allowance(at, np.zeros(3))
        for share in (-1.0, 0.0, 1e-3, 0.1, 0.5, 0.9, 1.0, 1.1, 10.0):
            # As if the constraints compared the same and were exceeded by so much.
            excess = share * allowance
            cones._at_origin = excess - (g - cones.value(np.zeros(3))[1])
            allowed = cones.surely_allowed(excess)
            sure += allowed
            assert not allowed or (excess <= allowance).all()
    assert sure >= 100
    assert not cones.surely_allowed(np.full(len(CONSTRAINTS), np.nan))


def test_a_linear_constraint_is_sure_up_to_its_share_of_the_limit() -> None:
    cones = Cones(Expressions(lambda x: x, [lambda c: c[0] - 0.3], np.zeros(2), np.ones(2)))
    assert cones.surely_allowed(np.array([0.9 * EXCESS * 0.3]))
    assert not cones.surely_allowed(np.array([1.1 * EXCESS * 0.3]))

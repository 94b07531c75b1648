"""Plans of functions that look at something that changes; which expressions are told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy
import numpy as np
import pytest

import conrl
from conrl.planners.column_generation import planner as compiled
from conrl.planners.column_generation.expressions import Expressions

cp: Any = cvxpy  # its functions are not typed
# One step: nothing, or a reward and a cost of 1.
PLAY = conrl.ConstrainedMDP([[[1.0], [1.0]]], [[0.0, 1.0]], [[[0.0], [1.0]]], 1)

both_planners = pytest.mark.parametrize("planner", ["column-generation", "convex-program"])


def reward(r: Any) -> Any:
    return r


@both_planners
def test_a_list_that_a_constraint_looks_at(planner: str) -> None:
    limit = [0.2]
    problem = conrl.ConcaveConvex(reward, lambda c: cp.abs(c[0]) - limit[0])
    for limit[0] in (0.2, 0.9, 0.2):
        assert conrl.plan(PLAY, problem, planner=planner).reward == pytest.approx(limit[0], abs=1e-6)


@both_planners
@pytest.mark.parametrize(
    "constraint",
    [
        lambda c, q: cp.abs(c[0]) - q,
        lambda c, q: cp.square(c[0] / q) - 1.0,
        lambda c, q: cp.abs(c[0] - q * q) + q * q - q,
    ],
    ids=["limit", "divisor", "no rule of CVXPY's for parameters"],
)
def test_a_parameter_is_a_constant_of_each_plan(constraint: Callable[[Any, Any], Any], planner: str) -> None:
    q = cp.Parameter(pos=True)
    problem = conrl.ConcaveConvex(reward, lambda c: constraint(c, q))
    for value in (0.2, 0.9, 0.2):
        q.value = value
        plan = conrl.plan(PLAY, problem, planner=planner)
        assert plan.status == "optimal"
        assert plan.reward == pytest.approx(value, abs=1e-6)


@both_planners
def test_a_parameter_that_an_atom_keeps_to_itself(planner: str) -> None:
    """huber(c, m) = m (2 c - m) beyond m: at most 0.5 with c = 0.75 for m = 0.5, and sqrt(0.5) for m = 1."""
    m = cp.Parameter(nonneg=True)
    problem = conrl.ConcaveConvex(reward, lambda c: cp.huber(c[0], m) - 0.5)
    for m.value, best in ((0.5, 0.75), (1.0, np.sqrt(0.5))):
        assert conrl.plan(PLAY, problem, planner=planner).reward == pytest.approx(best, abs=1e-6)


@both_planners
def test_a_parameter_without_a_value_is_named(planner: str) -> None:
    q = cp.Parameter(name="budget")
    with pytest.raises(conrl.SpecError, match="constraint 1 has a parameter without a value: budget; set its value"):
        conrl.plan(PLAY, conrl.ConcaveConvex(reward, lambda c: c[0] - q), planner=planner)


class Unknown(cp.atoms.elementwise.abs.abs):  # type: ignore[misc]
    """An atom of a user's, which may compute anything."""


SAME: dict[str, Callable[[], Any]] = {
    "limit": lambda: lambda c: c[0] - 0.3,
    "other limit": lambda: lambda c: c[0] - 0.4,
    "other entry": lambda: lambda c: c[1] - 0.3,
    "square": lambda: lambda c: cp.square(c[0]) - 0.3,
    "third power": lambda: lambda c: cp.power(c[0], 3) - 0.3,
    "norm": lambda: lambda c: cp.norm(c - np.array([0.1, 0.2])) - 0.3,
    "norm 1": lambda: lambda c: cp.norm(c - np.array([0.1, 0.2]), 1) - 0.3,
    "used twice": lambda: lambda c: cp.maximum(c[0], c[0] + c[1]),
    "huber": lambda: lambda c: cp.huber(c[0], 0.3),
    "wider huber": lambda: lambda c: cp.huber(c[0], 0.4),
    "form": lambda: lambda c: cp.quad_form(c, np.diag([1.0, 2.0])),
    "slice": lambda: lambda c: cp.sum(c[::-1]),
    "two largest": lambda: lambda c: cp.sum_largest(c, 2),
}


def asked(*constraints: Any, size: float = 1.0) -> Expressions:
    return Expressions(reward, constraints, np.zeros(3), np.full(3, size))


def test_expressions_are_equal_if_they_compute_the_same() -> None:
    for name, make in SAME.items():
        assert asked(make()) == asked(make()), name
        assert hash(asked(make())) == hash(asked(make()))
    assert len({asked(make()) for make in SAME.values()}) == len(SAME)
    limit, other = SAME["limit"](), SAME["other limit"]()
    assert asked(limit, other) != asked(other, limit)
    assert asked(limit) != asked(limit, size=2.0)
    assert asked(lambda c: Unknown(c[0])) != asked(lambda c: Unknown(c[0]))


def test_the_same_functions_are_compiled_once() -> None:
    problem = conrl.ConcaveConvex(reward, lambda c: cp.square(c[0]) - 0.31)
    conrl.plan(PLAY, problem)
    before = compiled._compile.cache_info()
    conrl.plan(PLAY, problem)
    conrl.plan(PLAY, conrl.ConcaveConvex(reward, lambda c: cp.square(c[0]) - 0.31))
    after = compiled._compile.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 2)


def test_what_is_no_atom_is_compiled_anew() -> None:
    """And has a value of its own where it is not defined."""
    mdp = conrl.envs.random_cmdp(6, 3, 4, 2, seed=1)
    limit = conrl.plan(mdp, [16.0, 1e3]).reward
    indicator = conrl.ConcaveConvex(lambda r, c: r - cp.transforms.indicator([c[0] <= 16]))
    found = conrl.plan(mdp, indicator)
    assert found.reward == pytest.approx(limit, abs=1e-6)
    assert found.costs[0] <= 16.0 + 1e-6

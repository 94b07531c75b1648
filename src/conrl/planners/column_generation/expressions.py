"""What users' functions make of a value vector: CVXPY expressions of a variable y, told apart by what they compute.

A function is called anew for each plan, since a list or a `cvxpy.Parameter` that it looks at may have changed.
Parameters are constants, at their value of that moment. To compile is what takes long, so an expression has a
fingerprint: its atoms, their shapes and settings, and the numbers in it, to the bit. Equal ones compute the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from conrl._types import Float
from conrl.arguments import is_sparse
from conrl.errors import ConRLError, SpecError
from conrl.planners.column_generation.functions import CVXPY, Function

Users = Callable[..., Any]
UNTOLD = ("cvxpy.atoms.suppfunc", "cvxpy.atoms.perspective")  # their settings do not say all that they compute
PLAIN = (bool, int, float, complex, str, bytes, Fraction, type(None))  # equal if and only if their text is


class Expressions:
    """f and every g_j as expressions of y, which is in `unit` [1+d], over a box. Equal if they compute the same."""

    def __init__(self, objective: Users, constraints: Sequence[Users], lo: Float, hi: Float) -> None:
        self.lo, self.hi = lo, hi
        self.unit = np.where(hi > lo, hi - lo, 1.0)
        with CVXPY:
            self.y, in_users_units = _variable(self.unit.tobytes())
            self._traced = _trace(objective, constraints, in_users_units)
            self._key = lo.tobytes(), hi.tobytes(), fingerprint(self._traced, self.y)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expressions) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def checked(self) -> tuple[Any, list[Any]]:
        """f and every g_j, which are concave and convex."""
        return _check(self._traced, self.y)


@lru_cache(maxsize=8)
def _variable(unit: bytes) -> tuple[Any, Any]:
    """y and what it is in the user's units."""
    cp, sizes = import_cvxpy(), np.frombuffer(unit)
    y = cp.Variable(sizes.size, name="y")
    return y, cp.multiply(sizes, y)


def expressions(objective: Users, constraints: Sequence[Users], y: Any) -> tuple[Any, list[Any]]:
    """f and every g_j of a CVXPY variable y, with their curvature checked."""
    return _check(_trace(objective, constraints, y), y)


def evaluator(
    objective: Users, constraints: Sequence[Users], size: int
) -> tuple[Callable[[Float], float], Callable[[Float], list[float]]]:
    """f and all g_j as functions of a value vector [size]; nan where undefined."""
    with CVXPY:
        y = import_cvxpy().Variable(size)
        f, gs = expressions(objective, constraints, y)
        value, others = Function(f, y), [Function(g, y) for g in gs]
    return value, lambda point: [g(point) for g in others]


def import_cvxpy() -> Any:
    """CVXPY, or what to install."""
    try:
        import clarabel  # noqa: F401
        import cvxpy
    except ImportError as error:
        raise SpecError(f"concave-convex problems need the extra: pip install 'conrl[convex]' ({error})") from None
    return cvxpy


def fingerprint(traced: Sequence[Any], variable: Any) -> tuple[Any, ...]:
    """What tells expressions from all that compute something else. What is of an unknown kind equals nothing."""
    from cvxpy.atoms.atom import Atom
    from cvxpy.expressions.expression import Expression

    told: list[Any] = []  # of each expression, what it takes before it
    places: dict[int, int] = {}

    def place(expression: Any) -> int:
        if id(expression) not in places:
            told_of = _leaf(expression, variable) if not expression.args else _atom(expression)
            places[id(expression)] = len(told)
            told.append(told_of)
        return places[id(expression)]

    def _atom(atom: Any) -> Any:
        kind = type(atom)
        if not isinstance(atom, Atom) or not kind.__module__.startswith("cvxpy.") or kind.__module__ in UNTOLD:
            return object()
        return kind, atom.shape, tuple(map(place, atom.args)), setting(atom.get_data())

    def setting(data: Any) -> Any:
        if isinstance(data, (list, tuple)):
            return type(data), tuple(map(setting, data))
        if isinstance(data, slice):
            return slice, setting((data.start, data.stop, data.step))
        if isinstance(data, Expression):
            return place(data)
        return repr(data) if isinstance(data, PLAIN) else _numbers(data)

    ends = tuple(map(place, traced))
    return tuple(told), ends


def _leaf(leaf: Any, variable: Any) -> Any:
    from cvxpy.expressions.constants.constant import Constant

    if leaf is variable:
        return "y"
    return (Constant, _numbers(leaf.value)) if type(leaf) is Constant else object()


def _numbers(value: Any) -> Any:
    """An array to the bit."""
    if is_sparse(value):
        table = value.tocoo()
        return value.shape, _numbers(table.row), _numbers(table.col), _numbers(table.data)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
        return value.shape, value.dtype.str, value.tobytes()
    return object()


def _trace(objective: Users, constraints: Sequence[Users], y: Any) -> list[Any]:
    """What the functions make of an expression y: f, and every g_j."""
    f = _expression(objective, _arguments(objective, y), "objective")
    return [f, *(_expression(g, (y[1:],), f"constraint {j + 1}") for j, g in enumerate(constraints))]


def _arguments(objective: Users, y: Any) -> tuple[Any, ...]:
    """The reward, and the costs too for a function of two arguments."""
    try:
        signature = inspect.signature(objective)
    except (TypeError, ValueError):
        return (y[0],)
    needed = [
        p
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    return (y[0], y[1:]) if len(needed) == 2 else (y[0],)


def _expression(function: Users, arguments: tuple[Any, ...], what: str) -> Any:
    """What the user's function makes of CVXPY expressions, without parameters."""
    cp = import_cvxpy()
    try:
        result = function(*arguments)
        expression = result if isinstance(result, cp.Expression) else cp.Constant(result)
    except ConRLError:
        raise
    except Exception as error:
        raise SpecError(f"{what} failed on a CVXPY expression: {type(error).__name__}: {error}") from error
    if result is None:
        raise SpecError(f"{what} returns None; it must return a CVXPY expression")
    return _settled(cp, expression, what)


def _settled(cp: Any, expression: Any, what: str) -> Any:
    """An expression with each parameter at its value."""
    if not expression.parameters():
        return expression
    if isinstance(expression, cp.Parameter):
        if expression.value is None:
            raise SpecError(f"{what} has a parameter without a value: {expression.name()}; set its value")
        return cp.Constant(expression.value)
    args, data = [_settled(cp, a, what) for a in expression.args], expression.get_data() or []
    if not any(isinstance(x, cp.Expression) for x in data):
        return expression.copy(args)
    return type(expression)(*args, *(_settled(cp, x, what) if isinstance(x, cp.Expression) else x for x in data))


def _check(traced: Sequence[Any], variable: Any) -> tuple[Any, list[Any]]:
    """f and every g_j as scalar expressions, if they are concave and convex functions of the variable alone."""
    f, *gs = traced
    f = _scalar(f, "objective", variable)
    if not f.is_concave():
        raise SpecError(f"the objective is {f.curvature.lower()}, not concave: {f}")
    gs = [_scalar(g, f"constraint {j + 1}", variable) for j, g in enumerate(gs)]
    for j, g in enumerate(gs):
        if not g.is_convex():
            raise SpecError(f"constraint {j + 1} is {g.curvature.lower()}, not convex: {g}")
    return f, gs


def _scalar(expression: Any, what: str, variable: Any) -> Any:
    numbers = [np.asarray(c.value, dtype=np.float64) for c in expression.constants() if c.value is not None]
    if not all(np.isfinite(n).all() for n in numbers):
        raise SpecError(f"{what} holds a number that is not finite: {expression}")
    if any(v.id != variable.id for v in expression.variables()):
        raise SpecError(f"{what} has variables of its own; it must be a function of what it is given")
    if expression.size != 1:
        raise SpecError(f"{what} has shape {expression.shape}; it must be a single number")
    return expression if expression.shape == () else import_cvxpy().reshape(expression, (), order="C")

"""Ready-made objectives and constraints for `ConcaveConvex`, so that common questions need no CVXPY.

Each function below returns a plain function of CVXPY expressions. Constraints are functions of the vector of expected
total costs, kept where they are at most 0; objectives are functions of the expected total reward, or of (reward,
costs). Costs are given by index. What is passed is checked at once; an index or a target that does not fit the model
is refused when it is planned for.

>>> import conrl
>>> from conrl.convex import diminishing, near
>>> actions = {"left": (0.0, [1.0, 0.0]), "right": (1.0, [0.0, 1.0])}  # reward and visits of the left and right side
>>> rewards, visits = zip(*actions.values())
>>> mdp = conrl.ConstrainedMDP([[[1.0], [1.0]]], [rewards], [visits], horizon=4)
>>> problem = conrl.ConcaveConvex(objective=diminishing("log"), constraint=near([2.0, 2.0], 1.0, norm="inf"))
>>> plan = conrl.plan(mdp, problem)
>>> plan.costs.round(6).tolist(), round(plan.reward, 6)
([1.0, 3.0], 3.0)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import is_int, read_number
from conrl.errors import SpecError, shown, unknown

__all__ = [
    "at_least",
    "at_most",
    "closeness",
    "diminishing",
    "fair",
    "max_min",
    "near",
    "proportional",
    "within",
]

Constraint = Callable[[Any], Any]  # costs [d] -> kept where at most 0
Objective = Callable[[Any], Any]  # reward -> maximised
JointObjective = Callable[[Any, Any], Any]  # reward, costs [d] -> maximised

KINDS = ("log", "sqrt", "exp", "cap")
NORMS = (1, 2, "inf")


# -- constraints ----------------------------------------------------------------------------------------------


def at_most(i: int, x: float) -> Constraint:
    """Cost i is at most x: a limit of `Linear`, beside others that are not linear.

    >>> import cvxpy as cp
    >>> float(at_most(0, 3.0)(cp.Constant([1.0, 5.0])).value)  # 2 below the limit
    -2.0
    """
    i, x = _index(i), read_number(x, "x")
    return lambda costs: _cost(costs, i) - x


def at_least(i: int, x: float) -> Constraint:
    """Cost i is at least x: a floor of `Linear`.

    >>> import cvxpy as cp
    >>> float(at_least(1, 3.0)(cp.Constant([1.0, 5.0])).value)
    -2.0
    """
    i, x = _index(i), read_number(x, "x")
    return lambda costs: x - _cost(costs, i)


def within(i: int, low: float, high: float) -> Constraint:
    """Cost i is between low and high; one function, and so one price for whichever end binds.

    >>> import cvxpy as cp
    >>> float(within(0, 1.0, 4.0)(cp.Constant([0.5, 5.0])).value)  # 0.5 too low
    0.5
    """
    i, low, high = _index(i), read_number(low, "low"), read_number(high, "high")
    if low > high:
        raise SpecError(f"within: low is {low:g} and high is {high:g}; nothing lies between")

    def between(costs: Any) -> Any:
        cost = _cost(costs, i)
        return _cvxpy().maximum(low - cost, cost - high)

    return between


def near(target: ArrayLike, radius: float, norm: float | str = 2) -> Constraint:
    """The vector of costs is within `radius` of `target` [d]; `norm` is 1, 2 or "inf".

    With visits as costs and an expert's visits as the target: stay close to the expert.

    >>> import cvxpy as cp
    >>> float(near([1.0, 1.0], 2.0)(cp.Constant([4.0, 5.0])).value)  # 5 away
    3.0
    """
    aim, kind, radius = _target(target), _norm(norm), read_number(radius, "radius")
    if radius < 0.0:
        raise SpecError(f"near: radius is {radius:g}; a distance is at least 0")
    return lambda costs: _distance(costs, aim, kind) - radius


def fair(level: float) -> Constraint:
    """Every cost is at least `level`, for costs that are goods: the least served gets that much.

    >>> import cvxpy as cp
    >>> float(fair(2.0)(cp.Constant([1.0, 5.0])).value)  # the first lacks 1
    1.0
    """
    level = read_number(level, "level")
    return lambda costs: level - _cvxpy().min(_some(costs))


# -- objectives -----------------------------------------------------------------------------------------------


def diminishing(kind: str = "log", scale: float = 1.0) -> Objective:
    """Diminishing returns of the reward x, whose unit is `scale` > 0.

    "log": log(1 + x / scale), for x > -scale; "sqrt": sqrt(x / scale), for x >= 0; "exp": 1 - exp(-x / scale), which
    never reaches 1; "cap": min(x / scale, 1), for which more than `scale` is worth nothing. Where "log" and "sqrt" are
    undefined, a policy is not allowed.

    >>> import cvxpy as cp
    >>> [round(float(diminishing(kind, scale=2.0)(cp.Constant(3.0)).value), 4) for kind in ("log", "sqrt", "cap")]
    [0.9163, 1.2247, 1.0]
    """
    if kind not in KINDS:
        raise SpecError(unknown("kind of diminishing returns", str(kind), KINDS))
    scale = read_number(scale, "scale")
    if scale <= 0.0:
        raise SpecError(f"diminishing: scale is {scale:g}; it must be positive")

    def value(reward: Any) -> Any:
        cp = _cvxpy()
        x = reward / scale
        if kind == "log":
            return cp.log1p(x)
        if kind == "sqrt":
            return cp.sqrt(x)
        return 1.0 - cp.exp(-x) if kind == "exp" else cp.minimum(x, 1.0)

    return value


def max_min() -> JointObjective:
    """The least of the costs, for costs that are goods: max-min fairness. The reward does not count.

    >>> import cvxpy as cp
    >>> float(max_min()(cp.Constant(9.0), cp.Constant([1.0, 5.0])).value)
    1.0
    """
    return lambda reward, costs: _cvxpy().min(_some(costs))


def proportional(offset: float = 0.0) -> JointObjective:
    """Proportional fairness: the sum of log(offset + cost), for costs that are goods. The reward does not count.

    At offset 0 nobody may be left with nothing; where that cannot be had, give a positive offset.

    >>> import cvxpy as cp
    >>> round(float(proportional()(cp.Constant(9.0), cp.Constant([1.0, 5.0])).value), 4)
    1.6094
    """
    offset = read_number(offset, "offset")
    if offset < 0.0:
        raise SpecError(f"proportional: offset is {offset:g}; it must be at least 0")

    def welfare(reward: Any, costs: Any) -> Any:
        cp = _cvxpy()
        return cp.sum(cp.log(offset + _some(costs)))

    return welfare


def closeness(target: ArrayLike, norm: float | str = 2) -> JointObjective:
    """Minus the distance of the costs from `target` [d]; `norm` is 1, 2 or "inf". The reward does not count.

    >>> import cvxpy as cp
    >>> float(closeness([1.0, 1.0], norm=1)(cp.Constant(9.0), cp.Constant([4.0, 5.0])).value)
    -7.0
    """
    aim, kind = _target(target), _norm(norm)
    return lambda reward, costs: -_distance(costs, aim, kind)


# -- reading --------------------------------------------------------------------------------------------------


def _cvxpy() -> Any:
    # Here: this module is read without CVXPY, and without numba.
    from conrl.planners.column_generation.expressions import import_cvxpy

    return import_cvxpy()


def _index(i: Any) -> int:
    if not is_int(i) or i < 0:
        hint = " (names are known to Linear and Knapsack only)" if isinstance(i, str) else ""
        raise SpecError(f"i is {shown(i)}; it must be the index of a cost, counted from 0{hint}")
    return int(i)


def _target(target: ArrayLike) -> Float:
    try:
        aim = np.array(target, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise SpecError(f"target is {shown(target)}; it must be a list of numbers, one per cost") from None
    if aim.ndim != 1 or not np.isfinite(aim).all():
        raise SpecError(f"target is {shown(target)}; it must be a list of finite numbers, one per cost")
    return aim


def _norm(norm: float | str) -> int | str:
    kind = "inf" if norm == np.inf else norm
    for known in NORMS:
        if kind == known and not isinstance(kind, bool):
            return known
    raise SpecError(f'norm is {shown(norm)}; it must be 1, 2 or "inf"')


def _cost(costs: Any, i: int) -> Any:
    if i >= costs.size:
        raise SpecError(f"cost {i} is asked for; the model has {costs.size}, counted from 0")
    return costs[i]


def _some(costs: Any) -> Any:
    if costs.size == 0:
        raise SpecError("a function of the costs is asked for; the model has none")
    return costs


def _distance(costs: Any, aim: Float, kind: int | str) -> Any:
    if aim.size != costs.size:
        raise SpecError(f"target has {aim.size} entries; the model has {costs.size} costs")
    return _cvxpy().norm(_some(costs) - aim, kind)

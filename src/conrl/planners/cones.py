"""A concave objective and convex constraints as cones, compiled once and solved many times.

CVXPY turns

    { (y, s, t) :  lo <= y <= hi,  s <= f(y),  g_j(y_1..d) <= t_j }                       (1)

into  A v + k = b,  k in K  with v = (y, s, t, auxiliaries), and checks on the way that f is concave and every g_j
convex. All problems of a plan are linear in v over (1) with a few more rows, so that CVXPY is never called again:
Clarabel is given the cone data directly. Letters: y in R^(1+d) a value vector (reward, costs), [lo, hi] a box that
holds all of them, J the number of constraints.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from conrl.errors import ConRLError, RunError, SpecError

Float = NDArray[np.float64]
Function = Callable[..., Any]

TOLERANCE = 1e-11  # Clarabel's; what it misses shows in the gap


class Answer(NamedTuple):
    """A solved cone program."""

    status: str  # "solved", "infeasible"
    v: Float
    more: Float  # the variables beyond v
    duals: Float  # of the extra rows, in their order


class Cones:
    """(1) for one objective, a list of constraints and one box."""

    def __init__(self, objective: Function, constraints: Sequence[Function], lo: Float, hi: Float) -> None:
        cp = import_cvxpy()
        self.size = lo.size
        self.count = len(constraints)
        y, s = cp.Variable(lo.size, name="y"), cp.Variable(name="s")
        t = cp.Variable(self.count, name="t") if self.count else None
        self._y = y
        self._f, self._g = expressions(objective, constraints, y)
        rows = [y >= lo, y <= hi, s <= self._f]
        rows += [g <= t[j] for j, g in enumerate(self._g)] if t is not None else []
        goal = cp.Maximize(s - cp.sum(t) if t is not None else s)
        data = cp.Problem(goal, rows).get_problem_data(cp.CLARABEL)[0]
        at = data["param_prob"].var_id_to_col
        self.A = sp.csc_array(data["A"])
        self.b = np.asarray(data["b"], dtype=np.float64)
        self.K = _clarabel_cones(data["dims"])
        self.y = at[y.id] + np.arange(lo.size)
        self.s = int(at[s.id])
        self.t = at[t.id] + np.arange(self.count) if t is not None else np.zeros(0, dtype=np.int64)

    @property
    def num_variables(self) -> int:
        return int(self.A.shape[1])

    def value(self, y: Float) -> tuple[float, Float]:
        """f(y) and every g_j(y), as CVXPY computes them; nan where undefined."""
        self._y.value = y
        with np.errstate(all="ignore"):
            return _number(self._f), np.array([_number(g) for g in self._g])

    def minimise(self, cost: Float, equal: tuple[Any, Float], at_most: tuple[Any, Float], extra: int) -> Answer:
        """Minimise cost.(v, more) over (1), with E (v, more) = e and L (v, more) <= l; `extra` more variables, >= 0."""
        import clarabel

        (E, e), (L, small) = equal, at_most
        n = self.num_variables
        positive = sp.hstack((sp.csc_array((extra, n)), -sp.eye_array(extra)))
        base = sp.hstack((self.A, sp.csc_array((self.A.shape[0], extra))))
        A = sp.csc_matrix(sp.vstack((E, L, positive, base)))
        b = np.concatenate((e, small, np.zeros(extra), self.b))
        K = [clarabel.ZeroConeT(e.size), clarabel.NonnegativeConeT(small.size + extra), *self.K]
        answer = _clarabel(A, b, np.asarray(cost, dtype=np.float64), K)
        kind = str(answer.status)
        if kind in ("Solved", "AlmostSolved"):
            x, z = np.array(answer.x), np.array(answer.z)
            return Answer("solved", x[:n], x[n:], z[: e.size + small.size])
        if kind in ("PrimalInfeasible", "AlmostPrimalInfeasible"):
            return Answer("infeasible", np.zeros(0), np.zeros(0), np.zeros(0))
        raise RunError(f"Clarabel ended as {kind}; bring rewards and costs nearer to 1 in size")


def _clarabel(A: Any, b: Float, q: Float, K: list[Any]) -> Any:
    import clarabel

    P = sp.csc_matrix((q.size, q.size))
    answer = None
    for tolerance in (TOLERANCE, 1e-9, 1e-8):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        answer = clarabel.DefaultSolver(P, q, A, b, K, settings).solve()
        if str(answer.status) in ("Solved", "PrimalInfeasible"):
            break
    return answer


def _clarabel_cones(dims: Any) -> list[Any]:
    from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones

    return list(dims_to_solver_cones(dims))


def expressions(objective: Function, constraints: Sequence[Function], y: Any) -> tuple[Any, list[Any]]:
    """f and every g_j of a CVXPY variable y, with their curvature checked."""
    cp = import_cvxpy()
    f = _expression(cp, objective, _arguments(objective, y), "objective")
    if not f.is_concave():
        raise SpecError(f"the objective is {f.curvature.lower()}, not concave: {f}")
    gs = [_expression(cp, g, (y[1:],), f"constraint {j + 1}") for j, g in enumerate(constraints)]
    for j, g in enumerate(gs):
        if not g.is_convex():
            raise SpecError(f"constraint {j + 1} is {g.curvature.lower()}, not convex: {g}")
    return f, gs


def import_cvxpy() -> Any:
    """CVXPY, or what to install."""
    try:
        import clarabel  # noqa: F401
        import cvxpy
    except ImportError as error:
        raise SpecError(f"concave-convex problems need the extra: pip install 'conrl[convex]' ({error})") from None
    return cvxpy


def _arguments(objective: Function, y: Any) -> tuple[Any, ...]:
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


def _expression(cp: Any, function: Function, arguments: tuple[Any, ...], what: str) -> Any:
    """What the user's function makes of CVXPY expressions, as a scalar expression."""
    if not callable(function):
        raise SpecError(f"{what} is {function!r}; it must be a function from a CVXPY expression to a CVXPY expression")
    try:
        result = function(*arguments)
        expression = result if isinstance(result, cp.Expression) else cp.Constant(result)
    except ConRLError:
        raise
    except Exception as error:
        raise SpecError(f"{what} failed on a CVXPY expression: {type(error).__name__}: {error}") from error
    if expression.size != 1:
        raise SpecError(f"{what} has shape {expression.shape}; it must be a single number")
    return expression if expression.shape == () else cp.reshape(expression, (), order="C")


def _number(expression: Any) -> float:
    value = expression.value
    return float("nan") if value is None else float(value)

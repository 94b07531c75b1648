"""A concave objective and convex constraints as cones, compiled once and solved many times.

CVXPY turns

    { (y, s, t) :  lo <= y <= hi,  s <= f(y),  g_j(y_1..d) <= t_j }                       (1)

into  A v + k = b,  k in K  with v = (y, s, t, auxiliaries), y and t each in a unit of its own size, and checks on the
way that f is concave and every g_j convex. All problems of a plan are linear in v over (1) with a few more rows:
Clarabel is given the cone data directly, and CVXPY is not called again. Letters: y in R^(1+d) a value vector (reward,
costs), [lo, hi] a box that holds all of them, J the number of constraints.
"""

from __future__ import annotations

import inspect
import itertools
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Float
from conrl.arguments import is_sparse
from conrl.errors import ConRLError, SpecError

Function = Callable[..., Any]

# Clarabel's tolerance, and whether it scales the rows itself; the next if one fails. The gap shows what it missed.
ATTEMPTS = ((1e-10, True), (1e-8, True), (1e-8, False), (1e-7, False))
SOLVED = ("Solved", "AlmostSolved")
REMEDY = "bring rewards and costs nearer to 1 in size"
LARGE, LOST = 30.0, 1e300  # from this size on a function is large; where it is undefined
EXCESS = 1e-8  # of what it compares, by which a constraint may be exceeded
EXCESS_OF_UNIT = 1e-11  # and of its unit on top: constraints such as c^2 <= 0 compare nothing


class Answer(NamedTuple):
    """A solved cone program."""

    solved: bool
    v: Float
    more: Float  # the further variables
    w: Float  # [1+d]: the multiplier of  y - sum x z = 0
    mu: Float  # [J]: of  t <= allowed
    status: str  # in Clarabel's words


# CVXPY numbers its variables with one counter, and computes an expression from what its variables hold at that moment:
# one thread at a time. The cone data that is solved afterwards is never changed, and needs no lock.
CVXPY = threading.RLock()


class Cones:
    """(1) for one objective, a list of constraints and one box. Threads may share one."""

    def __init__(self, objective: Function, constraints: Sequence[Function], lo: Float, hi: Float) -> None:
        """Compile (1) by CVXPY: A, b and the cones K as Clarabel reads them, and which columns y, s and t are.

        Below A come the rows that a mixture adds:  y - sum x z = 0,  sum x = 1,  t <= allowed.
        """
        cp = import_cvxpy()
        import scipy.sparse as sp
        from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones

        self.size = lo.size
        self.count = len(constraints)
        self.lo, self.hi = lo, hi
        self.unit = np.where(hi > lo, hi - lo, 1.0)
        with CVXPY:
            y, s = cp.Variable(lo.size, name="y"), cp.Variable(name="s")
            t = cp.Variable(self.count, name="t") if self.count else None
            self._y = y
            self._f, self._g = expressions(objective, constraints, cp.multiply(self.unit, y), y)
            self.doubtful, self.t_unit = self._sizes(lo, hi)
            rows = [y >= lo / self.unit, y <= hi / self.unit, s <= self._f]
            rows += [g / self.t_unit[j] <= t[j] for j, g in enumerate(self._g)] if t is not None else []
            goal = cp.Maximize(s - cp.sum(t) if t is not None else s)
            data = cp.Problem(goal, rows).get_problem_data(cp.CLARABEL)[0]
        at = data["param_prob"].var_id_to_col
        self.A = sp.csc_matrix(data["A"])
        self.b = np.asarray(data["b"], dtype=np.float64)
        self.K = list(dims_to_solver_cones(data["dims"]))
        self.y = at[y.id] + np.arange(lo.size)
        self.s = int(at[s.id])
        self.t = at[t.id] + np.arange(self.count) if t is not None else np.zeros(0, dtype=np.int64)
        self.rows = lo.size + 1 + self.count  # of a mixture
        below = sp.lil_matrix((self.rows, self.A.shape[1]))
        below[np.arange(lo.size), self.y] = 1.0
        below[lo.size + 1 + np.arange(self.count), self.t] = 1.0
        self._with_rows = sp.csc_matrix(sp.vstack((self.A, below)))

    @property
    def num_variables(self) -> int:
        return int(self.A.shape[1])

    def value(self, y: Float) -> tuple[float, Float]:
        """f(y) and every g_j(y), as CVXPY computes them; nan where undefined."""
        f, *gs = _values([self._f, *self._g], self._y, y / self.unit)
        return f, np.array(gs)

    def _sizes(self, lo: Float, hi: Float) -> tuple[bool, Float]:
        """Whether functions are large, and a unit for each g_j: its size where that is small throughout the box. Never
        above 1: Clarabel would be too coarse for a function that grows steeply elsewhere."""
        values = [self.value(y) for y in (lo, hi, 0.5 * (lo + hi))]
        seen = np.abs([[f, *gs] for f, gs in values])
        largest = np.where(np.isfinite(seen), seen, 0.0).max(axis=0)
        small = (largest > 0.0) & (largest < 1.0)
        return bool(largest.max() > LARGE), np.where(small, largest, 1.0)[1:]

    def allowance(self, y: Float, rounding: Float, kept: float = EXCESS, of_box: float = 0.0) -> Float:
        """[J]: by how much g_j(y) may exceed 0 and count as kept, for a point that is known to `rounding` [1+d].

        In proportion to what the constraint compares: the sum over i of |dg_j / dy_i| |y_i| is the limit of a linear
        constraint, and twice that of a square. To first order, rounding of y moves g_j by |dg_j / dy| . rounding.
        `of_box`: and in proportion to what y moves in the box.
        """
        with CVXPY, np.errstate(all="ignore"):
            self._y.value = y / self.unit
            slopes = np.abs([_gradient(g, self._y) for g in self._g]).reshape(self.count, self.size)
        size = np.abs(y) / self.unit
        moved = 4.0 * (slopes @ (rounding / self.unit)) + of_box * slopes.sum(axis=1)
        allowed: Float = kept * (slopes @ size) + EXCESS_OF_UNIT * self.t_unit + moved
        return allowed

    def over_box(self, w: Float, mu: Float, objective: float = 1.0) -> float:
        """The maximum of f(y) - mu.g(y) - w.y over the box (with `objective` 0, without f), rounded up; inf if Clarabel
        is not sure.

        The largest of Clarabel's two sides and of the function's value at its answer, plus its tolerance. Where
        functions are large, Clarabel has been seen to be wrong and sure of it: there we climb on from its answer.
        """
        cost = np.zeros(self.num_variables)
        cost[self.s] = -objective
        cost[self.t] = mu * self.t_unit
        cost[self.y] = w * self.unit
        scale = max(1.0, float(np.abs(cost).max()))
        if not np.isfinite(scale):
            return np.inf
        answer = _clarabel(self.A, self.b, cost / scale, self.K)
        if str(answer.status) != "Solved":
            return np.inf
        v = np.array(answer.x)
        y = v[self.y] * self.unit
        here = self._climb(w, mu, objective, y) if self.doubtful else self._at(w, mu, objective, y)
        largest = scale * max(-float(answer.obj_val), -float(answer.obj_val_dual))
        size = objective * abs(float(v[self.s])) + float(np.abs(cost[self.y]) @ np.abs(v[self.y]))
        return max(largest, here if np.isfinite(here) else largest) + ATTEMPTS[0][0] * max(1.0, size)

    def _at(self, w: Float, mu: Float, objective: float, y: Float) -> float:
        f, g = self.value(y)
        return objective * f - float(mu @ g) - float(w @ y)

    def _climb(self, w: Float, mu: Float, objective: float, y: Float) -> float:
        """The highest that L-BFGS-B finds from y on; the function is concave, so that there is one summit."""
        from scipy.optimize import minimize

        def depth(x: Float) -> float:
            value = self._at(w, mu, objective, x * self.unit)
            return -value if np.isfinite(value) else LOST

        ends = list(zip(self.lo / self.unit, self.hi / self.unit, strict=True))
        return -float(minimize(depth, y / self.unit, method="L-BFGS-B", bounds=ends).fun)

    def over_mixtures(self, cost: Float, points: Float, more: Float, more_cost: Float, allowed: float) -> Answer:
        """Minimise over (1) and x, u >= 0 with  y = sum_i x_i z_i + more u,  sum x = 1,  t <= allowed.

        points [n, 1+d] are the z_i, `more` [1+d, m] what else may move y, in units of y; `cost` is of v, `more_cost` of
        u; `allowed` is in units of t.
        """
        import clarabel
        import scipy.sparse as sp

        n, base = points.shape[0], self.A.shape[0]
        extra = n + more.shape[1]
        block = np.zeros((extra, self.rows + 1))  # one row a column of the matrix: rows below the cones, then x, u >= 0
        block[:n, : self.size] = -points / self.unit
        block[:n, self.size] = 1.0
        block[n:, : self.size] = -more.T
        block[:, -1] = -1.0
        indices = np.empty(block.shape, dtype=np.int32)  # the row of each entry
        indices[:, :-1] = base + np.arange(self.rows)
        indices[:, -1] = base + self.rows + np.arange(extra)
        inner = self._with_rows
        matrix = sp.csc_matrix(
            (
                np.concatenate((inner.data, block.reshape(-1))),
                np.concatenate((inner.indices, indices.reshape(-1))),
                np.concatenate(
                    (inner.indptr, inner.indptr[-1] + block.shape[1] * np.arange(1, extra + 1, dtype=np.int32))
                ),
            ),
            shape=(base + self.rows + extra, self.num_variables + extra),
        )
        right = np.concatenate((self.b, np.zeros(self.size), [1.0], np.full(self.count, allowed), np.zeros(extra)))
        K = [*self.K, clarabel.ZeroConeT(self.size + 1), clarabel.NonnegativeConeT(self.count + extra)]
        answer = _clarabel(matrix, right, np.concatenate((cost, np.zeros(n), more_cost)), K)
        kind = str(answer.status)
        x, z = np.array(answer.x), np.array(answer.z)[base : base + self.rows]
        w, mu = z[: self.size] / self.unit, np.maximum(z[self.size + 1 :], 0.0) / self.t_unit
        return Answer(kind in SOLVED, x[: cost.size], x[cost.size :], w, mu, kind)


def _clarabel(A: Any, b: Float, q: Float, K: list[Any]) -> Any:
    import clarabel

    answer = None
    for tolerance, equilibrate in ATTEMPTS:
        answer = clarabel.DefaultSolver(_no_quadratic(q.size), q, A, b, K, _settings(tolerance, equilibrate)).solve()
        if str(answer.status) in ("Solved", "PrimalInfeasible"):
            break
    return answer


@lru_cache
def _no_quadratic(size: int) -> Any:
    import scipy.sparse as sp

    return sp.csc_matrix((size, size))


@lru_cache
def _settings(tolerance: float, equilibrate: bool) -> Any:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.equilibrate_enable = equilibrate
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    return settings


def expressions(objective: Function, constraints: Sequence[Function], y: Any, variable: Any) -> tuple[Any, list[Any]]:
    """f and every g_j of a CVXPY expression y in a variable, with their curvature checked."""
    cp = import_cvxpy()
    f = _expression(cp, objective, _arguments(objective, y), "objective", variable)
    if not f.is_concave():
        raise SpecError(f"the objective is {f.curvature.lower()}, not concave: {f}")
    gs = [_expression(cp, g, (y[1:],), f"constraint {j + 1}", variable) for j, g in enumerate(constraints)]
    for j, g in enumerate(gs):
        if not g.is_convex():
            raise SpecError(f"constraint {j + 1} is {g.curvature.lower()}, not convex: {g}")
    return f, gs


def evaluator(
    objective: Function, constraints: Sequence[Function], size: int
) -> tuple[Callable[[Float], float], Callable[[Float], list[float]]]:
    """f and all g_j as functions of a value vector [size]; nan where undefined."""
    with CVXPY:
        y = import_cvxpy().Variable(size)
        f, gs = expressions(objective, constraints, y, y)
    return lambda point: _values([f], y, point)[0], lambda point: _values(gs, y, point)


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


def _expression(cp: Any, function: Function, arguments: tuple[Any, ...], what: str, variable: Any) -> Any:
    """What the user's function makes of CVXPY expressions, as a scalar expression."""
    try:
        result = function(*arguments)
        expression = result if isinstance(result, cp.Expression) else cp.Constant(result)
    except ConRLError:
        raise
    except Exception as error:
        raise SpecError(f"{what} failed on a CVXPY expression: {type(error).__name__}: {error}") from error
    if result is None:
        raise SpecError(f"{what} returns None; it must return a CVXPY expression")
    numbers = [np.asarray(c.value, dtype=np.float64) for c in expression.constants() if c.value is not None]
    if not all(np.isfinite(n).all() for n in numbers):
        raise SpecError(f"{what} holds a number that is not finite: {expression}")
    if any(v.id != variable.id for v in expression.variables()):
        raise SpecError(f"{what} has variables of its own; it must be a function of what it is given")
    if expression.size != 1:
        raise SpecError(f"{what} has shape {expression.shape}; it must be a single number")
    return expression if expression.shape == () else cp.reshape(expression, (), order="C")


def _gradient(expression: Any, variable: Any) -> Float:
    """[size]: a subgradient where the variable is, by differences where CVXPY has none; 0 where nothing is defined."""
    try:
        gradient = expression.grad.get(variable)
    except NotImplementedError:
        return _differences(expression, variable)
    if gradient is None:
        return np.zeros(variable.size)
    table = np.asarray(gradient.todense() if is_sparse(gradient) else gradient, dtype=np.float64).reshape(-1)
    return np.where(np.isfinite(table), table, 0.0)


def _differences(expression: Any, variable: Any) -> Float:
    """The steeper of the two sides: at a kink both count."""
    at, slopes = np.array(variable.value), np.zeros(variable.size)
    for i, sign in itertools.product(range(variable.size), (1.0, -1.0)):
        step = 1e-6 * max(abs(at[i]), 1e-6)
        aside, here = (_values([expression], variable, x)[0] for x in (at + sign * step * np.eye(at.size)[i], at))
        slopes[i] = max(slopes[i], np.nan_to_num(abs(aside - here) / step))
    return slopes


def _values(expressions: Sequence[Any], variable: Any, at: Float) -> list[float]:
    """Of expressions in a variable, which is left there; nan where undefined."""
    with CVXPY, np.errstate(all="ignore"):
        variable.value = at
        return [float("nan") if (value := e.value) is None else float(value) for e in expressions]

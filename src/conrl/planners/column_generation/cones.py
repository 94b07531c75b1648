"""A concave objective and convex constraints as cones, compiled once and solved many times.

CVXPY turns

    { (y, s, t) :  lo <= y <= hi,  s <= f(y),  g_j(y_1..d) <= t_j }                       (1)

into  A v + k = b,  k in K  with v = (y, s, t, auxiliaries), y and t each in a unit of its own size, and checks on the
way that f is concave and every g_j convex. All problems of a plan are linear in v over (1) with a few more rows:
Clarabel is given the cone data directly, and CVXPY is not called again. Letters: y in R^(1+d) a value vector (reward,
costs), [lo, hi] a box that holds all of them, J the number of constraints.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Float
from conrl.planners.column_generation.expressions import Expressions, import_cvxpy
from conrl.planners.column_generation.functions import CVXPY, Function, room

# Clarabel's tolerance, and whether it scales the rows itself; the next if one fails. The gap shows what it missed.
ATTEMPTS = ((1e-10, True), (1e-8, True), (1e-8, False), (1e-7, False))
FINER = ((1e-12, True), *ATTEMPTS)  # for bounds, as what is missing of a proof is added to them
SOLVED = ("Solved", "AlmostSolved")
REMEDY = "bring rewards and costs nearer to 1 in size"
FURTHER = 5  # attempts to be inside the domain, each with four times the margin at least
LARGE, LOST = 30.0, 1e300  # from this size on a function is large; where it is undefined
BESIDE = 0.01  # what a variable of a solved program is off by, very generously
ROUNDED = 2.0**-46  # what the sums of a bound are off by, generously
STEP = 1e-8  # of a difference, in units of y
EXCESS = 1e-8  # of what it compares, by which a constraint may be exceeded
EXCESS_OF_UNIT = 1e-11  # and of its unit on top: constraints such as c^2 <= 0 compare nothing


class Matrix(NamedTuple):
    """A sparse matrix by columns, as Clarabel reads it: in lists, which it takes faster than SciPy's arrays."""

    data: list[float]
    indices: list[int]
    indptr: list[int]
    shape: tuple[int, int]
    has_canonical_format: bool = True  # rows rise within a column, none twice

    @classmethod
    def of(cls, matrix: Any) -> Matrix:
        """Of a matrix of SciPy's."""
        import scipy.sparse as sp

        table = sp.csc_matrix(matrix)
        table.sum_duplicates()
        rows, columns = table.shape
        return cls(table.data.tolist(), table.indices.tolist(), table.indptr.tolist(), (rows, columns))


class Answer(NamedTuple):
    """A solved cone program."""

    solved: bool
    v: Float
    more: Float  # the further variables
    w: Float  # [1+d]: the multiplier of  y - sum x z = 0
    mu: Float  # [J]: of  t <= allowed
    status: str  # in Clarabel's words


class Cones:
    """(1) for one objective, a list of constraints and one box. Threads may share one."""

    def __init__(self, asked: Expressions, narrowed: bool = False) -> None:
        """Compile (1) by CVXPY: A, b and the cones K as Clarabel reads them, and which columns y, s and t are.

        Below A come the rows that a mixture adds:  y - sum x z = 0,  sum x = 1,  t <= allowed.
        """
        cp = import_cvxpy()
        import scipy.sparse as sp
        from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones

        self._asked = asked
        self.lo, self.hi, self.unit, y = asked.lo, asked.hi, asked.unit, asked.y
        lo, hi = self.lo, self.hi
        with CVXPY:
            f, gs = asked.checked()
            gs += [-r for r in map(room, (f, *gs)) if r is not None] if narrowed else []
            self.size, self.count = lo.size, len(gs)
            s, t = cp.Variable(name="s"), cp.Variable(self.count, name="t") if gs else None
            self._f, self._g = Function(f, y), [Function(g, y) for g in gs]
            self.doubtful, self.t_unit = self._sizes(lo, hi)
            rows = [y >= lo / self.unit, y <= hi / self.unit, s <= f]
            rows += [g / self.t_unit[j] <= t[j] for j, g in enumerate(gs)] if t is not None else []
            goal = cp.Maximize(s - cp.sum(t) if t is not None else s)
            data = cp.Problem(goal, rows).get_problem_data(cp.CLARABEL)[0]
        at = data["param_prob"].var_id_to_col
        A = sp.csc_matrix(data["A"])
        self.A = Matrix.of(A)
        self.b = np.asarray(data["b"], dtype=np.float64).tolist()
        self.K = list(dims_to_solver_cones(data["dims"]))
        self.y = at[y.id] + np.arange(lo.size)
        self.s = int(at[s.id])
        self.t = at[t.id] + np.arange(self.count) if t is not None else np.zeros(0, dtype=np.int64)
        self.rows = lo.size + 1 + self.count  # of a mixture
        below = sp.lil_matrix((self.rows, A.shape[1]))
        below[np.arange(lo.size), self.y] = 1.0
        below[lo.size + 1 + np.arange(self.count), self.t] = 1.0
        self._transposed = A.T.tocsr()
        self._with_rows = Matrix.of(sp.vstack((A, below)))
        self._below = range(A.shape[0], A.shape[0] + self.rows)
        origin = self.value(np.zeros(lo.size))[1]
        self._at_origin = np.where(np.isfinite(origin), origin, np.nan)

    @property
    def num_variables(self) -> int:
        return self.A.shape[1]

    def value(self, y: Float) -> tuple[float, Float]:
        """f(y) and every g_j(y), as CVXPY computes them; nan where undefined."""
        at = y / self.unit
        return self._f(at), np.array([g(at) for g in self._g])

    def inside(self, y: Float) -> bool:
        """Whether y is where f and every g_j are defined."""
        at = y / self.unit
        return all(function.inside(at) >= 0.0 for function in (self._f, *self._g))

    @cached_property
    def narrowed(self) -> Cones:
        """The same with the conditions of the domain as further constraints, so that a distance from its edge can be
        asked for."""
        return Cones(self._asked, narrowed=True)

    def further(self, y: Float, so_far: float) -> float:
        """How far from the edge of the domain to look where what was found `so_far` from it, y, is outside."""
        return max(4.0 * so_far, 2.0 * float(self.narrowed.value(y)[1][self.count :].max()))

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
        `of_box`: and in proportion to what moving y in the box moves it by.
        """
        at = y / self.unit
        slopes = np.abs([g.slopes(at) for g in self._g]).reshape(self.count, self.size)
        size = np.abs(y) / self.unit
        moved = 4.0 * (slopes @ (rounding / self.unit)) + of_box * (slopes @ ((self.hi - self.lo) / self.unit))
        allowed: Float = kept * (slopes @ size) + EXCESS_OF_UNIT * self.t_unit + moved
        return allowed

    def surely_allowed(self, excess: Float) -> bool:
        """Whether constraints g [J] are no larger than `allowance`, as far as can be told without slopes.

        g_j is convex, so that g_j(y) - g_j(0) is at most the sum over i of |dg_j / dy_i| |y_i|.
        """
        least = np.fmax(0.99 * EXCESS * (excess - self._at_origin), 0.0) + 0.99 * EXCESS_OF_UNIT * self.t_unit
        return bool((excess <= least).all())

    def over_box(self, w: Float, mu: Float, objective: float = 1.0, near: Float | None = None) -> float:
        """The maximum of f(y) - mu.g(y) - w.y over the box (with `objective` 0, without f), rounded up; inf if Clarabel
        is not sure.

        The larger of what Clarabel's dual proves and of the function's value at its answer. Where functions are large,
        Clarabel has been seen to be wrong and sure of it: there we climb on from its answer, or from a point `near`
        [1+d] the summit if that is higher.
        """
        cost = np.zeros(self.num_variables)
        cost[self.s] = -objective
        cost[self.t] = mu * self.t_unit
        cost[self.y] = w * self.unit
        scale = max(1.0, float(np.abs(cost).max()))
        if not np.isfinite(scale):
            return np.inf
        answer = _clarabel(self.A, self.b, (cost / scale).tolist(), self.K, FINER)
        if str(answer.status) != "Solved":
            return np.inf
        y = np.array(answer.x)[self.y] * self.unit
        if self.doubtful:
            here = self._climb(w, mu, objective, [y] if near is None else [y, near])
        else:
            here = self._at(w, mu, objective, y)
        proven = scale * self._proven(cost / scale, np.array(answer.x), np.array(answer.z))
        return max(proven, here) if np.isfinite(here) else proven

    def _proven(self, cost: Float, v: Float, z: Float) -> float:
        """An upper bound on  max of -cost.v  over (1), which is attained near v, for multipliers z in the dual of K.

        With  r = A^T z + cost,  -cost.v <= b.z - r.v  holds at any v that is allowed. Clarabel keeps z in its cone, and
        r small. Where y is we know: in the box. Of each other variable we take it that it is at most twice its size at
        the answer (there may be several), plus what Clarabel's answer is beside one by.
        """
        missing = cost + self._transposed @ z
        most = 2.0 * np.abs(v) + BESIDE
        least = -most
        least[self.y], most[self.y] = self.lo / self.unit, self.hi / self.unit
        added = float(np.maximum(-missing * least, -missing * most).sum())
        size = np.abs(self.b)
        return float(z @ self.b) + added + ROUNDED * float(np.abs(z) @ size + np.abs(cost) @ np.abs(v))

    def _at(self, w: Float, mu: Float, objective: float, y: Float) -> float:
        f, g = self.value(y)
        return objective * f - float(mu @ g) - float(w @ y)

    def _climb(self, w: Float, mu: Float, objective: float, starts: list[Float]) -> float:
        """The highest that L-BFGS-B finds from the highest start; the function is concave: there is one summit.

        Slopes are differences, taken here: SciPy takes as long to prepare one as the function takes to compute.
        """
        from scipy.optimize import fmin_l_bfgs_b

        price, ends = w * self.unit, list(zip(self.lo / self.unit, self.hi / self.unit, strict=True))
        signed = [(objective, self._f), *zip((-mu).tolist(), self._g, strict=True)]

        def depth(x: Float) -> float:
            value = sum([sign * function(x) for sign, function in signed]) - float(price @ x)
            return -value if math.isfinite(value) else LOST

        def depth_and_slopes(x: Float) -> tuple[float, Float]:
            here, slopes = depth(x), np.empty(x.size)
            for i, (_, most) in enumerate(ends):
                aside = x.copy()
                aside[i] += STEP if x[i] + STEP <= most else -STEP
                slopes[i] = (depth(aside) - here) / (aside[i] - x[i])
            return here, slopes

        start = min((y / self.unit for y in starts), key=depth)
        return -float(fmin_l_bfgs_b(depth_and_slopes, start, bounds=ends)[1])

    def over_mixtures(self, cost: Float, points: Float, more: Float, more_cost: Float, allowed: Float) -> Answer:
        """Minimise over (1) and x, u >= 0 with  y = sum_i x_i z_i + more u,  sum x = 1,  t <= allowed.

        points [n, 1+d] are the z_i, `more` [1+d, n'] what else may move y, in units of y; `cost` is of v, `more_cost`
        of u; `allowed` [J] is in units of t.
        """
        import clarabel

        n, base = points.shape[0], self.A.shape[0]
        extra, end = n + more.shape[1], base + self.rows
        data, indices, indptr = [*self._with_rows.data], [*self._with_rows.indices], [*self._with_rows.indptr]
        nothing = [0.0] * self.count
        for column in (-points / self.unit).tolist():  # the rows below the cones, then those of x, u >= 0
            data += (*column, 1.0, *nothing, -1.0)
        for column in (-more.T).tolist():
            data += (*column, 0.0, *nothing, -1.0)
        for i in range(extra):
            indices += (*self._below, end + i)
            indptr.append(len(self._with_rows.data) + (self.rows + 1) * (i + 1))
        matrix = Matrix(data, indices, indptr, (end + extra, self.num_variables + extra))
        right = [*self.b, *[0.0] * self.size, 1.0, *allowed.tolist(), *[0.0] * extra]
        K = [*self.K, clarabel.ZeroConeT(self.size + 1), clarabel.NonnegativeConeT(self.count + extra)]
        answer = _clarabel(matrix, right, [*cost.tolist(), *[0.0] * n, *more_cost.tolist()], K)
        kind = str(answer.status)
        x, z = np.array(answer.x), np.array(answer.z[base:end])
        w, mu = z[: self.size] / self.unit, np.maximum(z[self.size + 1 :], 0.0) / self.t_unit
        return Answer(kind in SOLVED, x[: cost.size], x[cost.size :], w, mu, kind)


def _clarabel(
    A: Matrix, b: list[float], q: list[float], K: list[Any], attempts: tuple[tuple[float, bool], ...] = ATTEMPTS
) -> Any:
    import clarabel

    answer = None
    for tolerance, equilibrate in attempts:
        answer = clarabel.DefaultSolver(_no_quadratic(len(q)), q, A, b, K, _settings(tolerance, equilibrate)).solve()
        if str(answer.status) in ("Solved", "PrimalInfeasible"):
            break
    return answer


@lru_cache
def _no_quadratic(size: int) -> Matrix:
    return Matrix([], [], [0] * (size + 1), (size, size))


@lru_cache
def _settings(tolerance: float, equilibrate: bool) -> Any:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.equilibrate_enable = equilibrate
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    return settings

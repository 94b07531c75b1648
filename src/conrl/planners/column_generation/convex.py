"""Maximise f(z) over the value vectors z of a model with every g_j(z) <= 0, by column generation.

    maximise f(y)   subject to   y in Z,  g_j(y) <= 0                                     (1)

f concave, g_j convex, Z known only through its support function. The master problem mixes the points z_i of Z found so
far (`conrl.planners.column_generation.cones` solves it):

    maximise s   subject to   s <= f(y),  g_j(y) <= t_j <= 0,  y = sum_i x_i z_i,  sum_i x_i = 1,  x >= 0

The multiplier w of y = sum x z is the next direction; with the multipliers mu of t <= 0,

    bound(w, mu) = support(w) + max over the box of [ f(y) - mu.g(y) - w.y ]              (2)

is an upper bound on (1) for *any* w and mu >= 0 (weak duality), so that it does not rest on the master being solved
exactly. It is the concave-convex form of Eq. 2 of `conrl.planners.column_generation.linear`, and with a bonus it is
ConvexConPlanner of Section 4 of Brantley et al. (2020): the support function then takes the best case within the
intervals.

While no mixture of the points is allowed (some g_j > 0, or f undefined), the distance

    minimise sum_i |y_i - (sum x z)_i| / width_i   over allowed y and mixtures x

is driven to zero instead; its multiplier separates Z from what is allowed if it cannot be.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conrl._types import Arrays, Float
from conrl.errors import RunError
from conrl.oracles.protocols import SupportOracle
from conrl.planners.column_generation.cones import FURTHER, REMEDY, Answer, Cones
from conrl.planners.column_generation.mixing import reduce_mixture, same_mean
from conrl.planners.column_generation.search import Met, Optimum, Search
from conrl.planners.result import certify

ALLOWED = (1e-10, 1e-9, 1e-8)  # by how much a constraint may be exceeded, in its size; more only if less finds nothing
APART = 1e-9  # a distance, in widths of the box, that counts as none
EPSILON = 2.0**-50  # what a few products may be off by
ALMOST = 1e-4  # a difference of prices
ENCLOSING = 1e-5  # weight of a point that counts as mixed, while closing in
CLOSER, CLOSE = 3, 1e-6  # directions without a master, and what ends them: a gain this small in widths of the box
NO_WEIGHT = 1e-9  # weight of a point that is left out of the mixture


class Separated(Exception):
    """No value vector is allowed: for some w, w.y > w.z by at least `distance` for every allowed y and every z in Z."""

    def __init__(self, distance: float, mixture: Optimum) -> None:
        super().__init__(distance)
        self.distance = distance
        self.mixture = mixture  # that comes nearest
        self.nearest: Float = mixture.weights @ mixture.points  # its value vector


def maximise_convex(
    oracle: SupportOracle, cones: Cones, *, tol: float, max_sweeps: int, start: Arrays | None = None
) -> Optimum:
    """Solve (1) to bound - objective <= tol * max(1, |objective|), or raise `Separated`.

    `start`: `directions` [n, 1+d] that did well on a similar set.
    """
    return _ConvexSearch(oracle, cones, tol, max_sweeps).run(None if start is None else start.get("directions"))


def lagrangian_bound(oracle: SupportOracle, cones: Cones, w: Float, mu: Float) -> float:
    """Eq. (2), rounded outward."""
    return float(oracle.support(w).value) + rounding_of(oracle, w) + cones.over_box(w, mu)


def rounding_of(oracle: SupportOracle, w: Float) -> float:
    """What support(w) may be too low by."""
    return float(np.abs(w) @ oracle.rounding().support)


class _ConvexSearch(Search):
    """A search for the maximum of (1), to a tolerance."""

    def __init__(self, oracle: SupportOracle, cones: Cones, tol: float, max_sweeps: int) -> None:
        super().__init__(oracle, Met(), max_sweeps)
        self.cones = cones
        self.tol = tol
        self.allowed = ALLOWED[0]  # what the master may exceed a constraint by; more where it finds nothing
        self._program = cones, np.zeros(0)  # of the master, and what it may exceed its further constraints by
        self._edge: tuple[Float, float] | None = None  # (1, -price) that brought nothing new, and its support
        self._last: tuple[bytes, float] = b"", 0.0  # the value vector looked at last, and what `_over` said of it

    def tolerance(self, objective: float) -> float:
        """What is allowed between the bound and the objective."""
        return self.tol * max(1.0, abs(objective))

    def run(self, start: Float | None) -> Optimum:
        """Solve the master, ask the oracle for its multiplier w, and so on until (2) meets the master's objective.

        The points that carry weight are those with the largest w.z_i, so that a new point can lift the objective by at
        most  support(w) - max_i w.z_i.  (2) takes a cone program of its own, and waits until this is small. Asked for
        first: the most reward, the least of each cost, and the directions of `start` [n, 1+d].
        """
        axes = np.eye(self.cones.size)
        first = np.vstack((axes[:1], -axes[1:]))
        self.ask(first if start is None else np.vstack((first, start)))
        bound, best = np.inf, np.zeros(self.cones.count)
        while True:
            answer = self._master()
            if not answer.solved:
                if self.sweeps == 1:  # see more of Z first: f may be undefined at all that was found
                    self.ask(np.vstack((-axes[:1], axes[1:])))
                else:
                    self._approach()
                continue
            w, mu = answer.w, answer.mu
            objective = float(answer.v[self.cones.s])
            tolerance = self.tolerance(objective)
            mixed = answer.v[self.cones.y] * self.cones.unit
            here = self._along_edge(w, mu, mixed)
            if here < bound:
                bound, best = here, mu
            if bound - objective <= tolerance:
                return self._finish(answer.more, len(self.columns.points), bound, best)
            inside = float((np.array(self.columns.points) @ w).max())
            before = len(self.columns.points)
            value, point = self.ask_one(w)
            last = len(self.columns.points) == before or self.exhausted
            if last or value - inside <= 10.0 * tolerance:  # else (2) cannot be small enough yet
                here = self._bound(w, value, mu, mixed)
                if here < bound:
                    bound, best = here, mu
                if last or bound - objective <= tolerance:
                    return self._finish(answer.more, before, bound, best)
            if self.cones.size == 2:
                self._close_in(answer.more[:before], float(mixed[1]), point)

    def _bound(self, w: Float, support: float, mu: Float, mixed: Float) -> float:
        """Eq. (2), rounded outward; its maximum over the box is near the mixture's value vector."""
        return support + rounding_of(self.oracle, w) + self.cones.over_box(w, mu, near=mixed)

    def _along_edge(self, w: Float, mu: Float, mixed: Float) -> float:
        """Eq. (2) at the edge asked for last, in the length of w, if it is almost w: no sweep is needed. Else inf."""
        edge, self._edge = self._edge, None
        if edge is None or w[0] <= 0.0 or np.abs(w - w[0] * edge[0]).max() > ALMOST * w[0]:
            return np.inf
        w = w[0] * edge[0]
        rounded = EPSILON * self.oracle.horizon * float(np.abs(w) @ self.oracle.scale)  # of the two products
        return self._bound(w, w[0] * edge[1] + rounded, mu, mixed)

    def _close_in(self, weights: Float, cost: float, point: Float) -> None:
        """With one cost, new points around that of the master's mixture, which stays the same where it is a limit.

        `weights` are those of the points before the new one, `point` [2]. It and one of the two points that are mixed
        enclose that cost. The line through them is the next direction: the master would give the same, at three times
        the price of a small model's answer.
        """
        mixed = [self.columns.points[i] for i in np.flatnonzero(weights > ENCLOSING)]
        if len(mixed) != 2:
            return
        low, high = sorted(mixed, key=lambda z: float(z[1]))
        for _ in range(CLOSER):
            low, high = (point, high) if point[1] <= cost else (low, point)
            price = (high[0] - low[0]) / (high[1] - low[1]) if high[1] > low[1] else np.inf
            if not np.isfinite(price) or self.sweeps + 1 >= self.max_sweeps:  # one is the master's
                return
            count, along = len(self.columns.points), np.array([1.0, -price])
            value, point = self.ask_one(along)
            if len(self.columns.points) == count:
                self._edge = along, value
                return
            if value - (low[0] - price * low[1]) <= CLOSE * self.cones.unit[0]:
                return

    def _master(self, allowed: float | None = None) -> Answer:
        cones, rooms = self._program
        cost = np.zeros(cones.num_variables)
        cost[cones.s] = -1.0
        nothing = np.zeros((cones.size, 0))
        most = np.append(np.full(self.cones.count, self.allowed if allowed is None else allowed), rooms)
        return cones.over_mixtures(cost, np.array(self.columns.points), nothing, np.zeros(0), most)

    def _approach(self) -> None:
        """New points until some mixture is as good as allowed."""
        size = self.cones.size
        apart, price = np.hstack((np.eye(size), -np.eye(size))), np.ones(2 * size)
        nothing = np.zeros(self.cones.num_variables)
        while True:
            count = len(self.columns.points)
            points = np.array(self.columns.points)
            answer = self.cones.over_mixtures(nothing, points, apart, price, np.full(self.cones.count, self.allowed))
            if not answer.solved:
                if "Infeasible" not in answer.status:
                    raise RunError(f"Clarabel ended as {answer.status}; {REMEDY}")
                # Nothing in the whole box is allowed.
                raise self._separated(np.inf, np.full(count, 1.0 / count), answer)
            distance = float(price @ answer.more[count:])
            if distance <= APART:
                return self._loosen(answer.more[:count])
            inside = float((points @ answer.w).max())
            value, _ = self.ask_one(answer.w)
            if value - inside <= max(0.1 * distance, APART) or len(self.columns.points) == count:
                proven = distance - max(value - inside, 0.0)
                if proven > APART:
                    raise self._separated(proven, answer.more[:count], answer)
                if len(self.columns.points) == count:
                    return self._loosen(answer.more[:count])
            elif self.exhausted:
                raise RunError("no allowed mixture was found within max_sweeps; raise it")

    def _separated(self, distance: float, weights: Float, answer: Answer) -> Exception:
        """What to raise where Clarabel finds nothing allowed: another error if that is not so, or it is not sure."""
        nearest = self._nearest(weights)
        for y in (nearest.weights @ nearest.points, *self.columns.points):
            if np.isfinite(self.cones.value(y)[0]) and self._over(y) == 0.0:
                return RunError(f"Clarabel calls constraints infeasible that a mixture meets; {REMEDY}")
        if not self._apart(answer):
            return RunError(f"Clarabel cannot tell whether the constraints can be met ({answer.status}); {REMEDY}")
        return Separated(distance, nearest)

    def _apart(self, answer: Answer) -> bool:
        """Whether w and mu prove it, by another program: min over the box of w.y + mu.g(y) lies above support(w)."""
        if "Infeasible" in answer.status:  # nothing in the whole box: there is no z to compare with
            return not answer.status.startswith("Almost")
        w, mu = answer.w, answer.mu
        lowest = -self.cones.over_box(w, mu, 0.0) - self.allowed * float(mu @ self.cones.t_unit)
        return lowest > float(self.oracle.support(w).value) + rounding_of(self.oracle, w)

    def _nearest(self, weights: Float) -> Optimum:
        """A mixture of the columns found so far that proves nothing."""
        weights = np.where(weights > NO_WEIGHT, weights, 0.0)
        kept = np.flatnonzero(weights)
        points = np.array([self.columns.points[i] for i in kept])
        weights = weights[kept] / float(weights.sum())
        objective = self.cones.value(weights @ points)[0]
        nothing = np.zeros(self.cones.count)
        return self.mixture(weights, points, objective=objective, bound=np.inf, multipliers=nothing, converged=False)

    def _loosen(self, weights: Float) -> None:
        """If the master finds nothing although the distance is none, allow a little more."""
        while not self._master().solved:
            looser = [a for a in ALLOWED if a > self.allowed]
            if not looser:
                nearest = self._nearest(weights)
                if not np.isfinite(nearest.objective):  # at the edge of where f is defined, but not inside
                    raise Separated(0.0, nearest)
                raise RunError("the constraints are met at a single point, beyond the solver's precision; relax them")
            self.allowed = looser[0]

    def _finish(self, x: Float, count: int, bound: float, multipliers: Float) -> Optimum:
        """The answer, checked; one that breaks a constraint is solved for again, with a margin for Clarabel's error."""
        x, count = self._in_domain(x, count)
        optimum = self._optimum(x, count, bound, multipliers)
        over = self._over(optimum.weights @ optimum.points)
        if 0.0 < over < np.inf:
            again = self._master(-2.0 * over)
            if again.solved:
                optimum = self._optimum(again.more, len(self.columns.points), bound, multipliers)
                over = self._over(optimum.weights @ optimum.points)
        if over > 0.0:
            raise RunError(f"the mixture found breaks a constraint by {over:.3g} of its size; {REMEDY}")
        # A bound below the objective is Clarabel's error: nothing is proven.
        return replace(optimum, bound=np.inf if optimum.bound < optimum.objective else optimum.bound)

    def _in_domain(self, x: Float, count: int) -> tuple[Float, int]:
        """The weights of `count` points, or of a mixture further inside the domain if Clarabel's error puts this one
        outside."""
        further = 0.0
        for _ in range(FURTHER):
            weights, points = self._chosen(x, count)
            if self.cones.inside(y := weights @ points):
                break
            narrowed, further = self.cones.narrowed, self.cones.further(y, further)
            self._program = narrowed, -further / narrowed.t_unit[self.cones.count :]
            if not (np.isfinite(further) and (again := self._master()).solved):
                break
            x, count = again.more, len(self.columns.points)
        return x, count

    def _chosen(self, x: Float, count: int) -> tuple[Float, Float]:
        """The points with weight, of `count`: weights that add up to 1, and value vectors."""
        chosen = np.flatnonzero(x[:count] > NO_WEIGHT)
        return x[chosen] / x[chosen].sum(), np.array([self.columns.points[i] for i in chosen])

    def _over(self, y: Float) -> float:
        """By how much a value vector breaks a constraint, in its unit; 0 if it breaks none."""
        if self._last[0] != y.tobytes():
            self._last = y.tobytes(), self._excess(y)
        return self._last[1]

    def _excess(self, y: Float) -> float:
        excess = self.cones.value(y)[1]
        if self.cones.surely_allowed(excess):
            return 0.0
        broken = ~(excess <= self.cones.allowance(y, self.oracle.rounding().point))  # what is no number is broken
        return float(np.nan_to_num(excess[broken] / self.cones.t_unit[broken], nan=np.inf).max(initial=0.0))

    def _optimum(self, x: Float, count: int, bound: float, multipliers: Float) -> Optimum:
        """A mixture from the master's weights, its gap certified, its constraints not checked."""
        weights, points = self._chosen(x, count)
        mean = weights @ points
        weights, objective = self._fewest(weights, points, bound, multipliers)
        if not np.isfinite(objective):  # f is defined only where the constraints are exceeded a little
            raise Separated(0.0, self._nearest(np.maximum(x[:count], 0.0)))
        kept = weights > 0.0
        weights, points = weights[kept], points[kept]
        bound, converged = self._certify(bound, objective, multipliers, mean)
        return self.mixture(
            weights, points, objective=objective, bound=bound, multipliers=multipliers, converged=converged
        )

    def _certify(self, bound: float, objective: float, multipliers: Float, mean: Float) -> tuple[float, bool]:
        """`certify`; what the constraints' allowance may buy at `mean` is found only where it counts."""
        tolerance = self.tolerance(objective)
        if objective - bound <= tolerance:
            return certify(bound, objective, tolerance, 0.0)
        bought = float(multipliers @ self.cones.allowance(mean, self.oracle.rounding().point))
        return certify(bound, objective, tolerance, bought)

    def _fewest(self, weights: Float, points: Float, bound: float, multipliers: Float) -> tuple[Float, float]:
        """A mixture of fewer points as good as this one, and its objective.

        The points that matter lie on a face of Z, so that d+1 are enough, but on it only to the solver's precision:
        ask for less and less until the answer stands.
        """
        mean = weights @ points
        for small in (1e-5, 1e-7, NO_WEIGHT):
            fewer = np.where(weights > small, weights, 0.0)
            fewer = reduce_mixture(fewer / fewer.sum(), points, 0.01 * small)
            fewer = same_mean(fewer, points, mean)
            objective = self.cones.value(fewer @ points)[0]
            if self._certify(bound, objective, multipliers, mean)[1] and self._over(fewer @ points) == 0.0:
                return fewer, objective
        return weights, self.cones.value(mean)[0]

"""What column generation holds while it searches: an oracle, the columns that it has given, and what was asked of it.

A column is a point z of the set Z of value vectors, together with the direction that it answers and so its policy.
`Search` is of any problem over Z; `RowSearch` is of

    maximise a.z   subject to   z in Z,  G z <= h                                         (1)
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from conrl._types import Bool, Float
from conrl.oracles.protocols import SupportOracle, Supports
from conrl.planners.allowance import Allowance
from conrl.planners.result import certify, tolerance_of
from conrl.policy import Policy
from conrl.problem import Rows


@dataclass(frozen=True)
class Optimum:
    """A mixture of columns, with its certificate."""

    weights: Float  # [n], n at most R + 1; of a convex problem d + 2
    points: Float  # [n, 1+d]: what is mixed
    means: Float  # [n, 1+d]: the same policies' values without bonus
    directions: Float  # [n, 1+d]: the directions that they answer
    skips: Bool  # [n]: which of them are the null action, and no policy
    asked: int  # directions
    exhausted: bool  # no more sweeps were allowed
    oracle: SupportOracle  # whose answers these are
    objective: float
    bound: float
    multipliers: Float  # [R]
    converged: bool
    keeps: bool = False  # checked: it keeps every row within its allowance; relaxed ones, as relaxed
    accepted: bool = False  # it keeps every row, and its gap is closed or no sweep is left
    allowance: Float | None = None  # [R]: by how much each row may be exceeded
    policies: tuple[Callable[[], Policy], ...] | None = None  # [n], where they were kept

    def policy(self, i: int) -> Policy:
        """What attains point i."""
        return self.oracle.policy(self.directions[i]) if self.policies is None else self.policies[i]()


class Conflict(Exception):
    """The rows cannot all be kept: `multipliers`.(G z - h) >= `violation` > 0 for every z in Z."""

    def __init__(self, multipliers: Float, violation: float) -> None:
        super().__init__(violation)
        self.multipliers = multipliers
        self.violation = violation


@dataclass(frozen=True)
class Met:
    """The points met so far, none twice, each with the first direction that it answered."""

    directions: list[Float] = field(default_factory=list)
    points: list[Float] = field(default_factory=list)
    means: list[Float] = field(default_factory=list)
    skips: list[bool] = field(default_factory=list)
    index: dict[bytes, int] = field(default_factory=dict)  # of a point, by its bits


def check_numbers(directions: Float) -> None:
    """Refuse directions that are none, as they come of multipliers beyond the largest double."""
    if not np.isfinite(directions).all():
        raise OverflowError


class Search:
    """An oracle, the columns that it has given, and how much was asked of it."""

    def __init__(self, oracle: SupportOracle, columns: Met, max_sweeps: int) -> None:
        self.oracle = oracle
        self.columns = columns
        self.max_sweeps = max_sweeps
        self.asked = 0
        self.sweeps = 0

    @property
    def exhausted(self) -> bool:
        """Whether no more sweeps are allowed."""
        return self.sweeps >= self.max_sweeps

    def ask(self, directions: Float) -> tuple[Float, Float]:
        """Support values [m] and points [m, 1+d] of directions [m, 1+d], by one call of the oracle.

        New points become columns.
        """
        check_numbers(directions)
        self.asked += directions.shape[0]
        self.sweeps += 1
        found = self.oracle.support_many(directions)
        self.keep(directions, found)
        return found.values, found.points

    def keep(self, directions: Float, found: Supports) -> None:
        """Make columns of the new ones among the answers to directions [m, 1+d]."""
        columns, (_, points, means, skips) = self.columns, found
        for i, point in enumerate(points):
            key = point.tobytes()
            if key not in columns.index:
                columns.index[key] = len(columns.points)
                columns.directions.append(directions[i])
                columns.points.append(point)
                columns.means.append(means[i])
                columns.skips.append(skips is not None and bool(skips[i]))

    def ask_one(self, direction: Float) -> tuple[float, Float]:
        """The support value and the point of one direction."""
        values, points = self.ask(direction[None])
        return float(values[0]), points[0]

    def mixture(self, weights: Float, points: Float, **certificate: Any) -> Optimum:
        """A mixture of some of the points, with what is known about it."""
        columns = self.columns
        chosen = [columns.index[point.tobytes()] for point in points]
        return Optimum(
            weights,
            points,
            np.array([columns.means[i] for i in chosen]),
            np.array([columns.directions[i] for i in chosen]),
            np.array([columns.skips[i] for i in chosen]),
            self.asked,
            self.exhausted,
            self.oracle,
            **certificate,
        )


class RowSearch(Search):
    """A search for the maximum of (1), to a tolerance. With `relax`, rows that cannot be kept may be exceeded."""

    def __init__(
        self,
        oracle: SupportOracle,
        columns: Met | None,
        max_sweeps: int,
        a: Float,
        rows: Rows,
        tol: float,
        relax: bool,
    ) -> None:
        super().__init__(oracle, columns or Met(), max_sweeps)
        self.shared = columns is not None  # whether somebody else wants to know which points were met
        self.a = a
        self.rows = rows
        self.tol = tol
        self.relax = relax
        self.allowance = Allowance(oracle, rows)
        self._errors: dict[int, Float] = {}  # of columns, where they are judged each by itself
        self._last = self.allowance  # of the mixture looked at last
        self.largest = oracle.horizon * float(np.abs(a) @ oracle.scale)

    def strict(self) -> Self:
        """The same search without its columns, by an oracle that tells ties apart, and with as many sweeps again."""
        again = copy.copy(self)
        again.oracle, again.columns = self.oracle.strict(), Met()
        again.max_sweeps += self.sweeps
        again._errors = {}
        return again

    def allowed(self, points: Float, weights: Float | None = None) -> Allowance:
        """What rounding means for a point, or a mixture of points [n, 1+d]."""
        if not self.allowance.by_point:
            return self.allowance
        error = np.zeros(self.a.size)
        columns = self.columns
        for weight, point in zip(np.ones(1) if weights is None else weights, np.atleast_2d(points), strict=True):
            i = columns.index[point.tobytes()]
            if i not in self._errors:
                self._errors[i] = self.oracle.point_error(columns.directions[i])
            error += weight * self._errors[i]
        return self.allowance.of(error)

    @cached_property
    def G(self) -> Float:
        """[R, 1+d]: the rows as a matrix."""
        return self.rows.matrix(self.oracle.num_costs)

    @property
    def grain(self) -> Float:
        """[R]: how finely rows can be told apart: what the mixture looked at last is allowed."""
        return self._last.aim

    def tolerance(self, objective: float) -> float:
        """What is allowed between the bound and the objective."""
        return tolerance_of(self.tol, objective, self.largest)

    def is_closed(self, bound: float, objective: float) -> bool:
        """Whether the gap is within the tolerance."""
        return bound - objective <= self.tolerance(objective)

    def optimum(
        self, weights: Float, points: Float, bound: float, multipliers: Float, relaxed: Float | None = None
    ) -> Optimum:
        """A mixture of columns and a bound as the answer, as `certificate` says."""
        return self.mixture(weights, points, **self.certificate(weights, points, bound, multipliers, relaxed))

    def certificate(
        self, weights: Float, points: Float, bound: float, multipliers: Float, relaxed: Float | None = None
    ) -> dict[str, Any]:
        """What is proven of a mixture: the bound rounded outward, the mixture checked against every row.

        `relaxed` [R]: what the rows are checked against instead of h. A mixture that is no number keeps none.
        """
        mean = weights @ points
        objective = float(weights @ (points @ self.a))
        tolerance = self.tolerance(objective)
        bound += self.allowance.outward(self.a, multipliers, tolerance)
        self._last = allowed = self.allowed(points, weights)
        stated = allowed.stated
        bound, converged = certify(bound, objective, tolerance, float(multipliers @ stated))
        over = self.rows.sign * mean[1 + self.rows.cost] - (self.rows.bound if relaxed is None else relaxed)
        keeps = all((over <= allowed.computed).tolist())
        return {
            "objective": objective,
            "bound": bound,
            "multipliers": multipliers,
            "converged": converged,
            "keeps": keeps,
            "accepted": keeps and (converged or self.exhausted),
            "allowance": stated,
        }

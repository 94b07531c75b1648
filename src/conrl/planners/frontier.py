"""The exact trade-off: the best reward as a function of one limit, the others fixed.

The function is concave and piecewise linear; its graph is the upper left boundary of the polygon of attainable
(cost, reward). Its vertices are found by asking for the best point in the direction normal to a chord: a point above
the chord splits it, none proves it (the "dichotomic search" of Aneja and Nair 1979). Each vertex is known together
with a line that supports the curve there, so that between two neighbours the curve lies in a triangle: the height of
the tallest triangle not yet asked about is the proven error, and the tallest are asked first, several in one sweep.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Float
from conrl.arguments import float_array, read_count, read_positive
from conrl.errors import InfeasibleError, SpecError, shown
from conrl.io.cells import csv_text
from conrl.io.files import atomic_write
from conrl.kernels import LANES
from conrl.model import ConstrainedMDP
from conrl.model.limits import Limits, resolve_limits
from conrl.model.mdp import need_model
from conrl.model.tails import CHANCE, Tail
from conrl.notebook import MOST_ROWS, Columns, Display, Displayed, Framed, Plotted
from conrl.oracles import ModelOracle, exact_oracle
from conrl.planners.allowance import FEASIBILITY, Allowance
from conrl.planners.basis import seen_steps
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Met
from conrl.planners.feasibility import find_conflict, infeasible
from conrl.planners.result import tolerance_of
from conrl.planners.single_episodes.carried import limited
from conrl.problem import Linear, Rows, as_problem
from conrl.rounding import HALF_ULP
from conrl.wording import counted, line, short


class Asked(NamedTuple):
    """What was asked of single episodes."""

    problem: Linear
    cost_names: tuple[str, ...]  # of the user's model
    tails: tuple[Tail, ...]  # that stay as they are
    chance: Tail | None  # whose probability is varied


@dataclass(frozen=True, eq=False, repr=False)
class Frontier(Displayed, Framed, Plotted):
    """The curve: vertices by rising limit. Below `limits[0]` nothing is feasible; from `limits[-1]` on it is flat.

    As a data frame: `limit`, `reward` and `price`, the gain per unit of the limit just above it.
    """

    mdp: ConstrainedMDP
    cost: int
    limits: Float  # [n]
    rewards: Float  # [n]
    complete: bool  # every vertex that rises more than tol above its neighbours' chord is there
    error: float  # how far the true curve can lie above this one
    rounding: float = 0.0  # of the least limit
    asked: Asked | None = None  # where single episodes are limited: `mdp` is then the model that carries what was spent

    @property
    def prices(self) -> Float:
        """[n-1]: the shadow prices: gain in reward per unit of the limit between neighbouring vertices; falling."""
        return np.diff(self.rewards) / np.diff(self.limits)

    def feasible(self, limit: float) -> bool:
        """Whether any policy keeps a limit, and the others."""
        return bool(_limit(limit) + self._allowance(limit) >= self.limits[0])

    def reward(self, limit: float) -> float:
        """The best reward under a limit; `InfeasibleError` below the least achievable cost."""
        limit = _limit(limit)
        if not self.feasible(limit):
            raise self._below(limit)
        return float(np.interp(limit, self.limits, self.rewards))

    def _allowance(self, limit: float) -> float:
        return max(FEASIBILITY * abs(limit), self.rounding)

    def _below(self, limit: float) -> InfeasibleError:
        oracle, rows = exact_oracle(self.mdp), self.rows(limit)
        # Within the allowance of the least limit nothing conflicts; the curve still ends there.
        conflict = find_conflict(oracle, rows) or Conflict((rows.cost == self.cost).astype(np.float64), 0.0)
        return infeasible(oracle, rows, conflict)

    def price(self, limit: float) -> float:
        """The shadow price of the limit: the gain per unit just above it; 0 where it no longer binds.

        A vertex within 1e-9 of the limit, in proportion, or within `rounding`, counts as at the limit.
        """
        limit = _limit(limit)
        at = int(np.searchsorted(self.limits, limit + self._allowance(limit), side="right")) - 1
        if at < 0:
            self.reward(limit)
        return float(self.prices[at]) if at < self.limits.size - 1 else 0.0

    def __repr__(self) -> str:
        cost, partly = short(self.mdp.cost_names[self.cost]), "" if self.complete else "not complete"
        ends = f"{self.limits[0]:.6g}..{self.limits[-1]:.6g}"
        count = counted(self.limits.size, "vertex", "vertices")
        return line(self, f"{cost}: {ends}", count, partly, seen_steps(self.mdp))

    def _columns(self) -> Columns:
        return {"limit": self.limits, "reward": self.rewards, "price": np.append(self.prices, 0.0)}

    def _display(self) -> Display:
        notes = [
            f"below {self.limits[0]:.6g} no policy keeps the limits; above {self.limits[-1]:.6g} nothing is gained"
        ]
        if not self.complete:
            notes.append(f"not complete: the curve is at most {self.error:.1g} higher")
        if self.mdp._visits is not None:
            notes.append(f"the model is {seen_steps(self.mdp)}; the curve is exact for it alone")
        columns: dict[str, Any] = dict(self._columns())
        if self.limits.size > MOST_ROWS:  # both ends, and vertices between them
            chosen = np.unique(np.linspace(0, self.limits.size - 1, MOST_ROWS).astype(np.int64))
            columns = {name: values[chosen] for name, values in columns.items()}
            notes.append(f"{chosen.size} of {self.limits.size} vertices; to_frame() has all")
        return Display(f"Frontier: best reward by the limit on {self.mdp.cost_names[self.cost]}", columns, tuple(notes))

    def linear(self, limit: float) -> Linear:
        """The problem at one point of the curve; `conrl.plan(mdp, frontier.linear(x))` gives its policy."""
        if self.asked is None:
            return Linear(self._limits(limit))
        problem, names, tails, chance = self.asked
        if chance is None:
            return replace(problem, limits=self._limits(limit)[: len(names)])
        chances: dict[str, list[tuple[float, float]]] = {}
        for tail in (*tails, chance._replace(share=_limit(limit))):
            if tail.kind == CHANCE:
                chances.setdefault(names[tail.cost], []).append((tail.limit, tail.share))
        return replace(problem, chance=chances)

    def rows(self, limit: float) -> Rows:
        """All limits at one point of the curve, on the costs of `mdp`."""
        return Linear(self._limits(limit)).rows(self.mdp)

    def _limits(self, limit: float) -> Float:
        limits = resolve_limits(self.mdp.limits, self.mdp.cost_names, "limits")
        limits[self.cost] = _limit(limit)
        return limits

    def to_html(self, path: str | Path | None = None) -> str:
        """A page with a slider for every limit, open in the middle of the curve (`conrl.explore`); written, if there
        is a path."""
        from conrl.explorer import to_html  # above this layer: the curve hands itself on

        return to_html(self, path)

    def save(self, path: str) -> None:
        """Write the vertices as CSV: limit, reward and price to the right of each."""
        header = [f"limit_{self.mdp.cost_names[self.cost]}", "reward", "price"]
        rows = np.column_stack((self.limits, self.rewards, np.append(self.prices, 0.0))).tolist()
        with atomic_write(path) as file:
            file.write(csv_text([header, *rows]).encode())


def frontier(
    mdp: ConstrainedMDP,
    cost: int | str | None = None,
    tol: float = 1e-9,
    max_vertices: int | None = None,
    *,
    chance: Mapping[str, float] | None = None,
    limits: Limits | Linear | None = None,
    oracle: ModelOracle | None = None,
) -> Frontier:
    """The optimal reward as a function of the limit on one cost; `limits`, or the model's own, hold for the others.

    With `chance={"crash": 0}` it is a function of the probability that an episode has a total above 0 instead. The
    limits may be a `Linear` with limits on single episodes, never and chance. By default the cost is the first.

    Exact to `tol` x max(1, |reward|) in height, and to `tol` x the largest possible total; stops early at
    `max_vertices`, and then says so in `complete`. `oracle` is that of the model, where there is one already.
    """
    if chance is not None and cost is not None:
        raise SpecError("cost and chance were both given; a frontier varies one of them", key=("chance",))
    need_model(mdp, "frontier")
    index = mdp.cost_index(0 if cost is None else cost)
    read_positive(tol, "tol")
    if max_vertices is not None:
        read_count(max_vertices, "max_vertices", 2)
    if oracle is not None and not (isinstance(oracle, ModelOracle) and oracle.mdp is mdp):
        raise SpecError(f"oracle is {shown(oracle)}; it must be the exact oracle of this model")
    asked = as_problem(None, mdp.limits, limits)
    if chance is not None or (isinstance(asked, Linear) and asked.on_episodes):
        return _of_episodes(mdp, index, chance, asked, tol, max_vertices)
    if limits is not None:
        mdp = mdp.replace(limits=as_problem(None, limits=limits))  # type: ignore[arg-type]
    return _Search(mdp, index, tol, oracle or exact_oracle(mdp)).run(max_vertices)


def _of_episodes(
    mdp: ConstrainedMDP, index: int, chance: Any, asked: Any, tol: float, max_vertices: int | None
) -> Frontier:
    """The frontier in the model that carries what was spent."""
    if not isinstance(asked, Linear) or asked.floors is not None or asked.per_step is not None:
        raise SpecError("a frontier takes limits, without floors and limits per step", key=("limits",))
    varied: Tail | None = None
    if chance is not None:
        if not isinstance(chance, Mapping) or len(chance) != 1:
            raise SpecError(
                f"chance is {shown(chance)}; expected one cost and a threshold, as {{'crash': 0}}", ("chance",)
            )
        ((name, threshold),) = chance.items()
        (varied,) = Linear(chance={name: (threshold, 1.0)}).tails(mdp)
    model, cost = limited(mdp, asked, varied, index)
    curve = _Search(model, cost, tol, exact_oracle(model)).run(max_vertices)
    tails = tuple(t for t in asked.tails(mdp) if varied is None or t[:3] != varied[:3])
    return replace(curve, asked=Asked(asked, tuple(mdp.cost_names), tails, varied))


@dataclass(frozen=True)
class _Vertex:
    x: float  # cost
    y: float  # reward
    slope: float  # of a line that supports the curve here; inf for a vertical one


class _Search:
    def __init__(self, mdp: ConstrainedMDP, index: int, tol: float, oracle: ModelOracle) -> None:
        self.mdp = mdp
        self.index = index
        self.tol = tol
        # A curve has vertices and no policies: which of several tied policies attains one does not matter.
        self.oracle = oracle.strict()
        self.rounding = self.oracle.rounding()
        self.largest = float(self.oracle.horizon) * float(self.oracle.scale[0])
        rows = Linear(mdp.limits).rows(mdp)
        self.others: Rows = rows.select(rows.cost != index)
        self.columns = Met()

    def tolerance(self, u: _Vertex, v: _Vertex) -> float:
        """How far the curve may rise above their chord: in proportion to the smaller reward and the largest total."""
        return tolerance_of(self.tol, min(abs(u.y), abs(v.y)), self.largest)

    def noise(self, slope: float, v: _Vertex) -> float:
        """What rounding alone can lift the support above a chord with that slope that ends in v."""
        support = self.rounding.support
        return float(support[0] + slope * support[1 + self.index]) + 8.0 * HALF_ULP * (abs(v.y) + slope * abs(v.x))

    def points(self, directions: Float) -> tuple[Float, Float]:
        """Upper bounds on w.z, and points (cost, reward) that reach them within tol, with the other limits kept."""
        full = np.zeros((directions.shape[0], 1 + self.mdp.num_costs))
        full[:, 0], full[:, 1 + self.index] = directions.T
        if self.others.size == 0:
            answers = self.oracle.support_many(full)
            return answers.values, answers.points[:, [1 + self.index, 0]]
        # The other limits are the same each time, and so is which columns are useful: keep them.
        best = [maximise(self.oracle, w, self.others, tol=0.1 * self.tol, columns=self.columns) for w in full]
        points = np.array([optimum.weights @ optimum.points for optimum in best])
        return np.array([optimum.bound for optimum in best]), points[:, [1 + self.index, 0]]

    def run(self, max_vertices: int | None) -> Frontier:
        """From the chord between the two ends of the curve on, split those that it can rise above most.

        Of the chord from u to v with slope m, the direction (1, -m) on (reward, cost) asks for the point that lies
        highest above it.
        """
        try:
            _, ends = self.points(np.array([[0.0, -1.0], [1.0, 0.0]]))
        except Conflict as conflict:
            raise infeasible(self.oracle, self.others, conflict) from None
        left = _Vertex(float(ends[0, 0]), float(ends[0, 1]), np.inf)
        right = _Vertex(float(ends[1, 0]), float(ends[1, 1]), 0.0)
        vertices = {left, right}
        heap: list[tuple[float, int, _Vertex, _Vertex]] = []
        count = 0

        def push(u: _Vertex, v: _Vertex) -> None:
            nonlocal count
            height = _height(u, v)
            if v.x > u.x and height > self.tolerance(u, v):
                heapq.heappush(heap, (-height, count, u, v))
                count += 1

        unclear = 0.0
        push(left, right)
        while heap and (max_vertices is None or len(vertices) < max_vertices):
            most = LANES if max_vertices is None else min(LANES, max_vertices - len(vertices))
            batch = [heapq.heappop(heap) for _ in range(min(most, len(heap)))]
            slopes = np.array([max((v.y - u.y) / (v.x - u.x), 0.0) for _, _, u, v in batch])
            values, points = self.points(np.column_stack((np.ones(slopes.size), -slopes)))
            for (_, _, u, v), slope, value, point in zip(batch, slopes, values, points, strict=True):
                above = value - (v.y - slope * v.x)
                if above <= self.tolerance(u, v):
                    continue  # nothing above the chord: it is an edge
                new = _Vertex(float(point[0]), float(point[1]), float(slope))
                if new.y - slope * new.x <= v.y - slope * v.x + self.noise(slope, v):
                    unclear = max(unclear, above)  # there may be something, but rounding would explain it
                    continue
                vertices.add(new)  # a little to the left of u, by rounding, if the curve is vertical there
                push(u, new)
                push(new, v)
        error = max([unclear, *(-item[0] for item in heap)])
        width, rounding = self.width(left, vertices)
        x, y = _upper_left(vertices, width)
        return Frontier(self.mdp, self.index, x, y, complete=not heap, error=error, rounding=rounding)

    def width(self, left: _Vertex, vertices: set[_Vertex]) -> tuple[float, float]:
        """At the left end the curve may be vertical: within which width limits count as the same, by the allowance of
        any vertex there; and what rounding does to the first."""
        allowance = Allowance(self.oracle, Rows(np.array([self.index]), np.ones(1), np.array([left.x])))
        if not allowance.by_point:
            return float(allowance.aim[0]), float(allowance.stated[0])
        width, stated = 0.0, 0.0
        for v in vertices:
            if v.x <= left.x + allowance.stated[0]:
                w = np.zeros(1 + self.oracle.num_costs)
                w[0], w[1 + self.index] = (0.0, -1.0) if np.isinf(v.slope) else (1.0, -v.slope)
                own = allowance.of(self.oracle.point_error(w))
                if v.x <= left.x + own.stated[0]:
                    width, stated = max(width, float(own.aim[0])), max(stated, float(own.stated[0]))
        return width, stated


def _height(u: _Vertex, v: _Vertex) -> float:
    """How far the curve between two vertices can rise above their chord: to where their supporting lines meet."""
    width = v.x - u.x
    if width <= 0.0:
        return 0.0
    chord = (v.y - u.y) / width
    if np.isinf(u.slope):
        return (chord - v.slope) * width
    if u.slope <= v.slope:
        return 0.0
    x = (v.y - u.y + u.slope * u.x - v.slope * v.x) / (u.slope - v.slope)
    return (u.slope - chord) * (min(max(x, u.x), v.x) - u.x)


def _upper_left(vertices: set[_Vertex], width: float) -> tuple[Float, Float]:
    """Rising limits with strictly rising rewards and falling slopes: no doubles, no flat end, nothing on an edge.

    `width`: first limits that are no further apart are the same.
    """
    hull: list[tuple[float, float]] = []
    for x, y in sorted((v.x, v.y) for v in vertices):
        if hull and y <= hull[-1][1]:
            continue
        while hull and x <= hull[-1][0] + (width if len(hull) == 1 else 0.0):
            hull.pop()
        while len(hull) > 1 and _turns_left(hull[-2], hull[-1], (x, y)):
            hull.pop()
        hull.append((x, y))
    table = np.array(hull)
    return table[:, 0], table[:, 1]


def _turns_left(p: tuple[float, float], q: tuple[float, float], r: tuple[float, float]) -> bool:
    """Whether q lies on or below the line from p to r."""
    return (q[1] - p[1]) * (r[0] - p[0]) <= (r[1] - p[1]) * (q[0] - p[0])


def _limit(limit: Any) -> float:
    number = float_array(limit, "limit")
    if number.ndim or np.isnan(number):
        raise SpecError(f"limit is {shown(limit)}; it must be a number")
    return float(number)

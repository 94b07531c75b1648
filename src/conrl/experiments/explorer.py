"""The budget explorer of a report: the exact frontier, with what its policies do.

Letters: rho_v(h, i, a) is the probability of being in cell i (of the map; without a map, a state) at step h and playing
a, under the best policy at the limit x_v of vertex v. At a limit between two neighbours the best policy mixes theirs,

    x = (1 - t) x_v + t x_(v+1)   ->   reward, costs and rho are mixed with weights 1 - t and t,

and its action in a cell is drawn in proportion to the mixed rho (Altman 1999, Theorem 6.1). So the page holds the
vertices only and mixes them itself; the price of the limit is the slope between the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from conrl._types import Float, Int
from conrl.errors import ConRLError, SpecError
from conrl.experiments.analysis import Environment
from conrl.model import ConstrainedMDP
from conrl.model.layout import Layout
from conrl.oracles import ModelOracle, exact_oracle
from conrl.planners import Frontier
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Optimum
from conrl.planners.frontier import frontier
from conrl.policy_map import DIRECTIONS, KINDS, WALLS, absorbed, grid_layout

VERTICES = 60
FEWEST = 12  # vertices, and cells listed at a step
ENTRIES = 200_000  # of all rho of an environment together; some 8 bytes each
MOST_LISTED = 64  # kept of each vertex and step, if there are more; the most visited ones
MOST_CELLS = 2_500  # of a map that a page can draw
MOST_STEPS = 2_000
MOST_WORK = 2e7  # outcomes x steps of a model whose frontier is computed for a page
MOST_COSTS = 4
UNIT = 1e-4  # in which probabilities are stored; 0 stands for less than half of it
SLIGHT = 1e-7  # error of a curve that is not worth a word, in proportion to the reward
LIGHT = 1e-9  # weight of a policy that is left out of a mixture
TOL = 1e-9  # of the plans, as `conrl.plan` has it


def explorer(env: Environment) -> dict[str, Any]:
    """The cells, the actions and a frontier for each cost; or a note why there are none. One oracle answers all."""
    mdp = env.mdp
    if mdp is None:
        return {"note": "The model is not known here, so that there is no frontier to explore."}
    if mdp.num_costs == 0:
        return {"note": "The model has no costs, so that there is no budget to explore."}
    if mdp.graph.probability.size * mdp.horizon > MOST_WORK or mdp.horizon > MOST_STEPS:
        return {"note": "The model is too large to explore in a page; `conrl frontier` computes its curve."}
    cells, oracle = _Cells(mdp), exact_oracle(mdp)
    finite = np.isfinite(env.limits)
    chosen = sorted(np.argsort(~finite, kind="stable")[:MOST_COSTS].tolist())
    try:
        curves = [_frontier(oracle, cost, cells, ENTRIES // len(chosen)) for cost in chosen]
    except ConRLError as error:
        return {"note": f"There is no frontier to explore: {error}"}
    left = mdp.num_costs - len(chosen)
    return {
        "horizon": mdp.horizon,
        "actions": list(mdp.action_names),
        "frontiers": curves,
        "more": f"{left} more costs are not shown." if left else "",
        **cells.description(),
    }


class _Cells:
    """Where rho is counted: the cells of a map that can be drawn, else the states."""

    def __init__(self, mdp: ConstrainedMDP) -> None:
        self.mdp = mdp
        self.layout = _layout(mdp)
        cell = np.arange(mdp.num_states) if self.layout is None else self.layout.cell  # [S]; -1 for nowhere
        self.count = int(cell.max()) + 1
        self.second = None if self.layout is None else _second_piece(mdp, self.layout)  # [S]
        # Where nothing happens any more an action means nothing: it is counted as one more, the last.
        action = np.where(absorbed(mdp)[mdp.pair_state], mdp.num_actions, mdp.action)
        self.actions = mdp.num_actions + 1
        self.pairs = np.flatnonzero(cell[mdp.pair_state] >= 0)
        self.keys = (cell[mdp.pair_state] * self.actions + action)[self.pairs]
        self.named: set[int] = set()

    def description(self) -> dict[str, Any]:
        if self.layout is None:
            return {"names": {str(s): self.mdp.state_name(s) for s in sorted(self.named)}}
        signs = {sign for row in self.layout.rows for sign in row}
        return {
            "rows": list(self.layout.rows),
            "arrows": list(self.layout.arrows),
            "kinds": {sign: word for sign, word in KINDS.items() if sign in signs},
            "walls": WALLS,
            "directions": {sign: step for sign, step in DIRECTIONS.items() if sign in self.layout.arrows},
            "second": self.second is not None,
        }

    def visits(self, best: Optimum, most: int) -> tuple[list[list[int]], list[list[int]]]:
        """For each step the keys (cell x actions + action) with their rho, and the cells of the second piece."""
        mdp = self.mdp
        rho = np.zeros((mdp.horizon, mdp.num_pairs))
        for i in np.flatnonzero(best.weights > LIGHT):
            best.oracle.policy(best.directions[i]).add_occupation(mdp, float(best.weights[i]), rho)
        first, second = [], []
        for row in rho:
            table = np.zeros((self.count, self.actions))
            np.add.at(table.reshape(-1), self.keys, row[self.pairs])
            if most < self.count:
                table[np.argsort(-table.sum(axis=1), kind="stable")[most:]] = 0.0
            first.append(_sparse(table.ravel()))
            self.named.update(np.flatnonzero(table.any(axis=1)).tolist())
            if self.second is not None:
                cells = np.zeros(self.second.max() + 1)
                np.add.at(cells, self.second[mdp.pair_state], row)
                cells[cells < UNIT / 2] = 0.0
                second.append(_sparse(cells))
        return first, second


def _layout(mdp: ConstrainedMDP) -> Layout | None:
    try:
        layout = grid_layout(mdp)
    except SpecError:
        return None
    return layout if len(layout.rows) * len(layout.rows[0]) <= MOST_CELLS else None


def _second_piece(mdp: ConstrainedMDP, layout: Layout) -> Int | None:
    """[S]: the cell of a second piece on the map, where the features are two pictures of it: agent, piece."""
    shape = (len(layout.rows), len(layout.rows[0]))
    if mdp.features is None or mdp.features.shape != (mdp.num_states, 2, *shape):
        return None
    pictures = mdp.features.reshape(mdp.num_states, 2, -1)
    agent, piece = pictures.argmax(axis=2).T
    single = (pictures.sum(axis=2) == 1.0).all() and (pictures.max(axis=2) == 1.0).all()
    return piece if single and (agent == layout.cell).all() else None


def _sparse(values: Float) -> list[int]:
    """Where values are positive, as differences of indices, each followed by its value in `UNIT`s."""
    at = np.flatnonzero(values > 0.0)
    pairs = np.column_stack((np.diff(at, prepend=0), np.round(values[at] / UNIT).astype(np.int64)))
    flat: list[int] = pairs.ravel().tolist()
    return flat


def _frontier(oracle: ModelOracle, cost: int, cells: _Cells, entries: int) -> dict[str, Any]:
    """The curve of one cost with the best mixture at each vertex, and what it does; in at most so many entries.

    The vertices are few enough that FEWEST cells of each step fit, and the cells are those most visited.
    """
    mdp = oracle.mdp
    steps = mdp.horizon
    size = min(max(entries // (steps * max(min(cells.count, MOST_LISTED), 1)), FEWEST), VERTICES)
    most = min(max(entries // (steps * size), FEWEST), max(MOST_LISTED, cells.count if cells.layout else 0))
    curve = frontier(mdp, cost, max_vertices=size, oracle=oracle)
    own = math.inf if mdp.limits is None else float(mdp.limits[cost])
    reward = np.eye(1 + mdp.num_costs)[0]

    def best_at(limit: float) -> Optimum:
        return maximise(oracle, reward, curve.linear(limit).rows(mdp), tol=TOL)

    limits = _with_own(curve, own, best_at)
    plans = [best_at(limit) for limit in limits]
    values = [best.weights @ best.means for best in plans]
    visits = [cells.visits(best, most) for best in plans]
    shown = {
        "cost": cost,
        "own": rounded(own, 12),
        "limits": [rounded(limit, 12) for limit in limits],
        "rewards": [rounded(value[0], 12) for value in values],
        "costs": [[rounded(x, 9) for x in value[1:].tolist()] for value in values],
        "policies": [int((best.weights > LIGHT).sum()) for best in plans],
        "error": rounded(curve.error, 2) if curve.error > SLIGHT * max(1.0, abs(float(curve.rewards[-1]))) else 0,
        "visits": [first for first, _ in visits],
    }
    return shown | ({"second": [second for _, second in visits]} if cells.second is not None else {})


def _with_own(curve: Frontier, own: float, best_at: Callable[[float], Optimum]) -> list[float]:
    """The limits of the vertices, and those beside the model's own limit if the curve left them out.

    With no other limits the plan at the own limit mixes two vertices; else it is a point of the curve itself.
    """
    limits = set(curve.limits.tolist())
    if curve.limits[0] < own < curve.limits[-1] and not curve.complete:
        best = best_at(own)
        alone = len(curve.linear(own).rows(curve.mdp).cost) == 1
        near = best.means[best.weights > LIGHT, 1 + curve.cost].tolist() if alone else [own]
        limits.update(x for x in near if curve.limits[0] < x < curve.limits[-1])
    # Limits that rounding alone tells apart would make a slope of noise.
    least = 1e-9 * max(1.0, float(curve.limits[-1] - curve.limits[0]))
    kept: list[float] = []
    for limit in sorted(limits):
        if not kept or limit - kept[-1] > least:
            kept.append(limit)
    return kept


def rounded(x: Any, digits: int = 6) -> float | int | None:
    """To so many significant digits, for JSON; None for what is missing or infinite."""
    if x is None or not math.isfinite(x):
        return None
    if isinstance(x, int):
        return x
    return float(f"{x:.{digits}g}")

"""Column generation: exact, certified, and the default in all three settings.

The algorithms are in `linear.py` (`Linear`, and `Knapsack` with the origin added to the set of value vectors) and
`convex.py` (`ConcaveConvex`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from conrl._types import Arrays, Float
from conrl.arguments import held, is_int, is_number
from conrl.errors import RunError, SpecError, shown
from conrl.model import ConstrainedMDP
from conrl.oracles import BackwardInduction, SupportOracle, WithNullAction
from conrl.planners.column_generation.cones import Cones
from conrl.planners.column_generation.convex import Separated, maximise_convex
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Optimum
from conrl.planners.feasibility import infeasible, separated
from conrl.planners.result import Checked, Plan, check_arrays, split_prices
from conrl.problem import ConcaveConvex, Knapsack, Linear, Problem, Rows

LARGEST_BOX = 8.0  # times what is needed: a larger box costs precision
CONVEX_TOLERANCE = 1e-7  # the least that is asked of the convex master, which is solved by an interior point method


@dataclass(frozen=True)
class ColumnGeneration:
    """Plan by column generation until bound - objective <= tol * max(1, |objective|), and tol * the largest possible
    total.

    In the concave-convex setting the tolerance is at least 1e-7. `max_sweeps` bounds the work; a plan that stops there
    says so in its status.
    """

    tol: float = 1e-9
    max_sweeps: int = 1000
    name = "column-generation"
    problems = (Linear, ConcaveConvex, Knapsack)

    def __post_init__(self) -> None:
        if not (is_number(self.tol) and self.tol > 0.0):
            raise SpecError(f"tol is {shown(self.tol)}; it must be a positive number")
        if not is_int(self.max_sweeps) or self.max_sweeps < 1:
            raise SpecError(f"max_sweeps is {shown(self.max_sweeps)}; it must be a whole number of at least 1")

    def plan(self, mdp: ConstrainedMDP, problem: Problem, start: Arrays | None = None, relax: bool = False) -> Plan:
        """The best policy within the limits.

        `start`, from a plan of a similar model, saves most of the work. With `relax`, limits that cannot be kept raise
        nothing: of the policies that exceed them least (in the worst row, each in its own unit; of concave-convex
        constraints, in the distance of the value vector) the best is returned, with the status "infeasible".
        """
        model, rows = problem.bind(mdp)
        if start is not None:
            _check_start(start, model.num_costs)
        oracle = BackwardInduction(model)
        if isinstance(problem, ConcaveConvex):
            return self._convex(oracle, problem, start, relax)
        return self._linear(oracle, problem, rows, start, relax)

    def _linear(
        self, exact: BackwardInduction, problem: Problem, rows: Rows, start: Arrays | None, relax: bool
    ) -> Plan:
        """Maximise the reward over the value vectors that keep the rows; of a `Knapsack`, the origin is one of them."""
        num_costs = exact.num_costs
        oracle: SupportOracle = WithNullAction(exact) if isinstance(problem, Knapsack) else exact
        reward = np.eye(1 + num_costs)[0]
        work: dict[str, Any] = {"tol": self.tol, "max_sweeps": self.max_sweeps, "start": start}
        status = None
        try:
            best = maximise(oracle, reward, rows, **work)
        except Conflict as conflict:
            if not relax:
                raise infeasible(exact, rows, conflict) from None
            best, status = maximise(oracle, reward, rows, relax=True, **work), "infeasible"
        assert best.allowance is not None
        checked = Checked(rows, (best.weights @ best.points)[1 + rows.cost], best.allowance, best.multipliers)
        prices = split_prices(rows, best.multipliers, num_costs)
        return self._result(exact.mdp, problem, best, prices, status, checked=checked)

    def _convex(self, oracle: BackwardInduction, problem: ConcaveConvex, start: Arrays | None, relax: bool) -> Plan:
        """Maximise f over the value vectors with g_j <= 0; where there are none, come as near as can be."""
        box = _box(np.stack(oracle.box), start)
        cones = _compile(problem.objective, problem.constraints, box.tobytes(), box.shape[1])
        tol = max(self.tol, CONVEX_TOLERANCE)
        status = None
        try:
            best = maximise_convex(oracle, cones, tol=tol, max_sweeps=self.max_sweeps, start=start)
        except Separated as apart:
            if not relax:
                raise separated(oracle, problem, apart) from None
            best, status = apart.mixture, "infeasible"
        prices = best.multipliers, np.zeros(oracle.num_costs)
        return self._result(oracle.mdp, problem, best, prices, status, box)

    def _result(
        self,
        mdp: ConstrainedMDP,
        problem: Problem,
        best: Optimum,
        prices: tuple[Float, Float],
        status: str | None,
        box: Float | None = None,
        checked: Checked | None = None,
    ) -> Plan:
        """The mixture as a plan: columns that skip the episode make `skip`, the others are the policies."""
        mean = best.weights @ best.means
        oracle, skipped = best.oracle, best.skips
        played = ~skipped if not skipped.all() else np.arange(skipped.size) == 0  # always skipping: any policy will do
        directions, values = best.directions[played], best.means[played]
        if isinstance(oracle, WithNullAction) and skipped.all():
            values = oracle.inner.support_many(directions).means  # of the policy, not of skipping it
        if status is None:
            out_of_sweeps = best.sweeps >= self.max_sweeps
            status = "optimal" if best.converged else "iteration limit" if out_of_sweeps else "inaccurate"
        start = {"directions": best.directions, "multipliers": best.multipliers}
        if box is not None:
            start["box"] = box
        return Plan(
            mdp=mdp,
            problem=problem,
            status=status,
            reward=float(mean[0]),
            costs=mean[1:],
            objective=best.objective,
            bound=best.bound,
            prices=prices[0],
            floor_prices=prices[1],
            iterations=best.asked,
            weights=best.weights[played] / best.weights[played].sum(),
            values=values,
            make_policy=lambda i: oracle.policy(directions[i]),
            skip=float(best.weights[skipped].sum()),
            start=held(start),
            checked=checked,
        )


def _check_start(start: Arrays, num_costs: int) -> None:
    """Refuse what no plan of a model with so many costs left behind."""
    check_arrays(start, "start")
    foreign = "start is not that of column generation, or damaged; leave it out:"
    if not {"directions", "multipliers"} <= start.keys() <= {"directions", "multipliers", "box"}:
        raise RunError(f"{foreign} it holds {', '.join(sorted(start)) or 'nothing'}")
    width = 1 + num_costs
    shapes = {"directions": (*start["directions"].shape[:1], width), "box": (2, width)}
    for name, array in start.items():
        shape = shapes.get(name, (array.size,))
        if array.dtype.kind != "f" or array.shape != shape or not np.isfinite(array).all():
            raise RunError(f"{foreign} its {name} make no sense for {num_costs} costs")
    if (start["multipliers"] < 0.0).any():
        raise RunError(f"{foreign} it has a multiplier below 0")


def _box(needed: Float, start: Arrays | None) -> Float:
    """[2, 1+d]: a box that holds all value vectors; the earlier one if it still fits, as compiling is slow.

    A new one is larger than needed, so that an estimate that moves a little does not leave it.
    """
    if start is None:
        return needed
    size = needed[1] - needed[0]
    if "box" in start:
        lo, hi = start["box"]
        if (lo <= needed[0]).all() and (needed[1] <= hi).all() and (hi - lo <= LARGEST_BOX * size).all():
            return start["box"]
    return np.stack((needed[0] - 0.5 * size, needed[1] + 0.5 * size))


@lru_cache(maxsize=8)
def _compile(objective: Any, constraints: tuple[Any, ...], box: bytes, size: int) -> Cones:
    lo, hi = np.frombuffer(box).reshape(2, size)
    return Cones(objective, constraints, lo, hi)

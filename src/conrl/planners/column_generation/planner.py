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
from conrl.arguments import frozen, read_count, read_positive
from conrl.errors import RunError
from conrl.model import ConstrainedMDP
from conrl.oracles import ModelOracle, SupportOracle, WithNullAction, exact_oracle
from conrl.planners.column_generation.cones import Cones
from conrl.planners.column_generation.convex import Separated, maximise_convex
from conrl.planners.column_generation.expressions import Expressions
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Optimum
from conrl.planners.feasibility import infeasible, separated
from conrl.planners.result import Checked, Plan, check_arrays
from conrl.problem import ConcaveConvex, Knapsack, Linear, Problem, Rows

LARGEST_BOX = 8.0  # times what is needed: a larger box costs precision
MOST_THREADS = 1024
CONVEX_TOLERANCE = 1e-7  # the least that is asked of the convex master, which is solved by an interior point method


@dataclass(frozen=True)
class ColumnGeneration:
    """Plan by column generation until bound - objective <= tol * max(1, |objective|), and tol * the largest possible
    total.

    In the concave-convex setting the tolerance is at least 1e-7. `max_sweeps` bounds the work; a plan that stops there
    says so in its status. `threads`: how many work on a large model or a fleet, by default one for each core; the plan
    is the same to the bit for any number.
    """

    tol: float = 1e-9
    max_sweeps: int = 1000
    threads: int | None = None
    name = "column-generation"
    problems = (Linear, ConcaveConvex, Knapsack)

    def __post_init__(self) -> None:
        read_positive(self.tol, "tol")
        read_count(self.max_sweeps, "max_sweeps")
        if self.threads is not None:
            read_count(self.threads, "threads", most=MOST_THREADS)

    def plan(self, mdp: ConstrainedMDP, problem: Problem, start: Arrays | None = None, relax: bool = False) -> Plan:
        """The best policy within the limits.

        `start`, from a plan of a similar model, saves most of the work. With `relax`, limits that cannot be kept raise
        nothing: of the policies that exceed them least (in the worst row, each in its own unit; of concave-convex
        constraints, in the distance of the value vector) the best is returned, with the status "infeasible".
        """
        model, rows = problem.bind(mdp)
        if start is not None:
            _check_start(start, model.num_costs)
        oracle = exact_oracle(model, self.threads)
        box = None
        if isinstance(problem, ConcaveConvex):
            box = _box(np.stack(oracle.box), start)
            best, relaxed = self._convex(oracle, problem, box, start, relax)
            checked = None
        else:
            best, relaxed = self._linear(oracle, isinstance(problem, Knapsack), rows, start, relax)
            assert best.allowance is not None
            checked = Checked(rows, (best.weights @ best.points)[1 + rows.cost], best.allowance)
        status = "optimal" if best.converged else "iteration limit" if best.exhausted else "inaccurate"
        mean = best.weights @ best.means
        # Columns that skip the episode add up to `skip`, the others are the policies. If all skip, any policy will do.
        skipped = best.skips.tolist()
        places, weights, values, skip = list(range(len(skipped))), best.weights, best.means, 0.0
        if any(skipped):
            places = [i for i in places if not skipped[i]] or [0]
            weights, values, skip = weights[places], values[places], float(weights[best.skips].sum())
            if skipped[places[0]] and isinstance(best.oracle, WithNullAction):
                values = best.oracle.inner.support_many(best.directions[:1]).means  # of the policy, not of skipping it
        remembered = {"directions": best.directions, "multipliers": best.multipliers}
        if box is not None:
            remembered["box"] = box
        return Plan(
            mdp=model,
            problem=problem,
            status="infeasible" if relaxed else status,
            reward=float(mean[0]),
            costs=mean[1:],
            objective=best.objective,
            bound=best.bound,
            multipliers=best.multipliers,
            iterations=best.asked,
            weights=weights / weights.sum(),
            values=values,
            make_policy=lambda i: best.policy(places[i]),
            skip=skip,
            start={name: frozen(array) for name, array in remembered.items()},
            checked=checked,
            columns=(best.weights, best.points),
        ).of(mdp)

    def _linear(
        self, exact: ModelOracle, null: bool, rows: Rows, start: Arrays | None, relax: bool
    ) -> tuple[Optimum, bool]:
        """The best reward of the value vectors that keep the rows, and whether the rows had to be relaxed.

        With `null`, the origin is one of the value vectors.
        """
        oracle: SupportOracle = WithNullAction(exact) if null else exact
        work: dict[str, Any] = {"tol": self.tol, "max_sweeps": self.max_sweeps, "start": start}
        reward = np.eye(1 + exact.num_costs)[0]
        try:
            return maximise(oracle, reward, rows, **work), False
        except Conflict as conflict:
            if not relax:
                raise infeasible(exact, rows, conflict) from None
        return maximise(oracle, reward, rows, relax=True, **work), True

    def _convex(
        self, oracle: ModelOracle, problem: ConcaveConvex, box: Float, start: Arrays | None, relax: bool
    ) -> tuple[Optimum, bool]:
        """The best f of the value vectors with every g_j <= 0; if there are none, what comes nearest, and True."""
        cones = _compile(Expressions(problem.objective, problem.constraints, *box))
        tol = max(self.tol, CONVEX_TOLERANCE)
        try:
            return maximise_convex(oracle, cones, tol=tol, max_sweeps=self.max_sweeps, start=start), False
        except Separated as apart:
            if not relax:
                raise separated(oracle, problem, apart) from None
            return apart.mixture, True


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
def _compile(asked: Expressions) -> Cones:
    return Cones(asked)

"""Column generation: exact, certified, and the default in all three settings.

The algorithms are in `linear.py` (`Linear`, and `Knapsack` with the origin added to the set of value vectors) and
`convex.py` (`ConcaveConvex`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from conrl._types import Float
from conrl.arguments import is_int, is_number
from conrl.errors import SpecError, shown
from conrl.model import ConstrainedMDP
from conrl.oracles import BackwardInduction, SupportOracle, WithNullAction
from conrl.planners.column_generation.cones import Cones
from conrl.planners.column_generation.convex import Separated, maximise_convex
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Optimum
from conrl.planners.feasibility import infeasible, separated
from conrl.planners.result import Checked, Plan, Start, split_prices
from conrl.problem import ConcaveConvex, Knapsack, Linear, Problem

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

    def plan(self, mdp: ConstrainedMDP, problem: Problem, start: Start | None = None, relax: bool = False) -> Plan:
        """The best policy within the limits.

        `start`, from a plan of a similar model, saves most of the work. With `relax`, limits that cannot be kept raise
        nothing: of the policies that exceed them least (in the worst row, each in its own unit; of concave-convex
        constraints, in the distance of the value vector) the best is returned, with the status "infeasible".
        """
        oracle = BackwardInduction(mdp)
        if isinstance(problem, ConcaveConvex):
            return self._convex(oracle, problem, start, relax)
        if isinstance(problem, Knapsack):
            return self._linear(oracle, WithNullAction(oracle), problem, problem.linear(mdp), start, relax)
        return self._linear(oracle, oracle, problem, problem, start, relax)

    def _linear(
        self,
        exact: BackwardInduction,
        oracle: SupportOracle,
        problem: Problem,
        linear: Linear,
        start: Start | None,
        relax: bool,
    ) -> Plan:
        mdp = exact.mdp
        rows = linear.rows(mdp)
        reward_direction = np.zeros(1 + mdp.num_costs)
        reward_direction[0] = 1.0
        work: dict[str, Any] = {"tol": self.tol, "max_sweeps": self.max_sweeps}
        work["start"] = None if start is None else start._asdict()
        status = None
        try:
            found = maximise(oracle, reward_direction, rows, **work)
        except Conflict as conflict:
            if not relax:
                raise infeasible(exact, rows, conflict) from None
            found, status = maximise(oracle, reward_direction, rows, relax=True, **work), "infeasible"
        prices, floor_prices = split_prices(rows, found.multipliers, mdp.num_costs)
        assert found.allowance is not None
        checked = Checked(rows, (found.weights @ found.points)[1 + rows.cost], found.allowance, found.multipliers)
        return self._result(mdp, problem, found, prices, floor_prices, status, checked=checked)

    def _convex(self, oracle: BackwardInduction, problem: ConcaveConvex, start: Start | None, relax: bool) -> Plan:
        mdp = oracle.mdp
        box = _box(np.stack(oracle.box), start)
        cones = _compile(problem.objective, problem.constraints, box.tobytes(), box.shape[1])
        tol = max(self.tol, CONVEX_TOLERANCE)
        work = None if start is None else start._asdict()
        status = None
        try:
            found = maximise_convex(oracle, cones, tol=tol, max_sweeps=self.max_sweeps, start=work)
        except Separated as apart:
            if not relax:
                raise separated(oracle, problem, apart) from None
            found, status = apart.mixture, "infeasible"
        return self._result(mdp, problem, found, found.multipliers, np.zeros(mdp.num_costs), status, box)

    def _result(
        self,
        mdp: ConstrainedMDP,
        problem: Problem,
        found: Optimum,
        prices: Float,
        floor_prices: Float,
        status: str | None = None,
        box: Float | None = None,
        checked: Checked | None = None,
    ) -> Plan:
        mean = found.weights @ found.means
        oracle = found.oracle
        skipped = found.skips
        skip = float(found.weights[skipped].sum())
        played = ~skipped if not skipped.all() else np.arange(skipped.size) == 0  # always skipping: any policy will do
        directions, values = found.directions[played], found.means[played]
        if isinstance(oracle, WithNullAction) and skipped.all():
            values = oracle.inner.support_many(directions).means  # of the policy, not of skipping it
        out_of_sweeps = found.sweeps >= self.max_sweeps
        return Plan(
            mdp=mdp,
            problem=problem,
            status=status or ("optimal" if found.converged else "iteration limit" if out_of_sweeps else "inaccurate"),
            reward=float(mean[0]),
            costs=mean[1:],
            objective=found.objective,
            bound=found.bound,
            prices=prices,
            floor_prices=floor_prices,
            iterations=found.asked,
            weights=found.weights[played] / found.weights[played].sum(),
            values=values,
            make_policy=lambda i: oracle.policy(directions[i]),
            skip=skip,
            start=Start(found.directions, found.multipliers, box),
            checked=checked,
        )


def _box(needed: Float, start: Start | None) -> Float:
    """[2, 1+d]: a box that holds all value vectors; the earlier one if it still fits, as compiling is slow.

    A new one has room to spare, so that an estimate that moves a little does not leave it.
    """
    if start is None:
        return needed
    size = needed[1] - needed[0]
    if start.box is not None:
        lo, hi = start.box
        if (lo <= needed[0]).all() and (needed[1] <= hi).all() and (hi - lo <= LARGEST_BOX * size).all():
            return start.box
    return np.stack((needed[0] - 0.5 * size, needed[1] + 0.5 * size))


@lru_cache(maxsize=8)
def _compile(objective: Any, constraints: tuple[Any, ...], box: bytes, size: int) -> Cones:
    lo, hi = np.frombuffer(box).reshape(2, size)
    return Cones(objective, constraints, lo, hi)

"""Column generation: exact, certified, and the default in all three settings.

The algorithms are in `conrl.planners.support_lp` (`Linear`, and `Knapsack` with the origin added to the set of value
vectors) and `conrl.planners.support_convex` (`ConcaveConvex`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conrl.errors import SpecError
from conrl.model import ConstrainedMDP
from conrl.oracles import BackwardInduction, SupportOracle, WithNullAction
from conrl.planners.cones import Cones
from conrl.planners.conflict import infeasible, separated
from conrl.planners.result import Plan, split_prices
from conrl.planners.support_convex import Separated, maximise_convex
from conrl.planners.support_lp import Conflict, Optimum, maximise
from conrl.policy import Mixture
from conrl.problem import ConcaveConvex, Knapsack, Linear, Problem

Float = NDArray[np.float64]

CONVEX_TOLERANCE = 1e-7  # the least that is asked of the convex master, which is solved by an interior point method


@dataclass(frozen=True)
class ColumnGeneration:
    """Plan by column generation until bound - objective <= tol * max(1, |objective|).

    In the concave-convex setting the tolerance is at least 1e-7. `max_sweeps` bounds the work; a plan that stops there
    says so in its status.
    """

    tol: float = 1e-9
    max_sweeps: int = 1000
    name = "column-generation"
    settings = (Linear, ConcaveConvex, Knapsack)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.tol) and self.tol > 0.0):
            raise SpecError(f"tol is {self.tol}; it must be a positive number")
        if self.max_sweeps < 1:
            raise SpecError(f"max_sweeps is {self.max_sweeps}; it must be at least 1")

    def plan(self, mdp: ConstrainedMDP, problem: Problem) -> Plan:
        oracle = BackwardInduction(mdp)
        if isinstance(problem, ConcaveConvex):
            return self._convex(oracle, problem)
        if isinstance(problem, Knapsack):
            return self._linear(oracle, WithNullAction(oracle), problem, problem.linear(mdp))
        return self._linear(oracle, oracle, problem, problem)

    def _linear(self, exact: BackwardInduction, oracle: SupportOracle, problem: Problem, linear: Linear) -> Plan:
        mdp = exact.mdp
        rows = linear.rows(mdp)
        reward_direction = np.zeros(1 + mdp.num_costs)
        reward_direction[0] = 1.0
        try:
            found = maximise(oracle, reward_direction, rows, tol=self.tol, max_sweeps=self.max_sweeps)
        except Conflict as conflict:
            raise infeasible(exact, rows, conflict) from None
        prices, floor_prices = split_prices(rows, found.multipliers, mdp.num_costs)
        return self._result(oracle, mdp, problem, found, prices, floor_prices)

    def _convex(self, oracle: BackwardInduction, problem: ConcaveConvex) -> Plan:
        mdp = oracle.mdp
        cones = Cones(problem.objective, problem.constraints, *oracle.box)
        tol = max(self.tol, CONVEX_TOLERANCE)
        try:
            found = maximise_convex(oracle, cones, tol=tol, max_sweeps=self.max_sweeps)
        except Separated as apart:
            raise separated(oracle, problem, apart) from None
        return self._result(oracle, mdp, problem, found, found.multipliers, np.zeros(mdp.num_costs))

    def _result(
        self,
        oracle: SupportOracle,
        mdp: ConstrainedMDP,
        problem: Problem,
        found: Optimum,
        prices: Float,
        floor_prices: Float,
    ) -> Plan:
        mean = found.weights @ found.means
        skipped = np.array([isinstance(oracle, WithNullAction) and oracle.skips(w) for w in found.directions])
        skip = float(found.weights[skipped].sum())
        played = ~skipped if not skipped.all() else np.arange(1) == 0  # always skipping: any policy will do

        def make_mixture() -> Mixture:
            weights = found.weights[played] / found.weights[played].sum()
            return Mixture(weights, [oracle.policy(w) for w in found.directions[played]], found.means[played])

        out_of_sweeps = found.sweeps >= self.max_sweeps
        return Plan(
            mdp=mdp,
            problem=problem,
            status="optimal" if found.converged else "iteration limit" if out_of_sweeps else "inaccurate",
            reward=float(mean[0]),
            costs=mean[1:],
            objective=found.objective,
            bound=found.bound,
            prices=prices,
            floor_prices=floor_prices,
            iterations=found.asked,
            make_mixture=make_mixture,
            skip=skip,
        )

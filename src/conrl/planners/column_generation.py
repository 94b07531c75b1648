"""Column generation: exact, certified, and the default. The algorithm is in `conrl.planners.support_lp`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conrl.errors import SpecError
from conrl.model import ConstrainedMDP
from conrl.oracles import BackwardInduction
from conrl.planners.conflict import infeasible
from conrl.planners.result import Plan, split_prices
from conrl.planners.support_lp import Conflict, maximise
from conrl.policy import Mixture
from conrl.problem import Linear


@dataclass(frozen=True)
class ColumnGeneration:
    """Plan by column generation until bound - objective <= tol * max(1, |objective|).

    `max_sweeps` bounds the work; a plan that stops there says so in its status.
    """

    tol: float = 1e-9
    max_sweeps: int = 1000
    name = "column-generation"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.tol) and self.tol > 0.0):
            raise SpecError(f"tol is {self.tol}; it must be a positive number")
        if self.max_sweeps < 1:
            raise SpecError(f"max_sweeps is {self.max_sweeps}; it must be at least 1")

    def plan(self, mdp: ConstrainedMDP, problem: Linear) -> Plan:
        rows = problem.rows(mdp)
        oracle = BackwardInduction(mdp)
        reward_direction = np.zeros(1 + mdp.num_costs)
        reward_direction[0] = 1.0
        try:
            found = maximise(oracle, reward_direction, rows, tol=self.tol, max_sweeps=self.max_sweeps)
        except Conflict as conflict:
            raise infeasible(oracle, rows, conflict) from None
        mean = found.weights @ found.means
        prices, floor_prices = split_prices(rows, found.multipliers, mdp.num_costs)

        def make_mixture() -> Mixture:
            return Mixture(found.weights, [oracle.policy(w) for w in found.directions], found.means)

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
        )

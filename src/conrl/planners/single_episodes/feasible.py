"""Whether limits on single episodes can be kept, and by how much those on expectations could be lowered.

A plan answers both: one without rewards whether some policy keeps the limits, and one that is paid for less of a cost,
its own limit left out, how little of it the others leave.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conrl.arguments import frozen
from conrl.errors import InfeasibleError
from conrl.model import ConstrainedMDP
from conrl.model.limits import resolve_limits
from conrl.oracles import exact_oracle
from conrl.planners.column_generation.planner import ColumnGeneration
from conrl.planners.feasibility import SLACK_TOLERANCE, Feasibility, extremes
from conrl.planners.single_episodes.planner import plan_episodes
from conrl.problem import Linear


def feasibility_of_episodes(mdp: ConstrainedMDP, problem: Linear) -> Feasibility:
    """Whether some policy keeps the limits; by how much each limit on an expectation could be lowered alone."""
    ask = ColumnGeneration().plan
    limits = resolve_limits(problem.limits, mdp.cost_names, "limits")
    least, greatest = extremes(exact_oracle(mdp))
    slack = np.full(mdp.num_costs, np.inf)
    try:
        plan_episodes(ask, _paying(mdp, None), problem, None, False, SLACK_TOLERANCE)
        for i in map(int, np.flatnonzero(np.isfinite(limits))):
            others = limits.copy()
            others[i] = np.inf
            cheapest = plan_episodes(
                ask, _paying(mdp, i), replace(problem, limits=others), None, False, SLACK_TOLERANCE
            )
            slack[i] = max(float(limits[i]) + cheapest.objective, 0.0)
    except InfeasibleError as error:
        return error.feasibility
    return Feasibility(True, least, greatest, slack)


def _paying(mdp: ConstrainedMDP, cost: int | None) -> ConstrainedMDP:
    """The model with a reward of 0, or of less cost, as good as its bonus lets it be."""
    pay, bonus = mdp.pay.copy(), None if mdp.bonus is None else mdp.bonus.copy()
    pay[:, 0] = 0.0 if cost is None else -pay[:, 1 + cost]
    if bonus is not None:
        bonus[:, 0] = 0.0 if cost is None else bonus[:, 1 + cost]
        bonus = frozen(bonus)
    return mdp._copy(pay=frozen(pay), bonus=bonus, _derived={})

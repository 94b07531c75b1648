"""Can the limits be kept, and by how much could each be lowered? `feasibility` asks without planning for reward.

The slack of a limit is what the least of its cost, with the others kept, leaves of it: one search for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from conrl.errors import SpecError
from conrl.model import ConstrainedMDP
from conrl.model.mdp import need_model
from conrl.oracles import exact_oracle
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Met
from conrl.planners.feasibility import SLACK_TOLERANCE, Feasibility, explain, extremes, find_conflict
from conrl.planners.single_episodes.feasible import feasibility_of_episodes
from conrl.problem import Linear, as_problem


def feasibility(
    mdp: ConstrainedMDP,
    limits: ArrayLike | Mapping[str, float] | Linear | None = None,
    floors: ArrayLike | Mapping[str, float] | None = None,
) -> Feasibility:
    """Whether some policy keeps the limits, without planning for reward.

    `limits` and `floors` are as in `Linear` (which may be given itself, also with limits on single episodes); by
    default the model's own limits. Costs that they do not name have no limit, also where the model has one.
    """
    need_model(mdp, "feasibility")
    asked = as_problem(limits, mdp.limits)
    if not isinstance(asked, Linear):
        raise SpecError(f"feasibility takes limits or a Linear problem, not {type(asked).__name__}")
    if asked.floors is not None and floors is not None:
        raise SpecError("floors were given twice: in the problem, and as floors=")
    if floors is not None:
        asked = replace(asked, floors=floors)
    if asked.on_episodes:
        return replace(feasibility_of_episodes(mdp, asked), cost_names=tuple(mdp.cost_names))
    model, rows = asked.bind(mdp)
    oracle, d = exact_oracle(model), mdp.num_costs
    columns = Met()
    conflict = find_conflict(oracle, rows, columns)
    if conflict is not None:
        proof = explain(oracle, rows, conflict)
        return replace(proof, least=proof.least[:d], greatest=proof.greatest[:d], cost_names=tuple(mdp.cost_names))
    least, greatest = (values[:d] for values in extremes(oracle))
    slack = np.full(d, np.inf)
    for r in np.flatnonzero((rows.sign > 0.0) & (rows.cost < d)):
        others = rows.select(np.arange(rows.size) != r)
        direction = -rows.matrix(model.num_costs)[r]
        try:
            least_use = -maximise(oracle, direction, others, tol=SLACK_TOLERANCE, columns=columns).objective
        except Conflict:  # underflow decided otherwise this time: they are kept, and by nothing
            slack[rows.cost[r]] = 0.0
            continue
        slack[rows.cost[r]] = max(float(rows.bound[r]) - least_use, 0.0)
    return Feasibility(True, least, greatest, slack, cost_names=tuple(mdp.cost_names))

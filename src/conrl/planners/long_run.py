"""The best long-run average of a model without end, under limits: what a learner of one unending episode can reach.

It is `plan` of the same model with `Average()` (`conrl.oracles.average`), per H steps, so that it compares with
episodes of that length: limits of H steps, divided by H, are those of a step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conrl._types import Float
from conrl.errors import InfeasibleError, RunError
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Average, need_steps
from conrl.planners.column_generation.planner import ColumnGeneration
from conrl.planners.result import Plan
from conrl.problem import Linear


@dataclass(frozen=True, eq=False)
class LongRun:
    """Per H steps: the best average reward within the limits, and the costs that go with it; and the plan behind."""

    reward: float
    costs: Float  # [d]
    plan: Plan = field(repr=False)  # of a step: divided by H

    @property
    def policy(self) -> Any:
        """A `Stationary` policy; a `Mixture` where no stationary one will do."""
        return self.plan.policy

    @property
    def prices(self) -> Float:
        """[d]: the gain in reward per unit of each limit; the same per step and per H steps."""
        return self.plan.prices


def long_run_optimum(mdp: ConstrainedMDP, limits: Float) -> LongRun:
    """The optimum of the average over an unending episode; limits [d] are per H steps, inf for none."""
    H = need_steps(mdp.horizon, "an average per H steps")
    endless = mdp.replace(horizon=Average())
    try:
        plan = ColumnGeneration().plan(endless, Linear(np.asarray(limits, dtype=np.float64) / H))
    except InfeasibleError as error:
        raise RunError(f"no long-run average keeps the limits: of a step, {error}") from None
    return LongRun(H * plan.reward, H * plan.costs, plan)

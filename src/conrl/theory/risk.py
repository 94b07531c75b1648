"""How often a planned budget is exceeded.

`Knapsack` keeps budget / episodes in expectation. The total over K episodes is a sum of K independent draws, and where
the plan uses all of the budget, about half of the runs exceed it. A learner's guard (`conrl.learners.budget`) keeps
budgets in fact; a plan does not.

The probability is estimated: as the share of simulated runs or, where K is too large for many of them, by the normal
approximation with the exact mean of an episode and the deviation of simulated ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from conrl._types import Float
from conrl.errors import SpecError
from conrl.model.reading import default_cost_names
from conrl.model.rows import rounding_slack
from conrl.notebook import Display, html_of
from conrl.planners.result import Plan
from conrl.problem import Knapsack
from conrl.simulation import simulate
from conrl.wording import line, totals

STEPS = 2_000_000  # to simulate: some tenths of a second
FEWEST_EPISODES = 100  # however long they are
FEWEST_RUNS, MOST_RUNS = 200, 4000  # fewer tell less than the normal approximation, more than anybody needs


class BudgetRisk(NamedTuple):
    """An estimate of how often the total of all episodes exceeds each budget, under the plan and without a guard."""

    exceed: Float  # [d]: as a share of runs; nan where there is no budget
    standard_error: Float  # [d]: of it; nan for the normal approximation
    runs: int  # simulated; 0 for the normal approximation
    pays_means: tuple[str, ...]  # as of `Simulation`: what varies more in fact is exceeded more, or less, often
    cost_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        some = np.flatnonzero(np.isfinite(self.exceed))
        names = self.cost_names or default_cost_names(self.exceed.size)
        shares = totals([names[i] for i in some], self.exceed[some].tolist())
        return line(self, f"exceeded with probability: {shares}", f"{self.runs:,} runs" if self.runs else "normal")

    def _repr_html_(self) -> str:
        columns = {"budget": self.cost_names, "exceeded": self.exceed, "standard error": self.standard_error}
        return html_of(Display("How often the total of all episodes exceeds a budget", columns))


def budget_risk(plan: Plan, seed: int = 0) -> BudgetRisk:
    """The probability that a plan for a `Knapsack`, played for all its episodes, exceeds each budget.

    The episodes are those of `simulate(plan.mdp, plan)`: `plan.policy`, skipped as often as the plan says.
    """
    problem = plan.problem if isinstance(plan, Plan) else None
    if not isinstance(problem, Knapsack):
        given = plan if problem is None else problem
        raise SpecError(f"budget_risk needs a plan for a Knapsack, not for {type(given).__name__}")
    budgets, K = problem.totals(plan.mdp), problem.episodes
    affordable = max(FEWEST_EPISODES, STEPS // plan.mdp.horizon)
    runs = min(MOST_RUNS, affordable // K)
    normal = runs < FEWEST_RUNS
    seen = simulate(plan.mdp, plan, affordable if normal else runs * K, seed)
    if normal:
        deviation = math.sqrt(K) * seen.costs.std(axis=0)
        share = _normal(budgets + rounding_slack(budgets, K * np.abs(plan.costs)) - K * plan.costs, deviation)
        error = np.full(budgets.size, np.nan)
    else:
        totals = seen.costs.reshape(runs, K, -1).sum(axis=1)
        share = (totals > budgets + rounding_slack(budgets, np.abs(totals).max(axis=0))).mean(axis=0)
        likely = (runs * share + 1.0) / (runs + 2.0)  # none of 200 is no proof of never
        error = np.sqrt(likely * (1.0 - likely) / runs)
    some = np.isfinite(budgets)
    return BudgetRisk(
        np.where(some, share, np.nan),
        np.where(some, error, np.nan),
        0 if normal else runs,
        seen.pays_means,
        tuple(plan.mdp.cost_names),
    )


def _normal(margin: Float, deviation: Float) -> Float:
    """[d]: the probability that a normal total is further above its mean than `margin`."""
    z = [math.copysign(math.inf, x) if s == 0.0 else x / s for x, s in zip(margin, deviation, strict=True)]
    return np.array([0.5 * math.erfc(x / math.sqrt(2.0)) for x in z])

"""What runs are compared with: the bounds on the expected totals of one episode, and the best policy within them."""

from __future__ import annotations

from conrl._types import Float
from conrl.errors import InfeasibleError, RunError
from conrl.model import ConstrainedMDP
from conrl.model.limits import resolve_limits
from conrl.planners import Plan
from conrl.planners.long_run import LongRun, long_run_optimum
from conrl.planning import plan
from conrl.problem import ConcaveConvex, Knapsack, Linear, Problem, tightened


def episode_bounds(problem: Problem | None, cost_names: tuple[str, ...]) -> tuple[Float, Float]:
    """Limits [d] and floors [d] on the expected cost of one episode; inf and -inf for none."""
    limits = floors = None
    if isinstance(problem, Linear):
        limits, floors = problem.limits, problem.floors
    upper, lower = resolve_limits(limits, cost_names, "limits"), resolve_limits(floors, cost_names, "floors")
    if isinstance(problem, Knapsack):
        upper = resolve_limits(problem.budgets, cost_names, "budgets") / problem.episodes
    return upper, lower


def best_plan(mdp: ConstrainedMDP, problem: Problem, margin: float = 0.0) -> Plan:
    """What a run in a model is compared with: no part of a budget is held back, but bounds are kept with a margin."""
    asked = _within(problem, mdp, margin)
    try:
        return plan(mdp, Knapsack(asked.budgets, asked.episodes) if isinstance(asked, Knapsack) else asked)
    except InfeasibleError as error:
        raise (InfeasibleError(_too_wide(margin, error), error.feasibility) if margin else error) from None


def best_average(mdp: ConstrainedMDP, problem: Problem, margin: float = 0.0) -> LongRun:
    """The same of one unending episode: the best long-run average."""
    try:
        return long_run_optimum(mdp, episode_bounds(_within(problem, mdp, margin), mdp.cost_names)[0])
    except RunError as error:
        raise (RunError(_too_wide(margin, error)) if margin else error) from None


def _within(problem: Problem, mdp: ConstrainedMDP, margin: float) -> Problem:
    """The problem with every bound moved to the safe side; functions have no bounds to move."""
    return tightened(problem, mdp, margin) if margin and not isinstance(problem, ConcaveConvex) else problem


def _too_wide(margin: float, error: Exception) -> str:
    return f"no policy keeps every limit with a margin of {margin:g} of its size; take a smaller margin ({error})"

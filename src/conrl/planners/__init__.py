"""Which directions to ask an oracle for, and how to combine the answers: `plan` and the planners by name."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from conrl.errors import SpecError, shown, unknown
from conrl.model import ConstrainedMDP
from conrl.model.mdp import need_model
from conrl.planners.column_generation.planner import ColumnGeneration
from conrl.planners.convex_program import ConvexProgram
from conrl.planners.feasibility import Feasibility
from conrl.planners.frontier import Frontier
from conrl.planners.lagrangian import Lagrangian, Trace
from conrl.planners.linear_program import LinearProgram
from conrl.planners.result import Plan
from conrl.problem import Linear, Problem

__all__ = [
    "PLANNERS",
    "ColumnGeneration",
    "ConvexProgram",
    "Feasibility",
    "Frontier",
    "Lagrangian",
    "LinearProgram",
    "Plan",
    "Planner",
    "Trace",
    "plan",
]


class Planner(Protocol):
    """Anything that plans. `name` is how it is called on the command line."""

    name: str

    def plan(self, mdp: ConstrainedMDP, problem: Problem) -> Plan: ...


PLANNERS: dict[str, Any] = {p.name: p for p in (ColumnGeneration, LinearProgram, ConvexProgram, Lagrangian)}


def plan(
    mdp: ConstrainedMDP,
    problem: Problem | None = None,
    planner: str | Planner = ColumnGeneration.name,
    tol: float | None = None,
) -> Plan:
    """The best policy of a model under limits, with a proof of how good it is.

    Args:
        mdp: the model; with a bonus (`mdp.with_bonus`), the best case within it is planned.
        problem: what is asked; by default `Linear(mdp.limits)`.
        planner: a name or an object: `"column-generation"` (default), `"linear-program"`, `"convex-program"`,
            `"lagrangian"` (the paper's heuristic: its costs may exceed the limits).
        tol: stop when bound - objective <= tol * max(1, |objective|); by default the planner's own: 1e-9, for
            `ConcaveConvex` problems 1e-7, of `"convex-program"` 1e-6.

    Raises:
        InfeasibleError: no policy keeps the limits; `error.feasibility` says which of them conflict.
    """
    need_model(mdp, "plan")
    problem = Linear(mdp.limits) if problem is None else problem
    if not isinstance(problem, Problem):
        raise SpecError(f"plan needs a problem such as Linear([0.3]), not {type(problem).__name__}")
    if isinstance(planner, str):
        if planner not in PLANNERS:
            raise SpecError(unknown("planner", planner, PLANNERS))
        planner = PLANNERS[planner]()
    if isinstance(planner, type) or not callable(getattr(planner, "plan", None)):
        raise SpecError(
            f"planner is {shown(planner)}; it must be one of {', '.join(PLANNERS)}, or an object that plans"
        )
    chosen: Any = planner
    if not isinstance(problem, getattr(chosen, "problems", Problem)):
        able = [name for name, kind in PLANNERS.items() if isinstance(problem, kind.problems)]
        asked = type(problem).__name__
        raise SpecError(f"planner {chosen.name!r} does not take {asked} problems; {' or '.join(map(repr, able))} does")
    if tol is not None:
        if not hasattr(chosen, "tol"):
            raise SpecError(f"planner {chosen.name!r} has no tolerance; leave tol out")
        chosen = dataclasses.replace(chosen, tol=tol)
    result: Plan = chosen.plan(mdp, problem)
    return result

"""Which directions to ask an oracle, and how to combine its answers: `plan`, and the planners by name."""

from __future__ import annotations

import dataclasses
import inspect
from functools import partial
from typing import Any, Protocol, overload, runtime_checkable

from conrl._types import Arrays
from conrl.arguments import read_flag
from conrl.errors import SpecError, shown, unknown
from conrl.model import ConstrainedMDP
from conrl.model.fleet import Fleet
from conrl.model.limits import Limits
from conrl.model.mdp import need_model
from conrl.planners.column_generation.planner import ColumnGeneration
from conrl.planners.convex_program import ConvexProgram
from conrl.planners.deterministic.planner import plan_deterministic
from conrl.planners.feasibility import Feasibility
from conrl.planners.fleet import FleetPlan, plan_fleet
from conrl.planners.frontier import Frontier
from conrl.planners.lagrangian import Lagrangian, Trace
from conrl.planners.linear_program import LinearProgram
from conrl.planners.result import Plan, check_arrays
from conrl.planners.single_episodes import plan_episodes
from conrl.problem import Linear, Problem, as_problem

__all__ = [
    "PLANNERS",
    "ColumnGeneration",
    "ConvexProgram",
    "Feasibility",
    "FleetPlan",
    "Frontier",
    "Lagrangian",
    "LinearProgram",
    "Plan",
    "Planner",
    "Trace",
    "plan",
    "plan_deterministic",
]


@runtime_checkable
class Planner(Protocol):
    """Anything that plans. Whatever it wants to remember until the next call is in `Plan.start`, not in itself."""

    @property
    def name(self) -> str:
        """How it is called on the command line."""
        ...

    @property
    def problems(self) -> tuple[type, ...]:
        """The kinds of problems that it takes, such as `(Linear, Knapsack)`."""
        ...

    def plan(self, mdp: ConstrainedMDP, problem: Problem, start: Arrays | None = None, relax: bool = False) -> Plan:
        """The policy. `start` is the `Plan.start` of an earlier call, for a similar model, or None.

        Limits that cannot be kept raise an `InfeasibleError`; with `relax`, the plan that exceeds them least is
        returned instead, with the status "infeasible".
        """
        ...


USUAL_TOLERANCE = 1e-9  # where a planner has none of its own

PLANNERS: dict[str, Any] = {p.name: p for p in (ColumnGeneration, LinearProgram, ConvexProgram, Lagrangian)}


@overload
def plan(
    mdp: ConstrainedMDP,
    problem: Problem | Limits | None = None,
    planner: str | Planner = ColumnGeneration.name,
    tol: float | None = None,
    *,
    limits: Limits | Linear | None = None,
    deterministic: bool = False,
    time_limit: float | None = None,
) -> Plan: ...
@overload
def plan(
    mdp: Fleet,
    problem: Problem | Limits | None = None,
    planner: str | Planner = ColumnGeneration.name,
    tol: float | None = None,
    *,
    limits: Limits | Linear | None = None,
) -> FleetPlan: ...
def plan(
    mdp: ConstrainedMDP | Fleet,
    problem: Problem | Limits | None = None,
    planner: str | Planner = ColumnGeneration.name,
    tol: float | None = None,
    *,
    limits: Limits | Linear | None = None,
    deterministic: bool = False,
    time_limit: float | None = None,
) -> Plan | FleetPlan:
    """The best policy of a model under limits, with a proof of how good it is.

    Args:
        mdp: the model; with a bonus (`mdp.with_bonus`), the best case within it is planned. A `Fleet` is planned by
            column generation, within its own limits or a `Linear`.
        problem: what is asked: limits by cost name or in a list, `{"repairs": 2}` or `[2]`, or a problem such as
            `Knapsack`; by default the model's own limits.
        planner: a name or an object: `"column-generation"` (default), `"linear-program"`, `"convex-program"`,
            `"lagrangian"` (the paper's heuristic: its costs may exceed the limits).
        tol: stop when bound - objective <= tol * max(1, |objective|); by default the planner's own: 1e-9, for
            `ConcaveConvex` problems 1e-7, of `"convex-program"` 1e-6.
        limits: the limits, instead of `problem`.
        deterministic: one policy with one action for each step and state, instead of a mixture; the best one found, by
            branch and bound. Its prices are those of the best mixture.
        time_limit: seconds after which `deterministic` stops; 60 by default. The gap to the best deterministic policy
            may stay open, and the status then says so.

    Raises:
        InfeasibleError: no policy keeps the limits; `error.feasibility` says which of them conflict.
        RunError: no deterministic policy was found in the time.
    """
    if isinstance(mdp, Fleet):
        if read_flag(deterministic, "deterministic") or time_limit is not None:
            raise SpecError(
                "nearly all units of a fleet have one deterministic policy; leave deterministic and time_limit out",
                key=("deterministic",),
            )
        if isinstance(planner, str) and planner == ColumnGeneration.name:
            planner = ColumnGeneration()
        if not isinstance(planner, ColumnGeneration):
            raise SpecError(
                f"fleets are planned by {ColumnGeneration.name!r} alone; leave planner out", key=("planner",)
            )
        ours = planner if tol is None else dataclasses.replace(planner, tol=tol)
        return plan_fleet(mdp, problem, limits, ours.tol, ours.max_sweeps)
    need_model(mdp, "plan")
    asked = as_problem(problem, mdp.limits, limits)
    if read_flag(deterministic, "deterministic"):
        if not (isinstance(planner, str) and planner == ColumnGeneration.name):
            raise SpecError("deterministic=True has a method of its own; leave planner out", key=("planner",))
        return plan_deterministic(mdp, asked, tol, time_limit)
    if time_limit is not None:
        raise SpecError("time_limit goes with deterministic=True; leave it out", key=("time_limit",))
    chosen: Any = read_planner(planner, asked)
    if tol is not None:
        settings = {f.name for f in dataclasses.fields(chosen)} if dataclasses.is_dataclass(chosen) else set()
        if "tol" not in settings:
            raise SpecError(f"planner {chosen.name!r} has no tolerance; leave tol out", key=("tol",))
        chosen = dataclasses.replace(chosen, tol=tol)
    return planned(chosen, mdp, asked)


def read_planner(planner: str | Planner, problem: Problem) -> Planner:
    """The planner that was named or given, if it can plan such a problem."""
    if isinstance(planner, str):
        if planner not in PLANNERS:
            raise SpecError(unknown("planner", planner, PLANNERS), key=("planner",))
        planner = PLANNERS[planner]()
    if isinstance(planner, type) or not isinstance(planner, Planner):
        raise SpecError(
            f"planner is {shown(planner)}; it must be one of {', '.join(PLANNERS)}, or an object with name, problems "
            "and plan(mdp, problem, start=None, relax=False)"
        )
    try:
        inspect.signature(planner.plan).bind(None, problem, start=None, relax=True)
    except TypeError as error:
        raise SpecError(
            f"planner {planner.name!r}: {error}; its plan must be plan(mdp, problem, start=None, relax=False)"
        ) from None
    if not isinstance(problem, planner.problems):
        able = [name for name, kind in PLANNERS.items() if isinstance(problem, kind.problems)]
        asked = type(problem).__name__
        message = f"planner {planner.name!r} does not take {asked} problems; {' or '.join(map(repr, able))} does"
        raise SpecError(message, key=("planner",))
    return planner


def planned(
    planner: Planner, mdp: ConstrainedMDP, problem: Problem, start: Arrays | None = None, relax: bool = False
) -> Plan:
    """What a planner answers; a planner that is not ours must keep to the protocol."""
    if isinstance(problem, Linear) and problem.on_episodes:
        tol = getattr(planner, "tol", None)
        tol = tol if isinstance(tol, float) else USUAL_TOLERANCE
        ask = partial(_answer, planner)
        return plan_episodes(ask, mdp, problem, start, relax, tol)
    return _answer(planner, mdp, problem, start, relax)


def _answer(planner: Planner, mdp: ConstrainedMDP, problem: Problem, start: Arrays | None, relax: bool) -> Plan:
    answer = planner.plan(mdp, problem, start=start, relax=relax)
    if type(planner) in PLANNERS.values():
        return answer
    if not isinstance(answer, Plan):
        raise SpecError(f"planner {planner.name!r} returned {shown(answer)}; it must return a conrl.Plan")
    if answer.start is not None:
        check_arrays(answer.start, f"the start that planner {planner.name!r} returned")
    return answer

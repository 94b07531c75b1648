"""`conrl.plan`: one call for every way to plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, overload

from conrl.arguments import read_flag, read_seed
from conrl.errors import SpecError, shown
from conrl.model import ConstrainedMDP
from conrl.model.fleet import Fleet
from conrl.model.limits import Limits
from conrl.model.mdp import need_model
from conrl.planners import (
    ColumnGeneration,
    FleetPlan,
    Plan,
    Planner,
    plan_deterministic,
    plan_fleet,
    planned,
    read_planner,
)
from conrl.problem import Linear, Problem, as_problem
from conrl.wording import argument, with_arguments


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
    confidence: float | None = None,
    use_unseen: bool = False,
    seed: int = 0,
    report: Callable[[str], None] | None = None,
    threads: int | None = None,
) -> Plan: ...
@overload
def plan(
    mdp: Fleet,
    problem: Problem | Limits | None = None,
    planner: str | Planner = ColumnGeneration.name,
    tol: float | None = None,
    *,
    limits: Limits | Linear | None = None,
    threads: int | None = None,
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
    confidence: float | None = None,
    use_unseen: bool = False,
    seed: int = 0,
    report: Callable[[str], None] | None = None,
    threads: int | None = None,
) -> Plan | FleetPlan:
    """The best policy of a model under limits, with a proof of how good it is.

    Args:
        mdp: the model; with a bonus (`mdp.with_bonus`), the best case within it is planned. A `Fleet` is planned by
            column generation, within its own limits or a `Linear`.
        problem: what is asked: limits by cost name or in a list, `{"repairs": 2}` or `[2]`, or a problem such as
            `Knapsack`; by default the model's own limits. What is given is the whole problem: costs that it does not
            name have no limit, also where the model has one. (`conrl plan --limit` changes one of the model's.)
        planner: a name or an object: `"column-generation"` (default), `"linear-program"`, `"convex-program"`,
            `"lagrangian"` (the paper's heuristic: its costs may exceed the limits).
        tol: stop when bound - objective <= tol * max(1, |objective|); by default the planner's own: 1e-9, for
            `ConcaveConvex` problems 1e-7, of `"convex-program"` 1e-6.
        limits: the limits, instead of `problem`.
        deterministic: one policy with one action for each step and state, instead of a mixture; the best one found, by
            branch and bound. Its prices are those of the best mixture.
        time_limit: seconds after which `deterministic` stops, 60 by default: the gap to the best deterministic policy
            may stay open, and the status then says so. Seconds after which `"linear-program"` gives up, by default
            never.
        confidence: for a model that `conrl.estimate` made of a log: the limits are to be kept with this probability,
            under what the log leaves open (`conrl.estimation.confident` says how). `plan.confidence` tells the outcome.
        use_unseen: whether a plan with confidence may use pairs that the log never has.
        seed: of what a plan with confidence draws.
        report: told, in a few words, what a plan with confidence is trying, and how large a linear program is.
        threads: how many work on a large model (from 800,000 transitions on) or a fleet; by default one for
            each core, and no more than the environment variable NUMBA_NUM_THREADS says. The plan is the same to the bit
            for any number.

    Raises:
        InfeasibleError: no policy keeps the limits; `error.feasibility` says which of them conflict, and how near one
            can come. Where a log does not support the confidence asked for, `error.needs` lists the pairs of which more
            data would help most.
        RunError: no deterministic policy was found in the time.
    """
    usual = isinstance(planner, str) and planner == ColumnGeneration.name
    if confidence is None and (use_unseen is not False or type(seed) is not int or seed):
        extra = {"use_unseen": read_flag(use_unseen, "use_unseen"), "seed": read_seed(seed) != 0}
        _leave_out(f"{{name}} goes with {argument('confidence')}; leave it out", extra)
    if isinstance(mdp, Fleet):
        if confidence is not None:
            raise SpecError("confidence is not for fleets; plan without it", key=("confidence",))
        if report is not None:
            raise SpecError("fleets are planned without a report; leave it out", key=("report",))
        if read_flag(deterministic, "deterministic") or time_limit is not None:
            raise SpecError(
                "nearly all units of a fleet have one deterministic policy; "
                + with_arguments("leave {deterministic} and {time_limit} out"),
                key=("deterministic",),
            )
        if not usual and not isinstance(planner, ColumnGeneration):
            raise SpecError(
                f"fleets are planned by {ColumnGeneration.name!r} alone; leave planner out", key=("planner",)
            )
        ours = _with_settings(ColumnGeneration() if usual else planner, tol=tol, threads=threads)
        return plan_fleet(mdp, problem, limits, ours.tol, ours.max_sweeps, ours.threads)
    need_model(mdp, "plan")
    if report is not None and not callable(report):
        raise SpecError(f"report is {shown(report)}; it must be a function of a text", key=("report",))
    asked = as_problem(problem, mdp.limits, limits)
    given = {"planner": not usual, "tol": tol is not None, "time_limit": time_limit is not None}
    given |= {"threads": threads is not None, "deterministic": read_flag(deterministic, "deterministic")}
    if confidence is not None:
        _leave_out(f"{argument('confidence')} has a method of its own; leave {{name}} out", given)
        from conrl.estimation.confident import plan_confident  # here: few plans need it

        return plan_confident(mdp, asked, confidence, unseen=use_unseen, seed=seed, report=report)
    if given["deterministic"]:
        others = {"planner": given["planner"], "threads": given["threads"], "report": report is not None}
        _leave_out(f"{argument('deterministic', 'True')} has a method of its own; leave {{name}} out", others)
        return plan_deterministic(mdp, asked, tol, time_limit)
    chosen = _with_settings(read_planner(planner, asked), tol=tol, time_limit=time_limit, threads=threads)
    if report is not None:
        if not hasattr(chosen, "reporting"):
            raise SpecError("report goes with confidence or planner='linear-program'; leave it out", key=("report",))
        chosen = chosen.reporting(report)
    return planned(chosen, mdp, asked)


def _leave_out(refusal: str, given: Mapping[str, bool]) -> None:
    """Refuse the first argument that was given; `refusal` has a place for its name."""
    if (name := next((name for name, is_given in given.items() if is_given), None)) is not None:
        raise SpecError(refusal.format(name=argument(name)), key=(name,))


def _with_settings(planner: Any, **settings: Any) -> Any:
    """A planner with the settings that are not None, if it has them."""
    given = {name: value for name, value in settings.items() if value is not None}
    if not given:
        return planner
    known = {f.name for f in dataclasses.fields(planner)} if dataclasses.is_dataclass(planner) else set()
    if (name := next((name for name in given if name not in known), None)) is not None:
        what = {"tol": "tolerance", "time_limit": "time limit", "threads": "number of threads"}[name]
        raise SpecError(f"planner {planner.name!r} has no {what}; leave {argument(name)} out", key=(name,))
    return dataclasses.replace(planner, **given)

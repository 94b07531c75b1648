"""Which directions to ask an oracle, and how to combine its answers: the planners by name, and how one is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

import numpy as np

from conrl._types import Arrays
from conrl.arguments import is_number
from conrl.errors import InfeasibleError, SpecError, shown
from conrl.model import ConstrainedMDP
from conrl.planners.column_generation.planner import ColumnGeneration
from conrl.planners.convex_program import ConvexProgram
from conrl.planners.deterministic.planner import plan_deterministic
from conrl.planners.feasibility import Feasibility
from conrl.planners.fleet import plan_fleet
from conrl.planners.fleet_plan import FleetPlan
from conrl.planners.frontier import Frontier
from conrl.planners.lagrangian import Lagrangian, Trace
from conrl.planners.linear_program import LinearProgram
from conrl.planners.result import MESSAGES, Checked, Plan, check_arrays
from conrl.planners.single_episodes.planner import plan_episodes
from conrl.plugins import Registry, check_problems, named, theirs
from conrl.problem import ConcaveConvex, Linear, Problem

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
    "plan_deterministic",
    "plan_fleet",
    "planned",
    "read_planner",
    "register",
]

F = TypeVar("F")


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
        """The policy, as a plan of this problem. `start` is the `Plan.start` of an earlier call, for a similar model.

        Limits that cannot be kept raise an `InfeasibleError`; with `relax`, the plan that exceeds them least is
        returned instead, with the status "infeasible".
        """
        ...


USUAL_TOLERANCE = 1e-9  # where a planner has none of its own
KEPT = 1e-6  # of a limit, or of the most that one step costs: what a planner that is not ours may exceed it by
EXCEEDING = ("approximate", "inaccurate", "infeasible", "undecided")  # statuses of plans that may exceed limits

OURS: tuple[Any, ...] = (ColumnGeneration, LinearProgram, ConvexProgram, Lagrangian)
PLANNERS: dict[str, Any] = {p.name: p for p in OURS}


def _read(name: str, thing: Any) -> Any:
    """What is kept of a planner that is registered: its class, or a function that makes it."""
    if not callable(thing):
        raise SpecError(f"planner {name!r} is {shown(thing)}; register its class")
    missing = [each for each in ("problems", "plan") if inspect.isclass(thing) and not hasattr(thing, each)]
    if missing:
        raise SpecError(f"planner {name!r}: {thing.__name__} has no {' and no '.join(missing)}")
    named(thing, name)
    return thing


PLUGINS: Registry[Any] = Registry("planner", PLANNERS, _read)


@overload
def register(given: str) -> Callable[[F], F]: ...


@overload
def register(given: F) -> F: ...


def register(given: Any) -> Any:
    """Give a planner a name: `@register`, or `@register("two-stage")`, before a class that is a `Planner`.

    It is made without arguments, or with those that a spec gives it.
    """
    return PLUGINS.decorator(given)


def is_ours(planner: Any) -> bool:
    """Whether a planner is one of our own, whose plans are right as they are: whatever reads them checks no more."""
    return type(planner) in OURS


@cache
def _usual(name: str) -> Any:
    """One of our own as it comes; it cannot be changed, so one is enough."""
    return PLANNERS[name]()


def make_planner(name: Any, **settings: Any) -> Any:
    """The planner of that name, with its settings."""
    if not settings and isinstance(name, str) and name in PLANNERS:
        return _usual(name)
    kind = PLUGINS.find(name, key=("planner",))
    if name in PLANNERS:
        return kind(**settings)
    with theirs(f"planner {name!r} cannot be made", SpecError, ("planner",)):
        return kind(**settings)


def read_planner(given: str | Planner, problem: Problem) -> Planner:
    """The planner that was named or given, if it can plan such a problem."""
    planner: Planner = make_planner(given) if isinstance(given, str) else given
    if not is_ours(planner):
        _check_protocol(planner, problem)
    if not isinstance(problem, planner.problems):
        able = [name for name, kind in PLANNERS.items() if isinstance(problem, kind.problems)]
        asked = type(problem).__name__
        message = f"planner {planner.name!r} does not take {asked} problems; {' or '.join(map(repr, able))} does"
        raise SpecError(message, key=("planner",))
    return planner


def _check_protocol(planner: Any, problem: Problem) -> None:
    """Refuse what does not plan as a planner must."""
    if isinstance(planner, type) or not isinstance(planner, Planner):
        raise SpecError(
            f"planner is {shown(planner)}; it must be one of {', '.join(PLANNERS)}, or an object with name, problems "
            "and plan(mdp, problem, start=None, relax=False)"
        )
    try:
        inspect.signature(planner.plan).bind(None, problem, start=None, relax=True)
    except (TypeError, ValueError) as error:  # other arguments; or a built-in type that does not tell
        raise SpecError(
            f"planner {planner.name!r}: {error}; its plan must be plan(mdp, problem, start=None, relax=False)"
        ) from None
    check_problems(planner.problems, f"planner {planner.name!r}")


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
    if is_ours(planner):
        return planner.plan(mdp, problem, start=start, relax=relax)
    with theirs(f"planner {planner.name!r} failed", passing=(InfeasibleError, MemoryError)):
        answer = planner.plan(mdp, problem, start=start, relax=relax)
    if not isinstance(answer, Plan):
        raise SpecError(f"planner {planner.name!r} returned {shown(answer)}; it must return a conrl.Plan")
    _check_parts(planner, answer)
    own, asked = ((m.horizon, m.num_states, m.num_actions, m.cost_names) for m in (answer.mdp, mdp))
    if own != asked:
        raise SpecError(
            f"planner {planner.name!r} returned a plan of another model: (steps, states, actions, costs) {own}; "
            f"it was asked about {asked}"
        )
    if not np.isfinite([answer.reward, *answer.costs]).all():
        paid = [answer.reward, *answer.costs.tolist()]
        raise SpecError(f"planner {planner.name!r} returned a plan of reward and costs {paid}; they must be finite")
    _check_kept(planner, answer, mdp, problem)
    if answer.start is not None:
        check_arrays(answer.start, f"the start that planner {planner.name!r} returned")
    return answer


def _check_parts(planner: Planner, answer: Plan) -> None:
    """Refuse a plan that has something else in the place of its parts."""
    model, n = answer.mdp, np.size(answer.weights) if isinstance(answer.weights, np.ndarray) else 0
    d = model.num_costs if isinstance(model, ConstrainedMDP) else 0
    parts = {
        "mdp": (isinstance(model, ConstrainedMDP), "a model"),
        "status": (isinstance(answer.status, str) and answer.status in MESSAGES, f"one of {', '.join(MESSAGES)}"),
        "reward": (is_number(answer.reward), "a number"),
        "objective": (is_number(answer.objective), "a number"),
        "bound": (isinstance(answer.bound, (int, float, type(None))), "a number or None"),
        "skip": (is_number(answer.skip) and 0.0 <= answer.skip <= 1.0, "a probability"),
        "costs": (_is_array(answer.costs, d), f"an array of {d} numbers"),
        "weights": (n > 0 and _is_array(answer.weights, n), "an array of numbers"),
        "values": (_is_array(answer.values, n, 1 + d), f"an array of {n} x {1 + d} numbers"),
        "prices": (_is_array(answer.prices, *np.shape(answer.prices)[:1]), "an array of numbers"),
        "floor_prices": (_is_array(answer.floor_prices, *np.shape(answer.floor_prices)[:1]), "an array of numbers"),
        "make_policy": (callable(answer.make_policy), "a function"),
        "checked": (answer.checked is None or isinstance(answer.checked, Checked), "Checked or None"),
    }
    for part, (sound, wanted) in parts.items():
        if not sound:
            given = shown(getattr(answer, part))
            raise SpecError(f"planner {planner.name!r} returned a plan whose {part} is {given}; expected {wanted}")


def _is_array(given: Any, *shape: int) -> bool:
    """Whether it is an array of floats of that shape."""
    return isinstance(given, np.ndarray) and given.dtype.kind == "f" and given.shape == shape


def _check_kept(planner: Planner, answer: Plan, mdp: ConstrainedMDP, problem: Problem) -> None:
    """Refuse a plan of another problem, and one that exceeds a limit and does not say so."""
    if not _same(answer.problem, problem, mdp):
        raise SpecError(
            f"planner {planner.name!r} returned a plan of another problem, {shown(answer.problem)}; it was asked about "
            f"{shown(problem)}: if the plan keeps that too, return dataclasses.replace(plan, problem=problem)"
        )
    if answer.status in EXCEEDING or mdp.bonus is not None:  # with a bonus, limits are kept in the best case
        return
    rows = problem.bind(mdp)[1]
    rows = rows.select(rows.cost < mdp.num_costs)  # those of single steps are on costs that the plan does not list
    value = answer.costs[rows.cost]
    size = np.maximum(np.abs(rows.bound), np.abs(mdp.pay[:, 1:]).max(axis=0)[rows.cost])
    for i in np.flatnonzero(rows.sign * value > rows.bound + KEPT * size):
        raise SpecError(
            f"planner {planner.name!r} returned a plan that does not keep {rows.names[i]}: it costs {value[i]:.6g}. "
            f"If it need not, its status is 'approximate', not {answer.status!r}"
        )


def _same(one: Any, other: Problem, mdp: ConstrainedMDP) -> bool:
    """Whether two problems ask for the same, of functions that they are the same ones."""
    if isinstance(other, ConcaveConvex):
        return bool(one == other)
    return one is other or (type(one) is type(other) and one.bind(mdp)[1].equals(other.bind(mdp)[1]))

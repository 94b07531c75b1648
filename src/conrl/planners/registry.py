"""The planners by name, ours and those of plug-ins, and what a planner is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

from conrl._types import Arrays
from conrl.errors import SpecError, shown
from conrl.foreign import theirs
from conrl.model import ConstrainedMDP
from conrl.planners.column_generation.planner import ColumnGeneration
from conrl.planners.convex_program import ConvexProgram
from conrl.planners.lagrangian import Lagrangian
from conrl.planners.linear_program import LinearProgram
from conrl.planners.result import Plan
from conrl.plugins import Registry, check_problems, named
from conrl.problem import Problem

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
            f"planner is {shown(planner)}; it must be one of {', '.join(PLUGINS.names())}, or an object with name, "
            "problems and plan(mdp, problem, start=None, relax=False)"
        )
    try:
        inspect.signature(planner.plan).bind(None, problem, start=None, relax=True)
    except (TypeError, ValueError) as error:  # other arguments; or a built-in type that does not tell
        raise SpecError(
            f"planner {planner.name!r}: {error}; its plan must be plan(mdp, problem, start=None, relax=False)"
        ) from None
    check_problems(planner.problems, f"planner {planner.name!r}")

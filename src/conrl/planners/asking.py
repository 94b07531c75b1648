"""A planner asked, and what one that is not ours answers: a plan of this model and problem, which keeps the limits."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from conrl._types import Arrays
from conrl.arguments import is_number
from conrl.errors import InfeasibleError, SpecError, shown
from conrl.foreign import theirs
from conrl.model import ConstrainedMDP
from conrl.planners.registry import Planner, is_ours
from conrl.planners.result import MESSAGES, Checked, Plan, check_arrays
from conrl.planners.single_episodes.planner import plan_episodes
from conrl.problem import ConcaveConvex, Linear, Problem

USUAL_TOLERANCE = 1e-9  # where a planner has none of its own
KEPT = 1e-6  # of a limit, or of the most that one step costs: what a planner that is not ours may exceed it by
EXCEEDING = ("approximate", "inaccurate", "infeasible", "undecided")  # statuses of plans that may exceed limits


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

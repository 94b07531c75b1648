"""A planner asked, and what one that is not ours answers: a plan of this model and problem, which keeps the limits.

It is judged by its policies, which are evaluated, and never by what it says of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from conrl._types import Arrays, Float
from conrl.arguments import is_number
from conrl.errors import InfeasibleError, SpecError, shown
from conrl.foreign import theirs
from conrl.model import ConstrainedMDP
from conrl.planners.registry import Planner, is_ours
from conrl.planners.result import MESSAGES, Checked, Plan, check_arrays
from conrl.planners.single_episodes.planner import plan_episodes
from conrl.planners.verified import KEPT, num_multipliers, verified
from conrl.policy import SUM_TOLERANCE, Policy
from conrl.problem import ConcaveConvex, Knapsack, Linear, Problem

USUAL_TOLERANCE = 1e-9  # where a planner has none of its own
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
    """The plan of a planner; of one that is not ours, only after it was looked at."""
    if is_ours(planner):
        return planner.plan(mdp, problem, start=start, relax=relax)
    with theirs(f"planner {planner.name!r} failed", passing=(InfeasibleError, MemoryError)):
        answer = planner.plan(mdp, problem, start=start, relax=relax)
    if not isinstance(answer, Plan):
        raise SpecError(f"planner {planner.name!r} returned {shown(answer)}; it must return a conrl.Plan")
    _check_parts(planner, answer, problem)
    own, asked = ((m.horizon, m.num_states, m.num_actions, m.cost_names) for m in (answer.mdp, mdp))
    if own != asked:
        raise SpecError(
            f"planner {planner.name!r} returned a plan of another model: (steps, states, actions, costs) {own}; "
            f"it was asked about {asked}"
        )
    if not np.isfinite([answer.reward, *answer.costs]).all():
        paid = [answer.reward, *answer.costs.tolist()]
        raise SpecError(f"planner {planner.name!r} returned a plan of reward and costs {paid}; they must be finite")
    if not _same(answer.problem, problem, mdp):
        raise SpecError(
            f"planner {planner.name!r} returned a plan of another problem, {shown(answer.problem)}; it was asked about "
            f"{shown(problem)}: if the plan keeps that too, return dataclasses.replace(plan, problem=problem)"
        )
    if answer.start is not None:
        check_arrays(answer.start, f"the start that planner {planner.name!r} returned")
    return _judged(planner, answer, mdp, problem)


def _check_parts(planner: Planner, answer: Plan, problem: Problem) -> None:
    """Refuse a plan that has something else in the place of its parts."""
    model, n = answer.mdp, np.size(answer.weights) if isinstance(answer.weights, np.ndarray) else 0
    d = model.num_costs if isinstance(model, ConstrainedMDP) else 0
    checked = answer.checked
    count = checked.rows.size if isinstance(checked, Checked) else np.size(answer.multipliers)
    count = len(problem.constraints) if isinstance(problem, ConcaveConvex) else count
    parts = {
        "mdp": (isinstance(model, ConstrainedMDP), "a model"),
        "status": (isinstance(answer.status, str) and answer.status in MESSAGES, f"one of {', '.join(MESSAGES)}"),
        "reward": (is_number(answer.reward), "a number"),
        "objective": (is_number(answer.objective), "a number"),
        "bound": (answer.bound is None or _is_bound(answer.bound), "a number or None"),
        "skip": (
            is_number(answer.skip) and 0.0 <= answer.skip <= float(isinstance(problem, Knapsack)),
            "a probability, and 0 but for a Knapsack problem",
        ),
        "costs": (_is_array(answer.costs, d), f"an array of {d} numbers"),
        "weights": (n > 0 and _is_array(answer.weights, n) and _is_lottery(answer.weights), "probabilities, sum 1"),
        "values": (_is_array(answer.values, n, 1 + d), f"an array of {n} x {1 + d} numbers"),
        "multipliers": (
            _is_array(answer.multipliers, count) and bool(np.isfinite(answer.multipliers).all()),
            f"{count} finite numbers",
        ),
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


def _is_lottery(weights: Float) -> bool:
    """Whether these are probabilities, one of which is drawn."""
    return bool((weights >= 0.0).all()) and abs(float(weights.sum()) - 1.0) <= SUM_TOLERANCE


def _is_bound(given: Any) -> bool:
    """Whether it is a number, or an infinity."""
    return isinstance(given, (int, float, np.floating)) and not isinstance(given, bool) and not np.isnan(given)


def _judged(planner: Planner, answer: Plan, mdp: ConstrainedMDP, problem: Problem) -> Plan:
    """The plan with what its policies come to, as we compute it; refused if it says otherwise, or exceeds a limit and
    does not say so. Its bound stays its own claim, and must not be below what its policy reaches."""
    whose = f"planner {planner.name!r} returned a plan"
    with theirs(f"{whose} whose policies cannot be made"):
        policies = [answer.make_policy(i) for i in range(answer.weights.size)]
    if wrong := [policy for policy in policies if not isinstance(policy, Policy)]:
        raise SpecError(f"{whose} whose make_policy makes {shown(wrong[0])}; expected a conrl.Policy")
    with theirs(f"{whose} whose policy cannot be evaluated"):
        found = verified(mdp, problem, answer.weights, policies, answer.skip)
    checked = found.checked
    multipliers = np.zeros(num_multipliers(mdp, problem))
    if checked is not None and answer.checked is not None:  # of a problem that is the same or asks for more
        multipliers = checked.rows.carry(answer.checked.rows, answer.multipliers)
    elif answer.multipliers.size == multipliers.size:
        multipliers = answer.multipliers
    objective = answer.objective if found.objective is None else found.objective
    if (broken := found.broken) and answer.status not in EXCEEDING:
        name, value = next(iter(broken.items()))
        raise SpecError(
            f"{whose} that does not keep {name}: it costs {value:.6g}. "
            f"If it need not, its status is 'approximate', not {answer.status!r}"
        )
    for what, said, true, size in (
        *zip(
            ("reward", *map("cost of {!r}".format, mdp.cost_names)),
            (answer.reward, *answer.costs),
            found.value,
            found.size,
            strict=True,
        ),
        ("objective", answer.objective, objective, max(found.size[0], abs(objective))),
        *(
            (f"value vector of policy {i}", said, true, max(size, abs(true)))
            for i in range(len(policies))
            for said, true, size in zip(answer.values[i], found.values[i], found.size, strict=True)
        ),
    ):
        if not abs(said - true) <= KEPT * size:
            raise SpecError(
                f"{whose} whose {what} is {said:.10g}; of its policy it is {true:.10g}. "
                "conrl.planners.plan_of(mdp, problem, policy) makes a plan of what a policy comes to"
            )
    bound = answer.bound
    if bound is not None and answer.status not in EXCEEDING:
        bought = 0.0
        if checked is not None:  # what exceeding limits within their allowance can be worth
            bought = float(multipliers @ checked.excess)
        if not objective <= bound + KEPT * max(found.size[0], abs(objective)) + bought:
            raise SpecError(f"{whose} whose bound is {bound:.10g}; its own policy reaches {objective:.10g}")
        bound = max(bound, objective)
    return replace(
        answer,
        mdp=mdp,
        problem=problem,
        reward=float(found.value[0]),
        costs=found.value[1:],
        objective=objective,
        bound=bound,
        values=found.values,
        make_policy=policies.__getitem__,
        multipliers=multipliers,
        checked=checked,
        columns=None,
        pricing=None,
        claimed_by=planner.name,
    )


def _same(one: Any, other: Problem, mdp: ConstrainedMDP) -> bool:
    """Whether two problems ask for the same, of functions that they are the same ones."""
    if isinstance(other, ConcaveConvex):
        return bool(one == other)
    return one is other or (type(one) is type(other) and one.bind(mdp)[1].equals(other.bind(mdp)[1]))

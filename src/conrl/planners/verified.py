"""What a policy makes of a problem, computed from the policy alone: how planners that are not ours fill in their plans
(`plan_of`), and what their plans are judged by (`conrl.planners.asking`).

With occupation measure rho of the policy, a value vector is z = sum rho (r, c). Where the model has a bonus b, the best
case counts: the objective is z_0 + sum rho b_0, a limit is on z_i - sum rho b_i, a floor on z_i + sum rho b_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Arrays, Float
from conrl.arguments import float_array, is_number
from conrl.errors import SpecError, shown
from conrl.mixture import Mixture, parts_of
from conrl.model import ConstrainedMDP
from conrl.model.mdp import need_model
from conrl.oracles import exact_oracle
from conrl.planners.column_generation.cones import Cones
from conrl.planners.column_generation.expressions import Expressions
from conrl.planners.result import MESSAGES, Checked, Plan
from conrl.policy import Policy
from conrl.problem import ConcaveConvex, Knapsack, Problem

KEPT = 1e-6  # of a limit or total, or of the most that one step pays: what solvers of linear programs are off by


class Verified(NamedTuple):
    """What policies that are mixed come to."""

    values: Float  # [n, 1+d]: their value vectors, without bonus
    value: Float  # [1+d]: of all episodes, those that are skipped as zeros
    objective: float | None  # in the best case; None where nothing tells it (functions, with a bonus)
    checked: Checked | None  # None for concave-convex problems
    excess: Float  # of each constraint function, beyond rounding
    size: Float  # [1+d]: what rounding is in proportion to

    @property
    def broken(self) -> dict[str, float]:
        """Each row and constraint that is exceeded by more than rounding, with its value or excess."""
        found = {f"constraint {j + 1} <= 0": float(x) for j, x in enumerate(self.excess) if not x <= 0.0}
        if self.checked is not None:
            rows, value, allowance = self.checked
            over = ~(rows.sign * value <= rows.bound + allowance)
            found |= {rows.names[i]: float(value[i]) for i in np.flatnonzero(over)}
        return found


def verified(
    mdp: ConstrainedMDP,
    problem: Problem,
    weights: Float,
    policies: Sequence[Policy],
    skip: float = 0.0,
) -> Verified:
    """Evaluate policies, and hold them against every row of the problem: limits, floors, and those of single steps."""
    model, rows = problem.bind(mdp)
    d, occupied = mdp.num_costs, np.zeros((1, model.num_pairs))
    values = np.empty((len(policies), 1 + model.num_costs))
    for i, (weight, policy) in enumerate(zip(weights.tolist(), policies, strict=True)):
        one = np.zeros((1, model.num_pairs))
        policy.add_occupation(model, 1.0, one)
        values[i] = one[0] @ model.pay
        occupied += (1.0 - skip) * weight * one
    value = (1.0 - skip) * (weights @ values)
    moved = np.zeros(value.size) if model.bonus is None else occupied[0] @ model.bonus
    size = np.maximum(np.abs(value), np.abs(model.pay).max(axis=0))
    if isinstance(problem, ConcaveConvex):
        objective, excess = _functions(model, problem, value)
        return Verified(values, value, objective, None, excess, size)
    own = 1 + rows.cost
    allowance = KEPT * np.maximum(np.abs(rows.bound), np.abs(model.pay).max(axis=0)[own])
    checked = Checked(rows, value[own] - rows.sign * moved[own], allowance)
    none = np.zeros(0)
    return Verified(values[:, : 1 + d], value[: 1 + d], float(value[0] + moved[0]), checked, none, size[: 1 + d])


def _functions(mdp: ConstrainedMDP, problem: ConcaveConvex, value: Float) -> tuple[float | None, Float]:
    """The objective, and by how much more than rounding each constraint is exceeded."""
    if mdp.bonus is not None:  # their best case is a program of its own
        return None, np.zeros(0)
    cones = Cones(Expressions(problem.objective, problem.constraints, *exact_oracle(mdp).box))
    objective, constraints = cones.value(value)
    return objective, constraints - cones.allowance(value, np.zeros(value.size), KEPT, KEPT)


def plan_of(
    mdp: ConstrainedMDP,
    problem: Problem,
    policy: Policy | Mixture,
    bound: float | None = None,
    status: str = "approximate",
    *,
    skip: float = 0.0,
    multipliers: ArrayLike | None = None,
    start: Arrays | None = None,
    iterations: int = 0,
) -> Plan:
    """The `Plan` of a policy: it is evaluated, and held against every limit. For planners of your own.

    Args:
        mdp, problem: as the planner was asked.
        policy: a `Policy` for each step, a `Stationary` one where the model has no horizon, or a `Mixture`.
        bound: an upper bound on what any policy within the limits can reach, if the planner knows one. With a bonus, on
            the best case.
        status: "optimal" of a plan that is the best, "approximate" of one that may exceed limits, "infeasible" of one
            that exceeds limits that cannot be kept. A plan that exceeds a limit and says neither is refused by whoever
            asked for it.
        skip: the probability that a whole episode is skipped, in a `Knapsack` problem.
        multipliers: of each row of `problem.bind(mdp)` (each constraint of a `ConcaveConvex` problem), those that prove
            the bound; by default 0. The plan's prices do not depend on them.
        start: what the planner wants to be told when it plans for a similar model; arrays by name.
        iterations: how many it took.
    """
    need_model(mdp, "plan_of")
    if not isinstance(policy, (Policy, Mixture)):
        raise SpecError(f"policy is {shown(policy)}; expected a conrl.Policy or a conrl.Mixture")
    if status not in MESSAGES:
        raise SpecError(f"status is {shown(status)}; expected one of {', '.join(MESSAGES)}")
    if not is_number(skip) or not 0.0 <= skip <= 1.0 or (skip and not isinstance(problem, Knapsack)):
        raise SpecError(f"skip is {shown(skip)}; it must be a probability, of a Knapsack problem, and else 0")
    proof = _multipliers(multipliers, num_multipliers(mdp, problem))
    parts = parts_of(policy)
    weights, policies = np.array([part.weight for part in parts]), [part.policy for part in parts]
    found = verified(mdp, problem, weights, policies, float(skip))
    objective = float(found.value[0]) if found.objective is None else found.objective
    return Plan(
        mdp=mdp,
        problem=problem,
        status=status,
        reward=float(found.value[0]),
        costs=found.value[1:],
        objective=objective,
        bound=bound,
        multipliers=proof,
        iterations=iterations,
        weights=weights,
        values=found.values,
        make_policy=policies.__getitem__,
        skip=float(skip),
        start=start,
        checked=found.checked,
    )


def num_multipliers(mdp: ConstrainedMDP, problem: Problem) -> int:
    """How many multipliers a plan has: one for each row or constraint."""
    return len(problem.constraints) if isinstance(problem, ConcaveConvex) else problem.bind(mdp)[1].size


def _multipliers(given: Any, count: int) -> Float:
    """[count]: what was given, or zeros."""
    if given is None:
        return np.zeros(count)
    multipliers = np.array(float_array(given, "multipliers"))
    if multipliers.shape != (count,) or not (np.isfinite(multipliers) & (multipliers >= 0.0)).all():
        raise SpecError(f"multipliers is {shown(given)}; expected {count} numbers, none below 0")
    return multipliers

"""What a plan promises, judged in exact arithmetic (`exact`): `judge` lists what is broken, with numbers.

Allowance of row r (a limit or a floor): `ALLOWED` x |bound_r| + rounding_r. The rounding of coordinate i (reward or
cost) is that of evaluating it: `ROUNDING_UNITS` x H x 2^-52 x the greatest expected total of |pay_i| of any policy, and
what underflow can hide. No allowance at all is made for the bound: it is at least the exact optimum, or it is wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from exact import (
    Answer,
    Model,
    Row,
    best,
    dual_bound,
    farkas,
    least_relaxation,
    relaxed,
    reward_direction,
    rows_of,
    total,
)

import conrl

ALLOWED = Fraction(1, 10**9)
ROUNDING_UNITS = 64
EPSILON = Fraction(1, 2**52)
SMALLEST = Fraction(1, 2**1022)  # of a normal double: products below it lose their digits
SLACKS = 4
TOLERANCE = Fraction(1, 10**9)  # of `plan` by default: optimum - objective <= this x max(1, |objective|)

Problem = conrl.Linear | conrl.Knapsack


class Truth:
    """The exact answers to a question, each found when first asked for."""

    def __init__(self, mdp: conrl.ConstrainedMDP, problem: Problem) -> None:
        self.mdp, self.problem = mdp, problem
        self.model = Model(mdp, origin=isinstance(problem, conrl.Knapsack))
        self.rows: list[Row] = rows_of(problem, mdp)

    @cached_property
    def answer(self) -> Answer:
        return best(self.model, self.rows)

    @property
    def optimum(self) -> Fraction | None:
        return self.answer.optimum

    @cached_property
    def rounding(self) -> list[Fraction]:
        """[1+d]: what evaluating the reward or a cost may err by."""
        mdp = self.mdp
        pay = np.abs(mdp.pay).max(axis=0) + (0.0 if mdp.bonus is None else mdp.bonus.max(axis=0))
        hidden = SMALLEST * mdp.horizon * mdp.num_pairs
        return [
            ROUNDING_UNITS * mdp.horizon * EPSILON * size + hidden * (1 + Fraction(float(largest)))
            for size, largest in zip(self.model.sizes, pay, strict=True)
        ]

    @property
    def allowances(self) -> list[Fraction]:
        """[R]: by how much a row may be exceeded."""
        return [ALLOWED * abs(h) + self.rounding[1 + c] for c, _, h in self.rows]

    @cached_property
    def relaxation(self) -> Fraction | None:
        """In units of the allowances, by how much all rows must be raised at least; None if that cannot help."""
        return least_relaxation(self.model, self.rows, self.allowances)


def attempt(ask: Callable[[], Any]) -> tuple[Any, list[str]]:
    """An answer, or the exception instead of one; and complaints about warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = ask()
        except Exception as error:
            answer = error
    return answer, [f"warning: {w.category.__name__}: {w.message}" for w in caught]


def judge(
    mdp: conrl.ConstrainedMDP,
    problem: Problem,
    outcome: conrl.Plan | Exception,
    truth: Truth | None = None,
    tol: Fraction = TOLERANCE,
) -> list[str]:
    """What is wrong with a plan, or with the error that came instead of one."""
    truth = Truth(mdp, problem) if truth is None else truth
    if isinstance(outcome, conrl.InfeasibleError):
        return _judge_infeasible(truth, outcome.feasibility)
    if isinstance(outcome, Exception):
        return [f"{type(outcome).__name__}: {outcome}"]
    numbers = (outcome.reward, *outcome.costs, outcome.objective, outcome.bound)
    if not np.isfinite(np.array(numbers, dtype=float)).all():
        return [f"not finite: reward, costs, objective, bound are {numbers}"]
    return [*_judge_values(truth, outcome), *_judge_rows(truth, outcome), *_judge_optimality(truth, outcome, tol)]


def _judge_values(truth: Truth, plan: conrl.Plan) -> list[str]:
    """The Markov policy and the mixture keep the rows, and are worth what is said."""
    mdp, model = truth.mdp, truth.model
    complaints = []
    played = 1 - Fraction(plan.skip)
    if not 0 <= played <= 1:
        complaints.append(f"skip is {plan.skip!r}")
    stated = [Fraction(row.allowance) for row in getattr(plan, "rows", ())] or truth.allowances
    parts = [model.value(p) for p in plan.mixture.policies]
    shares = [Fraction(float(w)) for w in plan.mixture.weights]
    whole = total(shares)
    mixed = tuple(
        [total(w * part[k][i] for w, part in zip(shares, parts, strict=True)) / whole for i in range(model.size)]
        for k in range(2)
    )
    for name, (mean, moved) in (("policy", model.value(plan.policy)), ("mixture", mixed)):
        mean, moved = [played * x for x in mean], [played * x for x in moved]
        for (c, s, h), allowed, said in zip(truth.rows, truth.allowances, stated, strict=True):
            over, room = s * mean[1 + c] - moved[1 + c] - h, min(allowed, said)
            if over > room:
                complaints.append(
                    f"{name} breaks {mdp.cost_names[c]} {'<=' if s > 0 else '>='} {float(s * h):.17g} by {show(over)}, "
                    f"{show(over / room)} x what is allowed; status {plan.status}"
                )
        for i, (x, y, room) in enumerate(zip([plan.reward, *plan.costs], mean, truth.rounding, strict=True)):
            if abs(Fraction(float(x)) - y) > room:
                what = "reward" if i == 0 else f"cost {mdp.cost_names[i - 1]}"
                complaints.append(f"{what} of the {name} is said to be {x!r}, off by {show(Fraction(float(x)) - y)}")
        highest = mean[0] + moved[0]
        lowest = mean[0] - moved[0]
        objective = Fraction(plan.objective)
        if not lowest - truth.rounding[0] <= objective <= highest + truth.rounding[0]:
            complaints.append(f"the objective {plan.objective!r} is not that of the {name}, {show(highest)}")
    for j, (value, part) in enumerate(zip(plan.values, parts, strict=True)):
        off = [Fraction(float(x)) - y for x, y in zip(value, part[0], strict=True)]
        complaints += [
            f"values[{j}, {i}] is {value[i]!r}, off by {show(x)}"
            for i, x in enumerate(off)
            if abs(x) > truth.rounding[i]
        ]
    return complaints


def _judge_rows(truth: Truth, plan: conrl.Plan) -> list[str]:
    """What is said of each row: no allowance beyond the contract's, and the excess is that of the value."""
    complaints = []
    for row, (_, s, h), room in zip(getattr(plan, "rows", ()), truth.rows, truth.allowances, strict=False):
        due = 2 * ALLOWED * abs(h) + 256 * (room - ALLOWED * abs(h))  # a proven bound on rounding may be generous
        if Fraction(row.allowance) > due:
            complaints.append(
                f"{row.name} is allowed {row.allowance!r}, {show(Fraction(row.allowance) / due)} x its due"
            )
        over = max(s * Fraction(row.value) - h, Fraction(0))
        if abs(Fraction(row.excess) - over) > 4 * EPSILON * (abs(h) + abs(over)):
            complaints.append(f"{row.name}: the excess of {row.value!r} is said to be {row.excess!r}")
    return complaints


def _judge_optimality(truth: Truth, plan: conrl.Plan, tol: Fraction) -> list[str]:
    complaints = []
    if plan.gap < 0.0:
        complaints.append(f"negative gap {plan.gap!r}; status {plan.status}")
    rows = truth.rows
    multipliers = [Fraction(x) for x in plan.multipliers.tolist()]
    if min(multipliers, default=Fraction(0)) < 0:
        complaints.append(f"a multiplier is negative: {plan.multipliers}")
    short = dual_bound(truth.model, reward_direction(truth.model), rows, multipliers) - Fraction(plan.bound)
    if short > 0:
        complaints.append(f"the multipliers do not prove the bound {plan.bound!r}: {show(short)} is missing")
    optimum = truth.optimum
    if optimum is None:
        # Within the allowances that is all right, which the check of the rows has shown with the plan itself.
        return complaints
    short = optimum - Fraction(plan.bound)
    if short > 0:
        complaints.append(f"bound {plan.bound!r} is below the optimum by {show(short)}; status {plan.status}")
    if plan.status == "optimal":
        missing = optimum - Fraction(plan.objective)
        room = tol * max(Fraction(1), abs(Fraction(plan.objective))) + truth.rounding[0]
        if missing > room:
            complaints.append(f"called optimal, but {show(missing)} below the optimum {show(optimum)}")
    return complaints


def _judge_infeasible(truth: Truth, found: conrl.Feasibility) -> list[str]:
    """Nothing feasible is called infeasible, and the proof is one: exactly."""
    if truth.optimum is not None:
        return [f"called infeasible ({', '.join(found.conflict)}), but it is feasible: optimum {show(truth.optimum)}"]
    return _judge_conflict(truth, found)


def _judge_conflict(truth: Truth, found: conrl.Feasibility) -> list[str]:
    problem = truth.problem
    linear = problem.linear(truth.mdp) if isinstance(problem, conrl.Knapsack) else problem
    names = linear.rows(truth.mdp).names
    if not found.conflict or found.multipliers is None or not set(found.conflict) <= set(names):
        return [f"the conflict {found.conflict} is not one of {names}"]
    chosen = [names.index(name) for name in found.conflict]
    rows = [truth.rows[r] for r in chosen]
    multipliers = [Fraction(float(x)) for x in found.multipliers]
    complaints = []
    if min(multipliers) < 0:
        complaints.append(f"a multiplier is negative: {found.multipliers}")
    proven = farkas(truth.model, rows, multipliers)
    if proven <= 0:
        complaints.append(f"the multipliers of {found.conflict} prove {show(proven)}, not more than 0")
    room = total(
        m * (truth.rounding[1 + c] + 16 * EPSILON * abs(h)) for m, (c, _, h) in zip(multipliers, rows, strict=True)
    )
    over = Fraction(float(found.violation)) - proven
    if over > room:
        complaints.append(f"the violation is said to be {found.violation!r}, {show(over)} more than it is")
    allowances = truth.allowances
    for r in chosen if len(chosen) > 1 else ():
        fewer = [k for k in chosen if k != r]
        others = relaxed([truth.rows[k] for k in fewer], [allowances[k] for k in fewer])
        if best(truth.model, others, [0] * truth.model.size).optimum is None:
            complaints.append(f"superfluous in the conflict {found.conflict}: {names[r]}")
    return complaints


# -- feasibility and frontier ------------------------------------------------------------------------------


def judge_feasibility(truth: Truth, found: conrl.Feasibility | Exception) -> list[str]:
    """`conrl.feasibility` of a `Linear` problem: least, greatest, slack, and whether it is feasible."""
    if isinstance(found, Exception):
        return [f"feasibility: {type(found).__name__}: {found}"]
    model, mdp = truth.model, truth.mdp
    complaints = []
    for i in range(mdp.num_costs):
        axis = [int(j == 1 + i) for j in range(model.size)]
        extremes = (
            ("least", found.least[i], -model.greatest([-x for x in axis])),
            ("greatest", found.greatest[i], model.greatest(axis)),
        )
        for name, said, is_ in extremes:
            if abs(Fraction(float(said)) - is_) > truth.rounding[1 + i]:
                complaints.append(f"{name}[{i}] is said to be {said!r}, off by {show(Fraction(float(said)) - is_)}")
    feasible = best(model, truth.rows, [0] * model.size).optimum is not None
    if not found.feasible:
        if feasible:
            return [*complaints, f"feasibility: called infeasible ({', '.join(found.conflict)}), but it is feasible"]
        return complaints + [f"feasibility: {x}" for x in _judge_conflict(truth, found)]
    if not feasible and (truth.relaxation is None or truth.relaxation > 1):
        return [*complaints, f"feasibility: called feasible, but not even with {show(truth.relaxation)} allowances"]
    if feasible and found.slack is not None:
        complaints += _judge_slack(truth, found.slack)
    return complaints


def _judge_slack(truth: Truth, slack: Any) -> list[str]:
    """Of up to `SLACKS` of the limits: each is a program."""
    complaints = []
    limits = [r for r, (_, s, _) in enumerate(truth.rows) if s > 0]
    for r in limits[:: max(1, len(limits) // SLACKS)]:
        c, _, h = truth.rows[r]
        others = [k for k in range(len(truth.rows)) if k != r]
        axis = [-int(j == 1 + c) for j in range(truth.model.size)]
        rows = [truth.rows[k] for k in others]
        said = Fraction(float(slack[c]))
        least = best(truth.model, rows, axis).optimum
        assert least is not None
        room = TOLERANCE * max(Fraction(1), abs(h), abs(least)) + truth.rounding[1 + c]
        if said < h + least - room:
            complaints.append(f"slack[{c}] is said to be {slack[c]!r}, {show(h + least - said)} too small")
        elif said > h + least + room:  # it may use what the other rows are allowed
            wider = best(truth.model, relaxed(rows, [truth.allowances[k] for k in others]), axis).optimum
            assert wider is not None
            if said > h + wider + room:
                complaints.append(f"slack[{c}] is said to be {slack[c]!r}, {show(said - h - wider)} too large")
    return complaints


def judge_frontier(truth: Truth, curve: conrl.Frontier | Exception, limits: Sequence[float]) -> list[str]:
    """`conrl.frontier` at some limits on its cost: the optimum there, but for its tolerance and the allowances."""
    if isinstance(curve, conrl.InfeasibleError):
        others = [row for row in truth.rows if row[0] != 0]
        feasible = best(truth.model, others, [0] * truth.model.size).optimum is not None
        return ["frontier: called infeasible, but it is feasible"] if feasible else []
    if isinstance(curve, Exception):
        return [f"frontier: {type(curve).__name__}: {curve}"]
    complaints = []
    for x in limits:
        rows = [(c, s, Fraction(float(x)) if c == curve.cost else h) for c, s, h in truth.rows]
        optimum = best(truth.model, rows).optimum
        amounts = [ALLOWED * abs(h) + truth.rounding[1 + c] for c, _, h in rows]
        said, warned = attempt(partial(curve.reward, x))
        complaints += warned
        if isinstance(said, conrl.InfeasibleError):
            if optimum is not None and best(truth.model, relaxed(rows, [-a for a in amounts])).optimum is not None:
                complaints.append(f"frontier.reward({x!r}) is infeasible, but it is {show(optimum)}")
            continue
        if isinstance(said, Exception):
            complaints.append(f"frontier.reward({x!r}): {type(said).__name__}: {said}")
            continue
        room = 2 * TOLERANCE * max(Fraction(1), abs(Fraction(said))) + truth.rounding[0]
        tight = best(truth.model, relaxed(rows, [-a for a in amounts])).optimum
        if tight is not None and Fraction(said) < tight - room - Fraction(curve.error):
            complaints.append(f"frontier.reward({x!r}) is {said!r}, {show(tight - Fraction(said))} too low")
        loose = best(truth.model, relaxed(rows, amounts)).optimum
        if loose is None:
            complaints.append(f"frontier.reward({x!r}) is {said!r}, but that is infeasible")
        elif Fraction(said) > loose + room:
            complaints.append(f"frontier.reward({x!r}) is {said!r}, {show(Fraction(said) - loose)} too high")
    return complaints


def show(x: Fraction | None) -> str:
    """A number in few digits, however large or small."""
    if x is None:
        return "no number of"
    try:
        return f"{float(x):.6g}" if x == 0 or abs(float(x)) > 1e-300 else f"{'-' if x < 0 else ''}under 1e-300"
    except OverflowError:
        return "over 1e308"

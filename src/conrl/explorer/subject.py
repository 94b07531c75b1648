"""What is explored: the model that is planned, a row for each slider, and what the page says about them.

A row is  sign * z[1 + cost] <= bound  (`conrl.model.rows`). Every cost has a limit, perhaps an infinite one; floors
are there where they were asked for. Limits on single episodes make another model
(`conrl.planners.single_episodes.carried`): a chance is one more cost, and so has a slider. *Never* is in the model
itself, and a CVaR is kept at one quantile: both stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Int
from conrl.errors import SpecError
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.fleet import Fleet
from conrl.model.limits import Linear, resolve_limits
from conrl.model.rows import Rows
from conrl.model.tails import CHANCE, CVAR, NEVER
from conrl.oracles import SupportOracle, WithNullAction, exact_oracle
from conrl.planners.single_episodes.carried import carried
from conrl.problem import ConcaveConvex, Knapsack, Problem

LIMIT, FLOOR, SHARE, FIXED = "limit", "floor", "chance", "fixed"  # kinds of rows
MOST_COSTS = 16  # that have sliders
MOST_ROWS = 60  # of the little program that the page solves
MOST_WORK = 2e7  # outcomes x steps of a model that is explored


class Line(NamedTuple):
    """One row: a slider, or a limit that stays."""

    name: str  # of the cost
    kind: str
    cost: int
    sign: float
    bound: float  # where it stands at first; inf for none
    held: str = ""  # of a CVaR: its quantile, in words
    begins: float = 0.0  # what people see has this much more: an episode may begin above the threshold of a chance


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, or a fleet, with its rows."""

    lines: tuple[Line, ...]
    oracle: SupportOracle
    model: ConstrainedMDP | None  # that is planned; None for a fleet
    user: ConstrainedMDP | None  # as it was given
    state: Int  # [n]: the user's state behind each of the model's
    fleet: Fleet | None = None
    facts: list[str] = field(default_factory=list)  # what holds at every position of the sliders

    @property
    def rows(self) -> Rows:
        """All rows, those without a bound as well."""
        return Rows(
            np.array([line.cost for line in self.lines], dtype=np.int64),
            np.array([line.sign for line in self.lines]),
            np.array([line.bound for line in self.lines]),
            self._cost_names,
        )

    @property
    def _cost_names(self) -> tuple[str, ...]:
        if self.model is not None:
            return tuple(self.model.cost_names)
        assert self.fleet is not None
        return tuple(self.fleet.cost_names)

    @property
    def steps(self) -> int | None:
        """Of an episode; None where the model has no horizon."""
        horizon: Any = self.model.horizon if self.model is not None else self.fleet and self.fleet.horizon
        return None if isinstance(horizon, Criterion) else int(horizon)


def subject_of(model: ConstrainedMDP | Fleet, problem: Problem) -> Subject:
    """What there is to explore of a model and a problem; refused where a page could not show it."""
    if isinstance(problem, ConcaveConvex):
        raise SpecError("a ConcaveConvex problem has no limits to move; explore limits, or a Linear", key=("problem",))
    found = _of_fleet(model, problem) if isinstance(model, Fleet) else _of_model(model, problem)
    sliders = sum(line.kind != FIXED for line in found.lines)
    if not sliders:
        raise SpecError("the model has no costs, so that there is no limit to explore; see conrl plan")
    if sliders > MOST_COSTS or len(found.lines) > MOST_ROWS:
        raise SpecError(
            f"{sliders} sliders and {len(found.lines)} rows in all; a page has at most {MOST_COSTS} and {MOST_ROWS}: "
            "leave out costs or limits per step"
        )
    return found


def _of_model(mdp: ConstrainedMDP, problem: Linear | Knapsack) -> Subject:
    """What the page of a model is about: the problem, its rows, and the facts that stand above it."""
    if mdp.bonus is not None:
        raise SpecError("the model carries a bonus, and its best case is no policy to look at; explore it without")
    steps = 1 if isinstance(mdp.horizon, Criterion) else mdp.horizon
    if mdp.graph.probability.size / mdp.repeats * steps > MOST_WORK:
        raise SpecError("the model is too large to explore in a page; conrl frontier computes the curve of one limit")
    facts: list[str] = []
    if isinstance(problem, Knapsack):
        linear = problem.linear(mdp)
        facts.append(
            f"Limits are those of one of {problem.episodes:,} episodes that share the budgets; an episode may be "
            "skipped, which earns and costs nothing."
        )
        lines = _lines(linear, mdp, mdp.num_costs)
        return Subject(lines, WithNullAction(exact_oracle(mdp)), mdp, mdp, np.arange(mdp.num_states), facts=facts)
    if not problem.tails(mdp):
        model, _ = problem.bind(mdp)
        bound = _bound(problem, mdp, model)
        lines = _lines(bound, model, mdp.num_costs)
        if model is not mdp:
            facts.append("Limits on single steps are kept at every position of the sliders.")
        return Subject(lines, exact_oracle(model), model, mdp, np.arange(mdp.num_states), facts=facts)
    found = carried(mdp, problem, "a page")
    if found.model.graph.probability.size / found.model.repeats * steps > MOST_WORK:
        raise SpecError("what was spent makes the model too large to explore in a page; see conrl plan")
    first = found.model.num_costs - len(found.chances) - len(found.quantiles)
    shares = range(first, first + len(found.chances))
    quantiles = iter(found.quantiles)
    for tail in problem.tails(mdp):
        if tail.kind == CHANCE:
            continue
        what = f"{tail.quantity(mdp.cost_names)} is at most {tail.bound:.6g}"
        if tail.kind == NEVER:
            facts.append(f"{what}, at every position of the sliders.")
        else:
            facts.append(
                f"{what}, at every position of the sliders, with its quantile held at {next(quantiles):.6g}: that is "
                "the best one at the limits that were asked for. A CVaR is not linear in mixtures, so it has no "
                "slider, and at other limits another quantile may allow more."
            )
    facts.append("The policy acts on what was spent so far; what it does is summed up over that.")
    rows = list(_lines(found.linear, found.model, mdp.num_costs, shares))
    chances = zip(found.chances, found.offsets, strict=True)
    named = {first + k: (tail.quantity(mdp.cost_names), begins) for k, (tail, begins) in enumerate(chances)}
    for r, line in enumerate(rows):
        if line.kind == SHARE:
            name, begins = named[line.cost]
            rows[r] = line._replace(name=name, begins=begins)
    cvars = [tail for tail in problem.tails(mdp) if tail.kind == CVAR]
    for k, (tail, quantile) in enumerate(zip(cvars, found.quantiles, strict=True)):
        at = next(r for r, line in enumerate(rows) if line.cost == shares.stop + k)
        held = f"the quantile of {mdp.cost_names[tail.cost]} held at {quantile:.6g}"
        rows[at] = rows[at]._replace(name=tail.quantity(mdp.cost_names), held=held)
    return Subject(tuple(rows), exact_oracle(found.model), found.model, mdp, found.state, facts=facts)


def _bound(problem: Linear, mdp: ConstrainedMDP, model: ConstrainedMDP) -> Linear:
    """The limits and floors on the costs of the model that is planned, which has more of them with limits per step."""
    if model is mdp:
        return problem
    return Linear(*problem.bind(mdp)[1].bounds(model.num_costs))


def _of_fleet(fleet: Fleet, problem: Problem) -> Subject:
    if not isinstance(problem, Linear) or problem.on_episodes or problem.per_step is not None:
        raise SpecError("a fleet is explored with limits and floors; leave the rest out", key=("problem",))
    limits = resolve_limits(problem.limits, fleet.cost_names, "limits")
    floors = resolve_limits(problem.floors, fleet.cost_names, "floors")
    lines = [Line(name, LIMIT, i, 1.0, float(limits[i])) for i, name in enumerate(fleet.cost_names)]
    rows = fleet.rows(limits, floors)
    d = fleet.num_costs
    for cost, sign, bound in zip(rows.cost.tolist(), rows.sign.tolist(), rows.bound.tolist(), strict=True):
        if cost >= d:
            lines.append(Line("a step", FIXED, cost, sign, bound))
        elif sign < 0.0:
            lines.append(Line(fleet.cost_names[cost], FLOOR, cost, sign, bound))
    facts = ["Limits on single steps are kept at every position of the sliders."] if fleet.step_costs else []
    return Subject(tuple(lines), exact_oracle(fleet), None, None, np.zeros(0, dtype=np.int64), fleet, facts)


def _lines(linear: Linear, model: ConstrainedMDP, own: int, shares: range = range(0)) -> tuple[Line, ...]:
    """A limit for each of the first `own` costs and for each chance; floors; what else is limited stays."""
    limits = resolve_limits(linear.limits, model.cost_names, "limits")
    floors = resolve_limits(linear.floors, model.cost_names, "floors")
    found = []
    for i, (name, limit) in enumerate(zip(model.cost_names, limits.tolist(), strict=True)):
        kind = LIMIT if i < own else SHARE if i in shares else FIXED
        if kind != FIXED or np.isfinite(limit):
            found.append(Line(name, kind, i, 1.0, limit))
    for i, floor in enumerate(floors.tolist()):
        if np.isfinite(floor):
            found.append(Line(model.cost_names[i], FLOOR if i < own else FIXED, i, -1.0, -floor))
    return tuple(found)

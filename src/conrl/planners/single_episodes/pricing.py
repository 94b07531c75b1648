"""Prices and sensitivity of limits on single episodes, and of the limits beside them.

Limits on expectations and on chances are linear rows of the model that carries what was spent
(`conrl.planners.sensitivity`), at the quantiles of the plan. A CVaR is a maximum over quantiles: its price, and the
slopes of the limits beside it, are those at the quantile of the plan; at another the best reward may rise faster.
*Never* is a step: its price is what a small probability of exceeding it would earn (`never_price.py`). Of both the
sensitivity is what a whole unit more or less changes, planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conrl._types import Float
from conrl.model.counting import simplest
from conrl.model.tails import Tail, as_given
from conrl.planners.result import Plan
from conrl.planners.sensitivity import LimitSensitivity, Sensitivity, difference, pricing_of
from conrl.planners.single_episodes.never_price import never_price
from conrl.planners.single_episodes.search import Box, Search
from conrl.problem import Linear


@dataclass(frozen=True, eq=False)
class EpisodePricing:
    """Prices and sensitivity of the best box of a search, at the quantiles of its plan; rows are in the order
    of the plan: those on expectations, then chances, CVaRs, and what is never exceeded."""

    search: Search
    box: Box
    again: Callable[[Linear], Plan]  # plans such a problem

    @cached_property
    def pinned(self) -> Box:
        """The box of the plan's own quantiles: in a larger one the CVaRs are relaxed, and their rows none of the
        problem's."""
        search, box = self.search, self.box
        ranges = tuple((k, k) for k in box.best)
        if ranges == box.ranges or not search.cvars:
            return box
        return search.boxed(ranges, search.plan(ranges, box.plan.start, relax=True))

    def prices(self) -> Float:
        """[R]."""
        nevers = [never_price(self.search, tail, self.pinned) for tail in self.search.nevers]
        return np.append(carried(self.search, self.pinned.plan, self.pinned.plan._row_prices), nevers)

    def sensitivity(self) -> Sensitivity:
        search, rows = self.search, self.pinned.plan.checked
        assert rows is not None
        names, d = search.asked.mdp.cost_names, search.asked.mdp.num_costs
        inner = pricing_of(self.pinned.plan).sensitivity().rows
        place = {int(cost): r for r, cost in enumerate(rows.rows.cost.tolist()) if cost >= d}
        told = [row for row, cost in zip(inner, rows.rows.cost.tolist(), strict=True) if cost < d]
        for j, (tail, column) in enumerate(zip(search.chances, search.crossings, strict=True)):
            told.append(_shifted(inner[place[d + j]], tail.text(names), tail.bound, column.offset))
        objective = self.box.plan.objective
        for tail in (*search.cvars, *search.nevers):

            def planned(units: float, tail: Tail = tail) -> float:
                moved = tail._replace(limit=tail.limit + units)
                return self.again(_with(search.asked.problem, names, [*_others(search, tail), moved])).objective

            told.append(difference(tail.text(names), tail.bound, objective, planned))
        return Sensitivity(tuple(told))


def carried(search: Search, plan: Plan, of_rows: Float) -> Float:
    """What the rows of a box's plan have, as that of limits on expectations, chances and CVaRs, in this order."""
    assert plan.checked is not None
    d, cost = search.asked.mdp.num_costs, plan.checked.rows.cost
    own = of_rows[cost < d]
    extra = of_rows[cost >= d][np.argsort(cost[cost >= d], kind="stable")]
    left = [float(1 - simplest(tail.share)) for tail in search.cvars]  # a CVaR's row is on 1 - a times it
    return np.concatenate((own, extra * ([1.0] * len(search.chances) + left)))


def _others(search: Search, tail: Tail) -> list[Tail]:
    return [other for other in search.asked.tails if other is not tail]


def _shifted(row: LimitSensitivity, name: str, bound: float, offset: float) -> LimitSensitivity:
    """A chance as it was asked for, of a row on what is counted: that much less than the probability."""
    ends = {end: getattr(row, end) + offset for end in ("gain_to", "loss_to", "tightest")}
    return row._replace(name=name, bound=bound, **ends)


def _with(problem: Linear, names: Sequence[str], tails: Sequence[Tail]) -> Linear:
    """The problem with other limits on single episodes."""
    return Linear(problem.limits, problem.floors, problem.per_step, **as_given(tails, names), grid=problem.grid)

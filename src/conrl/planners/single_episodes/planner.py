"""The plan of a problem with limits on single episodes, in words of what was asked.

Where totals are too many to be counted one by one (or a grid is asked for), costs are rounded up for the plan and
down for the bound (`conrl.model.counting`). Only rounding down proves that nothing is feasible.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from conrl._types import Arrays
from conrl.errors import InfeasibleError, RunError
from conrl.model import ConstrainedMDP
from conrl.model.bracket import bracketed
from conrl.model.tails import CHANCE, NEVER, Tail
from conrl.model.tracking import SafePart
from conrl.planners.result import Checked, Plan
from conrl.planners.single_episodes.conflicts import best_box
from conrl.planners.single_episodes.pricing import EpisodePricing, carried
from conrl.planners.single_episodes.search import Asked, Box, Call, Found, Search, lifted, marginal
from conrl.problem import Linear, Rows
from conrl.spending import SpentPolicy

MOST_TRIED = 20  # quantiles t that are tried where no plan keeps the limits


def plan_episodes(
    ask: Call, mdp: ConstrainedMDP, problem: Linear, start: Arrays | None, relax: bool, tol: float
) -> Plan:
    """The best policy of `ask`, a planner's `plan`, for a problem with limits on single episodes."""
    tails = problem.tails(mdp)
    expected = replace(problem, never=None, chance=None, cvar=None, grid=None)
    if not tails:
        return ask(mdp, expected, start=start, relax=relax)
    model, rows = expected.bind(mdp)  # more costs, where there are limits on single steps
    asked = Asked(ask, mdp, model, problem, rows, tails, tol)
    up, down = bracketed(model, tails, problem.grids(mdp))
    if down is None:
        return _plan(Search(asked, up), start, relax)
    try:
        best = _plan(Search(asked, up), start, False)
    except InfeasibleError:
        looser = _plan(Search(asked, down), None, relax)  # raises if even that is infeasible
        if looser.status == "infeasible":
            return looser
        if not relax:
            raise RunError(
                "undecided: no plan keeps the limits with costs rounded up to the grid, and some does with costs "
                "rounded down; refine the grid"
            ) from None
        return replace(_plan(Search(asked, up), start, True), status="undecided", bound=looser.bound)
    looser = _plan(Search(asked, down), best.start, False)
    if looser.bound is None or best.bound is None:
        return replace(best, bound=None)
    bound = max(looser.bound, best.objective)
    return replace(best, bound=bound, status="bracketed" if best.status == "optimal" else best.status)


def _plan(search: Search, start: Arrays | None, relax: bool) -> Plan:
    """The best plan of all boxes; with `relax`, where there is none, one that exceeds the limits least."""
    try:
        return _best(search, start)
    except InfeasibleError:
        if not relax:
            raise
    return _relaxed(search, start)


def _best(search: Search, start: Arrays | None) -> Plan:
    """The plan of the best box."""
    plan = _told(search, best_box(search, start))
    known = plan.checked
    if known is not None and plan.status != "approximate" and (known.excess > known.allowance).any():
        worst = int(np.argmax(known.excess - known.allowance))
        raise RunError(
            f"rounding broke {known.rows.names[worst]} by {known.excess[worst]:.3g}; measure costs in other units"
        )
    return plan


def _relaxed(search: Search, start: Arrays | None) -> Plan:
    """A plan that exceeds the limits least: never counts as a chance of 0, CVaRs are tried at a few quantiles."""
    if search.nevers:
        softened = [t._replace(kind=CHANCE, share=0.0) if t.kind == NEVER else t for t in search.asked.tails]
        return replace(_plan(search.having(softened), start, True), status="infeasible")
    if any(not options for options in search.candidates):
        search.candidates = [
            options or [min(total[i] for total in search.tracked.totals)]
            for options, i in zip(search.candidates, search.places, strict=True)
        ]
    longest = max(map(len, search.candidates), default=1)
    best: Box | None = None
    least = np.inf
    for share in np.linspace(1.0, 0.0, min(longest, MOST_TRIED)) if search.candidates else [1.0]:
        at = [round(share * (len(options) - 1)) for options in search.candidates]
        ranges = tuple((k, k) for k in at)
        plan = search.plan(ranges, start, relax=True)
        worst = 0.0 if plan.checked is None else float(plan.checked.excess.max(initial=0.0))
        if worst < least:
            best, least = search.boxed(ranges, plan), worst
    assert best is not None
    return replace(_told(search, Found(best, best.bound, best.plan.iterations)), status="infeasible")


# -- what the user sees -----------------------------------------------------------------------------------


def _told(search: Search, found: Found) -> Plan:
    """The plan in words of the user's model: its costs, its rows, policies that act on what was spent."""
    box, bound, asked = found
    inner, part, tracked = box.plan, search.part, search.tracked
    reached = part.reached if isinstance(part, SafePart) else None  # what is never exceeded is kept
    status = inner.status
    proven: float | None = None
    if np.isfinite(bound):
        proven = bound if status == "approximate" else max(bound, inner.objective)
    if status == "optimal" and proven is not None and proven - inner.objective > search.tolerance(box):
        status = "inaccurate"
    checked = _checked(search, box)
    proof = carried(search, inner, inner.multipliers) if checked is not None else inner.multipliers
    return replace(
        inner.of(search.asked.user),
        problem=search.asked.problem,
        status=status,
        bound=proven,
        iterations=asked,
        make_policy=lambda i: SpentPolicy.of(tracked, lifted(part, inner.component(i)), reached),
        multipliers=np.append(proof, np.zeros(len(search.nevers))),  # what is never exceeded is no row, but left out
        checked=checked,
        columns=None,
        pricing=EpisodePricing(search, box, partial(_again, search.asked)),
    )


def _again(asked: Asked, problem: Linear) -> Plan:
    """The plan of another problem in the same model."""
    return plan_episodes(asked.plan, asked.user, problem, None, False, asked.tol)


def _checked(search: Search, box: Box) -> Checked | None:
    """Every row with its value: limits, floors, chances, CVaRs and what is never exceeded."""
    known = box.plan.checked
    if known is None:
        return None
    d, names = search.asked.mdp.num_costs, list(search.asked.mdp.cost_names)
    rows, counter = known.rows, search.tracked.counter
    own = rows.cost < d
    lines: list[tuple[int, float, float, float, float]] = [
        (int(c), float(s), float(b), float(v), float(a))
        for c, s, b, v, a in zip(*(x[own] for x in (rows.cost, rows.sign, rows.bound, *known[1:])), strict=True)
    ]
    extra = {int(c): r for r, c in enumerate(rows.cost.tolist()) if c >= d}

    def add(tail: Tail, value: float, allowance: float) -> None:
        lines.append((len(names), 1.0, tail.bound, value, allowance))
        names.append(tail.quantity(search.asked.mdp.cost_names))

    for j, (tail, column, lost) in enumerate(zip(search.chances, search.crossings, search.lost, strict=True)):
        r = extra[d + j]
        add(tail, float(known.value[r]) + column.offset, float(known.allowance[r]) + lost)
    for tail, value, allowance in zip(search.cvars, box.values, search.allowances(box.plan), strict=True):
        add(tail, value, float(allowance))
    for tail in search.nevers:
        i = counter.place(tail.cost)
        totals, p = marginal(search.tracked.totals, box.ends, i)
        most = float(totals[int(np.flatnonzero(p > 0.0)[-1])] * counter.units[i])
        add(tail, most, tail.rounding)
    cost, sign, bound, values, allowed = (np.array(column) for column in zip(*lines, strict=True))
    return Checked(Rows(cost.astype(np.int64), sign, bound, tuple(names)), values, allowed)

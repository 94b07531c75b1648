"""Which limits conflict, if they cannot all be kept, and the proof of it.

Limits conflict exactly if some multipliers lambda >= 0 have lambda.(G z - h) > 0 for every value vector z (Farkas):
those multipliers are the proof, and one backward induction checks it. A conflict is made irreducible by leaving out
one row after another and keeping out those whose absence changes nothing (a deletion filter, Chinneck and Dravnieks
1991): without any one of those that remain, the others can be kept.

When a row counts as kept: `conrl.planners.allowance`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

import numpy as np

from conrl._types import Float
from conrl.errors import InfeasibleError
from conrl.model.reading import default_cost_names
from conrl.notebook import Columns, Display, Displayed, Framed
from conrl.oracles import ModelOracle, SupportOracle
from conrl.planners.column_generation.cones import Cones
from conrl.planners.column_generation.convex import Separated, maximise_convex
from conrl.planners.column_generation.expressions import Expressions
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Met
from conrl.problem import ConcaveConvex, Rows
from conrl.wording import line, listed, totals

SLACK_TOLERANCE = 1e-9
MOST_NEAR = 6  # rows in a conflict of which it is said how near each can come


@dataclass(frozen=True, eq=False, repr=False)
class Feasibility(Displayed, Framed):
    """Whether limits can be kept, and how nearly.

    `feasible`; `least` and `greatest` [d], what each cost can be brought to if nothing else mattered; `slack` [d], by
    how much each limit could be lowered alone while the others are kept (None if infeasible). If infeasible: `conflict`
    names an irreducible set of limits and floors (without any one of them the others can be kept), and `multipliers`,
    in the same order and adding up to 1, prove it: every policy exceeds the bounds, weighted by them, by at least
    `violation`. `nearest`, in the same order too, is what the cost of each can be brought to while the others are kept.

    As a data frame: `cost`, `least`, `greatest` and `slack`, a row for each cost.
    """

    feasible: bool
    least: Float  # [d]: the least achievable expected total of each cost, alone
    greatest: Float  # [d]: and the greatest
    slack: Float | None  # [d]: by how much each limit could be lowered with the others kept; None if infeasible
    conflict: tuple[str, ...] = ()  # limits, floors or constraints that cannot be kept together, none superfluous
    multipliers: Float | None = None  # [len(conflict)]: the proof for limits and floors, adding up to 1
    violation: float = 0.0  # every policy has sum of multipliers x (excess over the bound) at least this; for
    # concave-convex constraints, the distance of all value vectors from what is allowed, in widths of their box
    path: tuple[str, ...] = ()  # where one limit can never be kept: states and actions of the most careful policy that
    # exceed it
    nearest: Float | None = None  # [len(conflict)]: the least (of a limit) or greatest (of a floor) that each can be
    # brought to while the others of the conflict are kept; None where these are many, or no limits on expected totals
    cost_names: tuple[str, ...] = ()  # [d], where they are known

    def __repr__(self) -> str:
        if not self.feasible:
            return line(self, "infeasible", f"conflict: {listed(self.conflict)}", f"violation {self.violation:.6g}")
        least = totals(self._names, self.least)
        return line(self, "feasible", f"least {least}" if least else "")

    @property
    def _names(self) -> tuple[str, ...]:
        return self.cost_names if len(self.cost_names) == self.least.size else default_cost_names(self.least.size)

    def _columns(self) -> Columns:
        slack = np.full(self.least.size, np.nan) if self.slack is None else self.slack
        finite = np.where(np.isfinite(slack), slack, np.nan)
        return {"cost": self._names, "least": self.least, "greatest": self.greatest, "slack": finite}

    def _display(self) -> Display:
        if self.feasible:
            return Display("Feasible: some policy keeps all limits", self._columns())
        unknown = np.full(len(self.conflict), np.nan)
        columns = {
            "limit": self.conflict,
            "nearest, the others kept": unknown if self.nearest is None else self.nearest,
            "multiplier": unknown if self.multipliers is None else self.multipliers,
        }
        path = (f"for instance: {' -> '.join(self.path)}",) if self.path else ()
        return Display("Infeasible: these cannot be kept together", columns, path)


def infeasible(oracle: SupportOracle, rows: Rows, conflict: Conflict) -> InfeasibleError:
    """The error for rows that cannot be kept, with its proof."""
    proof = explain(oracle, rows, conflict)
    verb = "cannot be kept" if len(proof.conflict) == 1 else "cannot be kept together"
    told = "".join(f"; {text}" for text in _how_near(rows, proof))
    return InfeasibleError(f"infeasible: {' and '.join(proof.conflict)} {verb}{told}", proof)


def _how_near(rows: Rows, proof: Feasibility) -> Iterator[str]:
    """What can be had of each cost in a conflict, rounded to the side on which it can be kept."""
    nearest = [] if proof.nearest is None else proof.nearest.tolist()
    for name, value in zip(proof.conflict, nearest, strict=False):
        if np.isnan(value):
            continue
        row = rows.names.index(name)
        low = rows.sign[row] > 0.0
        others = " and ".join(other for other in proof.conflict if other != name)
        can = f"{rows.cost_names[rows.cost[row]]} can be as {'low' if low else 'high'} as {rounded(value, up=low)}"
        yield f"with {others}, {can}" if others else can


def rounded(value: float, up: bool) -> str:
    """Six digits of what can just be had, rounded to the side on which it can.

    >>> rounded(0.12345678, up=True), rounded(2.0, up=False)
    ('0.123457', '2')
    """
    digits = Context(6, ROUND_CEILING if up else ROUND_FLOOR).create_decimal_from_float(value)
    return f"{float(digits):.6g}"


def separated(oracle: ModelOracle, problem: ConcaveConvex, apart: Separated) -> InfeasibleError:
    """The error for concave-convex constraints that no value vector meets; the irreducible ones are named."""
    kept = list(range(len(problem.constraints)))
    for j in list(kept):
        fewer = [k for k in kept if k != j]
        cones = Cones(Expressions(problem.objective, [problem.constraints[k] for k in fewer], *oracle.box))
        if (without := find_separation(oracle, cones)) is not None:
            kept, apart = fewer, without
    names = tuple(f"constraint {j + 1}" for j in kept) or ("the objective's domain",)
    least, greatest = extremes(oracle)
    proof = Feasibility(False, least, greatest, None, names, None, apart.distance)
    costs = ", ".join(f"{n} {x:.6g}" for n, x in zip(oracle.mdp.cost_names, apart.nearest[1:], strict=True))
    verb = "cannot be met" if len(names) == 1 else "cannot be met together"
    nearest = f"reward {apart.nearest[0]:.6g}{', ' + costs if costs else ''}"
    return InfeasibleError(f"infeasible: {' and '.join(names)} {verb}; nearest achievable: {nearest}", proof)


def find_separation(oracle: ModelOracle, cones: Cones) -> Separated | None:
    """A proof that no value vector meets the constraints, or None if some do."""
    try:
        maximise_convex(oracle, cones, tol=1e-3, max_sweeps=1000)
    except Separated as apart:
        return apart
    return None


def find_conflict(oracle: SupportOracle, rows: Rows, columns: Met | None = None) -> Conflict | None:
    """A proof that the rows cannot all be kept, or None if they can; points of Z found on the way join `columns`."""
    try:
        maximise(oracle, np.zeros(1 + oracle.num_costs), rows, tol=1.0, columns=columns)
    except Conflict as conflict:
        return conflict
    return None


def explain(oracle: SupportOracle, rows: Rows, conflict: Conflict) -> Feasibility:
    """A conflict made irreducible (the deletion filter above), with multipliers that add up to 1."""
    columns = Met()
    kept = np.flatnonzero(conflict.multipliers > 0.0)
    # Multipliers too small to matter may be missed or superfluous: ask anew.
    conflict = find_conflict(oracle, rows.select(kept), columns) or conflict
    if conflict.multipliers.size != kept.size:
        kept = np.arange(rows.size)
    for r in list(kept):
        fewer = kept[kept != r]
        without = find_conflict(oracle, rows.select(fewer), columns) if fewer.size else None
        if without is not None:
            kept, conflict = fewer, without
    least, greatest = extremes(oracle)
    total = conflict.multipliers.sum()
    return Feasibility(
        False,
        least,
        greatest,
        None,
        rows.select(kept).names,
        conflict.multipliers / total,
        conflict.violation / total,
        nearest=_nearest(oracle, rows.select(kept), columns) if kept.size <= MOST_NEAR else None,
        cost_names=tuple(rows.cost_names),
    )


def _nearest(oracle: SupportOracle, rows: Rows, columns: Met) -> Float:
    """[R]: what the cost of each row can be brought to while the others are kept."""
    found = np.full(rows.size, np.nan)
    for r, direction in enumerate(-rows.matrix(oracle.num_costs)):
        others = rows.select(np.arange(rows.size) != r)
        with suppress(Conflict):  # underflow decided otherwise this time
            best = maximise(oracle, direction, others, tol=SLACK_TOLERANCE, columns=columns).objective
            found[r] = 0.0 - rows.sign[r] * best
    return found


def extremes(oracle: SupportOracle) -> tuple[Float, Float]:
    """The least and the greatest achievable total of each cost."""
    d = oracle.num_costs
    axes = np.eye(1 + d)[1:]
    values = oracle.support_many(np.vstack((-axes, axes))).values if d else np.zeros(0)
    return 0.0 - values[:d], values[d:]  # not -values: that would show as -0

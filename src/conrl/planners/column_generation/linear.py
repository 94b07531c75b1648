"""Maximise a.z over the value vectors z of a model that keep linear rows, by column generation.

    maximise a.z   subject to   z in Z,  G z <= h                                         (1)

Z is known only through an oracle for its support function. For any multipliers lambda >= 0,

    bound(lambda) = support(a - G'lambda) + lambda.h                                      (2)

is an upper bound on (1) (weak duality); the point that attains the support is a new column. Some master problem mixes
the columns found so far, and its multipliers are the next direction. The two meet after finitely many steps, since Z
is a polytope. Column generation for constrained MDPs: Yost and Washburn (2000), "The LP/POMDP marriage".

One search (`search.py`) and three ways to go on with it, by what the rows are on: `no_rows`, one cost (`line.py`, where
the master is a line), and several (`several.py`, where it is a small LP). Large models are searched as by several rows
even if there is one, since only that search looks at how Z bends (`aiming.py`).

Nothing that a solver says is believed. The mixture is checked against every row, and (2) is rounded outward by what
the oracle proves about its own rounding (`conrl.planners.allowance`). An answer that breaks a row, or a gap that does
not close, is solved again (`several.in_fractions`) with a master in rational arithmetic and an oracle that tells ties
apart.
"""

from __future__ import annotations

import numpy as np

from conrl._types import Arrays, Float
from conrl.errors import RunError
from conrl.oracles.protocols import SupportOracle
from conrl.planners.column_generation.line import at_once, one_cost, one_row
from conrl.planners.column_generation.master import Unsolved
from conrl.planners.column_generation.search import Met, Optimum, RowSearch
from conrl.planners.column_generation.several import in_fractions, several_costs
from conrl.problem import Rows


def maximise(
    oracle: SupportOracle,
    a: Float,
    rows: Rows,
    *,
    tol: float,
    columns: Met | None = None,
    max_sweeps: int = 1000,
    start: Arrays | None = None,
    relax: bool = False,
) -> Optimum:
    """Solve (1) to bound - objective <= tol * max(1, |objective|) (and tol * the largest possible total), or raise
    `Conflict`.

    `start`: `directions` [n, 1+d] and `multipliers` [R] that did well on a similar set; one for other rows is not used.
    `relax`: where the rows cannot be kept, exceed all of them by the least amount (in units of each row) possible.
    """
    search = RowSearch(oracle, columns, max_sweeps, a, rows, tol, relax)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is no direction, which is refused
            return _found(search, start)
    except OverflowError:
        raise RunError(
            "rewards and costs differ by so much that a price is no number; measure them in units nearer to each other"
        ) from None


def _found(search: RowSearch, start: Arrays | None) -> Optimum:
    """The optimum, by the method that the rows and the oracle ask for; by fractions where doubles do not decide."""
    oracle, a, rows, relax = search.oracle, search.a, search.rows, search.relax
    if rows.size == 0:
        return at_once(search, None) or no_rows(search)
    if start is not None and not (
        start.keys() >= {"directions", "multipliers"}
        and start["multipliers"].shape == (rows.size,)
        and start["directions"].shape[1:] == a.shape
        and (start["directions"] @ search.G.T <= 0.0).all()  # they gain, and use no more of what is limited
    ):
        start = None
    try:
        alone = (rows.cost == rows.cost[0]).all() and not (relax and rows.size > 1)
        if alone and not oracle.curved:
            begin = start if rows.size == 1 else None
            optimum = at_once(search, begin) or (one_cost(search) if begin is None else one_row(search, begin))
        else:
            optimum = several_costs(search, start)
    except Unsolved:
        return in_fractions(search)
    return optimum if optimum.accepted else in_fractions(search)


def no_rows(search: RowSearch) -> Optimum:
    """Without rows (2) is support(a), and the point that attains it is the answer.

    They differ by rounding. If by more than the tolerance, actions that tie within rounding made the difference.
    """
    optimum = _best(search)
    return optimum if optimum.converged else _best(search.strict())


def _best(search: RowSearch) -> Optimum:
    value, point = search.ask_one(search.a)
    return search.optimum(np.ones(1), point[None], value, np.zeros(0))

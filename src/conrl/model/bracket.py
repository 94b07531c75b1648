"""How totals are counted for limits on single episodes: one by one or, where they are too many, on a grid.

On a grid there are two tracked models, with costs rounded up and rounded down: what the first keeps is surely kept, and
what the second cannot do is surely impossible.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from conrl.errors import ModelError
from conrl.model.counting import DOWN, EXACT, MOST_TOTALS, UP, TooManyTotals, simplest
from conrl.model.mdp import ConstrainedMDP
from conrl.model.tails import Tail
from conrl.model.tracking import Tracked, thresholds_of, track

PER_STEP = 10  # steps of an automatic grid for each step of an episode: every cost is rounded up by one at most
TINIEST = 1e-9  # of the largest total: a smaller threshold is no measure for a grid
GRID_STEPS = 1000  # of an automatic grid, up to the largest threshold or, with negative costs, the largest total
MOST_ON_GRID = 300_000  # totals; each is a state more for each state, and takes a microsecond to count


def bracketed(mdp: ConstrainedMDP, tails: Sequence[Tail], grids: dict[int, Fraction]) -> tuple[Tracked, Tracked | None]:
    """The tracked model; where a grid is needed, with costs rounded up, and the one with costs rounded down."""
    try:
        return _bracketed(mdp, tails, grids)
    except TooManyTotals:
        raise ModelError(
            f"there are more than {MOST_ON_GRID:,} totals on the grid; take a coarser one, or count fewer costs",
            key=("grid",),
        ) from None


def _bracketed(
    mdp: ConstrainedMDP, tails: Sequence[Tail], grids: dict[int, Fraction]
) -> tuple[Tracked, Tracked | None]:
    costs = sorted({tail.cost for tail in tails})
    thresholds = [thresholds_of(tails, cost) for cost in costs]
    given: list[Fraction | None] = [grids.get(cost) for cost in costs]
    try:
        up = track(mdp, costs, thresholds, given, UP, MOST_ON_GRID if all(given) else MOST_TOTALS)
    except TooManyTotals:
        given = [
            _automatic(mdp, cost, bars) if g is None else g
            for cost, bars, g in zip(costs, thresholds, given, strict=True)
        ]
        up = track(mdp, costs, thresholds, given, UP, MOST_ON_GRID)
    if all(rounding == EXACT for rounding in up.counter.rounding):
        return up, None
    return up, track(mdp, costs, thresholds, given, DOWN, MOST_ON_GRID)


def _automatic(mdp: ConstrainedMDP, cost: int, thresholds: Sequence[Fraction]) -> Fraction:
    """A grid with some GRID_STEPS steps, and several for each step of an episode, in the range that is counted.

    That is up to the largest threshold that some total can exceed, and the other way too where costs may be negative.
    """
    paid = mdp._paid[:, 1 + cost]
    most = mdp.horizon * float(np.abs(paid).max())
    below = [float(x) for x in thresholds if TINIEST * most < x < most]
    size = max(below, default=most) if paid.min() >= 0.0 else most
    return simplest(float(f"{(size or 1.0) / max(GRID_STEPS, PER_STEP * mdp.horizon):.1e}"))

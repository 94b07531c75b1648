"""The best lottery over policies whose costs are only known to be at most so much.

Policy i gains g_i and uses at most u_i [R] of each row. One of them is drawn, policy i with probability w_i, and what
the lottery uses is at most sum_i w_i u_i, whatever the truth is:

    maximise sum_i w_i g_i     subject to     sum_i w_i u_i <= bound,   sum_i w_i = 1,   w >= 0

Policy 0 keeps the bounds alone, so that there is a solution; a basic one has at most R + 1 policies.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from conrl._types import Float
from conrl.planners.column_generation.master import Master, Unsolved

TINY = 1e-300
LIGHTER = 2.0**-48  # by which weights are lowered, in proportion, where rounding has made them too large


def best_lottery(gains: Float, uses: Float, bounds: Float) -> tuple[Float, Float]:
    """Weights [n] and the prices of the rows [R], from gains [n], uses [n, R] and bounds [R].

    As a solver gives them: `kept_within` makes sure of the bounds.
    """
    if not bounds.size:
        return np.eye(gains.size)[int(np.argmax(gains))], np.zeros(0)
    if bounds.size == 1:
        return _one_row(gains, uses[:, 0], float(bounds[0]))
    # Rows that a use exceeds a million times over tell a solver no more than that it does.
    unit = np.maximum(np.maximum(np.abs(bounds), np.abs(uses).max(axis=0)), TINY)
    level = float(np.abs(gains).max())
    master = Master(bounds, unit, max(level, TINY))
    master.add(gains, uses)
    master.pursue_objective(0.0)
    try:
        weights, prices, _ = master.solve()
    except Unsolved:
        return np.eye(gains.size)[0], np.zeros(bounds.size)
    return weights, prices


def _one_row(gains: Float, uses: Float, bound: float) -> tuple[Float, Float]:
    """One row: the best policy within the bound, or one within and one beyond it, mixed so as to meet it."""
    within = uses <= bound
    within[0] = True
    alone = int(np.argmax(np.where(within, gains, -np.inf)))
    weights = np.zeros(gains.size)
    low, high = np.flatnonzero(within), np.flatnonzero(~within)
    if high.size:
        under, over = uses[low][:, None], uses[high][None]
        share = np.clip((bound - under) / (over - under), 0.0, 1.0)
        mixed = share * gains[high][None] + (1.0 - share) * gains[low][:, None]
        i, j = np.unravel_index(int(np.argmax(mixed)), mixed.shape)
        if mixed[i, j] > gains[alone]:
            a, b = low[i], high[j]
            weights[b] = share[i, j]
            weights[a] = 1.0 - share[i, j]
            return weights, np.array([max(0.0, float((gains[b] - gains[a]) / (uses[b] - uses[a])))])
    weights[alone] = 1.0
    return weights, np.zeros(1)


def kept_within(weights: Float, uses: Float, bounds: Float) -> Float:
    """The weights [n] with as little moved to policy 0 as it takes for sum_i w_i (u_i - bound) <= 0 in exact
    arithmetic.

    That inequality holds for a lottery as it is drawn, whatever its weights add up to.
    """
    home: Float = np.eye(weights.size)[0]
    others = np.flatnonzero(weights[1:] > 0.0) + 1
    if not others.size:
        return home
    over = [[Fraction(u) - Fraction(b) for u, b in zip(use, bounds.tolist(), strict=True)] for use in uses.tolist()]
    exact = [Fraction(w) for w in weights.tolist()]
    mass = sum((exact[i] for i in others), Fraction(0))
    share = min(Fraction(1), 1 / mass)
    for r in range(bounds.size):
        rises = sum((exact[i] * over[i][r] for i in others), Fraction(0)) - mass * over[0][r]
        if rises > 0:
            share = min(share, -over[0][r] / rises)
    for lighter in (0.0, LIGHTER, 16.0 * LIGHTER):
        moved: Float = np.zeros(weights.size)
        moved[others] = [float(share * exact[i]) * (1.0 - lighter) for i in others]
        moved[0] = max(0.0, 1.0 - float(moved[1:].sum()))
        drawn = [Fraction(w) for w in moved.tolist()]
        if all(sum(w * o[r] for w, o in zip(drawn, over, strict=True)) <= 0 for r in range(bounds.size)):
            return moved
    return home

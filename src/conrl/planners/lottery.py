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
    """The weights [n] with as little moved to one policy as it takes for sum_i w_i (u_i - bound) <= 0, exactly.

    That is, in exact arithmetic and for a lottery as it is drawn, whatever its weights add up to. They move to the
    policy that keeps the bounds alone for which the least has to move; policy 0 is one.
    """
    over = [[Fraction(u) - Fraction(b) for u, b in zip(use, bounds.tolist(), strict=True)] for use in uses.tolist()]
    exact = [Fraction(w) for w in weights.tolist()]
    safe = [0] + [j for j in range(1, len(over)) if exact[j] and all(x <= 0 for x in over[j])]
    share, home = max((_share(exact, over, j), -j) for j in safe)
    home = -home
    for lighter in (0.0, LIGHTER, 16.0 * LIGHTER):
        moved: Float = np.array([float(share * w) * (1.0 - lighter) for w in exact])
        moved[home] = 0.0
        moved[home] = max(0.0, 1.0 - float(moved.sum()))
        drawn = [Fraction(w) for w in moved.tolist()]
        if all(sum(w * o[r] for w, o in zip(drawn, over, strict=True)) <= 0 for r in range(bounds.size)):
            return moved
    alone: Float = np.eye(weights.size)[0]
    return alone


def _share(weights: list[Fraction], over: list[list[Fraction]], home: int) -> Fraction:
    """By how much to multiply all weights but that of policy `home`, which takes what is left, to keep the bounds."""
    mass = sum(weights) - weights[home]
    share = Fraction(1) if mass <= 1 else 1 / mass
    for r, own in enumerate(over[home]):
        rises = sum(w * o[r] for w, o in zip(weights, over, strict=True)) - weights[home] * own - mass * own
        if rises > 0:
            share = min(share, -own / rises)
    return share

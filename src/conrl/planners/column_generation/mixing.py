"""The same mean of points from fewer of them, and to rounding."""

from __future__ import annotations

import numpy as np

from conrl._types import Float


def same_mean(weights: Float, points: Float, mean: Float) -> Float:
    """The active weights again, so that the costs are those of `mean` to rounding."""
    active = np.flatnonzero(weights > 0.0)
    from_cost = 1 if active.size < points.shape[1] + 1 else 0  # on a face the costs fix the reward
    system = np.vstack((points[active, from_cost:].T, np.ones(active.size)))
    exact = np.asarray(np.linalg.lstsq(system, np.append(mean[from_cost:], 1.0), rcond=None)[0], dtype=np.float64)
    if exact.min() < 0.0:
        return weights
    again = np.zeros(weights.size)
    again[active] = exact / float(exact.sum())
    return again


def reduce_mixture(weights: Float, points: Float, precision: float) -> Float:
    """The same mean from fewer points (Caratheodory): follow directions that leave it until a weight vanishes.

    A direction counts as leaving it if it moves it by no more than `precision` in proportion.
    """
    weights = weights.copy()
    while True:
        active = np.flatnonzero(weights > 0.0)
        system = np.vstack((points[active].T, np.ones(active.size)))
        scale = np.maximum(np.abs(system).max(axis=1, keepdims=True), 1e-300)
        _, sizes, directions = np.linalg.svd(system / scale)
        if active.size <= sizes.size and sizes[active.size - 1] > precision * sizes[0]:
            return weights / float(weights.sum())
        step = directions[-1]
        shrinking = step < 0.0 if (step < 0.0).any() else step > 0.0
        step = step if (step < 0.0).any() else -step
        ratio = np.min(weights[active][shrinking] / -step[shrinking])
        moved = weights[active] + ratio * step
        moved[np.argmin(np.where(shrinking, moved, np.inf))] = 0.0
        weights[active] = np.maximum(moved, 0.0)

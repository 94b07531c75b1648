"""Intervals by relative entropy: which means are compatible with one that was seen.

    kl(p, q) = p ln(p / q) + (1 - p) ln((1 - p) / (1 - q)),     0 ln 0 = 0

grows as q leaves p, on either side. All q with kl(p, q) <= x are an interval around p.
"""

import math

import numpy as np

from conrl.kernels.compiling import Array, compiled

ERROR = 1e-15  # what rounding may add to kl
HALVINGS = 44  # of an interval of length 1 at most: to 6e-14


@compiled
def _kl(p: float, q: float) -> float:
    """Of p in (0, 1); infinite at the ends."""
    if q <= 0.0 or q >= 1.0:
        return math.inf
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))


@compiled
def _highest(p: float, x: float) -> float:
    """An upper end of the interval, or a little more."""
    if p >= 1.0:
        return 1.0
    if p <= 0.0:
        return -math.expm1(-x) * (1.0 + 1e-15)
    inside = p
    outside = min(1.0, p + math.sqrt(0.5 * (x + 2.0 * ERROR)) * (1.0 + 1e-12) + 1e-15)  # Pinsker: kl >= 2 (p - q)^2
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + outside)
        if _kl(p, middle) > x + ERROR:
            outside = middle
        else:
            inside = middle
    return outside


@compiled
def kl_interval(p: Array, x: Array, lowest: Array, highest: Array) -> None:
    """The ends of the intervals of p [n] for x [n] >= 0, each rounded outward."""
    for i in range(p.size):
        highest[i] = min(1.0, _highest(p[i], x[i]))
        lowest[i] = max(0.0, 1.0 - _highest(1.0 - p[i], x[i]) - np.finfo(np.float64).eps)

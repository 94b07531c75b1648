"""The next multipliers to ask for, where the best gain bends like a smooth surface.

The bound (2) of `linear.py` is a convex function of the multipliers, and the answer to any of them tells its value and
its slope there,

    D(lambda) = support(a - G'lambda) + lambda.h,    slope  h - u,    u = G z the use of the answer.

It is piecewise linear. If the model is large, the pieces are so small that it is a smooth surface to the eye of the
search, and the master problem, which knows tangents only, does not see how it bends. Around the least value known, at
b, it is taken to be the quadratic

    D(b + x) = D(b) + x.(h - u_b) + x.M x / 2,    M symmetric,

that best agrees with the values and slopes at the nearest multipliers that were asked. Where its slope is 0 the answer
uses just what the limits allow, and D is least: Newton's method.

If one row binds, the mixture is of one answer on each side of h, and the gap in proportion to both distances. So the
aim is a little to the side of the farther one: an answer on the other side would leave that one in place.

Where it is wrong, the search goes on as ever: an aim must halve the gap, and after n that did not, n directions are not
aimed (`Pace`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conrl._types import Bool, Float

NEAREST = 2  # how many times as many multipliers as rows are looked at
FADING = 1.5  # the weight of a slope falls like distance to this power, that of a value by one more
TOO_NEAR = 1e-9  # of the farthest one that is looked at: closer together, slopes differ by rounding
FLAT = 1e-3  # of the largest curvature: where it bends less, or the other way, how far to go is not known
ASIDE = 0.03  # how far from h, of the distance of the farther end
MOST = 12  # rows that bind: the curvature has half their square of entries
FALL = 2.0  # by which an aim must divide the gap


@dataclass
class Pace:
    """When to aim, by what aims did to the gap."""

    before: float = np.inf  # the gap that the last direction was aimed at; inf if it was not aimed
    failed: int = 0  # aims that did not pay, less those that did
    plain: int = 0  # directions to go that are not aimed

    def ready(self, gap: float) -> bool:
        """Whether the next direction may be aimed, now that the gap is `gap`; then `before` is to be set."""
        if self.before < np.inf:
            paid = FALL * gap <= self.before
            self.failed = max(self.failed - 1, 0) if paid else self.failed + 1
            self.plain = 0 if paid else self.failed
        self.before = np.inf
        if self.plain:
            self.plain -= 1
            return False
        return True


class Surface:
    """What is known of D: its values and slopes at the multipliers that were asked, in units of the rows."""

    def __init__(self, h: Float, unit: Float) -> None:
        self.h, self.unit = h, unit
        self._at: list[Float] = []  # [R]
        self._over: list[Float] = []  # [R]: u - h
        self._values: list[float] = []

    def learn(self, multipliers: Float, use: Float, value: float) -> None:
        """What the answer to some multipliers uses, and D there."""
        self._at.append(multipliers * self.unit)
        self._over.append((use - self.h) / self.unit)
        self._values.append(value)

    @np.errstate(all="ignore")  # numbers near the largest double: what comes of them is looked at
    def aim(self, binding: Bool, uses: Float) -> Float | None:
        """Where D is expected to be least, or None if that cannot be told; `uses` [n, R] are those of the mixture.

        Rows that neither the master takes to be `binding` [R] nor the best multipliers so far keep the multiplier 0.
        """
        best = int(np.argmin(self._values))
        center, over = self._at[best], self._over[best]
        rows = binding | (center > 0.0)
        n = int(np.count_nonzero(rows))
        steps = np.array(self._at)[:, rows] - center[rows]
        distance = np.abs(steps).max(axis=1, initial=0.0)
        near = np.argsort(distance, kind="stable")[: 1 + NEAREST * n]
        near = near[distance[near] > TOO_NEAR * distance[near].max()]
        if not 0 < n <= MOST or near.size < n:
            return None
        size = distance[near].max()
        bends = (over - np.array(self._over)[near])[:, rows]  # of the slope, from the center on
        rises = np.array(self._values)[near] - self._values[best] + steps[near] @ over[rows]
        M = _curvature(steps[near] / size, bends, rises / size)
        if M is None:
            return None
        goal = 0.0
        if n == 1:
            ends = ((uses - self.h) / self.unit)[:, rows]
            goal = ASIDE * float(ends[np.abs(ends).argmax(), 0])
        aimed = center.copy()
        aimed[rows] = np.maximum(center[rows] + size * np.linalg.solve(M, over[rows] - goal), 0.0)
        aimed /= self.unit
        return aimed if np.isfinite(aimed).all() else None


def _curvature(x: Float, bends: Float, rises: Float) -> Float | None:
    """The symmetric M [n, n] with M x = bends [m, n] and x.M x / 2 = rises [m] as nearly as can be; x [m, n].

    None unless it bends upward in every direction.
    """
    n = x.shape[1]
    basis = np.zeros((n * (n + 1) // 2, n, n))
    i, j = np.triu_indices(n)
    each = np.arange(i.size)
    basis[each, i, j] = basis[each, j, i] = 1.0
    distance = np.abs(x).max(axis=1)
    weight = (distance.min() / distance) ** FADING
    slopes = np.einsum("qij,mj->miq", basis, x)
    values = 0.5 * np.einsum("miq,mi->mq", slopes, x)
    system = np.vstack(((slopes * weight[:, None, None]).reshape(-1, i.size), values * (weight / distance)[:, None]))
    target = np.concatenate(((bends * weight[:, None]).ravel(), rises * weight / distance))
    if not (np.isfinite(system).all() and np.isfinite(target).all()):
        return None
    M = np.tensordot(np.linalg.lstsq(system, target, rcond=None)[0], basis, 1)
    least, *_, most = np.linalg.eigvalsh(M) if n > 1 else (M[0, 0], M[0, 0])
    return np.asarray(M) if least > FLAT * most > 0.0 else None

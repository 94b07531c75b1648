"""Convex sets that can be projected onto: where a value vector z = (reward, costs) should lie.

A set C in R^n is lifted to the cone over C x {kappa} in R^(n+1) by `Cone` (Miryoosefi et al. 2019): z lies in C exactly
if (z, kappa) lies in the cone, and distances to the two differ by a constant factor at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import float_array
from conrl.errors import SpecError
from conrl.wording import brief, line

ROUNDS = 5000  # of alternating projections, at most
SETTLED = 1e-12
TINY = 1e-8  # smallest scale of a cone that is told from 0, relative to the largest: rounding decides below
SHARP = 1e-15  # how well a scale is found, relative to the largest


class ConvexSet(Protocol):
    """A closed convex set, not empty."""

    def project(self, z: Float) -> Float:
        """The nearest point of the set."""
        ...


def distance(target: ConvexSet, z: ArrayLike) -> float:
    """The Euclidean distance of a point from a set."""
    point = np.asarray(z, dtype=np.float64)
    return float(np.linalg.norm(point - target.project(point)))


class _OfSet:
    """The `repr` of a set: what it was made of."""

    def __repr__(self) -> str:
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return line(self, *(f"{name}={brief(value)}" for name, value in own.items()))


class Box(_OfSet):
    """low <= z <= high, elementwise; infinities for no bound."""

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        self.low, self.high = float_array(low, "low").copy(), float_array(high, "high").copy()
        if self.low.shape != self.high.shape or self.low.ndim != 1 or not (self.low <= self.high).all():
            raise SpecError(f"a box needs low <= high of one length, not {self.low} and {self.high}")

    def project(self, z: Float) -> Float:
        return np.clip(z, self.low, self.high)


class HalfSpace(_OfSet):
    """normal.z <= offset."""

    def __init__(self, normal: ArrayLike, offset: float) -> None:
        self.normal, self.offset = float_array(normal, "normal").copy(), float(float_array(offset, "offset"))
        self._size = float(self.normal @ self.normal)
        if not (np.isfinite(self._size) and self._size > 0.0 and np.isfinite(self.offset)):
            raise SpecError("a half-space needs a finite normal that is not zero, and a finite offset")

    def project(self, z: Float) -> Float:
        over = max(float(self.normal @ z) - self.offset, 0.0)
        moved: Float = z - (over / self._size) * self.normal
        return moved


class Ball(_OfSet):
    """|z - centre| <= radius."""

    def __init__(self, centre: ArrayLike, radius: float) -> None:
        self.centre, self.radius = float_array(centre, "centre").copy(), float(float_array(radius, "radius"))
        if not (np.isfinite(self.centre).all() and np.isfinite(self.radius) and self.radius >= 0.0):
            raise SpecError("a ball needs a finite centre and a radius of at least 0")

    def project(self, z: Float) -> Float:
        away = z - self.centre
        size = float(np.linalg.norm(away))
        return z if size <= self.radius else self.centre + (self.radius / size) * away


class Intersection(_OfSet):
    """All of several sets at once, which must meet; projected onto by Dykstra's alternation (Boyle, Dykstra 1986)."""

    def __init__(self, sets: Sequence[ConvexSet]) -> None:
        if not sets:
            raise SpecError("an intersection needs at least one set")
        self.sets = tuple(sets)

    def project(self, z: Float) -> Float:
        at = np.array(z, dtype=np.float64)
        corrections = np.zeros((len(self.sets), at.size))
        for _ in range(ROUNDS):
            moved = 0.0
            for i, part in enumerate(self.sets):
                shifted = at + corrections[i]
                at = part.project(shifted)
                moved = max(moved, float(np.abs(shifted - at - corrections[i]).max()))
                corrections[i] = shifted - at
            if moved <= SETTLED * max(1.0, float(np.abs(at).max())):  # the iterate alone may pause on its way
                break
        return at


class Cone(_OfSet):
    """The closed cone over C x {kappa}: all alpha (c, kappa) with alpha >= 0 and c in C."""

    def __init__(self, target: ConvexSet, kappa: float) -> None:
        if not (np.isfinite(kappa) and kappa > 0.0):
            raise SpecError(f"kappa is {kappa}; it must be a positive number")
        self.target, self.kappa = target, float(kappa)

    def project(self, z: Float) -> Float:
        """By a search for the scale alpha.

        The squared distance of (x, y) from alpha (C x {kappa}) is convex in alpha, and half its slope is
        -(x - alpha c).c - kappa (y - alpha kappa) with c the point of C nearest to x / alpha. The nearest point of a
        cone is no longer than what is projected, so that alpha <= |(x, y)| / kappa; there the slope is not negative.
        """
        from scipy.optimize import brentq  # here: it takes longer to load than all of conrl

        x, y = z[:-1], float(z[-1])
        most = float(np.linalg.norm(z)) / self.kappa

        def slope(alpha: float) -> float:
            c = self.target.project(x / alpha)
            return -float((x - alpha * c) @ c) - self.kappa * (y - alpha * self.kappa)

        if most == 0.0:
            return np.zeros_like(z)
        least = TINY * most  # instead of 0, where the set is its directions without end
        if slope(least) >= 0.0 or slope(most) <= 0.0:
            alpha = least if slope(least) >= 0.0 else most
        else:
            alpha = float(brentq(slope, least, most, xtol=SHARP * most, rtol=SHARP))
        return np.append(alpha * self.target.project(x / alpha), alpha * self.kappa)

    def project_polar(self, z: Float) -> Float:
        """The nearest point of the polar cone { y : y.x <= 0 for all x of the cone } (Moreau's decomposition)."""
        return z - self.project(z)

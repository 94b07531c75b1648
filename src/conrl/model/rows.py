"""Rows of linear constraints on value vectors; how far rounding may push a total past them.

A row is  sign * z[1 + cost] <= bound  on the value vector z = (reward, costs): a limit has sign +1, a floor sign -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Bool, Float, Int
from conrl.arguments import setter

ROUNDING = 1e-9  # of a total, in proportion
DUST = 1e-13  # of the largest total: what sums that should be 0 may leave


@dataclass(frozen=True, eq=False)
class Rows:
    """R linear constraints on a value vector: the limits, then the floors."""

    cost: Int  # [R]: which cost
    sign: Float  # [R]: +1 a limit, -1 a floor
    bound: Float  # [R]
    cost_names: tuple[str, ...] = ()  # of all costs of the model
    size: int = field(init=False)  # R

    def __post_init__(self) -> None:
        setter(self)("size", self.cost.size)

    @property
    def names(self) -> tuple[str, ...]:
        """What to call each row: the cost's name, with `>=` or `<=` and the bound."""
        return tuple(
            f"{self.cost_names[i]} {'<=' if s > 0 else '>='} {s * b:.10g}"
            for i, s, b in zip(self.cost, self.sign, self.bound, strict=True)
        )

    def matrix(self, num_costs: int) -> Float:
        """[R, 1+d]: row r times z must be at most bound_r."""
        G = np.zeros((self.size, 1 + num_costs))
        G[np.arange(self.size), 1 + self.cost] = self.sign
        return G

    def bounds(self, num_costs: int) -> tuple[Float, Float]:
        """[d] each: the limits and the floors of all costs; an infinity is none."""
        limits, floors = np.full(num_costs, np.inf), np.full(num_costs, -np.inf)
        upper = self.sign > 0.0
        limits[self.cost[upper]], floors[self.cost[~upper]] = self.bound[upper], -self.bound[~upper]
        return limits, floors

    def kept(self, costs: Float) -> Bool:
        """[..., R]: whether costs [..., R], one for each row, keep it, but for rounding."""
        largest = np.abs(costs).max(axis=tuple(range(costs.ndim - 1)), initial=0.0)
        return np.asarray(self.sign * costs <= self.bound + rounding_slack(self.bound, largest))

    def select(self, keep: Any) -> Rows:
        return Rows(self.cost[keep], self.sign[keep], self.bound[keep], self.cost_names)

    def at(self, bound: Float) -> Rows:
        """The same costs from the same sides with other bounds [R]."""
        return Rows(self.cost, self.sign, bound, self.cost_names)

    def same_costs(self, cost: Int, sign: Float) -> bool:
        """Whether these rows limit those costs from those sides, whatever the bounds."""
        return np.array_equal(self.cost, cost) and np.array_equal(self.sign, sign)

    def equals(self, other: Rows) -> bool:
        """Whether these are the same rows with the same bounds."""
        return self.same_costs(other.cost, other.sign) and np.array_equal(self.bound, other.bound)

    def carry(self, old: Rows, multipliers: Float) -> Float:
        """[R]: the multipliers of other rows, for those of them that are still there; 0 for new ones."""
        known = dict(zip(zip(old.cost.tolist(), old.sign.tolist(), strict=True), multipliers.tolist(), strict=True))
        return np.array([known.get(row, 0.0) for row in zip(self.cost.tolist(), self.sign.tolist(), strict=True)])


def rows_of(limits: Float, floors: Float | None, cost_names: Sequence[str]) -> Rows:
    """Rows of limits [d] and floors [d]; an infinity is none."""
    upper = np.flatnonzero(np.isfinite(limits))
    if floors is None:
        return Rows(upper, np.ones(upper.size), limits[upper], tuple(cost_names))
    lower = np.flatnonzero(np.isfinite(floors))
    return Rows(
        np.concatenate((upper, lower)),
        np.concatenate((np.ones(upper.size), -np.ones(lower.size))),
        np.concatenate((limits[upper], -floors[lower])),
        tuple(cost_names),
    )


def lowered(bounds: ArrayLike, margin: float) -> Float:
    """Upper bounds [...], lowered by such a share of their size; infinities stay."""
    given = np.asarray(bounds, dtype=np.float64)
    return np.where(np.isfinite(given), given - margin * size_of(given, np.zeros_like(given)), given)


def size_of(aim: Float, largest: Float) -> Float:
    """What a relative tolerance is relative to: the size of a limit or optimum, or the largest total where it is 0."""
    size: Float = np.where(aim == 0.0, largest, np.where(np.isfinite(aim), np.abs(aim), 0.0))
    return size


def rounding_slack(limits: Float, largest: Float) -> Float:
    """[d]: how far rounding alone may push a total above its limit: 30 costs of 1/30 are not above a limit of 1."""
    return np.where(limits == 0.0, DUST, ROUNDING) * size_of(limits, largest)

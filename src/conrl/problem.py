"""What is asked of a model. So far: expected costs within limits (`Linear`).

Linear limits are rows  sign_r * z[1 + cost_r] <= bound_r  on the value vector z = (reward, costs): a limit has
sign +1, a floor has sign -1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl.inputs import resolve_limits
from conrl.model import ConstrainedMDP

Float = NDArray[np.float64]


class Rows(NamedTuple):
    """Linear constraints on a value vector."""

    cost: NDArray[np.int64]  # [R]: which cost
    sign: Float  # [R]: +1 a limit, -1 a floor
    bound: Float  # [R]

    @property
    def size(self) -> int:
        return self.cost.size

    def matrix(self, num_costs: int) -> Float:
        """[R, 1+d]: row r times z must be at most bound_r."""
        G = np.zeros((self.size, 1 + num_costs))
        G[np.arange(self.size), 1 + self.cost] = self.sign
        return G

    def select(self, keep: Any) -> Rows:
        return Rows(self.cost[keep], self.sign[keep], self.bound[keep])

    def names(self, cost_names: tuple[str, ...]) -> tuple[str, ...]:
        """What to call each row: the cost's name, with `>=` or `<=` and the bound."""
        return tuple(
            f"{cost_names[i]} {'<=' if s > 0 else '>='} {s * b:.10g}"
            for i, s, b in zip(self.cost, self.sign, self.bound, strict=True)
        )


@dataclass(frozen=True)
class Linear:
    """Maximise the expected reward with every expected total cost at most its limit and at least its floor.

    Both are [d], or by cost name; `None` or an infinity means none. Without arguments: no limit at all.
    """

    limits: ArrayLike | Mapping[str, float] | None = None
    floors: ArrayLike | Mapping[str, float] | None = None

    def rows(self, mdp: ConstrainedMDP) -> Rows:
        """The finite limits, then the finite floors, of a model's costs."""
        limits = resolve_limits(self.limits, mdp.cost_names, "limits")
        floors = resolve_limits(self.floors, mdp.cost_names, "floors")
        upper, lower = np.flatnonzero(np.isfinite(limits)), np.flatnonzero(np.isfinite(floors))
        return Rows(
            np.concatenate((upper, lower)),
            np.concatenate((np.ones(upper.size), -np.ones(lower.size))),
            np.concatenate((limits[upper], -floors[lower])),
        )

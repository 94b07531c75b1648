"""The null action of the knapsack setting: an episode may be skipped, which earns and costs nothing.

It adds the origin to the set of value vectors: support(w) becomes max(0, support(w)). The model itself is not changed.
"""

from __future__ import annotations

import numpy as np

from conrl._types import Float
from conrl.oracles.protocols import Edge, LineRows, Rounding, SupportOracle, Supports
from conrl.policy import Policy


class WithNullAction(SupportOracle):
    """The oracle of conv(Z and 0). Where a policy and the null action do equally well, it answers with the policy."""

    def __init__(self, inner: SupportOracle) -> None:
        self.inner = inner
        self.num_costs, self.horizon, self.scale = inner.num_costs, inner.horizon, inner.scale
        self.curved = inner.curved

    def support_error(self, w: Float, value: float) -> float:
        return self.inner.support_error(w, value)

    def point_error(self, w: Float) -> Float:
        return self.inner.point_error(w)

    def rounding(self, sharp: bool = False) -> Rounding:
        return self.inner.rounding(sharp)

    def strict(self) -> WithNullAction:
        return WithNullAction(self.inner.strict())

    def support_many(self, directions: Float) -> Supports:
        values, points, means, _ = self.inner.support_many(directions)
        skips = values < 0.0
        points[skips] = 0.0
        means[skips] = 0.0
        return Supports(np.maximum(values, 0.0), points, means, skips)

    def edge(
        self, a: Float, rows: LineRows, begin: Float, tol: float, most: int, relax: bool, null: bool = True
    ) -> Edge | None:
        return self.inner.edge(a, rows, begin, tol, most, relax, null=True)

    def policy(self, w: Float) -> Policy:
        """What is played where the episode is not skipped."""
        return self.inner.policy(w)

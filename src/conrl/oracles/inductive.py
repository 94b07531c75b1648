"""What `BackwardInduction` and `LargeBackwardInduction` share: how far rounding may put their answers off.

A total is a sum of products, off by at most (operations on the way) x 2^-53 x (the expected total of the *sizes* of
what is added). For all policies at once, that total comes from one backward induction on the sizes; of one policy, it
is what that policy is paid, often much less.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from conrl._types import Float
from conrl.model import ConstrainedMDP
from conrl.model.reading import ROW_SUM_TOLERANCE
from conrl.oracles.protocols import ModelOracle
from conrl.rounding import HALF_ULP, TINY


class InductiveOracle(ModelOracle):
    """`ModelOracle` that answers by backward induction over the steps of a model."""

    @abstractmethod
    def _alike(self, mdp: ConstrainedMDP) -> ModelOracle:
        """The oracle of the same kind of another model."""

    @property
    def _extent(self) -> tuple[Float, Float]:
        """[1+d] each: the least and the most that a pair pays, where there is no bonus."""
        return self._pay.min(axis=0), self._pay.max(axis=0)

    @property
    def _unit(self) -> float:
        """What one operation is off by, in proportion to computed sizes; one percent more: they are rounded too."""
        return 1.02 * HALF_ULP * math.exp(ROW_SUM_TOLERANCE * self.horizon)

    def _largest_totals(self) -> Float:
        """By backward induction on the sizes; upward, as that is rounded too."""
        mdp = self.mdp
        sizes = np.abs(mdp.pay) if mdp.bonus is None else np.abs(mdp.pay) + mdp.bonus
        oracle = self._alike(mdp._copy(pay=sizes, bonus=None))
        return oracle.support_many(np.eye(1 + self.num_costs)).values * (1.0 + 1e-6)

    def support_error(self, w: Float, value: float) -> float:
        """In proportion to the value itself, where every pair pays 0 or less along w: nothing cancels, and a policy
        that is paid much less than the best is not the best, however it is rounded."""
        low, high = self._extent
        if self._bonus is not None or (np.where(w > 0.0, high, -low)[w != 0.0] > 0.0).any():
            return super().support_error(w, value)
        return self._operations[0] * (self._unit * abs(value) + TINY * (1.0 + float(np.abs(w) @ self.scale)))

    def error_of(self, sizes: Float) -> Float:
        operations = self._operations[1]
        return np.asarray(operations * self._unit * sizes + TINY * operations * (1.0 + self.scale))

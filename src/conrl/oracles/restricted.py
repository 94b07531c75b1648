"""The exact oracle of a model from which some pairs are taken away.

Backward induction as on the whole model, with a pay of -inf for what is gone: nothing is laid out again, so that a
branch of a search costs its sweeps only. What the whole oracle proves about its rounding holds for every part.
"""

from __future__ import annotations

import numpy as np

from conrl._types import Bool, Float
from conrl.oracles.backward_induction import BackwardInduction


class Whole(BackwardInduction):
    """The exact oracle of a model, of which parts can be made; its largest totals are computed once for all of them."""

    _totals: Float | None = None

    def _largest_totals(self) -> Float:
        if self._totals is None:
            self._totals = super()._largest_totals()
        return self._totals

    @property
    def pairs(self) -> int:
        """How many pairs the reachable part has."""
        return int(self._pay.shape[0])

    def without(self, gone: Bool) -> BackwardInduction:
        """The oracle without the pairs `gone` [P], in the order of the reachable part; every position keeps one."""
        return _Part(self, gone)


class _Part(BackwardInduction):
    def __init__(self, whole: Whole, gone: Bool) -> None:
        vars(self).update(vars(whole))
        self._whole = whole
        self._gone = gone
        missing = np.append(gone, True)[whole._slot_pair]
        self._laid = (*whole._laid[:-2], missing, whole._laid[-1])

    def _largest_totals(self) -> Float:
        return self._whole._largest_totals()

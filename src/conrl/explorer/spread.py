"""Places spread over all limits, and what both bounds say there: the worst of them is asked about, again and again.

At a place h, the mixture of columns that is best has multipliers l (`mixing.py`). The oracle's best column at the
prices l is one step of column generation: either it is new and earns more than the mixture does, l.u taken off, or its
cut proves that nothing within h earns more. Where no mixture keeps h, l is of the least excess, and the answer is a
column that uses less, or a wall. So each question brings a column where the bounds differ, and no column is met on the
way to another, which makes the most of those that a page has room for.

A new column can matter at a place only if it gains at the multipliers there, so only these are solved again, and of
them only the worst.
"""

from __future__ import annotations

import numpy as np

from conrl._types import Float, Int
from conrl.explorer.mixing import Mixed
from conrl.explorer.surface import ROUNDING, Bounds

GRAVE = 4.0  # of what rewards differ by: what a unit counts by which a place cannot be kept, nor is proven not to be
WITHIN = 1e-3  # units: and up to ten times that, by which a place is within a wall
GAIN = 1e-10  # of the unit of rewards: what a column must gain to matter


class Spread:
    """Places [N, R], inf for no limit, and what is known about each."""

    def __init__(self, bounds: Bounds, places: Float) -> None:
        count, rows = places.shape
        self.bounds, self.places = bounds, places
        self.finite = np.isfinite(places)
        self.h = np.where(self.finite, places, 0.0)
        self.upper, self.lower = np.full(count, np.inf), np.full(count, -np.inf)
        self.short = np.zeros(count)  # by so many units no mixture keeps the place
        self.prices, self.base = np.zeros((count, rows)), np.full(count, -np.inf)
        self.found: list[Mixed | None] = [None] * count
        self.old = np.ones(count, dtype=bool)  # a newer column may matter
        self.settled = np.zeros(count, dtype=bool)  # nothing more is to be told
        self._known = [0, 0, 0]  # columns, cuts and walls

    def close(self, least: float) -> None:
        """Ask until the bounds are nowhere further apart than that."""
        while self.places.size and not self.bounds.spent:
            self._catch_up()
            gaps = self.gaps()
            k = int(np.argmax(gaps))
            if gaps[k] <= least:
                return
            found = self.found[k]
            if found is None or self.old[k]:
                self._solve(k)
            else:
                self.settled[k] |= not self.bounds.step(found)

    def used(self) -> set[int]:
        """The columns that are mixed somewhere; without the others no lower bound is less."""
        parts = (found.parts for found in self.found if found is not None)
        return set(np.concatenate([*parts, []]).astype(int).tolist())

    def renumber(self, kept: set[int]) -> None:
        """Columns that are not kept are gone, and what a place mixes is not among them."""
        now = {i: k for k, i in enumerate(sorted(kept))}
        for k, found in enumerate(self.found):
            if found is not None:
                self.found[k] = found._replace(parts=np.array([now[i] for i in found.parts.tolist()], dtype=np.int64))
        self._known[0] = len(kept)

    def gaps(self) -> Float:
        """[N]: how far the bounds are apart, as a share; or how far it is to where something can be kept."""
        known = np.isfinite(self.lower)
        # Room is scarce where it is about all limits: where they take little, it is not spent on a share of that.
        worth = np.maximum(self.bounds.lost(self.lower[known]), self.bounds.mixing.reward_unit)
        apart = np.full(self.lower.size, np.inf)
        apart[known] = (self.upper - self.lower)[known] / worth
        return np.where(self.settled, 0.0, np.where(self.short > 0.0, GRAVE * self.short, apart))

    def most_apart(self, least: float) -> float:
        """The largest difference of the bounds, where a mixture is known and it is more than such a share."""
        self._catch_up()
        while True:
            apart = self.upper - self.lower
            small = np.isfinite(apart) & (apart <= least * self.bounds.lost(self.lower))
            apart[small | self.settled | (self.short > 0.0)] = 0.0
            k = int(np.argmax(apart)) if apart.size else -1
            if k < 0 or not self.old[k]:
                return float(apart[k]) if apart.size else 0.0
            self._solve(k)

    def _solve(self, k: int) -> None:
        found = self.bounds.mixing.mixed(self.places[k])
        self.lower[k], self.short[k], self.prices[k], self.base[k], _ = self.found[k] = found
        self.old[k] = False

    def _catch_up(self) -> None:
        """Take note of what is new."""
        surface = self.bounds.surface
        columns, cuts, walls = surface.columns, surface.cuts, surface.walls
        for column in columns[self._known[0] :]:
            gain = np.where(self.short > 0.0, 0.0, column.value[0]) - self.prices @ (self.bounds.G @ column.value)
            scale = np.where(self.short > 0.0, 1.0, self.bounds.mixing.reward_unit)
            self.old |= gain > self.base + GAIN * scale
        for cut in cuts[self._known[1] :]:
            told = ((cut[1:] == 0.0) | self.finite).all(axis=1)
            np.minimum(self.upper, np.where(told, cut[0] + self.h @ cut[1:], np.inf), out=self.upper)
        for wall in walls[self._known[2] :]:
            told = ((wall[1:] == 0.0) | self.finite).all(axis=1)
            self._move(np.flatnonzero(told & (self.h @ wall[1:] < wall[0] - ROUNDING)), wall)
        self._known = [len(columns), len(cuts), len(walls)]

    def _move(self, beyond: Int, wall: Float) -> None:
        """Places beyond a wall go to just within it, where the reward falls steeply as a rule."""
        unit = self.bounds.mixing.unit
        for k in beyond.tolist():
            away = float(wall[0] - wall[1:] @ self.h[k]) / float(wall[1:] @ unit)
            self.h[k] += np.where(self.finite[k], (away + WITHIN * (1 + k % 10)) * unit, 0.0)
            self.places[k] = np.where(self.finite[k], self.h[k], np.inf)
            self.upper[k], self.lower[k], self.short[k] = self.bounds.upper(self.places[k]), -np.inf, 0.0
            self.found[k], self.old[k], self.settled[k] = None, True, False

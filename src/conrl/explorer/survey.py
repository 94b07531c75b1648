"""Where to ask, so that a page knows the best reward at all limits: where its two bounds differ most.

On the line through the opening along each row that is where two cuts meet, as in the dichotomic search of
`conrl.planners.frontier`: between them the upper bound is a line, and the lower one concave. Elsewhere it is looked for
among places spread over the box of limits (`spread.py`). The bounds are brought together everywhere to one percent
first, then to a tenth of that, and so on, as long as the page has room for more columns. A full page drops those that
are mixed nowhere, and goes on.
"""

from __future__ import annotations

import itertools

import numpy as np

from conrl._types import Float, Int
from conrl.errors import RunError
from conrl.explorer.spread import Spread
from conrl.explorer.subject import FIXED, Subject
from conrl.explorer.surface import TOL, Bounds, Gap, Surface, telling
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict
from conrl.planners.feasibility import infeasible

CLOSE = 1e-5  # of what limits take of the reward: a difference between the bounds that is not worth a question
LEVELS = (1e-2, 1e-3, 1e-4, CLOSE)  # down to which the bounds are brought everywhere, one after the other
NEAR = 3e-4  # of what they take, or of what rewards differ by: the same where it is about all limits together
TIDY = 0.95  # share of the columns that are in use, above which it is not worth to drop the others
SPREAD = 1_500  # places that are looked at beside the lines through the opening
HALVINGS = 12
GRID = 6  # by so many places a pair of rows is looked at


def survey(subject: Subject, most: int, choose: bool) -> Surface:
    """The surface of a subject in at most so many columns, or a few more; `InfeasibleError` if nothing is feasible.

    `choose`: the page may open at another limit, where none of those asked for binds.
    """
    return _Survey(subject, most).run(choose)


class _Survey(Bounds):
    """The search."""

    def run(self, choose: bool) -> Surface:
        """The opening first, then the ends of each slider, the lines through the opening, and the box."""
        surface, fixed = self.surface, [line.kind == FIXED for line in self.subject.lines]
        none = np.where(fixed, self.rows.bound, np.inf)
        best = self.plan(surface.own)
        if best is None:
            raise infeasible(self.oracle, self.rows.select(np.isfinite(surface.own)), self.conflict)
        if choose and not (best.multipliers > 0.0).any():
            surface.opening = self._binding(surface.own)
        free = self.look(none)
        if free is not None:
            surface.best = free.objective
        for r in self.sliders.tolist():
            for others in (surface.opening, none):
                h = others.copy()
                h[r] = np.inf
                self.look(h)
                h[r] = self._first(r, others)
                self.look(h)
        spread = Spread(self, self._places(none))
        asked = {r: set[float]() for r in self.sliders.tolist()}
        for close in LEVELS:
            again = True
            while again:
                for r in self.sliders.tolist():
                    self._line(r, close, asked[r])
                spread.close(max(close, NEAR))
                again = self.full and self._tidy(spread)
        # Where neither a mixture nor a wall tells whether the limits can be kept, the difference is no number.
        left = (gap for r in self.sliders.tolist() for gap, _ in self._gaps(r))
        surface.error = max(spread.most_apart(CLOSE), *(gap.reward for gap in left if CLOSE < gap.share < np.inf), 0.0)
        return surface

    def _tidy(self, spread: Spread) -> bool:
        """Make room: only columns that are mixed at the places, or along the lines, stay. False if that is no gain."""
        kept = spread.used() | set(self.mixing.mixed(self.surface.opening).parts.tolist())
        for r in self.sliders.tolist():
            for _, x in self._gaps(r):
                kept.update(self.mixing.mixed(self._along(r, x)).parts.tolist())
        if len(kept) > TIDY * self.most:
            return False
        self.drop_others(kept)
        spread.renumber(kept)
        return True

    def _along(self, r: int, x: float) -> Float:
        """The opening with another bound of one row."""
        h = self.surface.opening.copy()
        h[r] = x
        return h

    def _binding(self, own: Float) -> Float:
        """The bounds with the first that matters halfway between what is least and what is used without it."""
        for r in self.sliders.tolist():
            h = own.copy()
            h[r] = np.inf
            best = self.look(h)
            if best is None or self.rows.sign[r] < 0.0:
                continue
            used, first = float(self.G[r] @ (best.weights @ best.points)), self._first(r, own)
            for _ in range(HALVINGS):
                used = 0.5 * (used + first)
                if used - first <= 1e-6 * self.mixing.unit[r]:
                    break
                h[r] = used
                best = self.look(h)
                if best is not None and best.multipliers[np.flatnonzero(np.isfinite(h)) == r] > 0.0:
                    return h
        return own

    def _first(self, r: int, others: Float) -> float:
        """The least bound of a row that can be kept together with the others."""
        finite = np.isfinite(others)
        finite[r] = False
        rows = self.rows.at(others).select(finite)
        if not rows.size:
            return float(self.least[r])
        try:
            best = maximise(self.oracle, -self.G[r], rows, tol=TOL, columns=self.met)
        except (Conflict, RunError):
            return float(self.least[r])
        self.work += self.sweep * best.asked
        return -best.objective

    def _line(self, r: int, close: float, asked: set[float]) -> None:
        """Along one row through the opening: ask wherever two cuts meet too high above the mixtures."""
        while True:
            worth = sorted(((gap, x) for gap, x in self._gaps(r) if gap.share > close and x not in asked), reverse=True)
            if not worth or self.spent:
                return
            for _, x in worth:
                if not self.spent and not self.step(self.mixing.mixed(self._along(r, x))):
                    asked.add(x)

    def _gaps(self, r: int) -> list[tuple[Gap, float]]:
        """How far the bounds are apart along one row through the opening, and where: between two of these places the
        upper one is a line and the lower one concave, so that nowhere it is more."""
        surface, h = self.surface, self.surface.opening.copy()
        h[r] = 0.0
        finite = np.isfinite(h)
        heads, slopes = telling(surface.cuts, h)
        own = slopes[:, int(finite[:r].sum())]
        found = []
        for x in _breaks(heads + slopes @ h[finite], own, float(surface.low[r]), float(surface.high[r])):
            h[r] = x
            found.append((self.gap(h), x))
        return found

    def _places(self, none: Float) -> Float:
        """Points of the box: pairs of rows by a grid, the others at the opening; and all rows at random."""
        surface, places = self.surface, []
        if self.sliders.size < 2:
            return np.zeros((0, none.size))
        generator = np.random.default_rng(0)

        def at(r: Int, share: Float) -> Float:
            return surface.low[r] + share * (surface.high[r] - surface.low[r])

        pairs = list(itertools.combinations(self.sliders.tolist(), 2))
        steps = GRID if len(pairs) <= 10 else 3
        shares = (np.arange(steps) + 0.5) / steps
        for pair in pairs:
            for both in itertools.product(shares.tolist(), repeat=2):
                h = surface.opening.copy()
                h[list(pair)] = at(np.array(pair), np.array(both))
                places.append(h)
        for k in range(SPREAD):
            h = none.copy()
            share = generator.random(self.sliders.size) ** (1 + k % 3)
            free = generator.random(self.sliders.size) < 0.2
            h[self.sliders] = np.where(free, np.inf, at(self.sliders, share))
            places.append(h)
        return np.array(places)


def _breaks(heights: Float, slopes: Float, low: float, high: float) -> list[float]:
    """Where the least of the lines heights + slopes x turns, between low and high; the ends of it too.

    >>> _breaks(np.array([0.0, 1.0, 9.0]), np.array([2.0, 0.0, 0.0]), 0.0, 4.0)
    [0.0, 0.5, 4.0]
    """
    found, x = [low], low
    now = int(np.lexsort((slopes, heights + slopes * x))[0])
    while True:
        flatter = np.flatnonzero(slopes < slopes[now])
        if not flatter.size:
            break
        meets = (heights[flatter] - heights[now]) / (slopes[now] - slopes[flatter])
        first = int(np.lexsort((slopes[flatter], meets))[0])
        x = max(float(meets[first]), x)
        if x >= high:
            break
        if x > found[-1]:
            found.append(x)
        now = int(flatter[first])
    return [*found, high]

"""The best reward as a function of all limits at once: from below by columns, from above by cuts.

Letters: h [R] are the bounds of the rows, G z <= h, and f(h) the best reward within them, concave in h. Z holds the
value vectors of the model.

    columns   z_1 .. z_n in Z: mixtures of them attain  lower(h) = max { sum w_i r_i : sum w_i G z_i <= h } <= f(h)
    cuts      (s_j, l_j), l_j >= 0: f(h) <= upper(h) = min_j  s_j + l_j.h, where s_j = support(a - G'l_j)
    walls     (m_j, l_j), l_j >= 0: l_j.G z >= m_j for all z in Z, so that nothing keeps h if l_j.h < m_j

A plan at h (`column_generation.linear`) gives all of them: the columns that it mixes and its multipliers, for which
the three agree at h; or, if h cannot be kept, the proof of that. So the places to plan at are those where upper and
lower differ most. On the line through the opening along each row they are where two cuts meet, as in the dichotomic
search of `conrl.planners.frontier`; elsewhere they are looked for among points spread over the box of limits.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from conrl._types import Float, Int
from conrl.errors import RunError
from conrl.explorer.mixing import Mixing
from conrl.explorer.subject import FIXED, Subject
from conrl.oracles import SupportOracle
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Columns, Conflict, Optimum
from conrl.planners.feasibility import infeasible

TOL = 1e-9  # of the plans, as `conrl.plan` has it
CLOSE = 1e-6  # of the largest reward: a difference between the bounds that is not worth a plan
LEVELS = (1e-2, 1e-3, 1e-4, 1e-5, CLOSE)  # down to which the bounds are brought everywhere, one after the other
ROUNDING = 1e-9  # of a row's unit: what is no nearer to a wall is beyond it
LIGHT = 1e-9  # weight of a column that is left out
PLANS = 500
ASKED = 4e9  # directions x outcomes x steps of all plans together
SPREAD = 240  # places that are looked at beside the lines through the opening
HALVINGS = 12
GRID = 6  # by so many places a pair of rows is looked at


@dataclass(frozen=True, eq=False)
class Column:
    """A deterministic policy, by the direction that it answers."""

    value: Float  # [1+D]
    direction: Float  # [1+D]
    skip: bool  # the null action
    oracle: SupportOracle


@dataclass(eq=False)
class Surface:
    """Both bounds on f, as far as they are known. `low` and `high` [R] are the ends of the sliders."""

    low: Float
    high: Float
    own: Float  # [R]: as asked for; inf for none
    opening: Float  # [R]: where the page opens
    columns: list[Column] = field(default_factory=list)
    cuts: list[Float] = field(default_factory=list)  # [1+R]: s, l
    walls: list[Float] = field(default_factory=list)  # [1+R]: m, l
    error: float = 0.0  # the largest difference of the bounds where it was looked for last


def survey(subject: Subject, most: int, choose: bool) -> Surface:
    """The surface of a subject in at most so many columns, or a few more; `InfeasibleError` if nothing is feasible.

    `choose`: the page may open at another limit, where none of those asked for binds.
    """
    return _Survey(subject, most).run(choose)


class _Survey:
    def __init__(self, subject: Subject, most: int) -> None:
        self.subject, self.most = subject, most
        self.oracle, self.rows = subject.oracle, subject.rows
        self.G = self.rows.matrix(self.oracle.num_costs)
        self.sliders = np.flatnonzero([line.kind != FIXED for line in subject.lines])
        self.a = np.eye(1 + self.oracle.num_costs)[0]
        self.met, self.known = Columns(), dict[bytes, int]()
        self.conflict = Conflict(np.zeros(0), 0.0)  # the last one
        self.plans, self.work = 0, 0.0
        self.sweep = _work(subject)
        ends = self.oracle.support_many(np.vstack((self.a, -self.G)))
        self.least = -ends.values[1:]
        uses = ends.points @ self.G.T
        spread = uses.max(axis=0) - uses.min(axis=0)
        unit = np.where(spread > 1e-9 * np.abs(uses).max(axis=0), spread, np.maximum(np.abs(uses).max(axis=0), 1.0))
        gains = ends.points[:, 0]
        self.size = float(np.abs(gains).max()) or 1.0
        self.mixing = Mixing(unit, self.size)
        # Nothing uses less of a row than the least.
        walls = [np.concatenate(([self.least[r]], np.eye(self.rows.size)[r])) / unit[r] for r in range(self.rows.size)]
        self.surface = Surface(self.least, uses[0].copy(), self.rows.bound.copy(), self.rows.bound.copy(), walls=walls)

    # -- plans --------------------------------------------------------------------------------------------

    def look(self, h: Float) -> Optimum | None:
        """Plan at h where rounding allows it: at the very end of what can be kept it may not, and nothing is told."""
        try:
            return self.plan(h)
        except RunError:
            return None

    def plan(self, h: Float) -> Optimum | None:
        """Plan at h and keep what that tells; None, with a wall more, if h cannot be kept."""
        self.plans += 1
        finite = np.isfinite(h)
        rows = self.rows.select(finite)
        rows = type(rows)(rows.cost, rows.sign, h[finite], rows.cost_names)
        before = len(self.met.points)
        try:
            best = maximise(self.oracle, self.a, rows, tol=TOL, columns=self.met)
        except Conflict as conflict:
            self.conflict = conflict
            self.work += self.sweep * (1 + len(self.met.points) - before)
            wall = np.zeros(1 + h.size)
            wall[1:][finite] = conflict.multipliers
            # Of all z, l.G z is at least l.h + violation.
            wall[0] = float(conflict.multipliers @ h[finite]) + conflict.violation
            self.surface.walls.append(wall / (float(np.abs(wall[1:] * self.mixing.unit).max()) or 1.0))
            return None
        self.work += self.sweep * best.asked
        cut = np.zeros(1 + h.size)
        cut[1:][finite] = best.multipliers
        cut[0] = best.bound - float(best.multipliers @ h[finite])
        self.surface.cuts.append(cut)
        for i in np.flatnonzero(best.weights > LIGHT).tolist():
            self._keep(best, i)
        return best

    def _keep(self, best: Optimum, i: int) -> None:
        value = best.means[i]
        key = np.array([float(f"{x:.11g}") for x in value]).tobytes()
        if key in self.known:
            return
        self.known[key] = len(self.surface.columns)
        self.surface.columns.append(Column(value, best.directions[i], bool(best.skips[i]), best.oracle))
        use = self.G @ value
        self.mixing.add(float(value[0]), use)
        self.surface.high = np.maximum(self.surface.high, use)

    @property
    def spent(self) -> bool:
        """Whether no more may be planned."""
        return self.plans >= PLANS or self.work >= ASKED or len(self.surface.columns) >= self.most

    # -- what is known ------------------------------------------------------------------------------------

    def upper(self, h: Float) -> float:
        """The least cut; a cut with a price on a row that h does not limit says nothing."""
        finite = np.isfinite(h)
        cuts = np.array(self.surface.cuts)
        cuts = cuts[(cuts[:, 1:][:, ~finite] == 0.0).all(axis=1)]
        if not cuts.size:
            return np.inf
        return float((cuts[:, 0] + cuts[:, 1:][:, finite] @ h[finite]).min())

    def walled(self, h: Float) -> bool:
        """Whether it is proven that h cannot be kept."""
        walls = np.array(self.surface.walls)
        finite = np.isfinite(h)
        walls = walls[(walls[:, 1:][:, ~finite] == 0.0).all(axis=1)]
        return bool((walls[:, 1:][:, finite] @ h[finite] < walls[:, 0] - ROUNDING).any())

    def gap(self, h: Float) -> float:
        """How far the bounds are apart at h; 0 where nothing is feasible."""
        if self.walled(h):
            return 0.0
        lower = self.mixing.best(h)
        return np.inf if lower is None else max(self.upper(h) - lower, 0.0)

    # -- the search ---------------------------------------------------------------------------------------

    def run(self, choose: bool) -> Surface:
        """The opening first, then the ends of each slider, the lines through the opening, and the box."""
        surface, fixed = self.surface, [line.kind == FIXED for line in self.subject.lines]
        none = np.where(fixed, self.rows.bound, np.inf)
        best = self.plan(surface.own)
        if best is None:
            raise infeasible(self.oracle, self.rows.select(np.isfinite(surface.own)), self.conflict)
        if choose and not (best.multipliers > 0.0).any():
            surface.opening = self._binding(surface.own)
        self.look(none)
        for r in self.sliders.tolist():
            for others in (surface.opening, none):
                h = others.copy()
                h[r] = np.inf
                self.look(h)
                h[r] = self._first(r, others)
                self.look(h)
        places = self._places(none)
        gaps, asked = np.full(len(places), np.inf), {r: set[float]() for r in self.sliders.tolist()}
        for close in LEVELS:
            for r in self.sliders.tolist():
                self._line(r, close * self.size, asked[r])
            self._box(places, gaps, close * self.size)
        # What is left where no limit can be told from the proofs to be kept or not is no number.
        left = [gap for gap in map(self.gap, places) if np.isfinite(gap)]
        surface.error = max(left, default=0.0)
        return surface

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
        rows = self.rows.select(finite)
        if not rows.size:
            return float(self.least[r])
        rows = type(rows)(rows.cost, rows.sign, others[finite], rows.cost_names)
        try:
            best = maximise(self.oracle, -self.G[r], rows, tol=TOL, columns=self.met)
        except (Conflict, RunError):
            return float(self.least[r])
        self.work += self.sweep * best.asked
        return -best.objective

    def _line(self, r: int, close: float, asked: set[float]) -> None:
        """Along one row through the opening: plan where two cuts meet highest above the mixtures."""
        surface = self.surface
        while not self.spent:
            others = surface.opening.copy()
            others[r] = 0.0
            finite = np.isfinite(others)
            cuts = np.array(surface.cuts)
            cuts = cuts[(cuts[:, 1:][:, ~finite] == 0.0).all(axis=1)]
            heights = cuts[:, 0] + cuts[:, 1:][:, finite] @ others[finite]
            found = []
            for x in _breaks(heights, cuts[:, 1 + r], float(surface.low[r]), float(surface.high[r])):
                if x not in asked:
                    others[r] = x
                    found.append((self.gap(others), x))
            gap, x = max(found, default=(0.0, 0.0))
            if gap <= close:
                return
            asked.add(x)
            others[r] = x
            self.look(others)

    def _box(self, places: list[Float], gaps: Float, close: float) -> None:
        """Plan at the worst of the places, until none is worth it. The bounds only ever come nearer to each other, so
        that what was known of a place before, `gaps`, is at least what is left."""
        while gaps.size and not self.spent:
            k = int(np.argmax(gaps))
            if gaps[k] <= close:
                return
            now = self.gap(places[k])
            if now < gaps[k]:
                gaps[k] = now
                continue
            self.look(places[k])
            gaps[k] = 0.0

    def _places(self, none: Float) -> list[Float]:
        """Points of the box: pairs of rows by a grid, the others at the opening; and all rows at random."""
        surface, places = self.surface, []
        if self.sliders.size < 2:
            return []
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
        for _ in range(SPREAD):
            h = none.copy()
            share = generator.random(self.sliders.size)
            free = generator.random(self.sliders.size) < 0.2
            h[self.sliders] = np.where(free, np.inf, at(self.sliders, share))
            places.append(h)
        return places


def _work(subject: Subject) -> float:
    """Outcomes x steps of one sweep of the oracle."""
    if subject.fleet is not None:
        units = sum(stack.successor.size * stack.count.size for stack in subject.fleet.stacks)
        return float(units * subject.fleet.horizon)
    assert subject.model is not None
    repeats = 1 if subject.model.step_dependent else subject.steps or 100
    return float(subject.model.graph.probability.size * repeats)


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

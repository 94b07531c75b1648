"""The best reward as a function of all limits at once: from below by columns, from above by cuts.

Letters: h [R] are the bounds of the rows, G z <= h, and f(h) the best reward within them, concave in h. Z holds the
value vectors of the model.

    columns   z_1 .. z_n in Z: mixtures of them attain  lower(h) = max { sum w_i r_i : sum w_i G z_i <= h } <= f(h)
    cuts      (s_j, l_j), l_j >= 0: f(h) <= upper(h) = min_j  s_j + l_j.h, where s_j = support(a - G'l_j)
    walls     (m_j, l_j), l_j >= 0: l_j.G z >= m_j for all z in Z, so that nothing keeps h if l_j.h < m_j

A plan at h (`column_generation.linear`) gives all of them: the columns that it mixes and its multipliers, for which
the three agree at h; or, if h cannot be kept, the proof of that. A question at some prices l gives one column and one
cut or wall. Where to plan and what to ask is for `survey.py` to say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from conrl._types import Float
from conrl.errors import RunError
from conrl.explorer.mixing import LIGHT, Mixed, Mixing
from conrl.explorer.subject import FIXED, Subject
from conrl.oracles import SupportOracle
from conrl.planners.allowance import Allowance
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Met, Optimum
from conrl.policy import Policy

TOL = 1e-9  # of the plans, as `conrl.plan` has it
ROUNDING = 1e-9  # of a row's unit: what is no nearer to a wall is beyond it
STEEP = 1e4  # largest rewards that a unit of a row is worth, where it is about keeping that row
LEAST_LOSS = 1e-3  # units of rewards: errors are never measured by less
PLANS = 500
ASKED = 4e9  # directions x outcomes x steps of all plans together


@dataclass(frozen=True, eq=False)
class Column:
    """A deterministic policy, by the direction that it answers."""

    value: Float  # [1+D]
    direction: Float  # [1+D]
    skip: bool  # the null action
    oracle: SupportOracle

    @property
    def policy(self) -> Policy:
        """The policy, made anew; of the null action one that nobody plays."""
        return self.oracle.policy(self.direction)


@dataclass(eq=False)
class Surface:
    """Both bounds on f, as far as they are known. `low` and `high` [R] are the ends of the sliders."""

    low: Float
    high: Float
    own: Float  # [R]: as asked for; inf for none
    opening: Float  # [R]: where the page opens
    best: float  # reward without limits
    least_loss: float = 0.0  # what limits take of it is counted as no less
    columns: list[Column] = field(default_factory=list)
    cuts: list[Float] = field(default_factory=list)  # [1+R]: s, l
    walls: list[Float] = field(default_factory=list)  # [1+R]: m, l
    error: float = 0.0  # the largest difference of the bounds where it was looked for last


class Gap(NamedTuple):
    """How far the bounds are apart at some h."""

    share: float  # of what the limits take of the best reward
    reward: float


class Bounds:
    """A surface while it is made: what plans tell is kept, and how far the bounds are apart can be asked."""

    def __init__(self, subject: Subject, most: int) -> None:
        """Nothing is known at first but what is least of each row, and what is used where nothing is limited."""
        self.subject, self.most = subject, most
        self.oracle, self.rows = subject.oracle, subject.rows
        self.G = self.rows.matrix(self.oracle.num_costs)
        self.sliders = np.flatnonzero([line.kind != FIXED for line in subject.lines])
        self.a = np.eye(1 + self.oracle.num_costs)[0]
        self.met, self.known = Met(), dict[bytes, int]()
        self.conflict = Conflict(np.zeros(0), 0.0)  # the last one
        self.plans, self.work = 0, 0.0
        self.sweep = _work(subject)
        self.allowance = Allowance(self.oracle, self.rows.at(np.zeros(self.rows.size)))
        ends = self.oracle.support_many(np.vstack((self.a, -self.G)))
        self.least = -ends.values[1:]
        uses = ends.points @ self.G.T
        spread = uses.max(axis=0) - uses.min(axis=0)
        unit = np.where(spread > 1e-9 * np.abs(uses).max(axis=0), spread, np.maximum(np.abs(uses).max(axis=0), 1.0))
        gains = ends.points[:, 0]
        self.size = float(np.abs(gains).max()) or 1.0
        best = float(gains[0])
        # What rewards differ by. Neither a huge penalty of an action may hide it, nor an amount that all of them have.
        differ = max(min(best - float(gains.min()), abs(best)), 1e-6 * self.size)
        self.mixing = Mixing(unit, differ, best)
        # Nothing uses less of a row than the least.
        walls = [np.concatenate(([self.least[r]], np.eye(self.rows.size)[r])) / unit[r] for r in range(self.rows.size)]
        self.free = uses[0].copy()  # what is used where nothing is limited
        self.surface = Surface(self.least, self.free, self.rows.bound.copy(), self.rows.bound.copy(), best, walls=walls)
        self.surface.least_loss = max(LEAST_LOSS * differ, 1e-6 * abs(best))  # the second for the digits of a page

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
        rows = self.rows.at(h).select(finite)
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
            self._wall(wall)
            return None
        self.work += self.sweep * best.asked
        cut = np.zeros(1 + h.size)
        cut[1:][finite] = best.multipliers
        cut[0] = best.bound - float(best.multipliers @ h[finite])
        self.surface.cuts.append(cut)
        for i in np.flatnonzero(best.weights > LIGHT).tolist():
            self._keep(Column(best.means[i], best.directions[i], bool(best.skips[i]), best.oracle))
        return best

    def step(self, found: Mixed) -> bool:
        """Ask what the best mixture at some h leaves open; False if nothing, so that the bounds have met there."""
        before = len(self.surface.columns)
        if found.short > 0.0:
            self.ask_least(found.prices)
        else:
            self.ask(found.prices)
        return len(self.surface.columns) > before

    def ask(self, prices: Float) -> None:
        """Ask for the best column at some prices l [R]: that column, and the cut that it proves."""
        direction = self.a - prices @ self.G
        value, _, means, skips = self.oracle.support_many(direction[None])
        self.work += self.sweep
        error = self.allowance.outward(self.a, prices, TOL * self.mixing.reward_unit)
        self.surface.cuts.append(np.concatenate(([float(value[0]) + error], prices)))
        self._keep(Column(means[0], direction, skips is not None and bool(skips[0]), self.oracle))

    def ask_least(self, prices: Float) -> None:
        """Ask for what uses least at some prices l [R], which is a wall; and for what earns most of that."""
        value = float(self.oracle.support_many(-(prices @ self.G)[None]).values[0])
        self.work += self.sweep
        error = self.allowance.outward(0.0 * self.a, prices, ROUNDING * float(prices @ self.mixing.unit))
        self._wall(np.concatenate(([-value - error], prices)))
        self.ask(prices * (STEEP * self.size / float(prices @ self.mixing.unit)))

    def _wall(self, wall: Float) -> None:
        self.surface.walls.append(wall / (float(np.abs(wall[1:] * self.mixing.unit).max()) or 1.0))

    def _keep(self, column: Column) -> None:
        key = np.array([float(f"{x:.11g}") for x in column.value]).tobytes()
        if key in self.known:
            return
        self.known[key] = len(self.surface.columns)
        self.surface.columns.append(column)
        use = self.G @ column.value
        self.mixing.add(float(column.value[0]), use)
        self.surface.high = np.maximum(self.surface.high, use)

    def drop_others(self, kept: set[int]) -> None:
        """Keep some of the columns only."""
        columns = [self.surface.columns[i] for i in sorted(kept)]
        self.surface.columns, self.surface.high, self.known = [], self.free, {}
        self.mixing = Mixing(self.mixing.unit, self.mixing.reward_unit, self.mixing.zero)
        for column in columns:
            self._keep(column)

    @property
    def spent(self) -> bool:
        """Whether no more may be asked."""
        return self.plans >= PLANS or self.work >= ASKED or self.full

    @property
    def full(self) -> bool:
        """Whether the page has no room for another column."""
        return len(self.surface.columns) >= self.most

    # -- what is known ------------------------------------------------------------------------------------

    def upper(self, h: Float) -> float:
        """The least cut; a cut with a price on a row that h does not limit says nothing."""
        heads, slopes = telling(self.surface.cuts, h)
        if not heads.size:
            return np.inf
        return float((heads + slopes @ h[np.isfinite(h)]).min())

    def walled(self, h: Float) -> bool:
        """Whether it is proven that h cannot be kept."""
        heads, slopes = telling(self.surface.walls, h)
        return bool((slopes @ h[np.isfinite(h)] < heads - ROUNDING).any())

    def gap(self, h: Float) -> Gap:
        """How far the bounds are apart at h; 0 where nothing is feasible."""
        if self.walled(h):
            return Gap(0.0, 0.0)
        lower = self.mixing.best(h)
        if lower is None:
            return Gap(np.inf, np.inf)
        apart = max(self.upper(h) - lower, 0.0)
        return Gap(apart / float(self.lost(lower)), apart)

    def lost(self, reward: Float | float) -> Float:
        """What limits take of the best reward where they leave this: errors are measured by it.

        The reward itself is no measure: an amount that is in all rewards makes it large, and so does a penalty.
        """
        return np.maximum(self.surface.best - reward, self.surface.least_loss)


def telling(known: list[Float], h: Float) -> tuple[Float, Float]:
    """Of cuts or walls [1+R] those that say something about h, without a price on a row that h does not limit: their
    first numbers, and their prices of the rows that it limits."""
    finite = np.isfinite(h)
    table = np.array(known)
    table = table[(table[:, 1:][:, ~finite] == 0.0).all(axis=1)]
    return table[:, 0], table[:, 1:][:, finite]


def _work(subject: Subject) -> float:
    """Outcomes x steps of one sweep of the oracle."""
    if subject.fleet is not None:
        units = sum(stack.successor.size * stack.count.size for stack in subject.fleet.stacks)
        return float(units * subject.fleet.horizon)
    assert subject.model is not None
    repeats = 1 if subject.model.step_dependent else subject.steps or 100
    return float(subject.model.graph.probability.size * repeats)

"""Metrics of a run, each word defined once. History, studies, reports, figures and tables call this.

A run has K episodes and d costs; a table of values is [K, 1+d], reward first. The words:

- *seen*: the realised reward and costs of an episode.
- *executed*: the exact value of the policy that an episode played; what was seen where that is unknown: without a
  model, or where a hard budget's guard interfered.
- *reported*: the exact value of the policy that the learner shows, if it shows another one than it plays (ApproPO);
  nan as long as it shows nothing. The *values* of a run are those reported if there are any, else those executed.
- *smoothed*: the mean of the last `WINDOW` episodes; of fewer at the start.
- *final*: the mean of the values over the last `LAST` of the run.
- *exploring*: an episode that was planned to learn from, as ConRL's are whose number is a cube. It counts in all means
  and sums; how many of them are in a late window is said beside it.
- *violation*: an episode whose smoothed cost, as executed, is above its limit by more than `OVER` of it, or below its
  floor by more than that. *Violations* are the share of such episodes.
- *solved*: the first episode from which, to the end, the smoothed reward is at most `NEAR` of the optimum below it and
  no smoothed cost is further out than a violation is.
- *regret*: how far the mean of what was executed so far falls short of the optimum, and exceeds a limit (Section 2 of
  Brantley et al. 2020). Good episodes make up for bad ones.
- *safe regret*: the reward's regret against the *best safe policy*, the best of those that keep every limit with a
  margin: each bound is moved to the safe side by `MARGIN` of its size (`conrl.problem.tightened`). This is what a
  learner can hope for that must not break a limit while it learns and so stays away from it (Liu et al. 2021,
  "Learning policies with zero or bounded constraint violation for constrained MDPs"; Bura et al. 2022, "DOPE").
  Without a margin the best safe policy is the optimum, and this is the regret.
- *cumulative regret*, *cumulative violation*: the sums over all episodes of what each fell short of the optimum by, and
  of what it was out of its limits by (negative where it stayed inside); these regrets times the number of episodes.

The words above let good episodes make up for bad ones, or smooth them. Those below look at each policy by itself:

- *shortfall*, *excess*: the positive parts of optimum - reward; of cost - limit and floor - cost.
- *strong regret*, *strong violation*: the sums over the episodes of their shortfall and of their excess (Efroni, Mannor
  and Pirotta 2020, "Exploration-exploitation in constrained MDPs"; "strong" in Mueller et al. 2024, "Truly no-regret
  learning in constrained MDPs").
- *last iterate*: the policy of the last episode that was not exploring; its value, no mean, with its shortfall and its
  excess.
- *average policy*: one of all executed policies, each as likely, drawn anew for each episode (the PAC policy of
  Brantley et al. 2020). Its value is the mean of theirs.
- *violating*: the share of episodes whose own cost is above its limit by more than `TOLERANCE` of it, or below its
  floor by more than that. By default that is any excess but rounding, which plans keep to about 1e-9.
- *excess slope*: how fast the excess falls over the last decade of the run. The episodes K/10 < k <= K are put into
  `BINS` bins, as wide as each other in log k. The slope is that of the least-squares line through (log k, log of the
  mean excess of a bin), k the geometric mean of a bin: -0.5 if the excess falls as 1/sqrt(k), 0 if it stays, and -1 is
  where the strong violation grows as log K only. A bin without excess (at most 1e-9 of the limit's size) has no
  logarithm and is left out; if the last one is such a bin the slope is -inf, for the excess came to an end. It is nan
  where nothing is limited, for fewer than `LEAST` episodes, and if fewer than three bins have any excess.

They need the exact value of each episode: of a single draw the positive part would count chance as a violation. Where
the draw is part of what a learner executes (`Proposal.lottery`), the value of the episode is that of the lottery,
before the draw. With `play="mixture"` it is that of the component drawn, and 0 of an episode that a budget skips.

*Shares* of the size of the optimum or the limit mean the same in every environment, so that studies may put
environments together. Of several costs the worst counts:

- *score*: 1 - (optimum - final reward) / size: 1 at the optimum; the final reward over the optimum, if that is
  positive.
- *excess share*: how far the final cost is above its limit, or below its floor; 0 if it is not. (As everywhere here, of
  expected costs: limits on single episodes are not looked at.)
- *distance*: the larger of the two: how far what was played at the end falls short of the optimum, and exceeds a limit.
  This is the epsilon of a PAC statement, as a share. A learner that breaks limits for reward has a good score, but no
  small distance.
- *strong regret share*, *strong violation share*: the means over the episodes of their shortfall and of their excess.

`NEAR`, `OVER`, `TOLERANCE` and the 1e-9 are shares of the size of the optimum or the limit; where that is 0, of the
most that one step can pay. So units do not matter. An optimum is computed, so it counts as 0 if it is within 1e-9 of
the most that one step can pay: 0.1 + 0.2 - 0.3 is 5.6e-17. A limit is given, and is taken exactly: 1e-12 is a limit.
For the same reason a share of at most 1e-9, to either side of the optimum or beyond a limit, is told as 0: it is
rounding, which means over 30 and over 25 equal episodes differ by. (A `MARGIN` of 0 is 0: what is never negative cannot
be below 0 by a margin.) The values of one unending episode are means since its beginning already: they are not smoothed
again, the last of them is final, and no policy in it has a value of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from conrl._types import Bool, Float
from conrl.arguments import read_count, read_positive
from conrl.model.rows import ROUNDING, size_of
from conrl.wording import brief, counted, line, totals

WINDOW = 100  # episodes
NEAR = 0.1
OVER = 0.1
LAST = 0.1
MARGIN = 0.05
TOLERANCE = 1e-6
BINS = 10  # of the last decade
LEAST = 100  # episodes


class Regret(NamedTuple):
    """Regrets after each episode, of averages over the episodes so far."""

    reward: Float  # [K]
    cost: Float  # [K]; -inf where nothing is limited

    def __repr__(self) -> str:
        if not len(self.reward):
            return line(self, "no episode")
        last = totals(self._fields, (x[-1] for x in self))
        return line(self, f"after {counted(len(self.reward), 'episode')}: {last}")


class Standing(NamedTuple):
    """The exact value of one policy, against the optimum and the limits."""

    value: Float  # [1+d]
    shortfall: float | None  # of the reward; None where the optimum is unknown
    excess: Float  # [d]: of the costs; 0 where nothing is limited

    def __repr__(self) -> str:
        return line(self, *(f"{name}={brief(value)}" for name, value in self._asdict().items()))


class Binned(NamedTuple):
    """The mean excess of each bin of the last decade of a run."""

    episode: Float  # [B]: the geometric mean of a bin's episodes, counted from 1
    excess: Float  # [B, d]: as a share of the size of the limit or floor


def smooth(values: Float, window: int) -> Float:
    """[K, n]: means of the last `window` rows, of fewer at the start; rows of nan do not count."""
    known: Bool = ~np.asarray(np.isnan(values).any(axis=1))
    rows = np.column_stack((np.where(known[:, None], values, 0.0), known))
    sums = np.cumsum(np.vstack((np.zeros(rows.shape[1]), rows)), axis=0)
    k = np.arange(1, len(values) + 1)
    last = sums[k] - sums[np.maximum(k - window, 0)]
    with np.errstate(invalid="ignore"):  # nothing over nothing is nan
        return np.asarray(last[:, :-1] / last[:, -1:])


def last_rows(count: int, share: float = LAST) -> int:
    """Such a share of a number of rows, at least one."""
    return max(1, round(share * count))


def final(values: Float, share: float = LAST) -> Float:
    """[n]: the mean of the last rows, such a share of them, at least one; nan if all of them are."""
    rows = values[-last_rows(len(values), share) :]
    rows = rows[~np.isnan(rows).any(axis=1)]
    mean: Float = rows.mean(axis=0) if rows.size else np.full(values.shape[1], np.nan)
    return mean


def violated(costs: Float, limits: Float, floors: Float, largest: Float, over: float = OVER) -> Bool:
    """[..., d]: which costs are above their limit, or below their floor, by more than `over` of it.

    `largest` [d] is what a share of 0 is a share of.
    """
    above: Bool = costs > limits + over * _size(limits, largest)
    below: Bool = costs < floors - over * _size(floors, largest)
    return above | below


def first_lasting(good: Bool) -> int | None:
    """The first episode (from 1) from which all are good; None if the last is not, or there is none."""
    bad = np.flatnonzero(~good)
    first = int(bad[-1]) + 2 if bad.size else 1
    return first if first <= good.size else None


def reaches(rewards: Float, optimum: float, largest: float, near: float = NEAR) -> Bool:
    """[K]: which rewards are at most `near` of the optimum below it; nan is not."""
    low = optimum - near * _optimum_size(optimum, largest) * (1.0 + ROUNDING)
    enough: Bool = rewards >= low
    return enough


def regret(means: Float, optimum: float, limits: Float, floors: Float) -> Regret:
    """RewReg(k) and ConsReg(k), Eqs. 2 and 3, of means so far [K, 1+d]; falling short of a floor counts too."""
    costs = means[:, 1:]
    outside = np.maximum(costs - limits, floors - costs)
    return Regret(optimum - means[:, 0], outside.max(axis=1, initial=-np.inf))


def shortfall(rewards: Float, optimum: float) -> Float:
    """[...]: max(optimum - reward, 0)."""
    return np.maximum(optimum - rewards, 0.0)


def excess(costs: Float, limits: Float, floors: Float) -> Float:
    """[..., d]: max(cost - limit, 0) + max(floor - cost, 0)."""
    return np.maximum(costs - limits, 0.0) + np.maximum(floors - costs, 0.0)


def excess_share(costs: Float, limits: Float, floors: Float, largest: Float) -> Float:
    """[..., d]: the `excess` as a share of the size of the limit or floor; `largest` [d] is what a share of 0 is of."""
    above = _share(np.maximum(costs - limits, 0.0), size_of(limits, largest))
    return above + _share(np.maximum(floors - costs, 0.0), size_of(floors, largest))


def score(rewards: Float, optimum: float, largest: float) -> Float:
    """[...]: 1 - (optimum - reward) / size of the optimum; `largest` is what a share of 0 is of."""
    size = max(_optimum_size(optimum, largest), np.finfo(float).tiny)
    return 1.0 - _told((optimum - rewards) / size)


def strong_violation(costs: Float, limits: Float, floors: Float) -> Float:
    """[K, d]: sums over the episodes so far of their `excess`."""
    return np.cumsum(excess(costs, limits, floors), axis=0)


def strong_regret(rewards: Float, optimum: float) -> Float:
    """[K]: sums over the episodes so far of their `shortfall`."""
    return np.cumsum(shortfall(rewards, optimum))


def violating(costs: Float, limits: Float, floors: Float, largest: Float, tolerance: float = TOLERANCE) -> Float:
    """[d]: the share of the rows of costs [K, d] that are out by more than the tolerance; see `violated`."""
    over = read_positive(tolerance, "tolerance", zero=True)
    count: Float = violated(costs, limits, floors, largest, over).sum(axis=0, dtype=np.float64)
    return count / max(len(costs), 1)


def binned_excess(costs: Float, limits: Float, floors: Float, largest: Float | None = None, bins: int = BINS) -> Binned:
    """The mean excess of costs [K, d] in bins over K/10 < k <= K; of short runs there are fewer bins.

    `largest` [d] is what the size of a limit of 0 is, 1 unless given.
    """
    K, d = costs.shape
    if not K:
        return Binned(np.zeros(0), np.zeros((0, d)))
    marks = np.geomspace(K / 10, K, read_count(bins, "bins") + 1)
    marks[0] = np.floor(marks[0])
    ends = np.unique(np.round(marks).astype(np.int64))  # bin b is ends[b] < k <= ends[b+1]
    first, starts, sizes = ends[0], ends[:-1] - ends[0], np.diff(ends)
    share = excess_share(costs, limits, floors, np.ones(d) if largest is None else largest)
    logs = np.log(np.arange(first + 1, K + 1))
    means = np.add.reduceat(share[first:], starts, axis=0) / sizes[:, None]
    return Binned(np.exp(np.add.reduceat(logs, starts) / sizes), means)


def excess_slope(costs: Float, limits: Float, floors: Float, largest: Float | None = None, bins: int = BINS) -> Float:
    """[d]: the slope of the log of `binned_excess` against log k; -inf where the last bin has none, else nan where it
    is unknown."""
    at, means = binned_excess(costs, limits, floors, largest, bins)
    slopes = np.full(costs.shape[1], np.nan)
    if len(costs) < LEAST:
        return slopes
    limited = np.isfinite(limits) | np.isfinite(floors)
    for i in np.flatnonzero(limited & ~np.isnan(means).any(axis=0)):
        there = means[:, i] > ROUNDING
        if not there[-1]:
            slopes[i] = -np.inf
        elif there.sum() >= 3:
            x, y = np.log(at[there]), np.log(means[there, i])
            slopes[i] = (x - x.mean()) @ (y - y.mean()) / ((x - x.mean()) @ (x - x.mean()))
    return slopes


def _size(aim: Float, largest: Float) -> Float:
    """What a share of an aim is a share of, give or take rounding: so units do not matter on the edge either."""
    return size_of(aim, largest) * (1.0 + ROUNDING)


def _optimum_size(optimum: float, largest: float) -> float:
    """What a share of an optimum is a share of; one that is 0 but for rounding is 0."""
    aim = 0.0 if abs(optimum) <= ROUNDING * largest else optimum
    return float(size_of(np.array(aim), np.array(largest)))


def _share(amounts: Float, sizes: Float) -> Float:
    """[..., d]: amounts over sizes [d]; 0 where there is no size, as of an infinite limit."""
    return _told(np.divide(amounts, sizes, out=np.zeros(amounts.shape), where=sizes > 0.0))


def _told(shares: Float) -> Float:
    """[...]: shares without those that are rounding."""
    return np.where(np.abs(shares) <= ROUNDING, 0.0, shares)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores:
    """The values of one run and what it is held against, with every number of this module."""

    seen: Float  # [K, 1+d]
    expected: Float | None  # [K, 1+d]: exact values of what was played, nan where a guard interfered; None: unknown
    reported: Float | None = None  # [K, 1+d]: None if the learner shows what it plays
    limits: Float  # [d]: on the expected cost of one episode; inf for none
    floors: Float  # [d]: -inf for none
    largest: Float  # [1+d]: the most that one step can pay, in size
    continuing: bool = False  # one unending episode: expected values are means since its beginning
    exploring: Bool | None = None  # [K]: planned to learn from; None: unknown, of a run of version 0.2

    @property
    def episodes(self) -> int:
        """How many were played."""
        return len(self.seen)

    @property
    def rewards(self) -> Float:
        """[K]: what was seen."""
        return self.seen[:, 0]

    @property
    def costs(self) -> Float:
        """[K, d]: what was seen."""
        return self.seen[:, 1:]

    @cached_property
    def executed(self) -> Float:
        """[K, 1+d]: exact values of what was played, or what was seen where they are unknown."""
        return self.seen if self.expected is None else np.where(np.isnan(self.expected), self.seen, self.expected)

    @property
    def values(self) -> Float:
        """[K, 1+d]: those reported if the learner shows another policy than it plays, else those executed."""
        return self.executed if self.reported is None else self.reported

    def smoothed(self, values: Float, window: int = WINDOW) -> Float:
        """[K, 1+d]: means of the last `window` rows; rows that are running means already stay."""
        return values if self.continuing else smooth(values, window)

    @cached_property
    def smooth(self) -> Float:
        """[K, 1+d]: the values, smoothed."""
        return self.smoothed(self.values)

    @cached_property
    def smooth_executed(self) -> Float:
        """[K, 1+d]: what was executed, smoothed."""
        return self.smooth if self.reported is None else self.smoothed(self.executed)

    @property
    def averages(self) -> Float:
        """[K, 1+d]: the mean of what was executed over all episodes so far."""
        return self.smoothed(self.executed, self.episodes)

    @property
    def mean(self) -> Float:
        """[1+d]: over all episodes, of what was executed."""
        return np.asarray(self.executed[-1] if self.continuing else self.executed.mean(axis=0))

    def cumulative_regret(self, optimum: float) -> float:
        """The sum over all episodes of what each fell short of the optimum by."""
        return float(self.episodes * (optimum - self.mean[0]))

    @property
    def cumulative_violation(self) -> Float:
        """[d]: the sum over all episodes of what each was out of its limits by; nan where nothing is limited."""
        out = np.maximum(self.mean[1:] - self.limits, self.floors - self.mean[1:])
        return np.where(self._limited, self.episodes * out, np.nan)

    @cached_property
    def final(self) -> Float:
        """[1+d]: the mean of the values over the last tenth of the run; of a running mean the last."""
        return final(self.values, 0.0 if self.continuing else LAST)

    @property
    def final_episodes(self) -> int:
        """How many episodes that is the mean of."""
        return 1 if self.continuing else last_rows(self.episodes)

    def explored(self, last: int) -> int | None:
        """How many of so many last episodes explored; None where it is unknown."""
        return None if self.exploring is None else int(self.exploring[-last:].sum())

    def violated(self, costs: Float) -> Bool:
        """[..., d]: which smoothed costs are above their limit, or below their floor, by more than a tenth of it."""
        return violated(costs, self.limits, self.floors, self.largest[1:])

    @property
    def violations(self) -> Float:
        """[d]: the share of episodes whose smoothed cost, as executed, is a violation."""
        count: Float = self.violated(self.smooth_executed[:, 1:]).sum(axis=0, dtype=np.float64)
        return count / max(self.episodes, 1)

    def solved_from(self, optimum: float | None) -> int | None:
        """The first episode (from 1) from which it stays near the optimum and within the limits; None if it does
        not, or if the optimum is unknown."""
        if optimum is None:
            return None
        near = reaches(self.smooth[:, 0], optimum, float(self.largest[0]))
        return first_lasting(near & ~self.violated(self.smooth[:, 1:]).any(axis=1))

    @property
    def strong_violation(self) -> Float | None:
        """[K, d]: see `strong_violation`; None where the exact value of each episode is unknown."""
        return strong_violation(self.executed[:, 1:], self.limits, self.floors) if self._exact else None

    def strong_regret(self, optimum: float) -> Float | None:
        """[K]: see `strong_regret`; None where the exact value of each episode is unknown."""
        return strong_regret(self.executed[:, 0], optimum) if self._exact else None

    def violating(self, tolerance: float = TOLERANCE) -> Float | None:
        """[d]: see `violating`; None where the exact value of each episode is unknown."""
        bounds = self.limits, self.floors, self.largest[1:]
        share = violating(self.executed[:, 1:], *bounds, tolerance)
        return share if self._exact else None

    @property
    def binned_excess(self) -> Binned | None:
        """See `binned_excess`; None where the exact value of each episode is unknown."""
        bounds = self.limits, self.floors, self.largest[1:]
        return binned_excess(self.executed[:, 1:], *bounds) if self._exact else None

    @property
    def excess_slope(self) -> Float | None:
        """[d]: see `excess_slope`; None where the exact value of each episode is unknown."""
        bounds = self.limits, self.floors, self.largest[1:]
        return excess_slope(self.executed[:, 1:], *bounds) if self._exact else None

    def last_iterate(self, optimum: float | None) -> Standing | None:
        """What the last episode that did not explore played; None without one, or where its exact value is unknown."""
        k = self.last_planned
        if self.expected is None or self.continuing or not k or np.isnan(self.expected[k - 1]).any():
            return None
        return self._standing(self.expected[k - 1].copy(), optimum)

    @property
    def last_planned(self) -> int:
        """The number of the last episode that did not explore; 0 where there is none."""
        planned = np.ones(self.episodes, dtype=bool) if self.exploring is None else ~self.exploring
        return int(np.flatnonzero(planned)[-1]) + 1 if planned.any() else 0

    def average_policy(self, optimum: float | None) -> Standing | None:
        """One of all policies that were played; None without one, or where the exact value of one is unknown."""
        return self._standing(self.averages[-1].copy(), optimum) if self._exact and self.episodes else None

    def _standing(self, value: Float, optimum: float | None) -> Standing:
        short = None if optimum is None else float(shortfall(value[0], optimum))
        return Standing(value, short, excess(value[1:], self.limits, self.floors))

    @property
    def _limited(self) -> Bool:
        """[d]: which costs have a limit or a floor."""
        limited: Bool = np.isfinite(self.limits) | np.isfinite(self.floors)
        return limited

    def score(self, optimum: float | None) -> float | None:
        """The final reward as a share of the optimum; None where either is unknown."""
        if optimum is None or not self.episodes or np.isnan(self.final[0]):
            return None
        return float(score(self.final[0], optimum, float(self.largest[0])))

    @property
    def excess_share(self) -> float | None:
        """By what share of it the worst of the final costs is outside its limit; None where nothing is limited."""
        if not self._limited.any() or not self.episodes or np.isnan(self.final).any():
            return None
        return float(excess_share(self.final[1:], self.limits, self.floors, self.largest[1:]).max())

    def distance(self, optimum: float | None) -> float | None:
        """The larger of what the score is below 1 and of the excess share; None where the score is unknown."""
        reached = self.score(optimum)
        return None if reached is None else max(1.0 - reached, self.excess_share or 0.0, 0.0)

    def strong_regret_share(self, optimum: float | None) -> float | None:
        """The mean shortfall of an episode, as a share of the optimum; None where it is unknown."""
        if optimum is None or not self._exact or not self.episodes:
            return None
        return float(np.maximum(1.0 - score(self.executed[:, 0], optimum, float(self.largest[0])), 0.0).mean())

    @property
    def strong_violation_share(self) -> float | None:
        """The mean excess of an episode, as a share of the limit, of the worst cost; None where it is unknown, or
        nothing is limited."""
        if not self._exact or not self._limited.any() or not self.episodes:
            return None
        bounds = self.limits, self.floors, self.largest[1:]
        return float(excess_share(self.executed[:, 1:], *bounds).mean(axis=0).max())

    @property
    def _exact(self) -> bool:
        """Whether the value of what each episode played is known."""
        return self.expected is not None and not self.continuing and not np.isnan(self.expected).any()

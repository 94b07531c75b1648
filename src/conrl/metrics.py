"""Metrics of a run, each word defined once. History, studies, reports, figures and tables call this.

A run has K episodes and d costs; a table of values is [K, 1+d], reward first. The words:

- *seen*: the realised reward and costs of an episode.
- *executed*: the exact value of the policy that an episode played; what was seen where that is unknown: without a
  model, or where a hard budget's guard interfered.
- *reported*: the exact value of the policy that the learner shows, if it shows another one than it plays (ApproPO);
  nan as long as it shows nothing. The *values* of a run are those reported if there are any, else those executed.
- *smoothed*: the mean of the last `WINDOW` episodes; of fewer at the start.
- *final*: the mean of the values over the last `LAST` of the run.
- *violation*: an episode whose smoothed cost, as executed, is above its limit by more than `OVER` of it, or below its
  floor by more than that. *Violations* are the share of such episodes.
- *solved*: the first episode from which, to the end, the smoothed reward is at most `NEAR` of the optimum below it and
  no smoothed cost is further out than a violation is.
- *regret*: how far the mean of what was executed so far falls short of the optimum, and exceeds a limit (Section 2 of
  Brantley et al. 2020). Good episodes make up for bad ones.
- *strong violation*, *strong reward regret*: the same without cancellation, as sums over the episodes of the positive
  parts of cost - limit and floor - cost, and of optimum - reward (Efroni, Mannor and Pirotta 2020, "Exploration-
  exploitation in constrained MDPs"; "strong" in Mueller et al. 2024, "Truly no-regret learning in constrained MDPs").
  They need the exact value of each episode: of a single draw the positive part would count chance as a violation.

`NEAR` and `OVER` are shares of the size of the optimum or the limit; where that is 0, of the most that one step can
pay. So units do not matter. The values of one unending episode are means since its beginning already: they are not
smoothed again, the last of them is final, and there is no value of a single trajectory for a strong sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from conrl._types import Bool, Float
from conrl.model.limits import ROUNDING, size_of

WINDOW = 100  # episodes
NEAR = 0.1
OVER = 0.1
LAST = 0.1


class Regret(NamedTuple):
    """Regrets after each episode, of averages over the episodes so far."""

    reward: Float  # [K]
    cost: Float  # [K]; -inf where nothing is limited


def smooth(values: Float, window: int) -> Float:
    """[K, n]: means of the last `window` rows, of fewer at the start; rows of nan do not count."""
    known: Bool = ~np.asarray(np.isnan(values).any(axis=1))
    rows = np.column_stack((np.where(known[:, None], values, 0.0), known))
    sums = np.cumsum(np.vstack((np.zeros(rows.shape[1]), rows)), axis=0)
    k = np.arange(1, len(values) + 1)
    last = sums[k] - sums[np.maximum(k - window, 0)]
    with np.errstate(invalid="ignore"):  # nothing over nothing is nan
        return np.asarray(last[:, :-1] / last[:, -1:])


def final(values: Float, share: float = LAST) -> Float:
    """[n]: the mean of the last rows, such a share of them, at least one; nan if all of them are."""
    rows = values[-max(1, round(share * len(values))) :]
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
    low = optimum - near * float(_size(np.array(optimum), np.array(largest)))
    enough: Bool = rewards >= low
    return enough


def regret(means: Float, optimum: float, limits: Float, floors: Float) -> Regret:
    """RewReg(k) and ConsReg(k), Eqs. (regret_def), of means so far [K, 1+d]; falling short of a floor counts too."""
    costs = means[:, 1:]
    excess = np.maximum(costs - limits, floors - costs)
    return Regret(optimum - means[:, 0], excess.max(axis=1, initial=-np.inf))


def strong_violation(costs: Float, limits: Float, floors: Float) -> Float:
    """[K, d]: sums over the episodes so far of max(cost - limit, 0) + max(floor - cost, 0)."""
    return np.cumsum(np.maximum(costs - limits, 0.0) + np.maximum(floors - costs, 0.0), axis=0)


def strong_regret(rewards: Float, optimum: float) -> Float:
    """[K]: sums over the episodes so far of max(optimum - reward, 0)."""
    return np.cumsum(np.maximum(optimum - rewards, 0.0))


def _size(aim: Float, largest: Float) -> Float:
    """What a share of an aim is a share of, give or take rounding: so units do not matter on the edge either."""
    return size_of(aim, largest) * (1.0 + ROUNDING)


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
    def mean_reward(self) -> float:
        """Over all episodes, of what was executed."""
        return float(self.executed[-1, 0] if self.continuing else self.executed[:, 0].mean())

    @cached_property
    def final(self) -> Float:
        """[1+d]: the mean of the values over the last tenth of the run; of a running mean the last."""
        return final(self.values, 0.0 if self.continuing else LAST)

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

    @property
    def _exact(self) -> bool:
        """Whether the value of what each episode played is known."""
        return self.expected is not None and not self.continuing and not np.isnan(self.expected).any()

"""Curves of a study: one measure of one algorithm over trajectories, with intervals over seeds.

Algorithms that use different numbers of trajectories are read off at common numbers of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from conrl._types import Float, Int
from conrl.errors import SpecError, shown
from conrl.experiments.records import RunRecord
from conrl.experiments.statistics import deviation, over_seeds
from conrl.notebook import Columns, Framed
from conrl.wording import counted, line


@dataclass(frozen=True, eq=False)
class Curve(Framed):
    """One measure of one algorithm over trajectories: mean, standard deviation and interval over seeds, [n] each.

    The interval, low and high, is nan where there are too few seeds. As a data frame: `trajectories`, `mean`, `std`,
    `low`, `high`.
    """

    environment: str
    algorithm: str
    measure: str  # "reward", "cost", "cumulative" (realised cost so far) or "regret" (so far)
    cost: str | None
    x: Float
    mean: Float
    std: Float
    low: Float
    high: Float
    seeds: int

    def __repr__(self) -> str:
        what = self.measure if self.cost is None else f"{self.measure} {self.cost}"
        return line(self, self.environment, self.algorithm, what, f"{self.x.size} points", counted(self.seeds, "seed"))

    def _columns(self) -> Columns:
        return {"trajectories": self.x, "mean": self.mean, "std": self.std, "low": self.low, "high": self.high}


def curves_of(
    environment: str,
    played: Mapping[str, Sequence[RunRecord]],
    optima: Mapping[str, float],
    points: int,
    average: bool,
    log: bool,
    at: Sequence[int] | Int | None,
) -> list[Curve]:
    """The curves of every algorithm, by its runs and its optimum where that is known; see `Study.curves`."""
    curves = []
    for algorithm, runs in played.items():
        least = min(run.episodes for run in runs)  # the longest part that all seeds have
        x = spaced(least, points, log) if at is None else _common(at, least)
        tables = (run.smoothed(run.values, run.episodes) if average else run.smooth for run in runs)
        sums = (np.cumsum(run.costs, axis=0) for run in runs)
        values = np.stack([np.hstack(both)[x - 1] for both in zip(tables, sums, strict=True)])  # [seeds, n, 1+2d]
        costs = [(measure, name) for measure in ("cost", "cumulative") for name in runs[0].cost_names]
        for i, (measure, name) in enumerate([("reward", None), *costs]):
            curves.append(_curve(environment, algorithm, measure, name, x, values[:, :, i]))
        if algorithm in optima:
            regrets = np.stack([x * (optima[algorithm] - run.averages[x - 1, 0]) for run in runs])
            curves.append(_curve(environment, algorithm, "regret", None, x, regrets))
    return curves


def spaced(episodes: int, points: int, log: bool = False) -> Int:
    """At most so many numbers of trajectories, the first and the last among them."""
    numbers = np.geomspace(1, episodes, points) if log else np.linspace(1, episodes, points)
    return np.unique(np.round(numbers).astype(np.int64))


def _common(at: Sequence[int] | Int, episodes: int) -> Int:
    """Those of the numbers that were asked for which all runs have come to."""
    numbers = np.asarray(at)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or (numbers.size and numbers.min() < 1):
        raise SpecError(f"at is {shown(at)}; it must be numbers of trajectories, from 1")
    return numbers[numbers <= episodes].astype(np.int64)


def _curve(environment: str, algorithm: str, measure: str, cost: str | None, at: Int, y: Float) -> Curve:
    x = at.astype(np.float64)
    low, high = over_seeds(y)[1:]
    return Curve(environment, algorithm, measure, cost, x, y.mean(axis=0), deviation(y), low, high, len(y))

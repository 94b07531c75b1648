"""Algorithms compared: aggregates with intervals, pairs, and performance profiles, of one environment or of all.

`conrl.experiments.statistics` has the mathematics. What goes in is a `Table` of one measure: a number for each
environment, algorithm and seed. A cell in which the number of some run is unknown is not in the table.

Over all environments, an algorithm is aggregated only if it was played in every environment of the table: the mean over
other environments would be of other problems. Two algorithms are compared over the environments that both have.

What is paired are seeds. Runs with the same seed in the same environment draw the same random numbers for what happens
in an episode (`conrl.sampling.randomness`), so that a difference within a seed has less of chance in it, as long as
they act alike. Nothing is assumed about how much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.errors import SpecError
from conrl.experiments import statistics
from conrl.experiments.measures import Measure, Numbers
from conrl.experiments.records import RunRecord
from conrl.wording import line, short

Table = dict[str, dict[str, dict[int, float]]]  # by environment, algorithm and seed
Cells = tuple[dict[int, float], dict[int, float]]  # of two algorithms in one environment, by seed
Played = Mapping[str, Mapping[str, Sequence[RunRecord]]]  # runs by environment and algorithm
MOST_STEPS = 200  # of a profile


class Aggregate(NamedTuple):
    """One measure of one algorithm, over seeds."""

    measure: str
    environment: str | None  # None: all of them together
    algorithm: str
    environments: int
    runs: int
    mean: float
    iqm: float
    low: float | None  # of the IQM; None where there are too few seeds
    high: float | None

    def __repr__(self) -> str:
        where = short(self.environment or "all environments")
        number = _interval("interquartile mean", self.iqm, self.low, self.high)
        return line(self, self.measure, where, short(self.algorithm), number, f"{self.runs} runs")


class Comparison(NamedTuple):
    """Two algorithms by one measure."""

    measure: str
    environment: str | None  # None: all that both have
    first: str
    second: str
    environments: int
    pairs: int  # seeds that both have
    difference: float | None  # first - second; None where an environment has no such seed
    difference_low: float | None
    difference_high: float | None
    improvement: float  # the probability that a run of the first is better
    improvement_low: float | None
    improvement_high: float | None

    def __repr__(self) -> str:
        where, names = short(self.environment or "all environments"), f"{short(self.first)} and {short(self.second)}"
        better = _interval("better", self.improvement, self.improvement_low, self.improvement_high)
        apart = _interval("difference", self.difference, self.difference_low, self.difference_high)
        return line(self, self.measure, where, names, better, apart)


@dataclass(frozen=True, eq=False)
class Profile:
    """The share of an algorithm's runs whose measure is above x, or at most x where less is better, [n] each."""

    measure: str
    environment: str | None  # None: all of them together
    algorithm: str
    x: Float
    share: Float
    low: Float  # nan where there are too few seeds
    high: Float
    runs: int

    def __repr__(self) -> str:
        where = short(self.environment or "all environments")
        return line(self, self.measure, where, short(self.algorithm), f"{self.x.size} points", f"{self.runs} runs")


def _interval(what: str, x: float | None, low: float | None, high: float | None) -> str:
    """A number and its interval, as far as they are known."""
    if x is None:
        return ""
    return f"{what} {x:.4g}" + ("" if low is None or high is None else f" ({low:.4g} to {high:.4g})")


def table(played: Played, numbers: Mapping[RunRecord, Numbers], measure: str) -> Table:
    """One measure of all runs, without the cells in which one is unknown, and environments that have no other."""
    found: Table = {}
    for environment, by_algorithm in played.items():
        for algorithm, runs in by_algorithm.items():
            known = {run.seed: x for run in runs if (x := numbers[run][measure]) is not None}
            if len(known) == len(runs):
                found.setdefault(environment, {})[algorithm] = known
    return found


def aggregates(tables: Mapping[Measure, Table], order: Sequence[str]) -> Iterator[Aggregate]:
    """Of every algorithm that has all environments in scope, in their order."""
    for measure, own, scope in _scopes(tables):
        for algorithm, sample in _samples(own, order, scope).items():
            iqm, mean = statistics.interquartile_mean(sample), statistics.mean(sample).value
            runs = sum(map(len, sample))
            yield Aggregate(measure.name, scope, algorithm, len(sample), runs, mean, iqm.value, iqm.low, iqm.high)


def comparisons(tables: Mapping[Measure, Table], order: Sequence[str]) -> Iterator[Comparison]:
    """Of every two algorithms that have an environment in scope in common, the first of them first."""
    for measure, own, scope in _scopes(tables):
        for first, second in combinations(order, 2):
            common = [name for name in _within(own, scope) if {first, second} <= own[name].keys()]
            if common:
                cells = [(own[name][first], own[name][second]) for name in common]
                yield _compared(measure, scope, (first, second), cells)


def profiles(
    measure: Measure, table: Table, order: Sequence[str], environment: str | None, at: ArrayLike | None = None
) -> list[Profile]:
    """Of every algorithm that has all environments in scope; at the numbers `at`, or wherever a share changes."""
    samples = _samples(table, order, environment)
    x = _steps([np.concatenate(sample) for sample in samples.values()]) if at is None else _numbers(at)
    found = []
    for name, sample in samples.items():
        band = statistics.profile(sample, x, measure.higher)
        found.append(Profile(measure.name, environment, name, x, *band, sum(map(len, sample))))
    return found


def left_out(table: Table, order: Sequence[str]) -> dict[str, list[str]]:
    """The algorithms that are not aggregated over all environments, with the environments that they lack."""
    missing = {name: [env for env, cells in table.items() if name not in cells] for name in order}
    return {name: lacks for name, lacks in missing.items() if lacks}


def _compared(measure: Measure, scope: str | None, names: tuple[str, str], cells: Sequence[Cells]) -> Comparison:
    """Two algorithms by their numbers in each environment."""
    both = [sorted(x.keys() & y.keys()) for x, y in cells]
    paired: statistics.Estimate | tuple[None, None, None] = (None, None, None)
    if all(both):
        seeds_and_cells = list(zip(both, cells, strict=True))
        x, y = ([np.array([cell[i][seed] for seed in seeds]) for seeds, cell in seeds_and_cells] for i in (0, 1))
        paired = statistics.paired_difference(x, y)
    first, second = ([_array(cell[i]) for cell in cells] for i in (0, 1))
    better = statistics.improvement(first, second, measure.higher)
    pairs = sum(map(len, both))
    return Comparison(
        measure.name, scope, *names, len(cells), pairs, paired[0], paired[1], paired[2], better[0], better[1], better[2]
    )


def _scopes(tables: Mapping[Measure, Table]) -> Iterator[tuple[Measure, Table, str | None]]:
    """Each measure in all environments together (None), and in each by itself."""
    for measure, own in tables.items():
        yield from ((measure, own, scope) for scope in (None, *own) if own)


def _within(table: Table, scope: str | None) -> list[str]:
    return list(table) if scope is None else [scope]


def _samples(table: Table, order: Sequence[str], scope: str | None) -> dict[str, list[Float]]:
    """By algorithm, its numbers in each environment in scope; of those that have them all."""
    cells = [table[name] for name in _within(table, scope)]
    return {name: [_array(cell[name]) for cell in cells] for name in order if cells and all(name in c for c in cells)}


def _array(by_seed: dict[int, float]) -> Float:
    """In the order of the seeds."""
    return np.array([by_seed[seed] for seed in sorted(by_seed)])


def _steps(values: Iterable[Float]) -> Float:
    """Where profiles change, with a little room at both ends; if there are too many such places, some of them."""
    x = np.unique(np.concatenate([*values, np.zeros(0)]))
    if not x.size:
        return x
    room = 0.03 * (x[-1] - x[0]) or 0.03 * max(abs(float(x[0])), 1.0)
    inner = x[np.unique(np.linspace(0, x.size - 1, min(x.size, MOST_STEPS)).round().astype(np.int64))]
    return np.concatenate(([x[0] - room], inner, [x[-1] + room]))


def _numbers(at: ArrayLike) -> Float:
    try:
        x = np.asarray(at, dtype=np.float64)
    except (TypeError, ValueError):
        raise SpecError("at must be a list of numbers") from None
    if x.ndim != 1 or np.isnan(x).any():
        raise SpecError(f"at has shape {x.shape}, or holds what is no number; it must be a list of numbers")
    return x

"""Statistics over runs that let few seeds and several environments be told apart from luck.

The measures are those of Agarwal, Schwarzer, Castro, Courville and Bellemare (2021), "Deep reinforcement learning at
the edge of the statistical precipice", over scores that mean the same in every environment (`conrl.metrics`: shares of
the optimum or of a limit).

Letters: a *sample* is the scores x of one algorithm, an array for each of M environments (the strata), one score for
each of its n_m seeds; N is the number of all scores. A score of environment m weighs w = 1 / (M n_m), so that every
environment weighs the same, however many seeds it has.

- *mean*: sum of w x.
- *interquartile mean* (IQM): the mean without the lowest and the highest floor(N/4) / N of the weight. With as many
  seeds in each environment that is `scipy.stats.trim_mean(x, 0.25)` of all scores together. Below 4 scores it is the
  mean.
- *performance profile*: the share of the weight with x > t, for each t; with x <= t where less is better. (Agarwal et
  al. call the first a score distribution.)
- *probability of improvement* of X over Y: the mean over environments of P(x > y) + P(x = y) / 2, for a score x of X
  and y of Y drawn at random; in one environment that is the U of Mann and Whitney over n_X n_Y. Where less is better,
  P(x < y).
- *paired difference*: the mean over environments of the mean of x - y over the seeds that both have.

Scores that differ by at most `TIE` (of those above 1, in proportion) are equal: they are shares of order 1, and a mean
over 30 equal episodes is not the same floating-point number as one over 25. Planners are no more exact either. So x > y
means x > y + `TIE` here, between two scores as between a score and a t.

Intervals are 95% percentile intervals of the *stratified bootstrap*: in each of `RESAMPLES` resamples every environment
keeps its number of seeds, drawn from its own with replacement. Paired differences draw pairs; the probability of
improvement draws the seeds of X and of Y by themselves. The draws have a fixed seed: the same runs give the same bytes.
A resample is a row of weights, in which an environment's 1 / M is spread over the seeds that were drawn; every measure
above is a function of such weights.

Where an environment has fewer than `LEAST_SEEDS` seeds there is no interval: two numbers say nothing of how far a third
could be. Nor is there one where no resample differs, as where every run of X is better than every run of Y: that the
seeds agree does not prove that others would. Percentile intervals of few seeds are too narrow. Of normal scores in one
environment, an interval of the mean that claims 95% holds in about 76% of studies of 3 seeds, 84% of 5, 90% of 10 and
92% of 20; with 3 seeds in each of five environments in 86% (`tests/test_statistics.py`). Each interval is for itself:
of twenty, one is expected to miss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from conrl._types import Float

RESAMPLES = 2000
CONFIDENCE = 0.95
LEAST_SEEDS = 3
TIE = 1e-9
MOST = 2_000_000  # weights held at once

Sample = Sequence[Float]  # scores by environment


class Estimate(NamedTuple):
    """A number with its interval; without one where there are too few seeds, or no resample differs."""

    value: float
    low: float | None
    high: float | None


class Band(NamedTuple):
    """Numbers [n] with their intervals; nan where there are too few seeds."""

    value: Float
    low: Float
    high: Float


# -- measures ---------------------------------------------------------------------------------------------


def interquartile_mean(sample: Sample) -> Estimate:
    """The IQM of all scores."""
    x = np.concatenate(sample)
    order = np.argsort(x, kind="stable")
    # In so small units all weights and both cuts are whole numbers: no dust of rounding is left outside the cuts.
    units = len(sample) * math.lcm(*_sizes(sample)) * x.size
    whole, cut = float(units), float(units // x.size * (x.size // 4))

    def kept(w: Float) -> Float:
        """[R]: the mean of what lies between the cuts, of weights [R, N]."""
        edges = np.clip(np.cumsum(np.rint(w[:, order] * whole), axis=1), cut, whole - cut)
        return np.asarray(np.diff(edges, axis=1, prepend=cut) @ x[order] / (whole - 2.0 * cut))

    return _estimate(_sizes(sample), kept)


def mean(sample: Sample) -> Estimate:
    """The mean over environments of the mean over seeds."""
    x = np.concatenate(sample)
    return _estimate(_sizes(sample), lambda w: w @ x)


def paired_difference(first: Sample, second: Sample) -> Estimate:
    """The mean of first - second; the scores of an environment are of the same seeds, in the same order."""
    pairs = zip(first, second, strict=True)
    return mean([np.where(np.abs(x - y) <= _tie(x), 0.0, x - y) for x, y in pairs])


def improvement(first: Sample, second: Sample, higher: bool = True) -> Estimate:
    """The probability that a run of `first` is better than one of `second`; ties are halves."""
    if not higher:
        first, second = second, first
    M, N = len(first), sum(map(len, first))
    starts = np.cumsum([0, *map(len, first)])
    behind = np.cumsum([N, *map(len, second)])

    def won(w: Float) -> Float:
        """[R]: of weights of all scores of the first, then of the second, each 1 / 2M an environment."""
        total = np.zeros(len(w))
        for m, (x, y) in enumerate(zip(first, second, strict=True)):
            order = np.argsort(y, kind="stable")
            own, theirs = w[:, starts[m] : starts[m + 1]], w[:, behind[m] : behind[m + 1]][:, order]
            sums = np.cumsum(np.pad(theirs, ((0, 0), (1, 0))), axis=1)  # of the lowest 0, 1, ... scores
            ends = np.searchsorted(y[order], x - _tie(x), "left"), np.searchsorted(y[order], x + _tie(x), "right")
            below, up_to = (sums[:, end] for end in ends)
            total += (own * (below + up_to)).sum(axis=1) / 2.0
        return total * (4.0 * M)  # each product was 1 / 4M^2, and a mean over environments is 1 / M

    return _estimate(_sizes(first) + _sizes(second), won)


def profile(sample: Sample, at: Float, higher: bool = True) -> Band:
    """[n]: the share of runs with a score above each of the numbers `at`; at most that where less is better."""
    x = np.concatenate(sample)
    above = (x - _tie(x))[:, None] > at
    reached = (above if higher else ~above).astype(np.float64)
    return bootstrap(_sizes(sample), lambda w: w @ reached)


# -- the bootstrap ----------------------------------------------------------------------------------------


def bootstrap(sizes: tuple[int, ...], statistic: Callable[[Float], Float]) -> Band:
    """A statistic and its interval: `statistic` takes weights [R, N] to numbers [R, ...]; `sizes` are those of the
    strata, in the order of the scores."""
    even = np.concatenate([np.full(n, 1.0 / (len(sizes) * n)) for n in sizes])
    value = np.asarray(statistic(even[None]))[0]
    if min(sizes) < LEAST_SEEDS:
        unknown = np.full(np.shape(value), np.nan)
        return Band(value, unknown, unknown)
    drawn = np.concatenate([statistic(w) for w in _resamples(sizes)])
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(drawn, (tail, 100.0 - tail), axis=0)
    return Band(value, low, high)


def over_seeds(values: Float) -> Band:
    """The mean over the first axis (seeds), and its interval."""
    flat = values.reshape(len(values), -1)
    return Band(*(x.reshape(values.shape[1:]) for x in bootstrap((len(values),), lambda w: w @ flat)))


def deviation(values: Float) -> Float:
    """The standard deviation over the first axis (seeds); 0 for one seed."""
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def _estimate(sizes: tuple[int, ...], statistic: Callable[[Float], Float]) -> Estimate:
    """One number; an interval that has no width, or differs by rounding alone, is none."""
    value, low, high = (float(x) for x in bootstrap(sizes, statistic))
    wide = high - low > TIE * max(1.0, abs(low), abs(high))
    return Estimate(value, low, high) if wide else Estimate(value, None, None)


def _tie(x: Float) -> Float:
    """[n]: by how much another score may differ from each and be equal to it."""
    return TIE * np.maximum(1.0, np.abs(x))


def _sizes(sample: Sample) -> tuple[int, ...]:
    return tuple(map(len, sample))


def _resamples(sizes: tuple[int, ...]) -> Iterator[Float]:
    """All weights [RESAMPLES, N], in as many blocks of rows as memory asks for."""
    block = max(1, MOST // sum(sizes))
    if block >= RESAMPLES:
        yield _at_once(sizes)
        return
    generator = np.random.default_rng(0)
    for begin in range(0, RESAMPLES, block):
        yield _draw(generator, sizes, min(block, RESAMPLES - begin))


@lru_cache(maxsize=4)
def _at_once(sizes: tuple[int, ...]) -> Float:
    """The same draws serve all statistics of runs that are as many: most of the time would go into drawing."""
    weights = _draw(np.random.default_rng(0), sizes, RESAMPLES)
    weights.flags.writeable = False
    return weights


def _draw(generator: np.random.Generator, sizes: tuple[int, ...], rows: int) -> Float:
    """[rows, N]: weights of resamples."""
    drawn = []
    for n in sizes:
        seeds = generator.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        drawn.append(np.bincount(seeds.ravel(), minlength=rows * n).reshape(rows, n) / (len(sizes) * n))
    return np.concatenate(drawn, axis=1)

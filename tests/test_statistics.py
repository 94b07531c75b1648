"""Statistics over runs against scipy, against loops written here, and against their own claims in simulated studies."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from conrl.experiments import statistics
from conrl.experiments.statistics import (
    LEAST_SEEDS,
    RESAMPLES,
    Estimate,
    improvement,
    interquartile_mean,
    mean,
    over_seeds,
    paired_difference,
    profile,
)

Float = NDArray[np.float64]
Samples = list[Float]

SCORES = arrays(float, st.integers(1, 9), elements=st.floats(-5, 5).map(lambda x: round(x, 1)))  # some are equal


def drawn(rng: np.random.Generator, sizes: tuple[int, ...]) -> Samples:
    return [rng.exponential(size=n) + m for m, n in enumerate(sizes)]


# -- values -----------------------------------------------------------------------------------------------


@given(st.integers(1, 5), st.integers(1, 13), st.integers(0, 1000))
def test_the_interquartile_mean_is_scipys_trimmed_mean(M: int, n: int, seed: int) -> None:
    sample = drawn(np.random.default_rng(seed), (n,) * M)
    wanted = scipy.stats.trim_mean(np.concatenate(sample), 0.25)
    assert interquartile_mean(sample).value == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_an_environment_weighs_the_same_however_many_seeds_it_has() -> None:
    """Every seed of the first written three times: the same study. Pooled scores would say something else."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=8), rng.normal(3.0, size=8)
    often = [np.repeat(first, 3), second]
    assert mean(often).value == pytest.approx(mean([first, second]).value)
    assert mean(often).value == pytest.approx((first.mean() + second.mean()) / 2)
    assert interquartile_mean(often).value == pytest.approx(interquartile_mean([first, second]).value)
    assert interquartile_mean(often).value != pytest.approx(scipy.stats.trim_mean(np.concatenate(often), 0.25))
    assert profile(often, np.array([1.5])).value == pytest.approx(profile([first, second], np.array([1.5])).value)


def test_no_weight_is_left_outside_the_cuts() -> None:
    """Where few scores are not 0, they count or they do not; none counts by a weight of 1e-17."""
    generator = np.random.default_rng(0)
    zeros = 0
    for sizes in [(n,) * M for M in (1, 2, 3, 5, 7) for n in (3, 5, 7, 10)] + [(3, 4, 5, 7), (10, 3)]:
        sample = [np.where(generator.random(n) < 0.8, 0.0, generator.random(n)) for n in sizes]
        found = [x for x in interquartile_mean(sample) if x is not None]
        assert all(x == 0.0 or x > 1e-12 for x in found)
        zeros += found.count(0.0)
    assert zeros > 5


def test_outliers_leave_the_interquartile_mean_alone() -> None:
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    wild = scores.copy()
    wild[[0, 7]] = -1e9, 1e9
    assert interquartile_mean([wild]).value == interquartile_mean([scores]).value == pytest.approx(4.5)


@given(SCORES, SCORES)
def test_the_probability_of_improvement_is_that_of_mann_and_whitney(x: Float, y: Float) -> None:
    wanted = scipy.stats.mannwhitneyu(x, y).statistic / (x.size * y.size)
    found = improvement([x], [y]).value
    assert found == pytest.approx(wanted, abs=1e-12)
    assert improvement([y], [x]).value == pytest.approx(1.0 - wanted, abs=1e-12)
    assert improvement([x], [y], higher=False).value == pytest.approx(1.0 - wanted, abs=1e-12)


def test_the_probability_of_improvement_is_a_mean_over_environments() -> None:
    rng = np.random.default_rng(2)
    first, second = drawn(rng, (4, 9, 6)), drawn(rng, (7, 3, 6))
    each = [np.mean([[(a > b) + 0.5 * (a == b) for b in y] for a in x]) for x, y in zip(first, second, strict=True)]
    assert improvement(first, second).value == pytest.approx(np.mean(each))


def test_profiles_by_hand() -> None:
    sample = [np.array([0.2, 0.5]), np.array([0.5, 0.5, 0.9, 1.0])]
    at = np.array([0.0, 0.2, 0.5, 0.95, 1.0])
    wanted = [1.0, (1 / 2 + 1.0) / 2, (0.0 + 2 / 4) / 2, (0.0 + 1 / 4) / 2, 0.0]
    assert profile(sample, at).value == pytest.approx(wanted)
    assert profile(sample, at, higher=False).value == pytest.approx(1.0 - np.array(wanted))  # at most, not below


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e7])
def test_what_differs_by_rounding_is_a_tie(scale: float) -> None:
    """Means of 30 and of 25 equal numbers are two floating-point numbers."""
    x = scale * np.array([0.1, 0.7, 0.7])
    y = np.nextafter(np.nextafter(x, np.inf), np.inf)
    assert (x != y).all()
    for higher in (True, False):
        wanted = improvement([x], [x], higher)
        assert improvement([x], [y], higher) == wanted
        assert improvement([y], [x], higher) == wanted
        assert wanted.value == pytest.approx(0.5)
        assert profile([x], y, higher).value.tolist() == profile([y], x, higher).value.tolist()
    assert profile([np.full(3, 7.8e-16)], np.array([0.0, -np.inf, np.inf]), higher=False).value.tolist() == [
        1.0,
        0.0,
        1.0,
    ]
    assert paired_difference([x], [y]) == (0.0, None, None)
    assert mean([np.array([x[1], y[1], x[1]])])[1:] == (None, None)
    apart = x + 1e-6 * max(scale, 1.0)  # a millionth is none
    assert improvement([apart], [x]).value == pytest.approx(7 / 9)


def test_paired_differences_take_out_what_the_seeds_share() -> None:
    rng = np.random.default_rng(3)
    luck = [rng.normal(0.0, 10.0, size=n) for n in (6, 9)]
    first = [x + 1.0 + 0.01 * rng.normal(size=x.size) for x in luck]
    found = paired_difference(first, luck)
    assert found.value == pytest.approx(np.mean([np.mean(x - y) for x, y in zip(first, luck, strict=True)]))
    assert found.low is not None
    assert found.high is not None
    assert 0.95 < found.low < found.value < found.high < 1.05
    apart = improvement(first, luck)
    assert apart.low is not None
    assert apart.low < 0.5  # without the pairs nothing can be told


# -- intervals --------------------------------------------------------------------------------------------


def scipys(values: Float) -> tuple[float, float]:
    found = scipy.stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=1)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def test_intervals_of_means_are_scipys() -> None:
    rng = np.random.default_rng(4)
    for n in (3, 10, 30):
        values = rng.exponential(size=n)
        _, low, high = over_seeds(values)
        assert (float(low), float(high)) == pytest.approx(scipys(values), abs=0.1 * values.std())
        assert (float(low), float(high)) == mean([values])[1:]
    wide = rng.normal(size=(5, 3, 2))
    value, low, high = over_seeds(wide)
    assert value.shape == low.shape == high.shape == (3, 2)
    assert value == pytest.approx(wide.mean(axis=0))
    assert low[1, 1] == pytest.approx(float(over_seeds(wide[:, 1, 1]).low))


@settings(deadline=None)
@given(arrays(float, st.integers(LEAST_SEEDS, 12), elements=st.floats(-5, 5)))
def test_intervals_hold_their_value(values: Float) -> None:
    value, low, high = over_seeds(values)
    assert values.min() - 1e-9 <= low <= value + 1e-9
    assert value - 1e-9 <= high <= values.max() + 1e-9
    assert over_seeds(values) == (value, low, high)


def slow_interval(strata: Samples, statistic: Callable[[Samples], float], seed: int) -> tuple[float, float]:
    """The stratified bootstrap in a loop: every environment draws as many of its own."""
    rng = np.random.default_rng(seed)
    found = [statistic([rng.choice(x, x.size) for x in strata]) for _ in range(4000)]
    low, high = np.percentile(found, (2.5, 97.5))
    return float(low), float(high)


def test_intervals_are_those_of_a_loop_over_resamples() -> None:
    """Of environments that lie far apart: without strata every one of these would be far wider."""
    rng = np.random.default_rng(5)
    first = [5.0 * m + rng.normal(size=8) for m in range(3)]
    second = [5.0 * m + rng.normal(0.4, size=6) for m in range(3)]

    def trimmed(strata: Samples) -> float:
        return float(scipy.stats.trim_mean(np.concatenate(strata), 0.25))

    def won(strata: Samples) -> float:
        pairs = zip(strata[:3], strata[3:], strict=True)
        return float(np.mean([np.mean((x[:, None] > y) + 0.5 * (x[:, None] == y)) for x, y in pairs]))

    def above(strata: Samples) -> float:
        return float(np.mean([np.mean(x > 5.2) for x in strata]))

    band = profile(first, np.array([5.2]))
    cases: list[tuple[Estimate, Samples, Callable[[Samples], float]]] = [
        (interquartile_mean(first), first, trimmed),
        (mean(first), first, lambda strata: float(np.mean([x.mean() for x in strata]))),
        (improvement(first, second), first + second, won),
        (Estimate(*(float(x[0]) for x in band)), first, above),
    ]
    for found, strata, statistic in cases:
        low, high = slow_interval(strata, statistic, seed=6)
        assert found.value == pytest.approx(statistic(strata))
        assert (found.low, found.high) == pytest.approx((low, high), abs=0.12 * (high - low))


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_have_no_interval(seeds: int) -> None:
    assert seeds < LEAST_SEEDS
    many, few = np.arange(9.0), np.arange(float(seeds))
    for found in (interquartile_mean([few]), mean([many, few]), improvement([many], [few]), improvement([few], [many])):
        assert (found.low, found.high) == (None, None)
        assert math.isfinite(found.value)
    assert np.isnan(profile([few], np.zeros(2)).low).all()
    assert np.isnan(over_seeds(np.ones((seeds, 4))).high).all()


def test_the_same_scores_give_the_same_numbers_in_blocks_or_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    one, two = [rng.normal(size=9)], drawn(rng, (5, 7))
    at_once = [interquartile_mean(one), interquartile_mean(two)]
    assert at_once == [interquartile_mean(one), interquartile_mean(two)]
    monkeypatch.setattr(statistics, "MOST", 9 * 300)
    assert interquartile_mean(one) == pytest.approx(at_once[0])  # the draws go on where the last block ended
    found = interquartile_mean(two)  # other draws of the same
    assert found.value == at_once[1].value
    assert found.low == pytest.approx(at_once[1].low, abs=0.05)
    assert sum(len(w) for w in statistics._resamples((5, 7))) == RESAMPLES


# -- how often they hold ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "claimed"), [((3,), 0.76), ((5,), 0.84), ((10,), 0.90), ((20,), 0.92), ((3, 3, 3, 3, 3), 0.86)]
)
def test_intervals_of_means_hold_as_often_as_is_said(sizes: tuple[int, ...], claimed: float) -> None:
    """In 1,000 simulated studies with environments that differ; two standard errors of a share are 0.027 at most."""
    rng = np.random.default_rng(8)
    truth = float(np.mean(range(len(sizes))))
    held = 0
    for _ in range(1000):
        _, low, high = mean([rng.normal(m, 1.0, size=n) for m, n in enumerate(sizes)])
        assert low is not None
        assert high is not None
        held += low <= truth <= high
    assert held / 1000 == pytest.approx(claimed, abs=0.03)


def test_intervals_of_the_iqm_and_of_improvement_hold() -> None:
    """Ten seeds in each of four environments: the nominal 95%, give or take the bootstrap's own error."""
    rng = np.random.default_rng(9)
    better = scipy.stats.norm.cdf(0.5 / math.sqrt(2.0))  # P(x > y) of normals that are 0.5 apart
    held = np.zeros(2)
    for _ in range(500):
        first, second = ([rng.normal(shift, 1.0, size=10) for _ in range(4)] for shift in (0.5, 0.0))
        found = [(interquartile_mean(first), 0.5), (improvement(first, second), better)]
        held += [est.low is not None and est.high is not None and est.low <= true <= est.high for est, true in found]
    assert (held / 500 > 0.92).all()
    assert (held / 500 < 0.985).all()

"""What a pair that was seen seldom is likely to do, learned from all the others: empirical Bayes.

Letters: N_k visits of pair k, m_k its mean pay in one coordinate, K pairs that were seen.

*Pay.* The true means of pairs scatter with variance t^2 around a center, and single visits with variance s^2 around
their pair's mean; both are estimated by the analysis of variance (Searle, Casella and McCulloch 1992, section 3.6). A
pair's pay is then drawn with a prior that is worth s^2 / t^2 visits (Ferguson 1973: a Dirichlet process of that
strength has just these two variances). Where pairs are alike, one that never had an accident in 20 visits is believed
to have about as many as the others; where what a pair pays never varies, one visit tells all.

*New successors.* Of the visits of pairs seen about n times, a share g(n) are the only ones that led to their state: if
they were left out, that state would be new. That is the probability of something new at the next visit (Good 1953,
after Turing), pooled over the pairs of one octave of n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conrl._types import Float, Int

ENOUGH = 10.0  # visits: a pair with more counts no more for the center
MOST_STRENGTH = 30.0  # visits: however alike pairs look, each is itself after so many
HALF = 0.5  # of a surprise, for an octave that had none


class Prior(NamedTuple):
    """What is believed of a pair's pay beforehand, in each coordinate."""

    strength: Float  # [1+d]: how many visits it is worth
    center: Float  # [1+d]
    noise: Float  # [1+d]: the share of the variance that is within pairs


class Scatter(NamedTuple):
    """Sums over the visits of each pair."""

    visits: Float  # [K]
    mean: Float  # [K, 1+d]
    squares: Float  # [K, 1+d]: of deviations from the pair's mean


def fit_prior(scatter: Scatter) -> Prior:
    """The prior of pay."""
    N, m = scatter.visits, scatter.mean
    w = pull(N)
    center = w @ m
    within = scatter.squares.sum(axis=0) / max(N.sum() - N.size, 1.0)  # s^2
    if N.max() < 2.0:  # no pair was seen twice: all that varies may be chance
        within = w @ (m - center) ** 2
    noise = (w - w**2) @ (within / N[:, None])  # what s^2 adds to the scatter of the means
    apart = np.maximum((w @ (m - center) ** 2 - noise) / max(1.0 - float(w @ w), 1e-12), 0.0)  # t^2
    noisy = within > 1e-18 * np.maximum(center**2, apart)
    strength = np.where(noisy, within / np.maximum(apart, within / MOST_STRENGTH + 1e-300), 0.0)
    noise = np.where(noisy, within / np.maximum(within + apart, 1e-300), 0.0)
    strength *= N.size > 1  # one pair tells nothing about others, and twice about itself
    return Prior(strength, center, noise)


def pull(visits: Float) -> Float:
    """[K]: how much each pair counts, adding up to 1: as its visits do, up to ENOUGH. Those that are played most were
    chosen for something, and are not like the others."""
    w = np.minimum(visits, ENOUGH)
    return np.asarray(w / w.sum())


def novelty(visits: Int, once: Int) -> Float:
    """[K]: what a new successor is worth in visits, for pairs seen `visits` [K] > 0 times, `once` [K] successors of
    which were seen just once."""
    # What left-out visits tell is about one visit less: pairs seen once are told by those seen two or three times.
    octave = np.maximum(np.floor(np.log2(visits)).astype(np.int64), 1)
    many = visits > 1
    size = int(octave.max()) + 1
    new, left_out = (np.bincount(octave[many], x[many], minlength=size) for x in (once, visits))
    share = ((new + HALF) / (left_out + 2 * HALF))[octave]
    return np.asarray(visits * share / (1.0 - share))

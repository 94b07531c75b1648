"""A test of a mean that may be looked at after every observation.

Letters: x_1, x_2, ... observed one after the other, each at least l; m the mean to be refuted; a bet f in (0, 1).

If the mean of each x_t, given what came before, is at most m, then

    K_t(f) = prod_{i <= t} (1 + f (x_i - m) / (m - l))

is the capital of somebody who stakes a share f of it, again and again, on values above m, at odds that are fair or
worse: a nonnegative supermartingale that starts at 1. So is its mean over several f, and by Ville's inequality it ever
reaches 1/a with probability at most a, however often one looks and whenever one stops (Ville 1939; Waudby-Smith and
Ramdas 2024, "Estimating means of bounded random variables by betting"). The same with -x and an upper end tests whether
the mean is at least m. Nothing else is assumed: no independence, no distribution, no number of looks.

The bets are BETS, from nearly all to very little: whatever the distance and the scatter, one of them is within a factor
of two of the best that this test may place, and the others cost at most a factor of their number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conrl._types import Float
from conrl.errors import SpecError

BETS = np.append([0.98, 0.75], 0.5 ** np.arange(1, 25))  # shares of the capital
STEPS = 24  # halvings when an end of an interval is searched
CHUNK = 4096  # observations at a time


class Capital(NamedTuple):
    """What betting against a mean has earned: what the observations say against it."""

    most: float  # the largest capital so far, as a natural logarithm; at least 0
    when: int | None  # number of observations after which it first reached the bar; None: it has not


def against(x: Float, mean: float, least: float, bar: float, whole: bool = True) -> Capital:
    """The capital of bets that the mean of x [n] is above `mean`, no value being below `least`; `bar` is a logarithm.

    A mean at its least end is refuted by any value above it. Unless `whole`, it stops where the bar is reached.
    """
    if x.size and x.min() < least:
        raise SpecError(f"an observation is {x.min():g}, and none can be below {least:g}")
    if mean < least or (mean == least and (x > least).any()):
        return Capital(np.inf, 1 + int(np.argmax(x > mean)) if x.size else 0)
    if mean == least:
        return Capital(0.0, None)
    capital, most, when = np.zeros(BETS.size), 0.0, None
    for begin in range(0, x.size, CHUNK):
        growth = np.log1p(BETS * ((x[begin : begin + CHUNK, None] - mean) / (mean - least)))
        paths = capital + np.cumsum(growth, axis=0)
        capital = paths[-1]
        top = paths.max(axis=1)
        total = top + np.log(np.exp(paths - top[:, None]).mean(axis=1))
        most = max(most, float(total.max()))
        if when is None and (total >= bar).any():
            when = begin + 1 + int(np.argmax(total >= bar))
            if not whole:
                break
    return Capital(most, when)


def interval(x: Float, least: float, most: float, alpha: float) -> tuple[float, float]:
    """The means that x [n] has not refuted at any time, with error probability alpha: it holds at all times at once."""
    bar = float(np.log(2.0 / alpha))
    low = _end(x, least, most, bar)
    high = -_end(-x, -most, -least, bar)
    return low, high


def _end(x: Float, least: float, most: float, bar: float) -> float:
    """The largest mean that is refuted from above, rounded down; capital falls as the mean rises."""
    low, high = least, most
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if against(x, middle, least, bar, whole=False).when is None:
            high = middle
        else:
            low = middle
    return low

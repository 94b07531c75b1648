"""The next slope to ask for, where the best gain bends like a curve.

best(x) of `line.py` is piecewise linear. If the model is large, its vertices lie so close that it is a curve to the eye
of the search: the chord's answer then lies half-way between the ends, wherever the limit h is, and each direction does
no more than halve the interval.

Letters: the ends under < h < over, each the answer to a slope, `low` and `high`. Of the slope between them three things
are known: at the ends it is low and high, and its mean is that of the chord. The quadratic that agrees,

    slope(t) = low (1 - t) + high t + bend t (1 - t),    bend = 6 (chord - (low + high) / 2)

at x = under + t (over - under), says which slope has its answer near any x. Asked for the slope at h, the oracle
answers with a point close to h, on either side. Now one end is near and the other far, so that the next one is aimed as
far beyond h, to the other side.

Where it is wrong, chords go on as ever: it is trusted once it has foretold where the answer to a chord lies, and as
long as it pays. The gap of a curve is in proportion to (over - h) (h - under), which a chord makes a fourth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

GOOD = 0.1  # of the interval: how well the answer to a chord must be foretold
FALL = 4.0  # by which (over - h) (h - under) must fall
ONE_SIDED = 4.0  # how many times as far from h one end may be as the other


@dataclass
class Curve:
    """A search's view of best(x) around h, from the slopes that its ends are answers to; nan where not known."""

    h: float
    high: float = math.nan
    low: float = math.nan
    trusted: bool = False
    foretold: float = math.nan  # the use of the answer, if a chord was asked
    failures: int = 0
    chords: int = 0  # how many have to be asked before it is trusted again: as many as there were failures

    def slope(self, chord: float, over: float, under: float) -> float:
        """The slope to ask for: that of the chord, unless the curve is trusted."""
        fall, bend = self.low - self.high, 6.0 * (chord - 0.5 * (self.low + self.high))
        self.foretold = math.nan
        if not (fall > 0.0 and abs(bend) <= fall):  # not known, or no slope that falls all the way
            self.trusted = False
        elif self.trusted:
            below, above, aim = self.h - under, over - self.h, self.h
            if ONE_SIDED * below < above:
                aim += below
            elif ONE_SIDED * above < below:
                aim -= above
            t = min(max((aim - under) / (over - under), 0.0), 1.0)
            return min(max(self.low - (fall - bend) * t - bend * t * t, self.high), self.low)
        else:  # where the quadratic is `chord`: the root that lies between the ends
            rest = self.low - chord
            root = math.sqrt(max((fall - bend) ** 2 + 4.0 * bend * rest, 0.0))
            self.foretold = under + (over - under) * 2.0 * rest / (fall - bend + root)
        return chord

    def learn(self, slope: float, use: float, before: tuple[float, float], now: tuple[float, float]) -> None:
        """What the answer to `slope` uses; the ends (over, under) before it and with it."""
        if now[0] != before[0]:
            self.high = slope
        if now[1] != before[1]:
            self.low = slope
        if self.trusted:
            self.trusted = FALL * self._spread(*now) <= self._spread(*before)
            if not self.trusted:
                self.failures += 1
                self.chords = self.failures
        else:
            self.chords = max(self.chords - 1, 0)
            self.trusted = not self.chords and abs(use - self.foretold) <= GOOD * (before[0] - before[1])

    def _spread(self, over: float, under: float) -> float:
        return (over - self.h) * (self.h - under)

"""What was spent, counted exactly: simplest rationals, units, and the totals that can come up.

A cost is a double, and 0.1 + 0.1 + 0.1 is not 0.3 in doubles. So each is read as the simplest rational that rounds to
its double (the one with the smallest denominator, found in the Stern-Brocot tree): 0.1 is 1/10. Nor is 3 * 0.1 equal to
0.3, and people's programs compute costs and thresholds. So where a simple rational is a few units in the last place
away, that is what was meant: p/q with p q <= 2^40, within 2^-50 of the size. There is at most one such (two of them
differ by at least 1 / (q q'), which is more), and a double that is read, written and read again stays what it is. The
costs of a model are then whole multiples of one unit u, the largest rational that divides them all, and a total is a
whole number of units. From there on nothing is rounded.

A threshold is a double that somebody computed, or was told by `conrl.distribution`: a total, but for rounding. It
stands for every total up to

    m + (n + 2) 2^-51 max(|m|, n c)                                                       (1)

where n costs are added up and, if they may have both signs, c is the largest size of one (else 0: no sum of some is
then larger than the total). Let s be the sum of their sizes, at most the maximum in (1), and u = 2^-53. A sum in
doubles is at most (n - 1) u s off, in whatever order (Rump 2012), and 2 n u s if each is rounded up; a cost is read as
a fraction at most 8 u of it away. Together that is (3 n + 7) u s, less than (4 n + 8) u s. Totals that differ by more
than (1) allows stay different.

Where no cost is negative, a total above the largest threshold stays above it: it is counted as the first whole number
of units above (the `cap`). With negative costs the whole range is carried.

On a grid g, costs are rounded to multiples of g, all up or all down. A total of costs rounded up is never below the
true one, so what keeps a limit so counted keeps it surely; rounded down it is never above, so that what cannot be kept
so counted surely cannot be kept.

While a policy acts, whoever plays it tells what was spent, in doubles. That is read as a threshold is: it stands for
the total that can come up and is nearest, if it is within (1). So whoever adds up costs, in whatever order, or rounds a
total to a double, is understood. Any other amount is rounded up to the next multiple, the safe side, but for a
millionth of a unit; so is what a step cost, where the policy itself counts exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Float, Int
from conrl.arguments import is_list, is_number
from conrl.errors import ModelError, shown, unknown
from conrl.wording import worded

MOST_TOTALS = 10_000  # distinct totals (of all counted costs together) that are counted exactly; beyond, a grid
EXACT, UP, DOWN = 0, 1, -1  # how costs are rounded to units
ROUNDED = Fraction(1, 2**50)  # of a double: how far off what was meant it may be
SIMPLE = 2**40  # numerator times denominator, at the most
LAST = Fraction(1, 2**51)  # of a threshold, for each cost that is added up
MOST_ADDED = 2000  # costs that a budget may be a sum of; with very many, rounding would be as much as whole units
NEAR = Fraction(1, 10**6)  # of a unit: how far off a multiple of it an amount from outside may be, by rounding
MOST_DIGITS = 4000  # of a unit in a file: of a number of more than 4300, as a total may be, Python reads none

Spent = tuple[int, ...]  # what was spent of each counted cost, in its unit


class TooManyTotals(Exception):
    """There are more totals than are counted one by one."""


def simplest(x: float) -> Fraction:
    """The rational that a double stands for: a simple one that it may have been before rounding, or else the one with
    the smallest denominator among those that round to it.

    >>> simplest(0.1) * 3 == simplest(0.3) == simplest(3 * 0.1)
    True
    """
    x = float(x)
    if x.is_integer():
        return Fraction(int(x))
    size = abs(x)
    exact = Fraction(size)
    found = _between(exact * (1 - ROUNDED), exact * (1 + ROUNDED))
    if found.numerator * found.denominator > SIMPLE:
        low = (exact + Fraction(math.nextafter(size, 0.0))) / 2
        high = (exact + Fraction(math.nextafter(size, math.inf))) / 2
        found = _between(low, high)
    return found if x > 0.0 else -found


def _between(low: Fraction, high: Fraction) -> Fraction:
    """The simplest rational strictly between two, 0 <= low < high: the first terms of their continued fractions."""
    a, b, c, d = low.numerator, low.denominator, high.numerator, high.denominator  # a/b < x < c/d; d = 0: no upper end
    terms: list[int] = []
    while True:
        whole = a // b
        if d == 0 or (whole + 1) * d < c:
            value = Fraction(whole + 1)
            break
        terms.append(whole)
        a, b, c, d = d, c - whole * d, b, a - whole * b
    for term in reversed(terms):
        value = term + 1 / value
    return value


def common_unit(values: Iterable[Fraction]) -> Fraction:
    """The largest rational of which all values are whole multiples; 1 if all are 0."""
    some = [value for value in values if value]
    if not some:
        return Fraction(1)
    below = math.lcm(*(value.denominator for value in some))
    return Fraction(math.gcd(*(value.numerator * (below // value.denominator) for value in some)), below)


class Sums(NamedTuple):
    """What is added up to a total: at most so many costs and, where they may have both signs, of at most this size."""

    steps: int
    size: float = 0.0

    @classmethod
    def of(cls, steps: int, low: float, high: float, times: int = 1) -> Sums:
        """Of costs in a range; with `times`, of so many episodes, or units, together."""
        return cls(min(times * steps, max(steps, MOST_ADDED)), max(-low, high) if low < 0.0 < high else 0.0)

    def reach(self, threshold: float) -> Fraction:
        """The largest total that is not above a threshold, but for rounding: (1)."""
        m = Fraction(threshold)
        return m + self.rounding(m)

    def rounding(self, total: Fraction) -> Fraction:
        """How far off a total in doubles may be."""
        return (self.steps + 2) * LAST * max(abs(total), self.steps * Fraction(self.size))


def bars(limits: Float, sums: Sequence[Sums]) -> Float:
    """[d]: the largest totals that are not above limits [d], but for rounding; an infinity stays."""
    pairs = zip(limits.tolist(), sums, strict=True)
    return np.array([float(own.reach(x)) if math.isfinite(x) else x for x, own in pairs])


@dataclass(frozen=True)
class Counter:
    """How the totals of some costs are counted: each in whole units, up to its cap."""

    costs: tuple[int, ...]  # which costs of the model
    names: tuple[str, ...]
    units: tuple[Fraction, ...]
    caps: tuple[int | None, ...]  # in units: totals above the largest threshold are all counted as this; None: no cap
    rounding: tuple[int, ...]  # EXACT, UP or DOWN

    @property
    def start(self) -> Spent:
        """Nothing is spent before the first step; a cap below that is reached at once."""
        return self.add((0,) * len(self.costs), (0,) * len(self.costs))

    @property
    def written_units(self) -> list[str]:
        """The units as text, for files."""
        for name, unit in zip(self.names, self.units, strict=True):
            if unit.denominator >= 10**MOST_DIGITS:
                raise ModelError(
                    f"the costs of {name!r} have no common unit of less than {MOST_DIGITS:,} digits, and no file holds "
                    f"a longer one; {_grid_for(name)}"
                )
        return [str(unit) for unit in self.units]

    def place(self, cost: int) -> int:
        """Where a cost of the model stands among those that are counted."""
        return self.costs.index(cost)

    def add(self, total: Spent, more: Spent) -> Spent:
        return tuple(
            a + b if cap is None else min(a + b, cap) for a, b, cap in zip(total, more, self.caps, strict=True)
        )

    def in_units(self, i: int, cost: Fraction) -> int:
        """A cost of the i-th counted kind as a whole number of units."""
        if self.rounding[i] == UP:
            return math.ceil(cost / self.units[i])
        if self.rounding[i] == DOWN:
            return math.floor(cost / self.units[i])
        count = cost / self.units[i]
        if count.denominator != 1:
            raise ModelError(
                f"{float(cost):.10g} of {self.names[i]!r} is no multiple of {float(self.units[i]):.10g}, the unit it "
                f"is counted in; {_grid_for(self.names[i])}"
            )
        return count.numerator

    def read(self, costs: Any) -> Spent:
        """The costs [d] of one step, all of the model's or only those that are counted, in units."""
        given = np.asarray(costs, dtype=np.float64).reshape(-1)
        if given.size <= max(self.costs) or not np.isfinite(given).all():
            raise ModelError(f"costs is {shown(costs)}; expected the costs of one step, in the order of the model's")
        return tuple(self._measured(i, simplest(given[cost])) for i, cost in enumerate(self.costs))

    def _measured(self, i: int, amount: Fraction) -> int:
        """What somebody tells that a step cost, in units. Sums of doubles and decimals of a log are off by a little:
        where costs are counted exactly, the multiple that is meant counts, and what is none is rounded up."""
        if self.rounding[i] == EXACT:
            return self.up(i, amount)
        return self.in_units(i, amount)

    def up(self, i: int, amount: Fraction) -> int:
        """An amount in units, rounded up unless a multiple is meant."""
        count = amount / self.units[i]
        return round(count) if abs(count - round(count)) <= NEAR else math.ceil(count)

    def amounts(self, total: Spent) -> tuple[Fraction, ...]:
        return tuple(count * unit for count, unit in zip(total, self.units, strict=True))

    def listed(self, spent: Any) -> tuple[Fraction, ...]:
        """Amounts as rationals, in the order of `names`: of one number, a list in that order, or by name."""
        listed: Any
        if isinstance(spent, Mapping):
            for name in spent:
                if name not in self.names:
                    raise ModelError(unknown("cost", name, self.names), key=("spent",))
            listed = [spent.get(name) for name in self.names]
        else:
            listed = list(spent) if is_list(spent) and not isinstance(spent, (str, bytes)) else [spent]
        if len(listed) != len(self.names) or not all(isinstance(x, Fraction) or is_number(x) for x in listed):
            raise ModelError(
                f"spent is {shown(spent)}; expected the amounts spent so far of {', '.join(self.names)}",
                key=("spent",),
            )
        return tuple(x if isinstance(x, Fraction) else Fraction(float(x)) for x in listed)

    def above(self, i: int, threshold: Fraction) -> int:
        """The largest number of units that is not above a threshold."""
        return math.floor(threshold / self.units[i])


def _grid_for(name: str) -> str:
    """What to do where costs cannot be counted exactly."""
    return f"plan with {worded(f'grid={{{name!r}: ...}}', f'--grid {name}=X')}"


def classes_of(table: Float) -> tuple[list[tuple[Fraction, ...]], Int]:
    """The distinct rows of realised costs [n, m] as rationals, and which of them each row is."""
    if table.shape[1] == 1:
        distinct, which = np.unique(table[:, 0], return_inverse=True)
        distinct = distinct[:, None]
    else:
        distinct, which = np.unique(table, axis=0, return_inverse=True)
    known = {x: simplest(x) for x in np.unique(distinct).tolist()}
    return [tuple(known[x] for x in row) for row in distinct.tolist()], which.reshape(-1)


def counter_for(
    costs: Sequence[int],
    names: Sequence[str],
    paid: Sequence[tuple[Fraction, ...]],
    thresholds: Sequence[Sequence[Fraction]],
    grids: Sequence[Fraction | None],
    rounding: int,
) -> Counter:
    """The counter of costs that are paid in those amounts; what has a grid and is no multiple of it is rounded."""
    units: list[Fraction] = []
    caps: list[int | None] = []
    rounded: list[int] = []
    for i, grid in enumerate(grids):
        amounts = {row[i] for row in paid}
        exact = grid is None or all((x / grid).denominator == 1 for x in amounts)
        unit = grid if grid is not None and not exact else common_unit(amounts)
        units.append(unit)
        rounded.append(EXACT if exact else rounding)
        free = not thresholds[i] or min(amounts, default=Fraction(0)) < 0
        caps.append(None if free else max(math.floor(max(thresholds[i]) / unit) + 1, 0))
    return Counter(tuple(costs), tuple(names), tuple(units), tuple(caps), tuple(rounded))


class Totals:
    """The totals that come up, each with a number, and what they become with the next cost."""

    def __init__(self, counter: Counter, steps: Sequence[Spent], most: float = MOST_TOTALS) -> None:
        self.counter, self.steps, self.most = counter, steps, most
        self.values: list[Spent] = [counter.start]
        self._index = {counter.start: 0}
        self._after: dict[int, int] = {}

    def after(self, total: Int, step: Int) -> Int:
        """[n]: the number of each total after a step that costs the class `step` [n]."""
        asked, which = np.unique(total * len(self.steps) + step, return_inverse=True)
        found = np.empty(asked.size, dtype=np.int64)
        known = self._after
        for i, key in enumerate(asked.tolist()):
            number = known.get(key)
            if number is None:
                before, cost = divmod(key, len(self.steps))
                value = self.counter.add(self.values[before], self.steps[cost])
                number = self._index.get(value)
                if number is None:
                    number = self._index[value] = len(self.values)
                    self.values.append(value)
                    if number >= self.most:
                        raise TooManyTotals
                known[key] = number
            found[i] = number
        numbers: Int = found[which.reshape(-1)]
        return numbers

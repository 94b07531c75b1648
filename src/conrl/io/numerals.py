"""Numbers as people write them in spreadsheets: `0.7`, `0,7`, `70%`, `1 234,5`, `1.234,5`, `1,234.5`.

Which of point and comma is the decimal mark is a property of a whole table. Of each number one asks what it is with
either: `0,7` is a number only with a comma, `0.7` only with a point, `1.234` with both (1.234, or 1234 with thousands
apart). The numbers that are one in one way only decide; if they disagree, or if there
are only numbers of the last kind, the table is refused: two readings would give two models. A probability is at most 1,
so that `1,000` is one with a comma only. A comma that separates the columns decides too, unless some number has a comma
itself.

Thousands may also be apart by blanks or apostrophes, in groups of three. `70%` is 0.7, to the last bit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from conrl._types import Float

Cell = str | float  # what a workbook holds as a number comes as one

MARKS = (".", ",")
MOST_SHARE = 1.0 + 1e-9  # a probability, and rounding
_WORDS = {"nan", "inf", "infinity"}
_APART = " \u00a0\u2009\u202f'’"  # blanks and apostrophes between thousands


def _pattern(mark: str, other: str) -> re.Pattern[str]:
    m = re.escape(mark)
    groups = rf"(?P<groups>[1-9]\d{{0,2}}(?P<apart>[{re.escape(other)}{_APART}])\d{{3}}(?:(?P=apart)\d{{3}})*)"
    return re.compile(
        rf"(?P<sign>[+\-\u2212]?)(?:{groups}(?P<rest>{m}\d*)?|(?P<plain>\d+(?:{m}\d*)?|{m}\d+)(?:[eE](?P<e>[+-]?\d{{1,9}}))?)"
        r"\s*(?P<percent>%?)"
    )


_PATTERNS = {".": _pattern(".", ","), ",": _pattern(",", ".")}


def read_number(cell: Cell, mark: str | None) -> float | None:
    """What a cell says, where the decimal mark is `mark` (None: whichever makes it a number); None if it is no number.

    >>> read_number("70%", "."), read_number("1.234,5", ","), read_number("1.234", ","), read_number("1_000", ".")
    (0.7, 1234.5, 1234.0, None)
    """
    if not isinstance(cell, str):
        return float(cell)
    text = cell.strip()
    for one in MARKS if mark is None else (mark,):
        if found := _PATTERNS[one].fullmatch(text):
            return _value(found, one)
    return float(text) if text.lower().lstrip("+-") in _WORDS else None


def _value(found: re.Match[str], mark: str) -> float:
    """The number nearest to what is written: a percent sign moves the exponent, and nothing is rounded twice."""
    groups, apart = found["groups"], found["apart"]
    digits = found["plain"] if groups is None else groups.replace(apart, "") + (found["rest"] or "")
    exponent = int(found["e"] or 0) - (2 if found["percent"] else 0)
    sign = "-" if found["sign"] in ("-", "\u2212") else ""
    return float(f"{sign}{digits.replace(mark, '.')}e{exponent}")


class OddNumber(Exception):
    """A cell that is no number as Python writes it: which mark is decimal must be found out first."""


def plain_numbers(cells: Sequence[Cell], texts: bool = True) -> Float:
    """Numbers as Python writes them, all at once; an `OddNumber` if one is not, or is 1_000.

    `texts`: a text in a cell is sure to have a decimal point; if not, any text is odd.
    """
    if not texts and any(isinstance(cell, str) for cell in cells):
        raise OddNumber
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        raise OddNumber from None
    if "_" in "".join(map(str, cells)):
        raise OddNumber
    return values


def written_numbers(cells: Sequence[Cell], mark: str | None) -> Float:
    """Numbers as people write them; nan where a cell is none."""
    read = {cell: read_number(cell, mark) for cell in set(cells)}
    return np.array([math.nan if (x := read[cell]) is None else x for cell in cells])


def read_share(cell: Cell) -> float | None:
    """A probability, which decides by itself what its decimal mark is: with the other one it is none.

    >>> read_share("0,5"), read_share("1,000"), read_share("70%"), read_share("7")
    (0.5, 1.0, 0.7, None)
    """
    found = (read_number(cell, mark) for mark in MARKS)
    return next((x for x in found if x is not None and 0.0 <= x <= MOST_SHARE), None)


def marks_of(cell: Cell, share: bool = False) -> str:
    """The decimal marks with which a cell is a number (`share`: a probability): `.`, `,`, or `.,` for either.

    Nothing if it does not matter, or is no number.

    >>> [marks_of(text) for text in ("0.7", "0,7", "1.234", "12", "x")], marks_of("1,000", share=True)
    (['.', ',', '.,', '', ''], ',')
    """
    if not isinstance(cell, str) or not ("." in cell or "," in cell):
        return ""
    found = [(mark, read_number(cell, mark)) for mark in MARKS]
    return "".join(mark for mark, x in found if x is not None and (not share or x <= MOST_SHARE))


class Seen(NamedTuple):
    """A number, and the line it is on."""

    line: int
    text: str


class Marks:
    """What the numbers of a table say about its decimal mark."""

    def __init__(self) -> None:
        self.first: dict[str, Seen] = {}  # the first number of each kind of `marks_of`
        self.commas = False  # whether a number that is one with either has a comma
        self._known: set[tuple[Cell, bool]] = set()

    def note(self, cells: Iterable[Cell], lines: Sequence[int], share: bool = False) -> None:
        """Look at some cells; `share`: they are probabilities."""
        for line, cell in zip(lines, cells, strict=True):
            if (cell, share) in self._known or not isinstance(cell, str) or not ("." in cell or "," in cell):
                continue
            self._known.add((cell, share))
            kind = marks_of(cell, share)
            self.commas = self.commas or (kind == ".," and "," in cell)
            if kind and (kind not in self.first or line < self.first[kind].line):
                self.first[kind] = Seen(line, cell.strip())
        if len(self._known) > 100_000:  # a memory of what was seen, no more
            self._known.clear()

    def decide(self, by_commas: bool) -> tuple[str | None, str]:
        """The mark, or why there is none; `by_commas`: commas separate the columns."""
        points, commas, either = (self.first.get(kind) for kind in (".", ",", ".,"))
        if points and commas:
            return None, (
                f"{points.text} on line {points.line} has a decimal point and {commas.text} on line {commas.line} "
                "a decimal comma; use one of them"
            )
        if points or commas or either is None or (by_commas and not self.commas):
            return ("," if commas else "."), ""
        mark = "," if "," in either.text else "."
        whole, parts = either.text.replace(mark, ""), either.text.replace(",", ".")
        longer = f"{either.text.rstrip('% ')}0{'%' * either.text.endswith('%')}"
        return None, (
            f"{either.text} on line {either.line} may be {whole} or {parts}, and no other number says whether "
            f"{'commas' if mark == ',' else 'points'} are decimal; write {whole} or {longer}"
        )

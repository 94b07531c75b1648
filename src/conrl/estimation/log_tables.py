"""Tables of logged steps: what the cells of a column say, as numbers, indices, flags or names.

A column of numbers is an array, any other one is `Texts`. Whatever is wrong with a cell is said with its line, or with
its row (from 1) where a file has no lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from conrl._types import Array, Bool, Float, Int
from conrl.errors import ModelError, shown
from conrl.estimation.log_columns import COST
from conrl.io.sheets import Sheet, line_of

EXACT = 2**53  # a whole number from here on may have been rounded when it became a double

_FLAGS = {"": False, "false": False, "no": False, "true": True, "yes": True}
_INDICES = 2**31


class Texts(NamedTuple):
    """A column of texts: the different ones by first appearance, and which of them each row has."""

    distinct: tuple[str, ...]
    code: Int

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        codes = Codes(str)
        code = codes.of(texts)
        return cls(tuple(codes.number), code)

    def first(self, k: int) -> int:
        """The first row that has the k-th text."""
        return int(np.argmax(self.code == k))


Column = Texts | Array


class Codes(dict[str, int]):
    """Numbers texts by first appearance; the keys are cells, which may write one text in two ways."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self.clean = clean
        self.number: dict[str, int] = {}  # of each text

    def __missing__(self, cell: str) -> int:
        self[cell] = code = self.number.setdefault(self.clean(cell), len(self.number))
        return code

    def of(self, cells: Sequence[str]) -> Int:
        return np.fromiter(map(self.__getitem__, cells), np.int64, len(cells))


class Source(NamedTuple):
    """Where rows come from, and what to call one."""

    path: Path
    sheet: Sheet | None = None  # of a file that has lines

    def place(self, row: int) -> str:
        return f"row {row + 1}" if self.sheet is None else f"line {line_of(self.sheet, row)}"

    def stop(self, row: int, what: str) -> NoReturn:
        raise ModelError(f"{self.path}, {self.place(row)}: {what}")


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a log, by our names."""

    source: Source
    columns: Mapping[str, Column]
    rows: int

    @property
    def costs(self) -> tuple[str, ...]:
        """The columns of costs, in the order of the file."""
        return tuple(name for name in self.columns if name.startswith(COST))

    def numbers(self, name: str) -> Float:
        column = self.columns[name]
        if isinstance(column, Texts):
            for k, text in enumerate(column.distinct):
                if fault := fault_of(text):
                    self.source.stop(column.first(k), f"{name} is {fault}")
            each: Float = np.array([float(text) for text in column.distinct], dtype=np.float64)
            return each[column.code]
        values: Float = column.astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            self.source.stop(int(bad[0]), f"{name} is {column[bad[0]]}; it must be a finite number")
        return values

    def integers(self, name: str) -> Int:
        values = self.numbers(name)
        bad = np.flatnonzero((values != np.floor(values)) | (np.abs(values) >= EXACT))
        if bad.size:
            row = int(bad[0])
            size = f" of less than {EXACT:,} in size" if abs(values[row]) >= EXACT else ""
            self.source.stop(row, f"{name} is {self._cell(name, row)}; it must be a whole number{size}")
        return values.astype(np.int64)

    def flags(self, name: str) -> Bool:
        """What is true, in words or as 0 and 1; nothing where there is no such column."""
        column = self.columns.get(name)
        if column is None:
            return np.zeros(self.rows, dtype=bool)
        need = "it must be 0 or 1, true or false, yes or no"
        if isinstance(column, Texts):
            each = [_flag(text) for text in column.distinct]
            if None in each:
                k = each.index(None)
                self.source.stop(column.first(k), f"{name} is {shown(column.distinct[k])}; {need}")
            return np.array(each, dtype=bool)[column.code]
        bad = np.flatnonzero((column != 0) & (column != 1))
        if bad.size:
            self.source.stop(int(bad[0]), f"{name} is {column[bad[0]]}; {need}")
        return column.astype(bool)

    def ids(self, name: str) -> tuple[Int, tuple[str, ...] | None]:
        """Whole numbers; or the numbers of texts by first appearance, and the texts."""
        column = self.columns[name]
        if isinstance(column, Texts):
            self._check_none_missing(name, column)
            if any(map(_is_id, column.distinct)):
                return column.code, column.distinct
        return self.integers(name), None

    def labels(self, *names: str) -> tuple[list[Int], tuple[str, ...] | None]:
        """Indices of some columns, and the names behind them unless all are whole numbers themselves."""
        columns = [self._plain(name) for name in names]
        if all(map(_is_whole, columns)):
            return [self._indices(name, column) for name, column in zip(names, columns, strict=True)], None
        number: dict[str, int] = {}
        found = []
        for column in columns:
            texts = column if isinstance(column, Texts) else Texts.of(list(map(str, column.tolist())))
            index = [number.setdefault(text, len(number)) for text in texts.distinct]
            found.append(np.array(index, dtype=np.int64)[texts.code])
        return found, tuple(number)

    def _plain(self, name: str) -> Column:
        """Whole numbers as integers, however they are stored; others as they are, once none is missing."""
        column = self.columns[name]
        self._check_none_missing(name, column)
        if isinstance(column, Texts) or column.dtype.kind != "f":
            return column
        whole = (column == np.floor(column)).all() and (np.abs(column) < EXACT).all()
        return column.astype(np.int64) if whole else column

    def _check_none_missing(self, name: str, column: Column) -> None:
        if isinstance(column, Texts):
            if "" in column.distinct:
                self.source.stop(column.first(column.distinct.index("")), f"{name} is missing")
        elif column.dtype.kind == "f" and np.isnan(column).any():
            self.source.stop(int(np.argmax(np.isnan(column))), f"{name} is missing")

    def _indices(self, name: str, column: Column) -> Int:
        what = name.removeprefix("next_")
        if isinstance(column, Texts):
            each = [int(text) for text in column.distinct]
            for k, index in enumerate(each):
                if not 0 <= index < _INDICES:
                    self.source.stop(column.first(k), f"{what} {cut(str(index))} is not an index")
            return np.array(each, dtype=np.int64)[column.code]
        bad = np.flatnonzero((column < 0) | (column >= _INDICES))
        if bad.size:
            self.source.stop(int(bad[0]), f"{what} {column[bad[0]]} is not an index")
        return column.astype(np.int64)

    def _cell(self, name: str, row: int) -> str:
        column = self.columns[name]
        return cut(column.distinct[column.code[row]]) if isinstance(column, Texts) else str(column[row])


def fault_of(text: str) -> str:
    """What is wrong with a number, or nothing."""
    try:
        return "" if math.isfinite(float(text)) else f"{cut(text)}; it must be a finite number"
    except ValueError:
        return f"{shown(text)}, not a number"


def cut(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _flag(text: str) -> bool | None:
    try:
        return {0.0: False, 1.0: True}.get(float(text))
    except ValueError:
        return _FLAGS.get(text.strip().lower())


def _is_id(text: str) -> bool:
    """Whether it is a name and no number: also a row of digits that is too long for a double."""
    try:
        return abs(float(text)) >= EXACT and _has_digits_only(text)
    except ValueError:
        return True


def _has_digits_only(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit()


def _is_whole(column: Column) -> bool:
    if isinstance(column, Texts):  # Python reads no number of more than some thousand digits
        return all(_has_digits_only(text) and len(text) < 4000 for text in column.distinct)
    return column.dtype.kind in "iu"

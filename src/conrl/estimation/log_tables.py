"""Tables of logged steps: what the cells of a column say, as numbers, indices, flags or names.

A column of numbers is an array, any other one is `Texts`. Whatever is wrong with a cell is noted with its line, or with
its row (from 1) where a file has no lines, and reading goes on with 0 in its place.

Names are texts as they stand, blanks included, as in the table of a model. States and episodes are numbers only if all
of them are written as computers write whole numbers, blanks around them aside; `01` and `1.000` are names, and others
than `1`. Steps and flags are numbers as people write them, with the decimal mark of the table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from conrl._types import Array, Bool, Float, Int
from conrl.errors import shown
from conrl.estimation.log_columns import is_pay
from conrl.io.codes import Codes
from conrl.io.cut_rows import Role
from conrl.io.mistakes import Mistakes
from conrl.io.sheets import COST
from conrl.wording import cut

EXACT = 2**53  # a whole number from here on may have been rounded when it became a double
SHOWN = 60  # letters of a cell in a message

_FLAGS = {"": False, "false": False, "no": False, "true": True, "yes": True}
_INDICES = 2**31
_WHOLE = re.compile(r"\s*(-?[1-9][0-9]*|0)\s*")  # as computers write it


def plain_number(text: str) -> float | None:
    """What a text says as Python writes numbers, but for 1_000; None if it is no number."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


class Texts(NamedTuple):
    """A column of texts: the different ones by first appearance, and which of them each row has."""

    distinct: tuple[str, ...]
    code: Int

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        codes = Codes(str)
        code = codes.of(texts)
        return cls(tuple(codes.number), code)

    def rows(self, which: Iterable[bool]) -> Int:
        """The rows that have some of the texts."""
        chosen = np.fromiter(which, bool, len(self.distinct))
        return np.flatnonzero(chosen[self.code]) if chosen.any() else np.zeros(0, dtype=np.int64)


Column = Texts | Array


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a log, by our names. What is wrong with a cell goes to `mistakes`, and its row is not `sound`."""

    mistakes: Mistakes
    columns: Mapping[str, Column]
    lines: Int  # [n]: of each row
    sound: Bool  # [n]
    lost: tuple[str | None, ...] = ()  # cells of the column episode in rows that are left out; None if there is none
    read: Callable[[str], float | None] = plain_number  # the number that a text is, as the table writes them
    unfinished: int = 0  # lines at the end that were not read

    @property
    def rows(self) -> int:
        return int(self.lines.size)

    @property
    def costs(self) -> tuple[str, ...]:
        """The columns of costs, in the order of the file."""
        return tuple(name for name in self.columns if name.startswith(COST))

    def place(self, row: int) -> str:
        return f"{self.mistakes.place} {self.lines[row]}"

    def complain(self, rows: Int, tell: Callable[[int], str], kind: str = "") -> None:
        """A mistake in each of some rows; `tell` has the words for a row. Many of one `kind` are told as one."""
        if kind:
            self.mistakes.add_alike(kind, self.lines[rows], lambda i: tell(int(rows[i])))
        else:
            self.mistakes.add_each(self.lines[rows], lambda i: tell(int(rows[i])))
        self.sound[rows] = False

    def numbers(self, name: str) -> Float:
        """Finite numbers; 0 where there is none."""
        column = self.columns[name]
        if isinstance(column, Texts):
            read = list(map(self.read, column.distinct))
            faults = [_fault(text, x) for text, x in zip(column.distinct, read, strict=True)]
            self.complain(column.rows(map(bool, faults)), lambda row: f"{name} is {faults[column.code[row]]}", name)
            each: Float = np.array([x if x and not fault else 0.0 for x, fault in zip(read, faults, strict=True)])
            return each[column.code]
        values: Float = column.astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(values))
        self.complain(bad, lambda row: f"{name} is {column[row]}; it must be a finite number", name)
        values[bad] = 0.0
        return values

    def integers(self, name: str) -> Int:
        """Whole numbers; 0 where there is none."""
        values = self.numbers(name)

        def tell(row: int) -> str:
            size = f" of less than {EXACT:,} in size" if abs(values[row]) >= EXACT else ""
            return f"{name} is {self._cell(name, row)}; it must be a whole number{size}"

        bad = np.flatnonzero((values != np.floor(values)) | (np.abs(values) >= EXACT))
        self.complain(bad, tell, name)
        values[bad] = 0.0
        return values.astype(np.int64)

    def flags(self, name: str) -> Bool:
        """What is true, in words or as 0 and 1; nothing where there is no such column."""
        column = self.columns.get(name)
        if column is None:
            return np.zeros(self.rows, dtype=bool)
        need = "it must be 0 or 1, true or false, yes or no"
        if isinstance(column, Texts):
            each = [_flag(text, self.read(text)) for text in column.distinct]
            bad = column.rows(flag is None for flag in each)
            self.complain(bad, lambda row: f"{name} is {shown(column.distinct[column.code[row]])}; {need}", name)
            return np.array([bool(flag) for flag in each], dtype=bool)[column.code]
        bad = np.flatnonzero((column != 0) & (column != 1))
        self.complain(bad, lambda row: f"{name} is {column[row]}; {need}", name)
        return column.astype(bool)

    def ids(self, name: str) -> tuple[Int, tuple[str, ...] | None]:
        """Whole numbers; or the numbers of texts by first appearance, and the texts."""
        missing = self._missing(name)
        column = self.columns[name]
        if isinstance(column, Texts) and any(text.strip() and not _is_exact(text) for text in column.distinct):
            return column.code, column.distinct
        if missing.size:  # was said already, and 0 is no worse than another number
            column = _filled(column, missing)
        return replace(self, columns={name: column}).integers(name), None

    def labels(self, *names: str) -> tuple[list[Int], tuple[str, ...] | None]:
        """Indices of some columns, and the names behind them unless all are whole numbers themselves.

        One cell that is no whole number as computers write it, such as `01` or `7b`, makes names of all.
        """
        columns = [_filled(self.columns[name], self._missing(name)) for name in names]
        whole = [_as_whole(column) for column in columns]
        # The same number is the same name, in whichever column and type: if some are fractions, 2 is written 2.0.
        floats = any(not isinstance(column, Texts) and column.dtype.kind == "f" for column in whole)
        columns = columns if floats else whole
        if all(map(_is_whole, columns)):
            return [self._indices(name, column) for name, column in zip(names, columns, strict=True)], None
        number: dict[str, int] = {}
        found = []
        for column in columns:
            texts = column if isinstance(column, Texts) else Texts.of(_texts(column, floats))
            index = [number.setdefault(text, len(number)) for text in texts.distinct]
            found.append(np.array(index, dtype=np.int64)[texts.code])
        return found, tuple(number)

    def _missing(self, name: str) -> Int:
        """Rows without a cell, which is a mistake."""
        column = self.columns[name]
        rows: Int = np.zeros(0, dtype=np.int64)
        if isinstance(column, Texts):
            rows = column.rows(not text.strip() for text in column.distinct)
        elif column.dtype.kind == "f":
            rows = np.flatnonzero(np.isnan(column))
        self.complain(rows, lambda row: f"{name} is missing", name)
        return rows

    def _indices(self, name: str, column: Column) -> Int:
        what = name.removeprefix("next_")
        if isinstance(column, Texts):
            each = [int(text) for text in column.distinct]
            bad = column.rows(not 0 <= index < _INDICES for index in each)
            self.complain(bad, lambda row: f"{what} {cut(each[column.code[row]], SHOWN)} is not an index")
            return np.array([index if 0 <= index < _INDICES else 0 for index in each], dtype=np.int64)[column.code]
        bad = np.flatnonzero((column < 0) | (column >= _INDICES))
        self.complain(bad, lambda row: f"{what} {column[row]} is not an index")
        return np.where((column < 0) | (column >= _INDICES), 0, column).astype(np.int64)

    def _cell(self, name: str, row: int) -> str:
        column = self.columns[name]
        return cut(column.distinct[column.code[row]], SHOWN) if isinstance(column, Texts) else str(column[row])


def _as_whole(column: Column) -> Column:
    """Whole numbers as integers, however they are stored; others as they are."""
    if isinstance(column, Texts) or column.dtype.kind != "f":
        return column
    whole = (column == np.floor(column)).all() and (np.abs(column) < EXACT).all()
    return column.astype(np.int64) if whole else column


def _texts(column: Array, floats: bool) -> list[str]:
    """Numbers as names; where some are `floats`, all are."""
    exact = floats and column.dtype.kind in "iu" and bool((np.abs(column.astype(np.float64)) < EXACT).all())
    return list(map(str, (column.astype(np.float64) if exact else column).tolist()))


def _filled(column: Column, missing: Int) -> Column:
    """A column with 0 in the rows that lack a cell."""
    if not missing.size:
        return column
    if isinstance(column, Texts):
        texts = [text if text.strip() else "0" for text in column.distinct]
        return Texts(tuple(texts), column.code)
    values = column.copy()
    values[missing] = 0
    return values


def _fault(text: str, number: float | None) -> str:
    """What is wrong with a number, or nothing."""
    if not text.strip():
        return "missing"
    if number is None:
        return f"{shown(text)}, not a number"
    return "" if math.isfinite(number) else f"{cut(text, SHOWN)}; it must be a finite number"


def _flag(text: str, number: float | None) -> bool | None:
    """What a word or a number says; None if it says neither."""
    return _FLAGS.get(text.strip().lower()) if number is None else {0.0: False, 1.0: True}.get(number)


def _is_exact(text: str) -> bool:
    """Whether it is a whole number that a double keeps; not `01`, `1.0` or a longer row of digits, which are names."""
    return _WHOLE.fullmatch(text) is not None and abs(float(text)) < EXACT


def _is_whole(column: Column) -> bool:
    if isinstance(column, Texts):  # Python reads no number of more than some thousand digits
        return all(_WHOLE.fullmatch(text) and len(text) < 4000 for text in column.distinct)
    return column.dtype.kind in "iu"


def roles_of(header: Sequence[str], chosen: Mapping[str, int], table: Table) -> list[Role]:
    """What each column of a file is for, as `conrl.io.cut_rows` asks."""
    ours = {at: name for name, at in chosen.items()}
    texts = {name: frozenset(column.distinct) for name, column in table.columns.items() if isinstance(column, Texts)}
    states = texts.get("state", frozenset()) | texts.get("next_state", frozenset())
    known = texts | {"state": states, "next_state": states}
    roles = []
    for at, given in enumerate(header):
        name = ours.get(at, "")
        if is_pay(name):
            roles.append(Role(given))
        elif name in ("state", "action", "next_state"):
            roles.append(Role(given, known[name].__contains__))
        elif name:  # of what is counted, and of flags
            roles.append(Role(given, known[name].__contains__, is_cut=False))
        else:  # nothing is known about what is left out
            roles.append(Role(given, lambda text: False, is_cut=False))
    return roles

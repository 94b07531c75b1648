"""Rows in which a comma may have cut a cell in two.

Commas separate the columns of a file, and somebody wrote `10,5` without quotes: the row has one cell too many, and all
that follow are shifted by one. Mostly it then has more cells than the header, or a text where a number belongs, and is
refused. But if the last columns are for remarks and the row has none, it has as many cells as it may have, and the last
part of it is lost as a remark:

    state,action,next_state,probability,reward,comment
    new,run,worn,1,10,5

So a row with a remark is read a second time, with two neighboring cells put together. If that is a row as well, there
are two readings, and it is refused. It is one if

- the two cells together are one number, such as `10,5` or, with thousands apart, `1,234`; or one quoted text behind a
  blank, which `csv` takes for two cells;
- every cell behind them fits the column before its own: a number where numbers belong, a known name where names do. So
  a remark with any word in it (`3 weeks`, `see 12`) is a remark.

A file has one decimal mark: if another number has a decimal point, `10,5` is no number, and `5` is a remark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from conrl.errors import shown
from conrl.io.numerals import MARKS, MOST_SHARE, Marks, read_number
from conrl.io.sheets import NOTES, BrokenRow, Sheet, chunks, plain, resized


class Role(NamedTuple):
    """What a column is for."""

    name: str  # as the header has it
    holds: Callable[[str], bool] | None = None  # whether a text may stand in it; None of numbers
    is_share: bool = False  # of numbers: they are probabilities
    is_cut: bool = True  # whether a cell of it may be cut

    @property
    def is_note(self) -> bool:
        return plain(self.name) in NOTES

    def fits(self, text: str, marks: Sequence[str]) -> bool:
        if self.holds is not None:
            return self.holds(text)
        most = MOST_SHARE if self.is_share else float("inf")
        return any((x := read_number(text, mark)) is not None and x <= most for mark in marks)


def cut_rows(sheet: Sheet, roles: Sequence[Role]) -> Iterator[tuple[int, str]]:
    """The lines of such rows, and what to say of each."""
    last = len(roles)
    while last and roles[last - 1].is_note:
        last -= 1
    if not sheet.by_commas or last == len(roles) or not last:
        return
    marks = _marks(sheet, roles)
    with suppress(BrokenRow):  # whoever reads the rows says so
        for chunk in chunks(sheet):
            for line, row in chunk:
                cells: list[str] = row  # type: ignore[assignment]  # of texts: it is no workbook
                if len(cells) > last and cells[last] and (found := _cut(cells, roles, last, marks)):
                    yield line, _told(found, cells[last].strip(), roles[last].name)


def _marks(sheet: Sheet, roles: Sequence[Role]) -> Sequence[str]:
    """The decimal marks that the numbers of a file leave open."""
    seen = Marks()
    numbers = [i for i, role in enumerate(roles) if role.holds is None]
    with suppress(BrokenRow):
        for chunk in chunks(sheet):
            lines = [line for line, _ in chunk]
            columns = list(zip(*(resized(row, len(roles)) for _, row in chunk), strict=True))
            for i in numbers:
                seen.note(columns[i], lines, roles[i].is_share)
            if found := [mark for mark in MARKS if mark in seen.first]:
                return found
    return MARKS


def _cut(cells: list[str], roles: Sequence[Role], last: int, marks: Sequence[str]) -> str:
    """What may be one cell; nothing if the row has one reading. The columns from `last` on are for remarks."""
    for i in range(last - 1, -1, -1):
        whole = f"{cells[i]},{cells[i + 1]}"
        if roles[i].is_cut and _is_one(whole, roles[i], marks):
            return whole.strip()
        if not roles[i].fits(cells[i + 1], marks):  # nor can what stands before have been cut
            return ""
    return ""


def _is_one(whole: str, role: Role, marks: Sequence[str]) -> bool:
    """Whether two cells that a comma parts make one of that column."""
    if role.holds is None:
        return role.fits(whole, marks)
    quoted = whole[:1].isspace() and whole.strip()[:1] == '"' == whole.strip()[-1:] and whole.count('"') % 2 == 0
    return quoted or any(read_number(whole, mark) is not None for mark in marks)


def _told(whole: str, rest: str, column: str) -> str:
    remedy = "put quotes around it" if whole[:1] != '"' else "delete the blank before its quotes"
    return (
        f"{whole} may be one cell that its comma cut in two, so that {shown(rest)} stands under {column.strip()!r}; "
        f"if it is, {remedy} or separate the columns by semicolons; if {shown(rest)} is a remark, add a word to it"
    )

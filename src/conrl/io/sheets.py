"""Tables of cells, whatever program wrote them: rows with the lines they start on.

A CSV file is UTF-8 text, with or without a byte order mark. Its columns are separated by commas, semicolons, tabs or
bars: by the sign that makes the header have the most names that are known, or by the one that a first line `sep=;`
names, as Excel writes it. If every name of the header but the first begins with a blank, cells begin after the blank.
Rows without anything in them, also `,,,,`, are left out.

An Excel workbook is read by `conrl.io.workbooks`; `model.xlsx#Costs` names a sheet of it.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol, TextIO

from conrl.errors import MOST_SHOWN, ModelError
from conrl.io.numerals import Cell, Marks
from conrl.wording import counted

SEPARATORS = ",;\t|"
CHUNK = 2_000  # rows that are held as texts at a time
EXCEL = ".xlsx"
NOTES = ("comment", "comments", "note", "notes", "remark", "remarks")  # columns for people
ABOVE = 20  # lines among which a header is looked for that is not the first
COST = "cost_"  # before the name of a cost, in the names of columns
_COST = re.compile(r"\s*cost[_ ]", re.IGNORECASE)
FEW_NAMES = 3  # that are known: a row with so many is a header
_SEP = re.compile(r'"?sep=([,;\t|])"?[\r\n]*', re.IGNORECASE)

Row = tuple[int, list[Cell]]  # the line on which it starts, and its cells


class BrokenRow(ModelError):
    """A line from which on a file cannot be read."""

    def __init__(self, label: Path | str, line: int, what: str) -> None:
        super().__init__(f"{label}, line {line}: {what}")
        self.where = (label, line, what)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.where


class Sheet(Protocol):
    """A table that can be read again and again."""

    @property
    def label(self) -> str:
        """What to call it in a message."""

    @property
    def by_commas(self) -> bool:
        """Whether commas separate its columns."""

    def rows(self) -> Iterator[Row]:
        """The header, then the rows with anything in them."""


class CsvSheet(NamedTuple):
    """A text file, and how its cells are told apart."""

    path: Path
    separator: str = ","
    skip_blanks: bool = False  # cells begin after the blanks
    head: int = 0  # lines before the header that are none of the table
    strict: bool = True  # refuse anything between a closing quote and the separator
    whole_lines: bool = False  # leave out a last line without a line end

    @property
    def label(self) -> str:
        return str(self.path)

    @property
    def by_commas(self) -> bool:
        return self.separator == ","

    def rows(self) -> Iterator[Row]:
        errors = "surrogateescape" if self.whole_lines else "strict"  # a letter may be cut in two
        with self.path.open(encoding="utf-8-sig", newline="", errors=errors) as stream:
            for _ in range(self.head):
                stream.readline()
            yield from self._read(_whole(stream) if self.whole_lines else stream)

    def header(self) -> list[str]:
        """The first row, as texts, also if its quotes are not right; nothing if it cannot be read at all."""
        loose = self._replace(strict=False)
        try:
            return [str(cell) for cell in next(loose.rows(), (0, []))[1]]
        except ModelError:
            return []

    def _read(self, stream: Iterable[str]) -> Iterator[Row]:
        reader = csv.reader(stream, strict=self.strict, delimiter=self.separator, skipinitialspace=self.skip_blanks)
        before = self.head
        try:
            for row in reader:
                # The first cell nearly always says that a row is not empty, and quickly.
                if row and ((row[0] and not row[0].isspace()) or (any(row) and not "".join(row).isspace())):
                    yield before + 1, row  # type: ignore[misc]  # texts are cells
                before = self.head + reader.line_num
        except csv.Error as error:
            hint = "; leave nothing between a quote and the separator" if "expected after" in str(error) else ""
            stop(self.path, before + 1, f"{error} in the row that starts here{hint}")


def _whole(stream: TextIO) -> Iterator[str]:
    """The lines that have an end, as UTF-8."""
    for line in stream:
        if line.endswith(("\n", "\r")):
            yield line if line.isascii() else line.encode("utf-8", "surrogateescape").decode("utf-8")


def open_sheet(path: Path, is_known: Callable[[str], bool], sheet: str | None = None) -> Sheet:
    """The table in a file; `is_known` says whether a header may hold a name, `sheet` is one of a workbook."""
    if path.suffix.lower() == EXCEL:
        from conrl.io.workbooks import open_workbook

        return open_workbook(path, sheet, is_known)
    check_text(path)
    return open_csv(path, is_known)


def open_csv(path: Path, is_known: Callable[[str], bool]) -> CsvSheet:
    """A text file with its dialect, as its first lines tell it."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        said = _SEP.fullmatch(stream.readline(20))
    head = 1 if said else 0
    found = [CsvSheet(path, separator, True, head) for separator in (said[1] if said else SEPARATORS)]
    known = [_known(sheet.header(), is_known) for sheet in found]
    if max(known) < FEW_NAMES:
        for sheet in found:
            check_header(sheet._replace(strict=False), is_known)
    best = found[known.index(max(known))]._replace(skip_blanks=False)
    names = best.header()
    return best._replace(skip_blanks=len(names) > 1 and all(name.startswith(" ") for name in names[1:]))


def _known(row: Iterable[Cell], is_known: Callable[[str], bool]) -> int:
    """How many names of a row may stand in a header."""
    return sum(is_known(name) for name in set(map(str, row)))


def has_header(sheet: Sheet, is_known: Callable[[str], bool]) -> bool:
    """Whether the first row of a table, or one a little below it, is a header."""
    with suppress(ModelError):
        return any(_known(row, is_known) >= FEW_NAMES for _, row in islice(sheet.rows(), ABOVE))
    return False


def check_header(sheet: Sheet, is_known: Callable[[str], bool]) -> None:
    """Refuse a table that has something else above its header."""
    with suppress(BrokenRow):  # whoever reads the rows says so
        top = 0
        for line, row in islice(sheet.rows(), ABOVE):
            top = top or line
            if _known(row, is_known) >= FEW_NAMES:
                if line > top:
                    names = ", ".join(str(cell) for cell in row if str(cell).strip())
                    raise ModelError(
                        f"{sheet.label}, line {top}: this is no header, but line {line} is ({names[:MOST_SHOWN]}); "
                        "delete what is above it"
                    )
                return


def chunks(sheet: Sheet, size: int = CHUNK) -> Iterator[list[Row]]:
    """The rows below the header, some at a time: held as texts, all of them would take ten times the memory."""
    rows = islice(sheet.rows(), 1, None)
    while True:
        chunk: list[Row] = []
        try:
            chunk.extend(islice(rows, size))
        except BrokenRow:
            if chunk:  # what stands above it
                yield chunk
            raise
        if not chunk:
            return
        yield chunk


def decimal_mark(sheet: Sheet, width: int, numbers: Sequence[int], share: int = -1) -> tuple[str | None, str]:
    """The decimal mark of the columns `numbers`, of which `share` has probabilities; or None and why there is none."""
    marks = Marks()
    with suppress(BrokenRow):  # whoever reads the rows says so
        for chunk in chunks(sheet):
            lines = [line for line, _ in chunk]
            cells = list(zip(*(resized(row, width) for _, row in chunk), strict=True))
            for at in numbers:
                marks.note(cells[at], lines, at == share)
    return marks.decide(sheet.by_commas)


def split_sheet(name: str) -> tuple[str, str | None]:
    """The file and the sheet that a name stands for.

    >>> split_sheet("model.xlsx#Costs"), split_sheet("model#2.csv")
    (('model.xlsx', 'Costs'), ('model#2.csv', None))
    """
    cut = name.lower().rfind(f"{EXCEL}#")
    return (name, None) if cut < 0 else (name[: cut + len(EXCEL)], name[cut + len(EXCEL) + 1 :])


def check_text(path: Path, remedy: str = "save the file as CSV UTF-8") -> None:
    """Refuse what is not UTF-8 text before anything makes sense of it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with path.open("rb") as stream:
        begin = stream.read(4)
        if begin == b"PK\x03\x04":
            stop(path, 1, "this is an Excel workbook or another zip archive; call it .xlsx, or export it as CSV")
        if begin[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            stop(path, 1, "this is UTF-16, which Excel calls Unicode text; save the file as CSV UTF-8")
        stream.seek(0)
        while block := stream.read(2**20):
            if b"\0" in block:
                stop(path, line + block[: block.index(b"\0")].count(b"\n"), f"a NUL byte; {remedy}")
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                # `error.object` starts with the few bytes kept from the block before; none of them is a newline.
                line += bytes(error.object[: error.start]).count(b"\n")
                stop(path, line, f"byte 0x{error.object[error.start]:02x} is not UTF-8; {remedy}")
            line += block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        stop(path, line, "the file ends within a UTF-8 character")


def stop(label: Path | str, line: int, what: str) -> NoReturn:
    raise BrokenRow(label, line, what)


def cost_in(column: str) -> str | None:
    """The name of the cost that a column holds, as it is written; None if it holds none.

    >>> cost_in("cost_fuel"), cost_in("Cost Fuel"), cost_in("costs")
    ('fuel', 'Fuel', None)
    """
    found = _COST.match(column)
    return column[found.end() :] if found else None


def plain(name: Cell) -> str:
    """The name of a column as one compares it: capitals, blanks, hyphens and a colon at the end do not count.

    >>> plain(" Next State "), plain("State:")
    ('next_state', 'state')
    """
    return re.sub(r"[\s_-]+", "_", str(name).strip().removesuffix(":").rstrip().lower())


def fits(row: list[Cell], width: int, optional: int) -> bool:
    """Whether a row has a cell for every column: one too many may be empty, the last `optional` ones may be missing."""
    return width - optional <= len(row) and not any(_is_filled(cell) for cell in row[width:])


def misfit(row: Sequence[Cell], width: int) -> str:
    """What to say of a row with too few or too many cells."""
    fields = f"{counted(len(row), 'field')}; the header has {width}"
    hint = " (if commas are decimal, separate the columns by semicolons; put quotes around texts with commas)"
    short = "; if it is a total or a note, delete it" if len(row) == 1 else ""
    return fields + hint * (len(row) > width) + short


def _is_filled(cell: Cell) -> bool:
    return not isinstance(cell, str) or bool(cell.strip())


def resized(row: Iterable[Cell], width: int) -> list[Cell]:
    """As many cells as there are columns."""
    cells = list(row)[:width]
    return [*cells, *[""] * (width - len(cells))]

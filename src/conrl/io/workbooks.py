"""Excel workbooks (`.xlsx`) as tables of cells, in and out, by openpyxl: `pip install 'conrl[excel]'`.

`model.xlsx` is its first sheet, `model.xlsx#Costs` the sheet of that name. Values are read, not formulas: a formula
has the value that the program which saved the file worked out, and without one it is refused. The line of a message is
the row of the sheet.

A workbook is a zip archive of XML. Before openpyxl sees it: it is as large as it claims and no more than
`conrl.sizes` allows, it declares no entities, and its rows and cells are counted while they are read.
"""

from __future__ import annotations

import datetime
import math
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from conrl.errors import ModelError, shown, unknown
from conrl.io.cells import to_cell
from conrl.io.csv_files import table_of
from conrl.io.files import about, atomic_write, check_entry
from conrl.io.numerals import Cell
from conrl.io.sheets import CHUNK, BrokenRow, Row, check_header, has_header, stop
from conrl.model import ConstrainedMDP
from conrl.sizes import COMPARABLE, MAX_ARCHIVE, most

MAX_ROWS, MAX_COLUMNS = 2**20, 2**14  # of a sheet, in Excel
MAX_CELLS = 5 * 10**7  # that rows are filled up to
MOST_SHEETS = 20  # in which a table is looked for
MAX_TEXT = 32_767  # letters of a cell, in Excel
BLOCK = 2**20
# What XML cannot hold, or does not give back: control characters, and codes that Excel takes for some.
_LOST = re.compile(r"[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]|_x[0-9a-fA-F]{4}_")


class Workbook(NamedTuple):
    """A sheet of a workbook."""

    path: Path
    sheet: str
    label: str
    formulas: bool  # whether it has any

    @property
    def by_commas(self) -> bool:
        return False

    def rows(self) -> Iterator[Row]:
        with self.path.open("rb") as handle, self.path.open("rb") as again:
            values = self._cells(handle, data_only=True)
            if self.formulas:
                values = self._computed(values, self._cells(again, data_only=False))
            rows = self._filled(values)
            broken: BrokenRow | None = None
            while broken is None:
                some: list[Row] = []
                try:
                    with _damage(self.path):  # nothing is yielded in here: it silences all warnings
                        some.extend(islice(rows, CHUNK))
                except BrokenRow as error:
                    broken = error
                yield from some
                if not some and broken is None:
                    return
            raise broken

    def _cells(self, handle: Any, data_only: bool) -> Iterator[tuple[Any, ...]]:
        """Every row of the sheet as openpyxl has it, while there are not too many."""
        book = _loaded(self.path, handle, data_only)
        sheet = book[self.sheet]
        sheet.reset_dimensions()  # what a file claims is not trusted
        cells = 0
        for line, row in enumerate(sheet.iter_rows(), 1):
            cells += len(row)
            if line > MAX_ROWS or cells > MAX_CELLS:
                raise ModelError(f"{self.label}: more than {MAX_ROWS:,} rows or {MAX_CELLS:,} cells; save it as CSV")
            yield row

    def _computed(self, values: Iterator[Any], written: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
        """The values, once every formula has one."""
        for line, (row, texts) in enumerate(zip(values, written, strict=True), 1):
            for cell, text in zip(row, texts, strict=True):
                if text.data_type == "f" and cell.value is None:
                    remedy = "open the file in Excel and save it, or export it as CSV"
                    stop(self.label, line, f"the formula in {text.coordinate} has no value; {remedy}")
            yield row

    def _filled(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[Row]:
        width = 0
        for line, row in enumerate(rows, 1):
            cells = [_shown(cell.value) for cell in row]
            while cells and (isinstance(cells[-1], str) and not cells[-1].strip()) and len(cells) > width:
                cells.pop()  # formatted, and empty
            if any(not isinstance(cell, str) or cell.strip() for cell in cells):
                width = width or len(cells)
                yield line, cells + [""] * (width - len(cells))


def _shown(value: Any) -> Cell:
    """A number as it is, anything else as a text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (int, float)):
        return value if abs(value) <= sys.float_info.max else math.inf  # a whole number of any length
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    return str(value)


def open_workbook(path: Path, sheet: str | None, is_known: Callable[[str], bool]) -> Workbook:
    """A sheet of a workbook, the first unless it is named; `is_known` says whether a header may hold a name."""
    with path.open("rb") as handle, _damage(path):
        with about(path):
            formulas = _check_archive(handle)
        book = _loaded(path, handle)
        names = [one.title for one in book.worksheets]
    if not names:
        raise ModelError(f"{path}: it has no sheet with cells")
    if sheet is not None and sheet not in names:
        raise ModelError(f"{path}: {unknown('sheet', sheet, names)}")
    label = str(path) if sheet is None else f"{path}#{sheet}"
    found = Workbook(path, names[0] if sheet is None else sheet, label, formulas)
    check_header(found, is_known)
    if sheet is None and len(names) > 1 and not has_header(found, is_known):
        others = [Workbook(path, name, f"{path}#{name}", formulas) for name in names[1:MOST_SHEETS]]
        better = next((other.label for other in others if has_header(other, is_known)), f"{path}#{names[1]}")
        told = f"its first sheet, {names[0]!r}, was read, and has no header of a table; it has {len(names)} sheets"
        raise ModelError(f"{path}: {told}: name one, such as {better}")
    return found


def _loaded(path: Path, handle: Any, data_only: bool = False) -> Any:
    """The workbook as openpyxl reads it; a sheet for a chart may be empty."""
    reader = _openpyxl(path).reader.excel.ExcelReader(handle, read_only=True, data_only=data_only, keep_links=False)
    read_chart = reader.read_chartsheet

    def read_chartsheet(sheet: Any, place: Any) -> None:
        with suppress(AttributeError):  # openpyxl looks for the chart, and by then has noted the sheet
            read_chart(sheet, place)

    reader.read_chartsheet = read_chartsheet
    reader.read()
    return reader.wb


def _openpyxl(path: Path) -> Any:
    try:
        import openpyxl
    except ImportError as error:
        told = "Excel workbooks need the extra: pip install 'conrl[excel]', or export the sheet as CSV"
        raise ModelError(f"{path}: {told} ({error})") from None
    return openpyxl


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """One line for whatever zipfile, the XML parser and openpyxl raise on damaged bytes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions that do not matter here
            yield
    except (ModelError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(f"{path}: not a readable Excel workbook: {shown(str(error), 200)}") from None


def _check_archive(handle: Any) -> bool:
    """Refuse an archive that would take too much, or whose XML declares anything; whether a sheet has formulas."""
    size = os.fstat(handle.fileno()).st_size
    formulas = False
    with zipfile.ZipFile(handle) as archive:
        entries = archive.infolist()
        for entry in entries:
            check_entry(entry.filename, entry, size)
        needed, bound = sum(entry.file_size for entry in entries), most("CONRL_MAX_ARCHIVE", MAX_ARCHIVE)
        if needed > max(bound, COMPARABLE * size):
            raise ModelError(
                f"it would take {needed:,} bytes from a file of {size:,}; at most {bound:,}, or {COMPARABLE} times the "
                "file, are read: export the sheet as CSV, or set CONRL_MAX_ARCHIVE"
            )
        for entry in entries:
            if entry.filename.lower().endswith((".xml", ".rels")):
                formulas |= _check_xml(archive, entry)
    handle.seek(0)
    return formulas


def _check_xml(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bool:
    """Refuse XML that declares entities, which can grow without end; whether it holds a formula."""
    formulas, kept = False, b""
    with archive.open(entry) as stream:
        while block := stream.read(BLOCK):
            text = kept + block.replace(b"\0", b"")  # UTF-16 has one beside each letter of a tag
            if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
                raise ModelError(f"its part {entry.filename} declares a document type, which no workbook does")
            formulas |= b"<f>" in text or b"<f " in text or b"<f/" in text or b":f>" in text or b":f " in text
            kept = text[-16:]
    return formulas


def save_workbook(path: Path, mdp: ConstrainedMDP, sheet: str | None) -> None:
    """The table as the only sheet of a workbook: names as texts, numbers as numbers."""
    header, rows = table_of(path, mdp)
    openpyxl = _openpyxl(path)
    for name in (*mdp.state_names, *mdp.action_names, *header):
        if len(name) > MAX_TEXT - 9 or _LOST.search(name):
            raise ModelError(f"{path}: a workbook cannot keep the name {shown(name)}; save it as .csv or .npz")
    count = int(mdp.graph.probability.size)
    if count >= MAX_ROWS or len(header) > MAX_COLUMNS:
        raise ModelError(
            f"{path}: {count:,} rows and {len(header):,} columns; a sheet has at most {MAX_ROWS:,} and {MAX_COLUMNS:,}"
        )
    book = openpyxl.Workbook(write_only=True)
    try:
        page = book.create_sheet(sheet or "model")
    except ValueError as error:
        raise ModelError(f"{path}: no sheet can be called {shown(sheet)}: {error}") from None
    page.append([to_cell(name) for name in header])
    for row in rows:
        page.append([_exactly(openpyxl, page, x) if isinstance(x, float) else x for x in row])
    with atomic_write(path) as handle:
        book.save(handle)


def _exactly(openpyxl: Any, page: Any, number: float) -> Any:
    """A cell with the digits that read back as the same number, up to 17; openpyxl by itself writes 16."""
    cell = openpyxl.cell.WriteOnlyCell(page, repr(number))
    cell.data_type = "n"
    return cell

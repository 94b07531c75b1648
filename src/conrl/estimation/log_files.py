"""Reading tables of logged steps from `.csv`, `.npz` and `.parquet`. Polars is loaded only for Parquet."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from conrl._types import Array, Bool, Float, Int
from conrl.errors import ModelError, SpecError, shown
from conrl.estimation.log_columns import COLUMNS, NAMED, Asked, choose, is_known, is_numeric, is_pay
from conrl.estimation.log_tables import EXACT, SHOWN, Column, Table, Texts, roles_of
from conrl.io.cells import from_cell
from conrl.io.codes import Codes
from conrl.io.cut_rows import cut_rows
from conrl.io.files import NUMBER, about, read_npz
from conrl.io.mistakes import WHOLE, Mistakes
from conrl.io.numerals import Cell, OddNumber, plain_numbers, read_number, written_numbers
from conrl.io.sheets import COST, BrokenRow, Sheet, check_text, chunks, decimal_mark, misfit, open_csv
from conrl.sizes import COMPARABLE, MAX_ARCHIVE, most
from conrl.wording import cut

_CHUNK = 500  # rows of a CSV file that are held as text at a time: what fits a cache is read twice as fast


def read_table(path: Path, asked: Asked, growing: bool = False) -> Table:
    """The table in a file, by its suffix; of a CSV file that is `growing` without a last line that has no end."""
    readers = {".csv": _read_csv, ".npz": _read_npz, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ModelError(f"{path}: a log is read from .csv, .npz or .parquet")
    if growing and reader is _read_csv:
        return _read_csv(path, asked, is_unfinished(path))
    return reader(path, asked)


def is_unfinished(path: Path) -> bool:
    """Whether the last line of a text file has no end: it may be cut anywhere, also inside a number."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if not size:
            return False
        file.seek(size - 1)
        return file.read(1) not in (b"\n", b"\r")


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Put the place in front of what is said about the names of columns."""
    try:
        yield
    except (ModelError, SpecError) as error:
        raise type(error)(f"{place}: {error}", key=error.key) from None


def _read_csv(path: Path, asked: Asked, cut_off: bool = False) -> Table:
    """A CSV file as a table of numbered names and numbers, in blocks of rows."""
    try:
        theirs = asked.columns.values()
        sheet = open_csv(path, lambda name: is_known(name) or name.strip() in theirs)._replace(whole_lines=cut_off)
        line, header = next(sheet.rows(), (0, None))
        if header is None:
            raise ModelError(f"{path}: the file is empty; expected a header {','.join(COLUMNS)},{COST}<name>...")
        names = [str(name) for name in header]
        with _at(f"{path}, line {line}"):
            chosen = choose(names, asked)
        table = None
        if sheet.by_commas:
            with suppress(OddNumber):
                table = _read_rows(sheet, len(names), chosen, plain_numbers, Mistakes(path))
        if table is None:
            mistakes = Mistakes(path)
            mark, why = decimal_mark(sheet, len(names), [at for name, at in chosen.items() if is_numeric(name)])
            if why:
                mistakes.add(WHOLE, why)
            table = _read_rows(sheet, len(names), chosen, lambda cells: written_numbers(cells, mark), mistakes)
            table = replace(table, read=lambda text: read_number(text, mark))
        for at, what in cut_rows(sheet, roles_of(names, chosen, table)):
            table.mistakes.add(at, what)
        return replace(table, unfinished=int(cut_off))
    except UnicodeDecodeError as error:
        check_text(path)  # says on which line
        raise ModelError(f"{path}: {error}") from None


def _read_rows(
    sheet: Sheet,
    width: int,
    chosen: Mapping[str, int],
    numbers: Callable[[Sequence[Cell]], Float],
    mistakes: Mistakes,
) -> Table:
    """The columns of a log; `numbers` reads rewards and costs."""
    codes = {name: Codes(from_cell if name in NAMED else str.strip) for name in chosen if not is_pay(name)}
    parts: dict[str, list[Array]] = {name: [np.zeros(0, np.int64 if name in codes else np.float64)] for name in chosen}
    lines: list[Int] = [np.zeros(0, dtype=np.int64)]
    sound: list[Bool] = [np.zeros(0, dtype=bool)]
    lost: list[str | None] = []
    try:
        for chunk in chunks(sheet, _CHUNK):
            rows: Any = [row for _, row in chunk]  # of texts: it is no workbook
            if set(map(len, rows)) != {width}:
                for line, row in chunk:
                    if len(row) != width:
                        mistakes.add(line, misfit(row, width))
                        lost.append(str(row[chosen["episode"]]) if len(row) > chosen["episode"] else None)
                chunk = [(line, row) for line, row in chunk if len(row) == width]
                rows = [row for _, row in chunk]
                if not rows:
                    continue
            lines.append(np.array([line for line, _ in chunk], dtype=np.int64))
            sound.append(np.ones(len(rows), dtype=bool))
            columns = list(zip(*rows, strict=True))
            for name, at in chosen.items():
                cells = columns[at]
                if name in codes:
                    parts[name].append(codes[name].of(cells))
                    continue
                values = numbers(cells)
                if not np.isfinite(values).all():
                    _refuse(name, cells, values, lines[-1], sound[-1], mistakes)
                parts[name].append(values)
    except BrokenRow as error:  # nothing can be said about what follows
        mistakes.add(*error.where[1:])
        lost.append(None)
    table: dict[str, Column] = {}
    for name, arrays in parts.items():
        column = np.concatenate(arrays)
        table[name] = Texts(tuple(codes[name].number), column) if name in codes else column
    return Table(mistakes, table, np.concatenate(lines), np.concatenate(sound), tuple(lost))


def _refuse(name: str, cells: Sequence[str], values: Float, lines: Int, sound: Bool, mistakes: Mistakes) -> None:
    """Name the cells that are no finite numbers, and put 0 in their place."""
    bad = np.flatnonzero(~np.isfinite(values))

    def tell(i: int) -> str:
        text = cells[bad[i]].strip()
        number = read_number(text, None)
        what = f"{shown(text)}, not a number" if number is None else f"{cut(text, SHOWN)}; it must be a finite number"
        return f"{name} is {what}"

    mistakes.add_alike(name, lines[bad], tell)
    sound[bad] = False
    values[bad] = 0.0


def _read_npz(path: Path, asked: Asked) -> Table:
    with about(path):
        arrays = read_npz(path, lambda names, read: None)
    with _at(str(path)):
        chosen = choose(list(arrays), asked)
        every = list(arrays.values())
        sizes = {every[at].shape for at in chosen.values()}
        if len(sizes) != 1 or len(next(iter(sizes))) != 1:
            raise ModelError("the columns of a log are lists of one length")
    columns = {name: _column(every[at]) for name, at in chosen.items()}
    return _numbered(path, columns, next(iter(sizes))[0])


def _numbered(path: Path, columns: Mapping[str, Column], rows: int) -> Table:
    """A table of a file that has no lines: its rows count from 1."""
    return Table(Mistakes(path, "row"), columns, np.arange(1, rows + 1), np.ones(rows, dtype=bool))


def _column(array: Array) -> Column:
    if array.dtype.kind == "S":
        return Texts.of([text.decode("utf-8", "backslashreplace") for text in array.tolist()])
    return Texts.of(list(map(str, array.tolist()))) if array.dtype.kind == "O" else array


# -- Parquet --------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, asked: Asked) -> Table:
    pl = _import_polars(path)
    data = path.read_bytes()  # a file that is mapped and then cut by others would end the process
    if len(data) < 12 or data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise ModelError(f"{path}: not a Parquet file, or only a part of one")
    with _parquet(path):
        schema = pl.read_parquet_schema(io.BytesIO(data))
    timed = {i for i, kind in enumerate(schema.values()) if kind.is_temporal()}
    with _at(str(path)):
        chosen = choose(list(schema), asked, timed)
        names = {name: list(schema)[at] for name, at in chosen.items()}
        for name, column in names.items():
            _check_kind(pl, name, column, schema[column])
    with _parquet(path):
        rows = int(pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item())
        _check_claim(rows, len(chosen), len(data))
        frame = pl.read_parquet(io.BytesIO(data), columns=list(names.values()))
    columns = {name: _series(pl, name, frame[column]) for name, column in names.items()}
    return _numbered(path, columns, frame.height)


def _import_polars(path: Path) -> Any:
    try:
        import polars
    except ImportError as error:
        told = "Parquet needs the extra: pip install 'conrl[report]', or save the log as CSV"
        raise ModelError(f"{path}: {told} ({error})") from None
    return polars


@contextmanager
def _parquet(path: Path) -> Iterator[None]:
    """One line for whatever Polars raises on damaged bytes."""
    try:
        yield
    except MemoryError:
        raise
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except BaseException as error:
        # What fails in Rust is no `Exception`, and its class has no name that can be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"{path}: not a readable Parquet file: {cut(error, 200)}") from None


def _check_kind(pl: Any, name: str, column: str, kind: Any) -> None:
    """Refuse what is neither numbers nor texts; a day may be the name of something."""
    plain = kind.is_numeric() or kind in (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null)
    if not plain and not (name in NAMED and kind in (pl.Date, pl.Datetime, pl.Time)):
        called = f"column {column!r}" + ("" if column == name else f" ({name})")
        raise ModelError(f"{called} is of type {kind}; expected numbers or texts")


def _check_claim(rows: int, columns: int, size: int) -> None:
    """Refuse a small file that claims to hold a very long table, before memory is taken for it."""
    needed, bound = rows * columns * NUMBER, most("CONRL_MAX_ARCHIVE", MAX_ARCHIVE)
    if needed > max(bound, COMPARABLE * size):
        raise ModelError(
            f"its {rows:,} rows would take {needed:,} bytes from a file of {size:,}; at most {bound:,}, or "
            f"{COMPARABLE} times the file, are read: save the log as CSV, or set CONRL_MAX_ARCHIVE"
        )


def _series(pl: Any, name: str, series: Any) -> Column:
    if series.null_count():
        series = series.cast(pl.String).fill_null("")
    kind = series.dtype
    if name == "episode" and kind.is_integer() and series.len() and _is_long(series):
        series = series.cast(pl.String)
    elif kind.is_decimal() or str(kind).endswith("Int128"):  # numpy has none of these
        series = series.cast(pl.Float64)
    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        array: Array = series.to_numpy()
        return array
    series = series.cast(pl.String)
    distinct = series.unique(maintain_order=True)  # each once, however often a text of a megabyte occurs
    code: Int = series.cast(pl.Enum(distinct)).to_physical().to_numpy().astype(np.int64)
    return Texts(tuple(distinct.to_list()), code)


def _is_long(series: Any) -> bool:
    """Whether doubles do not tell all of these whole numbers apart; as ids they are texts."""
    return max(abs(int(series.min())), abs(int(series.max()))) >= EXACT

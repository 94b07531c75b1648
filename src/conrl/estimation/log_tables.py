"""Tables of logged steps as they stand in files: which column is which, and what its cells say.

`read_table` reads `.csv`, `.npz` and `.parquet`. A column of numbers is an array, any other one is `Texts`. Whatever is
wrong with a cell is said with its line, or with its row (from 1) where a file has no lines. Polars is loaded only for
Parquet.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from conrl._types import Array, Bool, Float, Int
from conrl.errors import ModelError, SpecError, shown, unknown
from conrl.io import csv_files
from conrl.io.cells import from_cell
from conrl.io.files import NUMBER, about, read_npz
from conrl.sizes import COMPARABLE, MAX_ARCHIVE, check_costs, most

COLUMNS = ("episode", "step", "state", "action", "reward", "next_state")
REQUIRED = tuple(name for name in COLUMNS if name != "step")
KNOWN = (*COLUMNS, "terminated")
COST = "cost_"

_TIMES = ("timestamp", "time", "date", "datetime")
_TIME_ENDS = ("_at", "_time", "_date", "_timestamp")
_NAMED = {"episode", "state", "action", "next_state"}  # what may be texts
_FLAGS = {"": False, "false": False, "no": False, "true": True, "yes": True}
_CHUNK = 500  # rows of a CSV file that are held as text at a time: what fits a cache is read twice as fast
_EXACT = 2**53  # a whole number from here on may have been rounded when it became a double
_INDICES = 2**31
_OPTIONS = 1_000  # columns of a file among which a misspelt one is looked for


class Texts(NamedTuple):
    """A column of texts: the different ones by first appearance, and which of them each row has."""

    distinct: tuple[str, ...]
    code: Int

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        codes = _Codes(str)
        code = codes.of(texts)
        return cls(tuple(codes.number), code)

    def first(self, k: int) -> int:
        """The first row that has the k-th text."""
        return int(np.argmax(self.code == k))


Column = Texts | Array


class _Codes(dict[str, int]):
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
    lines: bool

    def place(self, row: int) -> str:
        return f"line {csv_files._line(self.path, row)}" if self.lines else f"row {row + 1}"

    def stop(self, row: int, what: str) -> NoReturn:
        raise ModelError(f"{self.path}, {self.place(row)}: {what}")


# -- which column is which ------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """What somebody said about the columns of a file."""

    columns: dict[str, str]  # the file's name of some of ours
    ignored: tuple[str, ...]
    rest: bool  # all that are not known are ignored


def read_asked(columns: Any, ignore: Any) -> Asked:
    """The arguments `columns` and `ignore`, once they make sense whatever the file."""
    if columns is not None and not isinstance(columns, Mapping):
        raise SpecError(
            f"columns is {shown(columns)}; expected a mapping from names of a log to columns of the file",
            key=("columns",),
        )
    ours: dict[str, str] = {}
    for name, column in (columns or {}).items():
        key = ("columns", name if isinstance(name, str) else shown(name))
        if name not in KNOWN and not (isinstance(name, str) and name.startswith(COST) and name != COST):
            raise SpecError(unknown("column", name, [*KNOWN, f"{COST}<name>"]), key=key)
        if not isinstance(column, str):
            raise SpecError(f"columns[{name!r}] is {shown(column)}; expected the name of a column", key=key)
        if column.strip() in ours:
            raise SpecError(f"column {column!r} is mapped twice, as {ours[column.strip()]} and as {name}", key=key)
        ours[column.strip()] = name
    ignored = _read_ignored(ignore)
    for column in ignored:
        if column in ours:
            raise SpecError(f"column {column!r} is ignored and mapped as {ours[column]}", key=("ignore", column))
    return Asked({name: column for column, name in ours.items()}, ignored, "*" in ignored)


def _read_ignored(ignore: Any) -> tuple[str, ...]:
    try:
        names = (ignore,) if isinstance(ignore, str) else tuple(ignore)
    except TypeError:
        names = (None,)
    if not all(isinstance(name, str) for name in names):
        raise SpecError(f"ignore is {shown(ignore)}; expected names of columns, or '*' for all others", key=("ignore",))
    return tuple(name.strip() for name in names)


def choose(given: Sequence[str], asked: Asked, timed: Collection[int] = ()) -> dict[str, int]:
    """Which column of a file is which of ours, in the order of the file; `timed` hold times by their type."""
    names = [name.strip() for name in given]
    _check_asked(names, asked)
    ours = {column: name for name, column in asked.columns.items()}
    chosen: dict[str, int] = {}
    for i, column in enumerate(names):
        name = ours.get(column) or _our_name(column)
        if column in asked.ignored or (name is None and (i in timed or _is_time(column))):
            continue
        if asked.rest and (name is None or asked.columns.get(name, column) != column):
            continue
        if name is None:
            raise ModelError(_unknown_column(column, len(names)))
        if asked.columns.get(name, column) != column:
            raise SpecError(
                f"column {asked.columns[name]!r} is mapped as {name}, and there is a column {column!r}; "
                f"ignore that: ignore=[{column!r}]",
                key=("columns", name),
            )
        if name in chosen:
            raise ModelError(_both(names[chosen[name]], column, name))
        chosen[name] = i
    for name in REQUIRED:
        if name not in chosen:
            raise ModelError(
                f"no column {name!r}; a log has {', '.join(REQUIRED)} and {COST}<name>. "
                f"If it is called otherwise, map it: columns={{{name!r}: ...}}"
            )
    check_costs(sum(name.startswith(COST) for name in chosen))
    return chosen


def _check_asked(names: list[str], asked: Asked) -> None:
    """Refuse what somebody said about columns that are not there."""
    there = set(names)
    for name, column in asked.columns.items():
        if column not in there:
            raise SpecError(unknown("column", column, names[:_OPTIONS]), key=("columns", name))
    for column in asked.ignored:
        if column not in there and column != "*":
            raise SpecError(unknown("column", column, names[:_OPTIONS]), key=("ignore", column))


def _our_name(column: str) -> str | None:
    """The name of ours that a column has, in capitals or not; a cost keeps the case of its own."""
    if column[: len(COST)].lower() == COST:
        return COST + column[len(COST) :]
    return name if (name := column.lower()) in KNOWN else None


def _is_time(column: str) -> bool:
    return column.lower() in _TIMES or column.lower().endswith(_TIME_ENDS)


def _unknown_column(column: str, count: int) -> str:
    apart = next((c for c in ";\t" if c in column), None)
    if apart and count == 1:
        return f"one column {shown(column)}; columns are separated by commas, not by {apart!r}"
    told = unknown("column", column, [*KNOWN, f"{COST}<name>"])
    told += " " if told.endswith("?") else ". "
    return f"{told}Map it with columns={{...: {shown(column)}}}, or ignore it with ignore=[{shown(column)}]"


def _both(one: str, two: str, name: str) -> str:
    if one == two:
        return f"column {one!r} is there twice; rename one"
    return f"columns {one!r} and {two!r} are both {name!r}; ignore one: ignore=[{two!r}]"


# -- cells ----------------------------------------------------------------------------------------------------


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
                if fault := _fault(text):
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
        bad = np.flatnonzero((values != np.floor(values)) | (np.abs(values) >= _EXACT))
        if bad.size:
            row = int(bad[0])
            size = f" of less than {_EXACT:,} in size" if abs(values[row]) >= _EXACT else ""
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
        whole = (column == np.floor(column)).all() and (np.abs(column) < _EXACT).all()
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
                    self.source.stop(column.first(k), f"{what} {_cut(str(index))} is not an index")
            return np.array(each, dtype=np.int64)[column.code]
        bad = np.flatnonzero((column < 0) | (column >= _INDICES))
        if bad.size:
            self.source.stop(int(bad[0]), f"{what} {column[bad[0]]} is not an index")
        return column.astype(np.int64)

    def _cell(self, name: str, row: int) -> str:
        column = self.columns[name]
        return _cut(column.distinct[column.code[row]]) if isinstance(column, Texts) else str(column[row])


def _fault(text: str) -> str:
    """What is wrong with a number, or nothing."""
    try:
        return "" if math.isfinite(float(text)) else f"{_cut(text)}; it must be a finite number"
    except ValueError:
        return f"{shown(text)}, not a number"


def _cut(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _flag(text: str) -> bool | None:
    try:
        return {0.0: False, 1.0: True}.get(float(text))
    except ValueError:
        return _FLAGS.get(text.strip().lower())


def _is_id(text: str) -> bool:
    """Whether it is a name and no number: also a row of digits that is too long for a double."""
    try:
        return abs(float(text)) >= _EXACT and _has_digits_only(text)
    except ValueError:
        return True


def _has_digits_only(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit()


def _is_whole(column: Column) -> bool:
    if isinstance(column, Texts):  # Python reads no number of more than some thousand digits
        return all(_has_digits_only(text) and len(text) < 4000 for text in column.distinct)
    return column.dtype.kind in "iu"


# -- files ----------------------------------------------------------------------------------------------------


def read_table(path: Path, asked: Asked) -> Table:
    """The table in a file, by its suffix."""
    readers = {".csv": _read_csv, ".npz": _read_npz, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ModelError(f"{path}: a log is read from .csv, .npz or .parquet")
    return reader(path, asked)


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Put the place in front of what is said about the names of columns."""
    try:
        yield
    except (ModelError, SpecError) as error:
        raise type(error)(f"{place}: {error}", key=error.key) from None


def _read_csv(path: Path, asked: Asked) -> Table:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = filter(None, csv.reader(file, strict=True))  # blank lines are empty rows
        try:
            header = next(rows, None)
            if header is None:
                raise ModelError(f"{path}: the file is empty; expected a header {','.join(COLUMNS)},{COST}<name>...")
            with _at(f"{path}, line {csv_files._line(path, -1)}"):
                chosen = choose(header, asked)
            return _read_rows(Source(path, lines=True), rows, len(header), chosen)
        except csv.Error as error:
            raise ModelError(f"{path}, line {csv_files._line(path)}: {error} in the row that starts here") from None
        except UnicodeDecodeError as error:
            csv_files._check_text(path)  # says on which line
            raise ModelError(f"{path}: {error}") from None


def _read_rows(source: Source, rows: Iterator[list[str]], width: int, chosen: Mapping[str, int]) -> Table:
    """Some rows at a time: held as texts, all of them would take ten times the memory and longer."""
    codes = {
        name: _Codes((lambda cell: from_cell(cell.strip())) if name in _NAMED else str.strip)
        for name in chosen
        if name != "reward" and not name.startswith(COST)
    }
    parts: dict[str, list[Array]] = {name: [np.zeros(0, np.int64 if name in codes else np.float64)] for name in chosen}
    seen = 0
    while chunk := list(islice(rows, _CHUNK)):
        if set(map(len, chunk)) != {width}:
            bad = next(i for i, row in enumerate(chunk) if len(row) != width)
            fields = f"{len(chunk[bad])} field{'s' * (len(chunk[bad]) != 1)}"
            source.stop(seen + bad, f"{fields}; the header has {width}")
        columns = list(zip(*chunk, strict=True))
        for name, at in chosen.items():
            cells = columns[at]
            parts[name].append(codes[name].of(cells) if name in codes else _floats(source, name, cells, seen))
        seen += len(chunk)
    table: dict[str, Column] = {}
    for name, arrays in parts.items():
        column = np.concatenate(arrays)
        table[name] = Texts(tuple(codes[name].number), column) if name in codes else column
    return Table(source, table, seen)


def _floats(source: Source, name: str, cells: Sequence[str], seen: int) -> Float:
    """Parsed all at once; if one is wrong, the first such is named."""
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        values = np.full(1, np.nan)
    if not np.isfinite(values).all():
        row, fault = next((i, fault) for i, cell in enumerate(cells) if (fault := _fault(cell.strip())))
        source.stop(seen + row, f"{name} is {fault}")
    return values


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
    return Table(Source(path, lines=False), columns, next(iter(sizes))[0])


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
    source = Source(path, lines=False)
    columns = {name: _series(pl, source, name, frame[column]) for name, column in names.items()}
    return Table(source, columns, frame.height)


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
        raise ModelError(f"{path}: not a readable Parquet file: {_cut(' '.join(str(error).split()), 200)}") from None


def _check_kind(pl: Any, name: str, column: str, kind: Any) -> None:
    """Refuse what is neither numbers nor texts; a day may be the name of something."""
    plain = kind.is_numeric() or kind in (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null)
    if not plain and not (name in _NAMED and kind in (pl.Date, pl.Datetime, pl.Time)):
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


def _series(pl: Any, source: Source, name: str, series: Any) -> Column:
    if series.null_count():
        if name != "terminated":
            source.stop(int(series.is_null().arg_max()), f"{name} is missing")
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
    return max(abs(int(series.min())), abs(int(series.max()))) >= _EXACT

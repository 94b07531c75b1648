"""Which column of a log file is which: by name, by what somebody said, or left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from conrl.errors import ModelError, SpecError, shown, unknown
from conrl.io.sheets import COST, NOTES, cost_in, plain
from conrl.sizes import check_costs

COLUMNS = ("episode", "step", "state", "action", "reward", "next_state")
REQUIRED = tuple(name for name in COLUMNS if name != "step")
KNOWN = (*COLUMNS, "terminated")
NAMED = {"episode", "state", "action", "next_state"}  # what may be texts

_TIMES = ("timestamp", "time", "date", "datetime")
_TIME_ENDS = ("_at", "_time", "_date", "_timestamp")
_OPTIONS = 1_000  # columns of a file among which a misspelt one is looked for


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
        if column in asked.ignored or (name is None and (i in timed or _is_aside(column))):
            continue
        if asked.rest and (name is None or asked.columns.get(name, column) != column):
            continue
        if name is None:
            raise ModelError(_unknown_column(column))
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
    """The name of ours that a column has, in capitals or not, with blanks or not; a cost keeps the case of its own."""
    if (cost := cost_in(column)) is not None:
        return COST + cost
    return name if (name := plain(column)) in KNOWN else None


def is_known(column: str) -> bool:
    """Whether a header may hold that name."""
    return _our_name(column.strip()) is not None


def is_pay(name: str) -> bool:
    """Whether a column of ours holds rewards or costs."""
    return name == "reward" or name.startswith(COST)


def is_numeric(name: str) -> bool:
    """Whether a column of ours holds numbers and no names; a flag may be a word as well."""
    return is_pay(name) or name in ("step", "terminated")


def _is_aside(column: str) -> bool:
    """Whether it is a column of times, or for people."""
    return column.lower() in (*_TIMES, *NOTES) or column.lower().endswith(_TIME_ENDS)


def _unknown_column(column: str) -> str:
    told = unknown("column", column, [*KNOWN, f"{COST}<name>"])
    told += " " if told.endswith("?") else ". "
    return f"{told}Map it with columns={{...: {shown(column)}}}, or ignore it with ignore=[{shown(column)}]"


def _both(one: str, two: str, name: str) -> str:
    if one == two:
        return f"column {one!r} is there twice; rename one"
    return f"columns {one!r} and {two!r} are both {name!r}; ignore one: ignore=[{two!r}]"

"""Which column of a log file is which: by name, by what somebody said, or left out."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from conrl.errors import ModelError, SpecError, nearest, shown, unknown
from conrl.io.sheets import COST, NOTES, cost_in, plain
from conrl.sizes import check_costs
from conrl.wording import cut

COLUMNS = ("episode", "step", "state", "action", "reward", "next_state")
REQUIRED = tuple(name for name in COLUMNS if name != "step")
KNOWN = (*COLUMNS, "terminated")
NAMED = {"episode", "state", "action", "next_state"}  # what may be texts

_TIMES = ("timestamp", "time", "date", "datetime", "ts")
_TIME_ENDS = ("_at", "_time", "_date", "_timestamp", "_ts", "_utc")
LIKE = 0.85  # how alike a misspelt name is
_LISTED = 12  # columns that a message names
_OPTIONS = 1_000  # columns of a file among which a misspelt one is looked for


class Asked(NamedTuple):
    """What somebody said about the columns of a file."""

    columns: dict[str, str]  # the file's name of some of ours
    ignored: tuple[str, ...]
    rest: bool  # all that are not known are ignored
    shell: bool = False  # whether it was said on the command line

    def mapped(self, name: str, column: str) -> str:
        """How to say that a column of the file is one of ours."""
        return f"--column {shlex.quote(f'{name}={column}')}" if self.shell else f"columns={{{name!r}: {column!r}}}"

    def left(self, columns: Sequence[str]) -> str:
        """How to leave columns out."""
        if not self.shell:
            return f"ignore=[{', '.join(map(repr, columns))}]"
        return " ".join(f"--ignore {shlex.quote(column)}" for column in columns)

    def all_left(self) -> str:
        return "--ignore '*'" if self.shell else "ignore='*'"


def read_asked(columns: Any, ignore: Any, shell: bool = False) -> Asked:
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
    return Asked({name: column for column, name in ours.items()}, ignored, "*" in ignored, shell)


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
    strangers: list[str] = []
    for i, column in enumerate(names):
        name = ours.get(column) or _our_name(column)
        if column in asked.ignored or (name is None and (i in timed or _is_aside(column))):
            continue
        if asked.rest and (name is None or asked.columns.get(name, column) != column):
            continue
        if name is None:
            strangers.append(column)
            continue
        if asked.columns.get(name, column) != column:
            raise SpecError(
                f"column {asked.columns[name]!r} is mapped as {name}, and there is a column {column!r}; "
                f"ignore that: {asked.left([column])}",
                key=("columns", name),
            )
        if name in chosen:
            raise ModelError(_both(names[chosen[name]], column, name, asked))
        chosen[name] = i
    missing = [name for name in REQUIRED if name not in chosen]
    if strangers:
        raise ModelError(_strangers(list(dict.fromkeys(strangers)), missing, asked))
    if missing:
        raise ModelError(
            f"no column {', '.join(map(repr, missing))}; a log has {', '.join(REQUIRED)} and {COST}<name>. "
            f"If it is called otherwise, map it: {asked.mapped(missing[0], '...')}"
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


def _strangers(columns: Sequence[str], missing: Sequence[str], asked: Asked) -> str:
    """All columns that are not known, and what may be done about them."""
    ours = [*KNOWN, f"{COST}<name>"]
    near = [(column, name) for column in columns if (name := nearest(column, ours, LIKE)) in KNOWN]
    few = columns[:_LISTED]
    more = f" and {len(columns) - _LISTED:,} more" if len(columns) > _LISTED else ""
    told = f"unknown column{'s' * (len(columns) > 1)} {', '.join(map(shown, few))}{more}"
    if near:
        told += f"; did you mean {near[0][1]!r}{f' by {shown(near[0][0])}' * (len(columns) > 1)}?"
    told += f"{' M' if near else '; m'}issing: {', '.join(missing)}" if missing else ""
    told += " " if told.endswith("?") else ". "
    column, name = near[0] if near else (columns[0], missing[0] if missing else COST + columns[0])
    what, them = ("what one is", "them") if len(columns) > 1 else ("what it is", "it")
    left = "" if more else f"{asked.left(few)}; "
    say = asked.mapped(name, cut(column))
    return f"{told}Say {what}: {say}; or leave {them} out: {left}all: {asked.all_left()}"


def _both(one: str, two: str, name: str, asked: Asked) -> str:
    if one == two:
        return f"column {one!r} is there twice; rename one"
    return f"columns {one!r} and {two!r} are both {name!r}; ignore one: {asked.left([two])}"

"""What is kept of an episode, and how it stands in arrays and in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Array, Float
from conrl.errors import RunError

# Columns that hold [d] numbers, or [1+d]: value vectors.
WIDE = {"costs": 0, "unguarded": 0, "prices": 0, "expected": 1, "reported": 1, "mixture": 1}
FLAGS = ("steps", "skipped", "guarded", "infeasible", "exploring")
SHOWN = ("reported", "mixture")  # values of other policies than the one played, where there are any
# How to read a column of a `Row` from an array; the others may be unknown.
READERS: dict[str, Callable[..., Any]] = {
    "reward": float,
    "costs": np.asarray,
    "steps": int,
    "skipped": bool,
    "guarded": bool,
    "infeasible": bool,
    "exploring": bool,
}


class Row(NamedTuple):
    """One episode."""

    reward: float
    costs: Float  # [d]
    expected: Float | None  # [1+d]: of the executed policy; None where unknown
    unguarded: Float | None  # [d]: what it would have cost without the guard; None where unknown
    steps: int
    skipped: bool = False  # the null action was played, by plan or by the guard
    guarded: bool = False  # the guard changed what was played
    infeasible: bool = False  # the estimated limits could not be kept
    prices: Float | None = None  # [d]: the multipliers or prices of the limits that it was decided with
    reported: Float | None = None  # [1+d]: of what the learner showed; None: of what it played, or nothing yet
    mixture: Float | None = None  # [1+d]: of its result so far; None where it has none
    exploring: bool = False  # it was planned to learn from: no last iterate


def column(rows: Sequence[Row], name: str, num_costs: int) -> Array:
    """One column of all rows: numbers [K], or [K, d] or [K, 1+d]; nan where it is unknown."""
    at, width = Row._fields.index(name), num_costs + WIDE.get(name, 0)
    unknown = np.full(width, np.nan)
    values = [unknown if row[at] is None else row[at] for row in rows]
    return np.array(values).reshape((len(rows), width) if name in WIDE else len(rows))


def rows_of(columns: Mapping[str, Array]) -> list[Row]:
    """The rows whose columns these are."""
    if missing := sorted(set(Row._fields) - columns.keys()):
        raise RunError(f"the history has no column {missing[0]!r}")
    ordered = [columns[name] for name in Row._fields]
    if len({one.shape[0] for one in ordered}) != 1:
        raise RunError("the columns of the history have different lengths")
    rows = []
    for values in zip(*ordered, strict=True):
        row = dict(zip(Row._fields, values, strict=True))
        rows.append(Row(**{name: READERS.get(name, _known)(value) for name, value in row.items()}))
    return rows


def titles_of(cost_names: Sequence[str]) -> dict[str, list[str]]:
    """What the columns of a `Row` are called in files; those that are written."""
    total = ["reward", *(f"cost_{name}" for name in cost_names)]
    titles = {"reward": total[:1], "costs": total[1:], "expected": [f"expected_{title}" for title in total]}
    titles |= {name: [name] for name in FLAGS}
    titles["prices"] = [f"price_{name}" for name in cost_names]
    return titles | {name: [f"{name}_{title}" for title in total] for name in SHOWN}


def named_numbers(row: Row, titles: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The numbers of a row by their titles, without what is unknown."""
    values = row._asdict()
    found: dict[str, float] = {}
    for name, own in titles.items():
        if values[name] is not None:
            found |= dict(zip(own, map(float, np.atleast_1d(values[name])), strict=True))
    return found


def lines_of(rows: Sequence[Row], titles: Mapping[str, Sequence[str]]) -> Iterator[list[Any]]:
    """The header of a table and a line for each row, counted from 1; `titles` has the columns to be written."""
    yield ["episode", *chain(*titles.values())]
    for k, row in enumerate(rows):
        values = row._asdict()
        yield [k + 1, *chain(*(_cells(values[name], len(titles[name])) for name in titles))]


def _known(value: Float) -> Float | None:
    return None if np.isnan(value).all() else value


def _cells(value: Any, count: int) -> list[Any]:
    """One entry of a row: numbers with all their digits, flags as 0 or 1; so many empty cells where it is unknown."""
    if value is None:
        return [""] * count
    if isinstance(value, (int, np.integer, np.bool_)):
        return [int(value)]
    return [repr(float(x)) for x in np.atleast_1d(value)]

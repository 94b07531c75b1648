"""The rows of a model's table as arrays, and every mistake in them.

A row with a mistake stays in the arrays with nan in the place of its numbers, and is not `sound`: what it would have
said about its pair is not known, so that nothing else is said against that pair.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Array, Bool, Float, Int
from conrl.arguments import LARGEST
from conrl.errors import ModelError, nearest, shown
from conrl.io.cells import from_cell
from conrl.io.codes import Codes
from conrl.io.cut_rows import Role, cut_rows
from conrl.io.files import about
from conrl.io.mistakes import WHOLE, Mistakes
from conrl.io.model_columns import COLUMNS, Columns
from conrl.io.numerals import Cell, OddNumber, plain_numbers, read_number, written_numbers
from conrl.io.sheets import BrokenRow, Row, Sheet, chunks, decimal_mark, fits, misfit, resized
from conrl.model.criteria import Criterion
from conrl.model.reading import read_horizon
from conrl.sizes import MAX_TABLE, most

Read = Callable[[Sequence[Cell]], Float]  # the numbers of some cells

EVERY = "*"  # in the column `step`: all of them
_NO_NAMES = {"", "#N/A", "#REF!", "#NAME?", "#DIV/0!", "#VALUE!", "#NUM!", "#NULL!"}
# What to do about a state without rows: an absorbing one would change the model, and is seldom what was meant.
MISSING = "its own rows are missing; add them"
ABSORBING = "; only if it is never left, add a row that stays there with probability 1"
NAMED = 1_000  # states among which a misspelt one is looked for


def name_of(cell: Cell) -> str:
    """The name in a cell; a number as people write it.

    >>> name_of("'=a"), name_of(3.0), name_of(0.1), name_of(12345678901234567)
    ('=a', '3', '0.1', '12345678901234567')
    """
    if isinstance(cell, str):
        return from_cell(cell)
    if isinstance(cell, int):
        return str(cell)
    return str(int(cell)) if float(cell).is_integer() and abs(cell) < 1e15 else repr(float(cell))


class TableRows(NamedTuple):
    """The rows of a table, one entry a row; where there are steps, one for each step that a row is for."""

    line: Int  # [n]
    state: Int
    action: Int
    successor: Int
    probability: Float
    pay: Float  # [n, 1+d]
    sound: Bool
    step: Int | None = None

    def take(self, kept: Any) -> TableRows:
        columns: Any = [None if column is None else column[kept] for column in self]
        return TableRows(*columns)


class Steps(NamedTuple):
    """What the column for the step says: the first and the last one that a row names, and the horizon."""

    first: int
    last: int
    horizon: int


class Names(NamedTuple):
    """What the rows speak of, in the order of first appearance."""

    states: list[str]
    actions: list[str]
    costs: list[str]


def read_rows(
    sheet: Sheet, columns: Columns, mistakes: Mistakes, horizon: Any
) -> tuple[Names, TableRows, Steps | None] | None:
    """What a table says, and its steps if it has a column for them; None if nothing can be made of it."""
    try:
        texts, parts = _read_all(sheet, columns, mistakes, lambda cells: plain_numbers(cells, sheet.by_commas))
    except OddNumber:
        mark = _find_mark(sheet, columns, mistakes)
        texts, parts = _read_all(sheet, columns, mistakes, lambda cells: written_numbers(cells, mark))
    if not parts:
        if not mistakes:
            mistakes.add(WHOLE, "it has a header and no rows")
        return None
    line, state, action, successor, sound, *rest = (np.concatenate(column) for column in zip(*parts, strict=True))
    when = rest.pop(0) if columns.step_dependent else None
    probability, *pay = rest
    states, actions, next_states = texts[:3]
    for at, what in cut_rows(sheet, _roles(columns, texts)):
        sound[line == at] = False
        mistakes.add(at, what)
    rows = TableRows(line, state, action, successor, probability, np.stack(pay, axis=1), sound.astype(bool))
    with about(sheet.label):
        found = None if when is None else _read_steps(texts[3], when, rows, horizon, mistakes)
    rows = rows._replace(successor=_known_states(states, next_states, rows, mistakes, found is not None))
    steps = None
    if found is not None:
        source, step, steps = found
        rows = rows.take(source)._replace(step=step)
    return Names(list(states.number), list(actions.number), columns.costs), rows, steps


def _roles(columns: Columns, texts: list[Codes[Cell]]) -> list[Role]:
    """What each column is for, as `conrl.io.cut_rows` asks."""
    states, actions, next_states = (code.number.keys() for code in texts[:3])
    known = dict(zip(columns.texts, (states | next_states, actions, states | next_states), strict=False))
    roles = []
    for at, given in enumerate(columns.given):
        if at in columns.numbers:
            roles.append(Role(given, is_share=at == columns.numbers[0]))
        elif at in known:
            roles.append(Role(given, known[at].__contains__))
        else:  # steps are not cut; what is left out and no remark is empty
            roles.append(Role(given, lambda text: text.strip().isdecimal(), is_cut=False))
    return roles


def _find_mark(sheet: Sheet, columns: Columns, mistakes: Mistakes) -> str | None:
    """The decimal mark of a table."""
    mark, why = decimal_mark(sheet, columns.width, columns.numbers, columns.numbers[0])
    if why:
        mistakes.add(WHOLE, why)
    return mark


def _read_all(
    sheet: Sheet, columns: Columns, mistakes: Mistakes, read: Read
) -> tuple[list[Codes[Cell]], list[list[Array]]]:
    """The names of each column of texts, and the columns of each chunk; no mistake is noted if `read` gives up."""
    texts = [Codes(name_of) for _ in columns.texts]
    own = Mistakes(mistakes.label)
    try:
        parts = [_read_chunk(chunk, columns, texts, own, read) for chunk in chunks(sheet)]
    except BrokenRow as error:  # half a table is none
        own.add(*error.where[1:])
        parts = []
    mistakes.take(own)
    return texts, parts


def _read_chunk(
    chunk: list[Row], columns: Columns, texts: list[Codes[Cell]], mistakes: Mistakes, read: Read
) -> list[Array]:
    """line, state, action, successor, sound, perhaps step, then numbers, of some rows."""
    lines = np.array([line for line, _ in chunk], dtype=np.int64)
    rows = [row for _, row in chunk]
    sound = np.ones(len(rows), dtype=bool)
    if set(map(len, rows)) != {columns.width}:
        rows = _fitted(rows, lines, sound, columns, mistakes)
    cells = list(zip(*rows, strict=True))
    _leave_notes(cells, lines, sound, columns, mistakes)
    codes = [code.of(cells[at]) for code, at in zip(texts, columns.texts, strict=True)]
    for code, found, at in zip(texts, codes, columns.texts, strict=True):
        for name in _NO_NAMES & code.number.keys() if at in columns.texts[:3] else ():  # steps are read later
            none = found == code.number[name]
            what = f"is {name}, an error of the spreadsheet" if name else "is missing; write it in every row"
            for i in np.flatnonzero(none & sound).tolist():
                mistakes.add(int(lines[i]), f"{columns.names[at]} {what}", (at, what))
            sound[none] = False
    for at in columns.unnamed:
        for i in [i for i, cell in enumerate(cells[at]) if not isinstance(cell, str) or cell.strip()]:
            mistakes.add(int(lines[i]), f"{shown(cells[at][i])} stands in column {at + 1}, which has no name")
    numbers = [_read_column(cells[at], at, lines, sound, columns, mistakes, read) for at in columns.numbers]
    return [lines, *codes[:3], sound, *codes[3:], *numbers]


def _fitted(rows: list[list[Cell]], lines: Int, sound: Bool, columns: Columns, mistakes: Mistakes) -> list[list[Cell]]:
    """The rows with a cell for each column, once those that have too few or too many are named."""
    width = columns.width
    for i, row in enumerate(rows):
        if len(row) != width and not fits(row, width, columns.optional):
            sound[i] = False
            mistakes.add(int(lines[i]), misfit(row, width), ("fields", len(row)))
    return [resized(row, width) for row in rows]


def _leave_notes(
    cells: Sequence[Sequence[Cell]], lines: Int, sound: Bool, columns: Columns, mistakes: Mistakes
) -> None:
    """Name the rows that are no outcomes, such as totals; nothing else is said of them."""
    successor, share = cells[columns.texts[2]], cells[columns.numbers[0]]
    for i in [i for i, cell in enumerate(share) if isinstance(cell, str) and not cell.strip()]:
        if sound[i] and not str(successor[i]).strip():
            sound[i] = False
            what = "looks like a total or a note, as it has no next_state and no probability; delete it"
            mistakes.add(int(lines[i]), what)


def _read_column(
    cells: Sequence[Cell],
    at: int,
    lines: Int,
    sound: Bool,
    columns: Columns,
    mistakes: Mistakes,
    read: Read,
) -> Float:
    """The numbers of a column; those that make no sense are nan, and their rows not sound."""
    values = read(cells)
    low, need = (0.0, "finite and at least 0") if at == columns.numbers[0] else (-LARGEST, "finite")
    # A comparison with NaN is false, so this finds it as well.
    bad = ~((values >= low) & (values <= LARGEST))
    for i in np.flatnonzero(bad & sound).tolist():
        cell, value = cells[i], values[i]
        what = "a number" if read_number(cell, None) is None else need
        if need == "finite" and math.isfinite(value):
            what = f"at most {LARGEST:g} in size"
        mistakes.add(int(lines[i]), f"{columns.names[at]} is {shown(cell)}; it must be {what}", (at, what))
    sound &= ~bad
    values[bad] = math.nan
    return values


def _read_steps(
    when: Codes[Cell], code: Int, rows: TableRows, horizon: Any, mistakes: Mistakes
) -> tuple[Int, Int, Steps] | None:
    """What the column says, `code` [n] of the texts `when`: the row and the step of each outcome, and all steps.

    None where every row is for all steps.
    """
    ranges: dict[int, tuple[int, int] | None] = {}
    for text, number in when.number.items():
        ranges[number] = bounds = _steps_in(text)
        if bounds is None and text.strip() != EVERY:
            hint = "; Excel may have read a range as a date: format the column as text" if "-" in text else ""
            what = f"step is {shown(text)}; write a step as 3, several as 0-5, all as *{hint}"
            _add_each(mistakes, rows, code == number, what, ("step", hint))
    known = [bounds for bounds in ranges.values() if bounds is not None]
    if not known:
        return None
    if isinstance(horizon, Criterion):
        told = "the file has a column step, and steps that differ need a horizon, which is one more than the last"
        raise ModelError(f"{told}: leave this out", key=("horizon",))
    first, last = min(low for low, _ in known), max(high for _, high in known)
    if first > 0 and len(known) == len(ranges):  # no row is for step 0
        at = int(rows.line[rows.sound].min()) if rows.sound.any() else WHOLE
        mistakes.add(at, f"the steps of the file are {first} to {last}; steps count from 0: subtract {first}")
        ranges = {number: bounds and (bounds[0] - first, bounds[1] - first) for number, bounds in ranges.items()}
        first, last, horizon = 0, last - first, None
    H = read_horizon(last + 1 if horizon is None else horizon)
    if last >= H:
        told = f"the file has steps {first} to {last}, and a horizon of {H} cuts them off"
        raise ModelError(f"{told}: leave it out", key=("horizon",))
    ends = np.array([ranges[number] or (0, H - 1) for number in range(len(ranges))])[code]  # [n, 2]
    times = ends[:, 1] - ends[:, 0] + 1
    if times.sum() > (bound := most("CONRL_MAX_TABLE", MAX_TABLE)):
        raise ModelError(f"its rows stand for {times.sum():,} outcomes in all steps; at most {bound:,} are read")
    source: Int = np.repeat(np.arange(code.size), times)
    step: Int = np.arange(source.size) - np.repeat(np.cumsum(times) - times - ends[:, 0], times)
    return source, step, Steps(first, last, H)


def _steps_in(text: str) -> tuple[int, int] | None:
    """The first and the last step of `3` or `0-5`; None of anything else."""
    parts = [part.strip() for part in re.split("[-\u2013\u2212]", text)]  # programs make other dashes of one
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        return None
    first, last = int(parts[0]), int(parts[-1])
    return (first, last) if first <= last else None


def _known_states(
    states: Codes[Cell], next_states: Codes[Cell], rows: TableRows, mistakes: Mistakes, step_dependent: bool
) -> Int:
    """The successors as states, once each is one; with steps it may be reached after the last one only."""
    new = [name for name in next_states.number if name not in states.number]
    known = list(states.number)[:NAMED] if len(states.number) <= NAMED else []
    sound = np.flatnonzero(rows.sound)[::-1]
    first = np.full(len(next_states.number), -1)  # the first sound row that leads there
    first[rows.successor[sound]] = sound
    for name in new:
        at = int(first[next_states.number[name]])
        if at >= 0 and not step_dependent:
            near = None if mistakes.full else nearest(name, known, 0.8)
            hint = "" if near is None else f" (or did you mean {near!r}?)"
            mistakes.add(int(rows.line[at]), f"state {name!r} occurs only as {COLUMNS[2]}: {MISSING}{hint}{ABSORBING}")
        states.number[name] = len(states.number)
    index = np.array([states.number[name] for name in next_states.number], dtype=np.int64)
    return index[rows.successor]


def _add_each(mistakes: Mistakes, rows: TableRows, which: Bool, what: str, alike: Hashable) -> None:
    """The same mistake on several lines; none of them is sound any more."""
    for i in np.flatnonzero(which):
        mistakes.add(int(rows.line[i]), what, alike)
    rows.sound[which] = False

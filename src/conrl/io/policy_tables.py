"""Policies as CSV: step, state, action, probability, with a row for each probability above 0.

A policy that does the same at every step has no column `step`. Names are numbered by first appearance. Columns may be
separated and probabilities written as in the table of a model (`conrl.io.sheets`, `conrl.io.numerals`).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from conrl._types import Float
from conrl.errors import ModelError, shown, unknown
from conrl.io.cells import from_cell
from conrl.io.files import reading
from conrl.io.numerals import read_share
from conrl.io.sheets import NOTES, BrokenRow, Sheet, open_csv, plain
from conrl.sizes import MAX_TABLE, most

COLUMNS = ("step", "state", "action", "probability")
SPENT = "spent_"
LONGEST = 10**7  # steps


class PolicyTable(NamedTuple):
    """What a file says: zeros where it says nothing."""

    probabilities: Float  # [H, S, A]; H = 1 of a policy without steps
    by_step: bool
    states: tuple[str, ...]
    actions: tuple[str, ...]


def read_policy_table(path: Path) -> PolicyTable:
    """A policy as `Policy.save` writes it, or anybody; what makes no sense is refused with its line."""
    with reading(path):
        try:
            sheet = open_csv(path, lambda name: plain(name) in COLUMNS)
            return _read(sheet)
        except BrokenRow:
            raise
        except (ModelError, UnicodeDecodeError) as error:
            raise ModelError(f"{path}: {error}") from None


def _read(sheet: Sheet) -> PolicyTable:
    rows: list[tuple[int, str, str, float]] = []
    lines = sheet.rows()
    header = [plain(name) for name in next(lines, (0, []))[1]]
    at = _columns(header)
    for line, fields in lines:
        where = f"line {line}"
        if len(fields) != len(header):
            raise ModelError(f"{where}: {len(fields)} fields; the header has {len(header)}")
        step = _step(str(fields[at["step"]]), where) if "step" in at else 0
        state, action = (from_cell(str(fields[at[name]])) for name in ("state", "action"))
        if not state.strip() or not action.strip():
            raise ModelError(f"{where}: {'a state' if not state.strip() else 'an action'} is missing")
        share = read_share(fields[at["probability"]])
        if share is None:
            told = f"probability is {shown(fields[at['probability']])}; it must be a number in [0, 1]"
            raise ModelError(f"{where}: {told}")
        rows.append((step, state, action, share))
    if not rows:
        raise ModelError("it has no rows")
    states, actions = tuple(dict.fromkeys(row[1] for row in rows)), tuple(dict.fromkeys(row[2] for row in rows))
    H = 1 + max(row[0] for row in rows)
    if H * len(states) * len(actions) > (bound := most("CONRL_MAX_TABLE", MAX_TABLE)):
        raise ModelError(f"{H} steps, {len(states)} states and {len(actions)} actions; at most {bound:,} are read")
    table = np.zeros((H, len(states), len(actions)))
    number = {name: i for i, name in enumerate(states)}, {name: i for i, name in enumerate(actions)}
    for step, state, action, share in rows:
        place = step, number[0][state], number[1][action]
        if table[place]:
            raise ModelError(f"step {step}, state {state!r}, action {action!r} is there twice")
        table[place] = share
    total = table.sum(axis=2)
    wrong = np.argwhere((total > 0.0) & (np.abs(total - 1.0) > 1e-9))
    if wrong.size:
        h, s = wrong[0]
        raise ModelError(f"step {h}, state {states[s]!r}: probabilities sum to {total[h, s]:.12g}, not to 1")
    return PolicyTable(table, "step" in at, states, actions)


def _columns(header: list[str]) -> dict[str, int]:
    if any(name.startswith(SPENT) for name in header):
        raise ModelError("the policy acts on what was spent; save it as .npz to load it again")
    for name in header:
        if name not in (*COLUMNS, *NOTES):
            raise ModelError(unknown("column", name, COLUMNS))
    twice = [name for name in COLUMNS if header.count(name) > 1]
    if twice:
        raise ModelError(f"column {twice[0]!r} is there twice")
    for name in COLUMNS[1:]:
        if name not in header:
            raise ModelError(f"no column {name!r}; a policy has {', '.join(COLUMNS)}")
    return {name: i for i, name in enumerate(header)}


def _step(text: str, where: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) < LONGEST):
        raise ModelError(f"{where}: step is {shown(text)}; steps count from 0")
    return int(text)

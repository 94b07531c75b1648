"""Policies as CSV: step, state, action, probability, with a row for each probability above 0.

A policy that does the same at every step has no column `step`. Names are numbered by first appearance.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from conrl._types import Float
from conrl.errors import ModelError, shown, unknown
from conrl.io.cells import from_cell
from conrl.io.files import reading
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
            return _read(path)
        except (ModelError, UnicodeDecodeError, csv.Error) as error:
            raise ModelError(f"{path}: {error}") from None


def _read(path: Path) -> PolicyTable:
    rows: list[tuple[int, str, str, float]] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        header = [name.strip().lower() for name in next(reader, [])]
        at = _columns(header)
        for fields in reader:
            if not any(field.strip() for field in fields):
                continue
            where = f"line {reader.line_num}"
            if len(fields) != len(header):
                raise ModelError(f"{where}: {len(fields)} fields; the header has {len(header)}")
            step = _step(fields[at["step"]], where) if "step" in at else 0
            state, action = (from_cell(fields[at[name]]) for name in ("state", "action"))
            if not state.strip() or not action.strip():
                raise ModelError(f"{where}: {'a state' if not state.strip() else 'an action'} is missing")
            rows.append((step, state, action, _share(fields[at["probability"]], where)))
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
        if name not in COLUMNS:
            raise ModelError(unknown("column", name, COLUMNS))
    if len(set(header)) != len(header):
        raise ModelError("a column is there twice")
    for name in COLUMNS[1:]:
        if name not in header:
            raise ModelError(f"no column {name!r}; a policy has {', '.join(COLUMNS)}")
    return {name: i for i, name in enumerate(header)}


def _step(text: str, where: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) < LONGEST):
        raise ModelError(f"{where}: step is {shown(text)}; steps count from 0")
    return int(text)


def _share(text: str, where: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0 + 1e-9 or "_" in text:
        raise ModelError(f"{where}: probability is {shown(text)}; it must be a number in [0, 1]")
    return share

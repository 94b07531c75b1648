"""Policies as CSV: step, state, action, probability, with a row for each probability above 0.

A policy that does the same at every step has no column `step`. Names are numbered by first appearance. Columns may be
separated and probabilities written as in the table of a model (`conrl.io.sheets`, `conrl.io.numerals`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from conrl._types import Float
from conrl.errors import ModelError, shown, unknown
from conrl.io.cells import from_cell
from conrl.io.cut_rows import Role, cut_rows
from conrl.io.files import about, reading
from conrl.io.mistakes import Mistakes
from conrl.io.model_checks import alike
from conrl.io.numerals import read_share
from conrl.io.sheets import NOTES, BrokenRow, Sheet, check_text, misfit, open_csv, plain
from conrl.sizes import MAX_TABLE, most

COLUMNS = ("step", "state", "action", "probability")
SPENT = "spent_"
LONGEST = 10**7  # steps


class PolicyTable(NamedTuple):
    """What a file says: zeros where it says nothing."""

    probabilities: Float  # [H, S, A]; H = 1 of a policy without steps
    step_dependent: bool
    states: tuple[str, ...]
    actions: tuple[str, ...]


class FoundPolicy(NamedTuple):
    """What was found in a file: a policy, unless there are mistakes."""

    table: PolicyTable | None
    mistakes: Mistakes
    warnings: list[str]  # what is no mistake, but looks like one


class _Row(NamedTuple):
    line: int
    step: int
    state: str
    action: str
    share: float


def read_policy_table(path: Path) -> PolicyTable:
    """A policy as `Policy.save` writes it, or anybody; what makes no sense is refused with its line."""
    found = find_policy(path)
    found.mistakes.refuse()
    assert found.table is not None
    return found.table


def find_policy(path: Path) -> FoundPolicy:
    """The policy in a file, or all of its mistakes; a `ModelError` is about what keeps anything from being read."""
    with reading(path):
        check_text(path)
        sheet = open_csv(path, lambda name: plain(name) in COLUMNS)
        mistakes = Mistakes(path)
        with about(path):
            header = [str(name) for name in next(sheet.rows(), (0, []))[1]]
            at = _columns([plain(name) for name in header])
        rows = _rows(sheet, header, at, mistakes)
        states, actions = _first(rows, "state"), _first(rows, "action")
        for line, what in cut_rows(sheet, _roles(header, states, actions)):
            mistakes.add(line, what)
        if not rows and not mistakes:
            raise ModelError(f"{path}: it has no rows")
        if mistakes:
            return FoundPolicy(None, mistakes, [])
        H = 1 + max(row.step for row in rows)
        if H * len(states) * len(actions) > (bound := most("CONRL_MAX_TABLE", MAX_TABLE)):
            told = f"{H} steps, {len(states)} states and {len(actions)} actions; at most {bound:,} are read"
            raise ModelError(f"{path}: {told}")
    probabilities = _table(rows, H, list(states), list(actions), mistakes)
    table = PolicyTable(probabilities, "step" in at, tuple(states), tuple(actions))
    doubts = [
        *alike("state", list(states), list(states.values())),
        *alike("action", list(actions), list(actions.values())),
    ]
    return FoundPolicy(None if mistakes else table, mistakes, [f"{path}: {doubt}" for doubt in doubts])


def _rows(sheet: Sheet, header: list[str], at: dict[str, int], mistakes: Mistakes) -> list[_Row]:
    """The rows that make sense; the others are mistakes."""
    rows: list[_Row] = []
    try:
        for line, fields in islice(sheet.rows(), 1, None):
            if len(fields) != len(header):
                mistakes.add(line, misfit(fields, len(header)))
                continue
            step = _step(str(fields[at["step"]])) if "step" in at else 0
            state, action = (from_cell(str(fields[at[name]])) for name in ("state", "action"))
            share = read_share(fields[at["probability"]])
            if step is None:
                mistakes.add(line, f"step is {shown(fields[at['step']])}; steps count from 0")
            elif not state.strip() or not action.strip():
                mistakes.add(line, f"{'a state' if not state.strip() else 'an action'} is missing")
            elif share is None:
                told = f"probability is {shown(fields[at['probability']])}; it must be a number in [0, 1]"
                mistakes.add(line, told)
            else:
                rows.append(_Row(line, step, state, action, share))
    except BrokenRow as error:
        mistakes.add(*error.where[1:])
    return rows


def _table(rows: list[_Row], H: int, states: list[str], actions: list[str], mistakes: Mistakes) -> Float:
    """[H, S, A]: the probabilities, once each is there once and they sum to 1."""
    number = {name: i for i, name in enumerate(states)}, {name: i for i, name in enumerate(actions)}
    table = np.zeros((H, len(states), len(actions)))
    seen: dict[tuple[int, int, int], int] = {}  # the line of each
    first: dict[tuple[int, int], int] = {}
    for line, step, state, action, share in rows:
        place = step, number[0][state], number[1][action]
        if seen.setdefault(place, line) != line:
            told = f"step {step}, state {state!r}, action {action!r} is there twice (also line {seen[place]})"
            mistakes.add(line, told)
        first.setdefault(place[:2], line)
        table[place] = share
    if not mistakes:
        total = table.sum(axis=2)
        for (h, s), line in first.items():
            if abs(total[h, s] - 1.0) > 1e-9:
                told = f"step {h}, state {states[s]!r}: probabilities sum to {total[h, s]:.12g}, not to 1"
                mistakes.add(line, told)
    return table


def _first(rows: list[_Row], what: str) -> dict[str, int]:
    """The names of states or actions, by first appearance, and the lines where that is."""
    first: dict[str, int] = {}
    for row in rows:
        first.setdefault(getattr(row, what), row.line)
    return first


def _roles(header: list[str], states: Mapping[str, int], actions: Mapping[str, int]) -> list[Role]:
    """What each column is for, as `conrl.io.cut_rows` asks."""
    known = {"state": states, "action": actions}
    roles = []
    for given in header:
        name = plain(given)
        if name == "probability":
            roles.append(Role(given, is_share=True))
        elif name in known:
            roles.append(Role(given, known[name].__contains__))
        else:
            roles.append(Role(given, lambda text: _step(text) is not None, is_cut=False))
    return roles


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


def _step(text: str) -> int | None:
    text = text.strip()
    fine = text.isascii() and text.isdigit() and len(text) < 9 and int(text) < LONGEST
    return int(text) if fine else None

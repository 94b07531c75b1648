"""Tables in the dialects of people, also careless ones: what is read is what was written, or an error is raised.

A log and a model are drawn, and written as a spreadsheet or a hasty hand would: with any separator and decimal mark,
percentages, thousands apart, empty rows, remarks in any column, and, if it is careless, without quotes around cells
that need them. Nothing of conrl is used to write.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import openpyxl
from hypothesis import given, settings
from hypothesis import strategies as st

import conrl

REMARKS = [
    "",
    "",
    "",
    "seen in May",
    "3 weeks",
    "see 12",
    "5",
    "250",
    "7,5",
    "two\nlines",
    'the "new" one',
    "2024-05-01",
    "a",
]
NAMES = [["a", "b", "c"], ["01", "1", "10"], ["0", "1", "2"], ["new", "New", "worn out"], ["x, y", "x;y", "two\nlines"]]
NOTES = [[], ["comment"], ["comment"], ["note", "comment"]]


class Dialect(NamedTuple):
    """How a table is written."""

    separator: str
    mark: str
    apart: str  # between thousands
    percent: bool
    careless: bool  # no cell is quoted
    quoted: bool  # every cell is
    bom: bool
    end: str
    empty: str  # what stands between rows
    head: Any
    notes: list[tuple[str, int]]  # columns for people, and where
    cut: bool  # rows end before empty cells
    more: str  # behind every row

    def number(self, x: Decimal) -> str:
        text = f"{x:,f}".replace(",", "\0").replace(".", self.mark)
        return text.replace("\0", self.apart)

    def share(self, x: Decimal) -> str:
        return f"{self.number(x * 100)}%" if self.percent else self.number(x)


@st.composite
def dialects(draw: st.DrawFn) -> Dialect:
    separator = draw(st.sampled_from(",,,;\t|"))
    mark = draw(st.sampled_from(".,"))
    careless = draw(st.booleans())
    other = {".": ",", ",": "."}[mark]
    if separator == ",":  # where commas separate the columns, points are decimal: 1.000 is 1, as documented
        other = other.replace(".", "")
    return Dialect(
        separator=separator,
        mark=mark,
        apart=draw(st.sampled_from(["", "", "", other, " ", "'"])),
        percent=draw(st.booleans()),
        careless=careless,
        quoted=not careless and draw(st.booleans()),
        bom=draw(st.booleans()),
        end=draw(st.sampled_from(["\n", "\r\n"])),
        empty=draw(st.sampled_from(["", "", "\n", separator * 4, f" {separator} "])),
        head=draw(st.sampled_from([str.lower, str.upper, str.title])),
        notes=draw(
            st.lists(
                st.tuples(st.sampled_from(["comment", "note"]), st.integers(0, 9)), max_size=2, unique_by=lambda x: x[0]
            )
        ),
        cut=draw(st.booleans()),
        more=draw(st.sampled_from(["", "", separator])),
    )


def table(how: Dialect, header: list[str], rows: list[list[str]], data: st.DataObject) -> list[list[str]]:
    """All cells, with remarks, and in any order of the columns."""
    order = data.draw(st.permutations(range(len(header))), label="columns")
    cells = [[row[k] for k in order] for row in [header, *rows]]
    for name, at in how.notes:
        for i, row in enumerate(cells):
            remark = data.draw(st.sampled_from(REMARKS), label="remark") if i else name
            row.insert(min(at, len(row)), remark)
    cells[0] = [name if name.startswith("cost_") else how.head(name.replace("_", " ")) for name in cells[0]]
    return cells


def text(how: Dialect, cells: list[list[str]]) -> str:
    def cell(one: str) -> str:
        odd = any(sign in one for sign in (how.separator, '"', "\n", "\r"))
        if how.quoted or (odd and not how.careless):
            return '"' + one.replace('"', '""') + '"'
        return one

    lines: list[str] = []
    for row in cells:
        kept = list(row)
        while how.cut and lines and not kept[-1]:
            kept.pop()
        lines.append(how.separator.join(map(cell, kept)) + how.more * bool(lines))
        lines += [how.empty] if how.empty else []
    return "\ufeff" * how.bom + "".join(f"{line}{how.end}" for line in lines)


def save(how: Dialect, cells: list[list[str]], folder: str, book: bool) -> Path:
    """As text, or as a workbook of texts."""
    path = Path(folder, "t.xlsx" if book else "t.csv")
    if not book:
        path.write_bytes(text(how, cells).encode())
        return path
    made = openpyxl.Workbook()
    assert made.active is not None
    for row in cells:
        made.active.append([one or None for one in row])
        if how.empty:
            made.active.append([])
    made.save(path)
    return path


def amounts(data: st.DataObject, count: int) -> list[Decimal]:
    places = data.draw(st.integers(0, 3), label="places")
    return data.draw(st.lists(st.decimals(-9_999, 9_999, places=places), min_size=count, max_size=count))


def told(load: Callable[..., Any], path: Path, **given: Any) -> str:
    """Why a file is refused; a table in doubt says that something "may be" this or that."""
    try:
        load(path, **given)
    except conrl.ModelError as error:
        return str(error)
    return ""


@settings(max_examples=150, deadline=None)
@given(dialects(), st.sampled_from(NAMES), st.data())
def test_a_log_is_what_was_written(how: Dialect, names: list[str], data: st.DataObject) -> None:
    header = ["episode", "state", "action", "reward", "next_state", "cost_x"]
    rows, expected = [], []
    for episode in range(data.draw(st.integers(1, 3))):
        visited = data.draw(st.lists(st.sampled_from(names), min_size=2, max_size=4))
        for one, two in pairwise(visited):
            action = data.draw(st.sampled_from(["go", "stay", "1", "2"]))
            pay = amounts(data, 2)
            rows.append([f"{episode}", one, action, how.number(pay[0]), two, how.number(pay[1])])
            expected.append((episode, one, action, float(pay[0]), two, float(pay[1])))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", conrl.ModelWarning)
        path = save(how, table(how, header, rows, data), folder, book=False)
        why = told(conrl.load_episodes, path)
        if why:
            assert how.careless or how.cut or how.more or "may be" in why, why
            return
        log = conrl.load_episodes(path)
    found = []
    for number, played in enumerate(log.episodes):
        states = [str(s) if log.state_names is None else log.state_names[s] for s in np.asarray(played.states)]
        actions = [str(a) if log.action_names is None else log.action_names[a] for a in np.asarray(played.actions)]
        for h, action in enumerate(actions):
            paid = (float(played.rewards[h]), float(played.costs[h, 0]))
            found.append((number, states[h], action, paid[0], states[h + 1], paid[1]))
    assert found == expected


@settings(max_examples=150, deadline=None)
@given(dialects(), st.sampled_from(NAMES), st.booleans(), st.data())
def test_a_model_is_what_was_written(how: Dialect, names: list[str], book: bool, data: st.DataObject) -> None:
    header = ["state", "action", "next_state", "probability", "reward", "cost_x"]
    rows, expected = [], {}
    for state in names:
        for action in data.draw(st.lists(st.sampled_from(["go", "1"]), min_size=1, unique=True)):
            cut = data.draw(st.sampled_from([100, 100, 50, 25]))
            to = data.draw(st.permutations(names))
            for share, after in zip((cut, 100 - cut), to, strict=False):
                if share:
                    p, pay = Decimal(share) / 100, amounts(data, 2)
                    rows.append([state, action, after, how.share(p), *map(how.number, pay)])
                    expected[state, action, after] = (float(p), float(pay[0]), float(pay[1]))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", conrl.ModelWarning)
        path = save(how, table(how, header, rows, data), folder, book)
        why = told(conrl.load_model, path, horizon=1)
        if why:
            assert (how.careless and not book) or "may be" in why, why
            return
        mdp = conrl.load_model(path, horizon=1)
    graph, found = mdp.graph, {}
    for pair in range(mdp.num_pairs):
        for k in range(graph.start[pair], graph.start[pair + 1]):
            key = (
                mdp.state_names[mdp.pair_state[pair]],
                mdp.action_names[mdp.action[pair]],
                mdp.state_names[graph.successor[k]],
            )
            found[key] = (float(graph.probability[k]), *map(float, mdp.pay_by_outcome[k]))
    assert found == expected

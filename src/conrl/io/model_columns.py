"""Which column of a model's table is which: state, action, next_state, probability, reward, costs, perhaps step.

Capitals, blanks and hyphens do not count in these names (`Next State` is `next_state`); the name of a cost is what
stands behind `cost_`, as it is written. Columns for people (`comment`, `note`) are left out, and so are those without
a name and without cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from conrl.errors import ModelError, nearest, shown, unknown
from conrl.io.mistakes import Mistakes
from conrl.io.numerals import Cell
from conrl.io.sheets import COST, NOTES, cost_in, plain
from conrl.sizes import check_costs

COLUMNS = ("state", "action", "next_state", "probability", "reward")
STEP = "step"  # the column that a file may have
TIMES = ("hour", "hours", "time", "t", "day", "period", "stage", "week", "month")  # perhaps it
LIKE = 0.75  # how alike a misspelt name is
EXPECTED = f"{','.join(COLUMNS)},{COST}<name>..."


class Columns(NamedTuple):
    """Where the columns are."""

    names: list[str]  # [width]: ours, with `cost_` before the name of a cost; "" for what is left out
    texts: list[int]  # state, action, next_state and, if there is one, step
    numbers: list[int]  # probability, reward, costs
    costs: list[str]
    unnamed: list[int]  # without a name: they may hold nothing
    given: list[str]  # [width]: as the header has them

    @property
    def width(self) -> int:
        return len(self.names)

    @property
    def optional(self) -> int:
        """How many columns at the end a row may lack."""
        kept = [i for i, name in enumerate(self.names) if name]
        return self.width - 1 - kept[-1]

    @property
    def step_dependent(self) -> bool:
        return len(self.texts) == 4


def is_known(name: str) -> bool:
    """Whether a header may hold that name."""
    return _our_name(name) not in (None, "")


def read_columns(header: Sequence[Cell], line: int, mistakes: Mistakes) -> Columns | None:
    """The columns of a header; what is wrong with it goes to `mistakes`, and None comes back if it is no use."""
    names = [_our_name(name) for name in header]
    costs = [i for i, name in enumerate(names) if name and name.startswith(COST)]
    try:
        check_costs(len(costs))
    except ModelError as error:
        mistakes.add(line, str(error))
        return None
    lacking = [name for name in (*COLUMNS, STEP) if name not in names]
    meant = {_misspelt(mistakes, line, str(header[i]), lacking) for i, name in enumerate(names) if name is None}
    at: dict[str, int] = {}  # where each name is first
    for i, name in enumerate(names):
        if name == COST:
            mistakes.add(line, f"column {str(header[i])!r} has no name; call it cost_<name>")
        elif name and at.setdefault(name, i) != i:
            one, two = str(header[at[name]]), str(header[i])
            both = f"column {one!r} occurs twice" if one == two else f"columns {one!r} and {two!r} are both {name!r}"
            mistakes.add(line, f"{both}; they are duplicates: delete one")
    missing = [name for name in COLUMNS if name not in at]
    for name in missing:
        if name not in meant:
            mistakes.add(line, f"no column {name!r}; expected {EXPECTED}")
    if missing:
        return None
    texts = [at[name] for name in (*COLUMNS[:3], STEP) if name in at]
    called = [str(names[i]).removeprefix(COST) for i in costs]
    unnamed = [i for i, given in enumerate(header) if not str(given).strip()]
    ours, numbers = [name or "" for name in names], [*(at[name] for name in COLUMNS[3:]), *costs]
    return Columns(ours, texts, numbers, called, unnamed, list(map(str, header)))


def _our_name(given: Cell) -> str | None:
    """Our name of a column, "" if it is left out; None of one that is not known."""
    text = str(given)
    if (cost := cost_in(text)) is not None:
        return COST + cost
    name = plain(text)
    if name in (*COLUMNS, STEP):
        return name
    return "" if name in ("", *NOTES) else None


def _misspelt(mistakes: Mistakes, line: int, given: str, lacking: Sequence[str]) -> str | None:
    """Complain about an unknown column; what it was perhaps meant to be, of the columns that the table lacks."""
    if mistakes.full:
        mistakes.add(line, "")  # is counted
        return None
    name = plain(given)
    begun = (column for column in lacking if len(name) >= 3 and column.startswith(name))
    near = nearest(name, lacking, LIKE) or next(begun, None)
    if name in TIMES:
        mistakes.add(line, f"unknown column {shown(given)}; if it counts the steps of an episode, call it {STEP}")
        return None
    cost = f"cost is called {shown(COST + given.strip())}, a remark 'comment'"
    if near is not None:
        told = f"unknown column {shown(given)}; did you mean {near!r}? A {cost}"
    elif set(lacking) <= {STEP}:
        told = f"unknown column {shown(given)}; a {cost}"
    else:
        told = f"{unknown('column', given, (*COLUMNS, STEP))}. A {cost}"
    mistakes.add(line, told)
    return near

"""What a command found, for people: records (`conrl.cli.json_records`) as tables and lines (rich).

Those of plans, logs, runs and studies are in modules of their own; here is what they share, and the tables of `check`,
`envs` and `algorithms`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from conrl.cli.json_records import Record
from conrl.cli.terminal import Numbers, words
from conrl.errors import printable
from conrl.wording import counted, started

if TYPE_CHECKING:
    from conrl.cli.file_checks import FileCheck

Parts = list[RenderableType]  # printed one below the other

ALL_ROWS = 20  # a table of more rows is abbreviated


def precise(x: float | None, digits: int = 10) -> str:
    """Ten significant digits, or fewer; what is not limited is `none`.

    >>> precise(1.5362884391), precise(float("inf")), precise(None)
    ('1.536288439', 'none', 'unknown')
    """
    if x is None:
        return "unknown"
    return f"{x:.{digits}g}" if math.isfinite(x) else "none"


def brief(x: float | None) -> str:
    """The same with six digits."""
    return precise(x, 6)


def titled(title: str, table: Numbers, notes: Sequence[Text] = ()) -> Group:
    """A table between its title and its notes."""
    return Group(Text(title, "italic"), table, *notes)


def model_title(record: Record) -> Text:
    """What is planned in: the sizes of the model, and where episodes start."""
    length = record.get("criterion") or f"{record['horizon']} steps"
    sizes = f"{record['states']} states, {record['actions']} actions, {length}"
    return Text(f"{record['model']}: {sizes}, {started(record['start'])}", "bold")


def check_tables(name: str, found: FileCheck, guessed: bool) -> Parts:
    """What is in a file, and what to look at again; or how many mistakes it has, and what it was taken for."""
    name = printable(name)
    if found.count:
        doubt = "; if it is something else, say so with --as" if guessed else ""
        return [Text(f"{name}: {counted(found.count, 'mistake')}, read as a {found.kind}{doubt}", "bold")]
    facts = words()
    for what, fact in found.facts.items():
        facts.add_row(what, fact)
    notes = [Text(printable(f"{note[:1].upper()}{note[1:]}.")) for note in found.notes]
    return [Text(f"{name}: {found.title}", "bold"), facts, *notes, Text("No mistakes.")]


# -- what is built in -------------------------------------------------------------------------------------


def _origin(record: Record) -> str:
    """The package of a plug-in, or its module."""
    return str(record["package"] or record["module"])


def envs_tables(records: Sequence[Record], plugins: Sequence[Record]) -> Parts:
    """Sizes and optima of the models, then what each of them is and takes; of plug-ins, only the latter."""
    table = Numbers("name", "states", "actions", "horizon", "cost", "limit", "best reward", "its cost")
    about = words()
    for record in records:
        name, costs = Text(record["name"], "bold"), record["costs"]
        table.add_row(
            name,
            *(str(record[key]) for key in ("states", "actions", "horizon")),
            "\n".join(costs),
            "\n".join(brief(cost["limit"]) for cost in costs.values()),
            brief(record["reward"]),
            "\n".join(brief(cost["value"]) for cost in costs.values()),
        )
        about.add_row(name, record["description"])
        about.add_row("", Text(f"--set {', '.join(record['parameters'])}", "dim"))
    for record in plugins:
        said = f"{record['description']} " if record["description"] else ""
        about.add_row(Text(record["name"], "bold"), f"{said}({_origin(record)})")
        if record["parameters"]:
            about.add_row("", Text(f"--set {', '.join(record['parameters'])}", "dim"))
    about.add_row(
        Text("gymnasium:<id>", "bold"), "any Gymnasium environment that publishes its dynamics, as FrozenLake-v1 does"
    )
    return [table, about]


def algorithms_tables(records: Sequence[Record], planners: Sequence[Record]) -> Parts:
    """What each learner is, and what it takes; then the planners of plug-ins."""
    about = words()
    for record in records:
        origin = "; ".join(filter(None, (record["paper"], _origin(record) if "module" in record else "")))
        about.add_row(Text(record["name"], "bold"), f"{record['summary']} ({origin})".lstrip())
        about.add_row("", Text(f"problems: {', '.join(record['problems'])}", "dim"))
        given = ", ".join(
            key if value is None else f"{key}={value:.6g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in record["parameters"].items()
        )
        about.add_row("", Text(f"--option {given}" if given else "", "dim"))
    for record in planners:
        about.add_row(Text(f"--planner {record['name']}", "bold"), f"{record['summary']} ({_origin(record)})".lstrip())
    return [about]

"""How words and numbers reach a terminal of any width, or a pipe.

Words are wrapped to the width of the terminal, numbers are never broken: a table that is too wide for the terminal puts
its cells below each other. In a pipe nothing is wrapped, no line ends in blanks, and there is no colour (nor with
NO_COLOR).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from conrl.errors import printable

PIPE = 100_000  # columns when not writing to a terminal: nothing is wrapped or cut


def show(*parts: RenderableType) -> None:
    """Print to the terminal. Names are text: nothing in them is markup."""
    console = Console(markup=False, emoji=False, highlight=False)
    if console.is_terminal:
        console.print(*parts, sep="\n", crop=False)
        return
    console.width = PIPE
    with console.capture() as caught:
        console.print(*parts, sep="\n", crop=False)
    console.out("\n".join(line.rstrip() for line in caught.get().split("\n")), end="", highlight=False)


def columns() -> int:
    """How wide a line may be."""
    console = Console()
    return console.width if console.is_terminal else PIPE


def can_print(signs: str) -> bool:
    """Whether the terminal's encoding has these signs."""
    try:
        signs.encode(Console().encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@contextmanager
def search_bar(seconds: float | None) -> Iterator[Callable[[float | None, float, float], None]]:
    """A bar on stderr, if that is a terminal, for a search that may take so long; yields what to call meanwhile.

    It is called with the best objective so far, its bound and the seconds that have passed.
    """
    console = Console(stderr=True)
    with Progress(
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=seconds)

        def report(objective: float | None, bound: float, elapsed: float) -> None:
            best = "none found yet" if objective is None else f"reward {objective:.7g}"
            bar.update(task, completed=elapsed, description=f"{best}, bound {bound:.7g}")

        yield report


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Say at a terminal what is being tried, in one line that goes away."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status(what) as status:
        yield lambda text: status.update(f"{what}: {text}")


class Numbers:
    """A table: names to the left, numbers to the right; below each other where the terminal is too narrow."""

    def __init__(self, *headings: str) -> None:
        self.headings = tuple(map(printable, headings))
        self.rows: list[tuple[str | Text, ...]] = []

    def add_row(self, *cells: str | Text) -> None:
        self.rows.append(tuple(cell if isinstance(cell, Text) else printable(cell) for cell in cells))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._beside()
        if console.measure(table, options=options.update_width(PIPE)).maximum <= options.max_width:
            yield table
        else:
            yield from self._below(options.max_width)

    def _beside(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for i, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if i == 0 else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table

    def _below(self, width: int) -> Iterator[Text]:
        """One line for each cell; aligned if the width allows, and wrapped rather than cut."""
        rows = [[", ".join(str(cell).split("\n")) for cell in row] for row in self.rows]
        name = max(map(cell_len, self.headings))
        aligned = 2 + name + 2 + max((cell_len(cell) for row in rows for cell in row[1:]), default=0) <= width
        for row in rows:
            yield Text("")
            yield Text(f"{self.headings[0]} {row[0]}".strip(), "bold", overflow="fold")
            for heading, cell in zip(self.headings[1:], row[1:], strict=False):  # the last row may be short
                if cell:
                    gap = " " * (name - cell_len(heading) + 2) if aligned else ": "
                    yield Text(f"  {heading}{gap}{cell}", overflow="fold")
        yield Text("")


def words() -> Table:
    """A table of two columns, names and what they are; the second is wrapped."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table

"""A progress bar for long runs: reward, costs against limits, violations so far. On stderr, and only on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from conrl import metrics
from conrl._types import Float
from conrl.running.history import History

if TYPE_CHECKING:
    from rich.progress import Task, TextColumn
    from rich.text import Text

EVERY = 0.1  # seconds between two updates


@contextmanager
def show_progress(shown: bool, history: History, episodes: int) -> Iterator[Callable[[], None]]:
    """Yields a function to call after each episode."""
    if not shown:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TimeRemainingColumn(),
        facts_column("{task.fields[facts]}"),
    )
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda: None
        return
    with Progress(*columns, console=console, refresh_per_second=10) as bar:
        begun = len(history)
        bar_id = bar.add_task("episodes", total=begun + episodes, completed=begun, facts="")
        over = begun * history.violations  # [d]: episodes
        held_against = history.limits, history.floors, history.largest[1:]
        due = 0.0

        def tick() -> None:
            nonlocal over, due
            recent = history.recent()
            over = over + metrics.violated(recent[1:], *held_against)
            if time.monotonic() >= due or len(history) == begun + episodes:
                bar.update(bar_id, completed=len(history), facts=facts(history, recent, over / len(history)))
                due = time.monotonic() + EVERY

        yield tick


def facts(history: History, recent: Float, violations: Float) -> str:
    """One line: the last episodes' mean reward and costs against limits, and the share of violations so far."""
    parts = [f"reward {recent[0]:.3f}"]
    for name, cost, limit, share in zip(history.cost_names, recent[1:], history.limits, violations, strict=True):
        bound = f"/{limit:.3g}" if np.isfinite(limit) else ""
        parts.append(f"{name} {cost:.3f}{bound}" + (f" ({share:.0%} over)" if share else ""))
    return ", ".join(parts) + (" (mean)" if history.window is None else f" (mean of {history.window})")


def facts_column(field: str) -> TextColumn:
    """The column of a progress bar that gives way first: it is cut where the terminal is too narrow for all of them."""
    from rich.progress import TextColumn
    from rich.table import Column

    class Facts(TextColumn):
        def render(self, task: Task) -> Text:
            text = super().render(task)
            text.no_wrap, text.overflow = True, "ellipsis"
            return text

    return Facts(field, markup=False, table_column=Column(no_wrap=False))

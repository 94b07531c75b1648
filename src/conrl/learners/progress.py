"""A progress bar for long runs: reward, costs against limits, violations so far. On stderr, and only on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from conrl.learners.history import WINDOW, History

EVERY = 0.1  # seconds between two updates


@contextmanager
def show_progress(shown: bool, history: History, episodes: int) -> Iterator[Callable[[], None]]:
    """Gives what is to be called after each episode."""
    if not shown:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TimeRemainingColumn(),
        TextColumn("{task.fields[facts]}", markup=False),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, refresh_per_second=10) as bar:
        begun = len(history)
        bar_id = bar.add_task("episodes", total=begun + episodes, completed=begun, facts="")
        last = 0.0

        def tick() -> None:
            nonlocal last
            if time.monotonic() - last >= EVERY or len(history) == begun + episodes:
                last = time.monotonic()
                bar.update(bar_id, completed=len(history), facts=facts(history))

        yield tick


def facts(history: History) -> str:
    """One line: the last episodes' mean reward and costs against limits, and violations."""
    recent = history.smooth()[-1]
    parts = [f"reward {recent[0]:.3f}"]
    for name, cost, limit, over in zip(history.cost_names, recent[1:], history.limits, history.violations, strict=True):
        bound = f"/{limit:.3g}" if np.isfinite(limit) else ""
        parts.append(f"{name} {cost:.3f}{bound}" + (f" ({over} over)" if over else ""))
    if history.remaining is not None:
        left = history.remaining[-1]
        parts.append("left " + ", ".join(f"{x:.4g}" for x in left[np.isfinite(left)]))
    return ", ".join(parts) + f" (mean of {WINDOW})"

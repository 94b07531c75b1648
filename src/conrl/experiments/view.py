"""The live view of a study: all of it, and each run that is going on. On stderr; without a terminal, a few lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from conrl.experiments.execution import Event
from conrl.experiments.jobs import Job
from conrl.running.progress import facts_column

MOST_LINES = 12  # of runs that are going on
PAUSE = 30.0  # seconds between two lines where there is no terminal


@contextmanager
def watching(jobs: Sequence[Job], shown: bool = True) -> Iterator[Callable[[Event], None]]:
    """Gives the listener for `run_study`."""
    from rich.console import Console

    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield _lines(jobs) if shown else lambda event: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
        facts_column("{task.fields[facts]}"),
    )
    with Progress(*columns, console=console, refresh_per_second=5) as bar:
        everything = bar.add_task("trajectories", total=sum(job.episodes for job in jobs), facts="")
        lines: dict[int, object] = {}
        played = dict.fromkeys(range(len(jobs)), 0)
        over: set[int] = set()
        total = 0
        ended = {"done": 0, "before": 0, "failed": 0, "lost": 0}

        def listen(event: Event) -> None:
            nonlocal total
            job = jobs[event.job]
            if event.kind in ("started", "playing") and event.job in over:
                return  # from a cluster, words may come late
            if event.kind in ended:
                ended[event.kind] += 1
            if event.kind == "started" and event.job not in lines and len(lines) < MOST_LINES:
                name = f"{job.env_name} {job.name} {job.seed}"
                lines[event.job] = bar.add_task(name, total=job.episodes, facts="")
            if event.kind in ("done", "failed", "before", "lost") and event.job in lines:
                bar.remove_task(lines.pop(event.job))  # type: ignore[arg-type]
            if event.kind in ("done", "before", "failed"):
                over.add(event.job)
            now = job.episodes if event.job in over else event.episodes
            total, played[event.job] = total + now - played[event.job], now
            if event.job in lines:
                bar.update(lines[event.job], completed=event.episodes)  # type: ignore[arg-type]
            facts = f"{ended['done'] + ended['before']} of {len(jobs)} runs"
            facts += f", {ended['failed']} failed" if ended["failed"] else ""
            facts += f", {ended['lost']} redone" if ended["lost"] else ""
            if event.kind == "before":  # no guide to how fast the others will be
                bar.reset(everything, completed=total, facts=facts)
            else:
                bar.update(everything, completed=total, facts=facts)

        yield listen


def _lines(jobs: Sequence[Job]) -> Callable[[Event], None]:
    """For a log: now and then a line that says how far it is."""
    ended: set[int] = set()
    due = time.monotonic() + PAUSE

    def listen(event: Event) -> None:
        nonlocal due
        if event.kind in ("done", "before", "failed"):
            ended.add(event.job)
        if time.monotonic() >= due:
            sys.stderr.write(f"{len(ended)} of {len(jobs)} runs ended\n")
            sys.stderr.flush()
            due = time.monotonic() + PAUSE

    return listen


@contextmanager
def counting(shown: bool = True) -> Iterator[Callable[[Event], None]]:
    """Gives the listener for `tune`: how many settings were started, and the last one."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield lambda event: None
        return
    seen: set[int] = set()
    with console.status("starting") as status:

        def listen(event: Event) -> None:
            seen.add(event.job)
            about = (event.text.strip().splitlines() or [""])[-1]  # of a traceback, what went wrong
            text = f"{len(seen)} settings; setting {event.job + 1}: {event.episodes:,} trajectories  ({about})"
            status.update(escape(text))

        yield listen

"""The live view of a study: all of it, and each run that is going on. On stderr; without a terminal, a few lines."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from conrl.experiments.execution import Event, Listener
from conrl.experiments.jobs import Job
from conrl.running.progress import facts_column

if TYPE_CHECKING:
    from rich.progress import TaskID

MOST_LINES = 12  # of runs that are going on
PAUSE = 30.0  # seconds between two lines where there is no terminal
OVER = ("done", "before", "failed")  # events after which nothing more of a run is played


@contextmanager
def watching(jobs: Sequence[Job]) -> Iterator[Listener]:
    """Gives the listener for `run_study`."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(jobs)
        return
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(bar_width=24),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(compact=True),
        facts_column("{task.fields[facts]}"),
    )
    with progress.Progress(*columns, console=console, refresh_per_second=5) as bar:
        everything = bar.add_task("trajectories", total=sum(job.episodes for job in jobs), facts="")
        lines: dict[int, TaskID] = {}
        played = [0] * len(jobs)
        over: set[int] = set()
        events: Counter[str] = Counter()

        def listen(event: Event) -> None:
            """Move the bar of a run and the one of all runs."""
            job, kind = jobs[event.job], event.kind
            if kind in ("started", "playing") and event.job in over:
                return  # from a cluster, words may come late
            events[kind] += 1
            if kind == "started" and event.job not in lines and len(lines) < MOST_LINES:
                name = f"{job.env_name} {job.name} {job.seed}"
                lines[event.job] = bar.add_task(name, total=job.episodes, facts="")
            if kind in (*OVER, "lost") and event.job in lines:
                bar.remove_task(lines.pop(event.job))
            if kind in OVER:
                over.add(event.job)
            if event.job in lines:
                bar.update(lines[event.job], completed=event.episodes)
            played[event.job] = job.episodes if event.job in over else event.episodes
            facts = f"{events['done'] + events['before']} of {len(jobs)} runs"
            facts += f", {events['failed']} failed" if events["failed"] else ""
            facts += f", {events['lost']} redone" if events["lost"] else ""
            # How long runs took that were finished before is no guide to how long the others will take.
            move = bar.reset if kind == "before" else bar.update
            move(everything, completed=sum(played), facts=facts)

        yield listen


def _lines(jobs: Sequence[Job]) -> Listener:
    """For a log: now and then a line that says how far it is."""
    ended: set[int] = set()
    due = time.monotonic() + PAUSE

    def listen(event: Event) -> None:
        nonlocal due
        if event.kind in OVER:
            ended.add(event.job)
        if time.monotonic() >= due:
            sys.stderr.write(f"{len(ended)} of {len(jobs)} runs ended\n")
            sys.stderr.flush()
            due = time.monotonic() + PAUSE

    return listen


@contextmanager
def counting() -> Iterator[Listener]:
    """Gives the listener for `tune`: how many settings were started, and the last one."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if not console.is_terminal:
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

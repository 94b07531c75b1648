"""One run from its beginning, or from where it was left, to its end: what a worker does, wherever it is.

A run that fails leaves its traceback in `failed.txt`, until it has come to its end.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from conrl.errors import ConRLError, ModelWarning, RunError
from conrl.experiments.jobs import Job, Run
from conrl.experiments.store import FAILED, played
from conrl.experiments.worlds import Worlds
from conrl.io.files import atomic_write, refuse_links
from conrl.wording import ROOM, counted, cut, line

EVERY = 0.25  # seconds between two reports of a run


@dataclass(frozen=True)
class Event:
    """Something about a run.

    "before": it was finished before; "started", "playing", "done", "failed", "interrupted"; "lost": its worker is gone.
    """

    job: int  # its index in the list
    kind: str
    episodes: int = 0
    text: str = ""

    def __repr__(self) -> str:
        return line(self, f"run {self.job} {self.kind}", counted(self.episodes, "episode"), cut(self.text, ROOM))


Listener = Callable[[Event], None]
# Plays a run, and calls the function with how far it is now and then; how far it came, and whether to its end.
Play = Callable[[Run, Callable[[int], None]], tuple[int, bool]]


class Manner(NamedTuple):
    """How runs are played, and how one sees in its directory how far a run is."""

    play: Play
    begun: tuple[str, ...]  # files of which a run that has begun has one
    played: Callable[[Path], int]  # episodes


def _episode_by_episode(run: Run, after: Callable[[int], None]) -> tuple[int, bool]:
    history = run.play(after=lambda history: after(len(history)))
    return len(history), not history.interrupted


def _in_progress(directory: Path) -> int:
    return played(directory / "progress.csv")


# With a checkpoint now and then, from which a run goes on.
EPISODES = Manner(_episode_by_episode, ("checkpoint.npz", "progress.csv"), _in_progress)


def execute(
    job: Job, out: str | Path, tell: Callable[[str, int, str], None], worlds: Worlds, play: Play = EPISODES.play
) -> bool:
    """Play one run to its end, here. Whether it came to its end; a failure is told and recorded, not raised."""
    due = 0.0

    def after(episodes: int) -> None:
        nonlocal due
        if time.monotonic() >= due:
            tell("playing", episodes, "")
            due = time.monotonic() + EVERY

    where = job.directory(out)
    try:
        refuse_links(where, Path(out))
    except RunError as error:  # there is no place of its own to record it in
        tell("failed", 0, str(error))
        return False
    clear_failure(where)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)  # said by the check of the study, or seen in the curve
            episodes, ended = play(Run(job, out, worlds), after)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        text = traceback.format_exc()
        record_failure(where, text)
        tell("failed", 0, text if not isinstance(error, ConRLError) else f"{text}\n{error}")
        return False
    if ended:
        clear_failure(where)
    tell("done" if ended else "interrupted", episodes, "")
    return ended


def record_failure(where: Path, text: str) -> None:
    """Leave the traceback of a failure beside its run, unless it is there."""
    with suppress(ConRLError, OSError):
        if not (where / FAILED).exists():
            where.mkdir(parents=True, exist_ok=True)
            with atomic_write(where / FAILED, follow=False) as file:
                file.write(text.encode(errors="backslashreplace"))


def clear_failure(where: Path) -> None:
    with suppress(OSError):
        (where / FAILED).unlink(missing_ok=True)

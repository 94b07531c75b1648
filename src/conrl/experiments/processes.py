"""Runs in local processes. A worker that is lost loses nothing but time: its run is taken up again."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from conrl.experiments.execution import EPISODES, Event, Listener, Play, execute
from conrl.experiments.jobs import Job
from conrl.experiments.worlds import Worlds
from conrl.signals import STOP, postponed

ATTEMPTS = 5  # of a run whose workers are lost
# Set for workers before they import anything: a run is one thread.
ONE_THREAD = {
    f"{name}_NUM_THREADS": "1"
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM", "NUMEXPR", "POLARS_MAX")
}
# A new process looks for its own first modules in the current directory, unless it is told not to.
SAFE_PATH, OURS = "PYTHONSAFEPATH", "conrl"  # anything but nothing
GRACE = 30.0  # seconds for the episodes that are being played when a study is interrupted
STARTING = threading.Lock()  # a new process gets another environment: for a moment, this one has it


def _work(pipe: Connection, out: str, play: Play) -> None:
    """A worker: runs that come through the pipe, until None comes."""
    if os.environ.get(SAFE_PATH) == OURS:
        del os.environ[SAFE_PATH]  # programs that an environment starts are not ours
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    worlds = Worlds()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        while (task := pipe.recv()) is not None:
            index, job = task

            def tell(kind: str, episodes: int, text: str, index: int = index) -> None:
                pipe.send(Event(index, kind, episodes, text))

            execute(job, out, tell, worlds, play)


def _end_with_parent() -> None:
    """No run goes on without the process that asked for it; what is lost is played again."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Worker:
    def __init__(self, out: Path, play: Play) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, str(out), play), daemon=True)
        resource_tracker.ensure_running()  # which unblocks signals when it starts
        # No signal may leave a process half started. The worker inherits what is blocked: SIGTERM, by which it is asked
        # to end, it unblocks; Ctrl-C, which a terminal sends to all processes, is for this one alone.
        with postponed():
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
            try:
                self.process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()

    def give(self, task: tuple[int, Job]) -> None:
        self.task = task
        with suppress(OSError):  # a worker that died meanwhile is noticed when it is listened to
            self.pipe.send(task)

    def stop(self) -> None:
        with suppress(OSError):
            self.pipe.send(None)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def in_processes(
    queue: deque[tuple[int, Job]], out: Path, count: int, tell: Listener, play: Play = EPISODES.play
) -> None:
    """Play runs in `count` processes until the queue is empty and all have ended; `tell` may add to the queue."""
    attempts: dict[int, int] = {}

    def lost(index: int, job: Job) -> None:
        attempts[index] = attempts.get(index, 0) + 1
        if attempts[index] < ATTEMPTS:
            queue.appendleft((index, job))
            tell(Event(index, "lost"))
        else:
            tell(Event(index, "failed", text=f"its worker died {ATTEMPTS} times"))

    idle: list[_Worker] = []
    busy: list[_Worker] = []
    try:
        while len(idle) < count:
            idle.append(_new_worker(out, play))
        while queue or busy:
            while queue and idle:
                worker = idle.pop()
                worker.give(queue.popleft())
                busy.append(worker)
                tell(Event(worker.task[0], "started"))
            ready = wait([worker.pipe for worker in busy])
            for worker in [w for w in busy if w.pipe in ready]:
                try:
                    event = worker.pipe.recv()
                except (EOFError, OSError):  # killed: by the system, by hand, by a fault in a library
                    busy.remove(worker)
                    idle.append(_new_worker(out, play))
                    lost(*worker.task)
                    continue
                if event.kind != "playing":
                    busy.remove(worker)
                    idle.append(worker)
                if event.kind == "interrupted":  # somebody sent SIGTERM to this worker alone
                    lost(*worker.task)
                else:
                    tell(event)
    except KeyboardInterrupt:
        _end(busy)
        raise
    finally:
        for worker in idle:
            worker.stop()


def _end(busy: list[_Worker]) -> None:
    """Each ends after its episode, and saves; of one that takes too long, or after a second signal, what it last saved
    stands."""
    for worker in busy:
        worker.process.terminate()
        worker.stop()
    late = time.monotonic() + GRACE
    try:
        for worker in busy:
            worker.process.join(timeout=max(0.0, late - time.monotonic()))
    finally:
        for worker in busy:
            worker.process.kill()


def guarded() -> bool:
    """Whether the program expects to be imported by the processes that it starts: it asks whether it is `__main__`."""
    main: Any = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:  # python -m
        return True
    try:
        text = Path(main.__file__).read_text(encoding="utf-8", errors="replace")
        return re.search(r"__name__\s*[!=]=|[!=]=\s*__name__", text) is not None
    except (AttributeError, OSError):
        return False


@contextmanager
def _without_main() -> Iterator[None]:
    """A new process imports the user's program, to find in it what it registered. One without the guard
    `if __name__ == "__main__"` would start the study again, and one from a pipe cannot be read: those are left out.
    """
    main = sys.modules["__main__"]
    names: dict[str, Any] = vars(main)
    before = names.copy()
    try:
        if not guarded():
            names.pop("__file__", None)
            names["__spec__"] = None
        yield
    finally:
        names.update({name: before[name] for name in ("__file__", "__spec__") if name in before})


def _new_worker(out: Path, play: Play) -> _Worker:
    safe = {SAFE_PATH: os.environ.get(SAFE_PATH) or OURS}
    with STARTING, _environment(ONE_THREAD | safe), _without_main():
        return _Worker(out, play)

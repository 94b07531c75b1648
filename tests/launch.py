"""Processes that tests start, and how long things may take: none outlives its test, and a busy machine is no fault."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

# Seconds. Nothing here takes so long, however much else the machine has to do: it only ends what hangs.
PATIENCE = 1800.0
PAUSE = 0.02  # seconds between two looks


@contextmanager
def launched(words: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, as from another terminal; all of that session ends with this block."""
    with subprocess.Popen(
        words, **{"stdin": subprocess.DEVNULL} | options, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            while left := [p.pid for p in _processes() if p.session == process.pid]:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.poll()
                time.sleep(PAUSE)


def launch(words: Sequence[str], given: str | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """A process from its start to its end, with what it printed."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if given is not None:
        pipes["stdin"] = subprocess.PIPE
    with launched(words, **pipes | options) as process:
        out, errors = process.communicate(given, timeout=PATIENCE)
    return subprocess.CompletedProcess(words, process.returncode, out, errors)


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    """Until it holds, or the process that should make it hold has ended."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        if process is not None and process.poll() is not None:
            return
        time.sleep(PAUSE)


class Late(BaseException):
    """Nothing that is tested turns it into something else."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """At most so many seconds of work of this process, however long a busy machine takes to do it."""

    def late(number: int, frame: object) -> None:
        raise Late(f"not ended after {seconds:g} s of work, or {PATIENCE:g} s in all")

    before = {number: signal.signal(number, late) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)  # work is not all: it may wait for what never comes
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


class _Process(NamedTuple):
    """What /proc tells of one."""

    pid: int
    state: str
    parent: int
    session: int


def _read(stat: Path) -> _Process:
    state, parent, _, session = stat.read_text().rpartition(")")[2].split()[:4]
    return _Process(int(stat.parent.name), state, int(parent), int(session))


def _processes() -> Iterator[_Process]:
    """Those that live now."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if (process := _read(stat)).state not in "ZX":
                yield process


def children(pid: int) -> list[int]:
    """The living processes that a process has started."""
    return [process.pid for process in _processes() if process.parent == pid]


def alive(pid: int) -> bool:
    return any(process.pid == pid for process in _processes())


def _stopped(pid: int) -> bool:
    """With all its threads; or it is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return all(_read(stat).state in "TZX" for stat in Path(f"/proc/{pid}/task").glob("*/stat"))
    return not alive(pid)


def _has_open(pid: int, path: Path) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                if os.readlink(file) == str(path.resolve()):
                    return True
    return False


def strike(path: Path, number: signal.Signals) -> bool:
    """Send a signal to the process that has a file open, while it surely has; whether there was one."""
    for pid in [p.pid for p in _processes() if p.pid != os.getpid() and _has_open(p.pid, path)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            wait_until(lambda: _stopped(pid))  # noqa: B023
            hit = _has_open(pid, path)
            if hit:
                os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)
            if hit:
                return True
    return False

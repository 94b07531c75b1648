"""Ctrl-C and SIGTERM, for a command: both raise KeyboardInterrupt, but never within an import or a compilation.

There an interrupt is lost: extension modules turn it into an ImportError, and callbacks of the import system and of the
compiler swallow it. So it waits until they are done.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

WAIT = 0.02  # seconds until a signal that came within one of these is sent again
CLOSED = {"_frozen_importlib", "importlib", "numba", "llvmlite"}


@contextmanager
def interruptible_command() -> Iterator[None]:
    """While inside, SIGTERM is Ctrl-C: what it ends is left as it should be, and so are the processes of a study."""
    if threading.current_thread() is not threading.main_thread():  # only that one may listen
        yield
        return
    waiting = [signal.SIGTERM]

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not _within(CLOSED, frame):
            raise KeyboardInterrupt
        waiting[0] = signal.Signals(number)
        signal.setitimer(signal.ITIMER_REAL, WAIT)

    def send_again(number: int, frame: FrameType | None) -> None:
        signal.pthread_kill(threading.get_ident(), waiting[0])  # to whoever listens by then

    handlers = {signal.SIGTERM: interrupt, signal.SIGALRM: send_again}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started this ignores Ctrl-C
        handlers[signal.SIGINT] = interrupt
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _within(packages: set[str], frame: FrameType | None) -> bool:
    """Whether a function of one of these packages is being executed."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in packages:
            return True
        frame = frame.f_back
    return False

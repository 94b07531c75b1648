"""What Ctrl-C and SIGTERM do: interrupt a command, end a run after its episode, or wait until a process has started."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

STOP = (signal.SIGINT, signal.SIGTERM)
WAIT = 0.02  # seconds until a signal that came too early is sent again
CLOSED = {"_frozen_importlib", "importlib", "numba", "llvmlite"}  # packages in which an interrupt gets lost
CAN_WAIT = hasattr(signal, "setitimer")  # not on every system

Handler = Callable[[int, FrameType | None], None]

_asked: list[threading.Event] = []  # what signals set now, within `interruptible`; one at most


def _in_main_thread() -> bool:
    """Only there can signals be handled."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _handled(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible_command() -> Iterator[None]:
    """While inside, SIGTERM acts like Ctrl-C: files are left whole, and the processes of a study are ended.

    Both raise KeyboardInterrupt, but within an import or a compilation they wait for its end. There an interrupt gets
    lost: extension modules turn it into an ImportError, and callbacks of the import system and of the compiler swallow
    it.
    """
    if not _in_main_thread():
        yield
        return
    caller = sys._getframe(2)  # below it there may be an import all along: that of a script which calls the command
    waiting = [signal.SIGTERM]

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not CAN_WAIT or not _within(CLOSED, frame, caller):
            raise KeyboardInterrupt
        waiting[0] = signal.Signals(number)
        signal.setitimer(signal.ITIMER_REAL, WAIT)

    def send_again(number: int, frame: FrameType | None) -> None:
        signal.pthread_kill(threading.get_ident(), waiting[0])  # to whoever listens by then

    handlers: dict[signal.Signals, Handler] = {signal.SIGTERM: interrupt}
    if CAN_WAIT:
        handlers[signal.SIGALRM] = send_again
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started this ignores Ctrl-C
        handlers[signal.SIGINT] = interrupt
    with _handled(handlers):
        try:
            yield
        finally:
            if CAN_WAIT:
                signal.setitimer(signal.ITIMER_REAL, 0)


def _within(packages: set[str], frame: FrameType | None, caller: FrameType) -> bool:
    """Whether `caller` has called, somehow, a function of one of these packages that is being executed."""
    while frame is not None and frame is not caller:
        if frame.f_globals.get("__name__", "").partition(".")[0] in packages:
            return True
        frame = frame.f_back
    return False


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """While inside, Ctrl-C and SIGTERM only ask to stop. A second Ctrl-C interrupts at once, a second SIGTERM does not:
    whoever stops a group of processes sends it to each of them, and those that have workers pass it on.

    Within another such block the outer one answers: a stop asked for outside counts inside.
    """
    if not _in_main_thread():
        yield lambda: False
        return
    if _asked:
        yield _asked[0].is_set
        return
    asked = threading.Event()

    def handler(number: int, frame: FrameType | None) -> None:
        if asked.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.set()

    _asked.append(asked)
    try:
        with _handled(dict.fromkeys(STOP, handler)):
            yield asked.is_set
    finally:
        _asked.remove(asked)


@contextmanager
def postponed() -> Iterator[None]:
    """While inside, Ctrl-C and SIGTERM wait. Blocking them would not be enough: another thread may take them."""
    if not _in_main_thread():
        yield
        return
    came: list[int] = []
    try:
        with _handled(dict.fromkeys(STOP, lambda number, _: came.append(number))):
            yield
    finally:
        for number in came:
            signal.raise_signal(number)

"""How kernels are compiled: numba, cached on disk, without fast-math."""

import gc
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeVar, cast

from numpy.typing import NDArray

from conrl import without_numba
from conrl.errors import SpecError

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])


PATIENCE = 0.6  # seconds of compiling before the user is told
TELL: list[Callable[[], None]] = []  # called once, when kernels are being compiled
UNKEPT: list[Callable[[], None]] = []  # called once, if there is no place to keep them


def check_settings() -> None:
    """Refuse what numba would end in a traceback for, or what leaves nothing compiled."""
    text = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if text and not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0):
        raise SpecError(f"the environment variable NUMBA_NUM_THREADS is {text!r}; expected a whole number of 1 or more")
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        raise SpecError("the environment variable NUMBA_DISABLE_JIT is set: nothing would be compiled; unset it")


check_settings()


def tell_once(told: list[Callable[[], None]] = TELL) -> None:
    with suppress(IndexError):  # two threads may wait: to look first whether one is left would be a race
        while True:
            told.pop()()


def compiled(function: F) -> F:
    """numba, cached on disk, with LLVM's superword vectoriser on for this function only.

    numba leaves that pass off; it keeps the LANES accumulators of a kernel in vector registers (2 to 4 times faster)
    and reorders no arithmetic.
    """
    return cast(F, _made(function, lambda: _compiled(function)))


def interpreted_if_little(work: Callable[..., int]) -> Callable[[F], F]:
    """As `compiled`; but a program that runs without numba does not wait for it where `work`, of the arguments, is
    little: about as much as the turns of all its loops. Not for kernels that call what is `emitted`."""

    def decorated(function: F) -> F:
        return cast(F, _made(function, lambda: _compiled(function), work))

    return decorated


def inlined(function: F) -> F:
    def make() -> Any:
        return import_module("numba").njit(inline="always")(function)

    return cast(F, _made(function, make, lambda *_: 0))  # the kernel that it is a part of knows how much work it is


def emitted(function: Any, checked: Any) -> Any:
    """An intrinsic function of numba, which says itself what code it is; under bounds checks, `checked` instead."""

    def make() -> Any:
        import numba
        from numba.extending import intrinsic

        config: Any = numba.config
        return numba.njit(inline="always")(checked) if config.BOUNDSCHECK else intrinsic(function)

    return _made(function, make)


def _made(function: Any, make: Callable[[], Any], work: Callable[..., int] | None = None) -> Any:
    return without_numba.Kernel(function, make, work) if without_numba.WANTED else make()


def _compiled(function: Any) -> Any:
    """The function compiled by numba, with our cache where one can be kept."""
    import numba
    from numba.core.compiler_lock import global_compiler_lock

    from conrl.kernels.cache import HealingCache

    # Without numba's wrapper for callers in C, which nobody calls and which takes a twentieth of the time to compile.
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    try:
        dispatcher._cache = HealingCache(function)
    except RuntimeError:  # nowhere to write, neither beside the source nor in the user's home
        tell_once(UNKEPT)
    compile_plain = dispatcher.compile

    def compile_vectorised(signature: Any) -> Any:
        slow = threading.Timer(PATIENCE, tell_once)  # what is in the cache is there sooner
        slow.daemon = True
        slow.start()
        try:
            with global_compiler_lock:  # one thread compiles; another must not see or undo its setting
                config: Any = numba.config
                before, config.SLP_VECTORIZE = config.SLP_VECTORIZE, 1
                collecting = gc.isenabled()
                gc.disable()  # most of what numba makes stays: looking for garbage in it is a tenth of its time
                try:
                    return compile_plain(signature)
                finally:
                    config.SLP_VECTORIZE = before
                    if collecting:
                        gc.enable()
        finally:
            slow.cancel()

    dispatcher.compile = compile_vectorised
    return dispatcher

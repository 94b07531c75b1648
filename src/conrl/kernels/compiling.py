"""How kernels are compiled: numba, cached on disk, without fast-math."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numba
from numba.core.compiler_lock import global_compiler_lock
from numpy.typing import NDArray

from conrl.kernels.cache import HealingCache

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])


PATIENCE = 0.6  # seconds of compiling before the user is told
TELL: list[Callable[[], None]] = []  # called once, when kernels are being compiled


def tell_once() -> None:
    with suppress(IndexError):  # two threads may wait: to look first whether one is left would be a race
        while True:
            TELL.pop()()


def compiled(function: F) -> F:
    """numba, cached on disk, with LLVM's superword vectoriser on for this function only.

    numba leaves that pass off; it keeps the LANES accumulators of a kernel in vector registers (2 to 4 times faster)
    and reorders no arithmetic.
    """
    dispatcher: Any = numba.njit(nogil=True, error_model="numpy")(function)
    with suppress(RuntimeError):  # nowhere to write, neither beside the source nor in the user's home
        dispatcher._cache = HealingCache(function)
    compile_plain = dispatcher.compile

    def compile_vectorised(signature: Any) -> Any:
        slow = threading.Timer(PATIENCE, tell_once)  # what is in the cache is there sooner
        slow.daemon = True
        slow.start()
        try:
            with global_compiler_lock:  # one thread compiles; another must not see or undo its setting
                config: Any = numba.config
                before, config.SLP_VECTORIZE = config.SLP_VECTORIZE, 1
                try:
                    return compile_plain(signature)
                finally:
                    config.SLP_VECTORIZE = before
        finally:
            slow.cancel()

    dispatcher.compile = compile_vectorised
    return dispatcher  # type: ignore[no-any-return]


def inlined(function: F) -> F:
    dispatcher: Any = numba.njit(inline="always")(function)
    return dispatcher  # type: ignore[no-any-return]

"""How kernels are compiled: numba, cached on disk, without fast-math."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numpy.typing import NDArray

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])


PATIENCE = 0.6  # seconds before somebody who waits is told
TELL: list[Callable[[], None]] = []  # who is told, once, that kernels are being compiled


def tell_once() -> None:
    while TELL:
        TELL.pop()()


def compiled(function: F) -> F:
    """numba, cached on disk, with LLVM's superword vectoriser on for this function only.

    numba leaves that pass off; it keeps the LANES accumulators of a kernel in vector registers (2 to 4 times faster)
    and reorders no arithmetic.
    """
    options = {"nogil": True, "error_model": "numpy"}
    dispatcher: Any
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write, neither beside the source nor in the user's home: compile in each process
        dispatcher = numba.njit(**options)(function)
    compile_plain = dispatcher.compile

    def compile_vectorised(signature: Any) -> Any:
        config: Any = numba.config
        before, config.SLP_VECTORIZE = config.SLP_VECTORIZE, 1
        slow = threading.Timer(PATIENCE, tell_once)  # what is in the cache is there sooner
        slow.daemon = True
        slow.start()
        try:
            return compile_plain(signature)
        finally:
            slow.cancel()
            config.SLP_VECTORIZE = before

    dispatcher.compile = compile_vectorised
    return dispatcher  # type: ignore[no-any-return]


def inlined(function: F) -> F:
    dispatcher: Any = numba.njit(inline="always")(function)
    return dispatcher  # type: ignore[no-any-return]

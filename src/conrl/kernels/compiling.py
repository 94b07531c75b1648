"""How kernels are compiled: numba, cached on disk, without fast-math."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numpy.typing import NDArray

Array = NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])


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
        try:
            return compile_plain(signature)
        finally:
            config.SLP_VECTORIZE = before

    dispatcher.compile = compile_vectorised
    return dispatcher  # type: ignore[no-any-return]


def inlined(function: F) -> F:
    dispatcher: Any = numba.njit(inline="always")(function)
    return dispatcher  # type: ignore[no-any-return]

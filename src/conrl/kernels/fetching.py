"""Asking for memory before it is needed."""

from typing import Any

from conrl.kernels.compiling import Array, emitted

READ, NEAR, DATA = 0, 2, 1  # of LLVM's `prefetch`: not to write; into the second cache, past the few slots of the first


def _fetch(context: Any, array: Any, i: Any) -> Any:
    """Ask for the line of memory with the i-th entry of a contiguous array; nothing waits for it."""
    from llvmlite import ir
    from numba.core import cgutils, types

    def made(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        at = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(function, [at, word(READ), word(NEAR), word(DATA)])
        return target.get_dummy_value()

    return types.void(array, i), made


def _unasked(array: Array, i: Any) -> None:
    pass


fetch = emitted(_fetch, _unasked)

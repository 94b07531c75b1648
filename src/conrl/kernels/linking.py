"""What numba compiled, as a file that `conrl.without_numba` runs.

It is written only if every address that the code needs is the one that numba itself links: a numba that works otherwise
is noticed here, and then there is no file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
from llvmlite import binding
from numba.core import types
from numba.core.serialize import dumps
from numba.np.numpy_support import as_dtype

from conrl import without_numba


def export(function: FunctionType, result: tuple[Any, ...]) -> tuple[Path, bytes] | None:
    """Where one compiled function goes, and the content; None if it is there. An error of any kind if that cannot be.

    `result` is what numba's cache keeps of it (`CompileResult._reduce`): the object code and names in it.
    """
    (_, form, (code, *_)), about, environment, signature, objects, lifted, _, start, environments = result
    config: Any = numba.config
    if form != "object" or objects or lifted or start or function.__closure__ or config.BOUNDSCHECK:
        raise ValueError("more than code, or other code")
    if not without_numba.possible():
        raise ValueError("other settings, or another system")
    kinds = kinds_of(signature.args)
    path = without_numba.place(function, kinds, config.CACHE_DIR)
    try:
        without_numba.read(function, kinds, path)
    except Exception:  # of any kind: it is to be written
        needs = undefined(code)
        for name, address in without_numba.addresses(needs).items():
            if name != without_numba.UNPICKLE and address != binding.address_of_symbol(name):  # it is replaced
                raise LookupError(f"numba links another {name}") from None
        return path, without_numba.packed(
            {
                "made": without_numba.made(function),
                "kinds": kinds,
                "needs": needs,
                "array": dumps(np.ndarray).hex(),
                "wrapper": about.llvm_cpython_wrapper_name,
                "own": environment.env_name,
                "environments": {one.env_name: [_number(constant) for constant in one.consts] for one in environments},
            },
            code,
        )
    return None


def kinds_of(kinds: Iterable[types.Type]) -> str:
    """As `without_numba.kinds_of` names the arguments; an error for types that it has no word for."""
    return ",".join([_kind(kind) for kind in kinds])


def _kind(kind: Any) -> str:
    if isinstance(kind, types.Literal):  # for one value only, as a kernel calls another with a constant
        raise TypeError(kind)
    if type(kind) is types.Array:
        return without_numba.array_kind(_number(kind.dtype), kind.ndim, kind.layout, kind.mutable, kind.aligned)
    if type(kind) in (types.Tuple, types.UniTuple):
        return f"({kinds_of(kind.types)})"
    return _number(kind)


def _number(kind: Any) -> str:
    dtype = kind if isinstance(kind, np.dtype) else as_dtype(kind)
    return without_numba.SCALARS[dtype.type]


def undefined(code: bytes) -> list[str]:
    """The names that object code leaves to the linker, from its table of symbols (ELF, 64 bits)."""
    parts = {part.name(): part.data() for part in binding.ObjectFileRef.from_data(code).sections()}
    texts = parts[b".strtab"]
    entries = struct.iter_unpack("<IBBHQQ", parts[b".symtab"])  # name, kind, who sees it, section, value, size
    return [texts[at : texts.index(b"\0", at)].decode() for at, _, _, section, _, _ in entries if at and not section]

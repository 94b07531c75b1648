"""Compiled kernels run without loading numba, which takes longer than most plans.

numba's cache holds machine code, and that needs little of numba: LLVM's linker (llvmlite), and three small extension
modules that hold numba's memory and its errors. So the code of a kernel is written a second time, into a file that can
be linked without the rest, and a program that asked for it (`begin`) runs it from there (`Kernel`). What has
no such file, or one that does not fit, is left to numba, which then compiles the kernel or finds it in its own cache.

A file says what it was made by and for: versions, processor, the sources of all kernels. It is used only if all of that
is as it is now, and if its SHA-256 is right (`kernels/linking.py` writes it).
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import hashlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

WANTED = False  # whether kernels that are imported from now on run without numba
HARMLESS = {"NUMBA_CACHE_DIR", "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "NUMBA_NUM_THREADS"}  # for compiled code
SEAL = hashlib.sha256().digest_size
SIZE = struct.Struct("<Q")
UNPICKLE = "numba_unpickle"  # of the functions that compiled code calls, the one that is not numba's own
SCALARS = {np.dtype(kind).type: np.dtype(kind).str for kind in "?bhilBHILfd"} | {bool: "|b1", float: "<f8"}
MANY = 20_000  # calls of one kernel that take longer together than loading numba
LITTLE = 200_000  # turns of the loops of one kernel that take Python no longer than numba takes to compile it
LOCK = threading.Lock()
BEFORE_NUMBA: list[Callable[[], None]] = []  # called once each


def begin(load_numba: Callable[[], None]) -> None:
    """Before kernels are imported, in a program that calls few of them: each call takes some microseconds longer.

    `load_numba` is called before numba is needed for the first time, which is now if it must be.
    """
    global WANTED
    WANTED = "numba" not in sys.modules and possible()
    if WANTED:
        BEFORE_NUMBA.append(load_numba)
    else:
        load_numba()


def possible() -> bool:
    """Whether this is a system on which it was tried, and numba's settings are the default where they change code."""
    here = sys.platform == "linux" and os.uname().machine == "x86_64" and sys.implementation.name == "cpython"
    asked = any(name.startswith("NUMBA_") and name not in HARMLESS for name in os.environ)
    return here and not asked and not os.path.exists(".numba_config.yaml")


class Kernel:
    """A compiled function that needs numba only for types of arguments it has no file for.

    If it is known how much `work` a call is, at most, not even then: Python runs the function itself, up to LITTLE in
    all. It gives the same bits.
    """

    def __init__(self, function: FunctionType, make: Callable[[], Any], work: Callable[..., int] | None = None) -> None:
        self.py_func = function
        self._make = make
        self._work = work
        self._done = 0
        self._dispatcher: Any = None
        self._runs: dict[str, Any] = {}
        self._calls = 0

    def __call__(self, *args: Any, **named: Any) -> Any:
        run = self._dispatcher
        if run is None and not named and self._calls < MANY:
            self._calls += 1
            with suppress(Exception):  # of any kind: numba compiles what cannot be read
                kinds = kinds_of(args)
                run = self._runs.get(kinds) or self._loaded(kinds)
            if run is None and self._work is not None:
                self._done += self._work(*args)
                run = self._interpreted if self._done <= LITTLE else None
        return (run or self.numba())(*args, **named)

    def _interpreted(self, *args: Any) -> Any:
        with np.errstate(all="ignore"):  # as compiled code does
            return _as_compiled(self.py_func(*args))

    def _loaded(self, kinds: str) -> Any:
        with LOCK:  # another thread may have loaded it meanwhile
            return self._runs.get(kinds) or self._runs.setdefault(kinds, load(self.py_func, kinds))

    def numba(self) -> Any:
        """What numba makes of the function, from now on. It does not know this class, so that it must not meet one."""
        if self._dispatcher is None:
            while BEFORE_NUMBA:
                BEFORE_NUMBA.pop()()
            self._dispatcher = self._make()
            names = self.py_func.__globals__
            for name, value in list(names.items()):
                if isinstance(value, Kernel):
                    names[name] = value.numba()
        return self._dispatcher


def _as_compiled(value: Any) -> Any:
    """With Python's numbers for numpy's."""
    if isinstance(value, tuple):
        return tuple(map(_as_compiled, value))
    return value.item() if isinstance(value, np.generic) else value


def kinds_of(values: Iterable[Any]) -> str:
    """The types of arguments as numba tells them apart, in a text; TypeError for any but numbers, arrays and tuples."""
    return ",".join([_kind(value) for value in values])


def _kind(value: Any) -> str:
    kind = type(value)
    if kind is np.ndarray:
        flags, dtype = value.flags, value.dtype
        if dtype.type not in SCALARS:
            raise TypeError(dtype)
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return array_kind(dtype.str, value.ndim, order, flags.writeable, flags.aligned)
    if kind is tuple:
        return f"({kinds_of(value)})"
    if kind is int and -(2**63) <= value < 2**63:
        return "<i8"
    return SCALARS[kind]


def array_kind(dtype: str, ndim: int, order: str, writeable: bool, aligned: bool) -> str:
    return f"{dtype}{order}{ndim}{writeable:d}{aligned:d}"


def read(function: FunctionType, kinds: str, path: Path) -> tuple[dict[str, Any], bytes]:
    """What a file says of its code, and the code; an error of any kind if it is not for these arguments, here, now."""
    data = path.read_bytes()
    seal, content = data[:SEAL], data[SEAL:]
    if hashlib.sha256(content).digest() != seal:
        raise ValueError(f"{path} is damaged")
    size = SIZE.unpack_from(content)[0] + SIZE.size
    about = json.loads(content[SIZE.size : size])
    if about["made"] != made(function) or about["kinds"] != kinds:
        raise ValueError(f"{path} was made for something else")
    return about, content[size:]


def packed(about: dict[str, Any], code: bytes) -> bytes:
    """The content of a file that `read` reads."""
    text = json.dumps(about).encode()
    content = SIZE.pack(len(text)) + text + code
    return hashlib.sha256(content).digest() + content


def load(function: FunctionType, kinds: str) -> Any:
    """The function as numba compiled it for such arguments, linked anew; an error of any kind if there is no file."""
    from llvmlite import binding

    about, code = read(function, kinds, place(function, kinds, os.environ.get("NUMBA_CACHE_DIR")))
    for name, address in (addresses(about["needs"]) | {UNPICKLE: _address(_unpickle)}).items():
        binding.add_symbol(name, address)
    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    ARRAYS.add(bytes.fromhex(about["array"]))
    _, functions, _ = extensions()
    environments = {name: functions.Environment({}) for name in about["environments"]}  # what compiled code looks up
    variables = {name: engine.get_global_value_address(name) for name in environments}
    address, own = engine.get_function_address(about["wrapper"]), environments[about["own"]]
    if not all([address, *variables.values()]):
        raise LookupError("the code does not have what it should")
    for name, environment in environments.items():
        environment.consts.extend(np.dtype(constant) for constant in about["environments"][name])
        ctypes.c_void_p.from_address(variables[name]).value = id(environment)
    keep = (engine, environments)
    return functions.make_function(sys.modules[__name__], function.__name__, "", address, own, keep)


def place(function: FunctionType, kinds: str, asked: str | None) -> Path:
    """The file of a function and types of arguments: beside its source, or in the folder that numba is asked to use."""
    source = Path(function.__code__.co_filename)
    folder = Path(asked, "conrl") if asked else source.parent / "__pycache__"
    unique = hashlib.sha256(f"{source} {kinds}".encode()).hexdigest()[:16]
    name = f"{source.stem}.{function.__qualname__}-{function.__code__.co_firstlineno}"
    return folder / f"{name}.{sys.implementation.cache_tag}.{unique}.linked"


def made(function: FunctionType) -> str:
    """All that compiled code depends on beside its arguments, as one digest."""
    source, code = function.__code__.co_filename, function.__code__.co_code.hex()
    return hashlib.sha256(json.dumps([_surroundings(), source, _stamp(source), code]).encode()).hexdigest()


@cache
def _surroundings() -> list[Any]:
    import llvmlite
    from llvmlite import binding

    home = Path(_numba_home())
    kernels = sorted(Path(__file__).with_name("kernels").glob("*.py"))
    files = [__file__, *map(str, kernels), *(module.__file__ for module in extensions())]
    processor = [binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), binding.get_process_triple()]
    versions = [sys.version, np.__version__, llvmlite.__version__, (home / "_version.py").read_text()]
    return [*versions, *processor, [[file, _stamp(str(file))] for file in files]]


@cache
def _stamp(file: str) -> str:
    """Of its content: that a file was written at some time says little, and nothing in a reproducible build."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def addresses(names: Iterable[str]) -> dict[str, int]:
    """Of all names that code needs; an error if one has none, as the linker would end the process."""
    known, process = _known(), ctypes.CDLL(None)
    return {name: known.get(name) or _address(process[name]) for name in names}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


ARRAYS: set[bytes] = set()  # how numba writes the class of arrays


def _unpickled(at: int, size: int, digest: int) -> Any:
    """What compiled code asks for: the class of its arrays, or an error to raise, which numba has to make."""
    data = ctypes.string_at(at, size)
    if data in ARRAYS:
        return np.ndarray
    return importlib.import_module("numba.core.serialize")._numba_unpickle(at, data, ctypes.string_at(digest, 20))


# Ctrl-C must not be raised within, where compiled code gets no answer then: as a part of numba, it is left to its end
# (`conrl.signals.CLOSED`).
_as_numba = FunctionType(_unpickled.__code__, globals() | {"__name__": "numba"})
_unpickle = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(_as_numba)


@cache
def _known() -> dict[str, int]:
    """What numba adds to the names of the process: its own, and exceptions, of which compiled code has the objects."""
    helpers, dynamic, memory = extensions()
    errors = [kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, BaseException)]
    known = dict(helpers.c_helpers)  # those of mathematics have no prefix
    known |= {f"numba_{name}": address for part in (helpers, dynamic) for name, address in part.c_helpers.items()}
    known |= {name if name[0] == "_" else f"NRT_{name}": address for name, address in memory.c_helpers.items()}
    return known | {f"PyExc_{kind.__name__}": id(kind) for kind in errors} | {"_Py_NoneStruct": id(None)}


def _engine() -> Any:
    """LLVM's linker, one for each kernel, so that names in two of them are not the same thing."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)  # which the engine then owns
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


@cache
def extensions() -> tuple[ModuleType, ModuleType, ModuleType]:
    """numba's extension modules of helpers, of functions and of memory, under the names by which numba imports them:
    Python then gives it the same ones."""
    helpers, dynamic, memory = map(_extension, ("_helperlib", "_dynfunc", "core.runtime._nrt_python"))
    if "numba" not in sys.modules:  # as numba does
        memory.memsys_use_cpython_allocator()
        atexit.register(memory.memsys_shutdown)
    return helpers, dynamic, memory


def _extension(name: str) -> ModuleType:
    full = f"numba.{name}"
    if full in sys.modules:
        return sys.modules[full]
    folder = os.path.join(_numba_home(), *name.split(".")[:-1])
    spec = importlib.machinery.PathFinder.find_spec(full, [folder])
    if spec is None or spec.loader is None:
        raise ImportError(full)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(full, None)  # where numba would miss that it is a part of it
    return module


@cache
def _numba_home() -> str:
    spec = importlib.util.find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError("numba")
    return os.path.dirname(spec.origin)

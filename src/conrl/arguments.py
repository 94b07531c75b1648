"""Checks of arguments: numbers, flags, words, arrays. Each refusal names the culprit and the remedy.

scipy.sparse is loaded only for those who pass its matrices: it takes longer to load than a plan takes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from conrl._types import Array, Float
from conrl.errors import ConRLError, ModelError, SpecError, shown, unknown

LARGEST = 1e150  # of a reward, cost or bonus: its square, and its sum over the horizon, still fit a double


def is_sparse(values: Any) -> bool:
    """Whether it is a matrix of scipy.sparse; before that is loaded, nobody has one."""
    issparse = _if_loaded("scipy.sparse", "issparse")
    return issparse is not None and bool(issparse(values))


def any_array(values: Any, what: str, of: str = "") -> Array:
    if type(values) is np.ndarray:
        return values
    if is_masked(values) or (isinstance(values, (list, tuple)) and any(map(is_masked, values))):
        raise _masked(what)
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{what} is not an array{of}: {error}") from None


def float_array(values: Any, what: str) -> Float:
    array = any_array(values, what, " of numbers")
    try:
        if array.dtype.kind not in "fiub":
            array = array.astype(object)
            if any(map(is_masked, array.flat)):
                raise _masked(what)
            array = array.astype(np.float64)
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{what} is not an array of numbers: {error}") from None


def _masked(what: str) -> ModelError:
    return ModelError(
        f"{what} is a masked array, whose mask would be ignored; pass {what}.filled(0) or other numbers, "
        "and leave out actions with `available`"
    )


def is_masked(values: Any) -> bool:
    """Whether it is a masked array of numpy; before numpy.ma is loaded, nobody has one."""
    kind = _if_loaded("numpy.ma", "MaskedArray")
    return kind is not None and isinstance(values, kind)


def _if_loaded(module: str, name: str) -> Any:
    """A name of a module that is loaded; None if it is not, or only in part yet."""
    return getattr(sys.modules.get(module), name, None)


def held(values: Any) -> Any:
    """A copy of what somebody passed, to keep: later changes to their list, mapping or array do nothing to it."""
    if type(values) is np.ndarray and not values.flags.writeable and values.base is None:
        return values  # nobody can change it
    if isinstance(values, Mapping):
        return {name: held(value) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(map(held, values))
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return list(map(held, values))
    # A masked array is refused by those who read it; a number of numpy cannot be changed.
    if is_masked(values) or isinstance(values, np.generic) or not hasattr(values, "__array__"):
        return values
    own = np.array(values)
    own.flags.writeable = False
    return own


def check_text(text: str, what: str) -> str:
    """A name that every file can keep: no half of a character (a lone surrogate), and no NUL."""
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in (() if text.isascii() else text)):
        bad = next(c for c in text if c == "\0" or "\ud800" <= c <= "\udfff")
        raise ModelError(f"{what} has {shown(text)}; {bad!r} is no character that files can keep: rename it")
    return text


def read_count(value: Any, what: str, least: int = 1, most: float = 2**53, error: type[ConRLError] = SpecError) -> int:
    """A whole number: how many of something."""
    if not is_int(value) or value < least:
        raise error(f"{what} is {shown(value)}; it must be a whole number of at least {least}", key=(what,))
    if value > most:
        raise error(f"{what} is {shown(value)}; at most {most:,} are supported", key=(what,))
    return int(value)


def read_flag(value: Any, what: str) -> bool:
    """True or False, also as 0 or 1."""
    if not isinstance(value, (bool, np.bool_)) and not (is_int(value) and value in (0, 1)):
        raise SpecError(f"{what} is {shown(value)}; it must be True or False", key=(what,))
    return bool(value)


def read_choice(value: Any, what: str, options: Iterable[str]) -> str:
    """One of several words."""
    if not isinstance(value, str) or value not in options:
        raise SpecError(unknown(what, value, options), key=(what,))
    return value


def read_number(value: Any, what: str, least: float = -LARGEST) -> float:
    """A finite number."""
    if not is_number(value) or not least <= value <= LARGEST:
        wanted = "finite number" if least < 0.0 else f"number of at least {least:g}"
        raise SpecError(f"{what} is {shown(value)}; it must be a {wanted}, and at most {LARGEST:g}", key=(what,))
    return float(value)


def read_seed(seed: Any) -> int:
    """What randomness comes from."""
    if not is_int(seed) or seed < 0:
        raise SpecError(f"seed is {shown(seed)}; it must be a whole number of at least 0", key=("seed",))
    return int(seed)


def read_generator(generator: Any) -> np.random.Generator:
    if not isinstance(generator, np.random.Generator):
        raise SpecError(f"generator is {shown(generator)}; it must be a numpy.random.Generator")
    return generator


def is_list(values: Any) -> bool:
    """Whether it has a length; arrays without dimensions and sparse ones have the method, but no length."""
    try:
        return len(values) >= 0
    except TypeError:
        return False


def is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """A finite number, not a truth value."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:
        return False


def frozen(array: Array) -> Array:
    """A contiguous array nobody can write to; copied where somebody else could."""
    own = np.ascontiguousarray(array)
    if own.flags.writeable or own.base is not None:  # a read-only view may have a base that can be written to
        if own is array or own.base is not None:
            own = own.copy()
        own.flags.writeable = False
    return own


def sealed(array: Array) -> Array:
    """The same of an array that nobody else has: not copied if it is contiguous."""
    own = array if array.flags.c_contiguous else array.copy()
    own.setflags(write=False)
    return own


def setter(target: object) -> Any:
    """Sets attributes of an object that is immutable, while it is being made."""
    return partial(object.__setattr__, target)


def read_preset(presets: Mapping[str, Mapping[str, Any]], preset: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a preset, each replaced by what was given instead; None is nothing given."""
    read_choice(preset, "preset", presets)
    return {name: value if given[name] is None else given[name] for name, value in presets[preset].items()}


def read_positive(value: Any, name: str, zero: bool = False) -> float:
    """A finite number above 0, or of at least 0."""
    if not is_number(value) or value < 0.0 or (value == 0.0 and not zero):
        wanted = f"a number {'of at least' if zero else 'above'} 0"
        raise SpecError(f"{name} is {shown(value)}; it must be {wanted}", key=(name,))
    return float(value)


def read_delta(delta: Any) -> float:
    """A failure probability."""
    if not is_number(delta) or not 0.0 < delta <= 1.0:
        raise SpecError(f"delta is {shown(delta)}; a failure probability is in (0, 1]", key=("delta",))
    return float(delta)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with `count` arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # it does not say
        pass
    return True


def needs(function: Callable[..., Any], count: int, least: int) -> bool:
    """Whether a function that may be told `count` or only `least` arguments needs `count` of them.

    What may be left out has a value of its own, and a `*` needs nothing.
    """
    return takes(function, count) and not takes(function, least)

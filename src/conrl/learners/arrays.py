"""Arrays by name, in groups: how the parts of a learner share one file."""

from __future__ import annotations

from collections.abc import Mapping

from conrl._types import Array, Arrays
from conrl.errors import RunError


def group(state: Arrays, prefix: str) -> dict[str, Array]:
    """The arrays whose names begin so, without the prefix."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def prefixed(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    """The opposite of `group`: the same arrays, with a prefix to their names."""
    return {f"{prefix}{name}": array for name, array in state.items()}


def saved_count(state: Arrays, name: str) -> int:
    """A whole number of at least 0."""
    array = state[name]
    if array.shape != () or array.dtype.kind not in "iu" or array < 0:
        raise RunError(f"{name} is {array}; it must be a whole number of at least 0")
    return int(array)

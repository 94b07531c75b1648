"""What both kinds of model files need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conrl.errors import ModelError, unknown


@contextmanager
def about(path: Path) -> Iterator[None]:
    """Puts the file's name before what the model's validation says."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def start_index(initial: Any, names: Sequence[str] | None, num_states: int) -> Any:
    """`initial` with the name of a state looked up."""
    if not isinstance(initial, str):
        return initial
    known = names if names is not None else [str(s) for s in range(num_states)]
    if initial not in known:
        raise ModelError(f"initial: {unknown('state', initial, known[:1000])}")
    return list(known).index(initial)

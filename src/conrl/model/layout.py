"""Where the states of a grid world lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conrl._types import Int
from conrl.arguments import check_text, frozen, setter


@dataclass(frozen=True)
class Layout:
    """Where the states of a grid world lie, for those who draw it.

    `rows` is the map as text, one character a cell; `cell[s]` is the index (row-major) of the cell that the
    agent occupies in state s, or -1 for a state that is nowhere on the map; `arrows` gives one sign per action.
    """

    rows: tuple[str, ...]
    cell: Int  # [S]
    arrows: tuple[str, ...] = ("↑", "↓", "←", "→")

    def __post_init__(self) -> None:
        put = setter(self)
        put("rows", tuple(check_text(str(row), "layout rows") for row in self.rows))
        put("arrows", tuple(check_text(str(arrow), "layout arrows") for arrow in self.arrows))
        put("cell", frozen(np.asarray(self.cell, dtype=np.int64)))

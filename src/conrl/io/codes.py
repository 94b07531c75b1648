"""Names in the cells of a table, numbered by first appearance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from conrl._types import Int

C = TypeVar("C")  # what a cell is: a text, in a workbook perhaps a number


class Codes(dict[C, int]):
    """The number of each cell met so far; `clean` finds the name in a cell, which may write one name in two ways."""

    def __init__(self, clean: Callable[[C], str]) -> None:
        self.clean = clean
        self.number: dict[str, int] = {}  # of each name

    def __missing__(self, cell: C) -> int:
        self[cell] = code = self.number.setdefault(self.clean(cell), len(self.number))
        return code

    def of(self, cells: Sequence[C]) -> Int:
        """[n]: the number of the name in each cell."""
        return np.fromiter(map(self.__getitem__, cells), np.int64, len(cells))

"""Maps as text: what the grid worlds share.

A map is a list of rows, or one text with a row a line; blanks between the cells are ignored. The legend:

    S   start (exactly one)         W #  wall
    G   goal (at least one)         P    rock
    0 . free cell                   X    box (only where a world has one)

Rows and columns count from 0, and cell "r2c3" is row 2, column 3. The four moves are up, down, left, right, in
this order; a move off the map or into a wall stays put. With probability `slip` a move is replaced by one drawn
uniformly from all four, so that the intended one still happens with probability 1 - slip + slip / 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conrl._types import Float, Float32, Int
from conrl.envs.chains import read_probability
from conrl.errors import ModelError, shown
from conrl.model.reading import read_horizon

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

_SAME = {".": "0", "#": "W"}


@dataclass(frozen=True)
class GridMap:
    """A checked map. Cells here are the free ones, numbered row by row; n of them."""

    rows: tuple[str, ...]
    row: Int  # [n]
    column: Int  # [n]
    kind: NDArray[np.str_]  # [n]: the character of each
    target: Int  # [n, 4]: the cell that each move leads to
    walls: Int  # [n]: on how many of its four sides a cell has a wall or the edge of the map

    @property
    def size(self) -> int:
        return self.row.size

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    @property
    def names(self) -> list[str]:
        return [f"r{r}c{c}" for r, c in zip(self.row, self.column, strict=True)]

    @property
    def position(self) -> Int:
        """[n]: the index of each cell in the whole map, walls included, row by row."""
        return self.row * self.shape[1] + self.column

    def where(self, kind: str) -> Int:
        return np.flatnonzero(self.kind == kind)

    def images(self) -> Float32:
        """[n, rows, columns]: a picture for each cell that is 1 there and 0 elsewhere."""
        pictures = np.zeros((self.size, *self.shape), dtype=np.float32)
        pictures[np.arange(self.size), self.row, self.column] = 1.0
        return pictures


def read_map(rows: str | Sequence[str], *, once: str = "S", legend: str = "SG0PW") -> GridMap:
    """Check a map and number its free cells. Each character of `once` must occur exactly once."""
    lines = _lines(rows)
    for r, line in enumerate(lines):
        if len(line) != len(lines[0]):
            raise ModelError(f"map row {r} has {len(line)} cells and row 0 has {len(lines[0])}; a map is a rectangle")
        for c, sign in enumerate(line):
            if sign not in legend:
                raise ModelError(
                    f"map row {r}, column {c} (counting from 0) is {shown(sign)}; known signs: {' '.join(legend)}"
                )
    grid = np.array([list(line) for line in lines])
    for sign in once:
        cells = [f"r{r}c{c}" for r, c in np.argwhere(grid == sign)]
        if len(cells) != 1:
            there = f" ({', '.join(cells)})" if cells else ""
            raise ModelError(f"the map has {len(cells)} cells {sign!r}{there}; it needs exactly one")
    if not (grid == "G").any():
        raise ModelError("the map has no goal; mark at least one cell 'G'")
    return _with_neighbours(lines, grid)


def _lines(rows: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(rows, str):
        texts = [line for line in rows.splitlines() if line.strip()]
    elif isinstance(rows, Sequence) and all(isinstance(line, str) for line in rows):
        texts = list(rows)
    else:
        raise ModelError(f"a map is a text or a list of texts, one a row; got {rows!r}")
    lines = tuple("".join(_SAME.get(sign, sign) for sign in line if not sign.isspace()) for line in texts)
    if not lines or not lines[0]:
        raise ModelError("the map is empty")
    return lines


def _with_neighbours(lines: tuple[str, ...], grid: NDArray[np.str_]) -> GridMap:
    """Number the free cells, and find out where each move leads."""
    free = grid != "W"
    number = np.full((grid.shape[0] + 2, grid.shape[1] + 2), -1)  # a margin of walls spares every edge case
    number[1:-1, 1:-1][free] = np.arange(free.sum())
    row, column = np.nonzero(free)
    beside = np.stack([number[row + 1 + dr, column + 1 + dc] for dr, dc in MOVES.values()], axis=1)
    stay = np.arange(row.size)[:, None]
    return GridMap(
        rows=lines,
        row=row.astype(np.int64),
        column=column.astype(np.int64),
        kind=grid[free],
        target=np.where(beside < 0, stay, beside).astype(np.int64),
        walls=(beside < 0).sum(axis=1).astype(np.int64),
    )


def slip_matrix(slip: float) -> Float:
    """[4, 4]: the probability that choosing one move makes another."""
    slip = read_probability(slip, "slip")
    return (1.0 - slip) * np.eye(4) + slip / 4.0


def per_step(horizon: int) -> float:
    """1/H, what is paid a step after an end was reached."""
    return 1.0 / read_horizon(horizon)

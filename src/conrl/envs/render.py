"""Drawing a state of a model: as text, and as an RGB picture in plain numpy.

What is drawn comes from the model's `layout`: the map, and the cell of the agent. Where the features are pictures
of that map (`[S, 2, rows, columns]`, as the grid worlds have), the second says where things lie in this state;
that is how a box that was pushed is found. A model without a layout is drawn as a field of its states.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from conrl._types import Bool, Float
from conrl.model import ConstrainedMDP
from conrl.model.layout import Layout

Image = NDArray[np.uint8]

CELL = 48  # pixels
FINE = 4  # each is the mean of FINE x FINE, which smooths the edges
WIDEST = 512  # pixels, for the field of a model without a map
STRIP = 60  # states that fit a line of text

FLOOR, LINE, WALL, BRICK = (244, 240, 232), (218, 212, 200), (92, 92, 100), (76, 76, 84)
GOAL, POLE, START = (62, 160, 86), (70, 62, 54), (250, 222, 150)
ROCK, SHINE, HOLE, CLIFF = (150, 82, 58), (190, 122, 94), (70, 130, 180), (190, 80, 60)
BOX, PLANK = (196, 148, 84), (140, 98, 48)
AGENT, LENS = (38, 76, 160), (236, 242, 255)

HAZARDS = {"P": "rock", "H": "hole", "C": "cliff"}


def text(mdp: ConstrainedMDP, state: int) -> str:
    """The map with the agent as `@`, or the agent as `@` in a row of all states."""
    title = f"state {mdp.state_name(state)}"
    if mdp.layout is None:
        if mdp.num_states > STRIP:
            return f"{title} ({state + 1} of {mdp.num_states})"
        return f"{title}\n{'.' * state}@{'.' * (mdp.num_states - state - 1)}"
    signs = [list(row) for row in mdp.layout.rows]
    things = _things(mdp, mdp.layout, state)
    for r, row in enumerate(signs):
        for c, sign in enumerate(row):
            if sign in "X0":
                row[c] = "X" if things is not None and things[r, c] else "."
    where = int(mdp.layout.cell[state])
    if where >= 0:
        r, c = divmod(where, len(signs[0]))
        signs[r][c] = "@"
    return "\n".join([title, *(" ".join(row) for row in signs)])


def picture(mdp: ConstrainedMDP, state: int) -> Image:
    """[height, width, 3]: the map with the agent on it."""
    if mdp.layout is None:
        return _field(mdp.num_states, state)
    things = _things(mdp, mdp.layout, state)
    where = int(mdp.layout.cell[state])
    bands = []
    for r, row in enumerate(mdp.layout.rows):
        tiles = []
        for c, sign in enumerate(row):
            thing = bool(things is not None and things[r, c]) and sign not in HAZARDS
            tiles.append(_tile(sign, thing, r * len(row) + c == where))
        bands.append(np.concatenate(tiles, axis=1))
    return np.concatenate(bands, axis=0)


def _things(mdp: ConstrainedMDP, layout: Layout, state: int) -> Bool | None:
    """[rows, columns]: where things lie in this state; None if the features are no pictures that say so."""
    if mdp.features is None or mdp.features.shape[1:] != (2, len(layout.rows), len(layout.rows[0])):
        return None
    return np.asarray(mdp.features[state, 1] > 0)


def _field(count: int, state: int) -> Image:
    """A square for each state, row by row; large ones are set apart by a line."""
    columns = int(np.ceil(np.sqrt(count)))
    size = max(1, min(CELL // 2, WIDEST // columns))
    rows = -(-count // columns)
    colours = np.full((rows * columns, 3), LINE, dtype=np.uint8)
    colours[:count] = FLOOR
    colours[state] = AGENT
    image = colours.reshape(rows, columns, 3).repeat(size, axis=0).repeat(size, axis=1)
    if size > 4:
        image[::size] = image[:, ::size] = LINE
    return image


# -- the tiles: shapes are conditions on x (right) and y (down), both from -1 to 1 within a cell ----------------


@lru_cache(maxsize=128)
def _tile(sign: str, thing: bool, agent: bool) -> Image:
    steps = (np.arange(CELL * FINE) + 0.5) / (CELL * FINE) * 2.0 - 1.0
    x, y = np.meshgrid(steps, steps)
    canvas = np.empty((CELL * FINE, CELL * FINE, 3))
    canvas[...] = FLOOR
    _ground(sign)(canvas, x, y)
    if thing:
        _crate(canvas, x, y)
    if agent:
        _rover(canvas, x, y)
    if sign not in "W#C":
        canvas[np.maximum(np.abs(x), np.abs(y)) > 0.97] = LINE
    smooth: Image = canvas.reshape(CELL, FINE, CELL, FINE, 3).mean(axis=(1, 3)).round().astype(np.uint8)
    smooth.flags.writeable = False
    return smooth


def _ground(sign: str) -> Callable[[Float, Float, Float], None]:
    return {"W": _wall, "#": _wall, "G": _flag, "S": _mat, "P": _rock, "H": _hole, "C": _cliff}.get(sign, _bare)


def _bare(canvas: Float, x: Float, y: Float) -> None:
    """Free floor; also for signs that only the text shows."""


def _wall(canvas: Float, x: Float, y: Float) -> None:
    canvas[...] = WALL
    course = np.floor((y + 1.0) * 2.0)
    joint = np.abs(np.mod(x + 0.5 * np.mod(course, 2.0), 1.0) - 0.5) < 0.04
    canvas[joint | (np.mod((y + 1.0) * 2.0, 1.0) < 0.14)] = BRICK


def _mat(canvas: Float, x: Float, y: Float) -> None:
    canvas[np.maximum(np.abs(x), np.abs(y)) < 0.8] = START


def _flag(canvas: Float, x: Float, y: Float) -> None:
    canvas[((x + 0.36) ** 2 + ((y - 0.72) * 3.0) ** 2) < 0.16] = LINE
    canvas[(np.abs(x + 0.36) < 0.06) & (np.abs(y) < 0.74)] = POLE
    canvas[(x > -0.3) & (np.abs(y + 0.34) < 0.38 * (1.0 - (x + 0.3) / 0.95)) & (x < 0.65)] = GOAL


def _rock(canvas: Float, x: Float, y: Float) -> None:
    turn = np.arctan2(y, x)
    edge = 0.78 + 0.06 * np.cos(3.0 * turn + 0.6) + 0.04 * np.cos(5.0 * turn)
    canvas[np.hypot(x, y) < edge] = ROCK
    canvas[np.hypot(x + 0.3, y + 0.32) < 0.24] = SHINE


def _hole(canvas: Float, x: Float, y: Float) -> None:
    canvas[np.hypot(x, y) < 0.68] = HOLE


def _cliff(canvas: Float, x: Float, y: Float) -> None:
    canvas[...] = CLIFF
    canvas[y < -0.72 + 0.12 * np.cos(3.0 * np.pi * x)] = FLOOR


def _crate(canvas: Float, x: Float, y: Float) -> None:
    reach = np.maximum(np.abs(x), np.abs(y))
    canvas[reach < 0.72] = PLANK
    canvas[(reach < 0.58) & (np.abs(np.abs(x) - np.abs(y)) > 0.1)] = BOX


def _rover(canvas: Float, x: Float, y: Float) -> None:
    canvas[np.hypot(x, y) < 0.56] = LENS  # a rim, to stand out from whatever lies below
    canvas[np.hypot(x, y) < 0.49] = AGENT
    canvas[np.hypot(x - 0.17, y + 0.17) < 0.16] = LENS

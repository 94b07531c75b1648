"""What Gymnasium's toy-text environments do not say themselves: names, maps, and dynamics missing from `P`."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv

from conrl.model.layout import Layout

ARROWS = {"up": "↑", "down": "↓", "left": "←", "right": "→", "north": "↑", "south": "↓", "west": "←", "east": "→"}

Description = tuple[list[str] | None, tuple[str, ...] | None, Layout | None]


def refusal(inner: Any) -> str | None:
    """Why `P` is not the whole truth about this environment, if so."""
    if isinstance(inner, TaxiEnv) and vars(inner).get("fickle_passenger"):  # since Gymnasium 1.2
        return (
            "with fickle_passenger the destination changes on the way, which is not in P and depends on more than "
            "the state; make it without, or learn it with conrl.learn"
        )
    return None


def describe(inner: Any) -> Description:
    """State names, action names and layout, where the environment is a known one."""
    if isinstance(inner, FrozenLakeEnv):
        rows = tuple(b"".join(row).decode() for row in np.asarray(inner.desc))
        return _grid(rows, ("left", "down", "right", "up"))
    if isinstance(inner, CliffWalkingEnv):
        return _grid(("0" * 12, "0" * 12, "0" * 12, "S" + "C" * 10 + "G"), ("up", "right", "down", "left"))
    if isinstance(inner, TaxiEnv):
        return _taxi(inner)
    return None, None, None


def _grid(rows: tuple[str, ...], actions: tuple[str, ...]) -> Description:
    """One state a cell, row by row."""
    names = [f"r{r}c{c}" for r, row in enumerate(rows) for c in range(len(row))]
    return names, actions, Layout(rows, np.arange(len(names)), tuple(ARROWS[a] for a in actions))


def _taxi(inner: TaxiEnv) -> Description:
    """500 states: the taxi's cell, where the passenger is, where to. The four stops are small letters on the map."""
    stops = "rgyb"
    cells = [["0"] * 5 for _ in range(5)]
    for stop, (r, c) in zip(stops, inner.locs, strict=True):
        cells[r][c] = stop
    decoded = [inner.decode(s) for s in range(500)]
    names = [f"taxi r{r}c{c} passenger {(*stops, 'aboard')[p]} to {stops[d]}" for r, c, p, d in decoded]
    actions = ("south", "north", "east", "west", "pick up", "drop off")
    arrows = tuple(ARROWS.get(a, "+" if a == "pick up" else "-") for a in actions)
    cell = np.array([5 * r + c for r, c, _, _ in decoded], dtype=np.int64)
    return names, actions, Layout(tuple("".join(row) for row in cells), cell, arrows)

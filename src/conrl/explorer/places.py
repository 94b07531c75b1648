"""Where policies go and what they do there, column by column, as numbers that a page can mix.

Letters: rho(h, i, a) is the probability of being in place i at step h and playing a, under one column. The place is a
cell of the map or, without one that can be drawn, a state. A mixture of columns with weights w has rho = sum_i w_i
rho_i, and its Markov form plays a in place i in proportion to it (Altman 1999, Theorem 6.1). So the page holds rho of
the columns, sparse, and mixes them itself. Without a horizon there is one rho, which counts as the model does:
discounted visits, visits until the end, or the share of time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conrl._types import Bool, Float, Int
from conrl.errors import SpecError
from conrl.explorer.subject import Subject
from conrl.explorer.surface import Column
from conrl.model import ConstrainedMDP
from conrl.model.layout import Layout
from conrl.policy_map import DIRECTIONS, KINDS, WALLS, absorbed, grid_layout

ENTRIES = 200_000  # of all rho together; some 8 bytes each
FEWEST = 12  # places listed at a step
MOST_LISTED = 64  # kept of each column and step, if there are more; the most visited ones
MOST_CELLS = 2_500  # of a map that a page can draw
MOST_MOVES = 15_000  # outcomes that a page holds for its diagram
MOST_STEPS = 2_000
UNIT = 1e-4  # in which probabilities are stored, as decimal fractions of it where places are visited seldom
EXACT = 4e-3  # of a place's mean over the steps: where its probabilities are rounded; a sum over steps is nearer
NEVER = 1e-4  # units to which at most it is rounded; 0 stands for less than half of what is rounded to


class Places:
    """The places of a subject, and rho of its columns in them."""

    def __init__(self, subject: Subject) -> None:
        assert subject.model is not None
        assert subject.user is not None
        self.model, self.user, self.steps = subject.model, subject.user, subject.steps
        user, model = self.user, self.model
        self.layout = _layout(user)
        cell = np.arange(user.num_states) if self.layout is None else self.layout.cell  # [S]; -1 for nowhere
        self.count = int(cell.max()) + 1
        self.actions = user.num_actions + 1
        # Where an episode has ended an action means nothing: it is counted as one more, the last.
        ended = np.zeros(user.num_states, dtype=bool) if user.step_dependent else absorbed(user, self.layout)
        self.source = subject.state[model.pair_state]  # [P]: the user's state
        place = cell[self.source]
        action = np.where(ended[self.source], user.num_actions, model.action)
        self.keys = np.where(place < 0, -1, place * self.actions + action)
        self.ended, self.second = ended, None if self.layout is None else _second_piece(user, self.layout)
        self.named: set[int] = set()

    def most_columns(self, most: int) -> int:
        """How many columns a page has room for, by the places that can be reached at each step."""
        each: Any = [self.count] if self.steps is None else self.user.reached.sum(axis=1)
        entries = int(np.minimum(each, min(self.count, MOST_LISTED)).sum())
        return max(min(ENTRIES // max(entries, 1), most), 2 * FEWEST)

    def visits(self, columns: list[Column]) -> dict[str, Any]:
        """For each column and step the keys (place x actions + action) with their rho; and the second piece's cells."""
        every = self.steps or 1
        room = ENTRIES // max(every * len(columns), 1)
        most = min(max(room, FEWEST), max(MOST_LISTED, self.count if self.layout else 0))
        first, second = [], []
        for column in columns:
            rho = np.zeros((self.model.repeats, self.model.num_pairs))
            if not column.skip:
                column.policy.add_occupation(self.model, 1.0, rho)
            tables = [self._listed(*self._step(rho, h), most) for h in range(every)]
            places = np.add.reduce(tables).reshape(self.count, self.actions).sum(axis=1)
            grain = np.repeat(_grain(places / every), self.actions)
            first.append([sparse(table, UNIT, grain) for table in tables])
            if self.second is not None:
                second.append([self._pieces(rho, h) for h in range(every)])
        return {"visits": first, "all": most >= self.count} | ({"second": second} if self.second is not None else {})

    def _step(self, rho: Float, h: int) -> tuple[Int, Float]:
        """The keys and probabilities of one step."""
        if self.model.step_dependent:
            at = self.model.pair_step == h
            return self.keys[at], rho[0][at]
        return self.keys, rho[h]

    def _listed(self, keys: Int, p: Float, most: int) -> Float:
        table: Any = np.bincount(keys[keys >= 0], p[keys >= 0], minlength=self.count * self.actions)
        table = table.reshape(self.count, self.actions)
        if most < self.count:
            table[np.argsort(-table.sum(axis=1), kind="stable")[most:]] = 0.0
        self.named.update(np.flatnonzero(table.any(axis=1)).tolist())
        flat: Float = table.ravel()
        return flat

    def _pieces(self, rho: Float, h: int) -> list[float]:
        assert self.second is not None
        at = self.model.pair_step == h if self.model.step_dependent else np.ones(self.source.size, dtype=bool)
        row = rho[0] if self.model.step_dependent else rho[h]
        cells = np.bincount(self.second[self.source[at]], row[at])
        return sparse(np.where(cells < UNIT / 2, 0.0, cells), UNIT)

    def description(self) -> dict[str, Any]:
        """What the places are called, or the map that they are on; after `visits`."""
        if self.layout is None:
            return {"names": {str(s): self.user.state_name(s) for s in sorted(self.named)}, "moves": self._moves()}
        signs = {sign for row in self.layout.rows for sign in row}
        return {
            "map": {
                "rows": list(self.layout.rows),
                "arrows": list(self.layout.arrows),
                "kinds": {sign: word for sign, word in KINDS.items() if sign in signs},
                "walls": WALLS,
                "directions": {sign: step for sign, step in DIRECTIONS.items() if sign in self.layout.arrows},
                "second": self.second is not None,
            }
        }

    def _moves(self) -> dict[str, list[float]] | None:
        """Of each key, where it leads and how likely; None where they are too many, or differ from step to step."""
        user, g = self.user, self.user.graph
        if user.step_dependent or self.steps is None or g.probability.size > MOST_MOVES:
            return None
        found: dict[str, list[float]] = {}
        for pair in np.flatnonzero(np.isin(user.pair_state, list(self.named)) & ~self.ended[user.pair_state]).tolist():
            at = slice(int(g.start[pair]), int(g.start[pair + 1]))
            key = int(user.pair_state[pair]) * self.actions + int(user.action[pair])
            where, which = np.unique(g.successor[at], return_inverse=True)
            p = np.bincount(which, g.probability[at])
            found[str(key)] = [x for s, q in zip(where.tolist(), p.tolist(), strict=True) for x in (s, round(q, 6))]
            self.named.update(where.tolist())
        return found


def _layout(mdp: ConstrainedMDP) -> Layout | None:
    try:
        layout = grid_layout(mdp)
    except SpecError:
        return None
    return layout if len(layout.rows) * len(layout.rows[0]) <= MOST_CELLS else None


def _second_piece(mdp: ConstrainedMDP, layout: Layout) -> Int | None:
    """[S]: the cell of a second piece on the map, where the features are two pictures of it: agent, piece."""
    shape = (len(layout.rows), len(layout.rows[0]))
    if mdp.features is None or mdp.features.shape != (mdp.num_states, 2, *shape):
        return None
    pictures = mdp.features.reshape(mdp.num_states, 2, -1)
    agent, piece = pictures.argmax(axis=2).T
    single: Bool = (pictures.sum(axis=2) == 1.0).all() and (pictures.max(axis=2) == 1.0).all()
    return piece if single and (agent == layout.cell).all() else None


def _grain(means: Float) -> Float:
    """Powers of ten of a unit, to which probabilities are rounded so that their mean is told: 1 or less.

    >>> _grain(np.array([0.5, 3e-5, 0.0])).tolist()
    [1.0, 0.001, 0.0001]
    """
    least = np.clip(EXACT * means / UNIT, NEVER, 1.0)
    return np.array([float(f"1e{np.floor(np.log10(x) + 1e-9):.0f}") for x in least])


def sparse(values: Any, unit: float, grain: Float | None = None) -> list[float]:
    """Where values are positive, as differences of indices, each followed by its value in units: a whole number, or a
    multiple of its `grain`.

    >>> sparse(np.array([0.0, 0.25, 0.0, 1.0]), 0.01)
    [1, 25, 2, 100]
    >>> sparse(np.array([0.0, 0.25, 0.00123456]), 0.01, np.array([1.0, 1.0, 0.001]))
    [1, 25, 1, 0.123]
    """
    at = np.flatnonzero(values > 0.0)
    fine = np.ones(at.size) if grain is None else grain[at]
    stored = [_shortest(round(x / g), g) for x, g in zip((values[at] / unit).tolist(), fine.tolist(), strict=True)]
    return [x for pair in zip(np.diff(at, prepend=0).tolist(), stored, strict=True) for x in pair]


def _shortest(count: int, grain: float) -> float:
    x = float(f"{count * grain:.9g}")
    return int(x) if x == int(x) else x

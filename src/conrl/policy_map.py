"""What a policy does, summed up by cell: a square of a map or, without a map, a state; as numbers and as text.

A policy depends on the step, a map does not. Each cell shows the actions by their share of the visits to that cell over
the whole episode, with all states in which the agent is there taken together. A cell is *mixed* if its second action
has more than a tenth of the visits, because the policy draws or because it changes with the step. In a state that has
ended actions mean nothing: such cells show how likely the episode is to end there. A state has ended where every action
stays and pays nothing; at a goal or a rock of a map it may pay, the same for all actions, since some models pay for an
end in every step that is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conrl._types import Bool, Float, Int
from conrl.errors import SpecError
from conrl.mixture import Mixture, parts_of
from conrl.model import ConstrainedMDP
from conrl.model.layout import Layout
from conrl.policy import Policy
from conrl.wording import percent

StyledRow = list[tuple[str, str]]  # pieces of text, each with a style in rich's words

MIXED = 0.1  # a second action with more than this share of a cell's visits makes it mixed
RARE = 0.01  # expected visits below which a cell hardly matters
SHOWN = 0.0005  # chance of ending in a cell below which it is not written there

FREE = "0.F "
WALLS = "W#"
ENDS = "GPHC"  # cells in which an episode may end
DIRECTIONS = {"↑": (0.0, -1.0), "↓": (0.0, 1.0), "←": (-1.0, 0.0), "→": (1.0, 0.0)}  # of arrows, down positive
KINDS = {"S": "start", "G": "goal", "P": "rock", "H": "hole", "C": "cliff", "X": "box at the start"}


@dataclass(frozen=True)
class Play:
    """What a policy does in each of n cells."""

    visits: Float  # [n]: expected number of steps there, ends apart
    shares: Float  # [n, A]: of each action in those; rows of cells never visited are zero
    ends: Float  # [n]: probability that the episode ends there

    def actions(self, cell: int) -> list[int]:
        """The actions to show: the most played one and, in a mixed cell, those with more than `MIXED`."""
        order = np.argsort(-self.shares[cell], kind="stable")
        return [int(a) for i, a in enumerate(order) if self.shares[cell, a] > (MIXED if i else 0.0)]


def state_play(mdp: ConstrainedMDP, policy: Policy | Mixture) -> Play:
    """What a policy does in each state; there are no ends."""
    return _play(mdp, policy, np.arange(mdp.num_states), mdp.num_states, np.zeros(mdp.num_states, dtype=bool))


def step_play(mdp: ConstrainedMDP, policy: Policy | Mixture, states: Int) -> tuple[Float, Float]:
    """Of a model whose steps differ: how likely each of `states` [n] is at each step [H, n], and the share of each
    action there [H, n, A]."""
    rho = np.zeros((1, mdp.num_pairs))
    for weight, part in parts_of(policy):
        part.add_occupation(mdp, weight, rho)
    column = np.full(mdp.num_states, -1)
    column[states] = np.arange(states.size)
    at = column[mdp.pair_state]
    kept = at >= 0
    table = np.zeros((mdp.horizon, states.size, mdp.num_actions))
    np.add.at(table, (mdp.pair_step[kept], at[kept], mdp.action[kept]), rho[0][kept])
    total = table.sum(axis=2)
    shares = np.divide(table, total[:, :, None], out=np.zeros_like(table), where=total[:, :, None] > 0.0)
    return total, shares


def grid_play(mdp: ConstrainedMDP, policy: Policy | Mixture) -> Play:
    """What a policy does in each cell of the model's map, walls included, row by row."""
    layout = grid_layout(mdp)
    return _play(mdp, policy, layout.cell, len(layout.rows) * len(layout.rows[0]), absorbed(mdp, layout))


def grid_layout(mdp: ConstrainedMDP) -> Layout:
    """The model's map, if it has one that can be drawn."""
    layout = mdp.layout
    if layout is None:
        raise SpecError("the model has no map to draw; save its policy as .csv, .npz or .json instead")
    widths = {len(row) for row in layout.rows}
    if len(widths) != 1 or 0 in widths:
        raise SpecError("the model's map cannot be drawn: its rows differ in length or are empty")
    if layout.cell.max(initial=-1) >= len(layout.rows) * widths.pop() or len(layout.arrows) != mdp.num_actions:
        raise SpecError("the model's map cannot be drawn: a state lies outside it, or an action has no arrow")
    return layout


def _play(mdp: ConstrainedMDP, policy: Policy | Mixture, cell: Int, count: int, ended: Bool) -> Play:
    """Counted in `cell` [S], of so many; -1 for nowhere. In states that have `ended` [S] only arrivals count."""
    rho = np.zeros((1, mdp.num_pairs))
    for weight, part in parts_of(policy):
        part.add_occupation(mdp, weight, rho)
    visits, source = rho[0], mdp.pair_state
    live = ~ended[source] & (cell[source] >= 0)
    table = np.zeros((count, mdp.num_actions))
    np.add.at(table, (cell[source[live]], mdp.action[live]), visits[live])
    total = table.sum(axis=1)
    shares = np.divide(table, total[:, None], out=np.zeros_like(table), where=total[:, None] > 0.0)
    ends = np.zeros(count)
    somewhere = cell >= 0
    np.add.at(ends, cell[somewhere], _arrivals(mdp, visits, ended)[somewhere])
    return Play(total, shares, ends)


def absorbed(mdp: ConstrainedMDP, layout: Layout | None) -> Bool:
    """[S]: every action stays and pays nothing; where a map marks an end, the same whatever is done."""
    g = mdp.graph
    source = np.repeat(mdp.pair_state, np.diff(g.start))
    leaves = np.bincount(source, weights=g.successor != source, minlength=mdp.num_states) > 0
    pays = np.bincount(source, weights=(mdp.pay_by_outcome != 0.0).any(axis=1), minlength=mdp.num_states) > 0
    ended = ~leaves & ~pays
    if layout is None:
        return ended
    low = np.minimum.reduceat(mdp.pay, g.first[:-1], axis=0)
    high = np.maximum.reduceat(mdp.pay, g.first[:-1], axis=0)
    same: Bool = (low == high).all(axis=1)
    marked = np.array([sign in ENDS for sign in "".join(layout.rows)])[layout.cell] & (layout.cell >= 0)
    return ended | (~leaves & marked & same)


def _arrivals(mdp: ConstrainedMDP, visits: Float, ended: Bool) -> Float:
    """[S]: the probability of starting in a state that has ended, or of coming to it from elsewhere."""
    g = mdp.graph
    outcomes = np.diff(g.start)
    enters = ended[g.successor] & ~np.repeat(ended[mdp.pair_state], outcomes)
    arrivals = mdp.initial * ended
    np.add.at(arrivals, g.successor[enters], (np.repeat(visits, outcomes) * g.probability)[enters])
    return arrivals


# -- text -------------------------------------------------------------------------------------------------


def policy_text(mdp: ConstrainedMDP, policy: Policy | Mixture, most: int | None = None) -> list[StyledRow]:
    """The map with the most played action of each cell as an arrow, several where it is mixed.

    One list for each row of the map, of (text, style); all texts have one width. If the rows are wider than `most`,
    the chances of ending in a cell are left out.
    """
    layout, done = grid_layout(mdp), grid_play(mdp, policy)
    columns = len(layout.rows[0])
    for ends in (True, False):
        cells = [
            [_cell_text(layout, done, r * columns + c, sign, ends) for c, sign in enumerate(row)]
            for r, row in enumerate(layout.rows)
        ]
        width = max(len(text) for row in cells for text, _ in row)
        if most is None or columns * (width + 1) <= most:
            break
    return [[((text * width if text == "█" else f"{text:{width}}") + " ", look) for text, look in row] for row in cells]


def _cell_text(layout: Layout, done: Play, i: int, sign: str, ends: bool) -> tuple[str, str]:
    if sign in WALLS:
        return "█", "dim"
    shown = done.actions(i)
    text = ("" if sign in FREE else sign) + "".join(layout.arrows[a] for a in shown)
    if ends and done.ends[i] >= SHOWN:
        text += " " + percent(done.ends[i])
    if sign in ENDS:
        return text, "bold green" if sign == "G" else "red"
    if done.visits[i] < RARE:
        return text or "·", "dim"
    return text, "bold magenta" if len(shown) > 1 else "bold" if done.visits[i] >= 0.5 else ""


def policy_legend(mdp: ConstrainedMDP, ends: bool = True) -> str:
    """The signs that `policy_text` uses for this model, in one line."""
    layout = grid_layout(mdp)
    signs = {sign for row in layout.rows for sign in row}
    words = [f"{sign} {word}" for sign, word in KINDS.items() if sign in signs]
    words += [
        f"{sign} {name}" for sign, name in zip(layout.arrows, mdp.action_names, strict=True) if sign not in DIRECTIONS
    ]
    words += ["█ wall"] if signs & set(WALLS) else []
    words += ["· never visited", *(["%: of episodes end there"] if ends else [])]
    return ", ".join(words)

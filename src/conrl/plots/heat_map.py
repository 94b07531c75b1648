"""A policy of a model without a map: states by steps, coloured by action.

Rows are states, those visited most first; columns are steps. A cell is divided in proportion to the actions that are
played there, so that a lottery has several colours, and is the paler the less often the policy is there: its opacity is
the square root of the probability. A policy of a model without a horizon does the same at every step; it has bars
instead, as long as its share of the visits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from conrl._types import Float, Int
from conrl.drawing import plain
from conrl.mixture import Mixture
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.plots.panels import COLOURS, OTHERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_STATES = 40
PARTS = 24  # of a cell, in height
FAINTEST = 0.12  # opacity of a cell that is ever visited
SEEN = 1e-6  # visits below which a cell stays empty
NOTE = "color: what is played, a lottery has several; pale: seldom there"


class Shown(NamedTuple):
    """What is drawn: n states and k kinds of actions, of which the last may be all others."""

    states: Int  # [n]
    left_out: int  # states that are visited and not drawn
    kinds: Float  # [H, n, k]: the probability of each step, state and kind of action; H = 1 without a horizon
    names: list[str]  # [k]
    colours: list[str]  # [k]


def height_of(states: int) -> float:
    """Inches of a figure with so many states."""
    return 1.5 + 0.19 * max(min(states, MOST_STATES), 4)


def played(mdp: ConstrainedMDP, mixture: Mixture) -> Float:
    """[H, S, A]: the probability of each step, state and action; [1, S, A] without a horizon."""
    rho = np.zeros((mdp.repeats, mdp.num_pairs))
    for weight, policy in zip(mixture.weights.tolist(), mixture.policies, strict=True):
        policy.add_occupation(mdp, weight, rho)
    if not isinstance(mdp.horizon, Criterion):
        return mdp.step_table(rho)
    table = np.zeros((1, mdp.num_states, mdp.num_actions))
    table[0, mdp.pair_state, mdp.action] = rho[0]
    return table


def chosen(mdp: ConstrainedMDP, rho: Float) -> Shown:
    """The states and actions to draw."""
    visits = rho.sum(axis=(0, 2))
    seen = int((visits > SEEN).sum())
    states = np.argsort(-visits, kind="stable")[: max(min(seen, MOST_STATES), 1)]
    used = rho[:, states].sum(axis=(0, 1))
    order = np.flatnonzero(used > SEEN)
    if order.size > len(COLOURS):  # the most played keep their own colour
        order = np.sort(np.argsort(-used, kind="stable")[: len(COLOURS) - 1])
    kinds = rho[:, states][:, :, order]
    names = [mdp.action_name(int(a)) for a in order]
    colours = list(COLOURS[: order.size])
    rest = rho[:, states].sum(axis=2) - kinds.sum(axis=2)
    if (used > SEEN).sum() > order.size:
        kinds, names, colours = np.dstack((kinds, rest)), [*names, "others"], [*colours, OTHERS]
    return Shown(states, seen - states.size, kinds, names, colours)


def draw_heat_map(ax: Axes, mdp: ConstrainedMDP, mixture: Mixture) -> None:
    """The picture, with its legend."""
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    shown = chosen(mdp, played(mdp, mixture))
    n = shown.states.size
    if isinstance(mdp.horizon, Criterion):
        _draw_bars(ax, shown)
    else:
        H = shown.kinds.shape[0]
        ax.imshow(image(shown), extent=(-0.5, H - 0.5, n - 0.5, -0.5), aspect="auto", interpolation="nearest")
        ax.set_yticks(np.arange(n + 1) - 0.5, minor=True)
        ax.grid(which="minor", axis="y", color="#dddddd", linewidth=0.6)
        ax.tick_params(which="minor", length=0)
        ax.set_xlabel(f"step\n{NOTE}", fontsize=8)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_yticks(range(n), [plain(mdp.state_name(int(s)), 24) for s in shown.states], fontsize=7)
    ax.set_ylabel("state" + (f" ({shown.left_out:,} more are visited less)" if shown.left_out else ""), fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    keys = [Patch(facecolor=c, label=plain(name, 24)) for c, name in zip(shown.colours, shown.names, strict=True)]
    ax.legend(handles=keys, loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=7.5, frameon=False, title="action")


def image(shown: Shown) -> Float:
    """[n * PARTS, H, 4]: colours with opacity; each cell has `PARTS` parts, from its top down."""
    from matplotlib.colors import to_rgb

    H, n, _ = shown.kinds.shape
    visits = shown.kinds.sum(axis=2)  # [H, n]
    shares = np.cumsum(shown.kinds, axis=2) / np.maximum(visits, SEEN)[:, :, None]
    middle = (np.arange(PARTS) + 0.5) / PARTS
    # The kind that a part belongs to: the first whose running share reaches its middle.
    kind = np.minimum((shares[:, :, None, :] < middle[:, None]).sum(axis=3), len(shown.colours) - 1)  # [H, n, PARTS]
    colour = np.array([to_rgb(c) for c in shown.colours])[kind]
    opacity = np.where(visits > SEEN, np.maximum(np.sqrt(np.minimum(visits, 1.0)), FAINTEST), 0.0)
    full = np.concatenate((colour, np.broadcast_to(opacity[:, :, None, None], (H, n, PARTS, 1))), axis=3)
    return full.transpose(1, 2, 0, 3).reshape(n * PARTS, H, 4)


def _draw_bars(ax: Axes, shown: Shown) -> None:
    """A bar for each state, in the colours of its actions."""
    total = float(shown.kinds.sum()) or 1.0
    left: Any = np.zeros(shown.states.size)
    for k, colour in enumerate(shown.colours):
        width = shown.kinds[0, :, k] / total
        ax.barh(np.arange(shown.states.size), width, left=left, color=colour, height=0.8)
        left = left + width
    ax.set_ylim(shown.states.size - 0.5, -0.5)
    ax.set_xlabel("share of visits; color: what is played, a lottery has several", fontsize=8)

"""Axes to draw on, and panels within them: one picture of several totals is one pair of axes to its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conrl.drawing import CURVE, MARK
from conrl.errors import SpecError, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 4
NAME = 40  # characters of a name as a label
# Okabe and Ito (2008), without black and with Tol's (2021) wine: the colour-blind can tell them apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#882255", "#44AA99", "#999933")
OTHERS = "#999999"
LIMIT: dict[str, Any] = {"color": MARK, "linestyle": "--", "linewidth": 1.2}
FLOOR: dict[str, Any] = {"color": MARK, "linestyle": ":", "linewidth": 1.4}
MEAN: dict[str, Any] = {"color": CURVE, "linewidth": 1.4}


def check_axes(ax: Any) -> None:
    """Refuse what was given to draw on and is no axes; None is a new figure."""
    from matplotlib.axes import Axes

    if ax is not None and not isinstance(ax, Axes):
        raise SpecError(f"ax is {shown(ax)}; it must be axes of matplotlib, such as plt.gca()", key=("ax",))


def new_axes(width: float = 6.4, height: float = 3.6) -> Axes:
    """Of a new figure, which a notebook shows."""
    from matplotlib import pyplot

    axes: Axes = pyplot.figure(figsize=(width, height), layout="constrained").subplots()
    return axes


def panels(ax: Axes, count: int, across: bool = False, gap: float = 0.15) -> list[Axes]:
    """So many axes within `ax`, one below the other or `across`; `ax` itself shows nothing any more.

    `gap` is the space between two, as a share of one.
    """
    if count == 1:
        return [ax]
    ax.set_axis_off()
    size = 1.0 / (count + gap * (count - 1))
    starts = [i * (1.0 + gap) * size for i in range(count)]
    if across:
        return [ax.inset_axes((start, 0.0, size, 1.0)) for start in starts]
    return [ax.inset_axes((0.0, start, 1.0, size)) for start in reversed(starts)]


def dress(axes: Axes) -> None:
    """Grid, frame and small numbers."""
    axes.grid(color="#e8e8e8", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def tell_rest(axes: Axes, left_out: int) -> None:
    """Say below the axes how many totals are not drawn."""
    if left_out > 0:
        axes.set_xlabel(f"{axes.get_xlabel()}\n{left_out:,} more are not drawn; to_frame() has all".strip(), fontsize=8)

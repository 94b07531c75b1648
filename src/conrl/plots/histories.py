"""The picture of a run: smoothed reward and costs over episodes, with the optimum and the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from conrl.drawing import CURVE, INK, plain
from conrl.errors import InfeasibleError, RunError, SpecError
from conrl.plots.panels import FLOOR, LIMIT, MOST_PANELS, dress, new_axes, panels, tell_rest
from conrl.running import History

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_history(history: History, ax: Axes | None) -> Axes:
    """One panel for the reward and one for each cost."""
    from matplotlib.ticker import MaxNLocator

    if len(history) == 0:
        raise SpecError("the history has no episode to draw yet")
    smooth = history.smooth
    names = ("reward", *history.cost_names)[:MOST_PANELS]
    ax = ax or new_axes(6.4, 1.0 + 1.5 * len(names))
    episode = np.arange(1, len(smooth) + 1)
    bounds = np.column_stack((history.limits, history.floors))
    frames = panels(ax, len(names))
    for i, (axes, name) in enumerate(zip(frames, names, strict=True)):
        axes.plot(episode, smooth[:, i], color=CURVE, linewidth=1.4, marker="o" if len(smooth) == 1 else "")
        if i == 0:
            _mark_optimum(axes, history)
        else:
            for word, look, bound in zip(("limit", "floor"), (LIMIT, FLOOR), bounds[i - 1], strict=True):
                if np.isfinite(bound):
                    axes.axhline(bound, **look, label=f"{word} {bound:.4g}")
        axes.set_ylabel(plain(name, 20))
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=7.5, frameon=False, loc="best")
        dress(axes)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if axes is not frames[-1]:
            axes.tick_params(labelbottom=False)
    what = "exact values of what was played" if history.mdp is not None else "what was seen"
    window = "" if history.window is None else f", means of {history.window}"
    if (explored := int(history.exploring.sum())) > 0:
        window += f"; {explored} of {len(history)} explore"
    frames[-1].set_xlabel(f"episode ({what}{window})", fontsize=8)
    tell_rest(frames[-1], 1 + len(history.cost_names) - len(names))
    return ax


def _mark_optimum(axes: Axes, history: History) -> None:
    """The reward of the best policy, where it is known and of the same kind."""
    try:
        best = history.optimum
    except (InfeasibleError, RunError):  # no policy keeps the limits
        return
    if best is not None:
        axes.axhline(best.reward, color=INK, linestyle=":", linewidth=1.2, label=f"optimum {best.reward:.4g}")

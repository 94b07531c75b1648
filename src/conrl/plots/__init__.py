"""Pictures of results, for notebooks: what `plan.plot()`, `history.plot()` and the like draw.

Results stand below the pictures of them, and so do not know this package: `conrl.notebook.Plotted.plot` asks `draw` for
the picture, which finds the painter by the name of the class. A painter draws onto the caller's axes, or onto those of
a new figure. New figures are those of pyplot, as a notebook, and `plt.show()`, show no others; whoever draws in many
threads passes axes of their own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from conrl.errors import SpecError
from conrl.plots.panels import check_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PAINTERS", "draw"]

# By class: the module that draws it, and its function.
PAINTERS = {
    "Plan": ("plans", "draw_plan"),
    "FleetPlan": ("plans", "draw_fleet_plan"),
    "Frontier": ("plans", "draw_frontier"),
    "Evaluation": ("totals", "draw_evaluation"),
    "Simulation": ("totals", "draw_simulation"),
    "FleetSimulation": ("totals", "draw_simulation"),
    "Distribution": ("totals", "draw_distribution"),
    "Assessment": ("totals", "draw_assessment"),
    "Monitoring": ("totals", "draw_monitoring"),
    "History": ("histories", "draw_history"),
}


def draw(thing: Any, ax: Axes | None = None) -> Axes:
    """Draw a result onto axes of matplotlib, by default those of a new figure; gives the axes back."""
    check_axes(ax)
    name = next((kind.__name__ for kind in type(thing).__mro__ if kind.__name__ in PAINTERS), None)
    if name is None:
        raise SpecError(f"there is no picture of a {type(thing).__name__}")
    module, painter = PAINTERS[name]
    drawn: Axes = getattr(importlib.import_module(f"conrl.plots.{module}"), painter)(thing, ax)
    return drawn

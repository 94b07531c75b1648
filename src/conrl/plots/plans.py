"""Pictures of plans and frontiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from conrl import drawing
from conrl._types import Float
from conrl.errors import SpecError
from conrl.planners import FleetPlan, Frontier, Plan
from conrl.plots.heat_map import draw_heat_map, height_of
from conrl.plots.panels import FLOOR, LIMIT, NAME, dress, new_axes, tell_rest
from conrl.policy_map import grid_layout
from conrl.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_COSTS = 20


def draw_plan(plan: Plan, ax: Axes | None) -> Axes:
    """The policy on the model's map or, without one, as a heat map."""
    if plan.mdp.layout is not None:
        layout = grid_layout(plan.mdp)
        cell = min(0.6, 9.0 / max(len(layout.rows), len(layout.rows[0])))
        wide, high = max(6.6, cell * len(layout.rows[0]) + 1.6), max(3.0, cell * len(layout.rows) + 1.9)
        ax = ax or new_axes(wide, high)
        drawing.draw_policy(ax, plan)
        return ax
    ax = ax or new_axes(7.2, height_of(plan.mdp.num_states))
    draw_heat_map(ax, plan.mdp, plan.mixture)
    skip = f" (skips {100.0 * plan.skip:.3g}% of episodes)" if plan.skip else ""
    ax.set_title(drawing.value_text(plan) + skip, fontsize=9)
    return ax


def draw_frontier(curve: Frontier, ax: Axes | None) -> Axes:
    """The best reward against the limit."""
    ax = ax or new_axes(6.4, 4.2)
    drawing.draw_frontier(ax, curve)
    return ax


def draw_fleet_plan(plan: FleetPlan, ax: Axes | None) -> Axes:
    """How much of each limit the fleet is expected to use, and the prices."""
    every = np.flatnonzero(np.isfinite(plan.limits) | np.isfinite(plan.floors))
    limited = every[:MOST_COSTS]
    if not limited.size:
        raise SpecError("the fleet has no limit on a total to draw; plan.to_frame() has its numbers")
    ax = ax or new_axes(7.2, 1.4 + 0.4 * limited.size)
    costs, bounds = plan.costs[limited], np.column_stack((plan.limits, plan.floors))[limited]
    unit = 0.01 * _sizes(bounds, costs)
    share = costs / unit
    ax.barh(range(limited.size), share, color=drawing.CURVE, height=0.6)
    prices = np.column_stack((plan.prices, plan.floor_prices))[limited]
    for i in range(limited.size):
        said = []
        for k, (word, look) in enumerate((("at most", LIMIT), ("at least", FLOOR))):
            if np.isfinite(bounds[i, k]):
                ax.vlines(bounds[i, k] / unit[i], i - 0.5, i + 0.5, **look)
                said.append(f"{word} {bounds[i, k]:.6g}, price {prices[i, k]:.4g}")
        told = "\n".join([f"{costs[i]:.6g}: {said[0]}", *said[1:]])
        ax.annotate(
            told, (1.0, i), xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
            fontsize=8, va="center", color=drawing.INK,
        )  # fmt: skip
    ax.axvline(0.0, color=drawing.INK, linewidth=0.8)
    ax.set_yticks(range(limited.size), [drawing.plain(plan.fleet.cost_names[c], NAME) for c in limited])
    ax.set_ylim(limited.size - 0.5, -0.5)
    ax.set_xlabel("expected total, % of the size of its limit (dashed) or floor (dotted)", fontsize=8)
    units = counted(plan.fleet.num_units, "unit")
    ax.set_title(f"{units}: reward {plan.reward:.6g}, gap {plan.gap:.1e}", fontsize=10)
    dress(ax)
    tell_rest(ax, every.size - limited.size)
    return ax


def _sizes(bounds: Float, costs: Float) -> Float:
    """[n]: what a bar is a share of: the size of the limit or, without one, of the floor (bounds [n, 2]); of the total
    itself where they are 0."""
    known = np.where(np.isfinite(bounds), np.abs(bounds), 0.0)
    size = np.where(known[:, 0] > 0.0, known[:, 0], known[:, 1])
    size = np.where(size > 0.0, size, np.abs(costs))
    return np.where(size > 0.0, size, 1.0)

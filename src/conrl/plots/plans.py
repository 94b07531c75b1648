"""Pictures of plans and frontiers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from conrl import drawing
from conrl.errors import SpecError
from conrl.planners import FleetPlan, Frontier, Plan
from conrl.plots.heat_map import draw_heat_map, height_of
from conrl.plots.panels import LIMIT, dress, new_axes, plain, tell_rest
from conrl.policy_map import grid_layout

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
    every = np.flatnonzero(np.isfinite(plan.limits) & (plan.limits > 0.0))
    limited = every[:MOST_COSTS]
    if not limited.size:
        raise SpecError("the fleet has no limit on a total to draw; plan.to_frame() has its numbers")
    ax = ax or new_axes(6.4, 1.4 + 0.4 * limited.size)
    share = 100.0 * plan.costs[limited] / plan.limits[limited]
    ax.barh(range(limited.size), share, color=drawing.CURVE, height=0.6)
    ax.axvline(100.0, **LIMIT)
    for i, c in enumerate(limited):
        text = f" {plan.costs[c]:.6g} of {plan.limits[c]:.6g}, price {plan.prices[c]:.4g} "
        inside = share[i] > 55.0
        look: dict[str, Any] = {"color": "white", "ha": "right"} if inside else {"color": drawing.INK, "ha": "left"}
        ax.text(max(share[i], 0.0), i, text, fontsize=8, va="center", **look)
    ax.set_yticks(range(limited.size), [plain(plan.fleet.cost_names[c]) for c in limited])
    ax.set_ylim(limited.size - 0.5, -0.5)
    ax.set_xlabel("expected share of the limit, %")
    ax.set_title(f"{plan.fleet.num_units:,} units: reward {plan.reward:.6g}, gap {plan.gap:.1e}", fontsize=10)
    dress(ax)
    tell_rest(ax, every.size - limited.size)
    return ax

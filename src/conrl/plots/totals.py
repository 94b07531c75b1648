"""Pictures of what an episode pays: values, histograms of episodes, distributions, intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl._types import Float
from conrl.drawing import CURVE, INK, MARK, plain
from conrl.episode_totals import Distribution
from conrl.estimation.assess import Assessment
from conrl.estimation.monitor import Monitoring
from conrl.evaluation import Evaluation
from conrl.model.fleet_simulation import FleetSimulation
from conrl.plots.panels import FLOOR, LIMIT, MEAN, MOST_PANELS, NAME, dress, new_axes, panels, tell_rest
from conrl.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUNDING = 1e-9  # of the largest total: those nearer to each other are the same
MOST_BARS = 30  # of a histogram, and distinct totals that are drawn as they are


def draw_evaluation(evaluation: Evaluation, ax: Axes | None) -> Axes:
    """A bar for each total."""
    value, names = evaluation.value[:MOST_BARS], evaluation.names[:MOST_BARS]
    ax = ax or new_axes(5.6, 1.0 + 0.35 * value.size)
    bars = ax.barh(range(value.size), value, color=[CURVE] + [MARK] * (value.size - 1), height=0.6)
    ax.bar_label(bars, fmt="%.6g", padding=3, fontsize=8)
    ax.set_yticks(range(value.size), [plain(name, NAME) for name in names])
    ax.set_ylim(value.size - 0.5, -0.5)
    ax.axvline(0.0, color=INK, linewidth=0.8)
    ax.margins(x=0.3 if (value < 0.0).any() else 0.15)  # a number to the left of its bar stays clear of the names
    dress(ax)
    tell_rest(ax, evaluation.value.size - value.size)
    return ax


def draw_simulation(simulation: Simulation | FleetSimulation, ax: Axes | None) -> Axes:
    """Histograms of the reward and of each cost over episodes, with means and limits."""
    names = ("reward", *(simulation.cost_names or tuple(f"cost {i}" for i in range(simulation.limits.size))))
    unit = "runs" if isinstance(simulation, FleetSimulation) else "episodes"
    table = np.column_stack((simulation.rewards, simulation.costs))
    outside = {"above the limit": simulation.exceed(), "below the floor": simulation.fall_short()}
    notes = [
        "\n".join(f"{100.0 * share[i]:.3g}% {where}" for where, share in outside.items() if np.isfinite(share[i]))
        for i in range(simulation.limits.size)
    ]
    bounds = np.column_stack((simulation.limits, simulation.floors))
    return _histograms(ax, table, names, bounds, ["", *notes], unit)


def draw_assessment(found: Assessment, ax: Axes | None) -> Axes:
    """Histograms of the values in the models that the log leaves possible, with the intervals and the limits."""
    bounds = np.full((len(found.cost_names), 2), np.nan)
    for cost, sign, bound in zip(found.rows.cost, found.rows.sign, found.rows.bound, strict=True):
        bounds[cost, 0 if sign > 0.0 else 1] = sign * bound
    ax = _histograms(ax, found.draws, found.mean.names, bounds, [], "models")
    inner: list[Any] = list(ax.child_axes) or [ax]
    for axes, low, high in zip(inner, found.low.value, found.high.value, strict=False):
        axes.axvspan(low, high, color=CURVE, alpha=0.12, linewidth=0.0)
        axes.set_title(f"{100 * found.level:g}%: {low:.4g} to {high:.4g}", fontsize=8)
    return ax


def _histograms(
    ax: Axes | None, table: Float, names: Sequence[str], bounds: Float, notes: Sequence[str], unit: str
) -> Axes:
    """One panel for each column of a table [n, 1+d]; `bounds` [d, 2] are limits and floors of the costs."""
    count = min(table.shape[1], MOST_PANELS)
    ax = ax or new_axes(max(4.2, 3.0 * count), 3.0)
    for i, axes in enumerate(panels(ax, count, across=True, gap=0.2)):
        values, mean = table[:, i], float(table[:, i].mean())
        axes.hist(values, bins=_bins(values), color="#9ecae1", edgecolor="white", linewidth=0.5)
        axes.axvline(mean, **MEAN, label=f"mean {mean:.4g}")
        for word, look, bound in zip(("limit", "floor"), (LIMIT, FLOOR), bounds[i - 1] if i else (), strict=False):
            if np.isfinite(bound):
                axes.axvline(float(bound), **look, label=f"{word} {bound:.4g}")
        if notes and notes[i]:
            axes.set_title(notes[i], fontsize=8)
        axes.set_xlabel(plain(names[i], NAME))
        axes.set_ylabel(unit if i == 0 else "")
        axes.margins(y=0.28)
        axes.locator_params(axis="x", nbins=5)
        axes.legend(fontsize=7.5, framealpha=0.8, edgecolor="none", loc="upper right")
        dress(axes)
    tell_rest(axes, table.shape[1] - count)
    return ax


def _bins(values: Float) -> list[float] | int:
    """Edges: around each of a few distinct totals, else evenly."""
    low, high = float(values.min()), float(values.max())
    size = max(abs(low), abs(high))
    if high - low <= ROUNDING * size:
        half = 0.5 * (size or 1.0)
        return [low - half, low + half]
    distinct = np.unique(np.round(values / size, 9)) * size
    gaps = np.diff(distinct)
    if distinct.size > MOST_BARS or gaps.max() > 1.5 * gaps.min():
        return MOST_BARS
    half = 0.5 * gaps.min()
    return [*(distinct - half).tolist(), float(distinct[-1] + half)]


def draw_distribution(found: Distribution, ax: Axes | None) -> Axes:
    """The probability of each total, and of a larger one."""
    ax = ax or new_axes()
    totals, p = found.totals, found.probabilities
    width = 0.8 * float(np.diff(totals).min()) if 1 < totals.size <= MOST_BARS else None
    if width is None and totals.size > 1:
        ax.vlines(totals, 0.0, p, color=CURVE, linewidth=1.2, label="probability")
    else:
        ax.bar(totals, p, width=width or 0.4, color=CURVE, label="probability")
    above = np.append(np.cumsum(p[:0:-1])[::-1], 0.0)
    ax.step(totals, above, where="post", color=MARK, linewidth=1.3, label="probability of more")
    ax.axvline(found.mean, color=INK, linestyle=":", linewidth=1.2, label=f"mean {found.mean:.4g}")
    ax.set_xlabel(f"{plain(found.cost, NAME)} in an episode")
    ax.set_ylim(bottom=0.0)
    ax.legend(fontsize=8, frameon=False)
    dress(ax)
    return ax


def draw_monitoring(found: Monitoring, ax: Axes | None) -> Axes:
    """Each total: the means that are not refuted, against what was promised and the limit."""
    shown = found.totals[:MOST_PANELS]
    ax = ax or new_axes(6.4, 0.6 + 1.1 * len(shown))
    for axes, total in zip(panels(ax, len(shown), gap=1.2), shown, strict=True):
        colour = CURVE if total.verdict == "as promised" else "#D55E00"
        ends = (total.low, total.high)
        if np.isfinite(ends).all():
            axes.plot(ends, (0.0, 0.0), color=colour, linewidth=6, alpha=0.35, solid_capstyle="butt")
        axes.plot(total.mean, 0.0, "o", color=colour)
        axes.axvline(total.promised, color=INK, linestyle=":", linewidth=1.3)
        for bound, look in ((total.limit, LIMIT), (total.floor, FLOOR)):
            if bound is not None:
                axes.axvline(bound, **look)
        axes.set_yticks([0.0], [plain(total.name, 20)])
        axes.set_ylim(-1.0, 1.0)
        axes.set_title(f"mean {total.mean:.4g}, promised {total.promised:.4g}: {total.verdict}", fontsize=8, loc="left")
        dress(axes)
    tell_rest(axes, len(found.totals) - len(shown))
    return ax

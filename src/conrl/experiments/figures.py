"""The paper's figures from a study: reward, cost and cumulative cost against trajectories, mean and standard deviation.

Figure 1 has rows reward, cost, cumulative cost and columns Mars rover, Box, and Mars rover against TFW-UCRL2 (averages
over all trajectories so far, on a logarithmic axis). Figure 2 shows TFW-UCRL2 for several weights. Any other study is
drawn in the same way, a column for each environment. Lines differ in color (Okabe and Ito 2008), dashes and marks.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl.drawing import INK, plain, save_figure
from conrl.errors import SpecError, unknown
from conrl.experiments.analysis import Study
from conrl.experiments.curves import Curve
from conrl.metrics import WINDOW
from conrl.model.rows import ROUNDING
from conrl.plots.panels import check_axes, new_axes
from conrl.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#009E73", "#D55E00", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#B3A100")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (3, 1, 1, 1)),
    (0, (2, 1.5)),
    (0, (8, 2, 2, 2)),
    (0, (1, 1)),
    (0, (5, 1, 1, 1, 1, 1)),
)
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
LABELS = {"reward": "reward", "cost": "cost", "cumulative": "cumulative cost", "regret": "cumulative regret"}
MOST_COSTS = 4  # of one environment
NARROWEST = 6.0  # inches
LETTERS = 17  # of a caption, by inch
HANDLE = 3.6  # of a legend, in letters: shorter ones would not show all dashes
MOST_INSIDE = 10  # entries of a legend within a panel,
MOST_ROWS = 15  # and rows of one beside it


@dataclass(frozen=True)
class Column:
    """One column of panels."""

    environment: str
    title: str
    algorithms: list[str]
    average: bool = False  # of all trajectories so far, on a logarithmic axis
    threshold: float | None = None  # ApproPO's least reward


def study_figure(study: Study, note: str = "") -> Figure:
    """The figure that fits the study: the paper's first or second, or a column for each environment."""
    columns = _columns(study)
    if not columns:
        raise SpecError("the study has no finished episodes to draw")
    most = max(len(study.environments[column.environment].cost_names) for column in columns)
    costs = range(min(most, MOST_COSTS))
    rows = [("reward", 0), *(("cost", i) for i in costs)]
    if study.name != "figure2":
        rows += [("cumulative", i) for i in costs]
    if most > MOST_COSTS:
        note = f"{note} {most - MOST_COSTS} more costs are not drawn.".strip()
    return _draw(study, columns, rows, note)


def draw_measure(study: Study, ax: Axes | None, environment: str | None, measure: str, cost: str | None) -> Axes:
    """One panel: a measure of every algorithm in an environment (`Study.plot`)."""
    check_axes(ax)
    names = list(study.environments)
    environment = names[0] if environment is None and names else environment
    if environment not in names:
        raise SpecError(unknown("environment", environment, names), key=("environment",))
    if measure not in LABELS:
        raise SpecError(unknown("measure", measure, LABELS), key=("measure",))
    costs = study.environments[environment].cost_names
    if measure in ("reward", "regret"):
        if cost is not None:
            raise SpecError(f"the {measure} is of no cost; leave cost out, or ask for measure='cost'", key=("cost",))
    else:
        cost = costs[0] if cost is None and costs else cost
        if cost not in costs:
            raise SpecError(unknown("cost", cost, costs), key=("cost",))
    curves = [c for c in study.curves(environment, 300) if (c.measure, c.cost) == (measure, cost)]
    if not curves and measure == "regret" and study.played(environment):
        raise SpecError(f"no optimum is known in {environment!r}, so there is no regret to draw", key=("measure",))
    if not curves:
        raise SpecError("the study has no finished episodes to draw")
    ax = ax or new_axes(6.4, 4.0)
    styles = styles_of(study)
    column = Column(environment, study.environments[environment].title, study.algorithms)
    least = _least(study, column, cost)
    for curve in curves:
        _line(ax, curve, styles[curve.algorithm], least).set_label(plain(study.titles[curve.algorithm]))
    _reference(ax, study, column, measure, cost)
    _dress(ax, column, measure, LABELS[measure] if cost is None else f"{LABELS[measure]}: {cost}", least)
    ax.set_title(plain(column.title), fontsize=10)
    ax.set_xlabel("trajectories")
    columns = math.ceil(len(curves) / MOST_ROWS)
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if len(curves) > MOST_INSIDE else {}
    ax.legend(fontsize=8, frameon=False, handlelength=HANDLE, ncols=columns, **beside)
    return ax


def styles_of(study: Study) -> dict[str, tuple[str, Any, str]]:
    """Color, dashes and mark of each algorithm."""
    return {name: style(i) for i, name in enumerate(study.algorithms)}


def style(i: int) -> tuple[str, Any, str]:
    """Color, dashes and mark of the i-th line: of 56 no two have the same color and dashes, nor color and mark."""
    again, k = divmod(i, len(COLORS))
    return COLORS[k], DASHES[(k + again) % len(DASHES)], MARKS[(k + again) % len(MARKS)]


def save_study_figure(study: Study, stem: str | Path, note: str = "") -> list[Path]:
    """Write the figure as PNG and PDF, in a study's directory: not through links there."""
    figure = study_figure(study, note)
    paths = [Path(f"{stem}{suffix}") for suffix in (".png", ".pdf")]
    for path in paths:
        save_figure(figure, path, follow=False)
    return paths


def _columns(study: Study) -> list[Column]:
    """A column for each environment, then one for each in which an algorithm plays one unending episode."""
    continuing = {run.algorithm for run in study.runs if run.continuing}
    columns = []
    averages = []
    for name, env in study.environments.items():
        played = study.played(name)
        episodic = [a for a in played if a not in continuing]
        if episodic:
            columns.append(Column(name, env.title, episodic, threshold=_threshold(study, name)))
        if len(episodic) < len(played):
            rivals = [a for a in played if a in continuing or a.startswith("conrl")]
            title = env.title if continuing.issuperset(rivals) else f"{env.title}, against TFW-UCRL2"
            averages.append(Column(name, f"{title}\n(average over trajectories so far)", rivals, average=True))
    return columns + averages


def _threshold(study: Study, environment: str) -> float | None:
    for run in study.runs:
        learner = run.config.get("learner", {})
        if run.environment == environment and learner.get("learner") == "appropo":
            value = learner.get("threshold")
            return None if value is None else float(value)
    return None


def _draw(study: Study, columns: Sequence[Column], rows: Sequence[tuple[str, int]], note: str) -> Figure:
    """One panel for each column and row (a measure, and of which cost), one legend and the caption for all."""
    from matplotlib.figure import Figure

    width = max(0.9 + 3.6 * len(columns), NARROWEST)
    figure = Figure(figsize=(width, 0.9 + 2.5 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), len(columns), squeeze=False, sharex="col")
    lines: dict[str, Any] = {}
    for j, column in enumerate(columns):
        lines |= _draw_column(panels[:, j].tolist(), study, column, rows, labelled=j == 0)
    names = [name for name in study.algorithms if name in lines]
    figure.legend(
        [lines[name] for name in names],
        [plain(study.titles[name]) for name in names],
        loc="outside upper center",
        ncols=min(len(names), int(width / 1.7)),
        handlelength=HANDLE,
        frameon=False,
        fontsize=9,
    )
    paragraphs = _caption(study, columns, note).splitlines()
    caption = "\n".join(line for text in paragraphs for line in textwrap.wrap(text, int(LETTERS * width)))
    figure.supxlabel(plain(caption), fontsize=7.5, color=INK)
    return figure


def _draw_column(
    panels: Sequence[Axes], study: Study, column: Column, rows: Sequence[tuple[str, int]], labelled: bool
) -> dict[str, Any]:
    """The panels of one column; returns a line of each algorithm. A cost that is not there leaves its panel empty."""
    panels[0].set_title(plain(column.title), fontsize=10)
    curves = study.curves(column.environment, 300, column.average, log=column.average)
    costs = study.environments[column.environment].cost_names
    named = any(k > 0 for _, k in rows)  # several costs: each panel says which
    styles = styles_of(study)
    lines, last = {}, panels[0]
    for axes, (measure, k) in zip(panels, rows, strict=True):
        if measure != "reward" and k >= len(costs):
            axes.set_axis_off()
            continue
        cost, last = None if measure == "reward" else costs[k], axes
        least = _least(study, column, cost)
        for curve in curves:
            if (curve.measure, curve.cost) == (measure, cost) and curve.algorithm in column.algorithms:
                lines[curve.algorithm] = _line(axes, curve, styles[curve.algorithm], least)
        _reference(axes, study, column, measure, cost)
        label = f"{LABELS[measure]}: {cost}" if named and cost is not None else LABELS[measure]
        _dress(axes, column, measure, label if named or labelled else "", least)
    last.tick_params(labelbottom=True)
    last.set_xlabel("trajectories (log scale)" if column.average else "trajectories", fontsize=9)
    return lines


def _least(study: Study, column: Column, cost: str | None) -> float | None:
    """0 where a cost is never negative, nor is its limit or floor: nothing is drawn below it; else None."""
    if cost is None:
        return None
    env = study.environments[column.environment]
    i = env.cost_names.index(cost)
    bounds = np.array([env.limits[i], env.floors[i]])
    lowest = min(float(bounds[np.isfinite(bounds)].min(initial=0.0)), 0.0)
    for name in column.algorithms:
        for run in study.select(column.environment, name):
            for table in (run.seen, run.values):
                lowest = min(
                    lowest, float(np.nanmin(table[:, 1 + i], initial=0.0)) + ROUNDING * float(run.largest[1 + i])
                )
    return 0.0 if lowest >= 0.0 else None


def _line(axes: Axes, curve: Curve, style: tuple[str, Any, str], least: float | None) -> Any:
    """A curve and its band, which ends at the least that can be."""
    colour, dashes, mark = style
    if curve.seeds > 1:
        low, high = curve.mean - curve.std, curve.mean + curve.std
        if least is not None:
            low = np.maximum(low, least)
        axes.fill_between(curve.x, low, high, color=colour, alpha=0.18, linewidth=0)
    every = max(1, len(curve.x) // 6)
    (line,) = axes.plot(
        curve.x, curve.mean, color=colour, linestyle=dashes, marker=mark, markevery=every, markersize=4, linewidth=1.5
    )
    axes.plot(curve.x[-1], curve.mean[-1], color=colour, marker=mark, markersize=6)  # where the runs end
    return line


def _reference(axes: Axes, study: Study, column: Column, measure: str, cost: str | None) -> None:
    """The limit, the floor, the optimum and ApproPO's threshold."""
    env = study.environments[column.environment]
    if measure == "cost" and cost is not None:
        i = env.cost_names.index(cost)
        limit, floor = float(env.limits[i]), float(env.floors[i])
        if np.isfinite(limit):
            both = "limit and floor" if floor == limit else "limit"
            _mark(axes, limit, f"{both} {limit:g}", left=column.average)
        if np.isfinite(floor) and floor != limit:
            _mark(axes, floor, f"floor {floor:g}", style=(0, (1, 2)), above=False, left=column.average)
    if measure == "reward":
        if column.threshold is not None:
            _mark(axes, column.threshold, f"ApproPO's threshold {column.threshold:g}", above=False)
        if env.optimum is not None and not column.average:
            _mark(axes, env.optimum.reward, f"optimum {env.optimum.reward:.4g}", style=":")


def _mark(axes: Axes, y: float, text: str, style: Any = "--", above: bool = True, left: bool = False) -> None:
    """A horizontal line, with its meaning at one end."""
    axes.axhline(y, color=INK, linestyle=style, linewidth=1)
    axes.annotate(
        text,
        (0.01 if left else 0.99, y),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2 if above else -2),
        textcoords="offset points",
        ha="left" if left else "right",
        va="bottom" if above else "top",
        fontsize=7,
        color=INK,
    )


def _dress(axes: Axes, column: Column, measure: str, label: str, least: float | None) -> None:
    """Label, grid and scales of a panel; where there is a least value, the axis begins there."""
    axes.set_ylabel(plain(label))
    frame(axes)
    if column.average:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(_thousands)
    if measure == "cumulative" and axes.get_ylim()[1] >= 10_000:
        axes.yaxis.set_major_formatter(_thousands)
    if least is not None:
        axes.set_ylim(bottom=least)
    else:
        axes.margins(y=0.12)


def frame(axes: Axes) -> None:
    """Grid, frame and small numbers of a panel."""
    axes.tick_params(labelsize=8)
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _thousands(value: float, _: float) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def seeds_text(counts: Iterable[int]) -> str:
    """How many seeds there are, from the fewest to the most."""
    known = list(counts)
    few, many = min(known), max(known)
    return counted(many, "seed") if few == many else f"{few} to {many} seeds"


def _caption(study: Study, columns: Sequence[Column], note: str) -> str:
    count = seeds_text(len(study.select(c.environment, a)) for c in columns for a in c.algorithms)
    what = f"Mean and standard deviation over {count}."
    values = f"Reward and cost: exact values of the executed policies, means of the last {WINDOW}."
    unending = {run.algorithm for run in study.runs if run.continuing}
    if unending:
        names = ", ".join(study.titles[name] for name in study.algorithms if name in unending)
        values += f" Averages are running means of these and, of {names}, of realized pay per step, times the horizon."
    shown = {run.algorithm for run in study.runs if run.reported is not None}
    if shown:
        names = ", ".join(study.titles[name] for name in study.algorithms if name in shown)
        values += f" {names}: of the policy that it shows, not of what it plays."
    explores = {run.algorithm for run in study.runs if run.exploring is not None and run.exploring.any()}
    if explores:
        names = ", ".join(study.titles[name] for name in study.algorithms if name in explores)
        values += f" With the episodes that explore: {names}."
    if all(column.average for column in columns):
        values = "Reward and cost: running means of realized pay per step, times the horizon."
    total = "" if study.name == "figure2" else "Cumulative: realized cost."
    drawn = {a for c in columns for a in study.apart(c.environment) if a in c.algorithms}
    own = ", ".join(study.titles[name] for name in study.algorithms if name in drawn)
    apart = f"With limits or budgets of their own, not those drawn: {own}." if own else ""
    return "\n".join(filter(None, (" ".join(filter(None, (what, values, total, apart))), note)))

"""The study of safe exploration: what is drawn and told of runs in blocks (`conrl reproduce dope`).

The models, the baseline and the question are those of Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland
(2022), "DOPE: Doubly optimistic and pessimistic exploration for safe reinforcement learning": how much reward does it
cost to keep the limits in *every* episode, and who keeps them? `specs/dope.toml` is the list of environments, learners
and their options; nothing here knows any of them. `block_runs` plays the runs and says what a curve is.

Runs of one learner in one environment are summarised by their median and quartiles over the seeds. Where a model has
several limited costs, a violation is the largest of them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from conrl._types import Float
from conrl.drawing import INK, save_figure
from conrl.errors import RunError
from conrl.experiments.block_runs import CURVE, RunCurve, read_curve
from conrl.experiments.figures import DASHES, LETTERS, frame, seeds_text, style
from conrl.experiments.spec import Spec
from conrl.io.cells import csv_text
from conrl.io.files import atomic_write, refuse_links

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURES = ("regret", "strong_regret", "violation", "strong_violation")
PANELS = {"strong_regret": "reward regret", "strong_violation": "violation"}
QUARTILES = (0.25, 0.5, 0.75)
ALL_MET = 1e-6  # a violation this small, of all episodes together, is drawn and told as none


class Arm(NamedTuple):
    """A learner in an environment, and its runs that have ended, one a seed."""

    environment: str  # titles
    algorithm: str
    learner: str
    curves: list[RunCurve]

    @property
    def episodes(self) -> Float:
        """[rows]: those at which all its curves have a row."""
        shared = set.intersection(*(set(curve.of("episode").tolist()) for curve in self.curves))
        return np.array(sorted(shared))

    def runs(self, measure: str) -> Float:
        """[seeds, rows]: one of `MEASURES` at each of `episodes`, or a column of the curves."""
        return np.array([_values(curve, measure)[np.isin(curve.of("episode"), self.episodes)] for curve in self.curves])

    def quartiles(self, measure: str) -> Float:
        """[3, rows]: over the seeds."""
        return np.quantile(self.runs(measure), QUARTILES, axis=0)


def _values(curve: RunCurve, measure: str) -> Float:
    if measure in curve.columns:
        return curve.of(measure)
    columns = [i for i, name in enumerate(curve.columns) if name.startswith(f"{measure}_")]
    return np.asarray(curve.numbers[:, columns].max(axis=1, initial=-np.inf if columns else 0.0))


def load_arms(spec: Spec, directory: Path) -> list[Arm]:
    """What has been played of a study."""
    titles = spec.titles()
    arms: dict[tuple[str, str], Arm] = {}
    for job in spec.jobs:
        path = job.directory(directory) / CURVE
        refuse_links(path, directory)
        if path.exists():
            arm = Arm(titles["environments"][job.env_name], titles["algorithms"][job.name], job.algorithm, [])
            arms.setdefault(job.kind, arm).curves.append(read_curve(path))
    if not arms:
        raise RunError(f"{directory} holds no run that has ended")
    return list(arms.values())


# -- the table --------------------------------------------------------------------------------------------------


def summary(arms: Sequence[Arm]) -> list[dict[str, Any]]:
    """One row for each learner in each environment, at the last episode that all runs there have."""
    shared: dict[str, set[float]] = {}
    for arm in arms:
        own = set(arm.episodes.tolist())
        shared[arm.environment] = shared.get(arm.environment, own) & own
    return [_row(arm, max(shared[arm.environment])) for arm in arms]


def _row(arm: Arm, episode: float) -> dict[str, Any]:
    """After so many episodes, which all its curves have a row for."""
    at = int(np.flatnonzero(arm.episodes == episode)[0])
    row: dict[str, Any] = {"environment": arm.environment, "algorithm": arm.algorithm}
    row |= {"seeds": len(arm.curves), "episodes": int(episode), "played": int(arm.episodes[-1])}
    for measure in MEASURES:
        low, middle, high = arm.quartiles(measure)[:, at].tolist()
        row |= {measure: middle, f"{measure}_q1": low, f"{measure}_q3": high}
    violating = arm.runs("violating")[:, at]
    row |= {"violating_most": int(violating.max()), "runs_without_violation": int((violating == 0).sum())}
    left = arm.runs("left")[:, at]
    away = left[~np.isnan(left)]
    row |= {"never_left": int(np.isnan(left).sum())}
    return row | {
        "left_first": _whole(away, np.min),
        "left_median": _whole(away, np.median),
        "left_last": _whole(away, np.max),
    }


def _whole(numbers: Float, function: Any) -> int | None:
    return math.ceil(function(numbers)) if numbers.size else None


def save_summary(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The table as CSV; an empty cell where no run ever left the baseline."""
    cells = [["" if x is None else x for x in row.values()] for row in rows]
    with atomic_write(path, follow=False) as file:
        file.write(csv_text([list(rows[0]), *cells]).encode())


# -- the figure -------------------------------------------------------------------------------------------------


def figure(arms: Sequence[Arm], note: str = "") -> Figure:
    """Regret and violation against episodes, a column for each environment: medians, with quartiles as bands.

    A learner has a colour, its versions differ in their dashes. Axes are logarithmic; below 1 sums are on a
    linear scale down to 0. Who has no violation is named.
    """
    from matplotlib.figure import Figure

    environments = list(dict.fromkeys(arm.environment for arm in arms))
    looks = _looks(arms)
    width = 0.9 + 3.6 * max(len(environments), 2)
    drawn = Figure(figsize=(width, 6.4), layout="constrained")
    panels = drawn.subplots(len(PANELS), len(environments), squeeze=False, sharex="col")
    lines: dict[str, Any] = {}
    for j, environment in enumerate(environments):
        own = [arm for arm in arms if arm.environment == environment]
        panels[0, j].set_title(environment, fontsize=10)
        for axes, (measure, label) in zip(panels[:, j], PANELS.items(), strict=True):
            for arm in own:
                lines[arm.algorithm] = _line(axes, arm, measure, looks[arm.algorithm])
            _dress(axes, label if j == 0 else "")
        _name_the_safe(panels[-1, j], own)
        panels[-1, j].set_xlabel("episodes", fontsize=9)
    columns = max(2, math.ceil(len(lines) / 2))  # filled from above: versions of a learner below each other
    drawn.legend(
        list(lines.values()), list(lines), loc="outside upper center", ncols=columns, frameon=False, fontsize=8
    )
    text = textwrap.wrap(f"{_caption(arms)} {note}".strip(), int(LETTERS * width))
    drawn.supxlabel("\n".join(text), fontsize=7.5, color=INK)
    return drawn


def _looks(arms: Sequence[Arm]) -> dict[str, tuple[str, Any, str]]:
    """Colour, dashes and mark of each algorithm: a learner's versions share the colour and the mark."""
    versions: dict[str, list[str]] = {}
    for arm in arms:
        if arm.algorithm not in versions.setdefault(arm.learner, []):
            versions[arm.learner].append(arm.algorithm)
    looks: dict[str, tuple[str, Any, str]] = {}
    for k, names in enumerate(versions.values()):
        colour, _, mark = style(k)
        looks |= {name: (colour, DASHES[i % len(DASHES)], mark) for i, name in enumerate(names)}
    return looks


def _line(axes: Axes, arm: Arm, measure: str, look: tuple[str, Any, str]) -> Any:
    colour, dashes, mark = look
    x, (low, middle, high) = arm.episodes, arm.quartiles(measure)
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    (line,) = axes.plot(
        x,
        middle,
        color=colour,
        linestyle=dashes,
        marker=mark,
        markevery=max(1, x.size // 5),
        markersize=4,
        linewidth=1.4,
    )
    return line


def _dress(axes: Axes, label: str) -> None:
    axes.set_xscale("log")
    axes.set_ylabel(label)
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_ylim(bottom=-0.1, top=max(10.0, axes.get_ylim()[1]))
    frame(axes)


def _name_the_safe(axes: Axes, arms: Sequence[Arm]) -> None:
    """Their lines lie upon each other at 0."""
    safe = [arm.algorithm for arm in arms if arm.runs("strong_violation")[:, -1].max() <= ALL_MET]
    if safe:
        text = "\n".join(textwrap.wrap(f"0 in all runs: {', '.join(safe)}", 46))
        axes.text(0.02, 0.98, text, transform=axes.transAxes, va="top", fontsize=6.5, color=INK)


def _caption(arms: Sequence[Arm]) -> str:
    count = seeds_text(len(arm.curves) for arm in arms)
    return (
        f"Median and quartiles over {count}. Exact values of what is executed; regret and violation are sums of the "
        "positive parts of optimum - reward and cost - limit over all episodes so far."
    )


def save_study(arms: Sequence[Arm], directory: Path, name: str, note: str = "") -> list[Path]:
    """Write the figure (PNG and PDF) and the table into a study's directory, not through links there."""
    drawn = figure(arms, note)
    paths = [directory / f"{name}.png", directory / f"{name}.pdf", directory / "summary.csv"]
    for path in paths[:2]:
        save_figure(drawn, path, follow=False)
    save_summary(summary(arms), paths[2])
    return paths

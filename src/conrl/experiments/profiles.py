"""Performance profiles of a study as a figure: which share of an algorithm's runs is above each score.

A panel for each measure; by default the score and the distance, so that reward that was bought by breaking limits is
seen as such. Where less is better the share is of runs that are at most so much, on an axis that is logarithmic from
`LINEAR` on. Bands are pointwise intervals (`conrl.experiments.statistics`). Lines look as in
`conrl.experiments.figures`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl.drawing import INK, plain
from conrl.errors import SpecError, unknown
from conrl.experiments.analysis import Study
from conrl.experiments.comparison import Profile
from conrl.experiments.figures import HANDLE, LETTERS, frame, styles_of
from conrl.experiments.measures import COMPARED, compared
from conrl.experiments.statistics import CONFIDENCE, LEAST_SEEDS, RESAMPLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

USUAL = ("score", "distance")
LINEAR = 0.01
# What the axis of each measure says.
AXES = {
    "score": "score t (final reward, share of the optimum)",
    "excess_share": "excess t (final cost over its limit, share of it)",
    "distance": "distance t (short of the optimum or over a limit)",
    "strong_regret_share": "strong regret t (mean of an episode, share)",
    "strong_violation_share": "strong violation t (mean of an episode, share)",
}


def profile_figure(study: Study, measures: Sequence[str] | None = None, environment: str | None = None) -> Figure:
    """The profiles of all algorithms, in all environments together or in one; by default by score and distance."""
    from matplotlib.figure import Figure

    names = _shown(study, measures, environment)
    width = 0.9 + 4.2 * len(names)
    figure = Figure(figsize=(width, 4.3), layout="constrained")
    lines: dict[str, Any] = {}
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        lines |= _panel(axes, study, study.profiles(name, environment))
    listed = [name for name in study.algorithms if name in lines]
    figure.legend(
        [lines[name] for name in listed],
        [plain(study.titles[name]) for name in listed],
        loc="outside upper center",
        ncols=max(1, min(len(listed), int(width / 1.8))),
        handlelength=HANDLE,
        frameon=False,
        fontsize=9,
    )
    caption = textwrap.fill(_caption(study, names, environment), int(LETTERS * width))
    figure.supxlabel(plain(caption), fontsize=7.5, color=INK)
    return figure


def _shown(study: Study, measures: Sequence[str] | None, environment: str | None) -> list[str]:
    """The measures to draw: those asked for, or those that are known there."""
    if environment is not None and environment not in study.environments:
        raise SpecError(unknown("environment", environment, study.environments), key=("environment",))
    known = [name for name in COMPARED if (environment is None or environment in study.scores(name))]
    if measures is not None:
        names = [compared(name).name for name in measures]
    else:
        names = [name for name in USUAL if name in known and study.scores(name)] or ["excess_share"]
    for name in names:
        if name not in known or not study.profiles(name, environment):
            where = "every environment" if environment is None else study.environments[environment].title
            raise SpecError(f"there is no profile of {name} to draw: no algorithm has a known number in {where}")
    if not names:
        raise SpecError(f"measures is empty; name some of {', '.join(COMPARED)}", key=("measures",))
    return names


def _panel(axes: Axes, study: Study, profiles: Sequence[Profile]) -> dict[str, Any]:
    """The profiles of one measure; returns a line of each algorithm."""
    lines, styles = {}, styles_of(study)
    for profile in profiles:
        colour, dashes, _ = styles[profile.algorithm]
        if not np.isnan(profile.low).any():
            axes.fill_between(profile.x, profile.low, profile.high, step="post", color=colour, alpha=0.15, linewidth=0)
        (line,) = axes.step(profile.x, profile.share, where="post", color=colour, linestyle=dashes, linewidth=1.6)
        lines[profile.algorithm] = line
    measure = compared(profiles[0].measure)
    if measure.name == "score":
        axes.axvline(1.0, color=INK, linestyle=":", linewidth=1)
        axes.annotate(
            "optimum", (1.0, 0.02), xycoords=("data", "axes fraction"), xytext=(-2, 0), textcoords="offset points",
            rotation=90, ha="right", va="bottom", fontsize=7, color=INK, annotation_clip=True,
        )  # fmt: skip
    axes.set_xlabel(AXES[measure.name], fontsize=9)
    axes.set_ylabel(f"share of runs with {measure.title} {'>' if measure.higher else '≤'} t", fontsize=9)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlim(profiles[0].x[0], profiles[0].x[-1])
    if not measure.higher:
        axes.set_xscale("symlog", linthresh=LINEAR)
        axes.set_xlim(-0.1 * LINEAR, max(float(profiles[0].x[-1]), LINEAR))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    frame(axes)
    return lines


def _over(study: Study, environments: Sequence[str], of: str) -> str:
    """Which environments a panel is over."""
    titles = ", ".join(study.environments[name].title for name in environments)
    many = len(environments)
    count = "one environment" if many == 1 else f"{many} environments, which weigh the same"
    text = f"{of}over the seeds of {count}: {titles}."
    return text[0].upper() + text[1:]


def _caption(study: Study, names: Sequence[str], environment: str | None) -> str:
    """What the lines and bands are, and who is not among them."""
    inside = {name: [environment] if environment is not None else list(study.scores(name)) for name in names}
    same = len({tuple(own) for own in inside.values()}) == 1
    over = [_over(study, own, "" if same else f"{compared(name).title}: ") for name, own in inside.items()]
    episodes = study.over(*dict.fromkeys(name for own in inside.values() for name in own))
    text = f"{' '.join(over[:1] if same else over)} Episodes: {episodes}. Bands: pointwise {CONFIDENCE:.0%} intervals, "
    text += f"stratified bootstrap, {RESAMPLES:,} resamples; none of fewer than {LEAST_SEEDS} seeds. "
    text += "A curve that is higher is better."
    missing = sorted({name for measure in names for name in study.left_out(measure)}, key=study.algorithms.index)
    if missing and environment is None:
        text += f" Not in all environments, so not drawn: {', '.join(study.titles[name] for name in missing)}."
    return text

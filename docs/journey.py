"""How a number travels from a CSV file to a figure: draws `docs/journey.svg` (`python docs/journey.py`).

The number is the energy that the tutorial's machine uses when it is new and runs fast. The journey is real: the script
reads the model from a file, two runs learn in it, their files are read back, and each box shows the value found there.
"""

from __future__ import annotations

import re
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import conrl
from conrl.drawing import save_figure
from conrl.experiments import load, parse_spec, run_study

DOCS = Path(__file__).parent
EPISODE, AT = 40, 100  # what we look at: an episode of the first seed, and a point on the axis of the figure
STUDY = """
name = "machine"
episodes = 200
seeds = 2
[environment.machine]
model = "machine.csv"
horizon = 20
limits = { repairs = 2, energy = 35 }
[algorithm.conrl]
"""
INK, PAPER = "#222222", "#ffffff"
FILES, MODEL, RUN, AFTER = "#f3e7c9", "#d7e8f5", "#d9eedd", "#f2dceb"


class Stop(NamedTuple):
    """A box: what the number is at this point, which modules handle it, and its value."""

    title: str
    modules: tuple[str, ...]
    value: str
    colour: str


def travel(folder: Path) -> list[Stop]:
    """Make the journey and note the value at each stop."""
    tutorial = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    table = re.search(r"```csv machine\.csv\n(.*?)```", tutorial, re.DOTALL)
    assert table is not None
    (folder / "machine.csv").write_text(table[1], encoding="utf-8")
    row = table[1].splitlines()[1]

    mdp = conrl.load_model(folder / "machine.csv", horizon=20)
    mdp = mdp.replace(limits={"repairs": 2, "energy": 35})
    state, action = mdp.state_names.index("new"), mdp.action_names.index("run fast")
    pair = int(mdp.pair_index[state, action])

    learner = conrl.ConRL(mdp.task, seed=0)
    history = conrl.learn(mdp, learner, EPISODE, 0)
    seen = int(np.flatnonzero(learner.model.state_names == np.array(str(state)))[0])  # its index there
    counts, estimate = learner.model.counts, learner.model.costs
    assert counts is not None
    prices = learner.prices
    assert prices is not None

    spec = parse_spec(STUDY, folder=folder)
    run_study(spec, folder / "study", workers=1)
    study = load(folder / "study")
    first, second = study.select("machine", "conrl")
    lines = (first.directory / "progress.csv").read_text().splitlines()
    column = lines[0].split(",").index("cost_energy")
    curve = next(c for c in study.curves("machine", at=[AT]) if (c.measure, c.cost) == ("cost", "energy"))
    smooth = first.smooth[AT - 1, 2], second.smooth[AT - 1, 2]
    assert history.expected_costs is not None
    assert float(lines[EPISODE].split(",")[column]) == history.costs[-1, 1]  # the same run, in memory and on disk

    return [
        Stop("a cell in a table", ("io/csv_files.py",), f"machine.csv, line 2:\n{row}", FILES),
        Stop(
            "the cost of an outcome,\nchecked",
            ("model/outcomes.py", "model/mdp.py", "model/graph.py"),
            f"energy of pair {pair} (new, run fast):\nmean over its outcomes {mdp.pay[pair, 2]:g}",
            MODEL,
        ),
        Stop(
            "paid in a step",
            ("sampling.py", "kernels/learning.py", "running/worlds.py"),
            f"episode {EPISODE}, 20 steps,\n{history.costs[-1, 1]:g} energy in total (an Episode)",
            RUN,
        ),
        Stop(
            "one of many\nobservations",
            ("estimation/counts.py",),
            f"(new, run fast): {counts[seen, action]} visits,\nmean {estimate[seen, action, 1]:g}",
            RUN,
        ),
        Stop(
            "a reason\nto act differently",
            ("estimation/bonuses.py", "planners/column_generation/planner.py", "oracles/backward_induction.py"),
            f"price of a unit of energy {prices[1]:.3f};\nnext plan: (1, -prices).(reward, costs)",
            RUN,
        ),
        Stop(
            "the cost of an episode",
            ("running/loop.py", "running/history.py", "evaluation.py"),
            f"realized {history.costs[-1, 1]:g},\nexpected {history.expected_costs[-1, 1]:.2f} (exact)",
            RUN,
        ),
        Stop(
            "a row on disk,\nwritten whole",
            ("experiments/store.py", "io/files.py"),
            f"seed-000/progress.csv, episode {EPISODE}:\ncost_energy = {lines[EPISODE].split(',')[column]}",
            FILES,
        ),
        Stop(
            "a point on\none run's curve",
            ("experiments/records.py",),
            f"mean of the last 100 at {AT}:\nseed 0 {smooth[0]:.2f}, seed 1 {smooth[1]:.2f}",
            AFTER,
        ),
        Stop(
            "a point on\nthe study's curve",
            ("experiments/analysis.py",),
            f"mean over seeds {curve.mean[0]:.2f},\ninterval [{curve.low[0]:.2f}, {curve.high[0]:.2f}]",
            AFTER,
        ),
        Stop(
            "a line in a figure",
            ("experiments/figures.py", "experiments/report.py", "drawing.py"),
            f"y = {curve.mean[0]:.2f} at x = {AT},\nnext to the limit, 35",
            AFTER,
        ),
    ]


def draw(stops: list[Stop]) -> Figure:
    """Boxes in two rows, the second from right to left; arrows between neighbors."""
    figure = Figure(figsize=(13.0, 5.8))
    axes: Any = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, 13.0)
    axes.set_ylim(0.0, 5.8)
    axes.axis("off")
    half = (len(stops) + 1) // 2
    width, height, gap = 2.3, 2.15, 0.25
    centres = [
        (0.2 + width / 2 + (i if i < half else 2 * half - 1 - i) * (width + gap), 4.2 if i < half else 1.3)
        for i in range(len(stops))
    ]
    for i, (stop, (x, y)) in enumerate(zip(stops, centres, strict=True)):
        box = FancyBboxPatch(
            (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=stop.colour, edgecolor=INK, linewidth=1.0,
        )  # fmt: skip
        axes.add_patch(box)
        common = {"ha": "center", "color": INK}
        axes.text(x, y + 0.95, f"{i + 1}. {stop.title}", va="top", fontsize=9.5, fontweight="bold", **common)
        axes.text(x, y + 0.02, stop.value, va="center", fontsize=8.2, **common)
        axes.text(x, y - 0.98, "\n".join(stop.modules), va="bottom", fontsize=7.8, family="monospace", **common)
    for (x, y), (to_x, to_y) in pairwise(centres):
        if x == to_x:
            ends = ((x, y - height / 2), (x, to_y + height / 2))
        else:
            side = 1.0 if to_x > x else -1.0
            ends = ((x + side * width / 2, y), (to_x - side * width / 2, y))
        axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=12, color=INK, shrinkA=1, shrinkB=1))
    # What is learned decides what is played next.
    (x, y), (to_x, _) = centres[4], centres[2]
    loop = FancyArrowPatch(
        (x - 0.3, y + height / 2), (to_x + 0.3, y + height / 2), connectionstyle="arc3,rad=0.2",
        arrowstyle="-|>", mutation_scale=12, color=INK, linestyle="--",
    )  # fmt: skip
    axes.add_patch(loop)
    said = {"fontsize": 8.2, "color": INK, "style": "italic"}
    axes.text((x + to_x) / 2, y + 1.32, "played in the next episode", ha="center", va="center", **said)
    axes.text(x - 0.1, (y + centres[5][1]) / 2, "played, and evaluated exactly", ha="right", va="center", **said)
    return figure


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        save_figure(draw(travel(Path(folder))), DOCS / "journey.svg")


if __name__ == "__main__":
    main()

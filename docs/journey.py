"""How a number travels through conrl: draws `docs/journey.svg` (`python docs/journey.py`).

The number is the energy that the tutorial's machine uses when it is new and runs fast. The journey is real: the script
reads the model from a file and plans in it; runs learn in it, and their files are read back; a policy is saved, acts,
and its log is watched and planned from. Each box shows the value found there.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

import conrl
from conrl.drawing import save_figure
from conrl.experiments import load, parse_spec, run_study
from conrl.experiments.figures import study_figure

DOCS = Path(__file__).parent
LIMITS = {"repairs": 2.0, "energy": 35.0}
MUCH, RISK = 38, 0.01  # of energy: no more than this share of episodes may use more
MACHINES, CREWS = 40, 5  # of a fleet: at most so many repairs in a step
EPISODE, AT = 40, 100  # of a run: an episode of the first seed, and a point on the axis of the figure
WATCHED = 500  # episodes of the running system
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
INK = "#222222"
FILES, MODEL, RUN, AFTER, LOGS = "#f3e7c9", "#d7e8f5", "#d9eedd", "#f2dceb", "#f9dccb"
WIDTH, HEIGHT, ACROSS, DOWN = 2.6, 1.95, 2.95, 2.7  # of a box, and from one to the next


class Stop(NamedTuple):
    """A box: what the number is at this point, which modules handle it, and its value."""

    title: str
    modules: tuple[str, ...]  # files or folders of `conrl`
    value: str
    color: str
    place: tuple[int, int]  # column and row


def travel(folder: Path) -> list[Stop]:
    """Make the journey and note the value at each stop."""
    tutorial = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    table = re.search(r"```csv machine\.csv\n(.*?)```", tutorial, re.DOTALL)
    assert table is not None
    (folder / "machine.csv").write_text(table[1], encoding="utf-8")
    mdp = conrl.load_model(folder / "machine.csv", horizon=20).replace(limits=LIMITS)
    return [*planned(mdp, table[1].splitlines()[1]), *learned(mdp, folder), *watched(mdp, folder)]


def planned(mdp: conrl.ConstrainedMDP, row: str) -> list[Stop]:
    """From a cell to plans: of a machine, of its single months, of many machines."""
    pair = int(mdp.pair_index[mdp.state_names.index("new"), mdp.action_names.index("run fast")])
    plan = conrl.plan(mdp)
    often = conrl.distribution(mdp, plan, "energy").exceed(MUCH)
    single = conrl.plan(mdp, conrl.Linear(LIMITS, chance={"energy": (MUCH, RISK)}))
    fleet = conrl.Fleet([(mdp, MACHINES)], {"energy": LIMITS["energy"] * MACHINES}, per_step={"repairs": CREWS})
    shared = conrl.plan(fleet)
    return [
        Stop(
            "a cell in a table", ("io/csv_files.py", "io/model_rows.py"), f"machine.csv, line 2:\n{row}", FILES, (0, 1)
        ),
        Stop(
            "the cost of an outcome",
            ("model/outcomes.py", "model/mdp.py", "model/graph.py"),
            f"new, run fast: {mdp.pay[pair, 2]:g} of energy,\nthe same at each of {mdp.horizon} steps",
            MODEL,
            (1, 1),
        ),
        Stop(
            "a price in a plan",
            ("planning.py", "planners/column_generation", "oracles/backward_induction.py"),
            f"{plan.costs[1]:g} of energy expected;\none more is worth {plan.prices[1]:.3f}",
            MODEL,
            (2, 1),
        ),
        Stop(
            "counted in single episodes",
            ("model/counting.py", "model/tracking.py", "planners/single_episodes"),
            f"above {MUCH} in {often:.1%} of episodes;\n{RISK:.0%} instead costs {plan.reward - single.reward:.2f}",
            MODEL,
            (3, 1),
        ),
        Stop(
            "shared by a fleet",
            ("model/fleet.py", "planners/fleet.py", "oracles/sum.py"),
            f"{shared.costs[1]:,.0f} for {MACHINES} machines; {CREWS} repairs\n"
            f"a step: one more is worth {shared.prices[1]:.3f}",
            MODEL,
            (4, 1),
        ),
    ]


def learned(mdp: conrl.ConstrainedMDP, folder: Path) -> list[Stop]:
    """From a step that is played to a line in a figure."""
    learner = conrl.ConRL(mdp.task, seed=0)
    history = conrl.learn(mdp, learner, EPISODE, 0)
    state, action = mdp.state_names.index("new"), mdp.action_names.index("run fast")
    seen = int(np.flatnonzero(learner.model.state_names == np.array(str(state)))[0])  # its index there
    counts, means, prices = learner.model.counts, learner.model.costs, learner.prices
    assert counts is not None
    assert prices is not None
    assert history.expected_costs is not None
    run_study(parse_spec(STUDY, folder=folder), folder / "study", workers=1)
    study = load(folder / "study")
    first, second = study.select("machine", "conrl")
    lines = (first.directory / "progress.csv").read_text().splitlines()
    cell = lines[EPISODE].split(",")[lines[0].split(",").index("cost_energy")]
    assert float(cell) == history.costs[-1, 1]  # the same run, in memory and on disk
    curve = next(c for c in study.curves("machine", at=[AT]) if (c.measure, c.cost) == ("cost", "energy"))
    drawn = [line for axes in study_figure(study).axes for line in axes.lines]
    heights = [np.interp(AT, np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in drawn]
    assert np.isclose(heights, curve.mean[0], rtol=1e-3).any()
    smooth = first.smooth[AT - 1, 2], second.smooth[AT - 1, 2]
    return [
        Stop(
            "paid in a step",
            ("sampling.py", "kernels/playing.py", "running/worlds.py"),
            f"episode {EPISODE}, {mdp.horizon} steps:\n{history.costs[-1, 1]:g} of energy in all",
            RUN,
            (1, 0),
        ),
        Stop(
            "a reason to act differently",
            ("learners/conrl.py", "estimation/counts.py", "estimation/adaptive.py"),
            f"{counts[seen, action]} visits, mean {means[seen, action, 1]:g};\nits next plan: price {prices[1]:.3f}",
            RUN,
            (2, 0),
        ),
        Stop(
            "a row on disk",
            ("running/history.py", "evaluation.py", "experiments/store.py"),
            f"progress.csv: {cell} of energy;\n{history.expected_costs[-1, 1]:.2f} expected (exact)",
            FILES,
            (3, 0),
        ),
        Stop(
            "a line in a figure",
            ("experiments/records.py", "experiments/curves.py", "experiments/figures.py"),
            f"two runs: {smooth[0]:.2f} and {smooth[1]:.2f};\ny = {curve.mean[0]:.2f} at x = {AT}",
            AFTER,
            (4, 0),
        ),
    ]


def watched(mdp: conrl.ConstrainedMDP, folder: Path) -> list[Stop]:
    """From a policy in a file to what a running system did, and to the plan that follows from that."""
    plan = conrl.plan(mdp)
    plan.save(folder / "policy.json")
    file = conrl.PolicyFile.load(folder / "policy.json")
    assert file.promise is not None
    conrl.save_episodes(folder / "log.csv", conrl.sample_log(mdp, file.policy, WATCHED, seed=1))
    log = conrl.load_episodes(folder / "log.csv")
    rows = (folder / "log.csv").read_text().splitlines()
    line = next(i for i, row in enumerate(rows) if ",new,run fast," in row)
    cells = ",".join(rows[line].split(",")[2:-1])
    energy = conrl.monitor(file, log).totals[2]
    model = conrl.estimate(log)
    pair = int(model.pair_index[model.state_names.index("new"), model.action_names.index("run fast")])
    sure = conrl.plan(model, LIMITS, confidence=0.95)
    assert sure.confidence is not None
    visits = sum(",new,run fast," in row for row in rows)
    return [
        Stop(
            "a promise in a file",
            ("policy_file.py", "policy_json.py"),
            f"policy.json:\n{file.promise.value[2]:.6g} of energy an episode",
            FILES,
            (2, 2),
        ),
        Stop(
            "a row of a log",
            ("estimation/logs.py", "estimation/log_files.py", "estimation/log_tables.py"),
            f"log.csv, line {line + 1}:\n... {cells} ...",
            FILES,
            (3, 2),
        ),
        Stop(
            "a promise watched",
            ("estimation/monitor.py", "estimation/betting.py"),
            f"{energy.mean:.2f} an episode, {energy.low:.1f} to {energy.high:.1f}:\n{energy.verdict}",
            AFTER,
            (4, 2),
        ),
        Stop(
            "estimated from the log",
            ("estimation/estimate.py", "estimation/counts.py"),
            f"new, run fast: {visits:,} visits,\nmean {model.pay[pair, 2]:g}",
            LOGS,
            (0, 2),
        ),
        Stop(
            "planned with confidence",
            ("estimation/confident.py", "estimation/cautious.py", "estimation/posterior.py"),
            f"{sure.costs[1]:.2f} expected; limits kept\nwith probability {sure.confidence.probability:.3f}",
            LOGS,
            (1, 2),
        ),
    ]


def draw(stops: list[Stop]) -> Figure:
    """Three rows: what is learned, what is planned, what runs."""
    wide, high = 4 * ACROSS + WIDTH + 0.3, 2 * DOWN + HEIGHT + 1.6
    figure = Figure(figsize=(wide, high))
    axes: Any = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0.0, wide)
    axes.set_ylim(0.0, high)
    axes.axis("off")

    def at(column: float, row: float, x: float = 0.0, y: float = 0.0) -> tuple[float, float]:
        """A point by its box and, from the middle of that, in halves of its width and height."""
        middle = 0.15 + WIDTH / 2 + column * ACROSS, high - 0.75 - HEIGHT / 2 - row * DOWN
        return middle[0] + x * WIDTH / 2, middle[1] + y * HEIGHT / 2

    def arrow(begin: tuple[float, float], end: tuple[float, float], bend: float = 0.0, style: str = "-") -> None:
        bent = f"arc3,rad={bend}"
        look: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 14, "color": INK, "linestyle": style}
        axes.add_patch(FancyArrowPatch(begin, end, connectionstyle=bent, shrinkA=1, shrinkB=1, **look))

    def say(place: tuple[float, float], text: str, align: str = "center") -> None:
        axes.text(*place, text, ha=align, va="center", fontsize=10, style="italic", color=INK)

    for i, stop in enumerate(stops):
        x, y = at(*stop.place)
        box = FancyBboxPatch(
            (x - WIDTH / 2, y - HEIGHT / 2), WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=stop.color, edgecolor=INK, linewidth=1.0,
        )  # fmt: skip
        axes.add_patch(box)
        common = {"ha": "center", "color": INK}
        axes.text(x, y + 0.85, f"{i + 1}. {stop.title}", va="top", fontsize=11, fontweight="bold", **common)
        axes.text(x, y + 0.25, stop.value, va="center", fontsize=10, **common)
        axes.text(x, y - 0.87, "\n".join(stop.modules), va="bottom", fontsize=9, family="monospace", **common)

    for column, row in ((1, 0), (2, 0), (3, 0), (0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2), (3, 2)):
        arrow(at(column, row, 1.0), at(column + 1, row, -1.0))
    arrow(at(1, 1, 0.0, 1.0), at(1, 0, 0.0, -1.0))
    arrow(at(2, 1, 0.0, -1.0), at(2, 2, 0.0, 1.0))
    arrow(at(2, 1, 0.5, 1.0), at(4, 1, 0.0, 1.0), bend=-0.1)
    arrow(at(2, 0, 0.0, 1.0), at(1, 0, 0.3, 1.0), bend=0.2, style="--")
    arrow(at(3, 2, 0.0, -1.0), at(0, 2, 0.0, -1.0), bend=-0.1, style="--")
    say((at(1.5, 0)[0], high - 0.25), "played in the next episode")
    say((at(1.5, 2)[0], 0.2), "what was logged says what to plan next")
    say((at(1, 0.5)[0] + 0.12, at(1, 0.5)[1]), "if it is not known: learned", "left")
    say((at(2, 1.5)[0] + 0.12, at(2, 1.5)[1]), "saved; another program acts from it", "left")
    say((at(3.1, 0)[0], at(3, 0.5)[1] + 0.1), "or many machines that share their limits")
    x, _ = at(0, 0, -1.0)
    axes.text(x, at(0, 0)[1] + 0.85, "How a number travels", va="top", fontsize=14, fontweight="bold", color=INK)
    told = "the energy that a machine\nuses when it is new and\nruns fast, from a cell of\na table to what follows"
    axes.text(x, at(0, 0)[1] + 0.45, told, va="top", fontsize=10.5, color=INK)
    return figure


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        save_figure(draw(travel(Path(folder))), DOCS / "journey.svg")


if __name__ == "__main__":
    main()

"""How near descent on the multipliers (`conrl.planners.lagrangian`) comes to the exact optimum, and how soon.

    python benchmarks/lagrangian.py                              # tables as markdown, under a minute
    python benchmarks/lagrangian.py --out docs/lagrangian.png    # and the figure

Mars rover (rock_reward=1, step 0.2) and Box (step 10) with the steps of the program behind the paper, constant and
falling like 1/sqrt(n). Three things are kept apart: how far the reward of the mixture lies below the optimum (of column
generation, gap 1e-9), how far its cost lies above the limit, and how far the best dual bound lies above the optimum.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

import conrl
from conrl.drawing import save_figure
from conrl.oracles import BackwardInduction
from conrl.planners.lagrangian import Lagrangian, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Float = NDArray[np.float64]

STEPS = {False: "constant", True: "falling"}
COLOURS = {False: "#D55E00", True: "#0072B2"}  # Okabe and Ito (2008)
GREY = "#444444"
ROUNDING = 1e-9  # the optimum is known no better


class Run(NamedTuple):
    """One descent, against the exact optimum."""

    name: str
    mdp: conrl.ConstrainedMDP
    limit: float
    optimum: float
    step: float
    decay: bool
    seconds: float
    trace: Trace

    @property
    def shortfall(self) -> Float:
        """[N]: optimum - reward of the mixture; negative where it is bought with cost above the limit."""
        return self.optimum - self.trace.average_reward

    @property
    def excess(self) -> Float:
        """[N]: cost of the mixture - limit."""
        return self.trace.excess[:, 0]

    @property
    def dual_gap(self) -> Float:
        """[N]: best dual bound - optimum."""
        assert self.trace.best_bound is not None
        return self.trace.best_bound - self.optimum


def descend(name: str, mdp: conrl.ConstrainedMDP, step: float, iterations: int) -> list[Run]:
    assert mdp.limits is not None
    problem = conrl.Linear(mdp.limits)
    exact = conrl.plan(mdp, problem)
    runs = []
    for decay in STEPS:
        begin = time.perf_counter()
        trace = Lagrangian(iterations, step, decay).plan(mdp, problem).trace
        took = time.perf_counter() - begin
        runs.append(Run(name, mdp, float(mdp.limits[0]), exact.objective, step, decay, took, trace))
    return runs


def shown(iterations: int) -> list[int]:
    """10, 100, ... up to the number of iterations."""
    return [10**k for k in range(1, int(np.log10(iterations) + 1e-9) + 1)]


def print_tables(runs: list[Run]) -> None:
    print("| environment | step | iterations | reward | cost | shortfall | cost above limit | dual bound - optimum |")
    print("|" + " --- |" * 8)
    for run in runs:
        for n in shown(run.excess.size):
            reward, cost = run.trace.average_reward[n - 1], run.trace.average_costs[n - 1, 0]
            short, over, gap = run.shortfall[n - 1], run.excess[n - 1], run.dual_gap[n - 1]
            print(
                f"| {run.name} | {run.step:g} {STEPS[run.decay]} | {n:,} | {reward:.4f} | {cost:.4f} "
                f"| {short:.1e} | {over:.1e} | {gap:.1e} |"
            )
    print("\nThe policy that answers the average multiplier of the first n iterations, instead of the mixture:\n")
    print("| environment | step | iterations | average multiplier | reward | cost |")
    print("|" + " --- |" * 6)
    for run in runs:
        for n in shown(run.excess.size):
            mean = float(run.trace.average_multipliers[n - 1, 0])
            value = answer(run.mdp, mean)
            print(
                f"| {run.name} | {run.step:g} {STEPS[run.decay]} | {n:,} | {mean:.4f} "
                f"| {value[0]:.4f} | {value[1]:.4f} |"
            )
    for run in runs:
        print(
            f"\n{run.name}, {STEPS[run.decay]} step: {1e6 * run.seconds / run.excess.size:.0f} us an iteration", end=""
        )
    print()


def answer(mdp: conrl.ConstrainedMDP, multiplier: float) -> Float:
    """[1+d]: the value of the best response to a multiplier."""
    return BackwardInduction(mdp).support(np.array([1.0, -multiplier])).mean


# -- the figure -------------------------------------------------------------------------------------------


def draw(runs: list[Run]) -> Figure:
    """A row an environment; reward, cost and bound in columns, at iterations evenly spread on the logarithmic axis."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(run.name for run in runs))
    figure = Figure(figsize=(11.0, 3.0 * len(names) + 1.0), layout="constrained")
    table = figure.subplots(len(names), 3, sharex=True, squeeze=False)
    for row, name in zip(table, names, strict=True):
        mine = [r for r in runs if r.name == name]
        for run in mine:
            for axes, error in zip(row, (run.shortfall, run.excess, run.dual_gap), strict=True):
                _curve(axes, error, run.decay)
        first = mine[0]
        title = f"{name}, step {first.step:g}"
        row[0].set_ylabel(f"{title}\noptimum {first.optimum:.4f} at cost {first.limit:g}", fontsize=9.5)
        row[2].axhline(ROUNDING, color=GREY, lw=0.9, ls=":")
        row[2].text(1.3, 1.4 * ROUNDING, "precision of the exact optimum", fontsize=8, color=GREY)
    titles = ("Reward of the mixture:\ndistance from the optimum", "Cost of the mixture:\ndistance from the limit")
    for axes, title in zip(table[0], (*titles, "Best dual bound:\ndistance above the optimum"), strict=True):
        axes.set_title(title, fontsize=10)
    for axes in table.flat:
        axes.set(xscale="log", yscale="log", xlim=(0.8, 1.25 * runs[0].excess.size))
        axes.grid(alpha=0.3, lw=0.5)
    for axes in table[-1]:
        axes.set_xlabel("iterations")
    dot = {"marker": "o", "ms": 4.5, "ls": "", "color": GREY}
    handles = [
        Line2D([], [], color=COLOURS[False], lw=1.6, label="constant step (Algorithm 2): stalls"),
        Line2D([], [], color=COLOURS[True], lw=1.6, label="step falling as 1/sqrt(n): converges"),
        Line2D([], [], **dot, label="reward too low; cost too high"),  # type: ignore[arg-type]
        Line2D([], [], **dot, mfc="white", label="reward above optimum; cost below limit"),  # type: ignore[arg-type]
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


def _curve(axes: Axes, error: Float, decay: bool) -> None:
    n = np.unique(np.geomspace(1, error.size, 8 * len(shown(error.size)) + 1).round().astype(int))
    there = error[n - 1]
    size = np.maximum(np.abs(there), ROUNDING)
    colour, good = COLOURS[decay], there < -ROUNDING
    axes.plot(n, size, color=colour, lw=1.2)
    axes.plot(n[~good], size[~good], "o", ms=3.8, color=colour)
    axes.plot(n[good], size[good], "o", ms=3.8, color=colour, mfc="white")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=100_000)
    parser.add_argument("--out", type=Path, help="write the figure here (.png, .pdf, .svg)")
    given = parser.parse_args()
    runs = [
        *descend("Mars rover", conrl.envs.mars_rover(rock_reward=1.0), 0.2, given.iterations),
        *descend("Box", conrl.envs.box(), 10.0, given.iterations),
    ]
    print_tables(runs)
    if given.out is not None:
        save_figure(draw(runs), given.out)


if __name__ == "__main__":
    main()

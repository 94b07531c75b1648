"""A rover that must not crash, learned by seven algorithms: which ones keep the limit, and which one gets there first?

Crashing is tempting: a rock pays as much as the goal, and is closer. At most 0.3 crashes are allowed in expectation.
The learners know the size of the map and nothing else. RCPO and ApproPO train a network (extra `deep`) and need
thousands of episodes, so this short run only shows how they start. `conrl reproduce figure1` is the long version.

Run: python examples/rover_compared.py [picture.png]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import conrl
from conrl.drawing import save_figure

EPISODES = 500
WINDOW = 50
COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#E69F00", "#444444")


def learners(rover: conrl.ConstrainedMDP) -> dict[str, Any]:
    """Fresh learners by name."""
    task = rover.task
    return {
        "ConRL": conrl.ConRL(task),
        "ConRL, the paper's planner": conrl.ConRL(task, preset="authors"),
        "OptCMDP": conrl.OptCMDP(task),
        "OptPrimalDual": conrl.OptPrimalDual(task),
        "RCPO": conrl.RCPO(task, rate=1e-3),
        "ApproPO": conrl.ApproPO(task, threshold=1.4),
        "UCBVI, which ignores the limit": conrl.UCBVI(task),
    }


def main() -> None:
    rover = conrl.envs.mars_rover(rock_reward=1.0)
    best = conrl.plan(rover)
    free = conrl.plan(rover, conrl.Linear([np.inf]))
    print(f"Optimum within the limit: reward {best.reward:.3f} at {best.costs[0]:.2f} crashes")
    print(f"Without it: {free.reward:.3f} at {free.costs[0]:.2f}; the limit costs {free.reward - best.reward:.3f}")
    print(f"Mean over the last {WINDOW} of {EPISODES} episodes, exact values:")
    curves = {}
    for name, learner in learners(rover).items():
        history = conrl.learn(rover, learner, EPISODES, seed=0)
        assert history.executed is not None
        curves[name] = history.executed
        reward, cost = history.executed[-WINDOW:].mean(axis=0)
        kept = "kept" if cost <= 0.35 else "broken"
        print(
            f"  {name:32s} reward {reward:.3f}, crashes {cost:.3f} ({kept}), {history.costs.sum():.0f} crashes in all"
        )
    if len(sys.argv) > 1:
        draw(best, curves, sys.argv[1])


def draw(best: conrl.Plan, curves: dict[str, np.ndarray], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, 2)
    kernel = np.ones(WINDOW) / WINDOW
    for i, (name, label) in enumerate((("reward", "reward"), ("crashes", "crashes"))):
        axes = panels[i]
        for colour, (who, values) in zip(COLOURS, curves.items(), strict=True):
            smooth = np.convolve(values[:, i], kernel, mode="valid")
            axes.plot(np.arange(WINDOW, len(values) + 1), smooth, color=colour, label=who)
        limit = best.reward if i == 0 else 0.3
        axes.axhline(limit, color="#222222", linestyle="--", linewidth=1)
        axes.text(4, limit, "optimum" if i == 0 else "limit", va="bottom", fontsize=8)
        axes.set(xlabel=f"episodes (mean of the last {WINDOW})", ylabel=label, title=name)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(color="#dddddd")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save_figure(figure, path)


if __name__ == "__main__":
    main()

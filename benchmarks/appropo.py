"""ApproPO on the paper's two environments, to the end of its play: ten seeds, exact and sampled values.

    python benchmarks/appropo.py            # 40 runs, some minutes on two cores; writes docs/data/appropo*.csv
    python benchmarks/appropo.py --draw     # the tables and docs/appropo.png again, from docs/data

Settings of the program behind the paper (Mars rover with rock_reward=1: reward >= 1.4, cost <= 0.3, step 1, 20 episodes
a call; Box: 1.58, 0.1, 10, 25). All values of policies are exact; *believed* is what a learner with sampled values
takes the mixture for. Trajectories are those until play ended: of training and, sampled, also to confirm answers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from studies import BLUE, DATA, ORANGE, as_they_end, read_rows, table, write_rows

import conrl
from conrl.drawing import save_figure
from conrl.envs import box, mars_rover
from conrl.learners.appropo import ApproPO
from conrl.targets import Box, distance

SEEDS = range(10)
MOST = 20_000  # trajectories
CHUNK = 500  # of them between two looks at whether play has ended
RUNS, CURVES = "appropo.csv", "appropo-curves.csv"
HEADER = (
    *("environment", "values", "seed", "ended", "trajectories", "rounds", "answers", "training_cost", "distance"),
    *("mixture_reward", "mixture_cost", "newest_reward", "newest_cost", "believed_reward", "believed_cost"),
)
CURVE = ("environment", "seed", "trajectories", "newest_reward", "newest_cost", "mixture_reward", "mixture_cost")
AUTHORS = {"Mars rover": "1,960-3,060; training cost 2,400-4,400", "Box": "675-700"}  # of the program, three seeds


class Setting(NamedTuple):
    """How the program plays on a map."""

    make: Callable[[], conrl.ConstrainedMDP]
    threshold: float
    limit: float
    step: float
    episodes: int

    @property
    def target(self) -> Box:
        return Box([self.threshold, -np.inf], [np.inf, self.limit])


MAPS = {
    "Mars rover": Setting(lambda: mars_rover(rock_reward=1.0), 1.4, 0.3, 1.0, 20),
    "Box": Setting(box, 1.58, 0.1, 10.0, 25),
}


def run(job: tuple[str, str, int]) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
    """One run to its end: a row, and where the newest answer and the mixture changed."""
    name, values, seed = job
    env = MAPS[name]
    mdp = env.make()
    settings: dict[str, Any] = {"preset": "authors", "peek": mdp} if values == "exact" else {}
    learner = ApproPO(mdp.task, threshold=env.threshold, step=env.step, episodes=env.episodes, **settings)
    history = None
    while not learner.over and learner.episodes < MOST:
        history = conrl.learn(mdp, learner, CHUNK, seed=seed, history=history)
    history = conrl.learn(mdp, learner, 1, seed=seed, history=history)  # what is shown is known before an episode
    newest, mixture = history.reported, history.mixture
    assert newest is not None
    assert mixture is not None
    both = np.column_stack((newest, mixture))
    changed = ~np.isnan(both[1:, 0]) & (both[1:] != both[:-1]).any(axis=1)
    curve = [(name, seed, int(k) + 1, *both[k + 1]) for k in np.flatnonzero(changed)]
    head = (name, values, seed, int(learner.over), learner.used, learner.game.t, len(learner.answers))
    cost, off = float(history.costs[: learner.used].sum()), distance(env.target, mixture[-1])
    return (*head, cost, off, *mixture[-1], *newest[-1], *learner.answers.mean), curve


def compute() -> None:
    jobs = [(name, values, seed) for values in ("exact", "sampled") for name in MAPS for seed in SEEDS]
    found = {}
    for job, result in as_they_end(run, jobs):
        found[job] = result
        print(f"{len(found)}/{len(jobs)}  {job}: {result[0][3:]}", file=sys.stderr, flush=True)
    write_rows(RUNS, HEADER, (found[job][0] for job in jobs))
    write_rows(CURVES, CURVE, (row for job in jobs if job[1] == "exact" for row in found[job][1]))


def show() -> None:
    rows = read_rows(RUNS)
    summary = []
    for values in ("exact", "sampled"):
        for name in MAPS:
            mine = [row for row in rows if (row["environment"], row["values"]) == (name, values)]
            summary.append((name, values, *_summary(name, values, mine)))
    head = ("", "values", "mixture in target", "within 0.005", "trajectories", "of the program")
    table((*head, "training cost", "mixture: reward", "cost", "believed cost"), summary)
    for name in MAPS:
        for values in ("exact", "sampled"):
            mine = [row for row in rows if (row["environment"], row["values"]) == (name, values)]
            print(f"{name}, {values} values:\n")
            each = [
                (
                    *(row[key] for key in ("seed", "trajectories", "rounds", "answers")),
                    f"{float(row['training_cost']):,.0f}",
                    *(_pair(row, what) for what in ("mixture", "newest", "believed")),
                )
                for row in mine
            ]
            shown = ("mixture", "newest answer", "mixture as believed")
            table(("seed", "trajectories", "rounds", "policies", "training cost", *shown), each)


def _summary(name: str, values: str, rows: list[dict[str, str]]) -> tuple[str, ...]:
    off = np.array([float(row["distance"]) for row in rows])
    used, spent, reward, cost, believed = (
        np.array([float(row[key]) for row in rows])
        for key in ("trajectories", "training_cost", "mixture_reward", "mixture_cost", "believed_cost")
    )
    return (
        f"{(off <= 1e-6).sum()} of {off.size}",
        f"{(off <= 0.005).sum()} of {off.size}",
        f"{used.min():,.0f}-{used.max():,.0f}, median {np.median(used):,.0f}",
        AUTHORS[name] if values == "exact" else "",
        f"{spent.min():,.0f}-{spent.max():,.0f}",
        f"{reward.min():.3f}-{reward.max():.3f}",
        f"{cost.min():.3f}-{cost.max():.3f}",
        f"{believed.min():.3f}-{believed.max():.3f}",
    )


def _pair(row: dict[str, str], what: str) -> str:
    return f"{float(row[f'{what}_reward']):.3f} @ {float(row[f'{what}_cost']):.4f}"


def draw() -> None:
    """The newest answer and the mixture against trajectories, every seed."""
    from matplotlib.figure import Figure

    rows, runs = read_rows(CURVES), read_rows(RUNS)
    figure = Figure(figsize=(9, 5), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col")
    for j, (name, env) in enumerate(MAPS.items()):
        ends = {row["seed"]: int(row["trajectories"]) for row in runs if _is(row, name) and row["values"] == "exact"}
        for i, measure in enumerate(("reward", "cost")):
            axes = panels[i, j]
            for seed in map(str, SEEDS):
                mine = [row for row in rows if _is(row, name) and row["seed"] == seed]
                x = [int(row["trajectories"]) for row in mine]
                for what, colour, width in (("newest", ORANGE, 0.8), ("mixture", BLUE, 1.4)):
                    y = [float(row[f"{what}_{measure}"]) for row in mine]
                    label = {"newest": "newest answer", "mixture": "mixture"}[what] if seed == "0" else None
                    far = [*x, max(ends.values())]
                    axes.step(far, [*y, y[-1]], where="post", color=colour, linewidth=width, label=label)
                axes.plot(ends[seed], y[-1], "o", color=BLUE, markersize=4)
            bound = env.threshold if measure == "reward" else env.limit
            axes.axhline(bound, color="#222222", linestyle="--", linewidth=1)
            axes.set_xlim(left=0)
            axes.set_ylabel(measure)
            axes.grid(color="#dddddd", linewidth=0.5)
        panels[0, j].set_title(f"{name}: reward >= {env.threshold:g}, cost <= {env.limit:g}", fontsize=10)
        panels[1, j].set_xlabel("trajectories; dots: where play ended")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    save_figure(figure, DATA.parent / "appropo.png")


def _is(row: dict[str, str], name: str) -> bool:
    return row["environment"] == name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draw", action="store_true", help="from docs/data, compute nothing")
    if not parser.parse_args().draw:
        compute()
    show()
    draw()


if __name__ == "__main__":
    main()

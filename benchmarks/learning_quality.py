"""How well ConRL learns: quality on the paper's environments, regret in the three settings, pricing with a hard budget.

    python benchmarks/learning_quality.py                      # all three, most of an hour on two busy cores
    python benchmarks/learning_quality.py --only quality       # or regret, or pricing
    python benchmarks/learning_quality.py --draw               # tables and figures again from docs/data, in seconds

Each study computes, writes its numbers under docs/data, and draws from that file. This file holds the first;
`regret_study` and `pricing_study` the other two.

Quality: 600 episodes, 10 seeds. What counts is the exact value of the executed policies over episodes 400 to 600,
averaged, against what the design set out to reach.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pricing_study
import regret_study
from numpy.typing import NDArray
from studies import Float, read_rows, spread, table, with_error, write_rows

import conrl
from conrl import metrics
from conrl.envs import box, mars_rover

EPISODES, LAST = 600, slice(400, 600)
WINDOW, NEAR, OVER = 20, 0.05, 1e-9  # closer than `conrl.metrics` has them: these runs are short
SEEDS = range(10)
FRESH = range(100, 140)  # on which nothing was chosen
MAPS: dict[str, Callable[[], conrl.ConstrainedMDP]] = {"Mars rover": lambda: mars_rover(rock_reward=1.0), "Box": box}


def power_one(visits: NDArray[np.int64], episode: int, task: conrl.Task) -> Float:
    """0.1 / N optimism about reward, 0.05 / N caution about cost; 1 for a pair never visited."""
    b = np.array([0.1, -0.05]) / np.maximum(visits, 1)[:, None]
    b[visits == 0] = 1.0
    return b


def _authors(step: float) -> dict[str, Any]:
    planner = conrl.Lagrangian(10, step, keep_multipliers=True, returns="average-multiplier")
    return {"preset": "authors", "planner": planner}


SETTINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "default": dict,
    "(0.02, -0.01)": lambda: {"bonus": conrl.ScaledBonus()},
    "authors' bonus, exact planner": lambda: {"bonus": conrl.ScaledBonus(0.001, 0.001, relative=False)},
    "(0.02, 0)": lambda: {"bonus": conrl.ScaledBonus(0.02, 0.0)},
    "(0.02, -0.02)": lambda: {"bonus": conrl.ScaledBonus(0.02, -0.02)},
    "(0.02, 0.02)": lambda: {"bonus": conrl.ScaledBonus(0.02, 0.02)},
    "(0.05, -0.01)": lambda: {"bonus": conrl.ScaledBonus(0.05, -0.01)},
    "(0.01, -0.01)": lambda: {"bonus": conrl.ScaledBonus(0.01, -0.01)},
    "0.1/N and -0.05/N": lambda: {"bonus": power_one},
    "(0.02, -0.01), unvisited 0.5": lambda: {"bonus": conrl.ScaledBonus(unvisited=0.5)},
    "version 0.1: (0.02, -0.01) without bounds, a component drawn": lambda: {
        "bonus": conrl.ScaledBonus(bounded=False),
        "play": "mixture",
    },
    "default without exploring episodes": lambda: {"bonus": conrl.AdaptiveBonus(explore=False)},
    'preset "authors" (step 0.2)': lambda: {"preset": "authors"},
    'preset "authors", step 10': lambda: _authors(10.0),
}
ONLY_BOX = ('preset "authors", step 10',)
CHECKED = ("default", "(0.02, -0.01)", "authors' bonus, exact planner")  # on fresh seeds too


class Job(NamedTuple):
    environment: str
    setting: str
    seed: int


class Run(NamedTuple):
    """One run, as a row of docs/data/learning-quality.csv."""

    environment: str
    setting: str
    seed: int
    reward: float  # exact, of the executed policies, mean over episodes 400-600
    cost: float
    realized_cost: float  # all 600 episodes
    above_limit: int  # episodes at which the mean exact cost of `WINDOW` is above the limit
    solved_from: int | None  # from which their mean reward stays within `NEAR` of the optimum, whatever the cost


def run(job: Job) -> Run:
    mdp = MAPS[job.environment]()
    learner = conrl.ConRL(mdp.task, keep_policies=False, **SETTINGS[job.setting]())
    h = conrl.learn(mdp, learner, EPISODES, seed=job.seed)
    assert h.executed is not None
    assert h.optimum is not None
    reward, cost = (float(x) for x in h.executed[LAST].mean(axis=0))
    smoothed = metrics.smooth(h.executed, WINDOW)
    above = metrics.violated(smoothed[:, 1:], h.limits, h.floors, h.largest[1:], OVER).sum()
    solved = metrics.first_lasting(metrics.reaches(smoothed[:, 0], h.optimum.reward, h.largest[0], NEAR))
    return Run(*job, reward, cost, float(h.costs.sum()), int(above), solved)


def compute() -> None:
    jobs = [Job(e, s, i) for e in MAPS for s in SETTINGS for i in SEEDS if e == "Box" or s not in ONLY_BOX]
    jobs += [Job(e, s, i) for e in MAPS for s in CHECKED for i in FRESH]
    write_rows("learning-quality.csv", Run._fields, spread(run, jobs))


def load() -> list[Run]:
    rows = read_rows("learning-quality.csv")
    return [
        Run(
            r["environment"],
            r["setting"],
            int(r["seed"]),
            float(r["reward"]),
            float(r["cost"]),
            float(r["realized_cost"]),
            int(r["above_limit"]),
            int(r["solved_from"]) if r["solved_from"] else None,
        )
        for r in rows
    ]


def report() -> None:
    runs = load()
    for environment, make in MAPS.items():
        best = conrl.plan(make())
        for seeds, settings in ((SEEDS, tuple(SETTINGS)), (FRESH, CHECKED)):
            which = f"seeds {seeds[0]} to {seeds[-1]}"
            print(f"{environment}, {which}; optimum {best.reward:.4f} at {best.costs[0]:g}\n")
            mine = [r for r in runs if r.environment == environment and r.seed in seeds]
            rows = [[s, *summary(some)] for s in settings if (some := [r for r in mine if r.setting == s])]
            header = ["bonus (reward, cost) / sqrt(N)", "reward", "cost", "worst seed's reward", "worst seed's cost"]
            table([*header, "realized cost of 600", "mean cost of 20 above limit", "within 5% from episode"], rows)


def summary(runs: list[Run]) -> list[str]:
    solved = sorted(r.solved_from for r in runs if r.solved_from is not None)
    never = len(runs) - len(solved)
    when = f"{np.median(solved):.0f} ({solved[0]}-{solved[-1]})" if solved else "-"
    return [
        with_error([r.reward for r in runs]),
        with_error([r.cost for r in runs]),
        f"{min(r.reward for r in runs):.3f}",
        f"{max(r.cost for r in runs):.3f}",
        with_error([r.realized_cost for r in runs], 1),
        f"{np.mean([r.above_limit for r in runs]):.0f}",
        when + (f", never in {never}" if never else ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["quality", "regret", "pricing"], help="one study only")
    parser.add_argument("--draw", action="store_true", help="from the numbers in docs/data, without computing")
    given = parser.parse_args()
    studies: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "quality": (compute, report),
        "regret": (regret_study.compute, regret_study.report),
        "pricing": (pricing_study.compute, pricing_study.report),
    }
    for name, (work, show) in studies.items():
        if given.only in (None, name):
            begin = time.perf_counter()
            if not given.draw:
                work()
            show()
            print(f"({name}: {time.perf_counter() - begin:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()

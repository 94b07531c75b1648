"""When the runs of a study are good, and how they end: the tables of docs/results.md that `summary.csv` does not have.

    python benchmarks/study_table.py DIR            # by algorithm: reached, stays, cumulative cost
    python benchmarks/study_table.py DIR --runs     # each run: the mean of its last 100 trajectories

*Reached* is the first trajectory (from 100 on) at which the mean of the last 100 is within 0.1 of the episodic optimum
and 0.05 of the limits; *stays*, from which it is so to the end. Medians over seeds, and of how many seeds. Both are
amounts, in the units of the paper's two maps, as its other tables have them; `conrl report` takes shares instead.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from studies import table

from conrl.experiments import RunRecord, load
from conrl.metrics import WINDOW, first_lasting

FIRST = 2000  # trajectories that all algorithms have
NEAR, OVER = 0.1, 0.05  # of reward and of cost


def good(run: RunRecord, optimum: float) -> NDArray[np.bool_]:
    """[K]: where the means of the last 100 are near the optimum and within the limits."""
    near: NDArray[np.bool_] = run.smooth[:, 0] >= optimum - NEAR
    return near & (run.smooth[:, 1:] <= run.limits + OVER).all(axis=1)


def reached(run: RunRecord, optimum: float) -> float:
    found = good(run, optimum)
    found[: 0 if run.continuing else WINDOW - 1] = False
    return float(np.argmax(found)) + 1.0 if found.any() else np.inf


def stays(run: RunRecord, optimum: float) -> float:
    return float(first_lasting(good(run, optimum)) or np.inf)


def median(values: list[float]) -> str:
    middle = float(np.median(values))
    shown = f"{int(middle + 0.5):,}" if np.isfinite(middle) else "never"
    return f"{shown} ({np.isfinite(values).sum()})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory")
    parser.add_argument("--runs", action="store_true")
    options = parser.parse_args()
    study = load(options.directory)
    if options.runs:
        each = []
        for run in study.runs:
            reward, *costs = run.smooth[-1]
            names = (run.environment, run.algorithm, str(run.seed), str(run.episodes))
            played = run.executed[-WINDOW:].mean(axis=0)  # the same, unless the learner shows something else
            shown = (f"{reward:.2f}", " ".join(f"{cost:.2f}" for cost in costs))
            each.append((*names, *shown, " @ ".join(f"{x:.2f}" for x in played)))
        table(("environment", "algorithm", "seed", "trajectories", "reward", "costs", "played"), each)
        return
    rows = []
    for name, env in study.environments.items():
        assert env.optimum is not None
        best = env.optimum.reward
        for algorithm in study.algorithms:
            runs = study.select(name, algorithm)
            if not runs:
                continue
            final = np.array([run.final for run in runs])
            spread = final.std(axis=0, ddof=1) if len(runs) > 1 else np.zeros(final.shape[1])
            rows.append(
                (
                    name,
                    study.titles[algorithm],
                    f"{final[:, 0].mean():.3f} +- {spread[0]:.3f}",
                    f"{final[:, 1].mean():.3f} +- {spread[1]:.3f}",
                    median([reached(run, best) for run in runs]),
                    median([stays(run, best) for run in runs]),
                    f"{np.mean([run.costs[:FIRST].sum() for run in runs]):,.0f}",
                    f"{np.mean([run.costs.sum() for run in runs]):,.0f}",
                )
            )
    first = f"cumulative cost, first {FIRST:,}"
    table(("", "algorithm", "reward at the end", "cost", "reached", "stays", first, "all"), rows)


if __name__ == "__main__":
    main()

"""All algorithms of the paper, and three more, on its two environments: reward, cost, trajectories needed.

    python benchmarks/comparison.py                 # 3 seeds of everything that is not in docs/data/comparison.csv yet
    python benchmarks/comparison.py --only rcpo     # those whose name begins so
    python benchmarks/comparison.py --draw          # the table again from docs/data/comparison.csv

Each runs at the hyper-parameters of the program behind the paper (`authors` where that peeked at exact values). Reward
and cost are exact values of the executed policies, means over the last tenth of the trajectories; of ApproPO those of
its newest answer (benchmarks/appropo.py has its mixtures); of TFW-UCRL2, 30 times the running mean per step. *Solved*
is the first trajectory from which the mean of the last 100 stays within 0.1 of the constrained optimum (or above) and
within 0.05 of the limit (or below), to the end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from studies import DATA, Float, as_they_end, read_rows, table, write_rows

import conrl
from conrl.envs import box, mars_rover
from conrl.learners.appropo import ApproPO
from conrl.learners.optcmdp import OptCMDP
from conrl.learners.optprimaldual import OptPrimalDual
from conrl.learners.rcpo import RCPO
from conrl.learners.tfw_ucrl2 import TFWUCRL2, radius
from conrl.learners.ucbvi import UCBVI
from conrl.metrics import WINDOW, first_lasting, smooth
from conrl.model.transform import reachable_part, single_episode
from conrl.oracles import A2C, A2CSettings

SEEDS = range(3)
FILE = "comparison.csv"
HEADER = ("environment", "algorithm", "seed", "trajectories", "reward", "cost", "cumulative", "solved")
MAPS: dict[str, Callable[[], conrl.ConstrainedMDP]] = {"Mars rover": lambda: mars_rover(rock_reward=1.0), "Box": box}
STEP = {"Mars rover": 0.2, "Box": 10.0}  # of the multiplier in ConRL's planner
RATE = {"Mars rover": 1e-3, "Box": 1e-2}  # of RCPO's multiplier
GAME = {"Mars rover": (1.4, 1.0, 20), "Box": (1.58, 10.0, 25)}  # ApproPO: threshold, step, episodes a call


def tfw_radii(evidence: conrl.Evidence) -> Float:
    """The radii of TFW-UCRL2 around rewards and costs as a bonus of ConRL: the ablation."""
    unit = evidence.task.spread
    visits: NDArray[Any] = evidence.visits
    return radius(evidence.model.pay / unit, visits[:, None], max(int(visits.sum()), 1)) * unit


def lagrangian(env: str, oracle: Any = "value-iteration") -> conrl.Lagrangian:
    return conrl.Lagrangian(10, STEP[env], keep_multipliers=True, returns="average-multiplier", oracle=oracle)


def conrl_a2c(env: str, mdp: conrl.ConstrainedMDP, **settings: Any) -> conrl.ConRL:
    """With the program's loss; actions are drawn from the network, whose first weights have the usual gains."""
    numbers = A2CSettings(value_loss="smooth-l1", entropy=1e-3)
    planner = lagrangian(env, A2C(settings=numbers, **settings))
    return conrl.ConRL(mdp.task, preset="authors", planner=planner, executes="policy", keep_policies=False)


def appropo(env: str, mdp: conrl.ConstrainedMDP, **settings: Any) -> ApproPO:
    threshold, step, episodes = GAME[env]
    return ApproPO(mdp.task, threshold=threshold, step=step, episodes=episodes, **settings)


Make = Callable[[str, conrl.ConstrainedMDP], Any]
# name -> (trajectories, what makes it)
ALGORITHMS: dict[str, tuple[int, Make]] = {
    "conrl (default)": (2000, lambda env, mdp: conrl.ConRL(mdp.task, keep_policies=False)),
    "conrl-value-iteration (authors)": (
        2000,
        lambda env, mdp: conrl.ConRL(mdp.task, preset="authors", planner=lagrangian(env), keep_policies=False),
    ),
    "conrl-a2c (table: reset none)": (1000, lambda env, mdp: conrl_a2c(env, mdp)),
    "conrl-a2c (continue)": (2000, lambda env, mdp: conrl_a2c(env, mdp, reset="continue")),
    "conrl-a2c (continue, 5 + 50)": (
        1000,
        lambda env, mdp: conrl_a2c(env, mdp, reset="continue", episodes=5, final_episodes=50),
    ),
    "rcpo (authors, exact costs)": (
        20000,
        lambda env, mdp: RCPO(mdp.task, preset="authors", rate=RATE[env], peek=mdp),
    ),
    "rcpo (sampled costs)": (20000, lambda env, mdp: RCPO(mdp.task, rate=RATE[env])),
    "appropo (authors, exact values)": (20000, lambda env, mdp: appropo(env, mdp, preset="authors", peek=mdp)),
    "appropo (sampled values)": (20000, lambda env, mdp: appropo(env, mdp)),
    "tfw-ucrl2": (33333, lambda env, mdp: TFWUCRL2(mdp.task)),
    "optcmdp": (600, lambda env, mdp: OptCMDP(mdp.task, keep_policies=False)),
    "opt-primal-dual": (2000, lambda env, mdp: OptPrimalDual(mdp.task)),
    "ucbvi (ignores the limit)": (2000, lambda env, mdp: UCBVI(mdp.task, keep_policies=False)),
    "conrl with TFW-UCRL2's radii": (
        2000,
        lambda env, mdp: conrl.ConRL(mdp.task, bonus=tfw_radii, keep_policies=False),
    ),
}


def world_of(name: str, mdp: conrl.ConstrainedMDP) -> conrl.ConstrainedMDP:
    """Where an algorithm learns: TFW-UCRL2 in one unending episode."""
    return reachable_part(single_episode(mdp)) if name.startswith("tfw") else mdp


def run(job: tuple[str, str, int]) -> tuple[Any, ...]:
    """One run: a row of the file."""
    env, name, seed = job
    trajectories, make = ALGORITHMS[name]
    mdp = MAPS[env]()
    world = world_of(name, mdp)
    learner = make(env, world)
    history = conrl.learn(world, learner, trajectories, seed=seed)
    values = history.executed if history.reported is None else history.reported
    assert values is not None
    late = values[-(trajectories // 10) :].mean(axis=0)
    if name.startswith("tfw"):
        late = values[-1]  # a running mean already
    best = conrl.plan(mdp)
    assert mdp.limits is not None
    solved = solved_from(values, best.reward - 0.1, float(mdp.limits[0]) + 0.05, not name.startswith("tfw"))
    cumulative = float(history.costs.sum())
    return env, name, seed, trajectories, float(late[0]), float(late[1]), cumulative, solved


def solved_from(values: Float, least: float, most: float, average: bool) -> int | None:
    """The first trajectory from which the mean of the last 100 is good to the end."""
    if average:
        values = smooth(values, WINDOW)
    return first_lasting((values[:, 0] >= least) & (values[:, 1] <= most))  # nothing shown yet is not good


def compute(only: str | None, again: bool) -> None:
    """Run what is not in the file yet, and write each run down as it ends."""
    rows = {}
    if (DATA / FILE).exists():
        rows = {
            (row["environment"], row["algorithm"], int(row["seed"])): tuple(row.values()) for row in read_rows(FILE)
        }
    asked = [
        (env, name, seed)
        for name in ALGORITHMS
        for env in MAPS
        for seed in SEEDS
        if only is None or name.startswith(only)
    ]
    jobs = [job for job in asked if again or job not in rows]
    order = {(env, name, seed): i for i, (env, name, seed) in enumerate(product(MAPS, ALGORITHMS, SEEDS))}
    for done, (job, row) in enumerate(as_they_end(run, jobs), start=1):
        rows[job] = row
        write_rows(FILE, HEADER, [rows[job] for job in sorted(rows.keys() & order.keys(), key=order.__getitem__)])
        print(f"{done}/{len(jobs)}  {job[0]}, {job[1]}, seed {job[2]}: {row[4]:.3f} @ {row[5]:.3f}", file=sys.stderr)


def show() -> None:
    rows = read_rows(FILE)
    for env, make in MAPS.items():
        best = conrl.plan(make())
        print(f"{env}: optimum {best.reward:.4f} at cost {best.costs[0]:.2f}\n")
        found = []
        for name in ALGORITHMS:
            mine = [row for row in rows if (row["environment"], row["algorithm"]) == (env, name)]
            if not mine:
                continue
            mean = {key: np.mean([float(row[key]) for row in mine]) for key in ("reward", "cost", "cumulative")}
            count = int(mine[0]["trajectories"])
            solved = [row["solved"] or "no" for row in mine]
            found.append(
                (
                    name,
                    f"{count:,}",
                    f"{mean['reward']:.3f}",
                    f"{mean['cost']:.3f}",
                    f"{mean['cumulative']:,.0f}",
                    ", ".join(solved),
                )
            )
        table(
            ("algorithm", "trajectories", "reward", "cost", "cumulative cost", "solved (each seed)"),
            found,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", help="algorithms whose name begins so")
    parser.add_argument("--again", action="store_true", help="run also what is in the file already")
    parser.add_argument("--draw", action="store_true", help="show the table of the file, compute nothing")
    options = parser.parse_args()
    if not options.draw:
        compute(options.only, options.again)
    show()


if __name__ == "__main__":
    main()

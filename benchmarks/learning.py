"""What an episode of ConRL costs, and where the time goes. `python benchmarks/learning.py --help`.

    python benchmarks/learning.py                        # all of it, some ten minutes
    python benchmarks/learning.py --only episodes        # Mars rover and Box
    python benchmarks/learning.py --only scale --largest 10000
    python benchmarks/learning.py --only algorithms      # seconds per 1,000 trajectories of each

*Episodes*: episodes 51 to 1,000 of a run, on one thread, the best of several runs; the first 50 and compilation are
apart. Everything that `conrl.learn` does counts: estimating, planning, playing, the exact evaluation of what was
played, and counting. The parts are timed in a run of their own.

*Scale*: random sparse models (A = 4, 5 successors, H = 30) after some hundred episodes of ConRL, and after so many
random ones that every pair was seen ten times on average. An oracle call is one backward induction of the optimistic
estimate and the evaluation of its policy.

*Algorithms*: as `comparison.py` sets them; the quickest of several runs of the trajectories after the first few, in
which everything is compiled. The exact evaluation of what was played counts.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from comparison import ALGORITHMS, MAPS, world_of
from studies import table

import conrl
from conrl import kernels
from conrl.envs import box, mars_rover, random_cmdp
from conrl.learners import base
from conrl.oracles import BackwardInduction
from conrl.running.loop import play_episode

FIRST, LAST = 50, 1_000
GOAL = 0.6  # milliseconds an episode
# Of the program behind the paper, in milliseconds an episode, with its value-iteration planner (10 multiplier steps).
# Measured on another machine: an order of magnitude, not a ratio to be taken to the digit.
PAPER = {"Mars rover": 181.0, "Box": 473.0}
PARTS = ("estimate and bonus", "planning", "policy", "playing", "exact evaluation", "counting")


class Clock:
    """Seconds spent in some functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def watch(self, part: str, owner: Any, name: str) -> Iterator[None]:
        """While inside, calls of `owner.name` are timed."""
        inner = getattr(owner, name)
        own = name in vars(owner)

        def timed(*given: Any, **named: Any) -> Any:
            begin = time.perf_counter()
            try:
                return inner(*given, **named)
            finally:
                self.seconds[part] += time.perf_counter() - begin

        setattr(owner, name, timed)
        try:
            yield
        finally:
            setattr(owner, name, inner) if own else delattr(owner, name)


def best(work: Callable[[], Any], repeat: int) -> float:
    """Seconds of the quickest of several runs."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


# -- Mars rover and Box -----------------------------------------------------------------------------------


def episodes(repeat: int) -> None:
    maps = {"Mars rover": mars_rover(rock_reward=1.0), "Box": box()}
    rows, parts = [], []
    for name, mdp in maps.items():
        for preset in ("default", "authors"):
            start_up, each = run_times(mdp, preset, repeat)
            shares, directions = where(mdp, preset)
            planner = f"exact, {directions:.1f} directions a plan" if preset == "default" else "10 multiplier steps"
            goal = f"{GOAL:g} ms" if preset == "default" else "-"
            row = [name, f"{preset}: {planner}", f"{1.0 / each:,.0f}", f"{1e3 * each:.2f} ms", goal]
            rows.append(
                [
                    *row,
                    f"{shares['planning']:.0%}",
                    f"{start_up:.2f} s",
                    f"{PAPER[name]:g} ms",
                    f"{PAPER[name] / each / 1e3:.0f}x",
                ]
            )
            parts.append([name, preset, *(f"{shares[p]:.0%}" for p in PARTS), f"{1.0 - sum(shares.values()):.0%}"])
    header = ["environment", "preset: planner", "episodes a second", "an episode", "goal", "share of planning"]
    table([*header, "first 50 episodes, first run", "program behind the paper", "about"], rows)
    table(["environment", "preset", *PARTS, "the loop around it"], parts)


def run_times(mdp: conrl.ConstrainedMDP, preset: str, repeat: int) -> tuple[float, float]:
    """Seconds of the first 50 episodes in the first run, and of one episode after them in the quickest."""
    first, rest = [], []
    for _ in range(repeat):
        learner = conrl.ConRL(mdp.task, preset=preset)
        begin = time.perf_counter()
        conrl.learn(mdp, learner, FIRST, seed=1)
        middle = time.perf_counter()
        conrl.learn(mdp, learner, LAST - FIRST, seed=1)
        first.append(middle - begin)
        rest.append(time.perf_counter() - middle)
    return first[0], min(rest) / (LAST - FIRST)


def where(mdp: conrl.ConstrainedMDP, preset: str) -> tuple[dict[str, float], float]:
    """The share of each part of an episode, and the mean number of directions of a plan."""
    learner = conrl.ConRL(mdp.task, preset=preset)
    world = conrl.running.ModelWorld(mdp, learner.task)
    conrl.learn(mdp, learner, FIRST, seed=1)
    clock = Clock()
    directions = 0
    mixture = learner.play == "mixture"  # one part of the plan is made, else all of them at once
    with (
        clock.watch("estimate and bonus", learner, "_believed"),
        clock.watch("estimate and bonus", learner, "_model"),
        clock.watch("planning", type(learner.planner), "plan"),
        clock.watch("policy", *((BackwardInduction, "policy") if mixture else (learner, "_played"))),
        clock.watch("policy", learner, "_of_task") if mixture else nullcontext(),
        clock.watch("playing", world, "play"),
        clock.watch("exact evaluation", world, "value"),
        clock.watch("counting", base, "check_episode"),
        clock.watch("counting", learner, "_learn"),
    ):
        begin = time.perf_counter()
        for _ in range(LAST - FIRST):
            play_episode(world, learner, 1)
            directions += 0 if learner._plan is None else learner._plan.iterations
        total = time.perf_counter() - begin
    return {part: clock.seconds[part] / total for part in PARTS}, directions / (LAST - FIRST)


# -- scale ------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """What planning in one estimate costs."""

    states: int  # seen
    transitions: float  # reachable, summed over the steps of an episode
    oracle: float  # seconds a call
    directions: float  # of a plan, mean
    propose: float  # seconds: estimate, bonus, plan, policy
    episode: float  # seconds: that, playing, counting and exact evaluation


def scale(largest: int, some: int) -> None:
    sizes = [s for s in (1_000, 3_000, 10_000, 30_000, 100_000) if s <= largest]
    for kind, band in (("random", None), ("local (band 2)", 2)):
        for explored in (False, True):
            when = "every pair seen 10 times on average" if explored else f"after {some} episodes"
            rows, costs = [], []
            for size in sizes:
                cost = cost_of(model(size, band), explored, some)
                costs.append(cost)
                rows.append(
                    [
                        f"{size:,}",
                        f"{cost.states:,}",
                        f"{cost.transitions:,.0f}",
                        f"{1e3 * cost.oracle:.2f} ms",
                        f"{1e9 * cost.oracle / cost.transitions:.2f} ns",
                        f"{cost.directions:.1f}",
                        f"{1e3 * cost.propose:.1f} ms",
                        f"{1e3 * cost.episode:.1f} ms",
                    ]
                )
            header = [f"S, {kind}; {when}", "states seen", "reachable transitions", "oracle call", "per transition"]
            table([*header, "directions a plan", "propose", "whole episode"], rows)
            if explored and len(sizes) > 1:
                print(f"Slopes on log-log: {slopes(costs)}.\n", flush=True)


def model(size: int, band: int | None) -> conrl.ConstrainedMDP:
    mdp = random_cmdp(states=size, actions=4, successors=5, horizon=30, band=band)
    if band is None:
        return mdp
    return mdp.replace(initial=np.full(size, 1.0 / size))  # else only the neighborhood of one state is ever seen


def slopes(costs: list[Cost]) -> str:
    work = np.log([c.transitions for c in costs])
    call, episode = (
        float(np.polyfit(work, np.log([getattr(c, part) for c in costs]), 1)[0]) for part in ("oracle", "episode")
    )
    return (
        f"oracle call against reachable transitions **{call:.2f}** (goal 1.0 +- 0.1), "
        f"whole episode against them {episode:.2f}"
    )


def cost_of(mdp: conrl.ConstrainedMDP, explored: bool, some: int) -> Cost:
    learner = conrl.ConRL(mdp.task, keep_policies=False)
    if explored:
        explore(mdp, learner, visits=10)
        conrl.learn(mdp, learner, 2, seed=1)  # a warm start, as in the course of a run
    else:
        conrl.learn(mdp, learner, some, seed=1)
    estimate = learner._model(learner._believed(learner.episodes + 1))
    oracle = BackwardInduction(estimate)
    w = np.array([1.0, -0.2])
    call = best(lambda: oracle.support(w), max(3, 200_000 // estimate.num_states))
    reach = estimate.reach
    lines = float((reach.hi - reach.lo).sum()) * kernels.LANES
    transitions = lines * reach.graph.probability.size / reach.order.size
    propose, whole, directions = episode_times(mdp, learner, 3 if estimate.num_states > 20_000 else 10)
    return Cost(learner.counts.num_seen, transitions, call, directions, propose, whole)


def explore(mdp: conrl.ConstrainedMDP, learner: conrl.ConRL, visits: int) -> None:
    """Prime a learner with random episodes."""
    A, H, S = mdp.num_actions, mdp.horizon, mdp.num_states
    policy = conrl.Policy(np.full((H, S, A), 1.0 / A))
    world = conrl.running.ModelWorld(mdp)
    left = visits * S * A // H
    generator = np.random.default_rng(0)
    while left > 0:
        some = min(left, 1_000)
        learner.prime([world.play(policy, generator) for _ in range(some)])
        left -= some


def episode_times(mdp: conrl.ConstrainedMDP, learner: conrl.ConRL, repeat: int) -> tuple[float, float, float]:
    """Seconds of a proposal and of a whole episode, medians; and the mean number of directions."""
    world = conrl.running.ModelWorld(mdp, learner.task)
    propose, whole, directions = [], [], []
    for _ in range(repeat):
        begin = time.perf_counter()
        learner.propose()
        propose.append(time.perf_counter() - begin)
        play_episode(world, learner, 1)
        whole.append(time.perf_counter() - begin)
        assert learner._plan is not None
        directions.append(learner._plan.iterations)
    return float(np.median(propose)), float(np.median(whole)), float(np.mean(directions))


# name in comparison.py -> the goal and what the program behind the paper takes, in seconds per 1,000 trajectories
COMPARED: dict[str, tuple[float | None, float | None]] = {
    "conrl (default)": (1.0, None),
    "conrl-value-iteration (authors)": (None, 181.0),
    "conrl-a2c (table: reset none)": (20.0, 875.0),
    "rcpo (sampled costs)": (1.0, 56.0),
    "rcpo (authors, exact costs)": (1.0, 56.0),
    "appropo (sampled values)": (1.0, 26.0),
    "appropo (authors, exact values)": (1.0, 26.0),
    "tfw-ucrl2": (1.0, 35.0),
    "optcmdp": (None, None),
    "opt-primal-dual": (None, None),
    "ucbvi (ignores the limit)": (None, None),
}


def algorithms(repeat: int) -> None:
    """Seconds per 1,000 trajectories on Mars rover."""
    rows = []
    for name, (goal, paper) in COMPARED.items():
        slow = name.startswith(("conrl-a2c", "optcmdp"))
        first, count = (20, 60) if slow else (500, 1000)
        mdp = MAPS["Mars rover"]()
        world = world_of(name, mdp)
        best = np.inf
        for seed in range(repeat):
            learner = ALGORITHMS[name][1]("Mars rover", world)
            conrl.learn(world, learner, first, seed=seed)
            begin = time.perf_counter()
            conrl.learn(world, learner, count, seed=seed)
            best = min(best, (time.perf_counter() - begin) / count * 1000.0)
        rows.append(
            (
                name,
                f"{first + 1}-{first + count}",
                f"{best:.2f}",
                "-" if goal is None else f"{goal:g}: {'met' if best <= goal else '**missed**'}",
                "-" if paper is None else f"{paper:g}",
                "-" if paper is None else f"{paper / best:.0f}x",
            )
        )
    table(("algorithm", "trajectories", "s per 1,000", "goal", "program behind the paper", "about"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["episodes", "scale", "algorithms"], help="one part only")
    parser.add_argument("--repeat", type=int, default=5, help="runs of which the quickest counts")
    parser.add_argument("--largest", type=int, default=100_000, help="states of the largest model")
    parser.add_argument("--some", type=int, default=300, help="episodes of ConRL before the first measurement")
    given = parser.parse_args()
    print(
        f"conrl {conrl.__version__}, Python {sys.version.split()[0]}, {platform.machine()}, one thread.\n", flush=True
    )
    if given.only in (None, "episodes"):
        episodes(given.repeat)
    if given.only in (None, "scale"):
        scale(given.largest, given.some)
    if given.only in (None, "algorithms"):
        algorithms(given.repeat)


if __name__ == "__main__":
    main()

"""SafeConRL by scale: episodes that exceed a limit in expectation, and how near to the optimum it comes.

    python benchmarks/safe.py choose   # worlds that the default was chosen on: a chain, random models, a small grid
    python benchmarks/safe.py judge    # Mars rover and Box, which it is judged on
    python benchmarks/safe.py long --scales 0.03 0.05 0.1     # the three models of `conrl reproduce dope`

Every run starts from the plan at a fifth of the way from the least possible cost to the limit, and knows what that
costs and earns. An episode violates if the exact expected cost of what it plays, the lottery, is above the limit. The
share is the expected reward of the last 100 episodes, in units of the optimum. Two processes; `--seeds` and
`--episodes` make it shorter.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from multiprocessing import get_context
from typing import Any

import numpy as np

import conrl
from conrl.running.blocks import learn_in_blocks

SCALES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
OPTIMISM = (0.0, 0.003, 0.03, 0.3)
LONG = ("factored", "media-streaming", "inventory")
ROOM = ["S 0 0 0", "0 P 0 0", "0 0 P 0", "0 0 0 G"]


def chain(states: int = 8, horizon: int = 16) -> conrl.ConstrainedMDP:
    """Swim up a river: up pays at the far end, and costs; down is free and pays a little at the near one."""
    P, reward, cost = np.zeros((states, 2, states)), np.zeros((states, 2)), np.zeros((states, 2, 1))
    for s in range(states):
        P[s, 0, max(s - 1, 0)] = 1.0
        for to, p in ((min(s + 1, states - 1), 0.6), (s, 0.3), (max(s - 1, 0), 0.1)):
            P[s, 1, to] += p
    reward[0, 0], reward[-1, 1], cost[:, 1] = 0.05, 1.0, 0.5
    return conrl.ConstrainedMDP(P, reward, cost, horizon, limits=[5.0])


def world(name: str) -> tuple[conrl.ConstrainedMDP, dict[str, Any]]:
    """A model, and what its user would know of the worst."""
    if name == "chain":
        return chain(), {}
    if name.startswith("random"):
        mdp = conrl.envs.make("random", states=12, actions=3, costs=1, horizon=10, seed=int(name[6:]))
        least = conrl.feasibility(mdp, [np.inf]).least
        free = conrl.plan(mdp, conrl.Linear()).costs
        return mdp.replace(limits=(least + free) / 2.0), {}
    if name == "grid":
        return conrl.envs.gridworld(ROOM, horizon=12, limits=[0.15]), {}
    if name == "rover":
        return conrl.envs.mars_rover(rock_reward=1.0), {}
    if name == "rover, crashes once":  # a crash costs 1, and 1/H in every step after it
        return conrl.envs.mars_rover(rock_reward=1.0), {"worst_costs": [2.0]}
    return conrl.envs.box(), {}


def run(job: tuple[str, float, float, str, int, int]) -> tuple[int, int, float, float]:
    """Violating episodes, the first episode that leaves the safe policy, the share at the end, and where it began."""
    name, scale, optimism, replan, episodes, seed = job
    mdp, known = world(name)
    limits = np.asarray(mdp.limits)
    least = conrl.feasibility(mdp, limits).least
    safe, best = conrl.plan(mdp, least + 0.2 * (limits - least)), conrl.plan(mdp)
    learner = conrl.SafeConRL(
        mdp.task,
        safe=safe.policy,
        safe_costs=safe.costs + 1e-9,
        safe_reward=safe.reward,
        scale=scale,
        optimism=optimism,
        replan=replan,
        seed=seed,
        **known,
    )
    executed = conrl.learn(mdp, learner, episodes, seed=seed).executed
    assert executed is not None
    over = (executed[:, 1:] > limits * (1.0 + 1e-9)).any(axis=1)
    share = executed[-100:, 0].mean() / best.reward
    return int(over.sum()), learner.left_at or 0, float(share), safe.reward / best.reward


def long_run(job: tuple[str, float, int, int]) -> tuple[int, float, float]:
    """Violating episodes, the most that one was over its limit, as a share of it, and the regret of all."""
    name, scale, episodes, seed = job
    mdp = conrl.envs.make(name)
    limit, best = float(np.asarray(mdp.limits)[0]), conrl.plan(mdp).reward
    safe = conrl.plan(mdp, [limit / 5.0])
    known: dict[str, Any] = {"safe": safe.policy, "safe_costs": safe.costs, "safe_reward": safe.reward}
    learner = conrl.SafeConRL(mdp.task, scale=scale, replan="doubling", keep_policies=False, **known)
    stretches = list(learn_in_blocks(mdp, learner, episodes, seed=seed))
    over = [s.value[1] / limit - 1.0 for s in stretches]
    violating = sum(s.episodes for s, x in zip(stretches, over, strict=True) if x > 1e-9)
    return violating, float(max(*over, 0.0)), float(sum(s.episodes * (best - s.value[0]) for s in stretches))


def long(scales: Sequence[float], seeds: int, episodes: int) -> None:
    """By model and scale: who violates, by how much, and the median regret."""
    settings = list(itertools.product(LONG, scales))
    print("| model | scale | runs that violate | most episodes of one | most over the limit, % | median regret |")
    print("| --- | --- | --- | --- | --- | --- |")
    with get_context("spawn").Pool(2) as pool:
        jobs = [(*setting, episodes, seed) for setting in settings for seed in range(seeds)]
        answers = iter(pool.imap(long_run, jobs, chunksize=1))
        for name, scale in settings:
            violating, over, regret = (
                np.array(column) for column in zip(*(next(answers) for _ in range(seeds)), strict=True)
            )
            print(
                f"| {name} | {scale:g} | {(violating > 0).sum()} of {seeds} | {violating.max():,} "
                f"| {100.0 * over.max():.2f} | {np.median(regret):,.0f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("choose", "judge", "long"))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--episodes", type=int)
    parser.add_argument("--scales", type=float, nargs="*", default=SCALES)
    parser.add_argument("--optimism", type=float, nargs="*")
    parser.add_argument("--worlds", nargs="*")
    parser.add_argument("--replan", default="episode")
    asked = parser.parse_args()
    if asked.what == "long":
        long(asked.scales, asked.seeds or 20, asked.episodes or 100_000)
        return
    choose = asked.what == "choose"
    worlds = asked.worlds or (
        ("chain", "random1", "random2", "random3", "grid") if choose else ("rover", "rover, crashes once", "box")
    )
    seeds, episodes = asked.seeds or (5 if choose else 20), asked.episodes or (1000 if choose else 2000)
    usual = (conrl.SafeConRL.presets["default"]["optimism"],)
    settings = list(itertools.product(worlds, asked.scales, asked.optimism or (OPTIMISM if choose else usual)))
    print("| world | scale | optimism | violating episodes | runs with any | safe policy | least share | mean share |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with get_context("spawn").Pool(2) as pool:
        jobs = [(*setting, asked.replan, episodes, seed) for setting in settings for seed in range(seeds)]
        answers = iter(pool.imap(run, jobs, chunksize=1))
        for name, scale, optimism in settings:
            found = [next(answers) for _ in range(seeds)]
            over, _, share, begun = (np.array(column) for column in zip(*found, strict=True))
            print(
                f"| {name} | {scale:g} | {optimism:g} | {over.sum()} of {seeds * episodes} "
                f"| {(over > 0).sum()} of {seeds} | {begun[0]:.3f} | {share.min():.3f} | {share.mean():.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""Posterior sampling beside ConRL, and the bonus by variances beside that of the paper.

    python benchmarks/posterior.py

Random models: reward lost against the optimum, and excess over the limit (positive parts), summed over all episodes by
the exact values of the policies played; means over the models. Maps: exact reward and cost of the policies played in
the last 200 episodes. Roads: a deterministic model of two roads, ConRL with a proven bonus; how far the last 200
policies are from the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import conrl
from conrl import envs

Make = Callable[[conrl.Task], Any]
LEARNERS: dict[str, Make] = {
    "posterior-sampling": lambda task: conrl.PosteriorSampling(task, keep_policies=False),
    "posterior-sampling, sparse": lambda task: conrl.PosteriorSampling(task, preset="sparse", keep_policies=False),
    "conrl": lambda task: conrl.ConRL(task, keep_policies=False),
}


def values(history: conrl.History) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The exact reward and first cost of each policy played."""
    assert history.expected_rewards is not None
    assert history.expected_costs is not None
    return history.expected_rewards, history.expected_costs[:, 0]


def random_model(seed: int) -> conrl.ConstrainedMDP:
    rng = np.random.default_rng(seed)
    S, A, H = 6, 3, 5
    P = rng.dirichlet(np.full(S, 0.5), size=(S, A))
    ranges: Any = {"reward_range": (0.0, 1.0), "cost_ranges": [(0.0, 1.0)]}
    mdp = conrl.ConstrainedMDP(P, rng.random((S, A)), rng.random((S, A, 1)), H, **ranges)
    return mdp.replace(limits=conrl.feasibility(mdp, conrl.Linear()).least + 0.5)


def roads() -> conrl.ConstrainedMDP:
    """From state 0 to 1 or to 2, certainly: 0.6 for a cost of 0.2, or 1 for 0.8; the limit is 0.5."""
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 2] = P[1, :, 0] = P[2, :, 0] = 1.0
    rewards, costs = np.repeat([[0.0], [0.6], [1.0]], 2, axis=1), np.repeat([[0.0], [0.2], [0.8]], 2, axis=1)
    ranges: Any = {"reward_range": (0.0, 1.0), "cost_ranges": [(0.0, 1.0)]}
    return conrl.ConstrainedMDP(P, rewards, costs[:, :, None], 2, limits=[0.5], **ranges)


def main() -> None:
    print("eight random models, 500 episodes: reward lost, limit exceeded (sums)")
    for name, make in LEARNERS.items():
        sums = []
        for seed in range(8):
            mdp = random_model(seed)
            reward, cost = values(conrl.learn(mdp, make(mdp.task), 500, seed=seed, pay="bernoulli"))
            over = np.maximum(cost - conrl.plan(mdp).rows[0].bound, 0.0)
            sums.append(((conrl.plan(mdp).reward - reward).sum(), over.sum()))
        print(f"  {name:28s}", *(f"{x:6.1f}" for x in np.mean(sums, axis=0)), flush=True)
    for title, mdp in (("Mars rover", envs.make("mars-rover", rock_reward=1.0)), ("Box", envs.make("box"))):
        print(f"{title}, 2,000 episodes, seeds 0-2, the last 200: reward, cost (optimum {conrl.plan(mdp).reward:.3f})")
        for name, make in LEARNERS.items():
            late = []
            for seed in range(3):
                reward, cost = values(conrl.learn(mdp, make(mdp.task), 2000, seed=seed))
                late.append((reward[-200:].mean(), cost[-200:].mean()))
            print(f"  {name:28s}", *(f"{x:6.3f}" for x in np.mean(late, axis=0)), flush=True)
    mdp = roads()
    best = conrl.plan(mdp).reward
    print(f"two roads: |reward - {best:.1f}| of the last 200 policies after 1,000, 5,000, 20,000 episodes")
    for bonus in (conrl.TheoryBonus(0.1), conrl.BernsteinBonus(0.1)):
        learner = conrl.ConRL(mdp.task, bonus=bonus, keep_policies=False)
        reward, _ = values(conrl.learn(mdp, learner, 20_000, seed=0))
        off = [abs(best - reward[k - 200 : k].mean()) for k in (1_000, 5_000, 20_000)]
        print(f"  {type(bonus).__name__:28s}", *(f"{x:6.3f}" for x in off), flush=True)


if __name__ == "__main__":
    main()

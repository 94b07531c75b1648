"""Where plans with confidence are too sure: worlds drawn at random, with costs that a log tells little about.

    python benchmarks/confidence_hard.py [--worlds 100]     # some minutes

Every world has 6 states, 3 actions and 8 steps; what pays more harms more often. Its limit lies at a random place
between 30% and 80% of the way from the least possible cost to that of the best policy without a limit. Its log has
2,000 episodes of a random behavior (500 where it says so). A plan with confidence 0.95 is judged by its exact value.

    often     a step costs 1 with probability up to 0.25
    rare      up to 0.02
    heavy     up to 0.02, and then an amount that is lognormal (sigma 1.5) with mean 1
    alike     all actions harm nearly alike, so that hardly anything is to be gained: most logs are declined
    tight     often, but the limit at 2% to 8% of the way: most logs are declined
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import conrl

Float = NDArray[np.float64]
S, A, H = 6, 3, 8
LEVEL = 0.95


class Kind(NamedTuple):
    """How worlds are drawn."""

    episodes: int
    most: float  # probability of harm in a step
    sigma: float = 0.0  # of the amount, if it is lognormal
    alike: bool = False
    place: tuple[float, float] = (0.3, 0.8)  # of the limit


KINDS = {
    "often": Kind(2000, 0.25),
    "rare": Kind(2000, 0.02),
    "rare, 500 episodes": Kind(500, 0.02),
    "heavy": Kind(2000, 0.02, sigma=1.5),
    "alike": Kind(2000, 0.12, alike=True),
    "tight": Kind(2000, 0.25, place=(0.02, 0.08)),
}


def world(kind: Kind, rng: np.random.Generator) -> tuple[conrl.ConstrainedMDP, float]:
    """A model, and a limit for it."""
    P = rng.dirichlet(np.full(S, 0.3), (S, A))
    rewards = np.sort(rng.random((S, A)), axis=1)
    risk = np.sort(rng.random((S, A)), axis=1) * kind.most
    if kind.alike:
        rewards, risk = rng.random((S, A)), kind.most * (5.0 + rng.random((S, A))) / 6.0
    mdp = conrl.ConstrainedMDP(P, rewards, risk[:, :, None], horizon=H)
    least, free = conrl.feasibility(mdp).least[0], conrl.plan(mdp, [np.inf]).costs[0]
    return mdp, float(least + rng.uniform(*kind.place) * (free - least))


def write_log(mdp: conrl.ConstrainedMDP, kind: Kind, rng: np.random.Generator) -> list[conrl.Episode]:
    """Episodes of a behavior that is drawn too."""
    behavior = 0.8 * rng.dirichlet(np.ones(A), S) + 0.2 / A
    policy = conrl.Policy(np.repeat(behavior[None], H, axis=0))
    log = conrl.sample_log(mdp, policy, kind.episodes, int(rng.integers(2**31)))
    episodes = []
    for episode in log.episodes:
        risk = mdp.costs[episode.states[:-1], episode.actions]  # the model has means
        paid = (rng.random(risk.shape) < risk).astype(float)
        if kind.sigma:
            paid *= rng.lognormal(-0.5 * kind.sigma**2, kind.sigma, risk.shape)
        episodes.append(conrl.Episode(episode.states, episode.actions, episode.rewards, paid))
    return episodes


def main() -> None:
    """Judge the plans of each kind of world."""
    parser = argparse.ArgumentParser(description="Where plans with confidence are too sure.")
    parser.add_argument("--worlds", type=int, default=100, help="of each kind")
    count = parser.parse_args().worlds
    print(f"{'worlds':20} {'returned':>8} {'held':>6} {'reward':>7} {'worst cost / limit':>19}")
    for number, (name, kind) in enumerate(KINDS.items()):
        kept, rewards, use = [], [], []
        for seed in range(count):
            rng = np.random.default_rng([number, seed])
            mdp, limit = world(kind, rng)
            try:
                plan = conrl.plan(conrl.estimate(write_log(mdp, kind, rng)), [limit], confidence=LEVEL)
            except conrl.InfeasibleError:
                continue
            table = np.zeros((H, S, A))
            own = plan.policy.probabilities
            table[:, :, 0] = 1.0  # in a state that the log does not have
            table[:, : own.shape[1]] = 0.0
            table[:, : own.shape[1], : own.shape[2]] = own[:, :S]
            reward, costs = conrl.evaluate(mdp, conrl.Policy(table))
            kept.append(costs[0] <= limit * (1.0 + 1e-9))
            rewards.append(reward / conrl.plan(mdp, [limit]).reward)
            use.append(costs[0] / limit)
        share = f"{np.mean(kept):6.0%} {np.mean(rewards):7.1%} {np.max(use):19.2f}" if kept else ""
        print(f"{name:20} {len(kept):8} {share}", flush=True)


if __name__ == "__main__":
    main()

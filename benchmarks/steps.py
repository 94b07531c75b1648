"""What a transition costs where every step has its own: an oracle call, against a model whose steps are alike.

    python benchmarks/steps.py

Both models have the same numbers: S states, 4 actions, 5 successors, 3 costs, 30 steps, and the transitions of the
first are those of the second, repeated for each step. A sweep reads each of them once, where the second reads the same
ones 30 times; where they no longer fit into a cache, that shows. The last column is a model whose steps are alike and
which is as large: 30 S states. The best of several calls, in one process.
"""

from __future__ import annotations

import time

import numpy as np

import conrl
from conrl import kernels
from conrl.envs import random_cmdp
from conrl.oracles import exact_oracle

STEPS = 30
W = np.array([[1.0, -0.2, -0.1, -0.3]])


def per_transition(mdp: conrl.ConstrainedMDP) -> float:
    """Nanoseconds of an oracle call for each transition that it looks at."""
    oracle, reach = exact_oracle(mdp), mdp.reach
    oracle.support_many(W)
    looked = float((reach.hi - reach.lo).sum()) * kernels.LANES * reach.graph.probability.size / reach.order.size
    best = np.inf
    for _ in range(max(5, int(2e8 / looked / 10))):
        begin = time.perf_counter()
        oracle.support_many(W)
        best = min(best, time.perf_counter() - begin)
    return best / looked * 1e9


def main() -> None:
    print("| states | steps alike | by step | ratio (goal 1.5) | steps alike, as large | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for S in (30, 100, 300, 1000, 3000, 10_000):
        alike = random_cmdp(states=S, actions=4, successors=5, costs=3, seed=0, horizon=STEPS)
        alike = alike.replace(initial=np.full(S, 1.0 / S))
        matrix, rewards, costs = alike.transitions, alike.rewards, alike.costs
        apart = conrl.ConstrainedMDP(
            [matrix] * STEPS,
            np.broadcast_to(rewards, (STEPS, *rewards.shape)),
            np.broadcast_to(costs, (STEPS, *costs.shape)),
            initial=alike.initial,
        )
        large = random_cmdp(states=STEPS * S, actions=4, successors=5, costs=3, seed=0, horizon=STEPS)
        large = large.replace(initial=np.full(STEPS * S, 1.0 / (STEPS * S)))
        one, two, three = (per_transition(mdp) for mdp in (alike, apart, large))
        print(f"| {S:,} | {one:.2f} ns | {two:.2f} ns | **{two / one:.2f}** | {three:.2f} ns | {two / three:.2f} |")


if __name__ == "__main__":
    main()

"""Imitation: collect rewards while staying close to where an expert goes.

A delivery robot earns more by taking shortcuts through a yard, but people trust the route of an experienced driver.
The visits to each zone are the "costs" of the model. The expert's expected visits, estimated from demonstrations, are
the target. The constraint is  ||visits - target|| <= radius,  which is convex in the expected costs (Section 4 of
Brantley et al. 2020). Radius 0 imitates the expert; a large radius forgets the expert.

Run: python examples/imitation.py (needs the extra: pip install 'conrl[convex]')
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import conrl
from conrl.convex import closeness, near

STEPS = 20
ZONES = ("depot", "road", "yard", "market")
PAY = np.array([0.0, 0.2, 0.5, 1.0])  # reward of a step that begins in each zone
NEXT = {  # from each zone: where "on" and "back" lead; a move fails with probability SLIP
    "depot": ("road", "yard"),
    "road": ("market", "depot"),
    "yard": ("market", "depot"),
    "market": ("depot", "road"),
}
SLIP = 0.2


def town() -> conrl.ConstrainedMDP:
    """Actions: on, back, wait. Cost i of a step is 1 if it begins in zone i: the totals are visits."""
    S, index = len(ZONES), {zone: i for i, zone in enumerate(ZONES)}
    transitions = np.zeros((S, 3, S))
    for zone, targets in NEXT.items():
        here = index[zone]
        for action, target in enumerate((*targets, zone)):
            transitions[here, action, index[target]] += 1.0 - SLIP
            transitions[here, action, here] += SLIP
    visits = np.repeat(np.eye(S)[:, None, :], 3, axis=1)  # [S, A, zones]
    return conrl.ConstrainedMDP(
        transitions,
        rewards=np.repeat(PAY[:, None], 3, axis=1),
        costs=visits,
        horizon=STEPS,
        state_names=ZONES,
        action_names=["on", "back", "wait"],
        cost_names=ZONES,
    )


def expert(mdp: conrl.ConstrainedMDP) -> conrl.Policy:
    """Takes the road, never the yard, and leaves the market as soon as it can."""
    probabilities = np.zeros((STEPS, mdp.num_states, mdp.num_actions))
    probabilities[:, :, 0] = 1.0
    return conrl.Policy(probabilities)


def row(name: str, visits: NDArray[np.float64], reward: float, rest: str) -> str:
    return f"{name:<22}{reward:8.3f}  {'  '.join(f'{x:6.2f}' for x in visits)}   {rest}"


def main() -> None:
    mdp = town()
    route = expert(mdp)
    demonstrations = conrl.simulate(mdp, route, episodes=2000, seed=0)
    target = demonstrations.costs.mean(axis=0)
    print(f"An expert drives {STEPS} steps, 2,000 times. Expected reward and visits to each zone:\n")
    print(f"{'who':<22}{'reward':>8}  {'  '.join(f'{z:>6}' for z in ZONES)}   distance   price   proven gap")
    print(row("expert, as seen", target, float(demonstrations.rewards.mean()), ""))

    free = conrl.plan(mdp, conrl.Linear())
    for radius in (1.0, 2.0, 4.0, 8.0, 12.0, 16.0):
        plan = conrl.plan(mdp, conrl.ConcaveConvex(lambda reward: reward, near(target, radius)))
        away = float(np.linalg.norm(plan.costs - target))
        rest = f"{away:8.3f}  {plan.prices[0]:6.3f}   {plan.gap:7.1e}"
        print(row(f"within {radius:g} of it", plan.costs, plan.reward, rest))
    away = float(np.linalg.norm(free.costs - target))
    print(row("without the expert", free.costs, free.reward, f"{away:8.3f}   0.000   {free.gap:7.1e}"))

    # Demonstrations are a sample, so no policy comes exactly as close as 0.
    closest = conrl.plan(mdp, conrl.ConcaveConvex(closeness(target)))
    print(f"\nThe closest any policy comes to the demonstrations: {max(-closest.objective, 0.0):.4f}")
    print("The price is what one more unit of distance would earn. Where it is 0, the expert no longer matters.")


if __name__ == "__main__":
    main()

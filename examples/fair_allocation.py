"""Fair allocation: a dispatcher with one van and three neighborhoods.

The task is to serve as many people as possible in a shift of 24 hours without forgetting anybody. The people served in
each neighborhood are the "costs" of the model (here goods), and their number is the reward. Fairness is a concave
objective or a convex constraint on the three expected totals: the concave-convex setting of Brantley et al. (2020).

Run: python examples/fair_allocation.py (needs the extra: pip install 'conrl[convex]')
"""

from __future__ import annotations

import numpy as np

import conrl
from conrl.convex import fair, max_min, proportional

HOURS = 24
PLACES = ("centre", "harbour", "hills")
SERVED = np.array([10.0, 6.0, 2.0])  # people served in an hour: the hills are steep and far apart
ROAD = np.array([[0.0, 0.3, 0.6], [0.3, 0.0, 0.5], [0.6, 0.5, 0.0]])  # probability that a trip takes an hour longer


def dispatcher() -> conrl.ConstrainedMDP:
    """State: where the van is. Action: where it goes next. If the road is slow, it does not get there this hour."""
    S = len(PLACES)
    transitions = np.zeros((S, S, S))
    served = np.zeros((S, S, S, S))  # [from, to, where it ends up, whom it serves]
    for here in range(S):
        for there in range(S):
            transitions[here, there, there] += 1.0 - ROAD[here, there]
            transitions[here, there, here] += ROAD[here, there]
            served[here, there, there, there] = SERVED[there]  # a van that is stuck serves nobody
    return conrl.ConstrainedMDP(
        transitions,
        rewards=served.sum(axis=3),
        costs=served,
        horizon=HOURS,
        state_names=PLACES,
        action_names=[f"to {place}" for place in PLACES],
        cost_names=PLACES,
    )


def row(name: str, plan: conrl.Plan, most: float) -> str:
    places = "  ".join(f"{x:7.2f}" for x in plan.costs)
    return f"{name:<28}{plan.reward:8.2f}  {places}   {100 * (1 - plan.reward / most):5.1f} %   {plan.gap:7.1e}"


def main() -> None:
    mdp = dispatcher()
    everything = conrl.plan(mdp, conrl.Linear())
    most = everything.reward
    print(f"One van, {HOURS} hours. Expected people served, in all and by neighborhood:\n")
    print(f"{'asked for':<28}{'in all':>8}  {'  '.join(f'{p:>7}' for p in PLACES)}   forgone   proven gap")
    print(row("as many as possible", everything, most))

    # A constraint: every neighborhood gets at least this much. Its price is what the last unit costs.
    for level in (5.0, 10.0, 20.0):
        plan = conrl.plan(mdp, conrl.ConcaveConvex(lambda people: people, fair(level)))
        print(row(f"at least {level:g} everywhere", plan, most))

    # Two objectives that weigh neighborhoods against each other, instead of a level set by hand.
    print(row("sum of log(1 + served)", conrl.plan(mdp, conrl.ConcaveConvex(proportional(1.0))), most))
    best_least = conrl.plan(mdp, conrl.ConcaveConvex(max_min()))
    print(row("the least served first", best_least, most))

    print(f"\nOne more person for each of the least served costs {plan.prices[0]:.2f} people in all.")
    print(f"No policy serves every neighborhood more than {best_least.bound:.4f}: asking for 40 is refused.")
    try:
        conrl.plan(mdp, conrl.ConcaveConvex(lambda people: people, fair(40.0)))
    except conrl.InfeasibleError as error:
        print(f"  {error}")

    print("\n'At least 20 everywhere' is a lottery over schedules, drawn at the start of each shift:")
    assert plan.mixture.values is not None
    for weight, value in zip(plan.mixture.weights, plan.mixture.values, strict=True):
        if weight < 5e-4:  # the solver's rounding
            continue
        served = ", ".join(f"{p} {x:.1f}" for p, x in zip(PLACES, value[1:], strict=True))
        print(f"  {100 * weight:5.1f} %: {served}")


if __name__ == "__main__":
    main()

"""500 machines of 20 types and one budget for repairs: who gets how much, and does the money last?

A factory has 25 machines of each of 20 types. A machine is new, used, worn or broken; the worse it is the less it
earns. It can be run, serviced (it is as new again) or, once broken, repaired (at three times the price of a service).
Types differ in what they earn, how fast they wear, and what a service costs. There are 26 weeks and 12,000 of money for
all of them together: about a third of what they would spend with no limit. At most 30 crews work in one week.

What should each machine do, what is more money worth, and what happens when chance is not average?

Run: python examples/fleet_repairs.py [picture.png]
"""

from __future__ import annotations

import sys

import numpy as np

import conrl
from conrl.drawing import save_figure

WEEKS, TYPES, EACH = 26, 20, 25
MONEY, CREWS = 12_000.0, 30
STATES, ACTIONS = ("new", "used", "worn", "broken"), ("run", "service", "repair")


def machine(earns: float, wears: float, price: float) -> conrl.ConstrainedMDP:
    """A machine that earns so much a week when new, wears so fast, and whose service costs so much."""
    P, r, c = np.zeros((4, 3, 4)), np.zeros((4, 3)), np.zeros((4, 3, 2))
    for s in range(3):
        P[s, 0, s], P[s, 0, s + 1] = 1.0 - wears, wears
        P[s, 1, 0] = 1.0
    P[3, 0, 3] = P[3, 2, 0] = 1.0
    r[:, 0] = earns * np.array([1.0, 0.9, 0.6, 0.0])
    r[:3, 1] = 0.5 * r[:3, 0]
    c[:3, 1], c[3, 2] = (price, 1.0), (3.0 * price, 1.0)
    available = np.ones((4, 3), dtype=bool)
    available[:3, 2] = available[3, 1] = False
    return conrl.ConstrainedMDP(
        P, r, c, WEEKS, available=available, state_names=STATES, action_names=ACTIONS, cost_names=("money", "crews")
    )


def types() -> list[conrl.ConstrainedMDP]:
    """20 of them, from one seed."""
    rng = np.random.default_rng(7)
    numbers = zip(rng.uniform(4, 40, TYPES), rng.uniform(0.1, 0.4, TYPES), rng.uniform(4, 30, TYPES), strict=True)
    return sorted((machine(*x) for x in numbers), key=lambda m: -float(m.rewards[0, 0]))


def equal_shares(kinds: list[conrl.ConstrainedMDP]) -> float:
    """What is earned if every type gets the same money (and as many crews as it likes)."""
    return sum(conrl.plan(conrl.Fleet([(kind, EACH)], limits={"money": MONEY / TYPES})).reward for kind in kinds)


def played(
    fleet: conrl.Fleet, plan: conrl.FleetPlan, kinds: list[conrl.ConstrainedMDP], weeks: int
) -> tuple[np.ndarray, float]:
    """The states of all machines after some weeks of one run, and the money that was spent."""
    rng = np.random.default_rng(1)
    states, spent = np.zeros(fleet.num_units, dtype=int), 0.0
    for unit in range(fleet.num_units):
        kind, policy = kinds[unit // EACH], plan.policy(unit)
        if isinstance(policy, conrl.Mixture):
            policy = policy.draw(rng)  # each machine for itself
        rows = kind.transitions.toarray().reshape(4, 3, 4)
        for week in range(weeks):
            action = policy.act(week, int(states[unit]), rng)
            spent += float(kind.costs[states[unit], action, 0])
            states[unit] = rng.choice(4, p=rows[states[unit], action])
    return states, spent


def main() -> None:
    kinds = types()
    fleet = conrl.Fleet([(kind, EACH) for kind in kinds], limits={"money": MONEY}, per_step={"crews": CREWS})
    plan = conrl.plan(fleet)
    print(f"{fleet.num_units} machines: reward {plan.reward:.0f}, gap {plan.gap:.0e}, money {plan.costs[0]:.0f}")
    busiest = plan.step_costs["crews"].max()
    print(f"One more of money is worth {plan.prices[0]:.2f}; crews in the busiest week: {busiest:.1f}")
    print(f"Machines that toss a coin: {len(plan.mixed)} of {fleet.num_units}")
    kept, skipped = np.argmax(plan.shares[:, 0]), np.argmin(plan.shares[:, 0])
    for t in (int(kept), int(skipped)):
        earns, spends = float(kinds[t].rewards[0, 0]), plan.shares[t, 0]
        print(f"  type {t}: a machine earns {earns:.1f} a week when new; its 25 get {spends:.0f}")
    guarded = fleet.simulate(plan, runs=200)
    loose = fleet.simulate(plan, runs=200, guard=False)
    print(
        f"200 runs with the guard: {100 * guarded.share:.2f}% of the bound, most spent {guarded.costs[:, 0].max():.0f}"
    )
    print(f"200 runs without it: money exceeded in {100 * loose.exceed()[0]:.0f}% of runs")
    print(f"The same money for every type: {100 * equal_shares(kinds) / plan.bound:.1f}% of the bound")
    states, spent = played(fleet, plan, kinds, 13)
    later = conrl.plan(fleet.at(states, step=13, spent={"money": spent}))
    print(f"After 13 weeks of one run: {spent:.0f} spent, {(states == 3).sum()} machines broken")
    print(f"Planned again for the rest: reward {later.reward:.0f}, one more of money is worth {later.prices[0]:.2f}")
    if len(sys.argv) > 1:
        draw(kinds, plan, guarded, loose, sys.argv[1])


def draw(
    kinds: list[conrl.ConstrainedMDP],
    plan: conrl.FleetPlan,
    guarded: conrl.FleetSimulation,
    loose: conrl.FleetSimulation,
    path: str,
) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    earns = np.array([float(kind.rewards[0, 0]) for kind in kinds])
    prices = np.array([float(kind.costs[0, 1, 0]) for kind in kinds])
    bars = left.bar(range(TYPES), plan.shares[:, 0] / EACH, color="#0072B2")
    left.bar_label(bars, [f"{price:.0f}" for price in prices], fontsize=7, color="#555555")
    left.set_xticks(range(TYPES), [f"{x:.0f}" for x in earns], fontsize=7)
    left.set(xlabel="type: what a new machine earns a week", ylabel="money a machine gets in 26 weeks")
    left.set_title("who gets the money (above the bar: the price of a service)", fontsize=10)
    edges = np.arange(MONEY - 1000.0, MONEY + 1001.0, 50.0)
    right.hist(loose.costs[:, 0], edges, color="#D55E00", alpha=0.6, label="without the guard")
    right.hist(guarded.costs[:, 0], edges, color="#0072B2", alpha=0.8, label="with the guard")
    right.axvline(MONEY, color="black", linewidth=1.0)
    right.set_xticks(np.arange(MONEY - 1000.0, MONEY + 1001.0, 500.0))
    right.set(xlabel="money spent in one run", ylabel="runs of 200")
    right.set_title("what is really spent; the line is the budget", fontsize=10)
    right.legend(fontsize=8, frameon=False)
    save_figure(figure, path)


if __name__ == "__main__":
    main()

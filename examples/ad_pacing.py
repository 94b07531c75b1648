"""Pacing an advertising budget while learning: 150 days, one budget, nothing known about clicks or competitors.

A learner bids in 24 auctions a day. Its spending can never exceed the budget, whatever it believes. We compare it with
a bidder that bids high until the money is gone, and with the optimum that knows everything.

Run: python examples/ad_pacing.py [picture.png]
"""

from __future__ import annotations

import sys

import numpy as np

import conrl
from conrl.drawing import save_figure

DAYS = 150
BUDGET = 600.0  # 4 a day; bidding high in every auction would take 13 a day


def learned(market: conrl.ConstrainedMDP, seed: int) -> conrl.History:
    """ConRL with the whole budget in view, planning each day for what is left."""
    problem = conrl.Knapsack([BUDGET], episodes=DAYS)
    learner = conrl.ConRL(market.task, problem=problem, resolve=True)
    return conrl.learn(market, learner, DAYS, seed=seed)


def greedy(market: conrl.ConstrainedMDP, seed: int) -> np.ndarray:
    """Clicks so far, by day, if we always bid the most until the budget is gone."""
    policy = conrl.Deterministic(
        np.full((market.horizon, market.num_states), market.num_actions - 1), market.num_actions
    )
    played = conrl.simulate(market, policy, episodes=DAYS, seed=seed)
    going = np.cumsum(played.costs[:, 0]) <= BUDGET
    return np.cumsum(np.where(going, played.rewards, 0.0))


def main() -> None:
    market = conrl.envs.bidding()
    best = conrl.plan(market, conrl.Knapsack([BUDGET], episodes=DAYS))
    print(f"Knowing everything: {DAYS * best.reward:.0f} clicks for {DAYS * best.costs[0]:.0f}")
    runs = [learned(market, seed) for seed in range(3)]
    clicks = [float(run.rewards.sum()) for run in runs]
    spent = [float(run.costs.sum()) for run in runs]
    print(f"Learning: {np.mean(clicks):.0f} clicks for {np.mean(spent):.1f}, {max(spent):.1f} at most (three runs)")
    late = np.mean([run.rewards[DAYS // 2 :].mean() for run in runs])
    print(f"In the second half {late:.2f} clicks a day, {100 * late / best.reward:.0f}% of the optimum")
    wasted = greedy(market, 0)
    days = np.count_nonzero(np.diff(wasted)) + 1
    print(f"Bidding high until the money is gone: {wasted[-1]:.0f} clicks in {days} days")
    if len(sys.argv) > 1:
        draw(best, runs, wasted, sys.argv[1])


def draw(best: conrl.Plan, runs: list[conrl.History], wasted: np.ndarray, path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    days = np.arange(1, DAYS + 1)
    left.plot(days, best.reward * days, color="#444444", linestyle=":", label="knowing everything")
    for i, run in enumerate(runs):
        left.plot(days, np.cumsum(run.rewards), color="#0072B2", label="learning" if i == 0 else None)
        right.plot(days, BUDGET - np.cumsum(run.costs[:, 0]), color="#0072B2", label="learning" if i == 0 else None)
    left.plot(days, wasted, color="#D55E00", linestyle="--", label="bidding high")
    right.plot(days, BUDGET - best.costs[0] * days, color="#444444", linestyle=":", label="knowing everything")
    right.axhline(0.0, color="#222222", linewidth=1)
    left.set(xlabel="day", ylabel="clicks so far", title="clicks")
    right.set(xlabel="day", ylabel="money left", title="budget")
    for axes in (left, right):
        axes.legend(frameon=False)
        axes.grid(color="#dddddd")
    save_figure(figure, path)


if __name__ == "__main__":
    main()

"""Pricing a limited stock: what to ask each hour when there is too little to sell to everybody.

A shop has 12 hours, five prices and, on average, 4 units a day. Demand has three regimes and is highest at midday. Here
the model is known. What is the best price for every hour and regime, what is one more unit worth, and how much better
is that than a single price?

Run: python examples/pricing_stock.py [picture.png]
"""

from __future__ import annotations

import sys

import numpy as np

import conrl
from conrl.drawing import save_figure

PRICES = (20.0, 40.0, 60.0, 80.0, 100.0)
STOCK = 4.0
REGIMES = ("low", "normal", "high")


def one_price(shop: conrl.ConstrainedMDP, price: int) -> conrl.Evaluation:
    """Reward and sales if we ask the same price all day."""
    always = np.full((shop.horizon, shop.num_states), price)
    return conrl.evaluate(shop, conrl.Deterministic(always, shop.num_actions))


def lottery(shop: conrl.ConstrainedMDP) -> float:
    """The best mixture of two fixed prices that sells the stock."""
    points = [(e.costs[0], e.reward) for e in (one_price(shop, i) for i in range(len(PRICES)))]
    best = 0.0
    for x0, y0 in points:
        for x1, y1 in points:
            if x0 <= STOCK < x1:
                best = max(best, y0 + (y1 - y0) * (STOCK - x0) / (x1 - x0))
    return best


def asked(plan: conrl.Plan) -> np.ndarray:
    """[regime, hour]: the mean price that the plan asks."""
    H = plan.mdp.horizon
    table = plan.policy.probabilities @ np.array(PRICES)  # [step, state]
    return np.array([[table[h, h * len(REGIMES) + g] for h in range(H)] for g in range(len(REGIMES))])


def main() -> None:
    shop = conrl.envs.pricing(prices=PRICES, limits=[STOCK])
    plan = conrl.plan(shop)
    print(f"With {STOCK:g} units a day: revenue {100 * plan.reward:.1f}, sold {plan.costs[0]:.2f}, gap {plan.gap:.0e}")
    print(f"One more unit is worth {100 * plan.prices[0]:.1f}")
    for i, price in enumerate(PRICES):
        fixed = one_price(shop, i)
        print(f"  always {price:3.0f}: revenue {100 * fixed.reward:.1f}, would sell {fixed.costs[0]:.2f}")
    two = lottery(shop)
    print(f"The best lottery of two fixed prices: {100 * two:.1f}, {100 * two / plan.reward:.1f}% of the optimum")
    print("Price asked by hour (columns) and demand:")
    for name, row in zip(REGIMES, asked(plan), strict=True):
        print(f"  {name:>6}: " + " ".join(f"{price:4.0f}" for price in row))
    curve = conrl.frontier(shop)
    for stock in (2.0, 4.0, 6.0, 9.0):
        revenue, price = 100 * curve.reward(stock), 100 * curve.price(stock)
        print(f"  stock {stock:g}: revenue {revenue:.1f}, one more unit {price:.1f}")
    if len(sys.argv) > 1:
        draw(plan, curve, sys.argv[1])


def draw(plan: conrl.Plan, curve: conrl.Frontier, path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    shown = left.imshow(asked(plan), cmap="cividis", aspect="auto", vmin=PRICES[0], vmax=PRICES[-1])
    left.set(xlabel="hour", ylabel="demand", title=f"price asked with {STOCK:g} units a day")
    left.set_yticks(range(len(REGIMES)), REGIMES)
    for (g, h), price in np.ndenumerate(asked(plan)):
        left.text(h, g, f"{price:.0f}", ha="center", va="center", fontsize=8, color="white" if price < 65 else "black")
    figure.colorbar(shown, ax=left, label="price")
    limits, rewards = (np.array(x) for x in (curve.limits, curve.rewards))
    right.plot(limits, 100 * rewards, color="#0072B2")
    right.plot(STOCK, 100 * plan.reward, "o", color="#D55E00")
    right.annotate(
        f"one more unit: {100 * plan.prices[0]:.0f}",
        (STOCK, 100 * plan.reward),
        xytext=(8, -12),
        textcoords="offset points",
    )
    right.set(xlabel="stock a day", ylabel="revenue a day", title="what stock is worth")
    right.grid(color="#dddddd")
    save_figure(figure, path)


if __name__ == "__main__":
    main()

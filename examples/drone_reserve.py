"""A battery that must last: what an expected limit allows in the tail, and what limits on single flights cost.

A drone flies ten legs with a parcel each, as `drone.csv` says. Above 80% of its battery it uses the reserve, above 100%
it comes down. In calm and windy air a leg now and then meets a gust that takes five times as much.

1. What does a limit of 80 on the expected energy allow in single flights?
2. What do the three limits on single flights cost: never, chance, CVaR?
3. What would it cost to be as safe by a lower expected limit alone?

Run: python examples/drone_reserve.py [picture.png]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import conrl
from conrl.drawing import save_figure

LEGS, RESERVE, EMPTY = 10, 80, 100  # energy in percent of the battery
RISK = 0.01  # the share of flights that may use the reserve
LIMITS = {
    "expected": conrl.Linear({"energy": RESERVE}),
    "chance": conrl.Linear(chance={"energy": (RESERVE, RISK)}),
    "chance and never": conrl.Linear(never={"energy": EMPTY}, chance={"energy": (RESERVE, RISK)}),
    "CVaR": conrl.Linear(cvar={"energy": (0.95, RESERVE)}),
    "never": conrl.Linear(never={"energy": RESERVE}),
}
FINE, USED, DOWN = "#0072B2", "#E69F00", "#B2182B"


Told = tuple[float, float, float]  # how often the reserve is used, the reward, and the limit on the expected energy


def by_mean(drone: conrl.ConstrainedMDP) -> list[Told]:
    """Plans with limits from 40 to 105 on the expected energy, and on nothing else."""
    found = []
    for limit in np.arange(40.0, 105.5, 0.5).tolist():
        plan = conrl.plan(drone, {"energy": limit})
        found.append((conrl.distribution(drone, plan, "energy").exceed(RESERVE), plan.reward, limit))
    return found


def main() -> None:
    drone = conrl.load_model(Path(__file__).with_name("drone.csv"), horizon=LEGS, initial="calm")
    plans = {name: conrl.plan(drone, problem) for name, problem in LIMITS.items()}
    totals = {name: conrl.distribution(drone, plan, "energy") for name, plan in plans.items()}
    for name, plan in plans.items():
        x = totals[name]
        risks = f"reserve used in {100 * x.exceed(RESERVE):.2f}%, down in {100 * x.exceed(EMPTY):.2f}%"
        print(f"{name}: reward {plan.reward:.2f}, mean {x.mean:.1f}, {risks}, at worst {x.most:.0f}")
        print("  prices: " + ", ".join(f"{row.name}: {row.price:.2f}" for row in plan.rows))
    loose, tight = (totals[name].cvar(0.95) for name in ("expected", "CVaR"))
    print(f"mean of the worst 5%: {loose:.1f} with the expected limit, {tight:.1f} with that on the CVaR")
    means = by_mean(drone)
    safe = max(x for x in means if x[0] <= RISK)
    often, reward, limit = safe
    print(
        f"an expected limit as safe as the chance: {limit:g}, reward {reward:.2f}, reserve used in {100 * often:.2f}%"
    )
    curve = conrl.frontier(drone, chance={"energy": RESERVE})
    for risk in (0.01, 0.05):
        print(
            f"  risk {100 * risk:g}%: reward {curve.reward(risk):.2f}, one more percent {0.01 * curve.price(risk):.2f}"
        )
    flown = conrl.simulate(drone, plans["chance and never"], 10_000, seed=0).costs[:, 0]
    print(
        f"10,000 flights of chance and never: {(flown > RESERVE).sum()} use the reserve, the most is {flown.max():.0f}"
    )
    if len(sys.argv) > 1:
        draw(plans, totals, means, safe, curve, sys.argv[1])
        print(f"wrote {sys.argv[1]}")


def draw(
    plans: dict[str, Any],
    totals: dict[str, Any],
    means: list[Told],
    safe: Told,
    curve: conrl.Frontier,
    path: str,
) -> None:
    """Above: the energy of a flight under each plan. Below: what rewards cost in risk."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 7.6), layout="constrained")
    *rows, below = figure.subplots(len(totals) + 1, 1, height_ratios=[1.0] * len(totals) + [3.2])
    edges = np.arange(0.0, 145.0, 5.0)
    colors = [FINE if e < RESERVE else USED if e < EMPTY else DOWN for e in edges[:-1]]
    # Totals are whole percents; the bar from 75 to 80 has those above 75 and up to 80, the last one all above 135.
    shares = [
        np.histogram(np.minimum(x.totals, 140.0) - 0.5, edges, weights=100.0 * x.probabilities)[0]
        for x in totals.values()
    ]
    for axes, share, (name, x) in zip(rows, shares, totals.items(), strict=True):
        axes.bar(edges[:-1] + 2.5, np.sqrt(share), width=4.6, color=colors)
        axes.set(xlim=(0.0, 140.0), ylim=(0.0, 9.0), yticks=[])
        axes.spines[["top", "right", "left"]].set_visible(False)
        used, down = 100 * x.exceed(RESERVE), 100 * x.exceed(EMPTY)
        for place, color, text in (
            (1.0, "black", f"{name}\nreward {plans[name].reward:.1f}"),
            (81.5, "#8a5a00", f"reserve\n{used:.2g}%"),
            (117.0, DOWN, f"down\n{down:.2g}%"),
        ):
            axes.text(place, 8.6, text, va="top", fontsize=10, color=color)
        axes.axvline(RESERVE, color="gray", ls="--", lw=1)
        axes.axvline(EMPTY, color="gray", ls="--", lw=1)
        axes.tick_params(labelbottom=axes is rows[-1])
    # What matters is seldom: by their square root, one percent is a tenth as high as all.
    rows[0].set_title("energy of a flight under each plan (bars: the square root of a share)", fontsize=11)
    rows[-1].set_xlabel("% of the battery")
    risks = np.linspace(0.0, 0.42, 421)
    below.plot(100 * risks, [curve.reward(r) for r in risks], color=FINE, lw=2, label="limit on the chance")
    shown = np.array([x for x in means if x[0] <= 0.45])
    below.plot(100 * shown[:, 0], shown[:, 1], color="#555555", lw=2, ls=":", label="lower limit on the mean")
    often, reward, limit = safe
    for x, y, text, move in (
        (0.0, plans["never"].reward, "never", (9, -5)),
        (RISK, plans["chance"].reward, "chance", (10, -4)),
        (often, reward, f"expected <= {limit:g}", (10, -10)),
        (totals["expected"].exceed(RESERVE), plans["expected"].reward, "expected <= 80", (-90, -16)),
    ):
        below.plot(100 * x, y, "o", color="black", ms=5, zorder=3)
        below.annotate(text, (100 * x, y), xytext=move, textcoords="offset points", fontsize=10)
    below.set(xlabel="% of flights that use the reserve", ylabel="reward", xlim=(-0.7, 42.0), ylim=(52.0, 95.0))
    below.set_title("what less risk costs", fontsize=11)
    below.legend(frameon=False, loc="lower right", fontsize=10)
    below.grid(color="#e8e8e8")
    save_figure(figure, path)


if __name__ == "__main__":
    main()

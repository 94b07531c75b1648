"""From the records of a ward to a rule that can be trusted: what a plan promises, and what it keeps.

A ward has patients of six degrees of illness, on one of two floors. Four doses: a larger one helps more and harms more
often, most of all on the upper floor. The records are of doctors who mostly did what is good and sometimes anything.
At most 0.2 adverse events a stay are allowed, in expectation. The ward itself is a model here, so that every promise
can be checked.

1. What does a plan promise that takes the records for the world, and what does it keep?
2. What do plans with confidence 0.8, 0.95 and 0.99 cost, and what do they keep?
3. How does that change with the number of records?

Run: python examples/ward_log.py [picture.png]
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import numpy as np

import conrl
from conrl.drawing import save_figure

DEGREES, FLOORS, DOSES, DAYS = 6, 2, 4, 14
LIMIT = {"adverse": 0.2}
LEVELS = (0.8, 0.95, 0.99)
RECORDS = 2000
SIZES, LOGS = (250, 500, 1000, 2000, 4000, 8000), 6


def ward() -> conrl.ConstrainedMDP:
    """What nobody knows."""
    rng = np.random.default_rng(4)
    rows: list[tuple[int, int, int, float]] = []
    pay: list[tuple[float, float]] = []
    for floor in range(FLOORS):
        for ill in range(DEGREES):
            for dose in range(DOSES):
                better = 0.2 + 0.18 * dose - 0.02 * ill
                worse = 0.1 + 0.03 * (dose == 0) + 0.04 * floor
                harm = 0.004 * dose**2 * (1.0 + floor) * rng.uniform(0.5, 1.5)
                steps = ((max(ill - 1, 0), better), (min(ill + 1, DEGREES - 1), worse), (ill, 1.0 - better - worse))
                for then, p in steps:
                    for there, q in ((floor, 0.9), (1 - floor, 0.1)):
                        for harmed, chance in ((0.0, 1.0 - harm), (1.0, harm)):
                            rows.append((floor * DEGREES + ill, dose, there * DEGREES + then, p * q * chance))
                            pay.append((1.0 - ill / (DEGREES - 1), harmed))
    state, action, successor = np.array([row[:3] for row in rows]).T
    return conrl.ConstrainedMDP.from_outcomes(
        state, action, successor, np.array([row[3] for row in rows]), pay,
        num_states=DEGREES * FLOORS, num_actions=DOSES, horizon=DAYS, initial=3, cost_names=["adverse"],
        state_names=[f"{floor} floor, {ill}" for floor in ("lower", "upper") for ill in range(DEGREES)],
        action_names=[f"dose {dose}" for dose in range(DOSES)],
    )  # fmt: skip


def doctors(world: conrl.ConstrainedMDP) -> conrl.Policy:
    """Who wrote the records: good rules, and in four of ten cases anything."""
    best = conrl.plan(world, LIMIT).policy.probabilities
    return conrl.Policy(0.6 * best + 0.4 / DOSES)


def promises(world: conrl.ConstrainedMDP, log: conrl.Log) -> list[tuple[str, Any, Any]]:
    """Plans by name, with what they promise and what they keep; None where the records do not support one."""
    model = conrl.estimate(log, unvisited="missing")
    plain = conrl.plan(model, LIMIT)
    found: list[tuple[str, Any, Any]] = [("plain", plain, conrl.evaluate(world, plain.policy))]
    for level in LEVELS:
        try:
            plan = conrl.plan(model, LIMIT, confidence=level)
            found.append((f"{level:g}", plan, conrl.evaluate(world, plan.policy)))
        except conrl.InfeasibleError:
            found.append((f"{level:g}", None, None))
    return found


Told = tuple[conrl.Evaluation, conrl.Evaluation]  # what a plan promises, and what it keeps


def by_size(world: conrl.ConstrainedMDP, habit: conrl.Policy) -> dict[str, list[list[Told]]]:
    """Plain plans and plans with confidence 0.95, for some logs of each size."""
    found: dict[str, list[list[Told]]] = {"plain": [], "0.95": []}
    for size in SIZES:
        for plans in found.values():
            plans.append([])
        for seed in range(LOGS):
            model = conrl.estimate(conrl.sample_log(world, habit, size, 100 + seed), unvisited="missing")
            for name, level in (("plain", None), ("0.95", 0.95)):
                with suppress(conrl.InfeasibleError):
                    policy = conrl.plan(model, LIMIT, confidence=level).policy
                    found[name][-1].append((conrl.evaluate(model, policy), conrl.evaluate(world, policy)))
    return found


def picture(found: dict[str, list[list[Told]]], best: float, path: str) -> None:
    """Left: what plans of 2,000 records promise (hollow) and keep (full). Right: what is kept, by their number."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    looks = {"plain": ("#c1432e", "no caution", 0.93), "0.95": ("#2471a3", "confidence 0.95", 1.07)}
    for name, (color, label, shift) in looks.items():
        for promise, truth in found[name][SIZES.index(RECORDS)]:
            left.plot(*zip(_point(promise), _point(truth), strict=True), color=color, lw=1, alpha=0.6, zorder=1)
            left.scatter(*_point(promise), s=55, facecolor="white", edgecolor=color, zorder=2)
            left.scatter(*_point(truth), s=55, color=color, zorder=3)
        left.scatter([], [], s=55, color=color, label=label)
        x = [size * shift for size, plans in zip(SIZES, found[name], strict=True) for _ in plans]
        right.scatter(
            x, [_point(truth)[0] for plans in found[name] for _, truth in plans], s=26, color=color, label=label
        )
    left.scatter(LIMIT["adverse"], best, marker="*", s=170, color="black", label="the optimum", zorder=4)
    left.axvline(LIMIT["adverse"], color="gray", ls="--", lw=1)
    left.set(xlabel="adverse events a stay", ylabel="reward", title="promised (hollow) and kept (full), 2,000 records")
    left.legend(frameon=False, loc="lower right")
    right.axhline(LIMIT["adverse"], color="gray", ls="--", lw=1)
    right.set(
        xscale="log", xlabel="records (stays)", ylabel="adverse events a stay, in truth", title="six logs of each size"
    )
    right.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    right.minorticks_off()
    right.legend(frameon=False)
    save_figure(figure, path)


def _point(value: conrl.Evaluation) -> tuple[float, float]:
    return float(value.costs[0]), value.reward


def main() -> None:
    world = ward()
    habit = doctors(world)
    best = conrl.plan(world, LIMIT).reward
    log = conrl.sample_log(world, habit, RECORDS, seed=0)
    print(f"{log}; the optimum, if the ward were known, is {best:.3f}")
    found = promises(world, log)
    for name, plan, truth in found:
        if plan is None:
            print(f"confidence {name}: the records do not support it")
            continue
        what = "no caution" if name == "plain" else f"confidence {name}"
        kept = f"keeps {truth.costs[0]:.3f} at reward {truth.reward:.3f}"
        print(f"{what}: promises adverse {plan.costs[0]:.3f} at reward {plan.reward:.3f}, {kept}")
    told = conrl.assess(habit, log, LIMIT, mdp=world)
    low, high = told.low.costs[0], told.high.costs[0]
    truth = conrl.evaluate(world, habit).costs[0]
    print(f"the doctors themselves: adverse {low:.3f} to {high:.3f} by the records, in truth {truth:.3f}")
    print(f"what to record next: {told.needs[0]}")
    sizes = by_size(world, habit)
    for name, what in (("plain", "no caution"), ("0.95", "confidence 0.95")):
        kept_by = [[_point(truth)[0] <= LIMIT["adverse"] for _, truth in plans] for plans in sizes[name]]
        counts = [f"{sum(kept)} of {len(kept)}" for kept in kept_by]
        print(f"{what}: plans within the limit, by size: {', '.join(counts)}")
    if len(sys.argv) > 1:
        picture(sizes, best, sys.argv[1])
        print(f"wrote {sys.argv[1]}")


if __name__ == "__main__":
    main()

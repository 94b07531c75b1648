"""Limits on single episodes: how long plans and frontiers take, from the model to the checked plan.

    python benchmarks/single_episodes.py --repeat 20

The machine has 30 states and 30 steps: it wears, fails (a repair, by outcome) and can be maintained. Least of all
repetitions, after one that compiles.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import conrl


def machine(states: int = 30, horizon: int = 30) -> conrl.ConstrainedMDP:
    rows: list[tuple[Any, ...]] = []
    for s in range(states):
        for a, (wear, earn) in enumerate(((0.2, 0.5), (0.6, 1.0))):
            fails = min(0.5 * (s / (states - 1)) ** 2 * (1 + a), 0.9)
            energy = 0.1 + 0.1 * a
            rows += [
                (s, a, 0, fails, [0.0, 1.0, 0.3]),
                (s, a, min(s + 1, states - 1), (1.0 - fails) * wear, [earn, 0.0, energy]),
                (s, a, s, (1.0 - fails) * (1.0 - wear), [earn, 0.0, energy]),
            ]
        rows.append((s, 2, max(s - 4, 0), 1.0, [0.0, 0.0, 0.4]))
    columns = zip(*(row for row in rows if row[3] > 0.0), strict=True)
    return conrl.ConstrainedMDP.from_outcomes(
        *columns,
        num_states=states,
        num_actions=3,
        horizon=horizon,
        initial=states // 3,
        cost_names=("repairs", "energy"),
    )


def least(work: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    answer = work()
    times = []
    for _ in range(repeat):
        begun = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - begun)
    return min(times), answer


def asked(work: Callable[[], conrl.Plan]) -> Callable[[], str]:
    def answer() -> str:
        try:
            plan = work()
        except conrl.InfeasibleError:
            return "infeasible"
        return f"{plan.reward:.6f} | {plan.gap:.0e}"

    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=20)
    repeat = parser.parse_args().repeat
    worn, shop, rover = machine(), conrl.envs.pricing(), conrl.envs.mars_rover(rock_reward=1.0)
    plans: list[tuple[str, conrl.ConstrainedMDP, conrl.Linear]] = [
        ("machine, never more than 3 repairs", worn, conrl.Linear(never={"repairs": 3})),
        ("machine, P(repairs > 1) <= 0.05", worn, conrl.Linear(chance={"repairs": (1, 0.05)})),
        ("machine, CVaR 0.9 of repairs <= 0.5", worn, conrl.Linear(cvar={"repairs": (0.9, 0.5)})),
        (
            "machine, all of them and a limit on energy",
            worn,
            conrl.Linear(
                {"energy": 5.5}, never={"repairs": 3}, chance={"repairs": (0, 0.4)}, cvar={"repairs": (0.9, 1.5)}
            ),
        ),
        ("machine, CVaR 0.9 of energy <= 5.5 (56 totals)", worn, conrl.Linear(cvar={"energy": (0.9, 5.5)})),
        (
            "machine, CVaRs of repairs and of energy",
            worn,
            conrl.Linear(cvar={"repairs": (0.9, 0.8), "energy": (0.9, 5.5)}),
        ),
        ("pricing, never more than 4 sold", shop, conrl.Linear(never={"stock": 4})),
        ("pricing, P(stock > 4) <= 0.05", shop, conrl.Linear(chance={"stock": (4, 0.05)})),
        ("pricing, CVaR 0.9 of stock <= 4", shop, conrl.Linear(cvar={"stock": (0.9, 4)})),
    ]
    print("| question | reward | gap | time |\n| --- | --- | --- | --- |")
    for name, mdp, problem in plans:
        seconds, text = least(asked(lambda mdp=mdp, problem=problem: conrl.plan(mdp, problem)), repeat)  # type: ignore[misc]
        print(f"| {name} | {text}{' |' * ('|' not in text)} | {1e3 * seconds:.1f} ms |")
    seconds, curve = least(lambda: conrl.frontier(rover, chance={"crash": 0}, limits=conrl.Linear()), repeat)
    size, error = f"{curve.limits.size} vertices", f"{curve.error:.0e}"
    print(f"| Mars rover, reward against P(crash) | {size} | {error} | {1e3 * seconds:.1f} ms |")


if __name__ == "__main__":
    main()

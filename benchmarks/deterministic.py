"""One deterministic policy on every built-in model: what it earns, what is proven, and why the search stopped.

    python benchmarks/deterministic.py --time-limit 60

The gap is in percent of the objective; the goal is 1% within 60 seconds. Compilation is apart: the search runs once
before.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import conrl

MODELS: list[tuple[str, dict[str, Any]]] = [
    ("mars-rover", {}),
    ("mars-rover", {"rock_reward": 0.1}),
    ("mars-rover", {"rock_reward": 1.0}),
    ("mars-rover", {"rock_reward": 5.0}),
    ("box", {}),
    ("random", {}),
    ("random", {"costs": 3}),
    ("random", {"states": 1000, "costs": 3}),
    ("pricing", {}),
    ("pricing-hours", {}),
    ("bidding", {}),
    ("cluster", {}),
    ("factored", {}),
    ("media-streaming", {}),
    ("inventory", {}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="SECONDS")
    limit = parser.parse_args().time_limit
    conrl.plan(conrl.envs.make("cluster"), deterministic=True, tol=0.01)
    print("| model | best mixture | one policy | bound | gap | seconds | why it stopped |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, settings in MODELS:
        mdp = conrl.envs.make(name, **settings)
        mixture = conrl.plan(mdp)
        begin = time.perf_counter()
        plan = conrl.plan(mdp, deterministic=True, time_limit=limit)
        seconds = time.perf_counter() - begin
        words = ", ".join(f"{key}={value:g}" for key, value in settings.items())
        print(
            f"| {name}{f' ({words})' if words else ''} | {mixture.reward:.7f} | {plan.reward:.7f} | {plan.bound:.7f} "
            f"| {100.0 * plan.gap / abs(plan.objective):.1e}% | {seconds:.2f} | {plan.status} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

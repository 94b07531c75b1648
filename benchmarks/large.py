"""Large models: build, plan to a gap of 1e-6, make the policy and evaluate it; time, threads and memory.

    python benchmarks/large.py                       # all of it; up to ten million states, 12 GiB
    python benchmarks/large.py --most 1000000        # no larger model than that
    python benchmarks/large.py one random 1000000 2  # one model with two threads, in this process, as JSON
    python benchmarks/large.py turns random 1000000  # one thread against two, one direction at a time, taking turns

S states, 4 actions, 5 successors, 3 costs, 30 steps. *random*: successors anywhere, from state 0. *local*: at most two
states up or down a ring, from everywhere. Every model is built in a process of its own, whose peak memory is reported.
The limits are half-way between the costs of the policy with the least sum of costs in each state and of the one with
the largest reward, in the mean of such models. The slope is that of the time of a plan in S, on log-log, from the
smallest to the largest model.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import conrl
from conrl.oracles import LargeBackwardInduction, exact_oracle

STEPS, ACTIONS, SUCCESSORS, COSTS, BAND = 30, 4, 5, 3, 2
LIMIT = 12.42
GAP = 1e-6
BLOCK = 100_000  # states
W = np.array([[1.0, -0.2, -0.1, -0.3]])
SIZES = (100_000, 1_000_000, 10_000_000)


def blocks(kind: str, states: int) -> Iterator[tuple[Any, ...]]:
    """The rows of a model, BLOCK states at a time."""
    rng = np.random.default_rng(0)
    for begin in range(0, states, BLOCK):
        n = min(BLOCK, states - begin)
        shape = n, ACTIONS, SUCCESSORS
        if kind == "random":
            successor = rng.integers(states, size=shape, dtype=np.int32)
        else:
            step = rng.integers(-BAND, BAND + 1, size=shape, dtype=np.int32)
            successor = (np.arange(begin, begin + n, dtype=np.int32)[:, None, None] + step) % states
        probability = rng.standard_exponential(shape)
        probability /= probability.sum(axis=2, keepdims=True)
        yield successor, probability, rng.random(shape[:2]), rng.random((n, ACTIONS, COSTS))


def build(kind: str, states: int) -> conrl.ConstrainedMDP:
    start: Any = 0 if kind == "random" else np.full(states, 1.0 / states)
    return conrl.ConstrainedMDP.from_blocks(
        lambda: blocks(kind, states), num_states=states, num_actions=ACTIONS, horizon=STEPS, initial=start,
        limits=[LIMIT] * COSTS,
    )  # fmt: skip


class Clock:
    """Seconds between one call and the next."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def __call__(self) -> float:
        before, self.last = self.last, time.perf_counter()
        return self.last - before


def peak() -> float:
    """GiB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def one(kind: str, states: int, threads: int) -> dict[str, Any]:
    """Everything with one model."""
    conrl.plan(build(kind, 1000), tol=GAP / 25.0)  # compiled before the clock starts
    LargeBackwardInduction(build(kind, 1000), 1).support_many(np.repeat(W, 3, axis=0))
    LargeBackwardInduction(build(kind, 1000), 1).policy(W[0])
    clock = Clock()
    mdp = build(kind, states)
    found: dict[str, Any] = {"kind": kind, "states": states, "threads": threads, "build": clock()}
    found["built"] = peak()
    exact_oracle(mdp, threads).support_many(W)
    found["direction"] = clock()
    plan = conrl.plan(mdp, tol=GAP / 25.0, threads=threads)
    found |= {"plan": clock(), "gap": plan.gap, "reward": plan.reward, "asked": plan.iterations, "status": plan.status}
    found |= {"planned": peak(), "mixed": plan.weights.size}
    assert plan.gap <= GAP, plan
    _ = plan.mixture
    found["mixture"] = clock()
    policy = plan.policy
    found |= {"markov": clock(), "places": getattr(policy, "places", np.empty(0)).size}
    value = conrl.evaluate(mdp, policy)
    found |= {"evaluate": clock(), "off": float(np.abs(value.value - np.append(plan.reward, plan.costs)).max())}
    return found | {"peak": peak()}


def turns(kind: str, states: int, times: int = 3) -> dict[str, Any]:
    """One direction with one thread and with two, taking turns: the least of each, and whether they agree."""
    mdp = build(kind, states)
    oracles = [LargeBackwardInduction(mdp, threads) for threads in (1, 2)]
    best, answers = [np.inf, np.inf], []
    for _ in range(times):
        for i, oracle in enumerate(oracles):
            clock = Clock()
            answers.append(oracle.support_many(W))
            best[i] = min(best[i], clock())
    same = all(np.array_equal(a, b) for answer in answers for a, b in zip(answer[:3], answers[0][:3], strict=True))
    return {"kind": kind, "states": states, "one": best[0], "two": best[1], "ratio": best[0] / best[1], "same": same,
            "peak": peak()}  # fmt: skip


def apart(*arguments: Any) -> dict[str, Any]:
    """The same in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *map(str, arguments)], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(most: int) -> None:
    sizes = [size for size in SIZES if size <= most]
    titles = ("build", "direction", "plan", "mixture", "markov", "evaluate")
    for kind in ("random", "local"):
        print(f"\n| S, {kind} | {' | '.join(titles)} | directions | gap | peak |")
        print("| --- |" + " --- |" * (len(titles) + 3))
        rows = []
        for size in sizes:
            row = apart("one", kind, size, 2)
            rows.append(row)
            told = " | ".join(f"{row[title]:.1f} s" for title in titles)
            print(f"| {size:,} | {told} | {row['asked']} | {row['gap']:.1e} | {row['peak']:.1f} GiB |", flush=True)
        if len(rows) > 1:
            across = np.log(rows[-1]["plan"] / rows[0]["plan"]) / np.log(rows[-1]["states"] / rows[0]["states"])
            print(f"\nSlope of the plan's time: **{across:.2f}** (goal {'1.25' if kind == 'random' else '1.1'}).")
    print("\n| S, random | one thread | two | ratio (goal 1.6) | same bits |\n| --- | --- | --- | --- | --- |")
    for size in sizes[1:]:
        row = apart("turns", "random", size)
        print(f"| {size:,} | {row['one']:.1f} s | {row['two']:.1f} s | **{row['ratio']:.2f}x** | {row['same']} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="one KIND STATES THREADS, or turns KIND STATES")
    parser.add_argument("--most", type=int, default=SIZES[-1])
    given = parser.parse_args()
    if given.what and given.what[0] == "one":
        print(json.dumps(one(given.what[1], int(given.what[2]), int(given.what[3]))))
    elif given.what:
        print(json.dumps(turns(given.what[1], int(given.what[2]))))
    else:
        main(given.most)

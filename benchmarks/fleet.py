"""Fleets: a million different units under one budget, and guarded simulations.

    python benchmarks/fleet.py [--units 1000000] [--played 100000] [--runs 200]

Units are machines of 8 states and 2 actions, 20 steps: the worse its state the less a machine earns, it wears at its
own rate, and a repair costs its own price and mostly helps. Printed: time of making the fleet and of planning it, the
gap, who mixes, peak memory; then the guarded simulation against the bound. (Plans against the full linear program:
tests/test_fleet.py.)
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import conrl

STATES, STEPS = 8, 20


def machines(units: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Transitions [N, S, A, S], rewards [N, S, A] and costs [N, S, A]; action 1 repairs."""
    rng = np.random.default_rng(seed)
    S = STATES
    T = np.empty((units, S, 2, S))
    rewards, costs = np.zeros((units, S, 2)), np.zeros((units, S, 2))
    for begin in range(0, units, 50_000):
        n = min(units, begin + 50_000) - begin
        at = slice(begin, begin + n)
        noise = rng.random((n, S, 2, S)) ** 4
        target = np.zeros((S, 2, S))
        target[np.arange(S), 0, np.minimum(np.arange(S) + 1, S - 1)] = 1.0  # it wears
        target[:, 1, 0] = 1.0  # and is as new
        wear = rng.uniform(0.2, 0.9, (n, 1, 1, 1))
        stay = np.zeros((S, 2, S))
        stay[np.arange(S), 0, np.arange(S)] = 1.0
        stay[:, 1, 0] = 1.0
        p = wear * target + (1.0 - wear) * stay + 0.05 * noise
        T[at] = p / p.sum(axis=3, keepdims=True)
        value = rng.uniform(1.0, 10.0, (n, 1)) * np.linspace(1.0, 0.0, S) ** rng.uniform(0.5, 2.0, (n, 1))
        rewards[at, :, 0], rewards[at, :, 1] = value, 0.5 * value
        costs[at, :, 1] = rng.uniform(0.5, 5.0, (n, 1))
    return T, rewards, costs


def peak() -> float:
    """GiB, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def large(units: int) -> None:
    conrl.plan(conrl.Fleet.stack(*machines(64, 1), horizon=STEPS, limits=[10.0]))  # compiles
    T, rewards, costs = machines(units, 0)
    print(f"{units:,} units: input {(T.nbytes + rewards.nbytes + costs.nbytes) / 2**30:.2f} GiB, peak {peak():.2f} GiB")
    begin = time.perf_counter()
    fleet = conrl.Fleet.stack(T, rewards, costs, horizon=STEPS, limits=[2.0 * units])
    made = time.perf_counter()
    plan = conrl.plan(fleet, tol=1e-6)
    done = time.perf_counter()
    print(
        f"  made in {made - begin:.1f} s, planned in {done - made:.1f} s, {plan.iterations} directions, {plan.status}; "
        f"relative gap {plan.gap / plan.reward:.1e}, spent {plan.costs[0]:,.4f} of {2 * units:,}, price "
        f"{plan.prices[0]:.6f}, {len(plan.mixed)} of {units:,} mix, peak {peak():.2f} GiB"
    )


def played(units: int, runs: int) -> None:
    fleet = conrl.Fleet.stack(*machines(units, 2), horizon=STEPS, limits=[2.0 * units])
    plan = conrl.plan(fleet, tol=1e-6)
    for guard in (True, False):
        begin = time.perf_counter()
        simulation = fleet.simulate(plan, runs=runs, seed=0, guard=guard)
        took = time.perf_counter() - begin
        print(
            f"{units:,} units, {runs} runs {'with' if guard else 'without'} the guard in {took:.1f} s: mean reward "
            f"{100.0 * simulation.mean.reward / plan.bound:.4f}% of the bound, worst run "
            f"{100.0 * simulation.rewards.min() / plan.bound:.4f}%; budget exceeded in {simulation.exceed()[0]:.1%} of "
            f"runs, most spent {simulation.costs.max():,.3f} of {2 * units:,}; {simulation.refused.mean():,.0f} refused"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument("--played", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=200)
    given = parser.parse_args()
    if given.units:
        large(given.units)
    if given.played:
        played(given.played, given.runs)


if __name__ == "__main__":
    main()

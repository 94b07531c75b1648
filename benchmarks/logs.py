"""How long it takes to read a log: a million steps as CSV, as .npz and as Parquet.

    python benchmarks/logs.py

42,000 episodes of 24 steps; states and actions are texts, the reward and two costs are decimals with four digits, as a
hospital or a shop would export them. The best of three, in one process; Parquet is read by Polars, on all cores.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import conrl

EPISODES, STEPS = 42_000, 24


def table() -> dict[str, Any]:
    """The columns of a log, each an array."""
    rng = np.random.default_rng(0)
    wards = np.array([f"ward-{i}" for i in range(40)])
    treatments = np.array([f"treatment {i}" for i in range(6)])
    visited = rng.integers(wards.size, size=(EPISODES, STEPS + 1))
    pay = rng.random((EPISODES * STEPS, 3)).round(4)
    return {
        "episode": np.repeat(np.arange(EPISODES), STEPS),
        "step": np.tile(np.arange(STEPS), EPISODES),
        "state": wards[visited[:, :-1].ravel()],
        "action": treatments[rng.integers(treatments.size, size=EPISODES * STEPS)],
        "reward": pay[:, 0],
        "cost_adverse": pay[:, 1],
        "cost_bed": pay[:, 2],
        "next_state": wards[visited[:, 1:].ravel()],
    }


def seconds(path: Path) -> float:
    """The best of three."""
    best = np.inf
    for _ in range(3):
        begin = time.perf_counter()
        log = conrl.load_episodes(path)
        best = min(best, time.perf_counter() - begin)
        assert log.num_steps == EPISODES * STEPS
    return best


def main() -> None:
    columns = table()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"log.{form}") for form in ("csv", "npz", "parquet")]
        frame = pl.DataFrame(columns)
        frame.write_csv(paths[0])
        np.savez(paths[1], **columns)
        frame.write_parquet(paths[2])
        print("| file | rows | megabytes | seconds (goal for CSV: 5) |")
        print("| --- | --- | --- | --- |")
        for path in paths:
            size = path.stat().st_size / 1e6
            print(f"| {path.suffix} | {EPISODES * STEPS:,} | {size:.0f} | {seconds(path):.2f} |")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nAt most {peak:.0f} MB of memory, which includes the table itself.")


if __name__ == "__main__":
    main()

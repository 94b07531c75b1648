"""Fleets."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

import conrl
from fuzzing.doors import call, command, door
from fuzzing.spoiling import MACHINE, mutate, odd, odd_count, odd_number

FLEET = """[fleet]
horizon = 4
limits = { repairs = 30, energy = 500 }
floors = { energy = 1 }
per_step = { repairs = [9, 9, 8, 7] }
[[unit]]
model = "machine.csv"
count = 12
start = "worn"
[[unit]]
model = "machine.csv"
count = 3
"""


@door("fleet-file", 2)
def fleet_file(r: random.Random, folder: Path) -> None:
    (folder / "machine.csv").write_text(MACHINE)
    (folder / "fleet.toml").write_bytes(mutate(FLEET, r))
    options: list[tuple[Any, ...]] = [(), ("--simulate", 2), ("--limit", f"energy={odd(r)}"), ("--json",)]
    command("plan", folder / "fleet.toml", *r.choice(options))


@door("fleet-arrays", 2)
def fleet_arrays(r: random.Random, folder: Path) -> None:
    """A stack of units, spoilt somewhere."""
    g = np.random.default_rng(r.randrange(2**32))
    tables: dict[str, Any] = {
        "transitions": g.dirichlet(np.ones(2), size=(3, 2, 2)),
        "rewards": g.random((3, 2, 2)),
        "costs": g.random((3, 2, 2, 2)),
    }
    for name in r.sample(list(tables), r.randint(0, 2)):
        spoilt = tables[name].astype(object)
        spoilt[tuple(r.randrange(n) for n in spoilt.shape)] = odd_number(r)
        tables[name] = r.choice((spoilt, tables[name][1:], tables[name].tolist(), odd_number(r)))
    more: dict[str, Any] = {
        "horizon": r.choice((3, odd_number(r), odd_count(r))),
        "initial": r.choice((0, [0, 1, 1], odd_number(r))),
        "limits": r.choice(([3.0, 4.0], [odd_number(r), 1.0], None)),
        "per_step": r.choice((None, {"cost0": 2.0}, {"cost1": [odd_number(r)] * 3}, odd_number(r))),
    }

    def work() -> None:
        fleet = conrl.Fleet.stack(**tables, **more)
        plan = conrl.plan(fleet)
        fleet.simulate(plan, runs=r.choice((2, odd_count(r))))

    call(work)

"""Fleets: files, arrays, and what is played with their plans."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import conrl
from fuzzing.doors import Broken, call, command, door
from fuzzing.policies import machine
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
model = "stepped.csv"
count = 3
"""
STEPPED = "\n".join(
    [
        "step," + MACHINE.split("\n")[0],
        *(f"{step},{row}" for step in ("0-1", "2-3") for row in MACHINE.split("\n")[1:-1]),
    ]
)


@door("fleet-file", 3)
def fleet_file(r: random.Random, folder: Path) -> None:
    """A fleet whose file, or one of whose models, is spoilt."""
    spoilt = r.choice(("fleet", "fleet", "machine", "neither"))
    (folder / "machine.csv").write_bytes(mutate(MACHINE, r) if spoilt == "machine" else MACHINE.encode())
    (folder / "stepped.csv").write_text(STEPPED)
    (folder / "fleet.toml").write_bytes(mutate(FLEET, r) if spoilt == "fleet" else FLEET.encode())
    options: list[tuple[Any, ...]] = [(), ("--simulate", 2), ("--limit", f"energy={odd(r)}"), ("--json",)]
    options += [
        ("--floor", f"energy={odd(r)}"),
        ("--per-step", f"repairs={odd(r)}"),
        ("--horizon", r.choice((4, 3, 5))),
    ]
    options += [("--per-step", f"repairs={r.choice((0, 8, 15))}"), ("--threads", r.choice((1, 2, 0, odd(r))))]
    options += [
        ("--never", "repairs=1"),
        ("--start", "new"),
        ("--discount", "0.9"),
        ("--out", "p.json"),
        ("--tol", odd(r)),
    ]
    words = r.choice(options)
    command(r.choice(("plan", "plan", "plan", "check")), folder / "fleet.toml", *words)


@door("fleet-arrays", 2)
def fleet_arrays(r: random.Random, folder: Path) -> None:
    """A stack of units, spoilt somewhere."""
    g = np.random.default_rng(r.randrange(2**32))
    tables: dict[str, Any] = {
        "transitions": g.dirichlet(np.ones(2), size=(3, 2, 2)),
        "rewards": g.random((3, 2, 2)),
        "costs": g.random((3, 2, 2, 2)),
    }
    if r.random() < 0.2:  # by step
        tables = {name: np.repeat(table[:, None], r.choice((3, 3, 2)), axis=1) for name, table in tables.items()}
    for name in r.sample(list(tables), r.choice((0, 0, 1, 2))):
        spoilt = tables[name].astype(object)
        spoilt[tuple(r.randrange(n) for n in spoilt.shape)] = odd_number(r)
        tables[name] = r.choice((spoilt, tables[name][1:], tables[name].tolist(), odd_number(r)))
    more: dict[str, Any] = {
        "horizon": r.choice((3, 3, 3, odd_number(r), odd_count(r))),
        "initial": r.choice((0, [0, 1, 1], odd_number(r))),
        "limits": r.choice(([3.0, 4.0], [odd_number(r), 1.0], None)),
        "per_step": r.choice((None, {"cost0": 2.0}, {"cost1": [odd_number(r)] * 3}, odd_number(r))),
    }

    def work() -> None:
        fleet = conrl.Fleet.stack(**tables, **more)
        plan = conrl.plan(fleet)
        fleet.simulate(plan, runs=r.choice((2, odd_count(r))))

    call(work)


@cache
def _fleet() -> tuple[conrl.Fleet, Any]:
    """Seven machines that share a repair each step, and their plan."""
    fleet = conrl.Fleet(
        [(machine(), 5), (machine(), 2)], limits={"repairs": 6.0, "energy": 90.0}, per_step={"repairs": 4}
    )
    return fleet, conrl.plan(fleet)


@door("fleet-simulation", 3)
def fleet_simulation(r: random.Random, folder: Path) -> None:
    """Fleets of groups that are none, looked at where they never are, and played with plans of others."""
    fleet, plan = _fleet()
    groups: Any = r.choice(
        (
            *([(machine(), odd_number(r))], [(odd_number(r), 2)], [machine()], odd_number(r), []),
            *([(machine(), 2), (conrl.envs.box(), 1)], [(machine(conrl.Discounted(0.9)), 2)], [(machine(), 2)]),
        )
    )
    limits = r.choice(
        ({"repairs": 2.0}, {"repairs": odd_number(r)}, odd_number(r), {odd(r): 1.0}, [3.0, odd_number(r)])
    )
    per_step = r.choice(
        (None, {"repairs": odd_number(r)}, {"energy": [1.0, odd_number(r)]}, odd_number(r), {odd(r): 1})
    )
    states = r.choice(([0, 1, 2, 0, 1, 2, 0], [0] * 6, [9] * 7, [odd_number(r)] * 7, odd_number(r)))
    spent = r.choice((None, {"repairs": 2.0}, [1.0, 2.0], {"repairs": odd_number(r)}, odd_number(r), [1e300, 0.0]))
    step = r.choice((0, 3, 5, 6, odd_number(r)))

    def made() -> None:
        conrl.plan(conrl.Fleet(groups, limits=limits, per_step=per_step))

    def later() -> None:
        now = fleet.at(states, step, spent=spent)
        now.simulate(conrl.plan(now), runs=2)

    def simulated() -> None:
        other = r.choice((plan, plan, odd_number(r), conrl.plan(machine()), conrl.plan(machine()).policy))
        guard = r.choice((True, True, False, odd_number(r)))
        runs = r.choice((3, 3, odd_count(r)))
        seed, threads = r.choice((0, odd_number(r))), r.choice((None, 1, 2, odd_count(r)))
        found = fleet.simulate(other, runs=runs, seed=seed, guard=guard, threads=threads)
        if guard is True and (found.costs > fleet.limits).any():
            raise Broken(f"the guard let {found.costs.max(axis=0)} be spent of {fleet.limits}")

    call(r.choice((made, later, simulated)))

"""Studies, runs and saved learners."""

from __future__ import annotations

import io
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import conrl
from conrl.experiments import load, parse_spec
from conrl.learners.saving import write_sealed
from fuzzing.doors import call, command, door
from fuzzing.spoiling import flipped, mutate

SPEC = """name = "study"
episodes = 3
seeds = 2
[environment.box]
limits = { corner = 0.1 }
[environment.mars-rover]
set = { rock_reward = 1.0 }
[algorithm.conrl]
options = { bonus = [0.02, -0.01] }
[algorithm.ucbvi]
environments = ["box"]
[algorithm.vi]
learner = "conrl"
preset = "authors"
[algorithm.vi.on.box.options]
planner = { name = "lagrangian", step = 10.0 }
[tune]
algorithm = "conrl"
environment = "box"
[tune.parameters]
"bonus.reward" = [0.1, 0.2]
"""


@door("spec", 2)
def spec_file(r: random.Random, folder: Path) -> None:
    data = mutate(SPEC, r)
    path = folder / "s.toml"
    path.write_bytes(data)
    if r.random() < 0.5:
        call(lambda: parse_spec(data.decode("utf-8", "replace")))
    else:
        call(lambda: conrl.experiments.load_spec(path))


def _checkpoint(safe: bool) -> bytes:
    box = conrl.envs.box()
    learner: Any = conrl.ConRL(box.task, keep_policies=True)
    if safe:
        plan = conrl.plan(box, [0.05])
        learner = conrl.SafeConRL(box.task, safe=plan.policy, safe_costs=[0.06], replan="doubling")
    conrl.learn(box, learner, 3, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        learner.save(Path(folder) / "l.npz")
        return (Path(folder) / "l.npz").read_bytes()


_KEPT: dict[str, Any] = {}


def _write(path: Path, arrays: dict[str, Any]) -> None:
    np.savez(path, **arrays)


@door("checkpoint", 2)
def checkpoint(r: random.Random, folder: Path) -> None:
    """A learner's file with bits flipped, arrays replaced or left out."""
    safe = r.random() < 0.5
    kept = f"checkpoint {safe}"
    if kept not in _KEPT:
        _KEPT[kept] = _checkpoint(safe)
    path = folder / "l.npz"
    if r.random() < 0.5:
        path.write_bytes(bytes(flipped(_KEPT[kept], r)))
    else:
        with np.load(io.BytesIO(_KEPT[kept])) as file:
            given = dict(file)
        resealed = r.random() < 0.7  # what lies behind the seal is to be tried too
        if resealed:
            del given["seal"]
        name = r.choice(list(given))
        kind = r.randrange(4)
        if kind == 0:
            del given[name]
        elif kind == 1:
            given[name] = np.asarray(r.choice((0, -1, np.nan, 1e300, "text", 2**40)))
        elif kind == 2 and given[name].ndim:
            given[name] = given[name][:-1]
        elif given[name].dtype.kind == "U":
            given[name] = np.array(mutate(str(given[name]), r).decode("utf-8", "replace"))
        (write_sealed if resealed else _write)(path, given)

    def work() -> None:
        again = conrl.load_learner(path)
        conrl.learn(conrl.envs.box(), again, 1, seed=0)

    call(work)


@cache
def run_files() -> dict[str, bytes]:
    """The files of a sound run of two episodes."""
    with tempfile.TemporaryDirectory() as made:
        command("learn", "box", "--episodes", 2, "--out", made)
        where = Path(made) / "box" / "conrl" / "seed-000"
        return {path.name: path.read_bytes() for path in where.iterdir()}


@door("run-directory", 2)
def run_directory(r: random.Random, folder: Path) -> None:
    """A run's files damaged between two starts; and the study that reads them."""
    where = folder / "box" / "conrl" / "seed-000"
    where.mkdir(parents=True)
    hit = r.choice(("config.json", "checkpoint.npz", "progress.csv"))
    for name, data in run_files().items():
        if name == hit:
            if r.random() < 0.1:
                continue
            data = mutate(data.decode(), r) if hit != "checkpoint.npz" else bytes(flipped(data, r))
        (where / name).write_bytes(data)
    if r.random() < 0.5:
        command("learn", "box", "--episodes", 3, "--out", folder)
    else:
        call(lambda: load(folder).summary())

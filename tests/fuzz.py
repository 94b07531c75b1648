"""Hostile and clumsy input at every door: `python tests/fuzz.py --cases 20000` (`make fuzz`).

Each case makes some input from its own seed, gives it to a door in this process, and must end in success or in one line
for each mistake, with the documented exit code (0, 2, 3 or 4) or a `ConRLError`. No other exception, no traceback,
nothing half-written, no case longer than `SECONDS`, and no memory beyond `MEMORY` on top of what the process had.
Archives never make objects: a pickle among the cases would leave a file behind. `--door NAME --case N` repeats one.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import pickle
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from click.testing import CliRunner
from launch import limited
from numpy.lib import format as npy

import conrl
from conrl.cli.main import main as cli
from conrl.experiments import load, parse_spec
from conrl.learners.saving import write_sealed

SECONDS = 60  # of work
MEMORY = 1 << 30
CODES = (0, 2, 3, 4)

MACHINE = """state,action,next_state,probability,reward,cost_repairs,cost_energy
new,run fast,new,0.7,10,0,3
new,run fast,worn,0.3,10,0,3
new,run slow,new,1,6,0,1
worn,run fast,broken,1,9,0,4
worn,repair,new,1,0,1,0
broken,repair,new,1,-5,1,0
"""
LOG = """episode,step,state,action,reward,cost_fuel,next_state
1,0,0,0,1,1,1
1,1,1,1,0,0,1
2,0,0,0,0,1,0
2,1,0,0,1,1,1
"""
POLICY = """step,state,action,probability
0,0,0,0.5
0,0,1,0.5
0,1,1,1
1,0,0,1
1,1,1,1
"""
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
ODD = (
    *("", " ", "nan", "inf", "-inf", "1e400", "-1", "0", "1e-320", "1e308", "0.30000000000000004", "٣", "½"),
    *("\x00", "\ufeff", "'", '"', ",", "\n", "\r\n", "../../etc/passwd", "%s%n", "=1+1", "<script>", "x" * 5000),
    *("true", "null", "[]", "{}", "0x10", "1_000", "é", "\U0001f600", "9" * 400, "-0.0", "e\u0301", "\ud800"),
    *("1e1000000000", "9" * 5000, "[" * 2000, "a." * 80, "=cmd|'/c calc'!A0", "'=x", "+1-1", "@", "\t"),
)


class Broken(AssertionError):
    """A case that did not end as it must."""


class Bomb:
    """Unpickled, it would leave a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def odd(r: random.Random) -> str:
    return r.choice(ODD)


def odd_number(r: random.Random) -> Any:
    return r.choice(
        (
            *(0, 1, -1, 0.5, 1e308, -1e308, 1e-320, np.nan, np.inf, -np.inf, 10**30, 2**63, True, None, "x", [], 3),
            *(10**400, 10**5000, np.bool_(True), np.ma.array([1.0], mask=[True]), "1e1000000000", b"x"),
        )
    )


TIMES: tuple[Any, ...] = (0.05, 0, -1, np.nan, "x", [], True)  # never long


def odd_flag(r: random.Random) -> Any:
    return r.choice((True, odd(r)))


def odd_count(r: random.Random) -> Any:
    return r.choice((0, -1, "x", None, 2))


def mutate(text: str, r: random.Random) -> bytes:
    """A few changes to a text: cells, lines, bytes."""
    data = text
    for _ in range(r.randint(1, 4)):
        lines = data.split("\n")
        at = r.randrange(len(lines))
        kind = r.randrange(8)
        if kind == 0:
            lines[at] = odd(r)
        elif kind == 1:
            lines.insert(at, lines[r.randrange(len(lines))])
        elif kind == 2:
            del lines[at]
        elif kind in (3, 4, 5):
            sign = r.choice((",", "=", " ", "."))
            cells = lines[at].split(sign)
            cells[r.randrange(len(cells))] = odd(r)
            lines[at] = sign.join(cells)
        elif kind == 6:
            lines = lines[: at + 1]
        else:
            lines[at] = lines[at][: r.randint(0, len(lines[at]))]
        data = "\n".join(lines)
    found = bytearray(data.encode("utf-8", "surrogatepass"))
    if r.random() < 0.2:
        found = flipped(bytes(found), r)
    return bytes(found)


def flipped(data: bytes, r: random.Random) -> bytearray:
    found = bytearray(data)
    for _ in range(r.randint(1, 8)):
        if not found:
            break
        at = r.randrange(len(found))
        kind = r.randrange(4)
        if kind == 0:
            found[at] = r.randrange(256)
        elif kind == 1:
            del found[at : at + r.randint(1, 50)]
        elif kind == 2:
            found[at:at] = bytes(r.randrange(256) for _ in range(r.randint(1, 20)))
        else:
            found[at] ^= 1 << r.randrange(8)
    return found


# -- how a case must end ----------------------------------------------------------------------------------


def command(*words: Any) -> None:
    """Run the command line here; anything but a documented end is broken."""
    done = CliRunner().invoke(cli, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise Broken("".join(traceback.format_exception(done.exception)))
    if done.exit_code not in CODES:
        raise Broken(f"exit code {done.exit_code}: {done.stderr}")
    if done.exit_code:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        if not lines or "Traceback" in done.stderr or any(len(line) > 20_000 for line in lines):
            raise Broken(f"exit code {done.exit_code} with {done.stderr[:2000]!r}")
        if done.exit_code in (2, 3) and not all(line.startswith("Error: ") for line in lines):
            raise Broken(f"more than its line: {done.stderr[:2000]!r}")


def call(work: Callable[[], Any], *allowed: type[BaseException]) -> None:
    """Call the library; a `ConRLError` is a good end, and an error of the user's own function too."""
    good: tuple[type[BaseException], ...] = (conrl.ConRLError, *allowed)
    try:
        work()
    except good as error:
        if not str(error).strip():
            raise Broken(f"an error without words: {error!r}") from error


# -- the doors --------------------------------------------------------------------------------------------


def model_csv(r: random.Random, folder: Path) -> None:
    text = MACHINE
    if r.random() < 0.4:  # by step
        lines = MACHINE.strip().split("\n")
        text = "\n".join(
            ["step," + lines[0], *(f"{r.choice(('*', '*', '0-4', '3', '0-2', odd(r)))},{x}" for x in lines[1:])]
        )
    if r.random() < 0.4:  # as others write it
        text = text.replace(",", ";").replace(".", ",")
    (folder / "m.csv").write_bytes(mutate(text, r))
    if r.random() < 0.3:
        command("check", folder / "m.csv", *r.choice(((), ("--json",), ("--normalize", 0.3), ("--start", odd(r)))))
        return
    words = ["--horizon", r.choice((1, 5, 20, 0, -1, "x", 10**12))] if r.random() < 0.9 else []
    for name in ("repairs", "energy"):
        if r.random() < 0.5:
            words += ["--limit", f"{name}={r.choice((0, 1, 2.5, -3, 'nan', 'inf', 1e300, odd(r)))}"]
    command("plan", folder / "m.csv", *words)


ROBOT = """@type: MDP
@value_type: rational
@parameters

@reward_models
gain fuel
@nr_states
2
@nr_choices
3
@model
state 0 [0, 0] init
//[x=0]
	action work [2, 1/3]
		0 : 2/3
		1 : 1/3
	action rest [0, 0]
		0 : 1
state 1 [0, 1/2] failed "no fuel"
//[x=1]
	action repair [0, 1]
		0 : 1
"""


def model_drn(r: random.Random, folder: Path) -> None:
    (folder / "m.drn").write_bytes(mutate(ROBOT, r))
    words = ["--horizon", r.choice((1, 5, 20, 0, -1, "x", 10**12))] if r.random() < 0.9 else []
    words += ["--set", f"reward={r.choice(('gain', '-fuel', 'gian', odd(r)))}"] if r.random() < 0.9 else []
    words += ["--start", r.choice(("0", "x=1", odd(r)))] if r.random() < 0.2 else []
    command("plan", folder / "m.drn", *words)


def arrays(r: random.Random) -> dict[str, Any]:
    """Something like the arrays of a model."""
    g = np.random.default_rng(r.randrange(2**32))
    S, A, d = r.randint(1, 4), r.randint(1, 3), r.randint(0, 2)
    made: dict[str, Any] = {
        "transitions": g.dirichlet(np.ones(S), (S, A)),
        "rewards": g.random((S, A)),
        "costs": g.random((S, A, d)),
        "horizon": r.choice((1, 3, 10)),
    }
    for name in ("transitions", "rewards", "costs"):
        if r.random() < 0.15:  # by step, as many as there are or not
            steps = r.choice((made["horizon"], made["horizon"], 2))
            made[name] = np.repeat(made[name][None], steps, axis=0)
    for _ in range(r.randint(0, 2)):
        name = r.choice((*made, "limits", "initial", "available", "state_names", "nonsense"))
        kind = r.randrange(7)
        value = made.get(name)
        if kind == 0:
            made[name] = odd_number(r)
        elif kind == 1 and isinstance(value, np.ndarray) and value.size:
            value = value.copy()
            value.flat[r.randrange(value.size)] = r.choice((np.nan, np.inf, -1.0, 2.0, 1e300, 1e-300))
            made[name] = value
        elif kind == 2 and isinstance(value, np.ndarray):
            made[name] = value[..., :-1] if value.ndim else value
        elif kind == 3 and isinstance(value, np.ndarray):
            made[name] = value.astype(r.choice((np.int8, np.complex128, "U5", bool, np.float16)))
        elif kind == 4:
            made[name] = np.zeros((0,) * r.randint(0, 4))
        elif kind == 5:
            made[name] = g.random(r.randint(0, 5))
        else:
            made.pop(name, None)
    return made


def model_arrays(r: random.Random, folder: Path) -> None:
    given = arrays(r)

    def work() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = conrl.ConstrainedMDP(**given)
        plan = conrl.plan(made)
        if plan.gap > 1e-6 * max(1.0, abs(plan.objective)):
            raise Broken(f"gap {plan.gap} of {plan.objective}")

    call(work, TypeError)  # a name that is no argument is Python's own error


def model_npz(r: random.Random, folder: Path) -> None:
    path, trap = folder / "m.npz", folder / "trap"
    given = {name: value for name, value in arrays(r).items() if value is not None}
    if r.random() < 0.1:
        given["rewards"] = np.array([Bomb(trap)], dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            np.savez(path, **given)
        except (TypeError, ValueError):
            return
    if r.random() < 0.6:
        path.write_bytes(bytes(flipped(path.read_bytes(), r)))
    elif r.random() < 0.1:
        with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the name is there already
            archive.writestr("rewards.npy", pickle.dumps(Bomb(trap)))
    command("plan", path)
    if trap.exists():
        raise Broken("a file ran code")


def zeros(shape: tuple[int, ...], dtype: str) -> bytes:
    """A member of an archive that shrinks a thousandfold."""
    head = io.BytesIO()
    npy.write_array_header_1_0(head, {"descr": dtype, "fortran_order": False, "shape": shape})
    return head.getvalue() + bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize)


def archive_bomb(r: random.Random, folder: Path) -> None:
    """Archives that claim or hold too much, or hold it under odd names, at each reader."""
    path = folder / "x.npz"
    names = ("transitions", "rewards", "state", "actions", "probabilities", "config", "../../x", "/etc/x", "a" * 500)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a name is there already
        for _ in range(r.randint(1, 4)):
            size = r.choice((0, 1, 1000, 5_000_000, 30_000_000))
            shape = r.choice(((size,), (size, 1, 1), (1, size), ()))
            member = zeros(shape, r.choice(("|i1", "|b1", "<f2", "<U1", "|S1") if size > 10**6 else ("<f8", "<U3")))
            if r.random() < 0.3:
                member = bytes(flipped(member[:200], r)) + member[200:]
            archive.writestr(f"{r.choice(names)}.npy", member)
    reader = r.choice((conrl.load_model, conrl.load_policy, conrl.load_episodes, conrl.load_learner))
    call(lambda: reader(path))


def sizes(r: random.Random, folder: Path) -> None:
    """Counts that make no sense, at every door that takes one."""
    count: Any = r.choice((0, -1, 10**8, 2 * 10**9, 2**40, 10**30, 10**5000, 1.5, "x", None))
    number = count if isinstance(count, int) and count < 10**400 else 10**9
    outcome: tuple[Any, ...] = ([0], [0], [0], [1.0], [[1.0]])
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: conrl.ConstrainedMDP.from_outcomes(*outcome, num_states=count, num_actions=1, horizon=1),
        lambda: conrl.ConstrainedMDP.from_outcomes(*outcome, num_states=1, num_actions=count, horizon=1),
        lambda: conrl.ConstrainedMDP.from_outcomes(*outcome, num_states=1, num_actions=1, horizon=count),
        lambda: conrl.Task(count, 2, 3, [1.0], ["c"]),
        lambda: conrl.Task(2, count, 3, [1.0], ["c"]),
        lambda: conrl.Task(2, 2, count, [1.0], ["c"]),
        lambda: conrl.envs.box().replace(horizon=count),
        lambda: conrl.Deterministic([[0]], count),
        lambda: conrl.plan(conrl.envs.box(), conrl.Knapsack([1.0], count)),
        lambda: command("plan", r.choice(("box", "pricing", "random")), "--horizon", number),
    )
    call(r.choice(kinds))


def names(r: random.Random, folder: Path) -> None:
    """Names of any kind: refused, or the same after they were written and read."""
    few = "'=+-@\t\r\n\0 ,;\"a1é\u0301\ud800\ufeff"
    texts = ["".join(r.choice(few) for _ in range(r.randint(0, 4))) for _ in range(3)]

    def work() -> None:
        stay = np.full((2, 1, 2), 0.5)
        made = conrl.ConstrainedMDP(
            stay, [[1.0], [2.0]], [[[1.0]], [[0.0]]], 2, state_names=texts[:2], action_names=texts[2:], cost_names=["c"]
        )
        path = folder / r.choice(("m.csv", "m.npz", "m.tsv", "m.xlsx"))
        conrl.save_model(path, made)
        again = conrl.load_model(path, horizon=2)
        if (again.state_names, again.action_names) != (made.state_names, made.action_names):
            raise Broken(f"{texts} became {again.state_names, again.action_names}")
        conrl.plan(made).policy.save(folder / "p.csv", made)

    call(work)


def odd_files(r: random.Random, folder: Path) -> None:
    """Pipes, devices, directories, links to nothing and empty files, where a file is asked for."""
    path = folder / f"x{r.choice(('.csv', '.npz', '.toml', '.xlsx'))}"
    put: tuple[Callable[[], Any], ...] = (
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("/dev/tty"),
        lambda: path.symlink_to(path),
        lambda: path.symlink_to(folder / "nothing"),
        path.mkdir,
        path.touch,
    )
    r.choice(put)()
    if r.random() < 0.5:
        readers: tuple[Callable[[Any], Any], ...] = (
            lambda x: conrl.load_model(x, horizon=1),
            conrl.load_policy,
            conrl.load_episodes,
            conrl.load_learner,
            conrl.experiments.load_spec,
            conrl.estimate,
        )
        reader = r.choice(readers)
        call(lambda: reader(path))
    else:
        words = (("plan", path, "--horizon", 2), ("run", path), ("tune", path), ("report", path))
        command(*r.choice((*words, ("learn", "box", "--episodes", 1, "--prime", path))))


def log_file(r: random.Random, folder: Path) -> None:
    (folder / "log.csv").write_bytes(mutate(LOG, r))
    if r.random() < 0.5:
        call(lambda: conrl.plan(conrl.estimate(folder / "log.csv")))
    else:
        command("learn", "box", "--episodes", 2, "--prime", folder / "log.csv")


def trusted_log(r: random.Random, folder: Path) -> None:
    """Plans with confidence and assessments: a log of some episodes, and a policy, one of them spoilt."""
    rows = []
    for episode in range(9):
        way = [r.randrange(2) for _ in range(3)]
        for t, (state, after) in enumerate(itertools.pairwise(way)):
            rows.append(f"{episode},{t},{state},{r.randrange(2)},{r.random():.2f},{r.randrange(2)},{after}")
    log = "\n".join([LOG.split("\n")[0], *rows, ""])
    spoilt = r.choice(("log", "policy", "neither"))
    (folder / "log.csv").write_bytes(mutate(log, r) if spoilt == "log" else log.encode())
    (folder / "policy.csv").write_bytes(mutate(POLICY, r) if spoilt == "policy" else POLICY.encode())
    words: list[Any] = []
    if r.random() < 0.8:
        words += [r.choice(("--limit", "--floor")), f"fuel={r.choice((0, 1, 1.5, 'inf', odd(r)))}"]
    if r.random() < 0.3:
        words += ["--column", f"{r.choice(('state', 'reward', 'cost_fuel', odd(r)))}={r.choice(('step', odd(r)))}"]
    if r.random() < 0.2:
        words += ["--ignore", r.choice(("step", "*", odd(r)))]
    if r.random() < 0.5:
        level = r.choice(((), ("--level", r.choice((0.5, odd(r)))), ("--draws", r.choice((2, 0, odd(r))))))
        command("assess", folder / "policy.csv", folder / "log.csv", *words, *level)
    else:
        words += ["--confidence", r.choice((0.5, 0.6, 0.9, 0.95, 0.999, 1, odd(r)))]
        command("plan", "--log", folder / "log.csv", *words, *r.choice(((), ("--use-unseen",), ("--out", "p.csv"))))


def spec_file(r: random.Random, folder: Path) -> None:
    data = mutate(SPEC, r)
    path = folder / "s.toml"
    path.write_bytes(data)
    if r.random() < 0.5:
        call(lambda: parse_spec(data.decode("utf-8", "replace")))
    else:
        call(lambda: conrl.experiments.load_spec(path))


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


def fleet_file(r: random.Random, folder: Path) -> None:
    (folder / "machine.csv").write_text(MACHINE)
    (folder / "fleet.toml").write_bytes(mutate(FLEET, r))
    options: list[tuple[Any, ...]] = [(), ("--simulate", 2), ("--limit", f"energy={odd(r)}"), ("--json",)]
    command("plan", folder / "fleet.toml", *r.choice(options))


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


def run_directory(r: random.Random, folder: Path) -> None:
    """A run's files damaged between two starts; and the study that reads them."""
    if "run" not in _KEPT:
        with tempfile.TemporaryDirectory() as made:
            command("learn", "box", "--episodes", 2, "--out", made)
            where = Path(made) / "box" / "conrl" / "seed-000"
            _KEPT["run"] = {path.name: path.read_bytes() for path in where.iterdir()}
    where = folder / "box" / "conrl" / "seed-000"
    where.mkdir(parents=True)
    hit = r.choice(("config.json", "checkpoint.npz", "progress.csv"))
    for name, data in _KEPT["run"].items():
        if name == hit:
            if r.random() < 0.1:
                continue
            data = mutate(data.decode(), r) if hit != "checkpoint.npz" else bytes(flipped(data, r))
        (where / name).write_bytes(data)
    if r.random() < 0.5:
        command("learn", "box", "--episodes", 3, "--out", folder)
        if list(where.glob(".conrl-*.tmp")):
            raise Broken("a temporary file was left behind")
    else:
        call(lambda: load(folder).summary())


WORDS = {
    "plan": (
        "--limit",
        "--floor",
        "--horizon",
        "--set",
        "--start",
        "--tol",
        "--budget",
        "--episodes",
        "--epsilon",
        "--never",
        "--chance",
        "--cvar",
        "--grid",
        "--deterministic",
        "--time-limit",
        "--json",
    ),
    "frontier": ("--limit", "--cost", "--chance", "--max-vertices", "--horizon", "--set", "--tol", "--json"),
    "learn": (
        "--algorithm",
        "--episodes",
        "--seed",
        "--set",
        "--limit",
        "--budget",
        "--bonus",
        "--option",
        "--preset",
        "--pay",
    ),
    "envs": ("--json", "--nonsense"),
    "algorithms": ("--json", "x"),
    "run": ("--out", "--workers", "--dask"),
    "report": ("--out", "--csv", "--long", "--profiles", "--json"),
    "tune": ("--out", "--workers"),
    "reproduce": ("--quick", "--out"),
}
VALUES = {
    "--algorithm": ("conrl", "ucbvi", "optcmdp", "opt-primal-dual", "posterior-sampling", "cnrl"),
    "--episodes": ("1", "2", "0", "-1", "x"),
    "--set": ("rock_reward=1", "slip=0.5", "slip=2", "horizon=3", "nonsense=1", "slip=null", "rock_reward=[1]"),
    "--limit": ("crash=0.3", "corner=0.1", "crash=-1", "crash=nan", "crash=inf", "x=1", "crash", "=1"),
    "--never": ("crash=1", "corner=0", "crash=nan", "crash=inf", "x=1"),
    "--chance": (
        "crash>0:0.1",
        "corner>0:2",
        "stock>3:0.1",
        "crash>0",
        "crash:0.1",
        "crash>nan:0.1",
        "crash>1:x",
        ">:",
    ),
    "--cvar": ("crash@0.9:1", "stock@1:2", "stock@0.5:4", "crash@x:1", "crash@0.5", "@:"),
    "--grid": ("crash=0.01", "crash=0", "stock=0.3", "x=1", "crash=1e-300"),
    "--bonus": ("0.1,0.1", "theory", "theory:0.1", "bernstein", "bernstein:0.1", "much", "1,2,3,4", "nan,nan", "-1,-1"),
    "--option": ("scale=0.1", "scale=-1", "keep_policies=true", "seed=3", 'planner={"name":"lagrangian"}', "x={}"),
    "--horizon": ("1", "3", "0", "100000000000"),
    "--workers": ("0", "-1", "x"),
    "--time-limit": ("0.1", "0", "-1", "nan", "x"),
    "--dask": ("nowhere",),
}


def arguments(r: random.Random, folder: Path) -> None:
    name = r.choice(list(WORDS))
    words: list[str] = [name]
    if name in ("plan", "frontier", "learn"):
        words.append(
            r.choice(("box", "mars-rover", "pricing", "bxo", "gymnasium:FrozenLake-v1", "gymnasium:No-v0", odd(r)))
        )
    elif name in ("run", "report", "tune", "reproduce"):
        words.append(r.choice(("nothing.toml", str(folder), "figur1", odd(r))))
    if name == "learn":
        words += ["--episodes", "2"]
    for _ in range(r.randint(0, 3)):
        option = r.choice(WORDS[name])
        words.append(option)
        if option == "--deterministic":
            words += ["--time-limit", "0.1"]
        elif option not in ("--json", "--quick", "x", "--nonsense"):
            value = r.choice(VALUES.get(option, ("1", "0", "x"))) if r.random() < 0.7 else odd(r)
            words.append(str(folder / "out") if option in ("--out", "--csv", "--long") else value)
    if name == "reproduce" and words[1] in ("figure1", "figure2", "dope"):
        return
    command(*[word.replace("\x00", "") for word in words])


class Misbehaving(gym.Env[Any, Any]):
    """An environment that breaks the protocol in one place."""

    def __init__(self, r: random.Random) -> None:
        self.observation_space = r.choice(
            (gym.spaces.Discrete(3), gym.spaces.Discrete(3, start=2), gym.spaces.Box(0, 1))
        )
        self.action_space = r.choice((gym.spaces.Discrete(2), gym.spaces.Discrete(2), gym.spaces.MultiDiscrete([2, 2])))
        self.fault = r.randrange(14)
        self.odd = odd_number(r)
        self.when = r.randint(0, 4)
        self.steps = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.steps = 0
        return {0: 7, 1: None, 2: (0,), 3: self.odd}.get(self.fault, 0) if self.fault != 4 else (0, {}, 1), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps < self.when:
            return 1, 0.0, False, False, {"costs": [0.0]}
        answers: dict[int, Any] = {
            5: (99, 0.0, False, False, {"costs": [0.0]}),
            6: (1, self.odd, False, False, {"costs": [0.0]}),
            7: (1, 0.0, False, False, {"costs": [self.odd]}),
            8: (1, 0.0, False, False, {"costs": [0.0, 0.0]}),
            9: (1, 0.0, False, False, {}),
            10: (1, 0.0, False),
            11: (1, 0.0, self.odd, False, {"costs": [0.0]}),
            12: (1, 0.0, False, False, self.odd),
            13: (1, 0.0, True, True, {"costs": "x"}),
        }
        if self.fault in answers:
            return answers[self.fault]
        raise RuntimeError("the simulator broke")


def environment(r: random.Random, folder: Path) -> None:
    env = Misbehaving(r)

    def work() -> None:
        task = conrl.Task.from_gymnasium(env, horizon=5, limits=[1.0], cost_names=["c"])
        conrl.learn(env, conrl.ConRL(task), 2, seed=0)

    call(work, RuntimeError)


def functions(r: random.Random, folder: Path) -> None:
    """Functions of the user's own that raise or answer nonsense."""
    box = conrl.envs.box()
    answer: Any = r.choice((np.nan, "x", None, [], np.zeros(3), -1.0, 1e308, RuntimeError("mine")))

    def function(*given: Any, **named: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def work() -> None:
        kind = r.randrange(4)
        if kind == 0:
            conrl.learn(box, conrl.ConRL(box.task, bonus=function), 2, seed=0)
        elif kind == 1:
            conrl.learn(box, conrl.ConRL(box.task), 2, seed=0, pay=function)
        elif kind == 2:
            conrl.plan(box, conrl.ConcaveConvex(objective=function))
        else:
            conrl.plan(box, conrl.ConcaveConvex(objective=lambda x: x, constraint=function))

    call(work, RuntimeError)


class FewSteps(NamedTuple):
    log: conrl.Log
    policy: conrl.Policy


@cache
def _few_steps() -> FewSteps:
    """A log of a few short episodes, and what wrote it."""
    world = conrl.envs.make("inventory")
    table = np.repeat((world.available / world.available.sum(axis=1, keepdims=True))[None], world.horizon, axis=0)
    policy = conrl.Policy(table)
    return FewSteps(conrl.sample_log(world, policy, 20, 0), policy)


def numbers(r: random.Random, folder: Path) -> None:
    """Tasks, problems and parameters that make no sense."""
    box = conrl.envs.box()
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: conrl.plan(box, conrl.Linear([odd_number(r)])),
        lambda: conrl.plan(box, conrl.Linear([0.5], floors=[odd_number(r)])),
        lambda: conrl.plan(box, conrl.Knapsack([odd_number(r)], episodes=odd_number(r))),
        lambda: conrl.plan(box, tol=odd_number(r)),
        lambda: conrl.plan(box, tol=odd_number(r), deterministic=odd_flag(r), time_limit=r.choice(TIMES)),
        lambda: conrl.frontier(box, cost=odd_number(r)),
        lambda: conrl.plan(box, conrl.Linear(never={"corner": odd_number(r)})),
        lambda: conrl.plan(box, conrl.Linear(chance={"corner": (odd_number(r), odd_number(r))})),
        lambda: conrl.plan(box, conrl.Linear(cvar={"corner": (odd_number(r), odd_number(r))}, grid=odd_number(r))),
        lambda: conrl.frontier(box, chance={"corner": odd_number(r)}),
        lambda: conrl.distribution(box, conrl.plan(box), odd_number(r)).exceed(odd_number(r)),
        lambda: conrl.ScaledBonus(odd_number(r), odd_number(r)),
        lambda: conrl.Lagrangian(odd_number(r), odd_number(r)),
        lambda: conrl.learn(box, conrl.ConRL(box.task), odd_count(r), seed=odd_number(r)),
        lambda: conrl.Task(odd_number(r), 2, 3, [1.0], ["c"]),
        lambda: conrl.plan(box.replace(horizon=conrl.Discounted(odd_number(r)))),
        lambda: conrl.plan(
            box.replace(horizon=r.choice((conrl.Average(), conrl.Total(), conrl.Discounted(0.9)))), [odd_number(r)]
        ),
        lambda: conrl.evaluate(box.replace(horizon=conrl.Average()), conrl.Stationary([[odd_number(r)] * 4] * 121)),
        lambda: command(
            "plan", "box", r.choice(("--discount", "--horizon")), odd(r), *r.choice(((), ("--average",), ("--total",)))
        ),
        lambda: conrl.simulate(box, conrl.plan(box), episodes=odd_count(r), seed=odd_number(r)),
        lambda: conrl.assess(_few_steps().policy, _few_steps().log, [odd_number(r)], level=odd_number(r)),
        lambda: conrl.assess(_few_steps().policy, _few_steps().log, draws=odd_count(r), seed=odd_number(r)),
        lambda: conrl.plan(conrl.estimate(_few_steps().log), [odd_number(r)], confidence=odd_number(r)),
        lambda: conrl.plan(
            conrl.estimate(_few_steps().log), [1.0], confidence=0.5, use_unseen=odd_flag(r), seed=odd_number(r)
        ),
        lambda: _few_steps().log.split(odd_number(r), odd_number(r)),
        lambda: conrl.sample_log(box, conrl.plan(box), odd_count(r), odd_number(r)),
        lambda: conrl.Episode([0, odd_number(r)], [0], [odd_number(r)], [[odd_number(r)]]),
    )
    call(r.choice(kinds), TypeError)


DOORS: dict[str, tuple[int, Callable[[random.Random, Path], None]]] = {
    "model-csv": (4, model_csv),
    "model-drn": (3, model_drn),
    "model-arrays": (3, model_arrays),
    "model-npz": (3, model_npz),
    "archive-bomb": (1, archive_bomb),
    "sizes": (2, sizes),
    "names": (3, names),
    "odd-files": (1, odd_files),
    "log": (2, log_file),
    "trusted-log": (2, trusted_log),
    "spec": (2, spec_file),
    "fleet-file": (2, fleet_file),
    "fleet-arrays": (2, fleet_arrays),
    "checkpoint": (2, checkpoint),
    "run-directory": (2, run_directory),
    "arguments": (2, arguments),
    "environment": (2, environment),
    "functions": (1, functions),
    "numbers": (2, numbers),
}


# -- all of them ------------------------------------------------------------------------------------------


def attempt(door: str, case: int) -> str | None:
    """One case; what is wrong with how it ended, or None."""
    r = random.Random(f"{door} {case}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    try:
        folders = tempfile.TemporaryDirectory(prefix="conrl-fuzz-")
        with limited(SECONDS), folders as folder, contextlib.chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # of numpy, about numbers that nobody checked
            DOORS[door][1](r, Path(folder))
    except Broken as error:
        return str(error)
    except BaseException:
        return traceback.format_exc()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return f"took {grown:,} bytes" if grown > MEMORY else None


def cases(count: int) -> list[tuple[str, int]]:
    """So many cases, each door its share."""
    total = sum(weight for weight, _ in DOORS.values())
    return [(door, i) for door, (weight, _) in DOORS.items() for i in range(-(-count * weight // total))]


def main() -> int:
    parser = argparse.ArgumentParser(description="Give hostile input to every door.")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--door", choices=list(DOORS))
    parser.add_argument("--case", type=int, help="this one only")
    options = parser.parse_args()
    todo = [(d, c) for d, c in cases(options.cases) if options.door in (None, d)]
    if options.case is not None:
        todo = [(options.door, options.case)]
    begun, found = time.monotonic(), Counter[str]()
    wrong = []
    for done, (door, case) in enumerate(todo, start=1):
        problem = attempt(door, case)
        found[door] += 1
        if problem is not None:
            wrong.append((door, case))
            sys.stderr.write(f"--door {door} --case {case}\n{problem}\n\n")
        if done % 1000 == 0:
            sys.stderr.write(f"{done} of {len(todo)}, {len(wrong)} broken, {time.monotonic() - begun:.0f} s\n")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(
        json.dumps({"cases": dict(found), "broken": len(wrong), "first": wrong[:10], "peak MiB": round(most)}) + "\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())

"""Policies in files, for running systems: JSON, arrays and tables."""

from __future__ import annotations

import io
import json
import math
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import conrl
from fuzzing.doors import Broken, call, command, door
from fuzzing.spoiling import MACHINE, flipped, mutate, odd, odd_number

KINDS = ("lottery", "spent", "mixture", "stationary", "one")


@cache
def machine(horizon: Any = 6) -> conrl.ConstrainedMDP:
    """The model of the table, whose names the policies have."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.csv"
        path.write_text(MACHINE)
        return conrl.load_model(path, horizon=horizon, limits={"repairs": 1.0, "energy": 12.0})


@cache
def plan_of(kind: str) -> conrl.Plan:
    """A plan of each kind that a file can hold."""
    if kind == "spent":
        return conrl.plan(machine(), conrl.Linear(chance={"repairs": (1.0, 0.2)}))
    if kind == "mixture":
        return conrl.plan(machine(), conrl.Knapsack([0.5, 9.0], 5))
    if kind == "stationary":
        return conrl.plan(machine(conrl.Discounted(0.9)), [0.5, 20.0])
    return conrl.plan(machine(), [0.3, 12.0] if kind == "lottery" else [5.0, 100.0])


@cache
def saved(kind: str, suffix: str) -> bytes:
    """Its file."""
    plan = plan_of(kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"p{suffix}"
        if suffix == ".json":
            plan.save(path)
        elif suffix == ".csv":
            plan.policy.save(path, plan.mdp)
        else:
            plan.policy.save(path)
        return path.read_bytes()


@cache
def log() -> conrl.Log:
    """What the machine did under its policy."""
    return conrl.sample_log(machine(), plan_of("lottery"), 12, 0)


def kept_policy(r: random.Random) -> str:
    """The text of a sound JSON policy."""
    return saved(r.choice(KINDS), ".json").decode()


TOKENS = (
    "1e400",
    "-1e400",
    "NaN",
    "-Infinity",
    "1" * 5000,
    "-0",
    "1E-999",
    '"\\ud800"',
    '"\\u0000"',
    "[" * 3000,
    "}",
    "01",
)
PLAIN: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.5, 1.5, -0.0, 1e308, 10**30, 2**63, "", "x", "new", [], {}, [0], [[0, 1.0]]),
    *(
        [[0, 0.5], [0, 0.5]],
        [[9, 1.0]],
        [[0, 2.0], [1, -1.0]],
        [[0, 0.999999]],
        {"": 0},
        [[[[]]]],
        "1/0",
        "1/3",
        "1e9999999",
    ),
)


def mutated_json(text: str, r: random.Random) -> str:
    """The same document with a few values, keys or tokens that are something else."""
    found = json.loads(text)
    marked = False
    for _ in range(r.choice((0, 1, 1, 1, 2, 3))):
        places = list(_places(found))
        if not places:
            break
        where, key = r.choice(places)
        kind = r.randrange(7)
        if r.random() < 0.5 and (other := _near(where[key], r)) is not None:
            where[key] = other
        elif kind == 0:
            del where[key]
        elif kind == 1 and isinstance(where, dict):
            where[r.choice((odd(r), key.upper(), "spent", "steps", "weight"))] = where.pop(key)
        elif kind == 2 and isinstance(where, list):
            where.insert(key, where[key])
        elif kind == 3:
            where[key] = where[key] if where[key] is where else r.choice(places)[0]
            if _loops(found):
                where[key] = 0
        elif kind == 4:
            where[key], marked = "@token@", True
        elif kind == 5:
            where[key] = odd(r)
        else:
            where[key] = r.choice(PLAIN)
    made = json.dumps(found)
    if marked:
        made = made.replace('"@token@"', r.choice(TOKENS))
    if r.random() < 0.05:  # a key twice
        made = made.replace("{", '{"steps": [[0]], "horizon": 3, ', 1)
    return made


def _near(value: Any, r: random.Random) -> Any:
    """Another value of the same kind, which may well make sense."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str):
        return r.choice(("new", "repair", "energy", "exact", "up", "down", "1/2", "1", value + " ", value.upper()))
    return r.choice((value + 1, value - 1, value * 2, value / 2, -value, value + 1e-12, value * (1 + 1e-9), 0, 1))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a document, as its container and its key; the nearer to the root, the likelier."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(found) < 400:
        here = waiting.pop(0)
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))[:50]
        found += [(here, key) for key in keys]
        waiting += [here[key] for key in keys if isinstance(here[key], (dict, list))]
    return found


def _loops(value: Any) -> bool:
    try:
        json.dumps(value)
    except (ValueError, RecursionError):
        return True
    return False


def act_words(r: random.Random) -> list[Any]:
    """Options of `conrl act`, most of them sound."""
    if r.random() < 0.2:
        return ["--begin", *r.choice(((), ("--seed", 1), ("--json",), ("--step", 0)))]
    step, state = r.choice((0, 1, 5)), r.choice(("new", "worn", "broken"))
    if r.random() < 0.2:
        step, state = r.choice((0, 6, 10**30, -1)), r.choice(("new", "0", odd(r)))
    words: list[Any] = ["--step", step, "--state", state]
    if r.random() < 0.4:
        words += ["--component", r.choice((0, 0, 1, 7, -1))]
    if r.random() < 0.4:
        words += [
            "--spent",
            f"{r.choice(('repairs', 'energy', odd(r)))}={r.choice((0, 1, 2.5, 'nan', 'inf', 1e300, odd(r)))}",
        ]
    return [*words, *r.choice(((), ("--seed", r.choice((0, "x", 10**30))), ("--json",)))]


def use(r: random.Random, path: Path) -> None:
    """Everything that reads a policy."""
    kind = r.randrange(7)
    if kind == 0:
        command("act", path, *act_words(r))
    elif kind in (1, 2):
        table = path.with_name("log.csv")
        conrl.save_episodes(table, log())
        options: tuple[tuple[str, ...], ...] = (
            (),
            (),
            ("--json",),
            ("--alpha", odd(r)),
            ("--range", f"energy={odd(r)}"),
            ("--range", "energy=0,99"),
        )
        if kind == 2:
            options = ((), (), ("--json",), ("--level", odd(r)), ("--limit", f"energy={odd(r)}"))
        words = r.choice(options)
        command("monitor" if kind == 1 else "assess", path, table, *words, *(("--draws", 4) if kind == 2 else ()))
    elif kind == 3:
        command("check", path, *r.choice(((), ("--json",), ("--as", "policy"))))
    elif kind == 4:
        call(lambda: _played(path, r))
    else:
        mdp = r.choice((None, machine(), machine(), machine(conrl.Discounted(0.9)), conrl.envs.box()))
        call(lambda: _evaluated(path, mdp))


def _played(path: Path, r: random.Random) -> None:
    """A file that is read gives lotteries, or says why not."""
    file = conrl.PolicyFile.load(path)
    generator = np.random.default_rng(0)
    component = file.begin(generator)
    spent = r.choice((None, {"repairs": 1.0}, {"repairs": odd_number(r)}, [odd_number(r)]))
    step = r.choice((0, 1, 5, odd_number(r)))
    state = r.choice((*file.state_names[:3], odd_number(r)))
    found = file.choices(step, state, component, spent)
    if not math.isclose(sum(found.values()), 1.0, abs_tol=1e-6) or min(found.values()) < 0.0:
        raise Broken(f"no lottery: {found}")
    if file.act(step, state, generator, component, spent) not in file.action_names:
        raise Broken("an action without a name")
    repr(file)
    file.to_frame()


def _evaluated(path: Path, mdp: conrl.ConstrainedMDP | None) -> None:
    policy = conrl.load_policy(path, mdp)
    if mdp is not None:
        found = conrl.evaluate(mdp, policy)
        if not np.isfinite([found.reward, *found.costs]).all():
            raise Broken(f"a policy that was read pays {found}")


@door("policy-json", 6)
def policy_json(r: random.Random, folder: Path) -> None:
    """What another program may have written: values of other kinds, entries left out, doubled or moved."""
    path = folder / "p.json"
    text = mutated_json(kept_policy(r), r) if r.random() < 0.9 else mutate(kept_policy(r), r).decode("utf-8", "replace")
    path.write_bytes(text.encode("utf-8", "replace"))
    use(r, path)


@door("policy-npz", 2)
def policy_npz(r: random.Random, folder: Path) -> None:
    """Arrays of a policy that lie."""
    path, data = folder / "p.npz", saved(r.choice(KINDS), ".npz")
    if r.random() < 0.3:
        path.write_bytes(bytes(flipped(data, r)))
    else:
        with np.load(io.BytesIO(data)) as file:
            given = dict(file)
        for _ in range(r.randint(1, 2)):
            name = r.choice(list(given))
            given[name] = _other_array(given[name], r)
            if r.random() < 0.1 and len(given) > 1:
                del given[name]
        np.savez(path, allow_pickle=False, **given)
    use(r, path)


def _other_array(array: Any, r: random.Random) -> Any:
    changes: tuple[Callable[[], Any], ...] = (
        lambda: np.asarray(r.choice((0, -1, np.nan, 1e300, "text", 2**40, b"x"))),
        lambda: array[:-1] if array.ndim else np.zeros(3),
        lambda: array.astype(r.choice((np.int8, np.float16, "U5", bool, np.uint64))),
        lambda: np.zeros((0,) * r.randint(0, 4)),
        lambda: array[None],
        lambda: _with_one(array, r.choice((-1, 99, 2**31, 0))),
        lambda: _with_one(array, r.choice((-1, 99, 2**31, 0))),
    )
    try:
        with np.errstate(all="ignore"):
            return r.choice(changes)()
    except (ValueError, OverflowError):  # no such type holds it
        return np.zeros(1)


def _with_one(array: Any, value: Any) -> Any:
    found = array.copy()
    if found.size and found.dtype.kind in "iufb":
        found.flat[0] = np.asarray(value).astype(found.dtype)
    return found


@door("policy-csv", 2)
def policy_csv(r: random.Random, folder: Path) -> None:
    """A policy as a table."""
    path = folder / "p.csv"
    path.write_bytes(mutate(saved(r.choice(("lottery", "stationary", "one", "spent")), ".csv").decode(), r))
    use(r, path)

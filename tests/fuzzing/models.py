"""Models: tables, arrays and files of them."""

from __future__ import annotations

import io
import pickle
import random
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

import conrl
from fuzzing.doors import Broken, call, command, door
from fuzzing.spoiling import MACHINE, Bomb, flipped, mutate, odd, odd_number


@door("model-csv", 4)
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


@door("model-drn", 3)
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


@door("model-arrays", 3)
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


@door("model-npz", 3)
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


@door("archive-bomb", 1)
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


@door("sizes", 2)
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


@door("names", 3)
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

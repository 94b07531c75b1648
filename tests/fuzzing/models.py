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


def _block(r: random.Random, n: int, S: int, A: int, d: int, kind: int) -> tuple[Any, ...]:
    """Some states of a model: in rows of so many successors, or with the start of each pair."""
    g = np.random.default_rng(r.randrange(2**32))
    if kind == 0:
        T = g.integers(0, S, (n, A, 2))
        return T, np.full((n, A, 2), 0.5), g.random((n, A)), g.random((n, A, d))
    start = np.arange(n * A + 1, dtype=np.int64) * 2
    return start, g.integers(0, S, 2 * n * A), np.full(2 * n * A, 0.5), g.random((n, A)), g.random((n, A, d))


def _lie(array: Any, r: random.Random) -> Any:
    """An array that is something else than it seemed."""
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: odd_number(r),
        lambda: array[:-1],
        lambda: array[None],
        lambda: array.astype(r.choice((np.int8, np.float32, bool, "U5", object))),
        lambda: np.zeros((0,) * r.randint(0, 4)),
        lambda: -array,
        lambda: array * r.choice((2, 0, 10**6)),
        lambda: array.tolist(),
    )
    return r.choice(kinds)()


@door("blocks", 3)
def blocks(r: random.Random, folder: Path) -> None:
    """`from_blocks` of blocks that lie, and `from_outcomes` of lists that do, with steps and without."""
    S, A, d, horizon = r.randint(1, 5), r.randint(1, 3), r.choice((0, 1, 1, 2)), r.choice((1, 3, 10))
    length: Any = r.choice((horizon, horizon, conrl.Discounted(0.9), conrl.Average(), conrl.Total(), odd_number(r)))
    given: list[Any] = []
    left = S
    while left:
        n = r.randint(1, left)
        given.append(_block(r, n, S, A, d, r.randrange(2)))
        left -= n
    for _ in range(r.choice((0, 1, 1, 2))):
        at = r.randrange(len(given))
        if r.random() < 0.8 and isinstance(given[at], tuple) and given[at]:
            block = list(given[at])
            part = r.randrange(len(block))
            block[part] = _lie(np.asarray(block[part]), r)
            given[at] = tuple(block)
        else:
            given[at] = r.choice((odd_number(r), (), given[at][:2] if isinstance(given[at], tuple) else None))
    if r.random() < 0.2:
        given = r.choice((given[:-1], given * 2, []))
    error = r.choice((None, None, None, ValueError("the source broke")))

    def read() -> Any:
        yield from given
        if error is not None:
            raise error

    def work() -> None:
        with np.errstate(all="ignore"):
            source: Any = r.choice((given, read, read(), given, odd_number(r)))
            states, actions = r.choice((S, S, S, S + 1, odd_number(r))), r.choice((A, A, A, A + 1, odd_number(r)))
            made = conrl.ConstrainedMDP.from_blocks(source, num_states=states, num_actions=actions, horizon=length)
        conrl.plan(made)

    def outcomes() -> None:
        count = 2 * S * A
        pairs = np.repeat(np.arange(S * A), 2)
        parts: dict[str, Any] = {
            "state": pairs // A,
            "action": pairs % A,
            "successor": np.arange(count) % S,
            "probability": np.full(count, 0.5),
            "pay": np.ones((count, 1 + d)),
        }
        if r.random() < 0.5:
            parts = {name: np.concatenate([part] * horizon) for name, part in parts.items()}
            parts["step"] = np.repeat(np.arange(horizon), count)
        for name in r.sample(list(parts), r.choice((0, 1, 1, 2))):
            parts[name] = _lie(np.asarray(parts[name]), r)
        conrl.plan(conrl.ConstrainedMDP.from_outcomes(**parts, num_states=S, num_actions=A, horizon=length))

    call(r.choice((work, work, outcomes)), ValueError if error is not None else conrl.ConRLError)


@door("criteria", 3)
def criteria(r: random.Random, folder: Path) -> None:
    """Models without a horizon, as they come: asked for plans, curves, values and plays."""
    given = arrays(r)
    given["horizon"] = r.choice((conrl.Discounted(r.choice((0.5, 0.999, 0.0))), conrl.Average(), conrl.Total()))
    d = given["costs"].shape[-1] if isinstance(given.get("costs"), np.ndarray) and given["costs"].ndim else 0
    limits: Any = r.choice(([r.choice((0.1, 1.0, 5.0))] * d, [odd_number(r)] * d, None))

    def work() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = conrl.ConstrainedMDP(**given)
        kind = r.randrange(5)
        if kind == 0:
            conrl.frontier(made, max_vertices=5)
            return
        if kind == 1:
            conrl.feasibility(made, limits)
            return
        plan = conrl.plan(made, limits)
        if plan.gap > 1e-5 * max(1.0, abs(plan.objective)) and plan.status == "optimal":
            raise Broken(f"gap {plan.gap} of {plan.objective}")
        if kind == 2:
            found = conrl.evaluate(made, plan.policy)
            if not np.isfinite(found.reward):
                raise Broken(f"a plan pays {found.reward}")
        elif kind == 3:
            conrl.simulate(made, plan, 2, steps=r.choice((3, odd_number(r))))
        elif kind == 4:
            plan.save(folder / "p.json")
            conrl.PolicyFile.load(folder / "p.json")

    call(work, TypeError)  # a name that is no argument is Python's own error

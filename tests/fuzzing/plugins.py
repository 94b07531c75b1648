"""Plug-ins that misbehave: registered here, in modules that the user imports, and in packages that are installed."""

from __future__ import annotations

import dataclasses
import importlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import conrl
from conrl.envs.registry import PLUGINS as ENVIRONMENTS
from conrl.learners import PLUGINS as LEARNERS
from conrl.planners import PLUGINS as PLANNERS
from fuzzing.doors import Broken, call, command, door
from fuzzing.spoiling import mutate, odd, odd_number

ERRORS: tuple[Callable[[], BaseException], ...] = (
    *(lambda: RuntimeError("mine"), lambda: ValueError("several\nlines\n"), lambda: KeyError("k"), StopIteration),
    *(lambda: SystemExit(3), lambda: RecursionError("deep"), lambda: OSError(28, "No space left", "f"), AssertionError),
    *(
        lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        lambda: conrl.SpecError("of ours"),
        lambda: TypeError(),
    ),
    *(
        lambda: conrl.InfeasibleError("none", conrl.Feasibility(False, np.zeros(0), np.zeros(0), None, ())),
        lambda: OverflowError("big"),
        lambda: ImportError("no", name="x"),
    ),
    *(
        lambda: RuntimeError("\x1b[31m red \x00"),
        lambda: RuntimeError("x" * 50_000),
        lambda: EOFError(),
        lambda: _Mute(),
    ),
)


class _Mute(Exception):
    """Its own text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class _Odd:
    """Nothing that can be done with it works."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__dict__"):
            return object.__getattribute__(self, name)
        raise RuntimeError(f"no {name}")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __bool__(self) -> bool:
        raise RuntimeError("neither")

    def __len__(self) -> int:
        return -1


def nonsense(r: random.Random) -> Any:
    """What no method should answer."""
    box = conrl.envs.box()
    return r.choice(
        (
            *(odd_number(r), odd(r), None, [], {}, (), _Odd(), object(), int, np.zeros((2, 2)), lambda *a, **k: None),
            *(box, conrl.Deterministic([[0]], 1), conrl.Stationary([[1.0]]), conrl.Linear([0.1]), iter(())),
            *({"a": _Odd()}, {"x": np.array([None])}),
            *({"": np.zeros(1)}, {"a/b": np.zeros(2)}, {0: 1}, {"x": [[1], [2, 3]]}, {"x": np.nan}),
        )
    )


def misbehaving(sound: Callable[..., Any], r: random.Random) -> Callable[..., Any]:
    """A method that does what it should, or raises, answers nonsense, or takes other arguments."""
    kind = r.randrange(8)
    if kind < 4:
        return sound
    if kind == 4:
        error = r.choice(ERRORS)

        def raises(*given: Any, **named: Any) -> Any:
            raise error()

        return raises
    if kind == 5:
        return lambda self: sound(self)
    answer = nonsense(r)
    when = r.choice((0, 0, 1, 3))
    calls = [0]

    def answers(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        return answer if calls[0] > when else sound(*given, **named)

    return answers


@contextmanager
def registered(registry: Any, thing: Any, name: Any) -> Iterator[None]:
    """A plug-in that is gone afterwards."""
    before = set(registry._entries)
    try:
        registry.add(thing, name)
        yield
    finally:
        for new in set(registry._entries) - before:
            registry.remove(new)


def _add(registry: Any, thing: Any, r: random.Random, use: Callable[[], Any]) -> None:
    """Register it, mostly as `mine`, and use it under that name."""
    name = "mine" if r.random() < 0.9 else r.choice((None, odd(r), "box", "conrl", "Mine", odd_number(r)))

    def work() -> None:
        with registered(registry, thing, name):
            use()

    call(work)


@door("plugin-planner", 3)
def planner(r: random.Random, folder: Path) -> None:
    """Planners that raise, answer other plans, or are none."""
    own = conrl.ColumnGeneration()
    loosen = r.choice((None, None, "limits", "status", "reward", "costs", "start", "policy", "problem", "mdp"))
    value = nonsense(r)

    def plan(self: Any, mdp: Any, problem: Any, start: Any = None, relax: bool = False) -> Any:
        if loosen == "limits":
            return own.plan(mdp, conrl.Linear([5.0] * mdp.num_costs), relax=relax)
        found = own.plan(mdp, problem, relax=relax)
        return found if loosen is None else dataclasses.replace(found, **{loosen: value})

    members: dict[str, Any] = {"problems": (conrl.Linear, conrl.Knapsack), "plan": misbehaving(plan, r)}
    if r.random() < 0.3:
        members[r.choice(("problems", "plan", "name", "tol"))] = nonsense(r)
    if r.random() < 0.1:
        del members[r.choice(list(members))]
    if r.random() < 0.2:
        members["__init__"] = misbehaving(lambda self, **settings: None, r)
    kind: Any = type("Mine", (), members) if r.random() < 0.95 else nonsense(r)

    def use() -> None:
        box = conrl.envs.box()
        way = r.randrange(5)
        if way == 0:
            conrl.plan(box, planner="mine")
        elif way == 1:
            conrl.plan(box, conrl.Linear([0.1], chance={"corner": (0.0, 0.1)}), planner="mine")
        elif way == 2:
            conrl.learn(box, conrl.ConRL(box.task, planner="mine"), 2, seed=0)
        elif way == 3:
            command(
                "plan",
                "box",
                "--planner",
                "mine",
                *r.choice(((), ("--json",), ("--budget", "corner=3", "--episodes", 9))),
            )
        else:
            command("algorithms", *r.choice(((), ("--json",))))

    _add(PLANNERS, kind, r, use)


@door("plugin-learner", 3)
def learner(r: random.Random, folder: Path) -> None:
    """Learners that propose, observe and remember nonsense, or are none."""
    box = conrl.envs.box()
    best = conrl.plan(box).policy

    def make(self: Any, task: Any, seed: int = 0, prior: float = 0.5) -> None:
        self.task, self.count = task, 0

    def observe(self: Any, episode: Any) -> None:
        self.count += 1

    def load_state(self: Any, arrays: Any) -> None:
        self.count = int(arrays["count"])

    members: dict[str, Any] = {
        "__init__": misbehaving(make, r),
        "propose": misbehaving(lambda self: best, r),
        "observe": misbehaving(observe, r),
    }
    if r.random() < 0.6:
        members["state"] = misbehaving(lambda self: {"count": np.array(self.count)}, r)
        members["load_state"] = misbehaving(load_state, r)
    for _ in range(r.choice((0, 0, 1, 2))):
        name = r.choice(
            (
                "task",
                "problem",
                "episodes",
                "reseed",
                "prices",
                "budget",
                "room",
                "may_step",
                "proposal",
                "name",
                "problems",
            )
        )
        members[name] = r.choice(
            (nonsense(r), nonsense(r), property(lambda self: nonsense(r)), property(misbehaving(len, r)))
        )
    if r.random() < 0.1:
        del members[r.choice(list(members))]
    kind: Any = type("Mine", (), members) if r.random() < 0.95 else nonsense(r)

    def use() -> None:
        way = r.randrange(4)
        if way == 0:
            conrl.learn(box, _made(kind, box.task), 3, seed=0)
        elif way == 1:
            command(
                "learn",
                "box",
                "--algorithm",
                "mine",
                "--episodes",
                3,
                *r.choice(((), ("--json",), ("--option", "prior=x"))),
            )
        elif way == 2:
            command("learn", "box", "--algorithm", "mine", "--episodes", 2, "--out", folder / "runs")
            command("learn", "box", "--algorithm", "mine", "--episodes", 4, "--out", folder / "runs")
        else:
            command("algorithms", *r.choice(((), ("--json",))))

    if r.random() < 0.15 and isinstance(kind, type):  # without a name: what its own `__init__` raises is its own
        call(lambda: conrl.learn(box, _made(kind, box.task), 3, seed=0))
    else:
        _add(LEARNERS, kind, r, use)


def _made(kind: type, task: Any) -> Any:
    """An object of the user's own; one that cannot be made is not ours to judge."""
    try:
        return kind(task)
    except BaseException:
        raise conrl.SpecError("it was never made") from None


@door("plugin-environment", 2)
def environment(r: random.Random, folder: Path) -> None:
    """Makers of environments that raise, or make something else."""

    def pump(load: float = 0.5, horizon: int = 6) -> Any:
        P = np.array([[[1 - load, load], [1.0, 0.0]], [[0.0, 1.0], [0.9, 0.1]]])
        return conrl.ConstrainedMDP(P, [[1.0, 0.2], [0.0, 0.0]], np.ones((2, 2, 1)), horizon, limits=[3.0])

    maker = misbehaving(pump, r)
    if r.random() < 0.2:
        maker = r.choice((nonsense(r), type("Mine", (), {"step": 1, "reset": 2, "unwrapped": 3}), type("Mine", (), {})))
    settings = r.choice(
        ((), (), ("--set", "load=0.2"), ("--set", "load=2"), ("--set", f"load={odd(r)}"), ("--set", "lod=1"))
    )

    def use() -> None:
        words = (
            ("plan", "mine"),
            ("plan", "mine", "--horizon", 3),
            ("envs",),
            ("envs", "--json"),
            ("frontier", "mine"),
        )
        more = (
            ("learn", "mine", "--episodes", 2),
            ("explore", "mine"),
            ("learn", "mine", "--episodes", 2, "--out", "runs"),
        )
        way = r.choice((*words, *more))
        if way[0] == "envs":
            command(*way)
        elif r.random() < 0.2:
            conrl.plan(conrl.envs.make("mine", **r.choice(({}, {"load": odd_number(r)}))))
        else:
            command(*way, *settings)

    _add(ENVIRONMENTS, maker, r, use)


MODULE = """import conrl
import numpy as np

__version__ = "1.0"


@conrl.envs.register
def fuzz_pump(load: float = 0.5, horizon: int = 6):
    P = np.array([[[1 - load, load], [1.0, 0.0]], [[0.0, 1.0], [0.9, 0.1]]])
    return conrl.ConstrainedMDP(P, [[1.0, 0.2], [0.0, 0.0]], np.ones((2, 2, 1)), horizon, limits=[3.0])


@conrl.learners.register
class FuzzLearner:
    def __init__(self, task, seed=0):
        self.task = task

    def propose(self):
        task = self.task
        return conrl.Deterministic(np.zeros((task.horizon, task.num_states), dtype=int), task.num_actions)

    def observe(self, episode):
        pass


@conrl.planners.register
class FuzzPlanner:
    problems = (conrl.Linear,)

    def plan(self, mdp, problem, start=None, relax=False):
        return conrl.ColumnGeneration().plan(mdp, problem, relax=relax)


def sampler(*given):
    return 0.0
"""
POINTS = """[conrl.environments]
fuzz-pump = {0}:fuzz_pump
[conrl.learners]
fuzz-learner = {0}:FuzzLearner
[conrl.planners]
fuzz-planner = {0}:FuzzPlanner
"""
METADATA = "Metadata-Version: 2.1\nName: fuzz-lab\nVersion: 1.0\n"


@contextmanager
def importable(folder: Path, module: str) -> Iterator[None]:
    """A directory on the path, and nothing of it left afterwards."""
    before = [(registry, set(registry._entries)) for registry in (ENVIRONMENTS, LEARNERS, PLANNERS)]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(module, None)
        for registry, names in before:
            for new in set(registry._entries) - names:
                registry.remove(new)
        importlib.invalidate_caches()


@door("plugin-module", 2)
def module(r: random.Random, folder: Path) -> None:
    """Modules with plug-ins that the user imports, and packages with entry points, one of them spoilt."""
    name = "fuzz_lab_of_nobody"
    lab = folder / "lab"
    lab.mkdir()
    source = mutate(MODULE, r) if r.random() < 0.5 else MODULE.encode()
    (lab / f"{name}.py").write_bytes(source)
    installed = r.random() < 0.5
    if installed:
        info = lab / "fuzz_lab-1.0.dist-info"
        info.mkdir()
        points = POINTS.format(name)
        (info / "entry_points.txt").write_bytes(mutate(points, r) if r.random() < 0.6 else points.encode())
        (info / "METADATA").write_bytes(mutate(METADATA, r) if r.random() < 0.2 else METADATA.encode())
    extra = () if installed else ("--import", name if r.random() < 0.9 else odd(r))
    words: tuple[tuple[Any, ...], ...] = (
        *(("plan", "fuzz-pump"), ("learn", "fuzz-pump", "--algorithm", "fuzz-learner", "--episodes", 2), ("envs",)),
        *(("algorithms", "--json"), ("envs", "--json"), ("plan", "box", "--planner", "fuzz-planner"), ("plan", "box")),
        ("learn", "box", "--episodes", 2, "--pay", f"{name}:{r.choice(('sampler', 'no', 'np', odd(r)))}"),
    )
    with importable(lab, name):
        command(*r.choice(words), *extra)


@door("file-imports", 1)
def file_imports(r: random.Random, folder: Path) -> None:
    """Specs that name modules and functions: nothing is imported unless the user says so."""
    name, trap = "fuzz_trap_of_nobody", folder / "trap"
    lab = folder / "lab"
    lab.mkdir()
    (lab / f"{name}.py").write_text(f"from pathlib import Path\nPath({str(trap)!r}).touch()\n")
    places = (
        (f'import = ["{name}"]\n', ""),
        ("", f'[environment.lake]\nname = "gymnasium:{name}:FrozenLake-v1"\n'),
        ("", f'[environment.box]\npay = "{name}:f"\n'),
        ("", f'[environment.lake]\nname = "gymnasium:FrozenLake-v1"\ncost = "{name}:f"\nset = {{ horizon = 5 }}\n'),
        ("", f'[environment.one]\nname = "{name}"\n'),
    )
    top, table = r.choice(places)
    text = f'name = "x"\nepisodes = 1\nseeds = 1\n{top}[algorithm.conrl]\n{table or "[environment.box]"}\n'
    if r.random() < 0.3:
        text = mutate(text, r).decode("utf-8", "replace")
    (folder / "s.toml").write_text(text)
    with importable(lab, name):
        if r.random() < 0.5:
            command("check", "s.toml")
        else:
            call(lambda: conrl.experiments.load_spec("s.toml"))
    if trap.exists():
        raise Broken("a file had a module imported")

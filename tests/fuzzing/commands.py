"""The command line: every command with every option, as click has them, so that a new one is tried at once."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import click

from conrl.cli.main import main as cli
from fuzzing.doors import command, door
from fuzzing.fleets import FLEET, STEPPED
from fuzzing.policies import saved
from fuzzing.runs import SPEC, run_files
from fuzzing.spoiling import LOG, MACHINE, POLICY, odd

MODELS = ("box", "mars-rover", "pricing", "machine.csv", "stepped.csv", "fleet.toml", "bxo")
MORE_MODELS = ("gymnasium:FrozenLake-v1", "gymnasium:No-v0", "nothing.npz", "machine.csv#x", "log.csv", ".")
POLICIES = ("policy.json", "spent.json", "mixture.json", "policy.csv", "log.csv", "nothing.json")
NEVER = "broken.toml"  # a study that is refused: processes are what other tests start
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "model": (*MODELS, *MORE_MODELS),
    "env": (*MODELS, *MORE_MODELS),
    "policy": POLICIES,
    "log": ("machine-log.csv", "log.csv", "log.csv", "policy.csv", "nothing.csv", "."),
    "file": ("machine.csv", "stepped.csv", "fleet.toml", NEVER, "log.csv", *POLICIES, "machine.csv#x", "."),
    "spec": (NEVER, "fleet.toml", "machine.csv", "nothing.toml", "figur1", "."),
    "directory": ("runs", "runs/box", ".", "nothing", "machine.csv"),
    "figure": ("figur1", "figure3", "."),
}
INTEGERS = ("1", "2", "3", "5", "0", "-1", "1.5", "x", "99999999999", "9" * 30)
FLOATS = ("0", "0.5", "0.9", "0.01", "1", "-1", "nan", "inf", "1e-300", "1e300", "x")
TOTALS = (
    "crash=0.3",
    "corner=0.1",
    "repairs=1",
    "energy=9",
    "fuel=1",
    "stock=3",
    "crash=-1",
    "crash=nan",
    "crash=inf",
    "crash<=1",
    "fuel>=1",
    "crash=1,fuel=2",
    "=1",
)
VALUES: dict[str, tuple[str, ...]] = {
    "--algorithm": ("conrl", "ucbvi", "optcmdp", "opt-primal-dual", "posterior-sampling", "safe-conrl", "dope", "cnrl"),
    "--alpha": ("0.05", "0.5", "0", "1", "nan", "x"),
    "--as": ("model", "log", "policy", "fleet", "study", "x"),
    "--bonus": (
        "0.1,0.1",
        "theory",
        "theory:0.1",
        "bernstein",
        "bernstein:0.1",
        "adaptive",
        "1,2,3,4",
        "nan,nan",
        "-1,-1",
    ),
    "--budget": (*TOTALS, "crash=100", "repairs=50"),
    "--chance": (
        "crash>0:0.1",
        "corner>0:2",
        "repairs>1:0.1",
        "energy>12:0.5",
        "repairs>1:5%",
        "crash>0",
        "crash:0.1",
        "crash>nan:0.1",
        ">:",
    ),
    "--column": (
        "state=step",
        "cost_fuel=reward",
        "cost_harm=cost_fuel",
        "x=state",
        "state=x",
        "state",
        "=",
        "step=step",
    ),
    "--cost": ("crash", "corner", "repairs", "cost0", "x", "math:sqrt", "math:nothing", "nothing:f"),
    "--cost-range": ("crash=0,1", "repairs=0,2", "crash=1,0", "crash=nan,1", "crash=1", "x=0,1"),
    "--cvar": ("crash@0.9:1", "repairs@0.5:4", "energy@0.5:20", "stock@1:2", "crash@x:1", "crash@0.5", "@:"),
    "--dask": ("nowhere",),
    "--discount": FLOATS,
    "--epsilon": (*FLOATS, "theorem"),
    "--floor": TOTALS,
    "--grid": ("crash=0.01", "energy=0.5", "crash=0", "stock=0.3", "x=1", "crash=1e-300"),
    "--ignore": ("*", "step", "reward", "x", ""),
    "--import": ("json", "nothing", "a-b", "../x", "x.y", "conrl"),
    "--limit": TOTALS,
    "--never": TOTALS,
    "--normalize": ("0.01", "0.5", "0", "-1", "2", "nan", "x"),
    "--option": (
        "scale=0.1",
        "scale=-1",
        "keep_policies=true",
        "seed=3",
        'planner={"name":"lagrangian"}',
        "safe_share=0.2",
        "x={}",
    ),
    "--pay": ("outcome", "bernoulli", "math:sqrt", "nothing:f", "json:nothing", "x"),
    "--per-step": ("repairs=3", "energy=100", "crash=0.5", "corner=0.01", "x=1", "repairs=nan", "repairs=[1,2]"),
    "--planner": ("column-generation", "linear-program", "lagrangian", "convex-program", "colum", "null"),
    "--preset": ("authors", "theory", "default", "x"),
    "--range": ("energy=0,99", "reward=-9,99", "repairs=0,0", "x=0,1", "energy=1,0", "energy=nan,1", "energy=1"),
    "--reward-range": ("0 1", "-5 10", "1 0", "nan 1", "x y"),
    "--set": (
        "rock_reward=1",
        "slip=0.5",
        "slip=2",
        "horizon=3",
        "nonsense=1",
        "slip=null",
        "rock_reward=[1]",
        "reward=gain",
    ),
    "--spent": ("repairs=1", "energy=3", "repairs=0.5", "repairs=nan", "repairs=inf", "x=1", "repairs=1e300"),
    "--start": ("new", "worn", "0", "3", "-1", "x", ""),
    "--state": ("new", "worn", "broken", "0", "x", ""),
    "--time-limit": ("0.1", "0", "-1", "nan", "x"),
    "--tol": FLOATS,
}
OUTPUTS = (
    "out.json",
    "out.csv",
    "out.npz",
    "out.html",
    "out.png",
    "out.txt",
    "nowhere/out.csv",
    ".",
    "machine.csv",
    "out",
)
PATHS = {"--log": ARGUMENTS["log"], "--prime": ARGUMENTS["log"]}  # what is read; all others are written
LONG = {"--simulate": ("2", "0", "x"), "--draws": ("2", "4", "1", "x"), "--workers": ("0", "-1", "x")}  # that take long


def name_of(option: click.Option) -> str:
    """How an option is written out."""
    return max(option.opts, key=len)


def values_of(option: click.Option) -> tuple[str, ...]:
    """What an option may be given, sound and not: from the table or, if its type says enough, from that."""
    name, kind = name_of(option), option.type
    if name in LONG or name in VALUES:
        return LONG.get(name) or VALUES[name]
    if isinstance(kind, click.Path):
        return PATHS.get(name, OUTPUTS)
    if isinstance(kind, click.IntRange) or kind is click.INT:
        return INTEGERS
    if isinstance(kind, click.FloatRange) or kind is click.FLOAT:
        return FLOATS
    if kind.name == "probability":
        return (*FLOATS, "95%", "5e-1 %", "%", "nan%")
    if isinstance(kind, click.Choice):
        return (*map(str, kind.choices), "x")
    raise LookupError(f"{name} takes {kind.name}: say in VALUES what to try")


def commands() -> dict[str, click.Command]:
    """Every command of `conrl`."""
    return dict(cli.commands)


def untried() -> list[str]:
    """What no case would try: arguments and options of which nobody has said what they may be given."""
    found = []
    for name, one in commands().items():
        for parameter in one.params:
            try:
                if isinstance(parameter, click.Option):
                    assert parameter.is_flag or values_of(parameter)
                elif str(parameter.name) not in ARGUMENTS:
                    found.append(f"{name} {parameter.name}")
            except LookupError as error:
                found.append(f"{name} {error}")
    return found


@cache
def fixtures() -> dict[str, bytes]:
    """Sound files of every kind, by name."""
    texts = {
        "machine.csv": MACHINE,
        "stepped.csv": STEPPED,
        "fleet.toml": FLEET,
        "log.csv": LOG,
        "policy.csv": POLICY,
        NEVER: SPEC.replace("seeds = 2", "seeds = 2\nnonsense = 1"),
    }
    steps = "1,{0},new,run slow,6,0,1,new\n"
    rows = "".join(steps.format(h) for h in range(6))
    texts["machine-log.csv"] = "episode,step,state,action,reward,cost_repairs,cost_energy,next_state\n" + rows
    policies = {"policy.json": "lottery", "spent.json": "spent", "mixture.json": "mixture"}
    found = {name: text.encode() for name, text in texts.items()}
    found |= {name: saved(kind, ".json") for name, kind in policies.items()}
    return found | {f"runs/box/conrl/seed-000/{name}": data for name, data in run_files().items()}


def words_for(name: str, r: random.Random) -> list[str]:
    """A command with arguments and a few options, most of them sound."""
    words = [name]
    parameters = commands()[name].params
    options = [one for one in parameters if isinstance(one, click.Option) and name_of(one) != "--help"]
    asked = [ARGUMENTS[str(one.name)] for one in parameters if isinstance(one, click.Argument)]
    words += [r.choice(sound) if r.random() < 0.95 else odd(r) for sound in asked if r.random() < 0.97]
    if name == "learn":
        words += ["--episodes", r.choice(("1", "2"))]
    if name in ("plan", "frontier", "explore") and words[1:] and r.random() < 0.7:
        words += ["--horizon", r.choice(("4", "6"))] if words[1] in ("machine.csv", "stepped.csv") else []
    for option in r.sample(options, min(len(options), r.choice((0, 1, 1, 2, 3)))):
        words.append(name_of(option))
        if option.is_flag:
            continue
        given = r.choice(values_of(option)) if r.random() < 0.9 else odd(r)
        words += given.split(" ") if option.nargs == 2 else [given]
    if "--deterministic" in words:
        words += ["--time-limit", "0.1"]
    return words


def _must_not_start(words: list[str]) -> bool:
    """Whether it would play a study that comes with conrl, or one in processes."""
    named = {"figure1", "figure2", "table1", "dope"} & set(words)
    return bool(named) and words[0] in ("run", "tune", "reproduce")


@door("arguments", 6)
def arguments(r: random.Random, folder: Path) -> None:
    """Any command with any of its options."""
    for name, data in fixtures().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    names = list(commands())
    words: list[Any] = words_for(r.choice((*names, *("plan", "learn", "explore", "check"))), r)
    if not _must_not_start(words):
        command(*words)

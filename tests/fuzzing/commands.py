"""The command line."""

from __future__ import annotations

import random
from pathlib import Path

from fuzzing.doors import command, door
from fuzzing.spoiling import odd

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


@door("arguments", 2)
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

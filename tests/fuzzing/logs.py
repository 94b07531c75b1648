"""Logged episodes."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import conrl
from fuzzing.doors import call, command, door
from fuzzing.spoiling import LOG, POLICY, mutate, odd


@door("log", 2)
def log_file(r: random.Random, folder: Path) -> None:
    (folder / "log.csv").write_bytes(mutate(LOG, r))
    if r.random() < 0.5:
        call(lambda: conrl.plan(conrl.estimate(folder / "log.csv")))
    else:
        command("learn", "box", "--episodes", 2, "--prime", folder / "log.csv")


@door("trusted-log", 2)
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

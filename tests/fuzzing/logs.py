"""Logged episodes: as they are, trusted, with columns of other names, and in Parquet."""

from __future__ import annotations

import io
import itertools
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import conrl
from fuzzing.doors import call, command, door
from fuzzing.spoiling import LOG, POLICY, flipped, mutate, odd, odd_number


@door("log", 2)
def log_file(r: random.Random, folder: Path) -> None:
    (folder / "log.csv").write_bytes(mutate(LOG, r))
    if r.random() < 0.5:
        call(lambda: conrl.plan(conrl.estimate(folder / "log.csv")))
    else:
        command("learn", "box", "--episodes", 2, "--prime", folder / "log.csv")


def played(r: random.Random, episodes: int = 9) -> str:
    """A sound log of two states and two actions."""
    rows = []
    for episode in range(episodes):
        way = [r.randrange(2) for _ in range(3)]
        for t, (state, after) in enumerate(itertools.pairwise(way)):
            rows.append(f"{episode},{t},{state},{r.randrange(2)},{r.random():.2f},{r.randrange(2)},{after}")
    return "\n".join([LOG.split("\n")[0], *rows, ""])


@door("trusted-log", 2)
def trusted_log(r: random.Random, folder: Path) -> None:
    """Plans with confidence and assessments: a log of some episodes, and a policy, one of them spoilt."""
    log = played(r)
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


OURS = ("episode", "step", "state", "action", "reward", "cost_fuel", "next_state", "terminated")
THEIRS = ("Patient", "t", "ward", "what was done", "gain", "Fuel (l)", "ward after", "over", "day", "note")


def _renamed(r: random.Random) -> tuple[list[str], dict[str, str]]:
    """A header with names of somebody's own, and what they stand for; mostly sound."""
    header = LOG.split("\n")[0].split(",")
    columns = {}
    for i, name in enumerate(header):
        if r.random() < 0.5:
            header[i] = r.choice((THEIRS[OURS.index(name)], THEIRS[OURS.index(name)], odd(r), r.choice(THEIRS)))
            columns[name] = header[i]
    if r.random() < 0.2:
        columns[r.choice((*OURS, "cost_", "cost_more", odd(r)))] = r.choice((*THEIRS, *header, odd(r)))
    return header, columns


def _asked(columns: dict[str, str], r: random.Random) -> list[str]:
    """The same on the command line."""
    words = [word for name, column in columns.items() for word in ("--column", f"{name}={column}")]
    for _ in range(r.choice((0, 0, 1, 2))):
        words += ["--ignore", r.choice(("*", "note", "step", *columns.values(), odd(r)))]
    return words


@door("mapped-log", 4)
def mapped_log(r: random.Random, folder: Path) -> None:
    """Logs whose columns have other names, at every command and call that takes a log."""
    header, columns = _renamed(r)
    rows = [row.split(",") for row in played(r, 5).strip().split("\n")[1:]]
    if r.random() < 0.3:
        header.append(r.choice((*THEIRS, *OURS, odd(r))))
        rows = [[*row, r.choice(("", "0", "2026-01-07", odd(r)))] for row in rows]
    sign = r.choice((",", ",", ";", "\t"))
    text = "\n".join(sign.join(row) for row in (header, *rows))
    path = folder / "log.csv"
    path.write_bytes(mutate(text, r) if r.random() < 0.4 else text.encode("utf-8", "surrogatepass"))
    (folder / "policy.csv").write_text(POLICY)
    words, kind = _asked(columns, r), r.randrange(6)
    if kind == 0:
        command(
            "plan", "--log", path, *words, *r.choice(((), ("--limit", "fuel=1"), ("--confidence", 0.6), ("--json",)))
        )
    elif kind == 1:
        command("check", path, *words, *r.choice(((), ("--as", "log"), ("--json",))))
    elif kind == 2:
        command("assess", "policy.csv", path, *words, "--draws", 4, *r.choice(((), ("--json",))))
    elif kind == 3:
        command(
            "plan",
            "--log",
            path,
            *words,
            "--horizon",
            r.choice((2, 5, 0)),
            "--start",
            r.choice(("0", "1", odd(r))),
        )
    else:
        ignore: Any = r.choice(((), "*", ["note"], odd_number(r), [odd_number(r)], odd(r)))
        asked: Any = r.choice((columns, columns, columns, odd_number(r), {**columns, "state": odd_number(r)}))
        call(lambda: conrl.plan(conrl.estimate(conrl.load_episodes(path, columns=asked, ignore=ignore))))


@door("log-npz", 2)
def log_npz(r: random.Random, folder: Path) -> None:
    """Logs in arrays, of which one is not what it was."""
    path = folder / "log.npz"
    table = folder / "log.csv"
    table.write_text(played(r, 4))
    conrl.save_episodes(path, conrl.load_episodes(table))
    if r.random() < 0.3:
        path.write_bytes(bytes(flipped(path.read_bytes(), r)))
    else:
        with np.load(io.BytesIO(path.read_bytes())) as file:
            given = dict(file)
        name = r.choice(list(given))
        others = (np.zeros(0), np.zeros(len(given[name]) + 1), np.array(["x"] * len(given[name])), np.array(1e300))
        given[name] = r.choice(
            (*others, given[name][:-1], -np.ones(len(given[name])), np.full(len(given[name]), np.nan))
        )
        if r.random() < 0.2:
            given[r.choice((*OURS, odd(r) or "x")).replace("/", "").replace("\x00", "")[:100] or "x"] = np.arange(3)
        np.savez(path, allow_pickle=False, **given)
    if r.random() < 0.5:
        command("plan", "--log", path, *r.choice(((), ("--limit", "fuel=1"), ("--column", "state=step"))))
    else:
        call(lambda: conrl.estimate(path))


@door("log-parquet", 2)
def log_parquet(r: random.Random, folder: Path) -> None:
    """Parquet with columns of odd types, cut off, or no Parquet. Bytes within pages are Polars' own: see the docs."""
    import polars

    rows = [row.split(",") for row in played(r, 4).strip().split("\n")]
    columns: dict[str, Any] = {name: [float(row[i]) for row in rows[1:]] for i, name in enumerate(rows[0])}
    kinds = (polars.Int64, polars.Int64, polars.Int8, polars.UInt64, polars.Float32, polars.Utf8, polars.Boolean)
    more = (polars.Date, polars.Datetime, polars.Binary, polars.Categorical, polars.Decimal(10, 2), polars.Duration)
    series = []
    for name, values in columns.items():
        made = polars.Series(name, values)
        if r.random() < 0.8 and not name.startswith(("cost", "reward")):
            made = made.cast(polars.Int64)
        elif r.random() < 0.3:
            with suppress(polars.exceptions.InvalidOperationError):  # no such cast
                made = made.cast(polars.Int64).cast(polars.Utf8).cast(r.choice(kinds), strict=False)
        if r.random() < 0.08:
            odd_values: tuple[list[Any], ...] = ([None] * len(made), [float("nan")] * len(made), [[1]] * len(made))
            made = polars.Series(
                name, r.choice((*odd_values, [{"a": 1}] * len(made), ["x" + odd(r).replace("\ud800", "")] * len(made)))
            )
        elif r.random() < 0.05:
            made = polars.Series(name, [None] * len(made)).cast(r.choice(more))
        series.append(made.rename(name if r.random() < 0.9 else r.choice((*THEIRS, *OURS))))
    path = folder / "log.parquet"
    if len({one.name for one in series}) < len(series):
        series = [one.rename(name) for one, name in zip(series, columns, strict=True)]
    polars.DataFrame(series).write_parquet(path)
    data = path.read_bytes()
    if r.random() < 0.3:
        cut = r.randrange(len(data))
        path.write_bytes(
            r.choice((data[:cut], data[cut:], data[:cut] + data[-8:], b"PAR1", b"PAR1" * 3, b"x" * cut, b""))
        )
    kind = r.randrange(3)
    if kind == 0:
        command("plan", "--log", path, *_asked({}, r), *r.choice(((), ("--limit", "fuel=1"))))
    elif kind == 1:
        command("check", path, *_asked({}, r))
    else:
        call(lambda: conrl.plan(conrl.estimate(path)))

"""Doors by name, and how a case at one of them must end."""

from __future__ import annotations

import json
import os
import random
import re
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

import conrl
from conrl.cli.main import main as cli

CODES = (0, 2, 3, 4, 5)
WRITING = ("learn", "run", "tune", "report", "reproduce")  # what was played before a mistake is kept
LONGEST = 20_000  # letters of a line
PROGRESS = re.compile(r"\d+ of \d+ runs ended")

Work = Callable[[random.Random, Path], None]


class Door(NamedTuple):
    """A way in: its share of all cases, and what makes one and looks at how it ends."""

    weight: int
    work: Work


DOORS: dict[str, Door] = {}
ENDED = Counter[str]()  # how many commands and calls did what was asked, and how many refused it


def door(name: str, weight: int) -> Callable[[Work], Work]:
    """Have a function be the door of that name."""

    def register(work: Work) -> Work:
        assert name not in DOORS, name
        DOORS[name] = Door(weight, work)
        return work

    return register


class Broken(AssertionError):
    """A case that did not end as it must."""


def command(*words: Any) -> str:
    """Run the command line here; anything but a documented end is broken. What it printed."""
    before = _files()
    done = CliRunner().invoke(cli, [str(word).replace("\0", "") for word in words])  # no shell passes a NUL
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise Broken("".join(traceback.format_exception(done.exception)))
    ENDED["refused" if done.exit_code in (2, 3) else "done"] += 1
    if done.exit_code not in CODES:
        raise Broken(f"exit code {done.exit_code}: {done.stderr}")
    if "Traceback" in done.stderr or any(len(line) > LONGEST for line in done.stderr.splitlines()):
        raise Broken(f"exit code {done.exit_code} with {done.stderr[:2000]!r}")
    if odd := next((c for c in done.output if not c.isprintable() and c != "\n"), None):
        raise Broken(f"prints {odd!r}, which a terminal may obey: {done.output[:2000]!r}")
    if done.exit_code in (2, 3):
        lines = [line for line in done.stderr.splitlines() if line.strip() and not PROGRESS.fullmatch(line)]
        kinds = {line.partition(": ")[0] for line in lines}
        if "Error" not in kinds or kinds - {"Error", "Warning"}:
            raise Broken(f"more than its line: {done.stderr[:2000]!r}")
        if words[0] not in WRITING and (after := _files()) != before:
            raise Broken(f"exit code {done.exit_code}, and files were written: {after - before}")
    if done.stdout and "--json" in words and done.exit_code in (0, 5):
        _check_json(done.stdout)
    return done.stdout


def _files() -> set[str]:
    return {os.path.join(folder, name) for folder, folders, names in os.walk(".") for name in folders + names}


def _check_json(text: str) -> None:
    """One object of JSON, without NaN or Infinity, which only Python reads."""
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise Broken(f"no JSON ({error}): {text[:2000]!r}") from None
    if not isinstance(found, dict):
        raise Broken(f"no object: {text[:2000]!r}")


def _no_constant(name: str) -> None:
    raise Broken(f"{name} is no JSON")


def call(work: Callable[[], Any], *allowed: type[BaseException]) -> None:
    """Call the library; a `ConRLError` is a good end, and an error of the user's own function too."""
    good: tuple[type[BaseException], ...] = (conrl.ConRLError, *allowed)
    try:
        work()
        ENDED["done"] += 1
    except good as error:
        ENDED["refused"] += 1
        if not str(error).strip():
            raise Broken(f"an error without words: {error!r}") from error

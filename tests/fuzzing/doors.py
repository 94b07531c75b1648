"""Doors by name, and how a case at one of them must end."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

import conrl
from conrl.cli.main import main as cli

CODES = (0, 2, 3, 4)

Work = Callable[[random.Random, Path], None]


class Door(NamedTuple):
    """A way in: its share of all cases, and what makes one and looks at how it ends."""

    weight: int
    work: Work


DOORS: dict[str, Door] = {}


def door(name: str, weight: int) -> Callable[[Work], Work]:
    """Have a function be the door of that name."""

    def register(work: Work) -> Work:
        assert name not in DOORS, name
        DOORS[name] = Door(weight, work)
        return work

    return register


class Broken(AssertionError):
    """A case that did not end as it must."""


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

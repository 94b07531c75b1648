"""Running commands as tests do: in this process, with what they print."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
from click.testing import CliRunner, Result

from conrl.cli.main import main

CACHES = {"__pycache__", ".git", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], prog_name="conrl")


def said(errors: str) -> str:
    """What a command said on stderr, but for how far it was, which a slow machine has time to say."""
    return re.sub(r"^\d+ of \d+ runs ended\n", "", errors, flags=re.MULTILINE)


def ok(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert said(result.stderr) == ""
    return result.stdout


def record(*arguments: object) -> dict[str, Any]:
    found = json.loads(ok(*arguments, "--json"), parse_constant=pytest.fail)  # no NaN, no Infinity
    assert isinstance(found, dict)
    return found


def refused(*arguments: object, code: int = 2) -> str:
    """The one line on stderr; nothing else happened."""
    before = _files()
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    told = said(result.stderr)
    assert told.count("\n") == 1
    assert told.startswith("Error: ")
    assert _files() == before
    return told.removeprefix("Error: ").rstrip("\n")


def _files() -> list[str]:
    """What is in this directory, but for what other tests may be compiling or noting at the same time."""
    names = []
    for folder, folders, files in os.walk("."):
        folders[:] = [name for name in folders if name not in CACHES and not name.startswith(".venv")]
        names += [os.path.join(folder, name) for name in folders + files]
    return sorted(names)

"""Running commands as tests do: in this process, with what they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from conrl.cli.main import main

CACHES = {"__pycache__", ".venv", ".git", ".hypothesis", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], prog_name="conrl")


def ok(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
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
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ")
    assert _files() == before
    return result.stderr.removeprefix("Error: ").rstrip("\n")


def _files() -> list[Path]:
    """What is in this directory, but for what other tests may be compiling or noting at the same time."""
    return sorted(path for path in Path().rglob("*") if not CACHES & set(path.parts))

"""On which line of a TOML text each key stands; `tomllib` does not say."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cached_property
from typing import Any


class Lines:
    """The lines of a text.

    A statement is the fewest lines that are TOML by themselves, so that `tomllib` itself reads the keys.
    """

    ENDS = ("]", '"""', "'''")  # what a statement of several lines ends with, before a comment
    MOST = 500  # attempts to find such ends

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def at(self) -> dict[tuple[str, ...], int]:
        """The line, from 1, where each key stands first."""
        lines: dict[tuple[str, ...], int] = {(): 1}
        table: tuple[str, ...] = ()
        for number, statement, header in self.statements():
            for path in paths(statement):
                if header:
                    table = path
                full = path if header else (*table, *path)
                for length in range(1, len(full) + 1):
                    lines.setdefault(full[:length], number)
        return lines

    def statements(self) -> Iterator[tuple[int, dict[str, Any], bool]]:
        """The line on which each begins, what it says, and whether it is a [header]."""
        lines = self.text.replace("\r\n", "\n").split("\n")
        begin = tried = 0
        while begin < len(lines):
            end = begin + 1
            statement = _toml(lines[begin])
            while statement is None and end < len(lines) and tried < self.MOST:
                end += 1
                if any(sign in lines[end - 1] for sign in self.ENDS):
                    statement, tried = _toml("\n".join(lines[begin:end])), tried + 1
            if statement is None:  # too long to tell
                end = begin + 1
            yield begin + 1, statement or {}, lines[begin].lstrip().startswith("[")
            begin = end

    def of(self, path: tuple[str, ...]) -> int:
        """The line of a key, or of the nearest table around it."""
        while path not in self.at:
            path = path[:-1]
        return self.at[path]


def _toml(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All keys within a value, those of tables in arrays left out; at least one of a statement."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))

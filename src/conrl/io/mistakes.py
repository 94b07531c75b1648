"""What is wrong with a file, all of it: each mistake with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from conrl._types import Int
from conrl.errors import ModelError
from conrl.wording import counted

KEPT = 1_000  # mistakes of a file that are kept; the others are counted
ALIKE = 5  # mistakes of one kind that are told one by one; more are told together, and count as one
WHOLE = 2**62  # the line of a mistake that is on none: it comes last


class Mistakes:
    """Collects the mistakes of one file; `place` is what its lines are called."""

    def __init__(self, label: Path | str, place: str = "line") -> None:
        self.label = str(label)
        self.place = place
        self.found: list[tuple[int, str]] = []
        self.count = 0
        self._alike: dict[str, _Alike] = {}

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, line: int, what: str) -> None:
        """A mistake on a line, or about the whole file (`WHOLE`)."""
        self.count += 1
        if len(self.found) < KEPT:
            self.found.append((line, what))

    def add_each(self, lines: Int, tell: Callable[[int], str]) -> None:
        """A mistake on each of some lines; `tell` finds the words for the i-th, if they are kept."""
        kept = np.argsort(lines, kind="stable")[: max(KEPT - len(self.found), 0)].tolist()
        self.found += [(int(lines[i]), tell(i)) for i in kept]
        self.count += lines.size

    def add_alike(self, kind: str, lines: Int, tell: Callable[[int], str]) -> None:
        """The same, of mistakes that may all have one cause: as that is told once, where there are many."""
        if not lines.size:
            return
        group = self._alike.setdefault(kind, _Alike())
        if group.count <= ALIKE:
            self.count -= group.count
            first = np.argsort(lines, kind="stable")[: ALIKE + 1].tolist()
            group.first = sorted([*group.first, *((int(lines[i]), tell(i)) for i in first)])[: ALIKE + 1]
            total = group.count + int(lines.size)
            self.count += total if total <= ALIKE else 1
        group.count += int(lines.size)
        group.last = max(group.last, int(lines.max()))

    def take(self, others: Mistakes) -> None:
        """The mistakes that were collected elsewhere."""
        assert not others._alike
        for line, what in others.found:
            self.add(line, what)
        self.count += others.count - len(others.found)

    @property
    def full(self) -> bool:
        """Whether another mistake would only be counted: no need to find words for it."""
        return len(self.found) >= KEPT

    def told(self, most: int = KEPT) -> list[str]:
        """A sentence each, in the order of the lines."""
        together = [entry for group in self._alike.values() for entry in group.told(self.place)]
        listed = sorted([*self.found, *together], key=lambda mistake: mistake[0])[:most]
        return [f"{self.label}{'' if line == WHOLE else f', {self.place} {line}'}: {what}" for line, what in listed]

    def refuse(self) -> None:
        """Raise the first one, and say how many others there are."""
        if not self:
            return
        raise ModelError(f"{self.told(1)[0]}{told_of_others(self.count - 1, self.label)}")


class _Alike:
    """Mistakes of one kind."""

    def __init__(self) -> None:
        self.first: list[tuple[int, str]] = []  # up to one more than are told one by one
        self.count = 0
        self.last = -1  # line

    def told(self, place: str) -> list[tuple[int, str]]:
        """One by one if they are few."""
        if self.count <= ALIKE:
            return self.first
        line, what = self.first[0]
        return [(line, f"{what}; the like in {self.count - 1:,} more rows, the last on {place} {self.last}")]


def told_of_others(count: int, label: str) -> str:
    """What follows the first mistake of a file, where there are so many others."""
    return f"; {counted(count, 'more mistake')}: conrl check {label} lists them" if count else ""


def first_few(texts: Iterable[str], most: int) -> list[str]:
    """The first ones, and how many were left out.

    >>> first_few("abcd", 2)
    ['a', 'b', 'and 2 more']
    """
    listed = list(texts)
    rest = len(listed) - most
    return listed if rest <= 0 else [*listed[:most], f"and {rest} more"]

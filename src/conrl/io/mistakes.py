"""What is wrong with a file, all of it: each mistake with its line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path

import numpy as np

from conrl._types import Int
from conrl.errors import ModelError
from conrl.wording import counted

FEW = 10  # mistakes that are alike, until they are told as one
KEPT = 1_000  # mistakes of a file that are kept; the others are counted
WHOLE = 2**62  # the line of a mistake that is on none: it comes last


class Mistakes:
    """Collects the mistakes of one file; `place` is what its lines are called.

    Mistakes that are `alike`, such as a unit in every cell of a column, are one once there are more than `FEW`.
    """

    def __init__(self, label: Path | str, place: str = "line") -> None:
        self.label = str(label)
        self.place = place
        self.found: list[tuple[int, str, Hashable]] = []
        self.alike: Counter[Hashable] = Counter()
        self._added = 0

    def __bool__(self) -> bool:
        return self._added > 0

    @property
    def count(self) -> int:
        """How many there are to be told."""
        return self._added - sum(n - 1 for n in self.alike.values() if n > FEW)

    def add(self, line: int, what: str, alike: Hashable = None) -> None:
        """A mistake on a line, or about the whole file (`WHOLE`); `alike` is the same for those that are."""
        self._added += 1
        if alike is not None:
            self.alike[alike] += 1
        if len(self.found) < KEPT and self.alike[alike] <= FEW:
            self.found.append((line, what, alike))

    def add_each(self, lines: Int, tell: Callable[[int], str]) -> None:
        """A mistake on each of some lines; `tell` finds the words for the i-th, if they are kept."""
        kept = np.argsort(lines, kind="stable")[: max(KEPT - len(self.found), 0)].tolist()
        self.found += [(int(lines[i]), tell(i), None) for i in kept]
        self._added += lines.size

    def add_alike(self, kind: Hashable, lines: Int, tell: Callable[[int], str]) -> None:
        """The same, of mistakes that are alike."""
        few = np.argsort(lines, kind="stable")[:FEW].tolist()
        for i in few:
            self.add(int(lines[i]), tell(i), kind)
        self.alike[kind] += lines.size - len(few)
        self._added += lines.size - len(few)

    def take(self, others: Mistakes) -> None:
        """The mistakes that were collected elsewhere."""
        for line, what, alike in others.found:
            self.add(line, what, alike)
            self.alike.subtract([] if alike is None else [alike])
        self.alike.update(others.alike)
        self._added += others._added - len(others.found)

    @property
    def full(self) -> bool:
        """Whether another mistake would only be counted: no need to find words for it."""
        return len(self.found) >= KEPT

    def told(self, most: int = KEPT) -> list[str]:
        """A sentence each, in the order of the lines."""
        listed: list[str] = []
        told: set[Hashable] = set()
        for line, what, alike in sorted(self.found, key=lambda mistake: mistake[0]):
            if alike not in told and len(listed) < most:
                where = "" if line == WHOLE else f", {self.place} {line}"
                many = ""
                if self.alike[alike] > FEW:
                    told.add(alike)
                    many = f" (the first of {self.alike[alike]:,} {self.place}s with this mistake)"
                listed.append(f"{self.label}{where}: {what}{many}")
        return listed

    def refuse(self) -> None:
        """Raise the first one, and say how many others there are."""
        if not self:
            return
        raise ModelError(f"{self.told(1)[0]}{told_of_others(self.count - 1, self.label)}")


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

"""What `repr` says: one line with names and results, however long names and arrays are.

And what messages call an argument: by its name in Python or, where a command asked, as an option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import MISSING, Field, fields
from typing import Any

LONGEST = 155  # characters of a line
ROOM = 72  # characters for the totals of one object
SHORT = 32  # characters of one name
FEW = 4  # entries of a list that are written out


_BY_COMMAND: ContextVar[bool] = ContextVar("conrl_by_command", default=False)


@contextmanager
def by_command() -> Iterator[None]:
    """What is said inside is said to whoever typed a command.

    >>> with by_command():
    ...     argument("time_limit"), argument("normalize", "0.01"), argument("deterministic", "True")
    ('--time-limit', '--normalize 0.01', '--deterministic')
    """
    token = _BY_COMMAND.set(True)
    try:
        yield
    finally:
        _BY_COMMAND.reset(token)


def worded(python: str, command: str) -> str:
    """One of two texts: in words of Python, or in those of the command line."""
    return command if _BY_COMMAND.get() else python


def argument(name: str, value: str = "") -> str:
    """What an argument is called that is also an option, perhaps with its value.

    >>> argument("time_limit"), argument("normalize", "0.01")
    ('time_limit', 'normalize=0.01')
    """
    option = f"--{name.replace('_', '-')}"
    return worded(f"{name}={value}" if value else name, f"{option} {value}" if value not in ("", "True") else option)


def with_arguments(text: str) -> str:
    """A text with the names of arguments in braces.

    >>> with_arguments("raise {time_limit}")
    'raise time_limit'
    """
    return re.sub(r"\{(\w+)\}", lambda found: argument(found[1]), text)


def cut(text: object, most: int = LONGEST) -> str:
    """A text on one line, cut where it is too long.

    >>> cut("a long\\nname", 8)
    'a lon...'
    """
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def short(name: str) -> str:
    """A name that leaves room for others."""
    return cut(name, SHORT)


def line(thing: object, *parts: str) -> str:
    """The name of its class, and in brackets the parts that are not empty.

    >>> line(object(), "reward 1", "", "cost 2")
    'object(reward 1, cost 2)'
    """
    kind = type(thing).__name__
    return f"{kind}({cut(', '.join(filter(None, parts)), LONGEST - len(kind) - 2)})"


def started(name: str | None) -> str:
    """Where episodes start: in a state, or in one that is drawn.

    >>> started("new"), started("0"), started(None)
    ('from new', 'from state 0', 'from a random state')
    """
    return "from a random state" if name is None else f"from {'state ' * name.isdecimal()}{short(name)}"


def totals(names: Iterable[str], values: Iterable[float], digits: int = 6) -> str:
    """Names with their numbers, as many as there is room for.

    >>> totals(["reward", "crash"], [1.5, 0.25])
    'reward 1.5, crash 0.25'
    >>> totals(["a", "b", "c", "d", "e", "f"], range(6))
    'a 0, b 1, c 2, d 3, and 2 more'
    """
    return listed([f"{short(name)} {value:.{digits}g}" for name, value in zip(names, values, strict=False)])


def counted(count: int, thing: str, things: str = "") -> str:
    """How many there are.

    >>> counted(1, "episode"), counted(2000, "episode"), counted(0, "vertex", "vertices")
    ('1 episode', '2,000 episodes', '0 vertices')
    """
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def percent(share: float) -> str:
    """What is little is not nothing, and what is nearly all is not all.

    >>> percent(0.1), percent(0.0123), percent(0.0012), percent(0.00002), percent(0.9999)
    ('10%', '1.2%', '0.12%', '<0.01%', '>99%')
    >>> percent(0.0), percent(1.0)
    ('0%', '100%')
    """
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    if 0.0 < share < 0.00005:
        return "<0.01%"
    if 0.995 <= share < 1.0:
        return ">99%"
    return f"{100.0 * share:.{0 if share >= 0.095 else 1 if share >= 0.0095 else 2}f}%"


def listed(words: Iterable[str]) -> str:
    """Words with commas, as many as there is room for, at least one.

    >>> listed([])
    ''
    """
    words = [cut(word, ROOM) for word in words]
    shown = 0
    while shown < min(len(words), FEW) and (not shown or len(", ".join(words[: shown + 1])) <= ROOM):
        shown += 1
    more = len(words) - shown
    return ", ".join(words[:shown]) + (f", and {more} more" if more else "")


def brief(value: Any) -> str:
    """A value in few characters: long lists are cut, numbers have six digits, functions have their name.

    >>> brief({"crash": 0.123456789}), brief([1.0, 2.0, 3.0, 4.0, 5.0])
    ("{'crash': 0.123457}", '[1, 2, 3, 4, ...]')
    """
    if isinstance(value, Mapping):
        return "{" + _few([f"{brief(k)}: {brief(v)}" for k, v in _first(value.items())], len(value)) + "}"
    if isinstance(value, (list, tuple, set, frozenset)):
        inner = _few([brief(x) for x in _first(value)], len(value))
        return f"({inner}{',' * (len(value) == 1)})" if isinstance(value, tuple) else f"[{inner}]"
    import numpy as np  # not above: `conrl --help` needs words, and starts without it

    if isinstance(value, np.ndarray) and value.ndim:
        flat = _few([brief(x) for x in value.ravel()[:FEW].tolist()], value.size)
        return f"[{flat}]" if value.ndim == 1 else f"array of {' x '.join(map(str, value.shape))}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Callable) and hasattr(value, "__qualname__"):  # type: ignore[arg-type]
        return cut(getattr(value, "__name__", value.__qualname__), SHORT)
    return cut(repr(value), ROOM)


def _first(values: Iterable[Any]) -> list[Any]:
    return [value for _, value in zip(range(FEW), values, strict=False)]


def _few(words: Sequence[str], count: int) -> str:
    return ", ".join([*words, *(["..."] if count > len(words) else [])])


class OnlyGiven:
    """The `repr` of a dataclass with the fields that differ from their defaults; the dataclass has `repr=False`."""

    __slots__ = ()

    def __repr__(self) -> str:
        own = [field for field in fields(self) if field.repr]  # type: ignore[arg-type]
        given = [(field.name, getattr(self, field.name)) for field in own if not _is_default(field, self)]
        return line(self, *(f"{name}={brief(value)}" for name, value in given))


def _is_default(field: Field[Any], thing: object) -> bool:
    value = getattr(thing, field.name)
    if field.default_factory is not MISSING:
        return type(value) is type(default := field.default_factory()) and bool(value == default)
    if field.default is MISSING:
        return False
    return value is field.default or (isinstance(value, (str, int, float)) and bool(value == field.default))

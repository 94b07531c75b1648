"""Names on two sides, lined up: states, actions and costs of a policy or a task with those of a model or of a log.

Names are the same if they are written the same. A log whose states or actions are whole numbers has no names for them.
Its numbers are names if the other side has names that are numbers; otherwise they are positions.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from conrl._types import Int
from conrl.errors import ModelError, unknown

MOST_NUMBERS = 10_000_000  # states or actions of a log that are numbers


def places_of(names: Sequence[str], own: Sequence[str], what: str, whose: str = "policy") -> Int:
    """[n]: where each name of a policy, or of a log, stands among those of the other side.

    >>> places_of(["worn", "new"], ["new", "worn", "broken"], "state").tolist()
    [1, 0]
    """
    number = {name: i for i, name in enumerate(own)}
    missing = next((name for name in names if name not in number), None)
    if missing is not None:
        raise ModelError(unknown(f"{what} of the {whose}", missing, own))
    return np.array([number[name] for name in names], dtype=np.int64)


def same_places(names: Sequence[str], own: Sequence[str], what: str) -> Int:
    """The same where the policy must know every name of the other side."""
    places, known = places_of(names, own, what), set(names)
    lacking = next((name for name in own if name not in known), None)
    if lacking is not None:
        column = f"cost_{lacking}"
        said = f"--ignore {shlex.quote(column)}, in Python ignore=[{column!r}]"
        remedy = f"; leave its column out: {said}" if what == "cost" else ""
        raise ModelError(f"the policy says nothing about {what} {lacking!r}{remedy}")
    return places


def log_names(
    own: Sequence[str] | None, names: Sequence[str], last: int, what: str, whose: str = "policy"
) -> Sequence[str]:
    """What the numbers 0..last of a log stand for, with names of its own or without; `names` are the other side's.

    >>> log_names(None, ["new", "worn"], 0, "state"), log_names(None, ["10", "end"], 2, "state")
    (['new'], ['0', '1', '2'])
    """
    if own is not None:
        return own
    if not any(name.isdecimal() for name in names):
        if last >= len(names):
            raise ModelError(f"the log has {what} {last}; the {whose} has {what}s 0..{len(names) - 1}")
        return names[: last + 1]
    if last >= MOST_NUMBERS:
        raise ModelError(f"the log has {what} {last}; at most {MOST_NUMBERS:,} are lined up")
    return [str(i) for i in range(last + 1)]


def log_places(
    own: Sequence[str] | None, names: Sequence[str], played: Sequence[Int], what: str, whose: str = "policy"
) -> Int:
    """[n]: the other side's number of each number that a log has; of those that it does not have, nothing is said."""
    used = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *played]))
    last = int(used.max(initial=-1))
    texts, places = log_names(own, names, last, what, whose), np.zeros(last + 1, dtype=np.int64)
    known = set(names)
    for i in used.tolist():
        if texts[i] not in known:
            episode = next(k for k, codes in enumerate(played) if (codes == i).any())
            step = int(np.argmax(played[episode] == i))
            told = unknown(f"{what} of the log", texts[i], names)
            raise ModelError(f"episode {episode + 1}, step {step}: {told}")
    places[used] = places_of([texts[i] for i in used.tolist()], names, what, "log")
    return places

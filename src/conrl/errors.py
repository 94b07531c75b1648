"""What can go wrong, as a small tree:

    ConRLError
      ModelError        a model, policy or file that does not make sense (also a ValueError)
      InfeasibleError   no policy keeps the limits; carries the proof
      SpecError         a question or an experiment that does not make sense (also a ValueError)
      RunError          something failed while running

and one warning, ModelWarning: a file was read, but look at it again; or a budget was exceeded, and not by the learner.

Every message names the culprit and, where there is one, the remedy, in one line. `error.key` says where the culprit
stood, in words of the library: ("limits", "crash") is the entry `crash` of the argument `limits`. Whoever asked renders
it: the command line as an option, a study's file as a line number. No program reads the message.

An argument that makes no sense, of whatever type, raises one of these from every public call. An argument that a call
does not have, or that is missing, is Python's own TypeError; what does not fit into memory, its MemoryError.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from conrl.looks import look

if TYPE_CHECKING:
    from conrl.planners.feasibility import Feasibility


MOST_LISTED = 30  # names in a message
MOST_SHOWN = 60  # characters of a value in a message


class ConRLError(Exception):
    """Base of every error that conrl raises on purpose. `key` is the path of what is wrong, or empty."""

    def __init__(self, message: str = "", key: tuple[str, ...] = ()) -> None:
        super().__init__(re.sub(r"\s*\n\s*", " ", str(message)))  # arrays are quoted in several lines
        self.key = key

    @property
    def messages(self) -> list[str]:
        """One line for each mistake."""
        return [str(self)]


class ModelError(ConRLError, ValueError):
    """A model, a policy or a file of one does not make sense."""


class ModelWarning(UserWarning):
    """A file was read, and something in it looks like a mistake, or was corrected because somebody asked for it. Or an
    episode was observed that breaks a budget, or was to be skipped: it is booked all the same. Or a learner earns less
    than the safe policy that it knows."""


class InfeasibleError(ConRLError):
    """No policy keeps the limits. `feasibility` says what is achievable and which limits conflict.

    Where a log does not support a plan with the confidence asked for, `needs` lists the pairs of which more data would
    help most.
    """

    def __init__(self, message: str, feasibility: Feasibility, needs: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.feasibility = feasibility
        self.needs = needs

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.feasibility, self.needs), self.__dict__


class SpecError(ConRLError, ValueError):
    """What was asked does not make sense: an unknown name, a limit for a cost that is not there."""


class SpecMistakes(SpecError):
    """Everything that is wrong with the file of a study, a line each."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.mistakes,)

    @property
    def messages(self) -> list[str]:
        return self.mistakes


class RunError(ConRLError):
    """Something failed while running."""


@contextmanager
def under(*key: str) -> Iterator[None]:
    """What goes wrong inside is about something within `key`.

    >>> with under("limits"):
    ...     raise SpecError("unknown cost 'crsh'", key=("crsh",))
    Traceback (most recent call last):
    conrl.errors.SpecError: unknown cost 'crsh'
    """
    try:
        yield
    except ConRLError as error:
        error.key = (*key, *error.key)
        raise


def unknown(kind: str, name: object, known: Iterable[str]) -> str:
    """The message for a misspelt name: the nearest known one, or all of them, if they are not too many to read.

    >>> unknown("planner", "colum-generation", ["column-generation", "linear-program"])
    "unknown planner 'colum-generation'; did you mean 'column-generation'?"
    """
    options = list(known)
    given = repr(name) if isinstance(name, str) and len(name) <= MOST_SHOWN else shown(name)  # with all its blanks
    if (near := nearest(name, options)) is not None:
        return f"unknown {kind} {given}; did you mean {near!r}?"
    if not options:
        return f"unknown {kind} {given}; there is none here"
    more = f", and {len(options) - MOST_LISTED:,} more" if len(options) > MOST_LISTED else ""
    return f"unknown {kind} {given}; known: {', '.join(options[:MOST_LISTED])}{more}"


def nearest(name: object, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that a misspelt one looks like or, if none does, is most like, capitals and blanks aside.

    >>> nearest("wron", ["worn", "Wroe"]), nearest("WORNN ", ["new", "worn"]), nearest("x", ["new"])
    ('worn', 'worn', None)
    >>> nearest("2", ["22", "002"])
    '002'
    """
    if not isinstance(name, str):
        return None
    options = list(known)
    own = look(name)
    if (alike := next((option for option in options if look(option) == own), None)) is not None:
        return alike
    if near := difflib.get_close_matches(name, options, n=1, cutoff=cutoff):
        return near[0]
    folded = {option.strip().casefold(): option for option in reversed(options)}
    near = difflib.get_close_matches(name.strip().casefold(), folded, n=1, cutoff=cutoff)
    return folded[near[0]] if near else None


def shown(value: object, most: int = MOST_SHOWN) -> str:
    """A value as shown in a message: on one line, of at most `most` characters.

    >>> shown(10**400)
    '100000000000000000000000000000000000000000000000000000000...'
    """
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python writes no number of more than some thousand digits
        return f"<{type(value).__name__} too long to write>"
    except Exception:  # an object of somebody's own
        return f"<{type(value).__name__} whose repr fails>"
    return text if len(text) <= most else text[: most - 3] + "..."


def printable(text: str) -> str:
    """The text with control characters escaped; newlines stay.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )

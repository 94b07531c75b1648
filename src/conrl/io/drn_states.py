"""The states of a `.drn` file, line by line; the format is described in `conrl.io.drn_files`."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import unquote

from conrl.arguments import LARGEST
from conrl.errors import ModelError, shown
from conrl.model.reading import MAX_ACTIONS, ROW_SUM_TOLERANCE, new_name

INITIAL = "init"
TIME = "runs in continuous time"
WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_LABEL = re.compile(r'"([^"]*)"|(\S+)')
_RATIO = re.compile(r"([+-]?\d+)/(\d+)", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Lines:
    """The lines of a file that say something, without the blanks around them, and where one is."""

    def __init__(self, path: Path, stream: Iterator[str]) -> None:
        self.path, self._stream, self.number = path, stream, 0

    def raw(self) -> str | None:
        """The next line, whatever it is; None at the end."""
        line = next(self._stream, None)
        self.number += line is not None
        return None if line is None else line.rstrip("\r\n")

    def __iter__(self) -> Iterator[str]:
        for line in self._stream:
            self.number += 1
            if text := line.strip():
                yield text

    def error(self, what: str, line: int | None = None) -> ModelError:
        """What is wrong with the line that was read last, or with another one."""
        return ModelError(f"{self.path}, line {self.number if line is None else line}: {what}")

    def stop(self, what: str, line: int | None = None) -> NoReturn:
        raise self.error(what, line)


class Header(NamedTuple):
    """What stands above the states."""

    states: int
    choices: int | None
    rewards: str  # the line with the names of the reward models
    rewards_line: int
    chain: bool  # a DTMC: its states need no line `action`


@dataclass
class Body:
    """The states, as they are read; entry k of each list of a kind belongs to the same choice or outcome."""

    state: array[int] = field(default_factory=lambda: array("q"))  # of each choice
    action: array[int] = field(default_factory=lambda: array("q"))
    pay: array[float] = field(default_factory=lambda: array("d"))  # [choices * rewards]
    counts: array[int] = field(default_factory=lambda: array("q"))  # outcomes of each choice
    successor: array[int] = field(default_factory=lambda: array("q"))  # of each outcome
    probability: array[float] = field(default_factory=lambda: array("d"))
    actions: dict[str, int] = field(default_factory=dict)  # the number of each name
    names: dict[int, str] = field(default_factory=dict)  # of states
    initial: list[int] = field(default_factory=list)
    width: int | None = None  # how many rewards a list has


class States:
    """Reads the lines below `@model`, one state and one choice at a time."""

    def __init__(self, lines: Lines, header: Header) -> None:
        self.lines, self.header, self.body = lines, header, Body()
        self.state = -1
        self.rewards: list[float] = []  # of the state
        self.here: set[str] = set()  # its actions
        self.state_line = self.choice_line = 0
        self.choice: str | None = None  # the action that outcomes are read of
        self.sums: list[float] = []  # its probabilities
        self.known: dict[str, float] = {}  # numbers that were read before

    def read(self) -> Body:
        """All lines, in order; what a line begins with says what it is."""
        for text in self.lines:
            if text[0].isdigit():  # most lines are outcomes
                self._outcome(text)
            elif text.startswith("//"):
                self._name(text)
            elif re.match(r"state\b", text):
                self._begin_state(text[5:].strip())
            elif re.match(r"action\b", text):
                self._begin_choice(text[6:].strip())
            else:
                self._outcome(text)
        self._end_state()
        header = self.header
        if self.state + 1 != header.states:
            self.lines.stop(f"the file ends after {self.state + 1} states; @nr_states says {header.states}")
        choices = len(self.body.state)
        if header.choices not in (None, choices):
            self.lines.stop(f"the file has {choices} choices; @nr_choices says {header.choices}")
        return self.body

    def _name(self, text: str) -> None:
        """A comment right below a state is what it stands for."""
        if self.lines.number == self.state_line + 1 and self.state >= 0 and text[2:3] == "[" and text[-1] == "]":
            self.body.names[self.state] = unquote(text[3:-1].replace("\t& ", " & "))

    def _begin_state(self, text: str) -> None:
        self._end_state()
        self.state += 1
        number, *more = text.split(maxsplit=1) or [""]
        if number != str(self.state):
            self.lines.stop(f"state {shown(number)[1:-1]} where state {self.state} is due; states are in order, from 0")
        if self.state >= self.header.states:
            self.lines.stop(f"state {number}, but @nr_states says {self.header.states}")
        self.state_line, self.here = self.lines.number, set()
        rest = more[0] if more else ""
        if rest[:1] in ("!", "{"):
            what = "an exit rate: the model " + TIME if rest[0] == "!" else "an observation: the model is a POMDP"
            self.lines.stop(f"state {number} has {what}, which conrl does not plan in")
        self.rewards, labels = self._rewards(rest)
        if INITIAL in self._labels(labels):
            self.body.initial.append(self.state)

    def _labels(self, text: str) -> list[str]:
        """What stands behind a state's rewards; what is no label would be lost without a word."""
        labels = _LABEL.findall(text)
        odd = next((word for _, word in labels if word.startswith(("[", "//")) or '"' in word), None)
        if odd is not None:
            rule = {"[": "rewards are one list, before the labels", "/": "a comment has a line of its own"}
            why = rule.get(odd[0], "a label in quotation marks ends with one")
            self.lines.stop(f"{shown(odd)} among the labels of state {self.state}; {why}")
        return [quoted or word for quoted, word in labels]

    def _begin_choice(self, text: str) -> None:
        self._end_choice()
        if self.state < 0:
            self.lines.stop("an action before the first state")
        name, *more = text.split(maxsplit=1)[:2] or [""]
        if not name or name[0] == "[":
            self.lines.stop("an action without a name")
        if "[" in name:
            self.lines.stop(f"action {shown(name)} has its rewards in its name; put a blank between them")
        if self.header.chain and self.here:
            self.lines.stop(f"state {self.state} has a second action; a DTMC has one for each state")
        rewards, left = self._rewards(more[0].strip() if more else "")
        if left.strip():
            self.lines.stop(f"{shown(left.strip())} after the action and its rewards; nothing belongs there")
        self._open(unquote(name), rewards)

    def _open(self, name: str, rewards: list[float]) -> None:
        """A choice begins."""
        body = self.body
        name = new_name(name, self.here)
        self.here.add(name)
        code = body.actions.setdefault(name, len(body.actions))
        if code >= MAX_ACTIONS:
            self.lines.stop(f"more than {MAX_ACTIONS} actions; at most so many are supported")
        self.choice, self.choice_line, self.sums = name, self.lines.number, []
        body.state.append(self.state)
        body.action.append(code)
        body.pay.extend(self._both(self.rewards, rewards))

    def _both(self, one: list[float], other: list[float]) -> list[float]:
        """The rewards of a state and of an action in it; a list that is not there is no 0, which would lose a sign."""
        if not one or not other:
            return (one or other) or [0.0] * (self.body.width or 0)
        return [x + y for x, y in zip(one, other, strict=True)]

    def _rewards(self, text: str) -> tuple[list[float], str]:
        """The list in square brackets, if there is one, and what follows it."""
        if not text.startswith("["):
            return [], text
        inner, bracket, rest = text[1:].partition("]")
        if not bracket:
            self.lines.stop("a list of rewards without its closing bracket ]")
        rewards = [self._number(part.strip(), "a reward") for part in inner.split(",")]
        body = self.body
        if body.width is None:
            body.pay.extend([0.0] * (len(rewards) * len(body.state)))  # choices before this line had no list
            body.width = len(rewards)
        if len(rewards) != body.width:
            self.lines.stop(f"{len(rewards)} rewards in a list; the lists above have {body.width}")
        return rewards, rest

    def _outcome(self, text: str) -> None:
        left, colon, right = text.partition(":")
        target = left.strip()
        if not colon or not WHOLE.fullmatch(target):
            self.lines.stop(f"{shown(text)} is no line of a model; expected state, action, or successor : probability")
        if self.choice is None:
            if self.state < 0 or not self.header.chain or self.here:
                self.lines.stop("an outcome above the first action of its state")
            self._open("0", [])
        successor = int(target)
        if successor >= self.header.states:
            self.lines.stop(f"successor {target} is not in 0..{self.header.states - 1}")
        p = self._number(right.strip(), "a probability")
        if p < 0.0:
            self.lines.stop(f"the probability is {right.strip()}; it is at least 0")
        self.body.successor.append(successor)
        self.body.probability.append(p)
        self.sums.append(p)

    def _end_choice(self) -> None:
        """A choice has outcomes, and their probabilities sum to 1."""
        if self.choice is None:
            return
        total = math.fsum(self.sums)
        if abs(total - 1.0) > ROW_SUM_TOLERANCE:
            where = f"state {self.state}, action {shown(self.choice)}"
            if not self.sums:
                self.lines.stop(f"{where} has no outcome", self.choice_line)
            self.lines.stop(
                f"the probabilities of {where} sum to {total:.12g}; a distribution sums to 1 (within "
                f"{ROW_SUM_TOLERANCE:g}): Storm writes ten digits, and fractions with --exact",
                self.choice_line,
            )
        self.body.counts.append(len(self.sums))
        self.choice = None

    def _end_state(self) -> None:
        self._end_choice()
        if self.state >= 0 and not self.here:
            self.lines.stop(
                f"state {self.state} has no action; if it is never left, give it one that stays there", self.state_line
            )

    def _number(self, text: str, what: str) -> float:
        """A finite number, decimal or a fraction; each text is read once."""
        number = self.known.get(text)
        if number is None:
            if text[:1] in ("[", "(", "$"):
                kind = "a placeholder of a parametric model" if text[0] == "$" else "an interval"
                self.lines.stop(f"{what} is {shown(text)}, {kind}; conrl reads single numbers")
            number = read_number(text)
            if number is None or abs(number) > LARGEST:
                self.lines.stop(f"{what} is {shown(text)}; it must be a finite number such as 0.25 or 1/4")
            if len(self.known) < 10**5:
                self.known[text] = number
        return number


def read_number(text: str) -> float | None:
    """A decimal or a fraction, as the nearest double; None of anything else.

    >>> read_number("1/3"), read_number("2.5e-1"), read_number("p")
    (0.3333333333333333, 0.25, None)
    """
    try:
        if ratio := _RATIO.fullmatch(text):
            return int(ratio[1]) / int(ratio[2])
        return float(text) if _DECIMAL.fullmatch(text) else None
    except (ValueError, OverflowError, ZeroDivisionError):  # thousands of digits; beyond any double; n/0
        return None

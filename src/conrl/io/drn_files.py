"""Models from `.drn`, the explicit text format of the model checker Storm; `conrl.io.drn_writing` writes it.

    @type: MDP                        or DTMC, which has one action
    @value_type: double               or rational; may be missing
    @parameters                       a line below, empty
    @reward_models
    gain fuel
    @nr_states
    3
    @nr_choices                       may be missing
    4
    @model
    state 0 [0, 0.5] init goal        its rewards, one for each reward model, and its labels
    //[x=0 & y=1]                     a comment; right below a state, its name
        action go [2, 1/3]            its rewards
            1 : 0.25                  successor and probability
            2 : 3/4

Indentation does not matter, and lines that begin with // are comments. States are listed in order, from 0. The format
is described at https://www.stormchecker.org/documentation/background/drn.html; what is not said there is as Storm's own
reader and exporter have it: an unnamed reward model is an empty word, a choice without a label is `__NOLABEL__`, and
with `--buildstateval` the exporter writes what a state stands for as a comment below it.

What becomes of it:

- One reward model is the reward, the others are costs: `reward="gain"`, or `reward="-time"` for as little of it as
  possible. Without that, the one called `reward`; where there is none, the reader asks.
- A state's rewards are paid by every action taken in it, beside the action's own: Storm pays them on leaving it.
- The one state labelled `init` is the first. Several are no distribution in Storm, but a choice that nobody has made:
  they are refused unless `initial` says what is meant. Other labels are not kept.
- Actions are numbered by first appearance, or by their names where these are 0, 1, .., A-1. Several of one name in
  one state get apostrophes. `%20` in a name is a space, as in addresses on the web.
- States have names if each has a comment with one of its own.
- 1/3 is read as the double nearest to it. Probabilities are used as they are, never rescaled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from conrl.errors import ModelError, shown, unknown
from conrl.io.csv_files import per_pair
from conrl.io.drn_states import TIME, WHOLE, Body, Header, Lines, States
from conrl.io.files import about
from conrl.io.sheets import check_text
from conrl.model import ConstrainedMDP
from conrl.model.reading import start_index
from conrl.sizes import check_costs

TYPES = ("MDP", "DTMC")
VALUES = ("double", "rational")
SECTIONS = ("@type:", "@value_type:", "@parameters", "@placeholders", "@reward_models", "@nr_states", "@nr_choices",
            "@model")  # fmt: skip
REWARD = "reward"  # what the reward is called where nobody says
UNNAMED = "unnamed"  # what a reward model without a name is called
_REFUSED = {
    "CTMC": f"{TIME}; conrl plans in steps: build the embedded or uniformized chain first",
    "Markov Automaton": f"{TIME}; conrl plans in steps",
    "POMDP": "is partially observable; conrl plans where the state is seen",
    "SMG": "is a game of several players; conrl plans for one",
}


def load_drn(path: Path, given: dict[str, Any]) -> ConstrainedMDP:
    """The model in a file; `given` are arguments of the model's that the file does not hold, and `reward`."""
    check_text(path, "a DRN file is plain text: unpack it, or export it again")
    given = dict(given)
    asked = given.pop("reward", None)
    with path.open(encoding="utf-8-sig") as stream:
        lines = Lines(path, iter(stream))
        header = _read_header(lines)
        body = States(lines, header).read()
    if "horizon" not in given:
        raise ModelError(f"{path}: a DRN file holds no horizon; give one", key=("horizon",))
    names = _reward_names(lines, header, body.width or 0)
    with about(path):
        check_costs(max(0, len(names) - 1))
    at, sign, costs = _roles(path, names, asked)
    table = np.array(body.pay).reshape(len(body.state), len(names))
    pay = np.zeros((len(body.state), 1 + len(costs)))
    if at is not None:
        pay[:, 0] = table[:, at] if sign > 0 else 0.0 - table[:, at]
    pay[:, 1:] = table[:, costs]
    action, action_names = _numbered(np.array(body.action), list(body.actions))
    named = [body.names[s] for s in range(header.states) if s in body.names]
    state_names = named if len(set(named)) == header.states else None
    counts = np.array(body.counts)
    with about(path):
        mdp = ConstrainedMDP.from_outcomes(
            np.repeat(np.array(body.state), counts),
            np.repeat(action, counts),
            np.array(body.successor),
            np.array(body.probability),
            np.repeat(pay, counts, axis=0),
            num_states=header.states,
            num_actions=len(body.actions),
            state_names=state_names,
            action_names=action_names,
            cost_names=[names[i] for i in costs],
            **given | {"initial": _initial(given, body, state_names, header.states)},
        )
    return per_pair(mdp)


# -- the header -------------------------------------------------------------------------------------------


def _read_header(lines: Lines) -> Header:
    """The sections up to `@model`; refuses kinds of models that are not ours."""
    found: dict[str, tuple[str, int]] = {}
    for text in lines:
        if text.startswith("//"):
            continue
        word = text.split()[0]
        section = next((name for name in ("@type:", "@value_type:") if text.startswith(name)), word)
        if section not in SECTIONS:
            lines.stop(f"{unknown('section', shown(word)[1:-1], SECTIONS)}; is this a DRN file?")
        if section in found:
            lines.stop(f"section {section} is there twice")
        if section == "@model":
            return _header(lines, found)
        if section == "@placeholders":
            lines.stop("placeholders stand for expressions of a parametric model; export it with all constants given")
        value = text[len(section) :] if section.endswith(":") else lines.raw()
        found[section] = (value or "", lines.number)
        if (value or "").lstrip().startswith(("@", "//")):
            hint = "; it may be empty" if section in ("@parameters", "@reward_models") else ""
            lines.stop(f"the line that belongs below {section} is missing{hint}")
        if section == "@parameters" and value and value.strip():
            lines.stop(f"the model is parametric in {value.strip()}; export it with values for all of them")
    raise lines.error("the file ends before @model; is this a DRN file?")


def _header(lines: Lines, found: dict[str, tuple[str, int]]) -> Header:
    for section in ("@type:", "@nr_states"):
        if section not in found:
            lines.stop(f"no section {section} above @model")
    kind, line = found["@type:"][0].strip(), found["@type:"][1]
    if kind not in TYPES:
        why = _REFUSED.get(kind, f"is none of {', '.join(TYPES)}, which conrl reads")
        lines.stop(f"the model's type is {shown(kind)[1:-1]}, which {why}", line)
    value, line = found.get("@value_type:", ("double", 0))
    if value.strip() not in VALUES:
        lines.stop(f"values are of type {shown(value.strip())}; conrl reads {' and '.join(VALUES)} ones", line)
    states, choices = (_count(lines, *found[name]) if name in found else None for name in ("@nr_states", "@nr_choices"))
    if not states:
        lines.stop("a model has at least one state", found["@nr_states"][1])
    return Header(states, choices, *found.get("@reward_models", ("", 0)), kind == "DTMC")


def _count(lines: Lines, text: str, line: int) -> int:
    if not WHOLE.fullmatch(text.strip()):
        lines.stop(f"{shown(text.strip())} is not a whole number", line)
    return int(text)


def _reward_names(lines: Lines, header: Header, width: int) -> list[str]:
    """One for each reward in the lists; the exporter writes a blank after each name, and one may be empty."""
    names = header.rewards.split()
    parts = header.rewards.removesuffix(" ").split(" ") if header.rewards else []
    if len(names) != width and len(parts) == width:
        names = [name or UNNAMED for name in parts]
    elif not names:
        names = [f"rew{i}" for i in range(width)]  # as Storm calls them
    if names and len(names) != width:
        lines.stop(f"{len(names)} reward models, but the lists have {width} rewards", header.rewards_line)
    names = [unquote(name) for name in names]
    if len(set(names)) != len(names):
        lines.stop("a reward model is there twice; names must differ", header.rewards_line)
    return names


def _roles(path: Path, names: list[str], asked: Any) -> tuple[int | None, int, list[int]]:
    """Which reward model is the reward, with its sign, and which are costs."""
    if not isinstance(asked, (str, type(None))):
        raise ModelError(f"{path}: reward is {shown(asked)}; it must be the name of a reward model", key=(REWARD,))
    name, sign = asked, 1
    if name is None:
        if not names:
            return None, 1, []
        if REWARD not in names:
            first = names[0]
            raise ModelError(
                f"{path}: no reward model is called {REWARD!r}; say which is the reward, the others are costs: "
                f"reward={first!r} (--set reward={first}), or reward={'-' + first!r} for as little of it as possible; "
                f"there are {', '.join(names)}",
                key=(REWARD,),
            )
        name = REWARD
    elif name not in names and name[:1] == "-":
        name, sign = name[1:], -1
    if name not in names:
        raise ModelError(f"{path}: {unknown('reward model', name, names)}", key=(REWARD,))
    at = names.index(name)
    return at, sign, [i for i in range(len(names)) if i != at]


# -- the model --------------------------------------------------------------------------------------------


def _numbered(code: Any, names: list[str]) -> tuple[Any, list[str] | None]:
    """The action of each choice, and the names; by number where the names are numbers."""
    if set(names) == set(map(str, range(len(names)))):
        return np.array([int(name) for name in names], dtype=np.int64)[code], None
    return code, names


def _initial(given: dict[str, Any], body: Body, names: list[str] | None, count: int) -> Any:
    if "initial" in given:
        return start_index(given["initial"], names, count)
    if len(body.initial) == 1:
        return body.initial[0]
    if not body.initial:
        raise ModelError("no state is labelled init; say where an episode starts: initial=, or --start", key=("start",))
    some = ", ".join(map(str, body.initial[:5])) + (", ..." if len(body.initial) > 5 else "")
    raise ModelError(
        f"{len(body.initial)} states are labelled init ({some}), which is no distribution; say where an episode "
        "starts: initial=, a state or a distribution, or --start",
        key=("start",),
    )

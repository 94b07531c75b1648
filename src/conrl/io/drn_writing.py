"""Models to `.drn`, the text format of the model checker Storm, as `conrl.io.drn_files` reads it.

The reward is the reward model `reward`, each cost one of its own name; all are rewards of actions. Numbers are written
so that they read back exactly. Names of states are comments below them, which Storm skips; a blank in a name is `%20`.
The format has no horizon, limits, features, map, distribution over first states, rewards by outcome or steps.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np

from conrl.errors import ModelError
from conrl.io.drn_files import REWARD
from conrl.io.drn_states import INITIAL
from conrl.io.files import atomic_write
from conrl.model import ConstrainedMDP

_BLANK = re.compile(r"[\s%\[\x00-\x1f\x7f-\x9f]")  # what ends a word or begins a list, or is what we escape with
_BREAK = re.compile(r"[\t\r\n%\x00-\x1f]")  # the same within a comment


def save_drn(path: Path, mdp: ConstrainedMDP) -> None:
    """Write a model, or say what of it the format cannot keep."""
    if (lost := _lost(mdp)) is not None:
        raise ModelError(f"{path}: a DRN file cannot keep {lost}")
    with atomic_write(path) as handle:
        text = io.TextIOWrapper(handle, encoding="utf-8", newline="\n")
        try:
            text.writelines(f"{line}\n" for line in _lines(mdp))
            text.flush()
        finally:
            text.detach()


def _lost(mdp: ConstrainedMDP) -> str | None:
    """What the format has no place for, and what to do about it."""
    if mdp.bonus is not None:
        return "the model's bonus; save it as .npz"
    if mdp.step_dependent:
        return "a model that depends on the step; put the step into the state, or save it as .npz or .csv"
    if mdp.varies.any():
        return "pay that varies by outcome; save its means with means=True, or save it as .npz or .csv"
    if mdp._only_start is None:
        return f"a distribution over first states; choose one with mdp.replace(initial={int(np.argmax(mdp.initial))})"
    if REWARD in mdp.cost_names:
        return f"a cost called {REWARD!r}, which is what the reward is called there; give the cost another name"
    for kind, names in (("action", mdp.action_names), ("cost", mdp.cost_names)):
        if "" in names:
            return f"the empty name of {kind} {names.index('')}; give it a name"
    return None


def _lines(mdp: ConstrainedMDP) -> Iterator[str]:
    """The file, line by line."""
    graph, first = mdp.graph, mdp.graph.first
    pay = mdp.pay if mdp.outcome_pay is None else mdp.outcome_pay[graph.start[:-1]]
    actions = [_word(name) for name in mdp.action_names]
    yield from ("// Exported by conrl", "@type: MDP", "@value_type: double", "@parameters", "", "@reward_models")
    yield " ".join((REWARD, *map(_word, mdp.cost_names)))
    yield from ("@nr_states", str(mdp.num_states), "@nr_choices", str(mdp.num_pairs), "@model")
    start = int(np.argmax(mdp.initial))
    for s in range(mdp.num_states):
        yield f"state {s}{f' {INITIAL}' if s == start else ''}"
        if mdp._names.states is not None:
            yield f"//[{_BREAK.sub(_escaped, mdp.state_name(s))}]"
        for k in range(int(first[s]), int(first[s + 1])):
            yield f"\taction {actions[mdp.action[k]]} [{', '.join(map(repr, pay[k].tolist()))}]"
            lo, hi = int(graph.start[k]), int(graph.start[k + 1])
            for t, p in zip(graph.successor[lo:hi].tolist(), graph.probability[lo:hi].tolist(), strict=True):
                yield f"\t\t{t} : {p!r}"


def _word(name: str) -> str:
    """A name as one word."""
    return _BLANK.sub(_escaped, name)


def _escaped(found: re.Match[str]) -> str:
    return quote(found.group(), safe="")

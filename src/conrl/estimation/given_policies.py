"""A policy as somebody gave it, lined up with the states and actions of a log.

A policy has names from its file, its plan or the model that it is for; a log numbers its states and actions by first
appearance. Both are matched by name (`conrl.matching`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Float, Int
from conrl.episode import Episode
from conrl.errors import ModelError, SpecError
from conrl.estimation.logs import Log
from conrl.evaluation import unwrapped
from conrl.io.files import file_path
from conrl.io.policy_tables import read_policy_table
from conrl.matching import log_names, places_of
from conrl.mixture import Mixture, parts_of
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.planners import Plan
from conrl.policy import Policy
from conrl.policy_file import PolicyFile, start_of
from conrl.policy_loading import load_policy
from conrl.problem import Linear


class Given(NamedTuple):
    """A policy as it was given."""

    parts: list[tuple[float, Float]]  # weights, and tables [H, S, A]; rows of zeros where nothing is said
    horizon: int
    states: tuple[str, ...] | None  # None: by position
    actions: tuple[str, ...] | None
    skip: float
    linear: Linear | None = None
    costs: tuple[str, ...] | None = None  # whose limits those are
    mdp: ConstrainedMDP | None = None  # that it was planned in
    start: str | None = None  # the only state that its episodes begin in
    from_log: bool = False  # whether its file says that it was planned from a log
    ordered: bool = True  # whether names stand in the order of the numbers that a log without names has


def read_given(policy: Any, mdp: ConstrainedMDP | None) -> Given:
    """A policy with the names of its states and actions: of its file, its plan, or the model that was given."""
    if isinstance(policy, (str, Path)):
        path = file_path(policy)
        if path.suffix.lower() == ".csv":
            table = read_policy_table(path)
            if not table.step_dependent:
                raise ModelError(f"{path}: a policy without steps is for a process without end; assess needs a horizon")
            silent = np.flatnonzero(table.probabilities.sum(axis=(1, 2)) == 0.0)
            if silent.size:
                raise ModelError(f"{path}: it says nothing about step {silent[0]}; a policy has rows for every step")
            parts, H = [(1.0, table.probabilities)], table.probabilities.shape[0]
            if mdp is None:
                return Given(parts, H, table.states, table.actions, 0.0, ordered=False)
            full = np.zeros((H, mdp.num_states, mdp.num_actions))
            states = places_of(table.states, mdp.state_names, "state")
            full[:, states[:, None], places_of(table.actions, mdp.action_names, "action")] = table.probabilities
            return Given([(1.0, full)], H, mdp.state_names, mdp.action_names, 0.0)
        if path.suffix.lower() == ".json":
            return _of_file(PolicyFile.load(path))
        policy = load_policy(path)
    played, skip, linear = unwrapped(policy)
    named = mdp
    if isinstance(policy, Plan):
        mdp = named = policy.mdp
    tables = _tables(played)
    H, S, A = tables[0][1].shape
    own = mdp if isinstance(policy, Plan) else None  # that it was planned in
    if own is not None and isinstance(own.horizon, Criterion):
        raise SpecError("assess needs a plan with a horizon")
    asked = linear if isinstance(linear, Linear) else None
    if named is None:
        return Given(tables, H, None, None, skip, asked)
    if named.num_states < S or named.num_actions < A:
        sizes = f"{named.num_states} and {named.num_actions}"
        raise ModelError(f"the policy has {S} states and {A} actions, mdp {sizes}; give the model that it is for")
    names = named.state_names[:S], named.action_names[:A]
    return Given(tables, H, *names, skip, asked, named.cost_names, own, None if own is None else start_of(own))


def _of_file(file: PolicyFile) -> Given:
    """A policy as a running system has it."""
    asked = Linear(file.limits or None, file.floors or None) if file.limits or file.floors else None
    tables = _tables(file.policy)
    names = file.state_names, file.action_names
    given = Given(tables, tables[0][1].shape[0], *names, file.skip, asked, file.cost_names)
    return given._replace(start=file.start, from_log=file.basis is not None)


def _tables(played: Policy | Mixture) -> list[tuple[float, Float]]:
    """Weights, and tables [H, S, A]."""
    parts = parts_of(played)
    for part in parts:
        if part.policy.acts_on_spent:
            raise SpecError("a policy that acts on what was spent cannot be assessed from a log; simulate it instead")
        if len(np.shape(part.policy.probabilities)) != 3:
            raise SpecError("a stationary policy is for a process without end; assess needs one with a horizon")
    return [(part.weight, part.policy.probabilities) for part in parts]


def named(log: Log, played: Given) -> Log:
    """The log with names for all states and actions of the policy, so that both can be told."""
    played_out = [e for e in log.episodes if len(e)]
    _, S, A = played.parts[0][1].shape
    last = (
        max((int(e.states.max()) for e in played_out), default=0),
        max((int(e.actions.max()) for e in played_out), default=0),
    )
    states = _union(log.state_names, played.states, last[0], S, "state", played.ordered)
    actions = _union(log.action_names, played.actions, last[1], A, "action", played.ordered)
    return Log(log.episodes, log.cost_names, states, actions)


def _union(
    own: Sequence[str] | None, others: Sequence[str] | None, last: int, size: int, what: str, ordered: bool
) -> tuple[str, ...]:
    """The names of the log, whose numbers are 0..last, then those that only the policy has."""
    if others is None:
        if own is not None:
            raise ModelError(
                f"the log has names for its {what}s, and the policy has none: give a plan, a .csv file, or mdp=, the "
                "model whose numbers it has",
                key=("mdp",),
            )
        if last >= size:
            raise ModelError(f"the log has {what} {last}; the policy has {what}s 0..{size - 1}")
        return tuple(map(str, range(size)))
    if own is None and not ordered and not any(name.isdecimal() for name in others):
        raise ModelError(
            f"the log has numbers for its {what}s, and a table of names does not say which number is which: give a "
            ".json file, or mdp=, the model whose numbers the log has",
            key=("mdp",),
        )
    return tuple(dict.fromkeys((*log_names(own, others, last, what), *others)))


def started(
    model: ConstrainedMDP, episodes: Sequence[Episode], played: Given
) -> tuple[ConstrainedMDP, Sequence[Episode]]:
    """The estimate from the first state of the plan, where that has one; of the episodes, those that begin there."""
    if played.start is None:
        return model, episodes
    state = int(places_of([played.start], model.state_names, "state")[0])
    if model._only_start == state:
        return model, episodes
    return model.replace(initial=state), [e for e in episodes if len(e) and e.states[0] == state]


def aligned(table: Float, played: Given, model: ConstrainedMDP) -> Float:
    """[H, S, A] in the order of the model: where the policy says nothing, what the log played most."""
    H, S, A = table.shape
    end = -1 if model._log is None else model._log.end
    place = _places(played.states, model.state_names, S, "state")
    action = _places(played.actions, model.action_names, A, "action")
    full = np.zeros((H, model.num_states, model.num_actions))
    full[:, place[:, None], action] = table
    silent = full.sum(axis=2) == 0.0  # [H, S]
    counts = np.asarray(model.counts).reshape(-1, model.num_states, model.num_actions)
    seen = counts.sum(axis=(0, 2)) > 0
    lacking = np.flatnonzero(silent.all(axis=0) & seen & (np.arange(model.num_states) != end))
    if lacking.size:
        name = model.state_name(int(lacking[0]))
        places_of([name], played.states or [name], "state", "log")  # it may have another one like it
        raise ModelError(f"the policy says nothing about state {name!r}, which the log has")
    exists = model.available.reshape(-1, model.num_states, model.num_actions)
    usual = np.argmax(np.where(exists, counts, -1), axis=2)  # [1 or H, S]
    h, s = np.nonzero(silent)
    full[h, s, usual[np.minimum(h, usual.shape[0] - 1), s]] = 1.0
    return full


def _places(names: Sequence[str] | None, own: Sequence[str], size: int, what: str) -> Int:
    """[size]: where each of the policy's states or actions stands in the model."""
    if names is not None:
        return places_of(names, own, what)
    if size > len(own):
        raise ModelError(f"the policy has {size} {what}s, the model {len(own)}")
    return np.arange(size)


def checked(table: Float, model: ConstrainedMDP) -> Policy:
    policy = Policy(table)
    policy.check(model)
    return policy

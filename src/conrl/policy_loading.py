"""Reading policies: `.npz` (arrays), `.json` (`conrl.policy_file`) and `.csv` (`conrl.io.policy_tables`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from conrl._types import Int
from conrl.errors import ModelError, shown
from conrl.io.files import about, file_path, read_npz, reading
from conrl.io.policy_tables import PolicyTable, read_policy_table
from conrl.matching import places_of, same_places
from conrl.mixture import Mixture
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.mdp import need_model
from conrl.policy import NOTHING, Deterministic, Policy, SparsePolicy
from conrl.policy_file import LEAST_SKIP, PolicyFile
from conrl.spending import SpentPolicy, put_actions
from conrl.stationary_policy import Stationary
from conrl.wording import percent


def load_policy(path: str | Path, mdp: ConstrainedMDP | None = None) -> Any:
    """Read what `Policy.save` or `Plan.save` wrote, as `.npz`, `.json` or `.csv`: a `Policy`, or a `Mixture`.

    With `mdp`, a JSON or CSV file is lined up with the states and actions of that model by their names. A CSV file
    needs that unless its states and its actions first appear as 0, 1, 2, ... in this order: its rows do not say which
    number a name has, and `2` may be the name of the first state. Where it says nothing, because nobody comes there,
    the first action there is is played. An `.npz` file has no names of states and actions: its numbers are those of the
    model that it was made in. Costs that a policy counts are found by name. A file whose plan skips episodes is
    refused: `PolicyFile.load` reads it.
    """
    path = file_path(path)
    if mdp is not None:
        need_model(mdp, "load_policy")
    if path.suffix.lower() == ".json":
        read = PolicyFile.load(path)
        if read.skip > LEAST_SKIP:
            raise ModelError(
                f"{path}: {percent(read.skip)} of all episodes are to be skipped, which a policy alone does not say; "
                "PolicyFile.load has both"
            )
        if mdp is None:
            return read.policy
        with about(path):
            parts = zip(read.components, read._marks, strict=True)
            policies = [_lined_up(policy, marks, read, mdp) for policy, marks in parts]
        return Mixture(read.weights, policies) if isinstance(read.policy, Mixture) else policies[0]
    if path.suffix.lower() == ".csv":
        table = read_policy_table(path)
        with about(path):
            return _numbered(table) if mdp is None else _in_model(table, mdp)
    if path.suffix.lower() != ".npz":
        raise ModelError(f"{path}: a policy is read from .json, .csv or .npz")
    policy = _of_arrays(path)
    if mdp is not None:
        with about(path):
            policy = _counting(policy, mdp)
            policy.check(mdp)
    return policy


def _counting(policy: Policy, mdp: ConstrainedMDP) -> Policy:
    """A policy that acts on what was spent, of the costs that have these names in a model."""
    if not isinstance(policy, SpentPolicy):
        return policy
    costs = tuple(places_of(policy.counts, mdp.cost_names, "cost").tolist())
    policy = policy._with(counter=replace(policy.counter, costs=costs))
    if policy.reached is None or policy.shape[1:] != (mdp.num_states, mdp.num_actions):
        return policy
    first = np.argmax(mdp.playable, axis=2)  # where it says nothing, it plays what there is
    usual = np.broadcast_to(first[:, policy.state], policy.reached.shape)
    return policy._with(inner=put_actions(policy.inner, ~policy.reached, usual), first_actions=first)


def _of_arrays(path: Path) -> Policy:
    """A policy of an `.npz` file."""
    with reading(path):
        try:
            arrays = read_npz(path, lambda names, read: None)
            return SpentPolicy._read(arrays) if "counted" in arrays else policy_of(arrays)
        except KeyError as error:
            raise ModelError(f"{path}: not a policy file: no array {error}") from None
        except (ModelError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
            raise ModelError(f"{path}: not a policy file: {error}") from None


def _lined_up(policy: Policy, marks: Int | None, read: PolicyFile, mdp: ConstrainedMDP) -> Policy:
    """A policy of a file with the numbers that its states and actions have in a model, which has just the same. Where
    the file says nothing, the first action there is."""
    names = (("state", read.state_names, mdp.state_names), ("action", read.action_names, mdp.action_names))
    if any(own != other for _, own, other in names):
        if policy.acts_on_spent:
            raise ModelError("the model has other states or actions, or in another order")
        states, actions = (same_places(own, other, what) for what, own, other in names)
        table = np.zeros((policy.shape[0], mdp.num_states, mdp.num_actions))
        table[:, states[:, None], actions] = policy.probabilities.reshape(policy.shape)
        policy = Stationary(table[0]) if isinstance(policy, Stationary) else Policy(table)
        if marks is not None:
            own, marks = marks, np.empty_like(marks)
            marks[:, states] = own
    if marks is not None:
        available = mdp.available if isinstance(mdp.horizon, Criterion) else mdp.playable
        first = np.argmax(available, axis=-1).reshape(-1, mdp.num_states)
        policy = put_actions(policy, marks == NOTHING, np.broadcast_to(first, marks.shape))
    policy = _counting(policy, mdp)
    policy.check(mdp)
    return policy


def _numbered(table: PolicyTable) -> Policy:
    """A policy of a CSV file whose names are 0, 1, 2, ... in this order; in another one, they may be names."""
    for what, own in (("state", table.states), ("action", table.actions)):
        odd = next((name for i, name in enumerate(own) if name != str(i)), None)
        if odd is not None:
            told = f"its {what}s have names such as {shown(odd)}, not the numbers 0, 1, 2, ... in order"
            raise ModelError(f"{told}; give mdp=, the model that they are of")
    silent = np.argwhere(table.probabilities.sum(axis=2) == 0.0)
    if silent.size:
        step = f"step {silent[0][0]}, " if table.step_dependent else ""
        raise ModelError(f"it says nothing about {step}state {silent[0][1]}; give mdp=, the model that it is for")
    return Policy(table.probabilities) if table.step_dependent else Stationary(table.probabilities[0])


def _in_model(table: PolicyTable, mdp: ConstrainedMDP) -> Policy:
    """A policy of a CSV file for a model: where nobody comes, it may say nothing."""
    timeless = isinstance(mdp.horizon, Criterion)
    if table.step_dependent == timeless or (not timeless and table.probabilities.shape[0] != mdp.horizon):
        steps = f"{table.probabilities.shape[0]} steps" if table.step_dependent else "no steps"
        raise ModelError(f"the policy has {steps}; the model has horizon {mdp.horizon}")
    states = places_of(table.states, mdp.state_names, "state")
    full = np.zeros((table.probabilities.shape[0], mdp.num_states, mdp.num_actions))
    full[:, states[:, None], places_of(table.actions, mdp.action_names, "action")] = table.probabilities
    silent = full.sum(axis=2) == 0.0  # [H, S]
    first = np.argmax(mdp.available if timeless else mdp.playable, axis=-1)
    h, s = np.nonzero(silent)
    full[h, s, np.broadcast_to(first, silent.shape)[h, s]] = 1.0
    policy = Stationary(full[0]) if timeless else Policy(full)
    visits = policy.occupation(mdp).reshape(full.shape).sum(axis=2)
    come = np.argwhere(silent & (visits > 0.0))
    if come.size:
        step = "" if timeless else f"step {come[0][0]}, "
        raise ModelError(f"it says nothing about {step}state {mdp.state_name(int(come[0][1]))!r}, where it comes to")
    return policy


def policy_of(arrays: Mapping[str, Any]) -> Policy:
    """The policy that `Policy._arrays` gave."""
    if "actions" in arrays:
        kind = Stationary.of_actions if arrays["actions"].ndim == 1 else Deterministic
        return kind(arrays["actions"], int(arrays["num_actions"]))
    if "modes" in arrays:
        return SparsePolicy(arrays["modes"], arrays["places"], arrays["rows"])
    table = arrays["probabilities"]
    return Stationary(table) if table.ndim == 2 else Policy(table)

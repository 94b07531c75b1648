"""Policies of episodes: Markov (probabilities [H, S, A]) and deterministic (actions [H, S]). Steps count from 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl import kernels
from conrl._types import Bool, Float, Int
from conrl.arguments import any_array, float_array, is_int, read_generator
from conrl.errors import ModelError
from conrl.io.cells import csv_text
from conrl.io.files import atomic_write, file_path, write_npz
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.mdp import need_model
from conrl.model.reading import check_sizes, read_horizon
from conrl.model.reduction import Reachable
from conrl.notebook import frame_of
from conrl.sampling import draw

DENSE = 5 * 10**7  # entries of a table [H, S, A] above which a mixture becomes a `SparsePolicy`: 400 MB
PLANNED, STAND_IN, NOTHING = 0, 1, 2  # what a policy file says of a step and state
SUM_TOLERANCE = 1e-9  # how far from 1 the action probabilities of one state may add up


class Policy:
    """A Markov policy: `probabilities` [H, S, A]."""

    shape: tuple[int, int, int]  # (H, S, A)
    acts_on_spent: ClassVar[bool] = False  # whether `act` must be told what was spent
    _probabilities: Float  # [H, S, A]

    def __init__(self, probabilities: ArrayLike) -> None:
        table = np.array(float_array(probabilities, "policy"))
        if table.ndim != 3:
            raise ModelError(f"policy has shape {table.shape}; expected (H, S, A)")
        wrong: Bool = np.asarray(
            ~((table >= 0.0) & (table <= 2.0)).all(axis=2)
        )  # before they are added up: a sum could overflow
        wrong |= np.abs(np.where(wrong[:, :, None], 0.0, table).sum(axis=2) - 1.0) > SUM_TOLERANCE
        if wrong.any():
            h, s = (int(x) for x in np.argwhere(wrong)[0])
            raise ModelError(
                f"policy at step {h}, state {s} is {table[h, s]}; probabilities are at least 0 and sum to 1"
            )
        vars(self).update(vars(Policy._trusted(table)))

    @classmethod
    def _trusted(cls, table: Float) -> Policy:
        """Of a table that is known to hold distributions, and that nobody else has."""
        policy = cls.__new__(cls)
        table.flags.writeable = False
        policy._probabilities, policy.shape = table, table.shape
        return policy

    @property
    def probabilities(self) -> Float:
        """[H, S, A]."""
        return self._probabilities

    def __repr__(self) -> str:
        return f"{type(self).__name__}(steps={self.shape[0]}, states={self.shape[1]}, actions={self.shape[2]})"

    @property
    def mode(self) -> NDArray[np.integer[Any]]:
        """[H, S]: the most likely action, of equal ones the first."""
        table: Int = np.argmax(self.probabilities, axis=2)
        return table

    @property
    def most_probable(self) -> Policy:
        """The policy that always plays the most likely action."""
        return Deterministic(self.mode, self.shape[2])

    def act(self, step: int, state: int, generator: np.random.Generator) -> int:
        """Draw the action for a step (from 0) and a state."""
        return int(draw(self._row(*self._index(step, state)), read_generator(generator).random()))

    def _row(self, step: int, state: int) -> Float:
        """[A]: what is done at a step in a state that the policy has."""
        row: Float = self.probabilities[step, state]
        return row

    def step_probabilities(self, step: int) -> Float:
        """[S, A]: the probabilities of one step (from 0), without making a table of all."""
        table: Float = self.probabilities[self._index(step, 0)[0]]
        return table

    def _index(self, step: Any, state: Any) -> tuple[int, int]:
        """Step and state as an index; refuses negative ones, which numpy would count from the end."""
        H, S, _ = self.shape
        if not (is_int(step) and is_int(state) and 0 <= step < H and 0 <= state < S):
            raise ModelError(f"step {step!r} and state {state!r}: the policy has steps 0..{H - 1}, states 0..{S - 1}")
        return step, state

    def occupation(self, mdp: ConstrainedMDP) -> Float:
        """[H, S, A]: the probability of each step, state and action in a model."""
        need_model(mdp, "occupation")
        self.check(mdp)
        rho = np.zeros((mdp.repeats, mdp.num_pairs))
        self.add_occupation(mdp, 1.0, rho)
        return mdp.step_table(rho)

    def add_occupation(self, mdp: ConstrainedMDP, weight: float, rho: Float) -> None:
        """Add weight * occupation to rho [H, P], or its sum over steps to rho [1, P]; where each step has pairs of its
        own, that is the occupation itself."""
        self.check(mdp)
        self._add_occupation(mdp, weight, rho)

    def _add_occupation(self, mdp: ConstrainedMDP, weight: float, rho: Float) -> None:
        """The same for a policy that was already checked."""
        kernels.occupation(*mdp.graph, mdp.initial, mdp.action, self._probabilities, mdp.horizon, weight, rho)

    def on(self, mdp: ConstrainedMDP) -> tuple[ConstrainedMDP, Policy]:
        """The model in which this is a Markov policy, and that policy; another one if it acts on what was spent."""
        return mdp, self

    def _markov(self, weights: Float, policies: Sequence[Policy], mdp: ConstrainedMDP) -> Policy:
        """The Markov form of a mixture of which this is the heaviest part."""
        for policy in policies:
            policy.check(mdp)
        certain = [policy for policy in policies if isinstance(policy, Deterministic)]
        if len(certain) == len(policies):
            if math.prod(self.shape) > DENSE and not mdp.step_dependent:
                return SparsePolicy._mixed(weights, certain, mdp)
            heaviest = next(i for i, policy in enumerate(policies) if policy is self)
            model, states = (*mdp.graph, mdp.initial, mdp.action), np.arange(mdp.num_states)
            parts = weights, np.stack([policy.actions for policy in certain]), heaviest
            return Policy._trusted(kernels.mixed_table(*model, *parts, 0, states, states, mdp.num_actions))
        table = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
        rho = np.zeros((mdp.repeats, mdp.num_pairs))
        for weight, policy in zip(weights, policies, strict=True):
            policy._add_occupation(mdp, float(weight), rho)
        kernels.markov(mdp.graph.first, mdp.action, rho, self.mode, table)
        return Policy._trusted(table)

    def check(self, mdp: ConstrainedMDP) -> None:
        """Refuse a model of another shape, and actions that do not exist in it."""
        if isinstance(mdp.horizon, Criterion):
            raise ModelError(
                f"the policy has {self.shape[0]} steps, and the model has {mdp.horizon!r}; "
                "give it a Stationary policy, or the model a horizon with mdp.replace(horizon=H)"
            )
        if self.shape != (mdp.horizon, mdp.num_states, mdp.num_actions):
            raise ModelError(
                f"policy has shape {self.shape}; the model has {mdp.horizon} steps, "
                f"{mdp.num_states} states and {mdp.num_actions} actions"
            )
        if not mdp.all_exist:
            self._check_actions(mdp)

    def _check_actions(self, mdp: ConstrainedMDP) -> None:
        """Refuse a policy that plays an action where it does not exist."""
        played = (self.probabilities > 0.0) & ~mdp.playable
        if played.any():
            h, s, a = (int(x) for x in np.argwhere(played)[0])
            raise missing_action(mdp, h, s, a)

    def save(self, path: str | Path, mdp: ConstrainedMDP | None = None) -> None:
        """Write the policy: `.npz` (arrays) or `.csv` (step,state,action,probability; positive ones only).

        With `mdp`, CSV carries the names of its states and actions; where the model depends on the step, it has only
        the states that can be reached at each one, and where it was estimated from a log, none for the end of an
        episode. Without `mdp`, states and actions are numbers, and the first state has a row for every action, if need
        be of probability 0, so that their order can be told. `load_policy` reads both. JSON, for running systems, is
        written by `Plan.save`, and for any policy or mixture by `PolicyFile.named(policy, mdp).save`.
        """
        path = file_path(path)
        if path.suffix == ".npz":
            with atomic_write(path) as file:
                write_npz(file, self._arrays())
        elif path.suffix == ".csv":
            states = mdp.state_names if mdp else tuple(map(str, range(self.shape[1])))
            actions = mdp.action_names if mdp else tuple(map(str, range(self.shape[2])))
            rows = self._table(states, actions, None if mdp is None else _told(mdp))
            with atomic_write(path) as file:
                file.write(csv_text(_every_action(rows, actions) if mdp is None else rows).encode())
        else:
            raise ModelError(f"{path}: a policy is written as .npz or .csv; a plan, and a PolicyFile, as .json too")

    def to_frame(self, mdp: ConstrainedMDP | None = None, library: str | None = None) -> Any:
        """A data frame: `step`, `state`, `action`, `probability`, a row for each action that may be played.

        With the model, states and actions have their names, only what the policy can come to is there, and `visits` is
        how likely the state is at that step. A `Stationary` policy has no `step`; a `SpentPolicy` has `spent_<name>`.
        `library`: as in `Plan.to_frame`.
        """
        if mdp is not None:
            need_model(mdp, "to_frame")
            self.check(mdp)
        return frame_of(self._columns(mdp), library)

    def _columns(self, mdp: ConstrainedMDP | None) -> dict[str, Any]:
        """Of `to_frame`, in a model that it was checked against."""
        return self._entries(mdp, self.probabilities, None if mdp is None else self.occupation(mdp).sum(axis=2))

    def _entries(self, mdp: ConstrainedMDP | None, table: Float, visits: Float | None) -> dict[str, Any]:
        """What is played of a table [H, S, A]; only where there are visits [H, S], if they are given."""
        played = table > 0.0 if visits is None else (table > 0.0) & (visits > 0.0)[:, :, None]
        h, s, a = np.nonzero(played)
        state, action = (s, a) if mdp is None else (_named(mdp.state_names, s), _named(mdp.action_names, a))
        columns = {"step": h, "state": state, "action": action, "probability": table[played]}
        return columns if visits is None else columns | {"visits": visits[h, s]}

    def _table(
        self, states: Sequence[str], actions: Sequence[str], reached: NDArray[np.bool_] | None
    ) -> list[list[Any]]:
        """Rows of a CSV file: a header, then what is played with a probability above 0, where it can be `reached`."""
        table = self.probabilities if reached is None else np.where(reached[:, :, None], self.probabilities, 0.0)
        played = [[h, states[s], actions[a], float(table[h, s, a])] for h, s, a in np.argwhere(table > 0.0)]
        return [["step", "state", "action", "probability"], *played]

    def _arrays(self) -> dict[str, Any]:
        return {"probabilities": self.probabilities}


class Deterministic(Policy):
    """A deterministic policy: `actions` [H, S], in 16 bits, or in 8 where they were given so."""

    actions: NDArray[np.int16] | NDArray[np.int8]
    num_actions: int

    def __init__(self, actions: ArrayLike, num_actions: int) -> None:
        table = any_array(actions, "actions")
        if table.ndim != 2 or table.dtype.kind not in "iu":
            raise ModelError(f"actions has shape {table.shape} and type {table.dtype}; expected whole numbers (H, S)")
        check_sizes(max(1, table.shape[1]), num_actions)
        if table.size and not (table.min() >= 0 and table.max() < num_actions):
            raise ModelError(f"actions must be in 0..{num_actions - 1}")
        own: Any = table.astype(np.int8 if table.dtype == np.int8 else np.int16)
        vars(self).update(vars(Deterministic._trusted_actions(own, num_actions)))

    @classmethod
    def _trusted_actions(cls, actions: NDArray[np.int16] | NDArray[np.int8], num_actions: int) -> Deterministic:
        """Of a table that is known to hold actions, and that nobody else has."""
        policy = cls.__new__(cls)
        actions.flags.writeable = False
        policy.actions, policy.num_actions = actions, num_actions
        policy.shape = (*actions.shape, num_actions)
        return policy

    @cached_property
    def _probabilities(self) -> Float:  # type: ignore[override]
        table = np.zeros(self.shape)
        table.reshape(-1)[np.arange(self.actions.size) * self.num_actions + self.actions.reshape(-1)] = 1.0
        table.flags.writeable = False
        return table

    @property
    def mode(self) -> NDArray[np.integer[Any]]:
        return self.actions

    def step_probabilities(self, step: int) -> Float:
        table = np.zeros(self.shape[1:])
        table[np.arange(self.shape[1]), self.actions[self._index(step, 0)[0]]] = 1.0
        return table

    def act(self, step: int, state: int, generator: np.random.Generator) -> int:
        return int(self.actions[self._index(step, state)])

    def _row(self, step: int, state: int) -> Float:
        row = np.zeros(self.num_actions)
        row[self.actions[step, state]] = 1.0
        return row

    def _add_occupation(self, mdp: ConstrainedMDP, weight: float, rho: Float) -> None:
        kernels.occupation_deterministic(*mdp.graph, mdp.initial, mdp.pair_rows, self.actions, weight, rho)

    def _check_actions(self, mdp: ConstrainedMDP) -> None:
        _check_played(self.actions, mdp)

    def _arrays(self) -> dict[str, Any]:
        return {"actions": self.actions, "num_actions": np.int64(self.num_actions)}


class SparsePolicy(Policy):
    """A Markov policy of a large model, by its most likely actions and the places where it mixes.

    `modes` [H, S]: the most likely action, of equal ones the first. `places` [m], rising: step * S + state of those
    where it mixes, and `rows` [m, A] what it plays there. `probabilities` [H, S, A] is made whenever it is asked for;
    `step_probabilities(step)` gives those of one step.
    """

    modes: NDArray[np.integer[Any]]
    places: Int
    rows: Float

    def __init__(self, modes: ArrayLike, places: ArrayLike, rows: ArrayLike) -> None:
        mixed = np.array(float_array(rows, "rows"))
        at = any_array(places, "places")
        if mixed.ndim != 2 or at.shape != mixed.shape[:1] or at.dtype.kind not in "iu":
            raise ModelError(
                f"places has shape {at.shape} and rows {mixed.shape}; expected whole numbers (m,), and (m, A)"
            )
        usual = Deterministic(modes, mixed.shape[1]).actions
        at = at.astype(np.int64)
        if at.size and not (at[0] >= 0 and at[-1] < usual.size and (np.diff(at) > 0).all()):
            raise ModelError(f"places must rise, in 0..{usual.size - 1}")
        Policy(mixed[None])  # distributions
        if (mixed.argmax(axis=1) != usual.reshape(-1)[at]).any():
            raise ModelError("modes are not the most likely actions of rows")
        vars(self).update(vars(SparsePolicy._trusted_parts(usual, at, mixed)))

    @classmethod
    def _trusted_parts(cls, modes: NDArray[Any], places: Int, rows: Float) -> SparsePolicy:
        """Of arrays that are known to make a policy, and that nobody else has."""
        policy = cls.__new__(cls)
        for array in (modes, places, rows):
            array.flags.writeable = False
        policy.modes, policy.places, policy.rows = modes, places, rows
        policy.shape = (*modes.shape, rows.shape[1])
        return policy

    @classmethod
    def _mixed(cls, weights: Float, policies: Sequence[Deterministic], mdp: ConstrainedMDP) -> SparsePolicy:
        """The Markov form of a mixture: the same bits as of `Policy._markov`, step by step."""
        H, S, A = policies[0].shape
        heaviest = int(np.argmax(weights))
        modes = np.empty((H, S), dtype=np.result_type(*(policy.actions for policy in policies)))
        places, rows = [], []
        now, then = np.tile(mdp.initial, (len(policies), 1)), np.empty((len(policies), S))
        room = np.empty(S, dtype=np.int64)
        for h in range(H):
            played = np.stack([policy.actions[h] for policy in policies])
            count = kernels.mixed_states(weights, played, now, heaviest, modes[h], room)
            own = np.empty((count, A))
            kernels.mixed_rows(weights, played, now, room[:count], modes[h], own)
            places.append(room[:count] + h * S)
            rows.append(own)
            if h + 1 < H:
                for i in range(len(policies)):
                    kernels.push(*mdp.graph, mdp.action, played[i], now[i], then[i])
                now, then = then, now
        return cls._trusted_parts(modes, np.concatenate(places), np.concatenate(rows))

    @property
    def probabilities(self) -> Float:
        table = np.concatenate([self.step_probabilities(h)[None] for h in range(self.shape[0])])
        table.flags.writeable = False
        return table

    def step_probabilities(self, step: int) -> Float:
        h, S = self._index(step, 0)[0], self.shape[1]
        table = np.zeros(self.shape[1:])
        table[np.arange(S), self.modes[h]] = 1.0
        begin, end = np.searchsorted(self.places, (h * S, (h + 1) * S))
        table[self.places[begin:end] - h * S] = self.rows[begin:end]
        return table

    @property
    def mode(self) -> NDArray[np.integer[Any]]:
        return self.modes

    def act(self, step: int, state: int, generator: np.random.Generator) -> int:
        h, s = self._index(step, state)
        i = self._mixes(h, s)
        return int(self.modes[h, s]) if i < 0 else int(draw(self.rows[i], read_generator(generator).random()))

    def _row(self, step: int, state: int) -> Float:
        i = self._mixes(step, state)
        row = np.zeros(self.shape[2]) if i < 0 else self.rows[i].copy()
        if i < 0:
            row[self.modes[step, state]] = 1.0
        return row

    def _mixes(self, step: int, state: int) -> int:
        """Which of `places` this is, -1 for none."""
        place = int(step) * self.shape[1] + int(state)
        i = int(np.searchsorted(self.places, place))
        return i if i < self.places.size and self.places[i] == place else -1

    def _add_occupation(self, mdp: ConstrainedMDP, weight: float, rho: Float) -> None:
        kernels.occupation_sparse(*mdp.graph, mdp.initial, mdp.action, self.modes, self.places, self.rows, weight, rho)

    def _check_actions(self, mdp: ConstrainedMDP) -> None:
        _check_played(self.modes, mdp)
        h, s = np.divmod(self.places, self.shape[1])
        missing = (self.rows > 0.0) & ~mdp.playable[h if mdp.step_dependent else 0, s]
        for i, a in np.argwhere(missing)[:1].tolist():
            raise missing_action(mdp, int(h[i]), int(s[i]), a)

    def _arrays(self) -> dict[str, Any]:
        return {"modes": self.modes, "places": self.places, "rows": self.rows}


class Null(Policy):
    """The null action of the knapsack setting: the episode is not played, which pays and costs nothing."""

    def __init__(self, horizon: int, num_states: int, num_actions: int) -> None:
        check_sizes(num_states, num_actions)
        self.shape = (read_horizon(horizon), num_states, num_actions)

    @property
    def probabilities(self) -> Float:
        raise ModelError("the null policy plays nothing: skip the episode")

    def act(self, step: int, state: int, generator: np.random.Generator) -> int:
        raise ModelError("the null policy plays nothing: skip the episode")

    def _columns(self, mdp: ConstrainedMDP | None) -> dict[str, Any]:
        """None of them has an entry."""
        return self._entries(mdp, np.zeros((1, 1, 1)), None if mdp is None else np.zeros((1, 1)))

    def _add_occupation(self, mdp: ConstrainedMDP, weight: float, rho: Float) -> None:
        pass

    def _check_actions(self, mdp: ConstrainedMDP) -> None:
        pass


def planned_places(mdp: ConstrainedMDP) -> Bool:
    """[H, S], or [1, S] without a horizon: where a plan says what is best. Elsewhere nobody can be, by the model.

    An estimate may err on that: its plans are for all states that have actions.
    """
    if mdp._visits is not None:
        exists = mdp.available.any(axis=-1).reshape(-1, mdp.num_states)
        return np.broadcast_to(exists, (mdp.horizon if mdp.step_dependent else mdp.repeats, mdp.num_states))
    if not isinstance(mdp.horizon, Criterion):
        return mdp.reached
    reached = np.zeros((1, mdp.num_states), dtype=bool)
    reached[0, Reachable.of(mdp).order] = True
    return reached


def _told(mdp: ConstrainedMDP) -> Bool | None:
    """[H, S]: what a file says something about; None if about everything."""
    ends = mdp._log is not None and mdp._log.end >= 0
    if isinstance(mdp.horizon, Criterion) or not (ends or mdp.step_dependent):
        return None
    told = mdp.reached.copy() if mdp.step_dependent else np.ones((mdp.horizon, mdp.num_states), dtype=bool)
    if mdp._log is not None and ends:
        told[:, mdp._log.end] = False
    return told


def _every_action(rows: list[list[Any]], actions: Sequence[str]) -> list[list[Any]]:
    """The rows of a CSV file with one for every action in the first state."""
    first = rows[1][:-2]
    played = {row[-2]: row[-1] for row in rows[1:] if row[:-2] == first}
    every = [[*first, action, played.get(action, 0.0)] for action in actions]
    return [rows[0], *every, *rows[1 + len(played) :]]


def _named(names: Sequence[str], places: Int) -> list[str]:
    return [names[i] for i in places.tolist()]


def _check_played(actions: NDArray[np.integer[Any]], mdp: ConstrainedMDP) -> None:
    """Refuse actions [H, S] that do not exist."""
    states = np.arange(mdp.num_states)
    playable = mdp.playable
    for h, row in enumerate(actions):
        missing = np.flatnonzero(~playable[h if mdp.step_dependent else 0, states, row])
        if missing.size:
            raise missing_action(mdp, h, int(missing[0]), int(row[missing[0]]))


def missing_action(mdp: ConstrainedMDP, step: int | None, state: int, action: int) -> ModelError:
    then = "" if step is None else f" at step {step}"
    return ModelError(
        f"policy plays action {mdp.action_name(action)!r} in state {mdp.state_name(state)!r}{then}; "
        "that action does not exist there"
    )

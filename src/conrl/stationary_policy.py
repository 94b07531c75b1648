"""Policies that do the same at every step ([S, A]), of models without a horizon."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl import kernels
from conrl._types import Float, Int
from conrl.arguments import any_array, float_array, is_int, read_generator
from conrl.errors import ModelError, shown
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.mdp import need_model
from conrl.model.occupation import occupation, recurrent
from conrl.policy import Deterministic, Policy, missing_action
from conrl.sampling import draw


class Stationary(Policy):
    """A policy that does the same at every step: `probabilities` [S, A], for models without a horizon.

    `actions` [S], where it is deterministic, else None. Its `shape` is that of a policy of one step.
    """

    actions: NDArray[np.int16] | None

    def __init__(self, probabilities: ArrayLike) -> None:
        table = float_array(probabilities, "policy")
        if table.ndim != 2:
            raise ModelError(f"policy has shape {table.shape}; a stationary one has (S, A)")
        vars(self).update(vars(Policy(table[None])), actions=None)

    @classmethod
    def of_actions(cls, actions: ArrayLike, num_actions: int) -> Stationary:
        """The deterministic one that plays actions [S]."""
        table = any_array(actions, "actions")
        if table.ndim != 1:
            raise ModelError(f"actions has shape {table.shape}; those of a stationary policy have (S,)")
        return cls._trusted_actions(Deterministic(table[None], num_actions).actions[0].copy(), num_actions)

    @classmethod
    def _trusted_actions(cls, actions: NDArray[np.int16], num_actions: int) -> Stationary:
        policy = cls.__new__(cls)
        actions.flags.writeable = False
        policy.actions, policy.shape = actions, (1, actions.size, num_actions)
        return policy

    @property
    def most_probable(self) -> Policy:
        return Stationary.of_actions(self.mode, self.shape[2])

    @classmethod
    def _trusted(cls, table: Float) -> Stationary:
        policy = cls.__new__(cls)
        table.flags.writeable = False
        policy._probabilities, policy.shape, policy.actions = table[None], (1, *table.shape), None
        return policy

    @cached_property
    def _probabilities(self) -> Float:  # type: ignore[override]
        """[1, S, A]; made of the actions when first asked for."""
        assert self.actions is not None
        table = np.zeros(self.shape)
        table[0, np.arange(self.actions.size), self.actions] = 1.0
        table.flags.writeable = False
        return table

    @property
    def probabilities(self) -> Float:
        """[S, A]."""
        table: Float = self._probabilities[0]
        return table

    def __repr__(self) -> str:
        return f"Stationary(states={self.shape[1]}, actions={self.shape[2]})"

    @property
    def mode(self) -> NDArray[np.integer[Any]]:
        """[S]: the most likely action, of equal ones the first."""
        table: Int = np.argmax(self.probabilities, axis=1)
        return table if self.actions is None else self.actions

    def act(self, step: int, state: int, generator: np.random.Generator) -> int:
        """Draw the action for a state; the step does not matter."""
        h, s = self._index(step, state)
        return (
            int(draw(self._row(h, s), read_generator(generator).random()))
            if self.actions is None
            else int(self.actions[s])
        )

    def _index(self, step: Any, state: Any) -> tuple[int, int]:
        if not (is_int(step) and step >= 0):
            raise ModelError(f"step is {shown(step)}; steps count from 0")
        if not (is_int(state) and 0 <= state < self.shape[1]):
            raise ModelError(f"state is {shown(state)}; the policy has states 0..{self.shape[1] - 1}")
        return step, state

    def step_probabilities(self, step: int) -> Float:
        self._index(step, 0)
        return self.probabilities

    def _row(self, step: int, state: int) -> Float:
        row: Float = self.probabilities[state]
        return row

    def occupation(self, mdp: ConstrainedMDP) -> Float:
        """[S, A]: discounted visits, expected visits, or the share of steps in the long run, by the criterion."""
        need_model(mdp, "occupation")
        rho = np.zeros((1, mdp.num_pairs))
        self.add_occupation(mdp, 1.0, rho)
        full = np.zeros((mdp.num_states, mdp.num_actions))
        full[mdp.pair_state, mdp.action] = rho[0]
        return full

    def _add_occupation(self, mdp: ConstrainedMDP, weight: float, rho: Float) -> None:
        rho[0] += weight * occupation(mdp, self._shares(mdp))

    def _markov(self, weights: Float, policies: Sequence[Policy], mdp: ConstrainedMDP) -> Policy:
        """The stationary policy of the sum of the occupations: not always of the same value (`Plan.policy`)."""
        rho = np.zeros((1, mdp.num_pairs))
        for weight, policy in zip(weights, policies, strict=True):
            policy.add_occupation(mdp, float(weight), rho)
        table = np.zeros((1, mdp.num_states, mdp.num_actions))
        kernels.markov(mdp.graph.first, mdp.action, rho, self.mode.reshape(1, -1), table)
        return Stationary._trusted(table[0])

    def stays(self, mdp: ConstrainedMDP) -> NDArray[np.bool_]:
        """[S]: the states that the policy comes to and keeps coming back to."""
        self.check(mdp)
        return recurrent(mdp, self._shares(mdp))

    def _shares(self, mdp: ConstrainedMDP) -> Float:
        """[P]: how likely each pair is in its state."""
        if self.actions is None:
            shares: Float = self.probabilities[mdp.pair_state, mdp.action]
        else:
            shares = (self.actions[mdp.pair_state] == mdp.action).astype(np.float64)
        return shares

    def check(self, mdp: ConstrainedMDP) -> None:
        """Refuse a model with a horizon, one of another shape, and actions that do not exist in it."""
        if not isinstance(mdp.horizon, Criterion):
            raise ModelError(
                f"the policy is stationary, and the model has {mdp.horizon} steps; "
                "give the model a criterion, such as mdp.replace(horizon=conrl.Discounted(0.95))"
            )
        if self.shape[1:] != (mdp.num_states, mdp.num_actions):
            raise ModelError(
                f"policy has {self.shape[1]} states and {self.shape[2]} actions; the model has "
                f"{mdp.num_states} and {mdp.num_actions}"
            )
        if mdp.num_pairs < mdp.num_states * mdp.num_actions:
            played = (self.probabilities > 0.0) & ~mdp.available
            if played.any():
                s, a = (int(x) for x in np.argwhere(played)[0])
                raise missing_action(mdp, None, s, a)

    def _columns(self, mdp: ConstrainedMDP | None) -> dict[str, Any]:
        visits = None if mdp is None else self.occupation(mdp).sum(axis=1)[None]
        columns = self._entries(mdp, self._probabilities, visits)
        del columns["step"]
        return columns

    def _table(
        self, states: Sequence[str], actions: Sequence[str], reached: NDArray[np.bool_] | None
    ) -> list[list[Any]]:
        table = self.probabilities
        played = [[states[s], actions[a], float(table[s, a])] for s, a in np.argwhere(table > 0.0)]
        return [["state", "action", "probability"], *played]

    def _arrays(self) -> dict[str, Any]:
        if self.actions is not None:
            return {"actions": self.actions, "num_actions": np.int64(self.shape[2])}
        return {"probabilities": self.probabilities}

"""Mixtures: one policy is drawn at the start of an episode and played to its end.

In the model it was planned in, a mixture has the same value as the Markov policy with the same occupation measure rho,

    pi(a | s, h) = rho(h, s, a) / sum_a' rho(h, s, a')

(Altman 1999, Theorem 6.1), which `Mixture.to_markov` computes; in another model the two may differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import float_array, read_generator
from conrl.errors import ModelError, shown
from conrl.model import ConstrainedMDP
from conrl.model.mdp import need_model
from conrl.model.reading import default_cost_names
from conrl.notebook import Display, Displayed, frame_of
from conrl.policy import SUM_TOLERANCE, Policy
from conrl.sampling import draw


class Mixture(Displayed):
    """Policies with weights; one is drawn at the start of each episode.

    `values` [n, 1+d], where known, are the value vectors (reward, costs) of the components.
    """

    def __init__(self, weights: ArrayLike, policies: Sequence[Policy], values: ArrayLike | None = None) -> None:
        self.weights = np.array(float_array(weights, "weights"))
        if not isinstance(policies, (list, tuple)) or not all(isinstance(policy, Policy) for policy in policies):
            raise ModelError(f"policies is {shown(policies)}; expected a list of policies")
        self.policies: tuple[Policy, ...] = tuple(policies)
        self.values = None if values is None else np.array(float_array(values, "values"))
        if self.weights.shape != (len(self.policies),) or not self.policies:
            raise ModelError(f"{self.weights.size} weights for {len(self.policies)} policies")
        if not (self.weights >= 0.0).all() or abs(self.weights.sum() - 1.0) > SUM_TOLERANCE:
            raise ModelError(f"weights {self.weights} must be at least 0 and sum to 1")
        if len({p.shape for p in self.policies}) != 1:
            raise ModelError("the policies of a mixture must have one shape")

    @classmethod
    def _known(cls, weights: Float, policies: Sequence[Policy], values: Float) -> Mixture:
        """Of weights and policies that are known to fit."""
        mixture = cls.__new__(cls)
        mixture.weights, mixture.policies, mixture.values = weights, tuple(policies), values
        return mixture

    def __repr__(self) -> str:
        few = f"weights={' '.join(str(self.weights).split())}, " if self.weights.size <= 8 else ""
        return f"Mixture({few}policies={len(self.policies)})"

    def _display(self) -> Display:
        columns: dict[str, Any] = {"policy": np.arange(len(self.policies)), "weight": self.weights}
        if self.values is not None:
            columns |= dict(zip(("reward", *default_cost_names(self.values.shape[1] - 1)), self.values.T, strict=True))
        return Display(f"Mixture of {len(self.policies)} policies, one drawn for each episode", columns)

    def to_frame(self, mdp: ConstrainedMDP | None = None, library: str | None = None) -> Any:
        """A data frame: that of each policy (`Policy.to_frame`), after its number `policy` and its `weight`."""
        if mdp is not None:
            need_model(mdp, "to_frame")
            for policy in self.policies:
                policy.check(mdp)
        return frame_of(mixed_columns(self.weights, [policy._columns(mdp) for policy in self.policies]), library)

    def draw(self, generator: np.random.Generator) -> Policy:
        """The component to play in one episode."""
        return self.policies[int(draw(self.weights, read_generator(generator).random()))]

    def to_markov(self, mdp: ConstrainedMDP) -> Policy:
        """The Markov policy with the same occupation measure in `mdp`; where nobody comes, the heaviest part's
        most likely action."""
        need_model(mdp, "to_markov")
        if len(self.policies) == 1:
            return self.policies[0]
        heaviest = self.policies[int(np.argmax(self.weights))]
        counting = next((policy for policy in self.policies if policy.acts_on_spent), heaviest)
        return counting._markov(self.weights, self.policies, mdp)


class Part(NamedTuple):
    """A policy, and how often it is played."""

    weight: float
    policy: Policy


def parts_of(policy: Policy | Mixture) -> list[Part]:
    """The policies that are played, each with its weight."""
    if isinstance(policy, Policy):
        return [Part(1.0, policy)]
    return list(map(Part, policy.weights.tolist(), policy.policies))


def mixed_columns(weights: Float, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of several policies, one below the other."""
    sizes = [len(part["probability"]) for part in parts]
    own = {"policy": np.repeat(np.arange(len(parts)), sizes), "weight": np.repeat(weights, sizes)}
    titles = list(dict.fromkeys(title for part in parts for title in part))
    return own | {
        title: [x for part, size in zip(parts, sizes, strict=True) for x in part.get(title, [np.nan] * size)]
        for title in titles
    }

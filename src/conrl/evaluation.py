"""What a policy is worth, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from conrl._types import Float
from conrl.errors import ModelError
from conrl.mixture import Mixture, Part, parts_of
from conrl.model import ConstrainedMDP
from conrl.model.mdp import need_model
from conrl.model.reading import default_cost_names
from conrl.notebook import Columns, Display, Displayed, Framed, Plotted
from conrl.policy import Policy
from conrl.wording import line, totals


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Displayed, Framed, Plotted):
    """The total reward and costs of an episode, as `reward, costs`: their expectation, or another measure of them.

    As a data frame: `total` ("reward", or the name of a cost) and `value`, a row for each.
    """

    value: Float  # [1+d]: reward first
    cost_names: tuple[str, ...] = ()  # [d], where they are known

    @property
    def reward(self) -> float:
        """The first entry of `value`."""
        return float(self.value[0])

    @property
    def costs(self) -> Float:
        """[d]: the other entries."""
        return self.value[1:]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.reward, self.costs))

    @property
    def names(self) -> tuple[str, ...]:
        """[1+d]: "reward", then those of the costs; where these are unknown, some."""
        return "reward", *(self.cost_names or default_cost_names(self.value.size - 1))

    def __repr__(self) -> str:
        return line(self, totals(self.names, self.value.tolist()))

    def _columns(self) -> Columns:
        return {"total": self.names, "value": self.value}

    def _display(self) -> Display:
        return Display("Evaluation", self._columns())


def evaluate(mdp: ConstrainedMDP, policy: Any) -> Evaluation:
    """The exact expected reward and costs of a policy under the mean model (a bonus is not counted).

    `policy` is a `Policy`, a `Mixture`, or a `Plan`, of which the policy is taken (episodes that it skips count as
    zero).
    """
    need_model(mdp, "evaluate")
    played, skip, _ = unwrapped(policy)
    parts = parts_of(played)
    for part in parts:
        part.policy.check(mdp)
    return Evaluation((1.0 - skip) * expected_totals(mdp, parts), tuple(mdp.cost_names))


def expected_totals(mdp: ConstrainedMDP, parts: Iterable[Part]) -> Float:
    """[1+d]: the value vector of policies that were checked, each with its weight."""
    rho = np.zeros((1, mdp.num_pairs))
    for weight, policy in parts:
        policy._add_occupation(mdp, weight, rho)
    value: Float = rho[0] @ mdp.pay
    return value


def unwrapped(given: Any) -> tuple[Policy | Mixture, float, Any]:
    """What is played, the probability of skipping an episode, and the limits (a `Linear`) where a plan has them."""
    if isinstance(given, (Policy, Mixture)):
        return given, 0.0, None
    try:
        policy, skip, linear = given.policy, given.skip, given.linear  # of a plan
    except AttributeError:
        raise ModelError(
            f"expected a Policy, a Mixture or a Plan, not {type(given).__name__}; see conrl.Policy"
        ) from None
    return policy, skip, linear

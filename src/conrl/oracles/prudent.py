"""What a policy is worth at best and by the estimate, and what it costs at worst.

A confidence set of transitions around an estimate (`oracles.extended`). For a policy pi

    R(pi)     = max over the transitions of the set of its reward, with upper rewards
    R_hat(pi) = its reward in the estimate
    U_i(pi)   = max over the transitions of the set of its cost i, with upper costs

Each maximum has its own transitions, and may choose them anew at every step. That is one pass backward
(`kernels.prudence`), and exact: if the truth lies in the set, the reward of pi is at most R, and its cost i at most
U_i.

`greedy` finds a policy with a large sum of weights times these. The action with the largest sum of weights_j Q_j is
taken, which is best at each step for what follows, not over all policies: what the transitions of a bound are depends
on its own values alone. Only what the policy is worth is claimed, and that is exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Float
from conrl.model.reading import ROW_SUM_TOLERANCE
from conrl.oracles.extended import ExtendedBackwardInduction
from conrl.oracles.protocols import TIE
from conrl.policy import Deterministic
from conrl.rounding import HALF_ULP


class Worth(NamedTuple):
    """Of a policy, as computed: `Prudent.error` says how far off `most` may be."""

    best: float  # R
    estimate: float  # R_hat
    most: Float  # [d]: U


class Prudent:
    """The values R, R_hat and U of policies.

    Args:
        oracle: the set; the pay of its model is the upper reward and the upper costs.
        reward: [P]: the estimated rewards.
        worst: [d]: what no policy can cost from any state on, where that is known; infinite where it is not.
    """

    def __init__(self, oracle: ExtendedBackwardInduction, reward: Float, worst: Float) -> None:
        self.mdp, self.num_costs = oracle.mdp, oracle.num_costs
        d, P, graph = self.num_costs, self.mdp.num_pairs, self.mdp.graph
        first, start, successor, _, _, _, _, many, _ = oracle._intervals
        nothing, none = np.zeros(graph.probability.size), np.zeros(P)
        exact = (first, start, successor, graph.probability.copy(), nothing, none, none.copy(), many, none.copy())
        self._sets = oracle._intervals, exact
        self._uses = np.array([0] * (1 + d) + [1])
        self._pay: Float = np.column_stack((self.mdp.pay, reward))
        self._caps: Float = np.concatenate(([np.inf], worst, [np.inf]))
        self._scale: Float = np.abs(self._pay).max(axis=0)
        H = self.mdp.horizon
        outcomes = int(np.diff(graph.start).max())
        # A step adds up a pair's outcomes and stretches of states between them, from sums over all states; these sums
        # are of what the outcomes and the mass that is moved could take, and so are their errors.
        each = (4 * (outcomes + self.mdp.num_states) + 2 * self.mdp.num_actions + 16) * (2 + outcomes)
        unit = 1.01 * HALF_ULP * math.exp(ROW_SUM_TOLERANCE * H) * H * each
        self.error: Float = unit * H * self._scale[1 : 1 + d]  # [d]: of U

    def greedy(self, weights: Float) -> tuple[Deterministic, Worth]:
        """A policy for the weights [2 + d] of R, U and R_hat, and what it is worth."""
        mdp = self.mdp
        choice = np.empty((mdp.horizon, mdp.num_states), dtype=np.int64)
        tie = TIE * mdp.horizon * float(np.abs(weights) @ self._scale)
        V = kernels.apart_backward(self._sets, self._uses, self._pay, self._caps, weights, tie, choice)
        pairs = mdp.graph.first[:-1] + choice
        policy = Deterministic._trusted_actions(mdp.action[pairs].astype(np.int16), mdp.num_actions)
        return policy, self._worth(V @ mdp.initial)

    def worth(self, likely: Float) -> Worth:
        """What a policy is worth that plays the pairs of each state as likely as `likely` [H, P] says."""
        V = kernels.apart_values(self._sets, self._uses, self._pay, self._caps, likely)
        return self._worth(V @ self.mdp.initial)

    def _worth(self, values: Float) -> Worth:
        return Worth(float(values[0]), float(values[-1]), values[1:-1].copy())

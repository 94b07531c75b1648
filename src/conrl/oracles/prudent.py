"""What a policy is worth at best, and what it costs at worst and at best: each bound over all models of a set of its own.

Two confidence sets of transitions around one estimate (`oracles.extended`), one that hope rests on and one that safety
rests on. For a policy pi

    R(pi)   = max over the transitions of the hopeful set of its reward, with upper rewards
    U_i(pi) = max over the transitions of the careful set of its cost i, with upper costs
    L_i(pi) = min over the transitions of the hopeful set of its cost i, with lower costs

Each takes its own transitions, and may choose them anew at every step. That is one pass backward (`kernels.prudence`),
and exact: it says nothing about the estimate, and if the truth lies in both sets, L_i <= cost i <= U_i and reward <= R.

`greedy` finds a policy with a large sum of weights times these. The action with the largest sum of weights_j Q_j is
taken, which is best at each step for what follows, not over all policies: what each bound's transitions are depends on
its own values alone. Only what the policy is worth is claimed, and that is exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Float
from conrl.oracles.extended import ExtendedBackwardInduction
from conrl.oracles.protocols import DRIFT, HALF_ULP, TIE
from conrl.policy import Deterministic


class Worth(NamedTuple):
    """Bounds on what a policy is worth, as computed: `Prudent.error` says how far off a cost may be."""

    reward: float  # R
    most: Float  # [d]: U
    least: Float  # [d]: L


class Prudent:
    """The bounds R, U and L of policies.

    Args:
        hopeful: the set that R and L are over; its pay is the upper reward and the lower costs.
        careful: the set that U is over; its pay is the reward, which is not read, and the upper costs. Of the same
            estimate.
    """

    def __init__(self, hopeful: ExtendedBackwardInduction, careful: ExtendedBackwardInduction) -> None:
        self.mdp, self.num_costs = careful.mdp, careful.num_costs
        d = self.num_costs
        self._sets = hopeful._intervals, careful._intervals
        self._uses = np.array([0] + [1] * d + [0] * d)
        upper = careful.mdp.pay[:, 1:]
        self._pay: Float = np.hstack((hopeful.mdp.pay[:, :1], upper, -hopeful.mdp.pay[:, 1:]))
        self._scale: Float = np.abs(self._pay).max(axis=0)
        H, graph = self.mdp.horizon, self.mdp.graph
        outcomes = int(np.diff(graph.start).max())
        # A step adds up a pair's outcomes and stretches of states between them, from sums over all states; these sums
        # are of what the outcomes and the mass that is moved could take, and so are their errors.
        each = (4 * (outcomes + self.mdp.num_states) + 2 * self.mdp.num_actions + 16) * (2 + outcomes)
        total = H * self._scale[1 : 1 + d]
        self.error: Float = 1.01 * HALF_ULP * math.exp(DRIFT * H) * H * each * total  # [d]: of U

    def greedy(self, weights: Float) -> tuple[Deterministic, Worth]:
        """A policy for the weights [1 + 2d] of R, U and -L, and its bounds."""
        mdp = self.mdp
        choice = np.empty((mdp.horizon, mdp.num_states), dtype=np.int64)
        tie = TIE * mdp.horizon * float(np.abs(weights) @ self._scale)
        V = kernels.apart_backward(self._sets, self._uses, self._pay, weights, tie, choice)
        pairs = mdp.graph.first[:-1] + choice
        policy = Deterministic._trusted_actions(mdp.action[pairs].astype(np.int16), mdp.num_actions)
        return policy, self._worth(V @ mdp.initial)

    def worth(self, likely: Float) -> Worth:
        """The bounds of a policy that plays the pairs of each state as likely as `likely` [H, P] says."""
        every = np.ones(self._uses.size, dtype=bool)
        return self._worth(kernels.apart_values(self._sets, self._uses, self._pay, likely, every) @ self.mdp.initial)

    def _worth(self, values: Float) -> Worth:
        d = self.num_costs
        return Worth(float(values[0]), values[1 : 1 + d].copy(), -values[1 + d :])

"""OptPess-LP: optimistic reward and pessimistic costs in the estimated model (Liu, Zhou, Kalathil, Kumar, Tian 2021).

Paper: "Learning Policies with Zero or Bounded Constraint Violation for Constrained MDPs", arXiv 2106.02684. Known is a
safe policy pi_0 with costs c_0 below the limits tau. With n = max(1, visits), the estimates p_hat, r_hat and c_hat, and
beta = sqrt(L_k / n), the paper plans in p_hat itself with

    c_tilde = c_hat + (1 + S H) beta                                                  pessimistic about costs
    r_bar   = r_hat + alpha beta,    alpha = 1 + S H + 4 H (1 + S H) / (tau - c_0)     optimistic about reward

If pi_0 itself has V_c_tilde(pi_0; p_hat) >= (tau + c_0) / 2, pi_0 is played; else the best policy of the linear program
in p_hat whose c_tilde is at most tau. Safe, since |p - p_hat|(t) <= beta for each of the S states t, and values
are at most H.

Where this comes from: the formulas as the published program of Bura et al. (2022) has them, which compares with this
method; they agree with the bound above. Deviations:

- L_k is that of OptCMDP (`learners.optcmdp`) and not the paper's logarithm; Hoeffding's inequality needs L_k / 2 only.
- Units of the ranges, and of several costs the least gap: as in `learners.dope`.
- Visits of all steps are counted together, unless the task depends on the step. START counts as a state and a step.
- A pair never visited is a self-loop in p_hat, and for r_hat and c_hat it has the most in their ranges.
- Column generation over backward induction in p_hat instead of a linear program; the Markov policy of its occupation
  measure is played. If there is no solution, which cannot be at scale 1 while the truth is in the set, pi_0 is.

`scale` multiplies beta, that of pairs never visited too; zero violation is proven at scale 1, which is the preset
"theory". Values are worth H S times beta here, so that at scale 1 nothing but pi_0 is ever played in practice. The
default, 1e-4, is there to see it learn. What `learners.dope` says of earning less than the safe policy holds here.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from conrl.arguments import frozen
from conrl.learners.optimistic import log_factor
from conrl.learners.pessimistic import MOST_BONUS, PessimisticLearner
from conrl.learners.replanning import Lottery
from conrl.mixture import Mixture
from conrl.oracles import exact_oracle
from conrl.planners.column_generation.search import Conflict


class OptPessLP(PessimisticLearner):
    """Pessimistic costs and optimistic reward in the estimated model; the safe policy until it looks safe there.

    Args: as those of `DOPE`.
    """

    name = "optpess-lp"
    summary = "plays a safe policy until a plan pessimistic about costs is feasible in the estimate"
    paper = "Liu et al. (2021)"
    settings = ("preset", "delta", "scale", "replan")
    presets: ClassVar = {"default": {"scale": 1e-4}, "theory": {"scale": 1.0}}

    def _plan_lottery(self) -> Lottery:
        """The plan with optimistic rewards and pessimistic costs, or the safe policy."""
        counts, task, rows = self.counts, self.task, self._rows
        moves, pays = self._unknown
        H, S = counts.horizon, counts.task.num_states + int(task.initial is None)
        L = log_factor(counts.task, self._k, self.delta)
        beta = np.where(moves, self.scale * np.sqrt(L / np.maximum(counts.visits, 1)), 0.0)
        means = np.where((pays & (counts.visits == 0))[:, None], task.ranges[:, 1], counts.means)
        pay = means + np.outer(beta, task.spread) * (1.0 + S * H)
        with np.errstate(over="ignore"):
            pay[:, 0] += task.spread[0] * np.minimum(beta * 4.0 * H * (1.0 + S * H) / self._gap, MOST_BONUS)
        model = counts.model(frozen(pay))
        own = self._value(self.safe, model)[1 + rows.cost]
        if (own >= (rows.bound + self.safe_costs[rows.cost]) / 2.0).any():
            return self._home()
        oracle = exact_oracle(model)
        try:
            best = self._best(oracle)
        except Conflict:
            return self._home()
        mixture = Mixture(best.weights / best.weights.sum(), [best.oracle.policy(w) for w in best.directions])
        return Lottery(np.ones(1), (self._of_task(mixture.to_markov(model)),))

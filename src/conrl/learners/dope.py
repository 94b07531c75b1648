"""DOPE: doubly optimistic and pessimistic exploration (Bura, HasanzadeZonuzy, Kalathil, Shakkottai, Chamberland 2022).

Paper: "DOPE: Doubly Optimistic and Pessimistic Exploration for Safe Reinforcement Learning", arXiv 2112.00885. Known is
a safe policy pi_b with costs C_b below the limits C. With OptCMDP's confidence set (`learners.optcmdp`), beta_p(t) the
radius of a transition, beta_l that of a reward or cost, the paper plans with

    c_bar = c_hat + beta_l + H sum_t beta_p(t)                                      pessimistic about costs
    r_bar = r_hat + 3 H / (C - C_b) beta_l + H^2 / (C - C_b) sum_t beta_p(t)         optimistic about reward

the best policy *and* the best transitions p' of the set (optimistic about the model) whose c_bar is at most C, and
plays that policy; where there is none, pi_b. Safe, since for p' and the truth p in the set

    V_c_bar(pi; p') - V_c(pi; p) = E_{pi, p'} sum_h [ (c_bar - c) + (p' - p).V_{h+1} ] >= 0

as p' and p differ by 2 beta_p(t), both add up to 1, and V_{h+1} varies by at most H times the range of a cost.

Where this comes from. The general formulas, with reward and costs unknown, are those of the paper's published program
(a comment in it); they agree with the bound above. Its experiments know more than a learner does: reward and costs, so
that beta_l = 0, and which states can follow a pair. Deviations:

- The radii are OptCMDP's here, constants and L_k included, so that nothing depends on the number of episodes. The
  program has ln(6 S^2 H K / delta) in place of L_k, sqrt(2 ln(6 S A H K / delta) / n) for beta_l and no beta_p above 1.
- In units of the ranges: H stands for H times the range of the cost in c_bar; in r_bar it is in units of the reward's
  range, and C - C_b the least of the costs' gaps, each in units of its cost's range. c_hat + beta_l is kept within the
  range, for reward too.
- Visits of all steps are counted together, unless the task depends on the step. States never seen are one state that
  stands for all of them. START, where the first state is unknown, takes a step of its own.
- The program is solved by column generation over `oracles.ExtendedBackwardInduction`; what is played is the Markov
  policy of the mixed occupation measure, as in the paper.
- The paper plays pi_b in K_0 episodes first; here pi_b is played as long as the program has no solution.

`scale` multiplies all radii, those of pairs never visited (n = 1) too; only the set of p' leaves these free, as in
OptCMDP. Zero violation is proven at scale 1, which is the preset "theory". The default, 0.001, was not tuned for safety
and is there to see the method learn.

It may earn far less than pi_0. Within the limit c_bar, r_bar pays H / (C - C_b) for each unit that an uncertain pair
costs, at any scale: more than real reward does. So as long as the radii are not small, the limit is spent on what is
uncertain, and the rest of the episode on what costs nothing (docs/how-to/safe-learning.md). It warns of that
(`learners.safe`).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from conrl.learners.confidence import transition_radii
from conrl.learners.pessimistic import MOST_BONUS, PessimisticLearner
from conrl.learners.replanning import Lottery
from conrl.planners.column_generation.search import Conflict


class DOPE(PessimisticLearner):
    """Pessimistic costs, optimistic reward and optimistic transitions, in one program.

    Args:
        task: what is known (`mdp.task`, or `Task`).
        safe: a policy that is known to be safe.
        safe_costs: what it costs at most in expectation, by name or position; below the limits.
        problem: limits, or `Linear` with limits only; the task's by default.
        preset: `"theory"`: scale 1, with which no episode exceeds a limit in expectation, with probability at least
            1 - delta; `"default"`: a scale with which it learns in reasonable time.
        delta: the failure probability at scale 1.
        scale: multiplies every radius, that of pairs never visited too; overrides the preset.
        replan: plan before each `"episode"`, or when the visits of some pair have doubled (`"doubling"`).
        seed: it draws nothing itself; for the world it is played in.
        keep_policies: remember what was executed, for `average_policy`. Every plan has another table [H, S, A], so that
            this needs memory; it is off by default.
    """

    name = "dope"
    summary = "plays a safe policy until a plan pessimistic about costs, optimistic about the rest, is feasible"
    paper = "Bura et al. (2022)"
    settings = ("preset", "delta", "scale", "replan")
    presets: ClassVar = {"default": {"scale": 1e-3}, "theory": {"scale": 1.0}}

    def _plan_lottery(self) -> Lottery:
        known, task = self._known(self.scale), self.task
        H, width, gap = self.counts.horizon, task.spread, self._gap
        listed, others = transition_radii(known.model.graph, known.visits, known.log, self.scale)
        spread = np.add.reduceat(listed, known.model.graph.start[:-1]) + others * known.unlisted
        spread = np.where(known.moves, spread, 0.0)
        own = self.scale * np.sqrt(known.log / (2.0 * np.maximum(known.visits, 1)))
        own = np.where((known.high > known.low).any(axis=1), own, 0.0)  # START and END pay nothing
        pay = known.high.copy()
        with np.errstate(over="ignore"):
            pay[:, 0] += width[0] * np.minimum((3.0 * H * own + H**2 * spread) / gap, MOST_BONUS)
        pay[:, 1:] += width[1:] * H * spread[:, None]
        oracle = known.oracle(pay)
        try:
            best = self._best(oracle)
        except Conflict:
            return self._home()
        policy = self._of_task(oracle.markov(best.weights / best.weights.sum(), best.directions))
        return Lottery(np.ones(1), (policy,))

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
(a comment in it; its experiments take reward and costs as known, and then beta_l = 0); they agree with the bound above.
Deviations:

- The radii are OptCMDP's here, constants and L_k included, so that nothing depends on the number of episodes. The paper
  has ln(6 S^2 H K / delta) (program) in place of L_k, and sqrt(2 ln(6 S A H K / delta) / n) for beta_l.
- In units of the ranges: H stands for H times the range of the cost in c_bar; in r_bar it is in units of the reward's
  range, and C - C_b the least of the costs' gaps, each in units of its cost's range. c_hat + beta_l is kept within the
  range, for reward too.
- Visits of all steps are counted together, unless the task depends on the step. States never seen are one state that
  stands for all of them. START, where the first state is unknown, takes a step of its own.
- The program is solved by column generation over `oracles.ExtendedBackwardInduction`; what is played is the Markov
  policy of the mixed occupation measure, as in the paper.
- The paper plays pi_b in K_0 episodes first; here pi_b is played as long as the program has no solution.

`scale` multiplies all radii; zero violation is proven at scale 1, which is the preset "theory". The default, 0.001, was
not tuned for safety and is there to see the method learn.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from conrl._types import Float
from conrl.errors import SpecError
from conrl.learners.confidence import transition_radii
from conrl.learners.replanning import Lottery
from conrl.learners.safe import SafeLearner
from conrl.learners.warm import WarmLearner
from conrl.model import Task
from conrl.model.limits import Limits
from conrl.planners.column_generation.search import Conflict
from conrl.policy import Policy
from conrl.problem import Problem, Rows

MOST_SCALE = 1e6
MOST_BONUS = 1e12  # times the range of the reward: what a gap of next to nothing is worth at most


class PessimisticLearner(WarmLearner, SafeLearner):
    """Plays a safe policy until a pessimistic plan keeps the limits, and that plan then."""

    strictly = True

    def __init__(
        self,
        task: Task,
        *,
        safe: Policy,
        safe_costs: Limits,
        problem: Problem | Limits | None = None,
        preset: str = "default",
        delta: float = 0.05,
        scale: float | None = None,
        replan: str = "episode",
        seed: int | None = None,
        keep_policies: bool = False,
    ) -> None:
        super().__init__(task, problem, safe, safe_costs, replan, seed, keep_policies)
        self._choose(preset, delta, scale=scale)
        if self.scale > MOST_SCALE:
            raise SpecError(
                f"scale is {self.scale:g}; the proof needs 1, and {MOST_SCALE:g} is the most", key=("scale",)
            )

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        super()._change_problem(problem, rows)
        self._forget_start(rows)

    @property
    def _gap(self) -> float:
        """The least gap between a limit and what the safe policy costs, in units of the cost's range; 1 without any."""
        rows = self._rows
        width = np.where(self.task.spread[1 + rows.cost] > 0.0, self.task.spread[1 + rows.cost], 1.0)
        gap: Float = (rows.bound - self.safe_costs[rows.cost]) / width
        return float(gap.min(initial=1.0)) if rows.size else 1.0

    def _home(self) -> Lottery:
        self._next = self._start
        return Lottery(np.ones(1), (self.safe,), home=True)

    @property
    def prices(self) -> Float | None:
        """Of the plan; None while the safe policy is played."""
        return None if self._lottery is None or self._lottery.home else super().prices


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
        scale: multiplies every radius; overrides the preset.
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
        own = np.where(known.visits > 0, self.scale, 1.0) * np.sqrt(known.log / (2.0 * np.maximum(known.visits, 1)))
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

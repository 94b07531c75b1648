"""OptCMDP: optimism by a confidence set over transitions (Efroni, Mannor and Pirotta 2020, Section 3).

Paper: "Exploration-Exploitation in Constrained MDPs", arXiv 2003.02189. Before episode k, with n(s, a) visits so far,
n = max(1, n(s, a)), the estimates p_hat, r_hat and c_hat, and `scale` = 1, the true model lies with probability at
least 1 - delta, for all k at once, in

    |p(t|s, a) - p_hat(t|s, a)| <= sqrt( 4 p_hat (1 - p_hat) L_k / n ) + 14 L_k / (3 n)          for every state t
    |r(s, a) - r_hat(s, a)|     <= (the range of r) sqrt( L_k / (2 n) ), and r(s, a) within its range; each cost too
    L_k = ln( 8 S A (S + 1 + d) (H k)^2 / delta )

and the policy played is optimal, within the limits, for the best model of that set.

Where this comes from. The paper gives the radii up to constants and logarithms (so others implement it; its text was
not at hand),

    sqrt( p_hat (1 - p_hat) / n ) + 1 / n     for a transition,          sqrt( 1 / n )     for a reward or a cost

and the constants and L_k above are derived, not the paper's own. The first line is that of Maurer and Pontil (2009,
Theorem 4), sqrt(2 v L / n) + 7 L / (3 (n - 1)) with v = p_hat (1 - p_hat) n / (n - 1), and n - 1 >= n / 2 from two
visits on; with fewer it says nothing, as it exceeds 1. The second is Hoeffding's inequality. The union is over
S A (S + 1 + d) quantities and the counts n = 1..H(k - 1), to which delta / (2 n^2) and less is allotted; the sum of
1 / (2 n^2) is below 1. Deviations from the paper:

- L grows with k; the paper has the number of all episodes, K, which is not known beforehand. Logged episodes that were
  learned from count in k, as their visits do in n.
- Models here do not change with the step: visits of all steps are counted together. The best model may differ from step
  to step all the same, as in the paper's program; that only widens the set.
- The program is solved by column generation over `oracles.ExtendedBackwardInduction` instead of as an LP with S^2 A H
  variables. The plan is a mixture of at most d + 1 deterministic policies, each with its own model of the set. What is
  played is the Markov policy of the mixed occupation measure, as in the paper; or one of them, drawn each episode.
- If no model of the set keeps the limits, which a small scale allows, the plan exceeds them least and is marked so.
- A pair never visited may lead anywhere and pay anything within the ranges, whatever the scale.
- States never seen are alike: they are one state of the program, ELSEWHERE, that stands for all of them.

`scale` multiplies all radii. At 1 they prove the statement above, and are far too wide to be useful: L_k is about 35,
so that a pair seen 160 times may still lead anywhere. The default, 3e-5, was chosen by measurement: 600 episodes of
Mars rover and Box, three seeds, come to the optimum from 1e-5 to 3e-5; at 1e-4 Box is 2% short, at 1e-3 (one seed) 28%.
A scale this small nearly trusts a single visit: raise it where one unlucky outcome may hide a good action.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from conrl.arguments import read_choice
from conrl.learners.confidence import ConfidenceSet, confidence_set
from conrl.learners.optimistic import OptimisticLearner
from conrl.learners.replanning import PLAYS, Lottery
from conrl.learners.warm import WarmLearner
from conrl.model import Task
from conrl.model.limits import Limits
from conrl.oracles.extended import ExtendedBackwardInduction
from conrl.planners.column_generation.search import Conflict
from conrl.policy import Policy
from conrl.problem import Problem, Rows


class OptCMDP(WarmLearner, OptimisticLearner):
    """Plan in the best model of a confidence set: `propose` a policy, play it, `observe` the episode.

    Args:
        task: what is known (`mdp.task`, or `Task`).
        problem: `Linear`; the task's limits by default.
        preset: `"default"`: a practical scale; `"theory"`: scale 1.
        delta: the failure probability of the confidence set at scale 1.
        scale: multiplies the radii of what was visited; overrides the preset.
        play: the `"markov"` form of the plan, or one policy of the `"mixture"`, drawn each episode.
        replan: plan before each `"episode"`, or when the visits of some pair have doubled (`"doubling"`).
        seed: of the draws from mixtures; `learn` gives it its own if there is none.
        keep_policies: remember what was executed, for `average_policy`.
    """

    name = "optcmdp"
    summary = "optimism by a confidence set over transitions, planned exactly"
    paper = "Efroni, Mannor and Pirotta (2020)"
    settings = ("preset", "delta", "scale", "play", "replan")
    unsaid: ClassVar = {"play": "mixture", "replan": "episode"}
    presets: ClassVar = {"default": {"scale": 3e-5}, "theory": {"scale": 1.0}}

    def __init__(
        self,
        task: Task,
        *,
        problem: Problem | Limits | None = None,
        preset: str = "default",
        delta: float = 0.05,
        scale: float | None = None,
        play: str = "markov",
        replan: str = "episode",
        seed: int | None = None,
        keep_policies: bool = True,
    ) -> None:
        super().__init__(task, problem, seed, keep_policies)
        self._choose(preset, delta, scale=scale)
        self._choose_replan(replan)
        self.play = read_choice(play, "play", PLAYS)

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        self._forget_start(rows)
        self._lottery = None

    # -- deciding -----------------------------------------------------------------------------------------

    def oracle(self) -> ExtendedBackwardInduction:
        """The confidence set before the coming episode, as an oracle of its value vectors."""
        known = self.known()
        return known.oracle((known.low + known.high) / 2.0, (known.high - known.low) / 2.0)

    def known(self) -> ConfidenceSet:
        """The confidence set before the coming episode."""
        return confidence_set(self.task, self.counts, self._k, self.delta, self.scale)

    def _plan_lottery(self) -> Lottery:
        oracle = self.oracle()
        infeasible = False
        try:
            best = self._best(oracle)
        except Conflict:
            infeasible = True
            reward = np.eye(1, 1 + self.task.num_costs)
            start = self._start or {"directions": reward, "multipliers": np.zeros(self._rows.size)}
            best = self._best(oracle, start=start, relax=True)
        weights, parts = best.weights / best.weights.sum(), []
        if self.play == "markov":
            weights, parts = np.ones(1), [oracle.markov(weights, best.directions)]
        else:
            parts = [oracle.policy(w) for w in best.directions]
        policies: tuple[Policy, ...] = tuple(self._of_task(policy) for policy in parts)
        return Lottery(weights, policies, infeasible=infeasible)

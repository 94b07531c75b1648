"""UCBVI: the optimistic learner without limits (Azar, Osband and Munos 2017), "what if I ignore them?".

Paper: "Minimax Regret Bounds for Reinforcement Learning", arXiv 1703.05449; with the Chernoff-Hoeffding bonus of its
Algorithm 3 (UCBVI-CH). Before episode k, with N(s, a) visits so far, the estimates p_hat and r_hat, and w the width of
the range of one reward (0 included),

    b(s, a) = scale * 7 H w L / sqrt(N),   L = ln(5 S A T / delta),  T = H k
    Q_h(s, a) = min( (H - h) r_max, r_hat + b + p_hat.V_{h+1}, Q_h of the episode before )       N > 0, steps h = 0..H-1
    Q_h(s, a) = (H - h) r_max                                                                     N = 0
    V_h(s) = max_a Q_h(s, a), V_H = 0

and the greedy policy is played. r_max is the upper end of the range, at least 0. Deviations from the paper:

- T counts the steps until now, those of logged episodes included; the paper's T = H K is that of all K episodes.
- Rewards are estimated, and of any range; the paper's are known and in [0, 1]. At scale 1 all Q are optimistic for all
  k at once, with probability at least 1 - delta, all the same: Hoeffding's inequality for r_hat and for p_hat.V*, in
  the union over the pairs, steps and counts n (with delta / (2 n^2) each), asks for no more than 1.3 H w sqrt(L / N).
- Values are kept below what the steps left can pay, not below H.
- `monotone`: the minimum with the episode before. It is part of the paper's algorithm (Algorithm 2), which is
  optimistic at every episode; with a smaller bonus one estimate that is too low would stay forever, so that the
  default leaves it out.
- `scale`: at 1 the bonus is the paper's, and far too wide to be of use: with L = 15 it is below H w, which is all that
  a value can differ by, after 11000 visits.

The limits of the problem play no part; a history still reports against them.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from conrl import kernels
from conrl._types import Array, Arrays, Float
from conrl.episode import Episode
from conrl.learners.base import Proposal
from conrl.learners.optimistic import OptimisticLearner
from conrl.model import Task
from conrl.model.limits import Limits
from conrl.oracles.protocols import TIE
from conrl.policy import Deterministic
from conrl.problem import ConcaveConvex, Linear, Problem, Rows


class UCBVI(OptimisticLearner):
    """Learn the best reward, whatever it costs: `propose` a policy, play it, `observe` the episode.

    Args:
        task: what is known (`mdp.task`, or `Task`).
        problem: not planned for; what a history reports against. The task's limits by default.
        preset: `"default"`: a practical scale; `"theory"`: the paper's bonus, and never a higher value than before.
        delta: the failure probability at scale 1.
        scale: multiplies the bonus; overrides the preset.
        monotone: keep every Q at most what it was an episode before; overrides the preset.
        seed: it draws nothing itself; for the world it is played in.
        keep_policies: remember what was executed, for `average_policy`.
    """

    name = "ucbvi"
    summary = "optimistic learning of the reward alone: what if the limits were ignored?"
    paper = "Azar, Osband and Munos (2017)"
    problems = (Linear, ConcaveConvex)  # no budget: it would not be kept
    settings = ("preset", "delta", "scale", "monotone")
    presets: ClassVar = {
        "default": {"scale": 1e-5, "monotone": False},
        "theory": {"scale": 1.0, "monotone": True},
    }

    def __init__(
        self,
        task: Task,
        *,
        problem: Problem | Limits | None = None,
        preset: str = "default",
        delta: float = 0.05,
        scale: float | None = None,
        monotone: bool | None = None,
        seed: int | None = None,
        keep_policies: bool = True,
    ) -> None:
        super().__init__(task, problem, seed, keep_policies)
        self.monotone: bool = self._choose(preset, delta, scale=scale, monotone=monotone)["monotone"]
        self._before = np.zeros((self.counts.horizon, 0))  # [H, pairs then]: Q of the episode before
        self._values: Float = self._before

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        """Nothing here depends on it."""

    def bonus(self) -> Float:
        """[P]: b of each pair of the places; 0 where there is nothing to learn."""
        task, H = self.counts.task, self.counts.horizon
        S = task.num_states + int(task.initial is None)
        L = np.log(5.0 * S * task.num_actions * H * self._k / self.delta)
        b = self.scale * 7.0 * H * task.spread[0] * L / np.sqrt(np.maximum(self.counts.visits, 1))
        return np.where(self._unknown[0], b, 0.0)

    def _decide(self) -> Proposal:
        """Q_h and the greedy actions, backward over the steps; the largest value there can be where N = 0."""
        model = self.counts.model()
        H = model.horizon
        most = max(float(self.task.reward_range[1]), 0.0)
        moves, _ = self._unknown
        pay = np.where(moves & (self.counts.visits == 0), np.inf, model.pay[:, 0] + self.bonus())
        ceiling, tie = most * (H - np.arange(H)), TIE * H * H * self.task.spread[0]
        actions = np.empty((H, model.num_states), dtype=np.int16)
        self._values = np.empty((H, model.num_pairs))
        kernels.clipped_greedy(*model.graph, model.action, pay, ceiling, self._before, tie, self._values, actions)
        policy = self._of_task(Deterministic._trusted_actions(actions, model.num_actions))
        return Proposal(policy, policy)

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        self.counts.add(episode)
        if self.monotone:
            self._before = self._values

    # -- saving -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        return super().state() | {"before": self._before}

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self._before = self._values = self._saved_table(state, "before")

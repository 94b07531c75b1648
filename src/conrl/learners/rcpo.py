"""Reward constrained policy optimisation: A2C on reward minus multipliers times costs (Tessler et al. 2018).

    after each episode:   theta: one A2C update with the reward r - lambda.c
                          lambda <- max(0, lambda + rate (cost of the episode - limit))

The program behind the figures of Brantley et al. (2020) moves the multiplier by the *exact* expected cost of the
policy, which a learner cannot know: `peek` gives it that, and the preset "authors" asks for it.
"""

from __future__ import annotations

import numpy as np

from conrl._types import Array, Arrays, Float
from conrl.arguments import read_positive
from conrl.episode import Episode
from conrl.errors import SpecError
from conrl.evaluation import evaluate
from conrl.learners.actor_critic import ActorCriticLearner
from conrl.learners.base import Proposal
from conrl.model import ConstrainedMDP, Task
from conrl.model.limits import Limits
from conrl.oracles.a2c import A2CSettings
from conrl.planners.result import split_prices
from conrl.problem import Linear, Problem, Rows


class RCPO(ActorCriticLearner):
    """Policy gradient on the Lagrangian, with multipliers that follow the violation.

    Args:
        task: what is known.
        problem: `Linear`; the task's limits by default.
        preset: `"default"` or `"authors"` (the loss of the paper's program, and exact costs through `peek`).
        rate: learning rate of the multipliers; 1e-3 for Mars rover and 1e-2 for Box in the paper's program.
        a2c: numbers of A2C; overrides the preset.
        peek: the true model, to move the multipliers by exact expected costs instead of sampled ones.
        seed: of the first weights; `learn` gives it its own if there is none.
        keep_policies: remember what was executed, for `average_policy`; each policy is a table [H, S, A].
    """

    name = "rcpo"
    summary = "policy gradient (A2C) on reward minus multipliers times costs"
    paper = "Tessler, Mankowitz and Mannor (2018)"
    settings = ("preset", "rate")

    def __init__(
        self,
        task: Task,
        *,
        problem: Linear | Limits | None = None,
        preset: str = "default",
        rate: float = 1e-3,
        a2c: A2CSettings | None = None,
        peek: ConstrainedMDP | None = None,
        seed: int | None = None,
        keep_policies: bool = False,
    ) -> None:
        super().__init__(task, problem, preset, a2c, peek, seed, keep_policies)
        self.rate = read_positive(rate, "rate")
        self._G = self._rows.matrix(task.num_costs)
        self.multipliers: Float = np.zeros(self._rows.size)

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        self.multipliers = rows.carry(self._rows, self.multipliers)
        self._G = rows.matrix(self.task.num_costs)

    def _decide(self) -> Proposal:
        policy = self.network_policy()
        return Proposal(policy, policy)

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        value = episode.total if self.peek is None else evaluate(self.peek, proposal.policy).value
        direction = -self.multipliers @ self._G
        direction[0] = 1.0
        self.train(episode, direction)
        self.multipliers = np.maximum(0.0, self.multipliers + self.rate * (self._G @ value - self._rows.bound))

    @property
    def prices(self) -> Float:
        return split_prices(self._rows, self.multipliers, self.task.num_costs)[0]

    def state(self) -> dict[str, Array]:
        return super().state() | {"multipliers": self.multipliers}

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        m = np.array(state["multipliers"], dtype=np.float64)
        if m.shape != self.multipliers.shape or not (np.isfinite(m) & (m >= 0.0)).all():
            raise SpecError("the multipliers make no sense")
        self.multipliers = m

"""Posterior sampling: plan in one model that may be true (Strens 2000; Osband, Russo and Van Roy 2013).

Papers: Strens, "A Bayesian framework for reinforcement learning"; Osband, Russo and Van Roy, "(More) efficient
reinforcement learning via posterior sampling", arXiv 1306.0940. With constraints, both for long-run averages: Agarwal,
Bai and Aggarwal, "Markov decision processes with long-term average constraints", arXiv 2106.06680; Provodin, Gajane,
Pechenizkiy and Kaptein, arXiv 2209.03596 and 2309.15737. Before each episode one model is drawn from the posterior, and
the optimal plan within the limits in that model is played, as its Markov form. What is unlikely to be any good is
rarely played; no bonus and no confidence set is needed.

With N visits of a pair, N_t of them to state t, S states, and m the mean of one coordinate of its pay, scaled from its
declared range to [0, 1]:

    transitions     Dirichlet( N_t + prior / S  for each t )
    pay             Beta( 1 + N m, 1 + N (1 - m) ) in its range, each coordinate by itself

The first is the posterior of a Dirichlet prior that is worth `prior` visits. The second is that of a uniform prior on
the mean and of pay at either end of its range. Other pay counts as if each visit had paid an end by the toss of a coin
whose mean it is (Agrawal and Goyal 2012), in expectation: the coins are not tossed, so that nothing is random but the
draw itself. It is wider than need be, as no pay of that mean varies more. No pay counts as certain, however often it was
the same: a rare accident has not been ruled out.

Deviations:

- Sparse. The mass of all states that a pair never led to is drawn exactly, as Gamma(prior (S - m) / S) beside the m
  others' Gamma(N_t + prior / S); but it goes to one of those states, drawn uniformly, and not to all. Each of them has
  the posterior's mean; its variance is larger.
- States never seen are one state, ELSEWHERE, where one stays; its pay is drawn from the prior once an episode.
- The end of an episode (END) is not in the prior: it is a successor of the pairs from which it was seen, of weight
  N_t + prior / S. It is known to pay nothing and to stay. START, where the first state is unknown, pays nothing.
- Reward and costs are drawn independently of each other, and of the successor.
- Where a task depends on the step, S are the states of the next step.
- If the limits cannot be kept in the drawn model, the plan exceeds them least, and is marked so.

The bounds of the papers are on regret in expectation over the prior. None is claimed here: the prior above is a choice
of convenience, and costs are drawn as lightly as rewards, so that limits are exceeded while there is much to learn.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from conrl._types import Arrays, Float, Int
from conrl.arguments import frozen, read_positive, read_preset
from conrl.episode import Episode
from conrl.errors import SpecError
from conrl.learners.base import Proposal
from conrl.learners.places import PlacesLearner
from conrl.model import ConstrainedMDP, Task
from conrl.model.graph import Graph
from conrl.model.limits import Limits
from conrl.planners import ColumnGeneration, Plan, planned
from conrl.policy import Policy
from conrl.problem import ConcaveConvex, Linear, Problem, Rows

MOST_PRIOR = 1e12  # visits: beyond that, a posterior drawn in doubles is that of nobody's data


class PosteriorSampling(PlacesLearner):
    """Plan in a model drawn from the posterior: `propose` a policy, play it, `observe` the episode.

    Args:
        task: what is known (`mdp.task`, or `Task`).
        problem: `Linear` or `ConcaveConvex`; the task's limits by default. It can be set later.
        preset: `"default"`: a prior worth one visit of each pair.
        prior: how many visits the prior of a pair's transitions is worth, above 0; overrides the preset.
        seed: of the draws from the posterior; `learn` gives it its own if there is none.
        keep_policies: remember what was executed, for `average_policy`.
    """

    name = "posterior-sampling"
    summary = "plans exactly in one model drawn from the posterior"
    paper = "Osband, Russo and Van Roy (2013)"
    problems = (Linear, ConcaveConvex)
    settings = ("preset", "prior")
    presets: ClassVar = {"default": {"prior": 1.0}}

    def __init__(
        self,
        task: Task,
        *,
        problem: Problem | Limits | None = None,
        preset: str = "default",
        prior: float | None = None,
        seed: int | None = None,
        keep_policies: bool = True,
    ) -> None:
        super().__init__(task, problem, seed, keep_policies)
        self.preset = preset
        self.prior = read_positive(read_preset(self.presets, preset, {"prior": prior})["prior"], "prior")
        if self.prior > MOST_PRIOR:
            raise SpecError(f"prior is {self.prior:g}; it must be at most {MOST_PRIOR:g} visits", key=("prior",))
        self._planner = ColumnGeneration()
        self._plan: Plan | None = None

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        """Nothing that is kept depends on it."""

    # -- drawing ------------------------------------------------------------------------------------------

    def sample(self) -> ConstrainedMDP:
        """The model that the coming episode is planned in; asked twice, the same one.

        Its states are the places of `counts`, and last ELSEWHERE, if there is a state that was never seen.
        """
        counts, generator = self.counts, self.generator()
        graph = self._transitions(generator)
        pay = self._pay(generator)
        initial = np.zeros(graph.first.size - 1)
        initial[0] = 1.0
        return ConstrainedMDP._trusted(
            num_actions=self.task.num_actions,
            horizon=counts.horizon,
            graph=graph,
            action=frozen(np.append(counts.action, np.zeros(pay.shape[0] - counts.num_pairs, dtype=np.int64))),
            pay=frozen(pay),
            initial=initial,
            limits=np.asarray(self.task.limits),
            cost_names=tuple(self.task.cost_names),
        )

    @property
    def _elsewhere(self) -> bool:
        """Whether there are states that were never seen."""
        return bool((self.counts.order < self.counts.start).sum() < self.counts.start)

    def _transitions(self, generator: np.random.Generator) -> Graph:
        """What each pair leads to: the states it led to, and one that it did not; a self-loop ELSEWHERE."""
        counts = self.counts
        seen = counts.graph()
        P, n = counts.num_pairs, counts.num_seen
        visited = counts.visits > 0
        listed = np.where(visited, np.diff(seen.start), 0)  # a pair never visited is estimated as a self-loop
        kept = np.repeat(visited, np.diff(seen.start))
        pair = np.repeat(np.arange(P), listed)
        place = seen.successor[kept].astype(np.int64)
        times = np.rint(seen.probability[kept] * counts.visits[pair])
        S, offset = self._successors()
        state = counts.order[place] - offset[pair]  # END is above them all
        within = listed - np.bincount(pair[counts.order[place] == counts.end], minlength=P)  # without END
        # The others: the r-th of the S - m states that are not listed, in their order.
        free = S - within
        r = np.minimum((generator.random(P) * free).astype(np.int64), free - 1)
        by_state = np.lexsort((state, pair))
        rank = np.arange(pair.size) - np.repeat(np.cumsum(listed) - listed, listed)
        before = state[by_state] - rank <= r[pair]
        other = r + np.bincount(pair[before], minlength=P)
        target = np.where(free > 0, counts._place[np.minimum(other + offset, counts.end)], -1)
        target[target < 0] = n  # ELSEWHERE
        weight = np.concatenate(
            (
                generator.standard_gamma(times + self.prior / S),
                np.where(visited, generator.standard_gamma(self.prior * free / S), 1.0),
            )
        )
        exists = np.concatenate((np.ones(pair.size, dtype=bool), free > 0))
        if counts.known >= 0:  # END stays
            exists[: pair.size][pair == counts.known] = False
            target[counts.known], weight[pair.size + counts.known] = counts._place[counts.end], 1.0
            exists[pair.size + counts.known] = True
        owner = np.concatenate((pair, np.arange(P)))[exists]
        order = np.argsort(owner, kind="stable")
        owner, weight = owner[order], weight[exists][order]
        successor = np.concatenate((place, target))[exists][order]
        probability = weight / np.bincount(owner, weights=weight, minlength=P)[owner]
        first, outcomes = counts.first.copy(), np.bincount(owner, minlength=P)
        if self._elsewhere:
            first, outcomes = np.append(first, P + 1), np.append(outcomes, 1)
            successor, probability = np.append(successor, n), np.append(probability, 1.0)
        start = np.concatenate(([0], np.cumsum(outcomes)))
        return Graph(frozen(first), frozen(start), frozen(successor.astype(np.int32)), frozen(probability))

    def _successors(self) -> tuple[int, Int]:
        """How many states a pair may lead to, and the least of them [P], as states of the counts."""
        S, offset = self.task.num_states, np.zeros(self.counts.num_pairs, dtype=np.int64)
        if self.task.step_dependent:
            state = np.repeat(self.counts.order, np.diff(self.counts.first))
            after = np.minimum(state // S + 1, self.task.horizon - 1)  # after the last step as in the last
            offset = np.where(state == self.counts.start, 0, after) * S
        return S, offset

    def _pay(self, generator: np.random.Generator) -> Float:
        """[P, 1+d], and a row of ELSEWHERE."""
        counts, (low, high) = self.counts, self.task.ranges.T
        width = high - low
        visits = np.append(counts.visits, np.zeros(int(self._elsewhere), dtype=np.int64))[:, None]
        means = np.vstack((counts.means, np.zeros((int(self._elsewhere), low.size))))
        share = np.clip((means - low) / np.where(width > 0.0, width, 1.0), 0.0, 1.0)
        drawn = generator.beta(1.0 + visits * share, 1.0 + visits * (1.0 - share))
        pay: Float = np.clip(low + width * drawn, low, high)
        state = np.repeat(counts.order, np.diff(counts.first))
        pay[: counts.num_pairs][state >= counts.start] = 0.0  # START and END
        return pay

    # -- deciding -----------------------------------------------------------------------------------------

    def _decide(self) -> Proposal:
        self._plan = plan = planned(self._planner, self.sample(), self._problem, relax=True)
        policy: Policy = self._of_task(plan.policy)
        return Proposal(policy, policy, infeasible=plan.status == "infeasible")

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        self.counts.add(episode)

    @property
    def prices(self) -> Float | None:
        return None if self._plan is None or isinstance(self._problem, ConcaveConvex) else self._plan.prices

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self._plan = None

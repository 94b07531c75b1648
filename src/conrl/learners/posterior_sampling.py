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
    pay             Beta( 1 + N m, 1 + N (1 - m) ) in its range, each coordinate by itself, or settled

The first is the posterior of a Dirichlet prior that is worth `prior` visits. The Beta is that of a uniform prior on the
mean, and of pay at either end of its range. Other pay counts as if each visit had paid an end by the toss of a coin
whose mean it is (Agrawal and Goyal 2012), in expectation: the coins are not tossed, so that nothing is random but the
draw itself. It is wider than need be, as no pay of that mean varies more.

Pay may also be *settled*: a number for each successor. Beforehand that is as likely as not. It is ruled out once two
visits to one successor pay differently. If E visits have repeated what their successor had paid before, a coin of
unknown bias would have done so with probability 2 / (E + 2), so that the posterior of "settled" is (E + 2) / (E + 4). A
rare accident is thus never ruled out. Settled pay is sum_t p(t) (what t paid) with the p that was drawn, and a uniform
draw from the range for a state that the pair never led to.

Deviations:

- Sparse. The mass of all states that a pair never led to is drawn exactly, as Gamma(prior (S - m) / S) beside the m
  others' Gamma(N_t + prior / S); but it goes to one of those states, drawn uniformly, and not to all. Each of them has
  the posterior's mean; its variance is larger.
- States never seen are one state, ELSEWHERE, where one stays; its pay is drawn from the prior once an episode.
- The end of an episode (END) is not in the prior: it is a successor of the pairs from which it was seen, of weight
  N_t + prior / S. It is known to pay nothing and to stay. START, where the first state is unknown, pays nothing.
- Reward and costs are drawn independently of each other.
- Where a task depends on the step, S are the states of the next step.
- If the limits cannot be kept in the drawn model, the plan exceeds them least, and is marked so.

The bounds of the papers are on regret in expectation over the prior. None is claimed here: the prior above is a choice
of convenience, and costs are drawn as lightly as rewards, so that limits are exceeded while there is much to learn.

Measured (`benchmarks/posterior.py`). On eight random models (6 states, 3 actions, 5 steps, Dirichlet transitions,
Bernoulli pay) 500 episodes lost 20 in reward altogether (`prior=0.1`: 15; ConRL: 43), and their policies exceeded the
limit by 51 altogether (53; 39). On the paper's maps, where an action leads to few of a hundred states, it is slow, as a
prior worth one visit promises something at every step: 1.46 of 1.54 on Mars rover and 1.42 of 1.75 on Box after
2,000 episodes, with `"sparse"` 1.48 and 1.56 (three seeds); ConRL has 1.53 and 1.75 after 600.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from conrl._types import Arrays, Float, Int
from conrl.arguments import frozen, read_positive, read_preset
from conrl.episode import Episode
from conrl.errors import SpecError
from conrl.estimation.counts import Outcomes
from conrl.learners.base import Proposal
from conrl.learners.places import PlacesLearner
from conrl.model import ConstrainedMDP, Task
from conrl.model.graph import Graph
from conrl.model.limits import Limits
from conrl.planners import ColumnGeneration, Plan, planned
from conrl.policy import Policy
from conrl.problem import ConcaveConvex, Linear, Problem, Rows

MOST_PRIOR = 1e12  # visits: beyond that, a posterior drawn in doubles is that of nobody's data


class Drawn(NamedTuple):
    """Transitions of the places that were drawn, pair by pair."""

    pair: Int
    place: Int  # of the successor; ELSEWHERE comes after those seen
    probability: Float
    listed: Float  # the same for each entry of `Outcomes`
    other: Float  # [P]: of a state that the pair never led to


class PosteriorSampling(PlacesLearner):
    """Plan in a model drawn from the posterior: `propose` a policy, play it, `observe` the episode.

    Args:
        task: what is known (`mdp.task`, or `Task`).
        problem: `Linear` or `ConcaveConvex`; the task's limits by default. It can be set later.
        preset: `"default"`: a prior worth one visit of each pair; `"sparse"`: a tenth of one, for worlds in which an
            action leads to few states.
        prior: how many visits the prior of a pair's transitions is worth, above 0; overrides the preset.
        seed: of the draws from the posterior; `learn` gives it its own if there is none.
        keep_policies: remember what was executed, for `average_policy`.
    """

    name = "posterior-sampling"
    summary = "plans exactly in one model drawn from the posterior"
    paper = "Osband, Russo and Van Roy (2013)"
    problems = (Linear, ConcaveConvex)
    settings = ("preset", "prior")
    presets: ClassVar = {"default": {"prior": 1.0}, "sparse": {"prior": 0.1}}

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
        seen = counts.outcomes()
        drawn = self._transitions(seen, generator)
        pay = self._pay(seen, drawn, generator)
        n, P = counts.num_seen, counts.num_pairs
        first, action, outcomes = counts.first.copy(), counts.action.copy(), np.bincount(drawn.pair, minlength=P)
        successor, probability = drawn.place, drawn.probability
        if self._elsewhere:
            first, action, outcomes = np.append(first, P + 1), np.append(action, 0), np.append(outcomes, 1)
            successor, probability = np.append(successor, n), np.append(probability, 1.0)
        start = np.concatenate(([0], np.cumsum(outcomes)))
        initial = np.zeros(first.size - 1)
        initial[0] = 1.0
        return ConstrainedMDP._trusted(
            num_actions=self.task.num_actions,
            horizon=counts.horizon,
            graph=Graph(frozen(first), frozen(start), frozen(successor.astype(np.int32)), frozen(probability)),
            action=frozen(action),
            pay=frozen(pay),
            initial=initial,
            limits=np.asarray(self.task.limits),
            cost_names=tuple(self.task.cost_names),
        )

    @property
    def _elsewhere(self) -> bool:
        """Whether there are states that were never seen."""
        return bool((self.counts.order < self.counts.start).sum() < self.counts.start)

    def _transitions(self, seen: Outcomes, generator: np.random.Generator) -> Drawn:
        """What each pair leads to: the states it led to, and one that it did not."""
        counts = self.counts
        P = counts.num_pairs
        listed = np.bincount(seen.pair, minlength=P)
        S, offset = self._successors()
        reached = counts.order[seen.place]
        state = reached - offset[seen.pair]  # END is above them all
        # The others: the r-th of the states that are not listed, in their order.
        free = S - listed + np.bincount(seen.pair[reached == counts.end], minlength=P)
        r = np.minimum((generator.random(P) * free).astype(np.int64), free - 1)
        state = state[np.lexsort((state, seen.pair))]
        rank = np.arange(state.size) - np.repeat(np.cumsum(listed) - listed, listed)
        before = state - rank <= r[seen.pair]  # there are state - rank free ones below a listed one
        other = r + np.bincount(seen.pair[before], minlength=P)
        target = np.where(free > 0, counts._place[np.minimum(other + offset, counts.end)], -1)
        target[target < 0] = counts.num_seen  # ELSEWHERE
        listed_weight = generator.standard_gamma(seen.times + self.prior / S)
        other_weight = np.where(listed > 0, generator.standard_gamma(self.prior * free / S), 1.0)
        if counts.known >= 0:  # END stays
            listed_weight[seen.pair == counts.known] = 0.0
            target[counts.known], other_weight[counts.known] = counts._place[counts.end], 1.0
        pair = np.concatenate((seen.pair, np.arange(P)))
        weight = np.concatenate((listed_weight, other_weight))
        order = np.argsort(pair, kind="stable")
        order = order[weight[order] > 0.0]  # no others: none left, or so little that it underflows
        pair, weight = pair[order], weight[order]
        total = np.bincount(pair, weights=weight, minlength=P)
        share = listed_weight / total[seen.pair]
        return Drawn(
            pair, np.concatenate((seen.place, target))[order], weight / total[pair], share, other_weight / total
        )

    def _successors(self) -> tuple[int, Int]:
        """How many states a pair may lead to, and the least of them [P], as states of the counts."""
        S, offset = self.task.num_states, np.zeros(self.counts.num_pairs, dtype=np.int64)
        if self.task.step_dependent:
            state = self.counts.pair_state
            after = np.minimum(state // S + 1, self.task.horizon - 1)  # after the last step as in the last
            offset = np.where(state == self.counts.start, 0, after) * S
        return S, offset

    def _pay(self, seen: Outcomes, drawn: Drawn, generator: np.random.Generator) -> Float:
        """[P, 1+d], and a row of ELSEWHERE."""
        counts, (low, high) = self.counts, self.task.ranges.T
        P, width = counts.num_pairs, high - low
        visits = counts.visits[:, None]
        share = np.clip((counts.means - low) / np.where(width > 0.0, width, 1.0), 0.0, 1.0)
        loose = low + width * generator.beta(1.0 + visits * share, 1.0 + visits * (1.0 - share))
        new = low + width * generator.random((P + 1, low.size))  # of the states not listed, and of ELSEWHERE
        settled = drawn.other[:, None] * new[:P]
        np.add.at(settled, seen.pair, drawn.listed[:, None] * seen.centers)
        scattered = np.zeros((P, low.size), dtype=bool)
        np.logical_or.at(scattered, seen.pair, seen.squares > 0.0)
        repeats = visits - np.bincount(seen.pair, minlength=P)[:, None]
        is_settled = (generator.random((P, low.size)) * (repeats + 4.0) < repeats + 2.0) & (visits > 0) & ~scattered
        pay = np.clip(np.where(is_settled, settled, loose), low, high)
        pay[counts.pair_state >= counts.start] = 0.0  # START and END
        return np.vstack((pay, new[P:])) if self._elsewhere else pay

    # -- deciding -----------------------------------------------------------------------------------------

    def _decide(self) -> Proposal:
        self._plan = plan = planned(self._planner, self.sample(), self._problem, relax=True)
        policy: Policy = self._of_task(plan.policy)
        return Proposal(policy, policy, infeasible=plan.status == "infeasible")

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        self.counts.add(episode)

    @property
    def prices(self) -> Float | None:
        return (
            None if self._plan is None or isinstance(self._problem, ConcaveConvex) else self._plan.cost_multipliers[0]
        )

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self._plan = None

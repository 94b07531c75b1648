"""The confidence set of OptCMDP around what was counted, which several learners rest on: intervals for all that a model is.

Before episode k, with n = max(1, visits) and the estimates p_hat, r_hat and c_hat, at `scale` 1 the true model lies with
probability at least 1 - delta, for all k at once, in

    |p(t|s, a) - p_hat(t|s, a)| <= sqrt( 4 p_hat (1 - p_hat) L_k / n ) + 14 L_k / (3 n)          for every state t
    |r(s, a) - r_hat(s, a)|     <= (the range of r) sqrt( L_k / (2 n) ), and r(s, a) within its range; each cost too

with L_k of `optimistic.log_factor`; `learners.optcmdp` says where that comes from. A pair never visited may lead anywhere
and pay anything within the ranges. States never seen are one state, ELSEWHERE, that stands for all of them. Where no
episode has ended early yet, ELSEWHERE stands for END too, which pays nothing: with costs that are always below 0, to end
is what costs most. (END is one successor more than the S of the union bound. Hoeffding's intervals need half of what is
allotted to them there, and the sum of 1 / (2 n^2) is 0.83: both together leave room for it where there is a cost.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conrl._types import Bool, Float, Int
from conrl.arguments import frozen
from conrl.estimation.counts import Counts
from conrl.learners.optimistic import log_factor
from conrl.model import ConstrainedMDP, Task
from conrl.model.graph import Graph
from conrl.oracles.extended import ExtendedBackwardInduction


class Confidence(NamedTuple):
    """What is known of the model of the places, ELSEWHERE last if there is one."""

    model: ConstrainedMDP  # the estimate; its pay is the means
    listed: Float  # [N]: the radius of each outcome
    others: Float  # [P]: that of each state which is not among the outcomes of a pair
    many: Float  # [n]: how many states each place stands for, as such a state
    low: Float  # [P, 1+d]: between these lie mean reward and costs
    high: Float  # [P, 1+d]

    def oracle(self, pay: Float, bonus: Float | None = None) -> ExtendedBackwardInduction:
        """The value vectors of all transitions of the set, where pairs pay `pay` [P, 1+d] give or take `bonus`."""
        model = self.model._copy(pay=frozen(pay), bonus=None if bonus is None else frozen(bonus))
        return ExtendedBackwardInduction(model, self.listed, self.others, self.many)

    def spread(self) -> Float:
        """[P]: the radii of a pair, added up over all states."""
        unlisted = self.many.sum() - np.add.reduceat(self.many[self.model.graph.successor], self.model.graph.start[:-1])
        return np.add.reduceat(self.listed, self.model.graph.start[:-1]) + self.others * unlisted


def confidence(task: Task, counts: Counts, episode: int, delta: float, scale: float) -> Confidence:
    """The set before an episode (logged ones counted) of a task, from what was counted of it."""
    model = counts.model()
    unseen = counts.start - int((counts.order < counts.start).sum())
    endless = counts.known < 0 and bool((task.ranges[:, 1] < 0.0).any())  # to end would be news, and matter
    more = int(unseen > 0 or endless)
    if more:
        model = _with_elsewhere(model)
    visits = np.append(counts.visits, np.zeros(more, dtype=np.int64))
    state = np.append(np.repeat(counts.order, np.diff(counts.first)), np.zeros(more, dtype=np.int64))
    moves, pays = state != counts.end, state < counts.start
    L = log_factor(counts.task, episode, delta)
    listed, others = transition_radii(model.graph, visits, L, scale)
    listed[~np.repeat(moves, np.diff(model.graph.start))] = 0.0
    others[~moves] = 0.0
    many = np.append((counts.order != counts.start).astype(np.float64), np.full(more, float(unseen + endless)))
    low, high = pay_intervals(task, model.pay, visits, L, scale)
    low[~pays], high[~pays] = 0.0, 0.0
    if endless:
        high[-1] = np.maximum(high[-1], 0.0)
    return Confidence(model, listed, others, many, low, high)


def transition_radii(graph: Graph, visits: Int, L: float, scale: float) -> tuple[Float, Float]:
    """The radius of each outcome [N], and of each state that is not among the outcomes of a pair [P]."""
    outcomes = np.diff(graph.start)
    n = np.maximum(visits, 1)
    others = np.where(visits > 0, scale * 14.0 * L / (3.0 * n), 1.0)
    p = graph.probability
    spread = scale * np.sqrt(4.0 * p * (1.0 - p) * L / np.repeat(n, outcomes))
    return spread + np.repeat(others, outcomes), others


def pay_intervals(task: Task, means: Float, visits: Int, L: float, scale: float) -> tuple[Float, Float]:
    """[P, 1+d] each: between which the mean reward and costs of a pair lie."""
    low, high = task.ranges.T
    b = scale * np.sqrt(L / (2.0 * np.maximum(visits, 1)))[:, None] * (high - low)
    never = (visits == 0)[:, None]
    return np.where(never, low, np.maximum(means - b, low)), np.where(never, high, np.minimum(means + b, high))


def _with_elsewhere(model: ConstrainedMDP) -> ConstrainedMDP:
    """The model with one more state, whose only pair was never visited."""
    g = model.graph
    graph = Graph(
        np.append(g.first, g.first[-1] + 1),
        np.append(g.start, g.start[-1] + 1),
        np.append(g.successor, np.int32(model.num_states)),
        np.append(g.probability, 1.0),
    )
    return ConstrainedMDP._trusted(
        num_actions=model.num_actions,
        horizon=model.horizon,
        graph=graph,
        action=np.append(model.action, 0),
        pay=np.vstack((model.pay, np.zeros(model.pay.shape[1]))),
        initial=np.append(model.initial, 0.0),
        limits=model.limits,
        cost_names=model.cost_names,
    )

"""Confidence sets around what was counted: intervals for all that a model is, which several learners rest on.

Before episode k, with n = max(1, visits), the estimates p_hat, r_hat and c_hat, and L_k of `optimistic.log_factor`, the
true model lies at `scale` 1 with probability at least 1 - delta, for all k at once, in each of two sets.

`"optcmdp"` (`learners.optcmdp` says where it comes from; `scale` multiplies all radii):

    |p(t|s, a) - p_hat(t|s, a)| <= sqrt( 4 p_hat (1 - p_hat) L_k / n ) + 14 L_k / (3 n)          for every state t
    |r(s, a) - r_hat(s, a)|     <= (the range of r) sqrt( L_k / (2 n) ), and r(s, a) within its range; each cost too

`"sharp"`, which lies within it (`scale` multiplies L_k and what is added to it):

    n kl( p_hat(t|s, a), p(t|s, a) ) <= L_k,     n kl( r_hat, r ) <= L_k  with r scaled to [0, 1]; each cost too     (1)
    the sum of p(t|s, a) over all t that never followed (s, a)  <=  1 - exp( -(L_k + (m + 1) ln(S + 1)) / n )        (2)

where kl is the relative entropy of two coins and m the number of states that did follow. (1) is Chernoff's bound: the
mean of n independent numbers in [0, 1] with mean q is as far off as x on one side with probability at most
exp(-n kl(x, q)). It is the bound of KL-UCB (Garivier and Cappe 2011). (2): for a fixed set of m states, all n visits
lead into it with probability (1 - y)^n if it leaves out probability y; for y beyond (2) that is at most
exp(-L_k) (S + 1)^-(m + 1), and there are at most (S + 1)^m such sets and S values of m. With the intervals alone every
state never seen could have 14 L_k / (3 n), or L_k / n, of its own.

The union. L_k gives a pair and a count n the failure probability e^-L_k = delta / (8 n^2 S A (S + 1 + d)) or less. Of
these, OptCMDP's set needs 4 S + 2 (1 + d), the sharp one 2 S + 2 (1 + d) + 1; END, where episodes end early, is one
state more. With the sum of 1 / n^2, below 1.65, that is 1.65 (4 (S + 1) + 2 (1 + d) + 1) <= 8 (S + 1 + d) where there
is a cost.

In both a pair never visited may lead anywhere and pay anything within the ranges, whatever the scale. States never seen
are one state, ELSEWHERE, that stands for all of them. Where no episode has ended early yet and some reward or cost may
be below 0, ELSEWHERE stands for END too, or is END where all states were seen: to end may then be what costs or pays
most. (What costs *least*, for OptCMDP: an early end is in its set from the first one on, or where something may be
below 0.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Bool, Float, Int
from conrl.arguments import frozen
from conrl.estimation.counts import Counts
from conrl.learners.optimistic import log_factor
from conrl.model import ConstrainedMDP, Task
from conrl.model.graph import Graph
from conrl.oracles.extended import ExtendedBackwardInduction

RADII = ("sharp", "optcmdp")


class ConfidenceSet(NamedTuple):
    """What is known of the model of the places, ELSEWHERE last if there is one."""

    model: ConstrainedMDP  # the estimate; its pay is the means
    visits: Int  # [P]
    moves: Bool  # [P]: whether there is anything to learn about where a pair leads
    log: float  # L_k
    least: Float  # [N]: between these lies the probability of each outcome
    most: Float  # [N]
    others: Float  # [P]: up to this that of each state which is not among the outcomes of a pair
    rest: Float  # [P]: up to this that of all such states together
    many: Float  # [n]: how many states each place stands for, as such a state
    low: Float  # [P, 1+d]: between these lie mean reward and costs
    high: Float  # [P, 1+d]

    @property
    def unlisted(self) -> Float:
        """[P]: how many states are not among the outcomes of each pair."""
        graph = self.model.graph
        count: Float = self.many.sum() - np.add.reduceat(self.many[graph.successor], graph.start[:-1])
        return count

    def oracle(self, pay: Float, bonus: Float | None = None) -> ExtendedBackwardInduction:
        """The value vectors of all transitions of the set, where pairs pay `pay` [P, 1+d] give or take `bonus`."""
        model = self.model._copy(pay=frozen(pay), bonus=None if bonus is None else frozen(bonus))
        return ExtendedBackwardInduction.between(model, self.least, self.most, self.others, self.many, self.rest)


def confidence_set(
    task: Task, counts: Counts, episode: int, delta: float, scale: float, radii: str = "optcmdp"
) -> ConfidenceSet:
    """The set before an episode (logged ones counted) of a task, from what was counted of it."""
    model = counts.model()
    unseen = counts.start - int((counts.order < counts.start).sum())
    endless = counts.known < 0 and bool((task.ranges[:, 0] < 0.0).any())  # to end would be news, and may matter
    more = int(unseen > 0 or endless)
    if more:
        model = _with_elsewhere(model)
    visits = np.append(counts.visits, np.zeros(more, dtype=np.int64))
    state = np.append(counts.pair_state, np.zeros(more, dtype=np.int64))
    moves, pays = state != counts.end, state < counts.start
    if endless and not unseen:
        moves[-1] = pays[-1] = False  # ELSEWHERE is END
    L = log_factor(counts.task, episode, delta)
    many = np.append((counts.order != counts.start).astype(np.float64), np.full(more, float(unseen + endless)))
    if radii == "optcmdp":
        listed, others = transition_radii(model.graph, visits, L, scale)
        never = visits == 0
        listed[np.repeat(never, np.diff(model.graph.start))] = 1.0
        others[never] = 1.0
        p = model.graph.probability
        least, most, rest = np.maximum(p - listed, 0.0), np.minimum(p + listed, 1.0), np.ones(visits.size)
        low, high = pay_intervals(task, model.pay, visits, L, scale)
    else:
        least, most, others, rest = sharp_transitions(model.graph, visits, float(many.sum()) + 1.0, L, scale)
        low, high = sharp_pay(task, model.pay, visits, scale * L)
    known = ~np.repeat(moves, np.diff(model.graph.start))
    least[known] = most[known] = model.graph.probability[known]
    others[~moves] = 0.0
    low[~pays], high[~pays] = 0.0, 0.0
    if endless:
        low[-1], high[-1] = np.minimum(low[-1], 0.0), np.maximum(high[-1], 0.0)
    return ConfidenceSet(model, visits, moves, L, least, most, others, rest, many, low, high)


def sharp_transitions(
    graph: Graph, visits: Int, states: float, L: float, scale: float
) -> tuple[Float, Float, Float, Float]:
    """Between which each outcome lies [N], up to what each other state [P], and all of them together [P]."""
    outcomes = np.diff(graph.start)
    n = np.maximum(visits, 1)
    least, most = np.empty((2, graph.probability.size))
    kernels.kl_interval(graph.probability, np.repeat(scale * L / n, outcomes), least, most)
    never = visits == 0
    unknown = np.repeat(never, outcomes)
    least[unknown], most[unknown] = 0.0, 1.0
    others = np.where(never, 1.0, -np.expm1(-scale * L / n))
    rest = np.where(never, 1.0, -np.expm1(-scale * (L + (outcomes + 1.0) * np.log(states)) / n))
    return least, most, others, rest


def sharp_pay(task: Task, means: Float, visits: Int, L: float) -> tuple[Float, Float]:
    """[P, 1+d] each: between which the mean reward and costs of a pair lie."""
    least, most = task.ranges.T
    width = most - least
    share = np.clip((means - least) / np.where(width > 0.0, width, 1.0), 0.0, 1.0)
    low, high = np.empty((2, means.size))
    kernels.kl_interval(share.ravel(), np.repeat(L / np.maximum(visits, 1), width.size), low, high)
    never = (visits == 0)[:, None]
    low, high = low.reshape(means.shape), high.reshape(means.shape)
    return np.where(never, least, least + width * low), np.where(never, most, least + width * high)


def transition_radii(graph: Graph, visits: Int, L: float, scale: float) -> tuple[Float, Float]:
    """The radius of each outcome [N], and of each state that is not among the outcomes of a pair [P]; a pair never
    visited counts as visited once."""
    outcomes = np.diff(graph.start)
    n = np.maximum(visits, 1)
    others = scale * 14.0 * L / (3.0 * n)
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

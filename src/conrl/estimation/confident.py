"""Plans that keep their limits with a stated probability under what a log leaves open.

For each row of the problem (a limit or a floor) the plan is made with estimates on the careful side: with multiple m and
the posterior's standard deviations s of c + V(s') (`Posterior.deviations`),

    reward    r - m s_r        a cost with a limit    c + m s_c        with a floor    c - m s_c

in an ordinary model, by the ordinary planner. Pairs never seen are left out. The plan is then valued in models drawn from
the posterior; the share of these in which it keeps all rows is its probability. The multiple is the least for which that
is what was asked, by bisection; m = 1 has no meaning of its own.

*Planned from the same log.* A plan is best in the model that it was planned in, and for that reason better there than in
the world. By how much is measured where both are known: in a model drawn from the posterior another plan is made by the
same rule, and valued there and at the posterior's means (Efron 1983: the optimism of a rule, by the bootstrap). The mean of
the difference over some drawn models is taken off before rows are judged.

What is returned is verified on fresh draws, with another seed than the search had. If these say less than was asked, the
multiple grows and fresh ones are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from conrl._types import Arrays, Bool, Float, Int
from conrl.arguments import frozen
from conrl.estimation.posterior import Posterior
from conrl.model import ConstrainedMDP
from conrl.model.graph import Graph, select
from conrl.model.limits import Linear, Rows
from conrl.model.reading import Names
from conrl.planners import ColumnGeneration, Plan
from conrl.policy import Policy

SEARCH = 512  # models of the search
FRESH = 1024  # and of the verification
RULES = 16  # models in which another plan is made
FIRST, LARGEST = 0.125, 64.0  # multiples tried
HALVINGS = 5


class Part(NamedTuple):
    """The pairs that a plan may use, as a graph of their own."""

    pairs: Int  # [n] of the estimate
    graph: Graph
    links: Int  # [m]: the posterior's link behind each outcome; -1 where it has none
    worst: Bool  # [n]: in states where nothing was ever tried


@dataclass(frozen=True, eq=False)
class Candidate:
    """A plan for one multiple, and how it fares in drawn models."""

    multiple: float
    plan: Plan  # in the cautious model
    policy: Policy
    kept: float  # share of the models of the search in which all rows are kept


class Careful:
    """The search for a multiple."""

    def __init__(self, mdp: ConstrainedMDP, rows: Rows, tol: float, seed: int) -> None:
        self.rows, self.seed = rows, seed
        self.planner = ColumnGeneration(tol=max(tol, 1e-7))
        self.columns = np.append(0, 1 + rows.cost)
        self.bad = np.append(-1.0, rows.sign)  # [1+R]: which side is the worse one
        self._names = Names(mdp._names.states, mdp._names.actions, tuple(f"row {r}" for r in range(rows.size)))
        low, high = mdp._realised()
        if mdp._ranges is not None:
            low, high = np.fmin(low, mdp._ranges[:, 0]), np.fmax(high, mdp._ranges[:, 1])
        self._worst = np.where(self.bad > 0.0, high[self.columns], low[self.columns])
        self.posterior = posterior = Posterior(mdp, self.columns, np.append(np.nan, self._worst[1:]))
        self.part = usable(posterior)
        limits = np.where(rows.sign > 0.0, rows.bound, np.inf)
        floors = np.where(rows.sign > 0.0, -np.inf, -rows.bound)
        self.problem = Linear(limits, floors)

    def model(self, pay: Float, probability: Float, caution: Float | None = None) -> ConstrainedMDP:
        """The part as a model that pays [n, 1+R], on the careful side by `caution` [n, 1+R]; a cost for each row."""
        part, mdp = self.part, self.posterior.mdp
        if caution is not None:
            pay = pay + self.bad * caution
            pay[part.worst] = self._worst
        return mdp._copy(
            num_costs=self.rows.size,
            graph=part.graph._replace(probability=frozen(probability)),
            action=frozen(mdp.action[part.pairs]),
            pay=frozen(np.array(pay)),
            outcome_pay=None,
            limits=None,
            _names=self._names,
            _ranges=None,
            _visits=frozen(self.posterior.visits[part.pairs]),
            _log=None,
            _derived={},
        )

    def value(self, policy: Policy, pay: Float, probability: Float) -> Float:
        """[1+R]: of a policy of the part."""
        model = self.model(pay, probability)
        rho = np.zeros((1, model.num_pairs))
        policy._add_occupation(model, 1.0, rho)
        return np.asarray(rho[0] @ model.pay)

    def candidate(self, multiple: float, deviation: Float, start: Arrays | None) -> Candidate:
        part, posterior = self.part, self.posterior
        pay, p = posterior.means[part.pairs], part.graph.probability
        model = self.model(pay, p, multiple * deviation[part.pairs])
        plan = self.planner.plan(model, self.problem, start, relax=True)
        policy = plan.policy
        shift = self.shift(policy, multiple, deviation, plan.start)
        kept = self.kept(policy, shift, SEARCH, self.seed)
        return Candidate(multiple, plan, policy, kept)

    def kept(self, policy: Policy, shift: Float, draws: int, seed: int) -> float:
        totals = self.posterior.totals(policy, draws, seed)[:, 1:] + shift[1:]
        return float((self.rows.sign * totals <= self.rows.bound).all(axis=1).mean())

    def shift(self, policy: Policy, multiple: float, deviation: Float, start: Arrays | None) -> Float:
        """[1+R]: how much worse the rule's plans are in the world than where they were made."""
        part, posterior, n = self.part, self.posterior, RULES
        pairs = part.pairs
        drawn = posterior.draw(pairs, self.seed + 1, 0, n)
        share = np.where(part.links[:, None] >= 0, drawn.share[self._at], 1.0)
        sizes = np.diff(part.graph.start).astype(np.int64)
        total = np.add.reduceat(share, part.graph.start[:-1].astype(np.int64), axis=0)
        share = share / np.repeat(total, sizes, axis=0)
        mean, p = posterior.means[pairs], part.graph.probability
        caution = multiple * deviation[pairs]
        here = self.value(policy, mean, p)
        found = np.zeros((n, here.size))
        for b in range(n):
            pay, q = drawn.pay[:, b], np.ascontiguousarray(share[:, b])
            other = self.planner.plan(self.model(pay, q, caution), self.problem, start, relax=True).policy
            found[b] = (self.value(other, mean, p) - self.value(other, pay, q)) - (here - self.value(policy, pay, q))
        return np.asarray(self.bad * np.maximum(self.bad * found.mean(axis=0), 0.0))

    def search(self, confidence: float) -> Candidate:
        """The candidate with the least multiple that is kept often enough; the one kept most often if none is."""
        plain = self.planner.plan(
            self.model(self.posterior.means[self.part.pairs], self.part.graph.probability), self.problem, relax=True
        )
        deviation = self.posterior.deviations(plain.policy).deviation
        found = [self.candidate(0.0, deviation, plain.start)]
        if found[0].kept >= confidence:
            return found[0]
        multiple = FIRST
        while multiple <= LARGEST:
            found.append(self.candidate(multiple, deviation, found[-1].plan.start))
            if found[-1].kept >= confidence:
                break
            multiple *= 2.0
        best = found[-1]
        if best.kept < confidence:
            return max(found, key=lambda c: c.kept)
        deviation = self.posterior.deviations(best.policy).deviation
        low, high = found[-2].multiple, best.multiple
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            tried = self.candidate(middle, deviation, best.plan.start)
            if tried.kept >= confidence:
                high, best = middle, tried
            else:
                low = middle
        return best

    @property
    def _at(self) -> Int:
        """[m]: where the links of the part stand among those drawn."""
        _, drawn = select(self.posterior.link_start, self.part.pairs)
        place = np.zeros(self.posterior.successor.size, dtype=np.int64)
        place[drawn] = np.arange(drawn.size)
        return place[np.maximum(self.part.links, 0)]


def usable(posterior: Posterior) -> Part:
    """The pairs that were seen; all of a state where none was, which pay the worst there is and stay."""
    mdp, seen = posterior.mdp, posterior.seen
    node = mdp._pair_node
    nodes = mdp.graph.first.size - 1
    some = np.bincount(node, seen, minlength=nodes) > 0
    worst = ~some[node]
    pairs = np.flatnonzero(seen | worst)
    worst = worst[pairs]
    sizes = np.where(worst, 1, np.diff(posterior.link_start)[pairs])
    start = np.concatenate(([0], np.cumsum(sizes)))
    links = np.full(start[-1], -1)
    successor = np.repeat(mdp.pair_state[pairs], sizes)
    probability = np.ones(start[-1])
    real = np.repeat(~worst, sizes)
    _, links[real] = select(posterior.link_start, pairs[~worst])
    successor[real] = posterior.successor[links[real]]
    total = np.bincount(posterior.link_pair, posterior.link_times, minlength=mdp.num_pairs)
    probability[real] = (posterior.link_times / total[posterior.link_pair])[links[real]]
    first = np.searchsorted(node[pairs], np.arange(nodes + 1))
    graph = Graph(frozen(first), frozen(start), frozen(successor.astype(np.int32)), frozen(probability))
    return Part(pairs, graph, links, worst)

"""Models on the careful side of an estimate: what a plan with confidence is made in.

With multiple m and the posterior's standard deviations s of c + V(s') (`conrl.estimation.deviations`), each row of the
problem (a limit or a floor) has a cost of its own:

    reward    r - m s_r        a cost with a limit    c + m s_c        with a floor    c - m s_c

Pairs never seen are left out, or, if the user says so, believed to do what the prior says. Of a state in which nothing
was ever tried nothing is known: every action pays the worst there is, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from conrl._types import Bool, Float, Int
from conrl.arguments import frozen
from conrl.estimation.posterior import Posterior
from conrl.model import ConstrainedMDP
from conrl.model.graph import Graph, select
from conrl.model.limits import Linear
from conrl.model.reading import Names
from conrl.model.rows import Rows
from conrl.policy import Policy

KEPT = 0.5  # of the visits, where it is measured what the choice of a plan does


class Part(NamedTuple):
    """The pairs that a plan may use, as a graph of their own."""

    pairs: Int  # [n] of the estimate
    graph: Graph
    link: Int  # [m]: which of the posterior's links; -1 for none
    worst: Bool  # [n]: in states where nothing was ever tried


class Belief(NamedTuple):
    """Transitions and pay of the part, as they may be."""

    pay: Float  # [n, 1+R]
    probability: Float  # [m]


class Cautious:
    """The careful models of an estimate, for some rows."""

    def __init__(self, mdp: ConstrainedMDP, rows: Rows, unseen: bool) -> None:
        self.mdp, self.rows = mdp, rows
        self.bad = np.append(-1.0, rows.sign)  # [1+R]: which side is the worse one
        columns = np.append(0, 1 + rows.cost)
        low, high = _ends(mdp)
        self.worst = np.where(self.bad > 0.0, high[columns], low[columns])  # [1+R]
        self.posterior = Posterior(mdp, columns, np.append(np.nan, self.worst[1:]))
        self.part = usable(self.posterior, unseen)
        limits = np.where(rows.sign > 0.0, rows.bound, np.inf)
        floors = np.where(rows.sign > 0.0, -np.inf, -rows.bound)
        self.problem = Linear(limits, floors)
        self._names = Names(mdp._names.states, mdp._names.actions, tuple(f"row {r}" for r in range(rows.size)))

    @property
    def means(self) -> Belief:
        """The part at the posterior's means."""
        return Belief(self.posterior.means[self.part.pairs], self.part.graph.probability)

    @property
    def raw(self) -> Belief:
        """The part as the log has it: what was paid on average; of pairs never seen, what is believed."""
        posterior, part = self.posterior, self.part
        seen = posterior.visits[part.pairs, None] > 0
        return Belief(np.where(seen, posterior.raw[part.pairs], self.means.pay), part.graph.probability)

    def model(self, belief: Belief, caution: Float | None = None) -> ConstrainedMDP:
        """The part as a model with a cost for each row, on the careful side by `caution` [P, 1+R]."""
        part, pay = self.part, belief.pay
        if caution is not None:
            pay = pay + self.bad * caution[part.pairs]
            pay[part.worst] = self.worst
        own = {"num_costs": self.rows.size, "limits": None, "_names": self._names, "_ranges": None}
        return self._of(belief.probability, pay, **own)

    def seen(self) -> ConstrainedMDP:
        """The estimate itself, of the pairs of the part: all its costs, no caution."""
        return self._of(self.part.graph.probability, self.mdp.pay[self.part.pairs])

    def _of(self, probability: Float, pay: Float, **own: object) -> ConstrainedMDP:
        part, mdp = self.part, self.mdp
        return mdp._copy(
            graph=part.graph._replace(probability=frozen(probability)),
            action=frozen(mdp.action[part.pairs]),
            pay=frozen(np.ascontiguousarray(pay)),
            outcome_pay=None,
            _visits=frozen(self.posterior.visits[part.pairs]),
            _log=None,
            _derived={},
            **own,
        )

    def value(self, policy: Policy, belief: Belief) -> Float:
        """[1+R]: what a policy is worth in the part, without caution."""
        model = self.model(belief)
        rho = np.zeros((1, model.num_pairs))
        policy._add_occupation(model, 1.0, rho)
        return np.asarray(rho[0] @ model.pay)

    def thinned(self, count: int, seed: int) -> Iterator[tuple[Belief, Belief]]:
        """What is believed of the part after a share KEPT of its visits, chosen at random, and after as many that say
        what all of them say; `count` times. Pairs that none is left of are believed to do what all their visits say.
        """
        part, posterior, atoms = self.part, self.posterior, self.posterior.atoms
        P, width, generator = self.mdp.num_pairs, atoms.pay.shape[1], np.random.default_rng(seed)
        rough = np.flatnonzero(atoms.root.any(axis=(1, 2)))
        for _ in range(count):
            times = generator.binomial(atoms.times.astype(np.int64), KEPT).astype(np.float64)
            visits: Float = np.bincount(atoms.pair, times, minlength=P).astype(np.float64)
            some = (visits > 0.0) & ~posterior.known
            fewer = np.sqrt(np.maximum(atoms.times[rough] / np.maximum(times[rough], 1.0) - 1.0, 0.0))
            noise = fewer[:, None] * generator.standard_normal((rough.size, width))
            pay = atoms.pay.copy()
            pay[rough] += np.einsum("mij,mj->mi", atoms.root[rough], noise)
            sums = np.stack([np.bincount(atoms.pair, times * pay[:, i], minlength=P) for i in range(width)], axis=1)
            kept, like = (
                np.where(some[:, None], posterior.believed(mean, visits), posterior.means)[part.pairs]
                for mean in (sums / np.maximum(visits, 1.0)[:, None], posterior.raw)
            )
            link = np.bincount(atoms.link, times, minlength=posterior.successor.size)
            owner = posterior.link_pair
            use = (part.link >= 0) & some[owner][part.link]
            share = (link / np.maximum(visits, 1.0)[owner])[part.link]
            probability = np.where(use, share, part.graph.probability)
            yield Belief(kept, probability), Belief(like, part.graph.probability)


def _ends(mdp: ConstrainedMDP) -> tuple[Float, Float]:
    """[1+d] each: the least and the most that a step can pay; that pairs never tried pay 0 is made up."""
    if mdp._log is not None and mdp._log.ranges is not None:
        low, high = mdp._log.ranges.T
        return low, high
    return mdp._possible()


def usable(posterior: Posterior, unseen: bool) -> Part:
    """The pairs that were seen and, if so asked, the others of the same states; all of a state where none was.

    Of states that no model can come to one pair is left, as every state has an action.
    """
    mdp, node = posterior.mdp, posterior.mdp._pair_node
    nodes = mdp.graph.first.size - 1
    worst = posterior.blank
    use = (posterior.seen | worst | unseen) & posterior.come
    lone = np.flatnonzero(np.bincount(node[use], minlength=nodes) == 0)
    use[mdp.graph.first[lone[np.diff(mdp.graph.first)[lone] > 0]]] = True
    pairs = np.flatnonzero(use)
    begin, end, target, chance = posterior.back
    kind = np.where(worst[pairs], 2, np.where(posterior.seen[pairs], 0, 1))  # seen, unseen, in an unknown state
    outcomes = (np.diff(posterior.link_start)[pairs], (end - begin)[node[pairs]], np.ones(pairs.size, dtype=np.int64))
    sizes = np.choose(kind, outcomes)
    start = np.concatenate(([0], np.cumsum(sizes)))
    of = np.repeat(kind, sizes)
    successor = np.repeat(mdp.pair_state[pairs], sizes)
    probability = np.ones(start[-1])
    link = np.full(start[-1], -1)
    _, links = select(posterior.link_start, pairs[kind == 0])
    total = np.bincount(posterior.link_pair, posterior.link_times, minlength=mdp.num_pairs)
    successor[of == 0] = posterior.successor[links]
    probability[of == 0] = (posterior.link_times / total[posterior.link_pair])[links]
    link[of == 0] = links
    others = node[pairs[kind == 1]]
    back = np.concatenate([np.arange(begin[n], end[n]) for n in others.tolist()]) if others.size else np.zeros(0, int)
    successor[of == 1], probability[of == 1] = target[back], chance[back]
    first = np.searchsorted(node[pairs], np.arange(nodes + 1))
    graph = Graph(frozen(first), frozen(start), frozen(successor.astype(np.int32)), frozen(probability))
    return Part(pairs, graph, link, worst[pairs])

"""A model without a horizon as one that is certain to end, whatever is played.

*Discounted*: the probabilities times the discount. What is missing of 1 is the end.

*Total* and *average*: an *end component* is a set of states, and actions in them, that can be kept to forever and in
which every state leads to every other one. Whatever is played, the pairs that occur again and again are such a set,
with probability 1 (de Alfaro 1997, Theorem 3.2), and the largest ones share no state. Each becomes one node, with the
pairs that lead out of it and one more, to *stay*, which leads nowhere: within a component every state, and so every
way out, can be reached with certainty. No policy of what is left goes on forever.

`steps` certifies that: a function with  steps(s) >= 1 + sum_s' p(s' | s, a) steps(s')  for every pair, which makes it a
bound on the steps to come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conrl import kernels
from conrl._types import Bool, Float, Index, Int
from conrl.model.graph import Graph
from conrl.model.mdp import ConstrainedMDP

KernelGraph = tuple[Index, Index, Index, Float]  # a `Graph` as kernels read it, a plain tuple


@dataclass(frozen=True, eq=False)
class Reachable:
    """The part of a model that the start can lead to: n positions, in the order of kernels."""

    order: Int  # [n]: the state at each position
    pairs: Index  # [P]: the model's pair behind each
    graph: KernelGraph
    initial: Float  # [n]

    @classmethod
    def of(cls, mdp: ConstrainedMDP, everywhere: bool = False) -> Reachable:
        g = mdp.graph
        some = np.ones(mdp.num_states, dtype=bool)
        if not everywhere:
            begin = g.start[g.first]
            rows = begin.astype(np.uint64), g.successor.astype(np.uint32), g.probability
            some = kernels.reached(rows, mdp.initial)
        order = np.flatnonzero(some)  # neighbors stay neighbors, which matters more than blocks without padding
        position = np.zeros(mdp.num_states, dtype=np.uint32)
        position[order] = np.arange(order.size, dtype=np.uint32)
        part, pairs, _ = g.part(order, position)
        return cls(order, pairs, _unsigned(part), mdp.initial[order])

    def in_proportion(self) -> Reachable:
        """The same with the probabilities of every pair divided by their sum."""
        first, start, successor, probability = self.graph
        begin: Int = start.astype(np.int64)
        sums = np.repeat(np.add.reduceat(probability, begin[:-1]), begin[1:] - begin[:-1])
        return replace(self, graph=(first, start, successor, probability / sums))

    @property
    def source(self) -> Int:
        """[P]: the position of each pair."""
        return np.repeat(np.arange(self.order.size), _sizes(self.graph[0]))


def _sizes(begin: Index) -> Int:
    """How many are in each range."""
    signed: Int = begin.astype(np.int64)
    return signed[1:] - signed[:-1]


def _unsigned(graph: Graph) -> KernelGraph:
    return (
        graph.first.astype(np.uint64),
        graph.start.astype(np.uint64),
        graph.successor.astype(np.uint32),
        np.ascontiguousarray(graph.probability),
    )


@dataclass(frozen=True, eq=False)
class Reduced:
    """A model that is certain to end: n nodes with their pairs, of which some stay in an end component."""

    graph: KernelGraph
    initial: Float  # [n]
    pair: Int  # [P]: the pair of the reachable part behind each; -1 - i to stay in component i
    node: Int  # [positions]: the node of each position


def discounted(part: Reachable, discount: float) -> Reduced:
    """The reachable part with the discount in its probabilities."""
    first, start, successor, probability = part.graph
    everything = np.arange(part.pairs.size)
    return Reduced(
        (first, start, successor, discount * probability), part.initial, everything, np.arange(part.order.size)
    )


@dataclass(frozen=True, eq=False)
class Components:
    """The largest end components of the reachable part."""

    of: Int  # [positions]: the component of each; -1 for none
    inside: Bool  # [P]: which pairs keep within the component of their state
    count: int


def end_components(part: Reachable) -> Components:
    """Strongly connected parts, without the pairs that may leave them, until nothing changes."""
    _, start, successor, _ = part.graph
    n, source = part.order.size, part.source
    outcomes = _sizes(start)
    begin = start[:-1].astype(np.int64)
    origin, target = np.repeat(source, outcomes), successor.astype(np.int64)
    inside = np.ones(source.size, dtype=bool)
    while True:
        kept = np.repeat(inside, outcomes)
        _, label = kernels.strong(np.searchsorted(origin[kept], np.arange(n + 1)), target[kept])
        leaves = np.logical_or.reduceat(label[origin] != label[target], begin)
        if not (inside & leaves).any():
            break
        inside &= ~leaves
    stays = np.zeros(n, dtype=bool)
    stays[source[inside]] = True
    numbers, of = np.unique(label[stays], return_inverse=True)
    component = np.full(n, -1)
    component[stays] = of
    return Components(component, inside, numbers.size)


def collapsed(part: Reachable, components: Components) -> Reduced:
    """The reachable part with a node for each end component, after those for the other positions."""
    _, start, successor, probability = part.graph
    alone = components.of < 0
    node = np.where(alone, np.cumsum(alone) - 1, int(alone.sum()) + components.of)
    outside = np.flatnonzero(~components.inside)
    stays = -1 - np.arange(components.count)
    owner = np.concatenate((node[part.source[outside]], int(alone.sum()) + np.arange(components.count)))
    by_node = np.argsort(owner, kind="stable")  # to stay comes last
    pair = np.concatenate((outside, stays))[by_node]
    n = int(alone.sum()) + components.count
    first = np.searchsorted(owner[by_node], np.arange(n + 1)).astype(np.uint64)
    # An empty range of outcomes for those that stay.
    begin = start.astype(np.int64)
    chosen = np.where(pair >= 0, pair, 0)
    sizes = np.where(pair >= 0, begin[chosen + 1] - begin[chosen], 0)
    new_start = np.concatenate(([0], np.cumsum(sizes)))
    members = np.arange(new_start[-1]) + np.repeat(begin[chosen] - new_start[:-1], sizes)
    graph = (
        first,
        new_start.astype(np.uint64),
        node[successor[members].astype(np.int64)].astype(np.uint32),
        probability[members],
    )
    initial: Float = np.bincount(node, weights=part.initial, minlength=n).astype(np.float64)
    return Reduced(graph, initial, pair, node)

"""The sparse structure of a model as the kernels read it, and the part of it that the start can reach."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Float, Index


class Graph(NamedTuple):
    """The sparse structure that the kernels read; letters as in `conrl.kernels`."""

    first: Index  # [S+1], or [H*S+1] where every step has pairs of its own
    start: Index  # [P+1]
    successor: Index  # [N]
    probability: Float  # [N]

    def part(self, states: Index, number: Index) -> tuple[Graph, Index, Index]:
        """The pairs of some states; `number` [S] renumbers these. Also the pairs and the outcomes that are kept."""
        first, pairs = select(self.first, states)
        start, kept = select(self.start, pairs)
        return Graph(first, start, number[self.successor[kept]], self.probability[kept]), pairs, kept


class Reach(NamedTuple):
    """The (step, state) pairs that the start can lead to, in the order in which the kernels work."""

    order: Index  # [n]: the state at each position, s; or h * S + s where every step has pairs of its own
    pairs: Index  # the model's pair behind each pair of the graph below
    lo: Index  # [H]
    hi: Index  # [H]
    blocks: NDArray[np.uint32]  # those that can be occupied at step h are blocks[lo[h]:hi[h]]
    at: Index  # [H]: the row of step h's first block in a policy's `choice`
    graph: Graph  # the pairs of those states, in positions
    initial: Float  # [n]
    outcomes: int  # of a pair, at most
    arrivals: int  # outcomes that lead to one state, at most

    @property
    def occupied(self) -> tuple[Index, ...]:
        """As the kernels read it."""
        return self.lo, self.hi, self.blocks, self.at

    @property
    def rows(self) -> int:
        """How many rows a policy's `choice` has: a block for each step at which it can be occupied."""
        return int(self.at[-1] + self.hi[-1] - self.lo[-1])

    @classmethod
    def of(cls, graph: Graph, initial: Float, horizon: int) -> Reach:
        if graph.first.size - 1 > initial.size:
            return cls._by_step(graph, initial, horizon)
        order, pairs, (lo, hi, blocks, at), inner, start, outcomes, arrivals = kernels.arranged(
            *graph, initial, horizon
        )
        return cls(order, pairs, lo, hi, blocks, at, Graph(*inner), start, outcomes, arrivals)

    @classmethod
    def _by_step(cls, graph: Graph, initial: Float, horizon: int) -> Reach:
        """Positions are the states of step 0, then those of step 1, ..; a step's outcomes lead to the next step's."""
        S = initial.size
        reached = kernels.reachable_by_step(graph.first, graph.start, graph.successor, initial, horizon)
        sizes = reached.sum(axis=1)
        nodes = np.flatnonzero(reached)
        actions, outcomes = np.diff(graph.first)[nodes], np.diff(graph.start[graph.first])[nodes]
        order = nodes[np.lexsort((outcomes, actions, nodes // S))]
        position = np.zeros((horizon + 1) * S, dtype=np.uint32)  # after the last step, 0: it is not read
        position[order] = np.arange(order.size, dtype=np.uint32)
        first, pairs = select(graph.first, order)
        start, kept = select(graph.start, pairs)
        step = (order // S).repeat(np.diff(first).astype(np.int64)).repeat(np.diff(start).astype(np.int64))
        successor = position[(step + 1) * S + graph.successor[kept]]
        inner = Graph(first, start, successor, graph.probability[kept])
        ends = np.cumsum(sizes)
        lowest, highest = (ends - sizes) // kernels.LANES, -(-ends // kernels.LANES)  # blocks of each step
        hi = np.cumsum(highest - lowest)
        lo = hi - (highest - lowest)
        blocks = (np.arange(hi[-1]) + np.repeat(lowest - lo, hi - lo)).astype(np.uint32)
        most = int(np.diff(start).max()), int(np.bincount(successor[step < horizon - 1], minlength=1).max())
        inside = np.where(order < S, initial[order % S], 0.0)
        return cls(order, pairs, lo, hi, blocks, _rows(lo, hi), inner, inside, *most)


def _rows(lo: Index, hi: Index) -> Index:
    """[H]: the blocks of all steps before each one."""
    return np.concatenate(([0], np.cumsum(hi - lo)[:-1]))


def select(begin: Index, chosen: Index) -> tuple[NDArray[np.uint64], Index]:
    """The ranges begin[i] .. begin[i+1]-1 for each chosen i, one after the other: their new starts, their members."""
    sizes = begin[chosen + 1] - begin[chosen]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    members = np.arange(starts[-1]) + np.repeat(begin[chosen] - starts[:-1], sizes)
    return starts.astype(np.uint64), members

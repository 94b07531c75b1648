"""The sparse structure of a model as the kernels read it, and the part of it that the start can reach."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Float, Index


class Graph(NamedTuple):
    """The sparse structure that the kernels read; letters as in `conrl.kernels`."""

    first: Index  # [S+1]
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

    order: Index  # [n]: the state at each position
    pairs: Index  # the model's pair behind each pair of the graph below
    lo: Index  # [H]
    hi: Index  # [H]
    blocks: NDArray[np.uint32]  # those that can be occupied at step h are blocks[lo[h]:hi[h]]
    graph: Graph  # the pairs of those states, in positions
    initial: Float  # [n]
    outcomes: int  # of a pair, at most
    arrivals: int  # outcomes that lead to one state, at most

    @classmethod
    def of(cls, graph: Graph, initial: Float, horizon: int) -> Reach:
        since, sizes, members = kernels.reachable(graph.first, graph.start, graph.successor, initial, horizon)
        # By the step at which a state is first reached; within a step, states with as many actions and outcomes side
        # by side: less padding.
        actions, outcomes = np.diff(graph.first), np.diff(graph.start[graph.first])
        order = np.lexsort((outcomes, actions, since))[: np.count_nonzero(since < horizon)]
        position = np.zeros(initial.size, dtype=np.uint32)
        position[order] = np.arange(order.size, dtype=np.uint32)
        num_blocks = -(-order.size // kernels.LANES)
        lo, hi, blocks = kernels.occupied_blocks(position, num_blocks, sizes, members, horizon)
        inner, pairs, _ = graph.part(order, position)
        most = int(np.diff(inner.start).max()), int(np.bincount(inner.successor).max())
        return cls(order, pairs, lo, hi, blocks, inner, initial[order], *most)


def select(begin: Index, chosen: Index) -> tuple[NDArray[np.uint64], Index]:
    """The ranges begin[i] .. begin[i+1]-1 for each chosen i, one after the other: their new starts, their members."""
    sizes = begin[chosen + 1] - begin[chosen]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    members = np.arange(starts[-1]) + np.repeat(begin[chosen] - starts[:-1], sizes)
    return starts.astype(np.uint64), members

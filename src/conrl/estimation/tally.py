"""What single outcomes cost: beside the means of `conrl.estimation.counts`, how often each cost was seen.

A limit on single episodes is about realised totals, and a mean cost of 0.37 never occurs. So of the costs that are
counted each (state, action, successor, costs) is tallied, and the empirical model gets one outcome for each:

    p_hat(t, c | s, a) = times seen / N(s, a)

A pair never visited stays a self-loop without cost. The means, their bonus and caution stay as they are: they enter
limits on expectations only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from conrl._types import Array, Float, Int
from conrl.arguments import frozen
from conrl.errors import ModelError
from conrl.model import ConstrainedMDP
from conrl.model.graph import Graph, select

Key = tuple[int, int, int, tuple[float, ...]]  # state, action, successor, costs


class Tally:
    """How often each outcome was seen, of some costs."""

    def __init__(self, costs: Sequence[int]) -> None:
        self.costs = tuple(costs)
        self._number: dict[Key, int] = {}
        self._times: list[int] = []

    def add(self, states: Int, actions: Int, pay: Float) -> None:
        """The steps of an episode: states [L+1], actions [L], pay [L, 1+d]."""
        rows = pay[:, [1 + i for i in self.costs]].tolist()
        steps = zip(states[:-1].tolist(), actions.tolist(), states[1:].tolist(), map(tuple, rows), strict=True)
        for key in steps:
            number = self._number.setdefault(key, len(self._times))
            if number == len(self._times):
                self._times.append(0)
            self._times[number] += 1

    def model(self, means: ConstrainedMDP, pair: Int, place: Int) -> ConstrainedMDP:
        """The empirical model with an outcome for each that was seen, from the one with means of the places.

        `pair` [S, A] is the pair of a state and an action, `place` [S] that of a state.
        """
        state, action, successor, _, costs = self._columns()
        of = pair[state, action]
        counts = np.array(self._times, dtype=np.float64)
        visits = np.bincount(of, counts, minlength=means.num_pairs)
        unseen = np.flatnonzero(visits == 0.0)
        _, kept = select(means.graph.start, unseen)
        sizes = np.diff(means.graph.start)[unseen]
        owner = np.concatenate((of, np.repeat(unseen, sizes.astype(np.int64))))
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
        to = np.concatenate((place[successor], means.graph.successor[kept]))[order]
        p = np.concatenate((counts / visits[of], means.graph.probability[kept]))[order]
        paid = means.pay[owner]
        paid[:, [1 + i for i in self.costs]] = np.concatenate((costs, np.zeros((kept.size, costs.shape[1]))))[order]
        start = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=means.num_pairs))))
        graph = Graph(means.graph.first, frozen(start), frozen(to.astype(np.int32)), frozen(p))
        return means._copy(graph=graph, outcome_pay=frozen(paid), _derived={})

    def _columns(self) -> tuple[Int, Int, Int, Int, Float]:
        count = len(self._times)
        table = np.array([key[:3] for key in self._number], dtype=np.int64).reshape(count, 3)
        costs = np.array([key[3] for key in self._number], dtype=np.float64).reshape(count, len(self.costs))
        return table[:, 0], table[:, 1], table[:, 2], np.array(self._times, dtype=np.int64), costs

    # -- saving -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Everything, as arrays to save."""
        return dict(zip(("state", "action", "successor", "times", "costs"), self._columns(), strict=True))

    def load_state(self, state: Mapping[str, Array], seen: Array, visits: Array) -> None:
        """Go on from what `state` gave; it must add up to the visits [S, A], in states that were `seen` [S]."""
        columns = [state[name] for name in ("state", "action", "successor", "times")]
        costs, n = state["costs"], columns[0].shape[0]
        if any(c.shape != (n,) or c.dtype != np.int64 for c in columns):
            raise ModelError("the tally of outcomes makes no sense")
        if costs.shape != (n, len(self.costs)) or costs.dtype != np.float64 or not np.isfinite(costs).all():
            raise ModelError("the tally has costs that make no sense")
        s, a, t, times = columns
        S, A = visits.shape
        inside = (s >= 0) & (s < S) & (a >= 0) & (a < A) & (t >= 0) & (t < S) & (times > 0)
        total = np.zeros((S, A), dtype=np.int64)
        if inside.all():
            np.add.at(total, (s, a), times)
        if not inside.all() or not seen[t].all() or not np.array_equal(total, visits):
            raise ModelError("the tally of outcomes does not add up to the counts")
        keys = list(zip(s.tolist(), a.tolist(), t.tolist(), map(tuple, costs.tolist()), strict=True))
        if len(set(keys)) != n:
            raise ModelError("the tally has an outcome twice")
        self._number = {key: i for i, key in enumerate(keys)}
        self._times = times.tolist()

"""Branch and bound over deterministic policies.

A node of the tree is the model without some pairs (step, state, action). The best *mixture* of its policies is an upper
bound on the best one of them; column generation finds it, with its bound rounded outward (`column_generation/`). Where
the Markov form of that mixture plays one action at every step and state, it is itself a deterministic policy and the
node is done. Otherwise some step and state mixes, and of two children one plays the action with the most weight there,
the other does not have it: every deterministic policy is in one of them. A node whose bound is not above the best
policy found (by more than the tolerance) holds nothing better.

The node with the highest bound comes next. As the best mixture mixes at few places and there are many to mix at, bounds
fall slowly: the tree proves optimality of small models, and of larger ones that little is left to gain. Good policies
come from `local_search.py`, which gets its turn after every node.

Which single policy is best is NP-hard to tell: a knapsack is a model with one step for each item.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from conrl._types import Arrays, Bool, Float, Int
from conrl.errors import RunError
from conrl.oracles.restricted import Whole
from conrl.planners.allowance import Allowance
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Optimum
from conrl.planners.deterministic.local_search import LocalSearch
from conrl.planners.result import tolerance_of
from conrl.problem import Rows

TIGHTER = 8  # times that the rows are lowered to find a first policy
SHARE = 0.01  # of the gap of the whole, to which the mixtures of nodes are solved

Report = Callable[[float | None, float, float], None]  # objective, bound, seconds


class Clock:
    """Whether the time is up."""

    def __init__(self, seconds: float) -> None:
        self.began = time.monotonic()
        self.seconds = seconds

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    @property
    def is_up(self) -> bool:
        return self.elapsed >= self.seconds


@dataclass(frozen=True)
class Node:
    """The policies without the pairs `gone`, and without those of the nodes above."""

    above: Node | None
    gone: Int
    depth: int
    bound: float
    start: Arrays  # of column generation
    position: int  # where to branch: -1 if there is nothing to choose
    pair: int

    def all_gone(self, size: int) -> Bool:
        """[P]."""
        mask = np.zeros(size, dtype=bool)
        node: Node | None = self
        while node is not None:
            mask[node.gone] = True
            node = node.above
        return mask


class Tree:
    """The search; `bound` is above every deterministic policy that keeps the rows, at any time."""

    def __init__(self, oracle: Whole, rows: Rows, tol: float, clock: Clock) -> None:
        self.oracle, self.rows, self.tol, self.clock = oracle, rows, tol, clock
        self.reward = np.eye(1 + oracle.num_costs)[0]
        self.G = rows.matrix(oracle.num_costs)
        allowance = Allowance(oracle, rows)
        # Where some action costs so much that rounding would loosen a limit: judged as if nothing were rounded.
        self.allowance = allowance.of(np.zeros(1 + oracle.num_costs)) if allowance.by_point else allowance
        self.local = LocalSearch(oracle, rows, self.allowance)
        self.largest = oracle.horizon * float(oracle.scale[0])
        self.asked = 0
        self.nodes = 0
        self._grain = 0.0  # by which rounding keeps a bound above the policy that attains it
        self._open: list[tuple[float, int, int, Node]] = []
        self._closed = -np.inf  # the highest bound of what was left alone

    @property
    def bound(self) -> float:
        """No deterministic policy within the rows has more reward; -inf if there is none."""
        found = -np.inf if self.local.best is None else self.local.best.objective
        return max(found, self._closed, -self._open[0][0] if self._open else -np.inf)

    @property
    def tolerance(self) -> float:
        best = self.local.best
        return 0.0 if best is None else tolerance_of(self.tol, best.objective, self.largest)

    @property
    def is_closed(self) -> bool:
        best = self.local.best
        return best is not None and self.bound - best.objective <= self.tolerance

    @property
    def is_open(self) -> bool:
        """Whether something was not looked at."""
        return bool(self._open)

    def run(self, report: Report | None = None) -> Optimum:
        """Search until the gap is closed, nothing is left or the time is up; the best mixture, or `Conflict`."""
        optimum = self._root()
        more = self.local.go_on()
        while self._open and not self.is_closed and not self.clock.is_up:
            self.local.bound = self.bound
            node = heapq.heappop(self._open)[-1]
            if self._is_done(node.bound):
                continue
            first, end = self.local.first[node.position], self.local.first[node.position + 1]
            others = np.arange(first, end)
            self._branch(node, others[others != node.pair])
            self._branch(node, np.array([node.pair]))
            next(more, None)
            if report is not None:
                best = self.local.best
                report(None if best is None else best.objective, self.bound, self.clock.elapsed)
        return optimum

    def _root(self) -> Optimum:
        optimum = maximise(self.oracle, self.reward, self.rows, tol=self.tol)
        self.asked += optimum.asked
        self.local.multipliers, self.local.bound = optimum.multipliers, optimum.bound
        self._grain = 2.0 * self.allowance.outward(self.reward, optimum.multipliers, self.tol)
        self._add(None, np.zeros(0, dtype=np.int64), np.zeros(self.oracle.pairs, dtype=bool), optimum.bound, optimum)
        self._tighten(optimum)
        return optimum

    def _tighten(self, optimum: Optimum) -> None:
        """Look for a first good policy among those that are mixed for tighter rows.

        The policies of a mixture lie around the rows, in a large model very near to them. So the rows are lowered by
        what the heaviest policy exceeds them by, until it keeps them. (With one row, one that keeps it is among them.)
        """
        rows, start = self.rows, {"directions": optimum.directions, "multipliers": optimum.multipliers}
        last = np.full(rows.size, -1.0)
        for _ in range(TIGHTER if rows.size > 1 else 0):
            over = np.maximum(self.G @ optimum.points[int(np.argmax(optimum.weights))] - self.rows.bound, 0.0)
            if self.clock.is_up or (over <= self.allowance.computed).all() or np.array_equal(over, last):
                return
            last = over
            rows = rows.at(rows.bound - over)
            try:
                optimum = maximise(self.oracle, self.reward, rows, tol=max(self.tol, 1e-6), start=start)
            except (Conflict, RunError):
                return
            self.asked += optimum.asked
            self._tried(optimum)

    def _branch(self, node: Node, pairs: Int) -> None:
        """The child of a node without some more pairs."""
        gone = node.all_gone(self.oracle.pairs)
        gone[pairs] = True
        oracle = self.oracle.without(gone)
        multipliers = node.start["multipliers"]
        best = self.local.best
        # The multipliers of the node above are good ones here too: often their bound is enough.
        value = float(oracle.support_many((self.reward - multipliers @ self.G)[None]).values[0])
        value += float(multipliers @ self.rows.bound) if multipliers.size else 0.0
        self.asked += 1
        bound = min(node.bound, value + self.allowance.outward(self.reward, multipliers, self.tolerance or self.tol))
        if self._is_done(bound):
            return
        gap = bound - best.objective if best is not None else 0.0
        size = 1.0 if best is None else max(1.0, abs(best.objective))
        tol = max(self.tol, min(SHARE * gap / size, 1e-3))
        optimum: Optimum | None = None
        try:
            optimum = maximise(oracle, self.reward, self.rows, tol=tol, start=node.start)
        except Conflict:
            return
        except RunError:  # rounding: nothing is known but the bound
            pass
        if optimum is not None:
            self.asked += optimum.asked
            bound = min(bound, optimum.bound)
        self._add(node, pairs, gone, bound, optimum)

    def _is_done(self, bound: float) -> bool:
        """Leave a node alone if nothing in it is better, or if rounding could never tell."""
        best = self.local.best
        if best is None or bound > best.objective + max(self.tolerance, self._grain):
            return False
        self._closed = max(self._closed, bound)
        return True

    def _add(self, above: Node | None, pairs: Int, gone: Bool, bound: float, optimum: Optimum | None) -> None:
        """A node, if it is worth going on: its mixture's policies are tried, and one place where it mixes is chosen."""
        self.nodes += 1
        mass = np.zeros(gone.size) if optimum is None else self._tried(optimum)
        if self._is_done(bound):
            return
        position, pair = self._mixes(mass, gone)
        if position < 0:
            # One policy is left, and if it is none of the best then for reasons of rounding.
            self._closed = max(self._closed, bound)
            return
        start = {} if above is None else above.start
        if optimum is not None:
            start = {"directions": optimum.directions, "multipliers": optimum.multipliers}
        elif above is None:
            start = {"directions": np.zeros((0, self.reward.size)), "multipliers": np.zeros(self.rows.size)}
        depth = 0 if above is None else above.depth + 1
        node = Node(above, pairs, depth, bound, start, position, pair)
        heapq.heappush(self._open, (-bound, -depth, self.nodes, node))

    def _tried(self, optimum: Optimum) -> Float:
        """Try the policies of a mixture; the probability [P] of each pair in it."""
        local = self.local
        mass = np.zeros(self.oracle.pairs)
        for weight, direction in zip(optimum.weights, optimum.directions, strict=True):
            choice = local.choice_of(optimum.oracle.policy(direction))
            mass[choice] += weight * local.occupation(choice)
            local.offer(choice)
            local.suggest(choice)
        return mass

    def _mixes(self, mass: Float, gone: Bool) -> tuple[int, int]:
        """Where most is not played by the action with the most weight, and that action's pair.

        If it mixes nowhere, a place that is visited and has a choice; (-1, -1) if there is none.
        """
        first = self.local.first[:-1]
        top = np.maximum.reduceat(mass, first)
        rest = np.where(
            np.add.reduceat((mass > 0.0).astype(np.int64), first) > 1, np.add.reduceat(mass, first) - top, -1.0
        )
        i = int(np.argmax(rest))
        if rest[i] < 0.0:
            choices = np.add.reduceat((~gone).astype(np.int64), first)
            visited = top if mass.any() else np.ones(first.size)
            i = int(np.argmax(np.where(choices > 1, visited, 0.0)))
            if choices[i] < 2 or visited[i] <= 0.0:
                return -1, -1
        members = slice(int(self.local.first[i]), int(self.local.first[i + 1]))
        return i, members.start + int(np.argmax(np.where(gone[members], -1.0, mass[members])))

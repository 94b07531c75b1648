"""The exact oracle of large models: backward induction on the model's own arrays, a step at a time, in threads.

`BackwardInduction` reads a copy of the model, in an order and a layout that fill the vector registers. From a few
million transitions on, memory is what counts: here nothing is copied (`conrl.kernels.large`), and a step is shared by
the threads. The value vector of the greedy policy is computed backward too,

    Z_h(s) = pay(s, a) + sum over successors t of p(t) Z_{h+1}(t),      a the action chosen at step h in state s,

where each state is computed by itself, from what the step before left. So the answer is the same to the bit for any
number of threads.

Scratch memory is two rows of each state, now and next: its value and its 1+d totals for each direction in the sweep
(and 1+d more where there is a bonus). No policy is held: that of a direction is made when it is asked for.

Rounding. A total goes through a product and a sum for each outcome of a pair, H times, and then through the sum over
the first states: within chunks of CHUNK states in doubles, over the chunks exactly (`math.fsum`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Array, Bool, Float
from conrl.model import ConstrainedMDP
from conrl.oracles.inductive import InductiveOracle
from conrl.oracles.protocols import Supports
from conrl.oracles.threads import cores
from conrl.policy import Deterministic

CHUNK = 4096  # first states that are added up together
PARTS = 4  # ranges of a step for each thread: another program may delay one
LEAST = 2048  # states of a range: fewer are not worth handing over
WIDE = 4  # a step at which fewer than one in so many states can be occupied has a list of them
FAR = 3_000_000  # bytes of values from which on they are asked for ahead: no cache of one core holds them
NEAR = 30_000  # states: if half of all successors are no further away, the cache has them, and asking doubles the time
SAMPLE = 4096  # pairs that are looked at to tell
ALIGNED = 64  # bytes of a cache line
ALONE = 2  # this many directions or fewer are quicker one by one: a sweep of four takes as long as two and a half
NO_STATES = np.empty(0, dtype=np.uint32)
NO_ACTIONS = np.empty(0, dtype=np.int8)

States = NDArray[np.uint32]
Step = Callable[[int, States, int, int], None]  # of a step's number, its list of states, and a range of them


class LargeBackwardInduction(InductiveOracle):
    """`SupportOracle` of a large model, or of its optimistic set if it carries a bonus, in so many threads.

    Threads may share one: memory belongs to a call.
    """

    curved = True

    def __init__(self, mdp: ConstrainedMDP, threads: int | None = None) -> None:
        """Find what can be occupied at each step, and the range of the pay of all that can ever be."""
        assert not mdp.step_dependent
        self.threads = cores() if threads is None else threads
        self._graph = tuple(mdp.graph)
        self._lists, ever = _reached(mdp)
        width = 1 + mdp.num_costs
        self._low, self._high = np.empty(width), np.empty(width)
        outcomes = kernels.extent(mdp.graph.first, mdp.graph.start, mdp.pay, ever, self._low, self._high)
        starts = min(CHUNK, int(np.count_nonzero(mdp.initial)))
        operations = mdp.horizon * (outcomes + 1) + starts + 4 * mdp.num_costs + 12
        super().__init__(mdp, mdp.pay, mdp.bonus, (operations, operations))
        self.scale = np.maximum(np.abs(self._low), np.abs(self._high))
        self._spread = _distance(mdp) > NEAR
        self._moves = mdp.bonus is not None
        self._bonus_rows: Float = np.empty((0, width)) if mdp.bonus is None else mdp.bonus
        if mdp.bonus is not None:
            most = np.empty(width)
            kernels.extent(mdp.graph.first, mdp.graph.start, mdp.bonus, ever, np.empty(width), most)
            self._low, self._high = self._low - most, self._high + most
            self.scale = self.scale + most

    @property
    def box(self) -> tuple[Float, Float]:
        return self.horizon * self._low, self.horizon * self._high

    # -- answers ------------------------------------------------------------------------------------------

    def support_many(self, directions: Float) -> Supports:
        """Answers to the rows of `directions` [m, 1+d], up to FEW of them in one sweep."""
        m, width = directions.shape
        values, means, moved = np.empty(m), np.empty((m, width)), np.zeros((m, width))
        for begin in range(0, m, kernels.FEW):
            part = slice(begin, min(m, begin + kernels.FEW))
            if part.stop - part.start > ALONE:
                values[part], means[part], moved[part] = self._sweep_few(directions[part])
                continue
            for i in range(part.start, part.stop):
                values[i], means[i], moved[i] = self._sweep(np.ascontiguousarray(directions[i]))
        return Supports(values, means + np.sign(directions) * moved if self._moves else means.copy(), means)

    def _sweep(self, w: Float, sized: bool = False) -> tuple[float, Float, Float]:
        """support(w), and the totals of the greedy policy: of the pay, and of the bonus. `sized`: of the pay's size."""
        S, mdp, width = self.mdp.num_states, self.mdp, w.size
        along, tie, far = mdp.pay_along(w), self._tie(w), self._far(S)
        last = mdp.horizon - 1
        V, Z, Y = _rows(S, 1), _rows(S, width), _rows(S if self._moves else 0, width)

        def step(h: int, states: States, begin: int, end: int) -> None:
            new = h % 2
            old = 1 - new
            kernels.large_step(
                self._graph, along, mdp.pay, self._bonus_rows, tie, sized, states, begin, end, h == last, far,
                V[old].reshape(-1), V[new].reshape(-1), Z[old], Z[new], Y[old], Y[new], mdp.action, NO_ACTIONS,
            )  # fmt: skip

        tables = (V[0], Z[0], Y[0]) if self._moves else (V[0], Z[0])
        found = self._run(step, tables)
        return found[0][0], found[1], found[2] if self._moves else np.zeros(width)

    def _sweep_few(self, directions: Float) -> tuple[Float, Float, Float]:
        """The same for up to FEW directions [m, 1+d]; what is missing repeats the last."""
        (m, width), mdp, few = directions.shape, self.mdp, kernels.FEW
        filled = np.vstack((directions, np.repeat(directions[-1:], few - m, axis=0)))
        weights, ties = np.ascontiguousarray(filled.T), np.array([self._tie(w) for w in filled])
        sizes, S = np.abs(weights), mdp.num_states
        last, far = mdp.horizon - 1, self._far(few * S)
        V, Z, Y = _rows(S, few), _rows(S, few * width), _rows(S if self._moves else 0, few * width)

        def step(h: int, states: States, begin: int, end: int) -> None:
            new = h % 2
            old = 1 - new
            kernels.large_step_few(
                self._graph, mdp.pay, self._bonus_rows, weights, sizes, ties, states, begin, end, h == last, far,
                V[old], V[new], Z[old], Z[new], Y[old], Y[new],
            )  # fmt: skip

        found = self._run(step, (V[0], Z[0], Y[0]) if self._moves else (V[0], Z[0]))
        moved = found[2].reshape(few, width)[:m] if self._moves else np.zeros((m, width))
        return found[0][:m], found[1].reshape(few, width)[:m], moved

    def policy(self, w: Float) -> Deterministic:
        """The greedy policy for w; where nobody can come, the first action or, of an estimate, the greedy one.

        In bytes where the actions fit.
        """
        mdp, w = self.mdp, np.asarray(w, dtype=np.float64)
        S, H, last = mdp.num_states, mdp.horizon, mdp.horizon - 1
        actions = np.zeros((H, S), dtype=np.int8 if mdp.num_actions <= 128 else np.int16)
        along, tie, V = mdp.pay_along(w), self._tie(w), np.empty((2, S))
        none, far = np.empty((0, w.size)), self._far(S)
        if not mdp.all_exist:
            for states, row in zip(self._lists, actions, strict=True):
                if states.size:
                    row[:] = mdp.action[mdp.graph.first[:-1]]

        def step(h: int, states: States, begin: int, end: int) -> None:
            kernels.large_step(
                self._graph, along, mdp.pay, none, tie, False, states, begin, end, h == last, far, V[1 - h % 2],
                V[h % 2], none, none, none, none, mdp.action, actions[h],
            )  # fmt: skip

        self._run(step, ())
        return Deterministic._trusted_actions(actions, mdp.num_actions)

    def _far(self, values: int) -> bool:
        """Whether so many values are asked for ahead."""
        return self._spread and 8 * values >= FAR

    def _run(self, step: Step, tables: tuple[Float, ...]) -> list[Float]:
        """All steps, the last first, each in ranges that threads share; then what the start expects of each table."""
        with ThreadPoolExecutor(self.threads) as pool:

            def share(work: Callable[[int, int], None], count: int, least: int) -> None:
                parts = max(1, min(PARTS * self.threads, count // least))
                if self.threads == 1 or parts == 1:
                    work(0, count)
                    return
                ends = [count * i // parts for i in range(parts + 1)]
                for _ in pool.map(work, ends[:-1], ends[1:]):
                    pass

            for h in range(self.mdp.horizon - 1, -1, -1):
                states = self._lists[h]
                share(partial(step, h, states), states.size or self.mdp.num_states, LEAST)
            found, initial = [], self.mdp.initial
            for table in tables:
                sums = np.empty((-(-initial.size // CHUNK), table.shape[1]))
                share(partial(kernels.started, initial, table, CHUNK, sums), sums.shape[0], 8)
                found.append(np.array([math.fsum(column) for column in sums.T]))
        return found

    # -- rounding -----------------------------------------------------------------------------------------

    def _alike(self, mdp: ConstrainedMDP) -> LargeBackwardInduction:
        return LargeBackwardInduction(mdp, self.threads)

    @property
    def _extent(self) -> tuple[Float, Float]:
        return self._low, self._high

    def point_error(self, w: Float) -> Float:
        """By what its own policy is paid, in sizes: what an action that it does not play would pay is no error."""
        _, sizes, moved = self._sweep(np.asarray(w, dtype=np.float64), sized=True)
        return self.error_of(sizes + moved)


def _rows(count: int, width: int) -> tuple[Float, Float]:
    """Two tables [count, width], now and next, that begin with a cache line: a row of 4 numbers lies in one."""
    return _aligned(count, width), _aligned(count, width)


def _aligned(count: int, width: int) -> Float:
    room: Array = np.empty(count * width + ALIGNED // 8)
    begin = -room.ctypes.data % ALIGNED // 8
    return room[begin : begin + count * width].reshape(count, width)


def _distance(mdp: ConstrainedMDP) -> float:
    """How far states are from their successors, in numbers of states: the median of some."""
    g = mdp.graph
    pairs = np.linspace(0, mdp.num_pairs - 1, SAMPLE).astype(np.int64)
    states = np.searchsorted(g.first, pairs, side="right") - 1
    return float(np.median(np.abs(g.successor[g.start[pairs]] - states)))


def _reached(mdp: ConstrainedMDP) -> tuple[list[States], Bool]:
    """The states that can be occupied at each step, as long as they are few: later lists are empty, for all states.

    And [S]: which states can be occupied at all; empty for all of them. Of an estimate, all count: it may err.
    """
    S, H, g = mdp.num_states, mdp.horizon, mdp.graph
    now = np.flatnonzero(mdp.initial).astype(np.uint32)
    if mdp._visits is not None:
        return [NO_STATES] * H, _ever(mdp, now)
    lists: list[States] = []
    while len(lists) < H and now.size * WIDE < S:
        lists.append(now)
        mark = np.zeros(S, dtype=bool)
        kernels.mark_next(g.first, g.start, g.successor, now, mark)
        now = np.flatnonzero(mark).astype(np.uint32)
    return lists + [NO_STATES] * (H - len(lists)), _ever(mdp, lists[0] if lists else now)


def _ever(mdp: ConstrainedMDP, now: States) -> Bool:
    """[S]: the states that can be occupied at some step; empty if all can."""
    g = mdp.graph
    ever = np.zeros(mdp.num_states, dtype=bool)
    ever[now] = True
    for _ in range(1, mdp.horizon):
        if not now.size:
            break
        mark = np.zeros_like(ever)
        kernels.mark_next(g.first, g.start, g.successor, now, mark)
        mark &= ~ever
        now = np.flatnonzero(mark).astype(np.uint32)
        ever |= mark
    return np.empty(0, dtype=bool) if ever.all() else ever

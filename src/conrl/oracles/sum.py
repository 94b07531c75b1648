"""The oracle of a fleet: the support function of a sum is the sum of the support functions.

    support(w) = sum over units n of support_n(w),   z(w) = sum_n z_n(w)

One backward induction and one forward pass a unit, LANES units at a time (`conrl.kernels.fleets`). With limits per
step z has H more entries for each such cost, and w weighs a cost differently from step to step: still one backward
induction.

Rounding. A unit's total is a sum of products; it is off by at most (operations on the way) x 2^-53 x (its expected
total of the sizes of what is added). Units are added up lane by lane within a chunk of CHUNK blocks, which are as many
more operations, and chunks exactly (`math.fsum`, rounded once). So the total of the fleet is off by at most (operations
of a unit + CHUNK + a few) x 2^-53 x (the sum over units of those totals).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Float, Int
from conrl.errors import SpecError
from conrl.model.fleet import Fleet
from conrl.model.reading import ROW_SUM_TOLERANCE
from conrl.model.stack import Stack
from conrl.oracles.protocols import TIE, Rounding, SupportOracle, Supports
from conrl.oracles.threads import cores
from conrl.policy import Policy
from conrl.rounding import HALF_ULP, TINY

CHUNK = 256  # blocks that are added up together
NONE = np.zeros((0, 0, 0, 0)), np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0, 0), dtype=np.uint16)
SMALL = 2e6  # steps x outcomes x units below which threads are not worth it


class Chunk(NamedTuple):
    """Blocks of one stack."""

    stack: int
    begin: int
    end: int


class SumOracle(SupportOracle):
    """`SupportOracle` of a `Fleet`; threads may share one. Its answers do not depend on how many threads it uses."""

    def __init__(self, fleet: Fleet, threads: int | None = None) -> None:
        """Cut the stacks into chunks, and add up the largest pay of all units: that bounds every total."""
        self.fleet, self.horizon = fleet, fleet.horizon
        self.num_costs = fleet.num_costs + fleet.step_limits.size
        self.threads = threads or cores()
        self._stepwise = np.array([1 + i for i in fleet.step_costs], dtype=np.int64)
        self._tie_unit = TIE
        self._chunks = [
            Chunk(i, begin, min(begin + CHUNK, stack.count.shape[0]))
            for i, stack in enumerate(fleet.stacks)
            for begin in range(0, stack.count.shape[0], CHUNK)
        ]
        sizes = sum(
            (np.einsum("bl,bil->i", stack.count, stack.size[stack.data]) for stack in fleet.stacks),
            np.zeros(1 + fleet.num_costs),
        )
        steps = [sizes[i] for i in self._stepwise for _ in range(fleet.horizon)]
        rounded = 1.0 + 1e-9 + 2.0 * HALF_ULP * fleet.num_members  # it is a sum itself
        self.scale = np.concatenate((sizes, steps)) * rounded
        work = sum(stack.successor.size * stack.count.size for stack in fleet.stacks) * fleet.horizon
        self._alone = work < SMALL
        self._patterns = [
            (
                stack.first.astype(np.uint64),
                stack.start.astype(np.uint64),
                stack.successor.astype(np.uint32),
                np.uint64(stack.shift),
            )
            for stack in fleet.stacks
        ]

    # -- answers ------------------------------------------------------------------------------------------

    def support_many(self, directions: Float) -> Supports:
        """Answers to the rows of `directions` [m, 1 + d + n H], all in one sweep over the units."""
        values, points = self._sweep(np.asarray(directions, dtype=np.float64))
        return Supports(values, points, points)

    def _sweep(self, directions: Float, absolute: bool = False) -> tuple[Float, Float]:
        m = directions.shape[0]
        values = np.empty((len(self._chunks), m))
        points = np.empty((len(self._chunks), m, 1 + self.num_costs))
        weights, largest = self._weights(directions)

        def work(c: int) -> None:
            chunk = self._chunks[c]
            self._run(chunk, weights, largest, absolute, values[c], points[c], *NONE)

        self._map(work, len(self._chunks))
        total = np.array([math.fsum(column) for column in values.T])
        summed = np.array([math.fsum(column) for column in points.reshape(len(self._chunks), -1).T])
        return total, summed.reshape(m, -1)

    def _run(self, chunk: Chunk, weights: Float, largest: Float, absolute: bool, *out: NDArray[np.generic]) -> None:
        stack = self.fleet.stacks[chunk.stack]
        numbers = stack.probability, stack.pay, stack.size, stack.data, stack.initial, stack.count
        kernels.fleet_sweep(
            self._patterns[chunk.stack], numbers, self.horizon, weights, largest, self._stepwise,
            self._tie_unit * self.horizon, absolute, chunk.begin, chunk.end, *out,
        )  # fmt: skip

    def _weights(self, directions: Float) -> tuple[Float, Float]:
        """[m, 1 or H, 1+d]: what each coordinate counts at each step; [m, 1+d]: the largest size of that."""
        width, H = 1 + self.fleet.num_costs, self.horizon
        weights = np.repeat(directions[:, None, :width], H if self._stepwise.size else 1, axis=1)
        for n, i in enumerate(self._stepwise):
            weights[:, :, i] += directions[:, width + n * H : width + (n + 1) * H]
        return np.ascontiguousarray(weights), np.ascontiguousarray(np.abs(weights).max(axis=1))

    def _map(self, work: Callable[[int], None], count: int) -> None:
        """Call it for 0..count-1, in threads where that is worth it; kernels hold no lock."""
        if self._alone or count == 1 or self.threads == 1:
            for c in range(count):
                work(c)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(work, range(count)):
                pass

    def strict(self) -> Self:
        oracle = copy.copy(self)
        oracle._tie_unit = 0.0
        return oracle

    def point_error(self, w: Float) -> Float:
        """A cost that is never negative is its own size: what it comes to bounds its error."""
        prior = self.rounding(sharp=True).point
        point = self.support(np.asarray(w, dtype=np.float64)).point
        plain = np.ones(1 + self.fleet.num_costs, dtype=bool)  # coordinates of one sign
        for stack in self.fleet.stacks:
            low, high = stack.pay.min(axis=(0, 2, 3)), stack.pay.max(axis=(0, 2, 3))
            plain &= (low >= 0.0) | (high <= 0.0)
        every = np.concatenate((plain, np.repeat(plain[self._stepwise], self.horizon)))
        _, forward, unit, lost = self._operations()
        own = forward * unit * np.abs(point) * (1.0 + 1e-6) + lost
        return np.where(every, np.minimum(own, prior), prior)

    def _operations(self) -> tuple[int, int, float, Float]:
        """Operations of a support value and of a point, what one of them is off by, and what underflow may lose."""
        H, more = self.horizon, 4 * self.fleet.num_costs + 16
        backward = forward = 0
        for stack in self.fleet.stacks:
            S, P = stack.num_states, stack.action.size
            outcomes = int(np.diff(stack.start).max())
            arrivals = int(np.bincount(stack.successor).max())
            backward = max(backward, H * (outcomes + 1) + S)
            forward = max(forward, H * (arrivals + 2) + P)
        backward, forward = backward + CHUNK + more, forward + CHUNK + more
        unit = 1.01 * HALF_ULP * math.exp(ROW_SUM_TOLERANCE * H)
        lost = TINY * forward * (1.0 + self.scale) * float(self.fleet.num_units)  # of probabilities, where pay is large
        return backward, forward, unit, lost

    def rounding(self, sharp: bool = False) -> Rounding:
        backward, forward, unit, lost = self._operations()
        totals = self._largest_totals() if sharp else self.horizon * self.scale
        steps = slice(1 + self.fleet.num_costs, None)
        totals[steps] = self.scale[steps]  # of one step, not of all
        return Rounding(backward * unit * totals, forward * unit * totals + lost)

    def _largest_totals(self) -> Float:
        """By backward induction on the sizes; upward, as that is rounded too."""
        width = 1 + self.fleet.num_costs
        values, _ = self._sweep(np.eye(width, 1 + self.num_costs), absolute=True)
        return np.concatenate((values, self.scale[width:])) * (1.0 + 1e-6)

    # -- units --------------------------------------------------------------------------------------------

    def points_apart(self, directions: Float) -> Float:
        """[m, M, 1 + d + n H]: the value vectors of one unit of each member, in the same answers."""
        m, width = directions.shape[0], 1 + self.num_costs
        weights, largest = self._weights(directions)
        apart = [np.zeros((m, stack.count.shape[0], width, kernels.LANES)) for stack in self.fleet.stacks]

        def work(c: int) -> None:
            chunk = self._chunks[c]
            waste = np.empty(m), np.empty((m, width))
            self._run(chunk, weights, largest, False, *waste, apart[chunk.stack], *NONE[1:])

        self._map(work, len(self._chunks))
        tables = [
            np.moveaxis(table, 2, 3).reshape(m, -1, width)[:, : stack.members]
            for table, stack in zip(apart, self.fleet.stacks, strict=True)
        ]
        return tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1)

    def choices(self, stack: int, direction: Float, rows: Int, table: NDArray[np.uint16]) -> None:
        """Into table [T, H, S], at the rows [M] of the members of a stack: what each does; nothing where that is -1.

        A choice is the number of an action among those of its state.
        """
        part: Stack = self.fleet.stacks[stack]
        lanes: Int = np.full(part.count.size, -1, dtype=np.int64)
        lanes[: rows.size] = rows
        lanes = lanes.reshape(part.count.shape)
        weights, largest = self._weights(np.asarray(direction, dtype=np.float64)[None])
        wanted = [c for c in self._chunks if c.stack == stack and (lanes[c.begin : c.end] >= 0).any()]

        def work(c: int) -> None:
            waste = np.empty(1), np.empty((1, 1 + self.num_costs))
            self._run(wanted[c], weights, largest, False, *waste, NONE[0], lanes, table)

        self._map(work, len(wanted))

    def policy(self, w: Float) -> Policy:
        """There is none for a fleet as a whole."""
        raise SpecError("a fleet has a policy for each unit and none for all; see FleetPlan.policy")

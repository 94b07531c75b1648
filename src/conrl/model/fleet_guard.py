"""The guard of a fleet: what each unit may still need, so that no run spends more than the budgets.

For each unit, step h and state s, a *safe* policy is the one with the least worst case of its costs to go (weighed by
the limits; of several, one that earns most); rho_h(s) is that worst case, cost by cost: zero where some action is free.
The guard keeps

    spent so far + sum over units of rho(where they are) <= limit                                              (1)

An action is played if (1) still holds after its worst outcome; else the unit does what is safe, after which (1) always
holds, by the definition of rho. At the start (1) is checked for the worst first states, and refused if it fails. Limits
per step are kept the same way, with the worst case of the safe policy at each later step in place of rho.

Costs are counted in quanta, powers of two that are as small as 63 bits allow, each rounded down. A limit is what it is
in a plan, with what rounding may have taken from it (`conrl.model.counting`): ten costs of 0.1 use up a limit of 1. So
whatever fits is played; and with N units and H steps, at costs of at most c, no run spends more than

    limit + H N quanta,  a quantum being at most 2^-60 H N c                              (2)

but for rounding: less than a billionth of H N c, what the units could spend together, for H N up to 10^9. Costs that
are multiples of the quantum, as whole numbers are, are counted exactly; then no run spends more than the limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Bool, Float, Int
from conrl.errors import SpecError
from conrl.model.counting import Sums
from conrl.model.stack import Stack

if TYPE_CHECKING:
    from conrl.model.fleet import Fleet

FREE = 2**62  # quanta that are never reached: no limit
BITS = 61
MOST_LATER = 2**31  # bytes of the table of what may be needed step by step
PART = 4096  # units whose safe policies are made at a time


class Books(NamedTuple):
    """Limits in quanta."""

    quantum: Float  # [d]
    columns: Int  # [c]: the costs that are limited in any way
    limit: Int  # [c]
    steps: Int  # [n]: the costs that are limited step by step
    step_limit: Int  # [n, H]
    sums: tuple[Sums, ...]  # [d]: what the total of a run is a sum of
    step_sums: tuple[Sums, ...]  # [d]: and that of a step

    @property
    def bind(self) -> bool:
        """Whether anything is limited."""
        return bool((self.limit < FREE).any() or (self.step_limit < FREE).any())


class Safe(NamedTuple):
    """The safe policies of the kinds of a stack, and what they may need; empty where that is nothing."""

    choice: NDArray[np.uint16]  # [kinds, H, S]
    reserve: Int  # [kinds, H+1, S, c]: in the worst case from there on
    later: Int  # [kinds, H, S, n, H]: in the worst case at each step from there on


UNGUARDED = Safe(
    np.zeros((0, 0, 0), dtype=np.uint16),
    np.zeros((0, 0, 0, 0), dtype=np.int64),
    np.zeros((0, 0, 0, 0, 0), dtype=np.int64),
)


def books_of(fleet: Fleet, limits: Float) -> Books:
    """Quanta so small that H steps of all units, at the largest cost, are 2^61 of them at most."""
    H, N = fleet.horizon, fleet.num_units
    largest, low, high = np.zeros((3, fleet.num_costs))
    for stack in fleet.stacks:
        paid = stack.paid[:, 1:, _reached(stack)]
        sizes = np.abs(paid).max(axis=2)  # [D, d, LANES]
        largest += H * np.einsum("bl,bil->i", stack.count, sizes[stack.data])
        low, high = np.minimum(low, paid.min(axis=(0, 2, 3))), np.maximum(high, paid.max(axis=(0, 2, 3)))
    exponent = np.where(largest > 0.0, np.frexp(largest * (1.0 + 1e-9))[1], 0) - BITS
    quantum = np.ldexp(1.0, np.maximum(exponent, -1000))
    limited = {int(i) for i in np.flatnonzero(np.isfinite(limits))} | set(fleet.step_costs)
    columns, steps = (np.array(sorted(x), dtype=np.int64) for x in (limited, fleet.step_costs))

    ends = list(zip(low.tolist(), high.tolist(), strict=True))
    sums, step_sums = (tuple(Sums.of(each, *pair, times=N) for pair in ends) for each in (H, 1))

    def quanta(cost: int, limit: float, sums: Sums) -> int:
        """A limit in quanta, rounded down; FREE for one that nothing can reach."""
        if abs(limit) >= FREE * quantum[cost]:  # as 1e300 is, too
            return FREE if limit > 0.0 else -FREE
        return math.floor(sums.reach(limit) / Fraction(quantum[cost]))

    of_steps = [
        [quanta(i, x, step_sums[i]) for x in row] for i, row in zip(steps, fleet.step_limits.tolist(), strict=True)
    ]
    return Books(
        quantum,
        columns,
        np.array([quanta(i, limits[i], sums[i]) for i in columns], dtype=np.int64),
        steps,
        np.array(of_steps, dtype=np.int64).reshape(fleet.step_limits.shape),
        sums,
        step_sums,
    )


def _reached(stack: Stack) -> Int:
    """The pairs, or outcomes where costs are by outcome, of states that some unit can come to."""
    pairs = np.arange(stack.action.size)
    if not stack.step_dependent:
        found: Bool = np.asarray((stack.starts > 0.0).any(axis=0))
        node = np.repeat(np.arange(stack.num_states), np.diff(stack.first))
        origin = np.repeat(node, np.diff(stack.start))
        while True:
            more = found.copy()
            more[stack.successor[found[origin]]] = True
            if (more == found).all():
                break
            found = more
        pairs = np.flatnonzero(found[node])
    if stack.outcome_pay is None:
        return pairs
    return np.flatnonzero(np.isin(np.repeat(np.arange(stack.action.size), np.diff(stack.start)), pairs))


def safe_policies(fleet: Fleet, stack: Stack, paid: Float, books: Books) -> Safe:
    """Those of a stack whose costs are paid [D, d, K or P, LANES], in quanta."""
    H, S, K, c, n = fleet.horizon, stack.num_states, stack.kinds, books.columns.size, books.steps.size
    weights = np.zeros((H, c))
    for k, i in enumerate(books.columns):
        if books.limit[k] < FREE:
            weights[:, k] += 1.0 / max(1.0, abs(float(books.limit[k])))
        for m in np.flatnonzero(books.steps == i):
            bind = books.step_limit[m] < FREE
            weights[bind, k] += 1.0 / np.maximum(1.0, np.abs(books.step_limit[m, bind].astype(np.float64)))
    pattern = stack.first, stack.start, stack.successor, stack.shift
    at_step = np.searchsorted(books.columns, books.steps)
    safe = np.zeros((K, H, S), dtype=np.uint16)
    reserve, later = UNGUARDED.reserve, UNGUARDED.later
    for begin in range(0, K, PART):
        end = min(K, begin + PART)
        blocks = slice(begin // kernels.LANES, -(-end // kernels.LANES))
        part = np.zeros((end - begin, H + 1, S, c), dtype=np.int64)
        needs = np.zeros((end - begin, H, S, c), dtype=np.int64)
        p, x, gain = stack.probability[blocks], paid[blocks], np.ascontiguousarray(stack.pay[blocks, 0])
        kernels.safe_policies(
            pattern, p, gain, x, stack.outcome_pay is not None, books.columns, weights, end - begin, safe[begin:end],
            part, needs,
        )  # fmt: skip
        if part.any():
            if not reserve.size:
                reserve = np.zeros((K, H + 1, S, c), dtype=np.int64)
            reserve[begin:end] = part
        if n and needs[..., at_step].any():
            if 8 * K * H * S * n * H > MOST_LATER:
                raise SpecError(
                    f"the guard of limits per step would need {8 * K * H * S * n * H:,} bytes here, as units cannot do "
                    "without these costs; use fewer units or steps, or guard=False"
                )
            if not later.size:
                later = np.zeros((K, H, S, n, H), dtype=np.int64)
            chosen = np.ascontiguousarray(needs[..., at_step])
            kernels.later_needs(pattern, p, safe[begin:end].astype(np.int64), chosen, end - begin, later[begin:end])
    return Safe(safe, reserve, later)


def check_start(fleet: Fleet, parts: Sequence[tuple[Stack, Safe]], books: Books) -> None:
    """Refuse budgets that even the safe policies may exceed."""
    needed = [0] * books.columns.size
    steps = [[0] * fleet.horizon for _ in books.steps]
    for stack, safe in parts:
        possible, kind, counts = stack.starts > 0.0, stack.kind, stack.counts.astype(np.int64)
        if safe.reserve.size:
            for i in range(len(needed)):
                most = np.where(possible, safe.reserve[kind, 0, :, i], np.iinfo(np.int64).min).max(axis=1)
                needed[i] += int(sum((counts * most).tolist()))
        if safe.later.size:
            for i, row in enumerate(steps):
                for h in range(fleet.horizon):
                    most = np.where(possible, safe.later[kind, 0, :, i, h], np.iinfo(np.int64).min).max(axis=1)
                    row[h] += int(sum((counts * most).tolist()))

    def check(name: str, need: int, limit: int, quantum: float) -> None:
        if need > limit:
            raise SpecError(
                f"the guard cannot promise {name} <= {limit * quantum:.10g}: in the worst case its careful policies, "
                f"which weigh all limits together, need {need * quantum:.10g}; raise the limit, or simulate with "
                "guard=False",
                key=("guard",),
            )

    for i, column in enumerate(books.columns):
        check(fleet.cost_names[column], needed[i], int(books.limit[i]), float(books.quantum[column]))
    for i, column in enumerate(books.steps):
        for h in range(fleet.horizon):
            name = f"{fleet.cost_names[column]} at step {h + fleet.step}"
            check(name, steps[i][h], int(books.step_limit[i, h]), float(books.quantum[column]))

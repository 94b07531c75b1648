"""Many different units of one shape, read from tables: [N, S, A, S] transitions, [N, S, A] rewards, [N, S, A, d] costs.

They become one `Stack`, whose common pattern has each outcome that some unit has. Tables are read and checked a part of
the units at a time; each refusal names the unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from conrl._types import Array, Bool, Float, Int
from conrl.arguments import LARGEST, any_array, float_array, is_sparse
from conrl.errors import ModelError
from conrl.model.outcomes import NO_ACTION, csr_copy, is_sparse_list
from conrl.model.reading import ROW_SUM_TOLERANCE, check_distribution, check_sizes, read_available
from conrl.model.stack import LANES, Stack, interleaved, with_members

PART = 8192  # units that are read at a time: what is checked is copied


def of_units(transitions: Any, rewards: Any, costs: Any, available: Any, initial: Any) -> Stack:
    """Units of one shape from tables: [N, S, A, S] (or sparse [N*S*A, S]), [N, S, A] and [N, S, A, d]."""
    table = any_array(rewards, "rewards")
    if table.ndim != 3 or table.size == 0:
        raise ModelError(f"rewards has shape {table.shape}; a stack of units takes (N, S, A)", key=("rewards",))
    N, S, A = table.shape
    check_sizes(S, A)
    sparse = is_sparse(transitions) or is_sparse_list(transitions)
    read = _sparse(transitions, N, S, A) if sparse else _dense(transitions, N, S, A)
    exists = read_available(available, S, A)
    if not exists.any(axis=1).all():
        raise ModelError(f"state {int(np.argmin(exists.any(axis=1)))} {NO_ACTION}", key=("available",))
    pairs = np.flatnonzero(exists)
    first = np.concatenate(([0], np.cumsum(exists.sum(axis=1))))
    pattern, probability = read.interleave(exists.reshape(-1))
    row_of = np.repeat(np.arange(pairs.size), pattern.sum(axis=1))
    cost_table = None if costs is None else any_array(costs, "costs")
    d = _num_costs(cost_table, (N, S, A))
    blocks = -(-N // LANES)
    pay = np.zeros((blocks, 1 + d, pairs.size, LANES))
    for begin, end, at in _parts(N):
        pay[at, 0] = _pay_part(table, "rewards", begin, end, (S, A), pairs)[:, :, 0]
        if d:
            pay[at, 1:] = np.moveaxis(_pay_part(cost_table, "costs", begin, end, (S, A), pairs), 2, 1)
    stack = Stack(
        num_states=S,
        num_actions=A,
        step_dependent=False,
        kinds=N,
        members=N,
        first=first.astype(np.int64),
        start=np.searchsorted(row_of, np.arange(pairs.size + 1)),
        successor=np.nonzero(pattern)[1].astype(np.int64),
        action=pairs % A,
        probability=probability,
        pay=pay,
        outcome_pay=None,
        size=np.maximum(pay.max(axis=2), -pay.min(axis=2)),
        data=np.zeros(0, dtype=np.int64),
        initial=np.zeros(0),
        count=np.zeros(0),
    )
    for array in (stack.probability, stack.pay, stack.size):
        array.flags.writeable = False
    return with_members(stack, read_starts(initial, N, S), np.ones(N))


def _parts(units: int) -> Iterator[tuple[int, int, slice]]:
    """The units begin..end-1 that are read together, and their blocks."""
    for begin in range(0, units, PART):
        end = min(units, begin + PART)
        yield begin, end, slice(begin // LANES, -(-end // LANES))


class _Dense:
    """Transitions as a table [N, S, A, S]."""

    def __init__(self, table: Array, sizes: tuple[int, int, int]) -> None:
        self.table, self.sizes = table, sizes

    def part(self, begin: int, end: int) -> Float:
        _, S, A = self.sizes
        return float_array(self.table[begin:end], "transitions").reshape(end - begin, S * A, S)

    def interleave(self, exists: Bool) -> tuple[Bool, Float]:
        """[P, S]: the outcomes that some unit has; [B, K, LANES]: their probabilities."""
        N, _, A = self.sizes
        pairs = np.flatnonzero(exists)
        pattern = np.zeros((pairs.size, self.sizes[1]), dtype=bool)
        for begin, end, _ in _parts(N):
            p = self.part(begin, end)[:, pairs]
            _check_rows(p, begin, pairs, A)
            pattern |= (p > 0.0).any(axis=0)
        flat = np.flatnonzero(pattern)
        out = np.zeros((-(-N // LANES), flat.size, LANES))
        for begin, end, at in _parts(N):
            p = self.part(begin, end)[:, pairs].reshape(end - begin, -1)
            out[at] = interleaved(p[:, flat])
        return pattern, out


class _Sparse:
    """Transitions as a sparse matrix [N*S*A, S], by rows."""

    def __init__(self, matrix: Any, sizes: tuple[int, int, int]) -> None:
        self.matrix, self.sizes = matrix, sizes

    def interleave(self, exists: Bool) -> tuple[Bool, Float]:
        """The same from a sparse table: the entries of each pair that exists, put in their places part by part."""
        N, S, A = self.sizes
        m = self.matrix
        rows = np.repeat(np.arange(m.shape[0]), np.diff(m.indptr))
        unit, pair = np.divmod(rows, S * A)
        kept = exists[pair] & (m.data != 0.0)
        unit, pair, column, value = unit[kept], pair[kept], m.indices[kept], m.data[kept]
        pairs = np.flatnonzero(exists)
        for begin in range(0, N, PART):
            end = min(N, begin + PART)
            p = np.zeros(((end - begin), pairs.size, 2))
            inside = slice(*np.searchsorted(unit, (begin, end)))
            at = (unit[inside] - begin) * pairs.size + np.searchsorted(pairs, pair[inside])
            p[:, :, 0] = np.bincount(at, value[inside], p.shape[0] * p.shape[1]).reshape(p.shape[:2])
            bad = ~(np.isfinite(value[inside]) & (value[inside] >= 0.0))
            p.reshape(-1, 2)[at[bad], 1] = -1.0  # so that it is found
            _check_rows(p, begin, pairs, A)
        pattern = np.zeros((S * A, S), dtype=bool)
        pattern[pair, column] = True
        number = np.cumsum(pattern.reshape(-1)) - 1
        out = np.zeros((-(-N // LANES), int(pattern.sum()), LANES))
        out[unit // LANES, number[pair * S + column], unit % LANES] = value
        return pattern[pairs], out


def _dense(transitions: Any, N: int, S: int, A: int) -> _Dense:
    table = any_array(transitions, "transitions")
    if table.shape != (N, S, A, S):
        raise ModelError(
            f"transitions has shape {table.shape}; with rewards of shape {(N, S, A)} it must be {(N, S, A, S)}, or "
            f"sparse {(N * S * A, S)}",
            key=("transitions",),
        )
    return _Dense(table, (N, S, A))


def _sparse(transitions: Any, N: int, S: int, A: int) -> _Sparse:
    """One matrix [N*S*A, S], or a list of N matrices [S*A, S]."""
    import scipy.sparse as sp

    given: Sequence[Any] = transitions if isinstance(transitions, (list, tuple)) else [transitions]
    shape = (N * S * A // len(given), S)
    for one in given:
        if one.shape != shape or (len(given) > 1 and len(given) != N):
            raise ModelError(
                f"transitions is sparse with shape {one.shape}; with rewards of shape {(N, S, A)} it must be "
                f"{(N * S * A, S)}, or a list of {N} of shape {(S * A, S)}",
                key=("transitions",),
            )
    read = [csr_copy(one, "transitions") for one in given]
    return _Sparse(read[0] if len(read) == 1 else sp.csr_array(sp.vstack(read, format="csr")), (N, S, A))


def _check_rows(p: Float, begin: int, pairs: Int, num_actions: int) -> None:
    """Refuse what are no distributions: p [n, P, S] of the units from `begin` on."""
    total = p.sum(axis=2)
    wrong = ~((np.abs(total - 1.0) <= ROW_SUM_TOLERANCE) & (p >= 0.0).all(axis=2))
    if wrong.any():
        n, k = (int(x) for x in np.argwhere(wrong)[0])
        s, a = divmod(int(pairs[k]), num_actions)
        what = f"sums to {total[n, k]:.12g}" if (p[n, k] >= 0.0).all() else "has a negative or non-finite entry"
        raise ModelError(
            f"transitions of unit {begin + n}, state {s}, action {a} {what}; a distribution sums to 1 (within "
            f"{ROW_SUM_TOLERANCE:g}); leave a pair that does not exist out with `available`",
            key=("transitions",),
        )


def _num_costs(table: Array | None, shape: tuple[int, int, int]) -> int:
    if table is None:
        return 0
    if table.shape == shape:
        return 1
    if table.ndim != 4 or table.shape[:3] != shape:
        N, S, A = shape
        message = f"costs has shape {table.shape}; expected ({N}, {S}, {A}, d), or ({N}, {S}, {A}) for one cost"
        raise ModelError(message, key=("costs",))
    return int(table.shape[3])


def _pay_part(values: Any, what: str, begin: int, end: int, sizes: tuple[int, int], pairs: Int) -> Float:
    """[blocks, P, n, LANES]: rewards or costs of the units begin..end-1 at the pairs that exist."""
    part = float_array(values[begin:end], what).reshape(end - begin, sizes[0] * sizes[1], -1)[:, pairs]
    if not (np.abs(part) <= LARGEST).all():
        n, k, _ = (int(x) for x in np.argwhere(~(np.abs(part) <= LARGEST))[0])
        s, a = divmod(int(pairs[k]), sizes[1])
        raise ModelError(
            f"{what} of unit {begin + n}, state {s}, action {a} must be finite and at most {LARGEST:g} in size",
            key=(what,),
        )
    rows = interleaved(part.reshape(end - begin, -1))
    return np.ascontiguousarray(rows.reshape(rows.shape[0], pairs.size, part.shape[2], LANES))


def read_starts(initial: Any, units: int, num_states: int) -> Float:
    """[N, S]: from a state for all, states [N], a distribution [S] for all, or distributions [N, S]."""
    given = any_array(initial, "initial")
    starts = np.zeros((units, num_states))
    if given.dtype.kind in "iu" and given.shape in ((), (units,)):
        bad = (given < 0) | (given >= num_states)
        if np.any(bad):
            n = int(np.argmax(bad))
            of = f"[{n}]" if given.ndim else ""
            value = given.reshape(-1)[n]
            raise ModelError(f"initial{of} is {value}; a state is in 0..{num_states - 1}", key=("initial",))
        starts[np.arange(units), given] = 1.0
        return starts
    table = float_array(initial, "initial")
    if table.shape not in ((num_states,), (units, num_states)):
        raise ModelError(
            f"initial has shape {table.shape}; expected a state, {units} states (whole numbers), or probabilities of "
            f"shape ({num_states},) or {(units, num_states)}",
            key=("initial",),
        )
    if table.ndim == 1:
        check_distribution(table, "initial", lambda s: f"state {s}")
    else:
        wrong = ~((table >= 0.0).all(axis=1) & (np.abs(table.sum(axis=1) - 1.0) <= ROW_SUM_TOLERANCE))
        if wrong.any():
            n = int(np.argmax(wrong))
            raise ModelError(f"initial of unit {n} is no distribution; it must sum to 1", key=("initial",))
    starts[:] = table
    return starts

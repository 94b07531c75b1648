"""Units of one shape, as the kernels of fleets read them: a common pattern, and the numbers of 8 units side by side.

A *kind* is a process (transitions, reward, costs); a *member* is a kind with a first state, or a distribution of it,
and a count. In a stack of different units each kind has one member. A model of which there are many units is a stack
of one kind, with a member for each state that some of them are in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conrl import kernels
from conrl._types import Array, Bool, Float, Int
from conrl.arguments import LARGEST, any_array, float_array, is_sparse
from conrl.errors import ModelError
from conrl.model.mdp import ConstrainedMDP
from conrl.model.outcomes import NO_ACTION
from conrl.model.reading import ROW_SUM_TOLERANCE, check_distribution, check_sizes, read_available

PART = 8192  # units that are read at a time: what is checked is copied
LANES = kernels.LANES


@dataclass(frozen=True, eq=False)
class Stack:
    """Letters as in `conrl.kernels.fleets`; nothing here is written to once it is made."""

    num_states: int
    num_actions: int
    by_step: bool  # whether every step has pairs of its own
    kinds: int
    members: int
    first: Int  # [S+1], or [H*S+1] where every step has pairs of its own
    start: Int  # [P+1]
    successor: Int  # [K]
    action: Int  # [P]
    probability: Float  # [D, K, LANES]
    pay: Float  # [D, 1+d, P, LANES]
    outcome_pay: Float | None  # [D, 1+d, K, LANES], where the model pays by outcome
    size: Float  # [D, 1+d, LANES]: the largest size of each coordinate's pay
    data: Int  # [B]
    initial: Float  # [B, S, LANES]
    count: Float  # [B, LANES]

    @property
    def shift(self) -> int:
        """By how many nodes one step is apart from the next: 0, or S where every step has pairs of its own."""
        return self.num_states if self.by_step else 0

    @property
    def kind(self) -> Int:
        """[M]: which kind each member is."""
        if self.kinds == 1:
            return np.zeros(self.members, dtype=np.int64)
        return np.arange(self.members)

    @property
    def paid(self) -> Float:
        """[D, 1+d, K or P, LANES]: what is really paid, by outcome if that is known."""
        return self.pay if self.outcome_pay is None else self.outcome_pay

    @property
    def counts(self) -> Float:
        """[M]."""
        return self.count.reshape(-1)[: self.members]

    @property
    def sizes(self) -> Float:
        """[M, 1+d]: the largest size of the pay of each member."""
        table = np.moveaxis(self.size, 1, 2).reshape(-1, self.size.shape[1])
        return table[self.kind]

    @property
    def starts(self) -> Float:
        """[M, S]: the distribution of the first state of each member."""
        return np.moveaxis(self.initial, 1, 2).reshape(-1, self.num_states)[: self.members]

    def pairs(self, h: int, choice: Array) -> Int:
        """[S]: the pair that is played in each state at step h, from choices [S]; any where there is none."""
        nodes = h * self.shift + np.arange(self.num_states)
        return np.minimum(self.first[nodes] + choice, self.action.size - 1)

    def later(self, passed: int) -> Stack:
        """The same from a later step on."""
        if passed == 0 or not self.by_step:
            return self
        pair = int(self.first[passed * self.num_states])
        outcome = int(self.start[pair])
        made = replace(
            self,
            first=self.first[passed * self.num_states :] - pair,
            start=self.start[pair:] - outcome,
            successor=self.successor[outcome:],
            action=self.action[pair:],
            probability=np.ascontiguousarray(self.probability[:, outcome:]),
            pay=np.ascontiguousarray(self.pay[:, :, pair:]),
            outcome_pay=None if self.outcome_pay is None else np.ascontiguousarray(self.outcome_pay[:, :, outcome:]),
        )
        return replace(made, size=np.abs(made.pay).max(axis=2))

    def stuck(self, horizon: int) -> tuple[int, int] | None:
        """A step and a state without any action that some member may come to; None if there is none."""
        if not self.by_step:
            return None
        begin: Float = np.asarray((self.starts > 0.0).any(axis=0), dtype=np.float64)
        reached = kernels.reachable_by_step(self.first, self.start, self.successor, begin, horizon)
        missing = np.argwhere(reached & (np.diff(self.first).reshape(horizon, -1) == 0))
        return None if missing.size == 0 else (int(missing[0, 0]), int(missing[0, 1]))

    def at(self, starts: Int, counts: Float) -> Stack:
        """The same kinds in given states [M], so many of each [M]; a stack of different units keeps its members."""
        rows = np.zeros((starts.size, self.num_states))
        rows[np.arange(starts.size), starts] = 1.0
        return with_members(self, rows, counts)


def with_members(stack: Stack, starts: Float, counts: Float) -> Stack:
    """Members with the distributions [M, S] and counts [M]."""
    initial, count = interleaved(starts), interleaved(counts[:, None])[:, 0]
    blocks = np.zeros(count.shape[0], dtype=np.int64) if stack.kinds == 1 else np.arange(count.shape[0])
    made = replace(stack, members=counts.size, data=blocks, initial=initial, count=count)
    for array in (made.data, made.initial, made.count):
        array.flags.writeable = False
    return made


def interleaved(rows: Float) -> Float:
    """[B, n, LANES] of rows [M, n], filled up with zeros."""
    full = np.zeros((-(-rows.shape[0] // LANES) * LANES, rows.shape[1]))
    full[: rows.shape[0]] = rows
    return np.ascontiguousarray(np.moveaxis(full.reshape(-1, LANES, rows.shape[1]), 1, 2))


def of_model(mdp: ConstrainedMDP, count: int) -> Stack:
    """So many units of one model."""
    g = mdp.graph

    def spread(table: Float) -> Float:
        """[1, ..., LANES]: the same in each lane."""
        return np.ascontiguousarray(np.repeat(table[None, ..., None], LANES, axis=-1))

    stack = Stack(
        num_states=mdp.num_states,
        num_actions=mdp.num_actions,
        by_step=mdp.step_dependent,
        kinds=1,
        members=1,
        first=g.first.astype(np.int64),
        start=g.start.astype(np.int64),
        successor=g.successor.astype(np.int64),
        action=mdp.action.astype(np.int64),
        probability=spread(g.probability),
        pay=spread(mdp.pay.T),
        outcome_pay=None if mdp.outcome_pay is None else spread(mdp.outcome_pay.T),
        size=spread(np.abs(mdp.pay).max(axis=0)),
        data=np.zeros(1, dtype=np.int64),
        initial=np.zeros(0),
        count=np.zeros(0),
    )
    return with_members(stack, mdp.initial[None], np.array([float(count)]))


# -- many different units ---------------------------------------------------------------------------------


def of_units(transitions: Any, rewards: Any, costs: Any, available: Any, initial: Any) -> Stack:
    """Units of one shape from tables: [N, S, A, S] (or sparse [N*S*A, S]), [N, S, A] and [N, S, A, d]."""
    table = any_array(rewards, "rewards")
    if table.ndim != 3 or table.size == 0:
        raise ModelError(f"rewards has shape {table.shape}; a stack of units takes (N, S, A)", key=("rewards",))
    N, S, A = table.shape
    check_sizes(S, A)
    read = _sparse(transitions, N, S, A) if _is_sparse(transitions) else _dense(transitions, N, S, A)
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
        by_step=False,
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


def _is_sparse(transitions: Any) -> bool:
    listed = isinstance(transitions, (list, tuple)) and len(transitions) > 0 and all(map(is_sparse, transitions))
    return listed or is_sparse(transitions)


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

    from conrl.model.outcomes import _csr_copy

    given: Sequence[Any] = transitions if isinstance(transitions, (list, tuple)) else [transitions]
    shape = (N * S * A // len(given), S)
    for one in given:
        if one.shape != shape or (len(given) > 1 and len(given) != N):
            raise ModelError(
                f"transitions is sparse with shape {one.shape}; with rewards of shape {(N, S, A)} it must be "
                f"{(N * S * A, S)}, or a list of {N} of shape {(S * A, S)}",
                key=("transitions",),
            )
    read = [_csr_copy(one, "transitions") for one in given]
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

"""What can happen: transitions, rewards and costs as somebody gave them, read into pairs and their outcomes.

They come as tables, dense or sparse (`read_tables`), or as a list of outcomes (`read_outcomes`). Either way they become
one `Outcomes`, which is checked (each refusal names the culprit) and turned into the model's arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl._types import Array, Bool, Float, Int
from conrl.arguments import LARGEST, any_array, float_array, frozen, is_sparse
from conrl.errors import ModelError, shown
from conrl.model.graph import Graph, select
from conrl.model.reading import ROW_SUM_TOLERANCE, Names, check_sizes, read_available

if TYPE_CHECKING:
    import scipy.sparse as sp

NO_ACTION = "has no action; give it one, for example one that stays there with probability 1"


class Outcomes(NamedTuple):
    """The pairs that exist, and what each can lead to; letters as in `conrl.kernels`."""

    num_states: int
    num_actions: int
    rows: Int  # [P]: s A + a of each pair, rising
    start: Int  # [P+1]
    successor: NDArray[np.int32]  # [N]
    probability: Float  # [N]
    columns: Sequence[Float]  # the reward, then each cost: per pair [P] or by outcome [N] (if P = N, the same)

    def graph(self, names: Names) -> Graph:
        """The sparse structure, once every state has an action and the probabilities of each pair sum to 1."""
        first = np.searchsorted(self.rows // self.num_actions, np.arange(self.num_states + 1))
        empty = np.flatnonzero(np.diff(first) == 0)
        if empty.size:
            raise ModelError(f"state {names.state(int(empty[0]))!r} (index {empty[0]}) {NO_ACTION}")
        self._check_probabilities(names)
        return Graph(frozen(first), frozen(self.start), frozen(self.successor), frozen(self.probability))

    def pay(self, names: Names) -> tuple[Float, Float | None]:
        """[P, 1+d]: the mean reward and costs of each pair; [N, 1+d]: the same by outcome, None if none was given so.

        The mean is the sum of p_j x_j over the pair's outcomes j, and x itself where it was given per pair.
        """
        columns = [(column, column.size != self.rows.size) for column in self.columns]  # and whether it is by outcome
        for i, (column, apart) in enumerate(columns):
            bad = ~(np.abs(column) <= LARGEST)
            if bad.any():
                j = int(np.argmax(bad))
                what = f"costs {names.costs[i - 1]!r}" if i else "rewards"
                raise ModelError(
                    f"{what} at {self._pair(self._pair_of(j) if apart else j, names)} is {column[j]}; "
                    f"it must be finite and at most {LARGEST:g} in size"
                )
        means = [np.add.reduceat(x * self.probability, self.start[:-1]) if apart else x for x, apart in columns]
        pay = frozen(np.stack(means, axis=1))
        if not any(apart for _, apart in columns):
            return pay, None
        counts = np.diff(self.start)
        return pay, frozen(np.stack([x if apart else np.repeat(x, counts) for x, apart in columns], axis=1))

    def _check_probabilities(self, names: Names) -> None:
        """That each is a number of at least 0, and that those of a pair sum to 1."""
        bad = ~(np.isfinite(self.probability) & (self.probability >= 0.0))
        if bad.any():
            j = int(np.argmax(bad))
            raise ModelError(
                f"transitions[{self._pair(self._pair_of(j), names)}] to state {names.state(int(self.successor[j]))!r} "
                f"is {self.probability[j]}; a probability is a finite number of at least 0"
            )
        total = np.zeros(self.rows.size)
        full = np.diff(self.start) > 0
        total[full] = np.add.reduceat(self.probability, self.start[:-1][full]) if full.any() else 0.0
        wrong = np.flatnonzero(np.abs(total - 1.0) > ROW_SUM_TOLERANCE)
        if wrong.size:
            k = int(wrong[0])
            more = f" (and {wrong.size - 1} more such pairs)" if wrong.size > 1 else ""
            hint = "; leave the pair out with `available` if it does not exist" if total[k] == 0.0 else ""
            hint = "; write them with more digits" if 0.0 < abs(total[k] - 1.0) < 1e-3 else hint
            raise ModelError(
                f"transitions[{self._pair(k, names)}] sums to {total[k]:.12g}; "
                f"a distribution sums to 1 (within {ROW_SUM_TOLERANCE:g}){hint}{more}"
            )

    def _pair_of(self, j: int) -> int:
        """The pair that outcome j belongs to."""
        return int(np.searchsorted(self.start, j, side="right")) - 1

    def _pair(self, k: int, names: Names) -> str:
        """What to call pair k."""
        s, a = divmod(int(self.rows[k]), self.num_actions)
        return f"state {names.state(s)!r}, action {names.action(a)!r}"


class _SparseRows(NamedTuple):
    """The entries of a table row by row: those of row k are start[k] .. start[k+1]-1."""

    start: Int  # [rows+1]
    column: NDArray[np.int32]  # [N]
    value: Float  # [N]


def read_tables(transitions: Any, rewards: Any, costs: Any, available: ArrayLike | None) -> Outcomes:
    """From tables such as the constructor of a model takes."""
    entries, S, A = _read_transitions(transitions)
    exists = read_available(available, S, A)
    rows = np.flatnonzero(exists)
    if rows.size < exists.size:
        start, kept = select(entries.start, rows)
        entries = _SparseRows(start.astype(np.int64), entries.column[kept], entries.value[kept])
    at = np.repeat(rows, np.diff(entries.start)), entries.column.astype(np.int64)
    columns = [_read_column(rewards, "rewards", exists, at)]
    for i, cost in enumerate(_split_costs(costs, S, A)):
        columns.append(_read_column(cost, f"costs[{i}]", exists, at))
    return Outcomes(S, A, rows, *entries, columns)


def _read_transitions(transitions: Any) -> tuple[_SparseRows, int, int]:
    """The probabilities that are not 0, a row a pair; how many states; how many actions."""
    if is_sparse(transitions):
        shape = transitions.shape
        if len(shape) != 2 or 0 in shape or shape[0] % shape[1]:
            raise ModelError(f"transitions is sparse with shape {shape}; expected (S*A, S)")
        num_pairs, num_states = shape
        if transitions.nnz < num_states:  # before rows are made for states that cannot all have an action
            raise ModelError(f"transitions has shape {shape} and {transitions.nnz} entries: some state {NO_ACTION}")
        matrix = _csr_copy(transitions, "transitions")
        num_actions = num_pairs // num_states
        matrix.eliminate_zeros()
        entries = matrix.indptr, matrix.indices, matrix.data
    else:
        table = float_array(transitions, "transitions")
        if table.ndim == 4:
            raise ModelError(
                "transitions has 4 dimensions; models do not depend on the step: put the step into the state"
            )
        if table.ndim != 3 or table.shape[0] != table.shape[2] or table.size == 0:
            raise ModelError(f"transitions has shape {table.shape}; expected (S, A, S), or sparse (S*A, S)")
        num_states, num_actions = table.shape[:2]
        table = table.reshape(num_states * num_actions, num_states)
        rows, columns = np.nonzero(table)
        entries = np.searchsorted(rows, np.arange(table.shape[0] + 1)), columns, table[rows, columns]
    check_sizes(num_states, num_actions)
    start, column, value = entries
    return _SparseRows(start.astype(np.int64), column.astype(np.int32), value), num_states, num_actions


def _read_column(values: Any, what: str, exists: Bool, at: tuple[Int, Int]) -> Float:
    """Rewards or one cost, as given: [P] of the pairs that exist, or [N] of the outcomes `at` (row, successor)."""
    S, A = exists.shape
    if is_sparse(values):
        if values.shape != (S * A, S):
            raise ModelError(f"{what} is sparse with shape {values.shape}; expected {(S * A, S)}, like transitions")
        return _entries(_csr_copy(values, what), *at)
    table = float_array(values, what)
    if table.shape == (S, A):
        return table[exists]
    if table.shape == (S, A, S):
        return table.reshape(S * A, S)[at]
    raise ModelError(
        f"{what} has shape {table.shape}; expected ({S}, {A}) per pair or ({S}, {A}, {S}) by outcome. "
        "If it depends on the step, put the step into the state"
    )


def _entries(table: sp.csr_array, row: Int, column: Int) -> Float:
    """[N]: the entries of a sparse table at so many places; 0 where it has none."""
    if table.nnz == 0:
        return np.zeros(row.size)
    size = table.shape[1]
    keys = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr)) * size + table.indices
    wanted = row * size + column
    nearest = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where(keys[nearest] == wanted, table.data[nearest], 0.0)


def _split_costs(costs: Any, num_states: int, num_actions: int) -> list[Any]:
    """The d tables in `costs`, each such as `rewards` takes."""
    if costs is None:
        return []
    if isinstance(costs, (list, tuple)) and all(is_sparse(c) or any_array(c, "costs").ndim in (2, 3) for c in costs):
        nested = len(costs) == num_states and all(np.shape(c)[0] == num_actions for c in costs) if costs else False
        if not nested or any(is_sparse(c) or isinstance(c, np.ndarray) for c in costs):
            return list(costs)
    S, A = num_states, num_actions
    table = float_array(costs, "costs")
    if table.shape == (S, A):
        return [table]
    if table.shape[:-1] not in ((S, A), (S, A, S)):
        raise ModelError(
            f"costs has shape {table.shape}; expected ({S}, {A}, d) per pair, ({S}, {A}, {S}, d) by outcome, "
            "or a list of d. If it depends on the step, put the step into the state"
        )
    return list(np.moveaxis(table, -1, 0))


def _csr_copy(values: Any, what: str) -> sp.csr_array:
    """With sorted columns and duplicates added up, in arrays of its own: both would rearrange the caller's.

    scipy makes matrices of indices that it has not looked at (those of another program may count from 1), and reads
    them without looking: they are checked before anything is.
    """
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ModelError(
            f"{what} is sparse with shape {values.shape} and dtype {values.dtype}; expected numbers (S*A, S)"
        )
    import scipy.sparse as sp

    try:
        own = values.copy() if values.format in ("csr", "csc", "bsr") else _checked(values.tocoo(copy=True))
        if own.format != "coo":
            own.check_format(full_check=True)
    except (TypeError, ValueError, IndexError) as error:
        raise ModelError(f"{what} is no sparse matrix: {error}; rows and columns count from 0") from None
    matrix = sp.csr_array(own, dtype=np.float64)
    matrix.sum_duplicates()
    return matrix


def _checked(matrix: Any) -> Any:
    """The same matrix of coordinates, if all of them lie in it."""
    for name, index, size in zip(("row", "column"), (matrix.row, matrix.col), matrix.shape, strict=True):
        bad = _outside(index, size)
        if bad is not None:
            raise ValueError(f"{name} {bad} is not in 0..{size - 1}")
    return matrix


def read_outcomes(outcomes: tuple[ArrayLike, ...], num_states: int, num_actions: int) -> Outcomes:
    """From a list of them: state, action, successor, probability [n] and pay [n, 1+d].

    They are sorted by pair; those that lead to the same state and pay the same are added up.
    """
    check_sizes(num_states, num_actions)
    p, m = float_array(outcomes[3], "probability"), float_array(outcomes[4], "pay")
    s = _read_indices(outcomes[0], "state", p.shape, num_states)
    a = _read_indices(outcomes[1], "action", p.shape, num_actions)
    t = _read_indices(outcomes[2], "successor", p.shape, num_states)
    if p.ndim != 1 or m.ndim != 2 or m.shape[0] != p.size or m.shape[1] == 0:
        raise ModelError(f"pay has shape {m.shape} for {p.size} outcomes; expected ({p.size}, 1 + number of costs)")
    if num_states > p.size:
        raise ModelError(
            f"{p.size} outcome{'s' * (p.size != 1)} for {shown(num_states)} states: some state {NO_ACTION}"
        )
    row = s * num_actions + a
    some = p != 0.0
    row, t, p, m = row[some], t[some], p[some], m[some]
    order = np.lexsort((*m.T[::-1], t, row))
    row, t, p, m = row[order], t[order], p[order], m[order]
    new = np.ones(row.size, dtype=bool)
    new[1:] = (row[1:] != row[:-1]) | (t[1:] != t[:-1]) | (m[1:] != m[:-1]).any(axis=1)
    negative = p < 0.0  # stays apart, so that validation finds it
    new |= negative
    new[1:] |= negative[:-1]
    p = np.add.reduceat(p, np.flatnonzero(new)) if row.size else p
    row, t, m = row[new], t[new], m[new]
    rows = np.unique(row)
    start = np.append(np.searchsorted(row, rows), row.size)
    return Outcomes(num_states, num_actions, rows, start, t.astype(np.int32), p, m.T)


def _read_indices(values: ArrayLike, name: str, shape: tuple[int, ...], size: int) -> Int:
    """[n]: whole numbers in 0..size-1."""
    index = any_array(values, name)
    if index.shape != shape or (index.size and index.dtype.kind not in "iu"):
        raise ModelError(f"{name} has shape {index.shape} and dtype {index.dtype}; expected {math.prod(shape)} indices")
    bad = _outside(index, size)
    if bad is not None:
        raise ModelError(f"{name} index {bad} is not in 0..{size - 1}")
    return index.astype(np.int64)


def _outside(index: Array, size: int) -> int | None:
    """An index that is not in 0..size-1, if there is one."""
    if not index.size:
        return None
    low, high = int(index.min()), int(index.max())
    return low if low < 0 else high if high >= size else None

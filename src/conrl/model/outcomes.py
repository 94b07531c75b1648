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

from conrl import kernels
from conrl._types import Array, Float, Int
from conrl.arguments import LARGEST, any_array, float_array, is_int, is_sparse, sealed
from conrl.errors import ModelError, shown
from conrl.model.graph import Graph, select
from conrl.model.reading import ROW_SUM_TOLERANCE, Names, check_sizes, read_available

if TYPE_CHECKING:
    import scipy.sparse as sp

NO_ACTION = (
    "has no action; give it those that are missing or, only if it is never left, one that stays there with "
    "probability 1"
)


class Outcomes(NamedTuple):
    """The pairs that exist, and what each can lead to; letters as in `conrl.kernels`."""

    num_states: int
    num_actions: int
    steps: int  # 0 where all steps are alike
    rows: Int  # [P]: s A + a of each pair, or (h S + s) A + a; rising
    start: Int  # [P+1]
    successor: NDArray[np.int32]  # [N]
    probability: Float  # [N]
    columns: Sequence[Float]  # the reward, then each cost: per pair [P] or by outcome [N] (if P = N, the same)

    @property
    def step_dependent(self) -> bool:
        """Whether every step has outcomes of its own."""
        return self.steps > 0

    def graph(self, names: Names, initial: Float) -> Graph:
        """The sparse structure, once every state has an action and the probabilities of each pair sum to 1."""
        nodes = max(self.steps, 1) * self.num_states
        first = np.searchsorted(self.rows // self.num_actions, np.arange(nodes + 1))
        graph = Graph(sealed(first), sealed(self.start), sealed(self.successor), sealed(self.probability))
        check_actions(graph, initial, self.steps, names)
        self._check_probabilities(names)
        return graph

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
        pay = sealed(np.stack(means, axis=1))
        if not any(apart for _, apart in columns):
            return pay, None
        counts = np.diff(self.start)
        return pay, sealed(np.stack([x if apart else np.repeat(x, counts) for x, apart in columns], axis=1))

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
        node, a = divmod(int(self.rows[k]), self.num_actions)
        h, s = divmod(node, self.num_states)
        return f"{f'step {h}, ' if self.step_dependent else ''}state {names.state(s)!r}, action {names.action(a)!r}"


def check_actions(graph: Graph, initial: Float, steps: int, names: Names) -> None:
    """Refuse a state without an action; of so many steps that each have their own, only where it can be reached."""
    empty = np.diff(graph.first) == 0
    if not empty.any():
        return
    S, step_dependent = initial.size, steps > 0
    if step_dependent:
        empty &= kernels.reachable_by_step(graph.first, graph.start, graph.successor, initial, steps).reshape(-1)
    for node in np.flatnonzero(empty)[:1].tolist():
        h, s = divmod(node, S)
        where = f", which can be reached at step {h}," if step_dependent else ""
        raise ModelError(f"state {names.state(s)!r} (index {s}){where} {NO_ACTION}{' then' * step_dependent}")


class _SparseRows(NamedTuple):
    """The entries of a table row by row: those of row k are start[k] .. start[k+1]-1."""

    start: Int  # [rows+1]
    column: NDArray[np.int32]  # [N]
    value: Float  # [N]


class _Table(NamedTuple):
    """Transitions, rewards or a cost: a row for each pair of a state and an action, of all steps or of each."""

    values: Any  # [rows] per pair; by outcome [rows, S], dense or sparse
    by_outcome: bool
    step_dependent: bool

    def at(self, rows: Int, counts: Int, successor: Array, num_rows: int) -> Float:
        """[P] of the pairs with those rows, or [N] of their outcomes, so many of each; `num_rows` of one step."""
        if not self.step_dependent:
            rows = rows % num_rows
        if not self.by_outcome:
            return np.asarray(self.values[rows])
        row = np.repeat(rows, counts)
        return _entries(self.values, row, successor) if is_sparse(self.values) else self.values[row, successor]


def read_tables(
    transitions: Any, rewards: Any, costs: Any, available: ArrayLike | None, horizon: Any = None
) -> Outcomes:
    """From tables such as the constructor of a model takes; it depends on the step if one of them does."""
    entries, S, A, H = _read_transitions(transitions)
    moves = H > 0  # whether transitions depend on the step
    if not moves and is_int(horizon) and horizon > 0:
        H = int(horizon)
    sizes = S, A, H
    exists = read_available(available, S, A, H)
    differ = moves or exists.ndim == 3  # the steps, whatever rewards and costs are
    tables = [_read_table(rewards, "rewards", sizes, differ)]
    for i, cost in enumerate(_split_costs(costs, sizes)):
        tables.append(_read_table(cost, f"costs[{i}]", sizes, differ))
    steps = H if moves or exists.ndim == 3 or any(table.step_dependent for table in tables) else 0
    rows = np.flatnonzero(np.broadcast_to(exists, (steps, S, A)) if steps else exists)
    if rows.size < exists.size or rows.size + 1 != entries.start.size:
        start, kept = select(entries.start, rows if moves else rows % (S * A))
        entries = _SparseRows(start.astype(np.int64), entries.column[kept], entries.value[kept])
    outcomes = np.diff(entries.start), entries.column, S * A
    return Outcomes(S, A, steps, rows, *entries, [table.at(rows, *outcomes) for table in tables])


def _read_transitions(transitions: Any) -> tuple[_SparseRows, int, int, int]:
    """The probabilities that are not 0, a row a pair; how many states, actions and, if each has its own, steps."""
    num_steps = 0
    if is_sparse_list(transitions) or is_sparse(transitions):
        every = [transitions] if is_sparse(transitions) else list(transitions)
        num_steps = 0 if is_sparse(transitions) else len(every)
        shape = every[0].shape
        if len(shape) != 2 or 0 in shape or shape[0] % shape[1]:
            raise ModelError(f"transitions is sparse with shape {shape}; expected (S*A, S)")
        num_pairs, num_states = shape
        if (
            not num_steps and every[0].nnz < num_states
        ):  # before rows are made for states that cannot all have an action
            raise ModelError(f"transitions has shape {shape} and {every[0].nnz} entries: some state {NO_ACTION}")
        matrix = _stacked(every, "transitions", shape)
        num_actions = num_pairs // num_states
        matrix.eliminate_zeros()
        entries = matrix.indptr, matrix.indices, matrix.data
    else:
        table = float_array(transitions, "transitions")
        if table.ndim not in (3, 4) or table.shape[-3] != table.shape[-1] or table.size == 0:
            raise ModelError(
                f"transitions has shape {table.shape}; expected (S, A, S), or sparse (S*A, S); "
                "where it depends on the step, (H, S, A, S), or a list of H sparse ones"
            )
        num_states, num_actions = table.shape[-3:-1]
        num_steps = table.shape[0] if table.ndim == 4 else 0
        table = table.reshape(-1, num_states)
        rows, columns = np.nonzero(table)
        entries = np.searchsorted(rows, np.arange(table.shape[0] + 1)), columns, table[rows, columns]
    check_sizes(num_states, num_actions)
    start, column, value = entries
    read = _SparseRows(start.astype(np.int64, copy=False), column.astype(np.int32, copy=False), value)
    return read, num_states, num_actions, num_steps


def _read_table(values: Any, what: str, sizes: tuple[int, int, int], moves: bool) -> _Table:
    """Rewards or one cost, as given. `sizes` are S, A and H (0 if it is unknown); `moves`: the steps differ anyway."""
    S, A, H = sizes
    if is_sparse(values):
        return _Table(_stacked([values], what, (S * A, S)), True, False)
    if is_sparse_list(values):
        if len(values) != H:
            raise ModelError(f"{what} is a list of {len(values)} sparse arrays; expected one for each of {H} steps")
        return _Table(_stacked(list(values), what, (S * A, S)), True, True)
    table = float_array(values, what)
    shape = table.shape
    if moves and shape == (H, S, A) == (S, A, S):
        raise ModelError(f"{what} has shape {shape}, by step or by outcome: give it for both, (H, S, A, S)")
    if shape in ((S, A), (S, A, S)):
        by_outcome, step_dependent = len(shape) == 3, False
    elif H and shape in ((H, S, A), (H, S, A, S)):
        by_outcome, step_dependent = len(shape) == 4, True
    else:
        steps = f", with a leading {H} where it depends on the step" if H else ""
        raise ModelError(f"{what} has shape {shape}; expected ({S}, {A}) per pair or ({S}, {A}, {S}) by outcome{steps}")
    return _Table(table.reshape(-1, S) if by_outcome else table.reshape(-1), by_outcome, step_dependent)


def is_sparse_list(values: Any) -> bool:
    """Whether it is a list of sparse arrays, such as one for each step."""
    return isinstance(values, (list, tuple)) and len(values) > 0 and all(is_sparse(value) for value in values)


def _stacked(matrices: list[Any], what: str, shape: tuple[int, int]) -> sp.csr_array:
    """Sparse tables of one shape, one below the other."""
    import scipy.sparse as sp

    for h, matrix in enumerate(matrices):
        if matrix.shape != shape:
            at = f" at step {h}" if len(matrices) > 1 else ""
            raise ModelError(f"{what} is sparse with shape {matrix.shape}{at}; expected {shape}, like transitions")
    copies = [csr_copy(matrix, what) for matrix in matrices]
    return copies[0] if len(copies) == 1 else sp.csr_array(sp.vstack(copies, format="csr"))


def _entries(table: sp.csr_array, row: Int, column: Array) -> Float:
    """[N]: the entries of a sparse table at so many places; 0 where it has none."""
    if table.nnz == 0:
        return np.zeros(row.size)
    size = table.shape[1]
    keys = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr)) * size + table.indices
    wanted = row * size + column
    nearest = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return np.where(keys[nearest] == wanted, table.data[nearest], 0.0)


def _split_costs(costs: Any, sizes: tuple[int, int, int]) -> list[Any]:
    """The d tables in `costs`, each such as `rewards` takes."""
    if costs is None:
        return []
    S, A, H = sizes
    pairs = [(S, A), (S, A, S), *([(H, S, A), (H, S, A, S)] if H else [])]
    if isinstance(costs, (list, tuple)):
        apart = [is_sparse(c) or is_sparse_list(c) or isinstance(c, np.ndarray) for c in costs]
        shapes = {() if known and not isinstance(c, np.ndarray) else any_array(c, "costs").shape
                  for c, known in zip(costs, apart, strict=True)}  # fmt: skip
        nested = len(shapes) == 1 and (len(costs), *next(iter(shapes)))[:-1] in pairs  # one table, as a list of lists
        if all(len(shape) in (2, 3, 4) or not shape for shape in shapes) and (any(apart) or not nested):
            return list(costs)
    table = float_array(costs, "costs")
    if table.shape == (S, A):
        return [table]
    if table.shape[:-1] not in pairs:
        steps = f", with a leading {H} where it depends on the step" if H else ""
        raise ModelError(
            f"costs has shape {table.shape}; expected ({S}, {A}, d) per pair, ({S}, {A}, {S}, d) by outcome, "
            f"or a list of d{steps}"
        )
    return list(np.moveaxis(table, -1, 0))


def csr_copy(values: Any, what: str) -> sp.csr_array:
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


def read_outcomes(
    outcomes: tuple[ArrayLike, ...], num_states: int, num_actions: int, step: ArrayLike | None = None, steps: int = 1
) -> Outcomes:
    """From a list of them: state, action, successor, probability [n] and pay [n, 1+d].

    `step` [n], in 0..steps-1, is None where all steps are alike. They are sorted by pair; those that lead to the
    same state and pay the same are added up.
    """
    check_sizes(num_states, num_actions)
    p, m = float_array(outcomes[3], "probability"), float_array(outcomes[4], "pay")
    s = read_indices(outcomes[0], "state", p.shape, num_states).astype(np.int64)
    a = read_indices(outcomes[1], "action", p.shape, num_actions).astype(np.int64)
    t = read_indices(outcomes[2], "successor", p.shape, num_states)
    if p.ndim != 1 or m.ndim != 2 or m.shape[0] != p.size or m.shape[1] == 0:
        raise ModelError(f"pay has shape {m.shape} for {p.size} outcomes; expected ({p.size}, 1 + number of costs)")
    h = np.zeros_like(s) if step is None else read_indices(step, "step", p.shape, steps).astype(np.int64)
    if num_states > p.size and step is None:
        raise ModelError(
            f"{p.size} outcome{'s' * (p.size != 1)} for {shown(num_states)} states: some state {NO_ACTION}"
        )
    row = (h * num_states + s) * num_actions + a
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
    step_dependent = 0 if step is None else steps
    return Outcomes(num_states, num_actions, step_dependent, rows, start, t.astype(np.int32), p, m.T)


def read_indices(values: ArrayLike, name: str, shape: tuple[int, ...], size: int) -> Array:
    """Whole numbers in 0..size-1, of that shape, as given."""
    index = any_array(values, name)
    if index.shape != shape or (index.size and index.dtype.kind not in "iu"):
        raise ModelError(f"{name} has shape {index.shape} and dtype {index.dtype}; expected {math.prod(shape)} indices")
    bad = _outside(index, size)
    if bad is not None:
        raise ModelError(f"{name} index {bad} is not in 0..{size - 1}")
    return index


def _outside(index: Array, size: int) -> int | None:
    """An index that is not in 0..size-1, if there is one."""
    if not index.size:
        return None
    low, high = int(index.min()), int(index.max())
    return low if low < 0 else high if high >= size else None

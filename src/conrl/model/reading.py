"""Reading what a model is made of: arrays dense or sparse, outcomes, names, ranges; each refusal names the culprit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl._types import Array, Bool, Float, Int
from conrl.arguments import LARGEST, any_array, check_text, float_array, is_int, is_list, is_sparse, read_count
from conrl.errors import ModelError, shown, unknown
from conrl.sizes import MAX_HORIZON, check_table

if TYPE_CHECKING:
    import scipy.sparse as sp

Ranges = Mapping[str, tuple[float, float] | None] | Sequence[tuple[float, float] | None]  # (low, high) of costs

MAX_STATES = 2**31 - 1  # the kernels hold states in 32 bits
MAX_ACTIONS = 2**15 - 1  # a policy stores its choice in 16 bits
NO_ACTION = "some state has no action; give it one, for example one that stays there with probability 1"

_REFUSED = {
    "discount": "models are undiscounted; let every pair move to an absorbing state without reward "
    "with probability 1 - discount",
    "gamma": "models are undiscounted; let every pair move to an absorbing state without reward "
    "with probability 1 - gamma",
    "terminal_rewards": "there are no terminal rewards; put the step into the state and pay them in the last step",
    "terminal_costs": "there are no terminal costs; put the step into the state and pay them in the last step",
}


class SparseRows(NamedTuple):
    """The entries of a table row by row: those of row k are start[k] .. start[k+1]-1."""

    start: Int  # [rows+1]
    column: NDArray[np.int32]  # [N]
    value: Float  # [N]

    def chosen(self, keep: Bool) -> SparseRows:
        """The rows for which keep [rows] holds."""
        sizes = np.diff(self.start)
        mine = np.repeat(keep, sizes)
        return SparseRows(np.concatenate(([0], np.cumsum(sizes[keep]))), self.column[mine], self.value[mine])


class PairTable:
    """Reads rewards or one cost, given per pair or per outcome, onto the pairs that exist."""

    def __init__(self, num_states: int, num_actions: int, keep: Bool, kept: SparseRows) -> None:
        self.shape = (num_states, num_actions)
        self.keep = keep
        self.rows = np.repeat(np.flatnonzero(keep), np.diff(kept.start))
        self.columns = kept.column.astype(np.int64)

    def read(self, values: Any, what: str) -> Float:
        S, A = self.shape
        if is_sparse(values):
            return self._sparse(values, what)
        table = float_array(values, what)
        if table.shape == (S, A):
            return table.reshape(S * A)[self.keep]
        if table.shape == (S, A, S):
            return table.reshape(S * A, S)[self.rows, self.columns]
        raise ModelError(
            f"{what} has shape {table.shape}; expected ({S}, {A}) per pair or ({S}, {A}, {S}) by outcome. "
            "If it depends on the step, put the step into the state"
        )

    def _sparse(self, values: Any, what: str) -> Float:
        S, A = self.shape
        if values.shape != (S * A, S):
            raise ModelError(f"{what} is sparse with shape {values.shape}; expected {(S * A, S)}, like transitions")
        table = csr_copy(values, what)
        if table.nnz == 0:
            return np.zeros(self.rows.size)
        keys = np.repeat(np.arange(S * A), np.diff(table.indptr)) * S + table.indices
        wanted = self.rows * S + self.columns
        at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        return np.where(keys[at] == wanted, table.data[at], 0.0)


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
        if index.size and not (index.min() >= 0 and index.max() < size):
            raise ValueError(f"{name} {int(index.min() if index.min() < 0 else index.max())} is not in 0..{size - 1}")
    return matrix


def read_transitions(transitions: Any) -> tuple[SparseRows, int, int]:
    """The probabilities that are not 0, a row a pair; how many states; how many actions."""
    if is_sparse(transitions):
        shape = transitions.shape
        if len(shape) != 2 or 0 in shape or shape[0] % shape[1]:
            raise ModelError(f"transitions is sparse with shape {shape}; expected (S*A, S)")
        num_pairs, num_states = shape
        if transitions.nnz < num_states:  # before rows are made for states that cannot all have an action
            raise ModelError(f"transitions has shape {shape} and {transitions.nnz} entries: {NO_ACTION}")
        matrix = csr_copy(transitions, "transitions")
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
    return SparseRows(start.astype(np.int64), column.astype(np.int32), value), num_states, num_actions


def read_outcomes(
    state: ArrayLike,
    action: ArrayLike,
    successor: ArrayLike,
    probability: ArrayLike,
    pay: ArrayLike,
    *,
    num_states: int,
    num_actions: int,
) -> tuple[Array, Array, NDArray[np.int32], Float, list[Float]]:
    """Outcomes sorted by pair: rows s*A + a [P], start [P+1], successor [N], probability [N], columns of pay [N]."""
    check_sizes(num_states, num_actions)
    s, a, t = (any_array(x, n) for x, n in ((state, "state"), (action, "action"), (successor, "successor")))
    p, m = float_array(probability, "probability"), float_array(pay, "pay")
    for name, index in (("state", s), ("action", a), ("successor", t)):
        if index.shape != p.shape or (index.size and index.dtype.kind not in "iu"):
            raise ModelError(f"{name} has shape {index.shape} and dtype {index.dtype}; expected {p.size} indices")
    if p.ndim != 1 or m.ndim != 2 or m.shape[0] != p.size or m.shape[1] == 0:
        raise ModelError(f"pay has shape {m.shape} for {p.size} outcomes; expected ({p.size}, 1 + number of costs)")
    s, a, t = (x.astype(np.int64) for x in (s, a, t))
    if num_states > p.size:
        raise ModelError(f"{p.size} outcome{'s' * (p.size != 1)} for {shown(num_states)} states: {NO_ACTION}")
    row = s * num_actions + a
    for name, index, size in (("state", s, num_states), ("action", a, num_actions), ("successor", t, num_states)):
        if index.size and (index.min() < 0 or index.max() >= size):
            raise ModelError(
                f"{name} index {int(index.min() if index.min() < 0 else index.max())} is not in 0..{size - 1}"
            )
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
    return rows, start, t.astype(np.int32), p, list(m.T)


def check_sizes(num_states: Any, num_actions: Any) -> None:
    """Whether there are so many, and no more than the kernels can number."""
    for name, count, most in (("states", num_states, MAX_STATES), ("actions", num_actions, MAX_ACTIONS)):
        if not is_int(count) or count < 1:
            raise ModelError(f"num_{name} is {shown(count)}; it must be a whole number of at least 1")
        if count > most:
            raise ModelError(f"{shown(count)} {name}; at most {most} are supported")


def available_rows(available: ArrayLike | None, num_states: int, num_actions: int) -> Bool:
    if available is None:
        return np.ones(num_states * num_actions, dtype=bool)
    mask = any_array(available, "available")
    if mask.shape != (num_states, num_actions):
        raise ModelError(f"available has shape {mask.shape}; expected ({num_states}, {num_actions})")
    if mask.dtype != np.bool_ and not np.isin(mask, (0, 1)).all():
        raise ModelError("available must hold booleans")
    return mask.astype(bool).reshape(-1)


def split_costs(costs: Any, num_states: int, num_actions: int) -> list[Any]:
    """The d tables in `costs`, each such as `rewards` takes."""
    if costs is None:
        return []
    if isinstance(costs, (list, tuple)) and all(is_sparse(c) or any_array(c, "costs").ndim in (2, 3) for c in costs):
        nested = len(costs) == num_states and all(np.shape(c)[0] == num_actions for c in costs) if costs else False
        if not nested or any(is_sparse(c) or isinstance(c, np.ndarray) for c in costs):
            return list(costs)
    table = float_array(costs, "costs")
    if table.shape[:2] == (num_states, num_actions) and table.ndim == 2:
        return [table]
    per_pair = table.ndim == 3 and table.shape[:2] == (num_states, num_actions)
    by_outcome = table.ndim == 4 and table.shape[:3] == (num_states, num_actions, num_states)
    if not (per_pair or by_outcome):
        S, A = num_states, num_actions
        raise ModelError(
            f"costs has shape {table.shape}; expected ({S}, {A}, d) per pair, ({S}, {A}, {S}, d) by outcome, "
            "or a list of d. "
            "If it depends on the step, put the step into the state"
        )
    return list(np.moveaxis(table, -1, 0))


def refuse(given: Mapping[str, object]) -> None:
    for name in given:
        if name in _REFUSED:
            raise ModelError(f"{name}: {_REFUSED[name]}")
        raise TypeError(f"ConstrainedMDP() got an unexpected keyword argument {name!r}")


def read_features(features: ArrayLike, num_states: int) -> Array:
    table = any_array(features, "features")
    if table.ndim < 2 or table.shape[0] != num_states or table.dtype.kind not in "fiub":
        raise ModelError(f"features has shape {table.shape}; expected numbers of shape ({num_states}, ...)")
    return table


def read_names(names: Sequence[str] | None, count: int, what: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable) or np.ndim(any_array(names, what)) != 1:
        raise ModelError(
            f"{what} is {'one text' if isinstance(names, str) else shown(names)}; expected a list of {count}"
        )
    texts = tuple(check_text(str(n), what) for n in names)
    if len(texts) != count:
        raise ModelError(f"{what} has {len(texts)} entries; expected {count}")
    if len(set(texts)) != count:
        twice = Counter(texts).most_common(1)[0][0]
        raise ModelError(f"{what} has {twice!r} twice; names must differ")
    return texts


def default_cost_names(count: int) -> tuple[str, ...]:
    return ("cost",) if count == 1 else tuple(f"cost{i}" for i in range(count))


def read_horizon(horizon: Any, num_states: int = 1) -> int:
    """The number of steps, once a policy for so many steps and states can be kept in memory."""
    steps = read_count(horizon, "horizon", most=MAX_HORIZON, error=ModelError)
    check_table(steps, num_states)
    return steps


def read_range(bounds: tuple[float, float], what: str, key: tuple[str, ...]) -> tuple[float, float]:
    """The least and the most of something."""
    try:
        low, high = (float(x) for x in bounds)
    except (TypeError, ValueError, OverflowError):
        low = high = np.nan
    if not -LARGEST <= low <= high <= LARGEST:
        raise ModelError(
            f"{what} is {shown(bounds)}; expected two finite numbers, the lower first, of at most {LARGEST:g} in size",
            key=key,
        )
    return low, high


def read_ranges(reward: tuple[float, float] | None, costs: Ranges | None, cost_names: Sequence[str]) -> Float | None:
    """[1+d, 2]: declared ranges of the reward and of each cost, nan where there is none; None without any."""
    if reward is None and costs is None:
        return None
    found = np.full((1 + len(cost_names), 2), np.nan)
    if reward is not None:
        found[0] = read_range(reward, "reward_range", ("reward_range",))
    listed: Any = () if costs is None else costs
    if not isinstance(listed, Mapping):
        if costs is not None and not (is_list(listed) and len(listed) == len(cost_names)):
            raise ModelError(f"cost_ranges is {shown(costs)}; expected (low, high) for each of {len(cost_names)} costs")
        listed = dict(zip(cost_names, listed, strict=False))
    for name, bounds in listed.items():
        if name not in cost_names:
            raise ModelError(unknown("cost", str(name), cost_names), key=("cost_ranges", str(name)))
        if bounds is not None:
            found[1 + list(cost_names).index(name)] = read_range(
                bounds, f"cost_ranges[{name!r}]", ("cost_ranges", name)
            )
    return found

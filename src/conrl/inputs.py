"""Reading what users pass: arrays dense or sparse, names, limits; each refusal names the culprit and the remedy.

scipy.sparse is loaded only for those who pass its matrices: it takes longer to load than a plan takes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl.errors import ConRLError, ModelError, SpecError, shown, unknown
from conrl.sizes import MAX_HORIZON, check_table

if TYPE_CHECKING:
    import scipy.sparse as sp

Float = NDArray[np.float64]
Ranges = Mapping[str, tuple[float, float] | None] | Sequence[tuple[float, float] | None]  # (low, high) of costs

MAX_STATES = 2**31 - 1  # the kernels hold states in 32 bits
MAX_ACTIONS = 2**15 - 1  # a policy stores its choice in 16 bits
ROUNDING = 1e-9  # of a total, in proportion
LARGEST = 1e150  # of a reward, cost or bonus: its square, and its sum over the horizon, still fit a double
NO_ACTION = "some state has no action; give it one, for example one that stays there with probability 1"

_REFUSED = {
    "discount": "models are undiscounted; let every pair move to an absorbing state without reward "
    "with probability 1 - discount",
    "gamma": "models are undiscounted; let every pair move to an absorbing state without reward "
    "with probability 1 - gamma",
    "terminal_rewards": "there are no terminal rewards; put the step into the state and pay them in the last step",
    "terminal_costs": "there are no terminal costs; put the step into the state and pay them in the last step",
}


def resolve_limits(limits: ArrayLike | Mapping[str, float] | None, cost_names: Sequence[str], what: str) -> Float:
    """[d] from a list or a mapping by cost name, in an array of its own. Absent: +inf for limits, -inf for floors."""
    none = -np.inf if what == "floors" else np.inf
    d = len(cost_names)
    if limits is None:
        return np.full(d, none)
    if isinstance(limits, Mapping):
        values = np.full(d, none)
        place = {name: i for i, name in enumerate(cost_names)}
        for name, limit in limits.items():
            if name not in place:
                raise ModelError(unknown("cost", str(name), cost_names))
            number = _limit_array(none if limit is None else limit, f"{what}[{name!r}]")
            if number.ndim:
                raise ModelError(f"{what}[{name!r}] is {shown(limit)}; expected one number")
            values[place[name]] = number
    else:
        given = [none if x is None else x for x in limits] if isinstance(limits, (list, tuple)) else limits
        values = _limit_array(given, what).copy()
        if values.ndim == 0 and d == 1:
            values = values[None]  # one cost, one number
    if values.shape != (d,):
        raise ModelError(
            f"{what} has shape {values.shape}; the model has {d} cost{'s' * (d != 1)}, so it must have shape ({d},)"
        )
    bad = np.flatnonzero(np.isnan(values) | (values == -none))
    if bad.size:
        raise ModelError(
            f"{what[:-1]} of cost {cost_names[bad[0]]!r} is {values[bad[0]]}; it must be a number, or {none} for none"
        )
    return values


def size_of(aim: Float, largest: Float) -> Float:
    """What a share of a limit or an optimum is a share of: its size, so that units do not matter; of 0, the largest."""
    size: Float = np.where(aim == 0.0, largest, np.where(np.isfinite(aim), np.abs(aim), 0.0))
    return size


def rounding_room(limits: Float, largest: Float) -> Float:
    """[d]: what a total may exceed its limit by, by rounding alone: 30 costs of 1/30 are not above a limit of 1."""
    return ROUNDING * size_of(limits, largest)


def _limit_array(values: Any, what: str) -> Float:
    """Numbers; a truth value is a slip, as `Linear(True)` would otherwise be a limit of 1."""
    for value in values if isinstance(values, (list, tuple)) else (values,):
        if isinstance(value, (bool, np.bool_)) or getattr(value, "dtype", None) == np.bool_:
            raise ModelError(f"{what} holds {shown(value)}, a truth value; give a number, or None for none")
    return float_array(values, what)


class SparseRows(NamedTuple):
    """The entries of a table row by row: those of row k are start[k] .. start[k+1]-1."""

    start: NDArray[np.int64]  # [rows+1]
    column: NDArray[np.int32]  # [N]
    value: Float  # [N]

    def chosen(self, keep: NDArray[np.bool_]) -> SparseRows:
        """The rows for which keep [rows] holds."""
        sizes = np.diff(self.start)
        mine = np.repeat(keep, sizes)
        return SparseRows(np.concatenate(([0], np.cumsum(sizes[keep]))), self.column[mine], self.value[mine])


class PairTable:
    """Reads rewards or one cost, given per pair or per outcome, onto the pairs that exist."""

    def __init__(self, num_states: int, num_actions: int, keep: NDArray[np.bool_], kept: SparseRows) -> None:
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


def is_sparse(values: Any) -> bool:
    """Whether it is a matrix of scipy.sparse; nobody has one before that is loaded."""
    issparse = getattr(sys.modules.get("scipy.sparse"), "issparse", None)  # None also while it is being loaded
    return issparse is not None and bool(issparse(values))


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
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int32], Float, list[Float]]:
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


def available_rows(available: ArrayLike | None, num_states: int, num_actions: int) -> NDArray[np.bool_]:
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


def any_array(values: Any, what: str, of: str = "") -> NDArray[Any]:
    if is_masked(values) or (isinstance(values, (list, tuple)) and any(map(is_masked, values))):
        raise ModelError(
            f"{what} is a masked array, whose mask would be ignored; pass {what}.filled(0) or other numbers, "
            "and leave out actions with `available`"
        )
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{what} is not an array{of}: {error}") from None


def float_array(values: Any, what: str) -> Float:
    array = any_array(values, what, " of numbers")
    try:
        if array.dtype.kind not in "fiub":
            array = array.astype(object).astype(np.float64)
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{what} is not an array of numbers: {error}") from None


def is_masked(values: Any) -> bool:
    """Whether it is a masked array of numpy; nobody has one before that part is loaded."""
    kind = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return kind is not None and isinstance(values, kind)


def held(values: Any) -> Any:
    """What somebody passed, for keeping: if they change their list, mapping or array, this does not change."""
    if type(values) is np.ndarray and not values.flags.writeable and values.base is None:
        return values  # nobody can change it
    if isinstance(values, Mapping):
        return {name: held(value) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(map(held, values))
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return list(map(held, values))
    # A masked array is refused by those who read it; a number of numpy cannot be changed.
    if is_masked(values) or isinstance(values, np.generic) or not hasattr(values, "__array__"):
        return values
    own = np.array(values)
    own.flags.writeable = False
    return own


def read_features(features: ArrayLike, num_states: int) -> NDArray[Any]:
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


def check_text(text: str, what: str) -> str:
    """A name that every file can keep: no half of a character (a lone surrogate), and no NUL."""
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in (() if text.isascii() else text)):
        bad = next(c for c in text if c == "\0" or "\ud800" <= c <= "\udfff")
        raise ModelError(f"{what} has {shown(text)}; {bad!r} is no character that files can keep: rename it")
    return text


def default_cost_names(count: int) -> tuple[str, ...]:
    return ("cost",) if count == 1 else tuple(f"cost{i}" for i in range(count))


def read_horizon(horizon: Any, num_states: int = 1) -> int:
    """The number of steps, once a policy for so many steps and states can be kept in memory."""
    steps = read_count(horizon, "horizon", most=MAX_HORIZON, error=ModelError)
    check_table(steps, num_states)
    return steps


def read_count(value: Any, what: str, least: int = 1, most: int = 2**53, error: type[ConRLError] = SpecError) -> int:
    """A whole number: how many of something."""
    if not is_int(value) or value < least:
        raise error(f"{what} is {shown(value)}; it must be a whole number of at least {least}")
    if value > most:
        raise error(f"{what} is {shown(value)}; at most {most:,} are supported")
    return int(value)


def read_flag(value: Any, what: str) -> bool:
    """True or False, also as 0 or 1."""
    if not isinstance(value, (bool, np.bool_)) and not (is_int(value) and value in (0, 1)):
        raise SpecError(f"{what} is {shown(value)}; it must be True or False")
    return bool(value)


def read_choice(value: Any, what: str, options: Iterable[str]) -> str:
    """One of several words."""
    if not isinstance(value, str) or value not in options:
        raise SpecError(unknown(what, value, options))
    return value


def read_number(value: Any, what: str, least: float = -LARGEST) -> float:
    """A finite number."""
    if not is_number(value) or not least <= value <= LARGEST:
        wanted = "finite number" if least < 0.0 else f"number of at least {least:g}"
        raise SpecError(f"{what} is {shown(value)}; it must be a {wanted}, and at most {LARGEST:g}")
    return float(value)


def read_generator(generator: Any) -> np.random.Generator:
    if not isinstance(generator, np.random.Generator):
        raise SpecError(f"generator is {shown(generator)}; it must be a numpy.random.Generator")
    return generator


def is_list(values: Any) -> bool:
    """Whether it has a length: arrays without dimensions and sparse ones say so, and have none."""
    return isinstance(values, Sized) and getattr(values, "ndim", 1) > 0 and not is_sparse(values)


def is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """A finite number, not a truth value."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:
        return False


def read_range(bounds: tuple[float, float], what: str) -> tuple[float, float]:
    try:
        low, high = (float(x) for x in bounds)
    except (TypeError, ValueError, OverflowError):
        low = high = np.nan
    if not -LARGEST <= low <= high <= LARGEST:
        raise ModelError(
            f"{what} is {shown(bounds)}; expected two finite numbers, the lower first, of at most {LARGEST:g} in size"
        )
    return low, high


def read_ranges(reward: tuple[float, float] | None, costs: Ranges | None, cost_names: Sequence[str]) -> Float | None:
    """[1+d, 2]: declared ranges of the reward and of each cost, nan where there is none; None without any."""
    if reward is None and costs is None:
        return None
    found = np.full((1 + len(cost_names), 2), np.nan)
    if reward is not None:
        found[0] = read_range(reward, "reward_range")
    listed: Any = () if costs is None else costs
    if not isinstance(listed, Mapping):
        if costs is not None and not (is_list(listed) and len(listed) == len(cost_names)):
            raise ModelError(f"cost_ranges is {shown(costs)}; expected (low, high) for each of {len(cost_names)} costs")
        listed = dict(zip(cost_names, listed, strict=False))
    for name, bounds in listed.items():
        if name not in cost_names:
            raise ModelError(unknown("cost", str(name), cost_names))
        if bounds is not None:
            found[1 + list(cost_names).index(name)] = read_range(bounds, f"cost_ranges[{name!r}]")
    return found


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous array nobody can write to; copied where somebody else could."""
    own = np.ascontiguousarray(array)
    if own.flags.writeable or own.base is not None:  # a read-only view may have a base that can be written to
        if own is array or own.base is not None:
            own = own.copy()
        own.flags.writeable = False
    return own


def setter(target: object) -> Any:
    """The way round immutability, for construction only."""
    return lambda name, value: object.__setattr__(target, name, value)

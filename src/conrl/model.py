"""Constrained Markov decision processes: what is known (`ConstrainedMDP`) and what a learner may know (`Task`).

A model is (p, r, c) of Section 2 of Brantley et al. (2020): finitely many states and actions, an episode of
H steps, rewards r and the consumption c of d resources, called costs here. It is time-homogeneous and
undiscounted. Rewards and costs may be any finite reals; the paper's [0, 1] matters only to its bounds and to
hard budgets, which read the ranges of a `Task`.

Inside, a model is sparse (see `conrl.kernels` for the letters): only the pairs (s, a) that exist and only the
outcomes with positive probability are stored, so that validation and planning cost O(outcomes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from conrl import kernels
from conrl.errors import ModelError, unknown

if TYPE_CHECKING:
    import gymnasium

Float = NDArray[np.float64]
Int = NDArray[np.integer[Any]]

ROW_SUM_TOLERANCE = 1e-9  # how far from 1 the probabilities of one pair may add up; used as given, never rescaled
MAX_ACTIONS = 2**15 - 1  # a policy stores its choice in 16 bits
LARGEST = 1e150  # of a reward or cost: its square, and its sum over the horizon, still fit a double

_REFUSED = {
    "discount": "models are undiscounted; let every pair move to an absorbing state without reward "
    "with probability 1 - discount",
    "gamma": "models are undiscounted; let every pair move to an absorbing state without reward "
    "with probability 1 - gamma",
    "terminal_rewards": "there are no terminal rewards; put the step into the state and pay them in the last step",
    "terminal_costs": "there are no terminal costs; put the step into the state and pay them in the last step",
}


class Graph(NamedTuple):
    """The sparse structure that the kernels read; letters as in `conrl.kernels`."""

    first: Int  # [S+1]
    start: Int  # [P+1]
    successor: Int  # [N]
    probability: Float  # [N]


class Reach(NamedTuple):
    """The (step, state) pairs that the start can lead to, in the order in which the kernels work."""

    order: NDArray[np.int64]  # [n]: the state at each position
    pairs: NDArray[np.int64]  # the pair at each place of the graph below
    lo: NDArray[np.int64]  # [H]
    hi: NDArray[np.int64]  # [H]
    blocks: NDArray[np.uint32]  # those that can be occupied at step h are blocks[lo[h]:hi[h]]
    graph: Graph  # the pairs of those states, in positions
    initial: Float  # [n]

    @classmethod
    def of(cls, graph: Graph, initial: Float, horizon: int) -> Reach:
        order, lo, hi, blocks = kernels.reachable(graph.first, graph.start, graph.successor, initial, horizon)
        position = np.zeros(initial.size, dtype=np.uint32)
        position[order] = np.arange(order.size, dtype=np.uint32)
        first, pairs = _select(graph.first, order)
        start, outcomes = _select(graph.start, pairs)
        inner = Graph(first, start, position[graph.successor[outcomes]], graph.probability[outcomes])
        return cls(order, pairs, lo, hi, blocks, inner, initial[order])


def _select(begin: Int, chosen: Int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The ranges begin[i] .. begin[i+1]-1 for each chosen i, one after the other: their new starts, their members."""
    sizes = begin[chosen + 1] - begin[chosen]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    members = np.arange(starts[-1]) + np.repeat(begin[chosen] - starts[:-1], sizes)
    return starts.astype(np.uint64), members


@dataclass(frozen=True)
class Layout:
    """Where the states of a grid world lie, for those who draw it.

    `rows` is the map as text, one character a cell; `cell[s]` is the index (row-major) of the cell that the
    agent occupies in state s, or -1 for a state that is nowhere on the map; `arrows` gives one sign per action.
    """

    rows: tuple[str, ...]
    cell: NDArray[np.int64]  # [S]
    arrows: tuple[str, ...] = ("↑", "↓", "←", "→")


class ConstrainedMDP:
    """A finite-horizon constrained MDP, immutable and validated once.

    Args:
        transitions: `[S, A, S]` array, or scipy sparse `[S*A, S]` (row s*A + a).
        rewards: `[S, A]`, or by outcome: `[S, A, S]`, or sparse like `transitions`.
        costs: `[S, A, d]`, or by outcome: `[S, A, S, d]`, or a list of d arrays such as `rewards` takes.
            `None` or d = 0 is an ordinary MDP.
        horizon: number of steps of an episode, at least 1.
        initial: the first state, or a distribution `[S]`.
        limits: default limit of each expected total cost, `[d]` or by cost name; `inf` for none.
        available: `[S, A]` mask of the actions that exist; rows of missing pairs are ignored.
        state_names, action_names, cost_names: distinct texts; numbers by default.
        features: `[S, ...]`, what a function approximator sees of each state.
        layout: where the states lie on a map, for drawing.

    `rewards` and `costs` are means per pair; where they were given by outcome, simulation pays the outcome's.
    """

    __slots__ = (
        "_action_names",
        "_derived",
        "_graph",
        "_state_names",
        "action",
        "bonus",
        "cost_names",
        "features",
        "horizon",
        "initial",
        "layout",
        "limits",
        "num_actions",
        "num_costs",
        "num_states",
        "outcome_pay",
        "pay",
    )

    num_states: int
    num_actions: int
    num_costs: int
    horizon: int
    initial: Float  # [S]
    limits: Float | None  # [d]
    pay: Float  # [P, 1+d]: mean reward, then mean costs, of each pair that exists
    outcome_pay: Float | None  # [N, 1+d]: the same by outcome, where given so
    bonus: Float | None  # [P, 1+d]
    action: NDArray[np.int64]  # [P]: the action of each pair
    cost_names: tuple[str, ...]
    features: NDArray[Any] | None
    layout: Layout | None
    _graph: Graph
    _derived: dict[str, Any]  # what is computed from the rest when first asked for
    _state_names: tuple[str, ...] | None
    _action_names: tuple[str, ...] | None

    def __init__(
        self,
        transitions: ArrayLike | sp.sparray | sp.spmatrix,
        rewards: ArrayLike | sp.sparray | sp.spmatrix,
        costs: ArrayLike | Sequence[Any] | None,
        horizon: int,
        initial: int | ArrayLike = 0,
        limits: ArrayLike | Mapping[str, float] | None = None,
        available: ArrayLike | None = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        cost_names: Sequence[str] | None = None,
        *,
        features: ArrayLike | None = None,
        layout: Layout | None = None,
        **refused: object,
    ) -> None:
        _refuse(refused)
        matrix, num_actions = _transition_matrix(transitions)
        num_states = matrix.shape[1]
        keep = _available_rows(available, num_states, num_actions)
        kept = matrix if keep.all() else matrix[keep]
        table = _PairTable(num_states, num_actions, keep, kept)
        reward = table.read(rewards, "rewards")
        columns = [table.read(c, f"costs[{i}]") for i, c in enumerate(_split_costs(costs, num_states, num_actions))]
        self._assemble(
            num_states,
            num_actions,
            np.flatnonzero(keep),
            np.asarray(kept.indptr, dtype=np.int64),
            np.asarray(kept.indices, dtype=np.int32),
            np.asarray(kept.data, dtype=np.float64),
            [reward, *columns],
            horizon=horizon,
            initial=initial,
            limits=limits,
            state_names=state_names,
            action_names=action_names,
            cost_names=cost_names,
            features=features,
            layout=layout,
        )

    @classmethod
    def from_outcomes(
        cls,
        state: ArrayLike,
        action: ArrayLike,
        successor: ArrayLike,
        probability: ArrayLike,
        pay: ArrayLike,
        *,
        num_states: int,
        num_actions: int,
        horizon: int,
        **rest: Any,
    ) -> ConstrainedMDP:
        """A model from a list of outcomes: `pay` [n, 1+d] holds the reward and the costs of each.

        Outcomes of one pair that lead to the same state and pay the same are added up; those that pay
        differently stay apart, so that simulation pays each with its own probability. Pairs that do not occur
        do not exist. `rest` is as in the constructor.
        """
        s, a, t = (np.asarray(x, dtype=np.int64) for x in (state, action, successor))
        p = np.asarray(probability, dtype=np.float64)
        m = np.asarray(pay, dtype=np.float64)
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
        p = np.add.reduceat(p, np.flatnonzero(new)) if row.size else p
        row, t, m = row[new], t[new], m[new]
        rows = np.unique(row)
        start = np.append(np.searchsorted(row, rows), row.size)
        self = cls.__new__(cls)
        self._assemble(num_states, num_actions, rows, start, t.astype(np.int32), p, list(m.T), horizon=horizon, **rest)
        return self

    def _assemble(
        self,
        num_states: int,
        num_actions: int,
        rows: Int,
        start: Int,
        successor: NDArray[np.int32],
        probability: Float,
        columns: list[Float],
        *,
        horizon: int,
        initial: int | ArrayLike = 0,
        limits: ArrayLike | Mapping[str, float] | None = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        cost_names: Sequence[str] | None = None,
        features: ArrayLike | None = None,
        layout: Layout | None = None,
    ) -> None:
        """Validate and freeze. `columns`: reward and each cost, per pair [P] or per outcome [N].

        The two are told apart by their size; where P = N, each pair has one outcome and they are the same.
        """
        put = _setter(self)
        put("num_states", num_states)
        put("num_actions", num_actions)
        put("num_costs", len(columns) - 1)
        put("_state_names", _names(state_names, num_states, "state_names"))
        put("_action_names", _names(action_names, num_actions, "action_names"))
        names = _names(cost_names, self.num_costs, "cost_names")
        put("cost_names", names or _default_cost_names(self.num_costs))
        put("horizon", _horizon(horizon))
        put("action", _frozen(rows % num_actions))
        first = np.searchsorted(rows // num_actions, np.arange(num_states + 1))
        self._check_actions(first)
        self._check_probabilities(rows, start, successor, probability)
        graph = Graph(
            _frozen(first.astype(np.int64)), _frozen(start.astype(np.int64)), _frozen(successor), _frozen(probability)
        )
        put("_graph", graph)
        put("_derived", {})
        self._put_pay(rows, columns)
        put("bonus", None)
        put("initial", _frozen(self._initial(initial)))
        put("limits", None if limits is None else _frozen(resolve_limits(limits, self.cost_names, "limits")))
        put("features", None if features is None else _frozen(_features(features, num_states)))
        put("layout", layout)

    # -- validation ---------------------------------------------------------------------------------------

    def _check_actions(self, first: Int) -> None:
        empty = np.flatnonzero(np.diff(first) == 0)
        if empty.size:
            raise ModelError(
                f"state {self.state_name(int(empty[0]))!r} (index {empty[0]}) has no action; "
                "give it one, for example one that stays there with probability 1"
            )

    def _check_probabilities(self, rows: Int, start: Int, successor: Int, probability: Float) -> None:
        bad = ~(np.isfinite(probability) & (probability >= 0.0))
        if bad.any():
            j = int(np.flatnonzero(bad)[0])
            k = int(np.searchsorted(start, j, side="right")) - 1
            raise ModelError(
                f"transitions[{self._pair(int(rows[k]))}] to state {self.state_name(int(successor[j]))!r} "
                f"is {probability[j]}; a probability is a finite number of at least 0"
            )
        total = np.zeros(rows.size)
        full = np.diff(start) > 0
        total[full] = np.add.reduceat(probability, start[:-1][full]) if full.any() else 0.0
        wrong = np.flatnonzero(np.abs(total - 1.0) > ROW_SUM_TOLERANCE)
        if wrong.size:
            k = int(wrong[0])
            more = f" (and {wrong.size - 1} more such pairs)" if wrong.size > 1 else ""
            hint = "; leave the pair out with `available` if it does not exist" if total[k] == 0.0 else ""
            raise ModelError(
                f"transitions[{self._pair(int(rows[k]))}] sums to {total[k]:.12g}; "
                f"a distribution sums to 1 (within {ROW_SUM_TOLERANCE:g}){hint}{more}"
            )

    def _put_pay(self, rows: Int, columns: list[Float]) -> None:
        graph = self._graph
        pay = np.empty((rows.size, len(columns)))
        by_outcome = [c.size == graph.probability.size and c.size != rows.size for c in columns]
        outcome = np.empty((graph.probability.size, len(columns))) if any(by_outcome) else None
        counts = np.diff(graph.start)
        for i, (column, apart) in enumerate(zip(columns, by_outcome, strict=True)):
            bad = ~(np.abs(column) <= LARGEST)
            if bad.any():
                at = int(np.flatnonzero(bad)[0])
                k = int(np.searchsorted(graph.start, at, side="right")) - 1 if apart else at
                what = "rewards" if i == 0 else f"costs {self.cost_names[i - 1]!r}"
                raise ModelError(
                    f"{what} at {self._pair(int(rows[k]))} is {column[at]}; "
                    f"it must be finite and at most {LARGEST:g} in size"
                )
            if apart:
                pay[:, i] = np.add.reduceat(column * graph.probability, graph.start[:-1])
            else:
                pay[:, i] = column
            if outcome is not None:
                outcome[:, i] = column if apart else np.repeat(column, counts)
        put = _setter(self)
        put("pay", _frozen(pay))
        put("outcome_pay", None if outcome is None else _frozen(outcome))

    def _initial(self, initial: int | ArrayLike) -> Float:
        given = np.asarray(initial)
        if given.ndim == 0:
            if not np.issubdtype(given.dtype, np.integer) or not 0 <= int(given) < self.num_states:
                raise ModelError(
                    f"initial is {initial!r}; it must be a state index in 0..{self.num_states - 1} or a distribution"
                )
            start = np.zeros(self.num_states)
            start[int(given)] = 1.0
            return start
        start = _float_array(initial, "initial")
        if start.shape != (self.num_states,):
            raise ModelError(
                f"initial has shape {start.shape}; a distribution over states has shape ({self.num_states},)"
            )
        bad = np.flatnonzero(~(np.isfinite(start) & (start >= 0.0)))
        if bad.size:
            raise ModelError(
                f"initial[state {self.state_name(int(bad[0]))!r}] is {start[bad[0]]}; a probability is at least 0"
            )
        if abs(start.sum() - 1.0) > ROW_SUM_TOLERANCE:
            raise ModelError(
                f"initial sums to {start.sum():.12g}; a distribution sums to 1 (within {ROW_SUM_TOLERANCE:g})"
            )
        return start

    def _pair(self, row: int) -> str:
        s, a = divmod(row, self.num_actions)
        return f"state {self.state_name(s)!r}, action {self.action_name(a)!r}"

    # -- reading ------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a ConstrainedMDP is immutable; make another with .replace({name}=...)")

    def __repr__(self) -> str:
        return (
            f"ConstrainedMDP(states={self.num_states}, actions={self.num_actions}, costs={self.num_costs}, "
            f"horizon={self.horizon}, outcomes={self._graph.probability.size})"
        )

    @property
    def graph(self) -> Graph:
        """The sparse structure, for kernels."""
        return self._graph

    @property
    def reach(self) -> Reach:
        """The (step, state) pairs that can be reached from the start."""
        return cast(Reach, self._once("reach", lambda: Reach.of(self._graph, self.initial, self.horizon)))

    @property
    def num_pairs(self) -> int:
        return self.action.size

    @property
    def pair_state(self) -> NDArray[np.int64]:
        """[P]: the state of each pair that exists."""
        make = lambda: np.repeat(np.arange(self.num_states), np.diff(self._graph.first))  # noqa: E731
        return cast(NDArray[np.int64], self._once("pair_state", make))

    @property
    def pair_index(self) -> NDArray[np.int64]:
        """[S, A]: the pair of each state and action, -1 where the action does not exist."""

        def make() -> NDArray[np.int64]:
            index = np.full((self.num_states, self.num_actions), -1, dtype=np.int64)
            index[self.pair_state, self.action] = np.arange(self.num_pairs)
            return index

        return cast(NDArray[np.int64], self._once("pair_index", make))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._derived:
            self._derived[name] = make()
        return self._derived[name]

    @property
    def state_names(self) -> tuple[str, ...]:
        return self._state_names or tuple(map(str, range(self.num_states)))

    @property
    def action_names(self) -> tuple[str, ...]:
        return self._action_names or tuple(map(str, range(self.num_actions)))

    def state_name(self, s: int) -> str:
        return self._state_names[s] if self._state_names else str(s)

    def action_name(self, a: int) -> str:
        return self._action_names[a] if self._action_names else str(a)

    @property
    def available(self) -> NDArray[np.bool_]:
        """[S, A]: which actions exist in each state."""
        return self._spread(np.ones(self.num_pairs, dtype=bool))

    @property
    def rewards(self) -> Float:
        """[S, A]: mean reward of each pair; 0 where the action does not exist."""
        return self._spread(self.pay[:, 0])

    @property
    def costs(self) -> Float:
        """[S, A, d]: mean costs of each pair; 0 where the action does not exist."""
        return self._spread(self.pay[:, 1:])

    @property
    def transitions(self) -> sp.csr_array:
        """Sparse [S*A, S]; the row of an action that does not exist is empty."""
        g = self._graph
        counts = np.zeros(self.num_states * self.num_actions, dtype=np.int64)
        counts[self.pair_state * self.num_actions + self.action] = np.diff(g.start)
        indptr = np.concatenate(([0], np.cumsum(counts)))
        matrix = sp.csr_array((g.probability.copy(), g.successor.copy(), indptr), shape=(counts.size, self.num_states))
        matrix.sum_duplicates()
        return matrix

    def _spread(self, values: NDArray[Any]) -> NDArray[Any]:
        full = np.zeros((self.num_states, self.num_actions, *values.shape[1:]), dtype=values.dtype)
        full[self.pair_state, self.action] = values
        return full

    def gather(self, table: ArrayLike, what: str) -> Float:
        """[P, ...] from a table [S, A, ...]: its rows at the pairs that exist."""
        full = _float_array(table, what)
        if full.shape[:2] != (self.num_states, self.num_actions):
            raise ModelError(f"{what} has shape {full.shape}; expected ({self.num_states}, {self.num_actions}, ...)")
        return full[self.pair_state, self.action]

    # -- variants -----------------------------------------------------------------------------------------

    def with_bonus(self, b: ArrayLike) -> ConstrainedMDP:
        """The optimistic set: the reward and each cost of a pair may move by +-b.

        `b` is [S, A], or [S, A, 1+d] for a bonus per coordinate (reward first). What `plan` then maximises is the
        best case within those intervals (Eq. r_hat + b, c_hat - b in the linear setting).
        """
        table = self.gather(b, "bonus")
        if table.ndim == 1:
            table = np.repeat(table[:, None], 1 + self.num_costs, axis=1)
        if table.shape != self.pay.shape:
            raise ModelError(
                f"bonus has shape {np.shape(b)}; expected ({self.num_states}, {self.num_actions}) "
                f"or ({self.num_states}, {self.num_actions}, {1 + self.num_costs})"
            )
        if not ((table >= 0.0) & (table <= LARGEST)).all():
            raise ModelError("bonus has a negative or non-finite entry; to be cautious, raise the costs themselves")
        return self._copy(bonus=_frozen(table))

    def replace(
        self,
        *,
        horizon: int | None = None,
        initial: int | ArrayLike | None = None,
        limits: ArrayLike | Mapping[str, float] | None = None,
    ) -> ConstrainedMDP:
        """The same model with another horizon, start or default limits."""
        changes: dict[str, object] = {}
        if horizon is not None:
            changes |= {"horizon": _horizon(horizon), "_derived": {}}
        if initial is not None:
            changes |= {"initial": _frozen(self._initial(initial)), "_derived": {}}
        if limits is not None:
            changes["limits"] = _frozen(resolve_limits(limits, self.cost_names, "limits"))
        return self._copy(**changes)

    def _copy(self, **changes: object) -> ConstrainedMDP:
        other = object.__new__(ConstrainedMDP)
        put = _setter(other)
        for name in ConstrainedMDP.__slots__:
            put(name, changes[name] if name in changes else getattr(self, name))
        return other

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, ({name: getattr(self, name) for name in ConstrainedMDP.__slots__ if name != "_derived"},)

    @property
    def task(self) -> Task:
        """What a learner may know of this model: sizes, limits, ranges; never the transitions."""
        realised = self.pay if self.outcome_pay is None else self.outcome_pay
        low, high = realised.min(axis=0), realised.max(axis=0)
        known = np.flatnonzero(self.initial == 1.0)
        return Task(
            num_states=self.num_states,
            num_actions=self.num_actions,
            horizon=self.horizon,
            limits=self.limits if self.limits is not None else np.full(self.num_costs, np.inf),
            cost_names=self.cost_names,
            initial=int(known[0]) if known.size else None,
            reward_range=(float(low[0]), float(high[0])),
            cost_ranges=tuple((float(x), float(y)) for x, y in zip(low[1:], high[1:], strict=True)),
            features=self.features,
            available=None if self.available.all() else self.available,
        )


@dataclass(frozen=True, eq=False)
class Task:
    """What a learner may know: sizes, horizon, limits and the ranges of what it will see.

    `reward_range` and `cost_ranges` bound the *realised* reward and costs of one step: a hard budget rests on
    them. `initial` is the first state if it is known and fixed. `features` ([S, ...]) is what function
    approximation sees. `can_stop`: an episode may be ended early. `available` ([S, A]) masks actions.
    """

    num_states: int
    num_actions: int
    horizon: int
    limits: ArrayLike
    cost_names: Sequence[str]
    initial: int | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    cost_ranges: Sequence[tuple[float, float]] | None = None
    features: NDArray[Any] | None = None
    can_stop: bool = False
    available: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        put = _setter(self)
        for name in ("num_states", "num_actions"):
            if not _is_int(getattr(self, name)) or getattr(self, name) < 1:
                raise ModelError(f"{name} is {getattr(self, name)!r}; it must be a whole number of at least 1")
        put("horizon", _horizon(self.horizon))
        put("cost_names", _names(self.cost_names, len(self.cost_names), "cost_names") or ())
        put("limits", _frozen(resolve_limits(self.limits, self.cost_names, "limits")))
        if self.initial is not None and not (_is_int(self.initial) and 0 <= self.initial < self.num_states):
            raise ModelError(
                f"initial is {self.initial!r}; it must be a state index in 0..{self.num_states - 1}, or None if unknown"
            )
        put("reward_range", _range(self.reward_range, "reward_range"))
        ranges = self.cost_ranges if self.cost_ranges is not None else ((0.0, 1.0),) * self.num_costs
        if len(ranges) != self.num_costs:
            raise ModelError(f"cost_ranges has {len(ranges)} entries for {self.num_costs} costs")
        put("cost_ranges", tuple(_range(r, f"cost_ranges[{i}]") for i, r in enumerate(ranges)))
        if self.features is not None:
            put("features", _frozen(_features(self.features, self.num_states)))
        if self.available is not None:
            mask = np.asarray(self.available, dtype=bool)
            if mask.shape != (self.num_states, self.num_actions) or not mask.any(axis=1).all():
                raise ModelError("available must be [S, A] with at least one action in every state")
            put("available", _frozen(mask))

    @property
    def num_costs(self) -> int:
        return len(self.cost_names)

    @classmethod
    def from_gymnasium(
        cls,
        env: gymnasium.Env[Any, Any],
        *,
        horizon: int | None = None,
        limits: ArrayLike | None = None,
        cost_names: Sequence[str] | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        cost_ranges: Sequence[tuple[float, float]] | None = None,
        can_stop: bool = False,
    ) -> Task:
        """The task of a Gymnasium environment with discrete spaces whose model is unknown.

        The horizon comes from the environment's time limit where it has one; limits and cost names from
        `cost_limits` and `cost_names` of the unwrapped environment where it has them.
        """
        sizes = []
        for name, space in (("observation", env.observation_space), ("action", env.action_space)):
            if not hasattr(space, "n") or int(getattr(space, "start", 0)) != 0:
                raise ModelError(f"the {name} space is {space}; conrl needs Discrete(n) counting from 0")
            sizes.append(int(space.n))
        spec_horizon = getattr(env.spec, "max_episode_steps", None) if env.spec else None
        steps = horizon if horizon is not None else spec_horizon
        if steps is None:
            raise ModelError("the environment states no time limit; pass horizon=")
        inner = env.unwrapped
        if limits is None:
            limits = getattr(inner, "cost_limits", [])
        values = np.atleast_1d(np.asarray(limits, dtype=np.float64))
        names = cost_names if cost_names is not None else getattr(inner, "cost_names", None)
        return cls(
            sizes[0],
            sizes[1],
            steps,
            values,
            tuple(names) if names is not None else _default_cost_names(values.size),
            reward_range=reward_range,
            cost_ranges=cost_ranges,
            can_stop=can_stop,
        )


def resolve_limits(limits: ArrayLike | Mapping[str, float] | None, cost_names: Sequence[str], what: str) -> Float:
    """[d] from a list or a mapping by cost name. Absent: +inf for limits, -inf for floors."""
    none = -np.inf if what == "floors" else np.inf
    d = len(cost_names)
    if limits is None:
        return np.full(d, none)
    if isinstance(limits, Mapping):
        values = np.full(d, none)
        for name, limit in limits.items():
            if name not in cost_names:
                raise ModelError(unknown("cost", str(name), cost_names))
            values[list(cost_names).index(name)] = float(limit)
    else:
        given = [none if x is None else x for x in limits] if isinstance(limits, (list, tuple)) else limits
        values = _float_array(given, what)
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


# -- reading what users pass ------------------------------------------------------------------------------


class _PairTable:
    """Reads rewards or one cost, given per pair or per outcome, onto the pairs that exist."""

    def __init__(self, num_states: int, num_actions: int, keep: NDArray[np.bool_], kept: sp.csr_array) -> None:
        self.shape = (num_states, num_actions)
        self.keep = keep
        self.kept = kept
        rows = np.repeat(np.flatnonzero(keep), np.diff(kept.indptr))
        self.rows = rows
        self.columns = np.asarray(kept.indices, dtype=np.int64)

    def read(self, values: Any, what: str) -> Float:
        S, A = self.shape
        if sp.issparse(values):
            return self._sparse(values, what)
        table = _float_array(values, what)
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
        table = sp.coo_array(values)
        keys = table.row.astype(np.int64) * S + table.col
        order = np.argsort(keys, kind="stable")
        keys, data = keys[order], np.asarray(table.data, dtype=np.float64)[order]
        if keys.size == 0:
            return np.zeros(self.rows.size)
        wanted = self.rows * S + self.columns
        low = np.searchsorted(keys, wanted, side="left")
        high = np.searchsorted(keys, wanted, side="right")
        total = np.concatenate(([0.0], np.cumsum(data)))
        single = np.where(high > low, data[np.minimum(low, keys.size - 1)], 0.0)
        return np.where(high - low > 1, total[high] - total[low], single)


def _transition_matrix(transitions: Any) -> tuple[sp.csr_array, int]:
    if sp.issparse(transitions):
        matrix = sp.csr_array(transitions, dtype=np.float64)
        rows, num_states = matrix.shape
        if num_states == 0 or rows == 0 or rows % num_states:
            raise ModelError(f"transitions is sparse with shape {matrix.shape}; expected (S*A, S)")
        num_actions = rows // num_states
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    else:
        table = _float_array(transitions, "transitions")
        if table.ndim == 4:
            raise ModelError(
                "transitions has 4 dimensions; models do not depend on the step: put the step into the state"
            )
        if table.ndim != 3 or table.shape[0] != table.shape[2] or table.size == 0:
            raise ModelError(f"transitions has shape {table.shape}; expected (S, A, S), or sparse (S*A, S)")
        num_states, num_actions = table.shape[:2]
        matrix = sp.csr_array(table.reshape(num_states * num_actions, num_states))
    if num_actions > MAX_ACTIONS:
        raise ModelError(f"{num_actions} actions; at most {MAX_ACTIONS} are supported")
    return matrix, num_actions


def _available_rows(available: ArrayLike | None, num_states: int, num_actions: int) -> NDArray[np.bool_]:
    if available is None:
        return np.ones(num_states * num_actions, dtype=bool)
    mask = np.asarray(available)
    if mask.shape != (num_states, num_actions):
        raise ModelError(f"available has shape {mask.shape}; expected ({num_states}, {num_actions})")
    if mask.dtype != np.bool_ and not np.isin(mask, (0, 1)).all():
        raise ModelError("available must hold booleans")
    return mask.astype(bool).reshape(-1)


def _split_costs(costs: Any, num_states: int, num_actions: int) -> list[Any]:
    """The d tables in `costs`, each such as `rewards` takes."""
    if costs is None:
        return []
    if isinstance(costs, (list, tuple)) and all(sp.issparse(c) or np.ndim(c) in (2, 3) for c in costs):
        nested = len(costs) == num_states and all(np.shape(c)[0] == num_actions for c in costs) if costs else False
        if not nested or any(sp.issparse(c) or isinstance(c, np.ndarray) for c in costs):
            return list(costs)
    table = _float_array(costs, "costs")
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


def _refuse(given: Mapping[str, object]) -> None:
    for name in given:
        if name in _REFUSED:
            raise ModelError(f"{name}: {_REFUSED[name]}")
        raise TypeError(f"ConstrainedMDP() got an unexpected keyword argument {name!r}")


def _float_array(values: Any, what: str) -> Float:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            array = array.astype(object).astype(np.float64)
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} is not an array of numbers: {error}") from None


def _features(features: ArrayLike, num_states: int) -> NDArray[Any]:
    table = np.asarray(features)
    if table.ndim < 2 or table.shape[0] != num_states or table.dtype.kind not in "fiub":
        raise ModelError(f"features has shape {table.shape}; expected numbers of shape ({num_states}, ...)")
    return table


def _names(names: Sequence[str] | None, count: int, what: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise ModelError(f"{what} is one text; expected a list of {count}")
    texts = tuple(str(n) for n in names)
    if len(texts) != count:
        raise ModelError(f"{what} has {len(texts)} entries; expected {count}")
    if len(set(texts)) != count:
        twice = next(t for t in texts if texts.count(t) > 1)
        raise ModelError(f"{what} has {twice!r} twice; names must differ")
    return texts


def _default_cost_names(count: int) -> tuple[str, ...]:
    return ("cost",) if count == 1 else tuple(f"cost{i}" for i in range(count))


def _horizon(horizon: Any) -> int:
    if not _is_int(horizon) or horizon < 1:
        raise ModelError(f"horizon is {horizon!r}; it must be a whole number of at least 1")
    return int(horizon)


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _range(bounds: tuple[float, float], what: str) -> tuple[float, float]:
    low, high = (float(x) for x in bounds)
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ModelError(f"{what} is {bounds!r}; expected two finite numbers, the lower first")
    return low, high


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A contiguous array nobody can write to; copied where somebody else could."""
    own = np.ascontiguousarray(array)
    if own.flags.writeable:
        if own is array or own.base is not None:
            own = own.copy()
        own.flags.writeable = False
    return own


def _setter(target: object) -> Any:
    """The way round immutability, for construction only."""
    return lambda name, value: object.__setattr__(target, name, value)


def _rebuild(values: dict[str, object]) -> ConstrainedMDP:
    other = object.__new__(ConstrainedMDP)
    put = _setter(other)
    for name, value in values.items():
        put(name, value)
    put("_derived", {})
    return other

"""Constrained Markov decision processes. What a learner may know of one is its `conrl.model.task.Task`.

A model is (p, r, c) of Section 2 of Brantley et al. (2020): finitely many states and actions, an episode of
H steps, rewards r and the consumption c of d resources, called costs here. It is time-homogeneous and
undiscounted. Rewards and costs may be any finite reals; the paper's [0, 1] matters only to its bounds and to
hard budgets, which read the ranges of a `Task`.

Inside, a model is sparse (see `conrl.kernels` for the letters): only the pairs (s, a) that exist and only the
outcomes with positive probability are stored, so that validation and planning cost O(outcomes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl import kernels
from conrl._types import Array, Bool, Float, Index, Int
from conrl.arguments import LARGEST, any_array, float_array, frozen, read_flag, setter
from conrl.errors import ModelError, SpecError, shown
from conrl.model.graph import Graph, Reach
from conrl.model.layout import Layout
from conrl.model.limits import resolve_limits
from conrl.model.reading import (
    PairTable,
    Ranges,
    available_rows,
    default_cost_names,
    read_features,
    read_horizon,
    read_names,
    read_outcomes,
    read_ranges,
    read_transitions,
    refuse,
    split_costs,
)
from conrl.model.task import Task
from conrl.sizes import check_costs

if TYPE_CHECKING:
    import scipy.sparse as sp


ROW_SUM_TOLERANCE = 1e-9  # how far from 1 the probabilities of one pair may add up; used as given, never rescaled


class Origin(NamedTuple):
    """Where a learner's estimate comes from: it has those states only that were seen, and START and END."""

    task: Task
    available: Bool  # [S+2, A]
    state: Int  # [n]: the task's state behind each of the model's; S and S+1 are START and END
    seed: int | None  # of the learner

    @property
    def features(self) -> Array:
        """[S+2, ...]: what is seen of each state, one-hot if the task has no features; zeros for START and END."""
        own = np.eye(self.task.num_states, dtype=np.float32) if self.task.features is None else self.task.features
        return np.concatenate((own, np.zeros((2, *own.shape[1:]), dtype=own.dtype)))


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
        can_stop: whether an episode may be ended early, at no cost; hard budgets can then be kept step by step.
        reward_range, cost_ranges: the least and the most that one step really pays, where rewards and costs are means
            of what varies; `cost_ranges` for each cost, or by cost name. By default those of what the model pays.

    `rewards` and `costs` are means per pair; where they were given by outcome, simulation pays the outcome's.
    `counts` [S, A] is None, but for a model that `conrl.estimate` or a learner made from data.
    """

    __slots__ = (
        "_action_names",
        "_derived",
        "_graph",
        "_ranges",
        "_state_names",
        "_visits",
        "action",
        "bonus",
        "can_stop",
        "cost_names",
        "features",
        "horizon",
        "initial",
        "layout",
        "limits",
        "num_actions",
        "num_costs",
        "num_states",
        "origin",
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
    action: Int  # [P]: the action of each pair
    can_stop: bool
    cost_names: tuple[str, ...]
    features: Array | None
    layout: Layout | None
    origin: Origin | None
    _visits: Int | None  # [P]: how often each pair occurred in the data that an estimate was made from
    _ranges: Float | None  # [1+d, 2]: the declared least and most that one step pays; nan where it is not declared
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
        can_stop: bool = False,
        reward_range: tuple[float, float] | None = None,
        cost_ranges: Ranges | None = None,
        **refused: object,
    ) -> None:
        refuse(refused)
        every, num_states, num_actions = read_transitions(transitions)
        keep = available_rows(available, num_states, num_actions)
        kept = every if keep.all() else every.chosen(keep)
        table = PairTable(num_states, num_actions, keep, kept)
        reward = table.read(rewards, "rewards")
        columns = [table.read(c, f"costs[{i}]") for i, c in enumerate(split_costs(costs, num_states, num_actions))]
        self._assemble(
            num_states,
            num_actions,
            np.flatnonzero(keep),
            *kept,
            [reward, *columns],
            horizon=horizon,
            initial=initial,
            limits=limits,
            state_names=state_names,
            action_names=action_names,
            cost_names=cost_names,
            features=features,
            layout=layout,
            can_stop=can_stop,
            reward_range=reward_range,
            cost_ranges=cost_ranges,
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
        rows, start, t, p, columns = read_outcomes(
            state, action, successor, probability, pay, num_states=num_states, num_actions=num_actions
        )
        self = cls.__new__(cls)
        self._assemble(num_states, num_actions, rows, start, t, p, columns, horizon=horizon, **rest)
        return self

    @classmethod
    def _trusted(
        cls,
        *,
        num_actions: int,
        horizon: int,
        graph: Graph,
        action: Int,
        pay: Float,
        initial: Float,
        limits: Float | None,
        cost_names: tuple[str, ...],
        visits: Int | None = None,
        bonus: Float | None = None,
        origin: Origin | None = None,
    ) -> ConstrainedMDP:
        """Of arrays that are known to make a model, without validation: a learner makes one each episode."""
        self = cls.__new__(cls)
        values = dict.fromkeys(cls.__slots__) | {
            "num_states": graph.first.size - 1,
            "num_actions": num_actions,
            "num_costs": pay.shape[1] - 1,
            "horizon": horizon,
            "action": frozen(action),
            "_graph": graph,
            "_derived": {},
            "pay": frozen(pay),
            "initial": frozen(initial),
            "limits": None if limits is None else frozen(limits),
            "cost_names": cost_names,
            "can_stop": False,
            "_visits": None if visits is None else frozen(visits),
            "bonus": None if bonus is None else frozen(bonus),
            "origin": origin,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
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
        can_stop: bool = False,
        reward_range: tuple[float, float] | None = None,
        cost_ranges: Ranges | None = None,
    ) -> None:
        """Validate and freeze. `columns`: reward and each cost, per pair [P] or per outcome [N].

        The two are told apart by their size; where P = N, each pair has one outcome and they are the same.
        """
        put = setter(self)
        check_costs(len(columns) - 1)
        put("horizon", read_horizon(horizon, num_states))
        put("num_states", num_states)
        put("num_actions", num_actions)
        put("num_costs", len(columns) - 1)
        put("_state_names", read_names(state_names, num_states, "state_names"))
        put("_action_names", read_names(action_names, num_actions, "action_names"))
        names = read_names(cost_names, self.num_costs, "cost_names")
        put("cost_names", names or default_cost_names(self.num_costs))
        put("action", frozen(rows % num_actions))
        first = np.searchsorted(rows // num_actions, np.arange(num_states + 1))
        self._check_actions(first)
        self._check_probabilities(rows, start, successor, probability)
        graph = Graph(
            frozen(first.astype(np.int64)), frozen(start.astype(np.int64)), frozen(successor), frozen(probability)
        )
        put("_graph", graph)
        put("_derived", {})
        self._put_pay(rows, columns)
        put("_ranges", None)
        put("_ranges", self._declared(reward_range, cost_ranges))
        put("bonus", None)
        put("initial", frozen(self._initial(initial)))
        put("limits", None if limits is None else frozen(resolve_limits(limits, self.cost_names, "limits")))
        put("features", None if features is None else frozen(read_features(features, num_states)))
        put("layout", layout)
        put("can_stop", read_flag(can_stop, "can_stop"))
        put("_visits", None)
        put("origin", None)

    # -- validation ---------------------------------------------------------------------------------------

    def _check_actions(self, first: Int) -> None:
        empty = np.flatnonzero(np.diff(first) == 0)
        if empty.size:
            raise ModelError(
                f"state {self.state_name(int(empty[0]))!r} (index {empty[0]}) has no action; "
                "give it one, for example one that stays there with probability 1"
            )

    def _check_probabilities(self, rows: Int, start: Int, successor: Index, probability: Float) -> None:
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
            hint = "; write them with more digits" if 0.0 < abs(total[k] - 1.0) < 1e-3 else hint
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
        put = setter(self)
        put("pay", frozen(pay))
        put("outcome_pay", None if outcome is None else frozen(outcome))

    def _declared(self, reward_range: tuple[float, float] | None, cost_ranges: Ranges | None) -> Float | None:
        """[1+d, 2]: what is declared of the range of one step's pay, on top of what was."""
        given = read_ranges(reward_range, cost_ranges, self.cost_names)
        if given is None:
            return self._ranges
        low, high = self._realised()
        room = ROW_SUM_TOLERANCE * np.maximum(np.abs(low), np.abs(high))  # means are sums: they round
        for i in np.flatnonzero((low < given[:, 0] - room) | (high > given[:, 1] + room)):
            name = "reward_range" if i == 0 else f"the range of cost {self.cost_names[i - 1]!r}"
            raise ModelError(
                f"{name} is {given[i, 0]:g} to {given[i, 1]:g}, but the model itself pays {low[i]:g} to {high[i]:g}"
            )
        before = self._ranges
        given = given if before is None else np.where(np.isnan(given), before, given)
        return frozen(given)

    def _initial(self, initial: int | ArrayLike) -> Float:
        given = any_array(initial, "initial")
        if given.ndim == 0:
            if not np.issubdtype(given.dtype, np.integer) or not 0 <= int(given) < self.num_states:
                raise ModelError(
                    f"initial is {shown(initial)}; "
                    f"it must be a state index in 0..{self.num_states - 1} or a distribution"
                )
            start = np.zeros(self.num_states)
            start[int(given)] = 1.0
            return start
        start = float_array(initial, "initial")
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

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a ConstrainedMDP is immutable")

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
    def pair_state(self) -> Int:
        """[P]: the state of each pair that exists."""
        make = lambda: frozen(np.repeat(np.arange(self.num_states), np.diff(self._graph.first)))  # noqa: E731
        return cast(Int, self._once("pair_state", make))

    @property
    def pair_index(self) -> Int:
        """[S, A]: the pair of each state and action, -1 where the action does not exist."""

        def make() -> Int:
            index = np.full((self.num_states, self.num_actions), -1, dtype=np.int64)
            index[self.pair_state, self.action] = np.arange(self.num_pairs)
            return frozen(index)

        return cast(Int, self._once("pair_index", make))

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        """Threads that ask together may each make it; all get the one that was put first."""
        found = self._derived.get(name)
        return self._derived.setdefault(name, make()) if found is None else found

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
    def available(self) -> Bool:
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

    def pay_along(self, w: Float) -> Float:
        """[P]: w.(reward, costs) of each pair, in the best case for w within the bonus: w.pay + |w|.bonus."""
        pay: Float = np.empty(self.num_pairs)
        bonus = np.empty((0, w.size)) if self.bonus is None else self.bonus
        kernels.along(self.pay, bonus, w, pay)
        return pay

    @property
    def transitions(self) -> sp.csr_array:
        """Sparse [S*A, S]; the row of an action that does not exist is empty."""
        import scipy.sparse as sp

        g = self._graph
        counts = np.zeros(self.num_states * self.num_actions, dtype=np.int64)
        counts[self.pair_state * self.num_actions + self.action] = np.diff(g.start)
        indptr = np.concatenate(([0], np.cumsum(counts)))
        matrix = sp.csr_array((g.probability.copy(), g.successor.copy(), indptr), shape=(counts.size, self.num_states))
        matrix.sum_duplicates()
        return matrix

    @property
    def varies(self) -> Bool:
        """[1+d]: whether some pair pays a different reward, or cost, from outcome to outcome.

        Where none does, the model has one amount for each pair: what is paid every time, or only the mean of it.
        """
        if self.outcome_pay is None:
            return np.zeros(1 + self.num_costs, dtype=bool)
        once = np.repeat(self.outcome_pay[self._graph.start[:-1]], np.diff(self._graph.start), axis=0)
        return np.asarray((once != self.outcome_pay).any(axis=0))

    def _realised(self) -> tuple[Float, Float]:
        """[1+d] each: the least and the most that an outcome pays."""
        paid = self.pay if self.outcome_pay is None else self.outcome_pay
        return paid.min(axis=0), paid.max(axis=0)

    @property
    def counts(self) -> Int | None:
        """[S, A]: how often each pair occurred in the data that this estimate was made from; None if it was not."""
        return None if self._visits is None else self._spread(self._visits)

    def _spread(self, values: Array) -> Array:
        full = np.zeros((self.num_states, self.num_actions, *values.shape[1:]), dtype=values.dtype)
        full[self.pair_state, self.action] = values
        return full

    def gather(self, table: ArrayLike, what: str) -> Float:
        """[P, ...] from a table [S, A, ...]: its rows at the pairs that exist."""
        full = float_array(table, what)
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
        return self._copy(bonus=frozen(table))

    def replace(
        self,
        *,
        horizon: int | None = None,
        initial: int | ArrayLike | None = None,
        limits: ArrayLike | Mapping[str, float] | None = None,
        reward_range: tuple[float, float] | None = None,
        cost_ranges: Ranges | None = None,
    ) -> ConstrainedMDP:
        """The same model with another horizon, start, default limits or declared ranges of one step's pay."""
        changes: dict[str, object] = {}
        if horizon is not None:
            changes |= {"horizon": read_horizon(horizon, self.num_states), "_derived": {}}
        if initial is not None:
            changes |= {"initial": frozen(self._initial(initial)), "_derived": {}}
        if limits is not None:
            changes["limits"] = frozen(resolve_limits(limits, self.cost_names, "limits"))
        changes["_ranges"] = self._declared(reward_range, cost_ranges)
        return self._copy(**changes)

    def _copy(self, **changes: object) -> ConstrainedMDP:
        other = object.__new__(ConstrainedMDP)
        put = setter(other)
        for name in ConstrainedMDP.__slots__:
            put(name, changes[name] if name in changes else getattr(self, name))
        return other

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, ({name: getattr(self, name) for name in ConstrainedMDP.__slots__ if name != "_derived"},)

    @property
    def task(self) -> Task:
        """What a learner may know of this model: sizes, limits, ranges; never the transitions."""
        low, high = self._realised()
        if self._ranges is not None:
            low, high = np.fmin(low, self._ranges[:, 0]), np.fmax(high, self._ranges[:, 1])
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
            can_stop=self.can_stop,
            available=None if self.available.all() else self.available,
        )


def need_model(mdp: Any, who: str) -> None:
    """Refuse what is no model."""
    if not isinstance(mdp, ConstrainedMDP):
        raise SpecError(f"{who} needs a ConstrainedMDP, not {type(mdp).__name__}")


def _rebuild(values: dict[str, object]) -> ConstrainedMDP:
    other = object.__new__(ConstrainedMDP)
    put = setter(other)
    for name, value in values.items():  # pickle gives back arrays that can be written to
        put(name, frozen(value) if isinstance(value, np.ndarray) else value)
    put("_graph", Graph(*map(frozen, other._graph)))
    put("_derived", {})
    return other

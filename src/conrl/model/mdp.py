"""Constrained Markov decision processes. What a learner may know of one is its `conrl.model.task.Task`.

A model is (p, r, c) of Section 2 of Brantley et al. (2020): finitely many states and actions, an episode of H steps,
rewards r and the consumption c of d resources, called costs here. It is time-homogeneous. In the place of H there may
be a criterion for a process without end (`conrl.model.criteria`). Rewards and costs may be any finite reals; the
paper's [0, 1] matters only to its bounds and to hard budgets, which read the ranges of a `Task`. Reward and costs
together are called *pay*: [.., 1+d], reward first.

Inside, a model is sparse (see `conrl.kernels` for the letters): only the pairs (s, a) that exist and only the
outcomes with positive probability are stored, so that validation and planning cost O(outcomes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from conrl import kernels
from conrl._types import Array, Bool, Float, Int
from conrl.arguments import LARGEST, float_array, frozen, read_flag
from conrl.errors import ModelError, SpecError
from conrl.model.criteria import Criterion, need_steps
from conrl.model.graph import Graph, Reach
from conrl.model.layout import Layout
from conrl.model.limits import resolve_limits
from conrl.model.outcomes import Outcomes, read_outcomes, read_tables
from conrl.model.reading import (
    Names,
    Ranges,
    default_cost_names,
    read_criterion,
    read_features,
    read_initial,
    read_names,
    read_ranges,
    refuse,
)
from conrl.model.task import Task
from conrl.sizes import check_costs

if TYPE_CHECKING:
    import scipy.sparse as sp


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
    """A constrained MDP, immutable and validated once.

    Args:
        transitions: `[S, A, S]` array, or scipy sparse `[S*A, S]` (row s*A + a).
        rewards: `[S, A]`, or by outcome: `[S, A, S]`, or sparse like `transitions`.
        costs: `[S, A, d]`, or by outcome: `[S, A, S, d]`, or a list of d arrays such as `rewards` takes.
            `None` or d = 0 is an ordinary MDP.
        horizon: number of steps of an episode, at least 1; or, for a process without end, `Discounted(0.95)`,
            `Average()` or `Total()` (`conrl.model.criteria` says what each adds up).
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

    num_states: int
    num_actions: int
    num_costs: int
    num_pairs: int
    cost_names: tuple[str, ...]
    horizon: Any  # a number of steps, or a `conrl.model.criteria.Criterion`
    initial: Float  # [S]
    limits: Float | None  # [d]
    graph: Graph  # the sparse structure, for kernels
    pay: Float  # [P, 1+d]: mean reward, then mean costs, of each pair that exists
    outcome_pay: Float | None  # [N, 1+d]: the same by outcome, where given so
    bonus: Float | None  # [P, 1+d]
    action: Int  # [P]: the action of each pair
    can_stop: bool
    features: Array | None
    layout: Layout | None
    origin: Origin | None
    _names: Names
    _ranges: Float | None  # [1+d, 2]: the declared least and most that one step pays; nan where it is not declared
    _visits: Int | None  # [P]: how often each pair occurred in the data that an estimate was made from
    _derived: dict[str, Any]  # what is computed from the rest when first asked for

    __slots__ = tuple(__annotations__)  # those above, and no others

    def __init__(
        self,
        transitions: ArrayLike | sp.sparray | sp.spmatrix,
        rewards: ArrayLike | sp.sparray | sp.spmatrix,
        costs: ArrayLike | Sequence[Any] | None,
        horizon: int | Criterion,
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
        """Validate all of it; `from_outcomes` passes the `Outcomes` that it read as `transitions`."""
        refuse(refused)
        read = transitions if isinstance(transitions, Outcomes) else read_tables(transitions, rewards, costs, available)
        S, A, d = read.num_states, read.num_actions, len(read.columns) - 1
        check_costs(d)
        steps = read_criterion(horizon, S)
        names = Names(
            read_names(state_names, S, "state_names"),
            read_names(action_names, A, "action_names"),
            read_names(cost_names, d, "cost_names") or default_cost_names(d),
        )
        graph = read.graph(names)
        pay, outcome_pay = read.pay(names)
        self._fill(
            num_states=S,
            num_actions=A,
            num_costs=d,
            horizon=steps,
            _names=names,
            action=frozen(read.rows % A),
            graph=graph,
            pay=pay,
            outcome_pay=outcome_pay,
            _ranges=read_ranges(reward_range, cost_ranges, names.costs, pay if outcome_pay is None else outcome_pay),
            initial=frozen(read_initial(initial, S, names.state)),
            limits=None if limits is None else frozen(resolve_limits(limits, names.costs, "limits")),
            features=None if features is None else frozen(read_features(features, S)),
            layout=layout,
            can_stop=read_flag(can_stop, "can_stop"),
            _derived={},
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
        horizon: int | Criterion,
        **rest: Any,
    ) -> ConstrainedMDP:
        """A model from a list of outcomes: `pay` [n, 1+d] holds the reward and the costs of each.

        Outcomes of one pair that lead to the same state and pay the same are added up; those that pay
        differently stay apart, so that simulation pays each with its own probability. Pairs that do not occur
        do not exist. `rest` is as in the constructor.
        """
        if "available" in rest:
            raise TypeError("from_outcomes() takes no 'available': pairs that do not occur do not exist")
        outcomes: Any = read_outcomes((state, action, successor, probability, pay), num_states, num_actions)
        return cls(outcomes, (), None, horizon, **rest)

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
        self._fill(
            num_states=graph.first.size - 1,
            num_actions=num_actions,
            num_costs=pay.shape[1] - 1,
            horizon=horizon,
            action=frozen(action),
            pay=frozen(pay),
            initial=frozen(initial),
            limits=None if limits is None else frozen(limits),
            can_stop=False,
            graph=graph,
            _names=Names(None, None, cost_names),
            _visits=None if visits is None else frozen(visits),
            _derived={},
            bonus=None if bonus is None else frozen(bonus),
            origin=origin,
        )
        return self

    def _fill(self, **values: object) -> None:
        """Set every attribute, for construction only; what is not given is None."""
        for name in ConstrainedMDP.__slots__:
            object.__setattr__(self, name, values.get(name))
        object.__setattr__(self, "num_pairs", self.action.size)
        object.__setattr__(self, "cost_names", self._names.costs)

    # -- reading ------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a ConstrainedMDP is immutable; make another with .replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a ConstrainedMDP is immutable")

    def __repr__(self) -> str:
        return (
            f"ConstrainedMDP(states={self.num_states}, actions={self.num_actions}, costs={self.num_costs}, "
            f"horizon={self.horizon!r}, outcomes={self.graph.probability.size})"
        )

    @property
    def reach(self) -> Reach:
        """The (step, state) pairs that can be reached from the start."""
        steps = need_steps(self.horizon, "backward induction")
        return cast(Reach, self._once("reach", lambda: Reach.of(self.graph, self.initial, steps)))

    @property
    def pair_state(self) -> Int:
        """[P]: the state of each pair that exists."""
        make = lambda: frozen(np.repeat(np.arange(self.num_states), np.diff(self.graph.first)))  # noqa: E731
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
        known = self._derived.get(name)
        return self._derived.setdefault(name, make()) if known is None else known

    @property
    def state_names(self) -> tuple[str, ...]:
        return self._names.states or tuple(map(str, range(self.num_states)))

    @property
    def action_names(self) -> tuple[str, ...]:
        return self._names.actions or tuple(map(str, range(self.num_actions)))

    def state_name(self, s: int) -> str:
        return self._names.state(s)

    def action_name(self, a: int) -> str:
        return self._names.action(a)

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

        g = self.graph
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
        once = np.repeat(self.outcome_pay[self.graph.start[:-1]], np.diff(self.graph.start), axis=0)
        return np.asarray((once != self.outcome_pay).any(axis=0))

    @property
    def _paid(self) -> Float:
        """[.., 1+d]: what is paid, by outcome if that is known, else by pair."""
        return self.pay if self.outcome_pay is None else self.outcome_pay

    def _realised(self) -> tuple[Float, Float]:
        """[1+d] each: the least and the most that an outcome pays."""
        return self._paid.min(axis=0), self._paid.max(axis=0)

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
        horizon: int | Criterion | None = None,
        initial: int | ArrayLike | None = None,
        limits: ArrayLike | Mapping[str, float] | None = None,
        reward_range: tuple[float, float] | None = None,
        cost_ranges: Ranges | None = None,
    ) -> ConstrainedMDP:
        """The same model with another horizon, start, default limits or declared ranges of one step's pay."""
        changes: dict[str, object] = {}
        if horizon is not None:
            changes |= {"horizon": read_criterion(horizon, self.num_states), "_derived": {}}
        if initial is not None:
            changes |= {"initial": frozen(read_initial(initial, self.num_states, self.state_name)), "_derived": {}}
        if limits is not None:
            changes["limits"] = frozen(resolve_limits(limits, self.cost_names, "limits"))
        declared = read_ranges(reward_range, cost_ranges, self.cost_names, self._paid)
        if declared is not None:
            before = declared if self._ranges is None else self._ranges
            changes["_ranges"] = frozen(np.where(np.isnan(declared), before, declared))
        return self._copy(**changes)

    def _copy(self, **changes: object) -> ConstrainedMDP:
        other = object.__new__(ConstrainedMDP)
        other._fill(**(self._values() | changes))
        return other

    def _values(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ConstrainedMDP.__slots__}

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._values() | {"_derived": {}},)

    @property
    def task(self) -> Task:
        """What a learner may know of this model: sizes, limits, ranges; never the transitions."""
        need_steps(self.horizon, "a learner")
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
            available=None if self.num_pairs == self.num_states * self.num_actions else self.available,
        )


def need_model(mdp: Any, who: str) -> None:
    """Refuse what is no model."""
    if not isinstance(mdp, ConstrainedMDP):
        raise SpecError(f"{who} needs a ConstrainedMDP, not {type(mdp).__name__}")


def _rebuild(values: dict[str, Any]) -> ConstrainedMDP:
    """What pickle gives back: arrays that could be written to, until they are frozen."""
    made = object.__new__(ConstrainedMDP)
    own = {name: frozen(value) if isinstance(value, np.ndarray) else value for name, value in values.items()}
    made._fill(**own | {"graph": Graph(*map(frozen, values["graph"]))})
    return made

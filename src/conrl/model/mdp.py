"""Constrained Markov decision processes. What a learner may know of one is its `conrl.model.task.Task`.

A model is (p, r, c) of Section 2 of Brantley et al. (2020): finitely many states and actions, an episode of H steps,
rewards r and the consumption c of d resources, called costs here. Beyond the paper, all of it may depend on the step,
and in the place of H there may be a criterion for a process without end (`conrl.model.criteria`). Rewards and costs
may be any finite reals; the paper's [0, 1] matters only to its bounds and to hard budgets, which read the ranges of a
`Task`. Reward and costs together are called *pay*: [.., 1+d], reward first.

Inside, a model is sparse (see `conrl.kernels` for the letters): only the pairs (s, a) that exist and only the
outcomes with positive probability are stored, so that validation and planning cost O(outcomes). A step-dependent model
has pairs (h, s, a), and its outcomes lead to states of the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from conrl import kernels
from conrl._types import Array, Bool, Float, Int
from conrl.arguments import LARGEST, float_array, frozen, is_int, read_flag, sealed
from conrl.errors import ModelError, SpecError, shown, unknown
from conrl.model.counting import Sums
from conrl.model.criteria import Criterion, need_steps
from conrl.model.from_blocks import Blocks, read_blocks
from conrl.model.graph import Graph, Reach
from conrl.model.layout import Layout
from conrl.model.limits import resolve_limits
from conrl.model.outcomes import Outcomes, check_actions, read_outcomes, read_tables
from conrl.model.reading import (
    Names,
    Ranges,
    default_cost_names,
    read_criterion,
    read_features,
    read_horizon,
    read_initial,
    read_names,
    read_ranges,
    refuse,
)
from conrl.model.task import Task
from conrl.notebook import Display, Displayed
from conrl.sizes import check_costs
from conrl.wording import brief, line, started

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


class Logged(NamedTuple):
    """What an estimate keeps of its log beside the counts, and the pay of each outcome as it was seen."""

    starts: int  # episodes whose first state was seen; 0 where that is known
    end: int  # the state of episodes that have terminated, where it is known that nothing follows; -1 for none
    outcomes: bool = True  # whether the model pays what was seen, and not means only
    ranges: Float | None = None  # [1+d, 2]: that a step can pay, by the task; None: unknown. The model has 0 as well
    differs: str = ""  # how the steps of the log differ, where the estimate takes them for alike


class ConstrainedMDP(Displayed):
    """A constrained MDP, immutable and validated once.

    Args:
        transitions: `[S, A, S]` array, or scipy sparse `[S*A, S]` (row s*A + a); for each step its own: `[H, S, A, S]`,
            or a list of H sparse ones.
        rewards: `[S, A]`, or by outcome: `[S, A, S]`, or sparse like `transitions`; for each step: with a leading H.
            Where `[S, A, S]` and `[H, S, A]` are the same shape, it is by outcome; give `[H, S, A, S]` instead.
        costs: `[S, A, d]`, or by outcome: `[S, A, S, d]`, or a list of d arrays such as `rewards` takes; for each step:
            with a leading H. `None` or d = 0 is an ordinary MDP.
        horizon: number of steps of an episode, at least 1; may be left out where `transitions` say it. For a process
            without end, `Discounted(0.95)`, `Average()` or `Total()` (`conrl.model.criteria` says what each adds up).
        initial: the first state, or a distribution `[S]`.
        limits: default limit of each expected total cost, `[d]` or by cost name; `inf` for none.
        available: `[S, A]` or `[H, S, A]` mask of the actions that exist; rows of missing pairs are ignored. A state
            needs no action at a step at which it cannot be reached.
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
    step_dependent: bool  # whether every step has pairs of its own
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
    _log: Logged | None  # of an estimate from a log, which holds all that was seen
    _derived: dict[str, Any]  # what is computed from the rest when first asked for

    __slots__ = tuple(__annotations__)  # those above, and no others

    def __init__(
        self,
        transitions: ArrayLike | sp.sparray | sp.spmatrix,
        rewards: ArrayLike | sp.sparray | sp.spmatrix,
        costs: ArrayLike | Sequence[Any] | None,
        horizon: int | Criterion | None = None,
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
        if isinstance(transitions, Outcomes):
            read = transitions
        else:
            read = read_tables(transitions, rewards, costs, available, horizon)
        S, A, d = read.num_states, read.num_actions, len(read.columns) - 1
        check_costs(d)
        steps = read_criterion(read.steps if horizon is None and read.step_dependent else horizon, S)
        if read.step_dependent and isinstance(steps, Criterion):
            raise ModelError(f"a model that depends on the step needs a horizon, not {steps!r}", key=("horizon",))
        if read.step_dependent and steps != read.steps:
            raise ModelError(f"horizon is {steps}, but there are transitions, rewards or costs for {read.steps} steps")
        names = Names(
            read_names(state_names, S, "state_names"),
            read_names(action_names, A, "action_names"),
            read_names(cost_names, d, "cost_names") or default_cost_names(d),
        )
        start = frozen(read_initial(initial, S, names.state))
        graph = read.graph(names, start)
        pay, outcome_pay = read.pay(names)
        self._fill(
            num_states=S,
            num_actions=A,
            num_costs=d,
            horizon=steps,
            step_dependent=read.step_dependent,
            _names=names,
            action=sealed(read.rows % A),
            graph=graph,
            pay=pay,
            outcome_pay=outcome_pay,
            _ranges=read_ranges(reward_range, cost_ranges, names.costs, pay if outcome_pay is None else outcome_pay),
            initial=start,
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
        step: ArrayLike | None = None,
        **rest: Any,
    ) -> ConstrainedMDP:
        """A model from a list of outcomes: `pay` [n, 1+d] holds the reward and the costs of each.

        Outcomes of one pair that lead to the same state and pay the same are added up; those that pay
        differently stay apart, so that simulation pays each with its own probability. Pairs that do not occur
        do not exist. `step` [n], where it is given, is the step of each outcome, from 0. `rest` is as in the
        constructor.
        """
        if "available" in rest:
            raise TypeError("from_outcomes() takes no 'available': pairs that do not occur do not exist")
        listed = (state, action, successor, probability, pay)
        steps = 1 if step is None else read_horizon(horizon)
        outcomes: Any = read_outcomes(listed, num_states, num_actions, step, steps)
        return cls(outcomes, (), None, horizon, **rest)

    @classmethod
    def from_blocks(
        cls, blocks: Blocks, *, num_states: int, num_actions: int, horizon: int | Criterion, **rest: Any
    ) -> ConstrainedMDP:
        """A model from blocks of rows: for one so large that its arrays should not be held twice.

        Args:
            blocks: an iterable of blocks, or a function without arguments that gives one. Each block is about the next
                n states, as many as it likes: `(successor, probability, rewards, costs)` with the states that each pair
                can lead to, `[n, A, k]`, and their probabilities, `[n, A, k]`; rewards `[n, A]`; costs `[n, A, d]` or
                None. Where pairs have different numbers of successors, `(start, successor, probability, rewards,
                costs)`: those of pair i = (state within the block) * A + action are `start[i] .. start[i+1]-1`; a pair
                without any does not exist.
            num_states, num_actions: the sizes of the whole model.
            horizon, rest: as in the constructor; `available` is said by `start`.

        A successor that a pair has twice has both probabilities.
        """
        if "available" in rest:
            raise TypeError("from_blocks() takes no 'available': pairs without successors do not exist")
        outcomes: Any = read_blocks(blocks, num_states, num_actions)
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
            step_dependent=False,
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
        for name, slot in SLOTS:
            slot.__set__(self, values.get(name))
        object.__setattr__(self, "num_pairs", self.action.size)
        object.__setattr__(self, "cost_names", self._names.costs)

    # -- reading ------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a ConstrainedMDP is immutable; make another with .replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a ConstrainedMDP is immutable")

    def __repr__(self) -> str:
        sizes = f"states={self.num_states}, actions={self.num_actions}, horizon={self.horizon!r}"
        outcomes = f"outcomes={self.graph.probability.size}"
        return line(self, sizes, outcomes, f"costs={brief(self.cost_names)}")

    def _display(self) -> Display:
        sizes = f"{self.num_states:,} states, {self.num_actions:,} actions"
        steps = f"{self.horizon:,} steps" if isinstance(self.horizon, int) else str(self.horizon)
        title = f"ConstrainedMDP: {sizes}, {steps}, {started(self.start_name)}, "
        title += f"{self.graph.probability.size:,} outcomes"
        limits = np.full(self.num_costs, np.nan) if self.limits is None else self.limits
        low, high = self.pay.min(axis=0, initial=np.inf), self.pay.max(axis=0, initial=-np.inf)
        columns = {"one step": ("reward", *self.cost_names), "least": low, "most": high}
        return Display(title, {**columns, "limit of an episode": np.append(np.nan, limits)})

    @property
    def reach(self) -> Reach:
        """The (step, state) pairs that can be reached from the start."""
        steps = need_steps(self.horizon, "backward induction")
        return cast(Reach, self._once("reach", lambda: Reach.of(self.graph, self.initial, steps)))

    @property
    def reached(self) -> Bool:
        """[H, S]: the states that can be occupied at each step."""
        return cast(Bool, self._once("reached", self._find_reached))

    def _find_reached(self) -> Bool:
        g, steps = self.graph, need_steps(self.horizon, "what is reached at a step")
        if self.step_dependent:
            return frozen(kernels.reachable_by_step(g.first, g.start, g.successor, self.initial, steps))
        state = np.repeat(self.pair_state, np.diff(g.start).astype(np.int64))
        table = np.zeros((steps, self.num_states), dtype=bool)
        table[0] = self.initial > 0.0
        for h in range(1, steps):
            table[h, g.successor[table[h - 1, state]]] = True
        return frozen(table)

    @property
    def repeats(self) -> int:
        """How many steps share each pair: H, or 1 where every step has pairs of its own, or there is no horizon."""
        steps: int = 1 if self.step_dependent or isinstance(self.horizon, Criterion) else self.horizon
        return steps

    @property
    def pair_state(self) -> Int:
        """[P]: the state of each pair that exists."""
        make = lambda: frozen(self._pair_node % self.num_states)  # noqa: E731
        return cast(Int, self._once("pair_state", make))

    @property
    def pair_step(self) -> Int:
        """[P]: the step of each pair; 0 where all steps share them."""
        make = lambda: frozen(self._pair_node // self.num_states)  # noqa: E731
        return cast(Int, self._once("pair_step", make))

    @property
    def _pair_node(self) -> Int:
        """[P]: the state s of each pair, or h * S + s where every step has pairs of its own."""
        return np.repeat(np.arange(self.graph.first.size - 1), np.diff(self.graph.first))

    @property
    def pair_index(self) -> Int:
        """[S, A], or [H, S, A]: the pair of each state and action, -1 where the action does not exist."""

        def make() -> Int:
            index = np.full((self.graph.first.size - 1, self.num_actions), -1, dtype=np.int64)
            index[self._pair_node, self.action] = np.arange(self.num_pairs)
            return frozen(index.reshape(self._table))

        return cast(Int, self._once("pair_index", make))

    def pair(self, step: int, state: int, action: int) -> int:
        """The pair of a step, state and action; -1 where the action does not exist."""
        node = step * self.num_states + state if self.step_dependent else state
        return int(self.pair_rows[node, action])

    @property
    def pair_rows(self) -> Int:
        """The same as the kernels read it: [S, A], or [H * S, A]."""
        return self.pair_index.reshape(-1, self.num_actions)

    @property
    def _table(self) -> tuple[int, ...]:
        """The shape of a table with an entry for each pair: (S, A), or (H, S, A)."""
        sizes = self.num_states, self.num_actions
        return (self.horizon, *sizes) if self.step_dependent else sizes

    @property
    def all_exist(self) -> bool:
        """Whether every state has every action."""
        return self.num_pairs == (self.graph.first.size - 1) * self.num_actions

    @property
    def playable(self) -> Bool:
        """[1, S, A], or [H, S, A]: what a policy may play. Where a state has no action, nobody comes: anything."""
        exists = self.available.reshape(-1, self.num_states, self.num_actions)
        return exists | ~exists.any(axis=2, keepdims=True)

    def step_table(self, rho: Float) -> Float:
        """[H, S, A] from rho [repeats, P]: a number for each step, state and action."""
        full = np.zeros((self.horizon, self.num_states, self.num_actions))
        if self.step_dependent:
            full[self.pair_step, self.pair_state, self.action] = rho[0]
        else:
            full[:, self.pair_state, self.action] = rho
        return full

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
    def start_name(self) -> str | None:
        """The name of the state in which episodes start; None if it is drawn from several."""
        starts = np.flatnonzero(self.initial > 0.0)
        return self.state_name(int(starts[0])) if starts.size == 1 else None

    @property
    def available(self) -> Bool:
        """[S, A], or [H, S, A]: which actions exist in each state."""
        return self._spread(np.ones(self.num_pairs, dtype=bool))

    @property
    def rewards(self) -> Float:
        """[S, A], or [H, S, A]: mean reward of each pair; 0 where the action does not exist."""
        return self._spread(self.pay[:, 0])

    @property
    def costs(self) -> Float:
        """[S, A, d], or [H, S, A, d]: mean costs of each pair; 0 where the action does not exist."""
        return self._spread(self.pay[:, 1:])

    def pay_along(self, w: Float) -> Float:
        """[P]: w.(reward, costs) of each pair, in the best case for w within the bonus: w.pay + |w|.bonus."""
        pay: Float = np.empty(self.num_pairs)
        bonus = np.empty((0, w.size)) if self.bonus is None else self.bonus
        kernels.along(self.pay, bonus, w, pay)
        return pay

    @property
    def transitions(self) -> Any:
        """Sparse [S*A, S], or a list of H of them; the row of an action that does not exist is empty."""
        import scipy.sparse as sp

        g, rows = self.graph, self.num_states * self.num_actions
        counts = np.zeros((self.graph.first.size - 1) * self.num_actions, dtype=np.int64)
        counts[self._pair_node * self.num_actions + self.action] = np.diff(g.start)
        indptr = np.concatenate(([0], np.cumsum(counts)))
        matrix = sp.csr_array((g.probability.copy(), g.successor.copy(), indptr), shape=(counts.size, self.num_states))
        matrix.sum_duplicates()
        if not self.step_dependent:
            return matrix
        return [sp.csr_array(matrix[h * rows : (h + 1) * rows]) for h in range(self.horizon)]

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
    def pay_by_outcome(self) -> Float:
        """[N, 1+d]: what each outcome pays; the mean of its pair where that is all that is known."""
        return self._by_outcome(slice(None))

    def _by_outcome(self, columns: slice | Sequence[int]) -> Float:
        """[N, m]: the same of some totals alone; those of the others are not written out."""
        if self.outcome_pay is not None:
            return self.outcome_pay[:, columns]
        return np.repeat(self.pay[:, columns], np.diff(self.graph.start), axis=0)

    @property
    def pays(self) -> Bool:
        """[P]: which pairs pay or cost something, in some outcome; means of 0 may be those of 1 and -1."""
        some = (self.pay_by_outcome != 0.0).any(axis=1)
        return np.asarray(np.logical_or.reduceat(some, self.graph.start[:-1].astype(np.int64)))

    @property
    def _paid(self) -> Float:
        """[.., 1+d]: what is paid, by outcome if that is known, else by pair."""
        return self.pay if self.outcome_pay is None else self.outcome_pay

    @property
    def _only_start(self) -> int | None:
        """The state that every episode begins in; None if there are several."""
        known = np.flatnonzero(self.initial == 1.0)
        return int(known[0]) if known.size else None

    def _realised(self) -> tuple[Float, Float]:
        """[1+d] each: the least and the most that an outcome pays."""
        return self._paid.min(axis=0), self._paid.max(axis=0)

    def _possible(self) -> tuple[Float, Float]:
        """[1+d] each: the least and the most that a step may pay: what an outcome pays, and what was declared."""
        low, high = self._realised()
        if self._ranges is not None:
            low, high = np.fmin(low, self._ranges[:, 0]), np.fmax(high, self._ranges[:, 1])
        return low, high

    def _sums(self, cost: int) -> Sums:
        """What the total of a cost in an episode is a sum of."""
        low, high = self._possible()
        return Sums.of(need_steps(self.horizon, "a limit on single episodes"), low[1 + cost], high[1 + cost])

    @property
    def counts(self) -> Int | None:
        """Like `available`: how often each pair occurred in the data that this estimate was made from; else None."""
        return None if self._visits is None else self._spread(self._visits)

    def _spread(self, values: Array) -> Array:
        full = np.zeros((self.graph.first.size - 1, self.num_actions, *values.shape[1:]), dtype=values.dtype)
        full[self._pair_node, self.action] = values
        return full.reshape(*self._table, *values.shape[1:])

    def cost_index(self, cost: Any) -> int:
        """The number of a cost that is given by name or number."""
        if isinstance(cost, str):
            if cost not in self.cost_names:
                raise SpecError(unknown("cost", cost, self.cost_names), key=("cost",))
            return self.cost_names.index(cost)
        if not is_int(cost):
            raise SpecError(f"cost is {shown(cost)}; it must be the name or the number of a cost", key=("cost",))
        if not 0 <= cost < self.num_costs:
            none = "the model has no costs"
            raise SpecError(f"cost {shown(cost)} is not in 0..{self.num_costs - 1}" if self.num_costs else none)
        return int(cost)

    def gather(self, table: ArrayLike, what: str) -> Float:
        """[P, ...] from a table [S, A, ...], or [H, S, A, ...]: its rows at the pairs that exist."""
        full = float_array(table, what)
        if self.step_dependent and full.shape[:3] == self._table:
            return np.asarray(full[self.pair_step, self.pair_state, self.action])
        if full.shape[:2] != (self.num_states, self.num_actions):
            sizes = ", ".join(map(str, self._table))
            raise ModelError(f"{what} has shape {full.shape}; expected ({sizes}, ...)")
        return np.asarray(full[self.pair_state, self.action])

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
        log = self._log
        if horizon is not None:
            if self.step_dependent and horizon != self.horizon:
                raise ModelError(f"the model has {self.horizon} steps, each its own; it cannot have another horizon")
            changes |= {"horizon": read_criterion(horizon, self.num_states), "_derived": {}}
        if initial is not None:
            start = frozen(read_initial(initial, self.num_states, self.state_name))
            check_actions(self.graph, start, self.horizon if self.step_dependent else 0, self._names)
            changes |= {"initial": start, "_derived": {}}
            log = log and log._replace(starts=0)
        if limits is not None:
            changes["limits"] = frozen(resolve_limits(limits, self.cost_names, "limits"))
        declared = read_ranges(reward_range, cost_ranges, self.cost_names, self._paid)
        if declared is not None:
            before = declared if self._ranges is None else self._ranges
            changes["_ranges"] = frozen(np.where(np.isnan(declared), before, declared))
            if log is not None and log.ranges is not None:
                log = log._replace(ranges=frozen(np.where(np.isnan(declared), log.ranges, declared)))
        return self._copy(**changes, _log=log)

    def _copy(self, **changes: object) -> ConstrainedMDP:
        other = object.__new__(ConstrainedMDP)
        other._fill(**(self._values() | changes))
        return other

    def _values(self) -> dict[str, object]:
        return {name: slot.__get__(self) for name, slot in SLOTS}

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._values() | {"_derived": {}},)

    @property
    def task(self) -> Task:
        """What a learner may know of this model: sizes, limits, ranges; never the transitions."""
        need_steps(self.horizon, "a learner")
        low, high = self._possible()
        return Task(
            num_states=self.num_states,
            num_actions=self.num_actions,
            horizon=self.horizon,
            limits=self.limits if self.limits is not None else np.full(self.num_costs, np.inf),
            cost_names=self.cost_names,
            initial=self._only_start,
            reward_range=(float(low[0]), float(high[0])),
            cost_ranges=tuple((float(x), float(y)) for x, y in zip(low[1:], high[1:], strict=True)),
            features=self.features,
            can_stop=self.can_stop,
            available=None if self.all_exist else self.available,
            step_dependent=self.step_dependent,
            state_names=self._names.states,
            action_names=self._names.actions,
        )


# A learner makes a model each episode: what sets an attribute of it, found once.
SLOTS: tuple[tuple[str, Any], ...] = tuple((name, vars(ConstrainedMDP)[name]) for name in ConstrainedMDP.__slots__)


def need_model(mdp: Any, who: str) -> None:
    """Refuse what is no model."""
    if not isinstance(mdp, ConstrainedMDP):
        raise SpecError(f"{who} needs a ConstrainedMDP, not {type(mdp).__name__}")


def need_stationary(mdp: Any, who: str) -> None:
    """Refuse what is no model, or one that depends on the step."""
    need_model(mdp, who)
    if mdp.step_dependent:
        raise SpecError(f"{who} needs a model that is the same at every step; this one depends on the step")


def _rebuild(values: dict[str, Any]) -> ConstrainedMDP:
    """What pickle gives back: arrays that could be written to, until they are frozen."""
    made = object.__new__(ConstrainedMDP)
    own = {name: frozen(value) if isinstance(value, np.ndarray) else value for name, value in values.items()}
    made._fill(**own | {"graph": Graph(*map(frozen, values["graph"]))})
    return made

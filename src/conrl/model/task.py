"""What a learner may know of a problem: sizes, horizon, limits and ranges; never the transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Array, Bool, Float
from conrl.arguments import float_array, frozen, is_int, is_list, read_flag, setter
from conrl.errors import ModelError, shown, unknown
from conrl.model.cells import Cells
from conrl.model.counting import Sums
from conrl.model.criteria import need_steps
from conrl.model.limits import resolve_limits
from conrl.model.reading import (
    check_sizes,
    default_cost_names,
    read_available,
    read_features,
    read_horizon,
    read_names,
    read_range,
)
from conrl.sizes import check_costs
from conrl.wording import brief, line

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, eq=False)
class Task:
    """What a learner may know: sizes, horizon, limits and the ranges of what it will see.

    `reward_range` and `cost_ranges` bound the *realised* reward and costs of one step: a hard budget rests on
    them. `initial` is the first state if it is known and fixed. `features` ([S, ...]) is what function
    approximation sees. `can_stop`: an episode may be ended early. `available` ([S, A]) masks actions; [H, S, A] where
    that depends on the step. `step_dependent`: what happens may depend on the step, so that learners count per step.
    `cells`: what the states are, where they are cells of continuous observations; saved with a learner. `state_names`
    and `action_names` line logs up with the task; without them its states and actions are numbers.
    """

    num_states: int
    num_actions: int
    horizon: int
    limits: ArrayLike
    cost_names: Sequence[str]
    initial: int | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    cost_ranges: Sequence[tuple[float, float]] | None = None
    features: Array | None = None
    can_stop: bool = False
    available: Bool | None = None
    step_dependent: bool = False
    cells: Cells | None = None
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Check every field, and keep a copy that nobody can change."""
        put = setter(self)
        check_sizes(self.num_states, self.num_actions)
        put("num_states", int(self.num_states))
        put("num_actions", int(self.num_actions))
        need_steps(self.horizon, "a learner")
        put("horizon", read_horizon(self.horizon, self.num_states))
        count = len(self.cost_names) if is_list(self.cost_names) else 0
        check_costs(count)
        put("cost_names", read_names(self.cost_names, count, "cost_names") or ())
        put("limits", frozen(resolve_limits(self.limits, self.cost_names, "limits")))
        if self.initial is not None and not (is_int(self.initial) and 0 <= self.initial < self.num_states):
            raise ModelError(
                f"initial is {shown(self.initial)}; "
                f"it must be a state index in 0..{self.num_states - 1}, or None if unknown"
            )
        put("reward_range", read_range(self.reward_range, "reward_range", ("reward_range",)))
        ranges = self.cost_ranges if self.cost_ranges is not None else ((0.0, 1.0),) * self.num_costs
        if not is_list(ranges):
            raise ModelError(f"cost_ranges is {shown(ranges)}; expected (low, high) for each cost")
        if len(ranges) != self.num_costs:
            raise ModelError(f"cost_ranges has {len(ranges)} entries for {self.num_costs} costs")
        put("cost_ranges", tuple(read_range(r, f"cost_ranges[{i}]", ("cost_ranges",)) for i, r in enumerate(ranges)))
        put("can_stop", read_flag(self.can_stop, "can_stop"))
        put("step_dependent", read_flag(self.step_dependent, "step_dependent"))
        if self.cells is not None and not (isinstance(self.cells, Cells) and self.cells.count == self.num_states):
            raise ModelError(f"cells is {shown(self.cells)}; expected Cells of {self.num_states} states")
        put("state_names", read_names(self.state_names, self.num_states, "state_names"))
        put("action_names", read_names(self.action_names, self.num_actions, "action_names"))
        if self.features is not None:
            put("features", frozen(read_features(self.features, self.num_states)))
        if self.available is not None:
            steps = self.horizon if self.step_dependent else 0
            mask = read_available(self.available, self.num_states, self.num_actions, steps)
            if mask.ndim == 2 and not mask.any(axis=1).all():
                state = int(np.argmin(mask.any(axis=1)))
                raise ModelError(f"available leaves state {state} without an action; every state needs one")
            put("available", frozen(mask))

    def __repr__(self) -> str:
        limits = dict(zip(self.cost_names, np.asarray(self.limits).tolist(), strict=True))
        sizes = f"states={self.num_states}, actions={self.num_actions}, horizon={self.horizon}"
        by_step = "step_dependent=True" if self.step_dependent else ""
        return line(self, sizes, f"limits={brief(limits)}", f"initial={brief(self.initial)}", by_step)

    @cached_property
    def mask(self) -> Bool:
        """[1, S, A], or [H, S, A]: which actions exist; all of them where a state has none, as nobody comes there."""
        sizes = self.num_states, self.num_actions
        exists = np.ones((1, *sizes), dtype=bool) if self.available is None else self.available.reshape(-1, *sizes)
        return frozen(exists | ~exists.any(axis=2, keepdims=True))

    @cached_property
    def unrolled(self) -> Task:
        """The task whose state h * S + s is state s at step h, so that nothing depends on the step any more."""
        if not self.step_dependent:
            return self
        steps = (self.horizon, self.num_states, self.num_actions)
        available = None if self.available is None else np.broadcast_to(self.mask, steps).reshape(-1, self.num_actions)
        return replace(
            self,
            num_states=self.horizon * self.num_states,
            available=available,
            features=None,
            step_dependent=False,
            cells=None,
            state_names=None,
        )

    @cached_property
    def num_costs(self) -> int:
        return len(self.cost_names)

    @cached_property
    def ranges(self) -> Float:
        """[1+d, 2]: the least and the most that one step pays, of the reward and of each cost."""
        return frozen(np.array((self.reward_range, *(self.cost_ranges or ())), dtype=np.float64))

    @cached_property
    def spread(self) -> Float:
        """[1+d]: how far apart the reward, and each cost, of two steps can be; the 0 of an unvisited pair counts."""
        low, high = self.ranges.T
        return frozen(np.maximum(high, 0.0) - np.minimum(low, 0.0))

    def _sums(self, cost: int) -> Sums:
        """What the total of a cost in an episode is a sum of."""
        return Sums.of(self.horizon, *self.ranges[1 + cost])

    @classmethod
    def from_gymnasium(
        cls,
        env: gymnasium.Env[Any, Any],
        *,
        horizon: int | None = None,
        limits: ArrayLike | Mapping[str, float] | None = None,
        cost_names: Sequence[str] | None = None,
        reward_range: tuple[float, float] | None = None,
        cost_ranges: Sequence[tuple[float, float]] | Mapping[str, tuple[float, float]] | None = None,
        can_stop: bool = False,
        initial: int | None = None,
        step_dependent: bool = False,
    ) -> Task:
        """The task of a Gymnasium environment with discrete spaces whose model is unknown.

        The horizon comes from the environment's time limit where it has one; limits, cost names, ranges (else 0 to 1),
        cells and names from the environment or its wrappers if they declare them (`conrl.model.environment`). Without
        limits of its own, an environment with cost names has none on any of them. `cost_ranges` is for each cost, or by
        cost name. With `step_dependent` learners count each step separately: for environments in which what happens
        depends on the step and the observation does not tell it. `initial` is the first state, if it is always the
        same one.
        """
        from conrl.model.environment import declared  # here: it knows models, and those have tasks

        own = declared(env)
        states, actions = own.need_sizes()
        steps = own.horizon if horizon is None else horizon
        if steps is None:
            raise ModelError("the environment states no time limit; pass horizon=")
        names = own.cost_names if cost_names is None else cost_names
        if limits is None:
            limits = np.full(len(names or ()), np.inf) if own.cost_limits is None else own.cost_limits
        if isinstance(limits, Mapping):
            names = tuple(limits) if names is None else names
            limits = resolve_limits(limits, names, "limits")
        values = np.atleast_1d(float_array(limits, "limits"))
        known = np.zeros(0) if own.pay_ranges is None else np.asarray(own.pay_ranges)
        if known.shape != (1 + values.size, 2):
            known = np.full((1 + values.size, 2), np.inf)
        pay = [(low, high) if np.isfinite((low, high)).all() else (0.0, 1.0) for low, high in known.tolist()]
        names = default_cost_names(values.size) if names is None else tuple(names)
        if isinstance(cost_ranges, Mapping):
            for name in cost_ranges:
                if name not in names:
                    raise ModelError(unknown("cost", str(name), names), key=("cost_ranges", str(name)))
            cost_ranges = [cost_ranges.get(name, own) for name, own in zip(names, pay[1:], strict=True)]
        return cls(
            states,
            actions,
            steps,
            values,
            names,
            reward_range=pay[0] if reward_range is None else reward_range,
            cost_ranges=pay[1:] if cost_ranges is None else cost_ranges,
            initial=initial,
            can_stop=can_stop,
            step_dependent=step_dependent,
            cells=own.cells,
            state_names=own.names[0],
            action_names=own.names[1],
        )

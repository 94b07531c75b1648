"""Limits as people write them: `Linear`, by name or by position, in total, on single steps and on single episodes.

What becomes of them in a model are rows of linear constraints (`conrl.model.rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import any_array, float_array, held, setter
from conrl.errors import ModelError, SpecError, shown, unknown
from conrl.model.criteria import need_steps
from conrl.model.rows import Rows, lowered, rows_of
from conrl.model.tails import CHANCE, CVAR, KINDS, NEVER, Tail, as_given, read_grids, read_tails
from conrl.wording import OnlyGiven

if TYPE_CHECKING:
    from conrl.model import ConstrainedMDP, Task

Limits = ArrayLike | Mapping[str, float]  # [d], or by cost name; None or an infinity for none
Model = TypeVar("Model", bound="ConstrainedMDP | Task")


@dataclass(frozen=True, repr=False)
class Linear(OnlyGiven):
    """Maximise the expected reward with every expected total cost at most its limit and at least its floor.

    Both are [d], or by cost name; `None` or an infinity means none. Without arguments: no limit at all. This is the
    whole problem: costs that it does not name have no limit, also where the model has one.
    `per_step`, by cost name, limits the expected cost of each single step: `{"crews": 40}`, or a list with one number
    for each step.

    Limits on single episodes, by cost name, of the total C of an episode: `never={"repairs": 3}`, no episode has more
    than 3; `chance={"repairs": (5, 0.05)}`, more than 5 with probability at most 0.05; `cvar={"repairs": (0.9, 4)}`,
    the mean of the worst 10% is at most 4. A list of pairs is several limits on one cost. The policy then acts on what
    was spent. `grid`, one number or by cost name, is what costs that have no common unit are rounded to
    (`conrl.model.counting`); by default one is chosen where it is needed.
    """

    limits: Limits | None = None
    floors: Limits | None = None
    per_step: Mapping[str, Any] | None = None
    never: Mapping[str, float] | Sequence[float | None] | None = None
    chance: Mapping[str, Any] | Sequence[Any] | None = None
    cvar: Mapping[str, Any] | Sequence[Any] | None = None
    grid: Mapping[str, float] | float | None = None
    _bound: dict[tuple[str, ...], Rows] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        keep = setter(self)
        for name in ("limits", "floors", "per_step", *KINDS, "grid"):
            if (given := getattr(self, name)) is not None:
                keep(name, held(given))

    @property
    def on_episodes(self) -> bool:
        """Whether there are limits on single episodes."""
        return not (self.never is None and self.chance is None and self.cvar is None)

    def tails(self, model: ConstrainedMDP | Task) -> tuple[Tail, ...]:
        """The limits on single episodes."""
        given = {NEVER: self.never, CHANCE: self.chance, CVAR: self.cvar}
        return read_tails(given, tuple(model.cost_names), model._sums)

    def grids(self, model: ConstrainedMDP | Task) -> dict[int, Fraction]:
        """The grid of each cost that has one."""
        return read_grids(self.grid, tuple(model.cost_names))

    def tightened(self, model: ConstrainedMDP | Task, margin: float) -> Linear:
        """Every bound moved to the safe side by such a share of its size: of limits and floors, of single steps, and of
        single episodes what m, p or b is to `never`, `chance` and `cvar`. A bound of 0 stays."""
        names = tuple(model.cost_names)
        limits, floors = resolve_limits(self.limits, names, "limits"), resolve_limits(self.floors, names, "floors")
        per_step: dict[str, Float] | None = None
        if self.per_step is not None:
            H = need_steps(model.horizon, "a limit on single steps")
            per_step = {name: np.full(H, np.inf) for name in self.per_step}
            for one in read_step_limits(self.per_step, names, H):
                per_step[names[one.cost]][one.step] = lowered(one.bound, margin)
        tails = []
        for tail in self.tails(model):
            bound = float(lowered(tail.bound, margin))
            tails.append(tail._replace(share=bound) if tail.kind == CHANCE else tail._replace(limit=bound))
        return Linear(
            lowered(limits, margin),
            None if self.floors is None else -lowered(-floors, margin),
            per_step,
            **as_given(tails, names),
            grid=self.grid,
        )

    def rows(self, model: ConstrainedMDP | Task) -> Rows:
        """The finite limits, then the finite floors, of a model's costs."""
        limits = resolve_limits(self.limits, model.cost_names, "limits")
        floors = None if self.floors is None else resolve_limits(self.floors, model.cost_names, "floors")
        return rows_of(limits, floors, model.cost_names)

    def bind(self, model: Model) -> tuple[Model, Rows]:
        """What is planned: the model, and the rows that a plan must keep; read once for models of the same costs.

        A limit on single steps is one on a cost that is paid at one step only: the model then has more costs. With
        limits on single episodes it is another model that is planned (`conrl.planners.single_episodes`).
        """
        if self.on_episodes:
            raise SpecError(
                "limits on single episodes (never, chance, cvar) are planned by conrl.plan and learned by ConRL; "
                "use one of them",
                key=("problem",),
            )
        if self.grid is not None:
            raise SpecError("grid goes with never, chance or cvar; leave it out", key=("grid",))
        names = tuple(model.cost_names)
        if self.per_step is not None:
            from conrl.model.transform import with_step_costs  # here: models have limits, and that makes models

            each = read_step_limits(self.per_step, names, need_steps(model.horizon, "a limit on single steps"))
            wider: Any = with_step_costs(model, [(limit.cost, limit.step) for limit in each])
            bounds = np.concatenate((resolve_limits(self.limits, names, "limits"), [limit.bound for limit in each]))
            floors = np.append(resolve_limits(self.floors, names, "floors"), np.full(len(each), -np.inf))
            return wider, rows_of(bounds, floors, wider.cost_names)
        if names not in self._bound:
            self._bound[names] = self.rows(model)
        return model, self._bound[names]


class StepLimit(NamedTuple):
    """A limit on the expected cost of one step."""

    cost: int
    step: int
    bound: float


def read_step_limits(given: Any, cost_names: Sequence[str], horizon: int) -> list[StepLimit]:
    """The finite ones, by cost and step, of numbers or lists of numbers by cost name."""
    if not isinstance(given, Mapping):
        raise ModelError(
            f"per_step is {shown(given)}; expected limits by cost name, {{'crews': 40}}", key=("per_step",)
        )
    found = []
    for name, limit in given.items():
        if name not in cost_names:
            raise ModelError(unknown("cost", str(name), cost_names), key=("per_step", str(name)))
        many = isinstance(limit, (list, tuple, np.ndarray))
        numbers = [np.inf if x is None else x for x in (limit if many else (limit,))]
        if any(isinstance(x, (str, bytes, Mapping)) for x in numbers):
            raise ModelError(f"per_step[{name!r}] is {shown(limit)}; expected numbers", key=("per_step", str(name)))
        values = _limit_array(numbers if many else numbers[0], f"per_step[{name!r}]")
        if values.shape not in ((), (horizon,)):
            raise ModelError(
                f"per_step[{name!r}] has shape {values.shape}; expected one number, or one for each of {horizon} steps",
                key=("per_step", str(name)),
            )
        bad = np.isnan(values) | (values == -np.inf)
        if bad.any():
            raise ModelError(
                f"per_step[{name!r}] holds {values[bad][0]}; a limit is a number, or inf for none",
                key=("per_step", str(name)),
            )
        index = list(cost_names).index(name)
        every = np.broadcast_to(values, (horizon,)).tolist()
        found += [StepLimit(index, h, bound) for h, bound in enumerate(every) if bound < np.inf]
    return found


def resolve_limits(limits: Limits | Linear | None, cost_names: Sequence[str], what: str) -> Float:
    """[d] from a list or a mapping by cost name, in an array of its own. Absent: +inf for limits, -inf for floors.

    `what` is "limits", "floors" or "budgets". Limits may also be those of a `Linear` that has no floors.
    """
    none = -np.inf if what == "floors" else np.inf
    d = len(cost_names)
    if isinstance(limits, Linear):
        if limits.floors is not None:
            raise ModelError(f"{what} holds floors, and there can be none here; leave them out, or plan with a Linear")
        if limits.on_episodes:
            raise ModelError(f"{what} holds limits on single episodes, and there can be none here; leave them out")
        if limits.per_step is not None:
            raise ModelError(f"{what} holds limits per step, and there can be none here; leave them out")
        limits = limits.limits
    if limits is None:
        return np.full(d, none)
    if isinstance(limits, Mapping):
        values = np.full(d, none)
        index = {name: i for i, name in enumerate(cost_names)}
        for name, limit in limits.items():
            if name not in index:
                raise ModelError(unknown("cost", str(name), cost_names), key=(what, str(name)))
            number = _limit_array(none if limit is None else limit, f"{what}[{name!r}]")
            if number.ndim:
                raise ModelError(f"{what}[{name!r}] is {shown(limit)}; expected one number", key=(what, str(name)))
            values[index[name]] = number
    else:
        given = [none if x is None else x for x in limits] if isinstance(limits, (list, tuple)) else limits
        values = _limit_array(given, what).copy()
        if values.ndim == 0 and d == 1:
            values = values[None]  # one cost, one number
    if values.shape != (d,):
        raise ModelError(
            f"{what} has shape {values.shape}; the model has {d} cost{'s' * (d != 1)}, so it must have shape ({d},)",
            key=(what,),
        )
    bad = np.flatnonzero(np.isnan(values) | (values == -none))
    if bad.size:
        name = cost_names[bad[0]]
        message = f"{what[:-1]} of cost {name!r} is {values[bad[0]]}; it must be a number, or {none} for none"
        raise ModelError(message, key=(what, name))
    return values


def _limit_array(values: Any, what: str) -> Float:
    """Numbers; a truth value is a slip, as `Linear(True)` would otherwise be a limit of 1."""
    for value in values if isinstance(values, (list, tuple)) else (values,):
        if any_array(value, what).dtype == np.bool_:
            raise ModelError(f"{what} holds {shown(value)}, a truth value; give a number, or None for none")
    return float_array(values, what)

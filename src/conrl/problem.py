"""What is asked of a model: the three settings of Brantley et al. (2020), and the ways to say it.

`problem.bind(model)` gives the model to plan on and the rows that a plan must keep; it is called once for each plan,
and whatever is below it knows rows only (`conrl.model.rows`). `Linear` stands with the limits of models
(`conrl.model.limits`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conrl._types import Float
from conrl.arguments import held, is_number, read_count, read_delta, setter
from conrl.bounds import knapsack_epsilon
from conrl.errors import SpecError, shown
from conrl.model import ConstrainedMDP, Task
from conrl.model.criteria import Criterion
from conrl.model.limits import Limits, Linear, Model, resolve_limits
from conrl.model.rows import Rows, lowered, rows_of
from conrl.wording import OnlyGiven, worded

__all__ = ["ConcaveConvex", "Knapsack", "Linear", "Problem", "Rows", "as_problem", "read_margin", "tightened"]

MOST_EPISODES = 2**53  # a budget is divided by them, and larger whole numbers are not all doubles


@dataclass(frozen=True, repr=False)
class ConcaveConvex(OnlyGiven):
    """Maximise a concave function of the expected reward with convex functions of the expected costs at most 0.

    Eq. 12 of Brantley et al. (2020). `objective` and `constraint` (one, or a list) are functions from
    a CVXPY expression to a CVXPY expression: the objective of the expected total reward, the constraints of the vector
    of expected total costs. An objective that takes two arguments is given the costs as well. `conrl.convex` has
    ready-made ones.

    >>> import cvxpy as cp
    >>> problem = ConcaveConvex(objective=lambda x: cp.log(0.1 + x), constraint=lambda c: cp.norm(c) - 0.5)
    """

    objective: Callable[..., Any]
    constraint: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None

    def __post_init__(self) -> None:
        setter(self)("constraint", held(self.constraint))
        numbered = ((f"constraint {j + 1}", g) for j, g in enumerate(self.constraints))
        for what, function in (("objective", self.objective), *numbered):
            if not callable(function):
                raise SpecError(f"{what} is {shown(function)}; it must be a function of a CVXPY expression")

    @property
    def constraints(self) -> tuple[Callable[..., Any], ...]:
        if self.constraint is None:
            return ()
        if callable(self.constraint):
            return (self.constraint,)
        if not isinstance(self.constraint, (list, tuple)):
            raise SpecError(f"constraint is {shown(self.constraint)}; it must be a function or a list of functions")
        return tuple(self.constraint)

    def bind(self, model: Model) -> tuple[Model, Rows]:
        """The model as it is; functions are no rows."""
        return model, rows_of(np.zeros(0), None, model.cost_names)


@dataclass(frozen=True, repr=False)
class Knapsack(OnlyGiven):
    """Maximise the expected reward of an episode with total budgets for all episodes together.

    KnapsackConPlanner, Eq. 13 of Brantley et al. (2020): every expected cost of one episode is
    at most (1 - epsilon) budget / episodes, and an episode may be skipped by the null action, which earns and costs
    nothing. `epsilon` is the share held back against chance: a number in [0, 1), or "theorem" for the value of
    Theorem 5.1 at failure probability `delta` (which needs a very large budget, and says so if it is too small).

    `budgets` are [d], or by cost name; an infinity means none. The budgets are all that is asked: limits of the model
    or task do not count beside them.
    """

    budgets: Limits
    episodes: int
    epsilon: float | str = 0.0
    delta: float = 0.05

    def __post_init__(self) -> None:
        setter(self)("budgets", held(self.budgets))

    def bind(self, model: Model) -> tuple[Model, Rows]:
        """The model as it is, and the limits of one episode; that it may be skipped is the planner's to know."""
        return model, rows_of(self._per_episode(model), None, model.cost_names)

    def linear(self, model: ConstrainedMDP | Task) -> Linear:
        """The limits of one episode."""
        return Linear(self._per_episode(model))

    def tightened(self, model: ConstrainedMDP | Task, margin: float) -> Knapsack:
        """The budgets less such a share of them."""
        return replace(self, budgets=lowered(self.totals(model), margin))

    def totals(self, model: ConstrainedMDP | Task) -> Float:
        """[d]: the budgets; inf for none."""
        read_count(self.episodes, "episodes", most=MOST_EPISODES)
        if isinstance(model.horizon, Criterion):
            raise SpecError(
                f"a Knapsack problem needs a horizon, so many steps an episode, and the model has {model.horizon!r}; "
                f"give it one with {worded('mdp.replace(horizon=H)', '--horizon H')}, or ask for limits"
            )
        budgets = resolve_limits(self.budgets, model.cost_names, "budgets")
        for name, budget in zip(model.cost_names, budgets, strict=True):
            if budget < 0.0:
                raise SpecError(f"the budget of {name!r} is {budget:g}; it must be at least 0", key=("budgets", name))
        return budgets

    def held_back(self, model: ConstrainedMDP | Task) -> float:
        """epsilon as a number; that of the theorem depends on the sizes and ranges of the model or task."""
        return self._held_back(model, self.totals(model))

    def _per_episode(self, model: ConstrainedMDP | Task) -> Float:
        budgets = self.totals(model)
        return (1.0 - self._held_back(model, budgets)) * budgets / self.episodes

    def _held_back(self, model: ConstrainedMDP | Task, budgets: Float) -> float:
        """epsilon; the theorem's only where a budget is large enough, and rewards and costs lie in [0, 1]."""
        if is_number(self.epsilon) and 0.0 <= float(self.epsilon) < 1.0:
            return float(self.epsilon)
        if not isinstance(self.epsilon, str) or self.epsilon != "theorem":
            raise SpecError(
                f'epsilon is {shown(self.epsilon)}; it must be a number in [0, 1) or "theorem"', key=("epsilon",)
            )
        regime = knapsack_epsilon(
            budgets,
            self.episodes,
            num_states=model.num_states,
            num_actions=model.num_actions,
            horizon=model.horizon,
            num_costs=model.num_costs,
            delta=read_delta(self.delta),
        )
        if not regime.applies:
            raise SpecError(f"epsilon='theorem': {regime.message}; give epsilon a number instead", key=("epsilon",))
        task = model if isinstance(model, Task) else model.task
        for low, high in task.ranges:
            if low < 0.0 or high > 1.0:
                raise SpecError(
                    f"epsilon='theorem': the theorem needs rewards and costs of one step in [0, 1], "
                    f"and here they reach from {low:g} to {high:g}; give epsilon a number instead",
                    key=("epsilon",),
                )
        return regime.epsilon


Problem = Linear | ConcaveConvex | Knapsack


def tightened(problem: Linear | Knapsack, model: ConstrainedMDP | Task, margin: Any) -> Linear | Knapsack:
    """The problem with every bound moved to the safe side by a share in [0, 1) of its size; a bound of 0 stays."""
    share = read_margin(margin)
    return problem.tightened(model, share) if share else problem


def read_margin(margin: Any) -> float:
    """How far to stay within a limit, as a share of its size."""
    if not is_number(margin) or not 0.0 <= margin < 1.0:
        raise SpecError(f"margin is {shown(margin)}; it must be a share in [0, 1), such as 0.05", key=("margin",))
    return float(margin)


def as_problem(given: Any, default: Limits | None = None, limits: Any = None) -> Problem:
    """What is asked, however it was said: a problem, or limits as a mapping by cost name or a list by position.

    It may be given as the problem or as `limits`, not as both; if it is neither, limits of `default`.
    """
    if given is not None and limits is not None:
        raise SpecError("problem and limits were both given; they say the same thing, so give one of them")
    what, asked = ("problem", given) if limits is None else ("limits", limits)
    if asked is None:
        return Linear(default)
    if isinstance(asked, Problem):
        return asked
    if isinstance(asked, (Mapping, list, tuple, np.ndarray)):
        return Linear(asked)
    raise SpecError(
        f"{what} is {shown(asked)}; it must be limits, as {{'crash': 0.3}} or [0.3], or a problem such as Linear([0.3])"
    )

"""What is asked of a model: the three settings of Brantley et al. (2020).

Linear limits are rows  sign_r * z[1 + cost_r] <= bound_r  on the value vector z = (reward, costs): a limit has
sign +1, a floor has sign -1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float, Int
from conrl.arguments import held, is_number, read_count, setter
from conrl.bounds import knapsack_epsilon
from conrl.errors import SpecError, shown
from conrl.model import ConstrainedMDP, Task
from conrl.model.limits import resolve_limits

MOST_EPISODES = 2**53  # a budget is divided by them, and larger whole numbers are not all doubles


class Rows(NamedTuple):
    """Linear constraints on a value vector."""

    cost: Int  # [R]: which cost
    sign: Float  # [R]: +1 a limit, -1 a floor
    bound: Float  # [R]

    @property
    def size(self) -> int:
        return self.cost.size

    def matrix(self, num_costs: int) -> Float:
        """[R, 1+d]: row r times z must be at most bound_r."""
        G = np.zeros((self.size, 1 + num_costs))
        G[np.arange(self.size), 1 + self.cost] = self.sign
        return G

    def select(self, keep: Any) -> Rows:
        return Rows(self.cost[keep], self.sign[keep], self.bound[keep])

    def names(self, cost_names: tuple[str, ...]) -> tuple[str, ...]:
        """What to call each row: the cost's name, with `>=` or `<=` and the bound."""
        return tuple(
            f"{cost_names[i]} {'<=' if s > 0 else '>='} {s * b:.10g}"
            for i, s, b in zip(self.cost, self.sign, self.bound, strict=True)
        )


@dataclass(frozen=True)
class Linear:
    """Maximise the expected reward with every expected total cost at most its limit and at least its floor.

    Both are [d], or by cost name; `None` or an infinity means none. Without arguments: no limit at all.
    """

    limits: ArrayLike | Mapping[str, float] | None = None
    floors: ArrayLike | Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        for name in ("limits", "floors"):
            setter(self)(name, held(getattr(self, name)))

    def rows(self, mdp: ConstrainedMDP | Task) -> Rows:
        """The finite limits, then the finite floors, of a model's costs."""
        limits = resolve_limits(self.limits, mdp.cost_names, "limits")
        floors = resolve_limits(self.floors, mdp.cost_names, "floors")
        upper, lower = np.flatnonzero(np.isfinite(limits)), np.flatnonzero(np.isfinite(floors))
        return Rows(
            np.concatenate((upper, lower)),
            np.concatenate((np.ones(upper.size), -np.ones(lower.size))),
            np.concatenate((limits[upper], -floors[lower])),
        )


@dataclass(frozen=True)
class ConcaveConvex:
    """Maximise a concave function of the expected reward with convex functions of the expected costs at most 0.

    Eq. (objective_convex) of Brantley et al. (2020). `objective` and `constraint` (one, or a list) are functions from
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


@dataclass(frozen=True)
class Knapsack:
    """Maximise the expected reward of an episode with total budgets for all episodes together.

    KnapsackConPlanner, Eq. (approx_program_knapsack) of Brantley et al. (2020): every expected cost of one episode is
    at most (1 - epsilon) budget / episodes, and a whole episode may be skipped by the null action, which pays and costs
    nothing. `epsilon` is the share held back against chance: a number in [0, 1), or "theorem" for the value of
    Theorem 5.1 at failure probability `delta` (which needs a very large budget, and says so if it is too small).

    `budgets` are [d], or by cost name; an infinity means none.
    """

    budgets: ArrayLike | Mapping[str, float]
    episodes: int
    epsilon: float | str = 0.0
    delta: float = 0.05

    def __post_init__(self) -> None:
        setter(self)("budgets", held(self.budgets))

    def held_back(self, mdp: ConstrainedMDP | Task) -> float:
        """epsilon as a number; that of the theorem depends on the sizes and ranges of the model or task."""
        if not isinstance(self.epsilon, str):
            if not is_number(self.epsilon) or not 0.0 <= float(self.epsilon) < 1.0:
                raise SpecError(f'epsilon is {shown(self.epsilon)}; it must be a number in [0, 1) or "theorem"')
            return float(self.epsilon)
        if self.epsilon != "theorem":
            raise SpecError(f'epsilon is {shown(self.epsilon)}; it must be a number in [0, 1) or "theorem"')
        if not is_number(self.delta) or not 0.0 < self.delta <= 1.0:
            raise SpecError(f"delta is {shown(self.delta)}; a failure probability is in (0, 1]")
        budgets = self.totals(mdp)
        regime = knapsack_epsilon(
            budgets,
            self.episodes,
            num_states=mdp.num_states,
            num_actions=mdp.num_actions,
            horizon=mdp.horizon,
            num_costs=mdp.num_costs,
            delta=self.delta,
        )
        if not regime.applies:
            raise SpecError(f"epsilon='theorem': {regime.message}; give epsilon a number instead")
        task = mdp if isinstance(mdp, Task) else mdp.task
        for low, high in task.ranges:
            if low < 0.0 or high > 1.0:
                raise SpecError(
                    f"epsilon='theorem': the theorem needs rewards and costs of one step in [0, 1], "
                    f"and here they reach from {low:g} to {high:g}; give epsilon a number instead"
                )
        return regime.epsilon

    def linear(self, mdp: ConstrainedMDP | Task) -> Linear:
        """The limits of one episode."""
        return Linear((1.0 - self.held_back(mdp)) * self.totals(mdp) / self.episodes)

    def totals(self, mdp: ConstrainedMDP | Task) -> Float:
        """[d]: the budgets; inf for none."""
        read_count(self.episodes, "episodes", most=MOST_EPISODES)
        budgets = resolve_limits(self.budgets, mdp.cost_names, "budgets")
        for name, budget in zip(mdp.cost_names, budgets, strict=True):
            if budget < 0.0:
                raise SpecError(f"the budget of {name!r} is {budget:g}; it must be at least 0")
        return budgets


Problem = Linear | ConcaveConvex | Knapsack

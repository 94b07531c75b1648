"""Bonuses: how far the estimate of a pair may be off.

Eq. (bonus) of Brantley et al. (2020), or what works better at the scale of experiments. The estimates themselves are in
`conrl.estimation.counts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from conrl import bounds
from conrl._types import Array, Float, Int
from conrl.arguments import any_array, read_count, read_delta, read_flag
from conrl.errors import SpecError, shown
from conrl.estimation.evidence import Evidence
from conrl.model import Task

# What turns visits [P] of pairs, before episode k (from 1), or all the evidence, into a bonus [P] or [P, 1+d] (reward
# first). Positive is optimism, negative caution.
Bonus = Callable[[Int, int, Task], ArrayLike] | Callable[[Evidence], ArrayLike]


def _asked(visits: Any, task: Any) -> Array:
    """Check what a bonus is asked: visits [n], one count for each pair that exists; not a table [S, A]."""
    if not isinstance(task, Task):
        raise SpecError(f"a bonus needs a Task, not {type(task).__name__}; a model has one: mdp.task")
    table = visits if type(visits) is np.ndarray else any_array(visits, "visits")
    if table.ndim != 1 or table.dtype.kind not in "iuf" or not (table >= 0).all():
        raise SpecError(
            f"visits has shape {table.shape} and dtype {table.dtype}; expected one count of at least 0 for each pair: "
            "of a table [S, A] those of the pairs that exist, counts[model.available]"
        )
    return table


@dataclass(frozen=True)
class TheoryBonus:
    """Eq. (bonus): min{ 2H, H sqrt(2 ln(8SAH(d+1)k^2/delta) / N) }, in units of the spread of each reward and cost.

    Valid for all episodes at once with probability at least 1 - delta (Lemma 3.2). Where the first state is unknown,
    S and H are those of the model with the extra state.
    """

    delta: float = 0.05
    bounded: ClassVar[bool] = False  # it answers for transitions too, by pay that no step can have

    def __post_init__(self) -> None:
        read_delta(self.delta)

    def __call__(self, visits: Int, episode: int, task: Task) -> Float:
        visits = _asked(visits, task)
        extra = int(task.initial is None)
        b = bounds.bonus(
            visits,
            episode=read_count(episode, "episode"),
            num_states=task.num_states + extra,
            num_actions=task.num_actions,
            horizon=task.horizon + extra,
            num_costs=task.num_costs,
            delta=self.delta,
        )
        return b[:, None] * task.spread


@dataclass(frozen=True)
class ScaledBonus:
    """scale / sqrt(N), with separate scales for reward and costs, and `unvisited` for a pair never visited.

    A positive scale is optimism: more reward, less cost than estimated. A negative one is caution: at pairs that were
    visited the estimate moves the other way. Unvisited pairs are always optimistic, or nothing new would be tried.

    Args:
        reward, cost: the scales; `cost` may be one per cost.
        unvisited: the bonus of pairs never visited.
        relative: in units of the spread of each reward and cost (`Task.reward_range`, `Task.cost_ranges`).
        bounded: nothing better is believed of a pair never visited than the declared ranges allow: a cost that cannot
            be negative does not earn budget back.
    """

    reward: float = 0.02
    cost: float | Sequence[float] = -0.01
    unvisited: float = 1.0
    relative: bool = True
    bounded: bool = True

    def __post_init__(self) -> None:
        read_flag(self.relative, "relative")
        read_flag(self.bounded, "bounded")
        try:
            if np.ndim(self.cost):
                object.__setattr__(self, "cost", tuple(float(c) for c in np.asarray(self.cost).tolist()))
            scales = [float(x) for x in (self.reward, self.unvisited, *np.atleast_1d(self.cost).tolist())]
        except (TypeError, ValueError, OverflowError):
            raise SpecError(f"{shown(self)} makes no bonus: scales are numbers") from None
        if not np.isfinite(scales).all() or scales[1] < 0.0:
            raise SpecError(f"{shown(self)} makes no bonus: scales are finite, and unvisited is at least 0")

    def __call__(self, visits: Int, episode: int, task: Task) -> Float:
        visits = _asked(visits, task)
        scales = np.empty(1 + task.num_costs)
        scales[0] = self.reward
        try:
            scales[1:] = self.cost
        except ValueError:
            raise SpecError(f"cost has {np.size(self.cost)} scales for {task.num_costs} costs") from None
        unit = task.spread if self.relative else np.ones(scales.size)
        b = (scales * unit) / np.sqrt(np.maximum(visits, 1))[:, None]
        b[visits == 0] = self.unvisited * unit
        return b

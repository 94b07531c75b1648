"""Bonuses: how far the estimate of a pair may be off.

Eq. 9 of Brantley et al. (2020), the same promise by variances, or what works better at the scale of experiments.
The estimates themselves are in `conrl.estimation.counts`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from conrl import bounds
from conrl._types import Array, Float, Int
from conrl.arguments import LARGEST, any_array, needs, read_count, read_delta, read_flag, takes
from conrl.errors import ConRLError, SpecError, shown
from conrl.estimation.evidence import Evidence
from conrl.model import Task

# What turns visits [P] of pairs, before episode k (from 1), or all the evidence, into a bonus [P] or [P, 1+d] (reward
# first). Positive is optimism, negative caution.
Bonus = Callable[[Int, int, Task], ArrayLike] | Callable[[Evidence], ArrayLike]


def by_visits(bonus: Bonus) -> bool:
    """Whether a bonus is told (visits, episode, task), and not the evidence."""
    if isinstance(bonus, type):
        raise SpecError(f"bonus is the class {bonus.__name__}; make one: {bonus.__name__}()", key=("bonus",))
    if not (takes(bonus, 1) or takes(bonus, 3)):
        raise SpecError("a bonus takes one argument, the Evidence, or three: visits, episode and task", key=("bonus",))
    if needs(bonus, 3, least=1):
        return True
    try:  # a * is for all that there is
        return any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(bonus).parameters.values())
    except ValueError:
        return True


def bonus_table(bonus: Bonus, evidence: Evidence, told_visits: bool) -> Float:
    """[P, 1+d]: what a bonus says of the evidence, checked; `told_visits` is what `by_visits` says of it."""
    told = (evidence.visits, evidence.episode, evidence.task) if told_visits else (evidence,)
    try:
        given = bonus(*told)
    except ConRLError:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise SpecError(f"the bonus failed: {error}") from error
    try:
        b = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SpecError(f"the bonus did not return numbers: {error}") from None
    n, width = evidence.visits.size, 1 + evidence.task.num_costs
    shape = b.shape
    if b.ndim == 1:
        b = np.repeat(b[:, None], width, axis=1)
    if b.shape != (n, width):
        raise SpecError(f"the bonus has shape {shape}; expected ({n},) or ({n}, {width})")
    if not np.abs(b).max() <= LARGEST:
        wrong = b[~(np.abs(b) <= LARGEST)][0]
        raise SpecError(f"the bonus has an entry {wrong}; it must be finite and at most {LARGEST:g} in size")
    return b


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
    """Eq. 9: min{ 2H, H sqrt(2 ln(8SAH(d+1)k^2/delta) / N) }, in units of the spread of each reward and cost.

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
class BernsteinBonus:
    """What Eq. 9 promises, by variances: like 1/N where pay and transitions hardly vary. It is told the evidence.

    For a pair of N >= 2 visits, the estimates p_hat, and the sample variance v of one coordinate of its pay,

        b = sqrt(2 v L / N) + 7 range L / (3 (N - 1))                                                      at most range
          + (H - 1) spread sum over t seen [ sqrt(2 p_hat (1 - p_hat) L / (N - 1)) + 7 L / (3 (N - 1)) ]   the sum <= 1
        L = ln( 4 M N^2 / (3 delta) ),   M = S A (S + 3 + 2 d)

    where `range` is that of the coordinate in one step and `spread` the same with 0; with one visit b = range + (H - 1)
    spread, with none H spread. Where the first state is unknown, M has S more; START is known to pay nothing, and has H
    steps to come.

    Valid (Definition 3.1) for all episodes at once with probability at least 1 - delta. Proof. The first N visits of a
    pair are N independent draws, whenever the learner makes them. Maurer and Pontil (2009, Theorem 4): the mean of N
    draws in [0, 1] is off to one side by more than sqrt(2 v L / N) + 7 L / (3 (N - 1)) with probability at most
    2 exp(-L). This is asked of both sides of 1 + d coordinates and of one side, p_hat - p, of S + 1 successors (an
    episode may also end), at SA pairs: M statements at each N >= 2, and 2 M exp(-L) = 3 delta / (2 N^2) sums to 0.97
    delta. An indicator has v = p_hat (1 - p_hat) N / (N - 1). Now V*_{h+1} is a total of at most H - 1 steps (H after
    START), so that max V - min V <= (H - 1) spread, and

        |sum_t (p_hat - p) V| <= (max V - min V) sum_t (p_hat - p)^+,

    where only states that were seen have p_hat > p. No pay is off by more than its range, and no sum by more than 1.

    It is below Eq. 9 where sum_t sqrt(p_hat (1 - p_hat)) is well below 1 and N well above 3 m^2 L, for m
    successors seen: deterministic worlds and rare accidents. A fair coin between two states already makes that sum 1,
    and more states make it larger: there Eq. 9 is less, which bounds p_hat.V* as a whole and not state by state.
    """

    delta: float = 0.05
    bounded: ClassVar[bool] = False  # as that of `TheoryBonus`

    def __post_init__(self) -> None:
        read_delta(self.delta)

    def __call__(self, evidence: Evidence) -> Float:
        """[P, 1+d]: b for each pair."""
        if not isinstance(evidence, Evidence):
            raise SpecError(f"BernsteinBonus needs the Evidence, not {shown(evidence)}; ConRL(bonus=) gives it")
        task, graph = evidence.task, evidence.model.graph
        S, unknown = task.num_states, task.initial is None
        N = evidence.visits[:, None].astype(np.float64)
        more = np.maximum(N - 1.0, 1.0)
        M = float(S) * task.num_actions * (S + 3 + 2 * task.num_costs) + unknown * S
        L = np.log(4.0 * M * np.maximum(N, 1.0) ** 2 / (3.0 * self.delta))
        width = task.ranges[:, 1] - task.ranges[:, 0]
        pay = np.minimum(
            np.sqrt(2.0 * evidence.variance * L / np.maximum(N, 1.0)) + width * (7.0 * L / (3.0 * more)), width
        )
        pay = np.where(N >= 2.0, pay, np.where(N == 1.0, width, task.spread))
        p, outcomes = graph.probability, np.diff(graph.start)
        rate = np.repeat((L / more)[:, 0], outcomes)
        radius = np.sqrt(2.0 * p * (1.0 - p) * rate) + 7.0 / 3.0 * rate
        moved = np.where(N >= 2.0, np.minimum(np.add.reduceat(radius, graph.start[:-1])[:, None], 1.0), 1.0)
        steps = np.full(N.shape, task.horizon - 1.0)
        if unknown:  # the first pair is that of START
            pay[0], steps[0] = 0.0, task.horizon
        b: Float = pay + steps * moved * task.spread
        b[evidence.known] = 0.0
        return b


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

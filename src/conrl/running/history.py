"""What happened in a run, episode by episode, and what follows from it: regrets, violations, the burn-down of budgets.

`expected_rewards[k]` is the exact value of the policy that episode k executed, where the model is known. An episode
that a budget cut short or forbade (`guarded`) says nothing of its policy's value: it has none (nan), and counts in the
regret with what was realised.

A learner may show something else than what it plays (`reported`; ApproPO: its newest answer, while it plays the network
in training), and have a result that is a third thing (`mixture`). They are columns of their own: regrets and violations
are of what was executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conrl import theory
from conrl._types import Array, Bool, Float, Int
from conrl.errors import RunError
from conrl.io.cells import csv_text
from conrl.io.files import atomic_write
from conrl.model import ConstrainedMDP
from conrl.model.limits import resolve_limits, rounding_room
from conrl.planners import Plan, plan
from conrl.planners.column_generation.cones import evaluator
from conrl.planners.long_run import LongRun, long_run_optimum
from conrl.problem import ConcaveConvex, Knapsack, Linear, Problem

WINDOW = 20  # episodes: single ones are draws from a mixture, of which some exceed a limit that it keeps
NEAR = 0.95  # of the optimum
VALUES = ("expected", "reported", "mixture")  # columns that are value vectors [1+d]
LATER = ("reported", "mixture")  # columns that files of version 0.1 do not have


class Row(NamedTuple):
    """One episode."""

    reward: float
    costs: Float  # [d]
    expected: Float | None  # [1+d]: of the executed policy; None where unknown
    unguarded: Float | None  # [d]: what it would have cost without the guard; None where unknown
    steps: int
    skipped: bool = False  # the null action was played, by plan or by the guard
    guarded: bool = False  # the guard changed what was played
    infeasible: bool = False  # the estimated limits could not be kept
    prices: Float | None = None  # [d]: the multipliers or prices of the limits that it was decided with
    reported: Float | None = None  # [1+d]: of what the learner showed; None: of what it played, or nothing yet
    mixture: Float | None = None  # [1+d]: of its result so far; None where it has none


class History:
    """A run so far. K episodes, d costs."""

    def __init__(
        self,
        cost_names: tuple[str, ...],
        problem: Problem,
        mdp: ConstrainedMDP | None = None,
        continuing: bool = False,
    ) -> None:
        self.cost_names = cost_names
        self.problem = problem
        self.mdp = mdp  # the truth, where it is known
        self.continuing = continuing  # one unending episode
        self.interrupted = False
        self._rows: list[Row] = []
        self._tables: dict[str, Array] = {}

    def append(self, row: Row) -> None:
        self._rows.append(row)
        self.__dict__.pop("regret", None)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"History(episodes={len(self)}, reward={self.rewards.sum():.6g}, costs={self.costs.sum(axis=0)})"

    # -- columns ------------------------------------------------------------------------------------------

    def _table(self, name: str) -> Array:
        """What all rows hold of one kind, put together once for every length."""
        kept = self._tables.get(name)
        if kept is not None and len(kept) == len(self._rows):
            return kept
        none = np.full(len(self.cost_names) + (name in VALUES), np.nan)
        values = [getattr(row, name) for row in self._rows]
        table = np.array([none if v is None else v for v in values])
        if not values and name in ("costs", "unguarded", "prices", *VALUES):
            table = np.zeros((0, none.size))
        self._tables[name] = table
        return table

    @property
    def rewards(self) -> Float:
        """[K]: what was seen."""
        return self._table("reward").astype(np.float64)

    @property
    def costs(self) -> Float:
        """[K, d]: what was seen."""
        return self._table("costs")

    @property
    def expected_rewards(self) -> Float | None:
        """[K]: the exact value of what each episode executed; nan where a guard interfered; None without a model."""
        return None if self.mdp is None else self._table("expected")[:, 0]

    @property
    def expected_costs(self) -> Float | None:
        """[K, d]: the same of the costs."""
        return None if self.mdp is None else self._table("expected")[:, 1:]

    @property
    def reported(self) -> Float | None:
        """[K, 1+d]: exact values of what the learner showed as its policy before each episode, nan where it had none;
        None if it shows what it plays, or without a model."""
        return self._optional("reported")

    @property
    def mixture(self) -> Float | None:
        """[K, 1+d]: exact values of its result so far, nan where it had none; None if it has no such result."""
        return self._optional("mixture")

    def _optional(self, name: str) -> Float | None:
        table = self._table(name)
        return None if np.isnan(table).all() else table

    @property
    def steps(self) -> Int:
        """[K]: steps played."""
        return self._table("steps").astype(np.int64)

    @property
    def skipped(self) -> Bool:
        """[K]: the null action was played for the whole episode, by plan or by the guard."""
        return self._table("skipped").astype(bool)

    @property
    def guarded(self) -> Bool:
        """[K]: a hard budget forbade the episode or cut it short."""
        return self._table("guarded").astype(bool)

    @property
    def infeasible(self) -> Bool:
        """[K]: the estimated limits could not be kept, and the least-violating policy was played. A Lagrangian planner
        does not notice: it plays what its multipliers lead to."""
        return self._table("infeasible").astype(bool)

    @property
    def prices(self) -> Float | None:
        """[K, d]: the multiplier or price of each limit that each episode was decided with; None if there were none."""
        return self._optional("prices")

    @property
    def window(self) -> int | None:
        """How many episodes `smooth` takes the mean of; None: all since the start, of an unending episode."""
        return None if self.continuing else WINDOW

    # -- against the optimum ------------------------------------------------------------------------------

    @property
    def limits(self) -> Float:
        """[d]: on the expected cost of one episode; inf for none."""
        if isinstance(self.problem, Linear):
            return resolve_limits(self.problem.limits, self.cost_names, "limits")
        if isinstance(self.problem, Knapsack):
            return resolve_limits(self.problem.budgets, self.cost_names, "budgets") / self.problem.episodes
        return np.full(len(self.cost_names), np.inf)

    @property
    def floors(self) -> Float:
        """[d]: on the expected cost of one episode; -inf for none."""
        given = self.problem.floors if isinstance(self.problem, Linear) else None
        return resolve_limits(given, self.cost_names, "floors")

    @cached_property
    def optimum(self) -> Plan | LongRun | None:
        """The best policy of the true model: of a `Knapsack`, the static one that keeps B / K in expectation; of one
        unending episode, the best long-run average."""
        if self.mdp is None:
            return None
        if self.continuing:
            return long_run_optimum(self.mdp, self.limits)
        problem = self.problem
        if isinstance(problem, Knapsack):
            problem = Knapsack(problem.budgets, problem.episodes)
        return plan(self.mdp, problem)

    @cached_property
    def regret(self) -> theory.Regret:
        """RewReg(k) and ConsReg(k) for k = 1..K, Eqs. (regret_def); of a `ConcaveConvex` problem ConvexRewReg and
        ConvexConsReg. Knapsack: against B / K an episode."""
        means, best = self.averages, self.optimum
        if means is None or best is None:
            raise RunError("a regret needs the true model; this run was against an environment whose model is unknown")
        if isinstance(self.problem, ConcaveConvex):
            f, g = evaluator(self.problem.objective, self.problem.constraints, 1 + len(self.cost_names))
            at = np.array([(f(y), max(g(y), default=-np.inf)) for y in means]).reshape(-1, 2)
            assert isinstance(best, Plan)  # no learner of an unending episode takes such problems
            return theory.Regret(best.objective - at[:, 0], at[:, 1])
        costs = means[:, 1:]  # falling short of a floor counts as exceeding a limit does
        over = np.maximum(costs - self.limits, self.floors - costs).max(axis=1, initial=-np.inf)
        return theory.Regret(best.reward - means[:, 0], over)

    @property
    def executed(self) -> Float | None:
        """[K, 1+d]: the expected value of each episode, or what was realised where a guard interfered."""
        if self.mdp is None:
            return None
        seen = np.column_stack((self.rewards, self.costs))
        return np.where(self.guarded[:, None], seen, self._table("expected"))

    @property
    def averages(self) -> Float | None:
        """[K, 1+d]: the mean of `executed` over all episodes so far; of an unending episode that is what it holds."""
        executed = self.executed
        return executed if executed is None or self.continuing else running_mean(executed, len(self))

    # -- summaries ----------------------------------------------------------------------------------------

    def smooth(self) -> Float:
        """[K, 1+d]: the mean of the last `WINDOW` episodes (fewer at the start), of expected values where known.

        Of an unending episode the mean since its beginning.
        """
        table = self.executed
        if table is None:
            table = np.column_stack((self.rewards, self.costs))
        return table if self.continuing else running_mean(table, WINDOW)

    @property
    def violations(self) -> Int:
        """[d]: in how many episodes the mean cost (`smooth`) was above the limit or below the floor."""
        return np.asarray(self.broken(self.smooth()[:, 1:]).sum(axis=0), dtype=np.int64)

    def broken(self, costs: Float) -> Bool:
        """[..., d]: which of the costs are above their limit or below their floor."""
        limits, floors = self.limits, self.floors
        largest = np.abs(costs).reshape(-1, limits.size).max(axis=0, initial=0.0)
        over: Bool = costs > limits + rounding_room(limits, largest)
        under: Bool = costs < floors - rounding_room(floors, largest)
        return over | under

    def recent(self) -> Float:
        """[1+d]: the last row of `smooth`, without looking at the others."""
        rows = self._rows[-1:] if self.continuing else self._rows[-WINDOW:]
        seen = [
            row.expected if row.expected is not None and not row.guarded else np.append(row.reward, row.costs)
            for row in rows
        ]
        mean: Float = np.mean(seen, axis=0)
        return mean

    @property
    def solved_from(self) -> int | None:
        """The first episode (from 1) from which the mean reward (`smooth`) stays at least 95% of the
        optimum; None if it does not, or if the optimum is unknown or not positive."""
        best = self.optimum
        if best is None or best.reward <= 0.0 or not len(self):
            return None
        below = np.flatnonzero(self.smooth()[:, 0] < NEAR * best.reward)
        first = int(below[-1]) + 2 if below.size else 1
        return first if first <= len(self) else None

    # -- budgets ------------------------------------------------------------------------------------------

    @property
    def remaining(self) -> Float | None:
        """[K, d]: the burn-down: what is left of each budget after each episode; None without budgets."""
        budgets = self._budgets
        return None if budgets is None else budgets - np.cumsum(self.costs, axis=0)

    @property
    def unguarded_costs(self) -> Float | None:
        """[K, d]: what each episode would have cost without the guard; None where it cannot be known."""
        table = self._table("unguarded")
        return None if np.isnan(table).any() else table

    @property
    def would_exceed(self) -> Bool | None:
        """[d]: whether the plans without the guard would have exceeded each budget: what Theorem 5.1 is about."""
        budgets, costs = self._budgets, self.unguarded_costs
        return None if budgets is None or costs is None else np.asarray(costs.sum(axis=0) > budgets)

    @property
    def _budgets(self) -> Float | None:
        if not isinstance(self.problem, Knapsack):
            return None
        return resolve_limits(self.problem.budgets, self.cost_names, "budgets")

    # -- files --------------------------------------------------------------------------------------------

    def to_csv(self) -> str:
        """One row an episode, counted from 1; no times, so that equal runs give equal bytes."""
        names = self.cost_names
        known = self.mdp is not None
        header = ["episode", "reward", *(f"cost_{n}" for n in names)]
        header += ["expected_reward", *(f"expected_cost_{n}" for n in names)] if known else []
        priced = self.prices is not None
        flagged = ["steps", "skipped", "guarded", "infeasible"]
        shown = [name for name in LATER if self._optional(name) is not None]
        extra = [f"{name}_{what}" for name in shown for what in ("reward", *(f"cost_{n}" for n in names))]
        table: list[list[Any]] = [[*header, *flagged, *(f"price_{n}" for n in names if priced), *extra]]
        for k, row in enumerate(self._rows):
            numbers = [row.reward, *row.costs]
            if known:
                numbers += [""] * (1 + len(names)) if row.expected is None else list(row.expected)
            flags = [row.steps, int(row.skipped), int(row.guarded), int(row.infeasible)]
            more = ([""] * len(names) if row.prices is None else list(row.prices)) if priced else []
            for value in (getattr(row, name) for name in shown):
                more += [""] * (1 + len(names)) if value is None else list(value)
            table.append([k + 1, *map(_digits, numbers), *flags, *map(_digits, more)])
        return csv_text(table)

    def save(self, path: str | Path) -> None:
        """Write `to_csv` to a file, whole or not at all."""
        with atomic_write(path) as file:
            file.write(self.to_csv().encode())

    def state(self) -> dict[str, Array]:
        """All columns, as arrays."""
        return {name: self._table(name).copy() for name in Row._fields}

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Go on from what `state` gave."""
        K = len(state["reward"])
        nothing = np.full((K, 1 + len(self.cost_names)), np.nan)
        columns = [state.get(name, nothing) if name in LATER else state[name] for name in Row._fields]
        if len({column.shape[0] for column in columns}) != 1:
            raise RunError("the columns of the history have different lengths")
        self._rows = []
        for values in zip(*columns, strict=True):
            row = Row(*values)
            read: dict[str, Any] = {name: _known(getattr(row, name)) for name in (*VALUES, "prices")}
            read |= {name: bool(getattr(row, name)) for name in ("skipped", "guarded", "infeasible")}
            unguarded = None if np.isnan(row.unguarded).any() else row.unguarded  # type: ignore[arg-type]
            self.append(row._replace(reward=float(row.reward), steps=int(row.steps), unguarded=unguarded, **read))


def running_mean(values: Float, window: int) -> Float:
    """Means of the last `window` rows, of fewer at the start; rows of nan do not count."""
    there: Bool = ~np.asarray(np.isnan(values).any(axis=1))
    rows = np.column_stack((np.where(there[:, None], values, 0.0), there))
    sums = np.cumsum(np.vstack((np.zeros(rows.shape[1]), rows)), axis=0)
    k = np.arange(1, len(values) + 1)
    last = sums[k] - sums[np.maximum(k - window, 0)]
    with np.errstate(invalid="ignore"):  # nothing over nothing is nan
        return np.asarray(last[:, :-1] / last[:, -1:])


def _known(value: Float) -> Float | None:
    return None if np.isnan(value).all() else value


def _digits(x: Any) -> str:
    return "" if isinstance(x, str) else repr(float(x))

"""What happened in a run, episode by episode, and what follows from it: regrets, violations, the burn-down of budgets.

`expected_rewards[k]` is the exact value of the policy that episode k executed, where the model is known. An episode
that a budget cut short or forbade (`guarded`) says nothing about the value of its policy: its value is nan, and the
regret counts what was realised.

A learner may report a policy other than the one it plays (`reported`; ApproPO: its newest answer, while it plays the
network in training), and have a result that is a third one (`mixture`). These have columns of their own; regrets and
violations are those of what was executed. `conrl.metrics` defines the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from conrl import metrics
from conrl._types import Array, Bool, Float, Int
from conrl.errors import InfeasibleError, RunError
from conrl.io.cells import csv_text
from conrl.io.files import atomic_write, file_path
from conrl.learners.base import Learner, optional
from conrl.model import ConstrainedMDP
from conrl.model.limits import resolve_limits
from conrl.model.rows import rounding_slack
from conrl.notebook import Columns, Display, Displayed, Framed, Plotted
from conrl.planners import Plan
from conrl.planners.column_generation.expressions import evaluator
from conrl.planners.long_run import LongRun
from conrl.problem import ConcaveConvex, Knapsack, Linear, Problem, read_margin
from conrl.running.optima import best_average, best_plan, episode_bounds
from conrl.running.rows import FLAGS, SHOWN, Row, column, lines_of, named_numbers, rows_of, titles_of
from conrl.wording import counted, line, totals


class History(Displayed, Framed, Plotted):
    """A run so far. K episodes, d costs.

    As a data frame, a row for each episode: `episode` (from 1), `reward` and `cost_<name>` as they were seen,
    `expected_reward` and `expected_cost_<name>`, the exact values of what was played, `steps`, `skipped`, `guarded`,
    `infeasible`, `exploring`, and where they are known `price_<name>`, `reported_...`, `mixture_...`,
    `remaining_<name>` (of a budget), `regret` and `constraint_regret` of all episodes so far. For the regrets the
    optimum is planned once.
    """

    def __init__(
        self,
        cost_names: tuple[str, ...],
        problem: Problem,
        mdp: ConstrainedMDP | None = None,
        continuing: bool = False,
        *,
        reports: bool = False,
        largest: Float | None = None,
    ) -> None:
        """No episode yet."""
        self.cost_names = cost_names
        self.problem = problem
        self.mdp = mdp  # the truth, where it is known
        self.continuing = continuing  # one unending episode
        self.reports = reports  # the learner shows something else than what it plays
        self.largest = np.ones(1 + len(cost_names)) if largest is None else largest  # what one step can pay, in size
        self.interrupted = False
        self._rows: list[Row] = []
        # What was made of the rows. Another thread may append meanwhile: its length says what it was made of.
        self._tables: dict[str, Array] = {}
        self._scores: metrics.Scores | None = None
        self._regret: metrics.Regret | None = None
        self._safest: dict[float, Plan | LongRun] = {}  # by margin

    @classmethod
    def of(cls, learner: Learner, truth: ConstrainedMDP | None) -> History:
        """An empty one, for the episodes of a learner."""
        task = learner.task
        return cls(
            tuple(task.cost_names),
            learner.problem,
            truth,
            optional(learner, "continuing"),
            reports=optional(learner, "reports"),
            largest=np.abs(task.ranges).max(axis=1),
        )

    def append(self, row: Row) -> None:
        self._rows.append(row)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return line(self, f"{counted(len(self), 'episode')}: in all {totals(self._names, self._sums)}")

    @property
    def _names(self) -> tuple[str, ...]:
        return "reward", *self.cost_names

    @property
    def _sums(self) -> Float:
        """[1+d]: of what was seen."""
        return np.append(self.rewards.sum(), self.costs.sum(axis=0))

    def _columns(self) -> Columns:
        costs = [f"cost_{name}" for name in self.cost_names]
        K = len(self)  # another thread may append meanwhile
        expected = None if self.mdp is None else self._table("expected")
        groups: list[tuple[list[str], Float | None]] = [
            (["reward"], self.rewards[:, None]),
            (costs, self.costs),
            (["expected_reward", *(f"expected_{name}" for name in costs)], expected),
            (list(FLAGS), np.column_stack([self._table(name)[:K] for name in FLAGS])),
            ([f"price_{name}" for name in self.cost_names], self.prices),
            *(([f"{kind}_reward", *(f"{kind}_{name}" for name in costs)], self._optional(kind)) for kind in SHOWN),
            ([f"remaining_{name}" for name in self.cost_names], self.remaining),
            (["regret", "constraint_regret"], self._known_regret()),
        ]
        table: dict[str, Any] = {"episode": np.arange(1, K + 1)}
        for titles, values in groups:
            if values is not None:
                table |= dict(zip(titles, values[:K].T, strict=True))
        return table | {name: table[name].astype(bool) for name in FLAGS[1:]} | {"steps": table["steps"].astype(int)}

    def _known_regret(self) -> Float | None:
        """[K, 2]; None without an optimum to compare with."""
        try:
            if len(self) == 0 or self.optimum is None:
                return None
            return np.column_stack(self.regret)
        except (InfeasibleError, RunError):  # no policy keeps the limits: there is no optimum
            return None

    def _display(self) -> Display:
        known = len(self) > 0
        columns = {
            "total": self._names,
            "sum seen": self._sums,
            "per episode": self._sums / len(self) if known else np.full(len(self._names), np.nan),
            "last tenth, expected" if self.mdp is not None else "last tenth": (
                self.final if known else np.full(len(self._names), np.nan)
            ),
            "limit": np.append(np.nan, self.limits),
            "floor": np.append(np.nan, self.floors),
        }
        notes = ["interrupted"] if self.interrupted else []
        if self.exploring.any():
            tenth = self.scores.final_episodes
            notes.append(f"exploring: {self.scores.explored(tenth)} of the last {counted(tenth, 'episode')}")
        return Display(f"History of {counted(len(self), 'episode')}", columns, tuple(notes))

    # -- columns ------------------------------------------------------------------------------------------

    def _table(self, name: str) -> Array:
        """One column of all rows as an array, built once for each length."""
        table = self._tables.get(name)
        if table is None or len(table) != len(self._rows):
            table = self._tables[name] = column(self._rows.copy(), name, len(self.cost_names))
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
    def exploring(self) -> Bool:
        """[K]: the episode was planned to learn from, as ConRL's are whose number is a cube."""
        return self._table("exploring").astype(bool)

    @property
    def prices(self) -> Float | None:
        """[K, d]: the multiplier of each limit that each episode was decided with; None if there were none.

        That of the plan's proof, or of the algorithm; at a corner not what loosening would gain (`Plan.prices`)."""
        return self._optional("prices")

    # -- against the optimum ------------------------------------------------------------------------------

    @property
    def limits(self) -> Float:
        """[d]: on the expected cost of one episode; inf for none."""
        return episode_bounds(self.problem, self.cost_names)[0]

    @property
    def floors(self) -> Float:
        """[d]: on the expected cost of one episode; -inf for none."""
        return episode_bounds(self.problem, self.cost_names)[1]

    @cached_property
    def optimum(self) -> Plan | LongRun | None:
        """The best policy of the true model: of a `Knapsack`, the static one that keeps B / K in expectation; of one
        unending episode, the best long-run average. None where it is unknown: without a model, and with `never`, which
        the guard keeps by ending episodes, if no policy of the model keeps it to the last step."""
        if self.mdp is None:
            return None
        try:
            return self._best(self.mdp)
        except InfeasibleError:
            if isinstance(self.problem, Linear) and self.problem.never:
                return None
            raise

    @property
    def regret(self) -> metrics.Regret:
        """RewReg(k) and ConsReg(k) for k = 1..K, Eqs. 2 and 3; of a `ConcaveConvex` problem ConvexRewReg and
        ConvexConsReg. Knapsack: against B / K an episode."""
        means, kept = self.averages, self._regret
        if kept is None or means is None or len(kept.reward) != len(means):
            kept = self._regret = self._regret_of(means)
        return kept

    def _regret_of(self, means: Float | None) -> metrics.Regret:
        best = self.optimum
        if means is None or best is None:
            raise RunError("a regret needs the true model; this run was against an environment whose model is unknown")
        if isinstance(self.problem, ConcaveConvex):
            f, g = evaluator(self.problem.objective, self.problem.constraints, 1 + len(self.cost_names))
            at = np.array([(f(y), max(g(y), default=-np.inf)) for y in means]).reshape(-1, 2)
            assert isinstance(best, Plan)  # no learner of an unending episode takes such problems
            return metrics.Regret(best.objective - at[:, 0], at[:, 1])
        return metrics.regret(means, best.reward, self.limits, self.floors)

    def best_safe(self, margin: float = metrics.MARGIN) -> Plan | LongRun | None:
        """The best policy of the true model that keeps every limit with a margin, a share in [0, 1) of its size; None
        where `optimum` is, or the problem is `ConcaveConvex`. Raises where no policy keeps it."""
        read_margin(margin)
        if self.mdp is None or self._linear_optimum is None:
            return None
        if margin not in self._safest:
            self._safest[margin] = self._best(self.mdp, margin)
        return self._safest[margin]

    def _best(self, mdp: ConstrainedMDP, margin: float = 0.0) -> Plan | LongRun:
        return (best_average if self.continuing else best_plan)(mdp, self.problem, margin)

    def safe_regret(self, margin: float = metrics.MARGIN) -> Float | None:
        """[K]: how far the mean reward so far falls short of that of `best_safe`; None where that is."""
        best, means = self.best_safe(margin), self.averages
        return None if best is None or means is None else best.reward - means[:, 0]

    @property
    def last_iterate(self) -> metrics.Standing | None:
        """The exact value of what was executed by the last episode that did not explore (number
        `scores.last_planned`), with its shortfall and its excess; None where it is unknown. The shortfall is None where
        the optimum is, where no policy keeps the limits, or the problem is `ConcaveConvex`."""
        return self.scores.last_iterate(self._linear_optimum)

    @property
    def average_policy(self) -> metrics.Standing | None:
        """The same of the average policy, which plays one of all executed policies: the mean of their values; None
        where one of them is unknown."""
        return self.scores.average_policy(self._linear_optimum)

    def violating(self, tolerance: float = metrics.TOLERANCE) -> Float | None:
        """[d]: the share of episodes whose own expected cost is above its limit, or below its floor, by more than such
        a share of it; None where the exact value of each episode is unknown, or the problem is `ConcaveConvex`."""
        share = self.scores.violating(tolerance)
        return None if isinstance(self.problem, ConcaveConvex) else share

    @property
    def binned_excess(self) -> metrics.Binned | None:
        """The mean excess of an episode over the last decade of the run, in bins; None as above."""
        return None if isinstance(self.problem, ConcaveConvex) else self.scores.binned_excess

    @property
    def excess_slope(self) -> Float | None:
        """[d]: the slope of its logarithm against that of the episode; None as above."""
        return None if isinstance(self.problem, ConcaveConvex) else self.scores.excess_slope

    @property
    def strong_regret(self) -> Float | None:
        """[K]: the sum, over the episodes so far, of what each fell short of the optimum by; better ones do not make
        up for it. None where the exact value of each episode is unknown, or the problem is `ConcaveConvex`."""
        best = self._linear_optimum
        return None if best is None else self.scores.strong_regret(best)

    @property
    def strong_violation(self) -> Float | None:
        """[K, d]: the sum, over the episodes so far, of what each exceeded its limit by, or fell short of its floor
        by; None as above."""
        return None if isinstance(self.problem, ConcaveConvex) else self.scores.strong_violation

    @property
    def _linear_optimum(self) -> float | None:
        """The reward to compare with; None where it is unknown, no policy keeps the limits, or costs are not held
        against any."""
        try:
            best = self.optimum
        except InfeasibleError:
            return None
        return None if best is None or isinstance(self.problem, ConcaveConvex) else best.reward

    @property
    def executed(self) -> Float | None:
        """[K, 1+d]: the expected value of each episode, or what was realised where a guard interfered."""
        return None if self.mdp is None else self.scores.executed

    @property
    def averages(self) -> Float | None:
        """[K, 1+d]: the mean of `executed` over all episodes so far; of an unending episode that is what it holds."""
        return None if self.mdp is None else self.scores.averages

    # -- summaries ----------------------------------------------------------------------------------------

    @property
    def scores(self) -> metrics.Scores:
        """The run so far as `conrl.metrics` takes it; what was seen stands in for what is unknown."""
        kept, K = self._scores, len(self._rows)
        if kept is None or kept.episodes != K:
            reported = self._table("reported")[:K]
            shown = self.mdp is not None and (self.reports or not np.isnan(reported).all())
            kept = self._scores = metrics.Scores(
                seen=np.column_stack((self.rewards[:K], self.costs[:K])),
                expected=None if self.mdp is None else self._table("expected")[:K],
                reported=reported if shown else None,
                limits=self.limits,
                floors=self.floors,
                largest=self.largest,
                continuing=self.continuing,
                exploring=self._table("exploring")[:K].astype(bool),
            )
        return kept

    @property
    def window(self) -> int | None:
        """How many episodes smoothed values are means of; None: all since the start, of an unending episode."""
        return None if self.continuing else metrics.WINDOW

    @property
    def smooth(self) -> Float:
        """[K, 1+d]: the values of what the learner shows (by default what it plays), smoothed."""
        return self.scores.smooth

    @property
    def final(self) -> Float:
        """[1+d]: their mean over the last tenth of the run."""
        return self.scores.final

    @property
    def violations(self) -> Float:
        """[d]: the share of episodes whose smoothed cost is above its limit, or below its floor, by more than 10%."""
        return self.scores.violations

    @property
    def solved_from(self) -> int | None:
        """The first episode (from 1) from which the smoothed reward stays within 10% of the optimum and no smoothed
        cost is more than 10% outside its limits; None if there is none, or the optimum is unknown."""
        return self.scores.solved_from(self._linear_optimum)

    def recent(self) -> Float:
        """[1+d]: the last row of `scores.smooth_executed`, without looking at the others."""
        rows = self._rows[-1:] if self.continuing else self._rows[-metrics.WINDOW :]
        seen = [np.append(row.reward, row.costs) if row.expected is None else row.expected for row in rows]
        mean: Float = np.mean(seen, axis=0) if seen else np.full(1 + len(self.cost_names), np.nan)
        return mean

    # -- budgets ------------------------------------------------------------------------------------------

    @property
    def remaining(self) -> Float | None:
        """[K, d]: the burn-down: what is left of each budget after each episode; None without budgets."""
        budgets = self._budgets
        return None if budgets is None else budgets - np.cumsum(self.costs, axis=0)

    @property
    def unguarded_costs(self) -> Float | None:
        """[K, d]: what each episode would have cost without the guard; None where it cannot be known, as in a Gymnasium
        environment."""
        table = self._table("unguarded")
        return None if np.isnan(table).any() else table

    @property
    def would_exceed(self) -> Bool | None:
        """[d]: whether the plans without the guard would have exceeded each budget: what Theorem 5.1 is about."""
        budgets, costs = self._budgets, self.unguarded_costs
        if budgets is None or costs is None:
            return None
        slack = rounding_slack(budgets, np.abs(costs).max(axis=0, initial=0.0))
        return np.asarray(costs.sum(axis=0) > budgets + slack)

    @property
    def _budgets(self) -> Float | None:
        if not isinstance(self.problem, Knapsack):
            return None
        return resolve_limits(self.problem.budgets, self.cost_names, "budgets")

    # -- files --------------------------------------------------------------------------------------------

    @property
    def latest(self) -> dict[str, float]:
        """The newest episode, by the names that `to_csv` gives to the columns, without what is unknown: for `after` of
        `learn`, and as quick after a million episodes as after one. Empty before the first."""
        if not self._rows:
            return {}
        return named_numbers(self._rows[-1], titles_of(self.cost_names))

    def to_csv(self) -> str:
        """One row an episode, counted from 1; no times, so that equal runs give equal bytes."""
        known = {"expected": self.mdp is not None, "prices": self.prices is not None}
        known |= {name: self._optional(name) is not None for name in SHOWN}
        titles = {name: own for name, own in titles_of(self.cost_names).items() if known.get(name, True)}
        return csv_text(lines_of(self._rows, titles))

    def save(self, path: str | Path) -> None:
        """Write `to_csv` to a `.csv` file, whole or not at all. To go on with a run, see
        `conrl.experiments.learn_on_disk`."""
        if file_path(path).suffix.lower() != ".csv":
            raise RunError(
                f"{path}: a history is written as .csv; to go on with a run, conrl.experiments.learn_on_disk"
            )
        with atomic_write(path) as file:
            file.write(self.to_csv().encode())

    def state(self) -> dict[str, Array]:
        """All columns, as arrays."""
        return {name: self._table(name).copy() for name in Row._fields}

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Go on from what `state` gave."""
        self._rows = rows_of(state)
        self._tables, self._scores, self._regret = {}, None, None

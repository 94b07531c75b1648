"""What came of a study: its runs, and what follows from them, with intervals over seeds.

The unit is a seed: a mean, a standard deviation or an interval is over runs, never over episodes. Intervals are those
of `conrl.experiments.statistics`: there are none of fewer than 3 seeds.

Algorithms are compared over the episodes that all runs in an environment have, from the first: sums over 600 episodes
and over 3,000 say nothing about each other, nor do policies after as many. `over` says which these are. Curves are of
all episodes, and so is everything of a study that is loaded with `whole=True`.

Reward and cost are smoothed values, *cumulative* is the realised cost summed over all trajectories so far; these words
and the others of the tables are defined in `conrl.metrics`. Here is what was asked for: `environments` says what runs
are held against, `curves` and `summaries` compute curves and tables, `comparison` compares algorithms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Int
from conrl.errors import SpecError, unknown
from conrl.experiments import comparison
from conrl.experiments.comparison import Aggregate, Comparison, Profile, Table
from conrl.experiments.curves import Curve, curves_of
from conrl.experiments.environments import Environment, apart, best_rewards, environment_of
from conrl.experiments.measures import COMPARED, Measure, Numbers, compared, of_costs, of_run
from conrl.experiments.records import RunRecord
from conrl.experiments.summaries import COLUMNS, LONG, frame, import_polars, long_rows_of, rows_of
from conrl.io.cells import csv_text, to_cell
from conrl.io.files import atomic_write
from conrl.metrics import MARGIN
from conrl.notebook import Columns, Display, Displayed, Framed
from conrl.wording import counted, line, listed, short

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes


# Of a study in a notebook: columns of the table, and their titles.
SHOWN = {
    **{name: name for name in ("environment", "algorithm", "seeds", "episodes", "reward")},
    "cost_name": "of cost",
    **{name: name for name in ("cost", "limit", "floor", "violations", "solved")},
    "cumulative_regret": "regret",
}


@dataclass(frozen=True)
class Failure:
    """A run that failed."""

    environment: str
    algorithm: str
    seed: int
    traceback: str

    def __repr__(self) -> str:
        lines = self.traceback.strip().splitlines()
        return line(self, self.environment, self.algorithm, f"seed {self.seed}", lines[-1] if lines else "")


@dataclass(frozen=True, eq=False)
class Study(Displayed, Framed):
    """All runs under a directory. `algorithms` and `environments` are in the order of the spec.

    As a data frame: those of all runs (`RunRecord`), one below the other: a row for each run, episode and total.
    `summary()` is the table of means over seeds.
    """

    directory: Path
    name: str
    title: str
    runs: list[RunRecord]
    failures: list[Failure]
    algorithms: list[str]
    titles: dict[str, str]  # of algorithms
    unreadable: list[str] = field(default_factory=list)  # runs that could not be read, and why
    whole: bool = False  # numbers are of all episodes of each run, not of those that all have
    _environments: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return line(self, f"{short(self.name)}: {counted(len(self.runs), 'run')} of {listed(self.algorithms)}{failed}")

    def _columns(self) -> Columns:
        parts = [run._columns() for run in self.runs]
        first = parts[0] if parts else {}
        return {
            name: np.concatenate([part[name] for part in parts])
            if isinstance(values, np.ndarray)
            else list(chain.from_iterable(part[name] for part in parts))
            for name, values in first.items()
        }

    def _display(self) -> Display:
        rows = self.rows()
        columns = {title: [row[name] for row in rows] for name, title in SHOWN.items()}
        failed = (f"{counted(len(self.failures), 'run')} failed",) if self.failures else ()
        notes = (*self.description, f"numbers over {self.over(*self.environments)}", *failed)
        return Display(f"Study {self.title}: {counted(len(self.runs), 'run')}", columns, notes)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        environment: str | None = None,
        measure: str = "reward",
        cost: str | None = None,
    ) -> Axes:
        """Draw one measure of every algorithm in an environment, mean and standard deviation over seeds.

        Args:
            ax: axes of matplotlib, by default those of a new figure; they are given back.
            environment: by default the first.
            measure: "reward", "cost", or of all trajectories so far "cumulative" (realised cost) or "regret".
            cost: which, by name; by default the first.
        """
        from conrl.experiments.figures import draw_measure  # here: it takes a study

        return draw_measure(self, ax, environment, measure, cost)

    @cached_property
    def environments(self) -> dict[str, Environment]:
        """By name, with the true optimum where the model is known."""
        order = dict.fromkeys([*self._environments, *(run.environment for run in self.runs)])
        played = {run.environment for run in self.runs}
        return {
            name: environment_of(name, self._environments.get(name, {}), self._in(name))
            for name in order
            if name in played
        }

    def _in(self, environment: str) -> list[RunRecord]:
        """All runs in an environment."""
        return [run for run in self.runs if run.environment == environment]

    def apart(self, environment: str) -> list[str]:
        """The algorithms that have another problem there than the environment shows: limits or budgets of their own."""
        found = apart(self._in(environment))
        return [name for name in self.algorithms if name in found]

    @property
    def description(self) -> list[str]:
        """What was run, in lines."""
        lines = []
        for name, env in self.environments.items():
            parts, apart = [], self.apart(name) if env.optimum is not None else []
            for algorithm in self.algorithms:
                if runs := self.select(name, algorithm):
                    short = sum(run.episodes < run.wanted for run in runs)
                    unfinished = f", {short} unfinished" if short else ""
                    most = max(run.episodes for run in runs)
                    seeds = counted(len(runs), "seed")
                    length = counted(most, "episode")
                    own = ", a problem of its own" if algorithm in apart else ""
                    parts.append(f"{self.titles[algorithm]} ({seeds}, {length}{unfinished}{own})")
            known = env.unknown if env.optimum is None else f"optimum {env.optimum.reward:.5g}"
            lines.append(f"{env.title}{f' ({known})' if known else ''}: {'; '.join(parts)}")
        return lines

    def select(self, environment: str, algorithm: str) -> list[RunRecord]:
        """Runs in the order of their seeds."""
        return [run for run in self.runs if (run.environment, run.algorithm) == (environment, algorithm)]

    def played(self, environment: str) -> dict[str, list[RunRecord]]:
        """By algorithm, in order: the runs that have begun, where there are any."""
        runs = {name: [run for run in self.select(environment, name) if run.episodes] for name in self.algorithms}
        return {name: begun for name, begun in runs.items() if begun}

    def compared(self, environment: str) -> dict[str, list[RunRecord]]:
        """The same over the episodes that all of them have; as they are if the study is `whole`."""
        played = self.played(environment)
        if self.whole:
            return played
        common = min((run.episodes for run in chain(*played.values())), default=0)
        return {name: [run.first(common) for run in runs] for name, runs in played.items()}

    def over(self, *environments: str) -> str:
        """Over which episodes algorithms are compared in these environments, in words."""
        told = {name: self._over(name) for name in environments}
        if len(set(told.values())) == 1:
            return next(iter(told.values()))
        return "; ".join(f"{self.environments[name].title}: {text}" for name, text in told.items())

    def _over(self, environment: str) -> str:
        lengths = {run.episodes for run in chain(*self.played(environment).values())}
        if len(lengths) == 1:
            return f"all {counted(lengths.pop(), 'episode')}"
        if self.whole or not lengths:
            return "all episodes of each run"
        return f"the first {counted(min(lengths), 'episode')}, which all runs have (the longest: {max(lengths):,})"

    def optimum(self, environment: str, algorithm: str) -> float | None:
        """The constrained optimum in the algorithm's own world: TFW-UCRL2's has no end."""
        return self._optima.get((environment, algorithm))

    def best_safe(self, environment: str, algorithm: str) -> float | None:
        """The reward of the best policy that keeps every limit with `conrl.metrics.MARGIN`, there; None also where no
        policy does."""
        return self._safest.get((environment, algorithm))

    @cached_property
    def _optima(self) -> dict[tuple[str, str], float]:
        return self._best(0.0)

    @cached_property
    def _safest(self) -> dict[tuple[str, str], float]:
        return self._best(MARGIN)

    def _best(self, margin: float) -> dict[tuple[str, str], float]:
        """By environment and algorithm, where it is known."""
        return {
            (env.name, algorithm): reward
            for env in self.environments.values()
            for algorithm, reward in best_rewards(env, self._in(env.name), margin).items()
        }

    def curves(
        self,
        environment: str,
        points: int = 200,
        average: bool = False,
        log: bool = False,
        at: Sequence[int] | Int | None = None,
    ) -> list[Curve]:
        """Every algorithm's curves in an environment.

        Args:
            environment: its name.
            points: at so many points along each algorithm's own trajectories,
            log: evenly on a logarithmic axis;
            at: or at these numbers of trajectories, the same for all, as far as each algorithm came.
            average: of all episodes so far, not of the last `conrl.metrics.WINDOW`.
        """
        if environment not in {run.environment for run in self.runs}:
            raise SpecError(f"no runs in {environment!r}; there are some in {', '.join(self.environments)}")
        played = self.played(environment)
        optima = {name: best for name in played if (best := self.optimum(environment, name)) is not None}
        return curves_of(environment, played, optima, points, average, log, at)

    def rows(self) -> list[dict[str, Any]]:
        """One for each environment, algorithm and cost, by the names of `COLUMNS`: numbers of runs, as means over
        seeds."""
        return [row for name in self.environments for row in self._rows_in(name)]

    def _rows_in(self, environment: str) -> Iterator[dict[str, Any]]:
        most = {name: max(run.episodes for run in runs) for name, runs in self.played(environment).items()}
        return rows_of(environment, most, self.compared(environment), self._numbers)

    def summary(self) -> polars.DataFrame:
        """The same as a table."""
        return frame(self.rows(), COLUMNS)

    def save_csv(self, path: str | Path, follow: bool = True) -> None:
        """The table as CSV; `follow`: as in `conrl.io.files.atomic_write`."""
        with atomic_write(path, follow) as file:
            pl = import_polars()
            cells = pl.col(pl.String).map_elements(to_cell, return_dtype=pl.String)
            file.write(self.summary().with_columns(cells).write_csv().encode())

    # -- every run ----------------------------------------------------------------------------------------

    def _numbers(self, run: RunRecord) -> tuple[Numbers, dict[str, Numbers]]:
        """What is told of a run, and of each of its costs."""
        best, safe = (of(run.environment, run.algorithm) for of in (self.optimum, self.best_safe))
        return of_run(run, best, safe), of_costs(run, best)

    def long_rows(self) -> Iterator[dict[str, Any]]:
        """One for each number of each run that has begun, by the names of `LONG`; what is unknown has no row."""
        for name in self.environments:
            for runs in self.compared(name).values():
                yield from long_rows_of(name, runs, self._numbers)

    def to_long(self) -> polars.DataFrame:
        """The same as a table: a row for each environment, algorithm, seed and metric."""
        return frame(list(self.long_rows()), LONG)

    def save_long(self, path: str | Path, follow: bool = True) -> None:
        """The same as CSV; `follow`: as in `conrl.io.files.atomic_write`."""
        rows = (["" if x is None else x for x in row.values()] for row in self.long_rows())
        with atomic_write(path, follow) as file:
            file.write(csv_text([list(LONG), *rows]).encode())

    # -- algorithms compared ------------------------------------------------------------------------------

    def scores(self, measure: str = "score") -> Table:
        """One measure of all runs that have begun, by environment, algorithm and seed.

        `measure` is "score", "excess_share", "distance", "strong_regret_share" or "strong_violation_share". An
        algorithm with a run of which it is unknown is left out of that environment.
        """
        return self._tables[compared(measure)]

    @cached_property
    def _tables(self) -> dict[Measure, Table]:
        runs = {name: self.compared(name) for name in self.environments}
        numbers = {run: self._numbers(run)[0] for own in runs.values() for run in chain(*own.values())}
        return {measure: comparison.table(runs, numbers, measure.name) for measure in COMPARED.values()}

    def aggregates(self, measure: str | None = None) -> list[Aggregate]:
        """Mean and interquartile mean of each algorithm with its interval, by one measure or by all of them: in all
        environments together (`environment` is None), then in each."""
        return list(comparison.aggregates(self._asked(measure), self.algorithms))

    def comparisons(self, measure: str | None = None) -> list[Comparison]:
        """Every two algorithms: their paired difference and the probability of improvement, with intervals; by one
        measure or by all of them, in all environments that both have, then in each."""
        return list(comparison.comparisons(self._asked(measure), self.algorithms))

    def profiles(
        self, measure: str = "score", environment: str | None = None, at: ArrayLike | None = None
    ) -> list[Profile]:
        """Each algorithm's performance profile.

        Args:
            measure: as in `scores`.
            environment: its name; all of them together unless given.
            at: the numbers to read it off at; by default wherever a profile changes.
        """
        table = self.scores(measure)
        if environment is not None and environment not in table:
            raise SpecError(unknown(f"environment with a {measure}", environment, table))
        return comparison.profiles(compared(measure), table, self.algorithms, environment, at)

    def left_out(self, measure: str = "score") -> dict[str, list[str]]:
        """The algorithms that are not aggregated over all environments, with those that they have no number in."""
        return comparison.left_out(self.scores(measure), self.algorithms)

    def _asked(self, measure: str | None) -> dict[Measure, Table]:
        """The tables of one measure, or of all."""
        return self._tables if measure is None else {compared(measure): self.scores(measure)}

"""What came of a study: curves over trajectories and a table, with intervals over seeds.

The unit is a seed: a mean, a standard deviation or an interval is over runs, never over episodes. Intervals are those
of `conrl.experiments.statistics`: there are none of fewer than 3 seeds. Algorithms that use different numbers of
trajectories are read off at common numbers of them.

Reward and cost are smoothed values, *cumulative* is the realised cost summed over all trajectories so far; these words
and the others of the table are defined in `conrl.metrics`. Algorithms are compared, over environments too, in
`conrl.experiments.comparison`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float, Int
from conrl.envs import naming
from conrl.errors import ConRLError, InfeasibleError, ModelWarning, RunError, SpecError, shown, unknown
from conrl.experiments import comparison
from conrl.experiments.comparison import Aggregate, Comparison, Profile, Table
from conrl.experiments.measures import COMPARED, Measure, Numbers, compared, of_costs, of_run
from conrl.experiments.records import RunRecord
from conrl.experiments.statistics import over_seeds
from conrl.experiments.store import digest
from conrl.io.cells import csv_text, to_cell
from conrl.io.files import atomic_write
from conrl.metrics import MARGIN
from conrl.model import ConstrainedMDP, transform
from conrl.model.limits import resolve_limits
from conrl.notebook import Columns, Framed, Sheet, Sheeted
from conrl.planners import Plan
from conrl.plugins import MODULE, load_function
from conrl.problem import Linear
from conrl.running.history import best_average, best_plan
from conrl.wording import counted, line, listed, short, totals

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes


# Of the table.
COLUMNS: dict[str, type] = {
    **dict.fromkeys(("environment", "algorithm"), str),
    **dict.fromkeys(("seeds", "episodes"), int),
    **dict.fromkeys(("reward", "reward_std", "reward_low", "reward_high"), float),
    "cost_name": str,
    **dict.fromkeys(("cost", "cost_std", "cost_low", "cost_high", "limit", "floor", "cumulative"), float),
    **dict.fromkeys(("violations", "violating", "strong_violation", "excess_slope", "solved"), float),
    "solved_seeds": int,
    **dict.fromkeys(("regret", "safe_regret", "strong_regret"), float),
    **dict.fromkeys(("last_iterate_reward", "last_iterate_shortfall"), float),
    **dict.fromkeys(("last_iterate_cost", "last_iterate_excess"), float),
    **dict.fromkeys(("average_policy_reward", "average_policy_cost"), float),
}
# Of the long table.
LONG: dict[str, type] = {
    **dict.fromkeys(("environment", "algorithm"), str),
    "seed": int,
    **dict.fromkeys(("metric", "cost_name"), str),
    "value": float,
}
# The numbers of several runs become their mean; these, their median.
OF_RUNS = (
    *("regret", "safe_regret", "strong_regret", "solved"),
    *("last_iterate_reward", "last_iterate_shortfall", "average_policy_reward"),
)
OF_COSTS = (
    *("cumulative", "violations", "violating", "strong_violation", "excess_slope"),
    *("last_iterate_cost", "last_iterate_excess", "average_policy_cost"),
)
MEDIANS = ("solved", "excess_slope")
# Of a study in a notebook: columns of the table, and their titles.
SHOWN = {
    **{name: name for name in ("environment", "algorithm", "seeds", "episodes", "reward")},
    "cost_name": "of cost",
    **{name: name for name in ("cost", "limit", "floor", "violations", "solved", "regret")},
}


@dataclass(frozen=True, eq=False)
class Environment:
    """Where runs were played; `mdp` and `optimum` are None where they cannot be known.

    `limits` and `floors` are the environment's own, and `optimum` is the best policy within them. An algorithm with
    budgets, or with limits on single episodes, has a problem of its own: its numbers are in its own rows. Where no
    algorithm has the environment's problem, it is the one that they all have; if they have several, there are no limits
    and no optimum here.
    """

    name: str
    title: str
    mdp: ConstrainedMDP | None
    cost_names: tuple[str, ...]
    limits: Float  # [d]; inf for none
    floors: Float  # [d]; -inf for none
    optimum: Plan | None
    unknown: str = ""  # why nothing is compared with a model that there was, or nothing with one optimum

    def __repr__(self) -> str:
        bounded = [i for i in range(len(self.cost_names)) if np.isfinite(self.floors[i])]
        floors = totals([self.cost_names[i] for i in bounded], self.floors[bounded])
        limits = f"limits {totals(self.cost_names, self.limits)}" if self.cost_names else ""
        best = "" if self.optimum is None else f"optimum {self.optimum.reward:.6g}"
        return line(self, self.name, limits, f"floors {floors}" if floors else "", best)


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
class Curve(Framed):
    """One measure of one algorithm over trajectories: mean, standard deviation and interval over seeds, [n] each.

    The interval, low and high, is nan where there are too few seeds. As a data frame: `trajectories`, `mean`, `std`,
    `low`, `high`.
    """

    environment: str
    algorithm: str
    measure: str  # "reward", "cost" or "cumulative"
    cost: str | None
    x: Float
    mean: Float
    std: Float
    low: Float
    high: Float
    seeds: int

    def __repr__(self) -> str:
        what = self.measure if self.cost is None else f"{self.measure} {self.cost}"
        return line(self, self.environment, self.algorithm, what, f"{self.x.size} points", counted(self.seeds, "seed"))

    def _columns(self) -> Columns:
        return {"trajectories": self.x, "mean": self.mean, "std": self.std, "low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False)
class Study(Sheeted, Framed):
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

    def _sheet(self) -> Sheet:
        rows = self.rows()
        columns = {title: [row[name] for row in rows] for name, title in SHOWN.items()}
        failed = (f"{counted(len(self.failures), 'run')} failed",) if self.failures else ()
        return Sheet(f"Study {self.title}: {counted(len(self.runs), 'run')}", columns, (*self.description, *failed))

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
            measure: "reward", "cost" or "cumulative" (realised cost of all trajectories so far).
            cost: which, by name; by default the first.
        """
        from conrl.experiments.figures import draw_measure  # here: it takes a study

        return draw_measure(self, ax, environment, measure, cost)

    @cached_property
    def environments(self) -> dict[str, Environment]:
        """By name, with the true optimum where the model is known."""
        order = dict.fromkeys([*self._environments, *(run.environment for run in self.runs)])
        played = {run.environment for run in self.runs}
        return {name: self._environment(name) for name in order if name in played}

    def _environment(self, name: str) -> Environment:
        """Where runs were played, with the problem that stands for it."""
        runs = self._in(name)
        reference = _reference(runs)
        asked = next((run for run in runs if run.problem is not None), None) if reference is None else reference
        names, d = runs[0].cost_names, len(runs[0].cost_names)
        limits, floors = np.full(d, np.inf), np.full(d, -np.inf)
        mdp = best = None
        unknown = ""
        if reference is None:
            unknown = "there is no one limit or optimum: each algorithm has a problem of its own"
        else:
            limits, floors = reference.limits, reference.floors
        if asked is not None and asked.problem is not None:
            try:
                model = self._model(asked).replace(limits=dict(zip(names, limits.tolist(), strict=True)))
                best = best_plan(model, asked.problem) if reference is not None else None
                mdp = model
            except (ConRLError, KeyError, TypeError, ValueError) as error:
                if "model" in asked.config:
                    why = _plugin(asked) or " ".join(str(error).split())
                    unknown = f"nothing is compared with the model: {why}"
        title = str(self._environments.get(name, {}).get("title", name))
        return Environment(name, title, mdp, names, limits, floors, best, unknown)

    def _model(self, run: RunRecord) -> ConstrainedMDP:
        """What a run was played in: the model is made again from the study's file, or else from the run's. One that is
        not what every run there was played in is refused."""
        about = self._environments.get(run.environment, {})
        settings = dict(about.get("settings", run.config.get("settings") or {}))
        settings["horizon"] = about.get("horizon") or run.config["learner"]["task"]["horizon"]
        name = str(about.get("env", run.config.get("env", run.environment)))
        if (cost := about.get("cost", run.config.get("cost"))) is not None:
            settings |= {"cost": load_function(cost, "cost", allowed=False), "cost_names": run.cost_names}
        start, within = (about.get(key, run.config.get(key)) for key in ("start", "normalize"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)  # said when it was played
            model = naming.model(name, None, start, settings, {}, installed=False, normalize=within)
        if not all(_was_played(model, other) for other in self._in(run.environment)):
            raise RunError("it is another one than was played")
        return model

    def _in(self, environment: str) -> list[RunRecord]:
        """All runs in an environment."""
        return [run for run in self.runs if run.environment == environment]

    def apart(self, environment: str) -> list[str]:
        """The algorithms that have another problem there than the environment shows: limits or budgets of their own."""
        runs = self._in(environment)
        reference = _reference(runs)
        own = None if reference is None else _question(reference, continuing=False)
        found = {run.algorithm for run in runs if _question(run, continuing=False) != own}
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
        """By environment and algorithm, where it is known; a question asked twice of a model is planned once.

        One algorithm's budgets do not limit the others: each is compared with what its own problem allows.
        """
        optima: dict[tuple[str, str], float] = {}
        for env in self.environments.values():
            if env.mdp is None:
                continue
            runs = [run for run in self._in(env.name) if run.problem is not None]
            planned: dict[tuple[Any, ...], float | None] = {}
            reference = _reference(self._in(env.name))
            if not margin and env.optimum is not None and reference is not None:
                planned[_question(reference, continuing=False)] = env.optimum.reward
            for run in runs:
                question = _question(run, run.continuing)
                if question not in planned:
                    planned[question] = _best_reward(env.mdp, run, margin)
                reward = planned[question]
                if reward is not None:
                    optima.setdefault((env.name, run.algorithm), reward)
        return optima

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
        curves = []
        for algorithm, runs in self.played(environment).items():
            least = min(run.episodes for run in runs)  # the longest part that all seeds have
            x = spaced(least, points, log) if at is None else _common(at, least)
            tables = (run.smoothed(run.values, run.episodes) if average else run.smooth for run in runs)
            sums = (np.cumsum(run.costs, axis=0) for run in runs)
            values = np.stack([np.hstack(both)[x - 1] for both in zip(tables, sums, strict=True)])  # [seeds, n, 1+2d]
            costs = [(measure, name) for measure in ("cost", "cumulative") for name in runs[0].cost_names]
            for i, (measure, name) in enumerate([("reward", None), *costs]):
                curves.append(_curve(environment, algorithm, measure, name, x, values[:, :, i]))
        return curves

    def rows(self) -> list[dict[str, Any]]:
        """One for each environment, algorithm and cost, by the names of `COLUMNS`: numbers of runs, as means over
        seeds."""
        return [row for name in self.environments for row in self._rows(name)]

    def summary(self) -> polars.DataFrame:
        """The same as a table."""
        return _frame(self.rows(), COLUMNS)

    def _rows(self, environment: str) -> Iterator[dict[str, Any]]:
        """Of each algorithm, a row for each cost."""
        for algorithm, runs in self.played(environment).items():
            final = np.stack([run.final for run in runs])
            spread = np.stack((final.mean(axis=0), _deviation(final), *over_seeds(final)[1:]))  # [4, 1+d]
            whole, costs = zip(*(self._numbers(run) for run in runs), strict=True)
            found = _together(whole, OF_RUNS)
            row = dict.fromkeys(COLUMNS) | {
                "environment": environment,
                "algorithm": algorithm,
                "seeds": len(runs),
                "episodes": max(run.episodes for run in runs),
                **_spread("reward", spread[:, 0]),
                **found,
                # The median over all seeds: a seed that did not solve it counts as longer than any.
                "solved": None if found["solved"] is None else _finite(found["solved"]),
                "solved_seeds": sum(one["solved"] not in (None, np.inf) for one in whole),
            }
            for i, name in enumerate(runs[0].cost_names):
                yield row | {
                    "cost_name": name,
                    **_spread("cost", spread[:, 1 + i]),
                    "limit": _finite(runs[0].limits[i]),
                    "floor": _finite(runs[0].floors[i]),
                    **_together([each[name] for each in costs], OF_COSTS),
                }
            if not runs[0].cost_names:
                yield row

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
        for environment in self.environments:
            for runs in self.played(environment).values():
                for run in runs:
                    whole, costs = self._numbers(run)
                    about = {"environment": environment, "algorithm": run.algorithm, "seed": run.seed}
                    for cost, numbers in ((None, whole), *costs.items()):
                        for metric, value in numbers.items():
                            if value is not None:
                                yield about | {"metric": metric, "cost_name": cost, "value": value}

    def to_long(self) -> polars.DataFrame:
        """The same as a table: a row for each environment, algorithm, seed and metric."""
        return _frame(list(self.long_rows()), LONG)

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
        played = {name: self.played(name) for name in self.environments}
        numbers = {run: self._numbers(run)[0] for runs in played.values() for run in chain(*runs.values())}
        return {measure: comparison.table(played, numbers, measure.name) for measure in COMPARED.values()}

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


def _reference(runs: Sequence[RunRecord]) -> RunRecord | None:
    """Of the runs in an environment one whose problem stands for it: one that has the environment's own or, if none
    has, any if all have the same; None if they have several."""
    own = next((run for run in runs if _has_own_problem(run)), None)
    return runs[0] if own is None and len({_question(run, continuing=False) for run in runs}) == 1 else own


def _has_own_problem(run: RunRecord) -> bool:
    """Whether a run has no other problem than its environment: the limits and floors there, on expected totals."""
    if not isinstance(run.problem, Linear) or run.problem.on_episodes:
        return False
    given = run.config.get("learner", {}).get("task", {}).get("limits")
    try:
        return given is None or np.array_equal(resolve_limits(given, run.cost_names, "limits"), run.limits)
    except ConRLError:
        return False


def _question(run: RunRecord, continuing: bool) -> tuple[Any, ...]:
    """Tells apart what runs in one environment ask of its model: under budgets, episodes may also be skipped."""
    more = ("per_step", "never", "chance", "cvar", "grid")
    finer = repr([getattr(run.problem, name, None) for name in more])
    return continuing, type(run.problem), run.limits.tobytes(), run.floors.tobytes(), finer


def _plugin(run: RunRecord) -> str:
    """What to import for the model of a run, if that is of a plug-in which is not loaded; its files import nothing."""
    plugins = run.config.get("plugins")
    about = plugins.get("environment") or plugins.get("cost") if isinstance(plugins, dict) else None
    module = about.get("module") if isinstance(about, dict) else None
    if not isinstance(module, str) or not MODULE.fullmatch(module) or module in sys.modules:
        return ""
    return f"it is of the plug-in {module}, and a file loads none; say --import {module} (in Python import it first)"


def _was_played(mdp: ConstrainedMDP, run: RunRecord) -> bool:
    """Whether a run was played in this model, as far as its settings tell."""
    if "model" not in run.config:
        return True
    world = transform.reachable_part(transform.single_episode(mdp)) if run.continuing else mdp
    return bool(digest(world) == run.config["model"])


def _best_reward(mdp: ConstrainedMDP, run: RunRecord, margin: float = 0.0) -> float | None:
    """The most that a run could earn in an episode, within its limits or budgets; None if no policy keeps them."""
    assert run.problem is not None
    try:
        if run.continuing:
            endless = transform.reachable_part(transform.single_episode(mdp))
            return best_average(endless, run.problem, margin).reward
        return best_plan(mdp, run.problem, margin).reward
    except (InfeasibleError, RunError):
        return None


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _spread(name: str, numbers: Float) -> dict[str, float | None]:
    """Mean, deviation and interval; without the latter where there are too few seeds."""
    keys = (name, f"{name}_std", f"{name}_low", f"{name}_high")
    return {key: _finite(x) for key, x in zip(keys, numbers.tolist(), strict=True)}


def _together(runs: Sequence[Numbers], keys: Sequence[str]) -> Numbers:
    """The numbers of several runs as one; None if one of them is unknown."""
    found: Numbers = {}
    for key in keys:
        column = [x for one in runs if (x := one[key]) is not None]
        whole = np.median if key in MEDIANS else np.mean
        found[key] = float(whole(column)) if len(column) == len(runs) else None
    return found


def _frame(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, type]) -> polars.DataFrame:
    pl = import_polars()
    schema = {name: {str: pl.String, int: pl.Int64, float: pl.Float64}[kind] for name, kind in columns.items()}
    table: polars.DataFrame = pl.DataFrame(rows, schema=schema, orient="row")
    return table


def spaced(episodes: int, points: int, log: bool = False) -> Int:
    """At most so many numbers of trajectories, the first and the last among them."""
    numbers = np.geomspace(1, episodes, points) if log else np.linspace(1, episodes, points)
    return np.unique(np.round(numbers).astype(np.int64))


def _common(at: Sequence[int] | Int, episodes: int) -> Int:
    numbers = np.asarray(at)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or (numbers.size and numbers.min() < 1):
        raise SpecError(f"at is {shown(at)}; it must be numbers of trajectories, from 1")
    return numbers[numbers <= episodes].astype(np.int64)


def _curve(environment: str, algorithm: str, measure: str, cost: str | None, at: Int, y: Float) -> Curve:
    x = at.astype(np.float64)
    low, high = over_seeds(y)[1:]
    return Curve(environment, algorithm, measure, cost, x, y.mean(axis=0), _deviation(y), low, high, len(y))


def _deviation(values: Float) -> Float:
    """The standard deviation over the first axis (seeds); 0 for one seed."""
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def import_polars() -> Any:
    try:
        import polars
    except ImportError as error:
        raise SpecError(f"tables need the extra: pip install 'conrl[report]' ({error})") from None
    return polars

"""What came of a study: curves over trajectories and a table, with intervals over seeds.

The unit is a seed: a mean, a standard deviation or an interval is over runs, never over episodes. Intervals are 95%
percentile intervals of the bootstrap over seeds. Algorithms that use different numbers of trajectories are read off at
common numbers of them.

Reward and cost are smoothed values, *cumulative* is the realised cost summed over all trajectories so far; these words
and the others of the table are defined in `conrl.metrics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl._types import Float, Int
from conrl.arguments import check_text
from conrl.envs import naming
from conrl.errors import ConRLError, RunError, SpecError, shown
from conrl.experiments.records import RunRecord, read_run
from conrl.experiments.store import FAILED, STUDY, own_file, read_json
from conrl.io.cells import to_cell
from conrl.io.files import atomic_write, refuse_links
from conrl.learners.saving import DAMAGED
from conrl.model import ConstrainedMDP, transform
from conrl.planners import Plan
from conrl.planners.long_run import long_run_optimum
from conrl.running.history import best_plan

if TYPE_CHECKING:
    import polars


RESAMPLES = 2000
CONFIDENCE = 0.95
LONGEST_TRACEBACK = 100_000  # bytes


@dataclass(frozen=True, eq=False)
class Environment:
    """Where runs were played; `mdp` and `optimum` are None where they cannot be known."""

    name: str
    title: str
    mdp: ConstrainedMDP | None
    cost_names: tuple[str, ...]
    limits: Float
    optimum: Plan | None


@dataclass(frozen=True)
class Failure:
    """A run that failed."""

    environment: str
    algorithm: str
    seed: int
    traceback: str


@dataclass(frozen=True, eq=False)
class Curve:
    """One measure of one algorithm over trajectories: mean, standard deviation and interval over seeds, [n] each."""

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
        return f"Curve({self.environment}, {self.algorithm}, {what}, {self.x.size} points, {self.seeds} seeds)"


@dataclass(frozen=True, eq=False)
class Study:
    """All runs under a directory. `algorithms` and `environments` are in the order of the spec."""

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
        return f"Study({self.name}: {len(self.runs)} runs of {', '.join(self.algorithms)}{failed})"

    @cached_property
    def environments(self) -> dict[str, Environment]:
        """By name, with the true optimum where the model is known."""
        first = {run.environment: run for run in reversed(self.runs)}
        order = dict.fromkeys([*self._environments, *(run.environment for run in self.runs)])
        return {name: self._environment(first[name]) for name in order if name in first}

    def _environment(self, run: RunRecord) -> Environment:
        """Where a run was played: its model is made again from the study's file, or else from the run's."""
        about = self._environments.get(run.environment, {})
        mdp = best = None
        if run.problem is not None:
            with suppress(ConRLError, KeyError, TypeError, ValueError):
                settings = dict(about.get("settings", run.config.get("settings") or {}))
                settings["horizon"] = about.get("horizon") or run.config["learner"]["task"]["horizon"]
                name = str(about.get("env", run.config.get("env", run.environment)))
                model = naming.model(name, None, about.get("start", run.config.get("start")), settings, {})
                model = model.replace(limits=dict(zip(run.cost_names, run.limits.tolist(), strict=True)))
                best, mdp = best_plan(model, run.problem), model
        title = str(about.get("title", run.environment))
        return Environment(run.environment, title, mdp, run.cost_names, run.limits, best)

    @property
    def description(self) -> list[str]:
        """What was run, in lines."""
        lines = []
        for name, env in self.environments.items():
            parts = []
            for algorithm in self.algorithms:
                if runs := self.select(name, algorithm):
                    short = sum(run.episodes < run.wanted for run in runs)
                    unfinished = f", {short} unfinished" if short else ""
                    most = max(run.episodes for run in runs)
                    seeds = f"{len(runs)} seed{'s' if len(runs) > 1 else ''}"
                    parts.append(f"{self.titles[algorithm]} ({seeds}, {most:,} episodes{unfinished})")
            best = "" if env.optimum is None else f" (optimum {env.optimum.reward:.4f})"
            lines.append(f"{env.title}{best}: {'; '.join(parts)}")
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

    @cached_property
    def _optima(self) -> dict[tuple[str, str], float]:
        """By environment and algorithm, where the model is known; a question asked twice of a model is planned once.

        One algorithm's budgets do not limit the others: each is compared with what its own problem allows.
        """
        optima: dict[tuple[str, str], float] = {}
        for env in self.environments.values():
            if env.mdp is None or env.optimum is None:
                continue
            runs = [run for run in self.runs if run.environment == env.name and run.problem is not None]
            planned = {_question(runs[0], continuing=False): env.optimum.reward}
            for run in runs:
                question = _question(run, run.continuing)
                if question not in planned:
                    planned[question] = _best_reward(env.mdp, run)
                optima.setdefault((env.name, run.algorithm), planned[question])
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

    def summary(self) -> polars.DataFrame:
        """One row for each environment, algorithm and cost."""
        pl = import_polars()
        rows = [row for environment in self.environments for row in self._rows(environment)]
        numbers = ("cost", "cost_std", "cost_low", "cost_high", "limit", "floor", "cumulative")
        schema = {
            **dict.fromkeys(("environment", "algorithm"), pl.String),
            **dict.fromkeys(("seeds", "episodes"), pl.Int64),
            **dict.fromkeys(("reward", "reward_std", "reward_low", "reward_high"), pl.Float64),
            "cost_name": pl.String,
            **dict.fromkeys((*numbers, "violations", "strong_violation", "solved"), pl.Float64),
            "solved_seeds": pl.Int64,
            **dict.fromkeys(("regret", "strong_regret"), pl.Float64),
        }
        table: polars.DataFrame = pl.DataFrame(rows, schema=schema, orient="row")
        return table

    def _rows(self, environment: str) -> Iterator[tuple[Any, ...]]:
        """The rows of an environment, in the order of `summary`'s columns: the numbers of runs, as means over seeds."""
        for algorithm, runs in self.played(environment).items():
            best = self.optimum(environment, algorithm)
            final = np.stack([run.final for run in runs])
            spread = np.stack((final.mean(axis=0), _deviation(final), *bootstrap(final)))  # [4, 1+d]
            solved = [run.solved_from(best) for run in runs]
            # The median over all seeds: a seed that did not solve it counts as longer than any.
            middle = float(np.median([np.inf if s is None else s for s in solved]))
            regret = None if best is None else float(np.mean([best - run.mean_reward for run in runs]))
            strong = None if best is None else _mean_total(run.strong_regret(best) for run in runs)
            head = (environment, algorithm, len(runs), max(run.episodes for run in runs), *spread[:, 0].tolist())
            tail = (_finite(middle), sum(s is not None for s in solved), regret, strong)
            over = np.mean([run.violations for run in runs], axis=0)
            excess = _mean_total(run.strong_violation for run in runs)
            sums = np.mean([run.costs.sum(axis=0) for run in runs], axis=0)
            for i, name in enumerate(runs[0].cost_names):
                bounds = (_finite(runs[0].limits[i]), _finite(runs[0].floors[i]))
                numbers = (*spread[:, 1 + i].tolist(), *bounds, float(sums[i]), float(over[i]))
                yield *head, name, *numbers, None if excess is None else float(excess[i]), *tail
            if not runs[0].cost_names:
                yield *head, *(None,) * 10, *tail

    def save_csv(self, path: str | Path, follow: bool = True) -> None:
        """The table as CSV; `follow`: as in `conrl.io.files.atomic_write`."""
        with atomic_write(path, follow) as file:
            pl = import_polars()
            cells = pl.col(pl.String).map_elements(to_cell, return_dtype=pl.String)
            file.write(self.summary().with_columns(cells).write_csv().encode())


def _question(run: RunRecord, continuing: bool) -> tuple[Any, ...]:
    """Tells apart what runs in one environment ask of its model: under budgets, episodes may also be skipped."""
    return continuing, type(run.problem), run.limits.tobytes(), run.floors.tobytes()


def _best_reward(mdp: ConstrainedMDP, run: RunRecord) -> float:
    """The most that a run could earn in an episode, within its limits or budgets."""
    if run.continuing:
        endless = transform.reachable_part(transform.single_episode(mdp))
        return long_run_optimum(endless, run.limits).reward
    assert run.problem is not None
    return best_plan(mdp, run.problem).reward


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _mean_total(sums: Iterable[Float | None]) -> Any:
    """The mean over runs of where running sums end; None if one is unknown."""
    ends: list[Any] = [None if values is None else values[-1] for values in sums]
    return None if any(end is None for end in ends) else np.mean(ends, axis=0)


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
    return Curve(environment, algorithm, measure, cost, x, y.mean(axis=0), _deviation(y), *bootstrap(y), len(y))


def _deviation(values: Float) -> Float:
    """The standard deviation over the first axis (seeds); 0 for one seed."""
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def bootstrap(values: Float) -> tuple[Float, Float]:
    """A 95% percentile interval of the mean over the first axis (seeds); the value itself for one seed."""
    n = len(values)
    if n == 1:
        return values[0], values[0]
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), RESAMPLES) / n  # [resamples, n]
    means = drawn @ values.reshape(n, -1)
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(means, (tail, 100.0 - tail), axis=0)
    return low.reshape(values.shape[1:]), high.reshape(values.shape[1:])


def import_polars() -> Any:
    try:
        import polars
    except ImportError as error:
        raise SpecError(f"tables need the extra: pip install 'conrl[report]' ({error})") from None
    return polars


# -- reading ----------------------------------------------------------------------------------------------


def load(directory: str | Path) -> Study:
    """All runs under a directory that `conrl run`, `reproduce` or `learn --out` wrote, finished or not."""
    root = Path(directory)
    if not root.is_dir():
        raise RunError(f"no such directory: {root}")
    about = read_json(root / STUDY) if (root / STUDY).exists() else {}
    environments, algorithms = _entries(about, "environments"), _entries(about, "algorithms")
    environment_of, algorithm_of = _by_directory(environments), _by_directory(algorithms)
    read: list[RunRecord | Failure] = []
    unreadable = []
    for where in sorted(root.glob("*/*/seed-*")):
        environment, algorithm = where.parent.parent.name, where.parent.name
        names = environment_of.get(environment, environment), algorithm_of.get(algorithm, algorithm)
        try:
            seed = int(where.name.removeprefix("seed-"))
        except ValueError:
            continue
        try:
            read += _read(root, where, *names, seed)
        except DAMAGED as error:
            unreadable.append(f"{where}: {' '.join(str(error).split())}")
    if not read:
        why = f"; {unreadable[0]}" if unreadable else ""
        raise RunError(f"{root} holds no runs: no ENVIRONMENT/ALGORITHM/seed-000/progress.csv{why}")
    runs = [one for one in read if isinstance(one, RunRecord)]
    failures = [one for one in read if isinstance(one, Failure)]
    played = dict.fromkeys(run.algorithm for run in runs)
    order = [name for name in dict.fromkeys((*algorithms, *played)) if name in played]
    runs.sort(key=lambda run: (run.environment, order.index(run.algorithm), run.seed))
    titles = {name: str(algorithms.get(name, {}).get("title", name)) for name in order}
    name = str(about.get("name") or root.resolve().name)
    title = str(about.get("title") or name)
    return Study(root, name, title, runs, failures, order, titles, unreadable, environments)


def _read(root: Path, where: Path, environment: str, algorithm: str, seed: int) -> Iterator[RunRecord | Failure]:
    """What one directory holds: why the run failed, and what it played; one of them, both or none."""
    for name in (environment, algorithm):
        check_text(name, "its path")
    refuse_links(where, root)
    if (where / FAILED).exists():
        yield Failure(environment, algorithm, seed, _start_of(where / FAILED))
    if (where / "progress.csv").exists() and (where / "config.json").exists():
        yield read_run(where, environment, algorithm, seed)


def _start_of(path: Path) -> str:
    """As much of a traceback as anybody reads."""
    with own_file(path), path.open("rb") as file:
        return file.read(LONGEST_TRACEBACK).decode(errors="replace")


def _by_directory(entries: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Names by those of their directories, which may be shorter."""
    return {str(entry.get("directory", name)): name for name, entry in entries.items()}


def _entries(about: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """What a study's file says of its environments or algorithms, by name; the file may hold anything."""
    table = about.get(kind)
    return {n: e for n, e in table.items() if isinstance(e, dict)} if isinstance(table, dict) else {}

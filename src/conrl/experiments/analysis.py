"""What came of a study: curves over trajectories and a table, with intervals over seeds.

The unit is a seed: a mean, a standard deviation or an interval is over runs, never over episodes. Intervals are 95%
percentile intervals of the bootstrap over seeds. Algorithms that use different numbers of trajectories are read off at
common numbers of them.

Reward and cost are smoothed values, *cumulative* is the realised cost summed over all trajectories so far; these words
and the others of the table are defined in `conrl.metrics`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl._types import Float, Int
from conrl.arguments import check_text
from conrl.envs import naming
from conrl.errors import ConRLError, InfeasibleError, RunError, SpecError, shown
from conrl.experiments.records import RunRecord, read_run
from conrl.experiments.store import FAILED, STUDY, digest, own_file, read_json
from conrl.io.cells import to_cell
from conrl.io.files import atomic_write, refuse_links
from conrl.learners.saving import DAMAGED
from conrl.metrics import MARGIN
from conrl.model import ConstrainedMDP, transform
from conrl.notebook import Columns, Framed, Sheet, Sheeted
from conrl.planners import Plan
from conrl.running.history import best_average, best_plan
from conrl.wording import line, listed, short, totals

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes


RESAMPLES = 2000
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
# Of a study in a notebook: columns of the table, and their titles.
SHOWN = {
    **{name: name for name in ("environment", "algorithm", "seeds", "episodes", "reward")},
    "cost_name": "of cost",
    **{name: name for name in ("cost", "limit", "violations", "solved", "regret")},
}
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
    unknown: str = ""  # why nothing is compared with a model that there was

    def __repr__(self) -> str:
        best = "" if self.optimum is None else f"optimum {self.optimum.reward:.6g}"
        return line(self, self.name, f"limits {totals(self.cost_names, self.limits)}" if self.cost_names else "", best)


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

    As a data frame: `trajectories`, `mean`, `std`, `low`, `high`.
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
        return line(self, self.environment, self.algorithm, what, f"{self.x.size} points", f"{self.seeds} seeds")

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
        return line(self, f"{short(self.name)}: {len(self.runs)} runs of {listed(self.algorithms)}{failed}")

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
        failed = (f"{len(self.failures)} runs failed",) if self.failures else ()
        return Sheet(f"Study {self.title}: {len(self.runs)} runs", columns, (*self.description, *failed))

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
        first = {run.environment: run for run in reversed(self.runs)}
        order = dict.fromkeys([*self._environments, *(run.environment for run in self.runs)])
        return {name: self._environment(first[name]) for name in order if name in first}

    def _environment(self, run: RunRecord) -> Environment:
        """Where a run was played: its model is made again from the study's file, or else from the run's. A model that
        is not the one that was played is none."""
        about = self._environments.get(run.environment, {})
        mdp = best = None
        unknown = ""
        if run.problem is not None:
            try:
                settings = dict(about.get("settings", run.config.get("settings") or {}))
                settings["horizon"] = about.get("horizon") or run.config["learner"]["task"]["horizon"]
                name = str(about.get("env", run.config.get("env", run.environment)))
                model = naming.model(name, None, about.get("start", run.config.get("start")), settings, {})
                if not all(_was_played(model, other) for other in self.runs if other.environment == run.environment):
                    raise RunError("it is another one than was played")
                model = model.replace(limits=dict(zip(run.cost_names, run.limits.tolist(), strict=True)))
                best, mdp = best_plan(model, run.problem), model
            except (ConRLError, KeyError, TypeError, ValueError) as error:
                if "model" in run.config:
                    unknown = f"nothing is compared with the model: {' '.join(str(error).split())}"
        title = str(about.get("title", run.environment))
        return Environment(run.environment, title, mdp, run.cost_names, run.limits, best, unknown)

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
            known = env.unknown if env.optimum is None else f"optimum {env.optimum.reward:.4f}"
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
            if env.mdp is None or env.optimum is None:
                continue
            runs = [run for run in self.runs if run.environment == env.name and run.problem is not None]
            planned: dict[tuple[Any, ...], float | None] = {}
            if not margin:
                planned[_question(runs[0], continuing=False)] = env.optimum.reward
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
        pl = import_polars()
        schema = {name: {str: pl.String, int: pl.Int64, float: pl.Float64}[kind] for name, kind in COLUMNS.items()}
        table: polars.DataFrame = pl.DataFrame(self.rows(), schema=schema, orient="row")
        return table

    def _rows(self, environment: str) -> Iterator[dict[str, Any]]:
        """Of each algorithm, a row for each cost."""
        for algorithm, runs in self.played(environment).items():
            best, safe = self.optimum(environment, algorithm), self.best_safe(environment, algorithm)
            final = np.stack([run.final for run in runs])
            spread = np.stack((final.mean(axis=0), _deviation(final), *bootstrap(final)))  # [4, 1+d]
            solved = [run.solved_from(best) for run in runs]
            # The median over all seeds: a seed that did not solve it counts as longer than any.
            middle = float(np.median([np.inf if s is None else s for s in solved]))
            last, average = [run.last_iterate(best) for run in runs], [run.average_policy(best) for run in runs]
            last_value, average_value = (_mean(x and x.value for x in each) for each in (last, average))
            earned = np.mean([run.mean_reward for run in runs])
            row = dict.fromkeys(COLUMNS) | {
                "environment": environment,
                "algorithm": algorithm,
                "seeds": len(runs),
                "episodes": max(run.episodes for run in runs),
                **_spread("reward", spread[:, 0]),
                "solved": _finite(middle),
                "solved_seeds": sum(s is not None for s in solved),
                "regret": None if best is None else float(best - earned),
                "safe_regret": None if safe is None else float(safe - earned),
                "strong_regret": None if best is None else _mean(_end(run.strong_regret(best)) for run in runs),
                "last_iterate_reward": _entry(last_value, 0),
                "last_iterate_shortfall": _mean(x and x.shortfall for x in last),
                "average_policy_reward": _entry(average_value, 0),
            }
            over = np.mean([run.violations for run in runs], axis=0)
            sums = np.mean([run.costs.sum(axis=0) for run in runs], axis=0)
            violating = _mean(run.violating() for run in runs)
            strong = _mean(_end(run.strong_violation) for run in runs)
            slope = _mean((run.excess_slope for run in runs), np.median)
            excess = _mean(x and x.excess for x in last)
            for i, name in enumerate(runs[0].cost_names):
                yield row | {
                    "cost_name": name,
                    **_spread("cost", spread[:, 1 + i]),
                    "limit": _finite(runs[0].limits[i]),
                    "floor": _finite(runs[0].floors[i]),
                    "cumulative": float(sums[i]),
                    "violations": float(over[i]),
                    "violating": _entry(violating, i),
                    "strong_violation": _entry(strong, i),
                    "excess_slope": _entry(slope, i),
                    "last_iterate_cost": _entry(last_value, 1 + i),
                    "last_iterate_excess": _entry(excess, i),
                    "average_policy_cost": _entry(average_value, 1 + i),
                }
            if not runs[0].cost_names:
                yield row

    def save_csv(self, path: str | Path, follow: bool = True) -> None:
        """The table as CSV; `follow`: as in `conrl.io.files.atomic_write`."""
        with atomic_write(path, follow) as file:
            pl = import_polars()
            cells = pl.col(pl.String).map_elements(to_cell, return_dtype=pl.String)
            file.write(self.summary().with_columns(cells).write_csv().encode())


def _question(run: RunRecord, continuing: bool) -> tuple[Any, ...]:
    """Tells apart what runs in one environment ask of its model: under budgets, episodes may also be skipped."""
    more = ("per_step", "never", "chance", "cvar", "grid")
    finer = repr([getattr(run.problem, name, None) for name in more])
    return continuing, type(run.problem), run.limits.tobytes(), run.floors.tobytes(), finer


def _was_played(mdp: ConstrainedMDP, run: RunRecord) -> bool:
    """Whether a run was played in this model, as far as its settings tell."""
    if "model" not in run.config:
        return True
    world = transform.reachable_part(transform.single_episode(mdp)) if run.continuing else mdp
    return bool(digest(world) == run.config["model"])


def _best_reward(mdp: ConstrainedMDP, run: RunRecord, margin: float = 0.0) -> float | None:
    """The most that a run could earn in an episode, within its limits or budgets; None if no margin is kept."""
    assert run.problem is not None
    try:
        if run.continuing:
            endless = transform.reachable_part(transform.single_episode(mdp))
            return best_average(endless, run.problem, margin).reward
        return best_plan(mdp, run.problem, margin).reward
    except (InfeasibleError, RunError):
        if margin:
            return None
        raise


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _spread(name: str, numbers: Float) -> dict[str, float]:
    keys = (name, f"{name}_std", f"{name}_low", f"{name}_high")
    return dict(zip(keys, numbers.tolist(), strict=True))


def _end(sums: Float | None) -> Any:
    """Where running sums end."""
    return None if sums is None else sums[-1]


def _mean(numbers: Iterable[Any], mean: Callable[..., Any] = np.mean) -> Any:
    """Over runs; None if one is unknown."""
    known = list(numbers)
    return None if any(x is None for x in known) else mean(known, axis=0)


def _entry(values: Float | None, i: int) -> float | None:
    """One of them; None where it is unknown."""
    return None if values is None or np.isnan(values[i]) else float(values[i])


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
        if any(root.glob("*/*/seed-*/curve.csv")):
            raise RunError(f"{root} holds runs in blocks, whose table is summary.csv; a report needs runs by episodes")
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

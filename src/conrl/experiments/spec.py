"""Specs of studies: environments x algorithms x seeds, in TOML.

    name = "rover"
    episodes = 2000
    seeds = 10                        # 0..9, or a list

    [environment.mars-rover]
    set = { rock_reward = 1.0 }       # also model, limits, horizon, start, reward_range, cost_ranges

    [algorithm.conrl]

    [algorithm.rcpo]                  # also learner, preset, episodes, seeds, environments, pay, budgets, epsilon
    options = { rate = 1e-3 }
    [algorithm.rcpo.on.box]           # what is different in one environment
    options = { rate = 1e-2 }

A table's name is the name of the model or the learner unless `model` or `learner` says otherwise. Everything is checked
before anything runs: `SpecMistakes.mistakes` has a line of the file and a suggestion for each.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from conrl.arguments import is_int
from conrl.errors import ConRLError, SpecError, unknown
from conrl.experiments.jobs import Job
from conrl.experiments.spec_keys import (
    ALGORITHM,
    ENVIRONMENT,
    OVERRIDES,
    TOP,
    TUNE,
    Check,
    is_choices,
    is_interval,
    is_table,
    is_texts,
)
from conrl.experiments.store import environment_directory, safe_name
from conrl.experiments.toml_lines import Lines, paths
from conrl.io import is_model_file
from conrl.io.files import MAX_DEPTH, TOO_DEEP, check_depth, read_bytes

MOST_RUNS = 100_000
LARGEST_FILE = 1 << 20
LONGEST_NAME = 200  # bytes
NAME = re.compile(r"[^\x00-\x1f\x7f/\\]{1,100}")
# `tomllib` takes quadratic time for a.b.c...; a part begins where no letter stands before it, so that this is linear.
DEEP_KEY = re.compile(
    rf"""(?<![\w-])(?:(?:"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'|[\w-]++)[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}""", re.ASCII
)
# Words that messages hold by chance.
UNTOLD = {"title", "episodes", "seeds", "environments", "learner", "model", "on", "set", "limits", "options", "name"}


class SpecMistakes(SpecError):
    """Everything that is wrong with a spec, a line each."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.mistakes,)


@dataclass(frozen=True)
class Spec:
    """A study. `environments` and `algorithms` hold the tables of the file; `jobs` what follows from them."""

    name: str
    title: str
    environments: dict[str, dict[str, Any]]
    algorithms: dict[str, dict[str, Any]]
    jobs: list[Job]
    tune: dict[str, Any] = field(default_factory=dict)
    source: str = field(default="spec", compare=False)  # the name of the file
    lines: Lines | None = field(default=None, compare=False, repr=False)

    def mistake(self, path: tuple[str, ...], message: str) -> SpecMistakes:
        """What is wrong with a key, to be raised; with the line where it stands."""
        line = "" if self.lines is None else f":{self.lines.of(path)}"
        return SpecMistakes([f"{self.source}{line}: {message}"])

    def titles(self) -> dict[str, dict[str, str]]:
        """What environments and algorithms are called in figures."""
        tables = {"environments": self.environments, "algorithms": self.algorithms}
        return {kind: {name: t.get("title", name) for name, t in found.items()} for kind, found in tables.items()}


def load_spec(path: str | Path, allow_import: bool = False) -> Spec:
    """Read and check a spec; `SpecMistakes` names the line of everything that is wrong.

    Models in files are found beside the spec. `model = "gymnasium:<module>:<id>"` runs the code of a module, which a
    file alone cannot ask for: `allow_import` does.
    """
    path = Path(path)
    data = read_bytes(path, LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise SpecError(f"{path}: larger than {LARGEST_FILE:,} bytes; this is no spec")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8: {error}") from None
    return parse_spec(text, str(path), path.parent, allow_import)


def builtin_spec(name: str) -> Spec:
    """One of the studies that come with the package, such as "figure1"."""
    folder = resources.files("conrl.experiments") / "specs"
    known = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    if name not in known:
        raise SpecError(unknown("study", name, known))
    return parse_spec((folder / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml", Path())


def parse_spec(text: str, source: str = "spec", folder: Path | None = None, allow_import: bool = False) -> Spec:
    """A spec from its text; `allow_import` as in `load_spec`."""
    if DEEP_KEY.search(text):
        raise SpecError(f"{source}: a key of more than {MAX_DEPTH} parts; this is no spec")
    try:
        data = tomllib.loads(text)
        check_depth(data)
    except RecursionError:
        raise SpecError(f"{source}: not TOML: {TOO_DEEP}") from None
    except ValueError as error:  # a number of thousands of digits is a plain ValueError
        found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
        where, why = (f"{source}:{found[2]}", f"{found[1]}, column {found[3]}") if found else (source, str(error))
        raise SpecError(f"{where}: not TOML: {why}") from None
    return _Reader(data, text, source, Path() if folder is None else folder, allow_import).read()


class _Reader:
    """Checks the tables of a spec and collects what is wrong."""

    def __init__(self, data: dict[str, Any], text: str, source: str, folder: Path, allow_import: bool) -> None:
        self.data, self.source, self.folder, self.allow_import = data, source, folder, allow_import
        self.lines = Lines(text)
        self.mistakes: list[tuple[tuple[str, ...], str]] = []

    def complain(self, path: tuple[str, ...], message: str) -> None:
        self.mistakes.append((path, message))

    def sound(self, *path: str) -> bool:
        """Whether nothing is wrong in a table, so that more can be said about what it asks for."""
        return not any(where[: len(path)] == path for where, _ in self.mistakes)

    def read(self) -> Spec:
        data = self.data
        self.keys((), data, TOP)
        environments, algorithms = self.tables("environment", ENVIRONMENT), self.tables("algorithm", ALGORITHM)
        for name, table in algorithms.items():
            self.algorithm(name, table, environments)
        self.tune(data.get("tune"))
        jobs = list(self.jobs(environments, algorithms))
        self.try_all(jobs)
        self.stop()
        if not jobs:
            raise SpecError(f"{self.source}: nothing to run: no algorithm runs in any environment")
        name = str(data.get("name", Path(self.source).stem))
        title, tune = str(data.get("title", name)), data.get("tune", {})
        return Spec(name, title, environments, algorithms, jobs, tune, self.source, self.lines)

    def stop(self) -> None:
        if self.mistakes:
            found = sorted((self.lines.of(path), message) for path, message in self.mistakes)
            seen = dict.fromkeys(f"{self.source}:{line}: {message}" for line, message in found)
            raise SpecMistakes(list(seen))

    def keys(self, path: tuple[str, ...], table: Mapping[str, Any], checks: Mapping[str, Check]) -> None:
        """Refuse keys that mean nothing and values of the wrong kind."""
        for key, value in table.items():
            if key not in checks:
                self.complain((*path, key), unknown("key", key, checks))
            elif not checks[key][0](value):
                self.complain((*path, key), f"{key} is {_short(value)}; it must be {checks[key][1]}")

    def tables(self, kind: str, checks: Mapping[str, Check]) -> dict[str, dict[str, Any]]:
        """The tables [kind.name]."""
        found = self.data.get(kind, {})
        if not isinstance(found, dict):
            return {}
        if not found and self.data.keys() <= TOP.keys():  # else a misspelt one
            self.complain((kind,), f"a study needs at least one table [{kind}.NAME]")
        good = {}
        safe: dict[str, str] = {}
        for name, table in found.items():
            if not isinstance(table, dict):
                self.complain((kind, name), f"{kind}.{name} is {_short(table)}; it must be a table [{kind}.{name}]")
                continue
            folder = environment_directory(name) if kind == "environment" else safe_name(name)
            if not NAME.fullmatch(name) or name in (".", "..") or len(folder.encode()) > LONGEST_NAME:
                self.complain((kind, name), f"{_short(name)} cannot name a directory; use letters, digits and -")
            if folder in safe:
                self.complain((kind, name), f"{name!r} and {safe[folder]!r} would share a directory; rename one")
            safe[folder] = name
            self.keys((kind, name), table, checks)
            good[name] = table
        return good

    def algorithm(self, name: str, table: dict[str, Any], environments: Mapping[str, Any]) -> None:
        """References to environments."""
        for other in table.get("environments", []) if is_texts(table.get("environments", [])) else []:
            if other not in environments:
                self.complain(("algorithm", name, "environments"), unknown("environment", other, environments))
        for other, changed in (table.get("on", {}) if is_table(table.get("on", {})) else {}).items():
            path = ("algorithm", name, "on", other)
            if other not in environments:
                self.complain(path, unknown("environment", other, environments))
            elif not isinstance(changed, dict):
                self.complain(path, f"on.{other} is {_short(changed)}; it must be a table")
            else:
                self.keys(path, changed, OVERRIDES)

    def tune(self, table: Any) -> None:
        """What `conrl tune` reads."""
        if not isinstance(table, dict):
            return
        self.keys(("tune",), table, TUNE)
        found = table.get("parameters", {})
        for name, values in found.items() if isinstance(found, dict) else ():
            if not is_choices(values) and not is_interval(values):
                self.complain(
                    ("tune", "parameters", name),
                    f"{name} is {_short(values)}; it must be a list of values or {{ low = 0.1, high = 1, log = true }}",
                )

    def jobs(self, environments: dict[str, dict[str, Any]], algorithms: dict[str, dict[str, Any]]) -> Iterator[Job]:
        """Every run, seeds innermost."""
        count = 0
        usual = {key: self.data[key] for key in ("seeds", "episodes") if key in self.data and self.sound(key)}
        if any(len(path) == 1 for path, _ in self.mistakes):  # perhaps a misspelt `episodes`
            usual.setdefault("episodes", 1)
        for name, table in algorithms.items():
            if not self.sound("algorithm", name):
                continue
            for env_name in table.get("environments", environments):
                if not self.sound("environment", env_name):
                    continue
                env = environments[env_name]
                merged = usual | _merged(table, table.get("on", {}).get(env_name, {}))
                seeds, episodes = merged.get("seeds", 1), merged.get("episodes")
                if episodes is None:
                    self.complain(("algorithm", name), f"{name} has no number of episodes; write episodes = 1000")
                    break
                if "epsilon" in merged and not merged.get("budgets"):
                    self.complain(("algorithm", name, "epsilon"), "epsilon goes with budgets, and there are none")
                    break
                numbers = range(seeds) if is_int(seeds) else seeds
                count += len(numbers)
                if count > MOST_RUNS:
                    where = ("algorithm", name, "seeds") if "seeds" in table else ("seeds",)
                    self.complain(where, f"more than {MOST_RUNS:,} runs; make several studies")
                    return
                ranges = env.get("reward_range")
                first = Job(
                    self.model(env.get("model", env_name)),
                    merged.get("learner", name),
                    episodes,
                    0,
                    env.get("set", {}),
                    {k: float(x) for k, x in env.get("limits", {}).items()},
                    env.get("horizon"),
                    env.get("start"),
                    None if ranges is None else (float(ranges[0]), float(ranges[1])),
                    merged.get("preset", "default"),
                    merged.get("options", {}),
                    {k: float(x) for k, x in merged.get("budgets", {}).items()},
                    merged.get("epsilon", 0.0),
                    merged.get("pay", "outcome"),
                    env_name=env_name,
                    name=name,
                    cost_ranges={k: (float(x), float(y)) for k, (x, y) in env.get("cost_ranges", {}).items()},
                    allow_import=self.allow_import,
                )
                yield from (replace(first, seed=seed) for seed in numbers)

    def model(self, name: str) -> str:
        """A file is looked for beside the spec; by its full name any worker finds it."""
        beside = self.folder.absolute() / name
        return str(beside) if is_model_file(name) and beside.exists() else name

    def try_all(self, jobs: list[Job]) -> None:
        """Make the world and the learner of each kind of run once."""
        tried, told = set(), set()
        for job in jobs:
            if (kind := (job.env_name, job.name)) in tried:
                continue
            tried.add(kind)
            try:
                job.prepare().check()
            except ConRLError as error:
                # What is an option of the command line is a key here, but for the one that no file can give.
                text = re.sub(
                    r"--(?!allow-import)([a-z-]+)",
                    lambda found: found[1].replace("-", "_"),
                    " ".join(str(error).split()),
                )
                path = self.culprit(job, text)
                if (path, text) not in told:  # a model that is not there is told once, not for each algorithm
                    self.complain(path, f"{job.name} on {job.env_name}: {text}")
                told.add((path, text))

    def culprit(self, job: Job, text: str) -> tuple[str, ...]:
        """The key that an error message is about, as far as it can be told; the algorithm's table otherwise."""
        env, name = str(job.env_name), str(job.name)
        own, table = ("environment", env), ("algorithm", name)
        said = text.partition("; did you mean")[0]
        if said.startswith("unknown algorithm"):
            return (*table, "learner")
        if said.startswith("unknown model"):
            return (*own, "model")
        on = (*table, "on", env)
        found = [*paths(_get(self.data, on), on), *paths(_get(self.data, own), own)]
        found += [path for path in paths(_get(self.data, table), table) if path[2:3] != ("on",)]
        keys = [path for path in sorted(found, key=len, reverse=True) if path[-1] not in UNTOLD]
        words = set(re.findall(r"\w+", said)) | ({"budgets"} if "Knapsack" in said else set())
        for wanted in (*([quoted] for quoted in re.findall(r"'([^']+)'", said)), words):
            for path in keys:
                if path[-1] in wanted:
                    return path
        return (*own, "model") if job.env in said else table


def _merged(table: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The table with the changes; tables within are merged key by key."""
    found = {key: value for key, value in table.items() if key != "on"}
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = _merged(found[key], value) if both else value
    return found


def _get(data: Any, path: tuple[str, ...]) -> dict[str, Any]:
    for key in path:
        data = data.get(key, {}) if isinstance(data, dict) else {}
    return data if isinstance(data, dict) else {}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

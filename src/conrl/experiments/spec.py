"""Specs of studies: environments x algorithms x seeds, in TOML.

    name = "rover"
    import = ["my_lab"]               # modules with plug-ins, imported if the user allows it
    episodes = 2000
    seeds = 10                        # 0..9, or a list

    [environment.mars-rover]
    set = { rock_reward = 1.0 }       # also model, limits, floors, horizon, start, normalize, cost, reward_range, ...

    [algorithm.conrl]

    [algorithm.rcpo]                  # also learner, preset, episodes, seeds, environments, pay, budgets, epsilon,
                                      # never, chance, cvar
    options = { rate = 1e-3 }
    [algorithm.rcpo.on.box]           # what is different in one environment
    options = { rate = 1e-2 }

A table's name is the name of the model or the learner unless `model` or `learner` says otherwise. Everything is checked
before anything runs: `SpecMistakes.mistakes` has a line of the file and a suggestion for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from conrl.arguments import is_int
from conrl.errors import ConRLError, SpecError, SpecMistakes, shown, unknown
from conrl.experiments.jobs import Job, Run
from conrl.experiments.parts import SAFE
from conrl.experiments.spec_keys import (
    ALGORITHM,
    ENVIRONMENT,
    OVERRIDES,
    TOP,
    TUNE,
    Check,
    is_choices,
    is_interval,
)
from conrl.experiments.store import environment_directory, safe_name
from conrl.experiments.toml_lines import Lines
from conrl.experiments.worlds import Worlds
from conrl.foreign import import_module
from conrl.io import is_model_file, model_path
from conrl.io.files import parse_toml, read_bytes
from conrl.wording import line, listed, short

Mistake = tuple[tuple[str, ...], str]  # the path of a key, and what is wrong with it
MOST_RUNS = 100_000
LARGEST_FILE = 1 << 20
LONGEST_NAME = 200  # bytes
NAME = re.compile(r"[^\x00-\x1f\x7f/\\]{1,100}")
# Where a field of a job stands in the file: of an environment, under these keys; all others are an algorithm's.
IN_ENVIRONMENT = {"env": "model", "settings": "set"} | {
    name: name for name in ("limits", "floors", "horizon", "start", "normalize", "cost", "reward_range", "cost_ranges")
}


@dataclass(frozen=True, repr=False)
class Spec:
    """A study. `environments` and `algorithms` hold the tables of the file; `jobs` what follows from them."""

    name: str
    title: str
    environments: dict[str, dict[str, Any]]
    algorithms: dict[str, dict[str, Any]]
    jobs: list[Job]
    tune: dict[str, Any] = field(default_factory=dict)
    source: str = field(default="spec", compare=False)  # the name of the file
    lines: Lines = field(default_factory=lambda: Lines(""), compare=False, repr=False)
    worlds: Worlds = field(default_factory=Worlds, compare=False, repr=False)
    # The first run of each algorithm in each environment, as it was checked.
    checked: dict[tuple[str, str], Run] = field(default_factory=dict, compare=False, repr=False)

    def __repr__(self) -> str:
        kinds = f"{listed(self.algorithms)} on {listed(self.environments)}"
        return line(self, f"{short(self.name)}: {len(self.jobs):,} runs of {kinds}")

    def run_like(self, job: Job) -> Run:
        """A run that differs from the job in its seed alone: the one that was checked, if that is so."""
        run = self.checked.get(job.kind)
        if run is not None and run.is_current and replace(run.job, seed=job.seed) == job:
            return run
        return Run(job, worlds=self.worlds)

    def refuse(self, mistakes: Iterable[Mistake]) -> None:
        """Raise what is wrong with some keys, if anything is, with the lines where they stand."""
        _refuse(mistakes, self.source, self.lines)

    def titles(self) -> dict[str, dict[str, str]]:
        """What environments and algorithms are called in figures."""
        tables = {"environments": self.environments, "algorithms": self.algorithms}
        return {kind: {name: t.get("title", name) for name, t in named.items()} for kind, named in tables.items()}


def load_spec(path: str | Path, allow_import: bool = False) -> Spec:
    """Read and check a spec; `SpecMistakes` names the line of everything that is wrong.

    Models in files are found beside the spec. `import = ["my_lab"]`, `model = "gymnasium:<module>:<id>"` and functions,
    `cost = "my_lab:falls"`, run the code of a module, which a file alone cannot ask for: `allow_import` does.
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
    try:
        data = parse_toml(text)
    except ValueError as error:
        raise SpecError(f"{source}: not TOML: {error}") from None
    return _Reader(data, text, source, Path() if folder is None else folder, allow_import).read()


class _Reader:
    """Checks the tables of a spec and collects everything that is wrong. What is wrong is left out, to look further."""

    def __init__(self, data: dict[str, Any], text: str, source: str, folder: Path, allow_import: bool) -> None:
        self.data, self.source, self.folder, self.allow_import = data, source, folder, allow_import
        self.imports: tuple[str, ...] = ()
        self.lines = Lines(text)
        self.worlds = Worlds()
        self.mistakes: dict[Mistake, None] = {}  # each once

    def complain(self, path: tuple[str, ...], message: str) -> None:
        self.mistakes[path, message] = None

    def sound(self, *path: str) -> bool:
        """Whether nothing is wrong in a table so far."""
        return not any(where[: len(path)] == path for where, _ in self.mistakes)

    def read(self) -> Spec:
        """The study, or all of its mistakes."""
        data = self.keys((), self.data, TOP)
        self.imports = tuple(data.get("import", ()))
        self.load_plugins()
        environments = self.tables("environment", ENVIRONMENT)
        algorithms = self.tables("algorithm", ALGORITHM)
        for name, table in algorithms.items():
            self.algorithm(name, table)
        self.tune(data.get("tune", {}))
        usual: dict[str, Any] = {key: data[key] for key in ("seeds", "episodes") if key in data}
        jobs = list(self.jobs(usual, environments, algorithms))
        checked: dict[tuple[str, str], Run] = {}
        for job in sorted(jobs, key=lambda job: job.env_name):  # those of one model side by side
            if job.kind not in checked:
                self.check(checked.setdefault(job.kind, Run(job, worlds=self.worlds)))
        _refuse(self.mistakes, self.source, self.lines)
        if not jobs:
            raise SpecError(f"{self.source}: nothing to run: no algorithm runs in any environment")
        name = str(data.get("name", Path(self.source).stem))
        title, tune = str(data.get("title", name)), data.get("tune", {})
        return Spec(name, title, environments, algorithms, jobs, tune, self.source, self.lines, self.worlds, checked)

    def load_plugins(self) -> None:
        """Import the modules that the file names. Without them the names in it mean nothing, so that it ends here."""
        for module in self.imports:
            try:
                import_module(module, self.allow_import)
            except SpecError as error:
                self.complain(("import",), str(error))
        if not self.sound("import"):
            _refuse(self.mistakes, self.source, self.lines)

    def keys(self, path: tuple[str, ...], table: Mapping[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
        """The entries of a table that make sense. Keys that mean nothing and values of the wrong kind are mistakes."""
        good = {}
        for key, value in table.items():
            if key not in checks:
                self.complain((*path, key), unknown("key", key, checks))
            elif not checks[key][0](value):
                self.complain((*path, key), f"{key} is {shown(value)}; it must be {checks[key][1]}")
            else:
                good[key] = value
        return good

    def tables(self, kind: str, checks: Mapping[str, Check]) -> dict[str, dict[str, Any]]:
        """The tables [kind.name]."""
        tables = self.data.get(kind, {})
        if not isinstance(tables, dict):
            return {}
        if not tables and self.data.keys() <= TOP.keys():  # else a misspelt one
            self.complain((kind,), f"a study needs at least one table [{kind}.NAME]")
        good = {}
        folders: dict[str, str] = {}
        for name, table in tables.items():
            if not isinstance(table, dict):
                self.complain((kind, name), f"{kind}.{name} is {shown(table)}; it must be a table [{kind}.{name}]")
                continue
            folder = environment_directory(name) if kind == "environment" else safe_name(name)
            if not NAME.fullmatch(name) or name in (".", "..") or len(folder.encode()) > LONGEST_NAME:
                self.complain((kind, name), f"{shown(name)} cannot name a directory; use letters, digits and -")
            if folder in folders:
                self.complain((kind, name), f"{name!r} and {folders[folder]!r} would share a directory; rename one")
            folders[folder] = name
            good[name] = self.keys((kind, name), table, checks)
        return good

    def algorithm(self, name: str, table: dict[str, Any]) -> None:
        """Leave what refers to an environment that is not there out of the table of an algorithm."""
        known = self.data.get("environment", {})
        for other in table.get("environments", []):
            if other not in known:
                self.complain(("algorithm", name, "environments"), unknown("environment", other, known))
        on = {}
        for other, changes in table.get("on", {}).items():
            path = ("algorithm", name, "on", other)
            if other not in known:
                self.complain(path, unknown("environment", other, known))
            elif not isinstance(changes, dict):
                self.complain(path, f"on.{other} is {shown(changes)}; it must be a table")
            else:
                on[other] = self.keys(path, changes, OVERRIDES)
        table["on"] = on

    def tune(self, table: dict[str, Any]) -> None:
        """What `conrl tune` reads."""
        for name, values in self.keys(("tune",), table, TUNE).get("parameters", {}).items():
            if not is_choices(values) and not is_interval(values):
                wanted = "a list of values or { low = 0.1, high = 1, log = true }"
                self.complain(("tune", "parameters", name), f"{name} is {shown(values)}; it must be {wanted}")

    def jobs(
        self,
        usual: dict[str, Any],
        environments: dict[str, dict[str, Any]],
        algorithms: dict[str, dict[str, Any]],
    ) -> Iterator[Job]:
        """Every run, seeds innermost; `usual` is what holds where a table says nothing."""
        count = 0
        for name, table in algorithms.items():
            if "environments" in self.data["algorithm"][name] and "environments" not in table:
                continue  # nobody knows where it is to run
            asked = table.get("environments", environments)
            # If all of them are misspelt, what else is wrong is looked for everywhere.
            for env_name in [other for other in asked if other in environments] or (asked and environments):
                merged = _merged(usual, _merged(table, table["on"].get(env_name, {})))
                if "episodes" not in merged:
                    # Perhaps it is there, and misspelt.
                    if self.sound("algorithm", name) and all(len(path) > 1 for path, _ in self.mistakes):
                        self.complain(("algorithm", name), f"{name} has no number of episodes; write episodes = 1000")
                        break
                    merged["episodes"] = 1
                if "epsilon" in merged and not merged.get("budgets"):
                    self.complain(("algorithm", name, "epsilon"), "epsilon goes with budgets, and there are none")
                    del merged["epsilon"]
                seeds = merged.get("seeds", 1)
                numbers = range(seeds) if is_int(seeds) else seeds
                count += len(numbers)
                if count > MOST_RUNS:
                    where = ("algorithm", name, "seeds") if "seeds" in table else ("seeds",)
                    self.complain(where, f"more than {MOST_RUNS:,} runs; make several studies")
                    return
                first = self.job(env_name, environments[env_name], name, merged)
                yield from (replace(first, seed=seed) for seed in numbers)

    def job(self, env_name: str, env: dict[str, Any], name: str, table: dict[str, Any]) -> Job:
        """One run of an algorithm in an environment, from the tables of both."""
        own = {field: env[key] for field, key in IN_ENVIRONMENT.items() if key in env}
        own |= {key: table[key] for key in OVERRIDES if key in table and key != "seeds"}
        for key in ("limits", "floors", "budgets", "never"):
            own[key] = {cost: float(x) for cost, x in own.get(key, {}).items()}
        if "reward_range" in own:
            own["reward_range"] = tuple(map(float, own["reward_range"]))
        own["cost_ranges"] = {cost: tuple(map(float, ends)) for cost, ends in own.get("cost_ranges", {}).items()}
        model = own.pop("env", env_name)
        beside = self.folder.absolute() / model  # by its full name any worker finds it
        policy = own.get("options", {}).get(SAFE)
        if isinstance(policy, str) and is_model_file(policy) and (self.folder.absolute() / policy).exists():
            own["options"] = own["options"] | {SAFE: str(self.folder.absolute() / policy)}
        return Job(
            env=str(beside) if is_model_file(model) and model_path(beside).exists() else model,
            algorithm=table.get("learner", name),
            env_name=env_name,
            name=name,
            imports=self.imports,
            allow_import=self.allow_import,
            **own,
        )

    def check(self, run: Run) -> None:
        """Note what is wrong with a run and, without that, whatever else is."""
        job: Job | None = run.job
        while job is not None:
            try:
                run.check()
                return
            except ConRLError as error:
                self.note(job, error)
                job = job.without(error.key)
                run = run if job is None else Run(job, worlds=self.worlds)

    def note(self, job: Job, error: ConRLError) -> None:
        """Complain about what an error names, in the words of the file."""
        path = self.path_of(job, error.key)
        kind, name, *rest = path if len(path) > 1 else ("", "")
        if rest in (["model"], ["learner"]) and not self.sound(kind, name):
            return  # perhaps it says which, and is misspelt
        if any(where == path for where, _ in self.mistakes if len(where) > 2):
            return  # it was left out, and is missed
        absent = [] if rest in (["model"], ["learner"]) else path[len(path) - self.absent(path) :]
        missing = f"{'.'.join(absent)}: " if absent else ""
        self.complain(path, f"{job.name} on {job.env_name}: {missing}{' '.join(str(error).split())}")

    def path_of(self, job: Job, key: tuple[str, ...]) -> tuple[str, ...]:
        """Where in the file a field of a job stands, or would stand."""
        own, table = ("environment", job.env_name), ("algorithm", job.name)
        if not key:
            return table
        first, rest = key[0], key[1:]
        if first in IN_ENVIRONMENT:
            return (*own, IN_ENVIRONMENT[first], *rest)
        first = "learner" if first == "algorithm" else first
        paths = [(*table, "on", own[1], first, *rest), (*table, first, *rest), (first, *rest)]
        return min(paths, key=self.absent)

    def absent(self, path: tuple[str, ...]) -> int:
        """How many keys at the end of a path are not in the file."""
        data: Any = self.data
        for depth, key in enumerate(path):
            if not isinstance(data, dict) or key not in data:
                return len(path) - depth
            data = data[key]
        return 0


def _refuse(mistakes: Iterable[Mistake], source: str, lines: Lines) -> None:
    by_line = sorted((lines.of(path), message) for path, message in mistakes)
    if by_line:
        raise SpecMistakes([f"{source}:{line}: {message}" for line, message in by_line])


def _merged(table: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The table with the changes; tables within are merged key by key."""
    merged = {key: value for key, value in table.items() if key != "on"}
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged

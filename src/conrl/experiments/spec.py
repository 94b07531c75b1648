"""Specs of studies: environments x algorithms x seeds, in TOML.

    name = "rover"
    episodes = 2000
    seeds = 10                        # 0..9, or a list

    [environment.mars-rover]
    set = { rock_reward = 1.0 }       # also model, limits, horizon, start, reward_range, title

    [algorithm.conrl]

    [algorithm.rcpo]                  # also learner, preset, episodes, options, environments, pay, budgets, title
    options = { rate = 1e-3 }
    [algorithm.rcpo.on.box]           # what is different in one environment
    options = { rate = 1e-2 }

A table's name is the name of the model or the learner unless `model` or `learner` says otherwise. Everything is checked
before anything runs: `Spec.mistakes` has a line of the file and a suggestion for each.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from conrl.errors import ConRLError, SpecError, unknown
from conrl.experiments.jobs import Job
from conrl.files import reading
from conrl.inputs import is_int

MOST_RUNS = 100_000
MOST_SEEDS = 10_000
LARGEST_FILE = 1 << 20
NAME = re.compile(r"[^\x00-\x1f\x7f/\\]{1,100}")


class SpecMistakes(SpecError):
    """Everything that is wrong with a spec, a line each."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.mistakes,)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _table(value: Any) -> bool:
    return isinstance(value, dict)


def _whole(value: Any) -> bool:
    return is_int(value) and value >= 1


def _numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(x, (int, float)) and not isinstance(x, bool) for x in value.values()
    )


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value)


def _pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(x, (int, float)) for x in value)


def _seeds(value: Any) -> bool:
    if is_int(value):
        return bool(1 <= value <= MOST_SEEDS)
    return (
        isinstance(value, list)
        and 1 <= len(value) <= MOST_SEEDS
        and all(is_int(x) and 0 <= x < 2**63 for x in value)
        and len(set(value)) == len(value)
    )


def _share(value: Any) -> bool:
    return value == "theorem" or (isinstance(value, (int, float)) and 0.0 <= value < 1.0)


def _choices(value: Any) -> bool:
    plain = (str, int, float, bool)
    return isinstance(value, list) and bool(value) and all(isinstance(x, plain) for x in value)


def _interval(value: Any) -> bool:
    if not isinstance(value, dict) or not {"low", "high"} <= value.keys() <= {"low", "high", "log"}:
        return False
    low, high = value["low"], value["high"]
    numbers = all(type(x) in (int, float) for x in (low, high))
    return numbers and low < high and (not value.get("log", False) or low > 0)


Check = tuple[Callable[[Any], bool], str]
WHOLE: Check = (_whole, "a whole number of at least 1")
TEXT: Check = (_text, "a text")
TABLE: Check = (_table, "a table such as { rate = 0.1 }")
NUMBERS: Check = (_numbers, "a table of numbers such as { crash = 0.3 }")
SEEDS: Check = (_seeds, f"a number of seeds (1 to {MOST_SEEDS:,}) or a list of different ones")
TOP: dict[str, Check] = {
    "name": TEXT,
    "title": TEXT,
    "episodes": WHOLE,
    "seeds": SEEDS,
    "environment": TABLE,
    "algorithm": TABLE,
    "tune": TABLE,
}
ENVIRONMENT: dict[str, Check] = {
    "model": TEXT,
    "title": TEXT,
    "set": TABLE,
    "limits": NUMBERS,
    "horizon": WHOLE,
    "start": TEXT,
    "reward_range": (_pair, "two numbers such as [0, 1]"),
}
OVERRIDES: dict[str, Check] = {
    "preset": TEXT,
    "episodes": WHOLE,
    "seeds": SEEDS,
    "options": TABLE,
    "pay": TEXT,
    "budgets": NUMBERS,
    "epsilon": (_share, "a number in [0, 1) or 'theorem'"),
}
ALGORITHM: dict[str, Check] = {
    **OVERRIDES,
    "learner": TEXT,
    "title": TEXT,
    "environments": (_texts, 'a list of names such as ["box"]'),
    "on": (_table, "tables such as [algorithm.rcpo.on.box]"),
}
TUNE: dict[str, Check] = {
    "algorithm": TEXT,
    "environment": TEXT,
    "sampler": TEXT,
    "trials": WHOLE,
    "prune": (lambda value: isinstance(value, bool), "true or false"),
    "seed": (lambda value: is_int(value) and value >= 0, "a whole number of at least 0"),
    "parameters": (_table, "a table of lists such as { rate = [0.1, 0.2] }"),
}


@dataclass(frozen=True)
class Spec:
    """A study. `environments` and `algorithms` hold the tables of the file; `jobs` what follows from them."""

    name: str
    title: str
    environments: dict[str, dict[str, Any]]
    algorithms: dict[str, dict[str, Any]]
    jobs: list[Job]
    tune: dict[str, Any] = field(default_factory=dict)

    def titles(self) -> dict[str, dict[str, str]]:
        """What environments and algorithms are called in figures."""
        tables = {"environments": self.environments, "algorithms": self.algorithms}
        return {kind: {name: t.get("title", name) for name, t in found.items()} for kind, found in tables.items()}


def load_spec(path: str | Path) -> Spec:
    """Read and check a spec; `SpecMistakes` names the line of everything that is wrong.

    Models in files are found beside the spec.
    """
    path = Path(path)
    with reading(path):
        if path.stat().st_size > LARGEST_FILE:
            raise SpecError(f"{path}: larger than {LARGEST_FILE:,} bytes; this is no spec")
        data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8: {error}") from None
    return parse_spec(text, str(path), path.parent)


def builtin_spec(name: str) -> Spec:
    """One of the studies that come with the package, such as "figure1"."""
    folder = resources.files("conrl.experiments") / "specs"
    known = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    if name not in known:
        raise SpecError(unknown("study", name, known))
    return parse_spec((folder / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml", Path())


def parse_spec(text: str, source: str = "spec", folder: Path | None = None) -> Spec:
    """A spec from its text."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"{source}: not TOML: {error}") from None
    return _Reader(data, text, source, Path() if folder is None else folder).read()


class _Reader:
    """Checks the tables of a spec and collects what is wrong."""

    def __init__(self, data: dict[str, Any], text: str, source: str, folder: Path) -> None:
        self.data, self.source, self.folder = data, source, folder
        self.lines = Lines(text)
        self.mistakes: list[tuple[int, str]] = []

    def complain(self, path: tuple[str, ...], message: str) -> None:
        self.mistakes.append((self.lines.of(path), message))

    def read(self) -> Spec:
        data = self.data
        self.keys((), data, TOP)
        environments, algorithms = self.tables("environment", ENVIRONMENT), self.tables("algorithm", ALGORITHM)
        for name, table in algorithms.items():
            self.algorithm(name, table, environments)
        self.tune(data.get("tune"))
        self.stop()
        jobs = list(self.jobs(environments, algorithms))
        self.stop()
        if not jobs:
            raise SpecError(f"{self.source}: nothing to run: no algorithm runs in any environment")
        self.try_all(jobs)
        self.stop()
        name = str(data.get("name", Path(self.source).stem))
        return Spec(name, str(data.get("title", name)), environments, algorithms, jobs, data.get("tune", {}))

    def stop(self) -> None:
        if self.mistakes:
            seen = dict.fromkeys(f"{self.source}:{line}: {message}" for line, message in sorted(self.mistakes))
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
        if not found:
            self.complain((kind,), f"a study needs at least one table [{kind}.NAME]")
        good = {}
        safe: dict[str, str] = {}
        for name, table in found.items():
            if not isinstance(table, dict):
                self.complain((kind, name), f"{kind}.{name} is {_short(table)}; it must be a table [{kind}.{name}]")
                continue
            if not NAME.fullmatch(name) or name in (".", ".."):
                self.complain((kind, name), f"{name!r} cannot be the name of a directory; use letters, digits and -")
            folder = re.sub(r"[^\w.-]+", "-", name)
            if folder in safe:
                self.complain((kind, name), f"{name!r} and {safe[folder]!r} would share a directory; rename one")
            safe[folder] = name
            self.keys((kind, name), table, checks)
            good[name] = table
        return good

    def algorithm(self, name: str, table: dict[str, Any], environments: Mapping[str, Any]) -> None:
        """References to environments."""
        for other in table.get("environments", []) if _texts(table.get("environments", [])) else []:
            if other not in environments:
                self.complain(("algorithm", name, "environments"), unknown("environment", other, environments))
        for other, changed in (table.get("on", {}) if _table(table.get("on", {})) else {}).items():
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
            if not _choices(values) and not _interval(values):
                self.complain(
                    ("tune", "parameters", name),
                    f"{name} is {_short(values)}; it must be a list of values or {{ low = 0.1, high = 1, log = true }}",
                )

    def jobs(self, environments: dict[str, dict[str, Any]], algorithms: dict[str, dict[str, Any]]) -> Iterator[Job]:
        """Every run, seeds innermost."""
        count = 0
        for name, table in algorithms.items():
            for env_name in table.get("environments", environments):
                env = environments[env_name]
                merged = _merged(table, table.get("on", {}).get(env_name, {}))
                seeds = merged.get("seeds", self.data.get("seeds", 1))
                episodes = merged.get("episodes", self.data.get("episodes"))
                if episodes is None:
                    self.complain(("algorithm", name), f"{name} has no number of episodes; write episodes = 1000")
                    return
                numbers = range(seeds) if is_int(seeds) else seeds
                count += len(numbers)
                if count > MOST_RUNS:
                    self.complain(("seeds",), f"more than {MOST_RUNS:,} runs; make several studies")
                    return
                ranges = env.get("reward_range")
                for seed in numbers:
                    yield Job(
                        self.model(env.get("model", env_name)),
                        merged.get("learner", name),
                        episodes,
                        seed,
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
                    )

    def model(self, name: str) -> str:
        """A file is looked for beside the spec."""
        beside = self.folder / name
        return str(beside) if Path(name).suffix in (".csv", ".npz") and beside.exists() else name

    def try_all(self, jobs: list[Job]) -> None:
        """Make the world and the learner of each kind of run once."""
        tried = set()
        for job in jobs:
            if (kind := (job.env_name, job.name)) in tried:
                continue
            tried.add(kind)
            try:
                job.prepare().check()
            except ConRLError as error:
                text = str(error)
                self.complain(self.culprit(job, text), f"{job.name} on {job.env_name}: {' '.join(text.split())}")

    def culprit(self, job: Job, text: str) -> tuple[str, ...]:
        """The key that an error message is about, as far as it can be told; the algorithm's table otherwise."""
        env, name = str(job.env_name), str(job.name)
        on = ("algorithm", name, "on", env)
        own = self.data["environment"][env]
        quoted = set(re.findall(r"[\w-]+", text))
        for key in own.get("set", {}):
            if key in quoted:
                return ("environment", env, "set", key)
        for key in own.get("limits", {}):
            if key in quoted:
                return ("environment", env, "limits", key)
        options = [*self.data["algorithm"][name].get("options", {}), *_get(self.data, on).get("options", {})]
        for key in options:
            if key in quoted:
                inside = key in _get(self.data, on).get("options", {})
                return (*on, "options", key) if inside else ("algorithm", name, "options", key)
        for word, key in (("model", "model"), ("horizon", "horizon")):
            if (word in quoted and f"unknown {word}" in text) or (key in own and word in quoted):
                return ("environment", env, key)
        if "unknown algorithm" in text:
            return ("algorithm", name, "learner")
        return ("algorithm", name)


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


class Lines:
    """On which line of a TOML text a key stands; `tomllib` does not say."""

    KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*=""")
    HEADER = re.compile(r"\s*\[\[?(.+?)\]\]?\s*(?:#.*)?$")
    WORD = re.compile(r""""([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+)""")

    def __init__(self, text: str) -> None:
        self.at: dict[tuple[str, ...], int] = {(): 1}
        table: tuple[str, ...] = ()
        for number, line in enumerate(text.splitlines(), start=1):
            if header := self.HEADER.match(line):
                table = self.words(header[1])
                self.note(table, number)
            elif key := self.KEY.match(line):
                path = (*table, *self.words(key[1]))
                self.note(path, number)
                for inner in re.finditer(r"""[{,]\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*=""", line[key.end() :]):
                    self.note((*path, *self.words(inner[1])), number)

    def words(self, text: str) -> tuple[str, ...]:
        return tuple(
            next(part for part in found if part is not None)
            for found in ((m[1], m[2], m[3]) for m in self.WORD.finditer(text))
        )

    def note(self, path: tuple[str, ...], number: int) -> None:
        for length in range(1, len(path) + 1):
            self.at.setdefault(path[:length], number)

    def of(self, path: tuple[str, ...]) -> int:
        """The line of a key, or of the nearest table around it."""
        while path not in self.at:
            path = path[:-1]
        return self.at[path]

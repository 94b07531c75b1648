"""What `conrl tune` searches: the [tune] table of a spec, checked.

    [tune]
    algorithm = "conrl-a2c"           # which table of the spec; may be left out if there is one
    environment = "mars-rover"
    sampler = "grid"                  # or "random", "tpe"
    trials = 50                       # of a grid: so many of its settings, drawn at random; all by default
    [tune.parameters]
    "planner.step" = [0.1, 0.2, 1.0]                          # an option of the algorithm, dots for tables within
    "planner.oracle.settings.learning_rate" = { low = 1e-4, high = 1e-2, log = true }

A grid tries every combination of the lists; the samplers draw from lists and intervals.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conrl.errors import ConRLError, RunError, SpecError, unknown
from conrl.experiments.jobs import Job, Run
from conrl.experiments.spec import Mistake, Spec
from conrl.experiments.store import read_json, write_json
from conrl.experiments.worlds import Worlds
from conrl.io import is_model_file

SAMPLERS = ("grid", "random", "tpe")
MOST_SETTINGS = 100_000


@dataclass(frozen=True)
class Search:
    """What is searched, from the [tune] table of a spec."""

    jobs: list[Job]  # of the algorithm in the environment, one for each seed
    parameters: dict[str, Any]
    sampler: str
    trials: int | None
    prune: bool
    seed: int
    checked: Run  # the first of the jobs

    @classmethod
    def of(cls, spec: Spec) -> Search:
        """Checked: every name is known, and each value by itself makes a learner. All mistakes come at once."""
        table = spec.tune
        parameters, sampler, trials = table.get("parameters", {}), table.get("sampler", "grid"), table.get("trials")
        mistakes = list(_mistakes(parameters, sampler, trials))
        algorithm = _one(spec, "algorithm", list(spec.algorithms), mistakes)
        there = dict.fromkeys(job.env_name for job in spec.jobs if algorithm in (None, job.name))
        environment = _one(spec, "environment", list(there), mistakes)
        jobs = [job for job in spec.jobs if job.kind == (environment, algorithm)]
        if not jobs:
            spec.refuse(mistakes)
        checked = spec.run_like(jobs[0])
        seed, prune = int(table.get("seed", 0)), bool(table.get("prune", True))
        search = cls(jobs, parameters, sampler, trials, prune, seed, checked)
        told = {path[-1] for path, _ in mistakes if path[:2] == ("tune", "parameters")}
        spec.refuse([*mistakes, *search._unusable(spec.worlds, told)])
        return search

    def _unusable(self, worlds: Worlds, told: set[str]) -> Iterator[Mistake]:
        """The first value of each parameter that makes no learner, but for those about which that much was told."""
        for name, values in self.parameters.items():
            if name in told:
                continue
            for value in values if isinstance(values, list) else (values["low"], values["high"]):
                try:
                    _ = Run(self.with_setting(self.jobs[0], {name: value}), worlds=worlds).learner
                except ConRLError as error:
                    yield ("tune", "parameters", name), f"{name} = {value!r}: {error}"
                    break

    def with_setting(self, job: Job, setting: Mapping[str, Any], episodes: int | None = None) -> Job:
        """The job with a setting, in a directory of its own."""
        options = json.loads(json.dumps(job.options))
        for path, value in setting.items():
            at = options
            *tables, last = path.split(".")
            for name in tables:
                at = at.setdefault(name, {})
                if not isinstance(at, dict):
                    raise SpecError(f"{name} is {at!r} in the algorithm's options; write it as a table")
            at[last] = value
        name = f"{job.name}-{_digest(setting)}"
        return dataclasses.replace(job, options=options, name=name, episodes=episodes or job.episodes)

    def grid(self) -> list[dict[str, Any]]:
        """The settings of a grid in their order; if fewer are asked for, some drawn at random."""
        names = list(self.parameters)
        every = [dict(zip(names, values, strict=True)) for values in itertools.product(*self.parameters.values())]
        if self.trials is not None and self.trials < len(every):
            chosen = sorted(random.Random(self.seed).sample(range(len(every)), self.trials))
            every = [every[i] for i in chosen]
        return every

    def settle(self, directory: Path) -> None:
        """A directory holds one search; another would mix two sets of numbers. More trials continue one."""
        path = directory / "search.json"
        jobs = [dataclasses.asdict(job) | {"env": _without_folder(job.env)} for job in self.jobs]
        for job in jobs:
            del job["allow_import"], job["imports"]  # whether it may be searched is not what is searched
            for name in ("cost", "floors"):  # younger than some searches
                if not job[name]:
                    del job[name]
        asked = {
            "jobs": jobs,
            "parameters": self.parameters,
            "sampler": self.sampler,
            "prune": self.prune,
            "seed": self.seed,
        }
        if not path.exists():
            write_json(path, asked, sort_keys=True)
        elif read_json(path) != json.loads(json.dumps(asked)):
            raise RunError(f"{directory} holds another search; choose another directory")


def _one(spec: Spec, kind: str, known: list[str], mistakes: list[Mistake]) -> str | None:
    """The algorithm or the environment that is meant; what is wrong with it is added to the mistakes."""
    given = spec.tune.get(kind)
    if given in known or (given is None and len(known) == 1):
        return known[0] if given is None else str(given)
    if given is None:
        mistakes.append((("tune",), f"tune needs {kind} = one of {', '.join(known)}"))
    else:
        mistakes.append((("tune", kind), unknown(kind, str(given), known)))
    return None


def _mistakes(parameters: Mapping[str, Any], sampler: str, trials: int | None) -> Iterator[Mistake]:
    """What is wrong with the table itself."""
    if not parameters:
        yield ("tune",), "nothing to tune: write a table [tune.parameters]"
    if sampler not in SAMPLERS:
        yield ("tune", "sampler"), unknown("sampler", str(sampler), SAMPLERS)
    elif sampler != "grid" and trials is None:
        yield ("tune", "sampler"), f"{sampler} needs a number of trials, such as trials = 50"
    elif sampler == "grid":
        lists = {name: values for name, values in parameters.items() if isinstance(values, list)}
        for name in parameters.keys() - lists.keys():
            yield ("tune", "parameters", name), f"{name}: a grid needs a list of values"
        if math.prod(map(len, lists.values())) > MOST_SETTINGS:
            message = f"the grid has more than {MOST_SETTINGS:,} settings; use sampler = 'tpe'"
            yield ("tune", "parameters"), message


def _digest(setting: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(setting, sort_keys=True).encode(), digest_size=6).hexdigest()


def _without_folder(env: str) -> str:
    """A model in a file by its name alone: what is in it is compared when a run goes on."""
    return Path(env).name if is_model_file(env) else env

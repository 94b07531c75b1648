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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conrl.errors import ConRLError, RunError, SpecError, unknown
from conrl.experiments.jobs import Job, Run
from conrl.experiments.spec import Spec
from conrl.experiments.store import read_json, write_json
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
        mistakes: list[tuple[tuple[str, ...], str]] = []

        def wrong(message: str, *path: str) -> None:
            mistakes.append((("tune", *path), message))

        def one(kind: str, known: list[str]) -> str:
            """The algorithm or environment that is meant."""
            given = spec.tune.get(kind)
            if given is None and len(known) > 1:
                wrong(f"tune needs {kind} = one of {', '.join(known)}")
            elif given is not None and given not in known:
                wrong(unknown(kind, str(given), known), kind)
            return given if given in known else known[0]

        table = dict(spec.tune)
        parameters = table.get("parameters") or {}
        if not parameters:
            wrong("nothing to tune: write a table [tune.parameters]")
        algorithm = one("algorithm", list(spec.algorithms))
        environment = one("environment", list(dict.fromkeys(j.env_name for j in spec.jobs if j.name == algorithm)))
        sampler, trials = table.get("sampler", "grid"), table.get("trials")
        if sampler not in SAMPLERS:
            wrong(unknown("sampler", str(sampler), SAMPLERS), "sampler")
        elif sampler != "grid" and trials is None:
            wrong(f"{sampler} needs a number of trials, such as trials = 50", "sampler")
        lists = [values for values in parameters.values() if isinstance(values, list)]
        if sampler == "grid":
            for name in (name for name, values in parameters.items() if not isinstance(values, list)):
                wrong(f"{name}: a grid needs a list of values", "parameters", name)
            if math.prod(map(len, lists)) > MOST_SETTINGS:
                wrong(f"the grid has more than {MOST_SETTINGS:,} settings; use sampler = 'tpe'", "parameters")
        jobs = [job for job in spec.jobs if job.kind == (environment, algorithm)]
        search = cls(
            jobs,
            parameters,
            sampler,
            trials,
            bool(table.get("prune", True)),
            int(table.get("seed", 0)),
            spec.run_like(jobs[0]),
        )
        for name, values in parameters.items() if not mistakes else ():
            for value in values if isinstance(values, list) else (values["low"], values["high"]):
                try:
                    _ = Run(search.with_setting(jobs[0], {name: value}), worlds=spec.worlds).learner
                except ConRLError as error:
                    wrong(f"{name} = {value!r}: {error}", "parameters", name)
                    break
        spec.refuse(mistakes)
        return search

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
        jobs = [dataclasses.asdict(job) | {"env": _place_free(job.env)} for job in self.jobs]
        for job in jobs:
            del job["allow_import"]  # whether it may be searched is not what is searched
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


def _digest(setting: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(setting, sort_keys=True).encode(), digest_size=6).hexdigest()


def _place_free(env: str) -> str:
    """A model in a file by its name alone: what is in it is compared when a run goes on."""
    return Path(env).name if is_model_file(env) else env

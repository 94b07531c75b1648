"""One run, described by plain values: what `conrl learn`, a line of a spec and a worker on another machine all execute.

The same description gives the same bytes wherever it is executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conrl.errors import ConRLError, SpecError
from conrl.experiments import parts
from conrl.experiments.store import learn_on_disk, run_directory, settings_of
from conrl.io.files import read_bytes, refuse_links
from conrl.model import ConstrainedMDP, Task, transform
from conrl.problem import Knapsack, Problem
from conrl.running import History, learn
from conrl.running.loop import make_world
from conrl.running.worlds import with_coins


@dataclass(frozen=True)
class Job:
    """A run that is to be played.

    `env` names a model as on the command line, `settings`, `limits`, `horizon`, `start`, `reward_range` and
    `cost_ranges` go with it. With `pay` "bernoulli", [0, 1] is the range of what nobody declared and has means in it.
    `options` are parameters of the algorithm as plain values (see `conrl.experiments.parts`). `budgets` make the
    problem a `Knapsack` over all episodes. `env_name` and `name` are what the run's directory is called.
    `allow_import`: a module that `env` names may be imported; the user says so, never a file.
    """

    env: str
    algorithm: str
    episodes: int
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    horizon: int | None = None
    start: str | None = None
    reward_range: tuple[float, float] | None = None
    preset: str = "default"
    options: dict[str, Any] = field(default_factory=dict)
    budgets: dict[str, float] = field(default_factory=dict)
    epsilon: float | str = 0.0
    pay: str = "outcome"
    prime: str | None = None
    env_name: str | None = None
    name: str | None = None
    cost_ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    allow_import: bool = False

    def directory(self, out: str | Path) -> Path:
        """Where the run is kept."""
        return run_directory(out, self.env_name or self.env, self.name or self.algorithm, self.seed)

    def prepare(self) -> Prepared:
        """The world and the way to make the learner; a `SpecError` if something does not fit."""
        kind = parts.algorithm(self.algorithm)
        world, task = parts.world(
            self.env,
            self.horizon,
            self.start,
            self.settings,
            self.limits,
            self.reward_range,
            self.cost_ranges,
            self.allow_import,
        )
        if self.pay == "bernoulli" and isinstance(world, ConstrainedMDP):
            world = with_coins(world)
            task = world.task
        if getattr(kind, "continuing", False):
            if not isinstance(world, ConstrainedMDP):
                raise SpecError(f"{self.algorithm} learns from one unending episode, for which the model must be known")
            world = transform.reachable_part(transform.single_episode(world))
            task = world.task
        truth = world if isinstance(world, ConstrainedMDP) else None
        # What the paper's program was allowed to know goes with its preset.
        given = {"peek": truth} if self.preset == "authors" and truth and "peek" in parts.signature(kind) else {}
        parts.check_options(kind, self.options)
        return Prepared(self, world, task, kind, given)


class Prepared:
    """A job whose world is made."""

    def __init__(self, job: Job, world: Any, task: Task, kind: Any, given: dict[str, Any]) -> None:
        self.job, self.world, self.task, self.given = job, world, task, given
        self._kind = kind
        self.truth = world if isinstance(world, ConstrainedMDP) else None

    def learner(self) -> Any:
        """A new learner."""
        job = self.job
        problem: Problem | None = Knapsack(job.budgets, job.episodes, job.epsilon) if job.budgets else None
        try:
            chosen = {name: parts.part(name, value) for name, value in job.options.items()}
            learner = self._kind(self.task, problem=problem, preset=job.preset, **chosen, **self.given)
        except ConRLError:
            raise
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            raise SpecError(f"{job.algorithm} cannot use one of its options: {error}") from None
        if job.prime is not None:
            if not hasattr(learner, "prime"):
                raise SpecError(f"{job.algorithm} cannot learn from logged data")
            learner.prime(job.prime)
        return learner

    def check(self) -> History:
        """An empty history, once a learner can be made, its limits can be kept and nothing else stands in the way."""
        job, learner = self.job, self.learner()
        history = History.of(learner, self.truth)
        _ = history.optimum
        make_world(self.world, learner, job.pay, None)
        try:
            json.dumps(settings_of(self.world, learner, job.episodes, job.seed, self.config()))
        except TypeError as error:
            raise SpecError(f"{job.algorithm} cannot use one of its options: {error}") from None
        if "bonus" in job.options:
            _ = learner.proposal  # its scales are compared with the costs when it is used
        return history

    def config(self) -> dict[str, Any]:
        """What the results depend on, apart from the learner, the model and the seed."""
        job = self.job
        log = None if job.prime is None else hashlib.blake2b(read_bytes(Path(job.prime)), digest_size=16).hexdigest()
        return {"env": job.env, "settings": job.settings, "start": job.start, "pay": job.pay, "prime": log}

    def settings(self) -> dict[str, Any]:
        """All that stands in `config.json`."""
        return settings_of(self.world, self.learner(), self.job.episodes, self.job.seed, self.config())

    def play(self, progress: bool = False) -> History:
        """In memory."""
        return learn(self.world, self.learner(), self.job.episodes, self.job.seed, progress, pay=self.job.pay)

    def play_on_disk(
        self, out: str | Path, progress: bool = False, after: Callable[[History], None] | None = None
    ) -> History:
        """With everything on disk, continued from wherever it was."""
        job, where = self.job, self.job.directory(out)
        refuse_links(where, Path(out))
        _, history = learn_on_disk(
            where,
            self.world,
            self.learner,
            job.episodes,
            job.seed,
            progress,
            config=self.config(),
            given=self.given,
            after=after,
            pay=job.pay,
        )
        return history

"""Search for the best setting of one algorithm in one environment: a grid, or Optuna's samplers (Akiba et al. 2019).

    [tune]
    algorithm = "conrl-a2c"           # which table of the spec; may be left out if there is one
    environment = "mars-rover"
    sampler = "grid"                  # or "random", "tpe"
    trials = 50                       # of a grid: so many of its settings, drawn at random; all by default
    [tune.parameters]
    "planner.step" = [0.1, 0.2, 1.0]                          # an option of the algorithm, dots for tables within
    "planner.oracle.settings.learning_rate" = { low = 1e-4, high = 1e-2, log = true }

A setting is judged by its *loss*, the mean over seeds and all trajectories of

    max(0, optimum - reward_k) + sum_i max(0, cost_ki - limit_i),

so that learning late, stopping short and breaking limits all count, in units of reward. It is played in `RUNGS` parts;
after each, Optuna's median rule prunes a setting that is worse than the median of the others was there. Runs are on
disk as those of any study and trials in `trials.db` (SQLite): the same command goes on where it was interrupted.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import itertools
import json
import math
import os
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conrl.errors import ConRLError, RunError, SpecError, unknown
from conrl.experiments.execution import Event
from conrl.experiments.jobs import Job
from conrl.experiments.processes import in_processes
from conrl.experiments.records import RunRecord, read_run
from conrl.experiments.spec import Spec
from conrl.experiments.store import run_directory
from conrl.files import alone, atomic_write
from conrl.io import is_model_file

RUNGS = (0.25, 0.5, 1.0)  # shares of the trajectories
STARTUP = 5  # settings that are played to their end before any is pruned
SAMPLERS = ("grid", "random", "tpe")
MOST_SETTINGS = 100_000
DATABASE, TRIALS, BEST = "trials.db", "trials.csv", "best.json"


@dataclass(frozen=True)
class Trial:
    """One setting and what came of it. `state`: "complete", "pruned" or "failed"."""

    setting: dict[str, Any]
    state: str
    loss: float  # at its last rung; inf if it failed
    reward: float
    excess: float  # the largest over a limit, at the end; negative where all are kept
    episodes: int


@dataclass(frozen=True)
class Search:
    """What is searched, from the [tune] table of a spec."""

    jobs: list[Job]  # of the algorithm in the environment, one for each seed
    parameters: dict[str, Any]
    sampler: str
    trials: int | None
    prune: bool
    seed: int

    @classmethod
    def of(cls, spec: Spec) -> Search:
        """Checked: every name is known, and each value by itself makes a learner."""
        table = dict(spec.tune)
        parameters = table.get("parameters") or {}
        if not parameters:
            raise spec.mistake(("tune",), "nothing to tune: write a table [tune.parameters]")
        algorithm = _one(spec, "algorithm", list(spec.algorithms))
        where = list(dict.fromkeys(str(job.env_name) for job in spec.jobs if job.name == algorithm))
        environment = _one(spec, "environment", where)
        sampler = table.get("sampler", "grid")
        if sampler not in SAMPLERS:
            raise spec.mistake(("tune", "sampler"), unknown("sampler", str(sampler), SAMPLERS))
        if sampler == "grid":
            for name, values in parameters.items():
                if not isinstance(values, list):
                    raise spec.mistake(("tune", "parameters", name), f"{name}: a grid needs a list of values")
            if math.prod(len(values) for values in parameters.values()) > MOST_SETTINGS:
                message = f"the grid has more than {MOST_SETTINGS:,} settings; use sampler = 'tpe'"
                raise spec.mistake(("tune", "parameters"), message)
        elif table.get("trials") is None:
            raise spec.mistake(("tune", "sampler"), f"{sampler} needs a number of trials, such as trials = 50")
        jobs = [job for job in spec.jobs if (job.env_name, job.name) == (environment, algorithm)]
        found = cls(
            jobs, parameters, sampler, table.get("trials"), bool(table.get("prune", True)), int(table.get("seed", 0))
        )
        for name, values in parameters.items():
            for value in values if isinstance(values, list) else (values["low"], values["high"]):
                try:
                    found.with_setting(found.jobs[0], {name: value}).prepare().learner()
                except ConRLError as error:
                    raise spec.mistake(("tune", "parameters", name), f"{name} = {value!r}: {error}") from None
        return found

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


def _one(spec: Spec, kind: str, known: list[str]) -> str:
    given = spec.tune.get(kind)
    if given is None and len(known) == 1:
        return known[0]
    if given is None:
        raise spec.mistake(("tune",), f"tune needs {kind} = one of {', '.join(known)}")
    if given not in known:
        raise spec.mistake(("tune", kind), unknown(kind, str(given), known))
    return str(given)


def _digest(setting: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(setting, sort_keys=True).encode(), digest_size=6).hexdigest()


def tune(
    spec: Spec,
    out: str | Path,
    workers: int | None = None,
    listener: Callable[[Event], None] | None = None,
) -> list[Trial]:
    """Try settings and give all of them, the best first. `best.json` and `trials.csv` hold them too."""
    search = Search.of(spec)
    directory = Path(out).absolute()
    with alone(directory, "searching here"):  # each would take the trials of the other for those of a dead one
        _same_search(search, directory)
        work = _Tuner(search, directory, listener or (lambda event: None))
        work.run(workers or os.cpu_count() or 1)
        trials = work.trials()
        _write(directory, trials)
    return trials


def _same_search(search: Search, directory: Path) -> None:
    """A directory holds one search; another would mix two sets of numbers. More trials continue one."""
    path = directory / "search.json"
    asked = {
        "jobs": [dataclasses.asdict(job) | {"env": _place_free(job.env)} for job in search.jobs],
        "parameters": search.parameters,
        "sampler": search.sampler,
        "prune": search.prune,
        "seed": search.seed,
    }
    text = json.dumps(asked, indent=2, sort_keys=True) + "\n"
    if path.exists():
        if path.read_text(encoding="utf-8") != text:
            raise RunError(f"{directory} holds another search; choose another directory")
        return
    with atomic_write(path) as file:
        file.write(text.encode())


def _place_free(env: str) -> str:
    """A model in a file by its name alone: what is in it is compared when a run goes on."""
    return Path(env).name if is_model_file(env) else env


class _Tuner:
    """Asks Optuna for settings, has their runs played, and tells it their losses; all of Optuna is in this process."""

    def __init__(self, search: Search, directory: Path, listener: Callable[[Event], None]) -> None:
        self.search, self.directory, self.listener = search, directory, listener
        self.optuna = _import_optuna()
        pruner = self.optuna.pruners.MedianPruner(STARTUP) if search.prune else self.optuna.pruners.NopPruner()
        url = f"sqlite:///{directory / DATABASE}"
        try:
            self.study = self.optuna.create_study(storage=url, study_name="conrl", pruner=pruner, load_if_exists=True)
            before = len(self.study.get_trials(deepcopy=False))
        except Exception as error:  # of SQLAlchemy, of many kinds
            last = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise RunError(f"{directory / DATABASE}: {last}") from None
        # With its first seed a search that goes on would draw the settings again that it began with.
        seed = int(np.random.SeedSequence([search.seed, before]).generate_state(1)[0]) if before else search.seed
        samplers = self.optuna.samplers
        self.study.sampler = (samplers.TPESampler if search.sampler == "tpe" else samplers.RandomSampler)(seed=seed)
        self.queue: deque[tuple[int, Job]] = deque()
        self.about: dict[int, tuple[Any, int]] = {}  # place of a run -> (trial, rung)
        self.missing: dict[int, int] = {}  # trial number -> runs of its rung that are still going on
        self.place = 0
        # Budgets are for all episodes together: a part of them would be another problem.
        self.rungs = (1.0,) if search.jobs[0].budgets else RUNGS
        env = search.jobs[0].prepare()
        best = env.check().optimum
        self.optimum = None if best is None else best.reward

    def run(self, workers: int) -> None:
        self.recover()
        for _ in range(workers):  # so many trials at a time
            self.next_trial()
        if self.queue:
            in_processes(self.queue, self.directory, workers, self.heard)

    def recover(self) -> None:
        """Trials of a process that was killed are tried again, first."""
        state = self.optuna.trial.TrialState
        for trial in self.study.get_trials(states=(state.RUNNING,)):
            self.study.tell(trial.number, state=state.FAIL)
            self.study.enqueue_trial(trial.params or trial.system_attrs.get("fixed_params", {}))
        if self.search.sampler == "grid":
            for setting in self.search.grid():
                self.study.enqueue_trial(setting, skip_if_exists=True)

    def next_trial(self) -> bool:
        state = self.optuna.trial.TrialState
        waiting = self.study.get_trials(deepcopy=False, states=(state.WAITING,))
        if not waiting:
            if self.search.sampler == "grid":
                return False
            every = self.study.get_trials(deepcopy=False)
            # A trial of a process that was killed is tried again; one that failed by itself counts.
            if sum(t.state != state.FAIL or "error" in t.user_attrs for t in every) >= (self.search.trials or 0):
                return False
        trial = self.study.ask()
        for name, values in self.search.parameters.items():
            _suggest(trial, name, values)
        self.start(trial, 0)
        return True

    def start(self, trial: Any, rung: int) -> None:
        """Have the runs of a setting played up to a rung."""
        jobs = [
            self.search.with_setting(job, trial.params, max(1, round(self.rungs[rung] * job.episodes)))
            for job in self.search.jobs
        ]
        self.missing[trial.number] = len(jobs)
        for job in jobs:
            self.about[self.place] = (trial, rung)
            self.queue.append((self.place, job))
            self.place += 1

    def heard(self, event: Event) -> None:
        trial, rung = self.about[event.job]
        self.listener(dataclasses.replace(event, job=trial.number, text=event.text or _words(trial.params)))
        if event.kind not in ("done", "failed") or trial.number not in self.missing:
            return
        if event.kind == "failed":
            del self.missing[trial.number]
            lines = event.text.strip().splitlines() or ["failed"]
            trial.set_user_attr("error", lines[-1][:500])
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
            self.next_trial()
            return
        self.missing[trial.number] -= 1
        if self.missing[trial.number]:
            return
        del self.missing[trial.number]
        loss, reward, excess = self.judge(trial.params, self.rungs[rung])
        trial.set_user_attr(
            "numbers", [loss, reward, excess, max(1, round(self.rungs[rung] * self.search.jobs[0].episodes))]
        )
        trial.report(loss, rung)
        if rung == len(self.rungs) - 1:
            self.study.tell(trial, loss)
            self.next_trial()
        elif trial.should_prune():
            self.study.tell(trial, state=self.optuna.trial.TrialState.PRUNED)
            self.next_trial()
        else:
            self.start(trial, rung + 1)

    def judge(self, setting: Mapping[str, Any], share: float) -> tuple[float, float, float]:
        """The loss of a setting so far, and the last reward and excess over limits, means over seeds."""
        found = []
        for job in self.search.jobs:
            mine = self.search.with_setting(job, setting)
            where = run_directory(self.directory, str(mine.env_name), str(mine.name), mine.seed)
            run = read_run(where, str(mine.env_name), str(mine.name), mine.seed)
            found.append(loss_of(run, self.optimum, max(1, round(share * job.episodes))))
        loss, reward, excess = np.mean(found, axis=0)
        return float(loss), float(reward), float(excess)

    def trials(self) -> list[Trial]:
        """What is known of every setting, the best first."""
        found = []
        for trial in self.study.get_trials(deepcopy=False):
            state = trial.state.name.lower()
            numbers = trial.user_attrs.get("numbers", [math.inf, math.nan, math.nan, 0])
            if state == "fail" and "error" not in trial.user_attrs:
                continue  # of a process that was killed; tried again
            if state in ("complete", "pruned", "fail"):
                state = "failed" if state == "fail" else state
                loss, reward, excess = (float(x) for x in numbers[:3])
                loss = math.inf if state == "failed" else loss  # what it had before it failed is no loss of it
                found.append(Trial(dict(trial.params), state, loss, reward, excess, int(numbers[3])))
        rank = {"complete": 0, "pruned": 1, "failed": 2}
        return sorted(found, key=lambda t: (rank[t.state], t.loss, json.dumps(t.setting, sort_keys=True)))


def loss_of(run: RunRecord, optimum: float | None, episodes: int) -> tuple[float, float, float]:
    """Loss over the first episodes, and the reward and the largest excess over a limit at their end."""
    values = run.values[:episodes]
    short = np.maximum(0.0, optimum - values[:, 0]) if optimum is not None else -values[:, 0]
    over = np.maximum(0.0, values[:, 1:] - run.limits).sum(axis=1)
    last = run.smooth[episodes - 1]
    excess = float((last[1:] - run.limits).max()) if run.limits.size else 0.0
    return float((short + over).mean()), float(last[0]), excess


def _suggest(trial: Any, name: str, values: Any) -> None:
    if isinstance(values, list):
        trial.suggest_categorical(name, values)
    elif isinstance(values["low"], int) and isinstance(values["high"], int):
        trial.suggest_int(name, values["low"], values["high"], log=bool(values.get("log", False)))
    else:
        trial.suggest_float(name, float(values["low"]), float(values["high"]), log=bool(values.get("log", False)))


def _words(setting: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.split('.')[-1]}={value:g}" if isinstance(value, float) else f"{name.split('.')[-1]}={value}"
        for name, value in setting.items()
    )


def _write(directory: Path, trials: list[Trial]) -> None:
    if not trials:
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(trials[0].setting)
    writer.writerow([*names, "state", "loss", "reward", "excess", "episodes"])
    for trial in trials:
        numbers = [f"{x:.7g}" for x in (trial.loss, trial.reward, trial.excess)]
        writer.writerow([*(trial.setting.get(n) for n in names), trial.state, *numbers, trial.episodes])
    with atomic_write(directory / TRIALS) as file:
        file.write(text.getvalue().encode())
    if trials[0].state == "complete":
        best = {"setting": trials[0].setting, "loss": trials[0].loss, "reward": trials[0].reward}
        with atomic_write(directory / BEST) as file:
            file.write((json.dumps(best, indent=2) + "\n").encode())


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise SpecError(f"tuning needs the extra: pip install 'conrl[tune]' ({error})") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna

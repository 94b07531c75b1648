"""Trying settings of one algorithm in one environment: a grid, or Optuna's samplers (Akiba et al. 2019).

What is searched is a `conrl.experiments.search.Search`. A setting is judged by its *loss*, the mean over seeds and all
trajectories of

    max(0, optimum - reward_k) + sum_i max(0, cost_ki - limit_i),

its *shortfall* plus its *excess*, so that learning late, stopping short and breaking limits all count, in units of
reward. It is played in `RUNGS` parts; after each, Optuna's median rule prunes a setting that is worse than the median
of the others was there. Runs are on disk as those of any study and trials in `trials.db` (SQLite): the same command
goes on where it was interrupted.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conrl.errors import RunError, SpecError
from conrl.experiments.execution import Event
from conrl.experiments.jobs import Job, portable
from conrl.experiments.processes import guarded, in_processes
from conrl.experiments.records import RunRecord, read_run
from conrl.experiments.search import Search
from conrl.experiments.spec import Spec
from conrl.experiments.store import own_file, write_json
from conrl.io.cells import csv_text
from conrl.io.files import alone, atomic_write

RUNGS = (0.25, 0.5, 1.0)  # shares of the trajectories
STARTUP = 5  # settings that are played to their end before any is pruned
COLUMNS = ("shortfall", "excess", "last_reward", "last_over_limit")  # of trials.csv, beside the loss
DATABASE, TRIALS, BEST = "trials.db", "trials.csv", "best.json"


@dataclass(frozen=True)
class Trial:
    """One setting and what came of it. `state`: "complete", "pruned" or "failed"."""

    setting: dict[str, Any]
    state: str
    loss: float  # at its last rung; inf if it failed
    shortfall: float  # from the optimum, mean over episodes; the loss is this and the next together
    excess: float  # over limits, mean over episodes
    reward: float  # mean of the last 100 episodes
    over: float  # the largest over a limit, of the same episodes; negative where all are kept
    episodes: int


def tune(
    spec: Spec,
    out: str | Path,
    workers: int | None = None,
    listener: Callable[[Event], None] | None = None,
) -> list[Trial]:
    """Try settings and give all of them, the best first. `best.json` and `trials.csv` hold them too."""
    search = Search.of(spec)
    portable(search.jobs[0], guarded())  # what workers cannot know is refused before anything is written
    _import_optuna()  # what is missed is told before anything is written
    directory = Path(out).absolute()
    with alone(directory, "searching here"):  # each would take the trials of the other for those of a dead one
        search.settle(directory)
        with closing(_Tuner(search, directory, listener or (lambda event: None))) as work:
            work.run(workers or os.cpu_count() or 1)
            trials = work.trials()
        _write(directory, trials)
    return trials


class _Tuner:
    """Asks Optuna for settings, has their runs played, and tells it their losses; all of Optuna is in this process."""

    def __init__(self, search: Search, directory: Path, listener: Callable[[Event], None]) -> None:
        """Open the database of the directory, or make it."""
        self.search, self.directory, self.listener = search, directory, listener
        self.optuna = _import_optuna()
        pruner = self.optuna.pruners.MedianPruner(STARTUP) if search.prune else self.optuna.pruners.NopPruner()
        database = directory / DATABASE
        for path in directory.glob(f"{DATABASE}*"):  # SQLite keeps files beside its own
            with own_file(path):
                pass
        self.storage: Any = None
        try:
            self.storage = self.optuna.storages.RDBStorage(f"sqlite:///{database}")
            self.study = self.optuna.create_study(
                storage=self.storage, study_name="conrl", pruner=pruner, load_if_exists=True
            )
            before = len(self.study.get_trials(deepcopy=False))
        except Exception as error:  # of SQLAlchemy, of many kinds
            self.close()
            last = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise RunError(f"{database}: {last}") from None
        # With its first seed a search that goes on would draw the settings again that it began with.
        seed = int(np.random.SeedSequence([search.seed, before]).generate_state(1)[0]) if before else search.seed
        samplers = self.optuna.samplers
        self.study.sampler = (samplers.TPESampler if search.sampler == "tpe" else samplers.RandomSampler)(seed=seed)
        self.queue: deque[tuple[int, Job]] = deque()
        self.about: dict[int, tuple[Any, int]] = {}  # index of a run -> (trial, rung)
        self.missing: dict[int, int] = {}  # trial number -> runs of its rung that are still going on
        self.index = 0
        # Budgets are for all episodes together: a part of them would be another problem.
        self.rungs = (1.0,) if search.jobs[0].budgets else RUNGS
        best = search.checked.history.optimum
        self.optimum = None if best is None else best.reward

    def close(self) -> None:
        """Let go of the database; SQLAlchemy would keep it open."""
        if self.storage is not None:
            self.storage.remove_session()
            self.storage.engine.dispose()

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
            self.about[self.index] = (trial, rung)
            self.queue.append((self.index, portable(job, guarded())))
            self.index += 1

    def heard(self, event: Event) -> None:
        """When the last run of a rung has ended: judge the setting, then go on with it, prune it or take the next."""
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
        judged = self.judge(trial.params, self.rungs[rung])
        loss, episodes = judged[0], max(1, round(self.rungs[rung] * self.search.jobs[0].episodes))
        trial.set_user_attr("numbers", [*judged, episodes])
        trial.report(loss, rung)
        if rung == len(self.rungs) - 1:
            self.study.tell(trial, loss)
            self.next_trial()
        elif trial.should_prune():
            self.study.tell(trial, state=self.optuna.trial.TrialState.PRUNED)
            self.next_trial()
        else:
            self.start(trial, rung + 1)

    def judge(self, setting: Mapping[str, Any], share: float) -> list[float]:
        """The loss of a setting so far and what it consists of, then the last reward and excess; means over seeds."""
        losses = []
        for job in self.search.jobs:
            mine = self.search.with_setting(job, setting)
            run = read_run(mine.directory(self.directory), *mine.kind, mine.seed)
            losses.append(loss_of(run, self.optimum, max(1, round(share * job.episodes))))
        means: list[float] = np.mean(losses, axis=0).tolist()
        return means

    def trials(self) -> list[Trial]:
        """What is known of every setting, the best first."""
        trials = []
        for trial in self.study.get_trials(deepcopy=False):
            state = trial.state.name.lower()
            numbers = trial.user_attrs.get("numbers", [])
            if len(numbers) == 4:  # of a search by an earlier version, which kept the loss as a whole
                numbers = [numbers[0], math.nan, math.nan, *numbers[1:]]
            numbers = numbers or [math.inf, *[math.nan] * 4, 0]
            if state == "fail" and "error" not in trial.user_attrs:
                continue  # of a process that was killed; tried again
            if state in ("complete", "pruned", "fail"):
                state = "failed" if state == "fail" else state
                loss, short, excess, reward, over = (float(x) for x in numbers[:5])
                loss = math.inf if state == "failed" else loss  # what it had before it failed is no loss of it
                trials.append(Trial(dict(trial.params), state, loss, short, excess, reward, over, int(numbers[5])))
        rank = {"complete": 0, "pruned": 1, "failed": 2}
        return sorted(trials, key=lambda t: (rank[t.state], t.loss, json.dumps(t.setting, sort_keys=True)))


def loss_of(run: RunRecord, optimum: float | None, episodes: int) -> tuple[float, float, float, float, float]:
    """Over the first episodes the loss, its shortfall and its excess; of the last 100 of these the reward and the
    largest excess over a limit."""
    values = run.executed[:episodes]  # what a run costs while it learns
    short = np.maximum(0.0, optimum - values[:, 0]) if optimum is not None else -values[:, 0]
    over = np.maximum(0.0, values[:, 1:] - run.limits).sum(axis=1)
    last = run.smooth[episodes - 1]
    last_over = float((last[1:] - run.limits).max()) if run.limits.size else 0.0
    return float((short + over).mean()), float(short.mean()), float(over.mean()), float(last[0]), last_over


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
    names = list(trials[0].setting)
    table: list[list[Any]] = [[*names, "state", "loss", *COLUMNS, "episodes"]]
    for trial in trials:
        numbers = [f"{x:.7g}" for x in (trial.loss, trial.shortfall, trial.excess, trial.reward, trial.over)]
        table.append([*(trial.setting.get(n) for n in names), trial.state, *numbers, trial.episodes])
    with atomic_write(directory / TRIALS, follow=False) as file:
        file.write(csv_text(table).encode())
    if trials[0].state == "complete":
        best = {"setting": trials[0].setting, "loss": trials[0].loss, "reward": trials[0].reward}
        write_json(directory / BEST, best)


def _import_optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise SpecError(f"tuning needs the extra: pip install 'conrl[tune]' ({error})") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna

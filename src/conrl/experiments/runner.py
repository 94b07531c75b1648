"""Many runs: in local processes or on a Dask cluster, each on its own directory, resumed by running them again.

A run depends on its description alone (`Job`), so that it gives the same bytes wherever it is executed and however
often it was interrupted. A worker that is lost loses nothing but time: its run is taken up again from the last
checkpoint. A run that fails is recorded (`failed.txt`, its traceback); the others go on.
"""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conrl.errors import ConRLError, RunError, SpecError
from conrl.experiments.dask_cluster import import_distributed, on_dask
from conrl.experiments.execution import EPISODES, Event, Listener, Manner, clear_failure, record_failure
from conrl.experiments.jobs import portable
from conrl.experiments.processes import guarded, in_processes
from conrl.experiments.spec import Spec
from conrl.experiments.store import STUDY, clashes, environment_directory, read_json, safe_name, write_json
from conrl.io.files import alone, refuse_links
from conrl.wording import line


@dataclass
class Outcome:
    """What came of a study."""

    directory: Path
    runs: int
    finished: int = 0  # by this call
    before: int = 0  # that were finished already
    failed: dict[int, str] = field(default_factory=dict)  # tracebacks, by index
    interrupted: bool = False

    def __repr__(self) -> str:
        done = f"{self.finished + self.before:,} of {self.runs:,} runs finished"
        failed = f"{len(self.failed):,} failed" if self.failed else ""
        return line(self, done, failed, "interrupted" if self.interrupted else "", f"in {self.directory}")


def run_study(
    spec: Spec,
    out: str | Path,
    workers: int | None = None,
    dask: str | None = None,
    listener: Listener | None = None,
    manner: Manner = EPISODES,
) -> Outcome:
    """Run what is not finished yet.

    Args:
        spec: from `load_spec` or `builtin_spec`.
        out: the directory of the study; on a cluster, one that all workers see under the same name.
        workers: local processes; as many as there are processors by default.
        dask: the address of a scheduler, instead of local processes.
        listener: told about everything that happens.
        manner: how runs are played: episode by episode, or as `conrl.experiments.block_runs.BLOCKS` does.

    Ctrl-C ends every run after the episode that it is playing; the same call goes on from there. (On the command line
    SIGTERM does the same.)
    """
    if workers is not None and dask is not None:
        raise SpecError("workers are local; a Dask cluster has its own: give one of them")
    if workers is not None and workers < 1:
        raise SpecError(f"workers is {workers}; at least one is needed")
    if dask is not None:
        import_distributed()  # report a missing package before anything is written
    directory = Path(out).absolute()
    finished, left = _split(spec, directory, manner)
    jobs = spec.jobs
    tasks = [(index, portable(jobs[index], knows_main=dask is None and guarded())) for index in left]
    outcome = Outcome(directory, len(jobs), before=len(finished))
    tell = listener or (lambda event: None)

    def heard(event: Event) -> None:
        if event.kind == "done":
            outcome.finished += 1
        elif event.kind == "failed":
            outcome.failed[event.job] = event.text
            record_failure(jobs[event.job].directory(directory), event.text)
        tell(event)

    with alone(directory, "working on this study"):
        write_study(spec, directory)
        for index in finished:
            clear_failure(jobs[index].directory(directory))  # killed between its last row and this, it stayed failed
            tell(Event(index, "before", jobs[index].episodes))
        try:
            if tasks and dask is not None:
                on_dask(tasks, directory, dask, heard, manner.play)
            elif tasks:
                count = min(len(left), workers or os.cpu_count() or 1)
                in_processes(deque(tasks), directory, count, heard, manner.play)
        except KeyboardInterrupt:
            outcome.interrupted = True
    return outcome


def write_study(spec: Spec, directory: Path) -> None:
    """`study.json`: what the directory holds. What an earlier spec put there stays."""
    path = directory / STUDY
    try:
        before = read_json(path)
    except ConRLError:  # none, or one that is damaged or not ours: it is written anew
        before = {}
    titles = spec.titles()
    environments = {
        job.env_name: {
            "title": titles["environments"][job.env_name],
            "directory": environment_directory(job.env_name),
            "env": job.env,
            "settings": job.settings,
            "limits": job.limits,
            "horizon": job.horizon,
            "start": job.start,
            "normalize": job.normalize,
            **({} if job.cost is None else {"cost": job.cost}),
        }
        for job in spec.jobs
    }
    algorithms = {
        job.name: {
            "title": titles["algorithms"][job.name],
            "directory": safe_name(job.name),
            "learner": job.algorithm,
        }
        for job in spec.jobs
    }
    study = {
        "name": spec.name,
        "title": spec.title,
        "environments": _kept(before, "environments") | environments,
        "algorithms": _kept(before, "algorithms") | algorithms,
    }
    write_json(path, study)


def _kept(before: dict[str, Any], key: str) -> dict[str, Any]:
    kept = before.get(key)
    return kept if isinstance(kept, dict) else {}


def _split(spec: Spec, directory: Path, manner: Manner) -> tuple[list[int], list[int]]:
    """The indices of runs that are finished and of those that are not; refuses a directory that holds other runs."""
    finished, left, wrong = [], [], []
    for index, job in enumerate(spec.jobs):
        where = job.directory(directory)
        refuse_links(where, directory)
        if not (where / "config.json").exists() or not any((where / name).exists() for name in manner.begun):
            left.append(index)  # nothing has been played: the settings may change
            continue
        wanted = json.loads(json.dumps(spec.run_like(job).settings))
        wanted["seed"] = wanted["learner"]["seed"] = job.seed
        if (why := clashes(where, wanted)) is not None:
            wrong.append(why)
        elif manner.played(where) >= job.episodes:
            finished.append(index)
        else:
            left.append(index)
    if wrong:
        more = f" (and {len(wrong) - 1} more such runs)" if len(wrong) > 1 else ""
        raise RunError(f"{wrong[0]}{more}")
    return finished, left

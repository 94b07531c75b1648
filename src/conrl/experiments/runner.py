"""Many runs: in local processes or on a Dask cluster, each on its own directory, resumed by running them again.

A run depends on its description alone (`Job`), so that it gives the same bytes wherever it is executed and however
often it was interrupted. A worker that is lost loses nothing but time: its run is taken up again from the last
checkpoint. A run that fails is recorded (`failed.txt`, its traceback); the others go on.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from conrl.errors import ConRLError, RunError, SpecError
from conrl.experiments.jobs import Job
from conrl.experiments.spec import Spec
from conrl.experiments.store import clashes, environment_directory, safe_name
from conrl.files import atomic_write
from conrl.learners import History

STUDY = "study.json"
FAILED = "failed.txt"
PLAYED = ("checkpoint.npz", "progress.csv")
EVERY = 0.25  # seconds between two reports of a run
ATTEMPTS = 5  # of a run whose workers are lost
# Set for workers before they import anything: a run is one thread.
ONE_THREAD = {
    f"{name}_NUM_THREADS": "1"
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM", "NUMEXPR", "POLARS_MAX")
}


@dataclass(frozen=True)
class Event:
    """Something about a run: "started", "playing", "done", "failed", "lost" or "interrupted"."""

    job: int  # its place in the list
    kind: str
    episodes: int = 0
    text: str = ""


Listener = Callable[[Event], None]


@dataclass
class Outcome:
    """What came of a study."""

    directory: Path
    runs: int
    finished: int = 0  # by this call
    before: int = 0  # that were finished already
    failed: dict[int, str] = field(default_factory=dict)  # tracebacks, by place
    interrupted: bool = False


def run_study(
    spec: Spec,
    out: str | Path,
    workers: int | None = None,
    dask: str | None = None,
    listener: Listener | None = None,
) -> Outcome:
    """Run what is not finished yet.

    Args:
        spec: from `load_spec` or `builtin_spec`.
        out: the directory of the study; on a cluster, one that all workers see under the same name.
        workers: local processes; as many as there are processors by default.
        dask: the address of a scheduler, instead of local processes.
        listener: told about everything that happens.

    Ctrl-C ends every run after the episode that it is playing; the same call goes on from there.
    """
    if workers is not None and dask is not None:
        raise SpecError("workers are local; a Dask cluster has its own: give one of them")
    if workers is not None and workers < 1:
        raise SpecError(f"workers is {workers}; at least one is needed")
    directory = Path(out).absolute()
    jobs = spec.jobs
    finished, left = _split(jobs, directory)
    write_study(spec, directory)
    outcome = Outcome(directory, len(jobs), before=len(finished))
    tell = listener or (lambda event: None)
    for place in finished:
        _clear(jobs[place].directory(directory))  # killed between its last row and this, it would stay failed
        tell(Event(place, "before", jobs[place].episodes))

    def heard(event: Event) -> None:
        if event.kind == "done":
            outcome.finished += 1
        elif event.kind == "failed":
            outcome.failed[event.job] = event.text
            _record(jobs[event.job].directory(directory), event.text)
        tell(event)

    if left:
        tasks = [(place, jobs[place]) for place in left]
        try:
            if dask is not None:
                _on_dask(tasks, directory, dask, heard)
            else:
                in_processes(deque(tasks), directory, min(len(left), workers or os.cpu_count() or 1), heard)
        except KeyboardInterrupt:
            outcome.interrupted = True
    return outcome


def write_study(spec: Spec, directory: Path) -> None:
    """`study.json`: what the directory holds. What an earlier spec put there stays."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write in {directory}: {(error.strerror or str(error)).lower()}") from None
    path = directory / STUDY
    before: dict[str, Any] = {}
    if path.exists():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            before = before if isinstance(before, dict) else {}
        except (OSError, ValueError):
            before = {}
    titles = spec.titles()
    environments = {
        job.env_name: {
            "title": titles["environments"][str(job.env_name)],
            "directory": environment_directory(str(job.env_name)),
            "env": job.env,
            "settings": job.settings,
            "limits": job.limits,
            "horizon": job.horizon,
            "start": job.start,
        }
        for job in spec.jobs
    }
    algorithms = {
        job.name: {
            "title": titles["algorithms"][str(job.name)],
            "directory": safe_name(str(job.name)),
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
    with atomic_write(path) as file:
        file.write((json.dumps(study, indent=2) + "\n").encode())


def _kept(before: dict[str, Any], key: str) -> dict[str, Any]:
    found = before.get(key)
    return found if isinstance(found, dict) else {}


def _split(jobs: Sequence[Job], directory: Path) -> tuple[list[int], list[int]]:
    """The places of runs that are finished and of those that are not; refuses a directory that holds other runs."""
    finished, left, wrong = [], [], []
    settings: dict[tuple[str | None, str | None], dict[str, Any]] = {}
    for place, job in enumerate(jobs):
        where = job.directory(directory)
        if not (where / "config.json").exists() or not any((where / name).exists() for name in PLAYED):
            left.append(place)  # nothing has been played: the settings may change
            continue
        kind = (job.env_name, job.name)
        if kind not in settings:
            settings[kind] = job.prepare().settings()
        wanted = json.loads(json.dumps(settings[kind]))
        wanted["seed"] = job.seed
        if wanted["learner"].get("seed") is not None:
            wanted["learner"]["seed"] = job.seed
        wanted["episodes"] = job.episodes
        if (why := clashes(where, wanted)) is not None:
            wrong.append(why)
        elif played(where / "progress.csv") >= job.episodes:
            finished.append(place)
        else:
            left.append(place)
    if wrong:
        more = f" (and {len(wrong) - 1} more such runs)" if len(wrong) > 1 else ""
        raise RunError(f"{wrong[0]}{more}")
    return finished, left


def played(progress: Path) -> int:
    """Episodes that are in a `progress.csv`."""
    try:
        return max(progress.read_bytes().count(b"\n") - 1, 0)
    except OSError:
        return 0


def execute(job: Job, out: str | Path, tell: Callable[[str, int, str], None]) -> bool:
    """Play one run to its end, here. Whether it came to its end; a failure is told and recorded, not raised."""
    due = 0.0

    def after(history: History) -> None:
        nonlocal due
        if time.monotonic() >= due:
            tell("playing", len(history), "")
            due = time.monotonic() + EVERY

    where = job.directory(out)
    _clear(where)
    try:
        history = job.prepare().play_on_disk(out, after=after)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        text = traceback.format_exc()
        _record(where, text)
        tell("failed", 0, text if not isinstance(error, ConRLError) else f"{text}\n{error}")
        return False
    if history.interrupted:
        tell("interrupted", len(history), "")
        return False
    _clear(where)
    tell("done", len(history), "")
    return True


def _record(where: Path, text: str) -> None:
    """Leave the traceback of a failure beside its run, unless it is there."""
    with suppress(ConRLError, OSError):
        if not (where / FAILED).exists():
            where.mkdir(parents=True, exist_ok=True)
            with atomic_write(where / FAILED) as file:
                file.write(text.encode(errors="backslashreplace"))


def _clear(where: Path) -> None:
    with suppress(OSError):
        (where / FAILED).unlink(missing_ok=True)


# -- local processes --------------------------------------------------------------------------------------


def _work(pipe: Connection, out: str) -> None:
    """A worker: runs that come through the pipe, until None comes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        while (task := pipe.recv()) is not None:
            place, job = task

            def tell(kind: str, episodes: int, text: str, place: int = place) -> None:
                pipe.send(Event(place, kind, episodes, text))

            execute(job, out, tell)


def _end_with_parent() -> None:
    """No run goes on without the process that asked for it; what is lost is played again."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Worker:
    def __init__(self, out: Path) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, str(out)), daemon=True)
        # Ctrl-C at a terminal is sent to all processes. This one tells the workers, once: two signals end them at once.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()

    def give(self, task: tuple[int, Job]) -> None:
        self.task = task
        with suppress(OSError):  # a worker that died meanwhile is noticed when it is listened to
            self.pipe.send(task)

    def stop(self) -> None:
        with suppress(OSError):
            self.pipe.send(None)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def in_processes(queue: deque[tuple[int, Job]], out: Path, count: int, tell: Listener) -> None:
    """Play runs in `count` processes until the queue is empty and all have ended; `tell` may add to the queue."""
    attempts: dict[int, int] = {}

    def lost(place: int, job: Job) -> None:
        attempts[place] = attempts.get(place, 0) + 1
        if attempts[place] < ATTEMPTS:
            queue.appendleft((place, job))
            tell(Event(place, "lost"))
        else:
            tell(Event(place, "failed", text=f"its worker died {ATTEMPTS} times"))

    idle = [_new_worker(out) for _ in range(count)]
    busy: list[_Worker] = []
    try:
        while queue or busy:
            while queue and idle:
                worker = idle.pop()
                worker.give(queue.popleft())
                busy.append(worker)
                tell(Event(worker.task[0], "started"))
            ready = wait([worker.pipe for worker in busy])
            for worker in [w for w in busy if w.pipe in ready]:
                try:
                    event = worker.pipe.recv()
                except (EOFError, OSError):  # killed: by the system, by hand, by a fault in a library
                    busy.remove(worker)
                    idle.append(_new_worker(out))
                    lost(*worker.task)
                    continue
                if event.kind != "playing":
                    busy.remove(worker)
                    idle.append(worker)
                if event.kind == "interrupted":  # somebody sent SIGTERM to this worker alone
                    lost(*worker.task)
                else:
                    tell(event)
    except KeyboardInterrupt:
        for worker in busy:  # each ends after its episode, and saves
            worker.process.terminate()
            worker.stop()
        for worker in busy:
            worker.process.join(timeout=30)
        raise
    finally:
        for worker in idle:
            worker.stop()


def _new_worker(out: Path) -> _Worker:
    with _environment(ONE_THREAD):
        return _Worker(out)


# -- Dask -------------------------------------------------------------------------------------------------


def _on_dask(tasks: Sequence[tuple[int, Job]], out: Path, address: str, tell: Listener) -> None:
    try:
        from distributed import Client, as_completed
        from distributed import wait as wait_for
    except ImportError as error:
        raise SpecError(f"a Dask cluster needs the extra: pip install 'conrl[cluster]' ({error})") from None
    if not re.fullmatch(r"(\w+://)?[\w.\[\]:-]+:\d+|inproc://.+", address):
        raise SpecError(f"{address!r} is no address of a Dask scheduler; write for example tcp://127.0.0.1:8786")
    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split())
        raise RunError(f"no Dask scheduler answers at {address}; start one with `dask scheduler`: {why}") from None
    jobs = dict(tasks)
    topic = f"conrl-{secrets.token_hex(8)}"  # other studies may be on the same cluster
    with client, client.as_current():
        try:
            client.wait_for_workers(1, timeout=60)
        except TimeoutError:
            raise RunError(f"the Dask scheduler at {address} has had no worker for a minute; start some") from None

        def heard(message: tuple[float, Any]) -> None:
            place, kind, episodes = message[1]
            tell(Event(place, kind, episodes))

        client.subscribe_topic(topic, heard)
        futures = {
            client.submit(_on_worker, topic, place, job, str(out), pure=False, retries=0): place for place, job in tasks
        }
        try:
            for future in as_completed(futures):
                place = futures[future]
                if future.status == "error":  # its workers died too often, or could not even begin
                    text = "".join(traceback.format_exception(future.exception()))
                    tell(Event(place, "failed", text=text))
                    continue
                if future.status != "finished":
                    raise RunError(f"the Dask scheduler at {address} is gone; the same command goes on from here")
                kind, episodes, text = future.result()
                if kind == "done" and not (jobs[place].directory(out) / "config.json").exists():
                    text = f"the workers do not see {out}: give --out a directory that they share"
                    tell(Event(place, "failed", text=text))
                else:
                    tell(Event(place, kind, episodes, text))
        except KeyboardInterrupt:
            with suppress(OSError, TimeoutError):  # those that play end after their episode, the others do not begin
                client.run(_stop, topic)
                wait_for(list(futures), timeout=30)
            raise


STOPPED: set[str] = set()  # on a worker of a cluster: the studies that were interrupted


def _stop(study: str) -> None:
    STOPPED.add(study)


def _on_worker(study: str, place: int, job: Job, out: str) -> tuple[str, int, str]:
    """One run on a worker of the cluster: how it ended."""
    from distributed import get_worker

    worker = get_worker()
    last = ("failed", 0, "it did not end")

    def tell(kind: str, episodes: int, text: str) -> None:
        nonlocal last
        last = (kind, episodes, text)
        if kind in ("started", "playing"):
            if study in STOPPED:
                raise KeyboardInterrupt
            worker.log_event(study, (place, kind, episodes))

    try:
        tell("started", 0, "")
        execute(job, out, tell)
    except KeyboardInterrupt:
        return "interrupted", last[1], ""
    return last

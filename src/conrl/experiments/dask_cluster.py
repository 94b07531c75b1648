"""Runs on a Dask cluster, whose workers see one directory under the same name."""

from __future__ import annotations

import re
import secrets
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from conrl.errors import RunError, SpecError
from conrl.experiments.execution import EPISODES, Event, Listener, Play, execute
from conrl.experiments.jobs import Job
from conrl.experiments.worlds import Worlds


def import_distributed() -> Any:
    """Dask's `distributed`, or what to install."""
    try:
        import distributed
    except ImportError as error:
        raise SpecError(f"a Dask cluster needs the extra: pip install 'conrl[cluster]' ({error})") from None
    return distributed


def on_dask(
    tasks: Sequence[tuple[int, Job]], out: Path, address: str, tell: Listener, play: Play = EPISODES.play
) -> None:
    """Play runs on the workers of a scheduler until all have ended; Ctrl-C ends each after its episode."""
    distributed = import_distributed()
    if not re.fullmatch(r"(\w+://)?[\w.\[\]:-]+:\d+|inproc://.+", address):
        raise SpecError(f"{address!r} is no address of a Dask scheduler; write for example tcp://127.0.0.1:8786")
    try:
        client = distributed.Client(address, timeout="10s", set_as_default=False)
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
            index, kind, episodes = message[1]
            tell(Event(index, kind, episodes))

        client.subscribe_topic(topic, heard)
        futures = {
            client.submit(_on_worker, topic, index, job, str(out), play, pure=False, retries=0): index
            for index, job in tasks
        }
        try:
            for future in distributed.as_completed(futures):
                index = futures[future]
                if future.status == "error":  # its workers died too often, or could not even begin
                    text = "".join(traceback.format_exception(future.exception()))
                    tell(Event(index, "failed", text=text))
                    continue
                if future.status != "finished":
                    raise RunError(f"the Dask scheduler at {address} is gone; run the same command to resume")
                kind, episodes, text = future.result()
                if kind == "done" and not (jobs[index].directory(out) / "config.json").exists():
                    text = f"the workers do not see {out}: give --out a directory that they share"
                    tell(Event(index, "failed", text=text))
                else:
                    tell(Event(index, kind, episodes, text))
        except KeyboardInterrupt:
            with suppress(OSError, TimeoutError):  # those that play end after their episode, the others do not begin
                client.run(_stop, topic)
                distributed.wait(list(futures), timeout=30)
            raise


# On a worker of a cluster, which lives longer than a run: the studies that were interrupted, and the models made.
STOPPED: set[str] = set()
WORLDS = Worlds()


def _stop(study: str) -> None:
    STOPPED.add(study)


def _on_worker(study: str, index: int, job: Job, out: str, play: Play) -> tuple[str, int, str]:
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
            worker.log_event(study, (index, kind, episodes))

    try:
        tell("started", 0, "")
        execute(job, out, tell, WORLDS, play)
    except KeyboardInterrupt:
        return "interrupted", last[1], ""
    return last

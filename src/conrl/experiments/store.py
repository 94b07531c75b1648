"""One run on disk: `config.json`, `checkpoint.npz`, `progress.csv` and `lock` in a directory of its own.

A checkpoint is the learner and the history, written whole to a temporary file, synced and renamed. What happens in an
episode depends on the seed and the number of the episode alone, so that a run killed at any moment and started again
ends with the same bytes in `progress.csv` as one that was never killed. No file holds a time or can run code.

A checkpoint belongs to its run: it holds the run's settings (environment, seed, learner, digest of the model), which
are compared when it is continued, and the books of a hard budget must be those of the history. A
consistently forged checkpoint, history, counts, books and seal, goes undetected (`conrl.learners.saving`). Nothing is
read or written through a link inside a run's directory.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from conrl._types import Array
from conrl.errors import ConRLError, RunError
from conrl.io import is_model_file, model_stem
from conrl.io.cells import split_header
from conrl.io.files import alone, atomic_write, parse_json, reading, refuse_links
from conrl.learners.adapted import as_learner
from conrl.learners.arrays import group, prefixed
from conrl.learners.base import optional
from conrl.learners.saving import DAMAGED, learner_arrays, learner_of, made_arrays, read_sealed, write_sealed
from conrl.model import ConstrainedMDP
from conrl.model.digest import digest
from conrl.running import History, learn
from conrl.running.loop import make_world
from conrl.signals import interruptible

STUDY = "study.json"  # what a directory of runs holds
FAILED = "failed.txt"  # the traceback of a run that failed
VERSION = 5  # of what a run with given settings does, and of what its checkpoint holds
FIRST_SAVE = 0.25  # seconds after the start
LEAST_PAUSE = 0.5  # seconds between two checkpoints,
SHARE = 20.0  # and at least so many times what the last one took
LARGEST_JSON = 1 << 24  # bytes


def run_directory(out: str | Path, env: str, algorithm: str, seed: int) -> Path:
    """DIR/<env>/<algorithm>/seed-000."""
    return Path(out) / environment_directory(env) / safe_name(algorithm) / f"seed-{seed:03d}"


def environment_directory(env: str) -> str:
    """What the directory of an environment is called: of a file, by its name alone."""
    return safe_name(model_stem(env) if is_model_file(env) else env)


def safe_name(name: str, otherwise: str = "unnamed") -> str:
    """What a directory for this name is called."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or otherwise


def read_json(path: Path) -> dict[str, Any]:
    """What `config.json` or `study.json` holds."""
    with own_file(path):
        if path.stat().st_size > LARGEST_JSON:
            raise RunError(f"{path}: larger than {LARGEST_JSON:,} bytes; these are no settings")
        try:
            settings = parse_json(path.read_text(encoding="utf-8"))
        except ValueError:
            raise RunError(f"{path}: not JSON; delete it to start again") from None
    if not isinstance(settings, dict):
        raise RunError(f"{path}: not the settings of a run or a study")
    return settings


def write_json(path: Path, value: Any, sort_keys: bool = False) -> None:
    """A file of a run or a study, whole or not at all."""
    with atomic_write(path, follow=False) as file:
        file.write((json.dumps(value, indent=2, sort_keys=sort_keys) + "\n").encode())


@contextmanager
def own_file(path: Path) -> Iterator[None]:
    """To read a file of a run or a study: `reading`, and no link."""
    refuse_links(path, path.parent)
    with reading(path):
        yield


def clashes(directory: Path, config: dict[str, Any]) -> str | None:
    """Why a run with these settings cannot go on in a directory; None if it can."""
    clash = _clash(read_json(directory / "config.json"), json.loads(json.dumps({"version": VERSION, **config})))
    remedy = "choose another directory or, in a spec, another name"
    return None if clash is None else f"{directory} holds a run with {clash}; {remedy}"


def _clash(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The first thing in which the settings of two runs differ, in words; None if one continues the other."""
    same = {"episodes"}
    if before.get("model") == now.get("model") and all(_is_file(side.get("env")) for side in (before, now)):
        same.add("env")  # the same model in a file that was moved
    # Where a parameter differs the model's digest does too, and says less.
    for key, there, here in sorted(_differences(before, now), key=lambda difference: difference[0] == "model"):
        if key not in same:
            return f"another {key}: {_short(there)} there, {_short(here)} here"
    return None


class RunFiles:
    """The files of a run in its directory, owned by one process while inside `with`.

    `config` is everything that the results depend on; a directory that holds another is refused, except that more
    `episodes` continue a run.
    """

    def __init__(self, directory: str | Path, config: dict[str, Any], resumes: bool = True) -> None:
        """`resumes`: the learner can be saved. Otherwise there is only the table, written at the end."""
        self.directory, self.resumes = Path(directory), resumes
        self.config = json.loads(json.dumps({"version": VERSION, **config}))
        self._owned = ExitStack()

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint.npz"

    @property
    def progress(self) -> Path:
        return self.directory / "progress.csv"

    def __enter__(self) -> RunFiles:
        with ExitStack() as stack:
            stack.enter_context(alone(self.directory, "working on this run", "lock"))
            for leftover in self.directory.glob(".conrl-*.tmp"):  # of a process killed while it wrote
                leftover.unlink(missing_ok=True)
            self._settle()
            self._owned = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owned.close()

    def _settle(self) -> None:
        """Compare the settings with those of an earlier start, or write them."""
        path = self.directory / "config.json"
        begun = self.checkpoint if self.resumes else self.progress  # without it nothing has been played
        if path.exists() and begun.exists():
            if (why := clashes(self.directory, self.config)) is not None:
                raise RunError(why)
            before = read_json(path).get("episodes")
            if isinstance(before, int) and before >= self.config.get("episodes", 0):
                return
        write_json(path, self.config, sort_keys=True)

    def load(self, history: History, fresh: Any, **given: Any) -> Any:
        """The learner as it was at the last checkpoint, and its history into `history`; None if there is none.

        Args:
            history: an empty one of this run.
            fresh: the learner that the run would begin with; another one is not continued.
            given: what `load_learner` needs again.
        """
        path = self.checkpoint
        if not self.resumes or not path.exists():
            return None
        with own_file(path):
            try:
                arrays = read_sealed(path)
                if (foreign := self._foreign(arrays, fresh)) is None:
                    return _resumed(arrays, history, given)
            except DAMAGED as error:
                raise RunError(f"{path}: damaged: {error}; delete it to start the run again") from None
        raise RunError(f"{path} is of a run with {foreign}; delete it to start the run again")

    def _foreign(self, arrays: dict[str, Array], fresh: Any) -> str | None:
        """What a checkpoint, or the learner in it, has that this run has not, in words; None if it is of this run."""
        if "run" not in arrays:
            return "no settings"
        if (why := _clash(parse_json(str(arrays["run"])), self.config)) is not None:
            return why
        made = made_arrays(fresh)
        theirs = {name: array for name, array in arrays.items() if name in made or name.startswith("task_")}
        if theirs.keys() != made.keys() or any(not np.array_equal(theirs[name], made[name]) for name in made):
            return "another learner"
        return None

    def save(self, learner: Any, history: History) -> None:
        """Write a checkpoint, then the table that people read."""
        if not self.resumes:
            self._write_progress(history.to_csv().encode())
            return
        arrays = learner_arrays(learner) | prefixed("history_", history.state())
        settings = {name: value for name, value in self.config.items() if name != "episodes"}  # more continue it
        arrays["run"] = np.array(json.dumps(settings, sort_keys=True))
        write_sealed(self.checkpoint, arrays, follow=False)
        self._write_progress(history.to_csv().encode())

    def complete(self, history: History) -> None:
        """Write the table again if it is not that of the history: killed between the two files of the last save."""
        whole = history.to_csv().encode()
        if _bytes_of(self.progress) != whole:
            self._write_progress(whole)

    def _write_progress(self, whole: bytes) -> None:
        with atomic_write(self.progress, follow=False) as file:
            file.write(whole)


def _resumed(arrays: dict[str, Array], history: History, given: dict[str, Any]) -> Any:
    """The learner that a checkpoint of this run holds, and its history into `history`; refuses what does not agree."""
    learner = learner_of(arrays, given)
    history.load_state(group(arrays, "history_"))
    if len(history) != learner.episodes:
        raise RunError("the history and the learner are of different lengths")
    if learner.budget is not None:
        learner.budget.check_history(history.costs, history.steps)
    return learner


def _bytes_of(path: Path) -> bytes | None:
    """What a file of ours holds; None where there is no such file."""
    try:
        with own_file(path):
            return path.read_bytes()
    except ConRLError:
        return None


def played(progress: Path) -> int:
    """Episodes that are in a `progress.csv`."""
    return split_header((_bytes_of(progress) or b"").decode(errors="replace"))[1].count("\n")


def model_digest(mdp: ConstrainedMDP) -> str:
    """Tells one model from another: a run is continued on the same only."""
    return digest(mdp, features=True)


def settings_of(env: Any, learner: Any, episodes: int, seed: int, config: dict[str, Any] | None) -> dict[str, Any]:
    """Everything that the results of a run depend on."""
    if learner.seed is None:
        learner.reseed(seed)
    settings = {**(config or {}), "learner": learner.config(), "seed": seed, "episodes": episodes}
    return settings | ({"model": model_digest(env)} if isinstance(env, ConstrainedMDP) else {})


def _differences(one: Any, other: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The fields in which two descriptions differ, by their path."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(one.get(key), other.get(key), f"{name}.{key}" if name else key)
    elif one != other:
        yield name, one, other


def _is_file(env: Any) -> bool:
    return isinstance(env, str) and is_model_file(env)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def learn_on_disk(
    directory: str | Path,
    env: Any,
    make_learner: Callable[[], Any],
    episodes: int,
    seed: int = 0,
    progress: bool = False,
    *,
    config: dict[str, Any] | None = None,
    given: dict[str, Any] | None = None,
    history: History | None = None,
    after: Callable[[History], None] | None = None,
    **options: Any,
) -> tuple[Any, History]:
    """`learn` with everything on disk: the learner and the history, continued from wherever they were.

    A learner that cannot be saved (`conrl.learners.adapted`) has no checkpoint: its run is played from the start.

    Args:
        directory: the run's own.
        env: as in `learn`.
        make_learner: makes it for a run that begins.
        episodes: in all; a run that has them is not played again.
        seed, progress, options: as in `learn`.
        config: what else the results depend on, as JSON; compared when a run is continued.
        given: what `load_learner` needs again.
        history: an empty one of the run, where there is one already.
        after: called with the history after each episode.

    Returns:
        The learner and the history of all episodes, those of earlier calls too.
    """
    fresh: Any = as_learner(make_learner(), env, undeclared=options.get("cost") is not None)
    settings = settings_of(env, fresh, episodes, seed, config)
    make_world(env, fresh, options.get("pay", "outcome"), options.get("cost"))  # what makes no sense ends here,
    _ = fresh.proposal  # before anything is written
    if history is None:  # an empty one is false
        history = History.of(fresh, env if isinstance(env, ConstrainedMDP) else None)
    resumes = bool(optional(fresh, "resumes"))
    with RunFiles(directory, settings, resumes) as files:
        learner = files.load(history, fresh, **(given or {})) or fresh
        left = episodes - learner.episodes
        if left <= 0:
            files.complete(history)
            return learner, history
        due = time.monotonic() + FIRST_SAVE

        def keep(history: History) -> None:
            nonlocal due
            if after is not None:
                after(history)
            begun = time.monotonic()
            if begun >= due and resumes:
                files.save(learner, history)
                took = time.monotonic() - begun
                due = begun + took + max(LEAST_PAUSE, SHARE * took)

        # An error may strike in the middle of an episode: then the last checkpoint stands. A signal waits for the save.
        with interruptible():
            learn(env, learner, left, seed, progress, history=history, after=keep, **options)
            if resumes or len(history) >= played(files.progress):  # else one that was played further stays
                files.save(learner, history)
        return learner, history

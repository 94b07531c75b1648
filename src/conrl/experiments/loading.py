"""A study read from its directory: the runs, finished or not, those that failed, and those that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conrl.arguments import check_text
from conrl.errors import RunError
from conrl.experiments.analysis import Failure, Study
from conrl.experiments.records import RunRecord, read_run
from conrl.experiments.store import FAILED, STUDY, own_file, read_json
from conrl.io.files import refuse_links
from conrl.learners.saving import DAMAGED

LONGEST_TRACEBACK = 100_000  # bytes


def load(directory: str | Path, whole: bool = False) -> Study:
    """All runs under a directory that `conrl run`, `reproduce` or `learn --out` wrote, finished or not.

    Args:
        directory: what was given as `--out`.
        whole: compare each run over all its episodes, and not over those that all runs in an environment have.
    """
    root = Path(directory)
    if not root.is_dir():
        raise RunError(f"no such directory: {root}")
    about = read_json(root / STUDY) if (root / STUDY).exists() else {}
    environments, algorithms = _entries(about, "environments"), _entries(about, "algorithms")
    environment_of, algorithm_of = _by_directory(environments), _by_directory(algorithms)
    read: list[RunRecord | Failure] = []
    unreadable = []
    for where in sorted(root.glob("*/*/seed-*")):
        environment, algorithm = where.parent.parent.name, where.parent.name
        names = environment_of.get(environment, environment), algorithm_of.get(algorithm, algorithm)
        try:
            seed = int(where.name.removeprefix("seed-"))
        except ValueError:
            continue
        try:
            read += _read(root, where, *names, seed)
        except DAMAGED as error:
            unreadable.append(f"{where}: {' '.join(str(error).split())}")
    if not read:
        why = f"; {unreadable[0]}" if unreadable else ""
        if any(root.glob("*/*/seed-*/curve.csv")):
            raise RunError(f"{root} holds runs in blocks, whose table is summary.csv; a report needs runs by episodes")
        raise RunError(f"{root} holds no runs: no ENVIRONMENT/ALGORITHM/seed-000/progress.csv{why}")
    runs = [one for one in read if isinstance(one, RunRecord)]
    failures = [one for one in read if isinstance(one, Failure)]
    played = dict.fromkeys(run.algorithm for run in runs)
    order = [name for name in dict.fromkeys((*algorithms, *played)) if name in played]
    runs.sort(key=lambda run: (run.environment, order.index(run.algorithm), run.seed))
    titles = {name: str(algorithms.get(name, {}).get("title", name)) for name in order}
    name = str(about.get("name") or root.resolve().name)
    title = str(about.get("title") or name)
    return Study(root, name, title, runs, failures, order, titles, unreadable, whole, environments)


def _read(root: Path, where: Path, environment: str, algorithm: str, seed: int) -> Iterator[RunRecord | Failure]:
    """What one directory holds: why the run failed, and what it played; one of them, both or none."""
    for name in (environment, algorithm):
        check_text(name, "its path")
    refuse_links(where, root)
    if (where / FAILED).exists():
        yield Failure(environment, algorithm, seed, _start_of(where / FAILED))
    if (where / "progress.csv").exists() and (where / "config.json").exists():
        yield read_run(where, environment, algorithm, seed)


def _start_of(path: Path) -> str:
    """As much of a traceback as anybody reads."""
    with own_file(path), path.open("rb") as file:
        return file.read(LONGEST_TRACEBACK).decode(errors="replace")


def _by_directory(entries: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Names by those of their directories, which may be shorter."""
    return {str(entry.get("directory", name)): name for name, entry in entries.items()}


def _entries(about: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """What a study's file says of its environments or algorithms, by name; the file may hold anything."""
    table = about.get(kind)
    return {n: e for n, e in table.items() if isinstance(e, dict)} if isinstance(table, dict) else {}

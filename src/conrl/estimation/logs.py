"""Files of logged episodes.

Logs are tables with one row a step, as `.csv` or as arrays of these names in an `.npz` file:

    episode, step, state, action, reward, cost_<name>..., next_state     and, if there are any, terminated (0 or 1)
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conrl._types import Array, Float, Int
from conrl.arguments import read_count
from conrl.episode import Episode, check_episode
from conrl.errors import ModelError, RunError, shown, unknown
from conrl.io.cells import csv_text, from_cell
from conrl.io.files import atomic_write, file_path, read_npz, reading, write_npz
from conrl.model import Task
from conrl.model.reading import read_names
from conrl.sizes import check_costs

REQUIRED = ("episode", "step", "state", "action", "reward", "next_state")
NAMED = {"state", "action", "next_state"}  # what may be texts


@dataclass(frozen=True, eq=False)
class Log:
    """Logged episodes, with the names behind the indices where states or actions are texts."""

    episodes: tuple[Episode, ...]
    cost_names: tuple[str, ...]
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None


def episodes_of(given: Any) -> tuple[Episode, ...]:
    """Episodes that somebody passed; refuses anything else."""
    try:
        episodes = tuple(given)
    except TypeError:
        raise ModelError(f"expected episodes or a log file, not {type(given).__name__}") from None
    for i, episode in enumerate(episodes):
        if not isinstance(episode, Episode):
            raise ModelError(f"episode {i + 1} is a {type(episode).__name__}, not an Episode")
    return episodes


def load_episodes(path: str | Path) -> Log:
    """Read logged episodes from a `.csv` or `.npz` file (columns as in the module's docstring).

    States and actions are indices if all of them are whole numbers, else texts, numbered by first appearance. Rows may
    come in any order; the steps of an episode count from 0 (or all from 1) without gaps, and each begins where the one
    before ended.
    """
    path = file_path(path)
    with reading(path):
        try:
            if path.suffix.lower() == ".npz":
                table = read_npz(path, lambda names, read: None)
            elif path.suffix.lower() == ".csv":
                table = _read_csv(path)
            else:
                raise ModelError("a log is read from .csv or .npz")
            return _log(table)
        except (ModelError, UnicodeDecodeError, csv.Error) as error:
            raise ModelError(f"{path}: {error}") from None


def _read_csv(path: Path) -> dict[str, Array]:
    body = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        header = [name.strip() for name in next(reader, [])]
        check_costs(len(header) - len(REQUIRED) - 1)
        if len(set(header)) != len(header):
            raise ModelError("line 1: a column is there twice")
        for row in filter(None, reader):
            if len(row) != len(header):
                raise ModelError(f"line {reader.line_num}: {len(row)} fields; the header has {len(header)}")
            body.append(row)
    if not header:
        raise ModelError("the file is empty")
    columns = {name: np.array([row[c].strip() for row in body], dtype=object) for c, name in enumerate(header)}
    for name in columns.keys() & NAMED:
        columns[name] = np.array([from_cell(text) for text in columns[name]], dtype=object)
    return columns


def _log(table: Mapping[str, Array]) -> Log:
    """The episodes of a table, by their numbers; each row is a step, in any order."""
    known = (*REQUIRED, "terminated")
    for name in table:
        if name not in known and not name.startswith("cost_"):
            raise ModelError(unknown("column", name, [*known, "cost_<name>"]))
    for name in REQUIRED:
        if name not in table:
            raise ModelError(f"no column {name!r}; a log has {', '.join(REQUIRED)} and cost_<name>")
    sizes = {np.shape(column) for column in table.values()}
    if len(sizes) != 1 or len(next(iter(sizes))) != 1:
        raise ModelError("the columns of a log are lists of one length")
    costs = tuple(name for name in table if name.startswith("cost_"))
    episode, step = _integers(table["episode"], "episode"), _integers(table["step"], "step")
    both = [_plain(table[name]) for name in ("state", "next_state")]
    state, state_names = _labels(np.concatenate(both), "state", episode.size)
    action, action_names = _labels(_plain(table["action"]), "action", episode.size)
    pay = np.column_stack([_numbers(table[name], name) for name in ("reward", *costs)])
    ended = _integers(table["terminated"], "terminated") if "terminated" in table else np.zeros(episode.size, np.int64)
    order = np.lexsort((step, episode))
    before, after = state[: episode.size][order], state[episode.size :][order]
    episode, step, action, pay, ended = episode[order], step[order], action[order], pay[order], ended[order]
    if not np.isin(ended, (0, 1)).all():
        raise ModelError(f"terminated is {ended[~np.isin(ended, (0, 1))][0]} somewhere; it must be 0 or 1")
    begins = np.flatnonzero(np.diff(episode, prepend=episode[0] - 1)) if episode.size else np.zeros(0, dtype=np.int64)
    episodes = []
    ends = np.append(begins[1:], episode.size)[: begins.size]
    for lo, hi in zip(begins, ends, strict=True):
        _check_steps(int(episode[lo]), step[lo:hi], before[lo:hi], after[lo:hi], ended[lo:hi])
        states = np.append(before[lo:hi], after[hi - 1])
        episodes.append(Episode._of(states, action[lo:hi], pay[lo:hi], terminated=bool(ended[hi - 1])))
    names = tuple(name.removeprefix("cost_") for name in costs)
    return Log(tuple(episodes), names, state_names, action_names)


def _check_steps(episode: int, step: Int, before: Int, after: Int, ended: Int) -> None:
    if step[0] not in (0, 1) or (np.diff(step) != 1).any():
        raise ModelError(f"episode {episode}: its steps are {_some(step)}; they must count from 0 without gaps")
    broken = np.flatnonzero(after[:-1] != before[1:])
    if broken.size:
        raise ModelError(
            f"episode {episode}: step {int(step[broken[0] + 1])} does not begin where the one before ended"
        )
    if ended[:-1].any():
        raise ModelError(f"episode {episode}: it goes on after it has terminated")


def _some(values: Int) -> str:
    return ", ".join(map(str, values[:5].tolist())) + (", ..." if values.size > 5 else "")


def _numbers(column: Array, name: str) -> Float:
    numbers = np.empty(len(column))
    for i, x in enumerate(column):
        try:
            numbers[i] = float(x)
        except (TypeError, ValueError):
            raise ModelError(f"row {i + 1}: {name} is {x!r}, not a number") from None
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        raise ModelError(f"row {bad[0] + 1}: {name} is {column[bad[0]]}; it must be a finite number")
    return numbers


def _integers(column: Array, name: str) -> Int:
    numbers = _numbers(column, name)
    bad = np.flatnonzero((numbers != np.floor(numbers)) | (np.abs(numbers) > 2**53))
    if bad.size:
        raise ModelError(f"row {bad[0] + 1}: {name} is {column[bad[0]]}; it must be a whole number")
    return numbers.astype(np.int64)


def _plain(column: Array) -> Array:
    """Whole numbers as integers, however they are stored; texts as they are."""
    if column.dtype.kind == "f" and (column == np.floor(column)).all() and (np.abs(column) <= 2**53).all():
        return column.astype(np.int64).astype(object)
    return column.astype(object)


def _labels(column: Array, name: str, rows: int) -> tuple[Int, tuple[str, ...] | None]:
    """Indices, and the names behind them unless they are whole numbers themselves."""
    texts = [str(x) for x in column]
    if "" in texts:
        raise ModelError(f"row {texts.index('') % rows + 1}: {'an' if name == 'action' else 'a'} {name} is missing")
    if all(x.isascii() and x.removeprefix("-").isdigit() and len(x) < 4000 for x in texts):
        numbers = [int(x) for x in texts]
        if numbers and (min(numbers) < 0 or max(numbers) >= 2**31):
            raise ModelError(f"{name} {min(numbers) if min(numbers) < 0 else max(numbers)} is not an index")
        return np.array(numbers, dtype=np.int64), None
    index: dict[str, int] = {}
    indices = np.array([index.setdefault(x, len(index)) for x in texts], dtype=np.int64)
    return indices, tuple(index)


def save_episodes(path: str | Path, episodes: Iterable[Episode], cost_names: Sequence[str], *, first: int = 0) -> None:
    """Write episodes as a log (`.csv` or `.npz`) that `load_episodes` reads; those not played are left out."""
    path = file_path(path)
    read_count(first, "first", 0)
    if isinstance(cost_names, str) or not isinstance(cost_names, Sequence):
        raise ModelError(f"cost_names is {shown(cost_names)}; expected a list of names")
    cost_names = read_names(cost_names, len(cost_names), "cost_names") or ()
    names = [*REQUIRED[:5], *(f"cost_{name}" for name in cost_names), "next_state", "terminated"]
    rows = [row for e, episode in enumerate(episodes_of(episodes)) for row in log_rows(first + e, episode)]
    wrong = next((row for row in rows if len(row) != len(names)), None)
    if wrong is not None:
        count = len(wrong) - len(names) + len(cost_names)
        raise ModelError(f"{len(cost_names)} names for the {count} costs of an episode")
    if path.suffix == ".csv":
        with atomic_write(path) as file:
            file.write(csv_text([names, *rows]).encode())
    elif path.suffix == ".npz":
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        paid = {"reward", *(name for name in names if name.startswith("cost_"))}
        arrays = {
            name: np.array(column, dtype=np.float64 if name in paid else np.int64)
            for name, column in zip(names, columns, strict=True)
        }
        with atomic_write(path) as file:
            write_npz(file, arrays)
    else:
        raise ModelError(f"{path}: a log is written as .csv or .npz")


def log_rows(number: int, episode: Episode) -> list[tuple[Any, ...]]:
    """The rows of one episode: episode, step, state, action, reward, costs, next state, terminated."""
    states, actions = episode.states.tolist(), episode.actions.tolist()
    last = len(actions) - 1
    return [
        (number, h, states[h], a, *map(float, episode.pay[h]), states[h + 1], int(episode.terminated and h == last))
        for h, a in enumerate(actions)
    ]


def logged(task: Task, episodes: str | Path | Log | Iterable[Episode]) -> tuple[Episode, ...]:
    """Logged episodes that fit a task; `RunError` if one does not."""
    log = load_episodes(episodes) if isinstance(episodes, (str, Path)) else episodes
    if isinstance(log, Log):
        if log.state_names is not None or log.action_names is not None:
            raise RunError("the log has texts as states or actions; with a task it needs the task's indices")
        if tuple(log.cost_names) != tuple(task.cost_names):
            raise RunError(f"the log has costs {log.cost_names}; the task has {tuple(task.cost_names)}")
        log = log.episodes
    log = episodes_of(log)
    for i, episode in enumerate(log):
        try:
            check_episode(task, episode)
        except RunError as error:
            raise RunError(f"episode {i + 1} of the log: {error}") from None
    return log

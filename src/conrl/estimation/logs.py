"""Files of logged episodes.

Logs are tables with one row a step, as `.csv`, as `.parquet`, or as arrays of these names in an `.npz` file:

    episode, step, state, action, reward, cost_<name>..., next_state     and, if there are any, terminated (0 or 1)

`conrl.estimation.log_files` reads the tables; this makes episodes of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Bool, Float, Int
from conrl.arguments import is_number, read_count, read_seed, setter
from conrl.episode import Episode
from conrl.errors import ModelError, ModelWarning, SpecError, shown
from conrl.estimation.log_columns import COLUMNS, read_asked
from conrl.estimation.log_files import read_table
from conrl.estimation.log_tables import Table, Texts
from conrl.io.cells import csv_text
from conrl.io.files import atomic_write, file_path, reading, write_npz
from conrl.io.mistakes import Mistakes
from conrl.io.model_checks import alike, first_lines
from conrl.io.sheets import COST
from conrl.model.reading import read_names
from conrl.notebook import Columns, Display, Displayed, Framed
from conrl.wording import brief, counted, line


@dataclass(frozen=True, eq=False)
class Log(Displayed, Framed):
    """Logged episodes, with the names behind the indices where states or actions are texts.

    As a data frame, a row for each step: `episode` and `step` (from 0), `state`, `action`, `reward`, `cost_<name>`,
    `next_state`, and `terminated`, whether the episode ended there by itself: the columns of a file.
    """

    episodes: tuple[Episode, ...]
    cost_names: tuple[str, ...]
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check what somebody put together: episodes, and names that cover their states, actions and costs."""
        own, put = episodes_of(self.episodes), setter(self)
        put("episodes", own)
        put("cost_names", _names(self.cost_names, "cost_names"))
        played = [e for e in own if len(e)]
        wrong = next((e for e in played if e.pay.shape[1] != 1 + len(self.cost_names)), None)
        if wrong is not None:
            raise ModelError(f"{len(self.cost_names)} names for the {wrong.pay.shape[1] - 1} costs of an episode")
        for what in ("state", "action"):
            given = getattr(self, f"{what}_names")
            if given is None:
                continue
            names = _names(given, f"{what}_names")
            put(f"{what}_names", names)
            most = max((int((e.states if what == "state" else e.actions).max()) for e in played), default=-1)
            if most >= len(names):
                raise ModelError(f"{len(names)} {what}_names, but an episode has {what} {most}")

    def __repr__(self) -> str:
        sizes = f"episodes={len(self.episodes)}, steps={self.num_steps}"
        return line(self, sizes, f"costs={brief(self.cost_names)}")

    def _columns(self) -> Columns:
        played = [(i, e) for i, e in enumerate(self.episodes) if len(e)]
        pay = np.concatenate([np.zeros((0, 1 + len(self.cost_names))), *(e.pay for _, e in played)])

        def joined(parts: list[Any]) -> Int:
            return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

        def named(places: Int, names: tuple[str, ...] | None) -> Any:
            return places if names is None else [names[i] for i in places.tolist()]

        return {
            "episode": joined([np.full(len(e), i) for i, e in played]),
            "step": joined([np.arange(len(e)) for _, e in played]),
            "state": named(joined([e.states[:-1] for _, e in played]), self.state_names),
            "action": named(joined([e.actions for _, e in played]), self.action_names),
            **dict(zip(("reward", *(f"{COST}{name}" for name in self.cost_names)), pay.T, strict=True)),
            "next_state": named(joined([e.states[1:] for _, e in played]), self.state_names),
            "terminated": joined([np.append(np.zeros(len(e) - 1), e.terminated) for _, e in played]) > 0,
        }

    def _display(self) -> Display:
        totals = np.array([e.total for e in self.episodes if len(e)]).reshape(-1, 1 + len(self.cost_names))
        n = len(totals)
        columns = {
            "total of an episode": ("reward", *self.cost_names),
            "mean": totals.mean(axis=0) if n else np.full(totals.shape[1], np.nan),
            "least": totals.min(axis=0, initial=np.inf),
            "most": totals.max(axis=0, initial=-np.inf),
        }
        return Display(f"Log of {counted(len(self.episodes), 'episode')}, {counted(self.num_steps, 'step')}", columns)

    @property
    def num_steps(self) -> int:
        """Steps of all episodes."""
        return sum(map(len, self.episodes))

    def split(self, share: float = 0.5, seed: int = 0) -> tuple[Log, Log]:
        """Two logs: each episode is dealt into one of them at random, a `share` of all into the first.

        Both have at least one. Episodes keep their order, and states, actions and costs their names and indices.
        """
        n = len(self.episodes)
        if not is_number(share) or not 0.0 < share < 1.0:
            raise SpecError(f"share is {shown(share)}; it must be a number between 0 and 1", key=("share",))
        if n < 2:
            raise SpecError(f"a log of {n} episode{'s' * (n != 1)} cannot be split; it needs two", key=("episodes",))
        count = min(max(round(share * n), 1), n - 1)
        chosen = np.zeros(n, dtype=bool)
        chosen[np.random.default_rng(read_seed(seed)).permutation(n)[:count]] = True
        parts = [tuple(e for e, mine in zip(self.episodes, own, strict=True) if mine) for own in (chosen, ~chosen)]
        return replace(self, episodes=parts[0]), replace(self, episodes=parts[1])


def _names(given: Any, what: str) -> tuple[str, ...]:
    """Names that somebody passed; refuses anything else."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ModelError(f"{what} is {shown(given)}; expected a list of names")
    return read_names(given, len(given), what) or ()


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


def load_episodes(
    path: str | Path, *, columns: Mapping[str, str] | None = None, ignore: str | Iterable[str] = ()
) -> Log:
    """Read logged episodes from a `.csv`, `.npz` or `.parquet` file (columns as in the module's docstring).

    Args:
        path: the file; Parquet needs Polars (`pip install conrl[report]`).
        columns: what the file calls a column of ours, `{"state": "ward", "cost_harm": "adverse"}`; others have our
            names, in capitals or not.
        ignore: columns to leave out; `"*"` leaves out all that are not known. Columns that hold times are left out
            anyway: `time`, `date`, `datetime`, `timestamp`, `ts`, and what ends in `_at`, `_time`, `_date`,
            `_timestamp`, `_ts` or `_utc`.

    States and actions are indices if all of them are whole numbers, else texts, numbered by first appearance: `01` is a
    text, and so are all others beside it. Names that look alike, such as `01` and `1`, are a `ModelWarning`.
    Episodes are in the order of their numbers, or by first appearance if some are texts. Rows may come in any order;
    the steps of an episode count from 0 (or all from 1) without gaps, and each begins where the one before ended.
    Without a column `step`, the rows of an episode are its steps in the order of the file. The first mistake is raised,
    with its line; `conrl check` lists all.
    """
    return read_log(path, columns, ignore).loaded()


class FoundLog(NamedTuple):
    """What was found in a file: a log, unless there are mistakes."""

    log: Log | None
    mistakes: Mistakes
    warnings: list[str]  # what is no mistake, but looks like one
    unfinished: int = 0  # lines at the end of a growing file that were not read

    def loaded(self) -> Log:
        """The log; the first mistake is raised."""
        self.mistakes.refuse()
        assert self.log is not None
        for told in self.warnings:
            warnings.warn(told, ModelWarning, stacklevel=3)
        return self.log


def read_log(
    path: str | Path,
    columns: Mapping[str, str] | None,
    ignore: str | Iterable[str],
    *,
    growing: bool = False,
    shell: bool = False,
) -> FoundLog:
    """What is in a file: the log, or all of its mistakes; arguments as in `load_episodes`.

    A CSV file that is `growing` may have a last line that is not written to its end: it is not read.
    What is said about columns is in words of the command line (`shell`), or of Python.

    A `ModelError` is about what keeps anything from being read, a `SpecError` about the arguments.
    """
    path = file_path(path)
    asked = read_asked(columns, ignore, shell)
    with reading(path):
        table = read_table(path, asked, growing)
    return _log(table)._replace(unfinished=table.unfinished)


class _Steps(NamedTuple):
    """All steps, sorted by episode and step."""

    row: Int  # of the table
    episode: Int
    step: Int
    before: Int
    after: Int
    ended: Bool
    goes_on: Bool  # [n-1]: whether the next step is one of the same episode


def _log(table: Table) -> FoundLog:
    """The episodes of a table; each row is a step, in any order."""
    episode, ids = table.ids("episode")
    (before, after), state_names = table.labels("state", "next_state")
    (action,), action_names = table.labels("action")
    ended = table.flags("terminated")
    step = table.integers("step") if "step" in table.columns else None
    pay = np.empty((table.rows, 1 + len(table.costs)))
    for i, name in enumerate(("reward", *table.costs)):
        pay[:, i] = table.numbers(name)
    if step is None:
        order = np.argsort(episode, kind="stable")
        step = _positions(episode[order])
    else:
        order = np.lexsort((step, episode))
        step = step[order]
    own = episode[order]
    goes_on = own[1:] == own[:-1]
    steps = _Steps(order, own, step, before[order], after[order], ended[order], goes_on)
    _check_steps(table, steps, _doubtful(table, episode, ids)[order], ids, state_names)
    if table.mistakes:
        return FoundLog(None, table.mistakes, [])
    costs = tuple(name.removeprefix(COST) for name in table.costs)
    log = Log(_episodes(steps, action[order], pay[order]), costs, state_names, action_names)
    looks = (("episode", ids, (episode,)), ("state", state_names, (before, after)), ("action", action_names, (action,)))
    told = [one for kind, names, codes in looks for one in _alike(kind, names or (), codes, table)]
    told += [*alike("cost", costs)]
    return FoundLog(log, table.mistakes, [f"{table.mistakes.label}: {one}" for one in told])


def _alike(kind: str, names: Sequence[str], codes: tuple[Int, ...], table: Table) -> Iterator[str]:
    """A warning for names that look alike; where each is first takes time, and is looked for if there are any."""
    if any(alike(kind, names)):
        lines = first_lines(len(names), *((code, table.lines) for code in codes))
        yield from alike(kind, names, lines, table.mistakes.place)


def _doubtful(table: Table, episode: Int, ids: Sequence[str] | None) -> Bool:
    """[n]: whether a row belongs to an episode of which some row cannot be read: what its steps are is not known."""
    wrong = set(episode[~table.sound].tolist())
    place = {text: i for i, text in enumerate(ids or ())}
    column = table.columns["episode"]
    unknown = isinstance(column, Texts) and any(not text.strip() for text in column.distinct)
    for cell in table.lost:
        text = "" if cell is None else cell.strip()
        known = place.get(text) if ids is not None else int(text) if text.isdecimal() and len(text) < 16 else None
        unknown = unknown or known is None
        wrong.add(-1 if known is None else known)
    if unknown:  # a row that may belong to any of them
        return np.ones(table.rows, dtype=bool)
    return np.isin(episode, list(wrong)) if wrong else np.zeros(table.rows, dtype=bool)


def _positions(episode: Int) -> Int:
    """Which step of its episode each row is, if those of an episode stand together."""
    first = np.flatnonzero(np.diff(episode, prepend=episode[:1] - 1))
    length = np.diff(np.append(first, episode.size))
    return np.arange(episode.size) - np.repeat(first, length)


def _episodes(steps: _Steps, action: Int, pay: Float) -> tuple[Episode, ...]:
    """Each episode has parts of three arrays that all of them share, and that nobody can write to."""
    n = action.size
    if not n:
        return ()
    last = np.flatnonzero(np.append(~steps.goes_on, True))
    number = np.arange(last.size)
    states = np.empty(n + last.size, dtype=np.int64)  # each episode has one more than steps
    states[last + number + 1] = steps.after[last]
    states[np.arange(n) + np.repeat(number, np.diff(last, prepend=-1))] = steps.before
    for own in (states, action, pay):
        own.flags.writeable = False
    ends = (last + 1).tolist()
    parts = zip([0, *ends[:-1]], ends, steps.ended[last].tolist(), strict=True)
    return tuple(
        Episode._of(states[lo + e : hi + e + 1], action[lo:hi], pay[lo:hi], terminated=terminated)
        for e, (lo, hi, terminated) in enumerate(parts)
    )


def _check_steps(
    table: Table, steps: _Steps, doubtful: Bool, ids: Sequence[str] | None, names: Sequence[str] | None
) -> None:
    """Refuse steps that do not follow each other; not those of episodes in doubt. One mistake is told once."""
    row, step, n = steps.row, steps.step, steps.row.size
    jump = np.diff(step)

    def called(k: int) -> str:
        return f"episode {steps.episode[k] if ids is None else shown(ids[steps.episode[k]])}"

    def state(index: int) -> str:
        return str(index) if names is None else shown(names[index])

    def late(k: int) -> str:
        others = ", and others with step 0" if step[k] == 1 else ""
        return f"{called(k)} begins with step {step[k]}{others}; steps count from 0, or all from 1, without gaps"

    def twice(k: int) -> str:
        return f"{called(k)} has step {step[k]} twice (also {table.place(int(row[k - 1]))})"

    def gap(k: int) -> str:
        lost = (int(step[k - 1]) + 1, int(step[k]) - 1)
        missing = f"step {lost[0]} is missing" if lost[0] == lost[1] else f"steps {lost[0]} to {lost[1]} are missing"
        return f"{called(k)} goes from step {step[k - 1]} to step {step[k]}; {missing}"

    def torn(k: int) -> str:
        before = f"the one before ({table.place(int(row[k - 1]))}) ended in {state(steps.after[k - 1])}"
        return f"step {step[k]} of {called(k)} begins in state {state(steps.before[k])}, but {before}"

    def goes_on(k: int) -> str:
        return f"{called(k)} goes on after it has terminated"

    def after(bad: Bool) -> Bool:
        """[n] of the steps after those [n-1] that go on."""
        return np.append(False, bad & steps.goes_on)[:n]

    first = np.append(True, ~steps.goes_on)[:n]
    own = 0 if (step[first & ~doubtful] == 0).any() else 1  # the number of a first step
    apart = after(steps.after[:-1] != steps.before[1:]) & ~after(jump != 1)
    kinds = (
        (first & (step != own), late),
        (after(jump == 0), twice),
        (after(jump > 1), gap),
        (apart, torn),
        (after(steps.ended[:-1]) & ~after(jump != 1) & ~apart, goes_on),
    )
    for bad, tell in kinds:
        _complain(table, row, np.flatnonzero(bad & ~doubtful), tell)


def _complain(table: Table, row: Int, which: Int, tell: Callable[[int], str]) -> None:
    """A mistake in the rows of some steps."""
    place = dict(zip(row[which].tolist(), which.tolist(), strict=True))
    table.complain(row[which], lambda at: tell(place[at]))


def save_episodes(
    path: str | Path, episodes: Log | Iterable[Episode], cost_names: Sequence[str] | None = None, *, first: int = 0
) -> None:
    """Write episodes as a log (`.csv` or `.npz`) that `load_episodes` reads; those not played are left out.

    A `Log` is written with the names of its states, actions and costs; of other episodes, pass `cost_names`.
    """
    path = file_path(path)
    read_count(first, "first", 0)
    labels: tuple[tuple[str, ...] | None, ...] = (None, None)
    if isinstance(episodes, Log):
        if cost_names is not None:
            raise SpecError("a log has names of its own; leave cost_names out", key=("cost_names",))
        labels, cost_names = (episodes.state_names, episodes.action_names), episodes.cost_names
        episodes = episodes.episodes
    cost_names = _names(cost_names, "cost_names")
    names = [*COLUMNS[:5], *(f"{COST}{name}" for name in cost_names), "next_state", "terminated"]
    rows = [row for e, episode in enumerate(episodes_of(episodes)) for row in log_rows(first + e, episode)]
    wrong = next((row for row in rows if len(row) != len(names)), None)
    if wrong is not None:
        count = len(wrong) - len(names) + len(cost_names)
        raise ModelError(f"{len(cost_names)} names for the {count} costs of an episode")
    columns = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)} if rows else {}
    for known, which in zip(labels, (("state", "next_state"), ("action",)), strict=True):
        if known is not None:
            columns |= {name: [known[i] for i in columns[name]] for name in which if columns}
    if path.suffix == ".csv":
        with atomic_write(path) as file:
            file.write(csv_text([names, *zip(*columns.values(), strict=True)]).encode())
    elif path.suffix == ".npz":
        paid = {"reward", *(name for name in names if name.startswith(COST))}
        arrays = {name: _array(columns.get(name, []), name in paid) for name in names}
        with atomic_write(path) as file:
            write_npz(file, arrays)
    else:
        raise ModelError(f"{path}: a log is written as .csv or .npz")


def _array(column: list[Any], paid: bool) -> Any:
    """A column as `.npz` keeps it: numbers, or texts."""
    if column and isinstance(column[0], str):
        return np.array(column, dtype=np.str_)
    return np.array(column, dtype=np.float64 if paid else np.int64)


def log_rows(number: int, episode: Episode) -> list[tuple[Any, ...]]:
    """The rows of one episode: episode, step, state, action, reward, costs, next state, terminated."""
    states, actions = episode.states.tolist(), episode.actions.tolist()
    last = len(actions) - 1
    return [
        (number, h, states[h], a, *map(float, episode.pay[h]), states[h + 1], int(episode.terminated and h == last))
        for h, a in enumerate(actions)
    ]

"""One run read back from its files, `config.json` and `progress.csv`. `conrl.metrics` says what is told of it."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from conrl._types import Float, Int
from conrl.errors import RunError
from conrl.experiments.store import own_file, read_json
from conrl.io.cells import split_header
from conrl.learners import PLUGINS
from conrl.learners.saving import rebuild
from conrl.metrics import Scores
from conrl.notebook import Columns, Framed
from conrl.problem import Knapsack, Linear
from conrl.running.optima import episode_bounds
from conrl.wording import counted, line


@dataclass(frozen=True, eq=False, kw_only=True)
class RunRecord(Scores, Framed):
    """One run: K episodes, d costs.

    As a data frame, a row for each episode and total: `environment`, `algorithm`, `seed`, `episode` (from 1), `total`
    ("reward", or the name of a cost), what was `seen`, `executed` (the exact value of what was played, where it is
    known) and `smoothed` (`conrl.metrics` has the words).
    """

    environment: str
    algorithm: str
    seed: int
    directory: Path
    wanted: int  # episodes asked for
    cost_names: tuple[str, ...]
    problem: Linear | Knapsack | None  # None if it was of functions, which are in no file
    config: dict[str, Any]
    prices: Float | None  # [K, d]: of the limits, or multipliers, that each episode was decided with
    steps: Int  # [K]
    mixture: Float | None = None  # [K, 1+d]: of the learner's result so far, where it has one

    def __repr__(self) -> str:
        return line(self, self.environment, self.algorithm, f"seed {self.seed}", counted(self.episodes, "episode"))

    def _columns(self) -> Columns:
        names, K = ("reward", *self.cost_names), self.episodes
        n = K * len(names)
        return {
            "environment": [self.environment] * n,
            "algorithm": [self.algorithm] * n,
            "seed": np.full(n, self.seed),
            "episode": np.repeat(np.arange(1, K + 1), len(names)),
            "total": list(names) * K,
            "seen": self.seen.ravel(),
            "executed": self.executed.ravel(),
            "smoothed": self.smooth.ravel(),
        }

    def first(self, episodes: int) -> RunRecord:
        """The run as it was after so many episodes; all of it if it has no more."""
        if episodes >= self.episodes:
            return self
        tables = ("seen", "expected", "reported", "exploring", "prices", "steps", "mixture")
        shorter: dict[str, Any] = {name: None if (x := vars(self)[name]) is None else x[:episodes] for name in tables}
        return replace(self, **shorter)

    @property
    def expected_rewards(self) -> Float | None:
        """[K]: exact values of what was played; nan where a guard interfered; None without a model."""
        return None if self.expected is None else self.expected[:, 0]

    @property
    def expected_costs(self) -> Float | None:
        """[K, d]: the same of the costs."""
        return None if self.expected is None else self.expected[:, 1:]


def read_run(where: Path, environment: str, algorithm: str, seed: int) -> RunRecord:
    """One run from its directory."""
    config = read_json(where / "config.json")
    learner = config["learner"]
    names = tuple(str(name) for name in learner["task"]["cost_names"])
    table = _columns(where / "progress.csv")

    def together(*columns: str) -> Float | None:
        """[K, n]; None unless all are there."""
        if any(name not in table for name in columns):
            return None
        return np.column_stack([table[name] for name in columns])

    def values(kind: str) -> Float | None:
        return together(f"{kind}reward", *(f"{kind}cost_{name}" for name in names))

    seen, expected, reported = values(""), values("expected_"), values("reported_")
    if seen is None:
        raise RunError(f"{where / 'progress.csv'} lacks the reward or a cost")
    kind = PLUGINS.get(str(learner["learner"]))  # one that is not loaded tells nothing more
    if reported is None and kind is not None and kind.reports and expected is not None:
        reported = np.full(seen.shape, np.nan)  # it had nothing to show yet
    exploring = table["exploring"] > 0.0 if "exploring" in table else None  # runs of version 0.2 do not say
    described = learner.get("problem")
    problem = None if described is None else rebuild(described)
    limits, floors = episode_bounds(problem, names)
    return RunRecord(
        environment=environment,
        algorithm=algorithm,
        seed=seed,
        directory=where,
        wanted=int(config["episodes"]),
        cost_names=names,
        problem=problem,
        config=config,
        seen=seen,
        expected=expected,
        reported=reported,
        limits=limits,
        floors=floors,
        largest=_largest(learner["task"], len(names)),
        continuing=kind is not None and kind.continuing,
        exploring=exploring,
        prices=together(*(f"price_{name}" for name in names)) if names else None,
        steps=table["steps"].astype(np.int64),
        mixture=values("mixture_"),
    )


def _largest(task: dict[str, Any], d: int) -> Float:
    """[1+d]: the largest reward and costs of one step, in size, by the ranges of the task; 1 where none are written."""
    unit = (0.0, 1.0)
    ranges = np.array([task.get("reward_range") or unit, *(task.get("cost_ranges") or [unit] * d)], dtype=np.float64)
    if ranges.shape != (1 + d, 2):
        raise RunError("config.json: reward_range or cost_ranges does not fit the costs")
    largest: Float = np.abs(ranges).max(axis=1)
    return largest


def _columns(path: Path) -> dict[str, Float]:
    """The columns of a `progress.csv`; what is empty is nan."""
    with own_file(path):
        header, body = split_header(path.read_bytes().decode("utf-8"))
    rows = body.count("\n")
    if not header or len(header) != len(set(header)):
        raise RunError(f"{path}: not the table of a run")
    body = body.replace(",\n", ",nan\n")
    while ",," in body:
        body = body.replace(",,", ",nan,")
    numbers = np.zeros(0)
    # What is no number newer versions of numpy refuse; older ones stop there with a warning, and some are missing.
    with suppress(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = np.fromstring(body.replace("\n", ","), dtype=np.float64, sep=",") if rows else numbers
    if numbers.size != rows * len(header):
        raise RunError(f"{path}: a row is not {len(header)} numbers")
    table = numbers.reshape(rows, len(header))
    if (table[:, 0] != np.arange(1, rows + 1)).any():
        raise RunError(f"{path}: the rows are not episodes 1, 2, ...")
    return {name: table[:, i].copy() for i, name in enumerate(header)}

"""One run as it is on disk, read back: `config.json` and `progress.csv`.

How near to the optimum, and how far above a limit, counts in proportion: the same run is judged the same whatever the
units of reward and costs. What is 0 has no proportion; its measure is the most that one step can pay, in size.
"""

from __future__ import annotations

import csv
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from conrl._types import Bool, Float, Int
from conrl.errors import RunError
from conrl.experiments.store import own_file, read_json
from conrl.learners import LEARNERS
from conrl.model.limits import ROUNDING, size_of
from conrl.running.history import running_mean

AVERAGED = 100  # episodes that a smoothed value is the mean of
NEAR = 0.1  # how far below the optimum a solved run may be, as a share of it,
OVER = 0.1  # and how far above a limit
LAST = 0.1  # the share of a run that its final numbers are means of


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run: K episodes, d costs."""

    environment: str
    algorithm: str
    seed: int
    directory: Path
    wanted: int  # episodes asked for
    cost_names: tuple[str, ...]
    limits: Float  # [d]; inf for none
    continuing: bool  # its expected values are running means already (TFW-UCRL2)
    config: dict[str, Any]
    rewards: Float  # [K]
    costs: Float  # [K, d]
    expected_rewards: Float | None
    expected_costs: Float | None
    prices: Float | None  # [K, d]: of the limits, or multipliers, that each episode was decided with
    steps: Int
    reported: Float | None = None  # [K, 1+d]: of what the learner showed, where that is not what it played
    mixture: Float | None = None  # [K, 1+d]: of its result so far, where it has one

    def __repr__(self) -> str:
        return f"RunRecord({self.environment}, {self.algorithm}, seed {self.seed}, {self.episodes} episodes)"

    @property
    def episodes(self) -> int:
        """How many were played."""
        return int(self.rewards.size)

    @cached_property
    def executed(self) -> Float:
        """[K, 1+d]: exact values of what was executed, or what was seen where they are unknown."""
        seen = np.column_stack((self.rewards, self.costs))
        if self.expected_rewards is None or self.expected_costs is None:
            return seen
        exact = np.column_stack((self.expected_rewards, self.expected_costs))
        return np.where(np.isnan(exact), seen, exact)

    @property
    def values(self) -> Float:
        """[K, 1+d]: of what the learner showed, nan where it had nothing to show; `executed` if it shows that."""
        return self.executed if self.reported is None else self.reported

    @cached_property
    def smooth(self) -> Float:
        """[K, 1+d]: means of the last `AVERAGED` values; of fewer at the start."""
        return self.values if self.continuing else running_mean(self.values, AVERAGED)

    @cached_property
    def final(self) -> Float:
        """[1+d]: the mean over the last tenth of the run."""
        count = 1 if self.continuing else max(1, round(LAST * self.episodes))
        shown = self.values[-count:]
        shown = shown[~np.isnan(shown).any(axis=1)]
        last: Float = shown.mean(axis=0) if shown.size else np.full(self.values.shape[1], np.nan)
        return last

    @property
    def mean_reward(self) -> float:
        """Over all trajectories, of what was executed."""
        return float(self.executed[-1, 0] if self.continuing else self.executed[:, 0].mean())

    @cached_property
    def largest(self) -> Float:
        """[1+d]: the most that one step can pay, in size, by the ranges of the task; 1 where none are written."""
        task = self.config.get("learner", {}).get("task", {})
        unit = (0.0, 1.0)
        costs = task.get("cost_ranges") or [unit] * len(self.cost_names)
        ranges = np.array([task.get("reward_range") or unit, *costs], dtype=np.float64)
        if ranges.shape != (1 + len(self.cost_names), 2):
            raise RunError("config.json: reward_range or cost_ranges does not fit the costs")
        largest: Float = np.abs(ranges).max(axis=1)
        return largest

    def _above(self, costs: Float) -> Bool:
        """[K, d]: where smoothed costs are above their limit by more than `OVER` of it."""
        over: Bool = costs > self.limits + OVER * self._measure(self.limits, self.largest[1:])
        return over

    @staticmethod
    def _measure(aim: Float, largest: Float) -> Float:
        """What a share of an aim is a share of; with room for rounding, so that units do not matter on the edge."""
        return size_of(aim, largest) * (1.0 + ROUNDING)

    def solved(self, optimum: float | None) -> int | None:
        """The first trajectory from which it stays near the optimum and within the limits."""
        if optimum is None:
            return None
        low = optimum - NEAR * float(self._measure(np.array(optimum), self.largest[0]))
        good = (self.smooth[:, 0] >= low) & ~self._above(self.smooth[:, 1:]).any(axis=1)
        bad = np.flatnonzero(~good)
        first = int(bad[-1]) + 2 if bad.size else 1
        return first if first <= self.episodes else None

    def violations(self) -> Float:
        """[d]: the share of trajectories with the smoothed cost of what was executed above its limit."""
        executed = self.executed if self.continuing else running_mean(self.executed, AVERAGED)
        over: Float = self._above(executed[:, 1:]).mean(axis=0)
        return over


def read_run(where: Path, environment: str, algorithm: str, seed: int) -> RunRecord:
    """One run from its directory."""
    config = read_json(where / "config.json")
    learner = config["learner"]
    names = tuple(str(name) for name in learner["task"]["cost_names"])
    table = _columns(where / "progress.csv")
    K = len(table["reward"])

    def several(prefix: str) -> Float | None:
        if any(f"{prefix}{name}" not in table for name in names):
            return None
        return np.column_stack([table[f"{prefix}{n}"] for n in names]) if names else np.zeros((K, 0))

    costs = several("cost_")
    if costs is None:
        raise RunError(f"{where / 'progress.csv'} lacks a column of costs")

    def values(name: str) -> Float | None:
        reward, costs = table.get(f"{name}_reward"), several(f"{name}_cost_")
        return None if reward is None or costs is None else np.column_stack((reward, costs))

    expected = table.get("expected_reward")
    kind = LEARNERS.get(str(learner["learner"]))
    reported = values("reported")
    if reported is None and getattr(kind, "reports", False) and expected is not None:
        reported = np.full((K, 1 + len(names)), np.nan)  # it came to no answer
    run = RunRecord(
        environment,
        algorithm,
        seed,
        where,
        int(config["episodes"]),
        names,
        _limits(learner, names),
        bool(getattr(kind, "continuing", False)),
        config,
        table["reward"],
        costs,
        expected,
        None if expected is None else several("expected_cost_"),
        several("price_") if names else None,
        table["steps"].astype(np.int64),
        reported,
        values("mixture"),
    )
    _ = run.largest  # a config that is damaged is found now
    return run


def _limits(learner: dict[str, Any], names: tuple[str, ...]) -> Float:
    """[d]: the limits of the problem, by position or by name; budgets by episode; inf for none."""
    problem = learner.get("problem") or {}
    given = problem.get("limits") if problem.get("kind") != "Knapsack" else problem.get("budgets")
    share = float(problem.get("episodes") or 1) if problem.get("kind") == "Knapsack" else 1.0
    if isinstance(given, dict):
        given = [given.get(name) for name in names]
    found = np.full(len(names), np.inf)
    for i, value in enumerate(given or []):
        found[i] = np.inf if value is None else float(value) / share
    return found


def _columns(path: Path) -> dict[str, Float]:
    """The columns of a `progress.csv`; what is empty is nan."""
    with own_file(path):
        text = path.read_text(encoding="utf-8")
    header = next(csv.reader([text.partition("\n")[0]]), [])
    body = text[text.find("\n") + 1 :]
    rows = body.count("\n")
    if not header or len(header) != len(set(header)):
        raise RunError(f"{path}: not the table of a run")
    if ",," in body or ",\n" in body:
        body = body.replace(",\n", ",nan\n")
        while ",," in body:
            body = body.replace(",,", ",nan,")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy stops at what is no number: then some are missing
        numbers = np.fromstring(body.replace("\n", ","), dtype=np.float64, sep=",") if rows else np.zeros(0)
    if numbers.size != rows * len(header):
        raise RunError(f"{path}: a row is not {len(header)} numbers")
    table = numbers.reshape(rows, len(header))
    if (table[:, 0] != np.arange(1, rows + 1)).any():
        raise RunError(f"{path}: the rows are not episodes 1, 2, ...")
    return {name: table[:, i].copy() for i, name in enumerate(header)}

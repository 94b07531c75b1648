"""Long runs in blocks of episodes (`conrl.running.blocks`), and the exact curve of each: `curve.csv` in its directory.

Between two plans the value z = (reward, costs) of what is executed does not change, so that every sum over episodes is
one of (episodes x gain), exact up to rounding. With the optimum z* of the true model, the limits l and the baseline z0,
a row of the curve has, after `episode` episodes,

    regret              the sum of z*_0 - z_0, and strong_regret that of its positive parts
    violation_C         the sum of z_C - l_C of each limited cost C, and strong_violation_C that of its positive parts
    violating           how many episodes had a cost above its limit, by more than 1e-9 of it
    left                the first episode that executed something else than the baseline; empty if there was none yet

(`conrl.metrics` has the words; where there is a floor f, z_C - l_C or f_C - z_C, whichever is larger.) The baseline is
the optimal policy at a fifth of every limit, and `left` is what the learner says (`left_at`) or, of one that knows no
baseline, the first episode whose value is another. Rows are at episodes 1, 2, ... spaced by their logarithm.

A run is written when it has ended, whole: one that was interrupted is played again.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from conrl._types import Float, Int
from conrl.errors import ConRLError, RunError, SpecError
from conrl.evaluation import evaluate
from conrl.experiments.execution import Manner
from conrl.experiments.jobs import Run
from conrl.experiments.store import RunFiles, own_file
from conrl.io.cells import csv_text, from_cell
from conrl.io.files import atomic_write, refuse_links
from conrl.model.rows import ROUNDING, size_of
from conrl.planning import plan
from conrl.running import History
from conrl.running.blocks import Stretch, learn_in_blocks
from conrl.signals import interruptible

CURVE = "curve.csv"
BASELINE = 0.2  # share of the limits that the baseline is optimal at
BY_DECADE = 20  # rows of a curve between an episode and ten times as many


class Aim(NamedTuple):
    """What a run is held against; the names of its limited costs, d of them."""

    names: list[str]
    costs: Int  # [d]: which of the costs they are
    optimum: float
    limits: Float  # [d]
    floors: Float  # [d]
    slack: Float  # [d]: what rounding alone may exceed
    baseline: Float  # [1 + all costs]
    near: Float  # [1 + all costs]: what counts as the same value


def aim_of(history: History) -> Aim:
    """Of a run in a model that is known, whose history is this one."""
    mdp, best = history.mdp, history.optimum
    if mdp is None or best is None or history.continuing:
        raise SpecError("the regret of every episode needs the true model, and episodes that end")
    limits, floors, largest = history.limits, history.floors, history.largest
    bound = np.where(np.isfinite(limits), limits, floors)
    costs = np.flatnonzero(np.isfinite(bound))
    baseline = evaluate(mdp, plan(mdp, BASELINE * limits)).value
    near = ROUNDING * np.maximum(np.abs(baseline), largest * int(mdp.horizon))
    slack = ROUNDING * size_of(bound, largest[1:])[costs]
    names = [history.cost_names[i] for i in costs.tolist()]
    return Aim(names, costs, float(best.reward), limits[costs], floors[costs], slack, baseline, near)


def marks(episodes: int) -> Int:
    """The episodes after which a curve has a row: those of a shorter run, and the last."""
    steps = math.floor(BY_DECADE * math.log10(episodes)) if episodes > 1 else 0
    at: Int = np.unique(np.append(np.round(10.0 ** (np.arange(steps + 1) / BY_DECADE)), episodes)).astype(np.int64)
    return at[at <= episodes]


class RunCurve(NamedTuple):
    """The curve of a run: what its columns are called, and their numbers [rows, columns]; nan for an empty cell."""

    columns: list[str]
    numbers: Float

    def of(self, column: str) -> Float:
        """[rows]: one column."""
        return self.numbers[:, self.columns.index(column)]


def curve_of(stretches: Sequence[Stretch], aim: Aim, left_at: int | None) -> RunCurve:
    """The exact sums over all episodes so far, at `marks`."""
    values = np.array([stretch.value for stretch in stretches])
    count = np.array([stretch.episodes for stretch in stretches])
    last = np.cumsum(count)  # the number of the last episode of each
    excess = np.maximum(values[:, 1 + aim.costs] - aim.limits, aim.floors - values[:, 1 + aim.costs])
    short = aim.optimum - values[:, 0]
    over = (excess > aim.slack).any(axis=1)
    gains = np.column_stack((short, np.maximum(short, 0.0), excess, np.maximum(excess, 0.0), over))
    before = np.vstack((np.zeros(gains.shape[1]), np.cumsum(count[:, None] * gains, axis=0)))
    at = marks(int(last[-1]))
    now = np.searchsorted(last, at)  # the stretch that each of them lies in
    sums = before[now] + (at - (last - count)[now])[:, None] * gains[now]
    left = np.where(at >= (math.inf if left_at is None else left_at), left_at or math.nan, math.nan)
    columns = ["episode", "regret", "strong_regret"]
    columns += [f"{kind}_{name}" for kind in ("violation", "strong_violation") for name in aim.names]
    return RunCurve([*columns, "violating", "left"], np.column_stack((at, sums, left)))


def first_leaving(stretches: Sequence[Stretch], aim: Aim) -> int | None:
    """The first episode whose value is not the baseline's."""
    away = (s.first for s in stretches if (np.abs(s.value - aim.baseline) > aim.near).any())
    return next(away, None)


def play_in_blocks(run: Run, after: Callable[[int], None]) -> tuple[int, bool]:
    """Play a run to its end and write its curve; how many episodes were played, and whether those are all."""
    job, truth = run.job, run.truth
    if truth is None or run.directory is None or run.out is None:
        raise SpecError("runs in blocks need the true model and a directory", key=("env",))
    if job.pay != "outcome":
        raise SpecError("runs in blocks pay by outcome", key=("pay",))
    refuse_links(run.directory, Path(run.out))
    aim, stretches = aim_of(run.history), list[Stretch]()
    with RunFiles(run.directory, run.settings), interruptible() as interrupted:
        learner = run.learner
        for stretch in learn_in_blocks(truth, learner, job.episodes, job.seed):
            stretches.append(stretch)
            after(learner.episodes)
            if interrupted() and learner.episodes < job.episodes:
                return learner.episodes, False
        known = hasattr(learner, "left_at")
        write_curve(
            run.directory / CURVE,
            curve_of(stretches, aim, learner.left_at if known else first_leaving(stretches, aim)),
        )
    return job.episodes, True


def write_curve(path: Path, curve: RunCurve) -> None:
    whole = ("episode", "violating", "left")
    rows = [
        ["" if math.isnan(x) else int(x) if name in whole else x for name, x in zip(curve.columns, row, strict=True)]
        for row in curve.numbers.tolist()
    ]
    with atomic_write(path, follow=False) as file:
        file.write(csv_text([curve.columns, *rows]).encode())


def read_curve(path: Path) -> RunCurve:
    """What `write_curve` wrote."""
    with own_file(path):
        try:
            header, *rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
            numbers = np.array([[float(cell or "nan") for cell in row] for row in rows])
            columns = [from_cell(cell) for cell in header]
            if numbers.shape != (len(rows), len(columns)) or not rows or columns[0] != "episode":
                raise ValueError("its rows differ in length")
        except (ValueError, csv.Error) as error:
            raise RunError(f"{path}: not the curve of a run: {error}; delete it to play the run again") from None
    return RunCurve(columns, numbers)


def _in_curve(directory: Path) -> int:
    """The episodes of a run that was written; 0 where there is none, or nothing that can be read."""
    try:
        return int(read_curve(directory / CURVE).numbers[-1, 0])
    except (ConRLError, ValueError, OverflowError):
        return 0


BLOCKS = Manner(play_in_blocks, (CURVE,), _in_curve)

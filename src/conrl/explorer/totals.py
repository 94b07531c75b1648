"""What single episodes cost: the distribution of each cost's total, column by column, as numbers that a page can mix.

A mixture draws one of its columns at the start of an episode, so that the distribution of its totals is the mixture of
theirs. Each is exact, by a forward pass with the total carried in the state (`conrl.episode_totals`); where totals are
too many for that, episodes are simulated, and the page says so. Of very many totals, a page holds some: they are
rounded up, so that the share above a limit is never understated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conrl._types import Float
from conrl.episode_totals import last_totals, policy_over
from conrl.explorer.places import sparse
from conrl.explorer.subject import LIMIT, Subject
from conrl.explorer.surface import Column
from conrl.model.counting import TooManyTotals
from conrl.model.tracking import track
from conrl.simulation import simulate

BINS, FEWEST = 200, 40  # values of a total that a page holds, where it does not hold all
MOST_VALUES = 1_000  # that it holds, if few columns have each of them
ENTRIES = 100_000  # of all columns and costs together
MOST_TOTALS = 5_000  # that are counted one by one
MOST_WORK = 2e9  # outcomes of the model with totals x steps x columns
EPISODES = 2_000  # of each column, where they are simulated
STEPS = 2e8  # of all that is simulated together
UNIT = 1e-7

Totals = tuple[Float, Float]  # rising, and their probabilities


def episode_totals(subject: Subject, columns: list[Column]) -> list[dict[str, Any]]:
    """For each cost that has a slider: values, and for each column the probability of each of them."""
    if subject.model is None or subject.steps is None:
        return []
    found = []
    simulated: list[Float] | None = None
    shown_costs = sum(line.kind == LIMIT for line in subject.lines)
    bins = min(max(ENTRIES // max(shown_costs * len(columns), 1), FEWEST), BINS)
    room = ENTRIES // max(shown_costs, 1)
    for r, line in enumerate(subject.lines):
        if line.kind != LIMIT:
            continue
        each = _exact(subject, line.cost, columns)
        exact = each is not None
        if each is None:
            if simulated is None:
                simulated = _simulated(subject, columns)
            if not simulated:
                continue
            each = [_counted(costs[:, line.cost]) for costs in simulated]
        shown = {"row": r, "exact": exact, "means": not bool(subject.model.varies[1 + line.cost])}
        found.append(
            shown | _on_grid(each, bins, room) | ({} if exact or not simulated else {"episodes": len(simulated[0])})
        )
    return found


def _exact(subject: Subject, cost: int, columns: list[Column]) -> list[Totals] | None:
    """[n]: the distribution under each column; None where totals are too many."""
    model = subject.model
    assert model is not None
    try:
        tracked = track(model, [cost], [[]], [None], 0, MOST_TOTALS)
    except TooManyTotals:
        return None
    steps = 1 if model.step_dependent else subject.steps or 1
    if tracked.outcome.size * steps * len(columns) > MOST_WORK:
        return None
    unit = tracked.counter.units[0]
    values = np.array([float(total[0] * unit) for total in tracked.totals])
    order = np.argsort(values, kind="stable")
    found = []
    for column in columns:
        if column.skip:
            found.append((np.zeros(1), np.ones(1)))
            continue
        p = last_totals(tracked, policy_over(column.policy, tracked))[order]
        found.append((values[order][p > 0.0], p[p > 0.0]))
    return found


def _simulated(subject: Subject, columns: list[Column]) -> list[Float]:
    """[n] of [episodes, d]: realised costs under each column; nothing where that would take too long."""
    model, steps = subject.model, subject.steps
    assert model is not None
    assert steps is not None
    if EPISODES * steps * len(columns) > STEPS:
        return []
    found = []
    for column in columns:
        if column.skip:
            found.append(np.zeros((EPISODES, model.num_costs)))
        else:
            found.append(simulate(model, column.policy, EPISODES, seed=0).costs)
    return found


def _counted(totals: Float) -> Totals:
    values, counts = np.unique(totals, return_counts=True)
    return values, counts / totals.size


def _on_grid(each: list[Totals], bins: int, room: int) -> dict[str, Any]:
    """All distributions on the same values; where these are too many for the `room`, rounded up to `bins` of them."""
    values = np.unique(np.concatenate([values for values, _ in each]))
    width = 0.0
    if values.size > bins and (values.size > MOST_VALUES or sum(p.size for _, p in each) > room):
        low, high = float(values[0]), float(values[-1])
        width = (high - low) / (bins - 1)
        values = low + width * np.arange(bins)
    tables = []
    for mine, p in each:
        at = np.minimum(np.searchsorted(values, mine - 1e-12 * float(np.abs(values).max())), values.size - 1)
        tables.append(sparse(np.bincount(at, p, minlength=values.size), UNIT))
    return {"values": [float(f"{x:.12g}") for x in values.tolist()], "width": float(f"{width:.3g}"), "shares": tables}

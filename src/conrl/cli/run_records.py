"""What runs and studies came to, as plain values: `conrl learn` and `conrl report`."""

from __future__ import annotations

import numpy as np

from conrl._types import Float
from conrl.cli.json_records import Record, value_record
from conrl.metrics import TOLERANCE
from conrl.model.limits import resolve_limits
from conrl.problem import ConcaveConvex, Knapsack
from conrl.running import History


def learn_record(env: str, algorithm: str, seed: int, history: History) -> Record:
    """What a run came to. Means over all episodes and over the last ones; of expected values where these are known."""
    names, averages, recent = history.cost_names, history.averages, history.scores.smooth_executed[-1]
    overall = np.append(history.rewards.mean(), history.costs.mean(axis=0)) if averages is None else averages[-1]
    best, strong, short = history.optimum, history.strong_violation, history.strong_regret
    last, average = history.last_iterate, history.average_policy
    violating, slope = history.violating(), history.excess_slope
    over, functions = history.scores.cumulative_violation, isinstance(history.problem, ConcaveConvex)
    record: Record = {
        "environment": env,
        "algorithm": algorithm,
        "seed": seed,
        "episodes": len(history),
        "interrupted": history.interrupted,
        "exact": averages is not None,
        "reward": {
            "mean": overall[0],
            "last": recent[0],
            "realised": history.rewards.mean(),
            "optimum": None if best is None else best.reward,
            "last_iterate": None if last is None else last.value[0],
            "average_policy": None if average is None else average.value[0],
            "last_iterate_shortfall": None if last is None else last.shortfall,
            "cumulative_regret": None if best is None or functions else history.scores.cumulative_regret(best.reward),
            "strong_regret": None if short is None else short[-1],
        },
        "costs": {
            name: {
                "mean": overall[1 + i],
                "last": recent[1 + i],
                "realised": history.costs[:, i].mean(),
                "limit": history.limits[i],
                "floor": history.floors[i],
                "violations": history.violations[i],
                "optimum": None if best is None else best.costs[i],
                "last_iterate": None if last is None else last.value[1 + i],
                "average_policy": None if average is None else average.value[1 + i],
                "last_iterate_excess": None if last is None else last.excess[i],
                "violating": None if violating is None else violating[i],
                "cumulative_violation": None if np.isnan(over[i]) else over[i],
                "strong_violation": None if strong is None else strong[-1, i],
                "excess_slope": None if slope is None else slope[i],
            }
            for i, name in enumerate(names)
        },
        "tolerance": TOLERANCE,
        "solved_from": history.solved_from,
        "window": history.window,
        "infeasible": int(history.infeasible.sum()),
        "exploring": int(history.exploring.sum()),
        "exploring_last": history.scores.explored(history.window or 1),
        "last_iterate_episode": None if last is None else history.scores.last_planned,
    }
    if history.reported is not None:
        record["reported"] = value_record(names, history.reported[-1])
    if history.mixture is not None:
        record["mixture"] = value_record(names, history.mixture[-1])
    if isinstance(history.problem, Knapsack):
        record |= _spending_record(history, resolve_limits(history.problem.budgets, names, "budgets"))
    return record


def _spending_record(history: History, budgets: Float) -> Record:
    """What became of the budgets [d], and of the episodes that they were for."""
    unguarded, exceed = history.unguarded_costs, history.would_exceed
    return {
        "budgets": {
            name: {
                "budget": budgets[i],
                "spent": history.costs[:, i].sum(),
                "unguarded": None if unguarded is None else unguarded[:, i].sum(),
                "would_exceed": None if exceed is None else bool(exceed[i]),
            }
            for i, name in enumerate(history.cost_names)
        },
        "guarded": int(history.guarded.sum()),
        "skipped": int(history.skipped.sum()),
    }

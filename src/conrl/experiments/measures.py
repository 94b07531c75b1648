"""What is told of one run, in numbers: the columns of a study's table and the rows of its long table.

`conrl.metrics` defines the words. Five of them are shares, which mean the same in every environment: these are
`COMPARED`, and studies put environments together by them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conrl._types import Float
from conrl.errors import SpecError, unknown
from conrl.experiments.records import RunRecord

Numbers = dict[str, float | None]  # by name; None where unknown


class Measure(NamedTuple):
    """A number of a run by which algorithms are compared."""

    name: str
    title: str
    higher: bool  # is better


COMPARED = {
    measure.name: measure
    for measure in (
        Measure("score", "score", True),
        Measure("excess_share", "excess", False),
        Measure("distance", "distance", False),
        Measure("strong_regret_share", "strong regret", False),
        Measure("strong_violation_share", "strong violation", False),
    )
}


def compared(name: str) -> Measure:
    """One of `COMPARED` by its name."""
    if not isinstance(name, str) or name not in COMPARED:
        raise SpecError(unknown("measure", name, COMPARED))
    return COMPARED[name]


def of_run(run: RunRecord, best: float | None, safe: float | None) -> Numbers:
    """What is told of the run as a whole; `best` and `safe` are the rewards of the optimum and of the best safe policy.

    `solved` is infinite if it never was.
    """
    solved = run.solved_from(best)
    last, average = run.last_iterate(best), run.average_policy(best)
    found: dict[str, Any] = {
        "episodes": run.episodes,
        "reward": run.final[0],
        "solved": None if best is None else np.inf if solved is None else solved,
        "final_episodes": run.final_episodes,
        "final_exploring": run.explored(run.final_episodes),
        "cumulative_regret": None if best is None else run.cumulative_regret(best),
        "cumulative_safe_regret": None if safe is None else run.cumulative_regret(safe),
        "strong_regret": None if best is None else _end(run.strong_regret(best)),
        "last_iterate_reward": last and last.value[0],
        "last_iterate_shortfall": last and last.shortfall,
        "average_policy_reward": average and average.value[0],
        "score": run.score(best),
        "excess_share": run.excess_share,
        "distance": run.distance(best),
        "strong_regret_share": run.strong_regret_share(best),
        "strong_violation_share": run.strong_violation_share,
    }
    return _plain(found)


def of_costs(run: RunRecord, best: float | None) -> dict[str, Numbers]:
    """What is told of each cost, by its name."""
    last, average = run.last_iterate(best), run.average_policy(best)
    columns: dict[str, Float | None] = {
        "cost": run.final[1:],
        "cumulative": run.costs.sum(axis=0),
        "violations": run.violations,
        "violating": run.violating(),
        "cumulative_violation": run.cumulative_violation,
        "strong_violation": _end(run.strong_violation),
        "excess_slope": run.excess_slope,
        "last_iterate_cost": last and last.value[1:],
        "last_iterate_excess": last and last.excess,
        "average_policy_cost": average and average.value[1:],
    }
    return {
        name: _plain({key: None if x is None else x[i] for key, x in columns.items()})
        for i, name in enumerate(run.cost_names)
    }


def _end(sums: Float | None) -> Any:
    """Where running sums end."""
    return None if sums is None else sums[-1]


def _plain(numbers: dict[str, Any]) -> Numbers:
    """As floats; what is no number is unknown."""
    return {key: None if x is None or np.isnan(x) else float(x) for key, x in numbers.items()}

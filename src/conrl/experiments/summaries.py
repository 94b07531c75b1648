"""The tables of a study: numbers of runs as means over seeds, and the long table of all of them.

`conrl.experiments.measures` has the numbers of one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl._types import Float
from conrl.errors import SpecError
from conrl.experiments.measures import Numbers
from conrl.experiments.records import RunRecord
from conrl.experiments.statistics import deviation, over_seeds

if TYPE_CHECKING:
    import polars


# Of the table.
COLUMNS: dict[str, type] = {
    **dict.fromkeys(("environment", "algorithm"), str),
    **dict.fromkeys(("seeds", "episodes", "played"), int),
    **dict.fromkeys(("reward", "reward_std", "reward_low", "reward_high"), float),
    "cost_name": str,
    **dict.fromkeys(("cost", "cost_std", "cost_low", "cost_high", "limit", "floor", "cumulative"), float),
    **dict.fromkeys(("violations", "violating", "cumulative_violation", "strong_violation"), float),
    **dict.fromkeys(("excess_slope", "solved"), float),
    "solved_seeds": int,
    **dict.fromkeys(("cumulative_regret", "cumulative_safe_regret", "strong_regret"), float),
    **dict.fromkeys(("final_episodes", "final_exploring"), float),
    **dict.fromkeys(("last_iterate_reward", "last_iterate_shortfall"), float),
    **dict.fromkeys(("last_iterate_cost", "last_iterate_excess"), float),
    **dict.fromkeys(("average_policy_reward", "average_policy_cost"), float),
}
# Of the long table.
LONG: dict[str, type] = {
    **dict.fromkeys(("environment", "algorithm"), str),
    "seed": int,
    **dict.fromkeys(("metric", "cost_name"), str),
    "value": float,
}
# The numbers of several runs become their mean; these, their median.
OF_RUNS = (
    *("cumulative_regret", "cumulative_safe_regret", "strong_regret", "solved", "final_episodes", "final_exploring"),
    *("last_iterate_reward", "last_iterate_shortfall", "average_policy_reward"),
)
OF_COSTS = (
    *("cumulative", "violations", "violating", "cumulative_violation", "strong_violation", "excess_slope"),
    *("last_iterate_cost", "last_iterate_excess", "average_policy_cost"),
)
MEDIANS = ("solved", "excess_slope")

NumbersOf = Callable[[RunRecord], tuple[Numbers, dict[str, Numbers]]]  # of a run, and of each of its costs


def rows_of(
    environment: str, played: Mapping[str, int], compared: Mapping[str, Sequence[RunRecord]], numbers_of: NumbersOf
) -> Iterator[dict[str, Any]]:
    """Of each algorithm, by its runs, a row for each cost, by the names of `COLUMNS`; `played`: the most episodes."""
    for algorithm, runs in compared.items():
        final = np.stack([run.final for run in runs])
        spread = np.stack((final.mean(axis=0), deviation(final), *over_seeds(final)[1:]))  # [4, 1+d]
        whole, costs = zip(*(numbers_of(run) for run in runs), strict=True)
        found = _together(whole, OF_RUNS)
        row = dict.fromkeys(COLUMNS) | {
            "environment": environment,
            "algorithm": algorithm,
            "seeds": len(runs),
            "episodes": max(run.episodes for run in runs),
            "played": played[algorithm],
            **_spread("reward", spread[:, 0]),
            **found,
            # The median over all seeds: a seed that did not solve it counts as longer than any.
            "solved": None if found["solved"] is None else _finite(found["solved"]),
            "solved_seeds": sum(one["solved"] not in (None, np.inf) for one in whole),
        }
        for i, name in enumerate(runs[0].cost_names):
            yield row | {
                "cost_name": name,
                **_spread("cost", spread[:, 1 + i]),
                "limit": _finite(runs[0].limits[i]),
                "floor": _finite(runs[0].floors[i]),
                **_together([each[name] for each in costs], OF_COSTS),
            }
        if not runs[0].cost_names:
            yield row


def long_rows_of(environment: str, runs: Sequence[RunRecord], numbers_of: NumbersOf) -> Iterator[dict[str, Any]]:
    """One for each number of each of these runs, by the names of `LONG`; what is unknown has no row."""
    for run in runs:
        whole, costs = numbers_of(run)
        about = {"environment": environment, "algorithm": run.algorithm, "seed": run.seed}
        for cost, numbers in ((None, whole), *costs.items()):
            for metric, value in numbers.items():
                if value is not None:
                    yield about | {"metric": metric, "cost_name": cost, "value": value}


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _spread(name: str, numbers: Float) -> dict[str, float | None]:
    """Mean, deviation and interval; without the latter where there are too few seeds."""
    keys = (name, f"{name}_std", f"{name}_low", f"{name}_high")
    return {key: _finite(x) for key, x in zip(keys, numbers.tolist(), strict=True)}


def _together(runs: Sequence[Numbers], keys: Sequence[str]) -> Numbers:
    """The numbers of several runs as one; None if one of them is unknown."""
    found: Numbers = {}
    for key in keys:
        column = [x for one in runs if (x := one[key]) is not None]
        whole = np.median if key in MEDIANS else np.mean
        found[key] = float(whole(column)) if len(column) == len(runs) else None
    return found


def frame(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, type]) -> polars.DataFrame:
    """Rows as a data frame with these columns."""
    pl = import_polars()
    schema = {name: {str: pl.String, int: pl.Int64, float: pl.Float64}[kind] for name, kind in columns.items()}
    table: polars.DataFrame = pl.DataFrame(rows, schema=schema, orient="row")
    return table


def import_polars() -> Any:
    """polars, or what to install."""
    try:
        import polars
    except ImportError as error:
        raise SpecError(f"tables need the extra: pip install 'conrl[report]' ({error})") from None
    return polars

"""What studies found, for people: reports, searches for parameters, learning from a safe policy (rich)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from conrl.cli.json_records import Record
from conrl.cli.tables import ALL_ROWS, Parts, brief, titled
from conrl.cli.terminal import Numbers
from conrl.wording import percent

if TYPE_CHECKING:
    from conrl.experiments.tuning import Trial

# -- report -----------------------------------------------------------------------------------------------


def study_tables(record: Record) -> Parts:
    """For each environment the rewards of all algorithms, and what they spent of each cost."""
    parts: Parts = []
    margin, tolerance = f"{record['margin']:.0%}", f"{record['tolerance']:g}"
    for name in dict.fromkeys(row["environment"] for row in record["rows"]):
        rows = [row for row in record["rows"] if row["environment"] == name]
        parts += [Text(f"{name}: {record['over'][name]}", "bold"), _rewards_table(rows)]
        parts += [Text(_exploring(rows), "dim"), Text("")]
        for cost in dict.fromkeys(row["cost_name"] for row in rows if row["cost_name"] is not None):
            parts.append(_spent_table(cost, [row for row in rows if row["cost_name"] == cost]))
    notes = (
        "reward, cost: mean over the last tenth; last: of the last policy that was not planned to explore; average: of "
        "all policies",
        "regret, over: what all episodes together fell short of the optimum by, and cost beyond the limit; strong: the "
        f"same where no episode makes up for another; safe: regret against the best policy with a margin of {margin} "
        "to every limit",
        "violations: share of episodes at which the mean cost of 100 is more than 10% above the limit; "
        f"single: whose own cost is, by more than {tolerance} of it",
        "slope: of log excess, over the last decade of episodes",
    )
    return [*parts, *(Text(note, "dim") for note in notes), *_comparison(record)]


def _exploring(rows: Sequence[Record]) -> str:
    """How many of the episodes that final numbers are means of were planned to explore."""
    own = {row["algorithm"]: row for row in rows}.values()
    told = ", ".join(
        f"{row['title']} {'unknown' if row['final_exploring'] is None else brief(row['final_exploring'])} "
        f"of {brief(row['final_episodes'])}"
        for row in own
        if row["final_exploring"] != 0.0
    )
    return f"exploring episodes in the last tenth: {told or 'none'}"


def _rewards_table(rows: Sequence[Record]) -> Numbers:
    keys = {
        "reward": "reward",
        "last": "last_iterate_reward",
        "average": "average_policy_reward",
        "regret": "cumulative_regret",
        "safe": "cumulative_safe_regret",
        "strong": "strong_regret",
        "solved": "solved",
    }
    table = Numbers("", *keys)
    for row in {row["algorithm"]: row for row in rows}.values():
        table.add_row(row["title"], *(_short(row[key]) for key in keys.values()))
    return table


def _spent_table(cost: str, rows: Sequence[Record]) -> Group:
    """Of one cost; the limit is in the title if it is the same for all."""
    bounds = [_bounds(row) for row in rows]
    apart = len(set(bounds)) > 1
    limits = ("limit",) if apart else ()
    table = Numbers("", "cost", "last", "average", *limits, "violations", "single", "over", "strong", "slope")
    for row, bound in zip(rows, bounds, strict=True):
        values = [_short(row[key]) for key in ("cost", "last_iterate_cost", "average_policy_cost")]
        judged = [""] * 5
        if bound:
            share, slope = row["violating"], row["excess_slope"]
            judged = [percent(row["violations"]), "" if share is None else percent(share)]
            judged += [
                _short(row["cumulative_violation"]),
                _short(row["strong_violation"]),
                "" if slope is None else f"{slope:.2f}",
            ]
        table.add_row(row["title"], *values, *([bound] if apart else []), *judged)
    return titled(cost if apart or not bounds[0] else f"{cost}, {bounds[0]}", table)


def _bounds(row: Record) -> str:
    """The limit and the floor, as far as there are any."""
    signs = {"floor": "at least", "limit": "at most"}
    return ", ".join(f"{sign} {_short(row[key])}" for key, sign in signs.items() if row[key] is not None)


def _short(x: float | None) -> str:
    """Four digits; empty where there is no number."""
    return "" if x is None else f"{x:.4g}"


# -- report: algorithms compared --------------------------------------------------------------------------


def _comparison(record: Record) -> Parts:
    """Over all environments: interquartile means of each algorithm, and every two of them."""
    whole, pairs = (
        [row for row in record[kind] if row["environment"] is None] for kind in ("aggregates", "comparisons")
    )
    if not whole:
        return []
    names = list(dict.fromkeys(row["environment"] for row in record["rows"]))
    where = f"all {len(names)} environments" if len(names) > 1 else names[0]
    over = set(record["over"].values())
    where += f", over {over.pop() if len(over) == 1 else 'the episodes named above'}"
    parts: Parts = [Text(""), Text(f"compared in {where}", "bold"), _aggregates_table(record, whole)]
    notes = [
        "interquartile means over runs; score: the last tenth's reward, as a share of the optimum; excess: its cost "
        "over the limit, as a share; distance: the larger of what is short and over; strong: means over the episodes "
        "of what each was short and over, as shares",
    ]
    if pairs:
        parts.append(_pairs_table(record, pairs))
        notes.append(
            "differences: first minus second, over the environments and seeds that both have; better: the probability "
            "that a run of the first is"
        )
    notes.append(
        f"[{record['confidence']:.0%} intervals]: stratified bootstrap over seeds, {record['resamples']:,} resamples; "
        f"none of fewer than {record['least_seeds']} seeds, or if no resample differs"
    )
    return [*parts, *(Text(note, "dim") for note in (*notes, *_missing(record, names)))]


def _aggregates_table(record: Record, rows: Sequence[Record]) -> Numbers:
    """A line for each algorithm, a column for each measure that is known of any."""
    shown = [name for name in record["measures"] if any(row["measure"] == name for row in rows)]
    table = Numbers("", "runs", *(record["measures"][name]["title"] for name in shown))
    for algorithm in dict.fromkeys(row["algorithm"] for row in rows):
        own = {row["measure"]: row for row in rows if row["algorithm"] == algorithm}
        cells = (_interval(own[name], "iqm", "low", "high") if name in own else "" for name in shown)
        table.add_row(record["titles"][algorithm], str(max(row["runs"] for row in own.values())), *cells)
    return table


def _pairs_table(record: Record, rows: Sequence[Record]) -> Numbers:
    """A line for each pair, by score and by distance, as far as they are known; else by two others that are."""
    known = list(dict.fromkeys(row["measure"] for row in rows))
    shown = [name for name in known if name in ("score", "distance")] or known[:2]
    titles = [record["measures"][name]["title"] for name in shown]
    table = Numbers("", "pairs", *(text for title in titles for text in (f"{title} difference", f"better {title}")))
    for pair in dict.fromkeys((row["first"], row["second"]) for row in rows if row["measure"] in shown):
        own = {row["measure"]: row for row in rows if (row["first"], row["second"]) == pair}
        cells = [
            _interval(own[name], kind, f"{kind}_low", f"{kind}_high") if name in own else ""
            for name in shown
            for kind in ("difference", "improvement")
        ]
        first, second = (record["titles"][name] for name in pair)
        table.add_row(f"{first}, {second}", str(max(own[name]["pairs"] for name in own)), *cells)
    return table


def _missing(record: Record, names: Sequence[str]) -> list[str]:
    """What the numbers over all environments do not cover."""
    notes: dict[str, list[str]] = {}
    for measure in record["measures"].values():
        unknown = [name for name in names if name not in measure["environments"]]
        if measure["environments"] and unknown:
            notes.setdefault(f"not in {', '.join(unknown)}, where there is no such number", []).append(measure["title"])
        for algorithm, lacks in measure["left_out"].items():
            told = f"without {record['titles'][algorithm]}, which has none in {', '.join(lacks)}"
            notes.setdefault(told, []).append(measure["title"])
    return [f"{', '.join(titles)}: {told}" for told, titles in notes.items()]


def _interval(row: Record, value: str, low: str, high: str) -> str:
    """Three digits, with the interval if there is one; empty where there is no number."""
    if row[value] is None:
        return ""
    text = f"{row[value]:.3g}"
    return text if row[low] is None else f"{text} [{row[low]:.3g}, {row[high]:.3g}]"


# -- tune -------------------------------------------------------------------------------------------------


def tuning_tables(trials: Sequence[Trial]) -> Parts:
    """The best settings; all of them are in a file."""
    if not trials:
        return ["no setting was tried"]
    names = list(trials[0].setting)
    parts = ("loss", "shortfall", "excess", "last 100: reward", "over limit")
    table = Numbers(*(name.split(".")[-1] for name in names), *parts, "state")
    for trial in trials[:ALL_ROWS]:
        setting = (trial.setting[name] for name in names)
        values = (brief(value) if isinstance(value, float) else str(value) for value in setting)
        state = trial.state if trial.state != "pruned" else f"pruned at {trial.episodes:,}"
        numbers = (trial.loss, trial.shortfall, trial.excess, trial.reward, trial.over)
        table.add_row(*values, *map(brief, numbers), state)
    states = [trial.state for trial in trials]
    counts = ", ".join(f"{states.count(s)} {s}" for s in ("complete", "pruned", "failed") if s in states)
    more = f"; the best {ALL_ROWS}" if len(trials) > ALL_ROWS else ""
    note = "loss = shortfall from the optimum + excess over the limits, means over all episodes and seeds"
    return [titled(f"{len(trials)} settings: {counts}{more}", table, [Text(note, "dim")])]


# -- reproduce dope ---------------------------------------------------------------------------------------


def safety_tables(rows: Sequence[Record]) -> Parts:
    """A table for each environment: medians over the seeds, and when and whether runs left the safe baseline."""
    parts: Parts = []
    for environment in dict.fromkeys(row["environment"] for row in rows):
        own = [row for row in rows if row["environment"] == environment]
        table = Numbers("learner", "regret", "violation", "strong", "violating", "runs without", "left the baseline")
        for row in own:
            away = row["seeds"] - row["never_left"]
            left = f"{row['left_first']:,} to {row['left_last']:,}" if away > 1 else f"{row['left_first'] or 0:,}"
            left = (left if away else "never") + (f" ({away} of {row['seeds']})" if 0 < away < row["seeds"] else "")
            sums = (f"{row[name]:,.4g}" for name in ("regret", "violation", "strong_violation"))
            clean = f"{row['runs_without_violation']} of {row['seeds']}"
            table.add_row(row["algorithm"], *sums, f"{row['violating_most']:,}", clean, left)
        episodes = f"{own[0]['episodes']:,} episodes"
        if any(row["played"] > row["episodes"] for row in own):
            episodes = f"the first {episodes}, which all runs have"
        title = f"{environment}: sums over {episodes}, medians; most violating episodes of a run"
        parts.append(titled(title, table))
    return parts

"""What a run of `conrl learn` came to, for people."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.text import Text

from conrl.cli.json_records import Record
from conrl.cli.tables import Parts, brief
from conrl.cli.terminal import Numbers
from conrl.metrics import NEAR, OVER
from conrl.running import History
from conrl.wording import counted, percent


def learn_tables(record: Record, history: History) -> Parts:
    """What a run came to, against the optimum and the limits; and its budgets, if it had any."""
    episodes = counted(record["episodes"], "episode")
    title = f"{record['environment']}: {record['algorithm']}, seed {record['seed']}, {episodes}"
    parts: Parts = [Text(title, "bold"), Text(_basis(record, history), "italic"), _averages_table(record)]
    if record["exploring"]:
        last = "" if record["window"] is None else f"; {record['exploring_last']} of the last {record['window']}"
        parts.append(f"exploring episodes (included in these means): {record['exploring']}{last}")
    parts += [*_judgement(record), *_by_themselves(record)]
    for shown, what in (("reported", "its newest policy, exactly"), ("mixture", "its mixture so far, exactly")):
        if shown in record:
            totals = {"reward": record[shown]["reward"]} | record[shown]["costs"]
            parts.append(f"{what}: {', '.join(f'{name} {brief(total)}' for name, total in totals.items())}")
    if record["infeasible"]:
        parts.append(f"episodes planned although the estimated limits could not be kept: {record['infeasible']}")
    if "budgets" in record:
        parts += [_spending_table(record["budgets"]), *_guarding(record)]
    return parts


def _basis(record: Record, history: History) -> str:
    """What the averages are averages of."""
    basis = "exact expected values of what was executed" if record["exact"] else "what was seen"
    if history.continuing and history.mdp is not None:
        basis = f"means per {history.mdp.horizon} steps of one unending episode, since its start"
    if record.get("guarded"):
        basis += "; of guarded episodes, what was realised"
    return basis if record["exact"] else f"{basis}: the model is unknown"


def _averages_table(record: Record) -> Numbers:
    headings = {"mean": "all episodes", "last": f"last {record['window']}", "optimum": "optimum"}
    if record["window"] is None:
        del headings["last"]
    table = Numbers("", *headings.values(), "budget / episodes" if "budgets" in record else "limit", "violations")
    table.add_row("reward", *(brief(record["reward"][key]) for key in headings), "", "")
    for name, cost in record["costs"].items():
        violations = percent(cost["violations"]) if math.isfinite(cost["limit"]) else ""
        table.add_row(name, *(brief(cost[key]) for key in (*headings, "limit")), violations)
    return table


def _judgement(record: Record) -> Iterator[str]:
    """Whether limits were kept and the optimum was reached, with what the words mean."""
    mean = "mean since the start" if record["window"] is None else f"mean of {record['window']} episodes"
    if any(math.isfinite(cost["limit"]) for cost in record["costs"].values()):
        yield f"violations: episodes at which the {mean} is more than {OVER:.0%} above the limit"
    if record["exact"]:
        solved = record["solved_from"]
        near = f"from episode {solved} on" if solved else "not reached, or not held to the end"
        yield f"solved, the {mean} within {NEAR:.0%} of the optimum and of every limit: {near}"


def _by_themselves(record: Record) -> Iterator[str]:
    """What is known of single policies, where good episodes do not make up for bad ones."""
    reward = record["reward"]
    limited = {name: cost for name, cost in record["costs"].items() if _is_limited(cost)}
    if reward["last_iterate"] is not None:
        short = reward["last_iterate_shortfall"]
        parts = [f"reward {brief(reward['last_iterate'])}" + ("" if short is None else f" ({short:.3g} short)")]
        for name, cost in record["costs"].items():
            over = f" ({cost['last_iterate_excess']:.3g} out)" if name in limited else ""
            parts.append(f"{name} {brief(cost['last_iterate'])}{over}")
        last = record["last_iterate_episode"]
        what = "the last episode" if last == record["episodes"] else f"episode {last:,}, the last that did not explore,"
        yield f"last iterate, what {what} played: {', '.join(parts)}"
    shares = [
        f"{name} {percent(cost['violating'])}, over by {cost['cumulative_violation']:.4g} in all, "
        f"strong violation {cost['strong_violation']:.4g}"
        for name, cost in limited.items()
        if cost["violating"] is not None
    ]
    if shares:
        yield f"episodes out of their limits by more than {record['tolerance']:g} of them: {'; '.join(shares)}"
    if reward["strong_regret"] is not None:
        total, strong = reward["cumulative_regret"], reward["strong_regret"]
        yield f"regret of all episodes: {total:.4g}; strong regret (shortfalls only): {strong:.4g}"


def _is_limited(cost: Record) -> bool:
    return math.isfinite(cost["limit"]) or math.isfinite(cost["floor"])


def _spending_table(budgets: Record) -> Numbers:
    table = Numbers("budget", "total", "spent", "without the guard")
    for name, budget in budgets.items():
        over = " (exceeded)" if budget["would_exceed"] else ""
        table.add_row(name, *(brief(budget[key]) for key in ("budget", "spent")), f"{brief(budget['unguarded'])}{over}")
    return table


def _guarding(record: Record) -> Iterator[str]:
    """What the guard of the budgets did."""
    yield f"episodes that the guard forbade or cut: {record['guarded']}; skipped: {record['skipped']}"
    if record["guarded"] == record["episodes"] == record["skipped"]:
        yield "no episode was played: the worst case of one (steps x largest cost) exceeds a budget"

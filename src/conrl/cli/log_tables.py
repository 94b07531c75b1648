"""What logs say about policies, for people: `conrl assess` and `conrl monitor`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from conrl.cli.json_records import Record
from conrl.cli.tables import ALL_ROWS, Parts, brief, titled
from conrl.cli.terminal import Numbers, words
from conrl.estimation.monitor import Stuck
from conrl.wording import counted, percent


def assess_tables(record: Record) -> Parts:
    """The intervals, how likely limits hold, the other answer, what it rests on, and what to log next."""
    level, names = f"{100 * record['level']:g}%", list(record["mean"]["costs"])
    facts = words()
    facts.add_row(
        "rests on", f"{counted(record['episodes'], 'episode')}, {record['models']:,} models drawn; {record['message']}"
    )
    for row in record["limits"]:
        facts.add_row("probability", Text(f"{row['probability']:.3f} that {row['name']}", "bold"))
    if len(record["limits"]) > 1:
        facts.add_row("", Text(f"{record['probability']:.3f} that all of them hold", "bold"))
    table = Numbers("an episode", "mean", f"{level} from", "to")
    other = record["importance"]
    for name in ("reward", *names):
        table.add_row(name, *(brief(_total(record[key], name)) for key in ("mean", "low", "high")))
    parts: Parts = [Text(f"{record['policy']} by {record['log']}", "bold"), facts, titled("from drawn models", table)]
    weighted = Numbers("an episode", "mean", f"{level} from", "to")
    for name in ("reward", *names):
        weighted.add_row(name, *(brief(_total(other[key], name)) for key in ("mean", "low", "high")))
    note = Text(other["message"], "yellow" if other["worthless"] else "")
    title = "from the log's own episodes, weighted (importance sampling)"
    parts.append(Group(Text(title, "italic"), note) if other["worthless"] else titled(title, weighted, [note]))
    return [*parts, _coverage_table(record["coverage"]), _needs_table(record["needs"])]


def _total(value: Record, name: str) -> float:
    total: float = value["reward"] if name == "reward" else value["costs"][name]
    return total


def _coverage_table(rows: Sequence[Record]) -> Group:
    table = Numbers("state", "policy's visits", "steps in the log", "seen < 30 times", "never seen")
    for row in rows[:ALL_ROWS]:
        shares = (percent(row[key]) for key in ("seldom", "unseen"))
        table.add_row(row["state"], f"{row['visits']:.4g}", f"{row['steps']:,}", *shares)
    more = f", the {ALL_ROWS} that it visits most of {len(rows)}" if len(rows) > ALL_ROWS else ""
    return titled(f"how the log covers what the policy does{more}", table)


def _needs_table(rows: Sequence[Record]) -> Group:
    table = Numbers("state", "action", "seen", "share of the variance")
    for row in rows:
        then = "" if row["step"] is None else f" at step {row['step']}"
        table.add_row(row["state"] + then, row["action"], f"{row['visits']:,}", percent(row["share"]))
    return titled("what to log next: the pairs that more data would help most about", table)


def monitor_tables(record: Record) -> Parts:
    """What was promised beside what happened, and what is odd."""
    facts, odd = words(), record["odd"]
    facts.add_row("verdict", Text(record["verdict"], "bold"))
    facts.add_row("episodes", f"{record['episodes']:,}")
    if record["stuck"]:
        told = Stuck(**record["stuck"])
        facts.add_row("stuck", Text(f"{told}. If it will not end: --give-up", "yellow"))
    elif record["left_out"]:
        facts.add_row("waiting", f"{counted(record['left_out'], 'episode')}: the first has not ended")
    if record["given_up"]:
        facts.add_row("given up", f"{counted(record['given_up'], 'episode')}; later ones have overtaken them")
    if record["unfinished"]:
        facts.add_row("not read", f"{counted(record['unfinished'], 'line')} at the end: not finished")
    if odd["steps"]:
        text = f"{odd['steps']:,} of {odd['of']:,} steps; first in {odd['first']}"
        facts.add_row("not the policy", Text(f"{text}. What follows is about what was played", "yellow"))
    for text in record["strange"]["told"]:
        facts.add_row("not the model", Text(text, "yellow"))
    beyond = [row for row in record["totals"] if row["beyond"] is not None]
    for row, text in zip(beyond, record["outside"], strict=True):
        low, high = (brief(x) for x in row["seen"])
        remedy = (
            f"If real pay scatters, say what it can be: --range {row['name']}=LEAST,MOST (seen so far: {low} to {high})"
        )
        facts.add_row("outside", Text(f"{text}. {remedy}", "yellow"))
    table = Numbers("an episode", "promised", "limit", "mean", "from", "to", "evidence", "verdict")
    for row in record["totals"]:
        bounds = ((sign, row[key]) for sign, key in (("<=", "limit"), (">=", "floor")) if row[key] is not None)
        numbers = (brief(None if math.isnan(row[key]) else row[key]) for key in ("mean", "low", "high"))
        limit = ", ".join(f"{sign} {brief(bound)}" for sign, bound in bounds)
        table.add_row(row["name"], brief(row["promised"]), limit, *numbers, _odds(row["odds"]), row["verdict"])
    level = f"{100 * (1 - record['alpha']):g}%"
    note = f"from, to: means that are not refuted. All of this holds at all times at once, with probability {level}."
    if record["skip"]:
        note += f" {percent(record['skip'])} of all episodes are skipped; limits are those of one that is played."
    return [
        Text(f"{record['policy']} in {record['log']}", "bold"),
        facts,
        titled("what was promised", table, [Text(note)]),
    ]


def _odds(odds: float) -> str:
    """How unlikely what was seen is, if the promise is kept."""
    return "" if odds < 10.0 else "1 in a million" if odds > 1e6 else f"1 in {odds:,.0f}"

"""What plans, plans of fleets and frontiers come to, for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from conrl._types import Int
from conrl.cli.json_records import Record
from conrl.cli.tables import ALL_ROWS, Parts, brief, model_title, precise, titled
from conrl.cli.terminal import Numbers, can_print, columns, words
from conrl.errors import SpecError
from conrl.mixture import Mixture
from conrl.model import ConstrainedMDP
from conrl.model.tails import CHANCE
from conrl.planners import Frontier, Plan
from conrl.planners.basis import seen_steps
from conrl.planners.sensitivity import DIFFERENCE
from conrl.policy import Policy
from conrl.policy_map import Play, policy_legend, policy_text, state_play, step_play
from conrl.problem import Knapsack
from conrl.wording import counted, percent, started

MOST_TYPES = 5  # of a fleet, of which is told what they do
MOST_STEPS = 48  # of a table by step
MOST_HOURS = 24  # steps of a table of what is done at each of them
WIDEST = 100  # columns of such a table
HARDLY = 1e-9  # the probability of a state below which nothing is said of it
SURE = 0.0005  # the share of other actions below which they are not told
NOTE = "most played action over the episode, and any other with more than 10%"
EACH_PART = 5  # to so many at the start, around the limit and at the end
ASCII = str.maketrans("↑↓←→█·⋮", "^v<>#..")


def plan_tables(record: Record, plan: Plan) -> Parts:
    """The certificate, costs, budgets, mixture and simulation, as far as there are any, and what the policy does."""
    parts: Parts = [model_title(record), _certificate(record, plan)]
    if record["costs"]:
        parts += [_costs_table(record["costs"]), *_excess(record["rows"])]
    parts += _steps_tables(record.get("per_step", {}))
    if "single_episodes" in record:
        parts.append(_tails_table(record["single_episodes"]))
    parts += _sensitivity_part(record.get("sensitivity"))
    budgets = {name: row for name, row in record.get("budgets", {}).items() if math.isfinite(row["budget"])}
    if budgets:
        parts.append(_budgets_table(budgets))
    if len(record["mixture"]) > 1:
        parts.append(_mixture_table(record["mixture"]))
    if "simulation" in record:
        parts.append(_simulation_table(record["simulation"]))
        if "single_episodes" in record["simulation"]:
            parts.append(_simulated_tails(record["simulation"]["single_episodes"]))
    return [*parts, _policy_part(plan)]


def fleet_tables(record: Record, done: Sequence[tuple[str, ConstrainedMDP, Mixture]]) -> Parts:
    """The certificate of a fleet's plan, what is shared, what each type gets and does, and perhaps the simulation.

    `done` has the name, the model and all policies of each type, weighed by how many units play them.
    """
    types = record["types"]
    title = f"{record['fleet']}: {record['units']:,} units of {len(types)} types, {record['horizon']} steps"
    facts = words()
    facts.add_row("reward", Text(precise(record["reward"]), "bold"))
    facts.add_row("bound", precise(record["bound"]))
    facts.add_row("gap", f"{record['gap']:.1e}")
    status = record["status"]
    facts.add_row("status", Text(f"{status}: {record['message']}", "" if status == "optimal" else "yellow"))
    mixing = len(record["mixed"])
    facts.add_row("mixing", f"{mixing:,} of {record['units']:,} units; every other has one deterministic policy")
    parts: Parts = [Text(title, "bold"), facts]
    if record["costs"]:
        parts += [_costs_table(record["costs"]), *_excess(record["rows"])]
    parts += _steps_tables(record["per_step"])
    parts += _sensitivity_part(record.get("sensitivity"))
    names = list(record["costs"])
    shares = Numbers("model", "units", "policies", "reward", *names)
    for entry in types:
        numbers = (brief(entry["reward"]), *(brief(entry["costs"][name]) for name in names))
        shares.add_row(entry["model"], f"{entry['units']:,}", str(len(entry["policies"])), *numbers)
    parts.append(titled("what each type earns and spends, all its units together", shares))
    if "simulation" in record:
        parts.append(_fleet_simulation_table(record["simulation"]))
    parts += [_done_part(mdp, policies, f"what {name} does where") for name, mdp, policies in done[:MOST_TYPES]]
    if len(done) > MOST_TYPES:
        parts.append(
            Text(f"and {len(done) - MOST_TYPES} more types; --out DIRECTORY writes the policies of all", "dim")
        )
    return parts


def _fleet_simulation_table(simulation: Record) -> Group:
    table = Numbers("total", "mean", "± s.e.", "largest", "runs above the limit")
    mean, error = simulation["mean"], simulation["standard_error"]
    table.add_row("reward", brief(mean["reward"]), f"{error['reward']:.2g}", "", "")
    for name, exceed in simulation["exceed"].items():
        above = "" if math.isnan(exceed) else percent(exceed)
        largest = precise(simulation["largest"][name])
        table.add_row(name, brief(mean["costs"][name]), f"{error['costs'][name]:.2g}", largest, above)
    share = simulation["share_of_bound"]
    of_bound = "" if math.isnan(share) else f"; the reward is {100.0 * share:.2f}% of the bound"
    title = f"{simulation['runs']} guarded runs: {simulation['refused']:.4g} actions refused in each{of_bound}"
    return titled(title, table)


def _certificate(record: Record, plan: Plan) -> Table:
    """What was found, and the proof of how good it is."""
    facts = words()
    if plan.confidence is None or not plan.confidence.shift[0]:
        facts.add_row("reward", Text(precise(record["reward"]), "bold"))
    else:  # what it is expected to be comes first, not what the log that chose it says
        facts.add_row("reward", Text(precise(record["confidence"]["reward"], 6), "bold"))
        facts.add_row("estimated", f"{precise(record['reward'])} in the estimate, which is optimistic about its plan")
    if plan.mdp.bonus is not None:
        facts.add_row("objective", f"{precise(record['objective'])}  (optimistic: the model carries a bonus)")
    if isinstance(plan.problem, Knapsack):
        facts.add_row("skip", f"{percent(record['skip'])} of episodes; reward and costs are the mean over all episodes")
    if record["bound"] is not None:
        facts.add_row("bound", precise(record["bound"]))
        facts.add_row("gap", f"{record['gap']:.1e}")
    if plan.confidence is not None:
        facts.add_row("confidence", Text(f"{plan.confidence.probability:.3f}, {plan.confidence.asked:g} asked", "bold"))
        plain = precise(plan.confidence.plain, 6) if math.isfinite(plan.confidence.plain) else "unknown"
        facts.add_row("without", f"reward {plain} is what the estimate promises without caution")
    if plan.deterministic:
        facts.add_row("kind", "one deterministic policy; bound and gap are to the best of all deterministic policies")
    status = record["status"]
    facts.add_row(
        "status", Text(f"{status}: {record['message']}", "" if status in ("optimal", "confident") else "yellow")
    )
    return facts


def _costs_table(costs: Record) -> Numbers:
    floored = any(math.isfinite(cost["floor"]) for cost in costs.values())
    table = Numbers("cost", "expected", "limit", "price", *(("floor", "floor price") if floored else ()))
    for name, cost in costs.items():
        floor = (precise(cost["floor"]), brief(cost["floor_price"])) if floored else ()
        table.add_row(name, precise(cost["value"]), precise(cost["limit"]), brief(cost["price"]), *floor)
    return table


def _steps_tables(per_step: Record) -> Parts:
    """What each step costs, by cost."""
    parts: Parts = []
    for name, steps in per_step.items():
        table = Numbers("step", name, "limit", "price")
        for step in steps[:MOST_STEPS]:
            table.add_row(str(step["step"]), brief(step["value"]), precise(step["limit"]), brief(step["price"]))
        left = len(steps) - MOST_STEPS
        parts.append(titled(f"{name} of each step", table, [Text(f"and {left} more steps", "dim")] if left > 0 else ()))
    return parts


def _tails_table(rows: Sequence[Record]) -> Group:
    table = Numbers("single episodes", "value", "price")
    for row in rows:
        table.add_row(row["name"], precise(row["value"]), brief(row["price"]))
    return titled("the policy acts on what was spent so far", table)


def _sensitivity_part(rows: Sequence[Record] | None) -> Parts:
    """What moving each limit would change, and to where."""
    if not rows:
        return []
    table = Numbers("limit", "gain", "up to", "loss", "down to", "can be met to", "one unit more")
    steps = [row["name"] for row in rows if row["kind"] == DIFFERENCE]
    for row in rows:
        up, down, most = ("" if math.isnan(row[end]) else brief(row[end]) for end in ("gain_to", "loss_to", "tightest"))
        if math.isinf(row["loss"]):
            loss, down = "cannot be met", ""
        else:
            loss = brief(row["loss"])
        up = "no end" if math.isinf(row["gain_to"]) else up
        table.add_row(row["name"], brief(row["gain"]), up, loss, down, most, brief(row["one_more"]))
    note = [Text(f"{', '.join(steps)}: no slopes, but what a whole unit more or less changes", "dim")] if steps else []
    return [titled("per unit: the gain if a limit is loosened, the loss if it is tightened", table, note)]


def _excess(rows: Sequence[Record]) -> Iterator[Text]:
    """What exceeds its bound, however little."""
    over = [row for row in rows if row["excess"] > 0.0 and not _looks_kept(row)]
    if over:
        rounding = all(row["excess"] <= row["allowance"] for row in over)
        listed = ", ".join(f"{row['name']} by {row['excess']:.1e}" for row in over)
        yield Text(f"exceeded{' within rounding' if rounding else ''}: {listed}", "dim" if rounding else "yellow")


def _looks_kept(row: Record) -> bool:
    """Whether the excess is rounding that no table would show."""
    return bool(row["excess"] <= row["allowance"]) and precise(row["value"]) == precise(row["bound"])


def _budgets_table(budgets: Record) -> Group:
    table = Numbers("budget", "total", "expected", "runs that exceed it")
    for name, row in budgets.items():
        error = "" if math.isnan(row["standard_error"]) else f" ± {percent(row['standard_error'])}"
        table.add_row(name, precise(row["budget"]), precise(row["expected"]), f"about {percent(row['exceed'])}{error}")
    one = next(iter(budgets.values()))
    episodes = counted(one["episodes"], "episode")
    title = f"budgets for {episodes}: kept in expectation only ({one['method']}, without a guard)"
    return titled(title, table, _means_note([name for name, row in budgets.items() if row["pays_means"]]))


def _mixture_table(mixture: Sequence[Record]) -> Group:
    table = Numbers("policy", "weight", "reward", *mixture[0]["costs"])
    heaviest = sorted(range(len(mixture)), key=lambda i: -mixture[i]["weight"])[:ALL_ROWS]  # a heuristic may mix dozens
    for i in sorted(heaviest):
        part = mixture[i]
        table.add_row(str(i + 1), f"{part['weight']:.6f}", *map(precise, (part["reward"], *part["costs"].values())))
    if len(mixture) > ALL_ROWS:
        table.add_row(f"({len(mixture) - ALL_ROWS} lighter)")
    return titled(f"a mixture of {len(mixture)} policies: each episode plays one of them", table)


def _simulation_table(simulation: Record) -> Group:
    quantiles = simulation["quantiles"]
    shares = ("median" if q == "0.5" else f"{100 * float(q):g}%" for q in quantiles)
    short = simulation["fall_short"]
    floored = not all(map(math.isnan, short.values()))
    table = Numbers("total", "mean", "± s.e.", *shares, "above its limit", *(["below its floor"] if floored else []))
    measures = (simulation["mean"], simulation["standard_error"], *quantiles.values())
    table.add_row("reward", *(f"{measure['reward']:.4g}" for measure in measures), "", *([""] if floored else []))
    for name, exceed in simulation["exceed"].items():
        costs = (f"{measure['costs'][name]:.4g}" for measure in measures)
        outside = (exceed, short[name]) if floored else (exceed,)
        table.add_row(name, *costs, *("" if math.isnan(share) else percent(share) for share in outside))
    floor = ", and below the floor" if floored else ""
    title = f"{counted(simulation['episodes'], 'simulated episode')}: mean, quantiles, share above the limit{floor}"
    return titled(title, table, _means_note(simulation["pays_means"]))


def _simulated_tails(tails: Sequence[Record]) -> Group:
    table = Numbers("single episodes", "asked", "simulated")
    for tail in tails:
        told = percent if tail["kind"] == CHANCE else brief
        table.add_row(tail["name"], told(tail["asked"]), told(tail["simulated"]))
    return titled("limits on single episodes, in those that were simulated", table)


def _means_note(names: Sequence[str]) -> list[Text]:
    why = "the model has one amount for each state and action; if real pay varies, the tails are wider than shown"
    return [Text(f"{', '.join(names)}: {why}", "italic dim")] if names else []


def _policy_part(plan: Plan) -> Group:
    """The policy on the model's map or, without one, state by state."""
    note = Text(NOTE, "italic dim")
    try:
        rows = policy_text(plan.mdp, plan.mixture, columns())
    except SpecError:
        played = ", in an episode that is played" if plan.skip > 0.0 else ""
        return _done_part(plan.mdp, plan.mixture, "what is done where", played)
    signs = {} if can_print("↑█·") else ASCII
    lines = [
        Text.assemble(
            *((text.translate(signs), style) for text, style in row),
            no_wrap=True,
            overflow="ignore",  # a map that is too wide is wrapped by the terminal itself, not cut
        )
        for row in rows
    ]
    legend = policy_legend(plan.mdp, ends=any("%" in text for row in rows for text, _ in row))
    return Group("", *lines, Text(legend.translate(signs), "dim"), note)


def _done_part(mdp: ConstrainedMDP, policy: Policy | Mixture, title: str, played: str = "") -> Group:
    """What a policy does: step by step, where the steps differ and are few, else state by state."""
    done = state_play(mdp, policy)
    order = np.argsort(-done.visits, kind="stable")
    order = order[done.visits[order] > 0.0]
    if mdp.step_dependent and mdp.horizon <= MOST_HOURS:
        return _hours_table(mdp, policy, order[:ALL_ROWS], order.size, f"{title}, step by step{played}")
    hint = "; step by step: --out policy.csv, or conrl explore" if mdp.step_dependent else ""
    return Group(_states_table(mdp, done, order, title, played), Text(NOTE + hint, "italic dim"))


def _hours_table(mdp: ConstrainedMDP, policy: Policy | Mixture, states: Int, found: int, title: str) -> Group:
    """The most played action by step and state; steps at which the same is done are one row."""
    visits, shares = step_play(mdp, policy, states)
    best = shares.argmax(axis=2)

    def cell(h: int, i: int) -> str:
        if visits[h, i] < HARDLY:
            return ""
        share = shares[h, i, best[h, i]]
        drawn = "" if share > 1.0 - SURE else f" {percent(share)}"
        return f"{mdp.action_name(int(best[h, i]))}{drawn}"

    cells = [[cell(h, i) for i in range(states.size)] for h in range(mdp.horizon)]
    names = [mdp.state_name(s) for s in states.tolist()]
    widths = [
        2 + max(map(cell_len, (name, *column))) for name, column in zip(names, zip(*cells, strict=True), strict=True)
    ]
    room = np.flatnonzero(np.cumsum(widths) <= WIDEST - len("00-00"))
    kept = max(room.size, 1)
    table = Numbers("step", *names[:kept])
    first = 0
    for h in range(mdp.horizon):
        if h + 1 == mdp.horizon or cells[h + 1][:kept] != cells[h][:kept]:
            table.add_row(str(h) if h == first else f"{first}-{h}", *cells[h][:kept])
            first = h + 1
    more = "" if kept == found else f"; the {kept} most visited of {found} states, all with --out policy.csv"
    note = f"the most played action; a percentage where it is drawn, nothing where nobody comes{more}"
    return Group(titled(title, table), Text(note, "italic dim"))


def _states_table(mdp: ConstrainedMDP, done: Play, order: Int, title: str, played: str) -> Group:
    more = f", the {ALL_ROWS} most visited of {order.size}" if order.size > ALL_ROWS else ""
    table = Numbers("state", "visits", "actions")
    for s in order[:ALL_ROWS].tolist():
        shown = [f"{mdp.action_name(a)} {percent(done.shares[s, a])}" for a in done.actions(s)]
        table.add_row(mdp.state_name(s), f"{done.visits[s]:.4g}", ", ".join(shown))
    return titled(f"{title}, as shares over the steps of an episode{played}{more}", table)


def frontier_tables(record: Record, curve: Frontier) -> Parts:
    """The vertices of the curve, and what it says at the model's own limit."""
    vertices, own = record["vertices"], record["own_limit"]
    others = curve.rows(math.inf).names  # the limits that stay as they are
    held = f", with {', '.join(others)}" if others else ""
    table = Numbers("vertex", "limit", "reward", "price")
    before = -1
    for i in _chosen([vertex["limit"] for vertex in vertices], own and own["limit"]):
        if i > before + 1:
            table.add_row(f"({i - before - 1} more)")
        vertex = vertices[i]
        table.add_row(str(i + 1), precise(vertex["limit"]), precise(vertex["reward"]), brief(vertex["price"]))
        before = i
    every = curve.asked is not None and curve.asked.chance is not None and vertices[0]["limit"] <= 0.0
    below = "Feasible for every probability; " if every else f"Infeasible below {precise(vertices[0]['limit'])}; "
    error = "" if record["complete"] else f"not complete: the true curve is at most {record['error']:.1e} higher"
    title = f"{record['model']} {started(record['start'])}: the best reward against the limit on {record['cost']}{held}"
    parts: Parts = [
        Text(title, "bold"),
        titled(f"{counted(len(vertices), 'vertex', 'vertices')}, {error or 'complete'}", table),
        f"{below}flat from {precise(vertices[-1]['limit'])} on. "
        "A price is the gain per unit of the limit up to the next vertex.",
    ]
    if curve.mdp._visits is not None:
        parts.append(f"The model is {seen_steps(curve.mdp)}; the curve is exact for it alone.")
    if own and own["feasible"]:
        best = f"reward {precise(own['reward'])}, price {brief(own['price'])}"
        parts.append(f"At the limit {precise(own['limit'])}: {best}.")
    elif own:
        parts.append(f"The limit {precise(own['limit'])} is infeasible.")
    return parts


def _chosen(limits: Sequence[float], limit: float | None) -> list[int]:
    """The vertices to list: all, or the first, the last and those around the model's limit."""
    size = len(limits)
    if size <= ALL_ROWS:
        return list(range(size))
    chosen = {*range(EACH_PART), *range(size - EACH_PART, size)}
    if limit is not None:
        at = int(np.searchsorted(limits, limit))
        chosen |= {i for i in range(at - EACH_PART // 2 - 1, at + EACH_PART // 2 + 1) if 0 <= i < size}
    return sorted(chosen)

"""What each command found, for people: the records of `conrl.cli.json_records` as tables and lines (rich)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from conrl.cli.json_records import Record
from conrl.cli.terminal import Numbers, can_print, columns, words
from conrl.errors import SpecError
from conrl.metrics import NEAR, OVER
from conrl.planners import Frontier, Plan
from conrl.planners.basis import seen_steps
from conrl.policy_map import percent, policy_legend, policy_text, state_play
from conrl.problem import Knapsack
from conrl.wording import counted

if TYPE_CHECKING:  # a plan is shown without loading the learners
    from conrl.cli.file_checks import FileCheck
    from conrl.running.history import History

Parts = list[RenderableType]  # printed one below the other

ALL_ROWS = 20  # a table of more rows is abbreviated
MOST_STEPS = 48  # of a table by step
EACH_PART = 5  # to so many at the start, around the limit and at the end
ASCII = str.maketrans("↑↓←→█·⋮", "^v<>#..")


def precise(x: float | None, digits: int = 10) -> str:
    """Ten significant digits, or fewer; what is not limited is `none`.

    >>> precise(1.5362884391), precise(float("inf")), precise(None)
    ('1.536288439', 'none', 'unknown')
    """
    if x is None:
        return "unknown"
    return f"{x:.{digits}g}" if math.isfinite(x) else "none"


def brief(x: float | None) -> str:
    """The same with six digits."""
    return precise(x, 6)


def titled(title: str, table: Numbers, notes: Sequence[Text] = ()) -> Group:
    return Group(Text(title, "italic"), table, *notes)


# -- plan -------------------------------------------------------------------------------------------------


def plan_tables(record: Record, plan: Plan) -> Parts:
    """The certificate, costs, budgets, mixture and simulation, as far as there are any, and what the policy does."""
    title = f"{record['model']}: {record['states']} states, {record['actions']} actions, "
    title += record.get("criterion") or f"{record['horizon']} steps"
    parts: Parts = [Text(title, "bold"), _certificate(record, plan)]
    if record["costs"]:
        parts += [_costs_table(record["costs"]), *_excess(record["rows"])]
    parts += _steps_tables(record.get("per_step", {}))
    if "single_episodes" in record:
        parts.append(_tails_table(record["single_episodes"]))
    budgets = {name: row for name, row in record.get("budgets", {}).items() if math.isfinite(row["budget"])}
    if budgets:
        parts.append(_budgets_table(budgets))
    if len(record["mixture"]) > 1:
        parts.append(_mixture_table(record["mixture"]))
    if "simulation" in record:
        parts.append(_simulation_table(record["simulation"]))
    return [*parts, _policy_part(plan)]


def check_tables(name: str, found: FileCheck, guessed: bool) -> Parts:
    """What is in a file, and what to look at again; or how many mistakes it has, and what it was taken for."""
    if found.count:
        doubt = "; if it is something else, say so with --as" if guessed else ""
        return [
            Text(f"{name}: {found.count:,} mistake{'s' * (found.count > 1)}, read as a {found.kind}{doubt}", "bold")
        ]
    facts = words()
    for what, fact in found.facts.items():
        facts.add_row(what, fact)
    notes = [Text(f"{note[:1].upper()}{note[1:]}.") for note in found.notes]
    return [Text(f"{name}: {found.title}", "bold"), facts, *notes, Text("No mistakes.")]


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


def fleet_tables(record: Record) -> Parts:
    """The certificate of a fleet's plan, what is shared, what each type gets, and the simulation if there is one."""
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
    names = list(record["costs"])
    shares = Numbers("model", "units", "policies", "reward", *names)
    for entry in types:
        numbers = (brief(entry["reward"]), *(brief(entry["costs"][name]) for name in names))
        shares.add_row(entry["model"], f"{entry['units']:,}", str(len(entry["policies"])), *numbers)
    parts.append(titled("what each type earns and spends, all its units together", shares))
    if "simulation" in record:
        parts.append(_fleet_simulation_table(record["simulation"]))
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
    facts = words()
    facts.add_row("reward", Text(precise(record["reward"]), "bold"))
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


def _excess(rows: Sequence[Record]) -> Iterator[Text]:
    """What exceeds its bound, however little."""
    over = [row for row in rows if row["excess"] > 0.0]
    if over:
        rounding = all(row["excess"] <= row["allowance"] for row in over)
        listed = ", ".join(f"{row['name']} by {row['excess']:.1e}" for row in over)
        yield Text(f"exceeded{' within rounding' if rounding else ''}: {listed}", "dim" if rounding else "yellow")


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


def _means_note(names: Sequence[str]) -> list[Text]:
    why = "the model has one amount for each state and action; if real pay varies, the tails are wider than shown"
    return [Text(f"{', '.join(names)}: {why}", "italic dim")] if names else []


def _policy_part(plan: Plan) -> Group:
    """The policy on the model's map or, without one, state by state."""
    note = Text("most played action over the episode, and any other with more than 10%", "italic dim")
    try:
        rows = policy_text(plan.mdp, plan.mixture, columns())
    except SpecError:
        return Group(_states_table(plan), note)
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


def _states_table(plan: Plan) -> Group:
    mdp = plan.mdp
    done = state_play(mdp, plan.mixture)
    order = np.argsort(-done.visits, kind="stable")
    order = order[done.visits[order] > 0.0]
    more = f", the {ALL_ROWS} most visited of {order.size}" if order.size > ALL_ROWS else ""
    table = Numbers("state", "visits", "actions")
    for s in order[:ALL_ROWS].tolist():
        shown = [f"{mdp.action_name(a)} {percent(done.shares[s, a])}" for a in done.actions(s)]
        table.add_row(mdp.state_name(s), f"{done.visits[s]:.4g}", ", ".join(shown))
    played = ", in an episode that is played" if plan.skip > 0.0 else ""
    return titled(f"what is done where, as shares over the steps of an episode{played}{more}", table)


# -- learn ------------------------------------------------------------------------------------------------


def learn_tables(record: Record, history: History) -> Parts:
    """What a run came to, against the optimum and the limits; and its budgets, if it had any."""
    episodes = counted(record["episodes"], "episode")
    title = f"{record['environment']}: {record['algorithm']}, seed {record['seed']}, {episodes}"
    parts: Parts = [Text(title, "bold"), Text(_basis(record, history), "italic"), _averages_table(record)]
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
        yield f"last iterate, what the last episode played: {', '.join(parts)}"
    shares = [
        f"{name} {percent(cost['violating'])}, strong violation {cost['strong_violation']:.4g}"
        for name, cost in limited.items()
        if cost["violating"] is not None
    ]
    if shares:
        yield f"episodes out of their limits by more than {record['tolerance']:g} of them: {'; '.join(shares)}"
    if reward["strong_regret"] is not None:
        yield f"strong regret, what all episodes fell short of the optimum by: {reward['strong_regret']:.4g}"


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


# -- frontier ---------------------------------------------------------------------------------------------


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
    error = "" if record["complete"] else f"not complete: the true curve is at most {record['error']:.1e} higher"
    parts: Parts = [
        Text(f"{record['model']}: the best reward against the limit on {record['cost']}{held}", "bold"),
        titled(f"{counted(len(vertices), 'vertex', 'vertices')}, {error or 'complete'}", table),
        f"Infeasible below {precise(vertices[0]['limit'])}; flat from {precise(vertices[-1]['limit'])} on. "
        "A price is the gain per unit of the limit up to the next vertex.",
    ]
    if curve.mdp._visits is not None:
        parts.append(f"The model is {seen_steps(curve.mdp)}; the curve is exact for it alone.")
    if own and own["feasible"]:
        best = f"reward {precise(own['reward'])}, price {brief(own['price'])}"
        parts.append(f"At the model's limit {precise(own['limit'])}: {best}.")
    elif own:
        parts.append(f"The model's limit {precise(own['limit'])} is infeasible.")
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


# -- what is built in -------------------------------------------------------------------------------------


def _origin(record: Record) -> str:
    """The package of a plug-in, or its module."""
    return str(record["package"] or record["module"])


def envs_tables(records: Sequence[Record], plugins: Sequence[Record]) -> Parts:
    """Sizes and optima of the models, then what each of them is and takes; of plug-ins, only the latter."""
    table = Numbers("name", "states", "actions", "horizon", "cost", "limit", "best reward", "its cost")
    about = words()
    for record in records:
        name, costs = Text(record["name"], "bold"), record["costs"]
        table.add_row(
            name,
            *(str(record[key]) for key in ("states", "actions", "horizon")),
            "\n".join(costs),
            "\n".join(brief(cost["limit"]) for cost in costs.values()),
            brief(record["reward"]),
            "\n".join(brief(cost["value"]) for cost in costs.values()),
        )
        about.add_row(name, record["description"])
        about.add_row("", Text(f"--set {', '.join(record['parameters'])}", "dim"))
    for record in plugins:
        said = f"{record['description']} " if record["description"] else ""
        about.add_row(Text(record["name"], "bold"), f"{said}({_origin(record)})")
        if record["parameters"]:
            about.add_row("", Text(f"--set {', '.join(record['parameters'])}", "dim"))
    about.add_row(
        Text("gymnasium:<id>", "bold"), "any Gymnasium environment that publishes its dynamics, as FrozenLake-v1 does"
    )
    return [table, about]


def algorithms_tables(records: Sequence[Record], planners: Sequence[Record]) -> Parts:
    """What each learner is, and what it takes; then the planners of plug-ins."""
    about = words()
    for record in records:
        origin = "; ".join(filter(None, (record["paper"], _origin(record) if "module" in record else "")))
        about.add_row(Text(record["name"], "bold"), f"{record['summary']} ({origin})".lstrip())
        about.add_row("", Text(f"problems: {', '.join(record['problems'])}", "dim"))
        given = ", ".join(
            key if value is None else f"{key}={value:.6g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in record["parameters"].items()
        )
        about.add_row("", Text(f"--option {given}" if given else "", "dim"))
    for record in planners:
        about.add_row(Text(f"--planner {record['name']}", "bold"), f"{record['summary']} ({_origin(record)})".lstrip())
    return [about]

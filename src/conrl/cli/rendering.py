"""What the command line shows: tables for people (rich), records for machines (JSON)."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from conrl.cli.terminal import Numbers, can_print, columns, words
from conrl.envs import BuiltIn
from conrl.errors import SpecError
from conrl.evaluation import Simulation
from conrl.metrics import NEAR, OVER
from conrl.model import ConstrainedMDP
from conrl.model.limits import resolve_limits
from conrl.planners import Frontier, Plan
from conrl.policy_map import percent, policy_legend, policy_text, state_play
from conrl.problem import Knapsack, Linear
from conrl.theory.risk import BudgetRisk

if TYPE_CHECKING:  # a plan is shown without loading the learners
    from conrl.experiments.tuning import Trial
    from conrl.running.history import History

ALL_ROWS = 20  # a table of more rows is abbreviated
EACH_PART = 5  # to so many at the start, around the limit and at the end
QUANTILES = (0.05, 0.5, 0.95)
ASCII = str.maketrans("↑↓←→█·⋮", "^v<>#..")


def to_json(record: Mapping[str, Any]) -> str:
    """One JSON object; what JSON has no number for (infinity, not a number) is null."""
    return json.dumps(_finite(record), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_finite(item) for item in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value


# -- plan -------------------------------------------------------------------------------------------------


def _limits(plan: Plan) -> tuple[Any, Any]:
    """[d] each: the limits and floors of one episode."""
    linear = plan.linear or Linear()
    names = plan.mdp.cost_names
    return resolve_limits(linear.limits, names, "limits"), resolve_limits(linear.floors, names, "floors")


def plan_record(name: str, plan: Plan, simulation: Simulation | None, risk: BudgetRisk | None = None) -> dict[str, Any]:
    mdp, values = plan.mdp, plan.mixture.values
    limits, floors = _limits(plan)
    columns = (plan.costs, limits, floors, plan.prices, plan.floor_prices)
    keys = ("value", "limit", "floor", "price", "floor_price")
    record = {
        "model": name,
        "states": mdp.num_states,
        "actions": mdp.num_actions,
        "horizon": mdp.horizon,
        "status": plan.status,
        "message": plan.message,
        "reward": plan.reward,
        "objective": plan.objective,
        "bound": plan.bound,
        "gap": plan.gap,
        "iterations": plan.iterations,
        "skip": plan.skip,
        "costs": {
            cost: dict(zip(keys, map(float, row), strict=True))
            for cost, row in zip(mdp.cost_names, zip(*columns, strict=True), strict=True)
        },
        "rows": [row._asdict() for row in plan.rows],
        "mixture": [
            {"weight": float(weight)} | ({} if values is None else _value(mdp, values[i]))
            for i, weight in enumerate(plan.mixture.weights)
        ],
    }
    record |= {} if risk is None else {"budgets": _budgets_record(plan, risk)}
    return record if simulation is None else record | {"simulation": _simulation_record(mdp, simulation)}


def _budgets_record(plan: Plan, risk: BudgetRisk) -> dict[str, Any]:
    """Of each budget: what is expected of all episodes, and how often a run exceeds it (an estimate)."""
    problem = plan.problem
    assert isinstance(problem, Knapsack)
    return {
        name: {
            "budget": budget,
            "episodes": problem.episodes,
            "expected": problem.episodes * float(plan.costs[i]),
            "exceed": risk.exceed[i],
            "standard_error": risk.standard_error[i],
            "pays_means": name in risk.pays_means,
            "method": f"{risk.runs} simulated runs" if risk.runs else "normal approximation",
        }
        for i, (name, budget) in enumerate(zip(plan.mdp.cost_names, problem.totals(plan.mdp).tolist(), strict=True))
    }


def _value(mdp: ConstrainedMDP, value: Sequence[float]) -> dict[str, Any]:
    return {"reward": float(value[0]), "costs": dict(zip(mdp.cost_names, map(float, value[1:]), strict=True))}


def _simulation_record(mdp: ConstrainedMDP, simulation: Simulation) -> dict[str, Any]:
    parts = {"mean": simulation.mean, "standard_error": simulation.standard_error}
    return {
        "episodes": simulation.rewards.size,
        **{key: _value(mdp, (part.reward, *part.costs)) for key, part in parts.items()},
        "quantiles": {
            f"{q:g}": _value(mdp, (found.reward, *found.costs)) for q in QUANTILES for found in [simulation.quantile(q)]
        },
        "exceed": dict(zip(mdp.cost_names, map(float, simulation.exceed()), strict=True)),
        "pays_means": list(simulation.pays_means),
    }


def plan_parts(
    name: str, plan: Plan, simulation: Simulation | None, risk: BudgetRisk | None = None
) -> list[RenderableType]:
    mdp = plan.mdp
    title = f"{name}: {mdp.num_states} states, {mdp.num_actions} actions, {mdp.horizon} steps"
    facts = words()
    facts.add_row("reward", Text(number(plan.reward), "bold"))
    if mdp.bonus is not None:
        facts.add_row("objective", f"{number(plan.objective)}  (optimistic: the model carries a bonus)")
    if isinstance(plan.problem, Knapsack):
        facts.add_row("skip", f"{percent(plan.skip)} of episodes; reward and costs are the mean over all episodes")
    if plan.bound is not None:
        facts.add_row("bound", number(plan.bound))
        facts.add_row("gap", f"{plan.gap:.1e}")
    facts.add_row("status", Text(f"{plan.status}: {plan.message}", "" if plan.status == "optimal" else "yellow"))
    parts: list[RenderableType] = [Text(title, "bold"), facts]
    if mdp.num_costs:
        parts.append(_costs_table(plan))
        parts += _excess(plan)
    if risk is not None and not np.isnan(risk.exceed).all():
        parts.append(_budgets_table(plan, risk))
    if plan.mixture.weights.size > 1:
        parts.append(_mixture_table(plan))
    if simulation is not None:
        parts.append(_simulation_table(mdp, simulation))
    return [*parts, policy_part(plan)]


def _titled(title: str, table: Numbers) -> Group:
    return Group(Text(title, "italic"), table)


def _costs_table(plan: Plan) -> Numbers:
    mdp = plan.mdp
    limits, floors = _limits(plan)
    floored = bool(np.isfinite(floors).any())
    table = Numbers("cost", "expected", "limit", "price", *(("floor", "floor price") if floored else ()))
    for i, cost in enumerate(mdp.cost_names):
        row = [cost, number(plan.costs[i]), number(limits[i]), f"{plan.prices[i]:.6g}"]
        row += [number(floors[i]), f"{plan.floor_prices[i]:.6g}"] if floored else []
        table.add_row(*row)
    return table


def _excess(plan: Plan) -> list[RenderableType]:
    """What exceeds its bound, however little."""
    over = [row for row in plan.rows if row.excess > 0.0]
    if not over:
        return []
    rounding = all(row.excess <= row.allowance for row in over)
    listed = ", ".join(f"{row.name} by {row.excess:.1e}" for row in over)
    return [Text(f"exceeded{' within rounding' if rounding else ''}: {listed}", "dim" if rounding else "yellow")]


def _budgets_table(plan: Plan, risk: BudgetRisk) -> Group:
    table = Numbers("budget", "total", "expected", "runs that exceed it")
    record = _budgets_record(plan, risk)
    for name, row in record.items():
        if math.isfinite(row["budget"]):
            error = f" ± {percent(row['standard_error'])}" if risk.runs else ""
            table.add_row(
                name, number(row["budget"]), number(row["expected"]), f"about {percent(row['exceed'])}{error}"
            )
    first = next(iter(record.values()))
    title = f"budgets for {first['episodes']} episodes: kept in expectation only ({first['method']}, without a guard)"
    means = [name for name, row in record.items() if row["pays_means"] and math.isfinite(row["budget"])]
    return Group(_titled(title, table), _means_note(means)) if means else _titled(title, table)


def _mixture_table(plan: Plan) -> Group:
    mdp, mixture = plan.mdp, plan.mixture
    count = mixture.weights.size
    table = Numbers("policy", "weight", "reward", *mdp.cost_names)
    heaviest = np.argsort(-mixture.weights, kind="stable")[:ALL_ROWS]  # a heuristic may mix dozens
    for i in np.sort(heaviest):
        values = [] if mixture.values is None else [number(v) for v in mixture.values[i]]
        table.add_row(str(i + 1), f"{mixture.weights[i]:.6f}", *values)
    if count > ALL_ROWS:
        table.add_row(f"({count - ALL_ROWS} lighter)")
    return _titled(f"a mixture of {count} policies: each episode plays one of them", table)


def _simulation_table(mdp: ConstrainedMDP, simulation: Simulation) -> Group:
    shares = ["median" if q == 0.5 else f"{100 * q:g}%" for q in QUANTILES]
    table = Numbers("total", "mean", "± s.e.", *shares, "above its limit")
    columns = [simulation.mean, simulation.standard_error, *map(simulation.quantile, QUANTILES)]
    exceed = simulation.exceed()
    for i, name in enumerate(("reward", *mdp.cost_names)):
        values = [f"{(x.reward if i == 0 else x.costs[i - 1]):.4g}" for x in columns]
        bounded = i > 0 and np.isfinite(simulation.limits[i - 1])
        table.add_row(name, *values, percent(exceed[i - 1]) if bounded else "")
    shown = _titled(f"{simulation.rewards.size} simulated episodes: mean, quantiles, share above the limit", table)
    return Group(shown, _means_note(simulation.pays_means)) if simulation.pays_means else shown


def _means_note(names: Sequence[str]) -> Text:
    one = "the model has one amount for each state and action; if real pay varies, the tails are wider than shown"
    return Text(f"{', '.join(names)}: {one}", "italic dim")


def policy_part(plan: Plan) -> RenderableType:
    """The policy on the model's map or, without one, state by state."""
    note = Text("most played action over the episode, and any other with more than 10%", "italic dim")
    try:
        rows = policy_text(plan.mdp, plan.mixture, columns())
    except SpecError:
        return Group(_states_table(plan), note)
    plain = can_print("↑█·")
    lines = [
        Text.assemble(
            *((t if plain else t.translate(ASCII), style) for t, style in row),
            no_wrap=True,
            overflow="ignore",  # a map that is too wide is wrapped by the terminal itself, not cut
        )
        for row in rows
    ]
    legend = policy_legend(plan.mdp, ends=any("%" in text for row in rows for text, _ in row))
    return Group("", *lines, Text(legend if plain else legend.translate(ASCII), "dim"), note)


def _states_table(plan: Plan) -> Group:
    mdp = plan.mdp
    done = state_play(mdp, plan.mixture)
    order = np.argsort(-done.visits, kind="stable")
    order = order[done.visits[order] > 0.0]
    more = f", the {ALL_ROWS} most visited of {order.size}" if order.size > ALL_ROWS else ""
    table = Numbers("state", "visits", "actions")
    for s in order[:ALL_ROWS]:
        shown = [f"{mdp.action_name(a)} {percent(done.shares[s, a])}" for a in done.actions(int(s))]
        table.add_row(mdp.state_name(int(s)), f"{done.visits[s]:.4g}", ", ".join(shown))
    played = ", in an episode that is played" if plan.skip > 0.0 else ""
    return _titled(f"what is done where, as shares over the steps of an episode{played}{more}", table)


# -- learn ------------------------------------------------------------------------------------------------


def learn_record(env: str, algorithm: str, seed: int, history: History) -> dict[str, Any]:
    """What a run came to. Means over all episodes and over the last ones; of expected values where these are known."""
    averages, recent = history.averages, history.scores.smooth_executed[-1]
    known = averages is not None
    overall = np.append(history.rewards.mean(), history.costs.mean(axis=0)) if averages is None else averages[-1]
    best, remaining, exceed = history.optimum, history.remaining, history.would_exceed
    record: dict[str, Any] = {
        "environment": env,
        "algorithm": algorithm,
        "seed": seed,
        "episodes": len(history),
        "interrupted": history.interrupted,
        "exact": known,
        "reward": {
            "mean": overall[0],
            "last": recent[0],
            "realised": history.rewards.mean(),
            "optimum": None if best is None else best.reward,
        },
        "costs": {
            name: {
                "mean": overall[1 + i],
                "last": recent[1 + i],
                "realised": history.costs[:, i].mean(),
                "limit": history.limits[i],
                "violations": history.violations[i],
                "optimum": None if best is None else best.costs[i],
            }
            for i, name in enumerate(history.cost_names)
        },
        "solved_from": history.solved_from,
        "window": history.window,
        "infeasible": int(history.infeasible.sum()),
    }
    for shown, values in (("reported", history.reported), ("mixture", history.mixture)):
        if values is not None:
            record[shown] = {
                "reward": values[-1, 0],
                "costs": dict(zip(history.cost_names, values[-1, 1:], strict=True)),
            }
    if remaining is not None:
        record["budgets"] = {
            name: {
                "budget": remaining[0, i] + history.costs[0, i],
                "spent": history.costs[:, i].sum(),
                "unguarded": None if history.unguarded_costs is None else history.unguarded_costs[:, i].sum(),
                "would_exceed": None if exceed is None else bool(exceed[i]),
            }
            for i, name in enumerate(history.cost_names)
        }
        record["guarded"] = int(history.guarded.sum())
        record["skipped"] = int(history.skipped.sum())
    return record


def learn_parts(env: str, algorithm: str, seed: int, history: History) -> list[RenderableType]:
    record = learn_record(env, algorithm, seed, history)
    title = f"{env}: {algorithm}, seed {seed}, {record['episodes']} episodes"
    values = "exact expected values of the policies that were played" if record["exact"] else "what was seen"
    if history.continuing:
        values = (
            f"means per {history.mdp.horizon if history.mdp else 'H'} steps of one unending episode, since its start"
        )
    if record.get("guarded"):
        values += "; of guarded episodes, what was realised"
    if not record["exact"]:
        values += ": the model is unknown"
    limit = "budget / episodes" if "budgets" in record else "limit"
    window = history.window
    keys = ("mean", "optimum") if window is None else ("mean", "last", "optimum")
    headings = ["all episodes", "optimum"] if window is None else ["all episodes", f"last {window}", "optimum"]
    table = Numbers("", *headings, limit, "violations")
    reward = record["reward"]
    table.add_row("reward", *(_cell(reward[key]) for key in keys), "", "")
    for name, cost in record["costs"].items():
        limited = math.isfinite(cost["limit"])
        row = [_cell(cost[key]) for key in keys]
        table.add_row(name, *row, number(cost["limit"], 6), percent(cost["violations"]) if limited else "")
    mean = "mean since the start" if window is None else f"mean of {window} episodes"
    parts: list[RenderableType] = [Text(title, "bold"), Text(values, "italic"), table]
    if np.isfinite(history.limits).any():
        parts.append(f"violations: episodes at which the {mean} is more than {OVER:.0%} above the limit")
    if record["exact"]:
        solved = record["solved_from"]
        near = f"from episode {solved} on" if solved else "not reached, or not held to the end"
        parts.append(f"solved, the {mean} within {NEAR:.0%} of the optimum and of every limit: {near}")
    for shown, what in (("reported", "its newest policy, exactly"), ("mixture", "its mixture so far, exactly")):
        if shown in record:
            costs = ", ".join(f"{name} {number(cost, 6)}" for name, cost in record[shown]["costs"].items())
            parts.append(f"{what}: reward {number(record[shown]['reward'], 6)}" + (f", {costs}" if costs else ""))
    if record["infeasible"]:
        parts.append(f"episodes planned although the estimated limits could not be kept: {record['infeasible']}")
    if "budgets" in record:
        burned = Numbers("budget", "total", "spent", "without the guard")
        for name, budget in record["budgets"].items():
            over = " (exceeded)" if budget["would_exceed"] else ""
            free = "unknown" if budget["unguarded"] is None else f"{number(budget['unguarded'], 6)}{over}"
            burned.add_row(name, number(budget["budget"], 6), number(budget["spent"], 6), free)
        parts += [burned, f"episodes that the guard forbade or cut: {record['guarded']}; skipped: {record['skipped']}"]
        if record["guarded"] == record["episodes"] == record["skipped"]:
            parts.append("no episode was played: the worst case of one (steps x largest cost) exceeds a budget")
    return parts


def _cell(value: float | None) -> str:
    return "unknown" if value is None else number(value, 6)


# -- frontier ---------------------------------------------------------------------------------------------


def _own_limit(curve: Frontier) -> float | None:
    limit = np.inf if curve.mdp.limits is None else float(curve.mdp.limits[curve.cost])
    return limit if math.isfinite(limit) else None


def frontier_record(name: str, curve: Frontier) -> dict[str, Any]:
    limit = _own_limit(curve)
    own = None
    if limit is not None:
        feasible = limit >= curve.limits[0]
        own = {"limit": limit, "feasible": bool(feasible)}
        own |= {"reward": curve.reward(limit), "price": curve.price(limit)} if feasible else {}
    columns = (curve.limits, curve.rewards, np.append(curve.prices, 0.0))
    return {
        "model": name,
        "cost": curve.mdp.cost_names[curve.cost],
        "complete": curve.complete,
        "error": curve.error,
        "own_limit": own,
        "vertices": [
            dict(zip(("limit", "reward", "price"), map(float, row), strict=True)) for row in zip(*columns, strict=True)
        ],
    }


def frontier_parts(name: str, curve: Frontier) -> list[RenderableType]:
    cost, limit = curve.mdp.cost_names[curve.cost], _own_limit(curve)
    size = curve.limits.size
    whole = "complete" if curve.complete else f"not complete: the true curve is at most {curve.error:.1e} higher"
    others = resolve_limits(curve.mdp.limits, curve.mdp.cost_names, "limits")
    kept = [
        f"{other} <= {number(others[i])}"
        for i, other in enumerate(curve.mdp.cost_names)
        if i != curve.cost and math.isfinite(others[i])
    ]
    held = f", with {', '.join(kept)}" if kept else ""
    title = Text(f"{name}: the best reward against the limit on {cost}{held}", "bold")
    table = Numbers("vertex", "limit", "reward", "price")
    prices = np.append(curve.prices, 0.0)
    before = -1
    for i in _chosen(curve, limit):
        if i > before + 1:
            table.add_row(f"({i - before - 1} more)")
        table.add_row(str(i + 1), number(curve.limits[i]), number(curve.rewards[i]), f"{prices[i]:.6g}")
        before = i
    notes = [
        f"Infeasible below {number(curve.limits[0])}; flat from {number(curve.limits[-1])} on. "
        "A price is the gain per unit of the limit up to the next vertex."
    ]
    if limit is not None and limit >= curve.limits[0]:
        own = f"reward {number(curve.reward(limit))}, price {curve.price(limit):.6g}"
        notes.append(f"At the model's limit {number(limit)}: {own}.")
    elif limit is not None:
        notes.append(f"The model's limit {number(limit)} is infeasible.")
    count = f"{size} {'vertex' if size == 1 else 'vertices'}, {whole}"
    return [title, _titled(count, table), *notes]


def _chosen(curve: Frontier, limit: float | None) -> list[int]:
    """The vertices to list: all, or the first, the last and those around the model's limit."""
    size = curve.limits.size
    if size <= ALL_ROWS:
        return list(range(size))
    chosen = {*range(EACH_PART), *range(size - EACH_PART, size)}
    if limit is not None:
        at = int(np.searchsorted(curve.limits, limit))
        chosen |= {i for i in range(at - EACH_PART // 2 - 1, at + EACH_PART // 2 + 1) if 0 <= i < size}
    return sorted(chosen)


# -- envs -------------------------------------------------------------------------------------------------


def env_record(entry: BuiltIn, plan: Plan) -> dict[str, Any]:
    mdp = plan.mdp
    limits = resolve_limits(mdp.limits, mdp.cost_names, "limits")
    return {
        "name": entry.name,
        "description": entry.description,
        "states": mdp.num_states,
        "actions": mdp.num_actions,
        "horizon": mdp.horizon,
        "reward": plan.reward,
        "costs": {
            cost: {"value": float(plan.costs[i]), "limit": float(limits[i])} for i, cost in enumerate(mdp.cost_names)
        },
        "parameters": {
            key: None if p.default is inspect.Parameter.empty else p.default for key, p in entry.parameters.items()
        },
    }


def envs_parts(records: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    table = Numbers("name", "states", "actions", "horizon", "cost", "limit", "best reward", "its cost")
    for record in records:
        costs = record["costs"]
        table.add_row(
            Text(record["name"], "bold"),
            *(str(record[key]) for key in ("states", "actions", "horizon")),
            "\n".join(costs),
            "\n".join(number(c["limit"], 6) for c in costs.values()),
            number(record["reward"], 6),
            "\n".join(number(c["value"], 6) for c in costs.values()),
        )
    about = words()
    for record in records:
        about.add_row(Text(record["name"], "bold"), record["description"])
        about.add_row("", Text(f"--set {', '.join(record['parameters'])}", "dim"))
    about.add_row(
        Text("gymnasium:<id>", "bold"), "any Gymnasium environment that publishes its dynamics, as FrozenLake-v1 does"
    )
    return [table, about]


def algorithm_record(kind: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": kind.name,
        "summary": kind.summary,
        "paper": kind.paper,
        "problems": [problem.__name__ for problem in kind.problems],
        "parameters": dict(parameters),
    }


def algorithms_parts(records: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    about = words()
    for record in records:
        about.add_row(Text(record["name"], "bold"), f"{record['summary']} ({record['paper']})")
        about.add_row("", Text(f"problems: {', '.join(record['problems'])}", "dim"))
        given = ", ".join(
            key if value is None else f"{key}={value:.6g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in record["parameters"].items()
        )
        about.add_row("", Text(f"--option {given}" if given else "", "dim"))
    return [about]


# -- tune -------------------------------------------------------------------------------------------------


def tuning_parts(trials: Sequence[Trial]) -> list[RenderableType]:
    """The best settings; all of them are in a file."""
    if not trials:
        return ["no setting was tried"]
    names = list(trials[0].setting)
    shown = Numbers(*(name.split(".")[-1] for name in names), "loss", "reward", "over limit", "state")
    for trial in trials[:ALL_ROWS]:
        values = [_cell(v) if isinstance(v, float) else str(v) for v in (trial.setting[name] for name in names)]
        numbers = [_cell(x) for x in (trial.loss, trial.reward, trial.excess)]
        state = trial.state if trial.state != "pruned" else f"pruned at {trial.episodes:,}"
        shown.add_row(*values, *numbers, state)
    counts = {state: sum(t.state == state for t in trials) for state in ("complete", "pruned", "failed")}
    said = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
    more = f"; the best {ALL_ROWS}" if len(trials) > ALL_ROWS else ""
    return [_titled(f"{len(trials)} settings: {said}{more}", shown)]


def number(x: float, digits: int = 10) -> str:
    """Ten significant digits, or fewer; what is not limited is `none`.

    >>> number(1.5362884391), number(float("inf"))
    ('1.536288439', 'none')
    """
    return f"{x:.{digits}g}" if math.isfinite(x) else "none"

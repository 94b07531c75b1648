"""What each command found, as plain values: `--json` prints them, and `conrl.cli.tables` lays them out for people."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl._types import Float
from conrl.envs import BuiltIn
from conrl.envs.registry import Named
from conrl.errors import InfeasibleError, shown
from conrl.evaluation import Simulation
from conrl.metrics import MARGIN, TOLERANCE
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.fleet_simulation import FleetSimulation
from conrl.model.limits import read_step_limits, resolve_limits
from conrl.planners import FleetPlan, Frontier, Plan
from conrl.plugins import Source
from conrl.problem import Knapsack, Linear
from conrl.theory.risk import BudgetRisk

if TYPE_CHECKING:  # a plan is shown without loading the learners
    from pathlib import Path

    from conrl.cli.file_checks import FileCheck
    from conrl.estimation.assess import Assessment
    from conrl.experiments import Study
    from conrl.running.history import History

Record = dict[str, Any]  # plain values, numbers as they were computed; `to_json` makes JSON of them

QUANTILES = (0.05, 0.5, 0.95)


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


def infeasible_record(error: InfeasibleError) -> Record:
    """Why there is no plan: what conflicts, its proof, and how near one can come."""
    proof = error.feasibility
    count = len(proof.conflict)
    columns = ((None,) * count if x is None else x.tolist() for x in (proof.multipliers, proof.nearest))
    return {
        "status": "infeasible",
        "message": str(error),
        "conflict": [
            {"limit": name, "multiplier": multiplier, "nearest": nearest}
            for name, multiplier, nearest in zip(proof.conflict, *columns, strict=True)
        ],
        "violation": proof.violation,
        "least": proof.least,
        "greatest": proof.greatest,
        "needs": [need._asdict() for need in error.needs],
    }


def plan_record(name: str, plan: Plan, simulation: Simulation | None, risk: BudgetRisk | None = None) -> Record:
    """A plan with its certificate and, where they were asked for, how often budgets are exceeded and a simulation."""
    mdp, linear = plan.mdp, plan.linear or Linear()
    limits = resolve_limits(linear.limits, mdp.cost_names, "limits")
    floors = resolve_limits(linear.floors, mdp.cost_names, "floors")
    record = {
        "model": name,
        **_sizes(mdp),
        "status": plan.status,
        "message": plan.message,
        "reward": plan.reward,
        "objective": plan.objective,
        "bound": plan.bound,
        "gap": plan.gap,
        "iterations": plan.iterations,
        "skip": plan.skip,
        "costs": _costs_record(plan, mdp.cost_names, limits, floors),
        "rows": [row._asdict() for row in plan.rows],
        "mixture": [
            {"weight": float(weight), **_value(mdp.cost_names, value)}
            for weight, value in zip(plan.weights, plan.values, strict=True)
        ],
    }
    if plan.estimated is not None:
        record["estimated"] = plan.estimated._asdict()
    if plan.confidence is not None:
        sure = plan.confidence
        record["confidence"] = sure._asdict() | {"shift": _value(mdp.cost_names, sure.shift)}
    if linear.per_step is not None:
        record["per_step"] = _steps_record(mdp, linear, record["rows"])
    tails = linear.tails(mdp)
    if tails:
        record["single_episodes"] = record["rows"][-len(tails) :]
    if plan.deterministic:
        record["deterministic"] = True
    if risk is not None:
        record["budgets"] = _budgets_record(plan, risk)
    if simulation is not None:
        record["simulation"] = _simulation_record(mdp, simulation)
    return record


def check_record(name: str, found: FileCheck) -> Record:
    """What is wrong with a file, or what is in it."""
    record: Record = {
        "file": name,
        "kind": found.kind,
        "ok": not found.count,
        "count": found.count,
        "mistakes": found.mistakes,
        "warnings": found.warnings,
        "notes": found.notes,
    }
    return record | dict(found.record)


def model_entries(mdp: ConstrainedMDP, has_horizon: bool) -> Record:
    """What is in a model file."""
    starts = np.flatnonzero(mdp.initial > 0.0)
    return {
        **_sizes(mdp),
        "horizon": mdp.horizon if has_horizon and not isinstance(mdp.horizon, Criterion) else None,
        "step_dependent": mdp.step_dependent,
        "pairs": mdp.num_pairs,
        "outcomes": int(mdp.graph.probability.size),
        "costs": mdp.cost_names,
        "start": mdp.state_name(int(starts[0])) if starts.size == 1 else None,
        "limits": None if mdp.limits is None else dict(zip(mdp.cost_names, mdp.limits.tolist(), strict=True)),
    }


def fleet_record(
    name: str, models: Sequence[str], plan: FleetPlan, simulation: FleetSimulation | None = None
) -> Record:
    """A plan of a fleet: the certificate, what is shared, and what the units of each type do and get."""
    fleet, names = plan.fleet, plan.fleet.cost_names
    record: Record = {
        "fleet": name,
        "units": fleet.num_units,
        "horizon": fleet.horizon,
        "status": plan.status,
        "message": plan.message,
        "reward": plan.reward,
        "bound": plan.bound,
        "gap": plan.gap,
        "iterations": plan.iterations,
        "costs": _costs_record(plan, names, plan.limits, plan.floors),
        "per_step": {
            names[i]: [
                {"step": h, **_row(("value", "limit", "price"), numbers)}
                for h, numbers in enumerate(
                    zip(plan.step_costs[names[i]], fleet.step_limits[k], plan.step_prices[names[i]], strict=True)
                )
            ]
            for k, i in enumerate(fleet.step_costs)
        },
        "rows": [row._asdict() for row in plan.rows],
        "rounding": plan.rounding,
        "mixed": list(plan.mixed),
        "types": [_type_record(model, plan, t) for t, model in enumerate(models)],
    }
    if simulation is not None:
        error = simulation.standard_error
        record["simulation"] = {
            "runs": simulation.rewards.size,
            "guard": simulation.guard,
            "mean": _value(names, (simulation.mean.reward, *simulation.mean.costs)),
            "standard_error": _value(names, (error.reward, *error.costs)),
            "largest": dict(zip(names, simulation.costs.max(axis=0).tolist(), strict=True)),
            "exceed": _row(names, simulation.exceed()),
            "fall_short": _row(names, simulation.fall_short()),
            "exceed_steps": simulation.exceed_steps(),
            "share_of_bound": simulation.share,
            "refused": float(simulation.refused.mean()),
        }
    return record


def _steps_record(mdp: ConstrainedMDP, linear: Linear, rows: Sequence[Record]) -> Record:
    """By cost, the steps that have a limit of their own."""
    found: Record = {}
    by_name = {row["name"].rpartition(" <= ")[0]: row for row in rows}
    for cost, step, bound in read_step_limits(linear.per_step, mdp.cost_names, mdp.horizon):
        name = mdp.cost_names[cost]
        row = by_name[f"{name} at step {step}"]
        numbers = _row(("value", "limit", "price"), (row["value"], bound, row["price"]))
        found.setdefault(name, []).append({"step": step, **numbers})
    return found


def _type_record(model: str, plan: FleetPlan, t: int) -> Record:
    parts = plan.parts(t)
    return {
        "model": model,
        "units": sum(part.units for part in parts),
        **_value(plan.fleet.cost_names, (plan.rewards[t], *plan.shares[t])),
        "policies": [{"units": part.units, **_value(plan.fleet.cost_names, part.value)} for part in parts],
    }


def _costs_record(plan: Plan | FleetPlan, names: Sequence[str], limits: Float, floors: Float) -> Record:
    """By cost: what is expected of it, its limit and its floor, and their prices."""
    columns = zip(names, plan.costs, limits, floors, plan.prices, plan.floor_prices, strict=True)
    keys = ("value", "limit", "floor", "price", "floor_price")
    return {cost: _row(keys, numbers) for cost, *numbers in columns}


def _sizes(mdp: ConstrainedMDP) -> Record:
    sizes = {"states": mdp.num_states, "actions": mdp.num_actions}
    if isinstance(mdp.horizon, Criterion):
        return {**sizes, "horizon": None, "criterion": str(mdp.horizon)}
    return {**sizes, "horizon": mdp.horizon}


def _row(keys: Sequence[str], numbers: Iterable[float]) -> dict[str, float]:
    return dict(zip(keys, map(float, numbers), strict=True))


def _value(cost_names: Sequence[str], value: Iterable[float]) -> Record:
    """A value vector [1+d]."""
    reward, *costs = map(float, value)
    return {"reward": reward, "costs": dict(zip(cost_names, costs, strict=True))}


def _budgets_record(plan: Plan, risk: BudgetRisk) -> Record:
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


def _simulation_record(mdp: ConstrainedMDP, simulation: Simulation) -> Record:
    names = mdp.cost_names
    return {
        "episodes": simulation.rewards.size,
        "mean": _value(names, simulation.mean.value),
        "standard_error": _value(names, simulation.standard_error.value),
        "quantiles": {f"{q:g}": _value(names, simulation.quantile(q).value) for q in QUANTILES},
        "exceed": _row(names, simulation.exceed()),
        "fall_short": _row(names, simulation.fall_short()),
        "pays_means": list(simulation.pays_means),
    }


def assess_record(policy: str, log: str, found: Assessment) -> Record:
    """What a log says about a policy."""
    names, other = found.cost_names, found.importance
    record: Record = {
        "policy": policy,
        "log": log,
        "episodes": found.episodes,
        "message": found.message,
        "level": found.level,
        "models": found.draws.shape[0],
        "mean": _value(names, found.mean.value),
        "low": _value(names, found.low.value),
        "high": _value(names, found.high.value),
        "limits": [row._asdict() for row in found.limits],
        "probability": found.probability,
        "basis": found.basis._asdict(),
        "coverage": [row._asdict() for row in found.coverage],
        "needs": [row._asdict() for row in found.needs],
    }
    if other is not None:
        record["importance"] = {
            "mean": _value(names, other.mean.value),
            "low": _value(names, other.low.value),
            "high": _value(names, other.high.value),
            "effective": other.effective,
            "worthless": other.worthless,
            "message": other.message,
        }
    return record


def learn_record(env: str, algorithm: str, seed: int, history: History) -> Record:
    """What a run came to. Means over all episodes and over the last ones; of expected values where these are known."""
    names, averages, recent = history.cost_names, history.averages, history.scores.smooth_executed[-1]
    overall = np.append(history.rewards.mean(), history.costs.mean(axis=0)) if averages is None else averages[-1]
    best, strong, short = history.optimum, history.strong_violation, history.strong_regret
    last, average = history.last_iterate, history.average_policy
    violating, slope = history.violating(), history.excess_slope
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
                "strong_violation": None if strong is None else strong[-1, i],
                "excess_slope": None if slope is None else slope[i],
            }
            for i, name in enumerate(names)
        },
        "tolerance": TOLERANCE,
        "solved_from": history.solved_from,
        "window": history.window,
        "infeasible": int(history.infeasible.sum()),
    }
    if history.reported is not None:
        record["reported"] = _value(names, history.reported[-1])
    if history.mixture is not None:
        record["mixture"] = _value(names, history.mixture[-1])
    if isinstance(history.problem, Knapsack):
        record |= _spending_record(history, resolve_limits(history.problem.budgets, names, "budgets"))
    return record


def study_record(study: Study, wrote: Sequence[Path]) -> Record:
    """The table of a study, how its algorithms compare, and the files that were written of it."""
    from conrl.experiments.measures import COMPARED
    from conrl.experiments.statistics import CONFIDENCE, LEAST_SEEDS, RESAMPLES

    return {
        "study": study.name,
        "runs": len(study.runs),
        "failed": len(study.failures),
        "wrote": [str(path) for path in wrote],
        "tolerance": TOLERANCE,
        "margin": MARGIN,
        "rows": [row | {"title": study.titles.get(row["algorithm"], row["algorithm"])} for row in study.rows()],
        "confidence": CONFIDENCE,
        "resamples": RESAMPLES,
        "least_seeds": LEAST_SEEDS,
        "measures": {
            name: {
                "title": measure.title,
                "higher": measure.higher,
                "environments": list(study.scores(name)),
                "left_out": study.left_out(name),
            }
            for name, measure in COMPARED.items()
        },
        "titles": study.titles,
        "aggregates": [row._asdict() for row in study.aggregates()],
        "comparisons": [row._asdict() for row in study.comparisons()],
    }


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


def frontier_record(name: str, curve: Frontier) -> Record:
    """The vertices of a curve, each with the price to its right; and where the model's own limit lies on it."""
    limit = math.inf if curve.mdp.limits is None else float(curve.mdp.limits[curve.cost])
    own: Record | None = None
    if math.isfinite(limit):
        own = {"limit": limit, "feasible": bool(limit >= curve.limits[0])}
        if own["feasible"]:
            own |= {"reward": curve.reward(limit), "price": curve.price(limit)}
    vertices = zip(curve.limits, curve.rewards, np.append(curve.prices, 0.0), strict=True)
    return {
        "model": name,
        "cost": curve.mdp.cost_names[curve.cost],
        "complete": curve.complete,
        "error": curve.error,
        "own_limit": own,
        "vertices": [_row(("limit", "reward", "price"), vertex) for vertex in vertices],
    }


def env_record(entry: BuiltIn, plan: Plan) -> Record:
    """A built-in model, and the best within its limits."""
    mdp = plan.mdp
    limits = resolve_limits(mdp.limits, mdp.cost_names, "limits")
    return {
        "name": entry.name,
        "description": entry.description,
        **_sizes(mdp),
        "reward": plan.reward,
        "costs": {
            cost: _row(("value", "limit"), numbers)
            for cost, *numbers in zip(mdp.cost_names, plan.costs, limits, strict=True)
        },
        "parameters": _parameters(entry),
    }


def _parameters(entry: Named) -> dict[str, Any]:
    """What `--set` takes, with defaults."""
    return {key: _default(None if p.default is p.empty else p.default) for key, p in entry.parameters.items()}


def _default(value: Any) -> Any:
    """A default as JSON; that of a plug-in may be anything."""
    try:
        json.dumps(_finite(value))
    except (TypeError, ValueError):
        return shown(value)
    return value


def source_record(source: Source | None) -> Record:
    """Where a plug-in comes from."""
    if source is None:
        return {}
    return {"module": source.module, "package": source.package, "version": source.version}


def plugin_env_record(entry: Named, source: Source | None) -> Record:
    """An environment of a plug-in, which is not made: that may take any time."""
    about = {"name": entry.name, "description": entry.description, "parameters": _parameters(entry)}
    return about | source_record(source)


def planner_record(name: str, kind: Any, source: Source | None) -> Record:
    """A planner of a plug-in."""
    return {"name": name, "summary": (inspect.getdoc(kind) or "").partition("\n")[0]} | source_record(source)


def algorithm_record(kind: Any, parameters: Mapping[str, Any]) -> Record:
    """A learner's class, and what `--option` can set."""
    return {
        "name": kind.name,
        "summary": kind.summary,
        "paper": kind.paper,
        "problems": [problem.__name__ for problem in kind.problems],
        "parameters": {name: _default(value) for name, value in parameters.items()},
    }

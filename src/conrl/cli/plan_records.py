"""What plans, plans of fleets and frontiers come to, as plain values: for `--json`, and for `conrl.cli.plan_tables`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from conrl._types import Float
from conrl.cli.json_records import Record, named_numbers, size_record, value_record
from conrl.errors import InfeasibleError
from conrl.model import ConstrainedMDP
from conrl.model.fleet_simulation import FleetSimulation
from conrl.model.limits import read_step_limits, resolve_limits
from conrl.model.tails import CHANCE, CVAR, Tail
from conrl.planners import FleetPlan, Frontier, Plan, Sensitivity
from conrl.problem import Knapsack, Linear
from conrl.simulation import SHOWN_QUANTILES, Simulation
from conrl.theory.risk import BudgetRisk


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


def plan_record(
    name: str,
    plan: Plan,
    simulation: Simulation | None,
    risk: BudgetRisk | None = None,
    sensitivity: Sensitivity | None = None,
) -> Record:
    """A plan with its certificate; where they were asked for, how often budgets are exceeded, a simulation, and what
    moving limits would change."""
    mdp, linear = plan.mdp, plan.linear or Linear()
    limits = resolve_limits(linear.limits, mdp.cost_names, "limits")
    floors = resolve_limits(linear.floors, mdp.cost_names, "floors")
    record = {
        "model": name,
        **size_record(mdp),
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
            {"weight": float(weight), **value_record(mdp.cost_names, value)}
            for weight, value in zip(plan.weights, plan.values, strict=True)
        ],
    }
    if plan.estimated is not None:
        record["estimated"] = plan.estimated._asdict()
    if plan.confidence is not None:
        sure = plan.confidence
        shift = value_record(mdp.cost_names, sure.shift)
        record["confidence"] = sure._asdict() | {"shift": shift, "reward": plan.reward + shift["reward"]}
    if linear.per_step is not None:
        record["per_step"] = _steps_record(mdp, linear, plan)
    tails = linear.tails(mdp)
    if tails:
        record["single_episodes"] = record["rows"][-len(tails) :]
    if plan.deterministic:
        record["deterministic"] = True
    if sensitivity is not None:
        record["sensitivity"] = [row._asdict() for row in sensitivity.rows]
    if risk is not None:
        record["budgets"] = _budgets_record(plan, risk)
    if simulation is not None:
        record["simulation"] = _simulation_record(mdp, simulation)
        if tails:
            record["simulation"]["single_episodes"] = [_tail_record(tail, mdp.cost_names, simulation) for tail in tails]
    return record


def fleet_record(
    name: str,
    models: Sequence[str],
    plan: FleetPlan,
    simulation: FleetSimulation | None = None,
    sensitivity: Sensitivity | None = None,
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
                {"step": h, **named_numbers(("value", "limit", "price"), numbers)}
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
    if sensitivity is not None:
        record["sensitivity"] = [row._asdict() for row in sensitivity.rows]
    if simulation is not None:
        error = simulation.standard_error
        record["simulation"] = {
            "runs": simulation.rewards.size,
            "guard": simulation.guard,
            "mean": value_record(names, (simulation.mean.reward, *simulation.mean.costs)),
            "standard_error": value_record(names, (error.reward, *error.costs)),
            "largest": dict(zip(names, simulation.costs.max(axis=0).tolist(), strict=True)),
            "exceed": named_numbers(names, simulation.exceed()),
            "fall_short": named_numbers(names, simulation.fall_short()),
            "exceed_steps": simulation.exceed_steps(),
            "share_of_bound": simulation.share,
            "refused": float(simulation.refused.mean()),
        }
    return record


def _steps_record(mdp: ConstrainedMDP, linear: Linear, plan: Plan) -> Record:
    """By cost, the steps that have a limit of their own; each is one more cost of the model that was planned."""
    found: Record = {}
    by_cost = {} if plan.checked is None else dict(zip(plan.checked.rows.cost.tolist(), plan.rows, strict=True))
    for k, (cost, step, bound) in enumerate(read_step_limits(linear.per_step, mdp.cost_names, mdp.horizon)):
        row = by_cost.get(mdp.num_costs + k)
        if row is not None:
            numbers = named_numbers(("value", "limit", "price"), (row.value, bound, row.price))
            found.setdefault(mdp.cost_names[cost], []).append({"step": step, **numbers})
    return found


def _type_record(model: str, plan: FleetPlan, t: int) -> Record:
    parts = plan.parts(t)
    return {
        "model": model,
        "units": sum(part.units for part in parts),
        **value_record(plan.fleet.cost_names, (plan.rewards[t], *plan.shares[t])),
        "policies": [{"units": part.units, **value_record(plan.fleet.cost_names, part.value)} for part in parts],
    }


def _costs_record(plan: Plan | FleetPlan, names: Sequence[str], limits: Float, floors: Float) -> Record:
    """By cost: what is expected of it, its limit and its floor, and their prices."""
    columns = zip(names, plan.costs, limits, floors, plan.prices, plan.floor_prices, strict=True)
    keys = ("value", "limit", "floor", "price", "floor_price")
    return {cost: named_numbers(keys, numbers) for cost, *numbers in columns}


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
        "mean": value_record(names, simulation.mean.value),
        "standard_error": value_record(names, simulation.standard_error.value),
        "quantiles": {f"{q:g}": value_record(names, simulation.quantile(q).value) for q in SHOWN_QUANTILES},
        "exceed": named_numbers(names, simulation.exceed()),
        "fall_short": named_numbers(names, simulation.fall_short()),
        "pays_means": list(simulation.pays_means),
    }


def _tail_record(tail: Tail, names: Sequence[str], simulation: Simulation) -> Record:
    """What a limit on single episodes asks, and what the episodes that were played have: the share that exceeds the
    threshold, the mean of the worst, or the largest total."""
    costs = np.sort(simulation.costs[:, tail.cost])
    if tail.kind == CHANCE:
        found = float((costs > float(tail.threshold)).mean())
    elif tail.kind == CVAR:
        at = costs[min(int(tail.share * costs.size), costs.size - 1)]
        found = float(at + np.maximum(costs - at, 0.0).mean() / (1.0 - tail.share))
    else:
        found = float(costs[-1])
    return {"kind": tail.kind, "name": tail.quantity(names), "asked": tail.bound, "simulated": found}


def frontier_record(name: str, mdp: ConstrainedMDP, curve: Frontier) -> Record:
    """The vertices of a curve, each with the price to its right; and where the model's own limit lies on it."""
    limit = math.inf if curve.mdp.limits is None else float(curve.mdp.limits[curve.cost])
    own: Record | None = None
    if math.isfinite(limit):
        own = {"limit": limit, "feasible": curve.feasible(limit)}
        if own["feasible"]:
            own |= {"reward": curve.reward(limit), "price": curve.price(limit)}
    vertices = zip(curve.limits, curve.rewards, np.append(curve.prices, 0.0), strict=True)
    return {
        "model": name,
        "start": mdp.start_name,
        "cost": curve.mdp.cost_names[curve.cost],
        "complete": curve.complete,
        "error": curve.error,
        "own_limit": own,
        "vertices": [named_numbers(("limit", "reward", "price"), vertex) for vertex in vertices],
    }

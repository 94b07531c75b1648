"""Records: what a command found, as plain values. `--json` prints them, and tables are made of them for people.

Those of plans, logs, runs and studies are in modules of their own; here is what they share, and the records of `check`,
`envs` and `algorithms`.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl.envs import BuiltIn
from conrl.envs.registry import Named
from conrl.errors import shown
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.limits import resolve_limits
from conrl.planners import Plan
from conrl.plugins import Source

if TYPE_CHECKING:
    from conrl.cli.file_checks import FileCheck

Record = dict[str, Any]  # plain values, numbers as they were computed; `to_json` makes JSON of them


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
    return {
        **size_record(mdp),
        "horizon": mdp.horizon if has_horizon and not isinstance(mdp.horizon, Criterion) else None,
        "step_dependent": mdp.step_dependent,
        "pairs": mdp.num_pairs,
        "outcomes": int(mdp.graph.probability.size),
        "costs": mdp.cost_names,
        "limits": None if mdp.limits is None else dict(zip(mdp.cost_names, mdp.limits.tolist(), strict=True)),
    }


def size_record(mdp: ConstrainedMDP) -> Record:
    """States, actions, the first state and the horizon or, where there is none, the criterion."""
    sizes = {"states": mdp.num_states, "actions": mdp.num_actions, "start": mdp.start_name}
    if isinstance(mdp.horizon, Criterion):
        return {**sizes, "horizon": None, "criterion": str(mdp.horizon)}
    return {**sizes, "horizon": mdp.horizon}


def named_numbers(keys: Sequence[str], numbers: Iterable[float]) -> dict[str, float]:
    """Numbers by their names."""
    return dict(zip(keys, map(float, numbers), strict=True))


def value_record(cost_names: Sequence[str], value: Iterable[float]) -> Record:
    """A value vector [1+d]."""
    reward, *costs = map(float, value)
    return {"reward": reward, "costs": dict(zip(cost_names, costs, strict=True))}


def env_record(entry: BuiltIn, plan: Plan) -> Record:
    """A built-in model, and the best within its limits."""
    mdp = plan.mdp
    limits = resolve_limits(mdp.limits, mdp.cost_names, "limits")
    return {
        "name": entry.name,
        "description": entry.description,
        **size_record(mdp),
        "reward": plan.reward,
        "costs": {
            cost: named_numbers(("value", "limit"), numbers)
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

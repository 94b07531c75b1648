"""What plain values stand for: an algorithm and its parts, such as planners, bonuses and safe policies.

The command line and the specs of studies hold texts, numbers and tables of them; here they become objects, or a
`SpecError` that names the culprit. (`conrl.experiments.worlds` does the same for what is learned.)
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from conrl import learners, planners
from conrl.arguments import is_number
from conrl.errors import ConRLError, InfeasibleError, SpecError, shown, under, unknown
from conrl.estimation.adaptive import AdaptiveBonus
from conrl.estimation.bonuses import BernsteinBonus, ScaledBonus, TheoryBonus
from conrl.learners.adapted import Kind
from conrl.mixture import Mixture
from conrl.model import ConstrainedMDP, Task
from conrl.oracles import A2C, A2CSettings
from conrl.planners import ColumnGeneration, Lagrangian, make_planner
from conrl.policy import Policy
from conrl.policy_loading import load_policy
from conrl.problem import Linear

Table = Mapping[str, Any]
PROVEN = {"theory": TheoryBonus, "bernstein": BernsteinBonus}  # bonuses by a word, with a probability
NAMED: dict[str, Any] = {**PROVEN, "adaptive": AdaptiveBonus, "scaled": ScaledBonus}
SAFE, SHARE = "safe", "safe_share"  # options of the algorithms that start from a safe policy
ABOVE = 1e-6  # of a limit: what the safe policy of a study is said to cost more than it does


def algorithm(name: str) -> Any:
    """The learner of that name."""
    return learners.PLUGINS.find(name, key=("algorithm",))


def signature(kind: Any) -> dict[str, Any]:
    """The parameters of a learner's own."""
    shared = ("self", "task", "problem", "preset", "seed")
    given = kind.parameters if isinstance(kind, Kind) else inspect.signature(kind.__init__).parameters
    return {name: p for name, p in given.items() if name not in shared and p.kind is not p.VAR_KEYWORD}


def defaults(kind: Any) -> dict[str, Any]:
    """What --option takes: of ours the parameters that are numbers, of a plug-in all of them; and their defaults."""
    if isinstance(kind, Kind):
        return {name: None if p.default is p.empty else p.default for name, p in signature(kind).items()}
    numbers = {name: p.default for name, p in signature(kind).items() if re.search("float|int|bool", str(p.annotation))}
    return {name: value for name, value in numbers.items() if name not in ("resolve", "keep_policies")}


def check_options(kind: Any, given: dict[str, Any]) -> None:
    """Refuse what is no parameter of an algorithm."""
    if isinstance(kind, Kind) and kind.takes_all:
        return
    starts = SAFE in signature(kind) and not isinstance(kind, Kind)
    known = [*signature(kind), *([SHARE] if starts else [])]
    for name in given:
        if name not in known:
            raise SpecError(unknown(f"parameter of {kind.name}", name, known), key=("options", name))


def chosen(kind: Any, options: Table, truth: ConstrainedMDP | None) -> dict[str, Any]:
    """The options of an algorithm as it takes them; a learner of two methods gets them as they are written."""
    if isinstance(kind, Kind):
        return dict(options)
    return {name: part(name, value, truth) for name, value in options.items()}


def part(name: str, value: Any, truth: ConstrainedMDP | None = None) -> Any:
    """A parameter of an algorithm from plain values: planners, bonuses and A2C are tables of theirs.

    `truth`: the model, where it is known, which names the states and actions of a policy.
    """
    safe = partial(safe_policy, mdp=truth)
    makers: dict[str, Callable[[Any], Any]]
    makers = {"planner": planner, "bonus": bonus, "a2c": a2c, SAFE: safe, SHARE: safe_share}
    with under("options", name):
        return makers[name](value) if name in makers else value


def safe_policy(value: Any, mdp: ConstrainedMDP | None = None) -> Policy:
    """The policy in a file, which a learner is to start from; by the names of a model where that is known."""
    if not isinstance(value, str):
        raise SpecError(f"safe is {shown(value)}; it must be the name of a file that policy.save wrote (.npz)")
    policy: Policy | Mixture = load_policy(value, mdp)
    if isinstance(policy, Mixture):
        raise SpecError(f"{value} holds {len(policy.policies)} policies to draw from; save one, plan.policy")
    return policy


def safe_share(value: Any) -> float:
    if not is_number(value) or not 0.0 <= value <= 1.0:
        raise SpecError(f"safe_share is {shown(value)}; it is a share of the limits, from 0 to 1")
    return float(value)


def safe_start(kind: Any, chosen: dict[str, Any], task: Task, truth: ConstrainedMDP | None) -> dict[str, Any]:
    """What an algorithm that needs a safe policy is given as one: `safe` and `safe_costs`, or the plan of the true
    model at `safe_share` of the limits. The latter is for studies: who has the model need not learn."""
    if SAFE not in signature(kind) or isinstance(kind, Kind):
        return chosen
    if SHARE not in chosen:
        if SAFE not in chosen:
            raise SpecError(
                f"{kind.name} starts from a policy known to be safe; give options safe (a saved policy, .npz) and "
                "safe_costs, or safe_share such as 0.2: the plan at that share of the limits, where the model is known",
                key=("options",),
            )
        if "safe_costs" not in chosen:
            raise SpecError("safe_costs are missing: what the policy in safe costs at most", key=("options",))
        return chosen
    with under("options", SHARE):
        for name in (SAFE, "safe_costs"):
            if name in chosen:
                raise SpecError(f"safe_share and {name} were both given; give one of them")
        if truth is None:
            raise SpecError(
                "safe_share plans in the true model, and this environment publishes none; give safe instead"
            )
        chosen = dict(chosen)
        share, limits = chosen.pop(SHARE), np.asarray(task.limits)
        lower = np.where(limits > 0.0, share * limits, limits)
        try:
            plan = ColumnGeneration().plan(truth, Linear(lower))
        except InfeasibleError as error:
            raise SpecError(f"there is no policy at {share:g} of the limits: {error}; raise safe_share") from None
    costs = np.minimum(np.maximum(plan.costs + ABOVE * np.abs(lower), lower), limits)
    known: dict[str, Any] = {SAFE: plan.policy, "safe_costs": [None if np.isinf(x) else float(x) for x in costs]}
    return known | ({"safe_reward": plan.reward} if "safe_reward" in signature(kind) else {}) | chosen


def planner(value: str | Table) -> Any:
    """A name, or a table {name = "lagrangian", step = 0.2, ...}; an `oracle` may be a table of `A2C`'s."""
    if isinstance(value, str):
        return value
    fields = dict(_table("planner", value))
    name = fields.pop("name", None)
    if not isinstance(name, str):
        raise SpecError(f"planner needs a name: {', '.join(planners.PLUGINS.names())}", key=("name",))
    kind = planners.PLUGINS.find(name, key=("name",))
    if kind is Lagrangian and isinstance(fields.get("oracle"), Mapping):
        oracle = dict(fields["oracle"])
        with under("oracle"):
            if isinstance(oracle.get("settings"), Mapping):
                with under("settings"):
                    oracle["settings"] = a2c(oracle["settings"])
            fields["oracle"] = _made("oracle", A2C, oracle)
    return _made("planner", kind, fields) if dataclasses.is_dataclass(kind) else make_planner(name, **fields)


def bonus(value: str | list[float] | Table) -> Any:
    """`"adaptive"`; `"0.02,-0.01"` or [0.02, -0.01]: scales of reward and cost; `"theory"`, `"theory:0.05"`,
    `"bernstein"`, `"bernstein:0.05"`; or a table: {name = "adaptive", deviations = 1.0}, {name = "bernstein", delta =
    0.05}, {delta = 0.05} (theory), {reward = 0.02, ...} (scaled)."""
    if isinstance(value, Mapping):
        fields = dict(value)
        if "name" not in fields:
            return _made("bonus", TheoryBonus if fields.keys() <= {"delta"} else ScaledBonus, fields)
        named = fields.pop("name")
        if not isinstance(named, str) or named not in NAMED:
            raise SpecError(unknown("bonus", named, NAMED), key=("name",))
        return _made("bonus", NAMED[named], fields)
    text = value if isinstance(value, str) else ",".join(map(str, value)) if isinstance(value, list) else repr(value)
    if text == "adaptive":
        return AdaptiveBonus()
    name, _, delta = text.partition(":")
    try:
        numbers = [float(x) for x in (delta or "nan" if name in PROVEN else text).split(",")]
    except ValueError:
        numbers = []
    if name in PROVEN and len(numbers) == 1:
        return PROVEN[name](numbers[0]) if delta else PROVEN[name]()
    if len(numbers) < 2:
        raise SpecError(
            f"bonus {text!r}: write adaptive, REWARD,COST such as 0.02,-0.01, theory, theory:0.05, bernstein or "
            "bernstein:0.05"
        )
    return ScaledBonus(numbers[0], numbers[1] if len(numbers) == 2 else numbers[1:])


def a2c(value: Table) -> A2CSettings:
    """The numbers of A2C from a table."""
    made: A2CSettings = _made("a2c", A2CSettings, _table("a2c", value))
    return made


def _table(name: str, value: Any) -> Table:
    if not isinstance(value, Mapping):
        raise SpecError(f"{name} is {shown(value)}; it must be a table of its fields")
    return value


def _made(what: str, kind: Any, fields: Table) -> Any:
    known = [f.name for f in dataclasses.fields(kind) if f.init]
    for name in fields:
        if name not in known:
            raise SpecError(unknown(f"field of {what}", name, known), key=(name,))
    try:
        return kind(**fields)
    except ConRLError:
        raise
    except (AttributeError, OverflowError, TypeError, ValueError) as error:
        raise SpecError(f"{what}: {error}") from None

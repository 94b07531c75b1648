"""Where the runs of a study were played: the model, made again from files, and what can be compared with it.

Several algorithms may ask different things of one environment: limits of its own, budgets, limits on single episodes.
One of these problems stands for the environment; an algorithm with another one is held against what its own allows.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conrl._types import Float
from conrl.envs import naming
from conrl.errors import ConRLError, InfeasibleError, ModelWarning, RunError, SpecError
from conrl.experiments.records import RunRecord
from conrl.experiments.store import VERSION, model_digest
from conrl.foreign import MODULE, load_function
from conrl.model import ConstrainedMDP, transform
from conrl.model.limits import resolve_limits
from conrl.planners import Plan
from conrl.problem import Linear
from conrl.running.optima import best_average, best_plan
from conrl.wording import line, totals


@dataclass(frozen=True, eq=False)
class Environment:
    """Where runs were played; `mdp` and `optimum` are None where they cannot be known.

    `limits` and `floors` are the environment's own, and `optimum` is the best policy within them. An algorithm with
    budgets, or with limits on single episodes, has a problem of its own: its numbers are in its own rows. Where no
    algorithm has the environment's problem, it is the one that they all have; if they have several, there are no limits
    and no optimum here.
    """

    name: str
    title: str
    mdp: ConstrainedMDP | None
    cost_names: tuple[str, ...]
    limits: Float  # [d]; inf for none
    floors: Float  # [d]; -inf for none
    optimum: Plan | None
    unknown: str = ""  # why nothing is compared with a model that there was, or nothing with one optimum

    def __repr__(self) -> str:
        bounded = [i for i in range(len(self.cost_names)) if np.isfinite(self.floors[i])]
        floors = totals([self.cost_names[i] for i in bounded], self.floors[bounded])
        limits = f"limits {totals(self.cost_names, self.limits)}" if self.cost_names else ""
        best = "" if self.optimum is None else f"optimum {self.optimum.reward:.6g}"
        return line(self, self.name, limits, f"floors {floors}" if floors else "", best)


def _reference(runs: Sequence[RunRecord]) -> RunRecord | None:
    """Of the runs in an environment one whose problem stands for it: one that has the environment's own or, if none
    has, any if all have the same; None if they have several."""
    own = next((run for run in runs if _has_own_problem(run)), None)
    return runs[0] if own is None and len({_question(run, continuing=False) for run in runs}) == 1 else own


def _has_own_problem(run: RunRecord) -> bool:
    """Whether a run has no other problem than its environment: the limits and floors there, on expected totals."""
    if not isinstance(run.problem, Linear) or run.problem.on_episodes:
        return False
    given = run.config.get("learner", {}).get("task", {}).get("limits")
    try:
        return given is None or np.array_equal(resolve_limits(given, run.cost_names, "limits"), run.limits)
    except ConRLError:
        return False


def _question(run: RunRecord, continuing: bool) -> tuple[Any, ...]:
    """Tells apart what runs in one environment ask of its model: under budgets, episodes may also be skipped."""
    more = ("per_step", "never", "chance", "cvar", "grid")
    finer = repr([getattr(run.problem, name, None) for name in more])
    return continuing, type(run.problem), run.limits.tobytes(), run.floors.tobytes(), finer


def _plugin(run: RunRecord) -> str:
    """What to import for the model of a run, if that is of a plug-in which is not loaded; its files import nothing."""
    plugins = run.config.get("plugins")
    about = plugins.get("environment") or plugins.get("cost") if isinstance(plugins, dict) else None
    module = about.get("module") if isinstance(about, dict) else None
    if not isinstance(module, str) or not MODULE.fullmatch(module) or module in sys.modules:
        return ""
    return f"it is of the plug-in {module}, and a file loads none; say --import {module} (in Python import it first)"


def _was_played(mdp: ConstrainedMDP, run: RunRecord) -> bool:
    """Whether a run was played in this model, as far as its settings tell."""
    if "model" not in run.config or run.config.get("version") != VERSION:  # other versions had other digests
        return True
    world = transform.reachable_part(transform.single_episode(mdp)) if run.continuing else mdp
    return bool(model_digest(world) == run.config["model"])


def _best_reward(mdp: ConstrainedMDP, run: RunRecord, margin: float = 0.0) -> float | None:
    """The most that a run could earn in an episode, within its limits or budgets; None if no policy keeps them."""
    assert run.problem is not None
    try:
        if run.continuing:
            endless = transform.reachable_part(transform.single_episode(mdp))
            return best_average(endless, run.problem, margin).reward
        return best_plan(mdp, run.problem, margin).reward
    except (InfeasibleError, RunError):
        return None


def environment_of(name: str, about: Mapping[str, Any], runs: Sequence[RunRecord]) -> Environment:
    """Where these runs were played, with the problem that stands for it; `about`: what the study's file says of it."""
    chosen = _reference(runs)
    asked = next((run for run in runs if run.problem is not None), None) if chosen is None else chosen
    names, d = runs[0].cost_names, len(runs[0].cost_names)
    limits, floors = np.full(d, np.inf), np.full(d, -np.inf)
    mdp = best = None
    unknown = ""
    if chosen is None:
        unknown = "there is no one limit or optimum: each algorithm has a problem of its own"
    else:
        limits, floors = chosen.limits, chosen.floors
    if asked is not None and asked.problem is not None:
        try:
            model = _model(asked, about, runs).replace(limits=dict(zip(names, limits.tolist(), strict=True)))
            best = best_plan(model, asked.problem) if chosen is not None else None
            mdp = model
        except (ConRLError, KeyError, TypeError, ValueError) as error:
            if "model" in asked.config:
                why = _plugin(asked) or " ".join(str(error).split())
                unknown = f"nothing is compared with the model: {why}"
    return Environment(name, str(about.get("title", name)), mdp, names, limits, floors, best, unknown)


def _model(run: RunRecord, about: Mapping[str, Any], runs: Sequence[RunRecord]) -> ConstrainedMDP:
    """What a run was played in: the model is made again from the study's file, or else from the run's. One that is not
    what every run there was played in is refused."""
    settings = dict(about.get("settings", run.config.get("settings") or {}))
    horizon = about.get("horizon") or run.config["learner"]["task"]["horizon"]
    name = str(about.get("env", run.config.get("env", run.environment)))
    if (cost := about.get("cost", run.config.get("cost"))) is not None:
        settings |= {"cost": load_function(cost, "cost", allowed=False), "cost_names": run.cost_names}
    start, within = (about.get(key, run.config.get(key)) for key in ("start", "normalize"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # said when it was played
        given: dict[str, Any] = {"installed": False, "normalize": within}
        try:
            model = naming.model(name, None, start, settings | {"horizon": horizon}, {}, **given)
        except SpecError as error:
            if error.key != ("settings", "horizon"):
                raise
            model = naming.model(name, None, start, settings, {}, **given)  # a plug-in's, with a horizon of its own
    if not all(_was_played(model, other) for other in runs):
        raise RunError("it is another one than was played")
    return model


def best_rewards(env: Environment, runs: Sequence[RunRecord], margin: float) -> dict[str, float]:
    """By algorithm, the most that it could earn in an episode there, its bounds kept with a margin, where it is known.

    One algorithm's budgets do not limit the others: each is compared with what its own problem allows. A question asked
    twice of a model is planned once.
    """
    if env.mdp is None:
        return {}
    optima: dict[str, float] = {}
    planned: dict[tuple[Any, ...], float | None] = {}
    chosen = _reference(runs)
    if not margin and env.optimum is not None and chosen is not None:
        planned[_question(chosen, continuing=False)] = env.optimum.reward
    for run in runs:
        if run.problem is None:
            continue
        asked = _question(run, run.continuing)
        if asked not in planned:
            planned[asked] = _best_reward(env.mdp, run, margin)
        reward = planned[asked]
        if reward is not None:
            optima.setdefault(run.algorithm, reward)
    return optima


def apart(runs: Sequence[RunRecord]) -> set[str]:
    """The algorithms that have another problem than the one that stands for the environment."""
    chosen = _reference(runs)
    own = None if chosen is None else _question(chosen, continuing=False)
    return {run.algorithm for run in runs if _question(run, continuing=False) != own}

"""The worlds of runs: made from plain values, each model once.

A world is a model, which is sampled, or a Gymnasium environment that publishes none.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from conrl.arguments import float_array
from conrl.envs import naming
from conrl.envs.registry import PLUGINS, PREFIX, REGISTRY, open_gymnasium, open_plugin, split_parameters
from conrl.errors import ConRLError, SpecError, under, unknown
from conrl.experiments.parts import algorithm
from conrl.foreign import load_function
from conrl.io import is_model_file, model_path
from conrl.model import ConstrainedMDP, Task, transform
from conrl.model.environment import declared
from conrl.model.reading import default_cost_names
from conrl.running.worlds import with_coins

if TYPE_CHECKING:
    import gymnasium

    from conrl.experiments.jobs import Job


NO_COST = "cost is for Gymnasium environments; a model has costs of its own"


class WorldFields(NamedTuple):
    """What a world is made from, in plain values: the fields of `Job` of the same names."""

    env: str
    horizon: int | None
    start: str | None
    normalize: float | None
    settings: dict[str, Any]
    limits: dict[str, float]
    reward_range: tuple[float, float] | None
    cost_ranges: dict[str, tuple[float, float]]
    cost: str | None
    allow_import: bool


def made_world(asked: WorldFields) -> tuple[ConstrainedMDP | gymnasium.Env[Any, Any], Task]:
    """What is to be learned: a model to sample or, of a Gymnasium environment that publishes none, the environment."""
    met = mdp = None
    if naming.is_gymnasium(asked.env) and asked.normalize is None:
        try:
            met = _opened(asked)
        except ConRLError as error:
            error.key = error.key or ("env",)
            raise
    elif asked.env not in REGISTRY and PLUGINS.knows(asked.env) and asked.normalize is None:
        with naming.about(asked.env, asked.settings):
            made, left = open_plugin(asked.env, naming.with_horizon(asked.settings, asked.horizon))
            if isinstance(made, ConstrainedMDP):
                mdp = naming.with_limits(naming.with_start(made, asked.start), asked.limits)
        if not isinstance(made, ConstrainedMDP):
            met = _environment(made, left, asked)
    if met is not None:
        return met
    if mdp is None:
        mdp = _model(asked)
    elif asked.cost is not None:
        raise SpecError(NO_COST, key=("cost",))
    mdp = mdp.replace(reward_range=asked.reward_range, cost_ranges=asked.cost_ranges or None)
    return mdp, mdp.task


def _model(asked: WorldFields) -> ConstrainedMDP:
    """A model by name; one of Gymnasium with the costs that a function gives it."""
    settings = asked.settings
    if asked.cost is not None:
        if asked.env in REGISTRY or is_model_file(asked.env):
            raise SpecError(NO_COST, key=("cost",))
        names = _cost_names(asked)
        settings = {**settings, "cost": cost_function(asked.cost, asked.allow_import)}
        settings |= {"cost_names": names} if names else {}
    wanted = (asked.env, asked.horizon, asked.start, settings, asked.limits, asked.allow_import)
    return naming.model(*wanted, normalize=asked.normalize)


def _cost_names(asked: WorldFields) -> tuple[str, ...]:
    """The names of costs that come without any, in their order: that of the table, limits or ranges, with all of them.

    Refused where the two tables do not agree on that order.
    """
    longer, shorter = sorted((tuple(asked.limits), tuple(asked.cost_ranges)), key=len, reverse=True)
    if tuple(name for name in longer if name in shorter) != shorter:
        orders = f"limits ({', '.join(asked.limits)}) and cost_ranges ({', '.join(asked.cost_ranges)})"
        raise SpecError(
            f"{orders} do not agree on the order of the costs; name all in one table, in the order in which they come",
            key=("cost_ranges",),
        )
    return longer


def cost_function(name: str, allowed: bool) -> Callable[..., Any]:
    """The function of a step that `cost` names: `module:function`."""
    with under("cost"):
        return load_function(name, "cost", allowed)


def _opened(asked: WorldFields) -> tuple[gymnasium.Env[Any, Any], Task] | None:
    """An environment that Gymnasium registered, as `_environment`."""
    ours, theirs = split_parameters(naming.with_horizon(asked.settings, asked.horizon))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = open_gymnasium(asked.env.removeprefix(PREFIX), theirs, asked.allow_import)
    return _environment(made, ours, asked)


def _environment(
    made: gymnasium.Env[Any, Any], ours: dict[str, Any], asked: WorldFields
) -> tuple[gymnasium.Env[Any, Any], Task] | None:
    """A Gymnasium environment that publishes no model, and its task; None if it does publish one.

    `ours`: the parameters that are not the environment's own."""
    limits, cost_ranges = asked.limits, asked.cost_ranges
    own = declared(made)
    if own.dynamics is not None or own.mdp is not None:
        made.close()
        return None
    for key in ours.keys() - {"horizon"}:
        raise SpecError("an environment without a published model takes no such parameter", key=("settings", key))
    if asked.start is not None:
        raise SpecError("the environment itself says where an episode starts", key=("start",))
    own_limits = (
        () if own.cost_limits is None else tuple(float_array(own.cost_limits, "cost_limits").reshape(-1).tolist())
    )
    names = own.cost_names or (default_cost_names(len(own_limits)) if own_limits else _cost_names(asked))
    if own_limits and len(own_limits) != len(names):
        raise SpecError(f"the environment has {len(own_limits)} cost_limits for {len(names)} cost_names")
    if asked.cost is not None and not names:
        raise SpecError("what cost gives has no name; set limits, such as { fall = 0.3 }, or inf", key=("cost",))
    for field, given in (("limits", limits), ("cost_ranges", cost_ranges)):
        for cost in given:
            if cost not in names:
                raise SpecError(unknown("cost", cost, names), key=(field, cost))
    bounds = dict(zip(names, own_limits, strict=bool(own_limits))) | limits
    task = Task.from_gymnasium(
        made,
        horizon=ours.get("horizon"),
        limits=[bounds.get(cost, math.inf) for cost in names],
        cost_names=names,
        reward_range=asked.reward_range,
        cost_ranges=cost_ranges,
    )
    return made, task


class Worlds:
    """The models that runs are played in, each made once; of large ones only the latest are kept.

    Models do not change, so that runs share them. An environment that publishes no model has a state of its own, and
    is made for each run.
    """

    MOST = 10_000_000  # outcomes of all models together, unless one alone has more

    def __init__(self) -> None:
        self._models: dict[str, ConstrainedMDP] = {}

    @staticmethod
    def key(job: Job) -> str:
        """What a job's world depends on, the order of its costs included; of a file, when it was last written too."""
        kind = algorithm(job.algorithm)
        stamp = None
        if is_model_file(job.env):
            with suppress(OSError):
                status = os.stat(model_path(job.env))
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        asked = [*job.world_fields, stamp, kind.continuing, job.pay == "bernoulli"]
        return json.dumps(asked, default=repr)

    def of(self, job: Job) -> tuple[ConstrainedMDP | gymnasium.Env[Any, Any], Task]:
        """What a job's learner meets, and what it may know of it."""
        key = self.key(job)
        if (kept := self._models.get(key)) is not None:
            return kept, kept.task
        world, task = made_world(job.world_fields)
        continuing = algorithm(job.algorithm).continuing
        if not isinstance(world, ConstrainedMDP):
            if continuing:
                why = "learns from one unending episode, for which the model must be known"
                raise SpecError(f"{job.algorithm} {why}", key=("algorithm",))
            return world, task
        world = with_coins(world) if job.pay == "bernoulli" else world
        if continuing:
            with under("algorithm"):
                world = transform.reachable_part(transform.single_episode(world))
        self._models[key] = world
        for oldest in list(self._models)[:-1]:
            if sum(model.graph.probability.size for model in list(self._models.values())) > self.MOST:
                self._models.pop(oldest, None)  # threads may share these
        return world, world.task

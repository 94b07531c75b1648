"""What the name of a model stands for: a built-in environment, `gymnasium:<id>`, or a file."""

from __future__ import annotations

import os
import warnings
from typing import Any

from conrl import envs, io
from conrl.envs import registry
from conrl.errors import ConRLError, SpecError, unknown
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion


def model(
    name: str,
    horizon: int | Criterion | None,
    start: str | None,
    settings: dict[str, Any],
    limits: dict[str, float],
    allow_import: bool = False,
    *,
    normalize: float | None = None,
) -> ConstrainedMDP:
    """The model of that name or file, with the limits asked for in place of its own.

    `allow_import`: the user, and not a file, named the module in `gymnasium:<module>:<id>`. `normalize` is for files.
    """
    criterion = horizon if isinstance(horizon, Criterion) else None
    steps = horizon if criterion is None else None
    if criterion is not None and is_gymnasium(name) and "horizon" not in settings:
        steps = 1  # not all of them have a time limit of their own, and none is asked for
    parameters = with_horizon(settings, steps)
    if criterion is not None and not is_gymnasium(name) and name not in envs.REGISTRY:
        parameters = parameters | {"horizon": criterion}  # of a file, which may have none
    try:
        mdp = _make(name, parameters, allow_import, normalize)
        index = None if start is None else state_of(mdp, start)
        if index is not None:
            # What ends an episode of a Gymnasium environment depends on where it starts.
            again = is_gymnasium(name)
            mdp = _make(name, parameters | {"initial": index}, allow_import) if again else mdp.replace(initial=index)
    except ConRLError as error:
        if error.key and error.key[0] in settings:
            error.key = ("settings", *error.key)
        elif error.key not in (("horizon",), ("start",), ("normalize",)):
            error.key = ("settings",) if settings and name in envs.REGISTRY else ("env",)
        raise
    if criterion is not None:
        mdp = mdp.replace(horizon=criterion)
    if limits:
        own = {} if mdp.limits is None else dict(zip(mdp.cost_names, mdp.limits.tolist(), strict=True))
        mdp = mdp.replace(limits=own | limits)
    return mdp


def with_horizon(settings: dict[str, Any], horizon: Any) -> dict[str, Any]:
    """The parameters of a model, the horizon among them, which may be given once."""
    if horizon is not None and "horizon" in settings:
        raise SpecError("the horizon is given twice, by itself and as a parameter", key=("settings", "horizon"))
    return settings if horizon is None else settings | {"horizon": horizon}


def is_gymnasium(model: str) -> bool:
    return model.startswith(registry.PREFIX)


def _make(model: str, parameters: dict[str, Any], allow_import: bool, normalize: float | None = None) -> ConstrainedMDP:
    if not is_gymnasium(model) and model not in envs.REGISTRY:
        if not io.is_model_file(model) and not os.path.exists(model) and os.sep not in model:
            known = [*envs.REGISTRY, "gymnasium:<id>", f"a file that ends in {io.SUFFIXES}"]
            raise SpecError(unknown("model", model, known))
        foreign = next((name for name in parameters if name != "horizon"), None)
        if foreign is not None:
            raise SpecError("a file has no parameters; built-in environments have", key=(foreign,))
        return io.load_model(model, horizon=parameters.get("horizon"), normalize=normalize)
    if normalize is not None:
        raise SpecError(f"{model} is no file; only sums in files are corrected", key=("normalize",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is raised
        return registry.resolve(model, parameters, allow_import)


def state_of(mdp: ConstrainedMDP, text: str) -> int:
    """A state by name or, if none is called so, by index."""
    names = mdp.state_names
    if text in names:
        return names.index(text)
    if text.isdecimal() and len(text) < 20 and int(text) < mdp.num_states:
        return int(text)
    few = mdp.num_states <= 50
    otherwise = f"no state {text!r}; give a name, or an index in 0..{mdp.num_states - 1}"
    raise SpecError(unknown("state", text, names) if few else otherwise, key=("start",))

"""What the name of a model stands for: a built-in environment, `gymnasium:<id>`, or a file."""

from __future__ import annotations

import os
import warnings
from typing import Any

from conrl import envs, io
from conrl.envs import registry
from conrl.errors import SpecError, unknown
from conrl.model import ConstrainedMDP


def model(
    name: str,
    horizon: int | None,
    start: str | None,
    settings: dict[str, Any],
    limits: dict[str, float],
    allow_import: bool = False,
) -> ConstrainedMDP:
    """The model of that name or file, with the limits asked for in place of its own.

    `allow_import`: the user, and not a file, named the module in `gymnasium:<module>:<id>`.
    """
    if horizon is not None and "horizon" in settings:
        raise SpecError("the horizon is given twice, by --horizon and by --set")
    parameters = settings if horizon is None else settings | {"horizon": horizon}
    mdp = _make(name, parameters, allow_import)
    if start is not None:
        index = _state(mdp, start)
        # What ends an episode of a Gymnasium environment depends on where it starts.
        if is_gymnasium(name):
            mdp = _make(name, parameters | {"initial": index}, allow_import)
        else:
            mdp = mdp.replace(initial=index)
    if limits:
        own = {} if mdp.limits is None else dict(zip(mdp.cost_names, mdp.limits.tolist(), strict=True))
        mdp = mdp.replace(limits=own | limits)
    return mdp


def is_gymnasium(model: str) -> bool:
    return model.startswith("gymnasium:")


def _make(model: str, parameters: dict[str, Any], allow_import: bool) -> ConstrainedMDP:
    if not is_gymnasium(model) and model not in envs.REGISTRY:
        if not io.is_model_file(model) and not os.path.exists(model) and os.sep not in model:
            known = unknown("model", model, [*envs.REGISTRY, "gymnasium:<id>"])
            raise SpecError(known if "did you mean" in known else f"{known}, or a file that ends in .npz or .csv")
        foreign = next((name for name in parameters if name != "horizon"), None)
        if foreign is not None:
            raise SpecError(f"--set {foreign}: a file has no parameters; --set is for built-in environments")
        return io.load_model(model, horizon=parameters.get("horizon"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is raised
        return registry.resolve(model, parameters, allow_import)


def _state(mdp: ConstrainedMDP, text: str) -> int:
    """A state by name or, if none is called so, by index."""
    names = mdp.state_names
    if text in names:
        return names.index(text)
    if text.isdecimal() and len(text) < 20 and int(text) < mdp.num_states:
        return int(text)
    raise SpecError(
        f"--start: {unknown('state', text, names[:1000])}"
        if mdp.num_states <= 50
        else f"--start: no state {text!r}; give a name, or an index in 0..{mdp.num_states - 1}"
    )

"""What the name of a model stands for: an environment, built in or a plug-in's, `gymnasium:<id>`, or a file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from conrl import io
from conrl.envs import registry
from conrl.envs.registry import PLUGINS
from conrl.errors import ConRLError, SpecError, unknown
from conrl.looks import look
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.reading import state_index


def model(
    name: str,
    horizon: int | Criterion | None,
    start: str | None,
    settings: dict[str, Any],
    limits: dict[str, float],
    allow_import: bool = False,
    installed: bool = True,
    *,
    normalize: float | None = None,
) -> ConstrainedMDP:
    """The model of that name or file, with the limits asked for in place of its own.

    `allow_import`: the user, and not a file, named the module in `gymnasium:<module>:<id>`. `installed`: plug-ins of
    installed packages may be loaded. `normalize` is for files.
    """
    criterion = horizon if isinstance(horizon, Criterion) else None
    steps = horizon if criterion is None else None
    if criterion is not None and is_gymnasium(name) and "horizon" not in settings:
        steps = 1  # not all of them have a time limit of their own, and none is asked for
    parameters = with_horizon(settings, steps)
    if criterion is not None and not is_gymnasium(name) and not PLUGINS.knows(name):
        parameters = parameters | {"horizon": criterion}  # of a file, which may have none
    with about(name, settings):
        if normalize is not None and (is_gymnasium(name) or PLUGINS.knows(name)):
            raise SpecError(f"{name} is no file; only sums in files are corrected", key=("normalize",))
        mdp = _make(name, parameters, allow_import, installed, start=start, normalize=normalize)
        index = None if start is None else state_of(mdp, start)
        if index is not None:
            # What ends an episode of a Gymnasium environment depends on where it starts, and a plug-in may be one.
            again = is_gymnasium(name) or PLUGINS.source(name) is not None
            mdp = _make(name, parameters, allow_import, installed, index) if again else mdp.replace(initial=index)
    if criterion is not None:
        mdp = mdp.replace(horizon=criterion)
    return with_limits(mdp, limits)


@contextmanager
def about(name: str, settings: Mapping[str, Any]) -> Iterator[None]:
    """What goes wrong inside is about the name of a model, or one of its parameters."""
    try:
        yield
    except ConRLError as error:
        if error.key and error.key[0] in settings:
            error.key = ("settings", *error.key)
        elif error.key not in (("horizon",), ("start",), ("normalize",)):
            error.key = ("settings",) if settings and PLUGINS.get(name) is not None else ("env",)
        raise


def with_start(mdp: ConstrainedMDP, start: str | None) -> ConstrainedMDP:
    """The model with the state of this name, or index, as the first; as it is where none is named."""
    return mdp if start is None else mdp.replace(initial=state_of(mdp, start))


def with_limits(mdp: ConstrainedMDP, limits: dict[str, float]) -> ConstrainedMDP:
    """The model with these limits in the place of its own."""
    if not limits:
        return mdp
    own = {} if mdp.limits is None else dict(zip(mdp.cost_names, mdp.limits.tolist(), strict=True))
    return mdp.replace(limits=own | limits)


def with_horizon(settings: dict[str, Any], horizon: Any) -> dict[str, Any]:
    """The parameters of a model, the horizon among them, which may be given once."""
    if horizon is not None and "horizon" in settings:
        raise SpecError("the horizon is given twice, by itself and as a parameter", key=("settings", "horizon"))
    return settings if horizon is None else settings | {"horizon": horizon}


def is_gymnasium(model: str) -> bool:
    return model.startswith(registry.PREFIX)


def _make(
    model: str,
    parameters: dict[str, Any],
    allow_import: bool,
    installed: bool,
    initial: int | None = None,
    start: str | None = None,
    normalize: float | None = None,
) -> ConstrainedMDP:
    """The model of that name; `start` is for files that may need it to make sense, and `normalize` for files."""
    if not is_gymnasium(model) and not PLUGINS.knows(model):
        if not io.is_model_file(model) and not os.path.exists(model) and os.sep not in model:
            known = [*PLUGINS.names(), "gymnasium:<id>", f"a file that ends in {io.SUFFIXES}"]
            raise SpecError(unknown("model", model, known))
        storm = model.lower().endswith(".drn")
        foreign = next((name for name in parameters if name != "horizon" and not (storm and name == "reward")), None)
        if foreign is not None:
            none = "a file has no parameters; built-in environments have"
            raise SpecError(unknown("parameter of a .drn file", foreign, ["reward"]) if storm else none, key=(foreign,))
        own: dict[str, Any] = {"reward": parameters.get("reward"), "initial": start} if storm else {}
        return io.load_model(model, horizon=parameters.get("horizon"), normalize=normalize, **own)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is raised
        return registry.resolve(model, parameters, allow_import, installed, initial)


def state_of(mdp: ConstrainedMDP, text: str) -> int:
    """A state by name or, if no name looks like it, by index."""
    names = mdp.state_names
    index = state_index(text, names)
    if index is not None:
        return index
    near = names if len(names) <= 50 else [name for name in names if look(name) == look(text)]
    otherwise = f"no state {text!r}; give a name, or an index in 0..{mdp.num_states - 1}"
    raise SpecError(unknown("state", text, near) if near else otherwise, key=("start",))

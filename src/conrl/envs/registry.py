"""Models by name, as the command line asks for them: built in, registered by a plug-in, or of Gymnasium.

A name may come from a file that somebody else wrote, and `gymnasium:<module>:<id>` names a module to be imported, which
is code that runs. So nothing is imported because of a name unless `allow_import` says that the user asked for it.
"""

from __future__ import annotations

import importlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from conrl.arguments import is_int
from conrl.errors import ConRLError, SpecError, shown, unknown
from conrl.foreign import check_allowed, not_found, theirs
from conrl.model import ConstrainedMDP
from conrl.plugins import Registry
from conrl.registration import FACTORIES, gymnasium_id

if TYPE_CHECKING:
    import gymnasium

F = TypeVar("F")

PREFIX = "gymnasium:"

# What a constructor raises when it is given a value or a keyword that it cannot use.
_BAD_VALUES = (AttributeError, KeyError, IndexError, MemoryError, OverflowError, TypeError, ValueError)


@dataclass(frozen=True)
class Named:
    """An environment by name: `factory(**parameters)` makes its model or, of a plug-in, a Gymnasium environment."""

    name: str
    factory: Callable[..., Any]

    @property
    def description(self) -> str:
        """One line, the first of the factory's docstring."""
        return (inspect.getdoc(self.factory) or "").partition("\n")[0]

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Those of the factory."""
        return inspect.signature(self.factory).parameters

    @property
    def takes_all(self) -> bool:
        """Whether the factory takes parameters of any name."""
        return any(p.kind is p.VAR_KEYWORD for p in self.parameters.values())


@dataclass(frozen=True)
class BuiltIn(Named):
    """A built-in environment, which Gymnasium knows too."""

    factory: Callable[..., ConstrainedMDP]

    @property
    def gymnasium_id(self) -> str:
        return gymnasium_id(self.name)


def load(path: str) -> Any:
    """What `<module>:<name>` stands for."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


REGISTRY: Mapping[str, BuiltIn] = types.MappingProxyType(
    {name: BuiltIn(name, load(path)) for name, path in FACTORIES.items()}
)


def _read(name: str, thing: Any) -> Named:
    """What is kept of an environment that is registered."""
    if not callable(thing):
        raise SpecError(f"environment {name!r} is {shown(thing)}; it must be a function that makes a ConstrainedMDP")
    try:
        inspect.signature(thing)
    except ValueError:
        raise SpecError(f"environment {name!r}: {shown(thing)} does not say what parameters it has") from None
    return Named(name, thing)


PLUGINS: Registry[Named] = Registry("environment", REGISTRY, _read)


@overload
def register(given: str) -> Callable[[F], F]: ...


@overload
def register(given: F) -> F: ...


def register(given: Any) -> Any:
    """Give an environment a name: `@register`, or `@register("pump-station")`, before a function or a class.

    What it makes, from keyword arguments (`--set`, `set` in a spec), is a `ConstrainedMDP` or a Gymnasium environment.
    The name is that of the function, `pump_station` as pump-station, unless another is given.
    """
    return PLUGINS.decorator(given)


def available() -> tuple[BuiltIn, ...]:
    """What is built in."""
    return tuple(REGISTRY.values())


def make(name: str, **parameters: Any) -> ConstrainedMDP:
    """The model of that name: built in, a plug-in's, or `gymnasium:<id>` for one that Gymnasium registered.

    `parameters` are those of the function that makes it. With `gymnasium:<id>` they are `horizon`, `limits`,
    ... of `from_gymnasium`, and all others go to `gymnasium.make`. As there, `gymnasium:<module>:<id>` imports the
    module first: do not pass a name that comes from somebody else's file.
    """
    return resolve(name, parameters, allow_import=True)


def resolve(
    name: str, parameters: Mapping[str, Any], allow_import: bool, installed: bool = True, initial: int | None = None
) -> ConstrainedMDP:
    """Like `make`, but the parameters may come from a file: the permission to import is not one of them.

    `installed`: plug-ins of installed packages may be loaded. `initial`: the first state of what may be an environment
    of Gymnasium, in place of its own.
    """
    if isinstance(name, str) and name.startswith(PREFIX):
        own = {} if initial is None else {"initial": initial}
        return _make_gymnasium(name.removeprefix(PREFIX), {**parameters, **own}, allow_import)
    if isinstance(name, str) and name in REGISTRY:
        return make_built_in(name, parameters)
    if not PLUGINS.knows(name):
        raise SpecError(unknown("environment", name, [*PLUGINS.names(), f"{PREFIX}<id>"]))
    return _make_plugin(name, parameters, installed, initial)


def make_built_in(name: str, parameters: Mapping[str, Any]) -> ConstrainedMDP:
    """The model of a built-in environment."""
    if name not in REGISTRY:
        raise SpecError(unknown("environment", name, REGISTRY))
    entry = REGISTRY[name]
    _check_parameters(entry, parameters)
    return _called(entry.factory, name, parameters)


def _check_parameters(entry: Named, parameters: Mapping[str, Any]) -> None:
    """Refuse what is no parameter of an environment, or of another kind."""
    factory = entry.factory.__init__ if inspect.isclass(entry.factory) else entry.factory
    try:
        hints = typing.get_type_hints(factory)
    except (AttributeError, NameError, TypeError):  # a plug-in may import what its hints need for type checkers only
        hints = {}
    for key, value in parameters.items():
        if key not in entry.parameters and not entry.takes_all:
            raise SpecError(unknown(f"parameter of {entry.name}", key, entry.parameters), key=(key,))
        if key in hints:
            _check_type(entry.name, key, value, hints[key])


def open_plugin(
    name: str, parameters: Mapping[str, Any], installed: bool = True
) -> tuple[ConstrainedMDP | gymnasium.Env[Any, Any], dict[str, Any]]:
    """What a plug-in makes and, if that is an environment, the parameters that are left for `from_gymnasium`."""
    entry = PLUGINS.find(name, installed)
    own = {key: value for key, value in parameters.items() if entry.takes_all or key in entry.parameters}
    left, foreign = split_parameters({key: value for key, value in parameters.items() if key not in own})
    _check_parameters(entry, own | foreign)
    with theirs(f"{name}{_with(own)}", SpecError):
        made = entry.factory(**own)
        fits = isinstance(made, ConstrainedMDP) or all(hasattr(made, each) for each in ("step", "reset", "unwrapped"))
    if isinstance(made, ConstrainedMDP):
        _check_parameters(entry, left)  # a model is complete
    elif not fits:
        raise SpecError(f"{name} made {shown(made)}; it must make a ConstrainedMDP or a Gymnasium environment")
    else:
        with theirs(f"{name} does not say what its spaces are", SpecError):
            _ = made.observation_space, made.action_space
    return made, left


def _make_plugin(name: str, parameters: Mapping[str, Any], installed: bool, initial: int | None) -> ConstrainedMDP:
    made, left = open_plugin(name, parameters, installed)
    if isinstance(made, ConstrainedMDP):
        return made if initial is None else made.replace(initial=initial)
    from conrl.envs.adapters import from_gymnasium

    with theirs(f"{name} failed", SpecError, passing=(ConRLError, MemoryError)), closing(made):
        return _called(partial(from_gymnasium, made), name, left | ({} if initial is None else {"initial": initial}))


def _called(make: Callable[..., ConstrainedMDP], name: str, parameters: Mapping[str, Any]) -> ConstrainedMDP:
    """What a function makes of parameters that may come from a file; what it cannot use is refused in one line."""
    try:
        return make(**parameters)
    except ConRLError:
        raise
    except _BAD_VALUES as error:
        raise _refused(name, parameters, error) from error


def _refused(name: str, parameters: Mapping[str, Any], error: Exception) -> SpecError:
    return SpecError(f"{name}{_with(parameters)}: {' '.join(str(error).split()) or type(error).__name__}")


def _with(parameters: Mapping[str, Any]) -> str:
    given = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    return f" with {given}" if given else ""


def _check_type(name: str, key: str, value: object, hint: Any) -> None:
    """Refuse a value that is not of the parameter's kind. What is more than a number is left to the factory."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if not set(kinds) <= {int, float, str, types.NoneType, np.random.Generator}:
        return
    fits = {
        int: is_int(value),
        float: is_int(value) or isinstance(value, (float, np.floating)),
        str: isinstance(value, str),
        types.NoneType: value is None,
        np.random.Generator: isinstance(value, np.random.Generator),
    }
    if not any(fits[kind] for kind in kinds):
        words = {int: "a whole number", float: "a number", str: "a text", types.NoneType: "None"}
        wanted = " or ".join(words[kind] for kind in kinds if kind in words)
        raise SpecError(f"parameter {key!r} of {name} is {shown(value)}; it must be {wanted}", key=(key,))


def open_gymnasium(env_id: str, parameters: Mapping[str, Any], allow_import: bool) -> gymnasium.Env[Any, Any]:
    """The environment that Gymnasium registered under an id, or that a module registers: `<module>:<id>`.

    A module that is loaded already may be named, as nothing is imported then.
    """
    import gymnasium

    module, colon, _ = env_id.partition(":")
    if colon:
        check_allowed(module, allow_import, PREFIX + env_id)
    try:
        return gymnasium.make(env_id, **parameters)
    except ModuleNotFoundError as error:
        raise SpecError(f"{PREFIX}{env_id}: {not_found(error.name or module)}") from error
    except Exception as error:  # constructors that are not ours raise anything on bad parameters
        raise _refused(PREFIX + env_id, parameters, error) from error


def split_parameters(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of `from_gymnasium`, and those of the environment itself."""
    from conrl.envs.adapters import from_gymnasium

    own = inspect.signature(from_gymnasium).parameters.keys() - {"env"}
    ours = {key: value for key, value in parameters.items() if key in own}
    return ours, {key: value for key, value in parameters.items() if key not in own}


def _make_gymnasium(env_id: str, parameters: Mapping[str, Any], allow_import: bool) -> ConstrainedMDP:
    from conrl.envs.adapters import from_gymnasium

    ours, foreign = split_parameters(parameters)
    with closing(open_gymnasium(env_id, foreign, allow_import)) as env:
        return _called(partial(from_gymnasium, env), PREFIX + env_id, ours)

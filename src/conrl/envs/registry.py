"""Models by name, as the command line asks for them.

A name may come from a file that somebody else wrote, and `gymnasium:<module>:<id>` names a module to be imported, which
is code that runs. So nothing is imported because of a name unless `allow_import` says that the user asked for it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl.arguments import is_int
from conrl.errors import ConRLError, SpecError, shown, unknown
from conrl.model import ConstrainedMDP
from conrl.registration import FACTORIES, gymnasium_id

if TYPE_CHECKING:
    import gymnasium

PREFIX = "gymnasium:"

# What a constructor raises when it is given a value or a keyword that it cannot use.
_BAD_VALUES = (AttributeError, KeyError, IndexError, MemoryError, OverflowError, TypeError, ValueError)


@dataclass(frozen=True)
class BuiltIn:
    """A built-in environment: `factory(**parameters)` makes its model."""

    name: str
    factory: Callable[..., ConstrainedMDP]

    @property
    def description(self) -> str:
        """One line, the first of the factory's docstring."""
        return (inspect.getdoc(self.factory) or "").partition("\n")[0]

    @property
    def gymnasium_id(self) -> str:
        return gymnasium_id(self.name)

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.factory).parameters


def load(path: str) -> Any:
    """What `<module>:<name>` stands for."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


REGISTRY: Mapping[str, BuiltIn] = types.MappingProxyType(
    {name: BuiltIn(name, load(path)) for name, path in FACTORIES.items()}
)


def available() -> tuple[BuiltIn, ...]:
    """What is built in."""
    return tuple(REGISTRY.values())


def make(name: str, **parameters: Any) -> ConstrainedMDP:
    """The model of that name: a built-in one, or `gymnasium:<id>` for one that Gymnasium registered.

    `parameters` are those of the function that makes it. With `gymnasium:<id>` they are `horizon`, `limits`,
    ... of `from_gymnasium`, and all others go to `gymnasium.make`. As there, `gymnasium:<module>:<id>` imports the
    module first: do not pass a name that comes from somebody else's file.
    """
    return resolve(name, parameters, allow_import=True)


def resolve(name: str, parameters: Mapping[str, Any], allow_import: bool) -> ConstrainedMDP:
    """Like `make`, but the parameters may come from a file: the permission to import is not one of them."""
    if isinstance(name, str) and name.startswith(PREFIX):
        return _make_gymnasium(name.removeprefix(PREFIX), parameters, allow_import)
    if not isinstance(name, str) or name not in REGISTRY:
        raise SpecError(unknown("environment", name, [*REGISTRY, f"{PREFIX}<id>"]))
    return make_built_in(name, parameters)


def make_built_in(name: str, parameters: Mapping[str, Any]) -> ConstrainedMDP:
    """The model of a built-in environment."""
    if name not in REGISTRY:
        raise SpecError(unknown("environment", name, REGISTRY))
    entry = REGISTRY[name]
    hints = typing.get_type_hints(entry.factory)
    for key, value in parameters.items():
        if key not in entry.parameters:
            raise SpecError(unknown(f"parameter of {name}", key, entry.parameters), key=(key,))
        _check_type(name, key, value, hints[key])
    return _called(entry.factory, name, parameters)


def _called(make: Callable[..., ConstrainedMDP], name: str, parameters: Mapping[str, Any]) -> ConstrainedMDP:
    """What a function makes of parameters that may come from a file; what it cannot use is refused in one line."""
    try:
        return make(**parameters)
    except ConRLError:
        raise
    except _BAD_VALUES as error:
        raise _refused(name, parameters, error) from error


def _refused(name: str, parameters: Mapping[str, Any], error: Exception) -> SpecError:
    given = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    return SpecError(
        f"{name}{f' with {given}' if given else ''}: {' '.join(str(error).split()) or type(error).__name__}"
    )


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
    if colon and not allow_import and module not in sys.modules:
        raise SpecError(
            f"{PREFIX}{env_id} names the module {module!r}, and importing it runs its code; if you trust it, say "
            "--allow-import to conrl run or tune (in Python allow_import=True)"
        )
    try:
        return gymnasium.make(env_id, **parameters)
    except ModuleNotFoundError as error:
        why = f"{error.name or module} cannot be imported; install it, or name its directory in PYTHONPATH: the current"
        raise SpecError(f"{PREFIX}{env_id}: {why} directory is not searched") from error
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

    ours, theirs = split_parameters(parameters)
    with closing(open_gymnasium(env_id, theirs, allow_import)) as env:
        return _called(partial(from_gymnasium, env), PREFIX + env_id, ours)

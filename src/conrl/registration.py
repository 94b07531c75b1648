"""The built-in environments by name, and their registration with Gymnasium.

Importing this module is what makes `gymnasium.make("conrl/MarsRover-v0", rock_reward=1.0)` work. If Gymnasium is
loaded already, the environments are registered at once, otherwise as soon as it is loaded: nothing heavy is
imported here. Gymnasium 1.0 did away with plug-ins that it loads by itself, so a program that imports only
Gymnasium must name a module: `gymnasium.make("conrl.registration:conrl/MarsRover-v0")`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader  # importing it would load a dozen modules more with `import conrl`
    from importlib.machinery import ModuleSpec

# The one list of what is built in: name -> the function that makes the model.
FACTORIES = {
    "mars-rover": "conrl.envs.gridworld:mars_rover",
    "box": "conrl.envs.box:box",
    "random": "conrl.envs.random:random_cmdp",
    "pricing": "conrl.envs.pricing:pricing",
    "pricing-hours": "conrl.envs.pricing_hours:pricing_hours",
    "bidding": "conrl.envs.bidding:bidding",
    "cluster": "conrl.envs.cluster:cluster",
    "factored": "conrl.envs.factored:factored",
    "media-streaming": "conrl.envs.media_streaming:media_streaming",
    "inventory": "conrl.envs.inventory:inventory",
}


def gymnasium_id(name: str) -> str:
    """The id under which a built-in environment is registered.

    >>> gymnasium_id("mars-rover")
    'conrl/MarsRover-v0'
    """
    return f"conrl/{''.join(word.capitalize() for word in name.split('-'))}-v0"


def register() -> None:
    """Register every built-in environment with Gymnasium; those already there are left alone."""
    from gymnasium.envs import registration

    for name in FACTORIES:
        if gymnasium_id(name) not in registration.registry:
            registration.register(
                gymnasium_id(name), entry_point="conrl.envs.gymnasium_env:BuiltInEnv", kwargs={"model": name}
            )


class _Registering:
    """Loads as the usual loader does, then registers."""

    def __init__(self, inner: Loader) -> None:
        self.inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.inner  # importlib.resources and reloading ask the real one
        module.__loader__ = self.inner
        self.inner.exec_module(module)
        register()


class _Gymnasium:
    """Waits for `import gymnasium` and lets the usual finders find it.

    It stays where it is, and remembers nothing: other threads may be walking the list of finders.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _Registering(spec.loader))
        return spec


if "gymnasium" in sys.modules:
    register()
elif not any(isinstance(finder, _Gymnasium) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Gymnasium())

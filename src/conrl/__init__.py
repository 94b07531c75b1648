"""Decisions under budgets: finite-horizon constrained Markov decision processes.

    import conrl

    plan = conrl.plan(conrl.envs.mars_rover(rock_reward=1.0))
    plan.reward, plan.costs, plan.prices, plan.gap

Names are loaded when first used, so that `import conrl` and `conrl --help` stay fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "ConRLError": "errors",
    "ConstrainedMDP": "model",
    "InfeasibleError": "errors",
    "ModelError": "errors",
    "RunError": "errors",
    "SpecError": "errors",
    "Task": "model",
}
_MODULES = ("envs", "io")

__all__ = [*_HOME, *_MODULES, "__version__"]  # noqa: PLE0604

if TYPE_CHECKING:
    from conrl import envs, io
    from conrl.errors import ConRLError, InfeasibleError, ModelError, RunError, SpecError
    from conrl.model import ConstrainedMDP, Task


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"conrl.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(f"conrl.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'conrl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""Environments: grid worlds from text maps, models of operations, random models, and the way to and from Gymnasium.

Wrappers number what an environment observes and takes, cut it into cells, or take a vector of rewards apart.

What needs Gymnasium is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from conrl.envs.bidding import bidding
from conrl.envs.box import box
from conrl.envs.cluster import cluster
from conrl.envs.factored import factored
from conrl.envs.gridworld import gridworld, mars_rover
from conrl.envs.inventory import inventory
from conrl.envs.media_streaming import media_streaming
from conrl.envs.pricing import pricing
from conrl.envs.pricing_hours import pricing_hours
from conrl.envs.random import random_cmdp
from conrl.envs.registry import REGISTRY, BuiltIn, available, load, make, register

if TYPE_CHECKING:
    from conrl.envs.adapters import from_gymnasium
    from conrl.envs.discretizing import Discretized, discretize
    from conrl.envs.gymnasium_env import BuiltInEnv, CMDPEnv
    from conrl.envs.numbering import Numbered
    from conrl.envs.objectives import MultiObjective
    from conrl.envs.safety import FromSafetyGymnasium, SafetyGymnasiumAdapter

__all__ = [
    "REGISTRY",
    "BuiltIn",
    "BuiltInEnv",
    "CMDPEnv",
    "Discretized",
    "FromSafetyGymnasium",
    "MultiObjective",
    "Numbered",
    "SafetyGymnasiumAdapter",
    "available",
    "bidding",
    "box",
    "cluster",
    "discretize",
    "factored",
    "from_gymnasium",
    "gridworld",
    "inventory",
    "make",
    "mars_rover",
    "media_streaming",
    "pricing",
    "pricing_hours",
    "random_cmdp",
    "register",
]

_HOME = {
    "BuiltInEnv": "gymnasium_env",
    "CMDPEnv": "gymnasium_env",
    "Discretized": "discretizing",
    "FromSafetyGymnasium": "safety",
    "MultiObjective": "objectives",
    "Numbered": "numbering",
    "SafetyGymnasiumAdapter": "safety",
    "discretize": "discretizing",
    "from_gymnasium": "adapters",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return load(f"conrl.envs.{_HOME[name]}:{name}")
    raise AttributeError(f"module 'conrl.envs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Environments: grid worlds from text maps, models of operations, random models, and the way to and from Gymnasium."""

from conrl.envs.adapters import from_gymnasium
from conrl.envs.bidding import bidding
from conrl.envs.box import box
from conrl.envs.cluster import cluster
from conrl.envs.gridworld import gridworld, mars_rover
from conrl.envs.gymnasium_env import BuiltInEnv, CMDPEnv
from conrl.envs.pricing import pricing
from conrl.envs.random import random_cmdp
from conrl.envs.registry import REGISTRY, BuiltIn, available, make
from conrl.envs.safety import FromSafetyGymnasium, SafetyGymnasiumAdapter

__all__ = [
    "REGISTRY",
    "BuiltIn",
    "BuiltInEnv",
    "CMDPEnv",
    "FromSafetyGymnasium",
    "SafetyGymnasiumAdapter",
    "available",
    "bidding",
    "box",
    "cluster",
    "from_gymnasium",
    "gridworld",
    "make",
    "mars_rover",
    "pricing",
    "random_cmdp",
]

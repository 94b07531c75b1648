"""Decisions under budgets: finite-horizon constrained Markov decision processes.

    import conrl

    plan = conrl.plan(conrl.envs.mars_rover(rock_reward=1.0))
    plan.reward, plan.costs, plan.prices, plan.gap

Names are loaded when first used, so that `import conrl` and `conrl --help` stay fast.
"""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Any

from conrl import registration as _registration  # makes gymnasium.make("conrl/MarsRover-v0") work

__version__ = "0.2.0"

# Where the public names are, by module.
_NAMES = {
    "envs": "discretize from_gymnasium",
    "episode": "Episode",
    "episode_totals": "Distribution distribution",
    "errors": "ConRLError InfeasibleError ModelError ModelWarning RunError SpecError",
    "estimation": "AdaptiveBonus BernsteinBonus Evidence ScaledBonus TheoryBonus load_episodes save_episodes",
    "estimation.assess": "Assessment assess",
    "estimation.estimate": "estimate",
    "estimation.logs": "Log",
    "estimation.monitor": "Monitoring monitor",
    "estimation.sampled": "sample_log",
    "explorer": "Page explore",
    "evaluation": "Evaluation evaluate",
    "io": "load_model save_model",
    "io.checking": "ModelCheck check_model",
    "learners": "ApproPO ConRL DOPE OptCMDP OptPessLP OptPrimalDual PosteriorSampling RCPO SafeConRL TFWUCRL2 UCBVI "
    "load_learner",
    "model": "ConstrainedMDP Task",
    "model.cells": "Cells",
    "model.fleet": "Fleet",
    "model.fleet_simulation": "FleetSimulation",
    "model.criteria": "Average Discounted Total",
    "model.transform": "single_episode",
    "oracles": "A2C A2CSettings",
    "planners": "ColumnGeneration ConvexProgram Feasibility FleetPlan Frontier Lagrangian LinearProgram Plan",
    "planners.sensitivity": "Sensitivity",
    "planning": "plan",
    "planners.frontier": "frontier",
    "planners.slack": "feasibility",
    "mixture": "Mixture",
    "policy": "Deterministic Null Policy SparsePolicy",
    "stationary_policy": "Stationary",
    "problem": "ConcaveConvex Knapsack Linear",
    "running": "History learn",
    "policy_file": "PolicyFile",
    "policy_loading": "load_policy",
    "simulation": "Simulation simulate",
    "spending": "SpentPolicy",
    "theory.risk": "BudgetRisk budget_risk",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = ("convex", "envs", "experiments", "learners", "planners", "targets", "theory")

__all__ = [  # spelt out: type checkers read no other
    "A2C",
    "DOPE",
    "RCPO",
    "TFWUCRL2",
    "UCBVI",
    "A2CSettings",
    "AdaptiveBonus",
    "ApproPO",
    "Assessment",
    "Average",
    "BernsteinBonus",
    "BudgetRisk",
    "Cells",
    "ColumnGeneration",
    "ConRL",
    "ConRLError",
    "ConcaveConvex",
    "ConstrainedMDP",
    "ConvexProgram",
    "Deterministic",
    "Discounted",
    "Distribution",
    "Episode",
    "Evaluation",
    "Evidence",
    "Feasibility",
    "Fleet",
    "FleetPlan",
    "FleetSimulation",
    "Frontier",
    "History",
    "InfeasibleError",
    "Knapsack",
    "Lagrangian",
    "Linear",
    "LinearProgram",
    "Log",
    "Mixture",
    "ModelCheck",
    "ModelError",
    "ModelWarning",
    "Monitoring",
    "Null",
    "OptCMDP",
    "OptPessLP",
    "OptPrimalDual",
    "Page",
    "Plan",
    "Policy",
    "PolicyFile",
    "PosteriorSampling",
    "RunError",
    "SafeConRL",
    "ScaledBonus",
    "Sensitivity",
    "Simulation",
    "SparsePolicy",
    "SpecError",
    "SpentPolicy",
    "Stationary",
    "Task",
    "TheoryBonus",
    "Total",
    "__version__",
    "assess",
    "budget_risk",
    "check_model",
    "convex",
    "discretize",
    "distribution",
    "envs",
    "estimate",
    "evaluate",
    "experiments",
    "explore",
    "feasibility",
    "from_gymnasium",
    "frontier",
    "learn",
    "learners",
    "load_episodes",
    "load_learner",
    "load_model",
    "load_policy",
    "monitor",
    "plan",
    "planners",
    "sample_log",
    "save_episodes",
    "save_model",
    "simulate",
    "single_episode",
    "targets",
    "theory",
]

if TYPE_CHECKING:
    from conrl import convex, envs, experiments, learners, planners, targets, theory
    from conrl.envs import discretize, from_gymnasium
    from conrl.episode import Episode
    from conrl.episode_totals import Distribution, distribution
    from conrl.errors import ConRLError, InfeasibleError, ModelError, ModelWarning, RunError, SpecError
    from conrl.estimation.adaptive import AdaptiveBonus
    from conrl.estimation.assess import Assessment, assess
    from conrl.estimation.bonuses import BernsteinBonus, ScaledBonus, TheoryBonus
    from conrl.estimation.estimate import estimate
    from conrl.estimation.evidence import Evidence
    from conrl.estimation.logs import Log, load_episodes, save_episodes
    from conrl.estimation.monitor import Monitoring, monitor
    from conrl.estimation.sampled import sample_log
    from conrl.evaluation import Evaluation, evaluate
    from conrl.explorer import Page, explore
    from conrl.io import load_model, save_model
    from conrl.io.checking import ModelCheck, check_model
    from conrl.learners import (
        DOPE,
        RCPO,
        TFWUCRL2,
        UCBVI,
        ApproPO,
        ConRL,
        OptCMDP,
        OptPessLP,
        OptPrimalDual,
        PosteriorSampling,
        SafeConRL,
        load_learner,
    )
    from conrl.mixture import Mixture
    from conrl.model import ConstrainedMDP, Task
    from conrl.model.cells import Cells
    from conrl.model.criteria import Average, Discounted, Total
    from conrl.model.fleet import Fleet
    from conrl.model.fleet_simulation import FleetSimulation
    from conrl.model.transform import single_episode
    from conrl.oracles import A2C, A2CSettings
    from conrl.planners import (
        ColumnGeneration,
        ConvexProgram,
        Feasibility,
        FleetPlan,
        Frontier,
        Lagrangian,
        LinearProgram,
        Plan,
    )
    from conrl.planners.frontier import frontier
    from conrl.planners.sensitivity import Sensitivity
    from conrl.planners.slack import feasibility
    from conrl.planning import plan
    from conrl.policy import Deterministic, Null, Policy, SparsePolicy
    from conrl.policy_file import PolicyFile
    from conrl.policy_loading import load_policy
    from conrl.problem import ConcaveConvex, Knapsack, Linear
    from conrl.running import History, learn
    from conrl.simulation import Simulation, simulate
    from conrl.spending import SpentPolicy
    from conrl.stationary_policy import Stationary
    from conrl.theory.risk import BudgetRisk, budget_risk


_LOADING = threading.RLock()  # Python lets threads that load modules in different orders see them half loaded


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        with _LOADING:
            return importlib.import_module(f"conrl.{name}")
    if name in _HOME:
        with _LOADING:
            value = getattr(importlib.import_module(f"conrl.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'conrl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

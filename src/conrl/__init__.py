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

__version__ = "0.2.0.dev0"

_HOME = {
    "A2C": "oracles",
    "A2CSettings": "oracles",
    "ApproPO": "learners",
    "BudgetRisk": "theory.risk",
    "ColumnGeneration": "planners",
    "ConRL": "learners",
    "ConRLError": "errors",
    "ConcaveConvex": "problem",
    "ConstrainedMDP": "model",
    "ConvexProgram": "planners",
    "Deterministic": "policy",
    "Episode": "episode",
    "Evaluation": "evaluation",
    "Feasibility": "planners",
    "Frontier": "planners",
    "History": "running",
    "InfeasibleError": "errors",
    "Knapsack": "problem",
    "Lagrangian": "planners",
    "Linear": "problem",
    "LinearProgram": "planners",
    "Mixture": "policy",
    "ModelError": "errors",
    "Null": "policy",
    "OptCMDP": "learners",
    "OptPrimalDual": "learners",
    "Plan": "planners",
    "Policy": "policy",
    "RCPO": "learners",
    "RunError": "errors",
    "ScaledBonus": "estimation",
    "Simulation": "evaluation",
    "SpecError": "errors",
    "TFWUCRL2": "learners",
    "Task": "model",
    "TheoryBonus": "estimation",
    "UCBVI": "learners",
    "budget_risk": "theory.risk",
    "estimate": "estimation.estimate",
    "evaluate": "evaluation",
    "feasibility": "planners.feasibility",
    "from_gymnasium": "envs",
    "frontier": "planners.frontier",
    "learn": "running",
    "load_episodes": "estimation",
    "load_learner": "learners",
    "load_model": "io",
    "load_policy": "policy",
    "plan": "planners",
    "save_episodes": "estimation",
    "save_model": "io",
    "simulate": "evaluation",
    "single_episode": "model.transform",
}
_MODULES = ("convex", "envs", "experiments", "targets", "theory")

__all__ = [  # spelt out: type checkers read no other
    "A2C",
    "RCPO",
    "TFWUCRL2",
    "UCBVI",
    "A2CSettings",
    "ApproPO",
    "BudgetRisk",
    "ColumnGeneration",
    "ConRL",
    "ConRLError",
    "ConcaveConvex",
    "ConstrainedMDP",
    "ConvexProgram",
    "Deterministic",
    "Episode",
    "Evaluation",
    "Feasibility",
    "Frontier",
    "History",
    "InfeasibleError",
    "Knapsack",
    "Lagrangian",
    "Linear",
    "LinearProgram",
    "Mixture",
    "ModelError",
    "Null",
    "OptCMDP",
    "OptPrimalDual",
    "Plan",
    "Policy",
    "RunError",
    "ScaledBonus",
    "Simulation",
    "SpecError",
    "Task",
    "TheoryBonus",
    "__version__",
    "budget_risk",
    "convex",
    "envs",
    "estimate",
    "evaluate",
    "experiments",
    "feasibility",
    "from_gymnasium",
    "frontier",
    "learn",
    "load_episodes",
    "load_learner",
    "load_model",
    "load_policy",
    "plan",
    "save_episodes",
    "save_model",
    "simulate",
    "single_episode",
    "targets",
    "theory",
]

if TYPE_CHECKING:
    from conrl import convex, envs, experiments, targets, theory
    from conrl.envs import from_gymnasium
    from conrl.episode import Episode
    from conrl.errors import ConRLError, InfeasibleError, ModelError, RunError, SpecError
    from conrl.estimation.bonuses import ScaledBonus, TheoryBonus
    from conrl.estimation.estimate import estimate
    from conrl.estimation.logs import load_episodes, save_episodes
    from conrl.evaluation import Evaluation, Simulation, evaluate, simulate
    from conrl.io import load_model, save_model
    from conrl.learners import RCPO, TFWUCRL2, UCBVI, ApproPO, ConRL, OptCMDP, OptPrimalDual, load_learner
    from conrl.model import ConstrainedMDP, Task
    from conrl.model.transform import single_episode
    from conrl.oracles import A2C, A2CSettings
    from conrl.planners import (
        ColumnGeneration,
        ConvexProgram,
        Feasibility,
        Frontier,
        Lagrangian,
        LinearProgram,
        Plan,
        plan,
    )
    from conrl.planners.feasibility import feasibility
    from conrl.planners.frontier import frontier
    from conrl.policy import Deterministic, Mixture, Null, Policy, load_policy
    from conrl.problem import ConcaveConvex, Knapsack, Linear
    from conrl.running import History, learn
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

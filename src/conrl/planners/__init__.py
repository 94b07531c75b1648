"""Which directions to ask an oracle, and how to combine its answers."""

from __future__ import annotations

from conrl.planners.asking import planned
from conrl.planners.column_generation.planner import ColumnGeneration
from conrl.planners.convex_program import ConvexProgram
from conrl.planners.deterministic.planner import plan_deterministic
from conrl.planners.feasibility import Feasibility
from conrl.planners.fleet import plan_fleet
from conrl.planners.fleet_plan import FleetPlan
from conrl.planners.frontier import Frontier
from conrl.planners.lagrangian import Lagrangian, Trace
from conrl.planners.linear_program import LinearProgram
from conrl.planners.registry import PLANNERS, PLUGINS, Planner, is_ours, make_planner, read_planner, register
from conrl.planners.result import Plan
from conrl.planners.sensitivity import Sensitivity
from conrl.planners.verified import plan_of

__all__ = [
    "PLANNERS",
    "PLUGINS",
    "ColumnGeneration",
    "ConvexProgram",
    "Feasibility",
    "FleetPlan",
    "Frontier",
    "Lagrangian",
    "LinearProgram",
    "Plan",
    "Planner",
    "Sensitivity",
    "Trace",
    "is_ours",
    "make_planner",
    "plan_deterministic",
    "plan_fleet",
    "plan_of",
    "planned",
    "read_planner",
    "register",
]

"""Every argument of every public call: what makes no sense is refused in one line, by a ConRLError.

The rule (`conrl.errors`): a value that makes no sense raises a `ConRLError`; an argument that a call does not have, or
that is missing, is Python's own TypeError; and what a function of the caller raises is the caller's. Nothing else
leaves a public call.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
import scipy.sparse as sp

import conrl
from conrl import envs
from conrl.estimation.evidence import Evidence

MDP = envs.make("random", states=4, actions=2, costs=2, horizon=3)
TASK = MDP.task
PLAN = conrl.plan(MDP)
COUNTING: Any = conrl.plan(MDP, conrl.Linear(chance={"cost0": (3.0, 1.0)})).policy
EPISODES = tuple(conrl.Episode([0, 1, 2], [0, 1], [0.1, 0.2], [[0.1, 0.2], [0.3, 0.4]]) for _ in range(2))
WALK = {"states": [0, 1], "actions": [0], "rewards": [0.5], "costs": [[0.1, 0.2]]}
TABLE = np.full((3, 4, 2), 0.5)
PLANNED = {"mdp": MDP, "problem": None, "planner": "column-generation", "tol": 1e-6, "limits": None, "threads": None}
FLEET = conrl.Fleet([(MDP, 2)], [99.0, 99.0])
FLEET_PLAN = conrl.plan(FLEET)
UNITS = {"transitions": np.full((3, 2, 2, 2), 0.5), "rewards": np.ones((3, 2, 2)), "costs": np.ones((3, 2, 2, 2))}
STAY = conrl.Stationary(TABLE[0])
UNSURE = {"confidence": None, "use_unseen": False, "seed": 0, "report": None}
LOG = conrl.sample_log(MDP, PLAN, 40)
MODEL = conrl.estimate(LOG)
SURE = conrl.plan(MODEL, [99.0, 99.0], confidence=0.5)
EVIDENCE = Evidence(conrl.ConRL(TASK).counts, 1)
CAR = gymnasium.make("MountainCar-v0", max_episode_steps=5)
VECTOR = gymnasium.make("MountainCar-v0")
VECTOR.unwrapped.reward_space = gymnasium.spaces.Box(0.0, 1.0, (2,))  # type: ignore[attr-defined]


class Odd:
    """Of no kind that anything knows."""

    def __repr__(self) -> str:
        return "Odd()"


WRONG: dict[str, Any] = {
    "None": None,
    "True": True,
    "text": "nonsense",
    "empty text": "",
    "bytes": b"ab",
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "huge": 10**400,
    "1e307": 1e307,
    "complex": 1j,
    "empty": [],
    "list": [1, 2, 3],
    "ragged": [[1], [2, 3]],
    "texts": ["a", "b"],
    "mapping": {"a": 1},
    "array of nan": np.full((3, 4, 2), np.nan),
    "array 0-d": np.array(3.5),
    "sparse": sp.csr_array(np.eye(3)),
    "object": Odd(),
    "class": int,
    "function": lambda: None,
    "generator": np.random.default_rng(0),
    "model": MDP,
    "surrogate": "\ud800",
}


class Call(NamedTuple):
    """A call that works, whose arguments are then spoilt one by one."""

    function: Callable[..., Any]
    given: dict[str, Any]
    then: Callable[[Any], Any] = lambda made: made  # what shows that the thing made is sound


def planned(problem: Any) -> Any:
    return conrl.plan(MDP, problem)


def learned(learner: Any) -> Any:
    return conrl.learn(MDP, learner, 2, seed=1)


def bonused(bonus: Any) -> Any:
    return bonus(np.array([0, 3]), 2, TASK), conrl.learn(MDP, conrl.ConRL(TASK, bonus=bonus), 2)


def told(bonus: Any) -> Any:
    return bonus(EVIDENCE), conrl.learn(MDP, conrl.ConRL(TASK, bonus=bonus), 2)


SAFE: dict[str, Any] = {
    "safe": PLAN.policy,
    "safe_costs": np.asarray(TASK.limits) - 0.01,
    "delta": 0.1,
    "scale": 0.1,
}


def judged(margin: Any = 0.1, tolerance: Any = 0.1) -> Any:
    history = conrl.learn(MDP, conrl.ConRL(TASK), 2, seed=1)
    return history.safe_regret(margin), history.violating(tolerance)


LEARNER = {"task": TASK, "problem": None, "preset": "default", "seed": 1, "keep_policies": True}
CALLS: dict[str, Call] = {
    "History": Call(judged, {"margin": 0.1, "tolerance": 0.1}),
    "ConstrainedMDP.step_table": Call(
        conrl.ConstrainedMDP,
        {
            "transitions": [MDP.transitions] * 3,
            "rewards": np.stack([MDP.rewards] * 3),
            "costs": np.stack([MDP.costs] * 3),
            "horizon": 3,
            "available": np.ones((3, 4, 2), bool),
        },
        conrl.plan,
    ),
    "ConstrainedMDP": Call(
        conrl.ConstrainedMDP,
        {
            "transitions": MDP.transitions,
            "rewards": MDP.rewards,
            "costs": MDP.costs,
            "horizon": 3,
            "initial": 0,
            "limits": [1.0, 1.0],
            "available": np.ones((4, 2), bool),
            "state_names": list("abcd"),
            "action_names": ["x", "y"],
            "cost_names": ["p", "q"],
            "features": np.eye(4),
            "layout": None,
            "can_stop": False,
            "reward_range": (0.0, 1.0),
            "cost_ranges": [(0.0, 1.0), (0.0, 1.0)],
        },
        conrl.plan,
    ),
    "ConstrainedMDP.from_outcomes": Call(
        conrl.ConstrainedMDP.from_outcomes,
        {
            "state": [0],
            "action": [0],
            "successor": [0],
            "probability": [1.0],
            "pay": [[1.0, 2.0]],
            "num_states": 1,
            "num_actions": 1,
            "horizon": 2,
            "initial": 0,
            "limits": [3.0],
        },
    ),
    "ConstrainedMDP.from_blocks": Call(
        conrl.ConstrainedMDP.from_blocks,
        {
            "blocks": [([[[0]]], [[[1.0]]], [[1.0]], [[[2.0]]])],
            "num_states": 1,
            "num_actions": 1,
            "horizon": 2,
            "initial": 0,
            "limits": [3.0],
        },
    ),
    "ConstrainedMDP.with_bonus": Call(MDP.with_bonus, {"b": np.ones((4, 2))}, conrl.plan),
    "ConstrainedMDP.replace": Call(
        MDP.replace,
        {
            "horizon": 2,
            "initial": 1,
            "limits": [1.0, 1.0],
            "reward_range": (0.0, 1.0),
            "cost_ranges": [(0.0, 1.0), (0.0, 1.0)],
        },
        conrl.plan,
    ),
    "Task": Call(
        conrl.Task,
        {
            "num_states": 4,
            "num_actions": 2,
            "horizon": 3,
            "limits": [1.0, 1.0],
            "cost_names": ["cost0", "cost1"],
            "initial": 0,
            "reward_range": (0.0, 1.0),
            "cost_ranges": [(0.0, 1.0), (0.0, 1.0)],
            "features": np.eye(4),
            "can_stop": False,
            "available": np.ones((4, 2), bool),
            "step_dependent": True,
            "cells": conrl.Cells([[0.0, 1.0, 2.0]]),
            "state_names": list("abcd"),
            "action_names": ["go", "stay"],
        },
        lambda task: conrl.ConRL(task).propose(),
    ),
    "Episode": Call(conrl.Episode, {**WALK, "terminated": False, "stopped": False, "skipped": False}),
    "Policy": Call(conrl.Policy, {"probabilities": TABLE}, lambda policy: conrl.evaluate(MDP, policy)),
    "Deterministic": Call(
        conrl.Deterministic, {"actions": np.zeros((3, 4), int), "num_actions": 2}, lambda p: conrl.evaluate(MDP, p)
    ),
    "SparsePolicy": Call(
        conrl.SparsePolicy,
        {"modes": np.zeros((3, 4), int), "places": np.array([2, 5]), "rows": TABLE[0, :2]},
        lambda p: conrl.evaluate(MDP, p),
    ),
    "Stationary": Call(
        conrl.Stationary, {"probabilities": TABLE[0]}, lambda p: conrl.evaluate(MDP.replace(horizon=conrl.Average()), p)
    ),
    "Stationary.of_actions": Call(
        conrl.Stationary.of_actions,
        {"actions": np.zeros(4, int), "num_actions": 2},
        lambda p: conrl.evaluate(MDP.replace(horizon=conrl.Discounted(0.5)), p),
    ),
    "Discounted": Call(conrl.Discounted, {"discount": 0.9}, lambda g: conrl.plan(MDP.replace(horizon=g), [99.0, 99.0])),
    "Average": Call(conrl.Average, {}, lambda g: conrl.plan(MDP.replace(horizon=g), [99.0, 99.0])),
    "Total": Call(conrl.Total, {}, lambda g: conrl.plan(MDP.replace(horizon=g), [99.0, 99.0])),
    "Null": Call(conrl.Null, {"horizon": 3, "num_states": 4, "num_actions": 2}, lambda p: conrl.evaluate(MDP, p)),
    "Mixture": Call(
        conrl.Mixture,
        {"weights": [1.0], "policies": [conrl.Policy(TABLE)], "values": [[0.0, 0.0, 0.0]]},
        lambda mixture: conrl.evaluate(MDP, mixture),
    ),
    "Linear": Call(
        conrl.Linear,
        {
            "limits": [9.0, 9.0],
            "floors": [0.0, 0.0],
            "per_step": {"cost0": [9.0, 9.0, 9.0]},
            "never": {"cost0": 9.0},
            "chance": {"cost0": (3.0, 1.0)},
            "cvar": {"cost1": (0.5, 9.0)},
            "grid": {"cost0": 0.25},
        },
        planned,
    ),
    "Linear.never": Call(lambda x: conrl.Linear(never={"cost0": x}), {"x": 9.0}, planned),
    "Linear.chance": Call(lambda m, p: conrl.Linear(chance={"cost0": (m, p)}), {"m": 3.0, "p": 1.0}, planned),
    "Linear.cvar": Call(lambda a, b: conrl.Linear(cvar={"cost0": (a, b)}), {"a": 0.5, "b": 9.0}, planned),
    "Linear.grid": Call(lambda x: conrl.Linear(never={"cost0": 9.0}, grid=x), {"x": 0.25}, planned),
    "Knapsack": Call(conrl.Knapsack, {"budgets": [9.0, 9.0], "episodes": 5, "epsilon": 0.1, "delta": 0.05}, planned),
    "ConcaveConvex": Call(conrl.ConcaveConvex, {"objective": lambda x: x, "constraint": lambda y: y[0] - 9.0}, planned),
    "plan": Call(conrl.plan, PLANNED | {"deterministic": False, "time_limit": None} | UNSURE),
    "plan()": Call(conrl.plan, PLANNED | {"deterministic": True, "time_limit": 60.0} | UNSURE),
    "plan.confidence": Call(
        conrl.plan,
        {"mdp": MODEL, "limits": [9.0, 9.0], "confidence": 0.9, "use_unseen": False, "seed": 1, "report": None},
    ),
    "assess": Call(
        conrl.assess,
        {
            "policy": SURE,
            "log": LOG,
            "limits": [9.0, 9.0],
            "mdp": None,
            "level": 0.9,
            "draws": 4,
            "seed": 0,
            "step_dependent": False,
        },
    ),
    "sample_log": Call(conrl.sample_log, {"mdp": MDP, "policy": PLAN, "episodes": 3, "seed": 0}),
    "Log": Call(
        conrl.Log,
        {"episodes": EPISODES, "cost_names": ("p", "q"), "state_names": ("a", "b", "c"), "action_names": ("x", "y")},
        conrl.estimate,
    ),
    "Log.split": Call(LOG.split, {"share": 0.5, "seed": 0}),
    "frontier": Call(
        conrl.frontier,
        {"mdp": MDP, "cost": 0, "tol": 1e-6, "max_vertices": 3, "limits": None, "oracle": None, "chance": None},
    ),
    "frontier.chance": Call(conrl.frontier, {"mdp": MDP, "max_vertices": 3, "chance": {"cost0": 2.0}}),
    "distribution": Call(conrl.distribution, {"mdp": MDP, "policy": PLAN, "cost": 0}),
    "Distribution.exceed": Call(conrl.distribution(MDP, PLAN).exceed, {"threshold": 1.0}),
    "Distribution.cvar": Call(conrl.distribution(MDP, PLAN).cvar, {"level": 0.5}),
    "Distribution.quantile": Call(conrl.distribution(MDP, PLAN).quantile, {"q": 0.5}),
    "SpentPolicy.act": Call(
        COUNTING.act, {"step": 0, "state": 0, "generator": np.random.default_rng(0), "spent": COUNTING.start}
    ),
    "SpentPolicy.spend": Call(COUNTING.spend, {"spent": COUNTING.start, "costs": MDP.costs[0, 0]}),
    "SpentPolicy.at": Call(COUNTING.at, {"spent": COUNTING.start}),
    "feasibility": Call(conrl.feasibility, {"mdp": MDP, "limits": [9.0, 9.0], "floors": [0.0, 0.0]}),
    "evaluate": Call(conrl.evaluate, {"mdp": MDP, "policy": PLAN}),
    "simulate": Call(
        conrl.simulate,
        {"mdp_or_env": MDP, "policy": PLAN, "episodes": 3, "seed": 0, "steps": None, "cost": None},
    ),
    "simulate.average": Call(
        conrl.simulate,
        {"mdp_or_env": MDP.replace(horizon=conrl.Average()), "policy": STAY, "episodes": 3, "seed": 0, "steps": 5},
    ),
    "estimate": Call(
        conrl.estimate,
        {
            "log": EPISODES,
            "task": None,
            "horizon": 2,
            "limits": [1.0, 1.0],
            "unvisited": "self-loop",
            "step_dependent": False,
        },
    ),
    "learn": Call(
        conrl.learn,
        {
            "env": MDP,
            "learner": conrl.ConRL(TASK),
            "episodes": 1,
            "seed": 0,
            "progress": False,
            "pay": "outcome",
            "cost": None,
            "history": None,
            "problem": None,
            "after": None,
        },
    ),
    "single_episode": Call(conrl.single_episode, {"mdp": MDP, "terminal": [3]}),
    "from_gymnasium": Call(
        conrl.from_gymnasium,
        {
            "env": "FrozenLake-v1",
            "cost": lambda *step: 0.0,
            "horizon": 3,
            "limits": [1.0],
            "cost_names": ["c"],
            "initial": 0,
        },
    ),
    "discretize": Call(
        conrl.discretize,
        {"env": CAR, "bins": [2, [0.0]], "by": "quantiles", "episodes": 1, "seed": 0, "names": ["x", "v"]},
    ),
    "envs.Discretized": Call(envs.Discretized, {"env": CAR, "cells": conrl.Cells([[0.0], []])}),
    "envs.Numbered": Call(envs.Numbered, {"env": gymnasium.make("Blackjack-v1")}),
    "envs.MultiObjective": Call(
        envs.MultiObjective, {"env": VECTOR, "reward": 0, "costs": {"time": 1}, "signs": {"time": -1}}
    ),
    "Cells": Call(conrl.Cells, {"edges": [[0.0, 1.0], [0.0]], "names": ["x", "v"]}),
    "Cells.number": Call(conrl.Cells([[0.0, 1.0], [0.0]]).number, {"observation": [0.5, 0.5]}),
    "Cells.bounds": Call(conrl.Cells([[0.0, 1.0], [0.0]]).bounds, {"cell": 3}),
    "load_model": Call(
        conrl.load_model,
        {"path": "model.drn", "horizon": 3, "initial": 0, "limits": [1.0, 1.0], "reward": "reward", "normalize": None},
    ),
    "load_model.normalize": Call(conrl.load_model, {"path": "model.npz", "normalize": 0.01}),
    "check_model": Call(
        conrl.check_model,
        {"path": "model.npz", "horizon": 3, "initial": 0, "limits": [1.0, 1.0], "normalize": 0.01},
    ),
    "save_model": Call(conrl.save_model, {"path": "model.npz", "mdp": MDP, "means": True}),
    "load_policy": Call(conrl.load_policy, {"path": "policy.npz", "mdp": MDP}),
    "PolicyFile.load": Call(conrl.PolicyFile.load, {"path": "policy.json"}),
    "PolicyFile.named": Call(conrl.PolicyFile.named, {"policy": PLAN.policy, "mdp": MDP}),
    "PolicyFile.save": Call(conrl.PolicyFile.named(PLAN.policy, MDP).save, {"path": "again.json"}),
    "PolicyFile.made_for": Call(conrl.PolicyFile.named(PLAN.policy, MDP).made_for, {"mdp": MDP}),
    "PolicyFile.begin": Call(conrl.PolicyFile.named(PLAN.mixture, MDP).begin, {"generator": np.random.default_rng(0)}),
    "PolicyFile.choices": Call(
        conrl.PolicyFile.named(PLAN.mixture, MDP).choices, {"step": 0, "state": "0", "component": 0, "spent": None}
    ),
    "PolicyFile.act": Call(
        conrl.PolicyFile.named(PLAN.mixture, MDP).act,
        {"step": 0, "state": "0", "generator": np.random.default_rng(0), "component": 0, "spent": None},
    ),
    "explore": Call(
        conrl.explore, {"model": FLEET, "problem": None, "limits": [99.0, 99.0], "title": "t", "types": ["press"]}
    ),
    "Page.save": Call(conrl.explore(MDP).save, {"path": "page.html"}),
    "Plan.to_html": Call(PLAN.to_html, {"path": "page.html"}),
    "Plan.save": Call(PLAN.save, {"path": "policy.json", "mixture": False}),
    "monitor": Call(conrl.monitor, {"policy": PLAN, "log": LOG, "alpha": 0.1, "ranges": None, "give_up": False}),
    "Policy.save": Call(PLAN.policy.save, {"path": "policy.npz", "mdp": MDP}),
    "load_episodes": Call(conrl.load_episodes, {"path": "log.csv", "columns": None, "ignore": ()}),
    "save_episodes": Call(
        conrl.save_episodes, {"path": "log.csv", "episodes": EPISODES, "cost_names": ["p", "q"], "first": 0}
    ),
    "load_learner": Call(conrl.load_learner, {"path": "learner.npz"}),
    "ColumnGeneration": Call(
        conrl.ColumnGeneration, {"tol": 1e-6, "max_sweeps": 9, "threads": 2}, lambda p: conrl.plan(MDP, None, p)
    ),
    "LinearProgram": Call(
        conrl.LinearProgram, {"tol": 1e-6, "method": "simplex", "time_limit": 9.0}, lambda p: conrl.plan(MDP, None, p)
    ),
    "ConvexProgram": Call(conrl.ConvexProgram, {"tol": 1e-6}),
    "Lagrangian": Call(
        conrl.Lagrangian,
        {
            "iterations": 3,
            "step": 0.1,
            "decay": True,
            "oracle": "value-iteration",
            "keep_multipliers": False,
            "returns": "mixture",
        },
        lambda p: conrl.plan(MDP, None, p),
    ),
    "TheoryBonus": Call(conrl.TheoryBonus, {"delta": 0.1}, bonused),
    "TheoryBonus()": Call(conrl.TheoryBonus(), {"visits": np.array([0, 1]), "episode": 1, "task": TASK}),
    "BernsteinBonus": Call(conrl.BernsteinBonus, {"delta": 0.1}, told),
    "AdaptiveBonus": Call(conrl.AdaptiveBonus, {"deviations": 1.0, "reward": 0.6, "cost": -0.3, "explore": True}, told),
    "AdaptiveBonus()": Call(conrl.AdaptiveBonus(), {"evidence": EVIDENCE}),
    "Evidence": Call(
        conrl.Evidence, {"counts": EVIDENCE._counts, "episode": 3, "prices": None, "model": None, "better": None}
    ),
    "Evidence.noise": Call(EVIDENCE.noise, {"w": [1.0, -1.0, 0.0], "pseudo": 2.0}),
    "Evidence.values": Call(EVIDENCE.values, {"pay": np.zeros(EVIDENCE.visits.size)}),
    "BernsteinBonus()": Call(conrl.BernsteinBonus(), {"evidence": EVIDENCE}),
    "ScaledBonus": Call(
        conrl.ScaledBonus, {"reward": 0.1, "cost": 0.1, "unvisited": 1.0, "relative": True, "bounded": True}, bonused
    ),
    "ScaledBonus()": Call(conrl.ScaledBonus(), {"visits": np.array([0, 1]), "episode": 1, "task": TASK}),
    "ConRL": Call(
        conrl.ConRL,
        LEARNER
        | {
            "planner": None,
            "bonus": None,
            "executes": "policy",
            "play": "markov",
            "replan": "doubling",
            "resolve": False,
            "guard": True,
        },
        learned,
    ),
    "ConRL.observe": Call(conrl.ConRL(TASK).observe, {"episode": EPISODES[0]}),
    "ConRL.prime": Call(conrl.ConRL(TASK).prime, {"episodes": EPISODES}),
    "UCBVI": Call(conrl.UCBVI, LEARNER | {"delta": 0.1, "scale": 0.1, "monotone": True}, learned),
    "OptCMDP": Call(
        conrl.OptCMDP, LEARNER | {"delta": 0.1, "scale": 0.1, "play": "markov", "replan": "doubling"}, learned
    ),
    "SafeConRL": Call(
        conrl.SafeConRL,
        LEARNER
        | SAFE
        | {"optimism": 0.5, "safe_reward": 0.1, "worst_costs": [99.0, 99.0], "radii": "sharp", "replan": "doubling"},
        learned,
    ),
    "SafeConRL.draws": Call(conrl.SafeConRL(TASK, seed=1, **SAFE).draws, {"count": 2}),
    "SafeConRL.observe_block": Call(
        conrl.SafeConRL(TASK, seed=1, **SAFE).observe_block,
        {"states": [[0, 1, 2, 0]], "actions": [[0, 1, 0]], "pay": np.full((1, 3, 3), 0.1)},
    ),
    "DOPE": Call(conrl.DOPE, LEARNER | SAFE | {"replan": "episode"}, learned),
    "OptPessLP": Call(conrl.OptPessLP, LEARNER | SAFE | {"replan": "episode"}, learned),
    "PosteriorSampling": Call(conrl.PosteriorSampling, LEARNER | {"prior": 0.1}, learned),
    "PosteriorSampling.sample": Call(conrl.PosteriorSampling(TASK).sample, {}),
    "OptPrimalDual": Call(
        conrl.OptPrimalDual,
        LEARNER | {"delta": 0.1, "scale": 0.1, "step": 0.1, "dual_step": 0.1, "decay": True, "least": 0.0},
        learned,
    ),
    "TFWUCRL2": Call(
        conrl.TFWUCRL2,
        LEARNER | {"objective": None, "threshold": 0.1, "reward_weight": 1.0, "penalty_weight": 1.0, "accuracy": 0.1},
    ),
    "A2CSettings": Call(
        conrl.A2CSettings,
        {
            "learning_rate": 1e-3,
            "value_coefficient": 0.5,
            "value_loss": "squared",
            "entropy": 0.0,
            "channels": 2,
            "hidden": 2,
            "gain": 1.0,
        },
    ),
    "A2C": Call(
        conrl.A2C,
        {"preset": "default", "settings": None, "reset": "none", "episodes": 1, "final_episodes": 1, "seed": 0},
    ),
    "RCPO": Call(conrl.RCPO, LEARNER | {"rate": 1e-3, "a2c": None, "peek": None}),
    "ApproPO": Call(
        conrl.ApproPO,
        LEARNER
        | {"threshold": 0.1, "target": None, "step": 1.0, "momentum": 0.9, "kappa": 2.0, "a2c": None, "peek": None}
        | {"episodes": 1, "estimate_episodes": 1},
    ),
    "Fleet": Call(
        conrl.Fleet,
        {"groups": [(MDP, 2)], "limits": [99.0, 99.0], "floors": [0.0, 0.0], "per_step": {"cost0": 9.0}},
        conrl.plan,
    ),
    "Fleet.stack": Call(
        conrl.Fleet.stack,
        {
            **UNITS,
            "horizon": 3,
            "initial": 0,
            "limits": [99.0, 99.0],
            "floors": [0.0, 0.0],
            "per_step": {"p": [9.0, 9.0, 9.0]},
            "cost_names": ["p", "q"],
            "available": np.ones((2, 2), bool),
        },
        conrl.plan,
    ),
    "Fleet.at": Call(
        FLEET.at,
        {"states": [0, 1], "step": 1, "spent": [0.0, 0.0], "limits": [99.0, 99.0], "floors": [0.0, 0.0]},
        conrl.plan,
    ),
    "Fleet.simulate": Call(FLEET.simulate, {"plan": FLEET_PLAN, "runs": 2, "seed": 0, "guard": True, "threads": 1}),
    "plan of a fleet": Call(conrl.plan, PLANNED | {"mdp": FLEET, "deterministic": False, "time_limit": None} | UNSURE),
    "FleetPlan.policy": Call(FLEET_PLAN.policy, {"unit": 0}),
    "FleetPlan.parts": Call(FLEET_PLAN.parts, {"type": 0}),
    "Simulation.quantile": Call(conrl.simulate(MDP, PLAN, 3).quantile, {"q": 0.5}),
    "Simulation.exceed": Call(conrl.simulate(MDP, PLAN, 3).exceed, {"limits": [1.0, 1.0]}),
    "Frontier.reward": Call(conrl.frontier(MDP).reward, {"limit": 5.0}),
    "Frontier.price": Call(conrl.frontier(MDP).price, {"limit": 5.0}),
    "Frontier.linear": Call(conrl.frontier(MDP).linear, {"limit": 5.0}, planned),
    "budget_risk": Call(conrl.budget_risk, {"plan": conrl.plan(MDP, conrl.Knapsack([9.0, 9.0], 5)), "seed": 0}),
    "Plan.component": Call(PLAN.component, {"i": 0}),
    "Policy.act": Call(PLAN.policy.act, {"step": 0, "state": 0, "generator": np.random.default_rng(0)}),
    "Policy.step_probabilities": Call(PLAN.policy.step_probabilities, {"step": 0}),
    "Policy.occupation": Call(PLAN.policy.occupation, {"mdp": MDP}),
    "Mixture.draw": Call(PLAN.mixture.draw, {"generator": np.random.default_rng(0)}),
    "Mixture.to_markov": Call(PLAN.mixture.to_markov, {"mdp": MDP}),
    "envs.make": Call(envs.make, {"name": "box"}),
}
CALLBACKS = {("learn", "after"), ("plan.confidence", "report"), ("from_gymnasium", "cost")}
EXEMPT = {  # what is not called by users: results, errors, modules
    "ModelCheck", "ModelWarning",
    "Assessment", "ConRLError", "ModelError", "InfeasibleError", "SpecError", "RunError", "Evaluation", "Feasibility",
    "Frontier", "Page",
    "BudgetRisk", "Distribution", "FleetSimulation", "History", "Monitoring", "Plan", "Sensitivity", "Simulation",
    "SpentPolicy",
    "__version__", "convex", "envs", "experiments", "learners", "planners", "targets", "theory",
}  # fmt: skip


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that can be read, and a directory to write to."""
    monkeypatch.chdir(tmp_path)
    conrl.save_model("model.npz", MDP)
    conrl.save_model("model.drn", MDP.replace(initial=0), means=True)
    PLAN.policy.save("policy.npz")
    PLAN.save("policy.json")
    conrl.save_episodes("log.csv", EPISODES, ["p", "q"])
    conrl.ConRL(TASK).save("learner.npz")


def test_every_public_name_is_tried() -> None:
    assert {name.split(".")[0].rstrip("()") for name in CALLS} | EXEMPT >= set(conrl.__all__)
    for name, call in CALLS.items():
        parameters = inspect.signature(call.function).parameters.values()
        named = {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
        assert set(call.given) <= named or any(p.kind == p.VAR_KEYWORD for p in parameters), name
        if "." not in name:
            assert named <= set(call.given), f"{name}: {named - set(call.given)} is not tried"


def attempt(call: Call, given: dict[str, Any]) -> str | None:
    """What went wrong in the wrong way."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            call.then(call.function(**given))
        except conrl.ConRLError as error:
            return None if "\n" not in str(error) and str(error) else f"not one line: {error!r}"
        except BaseException as error:
            return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("name", CALLS)
def test_what_makes_no_sense_is_refused_in_one_line(name: str) -> None:
    call = CALLS[name]
    assert attempt(call, call.given) is None
    faults = []
    for argument in call.given:
        for kind, value in WRONG.items():
            if callable(value) and (name, argument) in CALLBACKS:
                continue  # what it raises when it is called is its own
            fault = attempt(call, call.given | {argument: value})
            if fault is not None:
                faults.append(f"{argument}={kind}: {fault[:150]}")
    assert not faults, "\n".join(faults)


def test_an_argument_that_does_not_exist_is_a_type_error() -> None:
    for name in ("plan", "simulate", "frontier", "evaluate", "learn"):
        call = CALLS[name]
        with pytest.raises(TypeError, match="unexpected keyword argument 'n'"):
            call.function(**call.given, n=3)

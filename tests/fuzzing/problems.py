"""Tasks, problems and parameters."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import conrl
from fuzzing.doors import Broken, call, command, door
from fuzzing.spoiling import TIMES, odd, odd_count, odd_flag, odd_number


class FewSteps(NamedTuple):
    log: conrl.Log
    policy: conrl.Policy


@cache
def _few_steps() -> FewSteps:
    """A log of a few short episodes, and what wrote it."""
    world = conrl.envs.make("inventory")
    table = np.repeat((world.available / world.available.sum(axis=1, keepdims=True))[None], world.horizon, axis=0)
    policy = conrl.Policy(table)
    return FewSteps(conrl.sample_log(world, policy, 20, 0), policy)


@door("numbers", 2)
def numbers(r: random.Random, folder: Path) -> None:
    """Tasks, problems and parameters that make no sense."""
    box = conrl.envs.box()
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: conrl.plan(box, conrl.Linear([odd_number(r)])),
        lambda: conrl.plan(box, conrl.Linear([0.5], floors=[odd_number(r)])),
        lambda: conrl.plan(box, conrl.Knapsack([odd_number(r)], episodes=odd_number(r))),
        lambda: conrl.plan(box, tol=odd_number(r)),
        lambda: conrl.plan(box, tol=odd_number(r), deterministic=odd_flag(r), time_limit=r.choice(TIMES)),
        lambda: conrl.frontier(box, cost=odd_number(r)),
        lambda: conrl.plan(box, conrl.Linear(never={"corner": odd_number(r)})),
        lambda: conrl.plan(box, conrl.Linear(chance={"corner": (odd_number(r), odd_number(r))})),
        lambda: conrl.plan(box, conrl.Linear(cvar={"corner": (odd_number(r), odd_number(r))}, grid=odd_number(r))),
        lambda: conrl.frontier(box, chance={"corner": odd_number(r)}),
        lambda: conrl.distribution(box, conrl.plan(box), odd_number(r)).exceed(odd_number(r)),
        lambda: conrl.ScaledBonus(odd_number(r), odd_number(r)),
        lambda: conrl.Lagrangian(odd_number(r), odd_number(r)),
        lambda: conrl.learn(box, conrl.ConRL(box.task), odd_count(r), seed=odd_number(r)),
        lambda: conrl.Task(odd_number(r), 2, 3, [1.0], ["c"]),
        lambda: conrl.plan(box.replace(horizon=conrl.Discounted(odd_number(r)))),
        lambda: conrl.plan(
            box.replace(horizon=r.choice((conrl.Average(), conrl.Total(), conrl.Discounted(0.9)))), [odd_number(r)]
        ),
        lambda: conrl.evaluate(box.replace(horizon=conrl.Average()), conrl.Stationary([[odd_number(r)] * 4] * 121)),
        lambda: command(
            "plan", "box", r.choice(("--discount", "--horizon")), odd(r), *r.choice(((), ("--average",), ("--total",)))
        ),
        lambda: conrl.simulate(box, conrl.plan(box), episodes=odd_count(r), seed=odd_number(r)),
        lambda: conrl.assess(_few_steps().policy, _few_steps().log, [odd_number(r)], level=odd_number(r)),
        lambda: conrl.assess(_few_steps().policy, _few_steps().log, draws=odd_count(r), seed=odd_number(r)),
        lambda: conrl.plan(conrl.estimate(_few_steps().log), [odd_number(r)], confidence=odd_number(r)),
        lambda: conrl.plan(
            conrl.estimate(_few_steps().log), [1.0], confidence=0.5, use_unseen=odd_flag(r), seed=odd_number(r)
        ),
        lambda: _few_steps().log.split(odd_number(r), odd_number(r)),
        lambda: conrl.sample_log(box, conrl.plan(box), odd_count(r), odd_number(r)),
        lambda: conrl.Episode([0, odd_number(r)], [0], [odd_number(r)], [[odd_number(r)]]),
    )
    call(r.choice(kinds), TypeError)


@cache
def _models() -> tuple[conrl.ConstrainedMDP, ...]:
    """Small ones: the box, one with several costs, one by step, and one without a horizon."""
    several = conrl.envs.random_cmdp(4, 2, 3, 2, horizon=4)
    stepped = conrl.envs.make("pricing-hours", traffic=[0.5] * 6, worth=[0.0] * 6)
    return conrl.envs.box(), several, stepped, several.replace(horizon=conrl.Discounted(0.8))


def _bounds(mdp: conrl.ConstrainedMDP, r: random.Random) -> Any:
    """Something like limits: by name, in order, or nonsense."""
    x = r.choice((0, 0.1, 1, 2.5, 10, odd_number(r)))
    name = r.choice((*mdp.cost_names, *mdp.cost_names, odd(r)))
    return r.choice(({name: x}, {name: x}, [x] * mdp.num_costs, None, None, x, {name: [x] * 4}))


@door("problems", 4)
def problems(r: random.Random, folder: Path) -> None:
    """All that a problem may ask for at once, asked of every kind of model by everything that plans."""
    mdp = r.choice(_models())
    name = r.choice((*mdp.cost_names, *mdp.cost_names, odd(r)))
    levels = r.choice((0.9, 0.5, 1.0, odd_number(r))), r.choice((0.05, 0.5, odd_number(r)))
    amounts = r.choice((0, 1, 2.5, odd_number(r))), r.choice((1, 4, odd_number(r)))
    parts: dict[str, Any] = {
        "limits": _bounds(mdp, r),
        "floors": r.choice((None, None, _bounds(mdp, r))),
        "per_step": r.choice((None, {name: amounts[0]}, {name: [amounts[0]] * r.choice((4, 6, 10, 3))}, odd_number(r))),
        "never": r.choice((None, {name: amounts[0]}, _bounds(mdp, r))),
        "chance": r.choice((None, {name: (amounts[0], levels[1])}, {name: [(0, 0.5), (1, levels[1])]}, odd_number(r))),
        "cvar": r.choice((None, {name: (levels[0], amounts[1])}, {name: odd_number(r)}, [odd_number(r)])),
        "grid": r.choice((None, None, 0.5, {name: 0.25}, odd_number(r), {name: odd_number(r)})),
    }
    for part in r.sample(list(parts), 4):
        parts[part] = None

    def work() -> None:
        problem = conrl.Linear(**parts)
        kind = r.randrange(8)
        if kind == 0:
            conrl.frontier(mdp, r.choice((*mdp.cost_names, None, 0)), limits=problem, max_vertices=4)
        elif kind == 1:
            conrl.feasibility(mdp, problem)
        elif kind == 2:
            conrl.plan(mdp, problem, r.choice(("linear-program", "lagrangian", "convex-program", odd(r))))
        elif kind == 3:
            conrl.plan(mdp, problem, deterministic=True, time_limit=0.1)
        elif kind == 4:
            conrl.learn(mdp, conrl.ConRL(mdp.task, problem=problem), 1, seed=0)
        else:
            plan = conrl.plan(mdp, problem)
            for row in plan.rows:
                if row.excess > row.allowance and plan.status in ("optimal", "bracketed"):
                    raise Broken(f"{row.name} is exceeded by {row.excess}")
            conrl.simulate(mdp, plan, 2, steps=None if isinstance(mdp.horizon, int) else 4)

    call(work)

"""Tasks, problems and parameters."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import conrl
from fuzzing.doors import call, command, door
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

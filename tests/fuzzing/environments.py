"""Environments and functions of the user's own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import conrl
from fuzzing.doors import call, door
from fuzzing.spoiling import odd_number


class Misbehaving(gym.Env[Any, Any]):
    """An environment that breaks the protocol in one place."""

    def __init__(self, r: random.Random) -> None:
        self.observation_space = r.choice(
            (gym.spaces.Discrete(3), gym.spaces.Discrete(3, start=2), gym.spaces.Box(0, 1))
        )
        self.action_space = r.choice((gym.spaces.Discrete(2), gym.spaces.Discrete(2), gym.spaces.MultiDiscrete([2, 2])))
        self.fault = r.randrange(14)
        self.odd = odd_number(r)
        self.when = r.randint(0, 4)
        self.steps = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.steps = 0
        return {0: 7, 1: None, 2: (0,), 3: self.odd}.get(self.fault, 0) if self.fault != 4 else (0, {}, 1), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps < self.when:
            return 1, 0.0, False, False, {"costs": [0.0]}
        answers: dict[int, Any] = {
            5: (99, 0.0, False, False, {"costs": [0.0]}),
            6: (1, self.odd, False, False, {"costs": [0.0]}),
            7: (1, 0.0, False, False, {"costs": [self.odd]}),
            8: (1, 0.0, False, False, {"costs": [0.0, 0.0]}),
            9: (1, 0.0, False, False, {}),
            10: (1, 0.0, False),
            11: (1, 0.0, self.odd, False, {"costs": [0.0]}),
            12: (1, 0.0, False, False, self.odd),
            13: (1, 0.0, True, True, {"costs": "x"}),
        }
        if self.fault in answers:
            return answers[self.fault]
        raise RuntimeError("the simulator broke")


@door("environment", 2)
def environment(r: random.Random, folder: Path) -> None:
    env = Misbehaving(r)

    def work() -> None:
        task = conrl.Task.from_gymnasium(env, horizon=5, limits=[1.0], cost_names=["c"])
        conrl.learn(env, conrl.ConRL(task), 2, seed=0)

    call(work, RuntimeError)


@door("functions", 1)
def functions(r: random.Random, folder: Path) -> None:
    """Functions of the user's own that raise or answer nonsense."""
    box = conrl.envs.box()
    answer: Any = r.choice((np.nan, "x", None, [], np.zeros(3), -1.0, 1e308, RuntimeError("mine")))

    def function(*given: Any, **named: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def work() -> None:
        kind = r.randrange(4)
        if kind == 0:
            conrl.learn(box, conrl.ConRL(box.task, bonus=function), 2, seed=0)
        elif kind == 1:
            conrl.learn(box, conrl.ConRL(box.task), 2, seed=0, pay=function)
        elif kind == 2:
            conrl.plan(box, conrl.ConcaveConvex(objective=function))
        else:
            conrl.plan(box, conrl.ConcaveConvex(objective=lambda x: x, constraint=function))

    call(work, RuntimeError)

"""Wrappers over spaces and environments that lie, and models that Gymnasium's toy environments claim to be."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import conrl
from fuzzing.doors import call, door
from fuzzing.spoiling import odd, odd_count, odd_number

HUGE = 2**62


def space(r: random.Random, depth: int = 0) -> Any:
    """A space of any kind, some without a finite number of points, or with far too many."""
    kinds: list[Callable[[], Any]] = [
        lambda: spaces.Discrete(r.choice((1, 3, 5, HUGE)), start=r.choice((0, 0, -2, 7))),
        lambda: spaces.MultiDiscrete(np.array(r.choice(([2, 3], [[2, 2], [1, 3]], [10**6] * 9, [1])))),
        lambda: spaces.MultiBinary(r.choice((2, 80, [2, 2]))),
        lambda: spaces.Box(0, r.choice((1, 3, 255)), (2,), r.choice((np.int8, np.uint8, np.int64))),
        lambda: spaces.Box(
            np.array([-1, r.choice((-np.inf, -5))], np.float32), np.array([1, r.choice((np.inf, 5))], np.float32)
        ),
        lambda: spaces.Box(-3.4e38, 3.4e38, (r.choice((1, 3)),)),
        lambda: spaces.Box(0.0, 1.0, r.choice(((), (0,), (2, 2)))),
        lambda: spaces.Text(3),
    ]
    if depth < 3:
        kinds += [
            lambda: spaces.Tuple([space(r, depth + 1) for _ in range(r.choice((0, 1, 2)))]),
            lambda: spaces.Dict({name: space(r, depth + 1) for name in r.sample(("a", "b", "ü"), r.choice((0, 1, 2)))}),
        ]
    try:
        return r.choice(kinds)()
    except (ValueError, AssertionError, OverflowError):  # no such space
        return spaces.Discrete(2)


class Spaces(gym.Env[Any, Any]):
    """An environment of any spaces that answers with points of them, and now and then with something else."""

    def __init__(self, r: random.Random) -> None:
        self.observation_space, self.action_space = space(r), r.choice((spaces.Discrete(2), space(r)))
        self.reward_space = r.choice((spaces.Box(-1.0, 1.0, (3,)), spaces.Box(-np.inf, np.inf, (2,)), None, space(r)))
        size = getattr(self.reward_space, "shape", None) or ()
        odd_point: Any = r.choice((odd_number(r), None, (), {}, np.zeros(9), np.array("x"), [1, [2]]))
        self.point = odd_point if r.random() < 0.2 else self.observation_space.sample()
        self.reward: Any = r.choice((0.5, np.zeros(size), np.zeros(size), odd_number(r), [0.0, [1.0]]))
        self.info: Any = r.choice(({"costs": [0.5]}, {"cost": 1.0}, {}, {"costs": [odd_number(r)]}, {"cost": None}))
        self.ends = r.choice((True, False, False))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.point, {}

    def step(self, action: Any) -> Any:
        return self.point, self.reward, self.ends, False, self.info


@door("wrappers", 4)
def wrappers(r: random.Random, folder: Path) -> None:
    """Numbered, discretize and MultiObjective, alone and over each other, then learning."""
    env: Any = Spaces(r)
    bins: Any = r.choice(
        (2, 3, 10**9, odd_number(r), [2, 3], [[0.0, 0.5], 2], {0: 3}, {"x": 2}, [[odd_number(r)]], odd(r))
    )
    by = r.choice(("range", "range", "quantiles", odd(r)))
    names = r.choice((None, None, ["a", "b"], ["a", "a"], odd_number(r), [odd(r)]))
    component, sign = r.choice((0, 1, 9, odd_number(r))), r.choice((-1, 1, 0, odd_number(r)))
    costs: Any = r.choice(({"c": component}, {"c": 1, "d": component}, {}, None, odd_number(r), {odd(r): 0}))
    signs: Any = r.choice((None, {"c": sign}, {"x": 1}, odd_number(r)))
    layers: tuple[Callable[[Any], Any], ...] = (
        conrl.envs.Numbered,
        conrl.envs.Numbered,
        lambda inner: conrl.discretize(
            inner, bins, by, r.choice((2, 2, odd_count(r))), r.choice((0, odd_count(r))), names
        ),
        lambda inner: conrl.envs.MultiObjective(inner, r.choice((0, 0, component)), costs, signs),
        lambda inner: conrl.envs.Discretized(
            inner, r.choice((conrl.Cells([[0.5]] * 2), conrl.Cells([[0.5]]), odd_number(r)))
        ),
        lambda inner: inner,
    )
    chosen = [r.choice(layers) for _ in range(r.choice((1, 1, 2, 3)))]

    def work() -> None:
        wrapped = env
        for layer in chosen:
            wrapped = layer(wrapped)
        task = conrl.Task.from_gymnasium(
            wrapped, horizon=4, limits=r.choice(([1.0], {"c": 1.0}, [odd_number(r)], None))
        )
        if task.num_states * task.num_actions > 10_000:  # sound, and too large for a case
            return
        conrl.learn(wrapped, conrl.ConRL(task), 2, seed=0)

    call(work)


class Toy(gym.Env[Any, Any]):
    """What claims to be a toy environment: `P[s][a]` lists (probability, next state, reward, terminated)."""

    def __init__(self, r: random.Random) -> None:
        self.observation_space, self.action_space = spaces.Discrete(3), spaces.Discrete(2)
        self.P: Any = {
            s: {a: [(0.5, (s + a) % 3, 1.0, False), (0.5, 2, 0.0, s == 2)] for a in (0, 1)} for s in range(3)
        }
        for _ in range(r.choice((0, 1, 1, 2))):
            s, a = r.randrange(3), r.randrange(2)
            kind = r.randrange(7)
            if kind == 0:
                self.P[s][a] = r.choice(([], None, odd_number(r), [()], [(1.0, 0)], "x", [(1.0, 0, 1.0, False)] * 3))
            elif kind == 1:
                self.P.pop(s, None)
                break
            elif kind == 2:
                del self.P[s][a]
                break
            elif kind == 3:
                self.P = odd_number(r)
                break
            else:
                outcome: list[Any] = list(self.P[s][a][0]) if self.P[s][a] and isinstance(self.P[s][a], list) else [1]
                outcome[r.randrange(len(outcome))] = odd_number(r)
                self.P[s][a] = [tuple(outcome), *(self.P[s][a] or [0])[1:]] if isinstance(self.P[s][a], list) else []
        self.initial_state_distrib = r.choice(
            (np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.0]), odd_number(r), [1, 2])
        )

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:
        return 0, 0.0, False, False, {}


@door("toy-models", 2)
def toy_models(r: random.Random, folder: Path) -> None:
    """`from_gymnasium` of transition tables that lie, with cost functions that do."""
    answer: Any = r.choice((0.0, 1.0, [1.0, 2.0], odd_number(r), RuntimeError("mine")))

    def cost(*given: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def work() -> None:
        made = conrl.from_gymnasium(
            Toy(r),
            cost=r.choice((None, cost, cost, odd_number(r))),
            horizon=r.choice((5, 5, 5, odd_number(r))),
            limits=r.choice((None, [9.0], [odd_number(r)])),
            initial=r.choice((None, None, 1, odd_number(r))),
        )
        if isinstance(made.horizon, int) and made.horizon > 100_000:  # sound, and too large for a case
            return
        conrl.plan(made)

    call(work, RuntimeError)

"""Observations and actions of several discrete parts, numbered: `Numbered(env)`.

A space that is `Discrete`, `MultiDiscrete`, `MultiBinary`, a `Box` of whole numbers, or a `Tuple` or `Dict` of such, to
any depth, is a list of whole numbers x_0, .., x_m, each in low_i .. low_i + n_i - 1. Its number is the mixed radix

    ((x_0 - low_0) n_1 + (x_1 - low_1)) n_2 + ...

in the order of the space: arrays row by row, the parts of a `Dict` in the order in which Gymnasium holds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from conrl._types import Int
from conrl.arguments import is_int
from conrl.errors import ModelError, RunError, SpecError, shown
from conrl.model.cells import check_product


class _Leaf(NamedTuple):
    """A part of a space that has no parts itself."""

    path: tuple[int | str, ...]
    space: Any
    low: Int  # [n]
    size: Int  # [n]


class Numbering:
    """The points of a space as 0, 1, .., size - 1; `what` says whose space it is, in messages."""

    def __init__(self, space: Any, what: str = "observation") -> None:
        self.space, self._what = space, what
        self._leaves = list(_leaves(space, (), what))
        self.sizes: tuple[int, ...] = tuple(int(n) for leaf in self._leaves for n in leaf.size)
        names = [_name(leaf, i) for leaf in self._leaves for i in range(leaf.size.size)]
        remedy = "leave parts out with a wrapper, or cut them into fewer cells with conrl.discretize(env, bins=...)"
        try:
            check_product(self.sizes, names, remedy)
        except ModelError as error:
            raise ModelError(f"the {what} space has {error}") from None
        self.size = int(np.prod(np.array(self.sizes, dtype=object))) if self.sizes else 1

    def number(self, point: Any) -> int:
        """The number of a point of the space."""
        if not self.space.contains(point):
            if self._what == "action":
                raise SpecError(f"the action {shown(point)} is not in the environment's space, {shown(self.space)}")
            raise RunError(f"the environment gave the {self._what} {shown(point)}, which is not in its space")
        code = 0
        for leaf in self._leaves:
            x = np.asarray(_at(point, leaf.path)).reshape(-1)
            for value, low, size in zip(x.tolist(), leaf.low.tolist(), leaf.size.tolist(), strict=True):
                code = code * size + (int(value) - low)
        return code

    def decode(self, number: int) -> Any:
        """The point of a number, as the space holds it."""
        if not is_int(number) or not 0 <= number < self.size:
            raise SpecError(f"{self._what} {shown(number)} is not in 0..{self.size - 1}")
        digits: list[int] = []
        rest = int(number)
        for size in reversed(self.sizes):
            rest, digit = divmod(rest, size)
            digits.append(digit)
        return _built(self.space, iter(reversed(digits)), iter(self._leaves))


class Numbered(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose observations and actions are numbered from 0, as learners need them.

    `decode(state)` and `decode_action(action)` give back what the environment itself sees; `number(observation)` and
    `number_action(action)` are the other way round.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        if not isinstance(env, gymnasium.Env):
            raise SpecError(f"Numbered needs a Gymnasium environment, not {type(env).__name__}")
        super().__init__(env)
        self._seen = Numbering(env.observation_space, "observation")
        self._done = Numbering(env.action_space, "action")
        self.observation_space = spaces.Discrete(self._seen.size)
        self.action_space = spaces.Discrete(self._done.size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._seen.number(observation), info

    def step(self, action: Any) -> tuple[int, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(self._done.decode(action))
        return self._seen.number(observation), reward, terminated, truncated, info

    def decode(self, state: int) -> Any:
        """The observation that a state stands for."""
        return self._seen.decode(state)

    def decode_action(self, action: int) -> Any:
        """What the environment takes for an action."""
        return self._done.decode(action)

    def number(self, observation: Any) -> int:
        """The state that an observation is."""
        return self._seen.number(observation)

    def number_action(self, action: Any) -> int:
        """The number of what the environment takes for an action."""
        return self._done.number(action)


def _leaves(space: Any, path: tuple[int | str, ...], what: str) -> Iterator[_Leaf]:
    """The parts of a space in order; refuses what has no finite number of values."""
    if isinstance(space, (spaces.Tuple, spaces.Dict)):
        for key, part in space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
            yield from _leaves(part, (*path, key), what)
        return
    if isinstance(space, spaces.Discrete):
        low, size = np.array([int(space.start)]), np.array([int(space.n)])
    elif isinstance(space, spaces.MultiDiscrete):
        low, size = np.ravel(space.start).astype(np.int64), np.ravel(space.nvec).astype(np.int64)
    elif isinstance(space, spaces.MultiBinary):
        size = np.full(int(np.prod(space.shape)), 2)
        low = np.zeros_like(size)
    elif isinstance(space, spaces.Box) and np.dtype(space.dtype).kind in "iub":
        low = np.ravel(space.low).astype(object)
        size = np.ravel(space.high).astype(object) - low + 1  # an int64 from end to end has no such size
    else:
        where = "".join(f"[{key!r}]" for key in path)
        kind = " ".join(str(space).split())
        few = isinstance(space, spaces.Box) and what == "observation" and not path
        remedy = "use conrl.discretize(env, bins=10)" if few else "leave it out, or cut it into cells, with a wrapper"
        raise ModelError(f"the {what} space{where} is {shown(kind)[1:-1]}, which has no whole numbers: {remedy}")
    yield _Leaf(path, space, low, size)


def _name(leaf: _Leaf, i: int) -> str:
    where = ".".join(map(str, leaf.path))
    return where if leaf.size.size == 1 and where else f"{where}[{i}]"


def _at(point: Any, path: tuple[int | str, ...]) -> Any:
    for key in path:
        point = point[key]
    return point


def _built(space: Any, digits: Iterator[int], leaves: Iterator[_Leaf]) -> Any:
    """The point of a space whose parts have these digits, in order."""
    if isinstance(space, spaces.Tuple):
        return tuple(_built(part, digits, leaves) for part in space.spaces)
    if isinstance(space, spaces.Dict):
        return {key: _built(part, digits, leaves) for key, part in space.spaces.items()}
    leaf = next(leaves)
    values = [int(low) + next(digits) for low in leaf.low.tolist()]
    if isinstance(space, spaces.Discrete):
        return space.dtype.type(values[0])
    return np.array(values).reshape(space.shape).astype(space.dtype)

"""Smooth concave objectives of the mean pay per step, for learners of one unending episode."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import float_array
from conrl.errors import SpecError, shown


@runtime_checkable
class Objective(Protocol):
    """A smooth concave function of the mean (reward, costs) per step."""

    def value(self, w: Float) -> float:
        """g(w)."""

    def gradient(self, w: Float) -> ArrayLike:
        """[1+d]: grad g(w)."""


class Functions(NamedTuple):
    """An objective as a pair of functions of w [1+d]."""

    value: Callable[[Float], float]
    gradient: Callable[[Float], ArrayLike]


@dataclasses.dataclass(frozen=True, eq=False)
class Penalised:
    """g(w) = 1/2 (reward_weight w_0 - penalty_weight / 2 sum_k max(w_k - targets_k, 0)^2): L_1 and L_0 of the paper."""

    targets: Float  # [1+d]; inf for none
    reward_weight: float = 1e-4
    penalty_weight: float = 1.0

    def value(self, w: Float) -> float:
        over = np.maximum(w - self.targets, 0.0)
        return 0.5 * (self.reward_weight * float(w[0]) - 0.5 * self.penalty_weight * float(over @ over))

    def gradient(self, w: Float) -> Float:
        theta: Float = -0.5 * self.penalty_weight * np.maximum(w - self.targets, 0.0)
        theta[0] += 0.5 * self.reward_weight
        return theta


def read_objective(given: Any, size: int) -> Objective:
    """An objective of `size` means from what was passed as one."""
    if isinstance(given, Penalised):
        targets = float_array(given.targets, "targets")
        if targets.shape != (size,):
            raise SpecError(f"targets has shape {targets.shape}; expected ({size},): reward and costs per step")
    if isinstance(given, Objective) and callable(given.value) and callable(given.gradient):
        return given
    if isinstance(given, tuple):
        if len(given) != 2 or not all(callable(f) for f in given):
            raise SpecError("objective is a tuple; it must be a pair of functions, of value and gradient")
        return Functions(*given)
    raise SpecError(
        f"objective is {shown(given)}; it must have value(w) and gradient(w), or be a pair of such functions"
    )

"""What the built-in models share: checked parameters, and two distributions.

A *drift* is the chain of a level (of demand, of competition) in 0..n-1: it stays with probability `persistence`,
else it moves to a neighbour, to either with the same probability; at an end to the one there is. A single level
stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import float_array, is_number, read_count
from conrl.errors import ModelError, shown
from conrl.model.reading import check_distribution


def drift(count: int, persistence: float) -> Float:
    """[n, n]: the probabilities of the next level."""
    beside = np.eye(count, k=1) + np.eye(count, k=-1)
    ways = np.maximum(beside.sum(axis=1, keepdims=True), 1.0)
    chain = persistence * np.eye(count) + (1.0 - persistence) * beside / ways
    return chain if count > 1 else np.ones((1, 1))


def binomial(trials: int, success: float) -> Float:
    """[n+1]: the probabilities of 0..n successes. Adding one trial at a time, large n neither overflow nor cancel."""
    p = np.ones(1)
    for _ in range(trials):
        p = np.convolve(p, (1.0 - success, success))
    return p


def read_size(value: Any, what: str, least: int = 1) -> int:
    """A whole number: how many of something the model has. What is too large together is refused later."""
    return read_count(value, what, least, math.inf, ModelError)


def read_probability(value: Any, what: str) -> float:
    if not is_number(value) or not 0.0 <= value <= 1.0:
        raise ModelError(f"{what} is {shown(value)}; it must be a probability, from 0 to 1")
    return float(value)


def read_number(value: Any, what: str, *, least: float = -np.inf, positive: bool = False) -> float:
    if not is_number(value) or value < least or (positive and value <= 0.0):
        bound = " above 0" if positive else f" of at least {least:g}" if np.isfinite(least) else ""
        raise ModelError(f"{what} is {shown(value)}; it must be a finite number{bound}")
    return float(value)


def read_named(given: Any, what: str, read: Callable[[Any, str], float] = read_number) -> tuple[list[str], Float]:
    """Names and numbers of a mapping such as {"low": 30, "high": 70}; `read` checks each number."""
    if not isinstance(given, Mapping) or not given:
        raise ModelError(
            f'{what} is {shown(given)}; it must name at least one number, as {{"low": 0.2, "high": 0.7}} does'
        )
    return [str(name) for name in given], np.array([read(x, f"{what}[{name!r}]") for name, x in given.items()])


def read_distribution(given: ArrayLike | None, what: str, count: int | None = None) -> Float:
    """Probabilities [n], of a given or any number; None is the uniform distribution."""
    if given is None and count is not None:
        return np.full(count, 1.0 / count)
    p = float_array(given, what)
    if p.ndim != 1 or p.size == 0 or p.size != (count or p.size):
        raise ModelError(f"{what} has shape {p.shape}; expected {count or 'some'} probabilities")
    check_distribution(p, what)
    return p

"""Limits and floors by name or by position, and what a total may differ from its limit by rounding alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import float_array
from conrl.errors import ModelError, shown, unknown

ROUNDING = 1e-9  # of a total, in proportion


def resolve_limits(limits: ArrayLike | Mapping[str, float] | None, cost_names: Sequence[str], what: str) -> Float:
    """[d] from a list or a mapping by cost name, in an array of its own. Absent: +inf for limits, -inf for floors."""
    none = -np.inf if what == "floors" else np.inf
    d = len(cost_names)
    if limits is None:
        return np.full(d, none)
    if isinstance(limits, Mapping):
        values = np.full(d, none)
        place = {name: i for i, name in enumerate(cost_names)}
        for name, limit in limits.items():
            if name not in place:
                raise ModelError(unknown("cost", str(name), cost_names))
            number = _limit_array(none if limit is None else limit, f"{what}[{name!r}]")
            if number.ndim:
                raise ModelError(f"{what}[{name!r}] is {shown(limit)}; expected one number")
            values[place[name]] = number
    else:
        given = [none if x is None else x for x in limits] if isinstance(limits, (list, tuple)) else limits
        values = _limit_array(given, what).copy()
        if values.ndim == 0 and d == 1:
            values = values[None]  # one cost, one number
    if values.shape != (d,):
        raise ModelError(
            f"{what} has shape {values.shape}; the model has {d} cost{'s' * (d != 1)}, so it must have shape ({d},)"
        )
    bad = np.flatnonzero(np.isnan(values) | (values == -none))
    if bad.size:
        raise ModelError(
            f"{what[:-1]} of cost {cost_names[bad[0]]!r} is {values[bad[0]]}; it must be a number, or {none} for none"
        )
    return values


def size_of(aim: Float, largest: Float) -> Float:
    """What a share of a limit or an optimum is a share of: its size, so that units do not matter; of 0, the largest."""
    size: Float = np.where(aim == 0.0, largest, np.where(np.isfinite(aim), np.abs(aim), 0.0))
    return size


def rounding_room(limits: Float, largest: Float) -> Float:
    """[d]: what a total may exceed its limit by, by rounding alone: 30 costs of 1/30 are not above a limit of 1."""
    return ROUNDING * size_of(limits, largest)


def _limit_array(values: Any, what: str) -> Float:
    """Numbers; a truth value is a slip, as `Linear(True)` would otherwise be a limit of 1."""
    for value in values if isinstance(values, (list, tuple)) else (values,):
        if isinstance(value, (bool, np.bool_)) or getattr(value, "dtype", None) == np.bool_:
            raise ModelError(f"{what} holds {shown(value)}, a truth value; give a number, or None for none")
    return float_array(values, what)

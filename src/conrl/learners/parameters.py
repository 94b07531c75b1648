"""Reading the parameters of learners: presets, positive numbers, failure probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conrl.errors import SpecError, shown
from conrl.inputs import is_number, read_choice


def read_preset(presets: Mapping[str, Mapping[str, Any]], preset: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a preset, each replaced by what was given instead; None is nothing given."""
    read_choice(preset, "preset", presets)
    return {name: value if given[name] is None else given[name] for name, value in presets[preset].items()}


def read_positive(value: Any, name: str, zero: bool = False) -> float:
    """A finite number above 0, or of at least 0."""
    if not is_number(value) or value < 0.0 or (value == 0.0 and not zero):
        raise SpecError(f"{name} is {shown(value)}; it must be a number {'of at least' if zero else 'above'} 0")
    return float(value)


def read_delta(delta: Any) -> float:
    """A failure probability."""
    if not is_number(delta) or not 0.0 < delta <= 1.0:
        raise SpecError(f"delta is {shown(delta)}; a failure probability is in (0, 1]")
    return float(delta)

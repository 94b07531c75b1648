"""A short share of `make fuzz`: hostile input at every door ends in success or in a line."""

from __future__ import annotations

import random

import pytest
from fuzz import attempt, cases
from fuzzing.commands import commands, untried, words_for
from fuzzing.doors import DOORS

SHARE = 400


@pytest.mark.parametrize("door", DOORS)
def test_hostile_input_ends_well(door: str) -> None:
    mine = [case for name, case in cases(SHARE) if name == door]
    assert mine
    for case in mine:
        problem = attempt(door, 1_000_000 + case)  # others than those of `make fuzz`
        assert problem is None, f"--door {door} --case {1_000_000 + case}\n{problem}"


def test_every_command_and_option_is_tried() -> None:
    """Those that click has: a new one needs no door of its own, only sound values, where its type does not say them."""
    assert untried() == []
    r = random.Random(0)
    for name, one in commands().items():
        drawn = {word for _ in range(3_000) for word in words_for(name, r)}
        missing = [max(p.opts, key=len) for p in one.params if max(p.opts, key=len).startswith("--")]
        assert set(missing) - drawn <= {"--help"}, name

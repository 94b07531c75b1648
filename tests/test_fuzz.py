"""A short share of `make fuzz`: hostile input at every door ends in success or in a line."""

from __future__ import annotations

import pytest
from fuzz import attempt, cases
from fuzzing.doors import DOORS

SHARE = 400


@pytest.mark.parametrize("door", DOORS)
def test_hostile_input_ends_well(door: str) -> None:
    mine = [case for name, case in cases(SHARE) if name == door]
    assert mine
    for case in mine:
        problem = attempt(door, 1_000_000 + case)  # others than those of `make fuzz`
        assert problem is None, f"--door {door} --case {1_000_000 + case}\n{problem}"

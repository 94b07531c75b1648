"""How large what comes from outside may be. Each bound has its reason here; what is larger is refused before memory
is taken for it.

Two of them are of this machine rather than of the method, and an environment variable raises them:

    CONRL_MAX_TABLE       entries of a policy, steps x states (400,000,000), or of a table from a file (100,000,000)
    CONRL_MAX_ARCHIVE     bytes that the arrays of a small .npz file may take (268,435,456)
"""

from __future__ import annotations

import os

from conrl.errors import ModelError, shown

MAX_HORIZON = 10**7  # steps are computed one after the other, and arrays have an entry for each
MAX_COSTS = 10**4  # the planner's small program has a row a cost, and solves with (d+1) x (d+1) numbers: 800 MB
MAX_POLICY = 4 * 10**8  # entries, steps x states: of large models a byte each, else planning takes 5
MAX_TABLE = 10**8  # entries of a table of numbers, and states that are counted up: 8 bytes each
MAX_ARCHIVE = 2**28  # of a small file; one that is at most so many times smaller than its arrays is not small:
COMPARABLE = 16


def most(variable: str, usual: int) -> int:
    """A bound: the usual one, unless the environment says otherwise."""
    text = os.environ.get(variable)
    if text is None:
        return usual
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ModelError(f"{variable} is {shown(text)}; it must be a whole number")
    return int(text)


def check_table(horizon: int, num_states: int) -> None:
    """Refuse a model whose policies have too many entries: each has an action for every step and state."""
    bound = most("CONRL_MAX_TABLE", MAX_POLICY)
    if horizon * num_states > bound:
        raise ModelError(
            f"a policy of {horizon:,} steps in {shown(num_states)} states has {shown(horizon * num_states)} entries; "
            f"at most {bound:,} are planned with: take fewer steps or states, or set CONRL_MAX_TABLE"
        )


def check_costs(count: int) -> None:
    """Refuse more costs than can be planned with."""
    if count > MAX_COSTS:
        raise ModelError(f"{count:,} costs; at most {MAX_COSTS:,} are supported: add up those that share a limit")


def check_archive(needed: int, size: int) -> None:
    """Refuse a file of `size` bytes whose arrays would take `needed`."""
    bound = most("CONRL_MAX_ARCHIVE", MAX_ARCHIVE)
    if needed > max(bound, COMPARABLE * size):
        raise ModelError(
            f"its arrays would take {needed:,} bytes from a file of {size:,}; at most {bound:,}, or {COMPARABLE} times "
            "the file, are read: save them uncompressed (np.savez), or set CONRL_MAX_ARCHIVE"
        )

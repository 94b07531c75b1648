"""What to log next: the pairs whose uncertainty moves a total most.

To first order a total is off by the sum over pairs of (visits of the policy) x (error of c + V(s') at the pair), and
pairs are independent: its variance is a sum, and a pair's share of that sum is what more data about it could remove.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conrl.estimation.deviations import Deviations
from conrl.model import ConstrainedMDP

MOST = 10  # pairs listed


class Need(NamedTuple):
    """A pair of which more data would help."""

    state: str
    action: str
    step: int | None  # where every step has pairs of its own
    visits: int  # in the log
    share: float  # of the variance of the total

    def __str__(self) -> str:
        then = "" if self.step is None else f" at step {self.step}"
        times = "never seen" if self.visits == 0 else f"seen {self.visits:,} time{'s' * (self.visits != 1)}"
        return f"{self.action!r} in {self.state!r}{then} ({times})"


def ranked(mdp: ConstrainedMDP, found: Deviations, column: int) -> tuple[Need, ...]:
    """The pairs with the largest shares, largest first."""
    assert mdp._visits is not None
    moved = (found.visits * found.deviation[:, column]) ** 2
    total = float(moved.sum())
    order = np.argsort(-moved, kind="stable")[:MOST]
    return tuple(
        Need(
            mdp.state_name(int(mdp.pair_state[k])),
            mdp.action_name(int(mdp.action[k])),
            int(mdp.pair_step[k]) if mdp.step_dependent else None,
            int(mdp._visits[k]),
            float(moved[k]) / total,
        )
        for k in order.tolist()
        if moved[k] > 0.0
    )

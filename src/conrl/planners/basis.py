"""What a plan of an estimated model rests on: how many steps were seen, and how often the pairs that it uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from conrl._types import Float
from conrl.model import ConstrainedMDP
from conrl.policy import Policy

SELDOM = 30  # visits: of a pair with fewer, little is known


class Basis(NamedTuple):
    """The data behind an estimate, and how a policy leans on it."""

    steps: int  # of the data
    seldom: float  # share of the policy's steps whose pair was seen fewer than SELDOM times
    unseen: float  # and of those whose pair was never seen

    def __str__(self) -> str:
        text = f"estimated from {self.steps:,} step{'s' * (self.steps != 1)}; {_percent(self.seldom)} of its steps use "
        text += f"pairs seen fewer than {SELDOM} times"
        return text if self.unseen == 0.0 else f"{text}, {_percent(self.unseen)} pairs never seen"


def basis(mdp: ConstrainedMDP, parts: Iterable[tuple[float, Policy]]) -> Basis | None:
    """What a mixture of policies rests on in a model; None where that was not estimated."""
    if mdp._visits is None:
        return None
    rho = np.zeros((1, mdp.num_pairs))
    for weight, policy in parts:
        policy._add_occupation(mdp, weight, rho)
    return leaning(mdp, rho[0])


def leaning(mdp: ConstrainedMDP, used: Float) -> Basis:
    """The same from the expected visits [P] to each pair; what follows an end is known."""
    assert mdp._visits is not None
    visits = mdp._visits
    if mdp._log is not None:
        used = np.where(mdp.pair_state == mdp._log.end, 0.0, used)
    total = max(float(used.sum()), 1e-300)
    seldom, unseen = (float(used[visits < least].sum()) / total for least in (SELDOM, 1))
    return Basis(int(visits.sum()), min(seldom, 1.0), min(unseen, 1.0))


def _percent(share: float) -> str:
    if 0.0 < share < 0.01:
        return "less than 1%"
    return f"{100.0 * share:.0f}%"

"""What a plan of an estimated model rests on: how many steps were seen, and how often the pairs that it uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from conrl._types import Float, Int
from conrl.model import ConstrainedMDP
from conrl.model.fleet import Fleet
from conrl.policy import Policy

FEW_VISITS = 30  # of a pair with fewer, little is known


class Basis(NamedTuple):
    """The data behind an estimate, and how a policy leans on it."""

    steps: int  # of the data
    seldom: float  # share of the policy's steps whose pair was seen fewer than FEW_VISITS times
    unseen: float  # and of those whose pair was never seen
    differs: str = ""  # how the steps of the data differ, where the estimate takes them for alike

    def __str__(self) -> str:
        text = f"estimated from {self.steps:,} step{'s' * (self.steps != 1)}; {_percent(self.seldom)} of its steps use "
        text += f"pairs seen fewer than {FEW_VISITS} times"
        text += "" if self.unseen == 0.0 else f", {_percent(self.unseen)} pairs never seen"
        return f"{text}; the steps of the data differ, and the estimate averages over them" if self.differs else text


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
    if mdp._log is not None:
        used = np.where(mdp.pair_state == mdp._log.end, 0.0, used)
    every, seldom, unseen = known_by(mdp._visits, used)
    total = max(every, 1e-300)
    differs = "" if mdp._log is None else mdp._log.differs
    return Basis(int(mdp._visits.sum()), min(seldom / total, 1.0), min(unseen / total, 1.0), differs)


def known_by(visits: Int, used: Float) -> tuple[float, float, float]:
    """Of the steps `used` [P]: all, those of pairs seen fewer than FEW_VISITS times, and those of pairs never seen."""
    return float(used.sum()), float(used[visits < FEW_VISITS].sum()), float(used[visits < 1].sum())


def seen_steps(model: ConstrainedMDP | Fleet) -> str:
    """ "estimated from 6,000 steps", of a model or of those of a fleet that were; else nothing."""
    models = {id(one): one for one in model.models or ()} if isinstance(model, Fleet) else {0: model}
    steps = [int(one._visits.sum()) for one in models.values() if one._visits is not None]
    if not steps:
        return ""
    text = f"estimated from {sum(steps):,} step{'s' * (sum(steps) != 1)}"
    return f"{len(steps)} of {len(models)} models {text}" if isinstance(model, Fleet) else text


def _percent(share: float) -> str:
    if 0.0 < share < 0.01:
        return "less than 1%"
    return f"{100.0 * share:.0f}%"

"""What every learner has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl.episode import Episode
from conrl.policy import Mixture, Policy
from conrl.problem import Problem
from conrl.task import Task

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Proposal:
    """What a learner wants played in the next episode.

    `policy` is to be executed; it is a `Null` for an episode that is not to be played. `guarded`: a hard budget forbids
    what the plan would have played (`intended`). `infeasible`: the estimated limits could not be kept, and the policy
    that exceeds them least was planned. `reported`: what the learner shows as its policy, where that is not what it
    plays; `mixture`: its result so far, where that is a third thing.
    """

    policy: Policy
    intended: Policy
    guarded: bool = False
    infeasible: bool = False
    reported: Policy | None = None
    mixture: Mixture | None = None


class Learner(Protocol):
    """A state machine: propose, play, observe, propose, ... It can be saved between any two calls."""

    name: str
    task: Task
    problem: Problem
    seed: int | None

    @property
    def episodes(self) -> int:
        """How many episodes were observed."""
        ...

    @property
    def proposal(self) -> Proposal:
        """What `propose` gives, with its circumstances."""
        ...

    def reseed(self, seed: int) -> None:
        """All randomness to come from this seed."""
        ...

    def propose(self) -> Policy:
        """The policy of the next episode; asked twice, the same one."""
        ...

    def observe(self, episode: Episode) -> None:
        """Learn from the episode that was played."""
        ...

    def may_step(self, spent: ArrayLike) -> bool:
        """Whether one more step may be played in an episode that has cost `spent` [d] so far."""
        ...

    def room(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[d] each, for `may_step` in compiled loops: what one episode may cost, and what one step can."""
        ...

    def config(self) -> dict[str, Any]:
        """What makes this learner, as JSON."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """What it has learned, as arrays."""
        ...

    def load_state(self, state: Arrays) -> None:
        """Go on from what `state` gave."""
        ...

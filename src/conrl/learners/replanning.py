"""When a learner plans again, and learning from many episodes at once.

A learner of this kind plays a *lottery*: policies with weights, of which one is drawn for each episode. It plans a new
one before each episode (`replan="episode"`), or only when it has learned much (`"doubling"`): when a pair (s, a) that
had been visited n times at the last plan has been visited max(1, n) times more. That is the rule by which UCRL2 starts
an epoch (Jaksch, Ortner and Auer 2010), asked after whole episodes. A pair can double log2(H K) times in K episodes, so
that there are at most S A log2(H K) plans instead of K.

Between two plans the lottery stays the same, and so many episodes of it can be played and learned from at once:
`waits` says how often each pair may be visited before a plan is due, `draws` which policies the coming episodes play,
`observe_block` takes them in. What is learned is the same as if they had been observed one by one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Array, Arrays, Float, Int
from conrl.arguments import any_array, float_array, read_choice, read_count
from conrl.episode import Episode, check_episode
from conrl.errors import ModelError, RunError
from conrl.estimation.logs import Log
from conrl.learners.arrays import group, prefixed
from conrl.learners.base import Proposal
from conrl.learners.kept import restored, stored
from conrl.learners.places import PlacesLearner
from conrl.mixture import Mixture
from conrl.policy import Policy
from conrl.sampling import DRAW, draw, randomness

REPLANS = ("episode", "doubling")
PLAYS = ("markov", "mixture")  # what is played of a plan: its Markov form, or one of the policies that it mixes


@dataclass(frozen=True, eq=False)
class Lottery:
    """What a plan comes to: policies of the task, and how likely each is played.

    `joint`: the draw is part of what is executed, and the lottery is what keeps the limits, not each policy. `home`: it
    is nothing but the safe policy, of learners that have one. `exploring`: as in `Proposal`.
    """

    weights: Float  # [n], which add up to 1
    policies: tuple[Policy, ...]
    joint: bool = False
    infeasible: bool = False
    home: bool = False
    exploring: bool = False

    @property
    def mixture(self) -> Mixture:
        return Mixture(self.weights, self.policies)

    def arrays(self) -> dict[str, Array]:
        """To save."""
        arrays: dict[str, Array] = {"weights": self.weights}
        arrays |= {"flags": np.array([self.joint, self.infeasible, self.home, self.exploring])}
        return arrays | stored(self.policies)

    @classmethod
    def of(cls, arrays: Mapping[str, Array], shape: tuple[int, int, int]) -> Lottery:
        """From what `arrays` gave; policies have `shape` (H, S, A)."""
        policies = restored(arrays, shape)
        weights = np.array(arrays["weights"], dtype=np.float64)
        flags = arrays["flags"]
        if flags.shape not in ((3,), (4,)) or flags.dtype != np.bool_:  # three until 0.2
            raise ValueError("flags of a lottery are four truth values")
        Mixture(weights, policies)  # refuses what is none
        return cls(weights, policies, *map(bool, flags))


class ReplanningLearner(PlacesLearner):
    """A learner that plays a lottery until it plans again. `_choose_replan` must be called when it is made."""

    def _choose_replan(self, replan: str) -> None:
        self.replan = read_choice(replan, "replan", REPLANS)
        self._lottery: Lottery | None = None
        self._then: Int = np.zeros(0, dtype=np.int64)  # [P then]: visits of each pair at the last plan

    @abstractmethod
    def _plan_lottery(self) -> Lottery:
        """Plan from all that was seen."""

    def _planned(self) -> None:
        """An episode of the last plan was observed: a plan that was made but not played is made again."""

    # -- deciding -----------------------------------------------------------------------------------------

    def _decide(self) -> Proposal:
        lottery = self._current()
        policy = lottery.policies[int(draw(lottery.weights, self.generator().random()))]
        joint = lottery.mixture if lottery.joint and len(lottery.policies) > 1 else None
        return Proposal(policy, policy, infeasible=lottery.infeasible, lottery=joint, exploring=lottery.exploring)

    def _current(self) -> Lottery:
        """The lottery of the coming episode."""
        if self._lottery is None or self.replan == "episode" or self._due():
            self._lottery, self._then = self._plan_lottery(), self.counts.visits.copy()
        return self._lottery

    def _due(self) -> bool:
        """Whether a pair has doubled its visits."""
        then = self._grown_then()
        return bool((self.counts.visits - then >= np.maximum(then, 1))[self._real].any())

    def _grown_then(self) -> Int:
        then = np.zeros(self.counts.num_pairs, dtype=np.int64)
        then[: self._then.size] = self._then
        return then

    @property
    def _real(self) -> Any:
        """[P]: the pairs of the task's own states, not those of START and END."""
        return self.counts.pair_state < self.counts.start

    @property
    def policy(self) -> Mixture:
        """The latest plan: what the next episode's policy is drawn from."""
        _ = self.proposal
        assert self._lottery is not None
        return self._lottery.mixture

    def prime(self, episodes: str | Path | Log | Iterable[Episode]) -> int:
        count = super().prime(episodes)
        if count:
            self._lottery = None  # the next episode is planned from all of it
        return count

    # -- many episodes at once ----------------------------------------------------------------------------

    def _need_lottery(self) -> None:
        """Refuse blocks where episodes are not drawn from one lottery."""

    @property
    def waits(self) -> Int:
        """[S, A] ([H, S, A] where the task depends on the step): how many more visits of each pair until it plans
        again.

        With `replan="episode"` it plans again after any episode.
        """
        self._need_lottery()
        _ = self.proposal
        task, counts = self.task, self.counts
        table = np.ones((counts.task.num_states, task.num_actions), dtype=np.int64)
        if self.replan == "doubling":
            then, real = self._grown_then(), self._real
            left = np.maximum(then, 1) - (counts.visits - then)
            table[counts.pair_state[real], counts.action[real]] = left[real]
        return table.reshape(task.horizon, task.num_states, -1) if task.step_dependent else table

    def draws(self, count: int) -> Int:
        """[count]: which of the policies of `policy` each of the coming episodes plays, while the lottery stays."""
        self._need_lottery()
        _ = self.proposal
        assert self._lottery is not None
        coming = self._episodes + 1 + np.arange(read_count(count, "count", 0))
        uniform = np.array([randomness(self.seed, int(k), DRAW).random() for k in coming])
        return draw(self._lottery.weights, uniform)

    def observe_block(self, states: ArrayLike, actions: ArrayLike, pay: ArrayLike) -> None:
        """Learn from M whole episodes that were played with the current lottery, as from one after the other.

        Args:
            states: [M, H+1].
            actions: [M, H].
            pay: [M, H, 1+d]: reward and costs.

        Refuses, and then changes nothing, what the task says cannot be, and a block within which a plan falls due.
        """
        self._need_lottery()
        visited, played, paid = self._read_block(states, actions, pay)
        if not len(played):
            return
        _ = self.proposal
        if len(played) > 1 and self._due_within(visited[:-1, :-1], played[:-1]):
            raise RunError(
                "a plan falls due within these episodes; end a block with the episode that brings a pair to its "
                "`waits` visits, or make the learner with replan='doubling'"
            )
        which = self.draws(len(played)) if self.keep_policies else ()
        lottery = self._lottery
        self.counts.add_block(visited, played, paid)
        self._planned()
        for i in which:
            assert lottery is not None
            self._executed.add(lottery.policies[i])
        self._episodes += len(played)
        self._proposal = None

    def _read_block(self, states: ArrayLike, actions: ArrayLike, pay: ArrayLike) -> tuple[Int, Int, Float]:
        """Arrays that fit the task."""
        task = self.task
        visited, played = (any_array(x, name) for x, name in ((states, "states"), (actions, "actions")))
        paid = float_array(pay, "pay")
        M, H = (played.shape[0] if played.ndim else 0), task.horizon
        shapes = (
            ("states", visited, (M, H + 1)),
            ("actions", played, (M, H)),
            ("pay", paid, (M, H, 1 + task.num_costs)),
        )
        for name, array, shape in shapes:
            if array.shape != shape or (name != "pay" and M and array.dtype.kind not in "iu"):
                raise ModelError(
                    f"{name} has shape {array.shape} and dtype {array.dtype}; for {M} episodes of {H} steps expected "
                    f"{shape}" + (" whole numbers" if name != "pay" else ""),
                    key=(name,),
                )
        if not np.isfinite(paid).all():
            raise ModelError("pay has an entry that is not a finite number", key=("pay",))
        visited, played, paid = visited.astype(np.int64), played.astype(np.int64), paid.copy()
        if M:
            low, high = task.ranges.T
            fits = (
                min(visited.min(), played.min()) >= 0
                and visited.max() < task.num_states
                and played.max() < task.num_actions
                and (task.initial is None or (visited[:, 0] == task.initial).all())
                and (low <= paid.min(axis=(0, 1))).all()
                and (paid.max(axis=(0, 1)) <= high).all()
            )
            if not fits or task.available is not None:
                for one in zip(visited, played, paid, strict=True):
                    check_episode(task, Episode._of(*one, terminated=False, stopped=False))
        return visited, played, paid

    def _due_within(self, states: Int, actions: Int) -> bool:
        """Whether these episodes [M, H] visit a pair as often as it takes to plan again."""
        if self.replan == "episode":
            return True
        waits = self.waits
        seen = np.zeros_like(waits)
        steps = (np.broadcast_to(np.arange(states.shape[1]), states.shape),) if waits.ndim == 3 else ()
        np.add.at(seen, (*steps, states, actions), 1)
        return bool((seen >= waits).any())

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        self.counts.add(episode)
        self._planned()

    # -- saving -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        arrays = super().state()
        if self.replan == "doubling" and self._lottery is not None:
            arrays |= prefixed("lottery_", self._lottery.arrays()) | {"then": self._then}
        return arrays

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        task = self.task
        self._lottery, self._then = None, np.zeros(0, dtype=np.int64)
        if "then" in state:
            then = state["then"]
            if then.ndim != 1 or then.dtype != np.int64 or then.size > self.counts.num_pairs:
                raise ValueError(f"then has shape {then.shape} and dtype {then.dtype}")
            if (then < 0).any() or (then > self.counts.visits[: then.size]).any():
                raise ValueError("then has an entry that visits do not reach")
            shape = (task.horizon, task.num_states, task.num_actions)
            self._lottery, self._then = Lottery.of(group(state, "lottery_"), shape), then.copy()

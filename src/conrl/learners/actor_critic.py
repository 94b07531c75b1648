"""Shared by the learners that train A2C on real episodes: one agent, one update per episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conrl._types import Array, Arrays, Float
from conrl.arguments import read_choice
from conrl.episode import Episode
from conrl.errors import SpecError, shown
from conrl.learners.arrays import group, prefixed
from conrl.learners.base import BaseLearner
from conrl.learners.saving import GIVEN, describe
from conrl.model import ConstrainedMDP, Task
from conrl.model.limits import Limits
from conrl.oracles.a2c import PRESETS, A2CSettings, Agent, one_hot, stationary
from conrl.policy import Policy
from conrl.problem import Problem
from conrl.sampling import TRAIN, randomness


class ActorCriticLearner(BaseLearner):
    """A learner whose policy is the network of an `Agent`."""

    presets = PRESETS

    def __init__(
        self,
        task: Task,
        problem: Problem | Limits | None,
        preset: str,
        a2c: A2CSettings | None,
        peek: ConstrainedMDP | None,
        seed: int | None,
        keep_policies: bool,
    ) -> None:
        """The agent itself is made when it is first needed."""
        super().__init__(task, problem, seed, keep_policies)
        read_choice(preset, "preset", self.presets)
        if a2c is not None and not isinstance(a2c, A2CSettings):
            raise SpecError(f"a2c is {shown(a2c)}; it must be A2CSettings")
        if peek is not None and not isinstance(peek, ConstrainedMDP):
            raise SpecError(f"peek is {shown(peek)}; it must be the true model, a ConstrainedMDP")
        if preset == "authors" and peek is None:
            raise SpecError("preset 'authors' knows exact values; pass peek=the true model")
        self.preset, self.peek = preset, peek
        self.a2c = A2CSettings(**self.presets[preset]) if a2c is None else a2c
        self._agent: Agent | None = None
        self._saved: Mapping[str, Array] = {}

    @property
    def agent(self) -> Agent:
        """Made when first needed: only then is the seed settled."""
        if self._agent is None:
            features = one_hot(self.task.num_states) if self.task.features is None else self.task.features
            weights = randomness(self.seed, 0, TRAIN)
            self._agent = Agent(features, self.task.available, self.task.num_actions, self.a2c, weights)
            if self._saved:
                self._agent.load_state(self._saved)
        return self._agent

    def network_policy(self) -> Policy:
        """What the network plays now."""
        return stationary(self.agent.table, self.task.horizon)

    def train(self, episode: Episode, direction: Float) -> None:
        """One update on an episode, with the reward direction.(r, c)."""
        if len(episode):
            self.agent.train(episode.states, episode.actions, episode.pay @ direction, self.task.horizon)

    def config(self) -> dict[str, Any]:
        peek = None if self.peek is None else GIVEN
        return super().config() | {"a2c": describe(self.a2c), "peek": peek}

    def state(self) -> dict[str, Array]:
        return super().state() | prefixed("agent_", self.agent.state())

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self._agent, self._saved = None, group(state, "agent_")
        _ = self.agent  # refuses what does not fit

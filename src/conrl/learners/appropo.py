"""ApproPO: a mixture of policies whose value vector lies in a convex target set (Miryoosefi et al. 2019).

The target C is lifted to the cone K over C x {kappa}, and z to (z, kappa). A direction lambda in K's polar cone, cut
with the unit ball, separates a z outside. The game, for t = 1, 2, ...:

    pi_t:      a positive response: lambda_t.(z(pi_t), kappa) <= 0, by the cache of earlier policies or by training A2C
               on the reward -lambda_t.(r, c)
    lambda:    m <- momentum m + (z(pi_t), kappa);   lambda_{t+1} = project( lambda_t + step / sqrt(t) m )

With an exact oracle the mean of z(pi_1..t) approaches C like t^(-1/2). The result is the uniform mixture of pi_1..t.

A learner sees episodes only. Each call of the oracle trains on `episodes` of them and then plays the policy that came
out for `estimate_episodes` more, whose mean is its value vector. The program behind the figures of Brantley et al.
(2020) knows value vectors exactly: `peek` gives it the true model, and the preset "authors" asks for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from conrl.episode import Episode
from conrl.errors import RunError, SpecError
from conrl.evaluation import evaluate
from conrl.inputs import is_int, is_number, resolve_limits
from conrl.learners.actor_critic import ActorCriticLearner
from conrl.learners.parameters import read_positive
from conrl.learners.protocol import Arrays, Proposal
from conrl.learners.saving import GIVEN
from conrl.model import ConstrainedMDP
from conrl.oracles.a2c import A2CSettings, stationary
from conrl.policy import Mixture
from conrl.problem import Linear
from conrl.targets import Box, Cone, ConvexSet
from conrl.task import Task

Float = NDArray[np.float64]

MOST_CACHED = 1000  # answers from the cache between two episodes, at most


class Game:
    """The directions: projected gradient ascent over the polar cone within the unit ball."""

    def __init__(self, target: ConvexSet, size: int, kappa: float, step: float, momentum: float) -> None:
        self.cone, self.step, self.momentum = Cone(target, kappa), step, momentum
        self.t = 0
        self.velocity = np.zeros(size + 1)
        self.direction = np.zeros(size + 1)  # lambda

    def lifted(self, z: Float) -> Float:
        return np.append(z, self.cone.kappa)

    def product(self, z: Float) -> float:
        """lambda.(z, kappa): a positive response is not above 0."""
        return float(self.direction @ self.lifted(z))

    def update(self, z: Float) -> None:
        """One round, with the value vector of the response."""
        self.t += 1
        self.velocity = self.momentum * self.velocity + self.lifted(z)
        moved = self.cone.project_polar(self.direction + self.step / self.t**0.5 * self.velocity)
        self.direction = moved / max(1.0, float(np.linalg.norm(moved)))


class ApproPO(ActorCriticLearner):
    """Approach a convex target set with a mixture of policies.

    Args:
        task: what is known.
        problem: `Linear`; its limits (and floors) bound the costs of the default target.
        threshold: the least reward of the default target. The paper's program has 1.4 for Mars rover and 1.58 for Box.
        target: any set with `project(z)`, z = (reward, costs): see `conrl.targets`; instead of limits and threshold.
        preset: `"default"` or `"authors"` (the loss of the paper's program, and exact value vectors through `peek`).
        step, momentum, kappa: of the game; step 1 for Mars rover and 10 for Box in the paper's program.
        episodes: that A2C trains on in one call of the oracle; 20 and 25 in the paper's program.
        estimate_episodes: that are played to estimate the value vector of what came out.
        a2c: numbers of A2C; overrides the preset.
        peek: the true model, for exact value vectors instead of estimates.
        seed: of the first weights; `learn` gives it its own if there is none.
        keep_policies: remember what was executed; each policy is a table [H, S, A].
    """

    name = "appropo"
    summary = "feasibility by a game between directions and A2C; the result is a mixture"
    paper = "Miryoosefi, Brantley, Daume, Dudik and Schapire (2019)"

    def __init__(
        self,
        task: Task,
        *,
        problem: Linear | None = None,
        threshold: float | None = None,
        target: ConvexSet | None = None,
        preset: str = "default",
        step: float = 1.0,
        momentum: float = 0.9,
        kappa: float = 20.0,
        episodes: int = 20,
        estimate_episodes: int = 10,
        a2c: A2CSettings | None = None,
        peek: ConstrainedMDP | None = None,
        seed: int | None = None,
        keep_policies: bool = False,
    ) -> None:
        super().__init__(task, problem, preset, a2c, peek, seed, keep_policies)
        if target is not None and not hasattr(target, "project"):
            raise SpecError(f"target is {target!r}; it must be a set with project(z), such as conrl.targets.Box")
        for name, count in (("episodes", episodes), ("estimate_episodes", estimate_episodes)):
            if not is_int(count) or count < 1:
                raise SpecError(f"{name} is {count!r}; it must be a whole number of at least 1")
        if threshold is not None and not is_number(threshold):
            raise SpecError(f"threshold is {threshold!r}; it must be a number")
        self.threshold, self.target = threshold, target
        self.step, self.kappa = read_positive(step, "step"), read_positive(kappa, "kappa")
        self.momentum = read_positive(momentum, "momentum", zero=True)
        self.training_episodes, self.estimate_episodes = int(episodes), int(estimate_episodes)
        self.game = Game(target or self._default_target(), 1 + task.num_costs, self.kappa, self.step, self.momentum)
        self._tables: list[NDArray[np.float32]] = []  # policies in the cache [S, A]
        self._values: list[Float] = []  # and their value vectors
        self._rounds: list[int] = []  # how often each answered
        self._trained = 0  # episodes of the call that is going on
        self._seen: list[Float] = []  # totals of episodes played to estimate

    def _default_target(self) -> Box:
        if self.threshold is None:
            raise SpecError("ApproPO needs a threshold (the least reward) or a target set")
        assert isinstance(self.problem, Linear)
        names = tuple(self.task.cost_names)
        limits = resolve_limits(self.problem.limits, names, "limits")
        floors = resolve_limits(self.problem.floors, names, "floors")
        return Box(np.append(self.threshold, floors), np.append(np.inf, limits))

    # -- the oracle, episode by episode -------------------------------------------------------------------

    def _decide(self) -> Proposal:
        policy = self.network_policy()
        return Proposal(policy, policy)

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        if self._trained < self.training_episodes:
            self.train(episode, -self.game.direction[:-1])
            self._trained += 1
            if self.peek is not None and self._enough():
                self._trained = self.training_episodes
            if self._trained < self.training_episodes or self.peek is None:
                return
        if self.peek is not None:
            exact = evaluate(self.peek, self.network_policy())
            self._answer(np.append(exact.reward, exact.costs))
            return
        self._seen.append(episode.total)
        if len(self._seen) == self.estimate_episodes:
            self._answer(np.mean(self._seen, axis=0))

    def _enough(self) -> bool:
        """Whether the network, as it is now, is a positive response already."""
        assert self.peek is not None
        exact = evaluate(self.peek, self.network_policy())
        return self.game.product(np.append(exact.reward, exact.costs)) <= 0.0

    def _answer(self, value: Float) -> None:
        """The network's policy answers; then the cache, as long as it can."""
        self._tables.append(self.agent.table.astype(np.float32))
        self._values.append(value)
        self._rounds.append(1)
        self.game.update(value)
        values = np.array(self._values)
        for _ in range(MOST_CACHED):
            products = values @ self.game.direction[:-1] + self.game.direction[-1] * self.kappa
            best = int(np.argmin(products))
            if products[best] > 0.0:
                break
            self._rounds[best] += 1
            self.game.update(self._values[best])
        self._trained, self._seen = 0, []

    @property
    def policy(self) -> Mixture:
        """The uniform mixture of all responses so far: the result."""
        if not self._tables:
            most = self.training_episodes + (0 if self.peek is not None else self.estimate_episodes)
            raise RunError(f"no response yet: the first one takes up to {most} episodes")
        rounds = np.array(self._rounds, dtype=np.float64)
        parts = [stationary(table.astype(np.float64), self.task.horizon) for table in self._tables]
        return Mixture(rounds / rounds.sum(), parts, np.array(self._values))

    # -- saving -------------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        return super().config() | {
            "threshold": self.threshold,
            "target": None if self.target is None else GIVEN,
            "step": self.step,
            "momentum": self.momentum,
            "kappa": self.kappa,
            "episodes": self.training_episodes,
            "estimate_episodes": self.estimate_episodes,
        }

    def state(self) -> dict[str, NDArray[Any]]:
        S, A, n = self.task.num_states, self.task.num_actions, 1 + self.task.num_costs
        return super().state() | {
            "game": np.stack((self.game.direction, self.game.velocity)),
            "game_t": np.array(self.game.t),
            "cache_tables": np.array(self._tables, dtype=np.float32).reshape(-1, S, A),
            "cache_values": np.array(self._values).reshape(-1, n),
            "cache_rounds": np.array(self._rounds, dtype=np.int64),
            "trained": np.array(self._trained),
            "seen": np.array(self._seen).reshape(-1, n),
        }

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self.game.direction, self.game.velocity = np.array(state["game"], dtype=np.float64)
        self.game.t = int(state["game_t"])
        self._tables = list(np.array(state["cache_tables"], dtype=np.float32))
        self._values = list(np.array(state["cache_values"], dtype=np.float64))
        self._rounds = [int(n) for n in state["cache_rounds"]]
        self._trained = int(state["trained"])
        self._seen = list(np.array(state["seen"], dtype=np.float64))

"""ApproPO: a mixture of policies whose value vector lies in a convex target set (Miryoosefi et al. 2019).

The target C is lifted to the cone K over C x {kappa}, and z to (z, kappa). A direction lambda in K's polar cone, cut
with the unit ball, separates a z outside. The game, for t = 1, 2, ..., as the program behind the figures of Brantley et
al. (2020) plays it:

    lambda_1:  the projection of (tiny random numbers, kappa): nearly "reward only" for a threshold on the reward
    pi_t:      a positive response: lambda_t.(z(pi_t), kappa) <= 0, by the cache of earlier answers or by training A2C
               on the reward -lambda_t.(r, c), as long as it takes: the direction waits, weights and optimiser are kept
    lambda:    v <- momentum v + (1 - momentum) step / sqrt(t) (z(pi_t), kappa);   lambda_{t+1} = project(lambda_t + v)

The result is the uniform mixture of pi_1..t. A round that the cache answers costs no episode.

**Play ends** when the mixture lies in C. Then lambda.(z, kappa) <= 0 of the mixture for every lambda of the polar cone,
hence also of one of its parts: the cache answers every direction for good, and nothing is left to train. It also ends
after `MOST_CACHED` rounds in a row that the cache answered: a mixture that only touches C comes near it like t^(-1/2).
From then on the mixture is what is played.

What is reported is the newest answer and, apart from it, the mixture; never the network that is still in training.

A learner sees episodes only. When the `episodes` of a call of A2C look like a positive response on average, the policy
that came out is played for `estimate_episodes` more, untrained. Their mean is its value vector, and decides. It answers
if it was lucky, too: mixtures of such answers cost more than they seem to (docs/results.md). The program knows value
vectors exactly: `peek` gives them, and the preset "authors" asks for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conrl._types import Array, Arrays, Float
from conrl.arguments import is_number, read_count, read_positive
from conrl.episode import Episode
from conrl.errors import RunError, SpecError, shown
from conrl.evaluation import evaluate
from conrl.learners.actor_critic import ActorCriticLearner
from conrl.learners.approach import POSITIVE, Answers, Game
from conrl.learners.arrays import saved_count
from conrl.learners.base import Proposal
from conrl.learners.saving import GIVEN
from conrl.mixture import Mixture
from conrl.model import ConstrainedMDP, Task
from conrl.model.limits import Limits, resolve_limits
from conrl.oracles.a2c import A2CSettings
from conrl.problem import Linear
from conrl.sampling import DRAW, randomness
from conrl.targets import Box, ConvexSet, distance

FIRST = 1e-4  # size of the random numbers that the first direction is made of
MOST_CACHED = 10_000  # rounds in a row that the cache answers, after which play ends


class ApproPO(ActorCriticLearner):
    """Approach a convex target set with a mixture of policies.

    Args:
        task: what is known.
        problem: `Linear`; its limits (and floors) bound the costs of the default target.
        threshold: the least reward of the default target. The paper's program has 1.4 for Mars rover and 1.58 for Box.
        target: any set with `project(z)`, z = (reward, costs): see `conrl.targets`; instead of limits and threshold.
        preset: `"default"` or `"authors"` (the loss and first weights of the paper's program, and exact value vectors
            through `peek`).
        step, momentum, kappa: of the game; step 1 for Mars rover and 10 for Box in the paper's program.
        episodes: that A2C trains on in one call of the oracle, all of them; 20 and 25 in the paper's program.
        estimate_episodes: that are played, without training, to confirm what looks like a positive response; not used
            with `peek`.
        a2c: numbers of A2C; overrides the preset.
        peek: the true model, for exact value vectors instead of estimates.
        seed: of the first weights and direction; `learn` gives it its own if there is none.
        keep_policies: remember what was executed; each policy is a table [H, S, A].
    """

    name = "appropo"
    summary = "feasibility by a game between directions and A2C; the result is a mixture"
    paper = "Miryoosefi, Brantley, Daume, Dudik and Schapire (2019)"
    reports = True
    settings = ("preset", "threshold", "step", "momentum", "kappa", "estimate_episodes")

    def __init__(
        self,
        task: Task,
        *,
        problem: Linear | Limits | None = None,
        threshold: float | None = None,
        target: ConvexSet | None = None,
        preset: str = "default",
        step: float = 1.0,
        momentum: float = 0.9,
        kappa: float = 20.0,
        episodes: int = 20,
        estimate_episodes: int = 50,
        a2c: A2CSettings | None = None,
        peek: ConstrainedMDP | None = None,
        seed: int | None = None,
        keep_policies: bool = False,
    ) -> None:
        """Read the numbers of the game; it begins with the first proposal, when the seed is settled."""
        super().__init__(task, problem, preset, a2c, peek, seed, keep_policies)
        if target is not None and not hasattr(target, "project"):
            raise SpecError(f"target is {shown(target)}; it must be a set with project(z), such as conrl.targets.Box")
        if threshold is not None and not is_number(threshold):
            raise SpecError(f"threshold is {shown(threshold)}; it must be a number")
        self.threshold, self.target = threshold, target
        self.step, self.kappa = read_positive(step, "step"), read_positive(kappa, "kappa")
        self.momentum = read_positive(momentum, "momentum", zero=True)
        if self.momentum >= 1.0:
            raise SpecError(f"momentum is {shown(momentum)}; it must be below 1: it is the share that is kept")
        self.training_episodes = read_count(episodes, "episodes")
        self.estimate_episodes = read_count(estimate_episodes, "estimate_episodes")
        self._set = target or self._default_target()
        self._game: Game | None = None
        self.answers = Answers(task.horizon)
        self.used = 0  # episodes until play ended: for training, and to confirm
        self.over = False  # play has ended
        self._seen: list[Float] = []  # totals of the call's episodes so far: first those of training, then to confirm

    def _default_target(self) -> Box:
        if self.threshold is None:
            raise SpecError("ApproPO needs a threshold (the least reward) or a target set")
        assert isinstance(self.problem, Linear)
        names = tuple(self.task.cost_names)
        limits = resolve_limits(self.problem.limits, names, "limits")
        floors = resolve_limits(self.problem.floors, names, "floors")
        return Box(np.append(self.threshold, floors), np.append(np.inf, limits))

    @property
    def game(self) -> Game:
        """Made when first needed: only then is the seed settled."""
        if self._game is None:
            size = 1 + self.task.num_costs
            first = FIRST * randomness(self.seed, 0, DRAW).standard_normal(size)
            self._game = Game(self._set, size, self.kappa, self.step, self.momentum, first)
        return self._game

    # -- the oracle, episode by episode -------------------------------------------------------------------

    def _decide(self) -> Proposal:
        policy = self.policy.draw(self.generator()) if self.over else self.network_policy()
        if not len(self.answers):
            return Proposal(policy, policy)
        return Proposal(policy, policy, reported=self.answers.policy(self.answers.newest), mixture=self.policy)

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        if self.over:
            return
        self.used += 1
        self._seen.append(episode.total)
        n = len(self._seen)
        if n <= self.training_episodes and np.linalg.norm(self.game.direction) > POSITIVE:  # 0 teaches nothing
            self.train(episode, -self.game.direction[:-1])
        if self.peek is not None and n == self.training_episodes:
            self._try(evaluate(self.peek, self.network_policy()).value)
        elif n == self.training_episodes:
            if self.game.product(np.mean(self._seen, axis=0)) > POSITIVE:
                self._seen = []
        elif n == self.training_episodes + self.estimate_episodes:
            self._try(np.mean(self._seen[self.training_episodes :], axis=0))

    def _try(self, value: Float) -> None:
        """The network answers if that is a positive response, and then the cache as long as it can; else the direction
        stays, and the network is trained on."""
        self._seen = []
        if self.game.product(value) > POSITIVE:
            return
        self.answers.add(self.agent.table, value)
        which: int | None = len(self.answers) - 1
        for _ in range(MOST_CACHED):
            if which is None:
                return
            self.game.update(self.answers.count(which))
            if distance(self._set, self.answers.mean) <= POSITIVE:
                break
            which = self.answers.best(self.game)
        self.over = True

    @property
    def policy(self) -> Mixture:
        """The uniform mixture of all responses so far: the result."""
        if not len(self.answers):
            raise RunError("no positive response yet; A2C is trained on until there is one")
        return self.answers.mixture

    # -- saving -------------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        target = None if self.target is None else GIVEN
        return super().config() | {"target": target, "episodes": self.training_episodes}

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.task.num_states, self.task.num_actions, 1 + self.task.num_costs

    def state(self) -> dict[str, Array]:
        return super().state() | {
            "game": np.stack((self.game.direction, self.game.velocity)),
            "game_t": np.array(self.game.t),
            **self.answers.state(self._shape),
            "used": np.array(self.used),
            "over": np.array(self.over),
            "seen": np.array(self._seen).reshape(-1, self._shape[2]),
        }

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        game = np.array(state["game"], dtype=np.float64)
        if game.shape != (2, self._shape[2] + 1) or not np.isfinite(game).all():
            raise SpecError("the direction makes no sense")
        self.game.direction, self.game.velocity = game
        self.game.t = saved_count(state, "game_t")
        self.answers.load_state(state, self._shape)
        self.used, self.over = saved_count(state, "used"), bool(state["over"])
        self._seen = list(np.array(state["seen"], dtype=np.float64).reshape(-1, self._shape[2]))

"""The game of ApproPO (`conrl.learners.appropo`): directions that move, and a cache of the policies that answered them.

Letters: z [1+d] a value vector, lambda [2+d] a direction of the polar cone, kappa the extra coordinate, t the round.
"""

from __future__ import annotations

import numpy as np

from conrl._types import Array, Arrays, Float, Float32
from conrl.errors import SpecError
from conrl.mixture import Mixture
from conrl.oracles.a2c import stationary
from conrl.policy import Policy
from conrl.targets import Cone, ConvexSet

POSITIVE = 1e-9  # a product up to here is a positive response, and a mixture so near is in the target


class Game:
    """The directions: projected gradient ascent over the polar cone within the unit ball."""

    def __init__(
        self, target: ConvexSet, size: int, kappa: float, step: float, momentum: float, first: Float | None = None
    ) -> None:
        self.cone, self.step, self.momentum = Cone(target, kappa), step, momentum
        self.t = 0
        self.velocity = np.zeros(size + 1)
        self.direction = self._project(self.lifted(np.zeros(size) if first is None else first))  # lambda

    def lifted(self, z: Float) -> Float:
        return np.append(z, self.cone.kappa)

    def product(self, z: Float) -> float:
        """lambda.(z, kappa): a positive response is not above 0."""
        return float(self.direction @ self.lifted(z))

    def update(self, z: Float) -> None:
        """One round, with the value vector of the response."""
        self.t += 1
        pull = self.step / self.t**0.5 * self.lifted(z)
        self.velocity = self.momentum * self.velocity + (1.0 - self.momentum) * pull
        self.direction = self._project(self.direction + self.velocity)

    def _project(self, moved: Float) -> Float:
        polar = self.cone.project_polar(moved)
        return polar / max(1.0, float(np.linalg.norm(polar)))


class Answers:
    """The cache: policies that answered, and how often each did."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.tables: list[Float32] = []  # [S, A] each: what a network of float32 plays
        self.values: list[Float] = []  # [1+d] each
        self.rounds: list[int] = []
        self.newest = -1
        self._policies: list[Policy] = []
        self._mixture: Mixture | None = None

    def __len__(self) -> int:
        return len(self.tables)

    def add(self, table: Float, value: Float) -> None:
        """A new answer; its round is counted by `count`."""
        self.tables.append(table.astype(np.float32))
        self.values.append(value)
        self.rounds.append(0)

    def best(self, game: Game) -> int | None:
        """The answer with the least product, if it is a positive response."""
        if not self.tables:
            return None
        products = np.array(self.values) @ game.direction[:-1] + game.direction[-1] * game.cone.kappa
        least = int(np.argmin(products))
        return least if products[least] <= POSITIVE else None

    def count(self, which: int) -> Float:
        """One round more for an answer; its value vector."""
        self.rounds[which] += 1
        self.newest, self._mixture = which, None
        return self.values[which]

    @property
    def mean(self) -> Float:
        """[1+d]: the value vector of the mixture, as far as it is known."""
        mean: Float = np.array(self.rounds, dtype=np.float64) @ np.array(self.values) / sum(self.rounds)
        return mean

    def policy(self, which: int) -> Policy:
        """One answer; asked twice, the same object."""
        for table in self.tables[len(self._policies) :]:
            self._policies.append(stationary(table.astype(np.float64), self.horizon))
        return self._policies[which]

    @property
    def mixture(self) -> Mixture:
        """All of them, each as often as it answered."""
        if self._mixture is None:
            rounds = np.array(self.rounds, dtype=np.float64)
            parts = [self.policy(i) for i in range(len(self))]
            self._mixture = Mixture(rounds / rounds.sum(), parts, np.array(self.values))
        return self._mixture

    def state(self, shape: tuple[int, int, int]) -> dict[str, Array]:
        """Arrays; `shape` is (S, A, 1+d)."""
        return {
            "cache_tables": np.array(self.tables, dtype=np.float32).reshape(-1, *shape[:2]),
            "cache_values": np.array(self.values).reshape(-1, shape[2]),
            "cache_rounds": np.array(self.rounds, dtype=np.int64),
            "cache_newest": np.array(self.newest),
        }

    def load_state(self, state: Arrays, shape: tuple[int, int, int]) -> None:
        tables, values, rounds = (np.array(state[f"cache_{name}"]) for name in ("tables", "values", "rounds"))
        n, newest = len(tables), int(state["cache_newest"])
        fits = tables.shape == (n, *shape[:2]) and values.shape == (n, shape[2]) and rounds.shape == (n,)
        if not fits or not (rounds >= 1).all() or not (newest in range(n) or n == 0) or not np.isfinite(values).all():
            raise SpecError("the answers make no sense")
        self.tables, self.values = list(tables.astype(np.float32)), list(values.astype(np.float64))
        self.rounds, self.newest = rounds.astype(int).tolist(), newest
        self._policies, self._mixture = [], None

"""Where randomness comes from, how one of several is drawn, and episodes drawn from a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Array, Float, Int

if TYPE_CHECKING:
    from conrl.model import ConstrainedMDP

Room = tuple[Float, Float]  # what one episode may cost, and what one step can, [d] each; empty where nothing binds
UNBOUND: Room = (np.zeros(0), np.zeros(0))

MOST_WORD = 2**32 - 1
WORLD, DRAW, TRAIN = range(3)  # whose randomness: what happens, what a learner draws, how a network is trained


def randomness(seed: int | None, k: int, whose: int) -> np.random.Generator:
    """Everything random in episode k (0: before the first) of a run, of one kind.

    No two share a draw, of seeds below 2^32: numpy would read a larger one as two numbers.
    """
    words = 0 if seed is None else seed, k, whose
    if max(words) > MOST_WORD:
        return np.random.default_rng(words)
    entropy = np.random.SeedSequence(np.array(words, dtype=np.uint32))  # the same as of the list, in half the time
    return np.random.Generator(np.random.PCG64(entropy))


def draw(weights: Float, uniform: float | Float) -> Int:
    """Which of the weights [n] numbers in [0, 1) fall on, as `kernels.find` does in compiled loops.

    The sum of the weights need not be exactly 1: rounding never draws past the last, or one without weight.
    """
    sums = np.cumsum(weights)
    index: Int = np.searchsorted(sums, uniform * sums[-1], side="right")
    return index


class Trajectory(NamedTuple):
    """What was drawn; only the first `played` steps were."""

    states: Int  # [H+1]
    actions: Int  # [H]
    paid: Float  # [H, n]
    played: int


class Dynamics:
    """A model made ready to be sampled many times."""

    def __init__(self, mdp: ConstrainedMDP) -> None:
        self.mdp = mdp
        g = mdp.graph
        sums = np.cumsum(g.probability)
        before = np.concatenate(([0.0], sums))[g.start[:-1]]
        self.cumulated: Float = sums - np.repeat(before, np.diff(g.start))  # [N]: anew for each pair
        self.moves = g.first, g.start, g.successor, self.cumulated  # what the kernels draw outcomes from
        self.initial: Float = np.cumsum(mdp.initial)  # [S]
        self.by_outcome = mdp.outcome_pay is not None
        self.pay: Float = mdp._paid  # [N, 1+d] by outcome, else [P, 1+d]

    def rollout(self, table: Array, pay: Float, uniform: Float, room: Room = UNBOUND) -> Trajectory:
        """One episode of a policy; letters as in `kernels.rollout`.

        `table` is [H, S, A] (probabilities) or [H, S, 1] (actions), with H = 1 for the same at every step; `pay` is per
        outcome [N, n] or per pair [P, n]; `uniform` [H+1, 2] are the draws.
        """
        H, action = uniform.shape[0] - 1, self.mdp.action
        drawn = np.empty(H + 1, dtype=np.int64), np.empty(H, dtype=np.int64), np.empty((H, pay.shape[1]))
        deterministic = table.dtype.kind == "i"
        by_outcome = pay.shape[0] != action.size  # where both are one, each pair has one outcome
        played = kernels.rollout(
            *self.moves, self.initial, pay, by_outcome, action, table, deterministic, uniform, *room, *drawn
        )
        return Trajectory(*drawn, played)

    def stationary_totals(
        self, table: Float, discount: float, ends: Array, most: int, episodes: int, generator: np.random.Generator
    ) -> tuple[Float, int]:
        """The same of a policy [S, A] for at most so many steps, or until a state that `ends` [S]; and how many did not
        come to one."""
        totals = np.zeros((episodes, 1 + self.mdp.num_costs))
        unfinished = kernels.simulate_stationary(
            *self.moves, self.initial, self.pay, self.by_outcome, self.mdp.action, table, ends, discount, most,
            generator, totals,
        )  # fmt: skip
        return totals, int(unfinished)

    def totals(self, table: Float, episodes: int, generator: np.random.Generator) -> Float:
        """[episodes, 1+d]: what each of many episodes of a policy [H, S, A] pays in all."""
        totals = np.zeros((episodes, 1 + self.mdp.num_costs))
        kernels.simulate(
            *self.moves, self.initial, self.pay, self.by_outcome, self.mdp.action, table, generator, totals
        )
        return totals

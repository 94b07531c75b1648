"""What policies are worth in many models drawn from a posterior, all valued in one pass."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conrl import kernels
from conrl._types import Float, Int
from conrl.estimation.posterior import BLOCK, Drawn, Posterior
from conrl.model.graph import select
from conrl.policy import Policy


class Ensemble:
    """Some pairs in many drawn models, for policies that play no others.

    With `keep`, what was drawn is kept for the next policy; without, it is drawn block by block each time."""

    def __init__(self, posterior: Posterior, pairs: Int, draws: int, seed: int, keep: bool = False) -> None:
        self.posterior, self.pairs, self.draws, self.seed = posterior, pairs, draws, seed
        mdp = posterior.mdp
        self._first = np.searchsorted(mdp._pair_node[pairs], np.arange(mdp.graph.first.size))
        starts, links = select(posterior.link_start, pairs)
        self._start, self._successor = starts.astype(np.int64), posterior.successor[links]
        self._kept = list(self._blocks()) if keep else None

    def _blocks(self) -> Iterator[tuple[Drawn, Float]]:
        """What was drawn, block by block, and the first states."""
        for block, begin in enumerate(range(0, self.draws, BLOCK)):
            drawn = self.posterior.draw(self.pairs, self.seed, block)
            initial, size = self.posterior.first_states(self.seed, block), self.draws - begin
            if size < BLOCK:
                drawn, initial = drawn.first(size), np.ascontiguousarray(initial[:, :size])
            yield drawn, initial

    def totals(self, policy: Policy) -> Float:
        """[draws, 1+d]: what a Markov policy is worth in each model."""
        return self.play(policy)[0]

    def play(self, policy: Policy) -> tuple[Float, Float]:
        """The same, and the expected visits to the pairs, their mean over the models."""
        action, found, used = self.posterior.mdp.action[self.pairs], [], np.zeros(self.pairs.size)
        for drawn, initial in self._kept or self._blocks():
            visits = np.zeros(drawn.lost.shape)
            kernels.ensemble_visits(
                self._first, self._start, self._successor, drawn.share, drawn.lost, drawn.target, initial, action,
                policy.probabilities, visits,
            )  # fmt: skip
            found.append(np.einsum("kb,kbi->bi", visits, drawn.pay))
            used += visits.sum(axis=1) / self.draws
        return np.concatenate(found), used


def played(posterior: Posterior, policy: Policy) -> Int:
    """The pairs that a policy plays where some model can come to."""
    mdp, table = posterior.mdp, policy.probabilities
    if mdp.step_dependent:
        chance = table[mdp.pair_step, mdp.pair_state, mdp.action]
    else:
        chance = table.max(axis=0)[mdp.pair_state, mdp.action]
    return np.flatnonzero((chance > 0.0) & posterior.come)


def drawn_totals(posterior: Posterior, policy: Policy, draws: int, seed: int) -> Float:
    """[draws, 1+d]: what a Markov policy is worth in each of so many models."""
    return Ensemble(posterior, played(posterior, policy), draws, seed).totals(policy)

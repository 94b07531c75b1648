"""How far the value of a policy may be off under a posterior, pair by pair: to first order, without drawing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Float
from conrl.estimation.posterior import Posterior
from conrl.policy import Policy


class Deviations(NamedTuple):
    """How far the value of a policy may be off, pair by pair."""

    deviation: Float  # [P, 1+d]: posterior standard deviation of c + V(s'), averaged over when the state is left
    visits: Float  # [P]: expected, of the policy
    value: Float  # [1+d]: of the policy, at the posterior's means


def deviations(posterior: Posterior, policy: Policy) -> Deviations:
    """How far c + V(s') of each pair may be off, where V is what this policy still comes to.

    The same unknown transitions are used at every step, so that a pair's V is averaged over the steps at which the
    policy leaves its state; where it never is, over all steps.
    """
    mdp = posterior.mdp
    H, S, width, table = mdp.horizon, mdp.num_states, posterior.means.shape[1], policy.probabilities
    start, owner = posterior.link_start, posterior.link_pair
    probability = posterior.link_times / np.bincount(owner, posterior.link_times, minlength=mdp.num_pairs)[owner]
    values = np.empty((H + 1, S, width))
    occupied = np.zeros((H, S))
    occupied[0] = mdp.initial
    kernels.policy_values(
        mdp.graph.first, start, posterior.successor, probability, mdp.action, posterior.means, table, occupied, values
    )
    node = mdp._pair_node
    if mdp.step_dependent:
        when = np.zeros((H * S, H))
        when[np.arange(H * S), np.arange(H * S) // S] = 1.0
        visits = occupied[mdp.pair_step, mdp.pair_state] * table[mdp.pair_step, mdp.pair_state, mdp.action]
    else:
        total = occupied.sum(axis=0)
        when = np.where(total[:, None] > 0.0, occupied.T / np.where(total > 0.0, total, 1.0)[:, None], 1.0 / H)
        visits = np.einsum("hk,hk->k", occupied[:, mdp.pair_state], table[:, mdp.pair_state, mdp.action])
    after = np.empty((posterior.successor.size, width))
    kernels.values_after(node[owner], posterior.successor, when, values, after)
    variance = _spread(posterior, after, probability, when, values)
    return Deviations(np.sqrt(variance), visits, occupied[0] @ values[0])


def _spread(posterior: Posterior, after: Float, probability: Float, when: Float, values: Float) -> Float:
    """[P, 1+d]: posterior variance of the mean of c + V(s') of each pair."""
    P, width, owner, atoms = posterior.mdp.num_pairs, posterior.means.shape[1], posterior.link_pair, posterior.atoms
    begin, end, target, chance = posterior.back
    nodes = begin.size
    sizes = end - begin
    which = np.repeat(np.arange(nodes), sizes)
    at = np.arange(which.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(begin, sizes)
    elsewhere = np.empty((which.size, width))
    kernels.values_after(which, target[at], when, values, elsewhere)
    back, back_square = (
        np.stack([np.bincount(which, chance[at] * x[:, i], minlength=nodes) for i in range(width)], axis=1)
        for x in (elsewhere, elsewhere**2)
    )

    def sums(x: Float) -> Float:
        return np.stack([np.bincount(owner, x[:, i], minlength=P) for i in range(width)], axis=1)

    N = np.where(posterior.known, 0, posterior.visits)[:, None]
    ahead, ahead_square = sums(probability[:, None] * after), sums(probability[:, None] * after**2)
    # What is paid goes with where it leads: the covariance of both, over what was seen.
    share = atoms.times / np.maximum(posterior.visits[atoms.pair], 1)
    both = share[:, None] * atoms.pay * after[atoms.link]
    cross = np.stack([np.bincount(atoms.pair, both[:, i], minlength=P) for i in range(width)], axis=1)
    paid = np.stack([np.bincount(atoms.pair, share * atoms.pay[:, i], minlength=P) for i in range(width)], axis=1)
    covariance = (cross - paid * ahead) * N / np.maximum(N + posterior.worth, 1.0)
    lost = np.where(posterior.visits > 0, posterior.lost / np.maximum(posterior.lost + posterior.visits, 1e-300), 1.0)[
        :, None
    ]
    node = posterior.mdp._pair_node
    moved = (1.0 - lost) * ahead + lost * back[node]
    square = (1.0 - lost) * ahead_square + lost * back_square[node]
    variance = np.maximum(posterior.variance + np.maximum(square - moved**2, 0.0) + 2.0 * covariance, 0.0)
    spread: Float = variance / (N + posterior.worth + 1.0)
    spread[posterior.known if posterior.worst is None else posterior.known | posterior.blank] = 0.0
    return spread

"""Random sparse models, to test and to measure with.

Letters: S states, A actions, k successors of a pair, d costs, H horizon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float, Int
from conrl.envs.chains import read_size
from conrl.model import ConstrainedMDP
from conrl.model.reading import read_horizon
from conrl.sizes import check_costs

if TYPE_CHECKING:
    import scipy.sparse as sp


def random_cmdp(
    states: int = 100,
    actions: int = 4,
    successors: int = 5,
    costs: int = 1,
    seed: int | np.random.Generator = 0,
    *,
    horizon: int = 30,
    band: int | None = None,
    limits: ArrayLike | None = None,
) -> ConstrainedMDP:
    """A random sparse model: uniform rewards and costs, Dirichlet probabilities over a few successors.

    Args:
        states, actions, costs: sizes.
        successors: draws of a next state for each pair, uniform and with repetition; a state drawn twice has
            both probabilities, which are uniform on the simplex (flat Dirichlet).
        seed: a number or a generator; the same number gives the same model.
        horizon: number of steps of an episode, which starts in state 0.
        band: if given, a step leads at most this many states up or down. States lie on a ring: none is at an edge.
        limits: default limits `[d]`. If not given, they are half-way between the costs of two simple policies:
            the *cautious* one takes the action with the least sum of costs, the *greedy* one that with the most
            reward; but never below the cautious policy's. So they can always be kept, and they bind in general.

    Rewards and costs are drawn per pair, uniformly from [0, 1].
    """
    for name, size, least in (
        ("states", states, 1),
        ("actions", actions, 1),
        ("successors", successors, 1),
        ("costs", costs, 0),
        ("band", 0 if band is None else band, 0),
    ):
        read_size(size, name, least)
    read_horizon(horizon, states)  # before the sizes take memory, and the limits time
    check_costs(costs)
    rng = np.random.default_rng(seed)
    pairs = states * actions
    if band is None:
        target = rng.integers(states, size=(pairs, successors), dtype=np.int32)
    else:
        here = np.repeat(np.arange(states), actions)[:, None]
        target = ((here + rng.integers(-band, band + 1, size=(pairs, successors))) % states).astype(np.int32)
    weight = rng.standard_exponential((pairs, successors))
    weight /= weight.sum(axis=1, keepdims=True)
    start = np.arange(pairs + 1, dtype=np.int64) * successors
    import scipy.sparse as sp  # here: loading it takes longer than planning

    transitions = sp.csr_array((weight.ravel(), target.ravel(), start), shape=(pairs, states))
    rewards = rng.random((states, actions))
    consumed = rng.random((states, actions, costs))
    if limits is None:
        limits = _between(transitions, rewards, consumed, horizon)
    return ConstrainedMDP(transitions, rewards, consumed, horizon=horizon, limits=limits)


def _between(transitions: sp.csr_array, rewards: Float, costs: Float, horizon: int) -> Float:
    """Limits half-way between the cautious and the greedy policy."""
    cautious = _totals(transitions, costs.sum(axis=2).argmin(axis=1), costs, horizon)
    greedy = _totals(transitions, rewards.argmax(axis=1), costs, horizon)
    # The tiny excess covers the rounding of another order of addition, where both policies are the same.
    return np.asarray(np.maximum(cautious, (cautious + greedy) / 2.0) * (1.0 + 1e-9))


def _totals(transitions: sp.csr_array, choice: Int, costs: Float, horizon: int) -> Float:
    """[d]: expected total costs from state 0 if state s always takes action choice[s]."""
    S, A = costs.shape[:2]
    backward = transitions[np.arange(S) * A + choice].T.tocsr()
    occupied = np.zeros(S)
    occupied[0] = 1.0
    visits = np.zeros(S)
    for _ in range(horizon):
        visits += occupied
        occupied = np.asarray(backward @ occupied).reshape(S)
    return np.asarray(visits @ costs[np.arange(S), choice])

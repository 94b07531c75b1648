"""Job scheduling on a computer cluster: how many machines to run, between the energy bill and the queue.

An application that Brantley et al. (2020) name in their introduction, after Mao, Alizadeh, Menache and Kandula (2016),
who pack jobs of many kinds onto a cluster so that they wait little; here jobs are alike, and machines take energy.

State (q, m): the jobs in the queue, q in 0..N, and the machines that ran in the last step, m in 0..M; its index is
q (M + 1) + m. Action: the number of machines to run in this step, k in 0..M. Then, in one step,

    completed   X ~ Binomial(min(q, k), mu)           each machine with a job completes it with probability mu
    arrivals    Y with P(Y = i) = arrivals[i]
    next state  (min(N, q - X + Y), k)                 those that find the queue full are turned away

    reward      X / M
    energy      (k + startup max(k - m, 0)) / (M (1 + startup))
    latency     (q - X) / N                            the jobs that wait for another step

Pay is by outcome: by the jobs that were really completed. The first state is (0, 0): nothing to do, all off.

Units: the reward is in M jobs; energy is in the most that a step can take, M (1 + startup) times what a machine
takes a step (switching one on takes `startup` times as much, switching off nothing); latency is in N jobs waiting
one step. An episode cannot be stopped early: the queue stays.

Optimum within the limits: reward 7.074179 at energy 5 and latency 5 (shadow prices 1.781801 and 0.227251).
With the limit on energy alone: reward 7.334418 at latency 7.949807. Unlimited: reward 7.947809 at energy 6.919157 and
latency 1.143252. Where a cost has no limit, the least is given that an optimal policy needs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from conrl.envs.chains import binomial, read_distribution, read_number, read_probability, read_size
from conrl.model import ConstrainedMDP


def cluster(
    *,
    machines: int = 4,
    queue: int = 8,
    arrivals: ArrayLike = (0.3, 0.3, 0.2, 0.1, 0.1),
    completion: float = 0.8,
    startup: float = 1.0,
    horizon: int = 24,
    limits: ArrayLike | Mapping[str, float] | None = (5.0, 5.0),
) -> ConstrainedMDP:
    """Job scheduling: how many machines of a cluster to run, with limited energy and latency.

    Args:
        machines: how many there are, M.
        queue: how many jobs fit the queue, N, those in work included.
        arrivals: probabilities of 0, 1, 2, ... new jobs in a step.
        completion: probability that a machine completes its job in a step, mu.
        startup: energy to switch a machine on, in units of what it takes to run it for a step.
        horizon: number of steps.
        limits: default limits of energy and latency, `[energy, latency]`.

    See the module's docstring for the exact dynamics, the units and the optimum.
    """
    M, N = read_size(machines, "machines"), read_size(queue, "queue")
    arriving = read_distribution(arrivals, "arrivals")
    mu = read_probability(completion, "completion")
    extra = read_number(startup, "startup", least=0.0)
    completing = np.zeros((M + 1, M + 1))  # [machines with a job, completed]
    for busy in range(M + 1):
        completing[busy, : busy + 1] = binomial(busy, mu)

    q, m, k, x, y = (i.ravel() for i in np.indices((N + 1, M + 1, M + 1, M + 1, arriving.size)))
    left = np.maximum(q - x, 0)  # below 0 only where the probability is 0
    energy = (k + extra * np.maximum(k - m, 0)) / (M * (1.0 + extra))
    return ConstrainedMDP.from_outcomes(
        q * (M + 1) + m,
        k,
        np.minimum(left + y, N) * (M + 1) + k,
        completing[np.minimum(q, k), x] * arriving[y],
        np.stack([x / M, energy, left / N], axis=1),
        num_states=(N + 1) * (M + 1),
        num_actions=M + 1,
        horizon=horizon,
        limits=limits,
        state_names=[f"{jobs} jobs, {on} on" for jobs in range(N + 1) for on in range(M + 1)],
        action_names=[f"run {on}" for on in range(M + 1)],
        cost_names=("energy", "latency"),
    )

"""What one change of a deterministic policy does to its value vector, exactly.

A policy is `choice` [n], the pair that is played at each position (see `conrl.kernels`; every step has positions of its
own here, by rising step, so that a pair leads only to later positions). With mu(i) the probability of position i and
V(i) [1+d] the value vector to go, playing pair k at i instead changes the value vector of the policy by

    mu(i) (pay(k) + sum_j p(j) V(successor(j)) - V(i))                                    (1)

and nothing is neglected: what comes before i does not change, nor what comes after it, given where one comes to.

`merit` of a value vector z is  z[0] - sum_r penalty_r max(0, sign_r z[column_r] - bound_r):  the reward, less what the
rows are exceeded by. Outcomes of the last step (positions from `last` on) are not read.
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled

Steps = tuple[Array, Array, Array, Array, Array, Array]  # first, start, successor, probability, initial, pay
Merit = tuple[Array, Array, Array, Array]  # column, sign, bound, penalty


@compiled
def occupied(steps: Steps, last: int, choice: Array, mu: Array) -> None:
    """The probability mu [n] of each position."""
    _, start, successor, probability, initial, _ = steps
    for i in range(mu.size):
        mu[i] = initial[i]
    for i in range(last):
        x = mu[i]
        if x > 0.0:
            k = choice[i]
            for j in range(start[k], start[k + 1]):
                mu[successor[j]] += x * probability[j]


@compiled
def to_go(steps: Steps, last: int, choice: Array, V: Array) -> None:
    """The value vector V [n, 1+d] from each position on."""
    _, start, successor, probability, _, pay = steps
    for i in range(choice.size - 1, -1, -1):
        k = choice[i]
        for c in range(V.shape[1]):
            V[i, c] = pay[k, c]
        if i < last:
            for j in range(start[k], start[k + 1]):
                for c in range(V.shape[1]):
                    V[i, c] += probability[j] * V[successor[j], c]


@compiled
def changed(steps: Steps, last: int, choice: Array, mu: Array, V: Array, changes: Array) -> None:
    """changes [P, 1+d]: Eq. (1) for every pair."""
    first = steps[0]
    for i in range(choice.size):
        for k in range(first[i], first[i + 1]):
            _change(steps, last, mu[i], V, i, k, changes[k])


@compiled
def _change(steps: Steps, last: int, x: float, V: Array, i: int, k: int, change: Array) -> None:
    """Eq. (1) of pair k at position i, of probability x."""
    _, start, successor, probability, _, pay = steps
    for c in range(change.size):
        change[c] = pay[k, c] - V[i, c]
    if i < last:
        for j in range(start[k], start[k + 1]):
            p = probability[j]
            for c in range(change.size):
                change[c] += p * V[successor[j], c]
    for c in range(change.size):
        change[c] *= x


@compiled
def _merit(rows: Merit, z: Array) -> float:
    column, sign, bound, penalty = rows
    total = float(z[0])
    for r in range(column.size):
        over = sign[r] * z[column[r]] - bound[r]
        if over > 0.0:
            total -= penalty[r] * over
    return total


@compiled
def _best_change(
    steps: Steps, last: int, rows: Merit, choice: Array, mu: Array, V: Array, z: Array, work: Array
) -> tuple[int, int, float]:
    """The position and the pair of the best single change, and the merit after it; -1 if there is no other pair."""
    first = steps[0]
    position = -1
    pair = -1
    best = -np.inf
    for i in range(choice.size):
        if mu[i] > 0.0 and first[i + 1] - first[i] > 1:
            for k in range(first[i], first[i + 1]):
                if k != choice[i]:
                    _change(steps, last, mu[i], V, i, k, work)
                    for c in range(z.size):
                        work[c] += z[c]
                    merit = _merit(rows, work)
                    if merit > best:
                        best = merit
                        position = i
                        pair = k
    return position, pair, best


@compiled
def _evaluate(steps: Steps, last: int, choice: Array, mu: Array, V: Array, z: Array) -> None:
    occupied(steps, last, choice, mu)
    to_go(steps, last, choice, V)
    initial = steps[4]
    for c in range(z.size):
        z[c] = 0.0
    for i in range(initial.size):
        if initial[i] > 0.0:
            for c in range(z.size):
                z[c] += initial[i] * V[i, c]


@compiled
def climb(
    steps: Steps, last: int, rows: Merit, grain: float, most: int, choice: Array, mu: Array, V: Array, z: Array
) -> float:
    """Make the best single change, at most `most` times, while the merit rises by more than `grain`; the merit.

    `choice` [n] is changed; mu [n], V [n, 1+d] and z [1+d] are left as those of the last policy.
    """
    work = np.empty(z.size)
    _evaluate(steps, last, choice, mu, V, z)
    merit = _merit(rows, z)
    for _ in range(most):
        position, pair, best = _best_change(steps, last, rows, choice, mu, V, z, work)
        if position < 0 or not best > merit + grain:
            break
        choice[position] = pair
        _evaluate(steps, last, choice, mu, V, z)
        merit = _merit(rows, z)
    return merit


@compiled
def climb_twice(
    steps: Steps, last: int, rows: Merit, grain: float, merit: float, positions: Array, pairs: Array, choice: Array
) -> int:
    """Try two changes at once: each of positions[m], pairs[m] with the best second change.

    Stops at the first m after which the merit is above merit + grain, with both changes made in `choice`, and returns
    m; else the number of those tried, with `choice` as it was.
    """
    n = choice.size
    mu = np.empty(n)
    V = np.empty((n, steps[5].shape[1]))
    z = np.empty(steps[5].shape[1])
    work = np.empty(z.size)
    for m in range(positions.size):
        i = positions[m]
        before = choice[i]
        choice[i] = pairs[m]
        _evaluate(steps, last, choice, mu, V, z)
        position, pair, best = _best_change(steps, last, rows, choice, mu, V, z, work)
        if position >= 0 and best > merit + grain:
            choice[position] = pair
            return m
        choice[i] = before
    return int(positions.size)

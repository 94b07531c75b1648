"""What one change of a deterministic policy does to its value vector, exactly.

A policy is `choice` [n], the pair that is played at each position (see `conrl.kernels`; every step has positions of its
own here, by rising step, so that a pair leads only to positions of the next step). With mu(i) the probability of
position i and V(i) [1+d] the value vector from there on, playing pair k at i instead changes the value vector of the
policy by

    mu(i) A(k),    A(k) = pay(k) + sum_j p(j) V(successor(j)) - V(i)                      (1)

and nothing is neglected: what comes before i does not change, nor what comes after it, given where one comes to.
A change at i leaves mu as it was up to the step of i, and V and A as they were after it.

`merit` of a value vector z is  z[0] - sum_r penalty_r max(0, sign_r z[column_r] - bound_r):  the reward, less what the
rows are exceeded by.

`steps` is (first, start, successor, probability, initial, pay, begin, step): begin [H+1] are the first positions of the
steps, step [n] the step of each position. Outcomes of the last step are not read.
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled

Steps = tuple[Array, Array, Array, Array, Array, Array, Array, Array]
Merit = tuple[Array, Array, Array, Array]  # column, sign, bound, penalty


@compiled
def occupied(steps: Steps, choice: Array, since: int, mu: Array) -> None:
    """The probability mu [n] of each position after step `since`, from those of that step; since < 0: of all."""
    _, start, successor, probability, initial, _, begin, _ = steps
    last = begin.size - 2
    if since < 0:
        for i in range(begin[1]):
            mu[i] = initial[i]
        since = 0
    if since == last:
        return
    for i in range(begin[since + 1], mu.size):
        mu[i] = 0.0
    for i in range(begin[since], begin[last]):
        x = mu[i]
        if x > 0.0:
            k = choice[i]
            for j in range(start[k], start[k + 1]):
                mu[successor[j]] += x * probability[j]


@compiled
def advantages(steps: Steps, choice: Array, end: int, V: Array, A: Array) -> None:
    """V [n, 1+d] and A [P, 1+d] of the positions before `end`, from those of the others."""
    first, start, successor, probability, _, pay, begin, _ = steps
    last = begin[begin.size - 2]
    width = V.shape[1]
    for i in range(end - 1, -1, -1):
        for k in range(first[i], first[i + 1]):
            for c in range(width):
                A[k, c] = pay[k, c]
            if i < last:
                for j in range(start[k], start[k + 1]):
                    p = probability[j]
                    t = successor[j]
                    for c in range(width):
                        A[k, c] += p * V[t, c]
        for c in range(width):
            V[i, c] = A[choice[i], c]
        for k in range(first[i], first[i + 1]):
            for c in range(width):
                A[k, c] -= V[i, c]


@compiled
def _total(steps: Steps, V: Array, z: Array) -> None:
    """The value vector z [1+d] of the start."""
    initial, begin = steps[4], steps[6]
    for c in range(z.size):
        z[c] = 0.0
    for i in range(begin[1]):
        if initial[i] > 0.0:
            for c in range(z.size):
                z[c] += initial[i] * V[i, c]


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
    steps: Steps, rows: Merit, choice: Array, mu: Array, A: Array, z: Array, lo: int, hi: int, work: Array
) -> tuple[int, int, float]:
    """The best single change at positions lo..hi-1: position, pair, and the merit after it; -1 if there is none."""
    first = steps[0]
    position = -1
    pair = -1
    best = -np.inf
    for i in range(lo, hi):
        x = mu[i]
        if x > 0.0 and first[i + 1] - first[i] > 1:
            for k in range(first[i], first[i + 1]):
                if k != choice[i]:
                    for c in range(z.size):
                        work[c] = z[c] + x * A[k, c]
                    merit = _merit(rows, work)
                    if merit > best:
                        best = merit
                        position = i
                        pair = k
    return position, pair, best


@compiled
def climb(
    steps: Steps, rows: Merit, grain: float, most: int, choice: Array, mu: Array, V: Array, A: Array
) -> tuple[float, int]:
    """Make the best single change, at most `most` times, while the merit rises by more than `grain`.

    The merit, and how many changes were made in `choice` [n]; mu [n], V [n, 1+d] and A [P, 1+d] are left as those of
    the last policy.
    """
    n = choice.size
    z = np.empty(V.shape[1])
    work = np.empty(z.size)
    occupied(steps, choice, -1, mu)
    advantages(steps, choice, n, V, A)
    _total(steps, V, z)
    merit = _merit(rows, z)
    made = 0
    while made < most:
        position, pair, best = _best_change(steps, rows, choice, mu, A, z, 0, n, work)
        if position < 0 or not best > merit + grain:
            break
        choice[position] = pair
        occupied(steps, choice, steps[7][position], mu)
        advantages(steps, choice, position + 1, V, A)
        _total(steps, V, z)
        merit = _merit(rows, z)
        made += 1
    return merit, made


@compiled
def climb_twice(
    steps: Steps,
    rows: Merit,
    grain: float,
    merit: float,
    positions: Array,
    pairs: Array,
    choice: Array,
    mu: Array,
    V: Array,
    A: Array,
) -> int:
    """Try two changes at once: each of positions[m], pairs[m] with the best second change.

    mu, V and A are those of `choice`. Stops at the first m after which the merit is above merit + grain, with both
    changes made in `choice`, and returns m; else the number of those tried, with `choice` as it was.
    """
    n = choice.size
    begin, step = steps[6], steps[7]
    later = mu.copy()
    values = V.copy()
    earlier = np.empty(A.shape)
    z = np.empty(V.shape[1])
    work = np.empty(z.size)
    for m in range(positions.size):
        i = positions[m]
        before = choice[i]
        choice[i] = pairs[m]
        split = begin[step[i] + 1]  # positions from here on have another mu, those before it another A
        for s in range(begin[step[i]], split):
            later[s] = mu[s]
        occupied(steps, choice, step[i], later)
        advantages(steps, choice, split, values, earlier)
        _total(steps, values, z)
        p1, k1, best1 = _best_change(steps, rows, choice, mu, earlier, z, 0, split, work)
        p2, k2, best2 = _best_change(steps, rows, choice, later, A, z, split, n, work)
        if max(best1, best2) > merit + grain:
            if best1 >= best2:
                choice[p1] = k1
            else:
                choice[p2] = k2
            return m
        choice[i] = before
        for s in range(split):
            for c in range(z.size):
                values[s, c] = V[s, c]
    return int(positions.size)

"""Sweeps of stationary policies, without a horizon: the best actions, and linear systems of the chain of one policy.

The graph is as in `conrl.kernels`, with the discount in its probabilities: the row of a pair adds up to at most 1, and
may be empty. The chain of a policy is a sparse matrix Q [n, n] of rows begin, column, weight. All systems are

    (I - Q) V = b    or    (I - Q') x = b
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled
from conrl.kernels.lanes import LANES, add, every, gather, pick, put, row, where
from conrl.kernels.layout import Graph, Lines
from conrl.kernels.planning import ONE

Chain = tuple[Array, ...]  # begin [n+1], column, weight


@compiled
def improve(lines: Lines, n: int, pay: Array, tie: float, V: Array, W: Array, choice: Array) -> tuple[int, float]:
    """W = the best of pay + Q V over the actions, by blocks of LANES: how many choices change, and max (W - V).

    pay [slots, LANES]; V, W and choice [B, LANES], of which the first n positions are states. A choice is kept unless
    another is better by more than `tie`: it then goes to the first that no later one beats by as much.
    """
    block_first, slot_start, line_successor, line_probability = lines
    flat = V.reshape(-1)
    ties = every(tie)
    zero = every(0.0)
    changed = 0
    most = -np.inf
    picked = np.empty((1, LANES))
    for b in range(np.uint64(block_first.size - 1)):
        best = every(-np.inf)
        chosen = best
        own = best
        at = zero
        a = 0.0
        before = row(choice, b)
        for slot in range(block_first[b], block_first[b + ONE]):
            q = row(pay, slot)
            for line in range(slot_start[slot], slot_start[slot + ONE]):
                q = add(q, row(line_probability, line), gather(flat, row(line_successor, line)))
            at = pick(q, chosen, ties, every(a), at)
            chosen = pick(q, chosen, ties, q, chosen)
            best = pick(q, best, zero, q, best)
            own = where(before, np.uint32(a), q, own)
            a += 1.0
        put(W, b, best)
        put(picked, 0, pick(best, own, ties, at, every(-1.0)))
        here = np.int64(b) * LANES
        for m in range(min(LANES, n - here)):
            if picked[0, m] >= 0.0 and np.uint32(picked[0, m]) != choice[b, m]:
                choice[b, m] = np.uint32(picked[0, m])
                changed += 1
            most = max(most, W[b, m] - V[b, m])
    return changed, most


@compiled
def chain_of(graph: Graph, choice: Array, begin: Array, column: Array, weight: Array) -> int:
    """The rows of the pairs that choice [n] plays; how many entries they have."""
    first, start, successor, probability = graph
    at = np.uint64(0)
    for s in range(np.uint64(begin.size - 1)):
        begin[s] = at
        k = np.uint64(first[s]) + np.uint64(choice[s])
        for j in range(np.uint64(start[k]), np.uint64(start[k + ONE])):
            column[at] = successor[j]
            weight[at] = probability[j]
            at += ONE
    begin[begin.size - 1] = at
    return int(at)


@compiled
def follow(chain: Chain, b: Array, V: Array, W: Array, sweeps: int) -> None:
    """V = b + Q V, an even number of times; W [n] is scratch."""
    begin, column, weight = chain
    n = np.uint64(b.size)
    for _ in range((sweeps + 1) // 2):
        for s in range(n):
            q = b[s]
            for j in range(begin[s], begin[s + ONE]):
                q += weight[j] * V[column[j]]
            W[s] = q
        for s in range(n):
            q = b[s]
            for j in range(begin[s], begin[s + ONE]):
                q += weight[j] * W[column[j]]
            V[s] = q


@compiled
def apply(chain: Chain, transposed: bool, v: Array, out: Array) -> None:
    """out = v - Q v, or v - Q' v."""
    begin, column, weight = chain
    n = np.uint64(v.size)
    if transposed:
        for s in range(n):
            out[s] = v[s]
        for s in range(n):
            x = v[s]
            for j in range(begin[s], begin[s + ONE]):
                out[column[j]] -= weight[j] * x
    else:
        for s in range(n):
            q = 0.0
            for j in range(begin[s], begin[s + ONE]):
                q += weight[j] * v[column[j]]
            out[s] = v[s] - q


@compiled
def krylov(chain: Chain, transposed: bool, r: Array, shrink: float, most: int, x: Array) -> float:
    """Add to x about (I - Q)^-1 r, or (I - Q')^-1 r, by BiCGSTAB (van der Vorst 1992): what of |r| is left, in share.

    r [n] is the residual, and is left as that of the new x by the recursion; ends at `shrink` or after `most` rounds.
    """
    n = r.size
    shadow = np.empty(n)
    state = np.uint64(88172645463325252)  # numbers that nothing in a model is orthogonal to (xorshift, Marsaglia 2003)
    for s in range(n):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        shadow[s] = np.float64(state >> np.uint64(11)) * 2.0**-53 - 0.5
    p = np.zeros(n)
    v = np.zeros(n)
    t = np.empty(n)
    rho = alpha = omega = 1.0
    first = np.sqrt(np.sum(r * r))
    if first == 0.0:
        return 0.0
    left = first
    for _ in range(most):
        before = rho
        rho = 0.0
        for s in range(n):
            rho += shadow[s] * r[s]
        if rho == 0.0 or omega == 0.0:
            break
        beta = rho / before * alpha / omega
        for s in range(n):
            p[s] = r[s] + beta * (p[s] - omega * v[s])
        apply(chain, transposed, p, v)
        along = 0.0
        for s in range(n):
            along += shadow[s] * v[s]
        if along == 0.0:
            break
        alpha = rho / along
        for s in range(n):
            r[s] -= alpha * v[s]
        apply(chain, transposed, r, t)
        tt = tr = 0.0
        for s in range(n):
            tt += t[s] * t[s]
            tr += t[s] * r[s]
        omega = tr / tt if tt > 0.0 else 0.0
        left = 0.0
        for s in range(n):
            x[s] += alpha * p[s] + omega * r[s]
            r[s] -= omega * t[s]
            left += r[s] * r[s]
        left = np.sqrt(left)
        if not shrink * first < left < 1e6 * first:
            break
    share: float = left / first
    return share


@compiled
def residual(chain: Chain, b: Array, x: Array, r: Array) -> None:
    """r = b - x + Q' x with every sum compensated (Neumaier 1974): off by a few ulps of its terms, however many."""
    begin, column, weight = chain
    n = np.uint64(x.size)
    low = np.zeros(x.size)
    for s in range(n):
        r[s] = b[s]
    for s in range(n):
        total = r[s] - x[s]
        low[s] = (r[s] - total) - x[s] if abs(r[s]) >= abs(x[s]) else r[s] - (x[s] + total)
        r[s] = total
    for s in range(n):
        for j in range(begin[s], begin[s + ONE]):
            t = column[j]
            y = weight[j] * x[s]
            total = r[t] + y
            low[t] += (r[t] - total) + y if abs(r[t]) >= abs(y) else (y - total) + r[t]
            r[t] = total
    for s in range(n):
        r[s] += low[s]


@compiled
def paid(x: Array, rows: Array, pay: Array, out: Array) -> None:
    """out [m] = sum over s of x[s] pay[rows[s]], with compensated sums; pay [P, m]."""
    for i in range(out.size):
        total = low = 0.0
        for s in range(x.size):
            y = x[s] * pay[rows[s], i]
            new = total + y
            low += (total - new) + y if abs(total) >= abs(y) else (y - new) + total
            total = new
        out[i] = total + low


@compiled
def series(chain: Chain, transposed: bool, r: Array, sweeps: int, x: Array) -> None:
    """Add to x the first terms of r + Q r + Q^2 r + .., or of Q'; slow, and sure where rows add up to less than 1."""
    begin, column, weight = chain
    n = np.uint64(r.size)
    now = r.copy()
    then = np.empty(r.size)
    for _ in range(sweeps):
        for s in range(n):
            x[s] += now[s]
            then[s] = 0.0
        for s in range(n):
            if transposed:
                for j in range(begin[s], begin[s + ONE]):
                    then[column[j]] += weight[j] * now[s]
            else:
                q = 0.0
                for j in range(begin[s], begin[s + ONE]):
                    q += weight[j] * now[column[j]]
                then[s] = q
        now, then = then, now


@compiled
def profile(chain: Chain) -> int:
    """How many entries a factorisation of I - Q in this order can have: those between the first of each row, or column,
    and the diagonal."""
    begin, column, _ = chain
    n = begin.size - 1
    above = np.zeros(n, np.int64)
    total = n
    for s in range(n):
        left = 0
        for j in range(begin[s], begin[s + 1]):
            t = np.int64(column[j])
            left = max(left, s - t)
            above[t] = max(above[t], t - s)
        total += left
    for s in range(n):
        total += above[s]
    return total


@compiled
def reached(chain: Chain, initial: Array) -> Array:
    """[n]: whether the chain can come to a state from one with initial > 0; entries of weight 0 lead nowhere."""
    begin, column, weight = chain
    n = initial.size
    seen = initial > 0.0
    stack = np.empty(n, np.int64)
    size = 0
    for s in range(n):
        if seen[s]:
            stack[size] = s
            size += 1
    while size > 0:
        size -= 1
        s = stack[size]
        for j in range(begin[s], begin[s + 1]):
            t = column[j]
            if weight[j] > 0.0 and not seen[t]:
                seen[t] = True
                stack[size] = t
                size += 1
    return seen


@compiled
def relative(
    lines: Lines, n: int, pay: Array, tie: float, V: Array, W: Array, choice: Array, most: int, span: float
) -> tuple[float, float]:
    """Value iteration for the average: V moves half of the way to T V, until max - min of (T V - V) is at most `span`.

    Half of the way makes every chain aperiodic and changes no average (Puterman 1994, Section 8.5.4). At most `most`
    sweeps; V is kept near 0. Returns the least and the most of T V - V; `choice` is the best for V.
    """
    low = high = 0.0
    for sweep in range(most):
        _, high = improve(lines, n, pay, tie, V, W, choice)
        low = np.inf
        for s in range(n):
            low = min(low, W[s // LANES, s % LANES] - V[s // LANES, s % LANES])
        if high - low <= span or sweep == most - 1:
            break
        base = 0.5 * (V[0, 0] + W[0, 0])
        for s in range(n):
            b, m = s // LANES, s % LANES
            V[b, m] = 0.5 * (V[b, m] + W[b, m]) - base
    return low, high


@compiled
def strong(begin: Array, column: Array) -> tuple[int, Array]:
    """The strongly connected parts of a graph with edges s -> column[begin[s]:begin[s+1]] (Tarjan 1972): how many, and
    [n] the number of each state's part; what a part leads to has a lower number."""
    n = begin.size - 1
    label = np.full(n, -1, np.int64)
    index = np.full(n, -1, np.int64)
    low = np.zeros(n, np.int64)
    at = np.zeros(n, np.int64)
    path = np.empty(n, np.int64)
    pending = np.empty(n, np.int64)
    waiting = 0
    time = 0
    count = 0
    for root in range(n):
        if index[root] >= 0:
            continue
        depth = 1
        path[0] = root
        while depth > 0:
            s = path[depth - 1]
            if index[s] < 0:
                index[s] = low[s] = time
                time += 1
                at[s] = begin[s]
                pending[waiting] = s
                waiting += 1
            deeper = False
            while at[s] < begin[s + 1]:
                t = column[at[s]]
                if index[t] < 0:
                    path[depth] = t
                    depth += 1
                    deeper = True
                    break
                if label[t] < 0:
                    low[s] = min(low[s], low[t])
                at[s] += 1
            if deeper:
                continue
            depth -= 1
            if low[s] == index[s]:
                while True:
                    waiting -= 1
                    t = pending[waiting]
                    label[t] = count
                    if t == s:
                        break
                count += 1
    return count, label

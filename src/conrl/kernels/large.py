"""Backward induction of large models: on the model's own arrays, a range of states at a time, so that threads share a
step.

What `planning` gains by an order and a layout of its own would be paid for with copies of the model. Here a step asks
for the value V at the successors and, for the pair that is chosen, for the *totals* Z [S, n] of what its policy is
still paid there: the policy is evaluated backward, along with the choice. Nothing is added up across states, so that
the ranges into which a step is cut make no difference to any bit.

States are worked on BLOCK at a time: first all choices, then the totals of what was chosen, whose outcomes the cache
still has.
"""

from typing import Any

import numpy as np

from conrl.kernels.compiling import Array, compiled
from conrl.kernels.fetching import fetch

Graph = tuple[Array, ...]
ZERO, ONE, TWO, THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
BLOCK = 64  # states whose outcomes are read twice, one read after the other
AHEAD = 8  # states whose successors are asked for before they are needed
FEW = 4  # directions that share a sweep of `large_step_few`; more would take more memory than they are worth


@compiled
def _ask(graph: Graph, states: Array, m: Any, stop: Any, V: Array, width: Any) -> None:
    """Ask for the rows [width] of V at the successors of the state that comes AHEAD of the m-th."""
    first, start, successor, _ = graph
    m += np.uint64(AHEAD)
    if m < stop:
        s = np.uint64(states[m]) if states.size else m
        for j in range(np.uint64(start[np.uint64(first[s])]), np.uint64(start[np.uint64(first[s + ONE])])):
            fetch(V, np.uint64(successor[j]) * width)


@compiled
def _ask_totals(graph: Graph, k: Any, Z: Array, lane: Any) -> None:
    """Ask for the totals Z at the successors of pair k, from entry `lane` on."""
    _, start, successor, _ = graph
    width = np.uint64(Z.shape[1])
    for j in range(np.uint64(start[k]), np.uint64(start[k + ONE])):
        fetch(Z, np.uint64(successor[j]) * width + lane)


@compiled
def _totals(
    graph: Graph, table: Array, sized: bool, states: Array, begin: Any, end: Any, pairs: Array, last: bool, Z: Array,
    X: Array, lane: Any,
) -> None:  # fmt: skip
    """For each of the states of a block, into X[s] from entry `lane` on: what its pair pays of `table` [P, n], and the
    totals Z of the successors."""
    _, start, successor, probability = graph
    n = np.uint64(table.shape[1])
    listed = states.size > 0
    for m in range(begin, end):
        s = np.uint64(states[m]) if listed else m
        k = pairs[m - begin]
        first = np.uint64(start[k])
        until = first if last else np.uint64(start[k + ONE])
        i = np.uint64(0)
        while i < n:
            at = lane + i
            if i + THREE < n:  # four at a time
                a, b, c, d = table[k, i], table[k, i + ONE], table[k, i + TWO], table[k, i + THREE]
                if sized:
                    a, b, c, d = abs(a), abs(b), abs(c), abs(d)
                for j in range(first, until):
                    p, t = probability[j], np.uint64(successor[j])
                    a += p * Z[t, at]
                    b += p * Z[t, at + ONE]
                    c += p * Z[t, at + TWO]
                    d += p * Z[t, at + THREE]
                X[s, at] = a
                X[s, at + ONE] = b
                X[s, at + TWO] = c
                X[s, at + THREE] = d
                i += np.uint64(4)
            else:
                a = abs(table[k, i]) if sized else table[k, i]
                for j in range(first, until):
                    a += probability[j] * Z[np.uint64(successor[j]), at]
                X[s, at] = a
                i += ONE


@compiled
def large_step(
    graph: Graph, along: Array, pay: Array, bonus: Array, tie: float, sized: bool, states: Array, begin: int, end: int,
    last: bool, far: bool, V: Array, W: Array, Z: Array, X: Array, Y: Array, U: Array, action: Array, played: Array,
) -> None:  # fmt: skip
    """One step of backward induction for the pay `along` [P], at states[begin:end]; without `states`, at begin..end-1.

    From V [S], the values at the next step, to W; where they have entries, from Z [S, 1+d], the totals of `pay` (of its
    size, if `sized`), to X, from Y, those of `bonus`, to U, and the actions into played [S]. `last`: no step follows.
    `far`: V and Z are too large for a cache, and asked for ahead. Ties as in `backward`.
    """
    first, start, successor, probability = graph
    pairs = np.empty(BLOCK, np.uint64)
    listed = states.size > 0
    i = np.uint64(begin)
    stop = np.uint64(end)
    while i < stop:
        until = min(i + np.uint64(BLOCK), stop)
        for m in range(i, until):
            s = np.uint64(states[m]) if listed else m
            if far:
                _ask(graph, states, m, stop, V, ONE)
            best = -np.inf
            chosen = -np.inf
            at = np.uint64(first[s])
            for k in range(np.uint64(first[s]), np.uint64(first[s + ONE])):
                q = along[k]
                if not last:
                    for j in range(np.uint64(start[k]), np.uint64(start[k + ONE])):
                        q += probability[j] * V[np.uint64(successor[j])]
                better = q > chosen + tie  # no branch: it could not be foretold
                at = k if better else at
                chosen = q if better else chosen
                best = q if q > best else best
            W[s] = best
            pairs[m - i] = at
            if far and Z.size:
                fetch(pay, at * np.uint64(pay.shape[1]))
                _ask_totals(graph, at, Z, ZERO)
        if played.size:
            for m in range(i, until):
                played[np.uint64(states[m]) if listed else m] = action[pairs[m - i]]
        if Z.size:
            _totals(graph, pay, sized, states, i, until, pairs, last, Z, X, np.uint64(0))
        if Y.size:
            _totals(graph, bonus, False, states, i, until, pairs, last, Y, U, np.uint64(0))
        i = until


@compiled
def large_step_few(
    graph: Graph, pay: Array, bonus: Array, weights: Array, sizes: Array, ties: Array, states: Array, begin: int,
    end: int, last: bool, far: bool, V: Array, W: Array, Z: Array, X: Array, Y: Array, U: Array,
) -> None:  # fmt: skip
    """The same in FEW directions at once, bit for bit: weights and their sizes [1+d, FEW], V and W [S, FEW], Z and its
    like [S, FEW * (1+d)].

    A value that is fetched from memory brings those of the other directions with it.
    """
    first, start, successor, probability = graph
    pairs = np.empty((FEW, BLOCK), np.uint64)
    listed, more = states.size > 0, bonus.shape[0] > 0
    t0, t1, t2, t3 = ties[0], ties[1], ties[2], ties[3]
    width = np.uint64(weights.shape[0])
    i = np.uint64(begin)
    stop = np.uint64(end)
    while i < stop:
        until = min(i + np.uint64(BLOCK), stop)
        for m in range(i, until):
            s = np.uint64(states[m]) if listed else m
            if far:
                _ask(graph, states, m, stop, V, np.uint64(FEW))
            b0 = b1 = b2 = b3 = -np.inf
            c0 = c1 = c2 = c3 = -np.inf
            k0 = k1 = k2 = k3 = np.uint64(first[s])
            for k in range(np.uint64(first[s]), np.uint64(first[s + ONE])):
                q0 = q1 = q2 = q3 = 0.0
                for c in range(width):
                    x = pay[k, c]
                    q0 += x * weights[c, ZERO]
                    q1 += x * weights[c, ONE]
                    q2 += x * weights[c, TWO]
                    q3 += x * weights[c, THREE]
                if more:
                    for c in range(width):
                        x = bonus[k, c]
                        q0 += x * sizes[c, ZERO]
                        q1 += x * sizes[c, ONE]
                        q2 += x * sizes[c, TWO]
                        q3 += x * sizes[c, THREE]
                if not last:
                    for j in range(np.uint64(start[k]), np.uint64(start[k + ONE])):
                        p, t = probability[j], np.uint64(successor[j])
                        q0 += p * V[t, ZERO]
                        q1 += p * V[t, ONE]
                        q2 += p * V[t, TWO]
                        q3 += p * V[t, THREE]
                k0 = k if q0 > c0 + t0 else k0
                c0 = q0 if q0 > c0 + t0 else c0
                b0 = q0 if q0 > b0 else b0
                k1 = k if q1 > c1 + t1 else k1
                c1 = q1 if q1 > c1 + t1 else c1
                b1 = q1 if q1 > b1 else b1
                k2 = k if q2 > c2 + t2 else k2
                c2 = q2 if q2 > c2 + t2 else c2
                b2 = q2 if q2 > b2 else b2
                k3 = k if q3 > c3 + t3 else k3
                c3 = q3 if q3 > c3 + t3 else c3
                b3 = q3 if q3 > b3 else b3
            W[s, ZERO] = b0
            W[s, ONE] = b1
            W[s, TWO] = b2
            W[s, THREE] = b3
            pairs[0, m - i] = k0
            pairs[1, m - i] = k1
            pairs[2, m - i] = k2
            pairs[3, m - i] = k3
            if far:
                _ask_totals(graph, k0, Z, ZERO)
                _ask_totals(graph, k1, Z, width)
                _ask_totals(graph, k2, Z, TWO * width)
                _ask_totals(graph, k3, Z, THREE * width)
        for lane in range(FEW):
            at = np.uint64(lane) * width
            _totals(graph, pay, False, states, i, until, pairs[lane], last, Z, X, at)
            if Y.size:
                _totals(graph, bonus, False, states, i, until, pairs[lane], last, Y, U, at)
        i = until


@compiled
def started(initial: Array, table: Array, chunk: int, out: Array, begin: int, end: int) -> None:
    """Expected rows of table [S, n] at the start, chunk by chunk: out[c] for begin <= c < end is that of the states
    c * chunk to (c + 1) * chunk - 1. What an episode cannot start in is not read."""
    for c in range(begin, end):
        for i in range(table.shape[1]):
            out[c, i] = 0.0
        for s in range(c * chunk, min((c + 1) * chunk, initial.size)):
            if initial[s] > 0.0:
                for i in range(table.shape[1]):
                    out[c, i] += initial[s] * table[s, i]


@compiled
def mark_next(first: Array, start: Array, successor: Array, states: Array, mark: Array) -> None:
    """Set mark [S] at all states that one step leads to from some states."""
    for i in range(states.size):
        s = np.uint64(states[i])
        for j in range(np.uint64(start[np.uint64(first[s])]), np.uint64(start[np.uint64(first[s + ONE])])):
            mark[np.uint64(successor[j])] = True


@compiled
def extent(first: Array, start: Array, table: Array, ever: Array, low: Array, high: Array) -> int:
    """The least and the most of each column of table [P, n], over the pairs of the states `ever` [S] (all, if there is
    none); returns the most outcomes of such a pair."""
    most = 0
    for i in range(low.size):
        low[i], high[i] = np.inf, -np.inf
    for s in range(first.size - 1):
        if ever.size == 0 or ever[s]:
            for k in range(first[s], first[s + 1]):
                most = max(most, start[k + 1] - start[k])
                for i in range(low.size):
                    low[i] = min(low[i], table[k, i])
                    high[i] = max(high[i], table[k, i])
    return most

"""Chains that hardly ever move: elimination without subtraction, and residuals in twice the digits.

A chain is given by the probabilities q[s, t] that it moves to *another* state and exits[s] that it ends; to stay is
what is left of 1. As nothing is subtracted from 1, leaving with probability 1e-9 is known as well as staying is.

Elimination (Grassmann, Taksar and Heyman 1985): the chain watched only while it is in states 0 .. k-1 moves with

    q[i, j] + q[i, k] q[k, j] / leaving[k],    leaving[k] = exits[k] + sum over j < k of q[k, j]

sums, products and quotients of numbers that are not below 0. So no digit cancels, however slow the chain is. A relative
change of each q by e changes each stationary probability, and each expected visit, by 2 n e at most, as both are ratios
of sums of products of n of them at most (the Markov chain tree theorem). An elimination of state k changes the q that
are left by 5 half ulps, since its sum is compensated; all together, with the substitution, less than 8 (n+1)^2 half
ulps of each entry (`ELIMINATION`; O'Cinneide 1993 has n^3 for plain sums; Alfa, Xue and Ye 2002).

Twice the digits: a number is the sum of two doubles, high and low (Dekker 1971; Knuth's sum, Veltkamp's split).
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled, inlined
from conrl.kernels.layout import Graph
from conrl.kernels.planning import ONE
from conrl.rounding import HALF_ULP

ELIMINATION = 8.0 * HALF_ULP  # times (n+1)^2: what each entry may be off by, in proportion
SPLIT = 2.0**27 + 1.0
NOISE = 32.0 * HALF_ULP**2  # times (outcomes + 4) and the sizes of what is added, in twice the digits


@inlined
def two_sum(a: float, b: float) -> tuple[float, float]:
    """a + b as a double and what it leaves out."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@inlined
def two_product(a: float, b: float) -> tuple[float, float]:
    """a b as a double and what it leaves out."""
    product = a * b
    high = SPLIT * a
    a1 = high - (high - a)
    a2 = a - a1
    high = SPLIT * b
    b1 = high - (high - b)
    b2 = b - b1
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


@compiled
def eliminate(q: Array, exits: Array) -> Array:
    """Eliminate the states of q [n, n], the last first: leaving [n]; the diagonal of q is not read.

    Left in q are, at [k, j < k], the moves of state k when it is eliminated and, at [i < k, k], those to it divided by
    leaving[k]; in exits [n], the ends of each state at that time. Without any exit, leaving[0] is 0.
    """
    n = exits.size
    leaving = np.empty(n)
    for k in range(n - 1, -1, -1):
        total, low = exits[k], 0.0
        for j in range(k):
            y = q[k, j]
            new = total + y
            low += (total - new) + y if total >= y else (y - new) + total
            total = new
        leaving[k] = total + low
        for i in range(k):
            if q[i, k] > 0.0:
                share = q[i, k] / leaving[k]
                q[i, k] = share
                for j in range(k):
                    q[i, j] += share * q[k, j]
                exits[i] += share * exits[k]
    return leaving


@compiled
def eliminated(q: Array, leaving: Array, transposed: bool, r: Array) -> None:
    """Of an elimination: the pay to come from each state for a pay of r [n], left in r; the expected visits if
    transposed, from where it starts."""
    n = r.size
    if transposed:
        for k in range(n - 1, -1, -1):
            r[k] /= leaving[k]
            for j in range(k):
                r[j] += r[k] * q[k, j]
        for k in range(1, n):
            x = r[k]
            for i in range(k):
                x += r[i] * q[i, k]
            r[k] = x
    else:
        for k in range(n - 1, 0, -1):
            for i in range(k):
                r[i] += q[i, k] * r[k]
        for k in range(n):
            v = r[k]
            for j in range(k):
                v += q[k, j] * r[j]
            r[k] = v / leaving[k]


@compiled
def along_closely(pay: Array, bonus: Array, w: Array, out: Array) -> None:
    """`along` in twice the digits, out [2, n]: what is left where a reward and its costs at their prices cancel."""
    for k in range(out.shape[1]):
        high, low = 0.0, 0.0
        for i in range(w.size):
            p, e = two_product(pay[k, i], w[i])
            high, c = two_sum(high, p)
            low += e + c
            if bonus.shape[0]:
                p, e = two_product(bonus[k, i], abs(w[i]))
                high, c = two_sum(high, p)
                low += e + c
        out[0, k], out[1, k] = two_sum(high, low)


@compiled
def gains(graph: Graph, exits: Array, pay: Array, base: Array, V: Array, model: float, gain: Array, off: Array) -> None:
    """gain [P] = pay - base - exits V + sum q (V' - V) of each pair, and off [P], what it may be off by.

    pay [2, P], base [2] and V [2, n] have twice the digits. Each probability and exit of the graph may be off by
    `model`, in proportion.
    """
    first, start, successor, probability = graph
    for s in range(np.uint64(V.shape[1])):
        high, low = V[0, s], V[1, s]
        for k in range(first[s], first[s + ONE]):
            total, rest = two_sum(pay[0, k], -base[0])
            rest += pay[1, k] - base[1]
            p, e = two_product(-exits[k], high)
            total, c = two_sum(total, p)
            rest += c + (e - exits[k] * low)
            size = abs(pay[0, k]) + abs(base[0]) + abs(p)
            moved = abs(p)
            for j in range(start[k], start[k + ONE]):
                t = successor[j]
                if t != s:
                    y = probability[j]
                    d, e = two_sum(V[0, t], -high)
                    e += V[1, t] - low
                    p, c = two_product(y, d)
                    moved += abs(p)
                    size += y * (abs(V[0, t]) + abs(high))
                    c += y * e
                    total, e = two_sum(total, p)
                    rest += e + c
            gain[k] = total + rest
            outcomes = float(start[k + ONE] - start[k])
            off[k] = 1.01 * (HALF_ULP * abs(gain[k]) + model * moved + NOISE * (outcomes + 4.0) * size)


@compiled
def better(graph: Graph, gain: Array, least: float, choice: Array) -> Array:
    """[n]: whether choice [n] changes: to the first pair of those that gain most, if it gains more than `least`."""
    first = graph[0]
    n = choice.size
    changed = np.zeros(n, np.bool_)
    for s in range(np.uint64(n)):
        best = first[s]
        for k in range(first[s], first[s + ONE]):
            if gain[k] > gain[best]:
                best = k
        if gain[best] > least and best - first[s] != choice[s]:
            choice[s] = best - first[s]
            changed[s] = True
    return changed


@compiled
def unbalanced(begin: Array, column: Array, weight: Array, exits: Array, b: Array, x: Array, out: Array) -> None:
    """out [n] = b + what comes to each state - what leaves it, of visits x [2, n] in twice the digits."""
    n = np.uint64(b.size)
    low = np.zeros(b.size)
    for s in range(n):
        out[s] = b[s]
    for s in range(n):
        p, c = two_product(-exits[s], x[0, s])
        out[s], e = two_sum(out[s], p)
        low[s] += e + (c - exits[s] * x[1, s])
        for j in range(begin[s], begin[s + ONE]):
            t = column[j]
            if t != s:
                p, c = two_product(weight[j], x[0, s])
                c += weight[j] * x[1, s]
                out[s], e = two_sum(out[s], -p)
                low[s] += e - c
                out[t], e = two_sum(out[t], p)
                low[t] += e + c
    for s in range(n):
        out[s] += low[s]

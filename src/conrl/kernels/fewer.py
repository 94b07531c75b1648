"""Mixtures of few: weight moved between answers until hardly any unit mixes several."""

import numpy as np

from conrl.kernels.compiling import Array, compiled


@compiled
def fewer_mixtures(gain: Array, use: Array, slack: Array, weight: Array) -> int:
    """Move weight [n, J] of units between their J answers until at most R units or rows are not at an end.

    gain [n, J] and use [n, J, R] are what the answers bring and use (all units of a kind together), slack [R] what the
    rows leave free; weight and slack are changed in place. Each move goes along a null vector of R + 1 degrees of
    freedom (an answer against the unit's base, or a row's slack), does not lower the gain, keeps all rows, and brings
    one weight or slack to 0. Returns how many moves were made. (Caratheodory; a basic solution of the program over the
    units has so many positive weights at most.)
    """
    units, answers = gain.shape
    R = slack.size
    base = np.zeros(units, np.int64)
    for i in range(units):
        for j in range(1, answers):
            if weight[i, j] > weight[i, base[i]]:
                base[i] = j
    unit, answer = np.full(R + 1, -1, np.int64), np.zeros(R + 1, np.int64)  # -1: the slack of row `answer`
    size = 0
    for r in range(R):
        if slack[r] > 0.0:
            answer[size] = r
            size += 1
    V, t = np.zeros((R, R + 1)), np.zeros(R + 1)
    order = np.zeros(R + 1, np.int64)
    at, moves = 0, 0
    while True:
        while size < R + 1 and at < units * answers:
            i, j = at // answers, at % answers
            at += 1
            if j != base[i] and weight[i, j] > 0.0:
                unit[size], answer[size] = i, j
                size += 1
        if size < R + 1:
            return moves
        # A null vector of V [R, R+1], by elimination with full pivoting; columns in `order`.
        for q in range(R + 1):
            order[q] = q
            for r in range(R):
                if unit[q] < 0:
                    V[r, q] = 1.0 if answer[q] == r else 0.0
                else:
                    V[r, q] = use[unit[q], answer[q], r] - use[unit[q], base[unit[q]], r]
        rank, top = 0, 0.0
        for r in range(R):
            best, br, bq = 0.0, r, r
            for e in range(r, R):
                for q in range(r, R + 1):
                    if abs(V[e, q]) > best:
                        best, br, bq = abs(V[e, q]), e, q
            top = max(top, best)
            if best <= 1e-13 * top:
                break
            rank = r + 1
            for q in range(R + 1):
                V[r, q], V[br, q] = V[br, q], V[r, q]
            for e in range(R):
                V[e, r], V[e, bq] = V[e, bq], V[e, r]
            order[r], order[bq] = order[bq], order[r]
            for e in range(R):
                if e != r and V[e, r] != 0.0:
                    f = V[e, r] / V[r, r]
                    for q in range(r, R + 1):
                        V[e, q] -= f * V[r, q]
        for q in range(R + 1):
            t[q] = 0.0
        t[order[rank]] = 1.0
        for r in range(rank):
            t[order[r]] = -V[r, rank] / V[r, r]
        rise = 0.0
        for q in range(R + 1):
            if unit[q] >= 0:
                rise += t[q] * (gain[unit[q], answer[q]] - gain[unit[q], base[unit[q]]])
        if rise < 0.0:
            for q in range(R + 1):
                t[q] = -t[q]
        # How far: until an answer's weight, a base's weight or a slack is 0.
        far, hit, hit_base = np.inf, -1, False
        for q in range(R + 1):
            if t[q] < 0.0:
                held = slack[answer[q]] if unit[q] < 0 else weight[unit[q], answer[q]]
                if held < -t[q] * far:
                    far, hit, hit_base = held / -t[q], q, False
            if unit[q] >= 0:
                taken = 0.0
                for e in range(R + 1):
                    if unit[e] == unit[q]:
                        taken += t[e]
                if taken > 0.0 and weight[unit[q], base[unit[q]]] < taken * far:
                    far, hit, hit_base = weight[unit[q], base[unit[q]]] / taken, q, True
        if hit < 0:
            return moves
        for q in range(R + 1):
            if unit[q] < 0:
                slack[answer[q]] = max(slack[answer[q]] + far * t[q], 0.0)
            else:
                weight[unit[q], answer[q]] = max(weight[unit[q], answer[q]] + far * t[q], 0.0)
                weight[unit[q], base[unit[q]]] -= far * t[q]
        for q in range(R + 1):
            if unit[q] >= 0:  # once all its answers have taken and given
                weight[unit[q], base[unit[q]]] = max(weight[unit[q], base[unit[q]]], 0.0)
        moves += 1
        if hit_base:
            i = unit[hit]
            weight[i, base[i]] = 0.0
            base[i] = answer[hit]  # the base from now on, and no longer a degree of freedom
        elif unit[hit] < 0:
            slack[answer[hit]] = 0.0
        else:
            weight[unit[hit], answer[hit]] = 0.0
        size -= 1
        unit[hit], answer[hit] = unit[size], answer[size]
        unit[size] = -1

"""What given policies do: occupation measures, Markov forms of mixtures, where a policy mixes.

Passes over a model count with unsigned numbers: to ask whether an index is negative takes a third of the time.
"""

import numpy as np

from conrl.kernels.compiling import Array, compiled, interpreted_if_little
from conrl.kernels.lanes import LANES

U = np.uint64
ZERO, ONE = U(0), U(1)


@compiled
def occupation(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    initial: Array,
    action: Array,
    policy: Array,
    horizon: int,
    weight: float,
    rho: Array,
) -> None:
    """Add weight * P(step h, pair k) under the Markov policy [H, S, A] to rho [R, P].

    With R = H rho is the occupation measure, with R = 1 its sum over the steps.
    """
    num_states = U(initial.size)
    stride = num_states if first.size - 1 > initial.size else ZERO
    now = initial.copy()
    then = np.zeros(initial.size)
    for h in range(U(horizon)):
        row = rho[min(h, U(rho.shape[0] - 1))]
        for s in range(num_states):
            here = now[s]
            if here > 0.0:
                now[s] = 0.0
                node = h * stride + s
                for k in range(U(first[node]), U(first[node + ONE])):
                    x = here * policy[h, s, U(action[k])]
                    if x > 0.0:
                        row[k] += weight * x
                        for j in range(U(start[k]), U(start[k + ONE])):
                            then[U(successor[j])] += x * probability[j]
        now, then = then, now


@interpreted_if_little(
    lambda first, start, successor, probability, initial, pair_index, actions, weight, rho: (
        actions.shape[0] * (initial.size + successor.size)
    )
)
def occupation_deterministic(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    initial: Array,
    pair_index: Array,
    actions: Array,
    weight: float,
    rho: Array,
) -> None:
    """`occupation` of a deterministic policy: actions [H, S], pair_index [S, A] or [H * S, A]."""
    num_states = U(initial.size)
    stride = num_states if first.size - 1 > initial.size else ZERO
    now = initial.copy()
    then = np.zeros(initial.size)
    for h in range(U(actions.shape[0])):
        row = rho[min(h, U(rho.shape[0] - 1))]
        for s in range(num_states):
            x = now[s]
            if x > 0.0:
                now[s] = 0.0
                k = U(pair_index[h * stride + s, U(actions[h, s])])
                row[k] += weight * x
                for j in range(U(start[k]), U(start[k + ONE])):
                    then[U(successor[j])] += x * probability[j]
        now, then = then, now


@compiled
def pair_of(begin: int, end: int, action: Array, a: int) -> int:
    """Which of the pairs begin..end-1 of a state has action a; where all actions exist, the a-th."""
    k = begin + a
    if k < end and action[k] == a:
        return k
    k = begin
    while action[k] != a:
        k += 1
    return k


@compiled
def push(first: Array, start: Array, successor: Array, probability: Array, action: Array, played: Array, now: Array,
         then: Array) -> None:  # fmt: skip
    """From now [S], where a policy is at a step, to where it is at the next if it plays played [S]."""
    for s in range(then.size):
        then[s] = 0.0
    for s in range(now.size):
        x = now[s]
        if x > 0.0:
            k = pair_of(first[s], first[s + 1], action, played[s])
            for j in range(start[k], start[k + 1]):
                then[successor[j]] += x * probability[j]


@compiled
def mixed_states(weights: Array, played: Array, now: Array, heaviest: int, modes: Array, found: Array) -> int:
    """The states in which deterministic policies that are mixed with weights [n] do not all play the same, into found.

    played [n, S]: what each plays, and now [n, S]: how likely it is there. Into modes [S]: what is played where one
    action is; where nobody comes, the heaviest policy's.
    """
    count = 0
    for s in range(modes.size):
        one = -1
        several = False
        for i in range(weights.size):
            if weights[i] * now[i, s] > 0.0:
                a = np.int64(played[i, s])
                if one < 0:
                    one = a
                elif a != one:
                    several = True
        modes[s] = played[heaviest, s] if one < 0 else one
        if several:
            found[count] = s
            count += 1
    return count


@compiled
def mixed_rows(weights: Array, played: Array, now: Array, states: Array, modes: Array, rows: Array) -> None:
    """How likely each action is in those states, into rows [m, A], and the most likely one into modes [S]."""
    for m in range(states.size):
        s = states[m]
        for a in range(rows.shape[1]):
            rows[m, a] = 0.0
        for i in range(weights.size):
            rows[m, played[i, s]] += weights[i] * now[i, s]
        mass = 0.0
        for a in range(rows.shape[1]):
            mass += rows[m, a]
        best = 0
        for a in range(rows.shape[1]):
            rows[m, a] /= mass
            if rows[m, a] > rows[m, best]:
                best = a
        modes[s] = best


@compiled
def occupation_sparse(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    initial: Array,
    action: Array,
    modes: Array,
    places: Array,
    rows: Array,
    weight: float,
    rho: Array,
) -> None:
    """`occupation` of a policy that plays modes [H, S], but rows [m, A] at the places [m], rising, h * S + s."""
    horizon, num_states = modes.shape
    stride = num_states if first.size - 1 > num_states else 0
    now = initial.copy()
    then = np.zeros(num_states)
    m = 0
    for h in range(horizon):
        row = rho[min(h, rho.shape[0] - 1)]
        for s in range(num_states):
            mixes = m < places.size and places[m] == h * num_states + s
            if now[s] > 0.0:
                x = now[s]
                now[s] = 0.0
                node = h * stride + s
                begin, end = first[node], first[node + 1]
                if not mixes:
                    begin = pair_of(begin, end, action, modes[h, s])
                    end = begin + 1
                for k in range(begin, end):
                    y = x * rows[m, action[k]] if mixes else x
                    if y > 0.0:
                        row[k] += weight * y
                        for j in range(start[k], start[k + 1]):
                            then[successor[j]] += y * probability[j]
            if mixes:
                m += 1
        now, then = then, now


@interpreted_if_little(
    lambda first, action, order, occupied, choice, actions: actions.size + choice.size + actions.shape[0]
)
def actions_of(
    first: Array, action: Array, order: Array, occupied: tuple[Array, ...], choice: Array, actions: Array
) -> None:
    """The actions [H, S] that choice [M * LANES] of `backward` stands for; elsewhere the first action there is."""
    lo, hi, blocks, begin = occupied
    horizon, num_states = actions.shape
    stride = num_states if first.size - 1 > num_states else 0
    for h in range(horizon):
        base = h * stride
        for s in range(num_states):
            exists = first[base + s] < first[base + s + 1]
            actions[h, s] = action[first[base + s]] if exists else 0
        for i in range(lo[h], hi[h]):
            row = (begin[h] + i - lo[h]) * LANES
            for m in range(LANES):
                position = np.int64(blocks[i]) * LANES + m
                if position < order.size:
                    s = np.int64(order[position]) - base
                    if 0 <= s < num_states:  # a block may hold states of two steps
                        actions[h, s] = action[first[base + s] + choice[row + m]]


@compiled
def markov(first: Array, action: Array, rho: Array, fallback: Array, table: Array) -> None:
    """Into table [H, S, A], which is zero: the action probabilities of rho [R, P], or fallback [H, S] without mass.

    R is H, or 1 where every step has pairs of its own.
    """
    num_states = table.shape[1]
    stride = num_states if first.size - 1 > num_states else 0
    for h in range(table.shape[0]):
        row = rho[min(h, rho.shape[0] - 1)]
        for s in range(num_states):
            node = h * stride + s
            mass = 0.0
            for k in range(first[node], first[node + 1]):
                mass += row[k]
            if mass > 0.0:
                for k in range(first[node], first[node + 1]):
                    table[h, s, action[k]] = row[k] / mass
            else:
                table[h, s, fallback[h, s]] = 1.0


@compiled
def mixed_table(
    first: Array,
    start: Array,
    successor: Array,
    probability: Array,
    initial: Array,
    action: Array,
    weights: Array,
    parts: Array,
    heaviest: int,
    begin: int,
    places: Array,
    usual: Array,
    num_actions: int,
) -> Array:
    """[H, S, A]: the Markov form of deterministic policies parts [m, begin + H, n] with weights [m].

    State s of the model is places[s] of the table, which has none from S on; the first `begin` steps are not in it.
    Where nobody comes it plays what the heaviest part does, and usual [S] in states that the model does not have.
    """
    num_parts, num_places, num_states = U(parts.shape[0]), U(initial.size), U(usual.size)
    stride = num_places if first.size - 1 > initial.size else ZERO
    table = np.zeros((parts.shape[1] - begin, usual.size, num_actions))
    seen = np.zeros(usual.size, np.bool_)
    for s in range(num_places):
        if places[s] < usual.size:
            seen[places[s]] = True
    now = np.zeros((parts.shape[0], initial.size))
    then = np.zeros((parts.shape[0], initial.size))
    for i in range(num_parts):
        for s in range(num_places):
            now[i, s] = initial[s]
    for h in range(U(parts.shape[1])):
        for s in range(num_places):
            one = -1  # the action of all parts that come here; -2 if they differ
            for i in range(num_parts):
                x = now[i, s]
                if x > 0.0:
                    a = np.int64(parts[i, h, s])
                    if weights[i] * x > 0.0:
                        one = a if one == -1 or one == a else -2
                    node = h * stride + s
                    k = min(U(first[node]) + U(a), U(first[node + ONE]) - ONE)
                    while action[k] > a:  # pairs are by rising action
                        k -= ONE
                    for j in range(U(start[k]), U(start[k + ONE])):
                        then[i, U(successor[j])] += x * probability[j]
            if h >= U(begin) and places[s] < usual.size:
                row = table[h - U(begin), U(places[s])]
                if one == -2:
                    for i in range(num_parts):
                        row[parts[i, h, s]] += weights[i] * now[i, s]
                    mass = 0.0
                    for a in range(num_actions):
                        mass += row[a]
                    for a in range(num_actions):
                        row[a] /= mass
                else:
                    row[U(parts[heaviest, h, s] if one == -1 else one)] = 1.0
            for i in range(num_parts):
                now[i, s] = 0.0
        if h >= U(begin):
            for s in range(num_states):
                if not seen[s]:
                    table[h - U(begin), s, usual[s]] = 1.0
        now, then = then, now
    return table


@compiled
def mixing(table: Array, most: int) -> tuple[Array, Array, Array, int]:
    """Where a Markov policy [n, A] mixes: its most likely actions [n], of equal ones the first, the rows that are not
    one action alone, [m] and [m, A], and m; -1 if there are more than `most`."""
    num_rows, num_actions = table.shape
    actions = np.empty(num_rows, np.int16)
    at = np.empty(most, np.int64)
    count = 0
    for n in range(num_rows):
        best, highest = 0, table[n, 0]
        for a in range(1, num_actions):  # without a jump: which action it is cannot be predicted
            more = table[n, a] > highest
            best = a if more else best
            highest = table[n, a] if more else highest
        actions[n] = best
        if highest != 1.0:
            if count == most:
                return actions, at, table[:0].copy(), -1
            at[count] = n
            count += 1
    rows = np.empty((count, num_actions))
    for m in range(count):
        for a in range(num_actions):
            rows[m, a] = table[at[m], a]
    return actions, at[:count].copy(), rows, count

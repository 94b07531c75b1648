"""What a given stationary policy does in a model without a horizon: how much of each pair it counts.

Of a policy pi, x(s, a) = pi(a | s) x(s) is, by what the model adds up,

    Discounted(g)   sum_t g^t P(s_t = s, a_t = a):   (I - g P') x = initial
    Total()         the expected visits to states that are left for good; others must pay nothing, and count 0
    Average()       the share of the steps in the long run: the chance of ending in each recurrent class, times the
                    stationary distribution there

and its value vector is the sum of x(s, a) times (reward, costs). The systems are of `conrl.model.chains`, over the
states that the policy itself comes to.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from conrl import kernels
from conrl._types import Bool, Float, Int
from conrl.errors import ModelError, RunError
from conrl.model.chains import ELIMINATED, TOO_LONG, Chain, SlowChain, dense, origins, slow_error
from conrl.model.criteria import Discounted, Total
from conrl.model.graph import select
from conrl.model.mdp import ConstrainedMDP
from conrl.rounding import HALF_ULP

RESIDUAL = 24.0 * HALF_ULP  # times the expected steps, each of which may add as much
LONGEST = 1e8  # expected steps of a chain that is taken for a short one
STATIONARY_ERROR = 1e-10  # what each entry of a distribution may be off by, in proportion; large ones also in all


def occupation(mdp: ConstrainedMDP, share: Float) -> Float:
    """[P]: x of the policy that plays pair k with probability share[k] in its state."""
    rows = _in_proportion(_rows(mdp, share))
    whole = Chain(*rows, 1.0)
    states = np.flatnonzero(whole.reached(mdp.initial))
    begin, column, weight = within(rows, states)
    initial = mdp.initial[states]
    visits = np.zeros(mdp.num_states)
    if isinstance(mdp.horizon, Discounted):
        exits = np.full(states.size, 1.0 - mdp.horizon.discount)
        visits[states] = _visits((begin, column, mdp.horizon.discount * weight), exits, initial)
    else:
        number = recurrent_classes(begin, column)  # [n]; -1 for states that are left for good
        transient = np.flatnonzero(number < 0)
        x = np.zeros(states.size)
        if transient.size:
            x[transient] = _visits(*_parted((begin, column, weight), transient), initial[transient])
        if isinstance(mdp.horizon, Total):
            _refuse_paid(mdp, share, states[number >= 0])
        else:
            source = np.repeat(np.arange(states.size), np.diff(begin))
            arrive = np.bincount(column, weights=x[source] * weight, minlength=states.size) + initial
            x[transient] = 0.0
            for i in range(int(number.max()) + 1):
                mine = np.flatnonzero(number == i)
                ends = float(arrive[mine].sum())
                x[mine] = ends * stationary_distribution(within((begin, column, weight), mine))[0]
        visits[states] = x
    return np.maximum(visits[mdp.pair_state], 0.0) * share


def recurrent(mdp: ConstrainedMDP, share: Float) -> Bool:
    """[S]: the states that the policy comes to and keeps coming back to; with `Total()`, where nothing is paid."""
    rows = _rows(mdp, share)
    states = np.flatnonzero(Chain(*rows, 1.0).reached(mdp.initial))
    begin, column, _ = within(rows, states)
    found = np.zeros(mdp.num_states, dtype=bool)
    found[states[recurrent_classes(begin, column) >= 0]] = True
    if isinstance(mdp.horizon, Total):
        _refuse_paid(mdp, share, np.flatnonzero(found))
    return found


ChainRows = tuple[Int, Int, Float]  # begin [n+1], column, weight: what a `Chain` is made of


def _rows(mdp: ConstrainedMDP, share: Float) -> ChainRows:
    """The chain of the policy, by states."""
    g = mdp.graph
    played = np.repeat(share > 0.0, np.diff(g.start))
    weight = (np.repeat(share, np.diff(g.start)) * g.probability)[played]
    origin = np.repeat(mdp.pair_state, np.diff(g.start))[played]
    begin = np.searchsorted(origin, np.arange(mdp.num_states + 1))
    return begin, g.successor[played].astype(np.int64), weight


def _in_proportion(rows: ChainRows) -> ChainRows:
    """Each row divided by its sum: what is off by 1e-10 would leave nothing in the long run."""
    begin, column, weight = rows
    origin = np.repeat(np.arange(begin.size - 1), np.diff(begin))
    return begin, column, weight / np.bincount(origin, weights=weight, minlength=begin.size - 1)[origin]


def within(rows: ChainRows, states: Int) -> ChainRows:
    """The rows and columns of some states; what leads elsewhere is left out."""
    return _parted(rows, states)[0]


def _parted(rows: ChainRows, states: Int) -> tuple[ChainRows, Float]:
    """The same, and what is left out of each row."""
    number = np.full(rows[0].size - 1, -1)
    number[states] = np.arange(states.size)
    begin, members = select(rows[0], states)
    return _kept((begin.astype(np.int64), number[rows[1][members]], rows[2][members]), number[rows[1][members]] >= 0)


def cut_off(rows: ChainRows, state: int) -> tuple[ChainRows, Float]:
    """All rows without what leads to one state, and what does in each."""
    return _kept(rows, rows[1] != state)


def _kept(rows: ChainRows, kept: Bool) -> tuple[ChainRows, Float]:
    begin, column, weight = rows
    n, origin = begin.size - 1, origins(begin)
    left_out = np.bincount(origin[~kept], weights=weight[~kept], minlength=n).astype(np.float64)
    return (np.searchsorted(origin[kept], np.arange(n + 1)), column[kept], weight[kept]), left_out


def _visits(rows: ChainRows, exits: Float, initial: Float) -> Float:
    """x of (I - Q') x = initial, with an error of at most 1e-10 of their sum; of a long chain, by its moves."""
    if initial.size > ELIMINATED:
        with suppress(RunError):
            x, error = _visits_of_short(rows, initial)
            if error <= STATIONARY_ERROR:
                return x
    return SlowChain(*rows, exits).visits(initial)


def _visits_of_short(rows: ChainRows, initial: Float) -> tuple[Float, float]:
    """The same with a residual that is small for the steps that are to come; the error, in proportion to x.sum()."""
    steps = Chain(*rows, 100.0).values(np.ones(initial.size), 1e-9)
    longest, expected = float(steps.max()), float(initial @ steps)
    if not ((steps >= 0.5).all() and longest < LONGEST):
        raise RunError(TOO_LONG)
    x = Chain(*rows, longest).visits(initial, steps, RESIDUAL * longest * max(expected, 1.0))
    return x, 2.0 * RESIDUAL * longest


def stationary_distribution(rows: ChainRows) -> tuple[Float, float]:
    """Of a chain of which every state leads to every other one. Each entry is off by at most `STATIONARY_ERROR` in
    proportion and, beyond that, all of them by the number returned.

    Small ones by the elimination of Grassmann, Taksar and Heyman (1985), which subtracts nothing (`kernels.slow`).
    Others as the expected visits between two visits to one state, divided by their sum; what the residual proves grows
    with the steps until that state is seen again. If even those of the state that is seen most often are too many, by
    the moves of the chain.
    """
    begin, column, weight = rows
    n = begin.size - 1
    if n <= ELIMINATED:
        return _eliminated(rows), 0.0
    origin = origins(begin)
    moves = column != origin
    slowest = int(np.argmin(np.bincount(origin[moves], weights=weight[moves], minlength=n)))
    reference = 0
    for _ in range(2):
        try:
            x, error = _visits_of_short(cut_off(rows, reference)[0], np.eye(1, n, reference)[0])
        except RunError:
            reference = slowest
            break
        x = np.maximum(x, 0.0)
        if 2.0 * error <= STATIONARY_ERROR:
            return x / x.sum(), 2.0 * error
        reference = int(np.argmax(x))  # the one that is seen most often
    cut, back = cut_off(rows, reference)
    x = SlowChain(*cut, back).visits(np.eye(1, n, reference)[0])
    return x / x.sum(), 2.0 * slow_error(n)[1]


def _eliminated(rows: ChainRows) -> Float:
    P = dense(*rows)
    n = P.shape[0]
    kernels.eliminate(P, np.zeros(n))
    x = np.ones(n)
    for k in range(1, n):
        x[k] = x[:k] @ P[:k, k]
    share: Float = x / x.sum()
    return share


def recurrent_classes(begin: Int, column: Int) -> Int:
    """[n]: the class of each state that is never left for good; -1 for the others."""
    n = begin.size - 1
    count, label = kernels.strong(begin, column)
    origin = np.repeat(np.arange(n), np.diff(begin))
    left = np.zeros(count, dtype=bool)
    left[label[origin[label[origin] != label[column]]]] = True
    number = np.where(left, -1, np.cumsum(~left) - 1)
    return number[label]


def _refuse_paid(mdp: ConstrainedMDP, share: Float, states: Int) -> None:
    """Refuse a policy that is paid forever."""
    stays = np.zeros(mdp.num_states, dtype=bool)
    stays[states] = True
    pays = np.flatnonzero(stays[mdp.pair_state] & (share > 0.0) & mdp.pays)
    if pays.size:
        state, action = int(mdp.pair_state[pays[0]]), int(mdp.action[pays[0]])
        raise ModelError(
            f"the policy comes back to state {mdp.state_name(state)!r} forever, where action "
            f"{mdp.action_name(action)!r} pays: its total has no end; use Discounted(..), Average() or a horizon"
        )

"""What a given stationary policy does in a model without a horizon: how much of each pair it counts.

Of a policy pi, x(s, a) = pi(a | s) x(s) is, by what the model adds up,

    Discounted(g)   sum_t g^t P(s_t = s, a_t = a):   (I - g P') x = initial
    Total()         the expected visits to states that are left for good; others must pay nothing, and count 0
    Average()       the share of the steps in the long run: the chance of ending in each recurrent class, times the
                    stationary distribution there

and its value vector is the sum of x(s, a) times (reward, costs). The systems are of `conrl.model.chains`, over the states
that the policy itself comes to.
"""

from __future__ import annotations

import numpy as np

from conrl._types import Float, Int
from conrl.errors import ModelError
from conrl.model.chains import HALF_ULP, Chain
from conrl.model.criteria import Discounted, Total
from conrl.model.mdp import ConstrainedMDP

RESIDUAL = 64.0 * HALF_ULP  # times the expected steps, each of which may add as much


def occupation(mdp: ConstrainedMDP, share: Float) -> Float:
    """[P]: x of the policy that plays pair k with probability share[k] in its state."""
    rows = _rows(mdp, share)
    whole = Chain(*rows, 1.0)
    states = np.flatnonzero(whole.reached(mdp.initial))
    begin, column, weight = _part(rows, states, np.arange(mdp.num_states))
    number = np.full(mdp.num_states, -1)
    number[states] = np.arange(states.size)
    column, initial = number[column], mdp.initial[states]
    visits = np.zeros(mdp.num_states)
    if isinstance(mdp.horizon, Discounted):
        visits[states] = _visits((begin, column, mdp.horizon.discount * weight), initial)
    else:
        recurrent = _recurrent_classes(begin, column, weight)  # [n]; -1 for states that are left for good
        transient = np.flatnonzero(recurrent < 0)
        x = np.zeros(states.size)
        if transient.size:
            x[transient] = _visits(_within((begin, column, weight), transient), initial[transient])
        if isinstance(mdp.horizon, Total):
            _refuse_paid(mdp, share, states[recurrent >= 0])
        else:
            source = np.repeat(np.arange(states.size), np.diff(begin))
            arrive = np.bincount(column, weights=x[source] * weight, minlength=states.size) + initial
            x[transient] = 0.0
            for i in range(int(recurrent.max()) + 1):
                mine = np.flatnonzero(recurrent == i)
                ends = float(arrive[mine].sum())
                x[mine] = ends * _stationary(_within((begin, column, weight), mine))
        visits[states] = x
    return np.maximum(visits[mdp.pair_state], 0.0) * share


Rows = tuple[Int, Int, Float]


def _rows(mdp: ConstrainedMDP, share: Float) -> Rows:
    """The chain of the policy, by states."""
    g = mdp.graph
    played = np.repeat(share > 0.0, np.diff(g.start))
    weight = (np.repeat(share, np.diff(g.start)) * g.probability)[played]
    origin = np.repeat(mdp.pair_state, np.diff(g.start))[played]
    begin = np.searchsorted(origin, np.arange(mdp.num_states + 1))
    return begin, g.successor[played].astype(np.int64), weight


def _part(rows: Rows, states: Int, number: Int) -> Rows:
    """The rows of some states."""
    begin, column, weight = rows
    sizes = begin[states + 1] - begin[states]
    new = np.concatenate(([0], np.cumsum(sizes)))
    members = np.arange(new[-1]) + np.repeat(begin[states] - new[:-1], sizes)
    return new, number[column[members]], weight[members]


def _within(rows: Rows, states: Int) -> Rows:
    """The rows and columns of some states; what leads elsewhere is left out."""
    number = np.full(rows[0].size - 1, -1)
    number[states] = np.arange(states.size)
    begin, column, weight = _part(rows, states, number)
    kept = column >= 0
    origin = np.repeat(np.arange(states.size), np.diff(begin))[kept]
    return np.searchsorted(origin, np.arange(states.size + 1)), column[kept], weight[kept]


def _visits(rows: Rows, initial: Float) -> Float:
    """x of (I - Q') x = initial, with a residual that is small for the steps that are to come."""
    rough = Chain(*rows, 1e4)
    n = initial.size
    steps = rough.values(np.ones(n), 1e-6)
    longest, expected = float(steps.max()), float(initial @ steps)
    return Chain(*rows, longest).visits(initial, steps, RESIDUAL * longest * max(expected, 1.0))


def _stationary(rows: Rows) -> Float:
    """The stationary distribution of a chain of which every state leads to every other: visits in a cycle from state 0.

    The expected visits between two visits to state 0, divided by their sum (Puterman 1994, Appendix A).
    """
    begin, column, weight = rows
    n = begin.size - 1
    if n == 1:
        return np.ones(1)
    kept = column != 0
    origin = np.repeat(np.arange(n), np.diff(begin))[kept]
    cut = np.searchsorted(origin, np.arange(n + 1)), column[kept], weight[kept]
    x = np.maximum(_visits(cut, np.eye(1, n)[0]), 0.0)
    share: Float = x / x.sum()
    return share


def _recurrent_classes(begin: Int, column: Int, weight: Float) -> Int:
    """[n]: the class of each state that is never left for good; -1 for the others."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components

    n = begin.size - 1
    count, label = connected_components(sp.csr_array((weight, column, begin), shape=(n, n)), connection="strong")
    origin = np.repeat(np.arange(n), np.diff(begin))
    left = np.zeros(count, dtype=bool)
    left[label[origin[label[origin] != label[column]]]] = True
    number = np.where(left, -1, np.cumsum(~left) - 1)
    return number[label]


def _refuse_paid(mdp: ConstrainedMDP, share: Float, states: Int) -> None:
    """Refuse a policy that is paid for ever."""
    stays = np.zeros(mdp.num_states, dtype=bool)
    stays[states] = True
    pays = np.flatnonzero(stays[mdp.pair_state] & (share > 0.0) & (mdp.pay != 0.0).any(axis=1))
    if pays.size:
        state, action = int(mdp.pair_state[pays[0]]), int(mdp.action[pays[0]])
        raise ModelError(
            f"the policy comes back to state {mdp.state_name(state)!r} for ever, where action "
            f"{mdp.action_name(action)!r} pays: its total has no end; use Discounted(..), Average() or a horizon"
        )

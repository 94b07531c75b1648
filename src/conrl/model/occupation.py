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

import numpy as np

from conrl import kernels
from conrl._types import Bool, Float, Int
from conrl.errors import ModelError, RunError
from conrl.model.chains import Chain
from conrl.model.criteria import Discounted, Total
from conrl.model.graph import select
from conrl.model.mdp import ConstrainedMDP
from conrl.rounding import HALF_ULP

RESIDUAL = 24.0 * HALF_ULP  # times the expected steps, each of which may add as much
LONGEST = 1e8  # expected steps: beyond that rounding may take more than the eighth digit of a total
STATIONARY_ERROR = 1e-10  # a distribution that cannot be known to this, in all, is refused
ELIMINATED = 75  # states up to which a distribution is found by elimination: off by at most 2 n^3 ulps


def occupation(mdp: ConstrainedMDP, share: Float) -> Float:
    """[P]: x of the policy that plays pair k with probability share[k] in its state."""
    rows = _in_proportion(_rows(mdp, share))
    whole = Chain(*rows, 1.0)
    states = np.flatnonzero(whole.reached(mdp.initial))
    begin, column, weight = within(rows, states)
    initial = mdp.initial[states]
    visits = np.zeros(mdp.num_states)
    if isinstance(mdp.horizon, Discounted):
        visits[states] = _visits((begin, column, mdp.horizon.discount * weight), initial)[0]
    else:
        number = recurrent_classes(begin, column)  # [n]; -1 for states that are left for good
        transient = np.flatnonzero(number < 0)
        x = np.zeros(states.size)
        if transient.size:
            x[transient] = _visits(within((begin, column, weight), transient), initial[transient])[0]
        if isinstance(mdp.horizon, Total):
            _refuse_paid(mdp, share, states[number >= 0])
        else:
            source = np.repeat(np.arange(states.size), np.diff(begin))
            arrive = np.bincount(column, weights=x[source] * weight, minlength=states.size) + initial
            x[transient] = 0.0
            for i in range(int(number.max()) + 1):
                mine = np.flatnonzero(number == i)
                ends = float(arrive[mine].sum())
                x[mine] = ends * stationary_distribution(within((begin, column, weight), mine))
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
    number = np.full(rows[0].size - 1, -1)
    number[states] = np.arange(states.size)
    begin, members = select(rows[0], states)
    column, weight = number[rows[1][members]], rows[2][members]
    kept = column >= 0
    origin = np.repeat(np.arange(states.size), np.diff(begin).astype(np.int64))[kept]
    return np.searchsorted(origin, np.arange(states.size + 1)), column[kept], weight[kept]


def _visits(rows: ChainRows, initial: Float) -> tuple[Float, float]:
    """x of (I - Q') x = initial, with a residual that is small for the steps that are to come; the most of those."""
    rough = Chain(*rows, 1e4)
    n = initial.size
    steps = rough.values(np.ones(n), 1e-9)
    if not (steps >= 0.5).all():
        raise RunError("the process goes on for too long for its totals to be computed; use a horizon or a discount")
    longest, expected = float(steps.max()), float(initial @ steps)
    if longest > LONGEST:
        raise RunError(
            f"the process goes on for some {longest:.0e} steps, too long for its totals to be computed; use a horizon "
            "or a discount"
        )
    return Chain(*rows, longest).visits(initial, steps, RESIDUAL * longest * max(expected, 1.0)), longest


def stationary_distribution(rows: ChainRows) -> Float:
    """Of a chain of which every state leads to every other one; the sum of all errors is at most `STATIONARY_ERROR`.

    Small ones by the elimination of Grassmann, Taksar and Heyman (1985), which subtracts nothing, so that each entry is
    off by at most 2 n^3 ulps (O'Cinneide 1993). Others as the expected visits between two visits to one state,
    divided by their sum; what the residual proves grows with the steps until that state is seen again.
    """
    begin, column, weight = rows
    n = begin.size - 1
    if n <= ELIMINATED:
        return _eliminated(rows)
    reference = 0
    for _ in range(2):
        kept = column != reference
        origin = np.repeat(np.arange(n), np.diff(begin))[kept]
        cut = np.searchsorted(origin, np.arange(n + 1)), column[kept], weight[kept]
        x, longest = _visits(cut, np.eye(1, n, reference)[0])
        x = np.maximum(x, 0.0)
        if 4.0 * RESIDUAL * longest <= STATIONARY_ERROR:
            share: Float = x / x.sum()
            return share
        reference = int(np.argmax(x))  # the one that is seen most often
    raise RunError(
        f"an average cannot be computed to {STATIONARY_ERROR:g}: it takes about {longest:.1g} steps to come back to a "
        "state; use a horizon or a discount"
    )


def _eliminated(rows: ChainRows) -> Float:
    begin, column, weight = rows
    n = begin.size - 1
    P = np.zeros((n, n))
    np.add.at(P, (np.repeat(np.arange(n), np.diff(begin)), column), weight)
    for k in range(n - 1, 0, -1):
        P[:k, k] /= P[k, :k].sum()
        P[:k, :k] += np.outer(P[:k, k], P[k, :k])
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

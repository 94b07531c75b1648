"""Places of a model where nobody can be, by the model, and what a saved policy says of them.

A plan says what to do at every step (from 0) and in every state that some policy comes to. A running system may be
elsewhere: an outage at hour 0. There, a policy file has the action that is best under the plan's multipliers: of one
backward induction of the same model in the direction (1, those of floors - those of limits), from everywhere. Where the
model does not say what follows, or the plan has no such multipliers, it has nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conrl import kernels
from conrl._types import Bool, Float, Int
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion, Discounted
from conrl.oracles.protocols import TIE
from conrl.policy import NOTHING, PLANNED, STAND_IN, planned_places


def stand_ins(plan: Any) -> tuple[Int, Int] | None:
    """[H, S] each, or [1, S] without a horizon: PLANNED, STAND_IN or NOTHING, and the action that stands in.

    None if all is planned.
    """
    mdp = plan.mdp
    planned = planned_places(mdp)
    if planned.all():
        return None
    actions, known = np.zeros(planned.shape, dtype=np.int64), np.zeros(planned.shape, dtype=bool)
    w = _direction(plan)
    if w is not None and not isinstance(mdp.horizon, Criterion):
        known = _followed(mdp)
        actions = _greedy(mdp, w)
    elif w is not None and isinstance(mdp.horizon, Discounted) and _followed(mdp).all():
        known[:] = True
        actions = _best_for_ever(mdp, w)
    marks = np.where(planned, PLANNED, np.where(known, STAND_IN, NOTHING))
    return marks, np.where(known, actions, 0)


def _direction(plan: Any) -> Float | None:
    """[1+d]: reward, and each cost at its multiplier; None where the multipliers are not of costs."""
    if plan.linear is None:
        return None
    limits, floors = plan.cost_multipliers
    w = np.append(1.0, floors - limits)
    return w if np.isfinite(w).all() else None


def _followed(mdp: ConstrainedMDP) -> Bool:
    """[H, S], or [1, S]: where there is an action, and the model says of all that may follow what can be done there."""
    g, S = mdp.graph, mdp.num_states
    exists = (np.diff(g.first) > 0).reshape(-1, S)
    if exists.all() or not mdp.step_dependent:
        H = 1 if isinstance(mdp.horizon, Criterion) else mdp.horizon
        return np.broadcast_to(exists, (H, S)).copy()
    known = exists.copy()
    owner = np.repeat(np.arange(mdp.num_pairs), np.diff(g.start).astype(np.int64))
    for h in range(mdp.horizon - 2, -1, -1):
        begin, end = int(g.start[g.first[h * S]]), int(g.start[g.first[(h + 1) * S]])
        lost = ~known[h + 1, g.successor[begin:end]]
        known[h, mdp.pair_state[owner[begin:end][lost]]] = False
    return known


def _greedy(mdp: ConstrainedMDP, w: Float) -> Int:
    """[H, S]: the best actions, of equal ones the first."""
    actions = np.empty((mdp.horizon, mdp.num_states), dtype=np.int16)
    tie = TIE * mdp.horizon * float(np.abs(w) @ np.abs(mdp.pay).max(axis=0))
    kernels.greedy(*mdp.graph, mdp.action, mdp.pay_along(w), tie, actions)
    return actions.astype(np.int64)


def _best_for_ever(mdp: ConstrainedMDP, w: Float) -> Int:
    """[1, S]: the same with a discount."""
    from conrl.oracles.stationary import DiscountedOracle

    everywhere = mdp._copy(initial=np.full(mdp.num_states, 1.0 / mdp.num_states), _derived={})
    return DiscountedOracle(everywhere).policy(w).mode.astype(np.int64)[None]

"""Inventory control: how much to order each day, with a limit on what ordering and holding may cost.

The model "inventory" of Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland (2022), "DOPE: Doubly optimistic
and pessimistic exploration for safe reinforcement learning", who minimise; here signs are turned and rewards maximised.

State s in 0..N: the stock. Action: an order a in 0..N-s, delivered at once. Then the demand d comes, with probability
`demand[d]`, and the next stock is max(s + a - d, 0): what cannot be served is lost. With p(t) the probability of the
next stock t given (s, a),

    cost      fixed [a > 0] + unit a + holding (s + a)         divided by the largest of all (s, a)
    reward    sum over d <= s + a of d p(s + a - d)            divided by the largest of all (s, a)

The reward is the published program's: it weighs a demand that can be served by the probability of the next stock that
it leads to. They differ where the stock sells out: p(0) is the probability of every demand of at least s + a.
The first state is 0.

Units: the reward is in the largest expected sales of a day, the cost in the largest expense of a day.

Optimum within the limit: reward 6.665322 at expense 3.5 (shadow price 0.921212).
The paper's safe baseline, the optimum at a fifth of the limit: reward 1.555711 at expense 0.7.
Unlimited: reward 7.000000 at expense 4.505263.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.envs.chains import read_distribution, read_number, read_size
from conrl.model import ConstrainedMDP


def inventory(
    *,
    capacity: int = 5,
    demand: ArrayLike = (0.3, 0.2, 0.2, 0.2, 0.05, 0.05),
    fixed: float = 4.0,
    unit: float = 2.0,
    holding: float = 1.0,
    horizon: int = 7,
    limits: ArrayLike | Mapping[str, float] | None = (3.5,),
) -> ConstrainedMDP:
    """Inventory control: what to order each day of a week, with limited expenses.

    Args:
        capacity: how many units fit the store, N.
        demand: probabilities of a demand of 0, 1, 2, ... units.
        fixed: cost of an order, whatever its size.
        unit: cost of each unit ordered.
        holding: cost of each unit in the store for a day.
        horizon: number of days.
        limits: default limit of the expenses, `[limit]`.

    See the module's docstring for the exact dynamics, the units and the optimum.
    """
    N = read_size(capacity, "capacity")
    chance = read_distribution(demand, "demand")
    prices = (read_number(x, name, least=0.0) for name, x in (("fixed", fixed), ("unit", unit), ("holding", holding)))
    per_order, per_unit, per_day = prices
    y, d = np.indices((N + 1, chance.size))  # the stock after the delivery, and the demand
    left = np.maximum(y - d, 0)
    onwards = np.zeros((N + 1, N + 1))
    np.add.at(onwards, (y, left), chance[d])  # p(left) given y
    sales = np.where(d <= y, d * onwards[y, left], 0.0).sum(axis=1)

    s, a, d = (i.ravel() for i in np.indices((N + 1, N + 1, chance.size)))
    s, a, d = (i[s + a <= N] for i in (s, a, d))
    y = s + a
    expense = per_order * (a > 0) + per_unit * a + per_day * y
    return ConstrainedMDP.from_outcomes(
        s,
        a,
        left[y, d],
        chance[d],
        np.stack([_shares(sales)[y], _shares(expense)], axis=1),
        num_states=N + 1,
        num_actions=N + 1,
        horizon=horizon,
        limits=limits,
        state_names=[f"stock {units}" for units in range(N + 1)],
        action_names=[f"order {units}" for units in range(N + 1)],
        cost_names=("expense",),
    )


def _shares(amounts: Float) -> Float:
    """In units of the largest; all 0 where that is 0."""
    largest = amounts.max()
    return amounts / largest if largest > 0.0 else np.zeros(amounts.size)

"""Inventory control: how much to order each day, with a limit on what ordering and holding may cost.

The model "inventory" of Bura, HasanzadeZonuzy, Kalathil, Shakkottai and Chamberland (2022), "DOPE: Doubly optimistic
and pessimistic exploration for safe reinforcement learning", who minimise; here signs are turned and rewards maximised.

State s in 0..N: the stock. Action: an order a in 0..N-s, delivered at once. Then the demand d comes, with probability
`demand[d]`, and the next stock is max(s + a - d, 0): what cannot be served is lost. The pair (s, a) has

    cost      fixed [a > 0] + unit a + holding (s + a)         divided by the largest of all (s, a)
    reward    the expected sales, E min(d, s + a)              divided by the largest of all (s, a)

The published program adds up d times the probability of the *next stock* over the demands that can be served. That is
the same: the stock sells out with the probability of every demand of at least s + a. The first state is 0.

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
from conrl.model.reading import read_horizon
from conrl.sizes import check_table


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
    check_table(read_horizon(horizon), N + 1)
    chance = read_distribution(demand, "demand")
    prices = (read_number(x, name, least=0.0) for name, x in (("fixed", fixed), ("unit", unit), ("holding", holding)))
    per_order, per_unit, per_day = prices
    sold = np.minimum(np.arange(N + 1)[:, None], np.arange(chance.size))  # [stock after the delivery, demand]
    sales = sold @ chance
    s, a, d = (i.ravel() for i in np.indices((N + 1, N + 1, chance.size)))
    s, a, d = (i[s + a <= N] for i in (s, a, d))
    y = s + a
    expense = per_order * (a > 0) + per_unit * a + per_day * y
    return ConstrainedMDP.from_outcomes(
        s,
        a,
        y - sold[y, d],
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

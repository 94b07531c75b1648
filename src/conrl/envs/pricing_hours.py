"""Pricing by the hour of the day: a model that depends on the step, with three states instead of 72.

An episode is a day of H hours, one step each, and every hour has its own demand. State: the regime of demand g. Action:
a price p of the ladder. In hour h a customer comes with probability `traffic[h]` and buys one unit if it is worth the
price to them. That worth is logistic with scale `spread` and mean w_g + worth[h]. So with probability

    q(h, g, p) = traffic[h] / (1 + exp((p - w_g - worth[h]) / spread))

the unit is sold. Pay is by outcome: a sale pays reward p / p_max and costs 1 "stock", no sale pays and costs 0. Whether
sold or not, the regime moves by a drift (`conrl.envs.chains`). The first regime of the day is drawn from `initial`.

Units are those of `conrl.envs.pricing`. The shop may close at any hour (`can_stop`).

Optimum within the limit: reward 2.625704 at stock 4 (shadow price 0.483605).
Unlimited: reward 3.801505 at stock 8.114750.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import float_array
from conrl.envs.chains import drift, read_distribution, read_named, read_probability
from conrl.envs.pricing import REGIMES, price_names, read_ladder, sold_share
from conrl.errors import ModelError
from conrl.model import ConstrainedMDP

# A quiet night, a rush at noon and another after work; those who come in the evening pay more.
TRAFFIC = (
    *(0.1, 0.05, 0.05, 0.05, 0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.6, 0.8),
    *(0.9, 0.8, 0.6, 0.5, 0.6, 0.8, 0.9, 0.9, 0.7, 0.5, 0.3, 0.2),
)
WORTH = (*(0.0,) * 17, *(20.0,) * 5, *(0.0,) * 2)


def pricing_hours(
    *,
    prices: Sequence[float] = (20.0, 40.0, 60.0, 80.0, 100.0),
    regimes: Mapping[str, float] = REGIMES,
    persistence: float = 0.8,
    traffic: Sequence[float] = TRAFFIC,
    worth: Sequence[float] = WORTH,
    spread: float = 10.0,
    initial: ArrayLike | None = None,
    limits: ArrayLike | Mapping[str, float] | None = (4.0,),
) -> ConstrainedMDP:
    """Pricing by the hour: a day of 24 hours, each with its own demand, and limited stock.

    Args:
        prices: the ladder, increasing and above 0.
        regimes: what a unit is worth to a customer on average, w_g, by the name of each regime; neighbours in the
            drift are neighbours here.
        persistence: probability that the regime stays the same for another hour.
        traffic: probability that a customer comes, for each hour; its length is the number of hours, H.
        worth: how much more a unit is worth, for each hour.
        spread: scale of the worth around its mean; the smaller, the surer is a sale below the mean.
        initial: probabilities of the first regime; all the same by default.
        limits: default limit of the stock sold in a day, `[limit]`.

    See the module's docstring for the exact dynamics, the units and the optimum.
    """
    ladder = read_ladder(prices)
    names, means = read_named(regimes, "regimes")
    comes = _by_hour(traffic, "traffic")
    for h, p in enumerate(comes.tolist()):
        read_probability(p, f"traffic[{h}]")
    more = _by_hour(worth, "worth", comes.size)
    H, R, A = comes.size, len(names), ladder.size
    chain = drift(R, read_probability(persistence, "persistence"))
    sale = comes[:, None, None] * sold_share(means[:, None] + more[:, None, None] - ladder, spread)  # [H, R, A]

    h, g, a, sold, to = (x.ravel() for x in np.indices((H, R, A, 2, R)))
    q = sale[h, g, a]
    return ConstrainedMDP.from_outcomes(
        g,
        a,
        to,
        np.where(sold == 1, q, 1.0 - q) * chain[g, to],
        np.stack([sold * ladder[a] / ladder[-1], sold], axis=1),
        num_states=R,
        num_actions=A,
        horizon=H,
        step=h,
        initial=read_distribution(initial, "initial", R),
        limits=limits,
        state_names=names,
        action_names=price_names(ladder),
        cost_names=("stock",),
        can_stop=True,
    )


def _by_hour(values: Sequence[float], what: str, hours: int | None = None) -> Float:
    """[H]: a finite number for each hour."""
    table = float_array(values, what)
    if table.ndim != 1 or table.size == 0 or (hours is not None and table.size != hours):
        expected = "one number for each hour" if hours is None else f"{hours} numbers, as traffic has"
        raise ModelError(f"{what} has shape {table.shape}; expected {expected}")
    if not np.isfinite(table).all():
        raise ModelError(f"{what} has an entry {table[~np.isfinite(table)][0]}; it must be finite")
    return table

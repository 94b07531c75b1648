"""Dynamic pricing with limited supply: what to ask each hour of a day, when there is too little to sell to all.

An application that Brantley et al. (2020) name in their introduction, after Besbes and Zeevi (2009) and Babaioff,
Dughmi, Kleinberg and Slivkins (2012), here with demand that changes in the course of the day.

An episode is a day of H hours. State (h, g): the hour h in 0..H-1 and the regime of demand g; its index is
h R + g for R regimes. Action: a price p of the ladder. One customer comes an hour and buys one unit if it is worth
the price to them. That worth is logistic with scale `spread` and mean w_g + rush sin(pi (h + 1/2) / H): by regime,
and highest at midday. So with probability

    q(h, g, p) = 1 / (1 + exp((p - w_g - rush sin(pi (h + 1/2) / H)) / spread))

the unit is sold. Pay is by outcome: a sale pays reward p / p_max and costs 1 "stock", no sale pays and costs 0.
Whether sold or not, the hour becomes h + 1 and the regime moves by a drift (`conrl.envs.chains`). The first regime
of a day is drawn from `initial`; after hour H-1 comes hour 0 of the next day, whose regime is drawn afresh, so
that a horizon of 2 H is two days.

Units: prices, w, rush and spread are money, the same for all; the reward is in units of the highest price; stock
is in units sold. The shop may close at any hour (`can_stop`).

Optimum within the limit: reward 2.907379 at stock 4 (shadow price 0.529786).
Unlimited: reward 4.563964 at stock 9.074117.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import float_array
from conrl.envs.chains import drift, read_distribution, read_named, read_number, read_probability
from conrl.errors import ModelError
from conrl.model import ConstrainedMDP
from conrl.model.reading import read_horizon
from conrl.sizes import check_table

REGIMES: Mapping[str, float] = MappingProxyType({"low": 30.0, "normal": 50.0, "high": 70.0})


def pricing(
    *,
    prices: Sequence[float] = (20.0, 40.0, 60.0, 80.0, 100.0),
    regimes: Mapping[str, float] = REGIMES,
    persistence: float = 0.8,
    rush: float = 20.0,
    spread: float = 10.0,
    initial: ArrayLike | None = None,
    horizon: int = 12,
    limits: ArrayLike | Mapping[str, float] | None = (4.0,),
) -> ConstrainedMDP:
    """Dynamic pricing: an hour's price for each demand, with limited stock for the day.

    Args:
        prices: the ladder, increasing and above 0.
        regimes: what a unit is worth to a customer on average, w_g, by the name of each regime; neighbours in the
            drift are neighbours here.
        persistence: probability that the regime stays the same for another hour.
        rush: how much more a unit is worth at midday.
        spread: scale of the worth around its mean; the smaller, the surer is a sale below the mean.
        initial: probabilities of the first regime of a day; all the same by default.
        horizon: hours of a day, H.
        limits: default limit of the stock sold in a day, `[limit]`.

    See the module's docstring for the exact dynamics, the units and the optimum.
    """
    H = read_horizon(horizon)
    ladder = read_ladder(prices)
    names, worth = read_named(regimes, "regimes")
    R, A = len(names), ladder.size
    check_table(H, H * R)
    first = read_distribution(initial, "initial", R)
    chain = drift(R, read_probability(persistence, "persistence"))
    midday = read_number(rush, "rush") * np.sin(np.pi * (np.arange(H) + 0.5) / H)
    sale = sold_share(worth[:, None] + midday[:, None, None] - ladder, spread)  # [H, R, A]

    h, g, a, sold, to = (x.ravel() for x in np.indices((H, R, A, 2, R)))
    q = sale[h, g, a]
    moved = np.where(h < H - 1, chain[g, to], first[to])
    return ConstrainedMDP.from_outcomes(
        h * R + g,
        a,
        (h + 1) % H * R + to,
        np.where(sold == 1, q, 1.0 - q) * moved,
        np.stack([sold * ladder[a] / ladder[-1], sold], axis=1),
        num_states=H * R,
        num_actions=A,
        horizon=H,
        initial=np.concatenate((first, np.zeros((H - 1) * R))),
        limits=limits,
        state_names=[f"hour {hour} {name}" for hour in range(H) for name in names],
        action_names=price_names(ladder),
        cost_names=("stock",),
        can_stop=True,
    )


def sold_share(surplus: Float, spread: float) -> Float:
    """How likely a customer buys, to whom a unit is worth `surplus` more than it costs on average; logistic."""
    from scipy.special import expit  # here: loading it takes longer than planning

    share: Float = expit(surplus / read_number(spread, "spread", positive=True))
    return share


def price_names(ladder: Float) -> list[str]:
    return [f"price {_brief(p)}" for p in ladder.tolist()]


def read_ladder(prices: Sequence[float]) -> Float:
    """[A]: prices that increase from above 0."""
    ladder = float_array(prices, "prices")
    if ladder.ndim != 1 or ladder.size == 0:
        raise ModelError(f"prices has shape {ladder.shape}; expected at least one price")
    for i, p in enumerate(ladder.tolist()):
        read_number(p, f"prices[{i}]", positive=True)
        if i and p <= ladder[i - 1]:
            raise ModelError(f"prices[{i}] is {p:g} after {ladder[i - 1]:g}; a ladder increases")
    return ladder


def _brief(x: float) -> str:
    """As short as a name can be without being another price's."""
    return f"{x:g}" if float(f"{x:g}") == x else repr(x)

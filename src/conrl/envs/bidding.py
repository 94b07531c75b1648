"""Pacing an advertising budget: what to bid in each auction of a day, so that the money goes where it clicks.

An advertiser with a budget is among the examples of Brantley et al. (2020), under "Broader Impact".

An episode is a day of H auctions. State (l, v): the level of competition l and the class v of the impression on
sale; its index is l C + v for C classes. Action: a bid b = j / n, j = 0..n, for n = `ticks`. The highest competing
bid is

    D = (1 + X) / n,    X ~ Binomial(n - 1, theta_l)

so that it is at least one tick, and the higher the fiercer the competition. The impression is won if b >= D: never
with bid 0, always with bid 1. Its price is D ("second-price") or b ("first-price"). If won, it is clicked with
probability kappa_v. Pay is by outcome: a click pays reward 1, and a win costs its price as "spend"; all else pays
and costs 0. Whatever is bid, the level then moves by a drift (`conrl.envs.chains`) and the next class is drawn from
`shares`, independently. The first level is drawn from `initial`, the first class from `shares`.

Units: the reward is in clicks; money is in units of the highest bid. The advertiser may stop for the day after any
auction (`can_stop`).

Optimum within the limit: reward 3.501235 at spend 4 (shadow price 0.375000).
Unlimited: reward 4.920000 at spend 12.976667, with bid 1 throughout.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from conrl.envs.chains import binomial, drift, read_distribution, read_named, read_probability, read_size
from conrl.errors import ModelError, unknown
from conrl.model import ConstrainedMDP

COMPETITION: Mapping[str, float] = MappingProxyType({"quiet": 0.2, "normal": 0.4, "busy": 0.7})
IMPRESSIONS: Mapping[str, float] = MappingProxyType({"poor": 0.05, "fair": 0.15, "good": 0.35, "prime": 0.7})
RULES = ("second-price", "first-price")


def bidding(
    *,
    competition: Mapping[str, float] = COMPETITION,
    impressions: Mapping[str, float] = IMPRESSIONS,
    shares: ArrayLike | None = (0.4, 0.3, 0.2, 0.1),
    persistence: float = 0.8,
    ticks: int = 5,
    rule: str = "second-price",
    initial: ArrayLike | None = None,
    horizon: int = 24,
    limits: ArrayLike | Mapping[str, float] | None = (4.0,),
) -> ConstrainedMDP:
    """Budget pacing: a bid for each impression of a day, with limited money to spend.

    Args:
        competition: theta_l, from 0 to 1, by the name of each level; neighbours in the drift are neighbours here.
        impressions: probability of a click, kappa_v, by the name of each class.
        shares: probabilities of the classes; `None` for all the same.
        persistence: probability that the level stays the same for another auction.
        ticks: number of bids above 0, n.
        rule: "second-price", the winner pays the highest competing bid; "first-price", their own.
        initial: probabilities of the first level; all the same by default.
        horizon: auctions of a day, H.
        limits: default limit of the money spent in a day, `[limit]`.

    See the module's docstring for the exact dynamics, the units and the optimum.
    """
    levels, theta = read_named(competition, "competition", read_probability)
    classes, kappa = read_named(impressions, "impressions", read_probability)
    L, C, n = len(levels), len(classes), read_size(ticks, "ticks")
    share = read_distribution(shares, "shares", C)
    first = read_distribution(initial, "initial", L)
    chain = drift(L, read_probability(persistence, "persistence"))
    if rule not in RULES:
        raise ModelError(unknown("rule", str(rule), RULES))
    rival = np.stack([binomial(n - 1, x) for x in theta.tolist()])  # [L, n]: of 1..n ticks

    level, kind, bid, x, click, level_to, kind_to = (i.ravel() for i in np.indices((L, C, n + 1, n, 2, L, C)))
    won = bid >= 1 + x
    paid = (1 + x if rule == "second-price" else bid) / n
    clicked = np.where(click == 1, kappa[kind], 1.0 - kappa[kind])
    return ConstrainedMDP.from_outcomes(
        level * C + kind,
        bid,
        level_to * C + kind_to,
        rival[level, x] * clicked * chain[level, level_to] * share[kind_to],
        np.stack([won * click, won * paid], axis=1),
        num_states=L * C,
        num_actions=n + 1,
        horizon=horizon,
        initial=np.outer(first, share).ravel(),
        limits=limits,
        state_names=[f"{name} {kind}" for name in levels for kind in classes],
        action_names=[f"bid {j / n:g}" for j in range(n + 1)],
        cost_names=("spend",),
        can_stop=True,
    )

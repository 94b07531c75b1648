"""Families of worlds to judge a learning rule on: chains, rivers, grids, rooms, Dirichlet models, pricing and bidding.

`draw(family, number)` gives world `number` of a family, always the same one. Its sizes and parameters are drawn,
and its limit is set between the least cost there is and what the best policy without limit costs, so that it binds.
Numbers below 102 are for developing a rule, those from 102 on for judging it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import conrl
from conrl.envs import bidding, gridworld, pricing

FOR_JUDGING = 102
MATTERS = 0.1  # the least share of the cost that the limit must be able to change, else the draw is thrown away


class World(NamedTuple):
    """A model, how it pays, and for how many episodes it is played."""

    name: str
    mdp: conrl.ConstrainedMDP
    pay: str
    episodes: int


def draw(family: str, number: int) -> World:
    """World `number` of a family."""
    rng = np.random.default_rng([sorted(FAMILIES).index(family), number])
    while True:
        text, mdp, pay = FAMILIES[family](rng)
        least = float(conrl.feasibility(mdp, [np.inf]).least[0])
        free = float(conrl.plan(mdp, [np.inf]).costs[0])
        if free - least > MATTERS * max(free, 1.0):
            break
    limit = least + float(rng.uniform(0.3, 0.7)) * (free - least)
    return World(f"{family} {number}: {text}", mdp.replace(limits=[limit]), pay, 5000 if pay == "bernoulli" else 2000)


def chain(rng: np.random.Generator) -> tuple[str, conrl.ConstrainedMDP, str]:
    """Steps forward cost and may fail; what pays is at the far end. A little is paid at the near end."""
    n, slip = int(rng.integers(5, 21)), float(rng.uniform(0.0, 0.3))
    P, r, c = np.zeros((n, 2, n)), np.zeros((n, 2)), np.zeros((n, 2, 1))
    for s in range(n):
        P[s, 0, max(s - 1, 0)] += 1.0
        P[s, 1, min(s + 1, n - 1)] += 1.0 - slip
        P[s, 1, s] += slip
    r[0, 0], r[n - 1, 1] = rng.uniform(0.01, 0.1), 1.0
    c[:, 1, 0] = rng.uniform(0.2, 1.0, n)
    mdp = conrl.ConstrainedMDP(P, r, c, horizon=3 * n, reward_range=(0, 1), cost_ranges=[(0, 1)])
    return f"{n} states, slip {slip:.2f}", mdp, "outcome"


def river(rng: np.random.Generator) -> tuple[str, conrl.ConstrainedMDP, str]:
    """Swimming right succeeds seldom and costs effort; a little is paid at the left bank, much at the right one."""
    n, forward = int(rng.integers(4, 9)), float(rng.uniform(0.3, 0.5))
    P, r, c = np.zeros((n, 2, n)), np.zeros((n, 2)), np.zeros((n, 2, 1))
    for s in range(n):
        P[s, 0, max(s - 1, 0)] += 1.0
        P[s, 1, min(s + 1, n - 1)] += forward
        P[s, 1, max(s - 1, 0)] += 0.05
        P[s, 1, s] += 0.95 - forward
    r[0, 0], r[n - 1, 1] = 0.05, 1.0
    c[:, 1, 0] = rng.uniform(0.3, 1.0)
    pay = "bernoulli" if rng.random() < 0.5 else "outcome"
    H = int(rng.integers(3 * n, 6 * n + 1))
    mdp = conrl.ConstrainedMDP(P, r, c, horizon=H, reward_range=(0, 1), cost_ranges=[(0, 1)])
    return f"{n} states, forward {forward:.2f}, {H} steps, {pay}", mdp, pay


def grid(rng: np.random.Generator) -> tuple[str, conrl.ConstrainedMDP, str]:
    """An open field with rocks, from one corner to the other; a rock may be tempting."""
    side, slip = int(rng.integers(2, 31)), float(rng.uniform(0.05, 0.2))
    cells = np.full((side, side), "0")
    cells[rng.random((side, side)) < 0.12] = "P"
    middle = np.arange(side)
    cells[middle, middle] = "0"  # a way there
    cells[middle[:-1], middle[1:]] = "0"
    cells[0, 0], cells[-1, -1] = "S", "G"
    if not (cells == "P").any():
        cells[0, -1] = "P"
    tempting = float(rng.uniform(0.8, 1.0))
    mdp = gridworld(["".join(row) for row in cells], slip=slip, horizon=max(6, 4 * side), rock_reward=tempting)
    return f"side {side}, slip {slip:.2f}, rock {tempting:.2f}", mdp, "outcome"


def rooms(rng: np.random.Generator) -> tuple[str, conrl.ConstrainedMDP, str]:
    """Four rooms with doors, and rocks in them."""
    side, slip = int(rng.integers(9, 20)), float(rng.uniform(0.05, 0.2))
    cells = np.full((side, side), "0")
    cells[rng.random((side, side)) < 0.06] = "P"
    wall = side // 2
    cells[wall, :], cells[:, wall] = "W", "W"
    for at in (rng.integers(0, wall), rng.integers(wall + 1, side)):
        cells[wall, at] = cells[at, wall] = "0"
        cells[max(wall - 1, 0), at] = cells[wall + 1, at] = cells[at, wall - 1] = cells[at, wall + 1] = "0"
    cells[0, 0], cells[-1, -1] = "S", "G"
    tempting = float(rng.uniform(0.8, 1.0))
    mdp = gridworld(["".join(row) for row in cells], slip=slip, horizon=5 * side, rock_reward=tempting)
    return f"side {side}, slip {slip:.2f}, rock {tempting:.2f}", mdp, "outcome"


def dirichlet(rng: np.random.Generator) -> tuple[str, conrl.ConstrainedMDP, str]:
    """Dense transitions, everything paid by coins."""
    S, A, H = int(rng.integers(5, 31)), int(rng.integers(2, 6)), int(rng.integers(6, 21))
    P = rng.dirichlet(np.full(S, float(rng.choice([0.1, 0.3, 1.0]))), (S, A))
    r, c = rng.random((S, A)), rng.random((S, A, 1))
    mdp = conrl.ConstrainedMDP(P, r, c, horizon=H, reward_range=(0, 1), cost_ranges=[(0, 1)])
    return f"{S} states, {A} actions, {H} steps, bernoulli", mdp, "bernoulli"


def prices(rng: np.random.Generator) -> tuple[str, conrl.ConstrainedMDP, str]:
    """Pricing with another ladder, other regimes, another day."""
    ladder = tuple(np.sort(rng.choice(np.arange(10, 121, 5), int(rng.integers(3, 8)), replace=False)).tolist())
    count, H = int(rng.integers(2, 5)), int(rng.integers(6, 17))
    regimes = {f"g{i}": float(x) for i, x in enumerate(np.sort(rng.uniform(20, 90, count)))}
    mdp = pricing(
        prices=ladder,
        regimes=regimes,
        persistence=float(rng.uniform(0.5, 0.95)),
        rush=float(rng.uniform(0, 40)),
        spread=float(rng.uniform(4, 20)),
        horizon=H,
    )
    return f"{len(ladder)} prices, {count} regimes, {H} hours", mdp, "outcome"


def bids(rng: np.random.Generator) -> tuple[str, conrl.ConstrainedMDP, str]:
    """Bidding against other rivals, for other clicks, by either rule."""
    levels, classes = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    ticks, H = int(rng.integers(3, 8)), int(rng.integers(10, 31))
    rule = str(rng.choice(["second-price", "first-price"]))
    mdp = bidding(
        competition={f"l{i}": float(x) for i, x in enumerate(np.sort(rng.uniform(0.1, 0.9, levels)))},
        impressions={f"v{i}": float(x) for i, x in enumerate(np.sort(rng.uniform(0.02, 0.9, classes)))},
        shares=rng.dirichlet(np.ones(classes)),
        persistence=float(rng.uniform(0.5, 0.95)),
        ticks=ticks,
        rule=rule,
        horizon=H,
    )
    return f"{levels} levels, {classes} classes, {ticks} ticks, {H} steps, {rule}", mdp, "outcome"


FAMILIES: dict[str, Callable[[np.random.Generator], tuple[str, conrl.ConstrainedMDP, str]]] = {
    "bidding": bids,
    "chain": chain,
    "dirichlet": dirichlet,
    "grid": grid,
    "pricing": prices,
    "river": river,
    "rooms": rooms,
}

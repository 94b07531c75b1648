"""Pricing with limited supply (`conrl.envs.pricing`): a stock for all days, never oversold, against what is possible.

300 and 2,000 days, a stock of 4 units a day on average, 20 seeds; every way of selling gets the same random numbers.
The total of the stock is a hard budget: each run is checked in exact arithmetic.

- The clairvoyant static optimum, K times the best expected revenue of a day within B / K: no policy does better in
  expectation (Section 5 of Brantley et al. 2020).
- ConRL with epsilon held back, or re-solved each day on what is left; with the default bonus of version 0.1, and with
  that of the theory.
- The same with the true model instead of an estimate: what is lost by chance and by the guard, without learning.
- One price for all days, until the stock is gone: the best one known beforehand. And the best lottery over prices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from studies import BLUE, GREY, ORANGE, Float, read_rows, spread, table, with_error, write_rows

import conrl
from conrl.drawing import save_figure
from conrl.envs import pricing
from conrl.estimation import Bonus
from conrl.learners import Proposal
from conrl.policy import Deterministic, Policy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STOCK = 4.0  # a day on average
DAYS = (300, 2_000)
SEEDS = range(20)
FIGURE = Path(__file__).parent.parent / "docs" / "pricing-burndown.png"


class Known(conrl.ConRL):
    """ConRL with nothing to learn: it plans in the true model."""

    truth: conrl.ConstrainedMDP

    def _model(self, b: Float) -> conrl.ConstrainedMDP:
        return self.truth

    def _played(self, plan: conrl.Plan) -> Policy:
        policy: Policy = plan.policy
        return policy


class Lottery(conrl.ConRL):
    """A fixed lottery over prices, drawn each day; the guard is ConRL's."""

    shares: Sequence[tuple[int, float]]

    def _decide(self) -> Proposal:
        task = self.task
        draw = self.generator().random()
        at = int(np.searchsorted(np.cumsum([x for _, x in self.shares]), draw, side="right"))
        price = self.shares[min(at, len(self.shares) - 1)][0]
        policy = Deterministic(np.full((task.horizon, task.num_states), price), task.num_actions)
        guarded = self.budget is not None and not self.budget.admits()
        return Proposal(self._null if guarded else policy, policy, guarded=guarded)


def knapsack(days: int, epsilon: float = 0.0) -> conrl.Knapsack:
    return conrl.Knapsack([STOCK * days], days, epsilon)


def learner(days: int, epsilon: float = 0.0, resolve: bool = False, bonus: Bonus | None = None) -> conrl.ConRL:
    problem = knapsack(days, epsilon)
    return conrl.ConRL(pricing().task, problem=problem, bonus=bonus, resolve=resolve, keep_policies=False)


def known(days: int, epsilon: float = 0.0, resolve: bool = False) -> conrl.ConRL:
    made = Known(pricing().task, problem=knapsack(days, epsilon), resolve=resolve, keep_policies=False)
    made.truth = pricing()
    return made


def lottery(days: int, shares: Sequence[tuple[int, float]] | None = None) -> conrl.ConRL:
    """A lottery over prices; the best one by default."""
    made = Lottery(pricing().task, problem=knapsack(days), keep_policies=False)
    made.shares = best_lottery() if shares is None else shares
    return made


@cache
def days_of_one_price() -> Float:
    """[A, 2]: expected revenue and sales of a day at each price."""
    mdp = pricing()
    shape = (mdp.horizon, mdp.num_states)
    values = [conrl.evaluate(mdp, Deterministic(np.full(shape, a), mdp.num_actions)) for a in range(mdp.num_actions)]
    return np.array([(v.reward, v.costs[0]) for v in values])


def best_lottery() -> list[tuple[int, float]]:
    """The lottery with the most expected revenue within the stock of a day; two prices are enough."""
    v = days_of_one_price()
    found: list[tuple[float, list[tuple[int, float]]]] = []
    for low, high in ((i, j) for i in range(len(v)) for j in range(len(v)) if v[i, 1] > STOCK >= v[j, 1]):
        x = float((STOCK - v[high, 1]) / (v[low, 1] - v[high, 1]))
        found.append((float(x * v[low, 0] + (1.0 - x) * v[high, 0]), [(low, x), (high, 1.0 - x)]))
    found += [(float(v[i, 0]), [(i, 1.0)]) for i in range(len(v)) if v[i, 1] <= STOCK]
    return max(found)[1]


def exact_revenue(price: int, days: int) -> float:
    """Expected revenue of one price until the stock is gone: (reward of a sale) x E min(demand of all days, stock)."""
    day = demand_of_a_day(price)
    total = np.ones(1)
    stock = int(STOCK * days)
    for _ in range(days):
        total = np.convolve(total, day)[: stock + 1]  # what is cut off is at least the stock
    unsold = float(total @ (stock - np.arange(total.size)))
    mdp = pricing()
    assert mdp.outcome_pay is not None
    reward = float(mdp.outcome_pay[_outcomes_of(mdp, price), 0].max())
    return reward * (stock - unsold)


def _outcomes_of(mdp: conrl.ConstrainedMDP, action: int) -> Any:
    return np.repeat(mdp.action, np.diff(mdp.graph.start)) == action


def demand_of_a_day(price: int) -> Float:
    """[H+1]: probabilities of the number of sales in a day at one price."""
    mdp = pricing()
    H, S = mdp.horizon, mdp.num_states
    pair = mdp.pair_index[:, price]
    sold = mdp.pay[pair, 1]  # a sale costs 1 unit, and does not move the regime
    P = mdp.transitions[pair]
    mu = np.zeros((H + 1, S))  # by sales so far
    mu[0] = mdp.initial
    for _ in range(H):
        bought = mu * sold
        stays = mu - bought
        stays[1:] += bought[:-1]
        mu = stays @ P
    return np.asarray(mu.sum(axis=1))


# -- runs -------------------------------------------------------------------------------------------------


PRICES = (20, 40, 60, 80, 100)  # the ladder of the environment
WAYS: dict[str, Callable[[int], conrl.ConRL]] = {
    "ConRL, epsilon 0": learner,
    "ConRL, epsilon 0.05": partial(learner, epsilon=0.05),
    "ConRL, re-solved": partial(learner, resolve=True),
    "ConRL, constants of 0.1, re-solved": partial(learner, resolve=True, bonus=conrl.ScaledBonus()),
    "ConRL, the theory's bonus": partial(learner, bonus=conrl.TheoryBonus()),
    "true model, epsilon 0": known,
    "true model, epsilon 0.05": partial(known, epsilon=0.05),
    "true model, re-solved": partial(known, resolve=True),
    "best lottery over prices": lottery,
    **{f"price {p} throughout": partial(lottery, shares=[(a, 1.0)]) for a, p in enumerate(PRICES)},
}
BURNED = ("ConRL, epsilon 0", "ConRL, re-solved")


class Job(NamedTuple):
    way: str
    days: int
    seed: int


class Run(NamedTuple):
    """One run, as a row of docs/data/pricing.csv."""

    way: str
    days: int
    seed: int
    revenue: float
    sold: float
    guarded: int  # days that the guard forbade or cut short
    skipped: int  # days not opened, by plan or by the guard
    would_exceed: int  # whether the stock would have been oversold without the guard
    left: tuple[float, ...]  # [K]: of the stock after each day; not in that file


def run(job: Job) -> Run:
    h = conrl.learn(pricing(), WAYS[job.way](job.days), job.days, seed=job.seed)
    spent = sum((Fraction(x) for x in h.costs[:, 0].tolist()), Fraction())
    assert spent <= Fraction(STOCK) * job.days, f"{job}: {float(spent)} units sold"
    assert h.would_exceed is not None
    assert h.remaining is not None
    counts = int(h.guarded.sum()), int(h.skipped.sum()), int(h.would_exceed[0])
    return Run(*job, float(h.rewards.sum()), float(spent), *counts, tuple(h.remaining[:, 0].tolist()))


def compute() -> None:
    runs = spread(run, [Job(way, days, seed) for days in DAYS for way in WAYS for seed in SEEDS])
    write_rows("pricing.csv", Run._fields[:-1], [r[:-1] for r in runs])
    burned = [r for r in runs if r.way in BURNED and r.days == DAYS[0]]
    rows = [(r.way, r.seed, day + 1, left) for r in burned for day, left in enumerate(r.left) if day % 5 == 4]
    write_rows("pricing-burndown.csv", ["way", "seed", "day", "left"], rows)


def report() -> None:
    rows = read_rows("pricing.csv")
    for days in DAYS:
        best = conrl.plan(pricing(), knapsack(days)).reward * days
        print(f"{days:,} days, stock {STOCK * days:g}, {len(SEEDS)} seeds; clairvoyant static optimum {best:.1f}\n")
        mine = [r for r in rows if int(r["days"]) == days]
        header = ["way of selling", "revenue", "of the optimum", "worst seed", "units sold", "runs oversold"]
        header += ["would be oversold without the guard", "runs in which the guard acted; days a run"]
        table(header, [[way, *summary([r for r in mine if r["way"] == way], days, best)] for way in WAYS])
        exact = ", ".join(f"{p}: {exact_revenue(a, days):.1f}" for a, p in enumerate(PRICES))
        print(f"Expected revenue of one price until the stock is gone, exact: {exact}.\n")
    shares = ", ".join(f"price {PRICES[a]} with {x:.3f}" for a, x in best_lottery())
    print(f"Best lottery: {shares}.\n")
    save_figure(draw(), FIGURE)


def summary(rows: list[dict[str, str]], days: int, best: float) -> list[str]:
    numbers = {key: np.array([float(r[key]) for r in rows]) for key in Run._fields[3:-1]}
    revenue, sold, guarded = numbers["revenue"], numbers["sold"], numbers["guarded"]
    return [
        with_error(revenue, 1),
        f"{revenue.mean() / best:.1%}",
        f"{revenue.min() / best:.1%}",
        f"{sold.mean():.0f} (most {sold.max():.0f})",
        f"{(sold > STOCK * days).sum()} of {len(rows)}",
        f"{numbers['would_exceed'].sum():.0f} of {len(rows)}",
        f"{(guarded > 0).sum()} of {len(rows)}; {guarded.mean():.1f}",
    ]


def draw() -> Figure:
    """The stock that is left against days, a thin line a seed."""
    from matplotlib.figure import Figure

    rows = read_rows("pricing-burndown.csv")
    stock = STOCK * DAYS[0]
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, way, colour in zip(panels, BURNED, (ORANGE, BLUE), strict=True):
        for seed in SEEDS:
            mine = [r for r in rows if r["way"] == way and int(r["seed"]) == seed]
            days = [0, *(int(r["day"]) for r in mine)]
            axes.plot(days, [stock, *(float(r["left"]) for r in mine)], color=colour, lw=0.7, alpha=0.6)
        axes.plot([0, DAYS[0]], [stock, 0.0], color=GREY, lw=1.2, ls="--", label="evenly spent")
        axes.plot([], [], color=colour, lw=0.7, label=f"one of {len(SEEDS)} seeds")
        axes.set_title(way, fontsize=10)
        axes.set(xlabel="day", xlim=(0, DAYS[0]), ylim=(0, stock))
        axes.grid(alpha=0.3, lw=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=9, frameon=False)
    panels[0].set_ylabel("stock left, units")
    return figure

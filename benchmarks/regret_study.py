"""Regret of ConRL in the three settings: max(RewReg, ConsReg, 0) against episodes k, with the slope on log-log axes.

The slope is fitted by least squares to the mean over seeds, on the last decade of episodes, at points evenly spread on
the logarithmic axis. The theorems (3.4, 4.1, 5.1 of Brantley et al. 2020) say -1/2, for the theory bonus. That bonus is
run on the smallest model on which something can be learned; the default one on the paper's environments.

In the knapsack setting the regrets are against the static optimum and against B / K an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from studies import BLUE, GREY, ORANGE, Float, read_rows, spread, table, write_rows

import conrl
from conrl.drawing import save_figure
from conrl.envs import box, mars_rover, pricing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEEDS = range(10)
POINTS = 40
FIGURE = Path(__file__).parent.parent / "docs" / "regret.png"


def tiny() -> conrl.ConstrainedMDP:
    """S = A = H = 2: action 1 pays and costs, action 0 does neither, nearly. Optimum 0.738 at cost 0.6, the limit."""
    transitions = np.array([[[0.8, 0.2], [0.2, 0.8]]] * 2)
    rewards = np.array([[0.1, 1.0], [0.0, 0.9]])
    costs = np.array([[0.0, 1.0], [0.1, 0.9]])[:, :, None]
    return conrl.ConstrainedMDP(transitions, rewards, costs, horizon=2, limits=[0.6])


def rover() -> conrl.ConstrainedMDP:
    return mars_rover(rock_reward=1.0)


def curved(limit: float) -> conrl.ConcaveConvex:
    """f(reward) = sqrt(0.1 + reward) and g(cost) = cost^2 - limit^2."""
    import cvxpy as cp

    return conrl.ConcaveConvex(lambda r: cp.sqrt(0.1 + r), lambda c: cp.square(c[0]) - limit**2)


class Setting(NamedTuple):
    """One panel: where, how, and for how long."""

    title: str
    make: Callable[[], conrl.ConstrainedMDP]
    episodes: int
    problem: Callable[[], conrl.Problem | None]
    theory: bool = False


SETTINGS = {
    "tiny-linear": Setting("Linear, theory bonus\ntiny model", tiny, 100_000, lambda: None, True),
    "tiny-convex": Setting("Concave-convex, theory bonus\ntiny model", tiny, 20_000, lambda: curved(0.6), True),
    "rover-linear": Setting("Linear, default bonus\nMars rover", rover, 2_000, lambda: None),
    "box-linear": Setting("Linear, default bonus\nBox", box, 2_000, lambda: None),
    "rover-convex": Setting("Concave-convex, default bonus\nMars rover", rover, 2_000, lambda: curved(0.3)),
    "pricing-knapsack": Setting(
        "Knapsack, default bonus\nPricing", pricing, 2_000, lambda: conrl.Knapsack([4.0 * 2_000], 2_000)
    ),
}


class Job(NamedTuple):
    setting: str
    seed: int


def points(episodes: int) -> Float:
    """Whole numbers, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, episodes, POINTS).round())


def run(job: Job) -> list[tuple[Any, ...]]:
    setting = SETTINGS[job.setting]
    mdp = setting.make()
    bonus = conrl.TheoryBonus(delta=0.1) if setting.theory else None
    learner = conrl.ConRL(mdp.task, problem=setting.problem(), bonus=bonus, keep_policies=False)
    pay = "bernoulli" if setting.theory else "outcome"
    h = conrl.learn(mdp, learner, setting.episodes, seed=job.seed, pay=pay)
    regret = h.regret
    return [(*job, int(k), regret.reward[int(k) - 1], regret.cost[int(k) - 1]) for k in points(setting.episodes)]


def compute() -> None:
    jobs = [Job(name, seed) for name in SETTINGS for seed in SEEDS]
    rows = [row for rows in spread(run, jobs) for row in rows]
    write_rows("regret.csv", ["setting", "seed", "episode", "reward_regret", "cost_regret"], rows)


class Curves(NamedTuple):
    """The regrets of one setting."""

    k: Float  # [n]
    reward: Float  # [seeds, n]
    cost: Float  # [seeds, n]

    @property
    def worse(self) -> Float:
        """[seeds, n]: max(RewReg, ConsReg, 0)."""
        return np.maximum(np.maximum(self.reward, self.cost), 0.0)


def load() -> dict[str, Curves]:
    rows = read_rows("regret.csv")
    found = {}
    for name in dict.fromkeys(r["setting"] for r in rows):
        mine = [r for r in rows if r["setting"] == name]
        seeds = len({r["seed"] for r in mine})
        column = {key: np.array([float(r[key]) for r in mine]).reshape(seeds, -1) for key in list(mine[0])[2:]}
        found[name] = Curves(column["episode"][0], column["reward_regret"], column["cost_regret"])
    return found


def slope(k: Float, regret: Float) -> tuple[float, float]:
    """Slope and intercept on log-log axes over the last decade; nan where the regret is 0 somewhere there."""
    last = (k >= k[-1] / 10.0) & (k > 0)
    if (regret[last] <= 0.0).any():
        return float("nan"), float("nan")
    a, b = np.polyfit(np.log(k[last]), np.log(regret[last]), 1)
    return float(a), float(b)


def report() -> None:
    found = load()
    rows = []
    for name, curves in found.items():
        mean = curves.worse.mean(axis=0)
        single = [slope(curves.k, row)[0] for row in curves.worse]
        numbers = [f"{x.mean():.3g}" for x in (curves.reward[:, -1], curves.cost[:, -1], curves.worse[:, -1])]
        title = SETTINGS[name].title.replace("\n", ", ")
        span = f"{curves.k[-1] / 10:,.0f}-{curves.k[-1]:,.0f}"
        rows.append([title, f"{curves.k[-1]:,.0f}", *numbers, span, f"{slope(curves.k, mean)[0]:.2f}", _range(single)])
    header = ["setting", "K", "RewReg(K)", "ConsReg(K)", "max(RewReg, ConsReg, 0)", "fitted on", "slope of the mean"]
    table([*header, "slopes of single seeds"], rows)
    save_figure(draw(found), FIGURE)


def _range(slopes: list[float]) -> str:
    good = [s for s in slopes if np.isfinite(s)]
    text = f"{min(good):.2f} to {max(good):.2f}" if good else "-"
    return text + (f" ({len(slopes) - len(good)} reach 0)" if len(good) < len(slopes) else "")


# -- the figure -------------------------------------------------------------------------------------------


def draw(found: dict[str, Curves]) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure = Figure(figsize=(11.0, 7.0), layout="constrained")
    for axes, (name, curves) in zip(figure.subplots(2, 3).flat, found.items(), strict=False):
        panel(axes, SETTINGS[name].title, curves)
    handles = [
        Line2D([], [], color=BLUE, lw=1.8, label="mean of 10 seeds"),
        Patch(color=BLUE, alpha=0.2, label="from the best to the worst seed"),
        Line2D([], [], color=ORANGE, lw=1.8, ls="--", label="line fitted to the mean"),
        Line2D([], [], color=GREY, lw=1.0, ls=":", label="slope -1/2, for comparison"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.supylabel("regret an episode: max(RewReg, ConsReg, 0)", fontsize=10)
    return figure


def panel(axes: Axes, title: str, curves: Curves) -> None:
    k, worse = curves.k, curves.worse
    mean = worse.mean(axis=0)
    floor = 0.3 * float(mean[mean > 0.0].min())
    shown = np.maximum(worse, floor)
    axes.fill_between(k, shown.min(axis=0), shown.max(axis=0), color=BLUE, alpha=0.2, lw=0)
    axes.plot(k, np.maximum(mean, floor), color=BLUE, lw=1.8)
    a, b = slope(k, mean)
    ends = np.array([k[-1] / 10.0, k[-1]])
    axes.plot(ends, np.exp(b) * ends**a, color=ORANGE, lw=1.8, ls="--", label=f"slope {a:.2f}")
    above = 1.6 * float(np.exp(b) * ends[0] ** a)
    axes.plot(ends, above * (ends / ends[0]) ** -0.5, color=GREY, lw=1.0, ls=":")
    axes.set(xscale="log", yscale="log")
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("episodes k", fontsize=9)
    axes.grid(alpha=0.3, lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower center", fontsize=9, frameon=False)

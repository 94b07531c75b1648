"""The report of a study: one HTML page that needs nothing else, and nobody's network.

The page is `page/report.html` with its style, its scripts, plotly.js and the numbers put in. Names go in as JSON and
are shown as text, never as HTML; a policy in the page's head (CSP) names the two scripts by their hashes, so that no
other would run and no request could leave.

The *budget explorer* is the exact frontier with what its policies do. Letters: rho_v(h, i, a) is the probability of
being at place i (a cell of the map, or a state) at step h and playing a, under the best policy at the limit x_v of
vertex v. At a limit between two neighbours the best policy mixes theirs,

    x = (1 - t) x_v + t x_(v+1)   ->   reward, costs and rho are mixed with weights 1 - t and t,

and its action at a place is drawn in proportion to the mixed rho (Altman 1999, Theorem 6.1). So the page holds the
vertices only and mixes them itself; the price of the limit is the slope between the two.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conrl import play
from conrl.errors import ConRLError, SpecError
from conrl.experiments import analysis
from conrl.experiments.analysis import Environment, Study, load
from conrl.files import atomic_write
from conrl.model import ConstrainedMDP
from conrl.planners import Frontier, Plan, frontier, plan

Float = NDArray[np.float64]
Int = NDArray[np.int64]

SCRIPTS = ("page.js", "curves.js", "explorer.js")
EVEN, EARLY = 130, 70  # places along a curve: equally far apart, and closer together at the start

VERTICES = 60
FEWEST = 12  # vertices, and places listed at a step
ENTRIES = 200_000  # of all rho of an environment together; some 8 bytes each
MOST_PLACES = 64  # kept of each vertex and step, if there are more; the most visited ones
MOST_CELLS = 2_500  # of a map that a page can draw
MOST_STEPS = 2_000
MOST_WORK = 2e7  # outcomes x steps of a model whose frontier is computed for a page
MOST_COSTS = 4
UNIT = 1e-4  # in which probabilities are stored; 0 stands for less than half of it
SLIGHT = 1e-7  # error of a curve that is not worth a word, in proportion to the reward
LIGHT = 1e-9  # weight of a policy that is left out of a mixture


def write_report(study: Study | str | Path, out: str | Path | None = None) -> Path:
    """Write the page about a study, or about the runs under a directory; by default DIR/report.html."""
    found = study if isinstance(study, Study) else load(study)
    path = found.directory / "report.html" if out is None else Path(out)
    page = render(contents(found))
    with atomic_write(path) as file:
        file.write(page)
    return path


# -- the page ---------------------------------------------------------------------------------------------


def render(data: dict[str, Any]) -> bytes:
    """The page that shows `data`."""
    folder = resources.files("conrl.experiments") / "page"

    def text(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    scripts = {"plotly": _plotly(), "script": "\n".join(map(text, SCRIPTS))}
    hashes = (hashlib.sha256(script.encode()).digest() for script in scripts.values())
    allowed = " ".join(f"'sha256-{base64.b64encode(found).decode()}'" for found in hashes)
    parts = {
        **scripts,
        "style": text("report.css"),
        "policy": f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:",
        "title": html.escape(str(data["title"])),
        # Within a script element "</script" and "<!--" would mean something; as \u003c they are JSON all the same.
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    # In one pass: what is put in is not searched again.
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text("report.html"))
    return page.encode("utf-8", errors="replace")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError as error:
        raise SpecError(f"reports need the extra: pip install 'conrl[report]' ({error})") from None
    # A page's parser turns line ends into \n; the hash must be of the same.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


# -- the numbers ------------------------------------------------------------------------------------------


def contents(study: Study) -> dict[str, Any]:
    """Everything that the page shows, as JSON."""
    rows = study.summary().to_dicts()
    return {
        "name": study.name,
        "title": study.title,
        "description": study.description,
        "runs": len(study.runs),
        "algorithms": [{"name": name, "title": study.titles.get(name, name)} for name in study.algorithms],
        "failures": [
            {"run": f"{f.algorithm} in {f.environment}, seed {f.seed}", "text": f.traceback} for f in study.failures
        ],
        "unreadable": study.unreadable,
        "words": _words(),
        "environments": [
            {
                "name": env.name,
                "title": env.title,
                "facts": _facts(env),
                "costs": _costs(env),
                "best": None if env.optimum is None else number(env.optimum.reward),
                "curves": _curves(study, env),
                "table": [_row(row) for row in rows if row["environment"] == env.name],
                "explorer": _explorer(env),
            }
            for env in study.environments.values()
        ],
    }


def number(x: Any, digits: int = 6) -> float | int | None:
    """As JSON: rounded to so many digits; None for what is missing or infinite."""
    if x is None or not math.isfinite(x):
        return None
    if isinstance(x, int):
        return x
    return float(f"{x:.{digits}g}")


def _words() -> dict[str, str]:
    """What the measures mean, with the numbers that they are computed with."""
    return {
        "smoothed": f"mean of the last {analysis.AVERAGED} episodes",
        "band": f"Lines are means over seeds; bands and [brackets] are {analysis.CONFIDENCE:.0%} bootstrap intervals "
        "of the mean over seeds. With a single seed there is no interval.",
        "curve": "Reward and cost are the exact expected values of what each episode executed where the model is "
        f"known, else what was seen; smoothed as the mean of the last {analysis.AVERAGED} episodes. Curves end where "
        "the shortest run of an algorithm ends.",
        "final": f"Reward and cost in the table are means over the last {analysis.LAST:.0%} of a run.",
        "violations": "Violations: the share of episodes at which the smoothed cost is above its limit by more than "
        f"{analysis.OVER:g}, as a mean over seeds.",
        "solved": "Solved after: the median over seeds of the first episode from which the smoothed reward stays "
        f"within {analysis.NEAR:g} of the constrained optimum and every smoothed cost within {analysis.OVER:g} of its "
        "limit, to the end of the run.",
        "regret": "Regret: how far the expected reward was below the constrained optimum, as a mean over all episodes "
        "and seeds; negative where limits were broken for more reward.",
        "total": "Total cost: realised, summed over all episodes; a mean over seeds.",
    }


def _facts(env: Environment) -> str:
    mdp, best = env.mdp, env.optimum
    if mdp is None or best is None:
        return "The model is not known here: no optimum to compare with, and no budget to explore."
    used = ", ".join(f"{name} {cost:.4g}" for name, cost in zip(mdp.cost_names, best.costs, strict=True))
    return (
        f"{mdp.num_states:,} states, {mdp.num_actions} actions, {mdp.horizon:,} steps an episode. "
        f"Best policy within the limits: reward {best.reward:.5g}" + (f" ({used})." if used else ".")
    )


def _costs(env: Environment) -> list[dict[str, Any]]:
    used = [None] * len(env.cost_names) if env.optimum is None else env.optimum.costs.tolist()
    limits = env.limits.tolist()
    return [
        {"name": name, "limit": number(limit), "best": number(cost)}
        for name, limit, cost in zip(env.cost_names, limits, used, strict=True)
    ]


def _curves(study: Study, env: Environment) -> list[dict[str, Any]]:
    """Places for a linear and for a logarithmic axis, put together."""
    even_ones = study.curves(env.name, EVEN)
    # Curves that are short have a place for every episode already.
    short = all(curve.x[-1] <= EVEN for curve in even_ones)
    both = zip(even_ones, even_ones if short else study.curves(env.name, EARLY, log=True), strict=True)
    found = []
    for even, early in both:
        x, at = np.unique(np.concatenate((even.x, early.x)), return_index=True)
        curve: dict[str, Any] = {"algorithm": even.algorithm, "measure": even.measure, "cost": even.cost}
        curve |= {"seeds": even.seeds, "x": x.astype(int).tolist()}
        for name in ("mean", "low", "high"):
            values = np.concatenate((getattr(even, name), getattr(early, name)))[at]
            curve[name] = [number(value, 5) for value in values.tolist()]
        found.append(curve)
    return found


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value if isinstance(value, str) else number(value) for key, value in row.items()}


# -- the budget explorer ----------------------------------------------------------------------------------


def _explorer(env: Environment) -> dict[str, Any]:
    """The places, the actions and a frontier for each cost; or a note why there are none."""
    mdp = env.mdp
    if mdp is None:
        return {"note": "The model is not known here, so that there is no frontier to explore."}
    if mdp.num_costs == 0:
        return {"note": "The model has no costs, so that there is no budget to explore."}
    if mdp.graph.probability.size * mdp.horizon > MOST_WORK or mdp.horizon > MOST_STEPS:
        return {"note": "The model is too large to explore in a page; `conrl frontier` computes its curve."}
    places = _Places(mdp)
    finite = np.isfinite(env.limits)
    chosen = sorted(np.argsort(~finite, kind="stable")[:MOST_COSTS].tolist())
    try:
        curves = [_frontier(mdp, cost, places, ENTRIES // len(chosen)) for cost in chosen]
    except ConRLError as error:
        return {"note": f"There is no frontier to explore: {error}"}
    left = mdp.num_costs - len(chosen)
    return {
        "horizon": mdp.horizon,
        "actions": list(mdp.action_names),
        "frontiers": curves,
        "more": f"{left} more costs are not shown." if left else "",
        **places.description(),
    }


class _Places:
    """Where rho is counted: the cells of a map that can be drawn, else the states."""

    def __init__(self, mdp: ConstrainedMDP) -> None:
        self.mdp = mdp
        self.layout = _layout(mdp)
        self.of = np.arange(mdp.num_states) if self.layout is None else self.layout.cell  # [S]; -1 for nowhere
        self.count = int(self.of.max()) + 1
        self.other = None if self.layout is None else _second(mdp, self.layout)  # [S]
        # Where nothing happens any more an action means nothing: it is counted as one more, the last.
        ended = play._ended(mdp)[mdp.pair_state]
        self.actions = mdp.num_actions + 1
        kept = self.of[mdp.pair_state] >= 0
        self.pairs = np.flatnonzero(kept)
        self.keys = (self.of[mdp.pair_state] * self.actions + np.where(ended, mdp.num_actions, mdp.action))[kept]
        self.named: set[int] = set()

    def description(self) -> dict[str, Any]:
        if self.layout is None:
            return {"names": {str(s): self.mdp.state_name(s) for s in sorted(self.named)}}
        signs = {sign for row in self.layout.rows for sign in row}
        return {
            "rows": list(self.layout.rows),
            "arrows": list(self.layout.arrows),
            "kinds": {sign: word for sign, word in play.KINDS.items() if sign in signs},
            "walls": play.WALLS,
            "directions": {sign: step for sign, step in play.DIRECTIONS.items() if sign in self.layout.arrows},
            "second": self.other is not None,
        }

    def visits(self, best: Plan, most: int) -> tuple[list[list[int]], list[list[int]]]:
        """For each step the keys (place x actions + action) with their rho, and the cells of the second piece."""
        mdp = self.mdp
        rho = np.zeros((mdp.horizon, mdp.num_pairs))
        for i in np.flatnonzero(best.weights > LIGHT):
            best.component(int(i)).add_occupation(mdp, float(best.weights[i]), rho)
        first, second = [], []
        for row in rho:
            table = np.zeros((self.count, self.actions))
            np.add.at(table.reshape(-1), self.keys, row[self.pairs])
            if most < self.count:
                table[np.argsort(-table.sum(axis=1), kind="stable")[most:]] = 0.0
            first.append(_sparse(table.ravel()))
            self.named.update(np.flatnonzero(table.any(axis=1)).tolist())
            if self.other is not None:
                cells = np.zeros(self.other.max() + 1)
                np.add.at(cells, self.other[mdp.pair_state], row)
                cells[cells < UNIT / 2] = 0.0
                second.append(_sparse(cells))
        return first, second


def _layout(mdp: ConstrainedMDP) -> Any:
    try:
        layout = play.grid_layout(mdp)
    except SpecError:
        return None
    return layout if len(layout.rows) * len(layout.rows[0]) <= MOST_CELLS else None


def _second(mdp: ConstrainedMDP, layout: Any) -> Int | None:
    """[S]: the cell of a second piece on the map, where the features are two pictures of it: agent, piece."""
    shape = (len(layout.rows), len(layout.rows[0]))
    if mdp.features is None or mdp.features.shape != (mdp.num_states, 2, *shape):
        return None
    pictures = mdp.features.reshape(mdp.num_states, 2, -1)
    agent, piece = pictures.argmax(axis=2).T
    single = (pictures.sum(axis=2) == 1.0).all() and (pictures.max(axis=2) == 1.0).all()
    return piece if single and (agent == layout.cell).all() else None


def _sparse(values: Float) -> list[int]:
    """Where values are positive, as differences of places, each followed by its value in `UNIT`s."""
    at = np.flatnonzero(values > 0.0)
    pairs = np.column_stack((np.diff(at, prepend=0), np.round(values[at] / UNIT).astype(np.int64)))
    flat: list[int] = pairs.ravel().tolist()
    return flat


def _frontier(mdp: ConstrainedMDP, cost: int, places: _Places, entries: int) -> dict[str, Any]:
    steps = mdp.horizon
    size = min(max(entries // (steps * max(min(places.count, MOST_PLACES), 1)), FEWEST), VERTICES)
    most = min(max(entries // (steps * size), FEWEST), max(MOST_PLACES, places.count if places.layout else 0))
    curve = frontier(mdp, cost, max_vertices=size)
    own = math.inf if mdp.limits is None else float(mdp.limits[cost])
    limits = _with_own(curve, own)
    plans = [plan(mdp, curve.linear(limit)) for limit in limits]
    visits = [places.visits(best, most) for best in plans]
    found = {
        "cost": cost,
        "own": number(own, 12),
        "limits": [number(limit, 12) for limit in limits],
        "rewards": [number(best.reward, 12) for best in plans],
        "costs": [[number(x, 9) for x in best.costs.tolist()] for best in plans],
        "policies": [int((best.weights > LIGHT).sum()) for best in plans],
        "error": number(curve.error, 2) if curve.error > SLIGHT * max(1.0, abs(float(curve.rewards[-1]))) else 0,
        "visits": [first for first, _ in visits],
    }
    return found | ({"second": [second for _, second in visits]} if places.other is not None else {})


def _with_own(curve: Frontier, own: float) -> list[float]:
    """The limits of the vertices, and those beside the model's own limit if the curve left them out.

    With no other limits the plan at the own limit mixes two vertices; else it is a point of the curve itself.
    """
    limits = set(curve.limits.tolist())
    if curve.limits[0] < own < curve.limits[-1] and not curve.complete:
        best = plan(curve.mdp, curve.linear(own))
        alone = len(curve.linear(own).rows(curve.mdp).cost) == 1
        near = best.values[best.weights > LIGHT, 1 + curve.cost].tolist() if alone else [own]
        limits.update(x for x in near if curve.limits[0] < x < curve.limits[-1])
    # Limits that rounding alone tells apart would make a slope of noise.
    least = 1e-9 * max(1.0, float(curve.limits[-1] - curve.limits[0]))
    kept: list[float] = []
    for limit in sorted(limits):
        if not kept or limit - kept[-1] > least:
            kept.append(limit)
    return kept

"""The report of a study: one HTML page that needs nothing else, and nobody's network (`conrl.explorer.pages`).

The page is `page/report.html` with plotly.js, its own scripts and those of the explorer, and the numbers put in. For
each environment whose model is known there is the *budget explorer* of `conrl.explorer`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from conrl import metrics
from conrl.errors import ConRLError, SpecError
from conrl.experiments.analysis import Study
from conrl.experiments.environments import Environment
from conrl.experiments.loading import load
from conrl.experiments.measures import COMPARED
from conrl.experiments.statistics import CONFIDENCE, LEAST_SEEDS, RESAMPLES
from conrl.explorer.contents import contents as explorer_contents
from conrl.explorer.contents import rounded
from conrl.explorer.pages import FRAME, SCRIPTS, asset, fill
from conrl.io.files import atomic_write
from conrl.problem import ConcaveConvex, Linear
from conrl.wording import counted

PAGE = ("page.js", "curves.js", "comparison.js")
EXACT = 12  # digits of numbers that the page rounds itself: rounded twice, they would not be those of the command line
EVEN, EARLY = 130, 70  # points along a curve: equally far apart, and closer together at the start


def write_report(study: Study | str | Path, out: str | Path | None = None) -> Path:
    """Write the page about a study, or about the runs under a directory; by default DIR/report.html."""
    study = study if isinstance(study, Study) else load(study)
    path = study.directory / "report.html" if out is None else Path(out)
    page = render(contents(study))
    with atomic_write(path, follow=out is not None) as file:
        file.write(page)
    return path


# -- the page ---------------------------------------------------------------------------------------------


def render(data: dict[str, Any]) -> bytes:
    """The page that shows `data`."""
    own = [asset(name, "conrl.experiments") for name in PAGE]
    scripts = {"plotly": _plotly(), "script": "\n".join([asset(FRAME), *own, *map(asset, SCRIPTS)])}
    return fill(asset("report.html", "conrl.experiments"), data, scripts).encode()


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
    rows = study.rows()
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
        "words": _words(study),
        "leastSeeds": LEAST_SEEDS,
        "comparison": _comparison(study),
        "environments": [
            {
                "name": env.name,
                "title": env.title,
                "facts": _facts(env),
                "costs": _costs(env),
                "over": study.over(env.name),
                "best": None if env.optimum is None else rounded(env.optimum.reward, EXACT),
                "curves": _curves(study, env),
                "table": [_row(row) for row in rows if row["environment"] == env.name],
                "explorer": explorer(env),
            }
            for env in study.environments.values()
        ],
    }


def explorer(env: Environment) -> dict[str, Any]:
    """What the explorer of an environment shows; or a note why there is none."""
    if env.mdp is None:
        return {"note": "The model is not known here, so that there is nothing to explore."}
    asked = None if env.optimum is None else env.optimum.problem
    problem = Linear(env.limits) if asked is None or isinstance(asked, ConcaveConvex) else asked
    try:
        return explorer_contents(env.mdp, problem)
    except ConRLError as error:
        return {"note": f"There is nothing to explore: {error}"}


def _words(study: Study) -> dict[str, str]:
    """What the measures mean, with the numbers that they are computed with."""
    return {
        "smoothed": f"mean of the last {metrics.WINDOW} episodes",
        "band": f"Lines are means over seeds; bands and [brackets] are {CONFIDENCE:.0%} bootstrap intervals "
        f"of the mean over seeds. With fewer than {LEAST_SEEDS} seeds there is no interval.",
        "curve": "Reward and cost are the exact expected values of what each episode executed where the model is "
        f"known, else what was seen; smoothed as the mean of the last {metrics.WINDOW} episodes. Of a learner that "
        "shows something else than what it plays (ApproPO: its newest answer), they are of what it shows; violations, "
        "regret and total cost are of what it plays. Curves end where the shortest run of an algorithm ends.",
        "final": f"Reward and cost in the table are means over the last {metrics.LAST:.0%} of these episodes, also of "
        "those that explore: below the number of episodes stands how many they are. ▲ above limit: the lower end of "
        "the cost's interval is above the limit; ▼ below floor: its upper end is below the floor.",
        "violations": "Violations: the share of episodes at which the smoothed cost is above its limit by more than "
        f"{metrics.OVER:.0%} of it (or below its floor), as a mean over seeds.",
        "solved": "Solved after: the median over seeds of the first episode from which the smoothed reward stays "
        f"within {metrics.NEAR:.0%} of the constrained optimum and every smoothed cost within {metrics.OVER:.0%} above "
        "its limit (or below its floor), to the end of the run. (Of an optimum or limit of 0: of the most that one "
        "step can pay.)",
        "regret": "Regret: the sum over these episodes of how far the expected reward was below the constrained "
        "optimum, as a mean over seeds. Good episodes make up for bad ones: it is negative where limits were broken "
        "for more reward. Safe: the same against the best policy that keeps every limit with a margin of "
        f"{metrics.MARGIN:.0%} of it; none where no policy does.",
        "single": "Each policy by itself: exact values of what the episodes played, where they are known; nothing is "
        "smoothed, and good episodes do not make up for bad ones. All are means over seeds.",
        "strong": "Strong violation and strong regret: the same sums of what each episode was above its limit (or "
        "below its floor) and below the optimum; good episodes do not make up for bad ones.",
        "iterates": "Last iterate: what the last of these episodes played that was not planned to explore; below it, "
        "how far it falls short of the optimum and exceeds its limit. Average policy: one of all policies that were "
        "played, drawn anew for each episode.",
        "violating": "Violating episodes: the share of episodes whose own expected cost is above its limit (or below "
        f"its floor) by more than {metrics.TOLERANCE:g} of it.",
        "slope": "Slope of excess: that of the logarithm of the mean excess against the logarithm of the episode, over "
        "the last decade of the run, as a median over seeds; -0.5 if the excess falls as 1 / √episode. −∞: there is "
        "no excess at the end.",
        "total": "Total cost: realised, summed over these episodes; over: the sum of how far the expected cost was "
        "above the limit (or below the floor), negative where it stayed inside. Means over seeds.",
        "compared": f"Over {study.over(*study.environments)}. Interquartile means: of the runs, without the lowest "
        "and the highest quarter. Every number is a share, so that environments can be put together, and each weighs "
        f"the same. Score: reward over the last {metrics.LAST:.0%} of the episodes, as a share of the constrained "
        "optimum; above 1, limits were broken. Excess: how far the cost there is above its limit, as a share of it. "
        "Distance: the larger of what is short of the optimum and over a limit; 0 is optimal within the limits. Strong "
        "regret and strong violation: means over the episodes of how far each was short and over. Of several costs, "
        "the worst.",
        "intervals": f"[Brackets] are {CONFIDENCE:.0%} percentile intervals of the stratified bootstrap over seeds "
        f"({RESAMPLES:,} resamples), each by itself. There is none if an environment has fewer than {LEAST_SEEDS} "
        "seeds, or if no resample differs. With fewer than ten seeds they are too narrow.",
        "pairs": "Difference: first minus second, over the seeds that both have; runs of one seed draw the same random "
        "numbers for what happens. Probability: that a run of the first is better than one of the second, a tie "
        "counting half; the mean over environments.",
        "profile": "The share of runs above each number on the axis or, where lower is better, at most that number: "
        "a higher curve is better. Bands are pointwise intervals.",
    }


def _comparison(study: Study) -> dict[str, Any]:
    """Algorithms compared by each measure that is known of any, in all environments together and in each."""
    tables = {measure: table for measure in COMPARED.values() if (table := study.scores(measure.name))}
    names = [name for name in study.environments if any(name in table for table in tables.values())]
    rows, pairs = study.aggregates(), study.comparisons()
    titles = {name: study.environments[name].title for name in names}
    return {
        "measures": [measure._asdict() for measure in tables],
        "leftOut": {measure.name: list(study.left_out(measure.name)) for measure in tables},
        "unknown": {m.name: [titles[name] for name in names if name not in table] for m, table in tables.items()},
        "scopes": [
            {
                "title": "All environments" if scope is None else titles[scope],
                "aggregates": [_shares(row._asdict()) for row in rows if row.environment == scope],
                "pairs": [_shares(row._asdict()) for row in pairs if row.environment == scope],
                "profiles": {
                    m.name: _profiles(study, m.name, scope)
                    for m, table in tables.items()
                    if scope is None or scope in table
                },
            }
            for scope in ([None, *names] if len(names) > 1 else names)
        ],
    }


def _shares(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value if isinstance(value, str) else rounded(value, EXACT) for key, value in row.items()}


def _profiles(study: Study, measure: str, environment: str | None) -> dict[str, Any]:
    """The profiles of one measure, which share their axis."""
    found = study.profiles(measure, environment)
    return {
        "x": [rounded(x, 5) for x in found[0].x.tolist()] if found else [],
        "lines": [
            {"algorithm": one.algorithm}
            | {key: [rounded(y, 4) for y in vars(one)[key].tolist()] for key in ("share", "low", "high")}
            for one in found
        ],
    }


def _facts(env: Environment) -> str:
    mdp, best = env.mdp, env.optimum
    if mdp is None:
        return "The model is not known here: no optimum to compare with, and no budget to explore."
    size = f"{counted(mdp.num_states, 'state')}, {counted(mdp.num_actions, 'action')}, "
    size += f"{counted(int(mdp.horizon), 'step')} an episode."
    if best is None:
        return f"{size} {env.unknown[:1].upper()}{env.unknown[1:]}."
    used = ", ".join(f"{name} {cost:.4g}" for name, cost in zip(mdp.cost_names, best.costs, strict=True))
    return f"{size} Best policy within the limits: reward {best.reward:.5g}" + (f" ({used})." if used else ".")


def _costs(env: Environment) -> list[dict[str, Any]]:
    used = [None] * len(env.cost_names) if env.optimum is None else env.optimum.costs.tolist()
    return [
        {
            "name": name,
            "limit": rounded(limit, EXACT),
            "floor": rounded(floor, EXACT),
            "best": rounded(cost, EXACT),
        }
        for name, limit, floor, cost in zip(env.cost_names, env.limits, env.floors, used, strict=True)
    ]


def _curves(study: Study, env: Environment) -> list[dict[str, Any]]:
    """Points for a linear and for a logarithmic axis, put together."""
    even_ones = study.curves(env.name, EVEN)
    # Curves that are short have a point for every episode already.
    short = all(curve.x[-1] <= EVEN for curve in even_ones)
    both = zip(even_ones, even_ones if short else study.curves(env.name, EARLY, log=True), strict=True)
    curves = []
    for even, early in both:
        x, at = np.unique(np.concatenate((even.x, early.x)), return_index=True)
        curve: dict[str, Any] = {"algorithm": even.algorithm, "measure": even.measure, "cost": even.cost}
        curve |= {"seeds": even.seeds, "x": x.astype(int).tolist()}
        lines = {"mean": (even.mean, early.mean), "low": (even.low, early.low), "high": (even.high, early.high)}
        for name, parts in lines.items():
            curve[name] = [rounded(y, 5) for y in np.concatenate(parts)[at].tolist()]
        curves.append(curve)
    return curves


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """In JSON there is no infinity: an excess that came to an end is said by a word."""
    ended = {"excess_slope": "-inf"} if row["excess_slope"] == -np.inf else {}
    return {key: value if isinstance(value, str) else rounded(value, EXACT) for key, value in row.items()} | ended

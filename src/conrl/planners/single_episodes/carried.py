"""Tracked models for others: what a frontier and a page explore, where single episodes are limited.

Limits on single episodes are then limits on expected costs, so that whoever varies limits has nothing else to know.
Never is in the model itself, and a CVaR is kept at one quantile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from conrl._types import Int
from conrl.errors import SpecError
from conrl.model import ConstrainedMDP
from conrl.model.bracket import bracketed
from conrl.model.limits import resolve_limits
from conrl.model.tails import Tail
from conrl.planners.column_generation.planner import ColumnGeneration
from conrl.planners.feasibility import SLACK_TOLERANCE
from conrl.planners.single_episodes.conflicts import best_box, check_start
from conrl.planners.single_episodes.search import Asked, Ranges, Search
from conrl.problem import Linear


class Carried(NamedTuple):
    """A model that carries what was spent, in which limits on single episodes are limits on expected costs.

    Its costs are those of the model, of single steps, one for each chance, and one for each CVaR: the mean excess above
    its quantile t, which is the best one for the problem as it is and stays.
    """

    model: ConstrainedMDP
    linear: Linear  # limits and floors on its costs
    state: Int  # [n]: the state that each of its states stands for
    chances: tuple[Tail, ...]
    offsets: tuple[float, ...]  # of each chance: what its total begins with
    quantiles: tuple[float, ...]  # t of each CVaR


def carried(mdp: ConstrainedMDP, problem: Linear, who: str) -> Carried:
    """The model and the linear problem that stand for limits on single episodes; `who` needs exact totals."""
    return _carried(mdp, problem, problem.tails(mdp), who)


def limited(mdp: ConstrainedMDP, problem: Linear, chance: Tail | None, cost: int) -> tuple[ConstrainedMDP, int]:
    """The tracked model with all limits as its own, and which of its costs is varied: `cost`, or that of `chance`."""
    if problem.cvar is not None:
        raise SpecError("a frontier has no CVaR limits: against a CVaR the best reward is not concave; leave cvar out")
    tails = problem.tails(mdp)
    if chance is not None:
        tails = (*(t for t in tails if t[:3] != chance[:3]), chance)
    found = _carried(mdp, problem, tails, "a frontier")
    model = found.model
    limits = resolve_limits(found.linear.limits, model.cost_names, "limits")
    if chance is None:
        return model.replace(limits=limits), cost
    if found.offsets[-1]:
        raise SpecError(f"chance: an episode begins above {chance.limit:.10g}; give a threshold of at least 0")
    varied = mdp.num_costs + len(found.offsets) - 1
    limits[varied] = np.inf
    return model.replace(limits=limits), varied


def _carried(mdp: ConstrainedMDP, problem: Linear, tails: tuple[Tail, ...], who: str) -> Carried:
    """`carried`, of the limits on single episodes that are given."""
    model, rows = replace(problem, never=None, chance=None, cvar=None, grid=None).bind(mdp)
    tracked, down = bracketed(model, tails, problem.grids(mdp))
    if down is not None:
        raise SpecError(
            f"{who} needs totals that can be counted exactly, and these need a grid; round the costs of the model"
        )
    search = Search(Asked(ColumnGeneration().plan, mdp, model, problem, rows, tails, SLACK_TOLERANCE), tracked)
    check_start(search)
    ranges: Ranges = ()
    if search.cvars:
        ranges = tuple((k, k) for k in best_box(search, None).box.best)
    columns, linear = search.linear(ranges)
    return Carried(
        search.part.model(columns),
        linear,
        tracked.state,
        tuple(search.chances),
        tuple(crossing.offset for crossing in search.crossings),
        tuple(float(o[k] * unit) for o, (k, _), unit in zip(search.candidates, ranges, search.units, strict=True)),
    )

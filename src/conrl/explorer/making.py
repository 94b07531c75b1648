"""`conrl.explore`: the page with a slider for every limit, of a model, a plan, a frontier or a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from conrl.errors import SpecError, shown
from conrl.explorer.contents import contents, slider_names
from conrl.explorer.pages import FRAME, SCRIPTS, asset, fill
from conrl.io.files import atomic_write, file_path
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.fleet import Fleet
from conrl.model.limits import Limits
from conrl.planners import FleetPlan, Frontier, Plan
from conrl.planners.basis import seen_steps
from conrl.problem import Linear, Problem, as_problem
from conrl.wording import counted, started

TITLE = "Budget explorer"


@dataclass(frozen=True, eq=False)
class Page:
    """A page as text, complete in itself; `sliders` are the names of the costs whose limits it moves.

    `error` is the most by which the best reward may be above the one shown, at the limits that were tried for it.
    """

    html: str = field(repr=False)
    sliders: tuple[str, ...]
    error: float

    def save(self, path: str | Path) -> None:
        """Write the page, whole or not at all."""
        with atomic_write(file_path(path)) as file:
            file.write(self.html.encode())


def explore(
    model: ConstrainedMDP | Fleet | Plan | FleetPlan | Frontier,
    problem: Problem | Limits | None = None,
    *,
    limits: Limits | Linear | None = None,
    title: str | None = None,
    types: Sequence[str] | None = None,
) -> Page:
    """A page in which every limit of a model has a slider: the best policy, its prices, the frontier and the tails.

    Args:
        model: a model or a fleet; or a plan or a frontier, whose model and limits are taken.
        problem: what is asked, as `conrl.plan` takes it: limits, a `Linear` or a `Knapsack`. The page opens there; by
            default at the model's own limits or, if none of them binds, at one that does.
        limits: the limits, instead of `problem`.
        title: of the page.
        types: what the types of a fleet are called.

    Raises:
        InfeasibleError: no policy keeps the limits.
        SpecError: the model is too large for a page, or has no costs.
    """
    if title is not None and not isinstance(title, str):
        raise SpecError(f"title is {shown(title)}; it must be a text", key=("title",))
    notes: list[str] = []
    given = problem is not None or limits is not None
    if isinstance(model, Plan | FleetPlan | Frontier):
        if given:
            raise SpecError(
                f"a {type(model).__name__} has limits of its own; explore its model to give others", key=("problem",)
            )
        model, asked, notes = _taken(model)
        given = True
    elif isinstance(model, ConstrainedMDP | Fleet):
        own = Linear(model.limits, model.floors) if isinstance(model, Fleet) else Linear(model.limits)
        asked = as_problem(problem, limits=limits) if given else own
    else:
        raise SpecError(
            f"model is {shown(model)}; explore takes a model, a fleet, a plan or a frontier", key=("model",)
        )
    if types is not None and (
        not isinstance(model, Fleet)
        or not isinstance(types, list | tuple)
        or len(types) != model.num_types
        or not all(isinstance(name, str) for name in types)
    ):
        raise SpecError(f"types is {shown(types)}; it must have a name for each type of a fleet", key=("types",))
    data = contents(model, asked, choose=not given, types=types)
    data["facts"] = [_size(model), *notes, *data["facts"]]
    scripts = {"script": "\n".join(map(asset, (FRAME, *SCRIPTS, "single.js")))}
    page = fill(asset("explorer.html"), {"title": title or TITLE, "explorer": data}, scripts)
    return Page(page, tuple(slider_names(data)), float(data["error"]))


def to_html(given: Plan | FleetPlan | Frontier, path: str | Path | None) -> str:
    """The page of a result as text; saved too, if there is a path, which is looked at before the work begins."""
    target = None if path is None else file_path(path)
    page = explore(given)
    if target is not None:
        page.save(target)
    return page.html


def _taken(given: Plan | FleetPlan | Frontier) -> tuple[ConstrainedMDP | Fleet, Problem, list[str]]:
    """The model and the problem of a result, and what the page must say about it."""
    if isinstance(given, FleetPlan):
        return given.fleet, Linear(given.limits, given.floors), []
    if isinstance(given, Frontier):
        middle = float(given.limits[0] + 0.5 * (given.limits[-1] - given.limits[0]))
        if given.asked is not None:
            raise SpecError(
                "the frontier's model carries what was spent; use conrl.explore(mdp, frontier.linear(limit))"
            )
        return given.mdp, given.linear(middle), []
    if given.confidence is not None:
        raise SpecError("a plan with confidence is not the best of its model; explore the model itself")
    notes = []
    if given.deterministic or given.status not in ("optimal", "inaccurate", "iteration limit"):
        kind = "one deterministic policy" if given.deterministic else given.status
        notes.append(
            f"The page shows the best mixtures. The plan that it was made from is {kind} and earns {given.reward:.6g}."
        )
    return given.mdp, given.problem, notes


def _size(model: ConstrainedMDP | Fleet) -> str:
    if isinstance(model, Fleet):
        kinds = counted(model.num_types, "type")
        basis = f" {seen_steps(model)}." if seen_steps(model) else ""
        return f"{counted(model.num_units, 'unit')} of {kinds}, {counted(model.horizon, 'step')}.{basis}"
    episode = model.horizon if isinstance(model.horizon, Criterion) else f"{counted(model.horizon, 'step')} an episode"
    basis = ""
    if model._visits is not None:
        basis = f" Estimated from {counted(int(np.sum(model._visits)), 'logged step')}: what this page calls best and "
        basis += "exact is so in the estimate, and not surely in the world."
    sizes = f"{counted(model.num_states, 'state')}, {counted(model.num_actions, 'action')}, {episode}"
    return f"{sizes}, {started(model.start_name)}.{basis}"

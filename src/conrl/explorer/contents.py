"""All that the explorer of one model or fleet shows, as JSON: columns, cuts and walls, places, totals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from conrl.explorer.places import MOST_STEPS, Places
from conrl.explorer.subject import FIXED, Subject, subject_of
from conrl.explorer.surface import Column, Surface
from conrl.explorer.survey import survey
from conrl.explorer.totals import episode_totals
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Average, Discounted
from conrl.model.fleet import Fleet
from conrl.planners.basis import FEW_VISITS, known_by
from conrl.problem import Problem

MOST_COLUMNS = 600
MOST_TYPES = 300  # of a fleet that are listed
MOST_NUMBERS = 200_000  # of a fleet's table: columns x types x costs
DIGITS = 12  # significant digits of values


def contents(
    model: ConstrainedMDP | Fleet, problem: Problem, choose: bool = False, types: Sequence[str] | None = None
) -> dict[str, Any]:
    """What the page holds. `choose`: it may open at other limits where none of those asked for binds.

    `types` are the names of the types of a fleet.
    """
    subject = subject_of(model, problem)
    if subject.fleet is not None:
        return _of_fleet(subject, choose, types)
    places = Places(subject) if (subject.steps or 1) <= MOST_STEPS else None
    surface = survey(subject, MOST_COLUMNS if places is None else places.most_columns(MOST_COLUMNS), choose)
    shown = _common(subject, surface)
    assert subject.user is not None
    shown |= {
        "steps": subject.steps,
        **_words(subject.user.horizon),
        "actions": list(subject.user.action_names),
        "totals": episode_totals(subject, surface.columns),
    }
    if subject.user._visits is not None:
        shown["basis"] = _basis(subject, surface.columns)
    if places is None:
        shown["facts"].append(f"Episodes of more than {MOST_STEPS:,} steps are not shown step by step.")
    else:
        shown["places"] = places.visits(surface.columns) | places.description()
    return shown


def _basis(subject: Subject, columns: list[Column]) -> dict[str, Any]:
    """What each column rests on in an estimated model (`conrl.planners.basis`): steps that the page can mix."""
    model, user = subject.model, subject.user
    assert model is not None
    assert user is not None
    assert user._visits is not None
    assert model._visits is not None
    known = user._log is not None and subject.state[model.pair_state] == user._log.end  # what follows an end
    found = []
    for column in columns:
        used = np.zeros((1, model.num_pairs))
        if not column.skip:
            column.policy.add_occupation(model, 1.0, used)
        found.append([rounded(x) for x in known_by(model._visits, np.where(known, 0.0, used[0]))])
    return {"steps": int(user._visits.sum()), "seldom": FEW_VISITS, "columns": found}


def _words(horizon: Any) -> dict[str, str]:
    """What is limited, and what a visit is."""
    if isinstance(horizon, Average):
        return {"amount": "Mean of a step", "counts": "Share of time"}
    if isinstance(horizon, Discounted):
        return {"amount": "Expected discounted total", "counts": "Discounted visits"}
    return {"amount": "Expected total", "counts": "Expected visits"}


def _common(subject: Subject, surface: Surface) -> dict[str, Any]:
    """Rows and bounds of a model or of a fleet."""
    G = subject.rows.matrix(subject.oracle.num_costs)
    values = np.array([column.value for column in surface.columns])
    facts = list(subject.facts)
    if not np.array_equal(surface.own, surface.opening):
        why = "None of the limits binds" if np.isfinite(surface.own).any() else "There are no limits"
        facts.append(f"{why}, so the page opens at one that binds.")
    return {
        "lines": [
            {
                "name": line.name,
                "kind": line.kind,
                "sign": int(line.sign),
                "low": rounded(float(surface.low[r]), DIGITS),
                "high": rounded(float(surface.high[r]), DIGITS),
                "own": rounded(float(surface.own[r]), DIGITS),
                "opening": rounded(float(surface.opening[r]), DIGITS),
                "held": line.held,
                "begins": line.begins,
            }
            for r, line in enumerate(subject.lines)
        ],
        "rewards": [rounded(x, DIGITS + 1) for x in values[:, 0].tolist()],
        "uses": [[rounded(x, DIGITS + 1) for x in row] for row in (values @ G.T).tolist()],
        "best": rounded(surface.best, DIGITS + 1),
        "least_loss": rounded(surface.least_loss),
        "cuts": _distinct(surface.cuts),
        "walls": _distinct(surface.walls),
        "error": rounded(surface.error, 2),
        "facts": facts,
    }


def _distinct(rows: list[Any]) -> list[list[float | int | None]]:
    """In the order of their coming, none twice."""
    return [list(row) for row in dict.fromkeys(tuple(rounded(x, DIGITS + 1) for x in row.tolist()) for row in rows)]


def _of_fleet(subject: Subject, choose: bool, types: Sequence[str] | None) -> dict[str, Any]:
    """A fleet has no policy of its own; of each type the page holds what it earns and costs under every column."""
    fleet = subject.fleet
    assert fleet is not None
    width = 1 + fleet.num_costs
    listed = min(fleet.num_types, MOST_TYPES)
    surface = survey(subject, max(min(MOST_COLUMNS, MOST_NUMBERS // (listed * width)), 24), choose)
    shown = _common(subject, surface) | {"steps": None, "actions": [], "totals": []} | _words(fleet.horizon)
    units = np.bincount(fleet.member_type, fleet.counts, minlength=fleet.num_types)
    largest = np.argsort(-units, kind="stable")[:listed]
    names = list(types) if types is not None else [f"type {i}" for i in range(fleet.num_types)]
    if listed < fleet.num_types:
        shown["facts"].append(f"Of {fleet.num_types:,} types, the {listed} with most units are listed.")
    shown["types"] = {
        "names": [names[i] for i in largest],
        "units": [int(units[i]) for i in largest],
        "costs": list(fleet.cost_names),
        "values": [_by_type(fleet, column)[largest].tolist() for column in surface.columns],
    }
    shown["facts"].append(
        "A fleet has a policy for each unit: see plan.policy(unit). All but a few units play one deterministic policy."
    )
    return shown


def _by_type(fleet: Fleet, column: Column) -> Any:
    """[types, 1+d]: what all units of a type earn and cost together."""
    oracle: Any = column.oracle
    points = oracle.points_apart(column.direction[None])[0][:, : 1 + fleet.num_costs]
    table = np.zeros((fleet.num_types, 1 + fleet.num_costs))
    np.add.at(table, fleet.member_type, fleet.counts[:, None] * points)
    return np.array([[float(f"{x:.8g}") for x in row] for row in table])


def slider_names(data: dict[str, Any]) -> list[str]:
    """The names of the costs that have sliders."""
    return [line["name"] for line in data["lines"] if line["kind"] != FIXED]


def rounded(x: Any, digits: int = 6) -> float | int | None:
    """To so many significant digits, for JSON; None for what is missing or infinite."""
    if x is None or not math.isfinite(x):
        return None
    if isinstance(x, int):
        return x
    return float(f"{x:.{digits}g}")

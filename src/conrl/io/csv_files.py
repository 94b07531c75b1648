"""Models as tables, `.csv`, `.tsv` and `.xlsx`; the format is described in `conrl.io`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conrl.arguments import frozen
from conrl.errors import ModelError
from conrl.io.cells import csv_writer, to_cell
from conrl.io.files import about, atomic_write
from conrl.io.mistakes import Mistakes
from conrl.io.model_checks import (
    Pairs,
    added_up,
    alike,
    blank_edges,
    by_pair,
    check_reached,
    check_sums,
    first_lines,
    normalized,
)
from conrl.io.model_columns import COLUMNS, EXPECTED, STEP, is_known, read_columns
from conrl.io.model_rows import Names, TableRows, read_rows
from conrl.io.sheets import COST, open_sheet
from conrl.model import ConstrainedMDP
from conrl.model.reading import MAX_ACTIONS, start_index


class Loaded(NamedTuple):
    """What was found in a file: a model, unless there are mistakes."""

    mdp: ConstrainedMDP | None
    mistakes: Mistakes
    warnings: list[str]  # what is no mistake, but looks like one


def load_table(path: Path, given: dict[str, Any], sheet: str | None, normalize: float | None) -> Loaded:
    """The model in a file; `given` are arguments of the model's that a table does not hold.

    A `ModelError` is about what keeps anything from being read, or about `given`.
    """
    table = open_sheet(path, is_known, sheet)
    mistakes = Mistakes(table.label)
    line, header = next(table.rows(), (0, None))
    if header is None:
        raise ModelError(f"{table.label} is empty; expected a header {EXPECTED}")
    columns = read_columns(header, line, mistakes)
    complete = not mistakes  # a column that is left out may be what tells rows apart
    found = None if columns is None else read_rows(table, columns, mistakes, given.get("horizon"))
    if found is None:
        return Loaded(None, mistakes, [])
    names, rows, steps = found
    if len(names.actions) > MAX_ACTIONS:
        raise ModelError(f"{table.label}: {len(names.actions)} actions; at most {MAX_ACTIONS} are supported")
    pairs = by_pair(rows, len(names.states), len(names.actions))
    warnings = []
    if normalize is not None:
        twice = np.zeros(pairs.total.size, dtype=bool)
        twice[pairs.member[pairs.repeats[0]]] = True  # the second may be there by mistake
        p, told = normalized(rows.probability, pairs.member, pairs.total, normalize, twice & (pairs.total > 1.0))
        if told:
            warnings.append(f"{table.label}: {told}")
            rows = rows._replace(probability=p)
            pairs = pairs._replace(total=np.bincount(pairs.member, weights=p).astype(np.float64))
    check_sums(rows, pairs, names, mistakes, complete)
    if steps is not None:
        with about(table.label):
            check_reached(rows, names, steps, given.get("initial"), mistakes)
    if mistakes:
        return Loaded(None, mistakes, [])
    warnings += [f"{table.label}: {told}" for told in _doubts(rows, pairs, names)]
    if steps is None and "horizon" not in given:
        raise ModelError(f"{table.label}: a table holds no horizon; give one", key=("horizon",))
    return Loaded(_model(table.label, names, rows, steps and steps.horizon, given), mistakes, warnings)


def _doubts(rows: TableRows, pairs: Pairs, names: Names) -> Iterator[str]:
    """What looks like a mistake and is none."""
    here = first_lines(len(names.states), (rows.state, rows.line), (rows.successor, rows.line))
    acts = first_lines(len(names.actions), (rows.action, rows.line))
    yield from chain(
        alike("state", names.states, here),
        alike("action", names.actions, acts),
        alike("cost", names.costs),
        blank_edges(names.costs),
        added_up(rows, pairs, names),
    )


def _model(label: str, names: Names, rows: TableRows, horizon: int | None, given: dict[str, Any]) -> ConstrainedMDP:
    if horizon is not None:
        given = given | {"horizon": horizon, "step": rows.step}
    with about(label):
        if "initial" in given:
            given = given | {"initial": start_index(given["initial"], names.states, len(names.states))}
        mdp = ConstrainedMDP.from_outcomes(
            *(rows.state, rows.action, rows.successor, rows.probability, rows.pay),
            num_states=len(names.states),
            num_actions=len(names.actions),
            state_names=names.states,
            action_names=names.actions,
            cost_names=names.costs,
            **given,
        )
    return per_pair(mdp)


def per_pair(mdp: ConstrainedMDP) -> ConstrainedMDP:
    """Where every outcome of a pair pays the same, that is its mean, without the rounding of a sum."""
    paid = mdp.outcome_pay
    if paid is None:
        return mdp
    pay = frozen(np.where(mdp.varies, mdp.pay, paid[mdp.graph.start[:-1]]))
    return mdp._copy(pay=pay, outcome_pay=paid if mdp.varies.any() else None)


def table_of(path: Path, mdp: ConstrainedMDP) -> tuple[list[str], Iterable[tuple[Any, ...]]]:
    """The header, and one row per outcome; rewards and costs per pair are repeated for each outcome of the pair.

    Of a step-dependent model only what can be reached is there.
    """
    if mdp.bonus is not None:
        raise ModelError(f"{path}: a table cannot keep the model's bonus; save it as .npz")
    if "" in (*mdp.state_names, *mdp.action_names):
        raise ModelError(f"{path}: a state or an action has an empty name, which a table cannot keep; save it as .npz")
    if "" in mdp.cost_names:
        raise ModelError(f"{path}: a cost has an empty name, which a table cannot keep; save it as .npz")
    graph = mdp.graph
    counts = np.diff(graph.start)
    states, actions = [[to_cell(name) for name in names] for names in (mdp.state_names, mdp.action_names)]
    pay = mdp.pay_by_outcome
    pair = np.repeat(np.arange(mdp.num_pairs), counts)
    kept: Any = slice(None)
    if mdp.step_dependent:
        kept = np.flatnonzero(mdp.reached[mdp.pair_step, mdp.pair_state][pair])
        pair = pair[kept]
    columns = (
        *([mdp.pair_step[pair].tolist()] if mdp.step_dependent else []),
        map(states.__getitem__, mdp.pair_state[pair].tolist()),
        map(actions.__getitem__, mdp.action[pair].tolist()),
        map(states.__getitem__, graph.successor[kept].tolist()),
        graph.probability[kept].tolist(),
        *pay[kept].T.tolist(),
    )
    step = [STEP] if mdp.step_dependent else []
    return [*step, *COLUMNS, *(f"{COST}{name}" for name in mdp.cost_names)], zip(*columns, strict=True)


def save_csv(path: Path, mdp: ConstrainedMDP) -> None:
    """The table as text, in columns that are separated by commas; in a `.tsv` file, by tabs."""
    header, rows = table_of(path, mdp)
    returns = any("\r" in name for name in (*mdp.state_names, *mdp.action_names, *mdp.cost_names))
    with atomic_write(path) as handle:
        text = io.TextIOWrapper(handle, encoding="utf-8", newline="")
        writer = csv_writer(text, returns, "\t" if path.suffix.lower() == ".tsv" else ",")
        try:
            writer.writerow(header)
            writer.writerows(rows)
            text.flush()
        finally:
            text.detach()

"""Policies as plain values, for JSON: what each of a mixture does, in lists that any language reads.

    steps[h][i]     what is done at step h in state i: the number of an action, or a lottery
                    [[action, probability], ...]. A policy that does the same at every step has one step.

A policy that acts on what was spent has `spent` beside it, and i is then one of its combinations of state and amounts:

    spent.counts         for each cost that is counted: its number, its unit (a fraction, as text), its cap in units
                         (or null), and how a step's cost is rounded to units: "exact", "up" or "down"
    spent.combinations   [[state, units of each counted cost], ...]
    spent.otherwise      the action in a state of which there is no combination: otherwise[h][state], or one row for
                         all steps
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from conrl._types import Float, Int
from conrl.arguments import is_int, is_number
from conrl.errors import ModelError, shown, unknown
from conrl.model.counting import DOWN, EXACT, UP, Counter
from conrl.policy import Deterministic, Null, Policy
from conrl.sizes import MAX_TABLE, most
from conrl.spending import SpentPolicy
from conrl.stationary_policy import Stationary

ROUNDING = {"exact": EXACT, "up": UP, "down": DOWN}
PART = ("weight", "steps", "spent")
SPENT = ("counts", "combinations", "otherwise")
COUNT = ("cost", "unit", "cap", "rounding")


def plain(policy: Policy) -> dict[str, Any]:
    """A policy as lists and numbers."""
    if isinstance(policy, Null):
        raise ModelError("the null policy plays nothing; a plan that skips episodes says so in its file")
    if isinstance(policy, SpentPolicy):
        return {"steps": _rows(policy.inner), "spent": _spent(policy)}
    return {"steps": _rows(policy)}


def _rows(policy: Policy) -> list[list[Any]]:
    """What is done at each step in each state."""
    actions = getattr(policy, "actions", None)
    if actions is not None:
        rows: list[list[Any]] = np.atleast_2d(actions).tolist()
        return rows
    rows = policy.mode.reshape(policy.shape[:2]).tolist()
    for h in range(policy.shape[0]):
        table = policy.step_probabilities(h)
        for i in np.flatnonzero((table > 0.0).sum(axis=1) > 1).tolist():
            rows[h][i] = [[a, float(table[i, a])] for a in np.flatnonzero(table[i]).tolist()]
    return rows


def _spent(policy: SpentPolicy) -> dict[str, Any]:
    counter, word = policy.counter, {value: name for name, value in ROUNDING.items()}
    columns = (counter.costs, counter.units, counter.caps, counter.rounding)
    return {
        "counts": [
            {"cost": cost, "unit": str(unit), "cap": cap, "rounding": word[rounding]}
            for cost, unit, cap, rounding in zip(*columns, strict=True)
        ],
        "combinations": [[s, *total] for s, total in zip(policy.state.tolist(), policy.spent, strict=True)],
        "otherwise": policy.first_actions.tolist(),
    }


def read_plain(
    given: Any, num_states: int, num_actions: int, stationary: bool, costs: Sequence[str], where: str
) -> Policy:
    """The policy that `plain` made values of; what makes no sense is refused with its place, `where` and on."""
    if not isinstance(given, dict):
        raise ModelError(f"{where} is {shown(given)}; expected an object with steps")
    check_entries(given, PART, where)
    if given.get("spent") is None:
        return _read_rows(given.get("steps"), num_states, num_actions, stationary, f"{where}.steps")
    if stationary:
        raise ModelError(f"{where} acts on what was spent, and has no horizon")
    return _read_spent(given, num_states, num_actions, costs, where)


def check_entries(given: dict[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse an entry that means nothing: what it was to say would be lost."""
    odd = next((name for name in given if name not in known), None)
    if odd is not None:
        raise ModelError(unknown(f"entry of {where}", odd, known))


def _read_rows(given: Any, size: int, num_actions: int, stationary: bool, where: str) -> Policy:
    """A policy over `size` states or combinations."""
    if not isinstance(given, list) or not given or (stationary and len(given) != 1):
        what = "one list, for all steps" if stationary else "a list for each step"
        raise ModelError(f"{where} is {shown(given)}; expected {what}")
    for h, row in enumerate(given):
        if not isinstance(row, list) or len(row) != size:
            raise ModelError(f"{where}[{h}] is {shown(row)}; expected a list of {size} entries")
    H, certain = len(given), all(type(x) is int for row in given for x in row)
    if H * size * (1 if certain else num_actions) > (bound := most("CONRL_MAX_TABLE", MAX_TABLE)):
        raise ModelError(f"{where} has {H} x {size} entries, of {num_actions} actions; at most {bound:,} are read")
    if certain:
        for h, row in enumerate(given):
            for i, x in enumerate(row):
                _index(x, num_actions, f"{where}[{h}][{i}]")
        actions = np.array(given)
        return Stationary.of_actions(actions[0], num_actions) if stationary else Deterministic(actions, num_actions)
    table = np.zeros((H, size, num_actions))
    for h, row in enumerate(given):
        for i, choice in enumerate(row):
            _fill(table[h, i], choice, f"{where}[{h}][{i}]")
    return Stationary(table[0]) if stationary else Policy(table)


def _fill(row: Float, choice: Any, where: str) -> None:
    """Put an action, or a lottery over actions, into a row [A] of zeros."""
    if not isinstance(choice, list):
        row[_index(choice, row.size, where)] = 1.0
        return
    seen: set[int] = set()
    for entry in choice:
        if not isinstance(entry, list) or len(entry) != 2 or not (is_number(entry[1]) and 0.0 <= entry[1] <= 1.0):
            raise ModelError(f"{where} has {shown(entry)}; a lottery is a list of [action, probability]")
        action = _index(entry[0], row.size, where)
        if action in seen:
            raise ModelError(f"{where} has action {action} twice")
        seen.add(action)
        row[action] = entry[1]
    if not abs(row.sum() - 1.0) <= 1e-9:
        raise ModelError(f"{where} has probabilities that sum to {row.sum():.12g}, not to 1")


def _index(x: Any, size: int, where: str) -> int:
    if not is_int(x) or not 0 <= x < size:
        raise ModelError(f"{where} is {shown(x)}; expected a whole number of 0..{size - 1}")
    return int(x)


def _read_spent(given: dict[str, Any], S: int, A: int, costs: Sequence[str], where: str) -> SpentPolicy:
    """A policy that acts on what was spent."""
    spent, where = given["spent"], f"{where}.spent"
    if not isinstance(spent, dict) or not all(isinstance(x, list) and x for x in map(spent.get, SPENT)):
        raise ModelError(f"{where} is {shown(spent)}; it has lists {', '.join(SPENT)}")
    check_entries(spent, SPENT, where)
    counter = _read_counter(spent["counts"], costs, f"{where}.counts")
    m, rows = len(counter.costs), spent["combinations"]
    for i, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != 1 + m or not all(type(x) is int for x in row):
            raise ModelError(f"{where}.combinations[{i}] is {shown(row)}; expected a state and {m} whole numbers")
        _index(row[0], S, f"{where}.combinations[{i}][0]")
    if len({tuple(row) for row in rows}) != len(rows):
        raise ModelError(f"{where}.combinations has one twice")
    inner = _read_rows(given.get("steps"), len(rows), A, False, f"{where.removesuffix('.spent')}.steps")
    first = spent["otherwise"]
    if len(first) not in (1, inner.shape[0]) or not all(isinstance(row, list) and len(row) == S for row in first):
        raise ModelError(f"{where}.otherwise has a shape that does not fit")
    actions: Int = np.array([[_index(x, A, f"{where}.otherwise") for x in row] for row in first])
    return SpentPolicy(counter, np.array([row[0] for row in rows]), [tuple(row[1:]) for row in rows], inner, actions)


def _read_counter(given: list[Any], costs: Sequence[str], where: str) -> Counter:
    """How the policy counts what was spent."""
    entries: list[tuple[int, Fraction, int | None, int]] = []
    for i, entry in enumerate(given):
        here = f"{where}[{i}]"
        if not isinstance(entry, dict):
            raise ModelError(f"{here} is {shown(entry)}; expected cost, unit, cap and rounding")
        check_entries(entry, COUNT, here)
        cost, cap, unit = _index(entry.get("cost"), len(costs), f"{here}.cost"), entry.get("cap"), entry.get("unit")
        if cap is not None and not is_int(cap):
            raise ModelError(f"{here}.cap is {shown(cap)}; expected a whole number or null")
        if not isinstance(entry.get("rounding"), str) or entry["rounding"] not in ROUNDING:
            raise ModelError(f"{here}.rounding is {shown(entry.get('rounding'))}; it is one of {', '.join(ROUNDING)}")
        entries.append((cost, _fraction(unit, f"{here}.unit"), cap, ROUNDING[entry["rounding"]]))
    if len({entry[0] for entry in entries}) != len(entries):
        raise ModelError(f"{where} counts a cost twice")
    numbers, units, caps, rounding = zip(*entries, strict=True)
    return Counter(numbers, tuple(costs[i] for i in numbers), units, caps, rounding)


def _fraction(text: Any, where: str) -> Fraction:
    """A positive rational, as `1/10`."""
    try:
        value = Fraction(text) if isinstance(text, str) and len(text) < 1000 else Fraction(0)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise ModelError(f"{where} is {shown(text)}; expected a fraction above 0, as '1/10'")
    return value

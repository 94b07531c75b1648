"""Policies as plain values, for JSON: what each of a mixture does, in lists that any language reads.

    steps[h][i]     what is done at step h in state i: the number of an action, or a lottery
                    [[action, probability], ...]. A policy that does the same at every step has one step. null: the
                    model says that nobody is there, and nothing was planned
    otherwise[h][i] where that is null: the action that is best there at the prices of the plan, or null too; and null
                    where it is not. Missing or null: nothing is said of any of them

A policy that acts on what was spent has `spent` beside it, no `otherwise`, and i is then one of its combinations of
state and amounts:

    spent.counts         for each cost that is counted: its number, its unit (a fraction, as text), its cap in units
                         (or null), and how a step's cost is rounded to units: "exact", "up" or "down"
    spent.combinations   [[state, units of each counted cost], ...]
    spent.otherwise      null, or the action in a state of which there is no combination: otherwise[h][state], or one
                         row for all steps. Where it is not null, `steps` has no null
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from conrl._types import Bool, Float, Int
from conrl.arguments import is_int, is_number
from conrl.errors import ModelError, shown, unknown
from conrl.model.counting import DOWN, EXACT, UP, Counter
from conrl.policy import NOTHING, PLANNED, STAND_IN, Deterministic, Null, Policy
from conrl.sizes import MAX_TABLE, most
from conrl.spending import SpentPolicy, put_actions
from conrl.stationary_policy import Stationary

ROUNDING = {"exact": EXACT, "up": UP, "down": DOWN}
PART = ("weight", "steps", "otherwise", "spent")
SPENT = ("counts", "combinations", "otherwise")
COUNT = ("cost", "unit", "cap", "rounding")


def plain(policy: Policy, marks: Int | None = None) -> dict[str, Any]:
    """A policy as lists and numbers; `marks` [H, S] says where it was planned, as in `conrl.unplanned`."""
    if isinstance(policy, Null):
        raise ModelError("the null policy plays nothing; a plan that skips episodes says so in its file")
    if isinstance(policy, SpentPolicy):
        silent = None if policy.reached is None else ~policy.reached
        return {"steps": _silenced(_rows(policy.inner), silent), "spent": _spent(policy)}
    if marks is None or not marks.any():
        return {"steps": _rows(policy)}
    given = {"steps": _silenced(_rows(policy), marks != PLANNED)}
    if (marks == STAND_IN).any():
        given["otherwise"] = _silenced(np.atleast_2d(policy.mode).tolist(), marks != STAND_IN)
    return given


def _silenced(rows: list[list[Any]], where: Bool | None) -> list[list[Any]]:
    """The rows with null `where` [H, n]."""
    for h, i in () if where is None else np.argwhere(where).tolist():
        rows[h][i] = None
    return rows


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
    columns = (counter.costs, counter.written_units, counter.caps, counter.rounding)
    return {
        "counts": [
            {"cost": cost, "unit": unit, "cap": cap, "rounding": word[rounding]}
            for cost, unit, cap, rounding in zip(*columns, strict=True)
        ],
        "combinations": [[s, *total] for s, total in zip(policy.state.tolist(), policy.spent, strict=True)],
        "otherwise": policy.first_actions.tolist() if policy.reached is None else None,
    }


def read_plain(
    given: Any, num_states: int, num_actions: int, stationary: bool, costs: Sequence[str], where: str
) -> tuple[Policy, Int | None]:
    """The policy that `plain` made values of, and its marks; what makes no sense is refused with its place, `where` and
    on."""
    if not isinstance(given, dict):
        raise ModelError(f"{where} is {shown(given)}; expected an object with steps")
    check_entries(given, PART, where)
    if given.get("spent") is None:
        return _read_marked(given, num_states, num_actions, stationary, where)
    if stationary:
        raise ModelError(f"{where} acts on what was spent, and has no horizon")
    if given.get("otherwise") is not None:
        raise ModelError(f"{where} acts on what was spent, and has otherwise; that belongs into {where}.spent")
    return _read_spent(given, num_states, num_actions, costs, where), None


def _read_marked(
    given: dict[str, Any], size: int, num_actions: int, stationary: bool, where: str
) -> tuple[Policy, Any]:
    """A policy with what stands in where nothing was planned; there, where nothing stands in, the first action."""
    steps, otherwise = given.get("steps"), given.get("otherwise")
    policy, silent = _read_rows(steps, size, num_actions, stationary, f"{where}.steps", True)
    if silent is None:
        if otherwise is not None and any(x is not None for row in _table(otherwise, f"{where}.otherwise") for x in row):
            raise ModelError(f"{where}.otherwise has an action, and {where}.steps is null nowhere")
        return policy, None
    if otherwise is None:
        return policy, np.where(silent, NOTHING, PLANNED)
    rows = _table(otherwise, f"{where}.otherwise")
    if len(rows) != silent.shape[0] or any(len(row) != size for row in rows):
        raise ModelError(f"{where}.otherwise has a shape that does not fit")
    actions = np.full(silent.shape, -1, dtype=np.int64)
    for h, row in enumerate(rows):
        for i, x in enumerate(row):
            if x is not None:
                actions[h, i] = _index(x, num_actions, f"{where}.otherwise[{h}][{i}]")
    both = np.argwhere((actions >= 0) & ~silent)
    if both.size:
        h, i = both[0].tolist()
        raise ModelError(f"{where}.otherwise[{h}][{i}] is an action, and {where}.steps[{h}][{i}] is not null")
    marks = np.where(silent, np.where(actions >= 0, STAND_IN, NOTHING), PLANNED)
    return put_actions(policy, marks == STAND_IN, actions), marks


def _table(given: Any, where: str) -> list[list[Any]]:
    if not isinstance(given, list) or not all(isinstance(row, list) for row in given):
        raise ModelError(f"{where} is {shown(given)}; expected a list for each step, or null")
    return given


def check_entries(given: dict[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse an entry that means nothing: what it was to say would be lost."""
    odd = next((name for name in given if name not in known), None)
    if odd is not None:
        raise ModelError(unknown(f"entry of {where}", odd, known))


def _read_rows(
    given: Any, size: int, num_actions: int, stationary: bool, where: str, nulls: bool
) -> tuple[Policy, Bool | None]:
    """A policy over `size` states or combinations, and where it is null [H, size], if anywhere; there it has the first
    action."""
    if not isinstance(given, list) or not given or (stationary and len(given) != 1):
        what = "one list, for all steps" if stationary else "a list for each step"
        raise ModelError(f"{where} is {shown(given)}; expected {what}")
    for h, row in enumerate(given):
        if not isinstance(row, list) or len(row) != size:
            raise ModelError(f"{where}[{h}] is {shown(row)}; expected a list of {size} entries")
    silent = None
    if nulls and any(x is None for row in given for x in row):
        silent = np.array([[x is None for x in row] for row in given])
        given = [[0 if x is None else x for x in row] for row in given]
    H, certain = len(given), all(type(x) is int for row in given for x in row)
    if H * size * (1 if certain else num_actions) > (bound := most("CONRL_MAX_TABLE", MAX_TABLE)):
        raise ModelError(f"{where} has {H} x {size} entries, of {num_actions} actions; at most {bound:,} are read")
    if certain:
        for h, row in enumerate(given):
            for i, x in enumerate(row):
                _index(x, num_actions, f"{where}[{h}][{i}]")
        actions = np.array(given)
        whole = Stationary.of_actions(actions[0], num_actions) if stationary else Deterministic(actions, num_actions)
        return whole, silent
    table = np.zeros((H, size, num_actions))
    for h, row in enumerate(given):
        for i, choice in enumerate(row):
            _fill(table[h, i], choice, f"{where}[{h}][{i}]")
    return (Stationary(table[0]) if stationary else Policy(table)), silent


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
    lists = SPENT if isinstance(spent, dict) and spent.get("otherwise") is not None else SPENT[:2]
    if not isinstance(spent, dict) or not all(isinstance(x, list) and x for x in map(spent.get, lists)):
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
    first, steps = spent.get("otherwise"), f"{where.removesuffix('.spent')}.steps"
    inner, silent = _read_rows(given.get("steps"), len(rows), A, False, steps, first is None)
    combinations = np.array([row[0] for row in rows]), [tuple(row[1:]) for row in rows]
    if first is None:
        reached = np.ones(inner.shape[:2], dtype=bool) if silent is None else ~silent
        return SpentPolicy(counter, *combinations, inner, np.zeros((1, S), dtype=np.int64), None, reached)
    if len(first) not in (1, inner.shape[0]) or not all(isinstance(row, list) and len(row) == S for row in first):
        raise ModelError(f"{where}.otherwise has a shape that does not fit")
    actions: Int = np.array([[_index(x, A, f"{where}.otherwise") for x in row] for row in first])
    return SpentPolicy(counter, *combinations, inner, actions)


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
        value = Fraction(text) if isinstance(text, str) else Fraction(0)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise ModelError(f"{where} is {shown(text)}; expected a fraction above 0, as '1/10'")
    return value

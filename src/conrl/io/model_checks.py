"""What the rows of a model's table must keep together: probabilities that sum to 1, no duplicates, names that differ.

Letters: n rows, k pairs of a state and an action (with steps: of a step too); T[k] the sum of a pair's probabilities.

Two rows are duplicates if they have the same state, action and next_state (and step). Where T > 1 that is the mistake,
and it is said so. Where T = 1 the only reading that makes a distribution is that the two add up; if they also pay the
same, one row would do, and a warning names both: perhaps a next_state was not changed after copying.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Bool, Float, Int
from conrl.arguments import is_number
from conrl.errors import ModelError, nearest, shown
from conrl.io.mistakes import WHOLE, Mistakes
from conrl.io.model_rows import ABSORBING, MISSING, NAMED, Names, Steps, TableRows
from conrl.looks import difference, look
from conrl.model.reading import ROW_SUM_TOLERANCE, start_index
from conrl.wording import argument, counted

ROUNDING = (0.01, 0.05)  # sums that are so near to 1 may be rounded: --normalize is proposed
ALIKE = 5  # pairs of names that are named


class Pairs(NamedTuple):
    """Rows by pair."""

    member: Int  # [n]: the pair of each row
    first: Int  # [k]: its first row
    rows: Int  # [k]: how many rows it has
    total: Float  # [k]: T
    sound: Bool  # [k]: whether all of its rows are
    repeats: tuple[Int, Int]  # rows with the state, action and next_state of an earlier row: that row, and they


def by_pair(rows: TableRows, num_states: int, num_actions: int) -> Pairs:
    """The pairs that the rows are about."""
    key = rows.state * num_actions + rows.action
    if rows.step is not None:
        key = key + rows.step * (num_states * num_actions)
    _, first, of, count = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    total = np.bincount(of, weights=rows.probability).astype(np.float64)
    sound = np.bincount(of, weights=~rows.sound) == 0.0
    return Pairs(of, first, count, total, sound, _repeats(of, rows))


def _repeats(of: Int, rows: TableRows) -> tuple[Int, Int]:
    order = np.lexsort((np.arange(of.size), rows.successor, of))
    same = (np.diff(of[order]) == 0) & (np.diff(rows.successor[order]) == 0)
    same &= (rows.probability[order][1:] > 0.0) & (rows.probability[order][:-1] > 0.0)
    return order[:-1][same], order[1:][same]


def read_normalize(normalize: object) -> float | None:
    """How far from 1 a sum may be that is corrected."""
    if normalize is None:
        return None
    if not is_number(normalize) or not 0.0 < float(normalize) < 1.0:  # type: ignore[arg-type]
        raise ModelError(
            f"normalize is {shown(normalize)}; it must be a number between 0 and 1, such as 0.01: "
            "sums of probabilities that are so near to 1 are corrected",
            key=("normalize",),
        )
    return float(normalize)  # type: ignore[arg-type]


def normalized(probability: Float, of: Int, total: Float, within: float, but: Bool | None = None) -> tuple[Float, str]:
    """The probabilities divided by the sum of their pair, where that is within `within` of 1; and what was done.

    Sums that are 1 up to rounding stay as they are, bit by bit; so do pairs in `but` [k].
    """
    off = np.abs(total - 1.0)
    # What is written with decimals is not exact in binary: 1.01 is within 0.01.
    chosen = (off > ROW_SUM_TOLERANCE) & (off <= within * (1.0 + 1e-9))
    if but is not None:
        chosen &= ~but
    if not chosen.any():
        return probability, ""
    worst = total[chosen][np.argmax(off[chosen])]
    count = int(chosen.sum())
    sums = "1 sum of probabilities was" if count == 1 else f"{count} sums of probabilities were"
    told = f"{sums} corrected to 1 ({argument('normalize', f'{within:g}')}); the one farthest off was {worst:.12g}"
    return probability / np.where(chosen, total, 1.0)[of], told


def check_sums(rows: TableRows, pairs: Pairs, names: Names, mistakes: Mistakes, complete: bool = True) -> None:
    """That each pair's probabilities add up to 1; the model checks it again, and does not know the lines.

    Unless the columns are `complete`, sums above 1 say nothing: the rows may be of different steps.
    """
    wrong = np.flatnonzero((np.abs(pairs.total - 1.0) > ROW_SUM_TOLERANCE) & pairs.sound)
    if not wrong.size:
        return
    twice: dict[int, tuple[int, int]] = {}  # the first duplicates of each pair
    for one, two in zip(*(column.tolist() for column in pairs.repeats), strict=True):
        twice.setdefault(int(pairs.member[one]), (one, two))
    seen: set[tuple[int, str]] = set()  # rows for many steps are wrong in the same way at each of them
    for k in wrong[np.argsort(pairs.first[wrong], kind="stable")].tolist():
        row, total = int(pairs.first[k]), float(pairs.total[k])
        pair = f"state {names.states[rows.state[row]]!r}, action {names.actions[rows.action[row]]!r}"
        line = int(rows.line[row])
        what = f"have probabilities that sum to {total:.12g}" if pairs.rows[k] > 1 else f"has probability {total:.12g}"
        if (line, pair + what) in seen:
            continue
        seen.add((line, pair + what))
        then = "" if rows.step is None else f"step {rows.step[row]}, "
        lines = counted(int(pairs.rows[k]), "row")
        if total > 1.0 and not complete:
            continue
        if total > 1.0 and k in twice:
            one, two = twice[k]
            line = int(rows.line[two])
            mistakes.add(line, f"{_duplicates(rows, names, one, two)}; delete one (the {lines} of {then}{pair} {what})")
        else:
            told = f"the {lines} of {then}{pair} {what}; a distribution sums to 1 (within {ROW_SUM_TOLERANCE:g})"
            percent = abs(total - 100.0) <= 1.0
            mistakes.add(line, told + _remedy(total), "percent" if percent else None)


def check_reached(rows: TableRows, names: Names, steps: Steps, initial: Any, mistakes: Mistakes) -> None:
    """That each state has an action at every step at which it can be reached; the model does not know the lines.

    What a row with a mistake says counts as an action, and leads nowhere.
    """
    assert rows.step is not None
    S = len(names.states)
    start = start_index(0 if initial is None else initial, names.states, S)
    reached = np.zeros(S, dtype=bool)
    try:  # the model says what is wrong with it
        reached[np.flatnonzero(np.asarray(start, dtype=np.float64)) if np.ndim(start) else start] = True
    except (TypeError, ValueError, IndexError):
        return
    acts = np.zeros(S, dtype=bool)
    acts[rows.state] = True
    order = np.argsort(rows.step, kind="stable")
    ends = np.searchsorted(rows.step[order], np.arange(steps.horizon + 1))
    told, by = np.zeros(S, dtype=bool), np.full(S, -1)  # by which row each state was reached
    for h in range(steps.horizon):
        at = order[ends[h] : ends[h + 1]]
        here = np.zeros(S, dtype=bool)
        here[rows.state[at]] = True
        missing = np.flatnonzero(reached & ~here & ~told).tolist()
        if missing and h > steps.last:
            beyond = f"the file has steps {steps.first} to {steps.last}, and a horizon of {steps.horizon} goes beyond"
            raise ModelError(f"{beyond} what its rows say: leave it out, or add rows", key=("horizon",))
        for s in missing:
            told[s] = True
            line = WHOLE if by[s] < 0 else int(rows.line[by[s]])
            mistakes.add(line, _stuck(names.states, s, h, acts, steps))
        leads = at[rows.sound[at] & reached[rows.state[at]] & (rows.probability[at] > 0.0)]
        by[rows.successor[leads[::-1]]] = leads[::-1]
        reached = np.zeros(S, dtype=bool)
        reached[rows.successor[leads]] = True


def _stuck(states: Sequence[str], s: int, h: int, acts: Bool, steps: Steps) -> str:
    """What to say of a state that has no action at step h, and can be reached."""
    name = states[s]
    if not acts[s]:
        known = [state for state, acting in zip(states, acts.tolist(), strict=True) if acting]
        near = nearest(name, known, 0.8) if len(known) <= NAMED else None
        hint = "" if near is None else f" (or did you mean {near!r}?)"
        where = f"state {name!r} occurs only as next_state, and can be reached at step {h}"
        return f"{where}: {MISSING}{hint}{ABSORBING}"
    if h == 0:
        hint = f"; steps count from 0, and those of the file are {steps.first} to {steps.last}" * (steps.first > 0)
        return f"state {name!r}, in which episodes start, has no action at step 0; give it one{hint}"
    near = next((state for state in states if state != name and look(state) == look(name)), None)
    hint = "" if near is None else f" (or did you mean {near!r}?)"
    where = f"state {name!r} can be reached at step {h}, by this row, and has no action then"
    return f"{where}: its rows for that step are missing; add them{hint}"


def _remedy(total: float) -> str:
    off = abs(total - 1.0)
    if abs(total - 100.0) <= 1.0:
        return "; write percentages with their sign, 70%, or as 0.7"
    for within in ROUNDING:
        if off <= within * (1.0 + 1e-9):
            return f"; if they were rounded, {argument('normalize', f'{within:g}')} corrects them"
    return ""


def _duplicates(rows: TableRows, names: Names, one: int, two: int) -> str:
    return (
        f"lines {rows.line[one]} and {rows.line[two]} are duplicates: both have state "
        f"{names.states[rows.state[two]]!r}, action {names.actions[rows.action[two]]!r} and next_state "
        f"{names.states[rows.successor[two]]!r}"
    )


def added_up(rows: TableRows, pairs: Pairs, names: Names) -> Iterator[str]:
    """A warning for rows that pay the same as well, and add up."""
    one, two = pairs.repeats
    same = (rows.pay[one] == rows.pay[two]).all(axis=1) if one.size else np.zeros(0, dtype=bool)
    count = 0
    seen: set[tuple[int, int]] = set()
    for i, j in zip(one[same].tolist(), two[same].tolist(), strict=True):
        lines = (int(rows.line[i]), int(rows.line[j]))
        if lines in seen:
            continue
        seen.add(lines)
        count += 1
        if count <= ALIKE:
            yield f"{_duplicates(rows, names, i, j)}, and pay the same; their probabilities were added up"
    if count > ALIKE:
        yield f"{count - ALIKE} more rows are duplicates of others; their probabilities were added up"


def alike(kind: str, names: Sequence[str], lines: Sequence[int] | None = None, place: str = "line") -> Iterator[str]:
    """A warning for each name that looks like an earlier one; `lines` are those where they are first."""
    first: dict[str, int] = {}
    count = 0
    for i, name in enumerate(names):
        j = first.setdefault(look(name), i)
        if j != i:
            count += 1
            if count <= ALIKE:
                one, two = (f"{names[m]!r}" + ("" if lines is None else f" ({place} {lines[m]})") for m in (j, i))
                yield f"{kind}s {one} and {two} differ only in {difference(names[j], name)}; they are two {kind}s"
    if count > ALIKE:
        yield f"{count - ALIKE} more {kind}s look like others"


def first_lines(count: int, *columns: tuple[Int, Int]) -> list[int]:
    """The first line of each of `count` names; columns are codes and the lines they are on."""
    first = np.full(count, np.iinfo(np.int64).max)
    for code, line in columns:
        np.minimum.at(first, code, line)
    return [int(x) for x in first]


def blank_edges(names: Iterable[str]) -> Iterator[str]:
    """A warning for costs whose name begins or ends with a blank: whoever names them must write it."""
    for name in names:
        if name != name.strip():
            yield f"the name of cost {name!r} begins or ends with a blank; column 'cost_{name.strip()}' would have none"

"""Models as `.csv`; the format is described in `conrl.io`."""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from conrl._types import Array, Float, Int
from conrl.arguments import LARGEST, frozen
from conrl.errors import ModelError, shown, unknown
from conrl.io.cells import csv_writer, from_cell, to_cell
from conrl.io.files import about, atomic_write
from conrl.model import ConstrainedMDP
from conrl.model.reading import MAX_ACTIONS, ROW_SUM_TOLERANCE, read_horizon, start_index
from conrl.sizes import MAX_TABLE, check_costs, most

CHUNK = 2_000  # rows of a CSV file that are held as text at a time

_COLUMNS = ("state", "action", "next_state", "probability", "reward")
_STEP = "step"  # the column that a file may have
EVERY = "*"  # in it


class _Codes(dict[str, int]):
    """Numbers names by first appearance; the keys are cells, which may write one name in two ways."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}  # of each name

    def __missing__(self, cell: str) -> int:
        self[cell] = code = self.number.setdefault(from_cell(cell), len(self.number))
        return code

    def of(self, cells: Sequence[str]) -> Int:
        return np.fromiter(map(self.__getitem__, cells), np.int64, len(cells))


class _Outcomes(NamedTuple):
    """The rows of a CSV file, one entry a row."""

    state: Int
    action: Int
    successor: Int
    probability: Float
    pay: Float  # [n, 1+d]


class _Steps(NamedTuple):
    """Where a file has a column `step`: the rows once more, one for each step that a row is for."""

    row: Int  # [m]: of the file
    step: Int  # [m]
    horizon: int


def load_csv(path: Path, given: dict[str, Any]) -> ConstrainedMDP:
    """The model in a file; `given` are arguments of the model's that a CSV file does not hold."""
    check_text(path)
    states, actions = _Codes(), _Codes()
    cost_names, rows, steps = _read_csv(path, states, actions, given.get("horizon"))
    names, labels = list(states.number), list(actions.number)
    if len(labels) > MAX_ACTIONS:
        raise ModelError(f"{path}: {len(labels)} actions; at most {MAX_ACTIONS} are supported")
    if steps is not None:
        listed: Any = [column[steps.row] for column in rows]
        rows = _Outcomes(*listed)
        given = given | {"horizon": steps.horizon, "step": steps.step}
    elif "horizon" not in given:
        raise ModelError(f"{path}: a CSV file holds no horizon; give one", key=("horizon",))
    _check_sums(path, rows, steps, names, labels)
    with about(path):
        if "initial" in given:
            given = given | {"initial": start_index(given["initial"], names, len(names))}
        mdp = ConstrainedMDP.from_outcomes(
            *rows,
            num_states=len(names),
            num_actions=len(labels),
            state_names=names,
            action_names=labels,
            cost_names=cost_names,
            **given,
        )
    return per_pair(mdp)


def check_text(path: Path, remedy: str = "save the file as CSV UTF-8") -> None:
    """Refuse what is not UTF-8 text before anything makes sense of it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with path.open("rb") as stream:
        if stream.read(4) == b"PK\x03\x04":
            _stop(path, 1, "this is an Excel workbook or another zip archive; export it as CSV")
        stream.seek(0)
        while block := stream.read(2**20):
            if b"\0" in block:
                _stop(path, line + block[: block.index(b"\0")].count(b"\n"), f"a NUL byte; {remedy}")
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                # `error.object` starts with the few bytes kept from the block before; none of them is a newline.
                line += bytes(error.object[: error.start]).count(b"\n")
                _stop(path, line, f"byte 0x{error.object[error.start]:02x} is not UTF-8; {remedy}")
            line += block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        _stop(path, line, "the file ends within a UTF-8 character")


def _read_csv(path: Path, states: _Codes, actions: _Codes, horizon: Any) -> tuple[list[str], _Outcomes, _Steps | None]:
    """The names of the costs, all rows, and their steps; states and actions are numbered on the way."""
    next_states, when = _Codes(), _Codes()
    parts: list[list[Array]] = []
    seen = 0
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        lines = filter(None, reader)  # blank lines are empty rows
        try:
            header = next(lines, None)
            if header is None:
                raise ModelError(f"{path} is empty; expected a header {','.join(_COLUMNS)},cost_<name>...")
            cost_names, order = _read_header(path, header, reader.line_num)
            while chunk := list(islice(lines, CHUNK)):
                parts.append(_read_chunk(path, header, order, chunk, seen, (states, actions, next_states, when)))
                seen += len(chunk)
        except csv.Error as error:
            _stop(path, line_of(path), f"{error} in the row that starts here")
    if not seen:
        raise ModelError(f"{path} has a header and no rows")
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    state, action, successor = columns[:3]
    steps = _read_steps(path, when, columns.pop(3), horizon) if _STEP in header else None
    probability, *pay = columns[3:]
    for name, code in next_states.number.items():
        if name not in states.number:
            if steps is not None:  # it may be reached after the last step only; the model looks
                states.number[name] = len(states.number)
                continue
            row = int(np.flatnonzero(successor == code)[0])
            _stop(path, line_of(path, row), _dead_end(name, states.number))
    index = np.array([states.number[name] for name in next_states.number], dtype=np.int64)
    return cost_names, _Outcomes(state, action, index[successor], probability, np.stack(pay, axis=1)), steps


def _read_steps(path: Path, when: _Codes, code: Int, horizon: Any) -> _Steps | None:
    """What the column says, `code` [n] of the texts `when`; None where every row is for all steps."""
    ranges = {}
    for text, number in when.number.items():
        ranges[number] = bounds = _steps_in(text)
        if bounds is None and text.strip() != EVERY:
            row = int(np.flatnonzero(code == number)[0])
            hint = "; Excel may have read a range as a date: format the column as text" if "-" in text else ""
            _stop(path, line_of(path, row), f"step is {shown(text)}; write a step as 3, several as 0-5, all as *{hint}")
    known = [bounds for bounds in ranges.values() if bounds is not None]
    if not known:
        return None
    with about(path):
        H = read_horizon(max(last for _, last in known) + 1 if horizon is None else horizon)
    for number, bounds in ranges.items():
        if bounds is not None and bounds[1] >= H:
            row = int(np.flatnonzero(code == number)[0])
            _stop(path, line_of(path, row), f"step {bounds[1]}; with a horizon of {H} steps are 0 to {H - 1}")
    ends = np.array([ranges[number] or (0, H - 1) for number in range(len(ranges))])[code]  # [n, 2]
    times = ends[:, 1] - ends[:, 0] + 1
    if times.sum() > (bound := most("CONRL_MAX_TABLE", MAX_TABLE)):
        raise ModelError(
            f"{path}: its rows stand for {times.sum():,} outcomes in all steps; at most {bound:,} are read"
        )
    source: Int = np.repeat(np.arange(code.size), times)
    step: Int = np.arange(source.size) - np.repeat(np.cumsum(times) - times - ends[:, 0], times)
    return _Steps(source, step, H)


def _steps_in(text: str) -> tuple[int, int] | None:
    """The first and the last step of `3` or `0-5`; None of anything else."""
    parts = [part.strip() for part in text.split("-")]
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        return None
    first, last = int(parts[0]), int(parts[-1])
    return (first, last) if first <= last else None


def _dead_end(name: str, states: Mapping[str, int]) -> str:
    near = difflib.get_close_matches(name, states, n=1, cutoff=0.8) if len(states) <= 1000 else []
    hint = f" (or did you mean {near[0]!r}?)" if near else ""
    return f"state {name!r} occurs only as next_state; add a row that stays there with probability 1{hint}"


def _read_header(path: Path, header: list[str], line: int) -> tuple[list[str], list[int]]:
    """The names of the costs, and where the columns are: texts (the step too, if there is one), numbers, costs."""
    seen: set[str] = set()
    for name in header:
        if name not in (*_COLUMNS, _STEP) and not name.startswith("cost_"):
            apart = next((c for c in ";\t" if c in name), None)
            hint = f" (columns are separated by commas, not by {apart!r})" if apart and len(header) == 1 else ""
            _stop(path, line, f"{unknown('column', name, _COLUMNS)} A cost is called cost_<name>{hint}")
        if name in seen:
            _stop(path, line, f"column {name!r} occurs twice")
        seen.add(name)
        if name == "cost_":
            _stop(path, line, "column 'cost_' has no name; call it cost_<name>")
    for name in _COLUMNS:
        if name not in seen:
            _stop(path, line, f"no column {name!r}; expected {','.join(_COLUMNS)},cost_<name>...")
    costs = [i for i, name in enumerate(header) if name.startswith("cost_")]
    with about(path):
        check_costs(len(costs))
    named = (*_COLUMNS[:3], *([_STEP] if _STEP in seen else []), *_COLUMNS[3:])
    return [header[i].removeprefix("cost_") for i in costs], [*map(header.index, named), *costs]


def _read_chunk(
    path: Path, header: list[str], order: list[int], chunk: list[list[str]], seen: int, codes: tuple[_Codes, ...]
) -> list[Array]:
    """The columns of some rows in the order of `_Outcomes`: codes for texts, then numbers."""
    if set(map(len, chunk)) != {len(header)}:
        bad = next(i for i, row in enumerate(chunk) if len(row) != len(header))
        fields = f"{len(chunk[bad])} field{'s' * (len(chunk[bad]) != 1)}"
        _stop(path, line_of(path, seen + bad), f"{fields}; the header has {len(header)}")
    columns = list(zip(*chunk, strict=True))
    count = 4 if _STEP in header else 3
    texts = [code.of(columns[at]) for code, at in zip(codes, order[:count], strict=False)]
    numbers: list[Array] = []
    for at in order[count:]:
        low, need = (0.0, "finite and at least 0") if at == order[count] else (-LARGEST, "finite")
        values = _numbers(columns[at])
        # A comparison with NaN is false, so this finds it as well.
        bad_rows = np.flatnonzero(~((values >= low) & (values <= LARGEST)))
        if bad_rows.size:
            row = int(bad_rows[0])
            text = columns[at][row]
            what = need if _parsed(text) is not None else "a number"
            if need == "finite" and math.isfinite(values[row]):
                what = f"at most {LARGEST:g} in size"
            _stop(path, line_of(path, seen + row), f"{header[at]} is {shown(text)}; it must be {what}")
        numbers.append(values)
    return texts + numbers


def _numbers(texts: Sequence[str]) -> Float:
    """Parsed all at once if possible; NaN where a text is not a number."""
    try:
        values = np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        values = None
    if values is None or "_" in "".join(texts):
        values = np.array([math.nan if (x := _parsed(text)) is None else x for text in texts])
    return values


def _parsed(text: str) -> float | None:
    """Python also reads 1_000 as a number; a file that holds that holds a mistake."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _check_sums(path: Path, rows: _Outcomes, steps: _Steps | None, states: list[str], actions: list[str]) -> None:
    """That each pair's probabilities add up to 1, to name the line; the model checks it again."""
    pair = rows.state * len(actions) + rows.action
    if steps is not None:
        pair += steps.step * len(states) * len(actions)
    _, where, inverse, counts = np.unique(pair, return_index=True, return_inverse=True, return_counts=True)
    total = np.bincount(inverse, weights=rows.probability)
    wrong = np.flatnonzero(np.abs(total - 1.0) > ROW_SUM_TOLERANCE)
    if wrong.size:
        k = wrong[np.argmin(where[wrong])]
        row = int(where[k])
        lines = "1 row" if counts[k] == 1 else f"{counts[k]} rows"
        then = "" if steps is None else f"step {steps.step[row]}, "
        _stop(
            path,
            line_of(path, row if steps is None else int(steps.row[row])),
            f"the {lines} of {then}state {states[rows.state[row]]!r}, action {actions[rows.action[row]]!r} "
            f"have probabilities that sum to {total[k]:.12g}; a distribution sums to 1 (within {ROW_SUM_TOLERANCE:g})",
        )


def per_pair(mdp: ConstrainedMDP) -> ConstrainedMDP:
    """Where every outcome of a pair pays the same, that is its mean, without the rounding of a sum."""
    paid = mdp.outcome_pay
    if paid is None:
        return mdp
    pay = frozen(np.where(mdp.varies, mdp.pay, paid[mdp.graph.start[:-1]]))
    return mdp._copy(pay=pay, outcome_pay=paid if mdp.varies.any() else None)


def line_of(path: Path, row: int | None = None) -> int:
    """The line on which a row starts (the header and blank lines do not count), or the first that cannot be parsed."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        before, at = 0, -1
        with suppress(csv.Error):
            for fields in reader:
                if fields:
                    if at == row:
                        break
                    at += 1
                before = reader.line_num
        return before + 1


def _stop(path: Path, line: int, what: str) -> NoReturn:
    raise ModelError(f"{path}, line {line}: {what}")


def save_csv(path: Path, mdp: ConstrainedMDP) -> None:
    """One row per outcome; rewards and costs per pair are repeated for each outcome of the pair.

    Of a step-dependent model only what can be reached is written.
    """
    if mdp.bonus is not None:
        raise ModelError(f"{path}: a CSV file cannot keep the model's bonus; save it as .npz")
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
    returns = any("\r" in name for name in (*states, *actions, *mdp.cost_names))
    with atomic_write(path) as handle:
        text = io.TextIOWrapper(handle, encoding="utf-8", newline="")
        writer = csv_writer(text, returns)
        try:
            step = [_STEP] if mdp.step_dependent else []
            writer.writerow([*step, *_COLUMNS, *(f"cost_{name}" for name in mdp.cost_names)])
            writer.writerows(zip(*columns, strict=True))
            text.flush()
        finally:
            text.detach()

"""Models as `.npz`; both forms are described in `conrl.io`."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Array, Float, Int
from conrl.arguments import LARGEST, frozen
from conrl.errors import ModelError, shown, unknown
from conrl.io.files import Reader, about, atomic_write, read_npz
from conrl.io.model_checks import normalized
from conrl.model import ConstrainedMDP
from conrl.model.criteria import DISCOUNTED, WORDS, Criterion, Discounted, criterion_of, word_of
from conrl.model.layout import Layout
from conrl.model.mdp import Logged
from conrl.model.reading import MAX_ACTIONS, ROW_SUM_TOLERANCE, start_index

FORMAT = "conrl-model"
VERSION = 1
MEAN_TOLERANCE = 2 * ROW_SUM_TOLERANCE  # how far `pay` may lie from the sum over outcomes: pay times the sum of p
WRONG_SIZES = "num_actions, first, cost_names or pay has a size that makes no model"

_PLAIN = {"transitions", "rewards"}
_PLAIN_OPTIONAL = {"costs", "horizon", "initial", "limits", "available", "state_names", "action_names", "cost_names"}
_OWN = {
    "num_actions",
    "horizon",
    "initial",
    "cost_names",
    "first",
    "action",
    "start",
    "successor",
    "probability",
    "pay",
}
_OWN_OPTIONAL = {
    *("outcome_pay", "bonus", "limits", "ranges", "visits", "log", "log_ranges", "features", "can_stop", "steps"),
    *("state_names", "action_names", "criterion", "discount"),
}
_LAYOUT = {"layout_rows", "layout_cell", "layout_arrows"}


def load_npz(path: Path, given: dict[str, Any], normalize: float | None, warnings: list[str]) -> ConstrainedMDP:
    """The model in a file. Arrays written by hand are normalized if asked; in a file of `save_model` sums are 1."""
    with about(path):
        arrays = read_npz(path, _check)
        if "format" in arrays:
            return _own_model(arrays, given)
        if normalize is not None and (told := _normalize(arrays, normalize)):
            warnings.append(f"{path}: {told}")
        return _plain_model(arrays, given)


def _normalize(arrays: dict[str, Array], within: float) -> str:
    """Divide each row of the transitions by its sum where that is nearly 1; what was done."""
    table = arrays["transitions"]
    if table.dtype.kind != "f" or table.ndim < 3:
        return ""  # there is nothing to correct, or it is refused
    rows = table.astype(np.float64).reshape(-1, table.shape[-1])
    of = np.repeat(np.arange(rows.shape[0]), rows.shape[1])
    p, told = normalized(rows.reshape(-1), of, rows.sum(axis=1), within)
    arrays["transitions"] = p.reshape(table.shape)
    return told


def _check(names: Set[str], read: Reader) -> None:
    """Whether the format is known, and the names are those of a model."""
    own = "format" in names
    if own:
        form = read("format")
        if form.shape != () or form.dtype.kind != "U" or form.item() != FORMAT or "version" not in names:
            raise ModelError(f"its `format` is not that of a model, {FORMAT!r}")
        number = read("version")
        if number.shape != () or number.dtype.kind not in "iu" or number.item() != VERSION:
            raise ModelError(f"its version is {number}; this conrl reads version {VERSION}: use the one that wrote it")
    required = _OWN if own else _PLAIN
    known = required | (_OWN_OPTIONAL | _LAYOUT if own else _PLAIN_OPTIONAL)
    for name in names - {"format", "version"} if own else names:
        if name not in known:
            raise ModelError(unknown("array", name, sorted(known)))
    for name in sorted(required - names):
        raise ModelError(f"no array {name!r}; a model has {', '.join(sorted(required))}")


def _plain_model(arrays: dict[str, Array], given: dict[str, Any]) -> ConstrainedMDP:
    for name in arrays.keys() & {"transitions", "rewards", "costs", "horizon", "limits", "available"}:
        if arrays[name].dtype.kind not in "fiub":
            raise ModelError(f"{name} has dtype {arrays[name].dtype}; expected numbers")
    rest: dict[str, Any] = {name: _names(arrays, name) for name in ("state_names", "action_names", "cost_names")}
    rest["available"] = arrays.get("available")
    rest["limits"] = np.atleast_1d(arrays["limits"]) if "limits" in arrays else None
    for name in ("horizon", "initial"):
        if name in arrays:
            rest[name] = arrays[name].item() if arrays[name].ndim == 0 else arrays[name]
    rest |= given
    transitions = arrays["transitions"]
    if "horizon" not in rest and transitions.ndim != 4:
        raise ModelError("no array 'horizon'; add it, or give one", key=("horizon",))
    num_states = transitions.shape[-1] if transitions.ndim else 0
    if "initial" in rest:
        rest["initial"] = start_index(rest["initial"], rest["state_names"], num_states)
    return ConstrainedMDP(transitions, arrays["rewards"], arrays.get("costs"), **rest)


class _Structure(NamedTuple):
    """Pairs and outcomes, as `conrl.kernels` counts them; checked."""

    num_states: int
    num_actions: int
    steps: int  # 0 where all steps are alike
    step: Int  # [P]
    state: Int  # [P]
    action: Int  # [P]
    start: Int  # [P+1]
    successor: Int  # [N]
    probability: Float  # [N]


def _structure(arrays: dict[str, Array]) -> _Structure:
    """Which pairs there are, and which outcomes each has; neither can be left without the other."""
    first, action = _table(arrays, "first", "iu", (None,)), _table(arrays, "action", "iu", (None,))
    P, nodes = action.size, first.size - 1
    steps = int(_table(arrays, "steps", "iu", ())) if "steps" in arrays else 0
    S = nodes if not 0 < steps <= nodes else nodes // steps
    start = _table(arrays, "start", "iu", (P + 1,))
    probability = _table(arrays, "probability", "f", (None,))
    successor = _table(arrays, "successor", "iu", (probability.size,))
    A = int(_table(arrays, "num_actions", "iu", ()))
    if not 1 <= A <= MAX_ACTIONS or S < 1 or steps < 0 or (steps and S * steps != nodes):
        raise ModelError(WRONG_SIZES)
    _check_rises(first, P, "first", steps > 0)
    _check_rises(start, probability.size, "start")
    node = np.repeat(np.arange(nodes), np.diff(first))
    if not (np.diff(node * A + action) > 0).all() or not ((action >= 0) & (action < A)).all():
        raise ModelError("action is not a rising list of actions for each state")
    if not (probability > 0.0).all():
        raise ModelError("probability has an entry that is not above 0")
    return _Structure(S, A, steps, node // S, node % S, action, start, successor, probability)


def _own_model(arrays: dict[str, Array], given: dict[str, Any]) -> ConstrainedMDP:
    """Through `from_outcomes`, which validates; then the exact means, which it would round anew."""
    own = _structure(arrays)
    pay = _table(arrays, "pay", "f", (own.action.size, None))
    cost_names = _names(arrays, "cost_names") or ()
    if pay.shape[1] != 1 + len(cost_names):
        raise ModelError(WRONG_SIZES)
    paid = _optional(arrays, "outcome_pay", "f", (own.probability.size, pay.shape[1]))
    bonus = _optional(arrays, "bonus", "f", pay.shape)
    if bonus is not None and not ((bonus >= 0.0) & (bonus <= LARGEST)).all():
        raise ModelError("bonus has a negative or non-finite entry")
    visits = _optional(arrays, "visits", "iu", own.action.shape)
    if visits is not None and visits.min() < 0:
        raise ModelError("visits has a negative entry")
    counts = np.diff(own.start)
    mdp = ConstrainedMDP.from_outcomes(
        np.repeat(own.state, counts),
        np.repeat(own.action, counts),
        own.successor,
        own.probability,
        np.repeat(pay, counts, axis=0) if paid is None else paid,
        num_states=own.num_states,
        num_actions=own.num_actions,
        step=np.repeat(own.step, counts) if own.steps else None,
        cost_names=cost_names,
        **_details(arrays, given, own.num_states, len(cost_names)),
    )
    size = np.maximum(1.0, np.abs(mdp.pay))
    if paid is not None:
        size = np.maximum(size, np.maximum.reduceat(np.abs(paid), own.start[:-1], axis=0))
    if not (np.abs(mdp.pay - pay) <= MEAN_TOLERANCE * size).all():
        raise ModelError("pay is not the mean of outcome_pay")
    return mdp._copy(
        pay=frozen(pay),
        outcome_pay=None if paid is None else mdp.outcome_pay,
        bonus=None if bonus is None else frozen(bonus),
        _visits=None if visits is None else frozen(visits),
        _log=_log(arrays, own, visits, given),
    )


def _log(arrays: dict[str, Array], own: _Structure, visits: Int | None, given: dict[str, Any]) -> Logged | None:
    """What is kept of the log of an estimate, if its outcomes are whole numbers of visits."""
    found = _optional(arrays, "log", "iu", (2,))
    if found is None:
        return None
    starts, end = map(int, found)
    if visits is None or not (0 <= starts <= 2**53 and -1 <= end < own.num_states):
        raise ModelError("log does not fit the model")
    counts = np.diff(own.start)
    times = own.probability * np.repeat(visits, counts)
    first = _table(arrays, "initial", "f", (own.num_states,)) * starts
    if visits.sum() > 2**53 or not (np.abs(first - np.rint(first)) <= 1e-6 * np.maximum(first, 1.0)).all():
        raise ModelError("log does not fit the model: its episodes do not begin as the model does")
    idle = np.repeat((visits == 0) | (own.state == end), counts)
    paid = np.repeat(arrays["pay"], counts, axis=0) if "outcome_pay" not in arrays else arrays["outcome_pay"]
    stays = own.successor == np.repeat(own.state, counts)
    if (visits[own.state == end] != 0).any() or not stays[idle].all() or paid[idle].any():
        raise ModelError("log does not fit the model: what was never visited leads somewhere, or pays")
    if not (np.abs(times - np.rint(times)) <= 1e-6 * np.maximum(times, 1.0)).all():
        raise ModelError("visits are not those of the log: the outcomes of a pair are no whole numbers of them")
    ranges = _optional(arrays, "log_ranges", "f", (arrays["pay"].shape[1], 2))
    if ranges is not None:
        seen = np.broadcast_to(paid, (idle.size, paid.shape[1]))[~idle]
        low, high = seen.min(axis=0, initial=np.inf), seen.max(axis=0, initial=-np.inf)
        if not (np.isfinite(ranges).all() and (ranges[:, 0] <= low).all() and (high <= ranges[:, 1]).all()):
            raise ModelError("log_ranges do not fit the model: what was seen lies outside")
        ranges = frozen(ranges)
    return Logged(0 if "initial" in given else starts, end, ranges=ranges)


def _details(arrays: dict[str, Array], given: dict[str, Any], num_states: int, num_costs: int) -> dict[str, Any]:
    """What a model has beside its outcomes, as its constructor takes it; what is given comes first."""
    can_stop = _optional(arrays, "can_stop", "iu", ())
    details: dict[str, Any] = {
        "horizon": _horizon(arrays),
        "initial": _table(arrays, "initial", "f", (num_states,)),
        "limits": _optional(arrays, "limits", "f", (num_costs,)),
        "state_names": _names(arrays, "state_names"),
        "action_names": _names(arrays, "action_names"),
        "features": arrays.get("features"),
        "layout": _layout(arrays, num_states),
        "can_stop": can_stop is not None and bool(can_stop),
    } | given
    ranges = _optional(arrays, "ranges", "f", (1 + num_costs, 2))
    if ranges is not None:  # declared, of one step's reward and costs; nan where they were not
        declared = [None if np.isnan(bounds).all() else bounds for bounds in ranges]
        details |= {"reward_range": declared[0], "cost_ranges": declared[1:]}
    return details | {"initial": start_index(details["initial"], details["state_names"], num_states)}


def _horizon(arrays: dict[str, Array]) -> int | Criterion:
    """The number of steps or, where there is none, the criterion."""
    steps = int(_table(arrays, "horizon", "iu", ()))
    if "criterion" not in arrays:
        return steps
    name = arrays["criterion"].item() if arrays["criterion"].shape == () else None
    if name not in WORDS:
        raise ModelError(f"its criterion is {shown(name)}; it must be one of {', '.join(WORDS)}")
    if name != DISCOUNTED:
        return criterion_of(name)
    if "discount" not in arrays:
        raise ModelError("no array 'discount'; a discounted model has one")
    return criterion_of(name, float(_table(arrays, "discount", "f", ())))


def _check_rises(begin: Int, end: int, what: str, level: bool = False) -> None:
    """Refuse what does not rise from 0 to `end`; `level`: it may also stay where it is."""
    inside = ((begin >= 0) & (begin <= end)).all()  # else the differences could wrap around
    if not inside or begin[0] != 0 or begin[-1] != end or not (np.diff(begin) >= (0 if level else 1)).all():
        raise ModelError(f"{what} does not rise from 0 to {end}")


def _layout(arrays: dict[str, Array], num_states: int) -> Layout | None:
    held = _LAYOUT & arrays.keys()
    if not held:
        return None
    if held != _LAYOUT:
        raise ModelError(f"no array {min(_LAYOUT - held)!r}; a layout has {', '.join(sorted(_LAYOUT))}")
    rows, arrows = _names(arrays, "layout_rows") or (), _names(arrays, "layout_arrows") or ()
    cell = _table(arrays, "layout_cell", "iu", (num_states,))
    _check_cells(cell, rows)
    return Layout(rows, frozen(cell), arrows)


def _check_cells(cell: Array, rows: Sequence[str]) -> None:
    if ((cell < -1) | (cell >= sum(map(len, rows)))).any():
        raise ModelError("layout_cell has an entry that is not a cell of layout_rows")


def _table(arrays: dict[str, Array], name: str, kinds: str, shape: tuple[int | None, ...]) -> Array:
    """The array as 64-bit numbers if it has that kind and shape (None: any size)."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype.kind not in kinds or not fits:
        sizes = ", ".join("any" if n is None else str(n) for n in shape)
        kind = "whole numbers" if "i" in kinds else "decimal numbers"
        raise ModelError(f"{name} has dtype {array.dtype} and shape {array.shape}; expected {kind} of shape ({sizes})")
    return array.astype(np.int64 if "i" in kinds else np.float64)


def _optional(arrays: dict[str, Array], name: str, kinds: str, shape: tuple[int | None, ...]) -> Array | None:
    return _table(arrays, name, kinds, shape) if name in arrays else None


def _names(arrays: dict[str, Array], name: str) -> tuple[str, ...] | None:
    if name not in arrays:
        return None
    array = arrays[name]
    if array.ndim != 1 or array.dtype != object:
        raise ModelError(f"{name} has dtype {array.dtype} and shape {array.shape}; expected a list of texts")
    return tuple(array.tolist())


def _texts(names: Sequence[str] | None) -> Array | None:
    return None if names is None else np.array(names, dtype=np.str_)


def save_npz(path: Path, mdp: ConstrainedMDP) -> None:
    """Every array of the model as it is, so that each bit comes back."""
    graph, layout = mdp.graph, mdp.layout
    if layout is not None:
        with about(path):
            _check_cells(layout.cell, layout.rows)
    criterion = mdp.horizon if isinstance(mdp.horizon, Criterion) else None
    log = mdp._log if mdp._log is not None and mdp._log.outcomes else None
    arrays: dict[str, Any] = {
        "format": np.array(FORMAT),
        "version": np.array(VERSION),
        "num_actions": np.array(mdp.num_actions),
        "horizon": np.array(mdp.horizon if criterion is None else 0, dtype=np.int64),
        "criterion": None if criterion is None else np.array(word_of(criterion)),
        "discount": np.array(criterion.discount) if isinstance(criterion, Discounted) else None,
        "initial": mdp.initial,
        "cost_names": _texts(mdp.cost_names),
        "first": graph.first,
        "action": mdp.action,
        "start": graph.start,
        "successor": graph.successor,
        "probability": graph.probability,
        "pay": mdp.pay,
        "layout_rows": layout and _texts(layout.rows),
        "layout_cell": layout and layout.cell,
        "layout_arrows": layout and _texts(layout.arrows),
        "outcome_pay": mdp.outcome_pay,
        "bonus": mdp.bonus,
        "limits": mdp.limits,
        "ranges": mdp._ranges,
        "features": mdp.features,
        "can_stop": np.array(1) if mdp.can_stop else None,
        "steps": np.array(mdp.horizon) if mdp.step_dependent else None,
        "visits": mdp._visits,
        "log": None if log is None else np.array(log[:2], dtype=np.int64),
        "log_ranges": None if log is None else log.ranges,
        "state_names": _texts(mdp._names.states),
        "action_names": _texts(mdp._names.actions),
    }
    with atomic_write(path) as handle:
        np.savez(handle, allow_pickle=False, **{name: array for name, array in arrays.items() if array is not None})

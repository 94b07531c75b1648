"""Fleets from a file: models by name or file, how many of each, and what they share.

[fleet]
horizon = 20
limits = { money = 30000 }
per_step = { crews = 40 }         # or a list, one for each step; also floors, and normalize = 0.01 for the files

[[unit]]
model = "press.csv"               # beside this file, or a built-in name
count = 25
start = "new"                     # also set = { .. }, for built-in models
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from conrl import io
from conrl.arguments import is_int, is_number
from conrl.envs import naming
from conrl.errors import ConRLError, SpecError, shown, unknown
from conrl.io.files import parse_toml, read_bytes
from conrl.io.mistakes import told_of_others
from conrl.model.fleet import Fleet

LARGEST_FILE = 1 << 20
FLEET = ("horizon", "limits", "floors", "per_step", "normalize")
UNIT = ("model", "count", "start", "set")
SHARED = ("limits", "floors", "per_step")


class FleetFile(NamedTuple):
    """A fleet, and what its models were called."""

    fleet: Fleet
    names: tuple[str, ...]


def is_fleet_file(name: str) -> bool:
    """Whether that is the name of a file of a fleet."""
    return name.lower().endswith(".toml")


class FoundFleet(NamedTuple):
    """What was found in a file: what makes a fleet, unless there are mistakes."""

    groups: list[tuple[Any, int]]
    shared: dict[str, dict[str, Any]]  # limits, floors, per_step
    names: tuple[str, ...]
    mistakes: list[str]


def load_fleet(
    path: str,
    horizon: int | None = None,
    limits: Mapping[str, float] | None = None,
    floors: Mapping[str, float] | None = None,
    per_step: Mapping[str, float] | None = None,
    normalize: float | None = None,
) -> FleetFile:
    """The fleet of a file; a horizon, limits, floors and `normalize` given here replace the file's."""
    found = find_fleet(path, horizon, normalize)
    if found.mistakes:
        raise SpecError(f"{found.mistakes[0]}{told_of_others(len(found.mistakes) - 1, path)}")
    groups, own = found.groups, found.shared
    with _within(path):
        fleet = Fleet(groups, *(own[key] or None for key in SHARED))
    typed = {key: given for key, given in zip(SHARED, (limits, floors, per_step), strict=True) if given}
    if typed:  # by the user: what is wrong with it is not the file's mistake
        own = {key: own[key] | dict(typed.get(key, {})) for key in SHARED}
        fleet = Fleet(groups, *(own[key] or None for key in SHARED))
    return FleetFile(fleet, found.names)


def find_fleet(path: str, horizon: int | None = None, normalize: float | None = None) -> FoundFleet:
    """The units of a file, or its mistakes: all of its tables, and the first of each model."""
    file = Path(path)
    data = read_bytes(file, LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise SpecError(f"{path}: larger than {LARGEST_FILE:,} bytes; this is no fleet")
    try:
        tables = parse_toml(data.decode("utf-8"))
    except ValueError as error:
        raise SpecError(f"{path}: not TOML: {error}") from None
    mistakes = list(_wrong(tables))
    if not _readable(tables):
        return FoundFleet([], {}, (), [f"{path}: {told}" for told in mistakes])
    shared, units = tables.get("fleet", {}), tables["unit"]
    steps = shared.get("horizon") if horizon is None else horizon
    groups = []
    costs: dict[str, None] = {}  # of all models that can be read, whatever their start
    for i, unit in enumerate(units):
        if any(_wrong_unit(unit)):
            continue
        name = unit["model"]
        if io.is_model_file(name):
            name = str(file.parent / name)
        start = unit.get("start")
        within = (shared.get("normalize") if normalize is None else normalize) if io.is_model_file(name) else None
        wanted: Any = (name, steps, None if start is None else str(start), unit.get("set", {}), {})
        try:
            groups.append((naming.model(*wanted, normalize=within), unit.get("count", 1)))
            costs |= dict.fromkeys(groups[-1][0].cost_names)
        except ConRLError as error:  # options of a command have no part in it
            mistakes.append(f"[[unit]] {i + 1}: {error}")
            with suppress(ConRLError):
                costs |= dict.fromkeys(naming.model(name, steps, None, *wanted[3:], normalize=within).cost_names)
    if costs:
        for key in SHARED:
            foreign = [cost for cost in shared.get(key, {}) if cost not in costs]
            mistakes += [f"[fleet] {key}: {unknown('cost', cost, costs)}" for cost in foreign]
    own = {key: dict(shared.get(key, {})) for key in SHARED} if not mistakes else {}
    names = tuple(str(unit.get("model")) for unit in units)
    return FoundFleet(groups, own, names, [f"{path}: {told}" for told in mistakes])


@contextmanager
def _within(place: str) -> Iterator[None]:
    """Puts the place in front of what goes wrong there; options of a command have no part in it."""
    try:
        yield
    except ConRLError as error:
        raise SpecError(f"{place}: {error}") from None


def _readable(tables: dict[str, Any]) -> bool:
    """Whether there are a table of the fleet and tables of units, whatever is in them."""
    units = tables.get("unit", [])
    shared = tables.get("fleet", {})
    if not isinstance(shared, dict) or any(not isinstance(shared.get(key, {}), dict) for key in SHARED):
        return False
    return isinstance(units, list) and bool(units) and all(isinstance(unit, dict) for unit in units)


def _wrong(tables: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the keys, and with the kinds of their values."""
    for key in tables:
        if key not in ("fleet", "unit"):
            yield unknown("table", key, ("fleet", "unit"))
    shared, units = tables.get("fleet", {}), tables.get("unit", [])
    if not isinstance(shared, dict):
        yield f"fleet is {shown(shared)}; write a table [fleet]"
        shared = {}
    yield from (f"[fleet]: {told}" for told in _unknown(shared, FLEET))
    for key in SHARED:
        given = shared.get(key, {})
        if not isinstance(given, dict):
            yield f"[fleet] {key} is {shown(given)}; write {key} = {{ money = 100 }}"
        elif key != "per_step":
            for name, value in given.items():
                if not is_number(value):
                    yield f"[fleet] {key}.{name} is {shown(value)}; it must be a number"
    if not isinstance(units, list) or not units or not all(isinstance(unit, dict) for unit in units):
        yield 'no units; write a table [[unit]] with model = "press.csv" and count = 25 for each'
        return
    for i, unit in enumerate(units):
        yield from (f"[[unit]] {i + 1}: {told}" for told in _wrong_unit(unit))


def _wrong_unit(unit: dict[str, Any]) -> Iterator[str]:
    yield from _unknown(unit, UNIT)
    if not isinstance(unit.get("model"), str):
        yield f"model is {shown(unit.get('model'))}; name a file or a built-in model"
    if not is_int(unit.get("count", 1)):
        yield f"count is {shown(unit['count'])}; it must be a whole number"
    if not isinstance(unit.get("set", {}), dict):
        yield f"set is {shown(unit['set'])}; write set = {{ NAME = X }}"


def _unknown(table: dict[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    return (unknown("key", key, keys) for key in table if key not in keys)

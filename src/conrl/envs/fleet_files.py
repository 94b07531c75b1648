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
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from conrl import io
from conrl.arguments import is_int, is_number
from conrl.envs import naming
from conrl.errors import ConRLError, SpecError, shown, unknown
from conrl.io.files import parse_toml, read_bytes
from conrl.model.fleet import Fleet

LARGEST_FILE = 1 << 20
FLEET = ("horizon", "limits", "floors", "per_step", "normalize")
UNIT = ("model", "count", "start", "set")


class FleetFile(NamedTuple):
    """A fleet, and what its models were called."""

    fleet: Fleet
    names: tuple[str, ...]


def is_fleet_file(name: str) -> bool:
    """Whether that is the name of a file of a fleet."""
    return name.lower().endswith(".toml")


def load_fleet(
    path: str,
    horizon: int | None = None,
    limits: Mapping[str, float] | None = None,
    floors: Mapping[str, float] | None = None,
    per_step: Mapping[str, float] | None = None,
    normalize: float | None = None,
) -> FleetFile:
    """The fleet of a file; a horizon, limits, floors and `normalize` given here replace the file's."""
    file = Path(path)
    data = read_bytes(file, LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise SpecError(f"{path}: larger than {LARGEST_FILE:,} bytes; this is no fleet")
    try:
        tables = parse_toml(data.decode("utf-8"))
    except ValueError as error:
        raise SpecError(f"{path}: not TOML: {error}") from None
    shared, units = _checked(tables, path)
    steps = shared.get("horizon") if horizon is None else horizon
    groups = []
    for i, unit in enumerate(units):
        name = unit["model"]
        if io.is_model_file(name):
            name = str(file.parent / name)
        start = unit.get("start")
        within = (shared.get("normalize") if normalize is None else normalize) if io.is_model_file(name) else None
        with _within(f"{path}: [[unit]] {i + 1}"):
            wanted: Any = (name, steps, None if start is None else str(start), unit.get("set", {}), {})
            model = naming.model(*wanted, normalize=within)
        groups.append((model, unit.get("count", 1)))
    own = {key: dict(shared.get(key, {})) for key in ("limits", "floors", "per_step")}
    with _within(path):
        fleet = Fleet(groups, own["limits"] or None, own["floors"] or None, own["per_step"] or None)
    typed = {key: given for key, given in zip(own, (limits, floors, per_step), strict=True) if given}
    if typed:  # by the user: what is wrong with it is not the file's mistake
        own = {key: own[key] | dict(typed.get(key, {})) for key in own}
        fleet = Fleet(groups, own["limits"] or None, own["floors"] or None, own["per_step"] or None)
    return FleetFile(fleet, tuple(unit["model"] for unit in units))


@contextmanager
def _within(place: str) -> Iterator[None]:
    """Puts the place in front of what goes wrong there; options of a command have no part in it."""
    try:
        yield
    except ConRLError as error:
        raise SpecError(f"{place}: {error}") from None


def _checked(tables: dict[str, Any], path: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The table of the fleet and those of the units, of known keys and kinds."""
    for key in tables:
        if key not in ("fleet", "unit"):
            raise SpecError(f"{path}: {unknown('table', key, ('fleet', 'unit'))}")
    shared, units = tables.get("fleet", {}), tables.get("unit", [])
    if not isinstance(shared, dict):
        raise SpecError(f"{path}: fleet is {shown(shared)}; write a table [fleet]")
    if not isinstance(units, list) or not units or not all(isinstance(unit, dict) for unit in units):
        raise SpecError(f'{path}: no units; write a table [[unit]] with model = "press.csv" and count = 25 for each')
    _known(shared, FLEET, f"{path}: [fleet]")
    for key in ("limits", "floors", "per_step"):
        if not isinstance(shared.get(key, {}), dict):
            raise SpecError(f"{path}: [fleet] {key} is {shown(shared[key])}; write {key} = {{ money = 100 }}")
    for key in ("limits", "floors"):
        for name, value in shared.get(key, {}).items():
            if not is_number(value):
                raise SpecError(f"{path}: [fleet] {key}.{name} is {shown(value)}; it must be a number")
    for i, unit in enumerate(units):
        where = f"{path}: [[unit]] {i + 1}"
        _known(unit, UNIT, where)
        if not isinstance(unit.get("model"), str):
            raise SpecError(f"{where}: model is {shown(unit.get('model'))}; name a file or a built-in model")
        if not is_int(unit.get("count", 1)):
            raise SpecError(f"{where}: count is {shown(unit['count'])}; it must be a whole number")
        if not isinstance(unit.get("set", {}), dict):
            raise SpecError(f"{where}: set is {shown(unit['set'])}; write set = {{ NAME = X }}")
    return shared, units


def _known(table: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            raise SpecError(f"{where}: {unknown('key', key, keys)}")

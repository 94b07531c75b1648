"""What a file is, by what is in it: a model, a log, a policy, a fleet or a study."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path

from conrl.errors import ConRLError, ModelError, SpecError, nearest

MODEL, LOG, POLICY, FLEET, STUDY = KINDS = ("model", "log", "policy", "fleet", "study")
SUFFIXES = ".csv, .tsv, .xlsx, .npz, .parquet, .drn, .json or .toml"

# The columns that only some tables have. Those that are spelled wrong count as what they are nearest to.
_TELLING = ("episode", "terminated", "probability", "next_state", "reward")
_COMMON = ("step", "state", "action", "comment", "note")


def kind_of(name: str, mapped: Collection[str] = ()) -> str:
    """The kind of a file; `mapped` are names of ours that its columns were given, which is done for logs alone.

    A file that cannot be read is what most files of its suffix are: whoever reads it then says what is wrong.
    """
    from conrl.io.files import file_path, reading
    from conrl.io.sheets import split_sheet

    file, sheet = split_sheet(name)
    path = file_path(file)
    with reading(path):  # that there is one
        if mapped:
            return LOG
    suffix = path.suffix.lower()
    by_suffix = {".json": POLICY, ".parquet": LOG, ".drn": MODEL}
    if suffix in by_suffix:
        return by_suffix[suffix]
    if suffix not in (".csv", ".tsv", ".xlsx", ".npz", ".toml"):
        raise ModelError(f"{name}: conrl check reads files that end in {SUFFIXES}")
    try:
        if suffix == ".toml":
            kind = _of_tables(path)
        elif suffix == ".npz":
            kind = _of_arrays(path)
        else:
            kind = _of_columns(path, sheet)
    except (ConRLError, OSError, ValueError, zipfile.BadZipFile):
        return STUDY if suffix == ".toml" else MODEL
    if kind is None:
        known = f"{FLEET} or {STUDY}" if suffix == ".toml" else f"{MODEL}, {LOG} or {POLICY}"
        told = "the tables [[unit]] of a fleet or [environment.NAME] of a study"
        if suffix != ".toml":
            told = "a column probability, as a model or a policy, or a column episode, as a log, in its first row"
        raise SpecError(f"{name}: cannot tell what it is: it does not have {told}; say --as {known}")
    return kind


def _of_tables(path: Path) -> str | None:
    from conrl.io.files import parse_toml, read_bytes

    text = read_bytes(path, 1 << 21).decode("utf-8")
    try:
        keys = set(parse_toml(text))
    except ValueError:  # whoever reads it says why; until then, what its tables are called tells
        keys = set(re.findall(r"^\s*\[{1,2}\s*(\w+)", text, re.MULTILINE))
    if keys & {"fleet", "unit"}:
        return FLEET
    return STUDY if keys & {"environment", "algorithm", "episodes", "seeds", "tune"} else None


def _of_arrays(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        names = {name.removesuffix(".npy") for name in archive.namelist()}
    if names & {"format", "transitions"}:
        return MODEL
    if "episode" in names:
        return LOG
    return POLICY if names & {"probabilities", "actions", "modes", "counted"} else MODEL


def _of_columns(path: Path, sheet: str | None) -> str | None:
    from conrl.io.sheets import open_sheet, plain

    table = open_sheet(path, lambda name: plain(name) in (*_TELLING, *_COMMON), sheet)
    header = [str(name) for name in next(table.rows(), (0, []))[1]]
    return of_header(plain(name) for name in header) if header else MODEL


def _meant(name: str) -> str:
    """The telling column that a name is, or was perhaps meant to be."""
    begun = (column for column in _TELLING if len(name) >= 3 and column.startswith(name))
    return nearest(name, _TELLING) or next(begun, name)


def of_header(given: Iterable[str]) -> str | None:
    """The kind of a table by the plain names of its columns.

    >>> of_header(["state", "action", "probabilty"]), of_header(["episode", "state"]), of_header(["state"])
    ('policy', 'log', None)
    """
    names = {name if name in _COMMON else _meant(name) for name in given}
    if names & {"episode", "terminated"}:
        return LOG
    if "probability" in names:
        return MODEL if names & {"next_state", "reward"} else POLICY
    return None

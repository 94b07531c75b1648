"""Learners in files: `.npz` archives of plain arrays and one JSON text; nothing in them can run code.

    format = "conrl-learner", version, config (JSON: what makes the learner), task_features, task_available,
    task_state_names, task_action_names: what logs call them, task_cells_<name>: where the cells of continuous
    observations are, safe_<name>: its safe policy, state_<name>: what it has learned, seal: a digest of all the other
    arrays

Functions of the user's own (concave-convex problems, bonuses, planners) cannot be stored: `load_learner` is given them
again.

A file is believed if its seal fits and what it holds hangs together: counts are counts of the task, and the books of a
hard budget have one entry an episode that add up to the costs counted. The seal detects a file that was edited or put
together from several. It is not a signature: it does not detect a file that was written from scratch, with its seal,
counts and books. That would take a secret key.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl._types import Array
from conrl.errors import ConRLError, ModelError, RunError, SpecError, shown
from conrl.estimation.adaptive import AdaptiveBonus
from conrl.estimation.bonuses import BernsteinBonus, ScaledBonus, TheoryBonus
from conrl.io.files import Reader, atomic_write, file_path, parse_json, read_npz, reading, write_npz
from conrl.learners.arrays import group, prefixed
from conrl.model import Task
from conrl.model.cells import Cells
from conrl.oracles import A2C, A2CSettings
from conrl.planners import ColumnGeneration, ConvexProgram, Lagrangian, LinearProgram
from conrl.policy import Policy
from conrl.policy_loading import policy_of
from conrl.problem import Knapsack, Linear

if TYPE_CHECKING:
    from conrl.learners.base import Learner

FORMAT = "conrl-learner"
VERSION = 2  # 1 had no seal, and no entries in its books
SEAL = "seal"
# What reading a file can end in that is not what it claims to be.
DAMAGED = (
    ConRLError,
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
)
GIVEN = "given"  # in a description: a part of the user's own, to be given again

# What can be described by its fields and made again from them.
_PLAIN: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Task,
        Linear,
        Knapsack,
        ColumnGeneration,
        LinearProgram,
        ConvexProgram,
        Lagrangian,
        AdaptiveBonus,
        ScaledBonus,
        TheoryBonus,
        BernsteinBonus,
        A2C,
        A2CSettings,
    )
}
POLICIES = ("safe",)  # arguments of learners that are policies, stored as arrays; `config` has what tells them apart
# Arrays of a task, stored as such; cells are several.
_APART = ("features", "available", "state_names", "action_names", "cells")
_CELLS = "task_cells_"
# Fields that are younger than descriptions in files, and what those mean; left out where they have that value.
_UNSAID: dict[str, dict[str, Any]] = {"ScaledBonus": {"bounded": False}, "ColumnGeneration": {"threads": None}}


def describe(part: Any) -> dict[str, Any] | None:
    """The kind and the fields of a part of a learner; None if it cannot be made again from them."""
    if type(part) is not _PLAIN.get(type(part).__name__):
        return None
    fields = {f.name: vars(part)[f.name] for f in dataclasses.fields(part) if f.init and f.name not in _APART}
    for name, value in _UNSAID.get(type(part).__name__, {}).items():
        if fields[name] == value:
            del fields[name]
    try:
        plain: dict[str, Any] = json.loads(json.dumps({"kind": type(part).__name__, **fields}, default=_plain))
    except TypeError:
        return None
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if (described := describe(value)) is not None:  # a part within a part
        return described
    raise TypeError(value)


def _is_part(value: Any) -> bool:
    """Whether this describes a part; limits by the name of a cost are a mapping too, of numbers."""
    return isinstance(value, dict) and isinstance(value.get("kind"), str)


def rebuild(description: dict[str, Any], **more: Any) -> Any:
    """The part that `describe` described."""
    fields = {name: rebuild(value) if _is_part(value) else value for name, value in description.items()}
    kind = fields.pop("kind", None)
    if kind not in _PLAIN:
        raise ModelError(f"{kind!r} is no part of a learner")
    known = {f.name for f in dataclasses.fields(_PLAIN[kind]) if f.init}
    if not fields.keys() <= known:
        raise ModelError(f"{kind} has no {sorted(fields.keys() - known)[0]!r}")
    return _PLAIN[kind](**_UNSAID.get(kind, {}) | fields, **more)


def learner_arrays(learner: Learner) -> dict[str, Array]:
    """A learner as arrays."""
    return made_arrays(learner) | prefixed("state_", {n: np.asarray(array) for n, array in learner.state().items()})


def made_arrays(learner: Learner) -> dict[str, Array]:
    """What a learner was made from, as arrays: everything but what it has learned."""
    arrays = {
        "format": np.array(FORMAT),
        "version": np.array(VERSION),
        "config": np.array(json.dumps(learner.config(), sort_keys=True)),
    }
    apart = {f"task_{name}": vars(learner.task)[name] for name in _APART[:-1]}
    arrays |= {name: np.asarray(array) for name, array in apart.items() if array is not None}
    if learner.task.cells is not None:
        arrays |= prefixed(_CELLS, learner.task.cells.arrays())
    for part, policy in policies_apart(learner).items():
        arrays |= prefixed(f"{part}_", {name: np.asarray(array) for name, array in policy._arrays().items()})
    return arrays


def policies_apart(learner: Learner) -> dict[str, Policy]:
    """The policies that a learner is made from, by the argument that they are."""
    apart = getattr(learner, "apart", None)
    return {} if apart is None else apart()


def save_learner(learner: Learner, path: str | Path) -> None:
    """Write a learner whole or not at all."""
    if file_path(path).suffix != ".npz":
        raise SpecError(f"{path}: a learner is written as .npz")
    write_sealed(path, learner_arrays(learner))


def write_sealed(path: str | Path, arrays: Mapping[str, Array], follow: bool = True) -> None:
    """Write arrays and their seal, whole or not at all."""
    with atomic_write(path, follow) as file:
        write_npz(file, {**arrays, SEAL: np.array(_digest(arrays))})


def read_sealed(path: Path) -> dict[str, Array]:
    """What `write_sealed` wrote, of this format and version, without the seal; refuses what does not fit it."""
    arrays = read_npz(path, _check)
    seal = arrays.pop(SEAL, None)
    if seal is None or seal.shape != () or str(seal) != _digest(arrays):
        raise ModelError("its seal does not fit what it holds: it was edited, or put together from several files")
    return arrays


def _digest(arrays: Mapping[str, Array]) -> str:
    """Tells the contents of one file from those of another, texts by their characters."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        text = array.dtype.kind in "UO"
        digest.update(json.dumps([name, "text" if text else array.dtype.str, array.shape]).encode())
        digest.update(json.dumps(array.tolist()).encode() if text else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def load_learner(path: str | Path, **given: Any) -> Any:
    """The learner that `learner.save` wrote, to resume exactly where it was.

    Pass `problem`, `planner` or `bonus` again if they hold functions of your own.
    """
    path = file_path(path)
    with reading(path):
        try:
            return learner_of(read_sealed(path), given)
        except (SpecError, RunError) as error:
            raise type(error)(f"{path}: {error}") from None
        except DAMAGED as error:
            reason = f"no array {error}" if isinstance(error, KeyError) else error
            raise RunError(f"{path}: not a learner, or damaged: {reason}") from None


def _check(names: Set[str], read: Reader) -> None:
    if "format" not in names or read("format").shape != () or str(read("format")) != FORMAT:
        raise ModelError(f"its format is not {FORMAT!r}")
    if "version" not in names or read("version").shape != () or int(read("version")) != VERSION:
        raise ModelError(
            f"its version is not {VERSION}, the only one that this conrl reads; "
            "go on with the conrl that wrote it, or learn again"
        )


def learner_of(arrays: dict[str, Array], given: dict[str, Any]) -> Any:
    """The learner that `learner_arrays` took apart."""
    from conrl.learners import PLUGINS  # here, as the learners themselves save
    from conrl.learners.adapted import Kind

    config = parse_json(str(arrays["config"]))
    if not isinstance(config, dict) or not isinstance(config.get("task"), dict):
        raise ModelError("its config describes no learner")
    name = config.pop("learner")
    kind = PLUGINS.get(name)
    if kind is None:
        raise ModelError(f"its learner {shown(name)} is unknown; if it is a plug-in, import the module that it is in")
    apart: dict[str, Any] = {name: arrays[f"task_{name}"] for name in _APART if f"task_{name}" in arrays}
    if cells := group(arrays, _CELLS):
        apart["cells"] = Cells.from_arrays(**cells)
    task = rebuild(config.pop("task"), **apart)
    parts = dict(kind.unsaid) | {name: value for name, value in given.items() if name in kind.unsaid}
    for name, value in config.items():
        if name in given:
            parts[name] = given[name]
        elif _is_part(value) or (isinstance(value, dict) and not isinstance(kind, Kind)):
            parts[name] = rebuild(value)
        elif value == GIVEN or (value is None and name in ("problem", "planner", "bonus")):
            raise SpecError(f"its {name} cannot be stored in a file; pass load_learner(path, {name}=...)")
        else:
            parts[name] = value
    for name in given:
        if name not in config and name not in kind.unsaid:
            raise SpecError(f"{name} is no part of this learner")
    for name in set(POLICIES) & config.keys() - given.keys():
        parts[name] = policy_of(group(arrays, f"{name}_"))
    learner = kind(task, **parts)
    for name in set(POLICIES) & config.keys() - given.keys():
        if learner.config()[name] != config[name]:
            raise ModelError(f"its policy {name} is not the one that its config describes")
    learner.load_state(group(arrays, "state_"))
    return learner

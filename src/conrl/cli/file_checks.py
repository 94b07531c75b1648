"""What is wrong with a file, or what is in it: one function for each kind of file, with one kind of answer.

Nothing is raised for what a file holds, only for options that do not fit it. Each reader goes on after a mistake where
it can; what keeps it from reading anything is the only mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from conrl.cli.file_kinds import FLEET, LOG, MODEL, POLICY, STUDY
from conrl.errors import ConRLError, ModelError, SpecError
from conrl.io.model_checks import alike
from conrl.wording import counted

LISTED = 5  # names that a line has


@dataclass(frozen=True)
class FileCheck:
    """What a look at a file found."""

    kind: str
    mistakes: Sequence[str]
    count: int  # of mistakes; more than are listed, if there are very many
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()  # what may be meant as it is
    title: str = ""  # what it is, in words
    facts: Mapping[str, str] = field(default_factory=dict)  # what is in it, in words
    record: Mapping[str, Any] = field(default_factory=dict)  # and for programs


def check(file: str, kind: str, options: Mapping[str, Any]) -> FileCheck:
    """Look at a file as one of that kind; `options` are those that were given, of which it may know some."""
    looks: dict[str, Callable[..., FileCheck]] = {MODEL: model, LOG: log, POLICY: policy, FLEET: fleet, STUDY: study}
    for name in options:
        if name not in _OPTIONS[kind]:
            kinds = " or ".join(f"a {kind}" for kind, own in _OPTIONS.items() if name in own)
            raise SpecError(f"{_SPELLED.get(name, f'--{name}')} is for {kinds}; {file} was taken for a {kind}")
    return looks[kind](file, **options)


_OPTIONS = {
    MODEL: ("horizon", "start", "limits", "normalize"),
    LOG: ("columns", "ignore"),
    POLICY: (),
    FLEET: ("horizon", "limits", "normalize"),
    STUDY: ("allow_import",),
}
_SPELLED = {"limits": "--limit", "columns": "--column", "allow_import": "--allow-import"}


def model(
    file: str,
    horizon: int | None = None,
    start: str | None = None,
    limits: Mapping[str, float] | None = None,
    normalize: float | None = None,
) -> FileCheck:
    """A model: all mistakes of a table, the first of arrays and of a DRN file."""
    from conrl.cli.json_records import model_entries
    from conrl.envs.naming import state_of
    from conrl.io.checking import check_model

    given: dict[str, Any] = {"horizon": horizon, "limits": limits, "normalize": normalize}
    found = check_model(file, **given)
    if found.model is not None and start is not None:
        found = check_model(file, initial=state_of(found.model, start), **given)
    if found.model is None:
        return FileCheck(MODEL, found.mistakes, found.count, found.warnings)
    mdp = found.model
    record = model_entries(mdp, found.has_horizon)
    length = record.get("criterion") or ("" if record["horizon"] is None else f"{record['horizon']} steps")
    facts = {
        "outcomes": f"{record['outcomes']:,} of {record['pairs']:,} pairs of a state and an action",
        "costs": ", ".join(record["costs"]) or "none",
        "start": "a lottery" if record["start"] is None else record["start"],
    }
    title = f"a model of {record['states']} states, {record['actions']} actions" + (f", {length}" if length else "")
    return FileCheck(MODEL, (), 0, found.warnings, found.notes, title, facts, record)


def log(file: str, columns: Mapping[str, str] | None = None, ignore: tuple[str, ...] = ()) -> FileCheck:
    """A log: all mistakes."""
    from conrl.estimation.log_files import is_unfinished
    from conrl.estimation.logs import read_log

    try:
        found = read_log(file, columns, ignore, shell=True)
    except ModelError as error:
        return _first(LOG, error)
    if found.log is None:
        return FileCheck(LOG, found.mistakes.told(), found.mistakes.count)
    own = found.log
    n, steps = len(own.episodes), own.num_steps
    seen = {
        "state": np.unique(np.concatenate([np.zeros(0, np.int64), *(e.states for e in own.episodes)])),
        "action": np.unique(np.concatenate([np.zeros(0, np.int64), *(e.actions for e in own.episodes)])),
    }
    lengths = [len(e) for e in own.episodes]
    facts = {"steps": f"{steps:,}" + (f", {min(lengths):,} to {max(lengths):,} an episode" if n else "")}
    notes = [] if n else ["the file has a header and no rows"]
    if n and Path(file).suffix.lower() == ".csv" and is_unfinished(Path(file)):
        notes.append(
            "the last line has no line end: if the log is being written, it may be cut; monitor does not read it"
        )
    for what, names in (("state", own.state_names), ("action", own.action_names)):
        used = seen[what]
        facts[f"{what}s"] = f"{used.size:,}" + (f": {_named(names)}" if names else ", by number" if used.size else "")
        if names is None and used.size and used[-1] >= used.size:
            count = int(used[-1]) + 1 - used.size
            notes.append(
                f"{what}s are numbers up to {used[-1]}, of which {count:,} never occur; they count as {what}s as well"
            )
    facts["costs"] = ", ".join(own.cost_names) or "none"
    facts["ended"] = f"{sum(e.terminated for e in own.episodes):,} episodes, by themselves"
    record = {
        "episodes": n,
        "steps": steps,
        "states": int(seen["state"].size),
        "actions": int(seen["action"].size),
        "costs": own.cost_names,
    }
    title = f"a log of {counted(n, 'episode')}, {counted(steps, 'step')}"
    return FileCheck(LOG, (), 0, found.warnings, notes, title, facts, record)


def policy(file: str) -> FileCheck:
    """A policy: all mistakes of a table, the first of JSON and of arrays."""
    from conrl.io.policy_tables import find_policy
    from conrl.policy_file import PolicyFile
    from conrl.policy_loading import load_policy
    from conrl.stationary_policy import Stationary

    path = Path(file)
    warnings: list[str] = []
    states: Sequence[str] | None = None
    actions: Sequence[str] | None = None
    try:
        if path.suffix.lower() == ".csv":
            found = find_policy(path)
            if found.table is None:
                return FileCheck(POLICY, found.mistakes.told(), found.mistakes.count, found.warnings)
            warnings, (table, step_dependent, states, actions) = found.warnings, found.table
            shape: tuple[int, ...] = table.shape if step_dependent else table.shape[1:]
        elif path.suffix.lower() == ".json":
            own = PolicyFile.load(path)
            shape, states, actions = own.components[0].shape, own.state_names, own.action_names
            shape = shape if isinstance(own.horizon, int) else shape[-2:]
            for what, names in (("state", states), ("action", actions)):
                warnings += [f"{file}: {told}" for told in alike(what, names)]
        else:
            loaded = load_policy(path)
            shape = loaded.shape[1:] if isinstance(loaded, Stationary) else loaded.shape
    except ModelError as error:
        return _first(POLICY, error)
    steps = shape[0] if len(shape) == 3 else None
    facts = {"states": f"{shape[-2]:,}" + (f": {_named(states)}" if states else ", by number")}
    facts["actions"] = f"{shape[-1]:,}" + (f": {_named(actions)}" if actions else ", by number")
    record = {"states": shape[-2], "actions": shape[-1], "horizon": steps}
    title = f"a policy for {shape[-2]} states, {shape[-1]} actions, " + (f"{steps} steps" if steps else "any step")
    return FileCheck(POLICY, (), 0, warnings, (), title, facts, record)


def fleet(
    file: str,
    horizon: int | None = None,
    limits: Mapping[str, float] | None = None,
    normalize: float | None = None,
) -> FileCheck:
    """A fleet: all mistakes of its tables, and the first of each model."""
    from conrl.envs.fleet_files import find_fleet, load_fleet

    try:
        mistakes = find_fleet(file, horizon, normalize).mistakes
        if mistakes:
            return FileCheck(FLEET, mistakes, len(mistakes))
        loaded = load_fleet(file, horizon, normalize=normalize)
    except ConRLError as error:
        return _first(FLEET, error)
    own = load_fleet(file, horizon, limits, normalize=normalize).fleet if limits else loaded.fleet
    facts = {"models": _named(loaded.names), "costs": ", ".join(own.cost_names) or "none"}
    record = {"units": own.num_units, "horizon": own.horizon, "models": loaded.names, "costs": own.cost_names}
    title = f"a fleet of {own.num_units:,} units, {own.horizon} steps"
    return FileCheck(FLEET, (), 0, (), (), title, facts, record)


def study(file: str, allow_import: bool = False) -> FileCheck:
    """A study: all mistakes."""
    from conrl.experiments import load_spec

    try:
        own = load_spec(file, allow_import)
    except ConRLError as error:
        return _first(STUDY, error)
    facts = {"environments": _named(list(own.environments)), "algorithms": _named(list(own.algorithms))}
    record = {"runs": len(own.jobs), "environments": list(own.environments), "algorithms": list(own.algorithms)}
    return FileCheck(STUDY, (), 0, (), (), f"a study of {len(own.jobs):,} runs", facts, record)


def _first(kind: str, error: ConRLError) -> FileCheck:
    """What an error says: one mistake, or all of a study's."""
    return FileCheck(kind, error.messages, len(error.messages))


def _named(names: Sequence[str]) -> str:
    from conrl.io.mistakes import first_few

    return ", ".join(first_few(names, LISTED))

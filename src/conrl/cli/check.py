"""The command that looks at a model file. Heavy imports are local to it."""

from __future__ import annotations

import click

from conrl.cli import completion
from conrl.cli.command import Command, complain, load_numba, show, warn
from conrl.cli.options import as_json, horizon, limit, normalize, start

MOST = 50  # mistakes that are listed


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  conrl check model.csv
  conrl check model.csv --normalize 0.01
  conrl check model.xlsx#Costs --horizon 20 --start home --limit fuel=3 --json

FILE is .csv, .tsv, .xlsx (a sheet as model.xlsx#NAME, else the first) or .npz. A table has the columns
state,action,next_state,probability,reward,cost_<name>..., in any order, in capitals or not; step, comment and
note may be there. Columns may be separated by semicolons or tabs, decimals by commas; 70% is 0.7.

Exit code 2: the file has mistakes; each is a line on stderr, and with --json an entry on stdout too.""",
)
@click.argument("file", shell_complete=completion.model)
@horizon
@start
@limit
@normalize
@as_json
def check(
    file: str,
    horizon: int | None,
    start: str | None,
    limits: dict[str, float],
    normalize: float | None,
    as_json: bool,
) -> int:
    """All mistakes of a model file, each with its line; or what is in it.

    Also says what may be meant as it is: names that look alike, states that nothing reaches or that are never left.
    """
    load_numba()
    from conrl.cli import json_records, tables
    from conrl.envs.naming import state_of
    from conrl.io.checking import check_model

    found = check_model(file, horizon=horizon, limits=limits or None, normalize=normalize)
    if found.model is not None and start is not None:
        first = state_of(found.model, start)
        found = check_model(file, horizon=horizon, initial=first, limits=limits or None, normalize=normalize)
    record = json_records.check_record(file, found)
    for told in found.warnings:
        warn(told)
    for told in found.mistakes[:MOST]:
        complain(told, 2)
    if found.count > MOST:
        complain(f"and {found.count - MOST} more", 2)
    if found or as_json:
        show(as_json, record, lambda: tables.check_tables(record))
    return 0 if found else 2

"""The command that looks at a file. Heavy imports are local to it."""

from __future__ import annotations

from typing import Any

import click

from conrl.cli import completion
from conrl.cli.command import Command, complain, load_kernels, show, warn
from conrl.cli.file_kinds import KINDS
from conrl.cli.logs import column, ignore
from conrl.cli.options import allow_import, as_json, horizon, limit, normalize, start

MOST = 50  # mistakes that are listed


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  conrl check model.csv
  conrl check model.csv --normalize 0.01
  conrl check model.xlsx#Costs --horizon 20 --start home --limit fuel=3 --json
  conrl check log.csv --column state=ward --ignore bed
  conrl check spec.toml

FILE is a model (.csv, .tsv, .xlsx with a sheet as model.xlsx#NAME, .npz, .drn), a log (.csv, .npz, .parquet),
a policy (.json, .csv, .npz), a fleet or a study (.toml): which of them is found out by its columns or keys.
A model has the columns state,action,next_state,probability,reward,cost_<name>..., in any order, in capitals or
not; a log has episode,step,state,action,reward,cost_<name>...,next_state; a policy step,state,action,probability.
Columns may be separated by semicolons or tabs, decimals by commas; 70% is 0.7.

Exit code 2: the file has mistakes; each is a line on stderr, and with --json an entry on stdout too.""",
)
@click.argument("file", shell_complete=completion.file)
@click.option("--as", "kind", type=click.Choice(KINDS), help="What FILE is, where its columns or keys do not tell.")
@horizon
@start
@limit
@normalize
@column
@ignore
@allow_import
@as_json
def check(file: str, kind: str | None, as_json: bool, **given: Any) -> int:
    """All mistakes of a file, each with its line; or what is in it. Models, logs, policies, fleets and studies.

    Also says what may be meant as it is: names that look alike, states that nothing reaches or that are never left.
    """
    load_kernels()
    from conrl.cli import file_checks, json_records, tables
    from conrl.cli.file_kinds import kind_of

    options = {name: value for name, value in given.items() if value not in (None, False, (), {})}
    known = kind or kind_of(file, options.get("columns", ()))
    found = file_checks.check(file, known, options)
    for told in found.warnings:
        warn(told)
    show(as_json, json_records.check_record(file, found), lambda: tables.check_tables(file, found, kind is None))
    for told in found.mistakes[:MOST]:
        complain(told, 2)
    if found.count > MOST:
        complain(f"and {found.count - MOST} more", 2)
    return 2 if found.count else 0

"""A policy in a running system, on the command line: `conrl act` and `conrl monitor`. Heavy imports are local."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from conrl.cli.command import Command, load_kernels, show
from conrl.cli.logs import column, ignore
from conrl.cli.options import as_json, probability, read_amounts, read_bounds, repeated
from conrl.errors import SpecError

NOT_AS_PROMISED = 5  # exit code


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  conrl act policy.json --step 3 --state worn
  conrl act policy.json --step 3 --state worn --seed 7 --json
  conrl act policy.json --begin
  conrl act policy.json --step 0 --state start --component 1
  conrl act policy.json --step 5 --state home --spent fuel=2.5

POLICY is .json, as conrl plan --out writes it. The name of the action is all that is printed. Where the policy is
random, the action is drawn at random; --seed makes the draw repeatable. --json also tells whether the action was
planned, or only stands in where the model says that nobody can be, and the id of the file, for logs.

--spent takes any cost of the file; those that the policy does not count are ignored. An amount between two that it
counts is rounded up.

A file with several policies needs one drawn for each episode: --begin prints its number, or "skip" for an episode that
is not to be played.""",
)
@click.argument("policy", type=click.Path(path_type=Path))
@click.option("--step", type=click.IntRange(0), metavar="H", help="Of the episode, from 0.")
@click.option("--state", metavar="NAME", help="Where the system is.")
@click.option("--begin", is_flag=True, help="Draw which of the file's policies to play in an episode.")
@click.option("--component", type=click.IntRange(0), metavar="K", help="The policy that --begin drew.")
@click.option("--spent", help="Spent so far of a cost, for a policy that acts on it.", **repeated(read_amounts))
@click.option("--seed", type=click.IntRange(0), help="Of the draw; the same seed draws the same.")
@as_json
def act(
    policy: Path,
    step: int | None,
    state: str | None,
    begin: bool,
    component: int | None,
    spent: dict[str, float],
    seed: int | None,
    as_json: bool,
) -> None:
    """The action of POLICY at a step and in a state."""
    load_kernels()
    import numpy as np

    from conrl.policy_file import PolicyFile

    if policy.suffix.lower() != ".json":
        raise SpecError(f"{policy}: conrl act reads .json; write it with conrl plan --out policy.json")
    file, generator = PolicyFile.load(policy), np.random.default_rng(seed)
    if begin:
        if step is not None or state is not None or component is not None or spent:
            raise SpecError("--begin stands alone: it draws what --component then takes")
        drawn = file.begin(generator)
        show(as_json, {"component": drawn, "skip": drawn is None}, lambda: ["skip" if drawn is None else str(drawn)])
        return
    if step is None or state is None:
        raise SpecError(f"--{'step' if step is None else 'state'} is missing: an action depends on both")
    if component is None and len(file.components) > 1:
        told = (
            f"the file has policies 0..{len(file.components) - 1}; draw one at the start of each episode with --begin"
        )
        raise SpecError(f"--component is missing: {told}")
    if missing := [name for name in file.counted(component) if name not in spent]:
        example = " ".join(f"--spent {shlex.quote(f'{name}=0')}" for name in missing)
        raise SpecError(f"the policy acts on the {' and '.join(missing)} spent so far: say how much, such as {example}")
    asked = (component, spent or None)
    action, choices = file.act(step, state, generator, *asked), file.choices(step, state, *asked)
    record: dict[str, Any] = {"step": step, "state": state, "action": action, "probabilities": choices}
    if as_json:
        record |= {"planned": file.planned(step, state, *asked), "id": file.id}
    show(as_json, record, lambda: [action])


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  conrl monitor policy.json log.csv
  conrl monitor policy.json log.parquet --alpha 0.01 --column state=ward --ignore '*' --json
  conrl monitor policy.json log.csv --range adverse=0,24

POLICY is .json, as conrl plan --out writes it. LOG is .csv, .npz or .parquet, with one row per step, of episodes that
the policy played. The test may be repeated as the log grows, every day: a false alarm has probability alpha in all.

A last line without a line end is still being written, and is not read. Episodes wait for those before them to end;
--give-up leaves out those that will not. It must not be those that went badly.

Exit code 5: something is not as promised, outside the model, or not of this policy or model; or an episode that does
not end keeps the others waiting.""",
)
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("log", type=click.Path(path_type=Path))
@column
@ignore
@click.option("--alpha", type=probability, default=0.05, show_default=True, help="Probability of a false alarm, ever.")
@click.option(
    "--range", "ranges", help="Least and most that an episode can pay, NAME=LEAST,MOST.", **repeated(read_bounds)
)
@click.option(
    "--give-up", is_flag=True, help="Leave out episodes that have not ended while later ones have, after more steps."
)
@as_json
@click.pass_context
def monitor(
    context: click.Context,
    policy: Path,
    log: Path,
    columns: dict[str, str],
    ignore: tuple[str, ...],
    alpha: float,
    ranges: dict[str, tuple[float, float]],
    give_up: bool,
    as_json: bool,
) -> None:
    """Is what LOG says what POLICY promised? Each total against its expectation and its limit."""
    load_kernels()
    from conrl.cli import log_records, log_tables
    from conrl.estimation.monitor import growing_log, monitor

    known, unfinished = growing_log(log, dict(columns) or None, ignore, shell=True)
    found = replace(monitor(policy, known, alpha=alpha, ranges=ranges, give_up=give_up), unfinished=unfinished)
    record = log_records.monitor_record(str(policy), str(log), found)
    show(as_json, record, lambda: log_tables.monitor_tables(record))
    if found.alarm:
        context.exit(NOT_AS_PROMISED)

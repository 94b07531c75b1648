"""Logs on the command line: the options that say how one is read, and `conrl assess`. Heavy imports are local."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from conrl.cli.command import Command, load_kernels, show
from conrl.cli.options import as_json, assignments, floor, limit, probability, repeated
from conrl.errors import SpecError

if TYPE_CHECKING:
    from conrl.estimation.logs import Log

MOST_DRAWS = 100_000

read_columns = assignments(str.partition, str, "state=ward", "a column")
log = click.option(
    "--log", type=click.Path(path_type=Path), help="Logged episodes to plan from, in the place of MODEL."
)
column = click.option(
    "--column", "columns", help="What the log calls a column, such as state=ward.", **repeated(read_columns)
)
ignore = click.option(
    "--ignore", metavar="COLUMN", multiple=True, help="A column of the log to leave out; '*' for all."
)
by_step = click.option(
    "--by-step", is_flag=True, help="The steps of the log differ (hours of a day): estimate each step apart."
)


def read_log(path: Path | str, columns: Mapping[str, str], ignored: tuple[str, ...]) -> Log:
    """The log in a file, with the columns that the options name."""
    from conrl.estimation import logs

    return logs.read_log(path, dict(columns) or None, ignored, shell=True).loaded()


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  conrl assess policy.csv log.csv --limit adverse=0.25
  conrl assess policy.npz log.parquet --column state=ward --column cost_adverse=harm --ignore '*'

POLICY is .json, .csv (step,state,action,probability) or .npz, as conrl plan --out writes it; limits are those of the
.json file, if none is given. LOG is .csv, .npz or .parquet,
with one row per step: episode, step, state, action, reward, cost_<name>..., next_state.

The intervals are for a policy that was fixed before the log was drawn. One that was planned from the same log looks
better in it than it is; use conrl plan --log LOG --confidence 0.95 for that.""",
)
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("log", type=click.Path(path_type=Path))
@limit
@floor
@column
@ignore
@by_step
@click.option("--level", type=probability, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--draws", type=click.IntRange(2, MOST_DRAWS), default=512, show_default=True, help="Models drawn.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draws.")
@as_json
def assess(
    policy: Path,
    log: Path,
    limits: dict[str, float],
    floors: dict[str, float],
    columns: dict[str, str],
    ignore: tuple[str, ...],
    by_step: bool,
    level: float,
    draws: int,
    seed: int,
    as_json: bool,
) -> None:
    """What LOG says about POLICY: intervals for reward and costs, how likely limits hold, what to log next."""
    load_kernels()
    from conrl.cli import log_records, log_tables
    from conrl.estimation.assess import assess
    from conrl.problem import Linear

    found = read_log(log, columns, ignore)
    if not found.episodes:
        raise SpecError(f"{log} holds no step; nothing is known")
    asked = Linear(limits or None, floors or None) if limits or floors else None  # else those of the policy's file
    result = assess(policy, found, asked, level=level, draws=draws, seed=seed, step_dependent=by_step)
    record = log_records.assess_record(str(policy), str(log), result)
    show(as_json, record, lambda: log_tables.assess_tables(record))


def check_model_or_log(
    model: str | None, log: Path | None, columns: Mapping[str, str], ignored: tuple[str, ...], by_step: bool
) -> None:
    """Either a model is named, or a log is given, with what is said about its columns."""
    if (model is None) == (log is None):
        both = "" if model is None else ", not both"
        raise click.UsageError(f"give a MODEL, or logged episodes with --log{both}", click.get_current_context())
    if log is None and (columns or ignored or by_step):
        raise SpecError(f"--{'column' if columns else 'ignore' if ignored else 'by-step'} goes with --log")


def model_from_log(
    path: Path,
    columns: Mapping[str, str],
    ignored: tuple[str, ...],
    given: Mapping[str, Any],
    missing: bool,
    by_step: bool,
) -> Any:
    """The estimate of a log, with what the options of a model say: horizon, limits, first state."""
    from conrl.envs.naming import with_start
    from conrl.estimation.estimate import estimate
    from conrl.model.criteria import Criterion

    if given["settings"]:
        raise SpecError("--set is for built-in models, not for a log")
    if given["normalize"] is not None:
        raise SpecError("--normalize is for model files, not for a log")
    horizon = given["horizon"]
    steps = None if isinstance(horizon, Criterion) else horizon
    limits, kind = given["limits"] or None, "missing" if missing else "self-loop"
    log = read_log(path, columns, ignored)
    if by_step and isinstance(horizon, Criterion):
        raise SpecError("--by-step needs an episode that ends: steps that differ have a last one")
    longest = max(map(len, log.episodes), default=1)
    length = steps if by_step else max(longest, steps or 1)
    model = estimate(log, horizon=length, limits=limits, unvisited=kind, step_dependent=by_step)
    if horizon is not None:
        model = model.replace(horizon=horizon)
    return with_start(model, given["start"])

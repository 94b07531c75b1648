"""The command that learns. Heavy imports are local to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from conrl.cli import completion
from conrl.cli.command import Command, complain, load_numba, show
from conrl.cli.options import (
    as_json,
    chance,
    cvar,
    floor,
    horizon,
    imports,
    limit,
    never,
    normalize,
    parameter,
    read_bounds,
    read_limits,
    read_settings,
    read_share,
    repeated,
    start,
)
from conrl.errors import ConRLError, SpecError


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  conrl learn mars-rover --set rock_reward=1 --episodes 600
  conrl learn box --seed 1 --out runs
  conrl learn pricing --budget stock=800 --episodes 200 --resolve
  conrl learn mars-rover --preset authors --set rock_reward=1
  conrl learn mars-rover --set rock_reward=1 --algorithm optcmdp --episodes 100
  conrl learn mars-rover --algorithm safe-conrl --option safe_share=0.2 --episodes 50
  conrl learn gymnasium:FrozenLake-v1 --horizon 50 --episodes 1000

--out writes DIR/ENV/ALGORITHM/seed-000: progress.csv, a row an episode; checkpoint.npz; config.json.

Ctrl-C or SIGTERM stops after the episode being played, with everything saved (exit code 130).""",
)
@click.argument("env", shell_complete=completion.model)
@click.option(
    "--algorithm",
    default="conrl",
    show_default=True,
    shell_complete=completion.algorithms,
    help="The learning algorithm; see conrl algorithms.",
)
@click.option("--episodes", type=click.IntRange(1), default=600, show_default=True, metavar="K", help="How many.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of all randomness.")
@parameter
@limit
@never
@chance
@cvar
@floor
@click.option("--budget", "budgets", help="Total of a cost over all episodes: never exceeded.", **repeated(read_limits))
@click.option(
    "--epsilon",
    callback=read_share,
    show_default="0",
    metavar="E",
    help="Share of the budgets held back, or 'theorem'.",
)
@click.option("--resolve", is_flag=True, help="Plan each episode for what is left of the budgets.")
@horizon
@start
@normalize
@click.option(
    "--preset",
    default="default",
    show_default=True,
    shell_complete=completion.presets,
    help="Such as authors (as in the paper's experiments) or theory (with a proof); it depends on the algorithm.",
)
@click.option(
    "--planner",
    shell_complete=completion.planners,
    help="Instead of the preset's: column-generation, linear-program, lagrangian.",
)
@click.option(
    "--bonus",
    metavar="B",
    help="Instead of the preset's: REWARD,COST (scales), adaptive, theory[:DELTA] or bernstein[:DELTA].",
)
@click.option(
    "--pay",
    default="outcome",
    show_default=True,
    help="How a model pays: outcome; bernoulli: ends of a range; or a sampler, MODULE:FUNCTION.",
)
@click.option("--cost", metavar="MODULE:FUNCTION", help="Costs of a step of a Gymnasium environment.")
@click.option("--option", "options", help="A parameter of the algorithm, such as rate.", **repeated(read_settings))
@click.option("--prime", type=click.Path(path_type=Path), help="Logged episodes to start from: .csv, .npz, .parquet.")
@click.option(
    "--reward-range",
    type=float,
    nargs=2,
    metavar="LOW HIGH",
    help="Of one step. [default: the model's; 0 1 if unknown]",
)
@click.option("--cost-range", "cost_ranges", help="The same of a cost: NAME=LOW,HIGH.", **repeated(read_bounds))
@click.option("--out", type=click.Path(path_type=Path), help="Directory for history and checkpoint.")
@imports
@as_json
def learn(
    options: dict[str, Any],
    planner: str | None,
    bonus: str | None,
    resolve: bool,
    epsilon: float | str | None,
    prime: Path | None,
    out: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Learn to act in ENV within its limits, episode by episode, without knowing its model.

    ENV is sampled. What is learned is compared with the optimum where the model is known. With --out a run that was
    interrupted, even killed, is continued by the same command, to the same result.
    """
    load_numba()
    from conrl.cli import run_records, run_tables
    from conrl.experiments.jobs import Job, Run

    if given["budgets"] and any(given[name] for name in ("limits", "floors", "never", "chance", "cvar")):
        raise SpecError("--budget replaces --limit, --floor, --never, --chance and --cvar; give one kind")
    if not given["budgets"] and (epsilon is not None or resolve):
        raise SpecError("--epsilon and --resolve go with --budget")
    apart = {"planner": planner, "bonus": bonus, "resolve": resolve or None}  # these have an option of their own
    own = {name: value for name, value in apart.items() if value is not None}
    if twice := own.keys() & options.keys():
        raise SpecError(f"--{min(twice)} and --option {min(twice)}= say the same; give one of them")
    job = Job(
        **given,
        epsilon=epsilon or 0.0,
        options={name: value for name, value in (own | options).items() if value is not None},
        prime=None if prime is None else str(prime),
        allow_import=True,  # typed by the user
    )
    run = Run(job, out)
    try:
        run.check()  # limits that nobody can keep end here, before anything is written
    except ConRLError as error:
        if error.key[:1] == ("options",) and error.key[1:2] and error.key[1] in own:
            error.key = error.key[1:]
        raise
    played = 0

    def count(history: object) -> None:
        nonlocal played
        played += 1

    history = run.play(not as_json, count)
    before = len(history) - played
    record = run_records.learn_record(job.env, job.algorithm, job.seed, history)
    said = f"wrote {run.directory}, continued after episode {before}" if before else f"wrote {run.directory}"
    said = said if played else f"{run.directory} was finished before: nothing was played"
    wrote = [] if run.directory is None else [said]
    show(as_json, record, lambda: [*run_tables.learn_tables(record, history), *wrote])
    if history.interrupted:
        again = "continues it" if run.learner.resumes else "plays it from its first episode: its learner has no state"
        hint = "" if out is None else f"; the same command {again}"
        return complain(f"interrupted after {len(history)} of {job.episodes} episodes{hint}", 130)
    return 0

"""The commands for studies: run, reproduce, tune, report. Heavy imports are local to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from conrl.cli.command import complain, show
from conrl.cli.options import allow_import, as_json, check_file, imports
from conrl.errors import RunError, SpecError
from conrl.wording import counted

if TYPE_CHECKING:
    from conrl.experiments import Outcome, Spec, Study
    from conrl.experiments.execution import Manner

OUT = "Directory of the study."
FAILED = 4  # exit code: some runs failed
QUICK_SEEDS = 2
# Trajectories of `reproduce --quick`, by learner.
QUICK = {"conrl": 600, "rcpo": 3000, "appropo": 3000, "tfw-ucrl2": 5000}
QUICK_DOPE = 10_000  # of every learner


_workers = click.option("--workers", type=click.IntRange(1), metavar="N", help="Local processes. [default: all cores]")
_dask = click.option("--dask", metavar="ADDRESS", help="A Dask scheduler, such as tcp://127.0.0.1:8786.")


def read_spec(path: Path, allow_import: bool = False) -> Spec:
    """A spec in a file, or one that comes with the package by its name."""
    from conrl.experiments import builtin_spec, load_spec

    # A directory of that name is no spec: `reproduce figure1` makes one.
    return builtin_spec(str(path)) if not path.suffix and not path.is_file() else load_spec(path, allow_import)


def play(spec: Spec, out: Path, workers: int | None, dask: str | None, manner: Manner | None = None) -> int:
    """Run a study with its live view; the exit code."""
    from conrl.experiments import run_study
    from conrl.experiments.execution import EPISODES
    from conrl.experiments.view import watching

    with watching(spec.jobs) as listener:
        outcome = run_study(spec, out, workers, dask, listener, manner or EPISODES)
    return tell(spec, outcome, out)


def tell(spec: Spec, outcome: Outcome, out: Path) -> int:
    """Say what came of a study."""
    parts = [f"{counted(outcome.finished, 'run')} played"]
    if outcome.before:
        parts.append(f"{outcome.before} were finished before")
    click.echo(f"{spec.name}: {', '.join(parts)}, of {outcome.runs}; in {out}")
    for index, text in sorted(outcome.failed.items()):
        job = spec.jobs[index]
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        click.echo(f"Failed: {job.env_name} {job.name} seed {job.seed}: {' '.join(last.split())}", err=True)
    if outcome.interrupted:
        return complain("interrupted; run the same command to resume", 130)
    if outcome.failed:
        return complain(
            f"{counted(len(outcome.failed), 'run')} failed; failed.txt in a run's directory has the traceback", FAILED
        )
    return 0


@click.command(
    epilog="""\b
Examples:
  conrl run study.toml --out study
  conrl run study.toml --out study --workers 2
  conrl run study.toml --out /shared/study --dask tcp://127.0.0.1:8786

Run the same command again to go on after an interruption; finished runs are not played again, and what a changed spec
adds is added. On a cluster the directory must be one that all workers see.

Exit code 4: some runs failed; the others went on."""
)
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help=f"{OUT} [default: the spec's name]")
@_workers
@_dask
@allow_import
@imports
def run(spec: Path, out: Path | None, workers: int | None, dask: str | None, allow_import: bool) -> int:
    """Run the study that SPEC describes: environments x algorithms x seeds.

    SPEC is a TOML file, or figure1, figure2, table1 or dope, which come with conrl.
    """
    study = read_spec(spec, allow_import)
    return play(study, Path(spec.stem) if out is None else out, workers, dask)


@click.command(
    epilog="""\b
Examples:
  conrl reproduce figure1 --quick
  conrl reproduce figure1 --out figure1
  conrl reproduce figure2
  conrl reproduce dope

figure1 and figure2 are those of Brantley et al. (2020); dope compares safe exploration on the models of Bura et al.
(2022). Writes the runs, figure1.png, figure1.pdf and summary.csv into the directory. On two cores the full figure 1
takes half an hour to an hour, dope ten minutes, --quick a minute or two. All go on where they were interrupted."""
)
@click.argument("figure", type=click.Choice(["figure1", "figure2", "dope"]))
@click.option("--quick", is_flag=True, help="Fewer seeds and trajectories; the figure says so.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Directory of the study. [default: FIGURE or FIGURE-quick]"
)
@_workers
@_dask
def reproduce(figure: str, quick: bool, out: Path | None, workers: int | None, dask: str | None) -> int:
    """Draw a figure of a paper from new runs."""
    directory = Path(f"{figure}-quick" if quick else figure) if out is None else out
    draw = reproduce_dope if figure == "dope" else reproduce_figure
    return draw(figure, quick, directory, workers, dask)


def reproduce_figure(figure: str, quick: bool, directory: Path, workers: int | None, dask: str | None) -> int:
    """The paper's figures."""
    from conrl.experiments import builtin_spec, load
    from conrl.experiments.figures import save_study_figure
    from conrl.experiments.summaries import import_polars

    import_polars()  # what the summary needs is missed now, not after half an hour
    full = builtin_spec(figure)
    code = play(quickened(full, QUICK) if quick else full, directory, workers, dask)
    if code != 0:  # a figure of some of the runs would pass for one of all
        return code
    study = load(directory)
    there = {(run.environment, run.algorithm, run.seed): run.episodes for run in study.runs}
    short = any(there.get((*job.kind, job.seed), 0) < job.episodes for job in full.jobs)
    note = f"Quick: {QUICK_SEEDS} seeds and fewer trajectories than the paper's figure." if quick and short else ""
    paths = save_study_figure(study, directory / figure, note)
    study.save_csv(directory / "summary.csv", follow=False)
    for path in (*paths, directory / "summary.csv"):
        click.echo(f"wrote {path}")
    return code


def reproduce_dope(name: str, quick: bool, directory: Path, workers: int | None, dask: str | None) -> int:
    """Safe exploration, in blocks of episodes."""
    from conrl.cli import study_tables, terminal
    from conrl.experiments import builtin_spec, dope
    from conrl.experiments.block_runs import BLOCKS

    full = builtin_spec(name)
    spec = quickened(full, dict.fromkeys((job.algorithm for job in full.jobs), QUICK_DOPE)) if quick else full
    code = play(spec, directory, workers, dask, BLOCKS)
    if code != 0:
        return code
    arms = dope.load_arms(spec, directory)
    note = f"Quick: {QUICK_SEEDS} seeds and {QUICK_DOPE:,} episodes." if quick else ""
    paths = dope.save_study(arms, directory, name, note)
    terminal.show(*study_tables.safety_tables(dope.summary(arms)))
    for path in paths:
        click.echo(f"wrote {path}")
    return code


def quickened(spec: Spec, most: Mapping[str, int]) -> Spec:
    """The same study with few seeds, and so many trajectories of each learner."""
    jobs = [
        dataclasses.replace(job, episodes=min(job.episodes, most[job.algorithm]))
        for job in spec.jobs
        if job.seed < QUICK_SEEDS
    ]
    return dataclasses.replace(spec, jobs=jobs, title=f"{spec.title} (quick)")


@click.command(
    epilog="""\b
Examples:
  conrl tune study.toml --out tuning

SPEC has a table [tune], or is table1, the paper's grid of 504 settings. The directory gets trials.csv, best.json
and the runs. Run the same command again to go on after an interruption."""
)
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default="tuning", show_default=True, help=OUT)
@_workers
@allow_import
@imports
def tune(spec: Path, out: Path, workers: int | None, allow_import: bool) -> int:
    """Search for the best setting of an algorithm: a grid, or Optuna's samplers."""
    from conrl.cli import study_tables, terminal
    from conrl.experiments.tuning import tune as search
    from conrl.experiments.view import counting

    study = read_spec(spec, allow_import)
    try:
        with counting() as listener:
            trials = search(study, out, workers, listener)
    except KeyboardInterrupt:
        return complain("interrupted; run the same command to resume", 130)
    best = " and best.json" if any(trial.state == "complete" for trial in trials) else ""
    terminal.show(*study_tables.tuning_tables(trials), *([f"wrote {out / 'trials.csv'}{best}"] if trials else []))
    return FAILED if any(trial.state == "failed" for trial in trials) else 0


@click.command(
    epilog="""\b
Examples:
  conrl report figure1
  conrl report runs --out report.html
  conrl report figure1 --csv summary.csv --tensorboard events
  conrl report figure1 --long long.csv --profiles profiles.png
  conrl report figure1 --json

The page works without a network: algorithms compared, curves, the table with intervals over seeds, and for each
environment a slider over its limit. Algorithms are compared over the episodes that all runs in an environment have;
curves are whole. --long writes a row for each environment, algorithm, seed and metric. --tensorboard
writes events files for TensorBoard."""
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The page. [default: DIRECTORY/report.html]")
@click.option("--whole", is_flag=True, help="Compare each run over all its episodes, not over those that all have.")
@click.option("--csv", "table", type=click.Path(path_type=Path), help="Also write the table, as CSV.")
@click.option("--long", type=click.Path(path_type=Path), help="Also write all numbers of all runs, as CSV.")
@click.option("--profiles", type=click.Path(path_type=Path), help="Also draw performance profiles: .png, .pdf or .svg.")
@click.option("--tensorboard", type=click.Path(path_type=Path), help="Also write events files under this directory.")
@imports
@as_json
def report(
    directory: Path,
    out: Path | None,
    whole: bool,
    table: Path | None,
    long: Path | None,
    profiles: Path | None,
    tensorboard: Path | None,
    as_json: bool,
) -> None:
    """One self-contained HTML page of all runs under DIRECTORY."""
    from conrl.cli import study_records, study_tables
    from conrl.drawing import PICTURES
    from conrl.experiments import load
    from conrl.experiments.report import write_report

    named = {"--out": out, "--csv": table, "--long": long, "--profiles": profiles}
    for option, path in named.items():  # before any of them is written
        if path is not None:
            check_file(option, path, PICTURES if path is profiles else None)
    if tensorboard is not None and tensorboard.exists() and not tensorboard.is_dir():
        raise SpecError(f"--tensorboard {tensorboard}: it is a file; name a directory")
    study = load(directory, whole)
    if not study.runs:
        raise RunError(f"{directory} holds no run that was played; {len(study.failures)} failed")
    wrote = [write_report(study, out)]
    if table is not None:
        study.save_csv(table)
        wrote.append(table)
    if long is not None:
        study.save_long(long)
        wrote.append(long)
    if profiles is not None:
        wrote.append(draw_profiles(study, profiles))
    if tensorboard is not None:
        from conrl.experiments.tensorboard import export

        export(study, tensorboard)
        wrote.append(tensorboard)
    record = study_records.study_record(study, wrote)
    show(as_json, record, lambda: [*study_tables.study_tables(record), *(f"wrote {path}" for path in wrote)])
    for line in study.unreadable:
        click.echo(f"left out: {line}", err=True)
    for name, env in study.environments.items():
        if env.unknown:
            click.echo(f"{name}: {env.unknown}", err=True)


def draw_profiles(study: Study, path: Path) -> Path:
    """The picture of `--profiles`."""
    from conrl.drawing import save_figure
    from conrl.experiments.profiles import profile_figure

    save_figure(profile_figure(study), path)
    return path

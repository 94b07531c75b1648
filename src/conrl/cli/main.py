"""The command line: each command is one library call and one rendering.

Exit codes: 0 done; 2 the input makes no sense, with one line on stderr that names the culprit and the remedy;
3 no policy keeps the limits, with the conflict. Then nothing was written. 4 some runs of a study failed, the others are
there; 130 interrupted, by Ctrl-C or SIGTERM, with everything saved that was played.

Heavy imports are local to the commands, so that `conrl --help` answers at once.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from conrl import __version__
from conrl.cli import completion
from conrl.cli import studies as cli_studies
from conrl.cli.options import check_files, read_bounds, read_limits, read_settings, read_share
from conrl.errors import ConRLError, InfeasibleError, SpecError, printable
from conrl.signals import interruptible_command

if TYPE_CHECKING:
    from conrl.problem import Knapsack

MOST_EPISODES = 10_000_000  # that --simulate plays: their totals are held in memory
LONGEST = 2**31 - 1  # steps of an episode
TABLES = (".npz", ".csv")  # that a policy is written as


class Command(click.Command):
    """A command whose errors say which of its options they are about."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except ConRLError as error:
            if option := self.option_of(error.key):
                error.args = (f"{option}: {error}", *error.args[1:])
            raise

    def option_of(self, key: tuple[str, ...]) -> str:
        """The option that gave what the key of an error names, and the NAME in NAME=X; empty if none did."""
        names = {p.name: p.opts[0] for p in self.params if isinstance(p, click.Option)}
        inner = key[1:] if key[:1] == ("options",) and key[1:2] and key[1] in names else key
        if not inner or inner[0] not in names:
            return ""
        return " ".join((names[inner[0]], ".".join(inner[1:]))).rstrip()


class Commands(click.Group):
    """The one place where an error becomes a line on stderr and an exit code."""

    command_class = Command

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and exit with its code, or with that of the error it ended in."""
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no failure
        if "numba" not in sys.modules:  # once loaded, it would read all of its settings again
            # It colors its messages if it finds colorama, which then writes an escape at the end of every program.
            os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
        gc.set_threshold(100_000)  # what a command loads stays: looking for garbage in it is a tenth of its time
        try:
            with interruptible_command():
                code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except InfeasibleError as error:
            code = _complain(str(error), 3)
        except ConRLError as error:
            for message in error.messages:
                code = _complain(message, 2)
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "conrl"
            message = error.format_message().rstrip(".")
            code = _complain(f"{message}{' See' if message.endswith('?') else '; see'} {where} --help", 2)
        except click.ClickException as error:
            code = _complain(error.format_message(), 2)
        except (click.Abort, KeyboardInterrupt):
            code = _complain("interrupted", 130)
        except (MemoryError, OverflowError) as error:
            reason = str(error).rstrip(".") or "out of memory"
            code = _complain(f"too large for this machine: {reason}; make the model or the horizon smaller", 2)
        except OSError as error:
            name = f"{error.filename}: " if error.filename else ""
            code = _complain(f"{name}{error.strerror or error}", 2)
        # After an interrupt within an `exec`, CPython ends `python -m` by SIGINT, whatever the code. Another one makes
        # it forget.
        exec("")
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _said_as_it_is():
            return super().make_context(*args, **kwargs)

    def invoke(self, context: click.Context) -> Any:
        with _said_as_it_is():
            return super().invoke(context)


@contextmanager
def _said_as_it_is() -> Iterator[None]:
    """What click would make of two exceptions is not made of them.

    It takes an EOFError for a key pressed at a prompt; no command asks anything, so that it is a failure to read.
    It ends the line on which a terminal shows ^C; where there is none, nothing stands before the message.
    """
    try:
        yield
    except EOFError as error:
        raise OSError(f"what was being read ended too soon: {error}") from error
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            raise
        raise click.Abort from None


def _complain(message: str, code: int) -> int:
    line = printable(" ".join(message.split()))
    click.echo(f"Error: {line}", err=True)
    return code


def _load_numba() -> None:
    """As numba loads itself, but without a question that takes it a quarter of a second: whether scipy has a BLAS.

    numba asks for the sake of `np.convolve`, which no kernel calls. Not for a library to do, only for a program.
    Who sits at a terminal is told if kernels must be compiled first.
    """
    if "numba" not in sys.modules and "scipy.linalg" not in sys.modules:
        sys.modules["scipy.linalg"] = None  # type: ignore[assignment]  # what is None cannot be imported
        try:
            importlib.import_module("numba.np.arraymath")
        finally:
            del sys.modules["scipy.linalg"]
    if sys.stderr.isatty():
        from conrl.kernels.compiling import TELL

        TELL.append(lambda: click.echo("compiling, once, for some seconds ...", err=True))


def _repeated(read: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return {"metavar": "NAME=X", "multiple": True, "callback": read}


def _model_options(command: Callable[..., None]) -> Callable[..., None]:
    """What `plan` and `frontier` share."""
    options = (
        click.argument("model", shell_complete=completion.model),
        click.option(
            "--limit", "limits", help="Limit on an expected total cost; inf for none.", **_repeated(read_limits)
        ),
        click.option("--horizon", type=click.IntRange(1, LONGEST), help="Steps of an episode. CSV files need it."),
        click.option("--set", "settings", help="A parameter of a built-in environment.", **_repeated(read_settings)),
        click.option("--start", metavar="STATE", help="First state, by name or index."),
        click.option("--tol", type=float, show_default="1e-9", help="Tolerance of the certificate."),
        click.option("--out", type=click.Path(path_type=Path), multiple=True, help="File to write; may be repeated."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="""\b
Examples:
  conrl plan mars-rover --set rock_reward=1
  conrl frontier box
  conrl learn mars-rover --set rock_reward=1 --out runs
  conrl envs

MODEL is a built-in name (see conrl envs), gymnasium:<id>, or a file .npz or .csv.""",
)
@click.version_option(__version__, prog_name="conrl", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Decisions under budgets: the best policy that keeps every expected cost within its limit."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@main.command(
    epilog="""\b
Examples:
  conrl plan mars-rover --set rock_reward=1
  conrl plan mars-rover --set rock_reward=1 --limit crash=0.2 --out policy.png --out policy.csv
  conrl plan box --simulate 10000 --seed 1
  conrl plan gymnasium:FrozenLake-v1 --horizon 50 --json
  conrl plan mars-rover --set rock_reward=1 --budget crash=100 --episodes 1000
  conrl plan model.csv --horizon 20 --start home --limit fuel=3

--budget keeps a share of it in each episode, in expectation. A plan that uses it all up exceeds it in about half
of the runs; the table says how often. What never exceeds a budget is conrl learn --budget, by its guard.

--out writes the policy: as a picture of the map (.png .pdf .svg), or as a table (.csv .npz).

Exit code 3: no policy keeps the limits.""",
)
@_model_options
@click.option("--floor", "floors", help="Least expected total of a cost.", **_repeated(read_limits))
@click.option(
    "--budget", "budgets", help="Total of a cost over all --episodes, kept in expectation.", **_repeated(read_limits)
)
@click.option("--episodes", type=click.IntRange(1), metavar="K", help="How many episodes share the budgets.")
@click.option("--epsilon", callback=read_share, show_default="0", metavar="E", help="Share held back, or 'theorem'.")
@click.option(
    "--planner",
    default="column-generation",
    show_default=True,
    shell_complete=completion.planners,
    help="Or linear-program, lagrangian.",
)
@click.option("--simulate", "played", type=click.IntRange(1, MOST_EPISODES), metavar="N", help="Play N episodes too.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Of --simulate, and of how often budgets are exceeded.",
)
def plan(
    model: str,
    limits: dict[str, float],
    floors: dict[str, float],
    tol: float | None,
    budgets: dict[str, float],
    episodes: int | None,
    epsilon: float | str | None,
    planner: str,
    played: int | None,
    seed: int,
    out: tuple[Path, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """The best policy of MODEL within its limits, and a proof of how good it is.

    A table of reward, bound and gap, and of each cost against its limit with the price of that limit.
    A policy on a map is drawn as arrows.
    """
    _load_numba()
    from conrl import drawing, evaluation, planners, problem
    from conrl import policy_map as play
    from conrl.cli import json_records, tables
    from conrl.envs import naming
    from conrl.theory.risk import budget_risk

    check_files(out, (*drawing.PICTURES, *TABLES))
    mdp = naming.model(model, limits=limits, **given, allow_import=True)  # typed by the user
    if any(path.suffix in drawing.PICTURES for path in out):
        play.grid_layout(mdp)  # refuses a model that has no map
    asked: problem.Problem = problem.Linear(mdp.limits, floors)
    if budgets or episodes is not None or epsilon is not None:
        asked = _knapsack(budgets, episodes, epsilon, limits, floors)
    best = planners.plan(mdp, asked, planner, tol)
    simulation = None if played is None else evaluation.simulate(mdp, best, played, seed)
    risk = budget_risk(best, seed) if isinstance(asked, problem.Knapsack) else None
    for path in out:
        if path.suffix in drawing.PICTURES:
            drawing.save_figure(drawing.policy_figure(best), path)
        else:
            best.policy.save(path, mdp)
    record = json_records.plan_record(model, best, simulation, risk)
    one = " (as one policy, drawn step by step)" if best.weights.size > 1 else ""
    wrote = [f"wrote {path}{one if path.suffix in TABLES else ''}" for path in out]
    _show(as_json, record, lambda: [*tables.plan_tables(record, best), *wrote])


def _show(as_json: bool, record: dict[str, Any], parts: Callable[[], Iterable[Any]]) -> None:
    """What a command found: its record as JSON, or the parts that people read."""
    from conrl.cli import json_records, terminal

    if as_json:
        click.echo(json_records.to_json(record))
    else:
        terminal.show(*parts())


def _knapsack(
    budgets: dict[str, float],
    episodes: int | None,
    epsilon: float | str | None,
    limits: dict[str, float],
    floors: dict[str, float],
) -> Knapsack:
    """The question that --budget and --episodes ask together."""
    from conrl import problem

    if not budgets or episodes is None:
        raise SpecError("--budget needs --episodes: so much in all, for so many episodes; --epsilon goes with both")
    if limits or floors:
        raise SpecError("--budget replaces --limit and --floor; give one kind")
    return problem.Knapsack(budgets, episodes, epsilon or 0.0)


@main.command(
    epilog="""\b
Examples:
  conrl frontier mars-rover --set rock_reward=1 --out frontier.png
  conrl frontier box --cost corner --out frontier.csv
  conrl frontier random --set costs=2 --cost cost0 --limit cost1=12 --max-vertices 50
  conrl frontier mars-rover --json

--out writes the curve: as a picture (.png .pdf .svg), or as a table (.csv).""",
)
@_model_options
@click.option("--cost", metavar="NAME", help="Whose limit to vary; may be left out if there is one cost.")
@click.option("--max-vertices", type=click.IntRange(2), help="Stop after so many vertices.")
def frontier(
    model: str,
    tol: float | None,
    cost: str | None,
    max_vertices: int | None,
    out: tuple[Path, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """The best reward of MODEL as a function of one limit, exactly.

    The limits on the other costs stay as they are, or as --limit says.
    """
    _load_numba()
    from conrl import drawing
    from conrl.cli import json_records, tables
    from conrl.envs import naming
    from conrl.planners.frontier import frontier

    check_files(out, (*drawing.PICTURES, ".csv"))
    mdp = naming.model(model, **given, allow_import=True)  # typed by the user
    if mdp.num_costs == 0:
        raise SpecError(f"{model} has no costs; a frontier needs a model with at least one")
    if cost is None and mdp.num_costs > 1:
        raise SpecError(f"{model} has {mdp.num_costs} costs; choose one with --cost: {', '.join(mdp.cost_names)}")
    curve = frontier(mdp, 0 if cost is None else cost, 1e-9 if tol is None else tol, max_vertices)
    for path in out:
        if path.suffix in drawing.PICTURES:
            drawing.save_figure(drawing.frontier_figure(curve), path)
        else:
            curve.save(str(path))
    record = json_records.frontier_record(model, curve)
    _show(as_json, record, lambda: [*tables.frontier_tables(record, curve), *(f"wrote {path}" for path in out)])


@main.command(
    epilog="""\b
Examples:
  conrl learn mars-rover --set rock_reward=1 --episodes 600
  conrl learn box --seed 1 --out runs
  conrl learn pricing --budget stock=800 --episodes 200 --resolve
  conrl learn mars-rover --preset authors --set rock_reward=1
  conrl learn mars-rover --set rock_reward=1 --algorithm optcmdp --episodes 100
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
    help="Who learns; see conrl algorithms.",
)
@click.option("--episodes", type=click.IntRange(1), default=600, show_default=True, metavar="K", help="How many.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of all randomness.")
@click.option("--set", "settings", help="A parameter of a built-in environment.", **_repeated(read_settings))
@click.option("--limit", "limits", help="Limit on an expected total cost; inf for none.", **_repeated(read_limits))
@click.option(
    "--budget", "budgets", help="Total of a cost over all episodes: never exceeded.", **_repeated(read_limits)
)
@click.option(
    "--epsilon",
    callback=read_share,
    show_default="0",
    metavar="E",
    help="Share of the budgets held back, or 'theorem'.",
)
@click.option("--resolve", is_flag=True, help="Plan each episode for what is left of the budgets.")
@click.option("--horizon", type=click.IntRange(1, LONGEST), help="Steps of an episode.")
@click.option("--start", metavar="STATE", help="First state, by name or index.")
@click.option(
    "--preset",
    default="default",
    show_default=True,
    shell_complete=completion.presets,
    help="Or authors: as in the paper's experiments.",
)
@click.option(
    "--planner",
    shell_complete=completion.planners,
    help="Instead of the preset's: column-generation, linear-program, lagrangian.",
)
@click.option("--bonus", metavar="B", help="Instead of the preset's: REWARD,COST (scales), theory or theory:DELTA.")
@click.option(
    "--pay", default="outcome", show_default=True, help="How a model pays: outcome, or bernoulli: ends of a range."
)
@click.option("--option", "options", help="A parameter of the algorithm, such as rate.", **_repeated(read_settings))
@click.option("--prime", type=click.Path(path_type=Path), help="Logged episodes to start from (.csv or .npz).")
@click.option("--reward-range", type=float, nargs=2, help="Of one step. [default: the model's; 0 1 if unknown]")
@click.option("--cost-range", "cost_ranges", help="The same of a cost: NAME=LOW,HIGH.", **_repeated(read_bounds))
@click.option("--out", type=click.Path(path_type=Path), help="Directory for history and checkpoint.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
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
    _load_numba()
    from conrl.cli import json_records, tables
    from conrl.experiments.jobs import Job, Run

    if given["budgets"]:
        given["epsilon"] = _knapsack(given["budgets"], given["episodes"], epsilon, given["limits"], {}).epsilon
    elif epsilon is not None or resolve:
        raise SpecError("--epsilon and --resolve go with --budget")
    parts = {"planner": planner, "bonus": bonus, "resolve": resolve or None, **options}
    job = Job(
        **given,
        options={name: value for name, value in parts.items() if value is not None},
        prime=None if prime is None else str(prime),
        allow_import=True,  # typed by the user
    )
    run = Run(job, out)
    run.check()  # limits that nobody can keep end here, before anything is written
    played = 0

    def count(history: object) -> None:
        nonlocal played
        played += 1

    history = run.play(not as_json, count)
    before = len(history) - played
    record = json_records.learn_record(job.env, job.algorithm, job.seed, history)
    said = f"wrote {run.directory}, continued after episode {before}" if before else f"wrote {run.directory}"
    said = said if played else f"{run.directory} was finished before: nothing was played"
    wrote = [] if run.directory is None else [said]
    _show(as_json, record, lambda: [*tables.learn_tables(record, history), *wrote])
    if history.interrupted:
        hint = "" if out is None else "; the same command continues it"
        return _complain(f"interrupted after {len(history)} of {job.episodes} episodes{hint}", 130)
    return 0


@main.command(
    epilog="""\b
Examples:
  conrl envs
  conrl envs --json"""
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def envs(as_json: bool) -> None:
    """What is built in: sizes, limits, and the optimum within them."""
    _load_numba()
    from conrl import planners
    from conrl.cli import json_records, tables
    from conrl.envs import available, make

    records = [json_records.env_record(entry, planners.plan(make(entry.name))) for entry in available()]
    _show(as_json, {"environments": records}, lambda: tables.envs_tables(records))


@main.command(
    epilog="""\b
Examples:
  conrl algorithms
  conrl algorithms --json"""
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def algorithms(as_json: bool) -> None:
    """Who learns: what conrl learn --algorithm takes, in one line each, with its paper."""
    from conrl.cli import json_records, tables
    from conrl.experiments import parts
    from conrl.learners import LEARNERS

    records = [json_records.algorithm_record(kind, parts.defaults(kind)) for kind in LEARNERS.values()]
    _show(as_json, {"algorithms": records}, lambda: tables.algorithms_tables(records))


for command in (cli_studies.run, cli_studies.reproduce, cli_studies.tune, cli_studies.report):
    main.add_command(command)

"""The command line: each command is one library call and one rendering.

Exit codes: 0 done; 2 the input makes no sense, with one line on stderr that names the culprit and the remedy;
3 no policy keeps the limits, with the conflict. Then nothing was written. 4 some runs of a study failed, the others are
there; 5 a policy that runs is not what was promised; 130 interrupted, by Ctrl-C or SIGTERM, with everything saved that
was played.

Heavy imports are local to the commands, so that `conrl --help` answers at once.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from conrl import __version__
from conrl.cli import check, explore, learn, logs, plan, running, studies
from conrl.cli.command import Command, complain, load_kernels, show, warnings_said
from conrl.cli.options import as_json, imports
from conrl.errors import ConRLError, InfeasibleError, printable
from conrl.signals import interruptible_command


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
            code = complain(str(error), 3)
        except ConRLError as error:
            for message in error.messages:
                code = complain(message, 2)
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "conrl"
            message = error.format_message().rstrip(".")
            code = complain(f"{message}{' See' if message.endswith('?') else '; see'} {where} --help", 2)
        except click.ClickException as error:
            code = complain(error.format_message(), 2)
        except (click.Abort, KeyboardInterrupt):
            code = complain("interrupted", 130)
        except (MemoryError, OverflowError) as error:
            reason = str(error).rstrip(".") or "out of memory"
            code = complain(f"too large for this machine: {reason}; make the model or the horizon smaller", 2)
        except UnicodeEncodeError as error:
            code = complain(f"{error.object!r}: {error.reason}; no file has such a name", 2)
        except OSError as error:
            name = f"{error.filename}: " if error.filename else ""
            code = complain(f"{name}{error.strerror or error}", 2)
        # After an interrupt within an `exec`, CPython ends `python -m` by SIGINT, whatever the code. Another one makes
        # it forget.
        exec("")
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _said_as_it_is():
            return super().make_context(*args, **kwargs)

    def invoke(self, context: click.Context) -> Any:
        with _said_as_it_is(), warnings_said():
            return super().invoke(context)


@contextmanager
def _said_as_it_is() -> Iterator[None]:
    """Keep click from converting two exceptions.

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


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="""\b
Examples:
  conrl plan mars-rover --set rock_reward=1
  conrl frontier box
  conrl explore mars-rover
  conrl learn mars-rover --set rock_reward=1 --out runs
  conrl envs

MODEL is a name (see conrl envs), gymnasium:<id>, or a file .npz, .csv, .tsv, .xlsx or .drn;
conrl plan and conrl explore also take fleets (.toml). conrl check lists what is wrong with a file of any kind.""",
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
  conrl envs
  conrl envs --json"""
)
@imports
@as_json
def envs(as_json: bool) -> None:
    """What is built in: sizes, limits, and the optimum within them. And the plug-ins."""
    load_kernels()
    from conrl import planning
    from conrl.cli import json_records, tables
    from conrl.envs import available, make
    from conrl.envs.registry import PLUGINS

    records = [json_records.env_record(entry, planning.plan(make(entry.name))) for entry in available()]
    found, broken = PLUGINS.plugins()
    plugins = [json_records.plugin_env_record(entry, PLUGINS.source(name)) for name, entry in found.items()]
    record = {"environments": records, "plugins": plugins, "broken": broken}
    show(as_json, record, lambda: tables.envs_tables(records, plugins))
    _tell(broken)


def _tell(broken: list[str]) -> None:
    for line in broken:
        click.echo(f"left out: {printable(line)}", err=True)


@main.command(
    epilog="""\b
Examples:
  conrl algorithms
  conrl algorithms --json"""
)
@imports
@as_json
def algorithms(as_json: bool) -> None:
    """The algorithms that conrl learn --algorithm takes, in one line each, with the paper. And planners of plug-ins."""
    from conrl import learners, planners
    from conrl.cli import json_records, tables
    from conrl.experiments import parts

    records = [json_records.algorithm_record(kind, parts.defaults(kind)) for kind in learners.LEARNERS.values()]
    found, broken = learners.PLUGINS.plugins()
    for name, kind in found.items():
        about = json_records.algorithm_record(kind, parts.defaults(kind))
        records.append(about | json_records.source_record(learners.PLUGINS.source(name)))
    others, more = planners.PLUGINS.plugins()
    own = [json_records.planner_record(name, kind, planners.PLUGINS.source(name)) for name, kind in others.items()]
    record = {"algorithms": records, "planners": own, "broken": broken + more}
    show(as_json, record, lambda: tables.algorithms_tables(records, own))
    _tell(broken + more)


for command in (
    plan.plan,
    plan.frontier,
    explore.explore,
    check.check,
    logs.assess,
    running.act,
    running.monitor,
    learn.learn,
    studies.run,
    studies.reproduce,
    studies.tune,
    studies.report,
):
    main.add_command(command)

"""What commands share: errors that name an option, loading numba quickly, and how a result is shown."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from conrl.errors import ConRLError, InfeasibleError, ModelWarning, printable
from conrl.wording import by_command

NOT_KEPT = (
    "kernels cannot be kept, as no place for them is writable, and are compiled anew at each start, for some seconds; "
    "set NUMBA_CACHE_DIR to a directory that is"
)


class Command(click.Command):
    """A command whose errors say which of its options they are about; with `--json`, why there is no plan is said on
    stdout too."""

    def invoke(self, context: click.Context) -> Any:
        try:
            with by_command():
                return super().invoke(context)
        except ConRLError as error:
            if option := self.option_of(_given(error.key, context.params)):
                error.args = (f"{option}: {error}",)
            if isinstance(error, InfeasibleError) and context.params.get("as_json"):
                from conrl.cli import json_records, plan_records

                click.echo(json_records.to_json(plan_records.infeasible_record(error)))
            raise

    def option_of(self, key: tuple[str, ...]) -> str:
        """The option that gave what the key of an error names, and the NAME in NAME=X; empty if none did."""
        names = {p.name: p.opts[0] for p in self.params if isinstance(p, click.Option)}
        if not key or key[0] not in names:
            return ""
        return " ".join((names[key[0]], ".".join(key[1:]))).rstrip()


@contextmanager
def warnings_said() -> Iterator[None]:
    """What a file makes one wonder is a line on stderr, said once."""
    said: set[str] = set()
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show_warning(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if not issubclass(category, ModelWarning):
                usual(message, category, *rest)
            elif str(message) not in said:
                said.add(str(message))
                warn(str(message))

        warnings.simplefilter("always", ModelWarning)
        warnings.showwarning = show_warning  # type: ignore[assignment]  # it passes all arguments on
        yield


def _given(key: tuple[str, ...], given: Mapping[str, Any]) -> tuple[str, ...]:
    """The key of an error about the horizon, or about what was given in its place."""
    instead = [name for name in ("discount", "average", "total") if given.get(name) not in (None, False)]
    return (instead[0], *key[1:]) if key[:1] == ("horizon",) and instead else key


def warn(message: str) -> None:
    """A line on stderr about what may be a mistake."""
    click.echo(f"Warning: {printable(' '.join(message.split()))}", err=True)


def complain(message: str, code: int) -> int:
    """A line on stderr about what went wrong; the exit code is handed on."""
    line = printable(" ".join(message.split()))
    click.echo(f"Error: {line}", err=True)
    return code


def load_kernels() -> None:
    """Before a command that calls few kernels: they run without numba if their compiled code is on disk."""
    from conrl import without_numba

    without_numba.begin(_import_numba)
    _tell_of_compiling()


def load_numba() -> None:
    """Before a command that calls kernels many thousand times."""
    _import_numba()
    _tell_of_compiling()


def _import_numba() -> None:
    """As numba loads itself, but without a question that takes it a quarter of a second: whether scipy has a BLAS.

    numba asks for the sake of `np.convolve`, which no kernel calls. Not for a library to do, only for a program.
    """
    if "numba" not in sys.modules and "scipy.linalg" not in sys.modules:
        sys.modules["scipy.linalg"] = None  # type: ignore[assignment]  # what is None cannot be imported
        try:
            importlib.import_module("numba.np.arraymath")
        finally:
            del sys.modules["scipy.linalg"]


def _tell_of_compiling() -> None:
    """At a terminal, say so if kernels must be compiled first; anywhere, if they will be each time."""
    from conrl.kernels.compiling import TELL, UNKEPT

    UNKEPT[:] = [lambda: warn(NOT_KEPT)]
    if sys.stderr.isatty():
        TELL.append(lambda: click.echo("compiling, once, for some seconds ...", err=True))


def show(as_json: bool, record: dict[str, Any], parts: Callable[[], Iterable[Any]]) -> None:
    """What a command found: its record as JSON, or the parts that people read."""
    from conrl.cli import json_records, terminal

    if as_json:
        click.echo(json_records.to_json(record))
    else:
        terminal.show(*parts())

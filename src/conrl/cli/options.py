"""Reading the words of the command line: NAME=X, numbers, values as in JSON, files to be written."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from conrl.errors import SpecError

LONGEST = 2**31 - 1  # steps of an episode


def assignments(
    split: Callable[[str, str], tuple[str, str, str]],
    parse: Callable[[str], Any],
    example: str,
    kind: str = "a number",
    side: str = "",
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, Any]]:
    """Reads a repeated option NAME=X into what each name is given; `split` cuts at the first or the last `=`.

    `side`: of a bound, which may also be written NAME<=X, or NAME>=X."""

    def read(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for text in texts:
            name, sign, value = (part.strip() for part in split(text, "="))
            if side:
                _refuse_several(option.opts[0], text)
                name = _without_side(option.opts[0], text, name, side)
            if not sign or not name:
                raise click.BadParameter(f"{text!r} is not of the form NAME=X; write for example {example}")
            if name in given:
                raise click.BadParameter(f"{name} is given twice")
            try:
                given[name] = parse(value)
            except ValueError:
                raise click.BadParameter(f"{value!r} in {text!r} is not {kind}{_number_hint(value, kind)}") from None
        return given

    return read


def _refuse_several(option: str, text: str) -> None:
    """Explain how bounds on several costs are given: each by an option of its own."""
    if re.search(r"=\s*[+-]?(inf|\.?\d)[^=]*[,;][^=]+=", text):
        each = " ".join(f"{option} {shlex.quote(one.strip())}" for one in re.split("[,;](?=[^,;=]+=)", text))
        raise click.BadParameter(f"{text!r} is more than one; write {each}")


def _without_side(option: str, text: str, name: str, side: str) -> str:
    """The name before <= or >=, which must say what the option says."""
    if name.endswith("<" if side == ">" else ">"):
        other, least = ("--limit", "most") if side == ">" else ("--floor", "least")
        raise click.BadParameter(
            f"{text!r} says at {least}, which is {other}; {option} is written NAME=X or NAME{side}=X"
        )
    return name.removesuffix(side).rstrip()


def _number_hint(value: str, kind: str = "a number") -> str:
    """How a number is written that is written otherwise."""
    if kind != "a number":
        return ""
    if re.fullmatch(r"[+-]?\d+,\d+", value):
        return f"; write {value.replace(',', '.')}"
    if re.fullmatch(r"\d+([.,]\d+)? ?%", value):
        return f"; {value} is {float(value.rstrip('% ').replace(',', '.')) / 100.0:g}"
    return ""


def _real(text: str) -> float:
    number = float(text)
    if math.isnan(number):
        raise ValueError(text)
    return number


def _share(text: str) -> float:
    """A probability, which may have a percent sign: 95% is 0.95, to the last bit."""
    return _real(re.sub(r"\s*%$", "e-2", text))


def probability(text: object) -> float:
    """The type of an option: 0.95, or 95%."""
    try:
        return _share(str(text))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number{_number_hint(str(text))}") from None


def _anything(text: str) -> Any:
    """A number, true, false, null or a list as in JSON; else the text itself."""
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
    except (ValueError, RecursionError):
        return text


def _range(text: str) -> tuple[float, float]:
    low, high = map(_real, text.split(","))
    return low, high


# The name of a cost may hold any sign, that of a parameter may not.
read_limits = assignments(str.rpartition, _real, "crash=0.3", side="<")
read_floors = assignments(str.rpartition, _real, "crash=0.3", side=">")
read_amounts = assignments(str.rpartition, _real, "crash=0.3")
read_bounds = assignments(str.rpartition, _range, "crash=0,1", "LOW,HIGH")
read_settings = assignments(str.partition, _anything, "rock_reward=1")


_SHARE = {"the probability": (0.0, 1.0), "the level": (0.0, 0.999999)}  # what numbers may be, and how they are called


def _tail(
    form: str, mark: str, names: tuple[str, ...], example: str
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, list[tuple[float, ...]]]]:
    """Reads a repeated option such as NAME>X:P into the numbers that each name is given."""

    def read(
        context: click.Context, option: click.Parameter, texts: tuple[str, ...]
    ) -> dict[str, list[tuple[float, ...]]]:
        given: dict[str, list[tuple[float, ...]]] = {}
        for text in texts:
            head, _, last = text.rpartition(":") if len(names) == 2 else (text, "", None)
            name, sign, first = (part.strip() for part in head.rpartition(mark))
            if not sign or not name or last == "":
                raise click.BadParameter(f"{text!r} is not of the form {form}; write for example {example}")
            numbers = []
            for what, number in zip(names, (first, last), strict=False):
                try:
                    numbers.append((_share if what in _SHARE else _real)(str(number)))
                except ValueError:
                    hint = _number_hint(str(number))
                    raise click.BadParameter(f"{number!r} in {text!r} is not a number: {what}{hint}") from None
                low, high = _SHARE.get(what, (-math.inf, math.inf))
                if not low <= numbers[-1] <= high:
                    percent = f"; {numbers[-1]:g}% is {numbers[-1] / 100.0:g}" if high < numbers[-1] <= 100.0 else ""
                    raise click.BadParameter(
                        f"{number!r} in {text!r} is {what}; it is from {low:g} to {high:g}{percent}"
                    )
            given.setdefault(name, []).append(tuple(numbers))
        return given

    return read


read_chances = _tail("NAME>X:P", ">", ("the threshold", "the probability"), '"crash>0:0.05"')
read_threshold = _tail("NAME>X", ">", ("the threshold",), '"crash>0"')
read_cvars = _tail("NAME@LEVEL:X", "@", ("the level", "the limit"), '"crash@0.9:4"')


def read_share(context: click.Context, option: click.Parameter, text: str | None) -> float | str | None:
    """A number, or 'theorem'."""
    try:
        return text if text in (None, "theorem") else _share(str(text))
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a number in [0, 1) nor 'theorem'") from None


def repeated(read: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """An option NAME=X that may be given several times."""
    return {"metavar": "NAME=X", "multiple": True, "callback": read}


limit = click.option(
    "--limit", "limits", help="Limit on an expected total cost; inf for none.", **repeated(read_limits)
)
floor = click.option("--floor", "floors", help="Least expected total of a cost.", **repeated(read_floors))
never = click.option("--never", help="What no single episode may exceed.", **repeated(read_limits))
chance = click.option(
    "--chance",
    metavar="NAME>X:P",
    multiple=True,
    callback=read_chances,
    help="At most a share P of episodes may exceed X.",
)
cvar = click.option(
    "--cvar",
    metavar="NAME@LEVEL:X",
    multiple=True,
    callback=read_cvars,
    help="Limit on the mean of the worst 1 - LEVEL of episodes.",
)
horizon = click.option(
    "--horizon", type=click.IntRange(1, LONGEST), help="Steps of an episode. Tables and .drn files need it."
)
discount = click.option("--discount", type=float, metavar="G", help="Instead of --horizon: step t counts G^t.")
average = click.option("--average", is_flag=True, help="Instead of --horizon: the mean of a step in the long run.")
total = click.option("--total", is_flag=True, help="Instead of --horizon: all that is paid until it ends.")
parameter = click.option(
    "--set",
    "settings",
    help="A parameter of an environment; of a .drn file, reward=NAME.",
    **repeated(read_settings),
)
normalize = click.option(
    "--normalize",
    type=probability,
    metavar="X",
    help="Correct sums of probabilities in a model file that are within X of 1, such as 0.01.",
)
start = click.option("--start", metavar="STATE", help="First state, by name or index.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")


def _import(context: click.Context, option: click.Parameter, names: tuple[str, ...]) -> None:
    """Import what the user names, before any name is looked up."""
    from conrl.foreign import import_modules

    if not context.resilient_parsing:  # the shell only asks what could be typed
        import_modules(names)


imports = click.option(
    "--import",
    "imports",
    metavar="MODULE",
    multiple=True,
    expose_value=False,
    is_eager=True,
    callback=_import,
    help="A module with plug-ins, to import first; may be repeated.",
)

allow_import = click.option(
    "--allow-import", is_flag=True, help="Import the modules that a study names, such as import = [MODULE]."
)

GIVEN = (limit, horizon, discount, average, total, parameter, start, normalize)  # what makes a model of its name


def given_options(command: Callable[..., None]) -> Callable[..., None]:
    """What says which model is meant, beside its name."""
    for option in reversed(GIVEN):
        command = option(command)
    return command


def model_options(command: Callable[..., None]) -> Callable[..., None]:
    """What `plan` and `frontier` share beside the name of a model."""
    options = (
        *GIVEN,
        click.option("--tol", type=float, show_default="1e-9", help="Tolerance of the certificate."),
        click.option("--out", type=click.Path(path_type=Path), multiple=True, help="File to write; may be repeated."),
        imports,
        as_json,
    )
    for option in reversed(options):
        command = option(command)
    return command


def refuse_for_fleet(file: str, given: Mapping[str, Any]) -> None:
    """Refuse options that a fleet does not have; `given` has their values by their names."""
    if (refused := next((name for name, value in given.items() if value), None)) is not None:
        value = given[refused]
        raise SpecError(f"{refused} is not for a fleet; {_FOR_FLEETS[refused].format(file=file, value=value)}")


_CRITERION = "its units have a horizon: write horizon = 20 under [fleet] of {file}"
_EPISODES = "fleets take limits on totals, and per_step; --simulate plays whole runs that never exceed a limit"
_SURE = "it plans from a log, and a fleet has models"
_ONE_WAY = "there is one way to plan fleets; leave it out"
_FOR_FLEETS = {  # what to do instead
    "--start": 'write start = "{value}" under a [[unit]] of {file}',
    "--set": "write set = {{ NAME = X }} under a [[unit]] of {file}",
    **dict.fromkeys(("--discount", "--average", "--total"), _CRITERION),
    **dict.fromkeys(("--never", "--chance", "--cvar", "--grid"), _EPISODES),
    **dict.fromkeys(("--budget", "--episodes", "--epsilon"), "limits of a fleet are its budgets: --limit NAME=X"),
    **dict.fromkeys(("--confidence", "--use-unseen"), _SURE),
    **dict.fromkeys(("--planner", "--time-limit"), _ONE_WAY),
    "--deterministic": "all but a few of its units have one deterministic policy anyway; leave it out",
}


def one_model_only(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a model that a fleet does not have, by their names."""
    options = {"--set": given["settings"], "--start": given["start"], "--discount": given["discount"] is not None}
    return options | {"--average": given["average"], "--total": given["total"]}


def read_criterion(given: dict[str, Any]) -> dict[str, Any]:
    """The options with --discount, --average and --total in the place of --horizon, of which one may be given."""
    from conrl.model.criteria import Average, Discounted, Total

    discount, average, total = (given.pop(name) for name in ("discount", "average", "total"))
    asked = [("--horizon", given["horizon"])] if given["horizon"] is not None else []
    if discount is not None:
        asked.append(("--discount", Discounted(discount)))
    asked += [("--average", Average())] if average else []
    asked += [("--total", Total())] if total else []
    if len(asked) > 1:
        raise SpecError(f"{' and '.join(name for name, _ in asked)} were given; a model has one of them")
    return given | {"horizon": asked[0][1] if asked else None}


def check_files(paths: Iterable[Path], suffixes: tuple[str, ...]) -> None:
    """Find out before any work whether the files of --out can be written."""
    seen = set()
    for path in paths:
        check_file("--out", path, suffixes)
        if path in seen:
            raise SpecError(f"--out {path} is given twice")
        seen.add(path)


def check_directory(path: Path) -> None:
    """Find out before any work whether files can be written into the directory of --out."""
    if path.suffix or path.is_file():
        raise SpecError(f"--out {path}: a fleet has many policies; name a directory, such as plans")
    place = path if path.is_dir() else path.parent
    if not place.is_dir():
        raise SpecError(f"--out {path}: there is no directory {place}")
    if not os.access(place, os.W_OK):
        raise SpecError(f"--out {path}: no permission to write in {place}")


def check_file(option: str, path: Path, suffixes: tuple[str, ...] | None = None) -> None:
    """Find out before any work whether the file that an option names can be written; None: with any suffix."""
    if suffixes is not None and path.suffix not in suffixes:
        raise SpecError(f"{option} {path}: the name must end in one of {' '.join(suffixes)}")
    if path.is_dir():
        raise SpecError(f"{option} {path}: it is a directory; name a file")
    if not path.parent.is_dir():
        raise SpecError(f"{option} {path}: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise SpecError(f"{option} {path}: no permission to write in {path.parent}")

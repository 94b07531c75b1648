"""The command that writes a page with a slider for every limit. Heavy imports are local to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from conrl.cli import completion
from conrl.cli.command import Command, load_numba, show
from conrl.cli.logs import by_step, check_model_or_log, column, ignore, model_from_log
from conrl.cli.logs import log as logged
from conrl.cli.options import (
    as_json,
    chance,
    check_files,
    cvar,
    floor,
    given_options,
    imports,
    never,
    one_model_only,
    read_criterion,
    refuse_for_fleet,
)
from conrl.wording import counted


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  conrl explore mars-rover --set rock_reward=1
  conrl explore cluster --limit energy=6 --out cluster.html
  conrl explore mars-rover --set rock_reward=1 --chance "crash>0:0.05"
  conrl explore model.csv --horizon 20 --start home --limit fuel=3
  conrl explore fleet.toml
  conrl explore --log log.csv --limit adverse=0.25

The page opens at the limits that are given, else at the model's own or, if none of them binds, at one that does. It is
one file that loads nothing from anywhere. All sliders act together, and at each of their positions the page says how
much more reward could be possible at most.

--log explores a model estimated from logged episodes, as conrl plan --log plans in it. The page says how much its
policies rest on what was seldom seen.

Exit code 3: no policy keeps the limits.""",
)
@click.argument("model", required=False, shell_complete=completion.model)
@logged
@column
@ignore
@by_step
@given_options
@floor
@never
@chance
@cvar
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("explore.html"),
    show_default=True,
    help="The page to write.",
)
@imports
@as_json
def explore(
    model: str | None,
    log: Path | None,
    columns: dict[str, str],
    ignore: tuple[str, ...],
    by_step: bool,
    limits: dict[str, float],
    floors: dict[str, float],
    never: dict[str, float],
    chance: dict[str, list[tuple[float, float]]],
    cvar: dict[str, list[tuple[float, float]]],
    out: Path,
    as_json: bool,
    **given: Any,
) -> None:
    """A page with a slider for every limit of MODEL: the best policy, prices, frontier and tails at each of them."""
    check_model_or_log(model, log, columns, ignore, by_step)
    check_files((out,), (".html",))
    load_numba()
    from conrl.cli.json_records import size_record
    from conrl.cli.terminal import working
    from conrl.envs import naming
    from conrl.envs.fleet_files import is_fleet_file, load_fleet
    from conrl.explorer import explore as page_of
    from conrl.problem import Linear

    tails: dict[str, Any] = {"never": never, "chance": chance, "cvar": cvar}
    asked = {name: entries for name, entries in {"floors": floors, **tails}.items() if entries}
    sizes: dict[str, Any] = {}  # of a fleet, the page says them
    with working("exploring"):
        if model is not None and is_fleet_file(model):
            refuse_for_fleet(model, one_model_only(given) | {f"--{name}": entries for name, entries in tails.items()})
            fleet, names = load_fleet(model, given["horizon"], limits, floors, normalize=given["normalize"])
            page = page_of(fleet, title=model, types=names)
        else:
            given = read_criterion(given)
            if log is not None:
                mdp = model_from_log(log, columns, ignore, given | {"limits": limits}, missing=True, by_step=by_step)
            else:
                mdp = naming.model(str(model), limits=limits, **given, allow_import=True)  # typed by the user
            sizes = size_record(mdp)
            problem: Any = Linear(mdp.limits, **asked) if limits or asked else None
            page = page_of(mdp, problem, title=str(log if model is None else model))
    page.save(out)
    record = {
        "model": str(log if model is None else model),
        **sizes,
        "wrote": str(out),
        "sliders": list(page.sliders),
        "error": page.error,
    }
    show(as_json, record, lambda: _lines(record, len(page.html.encode())))


def _lines(record: dict[str, Any], size: int) -> list[Any]:
    """What was explored and written, and how exact it is."""
    from conrl.cli.tables import model_title

    some = ", ".join(record["sliders"])
    error = record["error"]
    exact = f"at most {error:.2g} below the best reward" if error else "exact"
    exact += " where it was tried"
    return [
        *([model_title(record)] if "start" in record else []),
        f"wrote {record['wrote']}, {size / 1e3:,.0f} kB: {counted(len(record['sliders']), 'slider')} ({some}), {exact}",
    ]

"""The commands for a model that is known: plan and frontier. Heavy imports are local to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from conrl.cli import completion
from conrl.cli.command import Command, load_kernels, show
from conrl.cli.logs import by_step, check_model_or_log, column, ignore, model_from_log
from conrl.cli.logs import log as logged
from conrl.cli.options import (
    chance,
    check_directory,
    check_files,
    cvar,
    floor,
    model_options,
    never,
    one_model_only,
    probability,
    read_amounts,
    read_criterion,
    read_limits,
    read_share,
    read_threshold,
    refuse_for_fleet,
    repeated,
)
from conrl.errors import SpecError
from conrl.wording import counted, percent

if TYPE_CHECKING:
    from conrl.mixture import Mixture
    from conrl.model import ConstrainedMDP
    from conrl.planners.fleet_plan import Part
    from conrl.problem import Knapsack

MOST_EPISODES = 10_000_000  # that --simulate plays: their totals are held in memory
TABLES = (".npz", ".csv")  # that a policy is written as, and JSON
JSON = ".json"
MARKOV = " (as one policy, drawn step by step)"


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  conrl plan mars-rover --set rock_reward=1
  conrl plan mars-rover --set rock_reward=1 --limit crash=0.2 --out policy.png --out policy.csv
  conrl plan box --simulate 10000 --seed 1
  conrl plan pricing --deterministic --time-limit 10
  conrl plan bidding --sensitivity
  conrl plan gymnasium:FrozenLake-v1 --horizon 50 --json
  conrl plan mars-rover --set rock_reward=1 --budget crash=100 --episodes 1000
  conrl plan model.csv --horizon 20 --start home --limit fuel=3
  conrl plan model.drn --horizon 20 --set reward=gain --limit fuel=3
  conrl plan mars-rover --set rock_reward=1 --chance "crash>0:0.05" --cvar "crash@0.9:0.5"
  conrl plan model.csv --discount 0.95 --start home --limit fuel=3
  conrl plan fleet.toml --limit fuel=300 --simulate 100
  conrl plan --log log.csv --limit adverse=0.25 --confidence 0.95

A .drn file is Storm's: --set reward=NAME says which of its reward models is the reward; the others are costs.

A .toml file is a fleet: many units, models by file and count, with shared limits. --simulate then plays whole runs with
a guard that never exceeds them.

--budget keeps a share of it in each episode, in expectation. A plan that uses it all up exceeds it in about half
of the runs; the table says how often. To never exceed a budget, use conrl learn --budget.

--log plans in a model estimated from logged episodes, from what was tried. The proof is then about that model. With
--confidence the limits are kept with that probability, under what the log leaves open.

--never, --chance and --cvar are about single episodes: what none, few and the worst of them may cost. The policy
then acts on what was spent so far.

--out writes the policy: as a picture of the map (.png .pdf .svg), as a table (.csv .npz), or with all that a running
system needs (.json; see conrl act). For a fleet, --out DIRECTORY writes a table for each policy.

Exit code 3: no policy keeps the limits.""",
)
@click.argument("model", required=False, shell_complete=completion.model)
@logged
@column
@ignore
@by_step
@click.option("--confidence", type=probability, metavar="P", help="Keep the limits with this probability. Of --log.")
@click.option("--use-unseen", is_flag=True, help="Use pairs that the log never has too. Of --confidence.")
@model_options
@floor
@click.option("--per-step", help="Limit on the expected cost of every single step.", **repeated(read_limits))
@never
@chance
@cvar
@click.option("--grid", help="What costs without a common unit are rounded to.", **repeated(read_amounts))
@click.option(
    "--budget", "budgets", help="Total of a cost over all --episodes, kept in expectation.", **repeated(read_limits)
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
@click.option("--deterministic", is_flag=True, help="One policy without a lottery, by branch and bound.")
@click.option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    show_default="60; of a linear program none",
    help="Of --deterministic, or of --planner linear-program.",
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    metavar="N",
    show_default="one for each core",
    help="Of a large model, or a fleet; the plan is the same for any number.",
)
@click.option("--sensitivity", is_flag=True, help="What moving each limit would change, and how far that holds.")
@click.option("--simulate", "played", type=click.IntRange(1, MOST_EPISODES), metavar="N", help="Play N episodes too.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Of --simulate, of --confidence, and of how often budgets are exceeded.",
)
def plan(
    model: str | None,
    log: Path | None,
    columns: dict[str, str],
    ignore: tuple[str, ...],
    by_step: bool,
    confidence: float | None,
    use_unseen: bool,
    limits: dict[str, float],
    floors: dict[str, float],
    per_step: dict[str, float],
    never: dict[str, float],
    chance: dict[str, list[tuple[float, float]]],
    cvar: dict[str, list[tuple[float, float]]],
    grid: dict[str, float],
    tol: float | None,
    budgets: dict[str, float],
    episodes: int | None,
    epsilon: float | str | None,
    planner: str,
    deterministic: bool,
    time_limit: float | None,
    threads: int | None,
    sensitivity: bool,
    played: int | None,
    seed: int,
    out: tuple[Path, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """The best policy of MODEL within its limits, and a proof of how good it is.

    A table of reward, bound and gap, and of each cost against its limit with the shadow price of that limit: the gain
    per unit, if it is loosened a little.
    A policy on a map is drawn as arrows.
    """
    load_kernels()
    from conrl.envs.fleet_files import is_fleet_file

    check_model_or_log(model, log, columns, ignore, by_step)
    if model is not None and is_fleet_file(model):
        foreign: dict[str, Any] = {"--budget": budgets, "--episodes": episodes, "--epsilon": epsilon}
        foreign |= {"--never": never, "--chance": chance, "--cvar": cvar, "--grid": grid}
        foreign |= {"--deterministic": deterministic, "--time-limit": time_limit is not None}
        foreign |= {"--confidence": confidence is not None, "--use-unseen": use_unseen}
        foreign |= {"--planner": planner != "column-generation"}
        refuse_for_fleet(model, foreign | one_model_only(given))
        shared = (limits, floors, per_step)
        _plan_fleet(
            model, given["horizon"], shared, given["normalize"], tol, threads, sensitivity, played, seed, out, as_json
        )
        return
    from conrl import drawing, planners, planning, problem
    from conrl import policy_map as play
    from conrl.cli import plan_records, plan_tables
    from conrl.cli.terminal import search_bar, working
    from conrl.envs import naming
    from conrl.mixture import Mixture
    from conrl.policy_file import LEAST_SKIP
    from conrl.simulation import simulate
    from conrl.theory.risk import budget_risk

    check_files(out, (*drawing.PICTURES, *TABLES, JSON))
    given = read_criterion(given)
    if log is not None:
        mdp = model_from_log(
            log, columns, ignore, given | {"limits": limits}, missing=confidence is None, by_step=by_step
        )
    else:
        mdp = naming.model(str(model), limits=limits, **given, allow_import=True)  # typed by the user
    if any(path.suffix in drawing.PICTURES for path in out):
        play.grid_layout(mdp)  # refuses a model that has no map
    tails: dict[str, Any] = {"never": never, "chance": chance, "cvar": cvar, "grid": grid}
    given_tails = {name: entries for name, entries in tails.items() if entries}
    asked: problem.Problem = problem.Linear(mdp.limits, floors, per_step=per_step or None, **given_tails)
    if budgets or episodes is not None or epsilon is not None:
        asked = _knapsack(budgets, episodes, epsilon, {**limits, **floors, **per_step, **given_tails})
    if deterministic and planner == planners.ColumnGeneration.name and confidence is None and threads is None:
        with search_bar(time_limit) as report:
            best = planners.plan_deterministic(mdp, asked, tol, time_limit, report)
    else:
        sure: dict[str, Any] = {"confidence": confidence, "use_unseen": use_unseen, "threads": threads}
        with working("planning with confidence" if confidence is not None else "planning") as tell:
            sure |= {} if confidence is None else {"seed": seed}
            sure |= {"report": tell} if confidence is not None or planner == "linear-program" else {}
            best = planning.plan(mdp, asked, planner, tol, deterministic=deterministic, time_limit=time_limit, **sure)
    if any(path.suffix in TABLES for path in out) and isinstance(best.policy, Mixture):
        why = best.message.partition("; ")[2]
        raise SpecError(f"--out: {why}, and no table holds it; write .json, or use a horizon or a discount")
    if any(path.suffix in TABLES for path in out) and best.skip > LEAST_SKIP:
        raise SpecError(f"--out: {percent(best.skip)} of all episodes are skipped, which no table says; write .json")
    simulation = None if played is None else simulate(mdp, best, played, seed)
    risk = budget_risk(best, seed) if isinstance(asked, problem.Knapsack) else None
    for path in out:
        if path.suffix in drawing.PICTURES:
            drawing.save_figure(drawing.policy_figure(best), path)
        else:
            best.save(path)
    with working("sensitivity"):
        moved = best.sensitivity(threads) if sensitivity else None
    record = plan_records.plan_record(str(log if model is None else model), best, simulation, risk, moved)
    one = "" if best.weights.size == 1 or isinstance(best.policy, Mixture) else MARKOV
    wrote = [f"wrote {path}{one if path.suffix in (*TABLES, JSON) else ''}" for path in out]
    show(as_json, record, lambda: [*plan_tables.plan_tables(record, best), *wrote])


def _plan_fleet(
    file: str,
    horizon: int | None,
    typed: tuple[dict[str, float], dict[str, float], dict[str, float]],
    normalize: float | None,
    tol: float | None,
    threads: int | None,
    sensitivity: bool,
    runs: int | None,
    seed: int,
    out: tuple[Path, ...],
    as_json: bool,
) -> None:
    """`conrl plan fleet.toml`: a plan of many units with shared limits; --simulate plays it with the guard.

    --out is a directory, in which each policy gets a table.
    """
    from conrl import planning
    from conrl.cli import plan_records, plan_tables
    from conrl.cli.terminal import working
    from conrl.envs.fleet_files import load_fleet

    for folder in out:
        check_directory(folder)
    fleet, names = load_fleet(file, horizon, *typed, normalize=normalize)
    best = planning.plan(fleet, tol=tol, threads=threads)
    simulation = None if runs is None else fleet.simulate(best, runs, seed)
    with working("sensitivity"):
        moved = best.sensitivity() if sensitivity else None
    record = plan_records.fleet_record(file, names, best, simulation, moved)
    models = fleet.models or ()  # of a file, it has some
    parts = [best.parts(t) for t in range(len(models))]
    done = [(name, mdp, _together(all_of)) for name, mdp, all_of in zip(names, models, parts, strict=True)]
    wrote = [told for folder in out for told in _save_parts(folder, names, models, parts)]
    show(as_json, record, lambda: [*plan_tables.fleet_tables(record, done), *wrote])


def _together(parts: list[Part]) -> Mixture:
    """What all units of a type do: their policies, by how many play them."""
    from conrl.mixture import Mixture, parts_of

    units = sum(part.units for part in parts)
    all_of = [(part.units / units * one.weight, one.policy) for part in parts for one in parts_of(part.policy)]
    return Mixture([weight for weight, _ in all_of], [policy for _, policy in all_of])


def _save_parts(
    folder: Path, names: Sequence[str], models: Sequence[ConstrainedMDP], parts: list[list[Part]]
) -> Iterator[str]:
    """Write the policy of each part of each type as a table; what was written, and how many units play it."""
    from conrl import io
    from conrl.mixture import Mixture

    folder.mkdir(exist_ok=True)
    stems = [io.model_stem(name) if io.is_model_file(name) else name for name in names]
    for t, (stem, mdp) in enumerate(zip(stems, models, strict=True)):
        stem = re.sub(r"[^\w.-]+", "-", stem if stems.count(stem) == 1 else f"{stem}-{t + 1}")
        for k, part in enumerate(parts[t], 1):
            path = folder / f"{stem}-{k}.csv"
            mixed = isinstance(part.policy, Mixture)
            policy = part.policy.to_markov(mdp) if isinstance(part.policy, Mixture) else part.policy
            policy.save(path, mdp)
            yield f"wrote {path}: the policy of {counted(part.units, 'unit')}{MARKOV if mixed else ''}"


def _knapsack(
    budgets: dict[str, float],
    episodes: int | None,
    epsilon: float | str | None,
    others: dict[str, float],
) -> Knapsack:
    """The question that --budget and --episodes ask together."""
    from conrl import problem

    if not budgets or episodes is None:
        raise SpecError("--budget needs --episodes: so much in all, for so many episodes; --epsilon goes with both")
    if others:
        raise SpecError("--budget replaces --limit, --floor and --per-step; give one kind")
    return problem.Knapsack(budgets, episodes, epsilon or 0.0)


@click.command(
    cls=Command,
    epilog="""\b
Examples:
  conrl frontier mars-rover --set rock_reward=1 --out frontier.png
  conrl frontier box --cost corner --out frontier.csv
  conrl frontier random --set costs=2 --cost cost0 --limit cost1=12 --max-vertices 50
  conrl frontier mars-rover --json
  conrl frontier mars-rover --set rock_reward=1 --chance "crash>0"

--out writes the curve: as a picture (.png .pdf .svg), or as a table (.csv).""",
)
@click.argument("model", shell_complete=completion.model)
@model_options
@click.option("--cost", metavar="NAME", help="Whose limit to vary; may be left out if there is one cost.")
@click.option(
    "--chance",
    metavar="NAME>X",
    multiple=True,
    callback=read_threshold,
    help="Vary the probability that an episode exceeds X instead.",
)
@click.option("--max-vertices", type=click.IntRange(2), help="Stop after so many vertices.")
def frontier(
    model: str,
    tol: float | None,
    cost: str | None,
    chance: dict[str, list[tuple[float]]],
    max_vertices: int | None,
    out: tuple[Path, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """The best reward of MODEL as a function of one limit, exactly.

    The limits on the other costs stay as they are, or as --limit says.
    """
    load_kernels()
    from conrl import drawing
    from conrl.cli import plan_records, plan_tables
    from conrl.envs import naming
    from conrl.envs.fleet_files import is_fleet_file
    from conrl.planners.frontier import frontier

    check_files(out, (*drawing.PICTURES, ".csv"))
    if is_fleet_file(model):
        raise SpecError(f"a fleet has no frontier; conrl explore {model} has a slider for every limit")
    mdp = naming.model(model, **read_criterion(given), allow_import=True)  # typed by the user
    if mdp.num_costs == 0:
        raise SpecError(f"{model} has no costs; a frontier needs a model with at least one")
    if cost is None and not chance and mdp.num_costs > 1:
        raise SpecError(f"{model} has {mdp.num_costs} costs; choose one with --cost: {', '.join(mdp.cost_names)}")
    if sum(map(len, chance.values())) > 1:
        raise SpecError("--chance is given twice; a frontier varies one probability")
    varied = {name: entries[0][0] for name, entries in chance.items()} or None
    curve = frontier(mdp, cost, 1e-9 if tol is None else tol, max_vertices, chance=varied)
    for path in out:
        if path.suffix in drawing.PICTURES:
            drawing.save_figure(drawing.frontier_figure(curve), path)
        else:
            curve.save(str(path))
    record = plan_records.frontier_record(model, mdp, curve)
    show(as_json, record, lambda: [*plan_tables.frontier_tables(record, curve), *(f"wrote {path}" for path in out)])

"""The command line: each command is one library call and one rendering.

Exit codes: 0 done; 2 the input makes no sense, with one line on stderr that names the culprit and the remedy;
3 no policy keeps the limits, with the conflict; 130 interrupted. When it is not 0, nothing was written.

Heavy imports are local to the commands, so that `conrl --help` answers at once.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from conrl import __version__
from conrl.errors import ConRLError, InfeasibleError, SpecError, unknown

if TYPE_CHECKING:
    import gymnasium

    from conrl.model import ConstrainedMDP
    from conrl.problem import Knapsack, Problem
    from conrl.task import Task

MOST_EPISODES = 10_000_000  # that --simulate plays: their totals are held in memory
LONGEST = 2**31 - 1  # steps of an episode
FILES = (".npz", ".csv")


class Commands(click.Group):
    """The one place where an error becomes a line on stderr and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no failure
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except InfeasibleError as error:
            code = _complain(str(error), 3)
        except ConRLError as error:
            code = _complain(str(error), 2)
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
        sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str, code: int) -> int:
    line = " ".join(message.split())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in line)
    click.echo(f"Error: {line}", err=True)
    return code


def _assignments(
    split: Callable[[str, str], tuple[str, str, str]], parse: Callable[[str], Any], example: str
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, Any]]:
    """Reads a repeated option NAME=X into what each name is given; `split` cuts at the first or the last `=`."""

    def read(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for text in texts:
            name, sign, value = (part.strip() for part in split(text, "="))
            if not sign or not name:
                raise click.BadParameter(f"{text!r} is not of the form NAME=X; write for example {example}")
            if name in found:
                raise click.BadParameter(f"{name} is given twice")
            try:
                found[name] = parse(value)
            except ValueError:
                raise click.BadParameter(f"{value!r} in {text!r} is not a number") from None
        return found

    return read


def _number(text: str) -> float:
    number = float(text)
    if math.isnan(number):
        raise ValueError(text)
    return number


def _anything(text: str) -> Any:
    """A number, true, false, null or a list as in JSON; else the text itself."""
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
    except (ValueError, RecursionError):
        return text


# The name of a cost may hold any sign, that of a parameter may not.
_limits = _assignments(str.rpartition, _number, "crash=0.3")
_settings = _assignments(str.partition, _anything, "rock_reward=1")


def load(
    model: str, horizon: int | None, start: str | None, settings: dict[str, Any], limits: dict[str, float]
) -> ConstrainedMDP:
    """The model of that name or file, with the limits asked for in place of its own."""
    if horizon is not None and "horizon" in settings:
        raise SpecError("the horizon is given twice, by --horizon and by --set")
    parameters = settings if horizon is None else settings | {"horizon": horizon}
    mdp = _make(model, parameters)
    if start is not None:
        index = _state(mdp, start)
        # What ends an episode of a Gymnasium environment depends on where it starts.
        mdp = _make(model, parameters | {"initial": index}) if _is_gymnasium(model) else mdp.replace(initial=index)
    if limits:
        own = {} if mdp.limits is None else dict(zip(mdp.cost_names, mdp.limits.tolist(), strict=True))
        mdp = mdp.replace(limits=own | limits)
    return mdp


def _is_gymnasium(model: str) -> bool:
    return model.startswith("gymnasium:")


def _make(model: str, parameters: dict[str, Any]) -> ConstrainedMDP:
    from conrl import envs, io

    if not _is_gymnasium(model) and model not in envs.REGISTRY:
        if Path(model).suffix.lower() not in FILES and not os.path.exists(model) and os.sep not in model:
            known = unknown("model", model, [*envs.REGISTRY, "gymnasium:<id>"])
            raise SpecError(known if "did you mean" in known else f"{known}, or a file that ends in .npz or .csv")
        foreign = next((name for name in parameters if name != "horizon"), None)
        if foreign is not None:
            raise SpecError(f"--set {foreign}: a file has no parameters; --set is for built-in environments")
        return io.load_model(model, horizon=parameters.get("horizon"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is raised
        return envs.make(model, **parameters)


def _state(mdp: ConstrainedMDP, text: str) -> int:
    """A state by name or, if none is called so, by index."""
    names = mdp.state_names
    if text in names:
        return names.index(text)
    if text.isdecimal() and len(text) < 20 and int(text) < mdp.num_states:
        return int(text)
    raise SpecError(
        f"--start: {unknown('state', text, names[:1000])}"
        if mdp.num_states <= 50
        else f"--start: no state {text!r}; give a name, or an index in 0..{mdp.num_states - 1}"
    )


def _check_files(paths: Iterable[Path], suffixes: tuple[str, ...]) -> None:
    """Find out before any work whether the files can be written."""
    seen = set()
    for path in paths:
        if path.suffix not in suffixes:
            raise SpecError(f"--out {path}: the name must end in one of {' '.join(suffixes)}")
        if path.is_dir():
            raise SpecError(f"--out {path}: it is a directory; name a file")
        if not path.parent.is_dir():
            raise SpecError(f"--out {path}: there is no directory {path.parent}")
        if not os.access(path.parent, os.W_OK):
            raise SpecError(f"--out {path}: no permission to write in {path.parent}")
        if path in seen:
            raise SpecError(f"--out {path} is given twice")
        seen.add(path)


def _repeated(read: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return {"metavar": "NAME=X", "multiple": True, "callback": read}


def _model_options(command: Callable[..., None]) -> Callable[..., None]:
    """What `plan` and `frontier` share."""
    options = (
        click.argument("model"),
        click.option("--limit", "limits", help="Limit on an expected total cost; inf for none.", **_repeated(_limits)),
        click.option("--horizon", type=click.IntRange(1, LONGEST), help="Steps of an episode. CSV files need it."),
        click.option("--set", "settings", help="A parameter of a built-in environment.", **_repeated(_settings)),
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

\b
--out writes the policy: as a picture of the map (.png .pdf .svg), or as a table (.csv .npz).
Exit code 3: no policy keeps the limits.""",
)
@_model_options
@click.option("--floor", "floors", help="Least expected total of a cost.", **_repeated(_limits))
@click.option("--budget", "budgets", help="Total of a cost over all --episodes.", **_repeated(_limits))
@click.option("--episodes", type=click.IntRange(1), metavar="K", help="How many episodes share the budgets.")
@click.option("--epsilon", show_default="0", metavar="E", help="Share held back, or 'theorem'.")
@click.option("--planner", default="column-generation", show_default=True, help="Or linear-program, lagrangian.")
@click.option("--simulate", "played", type=click.IntRange(1, MOST_EPISODES), metavar="N", help="Play N episodes too.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of --simulate.")
def plan(
    model: str,
    limits: dict[str, float],
    floors: dict[str, float],
    horizon: int | None,
    settings: dict[str, Any],
    start: str | None,
    tol: float | None,
    budgets: dict[str, float],
    episodes: int | None,
    epsilon: str | None,
    planner: str,
    played: int | None,
    seed: int,
    out: tuple[Path, ...],
    as_json: bool,
) -> None:
    """The best policy of MODEL within its limits, and a proof of how good it is.

    A table of reward, bound and gap, and of each cost against its limit with the price of that limit.
    A policy on a map is drawn as arrows.
    """
    from conrl import drawing, evaluation, planners, play, problem, rendering

    _check_files(out, (*drawing.PICTURES, *FILES))
    mdp = load(model, horizon, start, settings, limits)
    if any(path.suffix in drawing.PICTURES for path in out):
        play.grid_layout(mdp)  # refuses a model that has no map
    asked: problem.Problem = problem.Linear(mdp.limits, floors)
    if budgets or episodes is not None or epsilon is not None:
        asked = _knapsack(budgets, episodes, epsilon, limits, floors)
    found = planners.plan(mdp, asked, planner, tol)
    simulation = None if played is None else evaluation.simulate(mdp, found, played, seed)
    for path in out:
        if path.suffix in drawing.PICTURES:
            drawing.save_figure(drawing.policy_figure(found), path)
        else:
            found.policy.save(path, mdp)
    if as_json:
        click.echo(rendering.to_json(rendering.plan_record(model, found, simulation)))
    else:
        rendering.show(*rendering.plan_parts(model, found, simulation), *(f"wrote {path}" for path in out))


def _knapsack(
    budgets: dict[str, float],
    episodes: int | None,
    epsilon: str | None,
    limits: dict[str, float],
    floors: dict[str, float],
) -> Knapsack:
    """The question that --budget and --episodes ask together."""
    from conrl import problem

    if not budgets or episodes is None:
        raise SpecError("--budget, --episodes and --epsilon go together: so much in all, for so many episodes")
    if limits or floors:
        raise SpecError("--budget replaces --limit and --floor; give one kind")
    try:
        share: float | str = epsilon if epsilon == "theorem" else float(epsilon or 0.0)
    except ValueError:
        raise SpecError(f"--epsilon is {epsilon!r}; it must be a number in [0, 1) or 'theorem'") from None
    return problem.Knapsack(budgets, episodes, share)


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
    limits: dict[str, float],
    horizon: int | None,
    settings: dict[str, Any],
    start: str | None,
    tol: float | None,
    cost: str | None,
    max_vertices: int | None,
    out: tuple[Path, ...],
    as_json: bool,
) -> None:
    """The best reward of MODEL as a function of one limit, exactly.

    The limits on the other costs stay as they are, or as --limit says.
    """
    from conrl import drawing, planners, rendering

    _check_files(out, (*drawing.PICTURES, ".csv"))
    mdp = load(model, horizon, start, settings, limits)
    if mdp.num_costs == 0:
        raise SpecError(f"{model} has no costs; a frontier needs a model with at least one")
    if cost is None and mdp.num_costs > 1:
        raise SpecError(f"{model} has {mdp.num_costs} costs; choose one with --cost: {', '.join(mdp.cost_names)}")
    curve = planners.frontier(mdp, 0 if cost is None else cost, 1e-9 if tol is None else tol, max_vertices)
    for path in out:
        if path.suffix in drawing.PICTURES:
            drawing.save_figure(drawing.frontier_figure(curve), path)
        else:
            curve.save(str(path))
    if as_json:
        click.echo(rendering.to_json(rendering.frontier_record(model, curve)))
    else:
        rendering.show(*rendering.frontier_parts(model, curve), *(f"wrote {path}" for path in out))


@main.command(
    epilog="""\b
Examples:
  conrl learn mars-rover --set rock_reward=1 --episodes 600
  conrl learn box --seed 1 --out runs
  conrl learn pricing --budget stock=800 --episodes 200 --resolve
  conrl learn mars-rover --preset authors --set rock_reward=1
  conrl learn mars-rover --set rock_reward=1 --algorithm optcmdp --episodes 100
  conrl learn gymnasium:FrozenLake-v1 --horizon 50 --episodes 1000

\b
--out writes DIR/ENV/ALGORITHM/seed-000: progress.csv, a row an episode; checkpoint.npz; config.json.
Ctrl-C stops after the episode being played, with everything saved (exit code 130).""",
)
@click.argument("env")
@click.option("--algorithm", default="conrl", show_default=True, help="Who learns; see conrl algorithms.")
@click.option("--episodes", type=click.IntRange(1), default=600, show_default=True, metavar="K", help="How many.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of all randomness.")
@click.option("--set", "settings", help="A parameter of a built-in environment.", **_repeated(_settings))
@click.option("--limit", "limits", help="Limit on an expected total cost; inf for none.", **_repeated(_limits))
@click.option("--budget", "budgets", help="Total of a cost over all episodes: never exceeded.", **_repeated(_limits))
@click.option("--epsilon", show_default="0", metavar="E", help="Share of the budgets held back, or 'theorem'.")
@click.option("--resolve", is_flag=True, help="Plan each episode for what is left of the budgets.")
@click.option("--horizon", type=click.IntRange(1, LONGEST), help="Steps of an episode.")
@click.option("--start", metavar="STATE", help="First state, by name or index.")
@click.option("--preset", default="default", show_default=True, help="Or authors: as in the paper's experiments.")
@click.option("--planner", help="Instead of the preset's: column-generation, linear-program, lagrangian.")
@click.option("--bonus", metavar="B", help="Instead of the preset's: REWARD,COST (scales), theory or theory:DELTA.")
@click.option("--pay", default="outcome", show_default=True, help="How a model pays: outcome or bernoulli.")
@click.option("--option", "options", help="A parameter of the algorithm, such as rate.", **_repeated(_settings))
@click.option("--prime", type=click.Path(path_type=Path), help="Logged episodes to start from (.csv or .npz).")
@click.option("--reward-range", type=float, nargs=2, help="Of one step, where the model is unknown. [default: 0 1]")
@click.option("--out", type=click.Path(path_type=Path), help="Directory for history and checkpoint.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def learn(
    env: str,
    algorithm: str,
    episodes: int,
    seed: int,
    settings: dict[str, Any],
    limits: dict[str, float],
    budgets: dict[str, float],
    epsilon: str | None,
    resolve: bool,
    horizon: int | None,
    start: str | None,
    preset: str,
    planner: str | None,
    bonus: str | None,
    pay: str,
    options: dict[str, Any],
    prime: Path | None,
    reward_range: tuple[float, float] | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Learn to act in ENV within its limits, episode by episode, without knowing its model.

    ENV is sampled. What is learned is compared with the optimum where the model is known. With --out a run that was
    interrupted, even killed, is continued by the same command, to the same result.
    """
    import hashlib

    from conrl import rendering, transform
    from conrl.experiments import learn_on_disk, run_directory
    from conrl.learners import History
    from conrl.learners import learn as play
    from conrl.learners.registry import LEARNERS
    from conrl.model import ConstrainedMDP

    if algorithm not in LEARNERS:
        raise SpecError(unknown("algorithm", algorithm, LEARNERS))
    world, task = _world(env, horizon, start, settings, limits, reward_range)
    if getattr(LEARNERS[algorithm], "continuing", False):
        if not isinstance(world, ConstrainedMDP):
            raise SpecError(f"{algorithm} learns from one unending episode, for which the model must be known")
        world = transform.reachable_part(transform.single_episode(world))
        task = world.task
    asked: Problem | None = None
    if budgets:
        asked = _knapsack(budgets, episodes, epsilon, limits, {})
    elif epsilon is not None or resolve:
        raise SpecError("--epsilon and --resolve go with --budget")
    truth = world if isinstance(world, ConstrainedMDP) else None
    parts = {"planner": planner, "bonus": _bonus(bonus), "resolve": resolve or None, **options}
    chosen = _parameters(LEARNERS[algorithm], {name: value for name, value in parts.items() if value is not None})
    given = {"peek": truth} if preset == "authors" and "peek" in _signature(LEARNERS[algorithm]) and truth else {}

    def make() -> Any:
        try:
            learner = LEARNERS[algorithm](task, problem=asked, preset=preset, **chosen, **given)
        except ConRLError:
            raise
        except (AttributeError, TypeError, ValueError) as error:
            raise SpecError(f"--option: {algorithm} cannot use one of them: {error}") from None
        if prime is not None:
            if not hasattr(learner, "prime"):
                raise SpecError(f"--prime: {algorithm} cannot learn from logged data")
            learner.prime(prime)
        return learner

    learner = make()
    history = History(tuple(task.cost_names), learner.problem, truth)
    _ = history.optimum  # limits that nobody can keep end here, before anything is written
    shown = not as_json
    if out is None:
        history = play(world, learner, episodes, seed, shown, pay=pay)
    else:
        directory = run_directory(out, env, algorithm, seed)
        log = hashlib.blake2b(prime.read_bytes(), digest_size=16).hexdigest() if prime else None
        config = {"env": env, "settings": settings, "start": start, "pay": pay, "prime": log}
        learner, history = learn_on_disk(
            directory, world, make, episodes, seed, shown, config=config, given=given, pay=pay
        )
    if as_json:
        click.echo(rendering.to_json(rendering.learn_record(env, algorithm, seed, history)))
    else:
        wrote = [] if out is None else [f"wrote {directory}"]
        rendering.show(*rendering.learn_parts(env, algorithm, seed, history), *wrote)
    if history.interrupted:
        hint = "" if out is None else "; the same command continues it"
        return _complain(f"interrupted after {len(history)} of {episodes} episodes{hint}", 130)
    return 0


def _signature(kind: Any) -> dict[str, Any]:
    import inspect

    shared = ("self", "task", "problem", "preset", "seed")
    return {name: p for name, p in inspect.signature(kind.__init__).parameters.items() if name not in shared}


def _defaults(kind: Any) -> dict[str, Any]:
    """What --option takes: the parameters that are numbers, and their defaults."""
    numbers = {
        name: p.default for name, p in _signature(kind).items() if re.search("float|int|bool", str(p.annotation))
    }
    return {name: value for name, value in numbers.items() if name not in ("resolve", "keep_policies")}


def _parameters(kind: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Refuse what is no parameter of an algorithm."""
    known = _signature(kind)
    for name in given:
        if name in ("planner", "bonus", "resolve") and name not in known:
            raise SpecError(f"--{name} is not for {kind.name}")
        if name not in known:
            raise SpecError(unknown(f"parameter of {kind.name}", name, known))
    return given


def _bonus(text: str | None) -> Any:
    from conrl.estimation import ScaledBonus, TheoryBonus

    if text is None:
        return None
    name, _, delta = text.partition(":")
    try:
        numbers = [float(x) for x in (delta or "nan" if name == "theory" else text).split(",")]
    except ValueError:
        numbers = []
    if name == "theory" and len(numbers) == 1:
        return TheoryBonus(numbers[0]) if delta else TheoryBonus()
    if len(numbers) < 2:
        raise SpecError(f"--bonus {text!r}: write REWARD,COST such as 0.02,-0.01, or theory, or theory:0.05")
    return ScaledBonus(numbers[0], numbers[1] if len(numbers) == 2 else numbers[1:])


def _world(
    env: str,
    horizon: int | None,
    start: str | None,
    settings: dict[str, Any],
    limits: dict[str, float],
    reward_range: tuple[float, float] | None,
) -> tuple[ConstrainedMDP | gymnasium.Env[Any, Any], Task]:
    """What is to be learned: a model to sample or, of a Gymnasium environment that publishes none, the environment."""
    from conrl.model import Task

    if _is_gymnasium(env):
        import gymnasium

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = gymnasium.make(env.partition(":")[2], **settings)
        except Exception as error:  # constructors that are not ours raise anything
            raise SpecError(f"{env}: {' '.join(str(error).split())}") from None
        if not hasattr(made.unwrapped, "P") and not hasattr(made.unwrapped, "mdp"):
            if start is not None:
                raise SpecError("--start: the environment itself says where an episode starts")
            names = getattr(made.unwrapped, "cost_names", tuple(limits))
            for name in limits:
                if name not in names:
                    raise SpecError(unknown("cost", name, names))
            own = dict(zip(names, getattr(made.unwrapped, "cost_limits", [math.inf] * len(names)), strict=False))
            task = Task.from_gymnasium(
                made,
                horizon=horizon,
                limits=[(own | limits).get(name, math.inf) for name in names],
                cost_names=names,
                reward_range=reward_range or (0.0, 1.0),
            )
            return made, task
        made.close()
    if reward_range is not None:
        raise SpecError("--reward-range is for environments whose model is unknown; a model has its own")
    mdp = load(env, horizon, start, settings, limits)
    return mdp, mdp.task


@main.command(
    epilog="""\b
Examples:
  conrl envs
  conrl envs --json"""
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def envs(as_json: bool) -> None:
    """What is built in: sizes, limits, and the optimum within them."""
    from conrl import planners, rendering
    from conrl.envs import available, make

    records = [rendering.env_record(entry, planners.plan(make(entry.name))) for entry in available()]
    if as_json:
        click.echo(rendering.to_json({"environments": records}))
    else:
        rendering.show(*rendering.envs_parts(records))


@main.command(
    epilog="""\b
Examples:
  conrl algorithms
  conrl algorithms --json"""
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def algorithms(as_json: bool) -> None:
    """Who learns: what conrl learn --algorithm takes, in one line each, with its paper."""
    from conrl import rendering
    from conrl.learners.registry import LEARNERS

    records = [rendering.algorithm_record(kind, _defaults(kind)) for kind in LEARNERS.values()]
    if as_json:
        click.echo(rendering.to_json({"algorithms": records}))
    else:
        rendering.show(*rendering.algorithms_parts(records))

"""One run: described by plain values (`Job`), and played (`Run`).

What `conrl learn`, a line of a spec and a worker on another machine all execute. The same description gives the same
bytes wherever it is executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conrl import learners, planners
from conrl.arguments import setter
from conrl.envs import registry
from conrl.errors import ConRLError, InfeasibleError, RunError, SpecError, under
from conrl.experiments import parts
from conrl.experiments.store import learn_on_disk, run_directory, settings_of
from conrl.experiments.worlds import WorldFields, Worlds, cost_function
from conrl.foreign import MAIN, import_modules, is_function_name, load_function
from conrl.io.files import read_bytes, refuse_links
from conrl.learners.adapted import Kind
from conrl.model import ConstrainedMDP, Task
from conrl.model.tails import KINDS
from conrl.plugins import Source
from conrl.problem import Knapsack, Linear, Problem
from conrl.running import History, learn
from conrl.running.loop import make_world
from conrl.wording import OnlyGiven, counted, line

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, kw_only=True, repr=False)
class Job(OnlyGiven):
    """A run that is to be played.

    `env` names a model as on the command line, `settings`, `limits`, `horizon`, `start`, `normalize`, `reward_range`
    and `cost_ranges` go with it. `cost` names the function that gives the costs of a Gymnasium environment's steps, as
    `module:function`. `pay` is "outcome", "bernoulli" or a sampler, `module:function`; with "bernoulli", [0, 1] is the
    range of what nobody declared and has means in it. `options` are parameters of the algorithm as plain values (see
    `conrl.experiments.parts`). `floors` bound expected totals from below; `never`, `chance` and `cvar` limit single
    episodes, as in `Linear`. `budgets` make the problem a `Knapsack` over all episodes. `env_name` and `name` are what
    the run's directory is called, by default the names of the two. `imports` are modules that plug-ins are in.
    `allow_import`: a module that `env`, `cost` or `pay` names may be imported. Both are for the user to say, never for
    a file.
    """

    env: str
    algorithm: str
    episodes: int
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    horizon: int | None = None
    start: str | None = None
    normalize: float | None = None
    reward_range: tuple[float, float] | None = None
    cost_ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    cost: str | None = None
    preset: str = "default"
    options: dict[str, Any] = field(default_factory=dict)
    floors: dict[str, float] = field(default_factory=dict)
    never: dict[str, float] = field(default_factory=dict)
    chance: dict[str, Any] = field(default_factory=dict)
    cvar: dict[str, Any] = field(default_factory=dict)
    budgets: dict[str, float] = field(default_factory=dict)
    epsilon: float | str = 0.0
    pay: str = "outcome"
    prime: str | None = None
    env_name: str = ""
    name: str = ""
    imports: tuple[str, ...] = ()
    allow_import: bool = False

    def __post_init__(self) -> None:
        setter(self)("env_name", self.env_name or self.env)
        setter(self)("name", self.name or self.algorithm)

    @property
    def kind(self) -> tuple[str, str]:
        """What it has in common with the runs of other seeds."""
        return self.env_name, self.name

    @property
    def world_fields(self) -> WorldFields:
        """What its world is made from."""
        return WorldFields(**{name: vars(self)[name] for name in WorldFields._fields})

    def directory(self, out: str | Path) -> Path:
        """Where the run is kept."""
        return run_directory(out, self.env_name, self.name, self.seed)

    def without(self, key: tuple[str, ...]) -> Job | None:
        """The same job without what the key of an error names, to see what else is wrong; None if it needs that."""
        for own in fields(self):
            if key[:1] == (own.name,):
                given = vars(self)[own.name]
                default = own.default if own.default_factory is MISSING else own.default_factory()
                less: Any = _pruned(given, key[1:]) if isinstance(given, dict) else default
                needed = own.name == "budgets" and not less  # without any it would be another problem
                return None if less is MISSING or less == given or needed else replace(self, **{own.name: less})
        return None


def _pruned(table: dict[str, Any], key: tuple[str, ...]) -> dict[str, Any]:
    """A table without the entry at a path, or without what is nearest around it; empty if it has neither."""
    if not key or key[0] not in table:
        return {}
    inner = table[key[0]]
    rest = {name: value for name, value in table.items() if name != key[0]}
    if isinstance(inner, dict) and key[1:2] and key[1] in inner:
        rest[key[0]] = _pruned(inner, key[1:])
    return rest


def plugins_of(job: Job) -> dict[str, tuple[dict[str, Any], Source]]:
    """What a job uses that is not built in: what tells one version of it from another, and where it is from.

    Plug-ins that are not loaded yet are not among them."""
    named: dict[str, tuple[Any, Source | None, dict[str, Any]]] = {}
    named["environment"] = (job.env, registry.PLUGINS.source(job.env), {})
    named["learner"] = (job.algorithm, learners.PLUGINS.source(job.algorithm), {})
    table = job.options.get("planner")
    settings = dict(table) if isinstance(table, dict) else {"name": table}
    planner = settings.pop("name", None)
    if not isinstance(learners.PLUGINS.get(job.algorithm), Kind):  # it gets its options as they are written
        named["planner"] = (planner, planners.PLUGINS.source(planner), {"settings": settings} if settings else {})
    found = {
        what: ({"name": name, **source.identity, **more}, source)
        for what, (name, source, more) in named.items()
        if source is not None
    }
    for what, function in (("cost", job.cost), ("pay", job.pay)):
        if is_function_name(function):
            module, _, name = str(function).partition(":")
            source = Source(module, name)
            found[what] = (source.identity, source)
    return found


def portable(job: Job, knows_main: bool) -> Job:
    """The job as a worker takes it, which imports the modules that its plug-ins were registered in.

    `knows_main`: a worker imports the program that starts it, as those on this machine do if it is guarded."""
    modules = dict.fromkeys(job.imports)
    for what, (about, source) in plugins_of(job).items():
        if source.module != MAIN:
            modules |= {} if source.package else {source.module: None}
        elif not knows_main:
            raise SpecError(
                f"{what} {about.get('name', source.qualname)!r} is defined in the program itself, which the workers do "
                'not import; put it into a module, or the rest of the program under if __name__ == "__main__"'
            )
    return replace(job, imports=tuple(modules))


class Run:
    """One run: its job and, as soon as they are asked for, its world, learner and history. It is played once.

    With a directory `out` for runs of many kinds, its own in there is `directory`, and it goes on from wherever it was.
    An invalid job raises a `ConRLError` whose key is a field of `Job`.
    """

    def __init__(self, job: Job, out: str | Path | None = None, worlds: Worlds | None = None) -> None:
        import_modules(job.imports)
        self.job, self.out = job, out
        self.directory = None if out is None else job.directory(out)
        self._worlds = Worlds() if worlds is None else worlds
        self._key: str | None = None  # of the world that was made

    def __repr__(self) -> str:
        job = self.job
        where = "" if self.directory is None else f"in {self.directory}"
        return line(self, job.env_name, job.name, f"seed {job.seed}", counted(job.episodes, "episode"), where)

    @cached_property
    def _world(self) -> tuple[ConstrainedMDP | gymnasium.Env[Any, Any], Task]:
        self._key = Worlds.key(self.job)
        return self._worlds.of(self.job)

    @property
    def is_current(self) -> bool:
        """Whether its world would be made the same now: the file of a model may have changed."""
        return self._key in (None, Worlds.key(self.job))

    @property
    def world(self) -> ConstrainedMDP | gymnasium.Env[Any, Any]:
        """A model, which is sampled, or an environment."""
        return self._world[0]

    @property
    def truth(self) -> ConstrainedMDP | None:
        """The model, where it is known."""
        return self.world if isinstance(self.world, ConstrainedMDP) else None

    @cached_property
    def _given(self) -> dict[str, Any]:
        """What is in no file. What the paper's program was allowed to know goes with its preset."""
        kind = parts.algorithm(self.job.algorithm)
        if isinstance(kind, Kind):
            return {}
        allowed = self.job.preset == "authors" and self.truth is not None and "peek" in parts.signature(kind)
        return {"peek": self.truth} if allowed else {}

    @cached_property
    def pay(self) -> Any:
        """How a model pays: a word, or the sampler that the job names."""
        if not is_function_name(self.job.pay):
            return self.job.pay
        with under("pay"):
            return load_function(self.job.pay, "pay", self.job.allow_import)

    @cached_property
    def cost(self) -> Any:
        """The function that gives the costs of an environment's steps; None where it is a model, or has its own."""
        if self.job.cost is None or self.truth is not None:
            return None
        return cost_function(self.job.cost, self.job.allow_import)

    @cached_property
    def learner(self) -> Any:
        """As it is before the first episode; once the run was played, as it is after the last."""
        job, kind = self.job, parts.algorithm(self.job.algorithm)
        parts.check_options(kind, job.options)
        chosen = parts.chosen(kind, job.options, self.truth)
        _, task = self._world
        chosen = parts.safe_start(kind, chosen, task, self.truth)
        problem: Problem | None = None
        asked = {name: vars(job)[name] for name in ("floors", *KINDS) if vars(job)[name]}
        if job.budgets:
            if job.floors:
                raise SpecError("budgets replace limits and floors; leave the floors out", key=("floors",))
            problem = Knapsack(job.budgets, job.episodes, job.epsilon)
        elif asked:
            problem = Linear(task.limits, **asked)
        try:
            learner = kind(task, problem=problem, preset=job.preset, seed=job.seed, **chosen, **self._given)
        except ConRLError as error:
            if error.key and error.key[0] in ("floors", *KINDS):
                raise
            if asked and error.key[:1] == ("problem",):
                error.key = (next(iter(asked)),)
            elif parts.SHARE in job.options and error.key[:1] in (("safe",), ("safe_costs",)):
                error.key = ("options", parts.SHARE)
            elif not error.key or error.key[0] in job.options:
                error.key = ("options", *error.key)
            elif error.key[0] in ("problem", *parts.signature(kind)):  # not given: what the preset stands for
                error.key = ("budgets",) if job.budgets else ("preset",)
            raise
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            raise self._unusable(error) from None
        if job.prime is not None:
            with under("prime"):
                learner.prime(job.prime)
        return learner

    @property
    def _planner(self) -> dict[str, Any]:
        """The planner of a plug-in, which a checkpoint cannot hold."""
        asked = self.job.options.get("planner")
        return {"planner": parts.part("planner", asked)} if "planner" in plugins_of(self.job) else {}

    def _unusable(self, error: Exception) -> SpecError:
        return SpecError(f"{self.job.algorithm} cannot use one of its options: {error}", key=("options",))

    @cached_property
    def history(self) -> History:
        """What is remembered of each episode: none yet, or those that were played."""
        return History.of(self.learner, self.truth)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All that the results depend on: what stands in `config.json`."""
        return settings_of(self.world, self.learner, self.job.episodes, self.job.seed, self._config)

    @cached_property
    def _config(self) -> dict[str, Any]:
        """What the results depend on, apart from the learner, the model and the seed."""
        job = self.job
        _ = self.learner, self.pay, self.cost  # what is a plug-in is known once it is loaded
        log = None if job.prime is None else hashlib.blake2b(read_bytes(Path(job.prime)), digest_size=16).hexdigest()
        config: dict[str, Any] = {"env": job.env, "settings": job.settings, "start": job.start}
        config |= {"pay": job.pay, "prime": log}
        config |= {} if job.cost is None else {"cost": job.cost}
        config |= {} if job.normalize is None else {"normalize": job.normalize}
        foreign = {what: about for what, (about, _) in plugins_of(job).items()}
        return config | ({"plugins": foreign} if foreign else {})

    def check(self) -> None:
        """Refuse, before anything is played or written, a job that cannot be played."""
        job, learner = self.job, self.learner
        try:
            _ = self.history.optimum
        except (InfeasibleError, RunError) as error:  # the latter of an unending episode
            error.key = ("limits",) if job.limits else ("floors",) if job.floors else ()
            raise
        make_world(self.world, learner, self.pay, self.cost)
        if "bonus" in job.options:
            with under("options", "bonus"):
                _ = learner.proposal  # its scales are compared with the costs when it is used
        try:
            json.dumps(self.settings)
        except TypeError as error:
            raise self._unusable(error) from None

    def play(self, progress: bool = False, after: Callable[[History], None] | None = None) -> History:
        """Play it to its end, on disk if it has a directory; `after` is called after each episode."""
        job = self.job
        if self.directory is None or self.out is None:
            return learn(
                self.world,
                self.learner,
                job.episodes,
                job.seed,
                progress,
                pay=self.pay,
                cost=self.cost,
                history=self.history,
                after=after,
            )
        refuse_links(self.directory, Path(self.out))
        self.learner, self.history = learn_on_disk(
            self.directory,
            self.world,
            lambda: self.learner,
            job.episodes,
            job.seed,
            progress,
            config=self._config,
            given=self._given | self._planner,
            history=self.history,
            after=after,
            pay=self.pay,
            cost=self.cost,
        )
        return self.history

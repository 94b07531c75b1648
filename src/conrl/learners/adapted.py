"""Learners that are two methods: any object with `propose` and `observe`, and classes of such objects.

`Adapted` gives such an object what `learn` needs besides. What the object has of its own is used: `task`, `problem`,
`seed`, `episodes` (one more after each), `reseed(seed)`, `proposal`, `room()`, `may_step(spent)`, `prices`, `budget`,
and

    state() -> {name: array}      what it has learned; a run on disk then goes on where it was interrupted
    load_state(arrays)            go on from that

Without the last two, or if its class is not registered, a run on disk has no checkpoint: if it is interrupted, it is
played again from its first episode.

`Kind` is a class, or a function, that makes such objects, under the name that it is registered by: it is called with
the task, its options, and of `problem`, `seed` and `preset` with those that its signature names.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Array, Arrays, Float
from conrl.arguments import float_array, read_count, read_seed
from conrl.episode import Episode, check_episode
from conrl.errors import ConRLError, ModelError, RunError, SpecError, shown
from conrl.foreign import theirs
from conrl.learners.arrays import group, prefixed, saved_count
from conrl.learners.base import NEEDED, Learner, Proposal, check_learner
from conrl.learners.saving import GIVEN, describe, save_learner
from conrl.model import ConstrainedMDP, Task
from conrl.planners.result import check_arrays
from conrl.policy import Policy
from conrl.problem import Linear, Problem, as_problem
from conrl.sampling import UNBOUND, Room
from conrl.wording import counted

OWN = "own_"  # before the names of the arrays of the object's own state
TWO = ("propose", "observe")


class PlainLearner(Protocol):
    """The least that a learner is."""

    def propose(self) -> Policy:
        """The policy of the next episode."""

    def observe(self, episode: Episode) -> None:
        """Learn from the episode that was played."""


def can(thing: Any, *methods: str) -> bool:
    """Whether an object, or a class, has all of these methods."""
    return all(callable(getattr(thing, name, None)) for name in methods)


class Adapted:
    """A learner that proposes and observes, with all that `learn` needs; see the module's docstring."""

    continuing = False
    reports = False

    def __init__(
        self,
        inner: Any,
        task: Task,
        problem: Problem,
        seed: int | None,
        name: str,
        options: Mapping[str, Any] | None = None,
        episodes: int = 0,
    ) -> None:
        """`options`: what its `Kind` made it with, as plain values; None if it was made by hand."""
        self.inner, self.task, self.seed, self.name = inner, task, seed, name
        self.options = options
        self._problem = problem
        self._episodes = episodes
        self._proposal: Proposal | None = None
        self._before: Arrays | None = None  # its state before it was asked for that: a proposal may draw

    def __repr__(self) -> str:
        return f"Adapted({self.name}, {counted(self.episodes, 'episode')}, {self.task})"

    @property
    def episodes(self) -> int:
        """How many episodes were observed."""
        return self._episodes

    @property
    def problem(self) -> Problem:
        """What is asked; it can be set where the object has a `problem`."""
        return self._problem

    @problem.setter
    def problem(self, given: Problem) -> None:
        if not hasattr(self.inner, "problem"):
            raise SpecError(f"{self.name} has no problem that could be set; make it for these limits", key=("problem",))
        with theirs(f"{self.name}: its problem cannot be set", SpecError, ("problem",)):
            self.inner.problem = given
        self._problem = given
        self._proposal = None

    @property
    def proposal(self) -> Proposal:
        """What it proposes for the next episode; it is asked once."""
        if self._proposal is None:
            own = self._own("proposal")
            self._proposal = self._fitting(own if isinstance(own, Proposal) else self._asked())
        return self._proposal

    def _asked(self) -> Proposal:
        self._before = self._own_state() if self.resumes else None
        policy = self._call("propose")
        return Proposal(policy, policy)

    def _fitting(self, proposal: Proposal) -> Proposal:
        """Refuse what is no policy, or one for another task: what plays it would look beyond its table."""
        task, policy = self.task, proposal.policy
        if not isinstance(policy, Policy):
            raise RunError(f"{self.name} proposed {shown(policy)}; propose must return a Policy, such as plan.policy")
        if policy.shape != (task.horizon, task.num_states, task.num_actions):
            raise RunError(
                f"{self.name} proposed a policy of shape {policy.shape}; the task has {task.horizon} steps, "
                f"{task.num_states} states and {task.num_actions} actions"
            )
        return proposal

    def _call(self, method: str, *given: Any) -> Any:
        """What a method of the object answers."""
        with theirs(f"{self.name}: {method} failed"):
            return getattr(self.inner, method)(*given)

    def _own(self, name: str) -> Any:
        """What the object has of this name, or None; reading it may run code."""
        return read_own(self.inner, name, self.name)

    def propose(self) -> Policy:
        """The policy of the next episode; asked twice, the same one."""
        return self.proposal.policy

    def observe(self, episode: Episode) -> None:
        """Have it learn from the episode that was played. Refuses what the task says cannot be."""
        if not isinstance(episode, Episode):
            raise RunError(f"observe needs an Episode, not {type(episode).__name__}")
        check_episode(self.task, episode)
        before = self._counted()
        self._call("observe", copy.deepcopy(episode))  # it may scale rewards in place; the history has those played
        if (after := self._counted()) != (None if before is None else before + 1):
            told = f"episodes went from {before} to {after} when one was observed"
            raise RunError(f"{self.name}: {told}; count each of them, or leave episodes out")
        self._episodes += 1
        self._proposal = None

    def _counted(self) -> int | None:
        """How many episodes the object says that it has seen, if it counts them."""
        own = self._own("episodes")
        return None if own is None else read_count(own, f"episodes of {self.name}", 0, error=RunError)

    def reseed(self, seed: int) -> None:
        """Tell it the seed of all randomness to come, if it can be told."""
        self.seed = read_seed(seed)
        if self._own("reseed") is not None:
            self._call("reseed", self.seed)
        self._proposal = None

    def may_step(self, spent: ArrayLike) -> bool:
        """Whether one more step may be played in an episode that has cost `spent` [d] so far."""
        return bool(self._call("may_step", spent)) if can(self.inner, "may_step") else True

    def room(self) -> Room:
        """[d] each: what one episode may cost, and what one step can; empty where nothing binds step by step."""
        own: Room = UNBOUND if self._own("room") is None else self._call("room")
        return own

    @property
    def prices(self) -> Float | None:
        """[d]: the prices of the limits behind the last decision, where it has such."""
        own = self._own("prices")
        try:
            prices = None if own is None else float_array(own, "prices")
        except ModelError as error:
            raise RunError(f"{self.name}: {error}") from None
        if prices is not None and not (prices.shape == (self.task.num_costs,) and np.isfinite(prices).all()):
            raise RunError(f"{self.name}: prices is {shown(own)}; it must be a finite number for each cost, or None")
        return prices

    @property
    def budget(self) -> Any:
        """The books of a hard budget, where it keeps such."""
        return self._own("budget")

    def prime(self, episodes: Any) -> int:
        """Have it learn from logged episodes, where it can."""
        if not can(self.inner, "prime"):
            raise SpecError(f"{self.name} cannot learn from logged data: it has no method prime")
        return read_count(self._call("prime", episodes), f"what prime of {self.name} returns", 0, error=RunError)

    # -- saving -------------------------------------------------------------------------------------------

    @property
    def resumes(self) -> bool:
        """Whether it can be saved, and made again from what is saved."""
        return self.options is not None and can(self.inner, "state", "load_state")

    def save(self, path: str | Path) -> None:
        """Write everything needed to resume; `conrl.load_learner` reads it."""
        save_learner(self, path)

    def config(self) -> dict[str, Any]:
        """What makes this learner, as JSON."""
        return {
            **{name: _plain(value) for name, value in (self.options or {}).items()},
            "learner": self.name,
            "task": describe(self.task),
            "problem": describe(self._problem),
            "seed": self.seed,
        }

    def state(self) -> dict[str, Array]:
        """What it has learned, as arrays."""
        if not self.resumes:
            lacks = "it has no methods state and load_state" if self.options is not None else "it is not registered"
            raise SpecError(f"{self.name} cannot be saved: {lacks}")
        waiting = None if self._proposal is None else self._before  # who goes on from it is asked again
        own = self._own_state() if waiting is None else waiting
        return {"episodes": np.array(self._episodes), **prefixed(OWN, own)}

    def _own_state(self) -> Any:
        """What the object gives as its state, in arrays of their own."""
        own = self._call("state")
        if isinstance(own, Mapping):
            with theirs(f"the state of {self.name}"):
                own = {name: np.array(array) for name, array in own.items()}
        check_arrays(own, f"the state of {self.name}")
        return own

    def load_state(self, state: Arrays) -> None:
        """Go on from what `state` gave."""
        self._episodes = saved_count(state, "episodes")
        self._call("load_state", group(state, OWN))
        self._proposal = None


def _plain(value: Any) -> Any:
    """An option as JSON: itself, its description, or the word for what must be given again."""
    if (described := describe(value)) is not None:
        return described
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return GIVEN
    return value


@dataclass(frozen=True)
class Kind:
    """A class, or a function, that makes learners of two methods, and what is said of it where learners are listed."""

    name: str
    factory: Callable[..., Any]
    presets: Mapping[str, Any] = field(default_factory=lambda: {"default": {}})
    unsaid: Mapping[str, Any] = field(default_factory=dict)
    continuing: bool = False
    reports: bool = False

    @property
    def summary(self) -> str:
        """One line: its `summary`, or the first of its docstring."""
        own = getattr(self.factory, "summary", None)
        return own if isinstance(own, str) else (inspect.getdoc(self.factory) or "").partition("\n")[0].rstrip(".")

    @property
    def paper(self) -> str:
        """Where it is from."""
        own = getattr(self.factory, "paper", None)
        return own if isinstance(own, str) else ""

    @property
    def problems(self) -> tuple[type, ...]:
        """The problems that it takes; those without budgets unless it says otherwise."""
        own: tuple[type, ...] = getattr(self.factory, "problems", (Linear,))
        return own

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Those of the factory, but for the first, which is the task."""
        names = inspect.signature(self.factory).parameters
        return {name: names[name] for name in list(names)[1:]}

    @property
    def takes_all(self) -> bool:
        """Whether the factory takes options of any name."""
        return any(p.kind is p.VAR_KEYWORD for p in self.parameters.values())

    def __call__(
        self,
        task: Task,
        *,
        problem: Any = None,
        preset: str = "default",
        seed: int | None = None,
        **options: Any,
    ) -> Adapted:
        """One such learner."""
        known = self.parameters
        asked = as_problem(problem, task.limits)
        if not isinstance(asked, self.problems):
            able = " or ".join(kind.__name__ for kind in self.problems)
            raise SpecError(f"{self.name} takes {able} problems, not {type(asked).__name__}", key=("problem",))
        if "problem" not in known and describe(asked) != describe(Linear(task.limits)):
            raise SpecError(
                f"{self.name} has no parameter problem: it keeps limits on expected totals, and nothing else",
                key=("problem",),
            )
        if preset != "default" and "preset" not in known:
            raise SpecError(f"{self.name} has no presets; leave preset out", key=("preset",))
        shared = {"problem": asked, "preset": preset, "seed": seed}
        given = {name: value for name, value in shared.items() if name in known}
        with theirs(f"{self.name} cannot be made", SpecError, ("options",)):
            inner = self.factory(task, **given, **options)
        if not can(inner, *TWO):
            raise SpecError(f"{self.name} made {shown(inner)}; a learner has the methods propose and observe")
        return Adapted(inner, task, asked, seed, self.name, options)


def as_learner(given: Any, env: Any, episodes: int = 0, undeclared: bool = False) -> Learner:
    """What `learn` was given as a learner, with all that it needs.

    `episodes`: that it has seen, if it does not count them. `undeclared`: what the environment costs is computed
    beside it.
    """
    if inspect.isclass(given):
        raise SpecError(f"{given.__name__} is a class of learners; make one, such as {given.__name__}(env.task)")
    full = hasattr(type(given), "__getattr__") or all(name in dir(given) for name in NEEDED)
    if full or not can(given, *TWO):
        check_learner(given)
        return given  # type: ignore[no-any-return]
    kind = type(given).__name__
    if read_own(given, "continuing", kind):
        raise SpecError(f"{kind} learns from one unending episode; make it a subclass of TFWUCRL2")
    name = kind if (own := read_own(given, "name", kind)) is None else own
    if not isinstance(name, str):
        raise SpecError(f"{kind}: name is {shown(name)}; it must be a text")
    task, seed = _task(given, env, undeclared), read_own(given, "seed", kind)
    seen = read_own(given, "episodes", kind, episodes)
    try:
        seed, seen = None if seed is None else read_seed(seed), read_count(seen, "episodes", 0)
        own = read_own(given, "problem", kind)
        with theirs(f"{kind}: its problem cannot be read", passing=(MemoryError, ConRLError)):
            problem = as_problem(own, task.limits)
        if not (isinstance(problem, Linear) and problem.on_episodes):
            problem.bind(task)
    except (ModelError, SpecError) as error:
        raise SpecError(f"{kind}: {error}", key=error.key) from error
    return Adapted(given, task, problem, seed, name, episodes=seen)


def read_own(thing: Any, name: str, whose: str, otherwise: Any = None) -> Any:
    """What an object that is not ours has of a name; reading it may run code."""
    with theirs(f"{whose}: its {name} cannot be read"):
        return getattr(thing, name, otherwise)


def _task(given: Any, env: Any, undeclared: bool) -> Task:
    """The task of a learner, or that of the environment."""
    kind = type(given).__name__
    task = read_own(given, "task", kind)
    if isinstance(task, Task):
        return task
    if task is not None:
        raise SpecError(f"{kind}: task is {shown(task)}; it must be a conrl.Task, or None for that of the environment")
    if isinstance(env, ConstrainedMDP):
        return env.task
    if undeclared:
        raise SpecError(
            f"{kind} has no task, and the environment does not say what cost gives; give it one: "
            "learner.task = Task.from_gymnasium(env, limits=..., cost_names=...)"
        )
    return Task.from_gymnasium(env)

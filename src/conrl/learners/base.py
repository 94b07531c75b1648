"""What every learner is (`Learner`), and what all of them share: propose, observe, remember what was executed, save."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Array, Arrays, Float, Int
from conrl.arguments import float_array, read_count, read_flag, read_seed
from conrl.episode import Episode, check_episode
from conrl.errors import ModelWarning, RunError, SpecError, shown
from conrl.estimation.logs import Log
from conrl.learners.arrays import group, prefixed, saved_count
from conrl.learners.budget import Budget
from conrl.learners.executed import Executed
from conrl.learners.saving import describe, save_learner
from conrl.mixture import Mixture
from conrl.model import Task
from conrl.model.limits import Limits
from conrl.policy import Null, Policy
from conrl.problem import Linear, Problem, Rows, as_problem
from conrl.sampling import DRAW, UNBOUND, Room, randomness
from conrl.wording import counted, line


@dataclass(frozen=True, eq=False)
class Proposal:
    """What a learner wants played in the next episode.

    `policy` is to be executed; it is a `Null` for an episode that is not to be played. `guarded`: a hard budget forbids
    what the plan would have played (`intended`). `infeasible`: the estimated limits could not be kept, and the policy
    that exceeds them least was planned. `lottery`: the mixture that `policy` was drawn from, where the draw itself is
    part of what is executed: the value of the episode is then that of the lottery, before the draw. `reported`: what
    the learner shows as its policy, where that is not what it plays; `mixture`: its result so far, where that is a
    third thing. `exploring`: the policy was planned to learn from, and is not what the learner takes for the best.
    """

    policy: Policy
    intended: Policy
    guarded: bool = False
    infeasible: bool = False
    lottery: Mixture | None = None
    reported: Policy | None = None
    mixture: Mixture | None = None
    exploring: bool = False


class Learner(Protocol):
    """A state machine: propose, play, observe, propose, ... It can be saved between any two calls.

    A learner may also have what `OPTIONAL` lists; `BaseLearner` says what each of them is.
    """

    name: str
    task: Task
    problem: Problem
    seed: int | None

    @property
    def episodes(self) -> int:
        """How many episodes were observed."""

    @property
    def proposal(self) -> Proposal:
        """What `propose` gives, with its circumstances."""

    def reseed(self, seed: int) -> None:
        """All randomness to come from this seed."""

    def propose(self) -> Policy:
        """The policy of the next episode; asked twice, the same one."""

    def observe(self, episode: Episode) -> None:
        """Learn from the episode that was played."""

    def may_step(self, spent: ArrayLike) -> bool:
        """Whether one more step may be played in an episode that has cost `spent` [d] so far."""

    def room(self) -> Room:
        """[d] each, for `may_step` in compiled loops: what one episode may cost, and what one step can."""

    def config(self) -> dict[str, Any]:
        """What makes this learner, as JSON."""

    def state(self) -> dict[str, Array]:
        """What it has learned, as arrays."""

    def load_state(self, state: Arrays) -> None:
        """Go on from what `state` gave."""


NEEDED = ("task", "problem", "seed", "episodes", "proposal", "reseed", "observe", "room")  # of `Learner`, to learn
# And what a learner without it has.
OPTIONAL = {"continuing": False, "reports": False, "prices": None, "budget": None, "resumes": True}


def check_learner(given: Any) -> None:
    """Refuse what cannot be used as a `Learner`. `proposal` is not read: it would be planned. A wrapper that passes on
    what it is asked for (`__getattr__`) is taken at its word."""
    missing = [name for name in NEEDED if name not in dir(given)]
    if missing and not hasattr(type(given), "__getattr__"):
        lacks = "" if len(missing) == len(NEEDED) else f"; it has no {', '.join(missing)}"
        raise SpecError(f"learn needs a learner such as ConRL(env.task), not {type(given).__name__}{lacks}")
    if isinstance(given, BaseLearner):
        return
    if not isinstance(given.task, Task):
        raise SpecError(f"{type(given).__name__}: task is {shown(given.task)}; it must be a conrl.Task")
    try:
        read_count(given.episodes, "episodes", 0)
        as_problem(given.problem)
    except SpecError as error:
        raise SpecError(f"{type(given).__name__}: {error}", key=error.key) from error


def read_room(learner: Learner) -> Room:
    """The learner's room, if it is one: compiled loops would read beyond its arrays."""
    room = learner.room()
    if room is UNBOUND:
        return room
    try:
        left, worst = (float_array(part, "room") for part in room)
    except (TypeError, ValueError):
        left = worst = np.zeros((0, 0))
    if left.shape != worst.shape or left.shape not in ((0,), (learner.task.num_costs,)):
        name = getattr(learner, "name", type(learner).__name__)
        raise RunError(f"{name}: room gave {shown(room)}; it must give two arrays, a number for each cost")
    return left, worst


def optional(learner: Learner, name: str) -> Any:
    """What `OPTIONAL` lists, of a learner that may not have it."""
    return getattr(learner, name, OPTIONAL[name])


class Pause(NamedTuple):
    """When a learner wants to plan anew; the letters are those of `kernels.walk`.

    After a step whose pair (s, a) has then been played left[s, a] times, or when the gradient of a penalty has moved
    too far; after each step if `each_step`. It may be early or late: the learner itself decides in `observe`.
    """

    each_step: bool
    left: Int  # [S, A]
    total: Float  # [1+d]: paid so far
    steps: int  # played so far
    slope: Float  # [1+d], or empty
    target: Float  # [1+d]
    reference: Float  # [1+d]
    change: float
    threshold: float


class BaseLearner(ABC):
    """A state machine: `propose`, play, `observe`, `propose`, ...

    A learner says what to play (`_decide`) and learns from it (`_learn`); `config` and `state` make it anew. What it
    decides must depend on its state and `generator` alone: then it can be saved between any two calls.
    """

    name: str
    summary: str  # one line
    paper: str
    problems: tuple[type, ...] = (Linear,)  # the problems that it takes
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]  # by name, what each stands for
    settings: tuple[str, ...] = ()  # numbers and words that make it, beyond those of every learner: its attributes
    unsaid: ClassVar[Mapping[str, Any]] = {}  # settings younger than saved configurations, and what those mean
    reports: bool = False  # it shows something else than what it plays, as soon as it has something
    continuing: bool = False  # it learns from one unending episode
    sees_steps: bool = False  # it can learn what depends on the step
    single_episodes: bool = False  # it takes limits on single episodes
    resumes: bool = True  # it can be saved and go on
    budget: Budget | None = None  # the books of a hard budget

    def __init__(self, task: Task, problem: Problem | Limits | None, seed: int | None, keep_policies: bool) -> None:
        if not isinstance(task, Task):
            raise SpecError(f"a learner needs a Task, not {type(task).__name__}; a model has one: mdp.task")
        if task.step_dependent and not self.sees_steps:
            raise SpecError(
                f"{self.name} does not see the step, on which this task depends; use a learner that counts, such as "
                "conrl, or put the step into the state"
            )
        self.task = task
        self._problem, self._rows = self._read_problem(problem)
        self.seed = None if seed is None else read_seed(seed)
        self.keep_policies = read_flag(keep_policies, "keep_policies")
        self._episodes = 0
        self._proposal: Proposal | None = None
        self._executed = Executed()

    def __repr__(self) -> str:
        return line(self, counted(self.episodes, "episode"), self._asked, repr(self.task))

    @property
    def _asked(self) -> str:
        """The problem, where it is another than to keep the limits that the task shows."""
        own = isinstance(self.problem, Linear) and not self.problem.on_episodes
        usual = own and self._rows.equals(Linear(self.task.limits).rows(self.task))
        return "" if usual else f"problem={self.problem!r}"

    # -- what is asked ------------------------------------------------------------------------------------

    def _read_problem(self, given: Problem | Limits | None) -> tuple[Problem, Rows]:
        """What was given as the problem, with its rows; by default the task's limits."""
        problem = as_problem(given, self.task.limits)
        if isinstance(problem, Linear) and problem.per_step is not None:
            raise SpecError("learners keep limits on whole episodes; per_step is for conrl.plan", key=("per_step",))
        if not isinstance(problem, self.problems):
            able = " or ".join(kind.__name__ for kind in self.problems)
            raise SpecError(f"{self.name} takes {able} problems, not {type(problem).__name__}", key=("problem",))
        if isinstance(problem, Linear) and problem.on_episodes and self.single_episodes:
            problem.tails(self.task), problem.grids(self.task)  # refused here, not in the first episode
            return problem, problem.rows(self.task)
        return problem, problem.bind(self.task)[1]

    @property
    def problem(self) -> Problem:
        """What is asked. It can be set, as limits too, where the learner allows it: the next proposal keeps them."""
        return self._problem

    @problem.setter
    def problem(self, given: Problem | Limits | None) -> None:
        problem, rows = self._read_problem(given)
        unchanged = (
            isinstance(problem, Linear)
            and isinstance(self._problem, Linear)
            and rows.equals(self._rows)
            and problem.tails(self.task) == self._problem.tails(self.task)
            and problem.grids(self.task) == self._problem.grids(self.task)
        )
        if problem is not self._problem and not unchanged:
            self._change_problem(problem, rows)
            self._forget_proposal()
        self._problem, self._rows = problem, rows

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        """Get ready for another problem, with these rows, or refuse it and change nothing. `self.problem` is still
        the old one."""
        raise SpecError(f"the limits of {self.name} are fixed when it is made; make another one with problem=")

    # -- what a learner is --------------------------------------------------------------------------------

    @abstractmethod
    def _decide(self) -> Proposal:
        """What to play in the coming episode."""

    @abstractmethod
    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        """Take in an episode that fits the task and the proposal."""

    # -- the two methods ----------------------------------------------------------------------------------

    def propose(self) -> Policy:
        """The policy to play in the next episode; a `Null` if it is to be skipped. Asked twice, the same one."""
        return self.proposal.policy

    @property
    def proposal(self) -> Proposal:
        """What `propose` gives, with its circumstances."""
        if self._proposal is None:
            self._proposal = self._decide()
        return self._proposal

    def observe(self, episode: Episode) -> None:
        """Learn from the episode that was played. Refuses, and then changes nothing, what the task says cannot be."""
        if not isinstance(episode, Episode):
            raise RunError(f"observe needs an Episode, not {type(episode).__name__}")
        proposal = self.proposal
        check_episode(self.task, episode)
        steps = episode.actions.size
        if isinstance(proposal.policy, Null):
            if steps and self.budget is None:
                raise RunError("the episode was to be skipped, and was played")
            if steps:  # what was spent is spent
                told = f"episode {self._episodes + 1} was to be skipped, and was played; what it cost is booked"
                warnings.warn(told, ModelWarning, stacklevel=2)
        elif not steps and not episode.stopped:
            raise RunError("the episode was to be played, and was skipped")
        self._learn(episode, proposal)
        if self.keep_policies:
            self._executed.add(proposal.policy)
        self._episodes += 1
        self._proposal = None

    def reseed(self, seed: int) -> None:
        """Take all future randomness from this seed; a proposal that was not observed yet is made again."""
        self.seed = read_seed(seed)
        self._forget_proposal()

    def _forget_proposal(self) -> None:
        self._proposal = None

    def generator(self) -> np.random.Generator:
        """The generator of all draws for the coming episode; the same each time."""
        return randomness(self.seed, self._episodes + 1, DRAW)

    def may_step(self, spent: ArrayLike) -> bool:
        """Whether one more step may be played in an episode that has cost `spent` [d] so far."""
        return True

    def room(self) -> Room:
        """[d] each: what one episode may cost, and what one step can; empty where nothing binds step by step."""
        return UNBOUND

    def prime(self, episodes: str | Path | Log | Iterable[Episode]) -> int:
        """Learn from logged episodes, where the learner can."""
        raise SpecError(f"{self.name} cannot learn from logged data")

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def episodes(self) -> int:
        """How many episodes were observed, not counting logged ones."""
        return self._episodes

    @property
    def prices(self) -> Float | None:
        """[d]: the multiplier of each limit behind the last decision; None where there is none."""
        return None

    @property
    def average_policy(self) -> Mixture:
        """The uniform mixture of the policies of all episodes so far: the PAC policy (remark after Theorem 3.4)."""
        if not self.keep_policies:
            raise RunError("the policies were not kept; make the learner with keep_policies=True")
        if not len(self._executed):
            raise RunError("no episode has been observed")
        return self._executed.mixture()

    # -- saving -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything needed to resume exactly; `conrl.load_learner` reads it."""
        save_learner(self, path)

    def config(self) -> dict[str, Any]:
        """What makes this learner, as JSON; parts that are functions of the user's own are null. A setting that has its
        value in `unsaid` is left out."""
        made = {name: vars(self)[name] for name in self.settings}
        return {
            "learner": self.name,
            "task": describe(self.task),
            "problem": describe(self.problem),
            "seed": self.seed,
            "keep_policies": self.keep_policies,
            **{name: value for name, value in made.items() if self.unsaid.get(name, MISSING) != value},
        }

    def state(self) -> dict[str, Array]:
        """What it has learned, as arrays. A proposal not yet observed is not among them: it is made again."""
        return {"episodes": np.array(self._episodes), **prefixed("policy_", self._executed.state())}

    def load_state(self, state: Arrays) -> None:
        """Go on from what `state` gave."""
        self._episodes = saved_count(state, "episodes")
        shape = (self.task.horizon, self.task.num_states, self.task.num_actions)
        self._executed = Executed.load(group(state, "policy_"), shape)
        self._proposal = None

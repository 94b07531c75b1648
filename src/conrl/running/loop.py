"""The loop that joins a learner to an environment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import read_count, read_flag, read_seed
from conrl.errors import ConRLError, RunError, SpecError, shown
from conrl.foreign import theirs
from conrl.learners.adapted import PlainLearner, as_learner
from conrl.learners.base import Learner, Proposal, optional, read_room
from conrl.learners.budget import exact_total
from conrl.model import ConstrainedMDP
from conrl.model.limits import Limits
from conrl.policy import Null
from conrl.problem import Problem, as_problem
from conrl.running.continuing import play_trajectory
from conrl.running.history import History
from conrl.running.progress import show_progress
from conrl.running.rows import Row
from conrl.running.worlds import GymnasiumWorld, ModelWorld, Sampler, World
from conrl.sampling import WORLD, randomness
from conrl.signals import interruptible

if TYPE_CHECKING:
    import gymnasium


def learn(
    env: ConstrainedMDP | gymnasium.Env[Any, Any],
    learner: PlainLearner,
    episodes: int,
    seed: int | np.random.Generator = 0,
    progress: bool = False,
    *,
    pay: str | Sampler = "outcome",
    cost: Callable[..., ArrayLike] | None = None,
    problem: Problem | Limits | None = None,
    history: History | None = None,
    after: Callable[[History], None] | None = None,
) -> History:
    """Play episodes with a learner.

    Args:
        env: a model, which is sampled, or a Gymnasium environment with discrete spaces.
        learner: such as `ConRL(env.task)`, or any object with `propose()` and `observe(episode)`. What such an object
            has besides is used (`task`, `problem`, `episodes`, `reseed(seed)`, ...: see `conrl.learners.adapted`).
        episodes: how many to play, after those that the learner has already seen.
        seed: of all randomness. What happens in an episode depends on it and on the number of the episode alone: a
            learner that was saved and loaded goes on, with the same seed, as it would have.
        progress: show a bar on the terminal.
        pay: how a model pays: `"outcome"`, `"bernoulli"` or a function; see `ModelWorld`.
        cost: the costs of a step of a Gymnasium environment; see `GymnasiumWorld`.
        problem: limits, or a problem, that the learner is to keep from now on instead of its own.
        history: of earlier episodes, to be continued; it keeps comparing with the limits that it started with.
        after: called with the history after each episode.

    A learner of one unending episode (`learner.continuing`) is not reset between them: see `conrl.running.continuing`.
    Ctrl-C (or SIGTERM) ends the run after the episode that is being played; `history.interrupted` then says so. A
    second Ctrl-C ends it at once.
    """
    read_count(episodes, "episodes", 0)
    read_flag(progress, "progress")
    if after is not None and not callable(after):
        raise SpecError(f"after is {shown(after)}; it must be a function of the history")
    number = int(seed.integers(2**63)) if isinstance(seed, np.random.Generator) else read_seed(seed)
    learner = as_learner(learner, env, len(history) if isinstance(history, History) else 0, cost is not None)
    world, truth = make_world(env, learner, pay, cost)
    names = tuple(learner.task.cost_names)
    if history is not None and not (
        isinstance(history, History) and history.cost_names == names and len(history) == learner.episodes
    ):
        raise SpecError("the history is not that of this learner: it has other costs or another number of episodes")
    if problem is not None:
        learner.problem = as_problem(problem)
    if learner.seed is None:
        learner.reseed(number)
    history = History.of(learner, truth) if history is None else history
    history.interrupted = False
    play = play_trajectory if optional(learner, "continuing") else play_episode
    kind = type(learner)
    ours = kind.__module__.startswith("conrl.")
    with interruptible() as interrupted, show_progress(progress, history, episodes) as tick:
        for left in reversed(range(episodes)):
            with (
                nullcontext() if ours else theirs(f"learner {kind.__name__} failed", passing=(ConRLError, MemoryError))
            ):
                history.append(play(world, learner, number))
            tick()
            if after is not None:
                after(history)
            if interrupted() and left:
                history.interrupted = True
                break
    return history


def play_episode(world: World, learner: Learner, seed: int) -> Row:
    """One episode: propose, play, observe."""
    proposal = learner.proposal
    if not isinstance(proposal, Proposal):
        raise RunError(f"learner {type(learner).__name__} has proposal {shown(proposal)}; it must be a Proposal")
    k = learner.episodes + 1
    episode = world.play(proposal.policy, randomness(seed, k, WORLD), read_room(learner))
    guarded = proposal.guarded or episode.stopped
    prices = optional(learner, "prices")
    learner.observe(episode)  # refuses what cannot be, such as costs whose sum is no number
    costs = exact_total(episode.costs)
    unguarded: Float | None = costs
    if guarded:  # the same draws without the guard; the learner does not see them
        unguarded = None
        if isinstance(world, ModelWorld):
            shadow = world.play(proposal.intended, randomness(seed, k, WORLD))
            unguarded = exact_total(shadow.costs)
    return Row(
        reward=float(np.sum(episode.rewards)),
        costs=costs,
        expected=None if guarded else world.value(proposal.lottery or proposal.policy),
        unguarded=unguarded,
        steps=episode.actions.size,
        skipped=isinstance(proposal.policy, Null),
        guarded=guarded,
        infeasible=proposal.infeasible,
        prices=None if prices is None or prices.shape != costs.shape else prices,
        reported=None if proposal.reported is None else world.value(proposal.reported),
        mixture=None if proposal.mixture is None else world.value(proposal.mixture),
        exploring=proposal.exploring,
    )


def make_world(
    env: Any, learner: Learner, pay: str | Sampler, cost: Callable[..., ArrayLike] | None
) -> tuple[World, ConstrainedMDP | None]:
    """Where the learner is to play, and the true model where that is known; refuses what does not fit its task."""
    if isinstance(env, ConstrainedMDP):
        if cost is not None:
            raise SpecError("cost is for Gymnasium environments; a model has costs of its own")
        task = learner.task
        sizes = (task.num_states, task.num_actions, task.horizon, task.num_costs)
        theirs = (env.num_states, env.num_actions, env.horizon, env.num_costs)
        if sizes != theirs:
            raise SpecError(f"the learner's task has (states, actions, steps, costs) {sizes}, the model {theirs}")
        if env.step_dependent and not task.step_dependent:
            raise SpecError(
                "the model depends on the step, the learner's task does not; make it with step_dependent=True"
            )
        missing = task.mask & ~env.playable
        if missing.any():
            _, s, a = (int(x) for x in np.argwhere(missing)[0])
            raise SpecError(f"action {a} does not exist in state {s} of the model; make the task with available=")
        return ModelWorld(env, task, pay), env
    if not all(hasattr(env, name) for name in ("step", "reset")):
        raise SpecError(f"learn needs a ConstrainedMDP or a Gymnasium environment, not {type(env).__name__}")
    if pay != "outcome":
        raise SpecError("pay is for models; a Gymnasium environment pays as it does", key=("pay",))
    return GymnasiumWorld(env, learner.task, cost), None

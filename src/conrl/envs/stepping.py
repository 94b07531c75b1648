"""Episodes of a Gymnasium environment. Its answers are checked; a refusal says what it gave and what it must give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from conrl._types import Float
from conrl.arguments import needs
from conrl.errors import RunError, shown
from conrl.foreign import theirs

if TYPE_CHECKING:
    import gymnasium


class Step(NamedTuple):
    """One step, as far as its costs may depend on it."""

    state: int
    action: int
    successor: int
    reward: float
    terminated: bool
    info: Mapping[str, Any]


class Played(NamedTuple):
    """One episode of L steps, as long as the horizon unless the environment or the guard ended it."""

    states: list[int]  # [L+1]
    actions: list[int]  # [L]
    pay: list[Float]  # [L] of [1+d]
    terminated: bool
    truncated: bool


def play(
    env: gymnasium.Env[Any, Any],
    act: Callable[[int, int], int],
    horizon: int,
    seed: int | None,
    costs: Callable[[Step, int | None], Float],
    may_step: Callable[[], bool] = lambda: True,
) -> Played:
    """One episode.

    `act(h, state)` chooses, `costs(step, d)` reads what the step cost (d: how many costs the first step had, None
    before), and `may_step()` is asked before each step whether there may be one more.
    """
    with theirs("the environment's reset failed"):
        begun = env.reset(seed=seed)
    state = state_of(env, answer_of("reset", begun, 2)[0])
    states: list[int] = [state]
    actions: list[int] = []
    pay: list[Float] = []
    terminated = truncated = False
    while len(actions) < horizon and not (terminated or truncated) and may_step():
        action = act(len(actions), state)
        with theirs("the environment's step failed"):
            answer = env.step(action)
        observation, given, terminated, truncated, info = answer_of("step", answer, 5)
        terminated, truncated = flag_of(terminated, "terminated"), flag_of(truncated, "truncated")
        step = Step(state, action, state_of(env, observation), reward_of(given), terminated, info)
        pay.append(np.append(step.reward, costs(step, pay[0].size - 1 if pay else None)))
        actions.append(action)
        states.append(state := step.successor)
    return Played(states, actions, pay, terminated, truncated)


def answer_of(method: str, answer: Any, count: int) -> tuple[Any, ...]:
    """What `reset` (2 parts) or `step` (5) answered, once it is what Gymnasium says; older interfaces answer less."""
    if not isinstance(answer, tuple) or len(answer) != count or not isinstance(answer[-1], Mapping):
        what = "(observation, info)" if count == 2 else "(observation, reward, terminated, truncated, info)"
        raise RunError(f"the environment's {method} must give {what}, info a dictionary; it gave {shown(answer, 200)}")
    return answer


def state_of(env: gymnasium.Env[Any, Any], observation: Any) -> int:
    """The state that an observation is."""
    with theirs("the environment's observation space failed"):
        known = env.observation_space.contains(observation)
    if not known:
        raise RunError(f"the environment gave the observation {shown(observation)}, which is not in its space")
    return int(observation)


def flag_of(given: Any, what: str) -> bool:
    """Whether an episode is over."""
    try:
        return bool(given)
    except Exception:  # arrays of several, and objects of somebody's own
        raise RunError(f"the environment gave {what} {shown(given)}; it must be True or False") from None


def reward_of(given: Any) -> float:
    """A finite reward."""
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        several = isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.size > 1)
        hint = "; wrap it in conrl.envs.MultiObjective, which says what is the reward" if several else ""
        raise RunError(f"the environment gave the reward {shown(given)}, which is not a number{hint}") from None
    if not np.isfinite(number):
        raise RunError(f"the environment gave the reward {number}; it must be finite")
    return number


def wants_info(cost: Callable[..., Any]) -> bool:
    """Whether a user's function of costs is told `info` as well: if it needs a sixth argument."""
    return needs(cost, 6, least=5)


def cost_told(cost: Callable[..., Any], with_info: bool, step: Step) -> Any:
    """What a user's function says that a step costs."""
    with theirs("the cost function failed"):
        return cost(*(step if with_info else step[:-1]))


def costs_in(info: Mapping[str, Any]) -> Any:
    """`info["costs"]`, else `info["cost"]`, else None."""
    return info["costs"] if "costs" in info else info.get("cost")


def costs_of(given: Any, count: int | None) -> Float:
    """[d]: finite costs, so many of them where that is known."""
    try:
        costs = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        raise RunError(f"the environment gave the costs {shown(given)}, which are no numbers") from None
    if costs.ndim != 1 or (count is not None and costs.size != count):
        wanted = "numbers in a row" if count is None else f"{count} of them"
        raise RunError(f"the environment gave costs of shape {costs.shape}; expected {wanted}")
    if not np.isfinite(costs).all():
        raise RunError(f"the environment gave costs {costs}; they must be finite")
    return costs

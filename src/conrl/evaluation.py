"""What a policy is worth: exactly (`evaluate`) and episode by episode (`simulate`).

A limit on an expectation says nothing about tails: `Simulation` gives quantiles and the share of episodes above each
limit. A model that has one amount for each state and action, and not what each outcome pays, may hold the mean of what
varies; the scatter of single episodes is then too small. `Simulation.pays_means` says of which totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from conrl import kernels
from conrl._types import Array, Float
from conrl.arguments import is_int, is_number, read_count
from conrl.envs.stepping import answer_of, costs_in, costs_of, reward_of, state_of
from conrl.errors import ModelError, RunError, SpecError, shown
from conrl.model import ConstrainedMDP
from conrl.model.limits import resolve_limits, rounding_room
from conrl.model.mdp import need_model
from conrl.model.reading import default_cost_names
from conrl.policy import Mixture, Policy

if TYPE_CHECKING:
    import gymnasium


MOST_EPISODES = 2**31 - 1  # of a simulation: their totals are held in memory


class Evaluation(NamedTuple):
    """The exact expected totals of a policy."""

    reward: float
    costs: Float  # [d]


def evaluate(mdp: ConstrainedMDP, policy: Any) -> Evaluation:
    """The exact expected reward and costs of a policy under the mean model (a bonus is not counted).

    `policy` is a `Policy`, a `Mixture`, or a `Plan`, of which the policy is taken (episodes that it skips count as
    zero).
    """
    need_model(mdp, "evaluate")
    rho = np.zeros((1, mdp.num_pairs))
    for weight, part in _parts(policy):
        part.add_occupation(mdp, weight, rho)
    value = (1.0 - _skip(policy)) * (rho[0] @ mdp.pay)
    return Evaluation(float(value[0]), value[1:])


@dataclass(frozen=True, eq=False)
class Simulation:
    """Totals of simulated episodes: `rewards` [episodes] and `costs` [episodes, d], with their `limits` [d].

    `pays_means` names the totals ("reward", or a cost) of which the model has one amount for each state and action. If
    what is really paid varies around it, single episodes scatter more than these do; means are right all the same.
    """

    rewards: Float = field(repr=False)
    costs: Float = field(repr=False)
    limits: Float  # [d]; inf where there is none
    cost_names: tuple[str, ...] = ()
    pays_means: tuple[str, ...] = ()

    @property
    def mean(self) -> Evaluation:
        """The mean reward and costs of an episode; `evaluate` gives them exactly."""
        return Evaluation(float(self.rewards.mean()), self.costs.mean(axis=0))

    @property
    def standard_error(self) -> Evaluation:
        """Of the means."""
        n = self.rewards.size
        if n < 2:
            return Evaluation(float("nan"), np.full(self.costs.shape[1], np.nan))
        return Evaluation(float(self.rewards.std(ddof=1) / n**0.5), self.costs.std(axis=0, ddof=1) / n**0.5)

    def quantile(self, q: float) -> Evaluation:
        """The q-quantile of the reward and of each cost over episodes."""
        if not (is_number(q) and 0.0 <= q <= 1.0):
            raise SpecError(f"q is {shown(q)}; a quantile is a number in [0, 1]")
        return Evaluation(float(np.quantile(self.rewards, q)), np.quantile(self.costs, q, axis=0))

    def exceed(self, limits: ArrayLike | Mapping[str, float] | None = None) -> Float:
        """[d]: the share of episodes whose realised cost is above each limit; nan where there is no limit.

        By default the limits are those of the plan that was played, else the model's own.
        """
        names = self.cost_names or default_cost_names(self.limits.size)
        bounds = self.limits if limits is None else resolve_limits(limits, names, "limits")
        limited = np.isfinite(bounds)
        room = rounding_room(bounds, np.abs(self.costs).max(axis=0))
        share: Float = (self.costs > bounds + room).mean(axis=0)
        return np.where(limited, share, np.nan)


def simulate(
    mdp_or_env: ConstrainedMDP | gymnasium.Env[Any, Any],
    policy: Any,
    episodes: int = 1000,
    seed: int | np.random.Generator = 0,
) -> Simulation:
    """Play episodes and add up what they pay, in a model or in a Gymnasium environment with discrete spaces.

    Args:
        mdp_or_env: the model, or an environment whose `info` has "cost" or "costs".
        policy: a `Policy`, a `Mixture` (which draws its component at the start of each episode), or a `Plan`, of which
            the policy is played, or skipped as often as it says, and the limits are kept for `Simulation.exceed`.
        episodes: how many.
        seed: of all randomness; a number or a generator.

    Models whose pay was given by outcome pay by outcome; the others pay the mean of each state and action, as
    `Simulation.pays_means` says.
    """
    read_count(episodes, "episodes", most=MOST_EPISODES)
    if not isinstance(seed, np.random.Generator) and not (is_int(seed) and seed >= 0):
        raise SpecError(f"seed is {shown(seed)}; it must be a whole number of at least 0, or a generator")
    generator = np.random.default_rng(seed)
    parts = list(_parts(policy))
    weights = np.array([w for w, _ in parts])
    which = (
        generator.choice(len(parts), size=episodes, p=weights / weights.sum())
        if len(parts) > 1
        else np.zeros(episodes, int)
    )
    if (skip := _skip(policy)) > 0.0:
        which = np.where(generator.random(episodes) < skip, -1, which)
    linear = getattr(policy, "linear", None)
    if not isinstance(mdp_or_env, ConstrainedMDP):
        return _play(mdp_or_env, [p for _, p in parts], which, generator, linear)
    mdp = mdp_or_env
    totals = np.zeros((episodes, 1 + mdp.num_costs))
    for i, (_, part) in enumerate(parts):
        mine = np.flatnonzero(which == i)
        if mine.size:
            totals[mine] = _simulate(mdp, part, mine.size, generator)
    limits = mdp.limits if linear is None else linear.limits
    means = tuple(n for n, varies in zip(("reward", *mdp.cost_names), mdp.varies, strict=True) if not varies)
    bounds = resolve_limits(limits, mdp.cost_names, "limits")
    return Simulation(totals[:, 0], totals[:, 1:], bounds, mdp.cost_names, means)


def _simulate(mdp: ConstrainedMDP, policy: Policy, episodes: int, generator: np.random.Generator) -> Float:
    policy.check(mdp)
    g = mdp.graph
    pay = mdp.pay if mdp.outcome_pay is None else mdp.outcome_pay
    play = policy.probabilities[:, mdp.pair_state, mdp.action]  # [H, P]
    totals = np.zeros((episodes, 1 + mdp.num_costs))
    kernels.simulate(
        g.first,
        g.start,
        g.successor,
        _cumulated(g.probability, g.start),
        np.cumsum(mdp.initial),
        pay,
        mdp.outcome_pay is not None,
        np.stack([_cumulated(row, g.first) for row in play]),
        mdp.horizon,
        generator,
        totals,
    )
    return totals


def _cumulated(values: Float, start: Array) -> Float:
    """Running sums that begin anew at each start."""
    total: Float = np.concatenate(([0.0], np.cumsum(values)))
    before: Float = np.repeat(total[start[:-1]], np.diff(start))
    return total[1:] - before


def _play(
    env: gymnasium.Env[Any, Any],
    policies: list[Policy],
    which: Array,
    generator: np.random.Generator,
    linear: Any,
) -> Simulation:
    inner = getattr(env, "unwrapped", None)
    if inner is None:
        raise SpecError(f"simulate needs a ConstrainedMDP or a Gymnasium environment, not {type(env).__name__}")
    _check_spaces(env, policies)
    limits = getattr(inner, "cost_limits", None) if linear is None else linear.limits
    totals: list[Float | None] = []  # of each episode, reward and costs; None if it was skipped
    seed: int | None = int(generator.integers(2**31))  # of the first reset
    for part in which:
        totals.append(None if part < 0 else _episode(env, policies[part], generator, seed))
        seed = seed if part < 0 else None
    limited = 0 if limits is None else len(limits) if isinstance(limits, Mapping) else np.size(limits)
    widths = {total.size for total in totals if total is not None} or {1 + limited}
    if len(widths) > 1:
        raise RunError("the environment gave different numbers of costs in different steps")
    width = widths.pop()
    if width == 1 and limited:
        raise RunError('the environment gives neither info["costs"] nor info["cost"], but there are limits')
    table = np.array([np.zeros(width) if total is None else total for total in totals])
    names = tuple(getattr(inner, "cost_names", None) or default_cost_names(width - 1))
    return Simulation(table[:, 0], table[:, 1:], resolve_limits(limits, names, "limits"), names)


def _check_spaces(env: gymnasium.Env[Any, Any], policies: list[Policy]) -> None:
    """Whether each policy knows every state of an environment, and plays only its actions."""
    sizes = tuple(getattr(space, "n", None) for space in (env.observation_space, env.action_space))
    for policy in policies:
        if policy.shape[1:] != sizes:
            raise ModelError(
                f"the policy has {policy.shape[1]} states and {policy.shape[2]} actions, the environment "
                f"{env.observation_space} and {env.action_space}"
            )


def _episode(env: gymnasium.Env[Any, Any], policy: Policy, generator: np.random.Generator, seed: int | None) -> Float:
    """[1+d]: what one episode pays in all."""
    state = state_of(env, answer_of("reset", env.reset(seed=seed), 2)[0])
    rows: list[Float] = []
    for h in range(policy.shape[0]):
        answer = env.step(policy.act(h, state, generator))
        observation, reward, terminated, truncated, info = answer_of("step", answer, 5)
        state = state_of(env, observation)
        costs = costs_in(info)
        count = rows[0].size - 1 if rows else None
        if costs is None and count:
            raise RunError('the environment gives neither info["costs"] nor info["cost"] in one step, but did before')
        rows.append(np.append(reward_of(reward), costs_of([] if costs is None else costs, count)))
        if terminated or truncated:
            break
    total: Float = np.sum(rows, axis=0)
    return total


def _skip(policy: Any) -> float:
    """The probability with which a plan skips an episode."""
    return float(getattr(policy, "skip", 0.0))


def _parts(policy: Any) -> list[tuple[float, Policy]]:
    policy = getattr(policy, "policy", policy)  # of a plan
    if isinstance(policy, Mixture):
        return list(zip(policy.weights.tolist(), policy.policies, strict=True))
    if not isinstance(policy, Policy):
        raise ModelError(f"expected a Policy, a Mixture or a Plan, not {type(policy).__name__}; see conrl.Policy")
    return [(1.0, policy)]

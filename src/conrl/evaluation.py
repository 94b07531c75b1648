"""What a policy is worth: exactly (`evaluate`) and episode by episode (`simulate`).

A limit on an expectation says nothing about tails: `Simulation` gives quantiles and the share of episodes above each
limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl import kernels
from conrl.errors import ModelError
from conrl.inputs import resolve_limits
from conrl.model import ConstrainedMDP
from conrl.policy import Mixture, Policy

if TYPE_CHECKING:
    import gymnasium

Float = NDArray[np.float64]


class Evaluation(NamedTuple):
    """The exact expected totals of a policy."""

    reward: float
    costs: Float  # [d]


def evaluate(mdp: ConstrainedMDP, policy: Policy | Mixture) -> Evaluation:
    """The exact value of a policy under the mean model (a bonus is not counted)."""
    rho = np.zeros((1, mdp.num_pairs))
    for weight, part in _parts(policy):
        part.add_occupation(mdp, weight, rho)
    value = rho[0] @ mdp.pay
    return Evaluation(float(value[0]), value[1:])


@dataclass(frozen=True)
class Simulation:
    """Totals of simulated episodes."""

    rewards: Float  # [episodes]
    costs: Float  # [episodes, d]
    limits: Float  # [d]; inf where there is none

    @property
    def mean(self) -> Evaluation:
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
        return Evaluation(float(np.quantile(self.rewards, q)), np.quantile(self.costs, q, axis=0))

    def exceed(self, limits: ArrayLike | None = None) -> Float:
        """[d]: the share of episodes whose realised cost is above each limit (by default the model's)."""
        bounds = self.limits if limits is None else np.asarray(limits, dtype=np.float64)
        # Rounding: a sum of 30 costs of 1/30 is not above a limit of 1.
        room = 1e-9 * np.maximum(1.0, np.where(np.isfinite(bounds), np.abs(bounds), 0.0))
        share: Float = (self.costs > bounds + room).mean(axis=0)
        return share


def simulate(
    mdp_or_env: ConstrainedMDP | gymnasium.Env[Any, Any],
    policy: Policy | Mixture,
    episodes: int = 1000,
    seed: int | np.random.Generator = 0,
) -> Simulation:
    """Play episodes and add up what they pay, in a model or in a Gymnasium environment with discrete spaces.

    A mixture draws its component at the start of each episode. Models whose pay was given by outcome pay by outcome.
    """
    if episodes < 1:
        raise ModelError(f"episodes is {episodes}; at least 1 is needed")
    generator = np.random.default_rng(seed)
    parts = list(_parts(policy))
    weights = np.array([w for w, _ in parts])
    which = (
        generator.choice(len(parts), size=episodes, p=weights / weights.sum())
        if len(parts) > 1
        else np.zeros(episodes, int)
    )
    if not isinstance(mdp_or_env, ConstrainedMDP):
        return _play(mdp_or_env, [p for _, p in parts], which, generator)
    mdp = mdp_or_env
    totals = np.zeros((episodes, 1 + mdp.num_costs))
    for i, (_, part) in enumerate(parts):
        mine = np.flatnonzero(which == i)
        if mine.size:
            totals[mine] = _simulate(mdp, part, mine.size, generator)
    return Simulation(totals[:, 0], totals[:, 1:], resolve_limits(mdp.limits, mdp.cost_names, "limits"))


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


def _cumulated(values: Float, start: NDArray[Any]) -> Float:
    """Running sums that begin anew at each start."""
    total: Float = np.concatenate(([0.0], np.cumsum(values)))
    before: Float = np.repeat(total[start[:-1]], np.diff(start))
    return total[1:] - before


def _play(
    env: gymnasium.Env[Any, Any], policies: list[Policy], which: NDArray[Any], generator: np.random.Generator
) -> Simulation:
    limits = getattr(env.unwrapped, "cost_limits", None)
    rewards, costs = np.zeros(which.size), []
    for e, part in enumerate(which):
        policy = policies[part]
        observation, _ = env.reset(seed=int(generator.integers(2**31))) if e == 0 else env.reset()
        spent: Any = 0.0
        for h in range(policy.shape[0]):
            observation, reward, terminated, truncated, info = env.step(policy.act(h, int(observation), generator))
            rewards[e] += float(reward)
            spent = spent + np.atleast_1d(np.asarray(info.get("costs", info.get("cost", [])), dtype=np.float64))
            if terminated or truncated:
                break
        costs.append(spent)
    table = np.array(costs)
    return Simulation(rewards, table, np.full(table.shape[1], np.inf) if limits is None else np.asarray(limits, float))


def _parts(policy: Policy | Mixture) -> list[tuple[float, Policy]]:
    if isinstance(policy, Mixture):
        return list(zip(policy.weights.tolist(), policy.policies, strict=True))
    return [(1.0, policy)]

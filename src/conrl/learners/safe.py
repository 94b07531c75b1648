"""Shared by the learners that start from a policy known to be safe: SafeConRL, DOPE and OptPessLP.

The user vouches for a policy pi_0 and for upper bounds on its expected costs, `safe_costs`, none of which is above its
limit. Everything that is promised about costs rests on that. It is a Markov policy, so that it can be evaluated in the
model of the places: there it plays what it plays in the state of the place.

Nothing is promised about the reward, and optimism may earn less than pi_0 for long. Then it warns. After every 500
episodes that played something else, their mean reward m is compared with what pi_0 earns in the estimate, v (a pair
never visited pays the least there). Where m is below v, they stay in the comparison with the next 500, n episodes then,
with standard deviation s. With rho(s, a) the expected visits of pi_0 and N(s, a) those that were seen, it warns where

    v - m  >  0.05 |v| + 4 s sqrt( 1 / n + sum_{s, a} rho^2 / (H max(N, 1)) )

the second term in the root being the variance of v, where each step of pi_0 varies by s^2 / H. It warns once.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Array, Arrays, Bool, Float, Int
from conrl.arguments import frozen
from conrl.episode import Episode
from conrl.errors import ModelWarning, SpecError, shown
from conrl.learners.arrays import saved_count
from conrl.learners.confidence import ConfidenceSet, confidence_set
from conrl.learners.kept import fingerprint
from conrl.learners.optimistic import OptimisticLearner
from conrl.learners.replanning import ReplanningLearner
from conrl.model import ConstrainedMDP, Task
from conrl.model.limits import Limits, resolve_limits
from conrl.policy import Deterministic, Null, Policy
from conrl.problem import Problem, Rows
from conrl.stationary_policy import Stationary

EVERY = 500  # episodes away from the safe policy: their mean reward is compared with its own
SHORT = 0.05  # of what the safe policy earns: a smaller shortfall gives no warning
ERRORS = 4.0  # standard errors


class SafeLearner(ReplanningLearner, OptimisticLearner):
    """A learner with a policy `safe`, whose costs are at most `safe_costs` [d]; infinite where nobody limits them."""

    radii = "optcmdp"
    strictly = False  # whether safe_costs must be below the limits
    remedy: ClassVar[str]  # for earning less than the safe policy

    def __init__(
        self,
        task: Task,
        problem: Problem | Limits | None,
        safe: Policy,
        safe_costs: Limits,
        replan: str,
        seed: int | None,
        keep_policies: bool,
    ) -> None:
        super().__init__(task, problem, seed, keep_policies)
        self._check_rows(self._rows)
        self.safe = self._read_safe(safe)
        self.safe_costs: Float = frozen(self._read_costs(safe_costs))
        self._check_costs(self._rows)
        self._choose_replan(replan)
        self._left_at: int | None = None
        self._short_at: int | None = None
        self._away = 0, 0.0, 0.0  # episodes compared, and the sums of their rewards and of the squares

    def _read_safe(self, safe: Any) -> Policy:
        """A Markov policy of the task."""
        task, key = self.task, ("safe",)
        if not isinstance(safe, Policy) or isinstance(safe, (Null, Stationary)) or safe.acts_on_spent:
            raise SpecError(
                f"safe is {shown(safe)}; pass a policy with a table, such as plan.policy; of a Mixture, "
                "mixture.to_markov(model)",
                key=key,
            )
        shape = (task.horizon, task.num_states, task.num_actions)
        if safe.shape != shape:
            raise SpecError(f"safe has shape {safe.shape}; the task has steps, states and actions {shape}", key=key)
        missing = (safe.probabilities > 0.0) & ~task.mask
        if missing.any():
            h, s, a = (int(x) for x in np.argwhere(missing)[0])
            raise SpecError(f"safe plays action {a} in state {s} at step {h}, where it does not exist", key=key)
        return safe

    def _read_costs(self, given: Any) -> Float:
        if given is None:
            raise SpecError(
                "safe_costs are missing; what the safe policy is known to cost at most, by name or position",
                key=("safe_costs",),
            )
        task = self.task
        costs = resolve_limits(given, task.cost_names, "safe_costs")
        least = task.horizon * np.minimum(task.ranges[1:, 0], 0.0)
        for name, cost, low in zip(task.cost_names, costs.tolist(), least.tolist(), strict=True):
            if cost < low:
                raise SpecError(
                    f"safe_costs[{name!r}] is {cost:g}; by its range no episode costs less than {low:g}",
                    key=("safe_costs", name),
                )
        return costs

    def _check_costs(self, rows: Rows) -> None:
        """Refuse a safe policy that is not known to keep the limits."""
        for i, bound in zip(rows.cost.tolist(), rows.bound.tolist(), strict=True):
            own, name = float(self.safe_costs[i]), self.task.cost_names[i]
            if np.isinf(own):
                raise SpecError(
                    f"safe_costs has no number for {name!r}, which is limited to {bound:g}", key=("safe_costs", name)
                )
            if own > bound or (self.strictly and own == bound):
                least = "below" if self.strictly else "at most"
                raise SpecError(
                    f"safe_costs[{name!r}] is {own:g}; {self.name} needs a safe policy that costs {least} its limit, "
                    f"{bound:g}",
                    key=("safe_costs", name),
                )

    def _check_rows(self, rows: Rows) -> None:
        if (rows.sign < 0.0).any():
            raise SpecError(f"{self.name} keeps limits, no floors; leave them out", key=("problem",))

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        self._check_rows(rows)
        self._check_costs(rows)
        self._lottery = None

    # -- the safe policy where the learner plans ----------------------------------------------------------

    def _known(self, scale: float) -> ConfidenceSet:
        """The confidence set before the coming episode."""
        return confidence_set(self.task, self.counts, self._k, self.delta, scale, self.radii)

    def _likely(self, policy: Policy, model: ConstrainedMDP) -> Float:
        """[H, P]: how likely a policy of the task plays each pair of the places; START, END and ELSEWHERE have one."""
        task, counts = self.task, self.counts
        begin = counts.horizon - task.horizon  # START takes a step
        likely = np.ones((counts.horizon, model.num_pairs))
        state = counts.pair_state
        pair = np.flatnonzero(state < counts.start)
        seen, action = state[pair], counts.action[pair]
        if task.step_dependent:
            step, s = np.divmod(seen, task.num_states)
            likely[:, pair] = _first_of(counts.first, pair)  # at other steps nobody is there
            table = policy.probabilities
            likely[begin + step, pair] = table[step, s, action] / table[step, s].sum(axis=1)
        elif isinstance(policy, Deterministic):
            likely[begin:, pair] = policy.actions[:, seen] == action
            likely[:begin, pair] = _first_of(counts.first, pair)
        else:
            table = policy.probabilities  # as they are drawn from: in proportion
            likely[begin:, pair] = table[:, seen, action] / table.sum(axis=2)[:, seen]
            likely[:begin, pair] = _first_of(counts.first, pair)
        return likely

    def _visits(self, policy: Policy, model: ConstrainedMDP) -> Float:
        """[P]: how often a policy of the task visits each pair in an episode, in a model of the places."""
        table = np.zeros((model.horizon, model.num_states, model.num_actions))
        table[:, model.pair_state, model.action] = self._likely(policy, model)
        visits = np.zeros((1, model.num_pairs))
        Policy._trusted(table)._add_occupation(model, 1.0, visits)
        whole: Float = visits[0]
        return whole

    def _value(self, policy: Policy, model: ConstrainedMDP) -> Float:
        """[1+d]: what a policy of the task is worth in a model of the places."""
        value: Float = self._visits(policy, model) @ model.pay
        return value

    # -- the safe policy beside what is earned ------------------------------------------------------------

    def observe(self, episode: Episode) -> None:
        super().observe(episode)
        self._compare(np.array([episode.rewards.sum()]))

    def observe_block(self, states: ArrayLike, actions: ArrayLike, pay: ArrayLike) -> None:
        super().observe_block(states, actions, pay)
        self._compare(np.asarray(pay)[:, :, 0].copy().sum(axis=1))

    def _compare(self, rewards: Float) -> None:
        """Warn if episodes earned less than the safe policy would have; `rewards` are those of what was observed
        last."""
        if self._lottery is None or self._lottery.home:
            return
        for k, reward in enumerate(rewards.tolist(), self._episodes - rewards.size + 1):
            if self._short_at is not None:
                return
            away, total, square = self._away
            self._away = away + 1, total + reward, square + reward * reward
            if (away + 1) % EVERY == 0:
                self._judge(k)

    def _judge(self, episode: int) -> None:
        counts, away = self.counts, self._away[0]
        mean, square = self._away[1] / away, self._away[2] / away
        pay = counts.means.copy()
        pay[(counts.visits == 0) & self._unknown[1], 0] = self.task.ranges[0, 0]
        visits = self._visits(self.safe, counts.model())
        own = float(visits @ pay[:, 0])
        known = float((visits**2 / np.maximum(counts.visits, 1)).sum()) / counts.horizon
        error = math.sqrt(max(square - mean * mean, 0.0) * (1.0 / away + known))
        if own - mean <= SHORT * abs(own) + ERRORS * error:
            self._away = self._away if mean < own else (0, 0.0, 0.0)
            return
        self._short_at = episode
        warnings.warn(
            f"{self.name} earned {mean:.4g} an episode in the {away} up to {episode}, and the safe policy earns "
            f"{own:.4g} by its estimate: {self.remedy}",
            ModelWarning,
            stacklevel=4,
        )

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def left_at(self) -> int | None:
        """The number, from 1, of the first episode observed whose lottery had something else than the safe policy in
        it."""
        return self._left_at

    @property
    def short_at(self) -> int | None:
        """The number of the episode at which it was found, and warned of once, that the learner earns less than the
        safe policy."""
        return self._short_at

    @property
    def margin(self) -> Float:
        """[d]: what the next episode holds back of each limit: the limit, less what it costs by the estimate.

        Infinite where there is no limit. With little experience an estimate says little.
        """
        plan, model = self.policy, self.counts.model()
        costs = plan.weights @ np.array([self._value(policy, model)[1:] for policy in plan.policies])
        margin = np.full(self.task.num_costs, np.inf)
        margin[self._rows.cost] = self._rows.bound - costs[self._rows.cost]
        return margin

    def _planned(self) -> None:
        super()._planned()
        if self._left_at is None and self._lottery is not None and not self._lottery.home:
            self._left_at = self._episodes + 1

    # -- saving -------------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        costs = [None if np.isinf(x) else x for x in self.safe_costs.tolist()]
        return super().config() | {"safe": f"policy {fingerprint(self.safe)}", "safe_costs": costs}

    def state(self) -> dict[str, Array]:
        found = {"left_at": np.array(self._left_at or 0), "short_at": np.array(self._short_at or 0)}
        return super().state() | found | {"away": np.array(self._away)}

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        state = {"short_at": np.array(0), "away": np.zeros(3)} | dict(state)  # files of version 0.2 have neither
        left, short = saved_count(state, "left_at"), saved_count(state, "short_at")
        for name, episode in (("left_at", left), ("short_at", short)):
            if episode > self._episodes:
                raise ValueError(f"{name} is {episode} after {self._episodes} episodes")
        self._left_at, self._short_at = left or None, short or None
        away, total, square = state["away"].tolist()
        self._away = int(away), total, square

    def apart(self) -> dict[str, Policy]:
        """Parts that are stored as arrays, not in the configuration."""
        return {"safe": self.safe}


def _first_of(first: Int, pair: Int) -> Bool:
    """[n]: whether each of these pairs is the first of its place."""
    return np.isin(pair, first[:-1])

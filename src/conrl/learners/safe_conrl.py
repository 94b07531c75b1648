"""SafeConRL: no episode exceeds a limit in expectation, from the first on, starting from a policy known to be safe.

Known is a policy pi_0 whose expected costs are at most `safe_costs`, none of them above its limit. Before episode k let
B be a set of models that holds the truth with probability at least 1 - delta for all k at once
(`learners.confidence`). For any policy pi, one pass backward (`oracles.prudent`) gives

    U(pi) = its largest expected costs over B,    R(pi) = its largest expected reward over B,    R_hat(pi) = by estimate

so that the true costs are C(pi) <= U(pi). Those of pi_0 are known to be at most min(safe_costs, U(pi_0)) =: U(pi_0).
What is played is a *lottery*: policy i with probability w_i. Its expected costs are sum_i w_i C(pi_i). The program

    maximise    sum_i w_i [ optimism R(pi_i) + (1 - optimism) R_hat(pi_i) ]
    subject to  sum_i w_i U(pi_i) <= limits,   w in the simplex,   pi_0 among the policies                           (1)

therefore keeps every limit in every episode, whichever policies it is given: with probability at least 1 - delta no
episode of the whole run violates one. Nothing else is needed for that; how well it learns depends on the policies.

It explores from the first episode on. A policy of which nothing is known has U = H (the largest cost of one step) at
most, and so a weight of (limit - U(pi_0)) / (U - U(pi_0)) > 0 beside pi_0. This is the difference to DOPE (Bura et al.
2022) and OptPess-LP (Liu et al. 2021), the references: they play pi_0 alone until one pessimistic plan is feasible, and
then that. StepMix and EpsMix (Li et al. 2023) mix a safe policy with an optimistic one for a floor on reward.

Policies come from column generation: (1) over the policies so far has prices lambda, and the greedy policy for

    optimism R + (1 - optimism) R_hat - lambda.U

joins them, until it gains nothing. Before an even episode the optimism is 1, whatever else is asked for: an estimate
says nothing good of what was never tried, and would leave some of it so forever. Greedy is exact in what it says of
its policy, and not always the best policy: what is safe does not depend on it. The policies with weight are kept for
the next plan, and bounded anew, as B shrinks.

Checked before it leaves: U is rounded up by a proven bound on its rounding, and the weights move towards pi_0 until (1)
holds in exact arithmetic (`planners.lottery.kept_within`). What this rests on: the confidence set at `scale` 1, the
task's ranges, `safe_costs`, and `worst_costs` if given. `optimism` is free.

`worst_costs`: where it is known that what is left of an episode cannot cost more than so much, whatever is played from
whatever state, U is cut off there. A rover that stops where it crashes costs 1 and then 1/H a step, less than 2.
Without it, a state never seen may cost the most in every step left.

Radii. `"sharp"`: intervals by relative entropy, and one bound on the probability of all that was never seen next.
`"optcmdp"`: those of OptCMDP, which DOPE has too. Both hold with the same probability.

The default is not proven. With scale 0.1, relative entropies are compared with a tenth of L_k, which is about 3: a
statement that is seldom wrong for a single number, and was never seen to fail for a whole policy. With 0.03 it was
(docs/results.md; `benchmarks/safe.py` has the table of scales).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from conrl._types import Array, Arrays, Float
from conrl.arguments import frozen, read_choice, read_number, read_positive
from conrl.errors import SpecError
from conrl.learners.arrays import group, prefixed
from conrl.learners.confidence import RADII
from conrl.learners.kept import restored, stored
from conrl.learners.replanning import Lottery
from conrl.learners.safe import SafeLearner
from conrl.model import Task
from conrl.model.limits import Limits, resolve_limits
from conrl.oracles.prudent import Prudent, Worth
from conrl.planners.lottery import best_lottery, kept_within
from conrl.planners.result import split_prices
from conrl.policy import Policy
from conrl.problem import Problem, Rows

MOST = 30  # policies that one plan adds
CLOSED = 1e-9  # of the objective: a policy that gains less than this is not added
LEAVE = 1e-9  # of the largest total: by this the gain of the safe policy is lowered, so that ties are explored


class Column(NamedTuple):
    """A policy of the task, what it gains, and what it uses of each row at most, rounded up."""

    policy: Policy
    gain: float
    use: Float  # [R]


class SafeConRL(SafeLearner):
    """Learn without exceeding a limit: pessimistic about costs, optimistic about reward, never without a safe policy.

    Args:
        task: what is known (`mdp.task`, or `Task`).
        safe: a policy that is known to be safe, such as `plan.policy` of an earlier plan.
        safe_costs: what it is known to cost at most in expectation, by name or position; not above the limits. All that
            is promised rests on this.
        safe_reward: a lower bound on what it earns, if one is known, as a live system knows from its books. The learner
            will not switch to something that it values less. It is of no concern to safety.
        problem: limits, or `Linear` with limits only; the task's by default.
        preset: `"default"`: a practical scale, safe by experience only; `"theory"`: scale 1. Then no episode exceeds a
            limit in expectation, with probability at least 1 - delta over the whole run.
        delta: the failure probability at scale 1.
        scale: how wide the confidence set is; overrides the preset, as does the next.
        optimism: the share of the optimistic reward in what is maximised before odd episodes, in [0, 1]; the rest is
            the estimate. Before even ones it is 1. It is of no concern to safety.
        worst_costs: what is left of an episode costs at most this in expectation, from whatever state and whatever is
            played, by name or position. Known beforehand or not given.
        radii: `"sharp"`, or `"optcmdp"` for those of OptCMDP and DOPE.
        replan: plan before each `"episode"`, or when the visits of some pair have doubled (`"doubling"`).
        seed: of the draws from the lottery; `learn` gives it its own if there is none.
        keep_policies: remember what was executed, for `average_policy`.
    """

    name = "safe-conrl"
    summary = "keeps limits in every episode, in expectation: from safe and safe_costs, or safe_share"
    paper = "after Bura et al. (2022) and Liu et al. (2021)"
    settings = ("preset", "delta", "scale", "optimism", "safe_reward", "radii", "replan")
    remedy = "say what it earns (safe_reward), and lower optimism"
    presets: ClassVar = {
        "default": {"scale": 0.1, "optimism": 0.3},
        "theory": {"scale": 1.0, "optimism": 1.0},
    }

    def __init__(
        self,
        task: Task,
        *,
        safe: Policy,
        safe_costs: Limits,
        safe_reward: float | None = None,
        problem: Problem | Limits | None = None,
        preset: str = "default",
        delta: float = 0.05,
        scale: float | None = None,
        optimism: float | None = None,
        worst_costs: Limits | None = None,
        radii: str = "sharp",
        replan: str = "episode",
        seed: int | None = None,
        keep_policies: bool = True,
    ) -> None:
        super().__init__(task, problem, safe, safe_costs, replan, seed, keep_policies)
        chosen = self._choose(preset, delta, scale=scale, optimism=optimism)
        self.optimism = read_positive(chosen["optimism"], "optimism", zero=True)
        if self.optimism > 1.0:
            raise SpecError(f"optimism is {self.optimism:g}; it is a share, at most 1", key=("optimism",))
        self.safe_reward = None if safe_reward is None else read_number(safe_reward, "safe_reward")
        self.radii = read_choice(radii, "radii", RADII)
        self.worst_costs: Float = frozen(resolve_limits(worst_costs, task.cost_names, "worst_costs"))
        for i, (worst, high) in enumerate(zip(self.worst_costs.tolist(), task.ranges[1:, 1].tolist(), strict=True)):
            if worst < high:
                name = task.cost_names[i]
                raise SpecError(
                    f"worst_costs[{name!r}] is {worst:g}, and one step can cost {high:g} by the task's ranges; give "
                    "the most that the rest of an episode can cost",
                    key=("worst_costs", name),
                )
        self._kept: tuple[tuple[Policy, ...], Float] = (), np.zeros(self._rows.size)  # of the plan before
        self._next: tuple[tuple[Policy, ...], Float] = self._kept  # of this plan

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        super()._change_problem(problem, rows)
        self._kept = self._next = self._kept[0], rows.carry(self._rows, self._kept[1])

    # -- planning -----------------------------------------------------------------------------------------

    def _plan_lottery(self) -> Lottery:
        """Solve (1) by column generation."""
        rows, (kept, prices) = self._rows, self._kept
        known = self._known(self.scale)
        prudent = Prudent(known.oracle(known.high), known.model.pay[:, 0], self.worst_costs)
        hope = 1.0 if self._k % 2 == 0 else self.optimism
        home = self._column(self.safe, prudent.worth(self._likely(self.safe, known.model)), prudent, hope)
        largest = self.task.horizon * float(np.abs(self.task.ranges[0]).max())
        declared = np.minimum(home.use, self.safe_costs[rows.cost])
        gain = home.gain if self.safe_reward is None else max(home.gain, self.safe_reward)
        columns = [Column(self.safe, gain - LEAVE * largest, declared)]
        columns += [self._column(p, prudent.worth(self._likely(p, known.model)), prudent, hope) for p in kept]
        columns.append(self._answer(prudent, np.zeros(rows.size), hope))
        if prices.any():
            columns.append(self._answer(prudent, prices, hope))
        for _ in range(MOST):
            gains, uses = np.array([c.gain for c in columns]), np.array([c.use for c in columns])
            weights, prices = best_lottery(gains, uses, rows.bound)
            new, best = self._answer(prudent, prices, hope), float((gains - uses @ prices).max())
            if new.gain - float(prices @ new.use) <= best + CLOSED * max(largest, abs(best)):
                break
            columns.append(new)
        weights = kept_within(weights, uses, rows.bound)
        chosen = np.flatnonzero(weights > 0.0).tolist()
        self._next = tuple(columns[i].policy for i in chosen if i), prices
        policies = tuple(columns[i].policy for i in chosen)
        return Lottery(weights[chosen], policies, joint=True, home=chosen == [0])

    def _column(self, policy: Policy, worth: Worth, prudent: Prudent, hope: float) -> Column:
        gain = hope * worth.best + (1.0 - hope) * worth.estimate
        return Column(policy, gain, (worth.most + prudent.error)[self._rows.cost])

    def _answer(self, prudent: Prudent, prices: Float, hope: float) -> Column:
        """The greedy policy for these prices [R]."""
        weights = np.zeros(2 + self.task.num_costs)
        weights[0], weights[-1] = hope, 1.0 - hope
        np.add.at(weights, 1 + self._rows.cost, -prices)
        policy, worth = prudent.greedy(weights)
        return self._column(self._of_task(policy), worth, prudent, hope)

    def _planned(self) -> None:
        super()._planned()
        self._kept = self._next

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def prices(self) -> Float | None:
        return None if self._lottery is None else split_prices(self._rows, self._next[1], self.task.num_costs)[0]

    # -- saving -------------------------------------------------------------------------------------------

    def config(self) -> dict[str, object]:
        worst = [None if np.isinf(x) else x for x in self.worst_costs.tolist()]
        return super().config() | {"worst_costs": worst}

    def state(self) -> dict[str, Array]:
        arrays = super().state() | prefixed("kept_", _arrays(self._kept))
        return arrays | prefixed("next_", _arrays(self._next)) if "then" in arrays else arrays

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self._kept = self._read_kept(group(state, "kept_"))
        self._next = self._read_kept(group(state, "next_")) if "then" in state else self._kept

    def _read_kept(self, arrays: Arrays) -> tuple[tuple[Policy, ...], Float]:
        prices = np.array(arrays["prices"], dtype=np.float64)
        if prices.shape != (self._rows.size,) or not (np.isfinite(prices) & (prices >= 0.0)).all():
            raise ValueError("prices are not those of these limits")
        task = self.task
        policies = restored(arrays, (task.horizon, task.num_states, task.num_actions))
        for policy in policies:
            if (policy.probabilities > 0.0)[np.broadcast_to(~task.mask, policy.shape)].any():
                raise ValueError("a policy plays an action that does not exist")
        return policies, prices


def _arrays(kept: tuple[tuple[Policy, ...], Float]) -> dict[str, Array]:
    return stored(kept[0]) | {"prices": kept[1]}

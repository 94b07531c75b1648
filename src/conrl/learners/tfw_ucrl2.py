"""TFW-UCRL2: Frank-Wolfe over optimistic average-reward plans (Cheung 2019).

W. C. Cheung, "Regret minimization for reinforcement learning with vectorial feedback and complex objectives", NeurIPS
2019. One unending episode; in step t it pays a vector, the reward and the d costs, and w_t is the mean of the first t.
The aim is a large g(w_t) for a smooth concave g. The steps are cut into epochs. At the start of one, after t - 1 steps,

    theta = grad g(w_{t-1})                                  the direction of Frank and Wolfe (1956)
    r(s, a) = max theta.v  over vectors v within the radii around the empirical mean of (s, a)
    pi = extended value iteration for r, with every transition probability within its radius around p_hat

with the radius  max(sqrt(m L / N), L / N), L = log(t + 1), around an empirical mean m of N visits (1 if there is none),
intersected with the range of what is estimated. pi is played until the visits of some pair have doubled (or it had none
and now has one), or until the gradient threshold: the distances |grad g(w_u) - theta| of the steps u of the epoch add
up to more than Q. Without the threshold a Frank-Wolfe step would last too long to balance the coordinates.

The default g is that of the program behind Figures 1 and 2 of Brantley et al. (2020),

    g(w) = 1/2 ( L_1 w_0 - L_0 / 2 sum_k max(w_k - target_k, 0)^2 )

where k runs over all coordinates, the reward w_0 with target 1 and cost i with target limit_i / H. A mean of rewards in
[0, 1] never exceeds its target, so that only costs above their limits are penalised; where rewards reach further, their
largest is the target, for the same reason. L_0 = 1, L_1 = 1e-4, Q = 1/sqrt(2).

Optimism is strong: a successor never seen keeps the radius L / N, and all of them together S L / N. Until N exceeds S L
(about 800 visits of *each pair* on Mars rover) a plan may believe that any action leads to the best states.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from conrl import kernels
from conrl._types import Array, Arrays, Float
from conrl.arguments import read_positive, read_preset
from conrl.episode import Episode, check_episode
from conrl.errors import RunError, SpecError
from conrl.estimation.counts import Counts
from conrl.learners.arrays import group, prefixed
from conrl.learners.base import BaseLearner, Pause, Proposal
from conrl.learners.objectives import Objective, Penalised, read_objective
from conrl.learners.saving import GIVEN
from conrl.model import Task
from conrl.model.limits import Limits
from conrl.policy import Deterministic
from conrl.problem import Problem

WEIGHTS = {"reward_weight": 1e-4, "penalty_weight": 1.0}
NOTHING: Float = np.zeros(0)
STEP = 0.9  # of value iteration: less than 1 makes periodic chains converge
TIE = 1e-10  # of scaled values: nearer actions are tied
MAX_SWEEPS = 1_000_000
ARRAYS = ("total", "values", "theta", "actions", "left")  # of a learner, that are saved as they are


def radius(mean: ArrayLike, visits: ArrayLike, t: int) -> Float:
    """max(sqrt(m L / N), L / N) with L = log(t + 1) and N at least 1, at most 1; for means of what lies in [0, 1]."""
    share = np.log(t + 1.0) / np.maximum(np.asarray(visits, dtype=np.float64), 1.0)
    r: Float = np.minimum(np.maximum(np.sqrt(np.asarray(mean) * share), share), 1.0)
    return r


class TFWUCRL2(BaseLearner):
    """Optimistic average-reward learning of a concave function of mean reward and costs, in one unending episode.

    Args:
        task: of a single-episode model: `single_episode(mdp).task`. A trajectory is its H steps.
        problem: `Linear` limits (the task's by default), on the cost of H steps; there are no floors.
        preset: `"default"`: the radii of means are in units of the task's ranges; `"authors"`: means lie in [0, 1],
            as published. Where the ranges are [0, 1], as on Mars rover, the two are the same.
        objective: what is maximised instead: an object with `value(w)` and `gradient(w)` of the mean reward and costs
            per step w [1+d], or a pair of such functions. It must be smooth and concave. Its gradient is asked for
            after every step.
        reward_weight, penalty_weight: L_1 and L_0 of the default objective; they override the preset.
        threshold: Q, of the accumulated change of the gradient.
        accuracy: of value iteration; each plan is within accuracy / sqrt(t) of the best, where 1 is the most that a
            step can pay in the direction of the gradient. (Cheung has 1 / sqrt(t) for gradients of size 1. In absolute
            terms that would make plans greedy here, as L_1 is far below it.)
        seed: unused, as nothing here is random; `learn` sets it as for all learners.
        keep_policies: remember what was played, for `average_policy`: there each epoch's policy by its share of steps.

    `observe` takes any part of the unending episode of at most H steps; `learn` gives it parts that end where an epoch
    does. `episodes` counts whole trajectories.
    """

    name = "tfw-ucrl2"
    summary = "optimistic average-reward learning with Frank-Wolfe, in one unending episode"
    paper = "Cheung (2019), Regret minimization for reinforcement learning with vectorial feedback"
    continuing = True
    sees_steps = False
    presets: ClassVar = {
        "default": WEIGHTS,
        "authors": WEIGHTS,
    }  # authors: pay is in [0, 1]
    settings = ("preset", "reward_weight", "penalty_weight", "threshold", "accuracy")

    def __init__(
        self,
        task: Task,
        *,
        problem: Problem | Limits | None = None,
        preset: str = "default",
        objective: Objective | tuple[Callable[[Float], float], Callable[[Float], ArrayLike]] | None = None,
        reward_weight: float | None = None,
        penalty_weight: float | None = None,
        threshold: float = 0.5**0.5,
        accuracy: float = 0.01,
        seed: int | None = None,
        keep_policies: bool = False,
    ) -> None:
        """No step played, and no epoch open; every state of the task has its place from the beginning."""
        super().__init__(task, problem, seed, keep_policies)
        weights = read_preset(self.presets, preset, {"reward_weight": reward_weight, "penalty_weight": penalty_weight})
        self.preset = preset
        self.reward_weight = read_positive(weights["reward_weight"], "reward_weight", zero=True)
        self.penalty_weight = read_positive(weights["penalty_weight"], "penalty_weight", zero=True)
        self.threshold = read_positive(threshold, "threshold", zero=True)
        self.accuracy = read_positive(accuracy, "accuracy")  # value iteration must be allowed some error
        ranges = task.ranges
        self._low, self._high = ranges.T
        if preset == "authors":
            if (self._low < 0.0).any() or (self._high > 1.0).any():
                raise SpecError("preset 'authors' needs rewards and costs of one step in [0, 1]; use 'default'")
            self._low, self._high = np.zeros(len(ranges)), np.ones(len(ranges))
        self.custom = objective is not None
        self.objective = self._default() if objective is None else read_objective(objective, len(ranges))
        # The place of every state is its own number, and START has none: p_hat is that of the whole task.
        self.counts = Counts(dataclasses.replace(task, initial=0))
        self._anywhere = dataclasses.replace(task, initial=None)
        for s in range(1, task.num_states):
            self.counts._see(s)
        self._values = np.zeros(task.num_states)
        self._total = np.zeros(len(ranges))
        self._steps = self._epochs = 0
        self._position: int | None = None
        self._close()

    def _default(self) -> Penalised:
        rows = self._rows
        if (rows.sign < 0.0).any():
            raise SpecError("tfw-ucrl2 has limits only; put floors into an objective=")
        targets = np.full(1 + self.task.num_costs, np.inf)
        targets[0] = max(1.0, float(self.task.reward_range[1]))
        targets[1 + rows.cost] = rows.bound / self.task.horizon
        return Penalised(targets, self.reward_weight, self.penalty_weight)

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def position(self) -> int | None:
        """The state in which the next step is played; None before the first."""
        return self._position

    @property
    def steps(self) -> int:
        """Steps observed so far."""
        return self._steps

    @property
    def epochs(self) -> int:
        """Plans made so far."""
        return self._epochs

    @property
    def average(self) -> Float:
        """[1+d]: reward and costs per step so far; 0 before the first."""
        return self._total / max(self._steps, 1)

    def pause(self) -> Pause:
        """When this epoch ends, for compiled loops."""
        _ = self.proposal
        slope, target, reference = self._penalty()
        return Pause(
            not slope.size, self._left, self._total, self._steps, slope, target, reference, self._change, self.threshold
        )

    # -- epochs -------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """End the epoch; the next proposal begins another."""
        S, A = self.task.num_states, self.task.num_actions
        self._open, self._change = False, 0.0
        self._theta = np.zeros(1 + self.task.num_costs)
        self._actions = np.zeros(S, dtype=np.int16)
        self._left = np.zeros((S, A), dtype=np.int64)  # visits of each pair until they have doubled
        self._proposal = None

    def _decide(self) -> Proposal:
        if not self._open:
            self._plan()
            self._open = True
        actions = np.repeat(self._actions[None], self.task.horizon, axis=0)
        policy = Deterministic._trusted_actions(actions, self.task.num_actions)
        return Proposal(policy, policy)

    def _plan(self) -> None:
        """The policy of a new epoch: extended value iteration for the gradient at the mean so far."""
        t = self._steps + 1
        task, counts = self.task, self.counts
        self._theta = self._gradient(self.average)
        visits, action = counts.visits, counts.action
        first, start, successor, probability = counts.graph()
        intervals = kernels.intervals(start, probability, visits, np.log(t + 1.0))
        reward, choice = self._rewards(t), np.zeros(task.num_states, dtype=np.int64)
        within = float(self.accuracy / np.sqrt(t))
        _, span, sweeps = kernels.extended_value_iteration(
            first, start, successor.copy(), *intervals, reward, self._values, choice, within, STEP, TIE, MAX_SWEEPS
        )
        if sweeps == MAX_SWEEPS:
            raise RunError(
                f"extended value iteration is {span:.2g} from its fixed point after {sweeps} sweeps; "
                f"ask for less: accuracy={2.0 * self.accuracy:g}"
            )
        self._actions = action[first[:-1] + choice].astype(np.int16)
        state = np.repeat(np.arange(task.num_states), np.diff(first))
        self._left[state, action] = np.maximum(visits, 1)
        self._change = 0.0
        self._epochs += 1

    def _rewards(self, t: int) -> Float:
        """[P]: max theta.v within the radii, as a share of the most that it can differ between pairs."""
        spread = self._high - self._low
        unit = np.where(spread > 0.0, spread, 1.0)
        visits = self.counts.visits[:, None]
        means = np.where(visits > 0, self.counts.means, self._low)
        r = unit * radius(np.clip((means - self._low) / unit, 0.0, 1.0), visits, t)
        best = np.where(self._theta > 0.0, np.minimum(means + r, self._high), np.maximum(means - r, self._low))
        rewards: Float = best @ self._theta / (float(np.abs(self._theta) @ spread) or 1.0)
        return rewards

    def _gradient(self, w: Float) -> Float:
        theta = np.asarray(self.objective.gradient(w), dtype=np.float64)
        if theta.shape != w.shape or not np.isfinite(theta).all():
            raise SpecError(f"the gradient at {w} is {theta}; it must be {w.size} finite numbers")
        return theta

    def _penalty(self) -> tuple[Float, Float, Float]:
        """slope, target and reference of `kernels.follow`; empty for an objective of the user's own."""
        if not isinstance(self.objective, Penalised):
            return NOTHING, NOTHING, NOTHING
        reference = self._theta.copy()
        reference[0] -= 0.5 * self.objective.reward_weight
        return np.full(reference.size, 0.5 * self.objective.penalty_weight), self.objective.targets, reference

    # -- learning -----------------------------------------------------------------------------------------

    def observe(self, episode: Episode) -> None:
        """Learn from a part of the unending episode, of at most H steps, that begins where the last one ended."""
        check_episode(self._anywhere, episode)
        if episode.skipped or episode.stopped or episode.terminated:
            raise RunError("tfw-ucrl2 learns from an unending episode; this one was skipped, stopped or terminated")
        if not len(episode):
            return
        begin = int(episode.states[0])
        if self._position is not None and begin != self._position:
            raise RunError(f"the episode went on in state {begin}; it had come to {self._position}")
        proposal = self.proposal
        self._learn(episode, proposal)
        if self.keep_policies:
            self._executed.add(proposal.policy, len(episode))
        self._episodes = self._steps // self.task.horizon

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        states, actions, pay = episode.states, episode.actions, episode.pay
        self.counts.add(episode)
        steps = self._steps
        if not isinstance(self.objective, Penalised):
            for row in pay:
                self._total += row
                self._steps += 1
                self._change += float(np.linalg.norm(self._gradient(self.average) - self._theta))
            np.subtract.at(self._left, (states[:-1], actions), 1)
            full = bool((self._left[states[:-1], actions] <= 0).any())
        else:
            change, full = kernels.follow_all(states, actions, pay, self._left, self._total, steps, *self._penalty())
            self._change += change
            self._steps += actions.size
        self._position = int(states[-1])
        if full or self._change > self.threshold:
            self._close()

    # -- saving -------------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        return super().config() | {"objective": GIVEN if self.custom else None}

    def state(self) -> dict[str, Array]:
        position = -1 if self._position is None else self._position
        return (
            super().state()
            | prefixed("counts_", self.counts.state())
            | {
                "clock": np.array([self._steps, self._epochs, position, self._open], dtype=np.int64),
                "change": np.array(self._change),
                **{name: vars(self)[f"_{name}"].copy() for name in ARRAYS},
            }
        )

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self.counts.load_state(group(state, "counts_"))
        if not np.array_equal(self.counts.order, np.arange(self.task.num_states)):
            raise RunError("the counts do not cover the states of the task in their order")
        for name in ARRAYS:
            array, like = state[name], vars(self)[f"_{name}"]
            if array.shape != like.shape or array.dtype != like.dtype:
                raise RunError(f"{name} has shape {array.shape} and dtype {array.dtype}")
            vars(self)[f"_{name}"] = array.copy()
        self._steps, self._epochs, position, is_open = (int(x) for x in state["clock"])
        if not (-1 <= position < self.task.num_states and (not is_open or self._playable())):
            raise RunError("the position or an action is not one of the task")
        self._position = None if position < 0 else position
        self._open, self._change = bool(is_open), float(state["change"])

    def _playable(self) -> bool:
        """Whether the actions exist."""
        if self._actions.min() < 0 or self._actions.max() >= self.task.num_actions:
            return False
        mask = self.task.available
        return mask is None or bool(mask[np.arange(self.task.num_states), self._actions].all())

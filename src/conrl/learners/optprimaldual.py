"""OptPrimalDual-CMDP: small steps of a policy and of multipliers instead of a plan (Efroni, Mannor and Pirotta 2020).

Paper: "Exploration-Exploitation in Constrained MDPs", arXiv 2003.02189. The limits are R rows G z <= g on
the value vector (`conrl.problem.Rows`; a floor is a row too). The state is a stochastic policy pi_h(a|s), uniform at
first, and a multiplier lambda_r >= 0 for each row, 0 at first. After episode k, in which pi was played,

    Q^0_h, Q^r_h   = its truncated optimistic values, of the reward and of what each row uses (below)
    pi_h(a|s)      becomes proportional to pi_h(a|s) exp( step_k (Q^0_h - sum_r lambda_r Q^r_h)(s, a) )   mirror ascent
    lambda_r       becomes max( 0, lambda_r + dual_step_k (V^r_0 - g_r) )                                 dual ascent

Truncated optimistic values: with n = max(1, visits), the estimates p_hat, r_hat and c_hat, and w_i the width of the
range of one step's reward or cost i (0 included), backward over the steps h = 0..H-1

    Q^0_h = r_hat + b_0 + p_hat.V^0_{h+1}          Q^r_h = (G (r_hat, c_hat))_r - b_i + p_hat.V^r_{h+1}
    each kept between the least and the most that the H - h steps left can pay;   V_h(s) = sum_a pi_h(a|s) Q_h(s, a)
    b_i = scale * w_i ( sqrt(L_k / (2 n)) + H sqrt((S ln 2 + L_k) / (2 n)) ),     L_k as in `learners.optcmdp`

The first part of b is Hoeffding's inequality for the pay, the second that of Weissman et al. (2003) for the L1 distance
of p_hat and p, times half the span of a value, H w_i. At scale 1 both hold for all k at once with probability at least
1 - delta. A pair never visited has the most reward and the least use that there can be.

The paper minimises a cost in [0, 1], so that its truncation, Q_h = max(0, c_hat - b + p_hat.V_{h+1}), is the one above.
It has, with K episodes, I limits and a bound rho on the optimal multipliers that it takes as known,

    policy step sqrt( 2 ln A / (H^2 (1 + I rho)^2 K) ),   dual step sqrt( rho^2 / (H^2 I K) ),   every lambda_r <= rho
    b = (the radius of the cost) + H sum_t (the radius of p(t|s, a)),   the radii being those of OptCMDP

None of this was compared with the paper's text. The steps are borne out by what they must minimise, the regret bounds
ln A / step + step (H (1 + I rho))^2 K / 2 of mirror ascent and rho^2 / (2 step) + step I H^2 K / 2 of dual ascent.
Deviations:

- The preset "theory" has scale 1, k for K and 1 for rho, as neither is known beforehand. The multipliers are not kept
  below rho, as a guess that is too low would price the limits wrongly forever. The paper's regret bound is for its own
  steps, not for these:

      step_k = sqrt(2 ln A / k) / (H (1 + R)),   dual_step_k = 1 / (H sqrt(R k))

- Steps are in units of the ranges: of Q^0 / w_0, and of lambda_r w_r / w_0 for a use of (V^r - g_r) / w_r.
- The bonus has the L1 distance of p_hat and p in place of the sum over t.
- Models do not change with the step, so that visits of all steps are counted together.
- The episode just played is among the data that its policy is evaluated with.

The default is practical instead. Its constant steps would let the weights of an action fall without end while a limit
is exceeded, and as long to come back; `least` keeps every action within reach of the likeliest one of its state. On
Box, whose optimum is 1.75, episodes 401 to 600 of three seeds have a mean reward of 1.72 with it and of 1.45 without.

What is promised is about the *mean* of the policies played: costs above and below a limit cancel. Single policies swing
around it, the less the smaller the steps.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from conrl import kernels
from conrl._types import Array, Arrays, Float
from conrl.arguments import read_positive
from conrl.episode import Episode
from conrl.errors import SpecError, shown
from conrl.learners.base import Proposal
from conrl.learners.optimistic import OptimisticLearner, log_factor
from conrl.model import Task
from conrl.model.limits import Limits
from conrl.planners.result import split_prices
from conrl.policy import Policy
from conrl.problem import Problem, Rows


class OptPrimalDual(OptimisticLearner):
    """Mirror ascent on a stochastic policy, dual ascent on the prices of the limits.

    Args:
        task: what is known (`mdp.task`, or `Task`).
        problem: `Linear`; the task's limits by default.
        preset: `"default"`: practical scale and steps; `"theory"`: scale 1 and steps after the paper.
        delta: the failure probability at scale 1.
        scale: multiplies the bonus; overrides the preset, as the next four do.
        step: of the policy, in units of the ranges.
        dual_step: of the multipliers, in units of the ranges.
        decay: divide both steps by the square root of the number of the episode.
        least: no action is less likely than this times the likeliest one of its state; 0 for no such floor.
        seed: it draws nothing itself; for the world it is played in.
        keep_policies: remember what was executed, for `average_policy`. Every episode has another table [H, S, A], so
            that this needs memory; it is off by default.
    """

    name = "opt-primal-dual"
    summary = "optimistic mirror ascent on the policy, dual ascent on the prices of the limits"
    paper = "Efroni, Mannor and Pirotta (2020)"
    settings = ("preset", "delta", "scale", "step", "dual_step", "decay", "least")
    presets: ClassVar = {
        "default": {"scale": 1e-4, "step": 0.3, "dual_step": 0.1, "decay": False, "least": 1e-4},
        "theory": {"scale": 1.0, "step": None, "dual_step": None, "decay": True, "least": 0.0},
    }

    def __init__(
        self,
        task: Task,
        *,
        problem: Problem | Limits | None = None,
        preset: str = "default",
        delta: float = 0.05,
        scale: float | None = None,
        step: float | None = None,
        dual_step: float | None = None,
        decay: bool | None = None,
        least: float | None = None,
        seed: int | None = None,
        keep_policies: bool = False,
    ) -> None:
        """Steps that the preset leaves open are the paper's; a uniform policy and multipliers of 0 to begin with."""
        super().__init__(task, problem, seed, keep_policies)
        chosen = self._choose(preset, delta, scale=scale, step=step, dual_step=dual_step, decay=decay, least=least)
        H, R = task.horizon, max(self._rows.size, 1)
        if chosen["step"] is None:
            chosen["step"] = np.sqrt(2.0 * np.log(max(task.num_actions, 2))) / (H * (1 + R))
        if chosen["dual_step"] is None:
            chosen["dual_step"] = 1.0 / (H * R**0.5)
        self.step = read_positive(chosen["step"], "step")
        self.dual_step = read_positive(chosen["dual_step"], "dual_step")
        self.decay: bool = chosen["decay"]
        self.least = read_positive(chosen["least"], "least", zero=True)
        if self.least > 1.0:
            raise SpecError(f"least is {shown(least)}; it is a share of the likeliest action's probability, at most 1")
        self._weights = np.zeros((self.counts.horizon, self.counts.num_pairs))  # logarithms, the largest of a state 0
        self._multipliers = np.zeros(self._rows.size)

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        self._multipliers = rows.carry(self._rows, self._multipliers)  # the steps stay as they are

    @property
    def prices(self) -> Float:
        return split_prices(self._rows, self._multipliers, self.task.num_costs)[0]

    @property
    def multipliers(self) -> Float:
        """[R]: the prices of the rows, in reward per unit of cost."""
        return self._multipliers.copy()

    # -- the two steps ------------------------------------------------------------------------------------

    def _decide(self) -> Proposal:
        """What is played in the states that were seen; in the others all actions are as likely."""
        task, counts = self.task, self.counts
        table = np.empty((task.horizon, task.num_states, task.num_actions))
        table[:] = task.mask / task.mask.sum(axis=2, keepdims=True)
        state = counts.pair_state
        pair = np.flatnonzero(state < counts.start)
        seen, begin, likely = state[pair], counts.horizon - task.horizon, self._probabilities()
        if task.step_dependent:
            step, s = np.divmod(seen, task.num_states)
            table[step, s, counts.action[pair]] = likely[begin + step, pair]
        else:
            table[:, seen, counts.action[pair]] = likely[begin:, pair]
        policy = Policy._trusted(table)
        return Proposal(policy, policy)

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        self.counts.add(episode)
        k = self._episodes + 1
        self._weights = self._grown()
        Q, V = self._evaluate()
        slow = 1.0 / np.sqrt(k) if self.decay else 1.0
        unit = _units(self.task.spread)
        self._weights += (self.step * slow / unit[0]) * (Q[:, :, 0] - Q[:, :, 1:] @ self._multipliers)
        first = self.counts.first
        self._weights -= np.repeat(np.maximum.reduceat(self._weights, first[:-1], axis=1), np.diff(first), axis=1)
        if self.least > 0.0:
            np.maximum(self._weights, np.log(self.least), out=self._weights)
        size = unit[1 + self._rows.cost]
        move = self.dual_step * slow * unit[0] / size**2 * (V[1:] - self._rows.bound)
        self._multipliers = np.maximum(0.0, self._multipliers + move)

    def _probabilities(self) -> Float:
        """[H, P]: pi of the pairs of the places; those that are new are as likely as others."""
        first = self.counts.first
        p: Float = np.exp(self._grown())
        p /= np.repeat(np.add.reduceat(p, first[:-1], axis=1), np.diff(first), axis=1)
        return p

    def _grown(self) -> Float:
        weights = np.zeros((self.counts.horizon, self.counts.num_pairs))
        weights[:, : self._weights.shape[1]] = self._weights
        return weights

    def _evaluate(self) -> tuple[Float, Float]:
        """Q [H, P, 1+R] and V [1+R]: the truncated optimistic values of the present policy."""
        task, rows = self.task, self._rows
        model = self.counts.model()
        H = model.horizon
        sign = np.concatenate(([1.0], rows.sign))
        column = np.concatenate(([0], 1 + rows.cost))
        b = self.bonus()[:, column]
        b[:, 1:] *= -1.0  # optimism: more reward, less use
        pay = model.pay[:, column] * sign + b
        moves, _ = self._unknown
        never = moves & (self.counts.visits == 0)
        pay[never, 0], pay[never, 1:] = np.inf, -np.inf
        low, high = task.ranges.T
        ends = np.sort(np.stack((low, high))[:, column] * sign, axis=0)
        left = (H - np.arange(H))[:, None]
        # An episode may end early, and END pays nothing.
        least, most = left * np.minimum(ends[0], 0.0), left * np.maximum(ends[1], 0.0)
        Q = np.empty((H, model.num_pairs, column.size))
        V = kernels.truncated_values(*model.graph, self._probabilities(), pay, least, most, Q)
        value: Float = V[0]  # every episode begins at place 0
        return Q, value

    def bonus(self, episode: int | None = None) -> Float:
        """[P, 1+d]: b of each pair of the places; 0 where there is nothing to learn."""
        task = self.counts.task
        extra = int(task.initial is None)
        L = log_factor(task, self._k if episode is None else self.primed + episode, self.delta)
        n = np.maximum(self.counts.visits, 1)
        moves, pays = self._unknown
        own = np.where(pays, np.sqrt(L / (2.0 * n)), 0.0)
        log_sets = (task.num_states + extra) * np.log(2.0)
        onward = np.where(moves, (task.horizon + extra) * np.sqrt((log_sets + L) / (2.0 * n)), 0.0)
        return self.scale * (own + onward)[:, None] * task.spread

    # -- saving -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        return super().state() | {"weights": self._weights, "multipliers": self._multipliers}

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        weights = self._saved_table(state, "weights")
        multipliers = np.array(state["multipliers"], dtype=np.float64)
        if multipliers.shape != self._multipliers.shape or not (np.isfinite(multipliers) & (multipliers >= 0.0)).all():
            raise ValueError("multipliers are not those of these limits")
        self._weights, self._multipliers = weights, multipliers


def _units(widths: Float) -> Float:
    """The units of the steps: the widths, or 1 for what never varies."""
    return np.where(widths > 0.0, widths, 1.0)

"""What an episode costs in all, exactly: the probability of every total of a cost, and what follows from it.

The total so far is carried in the state (`conrl.model.tracking`), and one forward pass tells how episodes end.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from conrl._types import Float
from conrl.arguments import is_number
from conrl.errors import ModelError, SpecError, shown
from conrl.evaluation import unwrapped
from conrl.mixture import Mixture, parts_of
from conrl.model import ConstrainedMDP
from conrl.model.counting import Counter, Sums, TooManyTotals, simplest
from conrl.model.mdp import need_model
from conrl.model.tracking import Tracked, track, track_as
from conrl.notebook import Columns, Display, Displayed, Framed, Plotted
from conrl.policy import Deterministic, Null, Policy
from conrl.spending import SpentPolicy
from conrl.wording import line, short

MOST_TOTALS = 100_000  # of an exact distribution
DUST = 1e-12  # of a probability: what rounding may leave of it


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(Displayed, Framed, Plotted):
    """The total of one cost in an episode: `totals` [n], rising, with their `probabilities` [n].

    As a data frame: `total`, `probability` and `above`, the probability of a larger one.
    """

    cost: str
    totals: Float
    probabilities: Float
    exact: tuple[Fraction, ...]  # the totals as rationals
    sums: Sums  # what a total is a sum of

    def __repr__(self) -> str:
        ends = f"{self.totals[0]:.6g}..{self.totals[-1]:.6g}"
        return line(self, f"{short(self.cost)}: {self.totals.size} totals {ends}, mean {self.mean:.6g}")

    def _columns(self) -> Columns:
        return {"total": self.totals, "probability": self.probabilities, "above": self._above}

    def _display(self) -> Display:
        return Display(f"Distribution of {self.cost} in an episode, mean {self.mean:.6g}", self._columns())

    @property
    def mean(self) -> float:
        return float(self.totals @ self.probabilities)

    @property
    def most(self) -> float:
        """The largest total that has a positive probability."""
        return float(self.totals[np.flatnonzero(self.probabilities > 0.0)[-1]])

    def exceed(self, threshold: float) -> float:
        """The probability of a total above a threshold by more than rounding, as limits count it."""
        if not is_number(threshold):
            raise SpecError(f"threshold is {shown(threshold)}; it must be a number", key=("threshold",))
        bar = self.sums.reach(float(threshold))
        return float(self.probabilities[np.array([total > bar for total in self.exact])].sum())

    def cvar(self, level: float) -> float:
        """The mean of the worst share 1 - level of episodes."""
        if not (is_number(level) and 0.0 <= level < 1.0):
            raise SpecError(f"level is {shown(level)}; it must be in [0, 1)", key=("level",))
        return cvar(self.totals, self.probabilities, 0.0, float(level))[0]

    def quantile(self, q: float) -> float:
        """The least total that is not exceeded with probability q."""
        if not (is_number(q) and 0.0 <= q <= 1.0):
            raise SpecError(f"q is {shown(q)}; a quantile is a number in [0, 1]", key=("q",))
        share = float(1 - simplest(q)) * (1.0 + DUST)  # of 1: probabilities are rounded
        return float(self.totals[int(np.argmax(self._above <= share))])

    @property
    def _above(self) -> Float:
        """[n]: the probability of a larger total."""
        return np.append(np.cumsum(self.probabilities[:0:-1])[::-1], 0.0)


def cvar(totals: Float, probabilities: Float, beyond: float, level: float) -> tuple[float, int]:
    """CVaR of rising totals, of which the last stands for a mean excess of `beyond` above it; and which is the best t.

    The minimum over t of t + E max(C - t, 0) / (1 - level) is at one of the totals.
    """
    share = float(1 - simplest(level))
    above = np.cumsum(probabilities[::-1])[::-1]  # P(C >= total)
    # E max(C - t, 0) rises from the last total down by gap x P(C > t).
    excess = np.append(np.cumsum((np.diff(totals) * above[1:])[::-1])[::-1], 0.0) + beyond
    values = totals + excess / share
    best = int(np.argmin(values))
    return float(values[best]), best


def distribution(mdp: ConstrainedMDP, policy: Any, cost: int | str = 0) -> Distribution:
    """The exact distribution of the total of one cost in an episode of a policy, a mixture or a plan.

    Costs are counted as rationals, by outcome where the model has pay by outcome and else as means
    (`Simulation.pays_means`). Totals of costs without a common unit may be too many: then it is refused.
    """
    need_model(mdp, "distribution")
    index = mdp.cost_index(cost)
    played, skip, _ = unwrapped(policy)
    found: dict[Fraction, float] = {Fraction(0): skip} if skip > 0.0 else {}
    for weight, part in parts_of(played):
        part.check(mdp)
        for total, p in _one_distribution(mdp, part, index):
            found[total] = found.get(total, 0.0) + (1.0 - skip) * weight * p
    exact = tuple(sorted(found))
    totals = np.array([float(x) for x in exact])
    probabilities = np.array([found[x] for x in exact])
    return Distribution(mdp.cost_names[index], totals, probabilities, exact, mdp._sums(index))


def _one_distribution(mdp: ConstrainedMDP, policy: Policy, index: int) -> list[tuple[Fraction, float]]:
    """The totals of a cost under one policy, with their probabilities: a forward pass with the total in the state.

    A policy that counts costs itself needs those in the state as well.
    """
    if isinstance(policy, Null):
        return [(Fraction(0), 1.0)]
    own = policy.counter if isinstance(policy, SpentPolicy) else None
    alone = track_or_refuse(mdp, index)
    if own is not None:
        whole = alone.counter
        joint = Counter(
            (*own.costs, *whole.costs),
            (*own.names, *whole.names),
            (*own.units, *whole.units),
            (*own.caps, *whole.caps),
            (*own.rounding, *whole.rounding),
        )
        try:
            tracked = track_as(mdp, joint, MOST_TOTALS)
        except TooManyTotals:
            raise ModelError(
                f"the totals of {mdp.cost_names[index]!r}, beside those that the policy counts, are more than "
                f"{MOST_TOTALS:,}; simulate instead"
            ) from None
        over: Policy = policy.over(tracked)  # type: ignore[attr-defined]
    else:
        tracked = alone
        over = policy_over(policy, tracked)
    last = last_totals(tracked, over)
    unit = tracked.counter.units[-1]
    found: dict[Fraction, float] = {}
    for k in np.flatnonzero(last > 0.0).tolist():
        total = tracked.totals[k][-1] * unit
        found[total] = found.get(total, 0.0) + float(last[k])
    return list(found.items())


def track_or_refuse(mdp: ConstrainedMDP, index: int) -> Tracked:
    """The model with all totals of one cost in its state."""
    try:
        return track(mdp, [index], [[]], [None], 0, MOST_TOTALS)
    except TooManyTotals:
        raise ModelError(
            f"the totals of {mdp.cost_names[index]!r} are more than {MOST_TOTALS:,}: its costs have no common unit; "
            "round them, or simulate"
        ) from None


def policy_over(policy: Policy, tracked: Tracked) -> Policy:
    """A policy that counts nothing, in a tracked model."""
    if isinstance(policy, Deterministic):
        return Deterministic._trusted_actions(policy.actions[:, tracked.state], policy.num_actions)
    return Policy._trusted(policy.probabilities[:, tracked.state])


def last_totals(tracked: Tracked, over: Policy) -> Float:
    """[totals]: the probability that an episode ends with each."""
    model = tracked.model()
    rho = np.zeros((model.repeats, model.num_pairs))
    over._add_occupation(model, 1.0, rho)
    last = np.zeros(model.num_pairs)
    at = tracked.pairs_at(model.horizon - 1)
    last[at] = rho[-1][at]
    reached = np.repeat(last, np.diff(tracked.start)) * tracked.probability
    return np.bincount(tracked.after, reached, minlength=len(tracked.totals)).astype(np.float64)


def extremes(mdp: ConstrainedMDP, played: Policy | Mixture) -> tuple[Float, Float]:
    """[1+d] twice: the least and the most that an episode can pay, reward first, as the model pays by outcome."""
    ends = [_one_extremes(*part.policy.on(mdp), 1 + mdp.num_costs) for part in parts_of(played) if part.weight > 0.0]
    return np.min([least for least, _ in ends], axis=0), np.max([most for _, most in ends], axis=0)


def _one_extremes(mdp: ConstrainedMDP, policy: Policy, width: int) -> tuple[Float, Float]:
    """Of one Markov policy: backward induction with the worst outcome in the place of the mean one."""
    graph, S = mdp.graph, mdp.num_states
    start, stride = graph.start[:-1].astype(np.int64), S if mdp.step_dependent else 0
    pay = mdp.pay_by_outcome[:, :width]
    possible = (graph.probability > 0.0)[:, None]
    value = np.zeros((2, S, width))  # of less, and of minus the most
    for h in range(mdp.horizon - 1, -1, -1):
        pairs = slice(int(graph.first[h * stride]), int(graph.first[h * stride + S]))
        state, action = mdp.pair_state[pairs], mdp.action[pairs]
        done = np.flatnonzero(policy.probabilities[h, state, action] > 0.0)
        after = np.full((2, S, width), np.inf)  # nobody comes to a state where nothing is played
        for sign, old, new in zip((1.0, -1.0), value, after, strict=True):
            worst = np.minimum.reduceat(np.where(possible, sign * pay + old[graph.successor], np.inf), start)[pairs]
            np.minimum.at(new, state[done], worst[done])
        value = after
    least, most = value[:, mdp.initial > 0.0].min(axis=1)
    return least, -most

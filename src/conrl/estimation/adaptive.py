"""The bonus that ConRL has by default: optimism in proportion to the noise that was seen, and episodes that explore.

Before episode k of H steps, of a pair with N visits (u: the spread of the reward, u_i that of cost i):

    reward    + (0.6 u / H + 2 s) / sqrt(N)     s: what one visit to the pair pays scatters by, in terms of r - prices.c
    cost i    - 0.3 u_i / H / sqrt(N)           caution: the estimate is raised
    N = 0     the best that the declared ranges allow
    k a cube  + u / sqrt(N) about the reward and - u_i / sqrt(N) about costs instead, within the declared ranges

s is the deviation that the successor does not explain, at the prices of the last plan. Two standard errors are the
usual measure of doubt about a mean. In a world whose pay follows from where one comes to, as on maps, s is 0, and doubt
costs nothing. Where a pair has been seen too seldom to tell, its noise is taken to be the largest seen anywhere
(`Evidence.noise`), as if of two more visits: a price that did not sell in its first three hours may still sell.

What this does not doubt is transitions: a pair seen five times may not have shown its rare successor. So in episodes
whose number is a cube (8, 27, 64, ...) the bonus is as wide as the range itself. In K episodes these are K^(1/3), less
than the order sqrt(K) of the regret in Theorem 3.4. They may exceed the limits: optimism about the reward alone leaves
some rivers unswum, where the way to what pays costs more than the limit as long as it is not known to pay. Where that
must not be, `SafeConRL` is the learner, or `explore=False`.

What is added whatever the noise is a share of the spread for a whole episode, not for a step: an episode of a large map
has many steps, and pays no more. 0.6 / H and 0.3 / H are the 0.02 and 0.01 that were chosen on Mars rover and Box (H =
30) in version 0.1. The 2, the cubes and the division by H were chosen on worlds with numbers below 102 of the families
in benchmarks/worlds.py. Fourth powers instead of cubes left two rivers unswum. docs/results.md has what the rule gives
on other worlds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conrl import kernels
from conrl._types import Float
from conrl.arguments import read_flag, read_number, read_positive
from conrl.errors import SpecError, shown
from conrl.estimation.bonuses import ScaledBonus
from conrl.estimation.evidence import Evidence


@dataclass(frozen=True)
class AdaptiveBonus:
    """Optimism by the noise that was seen, caution about costs, and now and then an episode that explores.

    Args:
        deviations: how many standard errors of r - prices.c the reward is raised by.
        reward: a fixed bonus, even without noise, as a share of the spread.
        cost: the same for costs; negative plans as if they were higher. Both are divided by the horizon, and by
            sqrt(visits).
        explore: whether episodes whose number is a cube explore. They may exceed limits.
    """

    deviations: float = 2.0
    reward: float = 0.6
    cost: float = -0.3
    explore: bool = True

    def __post_init__(self) -> None:
        read_positive(self.deviations, "deviations", zero=True)
        read_flag(self.explore, "explore")
        read_number(self.reward, "reward")
        read_number(self.cost, "cost")

    def __call__(self, evidence: Evidence) -> Float:
        if not isinstance(evidence, Evidence):
            raise SpecError(f"AdaptiveBonus needs the Evidence, not {shown(evidence)}; ConRL(bonus=) gives it")
        visits, task = evidence.visits, evidence.task
        if self.explores(evidence.episode):
            low, high = task.ranges.T
            more, less = high - evidence.model.pay, evidence.model.pay - low
            room = np.where(evidence.better > 0.0, more, np.where(evidence.better < 0.0, less, np.minimum(more, less)))
            wide = ScaledBonus(1.0, 1.0)(visits, evidence.episode, task)
            b = np.where(visits[:, None] > 0, np.clip(room, 0.0, wide), wide)
            if task.initial is None:
                b[0] = 0.0  # START pays nothing
            return b
        H, noise = task.horizon, evidence.noise() if self.deviations > 0.0 else np.empty(0)
        scales = self.reward / H, self.cost / H, float(self.deviations)
        table: Float = kernels.noisy_bonus(visits, *scales, task.spread, noise)
        return table

    def explores(self, episode: int) -> bool:
        """Whether an episode of this number, logged ones counted, explores: `learn` keeps it in the history."""
        return self.explore and is_cube(episode)


def is_cube(k: int) -> bool:
    """Whether k is the third power of a whole number above 1."""
    root = round(float(k) ** (1.0 / 3.0))
    return bool(root > 1 and root**3 == k)

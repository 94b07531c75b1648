"""What a learner knows before an episode, as a bonus is told it.

P pairs (state, action) of the n states seen so far; pay is the reward and d costs, 1 + d numbers. w is a direction:
what one unit of each is worth, (1, -prices) at the prices of the last plan.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from conrl import kernels
from conrl._types import Bool, Float, Int
from conrl.arguments import float_array, frozen, read_count, read_positive
from conrl.errors import SpecError, shown
from conrl.estimation.counts import Counts
from conrl.model import ConstrainedMDP, Task
from conrl.model.mdp import need_model
from conrl.wording import line, totals

NO_CEILING = np.inf


class Evidence:
    """The counts before an episode, and what follows from them. Nothing here may be changed.

    Arrays may be views of what the learner goes on counting in: copy what is to be kept beyond the call.

    Args:
        counts: what was seen.
        episode: the number of the coming episode, from 1; logged ones count.
        prices: [d], of the last plan: its multipliers, what one unit of each cost is worth in reward where it was
            planned; None before there is one.
        model: the empirical model of the states seen, without bonus; made of the counts by default.
        better: [1+d]: 1 where more is hoped for, the reward and costs with a floor; -1 where less is, costs with a
            limit, which all have by default; 0 for costs with both.
    """

    def __init__(
        self,
        counts: Counts,
        episode: int,
        prices: Float | None = None,
        model: ConstrainedMDP | None = None,
        better: ArrayLike | None = None,
    ) -> None:
        if not isinstance(counts, Counts):
            raise SpecError(f"counts is {shown(counts)}; a learner has them: learner.counts", key=("counts",))
        self._counts = counts
        self.episode = read_count(episode, "episode")
        self.prices = None if prices is None else frozen(float_array(prices, "prices"))
        if self.prices is not None:
            if self.prices.shape != (counts.task.num_costs,):
                raise SpecError(f"prices has shape {self.prices.shape}; expected one for each cost", key=("prices",))
            if not np.isfinite(self.prices).all():
                raise SpecError("prices has an entry that is not a finite number", key=("prices",))
        signs = np.ones(1 + counts.task.num_costs)
        signs[1:] = -1.0
        self.better = frozen(signs if better is None else float_array(better, "better"))
        if self.better.shape != signs.shape or not np.isin(self.better, (-1.0, 0.0, 1.0)).all():
            raise SpecError(
                f"better is {shown(better)}; expected 1, -1 or 0 for the reward and each cost", key=("better",)
            )
        if model is not None:
            need_model(model, "Evidence")
            if model.num_pairs != counts.num_pairs:
                raise SpecError("model is not that of the counts; leave it out", key=("model",))
            self.model = model

    @classmethod
    def _trusted(cls, counts: Counts, episode: int, prices: Float | None, better: Float) -> Evidence:
        """Of what is known to fit: a learner makes one each episode."""
        self = cls.__new__(cls)
        self._counts, self.episode, self.better = counts, episode, better
        self.prices = None if prices is None else frozen(prices)
        return self

    @cached_property
    def model(self) -> ConstrainedMDP:
        """The empirical model of the states seen, without bonus."""
        return self._counts.model()

    def __repr__(self) -> str:
        prices = "" if self.prices is None else f"prices {totals(self.task.cost_names, self.prices)}"
        visits = int(np.asarray(self.visits).sum())
        return line(self, f"episode {self.episode}", f"{visits:,} visits of {self.model.num_pairs:,} pairs", prices)

    @property
    def task(self) -> Task:
        """What was known beforehand; where it depends on the step, a state here is one at one step."""
        return self._counts.task

    @property
    def visits(self) -> Int:
        """[P]: of each pair."""
        return self._counts.visits

    @property
    def known(self) -> Bool:
        """[P]: pairs about which there is nothing to learn: that of the end of an episode."""
        mask = np.zeros(self.visits.size, dtype=bool)
        if self._counts.known >= 0:
            mask[self._counts.known] = True
        return mask

    @cached_property
    def direction(self) -> Float:
        """[1+d]: (1, -prices); without prices, the reward alone."""
        w = np.zeros(1 + self.task.num_costs)
        w[0] = 1.0
        if self.prices is not None:
            w[1:] = -self.prices
        return w

    @cached_property
    def variance(self) -> Float:
        """[P, 1+d]: the sample variance of the pay of all visits of a pair, whatever they led to; unbiased, and 0 where
        there are fewer than two."""
        return frozen(self._counts.squares() / np.maximum(self.visits - 1, 1)[:, None])

    def noise(self, w: ArrayLike | None = None, pseudo: float = 2.0) -> Float:
        """[P]: the standard deviation of w.pay in one visit that the successor does not explain; 0 in a world whose
        pay follows from the successor.

        It is estimated as if `pseudo` more visits had been seen, with the largest deviation of any pair (which is in
        turn estimated with so many visits of the mean deviation of all): what was seen seldom may be as noisy as
        anything. `w` [1+d] is `direction` by default.
        """
        w = self.direction if w is None else float_array(w, "w")
        read_positive(pseudo, "pseudo", zero=True)
        if w.shape != (1 + self.task.num_costs,):
            raise SpecError(f"w has shape {w.shape}; expected one number for the reward and each cost")
        return self._counts.noise(w, float(pseudo))

    def successors(self) -> tuple[Int, Int]:
        """[P] each: how many states each pair has led to, and how many of them just once."""
        graph = self.model.graph
        seen = self.visits > 0
        number = np.where(seen, np.diff(graph.start), 0)
        once = np.rint(graph.probability * np.repeat(self.visits, np.diff(graph.start))) == 1.0
        return number, np.where(seen, np.add.reduceat(once, graph.start[:-1], dtype=np.int64), 0)

    def values(self, pay: ArrayLike) -> Float:
        """[H, P]: what each pair is worth at each step, by backward induction on pay [P] in the empirical model."""
        model, pay = self.model, float_array(pay, "pay")
        if pay.shape != (model.num_pairs,) or not np.isfinite(pay).all():
            raise SpecError(f"pay has shape {pay.shape}; expected a finite number for each of {model.num_pairs} pairs")
        H = model.horizon
        Q = np.empty((H, model.num_pairs))
        actions = np.empty((H, model.num_states), dtype=np.int16)
        ceiling, before = np.full(H, NO_CEILING), np.zeros((H, 0))
        kernels.clipped_greedy(*model.graph, model.action, pay, ceiling, before, 0.0, Q, actions)
        return Q

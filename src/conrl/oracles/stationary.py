"""The exact oracles of a model without a horizon, discounted or total: a direction w is answered by policy iteration.

The model is made into one that is certain to end (`conrl.model.reduction`): its probabilities times the discount or,
for totals, with every end component as one node. There the best policy for the scalar pay w.(r, c) (with a bonus, in
its best case for w) is found with a proven bound on its value (`policy_iteration.py`), which is what `support`
answers. Its value vector is x.(r, c), with x the expected visits, whose residual is known.

Probabilities of a pair are taken in proportion: those that add up to 1 - 1e-10 would end a total by themselves.
A total is one number only if nothing is paid forever: an end component with a pair that pays is refused by name.
"""

from __future__ import annotations

import numpy as np

from conrl import kernels
from conrl._types import Float, Int
from conrl.errors import ModelError
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Discounted
from conrl.model.reduction import Components, Reachable, Reduced, collapsed, discounted, end_components
from conrl.oracles.policy_iteration import LONG, Best, PolicyIteration, certified_steps, quickest, toward
from conrl.oracles.protocols import ModelOracle, Rounding, Supports
from conrl.rounding import HALF_ULP
from conrl.stationary_policy import Stationary


class StationaryOracle(ModelOracle):
    """`SupportOracle` of a model that is certain to end, or of its optimistic set if it carries a bonus."""

    def __init__(self, mdp: ConstrainedMDP, part: Reachable, reduced: Reduced, process: PolicyIteration) -> None:
        super().__init__(mdp, *_paid(mdp, part, reduced), (0, 0))
        self.part, self.reduced, self.process = part, reduced, process
        self.horizon = process.expected
        self._pair_bonus: Float = np.empty((0, 1 + self.num_costs)) if self._bonus is None else self._bonus

    def _tie(self, w: Float) -> float:
        """Of the pay to come from any state, not only from the start."""
        return self._tie_unit * min(self.process.longest, LONG) * float(np.abs(w) @ self.scale)

    def rounding(self, sharp: bool = False) -> Rounding:
        """Support values are upper bounds as they are. Both are off by about steps^2 half ulps of the largest pay;
        where that is much, by some 1e-11 of the largest total."""
        support, point = self.process.errors(self.process.expected)
        return Rounding(support * self.scale, point * self.scale)

    def point_error(self, w: Float) -> Float:
        """By what its policy is paid."""
        return self.process.error_of(self._best(np.asarray(w, dtype=np.float64)), self._sizes)

    def support_many(self, directions: Float) -> Supports:
        m = directions.shape[0]
        values, points, means = np.empty(m), np.empty((m, 1 + self.num_costs)), np.empty((m, 1 + self.num_costs))
        for i, w in enumerate(directions):
            best = self._best(w)
            values[i] = best.bound
            x = self.process.visits(best.chain)
            kernels.paid(x, best.pairs, self._pay, means[i])
            points[i] = means[i]
            if self._bonus is not None:
                moved = np.empty(1 + self.num_costs)
                kernels.paid(x, best.pairs, self._bonus, moved)
                points[i] += np.sign(w) * moved
        return Supports(values, points, means)

    def _best(self, w: Float) -> Best:
        pay = np.empty(self._pay.shape[0])
        kernels.along(self._pay, self._pair_bonus, w, pay)
        size = float(np.abs(w) @ self.scale)
        return self.process.closely(pay, lambda: self._exactly(w), size, self._tie(w))

    def _exactly(self, w: Float) -> tuple[Float, Float]:
        return along_closely(self._pay, self._bonus, w, self._sizes)

    def policy(self, w: Float) -> Stationary:
        """The best policy for w; the first action in states that cannot be reached."""
        best = self._best(np.asarray(w, dtype=np.float64))
        mdp = self.mdp
        actions = mdp.action[mdp.graph.first[:-1]].astype(np.int16)
        played = self._played(best.pairs)
        actions[self.part.order] = mdp.action[self.part.pairs[played]]
        return Stationary._trusted_actions(actions, mdp.num_actions)

    def _played(self, pairs: Int) -> Int:
        """[positions]: the pair of the reachable part that each position plays, where nodes play `pairs`."""
        return self.reduced.pair[pairs]


class DiscountedOracle(StationaryOracle):
    """Of a model with `Discounted(g)`."""

    def __init__(self, mdp: ConstrainedMDP) -> None:
        criterion = mdp.horizon
        assert isinstance(criterion, Discounted)
        # An estimate may err on what can be reached.
        part = Reachable.of(mdp, everywhere=mdp._visits is not None).in_proportion()
        reduced = discounted(part, criterion.discount)
        least, most = _row_sums(reduced)
        steps = np.full(part.order.size, (1.0 + 1e-12) / (1.0 - most))
        exits = np.full(part.pairs.size, 1.0 - criterion.discount)
        process = PolicyIteration(reduced.graph, reduced.initial, steps, exits=exits)
        super().__init__(mdp, part, reduced, process)
        self._fewest = 1.0 / (1.0 - least)

    @property
    def box(self) -> tuple[Float, Float]:
        """[1+d] each: between these lies every value vector; the discounts add up to `_fewest` .. `horizon`."""
        spread = 0.0 if self._bonus is None else self._bonus
        low, high = (self._pay - spread).min(axis=0), (self._pay + spread).max(axis=0)
        few, many = self._fewest, self.horizon
        return np.minimum(few * low, many * low), np.maximum(few * high, many * high)


class TotalOracle(StationaryOracle):
    """Of a model with `Total()`."""

    def __init__(self, mdp: ConstrainedMDP) -> None:
        part = Reachable.of(mdp).in_proportion()
        self.components = end_components(part)
        _refuse_paid(mdp, part, self.components)
        reduced = collapsed(part, self.components)
        steps, first = certified_steps(reduced.graph, reduced.initial, quickest(reduced.graph))
        super().__init__(mdp, part, reduced, PolicyIteration(reduced.graph, reduced.initial, steps, first))

    @property
    def box(self) -> tuple[Float, Float]:
        """[1+d] each: between these lies every value vector; it may be over at once."""
        low, high = super().box
        return np.minimum(low, 0.0), np.maximum(high, 0.0)

    def _played(self, pairs: Int) -> Int:
        return spread(self.part, self.components, self.reduced, pairs, {})


def along_closely(pay: Float, bonus: Float | None, w: Float, sizes: Float) -> tuple[Float, Float]:
    """The pay along w, give or take a bonus, in twice the digits [2, P], and how far it may be off [P], by the sizes
    [P, 1+d] of what it is made of."""
    out = np.empty((2, pay.shape[0]))
    kernels.along_closely(pay, np.empty((0, w.size)) if bonus is None else bonus, w, out)
    return out, 16.0 * (w.size + 1.0) ** 2 * HALF_ULP**2 * (sizes @ np.abs(w))


def spread(part: Reachable, components: Components, reduced: Reduced, pairs: Int, stays: dict[int, Int]) -> Int:
    """[positions]: what each position plays, where nodes play `pairs` of the reduced model.

    A component that is left is left from one state, and the others lead there. One that is stayed in plays
    stays[component] [positions] or, where there is none, the first pair of each state that stays.
    """
    played = reduced.pair[pairs[reduced.node]]
    inside = np.flatnonzero(components.inside)
    owner = components.of[part.source[inside]]
    for i in range(components.count):
        mine = components.of == i
        way = int(played[mine][0])
        own = inside[owner == i]
        if way < 0:
            if i in stays:
                played[mine] = stays[i][mine]
            else:
                states, at = np.unique(part.source[own], return_index=True)
                played[states] = own[at]
        else:
            door = int(part.source[way])
            played[mine] = toward(part, own, np.array([door]))[mine]
            played[door] = way
    return played


def _paid(mdp: ConstrainedMDP, part: Reachable, reduced: Reduced) -> tuple[Float, Float | None]:
    """[P, 1+d]: the pay of the reduced model's pairs, and their bonus; to stay pays nothing."""
    moves = reduced.pair >= 0
    behind = part.pairs[np.where(moves, reduced.pair, 0)]
    pay = np.where(moves[:, None], mdp.pay[behind], 0.0)
    return pay, None if mdp.bonus is None else np.where(moves[:, None], mdp.bonus[behind], 0.0)


def _row_sums(reduced: Reduced) -> tuple[float, float]:
    """The least and the most that the probabilities of a pair add up to, the first rounded down, the other up."""
    _, start, _, probability = reduced.graph
    sums = np.add.reduceat(probability, start[:-1].astype(np.int64))
    off = 1e-15 * (1.0 + float(np.diff(start.astype(np.int64)).max()))
    return float(sums.min()) - off, float(sums.max()) + off


def _refuse_paid(mdp: ConstrainedMDP, part: Reachable, components: Components) -> None:
    """Refuse end components that pay forever, by name."""
    inside = np.flatnonzero(components.inside)
    behind = part.pairs[inside]
    pays = mdp.pays[behind]
    if mdp.bonus is not None:
        pays |= (mdp.bonus[behind] != 0.0).any(axis=1)
    if not pays.any():
        return
    k = int(inside[np.flatnonzero(pays)[0]])
    mine = np.flatnonzero(components.of == components.of[part.source[k]])
    names = [repr(mdp.state_name(int(s))) for s in np.sort(part.order[mine])[:5]]
    more = f" and {mine.size - 5} more" if mine.size > 5 else ""
    pair = int(part.pairs[k])
    raise ModelError(
        f"Total() needs a process that ends, or stays where nothing is paid: in {', '.join(names)}{more} it can stay "
        f"forever, and action {mdp.action_name(int(mdp.action[pair]))!r} in state "
        f"{mdp.state_name(int(mdp.pair_state[pair]))!r} pays; use Discounted(..), Average() or a horizon"
    )

"""The best plan of one tracked model, by a search over the quantiles of its CVaRs.

The planner is any: what it is given is a tracked model (`conrl.model.tracking`), an ordinary one whose states carry
what was spent, with expected limits on a few more costs. *Chance* is one more cost with the limit p. *Never* leaves
actions out. *CVaR* is a search over t: with

    t + E max(C - t, 0) / (1 - a) <= b                                                    (1)

for some t, which is linear for each t. The best t is an attainable total of at most b, so the optimum is the largest of
finitely many linear plans. For all t of a box [l, u] at once,

    l + E max(C - u, 0) / (1 - a) <= b                                                    (2)

is a relaxation: its bound holds for the box. Best first, the box with the largest bound is halved, until no box can
beat the best plan found; good plans are found early by trying the best t of each box's own plan. With several CVaRs a
box is a product. Plans of different t are never mixed: CVaR is concave in mixing, and the mixture could exceed what
each of them keeps.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from conrl._types import Arrays, Float
from conrl.episode_totals import cvar, last_totals
from conrl.errors import InfeasibleError
from conrl.model import ConstrainedMDP
from conrl.model.counting import Sums, simplest
from conrl.model.reading import new_name
from conrl.model.tails import CHANCE, CVAR, NEVER, Tail
from conrl.model.tracking import Column, Part, Tracked, safe_part
from conrl.planners.result import Plan, tolerance_of
from conrl.policy import Policy
from conrl.problem import Linear, Rows
from conrl.spending import put_actions

Call = Callable[..., Plan]  # planner.plan
Ranges = tuple[tuple[int, int], ...]  # the candidates of each CVaR that a box holds, first and last


class Asked(NamedTuple):
    """The question, whatever the model."""

    plan: Call
    user: ConstrainedMDP
    mdp: ConstrainedMDP  # the user's, with one more cost for each limit on a single step
    problem: Linear
    rows: Rows  # on expectations
    tails: tuple[Tail, ...]
    tol: float

    def kind(self, kind: str) -> list[Tail]:
        return [tail for tail in self.tails if tail.kind == kind]


@dataclass(frozen=True, eq=False)
class Box:
    """A plan for all t in a box, one range of candidates for each CVaR."""

    ranges: Ranges
    plan: Plan
    ends: Float  # [totals]: how its episodes end; empty where nobody asks
    values: tuple[float, ...]  # the true CVaRs
    best: tuple[int, ...]  # the best candidate for each

    @property
    def bound(self) -> float:
        return np.inf if self.plan.bound is None else float(self.plan.bound)


class Found(NamedTuple):
    """The best box, and what the search knows of the others."""

    box: Box
    bound: float  # on all boxes
    asked: int  # directions


class NoBox(Exception):
    """No quantiles have a plan, for these errors of boxes that hold them all; one, if the box of all has none."""

    def __init__(self, *errors: InfeasibleError) -> None:
        super().__init__(*errors)
        self.errors = errors


class Search:
    """Plans on one tracked model."""

    def __init__(self, asked: Asked, tracked: Tracked) -> None:
        self.asked, self.tracked = asked, tracked
        self.nevers, self.chances, self.cvars = (asked.kind(kind) for kind in (NEVER, CHANCE, CVAR))
        self.crossings = [tracked.crossing(tail) for tail in self.chances]
        counter = tracked.counter
        self.places = [counter.place(tail.cost) for tail in self.cvars]
        self.units = [counter.units[i] for i in self.places]
        self.told: dict[str, str] = {}  # by the name of a column, whatever its quantile: the limit that it stands for
        names, taken = asked.mdp.cost_names, list(asked.mdp.cost_names)
        for tail, called in [
            *((tail, crossing.name) for tail, crossing in zip(self.chances, self.crossings, strict=True)),
            *((tail, f"excess of {tail.quantity(names)}") for tail in self.cvars),
        ]:
            taken.append(new_name(called, taken))
            self.told[taken[-1]] = tail.text(names)
        self.candidates: list[list[int]] = []  # t, in units
        for tail, i in zip(self.cvars, self.places, strict=True):
            most = counter.above(i, tail.threshold)
            self.candidates.append(sorted({total[i] for total in tracked.totals if total[i] <= most}))

    def having(self, tails: Sequence[Tail]) -> Search:
        """The same with other limits on single episodes."""
        return Search(self.asked._replace(tails=tuple(tails)), self.tracked)

    @cached_property
    def part(self) -> Part:
        """What is left of the tracked model where some limits are never exceeded."""
        return safe_part(self.tracked, self.nevers)

    @property
    def lost(self) -> list[float]:
        """What rounding may have taken from the probability of each chance. It counts where the total begins above the
        threshold, as P - 1 may be as small as that."""
        sums = Sums(self.tracked.base.horizon)
        pairs = zip(self.chances, self.crossings, strict=True)
        return [min(float(sums.rounding(Fraction(t.share))), 1.0 - t.share) if c.offset else 0.0 for t, c in pairs]

    @property
    def root(self) -> Ranges:
        """The box of all quantiles."""
        return tuple((0, len(options) - 1) for options in self.candidates)

    # -- one box ------------------------------------------------------------------------------------------

    def linear(self, ranges: Ranges, more: Sequence[tuple[Column, float]] = ()) -> tuple[list[Column], Linear]:
        """The columns, and the limits on them, for a box of quantiles; `more` are columns with their limits."""
        mdp = self.asked.mdp
        columns = list(self.crossings)
        bounds = [t.share - c.offset + more for t, c, more in zip(self.chances, self.crossings, self.lost, strict=True)]
        boxed = zip(self.cvars, self.candidates, self.units, ranges, strict=True)
        for tail, options, unit, (low, high) in boxed:
            column = self.tracked.excess(tail.cost, options[high])
            columns.append(column)
            bounds.append(float((tail.threshold - options[low] * unit) * (1 - simplest(tail.share))) - column.offset)
        names = list(self.told)
        for column, bound in more:
            columns.append(column)
            bounds.append(bound)
            names.append(new_name(column.name, [*mdp.cost_names, *names]))
        limits, floors = self.asked.rows.bounds(mdp.num_costs)
        none = np.full(len(columns), -np.inf)
        columns = [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
        return columns, Linear(np.append(limits, bounds), np.append(floors, none))

    def plan(self, ranges: Ranges, start: Arrays | None, relax: bool = False) -> Plan:
        """The planner's answer for a box."""
        columns, linear = self.linear(ranges)
        model = self.part.model(columns)
        return self.asked.plan(model, linear, start=_fitting(start, model.num_costs), relax=relax)

    def solve(self, ranges: Ranges, start: Arrays | None) -> Box:
        """The plan of a box."""
        return self.boxed(ranges, self.plan(ranges, start))

    def boxed(self, ranges: Ranges, plan: Plan) -> Box:
        """A plan of a box with how its episodes end, its CVaRs, and the best t of each within its range."""
        if not (self.cvars or self.nevers):
            return Box(ranges, plan, np.zeros(0), (), ())
        counter = self.tracked.counter
        ends = np.zeros(len(self.tracked.totals))
        policies = [lifted(self.part, plan.component(i)) for i in range(plan.weights.size)]
        for weight, policy in zip(plan.weights, policies, strict=True):
            ends += weight * last_totals(self.tracked, policy)
        values, best = [], []
        for tail, i, options, unit, (low, high) in zip(
            self.cvars, self.places, self.candidates, self.units, ranges, strict=True
        ):
            totals, p = marginal(self.tracked.totals, ends, i)
            cap = counter.caps[i]
            beyond = (
                self._beyond(plan.weights, policies, tail.cost, cap) if cap is not None and totals[-1] == cap else 0.0
            )
            value, at = cvar(np.array([float(t * unit) for t in totals]), p, beyond, tail.share)
            values.append(value)
            best.append(min(max(int(np.searchsorted(options, totals[at], side="right")) - 1, low), high))
        return Box(ranges, plan, ends, tuple(values), tuple(best))

    def _beyond(self, weights: Float, policies: Sequence[Policy], cost: int, cap: int) -> float:
        """The mean of what is spent above the cap."""
        column = self.tracked.excess(cost, cap)
        model = self.tracked.model()
        pay, rho = (
            np.add.reduceat(self.tracked.probability * column.paid, self.tracked.start[:-1]),
            np.zeros((1, model.num_pairs)),
        )
        for weight, policy in zip(weights, policies, strict=True):
            policy._add_occupation(model, float(weight), rho)
        return float(rho[0] @ pay)

    # -- the best -----------------------------------------------------------------------------------------

    def best_box(self, start: Arrays | None) -> Found:
        """Best first over boxes of quantiles, until none left can beat the best plan found; one box without CVaRs.

        Something must be left to play, and every CVaR must have a candidate.
        """
        root = self.root
        try:
            first = self.solve(root, start)
        except InfeasibleError as error:
            raise NoBox(error) from None
        heap: list[tuple[float, int, Box]] = [(-first.bound, 0, first)]
        known: dict[Ranges, Box | InfeasibleError] = {root: first}

        def solved(ranges: Ranges, start: Arrays | None) -> Box | None:
            if ranges not in known:
                try:
                    known[ranges] = self.solve(ranges, start)
                except InfeasibleError as error:
                    known[ranges] = error
            found = known[ranges]
            return found if isinstance(found, Box) else None

        number = itertools.count(1)
        best: Box | None = None
        bound = -np.inf  # of the boxes that need not be split
        while heap:
            box = heapq.heappop(heap)[2]
            if best is not None and box.bound - best.plan.objective <= self.tolerance(best):
                bound = max(bound, box.bound)
                break  # so are the others
            kept = all(low == high for low, high in box.ranges) or self._keeps(box)
            candidate = box if kept else solved(tuple((k, k) for k in box.best), box.plan.start)
            if candidate is not None and (best is None or candidate.plan.objective > best.plan.objective):
                best = candidate
            if kept:
                bound = max(bound, box.bound)
                continue
            for ranges in _halves(box, self.cvars):
                child = solved(ranges, box.plan.start)
                if child is not None:
                    heapq.heappush(heap, (-child.bound, next(number), child))
        boxes = [found for found in known.values() if isinstance(found, Box)]
        if best is None:
            raise NoBox(*(found for found in known.values() if isinstance(found, InfeasibleError)))
        return Found(best, bound, sum(found.plan.iterations for found in boxes))

    def tolerance(self, box: Box) -> float:
        """What is allowed between a bound and the plan of a box."""
        return tolerance_of(self.asked.tol, box.plan.objective, self._largest)

    @cached_property
    def _largest(self) -> float:
        return self.tracked.largest

    def _keeps(self, box: Box) -> bool:
        """Whether a plan of a box keeps the CVaRs themselves."""
        allowed = self.allowances(box.plan)
        return all(v <= t.limit + a for v, t, a in zip(box.values, self.cvars, allowed, strict=True))

    def allowances(self, plan: Plan) -> Float:
        """By how much each CVaR may be above its limit: as totals may, and it and the excess it is made of are computed
        and not exact."""
        first = self.asked.mdp.num_costs + len(self.chances)
        if plan.checked is None:
            return np.array([2.0 * t.rounding for t in self.cvars])
        known = dict(zip(plan.checked.rows.cost.tolist(), plan.checked.allowance.tolist(), strict=True))
        return np.array(
            [2.0 * t.rounding + known[first + j] / float(1 - simplest(t.share)) for j, t in enumerate(self.cvars)]
        )


def _halves(box: Box, cvars: Sequence[Tail]) -> list[Ranges]:
    """The box in two, in the range of the CVaR that its plan exceeds most."""
    over = [
        -np.inf if low == high else value - tail.limit
        for (low, high), value, tail in zip(box.ranges, box.values, cvars, strict=True)
    ]
    j = int(np.argmax(over))
    low, high = box.ranges[j]
    middle = (low + high) // 2
    return [(*box.ranges[:j], part, *box.ranges[j + 1 :]) for part in ((low, middle), (middle + 1, high))]


def marginal(totals: Sequence[tuple[int, ...]], ends: Float, i: int) -> tuple[list[int], Float]:
    """The totals of one cost, rising, and their probabilities."""
    found: dict[int, float] = {}
    for total, p in zip(totals, ends.tolist(), strict=True):
        if p > 0.0:
            found[total[i]] = found.get(total[i], 0.0) + p
    rising = sorted(found)
    return rising, np.array([found[x] for x in rising])


def lifted(part: Part, policy: Policy) -> Policy:
    """A policy of a part as one of the tracked model: the first action where a safe policy does not come."""
    if isinstance(part, Tracked):
        return policy
    playable = part.tracked.model().playable
    first = np.broadcast_to(np.argmax(playable, axis=2), part.reached.shape)
    return put_actions(policy, ~part.reached, first)


def _fitting(start: Arrays | None, num_costs: int) -> Arrays | None:
    """What an earlier plan left, if it is of a model with so many costs."""
    if start is not None and "directions" in start and start["directions"].shape[1:] != (1 + num_costs,):
        return None
    return start

"""Plans that keep limits on single episodes: never, chance and CVaR, together with limits and floors on expectations.

The planner itself is any other: what it is given is a tracked model (`conrl.model.tracking`), an ordinary one whose
states carry what was spent, with expected limits on a few more costs. This file chooses the models and puts the answers
together.

*Chance* is one more cost with the limit p. *Never* leaves actions out. *CVaR* is a search over t: with

    t + E max(C - t, 0) / (1 - a) <= b                                                    (1)

for some t, which is linear for each t. The best t is an attainable total of at most b, so the optimum is the largest of
finitely many linear plans. For all t of a box [l, u] at once,

    l + E max(C - u, 0) / (1 - a) <= b                                                    (2)

is a relaxation: its bound holds for the box. Best first, the box with the largest bound is halved, until no box can
beat the best plan found; good plans are found early by trying the best t of each box's own plan. With several CVaRs a
box is a product. Plans of different t are never mixed: CVaR is concave in mixing, and the mixture could exceed what
each of them keeps.

Where totals are too many to be counted one by one (or a grid is asked for), costs are rounded up for the plan and
down for the bound (`conrl.model.counting`). Only rounding down proves that nothing is feasible.

The price of *never* is the slope at 0 of the best reward against P(C > m), the largest (r - r*) / p over policies with
P(C > m) = p > 0 that keep the other rows: Dinkelbach's (1967) iteration, a few directions.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from conrl._types import Arrays, Float, Int
from conrl.arguments import frozen
from conrl.episode_totals import cvar, last_totals
from conrl.errors import InfeasibleError, RunError, SpecError
from conrl.model import ConstrainedMDP
from conrl.model.bracket import bracketed
from conrl.model.careful import careful_path
from conrl.model.counting import simplest
from conrl.model.limits import resolve_limits
from conrl.model.reading import new_name
from conrl.model.tails import CHANCE, CVAR, NEVER, Tail
from conrl.model.tracking import Column, SafePart, Tracked
from conrl.oracles import exact_oracle
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.planner import ColumnGeneration
from conrl.planners.column_generation.search import Columns
from conrl.planners.feasibility import SLACK_TOLERANCE, Feasibility, extremes
from conrl.planners.result import Checked, Plan, tolerance_of
from conrl.policy import Policy
from conrl.problem import Linear, Rows
from conrl.spending import SpentPolicy, put_actions

MOST_TRIED = 20  # quantiles t that are tried where no plan keeps the limits
MOST_DIRECTIONS = 50  # for the price of never

Call = Callable[..., Plan]  # planner.plan
_Ranges = tuple[tuple[int, int], ...]  # the candidates of each CVaR that a box holds, first and last


def plan_episodes(
    ask: Call, mdp: ConstrainedMDP, problem: Linear, start: Arrays | None, relax: bool, tol: float
) -> Plan:
    """The best policy of `ask`, a planner's `plan`, for a problem with limits on single episodes."""
    tails = problem.tails(mdp)
    expected = replace(problem, never=None, chance=None, cvar=None, grid=None)
    if not tails:
        return ask(mdp, expected, start=start, relax=relax)
    model, rows = expected.bind(mdp)  # more costs, where there are limits on single steps
    asked = _Asked(ask, mdp, model, problem, rows, tails, tol)
    up, down = bracketed(model, tails, problem.grids(mdp))
    if down is None:
        return _Search(asked, up).run(start, relax)
    try:
        best = _Search(asked, up).run(start, False)
    except InfeasibleError:
        looser = _Search(asked, down).run(None, relax)  # raises if even that is infeasible
        if looser.status == "infeasible":
            return looser
        if not relax:
            raise RunError(
                "undecided: no plan keeps the limits with costs rounded up to the grid, and some does with costs "
                "rounded down; refine the grid"
            ) from None
        return replace(_Search(asked, up).run(start, True), status="undecided", bound=looser.bound)
    looser = _Search(asked, down).run(best.start, False)
    if looser.bound is None or best.bound is None:
        return replace(best, bound=None)
    bound = max(looser.bound, best.objective)
    return replace(best, bound=bound, status="bracketed" if best.status == "optimal" else best.status)


def feasibility_of_episodes(mdp: ConstrainedMDP, problem: Linear) -> Feasibility:
    """Whether some policy keeps the limits; by how much each limit on an expectation could be lowered alone."""
    ask = ColumnGeneration().plan
    limits = resolve_limits(problem.limits, mdp.cost_names, "limits")
    least, greatest = extremes(exact_oracle(mdp))
    slack = np.full(mdp.num_costs, np.inf)
    try:
        plan_episodes(ask, _paying(mdp, None), problem, None, False, SLACK_TOLERANCE)
        for i in map(int, np.flatnonzero(np.isfinite(limits))):
            others = limits.copy()
            others[i] = np.inf
            cheapest = plan_episodes(
                ask, _paying(mdp, i), replace(problem, limits=others), None, False, SLACK_TOLERANCE
            )
            slack[i] = max(float(limits[i]) + cheapest.reward, 0.0)
    except InfeasibleError as error:
        return error.feasibility
    return Feasibility(True, least, greatest, slack)


def _paying(mdp: ConstrainedMDP, cost: int | None) -> ConstrainedMDP:
    """The model with a reward of 0, or of less cost."""
    pay = mdp.pay.copy()
    pay[:, 0] = 0.0 if cost is None else -pay[:, 1 + cost]
    return mdp._copy(pay=frozen(pay), bonus=None, _derived={})


def limited(mdp: ConstrainedMDP, problem: Linear, chance: Tail | None, cost: int) -> tuple[ConstrainedMDP, int]:
    """The tracked model with all limits as its own, and which of its costs is varied: `cost`, or that of `chance`."""
    if problem.cvar is not None:
        raise SpecError("a frontier has no CVaR limits: against a CVaR the best reward is not concave; leave cvar out")
    tails = problem.tails(mdp)
    if chance is not None:
        tails = (*(t for t in tails if t[:3] != chance[:3]), chance)
    found = _carried(mdp, problem, tails, "a frontier")
    model = found.model
    limits = resolve_limits(found.linear.limits, model.cost_names, "limits")
    if chance is None:
        return model.replace(limits=limits), cost
    if found.offsets[-1]:
        raise SpecError(f"chance: an episode begins above {chance.limit:.10g}; give a threshold of at least 0")
    varied = mdp.num_costs + len(found.offsets) - 1
    limits[varied] = np.inf
    return model.replace(limits=limits), varied


class Carried(NamedTuple):
    """A model that carries what was spent, in which limits on single episodes are limits on expected costs.

    Its costs are those of the model, of single steps, one for each chance, and one for each CVaR: the mean excess above
    its quantile t, which is the best one for the problem as it is and stays.
    """

    model: ConstrainedMDP
    linear: Linear  # limits and floors on its costs
    state: Int  # [n]: the state that each of its states stands for
    chances: tuple[Tail, ...]
    offsets: tuple[float, ...]  # of each chance: what its total begins with
    quantiles: tuple[float, ...]  # t of each CVaR


def carried(mdp: ConstrainedMDP, problem: Linear, who: str) -> Carried:
    """The model and the linear problem that stand for limits on single episodes; `who` needs exact totals."""
    return _carried(mdp, problem, problem.tails(mdp), who)


def _carried(mdp: ConstrainedMDP, problem: Linear, tails: tuple[Tail, ...], who: str) -> Carried:
    model, rows = replace(problem, never=None, chance=None, cvar=None, grid=None).bind(mdp)
    tracked, down = bracketed(model, tails, problem.grids(mdp))
    if down is not None:
        raise SpecError(
            f"{who} needs totals that can be counted exactly, and these need a grid; round the costs of the model"
        )
    search = _Search(_Asked(ColumnGeneration().plan, mdp, model, problem, rows, tails, SLACK_TOLERANCE), tracked)
    part = search.safe_part()
    ranges: _Ranges = ()
    if search.cvars:
        _, best, _, _ = search.best_box(None)
        ranges = tuple((k, k) for k in best.best)
    columns, linear = search.linear(ranges)
    units = [tracked.counter.units[tracked.counter.costs.index(tail.cost)] for tail in search.cvars]
    return Carried(
        part.model(columns),
        linear,
        tracked.state,
        tuple(search.chances),
        tuple(crossing.offset for crossing in search.crossings),
        tuple(float(o[k] * unit) for o, (k, _), unit in zip(search.candidates, ranges, units, strict=True)),
    )


class _Asked(NamedTuple):
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

    def names(self, kind: str) -> list[str]:
        return [f"{t.quantity(self.mdp.cost_names)} <= {t.bound:.10g}" for t in self.kind(kind)]


@dataclass(frozen=True, eq=False)
class _Box:
    """A plan for all t in a box, one range of candidates for each CVaR."""

    ranges: _Ranges
    plan: Plan
    ends: Float  # [totals]: how its episodes end; empty where nobody asks
    values: tuple[float, ...]  # the true CVaRs
    best: tuple[int, ...]  # the best candidate for each

    @property
    def bound(self) -> float:
        return np.inf if self.plan.bound is None else float(self.plan.bound)


class _Search:
    """Plans on one tracked model."""

    def __init__(self, asked: _Asked, tracked: Tracked) -> None:
        self.asked, self.tracked = asked, tracked
        self.nevers, self.chances, self.cvars = (asked.kind(kind) for kind in (NEVER, CHANCE, CVAR))
        self.crossings = [tracked.crossing(tail) for tail in self.chances]
        counter = tracked.counter
        self.candidates: list[list[int]] = []  # t, in units
        for tail in self.cvars:
            i = counter.costs.index(tail.cost)
            most = counter.above(i, tail.threshold)
            self.candidates.append(sorted({total[i] for total in tracked.totals if total[i] <= most}))
        self.largest = tracked.largest

    # -- one plan -----------------------------------------------------------------------------------------

    def linear(
        self, ranges: Sequence[tuple[int, int]], more: Sequence[tuple[Column, float]] = ()
    ) -> tuple[list[Column], Linear]:
        """The columns, and the limits on them, for a box of quantiles; `more` are columns with their limits."""
        mdp, rows = self.asked.mdp, self.asked.rows
        columns, bounds = (
            list(self.crossings),
            [t.share - c.offset for t, c in zip(self.chances, self.crossings, strict=True)],
        )
        for tail, options, (low, high) in zip(self.cvars, self.candidates, ranges, strict=True):
            column = self.tracked.excess(tail.cost, options[high])
            unit = self.tracked.counter.units[self.tracked.counter.costs.index(tail.cost)]
            columns.append(column)
            bounds.append(float((tail.threshold - options[low] * unit) * (1 - simplest(tail.share))) - column.offset)
        for column, bound in more:
            columns.append(column)
            bounds.append(bound)
        limits, floors = rows.bounds(mdp.num_costs)
        none = np.full(len(columns), -np.inf)
        named = _distinct(columns, mdp.cost_names)
        return named, Linear(np.append(limits, bounds), np.append(floors, none))

    def solve(self, part: Tracked | SafePart, ranges: Sequence[tuple[int, int]], start: Arrays | None) -> _Box:
        """The plan of a box."""
        columns, linear = self.linear(ranges)
        model = part.model(columns)
        plan = self.asked.plan(model, linear, start=_fitting(start, model.num_costs), relax=False)
        ends, values, best = self.ends(part, plan, ranges)
        return _Box(tuple(ranges), plan, ends, values, best)

    def ends(
        self, part: Tracked | SafePart, plan: Plan, ranges: Sequence[tuple[int, int]]
    ) -> tuple[Float, tuple[float, ...], tuple[int, ...]]:
        """How episodes of a plan end, its CVaRs, and the best t of each among the candidates of its range."""
        if not (self.cvars or self.nevers):
            return np.zeros(0), (), ()
        ends = np.zeros(len(self.tracked.totals))
        policies = [_lifted(part, plan.component(i)) for i in range(plan.weights.size)]
        for weight, policy in zip(plan.weights, policies, strict=True):
            ends += weight * last_totals(self.tracked, policy)
        values, best = [], []
        for j, tail in enumerate(self.cvars):
            i = self.tracked.counter.costs.index(tail.cost)
            totals, p = _marginal(self.tracked.totals, ends, i)
            cap, unit = self.tracked.counter.caps[i], self.tracked.counter.units[i]
            beyond = (
                self._beyond(plan.weights, policies, tail.cost, cap) if cap is not None and totals[-1] == cap else 0.0
            )
            value, at = cvar(np.array([float(t * unit) for t in totals]), p, beyond, tail.share)
            values.append(value)
            low, high = ranges[j]
            options = self.candidates[j]
            best.append(min(max(int(np.searchsorted(options, totals[at], side="right")) - 1, low), high))
        return ends, tuple(values), tuple(best)

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

    def run(self, start: Arrays | None, relax: bool) -> Plan:
        """The best plan of all boxes; with `relax`, where there is none, one that exceeds the limits least."""
        try:
            return self._best(start)
        except InfeasibleError:
            if not relax:
                raise
        return self._relaxed(start)

    def safe_part(self) -> Tracked | SafePart:
        """What is left of the tracked model where some limits are never exceeded."""
        if not self.nevers:
            return self.tracked
        part = SafePart(self.tracked, self.nevers)
        if part.empty:
            raise self._never_kept()
        return part

    def _best(self, start: Arrays | None) -> Plan:
        """The plan of the best box."""
        plan = self._plan(*self.best_box(start))
        broken = [row for row in plan.rows if not row.excess <= row.allowance]
        if broken and plan.status != "approximate":
            raise RunError(f"rounding broke {broken[0].name} by {broken[0].excess:.3g}; measure costs in other units")
        return plan

    def best_box(self, start: Arrays | None) -> tuple[Tracked | SafePart, _Box, float, int]:
        """Best first over boxes of quantiles, until none left can beat the best plan found; one box without CVaRs.

        With the part of the model that it is planned on, a bound on all boxes, and how many directions were asked.
        """
        part = self.safe_part()
        for tail, options in zip(self.cvars, self.candidates, strict=True):
            if not options:
                raise self._no_quantile(tail)
        root = tuple((0, len(options) - 1) for options in self.candidates)
        try:
            first = self.solve(part, root, start)
        except InfeasibleError as error:
            raise self._explained(error) from None
        heap: list[tuple[float, int, _Box]] = [(-first.bound, 0, first)]
        known: dict[_Ranges, _Box | InfeasibleError] = {root: first}

        def solved(ranges: _Ranges, start: Arrays | None) -> _Box | None:
            if ranges not in known:
                try:
                    known[ranges] = self.solve(part, ranges, start)
                except InfeasibleError as error:
                    known[ranges] = error
            found = known[ranges]
            return found if isinstance(found, _Box) else None

        number = itertools.count(1)
        best: _Box | None = None
        bound = -np.inf  # of the boxes that need not be split
        while heap:
            box = heapq.heappop(heap)[2]
            if best is not None and box.bound - best.plan.objective <= self._tolerance(best):
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
        boxes = [found for found in known.values() if isinstance(found, _Box)]
        if best is None:
            raise self._explained(*(found for found in known.values() if isinstance(found, InfeasibleError)))
        return part, best, bound, sum(found.plan.iterations for found in boxes)

    def _tolerance(self, box: _Box) -> float:
        return tolerance_of(self.asked.tol, box.plan.objective, self.largest)

    def _keeps(self, box: _Box) -> bool:
        """Whether a plan of a box keeps the CVaRs themselves."""
        allowed = self._allowances(box.plan)
        return all(v <= t.limit + a for v, t, a in zip(box.values, self.cvars, allowed, strict=True))

    def _allowances(self, plan: Plan) -> Float:
        """By how much each CVaR may be above its limit: the excess it is made of is computed and not exact."""
        first = self.asked.mdp.num_costs + len(self.chances)
        if plan.checked is None:
            return np.zeros(len(self.cvars))
        known = dict(zip(plan.checked.rows.cost.tolist(), plan.checked.allowance.tolist(), strict=True))
        return np.array([known[first + j] / float(1 - simplest(t.share)) for j, t in enumerate(self.cvars)])

    # -- what the user sees -------------------------------------------------------------------------------

    def _plan(self, part: Tracked | SafePart, box: _Box, bound: float, asked: int) -> Plan:
        """The plan in words of the user's model: its costs, its rows, policies that act on what was spent."""
        inner, tracked = box.plan, self.tracked
        status = inner.status
        proven: float | None = None
        if np.isfinite(bound):
            proven = bound if status == "approximate" else max(bound, inner.objective)
        if status == "optimal" and proven is not None and proven - inner.objective > self._tolerance(box):
            status = "inaccurate"
        return replace(
            inner.of(self.asked.user),
            problem=self.asked.problem,
            status=status,
            bound=proven,
            iterations=asked,
            make_policy=lambda i: SpentPolicy.of(tracked, _lifted(part, inner.component(i))),
            checked=self._checked(part, box),
        )

    def _checked(self, part: Tracked | SafePart, box: _Box) -> Checked | None:
        """Every row with its value: limits, floors, chances, CVaRs and what is never exceeded."""
        inner = box.plan
        if inner.checked is None:
            return None
        d, names = self.asked.mdp.num_costs, list(self.asked.mdp.cost_names)
        own = inner.checked.rows.cost < d
        rows = inner.checked.rows
        lines: list[tuple[int, float, float, float, float, float]] = [
            (int(c), float(s), float(b), float(v), float(a), float(m))
            for c, s, b, v, a, m in zip(
                *(x[own] for x in (rows.cost, rows.sign, rows.bound, *inner.checked[1:])), strict=True
            )
        ]
        extra = {int(c): r for r, c in enumerate(rows.cost.tolist()) if c >= d}

        def add(tail: Tail, value: float, allowance: float, price: float) -> None:
            lines.append((len(names), 1.0, tail.bound, value, allowance, price))
            names.append(tail.quantity(self.asked.mdp.cost_names))

        for j, (tail, column) in enumerate(zip(self.chances, self.crossings, strict=True)):
            r, known = extra[d + j], inner.checked
            add(tail, float(known.value[r]) + column.offset, float(known.allowance[r]), float(known.multipliers[r]))
        for j, (tail, value, allowance) in enumerate(zip(self.cvars, box.values, self._allowances(inner), strict=True)):
            r = extra[d + len(self.chances) + j]
            add(tail, value, float(allowance), float(inner.checked.multipliers[r]) * float(1 - simplest(tail.share)))
        for tail in self.nevers:
            i = self.tracked.counter.costs.index(tail.cost)
            totals, p = _marginal(self.tracked.totals, box.ends, i)
            most = float(totals[int(np.flatnonzero(p > 0.0)[-1])] * self.tracked.counter.units[i])
            add(tail, most, 0.0, self._never_price(tail, box))
        cost, sign, bound, values, allowances, prices = (np.array(column) for column in zip(*lines, strict=True))
        return Checked(Rows(cost.astype(np.int64), sign, bound, tuple(names)), values, allowances, prices)

    def _never_price(self, tail: Tail, box: _Box) -> float:
        """What one unit of probability of exceeding would earn, if some were allowed; see the module's docstring."""
        others = [other for other in self.nevers if other is not tail]
        part: Tracked | SafePart = SafePart(self.tracked, others) if others else self.tracked
        crossing = self.tracked.crossing(tail)
        columns, linear = self.linear(box.ranges, [(crossing, np.inf)])
        oracle = exact_oracle(part.model(columns)).strict()
        rows = linear.rows(oracle.mdp)
        reward, found, slope = box.plan.objective, Columns(), 0.0
        offset = crossing.offset  # of what is counted: P(C > m) is that much more
        tolerance = self._tolerance(box)
        direction = np.zeros(1 + oracle.num_costs)
        direction[0] = 1.0
        for _ in range(MOST_DIRECTIONS):
            direction[-1] = -slope
            answer = maximise(oracle, direction, rows, tol=min(self.asked.tol, 1e-9), columns=found)
            point = answer.weights @ answer.points
            share = float(point[-1]) + offset
            if share <= 0.0 or point[0] - slope * share <= reward + tolerance:
                break
            slope = float((point[0] - reward) / share)
        return slope

    # -- infeasible ---------------------------------------------------------------------------------------

    def _relaxed(self, start: Arrays | None) -> Plan:
        """A plan that exceeds the limits least: never counts as a chance of 0, CVaRs are tried at a few quantiles."""
        if self.nevers:
            softened = tuple(t._replace(kind=CHANCE, share=0.0) if t.kind == NEVER else t for t in self.asked.tails)
            plan = _Search(self.asked._replace(tails=softened), self.tracked).run(start, True)
            return replace(plan, status="infeasible")
        if any(not options for options in self.candidates):
            kept = [
                o or [min(t[self.tracked.counter.costs.index(c.cost)] for t in self.tracked.totals)]
                for o, c in zip(self.candidates, self.cvars, strict=True)
            ]
            self.candidates = kept
        longest = max(map(len, self.candidates), default=1)
        best: _Box | None = None
        least = np.inf
        for share in np.linspace(1.0, 0.0, min(longest, MOST_TRIED)) if self.candidates else [1.0]:
            at = [round(share * (len(options) - 1)) for options in self.candidates]
            ranges = tuple((k, k) for k in at)
            columns, linear = self.linear(ranges)
            model = self.tracked.model(columns)
            plan = self.asked.plan(model, linear, start=_fitting(start, model.num_costs), relax=True)
            worst = max((row.excess for row in plan.rows), default=0.0)
            if worst < least:
                ends, values, chosen = self.ends(self.tracked, plan, ranges)
                best, least = _Box(ranges, plan, ends, values, chosen), worst
        assert best is not None
        return replace(self._plan(self.tracked, best, best.bound, best.plan.iterations), status="infeasible")

    def _never_kept(self) -> InfeasibleError:
        """Nothing is left at the start. For one limit alone, a path that the most careful policy may take."""
        kept = list(self.nevers)
        for tail in self.nevers:
            fewer = [other for other in kept if other is not tail]
            if fewer and SafePart(self.tracked, fewer).empty:
                kept = fewer
        names = [f"{t.quantity(self.asked.mdp.cost_names)} <= {t.bound:.10g}" for t in kept]
        least, greatest = extremes(exact_oracle(self.asked.user))
        how, path = "cannot be kept together", tuple[str, ...]()
        if len(kept) == 1:
            total, path = careful_path(self.tracked, kept[0].cost)
            how = f"cannot be kept: the most careful policy may come to {total:.6g}, {' -> '.join(_short(path))}"
        message = f"infeasible: {' and '.join(names)} {how}"
        return InfeasibleError(message, Feasibility(False, least, greatest, None, tuple(names), path=path))

    def _no_quantile(self, tail: Tail) -> InfeasibleError:
        name = f"{tail.quantity(self.asked.mdp.cost_names)} <= {tail.bound:.10g}"
        least, greatest = extremes(exact_oracle(self.asked.user))
        message = f"infeasible: {name} cannot be kept: every total is above it"
        return InfeasibleError(message, Feasibility(False, least, greatest, None, (name,)))

    def _explained(self, *errors: InfeasibleError) -> InfeasibleError:
        """The conflict in words of what was asked; with one error its multipliers are the proof."""
        first, alone = errors[0].feasibility, len(errors) == 1
        needed = self._needed() if self.nevers else []
        if self.nevers and not needed:  # the others conflict by themselves
            tails = tuple(tail for tail in self.asked.tails if tail.kind != NEVER)
            try:
                _Search(self.asked._replace(tails=tails), self.tracked)._best(None)
            except InfeasibleError as plainer:
                return plainer
        shares: dict[str, float] = {}  # of the rows that take part, with their multipliers
        for error in errors:
            found = error.feasibility
            multipliers = np.zeros(len(found.conflict)) if found.multipliers is None else found.multipliers
            for name, share in zip(found.conflict, multipliers.tolist(), strict=True):
                for own in self._own_names(name):
                    shares[own] = shares.get(own, 0.0) + share
        shares |= dict.fromkeys(needed, 0.0)
        names = tuple(shares)
        verb = "cannot be kept" if len(names) == 1 else "cannot be kept together"
        whatever = "" if alone else ", whatever the quantile"
        message = f"infeasible: {' and '.join(names)} {verb}{whatever}"
        text = str(errors[0])
        shifted = any(crossing.offset for crossing in self.crossings)  # what is near is then told of P - 1
        if alone and "; " in text and not self.cvars and not needed and not shifted:
            message += text[text.index("; ") :]
        proven = np.array(list(shares.values())) if alone and first.multipliers is not None else None
        least, greatest = extremes(exact_oracle(self.asked.user))
        proof = Feasibility(False, least, greatest, None, names, proven, first.violation if alone else 0.0)
        return InfeasibleError(message, proof)

    def _own_names(self, name: str) -> list[str]:
        """What the user calls a row of the tracked model: that of an excess is a CVaR of its cost, that of a crossing
        a chance."""
        costs = self.asked.mdp.cost_names
        begins = [f"E max({costs[tail.cost]} - " for tail in self.cvars]
        begins += [f"{column.name} <= " for column in _distinct(self.crossings, costs)]
        words = zip(begins, (*self.asked.names(CVAR), *self.asked.names(CHANCE)), strict=True)
        mine = [word for begin, word in words if name.startswith(begin)]
        return mine[:1] or [name]

    def _needed(self) -> list[str]:
        """The never limits that take part in a conflict: without them the rest can be kept."""
        asked = self.asked
        kept = list(self.nevers)
        for tail in self.nevers:
            fewer = [other for other in kept if other is not tail]
            rest = tuple(t for t in asked.tails if t.kind != NEVER or t in fewer)
            try:
                _Search(asked._replace(tails=rest), self.tracked)._quick()
            except InfeasibleError:
                kept = fewer
        return [f"{t.quantity(asked.mdp.cost_names)} <= {t.bound:.10g}" for t in kept]

    def _quick(self) -> None:
        """Raise if the relaxation of all quantiles together is infeasible."""
        part: Tracked | SafePart = SafePart(self.tracked, self.nevers) if self.nevers else self.tracked
        columns, linear = self.linear(tuple((0, len(options) - 1) for options in self.candidates))
        self.asked.plan(part.model(columns), linear, start=None, relax=False)


def _short(path: Sequence[str]) -> list[str]:
    """A path for a message of one line."""
    return list(path) if len(path) <= 7 else [*path[:3], "...", *path[-3:]]


def _halves(box: _Box, cvars: Sequence[Tail]) -> list[_Ranges]:
    """The box in two, in the range of the CVaR that its plan exceeds most."""
    over = [
        -np.inf if low == high else value - tail.limit
        for (low, high), value, tail in zip(box.ranges, box.values, cvars, strict=True)
    ]
    j = int(np.argmax(over))
    low, high = box.ranges[j]
    middle = (low + high) // 2
    return [(*box.ranges[:j], part, *box.ranges[j + 1 :]) for part in ((low, middle), (middle + 1, high))]


def _marginal(totals: Sequence[tuple[int, ...]], ends: Float, i: int) -> tuple[list[int], Float]:
    """The totals of one cost, rising, and their probabilities."""
    found: dict[int, float] = {}
    for total, p in zip(totals, ends.tolist(), strict=True):
        if p > 0.0:
            found[total[i]] = found.get(total[i], 0.0) + p
    rising = sorted(found)
    return rising, np.array([found[x] for x in rising])


def _lifted(part: Tracked | SafePart, policy: Policy) -> Policy:
    """A policy of a part as one of the tracked model: the first action where a safe policy does not come."""
    if isinstance(part, Tracked):
        return policy
    playable = part.tracked.model().playable
    first = np.broadcast_to(np.argmax(playable, axis=2), part.reached.shape)
    return put_actions(policy, ~part.reached, first)


def _distinct(columns: Sequence[Column], taken: Sequence[str]) -> list[Column]:
    """The columns with names that differ from each other and from those of the costs."""
    names, named = list(taken), []
    for column in columns:
        names.append(new_name(column.name, names))
        named.append(replace(column, name=names[-1]))
    return named


def _fitting(start: Arrays | None, num_costs: int) -> Arrays | None:
    """What an earlier plan left, if it is of a model with so many costs."""
    if start is not None and "directions" in start and start["directions"].shape[1:] != (1 + num_costs,):
        return None
    return start

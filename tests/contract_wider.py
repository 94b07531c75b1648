"""What plans of the wider world promise, judged in exact arithmetic: limits on steps and episodes, fleets, no horizon.

The exact answers are those of `exact_wider`, which shares no code with the planners. As in `contract`, a row may be
exceeded by `ALLOWED` x |bound| plus the rounding of evaluating it, and a bound has no allowance at all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from contract import ALLOWED, EPSILON, ROUNDING_UNITS, SMALLEST, TOLERANCE, show
from exact import Row, best, dual_bound, farkas, reward_direction, total
from exact_wider import (
    ONE,
    ZERO,
    Endless,
    Extra,
    Layered,
    Limit,
    Means,
    Played,
    Sum,
    Unrolled,
    World,
    play,
    simplest,
)

import conrl

NEVER, CHANCE, CVAR = "never", "chance", "cvar"
# What an error says where rounding decides whether limits can be kept.
DIGITS = 2.0**-42
ROUNDED = ("by more than rounding", "a price is no number", "rounding broke")


@dataclass(frozen=True)
class Tail:
    """A limit on single episodes as it was asked: `limit` is m, or b of a CVaR; `share` is p, or the level."""

    kind: str
    cost: int
    limit: float
    share: float = 0.0


@dataclass(frozen=True)
class Asked:
    """Limits and floors [d], limits per step by cost, and limits on single episodes."""

    limits: tuple[float, ...]
    floors: tuple[float, ...]
    per_step: dict[int, tuple[float, ...]]
    tails: tuple[Tail, ...] = ()
    grid: float | None = None

    def problem(self, names: Sequence[str]) -> conrl.Linear:
        """The same for conrl."""
        tails: dict[str, dict[str, Any]] = {kind: {} for kind in (NEVER, CHANCE, CVAR)}
        for tail in self.tails:
            mine = tails[tail.kind]
            if tail.kind == NEVER:
                mine[names[tail.cost]] = tail.limit
            else:
                pair = (tail.limit, tail.share) if tail.kind == CHANCE else (tail.share, tail.limit)
                mine.setdefault(names[tail.cost], []).append(pair)
        return conrl.Linear(
            list(self.limits),
            list(self.floors),
            {names[i]: list(row) for i, row in self.per_step.items()} or None,
            **{kind: entries or None for kind, entries in tails.items()},
            grid=self.grid,
        )

    def of(self, kind: str) -> list[Tail]:
        return [tail for tail in self.tails if tail.kind == kind]


@dataclass(frozen=True)
class Line:
    """A row of what was asked: sign * z[coordinate] <= bound; `name` as conrl calls it."""

    coordinate: int
    sign: int
    bound: Fraction
    name: str


class Truth:
    """The exact answers about a world with a horizon, each found when first asked for."""

    def __init__(self, world: World, asked: Asked) -> None:
        self.world, self.asked = world, asked
        self.mdp = world.model()
        self.means = Means(self.mdp)
        counted = sorted({tail.cost for tail in asked.tails})
        self.unrolled = Unrolled(world, self.means, counted)
        d, names = world.num_costs, self.mdp.cost_names
        self.lines = _lines(asked.limits, asked.floors, names)
        self.extras: list[Extra] = []
        for i, row in asked.per_step.items():
            for h, bound in enumerate(row):
                if bound < np.inf:
                    self._add(Extra("at step", i, h), Fraction(bound), f"{names[i]} at step {h} <= {bound:.10g}")
        for tail in asked.of(CHANCE):
            name = f"P({names[tail.cost]} > {tail.limit:.10g}) <= {tail.share:.10g}"
            self._add(Extra("above", tail.cost, self.threshold(tail)), Fraction(tail.share), name)
        self.never: list[Limit] = [(tail.cost, self.threshold(tail)) for tail in asked.of(NEVER)]
        self.cvars = asked.of(CVAR)
        self.size = 1 + d + len(self.extras)

    def _add(self, extra: Extra, bound: Fraction, name: str) -> None:
        self.extras.append(extra)
        self.lines.append(Line(self.world.num_costs + len(self.extras), 1, bound, name))

    def threshold(self, tail: Tail) -> Fraction:
        return self.world.reaches(tail.cost, tail.limit)

    @property
    def rows(self) -> list[Row]:
        return [(line.coordinate - 1, line.sign, line.bound) for line in self.lines]

    @cached_property
    def model(self) -> Layered | None:
        """Without CVaRs; None if no policy keeps what is never exceeded."""
        return self.unrolled.layered(self.extras, self.never)

    @cached_property
    def whole(self) -> Layered:
        """The same of all policies: what rounding is measured by."""
        found = self.unrolled.layered(self.extras)
        assert found is not None
        return found

    @cached_property
    def optimum(self) -> Fraction | None:
        return self.best(reward_direction(self.whole))

    def best(self, a: Sequence[Fraction | int], more: Sequence[Fraction] | None = None) -> Fraction | None:
        """The best a.z of policies that keep everything; with `more`, bounds raised by so much (rows, then CVaRs)."""
        if self.model is None:
            return None
        more = [ZERO] * (len(self.lines) + len(self.cvars)) if more is None else more
        rows = [(c, s, h + x) for (c, s, h), x in zip(self.rows, more[: len(self.lines)], strict=True)]
        if not self.cvars:
            return best(self.model, rows, a).optimum
        found: Fraction | None = None
        options = [self.unrolled.totals(tail.cost) for tail in self.cvars]
        for quantiles in itertools.product(*options):
            extras, own = list(self.extras), list(rows)
            for t, tail, x in zip(quantiles, self.cvars, more[len(self.lines) :], strict=True):
                unit = Fraction(1, math.lcm(*(t.denominator for t in self.unrolled.totals(tail.cost))))
                extras.append(Extra("excess", tail.cost, t, unit))
                bound = (self.threshold(tail) + x - t) * (1 - simplest(tail.share)) / unit
                own.append((self.world.num_costs + len(extras) - 1, 1, bound))
            if any(bound < 0 for c, _, bound in own if c >= self.world.num_costs + len(self.extras)):
                continue
            model = self.unrolled.layered(extras, self.never)
            assert model is not None
            answer = best(model, own, [*a, *[0] * len(self.cvars)]).optimum
            if answer is not None and (found is None or answer > found):
                found = answer
        return found

    @cached_property
    def rounding(self) -> list[Fraction]:
        """[coordinates]: what evaluating each may err by."""
        H = self.world.horizon
        hidden = SMALLEST * H * self.mdp.num_pairs
        largest = [Fraction(float(x)) for x in np.abs(self.mdp.pay).max(axis=0)]
        largest += [largest[1 + e.cost] if e.kind == "at step" else ONE for e in self.extras]
        sizes = list(self.whole.sizes)
        for i, e in enumerate(self.extras, 1 + self.world.num_costs):
            if e.kind == "above" and self.mdp.pay_by_outcome[:, 1 + e.cost].min() < 0.0:
                sizes[i] = ONE  # added as a total comes above the threshold, taken off as it comes back
        return [ROUNDING_UNITS * H * EPSILON * size + hidden * (1 + x) for size, x in zip(sizes, largest, strict=True)]

    @property
    def allowances(self) -> list[Fraction]:
        """By how much each row may be exceeded, then each CVaR."""
        rows = [ALLOWED * abs(line.bound) + self.rounding[line.coordinate] for line in self.lines]
        return rows + [self.cvar_allowance(tail) for tail in self.cvars]

    def cvar_allowance(self, tail: Tail) -> Fraction:
        """A CVaR is the mean excess above a quantile, whose row may be exceeded as others, divided by 1 - level."""
        totals = self.unrolled.totals(tail.cost)
        spread = abs(self.threshold(tail)) + abs(totals[0]) + abs(totals[-1])
        rounding = ROUNDING_UNITS * self.world.horizon * EPSILON * spread
        allowed: Fraction = ALLOWED * (abs(self.threshold(tail)) + spread) + rounding / (1 - simplest(tail.share))
        return allowed

    def shares_of(self, played: Played) -> list[Fraction]:
        """What a policy comes to in each row."""
        found = []
        for line in self.lines:
            if line.coordinate <= self.world.num_costs:
                found.append(played.value[line.coordinate])
                continue
            extra = self.extras[line.coordinate - self.world.num_costs - 1]
            at_step = extra.kind == "at step"
            found.append(played.steps[extra.at][extra.cost] if at_step else played.above(extra.cost, extra.at))
        return found


def _lines(limits: Sequence[float], floors: Sequence[float], names: Sequence[str]) -> list[Line]:
    found = [Line(1 + i, 1, Fraction(x), f"{names[i]} <= {x:.10g}") for i, x in enumerate(limits) if x < np.inf]
    return found + [
        Line(1 + i, -1, -Fraction(x), f"{names[i]} >= {x:.10g}") for i, x in enumerate(floors) if x > -np.inf
    ]


def _finite(plan: Any) -> list[str]:
    numbers = (plan.reward, *plan.costs, plan.objective, plan.bound)
    good = np.isfinite(np.array(numbers, dtype=float)).all()
    return [] if good else [f"not finite: reward, costs, objective, bound are {numbers}"]


# -- plans of one model with a horizon ---------------------------------------------------------------------


def judge(truth: Truth, outcome: conrl.Plan | Exception, tol: Fraction = TOLERANCE) -> list[str]:
    """What is wrong with a plan, or with the error that came instead of one."""
    if isinstance(outcome, conrl.InfeasibleError):
        return _judge_infeasible(truth, outcome.feasibility)
    if _left_open(truth, outcome):
        return []
    if isinstance(outcome, Exception):
        return [f"{type(outcome).__name__}: {outcome}"]
    if broken := _finite(outcome):
        return broken
    whole = bool(truth.asked.tails)
    parts = [play(truth.world, truth.means, policy, whole) for policy in outcome.mixture.policies]
    weights = [Fraction(float(w)) for w in outcome.mixture.weights]
    mixed = Played.mixed([(w / total(weights), part) for w, part in zip(weights, parts, strict=True)])
    one = play(truth.world, truth.means, outcome.policy, whole)
    complaints = []
    for name, played in (("policy", one), ("mixture", mixed)):
        complaints += [f"{name}: {x}" for x in _judge_played(truth, outcome, played)]
    return complaints + _judge_bound(truth, outcome, tol)


def _left_open(truth: Truth, outcome: Any) -> bool:
    """Whether an error is right: on a grid that was given, or where rounding alone decides."""
    if not isinstance(outcome, conrl.RunError):
        return False
    if truth.asked.grid is not None and "undecided" in str(outcome):
        return True
    nothing, allowed = [0] * truth.size, truth.allowances
    return (
        truth.best(nothing, allowed) is not None
        and truth.best(nothing, [-x for x in allowed]) is None
        and any(words in str(outcome) for words in ROUNDED)
    )


def _judge_played(truth: Truth, plan: conrl.Plan, played: Played) -> list[str]:
    complaints = []
    names, asked = truth.mdp.cost_names, truth.asked
    said = {row.name: row for row in plan.rows}
    upper = plan.status == "bracketed"
    for i, (x, y) in enumerate(zip([plan.reward, *plan.costs], played.value, strict=True)):
        off = Fraction(float(x)) - y
        if abs(off) > truth.rounding[i]:
            complaints.append(f"{'reward' if i == 0 else names[i - 1]} is said to be {x!r}, off by {show(off)}")

    def check(name: str, is_: Fraction, sign: int, bound: Fraction, allowed: Fraction, rounding: Fraction) -> None:
        over = sign * is_ - bound
        if over > allowed:
            complaints.append(f"breaks {name} by {show(over)}, {show(over / allowed) if allowed else ''} x its due")
        if name not in said:
            complaints.append(f"there is no row {name!r} among {list(said)}")
            return
        row = said[name]
        off = Fraction(row.value) - is_
        tail = name.startswith(("P(", "CVaR"))
        if off < -rounding or (off > rounding and not (upper and tail)):
            complaints.append(f"{name}: its value is said to be {row.value!r}, off by {show(off)}")

    for line, is_, allowed in zip(truth.lines, truth.shares_of(played), truth.allowances, strict=False):
        check(line.name, is_, line.sign, line.bound, allowed, truth.rounding[line.coordinate])
    for tail in truth.cvars:
        level = simplest(tail.share)
        name = f"CVaR {tail.share:.10g} of {names[tail.cost]} <= {tail.limit:.10g}"
        totals = truth.unrolled.totals(tail.cost)
        size = max(abs(totals[0]), abs(totals[-1]))
        rounding = ROUNDING_UNITS * truth.world.horizon * EPSILON * size / (1 - level)
        check(name, played.cvar(tail.cost, level), 1, truth.threshold(tail), truth.cvar_allowance(tail), rounding)
    for tail in asked.of(NEVER):
        most = played.most(tail.cost)
        name = f"{names[tail.cost]} in every episode <= {tail.limit:.10g}"
        if most > truth.threshold(tail):
            complaints.append(f"{name}: an episode comes to {show(most)}")
        if name not in said or (said[name].value != float(most) and not (upper and said[name].value > most)):
            complaints.append(f"{name}: the most is {show(most)}, {said.get(name)} is said")
    return complaints


def _judge_bound(truth: Truth, plan: conrl.Plan, tol: Fraction) -> list[str]:
    complaints = []
    if plan.gap < 0.0:
        complaints.append(f"negative gap {plan.gap!r}; status {plan.status}")
    prices = {row.name: Fraction(row.price) for row in plan.rows}
    if min(prices.values(), default=ZERO) < 0:
        complaints.append(f"a price is negative: {prices}")
    bound, optimum = Fraction(float(plan.bound)), truth.optimum
    if truth.model is not None and not truth.cvars and plan.status in ("optimal", "inaccurate"):
        known = dict(zip((row.name for row in plan.rows), map(Fraction, plan.multipliers.tolist()), strict=True))
        multipliers = [known.get(line.name, ZERO) for line in truth.lines]
        if len({line.name for line in truth.lines}) == len(truth.lines):
            short = dual_bound(truth.model, reward_direction(truth.model), truth.rows, multipliers) - bound
            if short > 0:
                complaints.append(f"the multipliers do not prove the bound {plan.bound!r}: {show(short)} is missing")
        complaints += _judge_never_prices(truth, plan, prices)
    if optimum is None:
        return complaints  # kept within the allowances, as the rows have shown
    if optimum > bound:
        complaints.append(f"bound {plan.bound!r} is below the optimum by {show(optimum - bound)}; status {plan.status}")
    missing = optimum - Fraction(plan.objective)
    if plan.status == "optimal" and missing > tol * max(ONE, abs(Fraction(plan.objective))) + truth.rounding[0]:
        complaints.append(f"called optimal, but {show(missing)} below the optimum {show(optimum)}")
    return complaints


def _judge_never_prices(truth: Truth, plan: conrl.Plan, prices: dict[str, Fraction]) -> list[str]:
    """The price of a never: without it, no policy that keeps the rest earns more than this for its probability."""
    complaints = []
    for tail in truth.asked.of(NEVER):
        name = f"{truth.mdp.cost_names[tail.cost]} in every episode <= {tail.limit:.10g}"
        others = [(i, m) for i, m in truth.never if (i, m) != (tail.cost, truth.threshold(tail))]
        extras = [*truth.extras, Extra("above", tail.cost, truth.threshold(tail))]
        model = truth.unrolled.layered(extras, others)
        assert model is not None
        a = [ONE, *[ZERO] * (truth.size - 1), -prices.get(name, ZERO)]
        best_ = best(model, truth.rows, a).optimum
        room = 100 * TOLERANCE * max(ONE, abs(Fraction(plan.objective)), model.sizes[0]) + 100 * truth.rounding[0]
        if best_ is not None and best_ - Fraction(plan.objective) > room:
            complaints.append(f"{name}: its price {show(prices.get(name))} is too low: {show(best_)} is earned at it")
    return complaints


def _judge_infeasible(truth: Truth, found: conrl.Feasibility) -> list[str]:
    """Nothing feasible is called infeasible; where there are multipliers, they prove it."""
    if truth.optimum is not None:
        return [f"called infeasible ({', '.join(found.conflict)}), but it is feasible: optimum {show(truth.optimum)}"]
    if not found.conflict:
        return ["called infeasible without a conflict"]
    if found.multipliers is None or truth.cvars or truth.never:
        return []
    known = {line.name: row for line, row in zip(truth.lines, truth.rows, strict=True)}
    if not set(found.conflict) <= set(known):
        return [f"the conflict {found.conflict} is not one of {list(known)}"]
    multipliers = [Fraction(float(x)) for x in found.multipliers]
    proven = farkas(truth.whole, [known[name] for name in found.conflict], multipliers)
    return [] if proven > 0 else [f"the multipliers of {found.conflict} prove {show(proven)}, not more than 0"]


def judge_feasibility(truth: Truth, found: conrl.Feasibility | Exception) -> list[str]:
    """`conrl.feasibility` says feasible of what is so to within the allowances, infeasible only of what is."""
    if _left_open(truth, found):
        return []
    if isinstance(found, Exception):
        return [f"feasibility: {type(found).__name__}: {found}"]
    nothing = [0] * truth.size
    if found.feasible:
        if truth.optimum is not None or truth.best(nothing, truth.allowances) is not None:
            return []
        return ["feasibility: called feasible, but not even with the allowances"]
    return [f"feasibility: {x}" for x in _judge_infeasible(truth, found)]


def judge_distribution(
    world: World, policy: Any, played: Played, cost: int, found: conrl.Distribution | Exception
) -> list[str]:
    """`conrl.distribution`: the totals exactly, their probabilities to within rounding, and what follows from them."""
    if isinstance(found, Exception):
        return [f"distribution: {type(found).__name__}: {found}"]
    complaints = []
    exact = {x: p for x, p in played.marginal(cost).items() if p > 0}
    known = dict(zip(found.exact, found.probabilities.tolist(), strict=True))
    rounding = ROUNDING_UNITS * world.horizon * EPSILON
    for x in {*exact, *known}:
        off = Fraction(known.get(x, 0.0)) - exact.get(x, ZERO)
        underflow = exact.get(x, ZERO) < SMALLEST and known.get(x, 0.0) <= float(SMALLEST)
        if abs(off) > rounding * max(exact.get(x, ZERO), EPSILON) and not underflow:
            complaints.append(f"distribution: the probability of {x} is said to be {known.get(x)}, off by {show(off)}")
    if list(found.exact) != sorted(found.exact) or found.totals.tolist() != [float(x) for x in found.exact]:
        complaints.append("distribution: totals are not those of `exact`, rising")
    size = max(abs(x) for x in exact)
    for x in sorted(exact)[:: max(1, len(exact) // 4)]:
        off = Fraction(found.exceed(float(x))) - played.above(cost, world.reaches(cost, float(x)))
        if abs(off) > rounding:
            complaints.append(f"distribution: exceed({float(x)!r}) is off by {show(off)}")
    for level in (0.0, 0.5, 0.9):
        off = Fraction(found.cvar(level)) - played.cvar(cost, simplest(level))
        if abs(off) > 10 * rounding * size:
            complaints.append(f"distribution: cvar({level}) is off by {show(off)}")
    off = Fraction(found.mean) - total(x * p for x, p in exact.items())
    if abs(off) > rounding * size:
        complaints.append(f"distribution: the mean is off by {show(off)}")
    return complaints


def judge_deterministic(truth: Truth, outcome: conrl.Plan | Exception) -> list[str]:
    """The best policy without a lottery: all of them, one by one."""
    kept = [z for z in truth.whole.points() if all(s * z[1 + c] <= h for c, s, h in truth.rows)]
    optimum = max((z[0] for z in kept), default=None)
    if isinstance(outcome, conrl.InfeasibleError):
        return [] if optimum is None else [f"called infeasible, but a deterministic policy earns {show(optimum)}"]
    if isinstance(outcome, Exception):
        return [f"{type(outcome).__name__}: {outcome}"]
    if broken := _finite(outcome):
        return broken
    table = outcome.policy.probabilities
    complaints = [] if np.isin(table, (0.0, 1.0)).all() else ["the policy draws"]
    complaints += _judge_played(truth, outcome, play(truth.world, truth.means, outcome.policy, False))
    if outcome.gap < 0.0:
        complaints.append(f"negative gap {outcome.gap!r}")
    if outcome.status not in ("optimal", "inaccurate"):
        complaints.append(f"the status is {outcome.status}")
    if optimum is None:
        return complaints
    if optimum > Fraction(outcome.bound):
        complaints.append(f"bound {outcome.bound!r} is below the best by {show(optimum - Fraction(outcome.bound))}")
    missing = optimum - Fraction(outcome.objective)
    room = TOLERANCE * max(ONE, abs(Fraction(outcome.objective))) + truth.rounding[0]
    if outcome.status == "optimal" and missing > room:
        complaints.append(f"called optimal, but {show(missing)} below the best, {show(optimum)}")
    return complaints


# -- fleets ------------------------------------------------------------------------------------------------


class FleetTruth:
    """The exact answers about a fleet: worlds with how many units each has, and what they share."""

    def __init__(self, groups: Sequence[tuple[World, int]], asked: Asked, stacked: bool) -> None:
        self.groups, self.asked, self.stacked = list(groups), asked, stacked
        self.mdps = [world.model() for world, _ in groups]
        self.means = [Means(mdp) for mdp in self.mdps]
        d, names = groups[0][0].num_costs, self.mdps[0].cost_names
        self.names, self.num_costs = names, d
        self.lines = _lines(asked.limits, asked.floors, names)
        self.extras: list[Extra] = []
        for i in sorted(asked.per_step):
            for h, bound in enumerate(asked.per_step[i]):
                if bound < np.inf:
                    self.extras.append(Extra("at step", i, h))
                    name = f"{names[i]} at step {h} <= {bound:.10g}"
                    self.lines.append(Line(d + len(self.extras), 1, Fraction(bound), name))
        self.units: list[Layered] = []
        for (world, _), means in zip(groups, self.means, strict=True):
            found = Unrolled(world, means, ()).layered(self.extras)
            assert found is not None
            self.units.append(found)
        self.model = Sum([(unit, count) for unit, (_, count) in zip(self.units, groups, strict=True)])
        self.rows: list[Row] = [(line.coordinate - 1, line.sign, line.bound) for line in self.lines]

    def fleet(self) -> conrl.Fleet:
        """The same for conrl."""
        asked = self.asked
        shared: dict[str, Any] = {
            "limits": list(asked.limits),
            "floors": list(asked.floors),
            "per_step": {self.names[i]: list(row) for i, row in asked.per_step.items()} or None,
        }
        if not self.stacked:
            return conrl.Fleet([(mdp, n) for mdp, (_, n) in zip(self.mdps, self.groups, strict=True)], **shared)
        mdps = self.mdps
        S, A = mdps[0].num_states, mdps[0].num_actions
        return conrl.Fleet.stack(
            np.stack([m.transitions.toarray().reshape(S, A, S) for m in mdps]),
            np.stack([m.rewards for m in mdps]),
            np.stack([m.costs for m in mdps]),
            horizon=mdps[0].horizon,
            initial=np.stack([m.initial for m in mdps]),
            **shared,
        )

    @cached_property
    def optimum(self) -> Fraction | None:
        return best(self.model, self.rows).optimum

    @cached_property
    def rounding(self) -> list[Fraction]:
        H = self.groups[0][0].horizon
        return [ROUNDING_UNITS * H * EPSILON * size + SMALLEST for size in self.model.sizes]

    @property
    def allowances(self) -> list[Fraction]:
        return [ALLOWED * abs(line.bound) + self.rounding[line.coordinate] for line in self.lines]

    def worth(self, group: int, policy: Any) -> list[Fraction]:
        """[1 + d + steps]: what one unit of a group is worth under a policy, which may be a mixture."""
        world, means = self.groups[group][0], self.means[group]
        if isinstance(policy, conrl.Mixture):
            weights = [Fraction(float(w)) for w in policy.weights]
            parts = [self.worth(group, one) for one in policy.policies]
            return [
                total(w * part[i] for w, part in zip(weights, parts, strict=True)) / total(weights)
                for i in range(self.model.size)
            ]
        played = play(world, means, policy, False)
        return [*played.value, *(played.steps[e.at][e.cost] for e in self.extras)]


def judge_fleet(truth: FleetTruth, outcome: conrl.FleetPlan | Exception, tol: Fraction = TOLERANCE) -> list[str]:
    """Every unit's policy is asked for and played; limits hold for their sum; few mix; the bound holds for all."""
    if isinstance(outcome, conrl.InfeasibleError):
        return _judge_fleet_infeasible(truth, outcome.feasibility)
    if isinstance(outcome, Exception):
        return [f"{type(outcome).__name__}: {outcome}"]
    plan = outcome
    if broken := _finite(plan):
        return broken
    complaints: list[str] = []
    whole, mixing = [ZERO] * truth.model.size, 0
    more = [ZERO] * len(truth.lines)  # what the units that mix may use of each row beyond what is expected
    for g, (_, count) in enumerate(truth.groups):
        group = [ZERO] * truth.model.size
        units = 0
        for part in plan.parts(g):
            worth = truth.worth(g, part.policy)
            units += part.units
            group = [x + part.units * y for x, y in zip(group, worth, strict=True)]
            for i, (x, y) in enumerate(zip(part.value[: 1 + truth.num_costs], worth, strict=False)):
                if abs(Fraction(float(x)) - y) > truth.rounding[i]:
                    complaints.append(f"type {g}: a part's value[{i}] is {x!r}, off by {show(Fraction(float(x)) - y)}")
            if isinstance(part.policy, conrl.Mixture):
                mixing += part.units
                settled = [truth.worth(g, one) for one in part.policy.policies]
                for r, line in enumerate(truth.lines):
                    use = [line.sign * z[line.coordinate] for z in settled]
                    more[r] += part.units * (max(use) - line.sign * worth[line.coordinate])
        if units != count:
            complaints.append(f"type {g} has {units} units in its parts, not {count}")
        said = [plan.rewards[g], *plan.shares[g]]
        for i, (x, y) in enumerate(zip(said, group, strict=False)):
            if abs(Fraction(float(x)) - y) > truth.rounding[i]:
                complaints.append(f"type {g} is said to have {x!r} of {i}, off by {show(Fraction(float(x)) - y)}")
        whole = [x + y for x, y in zip(whole, group, strict=True)]
    if mixing != len(plan.mixed) or mixing > len(truth.lines):
        complaints.append(f"{mixing} units mix, {len(plan.mixed)} are listed, and there are {len(truth.lines)} rows")
    complaints += _judge_fleet_units(truth, plan)
    for i, (x, y) in enumerate(zip([plan.reward, *plan.costs], whole, strict=False)):
        if abs(Fraction(float(x)) - y) > truth.rounding[i]:
            complaints.append(f"total {i} is said to be {x!r}, off by {show(Fraction(float(x)) - y)}")
    for k, extra in enumerate(truth.extras):
        said_ = float(plan.step_costs[truth.names[extra.cost]][extra.at])
        off = Fraction(said_) - whole[1 + truth.num_costs + k]
        if abs(off) > truth.rounding[1 + truth.num_costs + k]:
            complaints.append(
                f"{truth.names[extra.cost]} at step {extra.at} is said to be {said_!r}, off by {show(off)}"
            )
    rows = {row.name: row for row in plan.rows}
    for r, (line, allowed) in enumerate(zip(truth.lines, truth.allowances, strict=True)):
        over = line.sign * whole[line.coordinate] - line.bound
        if over > allowed:
            complaints.append(f"breaks {line.name} by {show(over)}, {show(over / allowed)} x its due")
        if line.name not in rows:
            complaints.append(f"there is no row {line.name!r} among {list(rows)}")
            continue
        at = list(rows).index(line.name)
        if Fraction(float(plan.rounding[at])) < more[r] - truth.rounding[line.coordinate]:
            complaints.append(f"{line.name}: settled, {show(more[r])} more may be used, not {plan.rounding[at]!r}")
    return complaints + _judge_fleet_bound(truth, plan, tol)


def _judge_fleet_units(truth: FleetTruth, plan: conrl.FleetPlan) -> list[str]:
    """`policy(unit)` gives the same as `parts`: as many mixtures, and those are the units that are said to mix."""
    if plan.fleet.num_units > 30:
        return []
    mix = tuple(n for n in range(plan.fleet.num_units) if isinstance(plan.policy(n), conrl.Mixture))
    return [] if mix == plan.mixed else [f"the units {mix} mix, {plan.mixed} is said"]


def _judge_fleet_bound(truth: FleetTruth, plan: conrl.FleetPlan, tol: Fraction) -> list[str]:
    complaints = []
    if plan.gap < 0.0:
        complaints.append(f"negative gap {plan.gap!r}; status {plan.status}")
    known = dict(zip(plan.checked.rows.names, map(Fraction, plan.multipliers.tolist()), strict=True))
    multipliers = [known.get(line.name, ZERO) for line in truth.lines]
    if min(multipliers, default=ZERO) < 0:
        complaints.append(f"a multiplier is negative: {[show(x) for x in multipliers]}")
    short = dual_bound(truth.model, reward_direction(truth.model), truth.rows, multipliers) - Fraction(plan.bound)
    if short > 0:
        complaints.append(f"the multipliers do not prove the bound {plan.bound!r}: {show(short)} is missing")
    if truth.optimum is None:
        return complaints
    short = truth.optimum - Fraction(plan.bound)
    if short > 0:
        complaints.append(f"bound {plan.bound!r} is below the optimum by {show(short)}; status {plan.status}")
    missing = truth.optimum - Fraction(plan.reward)
    if plan.status == "optimal" and missing > tol * max(ONE, abs(Fraction(plan.reward))) + truth.rounding[0]:
        complaints.append(f"called optimal, but {show(missing)} below the optimum {show(truth.optimum)}")
    return complaints


def _judge_fleet_infeasible(truth: FleetTruth, found: conrl.Feasibility) -> list[str]:
    if truth.optimum is not None:
        return [f"called infeasible ({', '.join(found.conflict)}), but it is feasible: optimum {show(truth.optimum)}"]
    known = {line.name: row for line, row in zip(truth.lines, truth.rows, strict=True)}
    if not found.conflict or found.multipliers is None or not set(found.conflict) <= set(known):
        return [f"the conflict {found.conflict} is not one of {list(known)}"]
    multipliers = [Fraction(float(x)) for x in found.multipliers]
    proven = farkas(truth.model, [known[name] for name in found.conflict], multipliers)
    return [] if proven > 0 else [f"the multipliers of {found.conflict} prove {show(proven)}, not more than 0"]


# -- without a horizon -------------------------------------------------------------------------------------


class EndlessTruth:
    """The exact answers about a world without a horizon."""

    def __init__(self, world: World, asked: Asked) -> None:
        self.world, self.asked = world, asked
        self.mdp = world.model()
        self.endless = Endless(world, Means(self.mdp))
        self.lines = _lines(asked.limits, asked.floors, self.mdp.cost_names)
        self.rows: list[Row] = [(line.coordinate - 1, line.sign, line.bound) for line in self.lines]

    @property
    def refused(self) -> bool:
        """Whether a total has no end."""
        return isinstance(self.world.horizon, conrl.Total) and self.endless.pays_for_ever

    @cached_property
    def optimum(self) -> Fraction | None:
        return self.endless.best(self._reward, self.rows).optimum

    @property
    def _reward(self) -> list[Fraction]:
        return [ONE, *[ZERO] * self.world.num_costs]

    def dual_bound(self, prices: Sequence[Fraction], a: Sequence[Fraction] | None = None) -> Fraction:
        w = list(self._reward if a is None else a)
        for (c, s, _), x in zip(self.rows, prices, strict=True):
            w[1 + c] -= s * x
        found = self.endless.best(w).optimum
        assert found is not None
        return found + total(h * x for (_, _, h), x in zip(self.rows, prices, strict=True))

    @cached_property
    def rounding(self) -> list[Fraction]:
        """In proportion to the most that the size of pay comes to, and to how many steps count."""
        sizes = [self.endless.size_of(i) for i in range(self.endless.size)]
        return [self.units * EPSILON * size + SMALLEST for size in sizes]

    @cached_property
    def units(self) -> Fraction:
        """Of the last place, as many as steps count; a stationary distribution is known to 1e-10."""
        criterion = self.world.horizon
        if isinstance(criterion, conrl.Discounted):
            return ROUNDING_UNITS * (1 / (1 - Fraction(criterion.discount)) + self.world.states)
        if isinstance(criterion, conrl.Average):
            return Fraction(1, 10**10) / EPSILON
        return ROUNDING_UNITS * (self._steps + self.world.states)

    @property
    def _steps(self) -> Fraction:
        """The most steps, in expectation, of any policy outside of what it can stay in."""
        staying = self.endless.staying()
        gains = [Fraction(int(k not in staying)) for k in range(len(self.endless.pairs))]
        found = self.endless._best(gains, ()).optimum
        assert found is not None
        return found

    @property
    def allowances(self) -> list[Fraction]:
        return [ALLOWED * abs(line.bound) + self.rounding[line.coordinate] for line in self.lines]

    def leaves_open(self, message: str) -> bool:
        """Whether an error is right: rounding alone decides."""

        def feasible(sign: int) -> bool:
            moved = [(c, s, h + sign * x) for (c, s, h), x in zip(self.rows, self.allowances, strict=True)]
            return self.endless.best([ZERO] * self.endless.size, moved).optimum is not None

        return any(words in message for words in ROUNDED) and feasible(1) and not feasible(-1)


class SlowTruth(EndlessTruth):
    """Of a small chain, however slow: values are known to 1e-12 of the largest total. A gap that is not closed is less
    than `DIGITS` of the largest totals of rewards and of costs at their prices: these cancel."""

    units = Fraction(1, 10**12) / EPSILON

    def unclosed(self, plan: conrl.Plan) -> list[str]:
        """A complaint about a gap that could have been closed."""
        sizes = np.array([float(self.endless.size_of(i)) for i in range(self.endless.size)])
        room = DIGITS * float(sizes @ np.append(1.0, sum(plan.cost_multipliers)))
        if plan.status == "optimal" or plan.gap <= room:
            return []
        return [f"ended {plan.status} with a gap of {plan.gap!r}; {room!r} is what digits explain"]


def judge_endless(truth: EndlessTruth, outcome: conrl.Plan | Exception, tol: Fraction = TOLERANCE) -> list[str]:
    """A plan of a world without a horizon, whatever it adds up; or that a total is rightly refused."""
    if isinstance(outcome, conrl.ModelError):
        return [] if truth.refused else [f"refused: {outcome}"]
    if truth.refused:
        return [f"a total without an end has a plan: {outcome!r}"]
    if isinstance(outcome, conrl.InfeasibleError):
        found = outcome.feasibility
        if truth.optimum is not None:
            return [f"called infeasible ({', '.join(found.conflict)}), but it is feasible: {show(truth.optimum)}"]
        known = [line.name for line in truth.lines]
        if not found.conflict or found.multipliers is None or not set(found.conflict) <= set(known):
            return [f"the conflict {found.conflict} is not one of {known}"]
        chosen = dict(zip(found.conflict, found.multipliers, strict=True))
        multipliers = [Fraction(float(chosen.get(name, 0.0))) for name in known]
        proven = -truth.dual_bound(multipliers, [ZERO] * truth.endless.size)
        return [] if proven > 0 else [f"the multipliers of {found.conflict} prove {show(proven)}, not more than 0"]
    if isinstance(outcome, conrl.RunError) and truth.leaves_open(str(outcome)):
        return []
    if isinstance(outcome, Exception):
        return [f"{type(outcome).__name__}: {outcome}"]
    complaints = _finite(outcome) or [*_judge_chains(truth, outcome), *_judge_endless_bound(truth, outcome, tol)]
    return complaints + (truth.unclosed(outcome) if isinstance(truth, SlowTruth) else [])


def _judge_chains(truth: EndlessTruth, plan: conrl.Plan) -> list[str]:
    complaints = []
    values = [truth.endless.value(policy.probabilities) for policy in plan.mixture.policies]
    weights = [Fraction(float(w)) for w in plan.mixture.weights]
    size = truth.endless.size
    mixed = [total(w * v[i] for w, v in zip(weights, values, strict=True)) / total(weights) for i in range(size)]
    both: list[tuple[str, Sequence[Fraction]]] = [("mixture", mixed)]
    if isinstance(plan.policy, conrl.Stationary):
        both.append(("policy", truth.endless.value(plan.policy.probabilities)))
    elif isinstance(truth.world.horizon, conrl.Discounted):
        complaints.append("with a discount there is a stationary policy, and the plan has a mixture")
    for name, value in both:
        for i, (x, y) in enumerate(zip([plan.reward, *plan.costs], value, strict=True)):
            off = Fraction(float(x)) - y
            room = truth.rounding[i] + (ALLOWED * abs(y) if name == "policy" else ZERO)
            if abs(off) > room:
                complaints.append(f"{name}: value {i} is said to be {x!r}, off by {show(off)}, {show(off / room)} x")
        for line, allowed in zip(truth.lines, truth.allowances, strict=True):
            over = line.sign * value[line.coordinate] - line.bound
            if over > allowed:
                complaints.append(f"{name}: breaks {line.name} by {show(over)}, {show(over / allowed)} x its due")
    return complaints


def _judge_endless_bound(truth: EndlessTruth, plan: conrl.Plan, tol: Fraction) -> list[str]:
    complaints = []
    if plan.gap < 0.0:
        complaints.append(f"negative gap {plan.gap!r}; status {plan.status}")
    multipliers = [Fraction(x) for x in plan.multipliers.tolist()]
    if min(multipliers, default=ZERO) < 0:
        complaints.append(f"a multiplier is negative: {plan.multipliers}")
    bound = Fraction(plan.bound)
    short = truth.dual_bound(multipliers) - bound
    if short > 0:
        complaints.append(f"the multipliers do not prove the bound {plan.bound!r}: {show(short)} is missing")
    if truth.optimum is None:
        return complaints
    if truth.optimum > bound:
        complaints.append(f"bound {plan.bound!r} is below the optimum by {show(truth.optimum - bound)}")
    missing = truth.optimum - Fraction(plan.objective)
    if plan.status == "optimal" and missing > tol * max(ONE, abs(Fraction(plan.objective))) + truth.rounding[0]:
        complaints.append(f"called optimal, but {show(missing)} below the optimum {show(truth.optimum)}")
    return complaints

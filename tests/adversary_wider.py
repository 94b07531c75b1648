"""Adversarial models of the wider world, by number, for the promises of `contract_wider`.

    python tests/adversary.py --wider --models 3000
    python tests/adversary.py --kind slow --models 5000

Kinds take turns: steps that differ with limits on each, limits on single episodes, policies without a lottery, exact
totals of episodes, fleets, and models without a horizon. Thresholds lie at totals that can exactly be reached, just
beside and between them, and are what is reported of totals, and sums in doubles, for learners and fleets too; limits at
the exact extremes, at what some policy exactly comes to, and beyond.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from contract import attempt
from contract_wider import (
    CHANCE,
    CVAR,
    NEVER,
    Asked,
    EndlessTruth,
    FleetTruth,
    SlowTruth,
    Tail,
    Truth,
    judge,
    judge_deterministic,
    judge_distribution,
    judge_endless,
    judge_feasibility,
    judge_fleet,
)
from exact import Model, total
from exact_wider import ZERO, Means, Outcome, Played, Table, Unrolled, World, play, simplest

import conrl

Generator = np.random.Generator
COMBINATIONS = 60  # of quantiles of CVaRs: each is a program
POLICIES = 1500  # without a lottery, which are tried one by one
NODES = 250  # of a model with what was spent in its states


# -- models ------------------------------------------------------------------------------------------------

ROWS = ("point", "coarse", "coarse", "split", "split", "zeros", "tiny")  # they add up to exactly 1
LOOSE = ("dense", "off")  # not to the last bit
PAYS = ("uniform", "signed", "integers", "integers", "constant", "zero", "one")
AMOUNTS: dict[str, tuple[Fraction, ...]] = {
    "whole": tuple(map(Fraction, (0, 1, 2))),
    "bits": tuple(map(Fraction, (0, 1))),
    "tenths": (Fraction(0), Fraction(1, 10), Fraction(3, 10)),
    "thirds": (Fraction(0), Fraction(1, 3), Fraction(1, 2)),
    "sevenths": (Fraction(1, 7), Fraction(2, 7)),
    "cents": (Fraction(5, 100), Fraction(25, 100)),
    "signed": tuple(map(Fraction, (-1, 0, 1))),
    "signed tenths": (Fraction(-1, 10), Fraction(0), Fraction(2, 10)),
    "gains": tuple(map(Fraction, (-2, -1, 0))),
    "same": (Fraction(1),),
}


def pick(rng: Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def row(rng: Generator, S: int, kind: str) -> dict[int, float]:
    """Probabilities by successor; 0 is among them now and then."""
    if kind == "dense" or kind == "off":
        off = 1.0 + rng.uniform(-9e-10, 9e-10) * (kind == "off")
        return {t: float(p) for t, p in enumerate(rng.dirichlet(np.ones(S) * 0.5) * off)}
    if kind == "point" or S == 1:
        return {int(rng.integers(S)): 1.0}
    if kind == "coarse":
        counts = np.bincount(rng.integers(S, size=8), minlength=S)
        return {t: n / 8.0 for t, n in enumerate(counts.tolist()) if n}
    a, b = map(int, rng.choice(S, size=2, replace=False))
    if kind == "zeros":
        return {a: 1.0, b: 0.0}
    p = float(rng.random()) if kind == "split" else 2.0 ** -int(rng.integers(10, 53))
    return {a: p, b: 1.0 - p}  # both are multiples of 2^-53


def pays(rng: Generator, kind: str, scale: float, n: int) -> list[float]:
    draws: dict[str, Callable[[], Any]] = {
        "uniform": lambda: rng.random(n),
        "signed": lambda: rng.random(n) - 0.4,
        "integers": lambda: rng.integers(-1, 3, size=n).astype(float),
        "constant": lambda: np.full(n, 0.1),
        "zero": lambda: np.zeros(n),
        "one": lambda: np.eye(n)[rng.integers(n)] * rng.normal(),
    }
    values = draws[kind]()
    return [float(x) for x in values * scale]


def scale_of(rng: Generator) -> float:
    return float(pick(rng, (1.0, 1.0, 1.0, 10.0 ** rng.uniform(-9, 9))))


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a kind draws from."""

    states: tuple[int, ...] = (1, 2, 2, 3, 3, 4)
    actions: tuple[int, ...] = (1, 2, 2, 3)
    horizons: tuple[int, ...] = (1, 2, 3, 4)
    costs: tuple[int, ...] = (0, 1, 1, 2, 3)
    by_step: tuple[bool, ...] = (False, True)
    rows: tuple[str, ...] = ROWS
    counted: bool = False  # costs have common units
    rough: bool = False  # or none at all


def draw_world(rng: Generator, shape: Shape, horizon: Any = None) -> World:
    """A model; some actions do not exist, some states cannot be reached, some starts are drawn."""
    S, A, d = pick(rng, shape.states), pick(rng, shape.actions), pick(rng, shape.costs)
    H = pick(rng, shape.horizons) if horizon is None else horizon
    steps = H if horizon is None and H > 1 and pick(rng, shape.by_step) else 1
    by_outcome = bool(rng.random() < 0.4)
    kinds = [pick(rng, PAYS) for _ in range(1 + d)]
    scales = [scale_of(rng) for _ in range(1 + d)]
    palettes = [_palette(rng, shape.rough) for _ in range(d)]
    how = pick(rng, shape.rows)
    tables = []
    for _ in range(steps):
        table: list[tuple[tuple[Outcome, ...], ...]] = []
        for _state in range(S):
            there = rng.random(A) < (0.75 if A > 1 else 1.0)
            there[rng.integers(A)] = True
            actions: list[tuple[Outcome, ...]] = []
            for a in range(A):
                if not there[a]:
                    actions.append(())
                    continue
                leads = row(rng, S, how if rng.random() < 0.7 else pick(rng, shape.rows))
                n = len(leads) if by_outcome else 1
                columns = [pays(rng, kinds[0], scales[0], n)]
                for i in range(d):
                    if shape.counted:
                        columns.append([float(pick(rng, palettes[i])) for _ in range(n)])
                    else:
                        columns.append(pays(rng, kinds[1 + i], scales[1 + i], n))
                each = list(zip(*columns, strict=True)) * (1 if by_outcome else len(leads))
                actions.append(tuple(Outcome(p, t, pay) for (t, p), pay in zip(leads.items(), each, strict=True)))
            table.append(tuple(actions))
        tables.append(tuple(table))
    if pick(rng, (False, False, True)) and d > 1 and not shape.counted:
        tables = [_related(rng, table) for table in tables]
    return World(tuple(tables), H, _start(rng, S), d, by_outcome)


def _palette(rng: Generator, rough: bool) -> tuple[float, ...]:
    if rough:
        return tuple(float(x) for x in rng.random(4) - (0.3 if rng.random() < 0.3 else 0.0))
    amounts = pick(rng, list(AMOUNTS.values()))
    power = int(pick(rng, (0, 0, 0, -9, -3, 3, 9)))
    return tuple(float(x * Fraction(10) ** power) for x in amounts)


def _related(rng: Generator, table: Table) -> Table:
    """The last cost is the first, or minus the first, or nearly so."""
    by = float(pick(rng, (1.0, -1.0, 1.0 + 1e-12, 1.0 + 1e-7)))

    def change(o: Outcome) -> Outcome:
        return dataclasses.replace(o, pay=(*o.pay[:-1], o.pay[1] * by))

    return tuple(tuple(tuple(change(o) for o in outs) for outs in actions) for actions in table)


def _start(rng: Generator, S: int) -> tuple[float, ...]:
    if S == 1 or rng.random() < 0.6:
        return tuple(float(s == 0) for s in range(S))
    drawn = row(rng, S, pick(rng, ("split", "coarse")))
    return tuple(drawn.get(t, 0.0) for t in range(S))


# -- what is asked -----------------------------------------------------------------------------------------


def beside(rng: Generator, x: Fraction | float, size: Any = 0.0) -> float:
    """The double nearest to a number, mostly; or one next to it, or a hair away."""
    near = float(x)
    way = rng.random()
    if way < 0.6:
        return near
    if way < 0.8:
        return float(np.nextafter(near, pick(rng, (-np.inf, np.inf))))
    hair: float = 10.0 ** -float(rng.uniform(6, 14))
    return near + float(pick(rng, (-1, 1))) * hair * (abs(near) or float(size))


def bound_for(rng: Generator, low: Fraction, high: Fraction, some: Fraction, none: float) -> float:
    """A limit between the extremes of what it is on, or at one of them, or at what some policy comes to."""
    kind = pick(rng, ("between",) * 4 + ("low", "some", "some", "some", "high", "below", "none", "none", "zero"))
    width = float(high - low)
    if kind == "between":
        return float(low) + float(rng.random()) * width
    if kind == "none":
        return none
    if kind == "below":
        return float(low) - float(pick(rng, (1e-8, 1e-2))) * (abs(float(low)) or width or 1.0)
    return beside(rng, {"low": low, "some": some, "high": high, "zero": ZERO}[kind], width)


def axis(size: int, i: int, sign: int = 1) -> list[int]:
    return [sign * int(j == i) for j in range(size)]


def jointly(rng: Generator, bounds: list[float], some: list[Fraction], sign: int) -> list[float]:
    """Where there are bounds, those that one policy keeps together; or a hair above."""
    hair = 1e-9 if rng.random() < 0.2 else 0.0
    return [x if math.isinf(x) else above(sign * y, hair) * sign for x, y in zip(bounds, some, strict=False)]


def above(x: Fraction, hair: float) -> float:
    """The least double that is at least a number; or that much higher."""
    near = float(x)
    if Fraction(near) < x:
        near = float(np.nextafter(near, np.inf))
    return near + hair * abs(near)


def extremes(model: Any, i: int) -> tuple[Fraction, Fraction]:
    return -model.greatest(axis(model.size, i, -1)), model.greatest(axis(model.size, i))


def expected_bounds(
    rng: Generator, model: Any, some: list[Fraction], d: int, floors: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Limits and floors [d]; a floor above a limit now and then."""
    limits, lower = [], []
    for i in range(d):
        low, high = extremes(model, 1 + i)
        limits.append(bound_for(rng, low, high, some[1 + i], math.inf))
        chosen = -math.inf
        if floors and rng.random() < 0.3:
            chosen = -bound_for(rng, -high, -low, -some[1 + i], math.inf)
            if rng.random() < 0.3 and limits[i] < math.inf:
                chosen = limits[i]
        lower.append(chosen)
    if rng.random() < 0.5:
        return tuple(jointly(rng, limits, some[1:], 1)), tuple(jointly(rng, lower, some[1:], -1))
    return tuple(limits), tuple(lower)


def a_point(rng: Generator, model: Model) -> list[Fraction]:
    """The value vector of some deterministic policy."""
    w = [int(x) for x in rng.integers(-9, 10, size=model.size)]
    point = model.support(w)[1]
    return [Fraction(z, 1 << e) for z, e in zip(point, model.shift, strict=True)]


def step_bounds(rng: Generator, unrolled: Any, d: int, horizon: int, count: int = 1) -> dict[int, tuple[float, ...]]:
    """Limits on some steps of some costs."""
    from exact_wider import Extra

    found = {}
    for i in range(d):
        if rng.random() < 0.6:
            model = unrolled.layered([Extra("at step", i, h) for h in range(horizon)])
            some = a_point(rng, model)
            bounds = []
            for h in range(horizon):
                low, high = extremes(model, 1 + d + h)
                bounds.append(bound_for(rng, low * count, high * count, some[1 + d + h] * count, math.inf))
            found[i] = tuple(bounds)
    return found


def a_policy(rng: Generator, world: World) -> conrl.Policy:
    """Some policy that draws, or not, with probabilities that are doubles like any others."""
    H, S, A = world.horizon, world.states, world.actions
    table = np.zeros((H, S, A))
    for h in range(H):
        for s in range(S):
            there = [a for a, outcomes in enumerate(world.at(h)[s]) if outcomes]
            weights = rng.dirichlet(np.ones(len(there))) if rng.random() < 0.6 else np.eye(len(there))[0]
            table[h, s, there] = weights
    return conrl.Policy(table)


def tails_for(rng: Generator, unrolled: Unrolled, played: Played, kinds: tuple[str, ...]) -> tuple[Tail, ...]:
    """Limits on single episodes whose thresholds are totals that come up, or lie beside or between them."""
    found: list[Tail] = []
    for kind in kinds:
        cost = int(pick(rng, unrolled.counted))
        totals = unrolled.totals(cost)
        at = float(pick(rng, totals))
        way = rng.random()
        if way < 0.15 and len(totals) > 1:
            k = int(rng.integers(len(totals) - 1))
            at = float((totals[k] + totals[k + 1]) / 2)
        elif way < 0.25:
            at = float(np.nextafter(at, pick(rng, (-np.inf, np.inf))))
        elif way < 0.3:
            at = float(pick(rng, (totals[0] - 1, totals[-1] + 1)))
        if kind == NEVER:
            found.append(Tail(NEVER, cost, at))
        elif kind == CHANCE:
            p = played.above(cost, simplest(at))
            share = float(pick(rng, (0.0, 1.0, float(p), float(p), beside(rng, p, 1.0), rng.random(), 1e-9)))
            found.append(Tail(CHANCE, cost, at, min(max(share, 0.0), 1.0)))
        else:
            level = float(pick(rng, (0.0, 0.5, 0.9, 0.99, 0.25, rng.random() * 0.99)))
            own = played.cvar(cost, simplest(level))
            limit = float(pick(rng, (at, float(own), beside(rng, own, 1.0), float(own) + rng.random())))
            found.append(Tail(CVAR, cost, limit, level))
    distinct = {(t.kind, t.cost, f"{t.limit:.10g}", f"{t.share:.10g}" if t.kind != CHANCE else ""): t for t in found}
    once = {}
    for tail in distinct.values():  # never is one number for each cost
        once[(tail.kind, tail.cost) if tail.kind == NEVER else (*dataclasses.astuple(tail),)] = tail
    return tuple(once.values())


# -- the kinds ---------------------------------------------------------------------------------------------

Verdict = tuple[str, list[str]]
Kind = Callable[[Generator], Verdict]


def ended(outcome: Any) -> str:
    return outcome.status if isinstance(outcome, (conrl.Plan, conrl.FleetPlan)) else type(outcome).__name__


def _steps(rng: Generator) -> Verdict:
    """Steps that differ, limits on totals, floors, and limits on single steps."""
    rows = ROWS + LOOSE
    world = draw_world(rng, Shape(horizons=(1, 2, 3, 5, 8), costs=(1, 2, 3, 4), by_step=(True, True, False), rows=rows))
    unrolled = Unrolled(world, Means(world.model()), ())
    model = unrolled.layered()
    assert model is not None
    limits, floors = expected_bounds(rng, model, a_point(rng, model), world.num_costs, True)
    asked = Asked(limits, floors, step_bounds(rng, unrolled, world.num_costs, world.horizon))
    return _planned(Truth(world, asked))


def _planned(truth: Truth) -> Verdict:
    problem = truth.asked.problem(truth.mdp.cost_names)
    outcome, complaints = attempt(lambda: conrl.plan(truth.mdp, problem))
    complaints += judge(truth, outcome)
    found, warned = attempt(lambda: conrl.feasibility(truth.mdp, problem))
    return ended(outcome), complaints + warned + judge_feasibility(truth, found)


def _episodes(kinds: Callable[[Generator], tuple[str, ...]], shape: Shape, mixed: bool) -> Kind:
    """Limits on single episodes of some kinds; `mixed`: with limits on totals and steps, and floors."""

    def examine(rng: Generator) -> Verdict:
        while True:
            world = draw_world(rng, shape)
            means = Means(world.model())
            counted = list(range(world.num_costs))
            unrolled = Unrolled(world, means, counted)
            wanted = kinds(rng)
            options = max(len(unrolled.totals(i)) for i in counted) ** wanted.count(CVAR)
            if sum(map(len, unrolled.nodes)) <= NODES and options <= COMBINATIONS:
                break
        policy = a_policy(rng, world)
        tails = tails_for(rng, unrolled, play(world, means, policy), wanted)
        d = world.num_costs
        limits, floors, per_step = (math.inf,) * d, (-math.inf,) * d, {}
        if mixed:
            model = unrolled.layered()
            assert model is not None
            limits, floors = expected_bounds(rng, model, a_point(rng, model), d, bool(rng.random() < 0.3))
            if rng.random() < 0.3:
                per_step = step_bounds(rng, unrolled, d, world.horizon)
        grid = None
        if shape.rough and rng.random() < 0.7:
            grid = float(pick(rng, (0.01, 0.1, 0.3)))
        truth = Truth(world, Asked(limits, floors, per_step, tails, grid))
        name, complaints = _planned(truth)
        if not complaints:
            complaints = _of_plan(truth)
        return name, complaints

    return examine


def _of_plan(truth: Truth) -> list[str]:
    """The distribution of totals of the plan itself, which acts on what was spent."""
    plan, complaints = attempt(lambda: conrl.plan(truth.mdp, truth.asked.problem(truth.mdp.cost_names)))
    if isinstance(plan, conrl.Plan):
        cost = truth.asked.tails[0].cost
        found, warned = attempt(lambda: conrl.distribution(truth.mdp, plan.policy, cost))
        played = play(truth.world, truth.means, plan.policy)
        complaints += warned + judge_distribution(truth.world, plan.policy, played, cost, found)
    return complaints


def _distribution(rng: Generator) -> Verdict:
    """The totals of episodes of some policy, and of a mixture."""
    shape = Shape(horizons=(1, 2, 3, 5, 8), costs=(1, 2), counted=True, rough=bool(rng.random() < 0.2))
    while True:
        world = draw_world(rng, shape)
        means = Means(world.model())
        if sum(map(len, Unrolled(world, means, range(world.num_costs)).nodes)) <= 2000:
            break
    policies = [a_policy(rng, world) for _ in range(int(rng.integers(1, 4)))]
    played = [play(world, means, policy) for policy in policies]
    mdp = world.model()
    policy: Any = policies[0]
    if len(policies) > 1:
        weights = rng.dirichlet(np.ones(len(policies)))
        policy = conrl.Mixture(weights, policies)
        exact = [Fraction(float(w)) for w in policy.weights]
        played = [Played.mixed([(w / sum(exact), part) for w, part in zip(exact, played, strict=True)])]
    complaints = []
    for cost in range(world.num_costs):
        found, warned = attempt(partial(conrl.distribution, mdp, policy, cost))
        complaints += warned + judge_distribution(world, policy, played[0], cost, found)
    return "distribution", complaints


def _sum(rng: Generator, amounts: list[float]) -> float:
    """What people get who add up doubles."""
    rng.shuffle(amounts)
    ways: tuple[Callable[[list[float]], Any], ...] = (sum, math.fsum, np.sum, lambda x: np.cumsum([0.0, *x])[-1])
    return float(pick(rng, ways)(amounts))


def _on_the_way(rng: Generator, world: World) -> list[float]:
    """What each step of some episode costs."""
    state, paid = int(pick(rng, np.flatnonzero(world.initial))), []
    for h in range(world.horizon):
        outcomes = pick(rng, [outcomes for outcomes in world.at(h)[state] if outcomes])
        drawn = pick(rng, [o for o in outcomes if o.probability > 0.0])
        state = drawn.to
        paid.append(drawn.pay[1])
    return paid


def _thresholds(rng: Generator) -> Verdict:
    """What is reported of totals, and sums of costs in doubles, as thresholds; costs are doubles like any others."""
    few = Shape(states=(1, 2, 2, 3), actions=(1, 2), horizons=(1, 2, 3, 4, 5), costs=(1,))
    while True:
        world = draw_world(rng, dataclasses.replace(few, counted=bool(rng.random() < 0.3)))
        means = Means(world.model())
        unrolled = Unrolled(world, means, (0,))
        if sum(map(len, unrolled.nodes)) <= NODES:
            break
    mdp, policy = world.model(), a_policy(rng, world)
    played = play(world, means, policy)
    found, complaints = attempt(lambda: conrl.distribution(mdp, policy, 0))
    complaints += judge_distribution(world, policy, played, 0, found)
    if complaints:
        return "distribution", complaints
    exact, rounding = list(played.marginal(0)), 1e-12

    def apart(x: Fraction) -> bool:
        """Whether no other total lies within twice the bound."""
        bound = world.reaches(0, float(x)) - Fraction(float(x))
        return all(y == x or abs(y - x) > 2 * bound for y in exact)

    def expect(what: str, threshold: float, share: Fraction) -> None:
        off = found.exceed(threshold) - float(share)
        if abs(off) > rounding:
            complaints.append(f"{what}: exceed({threshold!r}) is off by {off:.3g}")

    if found.exceed(found.most) != 0.0:
        complaints.append(f"exceed({found.most!r}), of the most, is {found.exceed(found.most)}")
    q = float(pick(rng, (0.0, 0.5, 0.9, 0.99, 1.0, rng.random())))
    if found.exceed(found.quantile(q)) > 1.0 - q + rounding:
        complaints.append(f"exceed({found.quantile(q)!r}), of the {q} quantile, is {found.exceed(found.quantile(q))}")
    for x in exact:
        if apart(x):
            expect("a total", float(x), played.above(0, x))
    paid = _on_the_way(rng, world)
    own = total(map(simplest, paid))
    summed = _sum(rng, paid)
    if apart(own):
        expect("a sum", summed, played.above(0, own))
    level = min(q, 0.99)
    asked = [
        Tail(NEVER, 0, found.most),
        Tail(CHANCE, 0, found.quantile(q), 1.0 - q),
        Tail(CVAR, 0, found.cvar(level), level),
    ]
    for tail in asked:
        complaints += [f"{tail.kind}: {x}" for x in _at_least(world, tail, played)]
    below = max((x for x in exact if x < played.most(0)), default=None)
    if below is not None and apart(played.most(0)):
        plan, warned = attempt(lambda: conrl.plan(mdp, conrl.Linear(never=[float(below)])))
        complaints += warned
        if isinstance(plan, conrl.Plan):
            most = play(world, means, plan.policy).most(0)
            if most > below and most - below > 2 * abs(world.reaches(0, float(below)) - Fraction(float(below))):
                complaints.append(f"never {float(below)!r}: an episode comes to {float(most)!r}")
        elif not isinstance(plan, conrl.InfeasibleError):
            complaints.append(f"never {float(below)!r}: {type(plan).__name__}: {plan}")
    chosen = pick(rng, (*asked, Tail(NEVER, 0, summed), Tail(CHANCE, 0, summed, float(rng.random()))))
    name, more = _planned(Truth(world, Asked((math.inf,), (-math.inf,), {}, (chosen,))))
    return name, complaints + more


def _at_least(world: World, tail: Tail, played: Played) -> list[str]:
    """What is wrong where a policy keeps a limit, and a plan is to earn as much."""
    mdp = world.model()
    plan, complaints = attempt(lambda: conrl.plan(mdp, Asked((math.inf,), (-math.inf,), {}, (tail,)).problem(["cost"])))
    if not isinstance(plan, conrl.Plan):
        return [*complaints, f"{type(plan).__name__}: {plan}"]
    size = world.horizon * float(np.abs(mdp.rewards).max())
    short = float(played.value[0]) - plan.objective
    return [*complaints, f"earns {short:.3g} too little"] if short > 2e-9 * max(1.0, size) else complaints


def _chain(cost: float, horizon: int) -> conrl.ConstrainedMDP:
    """One state in which the second action earns 1 and costs something."""
    return conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[0.0], [cost]]], horizon, can_stop=True)


def _budgets(rng: Generator) -> Verdict:
    """Learners and fleets play what sums of doubles allow, to the last cost, and no more."""
    H, K, units = map(int, rng.integers(1, 12, size=3))
    cost, complaints = float(rng.random() * 10.0 ** rng.integers(-9, 10)), list[str]()
    mdp, steps = _chain(cost, H), int(rng.integers(0, H + 1))

    def expect(what: str, is_: Any, should: Any) -> None:
        if is_ != should:
            complaints.append(f"{what}: {is_}, and not {should}; cost {cost!r}, {H} steps, {K} episodes")

    never = conrl.Linear(never=[_sum(rng, [cost] * steps)])
    learner = conrl.ConRL(mdp.task, problem=never)
    spent = [_sum(rng, [cost] * h) for h in range(H)]
    expect("steps of a learner", [learner.may_step([x]) for x in spent], [h < steps for h in range(H)])
    expect("steps of a plan", round(conrl.plan(mdp, never).reward, 9), steps)
    for paid in (np.full((K, H), cost), rng.random((K, H)) * cost):
        books = conrl.ConRL(mdp.task, problem=conrl.Knapsack([_sum(rng, paid.ravel().tolist())], K)).budget
        assert books is not None
        for row in paid:
            if (paid == cost).all():
                expect("steps within a budget", [books.may_step([x]) for x in spent], [True] * H)
            books.spend_episode(row[:, None])
        expect("above the budget", books.exceeded(paid[-1][:, None]), "")
        expect("left of the budget", books.left.tolist(), [0.0])
        expect("one step more", books.may_step([0.0]), False)
    each = [float(x) for x in rng.random(units) * cost]
    limit = _sum(rng, list(each))
    for share in (1.0, 1.0 - 1e-12):
        fleet = conrl.Fleet([(_chain(x, 1), 1) for x in each], limits=[limit * share])
        played = fleet.simulate(conrl.plan(fleet), runs=3)
        expect("runs above a limit", played.exceed().tolist(), [0.0])
        expect("runs in which all units play", played.rewards.tolist().count(units), 3 * int(share == 1.0))
    return "budgets", complaints


def _deterministic(rng: Generator) -> Verdict:
    """One policy with one action for each step and state."""
    shape = Shape(states=(1, 2, 2, 3), horizons=(1, 2, 2, 3), costs=(0, 1, 2, 3), rows=ROWS + LOOSE)
    while True:
        world = draw_world(rng, shape)
        unrolled = Unrolled(world, Means(world.model()), ())
        if math.prod(max(1, len(arcs)) for layer in unrolled.arcs for arcs in layer) <= POLICIES:
            break
    model = unrolled.layered()
    assert model is not None
    limits, floors = expected_bounds(rng, model, a_point(rng, model), world.num_costs, True)
    per_step = step_bounds(rng, unrolled, world.num_costs, world.horizon) if rng.random() < 0.3 else {}
    truth = Truth(world, Asked(limits, floors, per_step))
    problem = truth.asked.problem(truth.mdp.cost_names)
    outcome, complaints = attempt(lambda: conrl.plan(truth.mdp, problem, deterministic=True, time_limit=1e6))
    return ended(outcome), complaints + judge_deterministic(truth, outcome)


def _fleet(rng: Generator) -> Verdict:
    """Types with counts, or a stack of different units; limits, floors and limits per step are on all of them."""
    stacked = bool(rng.random() < 0.4)
    horizon, d = int(pick(rng, (1, 2, 3, 5))), int(pick(rng, (1, 1, 2, 3)))
    S, A = int(pick(rng, (1, 2, 3))), int(pick(rng, (1, 2, 3)))
    groups: list[tuple[World, int]] = []
    for _ in range(int(pick(rng, (1, 2, 3, 5)))):
        shape = Shape(horizons=(horizon,), costs=(d,), by_step=(False, False, True), rows=ROWS + LOOSE)
        if stacked:
            shape = dataclasses.replace(shape, states=(S,), actions=(A,), by_step=(False,))
        world = draw_world(rng, shape)
        if stacked:
            world = _all_there(rng, world, A)
        groups.append((world, 1 if stacked else int(pick(rng, (1, 1, 2, 3, 7, 40, 1000)))))
    none = Asked((math.inf,) * d, (-math.inf,) * d, {})
    free = FleetTruth(groups, none, stacked)
    some = a_point(rng, free.model)
    limits, floors = expected_bounds(rng, free.model, some, d, True)
    per_step = {}
    if rng.random() < 0.4:
        world, _ = groups[0]
        count = sum(n for _, n in groups)
        per_step = step_bounds(rng, Unrolled(world, Means(world.model()), ()), d, horizon, count)
    truth = FleetTruth(groups, Asked(limits, floors, per_step), stacked)
    outcome, complaints = attempt(lambda: conrl.plan(truth.fleet()))
    return ended(outcome), complaints + judge_fleet(truth, outcome)


def _all_there(rng: Generator, world: World, A: int) -> World:
    """Every action exists, with one pay for each: what a stack of arrays can say."""
    tables = []
    for table in world.tables:
        rows = []
        for actions in table:
            known = [outs for outs in actions if outs]
            full = [*known, *(pick(rng, known) for _ in range(A - len(known)))]
            rows.append(tuple(tuple(dataclasses.replace(o, pay=outs[0].pay) for o in outs) for outs in full))
        tables.append(tuple(rows))
    return dataclasses.replace(world, tables=tuple(tables), by_outcome=False)


def _endless(name: str) -> Kind:
    def examine(rng: Generator) -> Verdict:
        criterion: Any = conrl.Average() if name == "average" else conrl.Total()
        rows: tuple[str, ...] = ROWS
        if name == "discounted":
            criterion = conrl.Discounted(float(pick(rng, (0.0, 0.1, 0.5, 0.9, 0.99, 0.999, rng.random()))))
            rows = ROWS + LOOSE
        elif rng.random() < 0.3:
            rows = LOOSE
        shape = Shape(states=(1, 2, 3, 4, 6), costs=(0, 1, 2, 3, 4), by_step=(False,), rows=rows)
        world = draw_world(rng, shape, criterion)
        if name == "total":
            world = _ending(rng, world)
        return _planned_endless(rng, world, EndlessTruth)

    return examine


def _planned_endless(rng: Generator, world: World, kind: type[EndlessTruth]) -> Verdict:
    free = kind(world, Asked((math.inf,) * world.num_costs, (-math.inf,) * world.num_costs, {}))
    limits, floors = (math.inf,) * world.num_costs, (-math.inf,) * world.num_costs
    if not free.refused:
        limits, floors = _endless_bounds(rng, free)
    truth = kind(world, Asked(limits, floors, {}))
    problem = truth.asked.problem(truth.mdp.cost_names)
    outcome, complaints = attempt(lambda: conrl.plan(truth.mdp, problem))
    return ended(outcome), complaints + judge_endless(truth, outcome)


def _slow(rng: Generator) -> Verdict:
    """Chains that are left with probabilities of 1 down to 1e-12: states that stay, or groups that are seldom left."""
    name = pick(rng, ("average", "average", "total", "discounted"))
    criterion: Any = {
        "average": conrl.Average(),
        "total": conrl.Total(),
        "discounted": conrl.Discounted(float(pick(rng, (0.9, 0.9999, 0.99999, 1 - 1e-7, 1 - 1e-9)))),
    }[name]
    shape = Shape(
        (2, 3, 3, 4, 5, 6), (1, 2, 2, 3), costs=(1, 1, 1, 2), by_step=(False,), rows=("split", "coarse", "dense")
    )
    world = draw_world(rng, shape, criterion)
    return _planned_endless(rng, _slowed(rng, _ending(rng, world) if name == "total" else world), SlowTruth)


def _slowed(rng: Generator, world: World) -> World:
    """What leads out of a state's group becomes seldom: to stay in the group is what is left of 1."""
    alone = rng.random() < 0.6
    group = np.arange(world.states) if alone else rng.integers(2, size=world.states)
    one = 10.0 ** -float(rng.integers(3, 13))
    rows = []
    for s, actions in enumerate(world.tables[0]):
        new: list[tuple[Outcome, ...]] = []
        for outcomes in actions:
            ends = all(o.to == s or not any(o.pay) for o in outcomes) and isinstance(world.horizon, conrl.Total)
            if not outcomes or ends or rng.random() < 0.2:
                new.append(outcomes)
                continue
            p = one if rng.random() < 0.6 else 10.0 ** -rng.uniform(0, 12)
            out = [dataclasses.replace(o, probability=o.probability * p) for o in outcomes if group[o.to] != group[s]]
            kept = [o for o in outcomes if group[o.to] == group[s]]
            if not kept:
                kept = [
                    dataclasses.replace(
                        outcomes[0], probability=1.0, to=int(pick(rng, np.flatnonzero(group == group[s])))
                    )
                ]
            left = (1.0 - sum(o.probability for o in out)) / sum(o.probability for o in kept)
            new.append((*(dataclasses.replace(o, probability=o.probability * left) for o in kept), *out))
        rows.append(tuple(new))
    return dataclasses.replace(world, tables=(tuple(rows),))


def _ending(rng: Generator, world: World) -> World:
    """The last states pay nothing and, of most models, every pair of the others may lead there."""
    S, table = world.states, world.tables[0]
    free = set(range(S - int(rng.integers(1, max(2, S // 2 + 1))), S))
    sure = rng.random() < 0.8
    rows = []
    for s, actions in enumerate(table):
        new: list[tuple[Outcome, ...]] = []
        for outcomes in actions:
            if s in free:
                to = int(pick(rng, sorted(free))) if rng.random() < 0.95 else int(rng.integers(S))
                new.append((Outcome(1.0, to, (0.0,) * (1 + world.num_costs)),) if outcomes else ())
            elif outcomes and sure:
                p = float(pick(rng, (0.5, 0.25, 2.0**-10)))
                end = int(pick(rng, sorted(free)))
                kept = [dataclasses.replace(o, probability=o.probability * (1.0 - p)) for o in outcomes if o.to != end]
                there = sum(o.probability for o in outcomes if o.to == end)
                new.append((*kept, Outcome(there * (1.0 - p) + p, end, outcomes[0].pay)))
            else:
                new.append(outcomes)
        rows.append(tuple(new))
    return dataclasses.replace(world, tables=(tuple(rows),))


def _endless_bounds(rng: Generator, truth: EndlessTruth) -> tuple[tuple[float, ...], tuple[float, ...]]:
    d, endless = truth.world.num_costs, truth.endless
    limits, floors, point = [], [], []
    w = [Fraction(int(x)) for x in rng.integers(-9, 10, size=1 + d)]
    x = endless.best(w)
    for i in range(1, 1 + d):
        one = [Fraction(int(j == i)) for j in range(1 + d)]
        high = endless.best(one).optimum
        low = endless.best([-y for y in one]).optimum
        assert high is not None
        assert low is not None
        some = sum((share * pay[i] for share, (*_, pay) in zip(x.x, endless.pairs, strict=False)), ZERO)
        limits.append(bound_for(rng, -low, high, some, math.inf))
        floor = -math.inf
        if rng.random() < 0.25:
            floor = (
                limits[-1]
                if rng.random() < 0.3 and limits[-1] < math.inf
                else -bound_for(rng, -high, low, -some, math.inf)
            )
        floors.append(floor)
        point.append(some)
    if rng.random() < 0.5:
        return tuple(jointly(rng, limits, point, 1)), tuple(jointly(rng, floors, point, -1))
    return tuple(limits), tuple(floors)


SMALL = Shape(states=(1, 2, 2, 3), horizons=(1, 2, 3, 4), costs=(1, 1, 2), counted=True)
ROUGH = dataclasses.replace(SMALL, states=(1, 2), actions=(1, 2), horizons=(1, 2, 3), costs=(1,), rough=True)


def _several(rng: Generator) -> tuple[str, ...]:
    return tuple(pick(rng, (NEVER, CHANCE, CHANCE, CVAR)) for _ in range(int(rng.integers(2, 5))))


def _one(rng: Generator) -> tuple[str, ...]:
    return (pick(rng, (NEVER, CHANCE, CHANCE, CVAR)),)


KINDS: dict[str, Kind] = {
    "steps": _steps,
    "never": _episodes(lambda rng: (NEVER,) * int(rng.integers(1, 3)), SMALL, True),
    "chance": _episodes(lambda rng: (CHANCE,) * int(rng.integers(1, 4)), SMALL, False),
    "cvar": _episodes(lambda rng: (CVAR,) * int(pick(rng, (1, 1, 2))), SMALL, False),
    "together": _episodes(_several, SMALL, True),
    "rough": _episodes(_one, ROUGH, False),
    "discounted": _endless("discounted"),
    "average": _endless("average"),
    "total": _endless("total"),
    "slow": _slow,
    "fleet": _fleet,
    "deterministic": _deterministic,
    "distribution": _distribution,
    "thresholds": lambda rng: (_thresholds if rng.random() < 0.7 else _budgets)(rng),
}


def kind_of(number: int) -> str:
    return list(KINDS)[number % len(KINDS)]


def examine(number: int) -> Verdict:
    """How the plan of a numbered case ended, and all complaints about it."""
    return KINDS[kind_of(number)](np.random.default_rng([17, number]))

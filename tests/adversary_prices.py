"""Models with limits at corners of the best reward, for what prices promise: `python tests/adversary.py --prices`.

Half of all cases have their limits where deterministic policies are, or a few of them mixed, and at round numbers; the
others in between, or a hair beside a deterministic policy, where all that is earned is large now and then. Some plans
are coarse. The judge is exact (`exact`): the best reward v(h) at h and at small steps beside it, in rationals.
A corner within the allowance of the limit counts as at the limit, so that a slope is looked at beyond it: over one half
to one allowance from h, and over two to three. The two agree unless a corner is between them, and bound it then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from exact import Model, Row, best, rows_of, total

import conrl

Generator = np.random.Generator
Problem = conrl.Linear | conrl.Knapsack

KINDS = ("vertex", "round", "mixture", "between", "least", "hair")  # where limits are, by turns
CLOSE = Fraction(1, 10**6)  # of a slope, in proportion
FINEST = 1e-10  # beside a limit of 0, whose allowance is next to nothing
CONSTANTS = (0.0, 100.0, 10000.0)  # that any action earns, which is no matter of prices
TOLERANCES = (1e-9, 1e-9, 1e-6, 1e-3, 0.1)  # of plans, which are no matter of prices
BESIDE = (-8.0, -4.0)  # powers of 10: how far beside a policy a limit is, in proportion
HAIR = Fraction(1, 1000)  # of an allowance, by which the other rows are loosened: doubles may miss a corner


def case(number: int) -> tuple[conrl.ConstrainedMDP, Problem]:
    """The question of a number; kinds take turns."""
    rng, kind = np.random.default_rng([35, number]), kind_of(number)
    S, A, d = int(rng.integers(1, 5)), int(rng.integers(2, 4)), int(rng.choice([1, 1, 2, 2, 3]))
    coarse = rng.random() < 0.5
    P = np.array([[_row(rng, S, coarse) for _ in range(A)] for _ in range(S)])
    pay = rng.integers(0, 6, (S, A, 1 + d)) / 1.0 if coarse else rng.random((S, A, 1 + d))
    pay[:, 0] *= rng.random() < 0.5  # often an action that does nothing
    if kind == "hair":
        pay[:, :, 0] += rng.choice(CONSTANTS)
    mdp = conrl.ConstrainedMDP(P, pay[:, :, 0], pay[:, :, 1:], int(rng.integers(1, 6)), initial=0)
    model = Model(mdp)
    limits = _limits(rng, kind, model, d)
    if rng.random() < 0.1:
        return mdp, conrl.Knapsack(np.maximum(limits, 0.0) * 100, 100)
    floors = np.full(d, -np.inf)
    for i in range(d):
        how = rng.choice(["none", "none", "equal", "below", "only"])
        if not np.isfinite(limits[i]):
            continue
        if how == "equal":
            floors[i] = limits[i]
        elif how in ("below", "only"):
            low = -float(model.greatest(_axis(d, 1 + i, -1)))
            floors[i] = limits[i] if how == "only" else low + rng.random() * (limits[i] - low)
            limits[i] = np.inf if how == "only" else limits[i]
    return mdp, conrl.Linear(limits, floors)


def _row(rng: Generator, S: int, coarse: bool) -> Any:
    if not coarse:
        return rng.dirichlet(np.ones(S))
    row = np.zeros(S)
    for _ in range(4):
        row[rng.integers(S)] += 0.25
    return row


def _limits(rng: Generator, kind: str, model: Model, d: int) -> Any:
    """[d]: limits of a kind; now and then none."""
    points = [_vertex(rng, model) for _ in range(1 if kind in ("vertex", "round", "hair") else 3)]
    weights = [int(w) for w in rng.integers(1, 8, size=len(points))]
    limits = np.full(d, np.inf)
    for i in range(d):
        low, high = -model.greatest(_axis(d, 1 + i, -1)), model.greatest(_axis(d, 1 + i, 1))
        mean = total(w * p[1 + i] for w, p in zip(weights, points, strict=True)) / sum(weights)
        if kind == "between":
            limits[i] = float(low) + rng.random() * float(high - low)
        elif kind == "hair":
            limits[i] = float(mean) * (1.0 + rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(*BESIDE))
        elif kind == "least":
            limits[i] = float(low) if rng.random() < 0.5 else float(high)
        else:
            limits[i] = round(float(mean), 1) if kind == "round" else float(mean)
        if d > 1 and rng.random() < 0.15:
            limits[i] = np.inf
    return limits


def _vertex(rng: Generator, model: Model) -> list[Fraction]:
    """The exact value vector of a deterministic policy: one that is best in some direction, or any."""
    if rng.random() < 0.7:
        w = [int(x) for x in rng.integers(-6, 7, size=model.size)]
        point = model.support(model.scaled([Fraction(x) for x in w])[0])[1]
        return [Fraction(z, 1 << e) for z, e in zip(point, model.shift, strict=True)]
    choice = rng.integers(1 << 30, size=(model.horizon, len(model.pairs)))
    counts, _ = model.visits(lambda h, s: {int(choice[h, s]) % len(model.pairs[s]): 1})
    return [Fraction(z, 1 << e) for z, e in zip(model.totals(counts), model.shift, strict=True)]


def _axis(d: int, i: int, sign: int) -> list[Fraction]:
    return [Fraction(sign * int(j == i)) for j in range(1 + d)]


# -- the judge ---------------------------------------------------------------------------------------------


def judge_margins(plan: conrl.Plan, mdp: conrl.ConstrainedMDP, problem: Problem) -> list[str]:
    """What is wrong with the prices of a plan, and with its sensitivity."""
    model = Model(mdp, origin=isinstance(problem, conrl.Knapsack))
    rows, complaints = rows_of(problem, mdp), []
    found = plan.sensitivity().rows
    d = mdp.num_costs
    scale = max(Fraction(1), model.greatest(_axis(d, 0, 1)) + model.greatest(_axis(d, 0, -1)))
    for r, (row, margin) in enumerate(zip(plan.rows, found, strict=True)):
        said = (row.name, row.bound) == (margin.name, margin.bound)
        if not said or abs(row.price - margin.gain) > float(CLOSE) * (1.0 + margin.gain):
            complaints.append(f"{row.name}: the price is {row.price!r}, the sensitivity says {margin}")
        room = [Fraction(max(other.allowance, FINEST)) for other in plan.rows]
        complaints += [f"{row.name}: {x}" for x in _judge_row(model, rows, r, room, row.price, margin, scale)]
    return complaints


def _judge_row(
    model: Model, rows: Sequence[Row], r: int, room: Sequence[Fraction], price: float, margin: Any, scale: Fraction
) -> list[str]:
    known: dict[Fraction, Fraction | None] = {}

    def v(x: Fraction) -> Fraction | None:
        """The exact best reward with row r loosened by x."""
        if x not in known:
            moved = [(c, s, h + (x if i == r else HAIR * room[i])) for i, (c, s, h) in enumerate(rows)]
            known[x] = best(model, moved).optimum
        return known[x]

    _, sign, h = rows[r]
    a = room[r]
    complaints = []
    off = CLOSE * (1 + scale / 100)

    def near(x: float, low: Fraction, high: Fraction) -> bool:
        return bool(low - CLOSE * abs(low) - off <= Fraction(x) <= high + CLOSE * abs(high) + off)

    high, low = _chord(v, a / 2, a), _chord(v, 2 * a, 3 * a)
    if high is None or low is None:
        return ["cannot be kept"]
    if not near(price, low, high):
        complaints.append(f"the price is {price!r}, loosening gains {float(low)} to {float(high)}")
    if v(-a / 2) is None or v(-3 * a) is None:
        if not np.isinf(margin.loss) and v(-a / 2) is None:
            complaints.append(f"the loss is {margin.loss!r}, and it cannot be tightened")
    elif not np.isfinite(margin.loss):
        complaints.append("it can be tightened")
    else:
        low_, high_ = _chord(v, -a, -a / 2), _chord(v, -3 * a, -2 * a)
        assert low_ is not None
        assert high_ is not None
        if not near(margin.loss, low_, high_):
            complaints.append(f"the loss is {margin.loss!r}, tightening costs {float(low_)} to {float(high_)}")
    here, one = v(a / 2), v(Fraction(1))
    assert here is not None
    assert one is not None
    slack = off + a * Fraction(price)
    if abs(Fraction(margin.one_more) - (one - here)) > slack:
        complaints.append(f"one more is worth {margin.one_more!r}, not {float(one - here)}")
    step = scale / 10**5
    for end, slope, way in ((margin.gain_to, price, 1), (margin.loss_to, margin.loss, -1)):
        if np.isinf(end) or np.isinf(slope):
            continue
        t = sign * Fraction(end) - h
        at, beyond = v(t), v(t + way * step)
        at = v(t + 2 * a) if at is None else at  # the tightest bound, rounded
        if way * t < -a:
            complaints.append(f"the slope holds to {end!r}, which is behind")
        elif abs(t) > 4 * a and (at is None or abs(at - here - t * Fraction(slope)) > slack + off * abs(t)):
            complaints.append(f"the slope {slope!r} does not hold to {end!r}")
        elif beyond is not None and at is not None and abs(beyond - at - way * step * Fraction(slope)) < step / 10**9:
            complaints.append(f"the slope {slope!r} holds beyond {end!r}")
    if np.isfinite(margin.tightest):
        t = sign * Fraction(margin.tightest) - h
        if v(t + 2 * a) is None or v(t - step) is not None:
            complaints.append(f"it can be met to {margin.tightest!r}, or not: {v(t + 2 * a)} and {v(t - step)}")
    return complaints


def _chord(v: Callable[[Fraction], Fraction | None], x: Fraction, y: Fraction) -> Fraction | None:
    """The slope between two places; None where one of them cannot be kept."""
    low, high = v(x), v(y)
    return None if low is None or high is None else (high - low) / (y - x)


def kind_of(number: int) -> str:
    return KINDS[number % len(KINDS)]


def examine(number: int) -> tuple[str, list[str]]:
    """How a case ended, and what is wrong with it."""
    mdp, problem = case(number)
    try:
        plan = conrl.plan(mdp, problem, tol=float(np.random.default_rng([36, number]).choice(TOLERANCES)))
    except conrl.InfeasibleError:
        return "infeasible", []
    return plan.status, judge_margins(plan, mdp, problem)

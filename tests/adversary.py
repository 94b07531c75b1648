"""Adversarial models, by number, for the promises of `contract`: `python tests/adversary.py --models 10000`.

A case is a `Spec`: a few words, numbers and a seed, drawn from a number (`case`) or by hypothesis (`specs`); the same
spec always builds the same question. `KINDS` says what each kind of case insists on; all else is drawn. Extremes are
placed by exact arithmetic: a limit "at the least" is the double nearest to the exact least cost.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TextIO

import adversary_prices
import adversary_wider
import numpy as np
from contract import Problem, Truth, attempt, judge, judge_feasibility, judge_frontier
from exact import Model, total
from hypothesis import strategies as st
from numpy.typing import NDArray

import conrl
from conrl.model.transform import with_own_steps

Float = NDArray[np.float64]

STATES = tuple(range(1, 7))
ACTIONS = (1, 2, 2, 3, 4)
HORIZONS = (1, 3, 10, 50)
COSTS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 12)
TRANSITIONS = ("dense", "coarse", "sparse", "deterministic", "tiny", "rare", "off")
PAYS = ("uniform", "signed", "signed", "integers", "constant", "zero", "one pair", "catastrophe")
RELATED = ("none", "none", "none", "duplicate", "near", "sum", "negated")
WIDTHS = (0, 0, 3, 6, 12)  # each reward and cost is scaled by a power of ten within +- this
LIMITS = (
    *("between",) * 6,
    *("least", "above least", "below least", "near least", "free", "near free", "vertex", "vertex"),
    *("below", "zero", "huge", "tiny", "none", "none"),
)
FLOORS = (*("none",) * 10, "between", "greatest", "near greatest", "vertex", "equal", "equal", "zero", "above")
JOINT = ("no", "no", "no", "limits", "above", "equal")
BONUSES = ("none",) * 6 + ("even", "wide")
PROBABILITIES = (1e-300, 1e-100, 1e-30, 1e-17, 1e-12, 9e-10, 1e-6, 1e-3, 0.1, 0.5, 1.0 - 1e-12, 1.0 - 1e-6)

KINDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "any": {},
    "plain": {"width": (6,), "transitions": ("dense",), "pay": ("uniform", "signed"), "limit": ("between",)},
    "scales": {"width": (12,)},
    "hair": {"limit": ("least", "above least", "below least", "near least", "near free", "vertex", "none")},
    "joint": {"joint": ("limits", "above", "equal"), "costs": (2, 3, 4, 5, 6, 8)},
    "parallel": {"related": ("duplicate", "near", "near", "sum", "negated"), "costs": (2, 3, 4, 5, 6)},
    "floors": {"floor": (*FLOORS[10:], "none", "none"), "costs": (1, 2, 3, 4, 5, 6)},
    "catastrophe": {"transitions": ("rare", "tiny"), "pay": ("catastrophe", "catastrophe", "uniform", "zero")},
    "deep": {"horizon": (50,), "transitions": ("dense", "coarse", "sparse", "rare", "off")},
    "many": {"costs": (5, 6, 8, 12)},
    "knapsack": {"knapsack": (True,)},
    "bonus": {"bonus": ("even", "wide")},
}


@dataclass(frozen=True)
class Spec:
    """What was drawn; the same spec always builds the same question."""

    kind: str
    states: int
    actions: int
    horizon: int
    transitions: str
    width: int
    pay: tuple[str, ...]  # [1+d]
    related: tuple[str, ...]  # [d]: to an earlier cost
    limit: tuple[str, ...]  # [d]
    floor: tuple[str, ...]  # [d]
    joint: str
    bonus: str
    knapsack: bool
    missing: bool
    spread: bool
    tol: float
    seed: int

    def build(self) -> tuple[conrl.ConstrainedMDP, Problem]:
        rng = np.random.default_rng(self.seed)
        S, A, d = self.states, self.actions, len(self.limit)
        P = np.array([[_row(rng, self.transitions, S) for _ in range(A)] for _ in range(S)])
        scale = 10.0 ** rng.uniform(-self.width, self.width, 1 + d)
        pay = np.stack([_pay(rng, kind, S, A) * x for kind, x in zip(self.pay, scale, strict=True)], axis=2)
        source = [0] + [_relate(rng, how, pay, 1 + i) for i, how in enumerate(self.related) if i]
        available = np.ones((S, A), dtype=bool)
        if self.missing:
            available = rng.random((S, A)) < 0.5
            available[np.arange(S), rng.integers(A, size=S)] = True
        initial: Any = 0
        if self.spread:
            initial = rng.dirichlet(np.ones(S)) * (rng.random(S) < 0.7)
            initial = initial / initial.sum() if initial.sum() > 0.0 else np.full(S, 1.0 / S)
            initial *= 1.0 + float(rng.choice((0.0, 9e-10, -9e-10)))
        mdp = conrl.ConstrainedMDP(P, pay[:, :, 0], pay[:, :, 1:], self.horizon, initial=initial, available=available)
        if self.bonus != "none":
            shape = (S, A) if self.bonus == "even" else (S, A, 1 + d)
            size = float(np.abs(pay).max()) * 0.1 if self.bonus == "even" else np.abs(pay).max(axis=(0, 1)) * 0.2
            mdp = mdp.with_bonus(rng.random(shape) * (rng.random(shape) < 0.7) * size)
        limits, floors = self._bounds(rng, mdp)
        for i, how in enumerate(self.related):  # limits of nearly the same cost that nearly agree
            if how in ("duplicate", "near") and i and self.joint == "no" and rng.random() < 0.5:
                limits[i] = limits[source[i]] * (1.0 + float(rng.choice((0.0, 1e-16, 1e-12, -1e-12, 1e-8))))
        if self.knapsack:
            episodes = int(rng.choice([1, 3, 100, 1000]))
            return mdp, conrl.Knapsack(np.maximum(limits, 0.0) * episodes, episodes, float(rng.choice([0.0, 0.1])))
        return mdp, conrl.Linear(limits, floors)

    def _bounds(self, rng: np.random.Generator, mdp: conrl.ConstrainedMDP) -> tuple[Float, Float]:
        model = Model(mdp)
        d = mdp.num_costs
        joint = None
        if self.joint != "no":
            weights = [int(w) for w in rng.integers(1, 8, size=int(rng.integers(1, d + 2)))]
            points = [_vertex(rng, model) for _ in weights]
            joint = [total(w * p[i] for w, p in zip(weights, points, strict=True)) / sum(weights) for i in range(1 + d)]
        free = _value(model, _axis(d, 0, 1))
        limits, floors = np.full(d, np.inf), np.full(d, -np.inf)
        for i in range(d):
            low, high = -model.greatest(_axis(d, 1 + i, -1)), model.greatest(_axis(d, 1 + i, 1))
            if joint is not None:
                at = _round(joint[1 + i], "up" if self.joint == "above" else "nearest")
                if rng.random() < 0.8:
                    limits[i] = at
                if self.joint == "equal" and rng.random() < 0.5:
                    floors[i] = _round(joint[1 + i], "nearest")
                continue
            limits[i] = _limit(rng, self.limit[i], low, high, free[1 + i], model, i)
            floors[i] = _floor(rng, self.floor[i], low, high, free[1 + i], model, i, float(limits[i]))
        return limits, floors


# -- the parts of a model ----------------------------------------------------------------------------------


def _row(rng: np.random.Generator, kind: str, S: int) -> Float:
    row = np.zeros(S)
    if kind == "deterministic" or S == 1:
        row[rng.integers(S)] = 1.0
    elif kind == "dense":
        row = rng.dirichlet(np.ones(S) * 0.5)
    elif kind == "coarse":
        row = np.bincount(rng.integers(S, size=16), minlength=S) / 16.0
    elif kind == "sparse":
        chosen = rng.choice(S, size=2, replace=False)
        row[chosen] = rng.dirichlet(np.ones(2))
    elif kind == "tiny":
        to, p = rng.integers(S), float(rng.choice(PROBABILITIES))
        row[to] += p
        row[rng.integers(S)] += 1.0 - p
    elif kind == "rare":  # the last state is where catastrophes happen
        row[: S - 1] = rng.dirichlet(np.ones(S - 1))
        p = float(rng.choice((0.0, 0.0, 9e-10, 1e-9, 1e-12, 1e-6)))
        row *= 1.0 - p
        row[-1] = p
    else:  # off: the sum is 1 only within what a model may be off by
        row = rng.dirichlet(np.ones(S)) * (1.0 + rng.uniform(-9e-10, 9e-10))
    return row


def _pay(rng: np.random.Generator, kind: str, S: int, A: int) -> Float:
    if kind == "uniform":
        return rng.random((S, A))
    if kind == "signed":
        return rng.random((S, A)) - 0.4
    if kind == "integers":
        return rng.integers(-1, 3, size=(S, A)).astype(np.float64)
    if kind == "constant":
        return np.full((S, A), 0.1)
    pay = np.zeros((S, A))
    if kind == "one pair":
        pay[rng.integers(S), rng.integers(A)] = rng.normal()
    elif kind == "catastrophe":
        pay = rng.random((S, A)) * float(rng.choice((0.0, 0.1, 1.0)))
        pay[-1] = 1e9
    return pay


def _relate(rng: np.random.Generator, how: str, pay: Float, i: int) -> int:
    """Make coordinate i a copy, nearly a copy, or a sum of earlier costs; the cost that was copied."""
    source = int(rng.integers(1, i))
    if how == "duplicate":
        pay[:, :, i] = pay[:, :, source]
    elif how == "near":
        pay[:, :, i] = pay[:, :, source] * (1.0 + 10.0 ** -rng.uniform(6.0, 15.5))
    elif how == "sum":
        pay[:, :, i] = pay[:, :, 1:i].sum(axis=2)
    elif how == "negated":
        pay[:, :, i] = -pay[:, :, source]
    return source - 1


# -- where limits and floors are placed --------------------------------------------------------------------


def _axis(d: int, i: int, sign: int) -> list[int]:
    return [sign * int(j == i) for j in range(1 + d)]


def _value(model: Model, w: list[int]) -> list[Fraction]:
    point = model.support(model.scaled(w)[0])[1]
    return [Fraction(z, 1 << e) for z, e in zip(point, model.shift, strict=True)]


def _vertex(rng: np.random.Generator, model: Model) -> list[Fraction]:
    """The exact value vector of a random deterministic policy."""
    choice = rng.integers(1 << 30, size=(model.horizon, len(model.pairs)))
    counts, _ = model.visits(lambda h, s: {int(choice[h, s]) % len(model.pairs[s]): 1})
    return [Fraction(z, 1 << e) for z, e in zip(model.totals(counts), model.shift, strict=True)]


def _round(x: Fraction, how: str) -> float:
    near = float(x)
    if how == "up" and Fraction(near) < x:
        return float(np.nextafter(near, np.inf))
    if how == "down" and Fraction(near) > x:
        return float(np.nextafter(near, -np.inf))
    return near


def _hair(rng: np.random.Generator, x: Fraction, size: Fraction) -> float:
    """x and a relative 1e-15 to 1e-6 to either side."""
    near = float(x)
    by = 10.0 ** -rng.uniform(6.0, 15.5) * float(rng.choice((-1.0, 1.0)))
    return float(near + by * (abs(near) if near and rng.random() < 0.7 else float(size)))


def _limit(
    rng: np.random.Generator, kind: str, low: Fraction, high: Fraction, free: Fraction, model: Model, i: int
) -> float:
    width = float(high - low)
    if kind == "between":
        return float(low) + rng.random() * width
    if kind == "least":
        return _round(low, "nearest")
    if kind in ("above least", "below least"):
        return _round(low, "up" if kind == "above least" else "down")
    if kind == "near least":
        return _hair(rng, low, high - low)
    if kind == "free":
        return _round(free, "nearest")
    if kind == "near free":
        return _hair(rng, free, high - low)
    if kind == "vertex":
        return _round(_vertex(rng, model)[1 + i], str(rng.choice(("nearest", "up"))))
    if kind == "below":
        return float(low) - float(rng.choice((1e-8, 1e-3, 0.3))) * max(abs(float(low)), width)
    return {
        "zero": 0.0,
        "huge": float(rng.choice((1e9, 1e300))),
        "tiny": float(rng.choice((1e-300, -1e-300))),
        "none": np.inf,
    }[kind]


def _floor(
    rng: np.random.Generator,
    kind: str,
    low: Fraction,
    high: Fraction,
    free: Fraction,
    model: Model,
    i: int,
    limit: float,
) -> float:
    if kind == "between":
        return float(low) + rng.random() * float(high - low)
    if kind == "greatest":
        return _round(high, str(rng.choice(("nearest", "down"))))
    if kind == "near greatest":
        return _hair(rng, high, high - low)
    if kind == "vertex":
        return _round(_vertex(rng, model)[1 + i], str(rng.choice(("nearest", "down"))))
    if kind == "above":
        return float(high) + 0.1 * max(abs(float(high)), float(high - low))
    return {"none": -np.inf, "zero": 0.0, "equal": limit if np.isfinite(limit) else -np.inf}[kind]


# -- by number and by hypothesis ---------------------------------------------------------------------------

OPTIONS: dict[str, tuple[Any, ...]] = {
    "states": STATES,
    "actions": ACTIONS,
    "horizon": HORIZONS,
    "transitions": TRANSITIONS,
    "width": WIDTHS,
    "joint": JOINT,
    "bonus": BONUSES,
    "knapsack": (False,) * 9 + (True,),
    "missing": (False, False, True),
    "spread": (False, False, True),
    "tol": (1e-9,) * 6 + (1e-12, 1e-6, 1e-2),
}
EACH: dict[str, tuple[Any, ...]] = {"pay": PAYS, "related": RELATED, "limit": LIMITS, "floor": FLOORS}


def _draw(choose: Any, kind: str) -> Spec:
    """A spec of a kind; `choose` picks one of some options."""
    insists = KINDS[kind]
    one: dict[str, Any] = {name: choose(insists.get(name, options)) for name, options in OPTIONS.items()}
    d = choose(insists.get("costs", COSTS))
    if one["horizon"] == 50 and d > 6:  # numbers of a hundred thousand digits otherwise
        one["transitions"] = "coarse"
    if one["transitions"] == "tiny":
        one["horizon"] = min(one["horizon"], 10)
    many: dict[str, Any] = {
        name: tuple(choose(insists.get(name, options)) for _ in range(d + (name == "pay")))
        for name, options in EACH.items()
    }
    return Spec(kind=kind, **one, **many, seed=choose(range(2**32)))


def case(number: int) -> Spec:
    """The spec of a number: kinds take turns."""
    rng = np.random.default_rng([13, number])
    kinds = list(KINDS)
    return _draw(lambda options: options[int(rng.integers(len(options)))], kinds[number % len(kinds)])


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """The same knobs, by hypothesis."""

    def choose(options: Any) -> Any:
        return draw(st.integers(0, len(options) - 1)) if isinstance(options, range) else draw(st.sampled_from(options))

    return _draw(choose, draw(st.sampled_from(list(KINDS))))


# -- fixed cases -------------------------------------------------------------------------------------------


def ordinary() -> tuple[conrl.ConstrainedMDP, Problem]:
    """Three states and two costs in units 1e-6 to 1e6: limits were exceeded by 8% and 11%."""
    r = np.random.default_rng(68)
    S, A, d, H = r.integers(1, 6), r.integers(2, 4), r.integers(1, 4), r.choice([1, 3, 10, 50])
    P = r.dirichlet(np.ones(S) * 0.4, (S, A))
    r.random()
    scale = 10.0 ** r.uniform(-6, 6, 1 + d)
    mdp = conrl.ConstrainedMDP(P, (r.random((S, A)) - 0.3) * scale[0], (r.random((S, A, d)) - 0.2) * scale[1:], int(H))
    f = conrl.feasibility(mdp, [1e9] * int(d))
    limits = f.least + r.uniform(0.4, 1, d) * (f.greatest - f.least)
    limits[0] = 283380.5484983667
    return mdp, conrl.Linear(limits)


def catastrophe() -> tuple[conrl.ConstrainedMDP, Problem]:
    """A pair that costs 1e9, reached with probability 9e-10: a plan that costs 0.9 kept a limit of 0.5."""
    P = np.zeros((2, 2, 2))
    P[0, 0, 0] = P[1, :, 1] = 1.0
    P[0, 1] = 1.0 - 9e-10, 9e-10
    costs = np.zeros((2, 2, 1))
    costs[1] = 1e9
    return conrl.ConstrainedMDP(P, [[0.0, 1.0], [0.0, 0.0]], costs, 2), conrl.Linear([0.5])


FIXED = {"ordinary": ordinary, "catastrophe": catastrophe}


# -- the slow run ------------------------------------------------------------------------------------------


def examine(spec: Spec, planner: str = "column-generation") -> tuple[str, list[str]]:
    """How the plan of a case ended, and all complaints about it, its feasibility and its frontier."""
    mdp, problem = spec.build()
    truth = Truth(mdp, problem)
    tol = Fraction(spec.tol)
    outcome, complaints = attempt(lambda: conrl.plan(mdp, problem, planner=planner, tol=spec.tol))
    complaints += judge(mdp, problem, outcome, truth, tol)
    ended = outcome.status if isinstance(outcome, conrl.Plan) else type(outcome).__name__
    apart, warned = attempt(lambda: conrl.plan(with_own_steps(mdp), problem, planner=planner, tol=spec.tol))
    complaints += [f"by step: {x}" for x in warned + judge(mdp, problem, apart, truth, tol)]
    if isinstance(problem, conrl.Linear) and planner == "column-generation":
        complaints += _examine_start(spec, truth)
        found, warned = attempt(lambda: conrl.feasibility(mdp, problem))
        complaints += warned + judge_feasibility(truth, found)
        if mdp.num_costs and not any(s < 0 for _, s, _ in truth.rows) and mdp.bonus is None:
            complaints += _examine_frontier(spec, mdp.replace(limits=problem.limits))
    return ended, complaints


def _examine_start(spec: Spec, truth: Truth) -> list[str]:
    """The same plan from the end of one for other limits, as learners do it."""
    rows = truth.problem.rows(truth.mdp) if isinstance(truth.problem, conrl.Linear) else None
    assert rows is not None
    limits, floors = np.full(truth.mdp.num_costs, np.inf), np.full(truth.mdp.num_costs, -np.inf)
    for c, s, h in zip(rows.cost, rows.sign, rows.bound, strict=True):
        (limits if s > 0 else floors)[c] = s * (h + 0.1 * abs(h))
    planner = conrl.ColumnGeneration(tol=spec.tol)
    other, _ = attempt(lambda: planner.plan(truth.mdp, conrl.Linear(limits, floors)))
    if not isinstance(other, conrl.Plan):
        return []
    outcome, complaints = attempt(lambda: planner.plan(truth.mdp, truth.problem, start=other.start))
    complaints += judge(truth.mdp, truth.problem, outcome, truth, Fraction(spec.tol))
    return [f"from a start: {x}" for x in complaints]


def _examine_frontier(spec: Spec, limited: conrl.ConstrainedMDP) -> list[str]:
    """The frontier of the first cost, with the model's limits on the others."""
    rng = np.random.default_rng([spec.seed, 1])
    curve, complaints = attempt(lambda: conrl.frontier(limited, 0))
    limits: list[float] = []
    if isinstance(curve, conrl.Frontier):
        low, high = curve.limits[0], curve.limits[-1]
        limits = [float(low + u * (high - low)) for u in (rng.random(), float(rng.choice((0.0, 1e-12, 1e-3, 1.0))))]
    assert limited.limits is not None
    some = np.array(limited.limits)
    some[0] = 0.0  # `judge_frontier` sets it
    return complaints + judge_frontier(Truth(limited, conrl.Linear(some)), curve, limits)


WIDER, PRICES = "wider", "prices"  # in the place of a planner: the kinds of `adversary_wider`, `adversary_prices`
OTHERS: dict[str, Any] = {WIDER: adversary_wider, PRICES: adversary_prices}


def _numbered(job: tuple[int, str]) -> tuple[int, str, str, list[str], float]:
    number, planner = job
    begin = time.perf_counter()
    other = OTHERS.get(planner)
    kind = case(number).kind if other is None else other.kind_of(number)
    try:
        ended, complaints = examine(case(number), planner) if other is None else other.examine(number)
    except Exception as error:  # the harness itself: shown, never passed over
        ended, complaints = "harness", [f"the harness failed: {type(error).__name__}: {error}"]
    return number, kind, ended, complaints, time.perf_counter() - begin


def run(numbers: range, workers: int, planner: str) -> Iterator[tuple[int, str, str, list[str], float]]:
    jobs = [(n, planner) for n in numbers]
    if workers == 1:
        yield from map(_numbered, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(_numbered, jobs, chunksize=4)


def say(text: str, stream: TextIO = sys.stdout) -> None:
    stream.write(text + "\n")
    stream.flush()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=10000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--planner", default="column-generation")
    parser.add_argument("--wider", action="store_true", help="the models of adversary_wider")
    parser.add_argument("--prices", action="store_true", help="the models of adversary_prices")
    parser.add_argument("--kind", choices=adversary_wider.KINDS, help="so many models of this kind of adversary_wider")
    parser.add_argument("--show", action="store_true", help="print each spec as well")
    options = parser.parse_args(arguments)
    numbers = range(options.first, options.first + options.models)
    if options.kind:
        options.wider, count = True, len(adversary_wider.KINDS)
        place = list(adversary_wider.KINDS).index(options.kind)
        numbers = range(place + count * numbers.start, place + count * numbers.stop, count)
    planner = WIDER if options.wider else PRICES if options.prices else options.planner
    kinds = OTHERS[planner].KINDS if planner in OTHERS else KINDS
    begin, done, broken = time.perf_counter(), 0, 0
    table: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    slowest = (0.0, -1)
    for number, kind, ended, complaints, seconds in run(numbers, options.workers, planner):
        done += 1
        table[kind][ended] += 1
        slowest = max(slowest, (seconds, number))
        if complaints:
            broken += 1
            table[kind]["broken"] += 1
        for complaint in complaints:
            say(f"case {number} ({kind}): {complaint}")
        if options.show and planner not in OTHERS:
            say(f"case {number}: {dataclasses.asdict(case(number))}")
        if done % 100 == 0:
            rate = done / (time.perf_counter() - begin)
            say(f"... {done} of {options.models}, {broken} broken, {rate:.1f} models/s", sys.stderr)
    for kind, counts in table.items():
        if counts:
            say(f"{kind:12s} " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    say(f"{done} models, {broken} with complaints; slowest: case {slowest[1]}, {slowest[0]:.1f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

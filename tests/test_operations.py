"""Pricing, bidding and the cluster: their documented dynamics rebuilt in plain Python, and their documented optima.

A plain table is {(state, action): {(next state, pay): probability}} by names, computed with `math` from the formulas
of the module docstrings and from nothing of `conrl`.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import conrl
from conrl import envs
from conrl.envs.chains import binomial
from conrl.errors import ModelError, SpecError
from conrl.model import ConstrainedMDP

Pay = tuple[float, ...]
Table = dict[tuple[str, str], dict[tuple[str, Pay], float]]
INF = float("inf")
EXACT = ("column-generation", "linear-program")
FACTORIES: dict[str, Callable[..., ConstrainedMDP]] = {
    "pricing": envs.pricing,
    "bidding": envs.bidding,
    "cluster": envs.cluster,
}
many = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
some = settings(many, max_examples=30)


# -- the documented mathematics, slowly ---------------------------------------------------------------------------


def neighbours(n: int, persistence: float) -> list[dict[int, float]]:
    """The next level of each: stay, or one of the neighbours that there are."""
    rows = []
    for i in range(n):
        beside = [j for j in (i - 1, i + 1) if 0 <= j < n]
        rows.append({i: persistence, **{j: (1 - persistence) / len(beside) for j in beside}} if beside else {i: 1.0})
    return rows


def chances(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def uniform(given: Sequence[float] | None, n: int) -> list[float]:
    return [1 / n] * n if given is None else [float(x) for x in given]


def add(table: Table, pair: tuple[str, str], to: str, pay: Pay, p: float) -> None:
    row = table.setdefault(pair, {})
    key = (to, tuple(round(x, 12) for x in pay))
    row[key] = row.get(key, 0.0) + p


def plain_pricing(
    *,
    prices: Sequence[float],
    regimes: Mapping[str, float],
    persistence: float,
    rush: float,
    spread: float,
    initial: Sequence[float] | None,
    horizon: int,
) -> tuple[Table, dict[str, float]]:
    table: Table = {}
    names, first = list(regimes), uniform(initial, len(regimes))
    moves = neighbours(len(names), persistence)
    for h, g, p in product(range(horizon), range(len(names)), prices):
        mean = regimes[names[g]] + rush * math.sin(math.pi * (h + 0.5) / horizon)
        q = 1 / (1 + math.exp((p - mean) / spread))
        last = h == horizon - 1
        for j, w in enumerate(first) if last else moves[g].items():
            to = f"hour {0 if last else h + 1} {names[j]}"
            pair = (f"hour {h} {names[g]}", f"price {p:g}")
            add(table, pair, to, (p / max(prices), 1.0), q * w)
            add(table, pair, to, (0.0, 0.0), (1 - q) * w)
    return table, {f"hour 0 {name}": w for name, w in zip(names, first, strict=True)}


def plain_bidding(
    *,
    competition: Mapping[str, float],
    impressions: Mapping[str, float],
    shares: Sequence[float] | None,
    persistence: float,
    ticks: int,
    rule: str,
    initial: Sequence[float] | None,
    horizon: int,
) -> tuple[Table, dict[str, float]]:
    table: Table = {}
    levels, classes = list(competition), list(impressions)
    share, first = uniform(shares, len(classes)), uniform(initial, len(levels))
    moves = neighbours(len(levels), persistence)
    for (i, level), kind, j in product(enumerate(levels), classes, range(ticks + 1)):
        outcomes: Counter[Pay] = Counter()  # what is paid, with its probability
        for k, p in enumerate(chances(ticks - 1, competition[level])):
            rival = 1 + k
            if j < rival:
                outcomes[0.0, 0.0] += p  # type: ignore[assignment]
                continue
            price = {"second-price": rival, "first-price": j}[rule] / ticks
            outcomes[1.0, price] += p * impressions[kind]  # type: ignore[assignment]
            outcomes[0.0, price] += p * (1 - impressions[kind])  # type: ignore[assignment]
        for (pay, p), (to, w), (v, u) in product(outcomes.items(), moves[i].items(), enumerate(share)):
            add(table, (f"{level} {kind}", f"bid {j / ticks:g}"), f"{levels[to]} {classes[v]}", pay, p * w * u)
    start = product(zip(levels, first, strict=True), zip(classes, share, strict=True))
    return table, {f"{level} {kind}": w * u for (level, w), (kind, u) in start}


def plain_cluster(
    *, machines: int, queue: int, arrivals: Sequence[float], completion: float, startup: float, horizon: int
) -> tuple[Table, dict[str, float]]:
    table: Table = {}
    for q, m, k in product(range(queue + 1), range(machines + 1), range(machines + 1)):
        switched_on = k - m if k > m else 0
        energy = (k + startup * switched_on) / (machines + startup * machines)
        for x, p in enumerate(chances(min(q, k), completion)):
            for y, w in enumerate(arrivals):
                jobs = q - x + y
                to = f"{jobs if jobs < queue else queue} jobs, {k} on"
                pay = (x / machines, energy, (q - x) / queue)
                add(table, (f"{q} jobs, {m} on", f"run {k}"), to, pay, p * w)
    return table, {"0 jobs, 0 on": 1.0}


PLAIN: dict[str, Callable[..., tuple[Table, dict[str, float]]]] = {
    "pricing": plain_pricing,
    "bidding": plain_bidding,
    "cluster": plain_cluster,
}


def outcomes(mdp: ConstrainedMDP) -> Iterator[tuple[tuple[str, str], tuple[str, Pay], float]]:
    """Every outcome that the model stores."""
    g = mdp.graph
    pay = np.repeat(mdp.pay, np.diff(g.start), axis=0) if mdp.outcome_pay is None else mdp.outcome_pay
    for k, (s, a) in enumerate(zip(mdp.pair_state.tolist(), mdp.action.tolist(), strict=True)):
        for j in range(g.start[k], g.start[k + 1]):
            to = (mdp.state_name(int(g.successor[j])), tuple(round(float(x), 12) for x in pay[j]))
            yield (mdp.state_name(s), mdp.action_name(a)), to, float(g.probability[j])


def assert_is(mdp: ConstrainedMDP, table: Table, initial: Mapping[str, float]) -> None:
    """The model is the table: the same outcomes, each once, with the same probabilities, and the same start."""
    assert mdp.num_pairs == mdp.num_states * mdp.num_actions == len(table)
    seen: Table = {}
    for pair, to, p in outcomes(mdp):
        row = seen.setdefault(pair, {})
        assert to not in row
        row[to] = p
    for pair, row in table.items():
        assert sum(seen[pair].values()) == pytest.approx(1.0, abs=1e-12)
        for to in row.keys() | seen[pair].keys():
            assert seen[pair].get(to, 0.0) == pytest.approx(row.get(to, 0.0), abs=1e-12), (pair, to)
    for name, p in zip(mdp.state_names, mdp.initial, strict=True):
        assert p == pytest.approx(initial.get(name, 0.0), abs=1e-15)


def defaults(name: str) -> dict[str, Any]:
    return {key: p.default for key, p in inspect.signature(FACTORIES[name]).parameters.items()}


def check(name: str, **changed: Any) -> ConstrainedMDP:
    """The model made with these parameters, compared with its mathematics."""
    parameters = defaults(name) | changed
    mdp = FACTORIES[name](**parameters)
    assert mdp.horizon == parameters["horizon"]
    limits = parameters.pop("limits")
    assert (mdp.limits is None) if limits is None else (mdp.limits is not None and mdp.limits.tolist() == list(limits))
    assert_is(mdp, *PLAIN[name](**parameters))
    return mdp


@pytest.mark.parametrize("name", FACTORIES)
def test_dynamics_are_those_documented(name: str) -> None:
    check(name)


# One other value of every parameter. That `check` passes with it shows that it has the documented effect.
OTHERS: dict[str, dict[str, Any]] = {
    "pricing": {
        "prices": (5.0, 7.5, 30.0),
        "regimes": {"dull": 10.0, "brisk": 55.5},
        "persistence": 0.35,
        "rush": -7.0,
        "spread": 3.0,
        "initial": (0.5, 0.2, 0.3),
        "horizon": 3,
        "limits": (2.5,),
    },
    "bidding": {
        "competition": {"calm": 0.0, "wild": 1.0},
        "impressions": {"a": 0.0, "b": 1.0, "c": 0.25, "d": 0.5},
        "shares": (0.1, 0.2, 0.3, 0.4),
        "persistence": 0.0,
        "ticks": 3,
        "rule": "first-price",
        "initial": (0.0, 0.25, 0.75),
        "horizon": 7,
        "limits": (1.0,),
    },
    "cluster": {
        "machines": 2,
        "queue": 3,
        "arrivals": (0.1, 0.9),
        "completion": 0.55,
        "startup": 0.25,
        "horizon": 9,
        "limits": (3.0, INF),
    },
}


@pytest.mark.parametrize(("name", "key"), [(name, key) for name in OTHERS for key in OTHERS[name]])
def test_every_parameter_has_its_documented_effect(name: str, key: str) -> None:
    assert OTHERS[name].keys() == defaults(name).keys()
    mdp, usual = check(name, **{key: OTHERS[name][key]}), FACTORIES[name]()

    def print_of(m: ConstrainedMDP) -> tuple[object, ...]:
        return sorted(outcomes(m)), m.initial.tolist(), m.horizon, None if m.limits is None else m.limits.tolist()

    assert print_of(mdp) != print_of(usual)


def test_limits_by_name_and_none() -> None:
    assert envs.pricing(limits=None).limits is None
    limits = envs.cluster(limits={"latency": 2.0}).limits
    assert limits is not None
    assert limits.tolist() == [INF, 2.0]


def test_none_is_uniform() -> None:
    assert envs.pricing(initial=None).initial[:3].tolist() == [1 / 3] * 3
    assert envs.bidding(shares=None, initial=None).initial == pytest.approx(1 / 12)


# -- sizes, names, units ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sizes", "costs", "limits", "can_stop", "states", "actions"),
    [
        ("pricing", (36, 5, 12), ("stock",), [4.0], True, {0: "hour 0 low", 35: "hour 11 high"}, "price 20"),
        ("bidding", (12, 6, 24), ("spend",), [4.0], True, {0: "quiet poor", 11: "busy prime"}, "bid 0"),
        ("cluster", (45, 5, 24), ("energy", "latency"), [5.0] * 2, False, {1: "0 jobs, 1 on"}, "run 0"),
    ],
)
def test_defaults(
    name: str,
    sizes: tuple[int, ...],
    costs: tuple[str, ...],
    limits: list[float],
    can_stop: bool,
    states: dict[int, str],
    actions: str,
) -> None:
    mdp = envs.make(name)
    assert (mdp.num_states, mdp.num_actions, mdp.horizon) == sizes
    assert (mdp.cost_names, mdp.can_stop) == (costs, can_stop)
    assert mdp.limits is not None
    assert mdp.limits.tolist() == limits
    assert {s: mdp.state_name(s) for s in states} == states
    assert mdp.action_name(0) == actions
    task = mdp.task
    assert task.reward_range == (0.0, 1.0)
    assert task.cost_ranges == ((0.0, 1.0),) * len(costs)
    # The first state is known only where it is fixed.
    assert task.initial == (0 if name == "cluster" else None)


def test_they_are_built_in() -> None:
    for name, factory in FACTORIES.items():
        assert getattr(envs, name) is envs.REGISTRY[name].factory is factory
        assert envs.REGISTRY[name].gymnasium_id == f"conrl/{name.capitalize()}-v0"


def test_outcomes_of_one_successor_that_pay_differently_stay_apart() -> None:
    assert len({(pair, to[0]) for pair, to, _ in outcomes(envs.pricing())}) * 2 == len(list(outcomes(envs.pricing())))
    stays = [to for pair, to, _ in outcomes(envs.cluster()) if pair == ("2 jobs, 1 on", "run 1") and to[0][0] == "2"]
    assert sorted(stays) == [("2 jobs, 1 on", (0.0, 0.125, 0.25)), ("2 jobs, 1 on", (0.25, 0.125, 0.125))]


def test_prices_near_each_other_have_different_names() -> None:
    assert envs.pricing(prices=[1.0, 1.0000001]).action_names == ("price 1", "price 1.0000001")


def test_a_binomial_of_many_trials() -> None:
    """The coefficients of 1200 trials do not fit a double; the probabilities do."""
    p = binomial(1200, 0.25)
    assert (p.sum(), p @ np.arange(1201)) == pytest.approx((1.0, 300.0))


# -- optima -------------------------------------------------------------------------------------------------------

# As documented: limits, reward, costs and prices. `None` where the costs of an optimum are not unique.
OPTIMA: dict[str, list[tuple[list[float], float, list[float] | None, list[float]]]] = {
    "pricing": [([4.0], 2.907379, [4.0], [0.529786]), ([INF], 4.563964, [9.074117], [0.0])],
    "pricing-hours": [([4.0], 2.625704, [4.0], [0.483605]), ([INF], 3.801505, [8.114750], [0.0])],
    "bidding": [([4.0], 3.501235, [4.0], [0.375]), ([INF], 4.92, [12.976667], [0.0])],
    "cluster": [
        ([5.0, 5.0], 7.074179, [5.0, 5.0], [1.781801, 0.227251]),
        ([5.0, INF], 7.334418, None, [1.066667, 0.0]),
        ([INF, 5.0], 7.947809, None, [0.0, 0.0]),
        ([INF, INF], 7.947809, None, [0.0, 0.0]),
    ],
    # At the limit, at a fifth of it (the safe baseline of Bura et al. 2022), and without one.
    "factored": [
        ([3.0], 2.0, [3.0], [2 / 3]),
        ([0.6], 0.4, [0.6], [2 / 3]),
        ([INF], 4.0, [6.0], [0.0]),
    ],
    "media-streaming": [
        ([5.0], -6.746704, [5.0], [0.495190]),
        ([1.0], -8.983489, [1.0], [0.587177]),
        ([INF], -5.393138, None, [0.0]),
    ],
    "inventory": [
        ([3.5], 6.665322, [3.5], [0.921212]),
        ([0.7], 1.555711, [0.7], [2.222444]),
        ([INF], 7.0, [4.505263], [0.0]),
    ],
}


@pytest.mark.parametrize("planner", EXACT)
@pytest.mark.parametrize("name", OPTIMA)
def test_documented_optima(name: str, planner: str) -> None:
    mdp = envs.make(name)
    assert mdp.limits is not None
    assert mdp.limits.tolist() == OPTIMA[name][0][0]
    for limits, reward, costs, prices in OPTIMA[name]:
        plan = conrl.plan(mdp, conrl.Linear(limits), planner)
        assert plan.gap < 1e-8
        assert plan.reward == pytest.approx(reward, abs=1e-6)
        assert costs is None or plan.costs == pytest.approx(costs, abs=1e-6)
        assert plan.prices == pytest.approx(prices, abs=1e-6)


@pytest.mark.parametrize(
    ("limits", "cost", "reward", "least"),
    [
        ([INF, INF], "energy", 7.947809, 6.919157),
        ([INF, INF], "latency", 7.947809, 1.143252),
        ([5.0, INF], "latency", 7.334418, 7.949807),
    ],
)
def test_the_least_cost_of_an_optimal_cluster(limits: list[float], cost: str, reward: float, least: float) -> None:
    curve = conrl.frontier(envs.cluster(limits=limits), cost)
    assert (curve.limits[-1], curve.rewards[-1]) == pytest.approx((least, reward), abs=1e-6)


def test_an_unlimited_cluster_needs_the_least_of_both_at_once() -> None:
    together = conrl.plan(envs.cluster(), conrl.Linear([6.919157 + 1e-6, 1.143252 + 1e-6]))
    assert together.reward == pytest.approx(7.947809, abs=1e-5)


@pytest.mark.parametrize("name", OPTIMA)
def test_docstrings_state_the_optima(name: str) -> None:
    text = " ".join((importlib.import_module(f"conrl.envs.{name.replace('-', '_')}").__doc__ or "").split())
    mdp = envs.make(name)
    free = conrl.plan(mdp, conrl.Linear())
    kept = conrl.plan(mdp)
    spent = " and ".join(f"{cost} {limit:g}" for cost, limit in zip(mdp.cost_names, kept.costs, strict=True))
    prices = " and ".join(f"{price:.6f}" for price in kept.prices)
    assert f"reward {kept.reward:.6f} at {spent} (shadow price{'s' * (mdp.num_costs > 1)} {prices})" in text
    assert f"Unlimited: reward {free.reward:.6f} at {mdp.cost_names[0]} {free.costs[0]:.6f}" in text
    if "safe baseline" in text:
        assert mdp.limits is not None
        safe = conrl.plan(mdp, mdp.limits / 5)
        assert f"a fifth of the limit: reward {safe.reward:.6f} at {mdp.cost_names[0]} {safe.costs[0]:g}." in text
    if name == "cluster":
        assert f"{free.costs[0]:.6f} and latency {free.costs[1]:.6f}" in text
        assert "reward 7.334418 at latency 7.949807" in text  # see test_the_least_cost_of_an_optimal_cluster


def test_the_table_of_environments_is_up_to_date() -> None:
    """docs/environments.md has one row an environment, with the numbers that planning gives."""
    text = (Path(__file__).parents[1] / "docs" / "environments.md").read_text()
    for name in envs.REGISTRY:
        mdp = envs.make(name)
        plan, free = conrl.plan(mdp), conrl.plan(mdp, conrl.Linear())
        assert mdp.limits is not None
        several = ((mdp.limits, 6), (plan.costs, 3), (plan.prices, 6))  # where nothing binds, costs are not unique
        limits, costs, prices = (", ".join(f"{x:.{n}g}" for x in xs.tolist()) for xs, n in several)
        sizes = f"{mdp.num_states} | {mdp.num_actions} | {mdp.horizon}"
        row = f"| `{name}` | {sizes} | {', '.join(mdp.cost_names)} | {limits} | "
        row += f"{plan.reward:.6f} | {costs} | {prices} | {free.reward:.6f} |"
        assert row in text


def by_duality(mdp: ConstrainedMDP, limit: float) -> float:
    """min over prices of what a day earns if each unit of cost is charged, where no action moves the state.

    Then every (step, state) is a choice of its own, and the best of each is its largest reward - price x cost.
    """
    P = mdp.transitions.toarray().reshape(mdp.num_states, mdp.num_actions, mdp.num_states)
    assert np.abs(P - P[:, :1]).max() < 1e-12
    visits, here = np.zeros(mdp.num_states), mdp.initial
    for _ in range(mdp.horizon):
        visits, here = visits + here, here @ P[:, 0]

    def earned(price: float) -> float:
        return price * limit + float(visits @ (mdp.rewards - price * mdp.costs[:, :, 0]).max(axis=1))

    low, high = 0.0, 100.0
    for _ in range(200):  # `earned` is convex
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if earned(a) <= earned(b) else (a, high)
    return earned(low)


@pytest.mark.parametrize("mdp", [envs.pricing(), envs.bidding(), envs.bidding(rule="first-price")], ids=str)
@pytest.mark.parametrize("limit", [1.0, 4.0, 8.0])
def test_a_choice_for_each_hour_or_auction_alone(mdp: ConstrainedMDP, limit: float) -> None:
    assert conrl.plan(mdp, conrl.Linear([limit])).reward == pytest.approx(by_duality(mdp, limit), abs=1e-8)


def test_the_best_bid_is_the_click_over_the_price_of_money() -> None:
    """In a second-price auction one bids kappa / price, rounded down to a tick; 0.4 for "fair" is a tie with less."""
    mdp = envs.bidding()
    plan = conrl.plan(mdp)
    price = float(plan.prices[0])
    for kind, kappa in (("poor", 0.05), ("good", 0.35), ("prime", 0.7)):
        best = min(5, math.floor(5 * kappa / price))
        for level in ("quiet", "normal", "busy"):
            s = mdp.state_names.index(f"{level} {kind}")
            assert plan.policy.probabilities[:, s, best] == pytest.approx(1.0)
    assert 0.15 / price == pytest.approx(0.4)


def test_another_day_is_as_good_as_the_first() -> None:
    day = envs.pricing(initial=[0.2, 0.3, 0.5])
    for limit in (4.0, INF):
        one = conrl.plan(day, conrl.Linear([limit]))
        two = conrl.plan(day.replace(horizon=24), conrl.Linear([2 * limit]))
        assert two.reward == pytest.approx(2 * one.reward, abs=1e-8)


@pytest.mark.parametrize("name", ["pricing", "bidding"])
def test_the_limit_binds_clearly(name: str) -> None:
    mdp = envs.make(name)
    kept, free = conrl.plan(mdp), conrl.plan(mdp, conrl.Linear())
    assert 0.25 < kept.costs[0] / free.costs[0] < 0.55
    assert kept.reward < 0.75 * free.reward


# -- any parameters -----------------------------------------------------------------------------------------------


def probabilities() -> st.SearchStrategy[float]:
    return st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0.001, 0.999)


@st.composite
def distributions(draw: st.DrawFn, size: int) -> list[float] | None:
    weights = draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    return [w / sum(weights) for w in weights] if sum(weights) else None


def named(values: st.SearchStrategy[float], most: int) -> st.SearchStrategy[dict[str, float]]:
    return st.dictionaries(st.sampled_from("abcdef"), values, min_size=1, max_size=most)


@st.composite
def pricings(draw: st.DrawFn) -> dict[str, Any]:
    regimes = draw(named(st.floats(0.0, 100.0), 4))
    return {
        "prices": sorted(draw(st.sets(st.integers(1, 120), min_size=1, max_size=4))),
        "regimes": regimes,
        "persistence": draw(probabilities()),
        "rush": draw(st.floats(-50.0, 50.0)),
        "spread": draw(st.floats(2.0, 50.0)),
        "initial": draw(distributions(len(regimes))),
        "horizon": draw(st.integers(1, 5)),
    }


@st.composite
def biddings(draw: st.DrawFn) -> dict[str, Any]:
    competition, impressions = draw(named(probabilities(), 3)), draw(named(probabilities(), 3))
    return {
        "competition": competition,
        "impressions": impressions,
        "shares": draw(distributions(len(impressions))),
        "persistence": draw(probabilities()),
        "ticks": draw(st.integers(1, 5)),
        "rule": draw(st.sampled_from(["second-price", "first-price"])),
        "initial": draw(distributions(len(competition))),
        "horizon": draw(st.integers(1, 6)),
    }


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(1, 5))
    return {
        "machines": draw(st.integers(1, 4)),
        "queue": draw(st.integers(1, 6)),
        "arrivals": draw(distributions(size)) or [1.0 / size] * size,
        "completion": draw(probabilities()),
        "startup": draw(st.floats(0.0, 4.0)),
        "horizon": draw(st.integers(1, 6)),
    }


@many
@given(st.data(), st.sampled_from(sorted(FACTORIES)))
def test_any_parameters_give_the_documented_dynamics(data: st.DataObject, name: str) -> None:
    drawn = data.draw({"pricing": pricings(), "bidding": biddings(), "cluster": clusters()}[name])
    mdp = check(name, **drawn, limits=None)
    realised = mdp.pay if mdp.outcome_pay is None else mdp.outcome_pay
    assert realised.min() >= 0.0
    assert realised.max() <= 1.0


def total(mdp: ConstrainedMDP, w: Sequence[float]) -> float:
    """max over policies of w.(reward, costs), in plain numpy."""
    pay = np.concatenate((mdp.rewards[:, :, None], mdp.costs), axis=2) @ np.array(w)
    P = mdp.transitions.toarray().reshape(mdp.num_states, mdp.num_actions, mdp.num_states)
    V = np.zeros(mdp.num_states)
    for _ in range(mdp.horizon):
        V = (pay + P @ V).max(axis=1)
    return float(mdp.initial @ V)


@some
@given(pricings())
def test_dearer_sells_less_and_more_stock_earns_more(drawn: dict[str, Any]) -> None:
    mdp = envs.pricing(**drawn, limits=None)
    sold = mdp.costs[:, :, 0]
    assert (np.diff(sold, axis=1) <= 0.0).all()
    assert np.allclose(mdp.rewards, sold * np.array(drawn["prices"]) / max(drawn["prices"]), atol=1e-12)
    least, most = -total(mdp, [0.0, -1.0]), total(mdp, [0.0, 1.0])
    rewards = [conrl.plan(mdp, conrl.Linear([x])).reward for x in np.linspace(least + 1e-6, most, 5)]
    assert all(a <= b + 1e-9 for a, b in pairwise(rewards))
    assert all(a >= b - 1e-8 for a, b in pairwise(np.diff(rewards).tolist()))  # and each unit is worth less
    with pytest.raises(conrl.InfeasibleError):
        conrl.plan(mdp, conrl.Linear([least - 1e-3]))


@some
@given(biddings())
def test_higher_bids_win_more_and_a_second_price_is_kinder(drawn: dict[str, Any]) -> None:
    both = {rule: envs.bidding(**(drawn | {"rule": rule}), limits=None) for rule in ("second-price", "first-price")}
    for mdp in both.values():
        assert (np.diff(mdp.rewards, axis=1) >= -1e-12).all()
        assert (np.diff(mdp.costs[:, :, 0], axis=1) >= -1e-12).all()
        assert (mdp.rewards[:, 0].tolist(), mdp.costs[:, 0, 0].tolist()) == ([0.0] * mdp.num_states,) * 2
        kappa = np.tile(list(drawn["impressions"].values()), len(drawn["competition"]))
        assert mdp.rewards[:, -1] == pytest.approx(kappa)  # the highest bid always wins
    most = total(both["second-price"], [0.0, 1.0])
    second, first = (
        [conrl.plan(mdp, conrl.Linear([x])).reward for x in np.linspace(0.0, most, 4)] for mdp in both.values()
    )
    assert all(a <= b + 1e-9 for a, b in pairwise(second))
    assert all(a >= b - 1e-9 for a, b in zip(second, first, strict=True))


@some
@given(clusters())
def test_more_machines_complete_more_and_more_energy_helps(drawn: dict[str, Any]) -> None:
    mdp = envs.cluster(**drawn, limits=None)
    assert (np.diff(mdp.rewards, axis=1) >= -1e-12).all()
    assert (np.diff(mdp.costs[:, :, 0], axis=1) > 0.0).all()
    assert (np.diff(mdp.costs[:, :, 1], axis=1) <= 1e-12).all()
    # What comes in bounds what is completed; a step's machines bound the rest.
    arriving = float(np.dot(np.arange(len(drawn["arrivals"])), drawn["arrivals"]))
    best = total(mdp, [1.0, 0.0, 0.0])
    assert best * drawn["machines"] <= (drawn["horizon"] - 1) * arriving + 1e-9
    most = total(mdp, [0.0, 1.0, 0.0])
    rewards = [conrl.plan(mdp, conrl.Linear([x, INF])).reward for x in np.linspace(0.0, most, 4)]
    assert all(a <= b + 1e-9 for a, b in pairwise(rewards))
    assert rewards[-1] == pytest.approx(best, abs=1e-8)


def test_jobs_are_neither_lost_nor_made() -> None:
    """In a queue that never fills, those that came are completed or still there."""
    mdp = envs.cluster(queue=20, horizon=6, limits=None)
    rng = np.random.default_rng(0)
    here, completed = mdp.initial, 0.0
    P = mdp.transitions.toarray().reshape(mdp.num_states, mdp.num_actions, mdp.num_states)
    jobs = np.array([int(name.split()[0]) for name in mdp.state_names])
    for step in range(1, 6):
        choice = rng.dirichlet(np.ones(5), size=mdp.num_states)
        completed += 4 * float(here @ (choice * mdp.rewards).sum(axis=1))
        here = np.einsum("s,sa,sat->t", here, choice, P)
        assert completed + float(here @ jobs) == pytest.approx(1.4 * step, abs=1e-12)


# -- mistakes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("pricing", {"prices": []}, "prices has shape"),
        ("pricing", {"prices": 5.0}, "prices has shape"),
        ("pricing", {"prices": ["dear"]}, "prices is not an array of numbers"),
        ("pricing", {"prices": [0.0, 1.0]}, r"prices\[0\] is 0.0; it must be a finite number above 0"),
        ("pricing", {"prices": [1.0, np.inf]}, r"prices\[1\] is inf"),
        ("pricing", {"prices": [2.0, 1.0]}, r"prices\[1\] is 1 after 2; a ladder increases"),
        ("pricing", {"prices": [2.0, 2.0]}, "a ladder increases"),
        ("pricing", {"regimes": {}}, "regimes is {}; it must name at least one"),
        ("pricing", {"regimes": [1.0]}, "regimes is"),
        ("pricing", {"regimes": {"low": "little"}}, r"regimes\['low'\] is 'little'; it must be a finite number"),
        ("pricing", {"persistence": 1.5}, "persistence is 1.5; it must be a probability"),
        ("pricing", {"persistence": True}, "persistence is True"),
        ("pricing", {"rush": np.nan}, "rush is nan"),
        ("pricing", {"spread": 0.0}, "spread is 0.0; it must be a finite number above 0"),
        ("pricing", {"initial": [1.0]}, r"initial has shape \(1,\); expected 3 probabilities"),
        ("pricing", {"initial": [0.5, 0.6, -0.1]}, r"initial\[2\] is -0.1"),
        ("pricing", {"initial": [0.5, np.nan, 0.5]}, r"initial\[1\] is nan"),
        ("pricing", {"initial": [0.5, 0.5, 0.5]}, "initial sums to 1.5"),
        ("pricing", {"horizon": 0}, "horizon is 0"),
        ("pricing", {"limits": [1.0, 2.0]}, "limits has shape"),
        ("pricing", {"limits": {"stok": 1.0}}, "did you mean 'stock'"),
        ("bidding", {"competition": {"wild": 2.0}}, r"competition\['wild'\] is 2.0; it must be a probability"),
        ("bidding", {"impressions": {"good": -0.1}}, r"impressions\['good'\] is -0.1"),
        ("bidding", {"shares": [0.5, 0.5]}, r"shares has shape \(2,\); expected 4"),
        ("bidding", {"persistence": -0.1}, "persistence is -0.1"),
        ("bidding", {"ticks": 0}, "ticks is 0; it must be a whole number of at least 1"),
        ("bidding", {"ticks": 2.5}, "ticks is 2.5"),
        ("bidding", {"rule": "secondprice"}, "unknown rule 'secondprice'; did you mean 'second-price'"),
        ("bidding", {"initial": [1.0, 1.0, 0.0]}, "initial sums to 2"),
        ("bidding", {"horizon": -1}, "horizon is -1"),
        ("cluster", {"machines": 0}, "machines is 0"),
        ("cluster", {"queue": True}, "queue is True"),
        ("cluster", {"arrivals": []}, r"arrivals has shape \(0,\); expected some probabilities"),
        ("cluster", {"arrivals": None}, "arrivals is not an array of numbers|arrivals has shape"),
        ("cluster", {"arrivals": [0.5, 0.4]}, "arrivals sums to 0.9"),
        ("cluster", {"completion": 1.01}, "completion is 1.01"),
        ("cluster", {"startup": -1.0}, "startup is -1.0; it must be a finite number of at least 0"),
        ("cluster", {"horizon": 1.5}, "horizon is 1.5"),
    ],
)
def test_mistakes_name_the_culprit(name: str, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        FACTORIES[name](**wrong)


def test_mistakes_by_name() -> None:
    with pytest.raises(SpecError, match="'persistence' of pricing is 'long'; it must be a number"):
        envs.make("pricing", persistence="long")
    with pytest.raises(SpecError, match="did you mean 'regimes'"):
        envs.make("pricing", regime={})

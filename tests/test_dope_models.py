"""The models of DOPE (Bura et al. 2022): their documented dynamics in exact fractions, and their optima by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conrl
from conrl import envs
from conrl.errors import ModelError
from conrl.model import ConstrainedMDP

some = settings(max_examples=40, deadline=None)
Row = tuple[dict[int, Fraction], Fraction, Fraction]  # next states, reward, cost
DEMAND = tuple(map(Fraction, ("0.3", "0.2", "0.2", "0.2", "0.05", "0.05")))


def plain_factored(n: int) -> dict[tuple[int, int], Row]:
    return {
        (s, a): ({(s + a) % n: Fraction(1)}, Fraction(a * (s + 1), n), Fraction(a)) for s in range(n) for a in (0, 1)
    }


def plain_media(N: int, fast: Fraction, slow: Fraction, playout: Fraction) -> dict[tuple[int, int], Row]:
    table = {}
    for s, a in product(range(N + 1), (0, 1)):
        to: dict[int, Fraction] = {}
        for came, left in product((0, 1), (0, 1)):
            arrival = (slow, fast)[a == 0]
            p = (arrival if came else 1 - arrival) * (playout if left else 1 - playout)
            t = min(max(s + came - left, 0), N)
            to[t] = to.get(t, Fraction(0)) + p
        table[s, a] = to, Fraction(-1 if s == 0 else 0), Fraction(a == 0)
    return table


def plain_inventory(
    N: int, demand: tuple[Fraction, ...], fixed: Fraction, unit: Fraction, holding: Fraction
) -> dict[tuple[int, int], Row]:
    table: dict[tuple[int, int], Row] = {}
    for s in range(N + 1):
        for a in range(N - s + 1):
            to: dict[int, Fraction] = {}
            for d, p in enumerate(demand):
                t = max(s + a - d, 0)
                to[t] = to.get(t, Fraction(0)) + p
            reward = sum((d * to[s + a - d] for d in range(len(demand)) if d <= s + a), Fraction(0))
            table[s, a] = to, reward, (fixed if a else Fraction(0)) + unit * a + holding * (s + a)
    best = max(r for _, r, _ in table.values()) or Fraction(1)
    dearest = max(c for _, _, c in table.values()) or Fraction(1)
    return {pair: (to, r / best, c / dearest) for pair, (to, r, c) in table.items()}


def assert_is(mdp: ConstrainedMDP, table: dict[tuple[int, int], Row]) -> None:
    pairs = list(zip(mdp.pair_state.tolist(), mdp.action.tolist(), strict=True))
    assert sorted(pairs) == sorted(table)
    for k, pair in enumerate(pairs):
        to, reward, cost = table[pair]
        row = slice(mdp.graph.start[k], mdp.graph.start[k + 1])
        seen = dict(zip(mdp.graph.successor[row].tolist(), mdp.graph.probability[row].tolist(), strict=True))
        for t in seen.keys() | to.keys():
            assert seen.get(t, 0.0) == pytest.approx(float(to.get(t, 0)), abs=1e-12)
        assert mdp.pay[k] == pytest.approx([float(reward), float(cost)], abs=1e-12)
    assert mdp.initial.tolist() == [1.0] + [0.0] * (mdp.num_states - 1)


def optimum(table: dict[tuple[int, int], Row], horizon: int, limit: Fraction, price: Fraction) -> tuple[Any, Any]:
    """The dual value at a price and the costs of the two greedy policies there, thrifty and lavish, in fractions."""
    states = {s for s, _ in table}
    ends = []
    for sign in (1, -1):  # of ties, the one that costs least or most
        V = dict.fromkeys(states, (Fraction(0), Fraction(0)))
        for _ in range(horizon):
            new = {}
            for s in states:
                options = []
                for (t, _), (to, r, c) in table.items():
                    if t == s:
                        value = r - price * c + sum(p * V[u][0] for u, p in to.items())
                        options.append((value, -sign * (c + sum(p * V[u][1] for u, p in to.items()))))
                value, cost = max(options)
                new[s] = value, -sign * cost
            V = new
        ends.append(V[0])
    return ends[0][0] + price * limit, (ends[0][1], ends[1][1])


def test_dynamics_are_those_documented() -> None:
    assert_is(envs.factored(), plain_factored(3))
    assert_is(envs.media_streaming(), plain_media(9, Fraction(9, 10), Fraction(1, 10), Fraction(4, 5)))
    assert_is(envs.inventory(), plain_inventory(5, DEMAND, Fraction(4), Fraction(2), Fraction(1)))


@pytest.mark.parametrize("share", [Fraction(1), Fraction(1, 5)])
@pytest.mark.parametrize("name", ["factored", "media-streaming", "inventory"])
def test_optima_and_baselines_in_fractions(name: str, share: Fraction) -> None:
    """A price at which greedy policies cost both less and more than the limit proves the optimum."""
    table, limit, horizon = {
        "factored": (plain_factored(3), Fraction(3), 6),
        "media-streaming": (plain_media(9, Fraction(9, 10), Fraction(1, 10), Fraction(4, 5)), Fraction(5), 10),
        "inventory": (plain_inventory(5, DEMAND, Fraction(4), Fraction(2), Fraction(1)), Fraction(7, 2), 7),
    }[name]
    mdp = envs.make(name)
    assert (mdp.horizon, mdp.limits.tolist() if mdp.limits is not None else None) == (horizon, [float(limit)])
    plan = conrl.plan(mdp, [float(limit * share)])
    bound, _ = optimum(table, horizon, limit * share, Fraction(float(plan.prices[0])))
    assert plan.reward == pytest.approx(float(bound), abs=1e-9)
    # Below and above that price, what is optimal costs more and less than the limit.
    _, (_, more) = optimum(table, horizon, limit * share, Fraction(float(plan.prices[0]) - 1e-9))
    _, (less, _) = optimum(table, horizon, limit * share, Fraction(float(plan.prices[0]) + 1e-9))
    assert less <= limit * share <= more


def test_what_media_streaming_needs_without_a_limit() -> None:
    curve = conrl.frontier(envs.media_streaming(), "fast")
    assert (curve.limits[-1], curve.rewards[-1]) == pytest.approx((8.556990, -5.393138), abs=1e-6)


@some
@given(st.integers(1, 6), st.integers(1, 5))
def test_any_factored(n: int, horizon: int) -> None:
    mdp = envs.factored(states=n, horizon=horizon, limits=None)
    assert_is(mdp, plain_factored(n))
    assert mdp.horizon == horizon


@some
@given(st.integers(1, 6), *[st.fractions(0, 1, max_denominator=20)] * 3)
def test_any_media_streaming(N: int, fast: Fraction, slow: Fraction, playout: Fraction) -> None:
    mdp = envs.media_streaming(buffer=N, fast=float(fast), slow=float(slow), playout=float(playout))
    assert_is(mdp, plain_media(N, fast, slow, playout))


@some
@given(
    st.integers(1, 6),
    st.lists(st.integers(0, 5), min_size=1, max_size=9).filter(sum),
    *[st.fractions(0, 10, max_denominator=10)] * 3,
)
def test_any_inventory(N: int, weights: list[int], fixed: Fraction, unit: Fraction, holding: Fraction) -> None:
    demand = tuple(Fraction(w, sum(weights)) for w in weights)
    mdp = envs.inventory(
        capacity=N, demand=[float(p) for p in demand], fixed=float(fixed), unit=float(unit), holding=float(holding)
    )
    assert_is(mdp, plain_inventory(N, demand, fixed, unit, holding))


def test_ranges_names_and_ids() -> None:
    for name, reward, actions in (("factored", (0.0, 1.0), ("stay", "move")), ("media-streaming", (-1.0, 0.0), None)):
        task = envs.make(name).task
        assert (task.reward_range, task.cost_ranges, task.initial) == (reward, ((0.0, 1.0),), 0)
        assert actions is None or envs.make(name).action_names == actions
    shop = envs.inventory()
    assert (shop.task.reward_range, shop.task.cost_ranges) == ((0.0, 1.0), ((0.0, 1.0),))
    assert [int(row.sum()) for row in shop.task.mask[0]] == [6, 5, 4, 3, 2, 1]
    env = gymnasium.make("conrl/MediaStreaming-v0")
    env.reset(seed=0)
    assert env.step(0)[1] == -1.0
    env = gymnasium.make("conrl/Inventory-v0")
    _, info = env.reset(seed=0)
    assert info["action_mask"].tolist() == [1] * 6


@pytest.mark.parametrize(
    ("factory", "wrong", "message"),
    [
        (envs.factored, {"states": 0}, "states is 0"),
        (envs.factored, {"horizon": 0}, "horizon is 0"),
        (envs.factored, {"states": 10**12}, "at most 400,000,000"),
        (envs.media_streaming, {"buffer": 10**12}, "at most 400,000,000"),
        (envs.inventory, {"capacity": 10**9}, "at most 400,000,000"),
        (envs.factored, {"limits": {"move": 1.0}}, "did you mean 'moves'"),
        (envs.media_streaming, {"buffer": 2.5}, "buffer is 2.5"),
        (envs.media_streaming, {"fast": 1.5}, "fast is 1.5; it must be a probability"),
        (envs.media_streaming, {"slow": -0.1}, "slow is -0.1"),
        (envs.media_streaming, {"playout": np.nan}, "playout is nan"),
        (envs.inventory, {"capacity": 0}, "capacity is 0"),
        (envs.inventory, {"demand": [0.5, 0.4]}, "demand sums to 0.9"),
        (envs.inventory, {"demand": []}, "demand has shape"),
        (envs.inventory, {"fixed": -1.0}, "fixed is -1.0; it must be a finite number of at least 0"),
        (envs.inventory, {"unit": np.inf}, "unit is inf"),
        (envs.inventory, {"holding": "much"}, "holding is 'much'"),
    ],
)
def test_mistakes_name_the_culprit(factory: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        factory(**wrong)

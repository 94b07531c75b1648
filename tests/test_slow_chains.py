"""Chains that hardly ever move, down to leaving probabilities of 1e-9, against exact rationals.

More: `python tests/adversary.py --kind slow --models 5000`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from exact import total
from exact_wider import _visits

import conrl
from conrl import kernels
from conrl.model.chains import SlowChain, added
from conrl.model.occupation import stationary_distribution
from conrl.rounding import HALF_ULP

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def slow_rows(rng: np.random.Generator, n: int) -> tuple[Rows, np.ndarray]:
    """A chain by its moves, of probability 1 down to 1e-9, and its exits; staying is not among its entries."""
    ahead = (np.arange(n) + 1) % n  # so that it can come everywhere
    other = [rng.choice(np.setdiff1d(np.arange(n), [s, ahead[s]])) for s in range(n)]
    to = np.column_stack((ahead, other))
    weight = rng.dirichlet(np.ones(2), size=n) * 10.0 ** -rng.integers(0, 10, size=(n, 1)) * 0.99
    return (np.arange(0, 2 * n + 1, 2), to.reshape(-1), weight.reshape(-1)), 10.0 ** -rng.uniform(3, 12, size=n)


def exactly(rows: Rows, exits: np.ndarray) -> dict[int, dict[int, Fraction]]:
    """The same with what is left of 1 as the probability to stay."""
    begin, column, weight = rows
    chain = {}
    for s in range(begin.size - 1):
        entries = range(begin[s], begin[s + 1])
        moves = {int(column[j]): Fraction(weight[j]) for j in entries}
        chain[s] = moves | {s: 1 - total(moves.values()) - Fraction(exits[s])}
    return chain


def test_the_sticky_model_of_three_states() -> None:
    P = np.zeros((3, 2, 3))
    P[0, :, 0] = 1.0
    P[1, 0, [1, 2]], P[1, 1, [1, 0]] = (0.999, 0.001), (0.9999, 0.0001)
    P[2, 0, [2, 1]], P[2, 1, [2, 0]] = (0.999, 0.001), (0.9999, 0.0001)
    costs = np.array([[0, 0.5], [0, 1], [1, 1]])[:, :, None]
    mdp = conrl.ConstrainedMDP(P, [[2, -1], [1, 2], [3, -1]], costs, conrl.Average(), initial=1)
    assert conrl.plan(mdp, [0.0]).reward == pytest.approx(2.0, rel=1e-12)  # to state 0, where it stays
    plan = conrl.plan(mdp, [0.3])
    assert plan.status == "optimal"
    assert plan.reward == pytest.approx(2.0, rel=1e-12)
    assert plan.costs[0] <= 0.3 * (1 + 1e-9)


@pytest.mark.parametrize("discount", [0.99999, 0.9999999, 1.0 - 1e-9])
def test_a_discount_near_one_keeps_its_limits(discount: float) -> None:
    """By the equations of the plan's own chain."""
    mdp = conrl.envs.random_cmdp(12, 3, 3, 2, seed=4)
    limits = [0.4 / (1.0 - discount), 0.45 / (1.0 - discount)]
    mdp = mdp.replace(horizon=conrl.Discounted(discount), limits=limits)
    plan = conrl.plan(mdp)
    assert plan.status == "optimal"
    assert plan.gap <= 1e-9 * plan.reward
    g, S = Fraction(discount), mdp.num_states
    table = plan.policy.probabilities
    T = mdp.transitions.toarray().reshape(S, mdp.num_actions, S)
    chain, pay = {}, []
    for s in range(S):
        row = [total(Fraction(table[s, a]) * Fraction(T[s, a, t]) for a in range(mdp.num_actions)) for t in range(S)]
        chain[s] = {t: g * p / sum(row) for t, p in enumerate(row) if p}
        pay.append([total(Fraction(table[s, a]) * Fraction(mdp.costs[s, a, i]) for a in range(3)) for i in range(2)])
    visits = _visits(range(S), chain, [Fraction(p) for p in mdp.initial])
    for i in range(2):
        spent = total(visits[s] * pay[s][i] for s in range(S))
        assert spent <= Fraction(limits[i]) * (1 + Fraction(2, 10**9))


def test_elimination_is_right_in_each_entry() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(3, 8))
        rows, exits = slow_rows(rng, n)
        error = kernels.ELIMINATION * (n + 1) ** 2
        start = rng.random(n)
        exact = _visits(range(n), exactly(rows, exits), [Fraction(x) for x in start])
        for x, y in zip(SlowChain(*rows, exits).visits(start), exact.values(), strict=True):
            assert abs(Fraction(float(x)) - y) <= error * y
        closed = exactly(rows, np.zeros(n))
        inner = _visits(range(1, n), closed, [closed[0].get(t, Fraction(0)) for t in range(n)])
        length = 1 + total(inner.values())
        share, more = stationary_distribution(rows)
        assert more == 0.0
        for x, y in zip(share, [Fraction(1), *inner.values()], strict=True):
            assert abs(Fraction(float(x)) - y / length) <= error * y / length


def test_values_with_signs_have_twice_the_digits() -> None:
    """Their residual, in exact arithmetic, is next to nothing; and is not larger than what the kernel says."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        n = int(rng.integers(3, 8))
        rows, exits = slow_rows(rng, n)
        b, base = np.stack((rng.normal(size=n), 1e-17 * rng.normal(size=n))), np.array([0.1, 1e-18])
        chain = SlowChain(*rows, exits)
        V = chain.values(b, base)
        gain, off = np.empty(n), np.empty(n)
        kernels.gains(chain._graph, exits, b, base, V, 0.0, gain, off)
        exact = [Fraction(V[0, s]) + Fraction(V[1, s]) for s in range(n)]
        for s, moves in exactly(rows, exits).items():
            left = (
                Fraction(b[0, s])
                + Fraction(b[1, s])
                - Fraction(base[0])
                - Fraction(base[1])
                - Fraction(exits[s]) * exact[s]
            )
            left += total(p * (exact[t] - exact[s]) for t, p in moves.items())
            assert abs(left - Fraction(float(gain[s]))) <= Fraction(float(off[s]))
            assert abs(left) <= 2.0**-85 * float(np.abs(V[0]).max())


def test_a_sum_in_twice_the_digits_loses_nothing() -> None:
    x = added(added(np.array([[1.0], [0.0]]), np.array([1e-20])), np.array([-1.0]))
    assert x[0, 0] == 1e-20


@pytest.mark.parametrize("moves", [1e-3, 1e-9])
def test_a_larger_chain_of_births_and_deaths(moves: float) -> None:
    """Beyond what is eliminated: the distribution has a product form."""
    rng, n = np.random.default_rng(2), 240
    up, down = moves * rng.uniform(0.5, 1.0, size=(2, n))
    entries = [
        (s, t, p)
        for s in range(n)
        for t, p in ((s - 1, down[s]), (s, 1.0 - up[s] - down[s]), (s + 1, up[s]))
        if 0 <= t < n
    ]
    origin, column, weight = (np.array(x) for x in zip(*entries, strict=True))
    share, error = stationary_distribution((np.searchsorted(origin, np.arange(n + 1)), column, weight))
    exact = [Fraction(1)]
    for s in range(n - 1):
        exact.append(exact[-1] * Fraction(up[s]) / Fraction(down[s + 1]))
    whole = total(exact)
    off = total(abs(Fraction(float(x)) - y / whole) for x, y in zip(share, exact, strict=True))
    assert off <= error + 1e-10
    assert off <= 1e-10 if moves == 1e-3 else off <= 1e3 * n * HALF_ULP


def test_larger_slow_models_are_planned() -> None:
    """Groups of states that are seldom left: in the long run, all that counts is for how long."""
    groups, size, p = 3, 80, 1e-7
    rng = np.random.default_rng(3)
    rows = []
    for s in range(groups * size):
        own = s // size * size
        for a in range(2):
            near = own + (s - own + 1 + a) % size
            rows += [(s, a, near, 1.0 - p * (1 + a)), (s, a, (s + size) % (groups * size), p * (1 + a))]
    state, action, to, probability = (np.array(x) for x in zip(*rows, strict=True))
    paid = rng.random((groups, 2))[state // size]  # of the group: the reward and a cost
    mdp = conrl.ConstrainedMDP.from_outcomes(
        state, action, to, probability, paid, num_states=groups * size, num_actions=2, horizon=conrl.Average()
    )
    pay = paid[:: 4 * size]
    # A group is left with p or 2 p, so that the shares of time in the groups are in proportion to 1 or 1/2.
    lasts = [np.array(x) for x in np.ndindex(2, 2, 2)]
    best = max(float((1.0 + x) @ pay[:, 0] / (1.0 + x).sum()) for x in lasts)
    plan = conrl.plan(mdp)
    assert plan.status == "optimal"
    assert plan.reward == pytest.approx(best, rel=1e-12)


def climb(states: int, step: float, leads_back: bool) -> conrl.ConstrainedMDP:
    """Each state but the last may stay, or climb with probability `step` and else fall to the first; only the last,
    which is kept, pays. It takes about step^-states steps to come there. With `leads_back`, the door to the last one
    cannot stay."""
    n = states
    P = np.zeros((n + 1, 2, n + 1))
    for s in range(n):
        P[s, 0, s] = 1.0
        P[s, 1, 0] = 1.0 - step
        P[s, 1, s + 1] += step
    if leads_back:
        P[n - 1, 0] = np.eye(n + 1)[0]
    P[n, :, n] = 1.0
    pay = np.zeros((n + 1, 2))
    pay[n] = 1.0
    return conrl.ConstrainedMDP(P, pay, pay[..., None], conrl.Average())


def test_who_leads_to_a_door_never_stays_before_it() -> None:
    mdp = climb(3, 1e-12, leads_back=True)
    plan = conrl.plan(mdp)
    assert plan.reward == pytest.approx(1.0, rel=1e-12)
    assert plan.policy.probabilities[:3, 1] == pytest.approx(1.0)


@pytest.mark.parametrize(("states", "step"), [(3, 1e-12), (5, 1e-6), (28, 0.1)])
def test_what_is_seldom_reached_counts_in_the_long_run(states: int, step: float) -> None:
    """Even where it takes 1e28 steps and more."""
    mdp = climb(states, step, leads_back=False)
    assert conrl.feasibility(mdp, [1.0]).greatest[0] == pytest.approx(1.0, rel=1e-12)
    plan = conrl.plan(mdp)
    assert plan.status == "optimal"
    assert 1.0 <= plan.bound <= 1.0 + 1e-9
    assert plan.reward == pytest.approx(1.0, rel=1e-12)
    assert plan.policy.probabilities[:-1, 1] == pytest.approx(1.0)


def test_a_bound_holds_where_steps_are_not_told() -> None:
    """A total: the last step before the end pays, time and again."""
    n, step = 5, 1e-7
    P, pay = np.zeros((n + 1, 2, n + 1)), np.zeros((n + 1, 2))
    for s in range(n):
        P[s, 1, s] = 1.0
        P[s, 0, max(s - 1, 0)] = 1.0 - step
        P[s, 0, s + 1] += step
    P[n, :, n] = 1.0
    pay[n - 1, 0] = 1.0
    plan = conrl.plan(conrl.ConstrainedMDP(P, pay, pay[..., None], conrl.Total()))
    assert plan.bound >= 1e7
    assert plan.reward == pytest.approx(1e7, rel=1e-9)
    assert plan.status == "inaccurate"


@pytest.mark.parametrize("seldom", [1e-9, 3e-10])
def test_rewards_and_costs_of_long_totals_cancel_to_the_last_digit(seldom: float) -> None:
    """At the price of the limit, a policy that ends soon and one that goes on for 1e9 steps are worth the same."""
    ends, rewards, costs, limit = (seldom, 0.03), (0.7, 0.3), (0.9, 0.2), 8.0
    P = [[[1.0 - p, p] for p in ends], [[0.0, 1.0]] * 2]
    mdp = conrl.ConstrainedMDP(P, [rewards, (0.0, 0.0)], [[[c] for c in costs], [[0.0]] * 2], conrl.Total())
    # Rows are taken in proportion.
    often = [Fraction(p) / (Fraction(p) + Fraction(1.0 - p)) for p in ends]
    (r0, c0), (r1, c1) = ((Fraction(r) / p, Fraction(c) / p) for r, c, p in zip(rewards, costs, often, strict=True))
    best = r1 + (r0 - r1) / (c0 - c1) * (Fraction(limit) - c1)
    plan = conrl.plan(mdp, [limit])
    assert plan.status == "optimal"
    assert Fraction(plan.bound) >= best
    assert plan.gap <= 1e-9
    assert plan.reward == pytest.approx(float(best), rel=1e-9)


def test_a_cost_that_is_seldom_paid_is_known_in_proportion() -> None:
    """The chance of a state that is as good as never come to, 2e-9, against its formula."""
    up, broken, repaired = 1e-4, 1e-5, 0.5
    P = [[[1.0 - up, up, 0.0]], [[1.0 - broken, 0.0, broken]], [[repaired, 0.0, 1.0 - repaired]]]
    mdp = conrl.ConstrainedMDP(P, [[1.0]] * 3, [[[0.0]], [[0.0]], [[1.0]]], conrl.Average())
    seldom = up * broken / repaired
    found = conrl.feasibility(mdp, [1.0])
    assert [found.least[0], found.greatest[0]] == pytest.approx([seldom / (1.0 + up + seldom)] * 2, rel=1e-7, abs=0.0)

"""The compiled loops against plain numpy, against each other, and against what an earlier call left behind."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from bank import CASES, best_total, dense, random_model, reached, still, value_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import Spec, specs

import conrl
from conrl import kernels
from conrl.model.transform import with_own_steps
from conrl.oracles import BackwardInduction
from conrl.sampling import UNBOUND, Dynamics, draw

Float = NDArray[np.float64]
Table = NDArray[Any]

SIZES = [1, 2, 7, 8, 9, 13, 16, 17, 31]


def layered(seed: int, layers: int, width: int) -> conrl.ConstrainedMDP:
    """The step is in the state, and one more layer is never entered."""
    rng = np.random.default_rng(seed)
    S = (layers + 1) * width
    P = np.zeros((S, 3, S))
    for s in range(S):
        to = min(s // width + 1, layers - 1) * width
        for a in range(3):
            P[s, a, to + rng.integers(width)] += 0.4
            P[s, a, to + rng.integers(width)] += 0.6
    mask = rng.random((S, 3)) < 0.7
    mask[np.arange(S), rng.integers(3, size=S)] = True
    return conrl.ConstrainedMDP(P, rng.normal(size=(S, 3)), rng.normal(size=(S, 3, 2)), layers, available=mask)


def models() -> list[conrl.ConstrainedMDP]:
    made = [random_model(n, n, 1 + n % 4, 1 + n % 7, 2) for n in SIZES]
    made += [layered(1, 6, 3), layered(2, 11, 5)]
    mask = np.random.default_rng(5).random((19, 5)) < 0.4
    mask[:, 3] = True
    made.append(random_model(19, 19, 5, 6, 2, available=mask))
    made.append(random_model(20, 10, 3, 5, 2).replace(initial=np.full(10, 0.1)))
    return made


MODELS = models()
each = pytest.mark.parametrize("mdp", MODELS, ids=lambda m: f"S{m.num_states}A{m.num_actions}H{m.horizon}")


def directions(seed: int, n: int, d: int) -> Float:
    return np.random.default_rng(seed).normal(size=(n, 1 + d))


def sweep_one(mdp: conrl.ConstrainedMDP, pay: Float, tie: float) -> tuple[Float, Table]:
    """Values [n] and choices [H, n] by position, of `backward`; pay is [P] by position."""
    reach = mdp.reach
    slot_pair, lines = kernels.interleave(tuple(reach.graph))
    blocks = lines[0].size - 1
    padded = np.append(pay, -np.inf)[slot_pair]
    values = np.zeros((2, blocks, kernels.LANES))
    choice = np.zeros((reach.rows, kernels.LANES), dtype=np.uint16)
    kernels.backward(lines, reach.occupied, padded, tie, values, choice, 0, mdp.horizon, 0, 1)
    n = reach.order.size
    return values[mdp.horizon % 2].reshape(-1)[:n], by_position(mdp, choice.reshape(-1, 1))[:, :, 0]


def by_position(mdp: conrl.ConstrainedMDP, choice: Table) -> Table:
    """[H, n, lanes]: the rows [M * LANES, lanes] of the blocks of each step, put in their places; 0 elsewhere."""
    reach, blocks = mdp.reach, -(-mdp.reach.order.size // kernels.LANES)
    full = np.zeros((mdp.horizon, blocks, kernels.LANES, choice.shape[1]), dtype=choice.dtype)
    rows = choice.reshape(-1, kernels.LANES, choice.shape[1])
    for h in range(mdp.horizon):
        count = reach.hi[h] - reach.lo[h]
        full[h, reach.blocks[reach.lo[h] : reach.hi[h]]] = rows[reach.at[h] : reach.at[h] + count]
    return full.reshape(mdp.horizon, -1, choice.shape[1])[:, : reach.order.size]


def sweep_many(mdp: conrl.ConstrainedMDP, pay: Float, tie: Float) -> tuple[Float, Table]:
    """The same of `backward_many`: pay [P, LANES]; values [n, LANES], choices [H, n, LANES]."""
    reach, n = mdp.reach, mdp.reach.order.size
    values = np.zeros((2, n, kernels.LANES))
    choice = np.zeros((reach.rows * kernels.LANES, kernels.LANES), dtype=np.uint16)
    swept = pay, tie, values, choice, 0, mdp.horizon, 0, 1
    kernels.backward_many(tuple(reach.graph), reach.occupied, *swept)
    return values[mdp.horizon % 2], by_position(mdp, choice)


# -- backward induction ---------------------------------------------------------------------------------------


@each
def test_one_and_many_directions_give_the_same_bits(mdp: conrl.ConstrainedMDP) -> None:
    W = directions(1, kernels.LANES, mdp.num_costs)
    pay = mdp.pay[mdp.reach.pairs] @ W.T
    tie = np.full(kernels.LANES, 1e-13)
    values, choice = sweep_many(mdp, pay, tie)
    start = mdp.reach.initial > 0.0
    occupied = reached(dense(mdp))[:, mdp.reach.order]
    for i in range(kernels.LANES):
        one, chosen = sweep_one(mdp, pay[:, i], 1e-13)
        assert one[start].tobytes() == values[start, i].tobytes()
        assert (chosen == choice[:, :, i])[occupied].all()


@each
def test_support_is_the_maximum_over_all_states(mdp: conrl.ConstrainedMDP) -> None:
    """`best_total` sweeps every state at every step: pruning must not change the answer."""
    oracle = BackwardInduction(mdp)
    W = directions(2, 11, mdp.num_costs)
    many = oracle.support_many(W)
    for i, w in enumerate(W):
        truth = best_total(mdp, w)
        size = 1e-12 * max(1.0, abs(truth))
        single = oracle.support(w)
        assert abs(single.value - truth) <= size
        assert abs(many.values[i] - truth) <= size
        assert abs(single.point @ w - truth) <= size
        assert abs(many.points[i] @ w - truth) <= size
        assert np.abs(value_of(mdp, single.policy.probabilities) - single.point).max() <= 1e-12 * mdp.horizon
        assert np.array_equal(single.mean, single.point)  # no bonus


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_support_of_random_models(spec: Spec) -> None:
    mdp, _ = spec.build()
    oracle = BackwardInduction(mdp)
    W = directions(spec.seed % 1000, 4, mdp.num_costs)
    values, points, *_ = oracle.support_many(W)
    for w, value, point in zip(W, values, points, strict=True):
        truth = best_total(mdp, w)
        size = 1e-12 * max(1.0, mdp.horizon * float(np.abs(w) @ oracle.scale))
        assert abs(value - truth) <= size
        assert abs(w @ point - truth) <= size
        found = conrl.evaluate(mdp, oracle.policy(w))
        assert abs(w @ np.concatenate(([found.reward], found.costs)) - truth) <= size


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs(), st.integers(3, 17), st.booleans())
def test_a_direction_has_the_same_answer_alone_and_among_others(spec: Spec, many: int, strict: bool) -> None:
    """To the bit, and the policy made for it later is the one whose value was found: whatever ties, and nearly ties."""
    mdp, _ = spec.build()
    if spec.seed % 2:
        mdp = mdp.with_bonus(np.random.default_rng(spec.seed).random((mdp.num_states, mdp.num_actions)))
    oracle = BackwardInduction(mdp).strict() if strict else BackwardInduction(mdp)
    W = directions(spec.seed % 1000, many, mdp.num_costs) / 3.0
    together = oracle.support_many(W)
    for i, w in enumerate(W):
        alone = oracle.support_many(w[None])
        assert [x.tobytes() for x in alone[:3]] == [x[i : i + 1].tobytes() for x in together[:3]]
        mean = conrl.evaluate(mdp, oracle.policy(w))
        size = 1e-12 * mdp.horizon * oracle.scale
        assert (np.abs(np.array([mean.reward, *mean.costs]) - together.means[i]) <= size).all()


def test_support_with_a_bonus_moves_each_coordinate_in_favour_of_w() -> None:
    inner = random_model(8, 11, 3, 6, 2)
    bonus = np.random.default_rng(8).random((11, 3, 3))
    mdp = inner.with_bonus(bonus)
    oracle = BackwardInduction(mdp)
    for w in np.vstack((directions(3, 9, 2), [[1.0, 0.0, -2.0]])):
        found = oracle.support(w)
        assert abs(found.value - best_total(mdp, w)) <= 1e-12 * max(1.0, abs(found.value))
        assert abs(found.point @ w - found.value) <= 1e-11
        assert np.abs(found.mean - value_of(inner, found.policy.probabilities)).max() <= 1e-12
        moved = value_of(
            conrl.ConstrainedMDP(inner.transitions, bonus[:, :, 0], bonus[:, :, 1:], 6), found.policy.probabilities
        )
        assert np.abs(found.point - found.mean - np.sign(w) * moved).max() <= 1e-11


def test_ties_go_to_the_lowest_index() -> None:
    mdp = still([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], 4)
    assert (BackwardInduction(mdp).policy(np.array([1.0, 0.0])).actions == 0).all()
    later = still([0.0, 1.0, 1.0, 0.5], [0.0] * 4, 4)
    assert (BackwardInduction(later).policy(np.array([1.0, 0.0])).actions == 1).all()
    missing = conrl.ConstrainedMDP(np.ones((1, 4, 1)), [[5.0, 1.0, 1.0, 1.0]], None, 3, available=[[0, 0, 1, 1]])
    assert (BackwardInduction(missing).policy(np.array([1.0])).actions == 2).all()


def test_rounding_is_a_tie_but_the_value_is_the_maximum() -> None:
    more = np.nextafter(1.0, 2.0)
    mdp = still([1.0, more], [0.0, 0.0], 1)
    oracle = BackwardInduction(mdp)
    w = np.array([1.0, 0.0])
    assert oracle.policy(w).actions[0, 0] == 0
    assert oracle.support(w).value == more
    assert oracle.support_many(np.tile(w, (5, 1))).values.tolist() == [more] * 5
    clear = BackwardInduction(still([1.0, 1.0 + 1e-12], [0.0, 0.0], 1))
    assert clear.policy(w).actions[0, 0] == 1


# -- the order of work ----------------------------------------------------------------------------------------


@each
def test_what_is_kept_covers_what_can_be_occupied(mdp: conrl.ConstrainedMDP) -> None:
    reach, truth = mdp.reach, reached(dense(mdp))
    assert set(reach.order.tolist()) == set(np.flatnonzero(truth.any(axis=0)).tolist())
    position = {int(s): i for i, s in enumerate(reach.order)}
    for h in range(mdp.horizon):
        kept = set(reach.blocks[reach.lo[h] : reach.hi[h]].tolist())
        needed = {position[int(s)] // kernels.LANES for s in np.flatnonzero(truth[h])}
        assert needed <= kept
        assert len(kept) == reach.hi[h] - reach.lo[h]


def test_layers_are_not_swept_at_other_steps() -> None:
    mdp = layered(3, 20, 8)
    swept = mdp.reach.hi - mdp.reach.lo
    assert mdp.reach.order.size <= 20 * 8
    assert swept.max() <= 3


@each
def test_interleaving_loses_nothing(mdp: conrl.ConstrainedMDP) -> None:
    graph = mdp.reach.graph
    slot_pair, (block_first, slot_start, successor, probability) = kernels.interleave(tuple(graph))
    n, P = graph.first.size - 1, graph.start.size - 1
    assert sorted(slot_pair[slot_pair < P].tolist()) == list(range(P))
    assert block_first[-1] == slot_start.size - 1
    for b in range(block_first.size - 1):
        for place, slot in enumerate(range(int(block_first[b]), int(block_first[b + 1]))):
            lines = slice(int(slot_start[slot]), int(slot_start[slot + 1]))
            for lane in range(kernels.LANES):
                k, i = int(slot_pair[slot, lane]), b * kernels.LANES + lane
                if k == P:
                    assert i >= n or int(graph.first[i]) + place >= int(graph.first[i + 1])
                    assert not probability[lines, lane].any()
                    continue
                assert k == int(graph.first[i]) + place
                own = slice(int(graph.start[k]), int(graph.start[k + 1]))
                size = own.stop - own.start
                assert np.array_equal(probability[lines, lane][:size], graph.probability[own])
                assert np.array_equal(successor[lines, lane][:size], graph.successor[own])
                assert not probability[lines, lane][size:].any()


# -- nothing leaks from call to call --------------------------------------------------------------------------


@each
def test_no_answer_depends_on_an_earlier_one(mdp: conrl.ConstrainedMDP) -> None:
    W = directions(4, 10, mdp.num_costs)
    used = BackwardInduction(mdp)
    for w in W:  # fill the scratch with something else each time
        used.support(-w)
        used.support_many(-W)
        used.policy(3.0 * w[::-1])
        again, fresh = used.support(w), BackwardInduction(mdp).support(w)
        assert again.value == fresh.value
        assert again.point.tobytes() == fresh.point.tobytes()
        assert np.array_equal(used.policy(w).actions, BackwardInduction(mdp).policy(w).actions)
    one, two = used.support_many(W), BackwardInduction(mdp).support_many(W)
    assert one.values.tobytes() == two.values.tobytes()
    assert one.points.tobytes() == two.points.tobytes()


def test_infinite_pay_of_missing_actions_never_leaks() -> None:
    case = CASES["five actions beside one"]
    oracle = BackwardInduction(case.mdp)
    for w in directions(5, 20, 1):
        found = oracle.support(w)
        assert np.isfinite(found.value)
        assert np.isfinite(found.point).all()
        found.policy.check(case.mdp)


# -- forward --------------------------------------------------------------------------------------------------


@each
def test_visits_and_occupations_agree_with_numpy(mdp: conrl.ConstrainedMDP) -> None:
    m = dense(mdp)
    w = directions(6, 1, mdp.num_costs)[0]
    policy = BackwardInduction(mdp).policy(w)
    truth = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    mu = mdp.initial
    for h in range(mdp.horizon):
        truth[h] = mu[:, None] * policy.probabilities[h]
        mu = np.einsum("sa,sat->t", truth[h], m.P)
    assert np.abs(policy.occupation(mdp) - truth).max() <= 1e-14
    markov = conrl.Policy(policy.probabilities)
    assert np.abs(markov.occupation(mdp) - truth).max() <= 1e-14

    reach, n = mdp.reach, mdp.reach.order.size
    _, chosen = sweep_one(mdp, reach_pay(mdp, w), 4e-15 * mdp.horizon * float(np.abs(w) @ np.abs(mdp.pay).max(axis=0)))
    choice = np.zeros((reach.rows, kernels.LANES), dtype=np.uint16)
    for h in range(mdp.horizon):
        padded = np.zeros(-(-n // kernels.LANES) * kernels.LANES, dtype=np.uint16)
        padded[:n] = chosen[h]
        kept = reach.blocks[reach.lo[h] : reach.hi[h]]
        choice[reach.at[h] : reach.at[h] + kept.size] = padded.reshape(-1, kernels.LANES)[kept]
    counts, mu = np.zeros(reach.pairs.size), np.zeros((2, 1, n))
    mu[0, 0] = reach.initial
    kernels.visits(tuple(reach.graph), reach.occupied, choice.reshape(-1), 1, 0, mu, counts, 0, mdp.horizon, 0)
    assert not mu.any()
    by_pair = np.zeros(mdp.num_pairs)
    by_pair[reach.pairs] = counts
    assert np.abs(by_pair - truth.sum(axis=0)[mdp.pair_state, mdp.action]).max() <= 1e-13


def reach_pay(mdp: conrl.ConstrainedMDP, w: Float) -> Float:
    pay: Float = mdp.pay[mdp.reach.pairs] @ w
    return pay


@each
def test_occupation_of_a_random_policy(mdp: conrl.ConstrainedMDP) -> None:
    rng = np.random.default_rng(9)
    table = rng.random((mdp.horizon, mdp.num_states, mdp.num_actions)) * mdp.available
    policy = conrl.Policy(table / table.sum(axis=2, keepdims=True))
    rho = policy.occupation(mdp)
    assert np.abs(rho.sum(axis=(1, 2)) - 1.0).max() <= 1e-13
    value = np.einsum("hsa,sai->i", rho, dense(mdp).pay)
    assert np.abs(value - value_of(mdp, policy.probabilities)).max() <= 1e-12
    weighted = np.ones((1, mdp.num_pairs))
    policy.add_occupation(mdp, 0.25, weighted)
    assert np.abs(weighted[0] - 1.0 - 0.25 * rho.sum(axis=0)[mdp.pair_state, mdp.action]).max() <= 1e-13


# -- simulation -----------------------------------------------------------------------------------------------


def test_simulated_frequencies() -> None:
    """Four outcomes, each paying into its own account: shares within five standard errors."""
    p = np.array([0.5, 0.3, 0.15, 0.05])
    mdp = conrl.ConstrainedMDP.from_outcomes(
        [0] * 4, [0] * 4, [0] * 4, p, np.column_stack((np.zeros(4), np.eye(4))), num_states=1, num_actions=1, horizon=1
    )
    n = 40_000
    costs = conrl.simulate(mdp, conrl.Deterministic([[0]], 1), episodes=n, seed=1).costs
    assert (costs.sum(axis=1) == 1.0).all()
    assert (np.abs(costs.mean(axis=0) - p) <= 5.0 * np.sqrt(p * (1 - p) / n)).all()


def test_simulation_draws_starts_and_actions_with_their_probabilities() -> None:
    P = np.zeros((3, 2, 3))
    P[:, :, 0] = 1.0
    costs = np.zeros((3, 2, 4))
    costs[[0, 1, 2], :, [0, 1, 2]] = 1.0  # which state
    costs[:, 1, 3] = 1.0  # which action
    mdp = conrl.ConstrainedMDP(P, np.zeros((3, 2)), costs, 1, initial=[0.2, 0.0, 0.8])
    policy = conrl.Policy(np.tile([0.9, 0.1], (1, 3, 1)))
    n = 40_000
    share = conrl.simulate(mdp, policy, episodes=n, seed=2).costs.mean(axis=0)
    truth = np.array([0.2, 0.0, 0.8, 0.1])
    assert share[1] == 0.0
    assert (np.abs(share - truth) <= 5.0 * np.sqrt(truth * (1 - truth) / n)).all()


def test_an_outcome_without_probability_never_happens() -> None:
    P = np.zeros((3, 1, 3))
    P[:, 0] = [0.5, 0.0, 0.5]
    mdp = conrl.ConstrainedMDP(P, [[0.0], [1.0], [0.0]], None, 30)
    assert not conrl.simulate(mdp, conrl.Deterministic(np.zeros((30, 3), int), 1), episodes=2000).rewards.any()


def test_without_a_place_for_the_cache_kernels_are_compiled_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who can write neither beside the source nor at home."""

    def nowhere(function: Any) -> Any:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr("conrl.kernels.cache.HealingCache", nowhere)
    twice: Any = kernels.compiled(lambda x: 2.0 * x)
    assert twice(21.0) == 42.0


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_is_collected_after_compiling_as_before(
    collecting: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # where nothing is compiled yet
    within: list[bool] = []
    kernel: Any = kernels.compiled(lambda x: x + 1)
    inner = kernel._compiler.compile

    def compile_and_look(*given: Any) -> Any:
        within.append(gc.isenabled())
        return inner(*given)

    kernel._compiler.compile = compile_and_look
    if not collecting:
        gc.disable()
    try:
        assert kernel(1) == 2
        with pytest.raises(numba.TypingError):
            kernel("text")
        assert within == [False, False]
        assert gc.isenabled() == collecting
    finally:
        gc.enable()


@settings(max_examples=40, deadline=None)
@given(specs(), st.integers(1, 3), st.integers(1, 30), st.booleans())
def test_a_block_is_single_episodes_with_the_same_draws(spec: Spec, parts: int, most: int, by_step: bool) -> None:
    """Same steps as `rollout` with the same draws, up to the first episode in which a pair has had its visits."""
    mdp, rng = spec.build()[0], np.random.default_rng(spec.seed)
    H, S, A = int(mdp.horizon), mdp.num_states, mdp.num_actions
    exists = np.broadcast_to(mdp.playable, (H, S, A))
    tables = rng.dirichlet(np.ones(A), size=(parts, H, S)) * exists
    tables = np.where(exists, tables + 1e-3 * exists, 0.0)
    tables /= tables.sum(axis=3, keepdims=True)
    weights = rng.dirichlet(np.ones(parts))
    which, uniform = rng.random(most), rng.random((most, H + 1, 2))
    waits = rng.integers(1, 40, size=(H * S if by_step else S, A))
    dynamics = Dynamics(mdp)
    states, actions = np.full((most, H + 1), -1), np.full((most, H), -1)
    paid = np.full((most, H, 1 + mdp.num_costs), np.nan)
    left = waits.astype(np.int64)
    count = kernels.play_block(
        *dynamics.moves, dynamics.initial, dynamics.pay, dynamics.by_outcome, mdp.action, tables, np.cumsum(weights),
        which, uniform, left, states, actions, paid,
    )  # fmt: skip
    visits = np.zeros(waits.shape, dtype=np.int64)
    for m in range(most):
        table = tables[int(draw(weights, which[m]))]
        alone = dynamics.rollout(table, dynamics.pay, uniform[m], UNBOUND)
        assert np.array_equal(states[m], alone.states)
        assert np.array_equal(actions[m], alone.actions)
        assert np.array_equal(paid[m], alone.paid)
        nodes = alone.states[:-1] + (np.arange(H) * S if by_step else 0)
        np.add.at(visits, (nodes, alone.actions), 1)
        if (visits >= waits).any():
            assert count == m + 1
            break
    else:
        assert count == most
    assert (left == waits - visits).all()
    assert (states[count:] == -1).all()


# -- threads --------------------------------------------------------------------------------------------------


@each
def test_threads_that_share_a_sweep_change_no_bit(mdp: conrl.ConstrainedMDP, monkeypatch: pytest.MonkeyPatch) -> None:
    """One direction and many, policies and whole plans; with more threads than blocks too."""
    W = directions(8, 7, mdp.num_costs)
    small = BackwardInduction(mdp)
    monkeypatch.setattr("conrl.oracles.backward_induction.WORK", 0)
    alone = BackwardInduction(mdp, 1)
    expected = alone.support_many(W)
    assert expected.values.tobytes() == small.support_many(W).values.tobytes()
    assert np.abs(expected.points - small.support_many(W).points).max() <= 1e-13 * mdp.horizon
    for threads in (2, 5):
        shared = BackwardInduction(mdp, threads)
        assert shared.threads == threads
        assert all(a.tobytes() == b.tobytes() for a, b in zip(shared.support_many(W)[:3], expected[:3], strict=True))
        for i, w in enumerate(W):
            one = shared.support(w)
            assert (one.value, one.point.tobytes()) == (expected.values[i], expected.points[i].tobytes())
            assert np.array_equal(shared.policy(w).actions, small.policy(w).actions)
            assert shared.point_error(w).tobytes() == alone.point_error(w).tobytes()
    limits = conrl.plan(mdp, conrl.Linear()).costs * 0.97
    plans = [conrl.plan(mdp, limits=limits, threads=threads) for threads in (1, 3)] if _feasible(mdp, limits) else []
    for plan in plans[1:]:
        assert (plan.reward, plan.bound, plan.iterations) == (plans[0].reward, plans[0].bound, plans[0].iterations)
        assert plan.policy.probabilities.tobytes() == plans[0].policy.probabilities.tobytes()


def _feasible(mdp: conrl.ConstrainedMDP, limits: Float) -> bool:
    try:
        conrl.plan(mdp, limits=limits)
    except conrl.InfeasibleError:
        return False
    return True


@pytest.mark.parametrize("kind", ["bonus", "by step", "both"])
def test_shared_sweeps_of_other_models(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = np.random.default_rng(5).random((19, 5)) < 0.4
    mask[:, 3] = True
    mdp = random_model(19, 19, 5, 6, 2, available=mask)
    if kind != "by step":
        mdp = mdp.with_bonus(np.random.default_rng(6).random((19, 5, 3)))
    if kind != "bonus":
        mdp = with_own_steps(mdp)
    W = directions(9, 11, 2)
    small = BackwardInduction(mdp).support_many(W)
    monkeypatch.setattr("conrl.oracles.backward_induction.WORK", 0)
    one, three = (BackwardInduction(mdp, threads).support_many(W) for threads in (1, 3))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one[:3], three[:3], strict=True))
    assert one.values.tobytes() == small.values.tobytes()
    assert np.abs(one.points - small.points).max() <= 1e-12
    assert np.abs(one.means - small.means).max() <= 1e-12

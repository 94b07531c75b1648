"""Large models, in small: the oracle that works on the model's own arrays in threads, compact policies, models from
blocks of rows. Everything is forced upon small models, where the usual way says what is right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Spec, specs

import conrl
from conrl import kernels, oracles, policy
from conrl.model import from_blocks
from conrl.oracles import BackwardInduction, LargeBackwardInduction, large
from conrl.oracles.threads import cores
from conrl.policy_json import plain
from conrl.running.worlds import ModelWorld

some = settings(max_examples=60, deadline=None)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state is a range of its own, and everything is asked for ahead."""
    monkeypatch.setattr(large, "LEAST", 1)
    monkeypatch.setattr(large, "FAR", 0)
    monkeypatch.setattr(large, "CHUNK", 3)


def directions(mdp: conrl.ConstrainedMDP, seed: int, count: int = 6) -> Any:
    """Some of any sign, and the axes, along which much ties."""
    drawn = np.random.default_rng(seed).normal(size=(count, 1 + mdp.num_costs))
    return np.vstack((drawn, np.eye(1 + mdp.num_costs), -np.eye(1 + mdp.num_costs)))


def with_bonus(mdp: conrl.ConstrainedMDP, seed: int) -> conrl.ConstrainedMDP:
    shape = mdp.num_states, mdp.num_actions, 1 + mdp.num_costs
    return mdp.with_bonus(np.random.default_rng(seed).random(shape))


# -- the oracle -------------------------------------------------------------------------------------------


@some
@given(specs(), st.booleans())
def test_it_answers_as_backward_induction_does(spec: Spec, bonus: bool) -> None:
    mdp, _ = spec.build()
    mdp = with_bonus(mdp, spec.seed) if bonus else mdp
    usual, ours = BackwardInduction(mdp), LargeBackwardInduction(mdp, 1)
    assert np.array_equal(usual.scale, ours.scale)
    W = directions(mdp, spec.seed)
    expected, found = usual.support_many(W), ours.support_many(W)
    sizes = mdp.horizon * ours.scale
    for w, a, b in zip(W, expected.values, found.values, strict=True):
        assert (
            abs(a - b)
            <= usual.support_error(w, a) + ours.support_error(w, b)
            <= 1e-12 * float(np.abs(w) @ sizes + 1e-9)
        )
        assert (np.abs(usual.point_error(w) + ours.point_error(w)) <= 1e-12 * (sizes + 1e-9)).all()
    for a, b in ((expected.points, found.points), (expected.means, found.means)):
        error = usual.rounding(sharp=True).point + ours.rounding(sharp=True).point
        assert (np.abs(a - b) <= error).all()
    low, high = ours.box
    assert (low <= usual.box[0]).all()
    assert (usual.box[1] <= high).all()
    for w in W:
        a, b = usual.policy(w).actions, ours.policy(w).actions
        assert b.dtype == np.int8
        assert (a == b)[mdp.reached].all()
        assert mdp.playable[0, np.arange(mdp.num_states), b].all()


@some
@given(specs(), st.booleans())
def test_neither_threads_nor_company_change_a_bit(spec: Spec, bonus: bool) -> None:
    mdp, _ = spec.build()
    mdp = with_bonus(mdp, spec.seed) if bonus else mdp
    W = directions(mdp, spec.seed)
    expected = LargeBackwardInduction(mdp, 1).support_many(W)
    for threads in (2, 3, 7):
        oracle = LargeBackwardInduction(mdp, threads)
        found = oracle.support_many(W)
        alone = [oracle.support(w) for w in W[:5]]
        for a, b in zip(expected[:3], found[:3], strict=True):
            assert np.array_equal(a, b)
        for i, one in enumerate(alone):
            assert one.value == expected.values[i]
            assert np.array_equal(one.point, expected.points[i])
            assert np.array_equal(one.mean, expected.means[i])
        assert np.array_equal(oracle.policy(W[0]).actions, LargeBackwardInduction(mdp, 1).policy(W[0]).actions)


@some
@given(specs())
def test_the_policy_attains_its_point(spec: Spec) -> None:
    mdp, _ = spec.build()
    oracle = LargeBackwardInduction(mdp, 2).strict()
    for w in directions(mdp, spec.seed, 3):
        answer = oracle.support(w)
        worth = conrl.evaluate(mdp, answer.policy).value
        error = oracle.point_error(w) + BackwardInduction(mdp).point_error(w)
        assert (np.abs(worth - answer.point) <= error).all()
        assert abs(float(w @ answer.point) - answer.value) <= oracle.support_error(w, answer.value) + np.abs(w) @ error


def test_a_step_lists_its_states_while_they_are_few() -> None:
    mdp = conrl.envs.random_cmdp(400, 2, 2, 1, seed=1, band=1, horizon=8)
    oracle = LargeBackwardInduction(mdp, 2)
    assert [states.size for states in oracle._lists] == mdp.reached.sum(axis=1).tolist()
    assert LargeBackwardInduction(mdp.replace(initial=np.full(400, 1 / 400)), 2)._lists[0].size == 0
    w = np.array([1.0, -0.3])
    assert oracle.support(w).value == BackwardInduction(mdp).support(w).value


def test_an_estimate_is_greedy_everywhere() -> None:
    mdp = conrl.envs.mars_rover()
    log = conrl.sample_log(mdp, conrl.plan(mdp).policy, 20, seed=0)
    estimate = conrl.estimate(log, horizon=mdp.horizon)
    w = np.array([1.0, -0.5])
    usual, ours = (kind(estimate).policy(w).actions for kind in (BackwardInduction, LargeBackwardInduction))
    assert np.array_equal(usual, ours)


def test_the_size_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = conrl.envs.mars_rover()
    assert type(oracles.exact_oracle(mdp)) is BackwardInduction
    monkeypatch.setattr(oracles, "LARGE", mdp.graph.probability.size)
    oracle = oracles.exact_oracle(mdp, 3)
    assert isinstance(oracle, LargeBackwardInduction)
    assert oracle.threads == 3
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert cores() == 1
    assert LargeBackwardInduction(mdp).threads == 1


# -- plans ------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(specs())
def test_plans_are_the_same_either_way(spec: Spec) -> None:
    mdp, problem = spec.build()
    found: list[Any] = []
    for least in (10**9, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(oracles, "LARGE", least)
            try:
                found.append(conrl.plan(mdp, problem))
            except conrl.InfeasibleError as error:
                found.append(error)
    usual, ours = found
    assert type(usual) is type(ours)
    if isinstance(usual, conrl.InfeasibleError):
        return
    assert usual.status == ours.status
    scale = float(np.abs(mdp.pay).max() * mdp.horizon + 1e-9)
    # Each is within its gap of the best; where both find the same policies, they agree to the last digits.
    assert abs(usual.objective - ours.objective) <= max(usual.gap, ours.gap) + 1e-12 * scale
    assert abs(usual.bound - ours.bound) <= max(usual.gap, ours.gap) + 1e-12 * scale


def test_a_plan_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = conrl.envs.random_cmdp(200, 3, 4, 3, seed=2, horizon=12)
    usual = conrl.plan(mdp)
    monkeypatch.setattr(oracles, "LARGE", 0)
    monkeypatch.setattr(policy, "DENSE", 0)
    plans = [conrl.plan(mdp, threads=threads) for threads in (1, 2, 5)]
    for plan in plans:
        assert plan.reward == plans[0].reward
        assert plan.bound == plans[0].bound
        assert np.array_equal(plan.policy.probabilities, plans[0].policy.probabilities)
        np.testing.assert_allclose([plan.reward, *plan.costs], [usual.reward, *usual.costs], rtol=1e-12)
        np.testing.assert_allclose(conrl.evaluate(mdp, plan.policy).value, [plan.reward, *plan.costs], rtol=1e-12)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True, 10**6])
def test_threads_are_a_whole_number(threads: Any) -> None:
    with pytest.raises(conrl.SpecError, match="threads is"):
        conrl.plan(conrl.envs.mars_rover(), threads=threads)


def test_threads_are_refused_where_nothing_is_shared() -> None:
    mdp = conrl.envs.mars_rover()
    with pytest.raises(conrl.SpecError, match=r"linear-program.* has no number of threads"):
        conrl.plan(mdp, planner="linear-program", threads=2)
    with pytest.raises(conrl.SpecError, match="leave threads out"):
        conrl.plan(mdp, deterministic=True, threads=2)
    with pytest.raises(conrl.SpecError, match="leave threads out"):
        conrl.plan(mdp.replace(horizon=conrl.Discounted(0.9)), [0.3], threads=2)


# -- policies ---------------------------------------------------------------------------------------------


def mixture(mdp: conrl.ConstrainedMDP, seed: int, count: int = 3) -> conrl.Mixture:
    """Of random deterministic policies in bytes."""
    rng = np.random.default_rng(seed)
    shape = mdp.horizon, mdp.num_states
    tables = [np.empty(shape, dtype=np.int8) for _ in range(count)]
    for table, (h, s) in itertools.product(tables, np.ndindex(shape)):
        table[h, s] = rng.choice(np.flatnonzero(mdp.available[s]))
    weights = rng.dirichlet(np.ones(count))
    return conrl.Mixture(weights, [conrl.Deterministic(table, mdp.num_actions) for table in tables])


@some
@given(specs())
def test_the_sparse_markov_form_is_the_dense_one(spec: Spec) -> None:
    mdp, _ = spec.build()
    mixed = mixture(mdp, spec.seed)
    dense = mixed.to_markov(mdp)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "DENSE", 0)
        sparse = mixed.to_markov(mdp)
    assert isinstance(sparse, policy.SparsePolicy)
    assert sparse.modes.dtype == np.int8
    assert sparse.shape == dense.shape
    assert np.array_equal(sparse.probabilities, dense.probabilities)
    assert np.array_equal(sparse.mode, dense.mode)
    assert np.array_equal(sparse.occupation(mdp), dense.occupation(mdp))
    assert np.array_equal(conrl.evaluate(mdp, sparse).value, conrl.evaluate(mdp, dense).value)
    for h in range(mdp.horizon):
        assert np.array_equal(sparse.step_probabilities(h), dense.step_probabilities(h))
        for s in range(mdp.num_states):
            draws = [[p.act(h, s, np.random.default_rng(i)) for i in range(5)] for p in (sparse, dense)]
            assert draws[0] == draws[1]


def misfits() -> Iterator[tuple[conrl.ConstrainedMDP, list[conrl.Policy], str]]:
    """Mixtures that do not fit a model of 4 steps, 6 states and 3 actions, one of which is missing."""
    rng = np.random.default_rng(0)
    available = np.ones((6, 3), dtype=bool)
    available[2, 1] = False
    mdp = conrl.ConstrainedMDP(rng.dirichlet(np.ones(6), (6, 3)), rng.random((6, 3)), None, 4, available=available)
    for H, S, A in ((4, 3, 3), (4, 9, 3), (4, 6, 5), (9, 6, 3)):
        yield mdp, [conrl.Deterministic(np.full((H, S), A - 1), A)] * 2, "has shape"
    missing = np.zeros((4, 6), dtype=int)
    yield mdp, [conrl.Deterministic(missing, 3), conrl.Deterministic(np.where(np.eye(4, 6, 2), 1, 0), 3)], "not exist"
    discounted = mdp.replace(horizon=conrl.Discounted(0.9))
    yield discounted, [conrl.Deterministic(missing, 3)] * 2, "Stationary"


@pytest.mark.parametrize("dense", [10**9, -1])
def test_mixtures_that_do_not_fit_the_model_are_refused(dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels would read beyond their arrays."""
    monkeypatch.setattr(policy, "DENSE", dense)
    for mdp, parts, why in misfits():
        with pytest.raises(conrl.ModelError, match=why):
            conrl.Mixture([0.5, 0.5], parts).to_markov(mdp)


def test_the_sparse_form_has_room_for_every_part_s_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heaviest part may be in bytes, and others not."""
    monkeypatch.setattr(policy, "DENSE", -1)
    mdp = conrl.ConstrainedMDP(np.ones((1, 200, 1)), np.arange(200.0)[None], None, 1)
    parts = [conrl.Deterministic(np.zeros((1, 1), np.int8), 200), *[conrl.Deterministic([[150]], 200)] * 2]
    sparse = conrl.Mixture([0.4, 0.3, 0.3], parts).to_markov(mdp)
    assert sparse.mode.tolist() == [[150]]
    assert conrl.evaluate(mdp, sparse).reward == pytest.approx(90.0)


def test_one_place_of_a_sparse_policy_needs_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """To act, to play an episode and to write a file."""
    monkeypatch.setattr(policy, "DENSE", -1)
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    plan = conrl.plan(mdp)
    sparse = plan.mixture.to_markov(mdp)
    dense = conrl.Policy(sparse.probabilities)
    monkeypatch.setattr(policy.SparsePolicy, "probabilities", property(lambda self: pytest.fail("a table was made")))
    file, usual = conrl.PolicyFile.named(sparse, mdp), conrl.PolicyFile.named(dense, mdp)
    for h, s in np.ndindex(30, 64):
        assert file.choices(h, mdp.state_names[s]) == usual.choices(h, mdp.state_names[s])
        assert sparse.step_probabilities(h)[s].tobytes() == sparse._row(h, s).tobytes()
    assert plain(sparse) == plain(dense)
    world = ModelWorld(mdp, mdp.task)
    totals = [world.play(sparse, np.random.default_rng(seed)).costs.sum() for seed in range(300)]
    assert np.mean(totals) == pytest.approx(0.3, abs=0.15)


def test_compact_policies_are_saved_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = conrl.envs.random_cmdp(30, 3, 2, 1, seed=3, horizon=4)
    monkeypatch.setattr(policy, "DENSE", 0)
    mixed = mixture(mdp, 5)
    one: Any = mixed.to_markov(mdp)
    one.save(tmp_path / "one.npz")
    read: Any = conrl.load_policy(tmp_path / "one.npz", mdp)
    assert isinstance(read, policy.SparsePolicy)
    assert read.modes.dtype == np.int8
    assert np.array_equal(read.probabilities, one.probabilities)
    first: Any = mixed.policies[0]
    first.save(tmp_path / "first.npz")
    again: Any = conrl.load_policy(tmp_path / "first.npz", mdp)
    assert again.actions.dtype == np.int8
    assert np.array_equal(again.actions, first.actions)
    one.save(tmp_path / "one.csv", mdp)
    assert np.allclose(conrl.load_policy(tmp_path / "one.csv", mdp).probabilities, one.probabilities)
    assert np.array_equal(first.step_probabilities(2), first.probabilities[2])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"places": [1, 1]}, "places must rise"),
        ({"places": [1, 6]}, "places must rise"),
        ({"places": [-1, 1]}, "places must rise"),
        ({"places": [0.0, 1.0]}, "expected whole numbers"),
        ({"rows": [[0.5, 0.5]]}, "places has shape"),
        ({"rows": [[0.5, 0.6], [0.2, 0.8]]}, "sum to 1"),
        ({"modes": [[0, 0, 0], [0, 0, 0]]}, "most likely"),
        ({"modes": [[0, 1, 2], [0, 0, 0]]}, "actions must be in"),
    ],
)
def test_sparse_policies_are_checked(change: dict[str, Any], why: str) -> None:
    parts: dict[str, Any] = {"modes": [[0, 0, 0], [0, 1, 0]], "places": [1, 4], "rows": [[0.5, 0.5], [0.2, 0.8]]}
    assert policy.SparsePolicy(**parts).probabilities[1, 1].tolist() == [0.2, 0.8]
    with pytest.raises(conrl.ModelError, match=why):
        policy.SparsePolicy(**parts | change)


def test_sparse_policies_play_what_exists() -> None:
    available = np.array([[True, True], [True, False]])
    mdp = conrl.ConstrainedMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), None, 1, available=available)
    policy.SparsePolicy([[0, 0]], [0], [[0.5, 0.5]]).check(mdp)
    for modes, places in (([[0, 0]], [1]), ([[0, 1]], [0])):
        with pytest.raises(conrl.ModelError, match="does not exist there"):
            policy.SparsePolicy(modes, places, [[0.5, 0.5]]).check(mdp)


# -- models from blocks -----------------------------------------------------------------------------------


class Rows:
    """A model as tables, and as blocks of them."""

    def __init__(self, seed: int, S: int = 23, A: int = 3, k: int = 6, d: int = 2) -> None:
        rng = np.random.default_rng(seed)
        self.S, self.A, self.k, self.d = S, A, k, d
        self.successor = rng.integers(S, size=(S, A, k))
        self.probability = rng.dirichlet(np.ones(k), size=(S, A))
        self.probability[rng.random((S, A)) < 0.3] = np.eye(k)[0]  # zeros are left out
        self.rewards, self.costs = rng.normal(size=(S, A)), rng.random((S, A, d))

    def usual(self, **rest: Any) -> conrl.ConstrainedMDP:
        rows = np.repeat(np.arange(self.S * self.A), self.k)
        entries = self.probability.ravel(), (rows, self.successor.ravel())
        return conrl.ConstrainedMDP(
            sp.coo_array(entries, shape=(self.S * self.A, self.S)), self.rewards, self.costs, horizon=4, **rest
        )

    def blocks(self, n: int) -> Iterator[tuple[Any, ...]]:
        for i in range(0, self.S, n):
            part = slice(i, i + n)
            yield self.successor[part], self.probability[part], self.rewards[part], self.costs[part]

    def ragged(self, n: int, exists: Any) -> Iterator[tuple[Any, ...]]:
        for successor, probability, rewards, costs in self.blocks(n):
            kept, exists = exists[: rewards.shape[0]], exists[rewards.shape[0] :]
            start = np.concatenate(([0], np.cumsum(np.where(kept.ravel(), self.k, 0))))
            yield start, successor[kept].ravel(), probability[kept].ravel(), rewards, costs

    def made(self, blocks: Any, **rest: Any) -> conrl.ConstrainedMDP:
        sizes = {"num_states": self.S, "num_actions": self.A, "horizon": 4}
        return conrl.ConstrainedMDP.from_blocks(blocks, **sizes | rest)


def same(a: conrl.ConstrainedMDP, b: conrl.ConstrainedMDP) -> None:
    for x, y in zip((*a.graph, a.action, a.pay, a.initial), (*b.graph, b.action, b.pay, b.initial), strict=True):
        assert x.dtype == y.dtype
        assert x.shape == y.shape
        assert not y.flags.writeable
        if x.dtype.kind == "f":
            np.testing.assert_allclose(x, y, rtol=4e-16)  # several that lead to one state: in any order
        else:
            assert np.array_equal(x, y)


@pytest.mark.parametrize("n", [1, 5, 23, 100])
def test_blocks_make_the_usual_model(n: int) -> None:
    rows = Rows(n)
    rest = {"initial": 3, "limits": [1.0, 2.0], "cost_names": ["a", "b"]}
    usual = rows.usual(**rest)
    same(usual, rows.made(rows.blocks(n), **rest))
    same(usual, rows.made(lambda: rows.blocks(n), **rest))
    assert rows.made(rows.blocks(n), **rest).cost_names == ("a", "b")
    exists = np.random.default_rng(n).random((rows.S, rows.A)) < 0.6
    exists[:, 1] = True
    same(rows.usual(available=exists), rows.made(rows.ragged(n, exists)))


def test_many_outcomes_of_a_pair_are_sorted() -> None:
    rows = Rows(0, S=90, A=1, k=80, d=0)
    same(rows.usual(), rows.made((*block[:3], None) for block in rows.blocks(40)))


def test_the_arrays_of_a_block_may_change_afterwards() -> None:
    rows = Rows(1)
    mdp = rows.made([tuple(map(np.copy, block)) for block in rows.blocks(9)])
    given_ = list(rows.blocks(23))
    other = rows.made(given_)
    rows.probability[:], rows.successor[:], rows.rewards[:], rows.costs[:] = 0.0, 0, 9.0, 9.0
    same(mdp, other)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda r: r.successor.__setitem__((4, 1, 2), 23), r"successor index 23 is not in 0\.\.22"),
        (lambda r: r.successor.__setitem__((4, 1, 2), -1), r"successor index -1 is not in 0\.\.22"),
        (lambda r: r.probability.__setitem__((4, 1), 0.1), r"transitions\[state '4', action '1'\] sums to 0\.6"),
        (lambda r: r.probability.__setitem__((4, 1), 0.0), "sums to 0; a distribution sums to 1"),
        (
            lambda r: r.probability.__setitem__((4, 1, 2), -0.1),
            r"transitions\[state '4', action '1'\] to state .* is -0\.1",
        ),
        (lambda r: r.probability.__setitem__((4, 1, 2), np.nan), "is nan; a probability is a finite number"),
        (lambda r: r.rewards.__setitem__((4, 1), np.inf), "rewards at state '4', action '1' is inf"),
        (lambda r: r.costs.__setitem__((4, 1, 1), np.nan), "costs 'cost1' at state '4', action '1' is nan"),
    ],
)
def test_blocks_are_validated_as_every_model_is(change: Any, why: str) -> None:
    rows = Rows(2)
    change(rows)
    with pytest.raises(conrl.ModelError, match=why):
        rows.made(rows.blocks(5))


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        (7, "blocks is 7; expected an iterable"),
        ([], "the blocks have 0 states; expected 23"),
        ([7], "the block from state 0 on is 7; expected"),
        (lambda: list(Rows(2).blocks(5))[:-1], "the blocks have 20 states; expected 23"),
        (lambda: [*Rows(2).blocks(5), *Rows(2).blocks(5)], "the blocks have more than the 23 states"),
        (lambda: [(t, p, r, None if i else c) for i, (t, p, r, c) in enumerate(Rows(2).blocks(20))], "has 0 costs"),
        (lambda: [(t, p[:, :1], r, c) for t, p, r, c in Rows(2).blocks(20)], "probability has shape"),
        (lambda: [(t, p, r[:, :1], c) for t, p, r, c in Rows(2).blocks(20)], "rewards has shape"),
        (lambda: [(t, p, r, c[:1]) for t, p, r, c in Rows(2).blocks(20)], "costs has shape"),
        (lambda: [(t[:, :1], p, r, c) for t, p, r, c in Rows(2).blocks(20)], "successor has shape"),
        (lambda: [(t * 1.0, p, r, c) for t, p, r, c in Rows(2).blocks(20)], "successor has shape .* float64"),
        (lambda: [([0, 1], [0], [1.0], r, c) for _, _, r, c in Rows(2).blocks(20)], "start has shape"),
        (lambda: [([9, *[0] * 69], [0], [1.0], r, c) for _, _, r, c in Rows(2).blocks(23)], "start has shape"),
        (lambda: [([0] * 69 + [1], [0], [1.0], r, c) for _, _, r, c in Rows(2).blocks(23)], "has no action"),
    ],
)  # fmt: skip
def test_what_is_no_block_is_refused(blocks: Any, why: str) -> None:
    with pytest.raises(conrl.ModelError, match=why):
        Rows(2).made(blocks)


def test_blocks_say_themselves_what_is_available() -> None:
    with pytest.raises(TypeError, match="available"):
        Rows(2).made(Rows(2).blocks(5), available=None)


def test_blocks_may_be_empty_and_unlike() -> None:
    """A first block whose state leads everywhere does not claim memory for all others to do so, too."""
    S = 3_000
    hub = np.arange(S)[None, None], np.full((1, 1, S), 1.0 / S), np.ones((1, 1)), None
    rest = np.zeros((S - 1, 1, 1), dtype=int), np.ones((S - 1, 1, 1)), np.ones((S - 1, 1)), None
    none = np.zeros((0, 1, 2), dtype=int), np.zeros((0, 1, 2)), np.zeros((0, 1)), None
    mdp = conrl.ConstrainedMDP.from_blocks([none, hub, none, rest], num_states=S, num_actions=1, horizon=3)
    assert mdp.graph.probability.size == 2 * S - 1
    grown = from_blocks._grown(np.empty(0), 10**6, 10**6)
    assert grown.size <= from_blocks.STEP * from_blocks.LEAST


def test_few_directions_are_four() -> None:
    assert kernels.FEW == 4  # its kernel is written out

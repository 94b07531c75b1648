"""`conrl.assess`, importance sampling and tables of policies, against enumeration, plain loops and hand counts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import conrl
from conrl.estimation.deviations import deviations
from conrl.estimation.importance import Importance, importance, shares
from conrl.estimation.needs import Need
from conrl.estimation.posterior import Posterior
from conrl.io.policy_tables import read_policy_table

Float = NDArray[np.float64]
few = settings(max_examples=30, deadline=None)


# -- a process small enough to list all its episodes ----------------------------------------------------------


@dataclass(frozen=True)
class Tiny:
    """Two states, two actions, H steps; all chances are multiples of 1/4, so that a log can have them exactly."""

    horizon: int
    ends: bool  # action 1 in state 1 may end the episode
    seed: int

    def build(self) -> tuple[Float, Float, Float]:
        """Transitions [2, 2, 3] (the third is the end), pay [2, 2, 3, 2], behavior [2, 2]."""
        rng = np.random.default_rng(self.seed)
        P = np.array([[[1, 3, 0], [2, 2, 0]], [[3, 1, 0], [1, 1, 2] if self.ends else [4, 0, 0]]]) / 4.0
        pay = rng.integers(0, 4, (2, 2, 3, 2)).astype(np.float64)
        behavior = np.array([[1.0, 3.0], [2.0, 2.0]]) / 4.0
        return P, pay, behavior

    def log(self) -> list[conrl.Episode]:
        """Each possible episode, as often as its probability times 4^(2 H) says."""
        P, pay, behavior = self.build()
        made: list[conrl.Episode] = []
        for states, actions, chance, ended in _paths(P, behavior, self.horizon):
            times = chance * 16.0**self.horizon
            assert times == int(times)
            steps = list(zip(states, actions, states[1:], strict=False))
            paid = np.array([pay[s, a, t] for s, a, t in steps])
            seen = [*states[:-1], 0] if ended else states
            made += [conrl.Episode(seen, actions, paid[:, 0], paid[:, 1:], terminated=ended)] * int(times)
        return made

    def value(self, policy: Float) -> Float:
        """The exact expected totals of a policy [H, 2, 2], over all episodes."""
        P, pay, _ = self.build()
        total = np.zeros(2)
        for states, actions, chance, _ in _paths(P, policy, self.horizon):
            steps = zip(states, actions, states[1:], strict=False)
            total += chance * sum(pay[s, a, t] for s, a, t in steps)
        return total


def _paths(P: Float, policy: Float, horizon: int) -> list[tuple[list[int], list[int], float, bool]]:
    """All episodes from state 0 with a positive probability: states, actions, probability, whether it ended."""
    table = np.broadcast_to(policy, (horizon, 2, 2))
    going: list[tuple[list[int], list[int], float]] = [([0], [], 1.0)]
    done: list[tuple[list[int], list[int], float, bool]] = []
    for h in range(horizon):
        further = []
        for states, actions, chance in going:
            for a, t in itertools.product(range(2), range(3)):
                p = chance * table[h, states[-1], a] * P[states[-1], a, t]
                if p > 0.0:
                    one = ([*states, t], [*actions, a], p)
                    if t == 2:
                        done.append((*one, True))
                    else:
                        further.append(one)
        going = further
    return done + [(*one, False) for one in going]


def some_tables(horizon: int, states: int, actions: int, seed: int, count: int = 1) -> list[Float]:
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.ones(actions), (horizon, states)) for _ in range(count)]


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("horizon", [1, 2])
def test_weighted_episodes_have_the_exact_value_where_the_log_has_every_episode(horizon: int, ends: bool) -> None:
    tiny = Tiny(horizon, ends, 5)
    episodes, (_, _, behavior) = tiny.log(), tiny.build()
    for seed in range(3):
        one, two = some_tables(horizon, 2, 2, seed, 2)
        for parts in ([(1.0, one)], [(0.3, one), (0.7, two)]):
            found = importance(parts, behavior, episodes, 0.95, 0)
            expected = sum((w * tiny.value(table) for w, table in parts), np.zeros(2))
            np.testing.assert_allclose(found.mean.value, expected, rtol=1e-12)
            assert found.episodes == len(episodes)
            assert (found.low.value <= found.mean.value).all()
            assert (found.mean.value <= found.high.value).all()


def slowly(parts: Sequence[tuple[float, Float]], episodes: Sequence[conrl.Episode]) -> tuple[Float, float]:
    """Weighted per-decision importance sampling in plain loops; b is counted here."""
    H = parts[0][1].shape[0]
    played: dict[tuple[int, int], int] = {}
    there: dict[int, int] = {}
    for e in episodes:
        for s, a in zip(e.states.tolist(), e.actions.tolist(), strict=False):
            played[s, a] = played.get((s, a), 0) + 1
            there[s] = there.get(s, 0) + 1
    weights = np.zeros((H, len(episodes)))
    for i, e in enumerate(episodes):
        for share, table in parts:
            w = share
            for h in range(H):
                if h < len(e):
                    s, a = int(e.states[h]), int(e.actions[h])
                    w *= table[h, s, a] * there[s] / played[s, a]
                weights[h, i] += w
    total = np.zeros(episodes[0].pay.shape[1])
    for h in range(H):
        paid = np.array([e.pay[h] if h < len(e) else 0.0 * e.pay[0] for e in episodes])
        total += weights[h] @ paid / weights[h].sum() if weights[h].sum() > 0.0 else np.nan
    last = weights[-1]
    return total, float(last.sum() ** 2 / (last**2).sum()) if last.any() else 0.0


def random_log(seed: int, episodes: int, horizon: int, ends: bool) -> list[conrl.Episode]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(episodes):
        L = int(rng.integers(1, horizon + 1)) if ends else horizon
        actions = rng.integers(2, size=L)
        cost = (rng.random((L, 1)) < 0.2 + 0.4 * actions[:, None]).astype(np.float64)
        states = rng.integers(3, size=L + 1)
        states[0] = 0
        made.append(conrl.Episode(states, actions, rng.integers(0, 3, L), cost, terminated=bool(horizon > L)))
    return made


@few
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4), st.booleans(), st.integers(1, 3))
def test_weighted_episodes_by_plain_loops(seed: int, count: int, horizon: int, ends: bool, mixed: int) -> None:
    episodes = random_log(seed, count, horizon, ends)
    tables = some_tables(horizon, 3, 2, seed, mixed)
    weights = np.random.default_rng(seed).dirichlet(np.ones(mixed))
    parts = list(zip(weights.tolist(), tables, strict=True))
    visits = np.zeros((3, 2), dtype=np.int64)
    for e in episodes:
        np.add.at(visits, (e.states[:-1], e.actions), 1)
    found = importance(parts, shares(visits), episodes, 0.9, 0)
    mean, effective = slowly(parts, episodes)
    np.testing.assert_allclose(found.mean.value, mean, rtol=1e-10)
    assert found.effective == pytest.approx(effective)
    assert 0.0 < found.effective <= count * (1.0 + 1e-9)


def test_playing_what_was_played_is_the_plain_mean() -> None:
    """One state: what was played there is the behavior, at every step alike, and every weight is 1 in the mean."""
    rng = np.random.default_rng(1)
    episodes = []
    for _ in range(300):
        cost = (rng.random((1, 1)) < 0.3).astype(np.float64)
        episodes.append(conrl.Episode([0, 0], rng.integers(2, size=1), rng.normal(size=1), cost))
    share = np.mean([e.actions[0] == 1 for e in episodes])
    found = conrl.assess(conrl.Policy([[[1.0 - share, share]]]), episodes).importance
    assert found is not None
    totals = np.array([e.total for e in episodes])
    np.testing.assert_allclose(found.mean.value, totals.mean(axis=0), rtol=1e-12)
    assert found.effective == pytest.approx(300.0)
    assert not found.worthless
    assert found.message == "rests on 300 of 300 episodes (effectively)"
    # The bootstrap's interval is that of the mean of so many episodes.
    width = 2.0 * 1.96 * totals.std(axis=0) / np.sqrt(300.0)
    np.testing.assert_allclose(found.high.value - found.low.value, width, rtol=0.15)


def worn() -> conrl.ConstrainedMDP:
    """The machine of the tutorial: what is best changes towards the last step."""
    pay: list[list[float]] = [
        *([[10.0, 0.0, 3.0]] * 2), *([[6.0, 0.0, 1.0]] * 2), *([[9.0, 0.0, 4.0]] * 2), *([[5.0, 0.0, 1.5]] * 2),
        [0, 1, 0], [-5, 1, 0], [0, 0, 0],
    ]  # fmt: skip
    return conrl.ConstrainedMDP.from_outcomes(
        [0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2], [0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3], [0, 1, 0, 1, 1, 2, 1, 2, 0, 0, 2],
        [0.7, 0.3, 0.9, 0.1, 0.5, 0.5, 0.8, 0.2, 1.0, 1.0, 1.0], pay,
        num_states=3, num_actions=4, horizon=20, initial=0, cost_names=["repairs", "energy"],
    )  # fmt: skip


@pytest.mark.parametrize("chance", [0.0, 0.2, 1.0])
def test_the_policy_that_wrote_the_log_is_covered_whether_it_depends_on_the_step_or_not(chance: float) -> None:
    mdp = worn()
    available = mdp.available / mdp.available.sum(axis=1, keepdims=True)
    table = (1.0 - chance) * conrl.plan(mdp, {"repairs": 2.0, "energy": 35.0}).policy.probabilities + chance * available
    truth, held, effective = conrl.evaluate(mdp, conrl.Policy(table)).value, np.zeros(3), 0.0
    for seed in range(20):
        episodes = conrl.sample_log(mdp, conrl.Policy(table), 200, seed=seed).episodes
        visits = np.zeros((3, 4), dtype=np.int64)
        for e in episodes:
            np.add.at(visits, (e.states[:-1], e.actions), 1)
        found = importance([(1.0, table)], shares(visits, episodes, 20), episodes, 0.95, 0)
        held += (found.low.value <= truth) & (truth <= found.high.value)
        effective += found.effective / 20
    assert (held >= 16).all()
    assert effective > 140.0  # of 200: every weight should be 1


def test_steps_that_are_alike_lend_to_each_other() -> None:
    """A habit that is the same at every step is told as well as all steps together tell it."""
    rng = np.random.default_rng(0)
    episodes = [conrl.Episode([0] * 41, rng.binomial(1, 0.3, 40), [0.0] * 40, [[0.0]] * 40) for _ in range(5)]
    visits = np.bincount(np.concatenate([e.actions for e in episodes]), minlength=2)[None]
    found = shares(visits, episodes, 40)
    assert np.abs(found[:, 0, 1] - visits[0, 1] / 200).mean() < 0.06  # each alone: 0.16


def test_few_effective_episodes_are_worthless() -> None:
    episodes = [conrl.Episode([0, 0], [int(i < 20)], [1.0], [[1.0 * (i < 5)]]) for i in range(400)]
    found = conrl.assess(conrl.Policy([[[0.0, 1.0]]]), episodes).importance
    assert found is not None
    assert found.effective == pytest.approx(20.0)
    assert found.worthless
    assert found.message.startswith("worthless: it rests on 20 of 400 episodes")
    np.testing.assert_allclose(found.mean.value, [1.0, 0.25])
    enough = conrl.assess(conrl.Policy([[[0.5, 0.5]]]), episodes).importance
    assert enough is not None
    assert enough.effective > 50.0
    assert not enough.worthless


def test_nothing_is_said_where_nobody_did_what_the_policy_does() -> None:
    """Each action was played, but never one after the other."""
    episodes = [conrl.Episode([0, 1, 1], [a, a], [1.0, 1.0], [[0.0], [1.0]]) for a in (0, 1)] * 30
    table = np.zeros((2, 2, 2))
    table[0, :, 0] = table[1, :, 1] = 1.0
    found = conrl.assess(conrl.Policy(table), episodes)
    assert found.importance is not None
    assert np.isnan(found.importance.mean.value).all()
    assert np.isnan(found.importance.low.value).all()
    assert found.importance.effective == 0.0
    assert found.importance.worthless
    assert np.isfinite(found.draws).all()


def test_weights_are_scaled_with_the_share_of_episodes() -> None:
    one = conrl.Evaluation(np.array([2.0, 1.0]))
    found = Importance(one, one, one, 70.0, 100).scaled(0.25)
    np.testing.assert_array_equal(found.high.value, [0.5, 0.25])
    assert (found.effective, found.episodes) == (70.0, 100)


def test_long_episodes_that_hardly_anybody_played_do_not_overflow() -> None:
    """One of 100 episodes did what the policy does: a weight of 100 at each of 200 steps."""
    H = 200
    episodes = [conrl.Episode([0] * (H + 1), [int(i == 0)] * H, [1.0] * H, [[0.0]] * H) for i in range(100)]
    table = np.zeros((H, 1, 2))
    table[:, :, 1] = 1.0
    found = conrl.assess(conrl.Policy(table), episodes).importance
    assert found is not None
    np.testing.assert_allclose(found.mean.value, [H, 0.0])
    assert found.effective == pytest.approx(1.0)


# -- one policy in many forms ---------------------------------------------------------------------------------

STATES = ("depot", "yard", "road")
ACTIONS = ("wait", "go")


def named_log(episodes: int = 200, seed: int = 3) -> conrl.Log:
    """States and actions with names; some episodes terminate."""
    return conrl.Log(tuple(random_log(seed, episodes, 4, True)), ("harm",), STATES, ACTIONS)


def named_policy() -> conrl.Policy:
    return conrl.Policy(some_tables(4, 3, 2, 8)[0])


def saved(path: Path, table: Float, states: Sequence[str], actions: Sequence[str]) -> Path:
    """A policy as CSV, by hand."""
    lines = ["step,state,action,probability"]
    for h, s, a in np.ndindex(table.shape):
        lines.append(f"{h},{states[s]},{actions[a]},{float(table[h, s, a])!r}")
    path.write_text("\n".join(lines))
    return path


def test_a_policy_in_any_form_has_the_same_numbers(tmp_path: Path) -> None:
    log, policy = named_log(), named_policy()
    table = policy.probabilities
    policy.save(tmp_path / "policy.npz")
    order, back = [2, 0, 1], [1, 0]
    names = [STATES[s] for s in order], [ACTIONS[a] for a in back]
    other = saved(tmp_path / "policy.csv", table[:, order][:, :, back], *names)
    mdp = conrl.estimate(log)
    with pytest.raises(conrl.ModelError, match="the log has names for its states, and the policy has none"):
        conrl.assess(policy, log)
    plain = conrl.assess(policy, log, mdp=mdp)
    forms: list[Any] = [
        conrl.Mixture([1.0], [policy]),
        conrl.Mixture([0.25, 0.75], [policy, policy]),
        tmp_path / "policy.npz",
        str(other),
    ]
    for form in forms:
        found = conrl.assess(form, log, mdp=mdp)
        np.testing.assert_allclose(found.draws, plain.draws, rtol=1e-12)
        assert found.importance is not None
        assert plain.importance is not None
        np.testing.assert_allclose(found.importance.mean.value, plain.importance.mean.value, rtol=1e-12)
        assert found.importance.effective == pytest.approx(plain.importance.effective)
        for ours, theirs in zip(found.coverage, plain.coverage, strict=True):
            assert (ours.state, ours.steps) == (theirs.state, theirs.steps)
            assert ours[1:] == pytest.approx(theirs[1:])
        assert found.needs[0][:4] == plain.needs[0][:4]
    model = conrl.estimate(log)
    same = conrl.assess(policy, model)
    np.testing.assert_array_equal(same.draws, plain.draws)
    assert same.importance is None
    assert same.episodes is None
    assert plain.episodes == 200


def test_a_plan_is_assessed_as_its_policy(tmp_path: Path) -> None:
    train, test = named_log().split()
    model = conrl.estimate(train)
    plan = conrl.plan(model, {"harm": 1.0})
    found = conrl.assess(plan, test)
    assert [row.name for row in found.limits] == ["harm <= 1"]  # its own
    plan.policy.save(tmp_path / "plan.csv", model)
    plan.policy.save(tmp_path / "plan.npz")
    for form in (plan.policy, tmp_path / "plan.csv", tmp_path / "plan.npz"):
        again = conrl.assess(form, test, {"harm": 1.0}, mdp=model)
        np.testing.assert_allclose(again.draws, found.draws, rtol=1e-12)
        assert again.limits == found.limits
        assert not again.planned
    table = plan.policy.probabilities
    by_hand = conrl.assess(conrl.Policy(table[:, :3]), test, {"harm": 1.0}, mdp=model)  # without what follows an end
    np.testing.assert_allclose(by_hand.draws, found.draws, rtol=1e-12)


def test_parts_of_a_mixture_are_weighed_in_the_same_models() -> None:
    log = named_log()
    one, two = (conrl.Policy(t) for t in some_tables(4, 3, 2, 8, 2))
    mdp = conrl.estimate(log)
    mixed = conrl.assess(conrl.Mixture([0.25, 0.75], [one, two]), log, mdp=mdp, draws=256)
    each = [conrl.assess(policy, log, mdp=mdp, draws=256).draws for policy in (one, two)]
    np.testing.assert_allclose(mixed.draws, 0.25 * each[0] + 0.75 * each[1], rtol=1e-12)


def test_episodes_that_are_skipped_count_as_nothing() -> None:
    log = named_log()
    model = conrl.estimate(log)
    plan = conrl.plan(model, conrl.Knapsack({"harm": 3.0}, 10))
    assert 0.0 < plan.skip < 1.0
    found, played = conrl.assess(plan, log), conrl.assess(plan.policy, log, mdp=plan.mdp)
    np.testing.assert_allclose(found.draws, (1.0 - plan.skip) * played.draws, rtol=1e-12)
    assert found.importance is not None
    assert played.importance is not None
    np.testing.assert_allclose(found.importance.low.value, (1.0 - plan.skip) * played.importance.low.value)
    assert [row.name for row in found.limits] == [row.name for row in plan.rows]


# -- limits, intervals, and what is said ----------------------------------------------------------------------


def two_costs() -> list[conrl.Episode]:
    rng = np.random.default_rng(5)
    made = []
    for _ in range(60):
        actions = rng.integers(2, size=3)
        cost = (rng.random((3, 2)) < [0.3, 0.6]).astype(np.float64)
        made.append(conrl.Episode(rng.integers(2, size=4), actions, actions, cost))
    return made


def test_probabilities_are_shares_of_the_drawn_models() -> None:
    policy = conrl.Policy(some_tables(3, 2, 2, 1)[0])
    asked = conrl.Linear({"cost0": 1.0, "cost1": 1.9}, {"cost1": 1.5})
    found = conrl.assess(policy, two_costs(), asked, level=0.8, draws=384, seed=4)
    first, second = found.draws[:, 1], found.draws[:, 2]
    keeps = np.array([first <= 1.0, second <= 1.9, second >= 1.5])
    assert found.draws.shape == (384, 3)
    assert [row.name for row in found.limits] == ["cost0 <= 1", "cost1 <= 1.9", "cost1 >= 1.5"]
    assert [row.probability for row in found.limits] == pytest.approx(keeps.mean(axis=1).tolist())
    assert found.probability == pytest.approx(keeps.all(axis=0).mean())
    assert 0.0 < found.probability < min(row.probability for row in found.limits) < 1.0
    np.testing.assert_allclose(found.low.value, np.quantile(found.draws, 0.1, axis=0))
    np.testing.assert_allclose(found.high.value, np.quantile(found.draws, 0.9, axis=0))
    np.testing.assert_allclose(found.mean.value, found.draws.mean(axis=0))
    text = repr(found)
    assert text.startswith(f"Assessment(reward {found.low.reward:.5g} to {found.high.reward:.5g}, cost0 ")
    assert text.endswith(f"at 80%; all limits hold with probability {found.probability:.3f})")
    wider = conrl.assess(policy, two_costs(), asked, level=0.99, draws=384, seed=4)
    assert (wider.low.value < found.low.value).all()
    assert (wider.high.value > found.high.value).all()


def test_limits_come_from_the_plan_else_from_the_model() -> None:
    episodes = two_costs()
    model = conrl.estimate(episodes, limits=[1.0, np.inf])
    policy = conrl.Policy(some_tables(3, 2, 2, 1)[0])
    assert [row.name for row in conrl.assess(policy, model).limits] == ["cost0 <= 1"]
    plan = conrl.plan(model, [np.inf, 2.0])
    assert [row.name for row in conrl.assess(plan, model).limits] == ["cost1 <= 2"]
    assert [row.name for row in conrl.assess(plan, model, [1.5, 2.5]).limits] == ["cost0 <= 1.5", "cost1 <= 2.5"]
    none = conrl.assess(policy, episodes)
    assert none.limits == ()
    assert np.isnan(none.probability)
    assert "probability" not in repr(none)


def test_the_same_seed_gives_the_same_bytes() -> None:
    policy = conrl.Policy(some_tables(3, 2, 2, 1)[0])
    once, again, other = (conrl.assess(policy, two_costs(), seed=seed) for seed in (7, 7, 8))
    assert once.draws.tobytes() == again.draws.tobytes()
    assert once.importance is not None
    assert again.importance is not None
    assert once.importance.low.value.tobytes() == again.importance.low.value.tobytes()
    assert not np.array_equal(once.draws, other.draws)


def test_coverage_and_basis_by_hand() -> None:
    """In state 0 action 0 was seen 40 times and action 1 ten times; in state 1, action 1 never."""
    episodes = [conrl.Episode([0, 1, 1], [int(i < 10), 0], [1.0, 0.0], [[0.0], [1.0]]) for i in range(50)]
    policy = conrl.Policy([[[0.75, 0.25], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]])
    found = conrl.assess(policy, episodes)
    assert found.basis.steps == 100
    assert found.basis.seldom == pytest.approx((0.25 + 0.5) / 2.0)
    assert found.basis.unseen == pytest.approx(0.5 / 2.0)
    assert str(found.basis) == (
        "estimated from 100 steps; 38% of its steps use pairs seen fewer than 30 times, 25% pairs never seen"
    )
    assert [(c.state, c.steps) for c in found.coverage] == [("0", 50), ("1", 50)]
    assert [c.visits for c in found.coverage] == pytest.approx([1.0, 1.0])
    assert [c.seldom for c in found.coverage] == pytest.approx([0.25, 0.5])
    assert [c.unseen for c in found.coverage] == pytest.approx([0.0, 0.5])
    assert found.message == f"{found.basis}; the intervals are for a policy that was fixed before the log was drawn"


def test_what_follows_an_end_is_no_step_of_the_policy() -> None:
    episodes = [conrl.Episode([0, 0], [0], [1.0], [[1.0]], terminated=True)] * 50
    found = conrl.assess(conrl.Policy(np.ones((10, 1, 1))), episodes)
    (only,) = found.coverage
    assert only.state == "0"
    assert only.visits == pytest.approx(1.0)
    assert found.basis.unseen == 0.0
    assert found.importance is not None
    np.testing.assert_array_equal(found.importance.mean.value, 1.0)


def test_a_plan_of_the_same_log_is_flagged() -> None:
    log = named_log()
    train, test = log.split()
    flags = {
        "same": conrl.assess(conrl.plan(conrl.estimate(log), [1.0]), log),
        "same model": conrl.assess(conrl.plan(conrl.estimate(log), [1.0]), conrl.estimate(log)),
        "missing": conrl.assess(conrl.plan(conrl.estimate(log, unvisited="missing"), [1.0]), log),
        "longer": conrl.assess(conrl.plan(conrl.estimate(log, horizon=7), [2.0]), log),
        "other": conrl.assess(conrl.plan(conrl.estimate(train), [1.0]), test),
        "policy": conrl.assess(conrl.plan(conrl.estimate(log), [1.0]).policy, log, mdp=conrl.estimate(log)),
    }
    assert {name: found.planned for name, found in flags.items()} == {
        "same": True,
        "same model": True,
        "missing": True,
        "longer": True,
        "other": False,
        "policy": False,  # nobody can know
    }
    assert "planned from this very log" in flags["same"].message
    assert "fixed before the log was drawn" in flags["other"].message


def test_two_halves_of_a_log_are_not_the_same_log() -> None:
    rng = np.random.default_rng(0)
    log = conrl.Log(tuple(conrl.Episode([0, 0], [0], [1.0], [[float(rng.random() < 0.3)]]) for _ in range(100)), ("c",))
    train, test = log.split()
    assert not conrl.assess(conrl.plan(conrl.estimate(train), [0.9]), test).planned


def test_a_limit_that_is_just_kept_is_kept() -> None:
    """Three steps that always cost 0.1 cost 0.3."""
    episodes = [conrl.Episode([0] * 4, [0] * 3, [1.0] * 3, [[0.1]] * 3)] * 20
    found = conrl.assess(conrl.Policy(np.ones((3, 1, 1))), episodes, [0.3])
    assert found.probability == 1.0


def test_any_seed_is_taken_and_no_two_draw_alike() -> None:
    seeds: list[Any] = [0, 1, 2**44, 2**60, 2**64, 2**80, np.uint8(200), np.int64(2**62)]
    policy = conrl.Policy(np.full((3, 2, 2), 0.5))
    found = [conrl.assess(policy, two_costs(), seed=seed).draws for seed in seeds]
    assert all(np.isfinite(draws).all() for draws in found)
    assert len({draws.tobytes() for draws in found}) == len(seeds)


def test_a_log_of_single_steps_and_one_of_one_episode() -> None:
    for episodes in (two_costs()[:1], [conrl.Episode([0, 0], [0], [1e9], [[-1e-9]])] * 3):
        H = len(episodes[0])
        S = 1 + max(int(e.states.max()) for e in episodes)
        A = 1 + max(int(e.actions.max()) for e in episodes)
        found = conrl.assess(conrl.Policy(np.full((H, S, A), 1.0 / A)), episodes)
        assert np.isfinite(found.draws).all()
        assert found.importance is not None
        assert found.importance.worthless


def test_a_process_that_depends_on_the_step_is_assessed_by_its_model() -> None:
    """What action 1 costs changes with the step; a model of all steps alike would say 0.5 at each."""
    episodes = [conrl.Episode([0, 0, 0], [a, b], [0.0, 0.0], [[1.0 * a], [0.0]]) for a in (0, 1) for b in (0, 1)] * 25
    task = conrl.Task(1, 2, 2, [np.inf], ["cost"], initial=0, step_dependent=True)
    table = np.zeros((2, 1, 2))
    table[:, 0, 1] = 1.0
    policy = conrl.Policy(table)
    found = conrl.assess(policy, conrl.estimate(episodes, task=task), [1.2])
    np.testing.assert_allclose(found.draws[:, 1], 1.0, atol=1e-9)
    assert found.probability == 1.0
    assert all(need.step is not None for need in found.needs)
    with pytest.warns(conrl.ModelWarning, match="action '1' in state '0' has 'cost' 0 at step 1 and 1 at step 0"):
        alike = conrl.assess(policy, episodes)
    assert alike.draws[:, 1].std() > 0.05
    assert alike.importance is not None
    np.testing.assert_allclose(alike.importance.mean.value, [0.0, 1.0])  # which needs no model


# -- what to log next -----------------------------------------------------------------------------------------


def arms(visits: Sequence[int]) -> list[conrl.Episode]:
    """From state 0 on to one of three states, in which half of all visits cost 1; the log has them unevenly."""
    return [
        conrl.Episode([0, 1 + s, 1 + s], [s, 0], [0.0, 1.0], [[0.0], [float(i % 2)]])
        for s, n in enumerate(visits)
        for i in range(n)
    ]


def test_the_first_need_is_the_pair_of_which_more_data_help_most() -> None:
    visits = [400, 30, 100]
    table = np.zeros((2, 4, 3))
    table[0, 0] = [0.8, 0.1, 0.1]
    table[0, 1:, 0] = table[1, :, 0] = 1.0  # action 0 in the three states: what was seen there
    policy = conrl.Policy(table)

    def variance(seen: Sequence[int]) -> float:
        model = conrl.estimate(arms(seen))
        return float(conrl.assess(policy, model, [1.0], draws=4096).draws[:, 1].var())

    found = conrl.assess(policy, conrl.estimate(arms(visits)), [1.0])
    before = variance(visits)
    gains = []
    for s in range(3):
        more = list(visits)
        more[s] *= 4
        gains.append(before - variance(more))
    assert found.needs[0].state == str(1 + int(np.argmax(gains)))
    assert found.needs[0].action == "0"
    check_needs(found.needs)
    # What more data about one pair removes is about three quarters of its share.
    shares_of = {need.state: need.share for need in found.needs if need.action == "0"}
    np.testing.assert_allclose([0.75 * shares_of[str(1 + s)] for s in range(3)], np.array(gains) / before, atol=0.1)


def check_needs(needs: Sequence[Need]) -> None:
    assert needs
    listed = [need.share for need in needs]
    assert listed == sorted(listed, reverse=True)
    assert all(0.0 < share <= 1.0 for share in listed)
    assert sum(listed) <= 1.0 + 1e-12
    assert len(needs) <= 10


@few
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 4), st.booleans())
def test_needs_are_shares_in_order(seed: int, count: int, horizon: int, ends: bool) -> None:
    episodes = random_log(seed, count, horizon, ends)
    S = 1 + max(int(e.states.max()) for e in episodes)
    A = 1 + max(int(e.actions.max()) for e in episodes)
    policy = conrl.Policy(some_tables(horizon, S, A, seed)[0])
    found = conrl.assess(policy, episodes, [0.5])
    model = conrl.estimate(episodes, horizon=horizon)
    expected = deviations(
        Posterior(model),
        conrl.Policy(np.concatenate((policy.probabilities, np.eye(A)[:1][None].repeat(horizon, 0)), axis=1))
        if model.num_states > S
        else policy,
    )
    off = (expected.visits * expected.deviation[:, 1]) ** 2
    if off.sum() == 0.0:
        assert found.needs == ()
        return
    check_needs(found.needs)
    assert found.needs[0].share == pytest.approx(off.max() / off.sum())
    assert found.needs[0].visits == model._visits[int(np.argmax(off))]  # type: ignore[index]


def test_needs_are_said_in_words() -> None:
    assert str(Need("yard", "go", None, 1234, 0.5)) == "'go' in 'yard' (seen 1,234 times)"
    assert str(Need("yard", "go", 3, 1, 0.5)) == "'go' in 'yard' at step 3 (seen 1 time)"
    assert str(Need("yard", "go", None, 0, 0.5)) == "'go' in 'yard' (never seen)"


# -- refusals -------------------------------------------------------------------------------------------------


def test_a_state_that_only_the_log_has_is_named(tmp_path: Path) -> None:
    log = named_log()
    table = some_tables(4, 2, 2, 0)[0]
    lacking = saved(tmp_path / "policy.csv", table, STATES[:2], ACTIONS)
    with pytest.raises(conrl.ModelError, match="unknown state of the log 'road'; known: depot, yard"):
        conrl.assess(lacking, log)
    with pytest.raises(conrl.ModelError, match="unknown state of the log 'road'; known: depot, yard"):
        conrl.assess(conrl.Policy(table), log, mdp=conrl.estimate(log))
    with pytest.raises(conrl.ModelError, match=r"the log has state 2; the policy has states 0\.\.1"):
        conrl.assess(conrl.Policy(table), log.episodes)
    strange = saved(tmp_path / "strange.csv", some_tables(4, 3, 2, 0)[0], ("depot", "yard", "raod"), ACTIONS)
    with pytest.raises(conrl.ModelError, match="unknown state of the policy 'raod'; did you mean 'road'"):
        conrl.assess(strange, conrl.estimate(log))
    with pytest.raises(conrl.ModelError, match="unknown state of the log 'road'; did you mean 'raod'"):
        conrl.assess(strange, log)


def test_states_that_only_the_policy_has_do_no_harm(tmp_path: Path) -> None:
    log = named_log()
    table = named_policy().probabilities
    more = np.concatenate((table, some_tables(4, 2, 2, 9)[0]), axis=1)
    wider = saved(tmp_path / "wider.csv", more, (*STATES, "sea", "sky"), ACTIONS)
    plain, found = conrl.assess(named_policy(), log, mdp=conrl.estimate(log)), conrl.assess(wider, log)
    assert found.importance is not None
    assert plain.importance is not None
    np.testing.assert_allclose(found.importance.mean.value, plain.importance.mean.value, rtol=1e-12)
    np.testing.assert_allclose(found.mean.value, plain.mean.value, rtol=0.05)


WRONG: list[tuple[dict[str, Any], str]] = [
    *(({"level": x}, "level") for x in (0, 1, 1.5, -0.1, float("nan"), True, "0.9", None)),
    *(({"draws": x}, "draws") for x in (1, 0, -3, 2.5, "many", 10**6, None)),
    *(({"seed": x}, "seed") for x in (-1, 1.5, "x", None)),
    ({"limits": conrl.Linear(per_step={"harm": 1.0})}, "expected totals"),
    ({"limits": conrl.Linear(never={"harm": 1.0})}, "expected totals"),
    ({"limits": conrl.Knapsack([2.0], 10)}, "expected totals"),
    ({"limits": [1.0, 2.0]}, "limits"),
    ({"limits": {"crash": 1.0}}, "unknown cost"),
]


@pytest.mark.parametrize(("given_", "words"), WRONG)
def test_wrong_arguments_are_refused_in_one_line(given_: dict[str, Any], words: str) -> None:
    with pytest.raises((conrl.SpecError, conrl.ModelError), match=words) as error:
        conrl.assess(named_policy(), named_log(20), mdp=conrl.estimate(named_log(20)), **given_)
    assert "\n" not in str(error.value)


def test_what_cannot_be_assessed_is_refused(tmp_path: Path) -> None:
    log = named_log()
    model = conrl.estimate(log)
    spent = conrl.plan(model, conrl.Linear(chance={"harm": (2, 0.5)}))
    endless = conrl.plan(model.replace(horizon=conrl.Discounted(0.9)), [9.0])
    (tmp_path / "stationary.csv").write_text("state,action,probability\ndepot,go,1\n")
    learner = conrl.UCBVI(conrl.estimate(log.episodes, horizon=4).task)
    learner.prime(log.episodes)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: conrl.assess(spent, log), "acts on what was spent"),
        (lambda: conrl.assess(endless, log), "stationary"),
        (lambda: conrl.assess(endless.policy, log), "stationary"),
        (lambda: conrl.assess(tmp_path / "stationary.csv", log), "without steps"),
        (lambda: conrl.assess(conrl.Null(4, 3, 2), log), "plays nothing"),
        (lambda: conrl.assess(3, log), "expected a Policy, a Mixture or a Plan"),
        (lambda: conrl.assess(named_policy(), 3), "expected episodes or a log file"),  # type: ignore[arg-type]
        (lambda: conrl.assess(named_policy(), []), "no step"),
        (lambda: conrl.assess(tmp_path / "nowhere.csv", log), "no such file"),
        (lambda: conrl.assess(tmp_path / "policy.txt", log), "policy.txt"),
        (lambda: conrl.assess(named_policy(), learner.model), "mean pay only"),
        (lambda: conrl.assess(named_policy(), conrl.envs.mars_rover(rock_reward=1.0)), "was not estimated"),
        (lambda: conrl.assess(named_policy(), model.with_bonus(np.ones((4, 2)))), "bonus"),
    ]
    for call, words in cases:
        with pytest.raises(conrl.ConRLError, match=words) as error:
            call()
        assert "\n" not in str(error.value)


# -- policies as CSV ------------------------------------------------------------------------------------------

ODD = ["a,b", 'q"uote', "=1+1", "7", "'=x", "'tis", "+5", "-2", "é漢", "a\nb", "a\r\nb", "inner  space", "@x", "1e5"]


def model_of(states: Sequence[str], actions: Sequence[str], horizon: int) -> conrl.ConstrainedMDP:
    S, A = len(states), len(actions)
    P, rewards = np.full((S, A, S), 1.0 / S), np.zeros((S, A))
    return conrl.ConstrainedMDP(P, rewards, None, horizon, state_names=states, action_names=actions)


def assert_round_trip(path: Path, states: Sequence[str], actions: Sequence[str]) -> None:
    table = some_tables(3, len(states), len(actions), 1)[0]
    conrl.Policy(table).save(path, model_of(states, actions, 3))
    found = read_policy_table(path)
    assert (found.states, found.actions) == (tuple(states), tuple(actions))
    assert found.step_dependent
    np.testing.assert_array_equal(found.probabilities, table)


def test_names_come_back_as_they_were(tmp_path: Path) -> None:
    assert_round_trip(tmp_path / "odd.csv", ODD, ODD[::-1])
    assert_round_trip(tmp_path / "numbers.csv", ["0", "1", "2"], ["go"])


names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="\0"), min_size=1, max_size=8
)


@few
@given(st.lists(names, min_size=2, max_size=4, unique=True), st.lists(names, min_size=2, max_size=3, unique=True))
def test_any_names_come_back(tmp_path_factory: pytest.TempPathFactory, states: list[str], actions: list[str]) -> None:
    assert_round_trip(
        tmp_path_factory.mktemp("csv") / "policy.csv", ["x", *(f"s{s}" for s in states)], [*actions, "a0"]
    )


@pytest.mark.parametrize("states", [[" a", "b "], ["a", " a"], ["\u00a0a", "b"]])
def test_names_with_spaces_around_them_come_back(tmp_path: Path, states: list[str]) -> None:
    assert_round_trip(tmp_path / "policy.csv", states, ["x", "y"])


def test_names_that_are_numbers_are_matched_with_a_model(tmp_path: Path) -> None:
    episodes = tuple(conrl.Episode([0, 1, 0], [0, 1], [1.0, 1.0], [[0.0], [1.0]]) for _ in range(5))
    model = conrl.estimate(conrl.Log(episodes, ("c",), ("10", "20"), ("x", "y")))
    policy = conrl.Policy(some_tables(2, 2, 2, 0)[0])
    policy.save(tmp_path / "policy.csv", model)
    found = conrl.assess(tmp_path / "policy.csv", model)
    np.testing.assert_allclose(found.draws, conrl.assess(policy, model).draws)


def test_names_are_numbered_by_first_appearance(tmp_path: Path) -> None:
    path = tmp_path / "policy.csv"
    path.write_text("probability,Action,STATE\n1,go,b\n0.5,go,a\n0.5,stay,a\n\n")
    found = read_policy_table(path)
    assert (found.states, found.actions, found.step_dependent) == (("b", "a"), ("go", "stay"), False)
    np.testing.assert_array_equal(found.probabilities, [[[1.0, 0.0], [0.5, 0.5]]])
    path.write_text("step,state,action,probability\n1,3,1,1\n0,1,0,1.0\n")
    found = read_policy_table(path)
    assert (found.states, found.actions) == (("3", "1"), ("1", "0"))
    assert found.probabilities.shape == (2, 2, 2)
    assert found.probabilities[1, 0, 0] == found.probabilities[0, 1, 1] == 1.0
    assert found.probabilities.sum() == 2.0


HEADER = "step,state,action,probability\n"
BAD: list[tuple[str, str]] = [
    ("", "no column 'state'"),
    (HEADER, "no rows"),
    ("step,state,action\n0,a,b\n", "no column 'probability'"),
    ("step,state,action,probabilty\n0,a,b,1\n", "did you mean 'probability'"),
    ("state,state,action,probability\na,a,b,1\n", "twice"),
    ("step,state,action,probability,spent_harm\n0,a,b,1,0\n", "acts on what was spent"),
    (HEADER + "0,a,b,1\n0,c,b\n", "line 3: 3 fields; the header has 4"),
    (HEADER + "0,a,b,1\n-1,a,b,1\n", "line 3: step is '-1'"),
    (HEADER + "0.5,a,b,1\n", "line 2: step is '0.5'"),
    (HEADER + "99999999999,a,b,1\n", "line 2: step is"),
    (HEADER + "0,,b,1\n", "line 2: a state is missing"),
    (HEADER + "0,a, ,1\n", "line 2: an action is missing"),
    *(
        (HEADER + f"0,a,b,{x}\n", f"line 2: probability is '{x}'")
        for x in ("2", "-0.1", "nan", "inf", "one", "1_0", "")
    ),
    (HEADER + "0,a,b,0.5\n0,a,c,0.4\n", "step 0, state 'a': probabilities sum to 0.9"),
    (HEADER + "0,a,b,0.5\n0,a,b,0.5\n", "is there twice"),
    (HEADER + '0,"a,b,1\n', "unexpected end of data"),
    (HEADER + "9999999,a,b,1\n" + "".join(f"0,s{i},b,1\n" for i in range(200)), "at most"),
]


@pytest.mark.parametrize(("text", "words"), BAD)
def test_tables_that_make_no_sense_are_refused_with_their_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.csv"
    path.write_text(text)
    with pytest.raises(conrl.ModelError) as error:
        read_policy_table(path)
    assert words in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.integers(0, len(HEADER) + 30), st.integers(0, 20))
def test_hostile_bytes_are_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, hostile: bytes, at: int, cut: int
) -> None:
    """Bytes anywhere in a good file: it is read as distributions, or refused as a file."""
    good = (HEADER + "0,a,x,0.25\n0,a,y,0.75\n1,b,x,1\n").encode()
    path = tmp_path_factory.mktemp("hostile") / "policy.csv"
    path.write_bytes(good[:at] + hostile + good[at + cut :])
    try:
        found = read_policy_table(path)
    except conrl.ModelError:
        return
    total = found.probabilities.sum(axis=2)
    assert (np.isclose(total, 1.0) | (total == 0.0)).all()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere.csv"):
        with pytest.raises(conrl.ModelError):
            read_policy_table(path)


def test_a_table_of_names_has_no_numbers(tmp_path: Path) -> None:
    """Its names stand in the order in which they come in the file; a log of numbers means another order."""
    model = conrl.ConstrainedMDP(
        np.full((2, 2, 2), 0.5), [[0.0, 1.0], [2.0, 3.0]], [[[0.0], [1.0]], [[1.0], [0.0]]], 3,
        state_names=["new", "worn"], action_names=["run", "stop"],
    )  # fmt: skip
    habit = conrl.Policy(np.full((3, 2, 2), 0.5))
    log = conrl.sample_log(model, habit, 200, 1)
    numbers = conrl.Log(log.episodes, log.cost_names)
    other = conrl.Policy(np.tile(np.array([[0.0, 1.0], [1.0, 0.0]]), (3, 1, 1)))  # "stop" comes first in its file
    path = tmp_path / "policy.csv"
    other.save(path, model)
    with pytest.raises(conrl.ModelError, match=r"numbers for its \w+s, and a table of names does not say"):
        conrl.assess(path, numbers)
    found = [conrl.assess(path, numbers, mdp=model), conrl.assess(path, log), conrl.assess(other, numbers, mdp=model)]
    assert all(np.array_equal(one.mean.value, found[0].mean.value) for one in found)


def test_the_end_of_one_log_is_no_state_of_another(tmp_path: Path) -> None:
    def ended(states: list[int], actions: list[int], costs: list[float]) -> conrl.Episode:
        return conrl.Episode(states, actions, [1.0, 1.0], np.array(costs)[:, None], terminated=True)

    one = [ended([0, 1, 0], [a, 1 - a], [0.0, 0.0]) for a in (0, 1)] * 40
    other = [ended([0, 2, 0], [0, a], [0.0, 1.0 - a]) for a in (0, 1)] * 40
    plan = conrl.plan(conrl.estimate(one), {"cost": 0.5})
    assert plan.mdp.state_names == ("0", "1", "(end)")
    path = tmp_path / "policy.csv"
    plan.save(path)
    assert "end" not in path.read_text()
    for form in (plan, path):
        with pytest.raises(conrl.ModelError, match="unknown state of the log '2'"):
            conrl.assess(form, other)
        assert conrl.assess(form, one).mean.reward == pytest.approx(2.0, abs=0.1)
    assert conrl.load_policy(path, plan.mdp).shape == plan.policy.shape


def test_limits_of_a_file_are_those_of_its_plan(tmp_path: Path) -> None:
    log = named_log()
    plan = conrl.plan(conrl.estimate(log), {"harm": 1.5}, confidence=0.9)
    plan.save(tmp_path / "policy.json")
    assert conrl.assess(tmp_path / "policy.json", log).limits == conrl.assess(plan, log).limits
    assert [kept.name for kept in conrl.assess(tmp_path / "policy.json", log).limits] == ["harm <= 1.5"]
    basis = conrl.PolicyFile.load(tmp_path / "policy.json").basis
    assert basis is not None
    assert basis.startswith(f"a model estimated from {log.num_steps:,} steps")
    assert "90% was asked" in basis


def test_a_file_of_a_plan_through_pairs_never_seen_is_read_again(tmp_path: Path) -> None:
    """What it promises may be more than any episode pays in the estimate, where such pairs pay nothing."""
    log = [conrl.Episode([0, 1], [a], [a], [[float(i % 5 == 0)]]) for a in (0, 1) for i in range(400)]
    plan = conrl.plan(conrl.estimate(log, horizon=2), {"cost": 1.3}, confidence=0.9)
    assert plan.costs[0] > 1.0
    plan.save(tmp_path / "policy.json")
    promise = conrl.PolicyFile.load(tmp_path / "policy.json").promise
    assert promise is not None
    assert promise.most is not None
    assert promise.most[1] == 2.0


def test_numbers_of_a_log_are_names_where_the_policy_has_one(tmp_path: Path) -> None:
    """A log that never comes to `end` has numbers; they are the policy's names, not its positions."""
    (tmp_path / "p.csv").write_text("step,state,action,probability\n0,2,go,1\n0,1,stay,1\n0,end,stay,1\n")
    rows = "".join(f"{i},0,{1 + i % 2},{('stay', 'go')[i % 2]},{i % 2},1\n" for i in range(20))
    (tmp_path / "log.csv").write_text(f"episode,step,state,action,reward,next_state\n{rows}")
    log = conrl.load_episodes(tmp_path / "log.csv")
    assert log.state_names is None
    found = conrl.assess(tmp_path / "p.csv", log)
    assert found.importance is not None
    assert found.importance.effective == 20  # the policy plays what was logged
    (tmp_path / "p.csv").write_text("step,state,action,probability\n0,01,go,1\n0,02,stay,1\n")
    with pytest.raises(conrl.ModelError, match="unknown state of the log '1'; did you mean '01'"):
        conrl.assess(tmp_path / "p.csv", log)


def test_codes_of_a_policy_are_no_numbers(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("state,action,probability\n0,0,1\n01,0,1\n1,1,1\n")
    with pytest.raises(conrl.ModelError, match=r"its states have names .*; give mdp="):
        conrl.load_policy(tmp_path / "p.csv")


# -- where episodes begin -------------------------------------------------------------------------------------


def forked() -> conrl.ConstrainedMDP:
    """What an episode costs depends on the state it begins in."""
    rows = [(0, 0, 0, 0.5, 1, 0), (0, 0, 1, 0.5, 1, 1), (0, 1, 0, 1, 0.5, 0), (1, 0, 0, 1, 2, 2), (1, 1, 1, 1, 0, 0),
            (2, 0, 0, 1, 0, 0)]  # fmt: skip
    s, a, t, p, *pay = map(list, zip(*rows, strict=True))
    return conrl.ConstrainedMDP.from_outcomes(
        s, a, t, p, np.array(pay).T, num_states=3, num_actions=2, horizon=4, initial=0,
        state_names=["a", "b", "c"], cost_names=["x"],
    )  # fmt: skip


@pytest.mark.parametrize("start", [1, 2])
@pytest.mark.parametrize("logged", [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
def test_a_plan_is_valued_from_its_own_first_state(start: int, logged: list[float], tmp_path: Path) -> None:
    """Also where no episode of the log begins there, and from its file."""
    mdp = forked()
    even = conrl.Policy([mdp.available / mdp.available.sum(axis=1, keepdims=True)] * 4)
    log = conrl.sample_log(mdp.replace(initial=logged), even, 400, seed=3)
    plan = conrl.plan(mdp.replace(initial=start), {"x": 2.0})
    plan.save(tmp_path / "plan.json")
    for one in (plan, tmp_path / "plan.json"):
        found = conrl.assess(one, log)
        assert found.episodes == 400
        if start == 1:  # of state c, which the log does not have, nothing is known
            assert found.low.costs[0] - 1e-9 <= plan.costs[0] <= found.high.costs[0] + 1e-9
        assert (found.importance is None) == (logged[start] == 0.0)


def test_a_file_that_was_planned_from_a_log_is_doubted(tmp_path: Path) -> None:
    mdp = forked()
    even = conrl.Policy([mdp.available / mdp.available.sum(axis=1, keepdims=True)] * 4)
    log = conrl.sample_log(mdp, even, 100, seed=3)
    conrl.plan(conrl.estimate(log), {"x": 2.0}).save(tmp_path / "logged.json")
    conrl.plan(mdp, {"x": 2.0}).save(tmp_path / "known.json")
    assert "was planned from a log" in conrl.assess(tmp_path / "logged.json", log).message
    assert "was planned from a log" not in conrl.assess(tmp_path / "known.json", log).message

"""One deterministic policy: against all of them, one by one, on small models."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from bank import random_model, still
from commands import ok, record, refused
from numpy.typing import NDArray

import conrl
from conrl import kernels
from conrl.cli.terminal import search_bar
from conrl.model.transform import with_own_steps
from conrl.oracles import BackwardInduction
from conrl.oracles.restricted import Whole
from conrl.planners import plan_deterministic
from conrl.planners.allowance import Allowance
from conrl.planners.deterministic.local_search import LocalSearch

Float = NDArray[np.float64]
FOREVER = 1e6  # seconds: tests do not depend on the speed of a machine
MOST = 3000  # policies that are tried one by one


def all_values(T: Float, pay: Float, exists: NDArray[np.bool_], initial: Float) -> Float:
    """[n, 1+d]: the value vectors of all deterministic policies, from tables [H, S, A, ..] in plain numpy."""
    H, S = T.shape[:2]

    def after(h: int, mu: Float) -> list[Float]:
        if h == H:
            return [np.zeros(pay.shape[-1])]
        found = []
        states = np.flatnonzero(mu > 0.0)
        for actions in itertools.product(*(np.flatnonzero(exists[h, s]) for s in states)):
            then = sum((mu[s] * T[h, s, a] for s, a in zip(states, actions, strict=True)), np.zeros(S))
            paid = sum((mu[s] * pay[h, s, a] for s, a in zip(states, actions, strict=True)), np.zeros(pay.shape[-1]))
            found += [paid + rest for rest in after(h + 1, then)]
        return found

    return np.array(after(0, initial))


def tiny(seed: int) -> tuple[conrl.ConstrainedMDP, Float, Float, Float]:
    """A model of a few policies, the value vectors of all of them, and limits and floors [d].

    Several costs or none, missing actions, steps of their own, units of 1e-6 to 1e6, ties, limits that are exactly what
    some policy costs.
    """
    g = np.random.default_rng(seed)
    S, A, H, d = int(g.integers(1, 4)), int(g.integers(1, 4)), int(g.integers(1, 4)), int(g.integers(0, 4))
    while A ** (S * H) > MOST:
        H -= 1
    shape: tuple[int, ...] = (H, S, A) if H > 1 and g.random() < 0.4 else (1, S, A)
    T = g.dirichlet(np.ones(S), size=shape) if g.random() < 0.5 else np.eye(S)[g.integers(0, S, size=shape)]
    whole = g.random() < 0.4
    pay = g.integers(0, 3, size=(*shape, 1 + d)).astype(float) if whole else g.random((*shape, 1 + d))
    units = np.where(g.random(1 + d) < 0.2, 10.0 ** g.integers(-6, 7, size=1 + d), 1.0)
    pay *= np.where(g.random(1 + d) < 0.2, -units, units)
    exists = g.random(shape) < 0.7
    exists[..., 0] |= ~exists.any(axis=-1)
    initial = np.eye(S)[int(g.integers(S))] if g.random() < 0.5 else g.dirichlet(np.ones(S))
    h, s, a, t = np.nonzero(exists[..., None] & (T > 0.0))
    mdp = conrl.ConstrainedMDP.from_outcomes(
        s,
        a,
        t,
        T[h, s, a, t],
        pay[h, s, a],
        num_states=S,
        num_actions=A,
        horizon=H,
        initial=initial,
        step=h if shape[0] > 1 else None,
    )
    T, pay, exists = (np.broadcast_to(x, (H, *x.shape[1:])) for x in (T, pay, exists))
    Z = all_values(T, pay, exists, initial)
    bounds = np.full((2, d), np.inf)
    for row, share in ((0, 0.8), (1, 0.3)):
        for i in range(d):
            if g.random() < share:
                z = Z[:, 1 + i]
                bounds[row, i] = g.choice(z) if g.random() < 0.4 else g.uniform(z.min(), z.max())
    return mdp, Z, bounds[0], np.where(np.isfinite(bounds[1]), bounds[1], -np.inf)


def keeps(Z: Float, limits: Float, floors: Float, slack: float) -> NDArray[np.bool_]:
    """Which value vectors are within the bounds, give or take so much of the largest cost."""
    room = slack * np.abs(Z[:, 1:]).max(axis=0, initial=0.0)
    return np.asarray(((Z[:, 1:] <= limits + room) & (Z[:, 1:] >= floors - room)).all(axis=1))


@pytest.mark.parametrize("block", range(10))
def test_the_best_of_all_policies(block: int) -> None:
    """400 models: the objective is that of the best policy, and the bound is not below it."""
    for seed in range(40 * block, 40 * block + 40):
        mdp, Z, limits, floors = tiny(seed)
        within, nearly = keeps(Z, limits, floors, 0.0), keeps(Z, limits, floors, 1e-8)
        try:
            plan = conrl.plan(mdp, conrl.Linear(limits, floors), deterministic=True, time_limit=FOREVER)
        except conrl.InfeasibleError:
            assert not within.any(), seed
            continue
        size = max(1.0, float(np.abs(Z[:, 0]).max()))
        assert plan.status == "optimal" or (plan.status == "inaccurate" and plan.gap <= 1e-13 * size), seed
        assert plan.deterministic
        assert plan.objective <= Z[nearly, 0].max() + 2e-9 * size, seed
        if within.any():
            best = float(Z[within, 0].max())
            assert plan.bound >= best - 1e-15 * abs(best), seed
            assert plan.objective >= best - 2e-9 * size, seed
        assert isinstance(plan.policy, conrl.Deterministic)
        assert all(row.excess <= row.allowance for row in plan.rows)
        assert conrl.evaluate(mdp, plan.policy).value == pytest.approx(plan.values[0], rel=1e-12, abs=1e-300)


def test_limits_on_single_steps() -> None:
    """Each step of its own limit: again the best of all policies, the cost of each step a coordinate."""
    found = 0
    for seed in range(30):
        g = np.random.default_rng(seed)
        T, pay = g.dirichlet(np.ones(2), size=(1, 2, 3)), g.random((1, 2, 3, 2))
        mdp = conrl.ConstrainedMDP(T[0], pay[0, ..., 0], pay[0, ..., 1:], 3, cost_names=["c"])
        apart = np.concatenate((np.repeat(pay[..., :1], 3, axis=0), np.eye(3)[:, None, None] * pay[..., 1:]), axis=-1)
        every = np.ones((3, 2, 3), dtype=bool)
        Z = all_values(np.repeat(T, 3, axis=0), apart, every, np.eye(2)[0])
        bounds = g.uniform(np.quantile(Z[:, 1:], 0.05, axis=0), np.quantile(Z[:, 1:], 0.6, axis=0))
        kept = (Z[:, 1:] <= bounds).all(axis=1)
        asked = conrl.Linear(per_step={"c": bounds.tolist()})
        if kept.any():
            plan = conrl.plan(mdp, asked, deterministic=True, time_limit=FOREVER)
            assert plan.objective == pytest.approx(Z[kept, 0].max(), rel=2e-9)
            assert plan.mdp is mdp
            assert len(plan.rows) == 3
            found += 1
        else:
            with pytest.raises(conrl.InfeasibleError):
                conrl.plan(mdp, asked, deterministic=True, time_limit=FOREVER)
    assert 10 <= found < 30


def test_a_lottery_may_be_needed() -> None:
    """One step, costs 0 and 2, and exactly 1 is asked for: no single action does."""
    mdp = still([0.0, 1.0], [0.0, 2.0], 1)
    asked = conrl.Linear([1.0], [1.0])
    assert conrl.plan(mdp, asked).reward == pytest.approx(0.5)
    with pytest.raises(conrl.InfeasibleError, match=r"no deterministic policy keeps .* though a mixture does"):
        conrl.plan(mdp, asked, deterministic=True)
    with pytest.raises(conrl.InfeasibleError, match="cannot be kept; cost can be as low as 0") as caught:
        conrl.plan(mdp, [-1.0], deterministic=True)
    assert caught.value.feasibility.multipliers is not None


def test_a_knapsack() -> None:
    """A step for each item: taken or not. The best selection by hand."""
    gains, weights = np.array([6.0, 5.0, 5.0, 1.0]), np.array([4.0, 3.0, 3.0, 1.0])
    one = np.ones((4, 1, 2, 1))
    pay = np.stack((np.zeros(4), gains), axis=1)[:, None], np.stack((np.zeros(4), weights), axis=1)[:, None, :, None]
    mdp = conrl.ConstrainedMDP(one, pay[0][..., None], pay[1][..., None, :], limits=[6.0])
    plan = conrl.plan(mdp, deterministic=True, time_limit=FOREVER)
    assert plan.policy.mode[:, 0].tolist() == [0, 1, 1, 0]
    assert (plan.reward, plan.costs.tolist(), plan.status) == (10.0, [6.0], "optimal")
    assert conrl.plan(mdp).reward == pytest.approx(5.0 + 5.0 + 0.0 + 0.0, abs=1.0)


def test_steps_of_their_own_or_not() -> None:
    """A model and the same model unrolled have the same best policy; what is proven does not change from run to run."""
    mdp = conrl.envs.make("pricing", horizon=5, limits=[2.0])
    plans = [conrl.plan(m, deterministic=True, time_limit=FOREVER) for m in (mdp, mdp, with_own_steps(mdp))]
    assert plans[0].status == "optimal"
    reached = with_own_steps(mdp).reached
    for other in plans[1:]:
        assert np.array_equal(other.policy.mode[reached], plans[0].policy.mode[reached])
        assert (other.objective, other.bound, other.iterations) == pytest.approx(
            (plans[0].objective, plans[0].bound, plans[0].iterations), rel=1e-14
        )
    mixture = conrl.plan(mdp)
    assert plans[0].bound <= mixture.bound
    assert plans[0].prices == pytest.approx(mixture.prices)


@pytest.mark.parametrize("name", ["mars-rover", "box", "random", "pricing", "bidding", "cluster", "pricing-hours"])
def test_stopped_at_once(name: str) -> None:
    """Without time for a search there is a policy all the same, or the one line that says why not."""
    mdp = conrl.envs.make(name)
    mixture = conrl.plan(mdp)
    if name == "cluster":  # none of the policies that are mixed keeps both limits
        with pytest.raises(conrl.RunError, match="no deterministic policy within the limits was found in 1e-09 sec"):
            conrl.plan(mdp, deterministic=True, time_limit=1e-9)
        return
    plan = conrl.plan(mdp, deterministic=True, time_limit=1e-9)
    assert plan.status in ("optimal", "time limit")
    assert plan.bound >= plan.objective
    assert plan.objective <= mixture.bound
    assert plan.bound <= mixture.bound * (1.0 + 1e-9)
    assert all(row.excess <= row.allowance for row in plan.rows)
    assert "NP-hard" in plan.message or plan.status == "optimal"


def test_a_tolerance_that_is_reached() -> None:
    plan = conrl.plan(conrl.envs.make("cluster"), deterministic=True, tol=0.01, time_limit=FOREVER)
    assert plan.status == "optimal"
    assert plan.gap <= 0.01 * plan.objective


def test_what_cannot_be_asked() -> None:
    mdp = random_model(0, 5, 3, 4, 2)
    for wrong, message in (
        ({"time_limit": 5.0}, "planner 'column-generation' has no time limit; leave time_limit out"),
        ({"deterministic": True, "time_limit": 0.0}, "time_limit is 0.0; it must be a number above 0"),
        ({"deterministic": True, "tol": -1.0}, "tol is -1.0"),
        ({"deterministic": "yes"}, "deterministic"),
        ({"deterministic": True, "planner": "lagrangian"}, "method of its own; leave planner out"),
        ({"deterministic": True, "problem": conrl.Knapsack([1.0] * mdp.num_costs, 5)}, "not Knapsack problems"),
    ):
        arguments: dict[str, Any] = wrong
        with pytest.raises(conrl.SpecError, match=message):
            conrl.plan(mdp, **arguments)
    with pytest.raises(conrl.SpecError, match="without a bonus"):
        conrl.plan(mdp.with_bonus(np.ones((mdp.num_states, mdp.num_actions))), deterministic=True)


def played(mdp: conrl.ConstrainedMDP, g: np.random.Generator) -> conrl.Episode:
    """An episode of random actions."""
    T = mdp.transitions.toarray().reshape(mdp.num_states, mdp.num_actions, -1)
    states, actions = [int(g.choice(mdp.num_states, p=mdp.initial))], []
    for _ in range(mdp.horizon):
        actions.append(int(g.choice(np.flatnonzero(mdp.available[states[-1]]))))
        states.append(int(g.choice(mdp.num_states, p=T[states[-1], actions[-1]])))
    at = states[:-1], actions
    return conrl.Episode(states, actions, mdp.rewards[at], mdp.costs[at])


def test_an_estimate_has_one_too() -> None:
    """An estimated model is planned like any other, and its policy is greedy where the data never came."""
    mdp = conrl.envs.make("pricing", horizon=5, limits=[2.0])
    log = [played(mdp, np.random.default_rng(seed)) for seed in range(200)]
    estimate = conrl.estimate(log, horizon=5, limits=[2.0])
    plan = conrl.plan(estimate, deterministic=True, tol=1e-3, time_limit=FOREVER)
    assert plan.status == "optimal"
    assert conrl.evaluate(estimate, plan.policy).reward == pytest.approx(plan.reward)
    assert all(row.excess <= row.allowance for row in plan.rows)


def test_the_command() -> None:
    words = ("plan", "pricing", "--horizon", 5, "--limit", "stock=2", "--deterministic", "--time-limit", FOREVER)
    table = ok(*words)
    assert "one deterministic policy; bound and gap are to the best of all deterministic policies" in table
    assert "mixture of" not in table
    found = record(*words)
    assert found["deterministic"] is True
    assert found["status"] == "optimal"
    assert found["bound"] - found["objective"] == pytest.approx(found["gap"])
    assert [part["weight"] for part in found["mixture"]] == [1.0]
    assert "deterministic" not in record("plan", "pricing", "--horizon", 5)
    stopped = ok("plan", "bidding", "--deterministic", "--time-limit", 1e-9)
    assert "time limit: stopped at the time limit" in " ".join(stopped.split())
    assert "--time-limit" in refused("plan", "pricing", "--time-limit", 1)
    assert "--time-limit" in refused("plan", "pricing", "--deterministic", "--time-limit", 0)
    assert "--planner" in refused("plan", "pricing", "--deterministic", "--planner", "lagrangian")
    assert "Knapsack" in refused("plan", "pricing", "--deterministic", "--budget", "stock=9", "--episodes", 3)
    tight = ("plan", "pricing", "--deterministic", "--limit", "stock=-1")
    assert "cannot be kept" in refused(*tight, code=3)


def test_how_far_the_search_is() -> None:
    """What is reported: a bound that falls and an objective that rises, and the time."""
    told: list[tuple[float | None, float, float]] = []
    mdp = conrl.envs.make("pricing", horizon=5, limits=[2.0])
    with search_bar(1.0) as report:

        def both(objective: float | None, bound: float, seconds: float) -> None:
            told.append((objective, bound, seconds))
            report(objective, bound, seconds)

        plan = plan_deterministic(mdp, conrl.Linear([2.0]), time_limit=FOREVER, report=both)
        report(None, 1.0, 0.5)
    objectives, bounds, seconds = zip(*told, strict=True)
    assert list(objectives) == sorted(objectives)
    assert list(bounds) == sorted(bounds, reverse=True)
    assert list(seconds) == sorted(seconds)
    assert objectives[-1] == pytest.approx(plan.objective)


# -- the parts ------------------------------------------------------------------------------------------------


def test_a_part_is_the_model_without_some_actions() -> None:
    """The oracle without some pairs answers as that of a model that never had them."""
    for seed in range(20):
        g = np.random.default_rng(seed)
        mdp = with_own_steps(random_model(seed, 5, 3, 4, 2))
        reach = mdp.reach
        whole = Whole(mdp)
        gone = g.random(whole.pairs) < 0.4
        first = np.asarray(reach.graph.first).astype(np.int64)
        gone[first[:-1] + g.integers(0, np.diff(first))] = False  # one stays
        exists = np.array(mdp.available)
        exists.reshape(-1)[(mdp._pair_node * mdp.num_actions + mdp.action)[reach.pairs[gone]]] = False
        T = np.array([t.toarray().reshape(mdp.num_states, mdp.num_actions, -1) for t in mdp.transitions])
        h, s, a, t = np.nonzero(exists[..., None] & (T > 0.0))
        pay = np.concatenate((mdp.rewards[..., None], mdp.costs), axis=-1)[h, s, a]
        sizes = {"num_states": mdp.num_states, "num_actions": mdp.num_actions, "horizon": mdp.horizon}
        made = conrl.ConstrainedMDP.from_outcomes(s, a, t, T[h, s, a, t], pay, **sizes, step=h, initial=mdp.initial)
        directions = g.normal(size=(5, 1 + mdp.num_costs))
        part, alone = whole.without(gone), BackwardInduction(made)
        assert part.support_many(directions).values == pytest.approx(alone.support_many(directions).values, rel=1e-12)
        for w in directions:
            assert np.isclose(part.support(w).value, alone.support(w).value, rtol=1e-12)
            part.policy(w).check(made)  # raises if it plays what is gone


def test_what_one_change_does() -> None:
    """Eq. (1) of `conrl.kernels.changes` against the policy with the change, evaluated."""
    for seed in range(20):
        g = np.random.default_rng(seed)
        mdp = with_own_steps(random_model(seed, 5, 3, 4, 2))
        whole, rows = Whole(mdp), conrl.Linear(np.ones(mdp.num_costs)).rows(mdp)
        local = LocalSearch(whole, rows, Allowance(whole, rows))
        choice = local.first[:-1] + g.integers(0, np.diff(local.first))
        mu, V, A = local._scratch()
        kernels.occupied(local.steps, choice, -1, mu)
        kernels.advantages(local.steps, choice, choice.size, V, A)
        before = local.value(choice)
        for k in g.integers(0, local.pay.shape[0], size=10):
            i = local.owner[k]
            changed = choice.copy()
            changed[i] = k
            policy = conrl.Deterministic(local.actions_of(changed, whole.policy(before)), mdp.num_actions)
            assert np.array_equal(local.choice_of(policy), changed)
            value = conrl.evaluate(mdp, policy).value
            assert before + mu[i] * A[k] == pytest.approx(value, abs=1e-12)

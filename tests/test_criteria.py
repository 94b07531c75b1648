"""Models without a horizon: discounted, average and total, against their occupation programs written out in numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from scipy.optimize import linprog

import conrl
from conrl.cli.main import main as cli
from conrl.envs import random_cmdp
from conrl.model.chains import Chain
from conrl.model.reduction import Reachable, end_components
from conrl.oracles import exact_oracle

Float = NDArray[np.float64]
DRAWN = 200


def rows_of(T: Float) -> tuple[Float, Float]:
    """[S, S*A] each: what leaves and what arrives at each state."""
    S, A, _ = T.shape
    return np.kron(np.eye(S), np.ones(A)).astype(np.float64), T.reshape(S * A, S).T


def program(T: Float, r: Float, c: Float, limits: Float, start: Float, horizon: Any, free: Any = ()) -> Any:
    """The full occupation program: Altman 1999, Chapters 3, 8; Hordijk and Kallenberg 1984 for the average."""
    leave, arrive = rows_of(T)
    if isinstance(horizon, conrl.Discounted):
        flow, right = leave - horizon.discount * arrive, start
    elif isinstance(horizon, conrl.Average):
        none = np.zeros_like(leave)
        flow = np.block([[leave - arrive, none], [leave, leave - arrive]])
        right = np.append(np.zeros(start.size), start)
    else:
        flow, right = np.hstack((leave - arrive, np.eye(start.size)[:, list(free)])), start
    more = flow.shape[1] - r.size
    used = np.hstack((c.reshape(r.size, -1).T, np.zeros((c.shape[2], more))))
    precise = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return linprog(
        -np.append(r, np.zeros(more)),
        A_ub=used if limits.size else None,
        b_ub=limits if limits.size else None,
        A_eq=flow,
        b_eq=right,
        options=precise,
    )


def compare(mdp: conrl.ConstrainedMDP, answer: Any, limits: Float) -> str:
    """Plan and compare with HiGHS' answer; what became of it."""
    try:
        plan = conrl.plan(mdp, list(limits))
    except conrl.InfeasibleError:
        assert answer.status == 2, answer.message
        return "infeasible"
    assert answer.status == 0, answer.message
    bought = sum(row.price * row.allowance for row in plan.rows)  # by exceeding a limit within its allowance
    assert plan.reward == pytest.approx(-answer.fun, rel=1e-8, abs=1e-8 + bought)
    assert plan.status == "optimal"
    assert plan.bound >= plan.objective
    assert (plan.costs <= limits + [row.allowance for row in plan.rows]).all()
    for policy in (plan.mixture, plan.policy):  # by another route: the chain of the policy itself
        value = conrl.evaluate(mdp, policy)
        assert value.reward == pytest.approx(plan.reward, rel=1e-8, abs=1e-9)
        assert value.costs == pytest.approx(plan.costs, rel=1e-8, abs=1e-9)
    return "mixture" if isinstance(plan.policy, conrl.Mixture) else "stationary"


def sizes(rng: np.random.Generator) -> tuple[int, int, int]:
    return int(rng.integers(1, 13)), int(rng.integers(1, 4)), int(rng.integers(0, 4))


def transitions(rng: np.random.Generator, S: int, A: int) -> Float:
    """Dense, deterministic (periodic, with several recurrent classes), sparse, or blocks that lead to later ones."""
    kind = rng.integers(4)
    T = np.zeros((S, A, S))
    if kind == 0:
        T = rng.random((S, A, S))
    for s, a in itertools.product(range(S), range(A)):
        if kind == 1:
            T[s, a, rng.integers(S)] = 1.0
        elif kind == 2:
            count = int(rng.integers(1, 3))
            T[s, a, rng.integers(0, S, size=count)] += rng.random(count) + 0.01
        elif kind == 3:
            first = 3 * (s // 3)
            T[s, a, rng.integers(first, min(S, first + 3))] += 1.0
            if rng.random() < 0.3:
                T[s, a, rng.integers(first, S)] += rng.random()
    return np.asarray(T / T.sum(axis=2, keepdims=True))


def start_of(rng: np.random.Generator, S: int) -> Float:
    return rng.dirichlet(np.ones(S)) if rng.random() < 0.5 else np.eye(S)[rng.integers(S)]


# -- against the programs ---------------------------------------------------------------------------------


def test_discounted_is_its_program() -> None:
    rng, seen = np.random.default_rng(0), set()
    for _ in range(DRAWN):
        S, A, d = sizes(rng)
        g = float(rng.choice([0.0, 0.5, 0.9, 0.99, 0.999]))
        T, start = transitions(rng, S, A), start_of(rng, S)
        unit = 10.0 ** rng.integers(-6, 7, size=d)
        r, c = rng.normal(size=(S, A)), rng.random((S, A, d)) * unit
        limits = c.mean(axis=(0, 1)) / (1.0 - g) * rng.uniform(0.4, 1.1, size=d)
        mdp = conrl.ConstrainedMDP(T, r, c, horizon=conrl.Discounted(g), initial=start)
        seen.add(compare(mdp, program(T, r, c / unit, limits / unit, start, mdp.horizon), limits))
    assert seen == {"infeasible", "stationary"}


def test_average_is_its_program_with_several_classes_and_periods() -> None:
    rng, seen = np.random.default_rng(1), set()
    for _ in range(DRAWN):
        S, A, d = sizes(rng)
        T, start = transitions(rng, S, A), start_of(rng, S)
        digits = int(rng.integers(0, 6))  # few: ties
        r, c = rng.normal(size=(S, A)).round(digits), rng.random((S, A, d)).round(digits)
        limits = rng.uniform(0.2, 0.7, size=d)
        mdp = conrl.ConstrainedMDP(T, r, c, horizon=conrl.Average(), initial=start)
        seen.add(compare(mdp, program(T, r, c, limits, start, mdp.horizon), limits))
    assert seen == {"infeasible", "stationary", "mixture"}


def test_total_is_its_program() -> None:
    """Free states lead to each other without pay; the others lead there at last."""
    rng, seen, refused = np.random.default_rng(2), set(), 0
    for _ in range(2 * DRAWN):
        S, A, d = sizes(rng)
        free = np.sort(rng.permutation(S)[: int(rng.integers(1, max(2, S // 2) + 1))])
        T, r, c = np.zeros((S, A, S)), rng.normal(size=(S, A)), rng.random((S, A, d))
        for s, a in itertools.product(range(S), range(A)):
            if s in free and (a == 0 or rng.random() < 0.5):
                T[s, a, rng.choice(free)], r[s, a], c[s, a] = 1.0, 0.0, 0.0
            else:
                count = int(rng.integers(1, 4))
                T[s, a, rng.integers(0, S, size=count)] += rng.random(count) + 0.01
                T[s, a] *= 0.8 / T[s, a].sum()
                T[s, a, rng.choice(free)] += 0.2
        start, limits = start_of(rng, S), rng.uniform(0.2, 2.5, size=d)
        mdp = conrl.ConstrainedMDP(T, r, c, horizon=conrl.Total(), initial=start)
        inside = end_components(Reachable.of(mdp))
        if mdp.pay[Reachable.of(mdp).pairs[inside.inside]].any():
            with pytest.raises(conrl.ModelError, match="it can stay forever"):
                exact_oracle(mdp)
            refused += 1
            continue
        seen.add(compare(mdp, program(T, r, c, limits, start, mdp.horizon, free), limits))
    assert seen >= {"infeasible", "stationary"}
    assert refused < DRAWN


@pytest.mark.parametrize("horizon", [conrl.Discounted(0.97), conrl.Average()])
def test_larger_models_and_the_planner_of_the_full_program(horizon: Any) -> None:
    """Beyond what is eliminated: BiCGSTAB; `linear-program`, frontier and feasibility agree."""
    mdp = random_cmdp(150, 3, 4, 2, seed=3)
    assert mdp.limits is not None
    steps = 1.0 / (1.0 - 0.97) if isinstance(horizon, conrl.Discounted) else 1.0
    mdp = mdp.replace(horizon=horizon, limits=mdp.limits / 30 * steps)
    ours, full = conrl.plan(mdp), conrl.plan(mdp, planner="linear-program")
    assert ours.status == full.status == "optimal"
    assert ours.reward == pytest.approx(full.reward, rel=1e-8)
    assert isinstance(ours.policy, conrl.Stationary)
    assert isinstance(full.policy, conrl.Stationary)
    assert ours.gap <= 1e-9 * max(1.0, ours.reward)
    curve = conrl.frontier(mdp, 0, tol=1e-7)
    assert mdp.limits is not None
    assert curve.complete
    assert curve.reward(float(mdp.limits[0])) == pytest.approx(ours.reward, rel=1e-6)
    found = conrl.feasibility(mdp)
    assert found.feasible
    assert (found.least <= mdp.limits).all()
    descent = conrl.plan(mdp, planner=conrl.Lagrangian(iterations=50, step=0.01 / steps))
    assert descent.bound >= ours.reward - 1e-9


@pytest.mark.parametrize("discount", [0.9, 0.999])
def test_every_way_to_solve_a_chain_agrees(discount: float) -> None:
    rng = np.random.default_rng(0)
    n = 60
    P = rng.dirichlet(np.full(n, 0.1), size=n)
    begin, column = np.arange(0, n * n + 1, n), np.tile(np.arange(n), n)
    chain = Chain(begin, column, discount * P.reshape(-1), 1.0 / (1.0 - discount), np.full(n, 1.0 - discount))
    b = rng.random(n)
    exact = np.linalg.solve(np.eye(n) - discount * P, b)
    for way in chain._ways(False):
        assert way(b) == pytest.approx(exact, rel=1e-5)
    start = np.eye(n)[0]
    x = chain.visits(start, np.full(n, 1.0 / (1.0 - discount)), 1e-9 / (1.0 - discount))
    assert x.sum() == pytest.approx(1.0 / (1.0 - discount), rel=1e-9)
    assert x @ b == pytest.approx(exact[0], rel=1e-9)


# -- closed forms -----------------------------------------------------------------------------------------


def two_places(horizon: Any, limit: float) -> conrl.ConstrainedMDP:
    """Stay in A (pays 1, costs 1) or in B (0, 0); moving is free."""
    move = np.zeros((2, 2, 2))
    move[:, 0], move[:, 1] = np.eye(2), np.eye(2)[::-1]
    return conrl.ConstrainedMDP(
        move, [[1, 0], [0, 0]], [[[1], [0]], [[0], [0]]], horizon, limits=[limit], state_names=["A", "B"]
    )


def test_half_of_the_time_for_ever_is_no_stationary_policy() -> None:
    mdp = two_places(conrl.Average(), 0.5)
    plan = conrl.plan(mdp)
    assert (plan.reward, plan.costs[0], plan.prices[0]) == pytest.approx((0.5, 0.5, 1.0))
    assert isinstance(plan.policy, conrl.Mixture)
    assert "no stationary policy has this value" in plan.message
    assert conrl.evaluate(mdp, plan).reward == pytest.approx(0.5)
    with pytest.raises(conrl.RunError, match="no stationary policy; use column generation"):
        conrl.plan(mdp, planner="linear-program")
    discounted = conrl.plan(two_places(conrl.Discounted(0.9), 5.0))
    assert isinstance(discounted.policy, conrl.Stationary)
    assert "stationary" not in discounted.message
    assert discounted.reward == pytest.approx(5.0)


def test_a_discount_is_a_chance_to_end() -> None:
    """Every pair moves to an end with probability 1 - g: the total of that is the discounted value."""
    mdp = random_cmdp(12, 3, 3, 2, seed=5)
    g = 0.9
    S, A = mdp.num_states, mdp.num_actions
    T = np.zeros((S + 1, A, S + 1))
    T[:S, :, :S] = g * mdp.transitions.toarray().reshape(S, A, S)
    T[:S, :, S] = 1.0 - g
    T[S, :, S] = 1.0
    r, c = np.zeros((S + 1, A)), np.zeros((S + 1, A, 2))
    r[:S], c[:S] = mdp.rewards, mdp.costs
    limits = [5.0, 5.0]
    ended = conrl.plan(conrl.ConstrainedMDP(T, r, c, horizon=conrl.Total()), limits)
    discounted = conrl.plan(mdp.replace(horizon=conrl.Discounted(g)), limits)
    assert ended.reward == pytest.approx(discounted.reward, rel=1e-9)
    assert ended.prices == pytest.approx(discounted.prices, rel=1e-6)


def test_the_average_is_the_limit_of_discounts_and_horizons() -> None:
    mdp = random_cmdp(20, 3, 3, 1, seed=1)
    limit = 0.45
    average = conrl.plan(mdp.replace(horizon=conrl.Average()), [limit]).reward
    for g in (0.99, 0.9999):
        scaled = (1.0 - g) * conrl.plan(mdp.replace(horizon=conrl.Discounted(g)), [limit / (1.0 - g)]).reward
        assert scaled == pytest.approx(average, abs=5 * (1.0 - g))
    for H in (100, 1000):
        assert conrl.plan(mdp.replace(horizon=H), [limit * H]).reward / H == pytest.approx(average, abs=5 / H)


def test_a_process_that_may_dither_for_a_billion_steps_is_still_certified() -> None:
    """Box: slips lead to an end at last, whatever is played, after 6e8 steps at worst; the gap is closed."""
    mdp = conrl.envs.box().replace(horizon=conrl.Average(), limits=[0.005])
    oracle = exact_oracle(mdp)
    assert oracle.process.longest > 1e8  # type: ignore[attr-defined]
    for w in ([1.0, 0.0], [0.0, -1.0], [0.0, 1.0], [1.0, -0.5], [1.0, -2.0]):
        answer = oracle.support(np.array(w))
        assert 0.0 <= answer.value - np.array(w) @ answer.point <= 1e-13
    plan = conrl.plan(mdp)
    assert plan.status == "optimal"
    S, A = mdp.num_states, mdp.num_actions
    full = program(
        mdp.transitions.toarray().reshape(S, A, S), mdp.rewards, mdp.costs, np.array([0.005]), mdp.initial, mdp.horizon
    )
    assert plan.reward == pytest.approx(-full.fun, abs=1e-9)


def test_one_state_no_costs_and_unreachable_states() -> None:
    for horizon, value in ((conrl.Discounted(0.5), 4.0), (conrl.Average(), 2.0)):
        assert conrl.plan(conrl.ConstrainedMDP([[[1.0]]], [[2.0]], None, horizon)).reward == pytest.approx(value)
    assert conrl.plan(conrl.ConstrainedMDP([[[1.0]]], [[0.0]], None, conrl.Total())).reward == 0.0
    # State 1 pays forever, and nothing leads there.
    apart = conrl.ConstrainedMDP([[[1.0, 0.0]], [[0.0, 1.0]]], [[0.0], [9.0]], None, conrl.Total())
    assert conrl.plan(apart).reward == 0.0
    with pytest.raises(conrl.ModelError, match=r"in '1' it can stay forever, and action '0' in state '1' pays"):
        conrl.plan(apart.replace(initial=1))


def test_a_bonus_is_the_best_case() -> None:
    rng = np.random.default_rng(0)
    T = rng.dirichlet(np.ones(4), size=(4, 2))
    r, c = rng.random((4, 2)), rng.random((4, 2, 1))
    for horizon, limit in ((conrl.Discounted(0.9), 4.0), (conrl.Average(), 0.4)):
        optimistic = conrl.plan(conrl.ConstrainedMDP(T, r, c, horizon).with_bonus(np.full((4, 2), 0.1)), [limit])
        moved = conrl.plan(conrl.ConstrainedMDP(T, r + 0.1, c - 0.1, horizon), [limit])
        assert optimistic.objective == pytest.approx(moved.reward, rel=1e-9)
        near = partial(lambda x, at: -((x - at) ** 2), at=limit)
        concave = conrl.plan(conrl.ConstrainedMDP(T, r, c, horizon), conrl.ConcaveConvex(near))
        assert concave.objective == pytest.approx(0.0, abs=1e-6)


# -- simulation, policies, files --------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [conrl.Discounted(0.9), conrl.Average(), conrl.Total()])
def test_simulations_agree_with_exact_values(horizon: Any) -> None:
    T = np.array([[[0.5, 0.4, 0.1], [0.2, 0.2, 0.6]], [[0.3, 0.3, 0.4], [0.9, 0.0, 0.1]], [[0, 0, 1.0], [0, 0, 1.0]]])
    if isinstance(horizon, conrl.Average):
        T[2] = [1.0, 0.0, 0.0]
    r, c = np.array([[1.0, 2.0], [0.5, 3.0], [0, 0]]), np.array([[[1.0], [2.0]], [[0.0], [1.0]], [[0], [0]]])
    mdp = conrl.ConstrainedMDP(T, r, c, horizon)
    limit = float(conrl.plan(mdp).costs[0]) * 0.8
    plan = conrl.plan(mdp, [limit])
    steps = 300 if horizon == conrl.Average() else None
    played = conrl.simulate(mdp, plan, 4000, seed=1, steps=steps)
    off = np.abs(played.mean.value - np.append(plan.reward, plan.costs)) / played.standard_error.value
    assert (off <= 5.0).all()
    assert conrl.simulate(mdp, plan, 5, seed=2).rewards.shape == (5,)


def test_policies_are_saved_and_act_at_every_step(tmp_path: Path) -> None:
    mdp = two_places(conrl.Discounted(0.9), 5.0)
    plan = conrl.plan(mdp)
    generator = np.random.default_rng(0)
    for policy in (plan.policy, plan.mixture.policies[0]):
        assert isinstance(policy, conrl.Stationary)
        assert policy.probabilities.shape == (2, 2)
        assert policy.act(10**9, 0, generator) in (0, 1)
        policy.save(tmp_path / "policy.npz")
        again = conrl.load_policy(tmp_path / "policy.npz")
        assert isinstance(again, conrl.Stationary)
        assert (again.probabilities == policy.probabilities).all()
        assert conrl.evaluate(mdp, again).value == pytest.approx(conrl.evaluate(mdp, policy).value)
    plan.policy.save(tmp_path / "policy.csv", mdp)
    assert (tmp_path / "policy.csv").read_text().startswith("state,action,probability\nA,")
    assert plan.policy.occupation(mdp).sum() == pytest.approx(10.0)
    with pytest.raises(conrl.ModelError, match=r"states 0\.\.1"):
        plan.policy.act(0, 2, generator)


@pytest.mark.parametrize("horizon", [conrl.Discounted(0.25), conrl.Average(), conrl.Total()])
def test_files_keep_the_criterion(tmp_path: Path, horizon: Any) -> None:
    mdp = two_places(horizon, 1.0)
    conrl.save_model(tmp_path / "model.npz", mdp)
    again = conrl.load_model(tmp_path / "model.npz")
    assert again.horizon == horizon
    assert conrl.load_model(tmp_path / "model.npz", horizon=7).horizon == 7
    assert repr(horizon).partition("(")[0] in repr(again)


def test_a_foreign_criterion_in_a_file_is_refused(tmp_path: Path) -> None:
    conrl.save_model(tmp_path / "model.npz", two_places(conrl.Average(), 1.0))
    arrays = dict(np.load(tmp_path / "model.npz"))
    np.savez(tmp_path / "other.npz", **arrays | {"criterion": np.array("ergodic")})
    with pytest.raises(conrl.ModelError, match="one of discounted, average, total"):
        conrl.load_model(tmp_path / "other.npz")
    np.savez(tmp_path / "other.npz", **arrays | {"criterion": np.array("discounted")})
    with pytest.raises(conrl.ModelError, match="discount"):
        conrl.load_model(tmp_path / "other.npz")


# -- refusals ---------------------------------------------------------------------------------------------


def test_who_needs_a_horizon_says_so_in_one_line() -> None:
    mdp = two_places(conrl.Discounted(0.9), 5.0)
    asked: dict[str, Callable[[], object]] = {
        "a learner": lambda: mdp.task,
        "single_episode": lambda: conrl.single_episode(mdp),
        "Gymnasium": lambda: conrl.envs.CMDPEnv(mdp),
        "Knapsack": lambda: conrl.plan(mdp, conrl.Knapsack([3.0], 10)),
        "single steps": lambda: conrl.plan(mdp, conrl.Linear(per_step={"cost": 0.5})),
        "single episodes": lambda: conrl.plan(mdp, conrl.Linear(never={"cost": 3.0})),
        "a fleet": lambda: conrl.Fleet([(mdp, 3)]),
        "convex-program": lambda: conrl.plan(mdp, conrl.ConcaveConvex(lambda x: x), planner="convex-program"),
        "value function": lambda: conrl.theory.values(mdp, conrl.plan(mdp).policy, 0),
    }
    for who, ask in asked.items():
        with pytest.raises((conrl.ModelError, conrl.SpecError), match="needs a horizon") as caught:
            ask()
        assert who in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(conrl.ModelError, match="a learner needs a horizon"):
        conrl.Task(2, 2, conrl.Average(), [1.0], ["cost"])  # type: ignore[arg-type]
    with pytest.raises(conrl.ModelError, match="give it a Stationary policy"):
        conrl.evaluate(mdp, conrl.plan(mdp.replace(horizon=3)))
    with pytest.raises(conrl.ModelError, match="the policy is stationary, and the model has 3 steps"):
        conrl.evaluate(mdp.replace(horizon=3), conrl.plan(mdp))
    with pytest.raises(conrl.ModelError, match="comes back to state 'A' forever"):
        conrl.evaluate(mdp.replace(horizon=conrl.Total()), conrl.Stationary([[1, 0], [1, 0]]))
    with pytest.raises(conrl.SpecError, match=r"steps is for models with Average\(\)"):
        conrl.simulate(mdp, conrl.plan(mdp), 10, steps=5)


@pytest.mark.parametrize("discount", [1.0, -0.1, 2, np.nan, "0.9", None, True])
def test_discounts_that_make_no_sense(discount: Any) -> None:
    with pytest.raises(conrl.ModelError, match="discount is"):
        conrl.Discounted(discount)


# -- the command line -------------------------------------------------------------------------------------


def test_the_command_line_plans_without_a_horizon(tmp_path: Path) -> None:
    def run(*words: Any) -> str:
        return CliRunner().invoke(cli, [str(word) for word in words]).output

    path = tmp_path / "model.csv"
    conrl.save_model(path, two_places(conrl.Average(), 1.0))
    assert "discount 0.95" in run("plan", path, "--discount", "0.95", "--limit", "cost=5")
    assert '"criterion": "average of a step"' in run("plan", path, "--average", "--json")
    assert "flat from 1 on" in run("frontier", path, "--average")
    assert "can stay forever" in run("plan", path, "--total")
    assert "--average and --total were given" in run("plan", path, "--average", "--total")
    assert "--discount: discount is 2.0" in run("plan", path, "--discount", "2")
    assert "total until it ends" in run("plan", "gymnasium:FrozenLake-v1", "--total")
    assert "no table holds it" in run("plan", path, "--average", "--limit", "cost=0.5", "--out", tmp_path / "p.csv")

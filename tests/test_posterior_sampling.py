"""Posterior sampling: what is drawn has the posterior's means and variances; the learner that plans in it.

The posterior is written out here from raw counts, in closed form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from contract import judge
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_estimation import Spec, naive, plays

import conrl
from conrl.errors import RunError, SpecError

Float = NDArray[np.float64]


def small(seed: int = 0, room: float = 0.4, costs: int = 1, **more: Any) -> conrl.ConstrainedMDP:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(4, 0.7), size=(4, 3))
    mdp = conrl.ConstrainedMDP(P, rng.random((4, 3)), rng.random((4, 3, costs)), 4, **more)
    return mdp.replace(limits=conrl.feasibility(mdp, conrl.Linear()).least + room)


# -- the draws ------------------------------------------------------------------------------------------------


def walked() -> tuple[conrl.Task, list[conrl.Episode]]:
    """Six states, of which 4 and 5 are never seen; the last pay scatters, the others do not."""
    task = conrl.Task(
        6, 2, 4, [1.0, 1.0], ["fuel", "time"], initial=0, reward_range=(-1.0, 3.0), cost_ranges=[(0.0, 2.0), (5.0, 6.0)]
    )
    rng = np.random.default_rng(3)
    episodes = []
    for _ in range(9):
        states = np.concatenate(([0], rng.choice([0, 1, 2, 3], p=[0.2, 0.4, 0.3, 0.1], size=4)))
        actions = np.where(states[:-1] == 3, 0, rng.integers(2, size=4))
        pay = np.stack((states[1:] / 2.0, 0.5 + 0.0 * actions, rng.uniform(5.0, 6.0, size=4)), axis=1)
        episodes.append(conrl.Episode(states, actions, pay[:, 0], pay[:, 1:]))
    return task, episodes


def many(task: conrl.Task, episodes: list[conrl.Episode], number: int, **more: Any) -> tuple[Float, Float, Any]:
    """Transitions [number, S+2, A, S+1] and pay [number, S+2, A, 1+d] of the task's states; column S is ELSEWHERE."""
    learner = conrl.PosteriorSampling(task, **more)
    learner.prime(episodes)
    S, A = task.num_states, task.num_actions
    order = np.append(learner.counts.order, S)
    P, pay = np.zeros((number, S + 2, A, S + 2)), np.full((number, S + 2, A, 1 + task.num_costs), np.nan)
    for i in range(number):
        learner.reseed(i)
        model = learner.sample()
        g = model.graph
        owner = order[model.pair_state]
        pair = np.repeat(np.arange(model.num_pairs), np.diff(g.start))
        np.add.at(P[i], (owner[pair], model.action[pair], order[g.successor]), g.probability)
        pay[i, owner, model.action] = model.pay
    return P, pay, learner


def assert_moments(drawn: Float, mean: float, variance: float | None, what: str) -> None:
    """Within five standard errors; those of a variance by the fourth moment."""
    n = drawn.size
    assert abs(drawn.mean() - mean) <= 5.0 * drawn.std() / np.sqrt(n) + 1e-9, what
    if variance is not None:
        squares = (drawn - mean) ** 2
        assert abs(squares.mean() - variance) <= 5.0 * squares.std() / np.sqrt(n) + 1e-9, what


@pytest.mark.parametrize("prior", [1.0, 3.5])
def test_draws_have_the_means_and_variances_of_the_posterior(prior: float) -> None:
    task, episodes = walked()
    P, pay, _ = many(task, episodes, 3000, prior=prior)
    seen = naive(task, episodes)
    S, ranges = task.num_states, task.ranges
    kinds = set()
    for s in range(4):
        for a in range(task.num_actions):
            N, led = int(seen.N[s, a]), seen.moved[s, a, :S]
            listed = led > 0
            alpha = led + prior / S
            mean = alpha / alpha.sum()
            for t in np.flatnonzero(listed):
                assert_moments(P[:, s, a, t], mean[t], mean[t] * (1 - mean[t]) / (alpha.sum() + 1), f"{s} {a} {t}")
            for t in np.flatnonzero(~listed[:4]):
                assert_moments(P[:, s, a, t], mean[t], None, f"{s} {a} {t}")
            assert_moments(P[:, s, a, S], mean[4:].sum(), None, f"{s} {a} elsewhere")
            rest = mean[~listed].sum()
            others = P[:, s, a][:, ~np.append(listed, [False] * 2)].sum(axis=1)  # ELSEWHERE among them
            if N:
                assert_moments(others, rest, rest * (1 - rest) / (alpha.sum() + 1), f"{s} {a} others")
            repeats = N - int(listed.sum())
            for i, (low, high) in enumerate(ranges):
                m = (seen.paid[s, a, i] / N - low) / (high - low) if N else 0.5
                x = (pay[:, s, a, i] - low) / (high - low)
                u, v = 1.0 + N * m, 1.0 + N * (1.0 - m)
                if not N:
                    u = v = 1.0
                beta = u / (u + v), u * v / (u + v) ** 2 / (u + v + 1.0)
                scattered = i == 2 and repeats > 0
                kinds.add((bool(N), scattered))
                if not N or scattered:
                    assert_moments(x, *beta, f"pay {i} of {s} {a}")
                    continue
                settled = (repeats + 2.0) / (repeats + 4.0)
                if i == 0:
                    paid = mean[listed] @ ((np.arange(S)[listed] / 2.0 - low) / (high - low))
                elif i == 1:
                    paid = mean[listed].sum() * (0.5 - low) / (high - low)
                else:
                    continue  # one visit: its number is that of the log
                assert_moments(x, settled * (paid + rest / 2.0) + (1.0 - settled) * beta[0], None, f"{i} of {s} {a}")
    assert kinds == {(False, False), (True, False), (True, True)}
    x = (pay[:, S, 0] - ranges[:, 0]) / (ranges[:, 1] - ranges[:, 0])
    for i in range(3):
        assert_moments(x[:, i], 0.5, 1 / 12, "elsewhere pays what the prior draws")
    assert (P[:, S, 0, S] == 1.0).all()


def test_many_visits_leave_no_doubt_and_settled_pay_follows_the_transitions() -> None:
    task, episodes = walked()
    P, pay, learner = many(task, episodes * 4000, 20)
    seen = naive(task, episodes)
    tried = seen.N[:4] > 0
    p = (seen.moved[:4, :, :6] / np.maximum(seen.N[:4], 1)[..., None])[tried]
    assert np.abs(P[:, :4, :, :6][:, tried] - p).max() < 0.03
    means = (seen.paid[:4] / np.maximum(seen.N[:4], 1)[..., None])[tried]
    assert np.abs(pay[:, :4][:, tried] - means).max() < 0.06
    follows = (P[:, :4, :, :6] @ (np.arange(6) / 2.0))[:, tried]
    assert np.abs(pay[:, :4, :, 0][:, tried] - follows).max() < 5e-3
    assert learner.primed == 36000


@settings(max_examples=40, deadline=None)
@given(spec=plays(), prior=st.sampled_from([1e-300, 1e-3, 1.0, 1e12]), seed=st.integers(0, 1000))
def test_what_is_drawn_is_a_model(spec: Spec, prior: float, seed: int) -> None:
    task, episodes = spec.build()
    learner = conrl.PosteriorSampling(task, prior=prior, seed=seed)
    learner.prime(episodes)
    model, counts, S = learner.sample(), learner.counts, task.num_states
    g = model.graph
    unseen = S - int((counts.order < S).sum())
    assert model.num_states == counts.num_seen + (unseen > 0)
    assert model.num_pairs == counts.num_pairs + (unseen > 0)
    assert np.add.reduceat(g.probability, g.start[:-1]) == pytest.approx(np.ones(model.num_pairs), abs=1e-12)
    assert (g.probability > 0.0).all()
    assert (np.diff(g.start) >= 1).all()
    order = np.append(counts.order, -1)  # ELSEWHERE
    pair = np.repeat(np.arange(model.num_pairs), np.diff(g.start))
    owner, to = order[model.pair_state[pair]], order[g.successor]
    keys = list(zip(pair.tolist(), to.tolist(), strict=True))
    assert len(set(keys)) == len(keys)  # the other state is another one
    assert not (to == S).any()  # nothing leads to START
    assert (to[owner == S + 1] == S + 1).all()  # END stays
    assert (to[owner == -1] == -1).all()
    led = naive(task, episodes).moved
    for k, t in keys:
        s = int(order[model.pair_state[k]])
        assert t != S + 1 or s == S + 1 or led[s, model.action[k], S + 1] > 0  # no end where none was seen
    real = (order[model.pair_state] < S) | (order[model.pair_state] == -1)
    low, high = task.ranges.T
    assert ((model.pay >= low) & (model.pay <= high))[real].all()
    assert not model.pay[~real].any()
    again = learner.sample()
    assert again.pay.tobytes() == model.pay.tobytes()
    assert again.graph.probability.tobytes() == g.probability.tobytes()
    learner.propose()


def test_where_steps_differ_a_pair_leads_to_the_next_step() -> None:
    rng = np.random.default_rng(1)
    H, S, A = 3, 3, 2
    P = rng.dirichlet(np.full(S, 0.5), size=(H, S, A))
    for initial in (0, [0.5, 0.5, 0.0]):
        mdp = conrl.ConstrainedMDP(P, rng.random((H, S, A)), rng.random((H, S, A, 1)), initial=initial)
        learner = conrl.PosteriorSampling(mdp.task, problem=[2.0], seed=0)
        conrl.learn(mdp, learner, 6, seed=0)
        order = learner.counts.order
        for seed in range(30):
            learner.reseed(seed)
            model = learner.sample()
            pair = np.repeat(np.arange(model.num_pairs), np.diff(model.graph.start))
            for k, t in zip(pair.tolist(), model.graph.successor.tolist(), strict=True):
                if k < learner.counts.num_pairs and t < order.size:
                    s = int(order[model.pair_state[k]])
                    step = 0 if s == H * S else min(s // S + 1, H - 1)
                    assert order[t] // S == step


# -- the learner ----------------------------------------------------------------------------------------------


def test_it_learns_a_small_dirichlet_model() -> None:
    mdp = small()
    best = conrl.plan(mdp)
    learner = conrl.PosteriorSampling(mdp.task)
    history = conrl.learn(mdp, learner, 300, seed=0)
    assert history.expected_rewards is not None
    assert history.expected_costs is not None
    assert history.expected_rewards[-100:].mean() == pytest.approx(best.reward, rel=0.02)
    assert history.expected_costs[-100:].mean() <= 1.03 * history.limits[0]
    assert history.expected_rewards[:20].mean() < 0.99 * best.reward  # which it did not know at first
    assert learner.prices is not None
    assert learner.prices[0] > 0.0


def test_plans_in_drawn_models_keep_the_contract() -> None:
    """Several costs and floors; judged in exact arithmetic."""
    mdp = small(1, costs=3)
    problem = conrl.Linear(mdp.limits, floors={"cost2": 0.1})
    learner = conrl.PosteriorSampling(mdp.task, problem=problem)
    judged = 0
    for k in range(1, 9):
        conrl.learn(mdp, learner, 2, seed=0)
        model = learner.sample()
        try:
            plan: Any = conrl.plan(model, problem)
        except conrl.InfeasibleError as error:
            plan = error
        assert judge(model, problem, plan) == [], k
        learner.propose()
        assert learner.proposal.infeasible == isinstance(plan, Exception)
        judged += not isinstance(plan, Exception)
    assert judged


def test_limits_that_cannot_be_kept_are_recorded() -> None:
    mdp = small(2)
    least = conrl.feasibility(mdp, conrl.Linear()).least
    hard = mdp.replace(limits=0.5 * least)
    history = conrl.learn(hard, conrl.PosteriorSampling(hard.task), 150, seed=0)
    assert history.infeasible[-50:].all()
    assert history.expected_costs is not None
    assert history.expected_costs[-50:].mean() == pytest.approx(least[0], rel=0.05)


def test_the_problem_may_be_convex_and_may_change() -> None:
    pytest.importorskip("cvxpy")
    mdp = small(3)
    fair = conrl.ConcaveConvex(conrl.convex.diminishing(), conrl.convex.at_most(0, 1.6))
    learner = conrl.PosteriorSampling(mdp.task, problem=fair, seed=0)
    history = conrl.learn(mdp, learner, 5, seed=0)
    assert len(history) == 5
    assert learner.prices is None
    learner = conrl.PosteriorSampling(mdp.task, seed=0)
    conrl.learn(mdp, learner, 5, seed=0)
    before = learner.propose()
    learner.problem = [9.0]
    fresh = conrl.plan(learner.sample(), [9.0])
    assert learner.propose() is not before
    assert learner.prices == pytest.approx(fresh.prices)
    with pytest.raises(SpecError, match="takes Linear or ConcaveConvex problems, not Knapsack"):
        conrl.PosteriorSampling(mdp.task, problem=conrl.Knapsack([10.0], 100))
    with pytest.raises(SpecError, match="learned by ConRL"):
        conrl.PosteriorSampling(mdp.task, problem=conrl.Linear(never={"cost0": 2}))


def test_unknown_start_missing_actions_and_early_ends() -> None:
    available = np.ones((4, 3), dtype=bool)
    available[1, 0] = available[2, 2] = available[3, :2] = False
    mdp = small(4, initial=[0.5, 0.5, 0.0, 0.0], available=available)
    learner = conrl.PosteriorSampling(mdp.task)
    history = conrl.learn(mdp, learner, 60, seed=0)
    counts = learner.model.counts
    assert counts is not None
    assert not counts[~available].any()
    assert history.expected_rewards is not None
    assert history.expected_rewards[-20:].mean() > 0.9 * conrl.plan(mdp).reward
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=20)
    task = conrl.Task.from_gymnasium(env, limits=[15.0], cost_names=["steps"])
    lake = conrl.PosteriorSampling(task, preset="sparse", seed=0)
    history = conrl.learn(env, lake, 200, seed=0, cost=lambda *step: [1.0])
    assert lake.counts.known >= 0
    assert history.rewards[-30:].mean() > 0.8


@pytest.mark.parametrize("options", [{}, {"preset": "sparse"}, {"prior": 0.3, "keep_policies": False}], ids=str)
def test_saved_and_loaded_it_goes_on_exactly(options: dict[str, Any], tmp_path: Path) -> None:
    mdp = small(5, initial=[0.3, 0.7, 0.0, 0.0])
    straight = conrl.PosteriorSampling(mdp.task, seed=5, **options)
    whole = conrl.learn(mdp, straight, 30, seed=5)
    learner = conrl.PosteriorSampling(mdp.task, seed=5, **options)
    first = conrl.learn(mdp, learner, 13, seed=5)
    _ = learner.propose()  # a proposal not yet observed is made again
    learner.save(tmp_path / "a.npz")
    again = conrl.load_learner(tmp_path / "a.npz")
    assert again.config() == learner.config()
    rest = conrl.learn(mdp, again, 17, seed=5)
    assert np.array_equal(np.vstack((first.executed, rest.executed)), whole.executed)  # type: ignore[arg-type]
    mine, theirs = again.state(), straight.state()
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        assert array.tobytes() == theirs[name].tobytes(), name


def test_the_same_seed_gives_the_same_run() -> None:
    mdp = small(6)
    runs = [conrl.learn(mdp, conrl.PosteriorSampling(mdp.task), 15, seed=s).to_csv() for s in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"preset": "defualt"}, "did you mean 'default'"),
        ({"prior": 0.0}, "prior is 0.0"),
        ({"prior": -1.0}, "prior is -1.0"),
        ({"prior": "1"}, "prior is '1'"),
        ({"prior": 1e13}, "at most 1e[+]12"),
        ({"prior": float("nan")}, "prior is nan"),
        ({"seed": -1}, "seed is -1"),
    ],
    ids=str,
)
def test_what_makes_no_learner_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        conrl.PosteriorSampling(small().task, **wrong)


def test_logged_episodes_count_as_seen() -> None:
    task, episodes = walked()
    learner = conrl.PosteriorSampling(task)
    assert learner.prime(episodes) == 9
    assert learner.model.counts is not None
    assert learner.model.counts.sum() == 36
    with pytest.raises(RunError, match="episode 1 of the log"):
        learner.prime([conrl.Episode([0, 9], [0], [0.0], [[0.0, 5.0]])])

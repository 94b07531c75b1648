"""TFW-UCRL2: the reduction, extended value iteration against linear programs, the learner in continuing mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

import conrl
from conrl import ConstrainedMDP, kernels, learn
from conrl.envs import box, mars_rover
from conrl.episode import Episode
from conrl.errors import ModelError, RunError, SpecError
from conrl.learners import LEARNERS
from conrl.learners.objectives import Penalised
from conrl.learners.saving import load_learner
from conrl.learners.tfw_ucrl2 import TFWUCRL2, radius
from conrl.model.transform import absorbing, reachable_part, single_episode
from conrl.problem import Linear
from conrl.running.history import History

Float = NDArray[np.float64]
EXACT = 1e-9


# -- the reduction ----------------------------------------------------------------------------------------


def test_terminal_states_return_to_the_start_and_pay_as_before() -> None:
    mdp = mars_rover(rock_reward=1.0)
    once = single_episode(mdp)
    ends = np.flatnonzero(absorbing(mdp))
    assert ends.size == 9  # one goal, eight rocks
    T, before = once.transitions.toarray(), mdp.transitions.toarray()
    rows = np.isin(mdp.pair_state, ends)
    assert (T[rows, 0] == 1.0).all()
    assert (T[~rows] == before[~rows]).all()
    assert (once.pay == mdp.pay).all()
    assert not absorbing(once).any()
    assert (once.horizon, once.limits) == (30, mdp.limits)
    assert once.task.reward_range == mdp.task.reward_range
    assert once.layout is mdp.layout
    assert once.state_names == mdp.state_names


def test_the_return_follows_the_initial_distribution() -> None:
    T = np.zeros((3, 1, 3))
    T[0, 0, 2], T[1, 0, 2], T[2, 0, 2] = 1.0, 1.0, 1.0
    pay = np.array([[0.0], [0.5], [0.25]])
    mdp = ConstrainedMDP(T, pay, [pay], 4, initial=[0.25, 0.75, 0.0], state_names=["left", "right", "end"])
    once = single_episode(mdp)
    assert (once.transitions.toarray()[2] == [0.25, 0.75, 0.0]).all()
    assert (once.pay == mdp.pay).all()
    named = single_episode(mdp, terminal=["end"])
    assert (named.transitions.toarray() == once.transitions.toarray()).all()
    other = single_episode(mdp, terminal=[0, 2])
    assert (other.transitions.toarray()[0] == [0.25, 0.75, 0.0]).all()


def test_outcomes_of_a_terminal_step_keep_their_pay() -> None:
    mdp = ConstrainedMDP.from_outcomes(
        [0, 1, 1],
        [0, 0, 0],
        [1, 1, 1],
        [1.0, 0.25, 0.75],
        [[0.0], [1.0], [0.0]],
        num_states=2,
        num_actions=1,
        horizon=3,
        initial=0,
    )
    once = single_episode(mdp)
    assert once.outcome_pay is not None
    assert once.outcome_pay[:, 0].tolist().count(1.0) == 1
    assert (once.pay == mdp.pay).all()
    g = once.graph
    assert g.successor.tolist() == [1, 0, 0]
    assert np.add.reduceat(g.probability, g.start[:-1]).tolist() == [1.0, 1.0]


def test_the_reduction_refuses_what_makes_no_sense() -> None:
    once = single_episode(mars_rover())
    with pytest.raises(ModelError, match="no terminal state"):
        single_episode(once)
    with pytest.raises(ModelError, match="terminal state 'moon' is not in the model"):
        single_episode(once, terminal=["moon"])
    with pytest.raises(ModelError, match="terminal state 64 is not"):
        single_episode(once, terminal=[64])
    with pytest.raises(ModelError, match="expected a list"):
        single_episode(once, terminal="r0c0")
    with pytest.raises(ModelError, match="is itself terminal"):
        single_episode(mars_rover(), terminal=[0])


def test_the_reachable_part_is_the_same_problem() -> None:
    whole = box()
    part = reachable_part(whole)
    assert part.num_states == 60
    assert part.state_names == tuple(n for n in whole.state_names if n in set(part.state_names))
    assert conrl.plan(part).reward == pytest.approx(conrl.plan(whole).reward, abs=EXACT)
    assert part.features is not None
    assert part.features.shape[0] == 60
    assert part.layout is not None
    assert part.layout.cell.size == 60
    T = part.transitions.toarray()
    assert T.sum(axis=1) == pytest.approx(np.ones(240))
    again = reachable_part(part)
    assert (again.transitions.toarray() == T).all()
    assert conrl.simulate(part, conrl.plan(part).policy, episodes=50, seed=0) is not None


# -- extended value iteration -----------------------------------------------------------------------------


def random_counts(rng: np.random.Generator, S: int, A: int, most: int) -> tuple[Any, ...]:
    """first, start, successor, probability, visits of counts, with pairs never visited among them."""
    start, visits = [0], list[int]()
    successor, probability = list[int](), list[float]()
    for _ in range(S * A):
        n = int(rng.integers(0, most))
        drawn = rng.choice(S, size=n, p=rng.dirichlet(np.full(S, 0.3))) if n else np.zeros(0, dtype=int)
        seen, counts = np.unique(drawn, return_counts=True)
        successor += seen.tolist() or [int(rng.integers(S))]
        probability += (counts / max(n, 1)).tolist() or [1.0]
        visits.append(n)
        start.append(len(successor))
    first = np.arange(0, S * A + 1, A)
    return first, np.array(start), np.array(successor, dtype=np.int32), np.array(probability), np.array(visits)


def bounds(S: int, counts: tuple[Any, ...], log: float) -> tuple[Float, Float]:
    """Dense [P, S] bounds of the transitions, written out from the formula."""
    _, start, successor, probability, visits = counts
    means = np.zeros((visits.size, S))
    for k in np.flatnonzero(visits):
        means[k, successor[start[k] : start[k + 1]]] = probability[start[k] : start[k + 1]]
    share = log / np.maximum(visits, 1)[:, None]
    r = np.clip(np.maximum(np.sqrt(means * share), share), 0.0, 1.0)
    return np.maximum(means - r, 0.0), np.minimum(means + r, 1.0)


@pytest.mark.parametrize("seed", range(8))
def test_the_inner_maximum_is_that_of_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    S = int(rng.integers(1, 9))
    counts = random_counts(rng, S, 2, int(rng.choice([3, 40, 4000])))
    _, start, successor, probability, visits = counts
    log = float(np.log(rng.integers(3, 10**5)))
    low, width, free = kernels.intervals(start, probability, visits, log)
    V = rng.normal(size=S) if seed % 2 else rng.integers(0, 3, size=S).astype(float)  # ties too
    order = np.argsort(-V, kind="stable")
    rank = np.argsort(order)
    prefix = np.concatenate(([0.0], np.cumsum(V[order])))
    lower, upper = bounds(S, counts, log)
    for k in range(visits.size):
        found = kernels.optimistic(
            start[k], start[k + 1], successor.copy(), low.copy(), width.copy(), free[k], V, order, rank, prefix
        )
        best = linprog(-V, A_eq=np.ones((1, S)), b_eq=[1.0], bounds=np.stack((lower[k], upper[k]), axis=1))
        assert found == pytest.approx(-best.fun, abs=EXACT), k


def best_gain(S: int, first: Any, reward: Float, lower: Float, upper: Float, pairs: Any) -> float:
    """The optimistic average reward by one linear program over joint frequencies y(k, t), t the next state."""
    n = len(pairs)
    flow = np.zeros((S + 1, n * S))
    for i, k in enumerate(pairs):
        s = int(np.searchsorted(first, k, side="right")) - 1
        flow[s, i * S : (i + 1) * S] += 1.0
        flow[np.arange(S), i * S + np.arange(S)] -= 1.0
    flow[S] = 1.0
    within = np.zeros((2 * n * S, n * S))
    for i, k in enumerate(pairs):
        for t in range(S):
            within[i * S + t, i * S : (i + 1) * S] = lower[k, t]  # lower x - y <= 0
            within[i * S + t, i * S + t] -= 1.0
            within[(n + i) * S + t, i * S : (i + 1) * S] = -upper[k, t]  # y - upper x <= 0
            within[(n + i) * S + t, i * S + t] += 1.0
    target = np.zeros(S + 1)
    target[S] = 1.0
    found = linprog(
        -np.repeat(reward[pairs], S), A_ub=within, b_ub=np.zeros(len(within)), A_eq=flow, b_eq=target, method="highs"
    )
    return -float(found.fun)


@pytest.mark.parametrize("seed", range(6))
def test_extended_value_iteration_is_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    S, A = int(rng.integers(2, 5)), 2
    counts = random_counts(rng, S, A, int(rng.choice([5, 200, 5000])))
    first, start, successor, probability, visits = counts
    log = float(np.log(1.0 + max(2, visits.sum())))
    reward = rng.random(S * A)
    choice, V = np.zeros(S, dtype=np.int64), np.zeros(S)
    low, width, free = kernels.intervals(start, probability, visits, log)
    gain, span, sweeps = kernels.extended_value_iteration(
        first, start, successor.copy(), low, width, free, reward, V, choice, 1e-7, 0.9, 1e-12, 10**6
    )
    assert span <= 1e-7
    assert sweeps < 10**6
    lower, upper = bounds(S, counts, log)
    best = best_gain(S, first, reward, lower, upper, np.arange(S * A))
    assert gain == pytest.approx(best, abs=1e-6)
    chosen = best_gain(S, first, reward, lower, upper, first[:-1] + choice)
    assert chosen == pytest.approx(best, abs=1e-6)


def test_a_nearly_periodic_chain_converges() -> None:
    """Two states that take turns, seen 10 million times each: undamped, the values would swing for 10^5 sweeps."""
    first, start, successor = np.arange(3), np.arange(3), np.array([1, 0], dtype=np.int32)
    visits = np.array([10**7, 10**7])
    low, width, free = kernels.intervals(start, np.ones(2), visits, 16.0)
    V, choice = np.zeros(2), np.zeros(2, dtype=np.int64)
    reward = np.array([0.0, 1.0])
    gain, _, sweeps = kernels.extended_value_iteration(
        first, start, successor, low, width, free, reward, V, choice, 1e-6, 0.9, 1e-12, 10**6
    )
    assert gain == pytest.approx(0.5, abs=1e-5)
    assert sweeps < 200
    more = np.full(2, 0.5)  # and a wrong start does not matter
    again = kernels.extended_value_iteration(
        first, start, successor, low, width, free, reward, more, choice, 1e-6, 0.9, 1e-12, 10**6
    )
    assert again[0] == pytest.approx(gain, abs=1e-6)


def test_intervals_are_the_radius_around_each_mean() -> None:
    low, width, free = kernels.intervals(np.array([0, 2]), np.array([0.25, 0.75]), np.array([40]), float(np.log(11.0)))
    r = radius([0.25, 0.75, 0.0], 40, 10)
    assert low == pytest.approx(np.array([0.25, 0.75]) - r[:2])
    assert low + width == pytest.approx(np.minimum(np.array([0.25, 0.75]) + r[:2], 1.0))
    assert free[0] == pytest.approx(r[2])
    assert r[2] == pytest.approx(np.log(11.0) / 40)
    assert radius(0.3, 0, 10) == 1.0


# -- the objective ----------------------------------------------------------------------------------------


def test_the_objective_is_the_formula_and_its_gradient() -> None:
    g = TFWUCRL2(single_episode(mars_rover()).task).objective
    assert isinstance(g, Penalised)
    assert g.targets == pytest.approx([1.0, 0.01])
    w = np.array([0.05, 0.03])
    assert g.value(w) == pytest.approx(0.5 * (1e-4 * 0.05 - 0.5 * 0.02**2))
    assert g.gradient(np.array([0.05, 0.005])) == pytest.approx([5e-5, 0.0])
    for i in range(2):
        step = 1e-6 * np.eye(2)[i]
        slope = (g.value(w + step) - g.value(w - step)) / 2e-6
        assert g.gradient(w)[i] == pytest.approx(slope, rel=1e-6)


# -- the learner ------------------------------------------------------------------------------------------


def two_ways(limit: float = 0.2, horizon: int = 20) -> ConstrainedMDP:
    """Two states; in each, stay or go. A step in state 1 pays 1 and costs 1, one in state 0 pays 0.3."""
    T = np.zeros((2, 2, 2))
    T[0, 0], T[0, 1], T[1, 0], T[1, 1] = [0.95, 0.05], [0.2, 0.8], [0.05, 0.95], [0.8, 0.2]
    rewards = np.array([[0.3, 0.3], [1.0, 1.0]])
    costs = np.array([[[0.0], [0.0]], [[1.0], [1.0]]])
    return ConstrainedMDP(T, rewards, costs, horizon, limits=[limit * horizon])


@pytest.mark.parametrize("seed", range(3))
def test_the_average_ends_inside_the_target(seed: int) -> None:
    """Within the swing of one epoch: n steps away from the target by at most x = 0.75 move the average by n x / t and
    the gradient by n^2 x / (4 t) in all; at the threshold 1 / sqrt(2) that is n x / t = sqrt(2 sqrt(2) x / t)."""
    mdp = two_ways()
    learner = TFWUCRL2(mdp.task, reward_weight=1e-3)
    history = learn(mdp, learner, 2000, seed=seed)
    swing = np.sqrt(8.0**0.5 * 0.75 / learner.steps)
    assert swing < 0.01
    reward, cost = learner.average
    assert cost <= 0.2 + 0.0007 + swing  # at an excess of 0.0007 penalty and reward balance
    assert reward >= 0.3 + 0.7 * (0.2 - swing)  # the best at that cost
    assert history.expected_rewards is not None
    assert history.expected_rewards[-1] == pytest.approx(20 * history.rewards.sum() / (2000 * 20))
    assert history.expected_costs is not None
    assert history.expected_costs[-1, 0] == pytest.approx(history.costs.mean())
    assert (history.steps == 20).all()


def test_any_smooth_concave_objective() -> None:
    mdp = two_ways()

    class Balance:
        """Half of the time in each state."""

        def value(self, w: Float) -> float:
            return -float((w[1] - 0.5) ** 2)

        def gradient(self, w: Float) -> Float:
            return np.array([0.0, -2.0 * (w[1] - 0.5)])

    learner = TFWUCRL2(mdp.task, objective=Balance())
    learn(mdp, learner, 300, seed=0)
    assert learner.average[1] == pytest.approx(0.5, abs=0.02)
    assert learner.objective.value(learner.average) > -1e-3


def test_the_gradient_alone_ends_epochs() -> None:
    mdp = two_ways()
    patient, eager = (TFWUCRL2(mdp.task, penalty_weight=10.0, threshold=q) for q in (1e6, 0.1))
    for learner in (patient, eager):
        learn(mdp, learner, 50, seed=0)
    assert eager.epochs > 2 * patient.epochs


def test_an_epoch_ends_exactly_when_it_should() -> None:
    """Step by step: the policy changes only after a pair's visits doubled, or the gradient's changes exceeded Q."""
    mdp = two_ways(horizon=50)
    learner = TFWUCRL2(mdp.task, penalty_weight=3.0)
    rng = np.random.default_rng(0)
    visits, state = np.zeros((2, 2), dtype=int), 0
    total, theta, change = np.zeros(2), np.zeros(2), 0.0
    before, epoch, ends = visits.copy(), 0, {"visits": 0, "gradient": 0}
    for t in range(1, 3000):
        action = learner.propose().act(0, state, rng)
        if learner.epochs > epoch:
            before, epoch = visits.copy(), learner.epochs
            theta, change = np.asarray(learner.objective.gradient(total / max(t - 1, 1))), 0.0
        successor = int(rng.random() < mdp.transitions.toarray()[2 * state + action, 1])
        pay = np.concatenate(([mdp.rewards[state, action]], mdp.costs[state, action]))
        learner.observe(Episode([state, successor], [action], pay[:1], pay[None, 1:]))
        visits[state, action] += 1
        total += pay
        change += float(np.linalg.norm(np.asarray(learner.objective.gradient(total / t)) - theta))
        doubled = visits[state, action] - before[state, action] >= max(1, before[state, action])
        moved = change > 0.5**0.5
        learner.propose()
        assert (learner.epochs > epoch) == (doubled or moved)
        ends["visits"] += doubled
        ends["gradient"] += moved and not doubled
        state = successor
    assert min(ends.values()) > 5
    assert learner.steps == 2999
    assert learner.episodes == 59


def test_compiled_and_stepwise_playing_agree() -> None:
    """The same objective as functions of the user's own is followed step by step: the run is the same."""
    mdp = single_episode(mars_rover(rock_reward=1.0))
    fast = TFWUCRL2(mdp.task)
    slow = TFWUCRL2(mdp.task, objective=(fast.objective.value, fast.objective.gradient))
    histories = [learn(mdp, learner, 60, seed=5) for learner in (fast, slow)]
    assert fast.epochs == slow.epochs
    assert (fast.state()["actions"] == slow.state()["actions"]).all()
    assert histories[0].to_csv() == histories[1].to_csv()


def test_trajectories_join_without_a_reset() -> None:
    mdp = single_episode(mars_rover(rock_reward=1.0))
    learner = TFWUCRL2(mdp.task)
    assert learner.position is None
    seen: list[int] = []
    observe = learner.observe

    def spy(episode: Episode) -> None:
        states = np.asarray(episode.states).tolist()
        assert not seen or seen[-1] == states[0]
        seen.extend(states)
        observe(episode)

    learner.observe = spy  # type: ignore[method-assign]
    learn(mdp, learner, 10, seed=0)
    assert learner.steps == 300
    assert seen[0] == 0


def same(one: TFWUCRL2, other: TFWUCRL2) -> bool:
    a, b = one.state(), other.state()
    return a.keys() == b.keys() and all(a[k].tobytes() == b[k].tobytes() for k in a)


@pytest.mark.parametrize("between", [False, True], ids=["after observe", "after propose"])
def test_a_saved_learner_goes_on_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: bool) -> None:
    monkeypatch.setitem(LEARNERS, TFWUCRL2.name, TFWUCRL2)
    mdp = single_episode(box())
    whole = TFWUCRL2(mdp.task, keep_policies=True, reward_weight=1e-3)
    straight = learn(mdp, whole, 60, seed=4)
    parted = TFWUCRL2(mdp.task, keep_policies=True, reward_weight=1e-3)
    history: History | None = None
    for n in (1, 22, 37):
        history = learn(mdp, parted, n, seed=4, history=history)
        if between:
            parted.propose()
        parted.save(tmp_path / "learner.npz")
        parted = load_learner(tmp_path / "learner.npz")
    if between:
        whole.propose()
    assert same(whole, parted)
    assert history is not None
    assert history.to_csv() == straight.to_csv()
    assert whole.average_policy.weights.sum() == pytest.approx(1.0)


def test_an_objective_of_ones_own_is_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS, TFWUCRL2.name, TFWUCRL2)
    mdp = two_ways()
    own = (lambda w: float(w[0]), lambda w: np.array([1.0, 0.0]))
    learner = TFWUCRL2(mdp.task, objective=own)
    learn(mdp, learner, 3, seed=0)
    learner.save(tmp_path / "learner.npz")
    with pytest.raises(SpecError, match="pass load_learner"):
        load_learner(tmp_path / "learner.npz")
    loaded = load_learner(tmp_path / "learner.npz", objective=own)
    for each in (learner, loaded):
        learn(mdp, each, 3, seed=0)
    assert same(learner, loaded)


def test_damaged_states_are_refused() -> None:
    mdp = two_ways()
    learner = TFWUCRL2(mdp.task)
    learn(mdp, learner, 2, seed=0)
    learner.propose()
    for name, wrong, message in (
        ("actions", np.array([0, 7], dtype=np.int16), "action is not one"),
        ("clock", np.array([40, 3, 2, 1]), "position"),
        ("left", np.zeros((3, 2), dtype=np.int64), "left has shape"),
    ):
        with pytest.raises(RunError, match=message):
            TFWUCRL2(mdp.task).load_state(learner.state() | {name: wrong})


def test_equal_seeds_give_equal_runs() -> None:
    mdp = single_episode(mars_rover(rock_reward=1.0))
    texts = [learn(mdp, TFWUCRL2(mdp.task), 20, seed=s).to_csv() for s in (1, 1, 2)]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


@pytest.mark.parametrize(("make", "most"), [(lambda: mars_rover(rock_reward=1.0), 0.75), (box, 0.75)])
def test_the_papers_environments(make: Any, most: float) -> None:
    """1,000 trajectories are far from enough (so says the paper); but the cost is falling."""
    mdp = single_episode(make())
    learner = TFWUCRL2(mdp.task)
    history = learn(mdp, learner, 1000, seed=0)
    assert (learner.counts.visits > 0).mean() > 0.4
    assert 30 * learner.average[1] < most
    assert history.costs[-300:].mean() < history.costs[:300].mean()


def test_unreachable_states_keep_it_searching() -> None:
    """Why Box needs `reachable_part`: what cannot be reached stays optimistic, and plans look for a way there."""
    rewards = []
    for mdp in (single_episode(box()), reachable_part(single_episode(box()))):
        learner = TFWUCRL2(mdp.task)
        rewards.append(learn(mdp, learner, 4000, seed=0).rewards[-1000:].mean())
    assert rewards[1] > 1.5 * rewards[0]


def test_pay_that_is_drawn() -> None:
    mdp = two_ways().replace(reward_range=(0.0, 1.0), cost_ranges=[(0.0, 1.0)])
    learner = TFWUCRL2(mdp.task)
    history = learn(mdp, learner, 30, seed=0, pay="bernoulli")
    assert learner.steps == 600
    assert learner.average * 600 == pytest.approx([history.rewards.sum(), history.costs.sum()])


def test_a_random_start_and_missing_actions() -> None:
    T = np.zeros((3, 2, 3))
    T[0, :, 2], T[1, :, 2], T[2, 0] = 1.0, 1.0, [0.5, 0.5, 0.0]
    mdp = ConstrainedMDP(
        T,
        np.ones((3, 2)),
        None,
        5,
        initial=[0.5, 0.5, 0.0],
        available=[[True, True], [False, True], [True, False]],
    )
    learner = TFWUCRL2(mdp.task)
    learn(mdp, learner, 20, seed=0)
    assert learner.average[0] == 1.0
    assert learner.steps == 100
    assert conrl.evaluate(mdp, learner.propose()).reward == pytest.approx(5.0)


# -- refusals ---------------------------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused() -> None:
    task = two_ways().task
    with pytest.raises(SpecError, match="did you mean 'authors'"):
        TFWUCRL2(task, preset="author")
    with pytest.raises(SpecError, match="limits only"):
        TFWUCRL2(task, problem=Linear(floors=[1.0]))
    with pytest.raises(SpecError, match="reward_weight is -1"):
        TFWUCRL2(task, reward_weight=-1)
    with pytest.raises(SpecError, match="accuracy is 0"):
        TFWUCRL2(task, accuracy=0.0)
    with pytest.raises(SpecError, match="value"):
        TFWUCRL2(task, objective=3)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="pair of functions"):
        TFWUCRL2(task, objective=(1, 2))  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="targets has shape"):
        TFWUCRL2(task, objective=Penalised(np.zeros(3)))
    with pytest.raises(SpecError, match="2 finite numbers"):
        TFWUCRL2(task, objective=(lambda w: 0.0, lambda w: np.zeros(3))).propose()
    big = ConstrainedMDP(np.ones((1, 1, 1)), [[5.0]], None, 3)
    with pytest.raises(SpecError, match="needs rewards and costs of one step in"):
        TFWUCRL2(big.task, preset="authors")
    assert TFWUCRL2(big.task).objective.gradient(np.array([5.0])) == pytest.approx([5e-5])


def test_episodes_that_do_not_continue_are_refused_and_change_nothing() -> None:
    learner = TFWUCRL2(two_ways().task)
    learner.observe(Episode([0, 1], [0], [0.3], [[0.0]]))
    before = learner.state()
    for wrong, message in (
        (Episode([0, 0], [0], [0.3], [[0.0]]), "went on in state 0; it had come to 1"),
        (Episode([1, 0], [0], [1.0], [[1.0]], terminated=True), "unending"),
        (Episode.null(1), "skipped"),
        (Episode([1, 2], [0], [1.0], [[1.0]]), "state 2 was seen"),
    ):
        with pytest.raises(RunError, match=message):
            learner.observe(wrong)
    assert all((before[k] == a).all() for k, a in learner.state().items())


def test_learn_refuses_absorbing_models_and_environments() -> None:
    mdp = mars_rover()
    with pytest.raises(SpecError, match="use single_episode"):
        learn(mdp, TFWUCRL2(mdp.task), 1)
    env = gymnasium.make("conrl/MarsRover-v0")
    with pytest.raises(SpecError, match="one unending episode"):
        learn(env, TFWUCRL2(mdp.task), 1)


def test_the_history_of_an_unending_episode_is_averaged_once() -> None:
    """Its expected values are means since the beginning: the regret is that of the last of them."""
    mdp = reachable_part(single_episode(mars_rover(rock_reward=1.0)))
    history = learn(mdp, TFWUCRL2(mdp.task), 40, seed=1)
    executed, best = history.executed, history.optimum
    assert executed is not None
    assert best is not None
    assert history.regret.reward == pytest.approx(best.reward - executed[:, 0])
    assert history.regret.cost == pytest.approx((executed[:, 1:] - history.limits).max(axis=1))
    assert executed[-1, 1:] == pytest.approx(history.costs.mean(axis=0))  # every step is of H
    assert np.array_equal(history.smooth, executed)
    assert np.array_equal(history.recent(), executed[-1])

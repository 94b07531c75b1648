"""Hard budgets: what is really spent over all K episodes never exceeds a budget but for the rounding of sums, in exact
rational arithmetic.

Samplers pay the worst that the task's ranges allow, or anything else within them; the books are kept in
`fractions.Fraction`, beside those of the learner.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from bank import still
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import conrl
from conrl import kernels
from conrl.learners.budget import Budget, sum_up
from conrl.learners.saving import write_sealed
from conrl.running import GymnasiumWorld, ModelWorld

Float = NDArray[np.float64]


class Greedy:
    """A planner that cares for reward alone, and says so: it would break any budget."""

    name = "greedy"
    problems = (conrl.Linear, conrl.ConcaveConvex, conrl.Knapsack)

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def plan(self, mdp: conrl.ConstrainedMDP, problem: Any, start: Any = None, relax: bool = False) -> conrl.Plan:
        self.asked.append(problem)
        return replace(conrl.plan(mdp, conrl.Linear()), problem=problem, status="approximate")


def exact(costs: Any) -> list[Fraction]:
    """[d]: the sum of the steps' costs [L, d], without rounding."""
    return [sum(map(Fraction, column), Fraction(0)) for column in np.asarray(costs, dtype=np.float64).T.tolist()]


def reaches(budget: float, steps: int, low: float, high: float) -> Fraction:
    """The budget, and what rounding may have taken from the sum of so many costs in a range."""
    largest = max(Fraction(budget), steps * Fraction(max(-low, high)) if low < 0.0 < high else Fraction(0))
    return Fraction(budget) + (steps + 2) * largest / 2**51


# -- sums that are rounded up ---------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(-1e12, 1e12),
    st.integers(-100, 100).map(lambda n: n * 0.1),
    st.floats(0.0, 1e-300),
    st.sampled_from([0.0, 1.0, 0.1, 1 / 3, 2.0**53, 5e-324]),
)


@settings(max_examples=300, deadline=None)
@given(a=NUMBERS, b=NUMBERS)
def test_sums_are_rounded_up_and_no_further(a: float, b: float) -> None:
    truth = Fraction(a) + Fraction(b)
    for found in (float(sum_up(np.array([a]), np.array([b]))[0]), float(kernels.sum_up(a, b))):
        assert Fraction(found) >= truth
        assert Fraction(math.nextafter(found, -math.inf)) < truth


@settings(max_examples=200, deadline=None)
@given(
    budget=st.floats(0.0, 1e6),
    shares=st.lists(st.floats(0.0, 0.4), max_size=6),
)
def test_what_is_left_never_exceeds_the_budget(budget: float, shares: list[float]) -> None:
    books = Budget(conrl.Task(1, 1, 1, [1.0], ["c"], initial=0, can_stop=True), np.array([budget]))
    spent = Fraction(0)
    for share in shares:
        cost = share * float(books.left[0])
        books.spend(np.array([[cost]]))
        spent += Fraction(cost)
    left = float(books.left[0])
    assert Fraction(float(books.spent[0])) >= spent
    if left == 0.0:
        assert abs(spent - Fraction(budget)) <= reaches(budget, 1, 0.0, 1.0) - Fraction(budget)
        return
    assert spent + Fraction(left) <= Fraction(budget)
    more = spent + Fraction(math.nextafter(left, math.inf))
    assert more > Fraction(budget) or math.nextafter(left, math.inf) <= 1e-300


# -- never exceeded -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """A run: the same spec always plays the same episodes."""

    costs: int
    horizon: int
    episodes: int
    steps: tuple[float, ...]  # [d]: the worst step
    lows: tuple[float, ...]  # [d]: the best one
    budgets: tuple[str, ...]  # [d] of BUDGETS
    can_stop: bool
    resolve: bool
    epsilon: float
    greedy: bool  # a planner that ignores the budgets
    pays: str  # "worst", "any" or "edge"
    seed: int

    def build(self) -> tuple[conrl.ConstrainedMDP, conrl.Task, conrl.Knapsack]:
        rng = np.random.default_rng(self.seed)
        S, A, d = 2, 2, self.costs
        high, low = np.array(self.steps), np.array(self.lows)
        mdp = conrl.ConstrainedMDP(
            rng.dirichlet(np.ones(S), size=(S, A)),
            rng.random((S, A)),
            rng.uniform(low, high, size=(S, A, d)),
            self.horizon,
            initial=0,
        )
        task = conrl.Task(
            S, A, self.horizon, np.full(d, np.inf), mdp.cost_names, 0, (0.0, 1.0),
            tuple(zip(self.lows, self.steps, strict=True)), can_stop=self.can_stop,
        )  # fmt: skip
        whole = Fraction(self.episodes * self.horizon)
        totals = []
        for kind, step in zip(self.budgets, self.steps, strict=True):
            all_of_it = float(whole * Fraction(step))
            share = {"none": 0.0, "tenth": 0.1, "third": 1 / 3, "half": 0.5, "all": 1.0, "plenty": 3.0}
            totals.append({"one step": step, "just less": math.nextafter(step, 0.0)}.get(kind, -1.0))
            if totals[-1] < 0.0:
                totals[-1] = share[kind] * all_of_it
        return mdp, task, conrl.Knapsack(totals, self.episodes, 0.0 if self.resolve else self.epsilon)

    def pay(self, generator: np.random.Generator, s: int, a: int, t: int, mean: Float) -> Float:
        high, low = np.array(self.steps), np.array(self.lows)
        drawn = generator.random(1 + self.costs)
        costs = high.copy()
        if self.pays == "any":
            costs = np.clip(low + drawn[1:] * (high - low), low, high)
        elif self.pays == "edge":
            costs = np.where(drawn[1:] < 0.5, low, high)
        return np.concatenate((mean[:1], costs))


BUDGETS = ("none", "tenth", "third", "half", "all", "plenty", "one step", "just less")
STEPS = st.sampled_from([0.1, 0.3, 1.0, 1 / 3, 0.7, 1e-3, 2.0**-20, 17.3, 1 / 30])


@st.composite
def runs(draw: st.DrawFn) -> Spec:
    d = draw(st.integers(1, 3))
    steps = tuple(draw(STEPS) for _ in range(d))
    return Spec(
        costs=d,
        horizon=draw(st.integers(1, 5)),
        episodes=draw(st.integers(1, 12)),
        steps=steps,
        lows=tuple(draw(st.sampled_from([0.0, 0.0, -0.5])) * s for s in steps),
        budgets=tuple(draw(st.sampled_from(BUDGETS)) for _ in range(d)),
        can_stop=draw(st.booleans()),
        resolve=draw(st.booleans()),
        epsilon=draw(st.sampled_from([0.0, 0.1])),
        greedy=draw(st.booleans()),
        pays=draw(st.sampled_from(["worst", "any", "edge"])),
        seed=draw(st.integers(0, 2**31)),
    )


@settings(max_examples=60, deadline=None)
@given(spec=runs())
def test_no_budget_is_ever_exceeded(spec: Spec) -> None:
    """The two-method loop: after every single step the exact sum of all costs so far is within every budget."""
    steps = spec.episodes * spec.horizon
    mdp, task, problem = spec.build()
    planner: Any = Greedy() if spec.greedy else "column-generation"
    learner = conrl.ConRL(task, problem=problem, planner=planner, resolve=spec.resolve, seed=spec.seed)
    world = ModelWorld(mdp, task, spec.pay)
    budgets = [
        reaches(b, steps, low, high)
        for b, low, high in zip(np.asarray(problem.budgets).tolist(), spec.lows, spec.steps, strict=True)
    ]
    spent = [Fraction(0)] * spec.costs
    for k in range(spec.episodes):
        proposal = learner.proposal
        episode = world.play(proposal.policy, np.random.default_rng([spec.seed, k]), learner.room())
        for row in np.asarray(episode.costs).tolist():
            spent = [x + Fraction(c) for x, c in zip(spent, row, strict=True)]
            assert all(x <= b for x, b in zip(spent, budgets, strict=True)), (k, spent, budgets)
        assert not (proposal.guarded and len(episode))
        learner.observe(episode)
        assert learner.budget is not None
        for x, booked, left, b in zip(spent, learner.budget.spent, learner.budget.left, budgets, strict=True):
            assert Fraction(float(booked)) >= x  # rounded up, never down
            assert Fraction(float(booked)) - x <= Fraction(1, 10**12) * max(b, Fraction(1))
            assert x + Fraction(float(left)) <= b
    with pytest.raises(conrl.RunError, match=f"all {spec.episodes} episodes"):
        learner.propose()


@settings(max_examples=40, deadline=None)
@given(spec=runs())
def test_what_learn_says_of_a_run(spec: Spec) -> None:
    """Flags, expectations and costs without the guard, against books kept here."""
    mdp, task, problem = spec.build()
    make: Any = lambda **more: conrl.ConRL(  # noqa: E731
        task, problem=problem, resolve=spec.resolve, planner=Greedy() if spec.greedy else "column-generation", **more
    )
    learner = make()
    proposals: list[Any] = []

    class Watched:
        """The learner, with what it proposed written down."""

        def __getattr__(self, name: str) -> Any:
            if name == "proposal":
                if len(proposals) == learner.episodes:
                    proposals.append(learner.proposal)
                return proposals[-1]
            return getattr(learner, name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(learner, name, value)

    watched: Any = Watched()
    history = conrl.learn(mdp, watched, spec.episodes, seed=spec.seed, pay=spec.pay)
    assert len(history) == spec.episodes == len(proposals)
    unguarded, remaining = history.unguarded_costs, history.remaining
    assert unguarded is not None
    assert remaining is not None
    assert history.expected_rewards is not None
    assert history.expected_costs is not None
    never_negative = min(spec.lows) >= 0.0
    for k, proposal in enumerate(proposals):
        null = isinstance(proposal.policy, conrl.Null)
        cut = history.steps[k] < spec.horizon and not null
        assert history.skipped[k] == null
        assert history.guarded[k] == (proposal.guarded or cut)
        assert not cut or spec.can_stop
        if history.guarded[k]:
            assert np.isnan(history.expected_rewards[k])
            assert np.isnan(history.expected_costs[k]).all()
            assert not never_negative or (unguarded[k] >= history.costs[k]).all()
        else:
            value = conrl.evaluate(mdp, proposal.policy)
            assert history.expected_rewards[k] == pytest.approx(0.0 if null else value.reward, abs=1e-12)
            assert np.array_equal(unguarded[k], history.costs[k])
        if null:
            assert history.rewards[k] == history.steps[k] == 0
            assert (history.costs[k] == 0.0).all()
    budgets = np.asarray(problem.budgets)
    size = np.maximum(1.0, budgets)
    assert (history.costs.sum(axis=0) <= budgets + 1e-12 * size).all()
    assert np.abs(remaining - (budgets - np.cumsum(history.costs, axis=0))).max() <= 1e-12 * size.max()
    assert history.would_exceed is not None
    over = unguarded.sum(axis=0) - budgets
    clear = np.abs(over) > 1e-9 * size
    assert np.array_equal(history.would_exceed[clear], over[clear] > 0.0)
    loose = conrl.learn(mdp, make(guard=False), spec.episodes, seed=spec.seed, pay=spec.pay)
    assert not loose.guarded.any()
    assert (loose.steps[~loose.skipped] == spec.horizon).all()


# -- not needlessly strict ------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    units=st.integers(0, 40),
    step=st.integers(1, 3),
    horizon=st.integers(1, 4),
    can_stop=st.booleans(),
    unit=st.sampled_from([1.0, 0.125, 2.0**-30, 1024.0]),
    seed=st.integers(0, 100),
)
def test_what_fits_exactly_is_played(
    units: int, step: int, horizon: int, can_stop: bool, unit: float, seed: int
) -> None:
    """With costs that add up without rounding, an episode (or a step) is refused only if its worst does not fit."""
    mdp = still([0.0, 1.0], [0.0, step * unit], horizon, can_stop=can_stop)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([units * unit], 8), planner=Greedy(), seed=0)
    rng, left = np.random.default_rng(seed), units
    for _ in range(8):
        fits = left >= step * (1 if can_stop else horizon)
        policy = learner.propose()
        assert isinstance(policy, conrl.Null) == (not fits)
        if not fits:
            learner.observe(conrl.Episode.null(1))
            continue
        paid: list[int] = []
        while len(paid) < horizon and learner.may_step([sum(paid) * unit]):
            paid.append(int(rng.integers(0, step + 1)))
        assert len(paid) == horizon or (can_stop and left - sum(paid) < step)
        states = np.zeros(len(paid) + 1, dtype=int)
        costs = np.array(paid, dtype=np.float64).reshape(-1, 1) * unit
        cut = len(paid) < horizon
        learner.observe(conrl.Episode(states, np.ones(len(paid), dtype=int), np.ones(len(paid)), costs, stopped=cut))
        left -= sum(paid)
    assert left >= 0


@pytest.mark.parametrize("horizon", [3, pytest.param(30)])
def test_an_episode_of_h_steps_of_one_over_h(horizon: int) -> None:
    """Costs of 1/H a step, as in Box: in exact arithmetic an episode costs at most 1, and a budget of 1 admits it."""
    assert horizon * Fraction(1 / horizon) <= 1
    mdp = still([0.0, 1.0], [0.0, 1 / horizon], horizon)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([1.0], 1))
    assert not learner.proposal.guarded


@pytest.mark.parametrize(("step", "budget", "episodes"), [(1 / 30, 1.0, 30), (0.7, 7.0, 10)])
def test_shares_are_spent_to_the_last(step: float, budget: float, episodes: int) -> None:
    """What is really spent, in exact arithmetic, stays within the budget to the last episode: all are played."""
    assert episodes * Fraction(step) <= Fraction(budget)
    mdp = still([0.0, 1.0], [0.0, step], 1)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([budget], episodes), planner=Greedy())
    for _ in range(episodes):
        assert not learner.proposal.guarded
        learner.observe(conrl.Episode([0, 0], [1], [1.0], [[step]]))


@pytest.mark.parametrize("stock", [0, 1, 7, 20, 23])
def test_stock_is_sold_to_the_last_unit(stock: int) -> None:
    """One unit an hour, four hours a day, five days: with `can_stop` nothing that could be sold is left."""
    mdp = still([0.0, 1.0], [0.0, 1.0], 4, can_stop=True)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([float(stock)], 5), planner=Greedy())
    learner.prime([conrl.Episode([0] * 5, [0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0], [[0.0], [1.0], [0.0], [1.0]])])
    history = conrl.learn(mdp, learner, 5)
    assert history.costs.sum() == min(stock, 20)
    days = [min(4, max(0, stock - 4 * k)) for k in range(5)]
    assert history.costs[:, 0].tolist() == days
    assert history.steps.tolist() == days
    assert history.guarded.tolist() == [n < 4 for n in days]
    assert history.skipped.tolist() == [n == 0 for n in days]
    assert history.remaining is not None
    assert history.remaining[:, 0].tolist() == [max(stock - 4 * (k + 1), 0) for k in range(5)]
    assert history.unguarded_costs is not None
    assert history.unguarded_costs[:, 0].tolist() == [4.0] * 5
    assert history.would_exceed is not None
    assert history.would_exceed.tolist() == [stock < 20]


@pytest.mark.parametrize("stock", [0, 3, 4, 7, 8, 20])
def test_whole_days_only_where_no_day_can_be_stopped(stock: int) -> None:
    mdp = still([0.0, 1.0], [0.0, 1.0], 4)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([float(stock)], 5), planner=Greedy())
    learner.prime([conrl.Episode([0] * 5, [0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0], [[0.0], [1.0], [0.0], [1.0]])])
    history = conrl.learn(mdp, learner, 5)
    days = stock // 4
    assert history.costs[:, 0].tolist() == [4.0] * days + [0.0] * (5 - days)
    assert history.guarded.tolist() == [False] * days + [True] * (5 - days)
    assert history.skipped.tolist() == history.guarded.tolist()


def test_a_cheap_day_leaves_room_for_more() -> None:
    """The guard rests on what was spent, not on what might have been: refunds count too."""
    mdp = still([0.0, 1.0], [-1.0, 2.0], 1)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([3.0], 10), planner=Greedy())
    for cost, admitted in ((2.0, True), (-1.0, False), (-1.0, True)):
        if not admitted:
            assert learner.proposal.guarded
            learner.observe(conrl.Episode.null(1))
        else:
            assert not learner.proposal.guarded
            learner.observe(conrl.Episode([0, 0], [0 if cost < 0 else 1], [0.0], [[cost]]))
        if learner.episodes == 2:
            assert learner.budget is not None
            learner.budget.spend(np.array([[-1.0]]))  # a refund from elsewhere
    assert learner.budget is not None
    assert learner.budget.spent.tolist() == [0.0]


# -- infinite budgets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("can_stop", "resolve"),
    [
        (False, False),
        pytest.param(True, False),
        pytest.param(False, True),
    ],
)
def test_an_infinite_budget_is_none(can_stop: bool, resolve: bool) -> None:
    mdp = still([0.0, 1.0], [[0.0, 0.0], [1.0, 1.0]], 2, can_stop=can_stop)
    problem = conrl.Knapsack([math.inf, 6.0], 5)
    history = conrl.learn(mdp, conrl.ConRL(mdp.task, problem=problem, resolve=resolve), 5)
    assert history.costs[:, 1].sum() <= 6.0
    assert history.remaining is not None
    assert np.isinf(history.remaining[:, 0]).all()


# -- what is planned for --------------------------------------------------------------------------------------


def test_resolving_plans_for_what_is_left() -> None:
    mdp = still([0.0, 1.0], [[0.0, 0.1], [1.0, 0.2]], 3, can_stop=True)
    spy = Greedy()
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([5.0, 100.0], 6), planner=spy, resolve=True, seed=3)
    history = conrl.learn(mdp, learner, 6)
    spent = np.zeros(2)
    assert len(spy.asked) == 6
    for k, asked in enumerate(spy.asked, start=1):
        limits = np.asarray(asked.linear(mdp).limits)
        assert limits == pytest.approx((np.array([5.0, 100.0]) - spent) / (6 - k + 1), abs=1e-12)
        spent += history.costs[k - 1]
    assert spent[0] == 5.0  # all sold: what is left is 0, not less


def test_a_fixed_plan_holds_epsilon_back() -> None:
    mdp = still([0.0, 1.0], [0.0, 1.0], 3)
    spy = Greedy()
    conrl.learn(mdp, conrl.ConRL(mdp.task, problem=conrl.Knapsack([5.0], 6, 0.25), planner=spy), 6)
    for asked in spy.asked:
        assert np.asarray(asked.linear(mdp).limits) == pytest.approx([0.75 * 5.0 / 6], rel=1e-14)


def test_resolving_to_the_end_spends_almost_all() -> None:
    """A coin of cost 1: the plan for what is left keeps on the budget, where the fixed one may leave some."""
    mdp = still([0.0, 1.0], [0.0, 1.0], 1)
    totals = {}
    for resolve in (False, True):
        spent = []
        for seed in range(6):
            learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([20.0], 40), resolve=resolve)
            spent.append(float(conrl.learn(mdp, learner, 40, seed=seed).costs.sum()))
        totals[resolve] = spent
    assert max(totals[False] + totals[True]) <= 20.0
    assert min(totals[True]) >= 19.0
    assert np.mean(totals[True]) > np.mean(totals[False])


def test_the_theorem_needs_a_very_large_budget() -> None:
    mdp = still([0.0, 1.0], [0.0, 1.0], 3)
    with pytest.raises(conrl.SpecError, match="epsilon='theorem'"):
        conrl.ConRL(mdp.task, problem=conrl.Knapsack([100.0], 1000, "theorem"))
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([1e12], 10**12, "theorem"))
    assert not isinstance(learner.propose(), conrl.Null)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (conrl.Knapsack([-1.0], 5), "the budget of 'cost' is -1"),
        (conrl.Knapsack([1.0], 0), "episodes is 0"),
        (conrl.Knapsack([1.0], 5, 1.0), "epsilon is 1"),
        (conrl.Knapsack([1.0, 2.0], 5), "budgets"),
        (conrl.Knapsack({"stock": 1.0}, 5), "unknown cost 'stock'"),
        (conrl.Knapsack([math.nan], 5), "nan"),
    ],
)
def test_budgets_that_are_none(problem: conrl.Knapsack, message: str) -> None:
    with pytest.raises((conrl.SpecError, conrl.ModelError), match=message):
        conrl.ConRL(still([0.0, 1.0], [0.0, 1.0], 3).task, problem=problem)


def test_resolve_is_for_budgets() -> None:
    with pytest.raises(conrl.SpecError, match="resolve"):
        conrl.ConRL(still([0.0, 1.0], [0.0, 1.0], 3).task, problem=conrl.Linear([1.0]), resolve=True)


# -- the end, and what is refused -----------------------------------------------------------------------------


def test_episode_k_plus_one_is_refused() -> None:
    mdp = still([0.0, 1.0], [0.0, 1.0], 1)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([10.0], 3), seed=0)
    history = conrl.learn(mdp, learner, 3)
    before = learner.state()
    with pytest.raises(conrl.RunError, match="all 3 episodes of the budget have been played"):
        conrl.learn(mdp, learner, 1, history=history)
    with pytest.raises(conrl.RunError, match="all 3 episodes"):
        learner.observe(conrl.Episode([0, 0], [0], [0.0], [[0.0]]))
    assert len(history) == learner.episodes == 3
    assert all(np.array_equal(a, before[n]) for n, a in learner.state().items())


@pytest.mark.parametrize("can_stop", [True, False])
def test_costs_outside_the_range_raise_and_change_nothing(can_stop: bool) -> None:
    """A budget rests on the range: one step beyond it ends the run, and the learner is as it was before."""
    mdp = still([0.0, 1.0], [0.0, 1.0], 3, can_stop=can_stop)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([20.0], 9), seed=1)
    history = conrl.learn(mdp, learner, 2)
    before, policy = learner.state(), learner.propose()
    with pytest.raises(conrl.RunError, match=r"cost 1\.5 was seen in one step; the task says 0 to 1"):
        conrl.learn(mdp, learner, 1, history=history, pay=lambda g, s, a, t, mean: [0.5, 1.5])
    assert len(history) == learner.episodes == 2
    assert learner.propose() is policy
    assert all(np.array_equal(a, before[n]) for n, a in learner.state().items())
    conrl.learn(mdp, learner, 1, history=history)
    assert len(history) == 3


def null_proposal(can_stop: bool = False) -> conrl.ConRL:
    mdp = still([0.0, 1.0], [0.0, 1.0], 3, can_stop=can_stop)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([0.5], 9), planner=Greedy())
    assert isinstance(learner.propose(), conrl.Null)
    assert learner.proposal.guarded
    return learner


def test_a_skipped_episode_is_not_played_nor_a_played_one_skipped() -> None:
    learner = null_proposal()
    learner.observe(conrl.Episode.null(1))
    assert learner.episodes == 1
    mdp = still([0.0, 1.0], [0.0, 1.0], 3)
    learner = conrl.ConRL(mdp.task)
    with pytest.raises(conrl.RunError, match="skipped"):
        learner.observe(conrl.Episode.null(1))
    assert learner.episodes == 0


@pytest.mark.parametrize("can_stop", [True, False])
def test_a_skipped_episode_that_was_begun_is_booked(can_stop: bool) -> None:
    learner = null_proposal(can_stop)
    with pytest.warns(conrl.ModelWarning) as told:
        learner.observe(conrl.Episode([0, 0], [1], [1.0], [[1.0]], stopped=True))
    assert str(told[0].message) == "episode 1 was to be skipped, and was played; what it cost is booked"
    assert str(told[1].message).startswith("1 spent of 0.5 of 'cost': ")
    assert learner.budget is not None
    assert (learner.budget.spent.tolist(), learner.episodes) == ([1.0], 1)


def test_an_episode_stopped_before_its_first_step() -> None:
    mdp = still([0.0, 1.0], [0.0, 1.0], 3, can_stop=True)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([9.0], 9))
    learner.propose()
    learner.observe(conrl.Episode([0], [], [], np.zeros((0, 1)), stopped=True))
    learner.observe(conrl.Episode.null(1, stopped=True))
    assert learner.episodes == 2
    assert learner.budget is not None
    assert learner.budget.spent.tolist() == [0.0]


# -- data from elsewhere, files -------------------------------------------------------------------------------


def test_logged_costs_are_not_charged() -> None:
    mdp = still([0.0, 1.0], [0.0, 1.0], 2)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([4.0], 5))
    assert learner.prime([conrl.Episode([0, 0, 0], [1, 1], [1.0, 1.0], [[1.0], [1.0]])] * 50) == 50
    assert learner.budget is not None
    assert learner.budget.spent.tolist() == [0.0]
    assert learner.episodes == 0
    history = conrl.learn(mdp, learner, 5)
    assert len(history) == 5
    assert learner.budget.spent[0] == history.costs.sum() <= 4.0


@pytest.mark.parametrize("resolve", [False, True])
def test_a_saved_budget_goes_on(resolve: bool, tmp_path: Path) -> None:
    """Tenths, which do not add up exactly: the books continue bit for bit."""
    mdp = still([0.0, 1.0], [0.0, 0.1], 3, can_stop=True)
    problem = conrl.Knapsack([1.7], 12)
    learner = conrl.ConRL(mdp.task, problem=problem, resolve=resolve)
    whole = conrl.learn(mdp, learner, 12, seed=4)
    other = conrl.ConRL(mdp.task, problem=problem, resolve=resolve)
    parts = None
    for k in range(12):
        parts = conrl.learn(mdp, other, 1, seed=4, history=parts)
        other.save(tmp_path / "learner.npz")
        other = conrl.load_learner(tmp_path / "learner.npz")
        assert other.episodes == k + 1
    assert parts is not None
    assert parts.to_csv() == whole.to_csv()
    assert learner.budget is not None
    assert other.budget is not None
    assert learner.budget.spent.tobytes() == other.budget.spent.tobytes()
    with pytest.raises(conrl.RunError, match="all 12 episodes"):
        other.propose()


def kept(tmp_path: Path, logged: int = 0) -> tuple[Path, dict[str, Any]]:
    """A learner that has spent 6 of a budget of 9 in two episodes, in a file; and its arrays without the seal."""
    mdp, path = still([0.0, 1.0], [0.0, 1.0], 3), tmp_path / "learner.npz"
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([9.0], 9), planner=Greedy(), seed=0)
    learner.prime([conrl.Episode([0, 0], [1], [1.0], [[1.0]])] * logged)
    for _ in range(2):
        learner.propose()
        learner.observe(conrl.Episode([0] * 4, [1] * 3, [1.0] * 3, [[1.0]] * 3))
    learner.save(path)
    with np.load(path) as file:
        return path, {name: file[name] for name in file.files if name != "seal"}


BOOKS: dict[str, tuple[Any, str]] = {
    "the text of old": (np.array(["0"]), "no entries of 2 episodes"),
    "no numbers": (np.full((3, 1, 1), math.nan), "not finite"),
    "infinite": (np.full((3, 1, 1), math.inf), "not finite"),
    "less than nothing": (np.array([0.0, -3.0, -3.0]).reshape(3, 1, 1), "less than nothing"),
    "one episode short": (np.zeros((2, 1, 1)), "no entries of 2 episodes"),
    "two costs": (np.zeros((3, 2, 1)), "no entries of 2 episodes"),
    "of whole numbers": (np.zeros((3, 1, 1), dtype=np.int64), "no entries of 2 episodes"),
    "one number": (np.array(0.0), "no entries of 2 episodes"),
    "nothing spent": (np.zeros((3, 1, 1)), "do not add up to the costs that were counted"),
    "a step forgotten": (np.array([0.0, 3.0, 2.0]).reshape(3, 1, 1), "do not add up to the costs that were counted"),
    "written otherwise": (np.array([[[0.0, 0.0]], [[2.0, 1.0]], [[3.0, 0.0]]]), "not written as the guard writes it"),
}


@pytest.mark.parametrize("case", BOOKS)
def test_damaged_books_are_refused(case: str, tmp_path: Path) -> None:
    """By the seal of the file and, where somebody wrote a new one, by what the file holds."""
    path, arrays = kept(tmp_path)
    spent, why = BOOKS[case]
    np.savez(path, **(arrays | {"state_spent": spent}))
    with pytest.raises(conrl.RunError, match=r"learner\.npz: .*seal"):
        conrl.load_learner(path, planner=Greedy())
    write_sealed(path, arrays | {"state_spent": spent})
    with pytest.raises(conrl.RunError, match=rf"learner\.npz: .*{why}"):
        conrl.load_learner(path, planner=Greedy())
    write_sealed(path, arrays)
    assert conrl.load_learner(path, planner=Greedy()).budget.spent.tolist() == [6.0]


@pytest.mark.parametrize(("key", "value"), [("guard", False), ("problem", {"kind": "Knapsack", "budgets": [1e9]})])
def test_an_edited_budget_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    path, arrays = kept(tmp_path)
    config = json.loads(str(arrays["config"]))
    config[key] = config[key] | value if isinstance(value, dict) else value
    with np.load(path) as file:
        np.savez(path, **(dict(file) | {"config": np.array(json.dumps(config))}))
    with pytest.raises(conrl.RunError, match=r"learner\.npz: .*seal"):
        conrl.load_learner(path, planner=Greedy())


def test_logged_costs_may_be_anything_that_so_many_episodes_can_cost(tmp_path: Path) -> None:
    """How much they cost is in no book: 5 logged episodes of at most 3 may hide 15, and no more."""
    path, arrays = kept(tmp_path, logged=5)
    assert conrl.load_learner(path, planner=Greedy()).budget.spent.tolist() == [6.0]
    write_sealed(path, arrays | {"state_primed": np.array(1)})
    with pytest.raises(conrl.RunError, match="do not add up"):
        conrl.load_learner(path, planner=Greedy())


def test_a_refund_from_elsewhere_is_saved(tmp_path: Path) -> None:
    mdp = still([0.0, 1.0], [-1.0, 2.0], 1)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([3.0], 10), seed=0)
    assert learner.budget is not None
    learner.budget.spend(np.array([[-0.1], [-0.2]]))
    learner.propose()
    learner.observe(conrl.Episode([0, 0], [1], [0.0], [[2.0]]))
    learner.save(tmp_path / "learner.npz")
    again = conrl.load_learner(tmp_path / "learner.npz")
    assert again.budget.spent.tobytes() == learner.budget.spent.tobytes()
    assert exact([[-0.1], [-0.2], [2.0]]) == again.budget._books


@settings(max_examples=60, deadline=None)
@given(episodes=st.lists(st.lists(NUMBERS, max_size=5), max_size=6))
def test_entries_add_up_exactly(episodes: list[list[float]]) -> None:
    """What is saved is what was spent, to the last bit, and its first part is the sum rounded once."""
    task = conrl.Task(1, 1, 5, [1.0], ["c"], cost_ranges=[(-1e12, 1e12)], initial=0)
    books, again = Budget(task, np.array([1.0])), Budget(task, np.array([1.0]))
    for costs in episodes:
        books.spend_episode(np.array(costs, dtype=np.float64).reshape(-1, 1))
    again.load_state(books.state(), len(episodes))
    assert again._books == books._books == exact(np.array([x for e in episodes for x in e]).reshape(-1, 1))
    assert again.booked.tolist() == [[math.fsum(costs)] for costs in episodes]


# -- other worlds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stock", [0.0, 5.0, 96.0])
def test_a_gymnasium_environment_keeps_budgets_too(stock: float) -> None:
    env = gymnasium.make("conrl/Pricing-v0")
    task = conrl.Task.from_gymnasium(env, horizon=12, can_stop=True)
    learner = conrl.ConRL(task, problem=conrl.Knapsack([stock], 8))
    history = conrl.learn(env, learner, 8, seed=1)
    assert history.costs.sum() <= stock
    assert (history.steps[~history.guarded & ~history.skipped] == 12).all()
    assert history.expected_rewards is None
    assert history.guarded.any() == (stock < 96.0)
    assert (history.unguarded_costs is None) == history.guarded.any()
    assert (history.would_exceed is None) == history.guarded.any()


def test_a_gymnasium_episode_stops_exactly_when_the_room_is_used() -> None:
    mdp = still([0.0, 1.0], [0.0, 0.25], 6, can_stop=True)
    env = conrl.envs.CMDPEnv(mdp)
    world = GymnasiumWorld(env, mdp.task)
    sell = conrl.Deterministic(np.ones((6, 1), dtype=int), 2)
    for room, steps in ((0.0, 0), (0.2, 0), (0.25, 1), (0.5, 2), (0.6, 2), (1.5, 6), (9.0, 6)):
        for where in (world, ModelWorld(mdp)):
            episode = where.play(sell, np.random.default_rng(0), (np.array([room]), np.array([0.25])))
            assert len(episode) == steps
            assert episode.stopped == (steps < 6)
            assert not episode.terminated
            assert exact(episode.costs) == ([Fraction(steps, 4)] if steps else [Fraction(0)])


@pytest.mark.parametrize("resolve", [False, True])
def test_pricing_never_oversells(resolve: bool) -> None:
    mdp = conrl.envs.pricing()
    for seed in range(3):
        learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([100.0], 40), resolve=resolve)
        history = conrl.learn(mdp, learner, 40, seed=seed)
        assert history.costs.sum() <= 100.0
        assert history.rewards.sum() > 0.0
        assert history.remaining is not None
        assert (np.diff(history.remaining[:, 0]) <= 0.0).all()
        assert history.remaining[-1, 0] == 100.0 - history.costs.sum() >= 0.0


def test_what_breaks_a_budget_is_booked_and_told() -> None:
    """Spent is spent, whatever the learner said."""
    mdp = conrl.envs.pricing()
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([20.0], 10), seed=0)
    assert repr(learner.budget) == "Budget(0 spent of 20 of 'stock')"
    episode = conrl.Episode([0] * 13, [0] * 12, [0.0] * 12, [[1.0]] * 12)
    learner.propose()
    learner.observe(episode)
    assert learner.budget is not None
    assert learner.budget.left.tolist() == [8.0]
    learner.propose()
    over = "24 spent of 20 of 'stock': (may_step was not asked or not heeded|propose was not heeded)"
    with pytest.warns(conrl.ModelWarning, match=over):
        learner.observe(episode)
    assert learner.budget.left.tolist() == [-4.0]
    assert isinstance(learner.propose(), conrl.Null)
    with pytest.warns(conrl.ModelWarning) as told:
        learner.observe(episode)
    assert next(str(x.message) for x in told).startswith("episode 3 was to be skipped, and was played")
    assert (learner.budget.spent.tolist(), learner.episodes) == ([36.0], 3)
    blind = conrl.ConRL(mdp.task, problem=conrl.Knapsack([5.0], 10), guard=False, seed=0)
    blind.propose()
    blind.observe(episode)  # no guard, no warning
    plain = conrl.ConRL(mdp.task, problem=conrl.Linear())
    plain.propose()
    plain.observe(episode)


# -- budgets that are sums ------------------------------------------------------------------------------------


@pytest.mark.parametrize("can_stop", [False, True])
@pytest.mark.parametrize(
    ("step", "horizon", "episodes", "budget"),
    [
        (0.1, 3, 10, 3.0),
        (0.1, 1, 30, 3.0),
        (1 / 365, 5, 20, sum([1 / 365] * 100)),  # 0.27397260273972546, and 100 / 365 is 0.273972602739726
        (0.7, 4, 5, 20 * 0.7),
        (0.3, 6, 100, 180.0),
    ],
)
def test_a_budget_is_spent_to_the_last_cost(
    can_stop: bool, step: float, horizon: int, episodes: int, budget: float
) -> None:
    mdp = still([0.0, 1.0], [0.0, step], horizon, can_stop=can_stop)
    learner = conrl.ConRL(mdp.task, problem=conrl.Knapsack([budget], episodes), planner=Greedy())
    for _ in range(episodes):
        assert not learner.proposal.guarded
        assert all(learner.may_step([sum([step] * h)]) for h in range(horizon))
        paid = [[step]] * horizon
        learner.observe(conrl.Episode([0] * (horizon + 1), [1] * horizon, [1.0] * horizon, paid))
    assert learner.budget is not None
    assert learner.budget.left.tolist() == [0.0]
    assert not learner.budget.admits()
    assert not can_stop or not learner.may_step([0.0])


def test_a_whole_unit_is_never_too_much() -> None:
    """However many steps there are, and however large the budget."""
    for episodes, budget in ((10**9, 1e9), (10**9, 1e12)):
        task = conrl.Task(1, 1, 100, [1.0], ["c"], initial=0, can_stop=True)
        books = Budget(task, np.array([budget]), episodes)
        books.spend(np.array([[budget - 1.0]]))
        assert books.may_step([0.0])
        assert not books.may_step([1.0])

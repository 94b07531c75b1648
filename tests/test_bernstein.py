"""`BernsteinBonus`: its formula from raw visits in plain Python, and Definition 3.1 with the true V* in many runs.

Runs are simulated and counted here in plain numpy; only the bonus itself is the package's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray
from test_estimation import Spec, counted, plays

import conrl
from conrl.estimation.counts import Counts
from conrl.estimation.evidence import Evidence
from conrl.experiments import parts

Float = NDArray[np.float64]
Int = NDArray[np.int64]


# -- by hand --------------------------------------------------------------------------------------------------


def visits_of(task: conrl.Task, episodes: list[conrl.Episode]) -> dict[tuple[int, int], list[tuple[int, list[float]]]]:
    """For each pair, its visits in their order: where each led, and what it paid. START is S, END S + 1."""
    S = task.num_states
    found: dict[tuple[int, int], list[tuple[int, list[float]]]] = {}
    for e in episodes:
        states, actions = e.states.tolist(), e.actions.tolist()
        if not actions:
            continue
        if e.terminated:
            states[-1] = S + 1
        if task.initial is None:
            found.setdefault((S, 0), []).append((states[0], [0.0] * (1 + task.num_costs)))
        for h, a in enumerate(actions):
            found.setdefault((states[h], a), []).append((states[h + 1], e.pay[h].tolist()))
    return found


def by_hand(task: conrl.Task, pair: tuple[int, int], seen: list[tuple[int, list[float]]], delta: float) -> list[float]:
    S, A, H, d, n = task.num_states, task.num_actions, task.horizon, task.num_costs, len(seen)
    start = pair[0] == S
    M = S * A * (S + 3 + 2 * d) + (S if task.initial is None else 0)
    bonus = []
    for i, (low, high) in enumerate([task.reward_range, *(task.cost_ranges or ())]):
        spread = max(high, 0.0) - min(low, 0.0)
        pay, moved = (high - low if n else spread), 1.0
        if n >= 2:
            L = math.log(4.0 * M * n * n / (3.0 * delta))
            xs = [paid[i] for _, paid in seen]
            mean = math.fsum(xs) / n
            v = math.fsum((x - mean) ** 2 for x in xs) / (n - 1)
            pay = min(high - low, math.sqrt(2.0 * v * L / n) + 7.0 * (high - low) * L / (3.0 * (n - 1)))
            moved = 0.0
            for t in {t for t, _ in seen}:
                hits = [float(u == t) for u, _ in seen]
                p = math.fsum(hits) / n
                v = math.fsum((x - p) ** 2 for x in hits) / (n - 1)
                moved += math.sqrt(2.0 * v * L / n) + 7.0 * L / (3.0 * (n - 1))
        bonus.append((0.0 if start else pay) + (H if start else H - 1) * min(moved, 1.0) * spread)
    return bonus


@settings(max_examples=30, deadline=None)
@given(spec=plays())
def test_the_formula_from_raw_visits(spec: Spec) -> None:
    task, episodes = spec.build()
    if spec.seed % 2:  # pay that repeats, so that some variances are 0, and long runs
        episodes = [
            conrl.Episode(e.states, e.actions, np.round(e.rewards), np.round(e.costs), terminated=e.terminated)
            for e in episodes
            if not e.stopped
        ] * 40
    counts = counted(task, episodes)
    evidence = Evidence(counts, 7)
    found = conrl.BernsteinBonus(0.2)(evidence)
    seen = visits_of(task, episodes)
    state = np.repeat(counts.order, np.diff(counts.first))
    assert found.shape == (counts.num_pairs, 1 + task.num_costs)
    for k, pair in enumerate(zip(state.tolist(), counts.action.tolist(), strict=True)):
        if pair[0] == task.num_states + 1:  # END
            assert not found[k].any()
            continue
        here = seen.get(pair, [])
        assert found[k] == pytest.approx(by_hand(task, pair, here, 0.2), rel=1e-9)
        pays = np.array([paid for _, paid in here])
        v = pays.var(axis=0, ddof=1) if len(here) > 1 else np.zeros(1 + task.num_costs)
        assert evidence.variance[k] == pytest.approx(v, rel=1e-9, abs=1e-12)


def test_the_variance_does_not_cancel() -> None:
    """Pay around a billion that varies by thousandths, to two successors that pay differently."""
    task = conrl.Task(2, 1, 1, [], [], initial=0, reward_range=(0.0, 2e9))
    rng = np.random.default_rng(0)
    pay = 1e9 + 1e-3 * rng.random(500)
    counts = counted(task, [conrl.Episode([0, i % 2], [0], [x], np.zeros((1, 0))) for i, x in enumerate(pay)])
    assert Evidence(counts, 1).variance[0, 0] == pytest.approx((pay - 1e9).var(ddof=1), rel=1e-3)


def test_it_beats_the_papers_bonus_where_nothing_varies_and_not_at_a_fair_coin() -> None:
    """1/N against 1/sqrt(N): far smaller with 5,000 visits. A coin makes it larger."""
    H = 5
    for successors, better in ((1, True), (2, False)):
        task = conrl.Task(3, 2, H, [1.0], ["c"], initial=0)
        counts = Counts(task)
        ratios = {}
        for k in range(1, 1001):
            states = np.full(H + 1, 0) if successors == 1 else np.array([0, 1, 0, 1, 0, 1]) * (k % 2)
            counts.add(conrl.Episode(states, np.zeros(H, dtype=int), np.full(H, 0.5), np.full((H, 1), 0.25)))
            if k in (20, 1000):
                mine = conrl.BernsteinBonus()(Evidence(counts, k))[0]
                ratios[k] = mine / conrl.TheoryBonus()(counts.visits[:1], k, task)[0]
        assert (ratios[1000] < (0.4 if better else np.inf)).all()
        assert better or (ratios[1000] > 1.0).all()


# -- Definition 3.1 -------------------------------------------------------------------------------------------


class Truth:
    """P [S, A, S], pay at the ends of [0, 1] with mean R [S, A, 1+d], and V* of each coordinate."""

    def __init__(self, kind: str, seed: int, known: bool) -> None:
        rng = np.random.default_rng(seed)
        S, A, self.H = 3, 2, 1 if kind == "bernoulli pay" else 3
        if kind == "deterministic":
            self.P = np.eye(S)[rng.integers(S, size=(S, A))]
            self.R = rng.integers(2, size=(S, A, 2)).astype(np.float64)
        else:
            concentration = 0.15 if kind == "nearly deterministic" else 1.0
            self.P = rng.dirichlet(np.full(S, concentration), size=(S, A))
            self.R = rng.beta(0.3, 0.3, size=(S, A, 2))
        self.start = np.eye(S)[0] if known else rng.dirichlet(np.ones(S))
        initial: Any = 0 if known else self.start
        ranges: Any = {"reward_range": (0.0, 1.0), "cost_ranges": [(0.0, 1.0)]}
        mdp = conrl.ConstrainedMDP(self.P, self.R[..., 0], self.R[..., 1:], self.H, initial=initial, **ranges)
        mdp = mdp.replace(limits=conrl.feasibility(mdp, conrl.Linear()).least + 0.3)
        self.task = mdp.task
        self.best = conrl.plan(mdp).policy.probabilities
        self.V = np.zeros((self.H + 1, S, 2))
        for h in reversed(range(self.H)):
            self.V[h] = np.einsum("sa,sai->si", self.best[h], self.R + self.P @ self.V[h + 1])

    def episodes(self, number: int, rng: np.random.Generator) -> tuple[Int, Int, Float]:
        """Actions at random."""
        states = np.empty((number, self.H + 1), dtype=np.int64)
        states[:, 0] = (rng.random((number, 1)) >= np.cumsum(self.start)[:-1]).sum(axis=1)
        actions = rng.integers(2, size=(number, self.H))
        for h in range(self.H):
            p = np.cumsum(self.P[states[:, h], actions[:, h]], axis=1)[:, :-1]
            states[:, h + 1] = (rng.random((number, 1)) >= p).sum(axis=1)
        pay = (rng.random((number, self.H, 2)) < self.R[states[:, :-1], actions]).astype(np.float64)
        return states, actions, pay


BLOCKS = [1] * 20 + [5] * 8 + [40] * 6 + [400] * 6


def errors(truth: Truth, seed: int, delta: float) -> Iterator[tuple[Float, Float]]:
    """Before each block of episodes: the bonus [., 1+d], and the largest error of the estimate over all steps."""
    rng = np.random.default_rng(seed)
    S, A = truth.P.shape[:2]
    N, moved, paid = np.zeros((S, A)), np.zeros((S, A, S)), np.zeros((S, A, 2))
    first = np.zeros(S)
    counts, known = Counts(truth.task), truth.task.initial is not None
    for k, number in enumerate([*BLOCKS, 0], 1):
        b = conrl.BernsteinBonus(delta)(Evidence(counts, k))
        state = np.repeat(counts.order, np.diff(counts.first))
        real = state < S
        p = moved / np.maximum(N, 1.0)[..., None]
        p[N == 0] = np.repeat(np.eye(S), A, axis=0).reshape(S, A, S)[N == 0]
        off = paid / np.maximum(N, 1.0)[..., None] - truth.R + (p - truth.P) @ truth.V[1:, None]  # [H, S, A, 1+d]
        worst = np.abs(off).max(axis=0)[state[real], counts.action[real]]
        b_all = b[real]
        if not known:  # START: its first-state error is weighed by V_1
            share = first / max(first.sum(), 1.0)
            start_off = np.abs((share - truth.start) @ truth.V[0])
            if first.sum() == 0.0:
                start_off = np.abs(truth.start @ truth.V[0])
            worst, b_all = np.vstack((start_off, worst)), np.vstack((b[0], b_all))
        yield b_all, worst
        states, actions, pay = truth.episodes(number, rng)
        if not number:
            return
        np.add.at(first, states[:, 0], 1.0)
        np.add.at(N, (states[:, :-1], actions), 1.0)
        np.add.at(moved, (states[:, :-1], actions, states[:, 1:]), 1.0)
        np.add.at(paid, (states[:, :-1], actions), pay)
        counts.add_block(states, actions, pay)


# How far it can be divided before most runs break it. What one step pays is bounded as tightly as by Bernstein's
# inequality itself; what follows from transitions is weighed by the worst V there is.
KINDS = {"bernoulli pay": 20.0, "dirichlet": 80.0, "nearly deterministic": 80.0, "deterministic": 1e9}
RUNS = 30


@pytest.mark.parametrize("known", [True, False], ids=["known start", "unknown start"])
@pytest.mark.parametrize("kind", KINDS)
def test_definition_3_1_holds_and_fails_when_divided(kind: str, known: bool) -> None:
    """At all pairs, steps, coordinates and times of each run, with delta = 1/2. A run holds as a whole or not."""
    held, less = np.ones(RUNS, dtype=bool), np.ones(RUNS, dtype=bool)
    least = np.inf
    for run in range(RUNS):
        truth = Truth(kind, run, known)
        for b, worst in errors(truth, 100 + run, 0.5):
            held[run] &= bool((worst <= b + 1e-12).all())
            settled = b < truth.H / 3.0  # not pairs never or hardly visited, whose error no data explains
            less[run] &= bool((worst <= b / KINDS[kind] + 1e-12)[settled].all())
            least = min(least, float(b[1:].min(initial=np.inf)))
    assert held.all()  # a union bound is far on the safe side
    assert least < 0.4  # and still it says something in the end
    if kind == "deterministic":
        assert less.all() or not known  # nothing but the first state is estimated with an error
    else:
        assert less.sum() <= RUNS // 5


# -- where it is used -----------------------------------------------------------------------------------------


def crossing() -> conrl.ConstrainedMDP:
    return conrl.envs.make("random", states=4, actions=2, costs=2, horizon=3, seed=3)


def test_a_plan_with_it_is_optimistic_and_resumes(tmp_path: Path) -> None:
    mdp = crossing()
    learner = conrl.ConRL(mdp.task, bonus=conrl.BernsteinBonus(0.1), seed=1)
    conrl.learn(mdp, learner, 20, seed=1)
    best = conrl.plan(mdp)
    plan = learner._plan_for(21)
    assert plan.objective >= best.reward - 1e-9
    learner.save(tmp_path / "l.npz")
    again = conrl.load_learner(tmp_path / "l.npz")
    assert again.bonus == conrl.BernsteinBonus(0.1)
    assert np.array_equal(again.propose().probabilities, learner.propose().probabilities)


def test_counts_of_files_without_moments_have_the_widest_variance() -> None:
    """Files of 0.1 kept sums alone: no bonus may then believe in less variance than there may have been."""
    task, episodes = Spec(3, 2, 4, 1, False, True, True, 12, 5).build()
    counts = counted(task, episodes)
    state = counts.state()
    del state["centers"], state["moments"]
    old = Counts(task)
    old.load_state(state)
    more = Spec(3, 2, 4, 1, False, True, True, 12, 5).build()[1]
    for _ in range(2):
        kept, unkept = Evidence(counts, 1), Evidence(old, 1)
        assert (unkept.variance >= kept.variance - 1e-12).all()
        assert (conrl.BernsteinBonus()(unkept) >= conrl.BernsteinBonus()(kept) - 1e-12).all()
        for e in more:
            counts.add(e)
            old.add(e)
    again = Counts(task)
    again.load_state(old.state())
    assert np.array_equal(Evidence(again, 1).variance, Evidence(old, 1).variance)
    for wrong in (old.state()["unkept"] - 1.0, 1e9 * old.state()["unkept"], np.zeros((1, 9)), np.zeros(3), np.ones(())):
        with pytest.raises(conrl.RunError, match="no counts of the task"):
            again.load_state(old.state() | {"unkept": wrong})


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.5, math.nan, "0.1"])
def test_it_needs_a_probability(delta: Any) -> None:
    with pytest.raises(conrl.SpecError, match="delta"):
        conrl.BernsteinBonus(delta)


@pytest.mark.parametrize("wrong", [None, 3, np.array([0, 1])], ids=str)
def test_it_needs_the_evidence(wrong: Any) -> None:
    with pytest.raises(conrl.SpecError, match="Evidence"):
        conrl.BernsteinBonus()(wrong)


def test_words_and_tables() -> None:
    assert parts.bonus("bernstein") == conrl.BernsteinBonus()
    assert parts.bonus("bernstein:0.2") == conrl.BernsteinBonus(0.2)
    assert parts.bonus({"name": "bernstein", "delta": 0.3}) == conrl.BernsteinBonus(0.3)
    assert parts.bonus({"name": "theory"}) == conrl.TheoryBonus()
    assert parts.bonus({"delta": 0.3}) == conrl.TheoryBonus(0.3)
    for wrong, message in (
        ("bernstein:much", "REWARD,COST"),
        ("bernstein:2", "failure probability"),
        ({"name": "bernstien"}, "did you mean 'bernstein'"),
        ({"name": ["bernstein"]}, "unknown bonus"),
        ({"name": "bernstein", "dleta": 1}, "did you mean 'delta'"),
    ):
        with pytest.raises(conrl.SpecError, match=message):
            parts.bonus(wrong)


def test_a_bonus_is_given_by_name() -> None:
    task = conrl.envs.box().task
    assert conrl.ConRL(task, bonus="bernstein").bonus == conrl.BernsteinBonus()
    assert conrl.ConRL(task, bonus="theory").bonus == conrl.TheoryBonus()
    with pytest.raises(conrl.SpecError, match="unknown bonus 'bernstien'; did you mean 'bernstein'"):
        conrl.ConRL(task, bonus="bernstien")


def test_a_bonus_of_a_wrong_shape_is_shown_as_it_was_given() -> None:
    learner = conrl.ConRL(conrl.envs.box().task, bonus=lambda visits, episode, task: np.ones(visits.size + 1))
    with pytest.raises(conrl.SpecError, match=r"the bonus has shape \(\d+,\); expected \(\d+,\) or \(\d+, 2\)"):
        learner.propose()

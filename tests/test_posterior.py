"""What a log leaves open: the kernels of ensembles, the priors, and the posterior, against dense arrays and theory.

Nothing is compared with itself: visits and values are added up in dense loops, drawn models are rebuilt as explicit
models, and moments are those of Beta and Dirichlet distributions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import conrl
from conrl import kernels
from conrl.estimation import posterior as module
from conrl.estimation.deviations import deviations
from conrl.estimation.ensemble import drawn_totals
from conrl.estimation.posterior import ASTRAY, BLOCK, DOUBT, FADES, Posterior
from conrl.estimation.prior import MOST_STRENGTH, Prior, Scatter, fit_prior, novelty, pull

Float = NDArray[np.float64]
Int = NDArray[np.int64]

few = settings(max_examples=30, deadline=None)


# -- random ensembles, as dense arrays ------------------------------------------------------------------------


@dataclass(frozen=True)
class Ensemble:
    """What was drawn; the same always builds the same models."""

    states: int
    actions: int
    horizon: int
    models: int
    by_step: bool
    ends: bool  # the last state is absorbing
    seed: int

    def build(self) -> Built:
        rng = np.random.default_rng(self.seed)
        S, A, H, D = self.states, self.actions, self.horizon, self.models
        nodes = H * S if self.by_step else S
        exists = rng.random((nodes, A)) < 0.7
        exists[np.arange(nodes), rng.integers(A, size=nodes)] = True
        node, action = np.nonzero(exists)
        P = node.size
        sizes = rng.integers(0, 4, size=P)  # a pair may have nothing but what was never seen
        absorbing = (node % S == S - 1) & self.ends
        sizes[absorbing] = 1
        start = np.concatenate(([0], np.cumsum(sizes)))
        successor = rng.integers(S, size=start[-1])
        successor[np.repeat(absorbing, sizes)] = S - 1
        lost = np.where(sizes[:, None] > 0, rng.random((P, D)) * (rng.random((P, 1)) < 0.5), 1.0)
        lost[absorbing] = 0.0
        share = rng.random((start[-1], D)) + 1e-3
        for k in range(P):
            own = slice(start[k], start[k + 1])
            share[own] *= (1.0 - lost[k]) / np.maximum(share[own].sum(axis=0), 1e-300)
        initial = rng.dirichlet(np.ones(S), D).T * 1.0
        chance = np.zeros((H, S, A))
        for h in range(H):
            for s in range(S):
                there = exists[h * S + s if self.by_step else s]
                chance[h, s, there] = rng.dirichlet(np.ones(int(there.sum())))
                if rng.random() < 0.5:
                    chance[h, s] = np.eye(A)[rng.choice(np.flatnonzero(there))]
        first = np.searchsorted(node, np.arange(nodes + 1))
        target = rng.integers(S, size=(P, D))
        return Built(first, start, successor, share, lost, target, initial, action, chance, node, self.by_step)


@dataclass(frozen=True, eq=False)
class Built:
    first: Int
    start: Int
    successor: Int
    share: Float
    lost: Float
    target: Int
    initial: Float
    action: Int
    policy: Float  # [H, S, A]
    node: Int
    by_step: bool

    def transitions(self, b: int) -> Float:
        """[P, S] of one model."""
        dense = np.zeros((self.node.size, self.initial.shape[0]))
        for k in range(self.node.size):
            for j in range(self.start[k], self.start[k + 1]):
                dense[k, self.successor[j]] += self.share[j, b]
            dense[k, self.target[k, b]] += self.lost[k, b]
        return dense

    def pairs(self, h: int, s: int) -> list[int]:
        node = h * self.initial.shape[0] + s if self.by_step else s
        return np.flatnonzero(self.node == node).tolist()

    def flow(self, b: int) -> tuple[Float, Float]:
        """Visits [P] and occupied [H, S] of one model, forward."""
        H, S, _ = self.policy.shape
        P = self.transitions(b)
        visits, occupied = np.zeros(self.node.size), np.zeros((H + 1, S))
        occupied[0] = self.initial[:, b]
        for h in range(H):
            for s in range(S):
                for k in self.pairs(h, s):
                    x = occupied[h, s] * self.policy[h, s, self.action[k]]
                    visits[k] += x
                    occupied[h + 1] += x * P[k]
        return visits, occupied[:H]


ensembles = st.builds(
    Ensemble,
    states=st.integers(1, 5),
    actions=st.integers(1, 3),
    horizon=st.integers(1, 5),
    models=st.integers(1, 4),
    by_step=st.booleans(),
    ends=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)


@few
@given(ensembles)
def test_visits_of_an_ensemble_are_those_of_each_model(spec: Ensemble) -> None:
    e = spec.build()
    visits = np.zeros((e.node.size, spec.models))
    kernels.ensemble_visits(
        e.first, e.start, e.successor, e.share, e.lost, e.target, e.initial, e.action, e.policy, visits
    )
    for b in range(spec.models):
        np.testing.assert_allclose(visits[:, b], e.flow(b)[0], rtol=1e-12, atol=1e-14)
    assert np.allclose(visits.sum(axis=0), spec.horizon)


@few
@given(ensembles)
def test_values_of_a_policy_are_added_up_backward(spec: Ensemble) -> None:
    e = dataclasses.replace(spec, models=1).build()
    H, S, _ = e.policy.shape
    P = e.transitions(0)
    start = np.arange(0, S * e.node.size + 1, S)  # here with every successor, those of no probability too
    pay = np.random.default_rng(spec.seed).normal(size=(e.node.size, 2))
    values, occupied = np.full((H + 1, S, 2), np.nan), np.zeros((H, S))
    occupied[0] = e.initial[:, 0]
    successor = np.tile(np.arange(S), e.node.size)
    kernels.policy_values(e.first, start, successor, P.reshape(-1), e.action, pay, e.policy, occupied, values)
    expected = np.zeros((H + 1, S, 2))
    for h in reversed(range(H)):
        for s in range(S):
            for k in e.pairs(h, s):
                expected[h, s] += e.policy[h, s, e.action[k]] * (pay[k] + P[k] @ expected[h + 1])
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-13)
    visits, there = e.flow(0)
    np.testing.assert_allclose(occupied, there, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(occupied[0] @ values[0], visits @ pay, rtol=1e-10, atol=1e-12)


@few
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_what_follows_is_a_mean_over_steps(states: int, nodes: int, horizon: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    node, successor = rng.integers(nodes, size=n), rng.integers(states, size=n)
    when = rng.dirichlet(np.ones(horizon), nodes) * (rng.random((nodes, 1)) < 0.8)
    values = rng.normal(size=(horizon + 1, states, 3))
    after = np.full((n, 3), np.nan)
    kernels.values_after(node, successor, when, values, after)
    for j in range(n):
        mean = sum(when[node[j], h] * values[h + 1, successor[j]] for h in range(horizon))
        np.testing.assert_allclose(after[j], mean, rtol=1e-12, atol=1e-14)


# -- random logs ----------------------------------------------------------------------------------------------

PAYS = ("binary", "continuous", "constant", "signed")


@dataclass(frozen=True)
class Play:
    """What was drawn; the same always makes the same log."""

    states: int
    actions: int
    horizon: int
    costs: int
    pay: str  # one of PAYS
    known: bool  # the first state
    ends: bool  # some episodes terminate
    by_step: bool
    episodes: int
    seed: int

    def episodes_of(self) -> list[conrl.Episode]:
        rng = np.random.default_rng(self.seed)
        width = 1 + self.costs
        made = []
        for _ in range(self.episodes):
            ended = bool(self.ends and rng.random() < 0.4)
            L = int(rng.integers(1, self.horizon + 1)) if ended else self.horizon
            states = rng.integers(self.states, size=L + 1)
            states[0] = 0 if self.known else states[0]
            pay = {
                "binary": (rng.random((L, width)) < 0.3).astype(np.float64),
                "continuous": rng.random((L, width)),
                "constant": np.ones((L, width)),
                "signed": rng.integers(-2, 3, (L, width)).astype(np.float64),
            }[self.pay]
            actions = rng.integers(self.actions, size=L)
            made.append(conrl.Episode(states, actions, pay[:, 0], pay[:, 1:], terminated=ended))
        return made

    def estimate(self) -> conrl.ConstrainedMDP:
        episodes = self.episodes_of()
        if not self.by_step:
            return conrl.estimate(episodes, horizon=self.horizon)
        task = conrl.Task(
            self.states,
            self.actions,
            self.horizon,
            np.full(self.costs, np.inf),
            [f"c{i}" for i in range(self.costs)],
            initial=0 if self.known else None,
            reward_range=(-2.0, 2.0),
            cost_ranges=((-2.0, 2.0),) * self.costs,
            step_dependent=True,
        )
        return conrl.estimate(episodes, task=task)


plays = st.builds(
    Play,
    states=st.integers(1, 4),
    actions=st.integers(1, 3),
    horizon=st.integers(1, 5),
    costs=st.integers(0, 2),
    pay=st.sampled_from(PAYS),
    known=st.booleans(),
    ends=st.booleans(),
    by_step=st.booleans(),
    episodes=st.sampled_from([1, 2, 5, 30, 80]),
    seed=st.integers(0, 2**32 - 1),
)


def some_policy(mdp: conrl.ConstrainedMDP, seed: int, sparse: bool = False) -> conrl.Policy:
    """A random policy, of what exists; `sparse`: it leaves out half of that."""
    rng = np.random.default_rng(seed)
    exists = np.broadcast_to(mdp.playable, (mdp.horizon, mdp.num_states, mdp.num_actions))
    weight = rng.random(exists.shape) * exists
    if sparse:
        weight *= weight >= np.quantile(weight, 0.5, axis=2, keepdims=True)
    return conrl.Policy(weight / weight.sum(axis=2, keepdims=True))


def rebuilt(posterior: Posterior, seed: int, size: int) -> list[conrl.ConstrainedMDP]:
    """The first models that are drawn, each as an explicit model."""
    mdp = posterior.mdp
    drawn = posterior.draw(np.arange(mdp.num_pairs), seed, 0)
    initial = posterior.first_states(seed, 0)
    shape = (mdp.horizon, mdp.num_states, mdp.num_actions) if mdp.step_dependent else mdp.available.shape
    models = []
    for b in range(size):
        P = np.zeros((mdp.num_pairs, mdp.num_states))
        for j, k in enumerate(posterior.link_pair):
            P[k, posterior.successor[j]] += drawn.share[j, b]
        for k in range(mdp.num_pairs):
            P[k, drawn.target[k, b]] += drawn.lost[k, b]
        full, pay = np.zeros((*shape, mdp.num_states)), np.zeros((*shape, drawn.pay.shape[2]))
        at = (mdp.pair_step, mdp.pair_state, mdp.action) if mdp.step_dependent else (mdp.pair_state, mdp.action)
        full[at], pay[at] = P, drawn.pay[:, b]
        if not mdp.step_dependent:
            models.append(
                conrl.ConstrainedMDP(
                    full, pay[..., 0], pay[..., 1:], mdp.horizon, initial=initial[:, b], available=mdp.available
                )
            )
            continue
        by_outcome = np.repeat(pay[:, :, :, None], mdp.num_states, axis=3)  # [H, S, A] alone may be [S, A, S]
        models.append(
            conrl.ConstrainedMDP(
                full, by_outcome[..., 0], by_outcome[..., 1:], initial=initial[:, b], available=mdp.available
            )
        )
    return models


@few
@given(plays, st.booleans())
def test_totals_are_what_the_drawn_models_say(play: Play, sparse: bool) -> None:
    mdp = play.estimate()
    posterior = Posterior(mdp)
    policy = some_policy(mdp, play.seed, sparse)
    totals = drawn_totals(posterior, policy, 4, 7)
    expected = [conrl.evaluate(model, policy).value for model in rebuilt(posterior, 7, 4)]
    np.testing.assert_allclose(totals, expected, rtol=1e-10, atol=1e-10)


@few
@given(plays)
def test_a_pair_is_drawn_the_same_whatever_else_is_asked(play: Play) -> None:
    mdp = play.estimate()
    posterior = Posterior(mdp)
    rng = np.random.default_rng(play.seed)
    some = np.flatnonzero(rng.random(mdp.num_pairs) < 0.5)
    if not some.size:
        some = np.array([mdp.num_pairs - 1])
    whole, part = posterior.draw(np.arange(mdp.num_pairs), 3, 1), posterior.draw(some, 3, 1)
    links = np.flatnonzero(np.isin(posterior.link_pair, some))
    np.testing.assert_array_equal(whole.share[links], part.share)
    for name in ("lost", "target", "pay"):
        np.testing.assert_array_equal(getattr(whole, name)[some], getattr(part, name))
    other = posterior.draw(some, 4, 1)
    assert play.pay == "constant" or not np.array_equal(other.pay, part.pay) or np.ptp(part.pay) == 0.0


def bandit(costs: Sequence[Sequence[float]]) -> list[conrl.Episode]:
    """Episodes of one step in one state: what each action cost, visit by visit; the reward is 1."""
    return [conrl.Episode([0, 0], [a], [1.0], [[x]]) for a, paid in enumerate(costs) for x in paid]


def binary(visits: int, ones: int) -> list[float]:
    return [1.0] * ones + [0.0] * (visits - ones)


def test_fewer_draws_are_the_first_of_more() -> None:
    mdp = conrl.estimate(bandit([binary(20, 5), binary(10, 5)]))
    posterior, policy = Posterior(mdp), conrl.Policy(np.full((1, 1, 2), 0.5))
    many = drawn_totals(posterior, policy, 300, 0)
    for count in (2, 100, 128, 200):
        np.testing.assert_array_equal(drawn_totals(posterior, policy, count, 0), many[:count])


def test_whole_blocks_are_the_first_of_more() -> None:
    mdp = conrl.estimate(bandit([binary(20, 5), binary(10, 5)]))
    posterior, policy = Posterior(mdp), conrl.Policy(np.full((1, 1, 2), 0.5))
    many = drawn_totals(posterior, policy, 3 * BLOCK, 0)
    np.testing.assert_array_equal(drawn_totals(posterior, policy, BLOCK, 0), many[:BLOCK])
    assert not np.array_equal(many[:BLOCK], many[BLOCK : 2 * BLOCK])
    assert not np.array_equal(many, drawn_totals(posterior, policy, 3 * BLOCK, 1))


@few
@given(plays)
def test_drawn_models_are_models(play: Play) -> None:
    """Shares add up, nothing is negative, and what is paid lies between the least and the most that was seen."""
    mdp = play.estimate()
    posterior = Posterior(mdp)
    drawn = posterior.draw(np.arange(mdp.num_pairs), 0, 0)
    total = drawn.lost.copy()
    np.add.at(total, posterior.link_pair, drawn.share)
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)
    assert (drawn.share >= 0.0).all()
    assert (drawn.lost >= 0.0).all()
    initial = posterior.first_states(0, 0)
    np.testing.assert_allclose(initial.sum(axis=0), 1.0)
    assert (initial[mdp.initial == 0.0] == 0.0).all()
    assert np.isfinite(drawn.pay).all()
    if play.pay == "constant":
        np.testing.assert_allclose(drawn.pay[~posterior.known], 1.0, rtol=1e-12)


# -- END, first states, what was never seen -------------------------------------------------------------------


def ended(by_step: bool) -> conrl.ConstrainedMDP:
    """Two states; half of all episodes terminate after a step from state 1."""
    rng = np.random.default_rng(0)
    episodes = []
    for i in range(40):
        first = int(rng.random() < 0.25)
        if i % 2:
            episodes.append(conrl.Episode([first, 1, 0], [0, 1], [1.0, 2.0], [[1.0], [0.0]], terminated=True))
        else:
            episodes.append(conrl.Episode([first, 0, 1, 1], [0, 0, 0], [1.0, 0.0, 3.0], [[0.0], [1.0], [1.0]]))
    if not by_step:
        return conrl.estimate(episodes)
    task = conrl.Task(2, 2, 3, [np.inf], ["cost"], reward_range=(0.0, 3.0), step_dependent=True)
    return conrl.estimate(episodes, task=task)


@pytest.mark.parametrize("by_step", [False, True])
@pytest.mark.filterwarnings("ignore:the steps of the log differ")
def test_what_has_ended_pays_nothing_and_stays(by_step: bool) -> None:
    mdp = ended(by_step)
    posterior = Posterior(mdp)
    ends = np.flatnonzero(mdp.pair_state == 2)
    assert ends.size == (3 if by_step else 1)
    drawn = posterior.draw(ends, 0, 0)
    np.testing.assert_array_equal(drawn.pay, 0.0)
    np.testing.assert_array_equal(drawn.lost, 0.0)
    np.testing.assert_array_equal(drawn.share, 1.0)
    np.testing.assert_array_equal(posterior.successor[np.isin(posterior.link_pair, ends)], 2)
    found = deviations(posterior, some_policy(mdp, 0))
    np.testing.assert_array_equal(found.deviation[ends], 0.0)


def test_first_states_are_dirichlet() -> None:
    states = [0] * 6 + [1] * 3 + [2] * 1
    mdp = conrl.estimate([conrl.Episode([s, s], [0], [1.0], [[0.0]]) for s in states])
    drawn = np.concatenate([Posterior(mdp).first_states(5, block) for block in range(20)], axis=1)
    for s, n in enumerate((6, 3, 1)):
        assert stats.kstest(drawn[s], stats.beta(n, 10 - n).cdf).pvalue > 0.001
    law = stats.dirichlet([6, 3, 1])
    np.testing.assert_allclose(np.cov(drawn), law.cov(), atol=0.1 * law.cov().max())


@pytest.mark.filterwarnings("ignore:the steps of the log differ")
def test_a_known_first_state_stays() -> None:
    mdp = conrl.estimate(bandit([binary(5, 2)]))
    np.testing.assert_array_equal(Posterior(mdp).first_states(0, 0), 1.0)
    spread = ended(False).replace(initial=[0.5, 0.5, 0.0])
    np.testing.assert_array_equal(Posterior(spread).first_states(0, 0), np.repeat([[0.5], [0.5], [0.0]], BLOCK, axis=1))


def test_new_successors_are_drawn_as_often_as_others_led_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Action 1 was never played in state 0: it leads where action 0 led. Nothing was in state 3: it leads anywhere."""
    monkeypatch.setattr(module, "ASTRAY", 0.0)
    leads = [0] * 1 + [1] * 3 + [2] * 6
    episodes = [conrl.Episode([0, t], [0], [0.0], [[0.0]]) for t in leads]
    episodes += [conrl.Episode([1, 2], [1], [0.0], [[0.0]])] * 10 + [conrl.Episode([2, 3], [0], [0.0], [[0.0]])] * 20
    mdp = conrl.estimate(episodes)
    posterior = Posterior(mdp)
    for state, expected in ((0, [1, 3, 6, 0]), (3, [1, 3, 16, 20])):
        k = int(mdp.pair_index[state, 1])
        drawn = [posterior.draw(np.array([k]), 1, block) for block in range(20)]
        lost, target = (np.concatenate([getattr(d, name)[0] for d in drawn]) for name in ("lost", "target"))
        np.testing.assert_array_equal(lost, 1.0)
        chance = np.array(expected) / sum(expected)
        found = np.bincount(target, minlength=4)
        some = chance > 0.0
        assert found[~some].sum() == 0
        assert stats.chisquare(found[some], target.size * chance[some]).pvalue > 0.001


def test_in_some_models_all_that_is_new_leads_to_one_state() -> None:
    """States 0 and 1 lead to 2 and 3 alone: only a model that goes astray leads from both to 4 or 5."""
    episodes = [
        conrl.Episode([s, t, 4 + a], [0, a], [0.0] * 2, [[0.0]] * 2) for s in (0, 1) for t in (2, 3) for a in (0, 1)
    ]
    mdp = conrl.estimate(episodes)
    posterior = Posterior(mdp)
    pairs = np.array([mdp.pair_index[0, 1], mdp.pair_index[1, 1]])
    target = np.concatenate([posterior.draw(pairs, 3, block).target for block in range(40)], axis=1)
    stray = target[0] >= 4
    np.testing.assert_array_equal(target[0, stray], target[1, stray])
    np.testing.assert_array_equal(stray, target[1] >= 4)
    share = 0.5 * ASTRAY  # two of the four states that were come to
    assert abs(stray.mean() - share) < 4.0 * np.sqrt(share / stray.size)


def test_how_much_is_new_is_beta() -> None:
    """Good and Turing by hand: of the pairs seen 4 to 7 times, two of ten visits led somewhere once."""
    leads = {0: [0, 0, 1, 2], 1: [0, 0, 0, 1, 1, 1]}
    episodes = [conrl.Episode([0, t], [a], [0.0], [[0.0]]) for a, found in leads.items() for t in found]
    mdp = conrl.estimate(episodes)
    posterior = Posterior(mdp)
    share = (2 + 0.5) / (10 + 1)
    for a, visits in ((0, 4), (1, 6)):
        k = int(mdp.pair_index[0, a])
        assert posterior.lost[k] == pytest.approx(visits * share / (1.0 - share))
        lost = np.concatenate([posterior.draw(np.array([k]), 1, block).lost[0] for block in range(20)])
        assert stats.kstest(lost, stats.beta(visits * share / (1.0 - share), visits).cdf).pvalue > 0.001


# -- moments of pay -------------------------------------------------------------------------------------------


def paid(posterior: Posterior, pair: int, blocks: int = 200, column: int = 1) -> Float:
    """What one pair pays on average in so many blocks of models."""
    drawn = [posterior.draw(np.array([pair]), 11, block).pay[0, :, column] for block in range(blocks)]
    return np.concatenate(drawn)


def near(found: Float, mean: float, variance: float, errors: float = 4.0) -> bool:
    """Whether numbers have this mean and variance to within so many standard errors."""
    n = found.size
    fourth = float(((found - found.mean()) ** 4).mean())
    off = abs(found.mean() - mean) / np.sqrt(variance / n), abs(found.var() - variance) / np.sqrt(fourth / n)
    return bool(max(off) < errors)


def anova(groups: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Center, variance within and between groups that count alike; each at least 10 long, and all of one length."""
    means = np.array([np.mean(g) for g in groups])
    N, K = len(groups[0]), len(groups)
    within = float(np.mean([np.var(g, ddof=1) for g in groups]))
    return float(means.mean()), within, max(float(means.var(ddof=1)) - within / N, 0.0) if K > 1 else 0.0


def test_a_binary_cost_has_the_moments_of_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """X = B M + (1 - B)(Q + C): M the bootstrap's mean, Q the prior's pay, C how far its center is off, B a Beta."""
    monkeypatch.setattr(module, "GUESS", 0.0)
    ones = (2, 5, 9, 16, 10, 3)
    groups = [binary(20, n) for n in ones]
    mdp = conrl.estimate(bandit(groups))
    posterior = Posterior(mdp)
    center, within, apart = anova(groups)
    strength = within / apart
    share = np.mean(ones) / 20.0
    means = np.array(ones) / 20.0
    np.testing.assert_allclose(posterior.prior.strength, [0.0, strength])
    np.testing.assert_allclose(posterior.prior.center, [1.0, center])
    other = share * (1.0 - share) / (strength + 1.0) + means.var() / (len(ones) + 1.0)  # Var(Q) + Var(C)
    weight = stats.beta(20, strength)
    for a, mean in enumerate(means):
        first, second = weight.mean(), weight.moment(2)
        middle = first * mean + (1.0 - first) * center
        inner = second * (mean * (1.0 - mean) / 19.0 + mean**2)
        inner += 2.0 * (first - second) * mean * center
        inner += (1.0 - 2.0 * first + second) * (other + center**2)
        found = paid(posterior, int(mdp.pair_index[0, a]))
        assert near(found, middle, inner - middle**2)
        assert posterior.means[a, 1] == pytest.approx(middle)
        reward = paid(posterior, int(mdp.pair_index[0, a]), 1, column=0)
        np.testing.assert_allclose(reward, 1.0, rtol=1e-12)  # it never varies


@pytest.mark.parametrize("visits", [20, 200])
def test_an_event_that_was_not_seen_counts_some_visits(visits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """DOUBT visits of an event, shared with those that were seen; fewer where pairs differ more than their visits, and
    there are more than FADES of these."""
    monkeypatch.setattr(module, "GUESS", 0.0)
    ones = [round(share * visits) for share in (0.0, 0.1, 0.25, 0.45, 0.8)]
    groups = [binary(visits, n) for n in ones]
    mdp = conrl.estimate(bandit(groups))
    plain, doubting = Posterior(mdp), Posterior(mdp, np.array([0, 1, 1]), np.array([np.nan, 3.0, np.nan]))
    center, within, apart = anova(groups)
    strength = within / apart
    assert doubting.prior.noise[1] == pytest.approx(within / (within + apart))
    for a, n in enumerate(ones):
        doubt = DOUBT * max(within / (within + apart), min(1.0, FADES / visits)) / (1.0 + n)
        middle = (n + strength * center + doubt) / (visits + strength + doubt)  # an event costs 1
        assert doubting.means[a, 1] == pytest.approx(middle)
        assert doubting.means[a, [0, 2]] == pytest.approx(plain.means[a])  # nan: no doubt
        found = paid(doubting, a, 100)
        assert abs(found.mean() - middle) < 4.0 * found.std() / np.sqrt(found.size)
        np.testing.assert_allclose(doubting.variance[a, [0, 2]], plain.variance[a])


@pytest.mark.parametrize("visits", [100, 1000, 10_000])
@pytest.mark.parametrize("rare", [1.0, -1.0])
def test_what_never_happened_in_many_visits_may_still_happen(visits: int, rare: float) -> None:
    """The upper end for a pair without an event lies below the exact one of Clopper and Pearson, and near it."""
    mdp = conrl.estimate(bandit([[rare * x for x in binary(visits, n)] for n in (0, 3, 5, 2)]))
    found = rare * paid(Posterior(mdp), 0)
    exact = stats.beta.ppf(0.975, 1, visits)
    assert 0.5 * exact < np.quantile(found, 0.975) < 1.2 * exact
    assert np.quantile(found, 0.025) < 0.1 / visits


def test_the_size_of_an_event() -> None:
    """Each visit counts as much as it lies off the usual end; of what nobody saw it is the worst."""
    costs = np.array([0.0] * 16 + [1.0, 1.0, 2.0, 6.0])
    mdp = conrl.estimate(bandit([costs.tolist(), np.roll(costs, 3).tolist()]))
    assert Posterior(mdp).far[1] == pytest.approx((1 + 1 + 4 + 36) / (1 + 1 + 2 + 6))
    floor = Posterior(mdp, np.array([0, 1]), np.array([np.nan, 0.0]))
    off = 6.0 - costs
    assert floor.far[1] == pytest.approx(6.0 - (off**2).sum() / off.sum())
    never = conrl.estimate(bandit([[0.0] * 20] * 2))
    assert Posterior(never, np.array([0, 1]), np.array([np.nan, 5.0])).far[1] == 5.0


def test_nothing_is_doubted_of_what_never_varies_or_was_never_tried() -> None:
    episodes = [*bandit([[0.5] * 20, [0.7] * 20]), conrl.Episode([1, 1], [0], [1.0], [[0.6]])]
    posterior = Posterior(conrl.estimate(episodes))
    np.testing.assert_array_equal(posterior.doubt, 0.0)
    elsewhere = conrl.Episode([1, 1], [0], [1.0], [[0.0]])
    some = Posterior(conrl.estimate([*bandit([binary(200, 1), binary(200, 2)]), elsewhere]))
    seen = some.visits > 0
    assert (some.doubt[seen, 1] > 0.0).all()
    often = Posterior(conrl.estimate([*bandit([binary(20, 5), binary(20, 9)]), elsewhere]))
    np.testing.assert_array_equal(often.doubt, 0.0)  # the prior tells of enough
    np.testing.assert_array_equal(some.doubt[~seen], 0.0)


def test_a_pair_never_seen_pays_what_pairs_pay() -> None:
    groups = [binary(20, n) for n in (2, 5, 9, 16, 10, 3)]
    episodes = [*bandit(groups), conrl.Episode([1, 1], [0], [1.0], [[1.0]])]
    mdp = conrl.estimate(episodes)
    posterior = Posterior(mdp)
    found = paid(posterior, int(mdp.pair_index[1, 3]))
    prior = posterior.prior
    # Its center is off by the bootstrap over pairs, whose weights differ: an upper bound on that variance is enough.
    assert abs(found.mean() - prior.center[1]) < 0.02
    center = float(prior.center[1])
    apart = center * (1.0 - center) / (float(prior.strength[1]) + 1.0)  # a Dirichlet process's, and a Beta's
    assert apart < found.var() < apart + 0.03


def test_where_pay_never_varies_one_visit_tells_all() -> None:
    """Every pair always pays its own amount; one that was never seen pays what some other does, about."""
    episodes = [conrl.Episode([0, 0], [a], [float(a)], [[10.0 * a]]) for a in (0, 1, 2, 4) for _ in range(1 + a)]
    mdp = conrl.estimate(episodes)
    posterior = Posterior(mdp)
    np.testing.assert_array_equal(posterior.prior.strength, 0.0)
    for a in (0, 1, 2, 4):
        np.testing.assert_allclose(paid(posterior, a, 2), 10.0 * a, rtol=1e-12)
    unseen = paid(posterior, 3, 20)
    assert unseen.min() < 15.0 < unseen.max()
    assert abs(unseen.mean() - posterior.prior.center[1]) < 2.5  # the bootstrap over four pairs is that far off


NOISES = [
    0.01,
    2.2,
]


@pytest.mark.parametrize("noise", NOISES)
def test_where_pay_hardly_varies_a_pair_never_seen_pays_like_others(noise: float) -> None:
    """Costs of 100 and 200 with a little noise: 0 was never paid, and nobody will believe in it."""
    groups = [center + noise * (i % 3) for i in range(60) for center in (100.0, 200.0)]
    episodes = [*bandit([groups[::2], groups[1::2]]), *[conrl.Episode([1, 1], [0], [1.0], [[150.0]])] * 12]
    mdp = conrl.estimate(episodes)
    posterior = Posterior(mdp)
    assert 0.0 < posterior.prior.strength[1] < 2e-3  # Gamma of that is often 0
    unseen = paid(posterior, int(mdp.pair_index[1, 1]), 20)
    assert unseen.min() > 50.0
    assert abs(unseen.mean() - posterior.means[int(mdp.pair_index[1, 1]), 1]) < 10.0


def continuous(visits: int, arms: int, seed: int = 0) -> list[conrl.Episode]:
    """Arms that pay a normal reward and a cost that goes with it."""
    rng = np.random.default_rng(seed)
    made = []
    for a in range(arms):
        reward = rng.normal(0.5 * a, 1.0, visits)
        cost = 0.5 * reward + rng.normal(0.0, 1.0, visits)
        made += [conrl.Episode([0, 0], [a], [x], [[y]]) for x, y in zip(reward, cost, strict=True)]
    return made


def covariance(posterior: Posterior, pair: int) -> tuple[Float, Float]:
    drawn = np.concatenate([posterior.draw(np.array([pair]), 5, block).pay[0] for block in range(200)])
    return drawn.mean(axis=0), np.cov(drawn.T)


def test_continuous_pay_has_the_covariance_of_the_mean() -> None:
    """With 2,000 visits, whatever is believed beforehand hardly counts: the covariance is that of visits / visits."""
    episodes = continuous(2000, 3)
    mdp = conrl.estimate(episodes)
    posterior = Posterior(mdp)
    assert posterior.atoms.pair.size == 3  # the amounts themselves are not kept
    for a in range(3):
        pay = np.array([e.pay[0] for e in episodes if e.actions[0] == a])
        mean, found = covariance(posterior, a)
        expected = np.cov(pay.T) / 2000.0
        np.testing.assert_allclose(found, expected, atol=0.06 * expected.max())
        np.testing.assert_allclose(mean, pay.mean(axis=0), atol=0.15 * np.sqrt(expected.max()))


@pytest.mark.parametrize(("visits", "arms"), [(13, 1), (20, 6)])
def test_continuous_pay_is_drawn_as_the_exact_bootstrap_draws_it(
    visits: int, arms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mdp = conrl.estimate(continuous(visits, arms))
    mean, found = covariance(Posterior(mdp), 0)
    monkeypatch.setattr(module, "FEW", 10**9)
    exact_mean, exact = covariance(Posterior(mdp), 0)
    np.testing.assert_allclose(mean, exact_mean, atol=0.1 * np.sqrt(exact.max()))
    np.testing.assert_allclose(found, exact, atol=0.06 * exact.max())


def test_one_pair_alone_is_as_unsure_as_its_visits() -> None:
    """There is nothing to learn from others: the mean of 20 visits is off by sqrt(p (1-p) / 20), about."""
    posterior = Posterior(conrl.estimate(bandit([binary(20, 6)])))
    assert near(paid(posterior, 0), 0.3, 0.3 * 0.7 / 19.0)


def test_the_mean_of_many_visits_is_as_unsure_as_theory_says() -> None:
    posterior = Posterior(conrl.estimate(bandit([binary(2000, 600), binary(2000, 100)])))
    for a, p in enumerate((0.3, 0.05)):
        assert paid(posterior, a).std() == pytest.approx(np.sqrt(p * (1.0 - p) / 2000.0), rel=0.04)


# -- how far off ----------------------------------------------------------------------------------------------


def world(seed: int, by_step: bool = False) -> conrl.ConstrainedMDP:
    """A small process to write logs with."""
    rng = np.random.default_rng(seed)
    shape = (5, 4, 2) if by_step else (4, 2)
    P = rng.dirichlet(np.ones(4), shape)
    cost = rng.random((*shape, 4)) < 0.4
    reward = rng.integers(0, 3, (*shape, 4)).astype(np.float64)
    return conrl.ConstrainedMDP(P, reward, cost[..., None].astype(np.float64), None if by_step else 5)


def written(mdp: conrl.ConstrainedMDP, episodes: int, seed: int) -> list[conrl.Episode]:
    """A log of uniform play; the pay of the model by outcome."""
    rng = np.random.default_rng(seed)
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    P = np.stack([t.toarray() for t in mdp.transitions]) if mdp.step_dependent else mdp.transitions.toarray()[None]
    P = P.reshape(-1, S, A, S)
    pay: dict[tuple[int, int, int, int], Float] = {}
    owner = np.repeat(np.arange(mdp.num_pairs), np.diff(mdp.graph.start).astype(np.int64))
    for j, k in enumerate(owner.tolist()):
        place = int(mdp.pair_step[k]), int(mdp.pair_state[k]), int(mdp.action[k]), int(mdp.graph.successor[j])
        pay[place] = mdp.pay_by_outcome[j]
    made = []
    for _ in range(episodes):
        states, actions, rows = [0], rng.integers(A, size=H), []
        for h in range(H):
            t = h if mdp.step_dependent else 0
            s, a = states[-1], int(actions[h])
            states.append(int(rng.choice(S, p=P[t, s, a])))
            rows.append(pay[t, s, a, states[-1]])
        total = np.array(rows)
        made.append(conrl.Episode(states, actions, total[:, 0], total[:, 1:]))
    return made


def means_of(posterior: Posterior) -> conrl.ConstrainedMDP:
    """The estimate with the posterior's mean pay; of a log in which every pair was seen."""
    mdp = posterior.mdp
    return mdp._copy(pay=posterior.means, outcome_pay=None, _derived={})


@pytest.mark.parametrize("by_step", [False, True])
def test_deviations_add_up_to_the_variance_of_totals(by_step: bool) -> None:
    true = world(3, by_step)
    episodes = written(true, 2500, 1)
    if by_step:
        task = dataclasses.replace(true.task, reward_range=(0.0, 2.0), cost_ranges=((0.0, 1.0),))
        mdp = conrl.estimate(episodes, task=task)
    else:
        mdp = conrl.estimate(episodes)
    assert mdp._visits is not None
    assert mdp._visits[mdp.pair_step > 0 if by_step else slice(None)].min() > 100
    posterior = Posterior(mdp)
    table = np.repeat(np.random.default_rng(2).dirichlet(np.ones(2), (1, 4)), 5, axis=0)  # the same at every step
    policy = conrl.Policy(table)
    found = deviations(posterior, policy)
    totals = drawn_totals(posterior, policy, 6000, 9)
    variance = ((found.visits[:, None] * found.deviation) ** 2).sum(axis=0)
    np.testing.assert_allclose(variance, totals.var(axis=0), rtol=0.05)
    seen = policy.occupation(mdp)
    at = (mdp.pair_step, mdp.pair_state, mdp.action)
    expected = seen[at] if by_step else seen.sum(axis=0)[mdp.pair_state, mdp.action]
    np.testing.assert_allclose(found.visits, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.value, conrl.evaluate(means_of(posterior), policy).value, rtol=1e-10)
    np.testing.assert_allclose(found.value, totals.mean(axis=0), rtol=0.02)


@few
@given(plays)
def test_the_value_at_the_means_is_that_of_the_mean_model(play: Play) -> None:
    """Of policies that play what was seen, wherever they come to."""
    mdp = play.estimate()
    posterior = Posterior(mdp)
    index = mdp.pair_index.reshape(-1, mdp.num_states, mdp.num_actions)
    chance = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    for h in range(mdp.horizon):
        for s in range(mdp.num_states):
            pairs = index[h if mdp.step_dependent else 0, s]
            some = [a for a in range(mdp.num_actions) if pairs[a] >= 0 and posterior.seen[pairs[a]]]
            chance[h, s, some or [int(np.argmax(pairs >= 0))]] = 1.0
    policy = conrl.Policy(chance / chance.sum(axis=2, keepdims=True))
    rho = policy.occupation(mdp)
    per_pair = rho[mdp.pair_step, mdp.pair_state, mdp.action]
    if not mdp.step_dependent:
        per_pair = rho.sum(axis=0)[mdp.pair_state, mdp.action]
    if (per_pair[~posterior.seen] > 0.0).any():
        return  # a state where nothing was tried is come to
    found = deviations(posterior, policy)
    expected = conrl.evaluate(means_of(posterior), policy).value
    np.testing.assert_allclose(found.value, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.visits, per_pair, rtol=1e-9, atol=1e-12)
    assert np.isfinite(found.deviation).all()
    assert (found.deviation >= 0.0).all()


@pytest.mark.filterwarnings("ignore:the steps of the log differ")
def test_more_visits_leave_less_open() -> None:
    deviation = []
    for times in (1, 4, 16):
        episodes = written(world(3), 40, 1) * times
        found = deviations(Posterior(conrl.estimate(episodes)), conrl.Policy(np.full((5, 4, 2), 0.5)))
        deviation.append(np.sqrt(((found.visits[:, None] * found.deviation) ** 2).sum(axis=0)))
    assert (deviation[0] > 1.5 * deviation[1]).all()
    assert (deviation[1] > 1.5 * deviation[2]).all()


# -- refusals -------------------------------------------------------------------------------------------------


def test_models_that_hold_no_log_are_refused() -> None:
    mdp = conrl.estimate(bandit([binary(5, 2)]))
    cases: list[tuple[conrl.ConstrainedMDP, str]] = [
        (world(0), "was not estimated"),
        (mdp.with_bonus([[0.1]]), "bonus"),
    ]
    learner = conrl.UCBVI(mdp.task)
    learner.prime(bandit([binary(5, 2)]))
    cases.append((learner.model, "knows mean pay only"))
    for model, words in cases:
        with pytest.raises(conrl.SpecError, match=words):
            Posterior(model)
    with pytest.raises(conrl.ModelError, match="horizon"):
        Posterior(mdp.replace(horizon=conrl.Discounted(0.9)))


# -- priors ---------------------------------------------------------------------------------------------------


def simulated(K: int, within: float, apart: float, seed: int, equal: int | None = None) -> Prior:
    """The prior of K pairs with normal pay."""
    rng = np.random.default_rng(seed)
    N = rng.integers(1, 30, size=K) if equal is None else np.full(K, equal)
    true = rng.normal(2.0, np.sqrt(apart), size=K)
    pair = np.repeat(np.arange(K), N)
    pay = rng.normal(true[pair], np.sqrt(within))
    mean = np.bincount(pair, pay) / N
    squares = np.bincount(pair, (pay - mean[pair]) ** 2).astype(np.float64)
    return fit_prior(Scatter(N.astype(np.float64), mean[:, None], squares[:, None]))


@pytest.mark.parametrize("equal", [None, 8])
@pytest.mark.parametrize(("within", "apart"), [(1.0, 0.25), (4.0, 0.5), (0.01, 1.0)])
def test_the_variances_of_simulated_pairs_are_found(within: float, apart: float, equal: int | None) -> None:
    prior = simulated(4000, within, apart, 0, equal)
    assert prior.strength[0] == pytest.approx(within / apart, rel=0.1)
    assert prior.center[0] == pytest.approx(2.0, abs=0.05)


def test_pairs_that_are_alike_are_believed_so_but_not_without_end() -> None:
    prior = simulated(50, 1.0, 0.0, 1)
    assert prior.strength[0] <= MOST_STRENGTH
    assert simulated(4000, 1.0, 0.0, 2).strength[0] > 20.0


def test_pay_that_never_varies_has_no_prior() -> None:
    mean = np.array([[1.0, 3.0], [2.0, 3.0], [7.0, 3.0]])
    scatter = Scatter(np.array([4.0, 1.0, 30.0]), mean, np.zeros((3, 2)))
    prior = fit_prior(scatter)
    np.testing.assert_array_equal(prior.strength, 0.0)
    np.testing.assert_allclose(prior.center, [(4 * 1 + 1 * 2 + 10 * 7) / 15, 3.0])


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_do_not_matter_to_the_prior(unit: float) -> None:
    for groups in ([binary(12, 4), binary(15, 9), binary(11, 1)], [binary(9, 9), binary(9, 9)]):
        plain = Posterior(conrl.estimate(bandit(groups))).prior
        scaled = Posterior(conrl.estimate(bandit([[unit * x for x in g] for g in groups]))).prior
        np.testing.assert_allclose(scaled.strength[1], plain.strength[1], rtol=1e-9)
        np.testing.assert_allclose(scaled.center[1], unit * plain.center[1], rtol=1e-9)


def test_pairs_count_up_to_ten_visits() -> None:
    np.testing.assert_allclose(pull(np.array([1.0, 10.0, 1000.0])), np.array([1.0, 10.0, 10.0]) / 21.0)


def test_new_successors_by_hand() -> None:
    """Visits 2 and 3 are one octave: a share (1 + 1/2) / (5 + 1) of them was new, for pairs seen once too."""
    visits, once = np.array([1, 2, 3, 8, 15, 16]), np.array([1, 1, 0, 2, 0, 0])
    quarter, eighth, none = 1.5 / 6.0, 2.5 / 24.0, 0.5 / 17.0
    shares = np.array([quarter, quarter, quarter, eighth, eighth, none])
    found = novelty(visits, once)
    np.testing.assert_allclose(found, visits * shares / (1.0 - shares))
    np.testing.assert_allclose(found / (found + visits), shares)  # as a share of what is seen and what is not


def test_nothing_but_pairs_seen_once_may_lead_anywhere() -> None:
    np.testing.assert_allclose(novelty(np.array([1, 1]), np.array([1, 1])), [1.0, 1.0])  # even odds: nothing is known


@few
@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 200)), min_size=1, max_size=20))
def test_new_successors_are_worth_something_and_finite(counts: list[tuple[int, int]]) -> None:
    visits = np.array([n for n, _ in counts])
    once = np.array([min(n, k) for n, k in counts])
    found: Any = novelty(visits, once)
    assert np.isfinite(found).all()
    assert (found > 0.0).all()

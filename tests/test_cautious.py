"""What is left of a log when visits are left out, and what a choice does, beside the truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import conrl
from conrl.estimation.cautious import KEPT, Cautious
from conrl.estimation.confident import Search

Float = NDArray[np.float64]


def arms(costs: list[Float], useless: list[Float] | None = None) -> conrl.ConstrainedMDP:
    """One state; arm 0 costs and pays nothing and was played 50 times, the others pay 1 (or, the useless, nothing) and
    cost what they did."""
    episodes = [conrl.Episode([0, 0], [0], [0.0], [[0.0]])] * 50
    for arm, seen in enumerate([*costs, *(useless or [])], start=1):
        episodes += [conrl.Episode([0, 0], [arm], [float(arm <= len(costs))], [[cost]]) for cost in seen.tolist()]
    return conrl.estimate(episodes, horizon=1)


def cautious(mdp: conrl.ConstrainedMDP, limit: float) -> Cautious:
    return Cautious(mdp, conrl.Linear([limit]).rows(mdp), False)


@pytest.mark.parametrize("continuous", [False, True])
def test_visits_that_are_kept_scatter_around_all_visits(continuous: bool) -> None:
    rng = np.random.default_rng(3)
    seen = [rng.gamma(2.0, 0.2, 300) if continuous else rng.binomial(1, p, 300).astype(float) for p in (0.2, 0.5, 0.7)]
    mdp = arms(seen)
    model = cautious(mdp, 0.2)
    found = [
        (kept.pay[:, 1], every.pay[:, 1], kept.pay[:, 0], every.pay[:, 0]) for kept, every in model.thinned(3000, 5)
    ]
    kept, every, reward, same = (np.array(x)[:, :4] for x in zip(*found, strict=True))
    np.testing.assert_array_equal(reward, same)  # each arm pays one amount: nothing scatters
    off = kept - every
    np.testing.assert_array_equal(off[:, 0], 0.0)
    N = 300.0
    left = KEPT * N
    weight = left / (left + model.posterior.worth[1:4, 1])
    expected = weight * np.array([np.sqrt(x.var(ddof=1) * (1.0 / left - 1.0 / N)) for x in seen])
    np.testing.assert_allclose(off[:, 1:].std(axis=0), expected, rtol=0.08)
    assert (np.abs(off[:, 1:].mean(axis=0)) < 4.0 * expected / np.sqrt(3000)).all()


def test_a_pair_that_nothing_is_left_of_is_believed_as_before() -> None:
    mdp = arms([np.array([1.0]), np.array([0.0, 1.0, 0.0, 1.0])])
    model = cautious(mdp, 0.5)
    before = model.means.pay[1]
    found = np.array([kept.pay[1] for kept, _ in model.thinned(200, 1)])
    assert np.isfinite(found).all()
    lost = (found == before).all(axis=1)
    assert 0.3 < lost.mean() <= 1.0


def test_what_a_choice_costs_is_found_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty arms that are all alike: the plan plays the one that looks best, which is no better than the others.

    Others cost nothing or 1 each time, so that arms are not believed to be alike; and nothing is doubted."""
    monkeypatch.setattr("conrl.estimation.posterior.DOUBT", 0.0)
    error, found = [], []
    true = np.concatenate(([0.0], np.full(30, 0.3), [0.0, 1.0] * 15))
    for seed in range(30):
        rng = np.random.default_rng([seed, 17])
        mdp = arms([rng.binomial(1, 0.3, 60).astype(float) for _ in range(30)], [np.zeros(60), np.ones(60)] * 15)
        model = cautious(mdp, 0.15)
        search = Search(model, 0.95, 0, lambda text: None)
        one = search.candidate(0.0, np.zeros_like(model.posterior.means))
        error.append(true @ one.policy.probabilities[0, 0] - model.value(one.policy, model.means)[1])
        found.append(search.shift(one)[1])
    assert np.mean(error) > 0.05  # the log's luck was what it looked for
    assert np.mean(error) < np.mean(found) < 1.6 * np.mean(error)

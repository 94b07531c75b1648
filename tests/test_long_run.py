"""The best long-run average: against a long finite horizon, closed forms, and what a simulation earns."""

from __future__ import annotations

import numpy as np
import pytest

import conrl
from conrl.model import transform
from conrl.planners.long_run import long_run_optimum


def test_two_states_in_closed_form() -> None:
    """Stay in the one that pays 1 and costs 1, or in the other: half of the time, if the limit is half."""
    stay_or_move = np.zeros((2, 2, 2))
    stay_or_move[:, 0], stay_or_move[:, 1] = np.eye(2), np.eye(2)[::-1]
    mdp = conrl.ConstrainedMDP(stay_or_move, [[0, 0], [1, 0]], [[[0], [0]], [[1], [0]]], horizon=10)
    for limit, best in ((np.inf, 10.0), (5.0, 5.0)):
        found = long_run_optimum(mdp, np.array([limit]))
        assert (found.reward, found.costs[0]) == pytest.approx((best, best))


@pytest.mark.parametrize(("make", "best"), [("mars-rover", 2.0402), ("box", 3.6723)])
def test_it_is_the_limit_of_long_horizons(make: str, best: float) -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0) if make == "mars-rover" else conrl.envs.box()
    endless = transform.reachable_part(transform.single_episode(mdp))
    assert mdp.limits is not None
    found = long_run_optimum(endless, mdp.limits)
    assert found.reward == pytest.approx(best, abs=1e-4)
    assert found.costs[0] <= mdp.limits[0] + 1e-9
    rates = []
    for times in (20, 40):  # per 30 steps of a horizon so many times as long; the start is forgotten like 1 / times
        long = endless.replace(horizon=30 * times, limits=times * mdp.limits)
        rates.append(conrl.plan(long, tol=1e-7).reward / times)
    assert 2 * rates[1] - rates[0] == pytest.approx(best, abs=0.01)


def test_a_history_without_end_is_compared_with_it() -> None:
    endless = transform.reachable_part(transform.single_episode(conrl.envs.mars_rover(rock_reward=1.0)))
    history = conrl.learn(endless, conrl.TFWUCRL2(endless.task), 3, seed=0)
    assert history.optimum is not None
    assert history.optimum.reward == pytest.approx(2.0402, abs=1e-4)


def test_limits_that_nobody_keeps() -> None:
    endless = transform.reachable_part(transform.single_episode(conrl.envs.mars_rover(rock_reward=1.0)))
    with pytest.raises(conrl.RunError, match="keeps the limits"):
        long_run_optimum(endless, np.array([-1.0]))

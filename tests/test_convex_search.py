"""Concave-convex plans with one cost: directions asked for without a master, and the bounds that they prove."""

from __future__ import annotations

from typing import Any

import cvxpy
import numpy as np
import pytest

from conrl.envs import random_cmdp
from conrl.oracles import BackwardInduction
from conrl.planners.column_generation.cones import Answer, Cones
from conrl.planners.column_generation.convex import maximise_convex
from conrl.planners.column_generation.expressions import Expressions

cp: Any = cvxpy  # its functions are not typed
LIMIT = 12.0
QUESTIONS: dict[str, tuple[Any, list[Any]]] = {
    "a limit": (lambda r: cp.sqrt(1.0 + r), [lambda c: c[0] - LIMIT]),
    "a square": (lambda r: cp.log(1.0 + r), [lambda c: cp.square(c[0]) - LIMIT**2]),
    "near": (lambda r: r, [lambda c: cp.norm(c - LIMIT) - 0.5]),
    "a price": (lambda r, c: r - 0.05 * cp.square(c[0]), []),
    "a target of the reward": (lambda r: -cp.square(r - 17.0), [lambda c: c[0] - LIMIT]),
    "both": (lambda r, c: cp.sqrt(1.0 + r) - 0.01 * c[0], [lambda c: c[0] - LIMIT, lambda c: 2.0 - c[0]]),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUESTIONS)
def test_bounds_hold_however_few_sweeps_there_are(name: str, seed: int) -> None:
    """A bound of a search that was cut short lies above what a longer one has found, and no sweep is too many."""
    mdp = random_cmdp(40, 3, 3, 1, seed=seed)
    cones = Cones(Expressions(*QUESTIONS[name], *BackwardInduction(mdp).box))
    best = maximise_convex(BackwardInduction(mdp), cones, tol=1e-9, max_sweeps=1000)
    for most in (3, 4, 5, 6, 8, 12):
        oracle = Counting(mdp)
        found = maximise_convex(oracle, cones, tol=1e-7, max_sweeps=most)
        assert oracle.sweeps <= most
        assert found.bound >= best.objective - 1e-9
        assert found.objective <= best.bound + 1e-9
        if found.converged:
            assert found.bound - found.objective <= 1e-7 * max(1.0, abs(found.objective))


class Counting(BackwardInduction):
    """Counts its calls."""

    sweeps = 0

    def support_many(self, directions: Any) -> Any:
        self.sweeps += 1
        return super().support_many(directions)


def test_most_directions_need_no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    masters, solve = 0, Cones.over_mixtures

    def counted(self: Cones, *arguments: Any) -> Answer:
        nonlocal masters
        masters += 1
        return solve(self, *arguments)

    monkeypatch.setattr(Cones, "over_mixtures", counted)
    mdp = random_cmdp(200, 4, 5, 1, seed=0)
    cones = Cones(Expressions(*QUESTIONS["a limit"], *BackwardInduction(mdp).box))
    found = maximise_convex(BackwardInduction(mdp), cones, tol=1e-7, max_sweeps=1000)
    assert found.converged
    assert np.abs(found.weights @ found.points[:, 1] - LIMIT) <= 1e-6
    assert found.asked >= 8
    assert masters <= 5

"""Hypothesis strategies: random models with degenerate draws, and limits placed by what is achievable.

A draw is a `Spec`: a few words and numbers that print well and shrink well; `Spec.build` makes the model from them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bank import best_total, free_value
from hypothesis import strategies as st
from numpy.typing import NDArray

import conrl

Float = NDArray[np.float64]

ROWS = ("dense", "sparse", "deterministic", "tiny", "split")
PAYS = ("uniform", "signed", "constant", "zero", "integers", "wide")
LIMITS = (*("between",) * 5, "least", "free", "free", "none", "none", "above", "below")
FLOORS = (*("none",) * 12, "between", "between", "greatest", "above", "equal")


@dataclass(frozen=True)
class Spec:
    """What was drawn; the same spec always builds the same model."""

    states: int
    actions: int
    horizon: int
    rows: str  # one of ROWS: the shape of the transitions
    rewards: str  # one of PAYS
    costs: tuple[str, ...]  # [d] of PAYS
    limits: tuple[str, ...]  # [d] of LIMITS
    floors: tuple[str, ...]  # [d] of FLOORS
    equal_costs: bool  # the last cost equals the first
    twin_actions: bool  # the last action equals the first
    missing: bool  # some actions do not exist
    spread: bool  # an initial distribution
    seed: int

    def build(self) -> tuple[conrl.ConstrainedMDP, conrl.Linear]:
        rng = np.random.default_rng(self.seed)
        S, A, d = self.states, self.actions, len(self.costs)
        P = np.array([[_row(rng, self.rows, S) for _ in range(A)] for _ in range(S)])
        pay = np.stack([_pay(rng, kind, (S, A)) for kind in (self.rewards, *self.costs)], axis=2)
        if self.equal_costs and d > 1:
            pay[:, :, -1] = pay[:, :, 1]
        if self.twin_actions:
            P[:, -1], pay[:, -1] = P[:, 0], pay[:, 0]
        available = np.ones((S, A), dtype=bool)
        if self.missing:
            available = rng.random((S, A)) < 0.5
            available[np.arange(S), rng.integers(A, size=S)] = True
        initial = np.zeros(S)
        initial[0] = 1.0
        if self.spread:
            initial = rng.dirichlet(np.ones(S)) * (rng.random(S) < 0.5)
            initial = initial / initial.sum() if initial.sum() > 0.0 else np.full(S, 1.0 / S)
        mdp = conrl.ConstrainedMDP(P, pay[:, :, 0], pay[:, :, 1:], self.horizon, initial=initial, available=available)
        return mdp, self._problem(rng, mdp)

    def _problem(self, rng: np.random.Generator, mdp: conrl.ConstrainedMDP) -> conrl.Linear:
        d = mdp.num_costs
        axes = np.eye(1 + d)
        free = free_value(mdp, axes[0])
        limits, floors = np.full(d, np.inf), np.full(d, -np.inf)
        for i in range(d):
            least, greatest = -best_total(mdp, -axes[1 + i]), best_total(mdp, axes[1 + i])
            range_ = greatest - least
            step = 0.3 * range_ if range_ > 1e-6 else 0.3 * max(1e-3, abs(least))
            limits[i] = {
                "between": least + rng.random() * (free[1 + i] - least),
                "least": least,
                "free": free[1 + i],
                "none": np.inf,
                "below": least - step,
                "above": greatest + step,
            }[self.limits[i]]
            floors[i] = {
                "none": -np.inf,
                "between": free[1 + i] + rng.random() * (greatest - free[1 + i]),
                "greatest": greatest,
                "above": greatest + step,
                "equal": limits[i] if np.isfinite(limits[i]) else -np.inf,
            }[self.floors[i]]
        return conrl.Linear(limits, floors)


def _row(rng: np.random.Generator, kind: str, S: int) -> Float:
    row = np.zeros(S)
    if kind == "deterministic":
        row[rng.integers(S)] = 1.0
    elif kind == "dense":
        row = rng.dirichlet(np.ones(S))
    elif kind == "tiny":  # a successor of next to no probability beside a sure one
        row[rng.integers(S)] += 10.0 ** -float(rng.integers(3, 9))
        row[rng.integers(S)] += 1.0 - row.sum()
    elif kind == "split":  # two halves that never meet: the one without the start is unreachable
        row[rng.integers((S + 1) // 2)] += 0.5
        row[rng.integers((S + 1) // 2)] += 0.5
    else:
        chosen = rng.choice(S, size=min(S, 2), replace=False)
        row[chosen] = rng.dirichlet(np.ones(chosen.size))
    return row


def _pay(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> Float:
    if kind == "uniform":
        return rng.random(shape)
    if kind == "signed":
        return rng.normal(size=shape)
    if kind == "constant":
        return np.full(shape, 0.5)
    if kind == "zero":
        return np.zeros(shape)
    if kind == "integers":
        return rng.integers(0, 3, size=shape).astype(np.float64)
    wide: Float = rng.random(shape) * 10.0 ** float(rng.integers(-4, 5))
    return wide


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    d = draw(st.integers(0, 4))
    return Spec(
        states=draw(st.integers(1, 12)),
        actions=draw(st.integers(1, 4)),
        horizon=draw(st.integers(1, 8)),
        rows=draw(st.sampled_from(ROWS)),
        rewards=draw(st.sampled_from(PAYS)),
        costs=tuple(draw(st.sampled_from(PAYS)) for _ in range(d)),
        limits=tuple(draw(st.sampled_from(LIMITS)) for _ in range(d)),
        floors=tuple(draw(st.sampled_from(FLOORS)) for _ in range(d)),
        equal_costs=draw(st.booleans()),
        twin_actions=draw(st.booleans()),
        missing=draw(st.booleans()),
        spread=draw(st.booleans()),
        seed=draw(st.integers(0, 2**32 - 1)),
    )

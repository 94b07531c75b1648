"""The search within limits on one cost, in one compiled call, against the same search step by step: the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bank import CASES, middle, random_model
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Spec, specs

import conrl
from conrl.envs import random_cmdp
from conrl.oracles import BackwardInduction, SupportOracle, WithNullAction
from conrl.oracles.protocols import Edge
from conrl.planners.column_generation.aiming import Curve
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Columns, Conflict, Optimum
from conrl.problem import Rows


class Stepwise(BackwardInduction):
    """Without a search of its own."""

    def edge(self, *question: Any, **settings: Any) -> Edge | None:
        return None


class Curved(Stepwise):
    """Taken for one of a large model."""

    def __init__(self, mdp: conrl.ConstrainedMDP) -> None:
        super().__init__(mdp)
        self.curved = True


def ask(oracle: SupportOracle, rows: Rows, **work: Any) -> Optimum | tuple[Any, ...]:
    """The optimum, or what a conflict says."""
    try:
        return maximise(oracle, np.eye(1 + oracle.num_costs)[0], rows, tol=work.pop("tol", 1e-9), **work)
    except Conflict as conflict:
        return conflict.multipliers.tobytes(), conflict.violation
    except conrl.RunError as error:  # too few sweeps
        return ("failed", str(error))


def told(found: Optimum | tuple[Any, ...]) -> tuple[Any, ...]:
    """All that an optimum says, to the bit."""
    if isinstance(found, tuple):
        return found
    arrays = found.weights, found.points, found.means, found.directions, found.skips, found.multipliers, found.allowance
    numbers = found.objective, found.bound, found.asked, found.converged, found.exhausted, found.keeps, found.accepted
    return *(np.asarray(array).tobytes() for array in arrays), *numbers


def check_same(mdp: conrl.ConstrainedMDP, rows: Rows, null: bool = False, **work: Any) -> Optimum | tuple[Any, ...]:
    once: SupportOracle = BackwardInduction(mdp)
    steps: SupportOracle = Stepwise(mdp)
    if null:
        once, steps = WithNullAction(once), WithNullAction(steps)
    one, other = ask(once, rows, **work), ask(steps, rows, **work)
    assert told(one) == told(other)
    if isinstance(one, Optimum) and isinstance(other, Optimum):
        for i in range(one.weights.size):
            first, second = one.policy(i), other.policy(i)
            assert first.probabilities.tobytes() == second.probabilities.tobytes()
    return one


def with_some_bonus(mdp: conrl.ConstrainedMDP, spec: Spec) -> conrl.ConstrainedMDP:
    rng = np.random.default_rng(spec.seed)
    return mdp.with_bonus(rng.random((*mdp.available.shape, 1 + mdp.num_costs)) * 0.2)


def on_first_cost(spec: Spec) -> tuple[conrl.ConstrainedMDP, Rows]:
    mdp, problem = spec.build()
    rows = problem.rows(mdp)
    return mdp, rows.select(rows.cost == 0)


@settings(max_examples=200)
@given(specs(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1e-9, 1e-6, 1e-2]), st.integers(1, 12))
def test_one_call_finds_what_steps_find(
    spec: Spec, relax: bool, null: bool, bonus: bool, tol: float, sweeps: int
) -> None:
    mdp, rows = on_first_cost(spec)
    if bonus:
        mdp = with_some_bonus(mdp, spec)
    found = check_same(mdp, rows, null, relax=relax, tol=tol)
    if isinstance(found, Optimum) and rows.size == 1:
        start = {"directions": found.directions, "multipliers": found.multipliers}
        check_same(mdp, rows, null, relax=relax, start=start)
        moved = Rows(rows.cost, rows.sign, rows.bound + 0.1 * abs(rows.bound), rows.cost_names)
        check_same(mdp, moved, null, relax=relax, start=start)
    check_same(mdp, rows, null, relax=relax, max_sweeps=sweeps)


@pytest.mark.parametrize("name", CASES)
def test_the_bank(name: str) -> None:
    case = CASES[name]
    if isinstance(case.problem, conrl.Linear) and not case.problem.on_episodes and case.problem.per_step is None:
        rows = case.problem.rows(case.mdp)
        if isinstance(case.mdp.horizon, int) and (rows.size == 0 or (rows.cost == rows.cost[0]).all()):
            check_same(case.mdp, rows)


def test_others_learn_what_was_met() -> None:
    """Who passes columns finds every point that the search met in them."""
    mdp = random_model(3, 20, 3, 6, 1)
    rows = conrl.Linear(middle(mdp, 0.4)).rows(mdp)
    met, steps = Columns(), Columns()
    ask(BackwardInduction(mdp), rows, columns=met)
    ask(Stepwise(mdp), rows, columns=steps)
    assert [p.tobytes() for p in met.points] == [p.tobytes() for p in steps.points]
    assert [w.tobytes() for w in met.directions] == [w.tobytes() for w in steps.directions]


def test_more_columns_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search then goes step by step, and finds the same."""
    mdp = random_model(4, 30, 3, 8, 1)
    rows = conrl.Linear(middle(mdp, 0.4)).rows(mdp)
    whole = ask(BackwardInduction(mdp), rows)
    monkeypatch.setattr("conrl.oracles.backward_induction.ROOM", 1)
    assert told(ask(BackwardInduction(mdp), rows)) == told(whole)
    assert isinstance(whole, Optimum)
    assert whole.asked > 5


@settings(max_examples=200)
@given(specs(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1e-9, 1e-6, 1e-2]))
def test_aiming_finds_what_chords_find(spec: Spec, relax: bool, null: bool, bonus: bool, tol: float) -> None:
    """Also on models that are no curve at all."""
    mdp, rows = on_first_cost(spec)
    if bonus:
        mdp = with_some_bonus(mdp, spec)
    chords: SupportOracle = Stepwise(mdp)
    aimed: SupportOracle = Curved(mdp)
    if null:
        chords, aimed = WithNullAction(chords), WithNullAction(aimed)
    assert aimed.curved
    assert not chords.curved
    one, other = ask(chords, rows, relax=relax, tol=tol), ask(aimed, rows, relax=relax, tol=tol)
    if isinstance(one, tuple) or isinstance(other, tuple):
        assert one == other
        return
    assert other.accepted
    assert other.converged == one.converged
    assert other.objective <= one.bound
    assert one.objective <= other.bound
    assert other.bound - other.objective <= tol * max(1.0, abs(other.objective)) or not one.converged


@pytest.mark.parametrize("seed", range(3))
def test_aiming_asks_less_of_large_models(seed: int) -> None:
    mdp = random_cmdp(5_000, 4, 5, 1, seed=seed)
    rows = conrl.Linear(mdp.limits).rows(mdp)
    one, other = ask(Stepwise(mdp), rows), ask(Curved(mdp), rows)
    assert isinstance(one, Optimum)
    assert isinstance(other, Optimum)
    assert other.converged
    assert other.asked <= one.asked
    assert other.objective == pytest.approx(one.objective, rel=2e-9)


@pytest.mark.parametrize("h", [0.01, 0.3, 0.5, 0.77, 0.999])
def test_curve_of_a_quadratic_slope_is_hit_at_once(h: float) -> None:
    """gain(x) = 3x - x^2 - x^3/6 has the slope 3 - 2x - x^2/2 at x."""

    def gain(x: float) -> float:
        return 3.0 * x - x * x - x**3 / 6.0

    def answer(slope: float) -> float:
        return -2.0 + float(np.sqrt(4.0 + 2.0 * (3.0 - slope)))

    curve = Curve(h, high=0.5, low=3.0)
    over, under = 1.0, 0.0
    chord = gain(1.0)
    assert curve.slope(chord, over, under) == chord
    assert curve.foretold == pytest.approx(answer(chord), abs=1e-12)
    use = answer(chord)
    ends = (use, under) if use > h else (over, use)
    curve.learn(chord, use, (over, under), ends)
    assert curve.trusted
    chord = (gain(ends[0]) - gain(ends[1])) / (ends[0] - ends[1])
    aim = curve.slope(chord, *ends)
    below, above = h - ends[1], ends[0] - h
    goal = h + below if 4 * below < above else h - above if 4 * above < below else h
    assert answer(aim) == pytest.approx(goal, abs=1e-12)


def test_curve_that_does_not_pay_is_left_to_chords() -> None:
    curve = Curve(0.5, high=0.0, low=2.0, trusted=True)
    curve.learn(1.0, 0.9, (1.0, 0.0), (0.9, 0.0))
    assert (curve.trusted, curve.failures, curve.chords, curve.high) == (False, 1, 1, 1.0)
    assert curve.slope(0.3, 0.9, 0.0) == 0.3  # the mean slope is below both ends: not a slope that falls
    assert np.isnan(curve.foretold)
    assert Curve(0.5).slope(0.7, 1.0, 0.0) == 0.7

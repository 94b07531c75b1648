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
from conrl.oracles import BackwardInduction, SupportOracle, WithNullAction
from conrl.oracles.protocols import Edge
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Met, Optimum
from conrl.problem import Rows


class Stepwise(BackwardInduction):
    """Without a search of its own."""

    def edge(self, *question: Any, **settings: Any) -> Edge | None:
        return None


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
    met, steps = Met(), Met()
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

"""Numerical trust: on adversarial models, in exact rational arithmetic, a plan keeps what it says.

What it says is in `contract`, the models are in `adversary` (by number, and by hypothesis), the arithmetic is in
`exact`. Here some hundred models; `python tests/adversary.py --models 10000` runs more.
"""

from __future__ import annotations

import pytest
from adversary import FIXED, KINDS, Spec, case, examine, specs
from contract import attempt, judge
from hypothesis import example, given, settings

import conrl

MODELS = 20  # of each kind
# Two actions nearly tie for one of the directions: the policy made for it was not the one that had been valued.
NEARLY_TIED = Spec(
    kind="catastrophe",
    states=3,
    actions=2,
    horizon=3,
    transitions="rare",
    width=12,
    pay=("catastrophe", "zero", *("catastrophe",) * 5, "uniform", *("catastrophe",) * 2, "zero", *("catastrophe",) * 2),
    related=("none", "none", "none", "sum", "duplicate", "none", "none", "none", "none", "near", "near", "none"),
    limit=(*("between",) * 11, "none"),
    floor=("none",) * 12,
    joint="equal",
    bonus="none",
    knapsack=False,
    missing=False,
    spread=False,
    tol=1e-9,
    seed=2467,
)


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("planner", ["column-generation", "linear-program"])
def test_plans_that_once_broke_their_limits(name: str, planner: str) -> None:
    mdp, problem = FIXED[name]()
    outcome, warned = attempt(lambda: conrl.plan(mdp, problem, planner=planner))
    assert warned + judge(mdp, problem, outcome) == []
    assert isinstance(outcome, conrl.Plan)
    assert outcome.status == "optimal"


@pytest.mark.parametrize("kind", KINDS)
def test_numbered_models(kind: str) -> None:
    numbers = range(list(KINDS).index(kind), MODELS * len(KINDS), len(KINDS))
    broken = {number: complaints for number in numbers if (complaints := examine(case(number))[1])}
    assert not broken


@settings(max_examples=100, deadline=None)
@given(specs())
@example(NEARLY_TIED)
def test_drawn_models(spec: Spec) -> None:
    assert examine(spec)[1] == []


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12])
def test_limits_just_above_the_least_cost(gap: float) -> None:
    """Mars rover with limits within 1e-12 of the least achievable: kept, and never better than allowed."""
    rover = conrl.envs.mars_rover(rock_reward=1.0)
    least = conrl.feasibility(rover, [1.0]).least[0]
    plan = conrl.plan(rover, conrl.Linear([least + gap]))
    assert plan.costs[0] <= least + gap + 1e-9
    assert plan.bound >= plan.reward - 1e-9
    looser = conrl.plan(rover, conrl.Linear([least + 2.0 * gap]))
    assert looser.reward >= plan.reward - 1e-9

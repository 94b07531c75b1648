"""Numerical trust in the wider world: in exact rational arithmetic, plans keep what they say.

What they say is in `contract_wider`, the models are in `adversary_wider` by number, the arithmetic is in `exact_wider`.
Here some of each kind; `python tests/adversary.py --wider --models 3000` runs more. The judges are judged too: answers
with an error planted in them must draw a complaint.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from adversary_wider import KINDS, examine
from contract_wider import (
    CHANCE,
    CVAR,
    NEVER,
    Asked,
    EndlessTruth,
    FleetTruth,
    Tail,
    Truth,
    judge,
    judge_deterministic,
    judge_distribution,
    judge_endless,
    judge_feasibility,
    judge_fleet,
)
from exact_wider import Endless, Means, Outcome, World, maximise, play, simplest

import conrl

MODELS = 10  # of each kind
NONE = math.inf


@pytest.mark.parametrize("kind", KINDS)
def test_numbered_models(kind: str) -> None:
    numbers = range(list(KINDS).index(kind), MODELS * len(KINDS), len(KINDS))
    broken = {number: complaints for number in numbers if (complaints := examine(number)[1])}
    assert not broken


# -- the arithmetic itself, on answers that are known ------------------------------------------------------


def test_simplest_rationals() -> None:
    assert [simplest(x) for x in (0.1, -0.3, 1 / 3, 2.5, 0.0, 1e-9, 3e9)] == [
        Fraction(1, 10),
        Fraction(-3, 10),
        Fraction(1, 3),
        Fraction(5, 2),
        Fraction(0),
        Fraction(1, 10**9),
        Fraction(3 * 10**9),
    ]


def test_a_program_with_its_dual() -> None:
    found = maximise(
        [Fraction(3), Fraction(2)], [], [([Fraction(1)] * 2, Fraction(4)), ([Fraction(1), Fraction(0)], Fraction(1, 3))]
    )
    assert (found.optimum, found.x) == (Fraction(25, 3), (Fraction(1, 3), Fraction(11, 3)))
    assert maximise([Fraction(0)], [([Fraction(1)], Fraction(-1))]).optimum is None
    twice = [([Fraction(1), Fraction(1)], Fraction(2)), ([Fraction(2), Fraction(2)], Fraction(4))]
    assert maximise([Fraction(1), Fraction(0)], twice).optimum == 2


def machine(horizon: Any) -> World:
    """Run for 1, which wears it out in half of the steps and costs nothing; or mend it, at a cost of 0.1."""
    run = (Outcome(0.5, 0, (1.0, 0.0)), Outcome(0.5, 1, (1.0, 0.0)))
    mend = (Outcome(1.0, 0, (0.0, 0.1)),)
    rest = (Outcome(1.0, 1, (0.0, 0.0)),)
    return World((((run, ()), (rest, mend)),), horizon, (1.0, 0.0), 1)


def test_what_chains_are_worth() -> None:
    always = np.array([[1.0, 0.0], [0.0, 1.0]])
    known = {
        conrl.Average(): (Fraction(2, 3), Fraction(1, 3)),
        conrl.Discounted(0.5): (Fraction(8, 5), Fraction(2, 5)),
    }
    for horizon, value in known.items():
        world = machine(horizon)
        reward, mends = value
        found = Endless(world, Means(world.model())).value(always)
        assert found == (reward, mends * Fraction(0.1))
    never = np.array([[1.0, 0.0], [1.0, 0.0]])
    world = machine(conrl.Total())
    assert Endless(world, Means(world.model())).value(never) == (Fraction(2), Fraction(0))


def test_how_episodes_end() -> None:
    world = machine(3)
    always = conrl.Policy(np.tile([[[1.0, 0.0], [0.0, 1.0]]], (3, 1, 1)))
    played = play(world, Means(world.model()), always)
    assert played.marginal(0) == {Fraction(0): Fraction(1, 4), Fraction(1, 10): Fraction(3, 4)}
    assert played.value[0] == 1 + Fraction(1, 2) + Fraction(3, 4)
    assert played.cvar(0, Fraction(1, 2)) == Fraction(1, 10)
    assert played.cvar(0, Fraction(0)) == Fraction(3, 40)


# -- errors that are planted -------------------------------------------------------------------------------


def planted(plan: Any, **changes: Any) -> Any:
    return dataclasses.replace(plan, **changes)


class FreeOfCharge:
    """Says that no limit costs anything."""

    def __init__(self, plan: conrl.Plan) -> None:
        self.plan = plan

    def prices(self) -> Any:
        return 0.0 * self.plan.multipliers


def asked(
    limit: float = NONE, tails: tuple[Tail, ...] = (), per_step: dict[int, tuple[float, ...]] | None = None
) -> Asked:
    return Asked((limit,), (-NONE,), per_step or {}, tails)


QUESTIONS = {
    "limit": asked(0.05),
    "per step": asked(NONE, (), {0: (NONE, *(0.02,) * 5)}),
    "chance": asked(NONE, (Tail(CHANCE, 0, 0.1, 0.1),)),
    "cvar": asked(NONE, (Tail(CVAR, 0, 0.12, 0.5),)),
    "never": asked(0.08, (Tail(NEVER, 0, 0.1),)),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_planted_errors_in_plans_are_found(name: str) -> None:
    world = machine(6)
    truth = Truth(world, QUESTIONS[name])
    problem = truth.asked.problem(truth.mdp.cost_names)
    plan = conrl.plan(truth.mdp, problem)
    assert judge(truth, plan) == []
    free = conrl.plan(truth.mdp)
    assert free.reward > plan.reward
    one = free.policy if name in ("limit", "per step") else _counting(truth, name)
    greedy = planted(plan, make_policy=lambda i: one, weights=np.ones(1), values=plan.values[:1])
    assert any("breaks" in x or "comes to" in x for x in judge(truth, greedy))
    assert any("below the optimum" in x for x in judge(truth, planted(plan, bound=np.nextafter(plan.reward, -1.0))))
    assert any("is said to be" in x for x in judge(truth, planted(plan, reward=plan.reward + 1e-6)))
    lazy = conrl.plan(truth.mdp, conrl.Linear([0.0]))
    assert any("called optimal" in x for x in judge(truth, planted(plan, objective=lazy.reward)))
    assert plan.checked is not None
    wrong = plan.checked._replace(value=plan.checked.value + 1e-6)
    assert any("its value is said" in x or "the most is" in x for x in judge(truth, planted(plan, checked=wrong)))
    if name != "cvar":
        found = judge(truth, planted(plan, multipliers=0.0 * plan.multipliers, pricing=FreeOfCharge(plan)))
        assert any("do not prove" in x or "too low" in x for x in found)
    nothing = conrl.Feasibility(False, np.zeros(1), np.ones(1), None, ("cost <= 0",))
    assert any("called infeasible" in x for x in judge(truth, conrl.InfeasibleError("infeasible", nothing)))
    assert any("called infeasible" in x for x in judge_feasibility(truth, nothing))
    assert judge(truth, ValueError("?"))


def _counting(truth: Truth, name: str) -> Any:
    """A plan for another limit of the same kind, which acts on what was spent and asks too little."""
    tail = truth.asked.tails[0]
    looser = {
        NEVER: dataclasses.replace(tail, limit=0.2),
        CHANCE: dataclasses.replace(tail, share=0.2),
        CVAR: dataclasses.replace(tail, limit=0.16),
    }[tail.kind]
    return conrl.plan(truth.mdp, asked(NONE, (looser,)).problem(truth.mdp.cost_names)).policy


def test_what_cannot_be_kept_must_not_be_called_feasible() -> None:
    truth = Truth(machine(4), Asked((0.05,), (0.06,), {}))
    found = conrl.feasibility(truth.mdp, conrl.Linear([0.05]))
    assert found.feasible
    assert judge_feasibility(truth, found) == ["feasibility: called feasible, but not even with the allowances"]


def test_planted_errors_without_a_lottery_are_found() -> None:
    truth = Truth(machine(5), asked(0.06))
    plan = conrl.plan(truth.mdp, [0.06], deterministic=True)
    assert judge_deterministic(truth, plan) == []
    mixed = conrl.plan(truth.mdp, [0.06])
    assert any("draws" in x for x in judge_deterministic(truth, planted(mixed, bound=mixed.bound)))
    low = np.nextafter(plan.reward, -1.0)
    assert any("below the best" in x for x in judge_deterministic(truth, planted(plan, bound=low)))
    lazy = conrl.plan(truth.mdp, [0.0], deterministic=True)
    assert lazy.reward < plan.reward
    assert any("called optimal" in x for x in judge_deterministic(truth, planted(lazy, problem=plan.problem)))
    greedy = conrl.plan(truth.mdp, deterministic=True)
    assert any(
        "breaks" in x
        for x in judge_deterministic(truth, planted(greedy, checked=plan.checked, multipliers=plan.multipliers))
    )
    nothing = conrl.Feasibility(False, np.zeros(1), np.ones(1), None, ("cost <= 0",))
    assert judge_deterministic(truth, conrl.InfeasibleError("infeasible", nothing))


def test_planted_errors_in_distributions_are_found() -> None:
    world = machine(3)
    mdp = world.model()
    policy = conrl.Policy(np.tile([[[1.0, 0.0], [0.25, 0.75]]], (3, 1, 1)))
    played = play(world, Means(mdp), policy)
    found = conrl.distribution(mdp, policy, 0)
    assert judge_distribution(world, policy, played, 0, found) == []
    p = found.probabilities
    moved = dataclasses.replace(found, probabilities=p + 1e-9 * np.array([1.0, -1.0, *np.zeros(p.size - 2)]))
    assert any("probability of" in x for x in judge_distribution(world, policy, played, 0, moved))
    more = dataclasses.replace(found, exact=tuple(x + Fraction(1, 10**20) for x in found.exact))
    assert judge_distribution(world, policy, played, 0, more)


def test_planted_errors_in_fleets_are_found() -> None:
    groups = [(machine(3), 3), (dataclasses.replace(machine(3), initial=(0.0, 1.0)), 2)]
    truth = FleetTruth(groups, asked(0.33, (), {0: (0.15, NONE, NONE)}), False)
    plan = conrl.plan(truth.fleet())
    assert judge_fleet(truth, plan) == []
    assert plan.mixed
    tight = dataclasses.replace(truth.asked, limits=(0.3,))
    assert any("breaks" in x for x in judge_fleet(FleetTruth(groups, tight, False), plan))
    for change, words in (
        ({"bound": np.nextafter(plan.reward, -1.0)}, "below the optimum"),
        ({"multipliers": 0.0 * plan.multipliers}, "do not prove"),
        ({"rounding": 0.0 * plan.rounding}, "more may be used"),
        ({"reward": plan.reward - 1e-6, "bound": plan.bound}, "is said to be"),
        ({"shares": plan.shares + 1e-6}, "is said to have"),
        ({"step_costs": {"cost": plan.step_costs["cost"] + 1e-6}}, "at step 0 is said"),
    ):
        assert any(words in x for x in judge_fleet(truth, planted(plan, **change))), words
    nothing = conrl.Feasibility(False, np.zeros(1), np.ones(1), None, ("cost <= 0",))
    assert judge_fleet(truth, conrl.InfeasibleError("infeasible", nothing))


@pytest.mark.parametrize("horizon", [conrl.Discounted(0.9), conrl.Average(), conrl.Total()])
def test_planted_errors_without_a_horizon_are_found(horizon: Any) -> None:
    world = machine(horizon)
    if isinstance(horizon, conrl.Total):  # of which mending is the end
        table = world.tables[0]
        table = (table[0], (table[1][0], (Outcome(1.0, 2, (1.0, 0.1)),)), ((Outcome(1.0, 2, (0.0, 0.0)),),))
        world = dataclasses.replace(world, tables=(table,), initial=(1.0, 0.0, 0.0))
    truth = EndlessTruth(world, asked(0.02))
    plan = conrl.plan(truth.mdp, [0.02])
    assert judge_endless(truth, plan) == []
    assert plan.costs[0] > 0.0
    free = conrl.plan(truth.mdp)
    assert any(
        "breaks" in x for x in judge_endless(truth, planted(free, problem=plan.problem, multipliers=plan.multipliers))
    )
    for change, words in (
        ({"bound": np.nextafter(plan.reward, -1.0) - 1e-12}, "below the optimum"),
        ({"multipliers": 0.0 * plan.multipliers}, "do not prove"),
        ({"reward": plan.reward + 1e-6}, "is said to be"),
        ({"objective": plan.reward - 1e-3}, "called optimal"),
    ):
        assert any(words in x for x in judge_endless(truth, planted(plan, **change))), words
    assert judge_endless(truth, conrl.ModelError("?"))
    nothing = conrl.Feasibility(False, np.zeros(1), np.ones(1), None, ("cost <= 0",))
    assert judge_endless(truth, conrl.InfeasibleError("infeasible", nothing))


def test_a_total_without_an_end_must_be_refused() -> None:
    truth = EndlessTruth(machine(conrl.Total()), asked(0.02))
    assert truth.refused
    with pytest.raises(conrl.ModelError) as refused:
        conrl.plan(truth.mdp, [0.02])
    assert judge_endless(truth, refused.value) == []
    assert judge_endless(truth, conrl.plan(machine(conrl.Average()).model(), [0.02]))

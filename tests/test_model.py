"""ConstrainedMDP and Task: every accepted form means the same, every mistake is named, nothing can be changed."""

from __future__ import annotations

import math
import pickle
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from conrl.arguments import LARGEST
from conrl.errors import ModelError
from conrl.model import ConstrainedMDP, Task
from conrl.model.layout import Layout
from conrl.model.limits import resolve_limits

LANES = 8  # positions in a block of `Reach`

P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])  # [S, A, S]
R = np.array([[1.0, 2.0], [3.0, 4.0]])  # [S, A]
R_OUT = np.arange(8.0).reshape(2, 2, 2)  # [S, A, S]
C = np.array([[[0.1, 1.0], [0.2, 2.0]], [[0.3, 3.0], [0.4, 4.0]]])  # [S, A, d]
C_OUT = np.stack([R_OUT, 10 * R_OUT], axis=-1)  # [S, A, S, d]


def make(**changes: Any) -> ConstrainedMDP:
    given: dict[str, Any] = {"transitions": P, "rewards": R, "costs": C, "horizon": 3}
    return ConstrainedMDP(**(given | changes))


def sparse(table: NDArray[Any]) -> sp.csr_array:
    return sp.csr_array(table.reshape(-1, table.shape[-1]))


def assert_same(x: ConstrainedMDP, y: ConstrainedMDP) -> None:
    for a, b in zip((*x.graph, x.pay, x.initial, x.action), (*y.graph, y.pay, y.initial, y.action), strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)
    assert (x.outcome_pay is None) == (y.outcome_pay is None)
    if x.outcome_pay is not None and y.outcome_pay is not None:
        assert np.array_equal(x.outcome_pay, y.outcome_pay)


# -- accepted forms ---------------------------------------------------------------------------------------


def test_what_a_model_says() -> None:
    mdp = make(limits=[1, np.inf], state_names=["A", "B"], action_names=["x", "y"], cost_names=["c", "e"])
    assert (mdp.num_states, mdp.num_actions, mdp.num_costs, mdp.num_pairs, mdp.horizon) == (2, 2, 2, 4, 3)
    assert np.array_equal(mdp.transitions.toarray().reshape(2, 2, 2), P)
    assert np.array_equal(mdp.rewards, R)
    assert np.array_equal(mdp.costs, C)
    assert mdp.initial.tolist() == [1, 0]
    assert mdp.limits is not None
    assert mdp.limits.tolist() == [1, np.inf]
    assert mdp.available.all()
    assert mdp.pair_state.tolist() == [0, 0, 1, 1]
    assert mdp.action.tolist() == [0, 1, 0, 1]
    assert (mdp.state_names, mdp.action_names, mdp.cost_names) == (("A", "B"), ("x", "y"), ("c", "e"))
    assert (mdp.state_name(1), mdp.action_name(0)) == ("B", "x")
    assert repr(mdp) == "ConstrainedMDP(states=2, actions=2, horizon=3, outcomes=6, costs=('c', 'e'))"
    assert mdp.graph.first.tolist() == [0, 2, 4]
    assert mdp.graph.start.tolist() == [0, 2, 3, 4, 6]
    assert mdp.graph.successor.tolist() == [0, 1, 0, 1, 0, 1]
    assert mdp.graph.probability.tolist() == [0.5, 0.5, 1, 1, 0.25, 0.75]


def test_default_names() -> None:
    mdp = make()
    assert (mdp.state_names, mdp.action_names, mdp.cost_names) == (("0", "1"), ("0", "1"), ("cost0", "cost1"))
    assert make(costs=C[..., 0]).cost_names == ("cost",)
    assert make(costs=None).cost_names == ()


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_array, sp.lil_array])
def test_dense_and_sparse_transitions_are_the_same(form: Any) -> None:
    assert_same(make(), make(transitions=form(P.reshape(4, 2))))


def test_sparse_duplicates_are_added_and_zeros_dropped() -> None:
    row, column = np.array([0, 0, 0, 1, 2, 3, 3, 1]), np.array([1, 0, 1, 0, 1, 1, 0, 1])
    data = np.array([0.25, 0.5, 0.25, 1, 1, 0.75, 0.25, 0.0])
    assert_same(make(), make(transitions=sp.coo_array((data, (row, column)), shape=(4, 2))))


@pytest.mark.parametrize("rewards", [R_OUT, R_OUT.tolist(), sparse(R_OUT), sp.coo_array(sparse(R_OUT))])
def test_rewards_by_outcome(rewards: Any) -> None:
    mdp = make(rewards=rewards)
    assert np.array_equal(mdp.rewards, (P * R_OUT).sum(axis=-1))
    assert mdp.outcome_pay is not None
    assert mdp.outcome_pay[:, 0].tolist() == R_OUT[P > 0].tolist()
    assert np.array_equal(mdp.costs, C)  # costs stay exactly what was given per pair
    assert mdp.outcome_pay[:, 1].tolist() == [0.1, 0.1, 0.2, 0.3, 0.4, 0.4]


@pytest.mark.parametrize(
    "costs",
    [C, C.tolist(), [C[..., 0], C[..., 1]], (C[..., 0].tolist(), C[..., 1]), list(np.moveaxis(C, -1, 0))],
    ids=["array", "nested", "list", "tuple", "moved"],
)
def test_costs_per_pair(costs: Any) -> None:
    assert_same(make(), make(costs=costs))


@pytest.mark.parametrize(
    "costs",
    [
        C_OUT,
        C_OUT.tolist(),
        [C_OUT[..., 0], C_OUT[..., 1]],
        [sparse(C_OUT[..., 0]), C_OUT[..., 1]],
        [sparse(C_OUT[..., 0]), sp.coo_array(sparse(C_OUT[..., 1]))],
    ],
    ids=["array", "nested", "list", "mixed", "sparse"],
)
def test_costs_by_outcome(costs: Any) -> None:
    mdp = make(costs=costs)
    assert np.array_equal(mdp.costs, (P[..., None] * C_OUT).sum(axis=2))
    assert mdp.outcome_pay is not None
    assert np.array_equal(mdp.outcome_pay[:, 1:], C_OUT[P > 0])
    assert_same(make(costs=C_OUT), mdp)


def test_costs_of_several_kinds_in_one_list() -> None:
    mdp = make(costs=[C[..., 0], C_OUT[..., 1]])
    assert np.array_equal(mdp.costs[..., 0], C[..., 0])
    assert np.array_equal(mdp.costs[..., 1], (P * C_OUT[..., 1]).sum(axis=-1))


def test_nested_lists_all_through() -> None:
    assert_same(make(), make(transitions=P.tolist(), rewards=R.tolist(), costs=C.tolist(), initial=[1, 0]))


@pytest.mark.parametrize("costs", [None, [], (), np.zeros((2, 2, 0))])
def test_no_costs(costs: Any) -> None:
    mdp = make(costs=costs)
    assert mdp.num_costs == 0
    assert mdp.costs.shape == (2, 2, 0)
    assert mdp.task.cost_ranges == ()


def test_one_cost_as_a_table() -> None:
    assert_same(make(costs=C[..., :1]), make(costs=C[..., 0]))


def test_missing_actions_are_ignored_whatever_they_hold() -> None:
    transitions, rewards = P.copy(), R.copy()
    transitions[0, 1], rewards[0, 1] = np.nan, np.inf
    mask = [[1, 0], [True, 1]]
    mdp = make(transitions=transitions, rewards=rewards, available=mask)
    assert mdp.available.tolist() == [[True, False], [True, True]]
    assert mdp.num_pairs == 3
    assert mdp.rewards[0, 1] == 0
    assert mdp.transitions.toarray()[1].tolist() == [0, 0]
    assert mdp.pair_index.tolist() == [[0, -1], [1, 2]]
    assert_same(mdp, make(transitions=sparse(transitions), rewards=rewards, available=np.array(mask, dtype=bool)))
    assert mdp.task.available is not None
    assert mdp.task.available.tolist() == [[True, False], [True, True]]


def test_where_each_pair_has_one_outcome_pay_by_outcome_is_pay_per_pair() -> None:
    stay = np.eye(2)[:, None, :]
    pay = np.array([[[7.0, 0.0]], [[0.0, 9.0]]])
    mdp = ConstrainedMDP(stay, pay, None, 1)
    assert mdp.outcome_pay is None
    assert mdp.rewards.tolist() == [[7], [9]]


def test_gather() -> None:
    mdp = make(available=[[1, 0], [1, 1]])
    assert mdp.gather(R, "table").tolist() == [1, 3, 4]
    with pytest.raises(ModelError, match=r"table has shape \(3, 2\); expected \(2, 2, \.\.\.\)"):
        mdp.gather(np.ones((3, 2)), "table")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 3), st.integers(0, 2))
def test_dense_sparse_and_outcome_lists_agree(seed: int, S: int, A: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(S), (S, A)) * (rng.random((S, A, S)) < 0.7)
    table[..., 0] += table.sum(axis=-1) == 0
    table /= table.sum(axis=-1, keepdims=True)
    pay = rng.normal(size=(S, A, S, 1 + d))
    dense = ConstrainedMDP(table, pay[..., 0], pay[..., 1:], 2)
    costs = [sparse(pay[..., i]) for i in range(1, 1 + d)]
    assert_same(dense, ConstrainedMDP(sparse(table), sparse(pay[..., 0]), costs, 2))
    s, a, t = np.nonzero(table)
    mixed = rng.permutation(s.size)
    s, a, t = s[mixed], a[mixed], t[mixed]
    listed = ConstrainedMDP.from_outcomes(s, a, t, table[s, a, t], pay[s, a, t], num_states=S, num_actions=A, horizon=2)
    assert_same(dense, listed)
    np.testing.assert_allclose(dense.rewards, (table * pay[..., 0]).sum(axis=-1), atol=1e-12)
    np.testing.assert_allclose(dense.costs, (table[..., None] * pay[..., 1:]).sum(axis=2), atol=1e-12)


# -- outcome lists ----------------------------------------------------------------------------------------


def outcomes(state: Any, action: Any, successor: Any, probability: Any, pay: Any, **rest: Any) -> ConstrainedMDP:
    sizes = {"num_states": 2, "num_actions": 2, "horizon": 1}
    return ConstrainedMDP.from_outcomes(state, action, successor, probability, pay, **(sizes | rest))


def test_outcome_lists_refuse_what_the_constructor_refuses() -> None:
    given = ([0, 1], [0, 0], [0, 1], [1.0, 1.0], [[0.0], [0.0]])
    with pytest.raises(ModelError, match="gamma: a discount stands in the place of the horizon"):
        outcomes(*given, gamma=0.9)
    with pytest.raises(TypeError, match="takes no 'available': pairs that do not occur do not exist"):
        outcomes(*given, available=np.ones((2, 2)))


def test_outcomes_that_pay_the_same_are_added_up_and_others_kept_apart() -> None:
    mdp = outcomes(
        [0, 0, 0, 0, 1], [1, 1, 1, 1, 0], [0, 0, 0, 1, 1], [0.25, 0.25, 0.25, 0.25, 1], [[1], [2], [1], [1], [0]]
    )
    assert mdp.graph.probability.tolist() == [0.5, 0.25, 0.25, 1]
    assert mdp.graph.successor.tolist() == [0, 0, 1, 1]
    assert mdp.outcome_pay is not None
    assert mdp.outcome_pay.tolist() == [[1], [2], [1], [0]]
    assert mdp.available.tolist() == [[False, True], [True, False]]
    assert mdp.rewards[0, 1] == 1.25
    assert mdp.transitions.toarray().tolist() == [[0, 0], [0.75, 0.25], [0, 1], [0, 0]]  # added up again


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": [0, 2]}, r"state index 2 is not in 0\.\.1"),
        ({"state": [0, -1]}, r"state index -1 is not in 0\.\.1"),
        ({"action": [0, 2]}, r"action index 2 is not in 0\.\.1"),
        ({"successor": [0, 2**40]}, r"successor index 1099511627776 is not in 0\.\.1"),
        ({"state": [0, 0], "action": [0, 1]}, r"state '1' \(index 1\) has no action"),
        ({"probability": [1, np.nan]}, r"transitions\[state '1', action '0'\] to state '1' is nan"),
        ({"probability": [1, 0.5]}, r"transitions\[state '1', action '0'\] sums to 0\.5"),
        ({"pay": [[0], [np.nan]]}, r"rewards at state '1', action '0' is nan"),
        ({"state": [], "action": [], "successor": [], "probability": [], "pay": np.zeros((0, 1))}, "has no action"),
    ],
)
def test_wrong_outcomes(changes: dict[str, Any], message: str) -> None:
    fine = {"state": [0, 1], "action": [0, 0], "successor": [0, 1], "probability": [1, 1], "pay": [[0], [0]]}
    outcomes(**fine)
    with pytest.raises(ModelError, match=message):
        outcomes(**(fine | changes))


# -- validation -------------------------------------------------------------------------------------------


def changed(table: NDArray[Any], at: tuple[int, ...], value: float) -> NDArray[Any]:
    other = table.copy()
    other[at] = value
    return other


NAMED: dict[str, Any] = {"state_names": ["A", "B"], "action_names": ["x", "y"], "cost_names": ["fuel", "risk"]}

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "sum": (
        {"transitions": changed(P, (1, 0, 0), 0.5)},
        r"^transitions\[state 'B', action 'x'\] sums to 1\.5; a distribution sums to 1 \(within 1e-09\)$",
    ),
    "sums": ({"transitions": P * 0.5}, r"state 'A', action 'x'\] sums to 0\.5; .* \(and 3 more such pairs\)$"),
    "sum by 1e-8": ({"transitions": changed(P, (1, 0, 1), 1 + 1e-8)}, r"sums to 1\.00000001;"),
    "no outcome": (
        {"transitions": changed(P, (1, 0, 1), 0.0)},
        r"state 'B', action 'x'\] sums to 0; .*leave the pair out with `available` if it does not exist$",
    ),
    "negative": (
        {"transitions": changed(changed(P, (1, 1, 0), -0.25), (1, 1, 1), 1.25)},
        r"^transitions\[state 'B', action 'y'\] to state 'A' is -0\.25; a probability is a finite number of at",
    ),
    "nan": ({"transitions": changed(P, (0, 1, 1), np.nan)}, r"state 'A', action 'y'\] to state 'B' is nan"),
    "inf": ({"transitions": changed(P, (0, 1, 1), np.inf)}, r"state 'A', action 'y'\] to state 'B' is inf"),
    "sparse nan": ({"transitions": sparse(changed(P, (0, 1, 1), np.nan))}, r"action 'y'\] to state 'B' is nan"),
    "4-D": (
        {"transitions": np.ones((3, 2, 2, 1))},
        r"transitions has shape .*; where it depends on the step, \(H, S, A",
    ),
    "2-D": ({"transitions": np.eye(2)}, r"transitions has shape \(2, 2\); expected \(S, A, S\), or sparse \(S\*A, S\)"),
    "S differs": ({"transitions": np.ones((2, 2, 3))}, r"transitions has shape \(2, 2, 3\)"),
    "nothing": ({"transitions": np.zeros((0, 1, 0))}, r"transitions has shape \(0, 1, 0\)"),
    "sparse shape": ({"transitions": sp.csr_array((3, 2))}, r"transitions is sparse with shape \(3, 2\); expected"),
    "text": ({"transitions": "abc"}, "transitions is not an array of numbers"),
    "ragged": ({"transitions": [[1], [1, 2]]}, "transitions is not an array of numbers"),
    "rewards shape": (
        {"rewards": np.ones((3, 2))},
        r"rewards has shape \(3, 2\); expected \(2, 2\) per pair or \(2, 2, 2\) by outcome, with a leading \d",
    ),
    "rewards sparse": ({"rewards": sp.csr_array((2, 2))}, r"rewards is sparse with shape \(2, 2\); expected \(4, 2\)"),
    "rewards text": ({"rewards": [["a", 1], [1, 1]]}, "rewards is not an array of numbers"),
    "rewards none": ({"rewards": None}, "rewards has shape"),
    "rewards nan": ({"rewards": changed(R, (1, 0), np.nan)}, "^rewards at state 'B', action 'x' is nan; it must be"),
    "rewards large": ({"rewards": changed(R, (1, 0), -2 * LARGEST)}, r"rewards at .* is -2e\+150; .* at most 1e\+150"),
    "rewards outcome": ({"rewards": changed(R_OUT, (1, 1, 0), np.inf)}, "rewards at state 'B', action 'y' is inf"),
    "costs nan": ({"costs": changed(C, (0, 1, 1), np.nan)}, "costs 'risk' at state 'A', action 'y' is nan"),
    "costs outcome": ({"costs": changed(C_OUT, (1, 1, 1, 0), np.nan)}, "costs 'fuel' at state 'B', action 'y' is nan"),
    "costs shape": ({"costs": np.ones((3, 2, 1))}, r"costs has shape \(3, 2, 1\); expected \(2, 2, d\) per pair"),
    "costs list": ({"costs": [R, np.ones((3, 3))]}, r"costs\[1\] has shape \(3, 3\)"),
    "costs number": ({"costs": 1.0}, r"costs has shape \(\)"),
    "horizon 0": ({"horizon": 0}, "^horizon is 0; it must be a whole number of at least 1$"),
    "horizon -1": ({"horizon": -1}, "horizon is -1"),
    "horizon True": ({"horizon": True}, "horizon is True"),
    "horizon 2.5": ({"horizon": 2.5}, r"horizon is 2\.5"),
    "horizon 3.0": ({"horizon": 3.0}, r"horizon is 3\.0"),
    "horizon text": ({"horizon": "3"}, "horizon is '3'"),
    "horizon None": ({"horizon": None}, "horizon is None"),
    "no action": (
        {"available": [[1, 1], [0, 0]]},
        r"^state 'B' \(index 1\) has no action; give it those that are missing or, only if it is never left, one "
        "that stays there with probability 1$",
    ),
    "available shape": ({"available": [1, 1]}, r"available has shape \(2,\); expected \(2, 2\)"),
    "available 2": ({"available": [[1, 2], [1, 1]]}, "available must hold booleans"),
    "initial 2": ({"initial": 2}, r"initial is 2; it must be a state index in 0\.\.1 or a distribution"),
    "initial -1": ({"initial": -1}, "initial is -1"),
    "initial 0.5": ({"initial": 0.5}, r"initial is 0\.5"),
    "initial True": ({"initial": True}, "initial is True"),
    "initial name": ({"initial": "A"}, "initial is 'A'"),
    "initial shape": ({"initial": [1, 0, 0]}, r"initial has shape \(3,\); a distribution over states has shape \(2,\)"),
    "initial sum": ({"initial": [0.5, 0.6]}, r"initial sums to 1\.1; a distribution sums to 1"),
    "initial negative": ({"initial": [1.5, -0.5]}, r"initial\[state 'B'\] is -0\.5; a probability is at least 0"),
    "initial nan": ({"initial": [1, np.nan]}, r"initial\[state 'B'\] is nan"),
    "limits shape": ({"limits": [1]}, r"limits has shape \(1,\); the model has 2 costs, so it must have shape \(2,\)"),
    "limits nan": ({"limits": [1, np.nan]}, "limit of cost 'risk' is nan; it must be a number, or inf for none"),
    "limits -inf": ({"limits": [-np.inf, 1]}, "limit of cost 'fuel' is -inf"),
    "limits text": ({"limits": ["a", 1]}, "limits is not an array of numbers"),
    "limits name": ({"limits": {"fule": 1}}, r"unknown cost 'fule'; did you mean 'fuel'\?"),
    "limits other": ({"limits": {"zzz": 1}}, "unknown cost 'zzz'; known: fuel, risk"),
    "state twice": ({"state_names": ["A", "A"]}, "state_names has 'A' twice; names must differ"),
    "action twice": ({"action_names": ["x", "x"]}, "action_names has 'x' twice"),
    "cost twice": ({"cost_names": ["x", "x"]}, "cost_names has 'x' twice"),
    "names few": ({"state_names": ["A"]}, "state_names has 1 entries; expected 2"),
    "names text": ({"state_names": "AB"}, "state_names is one text; expected a list of 2"),
    "features": (
        {"features": np.ones((3, 1))},
        r"features has shape \(3, 1\); expected numbers of shape \(2, \.\.\.\)",
    ),
    "features flat": ({"features": np.ones(2)}, "features has shape"),
    "features text": ({"features": [["a"], ["b"]]}, "features has shape"),
    "discount": ({"discount": 0.9}, "discount: a discount stands in the place of the horizon"),
    "gamma": ({"gamma": 0.9}, "gamma: a discount stands in the place of the horizon"),
    "terminal rewards": ({"terminal_rewards": [0, 1]}, "terminal_rewards: there are no terminal rewards; put the step"),
    "terminal costs": ({"terminal_costs": [0, 1]}, "terminal_costs: there are no terminal costs; put the step"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named(case: str) -> None:
    changes, message = MISTAKES[case]
    with pytest.raises(ModelError, match=message) as caught:
        make(**(NAMED | changes))
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_an_argument_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'horison'"):
        make(horison=3)


def test_too_many_actions() -> None:
    with pytest.raises(ModelError, match="40000 actions; at most 32767 are supported"):
        ConstrainedMDP(np.ones((1, 40000, 1)), np.zeros((1, 40000)), None, 1)


def test_rows_within_the_tolerance_are_used_as_given() -> None:
    table = changed(P, (1, 0, 1), 1 + 5e-10)
    assert make(transitions=table).graph.probability[3] == 1 + 5e-10


def test_limits_by_name_and_none() -> None:
    assert make(**NAMED).limits is None
    for limits in ({"risk": 2}, [None, 2], [np.inf, 2.0]):
        mdp = make(**NAMED, limits=limits)
        assert mdp.limits is not None
        assert mdp.limits.tolist() == [np.inf, 2]
    assert resolve_limits(None, ["a"], "floors").tolist() == [-np.inf]
    with pytest.raises(ModelError, match="floor of cost 'a' is inf; it must be a number, or -inf for none"):
        resolve_limits([np.inf], ["a"], "floors")


# -- immutability -----------------------------------------------------------------------------------------


def frozen_arrays(mdp: ConstrainedMDP) -> list[NDArray[Any]]:
    held = [*mdp.graph, mdp.pay, mdp.outcome_pay, mdp.bonus, mdp.initial, mdp.limits, mdp.action, mdp.features]
    return [array for array in held if array is not None]


def full() -> ConstrainedMDP:
    return make(costs=C_OUT, limits=[1, 2], features=np.ones((2, 3))).with_bonus(np.ones((2, 2)))


def test_nothing_can_be_set() -> None:
    mdp = full()
    for name in ("horizon", "pay", "new"):
        with pytest.raises(AttributeError, match=rf"immutable; make another with \.replace\({name}="):
            setattr(mdp, name, 1)
    arrays = frozen_arrays(mdp)
    assert len(arrays) == 11
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_callers_arrays_stay_theirs(order: Any) -> None:
    given: dict[str, Any] = {
        "transitions": P,
        "rewards": R,
        "costs": C_OUT,
        "initial": np.array([0.5, 0.5]),
        "limits": np.array([1.0, 2.0]),
        "available": np.array([[True, True], [True, True]]),
        "features": np.ones((2, 3)),
    }
    given = {name: np.array(array, order=order) for name, array in given.items()}
    bonus = np.ones((2, 2, 3))
    mdp = make(**given).with_bonus(bonus)
    before = [array.copy() for array in frozen_arrays(mdp)]
    for array in (*given.values(), bonus):
        assert array.flags.writeable
        array[...] = 7
    assert all(map(np.array_equal, before, frozen_arrays(mdp)))


def test_sparse_input_stays_the_callers() -> None:
    transitions, rewards = sparse(P), sparse(R_OUT)
    mdp = make(transitions=transitions, rewards=rewards)
    before = [array.copy() for array in frozen_arrays(mdp)]
    transitions.data[...] = 7
    rewards.data[...] = 7
    assert all(map(np.array_equal, before, frozen_arrays(mdp)))


def test_what_a_model_hands_out_is_a_copy() -> None:
    mdp = make()
    for table in (mdp.rewards, mdp.costs, mdp.available, mdp.transitions.data):
        table[...] = 0
    assert np.array_equal(mdp.rewards, R)
    assert np.array_equal(mdp.transitions.toarray().reshape(2, 2, 2), P)


# -- variants ---------------------------------------------------------------------------------------------


def test_with_bonus() -> None:
    mdp = make(available=[[1, 0], [1, 1]])
    assert mdp.bonus is None
    one = mdp.with_bonus([[1, 2], [3, 4]])
    assert one.bonus is not None
    assert one.bonus.tolist() == [[1, 1, 1], [3, 3, 3], [4, 4, 4]]
    each = mdp.with_bonus(np.arange(12.0).reshape(2, 2, 3))
    assert each.bonus is not None
    assert each.bonus.tolist() == [[0, 1, 2], [6, 7, 8], [9, 10, 11]]
    assert mdp.bonus is None
    assert np.array_equal(one.pay, mdp.pay)
    for wrong, message in (
        (-np.ones((2, 2)), "negative or non-finite"),
        (np.full((2, 2), np.nan), "negative or non-finite"),
        (np.full((2, 2), np.inf), "negative or non-finite"),
        (np.ones((2, 2, 2)), r"bonus has shape \(2, 2, 2\); expected \(2, 2\) or \(2, 2, 3\)"),
        (np.ones((3, 2)), r"bonus has shape \(3, 2\)"),
        (1.0, r"bonus has shape \(\)"),
    ):
        with pytest.raises(ModelError, match=message):
            mdp.with_bonus(wrong)


def test_replace() -> None:
    mdp = make(**NAMED, limits=[1, 2])
    reach = mdp.reach
    other = mdp.replace(horizon=5, initial=[0.5, 0.5], limits={"risk": 3})
    assert (other.horizon, other.initial.tolist()) == (5, [0.5, 0.5])
    assert other.limits is not None
    assert other.limits.tolist() == [np.inf, 3]
    assert other.reach.lo.size == 5
    assert (mdp.horizon, mdp.initial.tolist(), mdp.reach) == (3, [1, 0], reach)
    assert mdp.replace().reach is reach
    for changes, message in (
        ({"horizon": 0}, "horizon is 0"),
        ({"initial": 9}, "initial is 9"),
        ({"limits": [1]}, "limits"),
    ):
        with pytest.raises(ModelError, match=message):
            mdp.replace(**changes)


def test_pickle_for_worker_processes() -> None:
    mdp = full()
    assert mdp.reach.order.size == 2
    back = pickle.loads(pickle.dumps(mdp))
    assert_same(mdp, back)
    assert all(map(np.array_equal, frozen_arrays(mdp), frozen_arrays(back)))
    assert (back.horizon, back.cost_names, back.state_names) == (mdp.horizon, mdp.cost_names, mdp.state_names)
    assert np.array_equal(back.reach.order, mdp.reach.order)
    with pytest.raises(AttributeError, match="immutable"):
        back.horizon = 1


# -- what the start can reach -----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 12), st.sampled_from(["random", "band", "ring", "split"])
)
def test_reach_against_brute_force(seed: int, S: int, H: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    A = int(rng.integers(1, 4))
    s = np.repeat(np.arange(S), A * 2)
    a = np.tile(np.repeat(np.arange(A), 2), S)
    step = rng.integers(0, {"random": S, "band": 3, "ring": 2, "split": S}[kind], s.size)
    t = np.minimum(s + step, S - 1) if kind == "band" else (s + (1 if kind == "ring" else step)) % S
    t = np.where(s < S // 2, t % max(S // 2, 1), t) if kind == "split" else t
    half = np.full(s.size, 0.5)
    start = rng.integers(0, 2, S).astype(float) if rng.random() < 0.3 else np.eye(S)[rng.integers(0, S)]
    start = start / start.sum() if start.any() else np.eye(S)[0]
    mdp = ConstrainedMDP.from_outcomes(
        s, a, t, half, rng.random((s.size, 1)), num_states=S, num_actions=A, horizon=H, initial=start
    )
    reach = mdp.reach
    place = {int(state): i for i, state in enumerate(reach.order)}
    now, ever = set(np.flatnonzero(start).tolist()), set()
    for h in range(H):
        ever |= now
        blocks = set(reach.blocks[reach.lo[h] : reach.hi[h]].tolist())
        assert {place[x] // LANES for x in now} <= blocks
        assert all(b * LANES < reach.order.size for b in blocks)
        now = {y for x, y in zip(s.tolist(), t.tolist(), strict=True) if x in now}
    assert set(place) == ever
    assert len(place) == reach.order.size


def test_reach_prunes_a_corridor() -> None:
    S, H = 100, 20
    table = sp.csr_array(sp.eye_array(S, k=1).tolil())
    table = sp.csr_array(table + sp.coo_array(([1.0], ([S - 1], [S - 1])), shape=(S, S)))
    reach = ConstrainedMDP(table, np.zeros((S, 1)), None, H).reach
    assert sorted(reach.order.tolist()) == list(range(H))
    assert (reach.hi - reach.lo).max() == 1


# -- Task -------------------------------------------------------------------------------------------------


def task(**changes: Any) -> Task:
    given: dict[str, Any] = {"num_states": 3, "num_actions": 2, "horizon": 4, "limits": [1.0], "cost_names": ["fuel"]}
    return Task(**(given | changes))


def test_task_of_a_model() -> None:
    mdp = make(rewards=R_OUT, limits=[1, 2], initial=1, features=np.ones((2, 3)))
    known = mdp.task
    assert (known.num_states, known.num_actions, known.num_costs, known.horizon) == (2, 2, 2, 3)
    assert known.initial == 1
    assert known.reward_range == (0.0, 7.0)  # of what can be seen, so not of the means
    assert known.cost_ranges == ((0.1, 0.4), (1.0, 4.0))
    assert np.asarray(known.limits).tolist() == [1, 2]
    assert known.available is None
    assert known.features is not None
    assert not hasattr(known, "transitions")
    loose = make(initial=[0.5, 0.5]).task
    assert loose.initial is None
    assert np.asarray(loose.limits).tolist() == [np.inf, np.inf]


def test_task_defaults_and_immutability() -> None:
    known = task()
    assert (known.initial, known.reward_range, known.can_stop) == (None, (0.0, 1.0), False)
    assert known.cost_ranges == ((0.0, 1.0),)
    assert known.num_costs == 1
    with pytest.raises(AttributeError):
        known.horizon = 3  # type: ignore[misc]
    limits = np.array([1.0])
    held = task(limits=limits)
    limits[0] = 7
    assert np.asarray(held.limits).tolist() == [1.0]
    assert not np.asarray(held.limits).flags.writeable
    assert np.asarray(task(limits={"fuel": 2}).limits).tolist() == [2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_states": 0}, "num_states is 0; it must be a whole number of at least 1"),
        ({"num_states": True}, "num_states is True"),
        ({"num_actions": 2.0}, r"num_actions is 2\.0"),
        ({"horizon": 0}, "horizon is 0"),
        ({"limits": [1, 2]}, r"limits has shape \(2,\); the model has 1 cost, so"),
        ({"limits": [np.nan]}, "limit of cost 'fuel' is nan"),
        ({"limits": {"fule": 1}}, r"unknown cost 'fule'; did you mean 'fuel'\?"),
        ({"cost_names": ["a", "a"], "limits": [1, 1]}, "cost_names has 'a' twice"),
        ({"cost_names": "a"}, "cost_names is one text"),
        ({"initial": 3}, r"initial is 3; it must be a state index in 0\.\.2, or None if unknown"),
        ({"initial": True}, "initial is True"),
        ({"reward_range": (1, 0)}, r"reward_range is \(1, 0\); expected two finite numbers, the lower first"),
        ({"reward_range": (0, np.inf)}, "reward_range is"),
        ({"reward_range": (np.nan, 1)}, "reward_range is"),
        ({"cost_ranges": [(0, 1), (0, 1)]}, "cost_ranges has 2 entries for 1 costs"),
        ({"cost_ranges": [(2, 1)]}, r"cost_ranges\[0\] is \(2, 1\)"),
        ({"features": np.ones((2, 1))}, r"features has shape \(2, 1\); expected numbers of shape \(3, \.\.\.\)"),
        ({"available": np.ones((2, 2))}, r"available has shape \(2, 2\); expected \(3, 2\)"),
        ({"available": np.zeros((3, 2))}, "available leaves state 0 without an action"),
        ({"available": np.full((3, 2), 0.5)}, "available must hold booleans"),
        ({"num_actions": 40_000}, "40000 actions; at most 32767"),  # a policy stores its choice in 16 bits
    ],
)
def test_wrong_tasks(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        task(**changes)


class Counter(gymnasium.Env[Any, Any]):
    """Spaces and nothing else."""

    def __init__(self, states: Any, actions: Any) -> None:
        self.observation_space, self.action_space = states, actions


DISCRETE = gymnasium.spaces.Discrete


def test_task_from_frozen_lake() -> None:
    env = gymnasium.make("FrozenLake-v1")
    known = Task.from_gymnasium(env)
    assert (known.num_states, known.num_actions, known.horizon, known.num_costs) == (16, 4, 100, 0)
    other = Task.from_gymnasium(env, horizon=7, limits=[0.5], cost_names=["holes"], can_stop=True)
    assert (other.horizon, other.cost_names, other.can_stop) == (7, ("holes",), True)
    assert Task.from_gymnasium(env, limits=[1, 2]).cost_names == ("cost0", "cost1")


def test_cost_ranges_of_an_environment_by_name() -> None:
    env = gymnasium.make("FrozenLake-v1")
    named: dict[str, Any] = {"limits": {"fall": 0.2, "move": np.inf}}
    task = Task.from_gymnasium(env, **named, cost_ranges={"move": (0.0, 2.0)})
    assert task.cost_ranges == ((0.0, 1.0), (0.0, 2.0))  # what is not named stays
    assert task.cost_ranges == Task.from_gymnasium(env, **named, cost_ranges=[(0, 1), (0, 2)]).cost_ranges
    with pytest.raises(ModelError, match="did you mean 'move'"):
        Task.from_gymnasium(env, **named, cost_ranges={"moev": (0.0, 2.0)})
    with pytest.raises(ModelError, match=r"cost_ranges\["):
        Task.from_gymnasium(env, **named, cost_ranges={"move": (2.0, 0.0)})


def test_task_from_gymnasium_reads_limits_of_the_environment() -> None:
    env = Counter(DISCRETE(3), DISCRETE(2))
    env.cost_limits, env.cost_names = [0.25], ["fuel"]  # type: ignore[attr-defined]
    known = Task.from_gymnasium(env, horizon=5)
    assert np.asarray(known.limits).tolist() == [0.25]
    assert known.cost_names == ("fuel",)


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        (DISCRETE(3, start=1), DISCRETE(2), r"the observation space is .*; conrl needs Discrete\(n\) counting from 0"),
        (DISCRETE(3), DISCRETE(2, start=-1), "the action space is"),
        (gymnasium.spaces.Box(0, 1), DISCRETE(2), "the observation space is Box"),
        (DISCRETE(3), gymnasium.spaces.MultiBinary(2), "the action space is MultiBinary"),  # it has an `n` too
    ],
)
def test_gymnasium_spaces_that_are_refused(states: Any, actions: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Task.from_gymnasium(Counter(states, actions), horizon=3)


def test_gymnasium_without_a_time_limit_is_refused() -> None:
    with pytest.raises(ModelError, match="the environment states no time limit; pass horizon="):
        Task.from_gymnasium(Counter(DISCRETE(3), DISCRETE(2)))


# -- hostile and clumsy input -


def test_sparse_input_is_not_rearranged() -> None:
    data, indices, indptr = (
        np.array([0.25, 0.75, 0.0, 1, 1, 1]),
        np.array([1, 0, 1, 0, 1, 0]),
        np.array([0, 2, 4, 5, 6]),
    )
    theirs = sp.csr_array((data, indices, indptr), shape=(4, 2))
    make(transitions=theirs)
    assert theirs.data.tolist() == [0.25, 0.75, 0, 1, 1, 1]
    assert theirs.indices.tolist() == [1, 0, 1, 0, 1, 0]
    assert theirs.indptr.tolist() == [0, 2, 4, 5, 6]


def test_duplicate_sparse_rewards_are_added_without_cancellation() -> None:
    rewards = sp.coo_array((np.array([1e17, 0.1, 0.2]), (np.array([0, 1, 1]), np.array([0, 0, 0]))), shape=(4, 2))
    assert make(rewards=rewards).rewards[0, 1] == pytest.approx(0.3)


@pytest.mark.parametrize("probability", [[1.5, -0.5, 1], [-0.5, 1.5, 1]])
def test_a_negative_outcome_is_not_hidden_by_its_twin(probability: list[float]) -> None:
    with pytest.raises(ModelError, match=r"is -0\.5"):
        outcomes([0, 0, 1], [0, 0, 0], [0, 0, 1], probability, [[0], [0], [0]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_actions": 40000}, "40000 actions; at most 32767"),
        ({"successor": [0]}, "successor"),
        ({"pay": [0, 0]}, "pay"),
        ({"state": [0.5, 1]}, "state"),
        ({"probability": ["a", 1]}, "probability"),
    ],
)
def test_outcome_lists_of_wrong_form(changes: dict[str, Any], message: str) -> None:
    fine = {"state": [0, 1], "action": [0, 0], "successor": [0, 1], "probability": [1, 1], "pay": [[0], [0]]}
    with pytest.raises(ModelError, match=message):
        outcomes(**(fine | changes))


def test_a_read_only_view_does_not_tie_the_model_to_its_base() -> None:
    base = np.array([0.5, 0.5])
    view = base.view()
    view.flags.writeable = False
    mdp = make(initial=view)
    base[:] = 7
    assert mdp.initial.tolist() == [0.5, 0.5]


def test_arrays_are_frozen_after_pickling() -> None:
    back = pickle.loads(pickle.dumps(full()))
    assert not any(array.flags.writeable for array in frozen_arrays(back))


def test_derived_arrays_are_frozen() -> None:
    mdp = make()
    assert not mdp.pair_state.flags.writeable
    assert not mdp.pair_index.flags.writeable


def test_nothing_can_be_deleted() -> None:
    with pytest.raises(AttributeError):
        del make().horizon


def test_layout_is_frozen() -> None:
    cell = np.array([0, 1])
    mdp = make(layout=Layout(("ab",), cell))
    assert mdp.layout is not None
    cell[0] = 1
    assert mdp.layout.cell.tolist() == [0, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {"initial": [[1], [1, 2]]},
        {"available": [[1], [1, 2]]},
        {"features": [[1], [1, 2]]},
        {"costs": [[[1], [1, 2]], [[1], [2]]]},
        {"limits": {"cost0": "x"}},
        {"limits": {"cost0": [1, 2]}},
        {"state_names": 5},
        {"transitions": sp.coo_array(np.ones(4))},
        {"horizon": 10**30},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_raw_errors_become_model_errors(changes: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=next(iter(changes))):
        make(**changes)


@pytest.mark.parametrize(
    "changes",
    [{"reward_range": (1,)}, {"reward_range": 5}, {"reward_range": ("a", "b")}, {"cost_names": 5}, {"cost_ranges": 5}],
)
def test_raw_errors_of_tasks_become_model_errors(changes: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=next(iter(changes))):
        task(**changes)


def test_the_ranges_of_a_task() -> None:
    assert Task(1, 1, 1, [2.0], ["fuel"], cost_ranges=[(-1, 4)]).ranges.tolist() == [[0.0, 1.0], [-1.0, 4.0]]


def test_declared_ranges() -> None:
    """What one step pays at most, where rewards and costs are means of what varies."""
    P, pay = np.ones((1, 2, 1)), np.array([[0.4, 0.6]])
    mdp = ConstrainedMDP(P, pay, [pay, 2.0 * pay], 3, cost_names=["fuel", "time"], cost_ranges={"time": (0, 5)})
    assert mdp.task.ranges.tolist() == [[0.4, 0.6], [0.4, 0.6], [0.0, 5.0]]
    wider = mdp.replace(reward_range=(0.0, 1.0), cost_ranges=[(0.4, 1.0), None])
    assert wider.task.ranges.tolist() == [[0.0, 1.0], [0.4, 1.0], [0.0, 5.0]]
    for other in (wider.replace(horizon=7, limits=[1.0, 2.0]), pickle.loads(pickle.dumps(wider))):
        assert np.array_equal(other.task.ranges, wider.task.ranges)
    assert mdp.task.ranges.tolist()[0] == [0.4, 0.6]
    for wrong, piece in (
        ({"reward_range": (0.5, 1.0)}, "reward_range is 0.5 to 1, but the model itself pays 0.4 to 0.6"),
        ({"cost_ranges": {"time": (0.0, 1.0)}}, "range of cost 'time' is 0 to 1, but the model itself pays 0.8 to 1.2"),
        ({"cost_ranges": {"tim": (0.0, 2.0)}}, "did you mean 'time'"),
        ({"cost_ranges": [(0.0, 2.0)]}, "for each of 2 costs"),
        ({"cost_ranges": 3}, "for each of 2 costs"),
        ({"reward_range": (1.0, 0.0)}, "two finite numbers, the lower first"),
        ({"reward_range": (0.0, math.inf)}, "two finite numbers"),
    ):
        with pytest.raises(ModelError, match=re.escape(piece)):
            mdp.replace(**wrong)

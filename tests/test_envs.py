"""The models of `conrl.envs`: maps, Mars rover, Box, random ones, and those made by name.

Pricing, bidding and the cluster are in test_operations.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from conrl import envs
from conrl.errors import ModelError, SpecError
from conrl.model import ConstrainedMDP

UP, DOWN, LEFT, RIGHT = range(4)


def occupation_lp(mdp: ConstrainedMDP, limit: float) -> tuple[Any, Any] | None:
    """Best reward and its cost under one limit, from the occupation-measure program; None if infeasible.

    Variables rho(h, k) over steps and pairs; rows: the initial state, then the flow into every (step, state).
    """
    H, S, P = mdp.horizon, mdp.num_states, mdp.num_pairs
    leave = sp.csr_array((np.ones(P), (mdp.pair_state, np.arange(P))), shape=(S, P))
    enter = mdp.transitions.T.tocsc()[:, mdp.pair_state * mdp.num_actions + mdp.action]
    flow = sp.kron(sp.eye(H), leave) - sp.kron(sp.eye(H, k=-1), enter)
    start = np.concatenate([mdp.initial, np.zeros((H - 1) * S)])
    costs = np.tile(mdp.pay[:, 1], H)
    rest: dict[str, Any] = {"A_eq": flow.tocsr(), "b_eq": start}
    if np.isfinite(limit):
        rest |= {"A_ub": costs[None, :], "b_ub": [limit]}
    rest["options"] = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(-np.tile(mdp.pay[:, 0], H), method="highs", **rest)
    return None if found.status == 2 else (-float(found.fun), float(costs @ found.x))


def outcomes(mdp: ConstrainedMDP, state: str, action: int) -> dict[str, Any]:
    """Successor name -> (probability, what it pays), where each successor occurs once."""
    k = mdp.state_names.index(state) * mdp.num_actions + action
    g = mdp.graph
    assert mdp.outcome_pay is not None
    span = range(g.start[k], g.start[k + 1])
    found = {mdp.state_name(int(g.successor[j])): (float(g.probability[j]), mdp.outcome_pay[j].tolist()) for j in span}
    assert len(found) == len(span)
    return found


# -- Mars rover -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rock_reward", "limit", "reward", "cost"),
    [(1.0, 0.3, 1.5362884, 0.3), (1.0, np.inf, 1.8168222, 1.8168222), (0.0, 0.0898150, 1.4029842, 0.0898150)],
)
def test_mars_rover_has_the_published_optima(rock_reward: float, limit: float, reward: float, cost: float) -> None:
    found = occupation_lp(envs.mars_rover(rock_reward), limit)
    assert found == (pytest.approx(reward, abs=1e-7), pytest.approx(cost, abs=1e-7))


def test_by_the_text_the_limit_of_mars_rover_never_binds() -> None:
    mdp = envs.mars_rover()
    for limit in (0.0899, 0.3, np.inf):
        found = occupation_lp(mdp, limit)
        assert found is not None
        assert found[0] == pytest.approx(1.4029842, abs=1e-7)
    less = occupation_lp(mdp, 0.0897)
    assert less is not None
    assert less[0] < 1.4029842 - 1e-5


def test_mars_rover_under_tight_limits() -> None:
    mdp = envs.mars_rover()
    found = occupation_lp(mdp, 0.05)
    assert found is not None
    assert found[0] == pytest.approx(0.7990, abs=5e-5)
    assert occupation_lp(mdp, 0.0) is None


def test_mars_rover_moves_and_slips() -> None:
    mdp = envs.mars_rover()
    assert (mdp.num_states, mdp.num_actions, mdp.horizon) == (64, 4, 30)
    assert mdp.action_names == ("up", "down", "left", "right")
    assert mdp.cost_names == ("crash",)
    assert mdp.limits is not None
    assert mdp.limits.tolist() == [0.3]
    assert np.flatnonzero(mdp.initial).tolist() == [0]
    nothing = [0.0, 0.0]
    got = outcomes(mdp, "r3c4", RIGHT)
    assert {s: pay for s, (_, pay) in got.items()} == dict.fromkeys(("r2c4", "r4c4", "r3c3", "r3c5"), nothing)
    assert got["r3c5"][0] == pytest.approx(0.925, abs=1e-15)
    assert [got[s][0] for s in ("r2c4", "r4c4", "r3c3")] == pytest.approx([0.025] * 3, abs=1e-15)
    # At the start, up and left lead off the map.
    corner = outcomes(mdp, "r0c0", UP)
    assert corner["r0c0"] == (pytest.approx(0.95, abs=1e-15), nothing)
    assert corner["r1c0"][0] == corner["r0c1"][0] == pytest.approx(0.025, abs=1e-15)


@pytest.mark.parametrize("rock_reward", [0.0, 1.0])
def test_mars_rover_pays_by_outcome_and_then_freezes(rock_reward: float) -> None:
    mdp = envs.mars_rover(rock_reward)
    crash = outcomes(mdp, "r2c2", RIGHT)
    assert crash["r2c3"] == (pytest.approx(0.925), [rock_reward, 1.0])
    assert crash["r2c1"][1] == [0.0, 0.0]
    assert outcomes(mdp, "r6c7", DOWN)["r7c7"] == (pytest.approx(0.925), [1.0, 0.0])
    for action in range(4):
        assert outcomes(mdp, "r2c3", action) == {"r2c3": (pytest.approx(1.0), [rock_reward / 30, 1 / 30])}
        assert outcomes(mdp, "r7c7", action) == {"r7c7": (pytest.approx(1.0), [1 / 30, 0.0])}
    rocks = [s for s in mdp.state_names if 1 / 30 in outcomes(mdp, s, UP).get(s, (0, [0, 0]))[1][1:]]
    assert rocks == ["r2c3", "r2c6", "r5c1", "r5c2", "r6c1", "r6c4", "r6c6", "r7c3"]


def test_pay_after_an_end_follows_the_horizon() -> None:
    assert outcomes(envs.mars_rover(horizon=10), "r2c3", UP)["r2c3"][1] == [0.0, 0.1]
    assert outcomes(envs.box(horizon=10), "agent r4c4 box r1c1", UP)["agent r4c4 box r1c1"][1] == [0.1, 0.1]


def test_mars_rover_features_and_layout() -> None:
    mdp = envs.mars_rover()
    assert mdp.features is not None
    assert mdp.layout is not None
    assert (mdp.features.shape, str(mdp.features.dtype)) == ((64, 2, 8, 8), "float32")
    assert mdp.features[:, 0].reshape(64, 64).tolist() == np.eye(64).tolist()
    assert (mdp.features[:, 1] == mdp.features[0, 1]).all()
    assert [f"r{r}c{c}" for r, c in np.argwhere(mdp.features[0, 1])] == [
        f"r{r}c{c}" for r, row in enumerate(mdp.layout.rows) for c, sign in enumerate(row) if sign == "P"
    ]
    assert mdp.layout.rows[0] == "S0000000"
    assert mdp.layout.cell.tolist() == list(range(64))


# -- Box --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "reward", "cost"), [(0.1, 1.7496766, 0.1), (np.inf, 1.8157689, 0.9732)])
def test_box_has_the_published_optima(limit: float, reward: float, cost: float) -> None:
    found = occupation_lp(envs.box(), limit)
    assert found == (pytest.approx(reward, abs=1e-7), pytest.approx(cost, abs=5e-5))


def test_box_states() -> None:
    mdp = envs.box()
    assert (mdp.num_states, mdp.num_actions, mdp.cost_names) == (121, 4, ("corner",))
    assert mdp.limits is not None
    assert mdp.limits.tolist() == [0.1]
    assert mdp.state_name(int(mdp.initial.argmax())) == "agent r1c2 box r2c2"
    assert mdp.features is not None
    assert mdp.layout is not None
    assert (mdp.features.shape, str(mdp.features.dtype)) == ((121, 2, 6, 6), "float32")
    for s, name in enumerate(mdp.state_names):
        agent, box = (tuple(map(int, w[1:].split("c"))) for w in name.split()[1::2])
        assert [tuple(x) for x in np.argwhere(mdp.features[s, 0])] == [agent]
        assert [tuple(x) for x in np.argwhere(mdp.features[s, 1])] == [box]
        assert divmod(int(mdp.layout.cell[s]), 6) == agent


def test_box_pushes() -> None:
    mdp = envs.box()
    start = outcomes(mdp, "agent r1c2 box r2c2", DOWN)
    # Up and right of the start are walls; (3, 2) has two walls, so the push ends in a corner.
    assert start == {
        "agent r2c2 box r3c2": (pytest.approx(0.925), [0.0, 1 / 30]),
        "agent r1c2 box r2c2": (pytest.approx(0.05), [0.0, 0.0]),
        "agent r1c1 box r2c2": (pytest.approx(0.025), [0.0, 0.0]),
    }
    # A box against a wall does not move, and neither does the agent.
    stuck = outcomes(mdp, "agent r2c2 box r3c2", DOWN)
    assert stuck["agent r2c2 box r3c2"] == (pytest.approx(0.925), [0.0, 1 / 30])
    # Pushed out into the open, it costs nothing: the cost is that of the step's end.
    out = outcomes(mdp, "agent r2c1 box r2c2", RIGHT)
    assert out["agent r2c2 box r2c3"] == (pytest.approx(0.925), [0.0, 0.0])


def test_box_corners_are_cells_with_two_walls() -> None:
    mdp = envs.box()
    corners = {
        name.split()[-1] for name in mdp.state_names if outcomes(mdp, name, UP).get(name, (0, [0.0, 0.0]))[1][1] > 0
    }
    assert corners == {"r1c1", "r1c2", "r2c1", "r2c4", "r3c2", "r4c3", "r4c4"}


def test_box_freezes_at_the_goal_and_the_corner_goes_on_costing() -> None:
    mdp = envs.box()
    entering = outcomes(mdp, "agent r3c4 box r2c1", DOWN)
    assert entering["agent r4c4 box r2c1"] == (pytest.approx(0.925), [1.0, 1 / 30])
    for action in range(4):
        for box, cost in (("r2c1", 1 / 30), ("r2c2", 0.0), ("r4c3", 1 / 30), ("r4c4", 1 / 30)):
            name = f"agent r4c4 box {box}"
            assert outcomes(mdp, name, action) == {name: (pytest.approx(1.0), [1 / 30, cost])}


def test_agent_and_box_never_meet() -> None:
    mdp = envs.box()
    same = [s for s, name in enumerate(mdp.state_names) if name.split()[1] == name.split()[3]]
    assert len(same) == 11
    into = np.asarray(mdp.transitions.tocsc()[:, same].sum(axis=1)).reshape(121, 4)
    assert np.flatnonzero(into.any(axis=1)).tolist() == same


# -- maps ---------------------------------------------------------------------------------------------------------


def test_gridworld_from_text_and_from_rows() -> None:
    rest: dict[str, Any] = {"slip": 0.2, "horizon": 5, "goal_reward": 2.0, "rock_cost": 3.0, "stay": 0.5}
    text = envs.gridworld("S . #\n\n. P G\n", **rest)
    rows = envs.gridworld(["S0W", "0PG"], **rest)
    assert text.state_names == rows.state_names == ("r0c0", "r0c1", "r1c0", "r1c1", "r1c2")
    assert text.layout is not None
    assert text.layout.rows == ("S0W", "0PG")
    assert text.layout.cell.tolist() == [0, 1, 3, 4, 5]
    assert text.transitions.toarray().tolist() == rows.transitions.toarray().tolist()
    assert outcomes(text, "r0c1", DOWN) == {
        "r1c1": (pytest.approx(0.85), [0.0, 3.0]),
        "r0c0": (pytest.approx(0.05), [0.0, 0.0]),
        "r0c1": (pytest.approx(0.10), [0.0, 0.0]),
    }
    assert outcomes(text, "r1c1", UP) == {"r1c1": (pytest.approx(1.0), [0.0, 1.5])}
    assert outcomes(text, "r1c2", UP) == {"r1c2": (pytest.approx(1.0), [1.0, 0.0])}


def test_without_slip_moves_are_certain() -> None:
    mdp = envs.gridworld(["S0G"], slip=0.0)
    assert mdp.graph.probability.tolist() == [1.0] * 12


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["S0G", "00"], "map row 1 has 2 cells and row 0 has 3"),
        (["000", "00G"], "has 0 cells 'S'"),
        (["S0G", "00S"], r"has 2 cells 'S' \(r0c0, r1c2\)"),
        (["S0G", "0Q0"], r"row 1, column 1 \(counting from 0\) is 'Q'"),
        (["S00"], "no goal"),
        (["SXG"], "'X'"),
        ([], "empty"),
        ("", "empty"),
        ([["S", "G"]], "a text or a list of texts"),
        (7, "a text or a list of texts"),
    ],
)
def test_bad_maps_name_the_culprit(rows: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        envs.gridworld(rows)


@pytest.mark.parametrize("slip", [-0.1, 1.5, np.nan, "much", True])
def test_bad_slip(slip: Any) -> None:
    for factory in (envs.mars_rover, envs.box):
        with pytest.raises(ModelError, match="slip"):
            factory(slip=slip)


def test_other_bad_parameters() -> None:
    for factory in (envs.mars_rover, envs.box):
        with pytest.raises(ModelError, match="horizon"):
            factory(horizon=0)
    with pytest.raises(ModelError, match="rock_reward is nan"):
        envs.mars_rover(rock_reward=np.nan)
    with pytest.raises(ModelError, match="cells 'X'"):
        envs.box(rows=["S0G"])
    with pytest.raises(ModelError, match="limits"):
        envs.mars_rover(limits=[0.1, 0.2])


# -- random models ------------------------------------------------------------------------------------------------


def test_random_model_is_as_asked_and_reproducible() -> None:
    mdp = envs.random_cmdp(50, 3, 4, 2, 7, horizon=12)
    again = envs.random_cmdp(50, 3, 4, 2, 7, horizon=12)
    other = envs.random_cmdp(50, 3, 4, 2, 8, horizon=12)
    assert (mdp.num_states, mdp.num_actions, mdp.num_costs, mdp.horizon) == (50, 3, 2, 12)
    assert mdp.pay.tobytes() == again.pay.tobytes()
    assert mdp.graph.probability.tobytes() == again.graph.probability.tobytes()
    assert mdp.pay.tobytes() != other.pay.tobytes()
    assert np.diff(mdp.graph.start).max() == 4
    assert ((mdp.pay >= 0.0) & (mdp.pay <= 1.0)).all()
    assert mdp.pay.mean(axis=0) == pytest.approx([0.5] * 3, abs=0.1)


def test_random_model_adds_up_successors_drawn_twice() -> None:
    mdp = envs.random_cmdp(3, 2, 20, 0, 0)
    assert mdp.num_costs == 0
    assert np.diff(mdp.graph.start).tolist() == [3] * 6
    assert mdp.transitions.sum(axis=1) == pytest.approx(1.0, abs=1e-12)


def test_banded_model_stays_near() -> None:
    mdp = envs.random_cmdp(200, 3, 5, 1, 0, band=4)
    source = np.repeat(mdp.pair_state, np.diff(mdp.graph.start))
    shift = (mdp.graph.successor - source + 100) % 200 - 100
    assert sorted(set(shift.tolist())) == list(range(-4, 5))
    assert np.bincount(shift + 4) / shift.size == pytest.approx(1 / 9, abs=0.02)


@pytest.mark.parametrize(("states", "actions", "seed"), [(40, 4, 0), (40, 2, 1), (100, 4, 2), (1, 1, 3)])
def test_default_limits_can_be_kept_and_bind(states: int, actions: int, seed: int) -> None:
    mdp = envs.random_cmdp(states, actions, 3, 1, seed, horizon=8)
    assert mdp.limits is not None
    kept, free = occupation_lp(mdp, float(mdp.limits[0])), occupation_lp(mdp, np.inf)
    assert kept is not None
    assert free is not None
    if actions > 1:
        assert kept[1] == pytest.approx(mdp.limits[0], abs=1e-8)
        assert kept[0] < free[0] - 1e-3


def test_random_model_of_a_hundred_thousand_states() -> None:
    mdp = envs.random_cmdp(100_000, 4, 5, 3, 0)
    assert mdp.graph.probability.size > 1_990_000
    assert mdp.pay.shape == (400_000, 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"states": 0}, "states"), ({"successors": 2.5}, "successors"), ({"costs": -1}, "costs"), ({"band": -1}, "band")],
)
def test_bad_random_models(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{message} is"):
        envs.random_cmdp(**parameters)


# -- by name ------------------------------------------------------------------------------------------------------


def test_every_built_in_can_be_made_and_described() -> None:
    names = [entry.name for entry in envs.available()]
    assert names == list(envs.REGISTRY)
    assert " ".join(names) == (
        "mars-rover box random pricing pricing-hours bidding cluster factored media-streaming inventory"
    )
    for entry in envs.available():
        mdp = envs.make(entry.name)
        assert mdp.limits is not None
        assert entry.description.endswith(".")
        assert len(entry.description) < 100


def test_make_passes_parameters_on() -> None:
    assert envs.make("mars-rover", rock_reward=1, horizon=12).horizon == 12
    assert outcomes(envs.make("mars-rover", rock_reward=0.5), "r2c2", RIGHT)["r2c3"][1] == [0.5, 1.0]
    assert envs.make("random", states=7, band=None, limits=[3.0]).num_states == 7
    lake = envs.make("gymnasium:FrozenLake-v1", horizon=9, is_slippery=False)
    assert (lake.horizon, lake.num_states, lake.num_costs) == (9, 16, 0)
    assert lake.graph.probability.tolist() == [1.0] * 64


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("mars-rovr", {}, "did you mean 'mars-rover'"),
        ("zzz", {}, "known: mars-rover, box, .*, cluster, factored, media-streaming, inventory, gymnasium:<id>"),
        ("mars-rover", {"rock_rewards": 1.0}, "did you mean 'rock_reward'"),
        ("mars-rover", {"rock_reward": "much"}, "'rock_reward' of mars-rover is 'much'; it must be a number"),
        ("mars-rover", {"rock_reward": True}, "must be a number"),
        ("box", {"horizon": 3.5}, "must be a whole number"),
        ("random", {"band": "wide"}, "a whole number or None"),
        ("gymnasium:FrozenLak-v1", {}, "FrozenLake"),
        ("gymnasium:FrozenLake-v1", {"slipery": True}, "slipery"),
    ],
)
def test_make_refuses_what_it_does_not_know(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        envs.make(name, **parameters)


def test_model_arrays_are_frozen() -> None:
    features: NDArray[Any] | None = envs.box().features
    assert features is not None
    with pytest.raises(ValueError, match="read-only"):
        features[0] = 1.0

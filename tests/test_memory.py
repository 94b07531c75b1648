"""No kernel leaves its arrays: indices are checked at every door, and the kernels also run with bounds checks on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from launch import launch

import conrl
from conrl.errors import ConRLError, ModelError

HERE = Path(__file__).parent

# -- sparse matrices ------------------------------------------------------------------------------------------


def csr(indices: list[int], indptr: list[int], kind: Any = sp.csr_array, shape: tuple[int, int] = (2, 2)) -> Any:
    """Of indices that scipy does not look at."""
    return kind((np.ones(len(indices)), np.array(indices), np.array(indptr)), shape=shape)


def spoilt(matrix: Any, name: str, value: Any) -> Any:
    """As somebody leaves it who changes the arrays of a matrix."""
    getattr(matrix, name)[...] = value
    return matrix


def blocks(indices: list[int]) -> Any:
    return sp.bsr_array((np.ones((2, 1, 1)), np.array(indices), np.array([0, 1, 2])), shape=(2, 2))


def coordinates(row: Any, column: Any) -> Any:
    matrix = sp.coo_array(np.eye(2))
    matrix.coords = (np.array(row), np.array(column))
    return matrix


def lists(column: int) -> Any:
    matrix = sp.lil_array(np.eye(2))
    matrix.rows[1][0] = column
    return matrix


BROKEN: dict[str, Callable[[], Any]] = {
    "columns from 1": lambda: csr([1, 2], [0, 1, 2]),
    "negative column": lambda: csr([0, -1], [0, 1, 2]),
    "far column": lambda: csr([0, 2**40], [0, 1, 2]),
    "rows from 1": lambda: csr([1, 2], [0, 1, 2], sp.csc_array),
    "negative row": lambda: csr([0, -2], [0, 1, 2], sp.csc_array),
    "falling indptr": lambda: spoilt(csr([0, 1], [0, 1, 2]), "indptr", [0, 5, 2]),
    "negative indptr": lambda: spoilt(csr([0, 1], [0, 1, 2]), "indptr", [0, -3, 2]),
    "late indptr": lambda: spoilt(csr([0, 1], [0, 1, 2]), "indptr", [1, 1, 2]),
    "long indptr": lambda: spoilt(csr([0, 1], [0, 1, 2]), "indptr", [0, 1, 9]),
    "blocks from 1": lambda: blocks([1, 2]),
    "coordinates from 1": lambda: coordinates([0, 1], [1, 2]),
    "negative coordinate": lambda: coordinates([-1, 1], [0, 1]),
    "lists from 1": lambda: lists(2),
    "old matrices": lambda: csr([1, 2], [0, 1, 2], sp.csr_matrix),
}


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("where", ["transitions", "rewards", "costs"])
def test_indices_of_a_sparse_matrix_are_checked(make: Callable[[], Any], where: str) -> None:
    """Unchecked, the first gave 9.985 in place of the 50 that is the only right answer, and a crash in `simulate`."""
    given: dict[str, Any] = {"transitions": sp.csr_array(np.eye(2)), "rewards": np.ones((2, 1)), "costs": None}
    given[where] = [make()] if where == "costs" else make()
    with pytest.raises(ModelError, match=rf"^{where}.* is no sparse matrix: .*; rows and columns count from 0$"):
        conrl.ConstrainedMDP(**given, horizon=50)


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
def test_sound_sparse_matrices_of_any_form_are_read(form: str) -> None:
    table = np.array([[0.5, 0.5], [0.0, 1.0]])
    mdp = conrl.ConstrainedMDP(sp.csr_array(table).asformat(form), np.ones((2, 1)), None, 50)
    assert np.array_equal(mdp.transitions.toarray(), table)
    assert conrl.evaluate(mdp, conrl.Deterministic(np.zeros((50, 2), int), 1)).reward == 50.0


# -- other doors ----------------------------------------------------------------------------------------------


def outcomes(**changes: Any) -> conrl.ConstrainedMDP:
    given: dict[str, Any] = {
        "state": [0, 1],
        "action": [0, 0],
        "successor": [1, 0],
        "probability": [1.0, 1.0],
        "pay": [[1.0], [1.0]],
        "num_states": 2,
        "num_actions": 1,
        "horizon": 3,
    }
    return conrl.ConstrainedMDP.from_outcomes(**(given | changes))


@pytest.mark.parametrize("name", ["state", "action", "successor"])
@pytest.mark.parametrize(
    "wrong",
    [
        [0, 2],
        [0, -1],
        [0, 2**31],
        [0, 2**32],
        [0, 2**63 - 1],
        np.array([0, 2**64 - 1], np.uint64),
        [0, np.nan],
        [0, 0.5],
    ],
    ids=str,
)
def test_indices_of_outcomes_are_checked(name: str, wrong: Any) -> None:
    with pytest.raises(ModelError, match=name):
        outcomes(**{name: wrong})


@pytest.mark.parametrize("name", ["num_states", "num_actions"])
@pytest.mark.parametrize("wrong", [0, -1, 2**31, 2**63, 10**400, 1.5, True, None, "2"])
def test_sizes_are_checked(name: str, wrong: Any) -> None:
    with pytest.raises(ModelError, match=name.removeprefix("num_")):
        outcomes(**{name: wrong})
    sizes = {"num_states": 2, "num_actions": 1} | {name: wrong}
    with pytest.raises(ModelError, match=name.removeprefix("num_")):
        conrl.Task(**sizes, horizon=3, limits=[], cost_names=[])


@pytest.mark.parametrize(
    ("actions", "count"),
    [
        ([[0, 1]], 1),
        ([[0, -1]], 1),
        ([[0, 70_000]], 100_000),  # would wrap around in 16 bits
        ([[0, 2**16]], 2),
        ([[0.0, np.nan]], 1),
        (np.array([[0, 2**64 - 1]], np.uint64), 1),
        ([[0, 0]], 0),
        ([[0, 0]], None),
        ([[0], [0, 0]], 1),
    ],
)
def test_actions_of_a_policy_are_checked(actions: Any, count: Any) -> None:
    with pytest.raises(ModelError, match="action"):
        conrl.Deterministic(actions, count)


@pytest.mark.parametrize("wrong", [2, -1, 2**31, 2**62])
@pytest.mark.parametrize("name", ["states", "actions"])
def test_indices_of_episodes_are_checked(name: str, wrong: int) -> None:
    """Where a learner observes or is primed, and where a model is estimated for a task."""
    mdp = outcomes()
    columns: dict[str, Any] = {"states": [0, 1, 0], "actions": [0, 0]}
    columns[name][1] = wrong
    episode = conrl.Episode(**columns, rewards=[1.0, 1.0], costs=np.zeros((2, 0)))
    for refuses in (
        lambda: conrl.ConRL(mdp.task).observe(episode),
        lambda: conrl.ConRL(mdp.task).prime([episode]),
        lambda: conrl.estimate([episode], task=mdp.task),
    ):
        with pytest.raises(ConRLError, match=str(wrong)):
            refuses()


def test_a_state_index_that_no_memory_holds_is_refused() -> None:
    episode = conrl.Episode([0, 2**62, 0], [0, 0], [1.0, 1.0], np.zeros((2, 0)))
    with pytest.raises(ConRLError, match="states; at most 2147483647"):
        conrl.estimate([episode])
    with pytest.raises(ConRLError, match="-1"):
        conrl.estimate([conrl.Episode([0, -1, 0], [0, 0], [1.0, 1.0], np.zeros((2, 0)))])


# -- bounds checks --------------------------------------------------------------------------------------------

END_TO_END = """
import numpy as np
import conrl
from conrl import kernels
from conrl.envs import make

try:  # that checks are on
    kernels.markov(np.array([0, 9]), np.zeros(1, int), np.ones((1, 1)), np.zeros((1, 1), int), np.zeros((1, 1, 1)))
    raise SystemExit("no bounds are checked")
except IndexError:
    pass

for mdp in (make("mars-rover", rock_reward=1.0), make("random", states=9, costs=2, horizon=5)):
    plan = conrl.plan(mdp)
    for policy in (plan, plan.policy, plan.mixture, *plan.mixture.policies):
        conrl.evaluate(mdp, policy)
        conrl.simulate(mdp, policy, 20)
    conrl.frontier(mdp, max_vertices=4)
    bonus = mdp.with_bonus(np.full((mdp.num_states, mdp.num_actions), 0.1))
    conrl.plan(bonus).policy
    for kind in (conrl.ConRL, conrl.UCBVI, conrl.OptCMDP, conrl.OptPrimalDual, conrl.PosteriorSampling):
        conrl.learn(mdp, kind(mdp.task), 3)
    conrl.learn(mdp, conrl.ConRL(mdp.task, bonus=conrl.BernsteinBonus()), 3)
    single = conrl.single_episode(mdp) if mdp.layout else mdp
    conrl.learn(single, conrl.TFWUCRL2(single.task), 3)
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which kernels check bounds; what is compiled there stays out of everybody's cache."""
    cache = tmp_path_factory.mktemp("cache")
    return os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}


def test_kernels_stay_within_bounds(checked: dict[str, str]) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "test_kernels.py",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    done = launch(command, cwd=HERE, env=checked)
    assert done.returncode == 0, done.stdout[-3000:]


def test_planning_and_learning_stay_within_bounds(checked: dict[str, str]) -> None:
    done = launch([sys.executable, "-c", END_TO_END], env=checked)
    assert (done.returncode, done.stderr) == (0, "")

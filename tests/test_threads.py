"""Every public object may be read from many threads, and plans may be made at once: the same bits as one by one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numba
import numpy as np
import pytest
from bank import random_model
from launch import launch

import conrl
from conrl.kernels import compiling
from conrl.oracles import BackwardInduction, Supports
from conrl.oracles.extended import ExtendedBackwardInduction
from conrl.planners.column_generation.cones import Cones
from conrl.planners.column_generation.expressions import Expressions

THREADS = 8


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """Threads change places as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*work: Callable[[], Any], rounds: int = 1) -> list[list[Any]]:
    """What each of them gives, `rounds` times, all at once; the first error of any."""
    barrier = threading.Barrier(len(work))

    def run(mine: Callable[[], Any]) -> list[Any]:
        barrier.wait()
        return [mine() for _ in range(rounds)]

    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(run, mine) for mine in work]]


def bits(value: Any) -> Any:
    """What must be equal, to the last bit."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, conrl.Plan):
        numbers = (
            value.reward,
            value.costs,
            value.objective,
            value.bound,
            value.multipliers,
            value.prices,
            value.weights,
        )
        return bits([*numbers, value.status, value.iterations, bits(value.mixture), bits(value.policy)])
    if isinstance(value, conrl.Mixture):
        return bits([value.weights, *value.policies])
    if isinstance(value, conrl.Policy):
        return bits([value.probabilities, value.mode])
    if isinstance(value, Supports | conrl.Evaluation | list | tuple):
        return tuple(bits(x) for x in value)
    return repr(value)


MODELS = [random_model(seed, 30, 3, 12, 2) for seed in range(3)]


def limited(mdp: conrl.ConstrainedMDP) -> conrl.ConstrainedMDP:
    """Both limits bind halfway between what is possible."""
    least = conrl.feasibility(mdp, np.full(2, 1e9)).least
    free = conrl.plan(mdp, conrl.Linear()).costs
    return mdp.replace(limits=0.5 * (least + free))


# -- oracles and plans ----------------------------------------------------------------------------------------


def oracles() -> list[Any]:
    mdp = random_model(1, 200, 3, 20, 2)
    bonus = mdp.with_bonus(np.full((200, 3), 0.1))
    return [BackwardInduction(mdp), BackwardInduction(bonus), ExtendedBackwardInduction(MODELS[0], 0.1)]


@pytest.mark.parametrize("oracle", oracles(), ids=["plain", "bonus", "extended"])
def test_threads_share_an_oracle(oracle: Any) -> None:
    directions = np.random.default_rng(0).normal(size=(THREADS, 5, 3))
    expected = [
        (bits(oracle.support_many(W)[:3]), bits(oracle.support(W[0])[:3]), bits(oracle.policy(W[0])))
        for W in directions
    ]

    def ask(W: Any) -> Callable[[], Any]:
        return lambda: (bits(oracle.support_many(W)[:3]), bits(oracle.support(W[0])[:3]), bits(oracle.policy(W[0])))

    for mine, answers in zip(expected, together(*(ask(W) for W in directions), rounds=20), strict=True):
        assert all(answer == mine for answer in answers)


def test_threads_make_the_policies_of_a_plan() -> None:
    mdp = limited(random_model(2, 200, 3, 20, 2))
    alone = conrl.plan(mdp)
    assert alone.weights.size > 1
    expected = [bits(alone.component(i)) for i in range(alone.weights.size)]
    shared = conrl.plan(mdp)

    def make(i: int) -> Callable[[], Any]:
        return lambda: bits(shared.component(i))

    places = [k % len(expected) for k in range(THREADS)]
    for i, made in zip(places, together(*(make(i) for i in places), rounds=25), strict=True):
        assert all(policy == expected[i] for policy in made)
    assert bits(shared) == bits(alone)  # and nothing wrong was kept


def test_threads_read_a_new_plan() -> None:
    for mdp in map(limited, MODELS):
        expected = bits(conrl.plan(mdp))
        shared = conrl.plan(mdp)
        assert together(*[lambda: bits(shared)] * THREADS) == [[expected]] * THREADS  # noqa: B023


def planned(mdp: conrl.ConstrainedMDP, problem: Any, planner: str) -> Callable[[], Any]:
    return lambda: bits(conrl.plan(mdp, problem, planner))


@pytest.mark.parametrize("planner", ["column-generation", "linear-program", "lagrangian"])
def test_threads_plan_at_once(planner: str) -> None:
    models = [limited(mdp) for mdp in MODELS]
    work = [planned(models[k % 3], None, planner) for k in range(THREADS)]
    expected = [planned(mdp.replace(horizon=12), None, planner)() for mdp in models]  # on graphs of their own
    for k, found in enumerate(together(*work, rounds=3)):
        assert all(plan == expected[k % 3] for plan in found)


def test_threads_plan_knapsacks_at_once() -> None:
    problems = [conrl.Knapsack(20.0 * k * np.ones(2), 20) for k in (1, 2, 3)]
    expected = [planned(MODELS[0], problem, "column-generation")() for problem in problems]
    work = [planned(MODELS[0], problems[k % 3], "column-generation") for k in range(THREADS)]
    for k, found in enumerate(together(*work, rounds=3)):
        assert all(plan == expected[k % 3] for plan in found)


@pytest.mark.parametrize("planner", ["column-generation", "convex-program"])
def test_threads_plan_convex_problems_at_once(planner: str) -> None:
    """Problems whose functions are compiled once and shared."""
    import cvxpy as cp

    mdp = random_model(3, 4, 2, 3, 2)
    problems = [
        conrl.ConcaveConvex(lambda x, k=k: x - 0.01 * k * cp.square(x), lambda y: cp.norm(y) - 10.0) for k in (1, 2)
    ]
    expected = [planned(mdp, problem, planner)() for problem in problems]
    work = [planned(mdp, problems[k % 2], planner) for k in range(4)]
    for k, found in enumerate(together(*work, rounds=2)):
        assert all(plan == expected[k % 2] for plan in found)


def test_threads_evaluate_the_functions_of_a_convex_problem() -> None:
    import cvxpy as cp

    cones = Cones(Expressions(lambda x: -cp.square(x), [lambda y: cp.sum(y)], np.zeros(3), np.ones(3)))

    def value(x: float) -> Callable[[], Any]:
        return lambda: cones.value(np.array([x, 2.0 * x, 3.0 * x]))

    for k, found in enumerate(together(*(value(float(k)) for k in range(THREADS)), rounds=50)):
        for f, g in found:
            assert f == pytest.approx(-float(k * k))
            assert g == pytest.approx(5.0 * k)


def test_threads_find_frontiers_and_conflicts() -> None:
    mdp = limited(MODELS[0])
    curve = conrl.frontier(mdp)
    middle = float(curve.limits[[0, -1]].mean())

    def read() -> Any:
        fresh = conrl.frontier(mdp, max_vertices=6)
        return bits([fresh.limits, fresh.rewards, curve.reward(middle), curve.price(middle), fresh.prices])

    def conflict() -> Any:
        with pytest.raises(conrl.InfeasibleError) as caught:
            curve.reward(float(curve.limits[0]) - 1.0)
        return str(caught.value)

    expected = [read(), conflict()] * (THREADS // 2)
    assert [set(found) for found in together(*[read, conflict] * (THREADS // 2), rounds=2)] == [{e} for e in expected]


# -- models, policies, histories --------------------------------------------------------------------------------


DERIVED = ("graph", "reach", "pair_state", "pair_index", "transitions", "rewards", "costs", "available", "task")


def read_model(mdp: conrl.ConstrainedMDP, names: tuple[str, ...]) -> Any:
    found = {name: getattr(mdp, name) for name in names}
    found["transitions"] = found["transitions"].toarray()
    return [bits(found[name]) if name != "task" else repr(found[name]) for name in DERIVED]


def test_threads_read_a_new_model() -> None:
    """Each in another order: what is derived is made by whoever comes first."""
    expected = read_model(random_model(5, 50, 4, 9, 2), DERIVED)
    for _ in range(5):
        shared = random_model(5, 50, 4, 9, 2)
        orders = [DERIVED[k:] + DERIVED[:k] for k in range(THREADS)]
        found = together(*(lambda names=names: read_model(shared, names) for names in orders))  # noqa: B023
        assert found == [[expected]] * THREADS
        reach = [same for (same,) in together(*[lambda: shared.reach] * THREADS)]  # noqa: B023
        assert all(same is reach[0] for same in reach)


def test_threads_read_policies() -> None:
    mdp = limited(MODELS[1])
    plan = conrl.plan(mdp)
    parts = [plan.policy, plan.mixture, *plan.mixture.policies]

    def read(policies: list[Any]) -> Any:
        values = [bits(conrl.evaluate(mdp, policy)) for policy in policies]
        totals = [conrl.simulate(mdp, policy, 20, seed=k) for k, policy in enumerate(policies)]
        return values, [bits([t.rewards, t.costs]) for t in totals]

    expected = read(parts)
    for _ in range(3):  # policies that nobody has read yet
        fresh = conrl.plan(mdp)
        shared = [fresh.policy, fresh.mixture, *fresh.mixture.policies]
        assert together(*[lambda: read(shared)] * THREADS) == [[expected]] * THREADS  # noqa: B023


def test_threads_read_a_history() -> None:
    mdp = limited(MODELS[2])
    names = ("rewards", "costs", "expected_rewards", "expected_costs", "steps", "skipped", "prices", "violations")

    def make() -> conrl.History:
        return conrl.learn(mdp, conrl.ConRL(mdp.task), episodes=5, seed=1)

    def read(history: conrl.History, order: tuple[str, ...]) -> Any:
        found = {name: bits(getattr(history, name)) for name in order}
        return [found[name] for name in names], bits([history.regret.reward, history.regret.cost, len(history)])

    expected = read(make(), names)
    shared = make()
    work = [lambda order=names[k:] + names[:k]: read(shared, order) for k in range(THREADS)]
    assert together(*work) == [[expected]] * THREADS


def test_threads_learn_at_once() -> None:
    mdp = limited(MODELS[0])

    def learn(seed: int) -> Any:
        history = conrl.learn(mdp, conrl.ConRL(mdp.task), episodes=4, seed=seed)
        return bits([history.rewards, history.costs, history.expected_rewards])

    expected = [learn(seed) for seed in range(4)]
    assert together(*(lambda seed=seed: learn(seed) for seed in range(4))) == [[e] for e in expected]


def test_a_history_is_read_while_it_grows() -> None:
    """No table of an earlier length is kept."""
    history = conrl.learn(MODELS[0], conrl.ConRL(MODELS[0].task), episodes=1, seed=1)
    row = history._rows[0]
    stop = threading.Event()

    def grow() -> None:
        for _ in range(300):
            history.append(row)
        stop.set()

    def read() -> None:
        while not stop.is_set():
            assert history.costs.shape[1] == 2

    together(grow, *[read] * 3)
    assert history.costs.shape == (301, 2)


def test_what_is_made_of_a_history_is_of_all_its_rows() -> None:
    """Also if a row came while it was being made."""
    history = conrl.learn(MODELS[0], conrl.ConRL(MODELS[0].task), episodes=3, seed=1)
    row, table = history._rows[0], history._table

    def late(name: str) -> Any:
        if name == "expected" and len(history) < 5:
            history.append(row)
        return table(name)

    history._table = late  # type: ignore[method-assign]
    for _ in range(3):
        scores = history.scores
        assert len(scores.seen) == len(scores.executed) == len(scores.smooth)
        assert len(history.regret.reward) in (4, 5)
    assert len(history.scores.seen) == len(history.regret.reward) == len(history) == 5


# -- what a process has once ------------------------------------------------------------------------------------


def test_threads_compile_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """All with the vectoriser on, and it is as it was afterwards."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    config: Any = numba.config
    before = config.SLP_VECTORIZE
    seen: list[Any] = []

    def make(k: int) -> Callable[[], Any]:
        kernel: Any = compiling.compiled(lambda x: x + k)
        inner = kernel._compiler.compile

        def compile_and_look(*given: Any) -> Any:
            result = inner(*given)
            seen.append(config.SLP_VECTORIZE)
            return result

        kernel._compiler.compile = compile_and_look
        return lambda: kernel(1)

    assert together(*(make(k) for k in range(THREADS))) == [[1 + k] for k in range(THREADS)]
    assert seen == [1] * THREADS
    assert before == config.SLP_VECTORIZE


def test_who_waits_is_told_once() -> None:
    told: list[int] = []
    waiting: list[Callable[[], None]] = [partial(told.append, k) for k in range(1000)]
    together(*[partial(compiling.tell_once, waiting)] * THREADS)
    assert sorted(told) == list(range(1000))


IMPORTS = """
import sys, threading
import conrl
sys.setswitchinterval(1e-6)
names = [name for name in conrl.__all__ if not name.startswith("_")]
barrier, wrong = threading.Barrier(len(names)), []
def read(k):
    barrier.wait()
    for name in names[k:] + names[:k]:
        try:
            assert getattr(conrl, name) is not None
        except BaseException as error:
            wrong.append(f"{name}: {error!r}")
threads = [threading.Thread(target=read, args=(k,)) for k in range(len(names))]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit("\\n".join(wrong) or None)
"""


def test_threads_load_the_package() -> None:
    """Names are loaded when first used: here by as many threads, each beginning with another."""
    done = launch([sys.executable, "-c", IMPORTS])
    assert (done.returncode, done.stderr) == (0, "")


def test_a_look_for_gymnasium_does_not_lose_its_registration() -> None:
    """Whoever asks whether it is installed must not keep its import from registering the environments."""
    code = (
        "import conrl, importlib.util as u; assert u.find_spec('gymnasium'); import gymnasium; "
        "assert 'conrl/MarsRover-v0' in gymnasium.registry"
    )
    done = launch([sys.executable, "-c", code])
    assert (done.returncode, done.stderr) == (0, "")

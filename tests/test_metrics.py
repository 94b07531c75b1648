"""Each number of a run against its definition in plain Python; and one run says the same everywhere."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conrl
from conrl import metrics
from conrl._types import Float
from conrl.envs import bidding, mars_rover
from conrl.experiments import load
from conrl.experiments.report import contents
from conrl.experiments.store import learn_on_disk
from conrl.learners.appropo import ApproPO
from conrl.learners.tfw_ucrl2 import TFWUCRL2
from conrl.learners.ucbvi import UCBVI
from conrl.metrics import Scores
from conrl.model.transform import reachable_part, single_episode
from conrl.running.progress import facts

NAN, INF = float("nan"), float("inf")
EDGE = 1e-7  # of a size: by which made-up numbers miss the edges of a definition, so that rounding decides nothing


@st.composite
def runs(draw: st.DrawFn) -> Scores:
    """A run of few numbers, so that means often are near a limit; limits of 0 and none, floors, rows of nan."""
    K, d = draw(st.integers(0, 40)), draw(st.integers(0, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def table() -> Float:
        return rng.choice([-1.0, 0.0, 0.1, 0.5, 1.0], size=(K, 1 + d))

    def holes(values: Float) -> Float:
        values[rng.uniform(size=K) < 0.3] = np.nan
        return values

    kind = draw(st.sampled_from(["seen", "exact", "guarded", "reported"]))
    return Scores(
        seen=table(),
        expected=None if kind == "seen" else holes(table()) if kind == "guarded" else table(),
        reported=holes(table()) if kind == "reported" else None,
        limits=np.array([draw(st.sampled_from([0.0, 0.3, INF])) for _ in range(d)]),
        floors=np.array([draw(st.sampled_from([-INF, -0.2, 0.0])) for _ in range(d)]),
        largest=np.array([draw(st.sampled_from([0.5, 1.0, 3.0])) for _ in range(1 + d)]),
        continuing=draw(st.booleans()),
    )


def rows_of(values: Float) -> list[list[float]]:
    return [[float(x) for x in row] for row in values]


def mean(rows: list[list[float]], width: int) -> list[float]:
    known = [row for row in rows if not any(map(math.isnan, row))]
    return [math.fsum(row[i] for row in known) / len(known) if known else NAN for i in range(width)]


def slowly_smoothed(run: Scores, values: Float, window: int = 100) -> list[list[float]]:
    rows, width = rows_of(values), run.seen.shape[1]
    return rows if run.continuing else [mean(rows[max(0, k - window) : k], width) for k in range(1, len(rows) + 1)]


def slowly_executed(run: Scores) -> Float:
    table = run.seen.copy()
    for k in range(run.episodes):
        if run.expected is not None and not any(math.isnan(x) for x in run.expected[k]):
            table[k] = run.expected[k]
    return table


def out(run: Scores, costs: list[float], slack: float = EDGE) -> list[bool]:
    """Which costs are more than 10% above a limit or below a floor."""
    found = []
    for i, cost in enumerate(costs):
        limit, floor, largest = float(run.limits[i]), float(run.floors[i]), float(run.largest[1 + i])
        above = math.isfinite(limit) and cost > limit + 0.1 * (abs(limit) or largest) + slack
        below = math.isfinite(floor) and cost < floor - 0.1 * (abs(floor) or largest) - slack
        found.append(above or below)
    return found


@settings(deadline=None, max_examples=300)
@given(runs())
def test_smoothed_and_final(run: Scores) -> None:
    executed = slowly_executed(run)
    values = executed if run.reported is None else run.reported
    width = run.seen.shape[1]
    assert np.array_equal(run.executed, executed)
    assert np.array_equal(run.values, values, equal_nan=True)
    for fast, slow in (
        (run.smooth, slowly_smoothed(run, values)),
        (run.smooth_executed, slowly_smoothed(run, executed)),
        (run.smoothed(values, 3), slowly_smoothed(run, values, 3)),
        (run.averages, slowly_smoothed(run, executed, max(run.episodes, 1))),
    ):
        assert np.allclose(fast, np.reshape(slow, (run.episodes, width)), atol=1e-12, equal_nan=True)
    last = rows_of(values)[-(1 if run.continuing else max(1, round(run.episodes / 10))) :]
    assert np.allclose(run.final, mean(last, width), atol=1e-12, equal_nan=True)
    assert run.final.shape == (width,)


@settings(deadline=None, max_examples=300)
@given(runs())
def test_violations_and_solved(run: Scores) -> None:
    """By the definition; where a mean lies on an edge but for rounding, either answer will do."""
    executed = [row[1:] for row in slowly_smoothed(run, slowly_executed(run))]
    for i, share in enumerate(run.violations.tolist()):
        surely = sum(out(run, costs)[i] for costs in executed)
        perhaps = sum(out(run, costs, -EDGE)[i] for costs in executed)
        assert surely <= round(share * max(run.episodes, 1)) <= perhaps
    values = slowly_smoothed(run, run.values)
    for optimum in (0.0, 0.4, -0.5):
        low = optimum - 0.1 * (abs(optimum) or float(run.largest[0]))

        def first(slack: float, low: float = low) -> int | None:
            good = [row[0] >= low - slack and not any(out(run, row[1:], slack)) for row in values]
            lasting = [k for k in range(1, len(good) + 1) if all(good[k - 1 :])]
            return lasting[0] if lasting else None

        assert run.solved_from(optimum) in (first(EDGE), first(-EDGE))
    assert run.solved_from(None) is None


@settings(deadline=None, max_examples=300)
@given(runs(), st.sampled_from([0.0, 0.4, -0.5]))
def test_regret_and_strong_sums(run: Scores, optimum: float) -> None:
    executed = rows_of(slowly_executed(run))
    limits, floors = run.limits.tolist(), run.floors.tolist()
    got = metrics.regret(run.averages, optimum, run.limits, run.floors)
    for k, row in enumerate(slowly_smoothed(run, run.executed, max(run.episodes, 1))):
        excess = [max(c - u, lo - c) for c, u, lo in zip(row[1:], limits, floors, strict=True)]
        assert got.reward[k] == pytest.approx(optimum - row[0])
        assert got.cost[k] == pytest.approx(max(excess, default=-INF))
    violation, short = run.strong_violation, run.strong_regret(optimum)
    if run.expected is None or run.continuing or np.isnan(run.expected).any():
        assert violation is short is None
        return
    assert violation is not None
    assert short is not None
    assert violation.shape == (run.episodes, len(limits))
    for k in range(run.episodes):
        assert short[k] == pytest.approx(math.fsum(max(optimum - row[0], 0.0) for row in executed[: k + 1]))
        for i, (limit, floor) in enumerate(zip(limits, floors, strict=True)):
            costs = [row[1 + i] for row in executed[: k + 1]]
            assert violation[k, i] == pytest.approx(math.fsum(max(c - limit, 0.0, floor - c) for c in costs))


def test_nothing_cancels_in_strong_sums() -> None:
    """Above the limit and below it in turn: the regret is 0, the strong sums grow."""
    values = np.array([[2.0, 0.0], [0.0, 2.0]] * 5)
    run = Scores(
        seen=values, expected=values, limits=np.ones(1), floors=np.array([-INF]), largest=np.ones(2), continuing=False
    )
    weak = metrics.regret(run.averages, 1.0, run.limits, run.floors)
    assert weak.reward[-1] == weak.cost[-1] == 0.0
    assert run.strong_violation is not None
    assert run.strong_violation[:, 0].tolist() == [0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0]
    short = run.strong_regret(1.0)
    assert short is not None
    assert short.tolist() == run.strong_violation[:, 0].tolist()


def test_windows_and_tolerances_are_given() -> None:
    values = np.array([[0.0, 1.0]] * 10 + [[1.0, 0.5]] * 30)
    smoothed = metrics.smooth(values, 20)
    assert smoothed[28].tolist() == [19 / 20, 10.5 / 20]
    largest = np.ones(1)
    over = metrics.violated(smoothed[:, 1:], np.array([0.5]), np.array([-INF]), largest, over=0.0)
    assert int(over.sum()) == 29
    assert metrics.first_lasting(metrics.reaches(smoothed[:, 0], 1.0, 1.0, near=0.05)) == 29
    assert metrics.first_lasting(metrics.reaches(smoothed[:, 0], 1.0, 1.0, near=0.5)) == 20
    assert metrics.first_lasting(np.zeros(0, dtype=bool)) is None
    assert metrics.final(values, 0.5).tolist() == [1.0, 0.5]


# -- one run, everywhere ----------------------------------------------------------------------------------


def rover() -> conrl.ConstrainedMDP:
    return mars_rover(rock_reward=1.0)


def endless() -> conrl.ConstrainedMDP:
    return reachable_part(single_episode(rover()))


def appropo(mdp: conrl.ConstrainedMDP) -> ApproPO:
    return ApproPO(mdp.task, threshold=1.4, episodes=5)


CASES: dict[str, tuple[Any, Any, int]] = {
    "conrl": (rover, lambda mdp: conrl.ConRL(mdp.task), 400),
    "ucbvi": (rover, lambda mdp: UCBVI(mdp.task), 150),
    "one episode": (rover, lambda mdp: conrl.ConRL(mdp.task), 1),
    "a floor": (rover, lambda mdp: conrl.ConRL(mdp.task, problem=conrl.Linear([0.5], [0.45])), 250),
    "a limit of 0": (bidding, lambda mdp: conrl.ConRL(mdp.task, problem=conrl.Linear([0.0])), 150),
    "no limit": (rover, lambda mdp: conrl.ConRL(mdp.task, problem=conrl.Linear()), 150),
    "budgets": (rover, lambda mdp: conrl.ConRL(mdp.task, problem=conrl.Knapsack([30.0], 150, 0.1)), 150),
    "tfw-ucrl2": (endless, lambda mdp: TFWUCRL2(mdp.task), 60),
    "appropo": (rover, appropo, 60),
}


def safe_regret(history: conrl.History) -> float | None:
    try:
        regret = history.safe_regret()
    except (conrl.InfeasibleError, conrl.RunError):
        return None
    return None if regret is None else float(regret[-1])


def standings(history: conrl.History) -> dict[str, float | None]:
    last, average = history.last_iterate, history.average_policy
    return {
        "last_iterate_reward": None if last is None else last.value[0],
        "last_iterate_cost": None if last is None else last.value[1],
        "last_iterate_shortfall": None if last is None else last.shortfall,
        "last_iterate_excess": None if last is None else last.excess[0],
        "average_policy_reward": None if average is None else average.value[0],
        "average_policy_cost": None if average is None else average.value[1],
    }


@pytest.mark.parametrize("case", CASES)
def test_one_run_says_the_same_everywhere(case: str, tmp_path: Path) -> None:
    """Its history, the run read back, the table, its CSV file and the data of the report."""
    make, learner, episodes = CASES[case]
    mdp = make()
    env = "bidding" if make is bidding else "mars-rover"
    config = {"env": env, "settings": {} if make is bidding else {"rock_reward": 1.0}, "start": None}
    where = tmp_path / env / "learner" / "seed-000"
    _, history = learn_on_disk(where, mdp, lambda: learner(mdp), episodes, 0, config=config)
    study = load(tmp_path)
    (run,) = study.runs
    (row,) = study.summary().to_dicts()
    study.save_csv(tmp_path / "summary.csv")
    (cells,) = csv.DictReader((tmp_path / "summary.csv").read_text().splitlines())
    (shown,) = contents(study)["environments"][0]["table"]

    best = study.optimum(env, "learner")
    assert history.optimum is not None
    assert best == pytest.approx(history.optimum.reward)
    assert np.array_equal(history.smooth, run.smooth, equal_nan=True)
    assert np.array_equal(history.violations, run.violations)
    assert history.solved_from == run.solved_from(best)
    wanted = {
        "violations": history.violations[0],
        "solved": history.solved_from,
        "reward": history.final[0],
        "cost": history.final[1],
        "regret": history.regret.reward[-1],
        "strong_violation": None if history.strong_violation is None else history.strong_violation[-1, 0],
        "strong_regret": None if history.strong_regret is None else history.strong_regret[-1],
        "violating": None if history.violating() is None else history.violating()[0],
        "safe_regret": safe_regret(history),
        **standings(history),
    }
    for name, value in wanted.items():
        if value is None or math.isnan(value):
            assert row[name] is None or math.isnan(row[name]), name
            assert cells[name] in ("", "NaN"), name
            assert shown[name] is None, name
        else:
            assert row[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
            assert float(cells[name]) == row[name], name
            assert shown[name] == pytest.approx(value, rel=1e-5, abs=1e-12), name  # six digits
    if case == "conrl":
        assert history.solved_from is not None
        assert 0.0 < history.violations[0] < 1.0
    if case == "a floor":
        assert (row["limit"], row["floor"]) == (0.5, 0.45)
        assert (run.smooth[:, 1] < 0.45 * 0.9).any()  # so that the floor counts among the violations
    if case == "tfw-ucrl2":
        assert history.strong_violation is history.strong_regret is None


@pytest.mark.parametrize("case", ["conrl", "budgets", "tfw-ucrl2", "appropo"])
def test_the_progress_bar_says_the_same(case: str) -> None:
    make, learner, _ = CASES[case]
    mdp = make()
    history = conrl.learn(mdp, learner(mdp), 120 if case == "conrl" else 30, seed=0)
    assert history.recent() == pytest.approx(history.scores.smooth_executed[-1])
    line = facts(history, history.recent(), history.violations)
    assert f"{history.scores.smooth_executed[-1, 1]:.3f}/" in line
    share = history.violations[0]
    assert (f"({share:.0%} over)" in line) == (share > 0.0)
    assert line.endswith("(mean)" if case == "tfw-ucrl2" else "(mean of 100)")


def test_what_is_unknown_is_none() -> None:
    """Without a model there is no optimum; of functions of the costs there is no limit to be within."""
    mdp = rover()
    blind = conrl.History(mdp.cost_names, conrl.Linear([0.3]))
    blind.append(conrl.learn(mdp, conrl.ConRL(mdp.task), 1, seed=0)._rows[0]._replace(expected=None))
    assert (blind.solved_from, blind.strong_regret, blind.strong_violation) == (None, None, None)
    assert blind.violations.tolist() == [0.0]
    assert np.array_equal(blind.final, [blind.rewards[0], blind.costs[0, 0]])
    problem = conrl.ConcaveConvex(lambda x: x, lambda c: c[0] - 0.3)
    free = conrl.learn(mdp, conrl.ConRL(mdp.task, problem=problem), 2, seed=0)
    assert (free.solved_from, free.strong_regret, free.strong_violation) == (None, None, None)
    assert free.regret.reward.shape == (2,)

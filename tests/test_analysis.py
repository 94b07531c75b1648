"""Tables and curves of studies, against numbers worked out here from runs that are made up here."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
import scipy.stats
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

import conrl
from conrl.cli.main import main
from conrl.experiments import Job, Run, RunRecord, Study, environments, load, parse_spec, run_study
from conrl.experiments.curves import spaced
from conrl.experiments.report import contents
from conrl.metrics import NEAR, OVER, WINDOW

Float = NDArray[np.float64]

BEST = conrl.plan(conrl.envs.mars_rover(rock_reward=1.0)).reward  # 1.5362884 at limit 0.3


def write_run(
    root: Path,
    rewards: ArrayLike,
    costs: dict[str, ArrayLike] | None = None,
    expected: ArrayLike | None = None,
    *,
    place: tuple[str, str, int] = ("mars-rover", "conrl", 0),
    limits: list[float | None] | None = None,
    learner: str = "conrl",
    problem: dict[str, Any] | None = None,
    episodes: int | None = None,
    config: dict[str, Any] | None = None,
) -> Path:
    """The files of a run. `expected` [K, 1+d]; nan is an empty cell."""
    where = root / place[0] / place[1] / f"seed-{place[2]:03d}"
    where.mkdir(parents=True)
    costs = {"crash": np.zeros(np.size(rewards))} if costs is None else costs
    table: dict[str, Float] = {"reward": np.asarray(rewards, float)}
    table |= {f"cost_{name}": np.asarray(values, float) for name, values in costs.items()}
    if expected is not None:
        columns = np.asarray(expected, float).reshape(len(table["reward"]), -1)
        names = ["expected_reward", *(f"expected_cost_{name}" for name in costs)]
        table |= {name: columns[:, i] for i, name in enumerate(names)}
    K = len(table["reward"])
    table |= {"steps": np.full(K, 30.0), "skipped": np.zeros(K), "guarded": np.zeros(K), "infeasible": np.zeros(K)}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["episode", *table])
    for k in range(K):
        writer.writerow([k + 1, *("" if np.isnan(x[k]) else repr(float(x[k])) for x in table.values())])
    (where / "progress.csv").write_text(text.getvalue())
    given = [0.3] * len(costs) if limits is None else limits
    settings = {
        "version": 1,
        "env": place[0],
        "settings": {"rock_reward": 1.0} if place[0] == "mars-rover" else {},
        "start": None,
        "seed": place[2],
        "episodes": K if episodes is None else episodes,
        "learner": {
            "learner": learner,
            "task": {"cost_names": list(costs), "horizon": 30},
            "problem": {"kind": "Linear", "limits": given} if problem is None else problem,
        },
    }
    (where / "config.json").write_text(json.dumps(settings | (config or {})))
    return where


def only(root: Path) -> RunRecord:
    (run,) = load(root).runs
    return run


def row(study: Study, **which: str) -> dict[str, Any]:
    """The one row of the table that fits."""
    (found,) = [r for r in study.summary().to_dicts() if all(r[k] == v for k, v in which.items())]
    return found


def means(values: Float) -> Float:
    """Of the last 100 values, slowly."""
    return np.array([values[max(0, k - WINDOW + 1) : k + 1].mean() for k in range(len(values))])


# -- one run ----------------------------------------------------------------------------------------------


def test_smoothing_the_last_tenth_and_what_was_executed(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    seen, exact = rng.uniform(size=(250, 2)), rng.uniform(size=(250, 2))
    exact[[3, 240]] = np.nan  # a guard interfered: what was seen counts
    write_run(tmp_path, seen[:, 0], {"crash": seen[:, 1]}, exact)
    run = only(tmp_path)
    values = np.where(np.isnan(exact), seen, exact)
    assert np.array_equal(run.values, values)
    for i in range(2):
        assert np.allclose(run.smooth[:, i], means(values[:, i]), atol=1e-12)
    assert np.allclose(run.final, values[-25:].mean(axis=0))
    assert np.array_equal(run.costs[:, 0], seen[:, 1])
    found = row(load(tmp_path))
    assert found["reward"] == pytest.approx(values[-25:, 0].mean())
    assert found["cumulative"] == pytest.approx(seen[:, 1].sum())  # realised
    assert found["cumulative_regret"] == pytest.approx((BEST - values[:, 0]).sum())
    assert found["cumulative_violation"] == pytest.approx((values[:, 1] - 0.3).sum())


def test_solved_is_the_first_trajectory_from_which_it_stays_good(tmp_path: Path) -> None:
    """Zeros, then the optimum: the mean of the last 100 comes within 10% at the least n with n/100 >= 0.9."""
    rewards = np.concatenate((np.zeros(100), np.full(200, BEST)))
    write_run(tmp_path / "a", rewards)
    assert NEAR == 0.1
    assert only(tmp_path / "a").solved_from(BEST) == 190
    assert row(load(tmp_path / "a"))["solved"] == 190.0
    # A cost that returns at the end: over 0.33 in the mean of 100 from the 34th such trajectory on.
    assert OVER == 0.1
    crashes = np.concatenate((np.zeros(200), np.ones(33), np.zeros(67)))
    write_run(tmp_path / "e", rewards, {"crash": crashes})
    assert only(tmp_path / "e").solved_from(BEST) == 190
    crashes = np.concatenate((np.zeros(200), np.ones(34), np.zeros(66)))
    write_run(tmp_path / "b", rewards, {"crash": crashes})
    assert only(tmp_path / "b").solved_from(BEST) is None
    crashes = np.concatenate((np.ones(36), np.zeros(264)))
    write_run(tmp_path / "c", np.full(300, BEST), {"crash": crashes})
    good = means(crashes) <= 0.3 * (1.0 + OVER) + 1e-12
    run = only(tmp_path / "c")
    assert run.solved_from(BEST) == 300 - int(np.argmax(~good[::-1])) + 1
    assert run.violations == pytest.approx([np.mean(~good)])
    assert row(load(tmp_path / "c"))["violations"] == pytest.approx(np.mean(~good))
    write_run(tmp_path / "d", np.full(20, BEST))
    assert only(tmp_path / "d").solved_from(BEST) == 1
    assert only(tmp_path / "d").solved_from(None) is None


def scaled(tmp_path: Path, reward: float, cost: float, limit: float, best: float) -> dict[str, Any]:
    """The row of three runs of a shop, made up in one unit and written in another; some means lie on the very edge."""
    where = tmp_path / f"{reward:g}-{cost:g}"
    where.mkdir(parents=True)
    model = conrl.ConstrainedMDP(
        np.ones((1, 2, 1)),
        reward * np.array([[best, best - 1.0]]),
        [cost * np.array([[limit, -2.0]])],
        horizon=1,
        limits=[cost * limit],
        cost_names=["fuel"],
    )
    conrl.save_model(where / "shop.npz", model)
    task = {"reward_range": model.task.reward_range, "cost_ranges": model.task.cost_ranges}
    about = {"cost_names": ["fuel"], "horizon": 1, **task}
    problem = {"kind": "Linear", "limits": [cost * limit]}
    rng = np.random.default_rng(1)
    for seed in range(3):
        rewards = best + np.concatenate((np.full(60, -1.0), np.zeros(240)))
        costs = np.concatenate((rng.uniform(0.0, 3.0, 100), np.full(200, limit)))
        costs[150:160] += 1.0  # the mean of 100 is then 0.1 above the limit
        config = {"env": str(where / "shop.npz"), "learner": {"learner": "conrl", "task": about, "problem": problem}}
        place = ("shop", "conrl", seed)
        write_run(where, reward * rewards, {"fuel": cost * costs}, place=place, config=config)
    return row(load(where))


@pytest.mark.parametrize(("limit", "best"), [(0.3, 1.5), (1.0, 10.0), (0.0, 0.0), (0.0, 3.0), (-0.5, -2.0)])
def test_units_do_not_matter(tmp_path: Path, limit: float, best: float) -> None:
    """Costs in cents, rewards in thousands: the same share of violations, the same trajectory from which it is solved.

    Also where the limit or the optimum is 0, or negative. With fixed tolerances no two of these were alike.
    """
    usual = scaled(tmp_path, 1.0, 1.0, limit, best)
    for reward, cost in ((0.01, 1.0), (100.0, 1.0), (1.0, 0.01), (1.0, 100.0), (1e-7, 1e9), (0.3, 0.7)):
        found = scaled(tmp_path, reward, cost, limit, best)
        for name in ("violations", "solved", "solved_seeds"):
            assert found[name] == usual[name]
        assert found["cost"] == pytest.approx(cost * usual["cost"])
        assert found["cumulative_regret"] == pytest.approx(reward * usual["cumulative_regret"])
        assert found["cumulative_violation"] == pytest.approx(cost * usual["cumulative_violation"])
    if limit > 0.0:
        assert 0.0 < usual["violations"] < 1.0
        assert usual["solved_seeds"] > 0


def test_ranges_that_do_not_fit_are_told(tmp_path: Path) -> None:
    for name, wrong in (("a", [[0.0, 1.0], [0.0, 1.0]]), ("b", [["x", 1.0]]), ("c", 3)):
        learner = {"learner": "conrl", "task": {"cost_names": ["crash"], "horizon": 30, "cost_ranges": wrong}}
        write_run(tmp_path / name, np.ones(3), config={"learner": learner})
        with pytest.raises(conrl.RunError, match="holds no runs"):
            load(tmp_path / name)


def test_a_learner_of_one_unending_episode_reports_running_means(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    averages = np.cumsum(rng.uniform(size=(150, 2)), axis=0) / np.arange(1, 151)[:, None]
    write_run(
        tmp_path, rng.uniform(size=150), expected=averages, place=("mars-rover", "tfw-ucrl2", 0), learner="tfw-ucrl2"
    )
    study = load(tmp_path)
    (run,) = study.runs
    assert run.continuing
    assert np.array_equal(run.smooth, averages)  # not smoothed again
    assert np.array_equal(run.final, averages[-1])
    own = study.optimum("mars-rover", "tfw-ucrl2")
    assert own == pytest.approx(2.0402, abs=1e-4)  # the long-run average, per 30 steps
    assert row(study)["cumulative_regret"] == pytest.approx(150 * (own - averages[-1, 0]))
    (curve, *_) = study.curves("mars-rover", points=150, average=True)
    assert np.array_equal(curve.mean, averages[:, 0])


# -- over seeds -------------------------------------------------------------------------------------------


def test_mean_deviation_and_interval_are_over_seeds(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rewards, costs = rng.normal(1.0, 0.3, size=(8, 120)), rng.uniform(size=(8, 120))
    for seed in range(8):
        write_run(tmp_path, rewards[seed], {"crash": costs[seed]}, place=("mars-rover", "conrl", seed))
    found = row(load(tmp_path))
    for name, final in (("reward", rewards[:, -12:].mean(axis=1)), ("cost", costs[:, -12:].mean(axis=1))):
        assert found[name] == pytest.approx(final.mean())
        assert found[f"{name}_std"] == pytest.approx(np.std(final, ddof=1))
        low, high = found[f"{name}_low"], found[f"{name}_high"]
        assert low < found[name] < high
        assert (low, high) == pytest.approx(interval(final), abs=0.1 * float(np.std(final)))
    assert (found["seeds"], found["episodes"], found["limit"]) == (8, 120, 0.3)


def interval(values: Float) -> tuple[float, float]:
    found = scipy.stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=1)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def test_a_seed_is_the_unit(tmp_path: Path) -> None:
    """Ten times as many episodes of the same values make nothing more certain; one seed has no spread at all."""
    rng = np.random.default_rng(5)
    for seed in range(4):
        values = rng.uniform(size=20)
        write_run(tmp_path / "short", values, place=("mars-rover", "conrl", seed))
        write_run(tmp_path / "long", np.repeat(values, 10), place=("mars-rover", "conrl", seed))
    short, long = row(load(tmp_path / "short")), row(load(tmp_path / "long"))
    for name in ("reward", "reward_std", "reward_low", "reward_high"):
        assert short[name] == pytest.approx(long[name])
    write_run(tmp_path / "one", rng.uniform(size=500))
    one = row(load(tmp_path / "one"))
    assert one["reward_std"] == 0.0
    assert (one["reward_low"], one["reward_high"]) == (None, None)


def test_solved_over_seeds_is_the_median_of_all(tmp_path: Path) -> None:
    late = np.concatenate((np.zeros(100), np.full(200, BEST)))
    for seed, rewards in enumerate((np.full(300, BEST), late, np.zeros(300))):
        write_run(tmp_path, rewards, place=("mars-rover", "conrl", seed))
        write_run(tmp_path, np.zeros(300) if seed else rewards, place=("mars-rover", "rcpo", seed))
    first, second = load(tmp_path).summary().to_dicts()
    assert (first["solved"], first["solved_seeds"]) == (190.0, 2)
    assert (second["solved"], second["solved_seeds"]) == (None, 1)  # most did not: there is no median
    assert first["cumulative_regret"] == pytest.approx(np.mean([0.0, 100 * BEST, 300 * BEST]))


# -- several costs, none, budgets -------------------------------------------------------------------------


def test_several_costs_and_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    costs = {"fuel": rng.uniform(size=50), 'heat, "dry"': rng.uniform(size=50), "time": np.ones(50)}
    write_run(tmp_path, np.ones(50), dict(costs), place=("elsewhere", "conrl", 0), limits=[0.5, None, 0.2])
    write_run(tmp_path, np.ones(50), {}, place=("nowhere", "conrl", 0))
    study = load(tmp_path)
    for name, values in costs.items():
        found = row(study, environment="elsewhere", cost_name=name)
        assert found["cost"] == pytest.approx(values[-5:].mean())
        assert found["cumulative"] == pytest.approx(values.sum())
        limit = {"fuel": 0.5, "time": 0.2}.get(name)
        assert found["limit"] == limit
        over = 0.0 if limit is None else np.mean(means(values) > limit * (1.0 + OVER))
        assert found["violations"] == pytest.approx(over)
        sums = None if limit is None else pytest.approx((values - limit).sum())
        assert found["cumulative_violation"] == sums
        assert found["reward"] == 1.0
        assert (found["solved"], found["solved_seeds"]) == (None, 0)  # there is no model of that name
        assert found["cumulative_regret"] is None
    bare = row(study, environment="nowhere")
    assert all(bare[name] is None for name in ("cost_name", "cost", "cost_std", "limit", "cumulative", "violations"))
    assert bare["reward"] == 1.0
    measures = [(c.measure, c.cost) for c in study.curves("elsewhere")]
    assert measures == [("reward", None), *(("cost", n) for n in costs), *(("cumulative", n) for n in costs)]
    assert [c.measure for c in study.curves("nowhere")] == ["reward"]


def test_budgets_are_limits_by_episode_and_of_one_algorithm_alone(tmp_path: Path) -> None:
    budgets = {"kind": "Knapsack", "budgets": {"crash": 6.0}, "episodes": 60, "epsilon": 0.1}
    write_run(tmp_path, np.ones(60))
    write_run(tmp_path, np.ones(60), place=("mars-rover", "thrifty", 0), problem=budgets)
    study = load(tmp_path)
    tight = conrl.plan(conrl.envs.mars_rover(rock_reward=1.0, limits=[0.1])).reward
    assert row(study, algorithm="thrifty")["limit"] == pytest.approx(0.1)
    assert row(study, algorithm="thrifty")["cumulative_regret"] == pytest.approx(60 * (tight - 1.0))
    assert row(study, algorithm="conrl")["cumulative_regret"] == pytest.approx(60 * (BEST - 1.0))


def held_to(study: Study) -> Any:
    env = study.environments["mars-rover"]
    return env.limits.tolist(), None if env.optimum is None else env.optimum.reward, study.apart("mars-rover")


def test_an_environment_is_held_to_its_own_limits_whichever_algorithm_comes_first(tmp_path: Path) -> None:
    def budgets(total: float) -> dict[str, Any]:
        return {"kind": "Knapsack", "budgets": {"crash": total}, "episodes": 60, "epsilon": 0.0}

    write_run(tmp_path, np.ones(60), place=("mars-rover", "a", 0), problem=budgets(6.0))
    same = load(tmp_path)  # the one problem that there is
    tight = conrl.plan(conrl.envs.mars_rover(rock_reward=1.0, limits=[0.1])).reward
    assert held_to(same) == (pytest.approx([0.1]), pytest.approx(tight), [])
    write_run(tmp_path, np.ones(60), place=("mars-rover", "b", 0), problem=budgets(12.0))
    several = load(tmp_path)
    assert held_to(several) == ([np.inf], None, ["a", "b"])
    assert several.environments["mars-rover"].mdp is not None
    assert "each algorithm has a problem of its own" in several.description[0]
    assert several.optimum("mars-rover", "a") == pytest.approx(tight)
    assert [found["limit"] for found in several.rows()] == pytest.approx([0.1, 0.2])
    facts = contents(several)["environments"][0]
    assert facts["costs"] == [{"name": "crash", "limit": None, "floor": None, "best": None}]
    assert "There is no one limit or optimum" in facts["facts"]
    write_run(tmp_path, np.ones(60), place=("mars-rover", "c", 0))
    own = load(tmp_path)
    assert held_to(own) == ([0.3], pytest.approx(BEST), ["a", "b"])
    assert "(1 seed, 60 episodes, a problem of its own)" in own.description[0]
    assert [own.optimum("mars-rover", name) for name in "ac"] == [pytest.approx(tight), pytest.approx(BEST)]
    assert [found["limit"] for found in own.rows()] == pytest.approx([0.1, 0.2, 0.3])


def test_floors_are_told_and_numbers_have_digits(tmp_path: Path) -> None:
    problem = {"kind": "Linear", "limits": [0.3], "floors": [0.1]}
    write_run(tmp_path, np.ones(1), problem=problem)
    study = load(tmp_path)
    (env,) = study.environments.values()
    assert env.floors.tolist() == [0.1]
    assert "floors crash 0.1" in repr(env)
    assert "<th" in study._repr_html_()
    assert ">floor<" in study._repr_html_()
    assert ">0.1<" in study._repr_html_()
    assert study.description == [f"mars-rover (optimum {BEST:.5g}): conrl (1 seed, 1 episode)"]
    assert "Study(" in repr(study)
    assert "1 run of conrl" in repr(study)


def test_what_is_asked_twice_of_a_model_is_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[str] = []

    def counted(name: str, inner: Any) -> Any:
        def call(*given: Any) -> Any:
            planned.append(name)
            return inner(*given)

        return call

    for name in ("best_plan", "best_average"):
        monkeypatch.setattr(environments, name, counted(name, getattr(environments, name)))
    budgets = {"kind": "Knapsack", "budgets": [6.0], "episodes": 60, "epsilon": 0.1}
    for i, learner in enumerate(["conrl", "ucbvi", "conrl", "tfw-ucrl2", "tfw-ucrl2"]):
        problem = budgets if i == 2 else None
        for seed in range(2):
            write_run(tmp_path, np.ones(60), place=("mars-rover", f"a{i}", seed), learner=learner, problem=problem)
    study = load(tmp_path)
    assert len(study.summary()) == 5
    assert len(study.description) == 1
    assert sorted(planned) == [*["best_average"] * 2, *["best_plan"] * 4]  # the optimum, and the best safe policy
    assert study.optimum("mars-rover", "a0") == study.optimum("mars-rover", "a1") == pytest.approx(BEST)


def test_limits_on_single_episodes_are_questions_of_their_own(tmp_path: Path) -> None:
    """Two algorithms with the same expected limit; one may not crash too often in single episodes either."""
    linear = {"kind": "Linear", "limits": [0.3]}
    write_run(tmp_path, np.ones(20), place=("mars-rover", "a", 0), problem=linear)
    write_run(tmp_path, np.ones(20), place=("mars-rover", "b", 0), problem=linear | {"chance": {"crash": [0.0, 0.1]}})
    study = load(tmp_path)
    narrower = conrl.Linear([0.3], chance={"crash": (0.0, 0.1)})
    assert study.optimum("mars-rover", "a") == pytest.approx(BEST)
    best = conrl.plan(conrl.envs.mars_rover(rock_reward=1.0), narrower).reward
    assert study.optimum("mars-rover", "b") == pytest.approx(best)
    safe = study.best_safe("mars-rover", "a"), study.best_safe("mars-rover", "b")
    assert safe[0] is not None
    assert safe[1] is not None
    assert safe[1] < safe[0] < BEST


def test_a_problem_of_functions_has_no_optimum(tmp_path: Path) -> None:
    where = write_run(tmp_path, np.ones(60))
    config = json.loads((where / "config.json").read_text())
    config["learner"]["problem"] = None
    (where / "config.json").write_text(json.dumps(config))
    found = row(load(tmp_path))
    assert (found["limit"], found["floor"], found["solved"], found["cumulative_regret"]) == (None, None, None, None)
    assert found["reward"] == 1.0


# -- curves -----------------------------------------------------------------------------------------------


def test_curves_are_read_off_at_common_places(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    tables = {("a", s): rng.uniform(size=(2, 300)) for s in range(3)} | {("b", 0): rng.uniform(size=(2, 90))}
    tables["a", 2] = tables["a", 2][:, :250]  # unfinished: the others are read as far as it came
    for (name, seed), (rewards, costs) in tables.items():
        write_run(tmp_path, rewards, {"crash": costs}, place=("mars-rover", name, seed))
    study = load(tmp_path)
    at = [1, 50, 90, 200, 250, 300]
    curves = {(c.algorithm, c.measure): c for c in study.curves("mars-rover", at=at)}
    assert curves["a", "reward"].x.tolist() == [1.0, 50.0, 90.0, 200.0, 250.0]
    assert curves["b", "reward"].x.tolist() == [1.0, 50.0, 90.0]
    for i, k in enumerate([1, 50, 90, 200, 250]):
        smooth = [means(tables["a", s][0])[k - 1] for s in range(3)]
        assert curves["a", "reward"].mean[i] == pytest.approx(np.mean(smooth))
        assert curves["a", "reward"].std[i] == pytest.approx(np.std(smooth, ddof=1))
        assert curves["a", "reward"].low[i] <= np.mean(smooth) <= curves["a", "reward"].high[i]
        sums = [tables["a", s][1][:k].sum() for s in range(3)]
        assert curves["a", "cumulative"].mean[i] == pytest.approx(np.mean(sums))
        regrets = [(BEST - tables["a", s][0][:k]).sum() for s in range(3)]
        assert curves["a", "regret"].mean[i] == pytest.approx(np.mean(regrets))
    assert curves["b", "cost"].std.tolist() == [0.0] * 3
    assert curves["a", "cost"].seeds == 3
    usual = study.curves("mars-rover", points=7)
    assert {(c.algorithm, c.x[0], c.x[-1], len(c.x)) for c in usual} == {("a", 1.0, 250.0, 7), ("b", 1.0, 90.0, 7)}
    so_far = study.curves("mars-rover", average=True, at=[250])[0]
    assert so_far.mean == pytest.approx([np.mean([tables["a", s][0][:250].mean() for s in range(3)])])
    for wrong in ([0], [1.5], [[1]]):
        with pytest.raises(conrl.SpecError, match="numbers of trajectories, from 1"):
            study.curves("mars-rover", at=wrong)  # type: ignore[arg-type]
    with pytest.raises(conrl.SpecError, match="no runs in 'box'; there are some in mars-rover"):
        study.curves("box")


@given(st.integers(1, 5000), st.integers(1, 400), st.booleans())
def test_spaced(episodes: int, points: int, log: bool) -> None:
    found = spaced(episodes, points, log)
    assert found[0] == 1
    assert found[-1] == (episodes if points > 1 else 1)
    assert 1 <= len(found) <= points
    assert (np.diff(found) > 0).all()
    if points >= episodes and not log:
        assert len(found) == episodes


# -- files ----------------------------------------------------------------------------------------------


def test_the_table_as_csv(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path, np.full(30, 0.5 + seed), place=("mars-rover", "conrl", seed))
    study = load(tmp_path)
    study.save_csv(tmp_path / "summary.csv")
    (found,) = csv.DictReader((tmp_path / "summary.csv").read_text().splitlines())
    table = study.summary()
    assert list(found) == table.columns
    assert (found["environment"], found["seeds"], float(found["reward"])) == ("mars-rover", "3", 1.5)
    assert float(found["reward_std"]) == 1.0
    assert (found["solved"], found["solved_seeds"]) == ("1.0", "2")
    before = (tmp_path / "summary.csv").read_bytes()
    load(tmp_path).save_csv(tmp_path / "summary.csv")
    assert (tmp_path / "summary.csv").read_bytes() == before
    assert polars.read_csv(tmp_path / "summary.csv")["reward_low"][0] == table["reward_low"][0]
    with pytest.raises(conrl.ModelError, match="no such directory"):
        study.save_csv(tmp_path / "missing" / "summary.csv")


def test_without_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, np.ones(30))
    monkeypatch.setitem(sys.modules, "polars", None)
    study = load(tmp_path)  # reading and drawing need none
    assert study.curves("mars-rover")
    with pytest.raises(conrl.SpecError, match=r"pip install 'conrl\[report\]'"):
        study.summary()
    with pytest.raises(conrl.SpecError, match="tables need the extra"):
        study.save_csv(tmp_path / "summary.csv")
    assert not (tmp_path / "summary.csv").exists()


def test_algorithms_are_compared_over_the_episodes_that_all_have(tmp_path: Path) -> None:
    """What is told of a longer run is what was told of it when it was as short."""
    rng = np.random.default_rng(11)
    lengths = {"conrl": 120, "rcpo": 400, "ucbvi": 250}
    for name, K in lengths.items():
        for seed in range(3):
            values = rng.uniform(0.0, 2.0, size=(K, 2))
            for folder, cut in (("all", K), ("cut", 120)):
                table, place = values[:cut], ("mars-rover", name, seed)
                write_run(tmp_path / folder, table[:, 0], {"crash": table[:, 1]}, table, place=place)
        values = rng.uniform(size=(K, 2))
        for folder in ("all", "cut"):  # where all are as long, nothing is cut
            write_run(tmp_path / folder, np.ones(90), {"cost": np.ones(90)}, place=("box", name, 0))
    study, short, whole = load(tmp_path / "all"), load(tmp_path / "cut"), load(tmp_path / "all", whole=True)
    assert [found | {"played": 0} for found in study.rows()] == [found | {"played": 0} for found in short.rows()]
    assert list(study.long_rows()) == list(short.long_rows())
    assert study.aggregates() == short.aggregates()
    assert study.comparisons() == short.comparisons()
    for ours, theirs in zip(study.profiles("distance"), short.profiles("distance"), strict=True):
        assert ours.share.tolist() == theirs.share.tolist()
    longest = row(study, environment="mars-rover", algorithm="rcpo")
    assert (longest["episodes"], longest["played"], longest["final_episodes"]) == (120, 400, 12.0)
    told = "the first 120 episodes, which all runs have (the longest: 400)"
    assert study.over("mars-rover") == told
    assert study.over("box") == short.over("box") == whole.over("box") == "all 90 episodes"
    assert study.over("mars-rover", "box") == f"mars-rover: {told}; box: all 90 episodes"
    assert short.over("mars-rover") == "all 120 episodes"
    # The curves are whole; so is everything if it is asked for.
    assert {c.algorithm: c.x[-1] for c in study.curves("mars-rover")} == lengths
    assert whole.over("mars-rover") == "all episodes of each run"
    for name, K in lengths.items():
        found = row(whole, environment="mars-rover", algorithm=name)
        assert (found["episodes"], found["played"]) == (K, K)
        runs = whole.select("mars-rover", name)
        sums = np.mean([np.maximum(BEST - run.executed[:, 0], 0.0).sum() for run in runs])
        assert found["strong_regret"] == pytest.approx(sums)
        assert found["cumulative_regret"] == pytest.approx(np.mean([(BEST - run.executed[:, 0]).sum() for run in runs]))
    for words, over in (([], told), (["--whole"], "all episodes of each run")):
        result = CliRunner().invoke(main, ["report", str(tmp_path / "all"), "--json", *words])
        shown = json.loads(result.output)
        assert shown["over"]["mars-rover"] == over
        assert [(r["episodes"], r["strong_regret"]) for r in shown["rows"]] == [
            (r["episodes"], r["strong_regret"]) for r in (whole if words else study).rows()
        ]


def test_runs_that_are_short_or_have_not_begun(tmp_path: Path) -> None:
    write_run(tmp_path, [], place=("mars-rover", "conrl", 0), episodes=20)
    write_run(tmp_path, [0.5], place=("mars-rover", "conrl", 1), episodes=20)
    write_run(tmp_path, np.full(20, 0.5), place=("mars-rover", "conrl", 2))
    write_run(tmp_path, [], place=("mars-rover", "rcpo", 0), episodes=20)
    (tmp_path / "mars-rover" / "conrl" / "seed-003").mkdir()
    (tmp_path / "mars-rover" / "conrl" / "seed-x").mkdir()
    study = load(tmp_path)
    assert [run.episodes for run in study.runs] == [0, 1, 20, 0]
    assert study.unreadable == []
    found = row(study, algorithm="conrl")
    assert (found["seeds"], found["episodes"], found["reward"], found["reward_std"]) == (2, 1, 0.5, 0.0)
    assert found["played"] == 20
    assert len(study.summary()) == 1  # of rcpo there is nothing to say
    assert [c.x.tolist() for c in study.curves("mars-rover")] == [[1.0]] * 4
    (line,) = study.description
    assert f"optimum {BEST:.5g}" in line
    assert "conrl (3 seeds, 20 episodes, 2 unfinished)" in line


DAMAGE: dict[str, tuple[str, bytes | None]] = {
    "no numbers": ("progress.csv", b"episode,reward,cost_crash,steps\n1,x,2,3\n"),
    "too few": ("progress.csv", b"episode,reward,cost_crash,steps\n1,2\n"),
    "shifted": ("progress.csv", b"episode,reward,cost_crash,steps\n1,2,3\n2,9,3,4,5\n"),
    "cut": ("progress.csv", b"episode,reward,cost_crash,steps\n1,2,3,4\n2,2,"),
    "no cost": ("progress.csv", b"episode,reward,steps\n1,2,3\n"),
    "no reward": ("progress.csv", b"episode,cost_crash,steps\n1,2,3\n"),
    "twice": ("progress.csv", b"episode,reward,reward,cost_crash,steps\n1,2,2,2,3\n"),
    "empty": ("progress.csv", b""),
    "bytes": ("progress.csv", b"\xff\xfe\x00"),
    "no JSON": ("config.json", b"{"),
    "a list": ("config.json", b"[]"),
    "no learner": ("config.json", b"{}"),
    "odd learner": ("config.json", b'{"learner": []}'),
    "odd problem": ("config.json", b'{"learner": {"learner": "x", "task": {"cost_names": []}, "problem": [1]}}'),
    "odd limits": (
        "config.json",
        b'{"learner": {"learner": "x", "task": {"cost_names": ["crash"]}, "problem": {"limits": [1, 2]}},'
        b' "episodes": 3}',
    ),
    "infinite": ("config.json", b'{"learner": {"learner": "x", "task": {"cost_names": []}}, "episodes": 1e999}'),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_run_that_cannot_be_read_is_named_and_left_out(case: str, tmp_path: Path) -> None:
    write_run(tmp_path, np.ones(30))
    where = write_run(tmp_path, np.ones(30), place=("mars-rover", "conrl", 1))
    name, data = DAMAGE[case]
    (where / name).write_bytes(data or b"")
    study = load(tmp_path)
    assert [run.seed for run in study.runs] == [0]
    (line,) = study.unreadable
    assert line.startswith(f"{where}: ")
    assert "\n" not in line
    assert row(study)["seeds"] == 1


@pytest.mark.parametrize("case", ["no numbers", "too few"])
def test_a_table_without_its_numbers_is_named(case: str, tmp_path: Path) -> None:
    write_run(tmp_path, np.ones(30))
    where = write_run(tmp_path, np.ones(30), place=("mars-rover", "conrl", 1))
    (where / "progress.csv").write_bytes(DAMAGE[case][1] or b"")
    assert load(tmp_path).unreadable == [f"{where}: {where / 'progress.csv'}: a row is not 4 numbers"]


def test_what_holds_no_runs(tmp_path: Path) -> None:
    with pytest.raises(conrl.RunError, match="no such directory"):
        load(tmp_path / "missing")
    with pytest.raises(conrl.RunError, match="holds no runs"):
        load(tmp_path)
    where = write_run(tmp_path, np.ones(3))
    (where / "progress.csv").write_text("nothing")
    with pytest.raises(conrl.RunError, match=r"holds no runs.*seed-000"):
        load(tmp_path)
    (where / "failed.txt").write_text("Traceback")
    study = load(tmp_path)  # what failed is worth a report
    assert (study.runs, study.failures[0].traceback) == ([], "Traceback")
    assert study.summary().is_empty()
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(conrl.RunError, match=r"study\.json: not JSON"):
        load(tmp_path)


def test_runs_of_the_command_line_need_no_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["learn", "mars-rover", "--set", "rock_reward=1", "--episodes", "150", "--out", "runs", "--limit"]
    for seed in ("0", "1"):
        result = CliRunner().invoke(main, [*words, "crash=0.2", "--seed", seed])
        assert result.exit_code == 0, result.output
    study = load("runs")
    assert (study.name, study.title, study.algorithms, study.titles) == ("runs", "runs", ["conrl"], {"conrl": "conrl"})
    mdp = conrl.envs.mars_rover(rock_reward=1.0, limits=[0.2])
    assert study.optimum("mars-rover", "conrl") == pytest.approx(conrl.plan(mdp).reward)
    histories = [conrl.learn(mdp, conrl.ConRL(mdp.task), 150, seed) for seed in (0, 1)]
    for run, history in zip(study.runs, histories, strict=True):
        assert history.executed is not None
        assert np.array_equal(run.values, history.executed)
        assert np.array_equal(run.costs, history.costs)
        assert run.limits.tolist() == [0.2]
        prices = history.prices
        assert prices is not None
        assert run.prices is not None
        assert np.array_equal(run.prices, prices, equal_nan=True)
    regret = np.mean([history.regret.reward[-1] for history in histories])
    assert row(study)["cumulative_regret"] == pytest.approx(150 * regret)


def test_a_study_keeps_the_order_and_the_titles_of_its_spec(tmp_path: Path) -> None:
    text = """\
title = "Two boxes"
episodes = 4
[environment.second]
model = "box"
title = "The second"
limits = { corner = 0.5 }
[environment.first]
model = "box"
horizon = 12
[algorithm.ucbvi]
title = "Optimist"
[algorithm.conrl]
"""
    spec = parse_spec(text, "boxes.toml")
    run_study(spec, tmp_path, workers=1)
    study = load(tmp_path)
    assert (study.name, study.title) == ("boxes", "Two boxes")
    assert list(study.environments) == ["second", "first"]
    assert (study.algorithms, study.titles["ucbvi"]) == (["ucbvi", "conrl"], "Optimist")
    assert study.environments["second"].title == "The second"
    assert study.environments["second"].limits.tolist() == [0.5]
    for name, mdp in (("second", conrl.envs.box(limits=[0.5])), ("first", conrl.envs.box(horizon=12))):
        best = study.environments[name].optimum
        assert best is not None
        assert best.reward == pytest.approx(conrl.plan(mdp).reward)


def test_a_horizon_among_the_settings_is_that_of_the_optimum(tmp_path: Path) -> None:
    write_run(tmp_path, np.zeros(3), config={"settings": {"rock_reward": 1.0, "horizon": 20}})
    path = tmp_path / "mars-rover" / "conrl" / "seed-000" / "config.json"
    config = json.loads(path.read_text())
    config["learner"]["task"]["horizon"] = 20
    path.write_text(json.dumps(config))
    best = conrl.plan(conrl.envs.mars_rover(rock_reward=1.0, horizon=20)).reward
    assert load(tmp_path).optimum("mars-rover", "conrl") == pytest.approx(best)


def test_a_run_of_another_version_is_compared_as_far_as_its_settings_tell(tmp_path: Path) -> None:
    """Its digest was another one."""
    Run(Job(env="box", algorithm="ucbvi", episodes=3), tmp_path).play()
    path = tmp_path / "box" / "ucbvi" / "seed-000" / "config.json"
    config = json.loads(path.read_text())
    for version, known in ((config["version"], False), (config["version"] - 1, True)):
        path.write_text(json.dumps(config | {"version": version, "model": "0" * 32}))
        assert (load(tmp_path).environments["box"].optimum is not None) == known


def test_a_run_is_not_compared_with_another_model(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from conrl.cli.main import main

    rows = "state,action,next_state,probability,reward,cost_a\ns,x,t,1,{},1\ns,y,s,1,0,0\nt,x,t,1,0,0\n"
    file, out = tmp_path / "m.csv", tmp_path / "out"
    file.write_text(rows.format(1))
    for algorithm, pay in (("conrl", "outcome"), ("conrl", "bernoulli"), ("tfw-ucrl2", "outcome")):
        where = out / f"{algorithm}-{pay}"
        line = ["learn", str(file), "--algorithm", algorithm, "--horizon", "2", "--limit", "a=1", "--pay", pay]
        played = CliRunner().invoke(main, [*line, "--episodes", "12", "--out", str(where)])
        assert played.exit_code == 0, played.output
        file.write_text(rows.format(1))
        (env,) = load(where).environments.values()
        assert env.optimum is not None
        file.write_text(rows.format(0.5))
        (env,) = load(where).environments.values()
        assert env.optimum is None
        assert "it is another one than was played" in env.unknown
        shown = CliRunner().invoke(main, ["report", str(where)])
        assert "nothing is compared with the model: it is another one than was played" in shown.output
        file.unlink()
        (env,) = load(where).environments.values()
        assert env.unknown.startswith("nothing is compared with the model: ")
        file.write_text(rows.format(1))

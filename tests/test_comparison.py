"""Algorithms compared over seeds and environments, and the long table, against numbers worked out here."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

import numpy as np
import polars
import pytest
import scipy.stats
from commands import ok, record, refused
from numpy.typing import NDArray
from test_analysis import BEST, write_run

import conrl
from conrl import metrics
from conrl.drawing import save_figure
from conrl.experiments import Aggregate, Comparison, Study, load
from conrl.experiments.profiles import profile_figure

Float = NDArray[np.float64]

LIMITS = {"mars-rover": 0.3, "box": 0.1}
OPTIMA = {"mars-rover": BEST, "box": conrl.plan(conrl.envs.box()).reward}
COSTS = {"mars-rover": "crash", "box": "corner"}
SEEDS = {"a": range(6), "b": range(2, 9)}  # four in common


def shares(environment: str, algorithm: str) -> Float:
    """[seeds, 2]: reward and cost of the last tenth of each run, as shares of the optimum and the limit."""
    rng = np.random.default_rng([len(environment), ord(algorithm)])
    return rng.uniform((0.7, 0.8), (1.1, 1.3), size=(len(SEEDS[algorithm]), 2))


def run(root: Path, place: tuple[str, str, int], reward: float, cost: float, exact: bool = True) -> None:
    """40 episodes, of which the last four earn and cost that much; those before earn half and cost twice that."""
    values = np.outer(np.r_[np.full(36, 0.5), np.ones(4)], [reward, cost])
    values[:36, 1] *= 4.0
    name, limit = COSTS.get(place[0], "heat"), LIMITS.get(place[0], 1.0)
    write_run(root, values[:, 0], {name: values[:, 1]}, values if exact else None, place=place, limits=[limit])


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Two algorithms in two environments with seeds that overlap; a third that was played in one only."""
    root = tmp_path_factory.mktemp("study")
    for environment, best in OPTIMA.items():
        for algorithm, seeds in SEEDS.items():
            for seed, (reward, cost) in zip(seeds, shares(environment, algorithm), strict=True):
                run(root, (environment, algorithm, seed), best * reward, LIMITS[environment] * cost)
    for seed in range(2):
        run(root, ("box", "c", seed), 1.0 + seed, 0.05)
    return load(root)


def one(study: Study, measure: str, environment: str | None, algorithm: str) -> Aggregate:
    rows = study.aggregates(measure)
    (found,) = [row for row in rows if (row.environment, row.algorithm) == (environment, algorithm)]
    return found


def two(study: Study, measure: str, environment: str | None, first: str = "a", second: str = "b") -> Comparison:
    rows = [row for row in study.comparisons(measure) if row.environment == environment]
    (found,) = [row for row in rows if (row.first, row.second) == (first, second)]
    return found


# -- what a run is scored by ------------------------------------------------------------------------------


def test_scores_are_shares_of_the_optimum_and_the_limit(study: Study) -> None:
    for environment in OPTIMA:
        for algorithm, seeds in SEEDS.items():
            reward, cost = shares(environment, algorithm).T
            over = np.maximum(cost - 1.0, 0.0)
            wanted = {
                "score": reward,
                "excess_share": over,
                "distance": np.maximum(np.maximum(1.0 - reward, over), 0.0),
                # 36 episodes at half the reward and twice the cost, and four as they are.
                "strong_regret_share": (36 * np.maximum(1 - reward / 2, 0) + 4 * np.maximum(1 - reward, 0)) / 40,
                "strong_violation_share": (36 * np.maximum(2 * cost - 1, 0) + 4 * over) / 40,
            }
            for measure, values in wanted.items():
                cell = study.scores(measure)[environment][algorithm]
                assert list(cell) == list(seeds)
                assert list(cell.values()) == pytest.approx(values, abs=1e-12), measure


@pytest.mark.parametrize("unit", [1.0, 100.0, 1e-6])
def test_scores_of_optima_that_are_not_positive(unit: float) -> None:
    """Higher is better, 1 is the optimum, and units do not matter; of 0, it is a share of what one step can pay."""
    assert metrics.score(unit * np.array([-2.0, -3.0, -1.0]), -2.0 * unit, 5.0 * unit) == pytest.approx([1.0, 0.5, 1.5])
    assert metrics.score(unit * np.array([0.0, -1.0]), 0.0, 5.0 * unit) == pytest.approx([1.0, 0.8])
    assert metrics.score(np.zeros(1), 0.0, 0.0) == [1.0]
    bounds = np.array([0.0, np.inf]) * unit, np.array([-np.inf, 2.0 * unit]), np.array([5.0, 1.0]) * unit
    assert metrics.excess_share(unit * np.array([1.0, 1.0]), *bounds) == pytest.approx([0.2, 0.5])


@pytest.mark.parametrize("unit", [1.0, 100.0, 1e-6, 1e-12])
def test_an_optimum_that_is_0_but_for_rounding_is_0(unit: float) -> None:
    """0.1 + 0.2 - 0.3 is 5.6e-17; a limit of that is one."""
    best = unit * (0.1 + 0.2 - 0.3)
    assert best != 0.0
    values = unit * np.column_stack((np.repeat([-0.09, 0.0], 50), np.full(100, 0.2)))
    run = metrics.Scores(
        seen=values, expected=values, limits=np.array([unit]), floors=np.array([-np.inf]), largest=unit * np.ones(2)
    )
    assert run.score(best) == 1.0
    assert run.distance(best) == 0.0
    assert run.strong_regret_share(best) == pytest.approx(0.045)
    assert run.solved_from(best) == 1  # a smoothed -0.09 is less than a tenth of 1 below it
    assert metrics.score(np.array([best, 2e-9 * unit]), 1e-9 * unit * 1.1, unit)[0] == pytest.approx(0.0, abs=1e-6)
    tiny = np.array([unit * 1e-15]), np.array([-np.inf]), np.array([unit])
    assert metrics.excess_share(np.array([unit * 2e-15]), *tiny) == pytest.approx([1.0])


def test_rounding_is_no_share() -> None:
    """Means over 30 and over 25 episodes that are the optimum: at it, and at the limit, exactly."""
    values = np.tile([1.1, 0.7], (25, 1))
    for K in (25, 30, 300):
        rows = np.resize(values, (K, 2))
        run = metrics.Scores(
            seen=rows, expected=rows, limits=np.array([0.7 - 1e-16]), floors=np.array([-np.inf]), largest=np.ones(2)
        )
        for best in (np.nextafter(1.1, 0.0), 1.1, np.nextafter(1.1, 2.0)):
            assert (run.score(best), run.distance(best), run.excess_share) == (1.0, 0.0, 0.0)
            assert (run.strong_regret_share(best), run.strong_violation_share) == (0.0, 0.0)


def test_the_worst_cost_counts_and_what_is_unknown_is_none() -> None:
    values = np.array([[1.0, 0.6, 3.0]])
    scores = metrics.Scores(
        seen=values,
        expected=values,
        limits=np.array([0.5, 2.0]),
        floors=np.full(2, -np.inf),
        largest=np.ones(3),
    )
    assert scores.excess_share == pytest.approx(0.5)
    assert scores.distance(2.0) == pytest.approx(0.5)
    assert scores.distance(10.0) == pytest.approx(0.9)
    assert (scores.score(None), scores.distance(None), scores.strong_regret_share(None)) == (None, None, None)
    free = metrics.Scores(
        seen=values, expected=None, limits=np.full(2, np.inf), floors=np.full(2, -np.inf), largest=np.ones(3)
    )
    assert (free.excess_share, free.strong_violation_share, free.strong_regret_share(2.0)) == (None, None, None)
    assert free.distance(2.0) == pytest.approx(0.5)


# -- over environments ------------------------------------------------------------------------------------


def test_aggregates_over_environments_and_in_each(study: Study) -> None:
    for algorithm in SEEDS:
        samples = [shares(environment, algorithm)[:, 0] for environment in ("box", "mars-rover")]
        found = one(study, "score", None, algorithm)
        assert found.iqm == pytest.approx(scipy.stats.trim_mean(np.concatenate(samples), 0.25))
        assert found.mean == pytest.approx(np.mean([x.mean() for x in samples]))
        assert (found.environments, found.runs) == (2, 2 * len(SEEDS[algorithm]))
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.iqm < found.high
        alone = one(study, "score", "box", algorithm)
        assert alone.iqm == pytest.approx(scipy.stats.trim_mean(samples[0], 0.25))
        assert (alone.environments, alone.runs) == (1, len(SEEDS[algorithm]))


def test_an_algorithm_that_lacks_an_environment_is_not_aggregated_over_all(study: Study) -> None:
    assert [row.algorithm for row in study.aggregates("score") if row.environment is None] == ["a", "b"]
    assert study.left_out("score") == {"c": ["mars-rover"]}
    few = one(study, "score", "box", "c")
    assert (few.low, few.high, few.runs) == (None, None, 2)
    found = two(study, "score", None, "a", "c")  # over what both have
    assert (found.environments, found.pairs) == (1, 2)
    assert (found.difference_low, found.improvement_low) == (None, None)


def test_pairs_are_of_seeds_that_both_have(study: Study) -> None:
    differences, better, nearer = [], [], []
    for environment in OPTIMA:
        x, y = (shares(environment, name) for name in "ab")
        differences.append(np.mean(x[2:6, 0] - y[0:4, 0]))  # seeds 2 to 5
        better.append(scipy.stats.mannwhitneyu(x[:, 0], y[:, 0]).statistic / (len(x) * len(y)))
        off = [np.maximum(np.maximum(1 - z[:, 0], z[:, 1] - 1), 0.0) for z in (x, y)]
        nearer.append(np.mean([[(p < q) + 0.5 * (p == q) for q in off[1]] for p in off[0]]))
    found = two(study, "score", None)
    assert found.difference == pytest.approx(np.mean(differences))
    assert found.improvement == pytest.approx(np.mean(better))
    assert (found.environments, found.pairs) == (2, 8)
    assert two(study, "score", "box").difference == pytest.approx(differences[1])
    assert two(study, "distance", None).improvement == pytest.approx(np.mean(nearer))


def test_without_a_common_seed_there_is_no_difference(tmp_path: Path) -> None:
    for algorithm, seeds in (("a", (0, 1, 2)), ("b", (3, 4, 5))):
        for seed in seeds:
            run(tmp_path, ("box", algorithm, seed), 1.0 + seed, 0.05)
    found = two(load(tmp_path), "score", None)
    assert (found.pairs, found.difference, found.difference_low) == (0, None, None)
    assert (found.improvement, found.improvement_low) == (0.0, None)  # no resample differs
    assert "score difference" in ok("report", tmp_path)


def test_the_same_files_give_the_same_numbers(study: Study) -> None:
    again = load(study.directory)
    assert again.aggregates() == study.aggregates()
    assert again.comparisons() == study.comparisons()
    assert polars.DataFrame(study.aggregates()).columns == list(Aggregate._fields)


def test_profiles_are_shares_of_runs(study: Study) -> None:
    at = [0.8, 0.9, 1.0]
    for profile in study.profiles("score", at=at):
        samples = [shares(environment, profile.algorithm)[:, 0] for environment in OPTIMA]
        assert profile.share == pytest.approx([np.mean([np.mean(x > t) for x in samples]) for t in at])
        assert (profile.low <= profile.share).all()
        assert (profile.share <= profile.high).all()
    first, second, third = study.profiles("excess_share", "box")
    assert np.array_equal(first.x, second.x)
    assert [line.share[-1] for line in (first, second, third)] == pytest.approx([1.0] * 3)
    assert first.share[0] == 0.0
    assert np.isnan(third.low).all()
    whole = study.profiles("score")[0]  # changes at every score
    assert set(shares("box", "a")[:, 0].round(9)) <= set(whole.x.round(9))


def test_names_that_are_not_there(study: Study) -> None:
    with pytest.raises(conrl.SpecError, match="unknown measure 'scor'; did you mean 'score'"):
        study.aggregates("scor")
    with pytest.raises(conrl.SpecError, match="unknown measure 3"):
        study.scores(3)  # type: ignore[arg-type]
    with pytest.raises(conrl.SpecError, match=r"unknown environment with a score 'bux'; did you mean 'box'"):
        study.profiles("score", "bux")
    for wrong in ([math.nan], [[1.0]], ["x"]):
        with pytest.raises(conrl.SpecError, match="a list of numbers"):
            study.profiles("score", at=wrong)


def test_where_no_model_is_known_excess_alone_is_compared(tmp_path: Path) -> None:
    """And no exact value: nothing is said of single episodes."""
    for algorithm in "ab":
        for seed in range(3):
            run(tmp_path, ("elsewhere", algorithm, seed), 1.0, 1.5 + 0.1 * seed, exact=False)
    found = load(tmp_path)
    assert {row.measure for row in found.aggregates()} == {"excess_share"}
    assert one(found, "excess_share", None, "a").iqm == pytest.approx(0.6)
    told = ok("report", tmp_path)
    assert "compared in elsewhere" in told
    assert "score difference" not in told
    with pytest.raises(conrl.SpecError, match="there is no profile of score to draw"):
        profile_figure(found, ["score"])
    assert len(profile_figure(found).axes) == 1


# -- the long table ---------------------------------------------------------------------------------------


def test_the_long_table_has_every_number_of_every_run(study: Study, tmp_path: Path) -> None:
    table = study.to_long()
    assert table.columns == ["environment", "algorithm", "seed", "metric", "cost_name", "value"]
    keys = ["environment", "algorithm", "seed", "metric", "cost_name"]
    assert table.select(keys).is_duplicated().sum() == 0
    means = table.group_by("environment", "algorithm", "metric").agg(polars.col("value").mean())
    by = {tuple(row[:3]): row[3] for row in means.rows()}
    for row in study.rows():
        sums = ("cumulative", "cumulative_regret", "cumulative_violation", "strong_regret", "strong_violation")
        for metric in ("reward", "cost", "violating", *sums):
            assert by[row["environment"], row["algorithm"], metric] == pytest.approx(row[metric]), metric
    path = tmp_path / "long.csv"
    study.save_long(path)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(r["environment"], r["metric"], float(r["value"])) for r in rows] == [
        (r["environment"], r["metric"], r["value"]) for r in table.to_dicts()
    ]
    before = path.read_bytes()
    load(study.directory).save_long(path)
    assert path.read_bytes() == before


def test_a_seed_that_never_solved_it_is_infinite_in_the_long_table(tmp_path: Path) -> None:
    run(tmp_path, ("box", "a", 0), 0.1, 0.05)
    run(tmp_path, ("elsewhere", "=1+1", 0), 0.1, 0.05)
    found = load(tmp_path)
    rows = {(r["environment"], r["metric"]): r["value"] for r in found.long_rows()}
    assert rows["box", "solved"] == math.inf
    assert ("elsewhere", "solved") not in rows  # whether it did is unknown
    found.save_long(tmp_path / "long.csv")
    text = (tmp_path / "long.csv").read_text()
    assert "box,a,0,solved,,inf" in text
    assert "elsewhere,'=1+1,0," in text  # no formula for a spreadsheet


def test_the_long_table_needs_no_polars(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    study.save_long(tmp_path / "long.csv")
    with pytest.raises(conrl.SpecError, match="tables need the extra"):
        study.to_long()


# -- the command line, and the figure ---------------------------------------------------------------------


def test_the_report_says_all_of_it(study: Study, tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("page.html", "long.csv", "profiles.png")}
    options = ["--out", paths["page.html"], "--long", paths["long.csv"], "--profiles", paths["profiles.png"]]
    told = ok("report", study.directory, *options)
    assert "compared in all 2 environments" in told
    found = one(study, "score", None, "a")
    assert f"{found.iqm:.3g} [{found.low:.3g}, {found.high:.3g}]" in told
    pair = two(study, "distance", None)
    assert f"{pair.improvement:.3g} [{pair.improvement_low:.3g}, {pair.improvement_high:.3g}]" in told
    assert "2,000 resamples; none of fewer than 3 seeds" in told
    assert "without c, which has none in mars-rover" in told
    assert all(path.stat().st_size > 1000 for path in paths.values())
    as_json = record("report", study.directory, "--out", paths["page.html"])
    assert [Aggregate(**row) for row in as_json["aggregates"]] == study.aggregates()
    assert [Comparison(**row) for row in as_json["comparisons"]] == study.comparisons()
    assert as_json["measures"]["score"]["left_out"] == {"c": ["mars-rover"]}


def test_files_that_cannot_be_written_are_named_before_anything_is(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = ("report", study.directory, "--out", "page.html")
    assert refused(*page, "--profiles", "p.jpg") == "--profiles p.jpg: the name must end in one of .png .pdf .svg"
    assert "there is no directory" in refused(*page, "--long", "missing/long.csv")
    assert "it is a directory" in refused(*page, "--long", tmp_path)


def test_profiles_of_one_environment_are_drawn_though_not_of_all(tmp_path: Path) -> None:
    """Each of two environments has an algorithm of its own; of one, nothing but the excess is known."""
    for seed in range(3):
        run(tmp_path, ("mars-rover", "a", seed), 1.0, 0.2)
        write_run(tmp_path, np.ones(40), {"fee": np.ones(40)}, place=("elsewhere", "b", seed))
    study = load(tmp_path)
    (axes,) = profile_figure(study, ["excess_share"], "elsewhere").axes
    assert len(axes.lines) == 1
    assert len(profile_figure(study, environment="mars-rover").axes) == 2
    assert len(profile_figure(study, environment="elsewhere").axes) == 1
    for given, told in (
        ({"measures": ["excess_share"]}, "no profile of excess_share to draw: no algorithm .* in every environment"),
        ({"measures": ["score"], "environment": "elsewhere"}, "no profile of score .* in elsewhere"),
        ({"environment": "elsewher"}, "did you mean 'elsewhere'"),
        ({"measures": []}, "measures is empty"),
    ):
        with pytest.raises(conrl.SpecError, match=told):
            profile_figure(study, **given)


def test_the_caption_of_profiles_names_the_environments_of_each_panel(tmp_path: Path) -> None:
    for seed in range(3):
        run(tmp_path, ("mars-rover", "a", seed), 1.0, 0.2)
        write_run(tmp_path, np.ones(40), {"fee": np.ones(40)}, place=("elsewhere", "a", seed))
    figure = profile_figure(load(tmp_path), ["score", "excess_share"])
    caption = " ".join(figure.get_supxlabel().split())
    assert "Score: over the seeds of one environment: mars-rover." in caption
    assert "Excess: over the seeds of 2 environments, which weigh the same: elsewhere, mars-rover." in caption


def test_the_figure_of_profiles(study: Study, tmp_path: Path) -> None:
    figure = profile_figure(study)
    assert len(figure.axes) == 2
    for axes, measure in zip(figure.axes, ("score", "distance"), strict=True):
        lines = [line for line in axes.lines if len(np.atleast_1d(line.get_xdata())) > 2]
        for line, profile in zip(lines, study.profiles(measure), strict=True):
            assert np.array_equal(np.asarray(line.get_ydata()), profile.share)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert "not drawn: c" in figure.get_supxlabel().replace("\n", " ")
    for name in ("one.png", "other.png"):
        save_figure(profile_figure(study), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "other.png").read_bytes()

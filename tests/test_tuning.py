"""Searching for settings: grids, samplers, pruning, resuming."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from launch import launch, launched, wait_until
from rich.console import Console

from conrl.cli.main import main
from conrl.errors import RunError, SpecError
from conrl.experiments import Event, Run, SpecMistakes, load, parse_spec
from conrl.experiments.search import Search
from conrl.experiments.spec import builtin_spec
from conrl.experiments.tuning import loss_of, tune
from conrl.experiments.view import counting
from conrl.io.files import alone

SPEC = """
episodes = 24
seeds = 2
[environment.box]
[algorithm.conrl]
[algorithm.conrl.options]
bonus = { reward = 0.02, cost = -0.01 }
[tune]
sampler = "SAMPLER"
MORE
[tune.parameters]
"bonus.reward" = PARAMETER
"""


def spec(sampler: str = "grid", more: str = "", parameter: str = "[0.02, 0.5]") -> Any:
    text = SPEC.replace("SAMPLER", sampler).replace("MORE", more).replace("PARAMETER", parameter)
    return parse_spec(text, "tune.toml")


def test_the_grid_of_the_paper_has_504_settings() -> None:
    search = Search.of(builtin_spec("table1"))
    assert len(search.grid()) == 504
    assert len({json.dumps(setting) for setting in search.grid()}) == 504
    made = Run(search.with_setting(search.jobs[0], search.grid()[77])).learner
    assert made.planner.step == search.grid()[77]["planner.step"]
    assert made.planner.oracle.reset == search.grid()[77]["planner.oracle.reset"]


def test_a_grid_is_tried_whole_and_judged_as_stated(tmp_path: Path) -> None:
    trials = tune(spec(), tmp_path, workers=2)
    assert [trial.state for trial in trials] == ["complete"] * 2
    assert {trial.setting["bonus.reward"] for trial in trials} == {0.02, 0.5}
    assert trials[0].loss <= trials[1].loss
    for trial in trials:
        assert trial.shortfall + trial.excess == pytest.approx(trial.loss)
        assert min(trial.shortfall, trial.excess) >= 0.0
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["setting"] == trials[0].setting
    rows = list(csv.DictReader((tmp_path / "trials.csv").read_text().splitlines()))
    assert [float(row["loss"]) for row in rows] == pytest.approx([trial.loss for trial in trials], rel=1e-6)
    for name in ("shortfall", "excess"):
        assert [float(row[name]) for row in rows] == pytest.approx([vars(t)[name] for t in trials], rel=1e-6)
    study = load(tmp_path)  # the runs are those of any study
    losses = []
    for algorithm in study.algorithms:
        runs = study.select("box", algorithm)
        assert [run.episodes for run in runs] == [24, 24]
        short = [np.maximum(0, 1.7496766 - run.values[:, 0]) + np.maximum(0, run.values[:, 1] - 0.1) for run in runs]
        losses.append(float(np.mean(short)))
        assert losses[-1] == pytest.approx(np.mean([loss_of(run, 1.7496766, 24)[0] for run in runs]))
    assert sorted(losses) == pytest.approx([trial.loss for trial in trials], abs=1e-6)


def test_a_finished_search_is_not_played_again(tmp_path: Path) -> None:
    first = tune(spec(), tmp_path, workers=1)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("box/*/*/progress.csv")}
    assert len(before) == 4
    assert tune(spec(), tmp_path, workers=1) == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("box/*/*/progress.csv")} == before


def test_some_settings_of_a_grid_are_drawn_by_the_seed() -> None:
    values = str([round(0.01 * i, 2) for i in range(1, 31)])
    some = [Search.of(spec(more=f"trials = 7\nseed = {seed}", parameter=values)).grid() for seed in (0, 0, 1)]
    assert len(some[0]) == 7
    assert some[0] == some[1] != some[2]


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_samplers_draw_from_intervals(tmp_path: Path, sampler: str) -> None:
    wide = spec(sampler, "trials = 3", "{ low = 0.001, high = 1.0, log = true }")
    trials = tune(wide, tmp_path, workers=2)
    assert len(trials) == 3
    assert all(0.001 <= trial.setting["bonus.reward"] <= 1.0 for trial in trials)
    more = spec(sampler, "trials = 4", "{ low = 0.001, high = 1.0, log = true }")
    assert len(tune(more, tmp_path, workers=1)) == 4  # only what is new


def test_hopeless_settings_are_pruned(tmp_path: Path) -> None:
    """Bonuses that make every pair look the same keep exploring: worse than the others at every rung."""
    text = SPEC.replace("SAMPLER", "grid").replace("MORE", "").replace("episodes = 24", "episodes = 240")
    values = "[0.019, 0.02, 0.021, 0.022, 0.023, 0.024, 50.0, 60.0, 70.0]"
    search = parse_spec(text.replace("PARAMETER", values).replace("seeds = 2", "seeds = 1"), "tune.toml")
    trials = tune(search, tmp_path, workers=1)
    pruned = {trial.setting["bonus.reward"] for trial in trials if trial.state == "pruned"}
    assert pruned
    assert pruned <= {50.0, 60.0, 70.0}
    assert all(trial.episodes < 240 for trial in trials if trial.state == "pruned")
    assert trials[0].setting["bonus.reward"] < 1.0
    off = tune(
        parse_spec(text.replace("PARAMETER", "[0.02, 50.0]").replace('"grid"', '"grid"\nprune = false'), "t"),
        tmp_path / "off",
        workers=2,
    )
    assert {trial.state for trial in off} == {"complete"}


def test_a_search_that_was_killed_goes_on(tmp_path: Path) -> None:
    text = SPEC.replace("SAMPLER", "grid").replace("MORE", "").replace("PARAMETER", "[0.01, 0.02, 0.03, 0.04]")
    (tmp_path / "tune.toml").write_text(text.replace("episodes = 24", "episodes = 200"))
    command = [sys.executable, "-m", "conrl", "tune", "tune.toml", "--out", "found", "--workers", "2"]
    with launched(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as child:
        wait_until(lambda: list(tmp_path.glob("found/box/*/*/checkpoint.npz")), child)
        child.kill()
    done = launch(command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "found" / "trials.csv").read_text().splitlines()))
    assert sorted(float(row["bonus.reward"]) for row in rows) == [0.01, 0.02, 0.03, 0.04]
    undisturbed = tune(parse_spec((tmp_path / "tune.toml").read_text(), "t"), tmp_path / "other", workers=2)
    both = {float(row["bonus.reward"]): row for row in rows}
    for trial in undisturbed:
        row = both[trial.setting["bonus.reward"]]
        if row["state"] == trial.state == "complete":
            assert float(row["loss"]) == pytest.approx(trial.loss, rel=1e-6)


def test_another_search_needs_another_directory(tmp_path: Path) -> None:
    tune(spec(parameter="[0.02]"), tmp_path, workers=1)
    with pytest.raises(RunError, match="another search"):
        tune(spec(parameter="[0.03]"), tmp_path, workers=1)


@pytest.mark.parametrize(
    ("sampler", "more", "parameter", "piece"),
    [
        ("gird", "", "[0.02]", "did you mean 'grid'"),
        ("tpe", "", "[0.02]", "number of trials"),
        ("grid", "", "{ low = 0.1, high = 1.0 }", "a grid needs a list"),
        ("grid", 'algorithm = "conr"', "[0.02]", "did you mean 'conrl'"),
        ("grid", 'environment = "boxx"', "[0.02]", "did you mean 'box'"),
        ("grid", "", '["much"]', "bonus"),
    ],
)
def test_mistakes_in_a_search(sampler: str, more: str, parameter: str, piece: str) -> None:
    with pytest.raises(SpecError, match=re.escape(piece)):
        Search.of(spec(sampler, more, parameter))


def test_a_search_invents_no_mistakes() -> None:
    spec = parse_spec(
        "episodes = 5\n[environment.box]\n[algorithm.conrl]\n[algorithm.ucbvi]\n"
        "[tune]\nalgorithm = 'ucbv'\nenvironment = 'box'\n[tune.parameters]\ndelta = { low = 0.1, high = 3 }\n"
    )
    with pytest.raises(SpecMistakes) as caught:
        Search.of(spec)
    assert [mistake.partition(": ")[2] for mistake in caught.value.mistakes] == [
        "unknown algorithm 'ucbv'; did you mean 'ucbvi'?",
        "delta: a grid needs a list of values",
    ]


@pytest.mark.parametrize(
    ("more", "parameter", "line", "piece"),
    [
        ("trails = 3", "[0.02]", 10, "did you mean 'trials'"),
        ("trials = 0", "[0.02]", 10, "at least 1"),
        ("", "[]", 12, "a list of values"),
        ("", "{ low = 2, high = 1 }", 12, "a list of values"),
        ("", "3", 12, "a list of values"),
        ("prune = 1", "[0.02]", 10, "true or false"),
    ],
)
def test_mistakes_have_their_line(more: str, parameter: str, line: int, piece: str) -> None:
    with pytest.raises(SpecMistakes) as caught:
        spec("grid", more, parameter)
    assert any(f"tune.toml:{line}: " in mistake and piece in mistake for mistake in caught.value.mistakes)


def test_a_parameter_that_is_unknown_is_refused_before_anything_runs(tmp_path: Path) -> None:
    text = SPEC.replace("SAMPLER", "grid").replace("MORE", "").replace("PARAMETER", "[0.02]")
    path = tmp_path / "tune.toml"
    path.write_text(text.replace('"bonus.reward"', '"bonus.rewrad"'))
    done = CliRunner().invoke(main, ["tune", str(path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "did you mean 'reward'" in done.stderr
    assert not (tmp_path / "out").exists()
    path.write_text(text.split("[tune]")[0])
    done = CliRunner().invoke(main, ["tune", str(path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "[tune.parameters]" in done.stderr


def test_a_setting_that_fails_is_listed_and_the_others_go_on(tmp_path: Path) -> None:
    first = tune(spec(), tmp_path, workers=1)
    broken = next(iter(tmp_path.glob("box/*/seed-000/checkpoint.npz")))
    broken.write_bytes(b"no archive")
    for name in ("trials.db", "trials.csv", "best.json"):
        (tmp_path / name).unlink()
    again = tune(spec(), tmp_path, workers=1)
    assert sorted(trial.state for trial in again) == ["complete", "failed"]
    assert {trial.setting["bonus.reward"] for trial in again} == {trial.setting["bonus.reward"] for trial in first}


def test_a_search_whose_settings_all_fail_ends(tmp_path: Path) -> None:
    (tmp_path / "box").write_text("in the way of every run")
    trials = tune(spec("random", "trials = 2"), tmp_path, workers=1)
    assert [trial.state for trial in trials] == ["failed"] * 2
    assert [trial.loss for trial in trials] == [np.inf] * 2
    assert not (tmp_path / "best.json").exists()


def test_a_random_search_that_goes_on_draws_other_settings(tmp_path: Path) -> None:
    short = "{ low = 0.01, high = 1.0 }"
    tune(spec("random", "trials = 1", short), tmp_path, workers=1)
    trials = tune(spec("random", "trials = 2", short), tmp_path, workers=1)
    assert len({trial.setting["bonus.reward"] for trial in trials}) == 2


def test_budgets_are_tuned_over_all_their_episodes(tmp_path: Path) -> None:
    text = """
episodes = 8
[environment.pricing]
[algorithm.conrl]
budgets = { stock = 30 }
[tune.parameters]
bonus = ["0.1,0.1"]
"""
    (trial,) = tune(parse_spec(text), tmp_path, workers=1)
    assert (trial.state, trial.episodes) == ("complete", 8)


def test_two_searches_cannot_share_a_directory(tmp_path: Path) -> None:
    with alone(tmp_path, "searching here"), pytest.raises(RunError, match="another process is searching here"):
        tune(spec(), tmp_path, workers=1)


def test_the_live_line_shows_settings_and_tracebacks_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    terminal = partial(Console, file=shown, force_terminal=True, width=200)
    monkeypatch.setattr("rich.console.Console", lambda stderr: terminal())
    with counting() as listen:
        listen(Event(0, "playing", 5, "step=0.1, reset=[/none]"))
        wait_until(lambda: "step=0.1, reset=[/none]" in shown.getvalue())  # it is drawn some times a second
        listen(Event(0, "failed", 5, "Traceback\n  File [/tmp]\nRunError: [/here] is full\n"))
    assert "step=0.1, reset=[/none]" in shown.getvalue()

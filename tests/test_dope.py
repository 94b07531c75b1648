"""`conrl reproduce dope`: runs in blocks on disk, resumed run by run; their table and their figure."""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from conrl.cli import studies, study_tables
from conrl.cli.main import main
from conrl.errors import RunError, SpecError
from conrl.experiments import Event, Job, Run, Spec, builtin_spec, dope, parse_spec, run_study, runner
from conrl.experiments.block_runs import BASELINE, BLOCKS, CURVE, RunCurve, marks, read_curve, write_curve
from conrl.experiments.dope import Arm
from conrl.experiments.execution import execute
from conrl.experiments.worlds import Worlds

TWO = """\
name = "dope"
title = "Two"
seeds = 3
episodes = 400

[environment.factored]
title = "Factored"
[environment.media-streaming]

[algorithm.proof]
title = "OptCMDP (proof)"
learner = "optcmdp"
preset = "theory"
options = { keep_policies = false, replan = "doubling" }
[algorithm.scaled]
learner = "safe-conrl"
options = { keep_policies = false, replan = "doubling", safe_share = 0.2, scale = 0.01 }
"""


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Runs are played here instead of in processes of their own; the list of those that were."""
    played: list[Job] = []

    def serial(queue: deque[tuple[int, Job]], out: Path, count: int, tell: Callable[[Event], None], play: Any) -> None:
        for index, job in queue:
            played.append(job)
            execute(job, out, lambda kind, n, text, i=index: tell(Event(i, kind, n, text)), Worlds(), play)  # type: ignore[misc]

    monkeypatch.setattr(runner, "in_processes", serial)
    return played


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob(CURVE))}


def test_a_study_is_played_resumed_and_never_twice(tmp_path: Path, in_process: list[Job]) -> None:
    spec = parse_spec(TWO)
    outcome = run_study(spec, tmp_path / "a", manner=BLOCKS)
    assert (outcome.runs, outcome.finished, outcome.before, outcome.failed) == (12, 12, 0, {})
    whole = files(tmp_path / "a")
    assert len(whole) == 12
    assert run_study(spec, tmp_path / "a", manner=BLOCKS).before == 12
    assert len(in_process) == 12
    # One run is lost, another was cut by somebody: both are played again, and give the same bytes.
    (tmp_path / "a/factored/proof/seed-001" / CURVE).unlink()
    (tmp_path / "a/factored/proof/seed-002" / CURVE).write_bytes(b"episode,regret\n1")
    assert run_study(spec, tmp_path / "a", manner=BLOCKS).finished == 2
    assert files(tmp_path / "a") == whole
    # Fewer seeds first, then the rest; and fewer episodes first.
    few = replace(spec, jobs=[replace(job, episodes=50) for job in spec.jobs if job.seed == 0])
    assert run_study(few, tmp_path / "b", manner=BLOCKS).finished == 4
    assert run_study(spec, tmp_path / "b", manner=BLOCKS).finished == 12
    assert files(tmp_path / "b") == whole


def test_other_settings_are_refused_in_the_same_directory(tmp_path: Path, in_process: list[Job]) -> None:
    run_study(parse_spec(TWO.replace("seeds = 3", "seeds = 1")), tmp_path, manner=BLOCKS)
    with pytest.raises(RunError, match=r"another learner\.scale: 0\.01 there, 0\.02 here"):
        run_study(parse_spec(TWO.replace("0.01", "0.02")), tmp_path, manner=BLOCKS)


def test_an_interrupted_run_leaves_nothing_and_is_played_again(tmp_path: Path, in_process: list[Job]) -> None:
    import signal

    job = parse_spec(TWO).jobs[0]
    told: list[tuple[str, int]] = []

    def tell(kind: str, episodes: int, text: str) -> None:
        told.append((kind, episodes))
        if len(told) == 1:
            signal.raise_signal(signal.SIGTERM)

    assert not execute(job, tmp_path, tell, Worlds(), BLOCKS.play)
    assert [kind for kind, _ in told] == ["playing", "interrupted"]
    assert not (job.directory(tmp_path) / CURVE).exists()
    assert execute(job, tmp_path, lambda *_: None, Worlds(), BLOCKS.play)
    assert BLOCKS.played(job.directory(tmp_path)) == 400


def test_a_failure_is_recorded_and_the_others_go_on(tmp_path: Path, in_process: list[Job]) -> None:
    spec = parse_spec(TWO + "\n[algorithm.ucbvi]\nseeds = 1\noptions = { keep_policies = false }\n")
    outcome = run_study(spec, tmp_path, manner=BLOCKS)
    assert outcome.finished == 12
    assert len(outcome.failed) == 2
    assert "ucbvi does not learn from blocks" in (tmp_path / "factored/ucbvi/seed-000/failed.txt").read_text()


def test_links_are_not_followed(tmp_path: Path, in_process: list[Job]) -> None:
    spec = parse_spec(TWO.replace("seeds = 3", "seeds = 1"))
    run_study(spec, tmp_path, manner=BLOCKS)
    path = tmp_path / "factored/proof/seed-000" / CURVE
    other = tmp_path / "elsewhere.csv"
    path.rename(other)
    path.symlink_to(other)
    with pytest.raises(RunError, match="is a link"):
        dope.load_arms(spec, tmp_path)


def test_bernoulli_pay_is_refused(tmp_path: Path, in_process: list[Job]) -> None:
    job = replace(parse_spec(TWO).jobs[0], pay="bernoulli")
    said: list[str] = []
    assert not execute(job, tmp_path, lambda kind, n, text: said.append(text), Worlds(), BLOCKS.play)
    assert "runs in blocks pay by outcome" in said[-1]


SHARE = """\
episodes = 5
[environment.media-streaming]
[algorithm.dope]
options = { safe_share = 0.2 }
"""


def test_a_share_of_the_limits_makes_the_safe_policy(tmp_path: Path) -> None:
    spec = parse_spec(SHARE)
    learner = spec.run_like(spec.jobs[0]).learner
    assert learner.safe_costs.tolist() == pytest.approx([1.0])
    history = Run(spec.jobs[0], tmp_path).play()
    assert history.expected_costs is not None
    assert history.expected_costs[0, 0] == pytest.approx(1.0)
    again = Run(replace(spec.jobs[0], episodes=8), tmp_path)
    assert len(again.play()) == 8  # resumed from its checkpoint


# -- the table and the figure -------------------------------------------------------------------------------------


def made(seeds: int, violating: int, left: int | None, episodes: int = 1000) -> list[RunCurve]:
    """Curves with regret s k and violation (s - 1) k in episode k of seed s."""
    at = marks(episodes).astype(float)
    columns = ["episode", "regret", "strong_regret", "violation_a", "violation_b"]
    columns += ["strong_violation_a", "strong_violation_b", "violating", "left"]
    curves = []
    for s in range(seeds):
        bad = violating * (at >= 10)
        out = np.full(at.size, np.nan) if left is None else np.where(at >= left + s, left + s, np.nan)
        over = (s - 1) * at
        columns_of = (at, s * at, s * at, over, over - 5, np.maximum(over, 0), 0 * at, bad, out)
        curves.append(RunCurve(columns, np.column_stack(columns_of)))
    return curves


def test_the_summary_is_medians_and_quartiles_at_the_last_episode() -> None:
    (row,) = dope.summary([Arm("E", "A", "a", made(5, 7, 20))])
    assert (row["seeds"], row["episodes"]) == (5, 1000)
    assert (row["regret_q1"], row["regret"], row["regret_q3"]) == (1000.0, 2000.0, 3000.0)
    assert (row["violation"], row["strong_violation_q1"], row["strong_violation_q3"]) == (1000.0, 0.0, 2000.0)
    assert (row["violating_most"], row["runs_without_violation"]) == (7, 0)
    assert (row["left_first"], row["left_median"], row["left_last"], row["never_left"]) == (20, 22, 24, 0)
    (row,) = dope.summary([Arm("E", "A", "a", made(2, 0, None))])
    assert (row["runs_without_violation"], row["never_left"], row["left_first"]) == (2, 2, None)


def test_curves_of_different_lengths_are_compared_where_all_are() -> None:
    arm = Arm("E", "A", "a", [*made(2, 0, 5, 1000), *made(2, 0, 5, 137)])
    assert arm.episodes[-1] == 126  # 137 is a row of the short ones alone
    assert arm.runs("regret").shape == (4, arm.episodes.size)
    assert (arm.runs("regret")[1] == arm.episodes).all()


def cells(part: Any) -> Any:
    """The rows of a titled table."""
    return part.renderables[1].rows


def test_the_table_for_people() -> None:
    arms = [
        Arm("E", "careful", "a", made(3, 0, None)),
        Arm("E", "bold", "b", made(3, 9, 1)),
        Arm("F", "lone", "a", made(1, 0, 7)),
    ]
    first, second = study_tables.safety_tables(dope.summary(arms))
    rows = cells(first)
    assert rows[0] == ("careful", "1,000", "0", "0", "0", "3 of 3", "never")
    assert rows[1][-3:] == ("9", "0 of 3", "1 to 3")
    assert cells(second)[0][-1] == "7"
    half = [Arm("E", "half", "a", [*made(1, 0, 7), *made(1, 0, None), *made(1, 0, 1200, 1000)])]
    (part,) = study_tables.safety_tables(dope.summary(half))
    assert cells(part)[0][-1] == "7 (1 of 3)"


def test_the_figure_has_a_column_for_each_environment(tmp_path: Path) -> None:
    arms = [
        Arm("E", "careful, proof", "a", made(3, 0, None)),
        Arm("E", "careful", "a", made(3, 0, None)),
        Arm("E", "bold", "b", made(3, 9, 1)),
        Arm("F", "bold", "b", made(3, 9, 1)),
    ]
    drawn = dope.figure(arms, "A note.")
    assert len(drawn.axes) == 4
    lines = {line.get_label(): line for line in drawn.axes[0].lines}
    assert len(lines) == 3
    careful, proof, bold = drawn.axes[0].lines
    assert careful.get_color() == proof.get_color() != bold.get_color()
    assert proof.get_linestyle() != careful.get_linestyle()
    assert drawn.axes[0].get_xscale() == "log"
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["careful, proof", "careful", "bold"]
    below = drawn.axes[2]
    assert below.get_yscale() == "symlog"
    assert below.get_ylim()[0] < 0.0
    assert "A note." in str(drawn.get_supxlabel())
    paths = dope.save_study(arms, tmp_path, "dope")
    assert [path.name for path in paths] == ["dope.png", "dope.pdf", "summary.csv"]
    before = [path.read_bytes() for path in paths]
    dope.save_study(arms, tmp_path, "dope")
    assert [path.read_bytes() for path in paths] == before
    with (tmp_path / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["algorithm"] for row in rows] == ["careful, proof", "careful", "bold", "bold"]
    assert rows[0]["left_first"] == ""


def test_no_two_learners_are_drawn_alike() -> None:
    """Thirty learners in two versions each: learners by color and mark, versions by dashes."""
    arms = [
        Arm("E", f"{k} {version}", f"{k}", made(1, 0, None, 10)) for k in range(30) for version in ("proof", "scaled")
    ]
    lines = dope.figure(arms).axes[0].lines
    assert len({(line.get_color(), line.get_marker(), str(line.get_linestyle())) for line in lines}) == 60
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 30


def test_learners_are_summarized_over_the_episodes_that_all_have() -> None:
    """Sums over 1,000 episodes of one learner do not stand beside sums over 137 of another."""
    long, short = Arm("E", "long", "a", made(3, 0, None, 1000)), Arm("E", "short", "b", made(3, 0, None, 137))
    rows = dope.summary([long, short, Arm("F", "alone", "a", made(3, 0, None, 1000))])
    assert [(row["episodes"], row["played"], row["regret"]) for row in rows] == [
        (126, 1000, 126.0),
        (126, 137, 126.0),
        (1000, 1000, 1000.0),
    ]
    parts: list[Any] = list(study_tables.safety_tables(rows))
    assert "sums over the first 126 episodes, which all runs have" in str(parts[0].renderables[0])
    assert "sums over 1,000 episodes" in str(parts[1].renderables[0])


def test_who_has_no_violation_is_named() -> None:
    safe = made(2, 0, None)  # seeds 0 and 1 never exceed the limit
    drawn = dope.figure([Arm("E", "careful", "a", safe), Arm("E", "bold", "b", made(3, 9, 1))])
    assert [text.get_text() for text in drawn.axes[1].texts] == ["0 in all runs: careful"]


def test_a_directory_without_runs(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run that has ended"):
        dope.load_arms(Spec("s", "s", {}, {}, []), tmp_path)


# -- the command --------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, in_process: list[Job], monkeypatch: pytest.MonkeyPatch) -> None:
    import conrl.experiments

    monkeypatch.setattr(conrl.experiments, "builtin_spec", lambda name: parse_spec(TWO))
    monkeypatch.setattr(studies, "QUICK_DOPE", 60)
    out = tmp_path / "quick"
    done = CliRunner().invoke(main, ["reproduce", "dope", "--quick", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert len(in_process) == 8  # two seeds
    assert "dope: 8 runs played, of 8" in done.output
    assert "Factored: sums over 60 episodes" in done.output
    assert "OptCMDP (proof)" in done.output
    for name in ("dope.png", "dope.pdf", "summary.csv"):
        assert f"wrote {out / name}" in done.output
        assert (out / name).stat().st_size > 0
    assert json.loads((out / "study.json").read_text())["algorithms"]["proof"]["title"] == "OptCMDP (proof)"
    again = CliRunner().invoke(main, ["reproduce", "dope", "--quick", "--out", str(out)])
    assert "8 were finished before, of 8" in again.output
    assert len(in_process) == 8


def test_the_study_that_comes_with_conrl() -> None:
    """Every environment x learner of the comparison; those with a baseline in two versions, all planning alike."""
    spec = builtin_spec("dope")
    assert {job.env for job in spec.jobs} == {"factored", "media-streaming", "inventory"}
    assert {(job.seed, job.episodes) for job in spec.jobs} == {(seed, 100_000) for seed in range(20)}
    versions: dict[str, set[str]] = {}
    for job in spec.jobs:
        versions.setdefault(job.algorithm, set()).add(job.preset)
        assert job.options["replan"] == "doubling"
        assert job.options.get("safe_share", BASELINE) == BASELINE
    assert versions.pop("conrl", {"default"}) == versions.pop("optcmdp") == {"default"}
    assert versions == {name: {"default", "theory"} for name in ("dope", "optpess-lp", "safe-conrl")}


def test_in_processes_of_its_own(tmp_path: Path) -> None:
    done = run_study(parse_spec(TWO.replace("seeds = 3", "seeds = 1")), tmp_path, workers=2, manner=BLOCKS)
    assert (done.finished, done.failed) == (4, {})
    assert len(files(tmp_path)) == 4


def test_curves_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    spec = parse_spec(TWO)
    where = spec.jobs[0].directory(tmp_path)
    where.mkdir(parents=True)
    write_curve(where / CURVE, made(1, 0, None)[0])
    assert read_curve(where / CURVE).columns[0] == "episode"
    (where / CURVE).write_text("x")
    with pytest.raises(RunError, match="delete it to play the run again"):
        dope.load_arms(spec, tmp_path)


def test_a_problem_without_an_optimum_is_refused(in_process: list[Job]) -> None:
    from conrl.experiments.block_runs import aim_of
    from conrl.running import History

    with pytest.raises(SpecError, match="needs the true model"):
        aim_of(History(("c",), parse_spec(TWO).run_like(parse_spec(TWO).jobs[0]).learner.problem))

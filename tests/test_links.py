"""A directory of runs that came from elsewhere leads nowhere: no link in it is written through or read through.

Pipes in it do not hang anybody either.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ok, refused
from commands import run as run_command

import conrl
from conrl.experiments import Job, Run, load, parse_spec, run_study
from conrl.experiments.figures import save_study_figure
from conrl.experiments.report import write_report
from conrl.experiments.tensorboard import export
from conrl.experiments.tuning import tune
from conrl.io.files import alone, atomic_write

SPEC = "episodes = 4\n[environment.box]\n[algorithm.ucbvi]\n"
TUNE = f"{SPEC}[tune]\n[tune.parameters]\nscale = [0.1]\n"
RUN = Path("box", "ucbvi", "seed-000")
SECRET = b"a file of somebody else\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("links") / "study"
    assert run_study(parse_spec(SPEC), out, workers=1).finished == 1
    return out


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "study"))


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file outside that nothing may touch."""
    path = tmp_path / "outside" / "victim"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    yield path
    assert path.read_bytes() == SECRET
    assert list(path.parent.iterdir()) == [path]


def link(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def whole(path: Path) -> bytes:
    """What a file of its own holds, and no link."""
    assert not path.is_symlink()
    return path.read_bytes()


@pytest.mark.parametrize("name", ["config.json", "checkpoint.npz", "progress.csv", "failed.txt", "lock"])
@pytest.mark.parametrize("dangling", [False, True])
def test_links_in_a_new_run(name: str, dangling: bool, tmp_path: Path, victim: Path) -> None:
    """A directory that somebody prepared: the links are replaced, or the run is refused."""
    where = tmp_path / "study" / RUN
    where.mkdir(parents=True)
    target = victim.parent / "new" if dangling else victim
    link(where / name, target)
    result = run_command("learn", "box", "--algorithm", "ucbvi", "--episodes", 4, "--out", tmp_path / "study")
    if name == "lock" or (name == "checkpoint.npz" and not dangling):
        assert result.exit_code == 2
        assert f"{where / name} is a link" in result.stderr
    else:
        assert result.exit_code == 0, result.stderr
        assert (
            whole(where / "progress.csv").decode() == Run(Job(env="box", algorithm="ucbvi", episodes=4)).play().to_csv()
        )
    assert not (victim.parent / "new").exists()


@pytest.mark.parametrize("name", ["config.json", "checkpoint.npz", "progress.csv"])
def test_a_link_is_not_read_through(name: str, study: Path, tmp_path: Path) -> None:
    """Not even to a file that would do: what a directory holds is in it."""
    elsewhere = tmp_path / name
    (study / RUN / name).rename(elsewhere)
    link(study / RUN / name, elsewhere)
    before = elsewhere.read_bytes()
    words = ("learn", "box", "--algorithm", "ucbvi", "--out", study, "--episodes", 6)
    if name == "progress.csv":
        ok(*words)
        assert whole(study / RUN / name).count(b"\n") == 7
    else:
        assert f"{name} is a link" in refused(*words)
    assert elsewhere.read_bytes() == before


@pytest.mark.parametrize("part", ["box", "box/ucbvi", "box/ucbvi/seed-000"])
def test_directories_that_are_links(part: str, study: Path, tmp_path: Path) -> None:
    """Runs of somebody else are neither continued nor shown; no failure is recorded among them, none taken away."""
    elsewhere = tmp_path / "elsewhere"
    (study / part).rename(elsewhere)
    link(study / part, elsewhere)
    (next(elsewhere.rglob("config.json")).parent / "failed.txt").write_text("Traceback")
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    with pytest.raises(conrl.RunError, match="is a link"):
        run_study(parse_spec(SPEC.replace("4", "6")), study, workers=1)
    assert "is a link" in refused("learn", "box", "--algorithm", "ucbvi", "--episodes", 6, "--out", study)
    assert "is a link" in refused("report", study)
    assert {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()} == before


def test_the_directory_itself_may_be_a_link(study: Path, tmp_path: Path) -> None:
    link(tmp_path / "runs", study)
    ok("learn", "box", "--algorithm", "ucbvi", "--episodes", 6, "--out", tmp_path / "runs")
    assert load(tmp_path / "runs").runs[0].episodes == 6


def test_links_at_the_top_of_a_study(study: Path, victim: Path) -> None:
    for name in ("study.json", "report.html", "figure.png", "figure.pdf", "summary.csv"):
        link(study / name, victim)
    assert "study.json is a link" in refused("report", study)
    assert run_study(parse_spec(SPEC), study, workers=1).before == 1
    assert b"box" in whole(study / "study.json")
    found = load(study)
    write_report(found)
    save_study_figure(found, study / "figure")
    found.save_csv(study / "summary.csv", follow=False)
    for name in ("report.html", "figure.png", "figure.pdf", "summary.csv"):
        assert whole(study / name)


def test_a_report_named_by_the_user_may_be_a_link(study: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("before")
    link(tmp_path / "latest.html", tmp_path / "page.html")
    ok("report", study, "--out", tmp_path / "latest.html")
    assert (tmp_path / "latest.html").is_symlink()
    assert "<html" in (tmp_path / "page.html").read_text()


def test_a_lock_that_is_a_link(tmp_path: Path, victim: Path) -> None:
    link(tmp_path / ".lock", victim.parent / "made")
    with pytest.raises(conrl.RunError, match=r"\.lock is a link"), alone(tmp_path, "working"):
        pass


def test_what_failed_elsewhere_is_not_shown(study: Path, victim: Path) -> None:
    """The text of `failed.txt` goes into the page, which people pass on."""
    link(study / RUN / "failed.txt", victim)
    (study / "box" / "ucbvi" / "seed-001").mkdir()
    (study / "box" / "ucbvi" / "seed-001" / "failed.txt").write_text("x" * 1_000_000)
    found = load(study)
    assert [len(failure.traceback) for failure in found.failures] == [100_000]
    assert len(found.unreadable) == 1
    assert "failed.txt is a link" in found.unreadable[0]


@pytest.mark.parametrize("name", ["search.json", "trials.db", "trials.db-journal"])
def test_links_in_a_search(name: str, tmp_path: Path, victim: Path) -> None:
    out = tmp_path / "tuning"
    out.mkdir()
    link(out / name, victim)
    with pytest.raises(conrl.RunError, match=f"{name} is a link"):
        tune(parse_spec(TUNE), out, workers=1)


@pytest.mark.parametrize("name", ["trials.csv", "best.json"])
def test_results_of_a_search_replace_links(name: str, tmp_path: Path, victim: Path) -> None:
    out = tmp_path / "tuning"
    out.mkdir()
    link(out / name, victim)
    tune(parse_spec(TUNE), out, workers=1)
    assert b"scale" in whole(out / name)


def test_links_where_events_are_written(study: Path, tmp_path: Path, victim: Path) -> None:
    (path,) = export(load(study), tmp_path / "events")
    link(path, victim)
    export(load(study), tmp_path / "events")
    assert whole(path) != SECRET
    link(tmp_path / "events" / "box", victim.parent)
    with pytest.raises(conrl.RunError, match="is a link"):
        export(load(study), tmp_path / "events")


def test_a_link_gives_no_permissions(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("")
    (tmp_path / "private").chmod(0o600)
    link(tmp_path / "file", tmp_path / "private")
    with atomic_write(tmp_path / "file", follow=False) as file:
        file.write(b"ours")
    plain = tmp_path / "plain"
    plain.write_text("")
    assert whole(tmp_path / "file") == b"ours"
    assert (tmp_path / "file").stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize(
    ("name", "codes"),  # of learn, report and run
    [
        ("config.json", (2, 2, 2)),
        ("checkpoint.npz", (2, 0, 4)),
        ("progress.csv", (0, 0, 0)),
        ("failed.txt", (0, 2, 0)),
        ("lock", (0, 0, 0)),
    ],
)
def test_pipes_hang_nobody(name: str, codes: tuple[int, int, int], study: Path) -> None:
    (study / RUN / name).unlink(missing_ok=True)
    os.mkfifo(study / RUN / name)
    spec = write(study.parent / "spec.toml", SPEC.replace("4", "8"))
    commands = (
        ("learn", "box", "--algorithm", "ucbvi", "--episodes", 6, "--out", study),
        ("report", study),
        ("run", spec, "--out", study),
    )
    for command, code in zip(commands, codes, strict=True):
        result = run_command(*command)
        assert result.exit_code == code, result.stderr
        assert ("regular file" in result.stderr) == (code != 0)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_study_of_pipes_hangs_nobody(study: Path) -> None:
    (study / "study.json").unlink()
    os.mkfifo(study / "study.json")
    assert "not a regular file" in refused("report", study)
    assert run_study(parse_spec(SPEC), study, workers=1).before == 1
    assert b"box" in whole(study / "study.json")

"""Studies: the same bytes wherever, in however many processes and after whatever interruption; nothing played twice.

The study of 20 kills is `python benchmarks/kill.py --study 20`; here a few.
"""

from __future__ import annotations

import fcntl
import functools
import io
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import rich.console
from click.testing import CliRunner, Result
from commands import said
from launch import PATIENCE, alive, children, launch, launched, strike, wait_until

import conrl
from conrl.cli.main import main
from conrl.experiments import Event, Job, Run, Spec, load, load_spec, parse_spec, processes, run_study
from conrl.experiments.execution import execute
from conrl.experiments.processes import ONE_THREAD
from conrl.experiments.view import watching
from conrl.experiments.worlds import WorldFields, Worlds, made_world

SMALL = """\
name = "small"
episodes = 40
seeds = 2

[environment.mars-rover]
set = { rock_reward = 1.0 }

[environment.box]
title = "Box"

[algorithm.conrl]

[algorithm.ucbvi]

[algorithm.optcmdp]
episodes = 12
"""
LONG = """\
name = "long"
episodes = 800

[environment.mars-rover]
set = { rock_reward = 1.0 }

[environment.box]

[algorithm.conrl]

[algorithm.ucbvi]
"""
Bytes = dict[str, bytes]
Stamps = dict[str, tuple[int, int]]


def progress(directory: Path) -> Bytes:
    return {str(p.parent.relative_to(directory)): p.read_bytes() for p in directory.rglob("progress.csv")}


def stamps(directory: Path) -> Stamps:
    """Which files, and when they were written."""
    files = [p for p in directory.rglob("*") if p.is_file() and p.name not in ("study.json", "lock", ".lock")]
    return {str(p.relative_to(directory)): (p.stat().st_ino, p.stat().st_mtime_ns) for p in files}


def played_rows(directory: Path) -> int:
    """How many episodes are on disk."""
    return sum(table.count(b"\n") - 1 for table in progress(directory).values())


def played(spec: Spec) -> Bytes:
    """What an undisturbed run of every job writes, in this process and without any file."""
    return {str(job.directory("")): Run(job).play().to_csv().encode() for job in spec.jobs}


@pytest.fixture(scope="module")
def small() -> Bytes:
    return played(parse_spec(SMALL))


@pytest.fixture(scope="module")
def long() -> Bytes:
    return played(parse_spec(LONG))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, small: Bytes) -> Path:
    """The small study, played by one process."""
    out = tmp_path_factory.mktemp("finished")
    outcome = run_study(parse_spec(SMALL), out, workers=1)
    assert (outcome.finished, outcome.before, outcome.failed, outcome.interrupted) == (12, 0, {}, False)
    assert progress(out) == small
    return out


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def command(spec: str, out: Path, *options: str) -> list[str]:
    path = out.parent / "spec.toml"
    path.write_text(spec)
    return [sys.executable, "-m", "conrl", "run", str(path), "--out", str(out), *options]


def cli(spec: str, out: Path, *options: str) -> Result:
    return CliRunner().invoke(main, command(spec, out, *options)[3:], prog_name="conrl")


# -- what is made -----------------------------------------------------------------------------------------


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the worlds that are made, as they are."""
    names: list[str] = []

    def counted(asked: WorldFields) -> Any:
        names.append(asked.env)
        return made_world(asked)

    monkeypatch.setattr("conrl.experiments.worlds.made_world", counted)
    return names


def test_loading_a_study_makes_each_world_once_and_keeps_it(copy: Path, made: list[str]) -> None:
    spec = parse_spec(SMALL)
    assert sorted(made) == ["box", "mars-rover"]
    assert {kind: run.job.seed for kind, run in spec.checked.items()} == dict.fromkeys(spec.checked, 0)
    box = [run for (env, _), run in spec.checked.items() if env == "box"]
    assert len(box) == 3
    assert len({id(run.world) for run in box}) == 1
    outcome = run_study(spec, copy, workers=1)  # compares the settings of what is there
    assert outcome.before == 12
    assert sorted(made) == ["box", "mars-rover"]


def test_a_worker_makes_each_world_once(tmp_path: Path, made: list[str], small: Bytes) -> None:
    jobs, worlds = parse_spec(SMALL).jobs, Worlds()
    made.clear()
    for job in jobs:
        assert execute(job, tmp_path, lambda kind, episodes, text: None, worlds)
    assert sorted(made) == ["box", "mars-rover"]
    assert progress(tmp_path) == small


def test_a_model_file_that_has_changed_is_read_again(tmp_path: Path, made: list[str]) -> None:
    path = tmp_path / "m.npz"
    box = conrl.envs.box()
    job, worlds = Job(env=str(path), algorithm="ucbvi", episodes=2), Worlds()
    for horizon in (5, 6):
        conrl.save_model(path, box.replace(horizon=horizon))
        assert worlds.of(job)[1].horizon == worlds.of(job)[1].horizon == horizon
    assert len(made) == 2
    (tmp_path / "s.toml").write_text('episodes = 2\n[environment."m.npz"]\n[algorithm.ucbvi]\n')
    spec = load_spec(tmp_path / "s.toml")
    assert run_study(spec, tmp_path / "out", workers=1).finished == 1
    assert run_study(spec, tmp_path / "out", workers=1).before == 1
    conrl.save_model(path, box.replace(horizon=7))
    with pytest.raises(conrl.RunError, match="holds a run with another"):
        run_study(spec, tmp_path / "out", workers=1)


def test_threads_may_share_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worlds, "MOST", 1)
    worlds = Worlds()
    jobs = [Job(env="box", algorithm="ucbvi", episodes=1, horizon=h) for h in range(2, 8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda job: worlds.of(job)[1].horizon, jobs * 10))
    assert found == [job.horizon for job in jobs] * 10


def test_of_large_worlds_only_the_latest_are_kept(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worlds, "MOST", 3 * conrl.envs.box().graph.probability.size)
    worlds = Worlds()
    jobs = [Job(env="box", algorithm="ucbvi", episodes=1, horizon=h) for h in range(2, 6)]
    for job in (*jobs, *jobs[1:], jobs[0]):
        assert worlds.of(job)[1].horizon == job.horizon
    assert len(made) == len(jobs) + 1
    monkeypatch.setattr(Worlds, "MOST", 1)
    for job in (jobs[2], jobs[2], jobs[1]):
        worlds.of(job)
    assert len(made) == len(jobs) + 2  # the third was there, and all but the latest went


def test_a_study_of_many_environments_makes_each_once(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worlds, "MOST", 1)
    tables = "".join(f"[environment.box{h}]\nmodel = 'box'\nhorizon = {h}\n" for h in range(2, 8))
    spec = parse_spec(f"episodes = 1\n{tables}[algorithm.conrl]\n[algorithm.ucbvi]\n[algorithm.optcmdp]\n")
    assert len(made) == 6
    assert len({id(run.world) for run in spec.checked.values()}) == 6


# -- what is played ---------------------------------------------------------------------------------------


def test_the_number_of_processes_does_not_matter(tmp_path: Path, small: Bytes) -> None:
    events: list[Event] = []
    outcome = run_study(parse_spec(SMALL), tmp_path / "a" / "b", workers=2, listener=events.append)
    assert (outcome.finished, outcome.runs, outcome.failed) == (12, 12, {})
    assert progress(tmp_path / "a" / "b") == small
    for kind in ("started", "done"):
        assert sorted(e.job for e in events if e.kind == kind) == list(range(12))
    assert {e.episodes for e in events if e.kind == "done"} == {40, 12}
    assert any(e.kind == "playing" for e in events)
    assert not list(tmp_path.rglob("*.tmp"))
    assert not list(tmp_path.rglob("failed.txt"))


def test_finished_runs_are_not_touched(copy: Path) -> None:
    before, events = stamps(copy), list[Event]()
    outcome = run_study(parse_spec(SMALL), copy, workers=2, listener=events.append)
    assert (outcome.finished, outcome.before) == (0, 12)
    assert stamps(copy) == before
    assert [(e.kind, e.job) for e in events] == [("before", i) for i in range(12)]


def test_a_finished_run_needs_no_checkpoint(copy: Path) -> None:
    for path in copy.rglob("checkpoint.npz"):
        path.unlink()
    assert run_study(parse_spec(SMALL), copy, workers=1).before == 12
    with pytest.raises(conrl.RunError, match=r"another learner\.scale"):
        run_study(parse_spec(SMALL.replace("[algorithm.ucbvi]", "[algorithm.ucbvi]\noptions.scale = 0.5")), copy)


def test_a_changed_spec_adds_what_is_new(copy: Path, small: Bytes) -> None:
    before = stamps(copy)
    text = SMALL.replace("seeds = 2", "seeds = [0, 1, 5]").replace("[algorithm.optcmdp]\nepisodes = 12\n", "")
    more = parse_spec(
        text + '[algorithm."second try"]\nlearner = "ucbvi"\noptions.scale = 1e-3\nenvironments = ["box"]\n'
    )
    outcome = run_study(more, copy, workers=2)
    assert (outcome.runs, outcome.before, outcome.finished) == (15, 8, 7)
    after = stamps(copy)
    assert before.items() <= after.items()
    assert progress(copy) == small | played(more)
    study = json.loads((copy / "study.json").read_text())
    assert list(study["algorithms"]) == ["conrl", "ucbvi", "optcmdp", "second try"]
    assert study["environments"]["box"]["title"] == "Box"


def test_more_episodes_go_on(copy: Path, small: Bytes) -> None:
    whole, fewer = parse_spec(SMALL.replace("40", "70")), parse_spec(SMALL.replace("40", "20"))
    outcome = run_study(whole, copy, workers=1)
    assert (outcome.before, outcome.finished) == (4, 8)
    assert progress(copy) == played(whole)
    assert all(rows.startswith(small[name]) for name, rows in progress(copy).items())
    before = stamps(copy)
    assert run_study(fewer, copy, workers=1).before == 12  # nothing is taken back
    assert stamps(copy) == before


@pytest.mark.parametrize(
    ("old", "new", "piece"),
    [
        ("[algorithm.ucbvi]", "[algorithm.ucbvi]\noptions.scale = 0.5", "another learner.scale: 1e-05 there, 0.5 here"),
        ("rock_reward = 1.0", "rock_reward = 0.5", "another settings.rock_reward: 1.0 there, 0.5 here"),
        ('title = "Box"', "horizon = 20", "another learner.task"),
        ('title = "Box"', "limits = { corner = 0.2 }", "another learner"),
        ("[algorithm.conrl]", '[algorithm.conrl]\nlearner = "optcmdp"', "another learner"),
        ("[algorithm.conrl]", '[algorithm.conrl]\npay = "bernoulli"', "another pay"),
    ],
)
def test_another_setting_under_the_same_name_is_refused(copy: Path, old: str, new: str, piece: str) -> None:
    before, study = stamps(copy), (copy / "study.json").read_bytes()
    text = SMALL.replace("seeds = 2", "seeds = 3").replace(old, new)
    with pytest.raises(conrl.RunError, match=re.escape(piece)) as caught:
        run_study(parse_spec(text), copy, workers=1, listener=lambda event: pytest.fail("something ran"))
    assert re.search(r"and \d+ more such runs", str(caught.value))
    assert stamps(copy) == before
    assert (copy / "study.json").read_bytes() == study


def test_what_was_not_played_may_change(tmp_path: Path) -> None:
    """A run that failed before its first checkpoint holds nothing that a new setting could contradict."""
    text = "episodes = 5\n[environment.box]\n[algorithm.ucbvi]\n"
    Run(parse_spec(text).jobs[0], tmp_path).play()
    where = tmp_path / "box" / "ucbvi" / "seed-000"
    for name in ("checkpoint.npz", "progress.csv"):
        (where / name).unlink()
    other = parse_spec(text + "options.scale = 0.5\n")
    assert run_study(other, tmp_path, workers=1).finished == 1
    assert progress(tmp_path) == played(other)


def test_names_of_files_and_with_spaces_are_found_again(tmp_path: Path) -> None:
    conrl.save_model(tmp_path / "shop.npz", conrl.envs.box())
    text = 'episodes = 5\n[environment."shop.npz"]\n[algorithm."a <b>"]\nlearner = "ucbvi"\ntitle = "A"\n'
    spec = parse_spec(text, folder=tmp_path)
    run_study(spec, tmp_path / "out", workers=1)
    study = load(tmp_path / "out")
    assert [(r.environment, r.algorithm, r.episodes) for r in study.runs] == [("shop.npz", "a <b>", 5)]
    assert study.titles == {"a <b>": "A"}
    assert study.environments["shop.npz"].optimum is not None


# -- failures ---------------------------------------------------------------------------------------------


def test_a_failed_run_is_recorded_and_the_others_go_on(copy: Path) -> None:
    text = SMALL.replace("40", "60")
    where = copy / "box" / "conrl" / "seed-001"
    (where / "checkpoint.npz").write_bytes(b"no archive")
    rows = (where / "progress.csv").read_bytes()
    result = cli(text, copy, "--workers", "1")
    assert result.exit_code == 4
    assert "small: 7 runs played, 4 were finished before, of 12" in result.stdout
    failed, last = said(result.stderr).splitlines()
    assert failed.startswith("Failed: box conrl seed 1: ")
    assert "checkpoint.npz: damaged" in failed
    assert "delete it to start the run again" in failed
    assert last == "Error: 1 run failed; failed.txt in a run's directory has the traceback"
    assert (where / "failed.txt").read_text().startswith("Traceback (most recent call last):\n")
    assert (where / "progress.csv").read_bytes() == rows
    (failure,) = load(copy).failures
    assert (failure.environment, failure.algorithm, failure.seed) == ("box", "conrl", 1)
    (where / "checkpoint.npz").unlink()
    result = cli(text, copy, "--workers", "1")
    assert (result.exit_code, said(result.stderr)) == (0, "")
    assert "1 run played, 11 were finished before" in result.stdout
    assert progress(copy) == played(parse_spec(text))
    assert not list(copy.rglob("failed.txt"))


def test_a_program_needs_no_guard_and_may_come_from_a_pipe(tmp_path: Path) -> None:
    code = (
        "from conrl.experiments import parse_spec, run_study\n"
        "spec = parse_spec('episodes = 3\\nseeds = 2\\n[environment.box]\\n[algorithm.ucbvi]')\n"
        "print(run_study(spec, 'out', workers=2).finished, __name__)\n"
    )
    Path(tmp_path, "program.py").write_text(code)
    for arguments, given in (((), code), (("program.py",), None)):
        done = launch([sys.executable, *(arguments or ("-",))], given, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "2 __main__\n", "")
        shutil.rmtree(tmp_path / "out")


def test_two_commands_cannot_run_one_study_at_once(tmp_path: Path) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(conrl.RunError, match="another process is working on this study"):
            run_study(parse_spec(SMALL), tmp_path, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_run_that_another_process_owns_fails_alone(tmp_path: Path, small: Bytes) -> None:
    where = tmp_path / "mars-rover" / "ucbvi" / "seed-000"
    where.mkdir(parents=True)
    with (where / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome = run_study(parse_spec(SMALL), tmp_path, workers=1)
    ((place, text),) = outcome.failed.items()
    assert outcome.finished == 11
    assert "another process is working on this run" in text
    assert "another process is working on this run" in (where / "failed.txt").read_text()
    assert parse_spec(SMALL).jobs[place].directory(tmp_path) == where
    assert run_study(parse_spec(SMALL), tmp_path, workers=1).finished == 1
    assert progress(tmp_path) == small


def test_the_record_of_a_failure_does_not_outlive_it(copy: Path) -> None:
    """Killed after its last row and before it takes the record away, a run is finished all the same."""
    (copy / "box" / "conrl" / "seed-000" / "failed.txt").write_text("Traceback")
    assert run_study(parse_spec(SMALL), copy, workers=1).before == 12
    assert load(copy).failures == []


@pytest.mark.parametrize("out", ["/dev/null/study", "/proc/conrl-study"])
def test_a_directory_that_cannot_be_is_one_line(out: str, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SMALL)
    result = CliRunner().invoke(main, ["run", str(tmp_path / "spec.toml"), "--out", out])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: cannot write in {out}: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_directory_is_one_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir(mode=0o500)
    result = cli(SMALL, out)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "study.json: permission denied" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_disk_that_takes_no_more_loses_nothing(copy: Path, tmp_path: Path) -> None:
    """No file may grow beyond 4 or 8 kB, by the shell's way of counting: less than a checkpoint has."""
    text = SMALL.replace("40", "60")
    before = progress(copy)
    limited = ["sh", "-c", 'ulimit -f 8; exec "$0" "$@"', *command(text, copy, "--workers", "1")]
    done = launch(limited)
    assert done.returncode == 4, done.stderr
    told = said(done.stderr).splitlines()
    assert len(told) == 9
    assert all(line.endswith("checkpoint.npz: file too large") for line in told[:8])
    assert progress(copy) == before
    assert not list(copy.rglob("*.tmp"))
    assert run_study(parse_spec(text), copy, workers=1).finished == 8
    assert progress(copy) == played(parse_spec(text))


# -- lost workers -----------------------------------------------------------------------------------------


def worker_pids() -> list[int]:
    return [child.pid for child in multiprocessing.active_children() if child.pid is not None]


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGKILL, 2), (signal.SIGTERM, 1)])
def test_the_run_of_a_lost_worker_is_redone(number: signal.Signals, workers: int, tmp_path: Path, long: Bytes) -> None:
    """Twice, if the runs are not over by then: early, and once much is played."""
    spec, moments, events = parse_spec(LONG), [1, 200], list[Event]()

    def listen(event: Event) -> None:
        events.append(event)
        if event.kind == "playing" and moments and event.episodes >= moments[0]:
            where = spec.jobs[event.job].directory(tmp_path)
            if strike(where / "lock", number):
                moments.pop(0)

    outcome = run_study(spec, tmp_path, workers=workers, listener=listen)
    assert (outcome.finished, outcome.failed, outcome.interrupted) == (4, {}, False)
    assert 1 <= sum(e.kind == "lost" for e in events) == 2 - len(moments)
    assert progress(tmp_path) == long


def test_a_run_that_kills_its_workers_fails_in_the_end(
    tmp_path: Path, small: Bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "ATTEMPTS", 2)

    def listen(event: Event) -> None:
        if event.kind == "started" and event.job == 3:
            for pid in worker_pids():  # the one that plays, and perhaps one that is still dying
                os.kill(pid, signal.SIGKILL)

    outcome = run_study(parse_spec(SMALL), tmp_path, workers=1, listener=listen)
    assert outcome.failed == {3: "its worker died 2 times"}
    where = parse_spec(SMALL).jobs[3].directory(tmp_path)
    assert (where / "failed.txt").read_text() == "its worker died 2 times"
    assert outcome.finished == 11
    assert run_study(parse_spec(SMALL), tmp_path, workers=1).finished == 1
    assert not (where / "failed.txt").exists()
    assert progress(tmp_path) == small


def test_workers_are_one_thread_and_this_process_is_as_before(tmp_path: Path) -> None:
    seen: list[str] = []

    def look(event: Event) -> None:
        if event.kind == "playing":
            (pid,) = worker_pids()
            seen.extend(Path(f"/proc/{pid}/environ").read_text().split("\0"))

    before = dict(os.environ)
    spec = parse_spec("episodes = 3\n[environment.box]\n[algorithm.ucbvi]\n")
    run_study(spec, tmp_path, workers=1, listener=look)
    assert {f"{name}=1" for name in ONE_THREAD} <= set(seen)
    assert dict(os.environ) == before


# -- the whole command, killed ----------------------------------------------------------------------------


def study(spec: str, out: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    words = command(spec, out, "--workers", "2")
    return launched(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_killed_at_random_moments_and_resumed(tmp_path: Path, long: Bytes) -> None:
    """Only the parent is killed: its workers must not go on alone, or they would hold the locks of their runs."""
    out = tmp_path / "out"
    generator = random.Random(0)
    for _ in range(3):
        rows = played_rows(out)
        with study(LONG, out) as process:
            wait_until(lambda: played_rows(out) > rows, process)  # noqa: B023
            time.sleep(generator.uniform(0.0, 0.5))
            workers = children(process.pid)
            process.kill()
            process.communicate(timeout=PATIENCE)
            wait_until(lambda: not any(map(alive, workers)))  # noqa: B023
    result = cli(LONG, out, "--workers", "2")
    assert (result.exit_code, said(result.stderr)) == (0, "")
    assert progress(out) == long
    assert not list(out.rglob("*.tmp"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("all_of_them", [False, True])
def test_a_signal_saves_and_the_same_command_goes_on(
    number: signal.Signals, all_of_them: bool, tmp_path: Path, long: Bytes
) -> None:
    """A terminal sends Ctrl-C to all processes, and so do those that stop a service; `kill` sends to one."""
    out = tmp_path / "out"
    text = LONG.replace("800", "20000")
    with study(text, out) as process:
        wait_until(lambda: played_rows(out), process)
        workers = children(process.pid)
        (os.killpg if all_of_them else os.kill)(process.pid, number)
        told, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, errors
        assert said(errors) == "Error: interrupted; run the same command to resume\n"
        assert told.startswith("long: 0 runs played, of 4; in ")
        assert len(workers) >= 2
        wait_until(lambda: not any(map(alive, workers)))
    rows = progress(out)
    assert rows
    for name, table in rows.items():
        episodes = conrl.load_learner(out / name / "checkpoint.npz").episodes
        assert table.count(b"\n") - 1 == episodes < 20_000
        assert long[name].startswith(table) or table.startswith(long[name])
    if not all_of_them:
        assert run_study(parse_spec(LONG), out, workers=2).failed == {}
        assert all(table.startswith(long[name]) for name, table in progress(out).items())


def listens(pid: int) -> bool:
    """Whether a process has said what SIGTERM shall do."""
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert caught is not None
    return bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize("moment", ["it listens", "a worker starts"])
def test_sigterm_before_anything_is_played(moment: str, tmp_path: Path) -> None:
    with study(LONG, tmp_path / "out") as process:
        wait_until(lambda: listens(process.pid) and (moment == "it listens" or children(process.pid)), process)
        workers = children(process.pid)
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, errors
        assert re.fullmatch("Error: interrupted(; run the same command to resume)?\n", said(errors))
        wait_until(lambda: not any(map(alive, workers)))


def test_sigterm_of_a_search(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    path.write_text("episodes = 20000\n[environment.box]\n[algorithm.ucbvi]\n[tune.parameters]\nscale = [0.1, 0.2]\n")
    words = [sys.executable, "-m", "conrl", "tune", str(path), "--out", str(tmp_path / "out"), "--workers", "1"]
    with launched(words, stderr=subprocess.PIPE) as process:
        wait_until(lambda: played_rows(tmp_path), process)
        workers = children(process.pid)
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (130, "Error: interrupted; run the same command to resume\n")
        wait_until(lambda: not any(map(alive, workers)))


def test_workers_that_do_not_end_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An episode may be very long: what was saved stands, and nothing is left running."""
    monkeypatch.setattr(processes, "GRACE", 0.0)
    pids: list[int] = []

    def interrupt(event: Event) -> None:
        if event.kind == "playing":
            pids[:] = worker_pids()
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)  # as if it were in the middle of one
            raise KeyboardInterrupt

    text = LONG.replace("800", "20000")
    assert run_study(parse_spec(text), tmp_path, workers=1, listener=interrupt).interrupted
    assert pids
    wait_until(lambda: not any(map(alive, pids)))


# -- Dask -------------------------------------------------------------------------------------------------


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """The address of a scheduler on 127.0.0.1 with two workers."""
    import distributed

    file = directory / "scheduler.json"
    common = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
    worker = ["worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(directory)]
    with ExitStack() as stack, (directory / "dask.log").open("wb") as log:
        for words in (["scheduler", "--port", "0"], worker, worker):
            words = [sys.executable, "-m", "dask", *words, *common]
            stack.enter_context(launched(words, stdout=log, stderr=log, env=os.environ | ONE_THREAD))
        wait_until(file.exists)
        address = str(json.loads(file.read_text())["address"])
        with distributed.Client(address, timeout=PATIENCE, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=PATIENCE)
        yield address


def test_a_dask_cluster_gives_the_same_bytes_though_a_worker_is_lost(tmp_path: Path, long: Bytes) -> None:
    out, spec = tmp_path / "out", parse_spec(LONG)
    with cluster(tmp_path) as address:
        events: list[Event] = []
        struck: list[int] = []

        def listen(event: Event) -> None:
            events.append(event)
            where = spec.jobs[event.job].directory(out)
            if event.kind == "playing" and not struck and strike(where / "lock", signal.SIGKILL):
                struck.append(event.job)

        def interrupt(event: Event) -> None:
            if event.kind == "done":
                raise KeyboardInterrupt

        outcome = run_study(spec, out, dask=address, listener=listen)
        assert (outcome.finished, outcome.failed) == (4, {})
        assert [sum(e.kind == "started" and e.job == job for e in events) for job in struck] == [2]  # it began again
        assert progress(out) == long
        # Interrupted, it leaves no run that holds a lock: the same call goes on at once.
        more = parse_spec(LONG.replace("800", "900"))
        assert run_study(more, out, dask=address, listener=interrupt).interrupted
        outcome = run_study(more, out, dask=address)
        assert (outcome.failed, outcome.finished + outcome.before) == ({}, 4)
        assert progress(out) == played(more)


def test_dask_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_spec(SMALL)
    with pytest.raises(conrl.SpecError, match="write for example tcp://"):
        run_study(spec, tmp_path, dask="nowhere")
    with pytest.raises(conrl.SpecError, match="give one of them"):
        run_study(spec, tmp_path, workers=2, dask="tcp://127.0.0.1:1")
    with pytest.raises(conrl.SpecError, match="at least one is needed"):
        run_study(spec, tmp_path, workers=0)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(conrl.SpecError, match=r"pip install 'conrl\[cluster\]'"):
        run_study(spec, tmp_path, dask="tcp://127.0.0.1:1")


# -- the live view ----------------------------------------------------------------------------------------


def plain(text: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue())


def test_the_view_tells_all_and_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    console = functools.partial(rich.console.Console, file=text, force_terminal=True, width=140)
    monkeypatch.setattr(rich.console, "Console", lambda **_: console())
    jobs = parse_spec(SMALL).jobs
    with watching(jobs) as listen:
        for event in (
            Event(0, "before", 40),
            Event(1, "started"),
            Event(1, "playing", 25),
            Event(2, "started"),
            Event(2, "lost"),
            Event(2, "started"),
            Event(3, "failed", text="Traceback"),
        ):
            listen(event)
        wait_until(lambda: "1 failed, 1 redone" in plain(text))  # it is drawn five times a second
        listen(Event(1, "done", 40))
        listen(Event(1, "playing", 30))  # late, as it may come from a cluster
    shown = plain(text)
    assert "1 of 12 runs, 1 failed, 1 redone" in shown
    assert "mars-rover conrl 1" in shown
    assert "25/40" in shown
    total = sum(job.episodes for job in jobs)
    assert f"{40 + 25 + 40}/{total}" in shown
    assert f"{40 + 40 + 40}/{total}" in shown.splitlines()[-1] + shown.splitlines()[-2]
    assert "2 of 12 runs" in shown


def test_the_view_is_silent_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    with watching(parse_spec(SMALL).jobs) as listen:
        listen(Event(0, "started"))
    assert capfd.readouterr() == ("", "")

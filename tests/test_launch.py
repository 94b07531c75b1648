"""The tests' own tools: what they start ends with them, and what they name is there."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SLOW
from launch import Late, alive, children, launch, launched, limited, strike, wait_until

TESTS = Path(__file__).parent
# A process whose child ignores what it can, and has a parent no more.
STUBBORN = """
import os, signal, time
if os.fork() == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    time.sleep(1000)
"""


def test_nothing_that_was_started_outlives_a_failure() -> None:
    pids = []

    def fail() -> None:
        with launched([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            pids.append(int(parent.stdout.readline()))
            parent.wait()
            assert alive(pids[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not alive(pids[0])


@pytest.mark.parametrize("left", ["a process", "a worker"])
def test_nothing_is_left_by_a_test_that_fails(left: str, tmp_path: Path) -> None:
    """A whole run of pytest, in which a test fails."""
    starts = {
        "a process": "with launched([sys.executable, '-c', 'import time; time.sleep(1000)']) as process:",
        "a worker": "process = multiprocessing.Process(target=time.sleep, args=(1000,)); process.start()\n    if True:",
    }[left]
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "slow.txt").touch()
    (tmp_path / "test_it.py").write_text(
        "import multiprocessing, pathlib, sys, time\nfrom launch import launched\n"
        f"def test_it():\n    {starts}\n"
        "        pathlib.Path('pid').write_text(str(process.pid))\n        assert False\n"
        "def test_the_next_one():\n    assert not multiprocessing.active_children()\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={TESTS}", "test_it.py"]
    done = launch(words, cwd=tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert not alive(int((tmp_path / "pid").read_text()))


def test_a_signal_goes_to_the_process_that_has_the_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    assert not strike(path, signal.SIGKILL)
    code = f"import time; file = open({str(path)!r}); print(flush=True); time.sleep(1000)"
    with launched([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert children(process.pid) == []
        assert strike(path, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL


def test_work_is_limited_and_waiting_is_not() -> None:
    def work() -> None:
        while True:
            pass

    with limited(0.5):
        time.sleep(1.0)
    with pytest.raises(Late), limited(0.5):
        work()


def test_waiting_ends_with_the_process() -> None:
    with launched([sys.executable, "-c", ""]) as process:
        wait_until(lambda: False, process)
        assert process.returncode == 0


@pytest.mark.parametrize("name", sorted(SLOW))
def test_what_is_slow_is_there(name: str) -> None:
    file, _, function = name.partition("::")
    assert (TESTS / file).exists(), f"tests/slow.txt: no {file}; delete the line or correct it"
    known = re.search(rf"^def {function or 'test_'}", (TESTS / file).read_text(), re.MULTILINE)
    assert known, f"tests/slow.txt: no {function} in {file}; delete the line or correct it"

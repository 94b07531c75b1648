"""Faults, and what they lose: the table of docs/reliability.md. `python benchmarks/faults.py [--times 20]`

Each fault is done so many times to `conrl learn box` (or to its files), and what is left is then finished by the same
command and compared, byte by byte, with a run that nothing happened to. "Lost" counts runs whose `progress.csv`
differs. A fault that the command cannot work through must end in one line and exit code 2, with everything written
before intact. Filling a disk and making one read-only mount a small tmpfs, which needs root; without it they are left
out and said so.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from studies import table

EPISODES = 1500
Damage = Callable[[bytes, random.Random], bytes]


@dataclass
class Outcome:
    """Of one kind of fault."""

    tried: int = 0
    lost: int = 0
    said: set[str] = field(default_factory=set)  # how the command ended while the fault was there


def command(out: Path, episodes: int = EPISODES, seed: int = 0) -> list[str]:
    return [
        *(sys.executable, "-m", "conrl", "learn", "box", "--episodes", str(episodes)),
        *("--seed", str(seed), "--out", str(out), "--json"),
    ]


def run(out: Path, episodes: int = EPISODES) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(out, episodes), capture_output=True, text=True, check=False, timeout=600)


def where(out: Path) -> Path:
    return out / "box" / "conrl" / "seed-000"


def short(done: subprocess.CompletedProcess[str] | subprocess.Popen[str], errors: str) -> str:
    lines = [line for line in errors.splitlines() if line.strip()]
    if "Traceback" in errors or len(lines) > 1:
        return f"exit {done.returncode} with {len(lines)} lines: {errors[-300:]}"
    return f"exit {done.returncode}"


def finished(out: Path, truth: bytes) -> bool:
    """Finish what is left, and compare."""
    done = run(out)
    leftovers = list(out.rglob(".conrl-*.tmp"))
    return done.returncode == 0 and (where(out) / "progress.csv").read_bytes() == truth and not leftovers


def signals(number: int, r: random.Random, folder: Path, truth: bytes, found: Outcome) -> None:
    """A signal at a random moment, some seconds long at most."""
    process = subprocess.Popen(command(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(r.uniform(0.3, 4.0))
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    found.said.add("killed" if process.returncode == -number else short(process, errors))
    found.lost += not finished(folder, truth)


def two_at_once(r: random.Random, folder: Path, truth: bytes, found: Outcome) -> None:
    """Two commands on one run: one works, the other says so (or comes late and finds it done)."""
    both = [
        subprocess.Popen(command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in "ab"
    ]
    ends = [(process, process.communicate(timeout=600)[1]) for process in both]
    found.said |= {short(process, errors) for process, errors in ends}
    found.lost += not finished(folder, truth)


def damaged(
    how: Callable[[bytes, random.Random], bytes], r: random.Random, folder: Path, truth: bytes, found: Outcome
) -> None:
    """A checkpoint damaged between two starts: told, never believed; deleted, the run begins again."""
    run(folder, EPISODES // 2)
    path = where(folder) / "checkpoint.npz"
    whole = path.read_bytes()
    path.write_bytes(how(whole, r))
    done = run(folder)
    found.said.add(short(done, done.stderr))
    if done.returncode == 0:  # a bit that does not matter, such as in a date of the archive
        found.lost += (where(folder) / "progress.csv").read_bytes() != truth
        return
    path.write_bytes(whole)  # the good one put back: nothing else was touched
    found.lost += not finished(folder, truth)


def cut(data: bytes, r: random.Random) -> bytes:
    """Truncated: at the start, within a header, within an array, within the directory at the end."""
    at = r.choice((0, 1, 30, len(data) // 2, len(data) - 30, len(data) - 1, r.randrange(len(data))))
    return data[:at]


def flip(data: bytes, r: random.Random) -> bytes:
    """One bit: in the first header, in the body, in the directory."""
    at = r.choice((r.randrange(100), r.randrange(len(data)), len(data) - 1 - r.randrange(200)))
    return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1 :]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    place = folder / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def full_disk(r: random.Random, folder: Path, truth: bytes, found: Outcome) -> None:
    """The disk fills up while a run is going on; then there is room again."""
    with small_disk(folder, "64m") as disk:
        run(disk, EPISODES // 3)
        before = (where(disk) / "progress.csv").read_bytes()
        with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(bytes(1 << 12)):
                pass
        done = run(disk)
        found.said.add(short(done, done.stderr))
        kept = (where(disk) / "progress.csv").read_bytes()
        (disk / "filler").unlink()
        found.lost += kept != before or not finished(disk, truth)


def read_only(r: random.Random, folder: Path, truth: bytes, found: Outcome) -> None:
    with small_disk(folder, "64m") as disk:
        run(disk, EPISODES // 3)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        done = run(disk)
        found.said.add(short(done, done.stderr))
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        found.lost += not finished(disk, truth)


def missing(r: random.Random, folder: Path, truth: bytes, found: Outcome) -> None:
    """The run's directory vanishes while it is being played; or was never possible."""
    if r.random() < 0.5:
        (folder / "file").write_text("")
        done = run(folder / "file" / "runs")
        found.said.add(short(done, done.stderr))
        return
    process = subprocess.Popen(command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not (where(folder) / "checkpoint.npz").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    shutil.rmtree(folder / "box")
    _, errors = process.communicate(timeout=600)
    found.said.add(short(process, errors))
    found.lost += not finished(folder, truth)


CLOCK = """
import itertools, sys, time
hours = itertools.count(0, -3600)
time.time = lambda: 1e9 + next(hours)
time.time_ns = lambda: int(1e18) + 10**9 * next(hours)
from conrl.cli.main import main
main()
"""


def clock(r: random.Random, folder: Path, truth: bytes, found: Outcome) -> None:
    """The clock goes back an hour at every look."""
    arguments = [sys.executable, "-c", CLOCK, *command(folder)[3:]]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=600)
    found.said.add(short(done, done.stderr))
    found.lost += not finished(folder, truth)


Fault = Callable[[random.Random, Path, bytes, Outcome], None]


def faults() -> dict[str, tuple[Fault, bool]]:
    """By name: how it is done, and whether it needs root."""
    found: dict[str, tuple[Fault, bool]] = {}
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        found[f"{number.name} at a random moment"] = (partial(signals, number), False)
    found["two commands on one run"] = (two_at_once, False)
    found["checkpoint truncated"] = (partial(damaged, cut), False)
    found["checkpoint with a bit flipped"] = (partial(damaged, flip), False)
    found["disk full, then not"] = (full_disk, True)
    found["disk read-only, then not"] = (read_only, True)
    found["directory impossible, or removed while it runs"] = (missing, False)
    found["clock going backwards"] = (clock, False)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What faults lose.")
    parser.add_argument("--times", type=int, default=20, help="how often each fault is done")
    parser.add_argument("--only", help="faults whose name has this word")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))
        truth = (where(Path(folder)) / "progress.csv").read_bytes()
    for name, (fault, root) in faults().items():
        if options.only is not None and options.only not in name:
            continue
        if root and os.geteuid() != 0:
            rows.append((name, "0", "-", "not tried: mounting needs root"))
            continue
        found = Outcome()
        for i in range(options.times):
            with tempfile.TemporaryDirectory() as folder:
                fault(random.Random(f"{name} {i}"), Path(folder), truth, found)
            found.tried += 1
        rows.append((name, str(found.tried), str(found.lost), "; ".join(sorted(found.said))))
        print(*rows[-1], sep=" | ", file=sys.stderr)
    table(("fault", "tried", "runs lost", "the command meanwhile"), rows)


if __name__ == "__main__":
    main()

"""Faults, and what they lose: the tables of docs/reliability.md. `python benchmarks/faults.py [--times 20]`

Every fault is done so many times to every command that works for long (`COMMANDS`) or to its files; `--command` and
`--fault` choose some. Then the same command is run again, and what it leaves is compared, byte by byte, with what a run
leaves that nothing happened to. A try counts as lost if

- a file that was there before is gone, or is neither what it was nor what it should become (of a run: a part of it,
  from its first row on);
- a temporary file is left, or a process;
- the command ended in anything but one line and a code of docs/reliability.md, or went on for a minute after a signal;
- the second run does not end well, or leaves other bytes.

Half of the tries begin with the files of an earlier run: of another limit, or of a study that was interrupted. Moments
are drawn over the time that the command takes. Filling a disk and making one read-only mount a small tmpfs, which needs
root; without it they are left out.
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
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import numpy as np
from studies import table

import conrl

PATIENCE = 60.0  # seconds that a command may go on after a signal, and its workers after it
FOREVER = 1800.0  # no command takes so long
TEMPORARY = ".conrl-*.tmp"
PROGRESS = " runs ended"  # what a study says meanwhile
LOCKS = ("lock", ".lock")
PRINTED = "printed.json"  # in `out`: what a command prints that writes no file
FAILED = "failed.txt"
RESUMED = ("config.json", "checkpoint.npz", "progress.csv")  # files of a run, which change while it goes on

MAIN = "from conrl.cli.main import main; main(prog_name='conrl')"
SMALL = "from conrl.cli import studies; studies.QUICK_SEEDS = 1; studies.QUICK = dict.fromkeys(studies.QUICK, 20); "
SMALL += "studies.QUICK_DOPE = 200; "
CLOCK = """
import itertools, time
hours = itertools.count(0, -3600)
time.time = lambda: 1e9 + next(hours)
time.time_ns = lambda: int(1e18) + 10**9 * next(hours)
"""


@dataclass(frozen=True)
class Command:
    """A command: it runs beside `given`, where its inputs are, and writes into `out`."""

    words: str  # after `conrl`
    earlier: str = ""  # a command that leaves older files in `out`; empty: the same, interrupted halfway
    prints: bool = False  # it writes no file; what it prints is its result
    resumes: bool = False  # what it leaves when it is stopped is where the next start goes on
    varies: tuple[str, ...] = ()  # names of files that hold moments, and differ from run to run
    program: str = ""  # executed before it starts


LEARN = "learn box --seed 0 --out out --json --episodes"
LOG = "plan --log ../given/log.csv --confidence 0.95 --out out/policy.json --out out/policy.csv --limit"
PLAN = "plan mars-rover --set rock_reward=1 --out out/policy.json --out out/policy.csv --out out/policy.png --limit"
FLEET = "plan ../given/fleet.toml --simulate 200 --json --limit"
FRONTIER = "frontier mars-rover --set rock_reward=1 --out out/frontier.csv --out out/frontier.png"
EXPLORE = "explore mars-rover --set rock_reward=1 --out out/explore.html --limit"
TO_REPORT = "--out out/report.html --csv out/table.csv --long out/long.csv --profiles out/profiles.png"

COMMANDS = {
    "learn": Command(f"{LEARN} 1500", f"{LEARN} 500", resumes=True),
    "plan, a fleet": Command(f"{FLEET} money=2500", prints=True),
    "assess": Command("assess ../given/policy.json ../given/log.csv --draws 60000 --json", prints=True),
    "plan --confidence": Command(f"{LOG} adverse=0.4", f"{LOG} adverse=0.5"),
    "plan": Command(f"{PLAN} crash=0.2", f"{PLAN} crash=0.3"),
    "frontier": Command(FRONTIER, f"{FRONTIER} --max-vertices 3"),
    "explore": Command(f"{EXPLORE} crash=0.2", f"{EXPLORE} crash=0.3"),
    "explore, a fleet": Command("explore ../given/small.toml --out out/explore.html", f"{EXPLORE} crash=0.3"),
    "report": Command(f"report ../given/runs {TO_REPORT} --tensorboard out/events", f"report ../given/few {TO_REPORT}"),
    "run": Command("run ../given/study.toml --workers 2 --out out", resumes=True),
    "tune": Command("tune ../given/tune.toml --workers 2 --out out", resumes=True, varies=("trials.db*",)),
    "reproduce figure2": Command("reproduce figure2 --quick --workers 2 --out out", resumes=True, program=SMALL),
    "reproduce dope": Command("reproduce dope --quick --workers 2 --out out", resumes=True, program=SMALL),
}

MACHINE = """state,action,next_state,probability,reward,cost_money,cost_crews
good,run,good,0.8,9,0,0
good,run,down,0.2,9,0,0
down,wait,down,1,0,0,0
down,repair,good,1,0,{price},1
"""
UNITS = """[fleet]
horizon = {horizon}
limits = {{ money = 1500 }}
per_step = {{ crews = 40 }}

[[unit]]
model = "press.csv"
count = 125

[[unit]]
model = "lathe.csv"
count = 200
start = "down"
"""
STUDY = """episodes = {episodes}
seeds = 2

[environment.mars-rover]
set = {{ rock_reward = 1.0 }}

[environment.box]

[algorithm.conrl]

[algorithm.ucbvi]
"""
TUNE = """episodes = 120
seeds = 1

[environment.box]

[algorithm.conrl]

[tune]
sampler = "grid"

[tune.parameters]
"bonus.reward" = [0.02, 0.5]
"""


def prepare(given: Path) -> None:
    """The inputs of all commands."""
    given.mkdir()
    for name, price in (("press", 8), ("lathe", 3)):
        (given / f"{name}.csv").write_text(MACHINE.format(price=price))
    (given / "fleet.toml").write_text(UNITS.format(horizon=60))
    (given / "small.toml").write_text(UNITS.format(horizon=4))
    (given / "study.toml").write_text(STUDY.format(episodes=300))
    (given / "few.toml").write_text(STUDY.format(episodes=30))
    (given / "tune.toml").write_text(TUNE)
    P = np.zeros((3, 2, 3))
    P[:, 0] = [[0.7, 0.3, 0.0], [0.2, 0.6, 0.2], [0.0, 0.2, 0.8]]
    P[:, 1] = [[0.9, 0.1, 0.0], [0.5, 0.5, 0.0], [0.2, 0.5, 0.3]]
    cost = np.zeros((3, 2, 3, 1))
    cost[:, 1, 1] = 0.3
    reward = np.repeat([[1.0], [0.5], [0.0]], 2, axis=1)
    states, actions = ["well", "ill", "very ill"], ["wait", "drug"]
    ward = conrl.ConstrainedMDP(P, reward, cost, 8, cost_names=["adverse"], state_names=states, action_names=actions)
    log = conrl.sample_log(ward, conrl.Policy(np.full((8, 3, 2), 0.5)), 400, seed=2)
    conrl.save_episodes(given / "log.csv", log)
    conrl.plan(ward, {"adverse": 0.4}).save(given / "policy.json")
    for spec, out in (("study", "runs"), ("few", "few")):
        words = [sys.executable, "-m", "conrl", "run", f"{spec}.toml", "--out", out]
        subprocess.run(words, cwd=given, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


Files = dict[str, bytes]  # by their path in `out`


def files(out: Path) -> Files:
    found = {str(path.relative_to(out)): path for path in out.rglob("*") if path.is_file() and path.name not in LOCKS}
    return {name: path.read_bytes() for name, path in found.items()}


@dataclass
class Try:
    """One fault, done once to one command."""

    command: Command
    folder: Path  # where the command runs
    truth: Files  # what an undisturbed run leaves
    before: Files  # what was there before
    seconds: float  # that an undisturbed run takes
    said: set[str] = field(default_factory=set)  # how the command ended while the fault was there
    lost: list[str] = field(default_factory=list)  # why, if anything is

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def place(self) -> None:
        """`out` as it was before."""
        self.out.mkdir(exist_ok=True)
        for name, data in self.before.items():
            path = self.out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def start(self, words: str = "", program: str = "") -> subprocess.Popen[str]:
        code = program + self.command.program
        how = ["-c", code + MAIN] if code else ["-m", "conrl"]
        output = (self.out / PRINTED).open("wb") if self.command.prints else open(os.devnull, "wb")  # noqa: SIM115
        with output:
            return subprocess.Popen(
                [sys.executable, *how, *(words or self.command.words).split()],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,
            )

    def end(self, process: subprocess.Popen[str], after: float = FOREVER) -> None:
        """Wait for a command that a fault happens to, and look at how it ends."""
        try:
            _, errors = process.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            self.lost.append(f"went on for {after:g} s")
            os.killpg(process.pid, signal.SIGKILL)
            _, errors = process.communicate()
        self.said.add(f"exit {process.returncode}")
        lines = [line for line in errors.splitlines() if line.strip() and not line.endswith(PROGRESS)]
        most = {0: 0, 4: len(lines)}.get(process.returncode, 1)  # 4: a line for every run that failed
        if process.returncode not in (0, 2, 4, 130) or "Traceback" in errors or len(lines) > most:
            self.lost.append(f"exit {process.returncode}: {errors[-2000:]}")

    def look(self, killed: bool = False) -> None:
        """Whether files are what they were, or what they should be; a process that was killed cannot tidy up."""
        found = files(self.out)
        for name, data in found.items():
            if fnmatch(Path(name).name, TEMPORARY):
                if not killed:
                    self.lost.append(f"{name} is left")
            elif not (self.varies(name) or name == PRINTED or self.is_part(name, data) or self.told(name)):
                self.lost.append(f"{name}: {len(data)} bytes that are neither old nor new")
        self.lost += [f"{name} is gone" for name in self.before if name not in found and name != PRINTED]

    def told(self, name: str) -> bool:
        """Whether it is the traceback of a run that failed, as exit code 4 says."""
        return Path(name).name == FAILED and "exit 4" in self.said

    def is_part(self, name: str, data: bytes) -> bool:
        """Whether a file is old or new; or, in a run, anything between."""
        if data in (self.before.get(name), self.truth.get(name)):
            return True
        if not self.command.resumes or Path(name).name not in RESUMED:
            return False
        if name.endswith(".npz"):
            with zipfile.ZipFile(self.out / name) as archive:
                return archive.testzip() is None
        return name.endswith(".json") or (data.endswith(b"\n") and self.truth.get(name, b"").startswith(data))

    def varies(self, name: str) -> bool:
        return any(fnmatch(Path(name).name, pattern) for pattern in self.command.varies)

    def compared(self, found: Files) -> Files:
        return {name: data for name, data in found.items() if not self.varies(name)}

    def finish(self) -> None:
        """Run the command again, and compare what is there with the truth."""
        process = self.start()
        _, errors = process.communicate(timeout=FOREVER)
        if process.returncode != 0:
            self.lost.append(f"then exit {process.returncode}: {errors[-2000:]}")
        found, truth = self.compared(files(self.out)), self.compared(self.truth)
        if found != truth:
            differs = sorted(name for name in found.keys() | truth.keys() if found.get(name) != truth.get(name))
            self.lost.append(f"then other files: {', '.join(differs)}")


def listens(pid: int) -> bool:
    """Whether a process has a handler for SIGTERM: not yet while it starts, and no more when it has ended its work."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def processes(group: int) -> list[int]:
    """The living processes of a group: a command and its workers."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, whose = stat.read_text().rpartition(")")[2].split()[:3]
            if int(whose) == group and state not in "ZX":
                found.append(int(stat.parent.name))
    return found


def strike(case: Try, r: random.Random, process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to a command, or, as a terminal does, to it and its workers; and look at what it leaves."""
    heard = listens(process.pid)
    if number != signal.SIGKILL and r.random() < 0.5:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    if number == signal.SIGKILL:
        process.communicate()
        case.said.add("killed")
    elif heard:
        case.end(process, PATIENCE)
    else:
        process.communicate(timeout=PATIENCE)
        case.said.add("killed before it listens, or after its work")
    end = time.monotonic() + PATIENCE
    while left := processes(process.pid):
        if time.monotonic() > end:
            case.lost.append("a worker went on")
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    case.look(killed=number == signal.SIGKILL or not heard)


def signals(number: signal.Signals, case: Try, r: random.Random) -> None:
    """At a random moment of the command's life."""
    while True:
        process = case.start()
        try:
            process.wait(timeout=r.uniform(0.0, 1.1 * case.seconds))
        except subprocess.TimeoutExpired:
            break
        process.communicate()  # it ended before: again
        shutil.rmtree(case.out)
        case.place()
    strike(case, r, process, number)
    case.finish()


def written(pid: int, out: Path) -> set[str]:
    """The files in `out` that the processes of a group are writing: temporary ones, or such as still have no name."""
    found = set()
    for process in processes(pid):
        with suppress(OSError):
            for number in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):
                    name = os.readlink(number)
                    if name.startswith(str(out)) and (name.endswith(" (deleted)") or fnmatch(name, f"*/{TEMPORARY}")):
                        found.add(name)
    return found


def writing(case: Try, r: random.Random) -> None:
    """A signal while a file is being written."""
    number = r.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
    for _ in range(5):
        process, skip = case.start(), r.randrange(4)  # of the files that it writes
        seen: set[str] = set()
        while process.poll() is None and len(seen) <= skip:
            seen |= written(process.pid, case.out)
        if process.returncode is None:
            strike(case, r, process, number)
            return case.finish()
        process.communicate()
        shutil.rmtree(case.out)
        case.place()
    case.said.add("not hit")
    return None


def two_at_once(case: Try, r: random.Random) -> None:
    """Two commands with one destination: of those that resume, one works and the other says so, or finds it done."""
    both = [case.start(), case.start()]
    for process in both:
        case.end(process)
    case.look()
    case.finish()


def cut(data: bytes, r: random.Random) -> bytes:
    """Truncated: at the start, within a header, within an array, within the directory at the end."""
    at = r.choice((0, 1, 30, len(data) // 2, len(data) - 30, len(data) - 1, r.randrange(len(data))))
    return data[:at]


def flip(data: bytes, r: random.Random) -> bytes:
    """One bit: in the first header, in the body, in the directory."""
    at = r.choice((r.randrange(100), r.randrange(len(data)), len(data) - 1 - r.randrange(200)))
    return data[:at] + bytes([data[at] ^ (1 << r.randrange(8))]) + data[at + 1 :]


def damaged(how: Callable[[bytes, random.Random], bytes], case: Try, r: random.Random) -> None:
    """A checkpoint damaged between two starts: told, never believed. With the good one the run goes on."""
    case.start(case.command.earlier).communicate(timeout=FOREVER)
    (path,) = case.out.rglob("checkpoint.npz")
    whole = path.read_bytes()
    path.write_bytes(how(whole, r))
    process = case.start()
    case.end(process)
    if process.returncode != 0:  # else a bit that does not matter, such as in a date of the archive
        path.write_bytes(whole)
    case.finish()


@contextmanager
def small_disk(case: Try) -> Iterator[None]:
    """`out` on a disk of its own."""
    shutil.rmtree(case.out)
    case.out.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(case.out)], check=True)
    try:
        case.place()
        yield
    finally:
        subprocess.run(["umount", "-l", str(case.out)], check=True)


def full_disk(case: Try, r: random.Random) -> None:
    """No room, or only for a part of what is to be written; then there is room again."""
    with small_disk(case):
        filler = case.out / "filler"
        with filler.open("wb", buffering=0) as handle, suppress(OSError):
            while handle.write(bytes(1 << 12)):
                pass
        room = r.choice((0, r.randrange(sum(map(len, case.truth.values())) + 1)))
        os.truncate(filler, filler.stat().st_size - room)
        case.end(case.start())
        filler.unlink()
        case.look()
        case.finish()


def read_only(case: Try, r: random.Random) -> None:
    """A disk on which nothing can be written; then one on which it can."""
    with small_disk(case):
        subprocess.run(["mount", "-o", "remount,ro", str(case.out)], check=True)
        case.end(case.start())
        subprocess.run(["mount", "-o", "remount,rw", str(case.out)], check=True)
        case.look()
        case.finish()


def missing(case: Try, r: random.Random) -> None:
    """The destination is taken away while the command runs; or was never possible: it lies within a file."""
    gone = case.folder / "gone"
    if r.random() < 0.5:
        case.out.rename(gone)
        case.out.write_text("")
        case.end(case.start())
        case.out.unlink()
        gone.rename(case.out)
        case.look()
    else:
        process = case.start()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=r.uniform(0.0, 1.1 * case.seconds))
        case.out.rename(gone)
        case.end(process)
        shutil.rmtree(case.out, ignore_errors=True)
        case.out.mkdir()
    case.finish()


def clock(case: Try, r: random.Random) -> None:
    """The clock goes back an hour at every look."""
    case.end(case.start(program=CLOCK))
    case.look()
    case.finish()


Fault = Callable[[Try, random.Random], None]


def faults(command: Command) -> dict[str, Fault]:
    """What can happen to a command, by name."""
    found: dict[str, Fault] = {}
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        found[f"{number.name} at a random moment"] = partial(signals, number)
    if not command.prints:
        found["a signal while a file is written"] = writing
        found["two commands at once"] = two_at_once
    if command.words.startswith("learn"):
        found["checkpoint truncated"] = partial(damaged, cut)
        found["checkpoint with a bit flipped"] = partial(damaged, flip)
    found["disk full, then not"] = full_disk
    if not command.prints:
        found["disk read-only, then not"] = read_only
        found["directory impossible, or removed meanwhile"] = missing
    found["clock going backwards"] = clock
    return found


ROOT = ("disk full, then not", "disk read-only, then not")


def undisturbed(command: Command, folder: Path) -> tuple[Files, Files, float]:
    """What a command leaves, what an earlier one leaves, and how long it takes. Twice the same bytes, or it is over."""
    case = Try(command, folder, {}, {}, 0.0)
    for _ in range(2):
        shutil.rmtree(case.out, ignore_errors=True)
        case.place()
        begun = time.monotonic()
        case.finish()
        case.seconds = time.monotonic() - begun
        before, case.truth = case.truth, files(case.out)
        if any("exit" in line for line in case.lost):
            raise SystemExit(f"conrl {command.words}: {case.lost}")
    if case.compared(before) != case.compared(case.truth):
        differs = [name for name in case.compared(case.truth) if before.get(name) != case.truth[name]]
        raise SystemExit(f"conrl {command.words}: two runs differ in {', '.join(differs)}")
    shutil.rmtree(case.out)
    case.place()
    process = case.start(command.earlier)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=None if command.earlier else case.seconds / 2)
    process.terminate()
    process.communicate()
    while processes(process.pid):
        time.sleep(0.01)
    return case.truth, files(case.out), case.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="What faults lose.")
    parser.add_argument("--times", type=int, default=20, help="how often each fault is done")
    parser.add_argument("--command", action="append", help="only this one; repeated", choices=COMMANDS)
    parser.add_argument("--fault", action="append", help="only faults whose name has this in it; repeated")
    parser.add_argument("--workers", type=int, default=2, help="tries at a time")
    options = parser.parse_args()
    rows: list[Sequence[str]] = []
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        prepare(base / "given")
        for name in options.command or COMMANDS:
            command = COMMANDS[name]
            (base / "undisturbed").mkdir()
            truth, earlier, seconds = undisturbed(command, base / "undisturbed")
            shutil.rmtree(base / "undisturbed")
            for what, fault in faults(command).items():
                if options.fault and not any(word in what for word in options.fault):
                    continue
                if what in ROOT and os.geteuid() != 0:
                    rows.append((name, what, "0", "-", "not tried: mounting needs root"))
                    continue

                def once(i: int, what: str = what, fault: Fault = fault, command: Command = command) -> Try:
                    with tempfile.TemporaryDirectory(dir=base) as folder:
                        case = Try(command, Path(folder), truth, earlier if i % 2 else {}, seconds)  # noqa: B023
                        case.place()
                        try:
                            fault(case, random.Random(f"{command.words} {what} {i}"))
                        except Exception as error:  # the others are still tried
                            case.lost.append(f"{type(error).__name__}: {error}")
                    for line in case.lost:
                        print(f"{what}, {i}: conrl {command.words}: {line}", file=sys.stderr, flush=True)
                    return case

                with ThreadPoolExecutor(options.workers) as pool:
                    tries = list(pool.map(once, range(options.times)))
                said = "; ".join(sorted(set().union(*(case.said for case in tries))))
                lost = sum(bool(case.lost) for case in tries)
                rows.append((name, what, str(len(tries)), str(lost), said))
                print(time.strftime("%H:%M"), *rows[-1], sep=" | ", file=sys.stderr, flush=True)
    table(("command", "fault", "tried", "lost", "the command meanwhile"), rows)


if __name__ == "__main__":
    main()

"""Kill `conrl learn` at random moments and start it again, until it is done; then compare with a run never killed.

    python benchmarks/kill.py --kills 50
    python benchmarks/kill.py --study 20
    python benchmarks/kill.py --live 85

Each round is one run (another seed); rounds go on until there were as many kills. SIGKILL comes after a uniformly
random time, also while the program is still starting, writing a checkpoint, or ending. `progress.csv` must have the
same bytes, and no temporary file may be left.

--study does so with `conrl run` on studies of eight runs in two processes. In turn the command itself is killed, whose
workers must then end too, and one of its workers, whose run it must take up again.

--live does so with `examples/live_loop.py`, 40 days: it is killed a random time after its journal has grown, which is
mostly in mid-day. The journals of the loop and of the shop must have the same bytes.
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
from contextlib import suppress
from pathlib import Path

SETTINGS = {
    "mars-rover": ["mars-rover", "--set", "rock_reward=1"],
    "pricing": ["pricing", "--budget", "stock=12000", "--resolve"],
}


def command(name: str, seed: int, episodes: int, out: Path) -> list[str]:
    options = ["--episodes", str(episodes), "--seed", str(seed), "--out", str(out), "--json"]
    return [sys.executable, "-m", "conrl", "learn", *SETTINGS[name], *options]


def kill_until_done(arguments: list[str], longest: float, most: int, generator: random.Random) -> int:
    """Start, kill, start again; how often it was killed before it ended by itself."""
    kills = 0
    while True:
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            _, errors = process.communicate(timeout=generator.uniform(0.0, longest) if kills < most else None)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
            continue
        if process.returncode != 0:
            raise SystemExit(f"the run ended with code {process.returncode}: {errors.decode()}")
        return kills


def one_round(
    name: str, seed: int, episodes: int, longest: float, most: int, generator: random.Random
) -> tuple[int, bool]:
    """Kills of one run, and whether its progress equals that of an undisturbed one."""
    with tempfile.TemporaryDirectory() as folder:
        undisturbed, disturbed = Path(folder) / "undisturbed", Path(folder) / "disturbed"
        subprocess.run(command(name, seed, episodes, undisturbed), check=True, stdout=subprocess.DEVNULL)
        kills = kill_until_done(command(name, seed, episodes, disturbed), longest, most, generator)
        one, other = ([p.read_bytes() for p in d.rglob("progress.csv")] for d in (undisturbed, disturbed))
        leftovers = list(disturbed.rglob("*.tmp"))
        return kills, len(one) == 1 and one == other and not leftovers


STUDY = """\
episodes = {episodes}
seeds = 2

[environment.mars-rover]
set = {{ rock_reward = 1.0 }}

[environment.box]

[algorithm.conrl]

[algorithm.ucbvi]
"""


def children(pid: int) -> list[int]:
    """Processes that were started by another, from /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(stat.parent.name))
    return found


def workers_of(pid: int) -> list[int]:
    """Of a study: the processes that play, not the one that multiprocessing keeps for itself."""
    found = []
    for child in children(pid):
        with suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def strike(process: subprocess.Popen[bytes], whole: bool, generator: random.Random) -> bool:
    """SIGKILL to the command, or to one of its workers; whether there was one."""
    workers = workers_of(process.pid)
    if not whole:
        if not workers or process.poll() is not None:
            return False
        with suppress(ProcessLookupError):
            os.kill(generator.choice(workers), signal.SIGKILL)
        return True
    process.kill()
    process.communicate()
    end = time.monotonic() + 30.0
    while any(map(alive, workers)):
        if time.monotonic() > end:
            raise SystemExit("a worker went on without the command that it belonged to")
        time.sleep(0.01)
    return True


def kill_study(kills: int, episodes: int, longest: float, generator: random.Random) -> bool:
    """Kill a study so often, let it end and compare it with one never disturbed. One that ends too soon is run anew."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "study.toml"
        spec.write_text(STUDY.format(episodes=episodes))
        words = [sys.executable, "-m", "conrl", "run", str(spec), "--workers", "2", "--out"]
        undisturbed, disturbed = Path(folder) / "undisturbed", Path(folder) / "disturbed"
        subprocess.run([*words, str(undisturbed)], check=True, stdout=subprocess.DEVNULL)
        wanted = progress_of(undisturbed)

        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen([*words, str(disturbed)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

        counts = {"the command": 0, "a worker": 0}
        ended = same = 0
        process: subprocess.Popen[bytes] | None = None
        while sum(counts.values()) < kills or process is not None:
            done = sum(counts.values())
            if process is None:
                process = begin()
            try:
                _, errors = process.communicate(timeout=generator.uniform(0.0, longest) if done < kills else None)
            except subprocess.TimeoutExpired:
                whole = done % 2 == 0
                if strike(process, whole, generator):
                    counts["the command" if whole else "a worker"] += 1
                    process = begin() if whole else process
                continue
            if process.returncode != 0:
                raise SystemExit(f"the study ended with code {process.returncode}: {errors.decode()}")
            process, ended = None, ended + 1
            same += len(wanted) == 8 and progress_of(disturbed) == wanted and not list(disturbed.rglob("*.tmp"))
            shutil.rmtree(disturbed)
        said = " and ".join(f"{name} {count} times" for name, count in counts.items())
        print(f"killed {said}; {same} of {ended} studies of 8 runs byte-identical to an undisturbed one", flush=True)
        return same == ended


LIVE = Path(__file__).resolve().parents[1] / "examples" / "live_loop.py"


def kill_live(kills: int, longest: float, generator: random.Random) -> bool:
    """Kill the live loop so often, let it end, and compare its journals with those of one never disturbed. One that
    ends too soon is begun anew."""
    names = ("journal.jsonl", "shop.jsonl")
    with tempfile.TemporaryDirectory() as folder:

        def words(name: str) -> list[str]:
            return [sys.executable, str(LIVE), "--days", "40", "--stock", "160", "--folder", str(Path(folder) / name)]

        subprocess.run(words("undisturbed"), check=True, stdout=subprocess.DEVNULL)
        wanted = [(Path(folder) / "undisturbed" / name).read_bytes() for name in names]
        done = midday = ended = same = 0
        while done < kills or ended == 0:
            disturbed = Path(folder) / f"disturbed{ended}"
            journal = disturbed / names[0]
            while True:
                size = journal.stat().st_size if journal.exists() else 0
                process = subprocess.Popen(words(disturbed.name), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                if done < kills:
                    while process.poll() is None and (journal.stat().st_size if journal.exists() else 0) <= size:
                        time.sleep(0.001)
                try:
                    _, errors = process.communicate(timeout=generator.uniform(0.0, longest) if done < kills else None)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    done += 1
                    whole = [line for line in journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
                    midday += b'"hour"' in whole[-1]
                    continue
                if process.returncode != 0:
                    raise SystemExit(f"the live loop ended with code {process.returncode}: {errors.decode()}")
                break
            ended += 1
            same += [(disturbed / name).read_bytes() for name in names] == wanted
        print(
            f"killed {done} times, {midday} of them in mid-day; {same} of {ended} journals byte-identical", flush=True
        )
        return same == ended


def progress_of(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("progress.csv")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=50, help="stop after so many")
    parser.add_argument("--study", type=int, default=0, metavar="N", help="kill a study N times instead")
    parser.add_argument("--live", type=int, default=0, metavar="N", help="kill examples/live_loop.py N times instead")
    parser.add_argument("--episodes", type=int, default=3000, help="of one run")
    parser.add_argument("--longest", type=float, default=3.0, help="seconds until a kill, at most")
    parser.add_argument("--most", type=int, default=10**9, help="kills of one run; it then ends undisturbed")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    generator = random.Random(options.seed)
    if options.study:
        raise SystemExit(0 if kill_study(options.study, options.episodes, options.longest, generator) else 1)
    if options.live:
        raise SystemExit(0 if kill_live(options.live, options.longest / 20.0, generator) else 1)
    total, rounds, same = 0, 0, 0
    while total < options.kills:
        name = list(SETTINGS)[rounds % len(SETTINGS)]
        kills, equal = one_round(name, rounds, options.episodes, options.longest, options.most, generator)
        total, rounds, same = total + kills, rounds + 1, same + equal
        print(f"{name}, seed {rounds - 1}: {kills} kills, {'identical' if equal else 'DIFFERENT'}", flush=True)
    print(f"{total} kills in {rounds} runs; {same} of {rounds} byte-identical to an undisturbed run")
    if same < rounds:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

"""Kill `conrl learn` at random moments and start it again, until it is done; then compare with a run never killed.

    python benchmarks/kill.py --kills 50

Each round is one run (another seed); rounds go on until there were as many kills. SIGKILL comes after a uniformly
random time, also while the program is still starting, writing a checkpoint, or ending. `progress.csv` must have the
same bytes, and no temporary file may be left.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=50, help="stop after so many")
    parser.add_argument("--episodes", type=int, default=3000, help="of one run")
    parser.add_argument("--longest", type=float, default=3.0, help="seconds until a kill, at most")
    parser.add_argument("--most", type=int, default=10**9, help="kills of one run; it then ends undisturbed")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    generator = random.Random(options.seed)
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

"""Two versions of conrl side by side: the time of the same plans, asked in turns, and the median of the ratios.

    git worktree add ../before COMMIT
    .venv/bin/python benchmarks/versus.py ../before/src

Each version has a process of its own, which answers one question at a time, so that whatever else the machine does
slows both alike; what counts is its processor time (both run on one thread). A ratio is taken of neighbors, and the
median of all of them is printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

MODELS = {
    "Mars rover": ("conrl.envs.mars_rover(rock_reward=1.0)", 20),
    "Box": ("conrl.envs.box()", 20),
    "random, S = 1,000, d = 3": ("tight(conrl.envs.random_cmdp(1000, 4, 5, 3, seed=0, horizon=30))", 1),
}  # each with how often it is planned for one answer

WORKER = """
import sys, time
import numpy as np
import conrl

def tight(mdp):
    found = conrl.feasibility(mdp, [np.inf] * mdp.num_costs)
    return mdp.replace(limits=found.least + 0.3 * (found.greatest - found.least))

for line in sys.stdin:
    expression, times = line.rsplit(" ", 1)
    mdp = eval(expression)
    conrl.plan(mdp)
    print("ready", flush=True)
    while sys.stdin.readline().strip():
        begin = time.process_time()
        for _ in range(int(times)):
            conrl.plan(mdp)
        print((time.process_time() - begin) / int(times), flush=True)
"""


class Version:
    def __init__(self, source: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def seconds(self) -> float:
        self.say("again")
        return float(self.answer())

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("before", type=Path, help="the src directory of the other version")
    parser.add_argument("--pairs", type=int, default=200)
    options = parser.parse_args()
    here = Path(__file__).resolve().parents[1] / "src"
    versions = [Version(options.before.resolve()), Version(here)]
    print(f"{'':28s} {'before':>10s} {'now':>10s} {'ratio':>7s}   quarters of the ratios")
    for name, (expression, times) in MODELS.items():
        for version in versions:
            version.say(f"{expression} {times}")
            assert version.answer() == "ready"
        pairs = []
        for turn in range(options.pairs):
            order = versions if turn % 2 else versions[::-1]
            found = {id(version): version.seconds() for version in order}
            pairs.append(tuple(found[id(version)] for version in versions))
        for version in versions:
            version.say("")
        ratios = [now / before for before, now in pairs]
        before, now = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
        low, _, high = statistics.quantiles(ratios, n=4)
        print(f"{name:28s} {before:7.3f} ms {now:7.3f} ms {statistics.median(ratios):7.3f}   {low:.3f} to {high:.3f}")
    for version in versions:
        version.stop()


if __name__ == "__main__":
    main()

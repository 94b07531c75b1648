"""How long the commands take from the shell: the first time, and once the kernels are compiled.

    python benchmarks/startup.py --repeat 15

Each time is that of a whole process, in turn, so that the load of the machine falls on all alike; the least and the
median of all repetitions are shown. The first plan has a new, empty cache of compiled kernels each time
(`NUMBA_CACHE_DIR`); Python's own cache of compiled modules is on, as it is by default. Beside them stand the same plan
with numba, which a setting of numba's asks for (the one that is its default), and what numba alone takes to load one
line of code from its cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ONE_LINE = """
import numba, numpy
@numba.njit(cache=True)
def first(x):
    return x[0]
first(numpy.zeros(1))
"""


LOADS_NUMBA = {"NUMBA_OPT": "3"}


def seconds(arguments: list[str], **more: str) -> float:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | more
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "one_line.py")
        script.write_text(ONE_LINE)
        plan = ["-m", "conrl", "plan", "mars-rover"]
        warm: dict[str, tuple[list[str], dict[str, str]]] = {
            "conrl --help": (["-m", "conrl", "--help"], {}),
            "import conrl": (["-c", "import conrl"], {}),
            "conrl plan mars-rover, kernels compiled": (plan, {}),
            "conrl plan mars-rover, kernels compiled, numba loaded": (plan, LOADS_NUMBA),
            "numba: one line of code from its cache": ([str(script)], {}),
        }
        times: dict[str, list[float]] = {name: [] for name in warm}
        for _ in range(repeat + 1):
            for name, (arguments, more) in warm.items():
                times[name].append(seconds(arguments, **more))
        times = {name: found[1:] for name, found in times.items()}  # the first one fills the caches
        first = [seconds(plan, NUMBA_CACHE_DIR=f"{folder}/cache-{i}") for i in range(max(1, repeat // 5))]
    times["conrl plan mars-rover, the first time"] = first
    print("| command | least | median |\n| --- | --- | --- |")
    for name, found in times.items():
        print(f"| {name} | {min(found):.2f} s | {statistics.median(found):.2f} s |")


if __name__ == "__main__":
    main()
